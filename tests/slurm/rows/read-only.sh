# fault: the file system becomes read-only
# how: an error on the disk under the run (ext4, errors=remount-ro) with jobs running; mended by unmounting and mounting it again
# on: cluster, local
# promise: a message that names it; the same command goes on when it can be written again
. "$HRF_SOURCE_DIR/tests/slurm/lib.sh"
disk 64M
hold
start
held 1
disk_fails
release
until_true "the run's end" driver_gone
wait "$driver" && tell "it ended well where nothing can be written"
driver=
says 'ead-only' || tell "it is not named"
disk_mended
again
