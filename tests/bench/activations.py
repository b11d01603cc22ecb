#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Bytes of activations that models move as planned, beside those with a kernel for each node (weir report).

    tests/bench/activations.py                          # the whole zoo
    tests/bench/activations.py unet --results tests/results   # also writes activations-DATE.md there

Weights are left out of both. With a kernel for each node, each input and output counts once and views are free;
planned is what the kernels move through the second cache. Symbolic dims are as the benchmark has them.
"""
import argparse
import json
import os
import pathlib
import subprocess

from engines import ROOT, facts, geomean, use_packages

CLASSES = ["contraction", "normalisation", "reduction", "element-wise", "movement"]


def report(args, name):
    import onnx
    import workloads
    model, sizes = workloads.workload(name, args.work), {}
    for port in onnx.load(model.path, load_external_data=False).graph.input:
        for dim, size in zip(port.type.tensor_type.shape.dim, model.feeds[port.name].shape):
            if dim.dim_param:
                sizes[dim.dim_param] = size
    given = [f"--size={symbol}={value}" for symbol, value in sizes.items()]
    done = subprocess.run([args.weir, "report", model.path, "--format=json", *args.option, *given], capture_output=True,
                          text=True, check=True)
    return json.loads(done.stdout)


def row_of(name, found):
    total = found["total"]
    unfused, planned = total["unfused_activation_bytes"], total["planned_activation_bytes"]
    shares = [sum(k["planned_activation_bytes"] for k in found["kernels"] if k["class"] == c) / 1e6 for c in CLASSES]
    return {"name": name, "unfused": unfused / 1e6, "planned": planned / 1e6, "ratio": planned / unfused, "shares": shares}


def table(rows):
    text = ["| model | node by node, MB | planned, MB | ratio | " + " | ".join(CLASSES) + " |", "|---" * (4 + len(CLASSES)) + "|"]
    for row in rows:
        text.append(f"| {row['name']} | {row['unfused']:.4g} | {row['planned']:.4g} | {row['ratio']:.2f} | "
                    + " | ".join(f"{share:.3g}" for share in row["shares"]) + " |")
    return text + [f"| geometric mean | | | {geomean([row['ratio'] for row in rows]):.2f} |" + " |" * len(CLASSES)]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("models", nargs="*", help="names (default: the zoo)")
    parser.add_argument("--option", action="append", default=[], metavar="--NAME=VALUE", help='of "weir report"')
    parser.add_argument("--weir", type=pathlib.Path, default=ROOT / "build/weir")
    parser.add_argument("--work", type=pathlib.Path, default=os.environ.get("WEIR_ZOO_WORK", ROOT / "build/zoo"))
    parser.add_argument("--results", type=pathlib.Path, help="folder for the dated table")
    args = parser.parse_args()
    use_packages()
    import workloads
    names = args.models or sorted(path.stem for path in workloads.ZOO.glob("*.json"))
    text = table([row_of(name, report(args, name)) for name in names])
    print("\n".join(text))
    if args.results:
        about = facts()
        head = [f"# Activations that move, {about['date']}", "", f"Commit {about['commit']}; planned for {about['machine']}; "
                "`tests/bench/activations.py`. The last columns say which kernels move what is planned, in MB.", ""]
        (args.results / f"activations-{about['date']}.md").write_text("\n".join(head + text) + "\n")


if __name__ == "__main__":
    main()
