#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares dynamic models with ONNX Runtime at several sizes, all with one library and one instance.

    tests/bench/sizes.py                               # every model with symbolic dims
    tests/bench/sizes.py bert_base_dynamic --threads 2
    tests/bench/sizes.py --results tests/results       # also writes sizes-DATE.md there

Each model is compiled once, with its dims symbolic, and runs all sizes in turn in one process; the first size comes
again at the end and must give the same bits. The reference is ONNX Runtime without graph optimizations; the tolerance is
that of compare.py. The last line is "N passed, N failed, N skipped", where each size counts.
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys

from engines import ROOT, OnnxRuntime, compile_model, difference, facts, use_packages

# Sizes of batches, and of whatever else is symbolic; sizes k of all dims go together, so the second list is turned.
BATCHES = [1, 2, 3, 5, 8, 4]
LENGTHS = [1, 7, 64, 129, 300, 400]


def sizes_of(symbols):
    """Dims by symbol, of each run."""
    return [{name: BATCHES[k] if "batch" in name else LENGTHS[(k + 2 * at) % len(LENGTHS)]
             for at, name in enumerate(sorted(symbols))} for k in range(len(BATCHES))]


def zoo_runs(name, folder):
    """(dims as text, workload) of a model of the zoo at each size; none when its dims are fixed."""
    import workloads
    spec = json.loads((workloads.ZOO / f"{name}.json").read_text())
    symbols = {symbol for entry in spec["inputs"] for symbol in entry.get("symbols") or [] if symbol}
    return [(" ".join(f"{k}={v}" for k, v in dims.items()), workloads.zoo_workload(name, folder, seed, dims))
            for seed, dims in enumerate(sizes_of(symbols))] if symbols else []


def trained_runs(name):
    """The same of the trained models, whose batches may be of any size."""
    import numpy as np
    import workloads
    runs = []
    for seed, batch in enumerate(BATCHES):
        rng = np.random.Generator(np.random.PCG64(seed))
        if name == "magika_v3_3":
            said, feeds = "", {"bytes": rng.integers(0, 256, (batch, 2048)).astype(np.int32)}
        elif name == "silero_vad":
            rate, samples = ((16000, 512), (8000, 256))[seed % 2]
            draw = lambda *shape: rng.uniform(-0.5, 0.5, shape).astype(np.float32)
            said = f" rate={rate}"
            feeds = {"input": draw(batch, samples), "state": draw(2, batch, 128), "sr": np.array(rate, np.int64)}
        else:
            return []
        runs.append((f"batch={batch}{said}", workloads.Workload(name, workloads.MODELS / f"{name}.onnx", feeds, 1e-4)))
    return runs


def runs_of(name, folder):
    import workloads
    return trained_runs(name) if name in workloads.TRAINED else zoo_runs(name, folder)


def measure(args):
    """In a child: one line of JSON with the worst difference, or what is wrong, at each size."""
    import weirlib
    runs = runs_of(args.one, args.work)
    model = weirlib.Model(args.library, args.threads)
    rows, first = [], None
    for said, work in runs:
        row = {"sizes": said, "worst": 0.0, "wrong": []}
        rows.append(row)
        try:
            got = model.run(work.feeds)
        except RuntimeError as error:
            row["wrong"].append(str(error))
            continue
        first = first or got
        engine = OnnxRuntime(work, args.threads, optimize=False)
        engine.run()
        for name, want in engine.outputs().items():
            gap, wrong = difference(got[name], want, work.tolerance)
            row["worst"] = max(row["worst"], gap or 0.0)
            row["wrong"] += [f'output "{name}" {wrong}'] if wrong else []
    again = model.run(runs[0][1].feeds)
    if first and any(again[name].tobytes() != first[name].tobytes() for name in again):
        rows[0]["wrong"].append("other bits when it comes again")
    print(json.dumps(rows))


def compare(args, name):
    runs = runs_of(name, args.work)
    if not runs:
        return []
    library = args.work / "so" / f"{name}.sizes.so"
    library.parent.mkdir(parents=True, exist_ok=True)
    head = compile_model(args, runs[0][1].path, library)
    if head["failed"]:
        return [{"sizes": "", "worst": 0.0, "wrong": [head["failed"]]}]
    done = subprocess.run([sys.executable, __file__, "--one", name, "--library", str(library), "--work", str(args.work),
                           "--threads", str(args.threads)], capture_output=True, text=True, check=False)
    library.unlink(missing_ok=True)
    if done.returncode:
        return [{"sizes": "", "worst": 0.0, "wrong": [f"exit code {done.returncode}: {done.stderr.strip()[-300:]}"]}]
    return json.loads(done.stdout.strip().split("\n")[-1])


def write_results(args, found):
    about = facts()
    path = args.results / f"sizes-{about['date']}.md"
    text = [f"# One library at many sizes, {about['date']}", "", f"Commit {about['commit']}; {about['machine']}; "
            f"ONNX Runtime {about['versions']['onnxruntime']} without graph optimizations; `tests/bench/sizes.py`. The worst "
            "difference of any output, relative to its largest magnitude.", "", "| model | sizes | difference | |", "|---|---|---|---|"]
    text += [f"| {name} | {row['sizes']} | {row['worst']:.1e} | {'; '.join(row['wrong'])[:200]} |"
             for name, rows in found.items() for row in rows]
    path.write_text("\n".join(text) + "\n")
    print(f"wrote {path}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("models", nargs="*", help="names (default: all that have symbolic dims)")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--timeout", type=float, default=600, help="seconds for compiling one model")
    parser.add_argument("--option", action="append", default=[], metavar="NAME=VALUE", help='of "weir compile"')
    parser.add_argument("--weir", type=pathlib.Path, default=ROOT / "build/weir")
    parser.add_argument("--work", type=pathlib.Path, default=os.environ.get("WEIR_ZOO_WORK", ROOT / "build/zoo"))
    parser.add_argument("--results", type=pathlib.Path, help="folder for the dated table")
    for hidden in ("--one", "--library"):
        parser.add_argument(hidden, help=argparse.SUPPRESS)
    args = parser.parse_args()
    args.work = args.work.resolve()
    use_packages()
    if args.one:
        return measure(args)
    import workloads
    found = {}
    for name in args.models or [name for name in workloads.names() if "@" not in name]:
        for row in compare(args, name):
            found.setdefault(name, []).append(row)
            print(f"{'FAIL' if row['wrong'] else 'ok  '} {name} {row['sizes']}: {row['worst']:.1e} {'; '.join(row['wrong'])[:300]}",
                  flush=True)
    if args.results:
        write_results(args, found)
    failed = sum(1 for rows in found.values() for row in rows if row["wrong"])
    print(f"{sum(map(len, found.values())) - failed} passed, {failed} failed, 0 skipped")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
