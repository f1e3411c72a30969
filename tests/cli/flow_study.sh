#!/bin/sh
# A cohort that is hard to judge: the figures of the study are counted again from the run's files and
# from the truth as it was drawn.
. "$HRF_SOURCE_DIR/tests/cli/lib.sh"
expect_code 2 "$flow" demo-data "$scratch/cohort" --difficulty 3
expect_text "--difficulty takes a number, 0 to 2, not"
expect_code 0 "$flow" demo-data "$scratch/cohort" --slides 14 --size 2400 --difficulty 2
make_workflow "$scratch/w.yaml"
expect_code 3 "$flow" run "$scratch/w.yaml" --out "$scratch/run" \
    --set "precision=[fp32, int8]" --set calibrate.method=percentile \
    --set calibrate.samples=64 --set executor.patches_per_job=2000
/usr/bin/python3 - "$scratch" <<'END' || fail "the study is not what its files say"
import csv, json, re, sys
at = sys.argv[1]
report = json.load(open(at + "/run/report/report.json"))
labels = list(csv.DictReader(open(at + "/run/results/labels.csv")))
drawn = list(csv.DictReader(open(at + "/cohort/testing/drawn.csv")))
reference = dict(line.strip().split(",")[:2] for line in open(at + "/cohort/testing/reference.csv"))
page = open(at + "/run/report/index.html").read()
for p in report["precisions"]:
    own = [r for r in labels if r["precision"] == p["precision"] and r["score"] and r["truth"]]
    assert all(reference[r["slide"]].lower() == r["truth"] for r in own)
    assert all(any(d["slide"] == r["slide"] and d["kind"] == "lesion" for d in drawn) == (r["truth"] == "tumor") for r in own)
    positive, negative = ([float(r["score"]) for r in own if (r["truth"] == "tumor") == t] for t in (True, False))
    won = sum(a > b for a in positive for b in negative)
    tied = sum(a == b for a in positive for b in negative)
    n = len(positive) * len(negative)
    assert p["slide_auc_pairs"] == {"in_order": won, "tied": tied, "total": n}, p["slide_auc_pairs"]
    assert f"{won} of {n} pairs" in page
    assert abs(p["slide_auc"] - (won + tied / 2) / n) < 1e-12
    # Hard, and not hopeless: neither every pair in order nor no better than chance.
    assert 0.6 < p["slide_auc"] < 1, p["slide_auc"]
    low, high = p["slide_auc_ci"]
    assert 0 < low < p["slide_auc"] < high < 1
    # Of patches: their truth is counted from the ellipses as they were drawn, away from the rims.
    assert 0.6 < p["patch_auc"] < 1 and p["patch_auc_ci"][0] < p["patch_auc"] < p["patch_auc_ci"][1]
    task = p["patch_task"]
    assert task["slides"] == len(own) and task["positive"] + task["negative"] == p["patches"], (task, p["patches"])
    inside = sure = 0
    scores = {True: [], False: []}
    for r in own:
        for row in csv.DictReader(open(f'{at}/run/results/{p["precision"]}/model-outputs-csv/{r["slide"]}.csv')):
            x, y = (float(row["min" + a]) + float(row[b]) / 2 for a, b in (("x", "width"), ("y", "height")))
            depth = [((x - float(d["x"])) / float(d["rx"])) ** 2 + ((y - float(d["y"])) / float(d["ry"])) ** 2
                     for d in drawn if d["slide"] == r["slide"] and d["kind"] == "lesion"] or [9]
            if min(depth) < 0.5 or min(depth) > 1.8:
                sure += min(depth) > 1.8
                inside += min(depth) < 0.5
                scores[min(depth) < 0.5].append(float(row["prob_tumor"]))
    assert inside <= task["positive"] and sure <= task["negative"], (inside, sure, task)
    rough = sum((a > b) + (a == b) / 2 for a in scores[True] for b in scores[False]) / len(scores[True]) / len(scores[False])
    assert abs(rough - p["patch_auc"]) < 0.06, (rough, p["patch_auc"])
# Every attempt of a job says when it ran, on what and what it took; an infer job's times are its tasks'.
jobs = report["jobs"]
assert {job["kind"] for job in jobs} == {"tile", "calibrate", "infer"} and all(job["has_ended"] for job in jobs)
for job in jobs:
    assert job["submitted_ms"] <= job["started_ms"] <= job["finished_ms"] and job["host"] and job["peak_process_bytes"] > 1e6, job
    assert 0 < job["processor_seconds"] < 8 * (job["finished_ms"] - job["started_ms"]) / 1e3 + 1, job
computed = sum(job["compute_seconds"] for job in jobs if job["kind"] == "infer")
assert abs(computed - sum(p["timing"]["compute"] for p in report["precisions"])) < 0.001 * sum(job["tasks"] for job in jobs) + 0.01, computed
assert report["bottleneck"]["sentence"] in page and 0 < report["bottleneck"]["share"] <= 1
# Every sentence on the time is that of the timing that stands in report.json.
def parts(*timings):
    t = {k: sum(x[k] for x in timings) for k in ("build", "wait", "compute", "write", "total")}
    whole = max(t["total"], t["build"] + t["wait"] + t["compute"] + t["write"])
    names = {"build": "starting", "wait": "reading", "compute": "compute", "write": "writing"}
    return sorted(((t[k] / whole, names[k]) for k in names), reverse=True)
timings = [p["timing"] for p in report["precisions"]]
b = report["bottleneck"]
if b["share_of"] == "the time of its inference jobs":
    assert b["what"] == parts(*timings)[0][1] and abs(b["share"] - parts(*timings)[0][0]) < 1e-9, (b, timings)
said = re.search(r'<p class="said">int8: ([\d.]+)× in the network, ([\d.]+)× of the job([^<]*)</p>', page)
(most, first), (next_most, second) = parts(timings[1])[:2]
wanted = (f"; {100 * most:.0f} % of its time is computing, {100 * next_most:.0f} % {second}" if first == "compute" else
          f": {first} is the limit, {100 * most:.0f} % of its time")
assert said and said[3] == ("" if report["precisions"][1]["speedup"] >= 0.9 * report["precisions"][1]["compute_speedup"] else wanted), (said and said[0], timings)
waited = re.search(r"; it waited (\d+) % of the time for patches", page)
wait, compute = (sum(t[k] for t in timings) for k in ("wait", "compute"))
assert waited and abs(int(waited[1]) - 100 * wait / (wait + compute)) <= 0.5 + 1e-9, (waited, timings)
assert isinstance(report["reading"]["patches_read"], int)
reference, low = report["precisions"]
assert abs(low["patch_auc_difference"] - (low["patch_auc"] - reference["patch_auc"])) < 1e-12
a, b = low["patch_auc_difference_ci"]
assert a < low["patch_auc_difference"] < b and b - a < 0.05, (a, b)
if low["auc_difference_ci"] is None:
    assert low["auc_difference"] == 0 and "alike" in low["auc_difference_ci_reason"]
END

# Its page in a browser: on a phone, at a click, printed.
if command -v chromium >/dev/null; then
    expect_code 0 python3 "$HRF_SOURCE_DIR/tests/cli/browse_report.py" "$scratch/run/report/index.html" "$scratch"
    cat "$scratch/out"
fi

# The threshold is chosen on some slides and judged on the others; both are counted again.
expect_code 0 "$flow" aggregate "$scratch/run" --set 'aggregate.tune.slides=["test_00*"]' --set aggregate.lesions.method=components
/usr/bin/python3 - "$scratch" <<'END' || fail "the operating point is not what the slides give"
import csv, glob, gzip, json, sys
at = sys.argv[1]
report = json.load(open(at + "/run/report/report.json"))
rows = [r for r in csv.DictReader(open(at + "/run/results/labels.csv")) if r["score"]]
point, threshold = report["slide_score"]["operating_point"], report["slide_score"]["threshold"]
there = [(float(r["score"]), r["truth"] == "tumor") for r in rows if r["precision"] == "fp32" and r["slide"].startswith("test_00")]
rates = lambda items, t: (sum(s >= t for s, u in items if u) / sum(u for s, u in items), sum(s < t for s, u in items if not u) / sum(not u for s, u in items))
best = max(there, key=lambda i: (sum(rates(there, i[0])), i[0]))[0]
assert threshold == best and point["slides"] == len(there) == 9 and point["chosen_by"] == "youden", (threshold, best)
assert abs(point["sensitivity_there"] - rates(there, best)[0]) < 1e-12 and abs(point["specificity_there"] - rates(there, best)[1]) < 1e-12
for p in report["precisions"]:
    here = [(float(r["score"]), r["truth"] == "tumor") for r in rows if r["precision"] == p["precision"] and not r["slide"].startswith("test_00")]
    assert p["labelled_slides"] == len(here) == 4 and p["patch_task"]["slides"] == 4, (len(here), p["labelled_slides"])
    c = p["confusion"]
    assert (c["sensitivity"], c["specificity"]) == rates(here, threshold)
    assert p["slide_auc_pairs"]["total"] == sum(u for s, u in here) * sum(not u for s, u in here)
assert all((r["label"] == "tumor") == (float(r["score"]) >= threshold) for r in rows)
# Lesions as outlines: each has the confidence of its line in the csv and holds its place.
inside = lambda rings, x, y: sum((a[1] > y) != (b[1] > y) and a[0] > x for ring in rings for a, b in zip(ring, ring[1:])) % 2
n = 0
for path in glob.glob(at + "/run/results/*/lesions/*.geojson"):
    features = json.load(open(path))["features"]
    found = [f for f in features if f["properties"]["name"].startswith("lesion ")]
    lines = [tuple(map(float, line)) for line in csv.reader(open(path[:-8] + ".csv"))]
    assert len(found) == len(lines)
    for f, (confidence, x, y) in zip(found, lines):
        assert f["properties"]["measurements"]["confidence"] == confidence and f["properties"]["objectType"] == "annotation"
        assert f["properties"]["classification"] == {"name": "tumor", "color": [200, 69, 47]}
        assert any(inside(polygon, x, y) for polygon in f["geometry"]["coordinates"]), (path, x, y)
        n += 1
    drawn_here = [d for d in csv.DictReader(open(at + "/cohort/testing/drawn.csv")) if path.endswith("/" + d["slide"] + ".geojson") and d["kind"] == "lesion"]
    assert len([f for f in features if f["properties"]["classification"]["name"] == "annotated lesion"]) == len(drawn_here), path
assert n > 10
patches = json.load(gzip.open(at + "/run/results/fp32/model-outputs-geojson/test_001.geojson.gz"))["features"]
assert all((f["properties"]["classification"]["name"] == "tumor") == (f["properties"]["measurements"]["prob_tumor"] > 0.5) for f in patches)
page = open(at + "/run/report/index.html").read()
assert "threshold chosen on it" in page and "chosen on 9 other slides" in page
END
expect_code 0 "$flow" aggregate "$scratch/run" --set 'aggregate.tune.slides=["test_001"]'
grep -q '"operating_point_reason": "only one class among the 1 labelled slide' "$scratch/run/report/report.json" || fail "an impossible choice has no reason"
expect_code 2 "$flow" check "$scratch/w.yaml" --set aggregate.tune.specificity=0.9
expect_text "'specificity' is reached on the slides of 'aggregate.tune.slides'; name them"

# Slides that are known to be wrong are excluded by themselves.
echo "test_049,Normal,None,None" >>"$scratch/cohort/testing/reference.csv"
expect_code 3 "$flow" run "$scratch/w.yaml" --out "$scratch/run" --set "precision=[fp32]"
grep -q 'test_049,.*excluded,.*a duplicate, withdrawn from the release (dataset.known_exclusions)' "$scratch/run/results/labels.csv" || fail "test_049 is not excluded with its reason"
expect_code 3 "$flow" run "$scratch/w.yaml" --out "$scratch/run" --set "precision=[fp32]" --set dataset.known_exclusions=false
grep -q "^test_049,.*failed," "$scratch/run/results/labels.csv" || fail "test_049 is excluded although it is to be kept"
echo "1 passed, 0 failed"
