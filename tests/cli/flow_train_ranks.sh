#!/bin/sh
# train.layout: a step over several ranks, threads or processes. The weights are those of one rank within
# rounding; a rank that is killed costs nothing; another layout goes on from the checkpoint, and says so.
. "$HRF_SOURCE_DIR/tests/cli/lib.sh"
cd "$scratch"
export OMP_WAIT_POLICY=passive # tests run side by side
"$HRF_SOURCE_DIR/tests/cli/train_pictures.py" data 24 12
recipe() { # file, layout
    cat >"$1.yaml" <<END
version: 1
model: {file: $HRF_SOURCE_DIR/tests/golden/classifier.onnx, last_layer: fresh}
data: {folders: data, patient_until: _}
classes: [normal, tumor]
split: {folds: 2}
train: {batch: 8, epochs: 3, learning_rate: 0.02, layout: "$2"}
export: {safetensors: true}
out: out-$1
END
}
one() { # recipe, more words
    file=$1
    shift
    expect_code 0 "$engine" train "$file.yaml" --fold 0 --seed 1 --threads 2 "$@"
}
close() { # the folder of one rank, that of several: within 1e-5 of the largest number of each tensor
    python3 - "$1/fold-0-seed-1/model.safetensors" "$2/fold-0-seed-1/model.safetensors" <<'END' || fail "weights of $2"
import json, struct, sys
def read(path):
    data = open(path, "rb").read()
    n = struct.unpack("<Q", data[:8])[0]
    return {k: struct.unpack(f"<{(e - b) // 4}f", data[8 + n + b : 8 + n + e])
            for k, v in json.loads(data[8 : 8 + n]).items() for b, e in [v["data_offsets"]]}
one, several = map(read, sys.argv[1:])
worst = max((max(abs(a - b) for a, b in zip(one[k], several[k])) / max(max(map(abs, one[k])), 1e-30), k) for k in one)
assert one.keys() == several.keys() and 0 <= worst[0] < 1e-5, worst
END
}
recipe one single
one one
for layout in data=2 data=3 spatial=2 stages=2 stages=2,microbatches=4 data=2,spatial=2; do
    name=$(echo "$layout" | tr -d '=,')
    recipe "$name" "$layout"
    one "$name"
    close out-one "out-$name"
    grep -q "\"layout\": *\"$layout\"" "out-$name/fold-0-seed-1/result.json" || fail "the result does not tell the layout"
done
# The same ranks again, killed in between: the same bytes.
cp -r out-data2 clean
for point in train.step:3 train.checkpoint.after:4 train.epoch:2; do
    rm -rf out-data2
    HRF_PART_MS=0 HRF_CRASH_AT=$point "$engine" train data2.yaml --fold 0 --seed 1 --threads 2 2>/dev/null && fail "$point was not passed"
    one data2
    diff -r clean out-data2 || fail "other bytes after $point"
done
# Begun on two ranks, ended on one.
rm -rf out-data2
HRF_PART_MS=0 HRF_CRASH_AT=train.step:3 "$engine" train data2.yaml --fold 0 --seed 1 2>/dev/null && fail "no kill"
sed 's/layout: .*}/layout: single}/' data2.yaml >then.yaml
one then
expect_text "began with the layout data=2 and goes on with single: the same within rounding"
close out-one out-data2

# What cannot be divided so is told with the other mistakes.
refused() { # layout, words
    recipe bad "$1"
    expect_code 2 "$engine" train bad.yaml
    expect_text "$2"
}
refused data=9 "'train.layout': "
refused tensor=2 "'train.layout': gradients are computed with data="
refused dada=2 "'train.layout': "
for layout in data=3 stages=2,microbatches=2; do # of unequal shares, and of images that pass a layer one after the other
    recipe bad $layout
    sed -i 's/layout:/batch_norm: batch, layout:/' bad.yaml
    expect_code 2 "$engine" train bad.yaml
    expect_text "'train.layout' with 'train.batch_norm' batch: the statistics of the batch are"
done

# Ranks as processes: the bytes of threads, and after one of them was killed.
mpirun() { command mpirun --allow-run-as-root --bind-to none --oversubscribe -n "$@"; }
"$engine" version --json >version 2>/dev/null
if ! command -v mpirun >/dev/null || ! grep -q '"mpi": *{ *"found"' version; then
    echo "skipped: ranks as processes, for there is no MPI"
    exit 0
fi
rm -rf out-data2
expect_code 0 mpirun 2 "$engine" train data2.yaml --fold 0 --seed 1 --threads 1 --comm mpi
diff -r clean out-data2 || fail "other bytes of processes"
cp -r out-stages2 clean-stages # one stage is fed the pictures, the other the labels
rm -rf out-stages2
expect_code 0 mpirun 2 "$engine" train stages2.yaml --fold 0 --seed 1 --threads 1 --comm mpi
diff -r clean-stages out-stages2 || fail "other bytes of stages as processes"
cp -r out-data2spatial2 clean-four # each process adds up some of the gradients, or none
rm -rf out-data2spatial2
expect_code 0 mpirun 4 "$engine" train data2spatial2.yaml --fold 0 --seed 1 --threads 1 --comm mpi
diff -r clean-four out-data2spatial2 || fail "other bytes of groups as processes"
rm -rf out-data2
cat >killed.sh <<END
#!/bin/sh
[ "\$OMPI_COMM_WORLD_RANK" = 0 ] || export HRF_CRASH_AT=train.step:5
exec "$engine" "\$@"
END
chmod +x killed.sh
HRF_PART_MS=0 mpirun 2 ./killed.sh train data2.yaml --fold 0 --seed 1 --comm mpi >/dev/null 2>&1 && fail "no rank was killed"
expect_code 0 mpirun 2 "$engine" train data2.yaml --fold 0 --seed 1 --threads 1 --comm mpi
expect_text "goes on after epoch "
diff -r clean out-data2 || fail "other bytes after a rank was killed"
expect_code 2 "$engine" train data2.yaml --jobs 2 --comm mpi
expect_text "--comm is for trainings one after the other"
