# fault: sbatch refuses for good
# how: a partition that is not there
# on: cluster, fake
# promise: the run ends with Slurm's own words and the way out; the right one goes on
. "$HRF_SOURCE_DIR/tests/slurm/lib.sh"
start --set executor.slurm.partition=nowhere
ended 1
says 'nvalid partition' || tell "Slurm's words are not told"
again
