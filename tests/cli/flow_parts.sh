#!/bin/sh
# What a job that was cut short had scored is not scored again: every start of the engine dies at its
# fourth batch, and the run ends with the bytes of a clean one all the same.
. "$HRF_SOURCE_DIR/tests/cli/lib.sh"
make_cohort
make_workflow "$scratch/w.yaml"
words="--set executor.patches_per_job=1000 --set executor.max_jobs=1 --set engine.batch=3"
expect_code 3 "$flow" run "$scratch/w.yaml" --out "$scratch/clean" $words
n=$(sqlite3 "$scratch/clean/run.db" "SELECT sum(n_patches) FROM task WHERE kind=1")
expect_code 3 env HRF_PART_MS=0 HRF_CRASH_AT=engine.batch:4 "$flow" run "$scratch/w.yaml" --out "$scratch/cut" $words
diff -r "$scratch/clean/results" "$scratch/cut/results" || fail "other bytes"
# Each start scores 3 batches of 3 for good: so many starts are needed, and not many more.
starts=$(ls -d "$scratch"/cut/jobs/infer-* | wc -l)
[ "$starts" -ge $((n / 12)) ] || fail "$starts starts for $n patches: did they die at all?"
[ "$starts" -le $((n / 9 + 8)) ] || fail "$starts starts for $n patches: work was done twice"
cat "$scratch"/cut/jobs/infer-*/log | grep -q 'were scored by an earlier attempt' || fail "no part was used"
[ -z "$(ls -A "$scratch/cut/parts")" ] || fail "parts are left behind"

printf '#!/bin/sh\n[ "$1" != infer ] || kill -SEGV $$\nexec "%s" "$@"\n' "$engine" >"$scratch/crashes"
chmod +x "$scratch/crashes"
# A part that is damaged, or another task's, is not believed.
for bad in damaged foreign; do
    rm -rf "$scratch/run"
    HRF_ENGINE=$scratch/crashes "$flow" run "$scratch/w.yaml" --out "$scratch/run" $words \
        --set executor.retries=0 >/dev/null 2>&1 || true
    [ "$(sqlite3 "$scratch/run/run.db" "SELECT count(*) FROM task WHERE kind=1 AND state<>2")" -ge 3 ] || fail "no open tasks"
    mkdir -p "$scratch/run/parts"
    for key in $(sqlite3 "$scratch/run/run.db" "SELECT key FROM task WHERE kind=1"); do
        case $bad in
        damaged) head -c 100 /dev/urandom >"$scratch/run/parts/$key.rec" ;;
        foreign) sqlite3 "$scratch/clean/run.db" "SELECT writefile('$scratch/run/parts/$key.rec', bytes) FROM record, task
            WHERE task.kind=1 AND record.key=task.key AND task.key<>'$key' LIMIT 1" >/dev/null ;;
        esac
    done
    expect_code 3 "$flow" run "$scratch/w.yaml" --out "$scratch/run" $words
    diff -r "$scratch/clean/results" "$scratch/run/results" || fail "$bad: other bytes"
    grep -q 'the scores of an earlier attempt are not used' "$scratch"/run/jobs/infer-*/log || fail "$bad: it was not looked at"
done
# The slides of a job by the size of their batches (2, 25 and 50 patches: 2, 7 and 8 in a batch), so that
# the network is made ready as rarely as can be; the bytes are those of smaller jobs.
(echo slide,label && for i in 3 2 1; do echo "$scratch/cohort/testing/images/test_00$i.tif,normal"; done) >"$scratch/slides.csv"
for n in 1000 20; do
    sed "s|^dataset:.*|dataset: {layout: csv, csv: $scratch/slides.csv}|" "$scratch/w.yaml" >"$scratch/csv.yaml"
    expect_code 0 "$flow" run "$scratch/csv.yaml" --out "$scratch/csv$n" --set executor.patches_per_job=$n --set executor.max_jobs=1
done
grep -o '"n_patches": [0-9]*' "$scratch"/csv1000/jobs/infer-*/spec.json | tr -dc '0-9\n' | tr '\n' ' ' >"$scratch/order"
[ "$(cat "$scratch/order")" = "50 25 2 " ] || fail "the slides of a job stand as $(cat "$scratch/order")"
diff -r "$scratch/csv1000/results" "$scratch/csv20/results" || fail "smaller jobs: other bytes"
echo "3 passed, 0 failed"
