# shellcheck shell=bash
# training.sh - for the rows of trainings: after lib.sh, whose words then mean a run of `train`, one
# job for each of two folds and two seeds, with a checkpoint after every step.
# `layout` is train.layout. What the jobs make is compared with what one process makes, its ranks as threads.
export HRF_PART_MS=0
trained=$scratch/alone/trained
mkdir "$scratch/alone"
"$HRF_SOURCE_DIR/tests/cli/train_pictures.py" "$scratch/pictures" 24 12
cat >"$scratch/alone/train.yaml" <<END
version: 1
model: {file: $HRF_SOURCE_DIR/tests/golden/classifier.onnx, last_layer: fresh}
data: {folders: $scratch/pictures, patient_until: _}
classes: [normal, tumor]
split: {folds: 2}
train: {batch: 8, epochs: 6, optimizer: adamw, learning_rate: 0.002, seeds: [1, 7], layout: "${layout-single}"}
out: $trained
END
HRF_PART_MS='' "$flow" train "$scratch/alone/train.yaml" >/dev/null 2>&1 || fail "trainings alone"
sed "s|^out: .*|out: $run|" "$scratch/alone/train.yaml" >"$scratch/train.yaml" # pages name their file
cat >>"$scratch/train.yaml" <<END
executor: {max_jobs: 4, slurm: {partition: main, time: "00:05:00", mem_per_node: 800M}}
END
start() { # more words for the run
    "$flow" train "$scratch/train.yaml" --executor "$executor" "$@" >"$scratch/driver.out" 2>"$scratch/driver.err" &
    driver=$!
}
same() {
    local f twice
    for f in fold-0-seed-1 fold-1-seed-1 fold-0-seed-7 fold-1-seed-7 report summary.json; do
        diff -r "$trained/$f" "$run/$f" >"$scratch/diff" 2>&1 || {
            head -n 5 "$scratch/diff"
            tell "other bytes than the local trainings: $f"
        }
    done
    twice=$(sqlite3 "$run/run.db" "SELECT count(*), count(DISTINCT text) FROM event WHERE subject='task'")
    [ "$twice" = "4|4" ] || tell "results were recorded: $twice"
}
finish() {
    release
    ended 0
    same
}
