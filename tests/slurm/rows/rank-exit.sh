# fault: a rank of several ends with 7
# how: exit 7 of one of 4 ranks before it joins the others
# on: cluster
# promise: the job ends; the same command tries it again
. "$HRF_SOURCE_DIR/tests/slurm/lib.sh"
one_does 'exit 7'
start $ranks
ended 3
again $ranks
