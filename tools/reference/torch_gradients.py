"""Gradients of hires-engine against PyTorch's in double.

    torch_gradients.py ENGINE [--device cpu|ref|cuda|cpu,ref] [--without CASE,CASE] [--size N] [--batch-norm frozen|train] [--precision fp32|bf16] [NET ...]

NET is a network of torchvision, or made/NAME: the network that `model make NAME` writes, against PyTorch's own definition of it
(torch_nets.py). Without one, small networks that have, together, every kind of operator with a gradient.
For each weight tensor: the largest difference over the largest value of PyTorch's gradient (or over a ten-thousandth of the
largest gradient of the network, if that is more). It is at most 1e-5, or the exit code is 1. A ReLU or a maximum whose input is
within rounding of its corner may take the other side in float32: then all weights before it are some 1e-3 apart. Beside it stands
the same of PyTorch's own gradients in float32.

In bf16: the cosine between each weight tensor's gradient and PyTorch's in double, beside that of PyTorch's own under
torch.autocast. The exit code is 1 if the median of the angles is more than 2.5 times autocast's.
"""
import argparse
import os
import subprocess
import sys
import tempfile
import types
import warnings

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

import torch_nets

LIMIT = 1e-5
LOSSES = {"cross_entropy": F.cross_entropy, "mse": F.mse_loss, "bce": F.binary_cross_entropy_with_logits}
warnings.filterwarnings("ignore")


def different_weights(net):
    """No two tensors alike: the exporter writes equal ones once."""
    for module in net.modules():
        if getattr(module, "eps", None) is not None and getattr(module, "weight", None) is not None:
            module.weight.data = torch.rand_like(module.weight) + 0.5
            module.bias.data = torch.randn_like(module.bias) * 0.1
        if getattr(module, "running_mean", None) is not None:
            module.running_mean.data = torch.randn_like(module.running_mean) * 0.1
            module.running_var.data = torch.rand_like(module.running_var) + 0.5
        if type(module).__name__ == "StochasticDepth":
            module.p = 0.0
        if isinstance(module, nn.Dropout):
            module.p = 0.0
    for parameter in net.parameters():
        parameter.data += 1e-3 * torch.randn_like(parameter)


def gradients(net, x, target, loss, trains, dtype):
    net = net.to(dtype)
    net.train(trains)
    net.zero_grad()
    value = LOSSES[loss](net(x.to(dtype)), target if target.dtype == torch.long else target.to(dtype))
    value.backward()
    weights = [*net.named_parameters(), *net.named_buffers()]
    return value.item(), {name: p.grad.numpy().copy() for name, p in weights if p.grad is not None}


def autocast_gradients(net, x, target, loss, trains):
    net = net.float()
    net.train(trains)
    net.zero_grad()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = net(x)
    LOSSES[loss](y.float(), target if target.dtype == torch.long else target.float()).backward()
    weights = [*net.named_parameters(), *net.named_buffers()]
    return {name: p.grad.double().numpy().copy() for name, p in weights if p.grad is not None}


def cosines(given, wanted):
    """Of the tensors, the smallest first; one whose gradient is zero but for rounding has none."""
    largest = max(np.abs(w).max() for w in wanted.values())
    pairs = [(name, given[name].astype(np.double).ravel(), w.ravel()) for name, w in wanted.items() if np.abs(w).max() > 1e-12 * largest]
    return sorted((g @ w / max(np.linalg.norm(g) * np.linalg.norm(w), 1e-300), name) for name, g, w in pairs)


def compare_angles(name, given, wanted, other):
    got, torchs = cosines(given, wanted), dict((name, c) for c, name in cosines(other, wanted))
    angle = [np.median(np.arccos(np.clip(list(c), -1, 1))) for c in ((c for c, _ in got), torchs.values())]
    low = [where for c, where in got if c < 0.999]
    beside = min(torchs.values()), sum(c < 0.999 for c in torchs.values())
    ok = angle[0] <= 2.5 * angle[1]
    print(f"{name:16} {len(got)} weights, cosine {got[0][0]:.6f} at least ({got[0][1]}), {len(low)} below 0.999, median angle "
          f"{angle[0]:.4f} (autocast: {beside[0]:.6f}, {beside[1]}, {angle[1]:.4f}){'' if ok else ' WRONG'}", flush=True)
    return ok


def file_name(weight):
    return weight.replace("%", "%25").replace("/", "%2F") + ".npy"


def export(net, x, path):
    net.float().train(False)
    has_norm = any(isinstance(m, nn.modules.batchnorm._BatchNorm) for m in net.modules())
    mode = torch.onnx.TrainingMode.PRESERVE if has_norm else torch.onnx.TrainingMode.EVAL  # EVAL folds it
    linear = any(isinstance(m, LinearAttention) for m in net.modules())
    try:
        torch.onnx.export(net, (x.float(),), path, opset_version=17, do_constant_folding=False, training=mode,
                          custom_opsets={"hires-flow": 1} if linear else None)
    except torch.onnx.errors.CheckerError:
        if not any(isinstance(m, CausalAttention) for m in net.modules()):
            raise
        with open(path, "r+b") as file:  # Attention came with opset 23, and the exporter's newest is 17
            at = file.read().rindex(b"\x10\x11")
            file.seek(at + 1)
            file.write(b"\x17")


def compare(engine, name, path, net, x, target, loss="cross_entropy", device="cpu", norm="frozen", layout="single",
            precision="fp32"):
    value, wanted = gradients(net, x, target, loss, norm == "train", torch.double)
    largest = max(np.abs(w).max() for w in wanted.values())

    def worst_of(given):
        apart = {name: np.abs(given[name] - w).max() / max(np.abs(w).max(), 1e-4 * largest) for name, w in wanted.items()}
        return max((difference, name) for name, difference in apart.items())

    with tempfile.TemporaryDirectory() as work:
        np.save(work + "/x.npy", x.float().numpy())
        np.save(work + "/t.npy", target.float().numpy())
        subprocess.run([engine, "gradient", path, "--input", work + "/x.npy", "--target", work + "/t.npy",
                        "--loss", loss, "--output", work + "/g", "--device", device, "--batch-norm", norm, "--layout", layout,
                        "--precision", precision],
                       check=True, stdout=subprocess.DEVNULL)
        got = float(np.load(work + "/g/loss.npy"))
        files = {weight: work + "/g/" + file_name(weight) for weight in wanted}
        missing = [weight for weight, file in files.items() if not os.path.exists(file)]
        if missing:
            print(f"{name}: no gradient to {', '.join(missing)}")
            return False
        given = {weight: np.load(file) for weight, file in files.items()}
    if precision == "bf16":
        return compare_angles(name, given, wanted, autocast_gradients(net, x, target, loss, norm == "train"))
    worst, where = worst_of(given)
    float32, _ = worst_of(gradients(net, x, target, loss, norm == "train", torch.float)[1])
    ok = worst <= LIMIT and abs(got - value) <= 1e-5 * abs(value)
    print(f"{name:16} loss {got:.6f} ({value:.6f} by PyTorch), {len(wanted)} weights, {worst:.1e} apart ({where}; "
          f"PyTorch's float32: {float32:.1e}){'' if ok else ' WRONG'}", flush=True)
    return ok


def check(engine, name, net, x, target, **how):
    different_weights(net)
    with tempfile.TemporaryDirectory() as work:
        export(net, x, work + "/m.onnx")
        return compare(engine, name, work + "/m.onnx", net, x, target, **how)


def check_made(engine, name, size, seed, **how):
    torch.manual_seed(seed)
    with tempfile.TemporaryDirectory() as work:
        path = work + "/m.onnx"
        subprocess.run([engine, "model", "make", name, "--size", str(size), "--classes", "10", "--seed", str(seed), "--output",
                        path], check=True, stdout=subprocess.DEVNULL)
        net = torch_nets.load_made(path, name)[0]
        for weight, buffer in net.named_buffers():
            buffer.requires_grad_(weight.endswith("projection"))
        if name.startswith("resnet-v2"):  # its softmax belongs to the loss
            net.register_forward_hook(lambda module, inputs, y: y.log())
        x = torch.randn(2, 3, size, size)
        segments = name.startswith("unet")
        target = torch.randint(0, 10, (2, size, size)) if segments else torch.tensor([3, 7])
        return compare(engine, name, path, net, x, target, **how)


class Block(nn.Module):
    def __init__(self, width=12, heads=3):
        super().__init__()
        self.heads = heads
        self.norms = nn.ModuleList([nn.LayerNorm(width), nn.LayerNorm(width)])
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))
        self.scale = nn.Parameter(torch.rand(width))

    def forward(self, x):
        n, tokens, width = x.shape
        q, k, v = self.qkv(self.norms[0](x)).reshape(n, tokens, 3, self.heads, -1).permute(2, 0, 3, 1, 4).unbind(0)
        weights = (q * (width // self.heads) ** -0.5 @ k.transpose(-2, -1)).softmax(-1)
        x = x + self.scale * self.out((weights @ v).transpose(1, 2).reshape(n, tokens, width))
        return x + self.mlp(self.norms[1](x))


class Transformer(nn.Module):
    def __init__(self):
        super().__init__()
        self.patches = nn.Conv2d(3, 12, 4, stride=4)
        self.token, self.position = nn.Parameter(torch.randn(1, 1, 12)), nn.Parameter(torch.randn(1, 5, 12))
        self.blocks, self.norm, self.head = nn.Sequential(Block(), Block()), nn.LayerNorm(12), nn.Linear(12, 5)

    def forward(self, x):
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], 1) + self.position
        return self.head(self.norm(self.blocks(x))[:, 0])


class Moves(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.head = nn.Conv2d(3, 8, 1), nn.Linear(16, 5)
        self.table = nn.Parameter(torch.randn(9, 2))

    def forward(self, x):
        x = self.conv(x)
        x = torch.roll(torch.cat([x[:, :, 0::2, 0::2], x[:, :, 1::2, 0::2]], 1), (1, -1), (2, 3))
        bias = self.table[torch.tensor([0, 1, 3, 8])].view(2, 2, 2).permute(2, 0, 1)
        x = x.reshape(x.shape[0], 2, 8, 4) * bias.reshape(1, 2, 1, 4)
        x = torch.maximum(x[:, 0], x[:, 1] * x[:, 1].abs().sqrt() / (1 + x[:, 0] ** 2)) - x[:, 0].pow(3)
        return self.head(x.reshape(x.shape[0], -1)[:, :16])


class Reductions(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.head = nn.Conv2d(3, 8, 1), nn.Linear(24, 5)

    def forward(self, x):
        x = self.conv(x)
        x = torch.cat([x.relu().amax((2, 3)), x.amin((2, 3)), x[:, :, 0].prod(2)], 1)  # many a maximum of 0 has ties
        return self.head(x)


class OfOwnNode(torch.autograd.Function):
    """One operator in the file: only for the exporter, so the value is any of the same shape."""

    @staticmethod
    def forward(ctx, module, *inputs):
        return inputs[0].clone()

    @staticmethod
    def symbolic(g, module, *inputs):
        return module.node(g, *inputs)


class LRN(nn.LocalResponseNorm):
    """The exporter writes it as a pool over three axes."""

    def compute(self, x):
        return super().forward(x)

    def node(self, g, x):
        return g.op("LRN", x, alpha_f=self.alpha, beta_f=self.beta, bias_f=self.k, size_i=self.size).setType(x.type())

    def forward(self, x):
        return OfOwnNode.apply(self, x) if torch.onnx.is_in_onnx_export() else self.compute(x)


class CausalAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv, self.head = nn.Linear(12, 36), nn.Linear(12, 5)

    def compute(self, q, k, v):
        seen = torch.ones(q.shape[2], k.shape[2]).tril().bool()
        return (q @ k.transpose(2, 3) / 2).masked_fill(~seen, -np.inf).softmax(-1) @ v

    def node(self, g, q, k, v):
        return g.op("Attention", q, k, v, is_causal_i=1, scale_f=0.5).setType(q.type())

    def forward(self, x):
        q, k, v = self.qkv(x).reshape(x.shape[0], 6, 3, 3, 4).permute(2, 0, 3, 1, 4).unbind(0)
        y = OfOwnNode.apply(self, q, k, v) if torch.onnx.is_in_onnx_export() else self.compute(q, k, v)
        return self.head(y.transpose(1, 2).reshape(x.shape[0], 72)[:, 60:])


class LinearAttention(nn.Module):
    def __init__(self, softmax):
        super().__init__()
        self.qkv, self.attention = nn.Conv2d(3, 24, 1), torch_nets.Performer(2, 6, 4, softmax)
        self.attention.projection = nn.Parameter(torch.randn(6, 4))

    def compute(self, q, k, v, projection):
        return self.attention(q, k, v)

    def node(self, g, q, k, v, projection):
        kernel, epsilon = ("softmax", 1e-4) if self.attention.softmax else ("relu", 1e-3)
        return g.op("hires-flow::PerformerAttention", q, k, v, projection, heads_i=2, kernel_s=kernel,
                    epsilon_f=epsilon).setType(q.type())

    def forward(self, x):
        inputs = [*self.qkv(x).split(8, 1), self.attention.projection]
        return OfOwnNode.apply(self, *inputs) if torch.onnx.is_in_onnx_export() else self.compute(*inputs)


def mean(*layers, width):
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, 5))


def small():
    conv, up = nn.Conv2d, nn.Upsample
    functions = [nn.LeakyReLU(0.1), nn.ELU(), nn.Hardswish(), nn.Hardsigmoid(), nn.Softplus(), nn.Mish(), nn.PReLU(6), nn.Tanh(),
                 nn.SELU(), nn.SiLU()]
    # The bias of a convolution before a norm of the batch has the gradient 0.
    normed = mean(conv(3, 6, 3, bias=False), nn.BatchNorm2d(6), nn.ReLU(), conv(6, 6, 3, padding=1, groups=6, bias=False),
                  nn.BatchNorm2d(6), nn.ReLU6(), width=6)
    # Before a second one, the scale of a norm would hardly matter: its gradient is what rounding leaves.
    of_batch = mean(conv(3, 6, 3, bias=False), nn.BatchNorm2d(6), nn.SiLU(), conv(6, 6, 3, padding=1, groups=6), nn.ReLU6(), width=6)
    plain = nn.Sequential(conv(3, 6, 3, stride=2, padding=1), nn.ReLU(), conv(6, 4, 3, dilation=2, groups=2), nn.Flatten(),
                          nn.Linear(24, 5))
    classes = torch.tensor([1, 4, 0])
    yield "convolutions", plain, torch.randn(3, 3, 13, 11), classes, {}
    yield "mse", plain, torch.randn(3, 3, 13, 11), torch.randn(3, 5), {"loss": "mse"}
    yield "bce", plain, torch.randn(3, 3, 13, 11), torch.rand(3, 5), {"loss": "bce"}
    yield "batch norm", normed, torch.randn(3, 3, 9, 9), classes, {}
    yield "of the batch", of_batch, torch.randn(3, 3, 21, 21), classes, {"norm": "train"}
    yield "pools", nn.Sequential(conv(3, 6, 3), nn.MaxPool2d(3, 2, 1), conv(6, 6, 1), nn.AvgPool2d(3, 2, 1), conv(6, 4, 1),
                                 nn.AvgPool2d(2, 2, ceil_mode=True, count_include_pad=False), nn.Flatten(),
                                 nn.Linear(36, 5)), torch.randn(3, 3, 23, 22), classes, {}
    yield "transposed", nn.Sequential(conv(3, 6, 3, stride=2), nn.GELU(),
                                      nn.ConvTranspose2d(6, 4, 3, stride=2, padding=1, output_padding=1), nn.Sigmoid(),
                                      nn.AdaptiveMaxPool2d(1), nn.Flatten(), nn.Linear(4, 5)), torch.randn(3, 3, 11, 12), classes, {}
    yield "functions", mean(conv(3, 6, 1), *[m for f in functions for m in (f, conv(6, 6, 1))], width=6), torch.randn(
        3, 3, 5, 4), classes, {}
    yield "resizing", mean(conv(3, 6, 3), up(scale_factor=2), conv(6, 5, 3), up(scale_factor=2, mode="bilinear"), conv(5, 4, 3),
                           up(scale_factor=2, mode="bilinear", align_corners=True), nn.PixelShuffle(2),
                           width=1), torch.randn(3, 3, 7, 8), classes, {}
    yield "pads", mean(nn.ReflectionPad2d(2), conv(3, 6, 3), nn.ReplicationPad2d((1, 2, 0, 3)), conv(6, 4, 3),
                       nn.ZeroPad2d((1, 0, 2, 1)), conv(4, 4, 3, stride=2), width=4), torch.randn(3, 3, 7, 8), classes, {}
    yield "norms", nn.Sequential(conv(3, 8, 3, bias=False), nn.GroupNorm(4, 8), nn.ReLU(), conv(8, 8, 1, bias=False),
                                 nn.InstanceNorm2d(8, affine=True), nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.LayerNorm(32),
                                 nn.Linear(32, 5)), torch.randn(3, 3, 8, 8), classes, {}
    yield "segmentation", nn.Sequential(conv(3, 6, 3, padding=1), nn.ReLU(), conv(6, 4, 1)), torch.randn(
        2, 3, 6, 7), torch.randint(0, 4, (2, 6, 7)), {}
    yield "transformer", Transformer(), torch.randn(3, 3, 8, 8), classes, {}
    yield "reductions", Reductions(), torch.randn(3, 3, 2, 4), classes, {}
    yield "lrn", mean(conv(3, 6, 3), LRN(3, 0.5), conv(6, 6, 1), LRN(5, 0.5, k=2), width=6), torch.randn(
        3, 3, 7, 8), classes, {}
    yield "causal", CausalAttention(), torch.randn(3, 6, 12), classes, {}
    for kernel in ("relu", "softmax"):
        yield f"performer {kernel}", mean(LinearAttention(kernel == "softmax"), width=8), torch.randn(3, 3, 4, 5), classes, {}
    yield "moves", Moves(), torch.randn(3, 3, 4, 4), classes, {}


def large(names, size, seed):
    import torchvision.models as models
    import torchvision.models.swin_transformer as swin
    # Its dropout of attention, of rate 0, is exported as one that trains.
    swin.F = types.SimpleNamespace(**{k: getattr(F, k) for k in dir(F)})
    swin.F.dropout = lambda x, p=0, training=False: x
    for name in names:
        torch.manual_seed(seed)
        yield name, getattr(models, name)(weights=None, num_classes=10), torch.randn(2, 3, size, size), torch.tensor([3, 7]), {}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("engine")
    parser.add_argument("nets", nargs="*")
    parser.add_argument("--device", default="cpu", help="or several, with commas between")
    parser.add_argument("--layout", default="single", help="several, with colons between: all but the first on the first device")
    parser.add_argument("--without", default="", help="small networks to leave out: the device has no kernel for them")
    parser.add_argument("--size", type=int, default=64)
    parser.add_argument("--seed", type=int, default=3, help="of weights and images of whole networks")
    parser.add_argument("--batch-norm", default="frozen", choices=["frozen", "train"])
    parser.add_argument("--precision", default="fp32", choices=["fp32", "bf16"])
    args = parser.parse_args()
    bad = []
    devices, layouts = args.device.split(","), args.layout.split(":")
    for device, layout in [(d, layouts[0]) for d in devices] + [(devices[0], other) for other in layouts[1:]]:
        torch.manual_seed(1)
        cases = large([net for net in args.nets if not net.startswith("made/")], args.size, args.seed) if args.nets else small()
        cases = [case for case in cases if case[0] not in args.without.split(",")]
        common = {"device": device, "norm": args.batch_norm, "layout": layout, "precision": args.precision}
        bad += [name for name, net, x, target, how in cases if not check(args.engine, name, net, x, target, **{**common, **how})]
        bad += [name for name in args.nets if name.startswith("made/") and not check_made(args.engine, name[5:], args.size, args.seed, **common)]
    sys.exit(f"wrong: {', '.join(bad)}" if bad else 0)


if __name__ == "__main__":
    main()
