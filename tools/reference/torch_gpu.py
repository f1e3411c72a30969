#!/usr/bin/env python3
"""PyTorch on this GPU beside `hires-engine check`: images per second, its best of four ways.

    torch_gpu.py [--ours DIR] [--save FILE] [--seconds N]

resnet-v2-101-hires and torchvision's resnet101, 256 px, batch 64, in tf32 and bf16: as it comes,
channels_last, that as a CUDA graph, that by torch.compile (last: it compiles for long). Inputs lie
on the device; medians of synchronised runs. Ways that fail are named and left out; none begins
after N seconds. With --ours the ratio to the engine's figure of the same network and precision.
Exit 77: no PyTorch, or it sees no GPU. `--device cpu --size 32 --batch 2` tries the script itself.
"""
import argparse
import glob
import json
import os
import statistics
import sys
import time


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ours", help="a folder of what `hires-engine check --save` wrote")
    parser.add_argument("--save", help="write JSON here")
    parser.add_argument("--seconds", type=float, default=100)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--size", type=int, default=256)
    parser.add_argument("--batch", type=int, default=64)
    return parser.parse_args()


def networks(torch, size):
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    import torch_nets
    import torchvision
    yield "resnet-v2-101-hires", torch_nets.ResNetV2(11, size, 10)
    yield "resnet101", torchvision.models.resnet101(weights=None)


def wait(torch, device):
    if device == "cuda":
        torch.cuda.synchronize()


def median_seconds(torch, device, run, n=20):
    for _ in range(3):
        run()
    seconds = []
    for _ in range(n):
        wait(torch, device)
        start = time.perf_counter()
        run()
        wait(torch, device)
        seconds.append(time.perf_counter() - start)
    return statistics.median(seconds)


def as_graph(torch, net, images):
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            net(images)
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        net(images)
    return graph.replay


def ways(torch, args, net, images):
    """Pairs of a name and what makes something to run."""
    last = torch.channels_last
    yield "eager", lambda: lambda: net(images)
    dense = images.to(memory_format=last)
    yield "channels_last", lambda: lambda: net.to(memory_format=last)(dense)
    if args.device == "cuda":
        yield "channels_last, graph", lambda: as_graph(torch, net.to(memory_format=last), dense)
    if hasattr(torch, "compile"):
        def compiled():
            made = torch.compile(net.to(memory_format=last))
            return lambda: made(dense)
        yield "channels_last, compile", compiled


def measure(torch, args, net, precision, late, rows):
    kind = torch.bfloat16 if precision == "bf16" else torch.float32
    net = net.to(args.device, kind).eval()
    images = torch.randn(args.batch, 3, args.size, args.size, device=args.device, dtype=kind)
    for name, make in ways(torch, args, net, images):
        if late():
            rows[name] = "left out, the time is up"
            continue
        try:
            rows[name] = args.batch / median_seconds(torch, args.device, make())
        except Exception as failure:  # of a compiler that is missing, memory, ...
            rows[name] = "failed: " + " ".join(str(failure).split())[:120]


def ours_of(folder):
    found = {}
    for path in glob.glob(os.path.join(folder or "", "speed*.json")):
        with open(path) as file:
            rows = json.load(file)["speed"]
        found.update({(r["model"], r["precision"]): r["images_per_second"] for r in rows if r["size"] == 256})
    return found


def save(args, torch, rows):
    """After every row: what is ended early keeps what it has."""
    if args.save:
        with open(args.save, "w") as file:
            json.dump({"version": 1, "torch": torch.__version__, "rows": rows}, file, indent=1)


def main():
    args = arguments()
    try:
        import torch
        import torchvision  # noqa: F401
    except ImportError:
        print("no PyTorch with torchvision here: no figures beside ours")
        return 77
    if args.device == "cuda" and not torch.cuda.is_available():
        print("PyTorch %s sees no GPU here: no figures beside ours" % torch.__version__)
        return 77
    start = time.monotonic()
    torch.backends.cudnn.benchmark = True
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = True
    ours, all_rows = ours_of(args.ours), []
    with torch.inference_mode():
        for precision in ("bf16", "tf32"):
            for name, net in networks(torch, args.size):
                rows = {}
                measure(torch, args, net, precision,
                        lambda: time.monotonic() - start > args.seconds, rows)
                numbers = {k: v for k, v in rows.items() if not isinstance(v, str)}
                best = max(numbers, key=numbers.get) if numbers else None
                mine = ours.get((name, precision))
                ratio = mine / numbers[best] if mine and best else None
                all_rows.append({"model": name, "precision": precision, "ways": rows, "best": best,
                                 "best_images_per_second": numbers.get(best), "ours": mine,
                                 "ratio": ratio})
                save(args, torch, all_rows)
                print("torch %-20s %-5s %s%s" % (
                    name, precision, "; ".join(
                        "%s %s" % (k, v if isinstance(v, str) else "%.0f" % v)
                        for k, v in rows.items()),
                    "; ours is %.2f of its best" % ratio if ratio else ""), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
