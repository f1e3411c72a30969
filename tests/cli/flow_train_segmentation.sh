#!/bin/sh
# A U-Net is trained on pictures with masks, out of folders and out of a table: it learns, ends with
# the same bytes after a kill and on any number of threads, and a run takes it.
. "$HRF_SOURCE_DIR/tests/cli/lib.sh"
cd "$scratch"
export OMP_WAIT_POLICY=passive # tests run side by side

# Discs that are brighter than what is around them; 3 pictures of each of 8 patients.
python3 - <<'END'
import os, random, struct, zlib
random.seed(11)
os.makedirs("pictures"); os.makedirs("masks")
def write(path, n, channels, value):
    rows = b"".join(b"\0" + b"".join(bytes(value(x, y)) for x in range(n)) for y in range(n))
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    with open(path, "wb") as f:
        f.write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", n, n, 8, {1: 0, 3: 2}[channels], 0, 0, 0)) +
                chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))
rows = ["path,mask,patient,part"]
for i in range(24):
    cx, cy, r = random.randint(8, 24), random.randint(8, 24), random.randint(4, 9)
    inside = lambda x, y: (x - cx) ** 2 + (y - cy) ** 2 < r * r
    write(f"pictures/p{i // 3}_{i}.png", 32, 3, lambda x, y: [random.randint(90, 130) + (80 if inside(x, y) else 0) for c in range(3)])
    write(f"masks/p{i // 3}_{i}.png", 32, 1, lambda x, y: [255 if inside(x, y) else 0])
    rows.append(f"pictures/p{i // 3}_{i}.png,masks/p{i // 3}_{i}.png,p{i // 3},{['train', 'val', 'test'][i // 3 % 3]}")
open("table.csv", "w").write("\n".join(rows) + "\n")
END
"$engine" model make unet:2,8 --classes 2 --size 32 --output unet.onnx >/dev/null
recipe() { # file, train
    cat >"$1.yaml" <<END
version: 1
model: {file: unet.onnx, output: segmentation}
data: {folders: pictures, masks: masks, patient_until: _}
classes: [around, disc]
split: {folds: 2}
train: {batch: 4, optimizer: adamw, learning_rate: 0.005, $2}
out: out-$1
END
}
recipe learn "epochs: 40, patience: 40"
expect_code 0 "$flow" train learn.yaml --jobs 2
python3 - <<'END' || { cat out-learn/summary.json; fail "it does not learn"; }
import csv, glob, json
pooled = json.load(open("out-learn/summary.json"))["pooled"]
assert pooled["dice"]["mean"] > 0.8 and pooled["balanced_accuracy"]["mean"] > 0.8, pooled
assert [c["class"] for c in pooled["classes"]] == ["around", "disc"]
rows = [r for p in glob.glob("out-learn/fold-*/predictions.csv") for r in csv.DictReader(open(p)) if r["part"] == "testing"]
assert len(rows) == 24
dice = []
for k, name in enumerate(("around", "disc")):
    are = sum(float(r["truth"].split(";")[k]) for r in rows)
    right, called = (sum(float(r[f"{w}_{name}"]) for r in rows) for w in ("right", "called"))
    dice.append(2 * right / (are + called))
    assert right <= min(are, called)
assert all(sum(map(float, r["truth"].split(";"))) == 1024 == float(r["called_around"]) + float(r["called_disc"]) for r in rows)
assert abs(sum(dice) / 2 - pooled["dice"]["mean"]) < 1e-6, (dice, pooled)
END
expect_text "Dice for testing: 0."
head -1 out-learn/fold-0-seed-1/history.csv | grep -qx "epoch,training_loss,validation_loss,validation_dice,learning_rate" || fail "titles"
grep -q "Classes of pixels" out-learn/report/index.html || fail "the page lacks something"
! grep -qE "\{\{|[ >\"](nan|inf|-nan)" out-learn/report/index.html || fail "the page is not filled"

# The same bytes; a table; a mask that has changed is another training.
recipe kill "epochs: 1"
expect_code 0 "$flow" train kill.yaml --fold 1 --seed 1 --threads 1
mv out-kill clean-kill
HRF_PART_MS=0 HRF_CRASH_AT=train.step:2 "$flow" train kill.yaml --fold 1 --seed 1 --threads 2 2>/dev/null && fail "it was not killed"
expect_code 0 "$flow" train kill.yaml --fold 1 --seed 1 --threads 2
diff -r clean-kill out-kill || fail "other bytes after a kill"
cp masks/p0_1.png masks/p0_0.png
expect_code 0 "$flow" train kill.yaml --fold 1 --seed 1
expect_text "epoch 1:"
recipe table "epochs: 1"
sed -i 's/^data: .*/data: {csv: table.csv}/; s/^split: .*/split: {by: column}/' table.yaml
expect_code 0 "$flow" train table.yaml

# A run takes the model.
make_cohort
make_workflow run.yaml
sed -i "s|model: .*|model: {file: $scratch/out-learn/fold-0-seed-1/model.onnx, output: segmentation, classes: [around, disc]}|; s/size: 64/size: 32/" run.yaml
expect_code 3 "$flow" run run.yaml --out run # one of the slides is cut short

# Patches of slides have masks drawn from the outlines, from ASAP's, GeoJSON's and masks of the slide alike.
"$flow" demo-data two --slides 7 --size 1300 --difficulty 0 --seed 3 >/dev/null 2>&1
mkdir slides geojson
for k in 1 2 4 6; do cp two/testing/images/test_00$k.tif slides; done
"$engine" model make unet:2,8 --classes 2 --size 64 --output unet64.onnx >/dev/null
cat >slides.yaml <<END
version: 1
model: {file: unet64.onnx, output: segmentation}
data: {slides: slides, annotations: two/testing/lesion_annotations, patch_size: 64, slide_patches: 20}
classes: [around, tumor]
split: {folds: 2}
train: {batch: 8, epochs: 1, optimizer: adamw, learning_rate: 0.005}
out: out-slides
END
expect_code 0 "$flow" train slides.yaml --fold 0 --seed 1
python3 "$HRF_SOURCE_DIR/tests/cli/patch_masks.py" out-slides/patches two/testing/lesion_annotations 64 2 || fail "other masks"
python3 - <<'END'
import glob, json, os
import xml.etree.ElementTree as ET
for path in glob.glob("two/testing/lesion_annotations/*.xml"):
    rings = [[[float(c.get("X")), float(c.get("Y"))] for c in a.iter("Coordinate")] for a in ET.parse(path).iter("Annotation")]
    features = [{"type": "Feature", "properties": {"objectType": "annotation", "classification": {"name": "Tumor"}},
                 "geometry": {"type": "Polygon", "coordinates": [ring + ring[:1]]}} for ring in rings]
    name = os.path.basename(path)[:-4]
    json.dump({"type": "FeatureCollection", "features": features}, open(f"geojson/{name}.geojson", "w"))
END
sed 's|annotations: [^,]*|annotations: geojson|; s/out-slides/out-geojson/' slides.yaml >geojson.yaml
expect_code 0 "$flow" train geojson.yaml --fold 0 --seed 1
for mask in out-slides/patches/*/*_mask.png; do cmp "$mask" "out-geojson${mask#out-slides}" || fail "another mask: $mask"; done

# Mistakes, all at once.
rm masks/p1_3.png
cp pictures/p1_4.png masks/p1_4.png
cp out-learn/report/index.html masks/p1_5.png
expect_code 2 "$flow" train kill.yaml
for words in "masks/p1_3.png" "masks/p1_4.png' has colours" "p1_5.png' cannot be read"; do expect_text "$words"; done
sed -i 's/classes: .*/classes: [around, disc, more]/; s/masks: masks, //' kill.yaml
expect_code 2 "$flow" train kill.yaml
expect_text "'data.masks' goes with 'data.folders'"
