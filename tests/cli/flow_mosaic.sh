#!/bin/sh
# Slides laid out of patches, real ones where there are any, with known truth: a model tells them apart without a mistake.
. "$HRF_SOURCE_DIR/tests/cli/lib.sh"
any_patches
"$HRF_BIN_DIR/../tests/make_mosaic" "$patches" "$scratch/cohort" 8
cat >"$scratch/w.yaml" <<END
version: 1
name: mosaic
dataset: {layout: camelyon16, root: $scratch/cohort}
tiler: {patch: {size: 128, mpp: 0.5}}
model: {file: $HRF_SOURCE_DIR/tests/golden/classifier.onnx}
END
expect_code 0 "$flow" run "$scratch/w.yaml" --out "$scratch/run" --json
expect_code 0 "$flow" aggregate "$scratch/run"
cat "$scratch/out"
expect_text "slide AUC 1.0000"
expect_text "accuracy 1.0000"
[ "$(grep -c ',Tumor\|,tumor' "$scratch/run/results/labels.csv")" = 4 ] || fail "not four of eight"
echo "1 passed, 0 failed"
