#!/bin/sh
# A training on the emulated GPU has the CPU's losses within rounding, the same bytes each time, and says so when it goes on
# with what the CPU has begun; what does not run there is told before anything is trained.
. "$HRF_SOURCE_DIR/tests/cli/lib.sh"
modules=$HRF_BIN_DIR/../tests/emulated-cuda
[ -e "$modules/hrf_cuda.so" ] || { echo "no emulated GPU in this build"; exit 77; }
export HRF_MODULE_DIR=$modules OMP_WAIT_POLICY=passive
cd "$scratch"

# Two textures, 2 pictures of each of some patients.
python3 - <<'END'
import os, random, struct, zlib
def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
random.seed(3)
n = 32
for k, name in enumerate(("normal", "tumor")):
    os.makedirs("data/" + name)
    for i in range(12):
        pixels = b"".join(b"\0" + bytes(random.randint(60, 160) + (80 if k and (x // 2 + y // 2) % 2 else 0)
                                        for x in range(n) for _ in range(3)) for y in range(n))
        with open(f"data/{name}/{name[0]}{i // 2}_{i}.png", "wb") as f:
            f.write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", n, n, 8, 2, 0, 0, 0)) +
                    chunk(b"IDAT", zlib.compress(pixels)) + chunk(b"IEND", b""))
END
recipe() { # file, more of train
    cat >"$1.yaml" <<END
version: 1
model: {file: $HRF_SOURCE_DIR/tests/golden/classifier.onnx, last_layer: fresh}
data: {folders: data, patient_until: _}
classes: [normal, tumor]
split: {folds: 3}
train: {batch: 4, optimizer: adamw, learning_rate: 0.002, epochs: 2$2}
out: out-$1
END
}
train() { # file, more
    file=$1
    shift
    expect_code 0 "$flow" train "$file.yaml" --fold 0 --seed 1 "$@"
}
near() { # file, other, limit: losses of training and validation
    python3 - "$@" <<'END'
import csv, sys
a, b = ([[float(v) for v in row[1:3]] for row in list(csv.reader(open(f"out-{name}/fold-0-seed-1/history.csv")))[1:]] for name in sys.argv[1:3])
apart = max(abs(x - y) for p, q in zip(a, b, strict=True) for x, y in zip(p, q))
print(f"{sys.argv[1]} and {sys.argv[2]}: losses {apart:.1e} apart")
sys.exit(not 0 <= apart <= float(sys.argv[3]))
END
}

for name in cpu cuda again begun; do recipe $name ""; done
recipe bf16 ", precision: bf16"
train cpu
train cuda --device cuda
near cpu cuda 1e-5 || fail "other losses than the CPU's"
grep -q '"device": "cuda"' out-cuda/fold-0-seed-1/result.json || fail "the result does not name the device"
train again --device cuda
for file in model.onnx history.csv predictions.csv; do
    cmp "out-cuda/fold-0-seed-1/$file" "out-again/fold-0-seed-1/$file" || fail "other bytes of $file"
done
train bf16 --device cuda
near cpu bf16 0.05 || fail "BF16 is far off"

# Begun on the CPU, killed, and gone on with on the GPU.
if HRF_PART_MS=0 HRF_CRASH_AT=train.epoch:1 "$flow" train begun.yaml --fold 0 --seed 1 2>/dev/null; then fail "train.epoch:1 was not passed"; fi
train begun --device cuda
expect_text "began with the device cpu and goes on with cuda: the same within rounding, not to the last bit"
near cpu begun 1e-5 || fail "other losses after the change"

recipe ranks ", layout: data=2"
expect_code 2 "$flow" train ranks.yaml --fold 0 --seed 1 --device cuda
expect_text "training over 2 ranks runs on the CPU alone: use device cpu, or one rank on device cuda"
