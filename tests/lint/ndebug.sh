#!/bin/sh
# What only an assert uses is a warning in the release build, which has no asserts: every file that
# has some is compiled without them. (All else that the release build warns of, the dev build does.)
cd "$(dirname "$0")/../.." || exit 2
flags=$(pkg-config --cflags jansson libcrypto openslide libopenjp2 libpng libtiff-4 hdf5 yaml-0.1 sqlite3 libprotobuf-c)
bin=${HRF_BIN_DIR:-build/dev/bin}
generated=$(find "$bin/.." -name onnx.pb-c.h -print -quit)
builds=$(find "$bin/.." -name module_builds.h -print -quit)
bad=0
for file in $(tests/lint/files.sh '\.c' | grep -v '^tests/' | xargs grep -l '^#include <assert.h>'); do
    # shellcheck disable=SC2086
    ${CC:-cc} -std=c17 -D_POSIX_C_SOURCE=200809L -DNDEBUG -DHRF_VERSION='""' -march=sapphirerapids -Wall -Wextra -Werror -fopenmp \
        -I. -I"${generated%/*}" -I"${builds%/*}" $flags -idirafter tests/emulated-cuda -fsyntax-only "$file" || bad=1
done
exit $bad
