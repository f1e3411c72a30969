"""Dice and IoU by hand, for flow_segmentation.sh: segmentation_truth.py draw|judge ...

    draw SLIDE XML FILE.png      the outlines as a mask of the slide's pixels, 0 or 1
    judge RUN FILE.png FILE.png  the figures of the class tumor, the third, on three slides, against such masks
"""
import csv, json, sys
import xml.etree.ElementTree as ET
import numpy, openslide
from PIL import Image


def outline(annotation, shape):
    """Even-odd rule at the centres of the pixels, by plain crossing numbers."""
    points = [(float(c.get("X")), float(c.get("Y"))) for c in annotation.iter("Coordinate")]
    ys, xs = numpy.arange(shape[0]) + 0.5, numpy.arange(shape[1]) + 0.5
    inside = numpy.zeros(shape, bool)
    for (ax, ay), (bx, by) in zip(points, points[1:] + points[:1]):
        for row in numpy.nonzero((ay > ys) != (by > ys))[0]:
            inside[row] ^= xs < (bx - ax) * (ys[row] - ay) / (by - ay) + ax
    return inside


if sys.argv[1] == "draw":
    slide = openslide.OpenSlide(sys.argv[2])
    mask = numpy.zeros(slide.dimensions[::-1], bool)
    for a in ET.parse(sys.argv[3]).iter("Annotation"):
        assert a.get("PartOfGroup") in ("_0", "_1", "Tumor", "None"), a.get("PartOfGroup")
        mask |= outline(a, mask.shape)
    assert 0.001 < mask.mean() < 0.5, mask.mean()
    Image.fromarray(mask.astype(numpy.uint8)).save(sys.argv[4])
else:
    run = sys.argv[2]
    rows = {r["slide"]: r for r in csv.DictReader(open(run + "/results/labels.csv"))}
    sums, dices = numpy.zeros(3), []
    for name, truth in (("test_001", None), ("test_002", sys.argv[3]), ("test_004", sys.argv[4])):
        found = openslide.OpenSlide(f"{run}/results/fp32/masks/{name}.tiff")
        found = numpy.asarray(found.read_region((0, 0), 0, found.dimensions))[..., 0] == 3
        truth = numpy.asarray(Image.open(truth)) > 0 if truth else numpy.zeros_like(found)  # the first has no tumour
        assert found.shape == truth.shape
        both, called, wanted = (found & truth).sum(), found.sum(), truth.sum()
        dice = 2 * both / (called + wanted)
        assert abs(float(rows[name]["dice_tumor"]) - dice) < 1e-12, (dice, rows[name])
        assert abs(float(rows[name]["iou_tumor"]) - both / (called + wanted - both)) < 1e-12
        assert rows[name]["dice_tissue"] == rows[name]["iou_tissue"] == ""
        sums += both, called, wanted
        if wanted:
            assert both > 0
            dices.append(dice)
    p = json.load(open(run + "/report/report.json"))["precisions"][0]
    _, tissue, tumor = p["segmentation"]
    assert abs(tumor["dice"] - 2 * sums[0] / (sums[1] + sums[2])) < 1e-12, tumor
    assert abs(tumor["iou"] - sums[0] / (sums[1] + sums[2] - sums[0])) < 1e-12, tumor
    assert abs(tumor["mean_dice"] - sum(dices) / 2) < 1e-12 and (tumor["slides_judged"], tumor["slides_with_class"]) == (3, 2)
    assert tissue["dice"] is tissue["iou"] is tissue["mean_dice"] is None and tissue["slides_judged"] == 0
    assert p["patch_auc"] is not None, p["patch_auc_reason"]
    print("%.4f" % p["patch_auc"])
