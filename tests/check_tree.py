#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks the source tree against the architecture: who may include whom, sizes, SPDX lines, demands of IR texts.

    tests/check_tree.py [--report] [--objects BUILD_DIR] [ROOT]
    tests/check_tree.py --self-test

Errors are printed as file:line: message and give exit status 1. --report adds a table of the longest
functions and files. --objects also checks the built static libraries for mutable globals.
"""
import os
import re
import subprocess
import sys
import tempfile

FILE_LINES, FUNCTION_LINES, FUNCTION_AIM = 600, 60, 40

TOP = {"meson.build", "meson_options.txt", "compiler", "ir", "passes", "runtime", "frontends", "tests",
       "tools", "README.md", "LICENSE"}

# Folder -> folders whose headers it may include (longest prefix wins; "" is everything else).
MAY_INCLUDE = {
    "ir": {"ir"},
    "passes": {"ir", "passes"},
    "frontends": {"ir", "frontends"},
    "runtime": {"runtime"},
    "compiler": {"ir", "passes", "frontends", "compiler", "runtime"},
    "tools": {"ir", "passes", "frontends", "compiler", "runtime", "tools"},  # they show what each holds
    "tests": {"ir", "passes", "frontends", "compiler", "runtime", "tools", "tests"},
}

# Library headers by path prefix -> the files that may include them.
MAY_USE = {
    "isl/": r"ir/poly\.[ch]|tests/.*",
    "protobuf-c/": r"frontends/onnx/.*|tests/.*",
    "llvm-c/": r"compiler/.*|tests/.*",
    "criterion/": r"tests/.*",
    "png.h": r"tools/.*|tests/.*|runtime/image/.*",
    "jpeglib.h": r"runtime/image/.*",
    "openjpeg.h": r"runtime/image/.*",
    "webp/": r"runtime/image/.*",
    "zlib.h": r"runtime/image/.*",
    "onnx.pb-c.h": r"frontends/onnx/.*|tools/weir/pb.*|tests/.*",
    "cublasLt.h": r"tests/gpu/library_numbers\.c",
    "cudnn.h": r"tests/gpu/convolution_numbers\.c",
    "mnist.h": r"tests/examples/typed\.c",  # comes with the compiled model
}

LIBC = re.compile(
    r"(assert|ctype|cpuid|dirent|dlfcn|elf|endian|errno|fcntl|fenv|float|getopt|immintrin|inttypes|"
    r"langinfo|limits|link|locale|malloc|math|poll|pthread|pwd|sched|semaphore|setjmp|signal|spawn|"
    r"stdalign|stdarg|stdatomic|stdbool|stddef|stdint|stdio|stdlib|stdnoreturn|string|strings|time|"
    r"ucontext|unistd|wait|wctype|(sys|linux|asm|netinet|arpa)/[a-z0-9_/]+)\.h$")

INCLUDE = re.compile(r'^\s*#\s*include\s+([<"])([^>"]+)[>"]')


def source_files(root):
    for folder, folders, files in os.walk(root):
        folders[:] = sorted(f for f in folders
                            if not f.startswith((".", "build", "__pycache__", "subprojects")))
        for name in sorted(files):
            yield os.path.relpath(os.path.join(folder, name), root)


def read(root, path):
    with open(os.path.join(root, path), encoding="utf-8", errors="replace") as f:
        return f.read().split("\n")


def strip_comments(lines):
    """The lines without comments and string contents, so that braces can be counted."""
    text = "\n".join(lines)
    pattern = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)

    def blank(m):
        s = m.group(0)
        return re.sub(r"[^\n]", " ", s) if s[0] == "/" else s[0] + s[-1]

    return pattern.sub(blank, text).split("\n")


def functions(lines):
    """(first line, lines, name) of each function definition; lines count from 1."""
    code = strip_comments(lines)
    i = 0
    while i < len(code):
        line = code[i]
        starts = re.match(r"[A-Za-z_]", line) and not line.startswith(("typedef", "struct ", "enum ",
                                                                       "union ", "#"))
        starts = starts or re.match(r"struct \w+ \*?\w+\(", line)
        if not starts or "(" not in line:
            i += 1
            continue
        # A head may take several lines; it ends at the first { (a function) or ; or = (not one).
        j = i
        while j < len(code) and not re.search(r"[{;=]", code[j]):
            j += 1
        if j == len(code) or not re.match(r"[^;={]*\{", code[j]):
            i = j + 1
            continue
        depth, k = 0, j
        while k < len(code):
            depth += code[k].count("{") - code[k].count("}")
            if depth == 0:
                break
            k += 1
        name = re.search(r"(\w+)\s*\(", line)
        yield i + 1, k - i + 1, name.group(1) if name else "?"
        i = k + 1


def folder_of(path):
    return path.split("/")[0]


def check_include(root, path, number, kind, name, errors):
    def error(text):
        errors.append(f"{path}:{number}: {text}")

    for prefix, allowed in MAY_USE.items():
        if name.startswith(prefix):
            if not re.fullmatch(allowed, path):
                error(f'"{name}" may not be included here; only {allowed.split("|")[0]} may')
            return
    if kind == "<":
        if not LIBC.match(name):
            error(f"<{name}> is no header of libc; see the table of folders in the architecture page")
        return
    beside = os.path.normpath(os.path.join(os.path.dirname(path), name))
    target = next((t for t in (beside, os.path.normpath(name))
                   if os.path.exists(os.path.join(root, t))), None)
    if target is None:
        error(f'"{name}" is not in the tree')
        return
    mine, theirs = folder_of(path), folder_of(target)
    if theirs not in MAY_INCLUDE.get(mine, set()):
        error(f'{mine}/ may not include "{target}"')


def check_file(root, path, errors):
    lines = read(root, path)
    while lines and not lines[-1]:
        lines.pop()
    if "SPDX-License-Identifier: Apache-2.0" not in "\n".join(lines[:3]):
        errors.append(f"{path}:1: the SPDX line is missing")
    if not path.endswith((".c", ".h")):
        return lines, []
    if len(lines) > FILE_LINES:
        errors.append(f"{path}:{FILE_LINES}: {len(lines)} lines; at most {FILE_LINES}")
    for number, line in enumerate(lines, 1):
        m = INCLUDE.match(line)
        if m:
            check_include(root, path, number, m.group(1), m.group(2), errors)
        if len(line) > 120:
            errors.append(f"{path}:{number}: {len(line)} columns; aim for 100")
    found = list(functions(lines)) if path.endswith(".c") else []
    for number, length, name in found:
        if length > FUNCTION_LINES:
            errors.append(f"{path}:{number}: {name} has {length} lines; at most {FUNCTION_LINES}")
    return lines, [(length, path, number, name) for number, length, name in found]


def operator_names(root):
    """What the frontend's operator files spell as names: passes and targets must not."""
    names = set()
    for path in source_files(root):
        if path.startswith("frontends/onnx/ops/"):
            for line in read(root, path):
                names.update(re.findall(r'"([A-Z][A-Za-z0-9]{2,})"', line))
    return names


def check_names(root, path, names, errors):
    if not path.startswith(("passes/", "compiler/targets/")):
        return
    for number, line in enumerate(read(root, path), 1):
        for name in re.findall(r'"([A-Z][A-Za-z0-9]{2,})"', line):
            if name in names:
                errors.append(f'{path}:{number}: asks for the operator "{name}"; ask what it computes')


def pass_names(root):
    path = "passes/passes.def"
    return set(re.findall(r'PASS\(\w+, "(\w+)"', "\n".join(read(root, path)))) if os.path.exists(os.path.join(root, path)) else set()


def check_demands(root, path, passes, errors):
    """What a text demands behind a pass (`run_stages.c`), said in other words, would be a comment that nobody checks."""
    lines = read(root, path)
    flows = {m.group(1) for line in lines if (m := re.match(r"(?:graph|flow|nest) ([^\s(]+)", line))}
    for number, line in enumerate(lines, 1):
        named = re.match(r"#.*\bafter (\w+)", line)
        if not named or named.group(1) not in passes:
            continue
        m = re.match(r"# (?:on gpu )?(?:(\S+) )??(?:never )?after \w+: ", line)
        if not m or (m.group(1) and m.group(1) not in flows):
            errors.append(f"{path}:{number}: demands nothing; write # [on gpu] [FLOW] [never] after PASS: TEXT")


def check_top(root, errors):
    for name in sorted(os.listdir(root)):
        if name not in TOP and not name.startswith((".", "build", "__pycache__")):
            errors.append(f"{name}:1: does not belong at the top level")


def check_tree(root):
    errors, sizes, longest = [], [], []
    names, passes = operator_names(root), pass_names(root)
    check_top(root, errors)
    for path in source_files(root):
        if path.endswith((".c", ".h", ".def", ".py", ".sh", "meson.build", "meson_options.txt")):
            lines, found = check_file(root, path, errors)
            sizes.append((len(lines), path))
            longest += found
            check_names(root, path, names, errors)
        if path.startswith("tests/") and path.endswith(".ir"):
            check_demands(root, path, passes, errors)
    return errors, sizes, longest


def check_objects(build, errors):
    """Mutable globals: objects in .data or .bss of the static libraries (not .data.rel.ro), but for
    those that hold code of others: generated, or linked in whole."""
    for folder, _, files in os.walk(build):
        for name in sorted(files):
            if not name.endswith(".a") or name in ("libonnx_pb.a", "libweir_image.a"):
                continue
            path = os.path.join(folder, name)
            table = subprocess.run(["objdump", "-t", path], capture_output=True, text=True, check=True)
            for line in table.stdout.split("\n"):
                m = re.match(r"\S+ .{6}O (\.data|\.bss)(?!\.rel)\S*\s+([0-9a-f]+)\s+(\S+)", line)
                if m and int(m.group(2), 16) and not m.group(3).startswith("__"):
                    errors.append(f"{path}:1: mutable global {m.group(3)}")


def report(sizes, longest):
    aim = sum(1 for f in longest if f[0] <= FUNCTION_AIM)
    print(f"{len(sizes)} files, {sum(s[0] for s in sizes)} lines, {len(longest)} functions, "
          f"{100 * aim / max(1, len(longest)):.1f} % of them <= {FUNCTION_AIM} lines")
    for length, path in sorted(sizes, reverse=True)[:8]:
        print(f"  {length:5} {path}")
    for length, path, number, name in sorted(longest, reverse=True)[:12]:
        print(f"  {length:5} {path}:{number} {name}")


def self_test():
    """Each rule must notice a file that breaks it, and leave a good one alone."""
    spdx = "/* SPDX-License-Identifier: Apache-2.0 */\n"
    long_function = "int f(int a,\n      int b) {\n" + "    a += b;\n" * 60 + "}\n"
    tree = {
        "ir/good.c": spdx + '#include "good.h"\n#include <stdio.h>\nint a(void) { return 1; }\n',
        "ir/good.h": spdx,
        "passes/good.c": spdx + '#include "ir/good.h"\n',
        "frontends/onnx/ops/m.c": spdx + 'const char *const n = "MatMul";\n',
        "ir/up.c": spdx + '#include "passes/p.h"\n',
        "passes/p.h": spdx,
        "passes/isl.c": spdx + "#include <isl/ctx.h>\n",
        "runtime/r.c": spdx + '#include "ir/good.h"\n',
        "ir/missing.c": spdx + '#include "nowhere.h"\n',
        "ir/nolicense.c": "int x;\n",
        "ir/long.c": spdx + long_function,
        "ir/huge.c": spdx + "\n" * 700 + "int x;\n",
        "passes/asks.c": spdx + 'int is = same(op, "MatMul");\n',
        "passes/passes.def": spdx + 'PASS(pass_fuse, "fuse", 0)\n',
        "tests/good.ir": "# on gpu f never after fuse: x\n# after fuse: y\n# what is left after all\nflow f {\n}\n",
        "tests/word.ir": "# never on gpu after fuse: x\nflow f {\n}\n",
        "tests/name.ir": "# g after fuse: x\nflow f {\n}\n",
        "stray.txt": "",
    }
    bad = {"ir/up.c": "may not include", "passes/isl.c": "may not be included", "runtime/r.c": "may not",
           "ir/missing.c": "not in the tree", "ir/nolicense.c": "SPDX", "ir/long.c": "f has 63 lines",
           "ir/huge.c": "702 lines", "passes/asks.c": "asks for", "stray.txt": "top level",
           "tests/word.ir": "demands nothing", "tests/name.ir": "demands nothing"}
    with tempfile.TemporaryDirectory() as root:
        for path, text in tree.items():
            os.makedirs(os.path.join(root, os.path.dirname(path)), exist_ok=True)
            with open(os.path.join(root, path), "w", encoding="utf-8") as f:
                f.write(text)
        errors = check_tree(root)[0]
    for path, text in bad.items():
        assert any(e.startswith(path + ":") and text in e for e in errors), (path, errors)
    assert len(errors) == len(bad), errors


def main():
    args = sys.argv[1:]
    if args == ["--self-test"]:
        self_test()
        return 0
    build = None
    if "--objects" in args:
        at = args.index("--objects")
        build = args[at + 1]
        del args[at:at + 2]
    wants_report = "--report" in args
    roots = [a for a in args if not a.startswith("-")]
    root = roots[0] if roots else os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
    errors, sizes, longest = check_tree(root)
    if build:
        check_objects(build, errors)
    for e in errors:
        print(e)
    if wants_report or not errors:
        report(sizes, longest)
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
