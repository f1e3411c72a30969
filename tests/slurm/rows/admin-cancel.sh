# fault: scancel by somebody else
# how: scancel of one running job
# on: cluster, fake
# promise: told as such and not tried again unasked; the same command tries it again
. "$HRF_SOURCE_DIR/tests/slurm/lib.sh"
hold
start
held 1
sleep 1 # a job that is only just starting may be COMPLETING for minutes
scancel "$(squeue -h -r -t all -o '%i %t' | awk '$2 == "R" {print $1; exit}')"
until_true "the end" queue_has CANCELLED
release
ended 3
told 'cancelled by somebody else' || tell "it is not told that it was cancelled"
again
