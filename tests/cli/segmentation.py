"""A slow plain reference of model.output segmentation, for flow_segmentation.sh.

    segmentation.py RUN COHORT MODEL ENGINE STRIDE CLASSES [PRECISION]

Reads the patches with openslide-python, runs the model by the engine's reference back end, which shares no code
with the back end of the run, makes labels and a mask of them pixel by pixel, and compares that with what the run
has written: masks (by openslide-python), labels.csv, the patches' fractions and the outlines.
"""
import csv, glob, gzip, json, math, os, subprocess, sys, tempfile
import numpy, openslide

run, cohort, model, engine, stride, classes, precision = sys.argv[1:8]
stride, classes = int(stride), classes.split(",")
SIZE, MPP = 64, 0.25
MEAN, STD = numpy.array([.485, .456, .406]), numpy.array([.229, .224, .225])
results = f"{run}/results/{precision}"


def resolution(slide):
    assert slide.properties["tiff.ResolutionUnit"] == "centimeter"
    return 1e4 / float(slide.properties["tiff.XResolution"])


def network(pixels):
    """float32 [n, 3, H, W] to the model's [n, C, h, w]."""
    with tempfile.TemporaryDirectory() as at:
        numpy.save(at + "/x.npy", pixels)
        subprocess.run([engine, "eval", model, "--input", at + "/x.npy", "--output", at + "/y.npy", "--device", "ref"],
                       check=True, stdout=subprocess.DEVNULL)
        return numpy.load(at + "/y.npy")


def patches(slide, rows):
    out = []
    for r in rows:
        rgba = numpy.asarray(slide.read_region((int(r["minx"]), int(r["miny"])), 0, (SIZE, SIZE)), dtype=float)
        assert (rgba[..., 3] == 255).all()
        out.append(((rgba[..., :3] / 255 - MEAN) / STD).transpose(2, 0, 1))
    return numpy.stack(out).astype(numpy.float32)


def labels_of(y):
    if len(classes) == 1:
        return (y[:, 0] >= 0).astype(numpy.uint8), numpy.abs(y[:, 0])
    top = numpy.sort(y, axis=1)
    return (y.argmax(axis=1) + 1).astype(numpy.uint8), top[:, -1] - top[:, -2]


def merge(maps, rows, width, height, down):
    """Each pixel from the patch whose centre is nearest; of equals, from the first."""
    side = maps.shape[1]
    mask = numpy.zeros((height, width), numpy.uint8)
    best = numpy.full((height, width), math.inf)
    for labels, r in zip(maps, rows):
        x0, y0 = math.floor(int(r["minx"]) / down + 0.5), math.floor(int(r["miny"]) / down + 0.5)
        box = numpy.s_[y0:min(y0 + side, height), x0:min(x0 + side, width)]
        v, u = numpy.mgrid[box][0] - y0, numpy.mgrid[box][1] - x0
        d = numpy.maximum(abs(u + 0.5 - side / 2), abs(v + 0.5 - side / 2))
        nearer = d < best[box]
        best[box] = numpy.where(nearer, d, best[box])
        mask[box] = numpy.where(nearer, labels[v, u], mask[box])
    return mask


def fill(rings, shape, down):
    """Even-odd rule at the centres of pixels; corners are corners of pixels."""
    crossed = numpy.zeros((shape[0], shape[1] + 1), numpy.uint8)
    for ring in rings:
        assert ring[0] == ring[-1]
        at = numpy.round(numpy.array(ring) / down).astype(int)
        for (ax, ay), (bx, by) in zip(at, at[1:]):
            assert ax == bx or ay == by
            if ax == bx:
                crossed[min(ay, by):max(ay, by), ax] ^= 1
    return numpy.cumsum(crossed, axis=1)[:, :shape[1]] % 2 == 1


table = {r["slide"]: r for r in csv.DictReader(open(f"{run}/results/labels.csv")) if r["precision"] == precision}
names = sorted(os.path.basename(f)[:-5] for f in glob.glob(results + "/masks/*.tiff"))
assert len(names) == 1, names
for name in names:
    slide = openslide.OpenSlide(f"{cohort}/{name}.tif")
    rows = list(csv.DictReader(open(f"{results}/model-outputs-csv/{name}.csv")))
    y = network(patches(slide, rows))
    maps, margin = labels_of(y)
    mpp = MPP * SIZE / y.shape[2]
    down = mpp / resolution(slide)
    width, height = (math.ceil(n / down) for n in slide.dimensions)
    want = merge(maps, rows, width, height, down)
    sure = merge((margin > 0.02).astype(numpy.uint8), rows, width, height, down) == 1
    file = openslide.OpenSlide(f"{results}/masks/{name}.tiff")
    got = numpy.asarray(file.read_region((0, 0), 0, file.dimensions))[..., 0]
    assert file.dimensions == (width, height), (file.dimensions, width, height)
    assert got.max() <= len(classes) and 0 < (want == len(classes)).sum() < (want == want).sum(), name
    same = got == want
    if precision == "fp32":
        assert same[sure].all() and same.mean() > 0.999, (name, same[sure].mean(), same.mean())
    else:
        assert same[want > 0].mean() > 0.8, (name, same[want > 0].mean())
    assert abs(resolution(file) - mpp) < 1e-6 * mpp, file.properties
    text = file.properties["tiff.ImageDescription"]
    assert all(f"{i + 1}: {c}\n" in text for i, c in enumerate(classes)), text
    for level in range(1, file.level_count):  # the middle one of the pixels that it stands for
        step = 1 << level
        coarse = numpy.asarray(file.read_region((0, 0), level, file.level_dimensions[level]))[..., 0]
        n, m = coarse.shape
        assert (n, m) == (height // step, width // step)
        assert (coarse == got[step // 2::step, step // 2::step][:n, :m]).all(), level
    # areas, of the mask, and fractions, of the patches
    for i, c in enumerate(classes):
        area = (got == i + 1).sum() * mpp * mpp * 1e-6
        assert abs(float(table[name]["mm2_" + c]) - area) < 1e-12, (name, c, area, table[name])
        fractions = [float(r["prob_" + c]) for r in rows]
        assert abs(float(table[name]["score_" + c]) - sum(fractions) / len(fractions)) < 1e-6
        if stride >= SIZE:  # no overlap: a patch's part of the mask is its map
            side = y.shape[2]
            for r, f in zip(rows, fractions):
                x, z = round(int(r["minx"]) / down), round(int(r["miny"]) / down)
                assert abs((got[z:z + side, x:x + side] == i + 1).mean() - f) < 1e-6
    # outlines, drawn again
    regions = json.load(gzip.open(f"{results}/masks/{name}.geojson.gz"))["features"]
    drawn = numpy.zeros_like(got)
    for feature in regions:
        label = classes.index(feature["properties"]["classification"]["name"]) + 1
        assert feature["geometry"]["type"] == "MultiPolygon"
        drawn[fill([ring for polygon in feature["geometry"]["coordinates"] for ring in polygon], got.shape, down)] = label
    assert (drawn == got).all(), (name, (drawn != got).sum())
