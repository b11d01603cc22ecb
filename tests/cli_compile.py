# SPDX-License-Identifier: Apache-2.0
"""The tests of "weir compile", which cli.py runs with its own."""
import os
import pathlib
import pty
import re
import shutil
import subprocess

from cli_weir import FLAT, MNIST, ROOT, ROWS, TIMEOUT, Skip, mlp, mlp_result, npy, read_npy, wire


def test_same_bytes(weir):
    """Equal input, options and CPU give equal bytes in any folder, with and without the cache."""
    one, two = weir.write("a/mlp.onnx", mlp()), weir.write("b/other.onnx", mlp())
    weir("compile", one, "-o", "a/m.so")
    weir("compile", two, "-o", "b/n.so", cwd=weir.folder / "b/..", env={"XDG_CACHE_HOME": str(weir.folder / "c")})
    assert (weir.folder / "a/m.so").read_bytes() == (weir.folder / "b/n.so").read_bytes()


def test_weights(weir):
    weir("compile", MNIST, "-o", "in.so", "--weights=embed")
    weir("compile", MNIST, "-o", "out.so", "--weights=file")
    side = weir.folder / "out.so.weights"
    assert not (weir.folder / "in.so.weights").exists() and side.stat().st_size > 20000
    assert weir("run", "in.so", "--random=1").out == weir("run", "out.so", "--random=1").out
    side.write_bytes(side.read_bytes()[:-1] + b"x")
    weir.fails(1, "does not belong to this library", "run", "out.so", "--random=1")
    side.unlink()
    weir.fails(1, "out.so.weights.*cannot be opened", "run", "out.so", "--random=1")


def test_packed_weights(weir):
    """Packed at create, weights are stored as the model has them, without what layouts add."""
    bytes_of = {}
    for packing in ("build", "create"):
        weir("compile", MNIST, "-o", "m.so", f"--packing={packing}", "--cpu=x86-64-v3")
        bytes_of[packing] = int(re.search(r"weights (\d+) bytes", weir("info", "m.so").out)[1])
    assert bytes_of["create"] < bytes_of["build"], bytes_of


def test_cpu(weir):
    """Code for an older CPU runs; code for one with what this one lacks fails at create."""
    weir("compile", MNIST, "-o", "m.so", "--cpu=x86-64-v3")
    assert '"cpu": "x86-64-v3"' in weir("info", "m.so").out
    weir("run", "m.so", "--random=1")
    flags = pathlib.Path("/proc/cpuinfo").read_text()
    lacks = [cpu for cpu, flag in (("sapphirerapids", "amx_tile"), ("x86-64-v4", "avx512f"), ("znver4", "sse4a"))
             if not re.search(rf"\b{flag}\b", flags)]
    if not lacks:
        raise Skip("this CPU has all that --cpu can ask for")
    for cpu in lacks:
        weir("compile", MNIST, "-o", f"{cpu}.so", f"--cpu={cpu}")
        done = weir("run", f"{cpu}.so", "--random=1", code=None)
        assert done.code == 0 or done.code == 1 and "this CPU lacks" in done.err, done


def products(rows, depth):
    """codes[rows,80] of u8 by i8, halves[rows,48] of floats that bf16 holds, computed[rows,48] of an input instead of
    weights; all are whole numbers."""
    v = wire.tensor("v", [depth, 80], raw=bytes((7 * i + i // 80) % 256 for i in range(80 * depth)), dtype=3)
    w = wire.tensor("w", [depth, 48], [float((5 * i + i // 48) % 31 - 15) for i in range(48 * depth)])
    nodes = [wire.node("MatMulInteger", ["q", "v"], ["codes"]), wire.node("MatMul", ["x", "w"], ["halves"]),
             wire.node("MatMul", ["x", "y"], ["computed"])]
    inputs = [wire.value_info("q", [rows, depth], 2), wire.value_info("x", [rows, depth]), wire.value_info("y", [depth, 48])]
    outputs = [wire.value_info("codes", [rows, 80], 6), wire.value_info("halves", [rows, 48]),
               wire.value_info("computed", [rows, 48])]
    return wire.model(wire.graph(nodes, inputs, outputs, [v, w]))


def build_with_tiles(weir, folder):
    """The C text of `folder` as a library in which tests/tiles.c does the instructions on tiles; what it calls them."""
    units = sorted(folder.glob("*.c"))
    text = "".join(unit.read_text() for unit in units)
    for unit in units:
        line = re.match(r"/\* Build: cc (.*) -shared", unit.read_text())
        if unit.name not in ("main.c", "weir_cpus.c"):
            build(weir, "clang-19", "-w", "-fPIC", "-c", *(line[1].split() if line else ["-O1"]), unit.name)
    build(weir, "gcc", "-O1", "-fPIC", "-c", ROOT / "tests/tiles.c")
    build(weir, "gcc", "-shared", *sorted(p.name for p in folder.glob("*.o")), "-lm", "-o", "tiles.so")
    return {name for name in ("tiles_i8", "tiles_bf16") if f"  {name}(" in text}


def test_tiles(weir):
    """Code for processors with tiles (AMX) gives what other code gives: whole and broken tiles, one row of tiles and two,
    rows whose number is not known."""
    if not re.search(r"\bavx512_vnni\b", pathlib.Path("/proc/cpuinfo").read_text()):
        raise Skip("this CPU lacks avx512_vnni, which code for processors with tiles uses beside them")
    if not shutil.which("clang-19"):
        raise Skip("clang-19 is not installed")
    for said, rows, depth in ((77, 77, 128), (16, 16, 192), (45, 45, 64), (150, 150, 64), (40, 40, 96), ("N", 77, 128), ("N", 5, 64)):
        model, count = weir.write("m.onnx", products(said, depth)), rows * depth
        q = weir.write("q.npy", npy([3 * i % 251 for i in range(count)], (rows, depth), "|u1", "B"))
        x = weir.write("x.npy", npy([float(11 * i % 63 - 31) for i in range(count)], (rows, depth)))
        y = weir.write("y.npy", npy([float(7 * i % 31 - 15) for i in range(48 * depth)], (depth, 48)))
        feeds = (f"--input=q={q}", f"--input=x={x}", f"--input=y={y}")
        weir("run", model, *feeds, "--engine=eval", "--output-dir=want")
        weir("compile", model, "--cpu=sapphirerapids", "--math=fast", "--emit=c", "--emit-dir=src")
        used = build_with_tiles(weir, weir.folder / "src")
        assert used == {"tiles_i8", "tiles_bf16"}, (rows, depth, used)
        weir("run", "src/tiles.so", *feeds, "--output-dir=got")
        for name in ("codes.npy", "halves.npy", "computed.npy"):
            assert read_npy(weir.folder / "got" / name) == read_npy(weir.folder / "want" / name), (rows, depth, name)


def test_convert(weir):
    """What is stored in halves is told; a recipe keeps one container as it is."""
    model = weir.write("mlp.onnx", mlp())
    said = weir("compile", model, "-o", "half.so", "--convert=f16", "--save-recipe=r.txt").out
    names = re.findall(r"^f16 (\S+) f32\[", said, re.M)
    assert names and '"convert": "f16"' in weir("info", "half.so").out, said
    recipe = (weir.folder / "r.txt").read_text()
    assert f"convert {names[0]} f16" in recipe, recipe
    weir.write("r.txt", f"{recipe.splitlines()[0]}\nconvert {names[0]} f32\n".encode())
    said = weir("compile", model, "-o", "half.so", "--convert=f16", "--recipe=r.txt").out
    assert re.findall(r"^f16 (\S+) f32\[", said, re.M) == names[1:]
    assert "f16" not in weir("compile", model, "-o", "full.so").out
    weir("check", model, "--convert=bf16", "--random=3")
    weir("compile", model, "-o", "half.so", "--convert=f16")
    assert weir("verify", "half.so", model).out == "the same, byte for byte\n"
    weir.fails(2, "f16, bf16 or no", "compile", model, "-o", "m.so", "--convert=f8")


def test_cpus(weir):
    """Code for several CPUs in one library: weights once, one version taken at create, the same results."""
    names = ("x86-64-v2", "x86-64-v3", "x86-64-v4")
    several = "--cpu=" + ",".join(names)
    flags = pathlib.Path("/proc/cpuinfo").read_text()
    here = [name for name, flag in zip(names, ("sse4_2", "avx2", "avx512f")) if re.search(rf"\b{flag}\b", flags)]
    for packing in ("build", "create", "swap"):
        options = (MNIST, f"--packing={packing}")
        weir("compile", *options, "-o", "m.so", several)
        weir("compile", *options, "-o", "alone.so", "--cpu=x86-64-v4")
        weir("compile", *options, "-o", "again.so", several, "-j1")
        assert (weir.folder / "m.so").read_bytes() == (weir.folder / "again.so").read_bytes()
        info = weir("info", "m.so").out
        weights = re.findall("weights .*", info + weir("info", "alone.so").out)
        assert weights[0] == weights[1], "weights are stored more than once"
        want = [f"version {name}" + (", which runs here" if name == here[-1] else "") for name in reversed(names)]
        assert re.findall("version .*", info) == want, info
        results = []
        for name in (*here, ""):
            weir("run", "m.so", "--random=1", f"--output-dir={name}out", env={"WEIR_CPU": name})
            results.append(read_npy(weir.folder / f"{name}out/Plus214_Output_0.npy")[0])
        assert results[-1] == results[-2], "without WEIR_CPU the best version runs"
        assert all(abs(a - b) < 1e-5 * max(map(abs, results[0])) for one in results for a, b in zip(one, results[0]))
    weir.fails(1, 'WEIR_CPU asks for "z80", for which', "run", "m.so", "--random=1", env={"WEIR_CPU": "z80"})
    for name in names:
        if name not in here:
            weir.fails(1, f'this CPU lacks .*"{name}" needs', "run", "m.so", "--random=1", env={"WEIR_CPU": name})
    assert "the same" in weir("verify", "m.so", MNIST).out
    weir.fails(2, "last the best", "compile", MNIST, "-o", "x.so", "--cpu=x86-64-v4,x86-64-v2")
    weir.fails(2, "given twice", "compile", MNIST, "-o", "x.so", "--cpu=x86-64-v3,x86-64-v3")
    weir.fails(2, "unknown CPU", "compile", MNIST, "-o", "x.so", "--cpu=x86-64-v3,z80")
    weir("compile", MNIST, several, "--emit=c", "--emit-dir=src")
    for unit in sorted((weir.folder / "src").glob("*.c")):
        line = re.match(r"/\* Build: cc (.*)", unit.read_text())
        build(weir, "gcc", *(line[1].split() if line else ("-O1", "-fPIC", "-c", unit.name)))
    build(weir, "gcc", *sorted(p.name for p in (weir.folder / "src").glob("*.o")), "-lm", "-o", "model")
    for name in here:
        assert subprocess.run(["./model"], cwd=weir.folder / "src", env={"WEIR_CPU": name}).returncode == 0


def build(weir, *command):
    done = subprocess.run(command, cwd=weir.folder / "src", capture_output=True, text=True)
    assert done.returncode == 0, (command, done.stderr)


def test_emit(weir):
    """The folder builds with gcc and clang alone; -o may be asked for in the same call."""
    model = weir.write("mlp.onnx", mlp())
    weir("compile", model, "--emit=c", "--emit-dir=src", "-o", "m.so")
    want = weir("run", "m.so", "--random=1", "--size=batch=2")
    for cc in ("gcc", "clang-19"):
        if not shutil.which(cc):
            raise Skip(f"{cc} is not installed")
        done = subprocess.run(f"{cc} -O1 *.c -lm -o run.{cc} && ./run.{cc} 2", shell=True, cwd=weir.folder / "src",
                              capture_output=True, text=True)
        assert done.returncode == 0 and done.stdout.startswith("y:"), done
    assert want.out.startswith("y: f32[2,3]")
    weir("compile", model, "--emit=header", "--emit-dir=h")
    assert sorted(p.name for p in (weir.folder / "h").iterdir()) == ["mlp.h", "weir_model.h"]
    weir("compile", model, "--emit=header", "--emit-dir=h", "--name", "my net", "-o", "named.so")
    assert (weir.folder / "h/my_net.h").exists() and weir("info", "named.so").out.startswith("model   my net\n")
    weir("verify", "named.so", model)
    weir.write("h/use.c", b'#include "mlp.h"\nint main(void) { return 0; }\n')
    subprocess.run(["gcc", "-Wall", "-Wextra", "-Werror", "-c", "use.c"], cwd=weir.folder / "h", check=True)


def test_verify_native(weir):
    """A library says the name of its CPU, not how large the caches were: kernels of this model depend on that."""
    faces = ROOT / "tests/data/demo/ultraface_rfb_320.onnx"
    for cpu in ("native", "x86-64-v3"):
        weir("compile", faces, "-o", "faces.so", "--cpu", cpu)
        assert weir("verify", "faces.so", faces).out == "the same, byte for byte\n", cpu


def test_passes_shown(weir):
    model = weir.write("mlp.onnx", mlp())
    out = weir("compile", model, "-o", "m.so", "--print-after=fuse").out
    assert out.startswith("# after fuse\nflow mlp (batch in 0..) {") and out.count("# after") == 1, out[:200]
    names = [line.split()[0] for line in weir("explain", "passes").lines()]
    out = weir("compile", model, "-o", "m.so", "--print-after=all").out
    assert re.findall("^# after (.*)", out, re.M) == names
    done = weir("compile", model, "-o", "m.so", "--time-passes")
    timed = re.findall(r"^(\S.*?) +[0-9.]+ ms$", done.err, re.M)
    assert not done.out and set(names) <= set(timed) and {"read", "emit", "compile", "link", "write"} <= set(timed), done
    done = weir("compile", model, "-o", "stopped.so", "--stop-after=fuse")
    assert 'stopped after "fuse"' in done.err and not (weir.folder / "stopped.so").exists()
    assert weir("dump", model, "--stop-after=lower").out == weir("dump", model, "--after=lower").out
    weir("compile", model, "-o", "m.so", "--verify-each")


def test_skip(weir):
    """Each optional pass left out alone leaves the model right."""
    x = weir.write("x.npy", npy(FLAT, (3, 4)))
    model = weir.write("mlp.onnx", mlp())
    optional = [line.split()[0] for line in weir("explain", "passes").lines()
                if "cannot be skipped" not in weir("explain", line.split()[0]).out]
    assert "fuse" in optional and len(optional) >= 5, optional
    for name in optional:
        weir("run", model, "--skip", name, f"--input=x={x}", "--output-dir", name)
        assert read_npy(weir.folder / name / "y.npy")[0] == mlp_result(ROWS), name
    weir("run", model, *[f"--skip={name}" for name in optional], f"--input=x={x}", "--output-dir=none")
    assert read_npy(weir.folder / "none/y.npy")[0] == mlp_result(ROWS)


def test_dims(weir):
    model = weir.write("mlp.onnx", mlp())
    x = weir.write("x.npy", npy(FLAT, (3, 4)))
    weir("compile", model, "-o", "three.so", "--dim", "batch=3")
    assert "input   x: f32[3,4]" in weir("info", "three.so").out
    weir("run", "three.so", f"--input=x={x}")
    weir.fails(1, '"x": dim 0 is 2, expected 3', "run", "three.so", "--input",
               f"x={weir.write('two.npy', npy(FLAT[:8], (2, 4)))}")
    weir("compile", model, "-o", "upto.so", "--dim=batch=2..8")
    assert "input   x: f32[batch,4]" in weir("info", "upto.so").out
    weir("run", "upto.so", f"--input=x={x}")
    weir.fails(1, "batch|dim 0 is 9", "run", "upto.so", "--random=1", "--size=batch=9")
    assert "(batch in 2..8)" in weir("dump", model, "--dim=batch=2..8").out
    for words in (["--dim=batch=5"], ["--dim=batch=2..8", "--dim=batch=5"]):  # the last one holds
        assert "x : f32[5, 4]" in weir("dump", model, *words).out


def test_math(weir):
    model = weir.write("mlp.onnx", mlp())
    x = weir.write("x.npy", npy(FLAT, (3, 4)))
    for mode in ("strict", "default", "fast"):
        weir("compile", model, "-o", f"{mode}.so", "--math", mode)
        assert f'"math": "{mode}"' in weir("info", f"{mode}.so").out
        weir("run", f"{mode}.so", f"--input=x={x}", f"--output-dir={mode}")
        assert read_npy(weir.folder / mode / "y.npy")[0] == mlp_result(ROWS)


def test_smallest_exponentials(weir):
    """e^x below 2^-125 is 0, but not in strict mathematics."""
    model = weir.write("exp.onnx", wire.model(wire.graph(
        [wire.node("Exp", ["x"], ["y"])], [wire.value_info("x", [3])], [wire.value_info("y", [3])])))
    x = weir.write("x.npy", npy([-86.5, -88.0, -103.0], (3,)))
    for mode in ("strict", "default", "fast"):
        weir("run", model, f"--input=x={x}", f"--output-dir={mode}", "--math", mode)
        near, small, least = read_npy(weir.folder / mode / "y.npy")[0]
        assert abs(near - 2.713e-38) < 1e-41 and (small > 0) == (least > 0) == (mode == "strict")


def test_stale_declaration(weir):
    """Ranks and sizes that a model declares for its outputs are hints; types are not."""
    def model(*declared):
        return weir.write("stale.onnx", wire.model(wire.graph(
            [wire.node("Relu", ["x"], ["y"])], [wire.value_info("x", [2, 3])], [wire.value_info("y", *declared)])))

    for shape in [2, 7], [2, 3, 1], [6]:
        told = weir("run", model(shape), "--random", 1)
        assert told.out.startswith("y: f32[2,3]") and "declared as f32" + str(shape).replace(" ", "") in told.err
    weir.fails(1, "W010.*declared as i64.2,3., but", "run", model([2, 3], wire.INT64), "--random", 1)


def test_dims_without_names(weir):
    """What exporters write for dims that they do not know is no name that two dims share."""
    for name in "?", "-1", "None":
        model = weir.write("open.onnx", wire.model(wire.graph(
            [wire.node("Relu", ["x"], ["y"])], [wire.value_info("x", [name, name])], [wire.value_info("y", [name, name])])))
        assert weir("run", model, "--random", 1, "--size", "x_d0=2", "--size", "x_d1=3").out.startswith("y: f32[2,3]")


def test_progress(weir):
    """Steps are shown on a terminal, in one line that is gone at the end; not elsewhere."""
    model = weir.write("mlp.onnx", mlp())
    assert not weir("compile", model, "-o", "m.so").err
    try:
        main, other = pty.openpty()
    except OSError as why:
        raise Skip(f"no terminal to be had: {why}") from why
    done = subprocess.run([weir.path, "compile", model, "-o", "m.so"], cwd=weir.folder, env=weir.env,
                          stdin=subprocess.DEVNULL, stdout=other, stderr=other, timeout=TIMEOUT)
    os.close(other)
    seen = b""
    try:
        while chunk := os.read(main, 4096):
            seen += chunk
    except OSError:
        pass  # the other end is closed
    os.close(main)
    assert done.returncode == 0 and b"read the model" in seen and b"link" in seen, seen
    assert seen.endswith(b"\r\x1b[K") and b"\n" not in seen, seen
