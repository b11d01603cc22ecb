#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares compiled models with ONNX Runtime (and OpenVINO where installed): agreement and speed.

    tests/bench/compare.py                             # every model there is, at 1 and 2 threads
    tests/bench/compare.py resnet50 bert_base --threads 2 --min-time 4
    tests/bench/compare.py --check                     # agreement only: no timing
    tests/bench/compare.py --option math=fast --precision own
                                                       # an option of "weir compile" for all; OpenVINO in bf16 if it likes
    tests/bench/compare.py --results tests/results     # also writes compare-DATE.{json,md} there

Each model is compiled by build/weir and then measured in a process of its own: the engines take turns
in one run (a turn of each, again and again, the first call of a turn not counted), and each figure is
the median of its calls. The reference is ONNX Runtime without graph optimizations; floats must agree
within 1e-4 of the output's largest magnitude (1e-2 for f16 models, 9e-2 for quantized ones), others
exactly. Packages that are missing go into build/venv.
"""
import argparse
import hashlib
import json
import os
import pathlib
import subprocess
import sys

import picture
from engines import ROOT, OnnxRuntime, OpenVino, Weir, compile_model, difference, facts, geomean, take_turns, use_packages


# ---- one model, one number of threads, in a process of its own --------------------------------------------


def reference(work, folder):
    """Outputs of ONNX Runtime without graph optimizations, kept in `folder` by a hash of model and inputs."""
    import numpy as np
    key = hashlib.sha256(work.path.read_bytes())
    for name in sorted(work.feeds):
        key.update(work.feeds[name].tobytes())
    path = folder / f"{work.name}-{key.hexdigest()[:12]}.npz"
    if path.exists():
        with np.load(path) as kept:
            return {name.replace("\\", "/"): kept[name] for name in kept.files}
    engine = OnnxRuntime(work, 1, optimize=False)
    engine.run()
    outputs = {name: np.asarray(value) for name, value in engine.outputs().items()}
    folder.mkdir(parents=True, exist_ok=True)
    np.savez(path, **{name.replace("/", "\\"): value for name, value in outputs.items()})
    return outputs


def measure(args):
    """The process of one model: prints its result as JSON."""
    import bound
    import workloads
    work = workloads.workload(args.one, args.work)
    OpenVino.precision = args.precision
    result = {"outputs": {}, "wrong": []}
    want = reference(work, args.work / "reference")
    weir = Weir(work, args.library, args.threads_one)
    weir.run()
    got = weir.outputs()
    bits = hashlib.sha256()
    for name, value in got.items():
        gap, wrong = difference(value, want[name], max(work.tolerance, args.tolerance))
        bits.update(value.tobytes())
        result["outputs"][name] = gap
        if wrong:
            result["wrong"].append(f'output "{name}" {wrong}')
    result["bits"] = bits.hexdigest()
    result["create_ms"] = weir.create_ms
    result["worst"] = max((gap for gap in result["outputs"].values() if gap is not None), default=None)
    if not args.check:
        engines = [weir]
        for kind in (OnnxRuntime, OpenVino):
            if kind.name not in args.against:
                continue
            try:
                engines.append(kind(work, args.threads_one))
            except Exception as error:  # an engine that cannot run this model is left out, and said so
                result.setdefault("left_out", {})[kind.name] = str(error).strip().split("\n")[0][:200]
        peak = bound.machine_peak(args.threads_one)
        result["times"] = take_turns(engines, args.min_time)
        counted = bound.count(work.path, work.feeds)
        if not counted["unknown"]:
            result["bound_ms"] = bound.bound_ms(counted, peak)
        result.update(gflop=counted["flop"] / 1e9, touched_mb=counted["bytes"] / 1e6, peak=peak)
    print(json.dumps(result))


# ---- all models ----------------------------------------------------------------------------------------------


def measure_in_child(args, name, threads, library):
    command = [sys.executable, __file__, "--one", name, "--threads-one", str(threads), "--tolerance", str(args.tolerance), "--library", str(library),
               "--work", str(args.work), "--min-time", str(args.min_time), "--against", ",".join(args.against), "--precision", args.precision]
    try:
        done = subprocess.run(command + (["--check"] if args.check else []), capture_output=True, text=True,
                              timeout=args.timeout)
    except subprocess.TimeoutExpired:
        return {"wrong": [f"no result after {args.timeout} s"]}
    if done.returncode:
        reason = f"signal {-done.returncode}" if done.returncode < 0 else f"exit code {done.returncode}"
        return {"wrong": [f"run: {reason}: {done.stderr.strip()[-300:]}"]}
    return json.loads(done.stdout.strip().split("\n")[-1])


def compare_model(args, name):
    """Everything about one model: one row per number of threads."""
    import workloads
    work = workloads.workload(name, args.work)
    library = args.work / "so" / f"{name}.so"
    library.parent.mkdir(parents=True, exist_ok=True)
    library.unlink(missing_ok=True)
    head = compile_model(args, work.path, library)
    rows = []
    for threads in args.threads:
        row = {"model": name, "threads": threads, **head}
        row.update({"wrong": [head["failed"]]} if head["failed"] else measure_in_child(args, name, threads, library))
        if rows and row.get("bits") and rows[0].get("bits") and row["bits"] != rows[0]["bits"]:
            row["wrong"].append(f"bits differ between {rows[0]['threads']} and {threads} threads")
        rows.append(row)
        print(line(row), flush=True)
        for wrong in row["wrong"]:
            print("    " + " ".join(wrong.split()), flush=True)
        if head["failed"]:
            break
    if not args.keep:
        library.unlink(missing_ok=True)
    return rows


COLUMNS = ["model", "thr", "agreement", "weir ms", "ort ms", "weir/ort", "ov ms", "weir/ov", "bound ms", "share",
           "compile s", "MB", "so MB"]
WIDTHS = [22, 3, 9, 9, 9, 8, 9, 8, 9, 5, 9, 6, 7]


def cells(row):
    times = row.get("times", {})

    def ms(engine):
        return f"{times[engine]['median_ms']:.3f}" if engine in times else "-"

    def ratio(engine):
        both = "weir" in times and engine in times
        return f"{times['weir']['median_ms'] / times[engine]['median_ms']:.2f}" if both else "-"

    limit = row.get("bound_ms")
    share = f"{limit / times['weir']['median_ms']:.2f}" if limit and "weir" in times else "-"
    worst = row.get("worst")
    agreement = "FAIL" if row["wrong"] else "-" if worst is None else f"{worst:.1e}"
    return [row["model"], str(row["threads"]), agreement, ms("weir"), ms("onnxruntime"), ratio("onnxruntime"),
            ms("openvino"), ratio("openvino"), f"{limit:.3f}" if limit else "-", share, f"{row['compile_s']:.2f}", f"{row['compile_mb']:.0f}",
            f"{row['so_mb']:.1f}" if row["so_mb"] else "-"]


def line(row):
    return "  ".join(cell.ljust(w) if k == 0 else cell.rjust(w) for k, (cell, w) in enumerate(zip(cells(row), WIDTHS)))


def summary(rows):
    """For each number of threads: geometric mean and worst of Weir's time by each rival's, and the better's."""
    for threads in sorted({row["threads"] for row in rows}):
        timed = [row["times"] for row in rows if row["threads"] == threads and "weir" in row.get("times", {})]
        for title, rivals in ("onnxruntime", ["onnxruntime"]), ("openvino", ["openvino"]), (
                "the better of both", ["onnxruntime", "openvino"]):
            ratios = [t["weir"]["median_ms"] / min(t[r]["median_ms"] for r in rivals) for t in timed
                      if all(r in t for r in rivals)]
            if ratios:
                yield (f"{threads} threads, weir by {title}: geomean {geomean(ratios):.3f}, worst {max(ratios):.2f}, "
                       f"{len(ratios)} models")


def write_results(args, rows):
    about = facts()
    args.results.mkdir(parents=True, exist_ok=True)
    base = args.results / "-".join(["compare", about["date"], *(option.split("=")[-1] for option in args.option)])
    comparison = {**about, "options": args.option, "precision": args.precision, "rows": rows}
    base.with_suffix(".json").write_text(json.dumps(comparison, indent=1) + "\n")
    base.with_suffix(".svg").write_text(picture.svg(comparison))
    text = [f"# Comparison of {about['date']}", "", f"Commit {about['commit']}; {about['machine']}; " +
            ", ".join(f"{k} {v}" for k, v in about["versions"].items()) + ". Medians of one run in which the "
            "engines take turns; agreement is the largest difference from ONNX Runtime without graph "
            "optimizations, relative to the output's largest magnitude (of whole numbers the share that stands elsewhere); bound is the least time by FLOP and bytes on the "
            "peaks measured in the same run (bound.py), share how much of it is reached; MB is the compiler's peak "
            "memory." + (f" Options: {' '.join(args.option)}." if args.option else "") +
            (" OpenVINO in the precision that it chooses." if args.precision == "own" else ""), "",
            "| " + " | ".join(COLUMNS) + " |", "|" + "---|" * len(COLUMNS)]
    text += ["| " + " | ".join(cells(row)) + " |" for row in rows]
    text += [""] + [f"- {said}" for said in summary(rows)]
    wrong = [f"- {row['model']}, {row['threads']} threads: {' '.join(w.split())[:300]}" for row in rows
             for w in row["wrong"]]
    if wrong:
        text += ["", "What is wrong:", ""] + wrong
    base.with_suffix(".md").write_text("\n".join(text) + "\n")
    print(f"wrote {base}.json, {base}.md and {base}.svg")


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("models", nargs="*", help="names (default: all); --list shows them")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--threads", default="1,2", type=lambda text: [int(n) for n in text.split(",")])
    parser.add_argument("--check", action="store_true", help="agreement only")
    parser.add_argument("--against", default="onnxruntime,openvino", type=lambda text: text.split(","))
    parser.add_argument("--precision", default="f32", choices=["f32", "own"], help="of OpenVINO")
    parser.add_argument("--min-time", type=float, default=3.0, help="seconds of timed calls, all engines together")
    parser.add_argument("--timeout", type=float, default=600, help="seconds for one model at one number of threads")
    parser.add_argument("--tolerance", type=float, default=0, metavar="X",
                        help="of floats, relative to the largest magnitude, at least (for --option convert=f16, math=fast)")
    parser.add_argument("--option", action="append", default=[], metavar="NAME=VALUE", help='of "weir compile"')
    parser.add_argument("--weir", type=pathlib.Path, default=ROOT / "build/weir")
    parser.add_argument("--work", type=pathlib.Path, default=os.environ.get("WEIR_ZOO_WORK", ROOT / "build/zoo"),
                        help="folder for weights, references and libraries (several GB)")
    parser.add_argument("--keep", action="store_true", help="keep the compiled libraries in WORK/so")
    parser.add_argument("--results", type=pathlib.Path, help="folder for the dated table")
    for hidden in ("--one", "--library"):
        parser.add_argument(hidden, help=argparse.SUPPRESS)
    parser.add_argument("--threads-one", type=int, help=argparse.SUPPRESS)
    args = parser.parse_args()
    args.work = pathlib.Path(args.work).resolve()
    return args


def main():
    args = arguments()
    use_packages()
    import workloads
    if args.one:
        return measure(args)
    if args.list:
        return print("\n".join(workloads.names()))
    names = args.models or workloads.names()
    if not names:
        sys.exit("error: no models: set WEIR_ZOO and WEIR_MODELS to their folders")
    print(line_of_titles(), flush=True)
    rows = [row for name in names for row in compare_model(args, name)]
    for text in summary(rows):
        print(text)
    if args.results:
        write_results(args, rows)
    failed = sum(1 for row in rows if row["wrong"])
    print(f"{len(rows) - failed} passed, {failed} failed, 0 skipped")
    sys.exit(1 if failed else 0)


def line_of_titles():
    return "  ".join(t.ljust(w) if k == 0 else t.rjust(w) for k, (t, w) in enumerate(zip(COLUMNS, WIDTHS)))


if __name__ == "__main__":
    main()
