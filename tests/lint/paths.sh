#!/bin/sh
# Every place of the source tree that README, CONTRIBUTING and docs/ name is there.
cd "$(dirname "$0")/../.." || exit 2
rooms=$(tests/lint/files.sh '' | sed -n 's|/.*||p' | sort -u | grep -v '^\.' | tr '\n' '|')
bad=0
for page in README.md CONTRIBUTING.md docs/*.md docs/*/*.md; do
    for place in $(grep -oE '`[^` ]+`' "$page" | tr -d '`' | grep -E "^(${rooms%|})/" |
        grep -vE '[*<>]|^build/' | sed 's/[.,:;]$//'); do
        for one in $(bash -c "echo $(printf '%s' "$place" | tr -dc 'A-Za-z0-9_./{},-')"); do
            [ -e "$one" ] || { echo "$page: there is no $one"; bad=1; }
        done
    done
done
exit $bad
