# fault: a rank hangs
# how: SIGSTOP of a worker on its first start; a minute of --time is 1.5 s
# on: fake
# promise: ended at its limit at the latest, then it goes again
. "$HRF_SOURCE_DIR/tests/slurm/lib.sh"
echo MinuteSeconds=1.5 >>"$HRF_FAKE_SLURM/config"
one_does 'kill -STOP $$'
start --set executor.slurm.time=00:02:00
finish
