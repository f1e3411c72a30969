#!/bin/sh
# Readers of images that OpenSlide does not take, against Pillow (readers.py).
. "$HRF_SOURCE_DIR/tests/cli/lib.sh"
python=/usr/bin/python3 # with Debian's Pillow and NumPy
[ -x $python ] || { echo "no $python"; exit 77; }
for program in tile\ x.svs doctor; do # a library that was asked for and is not there is told, not replaced
    HRF_OPENSLIDE=$scratch/none.so "$flow" $program >"$scratch/out" 2>&1 && [ "$program" != doctor ] && fail "$program takes another OpenSlide"
    [ "$program" != doctor ] || grep -q "HRF_OPENSLIDE names a library that is not used" "$scratch/out" || fail "doctor is silent"
done
exec $python "$HRF_SOURCE_DIR/tests/cli/readers.py" "$HRF_BIN_DIR/../tests/dump_level" "$HRF_SHARED_DATA" "$scratch"
