#!/usr/bin/env python3
"""One step of training (a loss and its gradients to all weights) by `hires-engine bench --loss` and by PyTorch, in turns.

    /usr/bin/python3 step_bench.py export DIR [NET ...]     DIR/NET.onnx, by PyTorch 1.13 (Debian: python3-torchvision)
    PYTHON step_bench.py time DIR [NET ...]                 PYTHON: any with torch and torchvision, e.g. the newest in a venv

Both compute the same network by the same number of threads, in float32 or (--precision bf16) in bfloat16 with float32 weights and
gradients, which is torch.autocast in PyTorch, with the statistics of BatchNorm frozen; PyTorch eagerly, or (--compile) by
torch.compile, in channels_last where a network has convolutions of images alone. Each round is a process of its own for either, so that whatever else
the machine does falls on both. Prints for each network: seconds of a step (median of all rounds), processor seconds of a step (which
other programs hardly change), and peak memory: the engine's, as it plans it, and both processes' largest resident set, PyTorch's
less what it takes before the network is made.
"""
import argparse
import contextlib
import json
import os
import resource
import statistics
import subprocess
import sys
import time

# Image size and batch.
NETS = {"resnet50": (224, 8), "efficientnet_b0": (224, 8), "convnext_tiny": (224, 4), "vit_s16": (224, 4), "unet": (128, 2)}
LAST = {"resnet50", "efficientnet_b0", "unet"}


def make(name):
    import torch
    import torchvision
    import torch_nets
    torch.manual_seed(1)
    if name == "vit_s16":
        return torch_nets.ViT(12, 384, (NETS[name][0] // 16) ** 2 + 1, 1000)
    if name == "unet":
        return torch_nets.UNet(5, 64, 2)
    net = getattr(torchvision.models, name)(weights=None)
    for module in net.modules():
        if type(module).__name__ in ("StochasticDepth", "Dropout"):
            module.p = 0.0
    return net


def export(directory, names):
    import torch
    import torch_gradients
    os.makedirs(directory, exist_ok=True)
    for name in names:
        size, batch = NETS[name]
        net = make(name)
        for parameter in net.parameters():  # the exporter writes equal ones once
            parameter.data += 1e-3 * torch.randn_like(parameter)
        torch_gradients.export(net, torch.randn(batch, 3, size, size), os.path.join(directory, name + ".onnx"))


def time_torch(name, threads, steps, size, batch, precision, how):
    import torch
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    torch.set_num_threads(int(threads))
    steps, size, batch = int(steps), int(size), int(batch)
    NETS[name] = size, batch
    net = make(name).eval()
    x = torch.randn(batch, 3, size, size)
    if name in LAST:
        net, x = net.to(memory_format=torch.channels_last), x.to(memory_format=torch.channels_last)
    target = torch.zeros(batch, size, size, dtype=torch.long) if name == "unet" else torch.zeros(batch, dtype=torch.long)
    if how == "compiled":
        net = torch.compile(net)

    def step():
        net.zero_grad()
        with torch.autocast("cpu", torch.bfloat16) if precision == "bf16" else contextlib.nullcontext():
            y = net(x)
        torch.nn.functional.cross_entropy(y.float(), target).backward()

    step()
    seconds, spent = [], time.process_time()
    for _ in range(steps):
        start = time.perf_counter()
        step()
        seconds.append(time.perf_counter() - start)
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(json.dumps({"seconds": seconds, "processor": (time.process_time() - spent) / steps, "resident": (most - before) * 1024,
                      "version": torch.__version__}))


def time_both(args, name):
    size, batch = NETS[name]
    theirs, ours = [], []
    for _ in range(args.rounds):
        theirs.append(json.loads(subprocess.run([sys.executable, __file__, "torch", name, str(args.threads), str(args.steps), str(size),
                                                 str(batch), args.precision, "compiled" if args.compile else "eager"], check=True, capture_output=True, text=True).stdout))
        ours.append(json.loads(subprocess.run(
            [args.engine, "bench", "--model", f"{args.directory}/{name}.onnx", "--size", str(size), "--batch", str(batch), "--threads",
             str(args.threads), "--runs", str(args.steps + 1), "--loss", "cross_entropy", "--device", "cpu", "--precision",
             args.precision, "--json"], check=True, capture_output=True, text=True).stdout))
    step = statistics.median(s for t in theirs for s in t["seconds"])
    own = statistics.median(batch / o["images_per_second"] for o in ours)
    step_processor = min(t["processor"] for t in theirs)
    own_processor = min(o["processor_seconds"] for o in ours)
    print(f"{name:16} {args.precision} {size} px, batch {batch}: {own:.2f} s a step, PyTorch {theirs[0]['version']} {step:.2f} s ({step / own:.2f}); "
          f"processor {own_processor:.2f} s, {step_processor:.2f} s ({step_processor / own_processor:.2f}); memory "
          f"{ours[0]['peak_memory_bytes'] / 2**20:.0f} MiB, {max(o['resident_bytes'] for o in ours) / 2**20:.0f} MiB resident, PyTorch "
          f"{max(t['resident'] for t in theirs) / 2**20:.0f} MiB", flush=True)


def main():
    if sys.argv[1:2] == ["torch"]:
        return time_torch(*sys.argv[2:9])
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["export", "time"])
    parser.add_argument("directory")
    parser.add_argument("nets", nargs="*", metavar="NET", help=", ".join(NETS))
    parser.add_argument("--engine", default="build/release/bin/hires-engine")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=3, help="timed steps of each in a round")
    parser.add_argument("--precision", choices=["fp32", "bf16"], default="fp32")
    parser.add_argument("--compile", action="store_true", help="torch.compile")
    parser.add_argument("--size", type=int, help="instead of the network's own")
    parser.add_argument("--batch", type=int, help="likewise")
    args = parser.parse_args()
    names = args.nets or list(NETS)
    for name in names:
        NETS[name] = args.size or NETS[name][0], args.batch or NETS[name][1]
    if args.what == "export":
        return export(args.directory, names)
    for name in names:
        time_both(args, name)


if __name__ == "__main__":
    sys.exit(main())
