#!/bin/sh
# Every crash point: kill -9 there, run again, the same final bytes, nothing lost or done twice.
# The points are not listed here: one run learns them, in every program, then each gets its turn.
# flow_crash.sh 0 takes every other point, flow_crash.sh 1 those between, without it takes all.
half=${1:-all}
. "$HRF_SOURCE_DIR/tests/cli/lib.sh"
# A run this small takes two fifths of the time of the other flows' and passes the same points: the
# largest slide is left out, and so are heat maps.
"$flow" demo-data "$scratch/cohort" --slides 4 --size 1024 >/dev/null 2>&1
make_workflow "$scratch/w.yaml"
sed -i 's/^dataset: {/&exclude: [test_002], /; s/patches_per_job: 20/patches_per_job: 16/' "$scratch/w.yaml"
echo "precision: [fp32, int8]" >>"$scratch/w.yaml"
echo "report: {heatmaps: false}" >>"$scratch/w.yaml"
expect_code 3 env HRF_CRASH_LIST="$scratch/points" "$flow" run "$scratch/w.yaml" --out "$scratch/clean"
n_tasks=$(sqlite3 "$scratch/clean/run.db" "SELECT count(*) FROM event WHERE subject='task'")
points=$(sort -u "$scratch/points")
passed=0
n_points=0
for point in $points; do
    n_points=$((n_points + 1))
    [ "$half" = all ] || [ $((n_points % 2)) = "$half" ] || continue
    for pass in 1 3; do
        [ "$pass" -le "$(grep -cx "$point" "$scratch/points")" ] || continue
        run=$scratch/run
        rm -rf "$run" "$XDG_CACHE_HOME"
        # A worker dies at every start: by its own fault, or it would be tried twenty times.
        HRF_RETRY_MS=0 HRF_CRASH_SIGNAL=SEGV HRF_CRASH_AT=$point:$pass "$flow" run "$scratch/w.yaml" --out "$run" >/dev/null 2>&1 || true
        expect_code 3 "$flow" run "$scratch/w.yaml" --out "$run"
        diff -r "$scratch/clean/results" "$run/results" >/dev/null || fail "$point:$pass: other bytes"
        n=$(sqlite3 "$run/run.db" "SELECT count(*) FROM event WHERE subject='task'")
        [ "$n" = "$n_tasks" ] || fail "$point:$pass: $n results recorded, not $n_tasks"
        twice=$(sqlite3 "$run/run.db" "SELECT count(*) FROM (SELECT text FROM event WHERE subject='task' GROUP BY text HAVING count(*) > 1)")
        [ "$twice" = 0 ] || fail "$point:$pass: $twice results recorded twice"
        passed=$((passed + 1))
    done
done
echo "points: $(echo "$points" | tr '\n' ' ')"
[ "$n_points" -gt 40 ] || fail "only $n_points crash points were met"
echo "$passed passed, 0 failed"
