#!/usr/bin/env python3
"""Judges which patches of a run lie on a tile that does not decode, by openslide-python.

    bad_patches.py SLIDE LEVEL COLUMN ROW SIDE RUN

Tile COLUMN, ROW of LEVEL, of SIDE px, is the one that OpenSlide cannot read, and no other; the patches that RUN lists as
bad are those that OpenSlide cannot read at LEVEL either. A patch that is resampled may need a pixel more on each side, so
one that meets the tile only there may be listed or not.
"""
import csv, math, sys
import openslide


def is_readable(path, level, x, y, width, height):
    """x, y: px of the level. An error sticks to OpenSlide's handle, so each region gets its own."""
    slide = openslide.OpenSlide(path)
    downsample = slide.level_downsamples[level]
    try:
        slide.read_region((round(x * downsample), round(y * downsample)), level, (width, height))
    except openslide.OpenSlideError:
        return False
    return True


def main():
    path, run = sys.argv[1], sys.argv[6]
    level, bad_column, bad_row, side = map(int, sys.argv[2:6])
    slide = openslide.OpenSlide(path)
    width, height = slide.level_dimensions[level]
    downsample = slide.level_downsamples[level]
    bad = {(column, row) for row in range(-(-height // side)) for column in range(-(-width // side))
           if not is_readable(path, level, column * side, row * side, min(side, width - column * side), min(side, height - row * side))}
    assert bad == {(bad_column, bad_row)}, bad
    with open(f"{run}/results/patch-quality.csv") as f:
        listed = {(int(x), int(y)) for _, x, y, _, _, reason, _ in list(csv.reader(f))[1:] if reason == "bad-tile"}
    must, may = set(), set()
    with open(f"{run}/results/fp32/model-outputs-csv/bad.csv") as f:
        for patch in csv.DictReader(f):
            x, y = int(patch["minx"]), int(patch["miny"])
            u, v, w, h = (float(value) / downsample for value in (x, y, patch["width"], patch["height"]))
            if not is_readable(path, level, math.ceil(u), math.ceil(v), math.floor(w) - 1, math.floor(h) - 1):
                must.add((x, y))
            if not is_readable(path, level, math.floor(u) - 1, math.floor(v) - 1, math.ceil(w) + 3, math.ceil(h) + 3):
                may.add((x, y))
    assert must and must <= listed <= may, (must, listed, may)
    print(f"{len(listed)} bad patches, {len(must)} to {len(may)} by OpenSlide")


main()
