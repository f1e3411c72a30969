# fault: none, several nodes
# how: each infer job 2 nodes of 2 ranks (srun --mpi=pmix)
# on: cluster
# promise: the local run's bytes
. "$HRF_SOURCE_DIR/tests/slurm/lib.sh"
start $ranks
finish
started_once
[ "$(ls "$gate/starts" | cut -d. -f1,4 | sort -u | wc -l)" -ge 8 ] || tell "no job had 4 ranks"
squeue -h -r -t all -o %D | grep -qx 2 || tell "no job had 2 nodes"
[ "$(sqlite3 "$run/run.db" "SELECT count(*) FROM attempt WHERE job_id LIKE 'infer%' AND reason IS NULL AND cpu_ms = 0")" = 0 ] ||
    tell "the processor time of ranks is not known"
