#!/bin/sh
# Slide mode: each slide is one image, with a score, a class map as heatmap, and a record of each.
. "$HRF_SOURCE_DIR/tests/cli/lib.sh"
make_cohort
make_workflow "$scratch/w.yaml"
sed -i 's/^tiler:.*/tiler: {mode: slide, slide: {size: 512, mpp: 0.5}}/' "$scratch/w.yaml"

expect_code 0 "$flow" plan "$scratch/w.yaml"
expect_text "each slide as one image of 512 px at 0.5 um/px"
expect_code 3 "$flow" run "$scratch/w.yaml" --out "$scratch/run"
expect_text "4 slides: 3 done, 1 failed"
expect_text "fp32: 3 patches"
[ -s "$scratch/run/results/fp32/heatmaps/test_002.png" ] || fail "no heatmap"
cp -r "$scratch/run/results" "$scratch/first"

# Other jobs, other threads: the same bytes.
expect_code 3 "$flow" run "$scratch/w.yaml" --out "$scratch/other" --set executor.max_jobs=1
diff -r "$scratch/first" "$scratch/other/results" || fail "job sizes change the results"

# Back to patches in the same directory: scored anew, as patches.
expect_code 3 "$flow" run "$scratch/w.yaml" --out "$scratch/run" --set tiler.mode=patch --set tiler.patch.size=64
expect_text "4 slides: 3 done, 1 failed"
cmp -s "$scratch/first/fp32/heatmaps/test_002.png" "$scratch/run/results/fp32/heatmaps/test_002.png" &&
    fail "the heatmap is still the slide's"

# A network that ends in no mean: its map is made by the gradient, in bands, too; where there is no memory for it, the
# scores are the same without.
python3 "$HRF_SOURCE_DIR/tests/cli/small_network.py" "$scratch/flat.onnx" 256
sed "s|file: [^}]*|file: $scratch/flat.onnx|; s/size: 512/size: 256/" "$scratch/w.yaml" >"$scratch/flat.yaml"
echo "report: {csv: true}" >>"$scratch/flat.yaml"
expect_code 3 "$flow" run "$scratch/flat.yaml" --out "$scratch/flat"
expect_text "fp32: 3 patches"
[ -s "$scratch/flat/results/fp32/heatmaps/test_002.png" ] || fail "no heatmap by the gradient"
python3 - "$scratch/flat/results/fp32/class-maps/test_002.csv" <<'END' || fail "no map by the gradient"
import csv, sys
rows = list(csv.DictReader(open(sys.argv[1])))
name = list(rows[0])[-1]
values = [float(row[name]) for row in rows]
assert name.startswith("activation_") and len(values) == 64 * 64 and min(values) >= 0 and max(values) > 0, (name, len(values))
END
expect_code 3 "$flow" run "$scratch/flat.yaml" --out "$scratch/less" --set engine.memory=3MiB
diff "$scratch/flat/results/labels.csv" "$scratch/less/results/labels.csv" || fail "less memory changes the scores"

# By ranks, each of which reads only its part of the slide: the same scores.
same_scores() { # DIR: as of one rank, to 1e-5
    /usr/bin/python3 - "$scratch/first/labels.csv" "$1/results/labels.csv" <<'END' || fail "$1: other scores"
import csv, sys
one, other = ([(r["slide"], r["label"], float(r["score"])) for r in csv.DictReader(open(f)) if r["score"]] for f in sys.argv[1:])
assert [r[:2] for r in one] == [r[:2] for r in other]
assert all(abs(a[2] - b[2]) <= 1e-5 for a, b in zip(one, other)), (one, other)
END
}
for layout in 'spatial={rows: 2, cols: 2}' 'stages=2'; do
    rm -rf "$scratch/ranks"
    expect_code 3 "$flow" run "$scratch/w.yaml" --out "$scratch/ranks" --set "engine.parallel.$layout"
    expect_text "fp32: 3 patches"
    same_scores "$scratch/ranks"
    [ -s "$scratch/ranks/results/fp32/heatmaps/test_002.png" ] || fail "no heatmap with $layout"
done
expect_code 3 "$flow" run "$scratch/w.yaml" --out "$scratch/auto" --set engine.parallel=auto
same_scores "$scratch/auto"

# INT8, bit for bit; in bands, too.
int8() { # DIR OPTION...
    dir=$1
    shift
    expect_code 3 "$flow" run "$scratch/w.yaml" --out "$dir" --set 'precision=[int8]' "$@"
}
int8 "$scratch/i1"
int8 "$scratch/i2" --set engine.parallel.spatial=2
int8 "$scratch/i3" --set engine.memory=3MiB
diff "$scratch/i1/results/labels.csv" "$scratch/i2/results/labels.csv" || fail "ranks change INT8"
diff "$scratch/i1/results/labels.csv" "$scratch/i3/results/labels.csv" || fail "bands change INT8"
# What INT8 loses is measured on a slide that did not calibrate: it is that of one of the slides' scores.
"$flow" demo-data "$scratch/many" --slides 10 --size 1100 --difficulty 0 >/dev/null 2>&1
sed "s|$scratch/cohort|$scratch/many|" "$scratch/w.yaml" >"$scratch/many.yaml"
expect_code 3 "$flow" run "$scratch/many.yaml" --out "$scratch/held" --set 'precision=[fp32, int8]'
/usr/bin/python3 - "$scratch/held" <<'END' || fail "no loss, or another one, of a slide that was held out"
import csv, json, math, sys
held = json.load(open(sys.argv[1] + "/report/report.json"))["calibration"]["held_out"]
scores = {}
for row in csv.DictReader(open(sys.argv[1] + "/results/labels.csv")):
    if row["score"]:
        scores.setdefault(row["slide"], {})[row["precision"]] = float(row["score"])
assert held["patches"] == held["labels"] == 1, held
def sqnr(p, q):
    noise = 2 * (p - q) ** 2
    return 10 * math.log10((p * p + (1 - p) ** 2) / noise) if noise > 0 else math.inf
losses = {slide: sqnr(s["fp32"], s["int8"]) for slide, s in scores.items()}
assert any(abs(loss - held["sqnr_db"]) < 0.1 for loss in losses.values()), (held, losses)
END
expect_code 2 "$flow" run "$scratch/w.yaml" --out "$scratch/bad" --set engine.parallel.data=2
expect_text "a slide is one image, so 'data' has nothing to share"

expect_code 0 "$flow" tile "$scratch/cohort/testing/images/test_001.tif" --mode slide --size 512 --mpp 0.5
expect_text "frame of 1024 x 1024 level-0 px"
expect_code 2 "$flow" tile "$scratch/cohort/testing/images/test_001.tif" --mode cube
expect_text "'cube' is not a value of --mode; it must be patch or slide"
echo "1 passed, 0 failed"
