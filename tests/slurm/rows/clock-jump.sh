# fault: the driver's clock jumps
# how: by a day forwards, by a day backwards, after 20 readings (preloaded library)
# on: cluster, fake, local
# promise: nothing is decided by it
. "$HRF_SOURCE_DIR/tests/slurm/lib.sh"
for jump in 86400 -86400; do
    trouble "hires-flow run" CLOCK_S=$jump JUMP=20
    anew
    start
    finish
    started_once
    [ "$(sqlite3 "$run/run.db" 'SELECT max(submitted_ms) - min(submitted_ms) > 80000000 FROM attempt')" = 1 ] || tell "it did not jump"
done
