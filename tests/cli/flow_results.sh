#!/bin/sh
# What results/ and report/ say of slides that were not scored, or not at every precision, of slides
# whose files cannot be written, and of a run directory that is gone.
. "$HRF_SOURCE_DIR/tests/cli/lib.sh"
make_cohort
make_workflow "$scratch/w.yaml"
labels() { # run, condition over `rows` (by slide and precision) and `p` (figures by precision)
    python3 - "$scratch/$1" "$2" <<'END' || fail "$1: not so: $2"
import csv, json, sys
rows = {(r["slide"], r["precision"]): r for r in csv.DictReader(open(sys.argv[1] + "/results/labels.csv"))}
p = {v["precision"]: v for v in json.load(open(sys.argv[1] + "/report/report.json"))["precisions"]}
assert eval(sys.argv[2]), (rows, p)
END
}

# A slide without tissue, one that cannot be read, one that is excluded: each has its line, none has
# a label, and no figure counts them.
python3 - "$scratch/cohort/testing" <<'END'
import struct, sys
# One white tile: a slide without tissue. Header, pixels, directory.
n, at = 2048, 8 + 2048 * 2048
tags = [(256, 4, n), (257, 4, n), (258, 3, 8), (259, 3, 1), (262, 3, 1), (277, 3, 1), (322, 4, n), (323, 4, n),
        (324, 4, 8), (325, 4, n * n)]
directory = struct.pack("<H", len(tags)) + b"".join(struct.pack("<HHI", t, k, 1) + (struct.pack("<HH", v, 0) if k == 3 else struct.pack("<I", v)) for t, k, v in tags) + struct.pack("<I", 0)
with open(sys.argv[1] + "/images/test_009.tif", "wb") as f:
    f.write(struct.pack("<2sHI", b"II", 42, at) + b"\xff" * (n * n) + directory)
open(sys.argv[1] + "/reference.csv", "a").write("test_009,Normal,,None\n")
END
one=$(head -n 1 "$scratch/cohort/testing/reference.csv" | cut -d, -f1)
expect_code 3 "$flow" run "$scratch/w.yaml" --out "$scratch/states" --set "dataset.exclude=[$one]" --set dataset.mpp=0.5
head -n 1 "$scratch/states/results/labels.csv" | grep -qx 'slide,label,score,precision,truth,state,reason,score_normal,score_tumor' || fail "another header"
labels states '{r["state"] for r in rows.values()} == {"done", "failed", "no_tissue", "excluded"}'
labels states 'all(bool(r["label"]) == bool(r["score"]) == (r["state"] == "done") == (r["reason"] == "") for r in rows.values())'
labels states 'rows["test_009", "fp32"]["state"] == "no_tissue" and rows["test_009", "fp32"]["truth"] == "normal"'
labels states 'p["fp32"]["labelled_slides"] == sum(r["label"] != "" for r in rows.values())'
labels states 'sum(p["fp32"]["confusion"][k] for k in ("true_positive", "false_positive", "true_negative", "false_negative")) == p["fp32"]["labelled_slides"]'
labels states 'p["fp32"]["labelled_slides_without_score"] == 2'

# A last layer a million times as strong overflows in fp16 alone: fp32's scores are results, and the
# reason names fp16.
python3 - "$HRF_SOURCE_DIR/tests/golden/classifier.onnx" "$scratch/strong.onnx" <<'END'
import struct, sys
def varint(b, i):
    value = shift = 0
    while True:
        value |= (b[i] & 127) << shift
        shift, i = shift + 7, i + 1
        if b[i - 1] < 128:
            return value, i
def fields(b, i, end): # of a protobuf message: number, first byte, end
    while i < end:
        key, i = varint(b, i)
        n, i = varint(b, i) if key & 7 == 2 else ({0: varint(b, i)[1] - i, 1: 8, 5: 4}[key & 7], i)
        yield key >> 3, i, i + n
        i += n
b = bytearray(open(sys.argv[1], "rb").read())
for f, i, e in fields(b, 0, len(b)):
    for g, j, h in fields(b, i, e) if f == 7 else (): # graph
        tensor = {t: (k, l) for t, k, l in fields(b, j, h)} if g == 5 else {} # initializer
        if tensor and b[slice(*tensor[8])] == b"onnx::Conv_199":
            k, l = tensor[9]
            v = struct.unpack(f"<{(l - k) // 4}f", b[k:l])
            b[k:l] = struct.pack(f"<{len(v)}f", *[1e6 * x for x in v])
open(sys.argv[2], "wb").write(b)
END
expect_code 3 "$flow" run "$scratch/w.yaml" --out "$scratch/fp16" --set 'precision=[fp32, fp16]' --set model.file="$scratch/strong.onnx" --set dataset.mpp=0.5
expect_text "failed: $one: fp16: the model gives patch"
labels fp16 '[r["state"] for r in rows.values()].count("done") == 3 and all(r["label"] for (s, q), r in rows.items() if q == "fp32" and r["state"] == "done")'
labels fp16 'sum(r["precision"] == "fp16" and r["state"] == "failed" and r["reason"].startswith("the model gives patch") and not r["label"] for r in rows.values()) == 3'
labels fp16 'p["fp32"]["labelled_slides"] == 3 and p["fp16"]["labelled_slides"] == 0 and p["fp16"]["slide_accuracy"] is None'
[ "$(find "$scratch/fp16/results/fp32/model-outputs-csv" -name '*.csv' | wc -l)" = 3 ] || fail "files of fp32 are missing"
cp "$scratch/fp16/results/labels.csv" "$scratch/first.csv"
expect_code 0 "$flow" report "$scratch/fp16"
cmp "$scratch/first.csv" "$scratch/fp16/results/labels.csv" || fail "the store gives another table"

# A name that a file system takes with no ending is shortened, and told so; a slide whose table
# cannot be put in place is named and keeps no other slide from its files. Mended, `report` writes it.
long=$(printf '%0230d' 0)long
rm "$scratch/cohort/testing/images/test_009.tif" "$scratch/cohort/testing/images/test_004.tif"
ln "$scratch/cohort/testing/images/test_001.tif" "$scratch/$long.tif"
cat >"$scratch/long.yaml" <<END
version: 1
name: long
dataset: {layout: files, files: ["$scratch/$long.tif", "$scratch/cohort/testing/images/test_00[23].tif"]}
tiler: {patch: {size: 64, mpp: 0.5}, tissue: {min_patches: 4}}
model: {file: $HRF_SOURCE_DIR/tests/golden/classifier.onnx}
END
blocked=$scratch/long/results/fp32/model-outputs-csv/test_002.csv
mkdir -p "$blocked/mine"
expect_code 3 "$flow" run "$scratch/long.yaml" --out "$scratch/long"
expect_text "too long for the names of files"
expect_text "failed: test_002: fp32: its files are not complete: cannot rename"
expect_text "3 slides: 2 done, 1 failed"
labels long 'all(r["label"] for r in rows.values()) and sorted(r["state"] for r in rows.values()) == ["done", "done", "failed"]'
[ "$(find "$scratch/long/results/fp32/heatmaps" -name '*.png' | wc -l)" = 2 ] || fail "the other slides' files are missing"
[ "$(find "$scratch/long/results/fp32/model-outputs-geojson" -name '0000*-*.geojson.gz' | wc -l)" = 1 ] || fail "no file of the long name"
expect_code 3 "$flow" report "$scratch/long"
expect_text "failed: test_002: fp32: its files are not complete"
rm -r "$blocked"
expect_code 0 "$flow" report "$scratch/long"
[ -s "$blocked" ] || fail "the table was not written when it could be"
labels long '{r["state"] for r in rows.values()} == {"done"}'

# The run directory is deleted while jobs run: an error, and no word of files that are not there. Its
# engines wait at a gate, so that it cannot end before.
printf '#!/bin/sh\nwhile [ "$1" = infer ] && [ -e "%s" ]; do sleep 0.02; done\nexec "%s" "$@"\n' "$scratch/hold" "$engine" >"$scratch/gate"
chmod +x "$scratch/gate"
touch "$scratch/hold"
code=0
HRF_ENGINE=$scratch/gate "$flow" run "$scratch/w.yaml" --out "$scratch/gone" --set dataset.split=testing --set executor.patches_per_job=1 \
    --set executor.max_jobs=1 >"$scratch/out" 2>"$scratch/err" &
run=$!
until ls "$scratch"/gone/jobs/infer-*/start.json >/dev/null 2>&1; do
    kill -0 $run 2>/dev/null || { cat "$scratch/err"; fail "the run ended too early"; }
    sleep 0.05
done
until rm -rf "$scratch/gone" 2>/dev/null; do :; done # a job may write meanwhile
rm "$scratch/hold"
wait $run || code=$?
[ $code = 1 ] || { cat "$scratch/out" "$scratch/err"; fail "exit $code when the directory was deleted"; }
expect_text "it was deleted or moved while the run went on"
if grep -q "slides:\|labels:\|report:" "$scratch/out"; then fail "files are claimed that are not there"; fi
[ ! -e "$scratch/gone/results" ] || fail "results were written after all"
echo "1 passed, 0 failed"
