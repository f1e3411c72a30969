"""The engines that were timed for each convolution, slowest convolutions first.

    plan_times.py CACHE [--most N] [--save FILE]

CACHE is the folder of tuned plans (cuda-plans/). Prints a line a convolution: the shortest time of
every engine that was tried and by how much its longest was above it, the chosen one first, and what
choosing gained over the first of cuDNN's ranking; the last line sums that up. Exit 77: nothing in
CACHE was timed.
"""
import argparse
import glob
import json
import os
import sys


def read(folder):
    rows = []
    for path in sorted(glob.glob(os.path.join(folder, "*.json"))):
        with open(path) as file:
            entry = json.load(file)
        timed = [c for c in entry.get("candidates") or [] if c["ms"] is not None]
        if timed:
            first = timed[0]["ms"]
            timed.sort(key=lambda c: c["ms"])
            rows.append({"convolution": entry["key"].split("; ")[-1], "candidates": timed, "first_ms": first})
    return sorted(rows, key=lambda row: -row["candidates"][0]["ms"])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cache")
    parser.add_argument("--most", type=int, default=32)
    parser.add_argument("--save")
    args = parser.parse_args()
    rows = read(args.cache)
    if args.save:
        with open(args.save, "w") as file:
            json.dump(rows, file, indent=1)
    if not rows:
        print("-- nothing was timed: every convolution has one engine or its plan was there already")
        sys.exit(77)
    for row in rows[: args.most]:
        times = ", ".join(f"engine {c['engine']} {c['ms']:.3f} ms" +
                          (f" (+{100 * c['spread']:.0f} % at most)" if c.get("spread") else "")
                          for c in row["candidates"])
        print(f"{times} ({row['first_ms'] / row['candidates'][0]['ms']:.2f} x the first's): {row['convolution']}")
    best = sum(row["candidates"][0]["ms"] for row in rows)
    first = sum(row["first_ms"] for row in rows)
    print(f"{len(rows)} convolutions timed: {best:.3f} ms by the fastest engines, {first:.3f} ms by cuDNN's first")


main()
