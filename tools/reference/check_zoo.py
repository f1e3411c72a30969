#!/usr/bin/env python3
"""Runs every model of a folder by hires-engine and by ONNX Runtime and prints a table.

  check_zoo.py DIR [--engine build/release/bin/hires-engine] [--device cpu|ref] [--only NAME,NAME] [--markdown]

DIR is what make_zoo.py wrote. A row: model, exporter, opset, the largest difference over the largest value (limit 1e-4),
seconds of hires-engine and of ONNX Runtime (start-up included), or why it does not run. Ends with 1 if a row failed.
"""
import argparse
import glob
import os
import subprocess
import sys
import tempfile
import time

import numpy as np
import onnx
import onnxruntime


def run_peer(path, x):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 2
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    kind = {"tensor(float16)": np.float16, "tensor(double)": np.float64}.get(session.get_inputs()[0].type, np.float32)
    return session.run(None, {session.get_inputs()[0].name: x.astype(kind)})[0]


def check(path, engine, device, limit):
    """(status, difference, our seconds, peer's seconds, opset)"""
    name = os.path.basename(path).split(".")[0]
    source = os.path.join(os.path.dirname(path), name + ".npy")
    x = np.load(source)
    model = onnx.load(path, load_external_data=False)
    opset = max(o.version for o in model.opset_import if o.domain in ("", "ai.onnx"))
    first = model.graph.output[0].name
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "y.npy")
        started = time.monotonic()
        got = subprocess.run([engine, "eval", path, "--input", source, "--output", out, "--device", device,
                              "--output-name", first], capture_output=True, text=True)
        ours = time.monotonic() - started
        if got.returncode != 0:
            text = got.stderr.strip().replace("\n", " ")
            return text[text.find("node '"):] if "node '" in text else text, None, ours, None, opset
        y = np.load(out)
    started = time.monotonic()
    try:
        want = run_peer(path, x)
    except Exception as error:  # what the peer refuses cannot be judged
        return "peer: " + str(error).splitlines()[0], None, ours, None, opset
    theirs = time.monotonic() - started
    if y.shape != want.shape:
        return "shape %s, not %s" % (y.shape, want.shape), None, ours, theirs, opset
    difference = float(np.abs(y.astype("f8") - want).max() / max(np.abs(want.astype("f8")).max(), 1e-30))
    ok = difference <= limit
    return "ok" if ok else "DIFFERS", difference, ours, theirs, opset


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dir")
    parser.add_argument("--engine", default="build/release/bin/hires-engine")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--only", default="")
    parser.add_argument("--limit", type=float, default=1e-4)
    parser.add_argument("--markdown", action="store_true")
    args = parser.parse_args()
    wanted = args.only.split(",") if args.only else None
    rows = failed = 0
    line = "| %s | %s | %s | %s | %s | %s |" if args.markdown else "%-28s %-11s %5s %9s %6s %6s"
    print(line % ("model", "exporter", "opset", "error", "s", "peer s"))
    if args.markdown:
        print("|---|---|---|---|---|---|")
    for path in sorted(glob.glob(args.dir + "/*.onnx")):
        name, exporter = os.path.basename(path).split(".")[:2]
        if wanted and name not in wanted:
            continue
        status, difference, ours, theirs, opset = check(path, args.engine, args.device, args.limit)
        rows += 1
        failed += status != "ok"
        print(line % (name, exporter, opset, "%.1e" % difference if difference is not None else status,
                      "%.1f" % ours, "%.1f" % theirs if theirs is not None else ""), flush=True)
    print("%d of %d models agree" % (rows - failed, rows), file=sys.stderr)
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
