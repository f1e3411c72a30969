#!/bin/sh
# The C interface and the Python package over it: the example compiles against an installation and
# gives what the engine gives, and slides are what openslide-python reads.
. "$HRF_SOURCE_DIR/tests/cli/lib.sh"
build=$HRF_BIN_DIR/..
if ldd "$build/lib/libhires_flow.so" | grep -q 'libasan\|libtsan'; then
    echo "a program without the sanitizer cannot load the library with it" >&2
    exit 77
fi
python=/usr/bin/python3
"$python" -c 'import numpy, openslide, pandas' 2>/dev/null ||
    { echo "python3-numpy, -openslide or -pandas is missing" >&2; exit 77; }
expect_code 0 cmake --install "$build" --prefix "$scratch/usr"
make_cohort
slide=$scratch/cohort/testing/images/test_001.tif
model=$HRF_SOURCE_DIR/tests/golden/classifier.onnx

# C, by pkg-config alone; only the interface can be linked to.
export PKG_CONFIG_PATH=$scratch/usr/lib/pkgconfig LD_LIBRARY_PATH=$scratch/usr/lib
expect_code 0 sh -c 'cc -Wall -Wextra -Werror -std=c11 "$1"/usr/share/doc/hires-flow/example/score_patch.c \
    $(pkg-config --cflags --libs hires-flow) -o "$1"/score' sh "$scratch"
expect_code 0 sh -c 'echo "#include <hires_flow.h>" >"$1"/x.cc && c++ -Wall -Werror -I"$1"/usr/include -c "$1"/x.cc -o "$1"/x.o' sh "$scratch"
make_workflow "$scratch/w.yaml"
expect_code 3 "$flow" run "$scratch/w.yaml" --out "$scratch/run"
# Name and number of each patch's classes are those of the run, to the six digits of its tables.
tail -n +2 "$scratch/run/results/fp32/model-outputs-csv/test_001.csv" | sed -n '1p;20p' | while IFS=, read -r x y _ _ normal tumor _; do
    expect_code 0 "$scratch/score" "$model" "$slide" "$x" "$y" 64 0.5 normal tumor
    LC_ALL=C awk -v normal="$normal" -v tumor="$tumor" 'function near(a, b) { return (a - b) ^ 2 < 1e-10 }
        NR == 1 { ok = $1 == "normal" && near($2, normal) } NR == 2 { ok = ok && $1 == "tumor" && near($2, tumor) }
        END { exit !(ok && NR == 2) }' "$scratch/out" || fail "other scores than the run's $normal, $tumor"
done
expect_code 1 "$scratch/score" "$model" "$scratch/none.tif" 0 0 64 0.5 normal tumor
expect_text "none.tif"
nm -D --defined-only "$scratch/usr/lib/libhires_flow.so" | awk '{ print $3 }' | grep -v '^hires_flow_' >"$scratch/out" &&
    fail "the library exports more than its interface"

# Python.
expect_code 3 "$flow" run "$scratch/w.yaml" --out "$scratch/run-resized" --set 'precision=[fp32, int8]' --set tiler.patch.size=96 \
    --set model.input.size=64 --set model.input.resize=72 --set model.input.interpolation=bicubic --set calibrate.samples=16
expect_code 0 "$flow" calibrate --list
expect_code 0 "$flow" calibrate --show "$(cut -c1-16 "$scratch/out" | head -n 1)" --export "$scratch/calibration.json"
export PYTHONPATH=$HRF_SOURCE_DIR/python PYTHONDONTWRITEBYTECODE=1
expect_code 0 "$python" "$HRF_SOURCE_DIR/tests/library/check_python.py" "$engine" "$model" "$slide" "$scratch/run" "$scratch"
cat "$scratch/out"
