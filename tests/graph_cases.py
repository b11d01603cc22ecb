# SPDX-License-Identifier: Apache-2.0
"""Cases for contrib_cases.py of several nodes: what follows an If whose branches give values of different rank. The
judge is onnxruntime."""
import numpy as np
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


def make(folder, only, maker):
    for name, nodes, inputs, outputs, feeds in cases(maker):
        if only not in f"if_{name}":
            continue
        model = helper.make_model(helper.make_graph(nodes, name, [info(*X), *inputs], outputs), ir_version=8,
                                  opset_imports=[helper.make_opsetid("", 17)])
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        options.log_severity_level = 4
        session = onnxruntime.InferenceSession(model.SerializeToString(), options)
        for k, feed in enumerate({n: np.asarray(v) for n, v in f.items()} for f in feeds):
            data = folder / f"if_{name}" / f"test_data_set_{k}"
            data.mkdir(parents=True, exist_ok=True)
            for i, v in enumerate(model.graph.input):
                (data / f"input_{i}.pb").write_bytes(numpy_helper.from_array(feed[v.name], v.name).SerializeToString())
            for i, (v, got) in enumerate(zip(model.graph.output, session.run(None, feed))):
                (data / f"output_{i}.pb").write_bytes(numpy_helper.from_array(got, v.name).SerializeToString())
        (folder / f"if_{name}" / "model.onnx").write_bytes(model.SerializeToString())
