# fault: a rank of a training of several is killed
# how: each training 2 nodes of a rank (srun --mpi=pmix), train.layout data=2; SIGKILL of one rank at work
# on: cluster
# promise: they go on from their checkpoints, to the bytes of threads
. "$HRF_SOURCE_DIR/tests/slurm/lib.sh"
export layout=data=2
. "$here/training.sh"
one_gets KILL
start --set executor.slurm.nodes=2
finish
[ "$(ls "$gate/starts" | wc -l)" -ge 10 ] || tell "nothing was killed, or not each training had 2 ranks"
