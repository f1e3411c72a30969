# fault: none
# how: the cohort as it is
# on: cluster, fake
# promise: the local run's bytes
. "$HRF_SOURCE_DIR/tests/slurm/lib.sh"
start
finish
[ "$(attempts)" = "$(sqlite3 "$cohort/clean/run.db" "SELECT count(*) FROM attempt WHERE job_id LIKE 'infer%'")" ] ||
    tell "more jobs than the clean run's"
