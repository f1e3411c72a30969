#!/bin/sh
# Slides as one image each are trained from slide labels alone, within a memory limit, and end with the same bytes
# on any number of threads and after a kill; a run then scores the same pixels with the same network.
. "$HRF_SOURCE_DIR/tests/cli/lib.sh"
cd "$scratch"
export OMP_WAIT_POLICY=passive # tests run side by side

python3 "$HRF_SOURCE_DIR/tests/cli/small_network.py" small.onnx
# 12 slides, the last of which is cut short; one has no label, one no file.
"$flow" demo-data cohort --slides 12 --size 1100 --difficulty 0 --seed 3 >/dev/null 2>&1
{
    echo slide,label,patient
    awk -F, '{ printf "%s,%s,p%d\n", $1, NR == 3 ? "" : tolower($2), NR / 2 }' cohort/testing/reference.csv
    echo test_099,tumor,p9
} >labels.csv
recipe() { # file, more of train
    cat >"$1.yaml" <<END
version: 1
model: {file: small.onnx, last_layer: fresh}
data: {slides: cohort/testing/images, csv: labels.csv}
tiler: {mode: slide, slide: {size: 320, mpp: 0.8}}
classes: [normal, tumor]
split: {folds: 2}
train: {batch: 2, optimizer: adamw, learning_rate: 0.003$2}
out: out-$1
END
}
same_scores() { # predictions.csv, labels.csv: each slide that was tested has the run's score
    python3 - "$1" "$2" <<'END' || fail "other scores: $1, $2"
import csv, sys
truth = {r["slide"]: float(r["score_tumor"]) for r in csv.DictReader(open(sys.argv[1]))}
run = {r["slide"]: float(r["score"]) for r in csv.DictReader(open(sys.argv[2])) if r["score"]}
assert truth and set(truth) <= set(run), (truth, run)
for slide, score in truth.items():
    assert abs(run[slide] - score) < 1e-5, (slide, run[slide], score)
END
}

# Every slide is tested once, in the fold of its patient; those that cannot be used are left out and counted.
recipe learn ", epochs: 3"
expect_code 0 "$flow" train learn.yaml --jobs 2
expect_text "10 slides of 320 px, 3 slides left out, the last layer made anew"
expect_text "test_003 is left out: it has no label"
expect_text "test_099 is left out: there is no such slide in"
expect_text "test_012 is left out: "
grep -q '"reason": *"it has no label"' out-learn/summary.json || fail "$(cat out-learn/summary.json)"
cat out-learn/fold-*/predictions.csv | grep -c ',testing,' | grep -qx 10 || fail "not every slide is tested once"
head -1 out-learn/fold-0-seed-1/predictions.csv | grep -q '^slide,patient,part' || fail "titles"
grep -q "10 slides of 320 px" out-learn/report/index.html || fail "the page counts otherwise"
python3 - <<'END' || fail "it does not learn"
import csv
losses = [float(r["training_loss"]) for r in csv.DictReader(open("out-learn/fold-0-seed-1/history.csv"))]
assert losses[-1] < losses[0], losses
END

# A run gives the network the same pixels, of slides that reach beyond the frame in one direction and are padded in the
# other: the same scores, in bands of rows, too, and a class map of each slide.
make_workflow run.yaml
sed -i "s|file: .*|file: $scratch/out-learn/fold-0-seed-1/model.onnx, positive: tumor}|; s/^tiler:.*/tiler: {mode: slide, slide: {size: 320, mpp: 0.8}}/" run.yaml
expect_code 3 "$flow" run run.yaml --out run # one of the slides is cut short
same_scores out-learn/fold-0-seed-1/predictions.csv run/results/labels.csv
[ -s run/results/fp32/heatmaps/test_002.png ] || fail "no heatmap"
python3 - <<'END' || fail "other class maps"
import csv, math
slides = [r for r in csv.DictReader(open("run/results/labels.csv")) if r["score"]]
assert len(slides) == 11, slides
for r in slides: # cells that cover the frame, of the class that the slide is called
    cells = list(csv.DictReader(open(f"run/results/fp32/class-maps/{r['slide']}.csv")))
    assert len(cells) == 80 * 80 and sum(int(c["width"]) * int(c["height"]) for c in cells) == 1024 * 1024, len(cells)
    assert all(math.isfinite(float(c["activation_" + r["label"]])) for c in cells), r
END
# Beside the lesions that were drawn, of those that are called as the first of them is.
called=$(python3 - <<'END'
import csv
lesions = {r["slide"] for r in csv.DictReader(open("cohort/testing/drawn.csv")) if r["kind"] == "lesion"}
print(next(r["label"] for r in csv.DictReader(open("run/results/labels.csv")) if r["slide"] in lesions and r["label"]))
END
)
expect_code 0 python3 "$HRF_SOURCE_DIR/tools/reference/class_maps.py" run cohort/testing/drawn.csv "$called"
expect_text "higher inside"
cp -r out-learn clean-learn
expect_code 0 "$flow" train learn.yaml --json
if grep -q "epoch" "$scratch/err"; then fail "a finished training was repeated"; fi
diff -r clean-learn out-learn || fail "other bytes of what was done"

# The same bytes on one thread and two.
recipe kill ", epochs: 2"
expect_code 0 "$flow" train kill.yaml --fold 1 --seed 1 --threads 1
cp -r out-kill clean-kill
rm -r out-kill/fold-1-seed-1
expect_code 0 "$flow" train kill.yaml --fold 1 --seed 1 --threads 2
diff -r clean-kill out-kill || fail "other bytes on two threads"

# Within a limit: a step in tiles, scores in bands; the same bytes after a kill, and the scores of a run.
recipe limit ", epochs: 2, memory: 5MiB"
sed -i 's/batch: 2/batch: 1/' limit.yaml
export HRF_LOG=debug:training
expect_code 0 "$flow" train limit.yaml --fold 1 --seed 1 --threads 2
expect_text "each step in "
expect_text "training: scores in "
unset HRF_LOG
cp -r out-limit clean-limit
for point in train.start train.step:1 train.checkpoint.after:4 train.epoch:1 train.write.before train.result.after; do
    rm -rf out-limit/fold-1-seed-1
    HRF_PART_MS=0 HRF_CRASH_AT=$point "$flow" train limit.yaml --fold 1 --seed 1 --threads 2 2>/dev/null && fail "$point was not passed"
    expect_code 0 "$flow" train limit.yaml --fold 1 --seed 1 --threads 2
    diff -r clean-limit out-limit || fail "other bytes after $point"
done
sed -i "s|file: .*|file: $scratch/out-limit/fold-1-seed-1/model.onnx, positive: tumor}|" run.yaml
expect_code 3 "$flow" run run.yaml --out bands --set engine.memory=4MiB
same_scores out-limit/fold-1-seed-1/predictions.csv bands/results/labels.csv

# Other pixels are another training, and images are made again only if theirs have changed.
cp out-kill/images/test_001.tif.png before.png
sed 's/mpp: 0.8/mpp: 0.9/' kill.yaml >coarser.yaml
expect_code 0 "$flow" train coarser.yaml --fold 1 --seed 1
expect_text "epoch 1:"
cmp -s before.png out-kill/images/test_001.tif.png && fail "the image of another resolution"
echo damaged >out-kill/images/test_001.tif.png.key
expect_code 0 "$flow" train kill.yaml --fold 1 --seed 1
cmp before.png out-kill/images/test_001.tif.png || fail "another image"

# Parts of a table; a file's name with its ending.
awk -F, 'NR == 1 { print $0 ",part" } NR > 1 && $2 { print $1 ".tif," $2 "," $3 "," (NR % 4 < 2 ? "train" : "test") }' labels.csv |
    sed 's/p[0-9]*,/,/' >parts.csv
sed 's/labels.csv/parts.csv/; s/folds: 2/by: column, validation: 0/; s/epochs: 2/epochs: 1/; s/out-kill/out-parts/' kill.yaml >parts.yaml
expect_code 0 "$flow" train parts.yaml
expect_text "10 slides of 320 px, 2 slides left out"

# What cannot be is said before anything is trained, in whole sentences.
bad() { # words of the error
    for words; do expect_text "$words"; done
    ! grep -q "epoch 1:" "$scratch/err" || fail "trained before it was told: $1"
}
sed 's/, csv: labels.csv//' kill.yaml >wrong.yaml
expect_code 2 "$flow" train wrong.yaml
bad "with 'tiler.mode' slide exactly 'data.slides' and 'data.csv' have to be given"
sed 's/last_layer: fresh/input: {size: 224}/' kill.yaml >wrong.yaml
expect_code 2 "$flow" train wrong.yaml
bad "pictures are resized, and with 'tiler.mode' slide there are none"
sed 's/epochs: 2/epochs: 2, memory: 4MiB/' kill.yaml >wrong.yaml
expect_code 1 "$flow" train wrong.yaml
bad "of the 4.0 MiB of train.memory, images of 320 px that are read ahead leave " " MiB: the model needs at least 0.00"
sed 's/epochs: 2/epochs: 2, memory: 2MiB/' kill.yaml >wrong.yaml
expect_code 1 "$flow" train wrong.yaml
bad "images of 320 px that are read ahead need " " MiB alone, and train.memory allows 2.0 MiB"
python3 "$HRF_SOURCE_DIR/tests/cli/small_network.py" fixed.onnx 16
sed 's/small.onnx/fixed.onnx/' kill.yaml >wrong.yaml
expect_code 2 "$flow" train wrong.yaml
bad "takes images of 16 px alone, and tiler.slide.size is 320: set it to 16, or take a network for images of any size"
sed 's/,tumor,/,tumour,/' labels.csv >typo.csv
sed 's/labels.csv/typo.csv/; s/out-kill/out-typo/' kill.yaml >wrong.yaml
expect_code 2 "$flow" train wrong.yaml
bad "'tumour'"
[ ! -e out-typo/images ] || fail "slides were read before the labels were"
