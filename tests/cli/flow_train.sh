#!/bin/sh
# A network of patches is trained on pictures: it learns, ends with the same bytes on any number of threads
# and after a kill at any point, is scored by a run, and mistakes are told before anything is trained.
. "$HRF_SOURCE_DIR/tests/cli/lib.sh"
cd "$scratch"
export OMP_WAIT_POLICY=passive # tests run side by side

# Two textures of random colours, 4 pictures of each of some patients.
cat >pictures.py <<'END'
import os, random, struct, sys, zlib
def write(path, n, value):
    rows = b"".join(b"\0" + b"".join(bytes(max(0, min(255, v)) for v in value(x, y)) for x in range(n)) for y in range(n))
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    with open(path, "wb") as f:
        f.write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", n, n, 8, 2, 0, 0, 0)) +
                chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))
if __name__ == "__main__":
    random.seed(3)
    for k, (name, n) in enumerate((("normal", 60), ("tumor", 24))):
        os.makedirs("data/" + name)
        for i in range(n):
            colour = [random.randint(130, 220), random.randint(80, 170), random.randint(130, 220)]
            write(f"data/{name}/{name[0]}{i // 4}_{i}.png", 32, lambda x, y: [
                c + random.randint(-20, 20) + (80 if k and (x // 2 + y // 2) % 2 else 0) for c in colour])
END
python3 pictures.py
recipe() { # file, more of train
    cat >"$1.yaml" <<END
version: 1
model: {file: $HRF_SOURCE_DIR/tests/golden/classifier.onnx, last_layer: fresh}
data: {folders: data, patient_until: _}
classes: [normal, tumor]
split: {folds: 3}
train: {batch: 8, optimizer: adamw, learning_rate: 0.002$2}
out: out-$1
END
}
figure() { python3 -c "import json,sys; print(json.load(open(sys.argv[1]))['pooled']['auc']['mean'] $2)" "$1"; }

# It learns; each picture is tested once, in the fold of its patient.
recipe learn ", epochs: 20"
expect_code 0 "$flow" train learn.yaml --jobs 2
expect_text "84 pictures of 32 px, the last layer made anew"
[ "$(figure out-learn/summary.json '> 0.95')" = True ] || fail "AUC $(figure out-learn/summary.json '')"
cat out-learn/fold-*/predictions.csv | grep -c ',testing,' | grep -qx 84 || fail "not every picture is tested once"
for p in n0, n5, t2,; do
    [ "$(grep -l ",${p}testing" out-learn/fold-*/predictions.csv | wc -l)" = 1 ] || fail "$p is in two folds"
done
grep -q "Validation loss" out-learn/report/index.html && grep -q "called tumor" out-learn/report/index.html || fail "the page lacks something"
! grep -qE "\{\{|[ >](nan|inf|-nan)" out-learn/report/index.html || fail "the page is not filled"
cp -r out-learn clean-learn
expect_code 0 "$flow" train learn.yaml --json
if grep -q "epoch" "$scratch/err"; then fail "a finished training was repeated"; fi
diff -r clean-learn out-learn || fail "other bytes of what was done"

# The same bytes on one thread and two, and when it is killed at any point.
recipe kill ", epochs: 3, average: 0.9, clip_norm: 1"
expect_code 0 "$flow" train kill.yaml --fold 1 --seed 1 --threads 1
cp -r out-kill clean-kill
rm -r out-kill
expect_code 0 "$flow" train kill.yaml --fold 1 --seed 1 --threads 2
diff -r clean-kill out-kill || fail "other bytes on two threads"
for point in train.start train.step:1 train.step:8 train.checkpoint.before:3 train.checkpoint.after:9 train.epoch:2 train.write.before train.result.before train.result.after; do
    rm -rf out-kill
    HRF_PART_MS=0 HRF_CRASH_AT=$point "$flow" train kill.yaml --fold 1 --seed 1 2>/dev/null && fail "$point was not passed"
    expect_code 0 "$flow" train kill.yaml --fold 1 --seed 1
    [ "$point" != train.checkpoint.after:9 ] || expect_text "goes on after epoch 1 and "
    diff -r clean-kill out-kill || fail "other bytes after $point"
done

# The same in BF16, which the key of a training tells from FP32.
recipe half ", epochs: 2, precision: bf16"
expect_code 0 "$flow" train half.yaml --fold 1 --seed 1 --threads 1
cp -r out-half clean-half
rm -r out-half
HRF_PART_MS=0 HRF_CRASH_AT=train.step:8 "$flow" train half.yaml --fold 1 --seed 1 --threads 2 2>/dev/null && fail "train.step:8 was not passed"
expect_code 0 "$flow" train half.yaml --fold 1 --seed 1 --threads 2
diff -r clean-half out-half || fail "other bytes in BF16"
sed -i 's/, precision: bf16//' half.yaml
expect_code 0 "$flow" train half.yaml --fold 1 --seed 1
! cmp -s clean-half/fold-1-seed-1/model.onnx out-half/fold-1-seed-1/model.onnx || fail "BF16 has the bytes of FP32"

# A layer behind what the network gives; other pixels are another training; only the last layer is trained if that
# is asked for.
recipe add ", epochs: 1"
sed -i 's/last_layer: fresh/last_layer: add/; s/^out:/export: {safetensors: true}\nout:/' add.yaml
expect_code 0 "$flow" train add.yaml --fold 0 --seed 1
grep -q '"trained_weights": 36' out-add/fold-0-seed-1/result.json || fail "$(cat out-add/fold-0-seed-1/result.json)"
recipe last ", epochs: 1, layers: 1"
sed -i 's/last_layer: fresh/last_layer: keep/' last.yaml
expect_code 0 "$flow" train last.yaml --fold 0 --seed 1
grep -q '"trained_weights": 2' out-last/fold-0-seed-1/result.json || fail "$(cat out-last/fold-0-seed-1/result.json)"
cp data/tumor/t0_0.png t0.png
cp data/tumor/t0_1.png data/tumor/t0_0.png
expect_code 0 "$flow" train last.yaml --fold 0 --seed 1
expect_text "epoch 1:"
cp t0.png data/tumor/t0_0.png

python3 - out-add/fold-0-seed-1/model.safetensors <<'END' || fail "model.safetensors"
import json, struct, sys
data = open(sys.argv[1], "rb").read()
length = struct.unpack("<Q", data[:8])[0]
header = json.loads(data[8 : 8 + length])
assert length % 8 == 0 and len(header) == 36, (length, len(header))
end = 0
for name in sorted(header):
    entry, n = header[name], 4
    for d in entry["shape"]: n *= d
    assert entry["dtype"] == "F32" and entry["data_offsets"] == [end, end + n], (name, entry)
    end += n
assert 8 + length + end == len(data)
assert header["hires-flow.classes.weight"]["shape"] == [2, 2]
weights = struct.unpack("<4f", data[8 + length :][slice(*header["hires-flow.classes.weight"]["data_offsets"])])
assert all(abs(w) < 2 for w in weights) and any(weights), weights
END

# Pictures by a table, with parts; three classes.
python3 - <<'END'
import glob
rows = ["path,label,patient,part"]
for path in sorted(glob.glob("data/*/*.png")):
    kind, name = path.split("/")[1:]
    patient = int(name[1:].split("_")[0])
    rows.append(f"{path},{'other' if kind == 'normal' and patient % 3 == 2 else kind},{name[0]}{patient},{['train', 'val', 'test'][patient % 3 if kind == 'tumor' else patient // 3 % 3]}")
open("table.csv", "w").write("\n".join(rows) + "\n")
END
recipe table ", epochs: 1"
sed -i 's/data: .*/data: {csv: table.csv}/; s/classes: .*/classes: [normal, tumor, other]/; s/split: .*/split: {by: column}/; s/, last_layer: fresh//' table.yaml
expect_code 0 "$flow" train table.yaml
expect_text "84 pictures of 32 px, the last layer made anew"
[ "$(ls out-table)" = "fold-0-seed-1
report
summary.json" ] || fail "$(ls out-table)"

# A run takes the model as it is: patches of 64 px are resized as its metadata say.
make_cohort
make_workflow run.yaml
sed -i "s|file: .*|file: $scratch/out-learn/fold-0-seed-1/model.onnx}|" run.yaml
expect_code 3 "$flow" run run.yaml --out run # one of the slides is cut short
[ -s run/results/labels.csv ] || fail "no labels"
expect_code 0 "$engine" model input out-learn/fold-0-seed-1/model.onnx
expect_text '"size":32'

# Patches of slides with outlines: cut once; a slide that cannot be used is named before anything is trained.
recipe slides ", epochs: 1, epoch_samples: 16"
sed -i "s|data: .*|data: {slides: slides, annotations: cohort/testing/lesion_annotations, patch_size: 64, min_overlap: 0.2}|; s/folds: 3/folds: 2/" slides.yaml
"$flow" demo-data two --slides 8 --size 1300 --difficulty 0 --seed 3 >/dev/null 2>&1
mkdir slides
for k in 1 2 3 4; do cp two/testing/images/test_00$k.tif slides; done
sed -i 's|cohort/testing|two/testing|' slides.yaml
expect_code 0 "$flow" train slides.yaml --fold 0 --seed 1
expect_text "test_001: "
cut -d, -f2,3 out-slides/patches/patches.csv | sort -u >labels.txt
printf 'label,patient\nnormal,test_001\nnormal,test_002\nnormal,test_003\nnormal,test_004\ntumor,test_002\ntumor,test_004\n' | diff - labels.txt ||
    fail "other labels"
cp -r out-slides/patches cut
rm -r out-slides/fold* out-slides/patches/test_001
expect_code 0 "$flow" train slides.yaml --fold 0 --seed 1
expect_text "test_001: "
! grep -q "test_002: " "$scratch/err" || fail "patches were cut again"
diff -r cut out-slides/patches || fail "other patches"
# Whose a patch is stands in the table that is kept: another rule for it is not passed over.
sed 's/min_overlap: 0.2/min_overlap: 0.2, patient_until: _/' slides.yaml >patients.yaml
expect_code 2 "$flow" train patients.yaml
expect_text "1 patients cannot be split into 2 folds"
head -c 9000 slides/test_002.tif >slides/test_005.tif
expect_code 0 "$flow" train slides.yaml
expect_text "test_005 is left out: "
expect_text "px, 1 slide left out, the last layer"
grep -q '"slide": *"test_005"' out-slides/summary.json || fail "it is not counted"

# All mistakes at once, before anything is trained.
bad() { # words of the error
    for words; do expect_text "$words"; done
    ! grep -q "epoch 1:" "$scratch/err" || fail "trained before it was told: $1"
}
recipe bad ", epochs: 1"
sed 's/batch/batsch/; s/epochs: 1/epochs: 0/; s/classes: .*/classes: [a, a]/; s/data: .*/data: {folders: a, csv: b}/' bad.yaml >wrong.yaml
expect_code 2 "$flow" train wrong.yaml
bad "unknown key 'batsch' in 'train', did you mean 'batch'?" "'train.epochs' is 0; it must be 1 to 100000" "'classes' has 'a' twice" \
    "exactly one of 'data.folders', 'data.csv' and 'data.slides' has to be given" "'wrong.yaml' has 4 errors"
cp table.csv good.csv
sed -i 's|data/normal/n0_0.png,normal|data/normal/n0_0.png,norml|; s|data/normal/n0_1.png|data/normal/none.png|; s|n0_2.png,normal,n0,train|n0_2.png,normal,n0,test|; 20s|,[a-z]*$|,trainin|' table.csv
echo "data/tumor/t0_0.png,tumor,t0,train" >>table.csv
python3 -c "
import pictures
pictures.write('data/normal/n1_4.png', 48, lambda x, y: [x, y, 0])"
head -c 100 t0.png >data/tumor/t0_1.png
echo text >data/tumor/t0_2.png
expect_code 2 "$flow" train table.yaml
bad "label 'norml' is none of 'classes'" "data/normal/none.png" "part 'trainin' is none of training, validation and testing" "is there twice" \
    "is 48 px a side, and those before it 32" "it is no PNG or JPEG" "patient 'n0' is in "
cp good.csv table.csv
sed -i 's|classes: .*|classes: [normal, tumor, absent]|' bad.yaml
mkdir data/forgotten
expect_code 2 "$flow" train bad.yaml
bad "class 'absent' has no pictures" "data/forgotten: the folder is none of 'classes'"
rm -r data
python3 pictures.py
sed -i 's|classes: .*|classes: [normal, tumor]|; s/folds: 3/folds: 60/' bad.yaml
expect_code 2 "$flow" train bad.yaml
bad "21 patients cannot be split into 60 folds"
sed -i 's/folds: 60/folds: 3/; s/last_layer: fresh/last_layer: keep/; s|classes: .*|classes: [normal, tumor, other]|' bad.yaml
mkdir data/other
cp data/tumor/t0* data/other
expect_code 2 "$flow" train bad.yaml
bad "gives 2 numbers, and there are 3 classes"
sed -i 's/last_layer: keep/last_layer: auto/' bad.yaml
"$engine" model make unet --classes 2 --size 32 --output unet.onnx
sed -i "s|file: .*classifier.onnx|file: unet.onnx|" bad.yaml
expect_code 2 "$flow" train bad.yaml
bad "one vector"
expect_code 1 "$flow" train none.yaml
expect_text "none.yaml"
