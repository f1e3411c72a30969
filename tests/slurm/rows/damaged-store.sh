# fault: pages of the run's store are overwritten
# how: 8 kB of noise over the middle of run.db after the driver was killed
# on: fake, local
# promise: found out and named, never believed; moved away, it is made again with the same bytes
. "$HRF_SOURCE_DIR/tests/slurm/lib.sh"
noise() { dd if=/dev/urandom of="$1" bs=4096 seek=$(($(stat -c %s "$1") / 8192)) count=2 conv=notrunc status=none; }
hold
start
held 1
crash
release
sqlite3 "$run/run.db" 'PRAGMA wal_checkpoint(TRUNCATE)' >/dev/null
noise "$run/run.db"
expect_code 1 "$flow" run "$cohort/w.yaml" --out "$run" --executor "$executor"
expect_text "is damaged"
mv "$run" "$scratch/damaged"
again
