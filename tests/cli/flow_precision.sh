#!/bin/sh
# One cohort in four precisions: calibrated once, found again, agreeing with float32.
. "$HRF_SOURCE_DIR/tests/cli/lib.sh"
make_cohort
make_workflow "$scratch/w.yaml"
all='precision=[fp32, bf16, fp16, int8]'
report() { python3 -c 'import json,sys; v=json.load(open(sys.argv[1])); assert eval(sys.argv[2]), v' "$1/report/report.json" "$2" || fail "not so: $2"; }

expect_code 3 "$flow" run "$scratch/w.yaml" --out "$scratch/run" --set "$all"
report "$scratch/run" 'not v["calibration"]["cached"] and v["calibration"]["samples"] > 50'
report "$scratch/run" '[p["precision"] for p in v["precisions"]] == ["fp32", "bf16", "fp16", "int8"]'
report "$scratch/run" 'all(p["patch_agreement"] >= 0.98 and p["max_abs_difference"] < 0.05 for p in v["precisions"])'
# 16-bit images are widened up to 4 MiB at a time, which a network as small as this does not make good.
report "$scratch/run" 'all(p["peak_memory_bytes"] < v["precisions"][0]["peak_memory_bytes"] + (4 << 20) for p in v["precisions"][1:3])'
# Workspaces differ by processor: 2.9 times less with AMX, over 3 times without.
report "$scratch/run" 'v["precisions"][3]["peak_memory_bytes"] * 2.5 < v["precisions"][0]["peak_memory_bytes"]'
report "$scratch/run" 'all(p["energy_joules_per_patch"] or "RAPL" in p["energy_joules_per_patch_reason"] for p in v["precisions"])'
report "$scratch/run" 'all(p["peak_process_bytes"] > p["peak_memory_bytes"] > 0 for p in v["precisions"])'
report "$scratch/run" 'all(abs(p["slide_auc"] - v["precisions"][0]["slide_auc"]) <= 0.002 for p in v["precisions"])'
report "$scratch/run" 'all(sum(b["patches"] for b in p["difference_histogram"]) == p["patches_compared"] for p in v["precisions"])'
[ "$(cut -d, -f1 "$scratch/run/report/study.csv" | tr '\n' ' ')" = "precision fp32 bf16 fp16 int8 " ] || fail "study.csv has other rows"
python3 - "$scratch/run" <<'END' || fail "patch-flips.csv is not what report.json counts"
import csv, json, sys
rows = list(csv.DictReader(open(sys.argv[1] + "/results/patch-flips.csv")))
for p in json.load(open(sys.argv[1] + "/report/report.json"))["precisions"]:
    assert p["patch_flips"] == sum(r["precision"] == p["precision"] for r in rows)
END
# Every patch was read once, and each precision has its own records.
report "$scratch/run" 'v["reading"]["patches_scored"] == 4 * v["reading"]["patches_read"] == 4 * v["precisions"][0]["patches"]'
report "$scratch/run" '(v["reading"]["readers_patches_per_second"] < v["reading"]["network_patches_per_second"]) == (v["reading"]["waits"] == "network")'
grep -q 'each patch is read once for 4 networks: fp32 [0-9.]* MiB, bf16 ' "$scratch"/run/jobs/infer-*/log || fail "it was not said"
"$flow" plan "$scratch/w.yaml" --set "$all" >"$scratch/out"
expect_text "MiB a rank for the networks side by side: each patch is read once for all precisions"
cp -r "$scratch/run/results" "$scratch/first"

# Again, and elsewhere: nothing is calibrated, the bytes are the same.
expect_code 3 "$flow" run "$scratch/w.yaml" --out "$scratch/run" --set "$all"
grep -q "nothing has changed since the report was written" "$scratch/err" || fail "the report was written again"
sed -i s/done/gone/ "$scratch/run/results/labels.csv" # nor is one that was edited kept, though it has as many bytes
expect_code 3 "$flow" run "$scratch/w.yaml" --out "$scratch/run" --set "$all"
diff -r "$scratch/first" "$scratch/run/results" || fail "an edited table was kept"
rm "$scratch/run/results/labels.csv" # a report that is not whole is written again
expect_code 3 "$flow" run "$scratch/w.yaml" --out "$scratch/run" --set "$all"
report "$scratch/run" 'v["calibration"]["cached"] and v["calibration"]["seconds"] == 0'
expect_code 3 "$flow" run "$scratch/w.yaml" --out "$scratch/other" --set "$all" --set executor.max_jobs=1
expect_text "found in the cache"
diff -r "$scratch/first" "$scratch/run/results" || fail "a second run changed the results"
diff -r "$scratch/first" "$scratch/other/results" || fail "another directory has other results"

# A precision that is added later is scored alone; networks that do not fit are scored in turn; ranks
# share the reading too. The bytes are the same.
few="--set executor.patches_per_job=1000"
expect_code 3 "$flow" run "$scratch/w.yaml" --out "$scratch/later" $few --set 'precision=[fp32, fp16]'
n=$(ls "$scratch/later/jobs" | grep -c infer)
expect_code 3 "$flow" run "$scratch/w.yaml" --out "$scratch/later" $few --set "$all"
[ "$(cat "$scratch"/later/jobs/infer-*/spec.json | grep -c '"precision": "fp32"')" = "$n" ] || fail "fp32 was scored again"
expect_code 3 "$flow" run "$scratch/w.yaml" --out "$scratch/little" $few --set "$all" --set engine.memory=3MiB
grep -q 'not all networks can be held at once in engine.memory, 3.0 MiB: .*; patches are read [234] times' "$scratch"/little/jobs/infer-*/log || fail "it was not said"
report "$scratch/little" 'v["reading"]["patches_read"] > v["precisions"][0]["patches"]'
for other in later little; do
    diff -r "$scratch/first" "$scratch/$other/results" || fail "$other: other results"
done
if command -v mpirun >/dev/null && [ -e "$HRF_BIN_DIR/../lib/hires-flow/hrf_mpi.so" ]; then
    expect_code 3 "$flow" run "$scratch/w.yaml" --out "$scratch/ranks" --set 'precision=[fp32, int8]' \
        $few --set executor.local.ranks=2 --set engine.parallel.spatial=2
    grep -q 'rank 1 .*each patch is read once for 2 networks' "$scratch"/ranks/jobs/infer-*/log || fail "ranks read apart"
    report "$scratch/ranks" 'v["reading"]["patches_scored"] == 2 * v["reading"]["patches_read"]'
    for precision in fp32 int8; do
        diff -r "$scratch/first/$precision" "$scratch/ranks/results/$precision" || fail "ranks: other scores in $precision"
    done
fi

# The database and the workflow are enough for results and report.
cp -r "$scratch/run" "$scratch/moved"
rm -r "$scratch/moved"/calibration-*.json "$scratch/moved"/jobs "$scratch/moved"/plans "$scratch/moved"/results "$scratch/moved"/report
for command in report aggregate; do
    expect_code 0 "$flow" $command "$scratch/moved"
    diff -r "$scratch/first" "$scratch/moved/results" || fail "$command without the files of the jobs gives other results"
    report "$scratch/moved" 'v["calibration"]["cached"] and len(v["calibration"]["key"]) == 64'
done

# Another method or sample is another calibration; the store can be looked into and cleared.
expect_code 0 "$flow" calibrate "$scratch/w.yaml" --out "$scratch/run" --set calibrate.method=entropy
expect_text "calibrated:"
expect_code 0 "$flow" calibrate "$scratch/w.yaml" --out "$scratch/run" --set calibrate.seed=2 --set calibrate.samples=20
expect_text "calibrated:"
(cd "$scratch" && expect_code 0 "$flow" calibrate "$scratch/w.yaml" --out "$scratch/run" --cache elsewhere --json)
expect_code 0 "$flow" calibrate --list --cache "$scratch/elsewhere"
[ "$(wc -l <"$scratch/out")" = 1 ] || fail "--cache is not where the calibration was kept"
expect_code 0 "$flow" calibrate --list
[ "$(wc -l <"$scratch/out")" = 3 ] || fail "three calibrations were made"
key=$(cut -c1-16 "$scratch/out" | head -n 1)
expect_code 0 "$flow" calibrate --show "$key" --export "$scratch/c.json"
expect_code 0 "$flow" calibrate --drop "$key"
expect_code 2 "$flow" calibrate --show "$key"
expect_code 0 "$flow" calibrate --import "$scratch/c.json"
expect_code 0 "$flow" calibrate --show "$key"
expect_text "SQNR"
# One bit of the file flipped, in the key of the index, of the table and of the record: said wherever it is looked at.
python3 - "$scratch" "$key" <<'END' >"$scratch/flipped" || fail "fewer than three keys in the file"
import os, sys
scratch, key = sys.argv[1], sys.argv[2].encode()
whole = open(scratch + "/cache/hires-flow/calibrations.db", "rb").read()
at = -1
while (at := whole.find(key, at + 1)) >= 0:
    folder = f"{scratch}/flipped-{at}"
    os.mkdir(folder, 0o700)
    harmed = bytearray(whole)
    harmed[at + 15] ^= 1
    open(folder + "/calibrations.db", "wb").write(harmed)
    print(folder)
sys.exit(len([f for f in os.listdir(scratch) if f.startswith("flipped-")]) < 3)
END
while read -r folder; do
    listed=0
    "$flow" calibrate --list --cache "$folder" >"$scratch/out" 2>"$scratch/err" || listed=$?
    expect_code $((listed * 2)) "$flow" calibrate --show "$(echo "$key" | cut -c1-15)" --cache "$folder"
    expect_code $((listed * 2)) "$flow" calibrate --show "$(echo "$key" | cut -c1-15)" --export "$scratch/c2.json" --cache "$folder"
    [ $listed = 0 ] || expect_code 1 "$flow" calibrate --list --cache "$folder"
    [ $listed = 0 ] || expect_text "1 of 3 calibrations cannot be read; --drop KEY removes one"
    echo $listed >>"$scratch/codes"
done <"$scratch/flipped"
[ "$(sort "$scratch/codes" | uniq -c | tr -d ' \n')" = 1021 ] || fail "$(cat "$scratch/codes")" # the index alone does no harm

# What 8 bits cannot hold well enough, or is asked to, stays in float32 and is told of.
expect_code 3 "$flow" run "$scratch/w.yaml" --out "$scratch/kept" --set 'precision=[fp32, int8]' --set calibrate.min_sqnr=200
expect_text "stays in float32: 8 bits hold it with"
report "$scratch/kept" 'v["precisions"][1]["max_abs_difference"] == 0 and "200 dB are wanted" in v["calibration"]["kept_in_float32"][0]["reason"]'
for command in run calibrate; do
    expect_code 2 "$flow" $command "$scratch/w.yaml" --out "$scratch/nothing" --set 'precision=[fp32, int8]' --set 'calibrate.keep=[/0/head/Gem]'
    expect_text "'/0/head/Gem' is to stay in float32, but no node or tensor of 'torch_jit' as it runs (fused) has that name; did you mean '/0/head/Gemm'?"
done
[ ! -e "$scratch/nothing" ] || fail "a run was begun that cannot be"

# A sample that breaks the model, or shows nothing: said, with the tensor's name.
python3 - "$scratch" <<'END'
import struct, sys
head = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3, 64, 64), }".ljust(117) + "\n"
for name, number in (("nan", float("nan")), ("zeros", 0.0)):
    with open(f"{sys.argv[1]}/{name}.npy", "wb") as f:
        f.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode() + struct.pack("<f", number) * (2 * 3 * 64 * 64))
END
demo=$HRF_SOURCE_DIR/tests/golden/classifier.onnx
expect_code 2 "$engine" eval "$demo" --input "$scratch/nan.npy" --output "$scratch/y.npy" --precision int8
expect_text "tensor 'input' held 24576 numbers that are NaN or infinite, of 24576: the model breaks on this sample in float32 already"
expect_code 0 "$engine" eval "$demo" --input "$scratch/zeros.npy" --output "$scratch/y.npy" --precision int8
expect_text "tensor 'input' was 0 throughout the sample (24576 numbers)"
expect_code 2 "$engine" eval "$demo" --input "$scratch/zeros.npy" --output "$scratch/y.npy" --precision int4
expect_code 2 "$engine" eval "$demo" --input "$scratch/zeros.npy" --output "$scratch/y.npy" --precision bf16 --keep input

# One byte of the store flipped: it is seen and named, not used.
python3 - "$scratch/cache/hires-flow/calibrations.db" "$key" <<'END'
import sqlite3, sys
db = sqlite3.connect(sys.argv[1])
(key, record), = db.execute("SELECT key, record FROM calibration WHERE key LIKE ?", (sys.argv[2] + "%",))
at = record.index('"high":') + 8
db.execute("UPDATE calibration SET record=? WHERE key=?", (record[:at] + str((int(record[at]) + 1) % 10 if record[at].isdigit() else 1) + record[at + 1:], key))
db.commit()
END
expect_code 3 "$flow" run "$scratch/w.yaml" --out "$scratch/damaged" --set "$all"
grep -q "is damaged.*it is dropped and made again" "$scratch/err" || fail "a flipped byte was not seen"

expect_code 2 "$flow" run "$scratch/w.yaml" --out "$scratch/x" --set precision='[fp32, tf32]'
expect_text "tf32 belongs to GPUs"
echo "1 passed, 0 failed"
