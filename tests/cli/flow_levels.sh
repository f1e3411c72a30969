#!/bin/sh
# Slides whose level for the patches has lost tiles while the overview still shows the tissue: they
# fail, and why is told, instead of being scored on white.
. "$HRF_SOURCE_DIR/tests/cli/lib.sh"
any_patches
tests=$HRF_BIN_DIR/../tests
images=$scratch/cohort/testing/images
"$tests/make_mosaic" "$patches" "$scratch/cohort" 2
cp "$images/test_002.tif" "$scratch/sound.tif"
cat >"$scratch/w.yaml" <<END
version: 1
name: levels
dataset: {layout: camelyon16, root: $scratch/cohort}
tiler: {patch: {size: 128, mpp: 0.5}}
model: {file: $HRF_SOURCE_DIR/tests/golden/classifier.onnx}
END

# Patches of 0.5 um are read from level 1; every tile of it is gone.
"$tests/empty_tiles" "$images/test_002.tif" 1
expect_code 3 "$flow" run "$scratch/w.yaml" --out "$scratch/run"
expect_text "1 done, 1 failed"
expect_code 0 "$flow" why "$scratch/run" test_002
expect_text "do not show the same at x "
grep -q "^test_001,normal," "$scratch/run/results/labels.csv" || fail "the sound slide has no label"
! grep -q "^test_002,\(normal\|tumor\)" "$scratch/run/results/labels.csv" || fail "it got a label"

# One tile in the middle of the tissue, found by the patch that lies on it.
cp "$scratch/sound.tif" "$images/test_002.tif"
"$tests/empty_tiles" "$images/test_002.tif" 1 24
expect_code 3 "$flow" run "$scratch/w.yaml" --out "$scratch/tile"
expect_code 0 "$flow" why "$scratch/tile" test_002
expect_text "do not show the same at x "

# The sound slide has its label.
cp "$scratch/sound.tif" "$images/test_002.tif"
expect_code 0 "$flow" run "$scratch/w.yaml" --out "$scratch/again"
grep -q "^test_002,tumor," "$scratch/again/results/labels.csv" || fail "no label for the sound slide"
echo "1 passed, 0 failed"
