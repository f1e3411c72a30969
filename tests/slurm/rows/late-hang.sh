# fault: a worker hangs after all is done
# how: SIGSTOP of a worker between its last result and its exit
# on: fake, local
# promise: the launcher ends it, nothing goes again
. "$HRF_SOURCE_DIR/tests/slurm/lib.sh"
export HRF_RANK_DEADLINE_MS=1000
one_does 'export HRF_CRASH_AT=engine.end HRF_CRASH_SIGNAL=STOP'
start
finish
started_once
grep -q 'the work was over' "$run"/jobs/infer*/done.json || tell "nobody was late"
