#!/bin/sh
# Trainings as jobs are held back, and ended: `throttle --jobs 0` starts none of those that wait while the one under way
# goes on; `cancel` ends what runs, with a checkpoint, and shows nothing as running; both end with the bytes of trainings
# that nobody disturbed.
. "$HRF_SOURCE_DIR/tests/cli/lib.sh"
cd "$scratch"
export OMP_WAIT_POLICY=passive # tests run side by side
"$HRF_SOURCE_DIR/tests/cli/train_pictures.py" data 24 12
cat >plain.yaml <<END2
version: 1
model: {file: $HRF_SOURCE_DIR/tests/golden/classifier.onnx, last_layer: fresh}
data: {folders: data, patient_until: _}
classes: [normal, tumor]
split: {folds: 2}
train: {batch: 4, epochs: 4, optimizer: adamw, learning_rate: 0.002}
out: out-plain
END2
{ sed 's/out-plain/out-jobs/' plain.yaml; echo "executor: {max_jobs: 1}"; } >jobs.yaml
expect_code 0 "$flow" train plain.yaml
same() { # what was done
    for fold in 0 1; do diff -r "out-plain/fold-$fold-seed-1" "out-jobs/fold-$fold-seed-1" || fail "other bytes: $1"; done
}
is_json() { "$flow" status out-jobs --json >"$scratch/out" && python3 -c 'import json,sys; v=json.load(open(sys.argv[1])); assert eval(sys.argv[2]), v' "$scratch/out" "$1" || fail "not so: $1"; }

# Trainings that wait as long as a file is there; the others write progress and a checkpoint after each step.
cat >engine <<'END2'
#!/bin/sh
while [ "$1" = train-networks ] && [ -e "$hold" ]; do sleep 0.05; done
exec "$engine" "$@"
END2
chmod +x engine
export HRF_ENGINE=$scratch/engine engine hold=$scratch/hold HRF_PART_MS=0
begin() {
    "$flow" train jobs.yaml >first 2>driver &
    pid=$!
    until ls out-jobs/jobs/train*/start.json >/dev/null 2>&1; do
        kill -0 $pid 2>/dev/null || { cat driver; fail "the driver ended"; }
        sleep 0.05
    done
}
n_jobs() { ls -d out-jobs/jobs/train* | wc -l; }

# Held back: the training under way ends, the other one does not begin until it may.
touch hold
begin
expect_code 0 "$flow" throttle out-jobs --jobs 0
expect_text "no new jobs; running jobs continue"
rm hold
until [ -e out-jobs/fold-0-seed-1/result.json ]; do
    kill -0 $pid 2>/dev/null || { cat driver; fail "the driver ended"; }
    sleep 0.05
done
until "$flow" status out-jobs --json | grep -q '"done": *1'; do
    kill -0 $pid 2>/dev/null || { cat driver; fail "the driver ended"; }
    sleep 0.1
done
sleep 2 # the driver looks at the limit each second
[ "$(n_jobs)" = 1 ] || fail "a job was begun though none may"
[ ! -e out-jobs/fold-1-seed-1/result.json ] || fail "the other training was begun"
is_json 'v["driver"] > 0 and v["tasks"]["train"]["done"] == 1'
expect_code 0 "$flow" throttle out-jobs --off
code=0
wait $pid || code=$?
[ "$code" = 0 ] || { cat driver; fail "the driver ended with $code"; }
[ "$(n_jobs)" = 2 ] || fail "jobs: $(ls out-jobs/jobs)"
same "held back"

# Ended while it waits, and while it hangs. The checkpoint stays, and the next driver goes on from it.
rm -rf out-jobs
touch hold
begin
kill -INT $pid
code=0
wait $pid || code=$?
[ "$code" = 130 ] || fail "interrupted with $code"
is_json 'v["driver"] == 0 and v["jobs"][0]["state"] == "running"'
export HRF_CRASH_AT=train.epoch:2 HRF_CRASH_SIGNAL=STOP # it hangs after its second epoch
expect_code 0 "$flow" cancel out-jobs --json
expect_text '"jobs_ended":1'
rm hold
is_json 'v["tasks"]["train"]["running"] == v["tasks"]["train"]["in_queue"] == 0 and all(j["state"] != "running" for j in v["jobs"])'
begin # whose training stops there
history=out-jobs/fold-0-seed-1/history.csv
until [ -e $history ] && [ "$(wc -l <$history)" = 3 ]; do
    kill -0 $pid 2>/dev/null || { cat driver; fail "the driver ended"; }
    sleep 0.05
done
kill -INT $pid
code=0
wait $pid || code=$?
[ "$code" = 130 ] || fail "interrupted with $code"
expect_code 0 "$flow" cancel out-jobs
expect_text "1 job ended"
unset HRF_CRASH_AT HRF_CRASH_SIGNAL
[ -e out-jobs/fold-0-seed-1/checkpoint.bin ] && [ ! -e out-jobs/fold-0-seed-1/result.json ] || fail "no checkpoint stays"
expect_code 0 "$flow" status out-jobs
! grep "running\|goes on" "$scratch/out" || fail "something is shown as running"
expect_code 0 "$flow" train jobs.yaml
same "ended and begun again"
cat out-jobs/jobs/train*/log | grep -q "goes on after epoch 1 and" || fail "it did not go on from the checkpoint"
echo "1 passed, 0 failed"
