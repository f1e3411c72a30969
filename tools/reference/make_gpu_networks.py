#!/usr/bin/env python3
"""Writes the networks of `hires-engine check` that are not built in: torchvision's, made-up weights.

    make_gpu_networks.py DIR

DIR/swin-t.onnx, convnext-t.onnx, efficientnet-b0.onnx: 3 x 224 x 224, any number of images, 10
classes. Each weight repeats one row of 4,093 random numbers, scaled as PyTorch initialises it: all
filters differ, and an archive of 160 MB of weights is small. Needs torch, torchvision and onnx.
"""
import argparse
import os
import sys

import numpy as np
import onnx
import torch
import torchvision
from onnx import numpy_helper

PERIOD, FEW = 4093, 1024  # prime, so that rows begin at other places of it; a smaller weight stays
NETWORKS = {"swin-t": "swin_t", "convnext-t": "convnext_tiny", "efficientnet-b0": "efficientnet_b0"}


def build(name):
    torch.manual_seed(1)
    net = getattr(torchvision.models, NETWORKS[name])(weights=None, num_classes=10).eval()
    with torch.no_grad():
        for key, value in net.named_parameters():
            if key.endswith("layer_scale"):  # 1e-6: the blocks would do nothing
                value.fill_(0.5)
        for key, value in net.named_buffers():
            if key.endswith("running_mean"):
                value.normal_(0, 0.1)
            elif key.endswith("running_var"):
                value.uniform_(0.5, 1.5)
    return net


def repeat_weights(model):
    row = np.random.default_rng(1).standard_normal(PERIOD).astype(np.float32)
    row = (row - row.mean()) / row.std()
    for tensor in model.graph.initializer:
        values = numpy_helper.to_array(tensor)
        if values.dtype != np.float32 or values.size < FEW or values.std() == 0:
            continue
        made = np.resize(row, values.size).reshape(values.shape) * values.std() + values.mean()
        tensor.CopyFrom(numpy_helper.from_array(made.astype(np.float32), tensor.name))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("directory")
    folder = parser.parse_args().directory
    os.makedirs(folder, exist_ok=True)
    for name in NETWORKS:
        path = os.path.join(folder, name + ".onnx")
        torch.onnx.export(build(name), (torch.randn(2, 3, 224, 224),), path + ".part", dynamo=False, opset_version=17,
                          input_names=["image"], output_names=["logits"],
                          dynamic_axes={"image": {0: "n"}, "logits": {0: "n"}})
        model = onnx.load(path + ".part")
        repeat_weights(model)
        onnx.save(model, path)
        os.remove(path + ".part")
        print("%s: %.0f MB" % (path, os.path.getsize(path) / 1e6), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
