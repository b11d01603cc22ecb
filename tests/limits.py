#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Holds the compiler and its libraries to their limits of time, memory and size.

    tests/limits.py [--weir build/weir] [--host build/tests/host]    # with what ships in the tree
    tests/limits.py --zoo [MODEL...]                                 # and every model of the zoo

Compiling, with an empty cache: at most 10 s (resnet50, bert_base) and 1.5 times the weights + 400 MB of
memory. From a model to emitted text: at most 1 s of processor time (bert_base), and linear in the number of
nodes (1, 4, 16, 64 copies of a layer). One large weight that is packed is held once, sums of its quarters once
besides; 90 sizes that data make, added up, do not hold clang up. A library starts within 20 ms beyond a run and
has the same bytes when made twice. Without fusion 1.3 times the bytes of activations move at least, and a run
takes 1.3 times as long where movement bounds it (mobilenet_v2), longer where arithmetic does (bert_base). The
last line is "N passed, N failed, N skipped". The zoo needs numpy; its weights are kept in --work or $WEIR_ZOO_WORK.
"""
import argparse
import concurrent.futures
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tests/bad"), str(ROOT / "tests/bench")]
import wire  # noqa: E402

COMPILE_S, TEXT_S, START_MS, FUSED_BYTES = 10.0, 1.0, 20, 1.3
SIZES_S, BESIDE_WEIGHTS = 8.0, 150 << 20
TIMED, TEXT = ("resnet50", "bert_base"), ("bert_base",)
FUSED = {"bert_base": 1.0, "mobilenet_v2": 1.3}  # times as long without fusion, at least
STARTED = ("resnet50", "ultraface")


class Cost:
    """A command's wall-clock seconds, processor seconds, peak bytes."""

    def __init__(self, command, cache):
        start = time.perf_counter()
        with tempfile.TemporaryFile() as err:
            process = subprocess.Popen([str(word) for word in command], stdout=subprocess.DEVNULL, stderr=err,
                                       env=dict(os.environ, XDG_CACHE_HOME=str(cache)))
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
            self.wall, self.cpu = time.perf_counter() - start, usage.ru_utime + usage.ru_stime
            self.peak = usage.ru_maxrss * 1024
            err.seek(0)
            text = err.read().decode(errors="replace")
        if process.returncode:
            raise RuntimeError(f"{' '.join(map(str, command[:3]))}: exit code {process.returncode}: {text[-300:]}")


class Checks:
    def __init__(self):
        self.passed = self.failed = 0

    def __call__(self, good, text):
        self.passed, self.failed = self.passed + bool(good), self.failed + (not good)
        print(("ok   " if good else "FAIL ") + text, flush=True)


# ---- models ------------------------------------------------------------------------------------------------


def layers(count, width=32):
    """`count` layers: normalisation, three products, an elementary function, a residual."""
    nodes, weights, at = [], [], "x"
    ones = [1.0] * width
    for k in range(count):
        square = [((i * 7 + k) % 13 - 6) / 64 for i in range(width * width)]
        weights += [wire.tensor(f"{name}{k}", [width, width], square) for name in ("p", "q", "r")]
        weights += [wire.tensor(f"scale{k}", [width], ones), wire.tensor(f"bias{k}", [width], ones)]
        nodes += [wire.node("LayerNormalization", [at, f"scale{k}", f"bias{k}"], [f"n{k}"], name=f"norm{k}"),
                  wire.node("MatMul", [f"n{k}", f"p{k}"], [f"a{k}"], name=f"first{k}"),
                  wire.node("Tanh", [f"a{k}"], [f"t{k}"], name=f"tanh{k}"),
                  wire.node("MatMul", [f"t{k}", f"q{k}"], [f"b{k}"], name=f"second{k}"),
                  wire.node("Softmax", [f"b{k}"], [f"s{k}"], name=f"softmax{k}"),
                  wire.node("MatMul", [f"s{k}", f"r{k}"], [f"c{k}"], name=f"third{k}"),
                  wire.node("Add", [f"c{k}", at], [f"y{k}"], name=f"add{k}")]
        at = f"y{k}"
    return wire.model(wire.graph(nodes, [wire.value_info("x", ["n", width])], [wire.value_info(at, ["n", width])],
                                 weights))


def one_weight(rows, columns, data):
    weight = wire.external("w", [rows, columns], location=data)
    return wire.model(wire.graph([wire.node("MatMul", ["x", "w"], ["y"])], [wire.value_info("x", ["n", rows])],
                                 [wire.value_info("y", ["n", columns])], [weight]))


def picked(count):
    """What `count` inputs have that is not zero, one behind the other."""
    nodes = [wire.node("NonZero", [f"x{k}"], [f"n{k}"]) for k in range(count)]
    nodes += [wire.node("Gather", [f"x{k}", f"n{k}"], [f"g{k}"]) for k in range(count)]
    nodes += [wire.node("Concat", [f"g{k}" for k in range(count)], ["all"], axis=1),
              wire.node("Softmax", ["all"], ["y"])]
    return wire.model(wire.graph(nodes, [wire.value_info(f"x{k}", [64]) for k in range(count)],
                                 [wire.value_info("y", [1, "n"])], []))


def weight_bytes(path):
    """Of a model and the files beside it that bear its name."""
    return sum(part.stat().st_size for part in path.parent.glob(path.stem + ".*") if part.suffix in (".onnx", ".data"))


# ---- checks ------------------------------------------------------------------------------------------------


def text_seconds(args, work, *paths):
    """Of each model the least of six times, in turns: others' work comes and goes."""
    times = [[Cost([args.weir, "dump", path, "--level=c", "-o", work / "text.c"], work / "none").cpu for path in paths]
             for _ in range(6)]
    return [min(of) for of in zip(*times)]


def check_linear(args, check, work):
    paths = [work / f"layers{count}.onnx" for count in (1, 4, 16, 64)]
    for path, count in zip(paths, (1, 4, 16, 64)):
        path.write_bytes(layers(count))
    seconds = text_seconds(args, work, *paths)
    ratio = (seconds[3] - seconds[1]) / max(seconds[2] - seconds[1], 1e-3)  # 60 layers over 12: linear is 5
    check(ratio < 9, "text of 1, 4, 16, 64 layers: " + ", ".join(f"{s * 1e3:.0f}" for s in seconds) +
          f" ms of processor time; the last 60 cost {ratio:.1f} times the first 12 (at most 9)")


def check_one_weight(args, check, work):
    """Columns that are not cut in whole vectors; and some that are, of whose quarters 1.75 of the weight is made."""
    path, data = work / "weight.onnx", work / "weight.data"
    for columns, made in ((8190, 0), (8192, 1.75)):
        path.write_bytes(one_weight(4096, columns, data.name))
        with data.open("wb") as file:  # not from this process's memory, which counts as a child's until it starts
            file.truncate(4 * 4096 * columns)
        cost = Cost([args.weir, "compile", path, "-o", work / "weight.so"], work / "weight-cache")
        beside = cost.peak - (1 + made) * weight_bytes(path)
        check(beside <= BESIDE_WEIGHTS, f"one weight of {weight_bytes(path) >> 20} MB: {beside / 2**20:.0f} MB beside it "
              f"and {made} of it (at most {BESIDE_WEIGHTS >> 20})")
        for file in (path, data, work / "weight.so"):
            file.unlink()


def check_sizes(args, check, work):
    path = work / "picked.onnx"
    path.write_bytes(picked(90))
    cost = Cost([args.weir, "compile", path, "-o", work / "picked.so"], work / "picked-cache")
    check(cost.cpu <= SIZES_S, f"90 sizes that data make: compiled in {cost.cpu:.1f} s of processor time (at most {SIZES_S})")


def check_model(args, check, work, name, path):
    """Compile time and memory, equal bytes, start; the compiled library goes with its folder."""
    library, again = work / f"{name}.so", work / "again" / f"{name}.so"
    weights = weight_bytes(path)
    cost = Cost([args.weir, "compile", path, "-o", library], work / f"cache-{name}")
    most = 1.5 * weights + (400 << 20)
    good = cost.peak <= most and (cost.wall <= COMPILE_S or name not in TIMED)
    check(good, f"{name}: compiled in {cost.wall:.2f} s ({cost.cpu:.1f} s of processors), peak {cost.peak / 2**20:.0f} MB "
          f"of {most / 2**20:.0f}, library {library.stat().st_size / 2**20:.1f} MB for {weights / 2**20:.1f} MB of weights")
    again.parent.mkdir(exist_ok=True)
    Cost([args.weir, "compile", path, "-o", again, "-j1"], work / "other-cache")
    same = subprocess.run(["cmp", library, again]).returncode == 0
    check(same, f"{name}: the same bytes in another folder, with one thread and another cache")
    if name in TEXT:
        seconds, = text_seconds(args, work, path)
        check(seconds <= TEXT_S, f"{name}: from file to text in {seconds:.2f} s of processor time")
    if name in STARTED:
        done = subprocess.run([args.host, "--start-most", str(START_MS), "starts_fast", f"{library}:1"],
                              capture_output=True, text=True)
        check(done.returncode == 0, f"{name}: " + done.stdout.split("\n")[0].split(": ")[-1] + done.stderr.strip())
    library.unlink()
    again.unlink()


def apart(function, *arguments):
    """What a function returns, from a process of its own: what this one holds would count as its children's memory."""
    with concurrent.futures.ProcessPoolExecutor(1) as pool:
        return pool.submit(function, *arguments).result()


def fused_bytes(args, path, *options):
    """Bytes of activations that a run moves as planned."""
    report = subprocess.run([args.weir, "report", path, "--format=json", *options], capture_output=True, text=True, check=True)
    return json.loads(report.stdout)["total"]["planned_activation_bytes"]


def save_inputs(args, work, name):
    """Options of `weir bench` for the inputs of a model, which lie in files then."""
    import numpy as np
    import workloads
    options = []
    for port, array in workloads.workload(name, args.work).feeds.items():
        np.save(work / f"{port}.npy", array)
        options += ["--input", f"{port}={work}/{port}.npy"]
    return options


def check_fusion(args, check, work, name, path):
    """Bytes planned, and the least of the medians of interleaved measurements."""
    without, least = ["--skip=fuse"], {}
    more = fused_bytes(args, path, *without) / fused_bytes(args, path)
    check(more >= FUSED_BYTES, f"{name}: without fusion {more:.2f} times the activations move (at least {FUSED_BYTES})")
    inputs = apart(save_inputs, args, work, name)
    for way, options in enumerate(([], without)):
        Cost([args.weir, "compile", path, "-o", work / f"fuse{way}.so", *options], work / "fuse-cache")
    for way in (0, 1) * 3:
        Cost([args.weir, "bench", work / f"fuse{way}.so", "--min-time=1.5", "--threads=2", f"--json={work}/b.json", *inputs],
             work / "fuse-cache")
        median = json.loads((work / "b.json").read_text())["median_ms"]
        least[way] = min(least.get(way, median), median)
    ratio = least[1] / least[0]
    check(ratio >= FUSED[name],
          f"{name}: {least[0]:.2f} ms, without fusion {least[1]:.2f} ms, {ratio:.2f} times (at least {FUSED[name]})")
    for way in (0, 1):
        (work / f"fuse{way}.so").unlink()


def zoo_models(args):
    import workloads
    names = args.models or [name for name in workloads.names() if "@" not in name]
    return [(name, workloads.workload(name, args.work).path) for name in names]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("models", nargs="*")
    parser.add_argument("--zoo", action="store_true")
    parser.add_argument("--weir", type=pathlib.Path, default=ROOT / "build/weir")
    parser.add_argument("--host", type=pathlib.Path, default=ROOT / "build/tests/host")
    parser.add_argument("--work", type=pathlib.Path, default=os.environ.get("WEIR_ZOO_WORK", ROOT / "build/zoo"))
    args = parser.parse_args()
    args.work, args.weir = args.work.resolve(), args.weir.resolve()
    if args.zoo:
        import compare
        compare.use_packages()
    check = Checks()
    models = [("ultraface", ROOT / "tests/data/demo/ultraface_rfb_320.onnx")]
    if args.zoo:
        models = apart(zoo_models, args)
    with tempfile.TemporaryDirectory() as folder:
        work = pathlib.Path(folder)
        check_linear(args, check, work)
        check_one_weight(args, check, work)
        check_sizes(args, check, work)
        for name, path in models:
            try:
                check_model(args, check, work, name, path)
                if name in FUSED and args.zoo:
                    check_fusion(args, check, work, name, path)
            except RuntimeError as fault:
                check(False, f"{name}: {fault}")
    print(f"{check.passed} passed, {check.failed} failed, 0 skipped")
    sys.exit(1 if check.failed else 0)


if __name__ == "__main__":
    main()
