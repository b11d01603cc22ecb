# SPDX-License-Identifier: Apache-2.0
"""Old versions of operators that no judge runs, written as the nearest version that one does.

Each function takes a node of the old version and the values of its operands that the model holds or is fed; it returns
the version and the nodes of the newer text that mean the same.
"""
import numpy as np
import onnx
from onnx import helper

import values

NEWER = {}


def newer(*names, below):
    def keep(function):
        NEWER.update({name: (below, function) for name in names})
        return function
    return keep


def attributes(node, *without):
    return {a.name: helper.get_attribute_value(a) for a in node.attribute if a.name not in without}


def again(node, inputs=None, **changed):
    """The node with other attributes; None leaves one out."""
    kept = {k: v for k, v in (attributes(node, "consumed_inputs") | changed).items() if v is not None}
    return helper.make_node(node.op_type, inputs or list(node.input), list(node.output), **kept)


def constant(name, array):
    return helper.make_node("Constant", [], [name], value=values.tensor(np.asarray(array)))


@newer("AveragePool", "LRN", below=7)
def same(node, known):
    return 7, [again(node)]


@newer("Abs", "Ceil", "Clip", "Elu", "Exp", "Floor", "HardSigmoid", "LeakyRelu", "Log", "Neg", "Reciprocal", "Relu", "Selu",
       "Sigmoid", "Sqrt", "Tanh", "Max", "Mean", "Min", "Sum", "InstanceNormalization", below=6)
def used_up(node, known):
    """Whatever had `consumed_inputs`."""
    return 6, [again(node)]


@newer("BatchNormalization", below=7)
def batch_norm(node, known):
    return 7, [again(node, is_test=None)]


@newer("Dropout", below=7)
def dropout(node, known):
    return 7, [again(node, is_test=None)]


@newer("Cast", below=6)
def cast(node, known):
    return 9, [again(node, to=onnx.TensorProto.DataType.Value(attributes(node)["to"].decode()))]


@newer("Gemm", below=7)
def gemm(node, known):
    return 7, [again(node, broadcast=None)]


@newer("RNN", "GRU", "LSTM", below=7)
def recurrent(node, known):
    return 7, [again(node, output_sequence=None)]


@newer("GlobalLpPool", below=2)
def power(node, known):
    return 2, [again(node, p=int(attributes(node).get("p", 2)))]


@newer("PRelu", below=7)
def slopes(node, known):
    x, slope = node.input
    to = [-1] + [1] * (known[x].ndim - 2) if known[slope].size > 1 else [1] * known[x].ndim
    return 7, [constant("to", np.array(to, np.int64)), helper.make_node("Reshape", [slope, "to"], ["slopes"]), again(node, [x, "slopes"])]


@newer("Reshape", below=5)
def reshape(node, known):
    return 5, [constant("to", np.array(attributes(node)["shape"], np.int64)), again(node, [node.input[0], "to"], shape=None)]


@newer("Split", below=2)
def split(node, known):
    parts = {"split": [int(n) for n in known[node.input[1]]]} if len(node.input) > 1 else {}
    return 2, [again(node, [node.input[0]], axis=attributes(node).get("axis", 0), **parts)]


@newer("Tile", below=6)
def tile(node, known):
    times, axis = (int(known[name]) for name in node.input[1:])
    repeats = [times if k == axis else 1 for k in range(known[node.input[0]].ndim)]
    return 6, [constant("repeats", np.array(repeats, np.int64)), again(node, [node.input[0], "repeats"])]


@newer("Upsample", below=7)
def upsample(node, known):
    a = attributes(node)
    mode = {b"bilinear": "linear"}.get(a.get("mode", b"nearest"), "nearest")
    return 7, [again(node, mode=mode, height_scale=None, width_scale=None, scales=[1.0, 1.0, a["height_scale"], a["width_scale"]])]


@newer("Add", "Sub", "Mul", "Div", "Pow", "And", "Or", "Xor", "Equal", "Less", "Greater", below=7)
def broadcast(node, known):
    """`axis` says where the shape of the second operand lies in that of the first."""
    a, (x, y) = attributes(node), node.input
    if not a.get("broadcast"):
        return 7, [again(node, axis=None, broadcast=None)]
    rank, own = known[x].ndim, known[y].shape
    axis = a.get("axis", rank - len(own)) % max(rank, 1)
    to = [1] * axis + list(own) + [1] * (rank - axis - len(own))
    return 7, [constant("to", np.array(to, np.int64)), helper.make_node("Reshape", [y, "to"], ["along"]),
               again(node, [x, "along"], axis=None, broadcast=None)]


# Versions that differ from an older one only in the types that they take.
SIBLINGS = {("GlobalLpPool", 22): 21, ("MaxRoiPool", 22): 21}


def converted(model, feed):
    """The model with its one node in newer words, or None."""
    node, opset = model.graph.node[0], model.opset_import[0].version
    if len(model.graph.node) != 1 or node.domain:
        return None
    below, rewrite = NEWER.get(node.op_type, (0, None))
    last = next((to for (name, since), to in SIBLINGS.items() if name == node.op_type and opset >= since), 0)
    if opset >= below and not last:
        return None
    known = {t.name: onnx.numpy_helper.to_array(t) for t in model.graph.initializer} | feed
    opset, nodes = rewrite(node, known) if opset < below else (last, [node])
    made = onnx.ModelProto()
    made.CopyFrom(model)
    made.opset_import[0].version = opset
    del made.graph.node[:]
    made.graph.node.extend(nodes)
    used = {name for n in nodes for name in n.input}
    gone = [v for v in made.graph.input if v.name not in used]
    for value in gone:
        made.graph.input.remove(value)
    return made
