#!/bin/sh
# Slide names are data: spaces, quotes, newlines, emoji and markup reach no shell and no path.
. "$HRF_SOURCE_DIR/tests/cli/lib.sh"
make_cohort
make_workflow "$scratch/w.yaml"
mkdir "$scratch/odd"
slide=$scratch/cohort/testing/images/test_001.tif
for name in 'a b' "it's \"quoted\"" 'new
line' '😐' '<script>alert(1)</script>' '$(touch pwned)' '-rf'; do
    # a name with a slash cannot be a file name: the markup loses its one
    copy="$scratch/odd/$(printf '%s' "$name" | tr -d /).tif"
    cp "$slide" "$copy"
    printf '%s' "$name" >>"$copy" # another slide: equal ones would be taken once
done
cat >"$scratch/odd.yaml" <<END
version: 1
name: odd
dataset: {layout: files, files: ["$scratch/odd/*.tif"]}
tiler: {patch: {size: 64, mpp: 0.5}, tissue: {min_patches: 4}}
model: {file: $HRF_SOURCE_DIR/tests/golden/classifier.onnx}
END
expect_code 0 "$flow" run "$scratch/odd.yaml" --out "$scratch/run"
expect_text "7 slides: 7 done"
[ "$(find "$scratch/run/results/fp32/model-outputs-csv" -name '*.csv' | wc -l)" = 7 ] || fail "a slide was lost"
grep -q '<script>alert' "$scratch/run/report/index.html" && fail "markup of a name reached the page"
[ ! -e pwned ] || fail "a name reached a shell"
echo "1 passed, 0 failed"
