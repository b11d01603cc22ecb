# SPDX-License-Identifier: Apache-2.0
"""Checks of the texts of kernels, and of what the real nvcc makes of them; part of check.py."""
import os
import pathlib
import re
import shutil
import struct
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
LOAD, STORE, WAIT = 0x981, 0x986, 0x82e  # of global memory, for the launch ahead: sm_90's code, 16 bytes an instruction
EARLY = """flow early {
 in at : i64[1] in a : f32[16] in x : f32[512,16] out y : f32[512,16]
 map y [i:512, j:16] { k <- at[0]  d = i64(i) - k  p <- a[j]  q <- x[i,j]  select(d == 0, p, q) -> y[i,j] }
}
"""
sys.path.insert(0, str(HERE))
import bench  # noqa: E402


class Skip(Exception):
    pass


def run(*command, env=None, timeout=300):
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, timeout=timeout,
                          env={**os.environ, **(env or {})})
    return done.returncode, done.stdout + done.stderr


def code_of(cubin):
    """Instructions of each kernel of an ELF file, as the bits that name them."""
    table, = struct.unpack_from("<Q", cubin, 40)
    size, count, names = struct.unpack_from("<HHH", cubin, 58)
    rows = [struct.unpack_from("<IIQQQQ", cubin, table + size * i) for i in range(count)]
    for name, _, _, _, at, n in rows:
        begin = rows[names][4] + name
        name = cubin[begin:cubin.index(b"\0", begin)].decode()
        if name.startswith(".text."):
            yield name, [word & 0xfff for word, _ in struct.iter_unpack("<QQ", cubin[at:at + n])]


def expect(condition, text):
    if not condition:
        raise AssertionError(text)


class Texts:
    """Of `self.weir`, in the folder `self.work`."""

    def nvcc(self):
        found = shutil.which("nvcc") or shutil.which("/usr/local/cuda/bin/nvcc")
        if not found:
            raise Skip("there is no nvcc")
        return found

    def by_nvcc(self, source, gpus, *more):
        """What ptxas says of a text's kernels."""
        nvcc = self.nvcc()
        folder = self.work / f"{source.stem}.texts"
        code, text = run(self.weir, "compile", source, "--target", "cuda", "--gpu", gpus, "--emit", "cu", "--emit-dir", folder, *more)
        expect(code == 0, text)
        cu, = folder.glob("*.cu")
        code, text = run(nvcc, *[f"-gencode=arch=compute_{g[3:]},code={g}" for g in gpus.split(",")], "-fatbin",
                         "-fmad=false", "-Xptxas", "-v", cu, "-o", folder / "fatbin")
        expect(code == 0, text)
        return text

    def flow_of(self, text):
        """A text of one flow, and the recipe that it brings, as files; its name."""
        name = re.search(r"^flow (\w+)", text, re.M)[1]
        source, recipe = self.work / f"{name}.ir", self.work / f"{name}.recipe"
        source.write_text(text)
        recipe.write_text("".join(re.findall(r"^# recipe: (.*\n)", text, re.M)))
        return name, source, "--target", "cuda", "--gpu", "sm_90a", "--recipe", recipe

    def text_of(self, name, text):
        source, folder = self.work / f"{name}.ir", self.work / f"{name}.text"
        source.write_text(text)
        code, printed = run(self.weir, "compile", source, "--target", "cuda", "--gpu", "sm_90a", "--emit", "cu", "--emit-dir", folder)
        expect(code == 0, printed)
        return next(folder.glob("*.cu")).read_text()

    def test_what_threads_share(self):
        """What a block stores and loads again is no __restrict__: nvcc moved such a load before the barrier in front of it."""
        for text in ("decode_parts", "decode"):
            folder = self.work / f"{text}.text"
            code, printed = run(self.weir, "compile", ROOT / f"tests/cuda/hot/{text}.ir", "--target", "cuda", "--gpu", "sm_90a",
                                "--emit", "cu", "--emit-dir", folder)
            expect(code == 0, printed)
            kernels = re.findall(r"^KERNEL\(\d.*?\) kernel\d+\((.*?)\) \{(.*?)^\}", next(folder.glob("*.cu")).read_text(), re.M | re.S)
            names = [(re.findall(r"\w+ \*__restrict__ (a\d+)", re.sub(r"const \w+ \*__restrict__ a\d+", "", given)), body)
                     for given, body in kernels]
            expect(any(re.search(r"= a\d+\[", body) for _, body in names), f"{text}: nothing is loaded")
            for restricted, body in names:
                for name in restricted:
                    expect(not re.search(rf"= {name}\[|load_wide<\d+>\({name}\b", body), f"{text}: {name} is stored and loaded")

    def test_only_weights_hold_for_a_kernel(self):
        """What a launch ahead may write while this one is there is not said to be reached by one pointer alone."""
        text = self.text_of("scaled", "flow s { in x : f32[64] param w : f32[64] out y : f32[64] map y [i:64] { x[i] * w[i] -> y[i] } }")
        given = re.search(r"kernel0\((.*?)\)", text)[1]
        expect(len(re.findall(r"const f32 \*__restrict__ a\d", given)) == 1 and len(re.findall(r"const f32 \*a\d", given)) == 1, given)

    def test_what_begins_early(self):
        """Launches that do little let the next one begin at once (1), and while they wait themselves (4) where it computes next to
        nothing or loads weights first; weights come ahead (2), but not in each turn of a loop."""
        chain = ("flow {0} {{ in x : f32[{1},{1}] param w : f32[{1},{1}] param v : f32[{1},{1}] tmp a : f32[{1},{1}] out y : f32[{1},{1}]\n"
                 " map a [i:{1}, j:{1}, k:{1}] {{ x[i,k] * w[k,j] -> a[i,j] sum:f32 }}\n"
                 " map y [i:{1}, j:{1}, k:{1}] {{ a[i,k] * v[k,j] -> y[i,j] sum:f32 }} }}\n")
        row = ("flow row { in x : f32[1,1024] param w : f32[1024,1024] param v : f32[1024,1024] tmp a : f32[1,1024] out y : f32[1,1024]\n"
               " map a [j:1024, k:1024] { x[0,k] * w[j,k] -> a[0,j] sum:f32 }\n"
               " map y [j:1024, k:1024] { a[0,k] * v[j,k] -> y[0,j] sum:f32 } }\n")
        texts = {"slight": (chain.format("slight", 64), [6, 2]), "brief": (chain.format("brief", 160), [3, 2]),
                 "long": (chain.format("long", 2048), [2, 2]), "row": (row, [6, 2]), "steps": ((HERE / "steps.ir").read_text(), [0, 2])}
        for name, (text, bits) in texts.items():
            source = self.work / f"{name}.ir"
            source.write_text(text)
            folder = self.work / f"{source.stem}.c"
            code, printed = run(self.weir, "compile", source, "--target", "cuda", "--gpu", "sm_90a", "--emit", "c", "--emit-dir", folder)
            expect(code == 0, printed)
            told = [int(n) >> 32 for n in re.findall(r"f->fault, (\d+)", (folder / "model.c").read_text())]
            expect(told == bits, f"{name}: {told}")

    def test_engine_where_it_gains(self):
        """Unless said otherwise the engine copies for products that copy much, where code is for sm_90a alone."""
        for n, copied in (1024, False), (2048, True):
            expect(("copy_box(copies" in self.text_of(f"square{n}", bench.product("f16", n))) == copied, f"{n}")
        source, folder = self.work / "square2048.ir", self.work / "square2048.others"
        for more in ("--gpu", "sm_90a,sm_100"), ("--gpu", "sm_90a", "--gpu-copies", "threads"):
            code, printed = run(self.weir, "compile", source, "--target", "cuda", *more, "--emit", "cu", "--emit-dir", folder)
            expect(code == 0 and "copy_box(copies" not in next(folder.glob("*.cu")).read_text(), f"{more}: {printed}")

    def test_blocks_that_stay(self):
        """Where a core has one block and there are more tiles, rounds of these are lines of their own."""
        for n, stay in (2048, False), (4096, True):
            source = self.work / f"round{n}.ir"
            source.write_text(bench.product("f16", n))
            code, told = run(self.weir, "dump", source, "--target", "cuda", "--gpu", "sm_90a", "--after", "schedule")
            expect(code == 0 and len(re.findall(r"^ *rows i:", told, re.M)) == 2 + stay, told)

    def test_spills(self):
        texts = {name: text for name, text, *_ in bench.cases()}
        for name in ("product_bias_relu_f16", "product_bf16_1024x1024", "product_tf32_2048x2048", "product_i8_2048x2048", "product_f8_2048x2048",
                     "product_f16_2560x2560", "softmax_f16", "attention_f16_512", "attention_f32_512"):
            source = self.work / f"{name}.ir"
            source.write_text(texts[name])
            for gpus in ("sm_80,sm_90a,sm_100", "sm_90a"):
                text = self.by_nvcc(source, gpus, *bench.asked(texts[name]))
                cu = (self.work / f"{name}.texts/m.cu").read_text()
                expect("softmax" in name or "_f32_" in name or "mma_" in cu, f"{name} has no steps of warps")
                spills = re.findall(r"(\d+) bytes spill", text)
                expect(spills and set(spills) == {"0"}, f"{name}: {text}")
                expect("serialized" not in text, f"{name}: steps wait for each other: {text}")

    def test_waves_do_not_spill(self):
        for text in (ROOT / "tests/cuda/hot/waves.ir").read_text().split("\n\n"):
            name, source, *_, recipe = self.flow_of(text)
            for gpus in ("sm_80,sm_90a,sm_100", "sm_90a"):
                told = self.by_nvcc(source, gpus, "--recipe", recipe)
                expect(set(re.findall(r"(\d+) bytes spill", told)) == {"0"} and "serialized" not in told, f"{name}: {told}")

    def test_boxes_do_not_spill(self):
        texts = {name: text for name, text, *_ in bench.cases()}
        for name in ("product_f16_4096x4096", "product_bf16_8192x8192"):
            source = self.work / f"{name}.ir"
            source.write_text(texts[name])
            text = self.by_nvcc(source, "sm_90a", *bench.asked(texts[name + bench.ENGINE]))
            expect(set(re.findall(r"(\d+) bytes spill", text)) == {"0"} and "serialized" not in text, f"{name}: {text}")
            cu = (self.work / f"{name}.texts/m.cu").read_text()
            expect("  copy_box(" in cu and "  copy_async<" not in cu, f"{name}: threads copy")

    def test_calls_do_not_spill(self):
        for model in ("calls", "order"):
            text = self.by_nvcc(HERE / f"{model}.ir", "sm_80,sm_90a,sm_100")
            expect(set(re.findall(r"(\d+) bytes spill", text)) == {"0"}, text)

    def test_sides_do_not_spill(self):
        for text in (HERE / "sides_ranges.ir").read_text().split("\n\n"):
            _, source, *_ = self.flow_of(text)
            expect(set(re.findall(r"(\d+) bytes spill", self.by_nvcc(source, "sm_80,sm_90a,sm_100"))) == {"0"}, source.stem)

    def test_order_of_loads(self):
        """Nothing is loaded before the launch ahead is done, and what all threads have is not loaded from where one stores it for others."""
        nvcc = self.nvcc()
        sides = (HERE / "sides_ranges.ir").read_text().split("\n\n")[0]
        for name, text in (("early", EARLY), ("sides_ranges", sides), ("m", bench.decode("f16", 8192))):
            source, folder = self.work / f"{name}.ir", self.work / f"{name}.order"
            source.write_text(text)
            code, told = run(self.weir, "compile", source, "--target", "cuda", "--gpu", "sm_90a", "--emit", "cu", "--emit-dir", folder)
            expect(code == 0, told)
            for what in ("cubin", "ptx"):
                code, told = run(nvcc, "-x", "cu", "-std=c++17", "-w", "-fmad=false", "-arch=sm_90a", f"-{what}", folder / f"{name}.cu", "-o",
                                 folder / what)
                expect(code == 0, told)
            kernels = list(code_of((folder / "cubin").read_bytes()))
            expect(kernels and all({LOAD, STORE, WAIT} <= set(code) for _, code in kernels), f"{name}: code of another kind")
            for kernel, code in kernels:
                expect(code.index(WAIT) < min(code.index(LOAD), code.index(STORE)), f"{name}, {kernel}: begins before the one ahead is done")
        ptx = (folder / "ptx").read_text().split("entry kernel0")[1]
        stored = re.search(r"st\.global\.f32\s+\[(%rd\d+)\]", ptx)
        expect(stored, "no part's maximum is stored")
        loaded = re.search(rf"ld\.global\.[\w.]+\s+%f\d+, \[{stored[1]}\]", ptx)
        expect(not loaded, "a part's maximum, which registers have, is loaded")
