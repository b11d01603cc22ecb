#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares operators one by one with ONNX Runtime: agreement and speed of the cases in ops_cases.py.

    tests/bench/ops.py                              # all, on 2 threads
    tests/bench/ops.py --threads 1 --only 'pools|Resize'
    tests/bench/ops.py --cases ops_forms            # the same families in other forms
    tests/bench/ops.py --results tests/results      # also writes ops-DATE.json and .md there

A case is compiled by build/weir, then both engines take turns in a process of its own; figures are medians
in microseconds. Outputs must agree with ONNX Runtime's: floats within 1e-4 of the largest magnitude (f16: 1e-2),
codes that are rounded within 1, others exactly. Cases of one family are summed up by their geometric mean.
With --results, rows of the same day for other cases or numbers of threads are kept, so that parts can be run alone.
"""
import argparse
import concurrent.futures
import importlib
import json
import multiprocessing
import os
import pathlib
import re
import sys

import engines
from engines import ROOT, OnnxRuntime, Weir, compile_model, geomean, take_turns, use_packages

LIMIT = 1.5  # a case that is slower than so many times ONNX Runtime wants a reason
SLOT = 0.05  # seconds of an engine's turn: threads woken on one core need some of it to spread
REASONS = {  # case -> why it is slower than LIMIT says
    "MaxPool 3x3 stride 2": "nine taps a result, each sifted from two vectors; columns first would be six of whole vectors",
    "Sin": "within two ulp up to 2^128 by straight lines: without AVX-512 integers of 64 bits take several operations",
    "Cos": "as Sin",
    "Gelu tanh": "tanh within two ulp",
    "ArgMax last": "places have 64 bits: without AVX-512 two vectors beside one of values, each compared and selected",
    "EyeLike": "each element is compared and written; memory that is cleared as a whole is not read before",
    "MatMul f16": "the operand is the caller's: each of its halves is widened for each panel; between operators they are kept in f32",
    "Conv 1x1 7x7 2048 to 512": "an image that the caller has by channels is turned first; inside of a network it lies as products read it",
    "Col2Im": "each element asks which of nine windows meet it; columns of their own would need no question",
    "DW 5 s2": "each of 25 taps is sifted from two vectors; between operators lanes run along channels",
    "ConvTranspose 2x2 stride 2": "the result is the caller's: columns of two phases are woven in registers",
}


class Work:
    """A case as the engines want it: its model in a file, its inputs."""

    def __init__(self, made, folder):
        import onnx
        import ops_cases
        model, self.feeds = ops_cases.build(made)
        self.name, self.tolerance = made.name, made.tolerance
        self.path = folder / (re.sub(r"\W+", "_", made.name) + ".onnx")
        text = model.SerializeToString()
        if not self.path.exists() or self.path.read_bytes() != text:
            onnx.save(model, self.path)
        self.library = self.path.with_suffix(".so")


def compiled(args, work):
    """What is wrong with compiling a case, or None; a library newer than its model and the compiler stays."""
    newest = max(work.path.stat().st_mtime, args.weir.stat().st_mtime)
    if work.library.exists() and work.library.stat().st_mtime > newest and not args.option:
        return None
    return compile_model(args, work.path, work.library)["failed"]


# ---- one case -----------------------------------------------------------------------------------------------


def disagreement(got, want, tolerance):
    """What is wrong between the outputs of both engines, or None."""
    import numpy as np
    for name, value in want.items():
        if value.dtype.kind in "iu" and tolerance >= 1 and got[name].shape == value.shape:
            far = int(np.abs(got[name].astype(np.int64) - value.astype(np.int64)).max(initial=0))
            wrong = f"differs by {far}" if far > tolerance else None
        else:
            _, wrong = engines.difference(got[name], value, tolerance)
        if wrong:
            return f'output "{name}" {wrong}'
    return None


def measure(args, work, threads):
    """The row of a case at a number of threads."""
    weir = Weir(work, work.library, threads)
    weir.run()
    try:
        rival = OnnxRuntime(work, threads)
        rival.run()
    except Exception as error:
        return {"left_out": str(error).strip().split("\n")[0][:160]}
    wrong = disagreement(weir.outputs(), rival.outputs(), work.tolerance)
    if args.check or wrong:
        return {"wrong": wrong}
    return {"times": take_turns([weir, rival], args.min_time, slot_time=SLOT)}


def in_child(args, work, threads):
    """`measure` in a process of its own, so that a crash or a hang is a row."""
    context = multiprocessing.get_context("fork")
    mine, its = context.Pipe(False)

    def child():
        try:
            its.send(measure(args, work, threads))
        except Exception as error:
            its.send({"wrong": f"run: {error}"[:300]})

    process = context.Process(target=child)
    process.start()
    its.close()
    try:
        row = mine.recv() if mine.poll(args.timeout) else {"wrong": f"no result after {args.timeout:.0f} s"}
    except EOFError:
        process.join()
        row = {"wrong": f"run: ended by signal {-process.exitcode}"}
    process.kill()
    process.join()
    return row


def compare(args, found):
    """The rows of all cases, in order."""
    folder = args.work / "ops"
    folder.mkdir(parents=True, exist_ok=True)
    works = [Work(made, folder) for made in found]
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        failures = list(pool.map(lambda work: compiled(args, work), works))
    rows = []
    for made, work, failed in zip(found, works, failures):
        for threads in args.threads:
            row = {"family": made.family, "case": made.name, "threads": threads}
            row.update({"wrong": failed} if failed else in_child(args, work, threads))
            rows.append(row)
            print("  ".join(cell.ljust(w) if k < 2 else cell.rjust(w) for k, (cell, w) in
                            enumerate(zip(cells(row), (24, 34, 3, 9, 9, 6)))), flush=True)
            if row.get("wrong") or row.get("left_out"):
                print("    " + " ".join((row.get("wrong") or "left out: " + row["left_out"]).split()), flush=True)
    return rows


# ---- the record -----------------------------------------------------------------------------------------------


def ratio(row):
    times = row["times"]
    return times["weir"]["median_ms"] / times["onnxruntime"]["median_ms"]


def cells(row):
    head = [row["family"], row["case"], str(row["threads"])]
    if "times" not in row:
        return head + (["FAIL"] if row.get("wrong") else ["left out"] if row.get("left_out") else ["agrees"])
    us = [f"{row['times'][name]['median_ms'] * 1e3:.1f}" for name in ("weir", "onnxruntime")]
    return head + us + [f"{ratio(row):.2f}"]


def families(rows):
    """(family, geometric mean, worst ratio, cases) of timed rows, the slowest first."""
    found = {}
    for row in rows:
        found.setdefault(row["family"], []).append(ratio(row))
    return sorted(((name, geomean(rs), max(rs), len(rs)) for name, rs in found.items()), key=lambda f: -f[1])


def summary(rows):
    for threads in sorted({row["threads"] for row in rows}):
        timed = [row for row in rows if row["threads"] == threads and "times" in row]
        if timed:
            ratios = [ratio(row) for row in timed]
            slow = sum(r > LIMIT for r in ratios)
            yield (f"{threads} threads, weir by onnxruntime: geomean {geomean(ratios):.3f}, worst {max(ratios):.2f}, "
                   f"{slow} of {len(ratios)} cases above {LIMIT}")


def tables(rows, threads):
    timed = sorted((row for row in rows if row["threads"] == threads and "times" in row), key=ratio, reverse=True)
    yield from [f"## {threads} threads, by family", "", "| family | geomean | worst | cases |", "|---|---|---|---|"]
    for name, mean, worst, count in families(timed):
        yield f"| {name} | {mean:.2f} | {worst:.2f} | {count} |"
    yield from ["", f"## {threads} threads, worst first", "",
                "| family | case | Weir µs | ONNX Runtime µs | ratio | why (as read from the kernels) |",
                "|---|---|---|---|---|---|"]
    for row in timed:
        why = REASONS.get(row["case"], "not looked into") if ratio(row) > LIMIT else ""
        family, case, _, ours, theirs, by = cells(row)
        yield f"| {family} | {case} | {ours} | {theirs} | {by} | {why} |"
    yield ""


def write_results(args, rows):
    about = engines.facts()
    args.results.mkdir(parents=True, exist_ok=True)
    base = args.results / f"{'ops' if args.cases == 'ops_cases' else 'ops-forms'}-{about['date']}"
    kept = json.loads(base.with_suffix(".json").read_text())["rows"] if base.with_suffix(".json").exists() else []
    now = {(row["case"], row["threads"]) for row in rows}
    rows = [row for row in kept if (row["case"], row["threads"]) not in now] + rows
    base.with_suffix(".json").write_text(json.dumps({**about, "rows": rows}, indent=1) + "\n")
    text = [f"# Operators of {about['date']}", "", f"Commit {about['commit']}; {about['machine']}; ONNX Runtime "
            f"{about['versions'].get('onnxruntime')}. `tests/bench/ops.py`: medians of a case's calls, the engines in "
            "turns; what a call costs from Python (1 to 3 µs) counts on both sides.", ""]
    text += [f"- {said}" for said in summary(rows)] + [""]
    for threads in sorted({row["threads"] for row in rows}):
        text += tables(rows, threads)
    rest = [f"- {row['case']}, {row['threads']} threads: {row.get('wrong') or row['left_out']}" for row in rows
            if row.get("wrong") or row.get("left_out")]
    text += ["## Without a figure", "", *rest, ""] if rest else []
    base.with_suffix(".md").write_text("\n".join(text))
    print(f"wrote {base}.json and {base}.md")


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--only", default="", metavar="PATTERN", help='cases whose "family: name" this pattern is in')
    parser.add_argument("--cases", default="ops_cases", choices=["ops_cases", "ops_forms"], help="the module of the cases")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--threads", default=[2], type=lambda text: [int(n) for n in text.split(",")])
    parser.add_argument("--check", action="store_true", help="agreement only")
    parser.add_argument("--min-time", type=float, default=0.3, help="seconds of timed calls of a case")
    parser.add_argument("--timeout", type=float, default=60, help="seconds for a case")
    parser.add_argument("--option", action="append", default=[], metavar="NAME=VALUE", help='of "weir compile"')
    parser.add_argument("-j", "--jobs", type=int, default=os.cpu_count(), help="compilations at a time")
    parser.add_argument("--weir", type=pathlib.Path, default=ROOT / "build/weir")
    parser.add_argument("--work", type=pathlib.Path, default=ROOT / "build", help="folder for models and libraries")
    parser.add_argument("--results", type=pathlib.Path, help="folder for the dated table")
    return parser.parse_args()


def main():
    args = arguments()
    use_packages()
    import ops_cases
    importlib.import_module(args.cases)
    found = [made for made in ops_cases.cases(args.cases) if re.search(args.only, f"{made.family}: {made.name}")]
    if args.list:
        return print("\n".join(f"{made.family}: {made.name}" for made in found))
    if not found:
        sys.exit(f'error: no case has "{args.only}" in its name: --list shows them')
    rows = compare(args, found)
    for text in summary(rows):
        print(text)
    if args.results:
        write_results(args, rows)
    failed = sum(1 for row in rows if row.get("wrong"))
    print(f"{len(rows) - failed} passed, {failed} failed, 0 skipped")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
