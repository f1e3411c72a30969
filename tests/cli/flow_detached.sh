#!/bin/sh
# After Ctrl-C the jobs go on without a driver: `status` says which of them live, what they have done
# and how fast; the next driver counts that time as theirs; after `cancel` nothing is shown as running.
. "$HRF_SOURCE_DIR/tests/cli/lib.sh"
make_cohort
make_workflow "$scratch/w.yaml"
sed -i 's/patches_per_job: 20/patches_per_job: 1000/; s/max_jobs: 2/max_jobs: 1/' "$scratch/w.yaml"
is_json() { "$flow" status "$scratch/run" --json >"$scratch/out" && python3 -c 'import json,sys; v=json.load(open(sys.argv[1])); assert eval(sys.argv[2]), v' "$scratch/out" "$1" || fail "not so: $1"; }
# An engine that waits with its work as long as a file is there.
cat >"$scratch/engine" <<'END2'
#!/bin/sh
while [ "$1" = infer ] && [ -e "$hold" ]; do sleep 0.05; done
exec "$engine" "$@"
END2
chmod +x "$scratch/engine"
export HRF_ENGINE=$scratch/engine engine hold=$scratch/hold
detach() { # words of run...
    rm -rf "$scratch/run"
    touch "$hold"
    "$flow" run "$scratch/w.yaml" --out "$scratch/run" "$@" >"$scratch/first" 2>"$scratch/driver" &
    pid=$!
    until ls "$scratch"/run/jobs/infer*/start.json >/dev/null 2>&1; do
        kill -0 $pid 2>/dev/null || { cat "$scratch/driver"; fail "the run ended"; }
        sleep 0.05
    done
    is_json 'v["driver"] > 0 and [j["state"] for j in v["jobs"]] == ["running"]'
    kill -INT $pid
    code=0
    wait $pid || code=$?
    [ "$code" = 130 ] || fail "interrupted with $code"
}

detach --set name='"a b"'
grep -qF "to continue: hires-flow run $scratch/w.yaml --out $scratch/run --set 'name=\"a b\"'" "$scratch/first" || { cat "$scratch/first"; fail "not how to go on"; }
is_json 'v["driver"] == 0 and v["tasks"]["infer"]["running"] >= 1 and v["jobs"][0]["state"] == "running"'
"$flow" status "$scratch/run" >"$scratch/out"
expect_text "driver    none; 1 job goes on without it: start the run again to import the results"
grep -q "^job       infer-.* running on .*, sign of life .*, 0 of .* patches$" "$scratch/out" || { cat "$scratch/out"; fail "no line for the job"; }
sleep 1.2
rm "$hold"
until "$flow" status "$scratch/run" | grep -q "^job       infer-.* ended"; do sleep 0.1; done
is_json 'v["patches"]["done"] > v["patches"]["imported"] == 0 and v["tasks"]["infer"]["not_imported"] >= 1 and v["tasks"]["infer"]["running"] == 0 and v["patches_per_second"] == 0'
"$flow" status "$scratch/run" >"$scratch/out"
expect_text "of them by jobs that are not imported yet"
expect_text "done and not imported"
sleep 1.2 # nobody works: this is no time of the phase
expect_code 3 "$flow" run "$scratch/w.yaml" --out "$scratch/run"
python3 - "$scratch/run" <<'END2' || fail "the phase's time"
import json, sqlite3, sys, time
seconds = {p["name"]: p["seconds"] for p in json.load(open(sys.argv[1] + "/report/report.json"))["phases"]}
rows = sqlite3.connect(sys.argv[1] + "/run.db").execute("SELECT submitted_ms, ended_ms FROM attempt WHERE kind=1").fetchall()
whole = sum(b - a for a, b in rows) / 1000
print(seconds, whole, rows)
assert abs(seconds["infer"] - whole) < 0.01  # one job at a time
assert 1.2 < seconds["infer"] < time.time() - rows[0][0] / 1000 - 1.2
END2

detach
expect_code 0 "$flow" cancel "$scratch/run" --json
expect_text '"jobs_ended":1'
is_json 'v["tasks"]["infer"]["running"] == v["tasks"]["infer"]["in_queue"] == 0 and all(j["state"] != "running" for j in v["jobs"])'
"$flow" status "$scratch/run" >"$scratch/out"
! grep "running\|goes on" "$scratch/out" || fail "something is shown as running"
expect_code 0 "$flow" cancel "$scratch/run"
expect_text "0 jobs ended"
rm "$hold"
expect_code 3 "$flow" run "$scratch/w.yaml" --out "$scratch/run"
expect_code 0 "$flow" status "$scratch/run"
expect_text "none; the run has ended"
echo "2 passed, 0 failed"
