#!/usr/bin/python3
"""Whole networks by PyTorch, to check the engine against.

  torch_nets.py list                        names of the networks that `export` knows
  torch_nets.py export DIR NET...           DIR/NET.onnx, NET.input.npy, NET.output.npy: torchvision's
                                            network, seeded random weights and BatchNorm statistics
  torch_nets.py run-made DIR NET...         DIR/NET.input.npy and NET.output.npy for DIR/NET.onnx, which
                                            `model make NET` has written, computed by PyTorch's own
                                            definition of the network with the file's weights

PyTorch 1.13 and torchvision 0.14 (Debian 12: python3-torch, python3-torchvision). The ONNX file is
read by a small reader here, which shares no code with the engine's.
"""
import collections
import os
import sys
import warnings

import numpy as np
import torch
import torchvision
from torch import nn

# Image sizes: small ones, odd where the network allows it, to keep the whole check short.
SIZES = {
    "resnet18": (97, 127), "resnet34": (64, 95), "resnet50": (97, 127), "resnet101": (65, 65),
    "resnet152": (64, 64), "vgg19": (224, 224), "alexnet": (224, 224), "googlenet": (97, 113),
    "inception_v3": (107, 139),
}

KEEP_BATCH_NORM = ("resnet34", "resnet50", "resnet101", "googlenet")


def fill_batch_norm(model):
    """Random statistics of the true size, so that activations stay bounded at any depth."""
    generator = torch.Generator().manual_seed(7)

    def hook(module, inputs):
        x = inputs[0].detach()
        # In a random network most of a deep channel does not depend on the image. True statistics
        # would take that part away and blow up the rest, and with it the rounding errors,
        # PyTorch's own included (1e-4 for Inception). So the mean is random, not the channel's.
        # Nor is a channel that happens to be near 0 blown up.
        size = x.square().mean(dim=(0, 2, 3)).sqrt()
        size = torch.maximum(size, size.mean())
        c = module.num_features
        module.running_var.copy_(size ** 2 * (0.7 + 0.8 * torch.rand(c, generator=generator)))
        module.running_mean.copy_(0.2 * size * torch.randn(c, generator=generator))
        module.weight.data.copy_(0.5 + torch.rand(c, generator=generator))
        module.bias.data.copy_(0.2 * torch.randn(c, generator=generator))

    hooks = [m.register_forward_pre_hook(hook) for m in model.modules() if isinstance(m, nn.BatchNorm2d)]
    return hooks


def make_torchvision(name, narrow=False):
    """`narrow`: 256 instead of 4096 in the two large layers of VGG and AlexNet, for smaller files."""
    torch.manual_seed(3)
    options = {}
    if name in ("googlenet", "inception_v3"):
        options = {"aux_logits": False, "init_weights": False, "transform_input": True}
    model = getattr(torchvision.models, name)(weights=None, num_classes=1000, **options)
    if narrow and name in ("vgg19", "alexnet"):
        for i, layer in enumerate(model.classifier):
            if isinstance(layer, nn.Linear):
                model.classifier[i] = nn.Linear(256 if layer.in_features == 4096 else layer.in_features,
                                                256 if layer.out_features == 4096 else 1000)
    return model.eval()


def example(height, width, batch=2):
    return torch.randn(batch, 3, height, width, generator=torch.Generator().manual_seed(11))


def export(directory, name):
    model = make_torchvision(name, narrow=True)
    x = example(*SIZES[name])
    with torch.no_grad():
        hooks = fill_batch_norm(model)
        model(x)
        for h in hooks:
            h.remove()
        y = model(x)
    # Sizes other than the example's must work too where the network allows them; the adaptive
    # pooling of VGG and AlexNet can only be exported for fixed rows and columns.
    fixed = name in ("vgg19", "alexnet")
    axes = {0: "batch"} if fixed else {0: "batch", 2: "rows", 3: "columns"}
    # Half of the files keep their BatchNorm nodes; PyTorch folds those of the others.
    keep = torch.onnx.TrainingMode.PRESERVE if name in KEEP_BATCH_NORM else torch.onnx.TrainingMode.EVAL
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(model, x, os.path.join(directory, name + ".onnx"), opset_version=13, training=keep,
                          input_names=["input"], output_names=["output"],
                          dynamic_axes={"input": axes, "output": {0: "batch"}})
    save(directory, name, x, y)


def save(directory, name, x, y):
    np.save(os.path.join(directory, name + ".input.npy"), x.numpy())
    np.save(os.path.join(directory, name + ".output.npy"), y.numpy())


# ---- files written by `model make` --------------------------------------------------------------

def fields(data):
    """(number, value) of a protobuf message; value: int, or memoryview for bytes."""
    at = 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while at < len(data):
        key = varint()
        if key & 7 == 0:
            yield key >> 3, varint()
        elif key & 7 == 2:
            n = varint()
            yield key >> 3, data[at:at + n]
            at += n
        elif key & 7 == 5:
            yield key >> 3, data[at:at + 4]
            at += 4
        else:
            raise ValueError("wire type %d" % (key & 7))


def read_weights(path):
    """Initializers of an ONNX file in order: name -> float32 array."""
    weights = collections.OrderedDict()
    with open(path, "rb") as f:
        data = memoryview(f.read())
    graph = next(v for n, v in fields(data) if n == 7)
    for number, tensor in fields(graph):
        if number != 5:
            continue
        dims, name, raw, kind = [], "", b"", 0
        for n, v in fields(tensor):
            if n == 1:
                dims.append(v)
            elif n == 2:
                kind = v
            elif n == 8:
                name = bytes(v).decode()
            elif n == 9:
                raw = v
        if kind == 1:
            weights[name] = torch.from_numpy(np.frombuffer(raw, "<f4").reshape(dims).copy())
    return weights


class PlainBlock(nn.Module):
    def __init__(self, inside, outside, stride):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(inside, outside, 3, stride, 1, bias=False), nn.BatchNorm2d(outside)
        self.conv2, self.bn2 = nn.Conv2d(outside, outside, 3, 1, 1, bias=False), nn.BatchNorm2d(outside)
        self.downsample = nn.Identity() if inside == outside and stride == 1 else nn.Sequential(
            nn.Conv2d(inside, outside, 1, stride, bias=False), nn.BatchNorm2d(outside))

    def forward(self, x):
        return torch.relu(self.bn2(self.conv2(torch.relu(self.bn1(self.conv1(x))))) + self.downsample(x))


class PlainResNet(nn.Module):
    """As torchvision's ResNet, of basic blocks; size and weights are those of tensors of the same names, as of `model make resnet:B,W`."""

    def __init__(self, weights):
        super().__init__()
        width = weights["conv1.weight"].shape[0]
        self.conv1, self.bn1 = nn.Conv2d(3, width, 7, 2, 3, bias=False), nn.BatchNorm2d(width)
        self.pool = nn.MaxPool2d(3, 2, 1)
        inside = width
        for stage in range(4):
            n = sum(f"layer{stage + 1}.{i}.conv1.weight" in weights for i in range(64))
            blocks = [PlainBlock(inside if i == 0 else width << stage, width << stage, 2 if stage and i == 0 else 1) for i in range(n)]
            setattr(self, f"layer{stage + 1}", nn.Sequential(*blocks))
            inside = width << stage
        self.fc = nn.Linear(inside, weights["fc.weight"].shape[0])
        missing, unexpected = self.load_state_dict({k: torch.as_tensor(v) for k, v in weights.items()}, strict=False)
        assert not unexpected and all(m.endswith("num_batches_tracked") for m in missing), (missing, unexpected)

    def forward(self, x):
        x = self.pool(torch.relu(self.bn1(self.conv1(x))))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(x.mean((2, 3)))


class BlockV2(nn.Module):
    """Pre-activation block: [BN ReLU] 3x3, BN ReLU 3x3, BN ReLU 1x1; projection from the raw input."""

    def __init__(self, channels, width, out, stride, first, project):
        super().__init__()
        self.bn1 = None if first else nn.BatchNorm2d(channels)
        self.conv1 = nn.Conv2d(channels, width, 3, stride, 1)
        self.bn2 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, 1, 1)
        self.bn3 = nn.BatchNorm2d(width)
        self.conv3 = nn.Conv2d(width, out, 1)
        self.projection = nn.Conv2d(channels, out, 1, stride) if project else None

    def forward(self, x):
        y = x if self.bn1 is None else torch.relu(self.bn1(x))
        y = self.conv2(torch.relu(self.bn2(self.conv1(y))))
        y = self.conv3(torch.relu(self.bn3(y)))
        return y + (x if self.projection is None else self.projection(x))


class ResNetV2(nn.Module):
    """The Infer-HiRes paper's network of depth 9n + 2 at one image size."""

    def __init__(self, n, size, classes):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 16, 3, 1, 1)
        self.bn1 = nn.BatchNorm2d(16)
        channels = 16
        for s, (width, out) in enumerate([(16, 64), (64, 128), (128, 256)]):
            blocks = []
            for i in range(n):
                stride = 2 if s > 0 and i == 0 else 1
                blocks.append(BlockV2(channels, width, out, stride, s == 0 and i == 0, i == 0))
                channels = out
            setattr(self, "stage%d" % (s + 1), nn.Sequential(*blocks))
        self.bn2 = nn.BatchNorm2d(256)
        self.fc = nn.Linear(256 * (size // 32) ** 2, classes)

    def forward(self, x):
        x = torch.relu(self.bn1(self.conv1(x)))
        x = self.stage3(self.stage2(self.stage1(x)))
        x = nn.functional.avg_pool2d(torch.relu(self.bn2(x)), 8)
        return torch.softmax(self.fc(x.flatten(1)), 1)


class ReluConvBn(nn.Module):
    """ReLU, convolution, BatchNorm, one after the other for each form: (channels, kernel, stride, padding)."""

    def __init__(self, channels, *forms):
        super().__init__()
        self.n = len(forms)
        for i, (out, kernel, stride, padding) in enumerate(forms, 1):
            setattr(self, "conv%d" % i, nn.Conv2d(channels, out, kernel, stride, padding, bias=False))
            setattr(self, "bn%d" % i, nn.BatchNorm2d(out))
            channels = out

    def forward(self, x):
        for i in range(1, self.n + 1):
            x = getattr(self, "bn%d" % i)(getattr(self, "conv%d" % i)(torch.relu(x)))
        return x


class FactorizedReduce(nn.Module):
    def __init__(self, channels, out):
        super().__init__()
        self.conv1 = nn.Conv2d(channels, out // 2, 1, 2, bias=False)
        self.conv2 = nn.Conv2d(channels, out - out // 2, 1, 2, bias=False)
        self.bn = nn.BatchNorm2d(out)

    def forward(self, x):
        x = torch.relu(x)
        odd = nn.functional.pad(x, (0, 1, 0, 1))[:, :, 1:, 1:]
        return self.bn(torch.cat([self.conv1(x), self.conv2(odd)], 1))


class AmoebaCell(nn.Module):
    # state and operation of each term; two terms make a new state. Real et al. 2018, figure 3.
    NORMAL = [(1, "1x1"), (1, "max3"), (1, "none"), (0, "1x7"), (0, "1x1"), (0, "1x7"), (2, "max3"), (2, "none"),
              (1, "avg3"), (5, "1x1")], [0, 3, 4, 6]
    REDUCTION = [(0, "max2"), (0, "max3"), (2, "none"), (1, "3x3"), (2, "1x7"), (2, "max3"), (3, "none"), (1, "max2"),
                 (2, "avg3"), (3, "1x1")], [4, 5, 6]

    def __init__(self, before, previous, c, reduction, after_reduction):
        super().__init__()
        self.terms, self.joined = self.REDUCTION if reduction else self.NORMAL
        self.reduce1 = ReluConvBn(previous, (c, 1, 1, 0))
        self.reduce2 = nn.Identity()
        if after_reduction:
            self.reduce2 = FactorizedReduce(before, c)
        elif before != c:
            self.reduce2 = ReluConvBn(before, (c, 1, 1, 0))
        for i, (state, kind) in enumerate(self.terms):
            setattr(self, "op%d" % i, self.make(kind, c, 2 if reduction and state < 2 else 1))
        self.out = c * len(self.joined)

    @staticmethod
    def make(kind, c, s):
        q = c // 4
        return {"none": lambda: nn.Identity(),
                "1x1": lambda: ReluConvBn(c, (c, 1, s, 0)),
                "3x3": lambda: ReluConvBn(c, (q, 1, 1, 0), (q, 3, s, 1), (c, 1, 1, 0)),
                "1x7": lambda: ReluConvBn(c, (q, 1, 1, 0), (q, (1, 7), (1, s), (0, 3)), (q, (7, 1), (s, 1), (3, 0)),
                                          (c, 1, 1, 0)),
                "max2": lambda: nn.MaxPool2d(2, s, ceil_mode=True),
                "max3": lambda: nn.MaxPool2d(3, s, 1),
                "avg3": lambda: nn.AvgPool2d(3, s, 1, count_include_pad=False)}[kind]()

    def forward(self, before, previous):
        states = [self.reduce1(previous), self.reduce2(before)]
        for i in range(0, len(self.terms), 2):
            states.append(sum(getattr(self, "op%d" % k)(states[self.terms[k][0]]) for k in (i, i + 1)))
        return previous, torch.cat([states[i] for i in self.joined], 1)


class AmoebaNetD(nn.Module):
    """AmoebaNet-D (L, F) in GPipe's form."""

    def __init__(self, layers, filters, classes):
        super().__init__()
        c = filters // 4
        self.stem = ReluConvBn(3, (c, 3, 2, 1))
        before = previous = c
        reductions = [True, True] + ([False] * (layers // 3) + [True]) * 3
        self.n, reduced = 0, False
        for reduction in reductions[:-1]:
            c *= 2 if reduction else 1
            cell = AmoebaCell(before, previous, c, reduction, reduced)
            setattr(self, "cell%d" % self.n, cell)
            self.n, before, previous, reduced = self.n + 1, previous, cell.out, reduction
        self.fc = nn.Linear(previous, classes)

    def forward(self, x):
        before = previous = self.stem(x)
        for i in range(self.n):
            before, previous = getattr(self, "cell%d" % i)(before, previous)
        return self.fc(previous.mean((2, 3)))


class DoubleConv(nn.Module):
    def __init__(self, channels, out):
        super().__init__()
        for i, c in ((1, channels), (2, out)):
            setattr(self, "conv%d" % i, nn.Conv2d(c, out, 3, 1, 1, bias=False))
            setattr(self, "bn%d" % i, nn.BatchNorm2d(out))

    def forward(self, x):
        return torch.relu(self.bn2(self.conv2(torch.relu(self.bn1(self.conv1(x))))))


class UNet(nn.Module):
    def __init__(self, levels, width, classes):
        super().__init__()
        self.levels = levels
        for i in range(levels):
            setattr(self, "down%d" % i, DoubleConv(3 if i == 0 else width << (i - 1), width << i))
        for i in range(levels - 1):
            block = DoubleConv(2 * (width << i), width << i)
            block.up = nn.ConvTranspose2d(width << (i + 1), width << i, 2, 2)
            setattr(self, "up%d" % i, block)
        self.head = nn.Conv2d(width, classes, 1)

    def forward(self, x):
        skips = []
        for i in range(self.levels):
            x = getattr(self, "down%d" % i)(x if i == 0 else nn.functional.max_pool2d(x, 2))
            skips.append(x)
        for i in reversed(range(self.levels - 1)):
            block = getattr(self, "up%d" % i)
            x = block(torch.cat([skips[i], block.up(x)], 1))
        return self.head(x)


class Performer(nn.Module):
    """Linear attention of (N, C, H, W) images; projection: (features, channels of a head)."""

    def __init__(self, heads, features, channels, softmax):
        super().__init__()
        self.heads, self.softmax = heads, softmax
        self.register_buffer("projection", torch.zeros(features, channels))

    def phi(self, u, is_query):  # u: (N, heads, tokens, d)
        d = u.shape[-1]
        logits = torch.einsum("nhtd,md->nhtm", u * d ** -0.25, self.projection)
        if not self.softmax:
            return torch.relu(logits) + 1e-3
        half = (u ** 2).sum(-1, keepdim=True) / (2 * d ** 0.5)
        top = logits.amax(-1 if is_query else (-1, -2), keepdim=True)
        return self.projection.shape[0] ** -0.5 * (torch.exp(logits - half - top) + 1e-4)

    def forward(self, q, k, v):
        n, c, h, w = q.shape
        q, k, v = (t.reshape(n, self.heads, c // self.heads, -1).transpose(2, 3) for t in (q, k, v))
        q, k = self.phi(q, True), self.phi(k, False)
        y = q @ (k.transpose(2, 3) @ v) / (q @ k.sum(2).unsqueeze(-1))
        return y.transpose(2, 3).reshape(n, c, h, w)


class HCTBlock(nn.Module):
    def __init__(self, channels, out, first, attends, softmax):
        super().__init__()
        stride = 2 if first else 1
        self.bn1 = nn.BatchNorm2d(channels)
        self.skip = nn.Conv2d(channels, out, 1, stride, bias=False) if first else None
        self.attends = attends
        if attends:
            for name in ("q", "k", "v", "out"):
                setattr(self, name, nn.Conv2d(channels, channels, 1))
            d = channels // 8
            self.attention = Performer(8, int(d * np.log(d)), d, softmax)
            self.bn2 = nn.BatchNorm2d(channels)
            self.conv = nn.Conv2d(channels, out, 3, stride, 1, bias=False)
        else:
            self.conv1 = nn.Conv2d(channels, out, 3, stride, 1, bias=False)
            self.bn2 = nn.BatchNorm2d(out)
            self.conv2 = nn.Conv2d(out, out, 3, 1, 1, bias=False)

    def forward(self, x):
        a = torch.relu(self.bn1(x))
        r = x if self.skip is None else self.skip(a)
        if self.attends:
            t = self.out(self.attention(self.q(a), self.k(a), self.v(a))) + x
            return self.conv(torch.relu(self.bn2(t))) + r
        return self.conv2(torch.relu(self.bn2(self.conv1(a)))) + r


class HCT(nn.Module):
    def __init__(self, classes, softmax):
        super().__init__()
        self.stem = nn.Conv2d(3, 16, 7, 2, 3, bias=False)
        channels = 16
        for i in range(1, 6):
            out = 16 if i == 1 else 2 * channels
            blocks = [HCTBlock(channels, out, True, i > 3, softmax), HCTBlock(out, out, False, i > 3, softmax)]
            setattr(self, "stage%d" % i, nn.Sequential(*blocks))
            channels = out
        self.head = nn.Sequential(collections.OrderedDict(bn1=nn.BatchNorm2d(channels)))
        self.fc = nn.Linear(channels, classes)

    def forward(self, x):
        x = nn.functional.max_pool2d(self.stem(x), 3, 2)
        for i in range(1, 6):
            x = getattr(self, "stage%d" % i)(x)
        return self.fc(torch.relu(self.head(x)).mean((2, 3)))


class MadeLinear(nn.Module):
    """A product with a matrix of (inputs, outputs), as MatMul has it."""

    def __init__(self, inputs, outputs):
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.zeros(inputs, outputs)), nn.Parameter(torch.zeros(outputs))

    def forward(self, x):
        return x @ self.weight + self.bias


class ViTBlock(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width, 1e-6), nn.LayerNorm(width, 1e-6)
        self.qkv, self.proj = MadeLinear(width, 3 * width), MadeLinear(width, width)
        self.fc1, self.fc2 = MadeLinear(width, 4 * width), MadeLinear(4 * width, width)
        self.scale = nn.Parameter(torch.zeros(1))

    def forward(self, x):
        n, tokens, width = x.shape
        q, k, v = self.qkv(self.norm1(x)).reshape(n, tokens, 3, width // 64, 64).permute(2, 0, 3, 1, 4)
        y = ((q * self.scale) @ k.transpose(2, 3)).softmax(-1) @ v
        x = x + self.proj(y.transpose(1, 2).reshape(n, tokens, width))
        return x + self.fc2(nn.functional.gelu(self.fc1(self.norm2(x))))


class ViT(nn.Module):
    def __init__(self, layers, width, tokens, classes):
        super().__init__()
        self.layers = layers
        self.patch_embed = nn.Conv2d(3, width, 16, 16)
        self.embedding = nn.Module()
        self.embedding.table = nn.Parameter(torch.zeros(1, tokens, width))
        for i in range(layers):
            setattr(self, "block%d" % i, ViTBlock(width))
        self.norm, self.head = nn.LayerNorm(width, 1e-6), nn.Linear(width, classes)

    def forward(self, x):
        x = nn.functional.pad(self.patch_embed(x).flatten(2).transpose(1, 2), (0, 0, 1, 0)) + self.embedding.table
        for i in range(self.layers):
            x = getattr(self, "block%d" % i)(x)
        return self.head(self.norm(x)[:, 0])


def made_model(name, weights):
    name, _, parameters = name.partition(":")
    if name == "amoebanet-d":
        layers, filters = map(int, parameters.split(","))
        return AmoebaNetD(layers, filters, len(weights["fc.bias"])), (75, 96)
    if name.startswith("hct"):
        return HCT(len(weights["fc.bias"]), name == "hct-softmax"), (257, 190)
    if name == "unet":
        levels, width = map(int, parameters.split(","))
        return UNet(levels, width, len(weights["head.bias"])), (80, 112)
    if name == "vit":
        layers, width = map(int, parameters.split(","))
        tokens = weights["embedding.table"].shape[1]
        return ViT(layers, width, tokens, len(weights["head.bias"])), (int((tokens - 1) ** 0.5) * 16,) * 2
    if name.startswith("resnet-v2-"):
        n = (int(name.split("-")[2]) - 2) // 9
        classes, features = weights["fc.weight"].shape
        size = int(round((features / 256) ** 0.5)) * 32
        return ResNetV2(n, size, classes), (size, size)
    other = name.replace("-", "_")
    model = make_torchvision(other)
    if hasattr(model, "transform_input"):
        model.transform_input = False
    return model, SIZES[other]


def load_made(path, name):
    """PyTorch's definition of the network that `model make NAME` wrote, with the file's weights, and an image's size."""
    weights = read_weights(path)
    model, size = made_model(name, weights)
    model.eval()
    own = model.state_dict()
    wanted = [k for k in own if not k.endswith("num_batches_tracked")]
    if name in ("vgg19", "alexnet"):  # torchvision numbers these layers: match by order
        weights = collections.OrderedDict(zip(wanted, weights.values()))
    missing = sorted(set(wanted) - set(weights)), sorted(set(weights) - set(wanted))
    if missing != ([], []):
        sys.exit("%s: weights do not match PyTorch's: missing %s ..., more %s ..." % (name, missing[0][:3], missing[1][:3]))
    model.load_state_dict(weights, strict=False)
    return model, size


def run_made(directory, name):
    model, size = load_made(os.path.join(directory, name + ".onnx"), name)
    x = example(*size, batch=1)
    with torch.no_grad():
        y = model(x)
    if not (torch.isfinite(y).all() and 1e-6 < y.abs().max() < 1e3):
        sys.exit("%s: outputs are not plausible: largest %g" % (name, y.abs().max()))
    save(directory, name, x, y)


def main(arguments):
    torch.set_num_threads(2)
    if arguments[:1] == ["list"]:
        print("\n".join(SIZES))
    elif arguments[:1] in (["export"], ["run-made"]) and len(arguments) > 2:
        for name in arguments[2:]:
            (export if arguments[0] == "export" else run_made)(arguments[1], name)
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
