#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Holds README.md to what it says.

    tests/readme.py [--build BUILD] [--readme README.md]

Its commands ("    $ ...") are run in a folder that sees the tree's build/ and tests/, one after the other,
and must print what stands below them: "..." stands for any lines, at the end of a line for any rest of it; a
number may differ by a factor of two (a time, a size on disk, an address by any), words may not. The C
program is tests/examples/embed.c and is built and run by the line above it. The table of times is the
measured one, and the map names the folders that there are. The last line is "N passed, N failed, N skipped".
"""
import argparse
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
NUMBER = re.compile(r"-?\b\d[\d,]*(?:\.\d+)?(?:e[-+]\d+)?(?=[kMGT]?\b)")
ANY = re.compile(r"\(0x[0-9a-f]+\)|[\d.,]+ (ms|MB|KiB|CPUs|runs|objects|of)\b|\b\d+ ulp\b|(?<=ms  )min [\d.]+|\bp90 [\d.]+")
TIMEOUT = 60


def numbers_agree(want, got):
    want, got = (float(text.replace(",", "")) for text in (want, got))
    return want == got or want * got > 0 and 0.5 <= want / got <= 2 or max(abs(want), abs(got)) < 1e-5


def line_agrees(want, got):
    want, got = (" ".join(ANY.sub("#", line).split()) for line in (want, got))
    cut = want.endswith("...") and not want.endswith(", ...]")
    if cut:
        want = want[:-3].rstrip()
    words = NUMBER.split(want)
    rest = got
    pattern = r"(-?\d[\d,]*(?:\.\d+)?(?:e[-+]\d+)?)".join(re.escape(word) for word in words) + ("" if cut else r"$")
    found = re.match(pattern, rest)
    return bool(found) and all(numbers_agree(a, b) for a, b in zip(NUMBER.findall(want), found.groups()))


def lines_agree(want, got):
    """The first line of `want` that nothing in `got` answers to, or None. "..." skips lines."""
    at, skipping = 0, False
    for line in want:
        if line.strip() == "...":
            skipping = True
            continue
        while at < len(got) and skipping and not line_agrees(line, got[at]):
            at += 1
        if at == len(got) or not line_agrees(line, got[at]):
            return line
        at, skipping = at + 1, False
    return None if skipping or at == len(got) else "(nothing more), but got " + got[at]


def commands(text):
    """(command, lines below it) of each indented block's "$" lines."""
    found = []
    for line in text.split("\n"):
        if line.startswith("    $ "):
            found.append((line[6:], []))
        elif line.startswith("    ") and found and found[-1][1] is not None:
            found[-1][1].append(line[4:])
        elif found:
            found.append((None, None))
    return [(command, below) for command, below in found if command]


def check_commands(text, work):
    for command, below in commands(text):
        done = subprocess.run(command, shell=True, cwd=work, capture_output=True, text=True, timeout=TIMEOUT,
                              env=dict(os.environ, XDG_CACHE_HOME=str(work / "cache"), LANG="C"))
        missing = lines_agree(below, done.stdout.splitlines())
        wrong = f"exit code {done.returncode}" if done.returncode else missing and f"no line like: {missing}"
        yield f"$ {command}", wrong and f"{wrong}\n{done.stdout[-3000:]}{done.stderr[-500:]}"


def check_program(text, work):
    """The C block, built and run as the sentence before it says."""
    block = re.search(r"```c\n(.*?)```", text, re.S).group(1)
    line, said = re.search(r"`(cc tests/examples/embed\.c .*?)`\s+prints\s+`(.*?)`", text, re.S).groups()
    yield "the program is tests/examples/embed.c", None if (ROOT / "tests/examples/embed.c").read_text().endswith(
        block) else "it is not"
    yield "the program has 30 lines or so", None if block.count("\n") <= 33 else "it has more"
    (work / "embed.c").write_text(block)
    done = subprocess.run(" ".join(line.split()).replace("tests/examples/", "").replace("-I .", f"-I {ROOT} -Wall -Wextra -Werror"), shell=True,
                          cwd=work, capture_output=True, text=True)
    yield f"$ {line}", None if done.stdout == said + "\n" else f"{done.stdout}{done.stderr}"


def rows(text):
    """First cell -> other cells of each table row of ours."""
    cells = (re.findall(r"[^|]+", line) for line in text.split("\n") if line.startswith("| "))
    return {row[0].strip(" `"): [cell.strip() for cell in row[1:]] for row in cells if len(row) > 1}


def check_table(text):
    named = re.search(r"on (\d{4}-\d\d-\d\d)", text).group(1)
    measured = ROOT / f"tests/results/compare-{named}.md"
    if not measured.exists():
        yield "the table's measurement", f"{measured} is not there"
        return
    results = measured.read_text()
    heads = [cell.strip() for cell in re.search(r"^\| model .*", results, re.M).group(0).strip("|").split("|")]
    columns = [heads.index(name) - 1 for name in ("weir ms", "ort ms", "ov ms")]
    facts = rows(results)
    compared = text[text.index("## How it compares"):].split("\n## ")[0]
    for model, cells in rows(compared).items():
        if model in ("model", "---") or "-" in model[:2]:
            continue
        wrong = model not in facts or [cell for cell, column in zip(cells, columns)
                                       if abs(float(cell) - float(facts[model][column])) > max(0.0051, 0.006 * float(cell))]
        yield f"the times of {model}", wrong and f"{cells} is not what {measured.name} says"


def check_folders(text):
    listed = {name.strip("`/") for name in rows(text[text.index("## Folders"):]) if "/" in name}
    there = {path.name for path in ROOT.iterdir() if path.is_dir() and not path.name.startswith((".", "build"))}
    yield "the map of folders", None if listed == there else f"listed {sorted(listed)}, there are {sorted(there)}"


def self_test():
    assert line_agrees("a 1.5 ms  b 3", "a 99 ms b 4") and not line_agrees("a 3", "a 7") and not line_agrees("a 3", "b 3")
    assert line_agrees("x: f32[1,10]  min -3.4 ...", "x: f32[1,10]  min -3.41  max 2")
    assert not line_agrees("x min -3.4", "x min 3.4") and line_agrees("size 6.27k", "size 6.3k")
    assert lines_agree(["a", "...", "d"], list("abcd")) is None and lines_agree(["a", "..."], list("abc")) is None
    assert lines_agree(["a", "d"], list("abcd")) == "d" and lines_agree(["a"], ["a", "b"]) is not None


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--readme", type=pathlib.Path, default=ROOT / "README.md")
    args = parser.parse_args()
    self_test()
    text = args.readme.read_text()
    passed = failed = 0
    with tempfile.TemporaryDirectory() as folder:
        work = pathlib.Path(folder)
        (work / "build").symlink_to(args.build.resolve())
        for name in ("tests", "tools", "runtime"):
            (work / name).symlink_to(ROOT / name)
        for checks in (check_commands(text, work), check_program(text, work), check_table(text), check_folders(text)):
            for what, wrong in checks:
                passed, failed = passed + (not wrong), failed + bool(wrong)
                if wrong:
                    print(f"FAIL {what}: {wrong}")
    print(f"{passed} passed, {failed} failed, 0 skipped")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
