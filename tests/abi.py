#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Holds the binary interface to its promise (compiler/README.md): libweir.so to the snapshot compiler/libweir.abi, and
a host to libraries with a shorter or a longer descriptor than its own.

    tests/abi.py [--build build] [--update]

--update writes the snapshot anew, for a change that is meant. The last line is "N passed, N failed, N skipped".
"""
import argparse
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
SNAPSHOT = ROOT / "compiler/libweir.abi"
HEADERS = ("compiler/weir.h", "runtime/weir_model.h")
INCOMPATIBLE, CHANGED, USAGE = 8, 4, 3  # bits of abidiff's exit code

LIBRARY = """#include "runtime/weir_model.h"
static const weir_model model = {.size = %s, .abi = %s, .name = "small", .build = "{}", .nweights = 1};
static struct { weir_model model; char more[64]; } large = {{.size = sizeof large, .abi = WEIR_ABI_VERSION, .name = "large", .build = "{}"}, "x"};
const weir_model *weir_model_descriptor(void);
const weir_model *weir_model_descriptor(void) { return model.size ? &model : &large.model; }
"""
HOST = """#include <stdio.h>
#include "compiler/weir.h"
static void say(void *user, const weir_diagnostic *d) { (void)user; printf("%s\\n", d->message); }
int main(int argc, char **argv) {
    weir_context *c = weir_context_new(say, NULL);
    weir_loaded *l = weir_open(c, argv[argc - 1]);
    if (l) printf("%s %d\\n", weir_loaded_model(l)->name, weir_loaded_model(l)->nweights);
    weir_unload(l);
    weir_context_free(c);
    return 0;
}
"""


class Skip(Exception):
    pass


def need(program):
    if not shutil.which(program):
        raise Skip(f"there is no {program} (Debian: abigail-tools)" if program.startswith("abi") else f"there is no {program}")


def test_snapshot(build, work, update):
    need("abidiff")
    library = build / "compiler/libweir.so"
    for header in HEADERS:
        (work / "headers" / header).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / header, work / "headers" / header)
    if update:
        made = subprocess.run(["abidw", "--headers-dir", work / "headers", "--drop-private-types", "--exported-interfaces-only",
                               "--no-elf-needed", "--no-corpus-path", "--no-comp-dir-path", "--no-show-locs", library],
                              capture_output=True, text=True, check=True).stdout
        SNAPSHOT.write_text(re.sub(r"(?<=path=')[^']*(?=compiler/)", "", made))
    done = subprocess.run(["abidiff", "--headers-dir2", work / "headers", "--drop-private-types", "--exported-interfaces-only",
                           "--no-show-locs", SNAPSHOT, library], capture_output=True, text=True)
    assert not done.returncode & USAGE, done.stderr
    what = "breaks old programs: raise libweir_number in compiler/meson.build" if done.returncode & INCOMPATIBLE else "is compatible"
    assert done.returncode == 0, f"the interface changed, which {what}; run tests/abi.py --update if it is meant\n{done.stdout}"


def test_notices(build, work, update):
    """A snapshot with another member, and one with a function more, are told apart from ours."""
    need("abidiff")
    for old, new in (("weir_diagnostic' size-in-bits='640'", "weir_diagnostic' size-in-bits='704'"), ("weir_unload", "weir_unloads")):
        text = SNAPSHOT.read_text()
        assert old in text
        (work / "other.abi").write_text(text.replace(old, new))
        assert subprocess.run(["abidiff", work / "other.abi", SNAPSHOT], capture_output=True).returncode & CHANGED, old


def test_descriptors(build, work, update):
    """A descriptor that ends before nweights reads 0 there; a longer one is taken; another version is refused."""
    need("cc")
    cases = {"older": ("offsetof(weir_model, nweights)", "WEIR_ABI_VERSION", "small 0"),
             "equal": ("sizeof(weir_model)", "WEIR_ABI_VERSION", "small 1"),
             "newer": ("0", "WEIR_ABI_VERSION", "large 0"),
             "other": ("sizeof(weir_model)", "WEIR_ABI_VERSION + 1", "speaks version")}
    (work / "host.c").write_text(HOST)
    subprocess.run(["cc", "-I", ROOT, work / "host.c", "-o", work / "host", build / "compiler/libweir.so",
                    f"-Wl,-rpath,{build}/compiler"], check=True)
    for name, (size, abi, wanted) in cases.items():
        (work / f"{name}.c").write_text(LIBRARY % (size, abi))
        subprocess.run(["cc", "-shared", "-fPIC", "-I", ROOT, work / f"{name}.c", "-o", work / f"{name}.so"], check=True)
        said = subprocess.run([work / "host", work / f"{name}.so"], capture_output=True, text=True, check=True).stdout
        assert wanted in said, f"{name}: {said}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--update", action="store_true")
    args = parser.parse_args()
    passed = failed = skipped = 0
    with tempfile.TemporaryDirectory() as folder:
        for test in (test_snapshot, test_notices, test_descriptors):
            try:
                test(args.build.resolve(), pathlib.Path(folder), args.update)
                passed += 1
            except Skip as reason:
                print(f"SKIP {test.__name__[5:]}: {reason}")
                skipped += 1
            except AssertionError as error:
                print(f"FAIL {test.__name__[5:]}: {error}")
                failed += 1
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
