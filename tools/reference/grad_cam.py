#!/usr/bin/env python3
"""Grad-CAM of hires-engine (`eval --class-map`) against PyTorch's, in double, of the class with the largest output.

    grad_cam.py ENGINE [OPTION of eval ...]

Small networks of random weights: residual ones that end in a mean, a mean and two layers, a maximum or all pixels, and transformers
with a class token and without; and torchvision's ResNet-18 if that is there. For each the largest difference over the largest number
of the map; it is at most 1e-5, or the exit code is 1.
"""
import inspect
import subprocess
import sys
import tempfile
import warnings

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

LIMIT, ROWS, COLUMNS, CLASSES, WIDTH = 1e-5, 12, 8, 5, 48
warnings.filterwarnings("ignore")
torch.manual_seed(0)


class Block(nn.Module):
    def __init__(self, n_in, n_out):
        super().__init__()
        self.a, self.b, self.c = nn.Conv2d(n_in, n_out, 3, 2, 1), nn.Conv2d(n_out, n_out, 3, 1, 1), nn.Conv2d(n_in, n_out, 1, 2)

    def forward(self, x):
        return F.relu(self.b(F.relu(self.a(x))) + self.c(x))


class Residual(nn.Module):
    """features() and head(), which stand for the network: the map is that of what lies between."""

    def __init__(self, pool, layers):
        super().__init__()
        self.features = nn.Sequential(Block(3, 16), Block(16, 32), Block(32, WIDTH))
        self.pool, self.layers = pool, layers

    def head(self, f):
        return self.layers(self.pool(f).flatten(1))


class Transformer(nn.Module):
    def __init__(self, has_token, depth=3):
        super().__init__()
        self.has_token = has_token
        self.patches = nn.Conv2d(3, WIDTH, 8, 8)
        self.token = nn.Parameter(torch.randn(1, 1, WIDTH))
        self.places = nn.Parameter(torch.randn(1, ROWS * COLUMNS + has_token, WIDTH) * 0.1)
        self.blocks = nn.ModuleList(nn.TransformerEncoderLayer(WIDTH, 4, 96) for _ in range(depth))
        self.norm, self.linear = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, CLASSES)

    def block(self, m, x):
        n, t, c = x.shape
        qkv = F.linear(m.norm1(x), m.self_attn.in_proj_weight, m.self_attn.in_proj_bias)
        q, k, v = qkv.reshape(n, t, 3, 4, c // 4).permute(2, 0, 3, 1, 4)
        mixed = torch.softmax(q @ k.transpose(-2, -1) * (c // 4) ** -0.5, -1) @ v
        x = x + m.self_attn.out_proj(mixed.transpose(1, 2).reshape(n, t, c))
        return x + m.linear2(F.gelu(m.linear1(m.norm2(x))))

    def features(self, x):
        t = self.patches(x).flatten(2).transpose(1, 2)
        if self.has_token:
            t = torch.cat([self.token.expand(t.shape[0], -1, -1), t], 1)
        t = t + self.places
        for m in self.blocks[:-1] if self.has_token else self.blocks:
            t = self.block(m, t)
        return t if self.has_token else self.norm(t)

    def head(self, t):
        if self.has_token:
            return self.linear(self.norm(self.block(self.blocks[-1], t))[:, 0])
        return self.linear(t.mean(1))


class Whole(nn.Module):
    def __init__(self, net):
        super().__init__()
        self.net = net

    def forward(self, x):
        return torch.softmax(self.net.head(self.net.features(x)), 1)


def resnet18():
    import torchvision

    net = torchvision.models.resnet18()
    parts = list(net.children())
    net.features = nn.Sequential(*parts[:-2])
    net.head = lambda f: net.fc(net.avgpool(f).flatten(1))
    return net


def expected(net, x):
    features = net.features(x).detach().requires_grad_()
    (gradient,) = torch.autograd.grad(net.head(features).max(), features)
    if features.dim() == 4:
        return F.relu((gradient.mean((2, 3), keepdim=True) * features).sum(1))[0].detach().numpy()
    own, gradient = features[:, -ROWS * COLUMNS :], gradient[:, -ROWS * COLUMNS :]
    return F.relu((gradient.mean(1, keepdim=True) * own).sum(2)).reshape(ROWS, COLUMNS).detach().numpy()


def main():
    engine, *options = sys.argv[1:]
    linear, mean = nn.Linear(WIDTH, CLASSES), nn.AdaptiveAvgPool2d(1)
    two = nn.Sequential(nn.Linear(WIDTH, 32), nn.GELU(), nn.Linear(32, CLASSES))
    dense = nn.Sequential(nn.Linear(WIDTH * ROWS * COLUMNS, 64), nn.ReLU(), nn.Linear(64, CLASSES))
    nets = {
        "mean": Residual(mean, linear),
        "mean, two layers": Residual(mean, two),
        "maximum": Residual(nn.AdaptiveMaxPool2d(1), linear),
        "all pixels": Residual(nn.Identity(), dense),
        "transformer, class token": Transformer(True),
        "transformer, mean": Transformer(False),
    }
    try:
        nets["resnet18"] = resnet18()
    except ImportError:
        pass
    worst = 0
    exporter = {"dynamo": False} if "dynamo" in inspect.signature(torch.onnx.export).parameters else {}
    with tempfile.TemporaryDirectory() as folder:
        files = {name: f"{folder}/{name}" for name in ("net.onnx", "x.npy", "y.npy", "map.npy")}
        for name, net in nets.items():
            x = torch.randn(1, 3, 8 * ROWS, 8 * COLUMNS)
            whole = Whole(net).eval().float()
            torch.onnx.export(whole, (x,), files["net.onnx"], opset_version=16, **exporter)
            np.save(files["x.npy"], x.numpy())
            arguments = ["--input", files["x.npy"], "--output", files["y.npy"], "--class-map", files["map.npy"]]
            subprocess.run([engine, "eval", files["net.onnx"], *arguments, *options], check=True)
            wanted = expected(whole.double().net, x.double())
            apart = abs(np.load(files["map.npy"])[0, 0] - wanted).max() / wanted.max()
            print(f"{name}: {apart:.1e} apart")
            worst = max(worst, apart)
    sys.exit(1 if worst > LIMIT else 0)


if __name__ == "__main__":
    main()
