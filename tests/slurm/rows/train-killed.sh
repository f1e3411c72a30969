# fault: trainings and their driver are killed
# how: SIGKILL of a training at work, then of the driver
# on: cluster, fake
# promise: they go on from their checkpoints, nothing twice
. "$HRF_SOURCE_DIR/tests/slurm/lib.sh"
. "$here/training.sh"
one_gets KILL
start
held 4
crash
again
[ "$(ls "$gate/starts" | wc -l)" -ge 5 ] || tell "nothing was killed"
