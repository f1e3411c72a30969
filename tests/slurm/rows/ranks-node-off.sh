# fault: node loss under a job of several nodes
# how: every process of the second node killed at once
# on: cluster --set SlurmdTimeout=3 --set MessageTimeout=2
# promise: the job ends and goes again elsewhere
. "$HRF_SOURCE_DIR/tests/slurm/lib.sh"
hold
start $ranks
held 4
node=$(node_of 4)
node_off "$node"
until_true "the node down" eval 'sinfo -h -N -p main -o "%N %T" | grep -q "^$node down"'
finish
