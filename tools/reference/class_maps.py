#!/usr/bin/env python3
"""Lays the class activation maps of a run of `tiler.mode: slide` beside the lesions of a made-up cohort: the mean inside
them and outside, and how often a cell inside is higher than one outside.

    class_maps.py RUN COHORT/testing/drawn.csv tumor

With --attention the attention of the patches by a slide head (model-outputs-csv) instead of the maps.
"""
import csv, os, sys

is_attention = "--attention" in sys.argv
run, drawn, positive = [word for word in sys.argv[1:] if word != "--attention"]
lesions = {}
for row in csv.DictReader(open(drawn)):
    if row["kind"] == "lesion":
        lesions.setdefault(row["slide"], []).append([float(row[k]) for k in ("x", "y", "rx", "ry")])
means = []
for row in csv.DictReader(open(f"{run}/results/labels.csv")):
    slide, path = row["slide"], f"{run}/results/{row['precision']}/{'model-outputs-csv' if is_attention else 'class-maps'}/{row['slide']}.csv"
    if slide not in lesions or row["label"] != positive or not os.path.exists(path):
        continue
    cells = []  # value, is inside
    for cell in csv.DictReader(open(path)):
        x, y = (float(cell[low]) + float(cell[size]) / 2 for low, size in (("minx", "width"), ("miny", "height")))
        cells.append((float(cell["attention" if is_attention else "activation_" + positive]), any(((x - a) / rx) ** 2 + ((y - b) / ry) ** 2 <= 1 for a, b, rx, ry in lesions[slide])))
    cells.sort()
    inside, outside = ([value for value, is_inside in cells if is_inside == wanted] for wanted in (True, False))
    if not inside or not outside:
        continue
    ranks = sum(i + 1 for i, (_, is_inside) in enumerate(cells) if is_inside)
    higher = (ranks - len(inside) * (len(inside) + 1) / 2) / (len(inside) * len(outside))
    means.append((sum(inside) / len(inside), sum(outside) / len(outside), higher))
    print(f"{slide}: inside {means[-1][0]:.3f}, outside {means[-1][1]:.3f}, higher inside {100 * higher:.1f} %")
if not means:
    sys.exit("no slide with lesions has a map of that class")
print("mean of %d slides: inside %.3f, outside %.3f, higher inside %.1f %%" % (len(means), *(sum(m[i] for m in means) / len(means) * (100 if i == 2 else 1) for i in range(3))))
