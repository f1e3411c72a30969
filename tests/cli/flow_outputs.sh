#!/bin/sh
# model.output: the same raw outputs as softmax, as sigmoid (several labels at once) and as numbers.
. "$HRF_SOURCE_DIR/tests/cli/lib.sh"
expect_code 0 "$flow" demo-data "$scratch/cohort" --slides 8 --size 1300 --difficulty 0
expect_code 0 "$engine" model make resnet:2,8 --classes 3 --size 64 --output "$scratch/raw.onnx"
images=$scratch/cohort/testing/images
workflow() { # name, labels of six slides
    name=$1
    shift
    echo "slide,label" >"$scratch/$name.csv"
    i=1
    for label in "$@"; do echo "$images/test_00$i.tif,$label" >>"$scratch/$name.csv"; i=$((i + 1)); done
    cat >"$scratch/$name.yaml" <<END
version: 1
name: outputs
dataset: {layout: csv, csv: $scratch/$name.csv}
tiler: {patch: {size: 64, mpp: 0.5, stride: 128}, tissue: {min_patches: 4}}
model: {file: $scratch/raw.onnx, classes: [er, pr, her2], positive: pr}
aggregate: {slide_score: mean}
END
}
workflow classes er pr her2 er pr her2
workflow several 'er;pr' pr 'her2;pr' none 'er;her2' er
workflow numbers 0.5 -1 2.25 3 1e-1 2
expect_code 0 "$flow" run "$scratch/classes.yaml" --out "$scratch/default"
expect_code 0 "$flow" run "$scratch/classes.yaml" --out "$scratch/softmax" --set model.output=softmax
expect_text "fp32: "
grep -Eq '^fp32: .*, macro AUC 0\.[0-9]{4} \(er [01]\.[0-9]{4}, pr [01]\.[0-9]{4}, her2 [01]\.[0-9]{4}; each against all others\), accuracy' "$scratch/out" || { cat "$scratch/out"; fail "the classes' AUCs are not named"; }
# Without labels the page counts what labels.csv calls the slides: the highest score, not the threshold.
sed "s|dataset: .*|dataset: {layout: files, files: ['$images/test_00[1-6].tif']}|" "$scratch/classes.yaml" >"$scratch/bare.yaml"
expect_code 0 "$flow" run "$scratch/bare.yaml" --out "$scratch/bare" --set aggregate.threshold=0.9
expect_code 0 "$flow" run "$scratch/several.yaml" --out "$scratch/sigmoid" --set model.output=sigmoid
expect_code 0 "$flow" run "$scratch/numbers.yaml" --out "$scratch/none" --set model.output=none
cmp "$scratch/default/results/labels.csv" "$scratch/softmax/results/labels.csv" || fail "softmax is not what is added by itself"
/usr/bin/python3 - "$scratch" <<'END' || fail "the outputs or their figures differ"
import csv, json, math, sys
at = sys.argv[1]
def patches(run, slide):
    return [[float(r["prob_" + c]) for c in ("er", "pr", "her2")]
            for r in csv.DictReader(open(f"{at}/{run}/results/fp32/model-outputs-csv/{slide}.csv"))]
def labels(run):
    return list(csv.DictReader(open(f"{at}/{run}/results/labels.csv")))
def figures(run):
    return json.load(open(f"{at}/{run}/report/report.json"))["precisions"][0]
spread = 0
for slide in ("test_001", "test_005"):
    raw, soft, own = (patches(run, slide) for run in ("none", "softmax", "sigmoid"))
    assert len(raw) == len(soft) == len(own) > 3
    for r, s, o in zip(raw, soft, own):
        total = sum(math.exp(x) for x in r)
        spread = max(spread, max(abs(x) for x in r))
        assert all(abs(math.exp(x) / total - y) < 1e-5 for x, y in zip(r, s)), (r, s)
        assert all(abs(1 / (1 + math.exp(-x)) - y) < 1e-5 for x, y in zip(r, o)), (r, o)
assert spread > 0.01, spread
def auc(pairs):
    won = [(a > b) + (a == b) / 2 for a, t in pairs if t for b, u in pairs if not u]
    return sum(won) / len(won)
called = [r["label"] for r in labels("bare")]
page = open(at + "/bare/report/index.html").read()
assert "Slides called</h3><b>6</b><p>" + "".join(f"{c} {called.count(c)}, " for c in ("er", "pr", "her2")) + "by the highest score" in page
page = open(at + "/softmax/report/index.html").read()
assert "Macro AUC</h3><b>%.3f</b>" % figures("softmax")["macro_auc"] in page and "Slide AUC</h3>" not in page
assert "called negative" not in page and "called pr</th>" in page and "by slide, pr against all others" in page
p = figures("sigmoid")
rows = labels("sigmoid")
truths = [set(r["truth"].split(";")) - {"none"} for r in rows]
called = [{c for c in ("er", "pr", "her2") if float(r["score_" + c]) >= 0.5} for r in rows]
assert [";".join(c for c in ("er", "pr", "her2") if c in s) for s in called] == [r["label"] for r in rows]
assert abs(p["slide_accuracy"] - sum(a == b for a, b in zip(truths, called)) / 6) < 1e-12
for item in p["classes"]:
    c = item["class"]
    assert item["slides"] == sum(c in t for t in truths) and item["labelled_as"] == {}
    assert abs(item["auc"] - auc([(float(r["score_" + c]), c in t) for r, t in zip(rows, truths)])) < 1e-12
    assert abs(item["recall"] - sum(c in t and c in s for t, s in zip(truths, called)) / item["slides"]) < 1e-12
assert abs(p["macro_auc"] - sum(i["auc"] for i in p["classes"]) / 3) < 1e-12
p = figures("none")
rows = labels("none")
t, v = [float(r["truth"]) for r in rows], [float(r["score"]) for r in rows]
assert t == [0.5, -1, 2.25, 3, 0.1, 2] and all(r["label"] == "" for r in rows)
assert all(abs(y - sum(x[1] for x in q) / len(q)) < 1e-5 for y, q in ((v[0], patches("none", "test_001")), (v[4], patches("none", "test_005"))))
r = p["regression"]
mean = sum(t) / 6
assert r["slides"] == 6 and abs(r["mean_absolute_error"] - sum(abs(a - b) for a, b in zip(t, v)) / 6) < 1e-12
assert abs(r["r2"] - 1 + sum((a - b) ** 2 for a, b in zip(t, v)) / sum((a - mean) ** 2 for a in t)) < 1e-12
rank = lambda x: [sorted(x).index(y) for y in x]
assert abs(r["spearman"] - 1 + 6 * sum((a - b) ** 2 for a, b in zip(rank(t), rank(v))) / (6 * 35)) < 1e-12
assert p["slide_auc"] is None and "numbers, not classes" in p["slide_auc_reason"] and p["slide_flips"] == []
assert "Mean absolute error" in open(at + "/none/report/index.html").read()
END

# What does not fit is a sentence.
wrong() { expect_code 2 "$flow" run "$scratch/$1.yaml" --out "$scratch/x" --set "model.output=$2"; expect_text "$3"; }
wrong classes none "classes.csv:2: label 'er' is not a number, which model.output 'none' needs"
workflow several 'er;pgr' pr
wrong several sigmoid "label 'er;pgr' is not a list of classes of model.classes with ';' between them, e.g. 'er;pr', nor 'none'"
workflow one er pr
sed -i "s|raw.onnx, classes: .*|raw.onnx, classes: [pr]}|" "$scratch/one.yaml"
wrong one softmax "'softmax' over one class is 1 for every patch; use 'sigmoid'"
workflow demo normal tumor
sed -i "s|$scratch/raw.onnx, classes: .*|$HRF_SOURCE_DIR/tests/golden/classifier.onnx}|" "$scratch/demo.yaml"
wrong demo sigmoid "has passed a Softmax or Sigmoid already, and model.output 'sigmoid' would add another"
echo "1 passed, 0 failed"
