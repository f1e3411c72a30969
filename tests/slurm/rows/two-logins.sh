# fault: none, two runs of one user on two login nodes
# how: a run driven on n4, one on the login node; one home; squeue takes 0.3 s and is counted
# on: cluster
# promise: one driver asks for both, never two at a time
. "$HRF_SOURCE_DIR/tests/slurm/lib.sh"
scontrol update NodeName=n4 State=DRAIN Reason=test # no jobs there
hold
wrap squeue "mkdir '$scratch/asking' 2>/dev/null || hostname >>'$scratch/overlaps'
hostname >>'$scratch/askers'
sleep 0.3
code=0; real \"\$@\" || code=\$?
rmdir '$scratch/asking' 2>/dev/null
exit \$code"
on n4 "$flow" run "$cohort/w.yaml" --out "$scratch/other" --executor slurm >"$scratch/other.out" 2>&1 &
other=$!
start
held 4
started() { ls -d "$1"/jobs/infer-*/start.json; }
until_true "jobs of both" eval 'started "$run" && started "$scratch/other"'
# Alone, either asks every 0.7 s at first, then after 1 s, 1.5 s, 2.25 s (a fifth of what it is).
: >"$scratch/askers"
sleep 8
n=$(wc -l <"$scratch/askers")
release
code=0
wait "$other" || code=$?
[ "$code" = 3 ] || { cat "$scratch/other.out"; tell "the other run ended with $code"; }
finish
diff -r "$cohort/clean/results" "$scratch/other/results" >/dev/null || tell "other bytes in the other run"
[ ! -e "$scratch/overlaps" ] || tell "two drivers asked at a time"
! grep -l 'asks squeue for itself' "$scratch/other.out" "$scratch/driver.err" || tell "there is no board"
echo "$n questions in 8 s"
[ "$n" -le 8 ] || tell "each asks for itself: $n questions in 8 s"
