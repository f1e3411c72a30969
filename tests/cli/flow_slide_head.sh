#!/bin/sh
# slide_head: a run scores its slides by a slide head on their embeddings. The scores are those of
# `head score` on the files of embeddings; after a crash the bytes are the same; a head that was
# trained on the slide, on other features or for other classes is refused.
. "$HRF_SOURCE_DIR/tests/cli/lib.sh"
python=/usr/bin/python3 # Debian's, which has python3-h5py
"$python" -c 'import h5py' 2>/dev/null || { echo "python3-h5py is missing"; exit 77; }
cd "$scratch"
export OMP_WAIT_POLICY=passive # tests run side by side
make_cohort # three slides that can be read and one that is cut short
make_workflow "$scratch/w.yaml"
sed -i 's/classifier.onnx/classifier.onnx, output: embedding/' w.yaml
expect_code 3 "$flow" run w.yaml --out plain --set dataset.known_exclusions=false

# Heads of random slides, in whose features the run's own attributes stand, so that they fit.
"$python" - <<'END'
import glob, os
import h5py
import numpy as np
rng = np.random.default_rng(5)
source = sorted(glob.glob("plain/results/fp32/features/*.h5"))[0]
os.makedirs("made")
rows = ["slide,label,split"]
for i in range(8):
    x = rng.dirichlet([1, 1], size=12).astype(np.float32)
    x[:, 1] += i % 2
    with h5py.File(source) as s, h5py.File(f"made/s{i}.h5", "w") as f:
        f["features"] = x
        f["coords"] = np.zeros((12, 2), np.int64)
        for name in ("features", "coords"):
            for key, value in s[name].attrs.items():
                f[name].attrs[key] = value
        f["features"].attrs["name"] = f"s{i}"
    rows.append(f"s{i},{['normal', 'tumor'][i % 2]},training")
rows.append("test_001,normal,training")
open("labels.csv", "w").write("\n".join(rows[:-1]) + "\n")
open("leak.csv", "w").write("\n".join(rows) + "\n")
END
train() { # folder, features, labels, classes, head
    cat >"$1.yaml" <<END
version: 1
features: {folder: $2}
labels: {csv: $3, classes: $4}
head: {kind: $5, hidden: 16, attention: 8}
split: {by: column, validation: 0}
train: {epochs: 6, learning_rate: 0.01}
out: $1
END
    expect_code 0 "$flow" head train "$1.yaml"
}
train heads made labels.csv '[normal, tumor]' clam_mb
head=$PWD/heads/fold-0-seed-1/head.onnx
score() { # wanted exit code, run, further options...
    code_wanted=$1 to=$2
    shift 2
    expect_code "$code_wanted" "$flow" run w.yaml --out "$to" --set slide_head.file="$head" --set 'precision=[fp32,bf16]' "$@"
}
score 3 run
"$flow" status run >out || fail "status"
grep -q "^head  *6 done" out || fail "no head tasks: $(cat out)"
"$flow" head score "$head" run/results/fp32/features/*.h5 --out fp32.csv
"$python" - <<'END' || fail "other scores than those of head score"
import csv, json
want = {r["slide"]: r for r in csv.DictReader(open("fp32.csv"))}
rows = [r for r in csv.DictReader(open("run/results/labels.csv"))]
done = [r for r in rows if r["state"] == "done"]
assert len(want) == 3 and len(done) == 6 and len(rows) == 8, rows
for r in done:
    w = want[r["slide"]]
    bound = 1e-6 if r["precision"] == "fp32" else 0.05
    assert abs(float(r["score"]) - float(w["score_tumor"])) < bound, (r, w)
    assert abs(float(r["score_normal"]) - float(w["score_normal"])) < bound, (r, w)
    assert r["label"] == ("tumor" if float(r["score"]) >= 0.5 else "normal")
assert any(a["score"] != b["score"] for a, b in zip(done[:3], done[3:])), "bf16 moved no score"
report = json.load(open("run/report/report.json"))
assert [p["name"] for p in report["phases"]] == ["ingest", "tile", "infer", "head", "aggregate"], report["phases"]
fp32, bf16 = report["precisions"]
assert fp32["slide_auc"] is not None and bf16["slide_auc"] is not None and bf16["embedding"]["cosine_mean"] < 1
END

# The attention: the same numbers as those of head score, in the table and the GeoJSON; pictures.
mkdir attention
"$flow" head score "$head" run/results/fp32/features/*.h5 --out /dev/null --attention attention
"$python" - <<'END' || fail "other attention than that of head score"
import csv, glob, gzip, json, os
for f in glob.glob("attention/*.csv"):
    slide = os.path.basename(f)[:-4]
    want = list(csv.DictReader(open(f)))
    got = list(csv.DictReader(open(f"run/results/fp32/model-outputs-csv/{slide}.csv")))
    shapes = json.load(gzip.open(f"run/results/fp32/model-outputs-geojson/{slide}.geojson.gz"))["features"]
    assert len(want) == len(got) == len(shapes) > 0
    for w, g, s in zip(want, got, shapes):
        assert int(float(w["x"])) == int(g["minx"]) and int(float(w["y"])) == int(g["miny"])
        for k, name in enumerate(["normal", "tumor"]):
            a = float(g["attention_" + name])
            assert abs(float(w[f"attention_{k}"]) - a) < 1e-6 and s["properties"]["measurements"]["attention_" + name] == a
    for form in ("heatmaps", "top-patches"):
        assert open(f"run/results/fp32/{form}/{slide}.png", "rb").read(4) == b"\x89PNG"
page = open("run/report/index.html").read()
assert "attention of the slide head" in page and page.count('class="top"') == 3
END

# Nothing is scored again; with another head only the heads are run. A bag that is lost or harmed is
# made again; it refers to the run's embeddings and has no number of them.
events() { sqlite3 "$1/run.db" "SELECT count(*) FROM event WHERE subject='task'"; }
n=$(events run)
score 3 run
[ "$(events run)" = "$n" ] || fail "something was done again"
train other made labels.csv '[normal, tumor]' abmil
rm run/bags/fp32/test_001.h5
echo harm >>run/bags/fp32/test_002.h5
expect_code 3 "$flow" run w.yaml --out run --set slide_head.file="$PWD/other/fold-0-seed-1/head.onnx" --set 'precision=[fp32,bf16]'
[ "$(events run)" = $((n + 6)) ] || fail "not only the heads were run: $(events run), $n"

"$python" - <<'END' || fail "the bags are not the run's embeddings"
import glob, h5py, numpy, os
for f in glob.glob("run/bags/fp32/*.h5"):
    features = h5py.File(f)["features"]
    parts = [os.path.join(os.path.dirname(f), name) for name, offset, size in features.external]
    rows = numpy.concatenate([numpy.fromfile(p, numpy.float32).reshape(-1, 2) for p in parts])
    with h5py.File("run/results/fp32/features/" + os.path.basename(f)) as r:
        assert (rows == r["features"][:]).all() and features.shape == rows.shape
END

# Killed at every point on the way: the same bytes.
rm -rf run
cp -r plain run
score 3 run --set 'precision=[fp32]'
for point in run.bag.before run.bag.after:2 run.plan_heads.before_commit head.task.before_commit:2 head.end; do
    rm -rf killed
    cp -r plain killed
    HRF_RETRY_MS=0 HRF_CRASH_SIGNAL=SEGV HRF_CRASH_AT=$point "$flow" run w.yaml --out killed --set slide_head.file="$head" >/dev/null 2>&1 || true
    score 3 killed --set 'precision=[fp32]'
    diff -r run/results killed/results >/dev/null || fail "$point: other bytes"
done

# What does not fit is refused in a sentence.
mkdir mixed
cp made/*.h5 mixed
cp plain/results/fp32/features/test_001.h5 mixed
train leak mixed leak.csv '[normal, tumor]' mean
head=$PWD/leak/fold-0-seed-1/head.onnx
score 3 leaked
expect_text "slide 'test_001' is one that the head was trained on: its score says nothing; exclude it (dataset.exclude)"
grep -q "^test_002,.*,done," leaked/results/labels.csv || fail "other slides are not scored"
[ ! -e leaked/results/fp32/heatmaps/test_002.png ] || fail "a head without attention has a map of it"
train turned made labels.csv '[tumor, normal]' mean
head=$PWD/turned/fold-0-seed-1/head.onnx
score 3 refused
expect_text "the slide head was trained for the classes tumor, normal, and model.classes are normal, tumor"
head=$PWD/heads/fold-0-seed-1/head.onnx
expect_code 3 "$flow" run w.yaml --out refused --set slide_head.file="$head" --set tiler.patch.size=48
expect_text "set slide_head.mixed to true if that is meant"
expect_code 3 "$flow" run w.yaml --out refused --set slide_head.file="$head" --set tiler.patch.size=48 --set slide_head.mixed=true
grep -q "^test_001,.*,done," refused/results/labels.csv || fail "mixed features are not scored"
expect_code 2 "$flow" check w.yaml --set slide_head.file="$head" --set model.output=probabilities
expect_text "a slide head scores embeddings; set 'model.output' to 'embedding'"
expect_code 2 "$flow" check w.yaml --set slide_head.file=nowhere.onnx
expect_text "nowhere.onnx' does not exist"
