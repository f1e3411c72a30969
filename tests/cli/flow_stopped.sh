#!/bin/sh
# A job that is stopped, or does nothing: named by run, status and why, ended after
# executor.local.hang_after, and its tasks tried again without a try being taken.
. "$HRF_SOURCE_DIR/tests/cli/lib.sh"
# Silent after two of them: so long no launcher may have to wait for a processor, or it is named in the
# place of its worker.
export HRF_BEAT_MS=2000
make_cohort
make_workflow "$scratch/w.yaml"
expect_code 3 "$flow" run "$scratch/w.yaml" --out "$scratch/clean"
cat >"$scratch/engine" <<'END'
#!/bin/sh
if [ "$1" = infer ] && mkdir "$mark" 2>/dev/null; then
    case $stop in
    worker) kill -STOP $$ ;;
    launcher) kill -STOP $PPID ;; # the worker goes on, but nobody takes note of its end
    all) kill -STOP $PPID $$ ;;
    waits) sleep 1000 ;; # as for a disk that hangs
    esac
fi
exec "$engine" "$@"
END
chmod +x "$scratch/engine"
export HRF_ENGINE=$scratch/engine engine mark=$scratch/mark stop
start() { # who is stopped, words for the run...
    stop=$1
    shift
    rm -rf "$scratch/run" "$mark"
    "$flow" run "$scratch/w.yaml" --out "$scratch/run" "$@" >"$scratch/out" 2>"$scratch/driver" &
    driver=$!
}
until_true() {
    until "$@"; do
        kill -0 $driver 2>/dev/null || { cat "$scratch/driver"; fail "$stop: the run ended before: $*"; }
        sleep 0.1
    done
}
named() { grep -q "job infer-.*: $1" "$scratch/driver"; }
shows() { "$flow" status "$scratch/run" | grep -q "^job       infer-.* silent.*: $1"; }
end() {
    code=0
    wait $driver || code=$?
    [ "$code" = 3 ] || { cat "$scratch/driver"; fail "$stop: exit $code"; }
    diff -r "$scratch/clean/results" "$scratch/run/results" || fail "$stop: other bytes"
    [ "$(sqlite3 "$scratch/run/run.db" "SELECT max(n_attempts) FROM task WHERE state=2")" = 0 ] || fail "$stop: a try was taken"
}

# Never ended where that is asked for; named all the same, and it goes on when it may.
start worker --set executor.local.hang_after=00:00:00
until_true named "its worker has done nothing for .*: it is stopped"
until_true shows "its worker has done nothing for .*: it is stopped"
job=$("$flow" status "$scratch/run" | sed -n 's/^job       \(infer-[0-9]*\) silent.*: its worker has done nothing for .*/\1/p' | head -n 1)
expect_code 0 "$flow" why "$scratch/run" "$job"
expect_text "its worker has done nothing for"
expect_code 0 "$flow" status "$scratch/run" --json
expect_text '"silent":["infer-'
pid=$(sqlite3 "$scratch/run/run.db" "SELECT pid FROM attempt WHERE job_id='$job'")
kill -CONT $(ps -o pid= -s "$pid")
end
echo "passed: a stopped worker that goes on"

for case in "worker|its worker has done nothing for .*: it is stopped" \
    "launcher|no beat has come for .*: it is stopped, or its disk hangs" \
    "all|no beat has come for .*: it is stopped, or its disk hangs" \
    "waits|its worker has done nothing for .*: it waits for something"; do
    start "${case%%|*}" --set executor.local.hang_after=00:00:02
    end
    named "${case#*|}" || { cat "$scratch/driver"; fail "$stop: not named"; }
    grep -q "job infer-.* is ended" "$scratch/driver" || fail "$stop: not ended"
    # Where only the launcher was stopped, the worker may have made all of its results meanwhile.
    [ "$stop" = launcher ] || sqlite3 "$scratch/run/run.db" "SELECT text FROM event" | grep -q "it showed no sign of life and was ended: ${case#*|}" || fail "$stop: not told why"
    # What was killed is there until it has had a processor once more; what was not, for ever.
    for pid in $(sqlite3 "$scratch/run/run.db" "SELECT pid FROM attempt"); do
        while ps -o stat= -s "$pid" | grep -qv "^Z"; do sleep 0.1; done
    done
    echo "passed: ${case%%|*}"
done
