#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes random valid models in the form of ONNX's backend tests.

    tests/random/make.py DIR [--seed N] [--each 20] [--only OPERATOR]... [--table FILE] [-j N]

Needs onnx and onnxruntime from PyPI (tests/random/judge.py says who judges). DIR/tight and DIR/loose hold the
cases: one per operator, version and number, and one per type that an operand may have; case k of seed N is the same everywhere. A judge's
other opinion lies in DIR/other. `run.py` runs them.
"""
import argparse
import collections
import concurrent.futures
import dataclasses
import pathlib
import sys
import zlib

import numpy as np
import onnx
from onnx import TensorProto, helper

import control  # noqa: F401  these fill in families
import judge
import layers  # noqa: F401
import learned  # noqa: F401
import retype
import standin
from operators import FAMILY, Draw, Net
from values import tensor, type_of

LOOSE = {TensorProto.FLOAT16, TensorProto.BFLOAT16, *range(TensorProto.FLOAT8E4M3FN, TensorProto.FLOAT8E5M2FNUZ + 1)}


DOMAINS = {}  # operator -> its domains
for s in onnx.defs.get_all_schemas_with_history():
    DOMAINS.setdefault(s.name, []).append(s.domain)
STATIC = {"DFT", "STFT", "GatherND", "Squeeze", "If"}  # extents of these decide a rank, or what is meant
BOUND = {"Imputer", "OneHotEncoder", "LabelEncoder", "TfIdfVectorizer", "CategoryMapper"}  # attributes are of the operand's type
TRIES = 6  # draws for one type
JUDGED = 25  # the newest opset that onnxruntime takes


def domain_of(name):
    return DOMAINS[name][-1]


def versions(name):
    """[(since, last)] of the operator, without deprecated ones."""
    domain = domain_of(name)
    all_ = sorted((s.since_version, s.deprecated) for s in onnx.defs.get_all_schemas_with_history()
                  if s.name == name and s.domain == domain)
    newest = onnx.defs.onnx_opset_version() if not domain else all_[-1][0]
    ends = [v for v, _ in all_[1:]] + [newest + 1]
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
        how = "rank" if all(np.ndim(a) == np.ndim(b) for a, b in zip(*found) if isinstance(a, np.ndarray)) else "type"
    inferred = onnx.shape_inference.infer_shapes(model).graph.output if any(r == [] for r in found[0] if isinstance(r, list)) else ()
    for i, (value, result) in enumerate(zip(model.graph.output, found[0])):
        value.type.CopyFrom(inferred[i].type if isinstance(result, list) and not result else type_of(result))
        if value.type.WhichOneof("value") != "tensor_type":
            continue
        if how == "type":
            value.type.tensor_type.ClearField("shape")
        elif how == "rank":
            for dim in value.type.tensor_type.shape.dim:
                dim.Clear()
    return model


def net_of(d, name, opset, node):
    """The one node as a graph; the operands marked `fixed` mostly as initializers."""
    names = ["" if x is None else f"x{i}" for i, x in enumerate(node.operands)]
    while names and not names[-1]:
        names.pop()
    fixed = {i for i in node.fixed if d.chance(0.7) or (name == "Tile" and opset < 6)}
    given = [(i, x) for i, x in enumerate(node.operands[:len(names)]) if x is not None]
    free = {f"x{i}": x for i, x in given if i not in fixed or not isinstance(x, np.ndarray)}
    outs = [f"y{i}" for i in range(node.results)]
    made = helper.make_node(name, names, outs, name=name, domain=domain_of(name), **node.attributes)
    return Net([made], free, outs, {f"x{i}": x for i, x in given if f"x{i}" not in free}, static={f"x{i}" for i in node.fixed})


def model_of(name, opset, since, net):
    ins = [helper.make_value_info(k, type_of(x)) for k, x in net.feed.items()]
    if opset < 9:
        ins += [helper.make_value_info(k, type_of(x)) for k, x in net.constants.items()]
    graph = helper.make_graph(net.nodes, name, ins, [helper.make_value_info(o, onnx.TypeProto()) for o in net.outputs],
                              [tensor(x, k) for k, x in net.constants.items()])
    sets = [helper.make_opsetid("", opset)] + ([helper.make_opsetid(domain_of(name), since)] if domain_of(name) else [])
    return helper.make_model(graph, opset_imports=sets, ir_version=ir_version(opset))


def opset_of(d, name, since, last):
    if domain_of(name):
        return 26 if name == "FlexAttention" else d.one(13, 18, 21)
    return since if d.chance(0.5) or since > JUDGED else min(last, JUDGED)


def drawn(d, name, since, opset, kind):
    """What the family draws; `kind`: the type parameter and type that operands are to have, or None."""
    made = FAMILY[name](d, name, since)
    if isinstance(made, Net):
        return None if kind else made
    if kind and name in BOUND:
        return None
    if kind:
        operands = retype.retyped(made, onnx.defs.get_schema(name, since, domain_of(name)), *kind)
        if operands is None:
            return None
        made = dataclasses.replace(made, operands=operands)
    return net_of(d, name, opset, made)


def make_operator(name, since, last, number, seed, kind=None):
    """(model, feed, opinions), or why there is no case."""
    d = Draw(zlib.crc32(f"{seed} {name} {since} {number}{f' {kind}' if kind else ''}".encode()))
    opset = opset_of(d, name, since, last)
    try:
        net = drawn(d, name, since, opset, kind)
        model = net and model_of(name, opset, since, net)
    except (ArithmeticError, LookupError, TypeError, ValueError, onnx.checker.ValidationError):
        return "operands that do not fit"
    if net is None:
        return "no operand of that type"
    found = [net.want] if net.want else judge.opinions(model, net.feed)
    if not found:
        return "nobody judges it"
    try:
        declare(d, model, found)
    except Exception:  # noqa: BLE001  inference raises many kinds
        return "results without a type"
    if d.chance(0.3) and name not in STATIC:
        for value in model.graph.input:
            if value.name in net.feed and value.name not in net.static and value.type.WhichOneof("value") == "tensor_type":
                loosen(d, value)
    return (model, net.feed, found) if judge.valid(model) else "the checker refuses it"


def is_loose(model, feed, results):
    types = {standin.element_type(v.type) for v in [*model.graph.input, *model.graph.output]}
    return bool((types | {t.data_type for t in model.graph.initializer}) & LOOSE)


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
    """Cases made, of the others how many for which reason; types without a case and why, by "parameter type"."""
    made, why, missing = 0, collections.Counter(), {}
    while made < each and made + why.total() < 9 * each:
        tried = made + why.total()
        case = make_operator(name, since, last, tried, seed)
        if isinstance(case, str):
            why[case] += 1
        else:
            keep(folder, f"{name}_{since}_{tried}", case)
            made += 1
    for kind in retype.allowed(onnx.defs.get_schema(name, since, domain_of(name))):
        said = []
        while len(said) < TRIES:
            case = make_operator(name, since, last, len(said), seed, kind)
            if not isinstance(case, str):
                keep(folder, f"{name}_{since}_{'_'.join(kind)}", case)
                break
            said.append(case)
        else:
            missing[" ".join(kind)] = collections.Counter(said).most_common(1)[0][0]
    return made, why, missing


def coverage(made, each):
    """The table of what has fewer cases than `each`, and of types without one; `made`: (operator, version) -> what make_all gives."""
    rows = sorted((s.domain or "ai.onnx", s.name, s.since_version) for s in onnx.defs.get_all_schemas_with_history() if not s.deprecated)
    found = {row: made.get(row[1:], (0, {}, {})) for row in rows}
    full = sum(count >= each for count, _, _ in found.values())
    types = {row: missing for row, (_, _, missing) in found.items() if missing}
    lines = ["# Random cases by operator and version", "",
             f"`tests/random/make.py` makes {each} cases of each of {full} of the {len(rows)} operators and versions that "
             f"onnx {onnx.__version__} has (without deprecated ones), and one more of each type that an operand may have. Fewer:", "",
             "| domain | operator | version | cases | why |", "|---|---|---|---|---|"]
    for row, (count, why, _) in found.items():
        if count < each:
            said = ", ".join(f"{text} ({n})" for text, n in collections.Counter(why).most_common(2)) or "there is no family"
            lines.append(f"| {' | '.join(map(str, row))} | {count} | {said} |")
    lines += ["", "Types without a case of their own (families that draw a graph around the operator choose types themselves):", "",
              "| operator | version | types |", "|---|---|---|"]
    for (_, name, since), missing in types.items():
        if any(why != "no operand of that type" for why in missing.values()):
            by_reason = {}
            for kind, why in missing.items():
                by_reason.setdefault(why, []).append(kind)
            lines.append(f"| {name} | {since} | " + "; ".join(f"{', '.join(kinds)}: {why}" for why, kinds in by_reason.items()
                                                            if why != "no operand of that type") + " |")
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
    short = [f"{name}@{since}: {count}" for (name, since), (count, _, _) in made.items() if count < options.each]
    print(f"{len(rows)} operators and versions; fewer than {options.each} cases: {'; '.join(short) or 'none'}")
    if options.table:
        options.table.write_text(coverage(made, options.each))
    sys.exit(0)


if __name__ == "__main__":
    main()
