#!/bin/sh
# The commands around a run: infer without a workflow, aggregate, plan, and what scripts read.
. "$HRF_SOURCE_DIR/tests/cli/lib.sh"
make_cohort
is_json() { python3 -c 'import json,sys; v=json.load(open(sys.argv[1])); assert eval(sys.argv[2], {"v": v}), v' "$scratch/out" "$1" || fail "not so: $1"; }
images=$scratch/cohort/testing/images
model=$HRF_SOURCE_DIR/tests/golden/classifier.onnx

# infer: a folder, one slide, and the words for what is wrong.
expect_code 3 "$flow" infer "$images" --model "$model" --out "$scratch/run" --size 64 --batch 8
expect_text "4 slides: 3 done, 1 failed"
expect_code 0 "$flow" infer "$images/test_001.tif" --model "$model" --out "$scratch/one" --size 64 --json
is_json 'v["slides"]["done"] == 1'
# Its only job has every core; of many slides each job has its share.
cores_of() { python3 -c 'import glob,json,sys; print(*{json.load(open(f))["n_threads"] for f in glob.glob(sys.argv[1] + "/jobs/infer-*/spec.json")})' "$1"; }
[ "$(cores_of "$scratch/one")" = "$(nproc)" ] || fail "$(cores_of "$scratch/one") cores for a lonely job"
[ "$(cores_of "$scratch/run")" = "$((($(nproc) + 1) / 2))" ] || [ "$(nproc)" -gt 2 ] || fail "not a share of the cores"
odd="$scratch/odd [1] \"*: #
- 'x.tif"
cp "$images/test_001.tif" "$odd"
expect_code 0 "$flow" infer "$odd" --model "$model" --out "$scratch/odd" --size 64 --json \
    --classes 'no: #1, "tumor" {}' --positive '"tumor" {}'
is_json 'v["slides"] == {"total": 1, "done": 1, "failed": 0, "no_tissue": 0, "excluded": 0}'
grep -qF 'classes: ["no: #1", "\"tumor\" {}"]' "$scratch/odd/workflow.yaml" || fail "$(grep classes: "$scratch/odd/workflow.yaml")"
expect_code 2 "$flow" infer "$images"
expect_text "--model"
expect_code 2 "$flow" infer "$scratch/nowhere" --model "$model" --out "$scratch/x"
expect_text "does not exist"
# What is wrong is told of the options that were given, all of it, and before anything is written.
wrong() { # options of infer, then the texts that are expected
    options=$1
    shift
    expect_code 2 eval '"$flow" infer "$images/test_001.tif" --model "$model" --out "$scratch/wrong"' "$options"
    for text; do expect_text "hires-flow infer: $text"; done
    ! grep -E "request.yaml|hires-flow run|tiler\.|engine\.|'model\." "$scratch/out" "$scratch/err" || fail "keys instead of options: $options"
    [ ! -e "$scratch/wrong" ] || fail "something was written: $options"
}
wrong "--size 0 --mpp -1 --batch 0 --slide-mpp 0" "--size is 0; it must be 16 to" "--mpp is -1; it must be" "--batch is 0; it must be" "--slide-mpp is 0; it must be" "4 options cannot be used"
wrong "--precision fp3 --device gpu" "'fp3' is not a value of --precision, did you mean 'fp32'?" "'gpu' is not a value of --device"
wrong "--classes a,a --positive b" "a class stands twice in --classes" "'b' is not one of --classes; --positive must be"
wrong "--classes a,b,c --size 64" "--model '$model' does not fit what is asked"
expect_text "there are 3 classes (--classes)"
wrong "--size 64 --model '$scratch/no.onnx'" "the model file '$scratch/no.onnx' does not exist"
wrong "--set tilr=1" "--set tilr: unknown key 'tilr'"
expect_code 2 "$flow" infer "$scratch/*.nope" --model "$model" --out "$scratch/wrong"
expect_text "hires-flow infer: SLIDE|FOLDER: '$scratch/*.nope' matches no file"
[ ! -e "$scratch/wrong" ] || fail "something was written"
mkdir "$scratch/empty"
expect_code 2 "$flow" infer "$scratch/empty" --model "$model" --out "$scratch/x"
expect_text "contains no slide"

# Several operands, a pattern, folders in folders; what is no slide is counted; a directory with the
# results of another request is left alone, and so are folders of slides.
mkdir -p "$scratch/cases/one" "$scratch/cases/two"
cp "$images/test_001.tif" "$scratch/cases/one/a.tif"
cp "$images/test_002.tif" "$scratch/cases/two/b.tif"
touch "$scratch/cases/one/notes.txt" "$scratch/cases/read.me" "$scratch/cases/none"
cd "$scratch"
infer() { "$flow" infer "$@" --model "$model" --size 64 --json; }
expect_code 2 infer cases
expect_text "only folders; set recursive"
expect_code 0 infer cases --recursive
is_json 'v["slides"]["done"] == 2'
expect_text "passed over: 3 files that are no slides ("
expect_text "1 .txt"
[ -s runs/cases/results/labels.csv ] || fail "not named after its input"
cp runs/cases/results/labels.csv before.csv
expect_code 0 infer "cases/*/a.tif" cases/two
is_json 'v["slides"]["done"] == 2'
[ -s runs/cases-2/results/labels.csv ] || fail "no directory of its own"
cmp runs/cases/results/labels.csv before.csv || fail "the results of another request are gone"
expect_code 2 infer cases/two --out runs/cases
expect_text "has the results of another request"
expect_code 2 infer cases/one --out cases/one
expect_text "results are not written among slides"
expect_code 0 infer cases --recursive --set aggregate.threshold=0.4
[ -e runs/cases-3/run.db ] || fail "another --set is the same request"
expect_code 0 infer cases --recursive
[ ! -e runs/cases-4 ] || fail "the same request does not continue"
cd "$HRF_SOURCE_DIR"

# bench takes the model as its argument, too.
expect_code 0 "$flow" bench "$model" --size 64 --batch 2 --runs 1 --products
expect_text "oneDNN's matrix products of these shapes alone"
expect_text "images"
expect_code 2 "$flow" bench resnet5 --size 64
expect_text "resnet50"
expect_code 2 "$flow" bench

# HRF_ENGINE names the engine for everything that starts it.
printf '#!/bin/sh\necho another engine: "$1" >&2\nexit 1\n' >"$scratch/another"
chmod +x "$scratch/another"
HRF_ENGINE=$scratch/another expect_code 1 "$flow" bench engine --model resnet50
expect_text "another engine: bench"
HRF_ENGINE=$scratch/another expect_code 2 "$flow" infer "$images" --model "$model" --out "$scratch/x" --size 64
expect_text "another engine: model"
HRF_ENGINE=$scratch/another expect_code 4 "$flow" doctor
expect_text "put hires-engine next to hires-flow"

# aggregate by another rule, without scoring again; JSON is the report's.
expect_code 0 "$flow" aggregate "$scratch/run" --set aggregate.slide_score=mean
expect_text "77 patches"
expect_code 0 "$flow" aggregate "$scratch/run" --json
is_json 'v["slides"]["failed"] == 1 and v["precisions"][0]["patches"] == 77'

# What these commands would ignore is refused, and what cannot be is told of the --set, not of a file.
for command in aggregate report "compare $scratch/run"; do
    expect_code 2 "$flow" $command "$scratch/run" --set tiler.patch.size=128
    expect_text "--set tiler.patch.size: it would change nothing here"
    expect_code 2 "$flow" $command "$scratch/run" --set aggregate.threshold=7
    expect_text "--set aggregate.threshold: 'aggregate.threshold' is 7"
    ! grep "workflow.yaml" "$scratch/err" || fail "$command blames a file"
done
expect_code 0 "$flow" report "$scratch/run" --set report.html=false
expect_text "report: (not requested)"
expect_code 0 "$flow" report "$scratch/run"

# plan: cached where the store has it, changed where the workflow differs.
w=$scratch/run/request.yaml
expect_code 0 "$flow" plan "$w" --out "$scratch/run" --json
is_json '[t["state"] for t in v["tasks"]] == ["cached"]*3 + ["open"] + ["cached"]*3 + ["unknown"]'
expect_code 0 "$flow" plan "$w" --out "$scratch/run" --set model.input.mean='[0.5, 0.5, 0.5]' --json
is_json '{t["state"] for t in v["tasks"] if t["kind"] == "infer"} == {"changed", "unknown"}'
# Its estimate for a fresh run, beside what this run has really tiled and written.
expect_code 0 "$flow" plan "$w" --out "$scratch/fresh" --json
python3 - "$scratch/out" "$scratch/run" <<'END' || fail "the estimate is far from what the run did"
import json, os, sqlite3, sys
f = json.load(open(sys.argv[1]))["forecast"]
run = sys.argv[2]
made = sqlite3.connect(run + "/run.db").execute("select sum(n_patches) from task where kind=1").fetchone()[0]
size = sum(os.path.getsize(os.path.join(d, n)) for d, _, names in os.walk(run) for n in names)
assert 0.9 < f["patches"]["expected"] / made < 1.1, (f["patches"], made)
assert 0.5 < f["bytes"] / size < 2, (f["disk"], size)
assert f["time"]["is_whole"] and f["time"]["seconds"] > 0 and f["slides_to_tile"] == 4 and f["patches"]["slides_looked_at"] == 3
END
expect_code 0 "$flow" plan "$w" --out "$scratch/fresh" --tasks
expect_text "new     tile test_001"
expect_code 0 "$flow" run "$w" --out "$scratch/fresh" --dry-run
[ ! -e "$scratch/fresh" ] || fail "a dry run left something"

# What scripts read.
expect_code 0 "$flow" check "$w" --json
is_json 'v["valid"] and v["findings"] == []'
expect_code 2 "$flow" check "$w" --set tilr=1 --json
is_json 'not v["valid"] and v["errors"] == 1 and "did you mean" in v["findings"][0]["message"] and v["findings"][0]["line"] is None'
expect_code 0 "$flow" why "$scratch/run" test_004 --json
is_json 'v["state"] == "failed" and v["tasks"][0]["reason"]'
# What a model may ask for is looked at before anything is made of it, by the same keys everywhere.
expect_code 2 "$flow" check "$w" --set model.max_operations=1000
expect_text "model.max_operations allows 1000"
expect_code 2 "$flow" check "$w" --set model.max_memory=1MiB
expect_text "model.max_memory allows"
expect_code 0 "$flow" status "$scratch/run" --json
is_json 'v["slides"]["done"] == 3'
expect_code 0 "$flow" tile "$images/test_001.tif" --json
is_json 'v["patches"] == 2 and v["mpp_x"] == 0.25'
expect_code 0 "$flow" doctor --dir "$scratch" --json
is_json 'v["good"] and all(f["meaning"] for f in v["findings"])'
code=0
ONEDNN_MAX_CPU_ISA=AVX "$flow" doctor --dir "$scratch" >"$scratch/out" || code=$?
[ "$code" != 0 ] || fail "doctor finds nothing wrong with a processor that device cpu refuses"
expect_text "device cpu needs AVX2"
expect_code 0 "$flow" cancel "$scratch/run" --json
is_json 'v["jobs_ended"] == 0'
for command in run infer check plan status why cancel aggregate report tile demo-data doctor; do
    expect_code 0 "$flow" "$command" --help
done
# What hires-engine does for hires-flow speaks of what was typed.
for command in "bench" "bench sweep" "model" "profile"; do
    expect_code 0 "$flow" $command --help
    expect_text "usage: hires-flow $command "
done
expect_code 1 "$flow" model check "$scratch/no.onnx"
expect_text "hires-flow model: cannot open"
echo "1 passed, 0 failed"
