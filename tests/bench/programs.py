#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How near do the programs of tests/ir come to what the machine can do?

    tests/bench/programs.py                        # against the peak measured in the same run
    tests/bench/programs.py --prototypes FOLDER    # and against kernels that were written by hand, where
                                                   # FOLDER has gen_gemm.py, gen_attn.py, gen_mbv2.py
    tests/bench/programs.py gemm --results tests/results

Flows of the shapes that models have are compiled by "weir compile" and run on one core; emitted code,
prototype and the loop of nothing but fused multiply-adds (or dot products of bytes) take turns, and each
figure is the median. A ratio below 0.9 is marked. Convolutions are direct: texts carry no weights, which
tiles would transform in each run.
"""
import argparse
import ctypes as c
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

import numpy as np

import engines
import weirlib

KEPT, ROUNDS = [], 200000
ROOT = pathlib.Path(__file__).resolve().parents[2]
FLAGS = ["-O2", "-march=native", "-mprefer-vector-width=512", "-ffp-contract=fast", "-w", "-shared", "-fPIC"]

PEAK = r"""
#include <stdint.h>
typedef float v __attribute__((vector_size(64)));
typedef int w __attribute__((vector_size(64)));
#define EACH(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11)
/* 12 chains of fused multiply-adds, 16 lanes each: 384 operations a round. */
float peak_fma(long n) {
#define D(i) v a##i = {i};
    EACH(D)
    v m = {0}, k = {0};
    m += 1.0000001f, k += 1e-9f;
    for (long r = 0; r < n; r++) {
        __asm__ volatile("" : "+v"(m));
#define F(i) a##i = a##i * m + k;
        EACH(F)
    }
    v s = {0};
#define S(i) s += a##i;
    EACH(S)
    return s[0];
}
/* Reads n floats. */
float peak_load(const float *p, long n) {
#undef D
#define D(i) v c##i = {0};
    EACH(D)
    for (long r = 0; r + 192 <= n; r += 192) {
#undef F
#define F(i) c##i += *(const v *)(p + r + 16 * i);
        EACH(F)
    }
    v s = {0};
#undef S
#define S(i) s += c##i;
    EACH(S)
    return s[0];
}
#ifdef __AVX512VNNI__
#include <immintrin.h>
int peak_dot(long n) {
#undef D
#define D(i) __m512i b##i = _mm512_set1_epi32(i);
    EACH(D)
    __m512i m = _mm512_set1_epi32(1);
    for (long r = 0; r < n; r++) {
        __asm__ volatile("" : "+v"(m));
#undef F
#define F(i) b##i = _mm512_dpbusd_epi32(b##i, m, m);
        EACH(F)
    }
    __m512i s = m;
#undef S
#define S(i) s = _mm512_add_epi32(s, b##i);
    EACH(S)
    return _mm512_reduce_add_epi32(s);
}
#endif
"""


def gemm(m, n, k):
    return f"""flow gemm {{
  in    x : f32[{m},{k}]
  param w : f32[{k},{n}]
  out   y : f32[{m},{n}]
  map mm [i:{m}, j:{n}, k:{k}] {{ x[i,k] * w[k,j] -> y[i,j] sum:f32 }}
}}
""", 2.0 * m * n * k


def gemm_gelu(m, n, k):
    return f"""flow gemm_gelu {{
  in    x : f32[{m},{k}]
  param w : f32[{k},{n}]
  param b : f32[{n}]
  tmp   h : f32[{m},{n}]
  out   y : f32[{m},{n}]
  map mm [i:{m}, j:{n}, k:{k}] {{ x[i,k] * w[k,j] -> h[i,j] sum:f32 }}
  map act [i:{m}, j:{n}] {{
    t = h[i,j] + b[j]
    0.5 * t * (1 + erf(t * 0x1.6a09e6p-1)) -> y[i,j]
  }}
}}
""", 2.0 * m * n * k


def conv(c_in, c_out, size):
    """Twice: the first gives the second its input, blocked and padded."""
    return f"""flow convs {{
  in    x : f32[1,{c_in},{size},{size}]
  param k0 : f32[{c_in},{c_in},3,3]
  param k1 : f32[{c_out},{c_in},3,3]
  tmp   t0 : f32[1,{c_in},{size},{size}]
  tmp   t : f32[1,{c_in},{size},{size}]
  tmp   t1 : f32[1,{c_out},{size},{size}]
  tmp   u : f32[1,{c_out},{size},{size}]
  out   y : f32[1,{c_out}]
  map a [n:1, o:{c_in}, h:{size}, v:{size}, c:{c_in}, r:3, s:3] {{
    (x[n,c,h+r-1,v+s-1] else 0) * k0[o,c,r,s] -> t0[n,o,h,v] sum:f32
  }}
  map ra [n:1, o:{c_in}, h:{size}, v:{size}] {{ max(t0[n,o,h,v], 0) -> t[n,o,h,v] }}
  map b [n:1, o:{c_out}, h:{size}, v:{size}, c:{c_in}, r:3, s:3] {{
    (t[n,c,h+r-1,v+s-1] else 0) * k1[o,c,r,s] -> t1[n,o,h,v] sum:f32
  }}
  map rb [n:1, o:{c_out}, h:{size}, v:{size}] {{ max(t1[n,o,h,v], 0) -> u[n,o,h,v] }}
  map g [n:1, o:{c_out}, h:{size}, v:{size}] {{ u[n,o,h,v] -> y[n,o] sum:f32 }}
}}
""", 2.0 * 9 * size * size * c_in * (c_in + c_out)


def inverted_residuals(c, wide, size):
    """Two blocks: expansion, depthwise 3x3, projection, residual, as MobileNetV2 has them."""
    maps, x = "", "x"
    for k, y in enumerate(("m", "z")):
        maps += f"""
  param we{k} : f32[{wide},{c}]
  param be{k} : f32[{wide}]
  param wd{k} : f32[{wide},3,3]
  param bd{k} : f32[{wide}]
  param wp{k} : f32[{c},{wide}]
  param bp{k} : f32[{c}]
  tmp e{k} : f32[1,{wide},{size},{size}]
  tmp f{k} : f32[1,{wide},{size},{size}]
  tmp d{k} : f32[1,{wide},{size},{size}]
  tmp g{k} : f32[1,{wide},{size},{size}]
  tmp p{k} : f32[1,{c},{size},{size}]
  tmp {y} : f32[1,{c},{size},{size}]
  map expand{k} [n:1, o:{wide}, h:{size}, v:{size}, c:{c}] {{ {x}[n,c,h,v] * we{k}[o,c] -> e{k}[n,o,h,v] sum:f32 }}
  map clip{k} [n:1, o:{wide}, h:{size}, v:{size}] {{ min(max(e{k}[n,o,h,v] + be{k}[o], 0), 6) -> f{k}[n,o,h,v] }}
  map depth{k} [n:1, o:{wide}, h:{size}, v:{size}, r:3, s:3] {{
    (f{k}[n,o,h+r-1,v+s-1] else 0) * wd{k}[o,r,s] -> d{k}[n,o,h,v] sum:f32
  }}
  map cut{k} [n:1, o:{wide}, h:{size}, v:{size}] {{ min(max(d{k}[n,o,h,v] + bd{k}[o], 0), 6) -> g{k}[n,o,h,v] }}
  map project{k} [n:1, o:{c}, h:{size}, v:{size}, c:{wide}] {{ g{k}[n,c,h,v] * wp{k}[o,c] -> p{k}[n,o,h,v] sum:f32 }}
  map add{k} [n:1, o:{c}, h:{size}, v:{size}] {{ p{k}[n,o,h,v] + bp{k}[o] + {x}[n,o,h,v] -> {y}[n,o,h,v] }}"""
        x = y
    return f"""flow blocks {{
  in  x : f32[1,{c},{size},{size}]
  out y : f32[1,{c}]
{maps}
  map g [n:1, o:{c}, h:{size}, v:{size}] {{ z[n,o,h,v] -> y[n,o] sum:f32 }}
}}
""", 2.0 * 2 * size * size * wide * (2 * c + 9)


def attention(s):
    return f"""flow attention {{
  in  q : f32[12,{s},64]
  in  k : f32[12,64,{s}]
  in  v : f32[12,{s},64]
  in  mask : f32[{s}]
  tmp s0 : f32[12,{s},{s}]
  tmp s1 : f32[12,{s},{s}]
  tmp m : f32[12,{s}]
  tmp e : f32[12,{s},{s}]
  tmp l : f32[12,{s}]
  tmp o : f32[12,{s},64]
  out y : f32[{s},12,64]
  map qk [g:12, i:{s}, j:{s}, d:64] {{ q[g,i,d] * k[g,d,j] -> s0[g,i,j] sum:f32 }}
  map sc [g:12, i:{s}, j:{s}] {{ s0[g,i,j] + mask[j] -> s1[g,i,j] }}
  map mx [g:12, i:{s}, j:{s}] {{ s1[g,i,j] -> m[g,i] max:f32 }}
  map ex [g:12, i:{s}, j:{s}] {{ exp(s1[g,i,j] - m[g,i]) -> e[g,i,j] }}
  map sm [g:12, i:{s}, j:{s}] {{ e[g,i,j] -> l[g,i] sum:f32 }}
  map pv [g:12, i:{s}, d:64, j:{s}] {{ e[g,i,j] * v[g,j,d] -> o[g,i,d] sum:f32 }}
  map dv [g:12, i:{s}, d:64] {{ o[g,i,d] / l[g,i] -> y[i,g,d] }}
}}
""", 4.0 * 12 * s * s * 64


def int8(m, n, k):
    return f"""flow int8 {{
  in    x : u8[{m},{k}]
  param w : i8[{n},{k}]
  param sc : f32[{n}]
  param b : f32[{n}]
  tmp   a : i32[{m},{n}]
  out   y : f32[{m},{n}]
  map mm [i:{m}, j:{n}, k:{k}] {{ i32(x[i,k]) * i32(w[j,k]) -> a[i,j] sum:i32 }}
  map dq [i:{m}, j:{n}] {{ f32(a[i,j]) * sc[j] + b[j] -> y[i,j] }}
}}
""", 2.0 * m * n * k


def decode(t):
    return f"""flow decode {{
  in  q : f32[12,64]
  in  k : f32[4,{t},64]
  out s : f32[12,{t}]
  map qk [h:12, t:{t}, d:64] {{ q[h,d] * k[h/3,t,d] -> s[h,t] sum:f32 }}
}}
""", 2.0 * 12 * t * 64


# name -> (text, operations), what they are counted against, the prototype
PROGRAMS = {
    "gemm 128x3072x768": (gemm(128, 3072, 768), "fma", "gemm:bert_ffn1"),
    "gemm 128x768x3072": (gemm(128, 768, 3072), "fma", "gemm:bert_ffn2"),
    "gemm 784x512x128": (gemm(784, 512, 128), "fma", "gemm:rn_28a"),
    "gemm+gelu 128x3072x768": (gemm_gelu(128, 3072, 768), "fma", None),
    "conv 3x3 64 56x56": (conv(64, 64, 56), "fma", None),
    "conv 3x3 256 14x14": (conv(256, 256, 14), "fma", None),
    "blocks 32-144 56x56": (inverted_residuals(32, 144, 56), "fma", "mbv2:144_56"),
    "blocks 32-192 28x28": (inverted_residuals(32, 192, 28), "fma", "mbv2:192_28"),
    "attention 128": (attention(128), "fma", "attn:fused_128"),
    "attention 384": (attention(384), "fma", "attn:fused_384"),
    "int8 128x768x3072": (int8(128, 768, 3072), "dot", None),
    "int8 128x3072x768": (int8(128, 3072, 768), "dot", None),
    "decode 12 heads 4096": (decode(4096), "load", None),
}


def build(folder, name, text):
    source, library = folder / f"{name}.c", folder / f"{name}.so"
    if library.exists() and source.read_text() == text:
        return c.CDLL(str(library))
    source.write_text(text)
    subprocess.run(["clang-19", *FLAGS, f"-I{folder}", "-o", library, source], check=True)
    return c.CDLL(str(library))


def aligned(count, dtype, fill):
    """64-byte aligned memory with small values."""
    raw = np.zeros(count * np.dtype(dtype).itemsize + 64, np.uint8)
    start = -raw.ctypes.data % 64
    view = raw[start:start + count * np.dtype(dtype).itemsize].view(dtype)
    view[:] = fill(count)
    KEPT.append(view)  # pointers to it are all that is passed on
    return view


def small(count):
    return np.random.default_rng(1).integers(-3, 4, count)


class Prototypes:
    def __init__(self, folder, work):
        self.folder, self.work, self.made = folder, work, {}

    def library(self, script, head=""):
        if script not in self.made:
            text = subprocess.run([sys.executable, script], cwd=self.folder, check=True, capture_output=True, text=True)
            (self.work / "vmath.h").write_text((self.folder / "vmath.h").read_text())
            self.made[script] = build(self.work, script.split(".")[0], head + text.stdout), text.stdout
        return self.made[script]

    def call(self, what):
        """The best of its variants, as functions without arguments."""
        kind, _, rest = what.partition(":")
        void = c.c_void_p
        if kind == "gemm":
            lib, text = self.library("gen_gemm.py")
            found = re.findall(rf'\{{"(g_{rest}_\w+)","\w+",(\d+),(\d+),(\d+),(\d+),(\d+),', text)
            m, n, k = (int(found[0][i]) for i in (1, 2, 3))
            a, b, y = (aligned(size + 65536, np.float32, small) for size in (m * k, k * n, m * n))
            return [lambda f=getattr(lib, name), p=n // (16 * int(nv)), nb=int(nb): f(
                void(a.ctypes.data), void(b.ctypes.data), void(y.ctypes.data), 0, p, 0, nb)
                for name, _, _, _, nv, nb in found]
        if kind == "mbv2":
            return [self.blocks(*map(int, rest.split("_")))]
        lib, _ = self.library("gen_attn.py")
        s = int(rest.split("_")[1])
        q, k, v, y = (aligned(12 * s * 64, np.float32, lambda n: small(n) / 8) for _ in range(4))
        mask, room = aligned(s, np.float32, np.zeros), aligned(1 << 22, np.float32, np.zeros)
        args = [void(x.ctypes.data) for x in (q, k, v, mask, y, room)]
        return [lambda f=getattr(lib, f"fused_{s}_{rows}"): f(*args, 0, 1) for rows in (16, 32, 64)]


    def blocks(self, wide, size):
        """Strips of expansion and depthwise convolution, then the projection; the same block twice."""
        lib, text = self.library("gen_mbv2.py", "const float *gw[256], *gb[256], *gbuf[256];\n")
        ops = re.findall(r'\{"(\w+)",([-\d,]+),\w+\}', text[text.index("rops[]"):text.index("rbufs[]")])
        ops = [(name, *map(int, numbers.split(","))) for name, numbers in ops]
        sizes = re.findall(r"\{(\d+),(\d+),\d+,(\d+),(\d+),", text[text.index("rbufs[]"):])
        at = next(i for i, (name, x, y, res, *_) in enumerate(ops)
                  if name == "conv" and res >= 0 and ops[i - 1][4] == wide and int(sizes[y][1]) == size)
        x, made, y = ops[at - 2][1], ops[at - 1][2], ops[at][2]
        made, x_room, y_room = (aligned(int(np.prod([int(n) for n in (sizes[b][0], *sizes[b][2:])])) + 4096, np.float32,
                                        lambda n: small(n) / 8) for b in (made, x, y))
        weights = [aligned(max(op[4] * op[5], 9 * wide), np.float32, lambda n: small(n) / 64) for op in ops[at - 2:at + 1]]
        biases = [aligned(wide + 64, np.float32, np.zeros) for _ in weights]
        pointers = {name: (c.c_void_p * 256).in_dll(lib, name) for name in ("gw", "gb", "gbuf")}

        class Op(c.Structure):
            _fields_ = [("kind", c.c_char_p), ("n", c.c_int * 10), ("f", c.CFUNCTYPE(None, *[c.c_void_p] * 6, c.c_int, c.c_int))]

        table = (Op * len(ops)).in_dll(lib, "rops")
        strip, project = table[at - 1].f, table[at].f
        pointers["gw"][at - 2], pointers["gb"][at - 2] = weights[0].ctypes.data, biases[0].ctypes.data

        def block(source, target):
            pointers["gbuf"][x] = source
            strip(None, weights[1].ctypes.data, biases[1].ctypes.data, None, made.ctypes.data, None, 0, 1)
            project(made.ctypes.data, weights[2].ctypes.data, biases[2].ctypes.data, source, target, None, 0, 1)

        def both(a=x_room.ctypes.data, b=y_room.ctypes.data):
            block(a, b)
            block(b, a)

        return both


def median(call, seconds):
    call()
    times, end = [], time.perf_counter() + seconds
    while time.perf_counter() < end or len(times) < 5:
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return float(np.median(times))


def measure(calls, seconds):
    """Medians of the calls, which take turns; of each the best turn."""
    best = [float("inf")] * len(calls)
    for _ in range(3):
        for i, call in enumerate(calls):
            best[i] = min(best[i], median(call, seconds / 3))
    return best


def peak_of(peaks, unit, model):
    """A call that does nothing but what bounds the program: multiply-adds, dot products of bytes, or reading
    its largest input."""
    if unit == "load":
        most = max(model.kept, key=lambda array: array.nbytes)
        data = aligned(most.size, np.float32, small)
        return lambda: peaks.peak_load(c.c_void_p(data.ctypes.data), c.c_long(data.size))
    fast = peaks.peak_dot if unit == "dot" else peaks.peak_fma
    return lambda: fast(c.c_long(ROUNDS))


def model_of(args, work, name, text):
    source = work / f"{name.replace(' ', '_').replace('+', '_')}.ir"
    library = source.with_suffix(".so")
    fresh = library.exists() and source.exists() and source.read_text() == text
    if not (fresh and library.stat().st_mtime > args.weir.stat().st_mtime):
        source.write_text(text)
        subprocess.run([args.weir, "compile", source, "--skip", "algorithm", "-o", library], check=True)
    model = weirlib.Model(library)
    feeds, rng = {}, np.random.default_rng(2)
    for i, port in enumerate(model.inputs):
        d = model.d.inputs[i]
        shape = [int(d.dims[k]) for k in range(d.rank)]
        dtype = weirlib.DTYPES[d.dtype]
        feeds[port] = (rng.random(shape) - 0.5).astype(dtype) if dtype == "float32" else rng.integers(0, 9, shape).astype(dtype)
    model.bind(feeds)
    return model


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("programs", nargs="*", help="names or their beginnings (default: all)")
    p.add_argument("--prototypes", type=pathlib.Path)
    p.add_argument("--seconds", type=float, default=0.6, help="of measuring each")
    p.add_argument("--weir", type=pathlib.Path, default=ROOT / "build/weir")
    p.add_argument("--work", type=pathlib.Path, help="keeps what was compiled")
    p.add_argument("--prepare", action="store_true", help="only compiles into --work")
    p.add_argument("--results", type=pathlib.Path)
    args = p.parse_args()
    work = args.work or pathlib.Path(tempfile.mkdtemp(prefix="weir-programs-"))
    work.mkdir(parents=True, exist_ok=True)
    peaks, protos = build(work, "peak", PEAK), args.prototypes and Prototypes(args.prototypes, work)
    rows = []
    chosen = [n for n in PROGRAMS if not args.programs or any(n.startswith(x) for x in args.programs)]
    made = {name: model_of(args, work, name, PROGRAMS[name][0][0]) for name in chosen}
    variants = {name: protos.call(PROGRAMS[name][2]) if protos and PROGRAMS[name][2] else [] for name in chosen}
    if args.prepare:
        return
    print(f"{'program':26} {'GFLOP/s':>8} {'peak':>8} {'of peak':>8} {'prototype':>9} {'of it':>6}")
    for name in chosen:
        (_, flop), unit, _ = PROGRAMS[name]
        t, top, *others = measure([made[name].call, peak_of(peaks, unit, made[name]), *variants[name]], args.seconds)
        ops = flop if unit == "load" else ROUNDS * 12 * (128 if unit == "dot" else 32)
        rate, peak = flop / t / 1e9, ops / top / 1e9
        proto = flop / min(others) / 1e9 if others else None
        ratio = max(rate / peak, rate / proto if proto else 0)
        rows.append((name, rate, peak, rate / peak, proto, ratio))
        print(f"{name:26} {rate:8.1f} {peak:8.1f} {rate / peak:8.2f} {proto or 0:9.1f} "
              f"{rate / proto if proto else 0:6.2f}{'' if ratio >= 0.9 else '  < 0.9'}", flush=True)
    if args.results:
        write(args, rows)


def write(args, rows):
    about = engines.facts()
    text = [f"# Programs on one core, {about['date']}", "",
            f"Commit {about['commit']}; {about['machine']}. `tests/bench/programs.py`: medians, engines take turns; operations "
            "are those of the products alone. The prototype is the best of its hand-tuned variants, the "
            "peak a loop of nothing but what bounds the program: fused multiply-adds, dot products of bytes, or (decode) "
            "reading the same bytes.", "",
            "| program | GFLOP/s | peak | of peak | prototype | of prototype |", "|---|---|---|---|---|---|"]
    for name, rate, peak, part, proto, _ in rows:
        text.append(f"| {name} | {rate:.1f} | {peak:.1f} | {part:.2f} | {f'{proto:.1f}' if proto else '-'} | "
                    f"{f'{rate / proto:.2f}' if proto else '-'} |")
    path = args.results / f"programs-{about['date']}.md"
    path.write_text("\n".join(text) + "\n")
    print(f"wrote {path}")


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    main()
