# SPDX-License-Identifier: Apache-2.0
"""Models over types that no judge runs, judged over types that one does.

`wider`: every tensor of a narrow type takes a wider one; results are rounded back. `codes`: what moves or orders elements
does not see what they are: they are numbered in order, zero as 0, and results are looked up again.
"""
import itertools

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import values

T = TensorProto
NARROW_FLOATS = [T.FLOAT16, T.BFLOAT16, T.FLOAT8E4M3FN, T.FLOAT8E4M3FNUZ, T.FLOAT8E5M2, T.FLOAT8E5M2FNUZ, T.FLOAT8E8M0, T.FLOAT4E2M1]
NARROW_INTS = [T.INT8, T.INT16, T.INT32, T.UINT8, T.UINT16, T.UINT32, T.UINT64, T.INT4, T.UINT4, T.INT2, T.UINT2]
CODED = [T.STRING, T.COMPLEX64, T.COMPLEX128, *NARROW_FLOATS, T.INT4, T.UINT4, T.INT2, T.UINT2]  # no type that indices may have
WIDER = [{**dict.fromkeys(NARROW_FLOATS, T.FLOAT), **dict.fromkeys(NARROW_INTS, T.INT64)},
         {**dict.fromkeys(NARROW_FLOATS, T.FLOAT), **dict.fromkeys(NARROW_INTS, T.INT32)},
         dict.fromkeys(NARROW_INTS, T.DOUBLE), dict.fromkeys([*NARROW_FLOATS, T.DOUBLE], T.FLOAT)]

# Their results depend on what a type is, not on its values alone.
TYPED = {"BitCast", "Cast", "CastLike", "QuantizeLinear", "DynamicQuantizeLinear", "BitShift", "QLinearConv", "QLinearMatMul",
         "BitwiseNot", "EyeLike", "RandomNormalLike", "RandomUniformLike", "Bernoulli", "Optional", "SequenceEmpty"}
INTERPOLATE = {"Resize", "Upsample", "GridSample"}  # integers of these are rounded as each judge likes
MOVES = {"Identity", "Reshape", "Transpose", "Squeeze", "Unsqueeze", "Flatten", "Concat", "Split", "Slice", "Gather", "GatherElements",
         "GatherND", "ScatterElements", "ScatterND", "Scatter", "Tile", "Expand", "Pad", "Where", "Compress", "SpaceToDepth", "DepthToSpace",
         "ReverseSequence", "Trilu", "CenterCropPad", "Shape", "Size", "NonZero", "Equal", "Unique", "TensorScatter", "Upsample",
         "SequenceConstruct", "SequenceAt", "SequenceInsert", "SequenceErase", "SequenceLength", "ConcatFromSequence", "SplitToSequence",
         "OptionalHasElement", "OptionalGetElement", "If", "Loop", "Scan", "Constant", "MaxPool", "ReduceMax", "ReduceMin", "Max", "Min",
         "ArgMax", "ArgMin", "Less", "Greater", "LessOrEqual", "GreaterOrEqual", "GlobalMaxPool", "Relu", "MaxUnpool", "GridSample", "Resize"}
# Of these only where no arithmetic is asked for: by the attribute that asks.
PLAIN = {"ScatterElements": ("reduction", b"none"), "ScatterND": ("reduction", b"none"), "Upsample": ("mode", b"nearest"),
         "Resize": ("mode", b"nearest"), "GridSample": ("mode", b"nearest")}


def over(array, t):
    """The array in the type t: integers wrap, floats round once."""
    to = helper.tensor_dtype_to_np_dtype(t)
    if to.kind in "iu" and array.dtype.kind == "f":
        return np.trunc(array).astype(np.int64).astype(to)
    return array.astype(to)


class Mapped:
    """A copy of the model over other types; `function(array, code)` maps values, `types` maps codes."""

    def __init__(self, model, types, function):
        self.types, self.function = types, function
        self.model = onnx.ModelProto()
        self.model.CopyFrom(model)
        self.graph(self.model.graph)

    def kind(self, t):
        which = t.WhichOneof("value")
        if which == "tensor_type":
            t.tensor_type.elem_type = self.types.get(t.tensor_type.elem_type, t.tensor_type.elem_type)
        elif which in ("sequence_type", "optional_type"):
            self.kind(getattr(t, which).elem_type)

    def tensor(self, t):
        if t.data_type in self.types:
            array = numpy_helper.to_array(t)
            t.CopyFrom(numpy_helper.from_array(np.asarray(self.function(array, t.data_type)), t.name))

    def graph(self, graph):
        for value in itertools.chain(graph.input, graph.output, graph.value_info):
            self.kind(value.type)
        for t in graph.initializer:
            self.tensor(t)
        for node in graph.node:
            for a in node.attribute:
                if a.HasField("t"):
                    self.tensor(a.t)
                if a.HasField("g"):
                    self.graph(a.g)

    def value(self, value):
        if isinstance(value, list):
            return [self.value(v) for v in value]
        if isinstance(value, np.ndarray) or np.isscalar(value):
            at = values.code(value)
            return np.asarray(self.function(np.asarray(value), at)) if at in self.types else value
        return value


def nodes_of(graph):
    for node in graph.node:
        yield node
        for a in node.attribute:
            if a.HasField("g"):
                yield from nodes_of(a.g)


def element_type(kind):
    which = kind.WhichOneof("value")
    if which in ("sequence_type", "optional_type"):
        return element_type(getattr(kind, which).elem_type)
    return kind.tensor_type.elem_type if which == "tensor_type" else 0


def result_types(model):
    inferred = onnx.shape_inference.infer_shapes(model)
    return [element_type(v.type) for v in inferred.graph.output]


def back(value, function):
    return [back(v, function) for v in value] if isinstance(value, list) else function(np.asarray(value))


def used_types(model):
    graph = model.graph
    return {element_type(v.type) for v in graph.input} | {t.data_type for t in graph.initializer} | {
        a.t.data_type for n in nodes_of(graph) for a in n.attribute if a.HasField("t")}


def wider(model, feed):
    """Yields (model, feed, function that takes results back) for each way that changes something."""
    if any(n.op_type in TYPED for n in nodes_of(model.graph)):
        return
    used, results = used_types(model), result_types(model)
    between = any(n.op_type in INTERPOLATE for n in model.graph.node)
    for types in WIDER:
        if used & types.keys() and not (between and used & set(NARROW_INTS)):
            made = Mapped(model, types, lambda array, t, to=types: over(array, to[t]))
            yield made.model, {k: made.value(v) for k, v in feed.items()}, lambda found: [
                back(r, lambda array, t=t: over(array, t) if t else array) for r, t in zip(found, results)]


def zero_of(t):
    return "" if t == T.STRING else helper.tensor_dtype_to_np_dtype(t).type(0)


def sort_key(value):
    return (value.real, value.imag) if isinstance(value, (complex, np.complexfloating)) else value


class Codes:
    """Elements of one type by their place in order, counted from that of zero."""

    def __init__(self, t, arrays):
        self.t = t
        seen = {x for a in arrays for x in a.reshape(-1).tolist()} | {np.asarray(zero_of(t)).tolist()}
        self.items = sorted(seen, key=sort_key)
        self.zero = self.items.index(np.asarray(zero_of(t)).tolist())
        self.at = {x: i - self.zero for i, x in enumerate(self.items)}

    def encode(self, array):
        return np.array([self.at[x.decode() if isinstance(x, bytes) else x] for x in array.reshape(-1).tolist()], np.int64).reshape(array.shape)

    def decode(self, array):
        if array.size and not 0 <= array.min() + self.zero <= array.max() + self.zero < len(self.items):
            raise ValueError("a code that no element has")
        found = [self.items[int(x) + self.zero] for x in array.reshape(-1)]
        to = np.dtype(object) if self.t == T.STRING else helper.tensor_dtype_to_np_dtype(self.t)
        made = np.empty(len(found), to)
        made[:] = found
        return made.reshape(array.shape)


def arrays_of(value):
    return [a for v in value for a in arrays_of(v)] if isinstance(value, list) else [np.asarray(value)]


def numbered(model, feed, t, into):
    """The model with each element of type t as its code."""
    held = [numpy_helper.to_array(x) for x in [*model.graph.initializer, *(a.t for n in nodes_of(model.graph) for a in n.attribute if a.HasField("t"))]
            if x.data_type == t]
    fed = [a for v in feed.values() for a in arrays_of(v) if values.code(a) == t]
    codes = Codes(t, [np.asarray([x.decode() if isinstance(x, bytes) else x for x in a.reshape(-1).tolist()], object) if t == T.STRING else a
                      for a in held + fed])
    to = helper.tensor_dtype_to_np_dtype(into)
    made = Mapped(model, {t: into}, lambda array, _: codes.encode(array).astype(to))
    return made.model, {k: made.value(v) for k, v in feed.items()}, codes


def moves(node):
    name, value = PLAIN.get(node.op_type, ("", None))
    given = [a.s for a in node.attribute if a.name == name]
    default = b"nearest" if node.op_type in ("Resize", "Upsample") else b"none" if name == "reduction" else None
    filled = {"Pad": "value", "Resize": "extrapolation_value"}.get(node.op_type)  # a number, which codes are not
    filled = any(a.name == filled for a in node.attribute)
    return node.op_type in MOVES and not filled and (not name or (given or [default]) == [value])


def coded(model, feed):
    if not all(moves(n) for n in nodes_of(model.graph)):
        return
    results = result_types(model)
    if not results or not all(results):
        return
    for t, into in itertools.product(sorted(used_types(model) & set(CODED)), (T.INT64, T.FLOAT)):
        made, fed, codes = numbered(model, feed, t, into)
        yield made, fed, lambda found, t=t, codes=codes: [back(r, codes.decode) if u == t else r for r, u in zip(found, results)]


