#!/usr/bin/env python3
"""What this GPU can do at most, by PyTorch: copies and large matrix products.

    torch_ceilings.py [--small] [--save FILE]

Bytes a second from pinned memory to the device and within the device (read and written counted),
and operations a second of a square product of random numbers in each precision; medians by the device's own clock.
The last line is the summary. Exit 77: no PyTorch, or it sees no GPU.
"""
import argparse
import json
import statistics
import sys


def median_seconds(torch, run, n):
    for _ in range(3):
        run()
    times = []
    for _ in range(n):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        run()
        end.record()
        torch.cuda.synchronize()
        times.append(start.elapsed_time(end) / 1e3)
    return statistics.median(times)


def measure(torch, size, n_bytes, n):
    found = {}
    host = torch.empty(n_bytes, dtype=torch.uint8).pin_memory()
    device, other = (torch.empty(n_bytes, dtype=torch.uint8, device="cuda") for _ in range(2))
    found["upload_bytes_per_second"] = n_bytes / median_seconds(
        torch, lambda: device.copy_(host, non_blocking=True), n)
    found["device_bytes_per_second"] = 2 * n_bytes / median_seconds(torch, lambda: device.copy_(other), n)
    for name in ("fp32", "tf32", "fp16", "bf16", "int8"):
        torch.backends.cuda.matmul.allow_tf32 = name == "tf32"
        dtype = {"fp16": torch.float16, "bf16": torch.bfloat16, "int8": torch.int8}.get(name, torch.float32)
        # Random numbers: bits that change take power, and ones run 13 % faster than a network's numbers do.
        if name == "int8":
            a, b = (torch.randint(-127, 128, (size, size), device="cuda", dtype=dtype) for _ in range(2))
        else:
            a, b = (torch.randn(size, size, device="cuda").to(dtype) for _ in range(2))
        b = b.t().contiguous().t()
        product = torch._int_mm if name == "int8" else torch.matmul
        try:
            found[f"{name}_operations_per_second"] = 2 * size**3 / median_seconds(torch, lambda: product(a, b), n)
        except RuntimeError as error:
            found[f"{name}_error"] = str(error).splitlines()[0]
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--small", action="store_true", help="try the script; measures nothing")
    parser.add_argument("--save", help="write JSON here")
    options = parser.parse_args()
    try:
        import torch
    except ImportError:
        print("PyTorch is not installed")
        return 77
    if not torch.cuda.is_available():
        print("PyTorch sees no GPU")
        return 77
    found = measure(torch, 512 if options.small else 8192, 1 << (20 if options.small else 29), 10)
    if options.save:
        with open(options.save, "w", encoding="utf-8") as file:
            json.dump(found, file, indent=1)
    print(", ".join(f"{name.replace('_per_second', '')} {value / 1e12:.2f} T/s" if isinstance(value, float)
                    else f"{name} {value}" for name, value in found.items()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
