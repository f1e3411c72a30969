#!/bin/sh
# tiler.coords: what a run writes is read back as the same patches, in every form; files as other programs
# write them; and files that are damaged or of another slide.
. "$HRF_SOURCE_DIR/tests/cli/lib.sh"
python=/usr/bin/python3
$python -c 'import h5py' 2>/dev/null || { echo "$python has no h5py"; exit 77; }
make_cohort
make_workflow "$scratch/w.yaml"
slide=$scratch/cohort/testing/images/test_001.tif
places() { # run: the patches of all slides, from the tables of patches, or from run.db of an embedding
    for i in 1 2 3; do cut -d, -f1-4 "$1/results/fp32/model-outputs-csv/test_00$i.csv"; done
}
expect_code 3 "$flow" run "$scratch/w.yaml" --out "$scratch/first"
places "$scratch/first" >"$scratch/want"
[ "$(wc -l <"$scratch/want")" -gt 30 ] || fail "too few patches to compare"
rm "$scratch/cohort/testing/images/test_004.tif"
sed -i /test_004/d "$scratch/cohort/testing/reference.csv"

# Our own features, in each form (there are no places in .npy: the table of patches has them).
for form in trident clam stamp atlaspatch npy; do
    expect_code 0 "$flow" run "$scratch/w.yaml" --out "$scratch/$form" --set model.output=embedding --set features.form=$form
    from=$scratch/$form/results/fp32/features
    [ $form != npy ] || from=$scratch/$form/results/fp32/model-outputs-csv
    # Another tissue method and stride would give other patches.
    expect_code 0 "$flow" run "$scratch/w.yaml" --out "$scratch/again-$form" --set "tiler.coords=$from" --set tiler.tissue.method=clam
    places "$scratch/again-$form" >"$scratch/got"
    cmp "$scratch/want" "$scratch/got" || fail "$form: other patches came back"
    cmp "$scratch/first/results/fp32/model-outputs-csv/test_001.csv" "$scratch/again-$form/results/fp32/model-outputs-csv/test_001.csv" || fail "$form: other scores"
done

# As the other programs write them, on purpose not in our order; each gives these three patches.
$python - "$scratch" <<'END'
import h5py, json, numpy as np, os, sys
at = sys.argv[1]
import csv
rows = [(int(r["minx"]), int(r["miny"])) for r in csv.DictReader(open(at + "/first/results/fp32/model-outputs-csv/test_001.csv"))]
three = np.array([rows[5], rows[0], rows[3]])
os.makedirs(at + "/other/patches")
def make(name, data, attrs=(), root=(), **more):
    with h5py.File(f"{at}/other/{name}.h5", "w") as f:
        d = f.create_dataset("coords", data=data, **more)
        for k, v in dict(attrs).items():
            d.attrs[k] = v
        for k, v in dict(root).items():
            f.attrs[k] = v
width, height = (int(x) for x in open(at + "/size").read().split()) if os.path.exists(at + "/size") else (0, 0)
from subprocess import check_output
plan = json.loads(check_output([os.environ["HRF_BIN_DIR"] + "/hires-flow", "tile", at + "/cohort/testing/images/test_001.tif", "--size", "64", "--json"]))
width, height = plan["width"], plan["height"]
make("clam", three.astype("i8"), dict(patch_size=64, patch_level=1, downsample=(2.0, 2.0), downsampled_level_dim=(width // 2, height // 2),
     level_dim=np.array([width // 2, height // 2]), name="test_001", save_path="x"))
make("wsinfer", three.astype("i8"), dict(patch_size=128, patch_level=0, patch_spacing_um_px=0.5), compression="gzip")
make("trident", three.astype("i8"), dict(patch_size=64, patch_size_level0=128, level0_magnification=40, target_magnification=20, overlap=0,
     name="test_001", savetodir="x", level0_width=width, level0_height=height))
make("unknown", three.astype("i8"), dict(patch_size=64, patch_size_level0=128, level0_magnification="None", level0_width="None", level0_height="None"))
make("atlaspatch", np.c_[three, np.full((3, 2), 64), np.full(3, 1)].astype("i4"), root=dict(patch_size=64, patch_size_level0=128))
make("stamp", (three * 0.25).astype("f4"), root=dict(unit="um", tile_size_um=32.0, tile_size_px=64))
make("twice", np.r_[three, three[:1]].astype("i8"), dict(patch_size=128, patch_level=0))
# Wrong ones.
make("outside", np.r_[three, [[width + 5, 0]]].astype("i8"), dict(patch_size=128, patch_level=0))
make("elsewhere", three.astype("i8"), dict(patch_size=64, patch_size_level0=128, level0_width=5000, level0_height=height))
make("large", three.astype("i8"), dict(patch_size=128, patch_level=1))
make("deep", three.astype("i8"), dict(patch_size=128, patch_level=9))
make("nan", np.array([[0, np.nan]]), root=dict(unit="um", tile_size_um=32.0))
make("three", np.zeros((4, 3)))
make("sideless", three.astype("i8"), dict(patch_size=0, patch_level=0))
make("none-wide", three.astype("i8"), dict(patch_size_level0=0))
make("endless", three.astype("f8"), root=dict(unit="um", tile_size_um=1e300))
make("truth", three > 0, dict(patch_size=128, patch_level=0))
with h5py.File(at + "/other/holes.h5", "w") as f:
    f.create_dataset("coords", shape=(200, 2), dtype="i8", chunks=(20, 2))[:20] = 1
with h5py.File(at + "/other/linked.h5", "w") as f:
    f["coords"] = h5py.ExternalLink("clam.h5", "coords")
for name, size in (("flat", "128,64"), ("point", "0,0")):
    open(f"{at}/other/{name}.csv", "w").write(f"minx,miny,width,height\n5,5,{size}\n")
with h5py.File(at + "/other/none.h5", "w") as f:
    f["features"] = np.zeros((2, 2))
whole = open(at + "/other/trident.h5", "rb").read()
open(at + "/other/cut.h5", "wb").write(whole[:len(whole) // 2])
open(at + "/want3", "w").write("".join(f"{x} {y}\n" for x, y in sorted(map(tuple, three))))
# Outlines: a square with a hole, and one elsewhere; by area.
square = lambda a, b: [[a, a], [b, a], [b, b], [a, b], [a, a]]
def outlines(name, geometry):
    json.dump({"type": "FeatureCollection", "features": [{"type": "Feature", "properties": {}, "geometry": g} for g in geometry]}, open(f"{at}/other/{name}.geojson", "w"))
outlines("tissue", [{"type": "Polygon", "coordinates": [square(256, 1024), square(512, 768)]}, {"type": "Point", "coordinates": [1, 1]}])
outlines("multi", [{"type": "MultiPolygon", "coordinates": [[square(0, 256)], [square(512, 640)]]}])
outlines("far", [{"type": "Polygon", "coordinates": [square(9e6, 9e6 + 50)]}])
outlines("vast", [{"type": "Polygon", "coordinates": [[[1.7e308, -1.7e308], [-1.7e308, 1.7e308], [1.7e308, 1.7e308]]]}])
outlines("empty", [])
open(at + "/other/bad.geojson", "w").write('{"type": "Polygon", "coordinates": [[[1, "a"]]]}')
END
sqlite() { sqlite3 "$1" "$2"; }
for form in clam wsinfer trident unknown atlaspatch stamp twice; do
    expect_code 0 "$flow" tile "$slide" --size 64 --coords "$scratch/other/$form.h5" --json
    $python - "$scratch/out" "$form" <<'END' || fail "$form is read wrongly"
import json, sys
plan, form = json.load(open(sys.argv[1])), sys.argv[2]
assert plan["patches"] == 3, plan
assert plan["tissue_method"].startswith("coords of "), plan["tissue_method"]
named = plan["tissue_method"].split()[-1]
assert named == {"unknown": "trident", "twice": "clam"}.get(form, form), named
assert (plan["warning"] is not None) == (form == "twice"), plan["warning"]
END
done
mkdir "$scratch/folder"
for i in 1 2 3; do cp "$scratch/other/clam.h5" "$scratch/folder/test_00$i.h5"; done
rm "$scratch/folder/test_003.h5"
$python - "$scratch" <<'END'
import h5py, sys # another slide's size
with h5py.File(sys.argv[1] + "/folder/test_002.h5", "a") as f:
    del f["coords"].attrs["level_dim"]
END
expect_code 3 "$flow" run "$scratch/w.yaml" --out "$scratch/folder-run" --set "tiler.coords=$scratch/folder"
cut -d, -f1,2 "$scratch/folder-run/results/fp32/model-outputs-csv/test_001.csv" | tail -n +2 | tr , ' ' | cmp - "$scratch/want3" || fail "other patches than CLAM's"
expect_text "failed: test_003: tiler.coords: '$scratch/folder' has no file of the slide 'test_003'"
# A changed file is tiled again.
cp "$scratch/other/clam.h5" "$scratch/folder/test_003.h5"
$python - "$scratch" <<'END'
import h5py, sys
with h5py.File(sys.argv[1] + "/folder/test_003.h5", "a") as f:
    del f["coords"].attrs["level_dim"]
END
expect_code 0 "$flow" run "$scratch/w.yaml" --out "$scratch/folder-run" --set "tiler.coords=$scratch/folder"

# Tissue: the patches whose area is inside, counted by hand: 6 x 6 less 2 x 2, and 2 x 2 and 1 of 128 px.
expect_code 0 "$flow" tile "$slide" --size 64 --min-tissue 0.99 --coords "$scratch/other/tissue.geojson" --json
grep -q '"patches": *32' "$scratch/out" || fail "the tissue with a hole has other patches"
expect_code 0 "$flow" tile "$slide" --size 64 --min-tissue 0.99 --coords "$scratch/other/multi.geojson" --json
grep -q '"patches": *5' "$scratch/out" || fail "the two squares have other patches"

# All is tissue; and any tissue at all is more than half a patch of it. A picture without a resolution: each command in its words.
expect_code 0 "$flow" tile "$slide" --size 64 --tissue none --json --thumbnail "$scratch/plain.png"
$python -c 'import json, sys; p = json.load(open(sys.argv[1])); assert p["patches"] == (p["width"] // 128) * (p["height"] // 128), p' "$scratch/out" ||
    fail "--tissue none leaves out patches"
expect_code 0 "$flow" tile "$slide" --size 64 --min-tissue 0 --json
$python -c 'import json, sys; assert json.load(open(sys.argv[1]))["patches"] > int(sys.argv[2])' "$scratch/out" \
    "$("$flow" tile "$slide" --size 64 --json | sed -n 's/.*"patches": *\([0-9]*\).*/\1/p')" || fail "--min-tissue 0 drops tissue"
expect_code 2 "$flow" tile "$scratch/plain.png" --size 64
grep -q 'does not say its resolution: give it in um/px as --slide-mpp' "$scratch/out" "$scratch/err" || fail "other words for a resolution"
expect_code 3 "$flow" infer "$scratch/plain.png" --model "$HRF_SOURCE_DIR/tests/golden/classifier.onnx" --size 64 --out "$scratch/plain"
grep -q 'does not say its resolution: give it in um/px as --slide-mpp' "$scratch/out" "$scratch/err" || fail "other words for a resolution"

# As QuPath writes it: a ring (32 patches), two squares of a derived class (6), one without a class with a child as
# version 0.2 had it, an ignored one, a cell.
outlines() { # patches, what is said, options...
    n_outlined=$1 said=$2
    shift 2
    expect_code 0 "$flow" tile "$slide" --size 64 --min-tissue 0.99 --coords "$HRF_SOURCE_DIR/tests/golden/tissue/qupath.geojson" --json "$@"
    grep -q "\"patches\": *$n_outlined," "$scratch/out" || fail "not $n_outlined patches: $*"
    expect_text "outlines that are not taken as tissue: $said\""
}
outlines 40 "1 Ignore*, 1 cell"
outlines 32 "1 Tumor: Positive, 1 Ignore*, 1 without a class, 1 Tumor: Negative, 1 cell" --tissue-class-name Tissue
outlines 7 "2 Tissue, 1 Ignore*, 1 without a class, 1 cell" --tissue-class-name Tumor
outlines 33 "1 Tumor: Positive, 1 without a class, 1 Tumor: Negative, 1 cell" --tissue-class-name 'Ignore*,Tissue'
expect_code 2 "$flow" tile "$slide" --coords "$HRF_SOURCE_DIR/tests/golden/tissue/qupath.geojson" --tissue-class-name stroma
expect_text "has no polygon of the classes of --tissue-class-name; there are: 2 Tissue, 1 Tumor: Positive, 1 Ignore*, 1 without a class, 1 Tumor: Negative, 1 cell"
mkdir "$scratch/outlines"
for i in 1 2 3; do cp "$HRF_SOURCE_DIR/tests/golden/tissue/qupath.geojson" "$scratch/outlines/test_00$i.geojson"; done
expect_code 0 "$flow" run "$scratch/w.yaml" --out "$scratch/outlined" --set "tiler.coords=$scratch/outlines" --set 'tiler.tissue.classes=[Tumor]'
expect_code 0 "$flow" why "$scratch/outlined" test_001
expect_text "outlines that are not taken as tissue: 2 Tissue, 1 Ignore*"

# Tissue by a network (sigmoid(20 R - 40 G + 20 B - 2) of each pixel): run, kept, and done again when its file is another.
cp "$HRF_SOURCE_DIR/tests/golden/tissue/purple.onnx" "$scratch/tissue.onnx"
network="--set tiler.tissue.method=onnx --set tiler.tissue.model=$scratch/tissue.onnx --set tiler.tissue.mpp=2 --set tiler.tissue.size=64
    --set tiler.tissue.mean=[0,0,0] --set tiler.tissue.std=[1,1,1]"
expect_code 0 "$flow" run "$scratch/w.yaml" --out "$scratch/network" $network
expect_code 0 "$flow" why "$scratch/network" test_001
expect_text "tile: done"
[ "$(places "$scratch/network" | wc -l)" -gt 30 ] || fail "the network finds too little tissue"
grep -q "onnx" "$scratch/network/report/report.json" && grep -q "$(sha256sum <"$scratch/tissue.onnx" | cut -d' ' -f1)" "$scratch/network/report/report.json" ||
    fail "the report does not name the network for tissue"
expect_code 0 "$flow" plan "$scratch/w.yaml" --out "$scratch/network" $network
expect_text "tile      3 tasks: 3 cached"
printf '2\004edit' >>"$scratch/tissue.onnx" # a documentation text: the same network, another file
expect_code 0 "$flow" plan "$scratch/w.yaml" --out "$scratch/network" $network
expect_text "tile      3 tasks: 3 changed"
expect_code 0 env HRF_CRASH_AT=tile.task.before_commit:2 "$flow" run "$scratch/w.yaml" --out "$scratch/network" $network
cp "$HRF_SOURCE_DIR/tests/golden/tissue/no_map.onnx" "$scratch/tissue.onnx"
expect_code 2 "$flow" check "$scratch/w.yaml" $network
expect_text "tiler.tissue.model '$scratch/tissue.onnx' does not fit what is asked: the model's output 'y' is 1x"

wrong() { expect_code 2 "$flow" tile "$slide" --size 64 --coords "$scratch/other/$1"; expect_text "$2"; }
wrong cut.h5 "is no HDF5 file, or it is cut short; copy it again"
wrong none.h5 "has no data set 'coords'"
wrong three.h5 "is 4 x 3; it must be N x 2"
wrong outside.h5 "patch 3 is at"
wrong elsewhere.h5 "is of a slide of 5000 x"
wrong large.h5 "has patches of 256 level-0 px, and tiler.patch, 64 px at 0.5 um/px, is 128 px of this slide: set --mpp to 1 for"
wrong deep.h5 "has patches of level 9, and the slide has levels 0 to"
wrong nan.h5 "patch 0 is at 0, nan"
wrong sideless.h5 "patches of 0 level-0 px a side"
wrong none-wide.h5 "patches of 0 level-0 px a side"
wrong endless.h5 "patches of 4e+300 level-0 px a side"
wrong truth.h5 "has no table of numbers 'coords'"
wrong holes.h5 "of the 10 blocks of 'coords' only 1 were written"
wrong linked.h5 "'coords' is a link into another file"
wrong flat.csv "flat.csv:2: a patch is 128 x 64 px; patches are squares of at least 1"
wrong point.csv "point.csv:2: a patch is 0 x 0 px"
wrong far.geojson "none of the 1 polygons of"
wrong vast.geojson "polygon 1 has a point at 1.7e+308, -1.7e+308, and no slide has more than 1e+09 px"
wrong empty.geojson "has no polygon"
wrong bad.geojson "a polygon has a point that is not two numbers"
wrong absent.h5 "does not exist"
echo "1 passed, 0 failed"
