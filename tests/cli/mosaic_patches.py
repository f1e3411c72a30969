#!/usr/bin/env python3
"""The patches that the slides of make_mosaic are laid out of, as normal/*.png and tumor/*.png: where there are no real ones.

    mosaic_patches.py COHORT DIR

Read by openslide-python, so that they are what another program sees of the slides.
"""
import glob, os, sys
import openslide

PATCH, MARGIN, LESION = 256, 512, 3  # as in make_mosaic.c


def main():
    cohort, out = sys.argv[1:]
    for name in ("normal", "tumor"):
        os.makedirs(f"{out}/{name}")
    for slide, path in enumerate(sorted(glob.glob(f"{cohort}/testing/images/*.tif"))):
        image = openslide.OpenSlide(path)
        columns, rows = ((side - 2 * MARGIN) // PATCH for side in image.dimensions)
        left, top = 1 + slide % 4, 1 + slide % 3
        for row in range(rows):
            for column in range(columns):
                is_lesion = slide % 2 == 1 and 0 <= column - left < LESION and 0 <= row - top < LESION
                if not is_lesion and slide > 0:
                    continue  # one slide has normal patches enough
                place = MARGIN + column * PATCH, MARGIN + row * PATCH
                patch = image.read_region(place, 0, (PATCH, PATCH)).convert("RGB")
                patch.save(f"{out}/{'tumor' if is_lesion else 'normal'}/{slide}_{row}_{column}.png")


main()
