#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The Python package of tools/python/: what its README promises, and the official runner of ONNX on its backend.

    tests/python.py [--build build] [--only NAME]... [--official FILE]

Each function test_NAME is one test. --official runs all cases of onnx.backend.test instead of one in thirty and
writes what came out to FILE. What cannot be tried on this machine is skipped with its reason (NumPy, and for some
onnx, ml_dtypes or torch from PyPI, must be there). The last line is "N passed, N failed, N skipped".
"""
import argparse
import datetime
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import unittest

from harness import Skip, run_tests, tests_of

ROOT = pathlib.Path(__file__).resolve().parents[1]
MNIST = ROOT / "tests/data/mnist/mnist_cntk.onnx"
SOURCE = ROOT / "tools/python"
EVERY = 30  # of the official cases
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests/bad")]


def need(name):
    try:
        return __import__(name, fromlist=["x"])
    except ImportError as error:
        raise Skip(f"{error}") from None


def stroke():
    import numpy as np
    image = np.zeros((1, 1, 28, 28), np.float32)
    image[0, 0, 4:24, 13:15] = 255
    return image


def text_model(folder, text):
    path = pathlib.Path(folder) / "model.ir"
    path.write_text(text)
    return path


# ---- the package -------------------------------------------------------------------------------------------


def test_call(folder):
    """Inputs in order, by name, in a list; results that are new each time; a library; the model's description."""
    import weir
    model, image = weir.compile(MNIST), stroke()
    score = model(image)
    assert score.shape == (1, 10) and score.argmax() == 1 and score.dtype == "float32"
    assert (model({"Input3": image}) == score).all() and (model(Input3=image) == score).all() and (model([image]) == score).all() and model(image) is not score
    assert model.inputs == [weir.Port("Input3", "float32", (1, 1, 28, 28))] and model.build["weir"] == weir.version()
    assert (weir.compile(MNIST.read_bytes(), math="strict", threads=2)(image) - score < 1e-3).all()
    library = weir.compile(str(MNIST), output=f"{folder}/mnist.so", packing="create")
    assert (library(image) == weir.open(f"{folder}/mnist.so", threads=1)(image)).all()
    with weir.open(f"{folder}/mnist.so") as closed:
        pass
    fails(weir.Error, "closed", lambda: closed(image))


def fails(kind, words, fn):
    try:
        fn()
    except kind as error:
        assert re.search(words, str(error)), f"/{words}/ is not in: {error}"
        return error
    raise AssertionError(f"no {kind.__name__}")


def test_errors(folder):
    import numpy as np
    import weir
    error = fails(weir.Error, "not a valid ONNX file", lambda: weir.compile(b"nonsense"))
    assert error.diagnostics[0].id == "W010" and error.diagnostics[0].severity == 0
    fails(weir.Error, 'did you mean "math"', lambda: weir.compile(MNIST, maths="strict"))
    fails(weir.Error, "cannot open", lambda: weir.open(f"{folder}/none.so"))
    model = weir.compile(MNIST)
    fails(weir.Error, "Input3.*3 dims", lambda: model(stroke()[0]))
    fails(weir.Error, "Input3", lambda: model(stroke().astype(np.float64)))
    fails(TypeError, "Input3; give each once", lambda: model(stroke(), stroke()))
    fails(TypeError, "Input3; give each once", lambda: model({"Input4": stroke()}))
    fails(TypeError, "float32 to write to", lambda: model(stroke(), out=np.empty((1, 10))))
    fails(weir.Error, "packing", lambda: model.swap({"Parameter5": stroke()}))


def test_no_copies(folder):
    """Views with strides, arrays to write to, and anything with __dlpack__ are used where they lie."""
    import numpy as np
    import weir
    from weir import _abi, _tensors
    model, image = weir.compile(MNIST), stroke()
    wide = np.zeros((1, 1, 56, 84), np.float32)
    wide[:, :, ::2, ::3] = image
    for view in (wide[:, :, ::2, ::3], np.asfortranarray(image), image[:, :, ::-1][:, :, ::-1]):
        assert (model(view) == model(image)).all()
    score = np.empty((1, 10), np.float32)
    assert model(image, out=score) is score and (score == model(image)).all()

    class Foreign:
        def __dlpack__(self, **_):
            return image.__dlpack__()

        def __dlpack_device__(self):
            return (1, 0)

    assert (model(Foreign()) == score).all()
    for value in (image, wide[:, :, ::2, ::3], Foreign()):
        tensor = _abi.Tensor()
        _tensors.fill(tensor, value, [])
        assert tensor.data == (wide if value is not image and isinstance(value, np.ndarray) else image).ctypes.data


def test_growing(folder):
    """Symbolic dims, outputs whose size depends on data, empty tensors, scalars, lists of numbers."""
    import numpy as np
    import weir
    double = weir.compile(text_model(folder, "flow f (N in 0..) {\n  in x : f32[N]\n  out y : f32[N]\n"
                                             "  map y [i:N] { x[i] * 2.0 -> y[i] }\n}\n"))
    assert double.inputs[0].dims == ("N",)
    for n in (3, 0, 70000, 1):
        assert (double(np.arange(n, dtype=np.float32)) == 2 * np.arange(n)).all()
    assert double([1, 2, 3]).tolist() == [2, 4, 6]
    some = weir.compile(official("test_nonzero_example"))
    assert some(np.array([[True, False], [True, True]])).tolist() == [[0, 1, 1], [0, 0, 1]]


def test_outputs_kept(folder):
    """Memory of a large output is taken again when nobody has it any more, and not before."""
    import numpy as np
    import weir
    double = weir.compile(text_model(folder, "flow f (N in 0..) {\n  in x : f32[N]\n  out y : f32[N]\n"
                                             "  map y [i:N] { x[i] * 2.0 -> y[i] }\n}\n"))
    x = np.arange(40000, dtype=np.float32)
    places = set()
    for k in range(6):
        places.add(double(x).ctypes.data)
    assert len(places) == 1, places
    held, parts = [double(x + k) for k in range(5)], [double(x + k)[7:9] for k in range(5)]
    assert len({one.ctypes.data for one in held} | {one.ctypes.data - 28 for one in parts}) == 10
    for k in range(5):
        assert (held[k] == 2 * (x + k)).all() and parts[k].tolist() == [2 * (7 + k), 2 * (8 + k)]
    del held, parts
    first = double(x)
    raw = memoryview(first)
    del first
    for n in range(40000, 40010):
        grown = double(np.ones(n, np.float32))
        assert grown.size == n and (grown == 2).all() and raw[39999] == 79998


def official(name):
    path = pathlib.Path("/usr/share/libonnx-testdata/data/node") / name / "model.onnx"
    if not path.exists():
        raise Skip(f"there is no {path}")
    return path


def test_values(folder):
    """Strings, sequences, optionals."""
    import numpy as np
    import weir
    words = weir.compile(official("test_strnormalizer_export_monday_casesensintive_upper"))
    assert words(np.array(["monday", "tuesday", "über", "€"])).tolist() == ["TUESDAY", "ÜBER", "€"]
    parts = [np.arange(6, dtype=np.float32).reshape(2, 3)[:, :k] for k in (1, 2, 3)]
    got = weir.compile(official("test_sequence_insert_at_front"))
    at_front = got([np.array([1, 2, 3], np.int64), np.array([4], np.int64)], np.array([9, 8, 7], np.int64), np.array([0], np.int64))
    assert [one.tolist() for one in at_front] == [[9, 8, 7], [1, 2, 3], [4]]
    present = weir.compile(official("test_optional_has_element"))
    assert present(parts[0][:, 0]).item() is True and present(None).item() is False


def test_small_types(folder):
    """bfloat16 and four bits, by ml_dtypes."""
    np, types = need("numpy"), need("ml_dtypes")
    import weir
    for kind, name in (("bf16", "bfloat16"), ("i4", "int4"), ("u4", "uint4")):
        model = weir.compile(text_model(folder, f"flow f (N in 0..) {{\n  in x : {kind}[N]\n  out y : {kind}[N]\n"
                                                "  map y [i:N] { x[i] -> y[N - 1 - i] }\n}\n"))
        for n in (0, 1, 7, 8):
            x = np.arange(-4, n - 4).astype(getattr(types, name))
            assert model(x).dtype == x.dtype and (model(x).astype(float) == x[::-1].astype(float)).all(), (kind, n)


def test_swap(folder):
    import numpy as np
    import weir
    model = weir.compile(MNIST, packing="swap")
    bias = next(port for port in model.weights if port.name == "Parameter194")
    for best in (7, 2):
        model.swap({bias.name: np.eye(10, dtype=np.float32)[None, best] * 1e5})
        assert model(stroke()).argmax() == best
    fails(weir.Error, "nothing", lambda: model.swap({"nothing": np.zeros(1, np.float32)}))


def test_threads(folder):
    """Calls from several threads take turns, none gets another's result."""
    import numpy as np
    import weir
    model = weir.compile(text_model(folder, "flow f (N in 0..) {\n  in x : f32[N]\n  out y : f32[N]\n"
                                            "  map y [i:N] { x[i] + 1.0 -> y[i] }\n}\n"))
    wrong = []

    def work(k):
        for n in range(200):
            x = np.full(n % 7 * 50 + 1, k, np.float32)
            if (model(x) != k + 1).any():
                wrong.append(k)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_operators(folder):
    import numpy as np
    import weir
    model = weir.compile(ROOT / "tests/data/operators/acme.onnx", operators=(ROOT / "tests/data/operators/acme.ir").read_text(),
                         link=build_median(folder))
    assert len(model(np.ones((2, 5), np.float32))) == len(model.outputs) > 1


def build_median(folder):
    if not shutil.which("cc"):
        raise Skip("there is no cc")
    subprocess.run(["cc", "-c", "-fPIC", "-I", ROOT, ROOT / "tests/examples/median.c", "-o", f"{folder}/median.o"], check=True)
    return f"{folder}/median.o"


def has(module):
    return subprocess.run([sys.executable, "-c", f"import {module}"], capture_output=True).returncode == 0


def test_pip(folder):
    """`pip install` makes a package that works in a Python that sees nothing else of the tree."""
    if not has("pip"):
        raise Skip("there is no pip")
    copy = pathlib.Path(folder) / "copy"
    shutil.copytree(SOURCE, copy, ignore=shutil.ignore_patterns("__pycache__", "build", "*.egg-info"))
    alone = ["--no-build-isolation"] if has("setuptools") and has("wheel") else []  # else pip fetches them
    done = subprocess.run([sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--disable-pip-version-check", *alone,
                           "--target", f"{folder}/site", copy], capture_output=True, text=True)
    if not alone and re.search("connection|No matching distribution", done.stderr):
        raise Skip("there is no network to fetch setuptools from")
    assert done.returncode == 0, done.stderr
    said = subprocess.run([sys.executable, "-c", "import weir; print(weir.__file__, weir.compile(__import__('sys').argv[1]).name)", MNIST],
                          capture_output=True, text=True, cwd=folder, env=dict(os.environ, PYTHONPATH=f"{folder}/site"))
    assert said.stdout.startswith(f"{folder}/site/weir/") and said.stdout.endswith(" CNTKGraph\n"), said.stdout + said.stderr


def test_versions(folder):
    """One version: of the library, of the package's file, of the package."""
    import weir
    written = re.search(r'^version = "(.*)"', (SOURCE / "pyproject.toml").read_text(), re.M).group(1)
    assert weir.version() == weir.__version__ == written


def test_torch(folder):
    torch = need("torch")
    need("onnxscript")
    import weir

    class Module(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.conv, self.linear = torch.nn.Conv2d(3, 8, 3, padding=1), torch.nn.Linear(8, 5)

        def forward(self, x):
            y = torch.relu(self.conv(x)).mean((2, 3))
            return self.linear(y), y

    torch.manual_seed(0)
    module = Module().eval()
    model = weir.from_torch(module, (torch.randn(2, 3, 16, 16),), dynamic_shapes=({0: torch.export.Dim("batch")},), math="strict")
    x = torch.randn(5, 3, 16, 16)
    for got, want in zip(model(x), module(x)):
        assert torch.allclose(got, want, atol=1e-5)
    cell, steps = torch.nn.LSTM(4, 3).eval(), torch.randn(5, 1, 4)
    y, (h, c) = weir.from_torch(cell, (steps,))(steps)
    for got, want in zip((y, h, c), torch.utils._pytree.tree_leaves(cell(steps))):
        assert torch.allclose(got, want, atol=1e-5)
    half = torch.nn.Linear(8, 4).eval().to(torch.bfloat16)
    x = torch.randn(3, 8).to(torch.bfloat16)
    assert torch.allclose(weir.from_torch(half, x)(x).float(), half(x).float(), atol=0.05)


# ---- the official runner -----------------------------------------------------------------------------------


def official_suite(every):
    """The cases of onnx.backend.test for this backend, without those that draw at random (no two runtimes agree) and those
    whose models must be fetched."""
    runner_module = need("onnx.backend.test.runner")
    backend = need("weir.backend")
    runner = runner_module.Runner(backend, __name__)
    runner.exclude("_cuda$").exclude("bernoulli|training_dropout|random")
    cases = [case for suite in runner.test_cases.values() if "Real" not in suite.__name__
             for case in unittest.defaultTestLoader.loadTestsFromTestCase(suite)]
    cases = [case for case in cases if not getattr(getattr(case, case._testMethodName), "__unittest_skip__", False)]
    return unittest.TestSuite(cases[::every])


def record(result, count, path):
    import onnx
    bad = sorted((case.id().split(".")[-1], text.strip().split("\n")[-1][:160]) for case, text in result.failures + result.errors)
    lines = ["# The official runner of ONNX on weir.backend", "",
             f"`tests/python.py --official` with onnx {onnx.__version__}, {datetime.date.today()}: "
             f"{count - len(bad)} of {count} cases pass.", "", "| case | why not |", "|---|---|"]
    path.write_text("\n".join(lines + [f"| {name} | {why.replace('|', '/')} |" for name, why in bad]) + "\n")


def test_official(folder, every=EVERY, path=None):
    """All but those of operator sets that are not published yet, and the record's known ones."""
    suite = official_suite(every)
    count = suite.countTestCases()
    with open(os.devnull, "w") as nowhere:
        result = unittest.TextTestRunner(stream=nowhere, verbosity=0).run(suite)
    if path:
        record(result, count, path)
    known = set()
    for written in sorted((ROOT / "tests/results").glob("backend-*.md")):
        known |= set(re.findall(r"^\| (test_\w+) \|", written.read_text(), re.M))
    bad = [(case.id(), text) for case, text in result.failures + result.errors if case.id().split(".")[-1] not in known]
    assert count > 10 and not bad, "\n".join(f"{name}\n{text[-600:]}" for name, text in bad[:5])


# ---- all ---------------------------------------------------------------------------------------------------


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--only", action="append")
    parser.add_argument("--official", type=pathlib.Path)
    args = parser.parse_args()
    os.environ.setdefault("WEIR_LIBRARY", str(args.build.resolve() / "compiler/libweir.so"))
    sys.path.insert(0, str(SOURCE))
    tests = tests_of(globals())
    if not has("numpy"):
        print(f"SKIP all: there is no NumPy\n0 passed, 0 failed, {len(tests)} skipped")
        return 0
    with tempfile.TemporaryDirectory() as top:
        os.environ.setdefault("XDG_CACHE_HOME", f"{top}/cache")
        if args.official:
            return run_tests(["official"], lambda name: test_official(tempfile.mkdtemp(dir=top), 1, args.official))
        return run_tests(args.only or tests, lambda name: tests[name](tempfile.mkdtemp(dir=top)))


if __name__ == "__main__":
    sys.exit(main())
