#!/bin/sh
# `train` with a section `executor`: each fold and seed is a job. The same bytes as without, after a kill of the
# driver, of a launcher or of a training at any point; nothing is done twice; what does not fit is refused.
. "$HRF_SOURCE_DIR/tests/cli/lib.sh"
cd "$scratch"
export OMP_WAIT_POLICY=passive # tests run side by side
"$HRF_SOURCE_DIR/tests/cli/train_pictures.py" data 24 12
recipe() { # file, its executor
    cat >"$1.yaml" <<END
version: 1
model: {file: $HRF_SOURCE_DIR/tests/golden/classifier.onnx, last_layer: fresh}
data: {folders: data, patient_until: _}
classes: [normal, tumor]
split: {folds: 2}
train: {batch: 8, epochs: 2, optimizer: adamw, learning_rate: 0.002, seeds: [1, 7]}
out: out-$1
END
    [ -z "$2" ] || echo "executor: $2" >>"$1.yaml"
}
# All that a training leaves; a run has files of its own beside it.
same() { # folder, what was done to it
    for f in fold-0-seed-1 fold-1-seed-1 fold-0-seed-7 fold-1-seed-7 report summary.json; do
        diff -r "out-plain/$f" "$1/$f" || fail "other bytes: $2"
    done
}
events() { sqlite3 "$1/run.db" "SELECT count(*), count(DISTINCT text) FROM event WHERE subject='task'"; }
recipe plain ""
expect_code 0 "$flow" train plain.yaml
sed 's/out-plain/out/' "$scratch/out" >plain.text

recipe jobs "{max_jobs: 2}"
expect_code 0 "$flow" train jobs.yaml
expect_text "trained 4/4"
sed 's/out-jobs/out/' "$scratch/out" | diff plain.text - || fail "another summary"
sed -i 's/jobs.yaml/plain.yaml/' out-jobs/report/index.html # the page names its file
same out-jobs "jobs"
[ "$(events out-jobs)" = "4|4" ] || fail "tasks: $(events out-jobs)"
expect_code 0 "$flow" status out-jobs
expect_text "train     4 done"
expect_code 0 "$flow" why out-jobs
expect_code 0 "$flow" train jobs.yaml --json
python3 -c "import json,sys; s=json.load(open(sys.argv[1])); assert len(s['trainings']) == 4 and s['pictures'] == 36, s" "$scratch/out" || fail "--json"
[ "$(events out-jobs)" = "4|4" ] || fail "something was done again"

# What was trained without jobs is not trained again; what is gone is.
sed 's/out: .*/out: out-plain/' jobs.yaml >adopted.yaml
cp -r out-plain kept
rm -r out-plain/fold-0-seed-7
expect_code 0 "$flow" train adopted.yaml
[ "$(ls out-plain/jobs | grep -c '^train')" = 1 ] || fail "jobs: $(ls out-plain/jobs)"
rm -r out-plain
mv kept out-plain
rm -r out-jobs/fold-1-seed-7
expect_code 0 "$flow" train jobs.yaml
sed -i 's/jobs.yaml/plain.yaml/' out-jobs/report/index.html
same out-jobs "one removed"

# Killed at any point: driver, launcher or worker. HRF_PART_MS=0: a checkpoint after each step.
for point in run.submit.after_intent run.submit.after_start run.import.before_commit:2 launch.worker.after launch.done.before \
    train.start train.step:2 train.checkpoint.after:2 train.epoch train.write.before train.result.after train.task.before_commit train.task.after_commit; do
    rm -rf out-jobs
    HRF_PART_MS=0 HRF_RETRY_MS=0 HRF_CRASH_SIGNAL=SEGV HRF_CRASH_AT=$point "$flow" train jobs.yaml >/dev/null 2>&1 || true
    # Without the driver its jobs go on, and one that was killed has been tried again.
    expect_code 0 "$flow" train jobs.yaml
    sed -i 's/jobs.yaml/plain.yaml/' out-jobs/report/index.html
    same out-jobs "$point"
    case $(events out-jobs) in "4|4") ;; *) fail "$point: $(events out-jobs) results" ;; esac
done

# What died without a driver just after it had left its result, is taken as done, and its checkpoint goes.
rm -rf out-jobs
HRF_CRASH_SIGNAL=KILL HRF_CRASH_AT=train.result.after "$engine" train jobs.yaml >/dev/null 2>&1 || true
[ -e out-jobs/fold-0-seed-1/result.json ] && [ -e out-jobs/fold-0-seed-1/checkpoint.bin ] || fail "not killed there"
expect_code 0 "$flow" train jobs.yaml
sed -i 's/jobs.yaml/plain.yaml/' out-jobs/report/index.html
same out-jobs "killed after its result"

# One of them cannot be done: the others are, and it is named.
recipe broken "{retries: 0}"
mkdir -p out-broken
: >out-broken/fold-1-seed-1 # a file where its folder has to be
expect_code 3 "$flow" train broken.yaml
expect_text "failed: fold 1 seed 1: "
expect_text "training by training"
rm out-broken/fold-1-seed-1
expect_code 0 "$flow" train broken.yaml
sed -i 's/broken.yaml/plain.yaml/' out-broken/report/index.html
same out-broken "failed at first"

# Mistakes of both tables at once, before anything is trained.
sed 's/max_jobs/max_jops/; s/batch/batsch/' jobs.yaml >wrong.yaml
expect_code 2 "$flow" train wrong.yaml
expect_text "unknown key 'max_jops' in 'executor', did you mean 'max_jobs'?"
expect_text "unknown key 'batsch' in 'train', did you mean 'batch'?"
expect_text "'wrong.yaml' has 2 errors"
expect_code 2 "$engine" train wrong.yaml
expect_text "'wrong.yaml' has 2 errors"
refused() { # words of the error, options...
    words=$1
    shift
    rm -rf out-jobs
    expect_code 2 "$flow" train jobs.yaml "$@"
    expect_text "$words"
    [ ! -e out-jobs ] || fail "something was begun: $*"
}
refused "'train.layout' single is for 1 ranks, and executor.local.ranks is 2" --set executor.local.ranks=2
refused "--jobs, --threads and --device are of trainings without an executor" --jobs 2
refused "only keys of 'executor' can be set here" --set train.epochs=1
refused "'executor.max_jobs' is 0" --set executor.max_jobs=0
refused "no training is of --fold and --seed" --fold 2
