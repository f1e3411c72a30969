#!/bin/sh
# Every command of README.md and docs/*.md is carried out as it stands, on small networks and images, each page from a
# folder that holds only what the page says is there; or the page says what it needs. (docs_commands carries out the
# first ten minutes; slurm_docs@cluster the pages on Slurm.)
. "$HRF_SOURCE_DIR/tests/cli/lib.sh"
command -v mpirun >/dev/null || { echo "mpirun is missing"; exit 77; }
python=/usr/bin/python3
$python -c 'import h5py, numpy' 2>/dev/null || { echo "$python has no h5py or numpy"; exit 77; }
make_cohort
make_workflow "$scratch/mine.yaml"
mkdir "$scratch/given" "$scratch/home"
cd "$scratch/given"
sed '$a precision: [fp32, int8]' ../mine.yaml >FILE.yaml
mv ../mine.yaml mine.yaml
ln -s "$HRF_SOURCE_DIR/machines" machines
ln -s "$HRF_SOURCE_DIR/tools" tools
for name in mine model encoder MODEL; do ln -s "$HRF_SOURCE_DIR/models/demo.onnx" $name.onnx; done
mkdir slides new features
cp ../cohort/testing/images/test_00[14].tif slides
cat >head.yaml <<END
version: 1
features: {folder: features}
labels: {csv: labels.csv, classes: [normal, tumor]}
head: {kind: clam_sb}
split: {by: folds, folds: 3}
train: {seeds: [1], epochs: 1}
out: heads
END
$python - <<'END'
import h5py, numpy
random = numpy.random.default_rng(1)
for name in "x", "X":
    numpy.save(name + ".npy", random.normal(size=(8, 3, 64, 64)).astype("f4"))
numpy.save("classes.npy", (numpy.arange(8) % 2).astype("f4"))
with open("labels.csv", "w") as labels:
    labels.write("slide,label,patient\n")
    for i in range(14):
        with h5py.File(("features" if i < 12 else "new") + f"/s{i}.h5", "w") as f:
            f["features"] = random.normal(size=(12, 8)).astype("f4") + i % 2
            f["coords"] = numpy.arange(24).reshape(12, 2)
        labels.write(f"s{i},{['normal', 'tumor'][i % 2]},p{i}\n" if i < 12 else "")
END
for p in fp32 int8; do expect_code 3 "$flow" run mine.yaml --out runs/$p --set "precision=[$p]"; done
# Patches as the other programs lay them down.
for folder in results out/20x_256px_0px_overlap CLAM_DIR; do mkdir -p $folder/patches; done
sed 's/^\([^,]*,[^,]*\),.*/\1,128,128/; 1s/.*/minx,miny,width,height/' runs/fp32/results/fp32/model-outputs-csv/test_001.csv >results/patches/test_001.csv
for folder in out/20x_256px_0px_overlap CLAM_DIR; do cp results/patches/* $folder/patches; done
PATH=$HRF_BIN_DIR:$PATH HOME=$scratch/home $python "$HRF_SOURCE_DIR/tests/cli/docs_pages.py" "$HRF_SOURCE_DIR" "$scratch/given" "$scratch" ||
    fail "a command of the pages"
