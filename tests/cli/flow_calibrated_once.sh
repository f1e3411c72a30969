#!/bin/sh
# One calibration, whoever needs it: runs at the same time, copies of the model, a maker that dies.
. "$HRF_SOURCE_DIR/tests/cli/lib.sh"
make_cohort
make_workflow "$scratch/w.yaml"
cat >>"$scratch/w.yaml" <<END
precision: [fp32, int8]
calibrate: {samples: 40}
report: {heatmaps: false, geojson: false, csv: false, html: false}
END
observed() { sqlite3 "$scratch/$1/run.db" "SELECT count(*) FROM task WHERE kind=2"; }
kept() { sqlite3 "$XDG_CACHE_HOME/hires-flow/calibrations.db" "SELECT count(*) FROM $1"; }

# Two at once: one looks at the sample, the other waits and finds the ranges.
"$flow" run "$scratch/w.yaml" --out "$scratch/a" >"$scratch/a.out" 2>&1 &
first=$!
"$flow" run "$scratch/w.yaml" --out "$scratch/b" >"$scratch/b.out" 2>&1 &
second=$!
code=0
wait $first || code=$?
[ $code = 3 ] || { cat "$scratch/a.out"; fail "the first run ended with $code"; }
code=0
wait $second || code=$?
[ $code = 3 ] || { cat "$scratch/b.out"; fail "the second run ended with $code"; }
[ "$(kept calibration)" = 1 ] || fail "$(kept calibration) calibrations, not 1"
grep -q "labelled slides that it is judged on, so its figures may be too good: name others with calibrate.slides" "$scratch"/[ab].out || fail "no word of a leak"
[ "$(kept claim)" = 0 ] || fail "a claim was left behind"
case $(observed a),$(observed b) in
0,[1-9]* | [1-9]*,0) ;;
*) fail "sampled by $(observed a) and $(observed b) tasks: not once" ;;
esac
diff -r "$scratch/a/results" "$scratch/b/results" || fail "the two gave other results"

# A store that is damaged, wholly or in one record, is told, kept, and made again.
cache=$XDG_CACHE_HOME/hires-flow
echo "no database" >"$cache/calibrations.db"
expect_code 0 "$flow" calibrate "$scratch/w.yaml" --out "$scratch/c"
expect_text "the database of calibrations was damaged; it was renamed to '$cache/calibrations.db.damaged-"
expect_text "calibrated:"
grep -qx "no database" "$cache"/calibrations.db.damaged-* || fail "the damaged file was not kept"
[ "$(kept calibration)" = 1 ] || fail "$(kept calibration) calibrations after a damaged file, not 1"
sqlite3 "$cache/calibrations.db" "UPDATE calibration SET record=replace(record, '\"low\":-', '\"low\":-1')"
expect_code 0 "$flow" calibrate "$scratch/w.yaml" --out "$scratch/c"
expect_text "it is dropped and made again"
diff -r "$scratch/a/results" "$scratch/b/results" || fail "the two gave other results"

# A copy of the model under another name is the same model; another cohort folder of the same slides too.
cp "$HRF_SOURCE_DIR/tests/golden/classifier.onnx" "$scratch/copy.onnx"
cp -r "$scratch/cohort" "$scratch/cohort2"
expect_code 0 "$flow" calibrate "$scratch/w.yaml" --out "$scratch/c" --set model.file="$scratch/copy.onnx" --set dataset.root="$scratch/cohort2"
expect_text "found in the cache"

# Other pixels, another sample, other slides: not the same calibration.
expect_code 0 "$flow" calibrate "$scratch/w.yaml" --out "$scratch/c" --set 'model.input.mean=[0.5, 0.5, 0.5]'
expect_text "calibrated:"
expect_code 0 "$flow" calibrate "$scratch/w.yaml" --out "$scratch/c" --set calibrate.seed=7
expect_text "calibrated:"
expect_code 0 "$flow" calibrate "$scratch/w.yaml" --out "$scratch/c" --set 'dataset.exclude=[test_001]'
expect_text "calibrated:"
[ "$(kept calibration)" = 4 ] || fail "$(kept calibration) calibrations, not 4"

# Slides of its own: named, sampled and not evaluated, nor are copies of them; another cohort finds them. One of both is left out.
"$flow" demo-data "$scratch/own" --slides 4 --size 1300 --difficulty 0 --seed 9 >/dev/null 2>&1
cat >"$scratch/own.yaml" <<END
$(grep -v '^calibrate' "$scratch/w.yaml")
calibrate: {samples: 40, slides: {layout: camelyon16, root: $scratch/own, split: testing, exclude: [test_004]}}
END
report() { python3 -c 'import json,sys; v=json.load(open(sys.argv[1])); assert eval(sys.argv[2]), v' "$1/report/report.json" "$2" || fail "not so: $2"; }
expect_code 3 "$flow" run "$scratch/own.yaml" --out "$scratch/own1"
report "$scratch/own1" 'v["calibration"]["sample_of"] == "calibrate.slides" and v["slides"]["total"] == 4 and not v["calibration"]["cached"]'
[ "$(cut -d, -f1 "$scratch/own1/results/labels.csv" | sort -u | tr '\n' ' ')" = "slide test_001 test_002 test_003 test_004 " ] || fail "labels.csv has other slides"
[ "$(sqlite3 "$scratch/own1/run.db" 'SELECT min(slide_id) FROM task WHERE kind=2')" -gt 4 ] || fail "the cohort was sampled"
"$flow" demo-data "$scratch/more" --slides 4 --size 1300 --difficulty 0 --seed 11 >/dev/null 2>&1
cp "$scratch/more/testing/images/test_001.tif" "$scratch/fifth.tif"
ln -s "$scratch/own/testing/images/test_002.tif" "$scratch/both.tif"
sed -i "s|^dataset:.*|dataset: {layout: files, files: [$scratch/fifth.tif, $scratch/both.tif]}|" "$scratch/own.yaml"
expect_code 0 "$flow" run "$scratch/own.yaml" --out "$scratch/own2"
expect_text "found in the cache"
report "$scratch/own2" '(v["slides"]["done"], v["slides"]["excluded"]) == (1, 1)'

# Slides without a pyramid: equal in size and place of tissue, some dark, some pale. None takes the scales, the plans
# or the scores of another, neither in another run, nor in the same one, nor where it takes another's name.
cat >"$scratch/png.py" <<'END'
import struct, sys, zlib
def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
path, colour, seed = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
rows = bytearray()
for y in range(512):
    rows += b"\0"
    for x in range(512):
        inside = 64 <= x < 448 and 64 <= y < 448
        rows += bytes((colour + (x * seed + y) % 23, colour // 3 + (x * y) % 17, colour)) if inside else b"\xff\xff\xff"
dots = struct.pack(">IIB", 2000000, 2000000, 1)
open(path, "wb").write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 512, 512, 8, 2, 0, 0, 0)) +
                       chunk(b"pHYs", dots) + chunk(b"IDAT", zlib.compress(rows, 0)) + chunk(b"IEND", b""))
END
mkdir "$scratch/dark" "$scratch/pale"
for i in 1 2 3; do
    python3 "$scratch/png.py" "$scratch/dark/s$i.png" 60 $i
    python3 "$scratch/png.py" "$scratch/pale/s$i.png" 190 $i
done
sed "s|^dataset:.*|dataset: {layout: files, files: ['$scratch/dark/*.png']}|" "$scratch/w.yaml" >"$scratch/png.yaml"
pale="dataset.files=['$scratch/pale/*.png']"
key() { report "$scratch/$1" 'v["calibration"]["key"]' && sed -n 's/.*"key": *"\([0-9a-f]\{64\}\)".*/\1/p' "$scratch/$1/report/report.json" | head -1; }
expect_code 0 "$flow" run "$scratch/png.yaml" --out "$scratch/dark1"
if grep -q "another slide\|calibration failed" "$scratch/err"; then fail "three PNGs of one size are not told apart"; fi
expect_code 0 "$flow" run "$scratch/png.yaml" --out "$scratch/pale1" --set "$pale"
if grep -q "found in the cache" "$scratch/err"; then fail "pale slides have the scales of dark ones"; fi
[ "$(key dark1)" != "$(key pale1)" ] || fail "pale slides have the key of dark ones"
expect_code 2 "$flow" compare "$scratch/dark1" "$scratch/pale1"
expect_text "the 3 slides of one name (s1, ...) are other files in B than in A, so nothing is compared"
cp "$scratch/pale"/*.png "$scratch/dark"
expect_code 0 "$flow" run "$scratch/png.yaml" --out "$scratch/dark1"
expect_text "found in the cache"
[ "$(key dark1)" = "$(key pale1)" ] || fail "the same slides in another folder have another key"
diff -r "$scratch/dark1/results" "$scratch/pale1/results" || fail "slides that were replaced have results of before"
touch "$scratch/dark"/*.png
before=$(sqlite3 "$scratch/dark1/run.db" "SELECT count(*) FROM attempt")
expect_code 0 "$flow" run "$scratch/png.yaml" --out "$scratch/dark1"
[ "$(sqlite3 "$scratch/dark1/run.db" "SELECT count(*) FROM attempt")" = "$before" ] || fail "a new time alone made work"

# The maker dies: nothing of it is in use, and the next run makes it.
rm -rf "$XDG_CACHE_HOME"
for point in run.calibrate.claimed run.calibrate.before_put; do
    HRF_CRASH_AT=$point:1 "$flow" calibrate "$scratch/w.yaml" --out "$scratch/dies" --set calibrate.samples=30 >/dev/null 2>&1 || true
    [ "$(kept calibration)" = 0 ] || fail "$point: a calibration that was never finished is in the store"
    [ "$(kept claim)" = 1 ] || fail "$point: no claim was made"
done
expect_code 0 "$flow" calibrate "$scratch/w.yaml" --out "$scratch/other" --set calibrate.samples=30
expect_text "calibrated:"
[ "$(kept calibration),$(kept claim)" = 1,0 ] || fail "the store is not in order"

# A calibration that fails is a failure of int8 alone: float32's results are those of a good run,
# every slide says why it has none of int8, and the next run calibrates.
rm -rf "$XDG_CACHE_HOME"
cp -r "$scratch/a/results" "$scratch/good"
printf '#!/bin/sh\ncase "$*" in */calibrate-*) kill -SEGV $$ ;; esac\nexec "%s" "$@"\n' "$engine" >"$scratch/crashes"
chmod +x "$scratch/crashes"
expect_code 3 env HRF_ENGINE="$scratch/crashes" "$flow" run "$scratch/w.yaml" --out "$scratch/part" --set executor.retries=0
expect_text "INT8's calibration failed: slide 'test_00"
report "$scratch/part" 'v["calibration"]["key"] is None and "a part of the sample, failed" in v["calibration"]["key_reason"]'
report "$scratch/part" '[p["patches"] > 0 for p in v["precisions"]] == [True, False]'
[ "$(grep -c ",int8,[a-z]*,failed,\"INT8's calibration failed: slide 'test_00" "$scratch/part/results/labels.csv")" = 3 ] || fail "not every slide says why it failed"
grep ,fp32, "$scratch/good/labels.csv" >"$scratch/good.csv"
grep ,fp32, "$scratch/part/results/labels.csv" | diff - "$scratch/good.csv" || fail "float32 has other labels"
expect_code 2 env HRF_ENGINE="$scratch/crashes" "$flow" calibrate "$scratch/w.yaml" --out "$scratch/part" --set executor.retries=0
expect_code 3 "$flow" run "$scratch/w.yaml" --out "$scratch/part"
diff -r "$scratch/good" "$scratch/part/results" || fail "after a failed calibration the results are others"
# A CAMELYON16 cohort of both parts is calibrated on its slides for training, and says so.
mkdir -p "$scratch/cohort/training/normal"
mv "$scratch/cohort/testing/images/test_001.tif" "$scratch/cohort/training/normal/normal_001.tif"
expect_code 3 "$flow" run "$scratch/w.yaml" --out "$scratch/both" --set dataset.split=all
if grep -q "judged on" "$scratch/err"; then fail "a word of a leak without one"; fi
on=$(sqlite3 "$scratch/both/run.db" "SELECT DISTINCT name FROM task JOIN slide ON slide_id=slide.id WHERE kind=2")
[ "$on" = normal_001 ] || fail "calibrated on '$on'"
grep -q '"sample_of": *"dataset, training"' "$scratch/both/report/report.json" || fail "the report does not say so"
echo "1 passed, 0 failed"
