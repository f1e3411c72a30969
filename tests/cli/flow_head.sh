#!/bin/sh
# Slide heads from HDF5 files that h5py wrote: training, cross-validation, scores, the same bytes after
# a crash; leaks and damaged files are refused. Positive slides have a few patches that stand out, and
# negative ones the same mean, so that attention finds what a mean cannot.
. "$HRF_SOURCE_DIR/tests/cli/lib.sh"
python=/usr/bin/python3
$python -c 'import h5py' 2>/dev/null || { echo "python3-h5py is not there"; exit 77; }
cd "$scratch"
export OMP_WAIT_POLICY=passive # tests run side by side

$python - <<'END'
import os
import h5py
import numpy as np
rng = np.random.default_rng(3)
os.mkdir("features")
rows = ["slide,label,patient,split"]
for i in range(48):
    n = int(rng.integers(15, 30))
    x = rng.normal(size=(n, 8)).astype(np.float32)
    k = 3
    if i % 2:
        x[rng.permutation(n)[:k], :3] += 6
    else:
        x[:, :3] += 6 * k / n
    with h5py.File(f"features/s{i}.h5", "w") as f:
        d = f.create_dataset("features", data=x.astype(np.float16 if i % 3 else np.float32))
        d.attrs["encoder"] = "tiny"
        d.attrs["name"] = f"s{i}"
        f.create_dataset("coords", data=rng.integers(0, 9999, size=(n, 2)))
    rows.append(f"s{i},{['normal', 'tumor'][i % 2]},p{i // 4},{'testing' if i % 4 > 1 else 'training'}")
open("labels.csv", "w").write("\n".join(rows) + "\n")
END
recipe() { # kind, seeds, more of train
    cat >"$1.yaml" <<END
version: 1
features: {folder: features}
labels: {csv: labels.csv, classes: [normal, tumor]}
head: {kind: $1, hidden: 16, attention: 8, landmarks: 4, samples: 3, dropout: 0.1}
split: {by: folds, folds: 3, validation: 0.25}
train: {seeds: $2, learning_rate: 0.01$3}
out: out-$1
END
}
figure() { "$python" -c "import json,sys; print(json.load(open(sys.argv[1]))['auc']['mean'] $2)" "$1"; }

# Attention finds the patches; a mean does not.
recipe abmil "[1]" ", epochs: 16"
recipe mean "[1]" ", epochs: 16"
expect_code 0 "$flow" head train abmil.yaml --jobs 2
expect_text "abmil: 48 slides"
expect_code 0 "$flow" head train mean.yaml --json
"$python" -c 'import json,sys; assert json.load(open(sys.argv[1]))["auc"]' "$scratch/out" || fail "--json"
[ "$(figure out-abmil/summary.json '> 0.9')" = True ] || fail "ABMIL: $(figure out-abmil/summary.json '')"
[ "$(figure out-mean/summary.json '< 0.75')" = True ] || fail "mean: $(figure out-mean/summary.json '')"
# Slides of a patient stay together: every slide is tested once, in its patient's fold.
cat out-abmil/fold-*/predictions.csv | grep -c ',testing,' | grep -qx 48 || fail "not every slide is tested once"
for p in p0, p5, p11,; do
    [ "$(grep -l ",${p}testing" out-abmil/fold-*/predictions.csv | wc -l)" = 1 ] || fail "$p is in two folds"
done

# Killed in the middle of an epoch, after a checkpoint and before the result: the same bytes.
cp -r out-abmil clean
for point in head.start head.epoch.before:3 head.epoch.after:7 head.write.before head.result.before head.result.after; do
    rm -rf out-abmil/fold-1-seed-1
    HRF_PART_MS=0 HRF_CRASH_AT=$point "$flow" head train abmil.yaml --fold 1 --seed 1 2>/dev/null && fail "$point was not passed"
    expect_code 0 "$flow" head train abmil.yaml --fold 1 --seed 1
    [ "$point" != head.epoch.after:7 ] || expect_text "goes on after epoch 7"
done
expect_code 0 "$flow" head train abmil.yaml --threads 1
diff -r clean out-abmil || fail "other bytes after a crash"

# Other numbers in a file of the same size are another training's; the same again are not.
cp features/s0.h5 s0.h5
"$python" -c "
import h5py
with h5py.File('features/s0.h5', 'r+') as f:
    f['features'][0, 0] = f['features'][0, 0] + 1"
[ "$(stat -c %s features/s0.h5)" = "$(stat -c %s s0.h5)" ] || fail "the file has another size"
expect_code 0 "$flow" head train abmil.yaml --fold 1 --seed 1
expect_text "epoch 1:"
cp s0.h5 features/s0.h5
rm -rf out-abmil
cp -r clean out-abmil
expect_code 0 "$flow" head train abmil.yaml
if grep -q "epoch" "$scratch/err"; then fail "a finished training was repeated"; fi

# Every kind trains, and the engine scores what training scored. The slide that it was trained on is refused.
for kind in clam_sb clam_mb dsmil transmil; do
    recipe $kind "[2]" ", epochs: 2"
    expect_code 0 "$flow" head train $kind.yaml --fold 0 --seed 2
    files=$(sed -n 's/,p[0-9]*,testing.*//p' out-$kind/fold-0-seed-2/predictions.csv | sed 's,.*,features/&.h5,')
    # shellcheck disable=SC2086 # a list of files
    expect_code 0 "$flow" head score out-$kind/fold-0-seed-2/head.onnx $files --out $kind.csv --attention .
    $python - $kind <<'END' || fail "$kind: other scores, or attention"
import csv, sys
kind = sys.argv[1]
score = {r["slide"]: float(r["score_tumor"]) for r in csv.DictReader(open(kind + ".csv"))}
trained = list(csv.DictReader(open(f"out-{kind}/fold-0-seed-2/predictions.csv")))
trained = [r for r in trained if r["part"] == "testing"]
assert len(trained) == len(score) == 16
for r in trained:
    assert abs(score[r["slide"]] - float(r["score_tumor"])) < 1e-5, r
    rows = list(csv.DictReader(open(r["slide"] + ".csv")))
    assert {"patch", "x", "y"} < set(rows[0]) and 15 <= len(rows) < 30
    for column in [c for c in rows[0] if c.startswith("attention")]:
        assert kind == "transmil" or abs(sum(float(r[column]) for r in rows) - 1) < 1e-4
END
done
seen=$(awk -F, 'FNR > 1 { print $1 }' out-abmil/fold-0-seed-1/predictions.csv | sort >tested; ls features | sed 's/.h5//' | sort | comm -23 - tested | head -1)
expect_code 2 "$flow" head score out-abmil/fold-0-seed-1/head.onnx "features/$seen.h5"
expect_text "slide '$seen' is one that the head was trained on"
expect_code 0 "$flow" head score out-abmil/fold-0-seed-1/head.onnx "features/$seen.h5" --seen

# What does not fit is refused in a sentence. (A finished training is not looked at again.)
sed -i 's/out-abmil/out-bad/; s/epochs: 16/epochs: 1/' abmil.yaml
bad() { # words of the error
    expect_code 2 "$flow" head train abmil.yaml
    expect_text "$1"
    cp good.csv labels.csv
}
cp labels.csv good.csv
sed -i 's/^s3,tumor/s3,tumour/' labels.csv; bad "labels.csv:5: label 'tumour' is none of labels.classes (normal, tumor)"
sed -i 's/tumor/normal/' labels.csv; bad "the slides for training are of one class only"
sed -i '3,$d' labels.csv; bad "1 patients cannot be split into 3 folds"
echo "s3,normal,p0,testing" >>labels.csv; bad "labels.csv:50: slide 's3' is already in line 5, with another label"
sed -i 's/by: folds/by: column/' abmil.yaml
bad "patient 'p0' is in testing here and in training in line"
sed -i 's/by: column/by: folds/' abmil.yaml
mv features/s7.h5 s7.h5
head -c 3000 s7.h5 >features/s7.h5; bad "'./features/s7.h5' is no HDF5 file, or it is cut short; copy it again"
cp s7.h5 features/s7.h5
harm() { $python -c "
import h5py, numpy as np
with h5py.File('features/s7.h5', 'r+') as f:
    x = f['features'][()]
    $1"; }
harm "f['features'][4, 2] = np.nan"; bad "number 2 of the embedding of patch 4 is nan"
cp s7.h5 features/s7.h5
harm "del f['features']; f['features'] = x[:, :5]"; bad "has embeddings of 5 numbers"
cp s7.h5 features/s7.h5
harm "del f['features']; f.create_dataset('features', shape=(1000000, 60000), dtype='f4', chunks=(1000, 1000))"; bad "claims to be 1000000 x 60000 numbers in 0 bytes of a file of"
cp s7.h5 features/s7.h5
harm "f['features'].attrs['encoder'] = 'other'"; bad "were made by something else (encoder=other) than those of 's0' (encoder=tiny)"
expect_code 2 "$flow" head score out-abmil/fold-0-seed-1/head.onnx features/s7.h5 --seen
expect_text "--mixed scores them all the same"
cp s7.h5 features/s7.h5
harm "f['features'].attrs['name'] = 's9'"; bad "holds the embeddings of slide 's9', not of 's7'"
cp s7.h5 features/s7.h5
sed 's/hidden/hiden/; s/epochs: 1/epochs: 0/' abmil.yaml >wrong.yaml
expect_code 2 "$flow" head train wrong.yaml
expect_text "wrong.yaml:4:21: unknown key 'head.hiden'; did you mean 'head.hidden'?"
expect_text "train.epochs: '0' is no whole number from 1 to 100000"
expect_code 2 "$flow" head score "$HRF_SOURCE_DIR/models/demo.onnx" features/s7.h5
expect_text "is no slide head: its input must be one bag"

# A head from elsewhere that leaves the width of an embedding open (the mean of all numbers, twice,
# then Softmax): bags of as many patches and another width are a session of their own.
$python -c "
import h5py, numpy as np
for name, width in (('narrow', 4), ('wide', 60000)):
    with h5py.File(name + '.h5', 'w') as f:
        f['features'], f['coords'] = np.ones((5, width), 'f'), np.zeros((5, 2), 'i8')
"
expect_code 0 "$flow" head score "$HRF_SOURCE_DIR/tests/golden/heads/open_width.onnx" narrow.h5 wide.h5 --out open.csv
[ "$(tail -n +2 open.csv)" = "narrow,0,0.5,0.5,5
wide,0,0.5,0.5,5" ] || fail "$(cat open.csv)"
