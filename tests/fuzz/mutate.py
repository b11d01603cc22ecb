# SPDX-License-Identifier: Apache-2.0
"""Mutations of ONNX models: the bytes taken apart into a tree, a few places changed, put together again.

A message is a list of [field number, wire type, value]; value is a number, bytes, or a message where
MESSAGES says that the field holds one. Every mutation takes a Model and changes it in place; all
randomness comes from the given generator, so a seed and a file name a case for good.
"""
import copy
import pathlib
import random
import struct
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "bad"))
import wire  # noqa: E402

# kind -> field number -> kind of the message in it
MESSAGES = {
    "model": {7: "graph", 8: "opset"},
    "graph": {1: "node", 5: "tensor", 11: "value", 12: "value", 13: "value"},
    "node": {5: "attribute"},
    "attribute": {5: "tensor", 6: "graph", 14: "type"},
    "value": {2: "type"},
    "type": {1: "tensor_type", 4: "sequence_type", 9: "sequence_type"},
    "sequence_type": {1: "type"},
    "tensor_type": {2: "shape"},
    "shape": {1: "dim"},
    "opset": {}, "tensor": {}, "dim": {},
}
ODD = (0, 1, 2, 3, 5, 7, 16, 255, 1000, 65536, 1 << 20, (1 << 31) - 1, 1 << 31, 1 << 40, 1 << 46, 1 << 62,
       (1 << 63) - 1, -1, -2, -3, -17, -(1 << 31), -(1 << 63))
TYPES = tuple(range(0, 27))


def parse(data, kind):
    inner, out = MESSAGES[kind], []
    for number, form, start, content, end in wire.fields(data):
        if form == 0:
            value = wire.read_varint(data, content)[0]
        else:
            value = data[content:end]
            if form == 2 and number in inner:
                value = parse(value, inner[number])
        out.append([number, form, value])
    return out


def join(message):
    out = bytearray()
    for number, form, value in message:
        out += wire.varint(number << 3 | form)
        if form == 0:
            out += wire.varint(value)
        elif form == 2:
            body = join(value) if isinstance(value, list) else value
            out += wire.varint(len(body)) + body
        else:
            out += value
    return bytes(out)


def entries(message, number):
    return [entry for entry in message if entry[0] == number]


class Model:
    def __init__(self, data, operators):
        self.tree = parse(data, "model")
        self.operators = operators

    def walk(self, kind, message=None, of="model"):
        """All messages of a kind with the message that holds each and their entry in it."""
        message = self.tree if message is None else message
        for entry in list(message):
            below = MESSAGES[of].get(entry[0])
            if below and isinstance(entry[2], list):
                if below == kind:
                    yield message, entry
                yield from self.walk(kind, entry[2], below)

    def names(self):
        out = []
        for _, graph in self.walk("graph"):
            for entry in graph[2]:
                if entry[0] in (11, 12) and isinstance(entry[2], list):
                    out += [e[2] for e in entries(entry[2], 1)]
                elif entry[0] == 5:
                    out += [e[2] for e in entries(entry[2], 8)]
                elif entry[0] == 1:
                    out += [e[2] for e in entry[2] if e[0] in (1, 2)]
        return sorted(set(out)) or [b"x"]

    def bytes(self):
        return join(self.tree)


def some(rng, items):
    items = list(items)
    return rng.choice(items) if items else None


def set_number(message, number, value):
    for entry in message:
        if entry[0] == number and entry[1] == 0:
            entry[2] = value
            return
    message.append([number, 0, value])


# ---- mutations -------------------------------------------------------------------------------------------


def node_operands(model, rng):
    found = some(rng, model.walk("node"))
    if not found:
        return
    node = found[1][2]
    operands = entries(node, rng.choice((1, 1, 1, 2)))
    what = rng.randrange(7)
    if what == 0 and operands:
        node.remove(rng.choice(operands))
    elif what == 1 and operands:
        rng.choice(operands)[2] = b""
    elif what == 2 and operands:
        node.insert(rng.randrange(len(node) + 1), list(rng.choice(operands)))
    elif what == 3 and len(operands) > 1:
        a, b = rng.sample(operands, 2)
        a[2], b[2] = b[2], a[2]
    elif what == 4 and operands:
        rng.choice(operands)[2] = rng.choice(model.names())
    elif what == 5:
        node.append([1, 2, rng.choice(model.names())])
    else:
        node.append([rng.choice((1, 2)), 2, rng.choice((b"", b"more", b"\xff\xfe"))])


def node_operator(model, rng):
    found = some(rng, model.walk("node"))
    for entry in entries(found[1][2], 4) if found else ():
        entry[2] = rng.choice(model.operators)


def graph_nodes(model, rng):
    graph, found = some(rng, model.walk("node")) or (None, None)
    if not found:
        return
    what = rng.randrange(3)
    if what == 0:
        graph.remove(found)
    elif what == 1:
        graph.insert(rng.randrange(len(graph) + 1), copy.deepcopy(found))
    else:
        graph.remove(found)
        graph.insert(rng.randrange(len(graph) + 1), found)


def attribute_drop(model, rng):
    node, found = some(rng, model.walk("attribute")) or (None, None)
    if found:
        node.remove(found)


def attribute_kind(model, rng):
    found = some(rng, model.walk("attribute"))
    if not found:
        return
    attribute = found[1][2]
    name = (entries(attribute, 1) or [[1, 2, b"axis"]])[0]
    value = rng.choice((rng.choice(ODD), 0.5, float("nan"), "text", [], [rng.choice(ODD)] * rng.randrange(6)))
    made = parse(wire.attribute("", value), "attribute")
    attribute[:] = [name] + [e for e in made if e[0] != 1]


def attribute_value(model, rng):
    found = some(rng, model.walk("attribute"))
    if not found:
        return
    values = [e for e in found[1][2] if e[0] in (2, 3, 4, 7, 8, 9, 20)]
    if not values:
        return
    entry = rng.choice(values)
    if entry[0] == 20:
        entry[2] = rng.randrange(15)
    elif entry[1] == 0:
        entry[2] = rng.choice(ODD) if rng.random() < 0.7 else entry[2] + rng.choice((-1, 1))
    elif entry[1] == 5:
        entry[2] = struct.pack("<f", rng.choice((0.0, -1.0, 1e30, float("inf"), float("nan"))))
    elif entry[0] == 8:
        entry[2] = b"".join(wire.varint(rng.choice(ODD)) for _ in range(rng.randrange(5)))
    elif entry[0] == 7:
        entry[2] = entry[2][:4 * rng.randrange(3)]
    else:
        entry[2] = rng.choice((b"", b"?", entry[2][:-1], entry[2] + entry[2], b"ij->", b"...", b"\0\0"))
    if rng.random() < 0.3 and entry[0] in (7, 8, 9):
        found[1][2].append(list(entry))


def attribute_more(model, rng):
    found = some(rng, model.walk("node"))
    others = list(model.walk("attribute"))
    if not found:
        return
    if others and rng.random() < 0.5:
        found[1][2].append(copy.deepcopy(rng.choice(others)[1]))
    else:
        name = rng.choice(("axis", "axes", "perm", "kernel_shape", "pads", "strides", "group", "mode", "to", "value",
                           "keepdims", "direction", "hidden_size", "block_size", "batch_dims", "k", "largest"))
        value = rng.choice((rng.choice(ODD), 1.5, "text", [rng.choice(ODD)] * rng.randrange(5)))
        found[1][2].append([5, 2, parse(wire.attribute(name, value), "attribute")])


def value_type(model, rng):
    found = some(rng, model.walk("tensor_type"))
    if found:
        set_number(found[1][2], 1, rng.choice(TYPES))


def value_dims(model, rng):
    shape = some(rng, model.walk("shape"))
    if not shape:
        return
    dims, what = shape[1][2], rng.randrange(5)
    if what == 0 and dims:
        dims.remove(rng.choice(dims))
    elif what == 1:
        dims.insert(rng.randrange(len(dims) + 1), [1, 2, [[1, 0, rng.choice(ODD[:6])]]])
    elif what == 2 and dims:
        rng.choice(dims)[2] = [[2, 2, rng.choice((b"n", b"m", b"n + 1", b"2*n", b"n/2", b"((((", b"", b"a-b"))]]
    elif what == 3 and dims:
        rng.choice(dims)[2] = [[1, 0, rng.choice(ODD)]]
    elif dims:
        rng.choice(dims)[2] = []


def value_bare(model, rng):
    holder, found = some(rng, model.walk("shape")) or (None, None)
    if found and rng.random() < 0.5:
        holder.remove(found)
    elif found:
        for _, other in model.walk("shape"):
            for k, dim in enumerate(other[2]):
                if rng.random() < 0.5:
                    dim[2] = [[2, 2, b"s%d" % rng.randrange(3)]]
    else:
        value = some(rng, model.walk("value"))
        if value:
            value[1][2][:] = [e for e in value[1][2] if e[0] != 2]


def tensor_damage(model, rng):
    found = some(rng, model.walk("tensor"))
    if not found:
        return
    tensor, what = found[1][2], rng.randrange(6)
    dims = [e for e in tensor if e[0] == 1]
    data = [e for e in tensor if e[0] in (4, 5, 7, 9, 10) and e[1] == 2]
    if what == 0:
        set_number(tensor, 2, rng.choice(TYPES))
    elif what == 1 and dims:
        tensor.remove(rng.choice(dims))
    elif what == 2:
        tensor.insert(0, [1, 0, rng.choice(ODD)])
    elif what == 3 and dims and dims[0][1] == 0:
        rng.choice(dims)[2] = rng.choice(ODD)
    elif data:
        entry = rng.choice(data)
        body = bytearray(entry[2])
        if what == 4:
            entry[2] = bytes(body[:rng.randrange(len(body) + 1)])
        elif body:
            for _ in range(rng.choice((1, 4, 16))):
                body[rng.randrange(len(body))] = rng.choice((0, 1, 2, 0x7F, 0x80, 0xFF))
            entry[2] = bytes(body)


def input_constant(model, rng):
    """An input becomes an initializer: operators see more when they know the values."""
    graph, found = some(rng, (p for p in model.walk("value") if p[1][0] == 11)) or (None, None)
    if not found:
        return
    name = b"".join(e[2] for e in entries(found[2], 1))
    dtype, dims = 1, []
    for _, t in model.walk("tensor_type", found[2], "value"):
        dtype = (entries(t[2], 1) or [[1, 0, 1]])[0][2]
        for _, d in model.walk("dim", t[2], "tensor_type"):
            dims.append((entries(d[2], 1) or [[1, 0, 2]])[0][2])
    count = 1
    for size in dims:
        count *= size if 0 <= size < 1 << 20 else 1
    size = {1: 4, 6: 4, 7: 8, 11: 8, 10: 2, 16: 2, 4: 2, 5: 2, 12: 4, 13: 8}.get(dtype, 1)
    if count * size > 1 << 20:
        return
    small = struct.pack("<q", rng.choice((0, 1, 2, -1, 3)))[:size]
    raw = small * count if dtype in (6, 7, 2, 3, 9) else rng.randbytes(count * size)
    graph.append([5, 2, parse(wire.tensor(name, dims, raw=raw, dtype=dtype), "tensor")])
    if rng.random() < 0.8:
        graph.remove(found)


def initializer_input(model, rng):
    graph, found = some(rng, (p for p in model.walk("tensor") if p[1][0] == 5)) or (None, None)
    if not found or not entries(found[2], 8):
        return
    name = entries(found[2], 8)[0][2]
    dims = [e[2] if rng.random() < 0.7 else "n" for e in entries(found[2], 1) if e[1] == 0]
    dtype = (entries(found[2], 2) or [[2, 0, 1]])[0][2]
    graph.remove(found)
    graph.append([11, 2, parse(wire.value_info(name, dims, dtype), "value")])


def opset_version(model, rng):
    found = some(rng, model.walk("opset"))
    if found:
        set_number(found[1][2], 2, rng.choice(tuple(range(1, 27)) + (0, -1, 1 << 40)))


def nest_deeply(model, rng):
    graph = some(rng, (p for p in model.walk("graph")))
    if not graph:
        return
    body = join(graph[1][2])
    for _ in range(rng.choice((1, 3, 30, 100))):
        body = wire.graph([wire.node("If", [rng.choice(model.names())], ["y"], then_branch=body,
                                     else_branch=body if len(body) < 2000 else b"")], [],
                          [wire.value_info("y", None)])
        if len(body) > 1 << 16:
            break
    graph[1][2] = parse(body, "graph")


def bytes_damage(data, rng):
    data = bytearray(data)
    what = rng.randrange(3)
    if what == 0:
        return bytes(data[:rng.randrange(len(data) + 1)])
    for _ in range(rng.choice((1, 2, 8))):
        if data:
            data[rng.randrange(len(data))] = rng.choice((0, 0xFF, 0x80, 0x7F, rng.randrange(256)))
    return bytes(data)


MUTATIONS = ((node_operands, 5), (node_operator, 3), (graph_nodes, 1), (attribute_drop, 2), (attribute_kind, 2),
             (attribute_value, 4), (attribute_more, 2), (value_type, 3), (value_dims, 5), (value_bare, 2),
             (tensor_damage, 3), (input_constant, 4), (initializer_input, 1), (opset_version, 1), (nest_deeply, 0.3))


def mutate(data, seed, operators):
    """The case that a good model and a seed make."""
    rng = random.Random(seed)
    if rng.random() < 0.05:
        return bytes_damage(data, rng)
    model = Model(data, operators)
    for _ in range(rng.choice((1, 1, 1, 2, 2, 3, 5))):
        mutation = rng.choices([m for m, _ in MUTATIONS], [w for _, w in MUTATIONS])[0]
        mutation(model, rng)
    return model.bytes()
