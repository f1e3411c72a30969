# fault: the file system is slow, files are seen late
# how: the driver sees nothing younger than 1.5 s, as an NFS client's cache has it; opening, renaming and syncing take 20 ms (preloaded library)
# on: cluster, fake
# promise: waited for: nothing goes again
. "$HRF_SOURCE_DIR/tests/slurm/lib.sh"
trouble "hires-flow run" LATE_MS=1500 DELAY_MS=20
start
finish
started_once
