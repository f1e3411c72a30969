"""Masks of patches by hand, for flow_train_segmentation.sh: patch_masks.py PATCHES XML_FOLDER SIDE STEP

Each mask in PATCHES/SLIDE/X_Y_mask.png has the value 1 where the centre of a pixel (of STEP level-0 px) lies in an odd number
of crossings of one of the outlines of XML_FOLDER/SLIDE.xml, else 0.
"""
import csv, os, struct, sys, zlib
import xml.etree.ElementTree as ET


def read_gray(path):
    data, at, packed = open(path, "rb").read(), 8, b""
    width, height, depth, kind = struct.unpack(">IIBB", data[16:26])
    assert (depth, kind) == (8, 0), path
    while at < len(data):
        n = struct.unpack(">I", data[at : at + 4])[0]
        packed += data[at + 8 : at + 8 + n] if data[at + 4 : at + 8] == b"IDAT" else b""
        at += n + 12
    raw, before, rows = zlib.decompress(packed), [0] * width, []
    for y in range(height):
        rule, line, left, corner = raw[y * (width + 1)], [], 0, 0
        for value, up in zip(raw[y * (width + 1) + 1 : (y + 1) * (width + 1)], before):
            guess = left + up - corner
            paeth = min((abs(guess - left), 0, left), (abs(guess - up), 1, up), (abs(guess - corner), 2, corner))[2]
            left, corner = (value + (0, left, up, (left + up) // 2, paeth)[rule]) & 255, up
            line.append(left)
        rows.append(line)
        before = line
    return rows


def is_inside(points, x, y):
    odd = False
    for (ax, ay), (bx, by) in zip(points, points[1:] + points[:1]):
        odd ^= (ay > y) != (by > y) and x < (bx - ax) * (y - ay) / (by - ay) + ax
    return odd


folder, annotations, side, step = sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4])
seen, mixed = 0, 0
for row in csv.DictReader(open(folder + "/patches.csv")):
    slide, file = row["mask"].split("/")
    x0, y0 = map(int, file.split("_")[:2])
    xml, outlines = f"{annotations}/{slide}.xml", []
    if os.path.exists(xml):
        outlines = [[(float(c.get("X")), float(c.get("Y"))) for c in a.iter("Coordinate")] for a in ET.parse(xml).iter("Annotation")]
    mask = read_gray(f"{folder}/{row['mask']}")
    assert len(mask) == len(mask[0]) == side
    for i, line in enumerate(mask):
        y = y0 + (i + 0.5) * step
        near = [o for o in outlines if min(p[1] for p in o) <= y <= max(p[1] for p in o)]
        assert line == [int(any(is_inside(o, x0 + (k + 0.5) * step, y) for o in near)) for k in range(side)], (row, i)
    values = {v for line in mask for v in line}
    seen, mixed = seen + 1, mixed + (len(values) == 2)
assert seen > 20 and mixed > 5, (seen, mixed)
