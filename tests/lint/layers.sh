#!/bin/sh
# The dependency law of layers.txt: which folder may include which. The longest listed folder
# that holds a file decides; an allowed entry is a folder (with all below it) or one header.
cd "$(dirname "$0")/../.." || exit 2
git ls-files -co --exclude-standard -- '*.c' '*.h' '*.cu' | grep -v '^tests/' |
    xargs grep -Hn '^#include "' 2>/dev/null |
    awk -v law=tests/lint/layers.txt '
        BEGIN {
            while ((getline line < law) > 0) {
                if (line ~ /^#/ || line !~ /:/) continue
                split(line, part, ":")
                allowed[part[1]] = part[2]
            }
        }
        {
            split($0, part, ":")
            file = part[1]
            match($0, /"[^"]*"/)
            used = substr($0, RSTART + 1, RLENGTH - 2)
            folder = file
            do sub(/\/?[^\/]*$/, "", folder); while (folder != "" && !(folder in allowed))
            if (folder == "") { print file ": no line of tests/lint/layers.txt covers it"; bad = 1; next }
            ok = 0
            n = split(allowed[folder], entry, " ")
            for (i = 1; i <= n; i++)
                if (used == entry[i] || index(used, entry[i] "/") == 1) ok = 1
            if (!ok) { print file ":" part[2] ": " folder " must not include \"" used "\""; bad = 1 }
        }
        END { exit bad }'
