#!/bin/sh
# A second driver, an interrupt, a directory that cannot be written: a clear state and message each.
. "$HRF_SOURCE_DIR/tests/cli/lib.sh"
make_cohort
make_workflow "$scratch/w.yaml"

# Interrupted: detached with 130 and the way to go on; going on ends as if nothing had been. Its
# engines wait at a gate, so that it cannot end before.
cat >"$scratch/gate" <<END
#!/bin/sh
while [ "\$1" = infer ] && [ -e "$scratch/hold" ]; do sleep 0.02; done
exec "$engine" "\$@"
END
chmod +x "$scratch/gate"
touch "$scratch/hold"
HRF_ENGINE=$scratch/gate "$flow" run "$scratch/w.yaml" --out "$scratch/run" >"$scratch/first" 2>&1 &
pid=$!
until ls "$scratch/run/jobs/"infer*/start.json >"$scratch/out" 2>&1; do
    kill -0 $pid || fail "it ended before any inference"
    sleep 0.02
done
# Meanwhile a job's file changes in one digit, which nothing but its checksum tells.
damaged=$(dirname "$(ls "$scratch/run/jobs/"infer*/start.json | head -n 1)")/spec.json
sed -i 's/"engine.batch": 8/"engine.batch": 9/' "$damaged"
expect_code 1 "$flow" run "$scratch/w.yaml" --out "$scratch/run"
expect_text "is being driven by process"
kill -TERM $pid
code=0
wait $pid || code=$?
[ "$code" = 130 ] || fail "interrupted with $code"
grep -q "to continue:" "$scratch/first" || fail "no way to go on"
rm "$scratch/hold"
expect_code 3 "$flow" run "$scratch/w.yaml" --out "$scratch/run"
expect_text "3 done, 1 failed"
sqlite3 "$scratch/run/run.db" "SELECT text FROM event" >"$scratch/out"
expect_text "the job's file was damaged after it was written ("
expect_code 0 "$flow" cancel "$scratch/run"

# A model that does not fit is one fault, told before anything starts.
for misfit in "model.classes=[a, b, c]" "model.file=$scratch/cohort/testing/reference.csv" engine.memory=1MiB; do
    expect_code 2 "$flow" run "$scratch/w.yaml" --out "$scratch/misfit" --set "$misfit"
    expect_text "does not fit what is asked"
    [ ! -e "$scratch/misfit" ] || fail "$misfit: something was started"
done
expect_text "engine.memory allows"

# So is a dataset that is not there.
printf 'slide,label\na.svs,perhaps\n' >"$scratch/labels.csv"
for dataset in "{layout: files, files: [$scratch/nowhere/*.svs]}|matches no file" \
    "{layout: csv, csv: $scratch/labels.csv}|labels.csv:2: label 'perhaps' is not known"; do
    sed "s|^dataset:.*|dataset: ${dataset%%|*}|" "$scratch/w.yaml" >"$scratch/none.yaml"
    for command in plan run; do
        expect_code 2 "$flow" $command "$scratch/none.yaml" --out "$scratch/none"
        expect_text "${dataset#*|}"
        [ ! -e "$scratch/none" ] || fail "$command: something was started"
    done
done

# A directory in which nothing may be made (root writes everywhere, so as nobody where it can).
mkdir "$scratch/closed"
chmod 555 "$scratch/closed"
if [ "$(id -u)" != 0 ]; then
    expect_code 1 "$flow" run "$scratch/w.yaml" --out "$scratch/closed/run"
    expect_text "Permission denied"
elif chmod 755 "$scratch" && as_nobody="setpriv --reuid 65534 --regid 65534 --clear-groups" &&
    $as_nobody test -x "$flow" 2>/dev/null; then
    expect_code 1 $as_nobody env XDG_CACHE_HOME="$scratch/cache" "$flow" run "$scratch/w.yaml" --out "$scratch/closed/run"
    expect_text "Permission denied"
fi
echo "1 passed, 0 failed"
