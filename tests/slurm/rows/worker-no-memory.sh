# fault: a small allocation of a worker fails
# how: it is out of memory when a task begins, in one job alone
# on: local, fake
# promise: it ends with its own exit code, is told as too little memory and tried again
. "$HRF_SOURCE_DIR/tests/slurm/lib.sh"
one_does 'export HRF_CRASH_AT=engine.task.begin HRF_CRASH_SIGNAL=MEMORY'
start
finish
told 'it needed more memory than it had: the worker found no memory left' || tell "not told as memory"
