#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Whole models of the zoo on the GPU of this machine: agreement with the C target, times.

    models.py FOLDER [NAME...] [--agree] [--kernels OUT]     # FOLDER/models/NAME and FOLDER/zoo, as tests/gpu/pack leaves them

A model travels without weights: its side file is drawn here as the zoo draws it (recipe.json says which tensor lies where;
rest.bin holds what no tensor gives). Expected are some elements of every output, chosen by a seed, and the mean of all
magnitudes; of integers all, and those of rows (of boxes, say) in any order, as scores that are nearly equal put them.
Prints, of each model, the largest difference relative to the output's largest magnitude, the time to create
an instance, and medians of runs from host memory to host memory and on tensors of the device (the device's time; --agree:
no times). --kernels takes no such times, as CUPTI would delay
launches, but writes OUT/NAME.txt: each kernel of a run in its order, microseconds that it takes and that pass since the
one ahead ended. Exit code 1 when a model does not agree.
"""
import argparse
import collections
import concurrent.futures
import contextlib
import ctypes
import json
import pathlib
import statistics
import sys
import time
import zlib

import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
sys.path += [str(HERE), str(HERE.parent / "bench")]
import bench  # noqa: E402
import weirlib  # noqa: E402

SAMPLES, RUNS, TRACED = 2048, 10, 9
BOUNDS = {"float16": 1e-2, "int8": 5e-2}  # of the largest magnitude, by the type of some of the model's tensors
BOUND = 1e-4  # of others
APART = 0.01  # of rows of integers, that only one of two outputs has


# ---- packing ------------------------------------------------------------------------------------------------


def find_tensors(raw, data, spec):
    """Which tensor of the zoo lies where in the side file `raw`: [tensor's index, offset]; and what is left, [offset, bytes]."""
    found, left, at = [], [], 0
    for index, tensor in enumerate(spec["tensors"]):
        want = data[tensor["offset"]:tensor["offset"] + tensor["length"]]
        place = raw.find(want[:4096], at)
        place = place if place >= 0 else raw.find(want[:4096])
        if place >= 0 and raw[place:place + len(want)] == want:
            found.append([index, place])
            at = place + len(want)
    at = 0
    for index, place in sorted(found, key=lambda f: f[1]):
        if place > at:
            left.append([at, raw[at:place]])
        at = max(at, place + spec["tensors"][index]["length"])
    if at < len(raw):
        left.append([at, raw[at:]])
    return found, left


def write_recipe(folder, raw, data, spec):
    found, left = find_tensors(raw, data, spec)
    recipe = {"bytes": len(raw), "tensors": found, "rest": [[at, len(b)] for at, b in left]}
    (folder / "recipe.json").write_text(json.dumps(recipe))
    (folder / "rest.bin").write_bytes(b"".join(b for _, b in left))


def sample(array):
    flat = np.asarray(array).reshape(-1)
    if flat.size <= SAMPLES:
        return flat
    return flat[np.random.default_rng(flat.size).integers(0, flat.size, SAMPLES)]


def summary(outputs):
    """What stands for outputs: by number, elements; dims, the largest magnitude and the mean of all."""
    kept = {}
    for i, array in enumerate(outputs):
        size = np.abs(array.astype(np.float64))
        kept[f"some{i}"], kept[f"dims{i}"] = sample(array) if array.dtype.kind in "fc" else array, np.array(array.shape)
        kept[f"size{i}"] = np.array([size.max(initial=0), size.mean() if size.size else 0])
    return kept


# ---- on the GPU machine -------------------------------------------------------------------------------------


def parts(name):
    """NAME, NAME.f16 or either with @dim=size,...: the zoo's name, whether in halves, sizes."""
    stem, _, sizes = name.partition("@")
    return stem.removesuffix(".f16"), stem.endswith(".f16"), {k: int(v) for k, v in (s.split("=") for s in sizes.split(",") if s)}


def spec_of(zoo, name):
    return json.loads((zoo / f"{parts(name)[0]}.json").read_text())


def make_weights(folder, spec):
    """The side file of FOLDER/model.so; the zoo's scripts are on the path."""
    from materialize import CHUNK, draw
    recipe, rest = json.loads((folder / "recipe.json").read_text()), (folder / "rest.bin").read_bytes()
    with open(folder / "model.so.weights", "wb") as file:
        file.truncate(recipe["bytes"])
        at = 0
        for place, size in recipe["rest"]:
            file.seek(place)
            file.write(rest[at:at + size])
            at += size
        for index, place in recipe["tensors"]:
            tensor = spec["tensors"][index]
            bits, dtype = np.random.PCG64(zlib.crc32(tensor["name"].encode())), np.dtype(tensor["dtype"])
            file.seek(place)
            for begin in range(0, tensor["length"] // dtype.itemsize, CHUNK):
                count = min(CHUNK, tensor["length"] // dtype.itemsize - begin)
                file.write(draw(bits, count, tensor["generator"]).astype(dtype).tobytes())


def bound_of(name, spec):
    types = {tensor["dtype"] for tensor in spec["tensors"]}
    return max(BOUNDS.get(t, BOUND) for t in (types or {""})) + (2**-7 if parts(name)[1] else 0)


def same_integers(got, want):
    """Of rows nearly all, of others all: scores that are nearly equal may choose some others and give another order."""
    if got.ndim != 2 or want.ndim != 2 or got.shape[1] != want.shape[1]:
        return np.array_equal(got, want)
    a, b = (collections.Counter(map(tuple, x.tolist())) for x in (got, want))
    return ((a - b) + (b - a)).total() <= APART * (a + b).total()


def distance(outputs, expected):
    """The worst difference over the largest magnitude; of integers, infinite where they differ."""
    worst = 0.0
    for i, array in enumerate(outputs):
        want, (largest, mean) = expected[f"some{i}"], expected[f"size{i}"]
        if array.dtype.kind not in "fc":
            worst = max(worst, 0.0 if same_integers(array, want) else np.inf)
            continue
        if list(array.shape) != list(expected[f"dims{i}"]):
            return np.inf
        got = sample(array)
        both = np.append(np.abs(got.astype(np.float64) - want), abs(np.abs(array.astype(np.float64)).mean() - mean))
        worst = max(worst, np.nan_to_num(both.max() / max(largest, 1e-30), nan=np.inf))
    return worst


def host_time(model):
    times = []
    for _ in range(RUNS):
        began = time.perf_counter()
        model.call()
        times.append((time.perf_counter() - began) * 1e3)
    return statistics.median(times)


class OnDevice:
    """The same model's runs on tensors of torch; caches that outputs continue lie where these are, so that a run writes
    the new rows alone."""

    def __init__(self, torch, model):
        self.model, self.d = model, model.d
        self.tensors = [torch.from_numpy(a).cuda() for a in (*model.kept, *model.arrays)]
        n = len(model.kept)
        for given, made, dim in self.shared():
            past, whole = self.tensors[given], self.tensors[n + made]
            whole.narrow(dim, 0, past.shape[dim]).copy_(past)
            self.tensors[given] = whole.narrow(dim, 0, past.shape[dim])
        self.strides = [(ctypes.c_int64 * t.dim())(*t.stride()) for t in self.tensors]
        described = [bench.describe(t, weirlib.CODES[np.dtype(str(t.dtype).split(".")[1])]) for t in self.tensors]
        for tensor, strides, of in zip(described, self.strides, self.tensors):
            tensor.strides, tensor.capacity = strides, of.untyped_storage().nbytes() // of.element_size()
        self.given, self.room = (weirlib.Tensor * n)(*described[:n]), (weirlib.Tensor * (len(described) - n))(*described[n:])
        self.stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)

    def shared(self):
        """Input, output, dim: weir_shared of weir_model.h."""
        triples = ctypes.cast(self.d.shared, ctypes.POINTER(ctypes.c_int32 * 3))
        return [tuple(triples[i]) for i in range(self.d.nshared)]

    def submit(self):
        self.model.check(self.d.submit(self.model.instance, self.given, self.room, self.stream), "submit")

    def wait(self):
        self.model.check(self.d.wait(self.model.instance), "wait")

    def __call__(self):
        self.submit()
        self.wait()


def device_time(torch, model):
    """Medians: runs one behind the other without a wait between, where the model's launches allow; a run and its wait."""
    run = OnDevice(torch, model)
    both = bench.hot(torch, run)
    try:
        run.submit()
        run.submit()
    except RuntimeError:
        run.wait()
        return both, both
    hot = bench.hot(torch, run.submit)
    run.wait()
    return hot, both


def kernel_times(torch, model, file):
    """Writes medians of several runs, in microseconds; raises ValueError where runs differ in what they launch."""
    run, trace = OnDevice(torch, model), file.with_suffix(".json")
    for _ in range(3):
        run()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profiler:
        for _ in range(TRACED):
            run()
    profiler.export_chrome_trace(str(trace))
    events = json.loads(trace.read_text())["traceEvents"]
    trace.unlink()
    told = sorted((e["ts"], e["dur"], e["name"]) for e in events if e.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset"))
    each, left = divmod(len(told), TRACED)
    runs = [told[i * each:(i + 1) * each] for i in range(TRACED)]
    if left or not each or any([e[2] for e in r] != [e[2] for e in runs[0]] for r in runs):
        raise ValueError(f"{len(told)} kernels in {TRACED} runs")
    lines, busy = [], 0
    for i in range(each):
        takes = statistics.median(r[i][1] for r in runs)
        since = statistics.median(r[i][0] - r[i - 1][0] - r[i - 1][1] for r in runs) if i else 0
        busy += takes
        lines.append(f"{takes:9.2f} {since:8.2f}  {told[i][2]}")
    whole = statistics.median(r[-1][0] + r[-1][1] - r[0][0] for r in runs)
    file.write_text(f"{each} kernels take {busy:.1f} us of {whole:.1f}\n" + "\n".join(lines) + "\n")
    return f"  {each} kernels {busy / 1e3:.3f} of {whole / 1e3:.3f} ms traced"


def try_model(root, name, torch, kernels):
    from inputs import make_inputs
    folder, spec = root / "models" / name, spec_of(root / "zoo", name)
    began = time.perf_counter()
    model = weirlib.Model(folder / "model.so", threads=8)
    created = time.perf_counter() - began
    given = make_inputs(spec, dims=parts(name)[2])
    with np.load(folder / "expected.npz") as kept:
        expected = dict(kept)
    worst = 0
    for _ in range(3):  # walked, recorded, launched as recorded
        worst = max(worst, distance(list(model.run(given).values()), expected))
    bound = bound_of(name, spec)
    good = worst <= bound
    text = f"{name:40} {'ok' if good else 'WRONG':5} {worst:8.1e} of {bound:.1e}  create {created:5.2f} s"
    if kernels:
        text += kernel_times(torch, model, kernels / f"{name}.txt")
    elif torch:
        hot, both = device_time(torch, model)
        text += f"  host {host_time(model):8.3f}  device {hot:8.3f}  with a wait {both:8.3f} ms"
    print(text, flush=True)
    model.close()
    return good


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--agree", action="store_true")
    parser.add_argument("--kernels", type=pathlib.Path)
    options = parser.parse_intermixed_args()
    root, good, torch = options.folder, True, None
    sys.path.append(str(root / "zoo"))
    names = options.names or sorted(p.name for p in (root / "models").iterdir())
    if not options.agree:
        import torch
    began = time.perf_counter()
    with concurrent.futures.ProcessPoolExecutor() as pool:
        list(pool.map(make_weights, [root / "models" / n for n in names], [spec_of(root / "zoo", n) for n in names]))
    print(f"{len(names)} models, weights drawn in {time.perf_counter() - began:.1f} s")
    with torch.cuda.stream(torch.cuda.Stream()) if torch else contextlib.nullcontext():
        for name in names:
            try:
                good &= try_model(root, name, torch, options.kernels)
            except (RuntimeError, ValueError) as error:
                print(f"{name:40} FAIL {error}", flush=True)
                good = False
            (root / "models" / name / "model.so.weights").unlink()
    return not good


if __name__ == "__main__":
    sys.exit(main())
