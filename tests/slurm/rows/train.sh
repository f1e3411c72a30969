# fault: none
# how: `train`: two folds and two seeds
# on: cluster, fake
# promise: a job each, the local bytes
. "$HRF_SOURCE_DIR/tests/slurm/lib.sh"
. "$here/training.sh"
start
finish
started_once
[ "$(ls "$gate/starts" | wc -l)" = 4 ] || tell "not one start for each training"
start
finish
[ "$(ls "$gate/starts" | wc -l)" = 4 ] || tell "something was done again"
