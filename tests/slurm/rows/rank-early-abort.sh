# fault: a rank aborts before MPI starts
# how: SIGABRT of one of 4 ranks before it joins the others
# on: cluster
# promise: the job ends, does not hang, and goes again
. "$HRF_SOURCE_DIR/tests/slurm/lib.sh"
one_does 'kill -ABRT $$'
start $ranks
finish
