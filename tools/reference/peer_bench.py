#!/usr/bin/env python3
"""Times ONNX models by `hires-engine bench` beside ONNX Runtime and OpenVINO, in turns.

    peer_bench.py MODEL.onnx ... [--batch 8] [--size 224] [--precision fp32|bf16|int8] [--rounds 5] [--markdown]
                  [--startup | --memory]

All three run the same file on noise, with as many threads as cores. Rounds alternate, so that whatever else the machine
does falls on all of them. bf16 is OpenVINO's inference precision hint (ONNX Runtime has no bfloat16 on processors: its
float32 stands beside it); int8 is the model with QDQ nodes by ONNX Runtime's static quantisation (weights by channel),
for both. Prints a row for each model: images per second (median of the rounds) and the ratio to the best peer; --json
prints them as one object a line.

--startup: seconds to the first output, each in a fresh process, of which there are --rounds; the ratio is the best
peer's over ours. Ours are those of the whole process (`hires-engine eval`: start, both files read, output written);
theirs begin when the library is loaded and end with the first output, so Python's start and the import are left out.
--memory: the peak of resident memory in MiB of the same processes; of theirs, what Python with NumPy and the input held
before the import is subtracted. In int8 all three read the file with QDQ nodes. Needs onnxruntime, openvino and onnx from PyPI.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="+")
    parser.add_argument("--engine", default="build/release/bin/hires-engine")
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--size", type=int, default=224)
    parser.add_argument("--precision", choices=("fp32", "bf16", "int8"), default="fp32")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--runs", type=int, default=3, help="timed runs of each in a round")
    parser.add_argument("--startup", action="store_true")
    parser.add_argument("--memory", action="store_true")
    parser.add_argument("--fresh", nargs=2, metavar=("LIBRARY", "INPUT"), help=argparse.SUPPRESS)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--markdown", action="store_true")
    return parser.parse_args()


def ours(args, model):
    command = [args.engine, "bench", "--model", model, "--size", str(args.size), "--batch", str(args.batch),
               "--precision", args.precision, "--device", "cpu", "--threads", str(args.threads),
               "--runs", str(args.runs), "--json"]
    time.sleep(0.2)
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{model}: {done.stderr.strip()}")
    return json.loads(done.stdout)["images_per_second"]


def quantised(model, images, folder):
    """The path of the model with QDQ nodes, calibrated on the images."""
    from onnxruntime import quantization as q

    class Reader(q.CalibrationDataReader):
        def __init__(self, name):
            self.left = [{name: images}]

        def get_next(self):
            return self.left.pop() if self.left else None

    import onnx
    os.chdir(folder)  # it leaves files in the working folder
    path, prepared = os.path.join(folder, "int8.onnx"), os.path.join(folder, "prepared.onnx")
    try:
        q.shape_inference.quant_pre_process(model, prepared)
    except Exception:  # what symbolic shape inference cannot follow: Swin's windows
        q.shape_inference.quant_pre_process(model, prepared, skip_symbolic_shape=True)
    name = onnx.load(prepared, load_external_data=False).graph.input[0].name
    q.quantize_static(prepared, path, Reader(name), quant_format=q.QuantFormat.QDQ, per_channel=True,
                      activation_type=q.QuantType.QUInt8, weight_type=q.QuantType.QInt8)
    return path


def onnx_runtime(args, model, images):
    import onnxruntime
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = args.threads
    options.inter_op_num_threads = 1
    options.add_session_config_entry("session.intra_op.allow_spinning", "1")
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    feed = {session.get_inputs()[0].name: images}
    return lambda: session.run(None, feed)


def openvino(args, model, images):
    import openvino
    core = openvino.Core()
    net = core.read_model(model)
    net.reshape({net.inputs[0].any_name: images.shape})
    hint = {"fp32": "f32", "bf16": "bf16", "int8": "f32"}[args.precision]
    compiled = core.compile_model(net, "CPU", {"INFERENCE_NUM_THREADS": args.threads, "NUM_STREAMS": 1,
                                               "PERFORMANCE_HINT": "LATENCY", "INFERENCE_PRECISION_HINT": hint})
    request = compiled.create_infer_request()
    return lambda: request.infer({0: images})


def rate(run, n_runs, n_images):
    """Images per second: the median of n_runs."""
    time.sleep(0.2)  # until the others' threads no longer spin
    run()
    seconds = []
    for _ in range(n_runs):
        begin = time.perf_counter()
        run()
        seconds.append(time.perf_counter() - begin)
    return n_images / statistics.median(seconds)


def compare(args, model, folder):
    images = np.random.default_rng(1).standard_normal((args.batch, 3, args.size, args.size)).astype(np.float32)
    theirs = quantised(model, images, folder) if args.precision == "int8" else model
    runs = {"onnxruntime": onnx_runtime(args, theirs, images), "openvino": openvino(args, theirs, images)}
    rates = {"hires-engine": [], "onnxruntime": [], "openvino": []}
    for _ in range(args.rounds):
        rates["hires-engine"].append(ours(args, model))
        for name, run in runs.items():
            rates[name].append(rate(run, args.runs, args.batch))
    medians = {name: statistics.median(r) for name, r in rates.items()}
    best = max(medians["onnxruntime"], medians["openvino"])
    return {"model": os.path.basename(model), "batch": args.batch, "precision": args.precision,
            **{name: round(m, 1) for name, m in medians.items()}, "ratio": round(medians["hires-engine"] / best, 2)}


def peak_bytes():
    with open("/proc/self/status", encoding="ascii") as lines:
        return next(1024 * int(line.split()[1]) for line in lines if line.startswith("VmHWM:"))


def fresh(args):
    """The only work of a process of its own: prints seconds from the library on, and bytes above those without it."""
    library, images = args.fresh[0], np.load(args.fresh[1])
    before = peak_bytes()
    __import__(library)
    begin = time.perf_counter()
    {"onnxruntime": onnx_runtime, "openvino": openvino}[library](args, args.models[0], images)()
    print(json.dumps({"seconds": time.perf_counter() - begin, "bytes": peak_bytes() - before}))


def one_start(args, library, model, folder):
    time.sleep(0.2)
    common = ["--precision", args.precision, "--threads", str(args.threads)]
    images, output = os.path.join(folder, "x.npy"), os.path.join(folder, "y.npy")
    if library != "hires-engine":
        command = [sys.executable, os.path.abspath(__file__), model, "--fresh", library, images, *common]
        return json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()[-1])
    command = [args.engine, "eval", model, "--input", images, "--output", output, "--device", "cpu", *common]
    begin = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    if status != 0:
        sys.exit(f"failed: {' '.join(command)}")
    return {"seconds": time.perf_counter() - begin, "bytes": 1024 * used.ru_maxrss}


def compare_starts(args, model, folder):
    images = np.random.default_rng(1).standard_normal((args.batch, 3, args.size, args.size)).astype(np.float32)
    np.save(os.path.join(folder, "x.npy"), images)
    file = quantised(model, images, folder) if args.precision == "int8" else model
    found = {"hires-engine": [], "onnxruntime": [], "openvino": []}
    for _ in range(args.rounds):
        for library, seen in found.items():
            seen.append(one_start(args, library, file, folder))
    key, unit = ("bytes", 2**20) if args.memory else ("seconds", 1)
    medians = {library: statistics.median(s[key] for s in seen) / unit for library, seen in found.items()}
    best = min(medians["onnxruntime"], medians["openvino"])
    return {"model": os.path.basename(model), "batch": args.batch, "precision": args.precision,
            **{name: round(m, 0 if args.memory else 3) for name, m in medians.items()},
            "ratio": round(best / medians["hires-engine"], 2)}


def main():
    args = arguments()
    if args.fresh:
        fresh(args)
        return
    args.engine = os.path.abspath(args.engine)
    args.models = [os.path.abspath(m) for m in args.models]
    bar = " | " if args.markdown else "  "
    if not args.json:
        print(bar.join(["model", "batch", "precision", "hires-engine", "ONNX Runtime", "OpenVINO", "ratio"]))
    for model in args.models:
        with tempfile.TemporaryDirectory() as folder:
            row = (compare_starts if args.startup or args.memory else compare)(args, model, folder)
        print(json.dumps(row) if args.json else bar.join(str(v) for v in row.values()), flush=True)


if __name__ == "__main__":
    main()
