#!/bin/bash
# Every place of the source tree that README, CONTRIBUTING and docs/ name is there.
cd "$(dirname "$0")/../.." || exit 2
rooms=$(tests/lint/files.sh '' | sed -n 's|/.*||p' | sort -u | grep -v '^\.' | paste -s -d '|')
bad=0
while IFS=: read -r page place; do
    # Nothing is left in it that the shell would do more with than expand its braces.
    eval "set -- ${place//[^A-Za-z0-9_.\/{\},-]/}"
    for one; do
        [ -e "$one" ] || { echo "$page: there is no $one"; bad=1; }
    done
done < <(grep -oHE '`[^` ]+`' README.md CONTRIBUTING.md docs/*.md docs/*/*.md | tr -d '`' |
    grep -E "^[^:]*:($rooms)/" | grep -vE '[*<>]|^[^:]*:build/' | sed 's/[.,:;]$//')
exit $bad
