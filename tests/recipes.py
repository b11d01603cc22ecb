#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Recipes: saved, followed byte by byte, edited by hand, refused where they cannot hold. And passes of one's own.

    tests/recipes.py [--weir build/weir] [--only NAME]...
"""
import argparse
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

from cli_weir import MNIST, ROOT, Weir, mlp, npy, read_npy, tests_of, wire
from harness import run_tests

FACES = ROOT / "tests/data/demo/ultraface_rfb_320.onnx"
CPU = ("--cpu", "x86-64-v3")


def results(weir, name, *options):
    weir("run", MNIST, "--random=1", f"--output-dir={name}", *CPU, *options)
    return read_npy(weir.folder / name / "Plus214_Output_0.npy")[0]


DIRECT = "algorithm Convolution110 direct\n"  # one kernel of it and what follows, none of tiles


def saved(weir):
    (weir.folder / "direct").write_text(DIRECT)
    weir("dump", MNIST, "--level=nest", "-o", "nests", "--recipe", "direct", "--save-recipe", "saved.recipe", *CPU)
    return (weir.folder / "saved.recipe").read_text()


def kernel_of(text, maps):
    """The kernel of these maps, and the text of its lines."""
    found = re.search(rf"^kernel \S+ = {re.escape(maps)} on cpu \{{\n(.*?)^\}}\n", text, re.M | re.S)
    assert found, f"no kernel of {maps} in\n{text}"
    return found.group(0), found.group(1)


def emitted(weir, path, *options, emit="c"):
    """The texts of a model by name, without the line that says how they were made."""
    folder = weir.folder / "emitted"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    weir("compile", path, f"--emit={emit}", f"--emit-dir={folder}", *options)
    return {f.name: re.sub(r".*blake3.*", "", f.read_text(errors="replace")) for f in folder.iterdir()}


def test_own(weir):
    """With its own recipe a model becomes the same text."""
    model = weir.write("mlp.onnx", mlp())
    pieces = weir.write("pieces.ir", b"flow f { in x : f16[2560,2560] in w : f16[2560,2560] out y : f16[2560,2560]\n"
                        b"map p [i:2560, j:2560, k:2560] { f32(x[i,k]) * f32(w[k,j]) -> y[i,j] sum:f32 } }")
    rows = weir.write("norm.ir", b"flow f { in x : f16[8192,8192] tmp m : f32[8192] tmp v : f32[8192] out y : f16[8192,8192]\n"
                      b"map a [i:8192, j:8192] { f32(x[i,j]) / 8192 -> m[i] sum:f32 }\n"
                      b"map v [i:8192, j:8192] { d = f32(x[i,j]) - m[i]  d * d / 8192 -> v[i] sum:f32 }\n"
                      b"map y [i:8192, j:8192] { f16((f32(x[i,j]) - m[i]) / sqrt(v[i] + 0.00001)) -> y[i,j] } }")
    for path, options, emit in [(MNIST, (), "c"), (MNIST, ("--skip=fuse",), "c"), (MNIST, ("--skip=layout", "--packing=create"), "c"),
                                (FACES, (), "c"), (FACES, ("--math=strict", *CPU), "c"), (model, (), "c"), (model, ("--target=cuda",), "cu"),
                                (ROOT / "tests/cuda/hot/wide_f16.ir", ("--target=cuda",), "cu"),
                                (pieces, ("--target=cuda", "--gpu=sm_90a"), "cu"), (rows, ("--target=cuda", "--gpu=sm_90a"), "cu")]:
        want = emitted(weir, path, *options, "--save-recipe=first", emit=emit)
        rest = [o for o in options if not o.startswith("--skip")]
        got = emitted(weir, path, *rest, "--recipe=first", "--save-recipe=second", emit=emit)
        assert (weir.folder / "first").read_bytes() == (weir.folder / "second").read_bytes(), (path, options)
        assert want and got == want, (path, options, [name for name in want if got.get(name) != want[name]])


def test_remarks(weir):
    """Which file a kernel goes to does not hang on how long the recipe is, which the model's description holds."""
    want = emitted(weir, MNIST, "--cpu=x86-64-v3", "--save-recipe=first")
    (weir.folder / "long").write_text("# a remark\n" * 4000 + (weir.folder / "first").read_text())
    got = emitted(weir, MNIST, "--cpu=x86-64-v3", "--recipe=long")
    assert "kernels1.c" in want and got == want, [name for name in want if got.get(name) != want[name]]


EDITS = {
    "split, lines chosen": lambda t: t.replace(kernel_of(t, "Convolution28 ReLU32")[0],
                                               "kernel a = Convolution28\nkernel b = ReLU32\n"),
    "split, lines given": lambda t: t.replace(kernel_of(t, "Convolution28 ReLU32")[0], """
kernel a = Convolution28 on cpu { tile h:4 parallel h vector w:8 unroll w }
kernel b = ReLU32 { tile i2:7 i1:3 order i1 i2 parallel i1 vector i3:8 }
"""),
    "tile": lambda t: t.replace(kernel_of(t, "Convolution28 ReLU32")[1], re.sub(
        r" i3:\d+", " i3:5", kernel_of(t, "Convolution28 ReLU32")[1])),
    "no lines": lambda t: t.replace(kernel_of(t, "Convolution110 ReLU114")[1], "Convolution110 keep Convolution110_Output_0 tile\n"),
    "joined": lambda t: t.replace(kernel_of(t, "Convolution110 ReLU114")[0], "").replace(
        kernel_of(t, "Pooling160")[0], "kernel a = Convolution110 ReLU114 Pooling160 { tile h:1 parallel h vector c:8"
        " Convolution110 keep Convolution110_Output_0 scratch ReLU114 keep ReLU114_Output_0 scratch }\n"),
    "layout": lambda t: "\n".join(line for line in t.replace("blocked", "plain").split("\n") if line.startswith("layout")),
    "margin": lambda t: "layout Input3.margin tested\nlayout Pooling66_Output_0.margin tested\n",
    "panels": lambda t: "layout Convolution110.panels plain\nlayout Times212.panels lanes32\n",
    "stored": lambda t: "fuse Plus30 store\nfuse Plus112 inline",
    "nothing": lambda t: "# no decision\n",
    "skipped": lambda t: "skip layout\nskip fuse\n",
}


def test_edits(weir):
    """What a person changes is done, and gives the same results."""
    text, want = saved(weir), results(weir, "want")
    nests = (weir.folder / "nests").read_text()
    for name, edit in EDITS.items():
        edited = edit(text)
        assert edited != text, name
        (weir.folder / "edited").write_text(edited if "algorithm" in edited else DIRECT + edited)
        got = results(weir, "got", "--recipe=edited")
        assert max(abs(a - b) for a, b in zip(got, want)) <= 1e-3 * max(map(abs, want)), name
        changed = weir("dump", MNIST, "--level=nest", "--recipe=edited", "--verify-each", *CPU).out != nests
        assert changed == (name != "nothing"), f"{name}: the nests are as before"
    (weir.folder / "edited").write_text(EDITS["split, lines chosen"](text))
    out = weir("dump", MNIST, "--after=schedule", "--recipe=edited", *CPU).out
    assert re.search(r"kernel \S+ = ReLU32 ", out) and re.search(r"kernel \S+ = Convolution28 ", out)


def test_lanes(weir):
    """An operand whose lanes do not lie side by side is copied, or read as it lies."""
    nodes = [wire.node("Transpose", ["z"], ["t"], perm=[1, 0]), wire.node("MatMul", ["x", "t"], ["y"], name="mm")]
    model = weir.write("mm.onnx", wire.model(wire.graph(nodes, [wire.value_info("x", [64, 32]), wire.value_info("z", [48, 32])],
                                                        [wire.value_info("y", [64, 48])])))
    flow = weir("dump", model, "--after=place", "--save-recipe=saved", *CPU).out
    assert "layout mm.lanes copied" in (weir.folder / "saved").read_text() and re.search(r"map z\.lanes ", flow), flow
    (weir.folder / "strided").write_text("layout mm.lanes strided\n")
    assert "lanes" not in weir("dump", model, "--after=place", "--recipe=strided", *CPU).out
    weir("check", model, "--recipe=strided", *CPU)


def test_images(weir):
    """How many images of a batch run at a time, and what is copied near tiles."""
    model = ROOT / "tests/ir/43_images_in_turn.ir"
    text = model.read_text()
    flow = weir.write("images.ir", text[text.index("flow squeezed"):text.index("flow statistics")].encode())
    dump = weir("dump", flow, "--after=schedule", "--save-recipe=saved", *CPU).out
    lines = [line for line in (weir.folder / "saved").read_text().split("\n") if line.startswith(("batch", "layout d.near"))]
    assert lines == ["layout d.near copied", "batch a images1", "batch e images1", "batch d images1"], lines
    assert "loop block0:4 {" in dump and "t.near at (" in dump, dump
    for edit, there, gone in [("batch e whole", ["loop block0:4 {", "loop block2:4 {"], []),
                              ("batch a images2\nbatch e images2\nbatch d images2", ["loop block0:2 {"], ["block0:4"]),
                              ("batch a whole\nbatch e whole\nbatch d whole", [], ["loop"]),
                              ("layout d.near far", ["loop block0:4 {"], ["t.near"])]:
        (weir.folder / "edited").write_text(edit)
        dump = weir("dump", flow, "--after=schedule", "--recipe=edited", *CPU).out
        assert all(t in dump for t in there) and not any(t in dump for t in gone), (edit, dump)
        weir("check", flow, "--recipe=edited", *CPU)
    whole = weir.write("whole.ir", b"flow f { in x : f32[8,24,30] out y : f32[8,8,24] tmp s : f32[8,24]\n"
                       b"map a [n:8, c:24, h:30] { x[n,c,h] -> s[n,c] sum:f32 }\n"
                       b"map b [n:8, m:8, c:24] { s[n,c] - s[m,c] -> y[n,m,c] } }")
    (weir.folder / "edited").write_text("batch b images2")
    weir.fails(1, "nothing to choose for", "dump", whole, "--recipe=edited", *CPU)


def test_rows_ahead(weir):
    """How many blocks on a block of a GPU asks for a row, and of what."""
    flow = weir.write("rows.ir", b"flow f { in x : f32[8192,4096] in z : f32[4096,8192] tmp m : f32[8192] out y : f32[8192,4096]\n"
                      b"map a [i:8192, j:4096] { x[i,j] -> m[i] max:f32 }\nmap p [i:8192, j:4096] { x[i,j] - m[i] + z[j,i] -> y[i,j] } }")
    gpu = ("--target=cuda", "--gpu=sm_90a", "--recipe=edited")
    lines = "tile i:1 block i thread a.j:128 vector a.j:4 a at (i) a keep m reg thread j:128 "
    for more, wanted in [("", None), ("a prefetch x i:33", "prefetch x[i_0 + 33, "), ("prefetch x i:264", "prefetch x[i_0 + 264, ")]:
        (weir.folder / "edited").write_text(f"kernel k = a p {{ {lines + more} }}")
        dump = weir("dump", flow, "--level=nest", *gpu).out
        assert wanted in dump if wanted else "prefetch" not in dump, (more, dump)
    for more, why in [("a prefetch x", "say how many blocks ahead"), ("a prefetch x i", "say how many blocks ahead"),
                      ("a prefetch x j:2", "no blocks go along dim .j."), ("prefetch z i:2", "no row of neighbours"),
                      ("prefetch m i:2", ".a. of the kernel makes .m."), ("a prefetch z i:2", "no row of neighbours")]:
        (weir.folder / "edited").write_text(f"kernel k = a p {{ {lines + more} }}")
        weir.fails(1, why, "dump", flow, *gpu)
    (weir.folder / "edited").write_text("kernel k = a p { tile i:1 block i a at (i) a keep m reg thread j:128 a prefetch x i:2 }")
    weir.fails(1, "threads do not share a dim of .a.", "dump", flow, *gpu)


def test_rows_divided(weir):
    """Terms of a softmax divided by their row's sum, or multiplied by one over it: as many last places apart as that takes."""
    text = (ROOT / "tests/ir/30_normalized_sums.ir").read_text()
    flow = weir.write("few.ir", text[text.index("flow few"):].encode())
    weir("dump", flow, "--save-recipe=saved", *CPU)
    assert "normalize dv divided" in (weir.folder / "saved").read_text()
    (weir.folder / "edited").write_text("normalize dv multiplied")
    for recipe, product in ((), False), (("--recipe=edited",), True):
        dump = weir("dump", flow, "--after=normalize", *CPU, *recipe).out
        assert ("map dv.rate" in dump) == product and ("t0 / t1" in dump) != product, dump
        weir("check", flow, "--random=1", *CPU, *recipe)
    (weir.folder / "edited").write_text("normalize dv once")
    weir.fails(1, "multiplied", "dump", flow, "--recipe=edited", *CPU)


def test_quarters(weir):
    """A product by quarters or not, in strips that make their rows or not; rows that are not finite keep to themselves."""
    text = (ROOT / "tests/ir/46_quarters.ir").read_text()
    flow = weir.write("plain.ir", text[text.index("flow plain"):text.index("flow heads")].encode())
    thin = weir.write("thin.ir", text[text.index("flow thin"):text.index("flow short")].encode())
    both = weir.write("both.ir", text[text.index("flow both"):text.index("flow thin")].encode())
    x = [(i * 37 % 101 - 50) / 50 for i in range(131 * 512)]
    for row, value in ((2, float("nan")), (5, float("inf")), (130, float("-inf"))):
        x[row * 512 + 7] = value
    weir.write("x.npy", npy(x, (131, 512)))

    def rows(name, *options):
        weir("run", flow, "--random=1", "--input=x=x.npy", f"--output-dir={name}", *CPU, *options)
        y = read_npy(weir.folder / name / "y.npy")[0]
        return [y[i * 512:(i + 1) * 512] for i in range(131)]
    (weir.folder / "direct").write_text("algorithm p direct")
    (weir.folder / "joined").write_text("algorithm p quarters\nkernel k = p.v p.p p.z e")
    want = rows("direct-y", "--recipe=direct")
    for recipe in ((), ("--recipe=joined",)):
        dump = weir("dump", flow, "--after=schedule", *CPU, *recipe).out
        assert ("= p.v p.p p.z e on cpu" in dump) == bool(recipe) and ("p.v at (i:" in dump) == bool(recipe), dump
        for i, (a, b) in enumerate(zip(rows("quarters-y", *recipe), want)):
            if i in (2, 5, 130):
                assert all(v != v for v in a), i
            else:
                assert all(abs(p - q) <= 1e-4 for p, q in zip(a, b)), i
    for threads in ("1", "3"):
        weir("check", flow, "--random=2", f"--threads={threads}", "--recipe=joined", *CPU)
    (weir.folder / "forced").write_text("algorithm p quarters")
    assert "p.p [t:7, i:2, " in weir("dump", thin, "--after=algorithm", "--recipe=forced", *CPU).out
    weir("check", thin, "--recipe=forced", *CPU)
    (weir.folder / "forced").write_text("algorithm m quarters")
    weir.fails(1, "nothing to choose for", "dump", both, "--recipe=forced", *CPU)
    large = weir.write("large.ir", b"flow f { in x : f32[4096,1024] param w : f32[1024,4096] out y : f32[4096,4096]\n"
                       b"map p [i:4096, j:4096, k:1024] { x[i,k] * w[k,j] -> y[i,j] sum:f32 } }")
    for mode, chosen in (("default", True), ("fast", False)):  # pairs of bf16 are twice as quick as products of f32
        dump = weir("dump", large, "--after=algorithm", "--cpu=znver4", f"--math={mode}").out
        assert ("t:7" in dump) == chosen, dump


CONV = "Convolution28 ReLU32"
REFUSED = [
    ("batch Convolution28\nfuse Plus30 store", ":1: \"batch Convolution28\" lacks its choice"),
    ("batch Convolution28 images2", "nothing to choose for \"Convolution28\""),
    ("kernel a = Nothing", "no map \"Nothing\""),
    ("kernel a = ReLU32 Convolution28", "\"Convolution28\" runs before \"ReLU32\""),
    ("kernel a = ReLU32\nkernel b = Convolution28 ReLU32", ":2: map \"ReLU32\" is in a kernel before"),
    ("kernel a = Convolution28 Convolution28", "stands twice"),
    ("kernel a = Convolution28 Pooling160", "\"ReLU32\" reads \"Convolution28_Output_0\" of \"Convolution28\" before \"Pooling160\" runs"),
    (f"kernel a = {CONV} {{ tile z:4 }}", "no dim \"z\""),
    (f"kernel a = {CONV} {{\n  tile i2:4\n  tile Convolution28.r:2\n}}", ":3: \"Convolution28\" sums over \"r\""),
    (f"kernel a = {CONV} {{ tile i2:4 parallel i1 }}", "dim \"i1\" of map \"ReLU32\" has no tile"),
    (f"kernel a = {CONV} {{ tile i2:0 }}", "needs a size"),
    (f"kernel a = {CONV} {{ vector i3:16 }}", "16 lanes, but those of this machine's vectors are 8"),
    (f"kernel a = {CONV} {{ tile i2:4 block i2 }}", "no blocks of threads"),
    (f"kernel a = {CONV} {{ tile i1:1 parallel i1 Convolution28 at () }}\n"
     "kernel b = Pooling66 { tile r:2 }", ":2: \"Pooling66\" sums over \"r\""),
    (DIRECT + "kernel a = Convolution110 ReLU114 Pooling160 { tile h:1 parallel h }", "\"Convolution110_Output_0\" lies in memory, but tiles of \"h\""),
    ("kernel a = ReLU114 { keep ReLU114_Output_0 tile }", "\"ReLU114_Output_0\" is read outside of the kernel"),
    (f"kernel a = {CONV} {{ keep Parameter5 reg }}", "no map of the kernel makes \"Parameter5\""),
    (f"kernel a = {CONV} {{ reduce Convolution28.w }}", "does not reduce over \"w\""),
    (f"kernel a = {CONV} {{ reduce Convolution28.r:2 }}", "no loop runs inside them"),
    (f"kernel a = {CONV} {{ tile i2:4\n  Convolution28 at (i2) keep Convolution28_Output_0 tile\n"
     "  unroll Convolution28.o Convolution28.h Convolution28.w Convolution28.r Convolution28.s }", ":3: unrolled to about"),
    (f"kernel a = {CONV} {{ tile i2:4 keep Convolution28_Output_0 reg }}", "\"Convolution28_Output_0\" is in registers, which"),
    ("kernel a = ReLU114 { use vpdpbusd }", "hold together: leave them as they are chosen"),
    ("kernel a = Pooling66 {", "expected"),
    ("fuse Convolution28 inline", "\"Convolution28\" cannot move into its readers: it is no element-wise map"),
    ("fuse Plus30 over", "cannot choose \"over\"; it chooses inline, store"),
    ("fuse Plus30 inline\nfuse Plus30 store", ":2: \"fuse Plus30\" stands on line 1"),
    ("layout Nothing plain", "no map or container \"Nothing\""),
    ("layout Input3 blocked", "nothing to choose for \"Input3\""),
    ("layout Plus112_Output_0 diagonal", "it chooses blocked, plain"),
    ("layout Input3.margin wide", "it chooses tested, made"),
    ("layout Convolution28.panels lanes12", "it chooses plain, lanes8, lanes16, lanes24, lanes32"),
    ("layout Pooling66.panels plain", "no map or container \"Pooling66.panels\""),
    ("layout Convolution28.lanes copied", "no map or container \"Convolution28.lanes\""),
    ("algorithm Convolution28 points4", "cannot have tiles of 4 points"),
    ("algorithm Pooling66 points6", "nothing to choose for \"Pooling66\""),
    ("skip schedule", "cannot be skipped"),
    ("skip nothing", "no pass \"nothing\""),
    ("fission Plus30 inline", "\"fission\" is no pass"),
    ("only cpu z80", "for cpu \"z80\" only"),
    ("only weir \"0.0.1\"", "of weir 0.0.1 only"),
]


def test_refused(weir):
    """Each decision that cannot hold ends with exit code 1, and its line says why."""
    for text, why in REFUSED:
        (weir.folder / "bad.recipe").write_text(text + "\n")
        done = weir("compile", MNIST, "-o", "m.so", "--recipe=bad.recipe", *CPU, code=None)
        assert done.code == 1 and "bad.recipe" in done.err and re.search(re.escape(why).replace("\\\n", ".*"), done.err), \
            f"{text}\nwants /{why}/\n{done}"
        assert not (weir.folder / "m.so").exists()
    weir.fails(1, "cannot read", "compile", MNIST, "-o", "m.so", "--recipe=missing")
    weir("dump", MNIST, "--after=schedule", "-o", "scheduled.ir", *CPU)
    (weir.folder / "bad.recipe").write_text("kernel a = ReLU32\n")
    weir.fails(1, "has its kernels already", "compile", "scheduled.ir", "-o", "m.so", "--recipe=bad.recipe")


def test_verbs(weir):
    """Every verb that takes compile's options takes a recipe; verify follows the one that the library names, or another."""
    text = saved(weir)
    (weir.folder / "split").write_text(EDITS["split, lines chosen"](text))
    weir("compile", MNIST, "-o", "m.so", "--recipe=split", *CPU)
    assert "the same" in weir("verify", "m.so", MNIST, "--recipe=split").out
    assert "the same" in weir("verify", "m.so", MNIST).out
    weir("compile", MNIST, "-o", "plain.so", *CPU)
    weir("verify", "plain.so", MNIST, "--recipe=split", code=1)
    report = weir("report", MNIST, "--recipe=split", *CPU).out
    assert re.search(r"^k\d+\.Convolution28 ", report, re.M) and re.search(r"^k\d+\.ReLU32 ", report, re.M)
    weir("check", MNIST, "--recipe=split", *CPU)


# ---- measured lines ----------------------------------------------------------------------------------------


def test_tune(weir):
    """What tune writes is a recipe for this CPU and version, with the same results; nothing else is left."""
    out = weir("tune", MNIST, "-o", "m.tune", "--random=1", "--max-time=20", "--min-time=0.01", "--threads=2").out
    kernels = int(re.search(r"^(\d+) of \d+ kernels run by other lines: \S+ of \S+ ms saved$", out, re.M).group(1))
    text = (weir.folder / "m.tune").read_text()
    assert re.match(r"only cpu \"\S+\"\nonly weir \"[\d.]+\"\n", text) and len(re.findall("^kernel ", text, re.M)) == kernels, text
    assert not list(weir.folder.glob("*.trying"))
    for name, options in (("want", ()), ("got", ("--recipe=m.tune",))):
        weir("run", MNIST, "--random=1", f"--output-dir={name}", *options)
    want, got = (read_npy(weir.folder / name / "Plus214_Output_0.npy")[0] for name in ("want", "got"))
    assert max(abs(a - b) for a, b in zip(got, want)) <= 1e-4 * max(map(abs, want))
    text_of = (ROOT / "tests/ir/46_quarters.ir").read_text()
    flow = weir.write("plain.ir", text_of[text_of.index("flow plain"):text_of.index("flow heads")].encode())
    weir("tune", flow, "-o", "q.tune", "--random=1", "--max-time=15", "--min-time=0.01", *CPU)
    weir("check", flow, "--random=1", "--recipe=q.tune", *CPU)
    (weir.folder / "m.tune").write_text(text.replace("only cpu \"", "only cpu \"not-"))
    weir.fails(1, "for cpu \"not-", "compile", MNIST, "-o", "m.so", "--recipe=m.tune")
    weir.fails(2, "needs -o", "tune", MNIST)
    weir.fails(2, "takes no .--recipe.*it makes a recipe", "tune", MNIST, "-o", "m.tune", "--recipe=m.tune")
    weir.fails(2, "--target c", "tune", MNIST, "-o", "m.tune", "--target=cuda")
    weir.fails(1, "cannot read", "tune", "missing.onnx", "-o", "m.tune")


# ---- passes of one's own -----------------------------------------------------------------------------------

PLUGINS = [
    ("int other(void) { return 0; }", "W023.*does not export \"weir_plugin\""),
    ("int weir_plugin(const weir_plugin_call *c) { (void)c; return 7; }", "W023.*gives up with 7: it does not say why"),
    ("int weir_plugin(const weir_plugin_call *c) { c->error(c->host, \"too dark\"); return 1; }", "gives up with 1: too dark"),
    ("int weir_plugin(const weir_plugin_call *c) { c->put(c->host, \"flow x {\\n  no\", 14); return 0; }", "W003 at .*plugin.so:2"),
    ("int weir_plugin(const weir_plugin_call *c) { c->put(c->host, \"flow x {}\", 9); return 0; }", "W023.*input \"Input3\" is not what"),
    ("int weir_plugin(const weir_plugin_call *c) { c->put(c->host, c->text, c->bytes);"
     " c->put(c->host, c->text, c->bytes); return 0; }", "W023.*something stands behind the flow"),
    # The last two lines close a map and the flow: one map too few, so that an output is not written.
    ("int weir_plugin(const weir_plugin_call *c) { const char *at = c->text, *m = at; while ((at = strstr(at, \"  map \"))) m = at++;"
     " c->put(c->host, c->text, (size_t)(m - c->text)); c->put(c->host, \"}\\n\", 2); return 0; }", "W004 at .*plugin.so"),
    # A weight of another shape.
    ("int weir_plugin(const weir_plugin_call *c) { char *t = strdup(c->text), *p = strstr(t, \"f32[16, 8, 5, 5]\");"
     " if (!p) return 2; p[5] = '7'; c->put(c->host, t, strlen(t)); free(t); return 0; }", "W023.*no weight \"Parameter87\""),
]
SAME = """int weir_plugin(const weir_plugin_call *c) { c->put(c->host, c->text, c->bytes / 2);
    c->put(c->host, c->text + c->bytes / 2, c->bytes - c->bytes / 2); return 0; }"""
NOTHING = "int weir_plugin(const weir_plugin_call *c) { return c->size < sizeof *c; }"


def plugin(weir, code):
    source = weir.write("plugin.c", f'#include <stdlib.h>\n#include <string.h>\n#include "compiler/weir_plugin.h"\n{code}\n'.encode())
    subprocess.run(["cc", "-shared", "-fPIC", "-I", ROOT, source, "-o", weir.folder / "plugin.so"], check=True)


def test_plugins(weir):
    """A pass that puts what it got changes nothing, behind any pass; what goes wrong is said."""
    for options in ((), ("--packing=swap",), ("--skip=clean",)):
        want = emitted(weir, MNIST, *options)
        for code in (SAME, NOTHING):
            plugin(weir, code)
            for after in ("", ":after lower", ":after layout", ":after prepare", ":after schedule", ":after place"):
                assert emitted(weir, MNIST, f"--pass-plugin=plugin.so{after}", *options) == want, (code, after, options)
    for code, why in PLUGINS:
        plugin(weir, code)
        weir.fails(1, why, "compile", MNIST, "-o", "m.so", "--pass-plugin=plugin.so")
        assert not (weir.folder / "m.so").exists()
    weir.fails(1, "cannot read .missing.so.", "compile", MNIST, "-o", "m.so", "--pass-plugin=missing.so")
    weir.fails(2, "\"fold\" is no pass that leaves a Flow", "compile", MNIST, "-o", "m.so", "--pass-plugin=plugin.so:after fold")
    weir("dump", MNIST, "--after=schedule", "-o", "scheduled.ir")
    plugin(weir, SAME)
    weir.fails(1, "never ran", "compile", "scheduled.ir", "-o", "m.so", "--pass-plugin=plugin.so:after fuse")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--weir", type=pathlib.Path, default=ROOT / "build/weir")
    parser.add_argument("--only", action="append", help="this test (without test_)")
    args = parser.parse_args()
    tests = tests_of(globals())
    with tempfile.TemporaryDirectory() as work:
        def call(name):
            folder = pathlib.Path(work) / name
            folder.mkdir()
            tests[name](Weir(args.weir.resolve(), folder, pathlib.Path(work) / "the-cache"))

        sys.exit(run_tests(args.only or tests, call))


if __name__ == "__main__":
    main()
