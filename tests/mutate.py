#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Breaks the passes on purpose and sees whether the tests notice.

    tests/mutate.py                 # all mutations; at least 95 % must be noticed
    tests/mutate.py fuse place      # those of some files
    tests/mutate.py --check         # the table alone: every line to change stands in its file, once

tests/mutations.txt holds the table. Each mutation is made in a copy of the tree (build/mutate), where one
file is compiled again; then the tests of the passes run, quick ones first, until one fails or all pass.
A mutation that does not compile is a fault of the table. A survivor asks for a new test: most often a
small text in tests/ir.
"""
import argparse
import collections
import os
import pathlib
import re
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
TABLE = ROOT / "tests/mutations.txt"
LEAST = 3  # mutations of each pass file
FREE = {"pipeline.c"}  # the loop around the passes
# Nobody has written mutations of these yet: a gap, told by every run. Take a name out, never put one in.
GAPS = {"fuse_rows.c", "mask.c", "online.c", "prepare.c", "quantize_sum.c", "reassociate.c"}
GRAPH = {"fold.c", "infer.c", "lower.c", "simplify.c"}
Mutation = collections.namedtuple("Mutation", "file what old new line")


def read_table():
    """`== FILE: what is broken`, lines as they are, `--`, lines instead of them (may be none)."""
    found, head, parts, at = [], None, [], 0
    lines = TABLE.read_text().split("\n") + ["== end: "]
    for number, line in enumerate(lines, 1):
        if line.startswith("== "):
            if head:
                old, _, new = "\n".join(parts).strip("\n").partition("\n--")
                found.append(Mutation(*head, old, new.lstrip("\n"), at))
            head, parts, at = re.match(r"== (\S+): (.*)", line).groups(), [], number
        elif head:
            parts.append(line)
    return found


def check_table(table):
    """What is wrong with it, as lines."""
    bad = []
    count = collections.Counter(m.file for m in table)
    for path in sorted((ROOT / "passes").glob("*.c")):
        if path.name not in FREE | GAPS and count[path.name] < LEAST:
            bad.append(f"passes/{path.name} has {count[path.name]} mutations, not {LEAST}")
    for m in table:
        path = ROOT / "passes" / m.file
        times = path.read_text().count(m.old) if path.exists() and m.old else 0
        if times != 1:
            bad.append(f"mutations.txt:{m.line}: \"{m.what}\": the lines stand {times} times in passes/{m.file}")
        if m.old == m.new:
            bad.append(f"mutations.txt:{m.line}: \"{m.what}\" changes nothing")
    return bad


def sync(copy):
    """The tree's files, where they differ (a file that stays keeps its time, and its object)."""
    names = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True,
                           check=True).stdout.decode().split("\n")
    for name in filter(None, names):
        source, target = ROOT / name, copy / name
        if not source.is_file():
            target.unlink(missing_ok=True)
        elif not target.exists() or target.read_bytes() != source.read_bytes():
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(source.read_bytes())
            target.chmod(source.stat().st_mode)


FLOW_TARGETS = ["tests/run_stages"]
GRAPH_TARGETS = ["weir", "tests/run_stages", "tests/test_graph_passes"]


def build(folder, graph=None):
    targets = GRAPH_TARGETS if graph else FLOW_TARGETS if graph is not None else FLOW_TARGETS + GRAPH_TARGETS
    return subprocess.run(["ninja", "-C", folder, *dict.fromkeys(targets)], capture_output=True, text=True)


def steps(copy, folder, args, graph):
    """Commands that must end well, quick ones first."""
    stages = [folder / "tests/run_stages", "--compile", "0", "-j", str(args.jobs)]
    sample = sorted(pathlib.Path("/usr/share/libonnx-testdata/data/node").glob("*"))[::args.every]
    if graph:
        yield [folder / "tests/test_graph_passes"]
    yield stages + [copy / "tests/ir"]
    if graph:
        yield [folder / "weir", "test", *sample, "--engine", "eval", "-j", str(args.jobs)] if sample else ["true"]
        return
    yield stages + ["--every", "5", copy / "tests/kernels"]
    yield stages + ["--gpu", copy / "tests/ir"]
    yield stages + ["--skip-each", copy / "tests/ir/18_traps.ir", copy / "tests/ir/16_empty.ir"]


def run(command, env, timeout):
    """How a test ended, and what it said."""
    with subprocess.Popen([str(c) for c in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=env,
                          start_new_session=True) as process:
        try:
            out = process.communicate(timeout=timeout)[0]
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, 9)
            return "timeout", ""
    return process.returncode, out.decode(errors="replace")


def passed(command, result, good):
    """The ONNX cases' score must stay; all other tests must end with 0."""
    code, out = result
    if "test" in command[1:2]:
        return re.findall(r"(\d+) passed", out)[-1:] == good.get("onnx")
    return code == 0


def notice(m, copy, folder, args, env, good):
    """The first test that notices, or None."""
    every = list(steps(copy, folder, args, m.file in GRAPH if m else True))
    for command in every if m else every + list(steps(copy, folder, args, False)):
        result = run(command, env, args.timeout)
        if not m and "test" in command[1:2]:
            good["onnx"] = re.findall(r"(\d+) passed", result[1])[-1:]
        elif not passed(command, result, good):
            reason = next((line for line in result[1].split("\n") if "FAIL" in line or "fault" in line), "")
            return f"{pathlib.Path(command[0]).name} {pathlib.Path(command[-1]).name}: {result[0]} {reason[:150]}"
    return None


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("files", nargs="*", help="names of passes/NAME.c (default: all)")
    p.add_argument("--check", action="store_true")
    p.add_argument("--every", type=int, default=6, help="one ONNX case of N for passes over graphs")
    p.add_argument("--timeout", type=float, default=120)
    p.add_argument("-j", "--jobs", type=int, default=os.cpu_count())
    p.add_argument("--folder", type=pathlib.Path, default=ROOT / "build/mutate")
    args = p.parse_args()
    table = read_table()
    bad = check_table(table)
    print("\n".join(f"FAIL {line}" for line in bad), end="\n" if bad else "")
    if args.check or bad:
        print(f"{len(table)} mutations in the table; none yet of {', '.join(sorted(GAPS))}")
        print(f"{int(not bad)} passed, {len(bad)} failed, 0 skipped")
        return bool(bad)
    copy, folder = args.folder.resolve() / "tree", args.folder.resolve() / "build"
    copy.mkdir(parents=True, exist_ok=True)
    sync(copy)
    if not (folder / "build.ninja").exists():
        subprocess.run(["meson", "setup", folder, copy, "-Doptimization=1", "-Ddebug=false", "-Dwerror=false"], check=True,
                       stdout=subprocess.DEVNULL)
    env = {**os.environ, "XDG_CACHE_HOME": str(args.folder.resolve() / "cache")}
    whole, good = build(folder), {}
    if whole.returncode:
        sys.exit(f"error: the tree as it is does not build: {whole.stdout[-800:]}")
    if seen := notice(None, copy, folder, args, env, good):
        sys.exit(f"error: the tree as it is fails: {seen}")
    survivors, broken, noticed = [], [], 0
    for m in [m for m in table if not args.files or m.file.removesuffix(".c") in args.files]:
        path, start = copy / "passes" / m.file, time.time()
        text = path.read_text()
        path.write_text(text.replace(m.old, m.new))
        try:
            made = build(folder, m.file in GRAPH)
            seen = notice(m, copy, folder, args, env, good) if made.returncode == 0 else None
        finally:
            path.write_text(text)
            os.utime(path)
        if made.returncode:
            broken.append(m)
            print(f"FAIL {m.file}: {m.what}: does not compile: {made.stdout[-600:]}", flush=True)
        elif seen:
            noticed += 1
            print(f"{m.file}: {m.what}: {seen} ({time.time() - start:.0f} s)", flush=True)
        else:
            survivors.append(m)
            print(f"SURVIVES {m.file}: {m.what} ({time.time() - start:.0f} s)", flush=True)
    every = noticed + len(survivors) + len(broken)
    enough = noticed >= 0.95 * every
    print(f"{noticed} of {every} mutations were noticed; none were tried of {', '.join(sorted(GAPS))}")
    for m in survivors:
        print(f"{'FAIL' if not enough else 'survivor:'} passes/{m.file}: {m.what}")
    print(f"{noticed} passed, {0 if enough else len(survivors) + len(broken)} failed, "
          f"{len(survivors) + len(broken) if enough else 0} skipped")
    return not enough


if __name__ == "__main__":
    sys.exit(main())
