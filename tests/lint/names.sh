#!/bin/sh
# A file's base name says which room it is of: no two folders of product code hold files of the same
# base name. Two shared interfaces are the exception, where the folder tells the files apart: the
# subcommands of a program (*/cli, one file a verb) and the back ends (each with its attention, conv
# and so on).
cd "$(dirname "$0")/../.." || exit 2
tests/lint/files.sh '\.(c|h|cu|cuh)' | grep -v '^tests/' | while read -r file; do
    [ -e "$file" ] && echo "${file%.*}"
done | sort -u | awk '
    /\/cli\/[^\/]*$/ { next }
    {
        folder = $0
        sub(/\/[^\/]*$/, "", folder)
        base = substr($0, length(folder) + 2)
        family = folder
        sub(/^engine\/backend\/(ref|cpu|cuda)(\/.*)?$/, "engine/backend/*", family)
        if (base in place && families[base] != family) {
            print $0 " and " place[base] "/" base ": the same base name in two rooms"
            bad = 1
        }
        place[base] = folder
        families[base] = family
    }
    END { exit bad }'
