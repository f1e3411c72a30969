#!/bin/sh
# Commands on the documentation's pages: each one is parsed against the program's own help, and the
# page of the first ten minutes is carried out as it stands. (Others need a cluster, a GPU, real
# cohorts or root: what they show is run by tests/slurm, flow_cuda, flow_real and bundle.)
. "$HRF_SOURCE_DIR/tests/cli/lib.sh"
python3 "$HRF_SOURCE_DIR/tests/cli/docs_commands.py" "$HRF_BIN_DIR" "$HRF_SOURCE_DIR"/docs/*.md "$HRF_SOURCE_DIR"/docs/*/*.md \
    "$HRF_SOURCE_DIR/README.md" "$HRF_SOURCE_DIR/CONTRIBUTING.md" >"$scratch/out" 2>&1 || { cat "$scratch/out"; fail "the documentation"; }
cat "$scratch/out"

page=$HRF_SOURCE_DIR/docs/first-steps.md
sed -n '/^```sh$/,/^```$/{/^```/!p}' "$page" >"$scratch/commands"
[ "$(wc -l <"$scratch/commands")" -ge 10 ] || fail "the page has only $(wc -l <"$scratch/commands") commands"
mkdir "$scratch/first"
ln -s "$HRF_SOURCE_DIR/models" "$scratch/first/models"
cd "$scratch/first"
PATH=$HRF_BIN_DIR:$PATH
while read -r line; do
    code=0
    sh -c "$line" >"$scratch/out" 2>"$scratch/err" </dev/null || code=$?
    case "$code $line" in
    0\ * | "3 hires-flow infer cohort/testing/images "* | "3 hires-flow run "*) ;; # the damaged slide
    *) cat "$scratch/err"; fail "exit code $code: $line" ;;
    esac
done <"$scratch/commands"
expect_text "4 slides: 3 done, 1 failed"
[ -s all/report/index.html ] && [ -s all/results/labels.csv ] && [ -s runs/test_001/run.db ] || fail "not what the page says is there"
python3 "$HRF_SOURCE_DIR/tests/cli/docs_shape.py" "$HRF_SOURCE_DIR" >"$scratch/out" 2>&1 || { cat "$scratch/out"; fail "the pages' shape"; }
echo "$(wc -l <"$scratch/commands") commands carried out"
