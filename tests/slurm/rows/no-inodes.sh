# fault: no inodes are left
# how: the run directory on a file system of 45 files
# on: fake, local
# promise: a message that names it; the same command goes on when there is room
. "$HRF_SOURCE_DIR/tests/slurm/lib.sh"
[ "$(id -u)" = 0 ] && mkdir "$run" && mount -t tmpfs -o size=200m,nr_inodes=45 tmpfs "$run" 2>/dev/null ||
    { echo "no root, or no mounts here"; exit 77; }
trap 'umount -l "$run"; rm -rf "$scratch"' EXIT
start
until_true "the run's end" driver_gone
wait "$driver" && tell "it ended well without files"
driver=
says 'full|No space' || tell "the full disk is not named"
mount -o remount,nr_inodes=0 "$run"
again
