#!/bin/sh
# Every option that takes a number refuses one beyond its range, and says so as the help does.
. "$HRF_SOURCE_DIR/tests/cli/lib.sh"
make_cohort
cd "$scratch"
python3 "$HRF_SOURCE_DIR/tests/cli/options.py" "$HRF_BIN_DIR" "$scratch/cohort/testing/images/test_001.tif" \
    "$HRF_SOURCE_DIR/tests/golden/classifier.onnx" >"$scratch/out" 2>&1 || { cat "$scratch/out"; fail "an option and its range"; }
cat "$scratch/out"
[ ! -e not-written ] || fail "something was written"
