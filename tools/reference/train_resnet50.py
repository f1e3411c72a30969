#!/usr/bin/env python3
"""Trains a ResNet-50 on made-up tissue and tells what INT8 costs it, by every fitting method.

    hires-flow demo-data COHORT --slides 10 --size 6000 --difficulty 0 --seed N      for each of the cohorts below
    train_resnet50.py --train COHORT [COHORT ...] --held-out COHORT [COHORT ...] --engine BIN/hires-engine --output DIR

The scales come from patches of the training cohorts, the figures from the held-out ones. Patches may lie across the rim
of a lesion, so that the net is not always right and a loss can be seen. Writes
DIR/resnet50.onnx (94 MB, so it is made and not kept) and DIR/resnet50.json with the figures.
Needs torch, torchvision, numpy, PIL and openslide.
"""
import argparse, glob, json, os, subprocess, time
import xml.etree.ElementTree as ET
import numpy as np
import openslide
import torch
import torchvision
from PIL import Image, ImageDraw
from torch import nn

MPP_LEVEL = 1  # 0.5 um/px
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
METHODS = ("minmax", "percentile", "entropy", "mse", "auto")


def cohort_patches(cohort, rng, per_slide, size):
    """Patches at random places of the tissue with any share of lesion; what fills most of a patch is its label, so that
    some are hard to tell."""
    images, labels = [], []
    for path in sorted(glob.glob(os.path.join(cohort, "testing/images/*.tif")))[:-1]:  # the last is cut short
        slide = openslide.OpenSlide(path)
        w, h = slide.level_dimensions[MPP_LEVEL]
        rgb = np.asarray(slide.read_region((0, 0), MPP_LEVEL, (w, h)))[..., :3]
        mask = Image.new("L", (w, h))
        xml = path.replace("images", "lesion_annotations").replace(".tif", ".xml")
        if os.path.exists(xml):
            for polygon in ET.parse(xml).iter("Coordinates"):
                ImageDraw.Draw(mask).polygon([(float(c.get("X")) / 2, float(c.get("Y")) / 2) for c in polygon], fill=255)
        lesion = np.asarray(mask) > 0
        spread = rgb.max(2).astype(int) - rgb.min(2)
        wanted = {0: per_slide, 1: per_slide if lesion.any() else 0}
        for _ in range(per_slide * 60):
            y, x = rng.integers(0, h - size), rng.integers(0, w - size)
            if lesion.any() and wanted[1] > 0 and rng.random() < 0.5:
                ys, xs = np.nonzero(lesion[::8, ::8])
                i = rng.integers(len(ys))
                y, x = min(max(ys[i] * 8 - size // 2, 0), h - size), min(max(xs[i] * 8 - size // 2, 0), w - size)
            share = lesion[y:y + size, x:x + size].mean()
            if (spread[y:y + size, x:x + size] > 20).mean() < 0.3:
                continue
            label = int(share >= 0.5)
            if wanted[label] > 0:
                wanted[label] -= 1
                images.append(rgb[y:y + size, x:x + size].copy())
                labels.append(label)
    return np.stack(images), np.array(labels)


def augment(x, rng):
    """Flips, quarter turns and stain: per-channel gamma, gain and offset, and a little blur."""
    out = np.empty(x.shape, np.float32)
    for i, image in enumerate(x):
        image = np.rot90(image, rng.integers(4))[:, ::rng.choice((-1, 1))].astype(np.float32) / 255
        image = image ** rng.uniform(0.75, 1.35, 3) * rng.uniform(0.88, 1.12, 3) + rng.uniform(-0.06, 0.06, 3)
        if rng.random() < 0.3:
            image = (image + np.roll(image, 1, 0) + np.roll(image, 1, 1) + np.roll(image, 1, (0, 1))) / 4
        out[i] = image + rng.normal(0, 0.015, image.shape)
    return out.clip(0, 1)


def tensor(x):
    x = (x - np.array(MEAN, np.float32)) / np.array(STD, np.float32)
    return torch.from_numpy(x.astype(np.float32).transpose(0, 3, 1, 2).copy())


def engine_labels(args, images, *more):
    """Class numbers that the engine gives to normalised N x C x H x W images."""
    x, y = os.path.join(args.output, "x.npy"), os.path.join(args.output, "y.npy")
    np.save(x, images)
    subprocess.run([args.engine, "eval", os.path.join(args.output, "resnet50.onnx"), "--input", x, "--output", y,
                    "--batch", "32", *more], check=True, stderr=subprocess.DEVNULL)
    return np.load(y).argmax(1)


def normal(images):
    return tensor(images.astype(np.float32) / 255).numpy()


def train(args, images, labels, rng):
    net = torchvision.models.resnet50(weights=None, num_classes=2)
    steps = args.epochs * (len(images) // args.batch)
    optimiser = torch.optim.AdamW(net.parameters(), 1e-3, weight_decay=1e-2)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, 1e-3, steps)
    start, done = time.time(), 0
    for epoch in range(args.epochs):
        net.train()
        order = rng.permutation(len(images))
        total = 0.0
        for i in range(0, len(order) // args.batch * args.batch, args.batch):
            pick = order[i:i + args.batch]
            loss = nn.functional.cross_entropy(net(tensor(augment(images[pick], rng))),
                                               torch.from_numpy(labels[pick]).long())
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            schedule.step()
            total += loss.item() * args.batch
            done += 1
        print(f"epoch {epoch + 1}/{args.epochs}: loss {total / len(order):.4f}, {time.time() - start:.0f} s", flush=True)
    return net.eval()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--train", nargs="+", required=True)
    parser.add_argument("--held-out", nargs="+", required=True)
    parser.add_argument("--engine", required=True)
    parser.add_argument("--output", required=True)
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--size", type=int, default=64)
    parser.add_argument("--per-slide", type=int, default=100)
    parser.add_argument("--samples", type=int, default=256, help="patches that the scales are made from")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--no-training", action="store_true", help="measure DIR/resnet50.onnx again")
    args = parser.parse_args()
    os.makedirs(args.output, exist_ok=True)
    rng = np.random.default_rng(args.seed)
    torch.manual_seed(args.seed)
    torch.set_num_threads(args.threads)
    sets = [[cohort_patches(c, rng, args.per_slide, args.size) for c in cohorts] for cohorts in (args.train, args.held_out)]
    (images, labels), (held, truth) = [tuple(np.concatenate(part) for part in zip(*s)) for s in sets]
    print(f"{len(images)} patches to train on, {len(held)} held out", flush=True)
    model = os.path.join(args.output, "resnet50.onnx")
    if not args.no_training:
        net = train(args, images, labels, rng)
        torch.onnx.export(net, torch.zeros(1, 3, args.size, args.size), model, opset_version=13, input_names=["input"],
                          output_names=["logits"], dynamic_axes={"input": {0: "batch"}, "logits": {0: "batch"}})
    sample = normal(images[rng.permutation(len(images))[:args.samples]])
    held = normal(held)
    labels_of = {p: engine_labels(args, held, "--precision", p) for p in ("fp32", "bf16", "fp16")}
    for method in METHODS:
        scales = os.path.join(args.output, f"{method}.json")
        engine_labels(args, sample, "--precision", "int8", "--method", method, "--save-scales", scales)
        labels_of[f"int8 {method}"] = engine_labels(args, held, "--precision", "int8", "--scales", scales)
    figures = {name: {"accuracy": float((got == truth).mean()), "agreement": float((got == labels_of["fp32"]).mean()),
                      "loss_pp": float(100 * ((labels_of["fp32"] == truth).mean() - (got == truth).mean()))}
               for name, got in labels_of.items()}
    record = {"model": "torchvision ResNet-50, 2 classes", "size": args.size, "held_out_patches": len(truth),
              "training_patches": len(images), "epochs": args.epochs, "calibration_patches": len(sample),
              "seed": args.seed, "figures": figures}
    with open(os.path.join(args.output, "resnet50.json"), "w") as f:
        json.dump(record, f, indent=2)
        f.write("\n")
    for name, f in figures.items():
        print(f"{name:16} accuracy {100 * f['accuracy']:.2f} %, loss {f['loss_pp']:+.2f} pp, labels as fp32 {100 * f['agreement']:.2f} %")


if __name__ == "__main__":
    main()
