# fault: node loss, its network
# how: the cable of the node of a running job cut; the job goes on there and ends after the other
# on: cluster --set SlurmdTimeout=3 --set MessageTimeout=2
# promise: the job goes again elsewhere; the first copy commits nothing twice
. "$HRF_SOURCE_DIR/tests/slurm/lib.sh"
hold
start
held 1
node=$(node_of)
node_cut "$node"
until_true "the node down" eval 'sinfo -h -N -p main -o "%N %T" | grep -q "^$node down"'
finish
node_mend "$node"
