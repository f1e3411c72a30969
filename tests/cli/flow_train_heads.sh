#!/bin/sh
# slide_head.train: a run trains slide heads on its embeddings, as tasks, and scores each slide by
# heads that have not seen it. Killed at every point: the same bytes. What does not fit is a sentence.
. "$HRF_SOURCE_DIR/tests/cli/lib.sh"
python=/usr/bin/python3
cd "$scratch"
export OMP_WAIT_POLICY=passive # tests run side by side
"$flow" demo-data cohort --slides 10 --size 1024 --difficulty 0 --seed 7 >/dev/null 2>&1 # one is cut short
make_workflow "$scratch/w.yaml"
sed -i 's/classifier.onnx/classifier.onnx, output: embedding/; s/patches_per_job: 20/patches_per_job: 60/' w.yaml
cat >>w.yaml <<'END'
slide_head: {train: abmil, folds: 2, epochs: 5, learning_rate: 0.01, hidden: 16, attention: 8, validation: 0}
report: {heatmaps: false}
END
run() { # wanted exit code, run, further options...
    code_wanted=$1 to=$2
    shift 2
    expect_code "$code_wanted" "$flow" run w.yaml --out "$to" "$@"
}
expect_code 0 "$flow" plan w.yaml --out fresh --set slide_head.repeats=2 # named before they can be planned
expect_text "train     4 tasks: 4 to be planned when what is before is done"
expect_text "abmil: 2 folds, 2 seeds, at most 5 epochs"
expect_text "train     ?        from known once this run has trained one"
run 3 plain --set slide_head.train=none # the embeddings, for the runs below
cp -r plain run
run 3 run --set 'precision=[fp32,bf16]' --set slide_head.repeats=2
expect_code 0 "$flow" plan w.yaml --out run --set 'precision=[fp32,bf16]' --set slide_head.repeats=2
expect_text "train     8 tasks: 8 cached"
expect_text "head      54 tasks: 54 cached"
"$flow" status run >out || fail "status"
grep -q "^train  *8 done" out && grep -q "^head  *54 done" out || fail "tasks: $(cat out)"
"$python" - <<'END' || fail "the scores are not the mean of the heads that have not seen the slide"
import csv, glob, json
rows = {(r["slide"], r["precision"]): r for r in csv.DictReader(open("run/results/labels.csv"))}
scores = {}
for f in glob.glob("run/results/fp32/heads/*/predictions.csv"):
    for r in csv.DictReader(open(f)):
        assert r["part"] == "testing"
        scores.setdefault(r["slide"], []).append(float(r["score_tumor"]))
assert len(scores) == 9 and all(len(s) == 2 for s in scores.values()), scores # once a seed
for slide, s in scores.items():
    row = rows[slide, "fp32"]
    assert row["state"] == "done" and abs(float(row["score"]) - sum(s) / 2) < 1e-6, (row, s)
    assert abs(float(rows[slide, "bf16"]["score"]) - sum(s) / 2) < 0.01
report = json.load(open("run/report/report.json"))
assert [p["name"] for p in report["phases"]] == ["ingest", "tile", "infer", "train", "head", "aggregate"]
fp32, bf16 = report["precisions"]
assert "slide_heads" not in fp32 and fp32["slide_auc"] is not None
moved, own = bf16["slide_heads"]["trained_on_first"], bf16["slide_heads"]["trained_on_own"]
both = [(float(rows[s, "fp32"]["score"]), float(rows[s, "bf16"]["score"])) for s in scores]
assert moved["slides"] == own["slides"] == 9 and moved["labelled"] == 9
assert abs(moved["mean_difference"] - sum(abs(a - b) for a, b in both) / 9) < 1e-9
assert moved["auc"] == bf16["slide_auc"] and own["auc"] is not None and own["largest_difference"] > 0
page = open("run/report/index.html").read()
assert "<h2>Slide heads" in page and page.count("<tr><td>bf16</td><td>bf16</td>") == 1
END

# A training is of no slide: its job is explained all the same.
expect_code 0 "$flow" why run
expect_code 0 "$flow" why run "$(ls run/jobs | sed -n 's/^\(train-[0-9]*\).*/\1/p' | head -1)"
expect_text "  training 0:"

# Nothing is done again. A head that was trained here fits the run as a file, but for the slides that
# it has seen.
events() { sqlite3 "$1/run.db" "SELECT count(*) FROM event WHERE subject='task'"; }
n=$(events run)
run 3 run --set 'precision=[fp32,bf16]' --set slide_head.repeats=2
[ "$(events run)" = "$n" ] || fail "something was done again"

# Killed at every point on the way: the same bytes.
cp -r plain clean
run 3 clean
for point in head.start head.epoch.after:2 head.result.before head.task.before_commit run.plan_heads.before_commit:2; do
    rm -rf killed
    cp -r plain killed
    HRF_PART_MS=0 HRF_RETRY_MS=0 HRF_CRASH_SIGNAL=SEGV HRF_CRASH_AT=$point "$flow" run w.yaml --out killed >/dev/null 2>&1 || true
    run 3 killed
    diff -r clean/results killed/results >/dev/null || fail "$point: other bytes"
done

# As jobs of Slurm (the scripted one): the same bytes.
if [ -x "$HRF_BIN_DIR/../tests/slurm_fake/sbatch" ]; then
    cp -r plain on_slurm
    mkdir slurm
    printf 'Slots=2\n' >slurm/config
    sed 's/^executor:.*/executor: {type: slurm, patches_per_job: 60, slurm: {time: "00:10:00"}}/' w.yaml >slurm.yaml
    expect_code 3 env HRF_FAKE_SLURM="$scratch/slurm" PATH="$HRF_BIN_DIR/../tests/slurm_fake:$PATH" "$flow" run slurm.yaml --out on_slurm
    grep -q "^sbatch" slurm/calls || fail "nothing was submitted to Slurm"
    diff -r clean/results on_slurm/results >/dev/null || fail "other bytes on Slurm"
fi

# By a table: slides for training have no score, and are part of no figure.
"$python" - <<'END'
rows = [f"test_00{i},p{i // 2},{'testing' if i > 5 else 'training'}" for i in range(1, 10)] + ["test_010,p5,testing"]
open("table.csv", "w").write("slide,patient,split\n" + "\n".join(rows) + "\n")
open("leak.csv", "w").write("slide,patient,split\n" + "\n".join(rows).replace("p3", "p2") + "\n")
open("short.csv", "w").write("slide,split\n" + "\n".join(r.replace(",p" + r.split(",p")[1][0], "") for r in rows[1:]) + "\n")
open("twice.csv", "w").write("slide,patient,split\n" + "\n".join(rows + ["test_001,p0,testing"]) + "\n")
END
table() { # wanted exit code, table, further options...
    code_wanted=$1 file=$2
    shift 2
    rm -rf by_table
    cp -r plain by_table
    expect_code "$code_wanted" "$flow" run w.yaml --out by_table --set slide_head.split=table --set slide_head.table=$file "$@"
}
table 3 table.csv
grep -q "^test_001,,,fp32,normal,done,\"slide heads were trained on it" by_table/results/labels.csv || grep -q "^test_001,,,fp32,normal,done,slide heads were trained on it" by_table/results/labels.csv || fail "$(cat by_table/results/labels.csv)"
[ "$(grep -c "0\.[0-9]*,fp32,[a-z]*,done,," by_table/results/labels.csv)" = 4 ] || fail "not the slides for testing are scored: $(cat by_table/results/labels.csv)"
table 3 leak.csv
expect_text "there is no slide head: "
expect_text "patient 'p2' is in testing here and in training in line"
table 1 short.csv
expect_text "has no line for slide 'test_001'"
table 1 twice.csv
expect_text "slide 'test_001' is already in line 2"

# Fewer slides than folds, one class only, two heads at once.
cp -r plain few
run 3 few --set slide_head.folds=20
expect_text "there is no slide head: 9 patients cannot be split into 20 folds"
run 3 few --set slide_head.folds=2 --set 'dataset.exclude=[test_002,test_004,test_006,test_008]'
expect_text "the slides for training are of one class only"
expect_code 2 "$flow" check w.yaml --set slide_head.split=dataset
expect_text "'dataset.split' 'all'"
expect_code 2 "$flow" check w.yaml --set slide_head.file=w.yaml
expect_text "'file' is a head that is trained already"
