# fault: time limit of a training
# how: the first start of a job takes for ever; a minute of --time is 3 s
# on: fake
# promise: it goes again with more time
. "$HRF_SOURCE_DIR/tests/slurm/lib.sh"
. "$here/training.sh"
echo MinuteSeconds=3 >>"$HRF_FAKE_SLURM/config"
one_does 'exec sleep 1000' # a child of the worker would outlive a launcher that is killed
start --set executor.slurm.time=00:02:00
finish
told 'time was over' || tell "the time limit is not told of"
