"""Steps of training by hires-flow against PyTorch's in double, with the same batches.

    torch_training.py TRAIN_STEPS [--size N] [--steps N] [--time] [NET ...]

TRAIN_STEPS is the test program of that name. NET is a network of torchvision; without one, small networks. After the steps, for
each weight tensor: the largest difference over the largest change that training made to any weight of that tensor. --time: PyTorch
in float32 instead, and the processor seconds a step of both, by one thread each (medians; the first step does not count).
"""
import argparse
import os
import subprocess
import sys
import tempfile
import time

import numpy as np
import torch
from torch import nn

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import torch_gradients  # noqa: E402
from torch_gradients import LOSSES, different_weights, large, mean  # noqa: E402

LIMIT = 1e-3


def optimizer_of(kind, net, rate):
    decaying = [p for p in net.parameters() if p.dim() > 1]
    others = [p for p in net.parameters() if p.dim() <= 1]
    groups = [{"params": decaying, "weight_decay": 2e-5}, {"params": others, "weight_decay": 0.0}]
    if kind == "sgd":
        return torch.optim.SGD(groups, lr=rate, momentum=0.9, nesterov=True)
    return torch.optim.AdamW(groups, lr=rate)


def train(net, x, target, loss, kind, rate, steps, trains):
    net.train(trains)
    optimizer = optimizer_of(kind, net, rate)
    losses, seconds = [], []
    for xs, ts in zip(x.chunk(steps), target.chunk(steps)):
        start = time.process_time()
        optimizer.zero_grad()
        value = LOSSES[loss](net(xs), ts)
        value.backward()
        optimizer.step()
        losses.append(value.item())
        seconds.append(time.process_time() - start)
    return losses, float(np.median(seconds[1:])) if steps > 1 else seconds[0]


def check(program, name, net, x, classes, n_classes, kind, rate, steps, norm, times):
    different_weights(net)
    net.float()
    before = {k: v.double().numpy().copy() for k, v in net.state_dict().items()}
    target = torch.nn.functional.one_hot(classes, n_classes).double()
    mode = torch.onnx.TrainingMode.PRESERVE
    net.train(False)
    with tempfile.TemporaryDirectory() as work:
        n = x.shape[0] // steps
        torch.onnx.export(net, (x[:n].float(),), work + "/m.onnx", opset_version=17, do_constant_folding=False, training=mode)
        np.save(work + "/x.npy", x.float().numpy())
        np.save(work + "/t.npy", target.float().numpy())
        os.mkdir(work + "/w")
        subprocess.run([program, work + "/m.onnx", work + "/x.npy", work + "/t.npy", work + "/w", "cross_entropy", kind, str(rate),
                        str(steps), norm, "1" if times else "0"], check=True)
        ours = float(np.median(np.load(work + "/w/seconds.npy")[1:]))
        if times:
            _, theirs = train(net, x.float(), target.float(), "cross_entropy", kind, rate, steps, norm == "train")
            print(f"{name:16} {kind:6} {ours:.3f} s of processor time a step, PyTorch {theirs:.3f}: {theirs / ours:.2f}", flush=True)
            return True
        net.double()
        losses, _ = train(net, x.double(), target, "cross_entropy", kind, rate, steps, norm == "train")
        got = np.load(work + "/w/loss.npy")
        worst, where = 0.0, ""
        for weight, w in net.state_dict().items():
            path = f"{work}/w/{weight}.npy"
            if not os.path.exists(path):
                continue
            change = np.abs(w.numpy() - before[weight]).max()
            apart = np.abs(np.load(path) - w.numpy()).max() / max(change, 1e-7)
            if apart > worst:
                worst, where = apart, weight
    ok = worst <= LIMIT and np.allclose(got, losses, rtol=1e-4, atol=1e-5)
    print(f"{name:16} {kind:6} {norm:6} loss {losses[0]:.4f} -> {got[-1]:.6f} ({losses[-1]:.6f} by PyTorch), weights {worst:.1e} of their "
          f"change apart ({where}){'' if ok else ' WRONG'}", flush=True)
    return ok


def without_bias_of_keys():
    """The softmax takes it out again: its gradient is what rounding leaves, which AdamW makes as large as any other."""
    net = torch_gradients.Transformer()
    for block in net.blocks:
        block.qkv = nn.Linear(block.qkv.in_features, block.qkv.out_features, bias=False)
    return net


def small():
    conv = nn.Conv2d
    yield "plain", lambda: mean(conv(3, 8, 3, stride=2), nn.SiLU(), conv(8, 8, 3, groups=2), nn.GELU(), width=8), "frozen"
    yield "frozen norms", lambda: mean(conv(3, 8, 3, bias=False), nn.BatchNorm2d(8), nn.SiLU(), conv(8, 8, 3, bias=False),
                                       nn.BatchNorm2d(8), nn.Tanh(), width=8), "frozen"
    yield "norms of a batch", lambda: mean(conv(3, 8, 3, bias=False), nn.BatchNorm2d(8), nn.SiLU(), conv(8, 8, 3),
                                           nn.Tanh(), width=8), "train"
    yield "transformer", without_bias_of_keys, "frozen"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("nets", nargs="*")
    parser.add_argument("--size", type=int, default=64)
    parser.add_argument("--steps", type=int, default=0)
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--rate", type=float, default=0)
    parser.add_argument("--batch-norm", default="frozen", choices=["frozen", "train"])
    parser.add_argument("--time", action="store_true")
    args = parser.parse_args()
    if args.time:
        torch.set_num_threads(1)
    bad = []
    for kind, rate in ("sgd", args.rate or 0.05), ("adamw", args.rate or 0.003):
        torch.manual_seed(1)
        if args.nets:
            cases = [(name, lambda net=net: net, args.batch_norm, 10, args.size) for name, net, *_ in large(args.nets, args.size)]
        else:
            cases = [(name, make, norm, 5, 16 if name != "transformer" else 8) for name, make, norm in small()]
        for name, make, norm, n_classes, size in cases:
            steps = args.steps or (50 if not args.nets else 5)
            x = torch.randn(steps * args.batch, 3, size, size)
            classes = torch.randint(0, n_classes, (steps * args.batch,))
            if not check(args.program, name, make(), x, classes, n_classes, kind, rate, steps, norm, args.time):
                bad.append(f"{name} by {kind}")
    sys.exit(f"wrong: {', '.join(bad)}" if bad else 0)


if __name__ == "__main__":
    main()
