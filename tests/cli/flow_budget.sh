#!/bin/sh
# calibrate.budget: layers leave INT8 by their measured loss and time. The list is a part of the
# calibration, so a run that is killed, another run, ranks and a cluster compute with the same.
. "$HRF_SOURCE_DIR/tests/cli/lib.sh"
make_cohort
make_workflow "$scratch/w.yaml"
report() { python3 -c 'import json,sys; v=json.load(open(sys.argv[1] + "/report/report.json")); b=v["calibration"]["budget"]; assert eval(sys.argv[2]), v["calibration"]' "$1" "$2" || fail "not so: $2"; }
strict="--set precision=[fp32,int8] --set calibrate.budget.cosine=0.9999999 --set calibrate.method=auto"

# Killed after the choice, before it is stored.
HRF_CRASH_AT=run.calibrate.before_put "$flow" run "$scratch/w.yaml" --out "$scratch/killed" $strict >/dev/null 2>&1 || true
expect_code 3 "$flow" run "$scratch/w.yaml" --out "$scratch/killed" $strict
expect_code 3 "$flow" run "$scratch/w.yaml" --out "$scratch/clean" $strict
expect_text "found in the cache"
diff -r "$scratch/clean/results" "$scratch/killed/results" || fail "other bytes"
# Without VNNI layers may leave because they are not faster, before their loss counts.
grep -qE "(over calibrate.budget|INT8 is not faster here): alone in INT8 it turns the output by" "$scratch/err" || fail "no layer left"
expect_text "of the loss of 1e-07 that a cosine of 0.9999999 allows, the layers in INT8 take about"
report "$scratch/killed" 'b["measure"] == "cosine" and b["least"] == 0.9999999 and b["loss"] <= 1.01e-7'
report "$scratch/killed" '1 <= len(b["layers"]) and all(l["precision"] in ("fp32", "bf16") and l["loss"] >= 0 and min(l["int8_ms"], l["fp32_ms"], l["bf16_ms"]) > 0 for l in b["layers"])'
report "$scratch/killed" 'sum(l["loss"] for l in b["layers"]) > 1e-7 and min(b["int8_ms"], b["fp32_ms"], b["bf16_ms"]) > 0'
report "$scratch/killed" '("INT8 is not faster than" in b["summary"]) == (b["int8_ms"] >= min(b["fp32_ms"], b["bf16_ms"]))'
report "$scratch/killed" '[k["name"] for k in v["calibration"]["kept_in_float32"]] == [l["name"] for l in b["layers"] if l["precision"] == "fp32"]'
grep -q "calibrate.budget" "$scratch/killed/report/index.html" || fail "the page does not say it"

report "$scratch/killed" 'v["calibration"]["method"] == "auto" and {t["method"] for t in v["calibration"]["tensors"]} <= {"minmax", "percentile", "entropy", "mse", "rows"} and all(t["smoothing"] >= 0 for t in v["calibration"]["tensors"])'

# With nothing allowed, all that loses anything leaves, for FP32: the same scores.
expect_code 3 "$flow" run "$scratch/w.yaml" --out "$scratch/nothing" --set 'precision=[fp32, int8]' --set calibrate.budget.cosine=1
report "$scratch/nothing" 'b["loss"] == 0 and v["precisions"][1]["max_abs_difference"] == 0 and len(b["layers"]) > 10'

# Ranks compute with the same list; jobs of Slurm (the scripted one) measure one, too, here for classes.
if command -v mpirun >/dev/null && [ -e "$HRF_BIN_DIR/../lib/hires-flow/hrf_mpi.so" ]; then
    expect_code 3 "$flow" run "$scratch/w.yaml" --out "$scratch/ranks" $strict --set executor.local.ranks=2 --set engine.parallel.spatial=2
    diff -r "$scratch/killed/results/int8" "$scratch/ranks/results/int8" || fail "ranks: other bytes"
fi
if [ -x "$HRF_BIN_DIR/../tests/slurm_fake/sbatch" ]; then
    mkdir "$scratch/slurm"
    printf 'Slots=2\n' >"$scratch/slurm/config"
    sed 's/^executor:.*/executor: {type: slurm, patches_per_job: 20, slurm: {time: "00:10:00"}}/' "$scratch/w.yaml" >"$scratch/slurm.yaml"
    expect_code 3 env HRF_FAKE_SLURM="$scratch/slurm" PATH="$HRF_BIN_DIR/../tests/slurm_fake:$PATH" "$flow" run "$scratch/slurm.yaml" --out "$scratch/on_slurm" --set 'precision=[fp32, int8]' --set calibrate.budget.agreement=0.99
    report "$scratch/on_slurm" 'b["measure"] == "agreement" and b["loss"] <= 0.01 and v["precisions"][1]["patch_agreement"] >= 0.98'
    grep -q "^sbatch" "$scratch/slurm/calls" || fail "nothing was submitted to Slurm"
fi

# What INT8 loses is measured on patches that did not calibrate; where it is much, the terminal, the report and the
# page say so, with what a budget would give, and the budget gives it.
held() { python3 -c 'import json,sys; v=json.load(open(sys.argv[1] + "/report/report.json")); h=v["calibration"]["held_out"]; fp32,int8=v["precisions"]; assert eval(sys.argv[2]), (h, int8)' "$1" "$2" || fail "not so: $2"; }
python3 "$HRF_SOURCE_DIR/tests/cli/coarse_model.py" "$HRF_SOURCE_DIR/tests/golden/classifier.onnx" "$scratch/coarse.onnx"
coarse="--set model.file=$scratch/coarse.onnx --set precision=[fp32,int8] --set calibrate.samples=50"
held "$scratch/nothing" 'h["sqnr_db"] is None and h["cosine"] == 1 and h["labels_changed"] == 0 and not h["is_much"]'
expect_code 3 env HRF_CRASH_AT=engine.task.before_commit:3 "$flow" run "$scratch/w.yaml" --out "$scratch/coarse" $coarse
expect_text "warning calibrate: on 27 patches that did not calibrate, INT8's output has "
expect_text "; estimated with calibrate.budget: {cosine: 0.995}: "
held "$scratch/coarse" 'h["is_much"] and h["patches"] == h["labels"] == 27 and h["sqnr_db"] < 10 and h["cosine"] < 0.9 and h["labels_changed"] > 5'
held "$scratch/coarse" 'h["with_budget"]["loss"] <= 0.005 and h["with_budget"]["layers_left"] >= 1 and int8["patch_agreement"] < 0.9'
grep -q 'tag bad">INT8 loses much</span> on 27 patches' "$scratch/coarse/report/index.html" || fail "the page does not say it"
expect_code 3 "$flow" run "$scratch/w.yaml" --out "$scratch/mended" $coarse --set calibrate.budget.cosine=0.995
held "$scratch/mended" 'not h["is_much"] and h["cosine"] > 0.99 and h["labels_changed"] == 0 and int8["patch_agreement"] == 1'
"$flow" calibrate --show "$(python3 -c 'import json,sys; print(json.load(open(sys.argv[1]))["calibration"]["key"])' "$scratch/coarse/report/report.json")" >"$scratch/out"
expect_text "That is much (below 20 dB, or over 1 % of labels)"

expect_code 2 "$flow" check "$scratch/w.yaml" $strict --set calibrate.budget.agreement=0.99
expect_text "a budget is a cosine or an agreement"
echo "1 passed, 0 failed"
