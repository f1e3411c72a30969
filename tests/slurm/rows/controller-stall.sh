# fault: controller stalls during sbatch
# how: SIGSTOP of slurmctld for 6 s; sbatch fails with a timeout, the job is in the queue later
# on: cluster --set MessageTimeout=2
# promise: exactly one job for each task
. "$HRF_SOURCE_DIR/tests/slurm/lib.sh"
wrap sbatch 'if [ $n = 2 ]; then controller_stall; (sleep 6; controller_resume) >/dev/null 2>&1 & fi; real "$@"'
start
finish
[ "$(cat "$scratch/sbatch.calls")" -ge 2 ] || tell "sbatch was not called twice"
started_once
