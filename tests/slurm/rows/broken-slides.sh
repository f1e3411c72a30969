# fault: broken slides
# how: one of no bytes, one of noise, one cut short, one with a byte flipped every 2 kB from its middle on, beside good ones
# on: cluster, local
# promise: each broken one is named with its reason, the good ones are as without them
. "$HRF_SOURCE_DIR/tests/slurm/lib.sh"
mkdir "$scratch/slides"
good=$cohort/cohort/testing/images
cp "$good/test_001.tif" "$good/test_002.tif" "$scratch/slides"
: >"$scratch/slides/empty.tif"
head -c 100000 /dev/urandom >"$scratch/slides/noise.tif"
head -c 60000 "$good/test_001.tif" >"$scratch/slides/short.tif"
python3 - "$good/test_003.tif" "$scratch/slides/flipped.tif" <<'END'
import sys
data = bytearray(open(sys.argv[1], "rb").read())
for at in range(len(data) // 2, len(data) - 4096, 2048):
    data[at] ^= 0x5a
open(sys.argv[2], "wb").write(data)
END
sed "s|^dataset:.*|dataset: {layout: files, files: [\"$scratch/slides/*.tif\"]}|" "$cohort/w.yaml" >"$scratch/w.yaml"
cohort_file=$scratch/w.yaml
expect_code 3 "$flow" run "$scratch/w.yaml" --out "$run" --executor "$executor"
for slide in empty noise short; do
    grep -qE "$slide( failed)?: (slide )?'.*$slide.tif' .{10}" "$scratch/err" || { cat "$scratch/err"; tell "$slide is not named with a reason"; }
done
for slide in test_001 test_002; do
    cmp "$run/results/fp32/model-outputs-csv/$slide.csv" "$cohort/clean/results/fp32/model-outputs-csv/$slide.csv" ||
        tell "$slide has other scores beside broken ones"
done
