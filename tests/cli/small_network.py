"""Writes a small network with random weights as ONNX: four convolutions with ReLU, the global mean and a linear layer.
A position of its features sees 17 px. Images of any size, in any batch; with SIDE, of that side alone, without a mean.

    small_network.py small.onnx [SIDE]
"""
import random, struct, sys


def varint(n):
    out = b""
    while n > 127:
        out, n = out + bytes([n & 127 | 128]), n >> 7
    return out + bytes([n])


def number(field, n):
    return varint(field << 3) + varint(n)


def text(field, value):
    data = value.encode() if isinstance(value, str) else value
    return varint(field << 3 | 2) + varint(len(data)) + data


def tensor(name, dims, values):
    return text(5, b"".join(number(1, d) for d in dims) + number(2, 1) + text(8, name) + text(9, struct.pack(f"<{len(values)}f", *values)))


def value(field, name, dims):
    shape = b"".join(text(1, number(1, d) if isinstance(d, int) else text(2, d)) for d in dims)
    return text(field, text(1, name) + text(2, text(1, number(1, 1) + text(2, shape))))


def ints(name, values):
    return text(5, text(1, name) + number(20, 7) + b"".join(number(8, v) for v in values))


def node(op, inputs, output, attributes=b""):
    return text(1, b"".join(text(1, i) for i in inputs) + text(2, output) + text(3, "node " + output) + text(4, op) + attributes)


random.seed(7)
graph, at, weights = b"", "image", b""
for i, (n_in, n_out, stride) in enumerate(((3, 8, 1), (8, 24, 2), (24, 24, 2), (24, 32, 1))):
    bound = (6 / (n_in * 9)) ** 0.5
    weights += tensor(f"conv{i}.weight", [n_out, n_in, 3, 3], [random.uniform(-bound, bound) for _ in range(n_out * n_in * 9)])
    weights += tensor(f"conv{i}.bias", [n_out], [0.0] * n_out)
    graph += node("Conv", [at, f"conv{i}.weight", f"conv{i}.bias"], f"conv{i}", ints("kernel_shape", [3, 3]) + ints("pads", [1] * 4) + ints("strides", [stride] * 2))
    at = f"relu{i}"
    graph += node("Relu", [f"conv{i}"], at)
side = int(sys.argv[2]) if len(sys.argv) > 2 else 0
n = 32 * (side // 4) ** 2 if side else 32
weights += tensor("linear.weight", [2, n], [random.uniform(-0.1, 0.1) for _ in range(2 * n)]) + tensor("linear.bias", [2], [0.0] * 2)
graph += (node("Flatten", [at], "flat") if side else node("GlobalAveragePool", [at], "mean") + node("Flatten", ["mean"], "flat"))
graph += node("Gemm", ["flat", "linear.weight", "linear.bias"], "scores", text(5, text(1, "transB") + number(3, 1) + number(20, 2)))
graph += text(2, "small") + weights + value(11, "image", ["batch", 3, side or "rows", side or "columns"]) + value(12, "scores", ["batch", 2])
open(sys.argv[1], "wb").write(number(1, 8) + text(7, graph) + text(8, number(2, 13)))
