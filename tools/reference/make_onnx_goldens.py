#!/usr/bin/python3
"""Writes tests/golden/onnx: small ONNX files, good ones and one for each fault.

  make_onnx_goldens.py DIR

Needs nothing but Python: the wire format is put down by hand, so that the files can be wrong in
ways no exporter would make them. test_onnx.c holds what each of them must give.
"""
import os
import struct
import sys

FLOAT, UINT8, INT64, BOOL, FLOAT16, STRING = 1, 2, 7, 9, 10, 8


def varint(value):
    value &= (1 << 64) - 1
    out = b""
    while value >= 0x80:
        out += bytes([value & 0x7F | 0x80])
        value >>= 7
    return out + bytes([value])


def num(field, value):
    return varint(field << 3) + varint(value)


def msg(field, *parts):
    body = b"".join(p.encode() if isinstance(p, str) else p for p in parts)
    return varint(field << 3 | 2) + varint(len(body)) + body


def f32(field, value):
    return varint(field << 3 | 5) + struct.pack("<f", value)


def tensor(name, dims, values, kind=FLOAT, raw=True, extra=b""):
    body = b"".join(num(1, d) for d in dims) + num(2, kind) + msg(8, name) + extra
    if values is None:
        return body
    code = {FLOAT: "f", INT64: "q", BOOL: "?", UINT8: "B", FLOAT16: "e"}[kind]
    if raw:
        return body + msg(9, struct.pack("<%d%s" % (len(values), code), *values))
    if kind == FLOAT:
        return body + msg(4, struct.pack("<%df" % len(values), *values))
    return body + msg(7, *[varint(v) for v in values])


def attr(name, value):
    if isinstance(value, Graph):
        return msg(5, msg(1, name), num(20, 5), msg(6, value))
    if isinstance(value, bytes):  # a tensor
        return msg(5, msg(1, name), num(20, 4), msg(5, value))
    if isinstance(value, str):
        return msg(5, msg(1, name), num(20, 3), msg(4, value))
    if isinstance(value, float):
        return msg(5, msg(1, name), num(20, 1), f32(2, value))
    if isinstance(value, int):
        return msg(5, msg(1, name), num(20, 2), num(3, value))
    return msg(5, msg(1, name), num(20, 7), *[num(8, v) for v in value])


def node(op, inputs, outputs, name=None, domain=b"", raw=b"", **attributes):
    return msg(1, *[msg(1, i) for i in inputs], *[msg(2, o) for o in outputs],
               msg(3, name if name is not None else "the_" + op.lower()), msg(4, op),
               *[attr(k, v) for k, v in attributes.items()], raw, domain)


def value(field, name, dims, kind=FLOAT):
    shape = b"" if dims is None else msg(2, *[
        msg(1, msg(2, d) if isinstance(d, str) else num(1, d)) for d in dims])
    return msg(field, msg(1, name), msg(2, msg(1, num(1, kind), shape)))


def model(*graph, opset=13, outputs=("y",), inputs=(("x", ["batch", 2, 5, 7]),), weights=(),
          domain="", extra=b""):
    body = b"".join(graph) + msg(2, "golden") + b"".join(msg(5, w) for w in weights)
    body += b"".join(value(11, n, d) for n, d in inputs)
    body += b"".join(value(12, n, None) for n in outputs)
    return num(1, 7) + msg(2, "by hand") + msg(8, msg(1, domain), num(2, opset)) + msg(7, body) + extra


class Graph(bytes):
    pass


def branch(*nodes, output):
    return Graph(b"".join(nodes) + msg(2, "branch") + value(12, output, None))


def ints(name, values):
    return tensor(name, [len(values)], values, INT64)


def scalar(name, number):
    return tensor(name, [], [number])


W = tensor("w", [4, 2, 3, 3], [(i % 7 - 3) / 8 for i in range(72)])
GOOD = {
    "conv": model(node("Conv", ["x", "w", "b"], ["y"], kernel_shape=[3, 3], pads=[1, 0, 1, 2],
                       strides=[2, 1]), weights=[W, tensor("b", [4], [1, 2, 3, 4])]),
    # The same with typed data, weights among the inputs, defaults left out, nodes out of order.
    "conv_old": model(node("Relu", ["c"], ["y"]), node("Conv", ["x", "w"], ["c"]), opset=7,
                      inputs=(("x", ["batch", 2, 5, 7]), ("w", [4, 2, 3, 3])),
                      weights=[tensor("w", [4, 2, 3, 3], [(i % 7 - 3) / 8 for i in range(72)], raw=False)]),
    "conv_new": model(node("Conv", ["x", "w"], ["c"]), node("Relu", ["c"], ["y"]), weights=[W]),
    "conv_same_upper": model(node("Conv", ["x", "w"], ["y"], auto_pad="SAME_UPPER", strides=[2, 2]), weights=[W]),
    "conv_same_lower": model(node("Conv", ["x", "w"], ["y"], auto_pad="SAME_LOWER", strides=[2, 2]), weights=[W]),
    "clip_6": model(node("Clip", ["x"], ["y"], min=0.0, max=6.0), opset=7),
    "clip_13": model(node("Clip", ["x", "lo", "hi"], ["y"]), weights=[scalar("lo", 0.0), scalar("hi", 6.0)]),
    "clip_13_max_only": model(node("Clip", ["x", "", "hi"], ["y"]), weights=[scalar("hi", 6.0)]),
    "pad_2": model(node("Pad", ["x"], ["y"], mode="constant", pads=[0, 0, 1, 2, 0, 0, 3, 4], value=0.5), opset=10),
    "pad_13": model(node("Pad", ["x", "p", "v"], ["y"]), weights=[ints("p", [0, 0, 1, 2, 0, 0, 3, 4]), scalar("v", 0.5)]),
    "pad_18": model(node("Pad", ["x", "p", "v", "a"], ["y"]), opset=18,
                    weights=[ints("p", [1, 2, 3, 4]), scalar("v", 0.5), ints("a", [-2, -1])]),
    "slice_1": model(node("Slice", ["x"], ["y"], axes=[2, 3], starts=[1, -3], ends=[1 << 62, -1]), opset=9),
    "slice_13": model(node("Slice", ["x", "s", "e", "a"], ["y"]),
                      weights=[ints("s", [1, -3]), ints("e", [1 << 62, -1]), ints("a", [2, 3])]),
    "slice_reverse": model(node("Slice", ["x", "s", "e", "a", "t"], ["y"]),
                           weights=[ints("s", [-1]), ints("e", [-(1 << 62)]), ints("a", [3]), ints("t", [-2])]),
    "squeeze_11": model(node("Unsqueeze", ["x"], ["u"], axes=[0, 5]), node("Squeeze", ["u"], ["y"], axes=[0, 5]), opset=11),
    "squeeze_13": model(node("Unsqueeze", ["x", "a"], ["u"]), node("Squeeze", ["u", "a"], ["y"]), weights=[ints("a", [0, 5])]),
    "reduce_mean_11": model(node("ReduceMean", ["x"], ["y"], axes=[-2, -1], keepdims=0), opset=11),
    "reduce_mean_18": model(node("ReduceMean", ["x", "a"], ["y"], keepdims=0), opset=18, weights=[ints("a", [-2, -1])]),
    "dropout_7": model(node("Dropout", ["x"], ["y", "mask"], ratio=0.5), opset=7),
    "dropout_13": model(node("Dropout", ["x", "r", "t"], ["y"]),
                        weights=[scalar("r", 0.5), tensor("t", [], [False], BOOL)]),
    "batch_norm_7": model(node("BatchNormalization", ["x", "s", "b", "m", "v"], ["y", "", "unused"], epsilon=1e-3,
                               momentum=0.9, spatial=1), opset=7,
                          weights=[tensor(n, [2], v) for n, v in
                                   (("s", [1, 2]), ("b", [0, 1]), ("m", [0, 0]), ("v", [1, 4]))]),
    # Exporters share equal weights through Identity.
    "shared_weights": model(node("Identity", ["w"], ["w2"]), node("Conv", ["x", "w2"], ["c"]),
                            node("Relu", ["c"], ["y"]), weights=[W]),
    "sum_3": model(node("Sum", ["x", "x", "x"], ["y"])),
    "constants": model(node("Constant", [], ["k"], value=scalar("", 2.0)), node("Mul", ["x", "k"], ["m"]),
                       node("Constant", [], ["k2"], value_float=3.0), node("Add", ["m", "k2"], ["y"])),
    # x.view(x.shape[0], -1) as PyTorch exports it.
    "view": model(node("Shape", ["x"], ["s"]), node("Constant", [], ["zero"], value=tensor("", [], [0], INT64)),
                  node("Gather", ["s", "zero"], ["n"], axis=0), node("Unsqueeze", ["n", "ax"], ["n1"]),
                  node("Concat", ["n1", "rest"], ["to"], axis=0), node("Reshape", ["x", "to"], ["y"]),
                  weights=[ints("ax", [0]), ints("rest", [-1])]),
    # The first half of the channels, by shape arithmetic.
    "half": model(node("Shape", ["x"], ["s"]), node("Gather", ["s", "one"], ["c"], axis=0),
                  node("Div", ["c", "two"], ["h"]), node("Cast", ["h"], ["h64"], to=INT64),
                  node("Slice", ["x", "from", "h64", "one"], ["y"]),
                  weights=[ints("one", [1]), ints("two", [2]), ints("from", [0])]),
    # Pads in PyTorch's order brought into ONNX's, as its exporter writes it.
    "pad_by_arithmetic": model(
        node("ConstantOfShape", ["four"], ["zeros"], value=tensor("", [1], [0], INT64)),
        node("Concat", ["p", "zeros"], ["all"], axis=0), node("Reshape", ["all", "pairs"], ["m"]),
        node("Slice", ["m", "last", "before", "axis", "step"], ["r"]), node("Transpose", ["r"], ["t"], perm=[1, 0]),
        node("Reshape", ["t", "flat"], ["f"]), node("Cast", ["f"], ["pads"], to=INT64),
        node("Pad", ["x", "pads", "v"], ["y"]),
        weights=[ints("four", [4]), ints("p", [1, 2, 3, 4]), ints("pairs", [-1, 2]), ints("last", [-1]),
                 ints("before", [-(1 << 62)]), ints("axis", [0]), ints("step", [-1]), ints("flat", [-1]),
                 scalar("v", 0.0)]),
    "add_6": model(node("Add", ["x", "k"], ["y"], broadcast=1), opset=6, weights=[tensor("k", [7], list(range(7)))]),
    "add_13": model(node("Add", ["x", "k"], ["y"]), weights=[tensor("k", [7], list(range(7)))]),
    # Weights in half precision are read as float32.
    "half_weights": model(node("Conv", ["x", "w"], ["y"]),
                          weights=[tensor("w", [4, 2, 3, 3], [(i % 7 - 3) / 8 for i in range(72)], FLOAT16)]),
    "float_weights": model(node("Conv", ["x", "w"], ["y"]), weights=[W]),
    # Open dimensions as exporters write them.
    "zero_dim": model(node("Relu", ["x"], ["y"]), inputs=(("x", [0, 2, -1, "width"]),)),
    "layer_norm_17": model(node("LayerNormalization", ["x", "s", "b"], ["y"], axis=-1, epsilon=1e-6), opset=17,
                           weights=[tensor("s", [7], [1.0] * 7), tensor("b", [7], [0.5] * 7)]),
    "group_norm_21": model(node("GroupNormalization", ["x", "s", "s"], ["y"], num_groups=1), opset=21,
                           weights=[tensor("s", [2], [1.0, 2.0])]),
    "rms_norm_23": model(node("RMSNormalization", ["x", "s"], ["y"]), opset=23, weights=[tensor("s", [7], [1.0] * 7)]),
    "gelu_20": model(node("Gelu", ["x"], ["g"]), node("Gelu", ["g"], ["y"], approximate="tanh"), opset=20),
    "attention_23": model(node("Attention", ["x", "x", "x"], ["y"], is_causal=1), opset=23),
    "attention_heads": model(node("Reshape", ["x", "to"], ["t"]),
                             node("Attention", ["t", "t", "t"], ["y"], q_num_heads=2, kv_num_heads=2), opset=23,
                             weights=[ints("to", [0, 5, 14])]),
    "rotary_23": model(node("Slice", ["x", "from", "until", "axis"], ["even"]),
                       node("RotaryEmbedding", ["even", "c", "c"], ["y"]), opset=23,
                       weights=[ints("from", [0]), ints("until", [6]), ints("axis", [3]),
                                tensor("c", [3, 5, 3], [0.5] * 45)]),
    "split_2": model(node("Split", ["x"], ["a", "b"], axis=3, split=[3, 4]), node("Relu", ["b"], ["y"]), opset=7),
    "split_13": model(node("Split", ["x", "n"], ["a", "b"], axis=3), node("Relu", ["b"], ["y"]),
                      weights=[ints("n", [3, 4])]),
    "split_equal": model(node("Split", ["x"], ["a", "b"], axis=1), node("Add", ["a", "b"], ["y"])),
    "split_18": model(node("Split", ["x"], ["a", "b", "y"], axis=3, num_outputs=3), opset=18),
    "conv_1d": model(node("Reshape", ["x", "to"], ["r"]),
                     node("Conv", ["r", "w"], ["c"], kernel_shape=[3], pads=[1, 0], strides=[2]),
                     node("MaxPool", ["c"], ["y"], kernel_shape=[2]),
                     weights=[ints("to", [0, 10, 7]), tensor("w", [4, 10, 3], [(i % 7 - 3) / 8 for i in range(120)])]),
    "pad_reflect": model(node("Pad", ["x", "p"], ["y"], mode="reflect"), weights=[ints("p", [0, 0, 1, 2, 0, 0, 3, 4])]),
    "einsum": model(node("Einsum", ["x", "k"], ["y"], equation="nchw,hkd->nchkd"),
                    weights=[tensor("k", [5, 3, 4], [0.25] * 60)]),
    "einsum_two": model(node("Einsum", ["x", "x"], ["y"], equation="nchw,nciw->nhi")),
    # torch.Tensor.expand(-1, ...): -1 keeps the size.
    "expand": model(node("Shape", ["wanted"], ["n"]), node("ConstantOfShape", ["n"], ["ones"], value=tensor("", [1], [1], INT64)),
                    node("Mul", ["ones", "minus"], ["open"]), node("Equal", ["wanted", "open"], ["is_open"]),
                    node("Where", ["is_open", "ones", "wanted"], ["shape"]), node("Expand", ["k", "shape"], ["e"]),
                    node("Add", ["x", "e"], ["y"]),
                    weights=[ints("wanted", [-1, 2, -1, 7]), ints("minus", [-1]), tensor("k", [1, 1, 5, 1], [1, 2, 3, 4, 5])]),
    # Of each column of scores the row of the greatest, as torch.sort and torch.argmax write it.
    "top_k": model(node("Reshape", ["x", "to"], ["r"]), node("Slice", ["r", "zero", "two", "one"], ["scores"]),
                   node("TopK", ["scores", "three"], ["sorted", "indices"], axis=0),
                   node("Gather", ["indices", "first"], ["best"], axis=0), node("Reshape", ["best", "flat"], ["b"]),
                   node("Gather", ["r", "b"], ["y"], axis=0),
                   weights=[ints("to", [0, -1]), ints("zero", [0]), ints("two", [2]), ints("one", [1]), ints("three", [3]),
                            ints("flat", [-1]), tensor("first", [], [0], INT64)]),
    "arg_max": model(node("Reshape", ["x", "to"], ["r"]), node("Slice", ["r", "zero", "two", "one"], ["scores"]),
                     node("ArgMax", ["scores"], ["best"], axis=0, keepdims=0), node("Gather", ["r", "best"], ["y"], axis=0),
                     weights=[ints("to", [0, -1]), ints("zero", [0]), ints("two", [2]), ints("one", [1])]),
    # The padding of TensorFlow's SAME, computed from the size.
    "same_pads": model(node("Shape", ["x"], ["s"]), node("Gather", ["s", "three"], ["w0"], axis=0),
                       node("Add", ["w0", "one"], ["w1"]), node("Mod", ["w1", "two"], ["m"]),
                       node("Sub", ["w0", "m"], ["r"]), node("Max", ["r", "zero"], ["r0"]),
                       node("Cast", ["r0"], ["f"], to=FLOAT), node("Sqrt", ["f"], ["q"]), node("Floor", ["q"], ["q0"]),
                       node("Cast", ["q0"], ["i"], to=INT64), node("Concat", ["six", "zero", "i"], ["p"], axis=0),
                       node("Pad", ["x", "p"], ["y"]),
                       weights=[ints("three", [3]), ints("one", [1]), ints("two", [2]), ints("zero", [0]),
                                ints("six", [0] * 6)]),
    "resize_axes": model(node("Resize", ["x", "", "", "n"], ["y"], axes=[2, 3], mode="linear",
                              keep_aspect_ratio_policy="not_larger"), opset=18, weights=[ints("n", [10, 28])]),
    "resize_antialias": model(node("Resize", ["x", "", "", "n"], ["y"], antialias=1, mode="cubic"), opset=18,
                              weights=[ints("n", [3, 2, 5, 7])]),
    # The branch that a constant chooses; it reads a value of the graph around it.
    "if_true": model(node("If", ["k"], ["i"], then_branch=branch(node("Relu", ["x"], ["a"]), output="a"),
                          else_branch=branch(node("Lstm", ["x"], ["b"]), output="b")), node("Tanh", ["i"], ["y"]),
                     weights=[tensor("k", [], [True], BOOL)]),
    "pad_cut": model(node("Pad", ["x", "p"], ["y"]), weights=[ints("p", [0, 0, -1, 1, 0, 0, 1, -1])]),
    "gather_nd": model(node("Transpose", ["x"], ["t"], perm=[3, 0, 1, 2]), node("GatherND", ["t", "i"], ["y"]),
                       weights=[tensor("i", [2, 1], [6, -1], INT64)]),
    "tile": model(node("Tile", ["x", "n"], ["y"]), weights=[ints("n", [1, 2, 1, 3])]),
    "instance_norm": model(node("InstanceNormalization", ["x", "s", "s"], ["y"], epsilon=1e-3),
                           weights=[tensor("s", [2], [1.0, 2.0])]),
    "matmul_integer": model(node("DynamicQuantizeLinear", ["x"], ["q", "s", "z"]),
                            node("MatMulInteger", ["q", "w", "z"], ["i"]), node("Cast", ["i"], ["f"], to=FLOAT),
                            node("Mul", ["f", "s"], ["y"]),
                            weights=[tensor("w", [7, 3], list(range(21)), UINT8)]),
    "softmax_old_on_channels": model(node("GlobalAveragePool", ["x"], ["g"]), node("Softmax", ["g"], ["y"]), opset=9),
}



def external(location, **more):
    entries = ([("location", location)] if location is not None else []) + [(k, str(v)) for k, v in more.items()]
    return tensor("w", [4, 2, 3, 3], None, extra=num(14, 1) + b"".join(
        msg(13, msg(1, k), msg(2, v)) for k, v in entries))


deep = b""
for _ in range(3000):
    deep = msg(6, msg(1, msg(5, deep)))  # a graph with a node with an attribute with a graph ...
deep = num(1, 7) + msg(7, msg(1, msg(5, deep)))
conv = node("Conv", ["x", "w"], ["y"])
relu = node("Relu", ["x"], ["y"])
BAD = {
    "unknown_operator": model(node("Lstm", ["x"], ["y"])),
    "layer_norm_does_not_fit": model(node("LayerNormalization", ["x", "s"], ["y"]), opset=17,
                                     weights=[tensor("s", [5], [1.0] * 5)]),
    "attention_with_cache": model(node("Attention", ["x", "x", "x", "", "x", "x"], ["y"]), opset=23),
    "attention_does_not_fit": model(node("Attention", ["x", "x", "k"], ["y"]), opset=23,
                                    weights=[tensor("k", [1, 2, 4, 7], [0.0] * 56)]),
    "arg_max_computed": model(node("ArgMax", ["x"], ["i"], axis=1, keepdims=0), node("Gather", ["x", "i"], ["y"], axis=0)),
    "arg_max_last": model(node("ArgMax", ["x"], ["y"], select_last_index=1)),
    "top_k_smallest": model(node("TopK", ["x", "k"], ["v", "y"], axis=0, largest=0), weights=[ints("k", [1])]),
    "top_k_values": model(node("TopK", ["x", "k"], ["v", "i"], axis=0), node("Relu", ["v"], ["y"]),
                          weights=[ints("k", [1])]),
    "einsum_repeated": model(node("Einsum", ["x"], ["y"], equation="nnhw->hw")),
    "einsum_without_arrow": model(node("Einsum", ["x"], ["y"], equation="nchw")),
    "split_sizes_computed": model(node("Split", ["x", "x"], ["y", "z"])),
    "split_too_many": model(node("Split", ["x", "n"], ["y", "z"], axis=1), weights=[ints("n", [1, 1, 1])]),
    "if_computed": model(node("Greater", ["x", "x"], ["k"]), node("If", ["k"], ["y"],
                         then_branch=branch(node("Relu", ["x"], ["a"]), output="a"),
                         else_branch=branch(node("Tanh", ["x"], ["b"]), output="b"))),
    "if_without_branch": model(node("If", ["k"], ["y"]), weights=[tensor("k", [], [True], BOOL)]),
    "if_branch_unnamed": model(node("If", ["k"], ["y"], then_branch=branch(node("Relu", ["x"], ["a"]), output="")),
                               weights=[tensor("k", [], [True], BOOL)]),
    "loop": model(node("Loop", ["x"], ["y"])),
    "antialias": model(node("Resize", ["x", "", "", "n"], ["y"], antialias=1), opset=18, weights=[ints("n", [1, 2, 4, 9])]),
    "range_without_end": model(node("Range", ["a", "b", "c"], ["r"]), node("Cast", ["r"], ["f"], to=FLOAT),
                               node("Add", ["x", "f"], ["y"]),
                               weights=[tensor("a", [], [0], INT64), tensor("b", [], [1 << 60], INT64),
                                        tensor("c", [], [1], INT64)]),
    "modulo_zero": model(node("Mod", ["a", "z"], ["m"]), node("Reshape", ["x", "m"], ["y"]),
                         weights=[ints("a", [3]), ints("z", [0])]),
    "condition_computed": model(node("Greater", ["x", "k"], ["c"]), node("Where", ["c", "x", "k"], ["y"]),
                                weights=[tensor("k", [1], [0.0])]),
    "weights_nan": model(conv, weights=[tensor("w", [4, 2, 3, 3], [0.0] * 71 + [float("nan")])]),
    "weights_infinite": model(conv, weights=[tensor("w", [4, 2, 3, 3], [float("inf")] + [0.0] * 71)]),
    "unknown_attribute": model(node("Relu", ["x"], ["y"], alpha=1.0)),
    "other_domain": model(node("Relu", ["x"], ["y"], domain=msg(7, "com.example"))),
    "opset_5": model(relu, opset=5),
    "opset_99": model(relu, opset=99),
    "no_opset": model(relu, domain="com.example"),
    "no_graph": num(1, 7),
    "not_onnx": b"This is not an ONNX file.\n",
    "deep_nesting": deep,
    "external_missing": model(conv, weights=[external("nowhere.bin")]),
    "external_absolute": model(conv, weights=[external("/etc/passwd")]),
    "external_parent": model(conv, weights=[external("a/../../../weights.bin")]),
    "external_too_short": model(conv, weights=[external("not_onnx.onnx")]),
    "external_beyond": model(conv, weights=[external("not_onnx.onnx", offset=1 << 62, length=288)]),
    "external_no_number": model(conv, weights=[external("not_onnx.onnx", offset="12x")]),
    "external_nowhere": model(conv, weights=[external(None)]),
    "external_constant": model(node("Constant", [], ["w"], value=external("/etc/passwd")), conv),
    "data_too_short": model(conv, weights=[tensor("w", [4, 2, 3, 3], [0.0] * 71)]),
    "huge_tensor": model(conv, weights=[tensor("w", [1 << 40, 1 << 40], [0.0])]),
    "large_claim": model(conv, weights=[tensor("w", [1 << 40], [0.0])]),
    "negative_dim": model(conv, weights=[tensor("w", [-4, 2, 3, 3], [0.0])]),
    "rank_7": model(conv, weights=[tensor("w", [1] * 7, [0.0])]),
    "string_tensor": model(conv, weights=[tensor("w", [1], None, STRING)]),
    "cycle": model(node("Add", ["x", "b"], ["a"]), node("Relu", ["a"], ["b"]), node("Relu", ["b"], ["y"])),
    "produced_twice": model(relu, node("Tanh", ["x"], ["y"])),
    "output_is_input": model(node("Relu", ["x"], ["x"]), outputs=("x",)),
    "weights_twice": model(conv, weights=[W, W]),
    "missing_input": model(node("Relu", ["nowhere"], ["y"])),
    "missing_output": model(relu, outputs=("z",)),
    "no_output": model(relu, outputs=()),
    "mask_used": model(node("Dropout", ["x"], ["d", "mask"]), node("Relu", ["mask"], ["y"])),
    "too_many_inputs": model(node("Relu", ["x", "x"], ["y"])),
    "too_few_inputs": model(node("Conv", ["x"], ["y"])),
    "hole_in_inputs": model(node("Conv", ["", "w"], ["y"]), weights=[W]),
    "conv_1d": model(node("Conv", ["x", "w"], ["y"], kernel_shape=[3]), weights=[W]),
    "wrong_attribute_type": model(node("Conv", ["x", "w"], ["y"], group=1.0), weights=[W]),
    "training_batch_norm": model(node("BatchNormalization", ["x", "s", "s", "s", "s"], ["y"], training_mode=1),
                                 opset=14, weights=[tensor("s", [2], [1, 1])]),
    "add_along_axis": model(node("Add", ["x", "k"], ["y"], broadcast=1, axis=1), opset=6,
                            weights=[tensor("k", [2], [1, 2])]),
    "broadcast_since_7": model(node("Add", ["x", "x"], ["y"], broadcast=1), opset=7),
    "training_dropout_6": model(node("Dropout", ["x"], ["y"]), opset=6),
    "pad_reflect_far": model(node("Pad", ["x", "p"], ["y"], mode="reflect"),
                             weights=[ints("p", [0, 0, 5, 0, 0, 0, 0, 0])]),
    "axes_not_constant": model(node("Squeeze", ["x", "x"], ["y"])),
    "impossible_dim": model(relu, inputs=(("x", [1, -5, 5, 7]),)),
    # Structure is right, shapes are not: found by inference.
    "channels_differ": model(conv, weights=[tensor("w", [4, 3, 3, 3], [0.0] * 108)]),
    "window_too_large": model(node("MaxPool", ["x"], ["y"], kernel_shape=[9, 9])),
    "impossible_stride": model(node("MaxPool", ["x"], ["y"], kernel_shape=[2, 2], strides=[0, 1])),
    "negative_pads": model(node("Conv", ["x", "w"], ["y"], pads=[-1, 0, 0, 0]), weights=[W]),
    "reshape_does_not_fit": model(node("Reshape", ["x", "s"], ["y"]), weights=[ints("s", [3, 11])]),
    "overflowing_pads": model(node("Pad", ["x", "p"], ["y"]), weights=[ints("p", [1 << 62] * 8)]),
    "no_broadcast": model(node("Add", ["x", "k"], ["y"]), weights=[tensor("k", [3], [1, 2, 3])]),
    "gather_outside": model(node("Gather", ["x", "i"], ["y"], axis=1), weights=[tensor("i", [], [2], INT64)]),
    "softmax_old_over_image": model(node("Softmax", ["x"], ["y"], axis=1), opset=11),
    "quantize_without_scale": model(node("QuantizeLinear", ["x", "", "z"], ["y"]),
                                    weights=[tensor("z", [], [3], UINT8)]),
    "quantize_scale_computed": model(node("QuantizeLinear", ["x", "x"], ["y"])),
    "quantize_scale_zero": model(node("QuantizeLinear", ["x", "s"], ["y"]), weights=[tensor("s", [], [0.0])]),
    "quantize_scales_do_not_fit": model(node("QuantizeLinear", ["x", "s"], ["y"], axis=1),
                                        weights=[tensor("s", [3], [1.0, 2.0, 3.0])]),
    "quantize_in_blocks": model(node("QuantizeLinear", ["x", "s"], ["y"], block_size=2),
                                weights=[tensor("s", [], [0.1])]),
    "dequantize_otherwise": model(node("QuantizeLinear", ["x", "s"], ["q"]),
                                  node("DequantizeLinear", ["q", "t"], ["y"]),
                                  weights=[tensor("s", [], [0.5]), tensor("t", [], [0.25])]),
    "quantized_and_computed": model(node("QuantizeLinear", ["x", "s"], ["q"]), node("Relu", ["q"], ["y"]),
                                    weights=[tensor("s", [], [0.5])]),
    "qlinear_conv": model(node("QLinearConv", ["x", "s", "z", "w", "s", "z", "s", "z"], ["y"]),
                          weights=[W, tensor("s", [], [0.5]), tensor("z", [], [0], UINT8)]),
    "integers_computed": model(node("Cast", ["x"], ["y"], to=INT64)),
}


def mean_colour(batch, side, size):
    """A classifier of the mean colour; what torch.onnx.export makes of view(x.shape[0], 3)."""
    return model(node("GlobalAveragePool", ["x"], ["m"]), node("Reshape", ["m", "s"], ["f"]),
                 node("Gemm", ["f", "w"], ["y"], transB=1),
                 inputs=(("x", [batch, 3, side, side]),),
                 weights=[ints("s", [size, 3]), tensor("w", [2, 3], [1, -2, 1, -1, 2, -1])])


FIXED = {"two_images": mean_colour(2, 64, 2), "any_images": mean_colour("batch", "side", -1)}


def main():
    directory = sys.argv[1]
    for kind, files in (("good", GOOD), ("bad", BAD), ("fixed", FIXED)):
        os.makedirs(os.path.join(directory, kind), exist_ok=True)
        for name, data in files.items():
            with open(os.path.join(directory, kind, name + ".onnx"), "wb") as f:
                f.write(data)
    cut = GOOD["conv"]
    with open(os.path.join(directory, "bad", "cut_short.onnx"), "wb") as f:
        f.write(cut[:len(cut) // 2])


if __name__ == "__main__":
    main()
