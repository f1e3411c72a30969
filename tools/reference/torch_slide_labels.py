#!/usr/bin/env python3
"""An encoder and a slide head that are trained together from slide labels (train.head), beside PyTorch.

    torch_slide_labels.py gradients BIN
    torch_slide_labels.py train train.yaml

`gradients` makes slides and a small encoder, lets `BIN/hires-flow train` take one step of SGD over several slides, and
compares what the weights have changed by with the gradient of the mean loss in PyTorch, in double, with all patches of
all slides in one graph: in one piece, over ranks, and in batches of other sizes. Heads without dropout.

`train` trains in PyTorch what `hires-flow train train.yaml` trained (head abmil, adamw, one fold), on the patches that it
cut and by the same recipe, and prints the AUC of the testing slides of both. Draws and changes of patches are PyTorch's
own, so the two agree as two seeds of one recipe do. Needs torch, torchvision, numpy and PIL; `train` yaml, too.
"""
import csv, glob, math, os, subprocess, sys, tempfile, types
import numpy as np
import torch
from PIL import Image
from torch import nn

import torch_heads
from torch_nets import PlainResNet, read_weights

MEAN, STD = np.array((0.485, 0.456, 0.406)), np.array((0.229, 0.224, 0.225))


def patches(folder, slide):
    """Of a slide, in the order of hires-flow: rows first."""
    place = lambda path: [int(n) for n in reversed(os.path.basename(path)[:-4].split("_"))]
    found = sorted(glob.glob(os.path.join(glob.escape(folder), "patches", glob.escape(slide) + ".*", "*.png")), key=place)
    x = np.stack([np.asarray(Image.open(path).convert("RGB"), np.float64) / 255 for path in found])
    return torch.tensor(((x - MEAN) / STD).transpose(0, 3, 1, 2).copy())


def labels_of(path, classes):
    return {row["slide"]: classes.index(row["label"]) for row in csv.DictReader(open(path)) if row["label"]}


def testing(folder):
    return {row["slide"]: row for row in csv.DictReader(open(os.path.join(folder, "predictions.csv"))) if row["part"] == "testing"}


def cut(out):
    folders = sorted(glob.glob(os.path.join(glob.escape(out), "patches", "*")))
    return [os.path.splitext(os.path.basename(f))[0] for f in folders if glob.glob(os.path.join(glob.escape(f), "*.png"))]


# ---- gradients ----------------------------------------------------------------------------------

RECIPE = """version: 1
model: {{file: encoder.onnx}}
data: {{slides: cohort/testing/images, csv: labels.csv, patch_size: 64, mpp: 1.0}}
classes: [normal, tumor]
split: {{folds: 2, validation: 0}}
train: {{head: {head}, batch: {batch}, patch_batch: {patch_batch}, epochs: 1, optimizer: sgd, momentum: 0, weight_decay: 0,
        warmup_epochs: 0, sampling: all, head_rate: 1, learning_rate: {rate}, layout: "{layout}"}}
augment: {{flips: false, turns: false, shift: 0, colour: 0, stain: 0}}
out: out
"""


def flow(binary, *words):
    done = subprocess.run([os.path.join(binary, "hires-flow"), *words], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"hires-flow {' '.join(words)}: {done.stdout}{done.stderr}")


def step(binary, **how):
    """The weights of both networks after one step."""
    open("train.yaml", "w").write(RECIPE.format(**how))
    flow(binary, "train", "train.yaml", "--fold", "0", "--seed", "1", "--threads", "2")
    return {**{"encoder." + k: v for k, v in read_weights("out/fold-0-seed-1/encoder.onnx").items()},
            **{"head." + k: v for k, v in read_weights("out/fold-0-seed-1/head.onnx").items()}}


def wanted(kind, weights, slides, labels):
    """The gradient of the mean loss, in double."""
    part = lambda prefix: {k[len(prefix):]: v for k, v in weights.items() if k.startswith(prefix)}
    encoder = PlainResNet(part("encoder.")).double().eval()
    f = types.SimpleNamespace(kind=kind, D=encoder.fc.weight.shape[0], K=2, hidden=512, attention=128)
    head = torch_heads.make(f).double()
    named = torch_heads.parameters(head, f)
    with torch.no_grad():
        for name, parameter in named:
            parameter.copy_(part("head.")[name])
    loss = 0
    for slide in slides:
        logits, A = head(encoder(patches("out", slide)))
        loss = loss + torch_heads.loss_of(head, f, logits, A, labels[slide]) / len(slides)
    loss.backward()
    return {**{"encoder." + k: v.grad for k, v in encoder.named_parameters()}, **{"head." + k: v.grad for k, v in named}}


def gradients(binary):
    binary, worst = os.path.abspath(binary), 0
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        flow(binary, "model", "make", "resnet:1,8", "--classes", "12", "--size", "64", "--output", "encoder.onnx")
        flow(binary, "demo-data", "cohort", "--slides", "12", "--size", "1300", "--difficulty", "0", "--seed", "3")
        rows = [row.split(",") for row in open("cohort/testing/reference.csv")]
        open("labels.csv", "w").write("slide,label\n" + "".join(f"{row[0]},{row[1].lower()}\n" for row in rows))
        labels = labels_of("labels.csv", ["normal", "tumor"])
        for kind in ("mean", "dsmil"):
            before = step(binary, head=kind, batch=1, patch_batch=4, rate=1e-30, layout="single")
            slides = [slide for slide in cut("out") if slide not in testing("out/fold-0-seed-1")]
            expected = wanted(kind, before, slides, labels)
            most = max(float(g.abs().max()) for g in expected.values())
            for patch_batch, layout in ((4, "single"), (3, "single"), (4, "data=2"), (3, "data=3"), (4, "stages=2")):
                after = step(binary, head=kind, batch=len(slides), patch_batch=patch_batch, rate=1, layout=layout)
                off = max(float((before[k].double() - after[k].double() - g).abs().max()) for k, g in expected.items())
                worst = max(worst, off / most)
                print(f"{kind:6} {len(slides)} slides, {patch_batch} patches at a time, {layout:9}: {off / most:.1e} of the largest gradient")
        os.chdir("/")
    print(f"at most {worst:.1e}")
    return worst > 2e-5


# ---- training -----------------------------------------------------------------------------------

class Abmil(nn.Module):
    def __init__(self, width, dropout=0.25):
        super().__init__()
        self.fc, self.a, self.b = nn.Linear(width, 512), nn.Linear(512, 256), nn.Linear(512, 256)
        self.c, self.classifier, self.dropout = nn.Linear(256, 1), nn.Linear(512, 2), nn.Dropout(dropout)

    def forward(self, x):
        h = self.dropout(torch.relu(self.fc(x)))
        a = self.c(self.dropout(torch.tanh(self.a(h))) * self.dropout(torch.sigmoid(self.b(h))))
        return self.classifier(torch.softmax(a.T, 1) @ h)


def changed(x, rng):
    """Each patch mirrored and turned; brightness and contrast by a tenth."""
    out = []
    for patch in x:
        patch = torch.rot90(patch, int(rng.integers(4)), (1, 2))
        patch = patch.flip(1) if rng.integers(2) else patch
        brightness, contrast = rng.uniform(0.9, 1.1, 2)
        out.append((patch - patch.mean()) * contrast + patch.mean() * brightness)
    return torch.stack(out)


def auc(scores, truth):
    wins = [(a > b) + (a == b) / 2 for a, x in zip(scores, truth) for b, y in zip(scores, truth) if x > y]
    return sum(wins) / len(wins)


def fit(recipe, weights, bags, labels, slides, seed):
    """Encoder and head after the last epoch."""
    t = recipe["train"]
    torch.manual_seed(seed)
    rng, encoder = np.random.default_rng(seed), PlainResNet(weights).eval()
    head, batch = Abmil(encoder.fc.weight.shape[0]), t.get("batch", 1)
    groups = []
    for net, rate in ((encoder, 1), (head, t.get("head_rate", 10))):
        for is_plain in (True, False):
            groups.append({"params": [p for p in net.parameters() if (p.ndim > 1) == is_plain], "rate": rate,
                           "weight_decay": t.get("weight_decay", 2e-5) if is_plain else 0})
    optimiser = torch.optim.AdamW(groups)
    n_steps, queues = max(1, len(slides) // batch), [[], []]
    for epoch in range(t["epochs"]):
        encoder.eval(), head.train()
        for k in range(n_steps):
            at, warm, end = epoch * n_steps + k, n_steps, t["epochs"] * n_steps
            rate = (at + 1) / warm if at < warm else 0.5 * (1 + math.cos(math.pi * (at - warm) / (end - warm)))
            for group in optimiser.param_groups:
                group["lr"] = t["learning_rate"] * rate * group["rate"]
            optimiser.zero_grad()
            for i in range(batch):
                label = (k * batch + i) % 2
                if not queues[label]:
                    queues[label] = list(rng.permutation([s for s in slides if labels[s] == label]))
                slide = queues[label].pop()
                loss = nn.functional.cross_entropy(head(encoder(changed(bags[slide], rng))), torch.tensor([label])) / batch
                loss.backward()
            optimiser.step()
    return encoder.eval(), head.eval()


def train(path):
    import yaml
    recipe, root = yaml.safe_load(open(path)), os.path.dirname(os.path.abspath(path))
    out, weights = os.path.join(root, recipe["out"]), read_weights(os.path.join(root, recipe["model"]["file"]))
    labels = labels_of(os.path.join(root, recipe["data"]["csv"]), recipe["classes"])
    bags = {slide: patches(out, slide).float() for slide in cut(out)}
    for folder in sorted(glob.glob(os.path.join(out, "fold-*-seed-*"))):
        tested, seed = testing(folder), int(folder.rsplit("-", 1)[1])
        encoder, head = fit(recipe, weights, bags, labels, [s for s in bags if s not in tested], seed)
        with torch.no_grad():
            scores = [float(torch.softmax(head(encoder(bags[s])), 1)[0, 1]) for s in tested]
        truth = [labels[s] for s in tested]
        ours = [float(row[f"score_{recipe['classes'][1]}"]) for row in tested.values()]
        print(f"{os.path.basename(folder)}: AUC of {len(truth)} testing slides {auc(ours, truth):.4f}, PyTorch's {auc(scores, truth):.4f}", flush=True)


if __name__ == "__main__":
    if len(sys.argv) != 3 or sys.argv[1] not in ("gradients", "train"):
        sys.exit(__doc__)
    torch.set_num_threads(1)
    sys.exit({"gradients": gradients, "train": train}[sys.argv[1]](sys.argv[2]))
