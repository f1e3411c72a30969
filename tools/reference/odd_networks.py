#!/usr/bin/env python3
"""Random networks of tests/ops/odd_nets.c: the reference back end's numbers against ONNX Runtime's.

Usage: odd_networks.py TEST_PARALLEL FIRST LAST

TEST_PARALLEL is the test program; it also holds each network's layouts and bands against one rank.
Networks that ONNX Runtime refuses are counted by its reasons. Needs onnxruntime.
"""
import collections
import os
import subprocess
import sys
import tempfile

import numpy as np
import onnxruntime

LIMIT = 1e-4  # of the largest output


def compare(stem):
    """The difference; it is infinite where the shapes differ. Files hold pixels, channels last."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(stem + ".onnx", options, providers=["CPUExecutionProvider"])
    n, c, h, w = session.get_inputs()[0].shape
    x = np.fromfile(stem + ".x", np.float32).reshape(n, h, w, c).transpose(0, 3, 1, 2)
    y = session.run(None, {session.get_inputs()[0].name: np.ascontiguousarray(x)})[0]
    ours = np.fromfile(stem + ".y", np.float32)
    theirs = (y.transpose(0, 2, 3, 1) if y.ndim == 4 else y).ravel()
    if ours.size != theirs.size or (np.isnan(ours) != np.isnan(theirs)).any():
        return float("inf")
    return float(np.nanmax(np.abs(ours - theirs)) / max(1e-3, np.nanmax(np.abs(theirs))))


def main():
    program, first, last = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    onnxruntime.set_default_logger_severity(4)
    n, bad, refused = 0, 0, collections.Counter()
    with tempfile.TemporaryDirectory() as folder:
        environment = dict(os.environ, HRF_TEST_WRITE=folder, HRF_TEST_ODD=f"{first}:{last}")
        subprocess.run([program], env=environment, check=True, capture_output=True)
        for seed in range(first, last + 1):
            stem = os.path.join(folder, str(seed))
            try:
                difference = compare(stem)
            except Exception as error:  # its exceptions have no common class
                refused[str(error).split("\n")[0][:120]] += 1
                continue
            n += 1
            if not difference < LIMIT:
                bad += 1
                print(f"network {seed}: {difference:g} of the largest output apart")
    print(f"{n} networks compared, {bad} apart, {sum(refused.values())} refused")
    for reason, count in refused.most_common(8):
        print(f"  {count} {reason}")
    return 1 if bad or not n else 0


if __name__ == "__main__":
    sys.exit(main())
