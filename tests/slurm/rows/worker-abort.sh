# fault: a rank aborts
# how: SIGABRT of one worker on its first start
# on: cluster, fake, local
# promise: tried again
. "$HRF_SOURCE_DIR/tests/slurm/lib.sh"
one_does 'kill -ABRT $$'
start
finish
told 'signal 6' || tell "the signal is not named"
