#!/bin/sh
# A training whose numbers stop being finite ends with the step, its pictures and its layers, and the checkpoint before
# it stays: a learning rate that is too high, a picture in a step, and a picture that is scored.
. "$HRF_SOURCE_DIR/tests/cli/lib.sh"
cd "$scratch"
export OMP_WAIT_POLICY=passive # tests run side by side

# Black pictures, and a white one.
python3 - <<'END'
import os, struct, sys
sys.path.insert(0, os.environ["HRF_SOURCE_DIR"] + "/tests/cli")
import train_pictures
for kind in "normal", "tumor":
    os.makedirs("data/" + kind)
    for i in range(16):
        train_pictures.write(f"data/{kind}/{kind[0]}{i}_{i}.png", 32, lambda x, y: [255 if kind == "tumor" and i == 5 else 0] * 3)
END
recipe() { # file, model, mean and std, more of train
    cat >"$1.yaml" <<END
version: 1
model: {file: $2, last_layer: fresh, input: {mean: [$3, $3, $3], std: [$4, $4, $4]}}
data: {folders: data, patient_until: _}
classes: [normal, tumor]
split: {folds: 2, validation: 0}
augment: {colour: 0, stain: 0}
train: {batch: 8, optimizer: sgd$5}
out: out-$1
END
}

# The same step again from the checkpoint that stays, which is that of the step before it.
recipe rate "$HRF_SOURCE_DIR/tests/golden/classifier.onnx" 0.1 0.1 ", learning_rate: 10, warmup_epochs: 0"
HRF_PART_MS=0 expect_code 2 "$flow" train rate.yaml --fold 0 --seed 1
expect_text "is not finite; a smaller learning rate"
expect_text "' is the first layer whose numbers are not finite, of '"
expect_text "; largest numbers: '"
expect_text "  pictures: '"
cp "$scratch/err" first
python3 - <<'END' || fail "$(cat first)"
import re
step, kept = map(int, re.search(r", step (\d+): .*\(the checkpoint after step (\d+) stays\)", open("first").read().splitlines()[-1]).groups())
assert step > 1 and kept == step - 1, (step, kept)
END
HRF_PART_MS=0 expect_code 2 "$flow" train rate.yaml --fold 0 --seed 1
expect_text "goes on after epoch"
tail -1 first | diff - "$scratch/err" >/dev/null && fail "the details lack"
[ "$(tail -1 first)" = "$(tail -1 "$scratch/err")" ] || fail "another end: $(cat "$scratch/err")"
[ -z "$(ls out-rate/fold-0-seed-1 | grep -vx -e checkpoint.bin -e history.csv -e progress.json)" ] || fail "$(ls out-rate/fold-0-seed-1)"

# Weights that only a picture with light meets.
python3 "$HRF_SOURCE_DIR/tests/cli/small_network.py" small.onnx
python3 - <<'END'
import struct
data = bytearray(open("small.onnx", "rb").read())
at = data.index(b"conv0.weight\x4a") + len(b"conv0.weight") + 1
n = shift = 0
while True:
    byte = data[at]
    at, n, shift = at + 1, n | (byte & 127) << shift, shift + 7
    if byte < 128: break
data[at : at + n] = struct.pack(f"<{n // 4}f", *[1e33] * (n // 4))
open("huge.onnx", "wb").write(data)
END
recipe picture huge.onnx 0 1e-6 ", epochs: 1"
for fold in 0 1; do
    expect_code 2 "$flow" train picture.yaml --fold $fold --seed 1
    expect_text "'node relu0' is the first layer whose numbers are not finite, of 'tumor/t5_5.png'; largest numbers: 'image' 1e+06"
    cat "$scratch/err" >>both
    [ -s out-picture/fold-$fold-seed-1/checkpoint.bin ] || fail "no checkpoint of fold $fold"
done
grep -q "step [0-9]*: the loss is not finite" both || fail "not in a step: $(cat both)"
grep -q "the scores of 1 of the pictures for testing are not finite" both || fail "not among scores: $(cat both)"
