#!/usr/bin/env python3
"""Trains in PyTorch what `hires-flow train` trained, by the same recipe and folds, and compares their AUCs.

    hires-flow model make resnet:1,16 --size 128 --activation softmax --output begin.onnx
    hires-flow train real.yaml
    torch_fine_tuning.py real.yaml

The recipe names folders of pictures (data.folders), a network of `model make resnet:B,W` with fresh statistics
(train.batch_norm: batch), adamw, folds. Which pictures train, validate and test comes from the predictions.csv that
train left; draws of pictures and changes are PyTorch's own, so the two agree as two seeds of one recipe do. The
intervals are DeLong's. Needs torch, torchvision, onnx, yaml, numpy and PIL.
"""
import argparse, csv, glob, math, os
import numpy as np
import onnx
import torch
import yaml
from onnx import numpy_helper
from PIL import Image
from torch import nn

from torch_nets import PlainResNet

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def changed(image, augment, rng):
    """Flips, quarter turns, a shift mirrored at the border, brightness, contrast and saturation."""
    image = np.rot90(image, rng.integers(4))[::rng.choice((-1, 1)), ::rng.choice((-1, 1))]
    most = int(augment.get("shift", 0.05) * image.shape[0])
    y, x = rng.integers(-most, most + 1, 2)
    n = image.shape[0]
    image = np.pad(image, ((most, most), (most, most), (0, 0)), "reflect")[most + y:most + y + n, most + x:most + x + n]
    c = augment.get("colour", 0.1)
    brightness, contrast, saturation = rng.uniform(1 - c, 1 + c, 3)
    image = image * brightness
    grey = image @ np.array((0.299, 0.587, 0.114))
    image = grey.mean() + (image - grey.mean()) * contrast
    grey = (image @ np.array((0.299, 0.587, 0.114)))[..., None]
    return (grey + (image - grey) * saturation).clip(0, 1)


def tensor(images):
    x = (np.stack(images) - np.array(MEAN)) / np.array(STD)
    return torch.tensor(x.transpose(0, 3, 1, 2).copy(), dtype=torch.float32)


def train(recipe, weights, images, labels, parts, seed):
    """Scores of the second class for all pictures, by the weights of the epoch with the lowest validation loss."""
    torch.manual_seed(seed)
    rng, net, t = np.random.default_rng(seed), PlainResNet(weights), recipe["train"]
    decayed = [p for p in net.parameters() if p.ndim > 1]
    optimiser = torch.optim.AdamW([{"params": decayed, "weight_decay": t["weight_decay"]},
                                   {"params": [p for p in net.parameters() if p.ndim == 1], "weight_decay": 0.0}])
    of_class = [[i for i, p in enumerate(parts) if p == "training" and labels[i] == c] for c in (0, 1)]
    held = [i for i, p in enumerate(parts) if p == "validation"]
    n_steps = max(1, sum(map(len, of_class)) // t["batch"])
    queues, best, scores = [[], []], math.inf, None
    for epoch in range(t["epochs"]):
        net.train()
        for step in range(n_steps):
            at, warm, end = epoch * n_steps + step, n_steps, t["epochs"] * n_steps
            rate = (at + 1) / warm if at < warm else 0.5 * (1 + math.cos(math.pi * (at - warm) / (end - warm)))
            for group in optimiser.param_groups:
                group["lr"] = t["learning_rate"] * rate
            pick = []
            for k in range(t["batch"]):
                if not queues[k % 2]:
                    queues[k % 2] = list(rng.permutation(of_class[k % 2]))
                pick.append(queues[k % 2].pop())
            loss = nn.functional.cross_entropy(net(tensor([changed(images[i], recipe.get("augment", {}), rng) for i in pick])),
                                               torch.tensor([labels[i] for i in pick]))
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
        net.eval()
        with torch.no_grad():
            outputs = net(tensor(images))
        loss = nn.functional.cross_entropy(outputs[held], torch.tensor([labels[i] for i in held])).item()
        if loss < best:
            best, scores = loss, outputs.softmax(1)[:, 1].numpy()
    return scores


def auc(scores, labels):
    """With DeLong's 95 % interval (Biometrics 44, 1988)."""
    a, b = ([s for s, label in zip(scores, labels) if label == c] for c in (1, 0))
    wins = np.array([[(x > y) + (x == y) / 2 for y in b] for x in a])
    spread = math.sqrt(wins.mean(1).var(ddof=1) / len(a) + wins.mean(0).var(ddof=1) / len(b))
    return wins.mean(), max(0, wins.mean() - 1.96 * spread), min(1, wins.mean() + 1.96 * spread)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recipe")
    parser.add_argument("--threads", type=int, default=1)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    recipe, root = yaml.safe_load(open(args.recipe)), os.path.dirname(os.path.abspath(args.recipe))
    weights = {i.name: numpy_helper.to_array(i) for i in onnx.load(os.path.join(root, recipe["model"]["file"])).graph.initializer}
    size, names, images, labels = recipe["model"]["input"]["size"], [], [], []
    folder = os.path.join(root, recipe["data"]["folders"])
    for label, word in enumerate(recipe["classes"]):
        for path in sorted(glob.glob(os.path.join(folder, word, "*.png"))):
            image = Image.open(path).convert("RGB").resize((size, size), Image.BOX)
            names.append(os.path.relpath(path, folder))
            images.append(np.asarray(image, np.float32) / 255)
            labels.append(label)
    tested = {"hires-flow": ([], []), "PyTorch": ([], [])}
    for out in sorted(glob.glob(os.path.join(root, recipe["out"], "fold-*-seed-1"))):
        rows = {row["path"]: row for row in csv.DictReader(open(os.path.join(out, "predictions.csv")))}
        known = {name: rows.get(name) for name in names}
        parts = [known[name]["part"] if known[name] else "training" for name in names]
        scores = train(recipe, weights, images, labels, parts, 1)
        for i, name in enumerate(names):
            if parts[i] == "testing":
                for program, score in (("hires-flow", float(known[name][f"score_{recipe['classes'][1]}"])), ("PyTorch", scores[i])):
                    tested[program][0].append(score)
                    tested[program][1].append(labels[i])
    for program, (scores, truth) in tested.items():
        print(f"{program:10} AUC %.4f [%.4f, %.4f] over {len(truth)} pictures" % auc(scores, truth))


if __name__ == "__main__":
    main()
