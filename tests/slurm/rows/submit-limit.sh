# fault: submit limit reached
# how: room for 3 jobs (MaxJobCount, a user's limit), many wanted
# on: cluster --set MaxJobCount=3 --set MinJobAge=2, fake
# promise: waits and goes on
. "$HRF_SOURCE_DIR/tests/slurm/lib.sh"
[ -z "${HRF_FAKE_SLURM-}" ] || echo UserLimit=3 >>"$HRF_FAKE_SLURM/config"
other_jobs=1
start --set executor.patches_per_job=7
finish
