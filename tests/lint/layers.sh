#!/bin/sh
# The dependency law of layers.txt: which folder may include which, and which library's header. The
# longest listed folder that holds a file decides; an allowed entry is a folder (with all below it)
# or one header.
cd "$(dirname "$0")/../.." || exit 2
tests/lint/files.sh '\.(c|h|cu|cuh)' | grep -v '^tests/' |
    xargs grep -HnE '^# *include ["<]' 2>/dev/null |
    awk -v law=tests/lint/layers.txt '
        function is_in(place, places,    entry, i, n) {
            n = split(places, entry, " ")
            for (i = 1; i <= n; i++)
                if (place == entry[i] || index(place, entry[i] "/") == 1) return 1
            return 0
        }
        function refuse(what) { print file ":" part[2] ": " folder " must not include " what; bad = 1 }
        BEGIN {
            while ((getline line < law) > 0) {
                if (line ~ /^#/ || line !~ /: /) continue
                split(line, part, ": ")
                if (line ~ /^</) library[part[1]] = part[2]
                else allowed[part[1]] = part[2]
            }
        }
        {
            split($0, part, ":")
            file = part[1]
            match($0, /["<][^">]*[">]/)
            used = substr($0, RSTART, RLENGTH)
            folder = file
            sub(/\/[^\/]*$/, "", folder)
            if (used == "\"module_builds.h\"") next # made by the build, for a module and its loaders
            if (used ~ /^</) {
                for (prefix in library)
                    if (index(used, prefix) == 1 && !is_in(folder, library[prefix])) refuse(used)
                next
            }
            while (folder != "" && !(folder in allowed)) sub(/\/?[^\/]*$/, "", folder)
            if (folder == "") { print file ": no line of tests/lint/layers.txt covers it"; bad = 1; next }
            if (!is_in(substr(used, 2, length(used) - 2), allowed[folder])) refuse(used)
        }
        END { exit bad }'
