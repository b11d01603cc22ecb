#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes random graphs of 5 to 30 nodes, with branches, loops and scans among them.

    tests/random/graphs.py DIR [--seed N] [--count 500]

Values stay small and away from jumps, so that judges agree on them. Case k of seed N is the same everywhere. The form
is that of make.py; `run.py` runs them.
"""
import argparse
import pathlib
import zlib

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import judge
import make
from operators import Draw

OPSETS = [11, 13, 15, 17, 18, 19, 21, 22, 23]
UNARY = ["Relu", "Tanh", "Sigmoid", "Neg", "Abs", "Softplus", "Softsign", "Identity", "LeakyRelu", "Erf", "HardSigmoid", "Sin"]
BINARY = ["Add", "Sub", "Mul", "Max", "Min"]


class Graph:
    """Nodes being added; `known` maps names of f32 values to their shapes."""

    def __init__(self, d, opset, known, prefix, depth=0):
        self.d, self.opset, self.known, self.prefix, self.depth = d, opset, dict(known), prefix, depth
        self.nodes, self.count, self.own = [], 0, []

    def name(self):
        self.count += 1
        return f"{self.prefix}{self.count}"

    def add(self, op, inputs, shape=None, outputs=1, **attributes):
        outs = [self.name() for _ in range(outputs)]
        self.nodes.append(helper.make_node(op, inputs, outs, **attributes))
        if shape is not None:
            self.keep(outs[0], shape)
        return outs[0] if outputs == 1 else outs

    def keep(self, name, shape):
        self.known[name] = tuple(shape)
        self.own.append(name)

    def constant(self, array):
        return self.add("Constant", [], value=numpy_helper.from_array(np.asarray(array)))

    def ints(self, *values):
        return self.constant(np.array(values, np.int64))

    def pick(self, rank=None):
        names = [n for n, s in self.known.items() if rank is None or len(s) == rank]
        late = names[-6:] if self.d.chance(0.7) else names
        return late[self.d.int(0, len(late) - 1)] if names else None


def unary(g):
    x = g.pick()
    g.add(g.d.one(*UNARY), [x], g.known[x])


def binary(g):
    x = g.pick()
    same = [n for n, s in g.known.items() if s == g.known[x]]
    y = same[g.d.int(0, len(same) - 1)] if g.d.chance(0.6) else g.constant(g.d.array(g.d.partner(g.known[x]), np.float32, -1, 1))
    g.add(g.d.one(*BINARY), [x, y], g.known[x])


def reduce(g):
    x = g.pick()
    s = g.known[x]
    if not s:
        return
    axis, keep = g.d.int(0, len(s) - 1), g.d.int(0, 1)
    op = g.d.one("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin")
    late = g.opset >= (13 if op == "ReduceSum" else 18)
    shape = [n for i, n in enumerate(s) if i != axis or keep]
    shape = [1 if keep and i == axis else n for i, n in enumerate(s)] if keep else shape
    if late:
        g.add(op, [x, g.ints(axis)], shape, keepdims=keep)
    else:
        g.add(op, [x], shape, keepdims=keep, axes=[axis])


def transpose(g):
    x = g.pick()
    s = g.known[x]
    perm = [int(p) for p in g.d.rng.permutation(len(s))]
    if s:
        g.add("Transpose", [x], [s[p] for p in perm], perm=perm)


def reshape(g):
    """As exporters write it: the shape from Shape, Gather, Unsqueeze and Concat."""
    x = g.pick()
    s = g.known[x]
    if not s:
        return
    if len(s) < 2 or g.d.chance(0.3):
        g.add("Reshape", [x, g.ints(-1)], [int(np.prod(s))])
        return
    shape = g.add("Shape", [x])
    first = g.add("Gather", [shape, g.constant(np.array(0, np.int64))], axis=0)
    if g.opset >= 13:
        first = g.add("Unsqueeze", [first, g.ints(0)])
    else:
        first = g.add("Unsqueeze", [first], axes=[0])
    to = g.add("Concat", [first, g.ints(-1)], axis=0)
    g.add("Reshape", [x, to], [s[0], int(np.prod(s[1:]))])


def flatten_back(g):
    """A Slice of Shape multiplied up by ReduceProd, then Expand of a scalar to it."""
    x = g.pick()
    s = g.known[x]
    if not s:
        return
    v = g.add("ConstantOfShape", [g.add("Shape", [x])], s, value=helper.make_tensor("v", TensorProto.FLOAT, [1], [0.5]))
    g.add("Add", [x, v], s)


def slice_(g):
    x = g.pick()
    s = g.known[x]
    axes = [i for i, n in enumerate(s) if n > 1]
    if not axes:
        return
    a = g.d.one(*axes)
    lo, step = g.d.int(0, s[a] - 1), g.d.one(1, 1, 2)
    if g.d.chance(0.25):
        g.add("Slice", [x, g.ints(-1), g.ints(-2**40), g.ints(a), g.ints(-1)], s)
        return
    n = len(range(lo, s[a], step))
    g.add("Slice", [x, g.ints(lo), g.ints(2**62), g.ints(a), g.ints(step)], [n if i == a else m for i, m in enumerate(s)])


def concat(g):
    x = g.pick()
    s = g.known[x]
    if not s:
        return
    same = [n for n, t in g.known.items() if t == s]
    other, axis = same[g.d.int(0, len(same) - 1)], g.d.int(-len(s), len(s) - 1)
    g.add("Concat", [x, other], [2 * n if i == axis % len(s) else n for i, n in enumerate(s)], axis=axis)


def split(g):
    x = g.pick()
    s = g.known[x]
    axes = [i for i, n in enumerate(s) if n > 1]
    if not axes:
        return
    a = g.d.one(*axes)
    k = g.d.int(1, s[a] - 1)
    if g.opset >= 13:
        outs = g.add("Split", [x, g.ints(k, s[a] - k)], None, 2, axis=a)
    else:
        outs = g.add("Split", [x], None, 2, axis=a, split=[k, s[a] - k])
    for name, n in zip(outs, (k, s[a] - k)):
        g.keep(name, [n if i == a else m for i, m in enumerate(s)])


def pad(g):
    x = g.pick()
    s = g.known[x]
    pads = [g.d.int(0, 2) for _ in range(2 * len(s))]
    if s and max(s) < 20 and min(s) > 0:
        g.add("Pad", [x, g.ints(*pads), g.constant(np.float32(0.25))], [n + pads[i] + pads[i + len(s)] for i, n in enumerate(s)])


def matmul(g):
    x = g.pick()
    s = g.known[x]
    if not s:
        return
    n = g.d.int(1, 6)
    w = g.constant(g.d.array((s[-1], n), np.float32, -0.5, 0.5))
    g.add("MatMul", [x, w], [*s[:-1], n])


def softmax(g):
    x = g.pick()
    if g.known[x]:
        g.add("Softmax", [x], g.known[x], axis=-1 if g.opset >= 13 else len(g.known[x]) - 1)


def gather(g):
    x = g.pick()
    s = g.known[x]
    if not s:
        return
    a = g.d.int(0, len(s) - 1)
    at = g.d.array(g.d.full(0, 1), np.int64, -s[a], s[a] - 1)
    g.add("Gather", [x, g.constant(at)], [*s[:a], *at.shape, *s[a + 1:]], axis=a)


def where(g):
    x = g.pick()
    c = g.add("Greater", [x, g.constant(np.float32(0.0123))])
    g.add("Where", [c, x, g.constant(np.float32(-0.5))], g.known[x])


def topk(g):
    x = g.pick()
    s = g.known[x]
    if s and s[-1] > 1 and g.depth == 0:
        k = g.d.int(1, s[-1])
        values = g.add("TopK", [x, g.ints(k)], None, 2, axis=-1)
        g.keep(values[0], [*s[:-1], k])


def cumsum(g):
    x = g.pick()
    if g.known[x]:
        g.add("CumSum", [x, g.constant(np.array(g.d.axis(len(g.known[x])), np.int64))], g.known[x], reverse=g.d.int(0, 1))


def round_trip(g):
    x = g.pick()
    s, z = g.constant(np.float32(1 / 16)), g.constant(np.uint8(128))
    g.add("DequantizeLinear", [g.add("QuantizeLinear", [x, s, z]), s, z], g.known[x])


def inner(g, extra=(), count=None):
    """A graph inside `g` that sees its values; `extra`: names and shapes of its own inputs."""
    g.count += 1
    b = Graph(g.d, g.opset, {**g.known, **dict(extra)}, f"{g.prefix}{g.count}_", g.depth + 1)
    for name, _ in extra:
        b.known[name] = b.known.pop(name)
    grow(b, count or g.d.int(1, 5))
    return b


def info(name, shape, t=TensorProto.FLOAT):
    return helper.make_tensor_value_info(name, t, shape)


def as_result(b, shape):
    """A value of the body with this shape, by broadcasting a mean over what it made last."""
    last = b.own[-1] if b.own else b.pick()
    rank = len(b.known[last])
    flat = b.add("Reshape", [last, b.ints(-1)]) if rank else b.add("Identity", [last])
    if b.opset >= 18:
        mean = b.add("ReduceMean", [flat, b.ints(0)], keepdims=0) if rank else flat
    else:
        mean = b.add("ReduceMean", [flat], keepdims=0, axes=[0]) if rank else flat
    zeros = b.constant(np.zeros(shape, np.float32))
    return b.add("Add", [zeros, b.add("Tanh", [mean])])


def branch(g):
    shape = g.known[g.pick()]
    bodies = []
    for part in "then", "else":
        b = inner(g)
        out = as_result(b, shape)
        bodies.append(helper.make_graph(b.nodes, part, [], [info(out, shape)]))
    x = g.pick()
    flat = g.add("Reshape", [x, g.ints(-1)])
    first = g.add("Gather", [flat, g.constant(np.array(0, np.int64))], axis=0)
    c = g.add("Greater", [first, g.constant(np.float32(0.01))])
    g.add("If", [c], shape, then_branch=bodies[0], else_branch=bodies[1])


def loop(g):
    x = g.pick()
    s, n, p = g.known[x], g.d.int(1, 4), f"{g.prefix}{g.count}"
    i, c, v = f"{p}_i", f"{p}_c", f"{p}_v"
    b = inner(g, [(v, s)])
    out = b.add("Tanh", [b.add("Add", [v, as_result(b, s)])])
    early = g.d.chance(0.3)
    go = b.add("Less", [i, b.constant(np.array(g.d.int(0, 2), np.int64))]) if early else b.add("Identity", [c])
    scan = g.d.chance(0.6)
    outs = [info(go, [], TensorProto.BOOL), info(out, s)]
    if scan:
        each = b.add("Identity", [out])
        outs.append(info(each, s))
    body = helper.make_graph(b.nodes, "body", [info(i, [], TensorProto.INT64), info(c, [], TensorProto.BOOL), info(v, s)], outs)
    made = g.add("Loop", [g.constant(np.array(n, np.int64)), g.constant(np.array(True)) if g.d.chance(0.6) else "", x], None, len(outs) - 1, body=body) \
        if scan else [g.add("Loop", [g.constant(np.array(n, np.int64)), g.constant(np.array(True)), x], body=body)]
    g.keep(made[0], s)
    if scan and not early:
        g.keep(made[1], [n, *s])


def scan(g):
    x = g.pick()
    s = g.known[x]
    if not s:
        return
    axis, p = g.d.int(0, len(s) - 1), f"{g.prefix}{g.count}"
    item = [n for k, n in enumerate(s) if k != axis]
    b = inner(g, [(f"{p}_s", (2,)), (f"{p}_x", item)])
    state = b.add("Add", [f"{p}_s", as_result(b, (2,))])
    out = b.add("Tanh", [f"{p}_x"])
    body = helper.make_graph(b.nodes, "body", [info(f"{p}_s", [2]), info(f"{p}_x", item)], [info(state, [2]), info(out, item)])
    backwards = g.d.int(0, 1)
    outs = g.add("Scan", [g.constant(np.zeros(2, np.float32)), x], None, 2, body=body, num_scan_inputs=1, scan_input_axes=[axis],
                 scan_input_directions=[backwards], scan_output_directions=[g.d.int(0, 1)])
    g.keep(outs[0], (2,))
    g.keep(outs[1], [s[axis], *item])


STEPS = [unary, unary, unary, binary, binary, binary, reduce, transpose, reshape, flatten_back, slice_, concat, split, pad, matmul,
         softmax, gather, where, topk, cumsum, round_trip]
CONTROL = [branch, loop, scan]


def grow(g, count):
    for _ in range(count):
        if any(int(np.prod(s)) > 4000 for s in list(g.known.values())[-3:]):
            break
        control = g.depth < 2 and g.d.chance(0.15 if g.depth == 0 else 0.08)
        g.d.one(*(CONTROL if control else STEPS))(g)


def make_graph(number, seed):
    d = Draw(zlib.crc32(f"{seed} graph {number}".encode()))
    opset = d.one(*OPSETS)
    feed = {f"in{i}": d.array(d.full(1, 4), np.float32, -1, 1) for i in range(d.int(1, 3))}
    g = Graph(d, opset, {k: v.shape for k, v in feed.items()}, "v")
    grow(g, d.int(5, 30))
    used = {n for node in g.nodes for n in node.input}
    outs = [n for n in g.own if n not in used][-4:] or g.own[-1:]
    if not outs:
        return None
    graph = helper.make_graph(g.nodes, f"graph{number}", [info(k, v.shape) for k, v in feed.items()],
                              [helper.make_value_info(o, onnx.TypeProto()) for o in outs])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=make.ir_version(opset))
    found = judge.opinions(model, feed)
    if not found:
        return None
    make.declare(d, model, found)
    if d.chance(0.4):
        for value in model.graph.input:
            make.loosen(d, value)
    return model, feed, found


def make_many(doc, what, count, make_case, keep):
    """What a command line says: so many cases (`count`, if it does not say) of a seed, each kept under its name."""
    parser = argparse.ArgumentParser(description=doc.split("\n")[0])
    parser.add_argument("dir", type=pathlib.Path)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=count)
    options = parser.parse_args()
    made = number = 0
    while made < options.count and number < 3 * options.count:
        case = make_case(number, options.seed)
        if case:
            keep(options.dir, f"{what}_{number}", case)
            made += 1
        number += 1
    print(f"{made} {what}s of {number}")


if __name__ == "__main__":
    make_many(__doc__, "graph", 500, make_graph, make.keep)
