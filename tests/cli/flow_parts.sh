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

printf '#!/bin/sh\n[ "$1" != infer ] || kill -SEGV $$\nexec %s "$@"\n' "$engine" >"$scratch/crashes"
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
echo "3 passed, 0 failed"
