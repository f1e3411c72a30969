# fault: loss of a node with a training, its power
# how: every process of the node of a running job killed at once
# on: cluster --set SlurmdTimeout=3 --set MessageTimeout=2
# promise: it goes again elsewhere
. "$HRF_SOURCE_DIR/tests/slurm/lib.sh"
. "$here/training.sh"
hold
start
held 1
node=$(node_of)
node_off "$node"
until_true "the node down" eval 'sinfo -h -N -p main -o "%N %T" | grep -q "^$node down"'
finish
