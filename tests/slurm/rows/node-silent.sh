# fault: node loss, long before Slurm gives the node up
# how: the node of a running job turned off; Slurm would call it down after five minutes
# on: cluster --set SlurmdTimeout=300 --set MessageTimeout=2
# promise: told at once with node and state, and the job goes again elsewhere within two beats
. "$HRF_SOURCE_DIR/tests/slurm/lib.sh"
hold
start
held 1
node=$(node_of)
node_off "$node"
scontrol update "NodeName=$node" State=NoResp # its next ping is minutes away
until_true "the node does not respond" eval 'sinfo -h -N -p main -o "%N %T" | grep -q "^$node .*\*"'
until_true "the job is given up" says "is given up, its tasks go elsewhere: its node $node does not respond: the scheduler shows it as '.*\*'"
release
finish
told "it showed no sign of life and was ended: its node $node does not respond" || tell "no event"
