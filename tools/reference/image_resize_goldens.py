#!/usr/bin/env python3
"""Makes tests/golden/image_resize.csv: SHA-256 of images that Pillow's resize and torchvision's CenterCrop make.

    tools/reference/image_resize_goldens.py > tests/golden/image_resize.csv

A line each: side of the image, side that it is resized to, side of the crop, filter, hash. The image's bytes are the
upper ones of the linear congruential generator below, and of every second line only 0 and 255, which overshoots.
With a program as argument, that program is compared on so many random cases instead (tests/bench/bench_resize.c):

    tools/reference/image_resize_goldens.py build/release/tests/bench_resize 3000
"""
import hashlib
import subprocess
import sys

import numpy as np
from PIL import Image

FILTERS = ["nearest", "box", "bilinear", "bicubic", "lanczos"]


def image(side, case):
    state, out = np.uint32(case + 1), np.empty(side * side * 3, np.uint8)
    powers = np.ones(out.size, np.uint32)  # state i = a^i state + c (1 + a + ... )
    with np.errstate(over="ignore"):
        powers[1:] = np.multiply.accumulate(np.full(out.size - 1, 1664525, np.uint32))
        sums = np.add.accumulate(powers, dtype=np.uint32)
        out[:] = (powers * np.uint32(1664525) * state + np.uint32(1013904223) * sums) >> np.uint32(24)
    return (out if case % 2 == 0 else (out >> 7) * 255).astype(np.uint8).reshape(side, side, 3)


def expected(pixels, resize, size, name):
    got = Image.fromarray(pixels).resize((resize, resize), getattr(Image.Resampling, name.upper()))
    begin = int(round((resize - size) / 2.0))
    return np.asarray(got.crop((begin, begin, begin + size, begin + size)))


def sizes(rng, most):
    side, resize = (int(x) for x in np.exp(rng.uniform(np.log(2), np.log(most), 2)))
    if rng.random() < 0.1:
        resize = side
    return side, resize, resize if rng.random() < 0.5 else int(rng.integers(1, resize + 1))


def main():
    rng = np.random.default_rng(18)
    fixed = [(256, 224, 224, "bicubic"), (512, 448, 448, "bicubic"), (256, 256, 224, "bicubic"),
             (224, 256, 224, "bicubic"), (512, 224, 224, "bilinear"), (300, 255, 224, "bilinear"),
             (257, 225, 224, "lanczos"), (256, 227, 224, "bicubic")]
    if len(sys.argv) == 1:
        cases = fixed + [(*sizes(rng, 160), f) for f in FILTERS * 8]
        for i, (side, resize, size, name) in enumerate(cases):
            made = expected(image(side, i), resize, size, name)
            print(side, resize, size, name, hashlib.sha256(made.tobytes()).hexdigest(), sep=",")
        return
    n, wrong = int(sys.argv[2]), 0
    for i in range(n):
        side, resize, size = sizes(rng, 700)
        name, pixels = FILTERS[i % 5], image(side, i)
        got = subprocess.run([sys.argv[1], str(side), str(resize), str(size), name], input=pixels.tobytes(),
                             stdout=subprocess.PIPE, check=True).stdout
        if got != expected(pixels, resize, size, name).tobytes():
            wrong += 1
            print("differs:", side, resize, size, name)
    print(f"{n - wrong} of {n} equal")
    sys.exit(wrong > 0)


main()
