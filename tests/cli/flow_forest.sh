#!/bin/sh
# The random forest over heat-map features, on the slides of a run; a leak and wrong tables are refused. (On real
# features: flow_forest_real.)
. "$HRF_SOURCE_DIR/tests/cli/lib.sh"
python=/usr/bin/python3
corpus=$HRF_SOURCE_DIR/tests/fuzz/corpus/feature_table

# A run's features, whichever build.
make_cohort
make_workflow "$scratch/w.yaml"
expect_code 3 "$flow" run "$scratch/w.yaml" --out "$scratch/run"
expect_code 0 "$flow" forest features "$scratch/run" --out "$scratch/features.csv"
[ "$(wc -l <"$scratch/features.csv")" = 4 ] || fail "not three slides"
head -1 "$scratch/features.csv" | grep -q '^slide,truth,ratio_cancer_tissue50,.*,solidity_second_largest$' || fail "other titles"
expect_code 2 "$flow" forest train "$corpus/nan.csv" --out "$scratch/f.json"
expect_text "nan.csv:2: ratio_cancer_tissue50 is 'nan', not a number"
expect_code 2 "$flow" forest train "$corpus/twice.csv" --out "$scratch/f.json"
expect_text "twice.csv:3: a is there a second time"
expect_code 2 "$flow" forest train "$corpus/good.csv" --out "$scratch/f.json"
expect_text "b has no truth to train on"
expect_code 2 "$flow" forest grow "$corpus/good.csv"
expect_text "none of features, train and score"

[ -e "$HRF_BIN_DIR/../lib/hires-flow/hrf_forest.so" ] || { echo "built without XGBoost"; exit 77; }

# slide_head.forest: forests trained inside a run, each slide scored by one that has not seen it.
"$flow" demo-data "$scratch/more" --slides 14 --size 1300 --difficulty 1 >/dev/null 2>&1 || fail "demo-data"
sed "s|$scratch/cohort|$scratch/more|; s/patches_per_job: 20/patches_per_job: 2000/" "$scratch/w.yaml" >"$scratch/f.yaml"
echo 'slide_head: {forest: features, folds: 2, trees: 60}' >>"$scratch/f.yaml"
expect_code 0 "$flow" plan "$scratch/f.yaml" --out "$scratch/grown"
expect_text "60 trees over 30 features of heat maps in fp32: 2 folds"
expect_code 137 env HRF_CRASH_AT=run.aggregate.before_commit "$flow" run "$scratch/f.yaml" --out "$scratch/grown" --set 'precision=[fp32,bf16]'
expect_code 3 "$flow" run "$scratch/f.yaml" --out "$scratch/grown" --set 'precision=[fp32,bf16]'
cp -r "$scratch/grown/results" "$scratch/first"
expect_code 0 "$flow" aggregate "$scratch/grown"
diff -r "$scratch/first" "$scratch/grown/results" || fail "another forest of the same scores"
$python - "$scratch/grown" "$flow" <<'END' || fail "the scores are not those of a forest that has not seen the slide"
import csv, json, subprocess, sys
run, flow = sys.argv[1:]
rows = {(r["slide"], r["precision"]): r for r in csv.DictReader(open(run + "/results/labels.csv"))}
lines = open(run + "/results/forest/features.csv").read().splitlines()
assert subprocess.run([flow, "forest", "features", run], capture_output=True, text=True).stdout.splitlines() == lines
names = [line.split(",")[0] for line in lines[1:]]
seen = [set(json.load(open(f"{run}/results/forest/fold-{k}.json"))["forest"]["slides"]) for k in range(2)]
assert len(names) == 13 and seen[0] | seen[1] == set(names) and not seen[0] & seen[1]
for k in range(2):
    part = [lines[0]] + [line for line, name in zip(lines[1:], names) if name not in seen[k]]
    open(run + "/part.csv", "w").write("\n".join(part) + "\n")
    out = subprocess.run([flow, "forest", "score", run + "/part.csv", "--forest", f"{run}/results/forest/fold-{k}.json"],
                         capture_output=True, text=True, check=True).stdout
    for r in csv.DictReader(out.splitlines()):
        row = rows[r["slide"], "fp32"]
        assert abs(float(row["score"]) - float(r["score"])) < 1e-6 and row["state"] == "done", (row, r)
        assert abs(float(row["score_tumor"]) + float(row["score_normal"]) - 1) < 1e-6, row
        assert (row["label"] == "tumor") == (float(row["score"]) >= 0.5)
        assert abs(float(rows[r["slide"], "bf16"]["score"]) - float(r["score"])) < 0.3
report = json.load(open(run + "/report/report.json"))
assert report["slide_score"]["method"] == "random forest" and report["provenance"]["slide forest"] == "60 trees, 2 folds, seed 1"
assert report["precisions"][0]["labelled_slides"] == 13 and report["precisions"][0]["slide_auc"] > 0.5, report["precisions"][0]["slide_auc"]
END
# A patient on both sides, a slide without a line.
{ echo slide,patient,split; for i in 01 02 03 04 05 06 07 08 09 10 11 12 13 14; do echo "test_0$i,p$((1$i % 7)),$([ "$i" -gt 7 ] && echo testing || echo training)"; done; } >"$scratch/table.csv"
expect_code 3 "$flow" run "$scratch/f.yaml" --out "$scratch/grown" --set slide_head.split=table --set slide_head.table="$scratch/table.csv"
grep -q "a leak: patient 'p" "$scratch/grown/results/labels.csv" || fail "a leak: $(head -3 "$scratch/grown/results/labels.csv")"
sed -i '/test_004/d' "$scratch/table.csv" # the report depends on it: it is not kept
expect_code 3 "$flow" run "$scratch/f.yaml" --out "$scratch/grown" --set slide_head.split=table --set slide_head.table="$scratch/table.csv"
grep -q "has no line for slide 'test_004'" "$scratch/grown/results/labels.csv" || fail "kept: $(head -3 "$scratch/grown/results/labels.csv")"
expect_code 0 "$flow" aggregate "$scratch/grown"
grep -q "has no line for slide 'test_004'" "$scratch/grown/results/labels.csv" || fail "no line: $(head -3 "$scratch/grown/results/labels.csv")"
# Trained on the training part: those slides have heat maps, no score, and a place in no figure.
mkdir -p "$scratch/more/training/normal" "$scratch/more/training/tumor"
for i in 001 002 003 004 005 006 007 008; do
    kind=$(grep "^test_$i," "$scratch/more/testing/reference.csv" | cut -d, -f2 | tr TN tn)
    mv "$scratch/more/testing/images/test_$i.tif" "$scratch/more/training/$kind/${kind}_$i.tif"
done
expect_code 3 "$flow" run "$scratch/f.yaml" --out "$scratch/dataset" --set dataset.split=all --set slide_head.split=dataset --set aggregate.lesions.method=components
$python - "$scratch/dataset" <<'END' || fail "trained on the dataset's training part"
import csv, glob, json, os, sys
run = sys.argv[1]
rows = list(csv.DictReader(open(run + "/results/labels.csv")))
trained = [r for r in rows if not r["slide"].startswith("test_") and r["state"] == "done"]
assert len(trained) >= 7 and all(r["score"] == "" and r["reason"].startswith("slide heads were trained on it") for r in trained), trained
scored = [r["slide"] for r in rows if r["score"] != ""]
assert len(scored) >= 5 and all(s.startswith("test_") for s in scored), rows
p = json.load(open(run + "/report/report.json"))["precisions"][0]
assert p["labelled_slides"] == len(scored) and p["patch_task"]["slides"] <= len(scored), p
assert len(glob.glob(run + "/results/fp32/heatmaps/*.png")) == len(scored) + len(trained)
assert sorted(os.listdir(run + "/results/forest")) == ["features.csv", "fold-0.json"]
END
expect_code 2 "$flow" check "$scratch/f.yaml" --set model.output=embedding
expect_text "a forest reads heat maps"
expect_code 2 "$flow" check "$scratch/f.yaml" --set slide_head.train=mean
expect_text "leave one out"
echo "1 passed, 0 failed"
