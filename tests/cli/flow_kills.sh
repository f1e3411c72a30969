#!/bin/sh
# What a killed worker costs its task: nothing when the signal came from outside, a try when the
# worker brought it upon itself; either way nothing goes on for ever, and run again begins anew.
. "$HRF_SOURCE_DIR/tests/cli/lib.sh"
export HRF_RETRY_MS=0
make_cohort
make_workflow "$scratch/w.yaml"
# Batches of one patch: a job has its slides in order, and the first is the one that is held to account
# for an end before any of them is begun.
sed -i 's/max_jobs: 2/max_jobs: 1, retries: 1/; s/patches_per_job: 20/patches_per_job: 1000/; s/batch: 8/batch: 1/' "$scratch/w.yaml"
expect_code 3 "$flow" run "$scratch/w.yaml" --out "$scratch/clean"
n_slides=$(sqlite3 "$scratch/clean/run.db" "SELECT count(DISTINCT slide_id) FROM task WHERE kind=1")
asked() { sqlite3 "$scratch/run/run.db" "$1"; }

# The engine, but for one slide $signal ends it (or its launcher) as often as there are marks.
cat >"$scratch/engine" <<'END'
#!/bin/sh
if [ "$1" = infer ] && grep -q "$poison" "$2" && n=$(ls "$marks" | head -n 1) && [ -n "$n" ]; then
    rm "$marks/$n"
    case $signal in
    launcher) kill -KILL $PPID; exec sleep 1000 ;; # it dies with its launcher; a child of it would not
    *) kill -"$signal" $$; sleep 1000 ;;
    esac
fi
exec "$engine" "$@"
END
chmod +x "$scratch/engine"
export HRF_ENGINE=$scratch/engine engine marks=$scratch/marks signal poison
poison=$(sqlite3 "$scratch/clean/run.db" "SELECT path FROM slide WHERE id=(SELECT min(slide_id) FROM task WHERE kind=1)")
harm() { # signal, times
    signal=$1
    rm -rf "$scratch/run" "$marks"
    mkdir "$marks"
    for k in $(seq "$2"); do : >"$marks/$k"; done
    code=0
    "$flow" run "$scratch/w.yaml" --out "$scratch/run" >"$scratch/out" 2>"$scratch/err" || code=$?
    [ "$code" = 3 ] || { cat "$scratch/err"; fail "$1: exit $code"; }
    [ -z "$(ls "$marks")" ] || [ "$2" = 100 ] || fail "$1: it was not ended $2 times"
}
same() { diff -r "$scratch/clean/results" "$scratch/run/results" || fail "$signal: other bytes"; }

# From outside: more often than there are tries, and none is taken.
for outside in KILL TERM launcher; do
    harm $outside 6
    same
    [ "$(asked "SELECT max(n_attempts) FROM task WHERE kind=1")" = 0 ] || fail "$outside: a try was taken"
    asked "SELECT text FROM event" | grep -q 'this does not use up a try, 0 of 2 tries used up' || fail "$outside: not told"
    echo "passed: 6 times $outside"
done

# A slide that crashes its worker each time uses up its tries; the others do not suffer.
for own in SEGV ABRT; do
    harm $own 100
    [ "$(ls "$marks" | wc -l)" = 98 ] || fail "$own: $((100 - $(ls "$marks" | wc -l))) attempts, not 2"
    [ "$(asked "SELECT count(*) FROM task WHERE kind=1 AND state=3")" = 1 ] || fail "$own: more than one slide failed"
    [ "$(asked "SELECT count(DISTINCT slide_id) FROM task WHERE kind=1 AND state=2")" = $((n_slides - 1)) ] || fail "$own: other slides"
    echo "passed: isolated after $own"
done

# Run again: all of its tries once more, and it says so.
rm -rf "$marks" && mkdir "$marks" && : >"$marks/1"
expect_code 3 "$flow" run "$scratch/w.yaml" --out "$scratch/run"
expect_text "each begins with all of its 2 tries"
[ -z "$(ls "$marks")" ] || fail "it did not crash once more"
same
echo "passed: fresh tries"

# For ever from outside: given up in the end, and it is said that running again goes on.
harm KILL 100
[ "$(ls "$marks" | wc -l)" = 79 ] || fail "$((100 - $(ls "$marks" | wc -l))) kills, not 21"
expect_text "20 more attempts before this one ended in the same way"
expect_text "run again to continue"
rm -rf "$marks" && mkdir "$marks"
expect_code 3 "$flow" run "$scratch/w.yaml" --out "$scratch/run"
same
echo "passed: an end to kills"
