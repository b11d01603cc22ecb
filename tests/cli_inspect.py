# SPDX-License-Identifier: Apache-2.0
"""Tests of the command line that look into models: check, dump, report, extract, profile (run by cli.py)."""
import json
import os
import re
import shutil
import subprocess

import wire
from cli_weir import FLAT, MNIST, ROOT, TIMEOUT, Skip, mlp, npy


def test_check(weir):
    model = weir.write("mlp.onnx", mlp())
    out = weir("check", model, "--size=batch=3").out
    assert re.fullmatch(r"y: f32\[3,3\]  (equal|worst \d+ ulp, relative \S+ \(.*\))  ok\n", out), out
    weir.write("x.npy", npy(FLAT, (3, 4)))
    out = weir("check", model, "--input=x=x.npy", "--bisect", "--threads=2").out
    assert out.startswith("y: f32[3,3]  equal  ok\n") and re.search(r"^after fuse +ok$", out, re.M), out
    assert "Plus214_Output_0: f32[1,10]  " in weir("check", MNIST, "--skip=fuse").out
    weir.write("gates.ir", b"flow gates {\n  in x : f32[40,64]\n  param w : f32[64,192]\n  out y : f32[40,3,64]\n  out z : f32[40,192]\n"
                           b"  map a [n:40, q:3, j:64, k:64] { x[n,k] * w[k, 64*q + j] -> y[n,q,j] sum:f32 }\n"
                           b"  map b [n:40, i:192, k:64] { x[n,k] * w[k,i] -> z[n,i] sum:f32 }\n}\n")
    assert weir("check", "gates.ir").out.count("  ok\n") == 2  # weights without values, read in two ways
    for packing in ("create", "swap"):  # weights that passes may not look at have their values all the same
        assert "nothing diverges" in weir("check", MNIST, "--bisect", f"--packing={packing}").out
    # functions whose long side few values need: none of a vector's lanes, one, all; 37 fill no vector
    weir.write("sin.ir", b"flow turns {\n  in x : f32[37]\n  out y : f32[37]\n  out z : f64[37]\n"
                         b"  map a [i:37] { sin(x[i]) + cos(x[i] * 3.0) -> y[i] }\n  map b [i:37] { cos(f64(x[i])) -> z[i] }\n}\n")
    for name, far in (("near", []), ("one", [20]), ("all", range(37))):
        values = [(-1) ** i * (3e9 * 5.0 ** i if i in far else 0.1 * i) for i in range(37)]
        weir.write(f"{name}.npy", npy(values, (37,)))
        assert weir("check", "sin.ir", f"--input=x={name}.npy").out.count("  equal  ok\n") == 2, name


def test_check_far(weir):
    """What rounding of inputs and weights explains is said so; what the passes do to a model is not excused."""
    weir.write("tie.ir", b"flow tie {\n  in x : f32[64, 1000]\n  out z : f32[64]\n  tmp s : f32[64]\n"
                         b"  map s [i:64, k:1000] { x[i,k] * 100000.0 -> s[i] sum:f32 }\n"
                         b"  map z [i:64] {\n    t = s[i] * 0.125\n    t - floor(t) -> z[i]\n  }\n}\n")
    told = "  ok: inputs and weights off by 4 units in the last place move the evaluator by "
    assert told in weir("check", "tie.ir", "--cpu=x86-64-v3").out
    nodes = [wire.node("Gather", ["w", "ids"], ["rows"]), wire.node("ReduceSum", ["rows", "axes"], ["s"], keepdims=0),
             wire.node("Mul", ["s", "eighth"], ["t"]), wire.node("Floor", ["t"], ["f"]), wire.node("Sub", ["t", "f"], ["z"])]
    constants = [wire.tensor("w", [2], [110000.3, -105000.7]), wire.tensor("axes", [1], [1], wire.INT64), wire.tensor("eighth", [], [0.125])]
    weir.write("ids.onnx", wire.model(wire.graph(nodes, [wire.value_info("ids", [64, 1000], wire.INT64)],
                                                 [wire.value_info("z", [64])], constants)))
    assert told in weir("check", "ids.onnx").out  # no input can be off
    if not shutil.which("cc"):
        raise Skip("there is no cc")
    subprocess.run(["cc", "-shared", "-fPIC", "-I", ROOT, ROOT / "tests/examples/plugin.c", "-o", "six.so"], cwd=weir.folder, check=True)
    weir.write("x.npy", npy([3.0 * i for i in range(784)], (1, 1, 28, 28)))  # beyond 6, where that pass cuts off
    done = weir("check", MNIST, "--input=Input3=x.npy", "--pass-plugin=./six.so", code=3)
    assert done.out.endswith("  DIFFERS\n"), done


def test_dump(weir):
    """Each level in each format; text reads back as it was; each pass by name."""
    model = weir.write("mlp.onnx", mlp())
    for level in ("graph", "flow", "nest"):
        text = weir("dump", model, "--level", level).out
        assert text.startswith("graph " if level == "graph" else "flow "), text[:100]
        weir.write("again.ir", text.encode())
        stop = {"graph": "simplify", "flow": "place", "nest": "vectorize"}[level]
        weir("dump", "again.ir", "--level", level, "-o", "third.ir")
        assert (weir.folder / "third.ir").read_text() == text or level == "flow", f"{level} does not read back ({stop})"
        assert json.loads(weir("dump", model, "--level", level, "--format=json").out)["level"] == level
        dot = weir("dump", model, "--level", level, "--format=dot").out
        assert dot.startswith("digraph ") and dot.count("{") == dot.count("}") and "\\u000a" not in dot, dot
        if shutil.which("dot"):
            subprocess.run(["dot", "-Tsvg"], input=dot.encode(), stdout=subprocess.DEVNULL, check=True)
    c = weir("dump", model, "--level=c").out
    assert "/* model.c */" in c and "weir_model_descriptor" in c
    for line in weir("explain", "passes").lines():
        name = line.split()[0]
        text = weir("compile", model, "-o", "m.so", "--print-after", name).out
        assert text == f"# after {name}\n{weir('dump', model, '--after', name).out}\n", name
    weir.fails(2, 'pass "fuse" makes a flow', "dump", model, "--level=nest", "--after=fuse")
    weir.fails(2, "is text", "dump", model, "--level=c", "--format=json")


def test_dump_to_pipe(weir):
    """What is there and is no file, a device or a pipe, is written to and stays what it is."""
    model, pipe = weir.write("mlp.onnx", mlp()), weir.folder / "pipe"
    os.mkfifo(pipe)
    reader = subprocess.Popen(["cat", pipe], stdout=subprocess.PIPE, text=True)
    try:
        weir("dump", model, "-o", "pipe")
        assert pipe.is_fifo(), "a file stands in a pipe's place"
        assert reader.communicate(timeout=TIMEOUT)[0] == weir("dump", model).out
    finally:
        reader.kill()
    weir.fails(1, "no regular file", "compile", model, "-o", "pipe")
    assert pipe.is_fifo()


def test_rows_share_keys(weir):
    """Tiles of rows go together over keys and values that the inner cache does not hold: too much to be evaluated by the stage tests."""
    def kernel(rows, keys):
        weir.write("attention.ir", f"flow attention {{\n  in q : f32[{rows},64]\n  in k : f32[64,{keys}]\n  in v : f32[{keys},64]\n  out y : f32[{rows},64]\n"
                                   f"  tmp s : f32[{rows},{keys}]\n  tmp top : f32[{rows}]\n  tmp e : f32[{rows},{keys}]\n"
                                   f"  tmp all : f32[{rows}]\n  tmp sums : f32[{rows},64]\n"
                                   f"  map scores [i:{rows}, j:{keys}, c:64] {{ q[i,c] * k[c,j] -> s[i,j] sum:f32 }}\n"
                                   f"  map top [i:{rows}, j:{keys}] {{ s[i,j] -> top[i] max:f32 }}\n"
                                   f"  map e [i:{rows}, j:{keys}] {{ exp(s[i,j] - top[i]) -> e[i,j] }}\n"
                                   f"  map all [i:{rows}, j:{keys}] {{ e[i,j] -> all[i] sum:f32 }}\n"
                                   f"  map weigh [i:{rows}, c:64, j:{keys}] {{ e[i,j] * v[j,c] -> sums[i,c] sum:f32 }}\n"
                                   f"  map y [i:{rows}, c:64] {{ sums[i,c] / all[i] -> y[i,c] }}\n}}\n".encode())
        return weir("dump", "attention.ir", "--cpu=x86-64-v3", "--after=schedule").out
    together = kernel(1500, 1500)
    assert "    tile i:24\n" in together and "tile scores.j:16 scores.i:6\n" in together, together
    for rows, keys in ((60, 1500), (1500, 200)):  # threads would get unequal parts; the inner cache holds them
        assert "scores.i:" not in kernel(rows, keys).split("unroll")[0], (rows, keys)


def test_barriers(weir):
    """A barrier stands where a kernel depends on another's elements or memory, and nowhere else. Outputs
    may share no memory with the input; a temporary may lie where another one lay."""
    flow = "flow f {{ in x : f32[512,512] out y : f32[512,512] out z : f32[512,512] {} }}"
    one = "map {} [i:512, j:512] {{ {} + 1 -> {}[i,j] }} "
    apart = "map a [i:256, j:512] { x[i,j] -> t[i,j] } map b [i:256, j:512] { x[i,j] -> t[i+256,j] } "
    programs = {  # barriers, that at the end included
        "chain": (2, one.format("a", "x[i,j]", "y") + one.format("b", "y[j,i]", "z")),
        "written_while_read": (2, one.format("a", "x[i,j]", "y") + one.format("b", "2.0", "z")),
        "beside": (1, one.format("a", "1.0", "y") + one.format("b", "2.0", "z")),
        "parts": (2, "tmp t : f32[512,512] " + apart + one.format("c", "t[j,i]", "y") + one.format("d", "t[i,j]", "z")),
        "memory": (4, "tmp t : f32[512,512] tmp s : f32[512,512] tmp v : f32[512,512] tmp u : f32[512,512] " +
                   one.format("a", "x[i,j]", "t") + one.format("b", "x[i,j]", "s") + one.format("c", "t[j,i]", "v") +
                   one.format("d", "s[i,j]", "u") + one.format("e", "u[j,i]", "y") + one.format("g", "v[i,j]", "z")),
        "rows_of_a_call": (2, "call k = topk(x) (1, 1) -> y " + one.format("a", "y[i,j]", "z")),
    }
    for name, (barriers, items) in programs.items():
        path = weir.folder / f"{name}.ir"
        path.write_text(flow.format(items))
        text = weir("dump", path, "--level", "c", "--skip", "clean", "--skip", "fuse").out
        found = len(re.findall(r"^ *weir_rt_barrier\(f, t, n\);", text, re.M))
        assert found == barriers, f"{name}: {found} barriers instead of {barriers}"
        assert ("c.part = t" in text) == (name == "rows_of_a_call"), name


def test_tables_of_keys(weir):
    """Where keys are found is known when compiling, whenever weights are packed."""
    weir.write("named.ir", b"flow named {\n  in x : i64[9]\n  literal keys : i64[3] = { 5, -2, 7 }\n  tmp slot : i32[8]\n  out y : i64[9]\n"
                           b"  call put = slots(keys) -> slot\n  call found = lookup(x, keys, slot) -> y\n}\n")
    for packing in ("build", "create", "swap"):
        text = weir("dump", "named.ir", "--after=constants", f"--packing={packing}").out
        assert "slots(" not in text and "call found" in text, text


def test_report(weir):
    whole = json.loads(weir("report", MNIST, "--format=json").out)
    kernels, total = whole["kernels"], whole["total"]
    for key in ("flop", "before_bytes", "planned_bytes", "bound_bytes"):
        assert sum(kernel[key] for kernel in kernels) == total[key] > 0, key
    assert {kernel["class"] for kernel in kernels} <= {"contraction", "normalisation", "reduction", "element-wise",
                                                       "movement"}
    assert total["before_bytes"] > total["planned_bytes"] >= total["bound_bytes"]
    assert total["unfused_activation_bytes"] > total["planned_activation_bytes"] > 0
    assert total["planned_activation_bytes"] < total["planned_bytes"]
    text = weir("report", MNIST).lines()
    assert len(text) == len(kernels) + 3 and text[0].split() == ["kernel", "class", "maps", "flop", "before", "planned",
                                                                 "bound"] and text[-2].startswith("total ") and text[-1].startswith("without weights: "), text
    model = weir.write("mlp.onnx", mlp())
    one, four = (json.loads(weir("report", model, "--format=json", f"--size=batch={n}").out)["total"] for n in (1, 4))
    assert four["flop"] == 4 * one["flop"] > 0


def test_extract(weir):
    big = [kernel["kernel"] for kernel in json.loads(weir("report", MNIST, "--format=json").out)["kernels"]
           if kernel["class"] == "contraction"][0]
    weir("extract", MNIST, "--kernel", big, "-o", "k.ir")
    assert weir("extract", MNIST, f"--kernel={big}").out == (weir.folder / "k.ir").read_text()
    assert weir("check", "k.ir").out.strip().endswith("ok")
    weir("run", "k.ir", "--random=1")
    weir("compile", "k.ir", "-o", "k.so")
    weir("bench", "k.so", "--min-time=0.01")
    weir("extract", MNIST, "--kernel", big, "--shrink", "-o", "s.ir")
    assert weir("check", "s.ir").out.strip().endswith("ok")
    assert len(json.loads(weir("report", "k.ir", "--format=json").out)["kernels"]) >= 1
    weir.fails(1, re.escape(big), "extract", MNIST, "--kernel=nope")


def test_profile(weir):
    model = weir.write("mlp.onnx", mlp())
    out = weir("profile", model, "--min-time=0.01", "--size=batch=8").out
    assert out.startswith("kernel ") and "contraction" in out, out
    done = weir("profile", model, "--min-time=0.01", "--format=json", "--trace=t.json")
    assert json.loads(done.out)["kernels"] and json.loads((weir.folder / "t.json").read_text()), done
    weir.fails(2, "needs the model", "profile", "m.so")
    weir.write("x.npy", npy(FLAT, (3, 4)))  # its sizes count as if they were said
    given, said = (json.loads(weir("profile", model, "--min-time=0.01", "--format=json", words).out)["kernels"]
                   for words in ("--input=x=x.npy", "--size=batch=3"))
    assert [k.get("flop") for k in given] == [k.get("flop") for k in said] and any(k.get("flop") for k in said), given


# ---- the rest ----------------------------------------------------------------------------------------------
