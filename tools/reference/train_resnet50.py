#!/usr/bin/env python3
"""Trains a ResNet-50 on made-up tissue and tells what INT8 costs it, by every fitting method.

    hires-flow demo-data COHORT --slides 10 --size 6000 --difficulty 0 --seed N      for each of the cohorts below
    train_resnet50.py --train COHORT [COHORT ...] --held-out COHORT [COHORT ...] --engine BIN/hires-engine --output DIR

The scales come from patches of the training cohorts, the figures from the held-out ones. Patches may lie across the rim
of a lesion, so that the net is not always right and a loss can be seen. Writes
DIR/resnet50.onnx (94 MB, so it is made and not kept) and DIR/resnet50.json with the figures.
Needs torch, torchvision, numpy, PIL and openslide.
"""
import argparse, json, os, subprocess, time
import numpy as np
import torch
import torchvision
from torch import nn
import train_demo

METHODS = ("minmax", "percentile", "entropy", "mse", "auto")


def engine_labels(args, images, *more):
    """Class numbers that the engine gives to normalised N x C x H x W images."""
    x, y = os.path.join(args.output, "x.npy"), os.path.join(args.output, "y.npy")
    np.save(x, images)
    subprocess.run([args.engine, "eval", os.path.join(args.output, "resnet50.onnx"), "--input", x, "--output", y,
                    "--batch", "32", *more], check=True, stderr=subprocess.DEVNULL)
    return np.load(y).argmax(1)


def normal(images):
    return train_demo.tensor(images.astype(np.float32) / 255).numpy()


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
            loss = nn.functional.cross_entropy(net(train_demo.tensor(train_demo.augment(images[pick], rng))),
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
    train_demo.SIZE = args.size
    rng = np.random.default_rng(args.seed)
    torch.manual_seed(args.seed)
    torch.set_num_threads(args.threads)
    sets = [[train_demo.cohort_patches(c, rng, args.per_slide, mixed=True) for c in cohorts] for cohorts in (args.train, args.held_out)]
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
