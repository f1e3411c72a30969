# fault: time limit of the real Slurm
# how: the first start of a job takes for ever, --time=1
# on: cluster
# promise: it goes again with more time
. "$HRF_SOURCE_DIR/tests/slurm/lib.sh"
one_does 'exec sleep 1000' # a child of the worker would outlive a launcher that is killed
start --set executor.slurm.time=00:01:00
finish
told 'time was over' || tell "the time limit is not told of"
