# SPDX-License-Identifier: Apache-2.0
"""Cases for contrib_cases.py of sequences, optionals and loops: of pairs of doubles in all of them, which ONNX's reference
implementation judges, and of loops whose carried values change their rank, which onnxruntime does."""
import copy
import pathlib
import sys

import numpy as np
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

sys.path.insert(0, str(pathlib.Path(__file__).parent / "random"))
from judge import by_onnxruntime  # noqa: E402
from values import Opt, plain, proto_of, tensor, type_of  # noqa: E402

T = TensorProto


def node(op, inputs, outputs, **attributes):
    return helper.make_node(op, [i.strip("-") for i in inputs.split()], outputs.split(), **attributes)


def tensor_type(t, dims=None):
    """`dims`: sizes, or how many there are."""
    return helper.make_tensor_type_proto(t, [None] * dims if isinstance(dims, int) else dims)


def sequence_type(t, rank=None):
    return helper.make_sequence_type_proto(tensor_type(t, rank))


def optional_type(kind):
    return helper.make_optional_type_proto(kind)


def graph(name, nodes, inputs, outputs, weights=None):
    """Inputs and outputs as {name: type}."""
    infos = [[helper.make_value_info(n, t) for n, t in values.items()] for values in (inputs, outputs)]
    return helper.make_graph(nodes, name, *infos, [tensor(w, n) for n, w in (weights or {}).items()])


def branch(nodes, output, kind):
    return graph(output, nodes, {}, {output: kind})


def loop(nodes, carried, inputs, outputs, slices=None, number=()):
    """`carried`: {body's input: (type, body's result, its type)}; `slices`: {body's result: type}. It goes on as it began, unless
    a node gives `on`. `number`: the shape of the iteration's number."""
    index, flag = tensor_type(T.INT64, number), tensor_type(T.BOOL, 0)
    body = graph("body", nodes if any("on" in n.output for n in nodes) else [*nodes, node("Identity", "go", "on")],
                 {"i": index, "go": flag} | {name: kind for name, (kind, _, _) in carried.items()},
                 {"on": flag} | {name: kind for _, name, kind in carried.values()} | (slices or {}))
    return node("Loop", inputs, outputs, body=body)


def pairs(m, *shape):
    return m.f(*shape, t=np.float64) + 1j * m.f(*shape, t=np.float64)


def pair_cases(m):
    """(name, nodes, feeds, types of outputs, weights)"""
    c, seq, one = T.COMPLEX128, sequence_type(T.COMPLEX128, 2), tensor_type(T.COMPLEX128, 2)
    a, b, s = pairs(m, 2, 3), pairs(m, 2, 3), [pairs(m, 2, 3), pairs(m, 1, 3), pairs(m, 4, 3)]
    integer, flag = tensor_type(T.INT64, 0), tensor_type(T.BOOL, 0)
    yield ("changed", [node("SequenceInsert", "s a p", "t"), node("SequenceErase", "t q", "u"), node("SequenceLength", "u", "n"),
                       node("SequenceAt", "t q", "e"), node("Identity", "u", "y")],
           [{"s": s, "a": a, "p": np.array(p), "q": np.array(q)} for p, q in ((0, 2), (-1, -1), (2, 0))], {"y": seq, "n": integer, "e": one})
    yield ("made", [node("SequenceConstruct", "a k a", "t"), node("SequenceAt", "t q", "e"), node("SequenceEmpty", "", "z", dtype=c),
                    node("SequenceInsert", "z b", "y")],
           [{"a": a, "b": b, "q": np.array(q)} for q in (0, 1)], {"t": seq, "e": one, "y": seq}, {"k": pairs(m, 1, 3)})
    yield ("joined", [node("ConcatFromSequence", "s", "y", axis=0), node("SequenceErase", "s two", "t"), node("SequenceErase", "t two", "u"),
                      node("SequenceInsert", "u a", "v"), node("SequenceErase", "v zero", "w"), node("ConcatFromSequence", "w", "z", axis=-1, new_axis=1)],
           [{"s": s, "a": a}], {"y": one, "z": tensor_type(c, 3)}, {"two": np.array(1), "zero": np.array(0)})
    yield ("split", [node("SplitToSequence", "a p", "y", axis=1), node("SplitToSequence", "a", "z", axis=0, keepdims=0),
                     node("SplitToSequence", "a k", "x", axis=1), node("SequenceAt", "x q", "e"), node("ConcatFromSequence", "x", "w", axis=1)],
           [{"a": a, "p": np.array(2), "q": np.array(1)}],
           {"y": seq, "z": sequence_type(c, 1), "e": one, "w": one}, {"k": np.array([1, 2])})
    each = graph("each", [node("Transpose", "e", "f"), node("Shape", "e", "h")], {"e": one}, {"f": one, "h": tensor_type(T.INT64, 1)})
    yield ("mapped", [node("SequenceMap", "s", "y z", body=each)], [{"s": s}], {"y": seq, "z": sequence_type(T.INT64, 1)})
    yield ("optional", [node("OptionalHasElement", "o", "h"), node("If", "h", "y", then_branch=branch([node("OptionalGetElement", "o", "g")], "g", one),
                                                                else_branch=branch([node("Identity", "b", "f")], "f", one))],
           [{"o": Opt(v, one), "b": b} for v in (a, None)], {"h": flag, "y": one})
    yield ("optional_sequence", [node("OptionalGetElement", "o", "t"), node("SequenceAt", "t p", "e"), node("Optional", "e", "y"),
                                 node("Optional", "t", "z")],
           [{"o": Opt(s, seq), "p": np.array(2)}], {"e": one, "y": optional_type(one), "z": optional_type(seq)})
    yield ("chosen", [node("If", "p", "y", then_branch=branch([node("SequenceConstruct", "a b", "g")], "g", seq),
                           else_branch=branch([node("SequenceInsert", "s a", "f")], "f", seq)),
                      node("If", "p", "z", then_branch=branch([node("Optional", "a", "o")], "o", optional_type(one)),
                           else_branch=branch([node("Optional", "", "n", type=one)], "n", optional_type(one)))],
           [{"p": np.array(p), "a": a, "b": b, "s": s} for p in (True, False)], {"y": seq, "z": optional_type(one)})
    yield ("gathered", [loop([node("SequenceInsert", "t x", "u"), node("Concat", "x a", "w", axis=0)],
                             {"t": (seq, "u", seq), "x": (one, "w", one)}, "n yes s a", "y z")],
           [{"n": np.array(n), "s": s, "a": a} for n in (0, 3)], {"y": seq, "z": one}, {"yes": np.array(True)})


def rank_cases(m):
    """Carried values that leave an iteration with another rank than they entered it with."""
    def f(dims=None):
        return tensor_type(T.FLOAT, dims)

    def counts(*numbers):
        return [{"x": x, "n": np.array(n)} for n in numbers]

    x, w, yes = m.f(3), m.f(2, 3), {"yes": np.array(True)}
    three = yes | {"n": np.array(3)}
    add = {"a": (f(), "b", f())}
    yield "settles", [loop([node("Add", "a w", "b")], add, "n yes x", "y")], [{"x": x}], {"y": f(2)}, three | {"w": w}
    yield "settles_at_run", [loop([node("Add", "a w", "b")], add, "n yes x", "y")], counts(1, 4), {"y": f(2)}, yes | {"w": w}
    yield ("settles_or_not", [loop([node("Add", "a w", "b")], add, "n yes x", "y"), node("Exp", "y", "e"), node("ReduceSum", "e", "z", keepdims=0)],
           counts(0, 1, 3), {"z": f(0)}, yes | {"w": w})
    yield ("settles_late", [loop([node("MatMul", "a k", "p"), node("Add", "p v", "b")], add, "n yes x", "y")],
           [{"x": m.f(3, 3, 3, 3)}], {"y": f(1)}, yes | {"n": np.array(5), "k": m.f(3, scale=0.5), "v": m.f(3)})
    yield ("flat", [loop([node("Flatten", "a", "c"), node("MatMul", "c k", "b")], add, "n yes x", "y")],
           [{"x": m.f(2, 3, 4)}], {"y": f(2)}, three | {"k": m.f(12, 12, scale=0.3)})
    yield ("grows", [loop([node("Unsqueeze", "a zero", "u"), node("Concat", "u u", "b", axis=0)], add, "n yes x", "y")],
           [{"x": x}], {"y": f(4)}, three | {"zero": np.array([0])})
    yield ("first_only", [loop([node("Equal", "i zero", "c"),
                                node("If", "c", "d", then_branch=branch([node("Unsqueeze", "a axis", "p")], "p", f()),
                                     else_branch=branch([node("Neg", "a", "q")], "q", f())), node("Sin", "d", "b")], add, "n yes x", "y")],
           counts(1, 4), {"y": f(2)}, yes | {"zero": np.array(0), "axis": np.array([1])})
    yield ("first_result", [loop([node("Equal", "i zero", "c"),
                                  node("If", "c", "b", then_branch=branch([node("Unsqueeze", "a axis", "p")], "p", f()),
                                       else_branch=branch([node("Neg", "a", "q")], "q", f()))], add, "n yes x", "y")],
           counts(1, 4), {"y": f(2)}, yes | {"zero": np.array(0), "axis": np.array([1])})
    sums = [node("Add", "a w", "b"), node("ReduceSum", "b", "s", keepdims=0), node("Cast", "i", "h", to=1), node("Add", "s h", "t"),
            node("Add", "b h", "o")]
    yield ("slices", [loop(sums, add, "n yes x", "y t u", {"o": f(), "t": f(0)})], [{"x": x}], {"y": f(2), "t": f(3), "u": f(1)}, three | {"w": w})
    yield ("slices_at_run", [loop(sums, add, "n yes x", "y t u", {"o": f(), "t": f(0)})], counts(1, 4), {"y": f(2), "t": f(3), "u": f(1)}, yes | {"w": w})
    yield ("slices_or_none", [loop(sums, add, "n yes x", "y t u", {"o": f([2, 3]), "t": f(0)}), node("ReduceSum", "y", "z", keepdims=0)],
           counts(0, 2), {"z": f(0), "t": f(3), "u": f(1)}, yes | {"w": w})
    yield ("until", [loop([node("Add", "a w", "b"), node("ReduceMax", "b", "s", keepdims=0), node("Less", "s limit", "on")], add, "- yes x", "y")],
           [{"x": x, "limit": np.array(v, np.float32)} for v in (-100, 20)], {"y": f(2)}, yes | {"w": np.abs(w)})
    yield ("two", [loop([node("Add", "a w", "b"), node("Add", "c a", "d")], add | {"c": (f(), "d", f())}, "n yes x v", "y z")],
           [{"x": x, "v": m.f(3)}], {"y": f(2), "z": f(2)}, three | {"w": w})
    inner = loop([node("Add", "e a", "g")], {"e": (f(), "g", f())}, "n go a", "h")
    yield ("nested", [loop([inner, node("Add", "h w", "b")], add, "n yes x", "y")], [{"x": x}], {"y": f(2)}, three | {"w": w})
    inner = loop([node("Add", "e w", "g")], {"e": (f(), "g", f())}, "n go x", "h")
    yield ("within", [loop([inner, node("Add", "h a", "b")], {"a": (f(2), "b", f(2))}, "n yes v", "y")], [{"x": x, "v": m.f(2, 3)}], {"y": f(2)}, three | {"w": w})
    yield ("swap", [loop([node("Neg", "c", "b"), node("Sin", "a", "d")], add | {"c": (f(), "d", f())}, "n yes x v", "y z")],
           [{"x": x, "v": w}], {"y": f(2), "z": f(1)}, three)
    yield ("unread", [loop(sums, add, "n yes x", "y t u", {"o": f([2, 3]), "t": f(0)})], counts(0, 2), {"u": f(1)}, yes | {"w": w})
    either = {"then_branch": branch([node("ReduceSum", "a", "p", keepdims=0)], "p", f()), "else_branch": branch([node("Neg", "a", "q")], "q", f())}
    yield ("branches_within", [loop([node("If", "c", "d", **either), node("Add", "d w", "b")], add, "n yes x", "y")],
           [feed | {"c": np.array(c)} for feed in counts(1, 3) for c in (True, False)], {"y": f(2)}, yes | {"w": w})
    either = {"then_branch": branch([node("Unsqueeze", "x zero", "p")], "p", f()), "else_branch": branch([node("Neg", "x", "q")], "q", f())}
    yield ("branches_before", [node("If", "c", "e", **either), loop([node("Add", "a w", "b")], add, "n yes e", "y"), node("ReduceSum", "y", "z", keepdims=0)],
           [feed | {"c": np.array(c)} for feed in counts(0, 3) for c in (True, False)], {"z": f(0)}, yes | {"w": w, "zero": np.array([0])})
    yield ("condition", [loop([node("Add", "a w", "b")], add, "n c x", "y"), node("ReduceSum", "y", "z", keepdims=0)],
           [feed | {"c": np.array(c)} for feed in counts(2) for c in (True, False)], {"z": f(0)}, {"w": w})
    row = [node("Add", "i one", "j"), node("Slice", "k i j zero", "s"), node("Concat", "i j", "c", axis=0)]
    yield ("number_in_vector", [node("Compress", "x keep", "k", axis=0),
                              loop(row, {}, "n yes", "s c", {"s": f(2), "c": tensor_type(T.INT64, 1)}, number=[1])],
           [{"x": m.f(5, 3), "keep": np.array(keep), "n": np.array(n)} for keep, n in (([True] * 5, 2), ([True, False, True, True, False], 3))],
           {"s": f(3), "c": tensor_type(T.INT64, 2)}, yes | {"one": np.array([1]), "zero": np.array([0])})
    word = {"a": (tensor_type(T.STRING), "b", tensor_type(T.STRING))}
    yield ("text", [loop([node("StringConcat", "a w", "b")], word, "n yes x", "y")], [{"x": np.array(["p", "q"], object)}],
           {"y": tensor_type(T.STRING, 2)}, three | {"w": np.array([["r", "s"], ["t", "u"]], object)})


def by_reference(model, feed):
    return ReferenceEvaluator(model).run(None, feed)


def models(m):
    for prefix, cases, judge in ("pairs", pair_cases, by_reference), ("rank", rank_cases, by_onnxruntime):
        for name, *parts in cases(m):
            yield f"{prefix}_{name}", judge, *parts


def make(folder, only, maker):
    for name, judge, nodes, feeds, outputs, *weights in models(maker):
        if only not in name:
            continue
        inputs = {n: type_of(v) for n, v in feeds[0].items()}
        model = helper.make_model(graph(name, nodes, inputs, outputs, *weights), ir_version=8,
                                  opset_imports=[helper.make_opsetid("", 20)])
        for k, feed in enumerate(feeds):
            values = {n: copy.copy(v.value if isinstance(v, Opt) else v) for n, v in feed.items()}  # a judge inserts in place
            results = judge(model, values)
            data = folder / name / f"test_data_set_{k}"
            data.mkdir(parents=True, exist_ok=True)
            for i, v in enumerate(model.graph.input):
                (data / f"input_{i}.pb").write_bytes(proto_of(feed[v.name], v.name, v.type).SerializeToString())
            for i, (v, got) in enumerate(zip(model.graph.output, results)):
                if v.type.HasField("optional_type") and isinstance(got, list):  # of one, or of none
                    got = next(iter(got), None)
                got = got if got is None else plain(got)
                (data / f"output_{i}.pb").write_bytes(proto_of(got, v.name, v.type).SerializeToString())
        (folder / name / "model.onnx").write_bytes(model.SerializeToString())
