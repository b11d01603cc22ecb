#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes random valid models in the form of ONNX's backend tests.

    tests/random/make.py DIR [--seed N] [--each 20] [--only OPERATOR]... [--table FILE] [-j N]

Needs onnx and onnxruntime from PyPI (tests/random/judge.py says who judges). DIR/tight and DIR/loose hold the
cases: one per operator, version and number; case k of seed N is the same everywhere. A judge's
other opinion lies in DIR/other. `run.py` runs them.
"""
import argparse
import collections
import concurrent.futures
import pathlib
import sys
import zlib

import numpy as np
import onnx
from onnx import TensorProto, helper

import judge
import layers  # noqa: F401  fills in families
from operators import FAMILY, Draw

LOOSE = {TensorProto.FLOAT16, TensorProto.BFLOAT16, *range(TensorProto.FLOAT8E4M3FN, TensorProto.FLOAT8E5M2FNUZ + 1)}


STATIC = {"DFT", "STFT", "GatherND", "Squeeze"}  # extents of these decide a rank, or what is meant
JUDGED = 25  # the newest opset that onnxruntime takes


def type_of(value):
    if isinstance(value, list):
        return helper.make_sequence_type_proto(helper.make_tensor_type_proto(code(value[0]), None))
    return helper.make_tensor_type_proto(code(value), value.shape)


def code(array):
    array = np.asarray(array)
    return TensorProto.STRING if array.dtype.kind == "O" else helper.np_dtype_to_tensor_dtype(array.dtype)


def versions(name, domain=""):
    """[(since, last)] of the operator, without deprecated ones."""
    all_ = sorted((s.since_version, s.deprecated) for s in onnx.defs.get_all_schemas_with_history()
                  if s.name == name and s.domain == domain)
    ends = [v for v, _ in all_[1:]] + [onnx.defs.onnx_opset_version() + 1]
    return [(v, end - 1) for (v, gone), end in zip(all_, ends) if not gone]


def ir_version(opset):
    return 3 if opset < 9 else 8 if opset < 19 else 10 if opset < 23 else 13


def loosen(d, value):
    """Some dims of an input as symbols."""
    if value.type.WhichOneof("value") != "tensor_type":
        return
    for i, dim in enumerate(value.type.tensor_type.shape.dim):
        if d.chance(0.5):
            dim.dim_param = f"{value.name}_{i}"


def declare(d, model, found):
    """Outputs with their shape, with their rank (also where judges differ), or with nothing but what they are."""
    how = d.one("shape", "shape", "rank", "type")
    if len(found) > 1:
        how = "rank" if all(np.ndim(a) == np.ndim(b) for a, b in zip(*found)) else "type"
    for value, result in zip(model.graph.output, found[0]):
        value.type.CopyFrom(type_of(result))
        if value.type.WhichOneof("value") != "tensor_type":
            continue
        if how == "type":
            value.type.tensor_type.ClearField("shape")
        elif how == "rank":
            for dim in value.type.tensor_type.shape.dim:
                dim.Clear()
    return model


def node_model(d, name, opset, node):
    """(model, feed): one node; the operands marked `fixed` mostly as initializers."""
    names = ["" if x is None else f"x{i}" for i, x in enumerate(node.operands)]
    while names and not names[-1]:
        names.pop()
    outs = [f"y{i}" for i in range(node.results)]
    fixed = {i for i in node.fixed if d.chance(0.7)}
    given = [(i, x) for i, x in enumerate(node.operands[:len(names)]) if x is not None]
    ins = [helper.make_value_info(f"x{i}", type_of(x)) for i, x in given if i not in fixed or isinstance(x, list)]
    init = [judge.tensor(x, f"x{i}") for i, x in given if i in fixed and not isinstance(x, list)]
    if not ins:
        return None, None
    if opset < 9 and init:
        ins += [helper.make_value_info(f"x{i}", type_of(x)) for i, x in given if i in fixed]
    graph = helper.make_graph([helper.make_node(name, names, outs, name=name, **node.attributes)], name, ins,
                              [helper.make_value_info(o, onnx.TypeProto()) for o in outs], init)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=ir_version(opset))
    return model, {f"x{i}": x for i, x in given if i not in fixed or isinstance(x, list)}


def make_operator(name, since, last, number, seed):
    """(model, feed, opinions), or why there is no case."""
    d = Draw(zlib.crc32(f"{seed} {name} {since} {number}".encode()))
    opset = since if d.chance(0.5) or since > JUDGED else min(last, JUDGED)
    try:
        node = FAMILY[name](d, name, since)
        model, feed = node_model(d, name, opset, node)
    except (ArithmeticError, LookupError, TypeError, ValueError, onnx.checker.ValidationError):
        return "operands that do not fit"
    if model is None:
        return "no operand that is not constant"
    found = judge.opinions(model, feed)
    if not found:
        return "neither judge runs it"
    declare(d, model, found)
    if d.chance(0.3):
        for value in model.graph.input:
            if value.name in feed and int(value.name[1:]) not in node.fixed and name not in STATIC:
                loosen(d, value)
    return (model, feed, found) if judge.valid(model) else "the checker refuses it"


def is_loose(model, feed, results):
    types = {code(v) for v in [*feed.values(), *results] if not isinstance(v, list)}
    types |= {t.data_type for t in model.graph.initializer}
    return bool(types & LOOSE)


def keep(folder, name, made):
    model, feed, found = made
    kind = "loose" if is_loose(model, feed, found[0]) else "tight"
    fed = onnx.ModelProto()
    fed.CopyFrom(model)
    initial = {t.name for t in model.graph.initializer}
    inputs = [v for v in fed.graph.input if v.name not in initial]
    del fed.graph.input[:]
    fed.graph.input.extend(inputs)
    for where, results in zip((kind, "other"), found):
        judge.write_case(folder / where / name, fed, feed, results)
        (folder / where / name / "model.onnx").write_bytes(model.SerializeToString())


def make_all(name, since, last, each, seed, folder):
    """(cases made, of the others how many for which reason)."""
    made, why = 0, collections.Counter()
    while made < each and made + why.total() < 6 * each:
        tried = made + why.total()
        case = make_operator(name, since, last, tried, seed)
        if isinstance(case, str):
            why[case] += 1
        else:
            keep(folder, f"{name}_{since}_{tried}", case)
            made += 1
    return made, why


# Operators of ai.onnx without a family, and why that is so.
ELSEWHERE = {
    **dict.fromkeys(["If", "Loop", "Scan"], "in the random graphs"),
    **dict.fromkeys(["Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"],
                    "draws: official cases, by property"),
    **dict.fromkeys(["Constant", "SequenceEmpty"], "has no operands: in the random graphs, official cases"),
    "ImageDecoder": "pictures: image_cases.py",
    "TfIdfVectorizer": "official cases and ml_cases.py",
}


def coverage(made, each):
    """The table of what has fewer cases than `each`; `made`: (operator, version) -> (cases, reasons)."""
    histories = collections.Counter((s.domain, s.name, s.since_version) for s in onnx.defs.get_all_schemas_with_history()
                                    if not s.deprecated)
    rows = [(domain or "ai.onnx", name, since, *made.get((name, since) if not domain else None, (0, {})))
            for domain, name, since in sorted(histories)]
    full = sum(row[3] >= each for row in rows)
    lines = ["# Random cases by operator and version", "",
             f"`tests/random/make.py` makes {each} cases of each of {full} of the {len(rows)} operators and versions that "
             f"onnx {onnx.__version__} has (without deprecated ones). Fewer:", "",
             "| domain | operator | version | cases | why |", "|---|---|---|---|---|"]
    for domain, name, since, count, why in rows:
        if count < each:
            said = ", ".join(f"{text} ({n})" for text, n in collections.Counter(why).most_common(2)) or (
                ELSEWHERE.get(name, "official cases") if domain == "ai.onnx" else "official cases and ml_cases.py")
            lines.append(f"| {domain} | {name} | {since} | {count} | {said} |")
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("dir", type=pathlib.Path)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--each", type=int, default=20)
    parser.add_argument("--only", action="append", default=[])
    parser.add_argument("--table", type=pathlib.Path, help="also writes what has fewer cases than --each, and why")
    parser.add_argument("-j", type=int, default=2)
    options = parser.parse_args()
    unknown = [name for name in options.only if name not in FAMILY]
    if unknown:
        sys.exit(f"make.py: there is no family of {' '.join(unknown)}")
    rows = [(name, since, last) for name in sorted(FAMILY) if name in options.only or not options.only
            for since, last in versions(name)]
    made = {}
    with concurrent.futures.ProcessPoolExecutor(options.j) as pool:
        jobs = [pool.submit(make_all, *row, options.each, options.seed, options.dir) for row in rows]
        for (name, since, _), job in zip(rows, jobs):
            made[name, since] = job.result()
    short = [f"{name}@{since}: {count}" for (name, since), (count, _) in made.items() if count < options.each]
    print(f"{len(rows)} operators and versions; fewer than {options.each} cases: {'; '.join(short) or 'none'}")
    if options.table:
        options.table.write_text(coverage(made, options.each))
    sys.exit(0)


if __name__ == "__main__":
    main()
