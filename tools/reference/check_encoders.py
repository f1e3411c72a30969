#!/usr/bin/env python3
"""Makes encoders by timm with random weights, saves them as safetensors, and compares what
`hires-engine model make ENCODER --weights` writes with timm's own output.

Usage: check_encoders.py [--full] [--golden DIR] ENGINE [NAME ...]

Without --full, depth and width are a fraction of the real ones; --golden writes small weights,
inputs and timm's outputs there, for test_encoder. Needs PyTorch, timm, safetensors; rows of Hugging Face's
names also transformers.
"""
import argparse
import copy
import os
import shutil
import subprocess
import tempfile
import time

import numpy as np
import timm
import torch
import transformers
from safetensors.torch import save_file
from timm.layers import SwiGLUPacked

VIT = timm.models.VisionTransformer
TOKEN = dict(num_classes=0, global_pool="token")


def both(net, x):
    y = net.forward_features(x)
    return torch.cat([y[:, 0], y[:, net.num_prefix_tokens:].mean(1)], 1)


def pooled(net, x):
    return net(x)


def stage3(net, x):
    x = net.maxpool(net.act1(net.bn1(net.conv1(x))))
    return net.layer3(net.layer2(net.layer1(x))).mean((2, 3))


def first(net, x):
    return net(x).last_hidden_state[:, 0]


def vit(size, patch, width, depth, heads):
    return transformers.ViTModel(transformers.ViTConfig(
        image_size=size, patch_size=patch, hidden_size=width, num_hidden_layers=depth,
        num_attention_heads=heads, intermediate_size=4 * width), add_pooling_layer=False)


def dinov2(size, patch, width, depth, heads, swiglu=False, registers=0):
    common = dict(image_size=size, patch_size=patch, hidden_size=width, num_hidden_layers=depth,
                  num_attention_heads=heads, use_swiglu_ffn=swiglu)
    if registers:
        return transformers.Dinov2WithRegistersModel(
            transformers.Dinov2WithRegistersConfig(num_register_tokens=registers, **common))
    return transformers.Dinov2Model(transformers.Dinov2Config(**common))


def giant(patch, reg, no_embed, **more):
    return dict(patch_size=patch, mlp_layer=SwiGLUPacked, act_layer=torch.nn.SiLU, init_values=1e-5,
                reg_tokens=reg, no_embed_class=no_embed, **more)


# name, encoder, arguments of make, net(small), net(full), size, output
ROWS = [
    ("uni", "uni", [], lambda f: VIT(patch_size=16, init_values=1e-5, embed_dim=1024 if f else 64,
                                     depth=24 if f else 2, num_heads=16 if f else 4, **TOKEN),
     224, pooled),
    ("uni_at_384", "uni", ["--size", "384"],
     lambda f: VIT(patch_size=16, init_values=1e-5, embed_dim=1024 if f else 64,
                   depth=24 if f else 2, num_heads=16 if f else 4, dynamic_img_size=True, **TOKEN),
     384, pooled),
    ("uni_at_112", "uni", ["--size", "112"],
     lambda f: VIT(patch_size=16, embed_dim=1024 if f else 64, depth=24 if f else 2,
                   num_heads=16 if f else 4, dynamic_img_size=True, **TOKEN), 112, pooled),
    ("uni2-h", "uni2-h", [],
     lambda f: VIT(**giant(14, 8, True, embed_dim=1536 if f else 48, depth=24 if f else 2,
                           num_heads=24 if f else 3, mlp_ratio=5.33334), **TOKEN), 224, pooled),
    ("virchow2", "virchow2", [],
     lambda f: VIT(**giant(14, 4, False, embed_dim=1280 if f else 160, depth=32 if f else 1,
                           num_heads=16 if f else 2, mlp_ratio=5.3375, num_classes=0,
                           global_pool="")), 224, both),
    ("gigapath", "gigapath", [],
     lambda f: VIT(**giant(16, 0, False, embed_dim=1536 if f else 48, depth=40 if f else 2,
                           num_heads=24 if f else 3, mlp_ratio=5.33334), **TOKEN), 224, pooled),
    ("h-optimus-0", "h-optimus-0", [],
     lambda f: VIT(**giant(14, 4, True, embed_dim=1536 if f else 48, depth=40 if f else 2,
                           num_heads=24 if f else 3, mlp_ratio=5.33334), **TOKEN), 224, pooled),
    ("lunit-vits8", "lunit-vits8", [],
     lambda f: VIT(patch_size=8, embed_dim=384 if f else 48, depth=12 if f else 1,
                   num_heads=6 if f else 3, **TOKEN), 224, pooled),
    ("vit_mean", "vit", ["--pool", "mean"],
     lambda f: VIT(patch_size=16, embed_dim=384 if f else 64, depth=12 if f else 2,
                   num_heads=6 if f else 4, num_classes=0, global_pool="avg"), 224, pooled),
    ("vit_logits", "vit", ["--pool", "logits"],
     lambda f: VIT(patch_size=16, embed_dim=384 if f else 64, depth=12 if f else 2,
                   num_heads=6 if f else 4, num_classes=7), 224, pooled),
    ("resnet50", "resnet", [], lambda f: timm.create_model(
        "resnet50" if f else "test_resnet", num_classes=0) if f else timm.models.ResNet(
            timm.models.resnet.Bottleneck, [1, 2, 1, 1], channels=[8, 8, 16, 16], num_classes=0),
     224, pooled),
    ("resnet18_logits", "resnet", ["--pool", "logits"],
     lambda f: timm.create_model("resnet18", num_classes=3) if f else timm.models.ResNet(
         timm.models.resnet.BasicBlock, [1, 1, 1, 1], channels=[8, 8, 16, 16], num_classes=3),
     224, pooled),
    ("clam", "clam-resnet50", [], lambda f: timm.create_model("resnet50", num_classes=0) if f else
     timm.models.ResNet(timm.models.resnet.Bottleneck, [1, 1, 1, 1], channels=[8, 8, 16, 16],
                        num_classes=0), 224, stage3),
    ("convnext", "convnext", [], lambda f: timm.create_model(
        "convnext_tiny", num_classes=0) if f else timm.models.ConvNeXt(
            depths=(1, 1, 2, 1), dims=(8, 16, 24, 32), num_classes=0), 224, pooled),
    ("convnext_conv_mlp", "convnext", ["--pool", "logits"],
     lambda f: timm.create_model("convnext_atto", num_classes=5) if f else timm.models.ConvNeXt(
         depths=(1, 1, 1, 1), dims=(8, 16, 24, 32), conv_mlp=True, num_classes=5), 224, pooled),
    ("convnextv2", "convnext", [], lambda f: timm.create_model(
        "convnextv2_tiny", num_classes=0) if f else timm.models.ConvNeXt(
            depths=(1, 1, 2, 1), dims=(8, 16, 24, 32), use_grn=True, ls_init_value=None,
            num_classes=0), 224, pooled),
    ("phikon", "phikon", [],
     lambda f: vit(224, 16, *((768, 12, 12) if f else (48, 2, 3))), 224, first),
    ("phikon-v2", "phikon-v2", [],
     lambda f: dinov2(224, 16, *((1024, 24, 16) if f else (48, 2, 3))), 224, first),
]


# Small ones for the tests, in float16, at sizes of few patches: position embeddings as they are,
# made larger, made smaller.
GOLDEN = [
    ("swiglu_registers", "uni2-h", ["--size", "56"],
     lambda f: VIT(**giant(14, 3, True, img_size=56, embed_dim=24, depth=2, num_heads=3,
                           mlp_ratio=5.33334), **TOKEN), 56, pooled),
    ("class_and_mean", "virchow2", ["--size", "56"],
     lambda f: VIT(**giant(14, 2, False, img_size=42, embed_dim=24, depth=1, num_heads=2,
                           mlp_ratio=5.33334, num_classes=0, global_pool="",
                           dynamic_img_size=True)), 56, both),
    ("gelu_smaller", "uni", ["--size", "32"],
     lambda f: VIT(patch_size=8, img_size=56, embed_dim=24, depth=1, num_heads=3, init_values=1e-5,
                   dynamic_img_size=True, **TOKEN), 32, pooled),
    ("logits_of_mean", "vit", ["--size", "32", "--pool", "logits"],
     lambda f: VIT(patch_size=8, img_size=32, embed_dim=24, depth=1, num_heads=3, num_classes=5,
                   global_pool="avg"), 32, pooled),
    ("bottleneck", "resnet", ["--size", "32"], lambda f: timm.models.ResNet(
        timm.models.resnet.Bottleneck, [1, 1, 1, 1], channels=[4, 4, 8, 8], num_classes=0), 32,
     pooled),
    ("conv_mlp", "convnext", ["--size", "32", "--pool", "logits"], lambda f: timm.models.ConvNeXt(
        depths=(1, 1, 1, 1), dims=(4, 8, 12, 16), conv_mlp=True, num_classes=5), 32, pooled),
    ("response_norm", "convnext", ["--size", "32"], lambda f: timm.models.ConvNeXt(
        depths=(1, 1, 1, 1), dims=(4, 8, 12, 16), use_grn=True, ls_init_value=None, num_classes=0),
     32, pooled),
    ("transformers_vit", "phikon", ["--size", "32"], lambda f: vit(32, 8, 24, 1, 3), 32, first),
    ("transformers_sharded", "phikon-v2", ["--size", "32"],
     lambda f: dinov2(32, 8, 24, 1, 3, swiglu=True, registers=2), 32, first),
]


def randomise(net):
    """Weights that no term vanishes with: LayerScale near 1, norms and positions that matter."""
    rng = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for name, p in net.named_parameters():
            if name.endswith("gamma"):
                p.copy_(torch.rand(p.shape, generator=rng) + 0.5)
            elif p.ndim == 1:
                p.add_(torch.randn(p.shape, generator=rng) * 0.2)
            elif "token" in name or "pos_embed" in name or "position_embeddings" in name:
                p.copy_(torch.randn(p.shape, generator=rng) * 0.5)
        for name, p in net.named_buffers():
            if name.endswith("running_var"):
                p.copy_(torch.rand(p.shape, generator=rng) + 0.5)
            elif name.endswith("running_mean"):
                p.copy_(torch.randn(p.shape, generator=rng) * 0.1)


def save(net, weights, as_half):
    """In one file, or as transformers shards it; returns what is to be opened."""
    is_sharded = weights.endswith("sharded.safetensors")
    if not isinstance(net, transformers.PreTrainedModel):
        state = {k: v.contiguous() for k, v in net.state_dict().items()}
        save_file({k: v.half() if as_half and v.is_floating_point() else v for k, v in state.items()},
                  weights)
        return weights
    with tempfile.TemporaryDirectory() as here:
        (copy.deepcopy(net).half() if as_half else net).save_pretrained(
            here, max_shard_size="12KB" if is_sharded else "50GB")
        if not is_sharded:
            shutil.move(os.path.join(here, "model.safetensors"), weights)
            return weights
        stem = os.path.basename(weights).replace(".safetensors", "")
        with open(os.path.join(here, "model.safetensors.index.json"), encoding="utf-8") as file:
            index = file.read().replace("model-", stem + "-")
        for file in os.listdir(here):
            if file.startswith("model-"):
                shutil.move(os.path.join(here, file), os.path.join(
                    os.path.dirname(weights), file.replace("model-", stem + "-")))
    with open(weights + ".index.json", "w", encoding="utf-8") as out:
        out.write(index)
    return weights + ".index.json"


def heads_of(net):
    if isinstance(net, transformers.PreTrainedModel):
        return ["--heads", str(net.config.num_attention_heads)]
    return ["--heads", str(net.blocks[0].attn.num_heads)] if isinstance(net, VIT) else []


def check(engine, row, full, golden):
    name, encoder, arguments, make, size, output = row
    torch.manual_seed(1)
    net = make(full).eval()
    randomise(net)
    if golden:
        net = net.half().float()
    folder = golden or tempfile.mkdtemp()
    weights, x_file = os.path.join(folder, name + ".safetensors"), os.path.join(folder, name + ".x.npy")
    y_file = os.path.join(folder, name + ".y.npy")
    weights = save(net, weights, golden is not None)
    heads = [] if full else heads_of(net)
    if heads and encoder != "vit":  # a name stands for its full size
        arguments = [*arguments, *(["--pool", "cls+mean"] if output is both else [])]
        encoder = "vit"
    if not full and encoder == "clam-resnet50":
        arguments, encoder = ["--pool", "stage3"], "resnet"
    with tempfile.TemporaryDirectory() as here:
        model, ours = os.path.join(here, "m.onnx"), os.path.join(here, "y.npy")
        x = torch.randn(1 if full or golden else 2, 3, size, size)
        start = time.time()
        with torch.no_grad():
            want = output(net, x).numpy()
        torch_s = time.time() - start
        np.save(os.path.join(here, "x.npy") if golden is None else x_file, x.numpy())
        del net
        start = time.time()
        words = [encoder, *arguments, *heads]
        subprocess.run([engine, "model", "make", *words, "--weights", weights, "--output", model],
                       check=True)
        make_s = time.time() - start
        subprocess.run([engine, "eval", model, "--input",
                        os.path.join(here, "x.npy") if golden is None else x_file, "--output",
                        ours], check=True)
        got = np.load(ours)
        if golden:
            np.save(y_file, want)
            with open(os.path.join(folder, name + ".words"), "w", encoding="ascii") as out:
                out.write(" ".join(words) + "\n")
    if not golden:
        os.unlink(weights)
    difference = np.abs(got - want).max() / np.abs(want).max()
    print(f"{name:20} {str(want.shape):12} difference {difference:.1e} of the largest; made in "
          f"{make_s:.1f} s, timm {torch_s:.1f} s {'ok' if difference < 1e-4 else 'FAILED'}",
          flush=True)
    return difference < 1e-4


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("engine")
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--golden")
    parser.add_argument("names", nargs="*")
    a = parser.parse_args()
    rows = GOLDEN if a.golden else ROWS
    good = [check(a.engine, row, a.full, a.golden) for row in rows if not a.names or row[0] in a.names]
    raise SystemExit(0 if all(good) else 1)


if __name__ == "__main__":
    main()
