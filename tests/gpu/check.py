#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Models for the GPU without one: a driver and an nvcc of the tests (fake/) run every thread on this processor, and the
real nvcc, where there is one, compiles the kernels.

    tests/gpu/check.py [--build build] [-j N] [--every N] [--cases FOLDER] [TEST...]

Cases are every Nth of FOLDER (libonnx-testdata's). The last line is "N passed, N failed, N skipped".
"""
import argparse
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
HERE = ROOT / "tests/gpu"
COMPILED_BY_NVCC = 6
sys.path.insert(0, str(HERE))
import bench  # noqa: E402
from launches import Launches  # noqa: E402
from texts import Skip, Texts, expect, run  # noqa: E402

PRODUCTS = ["plain", "turned", "exact", "scores", "values", "places", "part", "biased", "summed"]  # of products.ir, that a library can make
CONVOLUTIONS = ["plain", "strided", "dilated", "grouped", "depth", "many", "biased", "last", "mixed", "one", "points", "part", "clamped",
                "ended", "added", "ended_last"]  # of convolutions.ir


class Checks(Texts, Launches):
    def __init__(self, options, work):
        self.options, self.work = options, work
        self.weir = pathlib.Path(options.build).resolve() / "weir"
        self.fake = {"WEIR_NVCC": str(HERE / "fake/nvcc"), "LD_LIBRARY_PATH": str(work)}
        code, text = run("cc", "-O1", "-shared", "-fPIC", HERE / "fake/cuda.c", HERE / "fake/threads.c", "-o", work / "libcuda.so.1", "-ldl")
        expect(code == 0, text)

    def compile(self, model, out, *more, env=None):
        code, text = run(self.weir, "compile", model, "--target", "cuda", "-o", out, *more, env=env or self.fake)
        expect(code == 0, text)

    def sample(self):
        cases = sorted(p for p in pathlib.Path(self.options.cases).glob("*") if (p / "model.onnx").exists())
        if not cases:
            raise Skip(f"no cases in {self.options.cases}")
        return cases[::self.options.every]

    def test_cases(self):
        folder = self.work / "cases"
        folder.mkdir()
        for case in self.sample():
            (folder / case.name).symlink_to(case)
        code, text = run(self.weir, "test", folder, "--target", "cuda", "--engine", "library", "-j", self.options.j,
                         env=self.fake)
        expect(code == 0, text)
        return int(re.search(r"(\d+) passed, 0 failed", text).group(1))

    def test_steps(self):
        try:
            import numpy as np
        except ImportError:
            raise Skip("there is no numpy for Python")
        for text in ("gemm_f16", "tf32_rounded", "codes_steps", "codes_sides", "bytes_steps", "bytes_decoded", "bytes_nodes", "step_ragged", "step_conv", "conv_channels", "conv_pieces", "depthwise_channels", "wide_f16",
                     "thin_f16", "thin_rows", "wide_rows", "short_rows", "codes_u4",
                     "attention", "group_f16", "group_ragged", "attention_group"):
            out, gpu = {}, "sm_90a" if "group" in text else "sm_80"
            for target in ("cuda", "c"):
                out[target] = self.work / f"{text}.{target}"
                source = ROOT / f"tests/cuda/hot/{text}.ir"
                code, printed = run(self.weir, "run", source, "--target", target, "--random", "1",
                                    *bench.asked(source.read_text()),
                                    *(["--gpu", gpu] if target == "cuda" else bench.AS_ON_A_GPU), "--output-dir", out[target], env=self.fake)
                expect(code == 0, printed)
            got, wanted = (np.load(out[t] / "y.npy").astype(np.float64) for t in ("cuda", "c"))
            expect(np.allclose(got, wanted, rtol=2e-3, atol=2e-3), f"{text}: {abs(got - wanted).max()}")

    def test_waves(self):
        """Products in two pieces agree with the C target's, and are the same bits in every run."""
        try:
            import numpy as np
        except ImportError:
            raise Skip("there is no numpy for Python")
        log = self.work / "waves.launches"
        for text in [text for name in ("waves", "waves_tf32") for text in (ROOT / f"tests/cuda/hot/{name}.ir").read_text().split("\n\n")]:
            (name, source, *words), out = self.flow_of(text), []
            math = bench.asked(text)
            for run_ in range(2):
                log.unlink(missing_ok=True)
                out.append(self.work / f"{name}.{run_}")
                code, told = run(self.weir, "run", source, *words, *math, "--random", "1", "--output-dir", out[-1],
                                 env={**self.fake, "WEIR_FAKE_LOG": str(log)})
                expect(code == 0, told)
            launches, parts = len(log.read_text().splitlines()), "parts" in text.split("flow ")[0]
            expect(launches >= 2 + parts, f"{name}: {launches} launches")
            # by default mathematics: with fast, processors that multiply pairs of bf16 round more than TF32 does
            code, told = run(self.weir, "run", source, "--random", "1", "--output-dir", self.work / f"{name}.c")
            expect(code == 0, told)
            for file in out[0].iterdir():
                expect(file.read_bytes() == (out[1] / file.name).read_bytes(), f"{name}: runs differ")
                got, wanted = (np.load(folder / file.name).astype(np.float64) for folder in (out[0], self.work / f"{name}.c"))
                expect(np.allclose(got, wanted, rtol=4e-3, atol=4e-3), f"{name}: {abs(got - wanted).max()}")

    def test_boxes(self):
        """The engine's copies make the same bits as threads' do, whether they come when asked for or when waited for."""
        hot = [ROOT / f"tests/cuda/hot/{name}.ir" for name in ("group_f16", "group_ragged", "group_across", "group_codes", "group_tf32", "group_bytes",
                                                               "stay", "attention_group")]
        for whole, text in [(whole, text) for whole in map(pathlib.Path.read_text, (*hot, HERE / "boxes.ir")) for text in whole.split("\n\n")]:
            (name, *words), out = self.flow_of(text), []
            words += bench.asked(whole)
            for how, env in ("threads", {}), ("engine", {}), ("engine", {"WEIR_FAKE_EARLY": "1"}):
                folder = self.work / f"{name}.{len(out)}"
                code, text = run(self.weir, "run", *words, "--gpu-copies", how, "--random", "1", "--output-dir", folder,
                                 env={**self.fake, **env})
                expect(code == 0, text)
                out.append({file.name: file.read_bytes() for file in folder.iterdir()})
            expect(out[0] and all(files == out[0] for files in out), f"{name} differs")

    def test_boxes_of_open_sizes(self):
        """Runs that are recorded keep the tensors that they were recorded with; others get theirs. Few rows go by steps that
        threads copy for."""
        library = pathlib.Path(self.options.build).resolve() / "compiler/libweir.so"
        try:
            import numpy  # noqa: F401
        except ImportError:
            raise Skip("there is no numpy for Python")
        _, source, *words = self.flow_of((HERE / "boxes.ir").read_text().split("\n\n")[-1])
        self.compile(source, self.work / "open.so", *words, "--gpu-copies", "engine", "--emit", "cu", "--emit-dir", self.work / "open")
        cu, = (self.work / "open").glob("*.cu")
        engine = [body for body in cu.read_text().split("KERNEL(")[1:] if "  copy_box(" in body]
        expect(engine and not any("  copy_async<" in body for body in engine), "threads copy")
        script = ("import sys, numpy, weir\nm = weir.open(sys.argv[1])\nr = numpy.random.default_rng(1)\n"
                  "w = (r.random((192, 64)) - 0.5).astype('f2')\n"
                  "for n in [200, 300, 200, 300, 200, 300, 9, 260, 9]:\n    x = (r.random((n, 64)) - 0.5).astype('f2')\n"
                  "    assert abs(m(x, w) - x.astype('f4') @ w.astype('f4').T).max() < 0.01\n")
        code, text = run(sys.executable, "-c", script, self.work / "open.so",
                         env={**self.fake, "PYTHONPATH": str(ROOT / "tools/python"), "WEIR_LIBRARY": str(library)})
        expect(code == 0, text)

    def test_rows_ahead(self):
        """Blocks that ask for the row of a later one ask for nothing beyond the operand, and compute the same."""
        try:
            import numpy as np
        except ImportError:
            raise Skip("there is no numpy for Python")
        for text in (ROOT / "tests/cuda/hot/rows_ahead.ir").read_text().split("\n\n")[1:]:
            (name, source, *words), out = self.flow_of(text), {}
            self.compile(source, self.work / "ahead.so", *words, "--emit", "cu", "--emit-dir", self.work / name)
            cu, = (self.work / name).glob("*.cu")
            expect(" prefetch(a" in cu.read_text(), f"{name} asks for nothing")
            for target, more in ("cuda", words), ("c", ()):
                out[target] = self.work / f"{name}.{target}"
                code, told = run(self.weir, "run", source, *more, "--random", "1", "--output-dir", out[target], env=self.fake)
                expect(code == 0, told)
            got, wanted = (np.load(out[t] / "y.npy") for t in ("cuda", "c"))
            expect(np.allclose(got, wanted, rtol=1e-4, atol=1e-4), f"{name}: {abs(got - wanted).max()}")

    def test_recorded_runs(self):
        """Launches one by one: of a run's first two times, unless more than RECORDS others come between. Those of the
        second time are recorded and may begin early."""
        library, log = pathlib.Path(self.options.build).resolve() / "compiler/libweir.so", self.work / "recorded"
        try:
            import numpy  # noqa: F401
        except ImportError:
            raise Skip("there is no numpy for Python")
        self.compile(HERE / "relu.ir", self.work / "recorded.so")
        script = ("import sys, numpy, weir\nm = weir.open(sys.argv[1])\nm(numpy.zeros(4096, 'f4'))\n"
                  "for n in map(int, sys.argv[2:]):\n    x = numpy.arange(n, dtype='f4') - 3\n"
                  "    assert (m(x) == numpy.maximum(x, 0)).all()\n")
        for sizes, launches, early in ([7, 5] * 3 + [7], 4, 2), (list(range(1, 32)) * 3, 62, 31), (list(range(1, 35)) * 3, 102, 0):
            log.unlink(missing_ok=True)
            code, text = run(sys.executable, "-c", script, self.work / "recorded.so", *map(str, sizes),
                             env={**self.fake, "PYTHONPATH": str(ROOT / "tools/python"), "WEIR_LIBRARY": str(library),
                                  "WEIR_FAKE_LOG": str(log)})
            expect(code == 0, text)
            lines = log.read_text().splitlines()[1:]
            expect(len(lines) == launches, f"{len(lines)} launches, {launches} expected")
            expect(sum(line.endswith(" early") for line in lines) == early, f"not {early} begin early")

    def test_loops_are_recorded(self):
        """A loop whose turns sizes decide is launched one by one twice; the third run is one launch."""
        library, log = pathlib.Path(self.options.build).resolve() / "compiler/libweir.so", self.work / "turns"
        try:
            import numpy  # noqa: F401
        except ImportError:
            raise Skip("there is no numpy for Python")
        self.compile(HERE / "steps.ir", self.work / "steps.so")
        script = ("import sys, numpy as np, weir\nm = weir.open(sys.argv[1])\nr = np.random.default_rng(1)\n"
                  "x, w, s = (r.random(n, 'f4') - 0.5 for n in ((5, 64), (64, 64), 64))\n"
                  "for k in range(4):\n    y, more = m(x * k, w, s), s\n"
                  "    for t in range(5):\n        more = np.tanh(x[t] * k + w @ more * 0.125)\n"
                  "    assert abs(y - more * 2).max() < 1e-5\n")
        code, text = run(sys.executable, "-c", script, self.work / "steps.so",
                         env={**self.fake, "PYTHONPATH": str(ROOT / "tools/python"), "WEIR_LIBRARY": str(library), "WEIR_FAKE_LOG": str(log)})
        expect(code == 0, text)
        lines = log.read_text().splitlines()
        expect(len(lines) == 12 and all(line.endswith(" early") for line in lines[6:]), lines)

    def test_long_loops_are_walked(self):
        """A run of too many launches to be recorded is right when recording it is given up, and after."""
        library, log = pathlib.Path(self.options.build).resolve() / "compiler/libweir.so", self.work / "long"
        try:
            import numpy  # noqa: F401
        except ImportError:
            raise Skip("there is no numpy for Python")
        self.compile(HERE / "turns.ir", self.work / "turns.so")
        turns, most = 33000, 1 << 15
        script = ("import sys, numpy, weir\nm = weir.open(sys.argv[1])\nn, s = int(sys.argv[2]), 0\n"
                  "x = numpy.arange(n, dtype='i4') % 7\nfor v in x:\n    s = (s * 3 + int(v)) & 0xffffffff\n"
                  "for k in range(3):\n    assert int(m(x)[0]) & 0xffffffff == s\n")
        code, text = run(sys.executable, "-c", script, self.work / "turns.so", turns,
                         env={**self.fake, "PYTHONPATH": str(ROOT / "tools/python"), "WEIR_LIBRARY": str(library), "WEIR_FAKE_LOG": str(log)})
        expect(code == 0, text)
        lines = log.read_text().splitlines()
        early = sum(line.endswith(" early") for line in lines)
        expect(len(lines) == 3 * (turns + 1) + most and early == most, f"{len(lines)} launches, {early} of them recorded")

    def library(self):
        """What opens a cuBLASLt of the tests, and options by which it makes all of products.ir that it can."""
        return self.library_of("cublaslt", "libcublasLt.so.13", PRODUCTS)

    def library_of(self, name, file, maps):
        folder, recipe = self.work / "libraries", self.work / f"{name}.recipe"
        if not recipe.exists():
            folder.mkdir(exist_ok=True)
            code, text = run("cc", "-O2", "-shared", "-fPIC", HERE / f"fake/{name}.c", "-o", folder / file, "-ldl")
            expect(code == 0, text)
            recipe.write_text("".join(f"library {map_} {name}\n" for map_ in maps))
        env = {**self.fake, "LD_LIBRARY_PATH": f"{self.work}:{folder}"}
        return env, ("--target", "cuda", "--gpu-libraries", name, "--recipe", recipe)

    def convolutions(self):
        """The same of cuDNN and convolutions.ir."""
        return self.library_of("cudnn", "libcudnn.so.9", CONVOLUTIONS)

    def test_products_of_a_library(self):
        self.agrees_by_a_library("products", "cublaslt", PRODUCTS, *self.library(), "WEIR_FAKE_PRODUCTS")
        expect((self.work / "products.c/turned.pb").read_bytes() == (self.work / "products.fast.out/turned.pb").read_bytes(), "turned differs")

    def test_convolutions_of_a_library(self):
        self.agrees_by_a_library("convolutions", "cudnn", CONVOLUTIONS, *self.convolutions(), "WEIR_FAKE_CONVOLUTIONS")

    def agrees_by_a_library(self, model, library, maps, env, options, log):
        """Calls as listed in MODEL.txt, for these maps and no others, and the C target's results."""
        try:
            import numpy as np
        except ImportError:
            raise Skip("there is no numpy for Python")
        source, golden, wanted = HERE / f"{model}.ir", (HERE / f"{model}.txt").read_text(), self.work / f"{model}.c"
        code, text = run(self.weir, "run", source, "--random", "1", "--output-dir", wanted)
        expect(code == 0, text)
        for math, list_, near in (("default", golden, 1e-3), ("fast", re.sub("f32 alone(?!.* groups 16)", "tf32", golden), 6e-3)):
            calls, saved, got = (self.work / f"{model}.{math}.{what}" for what in ("calls", "recipe", "out"))
            code, text = run(self.weir, "run", source, *options, "--math", math, "--save-recipe", saved, "--random", "1",
                             "--output-dir", got, env={**env, log: str(calls)})
            expect(code == 0, text)
            expect(calls.read_text() == list_, calls.read_text())
            expect(re.findall(rf"^library (\w+) {library}$", saved.read_text(), re.M) == maps, saved.read_text())
            files = sorted(wanted.glob("*.npy"))
            expect(len(files) > len(maps) - 2, f"{len(files)} results")
            for file in files:
                a, b = (np.load(folder / file.name).astype(np.float64) for folder in (wanted, got))
                expect(np.allclose(a, b, rtol=near, atol=near, equal_nan=True), f"{file.name}, {math}: {abs(a - b).max()}")

    def test_products_are_recorded(self):
        self.is_recorded("products", *self.library(), "WEIR_FAKE_PRODUCTS")

    def test_convolutions_are_recorded(self):
        self.is_recorded("convolutions", *self.convolutions(), "WEIR_FAKE_CONVOLUTIONS")

    def is_recorded(self, model, env, options, log):
        """A run, one that is recorded and two as recorded: calls of the first two, equal bits of all."""
        weir, calls = pathlib.Path(self.options.build).resolve() / "compiler/libweir.so", self.work / f"{model}.recorded"
        try:
            import ml_dtypes  # noqa: F401
            import numpy  # noqa: F401
        except ImportError:
            raise Skip("there is no numpy or ml_dtypes for Python")
        self.compile(HERE / f"{model}.ir", self.work / f"{model}.so", *options[2:], env=env)
        script = ("import sys, ml_dtypes, numpy, weir\nm = weir.open(sys.argv[1])\nr = numpy.random.default_rng(1)\n"
                  "x = {p.name: r.random(p.dims, 'f4').astype(p.dtype) for p in m.inputs}\n"
                  "runs = [[numpy.array(y).tobytes() for y in m(**x)] for _ in range(4)]\n"
                  "assert all(run == runs[0] for run in runs)\n")
        code, text = run(sys.executable, "-c", script, self.work / f"{model}.so",
                         env={**env, "PYTHONPATH": str(ROOT / "tools/python"), "WEIR_LIBRARY": str(weir), log: str(calls)})
        expect(code == 0, text)
        expect(calls.read_text() == 2 * (HERE / f"{model}.txt").read_text(), calls.read_text())

    def test_a_library_that_is_not_there(self):
        self.is_missed("products", *self.library(), ("libcublasLt.so.12", "libcublasLt.so.13"),
                       "no cuBLASLt: neither libcublasLt.so.13 nor .12 can be opened .*file too short.* install cuBLAS, or compile",
                       'cuBLASLt is too old: it has no "cublasLtCreate"', "cuBLASLt has no way to make k0.plain (not supported)")

    def test_cudnn_that_is_not_there(self):
        self.is_missed("convolutions", *self.convolutions(), ("libcudnn.so.9",),
                       "no cuDNN: libcudnn.so.9 cannot be opened .*file too short.* install cuDNN 9, or compile",
                       'cuDNN is no version 9: it has no "cudnnCreate"', "cuDNN has no way to make k0.plain (CUDNN_STATUS_NOT_SUPPORTED)")

    def is_missed(self, model, env, options, files, no_file, no_function, no_algorithm):
        """What is said of files that are none, of one without functions, and of no algorithm; without the option all is well."""
        source = HERE / f"{model}.ir"
        broken, old = self.work / f"{model}.broken", self.work / f"{model}.old"
        for folder in (broken, old):
            folder.mkdir()
        for name in files:
            (broken / name).write_text("")
        code, text = run("cc", "-shared", "-fPIC", "-x", "c", "/dev/null", "-o", old / files[-1])
        expect(code == 0, text)
        for folder, why in ((broken, no_file), (old, no_function)):
            missing = {**self.fake, "LD_LIBRARY_PATH": f"{self.work}:{folder}"}
            code, text = run(self.weir, "run", source, *options, "--random", "1", env=missing)
            expect(code != 0 and re.search(why, text, re.S), text)
            code, text = run(self.weir, "run", source, "--target", "cuda", "--random", "1", env=missing)
            expect(code == 0, text)
        code, text = run(self.weir, "run", source, *options, "--random", "1", env={**env, "WEIR_FAKE_NO_ALGORITHM": "1"})
        expect(code != 0 and no_algorithm in text, text)

    def test_which_products_a_library_makes(self):
        """Those that take it less, and that nothing is fused to."""
        texts = {name: (text, there) for name, text, there in (
            ("large", bench.product("f16", 4096), True), ("small", bench.product("f16", 256), False),
            ("clamped", bench.biased("f16", 4096), False),
            ("biased", bench.biased("f16", 4096).replace("max(", "(").replace(", 0)", ")"), True), ("tf32", bench.rounded(2048), True),
            ("thin", bench.thin("f16", 4096), False), ("codes", bench.codes("i8", "i32", 4096), False),
            ("sizes", bench.product("f16", 4096).replace("{ in", "(N in 1..9999) { in", 1).replace("x : f16[4096", "x : f16[N")
             .replace("y : f16[4096", "y : f16[N").replace("i:4096", "i:N"), False))}
        for name, (text, there) in texts.items():
            source = self.work / f"{name}.ir"
            source.write_text(text)
            math = ["--math", "fast"] if "# math: fast" in text else []
            code, told = run(self.weir, "report", source, "--target", "cuda", "--gpu-libraries", "cublaslt", *math)
            expect(code == 0 and bool(re.search("^k0.[pr] runs by a library: cublaslt$", told, re.M)) == there, f"{name}: {told}")
            code, told = run(self.weir, "report", source, "--target", "cuda", *math)
            expect(code == 0 and "library" not in told, told)
        code, told = run(self.weir, "dump", self.work / "large.ir", "--target", "cuda", "--gpu-libraries", "cublaslt")
        expect(code == 0 and "\n    library cublaslt\n" in told, told)
        for old, new, why in (("library cublaslt", "library other", 'goes to an unknown library "other"'),
                              ("sum:f32", "max:f32", "is no product of matrices of known sizes")):
            (self.work / "said.ir").write_text(told.replace(old, new))
            code, text = run(self.weir, "compile", self.work / "said.ir", "--target", "cuda", "-o", self.work / "said.so", env=self.fake)
            expect(code == 1 and why in text, text)
        recipe = self.work / "own.recipe"
        recipe.write_text("library p own\n")
        code, told = run(self.weir, "dump", self.work / "large.ir", "--target", "cuda", "--gpu-libraries", "cublaslt", "--recipe", recipe)
        expect(code == 0 and "library" not in told, told)
        recipe.write_text("library p cublaslt\n")
        code, told = run(self.weir, "dump", self.work / "small.ir", "--target", "cuda", "--recipe", recipe)
        expect(code != 0 and 'own.recipe:1: "cublaslt" may not make "p"' in told, told)

    def test_which_convolutions_a_library_makes(self):
        """Those that take it less, and that it can describe."""
        large, uneven = bench.conv("f32"), bench.conv("f32").replace("h+r-1", "h+r")
        texts = {"large": (large, True, ()), "ended": (bench.conv_ended("f16"), True, ()), "small": (large.replace("128", "8").replace("56", "14"), False, ()),
                 "uneven": (uneven, False, ()), "strict": (large, False, ("--math", "strict")), "product": (bench.words(4096), False, ())}
        for name, (text, there, more) in texts.items():
            source = self.work / f"conv.{name}.ir"
            source.write_text(text)
            code, told = run(self.weir, "report", source, "--target", "cuda", "--gpu-libraries", "cudnn", *more)
            expect(code == 0 and bool(re.search("^k0.[pr] runs by a library: cudnn$", told, re.M)) == there, f"{name}: {told}")
            code, told = run(self.weir, "report", source, "--target", "cuda", "--gpu-libraries", "cublaslt", *more)
            expect(code == 0 and ("library: cublaslt" in told) == (name == "product"), told)
        recipe = self.work / "uneven.recipe"
        recipe.write_text("library p cudnn\n")
        code, told = run(self.weir, "dump", self.work / "conv.uneven.ir", "--target", "cuda", "--gpu-libraries", "cudnn", "--recipe", recipe)
        expect(code != 0 and 'pass "library" has nothing to choose for "p"' in told, told)
        code, told = run(self.weir, "dump", self.work / "conv.large.ir", "--target", "cuda", "--gpu-libraries", "cublaslt,cudnn")
        expect(code == 0 and "\n    library cudnn\n" in told, told)
        (self.work / "conv.said.ir").write_text(told.replace("library cudnn", "library cublaslt"))
        code, text = run(self.weir, "compile", self.work / "conv.said.ir", "--target", "cuda", "-o", self.work / "said.so", env=self.fake)
        expect(code == 1 and 'is no product of matrices of known sizes, as "cublaslt" makes them' in text, text)

    def test_numbers_of_a_library(self):
        self.declared("library_numbers", "cublasLt", "across 1 batch 4 step 1536\n")

    def test_numbers_of_cudnn(self):
        self.declared("convolution_numbers", "cudnn", "y 2 48 10 12 groups 4 math 3 end 1 nans 1\n")

    def declared(self, program, library, printed):
        """What the runtime declares of a library is what its header does, and the library itself takes it."""
        headers = [p for p in (pathlib.Path("/usr/local/cuda/include"), pathlib.Path("/usr/include")) if (p / f"{library}.h").exists()]
        if not headers:
            raise Skip(f"there is no {library}.h")
        folder, numbers = headers[0].parent / "lib64", self.work / program
        code, text = run("cc", "-I", ROOT, "-I", headers[0], HERE / f"{program}.c", HERE / "library_alone.c", "-o", numbers, "-L", folder,
                         f"-Wl,-rpath,{folder}", f"-l{library}", "-ldl", "-Werror=incompatible-pointer-types")
        expect(code == 0, text)
        code, text = run(numbers, env={"LD_LIBRARY_PATH": str(folder)})
        expect((code, text) == (0, printed), text)

    def test_host(self):
        models, host = [self.work / f"{name}.so" for name in ("relu", "take", "scale")], self.work / "host"
        for model in models:
            self.compile(HERE / f"{model.stem}.ir", model, "--packing", "swap")
        code, text = run("cc", "-O1", "-pthread", "-I", ROOT, HERE / "host.c", "-o", host, "-ldl")
        expect(code == 0, text)
        code, text = run(host, *models, env=self.fake)
        expect((code, text) == (0, "fine\n"), text)

    def test_tensors_of_python(self):
        library, folder = pathlib.Path(self.options.build).resolve() / "compiler/libweir.so", ROOT / "tools/python"
        try:
            import numpy  # noqa: F401
        except ImportError:
            raise Skip("there is no numpy for Python")
        self.compile(HERE / "relu.ir", self.work / "python.so")
        self.compile(HERE / "grown.ir", self.work / "grown.so")
        code, text = run(sys.executable, HERE / "tensors.py", self.work / "python.so", self.work / "grown.so",
                         env={**self.fake, "PYTHONPATH": str(folder), "WEIR_LIBRARY": str(library)})
        expect((code, text) == (0, "fine\n"), text)

    def test_pack(self):
        try:
            import numpy  # noqa: F401
            from onnx import numpy_helper  # noqa: F401
        except ImportError:
            raise Skip("there is no onnx or numpy for Python")
        folder, zoo = self.work / "packed", self.work / "zoo"
        code, text = run(sys.executable, HERE / "zoo.py", zoo)
        expect(code == 0, text)
        code, text = run(HERE / "pack", folder, "--zoo", zoo, "--zoo-models", "dense dense.f16@rows=3", "--build", self.options.build, "--cases", self.options.cases, "--every", "300",
                         "--model", ROOT / "tests/data/mnist/mnist_cntk.onnx", "--model", ROOT / "tests/cuda/hot/waves_tf32.ir", "--no-kernels", env=self.fake)
        expect(code == 0, text)
        code, text = run(folder / "run", "--no-times", env=self.fake)
        expect(code == 0 and re.search(r"[1-9]\d* passed, 0 failed\n.*\nfine\n", text), text)
        expect(len(re.findall(r"^dense\S* +ok ", text, re.M)) == 2, text)
        expect(len((folder / "models/dense/rest.bin").read_bytes()) < 200, "the weights travelled")

    def test_what_agrees_of_a_model(self):
        """Integers that scores chose may come in another order; bounds are those of a model's tensors, not of its name."""
        try:
            import numpy as np
            import models
        except ImportError:
            raise Skip("there is no numpy for Python")
        rows = np.stack([np.zeros(300), np.arange(300) % 7, np.arange(300)], 1).astype("i8")
        others = rows.copy()
        others[:9] += 1000
        floats, turned = np.linspace(-1, 1, 60, dtype="f4").reshape(3, 20), np.arange(8)
        for array, got, same in ((rows, rows[::-1], True), (rows, rows[:-1], True), (rows, others, False), (rows, rows[:, :2], False),
                                 (turned, turned, True), (turned, turned[::-1], False), (floats, floats, True),
                                 (floats, floats.T, False), (floats, floats[::-1], False)):
            far = models.distance([got], models.summary([array]))
            expect((far == 0) == same, f"{array.shape}, {got.shape}: {far}")
        for types, name, bound in ((["float16"], "m_fp16", 1e-2), (["float32"], "of_f16_in_name", 1e-4), (["float32"], "m.f16", 1e-4 + 2**-7),
                                   (["int8", "float32", "int32"], "q", 5e-2), ([], "m", 1e-4)):
            expect(models.bound_of(name, {"tensors": [{"dtype": t} for t in types]}) == bound, name)

    def test_calls(self):
        self.agrees("calls", 17)

    def test_order(self):
        """Of the order of elements, and of what follows it, every bit is the C target's."""
        self.agrees("order", 33)

    def agrees(self, model, outputs):
        out = {}
        for target in ("cuda", "c"):
            out[target] = self.work / f"{model}.{target}"
            code, text = run(self.weir, "run", HERE / f"{model}.ir", "--target", target, "--random", "1", "--output-dir", out[target],
                             env=self.fake)
            expect(code == 0, text)
        names = sorted(p.name for p in out["c"].iterdir())
        expect(len(names) >= outputs, names)
        for name in names:
            expect((out["cuda"] / name).read_bytes() == (out["c"] / name).read_bytes(), f"{name} differs from the C target's")

    def test_a_call_notices_a_bad_index(self):
        source = self.work / "bad.ir"
        source.write_text("flow bad {\n in x : f32[8]\n in u : f32[2]\n literal at : i64[2] = { 3, 8 }\n out y : f32[8]\n"
                          ' call s = scatter_elements(x, at, u) (0, 1) -> y from "the scatter"\n}\n')
        code, text = run(self.weir, "run", source, "--target", "cuda", "--random", "1", env=self.fake)
        expect(code != 0 and "an index is out of range in the scatter" in text, text)

    def test_report_names_the_host(self):
        code, text = run(self.weir, "report", ROOT / "tests/ir/11_nonzero_gather.ir", "--target", "cuda")
        expect(code == 0 and "on the GPU, a call: nonzero, 1 of them, whose sizes are read back" in text, text)
        code, text = run(self.weir, "dump", ROOT / "tests/ir/11_nonzero_gather.ir", "--target", "cuda")
        expect(code == 0 and text.endswith("\n# on the GPU, a call: nonzero, 1 of them, whose sizes are read back\n"), text)
        (self.work / "dumped.ir").write_text(text)
        code, again = run(self.weir, "dump", self.work / "dumped.ir", "--target", "cuda")
        expect((code, again) == (0, text), again)
        source = self.work / "coupling.ir"
        source.write_text("flow c {\n in p : f32[4,3]\n out q : f32[4,3]\n call c = coupling(p) -> q\n}\n")
        code, text = run(self.weir, "report", source, "--target", "cuda")
        expect(code == 0 and "on the host: coupling, 1 of them: it iterates until" in text, text)

    def test_profile(self):
        code, text = run(self.weir, "profile", HERE / "relu.ir", "--target", "cuda", "--size", "N=100", env=self.fake)
        expect(code == 0 and re.search(r"relu +\S+ +1 ", text), text)

    def test_emit_cu(self):
        folder = self.work / "texts"
        code, text = run(self.weir, "compile", HERE / "relu.ir", "--target", "cuda", "--emit", "cu", "--emit-dir", folder)
        expect(code == 0 and "KERNEL(256) kernel0(" in (folder / "relu.cu").read_text(), text)
        code, text = run(self.weir, "compile", HERE / "relu.ir", "--emit", "cu", "--emit-dir", folder)
        expect(code != 0 and 'give "target" "cuda"' in text, text)

    def test_wide_values(self):
        code, text = run(self.weir, "run", HERE / "wide.ir", "--target", "cuda", env=self.fake)
        expect(code == 0 and "min 0  max 2.997e+09" in text, text)

    def test_bits_behind_the_last_element(self):
        for target in ("cuda", "c"):
            code, text = run(self.weir, "run", HERE / "nibbles.ir", "--target", target, "--random", "1", "--output-dir",
                             self.work / target, env=self.fake)
            expect(code == 0, text)
        for name in ("y.pb", "z.pb"):
            got, wanted = ((self.work / target / name).read_bytes() for target in ("cuda", "c"))
            expect(got == wanted, f"{name}: {got} for {wanted}")

    def test_no_memory(self):
        self.compile(HERE / "relu.ir", self.work / "memory.so")
        code, text = run(self.weir, "run", self.work / "memory.so", "--random", "1",
                         env={**self.fake, "WEIR_FAKE_MEMORY": "100"})
        expect(code != 0 and re.search(r"cannot allocate \d+ bytes of the GPU's memory", text), text)

    def test_no_driver(self):
        self.compile(HERE / "relu.ir", self.work / "driver.so")
        if shutil.which("ldconfig") and "libcuda.so.1" in run("ldconfig", "-p")[1]:
            raise Skip("there is a driver")
        code, text = run(self.weir, "run", self.work / "driver.so", "--random", "1")
        expect(code != 0 and "no NVIDIA driver: libcuda.so.1" in text, text)
        code, text = run("ldd", self.work / "driver.so")
        expect("libcuda" not in text and "not found" not in text, text)
        code, text = run(self.weir, "info", self.work / "driver.so")
        expect("target  cuda: sm_80,sm_90a,sm_100" in text, text)

    def test_no_nvcc(self):
        code, text = run(self.weir, "compile", HERE / "relu.ir", "--target", "cuda", "-o", self.work / "x.so",
                         env={"WEIR_NVCC": "/nowhere/nvcc", "XDG_CACHE_HOME": str(self.work)})
        expect(code != 0 and "nvcc" in text, text)
        expect(not (self.work / "x.so").exists(), "a library was left")

    def test_nvcc(self):
        self.nvcc()
        for case in self.sample()[::max(1, len(self.sample()) // COMPILED_BY_NVCC)][:COMPILED_BY_NVCC]:
            code, text = run(self.weir, "compile", case / "model.onnx", "--target", "cuda", "-o", self.work / "nvcc.so")
            expect(code == 0, f"{case.name}: {text}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("tests", nargs="*", help="words in the names of tests; all without")
    parser.add_argument("--build", default=ROOT / "build")
    parser.add_argument("-j", default="2")
    parser.add_argument("--every", type=int, default=40)
    parser.add_argument("--cases", default="/usr/share/libonnx-testdata/data/node")
    passed = failed = skipped = 0
    with tempfile.TemporaryDirectory() as work:
        options = parser.parse_args()
        checks = Checks(options, pathlib.Path(work))
        for name in [n for n in dir(Checks) if n.startswith("test_") and (not options.tests or any(t in n for t in options.tests))]:
            try:
                passed += getattr(checks, name)() or 1
            except Skip as skip:
                skipped += 1
                print(f"skipped {name}: {skip}")
            except (AssertionError, subprocess.TimeoutExpired) as error:
                failed += 1
                print(f"FAIL {name}: {error}")
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
