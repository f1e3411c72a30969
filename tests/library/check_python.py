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
    except (hires_flow.Error, ValueError, FileNotFoundError) as error:
        assert words in str(error), error
    else:
        raise AssertionError(f"no failure: {words}")


# A session gives the engine's own bits, for each precision and batch, and again for another shape.
array = random.random((5, 3, 64, 64), dtype=np.float32)
np.save(scratch + "/x.npy", array)
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
        assert np.array_equal(session(array), wanted), precision
        two = session(array[:2])
        assert two.shape == (2, wanted.shape[1])
        assert np.array_equal(session(array[::1]), wanted)
with warnings.catch_warnings(record=True) as told:
    warnings.simplefilter("always")
    session = hires_flow.Session(model, precision="int8")
    assert np.array_equal(session(array), wanted)
    session(array)
    assert len(told) == 1 and "calibrated on the first array" in str(told[0].message)
calibrated = hires_flow.Session(model, precision="int8")
calibrated.calibrate(array)
assert np.array_equal(calibrated(array), wanted) and "calibrated" not in calibrated.notes
assert list(session.run(array)) == session.output_names

fails("No such file", hires_flow.Session, scratch + "/none.onnx")
fails("fp8", hires_flow.Session, model, precision="fp8")
fails("tpu", hires_flow.Session, model, device="tpu")
fails("not int8", hires_flow.Session, model, calibration=scratch + "/s.json")
fails("only int8", hires_flow.Session(model).calibrate, array)
fails("4", hires_flow.Session(model), array[:, :2])
fails("dimension 0", hires_flow.Session(model), array[:0])
session.close()
fails("closed", session, array)

# A slide has the pixels of openslide-python, transparent ones on white.
slide, other = hires_flow.Slide(slide_path), openslide.OpenSlide(slide_path)
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
run = hires_flow.read_run(run_path)
rows = list(csv.DictReader(open(run_path + "/results/labels.csv")))
assert list(run.labels["slide"]) == [row["slide"] for row in rows] and len(rows) == 4
done = run.labels[run.labels["state"] == "done"]
patches = run.patches(done["slide"].iloc[0], run.precisions[0])
assert len(patches) > 0 and {"minx", "miny", "prob_tumor"} <= set(patches.columns)
assert run.report["slides"]["failed"] == 1
fails("no run", hires_flow.read_run, scratch)
print("python", hires_flow.version(), "agrees with the engine, openslide-python and the run")
