#!/bin/sh
# One calibration, whoever needs it: runs at the same time, copies of the model, a maker that dies.
. "$HRF_SOURCE_DIR/tests/cli/lib.sh"
make_cohort
make_workflow "$scratch/w.yaml"
cat >>"$scratch/w.yaml" <<END
precision: [fp32, int8]
calibrate: {samples: 40}
report: {heatmaps: false, geojson: false, csv: false, html: false}
END
observed() { sqlite3 "$scratch/$1/run.db" "SELECT count(*) FROM task WHERE kind=2"; }
kept() { sqlite3 "$XDG_CACHE_HOME/hires-flow/calibrations.db" "SELECT count(*) FROM $1"; }

# Two at once: one looks at the sample, the other waits and finds the ranges.
"$flow" run "$scratch/w.yaml" --out "$scratch/a" >"$scratch/a.out" 2>&1 &
first=$!
"$flow" run "$scratch/w.yaml" --out "$scratch/b" >"$scratch/b.out" 2>&1 &
second=$!
code=0
wait $first || code=$?
[ $code = 3 ] || { cat "$scratch/a.out"; fail "the first run ended with $code"; }
code=0
wait $second || code=$?
[ $code = 3 ] || { cat "$scratch/b.out"; fail "the second run ended with $code"; }
[ "$(kept calibration)" = 1 ] || fail "$(kept calibration) calibrations, not 1"
[ "$(kept claim)" = 0 ] || fail "a claim was left behind"
case $(observed a),$(observed b) in
0,[1-9]* | [1-9]*,0) ;;
*) fail "sampled by $(observed a) and $(observed b) tasks: not once" ;;
esac
diff -r "$scratch/a/results" "$scratch/b/results" || fail "the two gave other results"

# A copy of the model under another name is the same model; another cohort folder of the same slides too.
cp "$HRF_SOURCE_DIR/models/demo.onnx" "$scratch/copy.onnx"
cp -r "$scratch/cohort" "$scratch/cohort2"
expect_code 0 "$flow" calibrate "$scratch/w.yaml" --out "$scratch/c" --set model.file="$scratch/copy.onnx" --set dataset.root="$scratch/cohort2"
expect_text "known from before"

# Other pixels, another sample, other slides: not the same calibration.
expect_code 0 "$flow" calibrate "$scratch/w.yaml" --out "$scratch/c" --set 'model.input.mean=[0.5, 0.5, 0.5]'
expect_text "calibrated:"
expect_code 0 "$flow" calibrate "$scratch/w.yaml" --out "$scratch/c" --set calibrate.seed=7
expect_text "calibrated:"
expect_code 0 "$flow" calibrate "$scratch/w.yaml" --out "$scratch/c" --set 'dataset.exclude=[test_001]'
expect_text "calibrated:"
[ "$(kept calibration)" = 4 ] || fail "$(kept calibration) calibrations, not 4"

# The maker dies: nothing of it is in use, and the next run makes it.
rm -rf "$XDG_CACHE_HOME"
for point in run.calibrate.claimed run.calibrate.before_put; do
    HRF_CRASH_AT=$point:1 "$flow" calibrate "$scratch/w.yaml" --out "$scratch/dies" --set calibrate.samples=30 >/dev/null 2>&1 || true
    [ "$(kept calibration)" = 0 ] || fail "$point: a calibration that was never finished is in the store"
    [ "$(kept claim)" = 1 ] || fail "$point: no claim was made"
done
expect_code 0 "$flow" calibrate "$scratch/w.yaml" --out "$scratch/other" --set calibrate.samples=30
expect_text "calibrated:"
[ "$(kept calibration),$(kept claim)" = 1,0 ] || fail "the store is not in order"
echo "1 passed, 0 failed"
