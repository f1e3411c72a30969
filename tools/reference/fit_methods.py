#!/usr/bin/env python3
"""What each precision, and INT8 by each fitting method, costs on real patches.

    hires-flow demo-data COHORT --slides 10 --size 6000 --difficulty 0
    fit_methods.py --bin BUILD/bin --model models/demo.onnx --cohort COHORT --patches DIR

DIR holds real patches as normal/*.png and tumor/*.png, 256 px at about 0.24 um/px. INT8 is calibrated on COHORT alone, so
the patches are new to it. They are cut into squares of --size px at 0.5 um/px. Every fourth of each class, in name order,
was kept out of the demo model's training too; these have a column of their own. Needs numpy and PIL.
"""
import argparse, glob, json, os, subprocess, sys, tempfile
import numpy as np
from PIL import Image

METHODS = ("minmax", "percentile", "entropy", "mse", "auto")
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
WORKFLOW = """version: 1
name: fit-methods
dataset: {{layout: camelyon16, root: {cohort}}}
tiler: {{patch: {{size: {size}, mpp: 0.5}}, tissue: {{min_patches: 4}}}}
model: {{file: {model}}}
precision: [fp32, int8]
calibrate: {{samples: {samples}}}
cache: {work}/cache
"""


def real_patches(folder, size):
    """Normalised N x 3 x size x size, labels, and which were never trained on."""
    images, labels, new = [], [], []
    for label, name in enumerate(("normal", "tumor")):
        for i, path in enumerate(sorted(glob.glob(os.path.join(folder, name, "*.png")))):
            whole = np.asarray(Image.open(path).convert("RGB").resize((128, 128), Image.BOX), np.float32) / 255
            for y in range(0, 129 - size, size):
                for x in range(0, 129 - size, size):
                    images.append((whole[y:y + size, x:x + size] - np.array(MEAN, np.float32)) / np.array(STD, np.float32))
                    labels.append(label)
                    new.append(i % 4 == 3)
    return np.stack(images).transpose(0, 3, 1, 2).astype(np.float32).copy(), np.array(labels), np.array(new)


def probabilities(args, work, *more):
    y = os.path.join(work, "y.npy")
    subprocess.run([os.path.join(args.bin, "hires-engine"), "eval", args.model, "--input", os.path.join(work, "x.npy"), "--output",
                    y, "--batch", "32", *more], check=True, stderr=subprocess.DEVNULL)
    z = np.load(y).astype(np.float64)
    e = np.exp(z - z.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


def calibrate(args, work, method):
    """Path of a calibration by `method`; the slides are looked at once for all of them."""
    flow, out = os.path.join(args.bin, "hires-flow"), os.path.join(work, f"{method}.json")
    run = [flow, "calibrate", os.path.join(work, "w.yaml"), "--out", os.path.join(work, "run"), "--set", f"calibrate.method={method}"]
    key = json.loads(subprocess.run(run + ["--json"], check=True, capture_output=True).stdout)["key"]
    subprocess.run([flow, "calibrate", "--cache", os.path.join(work, "cache"), "--show", key, "--export", out], check=True)
    return out


def measure(args, work):
    images, labels, new = real_patches(args.patches, args.size)
    np.save(os.path.join(work, "x.npy"), images)
    with open(os.path.join(work, "w.yaml"), "w") as f:
        f.write(WORKFLOW.format(cohort=os.path.abspath(args.cohort), model=os.path.abspath(args.model), size=args.size,
                                samples=args.samples, work=work))
    outputs = {p: probabilities(args, work, "--precision", p) for p in ("fp32", "bf16", "fp16")}
    for method in METHODS:
        outputs[f"int8 {method}"] = probabilities(args, work, "--precision", "int8", "--scales", calibrate(args, work, method))
    reference = outputs["fp32"]
    rows = []
    for name, p in outputs.items():
        same = p.argmax(1) == reference.argmax(1)
        rows.append({"precision": name, "agreement": float(same.mean()), "agreement_new": float(same[new].mean()),
                     "max_abs_difference": float(abs(p - reference).max()),
                     "mean_abs_difference": float(abs(p - reference).mean()), "accuracy": float((p.argmax(1) == labels).mean())})
    return {"model": os.path.basename(args.model), "patches": len(labels), "patches_new": int(new.sum()), "rows": rows}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", required=True, help="folder of hires-flow and hires-engine")
    parser.add_argument("--model", required=True)
    parser.add_argument("--cohort", required=True)
    parser.add_argument("--patches", required=True)
    parser.add_argument("--size", type=int, default=128, help="px that the model sees, 128 or less")
    parser.add_argument("--samples", type=int, default=256)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as work:
        result = measure(args, work)
    if args.json:
        json.dump(result, sys.stdout, indent=2)
        print()
        return
    print(f"{result['model']}: {result['patches']} real squares, {result['patches_new']} of them never trained on")
    print(f"{'':16} {'labels as fp32':>14} {'of the new':>11} {'max |dp|':>10} {'mean |dp|':>10} {'accuracy':>9}")
    for r in result["rows"]:
        print(f"{r['precision']:16} {100 * r['agreement']:12.2f} % {100 * r['agreement_new']:9.2f} % {r['max_abs_difference']:10.6f} "
              f"{r['mean_abs_difference']:10.6f} {100 * r['accuracy']:7.2f} %")


if __name__ == "__main__":
    main()
