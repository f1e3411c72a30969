"""Trains slide heads with hires-flow and with PyTorch, from the same weights in the same order.

    head_training.py BIN_DIR [--kinds abmil,...] [--slides 12] [--patches 300] [--width 64]
                     [--epochs 20] [--threads 2] [--optimizer adam]

Prints for each head the largest difference of an epoch's loss, absolute and relative (a loss near 0
is all rounding), and the seconds of a slide on both sides (reading the HDF5 files included). Dropout
is off.
"""
import argparse
import csv
import os
import subprocess
import tempfile
import time
from types import SimpleNamespace

import h5py
import numpy as np
import torch

import torch_heads

KINDS = ["mean", "abmil", "clam_sb", "clam_mb", "dsmil", "transmil"]


def make_cohort(folder, a):
    rng = np.random.default_rng(1)
    os.makedirs(folder + "/features")
    rows = ["slide,label,split"]
    for i in range(a.slides + 2):
        n = a.patches - int(rng.integers(0, a.patches // 4))
        x = rng.normal(size=(n, a.width)).astype(np.float32)
        if i % 2:
            x[: n // 10, :4] += 2
        with h5py.File(f"{folder}/features/s{i}.h5", "w") as f:
            f["features"] = x
        rows.append(f"s{i},{'nt'[i % 2]},{'training' if i < a.slides else 'testing'}")
    with open(folder + "/labels.csv", "w") as f:
        f.write("\n".join(rows) + "\n")


def recipe(folder, f, a):
    with open(f"{folder}/{f.kind}.yaml", "w") as out:
        out.write(f"""version: 1
features: {{folder: features}}
labels: {{csv: labels.csv, classes: [n, t]}}
head: {{kind: {f.kind}, hidden: {f.hidden}, attention: {f.attention}, landmarks: {f.landmarks}, dropout: 0}}
split: {{by: column, validation: 0}}
train: {{epochs: {a.epochs}, patience: 1000, learning_rate: 0.0002, weight_decay: 0.00001, shuffle: false, optimizer: {a.optimizer}}}
out: out-{f.kind}
""")


def ours(folder, f, a, **environment):
    begin = time.time()
    subprocess.run([a.bin + "/hires-flow", "head", "train", f"{folder}/{f.kind}.yaml", "--threads",
                    str(a.threads)], env={**os.environ, **environment}, stdout=subprocess.DEVNULL,
                   stderr=subprocess.DEVNULL)
    return time.time() - begin


def initial_weights(path, model, f, epochs):
    with open(path, "rb") as file:
        data = file.read()
    n = sum(p.numel() for p in model.parameters())
    # A checkpoint: magic and key, 3 numbers of progress, 4 of each epoch, then the weights.
    values = np.frombuffer(data, np.float32, n, 8 + 65 + (3 + 4 * epochs) * 8)
    at = 0
    for _, p in torch_heads.parameters(model, f):
        p.data = torch.from_numpy(values[at:at + p.numel()].copy()).reshape(p.shape)
        at += p.numel()


def main():
    p = argparse.ArgumentParser()
    p.add_argument("bin")
    p.add_argument("--kinds", default=",".join(KINDS))
    p.add_argument("--optimizer", default="adam")
    for name, value in dict(slides=12, patches=300, width=64, epochs=20, threads=2, hidden=512).items():
        p.add_argument("--" + name, type=int, default=value)
    a = p.parse_args()
    torch.set_num_threads(a.threads)
    for kind in a.kinds.split(","):
        f = SimpleNamespace(kind=kind, D=a.width, K=2, hidden=a.hidden, samples=8, heads=8,
                            attention=128 if kind == "dsmil" else 256, landmarks=256)
        with tempfile.TemporaryDirectory() as folder:
            make_cohort(folder, a)
            recipe(folder, f, a)
            ours(folder, f, a, HRF_CRASH_AT="head.start")
            model = torch_heads.make(f)
            initial_weights(f"{folder}/out-{kind}/fold-0-seed-1/checkpoint.bin", model, f, a.epochs)
            seconds = ours(folder, f, a)
            with open(f"{folder}/out-{kind}/fold-0-seed-1/history.csv") as file:
                losses = [float(r["training_loss"]) for r in csv.DictReader(file)]
            adam = torch.optim.AdamW if a.optimizer == "adamw" else torch.optim.Adam
            adam = adam(model.parameters(), 0.0002, weight_decay=0.00001)
            worst, most, begin = 0, 0, time.time()
            for epoch in range(a.epochs):
                total = 0
                for i in range(a.slides):
                    with h5py.File(f"{folder}/features/s{i}.h5") as file:
                        x = torch.from_numpy(file["features"][()])
                    logits, A = model(x)
                    loss = torch_heads.loss_of(model, f, logits, A, i % 2)
                    adam.zero_grad()
                    loss.backward()
                    adam.step()
                    total += loss.item()
                most = max(most, abs(total / a.slides - losses[epoch]))
                worst = max(worst, abs(total / a.slides - losses[epoch]) / (total / a.slides))
            steps = a.epochs * a.slides
            print(f"{kind}: losses {losses[0]:.4f} to {losses[-1]:.4f}, differ by {most:.1e} at most, {worst:.1e} relatively; "
                  f"a slide in {1e3 * seconds / steps:.1f} ms, PyTorch {1e3 * (time.time() - begin) / steps:.1f} ms",
                  flush=True)


if __name__ == "__main__":
    main()
