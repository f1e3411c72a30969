#!/bin/sh
# model.output: segmentation. Masks, areas, fractions and outlines against a slow plain reference (segmentation.py);
# the same bytes however the patches are shared out and whatever is killed; bad requests.
. "$HRF_SOURCE_DIR/tests/cli/lib.sh"
python=/usr/bin/python3 # Debian's, which has python3-openslide
"$python" -c 'import openslide' 2>/dev/null || { echo "python3-openslide is missing"; exit 77; }
expect_code 0 "$flow" demo-data "$scratch/cohort" --slides 6 --size 1024 --difficulty 0
images=$scratch/cohort/testing/images
cat >"$scratch/w.yaml" <<END
version: 1
name: test
dataset: {layout: files, files: ["$images/test_001.tif"]}
tiler: {patch: {size: 64, mpp: 0.25}, tissue: {min_patches: 4, min_tissue: 0.9}}
model: {file: $HRF_SOURCE_DIR/tests/golden/classifier.onnx}
executor: {patches_per_job: 16, max_jobs: 2}
engine: {batch: 8}
END
net() { # file, classes, layers
    expect_code 0 "$engine" model make "$3" --classes "$2" --size 64 --output "$scratch/$1"
}
net three.onnx 3 unet:2,4
net one.onnx 1 unet:2,4
three='--set model.output=segmentation --set model.classes=[stroma,normal,tumor]'
segment() { # run, model, further options...
    to=$scratch/$1 file=$scratch/$2
    shift 2
    expect_code 0 "$flow" run "$scratch/w.yaml" --out "$to" --set model.file="$file" "$@"
}
judge() { # run, model, stride, classes, precision
    "$python" "$HRF_SOURCE_DIR/tests/cli/segmentation.py" "$scratch/$1" "$images" "$scratch/$2" "$engine" \
        "$3" "$4" "$5" || fail "$1 $5 is not what the reference says"
}
segment plain three.onnx $three --set 'precision=[fp32,int8]'
judge plain three.onnx 64 stroma,normal,tumor fp32
segment overlap three.onnx $three --set tiler.patch.stride=40
judge overlap three.onnx 40 stroma,normal,tumor fp32
segment single one.onnx --set model.output=segmentation --set 'model.classes=[tumor]'
judge single one.onnx 64 tumor fp32

# Other shards, and a job that is killed and continued from what it kept: the same bytes.
whole='--set executor.patches_per_job=1000 --set executor.max_jobs=1'
expect_code 0 env HRF_PART_MS=0 HRF_CRASH_AT=engine.batch:4 "$flow" run "$scratch/w.yaml" --out "$scratch/killed" \
    --set model.file="$scratch/three.onnx" $three --set tiler.patch.stride=40 $whole
diff -r "$scratch/overlap/results" "$scratch/killed/results" || fail "after a crash"
cat "$scratch"/killed/jobs/infer-*/log | grep -q "were scored by an earlier attempt" || fail "nothing was kept"
code=0 # the report dies between two slides' files
HRF_CRASH_AT=report.slide "$flow" run "$scratch/w.yaml" --out "$scratch/killed" --set model.file="$scratch/three.onnx" $three \
    --set tiler.patch.stride=40 $whole --set report.html=false >/dev/null 2>&1 || code=$?
[ "$code" = 137 ] || fail "the report did not die: $code"
segment killed three.onnx $three --set tiler.patch.stride=40 $whole
diff -r "$scratch/overlap/results" "$scratch/killed/results" || fail "after a crash of the report"

# Over two ranks of MPI that share each patch, and as jobs of Slurm (the scripted one): the same bytes.
if command -v mpirun >/dev/null && [ -e "$HRF_BIN_DIR/../lib/hires-flow/hrf_mpi.so" ]; then
    segment ranks three.onnx $three --set tiler.patch.stride=40 $whole --set executor.local.ranks=2 --set engine.parallel.spatial=2
    diff -r "$scratch/overlap/results" "$scratch/ranks/results" || fail "on two ranks"
fi
if [ -x "$HRF_BIN_DIR/../tests/slurm_fake/sbatch" ]; then
    mkdir "$scratch/slurm"
    printf 'Slots=2\n' >"$scratch/slurm/config"
    sed 's/^executor:.*/executor: {type: slurm, patches_per_job: 16, slurm: {time: "00:10:00"}}/' "$scratch/w.yaml" >"$scratch/slurm.yaml"
    expect_code 0 env HRF_FAKE_SLURM="$scratch/slurm" PATH="$HRF_BIN_DIR/../tests/slurm_fake:$PATH" "$flow" run "$scratch/slurm.yaml" \
        --out "$scratch/on_slurm" --set model.file="$scratch/three.onnx" $three --set tiler.patch.stride=40
    diff -r "$scratch/overlap/results" "$scratch/on_slurm/results" || fail "on Slurm"
fi

# Dice and IoU against outlines, and against the same truth as a mask: a U-Net that PyTorch has exported
# (tools/reference/train_small_unet.py).
truth() { "$python" "$HRF_SOURCE_DIR/tests/cli/segmentation_truth.py" "$@"; }
outlines=$scratch/cohort/testing/lesion_annotations
truth draw "$images/test_002.tif" "$outlines/test_002.xml" "$scratch/2.png" || fail "the truth"
truth draw "$images/test_004.tif" "$outlines/test_004.xml" "$scratch/4.png" || fail "the truth"
by() { # name, annotation of test_002, of test_004
    printf 'slide,label,annotation\n%s,normal,\n%s,tumor,%s\n%s,tumor,%s\n' "$images/test_001.tif" "$images/test_002.tif" "$2" \
        "$images/test_004.tif" "$3" >"$scratch/two.csv"
    sed "s|dataset: .*|dataset: {layout: csv, csv: $scratch/two.csv}|" "$scratch/w.yaml" >"$scratch/two.yaml"
    expect_code 0 "$flow" run "$scratch/two.yaml" --out "$scratch/by.$1" --set model.output=segmentation \
        --set model.file="$HRF_SOURCE_DIR/tests/golden/segmentation/unet.onnx" --set 'model.classes=[background,tissue,tumor]'
    truth judge "$scratch/by.$1" "$scratch/2.png" "$scratch/4.png" >"$scratch/auc.$1" || fail "Dice by $1"
}
by outlines "$outlines/test_002.xml" "$outlines/test_004.xml"
by masks "$scratch/2.png" "$scratch/4.png"
printf 'patch AUC by outlines %s, by a mask %s\n' "$(cat "$scratch/auc.outlines")" "$(cat "$scratch/auc.masks")"
"$python" -c "import sys; assert abs(float(sys.argv[1]) - float(sys.argv[2])) < 0.02" "$(cat "$scratch/auc.outlines")" \
    "$(cat "$scratch/auc.masks")" || fail "the patch AUC"

# The viewer's picture of the labels is the mask.
if [ -e /usr/share/javascript/leaflet/leaflet.js ]; then
    "$flow" view "$scratch/overlap" --json >"$scratch/url" &
    viewer=$!
    until [ -s "$scratch/url" ]; do kill -0 $viewer || fail "the viewer ended"; sleep 0.05; done
    "$python" - "$scratch/url" "$scratch/overlap/results/fp32/masks/test_001.tiff" <<'END2' || fail "the viewer's labels"
import io, json, sys, urllib.request
import numpy, openslide
from PIL import Image
url = json.load(open(sys.argv[1]))["url"]
run = json.load(urllib.request.urlopen(url + "run.json"))
assert run["is_segmentation"] and run["classes"] == ["stroma", "normal", "tumor"]
png = urllib.request.urlopen(f"{url}slide/{run['slides'][0]['id']}/labels/fp32.png").read()
mask = openslide.OpenSlide(sys.argv[2])
assert (numpy.asarray(Image.open(io.BytesIO(png))) == numpy.asarray(mask.read_region((0, 0), 0, mask.dimensions))[..., 0]).all()
END2
    kill $viewer
fi

# What is not wanted goes, and bad requests are a sentence each.
segment plain three.onnx $three --set 'precision=[fp32,int8]' --set report.masks=false --set report.geojson=false
[ -z "$(ls "$scratch/plain/results/fp32/masks" 2>/dev/null)" ] || fail "masks that are not wanted"
refuse() { # text, options...
    text=$1
    shift
    expect_code 2 "$flow" check "$scratch/w.yaml" --set model.file="$scratch/three.onnx" --set model.output=segmentation "$@"
    expect_text "$text"
}
refuse "segmentation into 2 classes (model.classes) needs 8x2xHxW"
refuse "'segmentation' labels the pixels of patches" --set tiler.mode=slide
expect_code 2 "$flow" check "$scratch/w.yaml" --set model.output=segmentation
expect_text "segmentation into 2 classes"
echo "11 passed, 0 failed"
