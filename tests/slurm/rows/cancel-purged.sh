# fault: scancel by somebody else, and Slurm forgets it
# how: the driver killed, scancel of one running job, MinJobAge=2; only the log of ended jobs knows (sacct -c)
# on: cluster --set MinJobAge=2
# promise: told as such and not tried again unasked; the same command tries it again
. "$HRF_SOURCE_DIR/tests/slurm/lib.sh"
hold
start
held 4 # all
sleep 1 # a job that is only just starting may be COMPLETING for minutes
crash
scancel "$(squeue -h -r -t R -o %i | head -n 1)"
release
until_true "the purge" eval '[ -z "$(squeue -h -t all)" ]'
start
ended 3
told 'cancelled by somebody else.*CANCELLED' || tell "it is not told that it was cancelled"
again
