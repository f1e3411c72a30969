#!/bin/sh
# A second driver, an interrupt, a read-only and a full disk: a clear state and message each.
. "$HRF_SOURCE_DIR/tests/cli/lib.sh"
make_cohort
make_workflow "$scratch/w.yaml"

# Interrupted: detached with 130 and the way to go on; going on ends as if nothing had been.
"$flow" run "$scratch/w.yaml" --out "$scratch/run" >"$scratch/first" 2>&1 &
pid=$!
while [ ! -s "$scratch/run/run.db" ] || [ -z "$(ls "$scratch/run/jobs" 2>/dev/null)" ]; do
    kill -0 $pid 2>/dev/null || break
    sleep 0.02
done
expect_code 1 "$flow" run "$scratch/w.yaml" --out "$scratch/run"
expect_text "is being driven by process"
kill -TERM $pid 2>/dev/null || true
code=0
wait $pid || code=$?
[ "$code" = 130 ] || [ "$code" = 3 ] || fail "interrupted with $code"
[ "$code" != 130 ] || grep -q "to go on:" "$scratch/first" || fail "no way to go on"
expect_code 3 "$flow" run "$scratch/w.yaml" --out "$scratch/run"
expect_text "3 done, 1 failed"
expect_code 0 "$flow" cancel "$scratch/run"

if [ "$(id -u)" = 0 ] && mkdir "$scratch/small" && mount -t tmpfs -o size=300k tmpfs "$scratch/small" 2>/dev/null; then
    trap 'umount "$scratch/small"; rm -rf "$scratch"' EXIT
    code=0
    "$flow" run "$scratch/w.yaml" --out "$scratch/small/run" >"$scratch/out" 2>"$scratch/err" || code=$?
    [ "$code" = 1 ] || { cat "$scratch/err"; fail "a full disk ended with $code"; }
    grep -qiE 'full|No space' "$scratch/err" || { cat "$scratch/err"; fail "a full disk is not named"; }
    mount -o remount,size=200m "$scratch/small"
    expect_code 3 "$flow" run "$scratch/w.yaml" --out "$scratch/small/run"
    diff -r "$scratch/run/results" "$scratch/small/run/results" || fail "after a full disk: other bytes"
fi
echo "1 passed, 0 failed"
