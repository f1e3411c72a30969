#!/bin/sh
# Two finished runs against each other: the same figures as one run of both precisions gives.
. "$HRF_SOURCE_DIR/tests/cli/lib.sh"
make_cohort
make_workflow "$scratch/w.yaml"
holds() { python3 -c 'import json,sys; v=json.load(open(sys.argv[1])); assert eval(sys.argv[2]), v' "$1" "$2" || fail "not so: $2"; }

expect_code 3 "$flow" run "$scratch/w.yaml" --out "$scratch/both" --set 'precision=[fp32, int8]'
expect_code 3 "$flow" run "$scratch/w.yaml" --out "$scratch/one" --set 'precision=[fp32]'
expect_code 3 "$flow" run "$scratch/w.yaml" --out "$scratch/two" --set 'precision=[int8]'
expect_code 0 "$flow" compare "$scratch/one" "$scratch/two" --json --out "$scratch/compared"
cp "$scratch/out" "$scratch/compare.json"
holds "$scratch/compare.json" 'v["slides"] == 3 and v["notes"] == [] and v["patches"] > 50'
holds "$scratch/compare.json" '[p["precision"] for p in v["precisions"]] == ["A:fp32", "B:int8"]'
python3 - "$scratch/compare.json" "$scratch/both/report/report.json" <<'END' || fail "other figures than in one run"
import json, sys
a, b = (json.load(open(f))["precisions"] for f in sys.argv[1:])
for key in ("patch_agreement", "max_abs_difference", "mean_abs_difference", "slide_auc", "delong_p_reason", "patches",
            "patches_compared", "calibration_error", "confusion", "slide_flips", "difference_histogram"):
    for x, y in zip(a, b):
        assert x.get(key) == y.get(key), (key, x.get(key), y.get(key))
END
for file in compare.json study.csv patch-flips.csv index.html; do
    [ -s "$scratch/compared/$file" ] || fail "no $file"
done
expect_code 0 "$flow" compare "$scratch/one" "$scratch/two"
expect_text "3 slides in both"
expect_text "B:int8"

# Another stride: what has no match is named, and in no figure.
expect_code 3 "$flow" run "$scratch/w.yaml" --out "$scratch/wide" --set tiler.patch.stride=128
expect_code 0 "$flow" compare "$scratch/one" "$scratch/wide"
expect_text "only in A"
# The same names for other slides: nothing is compared; for some of them: those are in no figure.
"$flow" demo-data "$scratch/other" --slides 4 --size 1300 --difficulty 0 --seed 9 >/dev/null 2>&1
expect_code 3 "$flow" run "$scratch/w.yaml" --out "$scratch/namesakes" --set dataset.root="$scratch/other"
expect_code 2 "$flow" compare "$scratch/one" "$scratch/namesakes" --out "$scratch/none"
expect_text "the 3 slides of one name (test_001, ...) are other files in B than in A, so nothing is compared"
[ ! -e "$scratch/none" ] || fail "something was written"
cp "$scratch/cohort/testing/images/test_002.tif" "$scratch/other/testing/images/test_002.tif"
expect_code 3 "$flow" run "$scratch/w.yaml" --out "$scratch/namesakes" --set dataset.root="$scratch/other"
expect_code 0 "$flow" compare "$scratch/one" "$scratch/namesakes" --json
cp "$scratch/out" "$scratch/compare.json"
holds "$scratch/compare.json" 'v["slides"] == 1 and [n["slide"] for n in v["notes"]] == ["test_001", "test_003"] and v["patches_only_in_a"] == v["patches_only_in_b"] == 0'
holds "$scratch/compare.json" '[p["patches"] for p in v["precisions"]] == [v["patches"]] * 2 and v["precisions"][1]["max_abs_difference"] == 0'
expect_code 2 "$flow" compare "$scratch/one"
expect_code 2 "$flow" compare "$scratch/one" "$scratch/nowhere"
expect_text "there is no run in"
echo "1 passed, 0 failed"
