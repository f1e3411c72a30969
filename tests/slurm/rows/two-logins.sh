# fault: none, two runs of one user on two login nodes
# how: a run driven on n4, one on the login node; one home; squeue takes 0.3 s and is counted
# on: cluster
# promise: one driver asks for both, never two at a time
. "$HRF_SOURCE_DIR/tests/slurm/two_runs.sh"
scontrol update NodeName=n4 State=DRAIN Reason=test # no jobs there
hold
watch_squeue hostname
start_other on n4
start
held 4
started() { ls -d "$1"/jobs/infer-*/start.json; }
until_true "jobs of both" eval 'started "$run" && started "$other"'
# Alone, either asks every 0.7 s at first, then after 1 s, 1.5 s, 2.25 s (a fifth of what it is).
: >"$scratch/askers"
sleep 8
n=$(wc -l <"$scratch/askers")
finish_both
! grep -l 'queries squeue by itself' "$other.out" "$scratch/driver.err" || tell "there is no queue cache"
echo "$n questions in 8 s"
[ "$n" -le 8 ] || tell "each asks for itself: $n questions in 8 s"
