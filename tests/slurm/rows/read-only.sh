# fault: the file system becomes read-only
# how: whatever the driver wants to create fails by EROFS from its first infer jobs on (preloaded library)
# on: cluster, local
# promise: a message that names it; the same command goes on when it can be written again
. "$HRF_SOURCE_DIR/tests/slurm/lib.sh"
trouble "hires-flow run" ERROR=EROFS WHILE="$scratch/read-only"
echo ': >"$mark"' >"$gate/do"
export mark=$scratch/read-only
other_jobs=yes
start --set executor.patches_per_job=8
until_true "the run's end" driver_gone
wait "$driver" && tell "it ended well where nothing can be written"
driver=
says 'Read-only' || tell "it is not named"
rm -f "$gate/do" "$mark"
untrouble
again --set executor.patches_per_job=8
