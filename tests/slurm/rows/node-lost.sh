# fault: node loss, its jobs go on unseen
# how: the scripted Slurm loses all nodes; the first copies end after the second have begun
# on: fake
# promise: the job goes again; the first copy commits nothing twice
. "$HRF_SOURCE_DIR/tests/slurm/lib.sh"
hold
start
held 1
slurm_fake fail-node all >/dev/null
held 2
finish
