#!/usr/bin/env python3
"""Makes tests/golden/stain_jitter.csv: pixels stained otherwise, as scikit-image's rgb2hed and hed2rgb have stains.

    tools/reference/stain_jitter_goldens.py > tests/golden/stain_jitter.csv

A line each: R, G, B; a and b of haematoxylin, eosin and DAB; the new R, G, B. scikit-image raises amounts below 0
to 0, which this project does not: only pixels without such amounts are here. Its amounts are optical densities
(natural logarithm) over -ln(1e-6).
"""
import numpy as np
from skimage.color import hed2rgb, rgb2hed
from skimage.color.colorconv import hed_from_rgb

rng = np.random.default_rng(5)
unit = -np.log(1e-6)
n = 0
while n < 300:
    sigma = rng.choice([0.01, 0.05, 0.2])
    a, b = rng.uniform(-sigma, sigma, (2, 3)).round(6)
    amounts = rng.uniform(0, [1.5, 1.2, 0.6]) / unit
    rgb = np.round(hed2rgb(amounts[None, None]) * 255).astype(np.uint8)
    if (np.log(np.maximum(rgb, 1) / 255) @ hed_from_rgb > -1e-9).any() and (
            -np.log(np.maximum(rgb, 1) / 255) @ hed_from_rgb < 0).any():
        continue
    new = rgb2hed(rgb) * (1 + a) + b / unit
    exact = hed2rgb(new)[0, 0] * 255
    if (abs(exact % 1 - 0.5) < 1e-3).any():  # rounding may go either way
        continue
    print(*rgb[0, 0], *a, *b, *np.floor(exact + 0.5).astype(int), sep=",")
    n += 1
