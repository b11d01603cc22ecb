#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Drives the command line as a user would: every verb, every option, every exit code.

    tests/cli.py [--weir build/weir] [--only NAME]... [-j N]

Each function test_NAME gets a folder of its own and a `Weir` to call. Models are written by hand
(tests/bad/wire.py), so nothing is needed but the standard library. What cannot be tried on this machine is
skipped with its reason. The last line is "N passed, N failed, N skipped".
"""
import argparse
import concurrent.futures
import json
import math
import os
import pathlib
import pty
import re
import signal
import struct
import subprocess
import sys
import tempfile
import time
import traceback

import cli_compile
import cli_inspect
from cli_weir import BF16, FLAT, MNIST, NUMPY, ROOT, ROWS, TIMEOUT, Skip, Weir, casts, mlp, mlp_result, npy, read_npy, tests_of, wire

TAKE_MODELS = ("compile", "run", "test", "bench", "check", "dump", "report", "profile", "extract")
VERBS = TAKE_MODELS + ("tune", "info", "verify", "ops", "doctor", "cache", "explain")
COMPILE_OPTIONS = ("--target", "--gpu", "--gpu-copies", "--cpu", "--dim", "--math", "--convert", "--weights", "--packing", "--print-after", "--skip",
                   "--verify-each", "--time-passes", "-j")


# ---- help and usage ----------------------------------------------------------------------------------------


def test_help(weir):
    whole = weir("--help").out
    assert whole == weir("help").out == weir("-h").out
    for verb in VERBS:
        assert re.search(rf"^  weir {verb} +\S", whole, re.M), f"--help does not list {verb}"
        text = weir(verb, "--help").out
        assert text.startswith(f"weir {verb} "), text
        missing = [o for o in COMPILE_OPTIONS if verb in TAKE_MODELS and verb != "test" and f"  {o} " not in text]
        assert not missing, f"{verb} --help lacks {missing}"
        assert max(map(len, text.splitlines())) <= 110, f"{verb} --help has long lines"
    listed = re.findall(r"^  weir (\w+)", whole, re.M)
    assert sorted(listed) == sorted(VERBS), f"not tested here: {set(listed) - set(VERBS)}"
    assert re.fullmatch(r"weir \d+\.\d+\.\d+\n", weir("--version").out)


def test_usage(weir):
    assert "weir compile" in weir(code=2).err
    weir.fails(2, 'no verb "compil"', "compil")
    weir.fails(2, "needs a model", "compile", "-o", "m.so")
    weir.fails(2, "needs -o", "compile", MNIST)
    weir.fails(2, 'option "-o" needs a value', "compile", MNIST, "-o")
    weir.fails(2, "--emit-dir", "compile", MNIST, "--emit", "c")
    weir.fails(2, "needs a library or a model", "info")
    weir.fails(2, "needs folders", "test")
    weir.fails(2, "finds no case", "test", weir.folder)
    weir.fails(2, "engine none", "test", "--engine=none")
    weir.fails(2, "needs --kernel", "extract", MNIST)
    weir.fails(2, "needs a code", "explain")
    weir.fails(2, "one word", "explain", "W001", "W002")
    for verb in VERBS:
        done = weir.fails(2, r'"--bogus"', verb, *([MNIST] if verb in TAKE_MODELS and verb != "test" else []), "--bogus")
        assert f"weir {verb} --help" in done.err, done
    for option, value, want in (("math", "fats", "strict, default or fast"), ("cpu", "pentium9", "x86-64-v3"),
                                ("weights", "cloud", "embed or file"), ("target", "vhdl", "c or cuda"), ("gpu", "sm_1", "sm_80"), ("gpu-copies", "tma", "auto, threads or engine"), ("cpu", "x86-64-v3,", 'unknown CPU ""'), ("dim", "N", "NAME="),
                                ("dim", "N=5..2", "LOW..HIGH"), ("skip", "fusee", "a pass: infer"),
                                ("skip", "lower", "cannot be skipped"), ("print-after", "x", "a pass: infer"),
                                ("stop-after", "x", "a pass: infer"), ("packing", "x", "build"), ("j", "x", "number")):
        weir.fails(2, re.escape(want), "compile", MNIST, "-o", "m.so", f"-{'' if option == 'j' else '-'}{option}", value)
    for verb, option, value in (("run", "threads", "-1"), ("run", "random", "x"), ("bench", "min-time", "x"),
                                ("dump", "format", "xml"), ("dump", "level", "grph"), ("dump", "after", "x"),
                                ("report", "format", "dot"), ("run", "engine", "both")):
        weir.fails(2, rf"{option} {value}|{value}", verb, MNIST, f"--{option}", value)
    assert not list(weir.folder.glob("m.so*"))


def test_without_effect(weir):
    """An option that would change nothing is refused, not ignored."""
    text = weir.write("n.ir", b"flow f (N in 1..8) {\n  in x : f32[N]\n  out y : f32[N]\n"
                              b"  map m [i:N] {\n    a <- x[i]\n    a + 1.0 -> y[i]\n  }\n}\n")
    weir("compile", MNIST, "-o", "m.so", "--cpu=x86-64-v3")
    for verb in ("run", "test", "bench", "check", "dump", "report", "profile", "extract", "tune", "verify"):
        weir.fails(2, 'takes no "--emit=c"', verb, "--emit=c", MNIST)
        if verb not in ("run", "test", "dump"):
            weir.fails(2, 'takes no "--stop-after=layout"', verb, MNIST, "--stop-after=layout")
    for option in ("gpu=sm_80", "cpu=x86-64-v3", "math=fast", "dim=N=3", "skip=fuse", "packing=swap", "target=cuda", "convert=f16",
                   "weights=file", "profile", "checked", "gpu-copies=engine"):
        weir.fails(2, "the library says itself", "verify", "m.so", MNIST, f"--{option}")
    weir.fails(2, "--emit-dir needs --emit", "compile", MNIST, "-o", "m.so", "--emit-dir", "d")
    weir.fails(2, "give both", "extract", MNIST, "--all", "--small=8")
    weir.fails(2, "is for drawings", "dump", text, "--size", "N=2")
    for why, *words in (('"gpu" needs the target cuda', "compile", MNIST, "-o", "x.so", "--gpu=sm_80"),
                        ('"gpu-libraries" needs the target cuda', "compile", MNIST, "-o", "x.so", "--gpu-libraries=cublaslt,cudnn"),
                        ('"gpu-copies" needs the target cuda', "compile", MNIST, "-o", "x.so", "--gpu-copies=threads"),
                        ("code is for sm_90a alone", "compile", MNIST, "-o", "x.so", "--target=cuda", "--gpu-copies=engine"),
                        ("code is for sm_90a alone", "compile", MNIST, "-o", "x.so", "--gpu-copies=engine"),
                        ('leave option "cpu" out', "compile", MNIST, "-o", "x.so", "--target=cuda", "--cpu=x86-64-v4"),
                        ('"dim" is for models in ONNX', "dump", text, "--dim", "N=3"),
                        ('"feed" is for models in ONNX', "dump", text, "--feed", "x"),
                        ('"name" is for models in ONNX', "compile", text, "-o", "x.so", "--name", "x"),
                        ('no input "x" that could be fed', "dump", MNIST, "--feed", "x"),
                        ('no dim "M"', "report", text, "--size", "M=3"), ("no SYMBOL=N", "report", text, "--size", "N"),
                        ('no dim "M"', "dump", text, "--format=svg", "--size", "M=3"),
                        ('no dim "M"', "dump", text, "--format=html", "--size", "M=3")):
        weir.fails(1, why, *words)
    assert "x.so" not in [f.name for f in weir.folder.iterdir()]
    weir("report", text, "--size", "N=3")
    plain, checked, unchecked = [weir("dump", MNIST, "--level=c", *o).out for o in ((), ("--checked",), ("--checked=no",))]
    assert plain == unchecked != checked


def test_option_forms(weir):
    """--x V and --x=V are equal, -jN too."""
    model = weir.write("mlp.onnx", mlp())
    forms = {"--cpu": "x86-64-v3", "--math": "strict", "--dim": "batch=3", "--weights": "embed", "--target": "c",
             "--packing": "build", "--skip": "fuse", "-j": "1", "-o": "m.so"}
    weir("compile", model, *[word for pair in forms.items() for word in pair])
    first = (weir.folder / "m.so").read_bytes()
    weir("compile", *[f"{option}={value}" for option, value in forms.items()], model)
    assert first == (weir.folder / "m.so").read_bytes()
    weir("compile", model, *[f"{option}={value}" for option, value in forms.items() if option != "-j"], "-j1")
    assert first == (weir.folder / "m.so").read_bytes()
    two = weir("run", "m.so", "--random", 7, "--threads", 2).out
    assert two == weir("run", "m.so", "--random=7", "--threads=2").out and two.startswith("y: f32[3,3]  min ")


def test_exit_codes(weir):
    model = weir.write("mlp.onnx", mlp())
    weir.fails(1, "W002.*No such file", "compile", "nope.onnx", "-o", "m.so")
    weir.fails(1, "W010", "compile", weir.write("zero.onnx", b"\0" * 64), "-o", "m.so")
    weir.fails(1, "cannot write", "compile", model, "-o", weir.folder / "no/such/m.so")
    weir.fails(1, 'no dim "N".*batch', "compile", model, "-o", "m.so", "--dim", "N=1")
    weir.fails(3, "W030.*weir doctor", "compile", model, "-o", "m.so", "--math=strict",
               env={"WEIR_CLANG": "/no/such/clang", "XDG_CACHE_HOME": str(weir.folder / "empty")})
    weir.fails(3, "W030.*failed with status 1", "compile", model, "-o", "m.so", "--math=strict",
               env={"WEIR_CLANG": "/bin/false", "XDG_CACHE_HOME": str(weir.folder / "empty")})
    assert not list(weir.folder.glob("m.so*"))
    weir("compile", model, "-o", "m.so")
    for verb in ("run", "check", "dump", "report", "extract"):
        own = {"run": ["--engine=eval", "--random=1"], "extract": ["--kernel=k"]}.get(verb, [])
        weir.fails(1, "compiled library; give the .onnx", verb, "m.so", *own)
    weir.fails(1, "W010", "info", "zero.onnx")
    weir.fails(1, "W031.*is it a library", "run", weir.write("lib.so.6", b"\x7fELF and no more"), "--random=1")
    weir.fails(1, "is it a library", "run", weir.write("t.so", b"text"), "--random=1")


# ---- run ---------------------------------------------------------------------------------------------------


def test_run_inputs(weir):
    model = weir.write("mlp.onnx", mlp())
    weir("compile", model, "-o", "m.so")
    weir("dump", model, "--level=graph", "-o", "g.ir")
    weir.write("x.npy", npy(FLAT, (3, 4)))
    weir.write("x.pb", wire.tensor("whatever", [3, 4], FLAT))
    for what in (model, "m.so"):
        for given in ("x=x.npy", "x=x.pb", "x.npy"):
            for more in ([], ["--threads=2"], ["--threads=0"]):
                out = weir("run", what, "--input", given, "--output-dir=out", *more).out
                assert read_npy(weir.folder / "out/y.npy") == (mlp_result(ROWS), (3, 3), "<f4")
    assert re.fullmatch(r"y: f32\[3,3\]  min \S+  max \S+  mean \S+  \[.*, \.\.\.\]\n", out), out
    for engine in ("compiled", "library", "eval"):
        assert weir("run", model, "--input=x=x.npy", "--engine", engine).out == out
    assert weir("run", "g.ir", "--random=1").out.startswith("y: f32[1,3]")
    assert weir("run", "m.so", "--random=1").out == weir("run", "m.so", "--random=1").out
    assert weir("run", "m.so", "--random=1").out != weir("run", "m.so", "--random=2").out
    assert weir("run", "m.so", "--random=1", "--size=batch=5").out.startswith("y: f32[5,3]")


def test_run_far_bounds(weir):
    """Each of five sizes may be all 196 elements: room for 196^5 is not asked for."""
    model = weir.write("wide.onnx", wire.model(wire.graph(
        [wire.node("Reshape", ["x", "shape"], ["y"])], [wire.value_info("x", [4, 49]), wire.value_info("shape", [5], wire.INT64)],
        [wire.value_info("y", ["a", "b", "c", "d", "e"])])))
    shape = weir.write("shape.npy", npy([4, 7, 1, -1, 7], [5], "<i8", "q"))
    assert weir("run", model, "--random", 1, "--input", f"shape={shape}").out.startswith("y: f32[4,7,1,1,7]")


def test_run_bad_inputs(weir):
    weir("compile", weir.write("mlp.onnx", mlp()), "-o", "m.so")
    good = npy(FLAT, (3, 4))
    for data, message in ((npy(FLAT, (4, 3)), '"x": dim 1 is 3, expected 4'),
                          (npy(FLAT, (3, 4), "<f8", "d"), '"x" has element type f64, expected f32'),
                          (npy(FLAT, (12,)), '"x" has 1 dims, expected 2'), (npy(FLAT, (3, 4), ">f4"), "dtype"), (good[:40], "npy"),
                          (good[:-4], "cut short"), (b"", "npy"), (good.replace(b"False", b"True "), "ascontiguousarray")):
        weir.fails(1, message, "run", "m.so", "--input", f"x={weir.write('bad.npy', data)}")
    weir.fails(1, '"x" is not given.*--random', "run", "m.so")
    weir.fails(1, 'no input "z".*"x"', "run", "m.so", "--input=z=x.npy")
    weir.fails(1, "No such file", "run", "m.so", "--input=x=none.npy")
    weir.fails(1, "not a .*TensorProto|tensor", "run", "m.so", "--input", f"x={weir.write('x.pb', b'nonsense')}")


def test_dtypes(weir):
    """Every dtype that numpy has comes as .npy, others as .pb; '/' in a name becomes '_'."""
    values = [0.0, 1.0, 2.0, 100.0]
    weir.write("x.npy", npy(values, (4,)))
    done = weir("run", weir.write("casts.onnx", casts([*NUMPY, BF16])), "--input=x=x.npy", "--output-dir=out")
    for t, (descr, _) in NUMPY.items():
        got = read_npy(weir.folder / f"out/to_{t}.npy")
        assert got == ([bool(v) for v in values] if t == 9 else values, (4,), descr), (t, got)
    made = {number: (start, content, end) for number, _, start, content, end in
            wire.fields((weir.folder / f"out/to_{BF16}.pb").read_bytes())}
    data = (weir.folder / f"out/to_{BF16}.pb").read_bytes()
    assert data[made[9][1]:made[9][2]] == b"".join(struct.pack("<f", v)[2:] for v in values)
    assert len(done.lines()) == len(NUMPY) + 1 and "to/16: bf16[4]  min 0  max 100" in done.out, done
    assert weir("run", "casts.onnx", "--input=x=x.npy", "--engine=eval", "--output-dir=eval").out == done.out
    for path in (weir.folder / "out").iterdir():
        assert path.read_bytes() == (weir.folder / "eval" / path.name).read_bytes(), path


# ---- test --------------------------------------------------------------------------------------------------


def make_case(weir, name, model, inputs, outputs):
    weir.write(f"{name}/model.onnx", model)
    for kind, tensors in (("input", inputs), ("output", outputs)):
        for i, data in enumerate(tensors):
            weir.write(f"{name}/test_data_set_0/{kind}_{i}.pb", data)


def test_test(weir):
    x, y = wire.tensor("x", [3, 4], FLAT), wire.tensor("y", [3, 3], mlp_result(ROWS))
    off = wire.tensor("y", [3, 3], [v + 0.5 for v in mlp_result(ROWS)])
    unknown = wire.model(wire.graph([wire.node("Frobnicate", ["x"], ["y"])], [wire.value_info("x", [2])],
                                    [wire.value_info("y", [2])]))
    make_case(weir, "all/good", mlp(), [x], [y])
    make_case(weir, "all/deep/good2", mlp(), [x], [y])
    done = weir("test", "all", "--engine=both", "-j", 2)
    assert done.out == "2 passed, 0 failed, 0 skipped\n", done
    assert weir("test", "all", "--engine=library", "--weights=file").out == done.out
    assert not list(weir.folder.glob("weir-*")), "the libraries stay behind"
    make_case(weir, "all/off", mlp(), [x], [off])
    make_case(weir, "all/unknown", unknown, [x], [y])
    done = weir("test", "all", "--json=r.json", "--verbose", code=1)
    lines = sorted(re.sub(r"\(\d+ ms\)", "()", line) for line in done.lines()[:-1])
    assert lines[0].startswith('FAIL off: output 0 "y": element ') and lines[3].startswith("UNSUPPORTED unknown: "), done
    assert lines[1:3] == ["PASS good ()", "PASS good2 ()"] and done.lines()[-1] == "2 passed, 1 failed, 1 skipped", done
    cases = {case["name"]: case for case in json.loads((weir.folder / "r.json").read_text())}
    done = weir("test", "all", "--json=nowhere/r.json", code=1)
    assert 'cannot write "nowhere/r.json"' in done.err and not list(weir.folder.glob("*.tmp")), done.err
    assert {name: case["state"] for name, case in cases.items()} == {
        "good": "PASS", "good2": "PASS", "off": "FAIL", "unknown": "UNSUPPORTED"}
    assert cases["good"]["ulp"] == cases["good"]["ulp_of_largest"] == 0 and "ulp" not in cases["unknown"], cases
    unit = 2 ** math.floor(math.log2(max(v + 0.5 for v in mlp_result(ROWS)))) * 2 ** -23
    assert cases["off"]["ulp_of_largest"] == 0.5 / unit <= cases["off"]["ulp"], (cases, unit)
    assert weir("test", "all/off", "--atol=1").out == weir("test", "all/off", "--rtol", "10").out
    assert weir("test", "all/good", "all/unknown").out.endswith("\n1 passed, 0 failed, 1 skipped\n")
    for form in "given", "symbolic", "constant":
        assert weir("test", "all/good", f"--form={form}", "--engine=both").out == "1 passed, 0 failed, 0 skipped\n"
    weir.fails(2, "none of given, symbolic, constant", "test", "all/good", "--form=other")
    weir("test", "all/good", "--skip=fuse", "--threads=2", "--engine=eval", "--stop-after=fuse")


def test_test_fast(weir):
    """--math=fast allows 2^-8 of the largest magnitude, the other modes do not."""
    model = wire.model(wire.graph([wire.node("Add", ["x", "x"], ["y"])], [wire.value_info("x", [3])], [wire.value_info("y", [3])]))
    for name, last, good in ("near", 1 + 2 ** -7, True), ("far", 1 + 2 ** -5, False):
        make_case(weir, name, model, [wire.tensor("x", [3], [2, -1, 0.5])], [wire.tensor("y", [3], [4, -2, last])])
        weir("test", name, code=1)
        weir("test", name, "--math=strict", code=1)
        weir("test", name, "--math=fast", code=0 if good else 1)


def test_test_light(weir):
    """light/NAME.onnx with NAME_output_0.pb: inputs count up from 0 to 1."""
    model = wire.model(wire.graph([wire.node("Add", ["x", "x"], ["y"])], [wire.value_info("x", [4])],
                                  [wire.value_info("y", [4])]))
    weir.write("light/twice.onnx", model)
    weir.write("light/twice_output_0.pb", wire.tensor("y", [4], [0, 0.5, 1, 1.5]))
    assert weir("test", "light").out == "1 passed, 0 failed, 0 skipped\n"
    weir.write("light/twice_output_0.pb", wire.tensor("y", [4], [0, 0.5, 1, 2.5]))
    assert "FAIL twice" in weir("test", "light", code=1).out


def children(pid):
    text = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text()
    return [int(child) for child in text.split()]


def test_test_isolated(weir):
    """A case that hangs and one that dies are failed cases; the others go on."""
    x, y = wire.tensor("x", [3, 4], FLAT), wire.tensor("y", [3, 3], mlp_result(ROWS))
    for name in ("dies", "good"):
        make_case(weir, f"all/{name}", mlp(), [x], [y])
    fifo = weir.folder / "all/dies/test_data_set_0/input_0.pb"
    fifo.unlink()
    os.mkfifo(fifo)
    done = weir("test", "all", "-j1", "--timeout=1", code=1)
    assert done.lines() == ["TIMEOUT dies: no result after 1 s", "1 passed, 1 failed, 0 skipped"], done
    running = subprocess.Popen([weir.path, "test", "all", "-j1", "--timeout=30"], cwd=weir.folder, env=weir.env,
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    end, victim = time.monotonic() + 20, []
    while time.monotonic() < end and not victim:
        time.sleep(0.05)
        guarded = [pid for child in children(running.pid) for pid in children(child)]
        victim = [pid for pid in guarded if "R" not in pathlib.Path(f"/proc/{pid}/stat").read_text().split()[2]]
    time.sleep(0.3)
    os.kill(victim[0], signal.SIGKILL)
    out = running.communicate(timeout=TIMEOUT)[0].splitlines()
    assert out[0].startswith("CRASH dies: Killed") and out[1:] == ["1 passed, 1 failed, 0 skipped"], out


# ---- looking -----------------------------------------------------------------------------------------------


def test_bench(weir):
    keys = "median_ms min_ms p90_ms runs threads create_ms compile_ms artifact_bytes peak_rss_bytes".split()
    model = weir.write("mlp.onnx", mlp())
    weir("compile", model, "-o", "m.so")
    for what, more in (("m.so", []), (model, ["--math=strict", "--weights=file"])):
        done = weir("bench", what, "--min-time=0.05", "--json=b.json", "--threads=2", "--size=batch=4", *more)
        figures = json.loads((weir.folder / "b.json").read_text())
        assert list(figures) == keys and figures["threads"] == 2 and figures["runs"] >= 3, figures
        assert 0 < figures["min_ms"] <= figures["median_ms"] <= figures["p90_ms"], figures
        assert figures["artifact_bytes"] > 10000 and figures["peak_rss_bytes"] > 1e6, figures
        assert (figures["compile_ms"] > 0) == (what == model), figures
        assert re.match(r"median [0-9.]+ ms  min ", done.out), done
    assert not list(weir.folder.glob("weir-*")), "bench left its library behind"


def test_info(weir):
    weir("compile", weir.write("mlp.onnx", mlp()), "-o", "m.so")
    out = weir("info", "m.so").lines()
    assert out[:3] == ["model   mlp", "input   x: f32[batch,4]", "output  y: f32[batch,3]"], out
    assert re.fullmatch(r"weights \d+ bytes, packed at build", out[3]) and re.fullmatch(r"memory  .* bytes a run, .* for each thread",
                                                                       out[4]), out
    build = json.loads(out[-1].removeprefix("build   "))
    assert out[5] == f"made by weir {build['weir']}, LLVM {build['llvm']} for {build['cpu']}", out
    assert out[6] == f"of model {build['model_blake3']} (blake3)", out
    assert {"weir", "model_blake3", "target", "cpu", "flags", "math", "llvm", "arena_bytes", "thread_bytes"} <= set(build)
    assert build["target"] == "c" and len(build["model_blake3"]) == 64
    assert weir("info", "mlp.onnx").lines()[:3] == ["model   mlp, not compiled", *out[1:3]]
    assert re.search(r"^nodes   \d+: .*\d+ (Gemm|MatMul)", weir("info", "mlp.onnx").out, re.M)


def test_compiled_already(weir):
    """Options of compiling are refused with a library, and sizes that no input has."""
    weir("compile", weir.write("mlp.onnx", mlp()), "-o", "m.so")
    for verb in ("run", "bench"):
        weir.fails(2, '"m.so" is compiled.*--dim.*--size SYMBOL=N', verb, "m.so", "--dim", "batch=4")
        weir.fails(2, '"m.so" is compiled.*--math=strict', verb, "m.so", "--math=strict")
        for size in ("batch", "batch=", "batch=x", "batch=-1", "=3"):
            weir.fails(1, "is no SYMBOL=N|no input has a dim", verb, "m.so", "--size", size, "--random=1")
        weir.fails(1, 'no input has a dim "bach"', verb, "m.so", "--size=bach=3", "--random=1")
        weir.fails(1, "out of memory", verb, "m.so", "--size=batch=100000000000000", "--random=1")
        weir.fails(1, "too many elements", verb, "m.so", f"--size=batch={1 << 62}", "--random=1")
    weir.fails(2, "x.npy.*write --input NAME=FILE", "run", "m.so", "x.npy")


def test_pages_to_terminals(weir):
    """A page is not written to a terminal."""
    for verb in ("dump", "report", "profile"):
        ours, theirs = pty.openpty()
        done = subprocess.run([weir.path, verb, MNIST, "--format=html"], stdout=theirs, stderr=subprocess.PIPE, text=True)
        os.close(theirs)
        os.close(ours)
        assert done.returncode == 2 and "-o FILE.html" in done.stderr, done.stderr


def test_warns_once(weir):
    """A dim that must be another's size makes inference begin again: what it finds twice is said once."""
    def branch(dims):
        return wire.graph([wire.node("Reshape", ["x", "s"], ["r"])], [], [wire.value_info("r", None)],
                          [wire.tensor("s", [len(dims)], dims, wire.INT64)])

    nodes = [wire.node("If", ["c"], ["r"], then_branch=branch([6]), else_branch=branch([2, 3])), wire.node("MatMul", ["x", "v"], ["y"])]
    model = wire.model(wire.graph(nodes, [wire.value_info("c", [], wire.BOOL), wire.value_info("x", [2, 3]), wire.value_info("v", ["n", 1])],
                                  [wire.value_info("r", [2, 3]), wire.value_info("y", None)]))
    assert weir("dump", weir.write("m.onnx", model), "--after=infer").err.count("W012") == 1


def test_condition_of_unknown_size(weir):
    """A condition is one element: where the model does not say how many, the run asks for one."""
    def branch(op):
        return wire.graph([wire.node(op, ["x"], ["r"])], [], [wire.value_info("r", None)], [])

    model = wire.model(wire.graph([wire.node("If", ["c"], ["r"], then_branch=branch("Neg"), else_branch=branch("Abs"))],
                                  [wire.value_info("c", ["C"], wire.BOOL), wire.value_info("x", ["N"])], [wire.value_info("r", ["N"])]))
    path = weir.write("m.onnx", model)
    assert "equal  ok" in weir("check", path, "--random=1", "--size=N=3").out
    assert "c: bool[1]" in weir("info", path).out.replace(" ", "").replace("c:bool", "c: bool")


def test_cache(weir):
    own = {"XDG_CACHE_HOME": str(weir.folder / "own")}
    model = weir.write("mlp.onnx", mlp())
    assert " 0 objects" in weir("cache", env=own).out
    weir("compile", model, "-o", "m.so", env=own)
    assert re.search(r"own/weir: [1-9]\d* objects", weir("cache", env=own).out)
    assert " 0 objects" in weir("cache", "--clear", env=own).out
    weir("compile", model, "-o", "n.so", env=dict(own, XDG_CACHE_HOME="/proc/no/such"))
    assert (weir.folder / "m.so").read_bytes() == (weir.folder / "n.so").read_bytes()


def test_explain(weir):
    codes = weir("explain", "codes").lines()
    assert len(codes) >= 15
    for line in codes:
        code, title = line.split(" ", 1)
        out = weir("explain", code.lower()).lines()
        assert out[0] == f"{code}: {title}" and len(out[1]) > 20, out
    passes = weir("explain", "passes").lines()
    assert len(passes) >= 10
    for line in passes:
        out = weir("explain", line.split()[0]).lines()
        assert out[0].startswith(line.split()[0] + ": ") and out[1].startswith("takes a "), out
    weir.fails(2, "no code and no pass", "explain", "W000")


def test_ops(weir):
    rows = json.loads(weir("ops", "--format=json").out)
    assert len(rows) > 150 and all(set(row) == {"domain", "op", "since", "until", "types"} for row in rows)
    assert len(weir("ops").lines()) == len(rows) == len(weir("ops", "--format", "markdown").lines()) - 2
    assert any(row["op"] == "MatMul" and "f32" in row["types"] for row in rows)
    seen = set()
    for row in rows:
        assert row["until"] is None or row["until"] >= row["since"], row
        key = (row["domain"], row["op"], row["since"])
        assert key not in seen, f"{key} is there twice"
        seen.add(key)


# ---- all ---------------------------------------------------------------------------------------------------


def run_one(name, function, path, work):
    folder = work / name
    folder.mkdir()
    start = time.monotonic()
    try:
        function(Weir(path, folder, work / "the-cache"))
        return "passed", name, f"{time.monotonic() - start:.1f} s"
    except Skip as why:
        return "skipped", name, str(why)
    except (AssertionError, Exception) as fault:
        where = traceback.extract_tb(fault.__traceback__)
        line = [frame.lineno for frame in where if frame.name.startswith("test_")]
        return "failed", name, f"{type(fault).__name__} (line {line[-1] if line else '?'}): {fault}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--weir", type=pathlib.Path, default=ROOT / "build/weir")
    parser.add_argument("--only", action="append", help="this test (without test_)")
    parser.add_argument("-j", type=int, default=os.cpu_count())
    args = parser.parse_args()
    tests = {**tests_of(globals()), **tests_of(vars(cli_compile)), **tests_of(vars(cli_inspect))}
    chosen = args.only or list(tests)
    counts = dict.fromkeys(("passed", "failed", "skipped"), 0)
    with tempfile.TemporaryDirectory() as work, concurrent.futures.ThreadPoolExecutor(args.j) as pool:
        jobs = [pool.submit(run_one, name, tests[name], args.weir.resolve(), pathlib.Path(work)) for name in chosen]
        for job in concurrent.futures.as_completed(jobs):
            state, name, text = job.result()
            counts[state] += 1
            print({"passed": "ok  ", "failed": "FAIL", "skipped": "SKIP"}[state], f"{name}: {text}", flush=True)
    print(", ".join(f"{counts[state]} {state}" for state in counts))
    sys.exit(1 if counts["failed"] else 0)


if __name__ == "__main__":
    main()
