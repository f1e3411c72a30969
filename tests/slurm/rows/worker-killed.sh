# fault: a rank is killed
# how: SIGKILL of one worker on its first start
# on: cluster, local
# promise: tried again
. "$HRF_SOURCE_DIR/tests/slurm/lib.sh"
one_does 'kill -KILL $$'
start
finish
told 'signal 9' || tell "the signal is not named"
