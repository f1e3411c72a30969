# fault: the laptop is closed
# how: SIGKILL of the driver with jobs running; the same command when they have ended
# on: cluster, fake, local
# promise: jobs go on; what they did counts
. "$HRF_SOURCE_DIR/tests/slurm/lib.sh"
hold
start
held 1
crash
# A slide of a job that runs: the driver may have died before it submitted another one's.
slide=$(sqlite3 "$run/run.db" "SELECT name FROM attempt, task JOIN slide ON task.slide_id = slide.id
    WHERE attempt.kind = 1 AND ' ' || task_ids || ' ' LIKE '% ' || task.id || ' %' LIMIT 1")
expect_code 0 "$flow" why "$run" "$slide"
grep -qE 'started at [0-9TZ:-]+ on .*, has not reported its end|submitted at .*, not started yet' "$scratch/out" || { cat "$scratch/out"; tell "why does not tell where its job stands"; }
release
until_true "a job's end" eval 'ls "$run"/jobs/infer-*/done.json'
again
started_once
