#!/bin/sh
# Real slides and bad files together: the readable are scored, each bad one is named, none is lost.
# A slide with one damaged tile, made where there is no real one, fails by place or is read around.
. "$HRF_SOURCE_DIR/tests/cli/lib.sh"
python=/usr/bin/python3 # Debian's, which has python3-openslide
"$python" -c 'import openslide, PIL' 2>/dev/null || { echo "python3-openslide or PIL is missing"; exit 77; }
cat >"$scratch/w.yaml" <<END
version: 1
name: real
dataset: {layout: csv, csv: slides.csv}
tiler: {patch: {size: 128, mpp: 0.5}}
model: {file: $HRF_SOURCE_DIR/tests/golden/classifier.onnx}
END

check_real_slides() {
    {
        echo slide,label,mpp
        for file in "$HRF_SHARED_DATA"/slides/*.svs "$HRF_SHARED_DATA"/slides/*.tif*; do
            case $file in *tcga*) echo "$file,,0.25" ;; *) echo "$file,," ;; esac
        done
    } >"$scratch/slides.csv"
    expect_code 3 "$flow" run "$scratch/w.yaml" --out "$scratch/run"
    cat "$scratch/out"
    for name in cmu-1-small-region tcga-cr-7395-01a-01-ts1; do
        [ "$(wc -l <"$scratch/run/results/fp32/model-outputs-csv/$name.csv")" -gt 10 ] || fail "$name is not scored"
    done
    for name in broken unopenable unreadable kidney-48-5; do expect_text "failed: $name:"; done
    n=$(($(wc -l <"$scratch/slides.csv") - 1))
    expect_text "$n slides:"
    left=$(sqlite3 "$scratch/run/run.db" "SELECT count(*) FROM slide WHERE state NOT IN (1, 2, 3, 4)")
    [ "$left" = 0 ] || fail "$left slides have no end"
}

# Destroys the beginning of a tile of a slide's level and prints "FIRST LAST SIDE", its bytes in the
# file and its side in px.
damage() { # slide level column row
    "$python" - "$@" <<'END'
import sys
from PIL import Image
path, level, column, row = sys.argv[1], *map(int, sys.argv[2:])
Image.MAX_IMAGE_PIXELS = None
with Image.open(path) as image:
    image.seek(level)
    side, width = image.tag_v2[322], image.tag_v2[256]
    index = row * -(-width // side) + column
    first, length = image.tag_v2[324][index], image.tag_v2[325][index]
with open(path, "r+b") as f:
    f.seek(first)
    f.write(bytes(2000))
print(first, first + length - 1, side)
END
}

# A tile that does not decode fails its slide by place, or is white, and the patches on it are listed.
check_bad_tile() { # slide level column row runs
    damaged=$1 runs=$scratch/$5 place="level $2, tile $3, $4"
    bytes=$(damage "$1" "$2" "$3" "$4")
    set -- "$2" "$3" "$4" $bytes
    place="$place (bytes $4 to $5 of the file)"
    sed -i "s|^dataset:.*|dataset: {layout: files, files: [$damaged]}|" "$scratch/w.yaml"
    expect_code 3 "$flow" run "$scratch/w.yaml" --out "$runs-failed"
    expect_text "$place"
    expect_code 0 "$flow" run "$scratch/w.yaml" --out "$runs" --set tiler.on_bad_tile=white
    "$python" "$HRF_SOURCE_DIR/tests/cli/bad_patches.py" "$damaged" "$1" "$2" "$3" "$6" "$runs" || fail "OpenSlide finds other patches"
    n=$(grep -c '^bad,[0-9]*,[0-9]*,[0-9]*,[0-9]*,bad-tile,yes$' "$runs/results/patch-quality.csv")
    grep -q "done,$n of [0-9]* patches are white where a tile does not decode," "$runs/results/labels.csv" || fail "labels.csv is silent"
    expect_code 0 "$flow" why "$runs" bad
    expect_text "$place"
    grep -q "$n of [0-9]* patches lie on it" "$runs/report/index.html" || fail "the page is silent"
    expect_code 0 "$flow" report "$runs" --json
    expect_text "\"white\":$n"
}

# Patches that are not fit to be scored are left out, counted, listed and drawn.
check_blur() { # slide runs threshold
    expect_code 0 "$flow" run "$scratch/w.yaml" --out "$scratch/$2" --set tiler.on_bad_tile=white --set "tiler.quality.blur=$3"
    left=$(grep -c '^bad,[0-9]*,[0-9]*,[0-9]*,[0-9]*,blur,no$' "$scratch/$2/results/patch-quality.csv")
    [ "$left" -ge 5 ] || fail "$left patches are too blurred"
    expect_code 0 "$flow" why "$scratch/$2" bad
    expect_text "patches of tissue are left out: $left blur"
    expect_code 0 "$flow" tile "$1" --size 128 --on-bad-tile white --blur "$3" --kept "$scratch/kept.png"
    [ -s "$scratch/kept.png" ] || fail "no picture of what is kept"
}

# Patches of 0.5 um are read from the second level of this slide.
"$HRF_BIN_DIR/../tests/make_mosaic" synthetic "$scratch/mosaics" 1
mkdir "$scratch/made" "$scratch/real"
mv "$scratch/mosaics/testing/images/test_001.tif" "$scratch/made/bad.tif"
check_bad_tile "$scratch/made/bad.tif" 1 3 3 made-run
if [ ! -d "$HRF_SHARED_DATA/slides" ]; then
    echo "skipped: real slides, for there is no $HRF_SHARED_DATA/slides (CONTRIBUTING.md, Real data)"
    echo "1 passed, 0 failed"
    exit 0
fi
cp "$HRF_SHARED_DATA/slides/cmu-1-small-region.svs" "$scratch/real/bad.svs"
chmod u+w "$scratch/real/bad.svs"
check_bad_tile "$scratch/real/bad.svs" 0 4 4 real-run
[ "$n" = 9 ] || fail "$n white patches of the real slide, not 9"
check_blur "$scratch/real/bad.svs" real-run 0.35
sed -i "s|^dataset:.*|dataset: {layout: csv, csv: slides.csv}|" "$scratch/w.yaml"
check_real_slides
echo "1 passed, 0 failed"
