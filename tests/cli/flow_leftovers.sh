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
cat "$scratch/w.yaml" | expect_code 0 "$flow" check /dev/stdin
echo "1 passed, 0 failed"
