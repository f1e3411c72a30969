# fault: none, two runs of one user
# how: two runs at one time; squeue takes 0.3 s and is watched
# on: cluster, fake
# promise: one driver asks for both, never two at a time
. "$HRF_SOURCE_DIR/tests/slurm/lib.sh"
hold
wrap squeue "mkdir '$scratch/asking' 2>/dev/null || echo \$PPID >>'$scratch/overlaps'
echo \$PPID >>'$scratch/askers'
sleep 0.3
code=0; real \"\$@\" || code=\$?
rmdir '$scratch/asking' 2>/dev/null
exit \$code"
HRF_ENGINE=$scratch/engine "$flow" run "$cohort/w.yaml" --out "$scratch/other" --executor slurm >"$scratch/other.out" 2>&1 &
other=$!
start
held 2
sleep 2
release
code=0
wait "$other" || code=$?
[ "$code" = 3 ] || { cat "$scratch/other.out"; tell "the other run ended with $code"; }
finish
diff -r "$cohort/clean/results" "$scratch/other/results" >/dev/null || tell "other bytes in the other run"
[ ! -e "$scratch/overlaps" ] || tell "two drivers asked at a time"
echo "$(wc -l <"$scratch/askers") questions of $(sort -u "$scratch/askers" | wc -l) drivers"
