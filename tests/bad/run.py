#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Hands bad models and bad inputs to the command line: each must end in exit code 1 and a message.

    tests/bad/run.py [--weir build/weir] [--base MODEL.onnx]... [--only PART] [--keep DIR] [-j N] [--every K]

The message must be one diagnostic ("error W... at FILE..."), name what the case says it must (node,
tensor, sizes), and nothing may be left where the output would be. A crash, a hang, a sanitizer's
report and an internal fault are failures. The last line is "N passed, N failed, N skipped".
"""
import argparse
import concurrent.futures
import os
import pathlib
import re
import signal
import struct
import subprocess
import sys
import tempfile
import time

import corpus
import wire

TIMEOUT = 60
ROOT = pathlib.Path(__file__).resolve().parents[2]
TESTDATA = pathlib.Path("/usr/share/libonnx-testdata/data")
BASES = {
    "mnist": ROOT / "tests/data/mnist/mnist_cntk.onnx",
    "lstm": TESTDATA / "node/test_lstm_defaults/model.onnx",
    "conv": TESTDATA / "pytorch-converted/test_Conv2d_padding/model.onnx",
    "loop": TESTDATA / "node/test_loop11/model.onnx",
}
FAULTS = ("AddressSanitizer", "UndefinedBehaviorSanitizer", "LeakSanitizer", "runtime error:", "internal fault",
          "Assertion")


def run(command, timeout=TIMEOUT):
    """(exit code, stderr); a signal is a negative code, a hang None."""
    try:
        done = subprocess.run([str(part) for part in command], stdin=subprocess.DEVNULL, capture_output=True,
                              timeout=timeout)
        return done.returncode, done.stderr.decode(errors="replace")
    except subprocess.TimeoutExpired:
        return None, ""


def judge(code, text, want, allowed=(1,)):
    """What is wrong with an answer, or None."""
    if code is None:
        return f"no answer after {TIMEOUT} s"
    if code < 0:
        return f"killed by signal {-code}: {text[-300:]}"
    for fault in FAULTS:
        if fault in text:
            return f"{fault}: {text[max(0, text.find(fault) - 100):][:400]}"
    if code not in allowed:
        return f"exit code {code}, expected {allowed[0]}: {text[-300:]}"
    if code == 0:
        return None
    for pattern in want:
        if not re.search(pattern, text):
            return f"the message lacks /{pattern}/: {text[-400:]}"
    return None


# ---- models ---------------------------------------------------------------------------------------------


def write_case(folder, case):
    folder.mkdir(parents=True)
    path = folder / f"{case.name}.onnx"
    path.write_bytes(case.data)
    for name, content in case.files.items():
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, str):
            target.symlink_to(content)
        else:
            target.write_bytes(content)
    return path


def check_model(weir, folder, case):
    path = write_case(folder, case)
    output = folder / "out.so"
    before = set(folder.iterdir())
    code, text = run([weir, "compile", path, "-o", output])
    wrong = judge(code, text, (r"error W\d{3} at .*" + re.escape(path.name),) + tuple(case.want),
                  (1, 0) if case.may_pass else (1,))
    left = sorted(p.name for p in set(folder.iterdir()) - before)
    if not wrong and code and left:
        wrong = f"left behind: {', '.join(left)}"
    if output.exists():
        output.unlink()
    return wrong


# ---- inputs of a good model -----------------------------------------------------------------------------------


def npy(dtype, shape, data=None, version=b"\x01\x00"):
    head = f"{{'descr': '{dtype}', 'fortran_order': False, 'shape': {tuple(shape)!r}, }}".encode()
    head += b" " * (63 - (len(head) + 10) % 64) + b"\n"
    count = 1
    for size in shape:
        count *= size
    body = bytes(count * int(re.sub(r"\D", "", dtype) or 1)) if data is None else data
    return b"\x93NUMPY" + version + struct.pack("<H", len(head)) + head + body


GOOD = wire.model(wire.graph(
    [wire.node("Add", ["a", "b"], ["t"]), wire.node("Gather", ["t", "i"], ["y"])],
    [wire.value_info("a", ["n", 3]), wire.value_info("b", ["n", 3]), wire.value_info("i", [2], wire.INT64)],
    [wire.value_info("y", [2, 3])]))
# A shape that data give, with a temporary of that shape.
SHAPED = wire.model(wire.graph(
    [wire.node("Reshape", ["a", "i"], ["t"]), wire.node("Softmax", ["t"], ["s"], axis=1),
     wire.node("MatMul", ["b", "s"], ["y"])],
    [wire.value_info("a", [4, 3]), wire.value_info("b", [4, 3]), wire.value_info("i", [2], wire.INT64)],
    [wire.value_info("y", [4, "m"])]))


def f32(*shape):
    return npy("<f4", shape)


class Proto(bytes):
    """A TensorProto, as a rule of f32, whose values stand in float_data."""

    def __new__(cls, dims, count, dtype=wire.FLOAT):
        return super().__new__(cls, wire.repeated(1, dims) + wire.field(2, dtype) + wire.field(4, bytes(4 * count)))


def window(**attributes):
    """A convolution whose weights are an input of any size."""
    return wire.model(wire.graph([wire.node("Conv", ["a", "b"], ["y"], name="conv", **attributes)],
                                 [wire.value_info("a", ["N", "C", "H"]), wire.value_info("b", ["M", "D", "K"])],
                                 [wire.value_info("y", ["N", "M", "L"])]))


# An empty axis that would become longer.
RESIZED = wire.model(wire.graph(
    [wire.node("Resize", ["a", "", "", "i"], ["y"], mode="linear")], [wire.value_info("a", ["n", "c"])],
    [wire.value_info("y", None)], [wire.tensor("i", [2], [5, 6], wire.INT64)]))
GROWN = wire.model(wire.graph(
    [wire.node("Resize", ["a", "", "", "i"], ["y"], mode="cubic")],
    [wire.value_info("a", ["n", 0]), wire.value_info("i", [2], wire.INT64)], [wire.value_info("y", None)]))
PADDED = wire.model(wire.graph(
    [wire.node("Pad", ["a", "i"], ["y"], mode="reflect")], [wire.value_info("a", ["n", "c"]), wire.value_info("i", [4], wire.INT64)],
    [wire.value_info("y", None)]))
# Of rank 1 in one branch and 0 in the other: the caller sees which, unless the model says it.
RANKED, RANKS = (wire.model(wire.graph(
    [wire.node("If", ["i"], ["y"], **{f"{way}_branch": wire.graph(
        [wire.node("Constant", [], ["z"], value=("t", wire.tensor("", dims, [1.0])))], [], [wire.value_info("z", dims)])
        for way, dims in (("then", [1]), ("else", []))})],
    [wire.value_info("i", [], wire.BOOL)], [wire.value_info("y", said)])) for said in ([1], None))
# As many conditions as there are true elements.
COUNTED = wire.model(wire.graph(
    [wire.node("Compress", ["i", "i"], ["c"]),
     wire.node("If", ["c"], ["y"], **{f"{way}_branch": wire.graph([wire.node(op, ["a"], ["z"])], [], [wire.value_info("z", ["n"])])
                                      for way, op in (("then", "Neg"), ("else", "Abs"))})],
    [wire.value_info("i", ["m"], wire.BOOL), wire.value_info("a", ["n"])], [wire.value_info("y", ["n"])]))
# A transform along any axis, and of any length.
TURNED = wire.model(wire.graph(
    [wire.node("DFT", ["a", "l", "i"], ["y"])], [wire.value_info("a", ["n", "m", 2]), wire.value_info("i", [1], wire.INT64)],
    [wire.value_info("y", None)], [wire.tensor("l", [], [5], wire.INT64)]), 20)
# A size that falls as the number of elements that are not 0 grows.
FALLING = wire.model(wire.graph(
    [wire.node("NonZero", ["a"], ["p"]), wire.node("Shape", ["p"], ["k"], start=1), wire.node("Shape", ["a"], ["n"], end=1),
     wire.node("Sub", ["n", "k"], ["d"]), wire.node("ConstantOfShape", ["d"], ["c"]),
     wire.node("ReduceSum", ["c"], ["y"], keepdims=0)],
    [wire.value_info("a", ["n", 3])], [wire.value_info("y", [])]))
A, B, I = npy("<f4", (4, 3)), npy("<f4", (4, 3)), npy("<i8", (2,))
# A header that ends behind its last key.
HEADLESS = b"\x93NUMPY\1\0" + struct.pack("<H", 47) + b"'shape': (4,), 'fortran_order': False, 'descr':"

# name: (files for a, b, i or None for none, what the message must hold, the model: GOOD)
INPUTS = {
    "input_missing": ((A, B, None), ('"i"',)),
    "input_dtype": ((npy("<f8", (4, 3)), B, I), ('"a"', "f64")),
    "input_rank": ((npy("<f4", (4, 3, 1)), B, I), ('"a"',)),
    "input_shape": ((npy("<f4", (4, 5)), B, I), ('"a"', "5")),
    "input_symbols_differ": ((A, npy("<f4", (5, 3)), I), ('"b"', "5")),
    "input_index_out_of_range": ((A, B, npy("<i8", (2,), struct.pack("<2q", 0, 99))), ("index|range|99",)),
    "input_empty_file": ((b"", B, I), ("a.npy",)),
    "input_cut_off": ((A[:-4], B, I), ("a.npy",)),
    "input_not_npy": ((b"hello" * 30, B, I), ("a.npy",)),
    "input_header_cut_off": ((A[:40], B, I), ("a.npy",)),
    "input_header_bad": ((A.replace(b"'shape'", b"'shap_'"), B, I), ('"a"',)),
    "input_header_ends": ((HEADLESS, B, I), ('"a"',)),
    "input_dims_huge": ((npy("<f4", (1 << 40, 1 << 40), b""), B, I), ('"a"',)),
    "input_dims_negative": ((npy("<f4", (-4, 3), b""), B, I), ('"a"',)),
    "input_dims_overflow": ((npy("<f4", (1 << 31, 1 << 31, 4), b""), B, I), ("a.npy.*no size",)),
    "input_proto_few": ((Proto((4, 3), 5), B, I), ("5 values, the shape asks for 12",)),
    "input_proto_many": ((Proto((4, 3), 13), B, I), ("13 values",)),
    "input_proto_huge": ((Proto((1 << 31, 1 << 20), 1), B, I), ("a.pb.*1 values",)),
    "input_proto_negative": ((Proto((-4, 3), 1), B, I), ("a.pb.*no size",)),
    "input_proto_type": ((Proto((4, 3), 12, 64), B, I), ("a.pb.*type 64 is none of ONNX",)),
    "input_proto_overflow": ((Proto((1 << 31, 1 << 31, 4), 1), B, I), ("a.pb.*no size",)),
    "input_makes_large": ((A, B, npy("<i8", (2,), struct.pack("<2q", 3, 1 << 20))), ("size|equal",), SHAPED),
    "input_makes_too_few": ((A, B, npy("<i8", (2,), struct.pack("<2q", 3, 2))), ("size|equal",), SHAPED),
    "input_makes_negative": ((A, B, npy("<i8", (2,), struct.pack("<2q", -3, -4))), ("size|equal",), SHAPED),
    "input_makes_fall": ((npy("<f4", (4, 3), b"\1" * 48), None, None), ('"c": dim 0, .* would be negative',), FALLING),
    "input_resize_empty": ((f32(4, 0), None, None), ('"a".*"c" = 0, outside 1',), RESIZED),
    "input_resize_known_empty": ((f32(4, 0), None, npy("<i8", (2,), struct.pack("<2q", 4, 9))), ('size of the_Resize',), GROWN),
    "input_pad_empty": ((f32(4, 0), None, npy("<i8", (4,), struct.pack("<4q", 0, 1, 0, 0))), ('output',), PADDED),
    "input_branch_rank": ((None, None, npy("|b1", (), b"\0")), ("another rank",), RANKED),
    "input_branch_ranks": ((None, None, npy("|b1", (), b"\0")), ("one rank",), RANKS),
    "input_conditions": ((f32(2), None, npy("|b1", (2,), b"\1\1")), ("condition.*one element",), COUNTED),
    "input_condition_none": ((f32(2), None, npy("|b1", (2,), b"\0\0")), ("condition.*one element",), COUNTED),
    "input_axis_last": ((f32(4, 3, 2), None, npy("<i8", (1,), struct.pack("<q", 2))), ("axis is none",), TURNED),
    "input_axis_beyond": ((f32(4, 3, 2), None, npy("<i8", (1,), struct.pack("<q", -9))), ("axis is none",), TURNED),
    "input_window_declared": ((f32(1, 2, 5), f32(3, 2, 2), None), ('"b": dim 2 is 2, expected 3',),
                              window(kernel_shape=[3])),
    "input_window_empty": ((f32(1, 2, 5), f32(3, 2, 0), None), ('"b".*"K" = 0, outside 1',), window()),
    "input_window_large": ((f32(1, 2, 5), f32(3, 2, 8), None), ('would be -1',), window(pads=[1, 0])),
    "input_window_channels": ((f32(1, 3, 5), f32(3, 2, 3), None), ('"b": dim 1 is 2, expected 3',), window()),
    "input_window_groups": ((f32(1, 4, 5), f32(3, 2, 3), None), ('is 3 and .* is 2: node "conv"',),
                            window(group=2)),
    "input_objects": ((npy("|O8", (4, 3)), B, I), ('"a"', r"\|O8'")),
}


def check_inputs(weir, folder, files, want, model=GOOD, more=()):
    folder.mkdir(parents=True)
    (folder / "good.onnx").write_bytes(model)
    command = [weir, "run", folder / "good.onnx"]
    for name, content in zip("abi", files):
        if content is not None:
            file = folder / f"{name}.{'pb' if isinstance(content, Proto) else 'npy'}"
            file.write_bytes(content)
            command += ["--input", f"{name}={file}"]
    return judge(*run(command + list(more)), ("^error|\nerror",) + tuple(want))


def check_command(weir, folder, arguments, code, want):
    folder.mkdir(parents=True)
    (folder / "good.onnx").write_bytes(GOOD)
    return judge(*run([weir] + [a.replace("DIR", str(folder)) for a in arguments]), want, (code,))


COMMANDS = {
    "no_arguments": ([], 2, ()),
    "verb_unknown": (["frobnicate"], 2, ("frobnicate",)),
    "option_unknown": (["compile", "DIR/good.onnx", "--frobnicate", "-o", "DIR/x.so"], 2, ("frobnicate",)),
    "option_without_value": (["compile", "DIR/good.onnx", "-o"], 2, ()),
    "option_value_bad": (["compile", "DIR/good.onnx", "-o", "DIR/x.so", "--math", "sloppy"], 2, ("sloppy",)),
    "dim_unknown": (["compile", "DIR/good.onnx", "-o", "DIR/x.so", "--dim", "zz=4"], 1, ("zz",)),
    "dim_bad": (["compile", "DIR/good.onnx", "-o", "DIR/x.so", "--dim", "n=8..2"], 2, ("n=8..2|8..2",)),
    "no_output": (["compile", "DIR/good.onnx"], 2, ("-o",)),
    "model_missing": (["compile", "DIR/absent.onnx", "-o", "DIR/x.so"], 1, ("absent.onnx",)),
    "model_is_folder": (["compile", "DIR", "-o", "DIR/x.so"], 1, ()),
    "output_folder_missing": (["compile", "DIR/good.onnx", "-o", "DIR/none/x.so"], 1, ("none/x.so",)),
    "library_is_model": (["verify", "DIR/good.onnx", "DIR/good.onnx"], 1, ("good.onnx", "library")),
    "library_missing": (["info", "DIR/absent.so"], 1, ("absent.so",)),
    "input_unknown": (["run", "DIR/good.onnx", "--input", "q=DIR/good.onnx"], 1, ('"q"',)),
    "input_file_missing": (["run", "DIR/good.onnx", "--input", "a=DIR/absent.npy"], 1, ("absent.npy",)),
}


def check_fault(weir, folder):
    """A crash is told as a fault of the compiler's own: here the process that does the work is shot."""
    folder.mkdir(parents=True)
    (folder / "good.onnx").write_bytes(GOOD)
    main = subprocess.Popen([str(weir), "bench", str(folder / "good.onnx"), "--min-time", "40"],
                            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env={
                                **os.environ, "ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "") + ":handle_segv=0"})
    children = pathlib.Path(f"/proc/{main.pid}/task/{main.pid}/children")
    deadline = time.monotonic() + TIMEOUT
    while not children.read_text().split() and time.monotonic() < deadline:
        time.sleep(0.05)
    os.kill(int(children.read_text().split()[0]), signal.SIGSEGV)
    text = main.communicate(timeout=TIMEOUT)[1].decode()
    return judge(main.returncode, text.replace("internal fault", "fault"), ("W099", "report", "bench", "signal 11"), (3,))


# ---- all -----------------------------------------------------------------------------------------------------------


def all_checks(weir, folder, bases):
    """(name, function) of each check."""
    for case in corpus.cases(bases):
        yield case.name, lambda case=case: check_model(weir, folder / case.name, case)
    good = folder / "inputs_good"
    yield "inputs_good", lambda: check_good(weir, good)
    for name, row in INPUTS.items():
        yield name, lambda name=name, row=row: check_inputs(weir, folder / name, *row)
    yield "fault_is_told", lambda: check_fault(weir, folder / "fault")
    for name, (arguments, code, want) in COMMANDS.items():
        yield name, lambda name=name, a=arguments, c=code, w=want: check_command(weir, folder / ("do_" + name), a, c, w)


def check_good(weir, folder):
    """The model that the bad inputs are for is right: otherwise they would prove nothing."""
    wrong = check_inputs(weir, folder, (A, B, I), ())
    return None if wrong and wrong.startswith("exit code 0") else wrong or "the good inputs were refused"


# Not refused yet, or without the name that the message should have: they count as skipped, and as failures
# once they pass.
OPEN = set()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--weir", type=pathlib.Path, default=ROOT / "build/weir")
    parser.add_argument("--base", type=pathlib.Path, action="append", help="models to damage (default: four small ones)")
    parser.add_argument("--only", default="", help="cases whose name holds this")
    parser.add_argument("--keep", type=pathlib.Path, help="a new folder for the corpus, kept")
    parser.add_argument("--every", type=int, default=1, help="every K-th case only")
    parser.add_argument("-j", type=int, default=os.cpu_count())
    args = parser.parse_args()
    paths = {p.stem: p for p in args.base} if args.base else {n: p for n, p in BASES.items() if p.exists()}
    with tempfile.TemporaryDirectory() as temporary:
        folder = args.keep or pathlib.Path(temporary)
        bases = {name: path.read_bytes() for name, path in paths.items()}
        checks = [c for c in all_checks(args.weir.resolve(), folder, bases) if args.only in c[0]][::args.every]
        failed = skipped = 0
        with concurrent.futures.ThreadPoolExecutor(args.j) as pool:
            for (name, _), wrong in zip(checks, pool.map(lambda c: c[1](), checks)):
                if name in OPEN:
                    skipped += 1 if wrong else 0
                    failed += 0 if wrong else 1
                    if not wrong:
                        print(f"FAIL {name}: passes now: take it off the list OPEN")
                elif wrong:
                    failed += 1
                    print(f"FAIL {name}: {' '.join(wrong.split())}", flush=True)
    print(f"{len(checks) - failed - skipped} passed, {failed} failed, {skipped} skipped")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
