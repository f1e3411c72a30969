# fault: stale handles and I/O errors under the driver
# how: every 40th opening below the run directory fails by ESTALE, then by EIO (preloaded library)
# on: cluster, fake, local
# promise: waited for, or an error that names the file; the same command goes on
. "$HRF_SOURCE_DIR/tests/slurm/lib.sh"
for error in ESTALE EIO; do
    trouble "hires-flow run" ERROR=$error EVERY=40
    anew
    start
    until_end
    untrouble
    [ $code = 3 ] || says "'$run/.*(Stale file handle|Input/output error)" || tell "it ended with $code, and no word of it"
    again
done
