#!/bin/sh
# Slide mode: each slide is one image, with a score, a class map as heatmap, and a record of each.
. "$HRF_SOURCE_DIR/tests/cli/lib.sh"
make_cohort
make_workflow "$scratch/w.yaml"
sed -i 's/^tiler:.*/tiler: {mode: slide, slide: {size: 512, mpp: 0.5}}/' "$scratch/w.yaml"

expect_code 0 "$flow" plan "$scratch/w.yaml"
expect_text "each slide as one image of 512 px at 0.5 um/px"
expect_code 3 "$flow" run "$scratch/w.yaml" --out "$scratch/run"
expect_text "4 slides: 3 done, 1 failed"
expect_text "fp32: 3 patches"
[ -s "$scratch/run/results/fp32/heatmaps/test_002.png" ] || fail "no heatmap"
cp -r "$scratch/run/results" "$scratch/first"

# Other jobs, other threads: the same bytes.
expect_code 3 "$flow" run "$scratch/w.yaml" --out "$scratch/other" --set executor.max_jobs=1
diff -r "$scratch/first" "$scratch/other/results" || fail "job sizes change the results"

# Back to patches in the same directory: scored anew, as patches.
expect_code 3 "$flow" run "$scratch/w.yaml" --out "$scratch/run" --set tiler.mode=patch --set tiler.patch.size=64
expect_text "4 slides: 3 done, 1 failed"
cmp -s "$scratch/first/fp32/heatmaps/test_002.png" "$scratch/run/results/fp32/heatmaps/test_002.png" &&
    fail "the heatmap is still the slide's"

expect_code 0 "$flow" tile "$scratch/cohort/testing/images/test_001.tif" --mode slide --size 512 --mpp 0.5
expect_text "frame of 1024 x 1024 level-0 px"
expect_code 2 "$flow" tile "$scratch/cohort/testing/images/test_001.tif" --mode cube
expect_text "tiler mode 'cube' is not known"
echo "1 passed, 0 failed"
