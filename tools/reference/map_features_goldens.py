#!/usr/bin/env python3
"""Makes tests/golden/map_features.csv: heat maps and their 30 features as scikit-image computes them.

    tools/reference/map_features_goldens.py > tests/golden/map_features.csv

A line each: width, height, the 30 features, the map in thousandths row by row (-1: no tissue). The last
maps have one region, none, a line, and a single pixel.
"""
import numpy as np
from scipy import ndimage
from skimage.measure import label, regionprops


def region(p, heat):
    box = p.bbox
    return [p.area, p.eccentricity, p.extent, p.area_bbox, p.axis_major_length, p.intensity_max, p.intensity_min,
            p.intensity_mean, (box[2] - box[0]) / (box[3] - box[1]), p.solidity]


def features(heat, threshold=0.7):
    tissue = np.isfinite(heat).sum()
    filled = np.nan_to_num(heat, nan=0.0)
    out = [(filled > t).sum() / tissue for t in (0.5, 0.6, 0.7, 0.8, 0.9)]
    out += [(filled - t).clip(min=0).sum() / tissue for t in (0.5, 0.6, 0.7, 0.8, 0.9)]
    props = regionprops(label((filled > threshold) * 1), intensity_image=filled)
    order = sorted(props, key=lambda p: -p.area)  # stable: of equal ones the first
    out += region(order[0], filled) if order else [0.0] * 10
    second = [p for p in order if p.area < order[0].area] if order else []
    return out + (region(second[0], filled) if second else [0.0] * 10)


rng = np.random.default_rng(30)
maps = []
for i in range(24):
    shape = tuple(rng.integers(8, 34, 2))
    heat = ndimage.gaussian_filter(rng.standard_normal(shape), rng.uniform(0.6, 2.2))
    heat = (heat - heat.min()) / (heat.max() - heat.min())
    heat = np.round(heat ** rng.uniform(0.3, 1.0), 3)
    heat[ndimage.gaussian_filter(rng.standard_normal(shape), 2) > 0.12] = np.nan
    maps.append(heat)
maps.append(np.where(np.add.outer(np.arange(9), np.arange(12)) % 20 < 7, 0.8, 0.1))
maps.append(np.full((5, 6), 0.3))
line = np.full((6, 9), 0.2)
line[2, 1:8] = 0.95
line[5, 0] = 0.75
maps.append(line)
maps.append(np.pad([[0.9]], 3))
for heat in maps:
    cells = ["-1" if np.isnan(v) else str(int(round(v * 1000))) for v in heat.ravel()]
    print(",".join([str(heat.shape[1]), str(heat.shape[0])] + [repr(float(v)) for v in features(heat)] + cells))
