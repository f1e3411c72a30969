"""Losses, scores, attention and gradients of slide heads by PyTorch, in double precision.

    head_goldens.py             tests/golden/heads/*.bin: small shapes
    head_goldens.py --large DIR heads as they are used (D 1024, 512 hidden, 700 patches); then
                                HRF_HEAD_GOLDENS=DIR build/dev/tests/test_head compares them
"""
import argparse
import math
import os
from types import SimpleNamespace

import numpy as np
import torch

import torch_heads

KINDS = ["mean", "abmil", "clam_sb", "clam_mb", "dsmil", "transmil"]


def draw(n, seed, scale):
    out = np.empty(n, np.float32)
    for i in range(n):
        seed = (seed * 1664525 + 1013904223) & 0xFFFFFFFF
        out[i] = np.float32(np.float32(np.float32(seed >> 8) / np.float32(8388608)) - np.float32(1)) * np.float32(scale)
    return out


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--large")
    large = parser.parse_args().large
    folder = large or "tests/golden/heads"
    os.makedirs(folder, exist_ok=True)
    for k, kind in enumerate(KINDS):
        f = SimpleNamespace(kind=kind, N=700 if large else 11, D=1024 if large else 6, K=3,
                            hidden=512 if large else 8, attention=128 if large else 4,
                            landmarks=256 if large else 4, heads=8 if large else 2,
                            samples=8 if large else 3, label=1)
        model = torch_heads.make(f).double()
        for i, (_, p) in enumerate(torch_heads.parameters(model, f)):
            # As hires-flow stores it: [rows][columns], one row for vectors.
            columns = p.numel() // p.shape[0] if p.dim() > 1 else p.numel()
            is_matrix = p.numel() > columns
            scale = np.float32(1) / np.sqrt(np.float32(columns)) if is_matrix else np.float32(0.5)
            values = draw(p.numel(), 77 + i, scale)
            p.data = torch.from_numpy(values.astype(np.float64)).reshape(p.shape)
        x = torch.from_numpy(draw(f.N * f.D, 5, 1).astype(np.float64)).reshape(f.N, f.D)
        logits, A = model(x)
        loss = torch_heads.loss_of(model, f, logits, A, f.label, 1.5)
        loss.backward()
        parts = [loss.detach().reshape(1), torch.softmax(logits, 1).detach().reshape(-1)]
        if A is not None:
            parts.append(A.detach().reshape(-1))
        for _, p in torch_heads.parameters(model, f):
            parts.append((p.grad if p.grad is not None else torch.zeros_like(p)).reshape(-1))
        with open(f"{folder}/{kind}.bin", "wb") as out:
            out.write(np.array([k, f.N, f.D, f.K, f.hidden, f.attention, f.landmarks, f.heads,
                                f.samples, f.label], np.int32).tobytes())
            out.write(torch.cat(parts).numpy().astype(np.float32).tobytes())
        print(kind, float(loss.detach()), math.prod(logits.shape))


if __name__ == "__main__":
    main()
