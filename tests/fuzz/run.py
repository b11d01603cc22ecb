#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Hands mutated models to the compiler, built with sanitizers: none may crash, hang, leak or fail inside.

    tests/fuzz/run.py [--victim build-asan/tests/fuzz_compile] [--seconds S | --cases N] [--seed K] [-j N]
                      [--keep DIR] [--only WORD] [--replay FILE.onnx...] [MODEL.onnx or folder...]

Cases are numbered: case k of seed K is the same on every machine. Each fault is written to --keep as a model of
its own, for --replay. Without --seconds a fixed number of cases runs. The last line is "N passed, N failed,
N skipped".
"""
import argparse
import concurrent.futures
import os
import pathlib
import random
import re
import select
import struct
import subprocess
import sys
import tempfile
import time

import mutate

ROOT = pathlib.Path(__file__).resolve().parents[2]
TESTDATA = pathlib.Path("/usr/share/libonnx-testdata/data")
LIMIT = 30          # seconds for one case under sanitizers
LARGEST = 40000     # bytes of a model
BATCH = 40          # cases that one process compiles


def corpus(paths):
    files = []
    for path in paths or [TESTDATA, ROOT / "tests/data"]:
        files += sorted(path.rglob("*.onnx")) if path.is_dir() else [path]
    return [f for f in files if f.stat().st_size <= LARGEST]


def operators(files):
    """Names of all operators that the models use."""
    names = set()
    for file in files:
        try:
            for _, node in mutate.Model(file.read_bytes(), []).walk("node"):
                names.update(e[2] for e in node[2] if e[0] == 4)
        except (IndexError, ValueError):
            pass
    return sorted(names)


class Victim:
    """A process that compiles one case after the other."""

    def __init__(self, path):
        self.errors = tempfile.TemporaryFile()
        env = dict(os.environ)
        env.setdefault("ASAN_OPTIONS", "allocator_may_return_null=1:max_allocation_size_mb=2000")
        env.setdefault("UBSAN_OPTIONS", "halt_on_error=1:print_stacktrace=1")
        self.process = subprocess.Popen([str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=self.errors, env=env)

    def judge(self, data):
        """The verdict's line, or None when the process ended or hangs."""
        try:
            self.process.stdin.write(struct.pack("<Q", len(data)) + data)
            self.process.stdin.flush()
        except BrokenPipeError:
            return None
        ready, _, _ = select.select([self.process.stdout], [], [], LIMIT)
        line = self.process.stdout.readline() if ready else b""
        self.hung = not ready
        return line.decode(errors="replace").strip() or None

    def end(self):
        """What was wrong with its end: "", or a report."""
        try:
            self.process.stdin.close()
        except BrokenPipeError:
            pass
        if getattr(self, "hung", False):
            self.process.kill()
        code = self.process.wait()
        self.errors.seek(0)
        text = self.errors.read().decode(errors="replace")
        self.errors.close()
        self.process.stdout.close()
        if getattr(self, "hung", False):
            return f"no verdict after {LIMIT} s"
        return f"ended with {code}: {text}" if code else ""


def summary(report):
    """The fault's own line and where it is, without addresses."""
    lines = [l.strip() for l in report.splitlines()]
    head = next((l for l in lines if re.search(r"internal fault|runtime error|ERROR:|FAULT|no verdict", l)), report[:200])
    frames = [re.sub(r"^#\d+ 0x[0-9a-f]+ in ", "", l).split(" (")[0] for l in lines if re.match(r"#\d+ 0x", l)]
    ours = [re.sub(r"\.\./", "", f) for f in frames if "../" in f][:4]
    return " | ".join([re.sub(r"0x[0-9a-f]+|==\d+==", "", head)[:300]] + ours)


def batch(victim, cases, keep):
    """(passed, faults) of some cases: (name, bytes) each."""
    passed, faults, process = 0, [], Victim(victim)

    def fault(name, data, text):
        faults.append((name, summary(text)))
        if keep:
            keep.mkdir(parents=True, exist_ok=True)
            (keep / f"{name}.onnx").write_bytes(data)
            (keep / f"{name}.txt").write_text(text)

    for name, data in cases:
        line = process.judge(data)
        if line is None:
            fault(name, data, process.end() or "ended without a verdict")
            process = Victim(victim)
        elif line.startswith("FAULT"):
            fault(name, data, line)
        else:
            passed += 1
    report = process.end()
    if report:
        fault(f"{cases[0][0]}_and_{len(cases) - 1}_more", b"", report)
    return passed, faults


def make(files, names, seed, number):
    rng = random.Random(f"{seed}/{number}")
    file = rng.choice(files)
    return f"{file.parent.name}.{seed}.{number}", mutate.mutate(file.read_bytes(), f"{seed}:{number}", names)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--victim", type=pathlib.Path, default=ROOT / "build-asan/tests/fuzz_compile")
    parser.add_argument("--seconds", type=float)
    parser.add_argument("--cases", type=int, default=600)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", type=pathlib.Path)
    parser.add_argument("--only", default="", help="models whose path holds this")
    parser.add_argument("--replay", type=pathlib.Path, nargs="+")
    parser.add_argument("-j", type=int, default=os.cpu_count())
    parser.add_argument("models", nargs="*", type=pathlib.Path)
    args = parser.parse_args()
    until = time.monotonic() + args.seconds if args.seconds else None
    passed = failed = 0
    seen = set()

    def take(result):
        nonlocal passed, failed
        passed += result[0]
        failed += len(result[1])
        for name, text in result[1]:
            where = re.sub(r"\d+", "", text)
            print(f"FAIL {name}: {text}" if where not in seen else f"again {name}", flush=True)
            seen.add(where)

    if args.replay:
        for path in args.replay:
            take(batch(args.victim, [(path.stem, path.read_bytes())], None))
    else:
        files = [f for f in corpus(args.models) if args.only in str(f)]
        names = operators(files)

        def work(first):
            if until and time.monotonic() > until:
                return 0, []
            return batch(args.victim, [make(files, names, args.seed, k) for k in range(first, first + BATCH)], args.keep)

        count = 1 << 30 if until else args.cases
        with concurrent.futures.ThreadPoolExecutor(args.j) as pool:
            first = 0
            while first < count and not (until and time.monotonic() > until):
                step = [pool.submit(work, first + BATCH * k) for k in range(2 * args.j) if first + BATCH * k < count]
                first += BATCH * 2 * args.j
                for done in step:
                    take(done.result())
    print(f"{passed} passed, {failed} failed, 0 skipped")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
