#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Cuts every kernel out of models, at a small size, and keeps those of different structure.

    tests/kernels.py ZOO_FOLDER MODELS_FOLDER           # rewrites tests/kernels/*.ir
    tests/kernels.py --small 32 -o build/k FOLDER ...   # elsewhere, of another size

Folders hold .onnx files (of the zoo: as materialize.py makes them). Kernels are what `fuse` groups before
layouts; two of them are one when their texts differ in constants alone. tests/run_stages takes the texts
through all passes; they are random in their data and carry no weights.
"""
import argparse
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
CONSTANT = re.compile(r"(?<!\w)-?0x1\.[0-9a-f]+p[+-]?\d+")


def kernels(weir, model, small):
    run = subprocess.run([weir, "extract", model, "--all", "--shrink", "--small", str(small), "--plain",
                          "--skip", "layout"], capture_output=True, text=True)
    if run.returncode:
        sys.exit(f"error: {model}: {run.stderr[-500:]}")
    return re.split(r"(?m)^(?=flow )", run.stdout)[1:]


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("folders", nargs="+", type=pathlib.Path)
    p.add_argument("--weir", default=ROOT / "build/weir", type=pathlib.Path)
    p.add_argument("--small", default=16, type=int, help="sizes above N+16 become N to N+15 (16)")
    p.add_argument("-o", "--output", default=ROOT / "tests/kernels", type=pathlib.Path)
    args = p.parse_args()
    models = sorted(path for folder in args.folders for path in folder.glob("*.onnx"))
    args.output.mkdir(parents=True, exist_ok=True)
    for old in args.output.glob("*.ir"):
        old.unlink()
    seen, found = set(), 0
    for model in models:
        kept = []
        for text in kernels(args.weir, model, args.small):
            key, found = CONSTANT.sub("F", text), found + 1
            if key not in seen:
                seen.add(key)
                kept.append(text.strip().replace("flow kernel_0 ", f"flow kernel_{len(kept)} ", 1))
        if kept:
            head = f"# Kernels of {model.stem}, made small by tests/kernels.py.\n"
            (args.output / f"{model.stem}.ir").write_text(head + "\n\n".join(kept) + "\n")
    print(f"{len(models)} models, {found} kernels, {len(seen)} of different structure")


if __name__ == "__main__":
    main()
