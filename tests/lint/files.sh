#!/bin/sh
# files.sh ENDS: the project's own files, a line each, whose names end as the extended regular expression
# says: those that git tracks or would track, or all but what a build makes where there is no repository
# (an archive of the sources, which may lie inside some other repository).
cd "$(dirname "$0")/../.." || exit 2
if [ -e .git ]; then
    git ls-files -co --exclude-standard
else
    find . -type d \( -path ./build -o -path ./python/build -o -name '*.egg-info' -o -name __pycache__ \) -prune \
        -o -type f -print | sed 's|^\./||'
fi | grep -E "($1)\$" | LC_ALL=C sort
