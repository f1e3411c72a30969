# fault: a rank hangs after all is done
# how: SIGSTOP of one of 4 ranks between its last word and its exit, when the others are gone
# on: cluster
# promise: the launcher ends the job, nothing goes again
. "$HRF_SOURCE_DIR/tests/slurm/lib.sh"
export HRF_RANK_DEADLINE_MS=3000
one_does 'export HRF_CRASH_AT=engine.end HRF_CRASH_SIGNAL=STOP'
start $ranks
finish
started_once
grep -q 'the work was over' "$run"/jobs/infer*/done.json || tell "nobody was late"
