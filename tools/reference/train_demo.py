#!/usr/bin/env python3
"""Trains the demo model and writes it as ONNX with a record of how it was made.

    hires-flow demo-data COHORT --slides 10 --size 6000 --difficulty 0 --seed N      for each of the cohorts below
    train_demo.py --train COHORT [COHORT ...] --held-out COHORT --patches DIR --output models/demo.onnx

DIR holds real patches as normal/*.png and tumor/*.png (256 px at about 0.24 um/px); every fourth
of each class, in name order, is held out. Needs torch, numpy, PIL and openslide.
"""
import argparse, glob, hashlib, json, os, time
import xml.etree.ElementTree as ET
import numpy as np
import openslide
import torch
from PIL import Image, ImageDraw
from torch import nn

SIZE, MPP_LEVEL = 128, 1  # patches as the demo workflow cuts them: 128 px at 0.5 um/px
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


class Block(nn.Module):
    def __init__(self, inside, outside, stride):
        super().__init__()
        self.a = nn.Sequential(nn.Conv2d(inside, outside, 3, stride, 1, bias=False), nn.BatchNorm2d(outside), nn.ReLU(),
                               nn.Conv2d(outside, outside, 3, 1, 1, bias=False), nn.BatchNorm2d(outside))
        self.skip = nn.Identity() if inside == outside and stride == 1 else nn.Sequential(
            nn.Conv2d(inside, outside, 1, stride, bias=False), nn.BatchNorm2d(outside))

    def forward(self, x):
        return torch.relu(self.a(x) + self.skip(x))


class Net(nn.Module):
    """A residual net of 0.2 M weights; any image of 16 px or more."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(3, 16, 5, 2, 2, bias=False), nn.BatchNorm2d(16), nn.ReLU(),
                                  Block(16, 24, 2), Block(24, 24, 1), Block(24, 48, 2), Block(48, 48, 1),
                                  Block(48, 72, 2), Block(72, 72, 1))
        self.head = nn.Linear(72, 2)

    def forward(self, x):
        return self.head(self.body(x).mean((2, 3)))


def cohort_patches(cohort, rng, per_slide, mixed=False):
    """Patches at random places of the tissue; a lesion fills most of a tumour patch, none of a normal one. `mixed`: any
    share of lesion, and what fills most of the patch is its label, so that some patches are hard to tell."""
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
            y, x = rng.integers(0, h - SIZE), rng.integers(0, w - SIZE)
            if lesion.any() and wanted[1] > 0 and rng.random() < 0.5:
                ys, xs = np.nonzero(lesion[::8, ::8])
                i = rng.integers(len(ys))
                y, x = min(max(ys[i] * 8 - SIZE // 2, 0), h - SIZE), min(max(xs[i] * 8 - SIZE // 2, 0), w - SIZE)
            share = lesion[y:y + SIZE, x:x + SIZE].mean()
            if (spread[y:y + SIZE, x:x + SIZE] > 20).mean() < 0.3 or (0 < share < 0.6 and not mixed):
                continue
            label = int(share >= (0.5 if mixed else 0.6))
            if wanted[label] > 0:
                wanted[label] -= 1
                images.append(rgb[y:y + SIZE, x:x + SIZE].copy())
                labels.append(label)
    return np.stack(images), np.array(labels)


def real_patches(folder):
    train, held = ([], []), ([], [])
    for label, name in enumerate(("normal", "tumor")):
        for i, path in enumerate(sorted(glob.glob(os.path.join(folder, name, "*.png")))):
            image = np.asarray(Image.open(path).convert("RGB").resize((SIZE, SIZE), Image.BOX))
            side = held if i % 4 == 3 else train
            side[0].append(image)
            side[1].append(label)
    return [(np.stack(a), np.array(b)) for a, b in (train, held)]


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


def accuracy(net, images, labels):
    net.eval()
    with torch.no_grad():
        p = torch.cat([net(tensor(images[i:i + 64].astype(np.float32) / 255)) for i in range(0, len(images), 64)])
    return int((p.argmax(1).numpy() == labels).sum()), len(labels)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--train", nargs="+", required=True)
    parser.add_argument("--held-out", required=True)
    parser.add_argument("--patches", required=True)
    parser.add_argument("--output", default="models/demo.onnx")
    parser.add_argument("--epochs", type=int, default=14)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    rng = np.random.default_rng(args.seed)
    torch.manual_seed(args.seed)
    made = [cohort_patches(c, rng, 60) for c in args.train]
    held_made = cohort_patches(args.held_out, rng, 40)
    (real, real_labels), held_real = real_patches(args.patches)
    repeat = 8  # the real patches are few: each stands that often in an epoch
    images = np.concatenate([m[0] for m in made] + [real] * repeat)
    labels = np.concatenate([m[1] for m in made] + [real_labels] * repeat)
    net = Net()
    optimiser = torch.optim.AdamW(net.parameters(), 2e-3, weight_decay=1e-3)
    batch = 48
    steps = args.epochs * (len(images) // batch)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, 4e-3, steps)
    start = time.time()
    for epoch in range(args.epochs):
        net.train()
        order = rng.permutation(len(images))
        total = 0.0
        for i in range(0, len(order) // batch * batch, batch):
            pick = order[i:i + batch]
            loss = nn.functional.cross_entropy(net(tensor(augment(images[pick], rng))),
                                               torch.from_numpy(labels[pick]).long(), label_smoothing=0.02)
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            schedule.step()
            total += loss.item() * batch
        print(f"epoch {epoch + 1}: loss {total / len(order):.4f}, held-out made {accuracy(net, *held_made)}, "
              f"real {accuracy(net, *held_real)}, {time.time() - start:.0f} s", flush=True)
    net.eval()
    torch.onnx.export(nn.Sequential(net, nn.Softmax(1)), torch.zeros(1, 3, SIZE, SIZE), args.output, opset_version=13,
                      input_names=["input"], output_names=["probabilities"],
                      dynamic_axes={"input": {0: "batch", 2: "height", 3: "width"}, "probabilities": {0: "batch"}})
    record = {
        "model": "residual net, 5x5 stem and six basic blocks (24, 48, 72 channels), global mean, 2 classes, softmax",
        "parameters": sum(p.numel() for p in net.parameters()),
        "input": {"size": SIZE, "mpp": 0.5, "mean": MEAN, "std": STD}, "classes": ["normal", "tumor"],
        "training": {"made_patches": int(sum(len(m[1]) for m in made)), "real_patches": len(real_labels),
                     "real_repeat": repeat, "epochs": args.epochs, "seed": args.seed,
                     "cohort_seeds": "101, 102 (training), 103 (held out)"},
        "held_out": {name: dict(zip(("right", "of"), accuracy(net, *data)))
                     for name, data in (("made_patches", held_made), ("real_patches", held_real))},
        "sha256": hashlib.sha256(open(args.output, "rb").read()).hexdigest(),
    }
    with open(os.path.splitext(args.output)[0] + ".json", "w") as f:
        json.dump(record, f, indent=2)
        f.write("\n")
    print(json.dumps(record["held_out"]))


if __name__ == "__main__":
    main()
