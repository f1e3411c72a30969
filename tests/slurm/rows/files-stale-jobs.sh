# fault: stale handles and I/O errors under the jobs
# how: every 15th opening of a worker below the run directory fails by ESTALE, then by EIO (preloaded library)
# on: cluster, fake, local
# promise: what a job could not hand in goes again; at worst an error that names the file
. "$HRF_SOURCE_DIR/tests/slurm/lib.sh"
for error in ESTALE EIO; do
    trouble "hires-engine infer" ERROR=$error EVERY=15
    anew
    start
    until_end
    untrouble
    [ $code = 3 ] || tell "it ended with $code"
    told 'Stale file handle|Input/output error|; last:' || tell "nothing failed"
    again
done
