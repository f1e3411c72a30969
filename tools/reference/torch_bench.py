#!/usr/bin/python3
"""Times a torchvision network in PyTorch beside `hires-engine bench`, in turns, in one precision.

Both run the same network at the same size, batch and number of threads (PyTorch is told to use
every core: by itself it may choose fewer). PyTorch runs in channels_last and inference mode: fp32
and bf16 (autocast) eagerly, int8 by its FX quantisation (whichever 8-bit engine the build has,
ranges from one batch of noise, BatchNorm folded); it has no fp16 kernels for processors. Rounds
alternate, so that whatever else the machine does falls on both. Prints one JSON line: images per
second of both (median over all rounds, and best) and their ratios.

    torch_bench.py --engine build/release/bin/hires-engine --model resnet101 --size 256 --batch 8 \
                   --precision int8
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
    parser.add_argument("--precision", choices=("fp32", "bf16", "int8"), default="fp32")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--runs", type=int, default=5, help="timed runs of each in a round")
    return parser.parse_args()


def ours(args):
    command = [args.engine, "bench", "--model", args.model, "--size", str(args.size),
               "--batch", str(args.batch), "--precision", args.precision, "--device", "cpu",
               "--threads", str(args.threads), "--runs", str(args.runs), "--layers", "--json"]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def quantised(torch, net, images):
    """The network in 8-bit integers, and the name of the engine that computes them."""
    from torch.ao.quantization import get_default_qconfig_mapping
    from torch.ao.quantization.quantize_fx import convert_fx, prepare_fx
    have = torch.backends.quantized.supported_engines
    engine = next((e for e in ("x86", "fbgemm", "onednn") if e in have), None)
    if engine is None:
        sys.exit("this PyTorch has no 8-bit engine for x86, only: " + ", ".join(have))
    torch.backends.quantized.engine = engine
    prepared = prepare_fx(net, get_default_qconfig_mapping(engine), (images,))
    with torch.inference_mode():
        prepared(images)
    return convert_fx(prepared), engine


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
    rates, benches, how = [], [], "eager"
    if args.precision == "int8":
        net, how = quantised(torch, net, images)
    bf16 = torch.autocast("cpu", dtype=torch.bfloat16, enabled=args.precision == "bf16")
    with torch.inference_mode(), bf16:
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
        "model": args.model, "precision": args.precision, "torch_kernels": how, "size": args.size, "batch": args.batch, "threads": args.threads,
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
