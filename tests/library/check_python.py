"""The Python package against hires-engine, openslide-python and the tables of a run."""
import csv
import subprocess
import sys
import warnings

import numpy as np
import openslide

import hires_flow

engine, model, slide_path, run_path, scratch = sys.argv[1:]
random = np.random.default_rng(1)


def fails(words, call, *arguments, **options):
    try:
        call(*arguments, **options)
    except (hires_flow.Error, TypeError, ValueError, FileNotFoundError) as error:
        assert words in str(error), error
    else:
        raise AssertionError(f"no failure: {words}")


# Run raw, a session gives the engine's own bits, for each precision and batch, and again for another shape.
array = random.random((5, 3, 64, 64), dtype=np.float32)
np.save(scratch + "/x.npy", array)
(output,) = hires_flow.Session(model).output_names
for precision in ("fp32", "bf16", "int8"):
    subprocess.run(
        [engine, "eval", model, "--input", scratch + "/x.npy", "--output", scratch + "/y.npy"]
        + ["--precision", precision, "--save-scales", scratch + "/s.json"][: 4 if precision == "int8" else 2],
        check=True,
        stderr=subprocess.DEVNULL,
    )
    wanted = np.load(scratch + "/y.npy")
    calibration = scratch + "/s.json" if precision == "int8" else None
    with hires_flow.Session(model, precision=precision, calibration=calibration, threads=2) as session:
        assert np.array_equal(session.run_raw(array)[output], wanted), precision
        assert session.run_raw(array[:2])[output].shape == (2, wanted.shape[1])
        assert np.array_equal(session.run_raw(array[::1])[output], wanted)
with warnings.catch_warnings(record=True) as told:
    warnings.simplefilter("always")
    session = hires_flow.Session(model, precision="int8")
    assert np.array_equal(session.run_raw(array)[output], wanted)
    session.run_raw(array)
    assert len(told) == 1 and "calibrated on the first array" in str(told[0].message)
calibrated = hires_flow.Session(model, precision="int8")
calibrated.calibrate_raw(array)
assert np.array_equal(calibrated.run_raw(array)[output], wanted) and "calibrated" not in calibrated.notes

# Patches are scored as the run scored them, one or many at once, whatever was computed in between.
run = hires_flow.read_run(run_path)
slide = hires_flow.Slide(slide_path)
rows = run.patches("test_001", "fp32")
rgb = np.stack([slide.read_patch(x, y, 64, 0.5) for x, y in zip(rows["minx"], rows["miny"])])
classes = ["normal", "tumor"]


def agrees(scores, rows, columns):
    for name, column in columns.items():
        assert np.abs(scores[name] - rows[column].to_numpy()).max() < 1e-5, (name, scores[name], rows[column])


columns = {name: "prob_" + name for name in classes}
assert 16 < len(rgb) <= 32 and np.ptp(rows["prob_tumor"]) > 0.05, (len(rgb), np.ptp(rows["prob_tumor"]))
with hires_flow.Session(model, classes=classes) as session:
    twice = session(np.concatenate([rgb, rgb]))  # more than are computed at a time
    agrees({name: scores[: len(rgb)] for name, scores in twice.items()}, rows, columns)
    agrees({name: scores[len(rgb) :] for name, scores in twice.items()}, rows, columns)
    session.run_raw(array)
    agrees(session.score(rgb[:3]), rows[:3], columns)
    one = session.score(rgb[0])
    assert list(one) == classes and abs(one["tumor"] - rows["prob_tumor"][0]) < 1e-5 and abs(sum(one.values()) - 1) < 1e-6
    fails("uint8, not float32", session, rgb.astype(np.float32))
    fails("not uint8", session.run_raw, rgb)
    fails("5 x 64 x 3", session, rgb[0, :5])
imagenet = {"mean": [0.485, 0.456, 0.406], "std": [0.229, 0.224, 0.225]}
agrees(hires_flow.Session(model, classes=classes, input=imagenet)(rgb[:3]), rows[:3], columns)
# Raw outputs get what `output` says; raw calls get and give the network's own numbers.
logits = scratch + "/logits.onnx"
subprocess.run([engine, "model", "make", "resnet:2,8", "--output", logits], check=True, stdout=subprocess.DEVNULL)
large = np.stack([slide.read_patch(x, y, 224, 0.5) for x, y in zip(rows["minx"][:3], rows["miny"][:3])])
normalised = ((large / 255 - imagenet["mean"]) / imagenet["std"]).transpose(0, 3, 1, 2)
(raw,) = hires_flow.Session(logits).run_raw(normalised).values()


def both(output):
    scores = hires_flow.Session(logits, classes=classes, output=output)(large)
    return np.stack([scores[name] for name in classes], 1)


def near(a, b):
    return np.abs(a - b).max() < 1e-4


assert near(both("none"), raw) and not near(both(None), raw)
assert near(both(None), np.exp(raw) / np.exp(raw).sum(1, keepdims=True)) and near(both("softmax"), both(None))
assert near(both("sigmoid"), 1 / (1 + np.exp(-raw)))
assert near(hires_flow.Session(logits, output="embedding")(large[0]), raw[0])
fails("passed a Softmax", hires_flow.Session(model, classes=classes, output="sigmoid"), rgb)
# What the run resized is resized, and its INT8 is the calibration's that the run wrote.
resized = hires_flow.read_run(run_path + "-resized")
small = hires_flow.Session(model, classes=classes, input={"size": 64, "resize": 72, "interpolation": "bicubic"})
rows = resized.patches("test_001", "fp32")
rgb = np.stack([slide.read_patch(x, y, 96, 0.5) for x, y in zip(rows["minx"], rows["miny"])])
agrees(small(rgb), rows, columns)
# ... and as the file says, if it has such an entry: field 14 of ONNX's ModelProto.
entry = b"hires_flow.input", b'{"size": 64, "resize": 72, "interpolation": "bicubic", "mean": [0.5, 0.5, 0.5], "std": [1, 1, 1]}'
entry = b"\x0a%c%b\x12%c%b" % (len(entry[0]), entry[0], len(entry[1]), entry[1])
with open(model, "rb") as old, open(scratch + "/says.onnx", "wb") as new:
    new.write(old.read() + b"\x72%c" % (len(entry) % 128 + 128) + b"%c" % (len(entry) // 128) + entry)
said, halves = hires_flow.Session(scratch + "/says.onnx", classes=classes), {"mean": [0.5] * 3, "std": [1] * 3}
given = {"size": 64, "resize": 72, "interpolation": "bicubic"}
assert np.array_equal(said(rgb)["tumor"], hires_flow.Session(model, classes=classes, input={**given, **halves})(rgb)["tumor"])
agrees(hires_flow.Session(scratch + "/says.onnx", classes=classes, input=imagenet)(rgb), rows, columns)
rows = resized.patches("test_001", "int8")
exact = hires_flow.Session(
    model,
    precision="int8",
    calibration=scratch + "/calibration.json",
    classes=classes,
    input={"size": 64, "resize": 72, "interpolation": "bicubic"},
)
agrees(exact(rgb), rows, columns)
exact = hires_flow.Session(model, precision="int8", classes=classes)
exact.calibrate(rgb[:, :64, :64])
assert np.abs(exact(rgb[:, :64, :64])["tumor"] - hires_flow.Session(model, classes=classes)(rgb[:, :64, :64])["tumor"]).max() < 0.1

fails("No such file", hires_flow.Session, scratch + "/none.onnx")
fails("fp8", hires_flow.Session, model, precision="fp8")
fails("tpu", hires_flow.Session, model, device="tpu")
fails("not int8", hires_flow.Session, model, calibration=scratch + "/s.json")
fails("only int8", hires_flow.Session(model).calibrate_raw, array)
fails("only int8", hires_flow.Session(model, classes=classes).calibrate, rgb)
fails("4", hires_flow.Session(model).run_raw, array[:, :2])
fails("dimension 0", hires_flow.Session(model).run_raw, array[:0])
fails("`classes`, one for each number", hires_flow.Session(model), rgb)
fails("3 classes", hires_flow.Session(model, classes=["a", "b", "c"]), rgb[:1, :64, :64])
fails("'a' is named twice", hires_flow.Session, model, classes=["a", "a"])
fails("not 'tumor'", hires_flow.Session, model, classes="tumor")
fails("are no classes", hires_flow.Session, model, classes=["a"], output="embedding")
fails("none of probabilities", hires_flow.Session, model, output="logits")
fails("it may have mean", hires_flow.Session, model, input={"means": [0, 0, 0]})
fails("both are given or neither", hires_flow.Session, model, input={"mean": [0.5, 0.5, 0.5]})
fails("none of auto", hires_flow.Session, model, input={"interpolation": "cubic"})
fails("model.input.interpolation", hires_flow.Session(model, classes=classes, input={"size": 32}), rgb)
session.close()
fails("closed", session.run_raw, array)

# A slide has the pixels of openslide-python, transparent ones on white.
other = openslide.OpenSlide(slide_path)
assert slide.dimensions == other.dimensions and slide.level_dimensions == other.level_dimensions
assert slide.level_downsamples == tuple(other.level_downsamples)
for level in range(slide.level_count):
    # Between the pixels of a level whose size is no whole fraction OpenSlide interpolates; a run does not.
    is_whole = slide.level_downsamples[level] == round(slide.level_downsamples[level])
    x, y = (int(v) for v in random.integers(0, 600, 2)) if is_whole else (0, 0)
    region = np.asarray(other.read_region((x, y), level, (90, 70))).astype(np.uint16)
    alpha = region[..., 3:]
    wanted = np.where(alpha == 0, 255, region[..., :3])
    assert np.array_equal(slide.read_region((x, y), level, (90, 70)), wanted), level
patch = slide.read_patch(400, 400, 64, mpp=slide.mpp[0])
assert np.array_equal(patch, slide.read_region((400, 400), 0, (64, 64)))
assert slide.read_patch(400, 400, 32, mpp=2 * slide.mpp[0]).shape == (32, 32, 3)
fails("level 99", slide.read_region, (0, 0), 99, (4, 4))
fails("0 x 4", slide.read_region, (0, 0), 0, (0, 4))
fails("none.tif", hires_flow.Slide, scratch + "/none.tif")

# A run's tables are its files.
rows = list(csv.DictReader(open(run_path + "/results/labels.csv")))
assert list(run.labels["slide"]) == [row["slide"] for row in rows] and len(rows) == 4
done = run.labels[run.labels["state"] == "done"]
patches = run.patches(done["slide"].iloc[0], run.precisions[0])
assert len(patches) > 0 and {"minx", "miny", "prob_tumor"} <= set(patches.columns)
assert run.report["slides"]["failed"] == 1
fails("no run", hires_flow.read_run, scratch)
print("python", hires_flow.version(), "agrees with the engine, openslide-python and the run")
