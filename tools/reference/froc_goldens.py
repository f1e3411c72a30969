#!/usr/bin/env python3
"""Makes tests/golden/froc from the official arithmetic of CAMELYON16's Evaluation_FROC.py, written
again with SciPy, scikit-image and NumPy 1 (whose rules for float32 the script relies on).

    tools/reference/froc_goldens.py tests/golden/froc [--polygons DIR]

Writes a truth folder (reference.csv, outlines as ASAP XML, and as mask pyramids where tifffile is
there), folders of detections, and expected.json with the score, the sensitivities and the lesions.
With --polygons (the real ones of NCRF, not part of this repository) it prints the lesions of each
file instead, as tests/unit/orchestrator/evaluate expects them.
"""
import argparse
import json
import math
import os
import sys
import zipfile

import numpy as np
from scipy import ndimage
from skimage import measure
from skimage.draw import polygon2mask  # noqa: F401  (a second opinion for the rasteriser)

LEVEL, MPP, STEP = 5, 0.243, 32


def contains(points, x, y):
    """Even-odd rule, for arrays x and y."""
    inside = np.zeros(np.broadcast(x, y).shape, bool)
    for (ax, ay), (bx, by) in zip(points, points[-1:] + points[:-1]):
        with np.errstate(divide="ignore", invalid="ignore"):
            cross = (bx - ax) * (y - ay) / (by - ay) + ax
        inside ^= ((ay > y) != (by > y)) & (x < cross)
    return inside


def rasterise(outlines, width, height):
    """[(points, is_cutout)] -> uint8 mask of level 5, 255 = tumour."""
    x = (np.arange((width + STEP - 1) // STEP) + 0.5) * STEP
    y = (np.arange((height + STEP - 1) // STEP) + 0.5) * STEP
    mask = np.zeros((len(y), len(x)), np.uint8)
    for cutout in (False, True):
        for points, is_cutout in outlines:
            if is_cutout != cutout:
                continue
            low = np.floor(np.min(points, 0) / STEP).astype(int) - 1
            high = np.ceil(np.max(points, 0) / STEP).astype(int) + 1
            x0, y0 = np.clip(low, 0, None)
            part = np.s_[y0 : max(high[1], 0), x0 : max(high[0], 0)]
            inside = contains(points, x[None, part[1]], y[part[0], None])
            mask[part][inside] = 0 if cutout else 255
    return mask


def evaluation_mask(mask):
    distance = ndimage.distance_transform_edt(255 - mask)
    binary = distance < 75 / (MPP * pow(2, LEVEL) * 2)
    return measure.label(ndimage.binary_fill_holes(binary), connectivity=2)


def itc_labels(labels):
    return [p.label for p in measure.regionprops(labels) if p.major_axis_length < 275 / (MPP * pow(2, LEVEL))]


def judge(labels, itc, detections):
    n = int(np.amax(labels)) if labels is not None else 0
    fp, tp = [], np.zeros((n,), np.float32)
    for p, x, y in detections:
        row, column = int(y / STEP), int(x / STEP)
        hit = 0
        if labels is not None and 0 <= row < labels.shape[0] and 0 <= column < labels.shape[1]:
            hit = labels[row, column]
        if hit == 0:
            fp.append(p)
        elif hit not in itc and p > tp[hit - 1]:
            tp[hit - 1] = p
    return fp, tp, n - len(itc)


def froc(judged):
    """The official curve: [(FPs, TPs, lesions) per slide] -> FPs per slide, sensitivity."""
    fps = [item for fp, _, _ in judged for item in fp]
    tps = [item for _, tp, _ in judged for item in tp]
    total_fp, total_tp = [], []
    for threshold in sorted(set(fps + tps))[1:]:
        total_fp.append((np.asarray(fps) >= threshold).sum())
        total_tp.append((np.asarray(tps) >= threshold).sum())
    total_fp.append(0)
    total_tp.append(0)
    return (np.asarray(total_fp) / float(len(judged)),
            np.asarray(total_tp) / float(sum(n for _, _, n in judged)))


def score(judged):
    fp, sensitivity = froc(judged)
    at = np.interp([0.25, 0.5, 1, 2, 4, 8], fp[::-1], sensitivity[::-1])
    return float(np.mean(at)), [float(v) for v in at]


# ---- a small data set ----

def wavy(rng, cx, cy, radius, n=60):
    a = np.sort(rng.uniform(0, 2 * math.pi, n))
    r = radius * (1 + 0.3 * np.sin(3 * a + rng.uniform(0, 6)) + 0.1 * rng.standard_normal(n))
    return [(round(float(cx + q * math.cos(t)), 3), round(float(cy + q * math.sin(t)), 3)) for q, t in zip(r, a)]


def make_slide(rng):
    """Outlines on a slide of 12000 x 10000: separate lesions, near ones that merge, ITC, a hole, a
    cut-out, an outline that crosses itself, one at the slide's edge."""
    out = []
    for _ in range(int(rng.integers(1, 5))):
        cx, cy, r = rng.uniform(800, 11000), rng.uniform(800, 9000), rng.uniform(100, 1100)
        out.append((wavy(rng, cx, cy, r), False))
        if r > 700:
            out.append((wavy(rng, cx, cy, r * 0.4), bool(rng.integers(0, 2))))
        if rng.random() < 0.5:
            out.append((wavy(rng, cx + r * 1.5 + rng.uniform(0, 500), cy, r * 0.5), False))
    for _ in range(int(rng.integers(0, 4))):
        out.append((wavy(rng, rng.uniform(300, 11700), rng.uniform(300, 9700), rng.uniform(20, 650), 12), False))
    x, y = rng.uniform(1000, 9000, 2)
    out.append(([(x, y), (x + 1500, y + 700), (x + 1500, y), (x, y + 700)], False))  # a bow tie
    if rng.random() < 0.5:
        out.append((wavy(rng, 11900, 5000, 500), False))
    return [([(float(a), float(b)) for a, b in p], c) for p, c in out]


def asap(outlines, path):
    with open(path, "w") as f:
        f.write('<?xml version="1.0"?>\n<ASAP_Annotations>\n <Annotations>\n')
        for i, (points, cutout) in enumerate(outlines):
            f.write(f'  <Annotation Name="A{i}" Type="Polygon" PartOfGroup="{"_2" if cutout else "_0"}" Color="#F4FA58">\n'
                    "   <Coordinates>\n")
            order = list(enumerate(points))
            if i % 3 == 1:
                order.reverse()  # @Order decides, not the file
            for k, (x, y) in order:
                f.write(f'    <Coordinate Order="{k}" X="{x!r}" Y="{y!r}" />\n')
            f.write("   </Coordinates>\n  </Annotation>\n")
        f.write(" </Annotations>\n</ASAP_Annotations>\n")


def detections(rng, labels, n_false, ties):
    rows = []
    if labels is not None:
        for p in measure.regionprops(labels):
            if rng.random() < 0.75:
                y, x = p.coords[rng.integers(len(p.coords))]
                for _ in range(int(rng.integers(1, 4))):
                    rows.append((float(rng.beta(4, 2)), int(x * STEP + rng.integers(STEP)), int(y * STEP + rng.integers(STEP))))
    for _ in range(n_false):
        rows.append((float(rng.beta(2, 4)), int(rng.integers(0, 12000)), int(rng.integers(0, 10000))))
    digits = 1 if ties else 5
    return [(round(p, digits), x, y) for p, x, y in rows]


def write_pyramid(path, mask):
    """Levels 0 to 5 of a mask."""
    import tifffile
    full = np.kron(mask, np.ones((STEP, STEP), np.uint8))
    with tifffile.TiffWriter(path, bigtiff=True) as out:
        for level in range(LEVEL + 1):
            out.write(full[:: 1 << level, :: 1 << level], tile=(128, 128), photometric="minisblack",
                      compression="zlib", subfiletype=1 if level else 0,
                      resolution=(1e4 / MPP / 2**level, 1e4 / MPP / 2**level), resolutionunit=3)


def make(folder):
    rng = np.random.default_rng(16)
    truth = os.path.join(folder, "truth", "testing")
    os.makedirs(os.path.join(truth, "lesion_annotations"), exist_ok=True)
    slides, rows = {}, []
    for i in range(1, 13):
        name, tumour = f"test_{i:03d}", i % 2 == 1
        slides[name] = None
        if tumour:
            outlines = make_slide(rng)
            slides[name] = evaluation_mask(rasterise(outlines, 12000, 10000))
            asap(outlines, os.path.join(truth, "lesion_annotations", name + ".xml"))
        rows.append(f"{name},{'Tumor' if tumour else 'Normal'},IDC,{'Micro' if i % 4 == 1 else 'Macro' if tumour else 'None'}\n")
    with open(os.path.join(truth, "reference.csv"), "w") as f:
        f.writelines(rows)
    expected = {}
    for case, n_false, ties, only_hits in (("plain", 9, False, False), ("ties", 14, True, False), ("hits", 0, False, True)):
        os.makedirs(os.path.join(folder, case), exist_ok=True)
        judged, n_itc, n_lesions = [], 0, 0
        for name, labels in slides.items():
            found = detections(rng, labels, 0 if only_hits else int(rng.integers(0, n_false + 1)), ties)
            if only_hits and labels is not None:  # every lesion is hit: the script drops the smallest
                found = [(round(float(rng.uniform(0.2, 1)), 4), int(p.coords[0][1] * STEP), int(p.coords[0][0] * STEP))
                         for p in measure.regionprops(labels)]
                labels_itc = itc_labels(labels)
                found = [d for d in found if labels[d[2] // STEP, d[1] // STEP] not in labels_itc]
            with open(os.path.join(folder, case, name + ".csv"), "w") as f:
                f.writelines(f"{p!r},{x},{y}\n" for p, x, y in found)
            itc = itc_labels(labels) if labels is not None else []
            judged.append(judge(labels, itc, found))
            n_itc += len(itc)
            n_lesions += judged[-1][2]
        value, at = score(judged)
        expected[case] = {"score": value, "sensitivities": at, "lesions": n_lesions, "itc": n_itc,
                          "false_positives": sum(len(fp) for fp, _, _ in judged)}
    with open(os.path.join(folder, "expected.json"), "w") as f:
        json.dump(expected, f, indent=1, sort_keys=True)
        f.write("\n")


def print_polygons(folder):
    for file in sorted(os.listdir(folder)):
        data = json.load(open(os.path.join(folder, file)))
        outlines = [([tuple(map(float, v)) for v in p["vertices"]], False) for p in data["positive"]]
        outlines += [([tuple(map(float, v)) for v in p["vertices"]], True) for p in data["negative"]]
        width = max(max(v[0] for v in p) for p, _ in outlines) + 1024
        height = max(max(v[1] for v in p) for p, _ in outlines) + 1024
        labels = evaluation_mask(rasterise(outlines, int(width), int(height)))
        shapes = [(int(p.area), round(float(p.major_axis_length), 6)) for p in measure.regionprops(labels)]
        print(json.dumps([file, sum(a for a, _ in shapes), len(shapes), len(itc_labels(labels)), shapes[:3]]))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="?")
    parser.add_argument("--polygons")
    parser.add_argument("--masks", help="also write mask pyramids of the truth there")
    args = parser.parse_args()
    if args.polygons:
        print_polygons(args.polygons)
    if args.folder:
        make(args.folder)
    if args.masks:
        os.makedirs(args.masks, exist_ok=True)
        rng = np.random.default_rng(16)
        for i in range(1, 13, 2):
            write_pyramid(os.path.join(args.masks, f"test_{i:03d}_mask.tif"),
                          rasterise(make_slide(rng), 12000, 10000))
