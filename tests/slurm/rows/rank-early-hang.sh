# fault: a rank hangs before MPI starts
# how: SIGSTOP of one of 4 ranks before it joins the others; watchdog at 3 s
# on: cluster
# promise: the watchdog ends the job; it goes again
. "$HRF_SOURCE_DIR/tests/slurm/lib.sh"
export HRF_RANK_STUCK_MS=3000 HRF_RANK_DEADLINE_MS=3000
one_does 'kill -STOP $$'
start $ranks
finish
