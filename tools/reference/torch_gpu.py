#!/usr/bin/env python3
"""PyTorch on this GPU beside `hires-engine check`: images per second, its best of four ways.

    torch_gpu.py [--ours DIR] [--save FILE] [--seconds N]

resnet-v2-101-hires and torchvision's resnet101, 256 px, and ViT-L/16 of 224 px, batch 64, in bf16,
fp16, tf32 and (ViT-L/16) int8: as it comes (attention by scaled_dot_product_attention),
channels_last, that as a CUDA graph, that by torch.compile (last: it compiles for long). int8: products
by torch._int_mm on rows that are rounded as they come, each by a scale of its own. Inputs lie on the
device; medians of synchronised runs. Ways that fail are named and left out; none begins after N
seconds. With --ours the ratio to the engine's figure of the same network and precision.
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


def vit(torch, size, layers=24, width=1024):
    """ViT-L/16: torchvision's, whose attention is one call of scaled_dot_product_attention."""
    import torchvision
    return torchvision.models.VisionTransformer(image_size=size, patch_size=16, num_layers=layers,
                                                num_heads=width // 64, hidden_dim=width,
                                                mlp_dim=4 * width, num_classes=10)


def networks(torch, args, precision):
    """Triples of a name, the size of its images and the network."""
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    import torch_nets
    import torchvision
    vit_size = min(224, args.size)
    if precision != "int8":
        yield "resnet101", args.size, torchvision.models.resnet101(weights=None)
    yield "vit", vit_size, (vit(torch, vit_size) if args.size > 64 else vit(torch, vit_size, 2, 128))
    if precision != "int8":
        yield "resnet-v2-101-hires", args.size, torch_nets.ResNetV2(11, args.size, 10)


def rounds_rows(torch, net):
    """The network with its products by torch._int_mm."""
    class Product(torch.nn.Module):
        def __init__(self, of):
            super().__init__()
            scale = of.weight.abs().amax(1, keepdim=True) / 127
            self.register_buffer("weight", (of.weight / scale).round().to(torch.int8).t().contiguous().t())
            self.register_buffer("scale", scale.flatten())
            self.bias = of.bias

        def forward(self, x):
            rows = x.reshape(-1, x.shape[-1])
            step = rows.abs().amax(1, keepdim=True).clamp(min=1e-12) / 127
            sums = torch._int_mm((rows / step).round().to(torch.int8), self.weight.t())
            y = sums.to(x.dtype) * step * self.scale.to(x.dtype)
            return (y if self.bias is None else y + self.bias).reshape(*x.shape[:-1], -1)

    def replace(module):
        for name, child in module.named_children():
            # Attention keeps its own two products: torchvision's call of them takes weights, not a module.
            if isinstance(child, torch.nn.Linear) and not isinstance(module, torch.nn.MultiheadAttention):
                setattr(module, name, Product(child))
            else:
                replace(child)
    replace(net)
    return net


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


def measure(torch, args, net, size, precision, late, rows):
    kind = {"bf16": torch.bfloat16, "int8": torch.bfloat16, "fp16": torch.float16}.get(precision, torch.float32)
    net = net.to(args.device, kind).eval()
    if precision == "int8":
        net = rounds_rows(torch, net)
    images = torch.randn(args.batch, 3, size, size, device=args.device, dtype=kind)
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
            parts = json.load(file)
        rows = [r for r in parts["speed"] + parts.get("speed-more", []) if "size" in r]
        found.update({(r["model"], r["precision"]): r["images_per_second"] for r in rows if r["size"] < 512})
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
        for precision in ("bf16", "int8", "fp16", "tf32"):
            for name, size, net in networks(torch, args, precision):
                rows = {}
                measure(torch, args, net, size, precision,
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
