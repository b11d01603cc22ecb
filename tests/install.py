#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Installs a build into a folder under it and uses it from there, as the build itself, the way a stranger would.

    tests/install.py [--build build] [--only NAME]...

Each function test_NAME gets an `Installed`. What cannot be tried on this machine is skipped with its reason.
The last line is "N passed, N failed, N skipped".
"""
import argparse
import os
import pathlib
import pty
import re
import select
import shutil
import subprocess
import sys
import tempfile
import time

from harness import Skip, run_tests, tests_of

ROOT = pathlib.Path(__file__).resolve().parents[1]
EXAMPLES = ROOT / "tests/examples"
MNIST = ROOT / "tests/data/mnist/mnist_cntk.onnx"


class Installed:
    """A build, what `meson install` made of it (`root`, with the prefix), and a folder to work in."""

    def __init__(self, build, work):
        self.build, self.work, stage = build.resolve(), work, build.resolve() / "stage"
        shutil.rmtree(stage, ignore_errors=True)
        run("meson", "install", "-C", self.build, "--no-rebuild", "--quiet", "--destdir", stage)
        self.root = next(path.parent.parent for path in stage.rglob("bin/weir"))
        self.libraries = next(self.root.rglob("libweir.so")).parent
        self.env = dict(os.environ, XDG_CACHE_HOME=str(work / "cache"), LD_LIBRARY_PATH=str(self.libraries), LC_ALL="C",
                        PATH=f"{self.root}/bin:{os.environ['PATH']}")

    def run(self, *words, **env):
        return run(*words, cwd=self.work, env=dict(self.env, **env))


def run(*words, **more):
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=240, **more)
    assert done.returncode == 0, f"$ {' '.join(map(str, words))}\n{done.stdout[-2000:]}{done.stderr[-2000:]}"
    return done.stdout


def need(program):
    if not shutil.which(program):
        raise Skip(f"there is no {program}")


def verbs(there):
    return re.findall(r"^  weir (\w+) ", there.run("weir", "--help"), re.M)


# ---- the library -------------------------------------------------------------------------------------------


def test_symbols(there):
    """libweir.so shows what weir.h declares, no more and no less, under its soname."""
    header = re.sub(r"/\*.*?\*/", "", (there.root / "include/weir/compiler/weir.h").read_text(), flags=re.S)
    declared = set(re.findall(r"^(?!typedef).*?\b(weir_\w+)\(", header, re.M))
    table = there.run("nm", "-D", "--defined-only", there.libraries / "libweir.so")
    shown = {line.split()[-1] for line in table.splitlines()}
    assert shown == declared, f"shown but not declared {shown - declared}, declared but not shown {declared - shown}"
    soname = re.search(r"SONAME.*\[(.*)\]", there.run("readelf", "-d", there.libraries / "libweir.so")).group(1)
    assert re.fullmatch(r"libweir\.so\.\d+", soname) and (there.libraries / soname).exists(), soname


def consumer(there, flags, library_path):
    there.run("cc", "-Wall", "-Wextra", "-Werror", EXAMPLES / "memory.c", "-o", "memory", *flags)
    needed = there.run("readelf", "-d", "memory")
    assert "libweir.so." in needed and "LLVM" not in needed, needed
    assert there.run("./memory", MNIST, LD_LIBRARY_PATH=str(library_path)) == "digit 1\n"


def test_uninstalled(there):
    """A program on the build folder, by the pkg-config file for that."""
    need("pkg-config")
    flags = there.run("pkg-config", "--cflags", "--libs", "weir", PKG_CONFIG_PATH=str(there.build / "meson-uninstalled"))
    consumer(there, flags.split(), there.build / "compiler")


def package(there, *words):
    words = ["pkg-config", f"--define-variable=prefix={there.root}", *words]
    return there.run(*words, PKG_CONFIG_PATH=str(there.libraries / "pkgconfig")).split()


def test_pkg_config(there):
    """A program on the installed files alone."""
    need("pkg-config")
    flags = package(there, "--cflags", "--libs", "weir")
    assert str(ROOT / "compiler") not in " ".join(flags), flags
    consumer(there, flags, there.libraries)
    there.run("weir", "compile", MNIST, "-o", "mnist.so")
    there.run("cc", EXAMPLES / "threads.c", "-o", "threads", *package(there, "--cflags", "--libs", "weir_rt"), "-ldl")
    assert there.run("./threads", "./mnist.so") == "1 models share a pool of 2 threads\n"


def test_cmake(there):
    """The same by find_package, the model compiled by the project."""
    need("cmake")
    there.run("cmake", "-S", EXAMPLES, "-B", "cmake", f"-DCMAKE_PREFIX_PATH={there.root}", f"-DMODEL={MNIST}")
    there.run("cmake", "--build", "cmake")
    assert there.run("cmake/embed", "cmake/mnist.so") == "digit 1\n"
    assert there.run("cmake/typed") == "digit 1\n"
    assert there.run("cmake/memory", MNIST) == "digit 1\n"
    assert there.run("cmake/threads", "cmake/mnist.so") == "1 models share a pool of 2 threads\n"
    newer = "find_package(weir 99.0)\nif(weir_FOUND)\n  message(FATAL_ERROR \"of any version\")\nendif()\n"
    (there.work / "newer").mkdir()
    (there.work / "newer/CMakeLists.txt").write_text("cmake_minimum_required(VERSION 3.16)\nproject(newer C)\n" + newer)
    there.run("cmake", "-S", "newer", "-B", "newer/build", f"-DCMAKE_PREFIX_PATH={there.root}")


def test_cpp_headers(there):
    """Each installed header alone, in C and in C++, with no other folder in sight."""
    headers = sorted((there.root / "include/weir").rglob("*.h"))
    assert len(headers) >= 4, headers
    for header in headers:
        for language in ("c", "c++"):
            if language == "c" or shutil.which("c++"):
                there.run("cc", "-x", language, "-fsyntax-only", "-Wall", "-Wextra", "-Werror", "-I", there.root / "include/weir",
                          "-include", header, "/dev/null")


def test_python(there):
    """The Python package finds the library that was installed with the command on the path."""
    if subprocess.run(["python3", "-c", "import numpy"], capture_output=True).returncode:
        raise Skip("there is no NumPy for Python")
    say = "import sys, weir; print([p.name for p in weir.compile(sys.argv[1]).inputs])"
    said = there.run("python3", "-c", say, MNIST, PYTHONPATH=str(ROOT / "tools/python"), LD_LIBRARY_PATH="", WEIR_LIBRARY="")
    assert said == "['Input3']\n", said


# ---- pages and completions ---------------------------------------------------------------------------------


def test_pages(there):
    """A page for every verb, with every option that its help lists, in good form."""
    pages = there.root / "share/man/man1"
    assert {path.name for path in pages.iterdir()} == {"weir.1"} | {f"weir-{verb}.1" for verb in verbs(there)}
    for verb in verbs(there):
        text = (pages / f"weir-{verb}.1").read_text().replace("\\-", "-")
        for option in re.findall(r"^  (-\S+)", there.run("weir", verb, "--help"), re.M):
            assert f"\\fB{option}\\fR" in text, f"weir-{verb}.1 lacks {option}"
    need("man")
    for path in pages.iterdir():
        done = subprocess.run(["man", "--warnings", "-E", "UTF-8", "-l", "-Tutf8", path], capture_output=True, text=True,
                              env=dict(os.environ, MANPAGER="cat", MANWIDTH="100"))
        assert done.returncode == 0 and not done.stderr and path.stem in done.stdout, f"{path}: {done.stderr}"


def test_bash(there):
    need("bash")
    script = there.root / "share/bash-completion/completions/weir.bash"

    def complete(*words):
        """For the last of the words."""
        call = f"COMP_WORDS=({' '.join(words)}); COMP_CWORD={len(words) - 1}; _weir; echo \"${{COMPREPLY[@]}}\""
        return there.run("bash", "-c", f'source "{script}"; {call}').split()

    assert set(verbs(there)) <= set(complete("weir", '""')), complete("weir", '""')
    assert complete("weir", "compile", "--math", '""') == ["strict", "default", "fast"]
    assert complete("weir", "dump", "--format", '""') == ["text", "dot", "svg", "json", "html"]
    assert {"codes", "passes", "W012", "fuse"} <= set(complete("weir", "explain", '""'))
    assert all(re.fullmatch(r"W01\d", word) for word in complete("weir", "explain", "W01")) and "memory" not in complete("weir", "explain", '""')
    assert "--math" in complete("weir", "tune", "--m") and "--math" not in complete("weir", "verify", "--m")
    assert "fuse" in complete("weir", "compile", "--skip", '""')
    assert complete("weir", "run", "--out") == ["--output-dir"]


def test_zsh(there):
    """What the function hands to zsh's own: the specs of the verb that stands there."""
    need("zsh")
    script = there.root / "share/zsh/site-functions/_weir"
    stand_ins = "_arguments() { print -l -- $@ }; _describe() { print -l -- ${(P)2} }; "
    given = there.run("zsh", "-fc", stand_ins + f"words=(weir run --); CURRENT=3; source {script}").splitlines()
    assert "--output-dir" in " ".join(given) and "*:file:_files" in given, given
    assert any("(strict default fast)" in spec for spec in given), given
    listed = there.run("zsh", "-fc", stand_ins + f"words=(weir); CURRENT=2; source {script}").splitlines()
    assert {line.split(":")[0] for line in listed} == set(verbs(there)), listed


def typed(site, keys):
    """The line that an interactive zsh makes of these keys with the function in `site`."""
    try:
        pid, screen = pty.fork()
    except OSError as error:
        raise Skip(f"no terminal to be had: {error}") from None
    if pid == 0:
        os.execvpe("zsh", ["zsh", "-f", "-i"], {"TERM": "dumb", "PATH": os.environ["PATH"], "HOME": "/nonexistent"})
    seen = b""

    def until(mark):
        nonlocal seen
        end = time.monotonic() + 30
        while mark not in seen and time.monotonic() < end:
            if select.select([screen], [], [], 0.2)[0]:
                seen += os.read(screen, 4096)
        assert mark in seen, seen

    os.write(screen, f"fpath=({site} $fpath); autoload -Uz compinit; compinit -u -D; PS1=; echo rea''dy\n".encode())
    until(b"ready\r\n")
    os.write(screen, keys.encode() + b"\x01print -r -- 'ma''de' \x05; echo en''d\n")
    until(b"\nend\r\n")
    os.close(screen)
    os.waitpid(pid, 0)
    return seen.decode().split("\nmade ")[1].split("\r\n")[0].strip()


def test_zsh_typed(there):
    need("zsh")
    site = there.root / "share/zsh/site-functions"
    for keys, line in (("weir prof\t", "weir profile"), ("weir run --thr\t", "weir run --threads"),
                       ("weir compile --math st\t", "weir compile --math strict"),
                       (f"weir compile {MNIST.parent}/mnist_c\t", f"weir compile {MNIST}")):
        assert typed(site, keys) == line, (keys, typed(site, keys))


# ---- all ---------------------------------------------------------------------------------------------------


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--only", action="append")
    args = parser.parse_args()
    tests = tests_of(globals())
    with tempfile.TemporaryDirectory() as folder:
        there = Installed(args.build, pathlib.Path(folder))
        return run_tests(args.only or tests, lambda name: tests[name](there))


if __name__ == "__main__":
    sys.exit(main())
