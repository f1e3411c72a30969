#!/bin/sh
# What an earlier run left in the directory answers nothing that it was not asked; files and streams
# that cannot be used are named.
. "$HRF_SOURCE_DIR/tests/cli/lib.sh"
make_cohort
rm "$scratch/cohort/testing/images/test_004.tif"
images=$scratch/cohort/testing/images
make_workflow "$scratch/w.yaml"
sed -i "s|^dataset:.*|dataset: {layout: files, files: [\"$images/*.tif\"]}|" "$scratch/w.yaml"
run() { "$flow" run "$scratch/w.yaml" --set tiler.patch.stride="$1" --out "$scratch/$2"; }

# The store is gone (or an older copy was put back): folders of its jobs are no answers.
expect_code 0 run 100 wanted
expect_code 0 run 64 again
cp "$scratch/again/run.db" "$scratch/old.db"
rm "$scratch"/again/run.db*
expect_code 0 run 100 again
cmp "$scratch/wanted/results/labels.csv" "$scratch/again/results/labels.csv" || fail "old results were taken"
cp "$scratch/old.db" "$scratch/again/run.db"
rm -f "$scratch"/again/run.db-*
expect_code 0 run 100 again
cmp "$scratch/wanted/results/labels.csv" "$scratch/again/results/labels.csv" || fail "old results were taken"

# A slide that left the cohort leaves no results.
mv "$images/test_001.tif" "$scratch/"
expect_code 0 run 100 again
[ -z "$(find "$scratch/again/results" -name 'test_001*')" ] || fail "results of a slide that is gone"

# A model whose weights are no numbers is refused before anything starts. One that gives no numbers
# (its sums overflow) fails slides by name; the report is made all the same.
model=$scratch/model.onnx
cp "$HRF_SOURCE_DIR/tests/golden/classifier.onnx" "$model"
at=$(LC_ALL=C grep -abo 'head\.biasJ' "$model" | tail -1 | cut -d: -f1)
printf '\377\377\377\377' | dd of="$model" bs=1 seek=$((at + 11)) conv=notrunc 2>/dev/null
expect_code 2 "$flow" run "$scratch/w.yaml" --set model.file="$model" --out "$scratch/broken"
expect_text "hold a NaN"
[ ! -e "$scratch/broken" ] || fail "a run was begun with a damaged model"
cp "$HRF_SOURCE_DIR/tests/golden/classifier.onnx" "$model"
at=$(LC_ALL=C grep -abo 'head\.weightJ' "$model" | tail -1 | cut -d: -f1)
printf '\377\377\177\177%.0s' 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 |
    dd of="$model" bs=1 seek=$((at + 14)) conv=notrunc 2>/dev/null # the largest floats
expect_code 3 "$flow" run "$scratch/w.yaml" --set model.file="$model" --out "$scratch/broken"
expect_text "test_002: the model gives patch 0 the probability NaN"
[ -e "$scratch/broken/report/report.json" ] || fail "no report beside a slide that failed"

# A report tells of the model that scored, also when its file is another one by now, or gone.
cp "$HRF_SOURCE_DIR/tests/golden/classifier.onnx" "$model"
sum=$(sha256sum "$model" | cut -d' ' -f1)
expect_code 0 "$flow" run "$scratch/w.yaml" --set model.file="$model" --out "$scratch/again"
for change in "truncate -s 5 $model" "rm $model"; do
    $change
    expect_code 0 "$flow" report "$scratch/again" --json
    expect_text "$sum"
    expect_code 0 "$flow" cancel "$scratch/again"
done

# A limit on files is told like a full disk.
(ulimit -f 60 && expect_code 1 "$flow" run "$scratch/w.yaml" --out "$scratch/limited")

# Output that reaches nobody is no success; closed standard files are no harm.
if [ -e /dev/full ]; then
    code=0
    "$flow" status "$scratch/again" --json >/dev/full 2>"$scratch/err" || code=$?
    [ $code = 1 ] || fail "exit $code with a full disk behind standard output"
    grep -q "cannot be written" "$scratch/err" || fail "nothing was said of the lost output"
fi
"$flow" check "$scratch/w.yaml" <&- >&- 2>&- || fail "closed standard files"
expect_code 2 "$flow" run "$scratch/nosuch.yaml"
expect_text "cannot open"
expect_code 2 "$flow" check "$scratch/nosuch.yaml"

# What is no regular file is refused, and nobody waits for a pipe that nobody writes into.
pipe=$scratch/pipe
mkfifo "$pipe"
refused() { expect_code 2 "$@"; expect_text "is a FIFO (pipe); a regular file is needed"; }
refused "$flow" check "$pipe"
refused "$flow" check "$scratch/w.yaml" --set model.file="$pipe"
sed "s|^dataset:.*|dataset: {layout: csv, csv: $pipe}|" "$scratch/w.yaml" >"$scratch/csv.yaml"
refused "$flow" plan "$scratch/csv.yaml"
refused "$flow" tile "$pipe"
refused "$engine" eval "$pipe" --input "$pipe" --output "$scratch/o.npy"
mkdir "$scratch/no-run"
mkfifo "$scratch/no-run/run.db"
refused "$flow" status "$scratch/no-run"
cat "$scratch/w.yaml" | refused "$flow" check /dev/stdin
expect_code 2 "$flow" check /dev/zero
expect_text "is a device; a regular file is needed"

# What somebody wrote into the store does nothing to the terminal that shows it.
cp -r "$scratch/again" "$scratch/marked"
sqlite3 "$scratch/marked/run.db" "DELETE FROM seal; UPDATE task SET reason = 'a' || char(27) || '[2Jb';
    INSERT OR REPLACE INTO fact VALUES('queue', 'a' || char(27) || '[2Jb');
    UPDATE attempt SET state = 1, start_time = 0, pid = 0, directory = 'jobs/none' WHERE id = 1"
for command in "why:test_002" "status:"; do
    # shellcheck disable=SC2086
    expect_code 0 "$flow" ${command%:*} "$scratch/marked" ${command#*:}
    expect_text 'a\x1b[2Jb'
    ! grep -q "$(printf '\033')" "$scratch/out" || fail "an escape sequence is printed"
done

# A cache that others can write is not believed.
mkdir -m 777 "$scratch/cache"
chmod 777 "$scratch/cache"
expect_code 2 "$flow" calibrate --list --cache "$scratch/cache"
expect_text "can be written by others"
expect_code 2 "$flow" profile --model resnet18 --size 32 --runs 1 --cache "$scratch/cache"
expect_text "can be written by others"
chmod 700 "$scratch/cache"
expect_code 0 "$flow" calibrate --list --cache "$scratch/cache"
echo "1 passed, 0 failed"
