#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compiles models for aarch64 and runs them under qemu-aarch64 (Debian's qemu-user) against what is expected of them.

    tests/aarch64.py [--weir build/weir] [--every N] [-j N] [CASE...]

A CASE is a folder of a model and its data sets, as ONNX has them, or a model, whose results on random data are compared
with what it computes here; so are those of cases that draw numbers. Without any: every N-th of the cases of
/usr/share/libonnx-testdata, and the models of tests/data. Cases with strings, sequences or sizes that data decide are
left out.
The last line is "N passed, N failed, N skipped".
"""
import argparse
import concurrent.futures
import math
import os
import pathlib
import random
import re
import shutil
import struct
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
GCC, QEMU, SYSROOT = "aarch64-linux-gnu-gcc", "qemu-aarch64", "/usr/aarch64-linux-gnu"
CASES = pathlib.Path("/usr/share/libonnx-testdata/data")
FORM = {1: "f", 2: "B", 3: "b", 4: "H", 5: "h", 6: "i", 7: "q", 9: "B", 10: "e", 11: "d", 12: "I", 13: "Q"}


class Skip(Exception):
    pass


def varint(data, at):
    value = shift = 0
    while True:
        byte, at = data[at], at + 1
        value, shift = value | (byte & 127) << shift, shift + 7
        if byte < 128:
            return value, at


def fields(data):
    """(number, value) of a protobuf message; a value is an integer or bytes."""
    at = 0
    while at < len(data):
        key, at = varint(data, at)
        if key & 7 == 0:
            value, at = varint(data, at)
        else:
            size, at = varint(data, at) if key & 7 == 2 else ({1: 8, 5: 4}[key & 7], at)
            value, at = data[at:at + size], at + size
        yield key >> 3, value


def read_tensor(path):
    """(dtype, dims, the elements' bytes) of a TensorProto."""
    dims, dtype, raw = [], 0, None
    for number, value in fields(path.read_bytes()):
        if number == 1:
            dims += [value] if isinstance(value, int) else unpack(value)
        elif number == 2:
            dtype = value
        elif number == 9 or (number, dtype) in ((4, 1), (10, 11)):
            raw = value
        elif number in (5, 7, 11) and dtype in FORM and isinstance(value, bytes):
            size = struct.calcsize(FORM[dtype])
            raw = b"".join((item & (1 << 8 * size) - 1).to_bytes(size, "little") for item in unpack(value))
    if dtype not in FORM or raw is None and 0 not in dims and dims:
        raise Skip(f"{path.name} holds a tensor of another form")
    return dtype, dims, raw or b""


def unpack(data):
    at, values = 0, []
    while at < len(data):
        value, at = varint(data, at)
        values.append(value)
    return values


def close(dtype, got, want):
    if len(got) != len(want):
        return False
    form = f"<{len(want) // struct.calcsize(FORM[dtype])}{FORM[dtype]}"
    pairs = zip(struct.unpack(form, got), struct.unpack(form, want))
    if dtype not in (1, 10, 11):
        return all(abs(a - b) <= (dtype in (2, 3)) for a, b in pairs)
    return all(a == b or math.isnan(a) and math.isnan(b) or abs(a - b) <= 1e-6 + 2e-3 * abs(b) for a, b in pairs)


def sorted_files(folder, word):
    return sorted(folder.glob(f"{word}_*.pb"), key=lambda path: int(path.stem.split("_")[1]))


def run_set(data, folder, how, library):
    """The outputs of a data set's inputs, "DTYPE DIM..." and bytes, as the program `how` gets them of the library."""
    words = [*how, library, "2"]
    for number, path in enumerate(sorted_files(data, "input")):
        dtype, dims, raw = read_tensor(path)
        words.append(folder / f"in{number}")
        words[-1].write_bytes(f"{' '.join(map(str, [dtype, *dims]))}\n".encode() + raw)
    outs = [folder / f"out{number}" for number, _ in enumerate(sorted_files(data, "output"))]
    done = subprocess.run([*words, *outs], capture_output=True, text=True, timeout=300)
    if "not a file for each port" in done.stderr or "does not know" in done.stderr:
        raise Skip(done.stderr.strip())
    assert done.returncode == 0, f"exit code {done.returncode}: {done.stderr}"
    return [(head.decode(), data) for head, _, data in (out.read_bytes().partition(b"\n") for out in outs)]


def expected(data):
    """The outputs that a data set holds, in the form of run_set."""
    tensors = map(read_tensor, sorted_files(data, "output"))
    return [(" ".join(map(str, [dtype, *dims])), raw) for dtype, dims, raw in tensors]


def draws(weir, case):
    """Whether a case has an operator that draws numbers: `weir test` then looks at their distribution alone."""
    return "by property" in subprocess.run([weir, "test", case], capture_output=True, text=True, timeout=300).stdout


def compiled(weir, model, library, *options):
    done = subprocess.run([weir, "compile", model, "-o", library, *options], capture_output=True, text=True, timeout=300)
    if "without a runtime" in done.stderr or "W012" in done.stderr:
        raise Skip(done.stderr.strip())
    assert done.returncode == 0, done.stderr
    return library


def run_folder(model, weir, folder):
    """The C text, built by gcc for aarch64 as its head says."""
    source = folder / "src"
    subprocess.run([weir, "compile", model, "--cpu=aarch64", "--emit=c", "--emit-dir", source], check=True)
    words = re.match(r"/\* Build: (.*?)\n", (source / "model.c").read_text())[1]
    assert words.startswith(GCC) and words.endswith("-o model.so"), words
    subprocess.run(words, shell=True, cwd=source, check=True)
    shutil.copy(source / "model.so", folder / "there.so")
    shutil.copy(next(source.glob("*.weights")), folder)


def run_model(model, weir, runner, folder, text=False):
    """The same random data here and there; inputs are f32 of constant dims."""
    if text:
        run_folder(model, weir, folder)
    else:
        compiled(weir, model, folder / "there.so", "--cpu=aarch64")
    libraries = folder / "there.so", compiled(weir, model, folder / "here.so")
    ports = re.findall(r"^(input|output) .*: f32\[([\d,]+)\]$", subprocess.check_output([weir, "info", libraries[1]], text=True), re.M)
    dims = [text.split(",") for kind, text in ports if kind == "input"]
    random.seed(1)
    for number, shape in enumerate(dims):
        count = math.prod(map(int, shape))
        data = struct.pack(f"<{count}f", *(random.uniform(-1, 1) for _ in range(count)))
        (folder / f"in{number}").write_bytes(f"1 {' '.join(shape)}\n".encode() + data)
    results = []
    for side, how in enumerate(([QEMU, "-L", SYSROOT, runner], [runner.with_name("here")])):
        outs = [folder / f"{side}.{number}" for number in range(len(ports) - len(dims))]
        subprocess.run([*how, libraries[side], "2", *(folder / f"in{i}" for i in range(len(dims))), *outs], check=True)
        results.append([out.read_bytes().partition(b"\n") for out in outs])
    for (head, _, there), (_, _, here) in zip(*results):
        assert close(1, there, here), f"results of {head} differ"


def run_case(case, weir, runner):
    with tempfile.TemporaryDirectory() as work:
        folder = pathlib.Path(work)
        if case.is_file():
            run_model(case, weir, runner, folder)
            return run_model(case, weir, runner, folder, text=True)
        sets = sorted(path for path in case.glob("test_data_set_*") if path.is_dir())
        if not sets:
            raise Skip("no data")
        there = [QEMU, "-L", SYSROOT, runner], compiled(weir, case / "model.onnx", folder / "there.so", "--cpu=aarch64")
        here = [runner.with_name("here")], compiled(weir, case / "model.onnx", folder / "here.so") if draws(weir, case) else None
        for data in sets:
            got = run_set(data, folder, *there)
            want = run_set(data, folder, *here) if here[1] else expected(data)
            for number, (mine, its) in enumerate(zip(got, want, strict=True)):
                assert mine[0] == its[0], f"output {number} is {mine[0]} instead of {its[0]}"
                assert close(int(its[0].split()[0]), mine[1], its[1]), f"output {number} differs"


def state_of(case, weir, runner):
    try:
        run_case(case, weir, runner)
        return "passed", ""
    except Skip as why:
        return "skipped", str(why)
    except (AssertionError, subprocess.SubprocessError) as why:
        return "failed", str(why)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--weir", type=pathlib.Path, default=ROOT / "build/weir")
    parser.add_argument("--every", type=int, default=40)
    parser.add_argument("-j", type=int, default=os.cpu_count())
    parser.add_argument("case", type=pathlib.Path, nargs="*")
    args = parser.parse_args()
    missing = [tool for tool in (GCC, QEMU) if not shutil.which(tool)]
    if missing:
        print(f"SKIP aarch64: {' and '.join(missing)} not installed (gcc-aarch64-linux-gnu, qemu-user)")
        return print("0 passed, 0 failed, 1 skipped")
    cases = args.case or (sorted(CASES.glob("*/test_*"))[::args.every] + [ROOT / "tests/data/mnist/mnist_cntk.onnx"] +
                          sorted((ROOT / "tests/data/demo").glob("*.onnx")))
    counts = dict.fromkeys(("passed", "failed", "skipped"), 0)
    with tempfile.TemporaryDirectory() as work, concurrent.futures.ThreadPoolExecutor(args.j) as pool:
        runner = pathlib.Path(work) / "elsewhere"
        for gcc, name in ((GCC, runner), ("cc", runner.with_name("here"))):
            subprocess.run([gcc, "-O1", f"-I{ROOT}", ROOT / "tests/host/elsewhere.c", "-ldl", "-o", name], check=True)
        jobs = {case: pool.submit(state_of, case, args.weir.resolve(), runner) for case in cases}
        for case, job in jobs.items():
            state, why = job.result()
            counts[state] += 1
            if state != "passed":
                print(f"{'FAIL' if state == 'failed' else 'SKIP'} {case.name}: {why[:300]}", flush=True)
    print(", ".join(f"{counts[state]} {state}" for state in counts))
    raise SystemExit(counts["failed"] > 0)


if __name__ == "__main__":
    main()
