#!/bin/sh
# Real slides and bad files together: the readable are scored, each bad one is named, none is lost.
. "$HRF_SOURCE_DIR/tests/cli/lib.sh"
[ -d "$HRF_SHARED_DATA/slides" ] || { echo "no real slides in $HRF_SHARED_DATA"; exit 77; }
{
    echo slide,label,mpp
    for file in "$HRF_SHARED_DATA"/slides/*.svs "$HRF_SHARED_DATA"/slides/*.tif*; do
        case $file in *tcga*) echo "$file,,0.25" ;; *) echo "$file,," ;; esac
    done
} >"$scratch/slides.csv"
cat >"$scratch/w.yaml" <<END
version: 1
name: real
dataset: {layout: csv, csv: slides.csv}
tiler: {patch: {size: 128, mpp: 0.5}}
model: {file: $HRF_SOURCE_DIR/models/demo.onnx}
END
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
# A tile that does not decode fails its slide by place, or is white, and the patches on it are listed.
cp "$HRF_SHARED_DATA/slides/cmu-1-small-region.svs" "$scratch/bad.svs"
chmod u+w "$scratch/bad.svs"
dd if=/dev/zero of="$scratch/bad.svs" bs=1 seek=297050 count=2000 conv=notrunc 2>/dev/null
sed -i "s|^dataset:.*|dataset: {layout: files, files: [bad.svs]}|" "$scratch/w.yaml"
expect_code 3 "$flow" run "$scratch/w.yaml" --out "$scratch/failed"
expect_text "level 0, tile 4, 4 (bytes 297050 to 323976 of the file)"
expect_code 0 "$flow" run "$scratch/w.yaml" --out "$scratch/white" --set tiler.on_bad_tile=white
[ "$(grep -c '^bad,[0-9]*,[0-9]*,128,128,bad-tile,yes$' "$scratch/white/results/patch-quality.csv")" = 9 ] || fail "not 9 white patches"
grep -q 'done,9 of [0-9]* patches are white where a tile does not decode,' "$scratch/white/results/labels.csv" || fail "labels.csv is silent"
expect_code 0 "$flow" why "$scratch/white" bad
expect_text "level 0, tile 4, 4 (bytes 297050 to 323976 of the file)"
grep -q '9 of [0-9]* patches lie on it' "$scratch/white/report/index.html" || fail "the page is silent"
expect_code 0 "$flow" report "$scratch/white" --json
expect_text '"white":9'
# Patches that are not fit to be scored are left out, counted, listed and drawn.
expect_code 0 "$flow" run "$scratch/w.yaml" --out "$scratch/white" --set tiler.on_bad_tile=white --set tiler.quality.blur=0.35
left=$(grep -c '^bad,[0-9]*,[0-9]*,128,128,blur,no$' "$scratch/white/results/patch-quality.csv")
[ "$left" -ge 5 ] || fail "$left patches are too blurred"
expect_code 0 "$flow" why "$scratch/white" bad
expect_text "patches of tissue are left out: $left blur"
expect_code 0 "$flow" tile "$scratch/bad.svs" --size 128 --on-bad-tile white --blur 0.35 --kept "$scratch/kept.png"
[ -s "$scratch/kept.png" ] || fail "no picture of what is kept"
echo "1 passed, 0 failed"
