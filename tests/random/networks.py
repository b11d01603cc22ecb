#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes random networks: blocks of convolutions, of attention and of recurrent cells, with weights of their own.

    tests/random/networks.py DIR [--seed N] [--count 200]

Unlike graphs.py these are large enough for tiles, panels, blocked layouts and cheaper algorithms, and of odd sizes, so
that something is left over behind each. Half of them leave batch, height, width or length to the run. ONNX Runtime
without its optimizer judges. Case k of seed N is the same everywhere; `run.py` runs them.
"""
import zlib

import numpy as np
from onnx import TensorProto, helper, numpy_helper

import judge
import make
from graphs import Graph, make_many
from operators import Draw

OPSET = 18
CHANNELS = [1, 3, 5, 8, 12, 16, 17, 24, 32, 33, 40, 48, 64, 72, 96]
SIDES = [7, 9, 11, 14, 15, 16, 19, 21, 28, 33, 37]
LENGTHS = [1, 2, 5, 7, 12, 16, 23, 31, 33, 50, 64, 77]
WIDTHS = [16, 24, 32, 48, 64, 80, 96, 128]
MOST_ELEMENTS = 400_000


class Network(Graph):
    """A graph whose weights are initializers; `x` is the value at hand, `shape` what it has where sizes are as drawn."""

    def __init__(self, d):
        super().__init__(d, OPSET, {}, "v")
        self.weights = {}

    def weight(self, array):
        name = f"w{len(self.weights)}"
        self.weights[name] = np.asarray(array)
        return name

    def normal(self, *shape, fan=None):
        return self.weight((self.d.rng.standard_normal(shape) / np.sqrt(fan or shape[0])).astype(np.float32))

    def scale(self, n):
        return self.weight(self.d.array((n,), lo=0.5, hi=1.5))

    def shift(self, n):
        return self.weight(self.d.array((n,), lo=-0.5, hi=0.5))

    def int_weight(self, *values):
        return self.weight(np.array(values, np.int64))

    def number(self, value):
        return self.weight(np.float32(value))

    def activation(self, x, channels=None):
        kind = self.d.one("none", "Relu", "Relu", "Clip", "SiLU", "HardSwish", "Gelu", "LeakyRelu", "PRelu", "Sigmoid", "Tanh")
        if kind == "none":
            return x
        if kind == "Clip":
            return self.add("Clip", [x, self.number(0), self.number(6)])
        if kind == "SiLU":
            return self.add("Mul", [x, self.add("Sigmoid", [x])])
        if kind == "Gelu":
            erf = self.add("Erf", [self.add("Div", [x, self.number(np.sqrt(2))])])
            return self.add("Mul", [self.add("Mul", [x, self.add("Add", [erf, self.number(1)])]), self.number(0.5)])
        if kind == "PRelu":
            slope = self.d.array((channels, 1, 1) if channels else (1,), lo=0.1, hi=0.4)
            return self.add("PRelu", [x, self.weight(slope)])
        return self.add(kind, [x])


# ---- images: x is [n, c, h, w] --------------------------------------------------------------------

def window_of(d, h, w):
    """Kernel, dilation, pads and stride along both axes; what comes of sizes h and w."""
    kernel = d.one((1, 1), (1, 1), (3, 3), (3, 3), (3, 3), (5, 5), (7, 7), (1, 3), (3, 1), (2, 2), (4, 4))
    dilation = d.one(1, 1, 1, 1, 2, 3) if max(kernel) == 3 else 1
    stride = d.one(1, 1, 1, 2, 2, 3) if min(h, w) > 12 else 1
    reach = [dilation * (k - 1) for k in kernel]
    how = d.one("same", "same", "same", "valid", "odd")
    begin = [r // 2 if how == "same" else 0 if how == "valid" else d.int(0, r) for r in reach]
    end = [r - b if how == "same" else 0 if how == "valid" else d.int(0, r) for r, b in zip(reach, begin)]
    size = [(s + b + e - r - 1) // stride + 1 for s, b, e, r in zip((h, w), begin, end, reach)]
    return {"kernel_shape": kernel, "dilations": [dilation] * 2, "pads": begin + end, "strides": [stride] * 2}, size


def groups_of(d, c):
    """Groups and channels of results, by kind: one group, depthwise, some."""
    kind = d.one("one", "one", "one", "depthwise", "some")
    if kind == "depthwise":
        return c, c * d.one(1, 1, 1, 2)
    fits = [g for g in (2, 3, 4, 8) if c % g == 0]
    if kind == "some" and fits:
        g = d.one(*fits)
        return g, g * d.one(1, 2, 4, 5, 8, 16)
    return 1, d.one(*CHANNELS)


def conv(g, x, shape, out=None, keep=False):
    """`keep`: sizes stay."""
    n, c, h, w = shape
    attributes, size = window_of(g.d, h, w)
    while min(size) < 1 or (keep and size != [h, w]):
        attributes, size = window_of(g.d, h, w)
    groups, m = (1, out) if out else groups_of(g.d, c)
    kernel = attributes["kernel_shape"]
    operands = [x, g.normal(m, c // groups, *kernel, fan=c // groups * kernel[0] * kernel[1])]
    if g.d.chance(0.7):
        operands.append(g.shift(m))
    y = g.add("Conv", operands, group=groups, **attributes)
    if g.d.chance(0.3):
        y = g.add("BatchNormalization", [y, g.scale(m), g.shift(m), g.shift(m), g.scale(m)])
    return g.activation(y, m), (n, m, *size)


def convs(g, x, shape, out=None, keep=False):
    for _ in range(g.d.int(0, 2)):
        x, shape = conv(g, x, shape, keep=keep)
    return conv(g, x, shape, out, keep)


def residual(g, x, shape):
    y, _ = convs(g, x, shape, shape[1], True)
    return g.activation(g.add("Add", [y, x] if g.d.chance(0.5) else [x, y]), shape[1]), shape


def dense(g, x, shape):
    parts = [convs(g, x, shape, keep=True) for _ in range(g.d.int(1, 3))]
    channels = shape[1] + sum(s[1] for _, s in parts)
    return g.add("Concat", [x, *(y for y, _ in parts)], axis=1), (shape[0], channels, *shape[2:])


def transposed(g, x, shape):
    n, c, h, w = shape
    k, stride = g.d.int(2, 4), g.d.one(1, 2)
    pad, more, m = g.d.int(0, (k - 1) // 2), g.d.int(0, stride - 1), g.d.one(*CHANNELS)
    y = g.add("ConvTranspose", [x, g.normal(c, m, k, k, fan=c * k * k / stride**2), g.shift(m)], kernel_shape=[k, k],
              strides=[stride] * 2, pads=[pad] * 4, output_padding=[more] * 2)
    return g.activation(y, m), (n, m, *((s - 1) * stride + k - 2 * pad + more for s in (h, w)))


def pooled(g, x, shape):
    n, c, h, w = shape
    k, stride = g.d.int(2, 3), g.d.int(1, 2)
    pad = g.d.int(0, k // 2)
    op = g.d.one("MaxPool", "AveragePool")
    extra = {"count_include_pad": g.d.int(0, 1)} if op == "AveragePool" else {}
    y = g.add(op, [x], kernel_shape=[k, k], strides=[stride] * 2, pads=[pad] * 4, **extra)
    return y, (n, c, *((s + 2 * pad - k) // stride + 1 for s in (h, w)))


def squeezed(g, x, shape):
    """Squeeze and excite."""
    c, less = shape[1], g.d.one(4, 6, 8)
    y = g.add("GlobalAveragePool", [x])
    y = g.add("Relu", [g.add("Conv", [y, g.normal(less, c, 1, 1, fan=c), g.shift(less)])])
    y = g.add("Conv", [y, g.normal(c, less, 1, 1, fan=less), g.shift(c)])
    return g.add("Mul", [x, g.add(g.d.one("Sigmoid", "HardSigmoid"), [y])]), shape


def normalized(g, x, shape):
    c = shape[1]
    if g.d.chance(0.4):
        return g.add("InstanceNormalization", [x, g.scale(c), g.shift(c)]), shape
    y = g.add("Transpose", [x], perm=[0, 2, 3, 1])
    y = g.add("LayerNormalization", [y, g.scale(c), g.shift(c)], axis=-1)
    if g.d.chance(0.5):
        y = g.add("MatMul", [y, g.normal(c, c)])
    return g.add("Transpose", [y], perm=[0, 3, 1, 2]), shape


def shuffled(g, x, shape):
    """Channels of groups in turn."""
    n, c, h, w = shape
    parts = g.d.one(*[p for p in (1, 2, 3, 4) if c % p == 0])
    size = g.add("Slice", [g.add("Shape", [x]), g.int_weight(2), g.int_weight(4)])
    inner = g.add("Concat", [g.int_weight(0, parts, c // parts), size], axis=0)
    y = g.add("Transpose", [g.add("Reshape", [x, inner])], perm=[0, 2, 1, 3, 4])
    return g.add("Reshape", [y, g.add("Concat", [g.int_weight(0, c), size], axis=0)]), shape


def resized(g, x, shape):
    n, c, h, w = shape
    if c % 4 == 0 and g.d.chance(0.3):
        return g.add("DepthToSpace", [x], blocksize=2, mode=g.d.one("DCR", "CRD")), (n, c // 4, 2 * h, 2 * w)
    mode = g.d.one({"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"},
                   {"mode": "linear", "coordinate_transformation_mode": "half_pixel"},
                   {"mode": "linear", "coordinate_transformation_mode": "align_corners"})
    return g.add("Resize", [x, "", g.weight(np.array([1, 1, 2, 2], np.float32))], **mode), (n, c, 2 * h, 2 * w)


def looked_at(g, x, shape):
    """Attention between the places of an image."""
    n, c, h, w = shape
    if h * w > 400:
        return residual(g, x, shape)
    y = g.add("Transpose", [g.add("Reshape", [x, g.int_weight(0, c, -1)])], perm=[0, 2, 1])
    y, _ = attention(g, y, (n, h * w, c))
    y = g.add("Transpose", [y], perm=[0, 2, 1])
    return g.add("Reshape", [y, g.add("Shape", [x])]), shape


IMAGE = [convs, convs, convs, residual, residual, dense, transposed, pooled, squeezed, normalized, shuffled, resized, looked_at]


# ---- sequences: x is [b, s, c] --------------------------------------------------------------------

def linear(g, x, c, m, bias=True):
    y = g.add("MatMul", [x, g.normal(c, m)])
    return g.add("Add", [y, g.shift(m)]) if bias and g.d.chance(0.7) else y


def normed(g, x, c):
    kind = g.d.one("layer", "layer", "root", "none")
    if kind == "layer":
        return g.add("LayerNormalization", [x, g.scale(c), g.shift(c)], axis=-1)
    if kind == "none":
        return x
    mean = g.add("ReduceMean", [g.add("Mul", [x, x]), g.int_weight(-1)])
    root = g.add("Sqrt", [g.add("Add", [mean, g.number(1e-5)])])
    return g.add("Mul", [g.add("Div", [x, root]), g.scale(c)])


def heads_of(g, x, heads, width, perm):
    return g.add("Transpose", [g.add("Reshape", [x, g.int_weight(0, 0, heads, width)])], perm=perm)


def repeated(g, x, heads, times, width):
    """Heads of keys or values, each for several of queries."""
    y = g.add("Unsqueeze", [x, g.int_weight(2)])
    y = g.add("Expand", [y, g.int_weight(1, 1, times, 1, 1)])
    shape = g.add("Shape", [x])
    length = g.add("Slice", [shape, g.int_weight(2), g.int_weight(3)])
    batch = g.add("Slice", [shape, g.int_weight(0), g.int_weight(1)])
    return g.add("Reshape", [y, g.add("Concat", [batch, g.int_weight(heads * times), length, g.int_weight(width)], axis=0)])


def attention(g, x, shape):
    b, s, c = shape
    heads, width = g.d.one(1, 2, 3, 4), g.d.one(8, 16, 20, 32)
    times = g.d.one(1, 1, 2) if heads % 2 == 0 else 1
    q = heads_of(g, linear(g, x, c, heads * width), heads, width, [0, 2, 1, 3])
    k = heads_of(g, linear(g, x, c, heads // times * width), heads // times, width, [0, 2, 1, 3])
    v = heads_of(g, linear(g, x, c, heads // times * width), heads // times, width, [0, 2, 1, 3])
    if times > 1:
        k, v = (repeated(g, t, heads // times, times, width) for t in (k, v))
    scores = g.add("MatMul", [q, g.add("Transpose", [k], perm=[0, 1, 3, 2])])
    scores = g.add("Mul", [scores, g.number(width**-0.5)]) if g.d.chance(0.5) else g.add("Div", [scores, g.number(width**0.5)])
    if g.d.chance(0.4):
        length = g.add("Slice", [g.add("Shape", [x]), g.int_weight(1), g.int_weight(2)])
        ones = g.add("Expand", [g.number(g.d.one(-np.inf, -10000)), g.add("Concat", [length, length], axis=0)])
        scores = g.add("Add", [scores, g.add("Trilu", [ones, g.weight(np.int64(1))], upper=1)])
    y = g.add("MatMul", [g.add("Softmax", [scores], axis=-1), v])
    y = g.add("Reshape", [g.add("Transpose", [y], perm=[0, 2, 1, 3]), g.int_weight(0, 0, heads * width)])
    return g.add("Add", [x, linear(g, y, heads * width, c)]), shape


def attend(g, x, shape):
    y, shape = attention(g, normed(g, x, shape[2]), shape)
    return normed(g, g.add("Add", [x, y]), shape[2]), shape


def forward(g, x, shape):
    c, m = shape[2], g.d.one(*WIDTHS, 192, 256)
    h = normed(g, x, c)
    y = g.activation(linear(g, h, c, m))
    if g.d.chance(0.4):
        y = g.add("Mul", [y, linear(g, h, c, m)])
    return g.add("Add", [x, linear(g, y, m, c)]), shape


def wider(g, x, shape):
    m = g.d.one(*WIDTHS)
    return g.activation(linear(g, x, shape[2], m)), (*shape[:2], m)


def along(g, x, shape):
    """A convolution over the sequence."""
    b, s, c = shape
    k, groups = g.d.one(1, 3, 4, 5), g.d.one(1, 1, c)
    pads = g.d.one([k - 1, 0], [k // 2, k - 1 - k // 2])
    y = g.add("Transpose", [x], perm=[0, 2, 1])
    y = g.add("Conv", [y, g.normal(c, c // groups, k, fan=c // groups * k), g.shift(c)], kernel_shape=[k], pads=pads, group=groups)
    y = g.add("Transpose", [g.activation(y)], perm=[0, 2, 1])
    return (g.add("Add", [x, y]) if g.d.chance(0.5) else y), shape


def recurrent(g, x, shape):
    b, s, c = shape
    op, both, hidden = g.d.one("LSTM", "GRU"), g.d.one(1, 1, 2), g.d.one(8, 17, 32, 48)
    gates = 4 if op == "LSTM" else 3
    y = g.add("Transpose", [x], perm=[1, 0, 2])
    extra = {"linear_before_reset": g.d.int(0, 1)} if op == "GRU" else {}
    y = g.add(op, [y, g.normal(both, gates * hidden, c, fan=c), g.normal(both, gates * hidden, hidden, fan=hidden),
                   g.weight(g.d.array((both, 2 * gates * hidden), lo=-0.3, hi=0.3))],
              hidden_size=hidden, direction="bidirectional" if both == 2 else g.d.one("forward", "reverse"), **extra)
    y = g.add("Reshape", [g.add("Transpose", [y], perm=[2, 0, 1, 3]), g.int_weight(0, 0, both * hidden)])
    return y, (b, s, both * hidden)


def gated(g, x, shape):
    """Halves of the features, one the other's gate."""
    c = shape[2]
    if c % 2:
        return wider(g, x, shape)
    halves = [g.add("Slice", [x, g.int_weight(i * c // 2), g.int_weight((i + 1) * c // 2), g.int_weight(2)]) for i in (0, 1)]
    return g.add("Mul", [halves[0], g.add("Sigmoid", [halves[1]])]), (*shape[:2], c // 2)


def turned(g, x, shape):
    """Pairs of features turned by angles that their place gives (as rotary embeddings do)."""
    c = shape[2]
    if c % 2:
        return wider(g, x, shape)
    length = g.add("Squeeze", [g.add("Slice", [g.add("Shape", [x]), g.int_weight(1), g.int_weight(2)])])
    place = g.add("Cast", [g.add("Range", [g.weight(np.int64(0)), length, g.weight(np.int64(1))])], to=TensorProto.FLOAT)
    angle = g.add("Mul", [g.add("Unsqueeze", [place, g.int_weight(1)]), g.weight(np.geomspace(1, 0.01, c // 2, dtype=np.float32))])
    angle = g.add("Concat", [angle, angle], axis=-1)
    a, b = (g.add("Slice", [x, g.int_weight(i * c // 2), g.int_weight((i + 1) * c // 2), g.int_weight(2)]) for i in (0, 1))
    y = g.add("Concat", [g.add("Neg", [b]), a], axis=-1)
    return g.add("Add", [g.add("Mul", [x, g.add("Cos", [angle])]), g.add("Mul", [y, g.add("Sin", [angle])])]), shape


SEQUENCE = [attend, attend, attend, forward, forward, wider, along, recurrent, gated, turned]


# ---- networks ---------------------------------------------------------------------------------------

def image_network(g):
    shape = (g.d.one(1, 1, 2, 3), g.d.one(1, 3, *CHANNELS), g.d.one(*SIDES), g.d.one(*SIDES))
    feed = {"x": g.d.array(shape, lo=-1, hi=1)}
    x = "x"
    for _ in range(g.d.int(2, 6)):
        y, now = g.d.one(*IMAGE)(g, x, shape)
        if min(now) < 1 or np.prod(now) > MOST_ELEMENTS:
            break
        x, shape = y, now
    if x == "x":
        x, shape = conv(g, x, shape, keep=True)
    if g.d.chance(0.4):
        x = g.add("Flatten", [g.add("GlobalAveragePool", [x])])
        x = linear(g, x, shape[1], g.d.one(1, 10, 33))
    return feed, x, [0, 2, 3]


def sequence_network(g):
    b, s, c = g.d.one(1, 1, 2, 3), g.d.one(*LENGTHS), g.d.one(*WIDTHS)
    if g.d.chance(0.3):
        feed = {"x": g.d.rng.integers(0, 50, (b, s)).astype(np.int64)}
        x = g.add("Gather", [g.normal(50, c, fan=1), "x"])
    else:
        feed, x = {"x": g.d.array((b, s, c), lo=-1, hi=1)}, "x"
    shape = (b, s, c)
    for _ in range(g.d.int(2, 6)):
        x, shape = g.d.one(*SEQUENCE)(g, x, shape)
    if g.d.chance(0.3):
        x = g.add(g.d.one("ReduceMean", "ReduceMax"), [x, g.int_weight(1)], keepdims=0)
        x = g.add("Softmax", [linear(g, x, shape[2], 11)], axis=-1)
    return feed, x, [0, 1]


def make_network(number, seed):
    d = Draw(zlib.crc32(f"{seed} network {number}".encode()))
    g = Network(d)
    feed, result, open_dims = d.one(image_network, sequence_network)(g)
    if len(g.nodes) < 2:
        return None
    value = helper.make_tensor_value_info("x", helper.np_dtype_to_tensor_dtype(feed["x"].dtype), feed["x"].shape)
    out = helper.make_tensor_value_info(result, TensorProto.FLOAT, None)
    weights = [numpy_helper.from_array(a, name) for name, a in g.weights.items()]
    graph = helper.make_graph(g.nodes, f"network{number}", [value], [out], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=make.ir_version(OPSET))
    found = judge.quiet(judge.by_onnxruntime, model, feed)
    if found is None or not all(np.all(np.isfinite(a)) for a in found):
        return None
    if d.chance(0.5):
        for i in open_dims:
            if d.chance(0.7):
                graph_dim = model.graph.input[0].type.tensor_type.shape.dim[i]
                graph_dim.dim_param = f"size{i}"
    return model, feed, [found]


def keep(folder, name, case):
    model, feed, (results,) = case
    judge.write_case(folder / "network" / name, model, feed, results)


if __name__ == "__main__":
    make_many(__doc__, "network", 200, make_network, keep)
