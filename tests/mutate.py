#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Breaks the passes on purpose and sees whether the tests notice.

    tests/mutate.py                 # all mutations; at least 95 % must be noticed
    tests/mutate.py fuse place      # those of some files
    tests/mutate.py fuse/private    # those of some files whose description holds a word
    tests/mutate.py --check         # the table alone: every line to change stands in its file, once

tests/mutations.txt holds the table: files of passes/ by name, and those that decide where barriers stand by
path. Each mutation is made in a copy of the tree (build/mutate), where one file is compiled again; then
tests that tools/check runs follow, quick ones first, until one fails or all pass. A mutation that does not
compile is a fault of the table. A survivor asks for a new test: most often a small text in tests/ir.
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
LEAST = 3  # mutations of each file
FREE = {"pipeline.c"}  # the loop around the passes
BARRIERS = {"compiler/targets/c/emit_sync.c", "compiler/targets/c/emit_program.c"}
GRAPH = {"fold.c", "infer.c", "lower.c", "simplify.c"}
RECIPES = {"recipe.c", "fuse_recipe.c", "schedule_check.c"}
PACKING = {"prepare.c"}  # runs for packings that texts are not compiled with
BLOCKS = {"fuse_pieces.c", "fuse_prologue.c", "fuse_weigh.c", "layout_last.c", "narrow_steps.c", "nests_ahead.c", "nests_box.c", "nests_carry.c", "nests_stage.c", "nests_threads.c", "nests_warps.c", "nests_warps_results.c", "nests_warps_tiles.c", "nests_weigh.c",  # of threads
          "schedule_blocks.c", "schedule_groups.c", "schedule_prologue.c", "schedule_ranges.c", "schedule_stage.c", "schedule_warps.c", "schedule_weigh.c", "split.c", "split_runs.c",
          "split_waves.c", "split_weigh.c", "weigh.c"}
SLOWER, LONGEST = 3, 1800  # a broken tree's test may take so many times as long; seconds of one of the tree as it is
BOTH = {"schedule_merge.c"}  # of threads, and of this processor
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


def source(m, root=ROOT):
    return root / (m.file if "/" in m.file else f"passes/{m.file}")


def check_table(table):
    """What is wrong with it, as lines."""
    bad = []
    count = collections.Counter(m.file for m in table)
    for name in sorted({path.name for path in (ROOT / "passes").glob("*.c")} - FREE | BARRIERS):
        if count[name] < LEAST:
            bad.append(f"{name} has {count[name]} mutations, not {LEAST}")
    for m in table:
        path = source(m)
        times = path.read_text().count(m.old) if path.exists() and m.old else 0
        if times != 1:
            bad.append(f"mutations.txt:{m.line}: \"{m.what}\": the lines stand {times} times in {m.file}")
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


UNITS = ["ahead", "passes", "fuse", "move", "driver", "abi", "graph_passes", "library", "waves"]


def build(folder, commands):
    """Makes what the commands run."""
    targets = {str(w.relative_to(folder)) for c in commands for w in c if isinstance(w, pathlib.Path) and w.is_relative_to(folder)}
    return subprocess.run(["ninja", "-C", folder, *sorted(targets)], capture_output=True, text=True)


def steps(copy, folder, args, file):
    """Commands that must end well, quick ones first, for a change of `file`."""
    stages = [folder / "tests/run_stages", "-j", args.jobs]
    texts, kernels = copy / "tests/ir", copy / "tests/kernels"
    unit = {name: [folder / f"tests/test_{name}"] for name in UNITS}
    recipes = [sys.executable, copy / "tests/recipes.py", "--weir", folder / "weir"]
    if file in BARRIERS:
        return [stages + [texts]]
    if file in RECIPES:
        return [recipes]
    if file in PACKING:
        return [unit["driver"], unit["abi"], [sys.executable, copy / "tests/cli.py", "--weir", folder / "weir"]]
    if file == "schedule_prefetch.c":
        return [unit["ahead"]]
    if file.startswith("library"):
        return [unit["library"]]
    hot = stages + ["--gpu", copy / "tests/cuda/hot"]
    if file in BLOCKS:
        return [*([unit["waves"]] if file == "split_waves.c" else []), hot, stages + ["--gpu", texts], stages + ["--gpu", "--every", 8, kernels]]
    if file in GRAPH:
        sample = sorted(pathlib.Path("/usr/share/libonnx-testdata/data/node").glob("*"))[::args.every]
        cases = [folder / "weir", "test", *sample, "--engine", "eval", "-j", args.jobs]
        return [unit["graph_passes"], stages + ["--compile", 0, texts]] + ([cases] if sample else [])
    return [stages + ["--compile", 0, texts], unit["fuse"], unit["move"], stages + ["--gpu", texts],
            stages + ["--compile", 0, "--every", 5, kernels], unit["passes"],
            stages + ["--compile", 0, "--skip-each", texts / "18_traps.ir", texts / "16_empty.ir"], recipes,
            *([hot] if file in BOTH else []), *([unit["library"]] if file == "convert.c" else [])]


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


def notice(commands, args, env, good, took):
    """The first test that notices, or None; `took`: seconds that each takes of the tree as it is."""
    for command in commands:
        result = run(command, env, max(args.timeout, SLOWER * took[str(command)]))
        if not passed(command, result, good):
            reason = next((line for line in result[1].split("\n") if re.search("FAIL|fault|Assertion", line)), "")
            return f"{pathlib.Path(command[0]).name} {pathlib.Path(str(command[-1])).name}: {result[0]} {reason[:150]}"
    return None


def wanted(m, names):
    """Is it of a file `NAME`, or `NAME/WORD` with a word of its description?"""
    stem = pathlib.Path(m.file).stem
    return not names or any(stem == n.split("/")[0] and n.partition("/")[2] in m.what for n in names)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("files", nargs="*", help="NAME or NAME/WORD of a file NAME.c (default: all)")
    p.add_argument("--check", action="store_true")
    p.add_argument("--quick", action="store_true", help="only the first two tests of each")
    p.add_argument("--every", type=int, default=6, help="one ONNX case of N for passes over graphs")
    p.add_argument("--timeout", type=float, default=120, help="seconds of a test, at least")
    p.add_argument("-j", "--jobs", type=int, default=os.cpu_count())
    p.add_argument("--folder", type=pathlib.Path, default=ROOT / "build/mutate")
    args = p.parse_args()
    table = read_table()
    bad = check_table(table)
    print("\n".join(f"FAIL {line}" for line in bad), end="\n" if bad else "")
    if args.check or bad:
        print(f"{len(table)} mutations in the table")
        print(f"{int(not bad)} passed, {len(bad)} failed, 0 skipped")
        return bool(bad)
    copy, folder = args.folder.resolve() / "tree", args.folder.resolve() / "build"
    copy.mkdir(parents=True, exist_ok=True)
    sync(copy)
    if not (folder / "build.ninja").exists():
        subprocess.run(["meson", "setup", folder, copy, "-Doptimization=1", "-Ddebug=false", "-Dwerror=false"], check=True,
                       stdout=subprocess.DEVNULL)
    env = {**os.environ, "XDG_CACHE_HOME": str(args.folder.resolve() / "cache")}
    table = [m for m in table if wanted(m, args.files)]
    whole, good, took = [], {}, {}
    for file in dict.fromkeys(m.file for m in table):
        whole += [c for c in steps(copy, folder, args, file)[:2 if args.quick else None] if c not in whole]
    made = build(folder, whole)
    if made.returncode:
        sys.exit(f"error: the tree as it is does not build: {made.stdout[-800:]}")
    for command in whole:
        start = time.time()
        result = run(command, env, LONGEST)
        took[str(command)] = time.time() - start
        if "test" in command[1:2]:
            good["onnx"] = re.findall(r"(\d+) passed", result[1])[-1:]
        elif result[0] != 0:
            sys.exit(f"error: the tree as it is fails: {command[0]} {command[-1]}: {result[0]} {result[1][-300:]}")
    survivors, broken, noticed = [], [], 0
    for m in table:
        path, start = source(m, copy), time.time()
        text, commands = path.read_text(), steps(copy, folder, args, m.file)[:2 if args.quick else None]
        path.write_text(text.replace(m.old, m.new))
        try:
            made = build(folder, commands)
            seen = notice(commands, args, env, good, took) if made.returncode == 0 else None
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
    print(f"{noticed} of {every} mutations were noticed")
    for m in survivors:
        print(f"{'FAIL' if not enough else 'survivor:'} {m.file}: {m.what}")
    print(f"{noticed} passed, {0 if enough else len(survivors) + len(broken)} failed, "
          f"{len(survivors) + len(broken) if enough else 0} skipped")
    return not enough


if __name__ == "__main__":
    sys.exit(main())
