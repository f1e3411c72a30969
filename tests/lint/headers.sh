#!/bin/sh
# Every header compiles alone; where there is no CUDA toolkit, against the emulated one. Of one that the source
# beside it includes before anything else, the build has shown that.
cd "$(dirname "$0")/../.." || exit 2
flags=$(pkg-config --cflags jansson libcrypto openslide libopenjp2 libpng libtiff-4 hdf5 yaml-0.1 sqlite3 libprotobuf-c)
bad=0
for header in $(tests/lint/files.sh '\.h' | grep -vE '^tests/(.*fixtures|emulated-avx512)/'); do
    [ "$(grep -m 1 -E '^[[:space:]]*[#a-z]' "${header%.h}.c" 2>/dev/null)" != "#include \"$header\"" ] || continue
    # shellcheck disable=SC2086
    ${CC:-cc} -std=c17 -D_POSIX_C_SOURCE=200809L -Wall -Wextra -Wpedantic -Werror -Wno-unused-function \
        -I. $flags -idirafter tests/emulated-cuda -fsyntax-only -x c "$header" || bad=1
done
exit $bad
