#!/usr/bin/python3
"""Writes tests/golden/qdq: models quantised as other tools export them, and what they must give.

  make_qdq_goldens.py DIR

Each NAME.onnx computes between pairs of QuantizeLinear and DequantizeLinear; NAME.x.npy is an input
and NAME.y.npy what the ONNX operators, each on its own and in double precision, make of it.
"asymmetric" is what ONNX Runtime writes (uint8 with zero points, int8 weights for each channel,
int32 bias), "trained" what quantisation-aware training writes (int8, float weights behind a pair),
"shifted" has uint8 weights with zero points, of which one node's need more than 8 bits, "tokens"
multiplies tokens by matrices (MatMul) whose scales are one for each column, or one for all. "block" is
a transformer's block and "last" a ConvNeXt's, channels last, as ONNX Runtime writes both: every
operator between pairs, sums with constants in 8 bits, GELU in five operators.
Needs Python and numpy; the files are the same in every run.
"""
import math
import os
import sys

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from make_onnx_goldens import model, msg, node, num  # noqa: E402

TYPES = {np.dtype(np.float32): 1, np.dtype(np.uint8): 2, np.dtype(np.int8): 3, np.dtype(np.int32): 6}


def tensor(name, array):
    array = np.asarray(array)
    return (b"".join(num(1, d) for d in array.shape) + num(2, TYPES[array.dtype]) + msg(8, name) +
            msg(9, np.ascontiguousarray(array).tobytes()))


class Net:
    """Builds the file and computes the values, node by node."""

    def __init__(self, seed):
        self.random = np.random.default_rng(seed)
        self.nodes, self.weights, self.values, self.count = [], [], {}, 0

    def name(self, what):
        self.count += 1
        return "%s_%d" % (what, self.count)

    def constant(self, array, what="c"):
        name = self.name(what)
        self.weights.append(tensor(name, array))
        self.values[name] = np.asarray(array)
        return name

    def add(self, op, inputs, result, **attributes):
        name = self.name(op.lower())
        self.nodes.append(node(op, inputs, [name], name=name + "_node", **attributes))
        self.values[name] = result
        return name

    def quantize(self, x, scale, zero, axis=None):
        s, z = np.float32(scale), np.asarray(zero)
        shape = [1] * self.values[x].ndim
        if axis is not None:
            shape[axis] = -1
        low, high = np.iinfo(z.dtype).min, np.iinfo(z.dtype).max
        steps = np.rint(self.values[x].astype(np.float32) / s.reshape(shape)) + z.reshape(shape)
        q = np.clip(steps, low, high).astype(z.dtype)
        more = {} if axis is None else {"axis": axis}
        return self.add("QuantizeLinear", [x, self.constant(s), self.constant(z)], q, **more)

    def dequantize(self, q, scale, zero, axis=None):
        s, z = np.float32(scale), np.asarray(zero)
        shape = [1] * self.values[q].ndim
        if axis is not None:
            shape[axis] = -1
        real = (self.values[q].astype(np.float64) - z.reshape(shape)) * s.reshape(shape)
        more = {} if axis is None else {"axis": axis}
        inputs = [q, self.constant(s), self.constant(z)]
        return self.add("DequantizeLinear", inputs, real.astype(np.float32), **more)

    def pair(self, x, scale, zero):
        self.last_pair = (scale, zero)
        return self.dequantize(self.quantize(x, scale, zero), scale, zero)

    def stored(self, integers, scale, zero=None, axis=None):
        zero = np.zeros(np.shape(scale), integers.dtype) if zero is None else zero
        return self.dequantize(self.constant(integers, "w"), scale, zero, axis)

    def conv(self, x, w, bias=None, stride=1, pad=0):
        v, k = self.values[x].astype(np.float64), self.values[w].astype(np.float64)
        v = np.pad(v, ((0, 0), (0, 0), (pad, pad), (pad, pad)))
        rows = (v.shape[2] - k.shape[2]) // stride + 1
        columns = (v.shape[3] - k.shape[3]) // stride + 1
        y = np.zeros((v.shape[0], k.shape[0], rows, columns))
        for i in range(k.shape[2]):
            for j in range(k.shape[3]):
                part = v[:, :, i:i + rows * stride:stride, j:j + columns * stride:stride]
                y += np.einsum("nchw,mc->nmhw", part, k[:, :, i, j])
        inputs = [x, w]
        if bias is not None:
            y += self.values[bias].astype(np.float64).reshape(1, -1, 1, 1)
            inputs.append(bias)
        return self.add("Conv", inputs, y.astype(np.float32), strides=[stride, stride],
                        pads=[pad] * 4)

    def relu(self, x):
        return self.add("Relu", [x], np.maximum(self.values[x], 0))

    def max_pool(self, x):
        v = self.values[x]
        n, c, h, w = v.shape
        y = v.reshape(n, c, h // 2, 2, w // 2, 2).max(axis=(3, 5))
        return self.add("MaxPool", [x], y, kernel_shape=[2, 2], strides=[2, 2])

    def sum(self, a, b):
        return self.add("Add", [a, b], self.values[a] + self.values[b])

    def global_pool(self, x):
        v = self.values[x].astype(np.float64).mean(axis=(2, 3), keepdims=True).astype(np.float32)
        return self.add("GlobalAveragePool", [x], v)

    def gemm(self, x, w, bias):
        y = self.values[x].astype(np.float64) @ self.values[w].astype(np.float64).T
        y = y + self.values[bias].astype(np.float64)
        return self.add("Gemm", [x, w, bias], y.astype(np.float32), transB=1)

    def matmul(self, x, w):
        y = self.values[x].astype(np.float64) @ self.values[w].astype(np.float64)
        return self.add("MatMul", [x, w], y.astype(np.float32))

    def mul(self, a, b):
        return self.add("Mul", [a, b], self.values[a] * self.values[b])

    def transpose(self, x, *axes):
        return self.add("Transpose", [x], self.values[x].transpose(axes), perm=list(axes))

    def reshape(self, x, *shape):
        sizes = self.name("sizes")
        array = np.asarray(shape, np.int64)
        self.weights.append(num(1, len(shape)) + num(2, 7) + msg(8, sizes) + msg(9, array.tobytes()))
        return self.add("Reshape", [x, sizes], self.values[x].reshape(shape))

    def slice(self, x, i):
        """Part i of the first axis, without it."""
        places = self.name("place")
        self.weights.append(num(2, 7) + msg(8, places) + msg(9, np.int64(i).tobytes()))
        return self.add("Gather", [x, places], self.values[x][i], axis=0)

    def softmax(self, x):
        e = self.values[x].astype(np.float64)
        e = np.exp(e - e.max(-1, keepdims=True))
        return self.add("Softmax", [x], (e / e.sum(-1, keepdims=True)).astype(np.float32), axis=-1)

    def norm(self, x, scale, bias):
        v = self.values[x].astype(np.float64)
        v = (v - v.mean(-1, keepdims=True)) / np.sqrt(v.var(-1, keepdims=True) + 1e-5)
        y = v * self.values[scale] + self.values[bias]
        return self.add("LayerNormalization", [x, scale, bias], y.astype(np.float32), axis=-1)

    def gelu(self, x, pair):
        """In the pieces that opset 17 has, rounded between them."""
        root = self.constant(np.float32(2 ** 0.5))
        d = self.add("Div", [x, root], self.values[x] / self.values[root])
        errors = np.vectorize(math.erf)(self.values[d].astype(np.float64))
        e = pair(self.add("Erf", [d], errors.astype(np.float32)))
        one = self.stored(np.asarray(255, np.uint8), np.float32(1 / 255), np.uint8(0))
        half = self.stored(np.asarray(255, np.uint8), np.float32(0.5 / 255), np.uint8(0))
        return pair(self.mul(pair(self.mul(x, pair(self.sum(e, one)))), half))

    def fitted(self, x):
        """A pair whose scale and zero point fit the value."""
        low, high = min(float(self.values[x].min()), 0), max(float(self.values[x].max()), 0)
        scale = np.float32((high - low) / 255)
        return self.pair(x, scale, np.uint8(round(-low / float(scale))))

    def integers(self, *shape):
        return np.clip(np.rint(self.random.normal(0, 40, shape)), -127, 127).astype(np.int8)

    def save(self, directory, name, x, y, opset):
        whole = model(*self.nodes, opset=opset, weights=self.weights, outputs=(y,),
                      inputs=(("x", ["batch"] + list(self.values[x].shape[1:])),))
        with open(os.path.join(directory, name + ".onnx"), "wb") as f:
            f.write(whole)
        np.save(os.path.join(directory, name + ".x.npy"), self.values[x].astype(np.float32))
        np.save(os.path.join(directory, name + ".y.npy"), self.values[y].astype(np.float32))


def start(seed):
    net = Net(seed)
    net.values["x"] = net.random.normal(0.2, 1, (2, 3, 16, 16)).astype(np.float32)
    return net


def asymmetric(directory):
    net = start(7)
    u8 = np.uint8
    scales = lambda n, top: (net.random.uniform(0.5, 1, n) * top).astype(np.float32)  # noqa: E731
    x = net.pair("x", 0.03, u8(114))
    s = scales(16, 2e-3)
    bias = net.stored(net.random.integers(-3000, 3000, 16).astype(np.int32), s * np.float32(0.03),
                      axis=0)
    a = net.conv(x, net.stored(net.integers(16, 3, 3, 3), s, axis=0), bias, pad=1)
    a = net.pair(net.relu(a), 0.0117, u8(0))
    a = net.pair(net.max_pool(a), 0.0117, u8(0))
    b = net.conv(a, net.stored(net.integers(16, 16, 3, 3), scales(16, 2e-3), axis=0), pad=1)
    b = net.pair(b, 0.023, u8(120))
    c = net.pair(net.relu(net.sum(a, b)), 0.0191, u8(0))
    weights = (net.integers(24, 16, 3, 3).astype(np.int32) + 128).astype(u8)
    d = net.conv(c, net.stored(weights, np.float32(1.7e-3), u8(128)), stride=2, pad=1)
    d = net.pair(net.relu(d), 0.0173, u8(0))
    d = net.pair(net.global_pool(d), 0.0041, u8(0))
    d = net.add("Flatten", [d], net.values[d].reshape(2, -1))
    bias = net.stored(net.random.integers(-2000, 2000, 5).astype(np.int32),
                      np.float32(0.0041) * np.float32(0.011))
    y = net.gemm(d, net.stored(net.integers(5, 24), np.float32(0.011)), bias)
    net.save(directory, "asymmetric", "x", net.pair(y, 0.021, u8(97)), 13)


def trained(directory):
    net = start(8)
    zero = np.int8(0)

    def weights(*shape):
        w = net.constant(net.random.normal(0, 0.1, shape).astype(np.float32), "w")
        top = np.abs(net.values[w]).reshape(shape[0], -1).max(axis=1)
        s, z = (top / 127).astype(np.float32), np.zeros(shape[0], np.int8)
        return net.dequantize(net.quantize(w, s, z, axis=0), s, z, axis=0)

    x = net.pair("x", 0.031, zero)
    a = net.pair(net.relu(net.conv(x, weights(16, 3, 3, 3), pad=1)), 0.0153, zero)
    b = net.pair(net.relu(net.conv(a, weights(16, 16, 1, 1))), 0.0101, zero)
    b = net.conv(b, weights(16, 16, 3, 3), pad=1)
    c = net.pair(net.relu(net.sum(b, a)), 0.0271, zero)  # the sum's other side has no pair
    y = net.conv(c, weights(4, 16, 1, 1))
    net.save(directory, "trained", "x", y, 13)


def shifted(directory):
    """uint8 weights: one node's zero point leaves them within 8 bits, the other node's does not."""
    net = start(9)
    u8 = np.uint8
    x = net.pair("x", 0.03, u8(114))
    a = net.conv(x, net.stored((net.integers(16, 3, 3, 3).astype(np.int32) + 128).astype(u8),
                               np.float32(2e-3), u8(128)), pad=1)
    a = net.pair(net.relu(a), 0.0117, u8(0))
    weights = net.random.integers(0, 256, (8, 16, 3, 3)).astype(u8)
    b = net.pair(net.conv(a, net.stored(weights, np.float32(1e-3), u8(60)), pad=1), 0.06, u8(100))
    b = net.pair(net.global_pool(b), 0.02, u8(100))
    b = net.add("Flatten", [b], net.values[b].reshape(2, -1))
    bias = net.stored(np.zeros(2, np.int32), np.float32(0.02) * np.float32(0.011))
    y = net.gemm(b, net.stored(net.integers(2, 8), np.float32(0.011)), bias)
    net.save(directory, "shifted", "x", net.pair(y, 0.021, u8(97)), 13)


def tokens(directory):
    net = Net(10)
    u8 = np.uint8
    scales = lambda n, top: (net.random.uniform(0.5, 1, n) * top).astype(np.float32)  # noqa: E731
    net.values["x"] = net.random.normal(0.2, 1, (2, 7, 16)).astype(np.float32)
    x = net.pair("x", 0.03, u8(114))
    s = scales(24, 2e-3)
    bias = net.stored(net.random.integers(-3000, 3000, 24).astype(np.int32), s * np.float32(0.03),
                      axis=0)
    a = net.sum(net.matmul(x, net.stored(net.integers(16, 24), s, axis=1)), bias)
    a = net.pair(net.relu(a), 0.0071, u8(0))
    weights = (net.integers(24, 16).astype(np.int32) + 128).astype(u8)
    b = net.pair(net.matmul(a, net.stored(weights, np.float32(3e-3), u8(128))), 0.017, u8(131))
    c = net.pair(net.sum(x, b), 0.041, u8(117))
    y = net.matmul(c, net.stored(net.integers(16, 5), scales(5, 4e-3), axis=1))
    net.save(directory, "tokens", "x", net.pair(y, 0.021, u8(125)), 13)


def block(directory):
    net = Net(11)
    net.values["x"] = net.random.normal(0.2, 1, (2, 21, 32)).astype(np.float32)
    row = lambda n, top: net.stored(net.integers(n), np.float32(top / 127))  # noqa: E731
    pair, heads, d = net.fitted, 2, 16

    def linear(x, n_in, n_out, top):
        scales = (net.random.uniform(0.5, 1, n_out) * top).astype(np.float32)
        y = pair(net.matmul(x, net.stored(net.integers(n_in, n_out), scales, axis=1)))
        return pair(net.sum(row(n_out, 0.5), y))

    def normalised(x):
        bias = net.stored(net.random.integers(-9, 9, 32).astype(np.int32), np.float32(0.01))
        return pair(net.norm(x, row(32, 2), bias))

    x = pair(net.sum(pair("x"), net.stored(net.integers(1, 21, 32), np.float32(4e-3))))
    y = linear(normalised(x), 32, 96, 6e-3)
    s, z = net.last_pair  # moves keep scale and zero point
    again = lambda v: net.pair(v, s, z)  # noqa: E731
    qkv = again(net.transpose(again(net.reshape(y, 2, 21, 3, heads, d)), 2, 0, 3, 1, 4))
    q, k, v = (again(net.slice(qkv, i)) for i in range(3))
    root = net.stored(np.asarray(255, np.uint8), np.float32(0.5 / 255), np.uint8(0))
    k = again(net.transpose(k, 0, 1, 3, 2))
    scores = pair(net.matmul(pair(net.mul(q, root)), pair(net.mul(k, root))))
    weights = net.pair(net.softmax(scores), np.float32(1 / 255), np.uint8(0))
    a = pair(net.matmul(weights, v))
    s, z = net.last_pair
    a = again(net.reshape(again(net.transpose(a, 0, 2, 1, 3)), 2, 21, 32))
    x = pair(net.sum(x, linear(a, 32, 32, 6e-3)))
    y = net.gelu(linear(normalised(x), 32, 64, 6e-3), pair)
    x = pair(net.sum(x, linear(y, 64, 32, 4e-3)))
    net.save(directory, "block", "x", x, 17)


def last(directory):
    net = Net(12)
    net.values["x"] = net.random.normal(0.2, 1, (2, 16, 5, 6)).astype(np.float32)
    row = lambda top, *shape: net.stored(net.integers(*shape), np.float32(top / 127))  # noqa: E731
    pair = net.fitted

    def linear(x, n_in, n_out, top):
        scales = (net.random.uniform(0.5, 1, n_out) * top).astype(np.float32)
        y = pair(net.matmul(x, net.stored(net.integers(n_in, n_out), scales, axis=1)))
        return pair(net.sum(row(0.5, n_out), y))

    x = pair("x")
    a = pair(net.conv(x, net.stored(net.integers(16, 16, 3, 3), np.float32(1e-3)), pad=1))
    s, z = net.last_pair
    a = net.pair(net.transpose(a, 0, 2, 3, 1), s, z)
    bias = net.stored(net.random.integers(-9, 9, 16).astype(np.int32), np.float32(0.01))
    a = pair(net.norm(a, row(2, 16), bias))
    a = net.gelu(linear(a, 16, 64, 6e-3), pair)
    a = linear(a, 64, 16, 4e-3)
    a = pair(net.mul(row(0.7, 1, 1, 1, 16), a))
    s, z = net.last_pair
    a = net.pair(net.transpose(a, 0, 3, 1, 2), s * np.float32(1.3), z)  # rounds once more
    x = pair(net.sum(a, x))
    y = net.conv(x, net.stored(net.integers(4, 16, 1, 1), np.float32(2e-3)))
    net.save(directory, "last", "x", pair(y), 17)


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    os.makedirs(sys.argv[1], exist_ok=True)
    asymmetric(sys.argv[1])
    trained(sys.argv[1])
    shifted(sys.argv[1])
    tokens(sys.argv[1])
    block(sys.argv[1])
    last(sys.argv[1])


if __name__ == "__main__":
    main()
