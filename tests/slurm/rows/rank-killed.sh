# fault: a rank of several is killed
# how: SIGKILL of one of 4 ranks somewhere in its first second
# on: cluster
# promise: the job ends, does not hang, and goes again
. "$HRF_SOURCE_DIR/tests/slurm/lib.sh"
one_gets KILL
start $ranks
finish
