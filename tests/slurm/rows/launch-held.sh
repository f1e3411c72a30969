# fault: Slurm cannot start a job, and holds it
# how: squeue says "launch failed requeued held" of one job, as it does after a machine died at the wrong moment
# on: fake
# promise: it is given up and cancelled without a try being taken, its tasks go again
. "$HRF_SOURCE_DIR/tests/slurm/lib.sh"
wrap squeue "if [ -e '$scratch/held' ]; then
    real \"\$@\" | awk -F'|' -v OFS='|' -v id=\"\$(cat '$scratch/held')\" '\$1 == id && NF == 5 { \$2 = \"PENDING\"; \$3 = \"launch failed requeued held\" } { print }'
    exit
fi
real \"\$@\""
hold
start
held 2
squeue -h -r -t R -o %i | grep -v '^1_' | head -n 1 >"$scratch/held.new"
mv "$scratch/held.new" "$scratch/held"
until_true "its cancelling" eval '[ -z "$(squeue -h -r -t R -o %i | grep -x "$(cat "$scratch/held")")" ]'
finish
told 'vanished without a word' || tell "it was not given up"
[ "$(sqlite3 "$run/run.db" "SELECT max(n_attempts) FROM task WHERE state = 2")" = 0 ] || tell "a try was used up"
