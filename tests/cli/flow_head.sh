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
cp "$scratch/out" abmil.out
expect_code 0 "$flow" head train mean.yaml --json
"$python" -c 'import json,sys; assert json.load(open(sys.argv[1]))["auc"]' "$scratch/out" || fail "--json"
[ "$(figure out-abmil/summary.json '> 0.9')" = True ] || fail "ABMIL: $(figure out-abmil/summary.json '')"
[ "$(figure out-mean/summary.json '< 0.75')" = True ] || fail "mean: $(figure out-mean/summary.json '')"
# Slides of a patient stay together: every slide is tested once, in its patient's fold.
cat out-abmil/fold-*/predictions.csv | grep -c ',testing,' | grep -qx 48 || fail "not every slide is tested once"
for p in p0, p5, p11,; do
    [ "$(grep -l ",${p}testing" out-abmil/fold-*/predictions.csv | wc -l)" = 1 ] || fail "$p is in two folds"
done

# A slide whose numbers overflow ends its training by name, be it trained on or scored.
cp -r features huge
"$python" - <<'END'
import h5py
with h5py.File("huge/s45.h5", "r+") as f:
    f["features"][:] = 3e38
END
recipe mean "[1]" ", epochs: 1"
sed "s/folder: features/folder: huge/; s/learning_rate: 0.01/learning_rate: 1/; s/^out: .*/out: out-huge/" mean.yaml >huge.yaml
for fold in 0 1 2; do
    expect_code 2 "$flow" head train huge.yaml --fold $fold --seed 1
    expect_text "slide 's45'"
    cat "$scratch/err" >>huge.txt
done
grep -q "slide 's45': step [0-9]*: " huge.txt || fail "not where it is trained on: $(cat huge.txt)"
grep -q "slide 's45': 'the head': score 0 is" huge.txt || fail "not where it is scored: $(cat huge.txt)"

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

# Folds that hold one class have no figures; all slides that were tested together have.
cp labels.csv good.csv
awk -F, -v OFS=, 'NR > 1 { $2 = substr($3, 2) % 2 ? "tumor" : "normal" } 1' good.csv >labels.csv
recipe few "[1, 2]" ", epochs: 1"
sed -i 's/kind: few/kind: mean/; s/folds: 3, validation: 0.25/folds: 12, validation: 0/' few.yaml
expect_code 0 "$flow" head train few.yaml
grep -qx 'balanced accuracy: [0-9.]* +- [0-9.]* over 48 slides and 2 seeds' "$scratch/out" || { cat "$scratch/out"; fail "other words"; }
$python - <<'END' || fail "figures of folds that hold one class"
import csv, glob, json
v = json.load(open("out-few/summary.json"))
assert len(v["trainings"]) == 24 and v["auc"]["n"] == v["balanced_accuracy"]["n"] == 0 and v["pooled"]["slides"] == 48, v
assert all(t["auc"] is t["balanced_accuracy"] is None and "is of class" in t["why_no_figure"] for t in v["trainings"])
auc, accuracy = [], []
for seed in 1, 2:
    rows = [r for f in glob.glob(f"out-few/fold-*-seed-{seed}/predictions.csv") for r in csv.DictReader(open(f)) if r["part"] == "testing"]
    scores = {k: [float(r["score_tumor"]) for r in rows if r["truth"] == k] for k in ("normal", "tumor")}
    auc.append(sum((t > n) + (t == n) / 2 for t in scores["tumor"] for n in scores["normal"]) / 24 ** 2)
    accuracy.append((sum(s > 0.5 for s in scores["tumor"]) + sum(s <= 0.5 for s in scores["normal"])) / 48)
for key, wanted in ("auc", auc), ("balanced_accuracy", accuracy):
    got = v["pooled"][key]
    assert got["n"] == 2 and abs(got["mean"] - sum(wanted) / 2) < 1e-9, (key, got, wanted)
END
cp good.csv labels.csv
grep -q '^AUC for testing: [0-9.]* over 48 slides; training by training [0-9.]* +- [0-9.]*, 3 of 3$' abmil.out || fail "abmil: other words"

# Several heads: the mean of their scores and attentions. The folder is made, and looked at first.
one=out-abmil/fold-0-seed-1/head.onnx two=out-abmil/fold-1-seed-1/head.onnx
for heads in "$one" "$two" "$one $two"; do
    # shellcheck disable=SC2086 # a list of files
    expect_code 0 "$flow" head score $heads features/s1.h5 features/s2.h5 --seen --out "m$(echo "$heads" | tr -dc 01).csv" --attention "attention/$heads"
done
$python - "$one" "$two" <<'END' || fail "two heads do not give their mean"
import csv, glob, sys
one, two = sys.argv[1:]
read = lambda path, column: [float(r[column]) for r in csv.DictReader(open(path))]
names = sorted(glob.glob("m*.csv"), key=len)
for files in (names, [f"attention/{heads}/s2.csv" for heads in (one, two, one + " " + two)]):
    a, b, mean = (read(path, "score_tumor" if path[0] == "m" else "attention") for path in files)
    assert len(mean) > 1 and a != b and all(abs((x + y) / 2 - m) < 1e-6 for x, y, m in zip(a, b, mean)), files
END
expect_code 2 "$flow" head score "$one" out-clam_mb/fold-0-seed-2/head.onnx features/s1.h5 --seen
expect_text "they have no mean"
expect_code 2 "$flow" head score "$one" "$two"
expect_text "score needs a head and files of features"
echo text >taken
expect_code 2 "$flow" head score "$one" features/s1.h5 --seen --attention taken
expect_text "is not a directory"
expect_code 2 "$flow" head score "$one" features/s1.h5 --seen --out nowhere/x.csv
expect_text "there is no folder 'nowhere'"

# What does not fit is refused in a sentence. (A finished training is not looked at again.)
sed -i 's/out-abmil/out-bad/; s/epochs: 16/epochs: 1/' abmil.yaml
bad() { # words of the error
    expect_code 2 "$flow" head train abmil.yaml
    expect_text "$1"
    ! grep "epoch\|again to go on" "$scratch/out" "$scratch/err" || fail "trained before it was told: $1"
    cp good.csv labels.csv
}
cp labels.csv good.csv
sed -i 's/^s3,tumor/s3,tumour/' labels.csv; bad "labels.csv:5: label 'tumour' is none of labels.classes (normal, tumor)"
sed -i 's/tumor/normal/' labels.csv; bad "the slides for training are of one class only"
awk -F, -v OFS=, 'NR > 1 { $2 = $3 == "p1" ? "tumor" : "normal" } 1' good.csv >labels.csv
bad "the slides for training are of one class only" # in the fold that tests the only patient with a tumour
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
# What HDF5 would read as zeros, or as nothing; and what is in other files.
unwritten="del f['features']; d = f.create_dataset('features', shape=(200, 8), dtype='f4', chunks=(20, 8)"
harm "$unwritten); d[:20] = 1"; bad "of the 10 blocks of 'features' only 1 were written"
cp s7.h5 features/s7.h5
harm "$unwritten, compression='gzip'); d[40:] = 1"; bad "of the 10 blocks of 'features' only 8 were written"
cp s7.h5 features/s7.h5
harm "del f['features']; f['features'] = h5py.ExternalLink('../s7.h5', 'features')"; bad "'./features/s7.h5': 'features' is a link into another file"
cp s7.h5 features/s7.h5
harm "del f['features']; v = h5py.VirtualLayout(x.shape, 'f4'); v[:] = h5py.VirtualSource('s7.h5', 'features', x.shape); f.create_virtual_dataset('features', v)"
bad "'features' is put together from other files"
cp s7.h5 features/s7.h5
harm "del f['features']; f['features'] = x > 0"; bad "has no table of numbers 'features'"
coords() { cp s7.h5 features/s7.h5; harm "c = f['coords'][()]; del f['coords']; f['coords'] = $1"; bad "$2"; }
coords "c[:5]" "'coords' is 5 x 2 for "
coords "np.full(c.shape, b'12')" "has no table of numbers 'coords'"
coords "c > 0" "has no table of numbers 'coords'"
coords "np.full(c.shape, np.nan)" "patch 0 is at nan, nan"
coords "np.full(c.shape, 1e300)" "patch 0 is at 1e+300, 1e+300"
cp s7.h5 features/s7.h5
harm "f['features'].attrs['encoder'] = 'other'"; bad "were made by something else (encoder=other) than those of 's0' (encoder=tiny)"
expect_code 2 "$flow" head score out-abmil/fold-0-seed-1/head.onnx features/s7.h5 --seen
expect_text "--mixed scores them all the same"
cp s7.h5 features/s7.h5
harm "f['features'].attrs['name'] = 's9'"; bad "holds the embeddings of slide 's9', not of 's7'"
cp s7.h5 features/s7.h5
sed 's/hidden/hiden/; s/epochs: 1/epochs: 0/' abmil.yaml >wrong.yaml
expect_code 2 "$flow" head train wrong.yaml
expect_text "wrong.yaml:4:21: unknown key 'hiden' in 'head', did you mean 'hidden'?"
expect_text "wrong.yaml:6:50: 'train.epochs' is 0; it must be 1 to 100000"
expect_code 2 "$flow" head score "$HRF_SOURCE_DIR/tests/golden/classifier.onnx" features/s7.h5
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
# Files that libhdf5 of Debian 12 dies of: one sentence, and an exit code; a later one may refuse them.
for name in boom crash; do
    file=$HRF_SOURCE_DIR/tests/golden/hdf5/$name.h5
    code=0
    "$flow" head score "$HRF_SOURCE_DIR/tests/golden/heads/open_width.onnx" "$file" >out 2>err || code=$?
    case $code in 1 | 2) ;; *) fail "exit $code on $name.h5: $(cat err)" ;; esac
    grep -q "$name.h5\|Sanitizer" err || fail "$name.h5 is not named: $(cat err)"
done

# A small file of many embeddings. A head whose patches meet in sums alone takes them in blocks; what another
# one takes for them is counted before it is taken.
$python -c "
import h5py, numpy as np
for name, n in ('long', 1000000), ('blocks', 250000):
    with h5py.File(name + '.h5', 'w') as f:
        f.create_dataset('features', data=np.tile(np.arange(8, dtype='f4'), (n, 1)), chunks=(50000, 8), compression='gzip').attrs['encoder'] = 'tiny'
        if name == 'blocks': f['coords'] = np.arange(2 * n).reshape(n, 2)
"
[ "$(stat -c %s long.h5)" -lt 2000000 ] || fail "long.h5 is not small"
if ! nm "$engine" 2>/dev/null | grep -q __asan_init; then # which takes terabytes of addresses
    code=0
    (ulimit -v 600000 && exec "$flow" head score "$PWD/out-transmil/fold-0-seed-2/head.onnx" long.h5 --mixed) >"$scratch/out" 2>"$scratch/err" || code=$?
    [ $code = 1 ] || fail "exit $code of a bag that does not fit: $(cat "$scratch/err")"
    expect_text "a slide head on 1000000 embeddings of 8 numbers takes more than the 0."
    expect_text "cannot be computed in blocks, for node '"
    (ulimit -v 1000000 && exec "$flow" head score "$PWD/out-abmil/fold-0-seed-1/head.onnx" blocks.h5 --mixed --attention long --out blocks.csv) || fail "a bag in blocks"
    $python - <<'END' || fail "attention in blocks"
import csv
rows = list(csv.DictReader(open("long/blocks.csv")))
assert len(rows) == 250000 and rows[-1]["x"] == "499998", rows[-1]
assert all(abs(float(r["attention"]) * 250000 - 1) < 1e-4 for r in rows), rows[0] # all patches are the same
END
    # A training takes the whole bag: what that needs is told before the first epoch.
    cp long.h5 features/s0.h5
    fold=$(grep -L '^s0,' out-abmil/fold-*-seed-1/predictions.csv | sed -n '1s/.*fold-\([0-9]*\)-.*/\1/p') # that trains on it
    code=0
    (ulimit -v 400000 && exec "$flow" head train abmil.yaml --fold "$fold") >"$scratch/out" 2>"$scratch/err" || code=$?
    [ $code = 1 ] || fail "exit $code of a training that does not fit: $(cat "$scratch/err")"
    expect_text "training the head on slide 's0', 1000000 embeddings of 8 numbers, needs "
    ! grep "epoch 1:" "$scratch/err" || fail "trained before it was told"
    cp s0.h5 features/s0.h5
fi
