#!/bin/sh
# Probes of an encoder: its embeddings are computed once for all folds, a linear model and the
# nearest neighbours of them are scored, and what a linear probe leaves gives the same scores. And
# LoRA of it: the same bytes after a kill, and of the file's weights only those of products change.
. "$HRF_SOURCE_DIR/tests/cli/lib.sh"
cd "$scratch"
export OMP_WAIT_POLICY=passive # tests run side by side

# Pictures whose colour is the class, 3 of each of 16 patients.
python3 - <<'END'
import os, random, struct, zlib
random.seed(7)
def write(path, n, value):
    rows = b"".join(b"\0" + b"".join(bytes(value(x, y)) for x in range(n)) for y in range(n))
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    with open(path, "wb") as f:
        f.write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", n, n, 8, 2, 0, 0, 0)) +
                chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))
for k, name in enumerate(("normal", "tumor", "other")):
    os.makedirs("data/" + name)
    for i in range(16):
        write(f"data/{name}/{name[0]}{i // 3}_{i}.png", 32,
              lambda x, y: [random.randint(60, 120) + (70 if c == k else 0) for c in range(3)])
END
"$engine" model make resnet:2,8 --classes 24 --size 32 --seed 4 --output encoder.onnx >/dev/null
recipe() { # file, train
    cat >"$1.yaml" <<END
version: 1
model: {file: encoder.onnx}
data: {folders: data, patient_until: _}
classes: [normal, tumor, other]
split: {folds: 3}
train: {batch: 7, $2}
out: out-$1
END
}
figure() { python3 -c "import json,sys; print(json.load(open(sys.argv[1]))['pooled']['auc']['mean'] $2)" "$1"; }

recipe linear "method: linear_probe"
expect_code 0 "$flow" train linear.yaml --jobs 2
expect_text "48 pictures of 32 px, a linear model of embeddings of 24 numbers"
[ "$(grep -c "embeddings of 48 pictures" "$scratch/err")" = 1 ] || fail "embeddings are not computed once"
[ "$(figure out-linear/summary.json '> 0.9')" = True ] || fail "AUC $(figure out-linear/summary.json '')"
cat out-linear/fold-*/predictions.csv | grep -c ',testing,' | grep -qx 48 || fail "not every picture is tested once"
! grep -q ',validation,' out-linear/fold-*/predictions.csv || fail "pictures are kept from training that choose nothing"
grep -q "called tumor" out-linear/report/index.html || fail "the page lacks something"
! grep -qE "\{\{|[ >\"](nan|inf|-nan)" out-linear/report/index.html || fail "the page is not filled"
cp -r out-linear clean
expect_code 0 "$flow" train linear.yaml --jobs 2
! grep -q "pictures/s" "$scratch/err" || fail "embeddings were computed again"
rm -r out-linear/fold-1-seed-1
expect_code 0 "$flow" train linear.yaml --fold 1 --seed 1 --threads 1
! grep -q "pictures/s" "$scratch/err" || fail "embeddings were computed again"
diff -r clean out-linear || fail "other bytes on one thread"

# What it leaves is the encoder with the linear model behind it: its outputs are the predictions.
recipe again "method: knn, neighbours: 5"
sed -i 's|file: .*}|file: out-linear/fold-0-seed-1/model.onnx}|' again.yaml
expect_code 0 "$flow" train again.yaml
python3 - <<'END' || fail "the model does not give the predictions"
import csv, glob, math, struct
n, width = 48, 3
data = open("out-again/embeddings.bin", "rb").read()
head = 8 + 65
numbers = struct.unpack(f"<{n * width}f", data[head:head + 4 * n * width])
paths = [p for k in ("normal", "other", "tumor") for p in sorted(glob.glob(f"data/{k}/*"))]
outputs = {p[5:]: numbers[width * i:width * i + width] for i, p in enumerate(paths)}
rows = list(csv.DictReader(open("out-linear/fold-0-seed-1/predictions.csv")))
assert len(rows) > 10
for row in rows:
    e = [math.exp(v) for v in outputs[row["path"]]]
    for k, name in enumerate(("normal", "tumor", "other")):
        assert abs(e[k] / sum(e) - float(row["score_" + name])) < 1e-4, (row, e)
END

# Neighbours; another preparation has other embeddings; mistakes.
recipe knn "method: knn, neighbours: 5"
expect_code 0 "$flow" train knn.yaml
expect_text "48 pictures of 32 px, 5 nearest of embeddings of 24 numbers"
[ "$(figure out-knn/summary.json '> 0.8')" = True ] || fail "AUC $(figure out-knn/summary.json '')"
[ ! -e out-knn/fold-0-seed-1/model.onnx ] || fail "there is no model of neighbours"
sed -i 's|file: encoder.onnx|file: encoder.onnx, input: {mean: [0.5, 0.5, 0.5]}|' knn.yaml
expect_code 0 "$flow" train knn.yaml
expect_text "embeddings of 48 pictures, 24 numbers each"
recipe bad "method: knn, neighbours: 40"
expect_code 2 "$flow" train bad.yaml
expect_text "train.neighbours is 40, and 32 pictures are for training"
sed -i 's|file: encoder.onnx|file: encoder.onnx, last_layer: fresh|' bad.yaml
expect_code 2 "$flow" train bad.yaml
expect_text "'train.method' is knn, of what the model's file gives"

# LoRA: the file's weights stay, but for what is added to 1x1 convolutions in the end, and the last layer's.
recipe lora "lora: 2, epochs: 2, optimizer: adamw, learning_rate: 0.003"
sed -i 's/^out:/export: {safetensors: true}\nout:/' lora.yaml
expect_code 0 "$flow" train lora.yaml --fold 0 --seed 1 --threads 2
grep -q '"trained_weights": 8' out-lora/fold-0-seed-1/result.json || fail "$(cat out-lora/fold-0-seed-1/result.json)"
mv out-lora clean-lora
HRF_PART_MS=0 HRF_CRASH_AT=train.step:6 "$flow" train lora.yaml --fold 0 --seed 1 2>/dev/null && fail "it was not killed"
expect_code 0 "$flow" train lora.yaml --fold 0 --seed 1 --threads 1
expect_text "goes on after epoch 1 and "
diff -r clean-lora out-lora || fail "other bytes after a kill"
sed 's/optimizer:/seeds: [2], optimizer:/' lora.yaml >other.yaml
expect_code 0 "$flow" train other.yaml --fold 0 --seed 2
python3 - <<'END' || fail "other weights have changed than those of LoRA"
import json, struct
def read(seed):
    data = open(f"out-lora/fold-0-seed-{seed}/model.safetensors", "rb").read()
    length = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + length])
    return {name: (entry["shape"], data[8 + length:][slice(*entry["data_offsets"])]) for name, entry in header.items()}
one, two = read(1), read(2)
assert one.keys() == two.keys() and not any("lora" in name for name in one)
changed = [name for name in one if one[name][1] != two[name][1]]
assert sum(len(one[name][0]) == 4 for name in changed) == 3 and all(one[name][0][2:] == [1, 1] for name in changed if len(one[name][0]) == 4), changed
assert len(changed) == 5, changed
END
sed -i 's/lora: 2,/lora: 2, layers: 1,/' lora.yaml
expect_code 2 "$flow" train lora.yaml --fold 0 --seed 1
expect_text "train.lora: none of the layers to be trained is a product or a 1x1 convolution"
