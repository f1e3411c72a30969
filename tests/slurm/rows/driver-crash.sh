# fault: orchestrator SIGKILL
# how: killed at its crash points around a submission (HRF_EVERY_POINT=1: at all, twice), run again
# on: fake
# promise: nothing lost, nothing twice
. "$HRF_SOURCE_DIR/tests/slurm/lib.sh"
export HRF_CRASH_LIST=$scratch/points
start
finish
unset HRF_CRASH_LIST
wanted='run\.submit|slurm\.'
[ -z "${HRF_EVERY_POINT-}" ] || wanted='run\.|slurm\.|store\.'
points=$(grep -E "^($wanted)" "$scratch/points" | sort -u)
[ "$(echo "$points" | wc -l)" -ge 3 ] || tell "only these crash points were met: $points"
for point in $points; do
    for pass in 1 ${HRF_EVERY_POINT:+2}; do
        [ "$pass" -le "$(grep -cx "$point" "$scratch/points")" ] || continue
        anew
        rm -rf "${XDG_CACHE_HOME:?}"
        echo "$point:$pass"
        HRF_CRASH_AT=$point:$pass "$flow" run "$cohort/w.yaml" --out "$run" --executor slurm >/dev/null 2>&1 || true
        again
        started_once
    done
done
