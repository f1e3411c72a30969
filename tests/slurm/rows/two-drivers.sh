# fault: two orchestrators
# how: the same command while the first one runs
# on: cluster, fake, local
# promise: the second says who drives, the first goes on
. "$HRF_SOURCE_DIR/tests/slurm/lib.sh"
hold
start
held 1
expect_code 1 "$flow" run "$cohort/w.yaml" --out "$run" --executor "$executor"
expect_text "is being driven by process"
finish
started_once
