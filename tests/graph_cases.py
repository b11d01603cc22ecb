# SPDX-License-Identifier: Apache-2.0
"""Cases for contrib_cases.py of several nodes: what follows an If whose branches give values of different rank; models
that onnxruntime optimized for its blocks of channels (to be made where there is AVX-512). The judge is onnxruntime."""
import itertools
import pathlib
import tempfile

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

X = ("x", ["N", "M", 3])


def node(op, inputs, output, **attributes):
    return helper.make_node(op, inputs.split(), output.split(), **attributes)


def info(name, dims, t=TensorProto.FLOAT):
    return helper.make_tensor_value_info(name, t, dims)


def unranked(name):
    return helper.make_value_info(name, helper.make_tensor_type_proto(TensorProto.FLOAT, None))


def graph(nodes, *outputs):
    return helper.make_graph(nodes, outputs[0], [], [unranked(o) for o in outputs])


def constant(name, values):
    return helper.make_node("Constant", [], [name], value=numpy_helper.from_array(np.array(values)))


def squeeze(condition, x, y, axis=1):
    """As exporters write a squeeze of an extent that may be 1."""
    return node("If", condition, y, then_branch=graph([constant(f"{y}_axis", [axis]), node("Squeeze", f"{x} {y}_axis", f"{y}_a")], f"{y}_a"),
                else_branch=graph([node("Identity", x, f"{y}_b")], f"{y}_b"))


def squeezed(x, y, axis=1):
    return [node("Shape", x, f"{y}_shape", start=axis, end=axis + 1), constant(f"{y}_one", [1]),
            node("Equal", f"{y}_shape {y}_one", f"{y}_is"), squeeze(f"{y}_is", x, y, axis)]


def looped(x):
    body = helper.make_graph([node("Identity", "go", "on"), node("ReduceSum", x, "part", keepdims=0), node("Add", "sum part", "next")],
                             "body", [info("i", [], TensorProto.INT64), info("go", [], TensorProto.BOOL), info("sum", [])],
                             [info("on", [], TensorProto.BOOL), info("next", [])])
    return helper.make_node("Loop", ["n", "", "start"], ["z"], body=body)


def branches(then, other, results="y"):
    names = [[f"{k}{r}" for r in results.split()] for k in "ab"]
    ways = [graph([node(op, "x", r, **a) for (op, a), r in zip(way, outs)], *outs) for way, outs in zip((then, other), names)]
    return node("If", "c", results, then_branch=ways[0], else_branch=ways[1])


def cases(m):
    def sizes(*shapes, **more):
        return [{"x": m.f(*s)} | more for s in shapes]

    two = (2, 1, 3), (2, 4, 3)
    scalar = info("z", [])
    yes_no = [np.array(True), np.array(False)]
    pick = info("c", [], TensorProto.BOOL)
    yield "reduce", [*squeezed("x", "y"), node("Relu", "y", "r"), node("ReduceSum", "r", "z", keepdims=0)], [], [scalar], sizes(*two)
    yield ("others", [*squeezed("x", "y"), node("Neg", "w", "v"), node("Mul", "y v", "r"), node("Flatten", "r", "f", axis=0),
                      node("Add", "f v", "z")], [info("w", [1])], [info("z", ["A", "B"])], sizes(*two, w=m.f(1)))
    yield ("size", [*squeezed("x", "y"), node("Size", "y", "n"), node("Cast", "n", "s", to=1), node("Div", "x s", "z")],
           [], [info("z", X[1])], sizes(*two))
    yield ("shape", [*squeezed("x", "y"), node("Shape", "y", "n"), node("ReduceSum", "n", "s", keepdims=0), node("Cast", "s", "z", to=1)],
           [], [scalar], sizes(*two))
    yield ("twice", [*squeezed("x", "y"), *squeezed("y", "w", 0), node("Exp", "w", "e"), node("ReduceMean", "e", "z", keepdims=0)],
           [], [scalar], sizes(*two, (1, 1, 3), (1, 4, 3)))
    outer = node("If", "c", "y", then_branch=graph([squeeze("d", "x", "s")], "s"), else_branch=graph([node("Neg", "x", "t")], "t"))
    yield ("nested", [outer, node("Sigmoid", "y", "r"), node("ReduceMax", "r", "z", keepdims=0)],
           [pick, info("d", [], TensorProto.BOOL)], [scalar], [{"x": m.f(2, 1, 3), "c": c, "d": d} for c in yes_no for d in yes_no])
    yield ("loop", [*squeezed("x", "y"), looped("y")], [info("n", [], TensorProto.INT64), info("start", [])], [scalar],
           sizes(*two, n=np.array(3), start=np.float32(1)))
    pair = branches([("ReduceSum", {"keepdims": 0}), ("Neg", {})], [("Exp", {}), ("Abs", {})], "y u")
    yield ("pair", [pair, node("Cos", "u", "v"), node("Mul", "y v", "m"), node("Add", "m u", "z"), node("Sin", "v", "w")],
           [pick], [info("z", X[1]), info("w", X[1])], [{"x": m.f(2, 2, 3), "c": c} for c in yes_no])
    only = branches([("ReduceSum", {"keepdims": 0})], [("Exp", {})])
    yield ("one_fits", [only, node("Transpose", "y", "z", perm=[2, 0, 1])], [pick], [info("z", [3, "N", "M"])],
           [{"x": m.f(2, 2, 3), "c": yes_no[1]}])


def session_of(model, level="ORT_DISABLE_ALL", saved=""):
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, level)
    options.optimized_model_filepath = saved
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(model.SerializeToString(), options)


def optimized(model):
    with tempfile.TemporaryDirectory() as work:
        path = pathlib.Path(work, "model.onnx")
        session_of(model, "ORT_ENABLE_ALL", str(path))
        return onnx.load(path)


def narrow_blocks(model):
    """The same with filters in blocks of 8, as machines without AVX-512 have them."""
    weights = {t.name: t for t in model.graph.initializer}
    for n in model.graph.node:
        if n.domain != "com.microsoft.nchwc" or n.op_type != "Conv":
            continue
        t = weights[n.input[1]]
        o, i, h, w = t.dims
        wide = numpy_helper.to_array(t)
        if i < 16:
            plain = wide.reshape(o // 16, i, h, w, 16).transpose(0, 4, 1, 2, 3).reshape(o, i, h, w)
        else:
            plain = wide.reshape(o // 16, i // 16, h, w, 16, 16).transpose(0, 5, 1, 4, 2, 3).reshape(o, i, h, w)
        used = (o - 1) // 16 * 16 + 8  # the last block is half empty
        o, plain = used, plain[:used]
        if n.input[0] != "x" and i > 1:
            i, plain = i - 8, plain[:, :i - 8]
        if i < 8:
            narrow = plain.reshape(o // 8, 8, i, h, w).transpose(0, 2, 3, 4, 1)
        else:
            narrow = plain.reshape(o // 8, 8, i // 8, 8, h, w).transpose(0, 2, 4, 5, 3, 1)
        t.CopyFrom(numpy_helper.from_array(narrow.reshape(o, i, h, w), t.name))
        if len(n.input) > 2 and n.input[2]:
            bias = weights[n.input[2]]
            bias.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(bias)[:o], bias.name))
    return model


def blocked(m):
    def conv(x, y, out, channels, k, group=1, **more):
        weights[f"{y}_w"] = m.f(out, channels // group, k, k, scale=(channels // group * k * k) ** -0.5)
        weights[f"{y}_b"] = m.f(out)
        return node("Conv", f"{x} {y}_w {y}_b", y, group=group, kernel_shape=[k, k], pads=[k // 2] * 4, **more)

    def resize(x, y, **more):
        weights[f"{y}_by"] = np.array([1, 1, 2, 3], np.float32)
        return helper.make_node("Resize", [x, "", f"{y}_by"], [y], **more)

    weights, image = {}, info("x", [1, 3, 14, 12])
    yield "block", weights, [
        conv("x", "a", 24, 3, 3), node("Relu", "a", "b"), node("MaxPool", "b", "c", kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4),
        conv("c", "d", 40, 24, 3), conv("c", "e", 40, 24, 1), node("Add", "d e", "f"), node("Relu", "f", "g"),
        conv("g", "h", 32, 40, 1), node("Sigmoid", "h", "i"), conv("i", "j", 32, 32, 3, 32), node("Clip", "j", "k"),
        node("AveragePool", "k", "y", kernel_shape=[2, 2], pads=[1, 0, 0, 1], count_include_pad=1)], image
    weights = {}
    yield "block_grown", weights, [
        conv("x", "a", 16, 3, 3, strides=[2, 1]), resize("a", "b", mode="nearest", coordinate_transformation_mode="asymmetric", nearest_mode="floor"),
        conv("b", "c", 32, 16, 3), resize("c", "d", mode="linear", coordinate_transformation_mode="half_pixel"),
        conv("d", "e", 20, 32, 1), node("GlobalAveragePool", "e", "y")], image
    weights = {}
    yield "block_last", weights, [
        node("Transpose", "x", "t", perm=[0, 3, 1, 2]), conv("t", "a", 32, 20, 3, dilations=[1, 1]), node("GlobalMaxPool", "a", "g"),
        node("Mul", "a g", "s"), conv("s", "b", 48, 32, 3, 2), node("Concat", "a b", "c", axis=1), conv("c", "d", 16, 80, 1),
        node("Transpose", "d", "y", perm=[0, 2, 3, 1])], info("x", [2, 9, 7, 20])
    weights = {}
    yield "block_narrow", weights, [conv("x", "a", 24, 3, 3), node("Relu", "a", "b"), conv("b", "c", 40, 24, 3), node("Sigmoid", "c", "y")], image


def optimized_cases(m):
    for name, weights, nodes, image in blocked(m):
        made = helper.make_graph(nodes, name, [image], [info("y", [None] * 4)],
                                 [numpy_helper.from_array(w, n) for n, w in weights.items()])
        model = helper.make_model(made, ir_version=8, opset_imports=[helper.make_opsetid("", 17)])
        feed = {"x": m.f(*[d.dim_value for d in image.type.tensor_type.shape.dim])}
        wanted = session_of(model).run(None, feed)
        model = optimized(model)
        yield name, narrow_blocks(model) if "narrow" in name else model, [feed], [wanted]


def branch_cases(m):
    for name, nodes, inputs, outputs, feeds in cases(m):
        model = helper.make_model(helper.make_graph(nodes, name, [info(*X), *inputs], outputs), ir_version=8,
                                  opset_imports=[helper.make_opsetid("", 17)])
        feeds = [{n: np.asarray(v) for n, v in f.items()} for f in feeds]
        session = session_of(model)
        yield f"if_{name}", model, feeds, [session.run(None, f) for f in feeds]


def sparse_cases(m):
    """Products with constant matrices that are given as their elements. onnxruntime takes them as inputs only."""
    place, dense = m.rng.choice(20, 7, replace=False).astype(np.int64), m.f(2, 5, 3)
    place.sort()
    for name, t, alpha, turn in ("sparse_product", np.float32, 0.5, 0), ("sparse_product_turned", np.int64, 1.0, 1):
        values, a = m.i(-9, 9, 7).astype(t), np.zeros(20, t)
        a[place] = values
        b = m.i(-9, 9, *dense.shape).astype(t)
        a, b = a.reshape(5, 4) if turn else a.reshape(4, 5), b.swapaxes(1, 2).copy() if turn else b
        held = helper.make_sparse_tensor(numpy_helper.from_array(values, "v"), numpy_helper.from_array(place, "i"), a.shape)
        nodes = [helper.make_node("Constant", [], ["a"], sparse_value=held),
                 helper.make_node("SparseToDenseMatMul", ["a", "b"], ["y"], domain="com.microsoft", alpha=alpha, transA=turn, transB=turn)]
        wanted = (a.T if turn else a) @ (b.swapaxes(1, 2) if turn else b) * t(alpha)
        io = [helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(np.dtype(t)), v.shape) for n, v in (("b", b), ("y", wanted))]
        opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
        model = helper.make_model(helper.make_graph(nodes, name, io[:1], io[1:]), ir_version=8, opset_imports=opsets)
        yield name, model, [{"b": b}], [[wanted.astype(t)]]


def block_cases(m):
    """Products by dequantized weights with a scale, and a zero point, for each block of a column's terms. The rows are
    codes already: where fast mathematics rounds them to 8 bits, they stay as they are."""
    def weights(name, values, t):
        four = values.reshape(-1).astype(np.uint8) & 15
        raw = (four[::2] | four[1::2] << 4) if t == TensorProto.INT4 else values.astype(np.int8)
        return helper.make_tensor(name, t, values.shape, raw.tobytes(), raw=True)

    for name, t, most, zero in ("blocks_int8", TensorProto.INT8, 128, False), ("blocks_int4_zero", TensorProto.INT4, 8, True):
        x = m.i(-127, 128, 3, 128).astype(np.float32)
        x[:, ::32] = 127
        w, z, s = m.i(-most, most, 128, 24), m.i(-most, most, 4, 24) * zero, np.abs(m.f(4, 24, scale=0.1))
        wanted = x @ ((w.reshape(4, 32, 24) - z[:, None]) * s[:, None]).reshape(128, 24).astype(np.float32)
        held = [weights("w", w, t), numpy_helper.from_array(s, "s"), *[weights("z", z, t)] * zero]
        nodes = [node("DequantizeLinear", "w s z" if zero else "w s", "d", axis=0, block_size=32), node("MatMul", "x d", "y")]
        made = helper.make_graph(nodes, name, [info("x", x.shape)], [info("y", wanted.shape)], held)
        yield name, helper.make_model(made, ir_version=10, opset_imports=[helper.make_opsetid("", 21)]), [{"x": x}], [[wanted]]


def make(folder, only, maker):
    all_cases = branch_cases(maker), sparse_cases(maker), optimized_cases(maker), block_cases(maker)
    for name, model, feeds, wanted in itertools.chain(*all_cases):
        if only not in name:
            continue
        for k, (feed, results) in enumerate(zip(feeds, wanted)):
            data = folder / name / f"test_data_set_{k}"
            data.mkdir(parents=True, exist_ok=True)
            for i, v in enumerate(model.graph.input):
                (data / f"input_{i}.pb").write_bytes(numpy_helper.from_array(feed[v.name], v.name).SerializeToString())
            for i, (v, got) in enumerate(zip(model.graph.output, results)):
                (data / f"output_{i}.pb").write_bytes(numpy_helper.from_array(got, v.name).SerializeToString())
        (folder / name / "model.onnx").write_bytes(model.SerializeToString())
