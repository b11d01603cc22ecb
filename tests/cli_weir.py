# SPDX-License-Identifier: Apache-2.0
"""What the tests of the command line (cli.py) stand on: calls of weir in a folder of their own, small
models and arrays written by hand."""
import os
import pathlib
import re
import struct
import subprocess
import sys

from harness import Skip, tests_of  # noqa: F401

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests/bad"))
import wire  # noqa: E402

TIMEOUT = 60
MNIST = ROOT / "tests/data/mnist/mnist_cntk.onnx"


class Done:
    """What a command said: code, out, err."""

    def __init__(self, command, code, out, err):
        self.command, self.code, self.out, self.err = command, code, out, err

    def __str__(self):
        return f"$ {' '.join(self.command)}\nexit code {self.code}\n{self.out[-1500:]}{self.err[-1500:]}"

    def lines(self):
        return self.out.splitlines()


class Weir:
    def __init__(self, path, folder, cache):
        self.path, self.folder = path, folder
        self.env = dict(os.environ, XDG_CACHE_HOME=str(cache), TMPDIR=str(folder), LANG="C")

    def __call__(self, *words, code=0, env=None, cwd=None):
        command = [str(self.path)] + [str(word) for word in words]
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=TIMEOUT, text=True,
                              errors="replace", cwd=cwd or self.folder, env=dict(self.env, **(env or {})))
        result = Done(command, done.returncode, done.stdout, done.stderr)
        assert code is None or done.returncode == code, f"expected exit code {code}\n{result}"
        return result

    def fails(self, code, pattern, *words, **more):
        """The command ends with this code and its message (on standard error) matches."""
        done = self(*words, code=code, **more)
        assert re.search(pattern, done.err), f"the message lacks /{pattern}/\n{done}"
        return done

    def write(self, name, data):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        return path


# ---- models and tensors ------------------------------------------------------------------------------------

# ONNX's number of a dtype, numpy's name of it, struct's letter.
NUMPY = {1: ("<f4", "f"), 2: ("|u1", "B"), 3: ("|i1", "b"), 4: ("<u2", "H"), 5: ("<i2", "h"), 6: ("<i4", "i"),
         7: ("<i8", "q"), 9: ("|b1", "?"), 10: ("<f2", "e"), 11: ("<f8", "d"), 12: ("<u4", "I"), 13: ("<u8", "Q")}
BF16 = 16


def npy(values, shape, descr="<f4", letter="f"):
    head = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {tuple(shape)!r}, }}".encode()
    head += b" " * (-(11 + len(head)) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head + struct.pack(f"<{len(values)}{letter}", *values)


def read_npy(path):
    """(values, shape, descr)"""
    data = path.read_bytes()
    assert data[:8] == b"\x93NUMPY\x01\x00", data[:8]
    size = struct.unpack("<H", data[8:10])[0]
    assert (10 + size) % 64 == 0, "the header is not padded as numpy does it"
    head = eval(data[10:10 + size], {"__builtins__": {}}, {"False": False, "True": True})
    letter = dict(NUMPY.values())[head["descr"]]
    values = data[10 + size:]
    return list(struct.unpack(f"<{len(values) // struct.calcsize(letter)}{letter}", values)), head["shape"], head["descr"]


def mlp():
    """y[batch,3] = relu(x[batch,4] w + b)"""
    w = wire.tensor("w", [4, 3], [0.5 * i - 2 for i in range(12)])
    b = wire.tensor("b", [3], [1.0, -1.0, 0.25])
    nodes = [wire.node("MatMul", ["x", "w"], ["h"], name="fc/MatMul"), wire.node("Add", ["h", "b"], ["s"]),
             wire.node("Relu", ["s"], ["y"])]
    return wire.model(wire.graph(nodes, [wire.value_info("x", ["batch", 4])], [wire.value_info("y", ["batch", 3])],
                                 [w, b], name="mlp"))


def mlp_result(rows):
    """What mlp gives for these rows (exact: the numbers are small)."""
    w = [0.5 * i - 2 for i in range(12)]
    return [max(0.0, sum(row[k] * w[3 * k + j] for k in range(4)) + (1.0, -1.0, 0.25)[j]) for row in rows
            for j in range(3)]


def casts(dtypes):
    """One output "to/N" of each dtype N from x: f32[n]."""
    nodes = [wire.node("Cast", ["x"], [f"to/{t}"], name=f"cast{t}", to=t) for t in dtypes]
    outputs = [wire.value_info(f"to/{t}", ["n"], t) for t in dtypes]
    return wire.model(wire.graph(nodes, [wire.value_info("x", ["n"])], outputs))


ROWS = [[1, 2, -1, 0.5], [0, 1, 1, -2], [3, 0, 0, 0]]
FLAT = [v for row in ROWS for v in row]
