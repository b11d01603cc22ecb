#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Models whose sizes inputs, data and loops decide, run thousands of times with random ones.

    tests/host/sizes.py WEIR SIZES [--runs 10000] [MODEL[:LIMIT]...]

Compiles the models below, and others by path, and gives them to SIZES (sizes.c), which compares with fresh
instances and looks at memory. The last line is "N passed, N failed, N skipped".
"""
import argparse
import pathlib
import random
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/bad"))
from wire import (BOOL, FLOAT, INT64, field, graph, model, node, tensor, value_info)  # noqa: E402

STRING = 8


def weight(name, *dims):
    draw = random.Random(name)
    count = 1
    for size in dims:
        count *= size
    return tensor(name, dims, [draw.uniform(-0.5, 0.5) for _ in range(count)])


def integers(name, *values):
    return tensor(name, [len(values)], values, INT64)


def scalar(name, value):
    return tensor(name, [], [value], INT64)


def sequence_info(name, dtype=FLOAT):
    return field(1, name) + field(2, field(4, field(1, field(1, field(1, dtype)))))


def encoder():
    """A layer of an encoder: tokens of N sentences of S words, some of them masked."""
    heads = [node("MatMul", ["h", f"w{x}"], [f"{x}0"]) for x in "qkv"]
    heads += [node("Reshape", [f"{x}0", "heads"], [f"{x}1"]) for x in "qkv"]
    heads += [node("Transpose", [f"{x}1"], [x], perm=[0, 2, 3, 1] if x == "k" else [0, 2, 1, 3]) for x in "qkv"]
    nodes = [node("Gather", ["table", "ids"], ["x"]), node("LayerNormalization", ["x", "scale"], ["h"]), *heads,
             node("MatMul", ["q", "k"], ["scores"]), node("Unsqueeze", ["mask", "inner"], ["seen"]),
             node("Where", ["seen", "scores", "least"], ["masked"]), node("Softmax", ["masked"], ["p"]),
             node("MatMul", ["p", "v"], ["c0"]), node("Transpose", ["c0"], ["c1"], perm=[0, 2, 1, 3]),
             node("Reshape", ["c1", "flat"], ["c2"]), node("MatMul", ["c2", "wo"], ["c3"]),
             node("Add", ["x", "c3"], ["y"]), node("LayerNormalization", ["y", "scale"], ["z0"]),
             node("MatMul", ["z0", "w1"], ["z1"]), node("Gelu", ["z1"], ["z2"]),
             node("MatMul", ["z2", "w2"], ["z3"]), node("Add", ["y", "z3"], ["z"])]
    weights = [weight("table", 30, 16), weight("scale", 16), weight("w1", 16, 64), weight("w2", 64, 16),
               *(weight(f"w{x}", 16, 16) for x in "qkvo"), integers("heads", 0, 0, 2, 8), integers("flat", 0, 0, 16),
               integers("inner", 1, 2), tensor("least", [], [-1e9])]
    return model(graph(nodes, [value_info("ids", ["N", "S"], INT64), value_info("mask", ["N", "S"], BOOL)],
                       [value_info("z", ["N", "S", 16])], weights), version=20)


def chosen():
    """Sizes that data give: which elements are positive, how many, a shape made of that, distinct values, a range."""
    nodes = [node("Greater", ["x", "zero"], ["positive"]), node("NonZero", ["positive"], ["at"]),
             node("Transpose", ["at"], ["places"]), node("GatherND", ["x", "places"], ["values"]),
             node("Shape", ["values"], ["count"]), node("Concat", ["count", "one"], ["column"], axis=0),
             node("Reshape", ["values", "column"], ["tall"]), node("Mul", ["tall", "row"], ["wide"]),
             node("Ceil", ["values"], ["steps"]), node("Unique", ["steps"], ["distinct", "", "", "often"]),
             node("Squeeze", ["count"], ["n"]), node("Range", ["begin", "n", "by"], ["numbers"])]
    weights = [tensor("zero", [], [0.0]), integers("one", 1), weight("row", 1, 5), scalar("begin", 0), scalar("by", 2)]
    outs = [value_info(name, dims, dtype) for name, dims, dtype in (
        ("wide", ["K", 5], FLOAT), ("distinct", ["D"], FLOAT), ("often", ["D"], INT64), ("numbers", ["R"], INT64))]
    return model(graph(nodes, [value_info("x", ["N", "M"])], outs, weights))


def growing():
    """A loop that carries a matrix with a row more each time, as the one item of a sequence, and stops at a zero."""
    body = graph([node("SequenceAt", ["kept", "zero"], ["rows"]), node("Concat", ["rows", "row"], ["longer"], axis=0),
                  node("Gather", ["go", "t"], ["flag"]), node("Cast", ["flag"], ["more"], to=BOOL),
                  node("ReduceSum", ["longer"], ["sum"], keepdims=0), node("SequenceConstruct", ["longer"], ["next"])],
                 [value_info("t", [], INT64), value_info("cond", [], BOOL), sequence_info("kept")],
                 [value_info("more", [], BOOL), sequence_info("next"), value_info("sum", [])])
    nodes = [node("Shape", ["go"], ["size"]), node("Squeeze", ["size"], ["trips"]),
             node("SequenceConstruct", ["row"], ["first"]),
             node("Loop", ["trips", "", "first"], ["kept", "sums"], body=body), node("SequenceAt", ["kept", "zero"], ["last"])]
    return model(graph(nodes, [value_info("go", ["T"], INT64), value_info("row", [1, "M"])],
                       [value_info("last", ["L", "M"]), value_info("sums", ["K"])], [scalar("zero", 0)]))


def queue():
    """A sequence that a loop fills, joined at the end, and the parts of a tensor as a sequence."""
    body = graph([node("Gather", ["x", "t"], ["item"]), node("SequenceInsert", ["items", "item"], ["more"]),
                  node("Identity", ["cond"], ["go"])],
                 [value_info("t", [], INT64), value_info("cond", [], BOOL), sequence_info("items")],
                 [value_info("go", [], BOOL), sequence_info("more")])
    nodes = [node("SequenceEmpty", [], ["none"]), node("Shape", ["x"], ["size"], end=1),
             node("Squeeze", ["size"], ["trips"]), node("Loop", ["trips", "", "none"], ["items"], body=body),
             node("ConcatFromSequence", ["items"], ["joined"], axis=0),
             node("SplitToSequence", ["x", "two"], ["parts"], axis=1)]
    return model(graph(nodes, [value_info("x", ["N", "M"])], [value_info("joined", ["J"]), sequence_info("parts")],
                       [scalar("two", 2)]))


def words():
    """Strings: joined, split at blanks, compared."""
    nodes = [node("StringConcat", ["a", "b"], ["both"]), node("StringSplit", ["both"], ["split", "pieces"], delimiter=" "),
             node("Equal", ["a", "b"], ["same"])]
    return model(graph(nodes, [value_info("a", ["N", "M"], STRING), value_info("b", ["M"], STRING)],
                       [value_info("both", ["N", "M"], STRING), value_info("split", ["N", "M", "W"], STRING),
                        value_info("pieces", ["N", "M"], INT64), value_info("same", ["N", "M"], BOOL)]), version=20)


MODELS = {encoder: 24, chosen: 40, growing: 12, queue: 9, words: 9}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("weir")
    parser.add_argument("sizes")
    parser.add_argument("models", nargs="*")
    parser.add_argument("--runs", type=int, default=10000)
    args = parser.parse_intermixed_args()
    with tempfile.TemporaryDirectory() as folder:
        given = []
        for build, limit in MODELS.items():
            path = pathlib.Path(folder) / f"{build.__name__}.onnx"
            path.write_bytes(build())
            given.append((path, limit))
        given += [(pathlib.Path(name), int(limit or 8)) for name, _, limit in (text.partition(":") for text in args.models)]
        libraries = []
        for path, limit in given:
            library = pathlib.Path(folder) / f"{path.stem}.so"
            subprocess.run([args.weir, "compile", path, "-o", library], check=True)
            libraries.append(f"{library}:{limit}")
        sys.exit(subprocess.run([args.sizes, str(args.runs), *libraries], check=False).returncode)


if __name__ == "__main__":
    main()
