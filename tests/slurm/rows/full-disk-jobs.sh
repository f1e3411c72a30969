# fault: full disk, under driver and jobs
# how: the run directory on a disk (ext4) that is filled up when the first jobs run, and emptied when the run has ended
# on: cluster
# promise: a message that names it; the same command goes on when there is room
. "$HRF_SOURCE_DIR/tests/slurm/lib.sh"
disk 64M
hold
start
held 1
for size in 64k 1k; do dd if=/dev/zero of="$run/ballast.$size" bs=$size status=none 2>/dev/null || true; done
release
until_true "the run's end" driver_gone
wait "$driver" && tell "it ended well on a full disk"
driver=
says 'full|No space' || tell "the full disk is not named"
rm "$run"/ballast.*
again
