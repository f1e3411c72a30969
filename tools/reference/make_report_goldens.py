#!/usr/bin/env python3
"""Makes tests/golden/report/model.{csv,geojson}: the patch tables of the small fixture of
tests/unit/aggregate/report/fixture.c as WSInfer's own code path would write them (float32
probabilities widened to double, repr, json.dump), independent of our writer. Only the ids are
ours: SHA-256 over length-prefixed fields, shaped as a version-4 UUID. Run from the repository
root; needs numpy."""
import hashlib
import json
import struct

import numpy as np

SLIDE, WIDTH = "tumor, one", 512
tumor = np.array([0.9, 1.0, 0.0891714394, 0.5], np.float32)
normal = np.float32(1.0) - tumor
corners = [(512 * (i // 2), 1024 + 512 * (i % 2)) for i in range(4)]


def field(data):
    return struct.pack("<Q", len(data)) + data


def patch_id(x, y):
    text = b"".join(field(t.encode()) for t in ("hires-flow patch", SLIDE))
    digits = b"".join(struct.pack("<q", v) for v in (x, y, WIDTH, WIDTH))
    h = list(hashlib.sha256(text + digits).hexdigest()[:32])
    h[12], h[16] = "4", "89ab"[int(h[16], 16) & 3]
    h = "".join(h)
    return "-".join((h[:8], h[8:12], h[12:16], h[16:20], h[20:]))


rows = [(x, y, float(n), float(t)) for (x, y), n, t in zip(corners, normal, tumor)]
with open("tests/golden/report/model.csv", "w") as f:
    f.write("minx,miny,width,height,prob_normal,prob_tumor\n")
    for x, y, n, t in rows:
        f.write(f"{x},{y},{WIDTH},{WIDTH},{n!r},{t!r}\n")
features = []
for x, y, n, t in rows:
    x0, y0, x1, y1 = float(x), float(y), float(x + WIDTH), float(y + WIDTH)
    features.append({
        "type": "Feature",
        "id": patch_id(x, y),
        "geometry": {"type": "Polygon",
                     "coordinates": [[(x1, y0), (x1, y1), (x0, y1), (x0, y0), (x1, y0)]]},
        "properties": {"isLocked": True,
                       "classification": {"name": "tumor", "color": [200, 69, 47]} if t > n
                       else {"name": "normal", "color": [47, 120, 183]},
                       "measurements": {"prob_normal": n, "prob_tumor": t},
                       "objectType": "tile"},
    })
with open("tests/golden/report/model.geojson", "w") as f:
    json.dump({"type": "FeatureCollection", "features": features}, f)
