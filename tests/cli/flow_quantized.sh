#!/bin/sh
# A model that another tool quantised, with uint8 weights: it runs in INT8 with its own scales, and
# what stays in float32 all the same is in report.json and on the page.
. "$HRF_SOURCE_DIR/tests/cli/lib.sh"
make_cohort
make_workflow "$scratch/w.yaml"
model=$HRF_SOURCE_DIR/tests/golden/qdq/shifted.onnx
sed -i "s|^model:.*|model: {file: $model, classes: [normal, tumor]}|; s|size: 64|size: 16, stride: 64|; s|patches_per_job: 20|patches_per_job: 2000|" "$scratch/w.yaml"
report() { python3 -c 'import json,sys; v=json.load(open(sys.argv[1])); assert eval(sys.argv[2]), v' "$1/report/report.json" "$2" || fail "not so: $2"; }
kept="node 'conv_23_node' (Conv) stays in float32: the model gives its weights no scales that 8 bits can use"

expect_code 3 "$flow" run "$scratch/w.yaml" --out "$scratch/run" --set 'precision=[fp32, int8]' # one slide is broken
report "$scratch/run" 'v["precisions"][0]["notes"] == []'
# Nothing is calibrated for scales that are there.
[ "$(sqlite3 "$scratch/run/run.db" "SELECT count(*) FROM task WHERE kind=2")" = 0 ] || fail "patches were observed"
[ ! -e "$XDG_CACHE_HOME/hires-flow/calibrations.db" ] && ! ls "$scratch"/run/calibration-* 2>/dev/null || fail "a calibration was made"
report "$scratch/run" 'v["calibration"]["key"] is None and v["calibration"]["key_reason"] == "the model brings its own INT8 scales"'
expect_code 3 "$flow" run "$scratch/w.yaml" --out "$scratch/run" --set 'precision=[fp32, int8]'
[ "$(sqlite3 "$scratch/run/run.db" "SELECT count(*) FROM event WHERE subject='task'")" = "$(sqlite3 "$scratch/run/run.db" "SELECT count(*) FROM task WHERE state=2")" ] || fail "something was computed twice"
expect_code 2 "$flow" calibrate "$scratch/w.yaml" --out "$scratch/nothing"
expect_text "brings its own INT8 scales (QuantizeLinear): there is nothing to calibrate"
report "$scratch/run" "any(n == \"$kept\" for n in v['precisions'][1]['notes'])"
report "$scratch/run" "not any('conv_5' in n for n in v['precisions'][1]['notes'])" # zero point 128
# FP32 computes the pairs as they are, so the two agree to the rounding of a step.
report "$scratch/run" 'v["precisions"][1]["patch_agreement"] > 0.99 and 0 <= v["precisions"][1]["max_abs_difference"] < 0.02'
escaped=$(echo "$kept" | sed "s/'/\&#39;/g")
grep -qF "<dd>$escaped</dd>" "$scratch/run/report/index.html" || fail "the page does not say what stays in float32"

expect_code 0 "$flow" infer "$scratch/cohort/testing/images/test_001.tif" --model "$model" --size 16 --mpp 0.5 --precision int8 --set tiler.patch.stride=64 --out "$scratch/infer"
report "$scratch/infer" "any(n == \"$kept\" for n in v['precisions'][0]['notes'])"
cmp "$scratch/run/results/int8/model-outputs-csv/test_001.csv" "$scratch/infer/results/int8/model-outputs-csv/test_001.csv" || fail "infer gives other scores than run"
