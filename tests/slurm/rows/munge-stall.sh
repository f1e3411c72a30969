# fault: munge stalls
# how: SIGSTOP of munged for 4 s with jobs running
# on: cluster
# promise: the state is kept, nothing goes again
. "$HRF_SOURCE_DIR/tests/slurm/lib.sh"
hold
start
held 1
munge_stall
sleep 4
munge_resume
finish
started_once
