#!/bin/sh
# The commands of README.md, docs/precision.md and docs/parallel.md are carried out as they stand, on small networks and
# images. (docs_commands carries out the first ten minutes; slurm_docs@cluster the pages on Slurm. The commands of
# docs/camelyon16.md are run by flow_forest and flow_evaluate, of heads.md by flow_head, of models.md by flow_embedding,
# of view.md by flow_view, of install.md by bundle and library; those of gpu.md need a GPU.)
. "$HRF_SOURCE_DIR/tests/cli/lib.sh"
command -v mpirun >/dev/null || { echo "mpirun is missing"; exit 77; }
make_cohort
make_workflow "$scratch/FILE.yaml"
cp "$scratch/FILE.yaml" "$scratch/mine.yaml"
sed -i '$a precision: [fp32, int8]' "$scratch/FILE.yaml"
export XDG_CACHE_HOME="$scratch/cache"
cd "$scratch"
ln -s "$HRF_SOURCE_DIR/machines" machines
for name in mine.onnx MODEL.onnx; do ln -s "$HRF_SOURCE_DIR/models/demo.onnx" $name; done
ln -s cohort/testing/images slides
/usr/bin/python3 -c 'import numpy; x = numpy.random.default_rng(1).normal(size=(8, 3, 64, 64)).astype("f4"); numpy.save("x.npy", x); numpy.save("X.npy", x)'
for p in fp32 int8; do expect_code 3 "$flow" run mine.yaml --out runs/$p --set "precision=[$p]"; done
PATH=$HRF_BIN_DIR:$PATH
/usr/bin/python3 "$HRF_SOURCE_DIR/tests/cli/docs_pages.py" "$HRF_SOURCE_DIR" "$scratch" README.md docs/precision.md docs/parallel.md ||
    fail "a command of the pages"
