# fault: slurmd restarted in time
# how: kill -9 of slurmd under a running job, started again at once
# on: cluster
# promise: nothing happens: no job goes again
. "$HRF_SOURCE_DIR/tests/slurm/lib.sh"
hold
start
held 1
node=$(node_of)
slurmd_kill "$node"
slurmd_start "$node"
until_true "the node up" eval 'sinfo -h -N -p main -o "%N %T" | grep -qE "^$node (alloc|mixed|idle)"'
finish
started_once
