#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes cases that want some of the outputs of others: each one alone, and all but one.

    tests/outputs.py FOLDER TO [--suite NAME] [--absent]

FOLDER holds cases in the form of ONNX's backend tests; those of models with several outputs are written to TO, with
fewer of them and the files that belong to these; what computes the others is still in the model. With --absent their
names are gone from the nodes too, but for the first of each node. Cases of the suite that do not pass themselves
(tests/results/conformance.md) are left out.
"""
import argparse
import pathlib
import shutil
import sys

from conformance import ROOT, read_record

sys.path.insert(0, str(pathlib.Path(__file__).parent / "bad"))
from wire import field, fields  # noqa: E402

GRAPH, NODE, OUTPUT = 7, 1, 12  # of ModelProto; of GraphProto
NODE_OUTPUT = 2


def parts(message):
    """(number, bytes with its key, bytes of the content) of each field."""
    return [(number, message[start:end], message[content:end]) for number, _, start, content, end in fields(message)]


def name_of(value_info):
    return next(content for number, _, content in parts(value_info) if number == 1)


def without_names(node, names):
    """A node whose outputs of these names are absent, but the first."""
    out, first = b"", True
    for number, whole, content in parts(node):
        gone = number == NODE_OUTPUT and not first and content in names
        first = first and number != NODE_OUTPUT
        out += field(NODE_OUTPUT, b"") if gone else whole
    return out


def with_outputs(model, keep, absent):
    """The model with the outputs of these positions alone."""
    whole = next(content for number, _, content in parts(model) if number == GRAPH)
    outputs = [content for number, _, content in parts(whole) if number == OUTPUT]
    dropped = {name_of(v) for k, v in enumerate(outputs) if k not in keep} if absent else set()
    graph, k = b"", 0
    for number, bytes_, content in parts(whole):
        if number == NODE:
            bytes_ = field(NODE, without_names(content, dropped))
        if number != OUTPUT or k in keep:
            graph += bytes_
        k += number == OUTPUT
    return b"".join(field(GRAPH, graph) if number == GRAPH else bytes_ for number, bytes_, _ in parts(model))


def count_outputs(model):
    graph = next((content for number, _, content in parts(model) if number == GRAPH), b"")
    return sum(number == OUTPUT for number, _, _ in parts(graph))


def write(case, to, keep, absent):
    to.mkdir(parents=True)
    (to / "model.onnx").write_bytes(with_outputs((case / "model.onnx").read_bytes(), keep, absent))
    for data in case.glob("test_data_set_*"):
        (to / data.name).mkdir()
        for file in data.glob("input_*.pb"):
            shutil.copy(file, to / data.name)
        for k, output in enumerate(keep):
            shutil.copy(data / f"output_{output}.pb", to / data.name / f"output_{k}.pb")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("to", type=pathlib.Path)
    parser.add_argument("--suite", default="")
    parser.add_argument("--absent", action="store_true")
    options = parser.parse_args()
    record = read_record((ROOT / "tests/results/conformance.md").read_text()).get(options.suite, {})
    for case in sorted(options.folder.iterdir()):
        if record.get(case.name, {}).get("result") == "fail":
            continue
        n = count_outputs((case / "model.onnx").read_bytes()) if (case / "model.onnx").exists() else 0
        kept = {(k,) for k in range(n)} | {tuple(j for j in range(n) if j != k) for k in range(n)} if n > 1 else ()
        for keep in sorted(kept):
            write(case, options.to / f"{case.name}_{'_'.join(map(str, keep))}", keep, options.absent)


if __name__ == "__main__":
    main()
