#!/bin/sh
# model.output: embedding. The features of every form as h5py reads them for the tool that gives the
# form its name, against an ordinary run of the same model; a job that is killed; bad requests.
. "$HRF_SOURCE_DIR/tests/cli/lib.sh"
python=/usr/bin/python3 # Debian's, which has python3-h5py
"$python" -c 'import h5py' 2>/dev/null || { echo "python3-h5py is missing"; exit 77; }
make_cohort
make_workflow "$scratch/w.yaml"
embed() { # wanted exit code, run, further options...
    code_wanted=$1 to=$scratch/$2
    shift 2
    expect_code "$code_wanted" "$flow" run "$scratch/w.yaml" --out "$to" --set model.output=embedding "$@"
}
# The model of make_workflow() ends in Softmax: its embedding is what an ordinary run calls probabilities.
expect_code 3 "$flow" run "$scratch/w.yaml" --out "$scratch/scored"
# HDF5 is loaded when it is needed: without it nothing is begun, and a run of scores does not miss it.
mkdir "$scratch/none"
expect_code 4 env HRF_MODULE_DIR="$scratch/none" "$flow" run "$scratch/w.yaml" --out "$scratch/without" --set model.output=embedding
expect_text "HDF5 files can be neither read nor written: install HDF5's library"
[ ! -e "$scratch/without" ] || fail "something is written without HDF5"
expect_code 0 env HRF_MODULE_DIR="$scratch/none" "$flow" doctor --dir "$scratch"
expect_text "!    hdf5 "
! ldd "$flow" "$engine" | grep -q libhdf5 || fail "HDF5 is loaded before it is needed"
embed 3 trident --set 'precision=[fp32,int8]'
expect_text "fp32: 77 patches, embeddings of 2 numbers"
expect_text "int8: 77 patches, embeddings of 2 numbers, cosine to the first precision's "
"$flow" check "$scratch/w.yaml" --set model.output=embedding >"$scratch/out" 2>&1 || fail "check"
for form in clam stamp atlaspatch npy; do
    embed 3 trident --set 'precision=[fp32,int8]' --set features.form=$form # nothing is scored again
    cp -r "$scratch/trident/results" "$scratch/$form"
done
embed 3 trident --set 'precision=[fp32,int8]' --set features.type=fp16
cp -r "$scratch/trident/results" "$scratch/half"
embed 3 trident --set 'precision=[fp32,int8]'
"$python" - "$scratch" <<'END' || fail "the features are not those of the run"
import csv, glob, h5py, json, numpy, os, sys
top = sys.argv[1]
def table(run, slide):
    return list(csv.DictReader(open(f"{run}/model-outputs-csv/{slide}.csv")))
slides = [os.path.basename(f)[:-3] for f in sorted(glob.glob(top + "/trident/results/fp32/features/*.h5"))]
assert len(slides) == 3, slides
for slide in slides:
    scored = table(top + "/scored/results/fp32", slide)
    at = numpy.array([[int(r["minx"]), int(r["miny"])] for r in scored])
    want = numpy.array([[r["prob_normal"], r["prob_tumor"]] for r in scored], dtype=numpy.float32)
    assert [list(r) for r in table(top + "/trident/results/fp32", slide)][0] == ["minx", "miny", "width", "height"]
    size = int(scored[0]["width"])
    with h5py.File(f"{top}/trident/results/fp32/features/{slide}.h5") as f: # as TRIDENT does
        assert f["features"].dtype == numpy.float32 and (f["features"][:] == want).all()
        assert f["coords"].dtype == numpy.int64 and (f["coords"][:] == at).all()
        a = f["coords"].attrs
        assert a["patch_size"] == 64 and a["patch_size_level0"] == size and a["overlap"] == 0
        assert a["level0_magnification"] == 40 and a["target_magnification"] == 20
        assert a["name"] == slide and f["features"].attrs["encoder"] == "classifier"
        assert f["features"].attrs["precision"] == "fp32"
        assert a["level0_width"] > 0 and a["level0_height"] > 0
    with h5py.File(f"{top}/half/fp32/features/{slide}.h5") as f:
        assert f["features"].dtype == numpy.float16 and (f["features"][:] == want.astype(numpy.float16)).all()
    with h5py.File(f"{top}/clam/fp32/features/{slide}.h5") as f:
        assert f["features"].dtype == numpy.float32 and (f["features"][:] == want).all()
        assert f["coords"].dtype == numpy.int32 and (f["coords"][:] == at).all()
    with h5py.File(f"{top}/stamp/fp32/features/{slide}.h5") as f:
        assert f["feats"].dtype == numpy.float16 and (f["feats"][:] == want.astype(numpy.float16)).all()
        assert f["coords"].dtype == numpy.float32 and numpy.allclose(f["coords"][:], at * 0.25, rtol=1e-2)
        assert f.attrs["unit"] == "um" and f.attrs["tile_size_px"] == 64 and f.attrs["tile_size_um"] == 32
        assert f.attrs["extractor"] == "classifier" and f.attrs["feat_type"] == "tile" and f.attrs["stamp_version"]
    with h5py.File(f"{top}/atlaspatch/fp32/features/{slide}.h5") as f:
        assert (f["features/classifier"][:] == want).all() and f["features/classifier"].dtype == numpy.float32
        assert f["coords"].dtype == numpy.int32 and (f["coords"][:, :2] == at).all()
        assert (f["coords"][:, 2:] == [size, size, 0]).all() and f.attrs["patch_size"] == 64
    assert (numpy.load(f"{top}/npy/fp32/features/{slide}.npy") == want).all()
assert not glob.glob(top + "/npy/fp32/features/*.h5") and not glob.glob(top + "/trident/results/fp32/features/*.npy")
rows = list(csv.DictReader(open(top + "/trident/results/labels.csv")))
assert all(r["label"] == r["score"] == "" for r in rows) and sum(r["state"] == "done" for r in rows) == 6
report = json.load(open(top + "/trident/report/report.json"))
fp32, int8 = report["precisions"]
assert fp32["embedding"]["width"] == 2 and fp32["embedding"]["cosine_least"] == 1 and fp32["slide_auc"] is None
pairs = [(numpy.asarray(h5py.File(f"{top}/trident/results/{p}/features/{s}.h5")["features"], dtype=float))
         for p in ("fp32", "int8") for s in slides]
a, b = numpy.concatenate(pairs[:3]), numpy.concatenate(pairs[3:])
cosine = (a * b).sum(1) / numpy.sqrt((a * a).sum(1) * (b * b).sum(1))
assert abs(int8["embedding"]["cosine_mean"] - cosine.mean()) < 1e-6, (int8["embedding"], cosine.mean())
assert abs(int8["embedding"]["cosine_least"] - cosine.min()) < 1e-6
def nearest(rows): # of each the 10 nearest others, of equal ones the first
    rows = rows / numpy.sqrt((rows * rows).sum(1, keepdims=True))
    c = rows @ rows.T
    numpy.fill_diagonal(c, -2)
    return numpy.argsort(-c, axis=1, kind="stable")[:, :10]
kept = [len(set(a) & set(b)) for x, y in zip(pairs[:3], pairs[3:]) if len(x) > 10 for a, b in zip(nearest(x), nearest(y))]
assert int8["embedding"]["neighbours_patches"] == len(kept) > 0 and fp32["embedding"]["neighbours_kept"] is None
assert abs(int8["embedding"]["neighbours_kept"] - numpy.mean(kept) / 10) < 0.05, (int8["embedding"], numpy.mean(kept) / 10)
END

# A worker that dies is tried again, and the report that dies is made again: the same bytes.
expect_code 3 env HRF_CRASH_AT=engine.batch HRF_CRASH_SIGNAL=SEGV "$flow" run "$scratch/w.yaml" --out "$scratch/killed" --set model.output=embedding
expect_text "0 done, 4 failed"
expect_code 137 env HRF_CRASH_AT=report.slide "$flow" run "$scratch/w.yaml" --out "$scratch/killed" --set model.output=embedding
embed 3 killed
diff -r "$scratch/trident/results/fp32" "$scratch/killed/results/fp32" || fail "after a crash"

# Inside a task: every start of the engine dies at its fourth batch and leaves three for the next one.
words="--set executor.patches_per_job=1000 --set executor.max_jobs=1 --set engine.batch=3"
embed 3 whole $words
embeddings() { (cd "$1/embeddings" && sha256sum ./*); }
events() { sqlite3 "$1/run.db" "SELECT count(*) FROM event WHERE subject='task'"; }
is_whole() { # run, what was done to it
    diff -r "$scratch/whole/results" "$1/results" >/dev/null || fail "$2: other bytes"
    [ "$(embeddings "$scratch/whole")" = "$(embeddings "$1")" ] || fail "$2: other embeddings"
    [ -z "$(find "$1/jobs" "$1/parts" -name '*.emb' -o -name '*.rows' 2>/dev/null)" ] || fail "$2: files of embeddings are left behind"
}
HRF_PART_MS=0 HRF_CRASH_AT=engine.batch:4 embed 3 cut $words
is_whole "$scratch/cut" "every fourth batch"
starts=$(ls -d "$scratch"/cut/jobs/infer-* | wc -l)
[ "$starts" -ge 6 ] && [ "$starts" -le 16 ] || fail "$starts starts for 77 patches, 9 each"
n=$(events "$scratch/whole")
# At every point of the way of a file of embeddings. Where a driver is to die with a part, the worker
# has to die before it.
printf '#!/bin/sh\nHRF_CRASH_AT=engine.batch:4 exec "%s" "$@"\n' "$engine" >"$scratch/dies"
chmod +x "$scratch/dies"
for point in engine.part.rows:2 engine.embeddings.complete run.embeddings.before_rename run.embeddings.after_rename:2 run.part.rows; do
    rm -rf "$scratch/killed"
    case $point in run.part.*) program=$scratch/dies ;; *) program=$engine ;; esac
    HRF_ENGINE=$program HRF_RETRY_MS=0 HRF_PART_MS=0 HRF_CRASH_SIGNAL=SEGV HRF_CRASH_AT=$point "$flow" run "$scratch/w.yaml" --out "$scratch/killed" --set model.output=embedding $words >/dev/null 2>&1 || true
    # Rows of a part that are harmed are computed again.
    for rows in "$scratch"/killed/parts/*.rows; do [ ! -e "$rows" ] || printf xxxxxxxx | dd of="$rows" bs=1 seek=40 conv=notrunc status=none; done
    embed 3 killed $words
    is_whole "$scratch/killed" "$point"
    [ "$(events "$scratch/killed")" = "$n" ] || fail "$point: $(events "$scratch/killed") results recorded, not $n"
done
[ -n "${rows%%*\**}" ] || fail "run.part.rows: no rows are kept"
# Cut, lost: those tasks are done again, no others. Other bytes are found when they are read.
set -- "$scratch"/killed/embeddings/*
truncate -s -4 "$1"
rm "$2"
embed 3 killed $words
is_whole "$scratch/killed" "cut and lost"
[ "$(events "$scratch/killed")" = $((n + 2)) ] || fail "not only the lost ones are done again"
printf x | dd of="$3" bs=1 seek=5 conv=notrunc status=none
embed 3 killed $words
expect_text "has other bytes than its record names; 'hires-flow run' computes it again"
embed 3 killed $words
is_whole "$scratch/killed" "harmed"
# Two runs of embeddings: the figures of one run of both precisions; another stride: what both have.
expect_code 0 "$flow" compare "$scratch/trident" "$scratch/trident" --json --out "$scratch/compared"
cp "$scratch/out" "$scratch/compare.json"
embed 3 wide --set tiler.patch.stride=128
expect_code 0 "$flow" compare "$scratch/trident" "$scratch/wide"
expect_text "neighbours: share of its 10 nearest patches of the slide that stay so"
expect_code 0 "$flow" compare "$scratch/trident" "$scratch/wide" --json
"$python" - "$scratch" "$scratch/out" <<'END2' || fail "embeddings of two runs"
import json, sys
top = sys.argv[1]
report, same = (json.load(open(f"{top}/{f}"))["precisions"] for f in ("trident/report/report.json", "compare.json"))
assert [p["precision"] for p in same] == ["A:fp32", "A:int8", "B:fp32", "B:int8"]
for p, q in zip(same[1::2] + same[:1], [report[1]] * 2 + report[:1]):
    for key in ("cosine_mean", "cosine_least", "neighbours_kept", "patches_compared"):
        assert p["embedding"][key] == q["embedding"][key], (key, p["embedding"], q["embedding"])
assert same[2]["embedding"]["cosine_least"] > 0.999999 and same[2]["embedding"]["neighbours_kept"] == 1
wide = json.load(open(sys.argv[2]))
n = wide["precisions"][2]["embedding"]["patches_compared"]
assert 0 < n == wide["patches"] < 77 and wide["precisions"][2]["embedding"]["cosine_least"] > 0.999999, wide
END2
grep -q "Embeddings" "$scratch/compared/index.html" || fail "no embeddings on the page"
expect_code 2 "$flow" compare "$scratch/scored" "$scratch/trident"
expect_text "B gives embeddings of patches and A scores (model.output): compare runs of one kind"

# The same patches with other stains, beside the precisions: as numpy computes it, also after a kill.
words="--set tiler.patch.mpp=0.25 --set tiler.patch.stride=160 --set executor.patches_per_job=1000 --set study.stain_jitter=0.05 --set study.seed=3"
HRF_PART_MS=0 HRF_CRASH_AT=engine.batch:4 embed 3 jittered $words
expect_text "jitter: "
expect_code 3 "$flow" run "$scratch/w.yaml" --out "$scratch/restained" $words
"$python" "$HRF_SOURCE_DIR/tests/cli/jitter.py" "$scratch/jittered" "$scratch/restained" "$scratch/cohort/testing/images" "$HRF_SOURCE_DIR/tests/golden/classifier.onnx" "$engine" 0.05 3 || fail "the jitter"
expect_code 2 "$flow" check "$scratch/w.yaml" --set study.stain_jitter=0.05 --set tiler.mode=slide
expect_text "'stain_jitter' scores patches once more"
# Bad requests, each a sentence.
expect_code 2 "$flow" check "$scratch/w.yaml" --set model.output=embedding --set tiler.mode=slide
expect_text "'embedding' describes patches"
expect_code 2 "$flow" check "$scratch/w.yaml" --set model.output=embedding --set features.form=clam --set features.type=fp16
expect_text "CLAM and AtlasPatch read fp32"
"$engine" model make unet:2,4 --size 64 --output "$scratch/unet.onnx" >/dev/null 2>&1
expect_code 2 "$flow" check "$scratch/w.yaml" --set model.output=embedding --set model.file="$scratch/unet.onnx"
expect_text "where an embedding is one vector"

# A file that fixes two images of 64 px runs in its batch, at its size; the result is that of an open one.
fixed=$HRF_SOURCE_DIR/tests/golden/onnx/fixed
expect_code 0 "$engine" bench --model "$fixed/two_images.onnx" --runs 1 --json
expect_text '"size":64' && expect_text '"batch":2'
for kind in two_images any_images; do
    size=; [ $kind = two_images ] || size="--size 64"
    expect_code 0 "$flow" infer "$scratch/cohort/testing/images/test_001.tif" --model "$fixed/$kind.onnx" $size --batch 7 --out "$scratch/$kind"
done
csv=results/fp32/model-outputs-csv/test_001.csv
[ $(($(wc -l <"$scratch/two_images/$csv") % 2)) = 0 ] || fail "the last batch is whole"
cmp "$scratch/two_images/$csv" "$scratch/any_images/$csv" || fail "the file's batch changes scores"

# An encoder out of weights that the user has: its file says size, mean and std, and a run uses them.
weights=$HRF_SOURCE_DIR/tests/golden/encoder/swiglu_registers.safetensors
expect_code 0 "$flow" model make vit --weights "$weights" --heads 3 --size 56 -o "$scratch/vit.onnx"
sed 's/"mean":\[0.48/"mean":[0.70/' "$scratch/vit.onnx" >"$scratch/encoder.onnx"
expect_code 2 "$flow" model make h-optimus-0 --weights "$weights" --heads 3 -o "$scratch/x.onnx"
expect_text "where h-optimus-0 has 1536, 40, 24, 14 and 4"
expect_code 0 "$flow" model input "$scratch/encoder.onnx"
expect_text '"mean":[0.70'
expect_code 2 "$flow" bench engine --model "$scratch/encoder.onnx" --size 64
expect_text "cannot take images of 64x64 px: give 56 as the size"
expect_code 2 "$flow" infer "$scratch/cohort/testing/images" --model "$scratch/encoder.onnx" --set model.input.size=64 --out "$scratch/x"
expect_text "use --set model.input.size=56"
expect_code 0 "$flow" bench engine --model "$scratch/encoder.onnx" --size 56 --batch 1 --runs 1 --layers
! grep -q "convolutions alone" "$scratch/out" || fail "a transformer is held against its one convolution"
expect_code 0 "$flow" bench engine --model resnet18 --size 64 --batch 1 --runs 1 --layers
expect_text "% of the speed of its convolutions alone"
sed "s|size: 64, mpp: 0.5|mpp: 0.5|; s|$HRF_SOURCE_DIR/tests/golden/classifier.onnx|$scratch/encoder.onnx|" "$scratch/w.yaml" >"$scratch/e.yaml"
expect_code 3 "$flow" run "$scratch/e.yaml" --out "$scratch/encoded" --set model.output=embedding --set 'precision=[fp32,int8]'
expect_text "embeddings of 24 numbers"
expect_code 0 grep -c 'mean: \[0.70\|size: 56\|stride: 56' "$scratch/encoded/workflow.yaml"
[ "$(cat "$scratch/out")" = 3 ] || fail "the run does not use what the model's metadata say: $(cat "$scratch/encoded/workflow.yaml")"
"$python" - "$scratch/encoded/report/report.json" <<'END2' || fail "the encoder's INT8"
import json, sys
int8 = json.load(open(sys.argv[1]))["precisions"][1]
assert int8["embedding"]["width"] == 24 and int8["embedding"]["cosine_mean"] > 0.995, int8["embedding"]
END2
expect_code 0 "$flow" check "$scratch/e.yaml" --set model.output=embedding --set 'model.input.mean=[0.5,0.5,0.5]'
expect_text 'was trained with mean [0.70'

# Patches of another size are resized as the file asks, and the run says so.
small="--set model.output=embedding --set tiler.patch.size=64 --set dataset.exclude=[test_003,test_004]"
expect_code 0 "$flow" plan "$scratch/e.yaml" $small
expect_text "          patches of 64 px, resized to 56 (bicubic)"
resized() { # run, wanted line, further options...
    to=$scratch/$1 line=$2
    shift 2
    expect_code 0 "$flow" run "$scratch/e.yaml" --out "$to" $small "$@"
    grep -q "$line" "$to/report/index.html" || fail "the page does not say: $line"
}
resized bicubic "patches of 64 px, resized to 56 (bicubic)"
expect_text "patches of 64 px, resized to 56 (bicubic), as $scratch/encoder.onnx asks"
resized nearest "patches of 64 px, resized to 60 (nearest), of which the middle 56 are used" --set model.input.interpolation=nearest --set model.input.resize=60
expect_text "the middle 56 are used, as model.input asks"
resized cropped "patches of 64 px, of which the middle 56 are used" --set model.input.resize=64
resized split "patches of 64 px, resized to 56 (bicubic)" --set engine.parallel.spatial=2
"$python" - "$scratch" <<'END2' || fail "the features of resized patches"
import glob, h5py, numpy, sys
top = sys.argv[1]
runs = {}
for run, said in ("bicubic", "resize:56,bicubic,crop:56"), ("nearest", "resize:60,nearest,crop:56"), ("cropped", "resize:64,bicubic,crop:56"), ("split", "resize:56,bicubic,crop:56"):
    files = sorted(glob.glob(f"{top}/{run}/results/fp32/features/*.h5"))
    assert len(files) == 2, files
    for file in files:
        f = h5py.File(file)["features"]
        assert f.attrs["preparation"] == said, f.attrs["preparation"]
        runs.setdefault(run, []).append(f[:])
    runs[run] = numpy.concatenate(runs[run])
most = abs(runs["bicubic"]).max()
assert abs(runs["bicubic"] - runs["split"]).max() < 1e-5 * most
for a, b in ("bicubic", "nearest"), ("bicubic", "cropped"), ("nearest", "cropped"):
    assert abs(runs[a] - runs[b]).max() > 1e-3 * most, (a, b)
END2
refused() { # wanted text, options...
    text=$1
    shift
    expect_code 2 "$flow" check "$scratch/e.yaml" $small "$@"
    expect_text "$text"
}
refused "model.input.resize has to be at least model.input.size" --set model.input.resize=40
refused "'resize' is less than 'size'" --set model.input.resize=40 --set model.input.size=48
refused "patches of 64 px are not resized: the pixels of a label map are those of its patch" --set model.output=segmentation
refused "patches are resized, and with tiler.mode 'slide' there are none" --set tiler.mode=slide --set model.output=softmax --set model.input.size=56
refused "'hermite' is not" --set model.input.interpolation=hermite
refused "does not say how: name model.input.interpolation" --set model.file="$HRF_SOURCE_DIR/tests/golden/classifier.onnx" --set model.input.size=56
sed 's/bicubic/hamming/' "$scratch/encoder.onnx" >"$scratch/hamming.onnx"
refused "ask for the interpolation 'hamming'; nearest, box, bilinear" --set model.file="$scratch/hamming.onnx"
