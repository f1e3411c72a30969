# shellcheck shell=bash
# training.sh - for the rows of trainings: after lib.sh, whose words then mean a run of `train`, one
# job for each of two folds and two seeds, with a checkpoint after every step.
export HRF_PART_MS=0
sed "s|^out: .*|out: $run|" "$cohort/train.yaml" >"$scratch/train.yaml"
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
        diff -r "${trained:-$cohort/trained}/$f" "$run/$f" >"$scratch/diff" 2>&1 || {
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
