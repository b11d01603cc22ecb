#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares compiled models with ONNX Runtime (and OpenVINO where installed): agreement and speed.

    tests/bench/compare.py                             # every model there is, at 1 and 2 threads
    tests/bench/compare.py resnet50 bert_base --threads 2 --min-time 4
    tests/bench/compare.py --check                     # agreement only: no timing
    tests/bench/compare.py --option math=fast          # an option of "weir compile" for all
    tests/bench/compare.py --results tests/results     # also writes compare-DATE.{json,md} there

Each model is compiled by build/weir and then measured in a process of its own: the engines take turns
in one run (a turn of each, again and again, the first call of a turn not counted), and each figure is
the median of its calls. The reference is ONNX Runtime without graph optimizations; floats must agree
within 1e-4 of the output's largest magnitude (1e-2 for f16 models, 5e-2 for quantized ones), others
exactly. Packages that are missing go into build/venv.
"""
import argparse
import datetime
import hashlib
import json
import math
import os
import pathlib
import platform
import resource
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
COMPILE_MEMORY = 12 << 30  # bytes of address space, so that a runaway compile spares the machine
PACKAGES = ["numpy", "onnx", "onnxruntime", "openvino", "zstandard"]


def use_packages():
    """Runs this script again in build/venv when its packages are not here."""
    try:
        import numpy, onnx, onnxruntime  # noqa: F401, E401
        return
    except ImportError:
        pass
    python = ROOT / "build/venv/bin/python"
    if os.environ.get("WEIR_BENCH_VENV"):
        sys.exit(f"error: packages are missing even in {python.parent.parent}: remove it and try again")
    if not python.exists():
        print("installing " + " ".join(PACKAGES) + " into build/venv", flush=True)
        subprocess.run([sys.executable, "-m", "venv", python.parent.parent], check=True)
        subprocess.run([python, "-m", "pip", "install", "-q", *PACKAGES], check=True)
    os.environ["WEIR_BENCH_VENV"] = "1"
    os.execv(python, [python, *sys.argv])


# ---- engines: each has run() for a timed call and outputs() ---------------------------------------------


class Weir:
    name = "weir"

    def __init__(self, work, library, threads):
        import weirlib
        start = time.perf_counter()
        self.model = weirlib.Model(library, threads)
        self.create_ms = (time.perf_counter() - start) * 1e3
        self.model.bind(work.feeds)
        self.run = self.model.call

    def outputs(self):
        return self.model.results()


class OnnxRuntime:
    name = "onnxruntime"

    def __init__(self, work, threads, optimize=True):
        import onnxruntime as ort
        import workloads
        options = ort.SessionOptions()
        options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
        level = ort.GraphOptimizationLevel
        options.graph_optimization_level = level.ORT_ENABLE_ALL if optimize else level.ORT_DISABLE_ALL
        options.log_severity_level = 4
        session = ort.InferenceSession(workloads.modern(work.path) or str(work.path), options,
                                       providers=["CPUExecutionProvider"])
        self.names = [output.name for output in session.get_outputs()]
        self.binding = session.io_binding()
        for name, array in work.feeds.items():
            self.binding.bind_cpu_input(name, array)
        for name in self.names:
            self.binding.bind_output(name)
        self.run = lambda: session.run_with_iobinding(self.binding)

    def outputs(self):
        return dict(zip(self.names, self.binding.copy_outputs_to_cpu()))


class OpenVino:
    name = "openvino"

    def __init__(self, work, threads):
        import openvino
        core = openvino.Core()
        model = core.read_model(str(work.path))
        model.reshape({name: list(array.shape) for name, array in work.feeds.items()})
        compiled = core.compile_model(model, "CPU", {
            "INFERENCE_NUM_THREADS": threads, "PERFORMANCE_HINT": "LATENCY", "INFERENCE_PRECISION_HINT": "f32"})
        request = compiled.create_infer_request()
        for name, array in work.feeds.items():
            request.set_tensor(name, openvino.Tensor(array))
        self.run = request.infer


# ---- one model, one number of threads, in a process of its own --------------------------------------------


def difference(got, want, tolerance):
    """(relative difference, what is wrong or None) of one output."""
    import numpy as np
    if got.shape != want.shape:
        return None, f"shape {list(got.shape)}, expected {list(want.shape)}"
    if got.dtype != want.dtype:
        return None, f"dtype {got.dtype}, expected {want.dtype}"
    if want.dtype.kind != "f":
        if got.ndim == 2 and np.array_equal(np.sort(got, axis=0), np.sort(want, axis=0)):
            moved = int((got != want).any(axis=1).sum())  # rows in the order of scores that are nearly equal
            return float(moved), f"{moved} of {len(want)} rows stand elsewhere" if moved > len(want) / 100 else None
        wrong = int((got != want).sum())
        return float(wrong), f"{wrong} of {want.size} elements differ" if wrong else None
    a, b = got.astype(np.float64), want.astype(np.float64)
    finite = np.isfinite(b)
    if not np.array_equal(np.isfinite(a), finite):
        return None, "infinities or NaNs in other places"
    scale = np.abs(b[finite]).max(initial=0) or 1.0
    gap = float(np.abs(a[finite] - b[finite]).max(initial=0) / scale)
    return gap, f"differs by {gap:.3g} of the largest magnitude" if gap > tolerance else None


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


def take_turns(engines, min_time):
    """Median, least and 90th-percentile milliseconds of each engine's calls."""
    import numpy as np
    times = {engine.name: [] for engine in engines}
    for engine in engines:
        engine.run()
    spent = turn = 0
    while spent < min_time or turn < 4:
        for k in range(len(engines)):
            engine = engines[(turn + k) % len(engines)]
            engine.run()
            slot = time.perf_counter()
            while True:
                start = time.perf_counter()
                engine.run()
                end = time.perf_counter()
                times[engine.name].append((end - start) * 1e3)
                if end - slot > 0.15:
                    break
            spent += time.perf_counter() - slot
            time.sleep(0.02)  # threads that spin after a run go to sleep
        turn += 1
    return {name: {"median_ms": float(np.median(t)), "min_ms": float(np.min(t)),
                   "p90_ms": float(np.percentile(t, 90)), "runs": len(t)} for name, t in times.items()}


def measure(args):
    """The process of one model: prints its result as JSON."""
    import bound
    import workloads
    work = workloads.workload(args.one, args.work)
    result = {"outputs": {}, "wrong": []}
    want = reference(work, args.work / "reference")
    weir = Weir(work, args.library, args.threads_one)
    weir.run()
    got = weir.outputs()
    bits = hashlib.sha256()
    for name, value in got.items():
        gap, wrong = difference(value, want[name], work.tolerance)
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


def compile_model(args, path, library):
    """Seconds, peak memory in MB and message of "weir compile"."""
    command = [str(args.weir), "compile", str(path), "-o", str(library)]
    for option in args.option:
        name, _, value = option.partition("=")
        command += [f"--{name}"] + ([value] if value else [])
    with tempfile.TemporaryFile() as err:
        start = time.perf_counter()
        process = subprocess.Popen(command, stdout=err, stderr=err, preexec_fn=lambda: resource.setrlimit(
            resource.RLIMIT_AS, (COMPILE_MEMORY, COMPILE_MEMORY)))
        alarm = threading.Timer(args.timeout, process.kill)
        alarm.start()
        _, status, usage = os.wait4(process.pid, 0)
        alarm.cancel()
        took = time.perf_counter() - start
        process.returncode = os.waitstatus_to_exitcode(status)
        err.seek(0)
        text = err.read().decode(errors="replace").strip()
    ok = process.returncode == 0
    return {"compile_s": took, "compile_mb": usage.ru_maxrss / 1024,
            "so_mb": library.stat().st_size / 1e6 if ok else None,
            "failed": None if ok else f"compile: exit code {process.returncode}: {text[-400:]}"}


def measure_in_child(args, name, threads, library):
    command = [sys.executable, __file__, "--one", name, "--threads-one", str(threads), "--library", str(library),
               "--work", str(args.work), "--min-time", str(args.min_time), "--against", ",".join(args.against)]
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


def geomean(values):
    return math.exp(sum(map(math.log, values)) / len(values))


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


def machine():
    cpu = "unknown"
    for entry in pathlib.Path("/proc/cpuinfo").read_text().split("\n"):
        if entry.startswith("model name"):
            cpu = entry.split(":", 1)[1].strip()
            break
    flags = pathlib.Path("/proc/cpuinfo").read_text()
    wide = "AVX-512" if "avx512f" in flags else "AVX2" if "avx2" in flags else "SSE"
    return f"{cpu}, {wide}, {os.cpu_count()} cores, {platform.system()} {platform.release()}"


def versions():
    import importlib.metadata as metadata
    found = {}
    for name in ("onnxruntime", "openvino"):
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            pass
    return found


def write_results(args, rows):
    stamp = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d")
    try:
        commit = subprocess.run(["git", "-C", ROOT, "rev-parse", "--short", "HEAD"], capture_output=True,
                                text=True).stdout.strip()
    except OSError:
        commit = ""
    args.results.mkdir(parents=True, exist_ok=True)
    base = args.results / f"compare-{stamp}"
    facts = {"date": stamp, "commit": commit, "machine": machine(), "versions": versions(), "options": args.option}
    base.with_suffix(".json").write_text(json.dumps({**facts, "rows": rows}, indent=1) + "\n")
    text = [f"# Comparison of {stamp}", "", f"Commit {commit or 'unknown'}; {facts['machine']}; " +
            ", ".join(f"{k} {v}" for k, v in facts["versions"].items()) + ". Medians of one run in which the "
            "engines take turns; agreement is the largest difference from ONNX Runtime without graph "
            "optimizations, relative to the output's largest magnitude; bound is the least time by FLOP and bytes on the "
            "peaks measured in the same run (bound.py), share how much of it is reached; MB is the compiler's peak "
            "memory.", "",
            "| " + " | ".join(COLUMNS) + " |", "|" + "---|" * len(COLUMNS)]
    text += ["| " + " | ".join(cells(row)) + " |" for row in rows]
    text += [""] + [f"- {said}" for said in summary(rows)]
    wrong = [f"- {row['model']}, {row['threads']} threads: {' '.join(w.split())[:300]}" for row in rows
             for w in row["wrong"]]
    if wrong:
        text += ["", "What is wrong:", ""] + wrong
    base.with_suffix(".md").write_text("\n".join(text) + "\n")
    print(f"wrote {base}.json and {base}.md")


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("models", nargs="*", help="names (default: all); --list shows them")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--threads", default="1,2", type=lambda text: [int(n) for n in text.split(",")])
    parser.add_argument("--check", action="store_true", help="agreement only")
    parser.add_argument("--against", default="onnxruntime,openvino", type=lambda text: text.split(","))
    parser.add_argument("--min-time", type=float, default=3.0, help="seconds of timed calls, all engines together")
    parser.add_argument("--timeout", type=float, default=600, help="seconds for one model at one number of threads")
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
