#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Single kernels against torch on the GPU of this machine, operands on the device.

    bench.py FOLDER [NAME...]   # FOLDER/NAME/model.so for the names below, as tests/gpu/pack leaves them

Times are the device's, by events on one stream; the host waits for nothing between them. Hot: many runs one behind the
other, divided by their number; what fits stays in the L2 cache. Cold: one run behind a kernel that wrote 256 MB. Medians
of both. torch runs eagerly and, where that is faster hot, as a CUDA graph, as ours do. Products of torch's f32 are without
TF32, but for those named so, which Weir compiles with fast mathematics, as it does those of 8-bit floats. NAME.cublaslt is the same product, and
NAME.cudnn the same convolution, as Weir gives it to that library. Prints clocks, what this device copies and multiplies
at most, what a launch costs, and one table: the largest error, times of both, and what the hot time makes of the
operations or the bytes. Exit code 1 when a result is wrong.
"""
import ctypes
import pathlib
import re
import statistics
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools/python/weir"))
import _abi  # noqa: E402

ENGINE = "_engine"  # the same by sm_90a's engine for copies
WARM, COLD, BATCHES, FLUSH = 5, 15, 7, 256 << 20
BATCH_MS, MOST = 2.0, 200  # a batch of hot runs takes about so long, and has so many at most
CODES = {"float32": 1, "int8": 3, "int32": 6, "float16": 10, "bfloat16": 16, "float8_e4m3fn": 17}
TORCH = {"f32": "float32", "tf32": "float32", "f16": "float16", "bf16": "bfloat16", "i8": "int8", "f8": "float8_e4m3fn"}
TOLERANCE = {"f32": 1e-4, "tf32": 4e-3, "f16": 1e-2, "bf16": 8e-2, "i8": 0, "f8": 1e-2}


def codes(t, total, n):
    return (f"flow m {{ in x : {t}[{n},{n}] in w : {t}[{n},{n}] out y : {total}[{n},{n}]\n"
            f"map p [i:{n}, j:{n}, k:{n}] {{ {total}(x[i,k]) * {total}(w[j,k]) -> y[i,j] sum:{total} }} }}")


CONV = 32, 128, 56  # images, channels, places along each dim


def conv(t):
    """By windows of 3 x 3, channels first."""
    n, c, side = CONV
    cast = "" if t == "f32" else "f32"
    return (f"flow m {{ in x : {t}[{n},{c},{side},{side}] in w : {t}[{c},{c},3,3] out y : {t}[{n},{c},{side},{side}]\n"
            f"map p [n:{n}, o:{c}, h:{side}, w:{side}, c:{c}, r:3, s:3] {{ {cast}(x[n,c,h+r-1,w+s-1] else 0) * {cast}(w[o,c,r,s]) "
            "-> y[n,o,h,w] sum:f32 } }")


def conv_last(t):
    """The same, channels last."""
    n, c, side = CONV
    return (f"flow m {{ in x : {t}[{n},{side},{side},{c}] in w : {t}[{c},3,3,{c}] out y : {t}[{n},{side},{side},{c}]\n"
            f"map p [n:{n}, o:{c}, h:{side}, w:{side}, c:{c}, r:3, s:3] {{ f32(x[n,h+r-1,w+s-1,c] else 0) * f32(w[o,r,s,c]) "
            "-> y[n,h,w,o] sum:f32 } }")


def conv_ended(t):
    """Channels last, with a bias, a residual and a ReLU."""
    n, c, side = CONV
    images = f"{t}[{n},{side},{side},{c}]"
    return (f"flow m {{ in x : {images} in w : {t}[{c},3,3,{c}] in b : {t}[{c}] in z : {images} tmp h : f32[{n},{side},{side},{c}] out y : {images}\n"
            f"map p [n:{n}, o:{c}, h:{side}, w:{side}, c:{c}, r:3, s:3] {{ f32(x[n,h+r-1,w+s-1,c] else 0) * f32(w[o,r,s,c]) "
            "-> h[n,h,w,o] sum:f32 }\n"
            f"map r [n:{n}, h:{side}, w:{side}, o:{c}] {{ {t}(max(h[n,h,w,o] + f32(b[o]) + f32(z[n,h,w,o]), 0)) -> y[n,h,w,o] }} }}")


def scaled(T, x, w):
    one = T.ones((), device=x.device)
    return T._scaled_mm(x, w.t(), scale_a=one, scale_b=one, out_dtype=T.float32)


def rounded(n):
    return (f"# math: fast\nflow m {{ in x : f32[{n},{n}] in w : f32[{n},{n}] out y : f32[{n},{n}]\n"
            f"map p [i:{n}, j:{n}, k:{n}] {{ x[i,k] * w[k,j] -> y[i,j] sum:f32 }} }}")


def words(n):
    return rounded(n).replace("# math: fast\n", "")


def in_tf32(T, x, w):
    T.backends.cuda.matmul.allow_tf32 = True
    y = x @ w
    T.backends.cuda.matmul.allow_tf32 = False
    return y


AS_ON_A_GPU = ["--skip", "widen"]  # for the C target, which else keeps what is computed in halves in f32


def asked(text):
    """Options of compile that a text asks for; of several of one name the last counts."""
    options = {"math: fast": ["--math", "fast"], "gpu-copies: engine": ["--gpu", "sm_90a", "--gpu-copies", "engine"]}
    return [word for line, words in options.items() if f"# {line}\n" in text for word in words]


def product(t, n):
    return (f"flow m {{ in x : {t}[{n},{n}] in w : {t}[{n},{n}] out y : {t}[{n},{n}]\n"
            f"map p [i:{n}, j:{n}, k:{n}] {{ f32(x[i,k]) * f32(w[k,j]) -> y[i,j] sum:f32 }} }}")


def biased(t, n):
    return (f"flow m {{ in x : {t}[{n},{n}] in w : {t}[{n},{n}] in b : {t}[{n}] tmp h : {t}[{n},{n}] out y : {t}[{n},{n}]\n"
            f"map p [i:{n}, j:{n}, k:{n}] {{ f32(x[i,k]) * f32(w[k,j]) -> h[i,j] sum:f32 }}\n"
            f"map r [i:{n}, j:{n}] {{ {t}(max(f32(h[i,j]) + f32(b[j]), 0)) -> y[i,j] }} }}")


def added(t, n):
    """With a bias and a residual."""
    return (f"flow m {{ in x : {t}[{n},{n}] in w : {t}[{n},{n}] in b : {t}[{n}] in z : {t}[{n},{n}] tmp h : {t}[{n},{n}] out y : {t}[{n},{n}]\n"
            f"map p [i:{n}, j:{n}, k:{n}] {{ f32(x[i,k]) * f32(w[k,j]) -> h[i,j] sum:f32 }}\n"
            f"map r [i:{n}, j:{n}] {{ {t}(f32(h[i,j]) + f32(b[j]) + f32(z[i,j])) -> y[i,j] }} }}")


def softmax_maps(t, x, p, dims, at):
    row = at.rsplit(",", 1)[0]
    return (f"map top [{dims}] {{ f32({x}[{at}]) -> top[{row}] max:f32 }}\n"
            f"map e [{dims}] {{ exp(f32({x}[{at}]) - top[{row}]) -> total[{row}] sum:f32 }}\n"
            f"map p [{dims}] {{ {t}(exp(f32({x}[{at}]) - top[{row}]) / total[{row}]) -> {p}[{at}] }}\n")


def softmax(t, n, rows):
    maps = softmax_maps(t, "x", "y", f"i:{rows}, j:{n}", "i,j")
    return f"flow m {{ in x : {t}[{rows},{n}] tmp top : f32[{rows}] tmp total : f32[{rows}] out y : {t}[{rows},{n}]\n{maps} }}"


def layer_norm(t, n):
    return (f"flow m {{ in x : {t}[{n},{n}] tmp mean : f32[{n}] tmp var : f32[{n}] out y : {t}[{n},{n}]\n"
            f"map a [i:{n}, j:{n}] {{ f32(x[i,j]) * {1 / n} -> mean[i] sum:f32 }}\n"
            f"map v [i:{n}, j:{n}] {{ d = f32(x[i,j]) - mean[i]  d * d * {1 / n} -> var[i] sum:f32 }}\n"
            f"map y [i:{n}, j:{n}] {{ {t}((f32(x[i,j]) - mean[i]) / sqrt(var[i] + 0.00001)) -> y[i,j] }} }}")


def chain(t, n):
    return (f"flow m {{ in x : {t}[{n},{n}] in z : {t}[{n},{n}] out y : {t}[{n},{n}]\n"
            f"map y [i:{n}, j:{n}] {{ {t}(max(f32(x[i,j]) + f32(z[i,j]), 0)) -> y[i,j] }} }}")


def attention(t, n, heads=16, width=64):
    maps = softmax_maps(t, "s", "p", f"h:{heads}, i:{n}, j:{n}", "h,i,j")
    return (f"flow m {{ in q : {t}[{heads},{n},{width}] in k : {t}[{heads},{n},{width}] in v : {t}[{heads},{n},{width}]\n"
            f"tmp s0 : {t}[{heads},{n},{n}] tmp s : {t}[{heads},{n},{n}] tmp top : f32[{heads},{n}]\n"
            f"tmp total : f32[{heads},{n}] tmp p : {t}[{heads},{n},{n}] out y : {t}[{heads},{n},{width}]\n"
            f"map a [h:{heads}, i:{n}, j:{n}, c:{width}] {{ f32(q[h,i,c]) * f32(k[h,j,c]) -> s0[h,i,j] sum:f32 }}\n"
            f"map b [h:{heads}, i:{n}, j:{n}] {{ {t}(f32(s0[h,i,j]) * 0.125) -> s[h,i,j] }}\n{maps}"
            f"map y [h:{heads}, i:{n}, c:{width}, j:{n}] {{ f32(p[h,i,j]) * f32(v[h,j,c]) -> y[h,i,c] sum:f32 }} }}")


def thin(t, n):
    return (f"flow m {{ in x : {t}[1,{n}] in w : {t}[{n},{n}] out y : {t}[1,{n}]\n"
            f"map p [j:{n}, k:{n}] {{ f32(x[0,k]) * f32(w[k,j]) -> y[0,j] sum:f32 }} }}")


def decode(t, n, heads=32, width=128):
    """One row of queries."""
    maps = softmax_maps("f32", "s", "p", f"h:{heads}, j:{n}", "h,j")
    return (f"flow m {{ in q : {t}[{heads},{width}] in k : {t}[{heads},{n},{width}] in v : {t}[{heads},{n},{width}]\n"
            f"tmp s0 : f32[{heads},{n}] tmp s : f32[{heads},{n}] tmp top : f32[{heads}] tmp total : f32[{heads}]\n"
            f"tmp p : f32[{heads},{n}] out y : {t}[{heads},{width}]\n"
            f"map a [h:{heads}, j:{n}, c:{width}] {{ f32(q[h,c]) * f32(k[h,j,c]) -> s0[h,j] sum:f32 }}\n"
            f"map b [h:{heads}, j:{n}] {{ s0[h,j] * {width ** -0.5} -> s[h,j] }}\n{maps}"
            f"map y [h:{heads}, c:{width}, j:{n}] {{ p[h,j] * f32(v[h,j,c]) -> y[h,c] sum:f32 }} }}")


def top(n, rows, k):
    return f"flow m {{ in x : f32[{rows},{n}] out y : f32[{rows},{k}] call t = topk(x) (1, 1) -> y }}"


def scattered(n, rows, updates, place):
    """Rows that places out of another operand say, added up."""
    return (f"flow m {{ in x : f32[{rows},{n}] in w : f32[{updates},1] in u : f32[{updates},{n}] tmp at : i64[{updates},1]\n"
            f"out y : f32[{rows},{n}]\nmap a [i:{updates}] {{ {place} -> at[i,0] }}\n"
            f"call s = scatter_nd(x, at, u) (1) -> y }}")


def running(rows, n):
    return (f"flow m {{ in x : f32[{rows},{n}] out y : f32[{rows},{n}]\n"
            f"map s [i:{rows}, seq j:{n}] {{ t <- y[i,j-1] else 0.0  t + x[i,j] -> y[i,j] }} }}")


TINY = "flow m { in x : f32[1024] out y : f32[1024] map y [i:1024] { max(x[i], 0) -> y[i] } }"


def one_map(t, n, out, body):
    return f"flow m {{ in x : {t}[{n},{n}] out y : {t}[{out}]\nmap p [i:{n}, j:{n}] {{ {body} }} }}"


def rows(t, n, size):
    short, area = 128, n * n
    yield (f"softmax_short_{t}", softmax(t, short, area // short), t, [(area // short, short)], lambda T, x: T.softmax(x, -1), 0,
           2 * size * area)
    yield f"columns_{t}", one_map(t, n, n, "f32(x[i,j]) -> y[j] sum:f32"), t, [(n, n)], lambda T, x: x.sum(0), 0, size * area
    yield (f"greatest_{t}", one_map(t, n, 1, "f32(x[i,j]) -> y[0] max:f32"), t, [(n, n)], lambda T, x: x.max().reshape(1), 0,
           size * area)
    yield f"transpose_{t}", one_map(t, n, f"{n},{n}", "x[j,i] -> y[i,j]"), t, [(n, n)], lambda T, x: x.t().contiguous(), 0, 2 * size * area


# name -> text, type, shapes of the inputs, what torch does, operations, bytes
def cases():
    square = [(n, f"{n}x{n}") for n in (1024, 2048, 4096, 8192)]
    half = {"f16": 2, "bf16": 2}
    for t in half:
        for n, name in square:
            for suffix, head in ("", ""), (ENGINE, "# gpu-copies: engine\n"):
                yield f"product_{t}_{name}{suffix}", head + product(t, n), t, [(n, n)] * 2, lambda T, x, w: x @ w, 2 * n**3, 0
        n = 4096
        yield (f"product_bias_relu_{t}", biased(t, n), t, [(n, n), (n, n), (n,)],
               lambda T, x, w, b: T.relu(T.nn.functional.linear(x, w.t(), b)), 2 * n**3, 0)
        yield (f"product_add_{t}", added(t, n), t, [(n, n), (n, n), (n,), (n, n)],
               lambda T, x, w, b, z: T.nn.functional.linear(x, w.t(), b) + z, 2 * n**3, 0)
        for n, name in (2560, "2560x2560"), (5120, "5120x5120"):  # few tiles come last
            yield f"product_{t}_{name}", product(t, n), t, [(n, n)] * 2, lambda T, x, w: x @ w, 2 * n**3, 0
        n = 4096
        yield f"thin_{t}", thin(t, n), t, [(1, n), (n, n)], lambda T, x, w: x @ w, 0, 2 * n * n
    for n, name in square[:3]:
        yield f"product_f32_{name}", words(n), "f32", [(n, n)] * 2, lambda T, x, w: x @ w, 2 * n**3, 0
    for n, name in square:
        yield f"product_tf32_{name}", rounded(n), "tf32", [(n, n)] * 2, in_tf32, 2 * n**3, 0
        yield f"product_i8_{name}", codes("i8", "i32", n), "i8", [(n, n)] * 2, lambda T, x, w: T._int_mm(x, w.t()), 2 * n**3, 0
        yield f"product_f8_{name}", "# math: fast\n" + codes("f8e4m3fn", "f32", n), "f8", [(n, n)] * 2, scaled, 2 * n**3, 0
    yield from convolutions(half)
    for t, size in {**half, "f32": 4}.items():
        n = 8192
        yield f"softmax_{t}", softmax(t, n, n), t, [(n, n)], lambda T, x: T.softmax(x, -1), 0, 2 * size * n * n
        yield (f"layer_norm_{t}", layer_norm(t, n), t, [(n, n)], lambda T, x: T.nn.functional.layer_norm(x, x.shape[-1:]), 0,
               2 * size * n * n)
        if t != "bf16":
            yield from rows(t, n, size)
        yield f"add_relu_{t}", chain(t, n), t, [(n, n)] * 2, lambda T, x, z: T.relu(x + z), 0, 3 * size * n * n
    for t in (*half, "f32"):
        for n in (512, 2048):
            yield (f"attention_{t}_{n}", attention(t, n), t, [(16, n, 64)] * 3,
                   lambda T, q, k, v: T.nn.functional.scaled_dot_product_attention(q[None], k[None], v[None])[0], 4 * 16 * n * n * 64, 0)
    yield from irregular()


def convolutions(half):
    n, c, side = CONV
    operations = 2 * n * c * side * side * 9 * c
    for t in (*half, "f32"):
        yield (f"conv_{t}", conv(t), t, [(n, c, side, side), (c, c, 3, 3)], lambda T, x, w: T.nn.functional.conv2d(x, w, padding=1),
               operations, 0)
    for t in half:
        yield f"conv_last_{t}", conv_last(t), t, [(n, side, side, c), (c, 3, 3, c)], channels_last, operations, 0
        yield (f"conv_ended_{t}", conv_ended(t), t, [(n, side, side, c), (c, 3, 3, c), (c,), (n, side, side, c)],
               lambda T, x, w, b, z: T.relu(channels_last(T, x, w) + b + z), operations, 0)


def channels_last(T, x, w):
    return T.nn.functional.conv2d(x.permute(0, 3, 1, 2), w.permute(0, 3, 1, 2), padding=1).permute(0, 2, 3, 1)


# The same of kernels of calls, and of attention of one row.
def irregular():
    rows, vocabulary, n, updates = 64, 50304, 256, 1 << 16
    for name, k in (("top50", 50), ("sort", vocabulary)):
        yield (f"{name}_f32", top(vocabulary, rows, k), "f32", [(rows, vocabulary)], lambda T, x, k=k: x.topk(k).values, 0,
               4 * rows * vocabulary)
    for name, place, same in (("scatter_add_f32", "i64(max(min(w[i,0], 1.0), 0.0) * 4095.0)", lambda w: (w.clamp(0, 1) * 4095).long()),
                              ("scatter_even_f32", "i64(abs(w[i,0]) * 1000000.0) % 4096", lambda w: (w.abs() * 1e6).long() % 4096)):
        yield (name, scattered(n, 4096, updates, place), "f32", [(4096, n), (updates, 1), (updates, n)],
               lambda T, x, w, u, same=same: x.index_add(0, same(w[:, 0]), u), 0, 4 * n * (updates + 2 * 4096))
    for rows, n in ((1, 1 << 16), (4096, 1024)):
        yield f"running_f32_{rows}x{n}", running(rows, n), "f32", [(rows, n)], lambda T, x: x.cumsum(1), 0, 8 * rows * n
    for heads, n in ((32, 512), (32, 8192), (4, 8192)):
        yield (f"decode_f16_{heads}x{n}", decode("f16", n, heads), "f16", [(heads, 128), (heads, n, 128), (heads, n, 128)],
               lambda T, q, k, v: T.nn.functional.scaled_dot_product_attention(q[None, :, None], k[None], v[None])[0, :, 0], 0,
               2 * 2 * heads * n * 128)


def by_library(name):
    """The library that it is compiled for a second time, as NAME.LIBRARY, and the map that this makes; or None."""
    if name.startswith("product_add_"):
        return "cublaslt", "r"
    if name.startswith("conv_ended_"):
        return "cudnn", "r"
    if name.startswith("conv_"):
        return "cudnn", "p"
    return ("cublaslt", "p") if re.match(r"product_(f16|bf16|f32|tf32)_[\dx]+$", name) else None


def code_of(tensor):
    return CODES[str(tensor.dtype).split(".")[1]]


def describe(tensor, code):
    d = _abi.Tensor(data=tensor.data_ptr(), dtype=code, rank=tensor.dim(), capacity=tensor.numel())
    for k, size in enumerate(tensor.shape):
        d.dims[k] = size
    return d


class Model:
    def __init__(self, path, inputs, output):
        library = ctypes.CDLL(str(path))
        library.weir_model_descriptor.restype = ctypes.POINTER(_abi.Descriptor)
        self.d, self.instance = library.weir_model_descriptor().contents, _abi.HANDLE()
        error = ctypes.create_string_buffer(512)
        if self.d.create_on(0, None, ctypes.byref(self.instance), error):
            raise RuntimeError(error.value.decode())
        self.given = (_abi.Tensor * len(inputs))(*(describe(x, code_of(x)) for x in inputs))
        self.room = (_abi.Tensor * 1)(describe(output, code_of(output)))

    def check(self, status):
        if status:
            raise RuntimeError(self.d.error(self.instance).decode())

    def submit(self, stream):
        self.check(self.d.submit(self.instance, self.given, self.room, stream))

    def wait(self):
        self.check(self.d.wait(self.instance))


def span(torch, run, n=1):
    """Milliseconds of the device from before the first of n runs to behind the last."""
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    for _ in range(n):
        run()
    end.record()
    end.synchronize()
    return start.elapsed_time(end)


def hot(torch, run):
    span(torch, run, WARM)
    n = max(1, min(MOST, int(BATCH_MS / max(span(torch, run, WARM) / WARM, 1e-4))))
    return statistics.median(span(torch, run, n) / n for _ in range(BATCHES))


def cold(torch, run, flush):
    times = []
    for _ in range(COLD):
        flush.add_(1)
        times.append(span(torch, run))
    return statistics.median(times)


def recorded(torch, run):
    """The same as a CUDA graph, or None."""
    graph = torch.cuda.CUDAGraph()
    try:
        with torch.cuda.graph(graph, stream=torch.cuda.current_stream()):
            run()
    except RuntimeError:
        return None
    return graph.replay


def peer(torch, run):
    """How torch is fastest: hot time and what to call."""
    ways = [w for w in (run, recorded(torch, run)) if w]
    return min(((hot(torch, w), i) for i, w in enumerate(ways)))[0], ways


def operands(torch, shapes, kind):
    torch.manual_seed(1)
    if kind == torch.int8:
        return [torch.randint(-128, 128, s, device="cuda", dtype=kind) for s in shapes]
    return [(torch.randn(s, device="cuda", dtype=torch.float32) / s[0] ** 0.25).to(kind) for s in shapes]


def compare(torch, path, case, flush):
    _, _, t, shapes, function, operations, moved = case
    inputs = operands(torch, shapes, getattr(torch, TORCH[t]))
    wanted = function(torch, *inputs)
    output = torch.empty_like(wanted)
    model = Model(path, inputs, output)
    stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
    model.submit(stream)
    model.wait()
    error = float((output.float() - wanted.float()).abs().max() / wanted.float().abs().max().clamp(min=1e-6))

    def ours():
        model.submit(stream)

    def theirs():
        return function(torch, *inputs)

    mine = hot(torch, ours), cold(torch, ours, flush)
    model.wait()
    best, ways = peer(torch, theirs)
    other = best, min(cold(torch, w, flush) for w in ways)
    rate = f"{operations / mine[0] / 1e9:7.1f} TFLOP/s" if operations else f"{moved / mine[0] / 1e6:7.0f} GB/s"
    good = error <= TOLERANCE[t]
    print(f"{path.parent.name:32} {'ok' if good else 'WRONG':5} {error:7.1e} {mine[0]:9.4f} {mine[1]:9.4f} {other[0]:9.4f} {other[1]:9.4f} "
          f"{other[0] / mine[0]:6.2f} {other[1] / mine[1]:6.2f}  {rate}", flush=True)
    return good


def launches(torch, folder):
    """What a recorded run costs beside its kernel, which takes about a microsecond."""
    x, y = (torch.ones(1024, device="cuda") for _ in range(2))
    model = Model(folder / "tiny" / "model.so", [x], y)
    stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)

    def once():
        model.submit(stream)
        model.wait()

    def seconds(run, n=500):
        began = time.perf_counter()
        for _ in range(n):
            run()
        return (time.perf_counter() - began) / n * 1e6

    seconds(once, 20)
    both = seconds(once)
    alone = seconds(lambda: model.submit(stream))
    model.wait()
    device = hot(torch, lambda: model.submit(stream)) * 1e3
    model.wait()
    x.add_(1)
    torch.cuda.synchronize()
    eager = hot(torch, lambda: torch.relu(x)) * 1e3
    graph = hot(torch, recorded(torch, lambda: torch.relu(x))) * 1e3
    print(f"a recorded run of one tiny kernel: {device:.2f} us on the device, {alone:.2f} us of the host (from Python) to submit, "
          f"{both:.2f} us to submit and wait; torch {eager:.2f} us eager, {graph:.2f} us as a graph")


def clocks():
    what = "clocks.sm,clocks.mem,clocks.max.sm,clocks.max.mem,power.draw,temperature.gpu"
    done = subprocess.run(["nvidia-smi", f"--query-gpu={what}", "--format=csv,noheader"], capture_output=True, text=True)
    return f"clocks sm, mem; most of sm, mem; power; temperature: {done.stdout.strip()}"


def peaks(torch):
    """What this device does at most: bytes copied, products of halves."""
    a, b = (torch.empty(1 << 28, device="cuda") for _ in range(2))
    copied = 2 * a.numel() * 4 / hot(torch, lambda: b.copy_(a)) / 1e6
    print(f"copies {copied:.0f} GB/s (read and written, 1 GiB)")
    del a, b
    for name, kind in (("f16", torch.float16), ("bf16", torch.bfloat16)):
        x, y = operands(torch, [(8192, 8192)] * 2, kind)
        out = torch.empty_like(x)
        print(f"torch's product {name} 8192^3 {2 * 8192**3 / hot(torch, lambda: torch.mm(x, y, out=out)) / 1e9:.0f} TFLOP/s; {clocks()}")


def main():
    import torch
    folder, names, good = pathlib.Path(sys.argv[1]), sys.argv[2:], True
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    print(f"torch {torch.__version__}, {torch.cuda.get_device_name()}, without TF32; {clocks()}")
    with torch.inference_mode(), torch.cuda.stream(torch.cuda.Stream()):
        flush = torch.zeros(FLUSH // 4, device="cuda", dtype=torch.int32)
        peaks(torch)
        if (folder / "tiny" / "model.so").exists():
            launches(torch, folder)
        print(f"{'ms':32} {'':5} {'error':>7} {'weir hot':>9} {'cold':>9} {'torch hot':>9} {'cold':>9} {'x hot':>6} {'cold':>6}")
        for case in cases():
            if case[0].endswith(ENGINE) and torch.cuda.get_device_capability() != (9, 0):
                continue
            library, _ = by_library(case[0]) or (None, None)
            for name in (case[0], *([f"{case[0]}.{library}"] if library else [])):
                path = folder / name / "model.so"
                if not path.exists() or names and case[0] not in names:
                    continue
                try:
                    good &= compare(torch, path, case, flush)
                except RuntimeError as error:
                    print(f"{name:32} FAIL {error}")
                    good = False
    print(clocks())
    return not good


if __name__ == "__main__":
    sys.exit(main())
