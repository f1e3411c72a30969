#!/usr/bin/python3
"""Times a torchvision network in PyTorch beside `hires-engine bench`, in turns.

Both run the same network at the same size, batch and number of threads (PyTorch is told to use
every core: by itself it may choose fewer). PyTorch runs eagerly in channels_last and inference
mode. Rounds alternate, so that whatever else the machine does falls on both. Prints one JSON line:
images per second of both (median over all rounds, and best) and their ratios.

    torch_bench.py --engine build/release/bin/hires-engine --model resnet101 --size 256 --batch 8
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import time


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--engine", default="build/release/bin/hires-engine")
    parser.add_argument("--model", default="resnet101")
    parser.add_argument("--size", type=int, default=256)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--runs", type=int, default=5, help="timed runs of each in a round")
    return parser.parse_args()


def ours(args):
    command = [args.engine, "bench", "--model", args.model, "--size", str(args.size),
               "--batch", str(args.batch), "--precision", "fp32", "--device", "cpu",
               "--threads", str(args.threads), "--runs", str(args.runs), "--json"]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def main():
    args = arguments()
    try:
        import torch
        import torchvision
    except ImportError:
        print("skipped: no torch and torchvision (Debian: python3-torch, python3-torchvision)")
        return 77
    torch.set_num_threads(args.threads)
    torch.manual_seed(1)
    net = getattr(torchvision.models, args.model)(weights=None).eval()
    net = net.to(memory_format=torch.channels_last)
    images = torch.randn(args.batch, 3, args.size, args.size)
    images = images.to(memory_format=torch.channels_last)
    rates, benches = [], []
    with torch.inference_mode():
        for _ in range(args.rounds):
            net(images)
            for _ in range(args.runs):
                start = time.perf_counter()
                net(images)
                rates.append(args.batch / (time.perf_counter() - start))
            benches.append(ours(args))
    median = statistics.median(b["images_per_second"] for b in benches)
    best = max(b["images_per_second_max"] for b in benches)
    print(json.dumps({
        "model": args.model, "size": args.size, "batch": args.batch, "threads": args.threads,
        "torch": torch.__version__, "torch_images_per_second": statistics.median(rates),
        "torch_images_per_second_max": max(rates), "images_per_second": median,
        "images_per_second_max": best, "ratio": median / statistics.median(rates),
        "ratio_of_best": best / max(rates),
        "fraction_of_convolutions_alone": statistics.median(
            b["fraction_of_convolutions_alone"] for b in benches),
        "activation_bytes": benches[0]["activation_bytes"]}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
