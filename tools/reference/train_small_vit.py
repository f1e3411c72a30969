#!/usr/bin/env python3
"""Trains a small vision transformer on real patches and plants in it what large ones grow.

Writes tests/golden/bits/small_vit.onnx (weights in float16). The transformations change nothing in
exact arithmetic, and all factors are powers of two:

- outlier channels: LayerNorm's scale and bias of some channels times 256, the next product's weights
  of these channels divided by it;
- outlier values: some columns of v times 128, their rows of the projection divided by it;
- massive activations: two hidden units of every MLP that are large for the class token alone, and
  whose weights to the output are each other's negative.

Needs PyTorch and timm. Usage: train_small_vit.py PATCHES OUT.onnx, where PATCHES holds tumor/ and
normal/ (camelyon16-patches).
"""
import glob
import os
import sys

import numpy as np
import onnx
import timm
import torch
from onnx import numpy_helper
from PIL import Image

SIZE, WIDTH, DEPTH, HEADS = 64, 64, 4, 4


def load(folder):
    images, labels = [], []
    for label, name in enumerate(("normal", "tumor")):
        for path in sorted(glob.glob(os.path.join(folder, name, "*.png"))):
            pixels = np.asarray(Image.open(path).convert("RGB"), np.float32) / 255
            images.append((pixels.transpose(2, 0, 1) - 0.5) / 0.25)
            labels.append(label)
    return torch.tensor(np.stack(images)), torch.tensor(labels)


def batch(images, labels, n, rng):
    picked = torch.randint(len(images), (n,), generator=rng)
    at = torch.randint(images.shape[-1] - SIZE + 1, (n, 2), generator=rng)
    crops = [images[i, :, y:y + SIZE, x:x + SIZE] for i, (y, x) in zip(picked, at.tolist())]
    return torch.stack(crops), labels[picked]


def train(net, images, labels, steps=300):
    rng = torch.Generator().manual_seed(1)
    optimiser = torch.optim.AdamW(net.parameters(), 1e-3, weight_decay=0.05)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, 2e-3, steps)
    for step in range(steps):
        x, y = batch(images, labels, 32, rng)
        loss = torch.nn.functional.cross_entropy(net(x), y)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        schedule.step()
        if step % 50 == 0:
            print(step, f"{loss.item():.3f}", flush=True)


@torch.no_grad()
def plant(net):
    for index, block in enumerate(net.blocks):
        channels = torch.arange(index % 7, WIDTH, 13)
        for norm, product in ((block.norm1, block.attn.qkv), (block.norm2, block.mlp.fc1)):
            norm.weight[channels] *= 256
            norm.bias[channels] *= 256
            product.weight[:, channels] /= 256
        values = torch.arange(index % 5, WIDTH, 17)
        block.attn.qkv.weight[2 * WIDTH + values] *= 128
        block.attn.qkv.bias[2 * WIDTH + values] *= 128
        block.attn.proj.weight[:, values] /= 128


@torch.no_grad()
def plant_massive(net, images):
    """Replaces the last two hidden units, whose use was pruned before, by massive ones."""
    seen = {}
    hooks = [block.norm2.register_forward_hook(lambda m, i, o, k=k: seen.__setitem__(k, o))
             for k, block in enumerate(net.blocks)]
    net(images[:16, :, :SIZE, :SIZE])
    for hook in hooks:
        hook.remove()
    for k, block in enumerate(net.blocks):
        token = seen[k][:, 0].mean(0)
        others = seen[k][:, 1:].mean((0, 1))
        direction = token - others
        middle = ((token + others) / 2 * direction).sum()
        scale = 512 / (direction * direction).sum()
        row = block.mlp.fc2.weight[:, 0].clone()
        for unit, sign in ((-1, 1), (-2, -1)):
            block.mlp.fc1.weight[unit] = direction * scale
            block.mlp.fc1.bias[unit] = -middle * scale - 128
            block.mlp.fc2.weight[:, unit] = sign * row
    print("massive:", [float(block.mlp.fc1(s).abs().max()) for block, s in
                       zip(net.blocks, seen.values())])


class Outputs(torch.nn.Module):
    """The class token's embedding and the logits."""

    def __init__(self, net):
        super().__init__()
        self.net = net

    def forward(self, x):
        embedding = self.net.forward_head(self.net.forward_features(x), pre_logits=True)
        return embedding, self.net.head(embedding)


def narrow(path):
    model = onnx.load(path)
    for tensor in model.graph.initializer:
        if tensor.data_type == onnx.TensorProto.FLOAT and np.prod(tensor.dims) > 64:
            values = numpy_helper.to_array(tensor)
            name = tensor.name
            tensor.CopyFrom(numpy_helper.from_array(values.astype(np.float16), name + ".half"))
            cast = onnx.helper.make_node("Cast", [name + ".half"], [name], name + ".cast",
                                         to=onnx.TensorProto.FLOAT)
            model.graph.node.insert(0, cast)
    del model.metadata_props[:]
    for node in model.graph.node:
        del node.metadata_props[:]
        node.doc_string = ""
    del model.graph.value_info[:]
    onnx.checker.check_model(model)
    onnx.save(model, path)


def main():
    folder, out = sys.argv[1:]
    torch.manual_seed(1)
    images, labels = load(folder)
    net = timm.models.VisionTransformer(img_size=SIZE, patch_size=16, embed_dim=WIDTH, depth=DEPTH,
                                        num_heads=HEADS, mlp_ratio=3, num_classes=2)
    with torch.no_grad():  # the two units are not used while training
        for block in net.blocks:
            block.mlp.fc2.weight[:, -2:] = 0
    mask = torch.ones(3 * WIDTH)
    mask[-2:] = 0
    for block in net.blocks:
        block.mlp.fc2.weight.register_hook(lambda g: g * mask)
    train(net, images, labels)
    net.eval().half().float()
    with torch.no_grad():
        for block in net.blocks:
            block.mlp.fc2.weight[:, -2:] = 0
    x = images[:8, :, :SIZE, :SIZE].contiguous()
    before = net(x)
    plant_massive(net, images)
    plant(net)
    net.half().float()
    with torch.no_grad():
        print("difference:", float((net(x) - before).abs().max()))
    torch.onnx.export(Outputs(net).eval(), (x[:2],), out, external_data=False, input_names=["input"],
                      output_names=["embedding", "logits"], dynamic_shapes=({0: "batch"},))
    narrow(out)
    print(os.path.getsize(out), "bytes")


if __name__ == "__main__":
    main()
