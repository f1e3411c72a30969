# fault: none, the user has settings for Slurm's commands
# how: SQUEUE_FORMAT, SQUEUE_STATES, SBATCH_PARTITION (one that is down), SBATCH_ARRAY_INX, SLURM_TIME_FORMAT, LC_ALL, an outer job's SLURM_*, LD_PRELOAD and a secret
# on: cluster
# promise: what the workflow says holds
. "$HRF_SOURCE_DIR/tests/slurm/lib.sh"
export SQUEUE_FORMAT=%t SQUEUE_STATES=PD SQUEUE_SORT=-i SBATCH_PARTITION=down SBATCH_ARRAY_INX=7-9
export SBATCH_NO_REQUEUE=1 SBATCH_TIMELIMIT=banana SBATCH_MEM_PER_NODE=999G SCANCEL_STATE=PENDING
export LD_PRELOAD= SECRET_TOKEN=hidden
one_does 'env >$gate/environment'
export SLURM_TIME_FORMAT=relative SLURM_NTASKS=4 SLURM_JOB_ID=999 SLURM_MEM_PER_NODE=1 LC_ALL=de_DE.UTF-8
hold
start --set executor.slurm.nodes=2
held 1
expect_code 0 "$flow" status "$run"
release
finish
started_once
grep -q "^PATH=" "$gate/environment" || tell "no environment was seen"
! grep -qE "^(LD_PRELOAD|SECRET_TOKEN)=" "$gate/environment" || tell "the job got what is not passed by name"
