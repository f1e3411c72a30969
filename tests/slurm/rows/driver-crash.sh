# fault: orchestrator SIGKILL
# how: killed at each of its crash points around a submission, run again
# on: fake
# promise: nothing lost, nothing twice
. "$HRF_SOURCE_DIR/tests/slurm/lib.sh"
export HRF_CRASH_LIST=$scratch/points
start
finish
unset HRF_CRASH_LIST
points=$(grep -E '^(run|slurm|store)\.' "$scratch/points" | sort -u)
[ "$(echo "$points" | wc -l)" -ge "${HRF_MIN_POINTS:-5}" ] || tell "only these crash points were met: $points"
for point in $points; do
    for pass in 1 2; do
        [ "$pass" -le "$(grep -cx "$point" "$scratch/points")" ] || continue
        rm -rf "$run" "$XDG_CACHE_HOME" "$gate/starts"
        mkdir "$gate/starts"
        HRF_CRASH_AT=$point:$pass "$flow" run "$cohort/w.yaml" --out "$run" --executor slurm >/dev/null 2>&1 || true
        again
        started_once
        echo "$point:$pass"
    done
done
