# fault: the laptop is closed
# how: SIGKILL of the driver with jobs running; the same command when they have ended
# on: cluster, fake, local
# promise: jobs go on; what they did counts
. "$HRF_SOURCE_DIR/tests/slurm/lib.sh"
hold
start
held 1
crash
release
until_true "a job's end" eval 'ls "$run"/jobs/infer-*/done.json'
again
started_once
