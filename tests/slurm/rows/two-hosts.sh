# fault: two orchestrators on two machines, and one dies with its machine
# how: the driver on n4, another one on the login node; then n4's power off, its lease stale after 4 s
# on: cluster --set SlurmdTimeout=3 --set MessageTimeout=2
# promise: the second says who drives and where; when that one is dead it takes over by itself
. "$HRF_SOURCE_DIR/tests/slurm/lib.sh"
export HRF_LEASE_STALE_MS=4000 HRF_LEASE_WATCH_MS=8000
scontrol update NodeName=n4 State=DRAIN Reason=test # no jobs there
hold
on n4 "$flow" run "$cohort/w.yaml" --out "$run" --executor slurm >"$scratch/far.out" 2>"$scratch/far.err" &
held 1
expect_code 1 "$flow" run "$cohort/w.yaml" --out "$run" --executor slurm
expect_text "is being driven by process"
expect_text "on n4"
node_off n4
release
sleep 4
again
started_once
