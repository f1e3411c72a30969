#!/bin/sh
# check --slides: every slide is opened, and what is wrong with it is named in a group.
. "$HRF_SOURCE_DIR/tests/cli/lib.sh"
make_cohort
is_json() { python3 -c 'import json,sys; v=json.load(open(sys.argv[1])); s={x["slide"]: x for x in v["slides"]}; assert eval(sys.argv[2], {"v": v, "s": s}), v' "$scratch/out" "$1" || fail "not so: $1"; }
images=$scratch/cohort/testing/images
slides=$scratch/slides
mkdir "$slides"
cp "$images/test_001.tif" "$slides/good.tif"
cp "$images/test_001.tif" "$slides/copy.tif"
cp "$images/test_002.tif" "$slides/grows.tif"
size=$(stat -c %s "$images/test_002.tif")
head -c $((size * 2 / 3)) "$images/test_002.tif" >"$slides/half.tif"
cp "$HRF_SOURCE_DIR/tests/fuzz/corpus/tiles/cut.tif" "$slides/tiles.tif"
echo 'no slide' >"$slides/text.tif"
touch -d '1 hour ago' "$slides"/*.tif
printf 'slide,label\ngood.tif,\ncopy.tif,\nhalf.tif,\ntiles.tif,\ntext.tif,\ngone.tif,\ngrows.tif,\n' >"$slides/s.csv"
cat >"$scratch/w.yaml" <<END2
version: 1
dataset: {layout: csv, csv: slides/s.csv}
tiler: {patch: {size: 64, mpp: 0.1}}
model: {file: $HRF_SOURCE_DIR/tests/golden/classifier.onnx}
END2
expect_code 3 "$flow" check "$scratch/w.yaml" --slides
expect_text "6 slides, "
expect_text "2 can be scored"
expect_text "1 missing"
expect_text "gone.tif' does not exist"
expect_text "is cut short: it should go on at byte"
expect_text "of its tiles lie beyond its end"
expect_text "1 that cannot be opened"
expect_text "2 cut short"
expect_text "2 with pixels made up: patches of 0.1 um/px are finer than the slide"
expect_text "are one slide"
# One that grows while it is looked at, and one that was written a moment ago.
grow() { while printf x >>"$1"; do sleep 0.01; done; } # until it is killed
grow "$slides/grows.tif" &
writer=$!
touch "$slides/half.tif"
expect_code 3 "$flow" check "$scratch/w.yaml" --slides --json
kill $writer
is_json 's["grows"]["state"] == "changing" and "its size changes" in s["grows"]["reason"]'
is_json 's["half"]["state"] == "changing" and "less than a minute ago" in s["half"]["reason"]'
is_json 's["good"]["state"] == "ready" and s["good"]["mpp_x"] > 0 and s["good"]["upsampled"]'
is_json 's["gone"]["state"] == "missing" and v["counts"]["missing"] == 1 and v["counts"]["total"] == 6'
is_json 'v["patches_at_most"] > 0 and sum(v["formats"].values()) == 2'
# A run says so too, where it is why a slide cannot be read.
cp "$slides/half.tif" "$slides/arrives.tif"
grow "$slides/arrives.tif" &
writer=$!
expect_code 3 "$flow" infer "$slides/arrives.tif" --model "$HRF_SOURCE_DIR/tests/golden/classifier.onnx" --size 64 --mpp 0.5 --out "$scratch/arriving"
kill $writer
expect_text "failed: arrives: its size changes ("
expect_text "it is being copied; run again when it is whole (slide '"
# Pictures: what the resolution is from.
python3 - "$slides" <<'END2'
import base64, struct, sys, zlib
chunk = lambda kind, data: struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
for name, per_metre in ("sharp", 4000000), ("screen", 2835):
    with open(f"{sys.argv[1]}/{name}.png", "wb") as f:
        f.write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 16, 16, 8, 0, 0, 0, 0)) +
                chunk(b"pHYs", struct.pack(">IIB", per_metre, per_metre, 1)) +
                chunk(b"IDAT", zlib.compress((b"\0" + b"\xc8" * 16) * 16)) + chunk(b"IEND", b""))
with open(f"{sys.argv[1]}/photo.jpg", "wb") as f: # 16 x 16 px, 40,000 a cm
    f.write(base64.b64decode("/9j/4AAQSkZJRgABAQKcQJxAAAD/2wBDABALDA4MChAODQ4SERATGCgaGBYWGDEjJR0oOjM9PDkzODdASFxOQERXRTc4UG1RV19iZ2hnPk1x"
        "eXBkeFxlZ2P/wAALCAAQABABAREA/8QAFQABAQAAAAAAAAAAAAAAAAAAAAb/xAAUEAEAAAAAAAAAAAAAAAAAAAAA/9oACAEBAAA/AKQB/9k="))
END2
printf 'slide,label\nsharp.png,\nphoto.jpg,\nscreen.png,\n' >"$slides/s.csv"
expect_code 3 "$flow" check "$scratch/w.yaml" --slides --json
is_json 's["sharp"]["mpp_source"] == "png-phys" and s["photo"]["mpp_source"] == "jpeg-jfif" and s["photo"]["mpp_x"] == 0.25'
is_json '"its pHYs chunk says 352.7 um/px, which cannot be right" in s["screen"]["reason"]'
# Slides that end the process which reads them: they fail and are named; nothing else does.
make_deadly_slide "$slides/deadly.tif"
expect_code 1 "$flow" tile "$slides/deadly.tif" --slide-mpp 0.5
is_named() { grep -q "deadly.tif' ends the program that reads it by an abort\|Sanitizer" "$scratch/out" "$scratch/err" || fail "not named: $(cat "$scratch/out" "$scratch/err")"; }
is_named
printf 'slide,label,annotation\ngood.tif,tumor,deadly.tif\ndeadly.tif,normal,\n' >"$slides/s.csv"
sed 's/s.csv/s.csv, mpp: 0.5/; s/mpp: 0.1/mpp: 0.5/' "$scratch/w.yaml" >"$scratch/d.yaml"
expect_code 0 "$flow" plan "$scratch/d.yaml" --out "$scratch/dead"
expect_code 3 "$flow" run "$scratch/d.yaml" --out "$scratch/dead" --set executor.retries=0
expect_text "2 slides: 1 done, 1 failed"
is_named
expect_text "no lesions of good, whose annotation cannot be used: "
python3 -c 'import json, sys; (u,) = json.load(open(sys.argv[1]))["annotations_not_used"]; assert u["slide"] == "good" and "deadly.tif" in u["reason"], u' \
    "$scratch/dead/report/report.json" || fail "annotations_not_used"
says() { python3 -c 'import json, sys; v = json.load(open(sys.argv[1])); assert eval(sys.argv[2]), v' "$scratch/out" "$1" || fail "not so: $1"; }
for name in "" good; do
    expect_code 0 "$flow" why "$scratch/dead" $name
    expect_text "its annotation cannot be used: "
done
expect_code 0 "$flow" why "$scratch/dead" good --json
says '"deadly.tif" in v["annotation_not_used"]'
expect_code 0 "$flow" why "$scratch/dead" deadly --json
says 'v["annotation_not_used"] is None'
expect_code 0 "$flow" why "$scratch/dead" --json
says '[u["slide"] for u in v["annotations_not_used"]] == ["good"]'
printf 'slide,label,annotation\ngood.tif,tumor,nowhere.xml\n' >"$slides/s.csv"
for command in check run; do
    expect_code 2 "$flow" $command "$scratch/d.yaml"
    expect_text "s.csv:2: the annotation cannot be used: cannot open '"
done
# All well: exit code 0.
printf 'slide,label\ngood.tif,\n' >"$slides/s.csv"
expect_code 0 "$flow" check "$scratch/w.yaml" --slides
echo "1 passed, 0 failed"
