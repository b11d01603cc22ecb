# SPDX-License-Identifier: Apache-2.0
"""Random control flow: branches and bodies that capture outer values, loops that leave early or carry shapes that change,
scans, sequences and optionals as operands and results; and operators without operands."""
import numpy as np
import onnx
from onnx import TensorProto, helper

from operators import NUMBERS, Net, family
from retype import allowed_results, converted
from values import Opt, code, tensor, type_of

UNARY = ["Abs", "Neg", "Tanh", "Sigmoid", "Relu", "Identity"]
BINARY = ["Add", "Sub", "Mul"]


class Body:
    """Nodes of a nested graph; values are (name, shape) of f32."""

    def __init__(self, d, version, prefix):
        self.d, self.version, self.prefix, self.nodes = d, version, prefix, []

    def add(self, op, *inputs, **attributes):
        name = f"{self.prefix}{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, list(inputs), [name], **attributes))
        return name

    def constant(self, array):
        return self.add("Constant", value=tensor(np.asarray(array)))

    def ints(self, *values):
        return self.constant(np.array(values, np.int64))

    def grow(self, name, shape, others=(), most=4):
        """Some nodes over a value, with others of its shape; the last one's name."""
        for _ in range(self.d.int(1, most)):
            same = [n for n, s in others if s == shape]
            if same and self.d.chance(0.5):
                name = self.add(self.d.one(*BINARY), name, self.d.one(*same))
            elif self.d.chance(0.2):
                name = self.add("Mul", name, self.constant(self.d.array(shape, np.float32, -1, 1)))
            else:
                name = self.add(self.d.one(*UNARY), name)
        return self.add("Identity", name)

    def graph(self, inputs, outputs):
        return helper.make_graph(self.nodes, f"{self.prefix}graph", inputs, outputs)


def info(name, shape=None, t=TensorProto.FLOAT):
    return helper.make_tensor_value_info(name, t, shape)


def sequence(name, t=TensorProto.FLOAT):
    return helper.make_value_info(name, helper.make_sequence_type_proto(helper.make_tensor_type_proto(t, None)))


def outer(d, n=3, lo=0):
    """Values of a few shapes, several of one."""
    shapes = [d.full(lo, 3) for _ in range(2)]
    return {f"o{i}": d.array(shapes[i % 2], np.float32, -2, 2) for i in range(n)}


def shapes_of(feed):
    return [(k, v.shape) for k, v in feed.items() if isinstance(v, np.ndarray) and v.dtype == np.float32]


# ---- If -------------------------------------------------------------------------------------------

def sequence_branch(b, known, lists):
    if lists and b.d.chance(0.4):
        return b.add("Identity" if b.version >= 16 else "SequenceInsert", *(["s0"] if b.version >= 16 else ["s0", known[0][0]]))
    return b.add("SequenceConstruct", *[b.grow(*b.d.one(*known), known, 2) for _ in range(b.d.int(1, 3))])


def one_branch(b, known, kinds, shape):
    """Names of results of the kinds asked for: "same" of the given shape, "any" of its rank, "seq", "nested"."""
    outs = []
    for kind in kinds:
        name, s = b.d.one(*[k for k in known if (len(k[1]) == len(shape) if kind == "any" else kind != "same" or k[1] == shape)])
        if kind == "seq":
            outs.append(sequence_branch(b, known, False))
        elif kind == "nested":
            name, s = b.d.one(*[k for k in known if len(k[1]) == len(shape)])
            inner = Body(b.d, b.version, f"{b.prefix}i{len(b.nodes)}_"), Body(b.d, b.version, f"{b.prefix}j{len(b.nodes)}_")
            bodies = [i.graph([], [info(i.grow(name, s, known), s)]) for i in inner]
            outs.append(b.add("If", "c", then_branch=bodies[0], else_branch=bodies[1]))
        else:
            outs.append(b.grow(name, s, known))
    return outs


@family("If")
def branches(d, name, version):
    known = outer(d)
    feed = {"c": d.array((), np.bool_) if d.chance(0.8) or version > 1 else d.array((1,), np.bool_), **known}
    kinds = [d.one("same", "same", "nested", "any", *(["seq"] if version >= 13 else [])) for _ in range(d.int(1, 3))]
    shape = d.one(*known.values()).shape
    graphs = []
    for part in "te":
        b = Body(d, version, part)
        outs = one_branch(b, shapes_of(known), kinds, shape)
        graphs.append(b.graph([], [sequence(o) if k == "seq" else info(o, shape if k == "same" else None) for o, k in zip(outs, kinds)]))
    results = [f"y{i}" for i in range(len(kinds))]
    return Net([helper.make_node("If", ["c"], results, then_branch=graphs[0], else_branch=graphs[1])], feed, results)


# ---- Loop, Scan, SequenceMap ----------------------------------------------------------------------

def carried(d, version):
    """Of what is carried: name, value, kind. A value that grows has a first dim of its own."""
    kinds = ["same", "same", "count", "grow", *(["seq"] if version >= 13 else [])]
    made = []
    for i in range(d.int(0 if version > 1 else 1, 3)):
        kind = d.one(*kinds)
        value = (np.array(d.int(-3, 3), np.int64) if kind == "count" else
                 [d.array(d.full(1, 2), np.float32) for _ in range(d.int(1, 2))] if kind == "seq" else
                 d.array(d.full(1 if kind == "grow" else 0, 3), np.float32, -1, 1))
        made.append((f"v{i}", value, kind))
    return made


def step(b, name, value, kind, known):
    """The next value of one that is carried."""
    if kind == "count":
        return b.add("Add", name, b.constant(np.array(b.d.int(1, 3), np.int64)))
    if kind == "seq":
        return b.add("SequenceInsert", name, b.constant(b.d.array(value[0].shape, np.float32)))
    if kind == "grow":
        return b.add("Concat", name, b.constant(b.d.array((1, *value.shape[1:]), np.float32)), axis=0)
    return b.grow(name, value.shape, known)


def input_info(name, value, kind):
    if kind == "seq":
        return sequence(name)
    return info(name, (None, *value.shape[1:]) if kind == "grow" else value.shape, code(value))


@family("Loop")
def loops(d, name, version):
    known, state = outer(d), carried(d, version)
    b, n = Body(d, version, "b"), d.int(0 if d.chance(0.15) else 1, 4)
    early, most = d.chance(0.4), np.array(n, np.int64)
    nexts = [step(b, v, value, kind, shapes_of(known)) for v, value, kind in state]
    items = []
    for _ in range(d.int(0 if nexts else 1, 2)):
        source, shape = d.one(*shapes_of(known), *[(o, v.shape) for o, (_, v, k) in zip(nexts, state) if k == "same"])
        items.append((b.grow(source, shape, []), shape))
    if early:
        limit = b.constant(np.array(float(d.int(0, 3)), np.float32))
        go = b.add("Less", b.add("Cast", "i", to="FLOAT" if version < 6 else 1), limit)
    else:
        go = b.add("Identity", "g")
    go = b.add("Identity", go)
    body = b.graph([info("i", (), TensorProto.INT64), info("g", (), TensorProto.BOOL), *[input_info(*s) for s in state]],
                   [info(go, (), TensorProto.BOOL), *[input_info(o, v, k) for o, (_, v, k) in zip(nexts, state)], *[info(*x) for x in items]])
    feed = {**known, **{v: value for v, value, _ in state}}
    trips, start = "m" if not early or d.chance(0.7) else "", "c" if early or d.chance(0.6) else ""
    feed |= {"m": most} if trips else {}
    feed |= {"c": np.array(d.chance(0.85))} if start else {}
    results = [f"y{i}" for i in range(len(nexts) + len(items))]
    return Net([helper.make_node("Loop", [trips, start, *[v for v, _, _ in state]], results, body=body)], feed, results)


def scan_body(d, version, states, parts, known):
    """The body, how many states and how many scanned results it has; operands by (name, shape of one step)."""
    b = Body(d, version, "b")
    own = [(f"in_{n}", s) for n, s in states + parts]
    nexts = [b.grow(n, s, own + known) for n, s in own[:len(states)]]
    outs = [b.grow(*d.one(*own[len(states):]), known) for _ in range(d.int(0 if nexts else 1, 2))]
    results = [info(o, s) for o, (_, s) in zip(nexts, states)] + [info(o) for o in outs]
    return b.graph([info(n, s) for n, s in own], results), nexts, outs


@family("Scan")
def scans(d, name, version):
    known = outer(d) if version > 8 else {}
    length, batch, k = d.int(1, 4), d.int(1, 2), d.int(1, 2)
    shape = d.full(0, 2)
    states = [(f"s{i}", shape) for i in range(d.int(0, 2))]
    parts = [(f"x{i}", shape if d.chance(0.6) else d.full(0, 2)) for i in range(k)]
    axes = [d.int(0, len(s)) for _, s in parts]
    body, nexts, outs = scan_body(d, version, states, parts, shapes_of(known))
    results = [f"y{i}" for i in range(len(nexts) + len(outs))]
    if version == 8:
        feed = {**{n: d.array((batch, *s), np.float32, -1, 1) for n, s in states}, **{n: d.array((batch, length, *s), np.float32) for n, s in parts}}
        lens = {"l": d.array((batch,), np.int64, 1, length)} if d.chance(0.3) else {}
        node = helper.make_node("Scan", ["l" if lens else "", *feed], results, body=body, num_scan_inputs=k,
                                **({"directions": [d.int(0, 1) for _ in parts]} if d.chance(0.5) else {}))
        return Net([node], {**lens, **feed}, results)
    arrays = {n: d.array((*s[:a], length, *s[a:]), np.float32) for (n, s), a in zip(parts, axes)}
    turned = {"scan_input_axes": [a - (len(s) + 1 if version > 9 and d.chance(0.3) else 0) for a, (_, s) in zip(axes, parts)]} if any(axes) or d.chance(0.3) else {}
    ways = {"scan_input_directions": [d.int(0, 1) for _ in parts]} if d.chance(0.5) else {}
    back = {"scan_output_directions": [d.int(0, 1) for _ in outs]} if outs and d.chance(0.5) else {}
    out_axes = {"scan_output_axes": [d.int(-1, 0) if version > 9 else 0 for _ in outs]} if outs and d.chance(0.4) else {}
    node = helper.make_node("Scan", [n for n, _ in states] + list(arrays), results, body=body, num_scan_inputs=k, **turned, **ways, **back, **out_axes)
    return Net([node], {**known, **{n: d.array(s, np.float32, -1, 1) for n, s in states}, **arrays}, results)


@family("SequenceMap")
def sequence_map(d, name, version):
    n, shape, known = d.int(1, 3), d.full(1, 3), outer(d)
    items = lambda: [d.array(shape, np.float32) for _ in range(n)]
    feed = {"x0": items()}
    for i in range(1, d.int(1, 3)):
        feed[f"x{i}"] = items() if d.chance(0.5) else d.array(shape, np.float32)
    b = Body(d, version, "b")
    parts = [(f"p{k}", shape) for k in feed]
    outs = []
    for _ in range(d.int(1, 2)):
        out = b.grow(*d.one(*parts), parts + shapes_of(known))
        outs.append(b.add("Shape", out) if d.chance(0.2) else out)
    kinds = [TensorProto.INT64 if n.op_type == "Shape" else TensorProto.FLOAT for o in outs for n in b.nodes if n.output[0] == o]
    body = b.graph([info(p, s) for p, s in parts], [info(o, None, t) for o, t in zip(outs, kinds)])
    results = [f"y{i}" for i in range(len(outs))]
    return Net([helper.make_node("SequenceMap", list(feed), results, body=body)], {**feed, **known}, results)


# ---- optionals ------------------------------------------------------------------------------------

def content(d):
    t = d.one(*NUMBERS, np.bool_, object)
    return [d.array(d.full(1, 2), t) for _ in range(d.int(1, 3))] if d.chance(0.4) else d.array(d.shape(), t)


def optional_of(d, version):
    value = content(d)
    return Opt(None if d.chance(0.3) else value, type_of(value))


@family("OptionalHasElement")
def has_element(d, name, version):
    if version >= 18 and d.chance(0.3):
        return Net([helper.make_node(name, d.one([], [""]), ["y0"])], {}, ["y0"])
    x = content(d) if version >= 18 and d.chance(0.4) else optional_of(d, version)
    return Net([helper.make_node(name, ["x0"], ["y0"])], {"x0": x}, ["y0"])


@family("OptionalGetElement")
def get_element(d, name, version):
    value = content(d)
    x = value if version >= 18 and d.chance(0.4) else Opt(value, type_of(value))
    if d.chance(0.4) and isinstance(x, Opt) or version == 15:
        return Net([helper.make_node("Optional", ["x0"], ["o"]), helper.make_node(name, ["o"], ["y0"])], {"x0": value}, ["y0"], want=[value])
    return Net([helper.make_node(name, ["x0"], ["y0"])], {"x0": x}, ["y0"], want=[value])


@family("Optional")
def optional(d, name, version):
    """Made and asked, or opened; empty ones with their type."""
    value = content(d)
    has = helper.make_node("OptionalHasElement", ["o"], ["y0"])
    if d.chance(0.3):
        return Net([helper.make_node(name, [], ["o"], type=type_of(value)), has], {}, ["y0"], want=[np.array(False)])
    opened = helper.make_node("OptionalGetElement", ["o"], ["y1"])
    return Net([helper.make_node(name, ["x0"], ["o"]), has, opened], {"x0": value}, ["y0", "y1"], want=[np.array(True), value])


# ---- without operands -----------------------------------------------------------------------------

def sparse(d, t):
    shape = d.full(1, 3)
    total = int(np.prod(shape))
    at = np.sort(d.rng.permutation(total)[:d.int(0, total)])
    places = at if d.chance(0.5) or len(shape) == 1 else np.stack(np.unravel_index(at, shape), -1)
    return helper.make_sparse_tensor(tensor(d.array((len(at),), t), "v"), tensor(places.astype(np.int64), "i"), shape)



@family("Constant")
def constants(d, name, version):
    how = d.one("value", "value", *(["sparse_value"] if version >= 11 else []),
                *(["float", "floats", "int", "ints", "string", "strings"] if version >= 12 else []))
    if how == "value":
        kinds = allowed_results(onnx.defs.get_schema("Constant", version, ""))
        attribute = {"value": tensor(converted(d.array(d.shape(), np.float32, 0, 4), d.one(*kinds)))}
    elif how == "sparse_value":
        attribute = {how: sparse(d, d.one(*NUMBERS))}
    else:
        t = {"f": np.float32, "i": np.int64, "s": object}[how[0]]
        values = d.array((d.int(1, 4) if how.endswith("s") else 1,), t, -9, 9).tolist()
        attribute = {f"value_{how}": values if how.endswith("s") else values[0]}
    return Net([helper.make_node("Constant", [], ["y0"], **attribute)], {}, ["y0"])


@family("SequenceEmpty")
def sequence_empty(d, name, version):
    """Empty, or filled."""
    t = d.one(*NUMBERS, np.bool_, object)
    nodes = [helper.make_node(name, [], ["s"], **({} if t == np.float32 and d.chance(0.5) else {"dtype": code(np.zeros((), t))}))]
    if d.chance(0.3):
        return Net([*nodes, helper.make_node("SequenceLength", ["s"], ["y0"])], {}, ["y0"])
    feed = {f"x{i}": d.array(d.full(1, 2), t) for i in range(d.int(1, 3))}
    for k in feed:
        nodes.append(helper.make_node("SequenceInsert", [nodes[-1].output[0], k], [f"s{k}"]))
    return Net(nodes, feed, [nodes[-1].output[0]])
