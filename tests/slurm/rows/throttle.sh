# fault: none, the run is throttled while it runs
# how: throttle --jobs 1 with jobs running and waiting, --jobs 0, --off
# on: cluster, fake
# promise: what waits is taken back from the queue, what runs goes on, no try is used up
. "$HRF_SOURCE_DIR/tests/slurm/lib.sh"
hold
n_in() { squeue -h -r -t all -o %T | grep -cE "^($1)\$"; }
if [ "$HRF_FAULT_ON" = cluster ]; then # two of the jobs find room, the others wait
    . "$here/control.sh"
    for node in n2 n3 n4; do scontrol update NodeName=$node State=DRAIN Reason=test; done
    start --set executor.slurm.mem_per_node=2000M
else
    start
fi
held 2
until_true "jobs that wait" eval '[ "$(n_in "PENDING")" -ge 1 ]'
expect_code 0 "$flow" throttle "$run" --jobs 1
expect_text "at most 1 job at a time"
until_true "the queue without what waited" eval '[ "$(n_in "PENDING")" = 0 ]'
[ "$(n_in "RUNNING")" -ge 2 ] || tell "what ran was ended too"
expect_code 0 "$flow" status "$run"
expect_text "throttle  at most 1 job at a time"
expect_code 0 "$flow" throttle "$run" --jobs 0
until_true "the driver applies it" says "at most 0 jobs"
release
until_true "the end of what ran" eval '[ "$(n_in "PENDING|RUNNING|COMPLETING")" = 0 ]'
[ -d "/proc/$driver" ] || tell "the run ended although there was work to do"
before=$(ls "$gate/starts" | wc -l)
sleep 2
[ "$(ls "$gate/starts" | wc -l)" = "$before" ] || tell "something was started although no job was allowed"
expect_code 0 "$flow" throttle "$run" --off
expect_text "not throttled"
finish
[ "$(sqlite3 "$run/run.db" "SELECT max(n_attempts) FROM task WHERE state = 2")" = 0 ] || tell "a try was used up"
expect_code 2 "$flow" throttle "$run" --jobs 3 --off
expect_code 2 "$flow" throttle "$scratch/nowhere" --jobs 3
