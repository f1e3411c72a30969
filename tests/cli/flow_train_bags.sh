#!/bin/sh
# An encoder and a slide head are trained together from slide labels, and end with the same bytes on any number of
# threads and after a kill; a run takes both and gives the slides the same scores.
. "$HRF_SOURCE_DIR/tests/cli/lib.sh"
cd "$scratch"
export OMP_WAIT_POLICY=passive # tests run side by side

expect_code 0 "$flow" model make resnet:1,8 --classes 12 --size 64 --output encoder.onnx
# 8 slides, the last of which is cut short; one has no label, one no file.
"$flow" demo-data cohort --slides 8 --size 1100 --difficulty 0 --seed 3 >/dev/null 2>&1
{
    echo slide,label,patient
    awk -F, '{ printf "%s,%s,p%d\n", $1, NR == 3 ? "" : tolower($2), NR / 2 }' cohort/testing/reference.csv
    echo test_099,tumor,p9
} >labels.csv
recipe() { # file, head, more of train
    cat >"$1.yaml" <<END
version: 1
model: {file: encoder.onnx}
data: {slides: cohort/testing/images, csv: labels.csv, patch_size: 64, mpp: 1.0}
classes: [normal, tumor]
split: {folds: 2}
train: {head: $2, patch_batch: 4, optimizer: adamw, learning_rate: 0.002$3}
export: {safetensors: true}
out: out-$1
END
}
close() { # the folder of one piece, another one: the encoder's weights within 1e-5 of the largest of each tensor
    python3 - "$1/fold-1-seed-1/model.safetensors" "$2/fold-1-seed-1/model.safetensors" <<'END' || fail "weights of $2"
import json, struct, sys
def read(path):
    data = open(path, "rb").read()
    n = struct.unpack("<Q", data[:8])[0]
    return {k: struct.unpack(f"<{(e - b) // 4}f", data[8 + n + b : 8 + n + e])
            for k, v in json.loads(data[8 : 8 + n]).items() for b, e in [v["data_offsets"]]}
one, other = map(read, sys.argv[1:])
worst = max((max(abs(a - b) for a, b in zip(one[k], other[k])) / max(max(map(abs, one[k])), 1e-30), k) for k in one)
assert one.keys() == other.keys() and 0 <= worst[0] < 1e-5, worst
END
}

# Every slide is tested once, in the fold of its patient; those that cannot be used are left out and counted.
recipe learn abmil ", epochs: 2"
expect_code 0 "$flow" train learn.yaml --jobs 2
expect_text "patches of 64 px, 4 slides left out, head abmil on embeddings of 12 numbers"
expect_text "test_003 is left out: it has no label"
expect_text "test_099 is left out: there is no such slide in"
expect_text "test_007 is left out: no tissue was found on it"
expect_text "test_008 is left out: "
cat out-learn/fold-*/predictions.csv | grep -c ',testing,' | grep -qx 5 || fail "not every slide is tested once"
head -1 out-learn/fold-0-seed-1/predictions.csv | grep -q '^slide,patient,part' || fail "titles"
cp -r out-learn clean-learn
expect_code 0 "$flow" train learn.yaml --json
if grep -q "epoch" "$scratch/err"; then fail "a finished training was repeated"; fi
diff -r clean-learn out-learn || fail "other bytes of what was done"

# A run embeds the patches by the one and scores slides by the other: the same scores, and no other pair.
trained=$scratch/out-learn/fold-0-seed-1
mkdir tested seen
tested_by() { awk -F, '$3 == "testing" { print $1 }' "out-learn/fold-$1-seed-1/predictions.csv"; }
for slide in $(tested_by 0); do ln -s "$scratch/cohort/testing/images/$slide.tif" tested/; done
cat >run.yaml <<END
version: 1
dataset: {layout: files, files: tested}
tiler: {patch: {size: 64, mpp: 1.0}}
model: {file: $trained/encoder.onnx, output: embedding, classes: [normal, tumor]}
slide_head: {file: $trained/head.onnx}
precision: [fp32]
END
expect_code 0 "$flow" run run.yaml --out run
python3 - "$trained/predictions.csv" run/results/labels.csv <<'END' || fail "other scores"
import csv, sys
truth = {r["slide"]: float(r["score_tumor"]) for r in csv.DictReader(open(sys.argv[1])) if r["part"] == "testing"}
run = {r["slide"]: float(r["score_tumor"]) for r in csv.DictReader(open(sys.argv[2]))}
assert truth and set(truth) == set(run), (truth, run)
for slide, score in truth.items():
    assert abs(run[slide] - score) < 1e-5, (slide, run[slide], score)
END
ln -s "$scratch/cohort/testing/images/$(tested_by 1 | head -1).tif" seen/
expect_code 3 "$flow" run run.yaml --out seen-run --set dataset.files=seen
grep -q "is one that the head was trained on" seen-run/results/labels.csv || fail "$(cat seen-run/results/labels.csv)"
expect_code 3 "$flow" run run.yaml --out other-run --set "model.file=$scratch/out-learn/fold-1-seed-1/encoder.onnx"
grep -q "were made by something else" other-run/results/labels.csv || fail "$(cat other-run/results/labels.csv)"

# The same bytes on one thread and two, after a kill at any point, and in a job; with patches drawn anew in each epoch.
recipe kill clam_sb ", batch: 2, epochs: 2, bag: 5, average: 0.5, lora: 2, skip_gradients: 0.3"
expect_code 0 "$flow" train kill.yaml --fold 1 --seed 1 --threads 1
expect_text " of them skipped"
cp -r out-kill clean-kill
rm -r out-kill/fold-1-seed-1
expect_code 0 "$flow" train kill.yaml --fold 1 --seed 1 --threads 2
diff -r clean-kill out-kill || fail "other bytes on two threads"
for point in train.start train.step:2 train.checkpoint.after:4 train.epoch:1 train.write.before train.result.before train.result.after; do
    rm -rf out-kill/fold-1-seed-1
    HRF_PART_MS=0 HRF_CRASH_AT=$point "$flow" train kill.yaml --fold 1 --seed 1 --threads 2 2>/dev/null && fail "$point was not passed"
    expect_code 0 "$flow" train kill.yaml --fold 1 --seed 1 --threads 2
    diff -r clean-kill out-kill || fail "other bytes after $point"
done
{ cat kill.yaml; echo "executor: {max_jobs: 1}"; } | sed 's/out-kill/out-jobs/' >jobs.yaml
expect_code 0 "$flow" train jobs.yaml --fold 1 --seed 1
diff -r clean-kill/fold-1-seed-1 out-jobs/fold-1-seed-1 || fail "other bytes in a job"

# Within a limit that one piece exceeds: both passes in tiles, and the same bytes after a kill.
"$flow" model make resnet:1,8 --classes 12 --size 512 --output large.onnx >/dev/null
recipe limit mean ", epochs: 1, bag: 3, memory: 13MiB"
awk -F, 'BEGIN { print "slide,label,patient" } { printf "%s,%s,p%d\n", $1, tolower($2), NR / 2 }' cohort/testing/reference.csv >all.csv
sed -i 's/encoder.onnx/large.onnx/; s/labels.csv/all.csv/; s/patch_size: 64, mpp: 1.0/patch_size: 512, mpp: 0.5/; s/patch_batch: 4/patch_batch: 1/' limit.yaml
sed 's/, memory: 13MiB//; s/out-limit/out-whole/' limit.yaml >whole.yaml
expect_code 0 "$flow" train whole.yaml --fold 1 --seed 1 --threads 2
expect_code 0 "$flow" train limit.yaml --fold 1 --seed 1 --threads 2
expect_text "each step in "
close out-whole out-limit
cp -r out-limit clean-limit
for point in train.step:1 train.checkpoint.after:2; do
    rm -rf out-limit/fold-1-seed-1
    HRF_PART_MS=0 HRF_CRASH_AT=$point "$flow" train limit.yaml --fold 1 --seed 1 --threads 2 2>/dev/null && fail "$point was not passed"
    expect_code 0 "$flow" train limit.yaml --fold 1 --seed 1 --threads 2
    diff -r clean-limit out-limit || fail "other bytes after $point"
done
sed 's/13MiB/5MiB/; s/mean/abmil/' limit.yaml >wrong.yaml
expect_code 1 "$flow" train wrong.yaml --fold 1 --seed 1
expect_text "of the 5.0 MiB of train.memory, images of 512 px that are read ahead leave "
expect_text "the head on the largest slide, of which train.bag may draw fewer patches than "

# Patches over ranks: the weights of one rank within rounding; processes give the bytes of threads, also after a kill.
recipe one abmil ", epochs: 2, bag: 5, batch: 2, learning_rate: 0.0005"
sed -i 's/optimizer: adamw, learning_rate: 0.002/optimizer: sgd/' one.yaml
expect_code 0 "$flow" train one.yaml --fold 1 --seed 1 --threads 2
for layout in data=2 spatial=2; do
    sed "s/batch: 2,/batch: 2, layout: \"$layout\",/; s/out-one/out-ranks/" one.yaml >ranks.yaml
    rm -rf out-ranks
    expect_code 0 "$flow" train ranks.yaml --fold 1 --seed 1 --threads 2
    expect_text "each step on 2 ranks, $layout"
    close out-one out-ranks
done
sed -i 's/spatial=2/data=2/' ranks.yaml
rm -rf out-ranks
expect_code 0 "$flow" train ranks.yaml --fold 1 --seed 1 --threads 2
cp -r out-ranks clean-ranks
for point in train.step:2 train.checkpoint.after:3; do
    rm -rf out-ranks/fold-1-seed-1
    HRF_PART_MS=0 HRF_CRASH_AT=$point "$flow" train ranks.yaml --fold 1 --seed 1 --threads 2 2>/dev/null && fail "$point was not passed"
    expect_code 0 "$flow" train ranks.yaml --fold 1 --seed 1 --threads 2
    diff -r clean-ranks out-ranks || fail "other bytes on ranks after $point"
done
mpirun() { command mpirun --allow-run-as-root --bind-to none --oversubscribe -n "$@"; }
"$engine" version --json >version 2>/dev/null
if command -v mpirun >/dev/null && grep -q '"mpi": *{ *"found"' version; then
    rm -rf out-ranks/fold-1-seed-1
    expect_code 0 mpirun 2 "$engine" train ranks.yaml --fold 1 --seed 1 --threads 1 --comm mpi
    diff -r clean-ranks out-ranks || fail "other bytes of processes"
    printf '#!/bin/sh\n[ "$OMPI_COMM_WORLD_RANK" = 0 ] || export HRF_CRASH_AT=train.step:2\nexec "%s" "$@"\n' "$engine" >killed.sh
    chmod +x killed.sh
    rm -rf out-ranks/fold-1-seed-1
    HRF_PART_MS=0 mpirun 2 ./killed.sh train ranks.yaml --fold 1 --seed 1 --threads 1 --comm mpi >/dev/null 2>&1 && fail "no rank was killed"
    expect_code 0 mpirun 2 "$engine" train ranks.yaml --fold 1 --seed 1 --threads 1 --comm mpi
    diff -r clean-ranks out-ranks || fail "other bytes after a rank was killed"
else
    echo "skipped: ranks as processes, for there is no MPI"
fi

# Patches are cut again only if the slide or their form has changed.
before=$(stat -c %Y%i out-kill/patches/test_001.tif/patches.csv)
sed 's/folds: 2/folds: 2, seed: 2/; s/epochs: 2/epochs: 1/' kill.yaml >again.yaml
expect_code 0 "$flow" train again.yaml --fold 1 --seed 1
[ "$before" = "$(stat -c %Y%i out-kill/patches/test_001.tif/patches.csv)" ] || fail "cut again"

# What cannot be is said before anything is trained, all at once, in whole sentences.
recipe wrong abmil ", layout: data=9, batch_norm: batch, label_smoothing: 0.1"
sed -i 's/, csv: labels.csv//; s/encoder.onnx/encoder.onnx, output: sigmoid/' wrong.yaml
expect_code 2 "$flow" train wrong.yaml
expect_text "with 'train.head' exactly 'data.slides' and 'data.csv' have to be given"
expect_text "'model.output' has to be probabilities"
expect_text "with 'train.head' 'train.batch_norm' has to be frozen"
expect_text "'train.layout': "
expect_text "with 'train.head' labels are not smoothed"
