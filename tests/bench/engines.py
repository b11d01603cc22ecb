# SPDX-License-Identifier: Apache-2.0
"""What the comparisons share: the engines, turns in which they are timed, agreement of outputs, the compiler as a child.

A workload has a name, a path, feeds (input name -> array) and a tolerance (workloads.py, ops.py).
"""
import datetime
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
# How far results may be apart, by the output's largest magnitude. With codes roundings go on from layer to layer: ONNX
# Runtime's own optimizations change bert_base_int8 by 0.043.
OF_CODES, OF_HALVES, OF_FLOATS = 9e-2, 1e-2, 1e-4


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


def ort_session(model, threads, optimize):
    """ONNX Runtime's session of a model (a path or bytes) on its CPU provider."""
    import onnxruntime as ort
    options = ort.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    level = ort.GraphOptimizationLevel
    options.graph_optimization_level = level.ORT_ENABLE_ALL if optimize else level.ORT_DISABLE_ALL
    options.log_severity_level = 4
    return ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])


class OnnxRuntime:
    name = "onnxruntime"

    def __init__(self, work, threads, optimize=True):
        import workloads
        session = ort_session(workloads.modern(work.path) or str(work.path), threads, optimize)
        self.names = [output.name for output in session.get_outputs()]
        self.binding = session.io_binding()
        for name, array in work.feeds.items():
            self.binding.bind_cpu_input(name, array)
        for name in self.names:
            self.binding.bind_output(name)
        self.run = lambda: session.run_with_iobinding(self.binding)

    def outputs(self):
        return dict(zip(self.names, self.binding.copy_outputs_to_cpu()))


def takes_codes(path):
    """Does the model say that rows of products may be rounded to 8 bits (MatMulNBits at accuracy level 4)?"""
    import onnx
    nodes = onnx.load(str(path), load_external_data=False).graph.node
    return any(a.name == "accuracy_level" and a.i == 4 for node in nodes for a in node.attribute)


class OpenVino:
    name = "openvino"
    precision = "f32"  # or "own": as it chooses

    def __init__(self, work, threads):
        import openvino
        core = openvino.Core()
        model = core.read_model(str(work.path))
        model.reshape({name: list(array.shape) for name, array in work.feeds.items()})
        hints = {"INFERENCE_NUM_THREADS": threads, "PERFORMANCE_HINT": "LATENCY"}
        if self.precision == "f32":
            hints["INFERENCE_PRECISION_HINT"] = "f32"
            if not takes_codes(work.path):
                hints["DYNAMIC_QUANTIZATION_GROUP_SIZE"] = 0  # else it rounds rows by itself
        compiled = core.compile_model(model, "CPU", hints)
        request = compiled.create_infer_request()
        for name, array in work.feeds.items():
            request.set_tensor(name, openvino.Tensor(array))
        self.run = request.infer


# ---- agreement and time ---------------------------------------------------------------------------------------


def difference(got, want, tolerance):
    """(relative difference, what is wrong or None) of one output; of whole numbers the share that stands elsewhere."""
    import numpy as np
    if got.shape != want.shape:
        return None, f"shape {list(got.shape)}, expected {list(want.shape)}"
    if got.dtype != want.dtype:
        return None, f"dtype {got.dtype}, expected {want.dtype}"
    if want.dtype.kind != "f":
        if got.ndim == 2 and np.array_equal(np.sort(got, axis=0), np.sort(want, axis=0)):
            moved = int((got != want).any(axis=1).sum())  # rows in the order of scores that are nearly equal
            return moved / len(want), f"{moved} of {len(want)} rows stand elsewhere" if moved > len(want) / 100 else None
        wrong = int((got != want).sum())
        return wrong / max(want.size, 1), f"{wrong} of {want.size} elements differ" if wrong else None
    a, b = got.astype(np.float64), want.astype(np.float64)
    finite = np.isfinite(b)
    if not np.array_equal(np.isfinite(a), finite):
        return None, "infinities or NaNs in other places"
    scale = np.abs(b[finite]).max(initial=0) or 1.0
    gap = float(np.abs(a[finite] - b[finite]).max(initial=0) / scale)
    return gap, f"differs by {gap:.3g} of the largest magnitude" if gap > tolerance else None


def take_turns(engines, min_time, slot_time=0.15, turns=4):
    """Median, least and 90th-percentile milliseconds of each engine's calls: at least so many turns of `slot_time`."""
    import numpy as np
    times = {engine.name: [] for engine in engines}
    for engine in engines:
        engine.run()
    spent = turn = 0
    while spent < min_time or turn < turns:
        for k in range(len(engines)):
            engine = engines[(turn + k) % len(engines)]
            engine.run()
            slot = time.perf_counter()
            while True:
                start = time.perf_counter()
                engine.run()
                end = time.perf_counter()
                times[engine.name].append((end - start) * 1e3)
                if end - slot > slot_time:
                    break
            spent += time.perf_counter() - slot
            time.sleep(0.02)  # threads that spin after a run go to sleep
        turn += 1
    return {name: {"median_ms": float(np.median(t)), "min_ms": float(np.min(t)),
                   "p90_ms": float(np.percentile(t, 90)), "runs": len(t)} for name, t in times.items()}


def geomean(values):
    return math.exp(sum(map(math.log, values)) / len(values))


# ---- compiler and machine -------------------------------------------------------------------------------------


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
    return {"compile_s": took, "compile_cpu_s": usage.ru_utime + usage.ru_stime, "compile_mb": usage.ru_maxrss / 1024,
            "so_mb": library.stat().st_size / 1e6 if ok else None,
            "failed": None if ok else f"compile: exit code {process.returncode}: {text[-400:]}"}


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


def facts():
    """What a record of a run says first: date, commit, machine, versions."""
    try:
        commit = subprocess.run(["git", "-C", ROOT, "rev-parse", "--short", "HEAD"], capture_output=True,
                                text=True).stdout.strip()
    except OSError:
        commit = ""
    return {"date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d"), "commit": commit or "unknown",
            "machine": machine(), "versions": versions()}
