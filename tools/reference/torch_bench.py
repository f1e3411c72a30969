#!/usr/bin/env python3
"""Times a torchvision network in PyTorch eager on the CPU (channels_last), to set beside
`hires-flow bench engine --model NAME --size S --batch B --precision fp32 --json` in the same run."""
import argparse, json, statistics, time
import torch, torchvision

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--model", default="resnet101")
parser.add_argument("--size", type=int, default=256)
parser.add_argument("--batch", type=int, default=8)
parser.add_argument("--runs", type=int, default=5)
args = parser.parse_args()
net = getattr(torchvision.models, args.model)().eval().to(memory_format=torch.channels_last)
x = torch.randn(args.batch, 3, args.size, args.size).to(memory_format=torch.channels_last)
times = []
with torch.no_grad():
    for i in range(args.runs + 1):
        start = time.perf_counter()
        net(x)
        if i > 0:
            times.append(time.perf_counter() - start)
print(json.dumps({"model": args.model, "torch": torch.__version__, "threads": torch.get_num_threads(),
                  "images_per_second": args.batch / statistics.median(times)}))
