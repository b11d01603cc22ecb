#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What goes wrong around a compilation: disks that are full, folders that cannot be written to, signals, several
compilers at once, damaged caches. Whatever happens, a library is whole or is not there.

    tests/faults.py [--weir build/weir] [--kills N] [--only NAME]...

Each function test_NAME gets a `Place`. What cannot be tried on this machine is skipped with its reason. The last line is
"N passed, N failed, N skipped".
"""
import argparse
import glob
import hashlib
import os
import pathlib
import random
import re
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time

from harness import Skip, run_tests, tests_of

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests/bad"))
import wire  # noqa: E402

MODEL = ROOT / "tests/data/demo/ultraface_rfb_320.onnx"
SMALL = ROOT / "tests/data/mnist/mnist_cntk.onnx"


class Place:
    """A folder to work in, with a cache of its own, and weir."""

    def __init__(self, weir, folder, kills):
        self.weir, self.folder, self.kills = weir.resolve(), pathlib.Path(folder), kills
        self.out = self.folder / "out"
        self.out.mkdir()
        self.env = dict(os.environ, XDG_CACHE_HOME=str(self.folder / "cache"), LC_ALL="C")

    def start(self, *words, **more):
        return subprocess.Popen([str(self.weir), *map(str, words)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                cwd=self.folder, env=self.env, **more)

    def run(self, *words, code=0, env=None):
        done = subprocess.run([str(self.weir), *map(str, words)], capture_output=True, text=True, cwd=self.folder,
                              env=dict(self.env, **(env or {})), timeout=120)
        assert done.returncode == code, f"{words}: exit code {done.returncode}\n{done.stderr[-800:]}"
        return done.stderr

    def objects(self):
        return sorted((self.folder / "cache/weir/objects").rglob("*")) if (self.folder / "cache/weir").exists() else []

    def left(self):
        """What lies in the folder of libraries, hidden files too."""
        return sorted(path.name for path in self.out.iterdir())


def digest(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def children_named(*names):
    """Processes by name that the command at hand started (they share its session id), as /proc tells it."""
    found = []
    for folder in pathlib.Path("/proc").iterdir():
        try:
            if folder.name.isdigit() and (folder / "comm").read_text().strip() in names \
                    and os.getsid(int(folder.name)) == children_named.session:
                found.append(folder.name)
        except OSError:
            pass
    return found


children_named.session = None


# ---- ends ----------------------------------------------------------------------------------------------------


def test_killed(place):
    """SIGKILL at a random moment: the library is the whole one or is not there, and nothing else is left of it."""
    library = place.out / "m.so"
    start = time.monotonic()
    place.run("compile", MODEL, "-o", library)
    whole, takes = digest(library), time.monotonic() - start
    library.unlink()
    rng, finished = random.Random(1), 0
    for k in range(place.kills):
        if k % 2 == 0 and (place.folder / "cache").exists():  # the last one may have been killed before it made it
            shutil.rmtree(place.folder / "cache")
        process = place.start("compile", MODEL, "-o", library, start_new_session=True)
        time.sleep(rng.random() * takes)
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        process.communicate()
        if library.exists():
            finished += 1
            assert digest(library) == whole, f"kill {k}: another library"
            library.unlink()
        assert not place.left(), f"kill {k} left {place.left()}"
    place.run("compile", MODEL, "-o", library)
    assert digest(library) == whole and finished < place.kills


def test_signals(place):
    """SIGINT and SIGTERM: the exit code says so, no library, no file, no process is left, within a second or so."""
    for number in (signal.SIGINT, signal.SIGTERM):
        for wait in (0.05, 0.3, 0.6):
            shutil.rmtree(place.folder / "cache", ignore_errors=True)
            process = place.start("compile", MODEL, "-o", place.out / "m.so", start_new_session=True)
            children_named.session = process.pid
            time.sleep(wait)
            process.send_signal(number)
            began = time.monotonic()
            _, said = process.communicate(timeout=30)
            if process.returncode == 0:
                (place.out / "m.so").unlink()
                continue
            ends = (128 + number, -number)  # the second: before it had come so far as to take signals
            assert process.returncode in ends, f"{number} after {wait} s: {process.returncode}\n{said}"
            assert time.monotonic() - began < 5 and not place.left(), place.left()
            assert not children_named("clang-19", "clang", "ld.lld", "weir"), "a process lives on"


def test_short_lived(place):
    """Libraries that only this process is to see: SIGINT, while they are compiled or run, leaves no folder and no process."""
    place.run("compile", MODEL, "-o", place.folder / "m.so")
    place.env["TMPDIR"] = str(place.out)
    for words in (("bench", MODEL, "--min-time", 60), ("run", MODEL, "--engine=library", "--random=1"), ("verify", place.folder / "m.so", MODEL)):
        for found in (False, True):  # before the library is there, and when it is
            shutil.rmtree(place.folder / "cache", ignore_errors=True)
            process = place.start(*words, start_new_session=True)
            children_named.session = process.pid
            # glob.glob, not Path.glob: a folder that goes while it is listed is no error
            while process.poll() is None and not glob.glob(f"{place.out}/*/m*.so" if found else f"{place.out}/*"):
                time.sleep(0.005)
            process.send_signal(signal.SIGINT)
            _, said = process.communicate(timeout=30)
            assert process.returncode in (0, 128 + signal.SIGINT), f"{words}: {process.returncode}\n{said}"
            assert not place.left(), f"{words} left {place.left()}"
            until = time.monotonic() + 10  # what is ended takes a moment to be gone
        while process.returncode and children_named("weir") and time.monotonic() < until:
            time.sleep(0.05)
        assert process.returncode == 0 or not children_named("weir"), "a process lives on"


def test_limits(place):
    """--max-time and --max-memory: a message, and nothing is left."""
    out = place.out / "m.so"
    assert re.search("W011.*max-time", place.run("compile", MODEL, "-o", out, "--max-time", "0.01", code=1))
    assert re.search("W011.*max-memory", place.run("compile", MODEL, "-o", out, "--max-memory", "500K", code=1))
    assert not place.left()
    place.run("compile", MODEL, "-o", out, "--max-time", "100", "--max-memory", "2G")
    out.unlink()
    greedy = place.folder / "greedy"
    greedy.write_text("#!/usr/bin/env python3\nimport time\nmuch = bytearray(b'x' * (400 << 20))\ntime.sleep(60)\n")
    greedy.chmod(0o755)
    started = time.monotonic()
    assert re.search("W011.*max-memory", place.run("compile", SMALL, "-o", out, "--cache=no", "--max-memory", "200M",
                                                   code=1, env={"WEIR_CLANG": str(greedy)}))
    assert time.monotonic() - started < 30 and not place.left()


def test_external_data(place):
    """Weights outside of the model's folder, by a path and by a link: refused, unless the option says otherwise."""
    inside, weights = place.folder / "inside", place.folder / "w.bin"
    inside.mkdir()
    weights.write_bytes(struct.pack("<6f", *range(6)))
    (inside / "link.bin").symlink_to(weights)
    (inside / "own.bin").write_bytes(weights.read_bytes())
    made = set()
    for location in ("own.bin", "link.bin", "../w.bin", str(weights)):
        weight = wire.external("w", [2, 3], location=location)
        graph = wire.graph([wire.node("Add", ["x", "w"], ["y"])], [wire.value_info("x", [2, 3])], [wire.value_info("y", [2, 3])], [weight])
        (inside / "m.onnx").write_bytes(wire.model(graph))
        if location != "own.bin":
            assert "W016" in place.run("compile", "inside/m.onnx", "-o", "m.so", code=1)
        place.run("compile", "inside/m.onnx", "-o", "m.so", "--external-data", "anywhere")
        place.run("run", "m.so", "--random", "1", "--output-dir", "o")
        made.add((place.folder / "o/y.npy").read_bytes())
    assert len(made) == 1


# ---- disks ---------------------------------------------------------------------------------------------------


def mounted(place, options, script):
    """Runs a shell script in a namespace of its own where out/ is a file system of its own."""
    inside = f"mount -t tmpfs {options} none '{place.out}' && {script}"
    for words in (["unshare", "-m"], ["unshare", "-rm"]):
        if shutil.which("unshare") and subprocess.run([*words, "sh", "-c", f"mount -t tmpfs none '{place.out}'"],
                                                      capture_output=True).returncode == 0:
            return subprocess.run([*words, "sh", "-c", inside], capture_output=True, text=True, env=place.env, cwd=place.folder)
    raise Skip("mounting is not allowed here")


def test_disk_full(place):
    """The library does not fit: a message, and the old one stays."""
    place.run("compile", SMALL, "-o", "old.so")
    done = mounted(place, "-o size=200k", f"cp old.so out/m.so && '{place.weir}' compile '{MODEL}' -o out/m.so; echo $?; "
                                          "ls -A out; cmp old.so out/m.so && echo same")
    assert done.stdout.split() == ["1", "m.so", "same"] and "No space left" in done.stderr, done.stdout + done.stderr


def test_weights_disk_full(place):
    done = mounted(place, "-o size=100k", f"'{place.weir}' compile '{MODEL}' --weights file -o out/m.so; echo $?; ls -A out")
    assert done.stdout.split() == ["1"] and "No space left" in done.stderr, done.stdout + done.stderr


def test_cache_disk_full(place):
    """A cache that cannot grow is done without; an entry that was cut off is none."""
    done = mounted(place, "-o size=40k", f"export XDG_CACHE_HOME=$PWD/out; for i in 1 2; do '{place.weir}' compile '{MODEL}' -o m$i.so"
                                         " || exit; done; cmp m1.so m2.so && echo same; find out -name 'new-*'")
    assert done.stdout.split() == ["same"], done.stdout + done.stderr


def test_read_only(place):
    done = mounted(place, "", f"mount -o remount,ro '{place.out}'; '{place.weir}' compile '{SMALL}' -o out/m.so; echo $?; "
                              f"XDG_CACHE_HOME=$PWD/out '{place.weir}' compile '{SMALL}' -o m.so && echo made")
    assert done.stdout.split() == ["1", "made"] and "Read-only" in done.stderr, done.stdout + done.stderr


# ---- the cache -----------------------------------------------------------------------------------------------


def test_damaged_cache(place):
    """Entries cut, emptied, with a bit changed: noticed, made again."""
    place.run("compile", SMALL, "-o", "a.so")
    entries = [path for path in place.objects() if path.is_file()]
    assert entries and oct((place.folder / "cache/weir").stat().st_mode)[-3:] == "700"
    damages = (lambda b: b[:len(b) // 2], lambda b: b"", lambda b: b[:-1] + bytes([b[-1] ^ 1]), lambda b: b[:45] + b"\xff" + b[46:],
               lambda b: bytes(len(b)), lambda b: b[:9] + bytes([b[9] ^ 128]) + b[10:])
    for damage in damages:
        for entry in entries:
            entry.write_bytes(damage(entry.read_bytes()))
        place.run("compile", SMALL, "-o", "b.so")
        assert digest(place.folder / "a.so") == digest(place.folder / "b.so")
    for entry in entries:
        entry.unlink()
        entry.symlink_to(place.folder / "a.so")
    place.run("compile", SMALL, "-o", "b.so")
    assert digest(place.folder / "a.so") == digest(place.folder / "b.so")


def test_shared_cache(place):
    """Four compilers at once, with one cache and one library: all end well, all write the same."""
    for _ in range(3):
        shutil.rmtree(place.folder / "cache", ignore_errors=True)
        running = [place.start("compile", MODEL, "-o", place.out / name) for name in ("a.so", "a.so", "b.so", "c.so")]
        for process in running:
            _, said = process.communicate(timeout=120)
            assert process.returncode == 0, said
        assert place.left() == ["a.so", "b.so", "c.so"] and len({digest(path) for path in place.out.iterdir()}) == 1


def test_bounded_cache(place):
    """Several times what the cache may hold; a folder of it keeps what is below three quarters of its sixteenth."""
    for k in range(12):
        place.run("compile", SMALL, "-o", "m.so", "--cpu", ("x86-64-v2", "x86-64-v3", "x86-64-v4")[k % 3],
                  *([], ["--skip=fuse"], ["--skip=layout"], ["--skip=clean"])[k // 3], env={"WEIR_CACHE_BYTES": "160000"})
    held = sum(path.stat().st_size for path in place.objects() if path.is_file())
    assert 0 < held <= 160000, held


# ---- what a library says of its making -----------------------------------------------------------------------


def with_files(place):
    """A plug-in is named by its hash; it must be given, and be the same."""
    for name, text in (("a", ""), ("b", "int more(void) { return 1; }\n")):
        (place.folder / f"{name}.c").write_text('#include "compiler/weir_plugin.h"\n' + text +
                                                "int weir_plugin(const weir_plugin_call *c) { c->put(c->host, c->text, c->bytes); return 0; }\n")
        subprocess.run(["cc", "-shared", "-fPIC", "-I", ROOT, "-o", place.folder / f"{name}.so", place.folder / f"{name}.c"], check=True)
    place.run("compile", SMALL, "-o", "p.so", "--pass-plugin", "a.so")
    place.run("verify", "p.so", SMALL, "--pass-plugin", "a.so")
    place.run("verify", "p.so", SMALL, code=1)
    place.run("verify", "p.so", SMALL, "--pass-plugin", "b.so", code=1)


def test_verify(place):
    """Options come from the library; another model, a changed byte and changed weights beside it are told."""
    dims = place.folder / "dims.onnx"
    dims.write_bytes(wire.model(wire.graph([wire.node("Mul", ["x", "x"], ["y"])], [wire.value_info("x", ["N", "M"])],
                                           [wire.value_info("y", ["N", "M"])])))
    for model, *options in ((SMALL,), (SMALL, "--packing", "swap", "--skip", "fuse", "--skip", "online"), (SMALL, "--weights", "file"),
                            (SMALL, "--profile", "--math", "strict", "--cpu", "x86-64-v2"), (dims, "--dim", "N=2..8", "--dim", "M=3")):
        place.run("compile", model, "-o", "v.so", *options)
        place.run("verify", "v.so", model)
        place.run("verify", "v.so", MODEL, code=1)
        whole = (place.folder / "v.so").read_bytes()
        (place.folder / "v.so").write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
        place.run("verify", "v.so", model, code=1)
    recipe = place.folder / "few.recipe"
    recipe.write_text("# \"few\" of \\them\nskip fuse\nskip online\n")
    place.run("compile", SMALL, "-o", "r.so", "--recipe", recipe)
    recipe.unlink()
    place.run("verify", "r.so", SMALL)
    with_files(place)
    side = place.folder / "w.so.weights"
    place.run("compile", SMALL, "-o", "w.so", "--weights", "file")
    side.write_bytes(side.read_bytes()[:-1] + b"x")
    place.run("verify", "w.so", SMALL, code=1)
    place.run("verify", "w.so", code=2)


# ---- all -----------------------------------------------------------------------------------------------------


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--weir", type=pathlib.Path, default=ROOT / "build/weir")
    parser.add_argument("--kills", type=int, default=12)
    parser.add_argument("--only", action="append")
    args = parser.parse_args()
    tests = tests_of(globals())

    def attempt(name):
        with tempfile.TemporaryDirectory() as folder:
            tests[name](Place(args.weir, folder, args.kills))

    return run_tests(args.only or tests, attempt)


if __name__ == "__main__":
    sys.exit(main())
