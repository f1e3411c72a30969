"""Slide heads in PyTorch, as their papers' own code writes them: the truth for heads/model."""
import math

import torch
import torch.nn.functional as F
from torch import nn


class Mean(nn.Module):
    def __init__(self, f):
        super().__init__()
        self.classifier = nn.Linear(f.D, f.K)

    def forward(self, x):
        return self.classifier(x.mean(0, keepdim=True)), None


class Attention(nn.Module):
    """ABMIL, and CLAM with one or with K branches."""

    def __init__(self, f):
        super().__init__()
        self.f = f
        self.fc = nn.Linear(f.D, f.hidden)
        self.attention_a = nn.Linear(f.hidden, f.attention)
        self.attention_b = nn.Linear(f.hidden, f.attention)
        self.attention_c = nn.Linear(f.attention, f.K if f.kind == "clam_mb" else 1)
        self.classifier = nn.Linear(f.hidden, f.K)
        if f.kind.startswith("clam"):
            self.instance_classifiers = nn.ModuleList([nn.Linear(f.hidden, 2) for _ in range(f.K)])

    def forward(self, x):
        h = F.relu(self.fc(x))
        a = self.attention_c(torch.tanh(self.attention_a(h)) * torch.sigmoid(self.attention_b(h)))
        A = F.softmax(a.transpose(0, 1), dim=1)
        z = A @ h
        if self.f.kind == "clam_mb":
            logits = (z * self.classifier.weight).sum(1)[None] + self.classifier.bias
        else:
            logits = self.classifier(z)
        self.h = h
        return logits, A

    def instance_loss(self, A, label):
        a = A[label if A.shape[0] > 1 else 0]
        k = min(self.f.samples, len(a))
        top = torch.cat([self.h[torch.topk(a, k)[1]], self.h[torch.topk(-a, k)[1]]])
        targets = torch.tensor([1] * k + [0] * k)
        return F.cross_entropy(self.instance_classifiers[label](top), targets)


class Dsmil(nn.Module):
    def __init__(self, f):
        super().__init__()
        self.i_classifier = nn.ModuleDict({"fc": nn.Linear(f.D, f.K)})
        q = nn.Sequential(nn.Linear(f.D, f.attention), nn.ReLU(), nn.Linear(f.attention, f.attention),
                          nn.Tanh())
        self.b_classifier = nn.ModuleDict({"q": q, "fcc": nn.Linear(f.K * f.D, f.K)})

    def forward(self, x):
        c = self.i_classifier["fc"](x)
        q = self.b_classifier["q"]
        Q, best = q(x), q(x[torch.sort(c, 0, descending=True)[1][0]])
        A = F.softmax(Q @ best.T / math.sqrt(Q.shape[1]), 0)
        self.highest = c.max(0)[0][None]
        return self.b_classifier["fcc"]((A.T @ x).reshape(1, -1)), A.T


def pinv(x, iters=6):
    x_abs = x.abs()
    z = x.transpose(-1, -2) / (x_abs.sum(-1).max() * x_abs.sum(-2).max())
    eye = torch.eye(x.shape[-1], dtype=x.dtype)[None]
    for _ in range(iters):
        xz = x @ z
        z = 0.25 * z @ (13 * eye - (xz @ (15 * eye - (xz @ (7 * eye - xz)))))
    return z


class Nystrom(nn.Module):
    def __init__(self, f):
        super().__init__()
        self.f = f
        c = f.hidden
        self.to_qkv = nn.Linear(c, 3 * c, bias=False)
        self.to_out = nn.Sequential(nn.Linear(c, c), nn.Dropout(0))
        self.res_conv = nn.Conv2d(f.heads, f.heads, (33, 1), padding=(16, 0), groups=f.heads, bias=False)

    def forward(self, x):
        n, h, m = x.shape[0], self.f.heads, self.f.landmarks
        x = F.pad(x, (0, 0, (m - n % m) % m, 0))
        q, k, v = [t.view(len(x), h, -1).transpose(0, 1) for t in self.to_qkv(x).chunk(3, -1)]
        q = q * q.shape[-1] ** -0.5
        ql, kl = [t.reshape(h, m, -1, t.shape[-1]).mean(2) for t in (q, k)]
        a1, a2, a3 = [F.softmax(s, -1) for s in (q @ kl.transpose(1, 2), ql @ kl.transpose(1, 2),
                                                 ql @ k.transpose(1, 2))]
        inverse = pinv(a2)
        out = (a1 @ inverse) @ (a3 @ v) + self.res_conv(v[None])[0]
        self.attention = (a1[:, -n:-n + 1 or None] @ inverse @ a3)[:, 0, -n:].mean(0)
        return self.to_out(out.transpose(0, 1).reshape(len(x), -1))[-n:]


class Layer(nn.Module):
    def __init__(self, f):
        super().__init__()
        self.norm = nn.LayerNorm(f.hidden)
        self.attn = Nystrom(f)

    def forward(self, x):
        return x + self.attn(self.norm(x))


class Grid(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.proj = nn.Conv2d(c, c, 7, 1, 3, groups=c)
        self.proj1 = nn.Conv2d(c, c, 5, 1, 2, groups=c)
        self.proj2 = nn.Conv2d(c, c, 3, 1, 1, groups=c)

    def forward(self, x, side):
        image = x[1:].T.reshape(1, -1, side, side)
        y = self.proj(image) + image + self.proj1(image) + self.proj2(image)
        return torch.cat([x[:1], y.flatten(2)[0].T])


class TransMil(nn.Module):
    def __init__(self, f):
        super().__init__()
        self._fc1 = nn.Sequential(nn.Linear(f.D, f.hidden), nn.ReLU())
        self.cls_token = nn.Parameter(torch.randn(1, f.hidden))
        self.layer1 = Layer(f)
        self.pos_layer = Grid(f.hidden)
        self.layer2 = Layer(f)
        self.norm = nn.LayerNorm(f.hidden)
        self._fc2 = nn.Linear(f.hidden, f.K)

    def forward(self, x):
        h = self._fc1(x)
        side = math.ceil(math.sqrt(len(h)))
        h = torch.cat([self.cls_token, h, h[:side * side - len(h)]])
        h = self.layer2(self.pos_layer(self.layer1(h), side))
        A = self.layer2.attn.attention[1:1 + len(x)][None]
        return self._fc2(self.norm(h)[:1]), A


def make(f):
    return {"mean": Mean, "dsmil": Dsmil, "transmil": TransMil}.get(f.kind, Attention)(f)


# The order of hires-flow's parameters, where it differs from PyTorch's.
def parameters(model, f):
    p = dict(model.named_parameters())
    if f.kind != "transmil":
        return list(p.items())
    names = ["_fc1.0.weight", "_fc1.0.bias", "cls_token"]
    layer = ["norm.weight", "norm.bias", "attn.to_qkv.weight", "attn.to_out.0.weight",
             "attn.to_out.0.bias", "attn.res_conv.weight"]
    names += ["layer1." + n for n in layer]
    names += [f"pos_layer.{c}.{w}" for c in ("proj", "proj1", "proj2") for w in ("weight", "bias")]
    names += ["layer2." + n for n in layer] + ["norm.weight", "norm.bias", "_fc2.weight", "_fc2.bias"]
    return [(n, p[n]) for n in names]


def loss_of(model, f, logits, A, label, weight=1.0):
    loss = weight * F.cross_entropy(logits, torch.tensor([label]))
    if f.kind == "dsmil":
        loss = 0.5 * loss + 0.5 * weight * F.cross_entropy(model.highest, torch.tensor([label]))
    if f.kind.startswith("clam"):
        loss = 0.7 * loss + 0.3 * model.instance_loss(A, label)
    return loss
