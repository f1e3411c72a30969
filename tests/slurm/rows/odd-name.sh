# fault: a slide's name is a piece of shell
# how: a slide named a";$(touch pwned) \\n.svs
# on: cluster, fake
# promise: it is a name, and nothing else
. "$HRF_SOURCE_DIR/tests/slurm/lib.sh"
mkdir "$scratch/odd"
cp "$cohort/cohort/testing/images/test_001.tif" "$scratch/odd/a\";\$(touch pwned) \\n.svs"
cat >"$scratch/odd.yaml" <<END
version: 1
name: odd
dataset: {layout: files, files: ["$scratch/odd/*.svs"]}
tiler: {patch: {size: 64, mpp: 0.5}, tissue: {min_patches: 4}}
model: {file: $HRF_SOURCE_DIR/tests/golden/classifier.onnx}
engine: {batch: 8}
executor: {slurm: {time: "00:05:00", mem_per_node: 800M}}
END
cd "$scratch"
expect_code 0 "$flow" run "$scratch/odd.yaml" --out "$run" --executor slurm
expect_text "1 slides: 1 done"
[ -z "$(find "$scratch" / -maxdepth 1 -name pwned)" ] && [ -z "$(find "$scratch" -name pwned)" ] ||
    tell "a name reached a shell"
cut -d, -f2- "$run"/results/fp32/model-outputs-csv/*.csv | cmp - <(cut -d, -f2- "$cohort/clean/results/fp32/model-outputs-csv/test_001.csv") ||
    tell "other scores than under its own name"
