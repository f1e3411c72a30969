# fault: node loss, its daemon
# how: kill -9 of slurmd under a running job; its processes go on
# on: cluster --set SlurmdTimeout=3 --set MessageTimeout=2
# promise: the job goes again elsewhere; the first copy commits nothing twice
. "$HRF_SOURCE_DIR/tests/slurm/lib.sh"
hold
start
held 1
node=$(node_of)
slurmd_kill "$node"
until_true "the node down" eval 'sinfo -h -N -p main -o "%N %T" | grep -q "^$node down"'
finish
slurmd_start "$node"
