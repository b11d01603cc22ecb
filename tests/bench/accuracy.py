#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How far compiled models and ONNX Runtime are from the same model computed in double precision.

    tests/bench/accuracy.py                            # every f32 model there is
    tests/bench/accuracy.py resnet50 unet --option skip=algorithm
    tests/bench/accuracy.py --results tests/results    # also writes accuracy-DATE.md there

The error of an output is |y - r|2 / |r|2, r the output of onnx.reference with all floats of the model as
doubles (some operators by the functions below, which are faster or more exact than its own); a model's
error is that of its worst output. Outputs that are not floats, or whose order depends on nearly equal
scores, are left out. ONNX Runtime runs with all its optimizations. References are kept in WORK/reference.
"""
import argparse
import datetime
import hashlib
import json
import math
import os
import pathlib
import subprocess
import sys

import compare
import engines

ROOT = pathlib.Path(__file__).resolve().parents[2]
LEFT_OUT = "int8", "fp16"  # models that round on purpose


# ---- the reference -------------------------------------------------------------------------------------------


def as_doubles(model):
    """The model with every f32 weight, constant, attribute and type turned into f64."""
    import onnx
    from onnx import TensorProto, numpy_helper

    def widen(tensor):
        if tensor.data_type == TensorProto.FLOAT:
            wide = numpy_helper.from_array(numpy_helper.to_array(tensor).astype("float64"), tensor.name)
            tensor.CopyFrom(wide)

    def walk(graph):
        for tensor in graph.initializer:
            widen(tensor)
        for value in [*graph.input, *graph.output, *graph.value_info]:
            if value.type.tensor_type.elem_type == TensorProto.FLOAT:
                value.type.tensor_type.elem_type = TensorProto.DOUBLE
        for node in graph.node:
            for attribute in node.attribute:
                if attribute.type == onnx.AttributeProto.GRAPH:
                    walk(attribute.g)
                elif attribute.type == onnx.AttributeProto.TENSOR:
                    widen(attribute.t)
                elif attribute.name in ("to", "dtype") and attribute.i == TensorProto.FLOAT:
                    attribute.i = TensorProto.DOUBLE

    walk(model.graph)
    return model


def windows(x, kernel, strides, dilations):
    """x [N, C, D...] -> [N, C, out..., kernel...], a view."""
    import numpy as np
    n = len(kernel)
    span = [(k - 1) * d + 1 for k, d in zip(kernel, dilations)]
    view = np.lib.stride_tricks.sliding_window_view(x, span, axis=tuple(range(2, 2 + n)))
    return view[(..., *(slice(None, None, s) for s in strides), *(slice(None, None, d) for d in dilations))]


def margins(shape, kernel, strides, dilations, pads, auto_pad):
    """Elements to add in front of and behind each dim."""
    n = len(kernel)
    if auto_pad in (None, "NOTSET", "VALID"):
        pads = pads or [0] * (2 * n)
        return list(zip(pads[:n], pads[n:]))
    total = [max((-(-size // s) - 1) * s + (k - 1) * d + 1 - size, 0)
             for size, k, s, d in zip(shape, kernel, strides, dilations)]
    return [(t // 2, t - t // 2) if auto_pad == "SAME_UPPER" else (t - t // 2, t // 2) for t in total]


def fast_operators():
    import numpy as np
    from onnx.reference.op_run import OpRun

    class Conv(OpRun):
        def _run(self, x, w, b=None, auto_pad=None, dilations=None, group=None, kernel_shape=None, pads=None,
                 strides=None):
            kernel, group, n = w.shape[2:], group or 1, w.ndim - 2
            strides, dilations = strides or [1] * n, dilations or [1] * n
            around = margins(x.shape[2:], kernel, strides, dilations, pads, auto_pad)
            view = windows(np.pad(x, [(0, 0), (0, 0), *around]), kernel, strides, dilations)
            out = view.shape[2:2 + n]
            y = np.empty((x.shape[0], w.shape[0], *out))
            inputs, outputs = w.shape[1], w.shape[0] // group
            for k in range(group):
                part = view[:, k * inputs:(k + 1) * inputs]
                weight = w[k * outputs:(k + 1) * outputs]
                axes = [1, *range(2 + n, 2 + 2 * n)], range(1, 2 + n)
                y[:, k * outputs:(k + 1) * outputs] = np.moveaxis(np.tensordot(part, weight, axes), -1, 1)
            return (y if b is None else y + b.reshape(-1, *[1] * n),)

    class MaxPool(OpRun):
        def _run(self, x, auto_pad=None, ceil_mode=None, dilations=None, kernel_shape=None, pads=None,
                 storage_order=None, strides=None):
            n = len(kernel_shape)
            strides, dilations = strides or [1] * n, dilations or [1] * n
            around = margins(x.shape[2:], kernel_shape, strides, dilations, pads, auto_pad)
            if ceil_mode:
                around = [(low, high + s - 1) for (low, high), s in zip(around, strides)]
            wide = np.pad(x, [(0, 0), (0, 0), *around], constant_values=-np.inf)
            return (windows(wide, kernel_shape, strides, dilations).max(axis=tuple(range(-n, 0))),)

    class BatchNormalization(OpRun):
        def _run(self, x, scale, b, mean, var, epsilon=None, momentum=None, spatial=None, training_mode=None):
            channels = [-1, *[1] * (x.ndim - 2)]
            factor = scale / np.sqrt(var + epsilon)
            return (x * factor.reshape(channels) + (b - mean * factor).reshape(channels),)

    class GlobalMaxPool(OpRun):
        def _run(self, x):
            return (x.max(axis=tuple(range(2, x.ndim)), keepdims=True),)

    return [Conv, MaxPool, BatchNormalization, GlobalMaxPool]


def evaluate(work):
    """Outputs of the model in double precision, by name."""
    import numpy as np
    import onnx
    import workloads
    from onnx.reference import ReferenceEvaluator
    text = workloads.modern(work.path)
    model = as_doubles(onnx.load_from_string(text) if text else onnx.load(str(work.path)))
    engine = ReferenceEvaluator(model, new_ops=fast_operators())
    feeds = {name: a.astype(np.float64) if a.dtype == np.float32 else a for name, a in work.feeds.items()}
    return dict(zip(engine.output_names, engine.run(None, feeds)))


def reference(work, folder):
    import numpy as np
    key = hashlib.sha256(work.path.read_bytes())
    for name in sorted(work.feeds):
        key.update(work.feeds[name].tobytes())
    path = folder / f"{work.name}-{key.hexdigest()[:12]}-f64.npz"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        np.savez(path, **{name.replace("/", "\\"): a for name, a in evaluate(work).items()})
    with np.load(path) as kept:
        return {name.replace("\\", "/"): kept[name] for name in kept.files}


# ---- one model, in a process of its own ------------------------------------------------------------------------


def error(got, want):
    """Relative L2 error, or None where outputs cannot be compared element by element."""
    import numpy as np
    if got.dtype.kind != "f" or got.shape != want.shape:
        return None
    finite = np.isfinite(want)
    length = np.linalg.norm(want[finite])
    return float(np.linalg.norm(got[finite].astype(np.float64) - want[finite]) / length) if length else None


def measure(args):
    import workloads
    work = workloads.workload(args.one, args.work)
    want, errors = reference(work, args.work / "reference"), {}
    for engine in (compare.Weir(work, args.library, 2), compare.OnnxRuntime(work, 2)):
        engine.run()
        each = [error(value, want[name]) for name, value in engine.outputs().items()]
        errors[engine.name] = max((e for e in each if e is not None), default=None)
    print(json.dumps(errors))


# ---- all models --------------------------------------------------------------------------------------------------


def row_of(args, name):
    import workloads
    work = workloads.workload(name, args.work)
    library = args.work / "so" / f"{name}-accuracy.so"
    library.parent.mkdir(parents=True, exist_ok=True)
    head = compare.compile_model(args, work.path, library)
    if head["failed"]:
        return {"model": name, "wrong": head["failed"]}
    command = [sys.executable, __file__, "--one", name, "--library", str(library), "--work", str(args.work)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=args.timeout)
    library.unlink()
    if done.returncode:
        return {"model": name, "wrong": done.stderr.strip()[-300:]}
    return {"model": name, **json.loads(done.stdout.strip().split("\n")[-1])}


def cells(row):
    if row.get("wrong"):
        return [row["model"], "-", "-", "-"]
    weir, ort = row["weir"], row["onnxruntime"]
    if weir is None or ort is None:
        return [row["model"], "-", "-", "-"]
    return [row["model"], f"{weir:.2e}", f"{ort:.2e}", f"{weir / ort:.2f}" if ort else "-"]


def write_results(args, rows, said):
    stamp = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d")
    text = [f"# Accuracy of {stamp}", "",
            f"Relative L2 error against the model in double precision (`tests/bench/accuracy.py`), worst output; "
            f"{engines.machine()}; " + ", ".join(f"{k} {v}" for k, v in engines.versions().items()) +
            (f"; options {' '.join(args.option)}" if args.option else "") + ".", "",
            "| model | Weir | ONNX Runtime | ratio |", "|---|---|---|---|"]
    text += ["| " + " | ".join(cells(row)) + " |" for row in rows] + ["", f"- {said}"]
    args.results.mkdir(parents=True, exist_ok=True)
    (args.results / f"accuracy-{stamp}.md").write_text("\n".join(text) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("models", nargs="*", help="names (default: all f32 models)")
    parser.add_argument("--option", action="append", default=[], metavar="NAME=VALUE", help='of "weir compile"')
    parser.add_argument("--weir", type=pathlib.Path, default=ROOT / "build/weir")
    parser.add_argument("--work", type=pathlib.Path, default=os.environ.get("WEIR_ZOO_WORK", ROOT / "build/zoo"))
    parser.add_argument("--timeout", type=float, default=1800, help="seconds for one model")
    parser.add_argument("--results", type=pathlib.Path, help="folder for the dated table")
    for hidden in ("--one", "--library"):
        parser.add_argument(hidden, help=argparse.SUPPRESS)
    args = parser.parse_args()
    args.work = pathlib.Path(args.work).resolve()
    compare.use_packages()
    import workloads
    if args.one:
        return measure(args)
    names = args.models or [n for n in workloads.names() if not any(kind in n for kind in LEFT_OUT)]
    rows = []
    for name in names:
        rows.append(row_of(args, name))
        print("  ".join(cell.rjust(9) if k else cell.ljust(22) for k, cell in enumerate(cells(rows[-1]))),
              rows[-1].get("wrong", ""), flush=True)
    ratios = [row["weir"] / row["onnxruntime"] for row in rows if row.get("weir") and row.get("onnxruntime")]
    if not ratios:
        return None
    said = (f"ratio of errors: geomean {math.exp(sum(map(math.log, ratios)) / len(ratios)):.2f}, worst "
            f"{max(ratios):.2f}, {len(ratios)} models")
    print(said)
    if args.results:
        write_results(args, rows, said)
    return None


if __name__ == "__main__":
    sys.exit(main())
