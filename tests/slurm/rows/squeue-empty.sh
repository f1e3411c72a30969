# fault: squeue leaves out jobs that are there
# how: it prints nothing for longer than a job's last word is waited for, with jobs running
# on: fake
# promise: the controller is asked for each of them before it is given up: nothing goes again
. "$HRF_SOURCE_DIR/tests/slurm/lib.sh"
: >"$HRF_FAKE_SLURM/nothing"
asked_for() { grep -q '^scontrol .*show job' "$HRF_FAKE_SLURM/calls"; }
hold
start
held 1
echo "squeue * print nothing" >"$HRF_FAKE_SLURM/faults"
until_true "the question for a job that is left out" asked_for
sleep 1
rm "$HRF_FAKE_SLURM/faults"
finish
started_once
! ls -d "$run"/jobs/*.a2 2>/dev/null || tell "a job was given up"
