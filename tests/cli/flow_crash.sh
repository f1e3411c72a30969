#!/bin/sh
# Every crash point: kill -9 there, run again, the same final bytes, nothing lost or done twice.
# The points are not listed here: one run learns them, in every program, then each gets its turn.
# flow_crash.sh 0 takes half of the points, flow_crash.sh 1 the others, without it takes all.
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
# A run dies at up to four points, each time in another life, and then comes to its end. One that no longer
# comes to a point, for others order what they do in other ways, has done so already: a new one dies there.
deaths=
begin() {
    rm -rf "$scratch/run" "$XDG_CACHE_HOME"
    deaths=
}
dies_at() { # point:pass
    rm -f "$scratch/passed"
    # A worker dies at every start: by its own fault, or it would be tried twenty times.
    HRF_RETRY_MS=0 HRF_CRASH_SIGNAL=SEGV HRF_CRASH_AT=$1 HRF_CRASH_LIST=$scratch/passed \
        "$flow" run "$scratch/w.yaml" --out "$scratch/run" >/dev/null 2>&1 || true
    deaths="$deaths $1"
    [ "$(grep -cx "${1%:*}" "$scratch/passed")" -ge "${1#*:}" ]
}
ends_well() {
    expect_code 3 "$flow" run "$scratch/w.yaml" --out "$scratch/run"
    diff -r "$scratch/clean/results" "$scratch/run/results" >/dev/null || fail "$deaths: other bytes"
    n=$(sqlite3 "$scratch/run/run.db" "SELECT count(*) FROM event WHERE subject='task'")
    [ "$n" = "$n_tasks" ] || fail "$deaths: $n results recorded, not $n_tasks"
    twice=$(sqlite3 "$scratch/run/run.db" "SELECT count(*) FROM (SELECT text FROM event WHERE subject='task' GROUP BY text HAVING count(*) > 1)")
    [ "$twice" = 0 ] || fail "$deaths: $twice results recorded twice"
}
begin
i=0
n_points=0
passed=0
for death in $(awk '++n[$1] == 1 || n[$1] == 3 { print $1 ":" n[$1] }' "$scratch/points"); do
    [ "${death#*:}" = 3 ] || n_points=$((n_points + 1))
    i=$((i + 1))
    [ "$half" = all ] || [ $(((i - 1) / 4 % 2)) = "$half" ] || continue
    if ! dies_at "$death"; then
        ends_well
        begin
        dies_at "$death" || fail "no run comes to $death"
    fi
    passed=$((passed + 1))
    [ $((i % 4)) != 0 ] || { ends_well && begin; }
done
[ -z "$deaths" ] || ends_well
echo "points: $(sort -u "$scratch/points" | tr '\n' ' ')"
[ "$n_points" -gt 40 ] || fail "only $n_points crash points were met"
echo "$passed passed, 0 failed"
