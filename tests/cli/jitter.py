"""A plain reference of study.stain_jitter, for flow_embedding.sh.

    jitter.py EMBEDDED SCORED COHORT MODEL ENGINE SIGMA SEED

Reads the patches with openslide-python, moves their stains by the formula in numpy, runs the model by the engine's
reference back end, and compares with what the two runs' reports say: cosines and neighbours of embeddings, flips and
differences of probabilities. (The model's embedding is its probabilities.)
"""
import csv, glob, json, os, subprocess, sys, tempfile
import numpy, openslide

embedded, scored, cohort, model, engine, sigma, seed = sys.argv[1:8]
sigma, seed, SIZE = float(sigma), int(seed), 64
MEAN, STD = numpy.array([.485, .456, .406]), numpy.array([.229, .224, .225])
HED = numpy.array([[.65, .70, .29], [.07, .99, .11], [.27, .57, .78]])
MASK = 2 ** 64 - 1


def drawn(name):
    state = 14695981039346656037
    for byte in name.encode():
        state = (state ^ byte) * 1099511628211 & MASK
    state ^= seed * 0x9e3779b97f4a7c15 & MASK
    numbers = []
    for _ in range(6):
        state = state + 0x9e3779b97f4a7c15 & MASK
        z = (state ^ state >> 30) * 0xbf58476d1ce4e5b9 & MASK
        z = (z ^ z >> 27) * 0x94d049bb133111eb & MASK
        numbers.append(sigma * (2 * ((z ^ z >> 31) >> 11) * 2.0 ** -53 - 1))
    return numpy.array(numbers[0::2]), numpy.array(numbers[1::2])


def stained(rgb, name):
    a, b = drawn(name)
    amounts = -numpy.log(numpy.maximum(rgb, 1) / 255) @ numpy.linalg.inv(HED)
    return numpy.floor(numpy.minimum(255 * numpy.exp(-(amounts * (1 + a) + b) @ HED), 255) + 0.5)


def network(rgb):
    with tempfile.TemporaryDirectory() as at:
        numpy.save(at + "/x.npy", ((rgb / 255 - MEAN) / STD).transpose(0, 3, 1, 2).astype(numpy.float32))
        subprocess.run([engine, "eval", model, "--input", at + "/x.npy", "--output", at + "/y.npy", "--device", "ref"],
                       check=True, stdout=subprocess.DEVNULL)
        return numpy.load(at + "/y.npy").astype(float)


def nearest(rows):
    rows = rows / numpy.sqrt((rows * rows).sum(1, keepdims=True))
    c = rows @ rows.T
    numpy.fill_diagonal(c, -2)
    return numpy.argsort(-c, axis=1, kind="stable")[:, :10]


plain, moved, kept = [], [], []
for table in sorted(glob.glob(scored + "/results/fp32/model-outputs-csv/*.csv")):
    name = os.path.basename(table)[:-4]
    slide = openslide.OpenSlide(f"{cohort}/{name}.tif")
    pixels = numpy.stack([numpy.asarray(slide.read_region((int(r["minx"]), int(r["miny"])), 0, (SIZE, SIZE)))[..., :3]
                          for r in csv.DictReader(open(table))]).astype(float)
    new = stained(pixels, name)
    assert abs(new - pixels).max() > 3
    plain.append(network(pixels))
    moved.append(network(new))
    if len(pixels) > 10:
        kept += [len(set(a) & set(b)) for a, b in zip(nearest(plain[-1]), nearest(moved[-1]))]
a, b = numpy.concatenate(plain), numpy.concatenate(moved)
report = json.load(open(embedded + "/report/report.json"))
assert report["stain_jitter"] == {"sigma": sigma, "seed": seed, "precision": "fp32"}, report["stain_jitter"]
p = report["precisions"][-1]
assert p["precision"] == "jitter" and p["embedding"]["patches_compared"] == len(a) > 30
cosine = (a * b).sum(1) / numpy.sqrt((a * a).sum(1) * (b * b).sum(1))
for key, value in (("cosine_mean", cosine.mean()), ("cosine_least", cosine.min())):
    assert abs(p["embedding"][key] - value) < 1e-5, (key, p["embedding"][key], value)
assert abs(p["embedding"]["neighbours_kept"] - numpy.mean(kept) / 10) < 0.05, (p["embedding"], numpy.mean(kept) / 10)
study = {r["precision"]: r for r in csv.DictReader(open(embedded + "/report/study.csv"))}
assert float(study["jitter"]["neighbours_kept"]) == p["embedding"]["neighbours_kept"]
p = json.load(open(scored + "/report/report.json"))["precisions"][-1]
assert p["precision"] == "jitter" and abs(p["max_abs_difference"] - abs(a - b).max()) < 1e-4
assert abs(p["patch_agreement"] - (a.argmax(1) == b.argmax(1)).mean()) <= 1 / len(a)
for run in embedded, scored:
    page = open(run + "/report/index.html").read()
    assert "as if each slide were stained otherwise" in page and "<tr><th>jitter" in page
    assert "jittered in HED space with sigma 0.05" in open(run + "/report/methods.md").read()
    assert not os.path.exists(run + "/results/jitter"), "files of the jitter"
print(f"{len(a)} patches: cosine {cosine.mean():.6f}, agreement {(a.argmax(1) == b.argmax(1)).mean():.4f}")
