# SPDX-License-Identifier: Apache-2.0
"""Random operands and attributes of operators: a function per family, called with a `Draw` and the version.

It returns Node(operands, attributes, results): operands are arrays, None for an absent one, lists for sequences;
`fixed` marks those that exporters mostly write as initializers. Whatever the standard does not allow at that version
or for that type is thrown away by the judges, so the functions need not be exact.
"""
import dataclasses

import ml_dtypes
import numpy as np

FAMILY = {}
FLOATS = [np.float32, np.float32, np.float32, np.float64, np.float16]
SIGNED = [np.int32, np.int64, np.int8, np.int16]
UNSIGNED = [np.uint8, np.uint16, np.uint32, np.uint64]
NUMBERS = FLOATS + SIGNED + UNSIGNED
ANY = NUMBERS + [np.bool_, object]
SIZES = [1, 1, 2, 2, 3, 3, 4, 5, 7, 16, 17]


@dataclasses.dataclass
class Node:
    operands: list
    attributes: dict = dataclasses.field(default_factory=dict)
    results: int = 1
    fixed: tuple = ()


@dataclasses.dataclass
class Net:
    """A graph around the operator: its nodes, values of inputs and of initializers by name, names of results.
    `want`: results, where no judge is asked. `static`: inputs whose dims stay numbers."""
    nodes: list
    feed: dict
    outputs: list
    constants: dict = dataclasses.field(default_factory=dict)
    want: list = None
    static: set = dataclasses.field(default_factory=set)


class Draw:
    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)

    def one(self, *choices):
        return choices[self.rng.integers(len(choices))]

    def chance(self, p):
        return self.rng.random() < p

    def int(self, lo, hi):
        return int(self.rng.integers(lo, hi + 1))

    def size(self):
        return 0 if self.chance(0.03) else int(self.rng.choice(SIZES))

    def shape(self, lo=0, hi=4):
        return tuple(self.size() for _ in range(self.int(lo, hi)))

    def full(self, lo=1, hi=4):
        """A shape without 0."""
        return tuple(int(self.rng.choice(SIZES[:9])) for _ in range(self.int(lo, hi)))

    def array(self, shape, t=np.float32, lo=-3.0, hi=3.0):
        t = np.dtype(t)
        if t.kind == "O":
            words = np.array(["", "a", "b", "ab", "Cat", "dog", "1", "2.5"], object)
            return np.asarray(words[self.rng.integers(0, len(words), shape)], object).reshape(shape)
        if t.kind == "b":
            return self.rng.random(shape) < 0.5
        if t.kind in "iu":
            low = max(int(lo), 0) if t.kind == "u" else int(lo)
            return np.asarray(self.rng.integers(low, max(int(hi), low) + 1, shape)).astype(t)
        return np.asarray(self.rng.uniform(lo, hi, shape)).astype(t)

    def partner(self, shape):
        """A shape that broadcasts with it."""
        s = [1 if self.chance(0.3) else d for d in shape]
        return tuple(s[self.int(0, len(s)):] if self.chance(0.4) else s)

    def axis(self, rank):
        return self.int(-rank, rank - 1) if rank else 0

    def axes(self, rank, least=0):
        n = self.int(min(least, rank), rank)
        return [int(a) - (rank if self.chance(0.3) else 0) for a in self.rng.permutation(rank)[:n]]


def family(*names):
    def keep(function):
        for name in names:
            FAMILY[name] = function
        return function
    return keep


def vector(values, t=np.int64):
    return np.array(values, t).reshape(-1)


def maybe(d, table):
    """Each attribute with a chance of one half."""
    return {k: v for k, v in table.items() if d.chance(0.5)}


# ---- element by element ------------------------------------------------------------------------

RANGE = {"Acos": (-1, 1), "Asin": (-1, 1), "Atanh": (-0.95, 0.95), "Acosh": (1, 9), "Log": (0.01, 9), "Sqrt": (0, 9),
         "Reciprocal": (0.3, 4), "Exp": (-5, 5), "Tan": (-1.4, 1.4)}
FACTORS = {"LeakyRelu": ["alpha"], "Elu": ["alpha"], "Selu": ["alpha", "gamma"], "HardSigmoid": ["alpha", "beta"],
           "ThresholdedRelu": ["alpha"], "Celu": ["alpha"], "Shrink": ["bias", "lambd"], "Swish": ["alpha"]}


@family("Abs", "Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "Ceil", "Cos", "Cosh", "Elu", "Erf", "Exp", "Floor",
        "HardSigmoid", "HardSwish", "Identity", "LeakyRelu", "Log", "Mish", "Neg", "Reciprocal", "Relu", "Round", "Selu",
        "Sigmoid", "Sign", "Sin", "Sinh", "Softplus", "Softsign", "Sqrt", "Tan", "Tanh", "ThresholdedRelu", "Celu",
        "Shrink", "Swish", "Gelu", "Not", "BitwiseNot", "IsNaN", "IsInf", "Size")
def unary(d, name, version):
    t = d.one(*FLOATS, *NUMBERS)
    if name in ("Not",):
        t = np.bool_
    elif name == "BitwiseNot":
        t = d.one(*SIGNED, *UNSIGNED)
    elif name in ("Identity", "Size"):
        t = d.one(*ANY)
    lo, hi = RANGE.get(name, (-4, 4))
    x = d.array(d.shape(), t, lo, hi)
    if x.dtype.kind == "f" and x.size and d.chance(0.2) and name not in ("Sin", "Cos", "Tan"):
        x.reshape(-1)[d.int(0, x.size - 1)] = d.one(np.nan, np.inf, -np.inf, 0.0, -0.0)
    if name == "Round" and d.chance(0.5):
        x = (np.round(x * 2) / 2).astype(x.dtype)
    a = {k: float(np.float32(d.rng.uniform(0.1, 2))) for k in FACTORS.get(name, []) if d.chance(0.7)}
    if name == "IsInf":
        a = maybe(d, {"detect_negative": d.int(0, 1), "detect_positive": d.int(0, 1)})
    if name == "Gelu":
        a = maybe(d, {"approximate": d.one("none", "tanh")})
    return Node([x], a)


@family("Add", "Sub", "Mul", "Div", "Pow", "Mod", "And", "Or", "Xor", "Equal", "Less", "Greater", "LessOrEqual",
        "GreaterOrEqual", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "BitShift", "PRelu")
def binary(d, name, version):
    t = d.one(*FLOATS, *NUMBERS)
    if name in ("And", "Or", "Xor") or (name == "Equal" and version < 7):
        t = np.bool_
    elif name.startswith("Bit"):
        t = d.one(*UNSIGNED) if name == "BitShift" else d.one(*SIGNED, *UNSIGNED)
    elif name == "Equal" and version < 11:
        t = d.one(np.bool_, np.int32, np.int64)
    elif name == "Equal" and d.chance(0.3):
        t = d.one(np.bool_, object)
    s = d.shape()
    x, y, a = d.array(s, t), d.array(d.partner(s), t), {}
    if version < 7 and name != "PRelu":
        y = d.array(s, t)
        if s and d.chance(0.5):
            k = d.int(0, len(s) - 1)
            n = d.int(1, len(s) - k)
            y, a = d.array(s[k:k + n], t), {"broadcast": 1, "axis": k}
    elif version < 7:
        x = d.array(d.full(2, 4), t)
        y = d.array((x.shape[1],) if d.chance(0.6) else (1,), t)
    elif name != "PRelu" and d.chance(0.4):
        x, y = y, x
    if name in ("Div", "Mod"):
        y = np.where(y.astype(np.float64) == 0, 1, y).astype(t) if y.size else y
        if name == "Mod":
            a = {"fmod": 1} if x.dtype.kind == "f" or d.chance(0.3) else {}
    if name == "Pow":
        x = np.abs(x) + 1 if x.dtype.kind == "f" else np.abs(x)
        y = d.array(y.shape, d.one(t, np.float32, np.int32, np.int64) if version > 11 else t, 0, 3)
    if name == "BitShift":
        a = {"direction": d.one("LEFT", "RIGHT")}
        y = d.array(y.shape, t, 0, 7)
    return Node([x, y], a, fixed=(1,) if name == "PRelu" else ())


@family("Max", "Min", "Mean", "Sum")
def variadic(d, name, version):
    t, s = d.one(*FLOATS, *(NUMBERS if name in ("Max", "Min") else [])), d.shape()
    same = version < 8
    return Node([d.array(s if same else d.partner(s), t) for _ in range(d.int(1, 4))])


@family("Where")
def where(d, name, version):
    s, t = d.shape(), d.one(*ANY)
    return Node([d.array(d.partner(s), np.bool_), d.array(d.partner(s), t), d.array(s, t)])


@family("Clip")
def clip(d, name, version):
    t = d.one(*FLOATS, *NUMBERS) if version > 11 else d.one(*FLOATS)
    x = d.array(d.shape(), t)
    lo, hi = d.array((), t, -2, 0), d.array((), t, 1, 2)
    if version < 11:
        return Node([x], maybe(d, {"min": float(lo), "max": float(hi)}))
    return Node([x, lo if d.chance(0.7) else None, hi if d.chance(0.7) else None], fixed=(1, 2))


CODES = [np.float32, np.float64, np.float16, ml_dtypes.bfloat16, np.int32, np.int64, np.int8, np.int16, np.uint8, np.uint16,
         np.uint32, np.uint64, np.bool_, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2, ml_dtypes.float8_e4m3fnuz,
         ml_dtypes.float8_e5m2fnuz, ml_dtypes.int4, ml_dtypes.uint4, ml_dtypes.float4_e2m1fn]


@family("Cast", "CastLike")
def cast(d, name, version):
    import onnx
    types = CODES[:3] + CODES[4:13] if version < 13 else CODES[:13] if version < 19 or d.chance(0.5) else CODES
    t, to = d.one(*types), d.one(*types)
    x = d.array(d.shape(), np.float32, 0 if "u" in (np.dtype(t).kind, np.dtype(to).kind) or "uint" in f"{t}{to}" else -6, 6).astype(t)
    if name == "CastLike":
        return Node([x, d.array((1,), np.float32).astype(to)], {} if version < 19 else maybe(d, {"saturate": d.int(0, 1)}))
    code = onnx.helper.np_dtype_to_tensor_dtype(np.dtype(to))
    if version < 6:
        return Node([x], {"to": onnx.TensorProto.DataType.Name(code)})
    return Node([x], {"to": code, **({} if version < 19 else maybe(d, {"saturate": d.int(0, 1)}))})


@family("BitCast")
def bit_cast(d, name, version):
    import onnx
    pairs = [(np.float32, np.int32), (np.int64, np.float64), (np.uint16, np.float16), (np.int8, np.uint8), (np.uint32, np.float32)]
    t, to = d.one(*pairs)
    return Node([d.array(d.shape(), t)], {"to": onnx.helper.np_dtype_to_tensor_dtype(np.dtype(to))})


# ---- along axes --------------------------------------------------------------------------------

@family("ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd",
        "ReduceSum", "ReduceSumSquare")
def reduce(d, name, version):
    t = d.one(*FLOATS, *([] if "Log" in name else [np.int32, np.int64]), *([np.int8, np.uint8] if name in ("ReduceMax", "ReduceMin") else []))
    x = d.array(d.shape(), t, 0.1 if "Log" in name else -2, 2)
    if name == "ReduceMean" and x.size == 0:
        raise ValueError("the mean of nothing has no value in every type")
    if name == "ReduceLogSum" and x.size == 0:
        raise ValueError("no integer is the logarithm of nothing")
    axes = d.axes(x.ndim)
    a = maybe(d, {"keepdims": d.int(0, 1)})
    if version >= 18 or (name == "ReduceSum" and version >= 13):
        if d.chance(0.3):
            a["noop_with_empty_axes"] = d.int(0, 1)
        return Node([x, vector(axes) if axes or d.chance(0.5) else None], a, fixed=(1,))
    if version < 11:
        axes = sorted(k % x.ndim for k in axes)
    return Node([x], {**a, **({"axes": axes} if axes else {})})


@family("ArgMax", "ArgMin")
def arg(d, name, version):
    x = d.array(d.full(1, 4), d.one(*FLOATS, *NUMBERS), -2, 2)
    axis = d.axis(x.ndim) if version >= 11 else d.int(0, x.ndim - 1)
    a = maybe(d, {"axis": axis, "keepdims": d.int(0, 1)})
    return Node([x], {**a, **(maybe(d, {"select_last_index": d.int(0, 1)}) if version >= 12 else {})})


@family("Softmax", "LogSoftmax", "Hardmax")
def softmax(d, name, version):
    x = d.array(d.shape(1, 4), d.one(*FLOATS))
    axis = d.axis(x.ndim) if version >= 11 else d.int(0, x.ndim - 1)
    return Node([x], {"axis": axis} if d.chance(0.8) or x.ndim == 1 else {})


@family("CumSum", "CumProd")
def cumulate(d, name, version):
    x = d.array(d.shape(1, 4), d.one(np.float32, np.float64, np.int32, np.int64), -2, 2)
    axis = np.array(d.axis(x.ndim), d.one(np.int32, np.int64))
    return Node([x, axis], maybe(d, {"exclusive": 1, "reverse": 1}), fixed=(1,))


@family("LpNormalization")
def lp_normalization(d, name, version):
    x = d.array(d.full(), d.one(*FLOATS[:4]), 0.2, 2)
    return Node([x], maybe(d, {"axis": d.axis(x.ndim), "p": d.int(1, 2)}))


@family("MeanVarianceNormalization")
def mean_variance(d, name, version):
    x = d.array(d.full(4, 4), np.float32)
    return Node([x], maybe(d, {"axes": sorted(k % 4 for k in d.axes(4, 1))}))


@family("TopK")
def topk(d, name, version):
    x = d.array(d.full(), d.one(*FLOATS[:4], np.int32, np.int64) if version > 10 else d.one(*FLOATS), -50, 50)
    axis = d.axis(x.ndim) if version > 10 else d.int(0, x.ndim - 1)
    n = x.shape[axis]
    x = d.rng.permutation(x.size).reshape(x.shape).astype(x.dtype)
    k = d.int(0 if version > 1 else 1, n)
    if version == 1:
        return Node([x], {"k": k, "axis": axis}, 2)
    return Node([x, vector([k])], {"axis": axis, **(maybe(d, {"largest": d.int(0, 1)}) if version > 10 else {})}, 2, (1,))


@family("Unique")
def unique(d, name, version):
    x = d.array(d.full(1, 3), d.one(np.float32, np.int64, np.int8, np.float64, object), 0, 3)
    x = np.round(x.astype(np.float64)).astype(x.dtype) if x.dtype.kind == "f" else x
    return Node([x], maybe(d, {"axis": d.axis(x.ndim), "sorted": d.int(0, 1)}), d.int(1, 4))


@family("ReverseSequence")
def reverse_sequence(d, name, version):
    x, axis = d.array(d.full(2, 4), d.one(*ANY)), d.int(0, 1)
    return Node([x, d.array((x.shape[1 - axis],), np.int64, 1, x.shape[axis])], {"batch_axis": 1 - axis, "time_axis": axis})


@family("EyeLike")
def eye_like(d, name, version):
    return Node([d.array(d.shape(2, 2), d.one(*FLOATS, *SIGNED))], maybe(d, {"k": d.int(-3, 3), "dtype": d.one(1, 7, 11, 6)}))


@family("Trilu")
def trilu(d, name, version):
    k = np.array(d.int(-4, 4), np.int64)
    return Node([d.array(d.shape(2, 4), d.one(*NUMBERS, np.bool_)), k if d.chance(0.7) else None], maybe(d, {"upper": d.int(0, 1)}), fixed=(1,))


# ---- shapes ------------------------------------------------------------------------------------

@family("Shape")
def shape(d, name, version):
    a = {} if version < 15 else maybe(d, {"start": d.int(-5, 5), "end": d.int(-5, 5)})
    return Node([d.array(d.shape(), d.one(*ANY))], a)


@family("Reshape")
def reshape(d, name, version):
    x = d.array(d.shape(), d.one(*ANY))
    left, to = x.size, []
    while left > 1 and len(to) < 4:
        f = d.one(*[k for k in range(1, left + 1) if left % k == 0])
        to.append(f)
        left //= f
    to = (to + [left] if left > 1 or d.chance(0.3) else to) if x.size else list(x.shape)
    a = {"allowzero": 1} if version >= 14 and (0 in to or d.chance(0.2)) else {}
    for i, n in enumerate(to):
        if i < x.ndim and x.shape[i] == n and d.chance(0.4) and not a:
            to[i] = 0
    if to and d.chance(0.5) and x.size:
        to[d.int(0, len(to) - 1)] = -1
    if version < 5:
        return Node([x], {"shape": to})
    return Node([x, vector(to)], a, fixed=(1,))


@family("Flatten")
def flatten(d, name, version):
    x = d.array(d.shape(0 if version > 9 else 1, 4), d.one(*FLOATS, *(ANY if version > 8 else [])))
    return Node([x], maybe(d, {"axis": d.int(-x.ndim if version > 9 else 0, x.ndim)}))


@family("Squeeze")
def squeeze(d, name, version):
    s = [1 if d.chance(0.5) else n for n in d.shape(0, 5)]
    ones = [i - (len(s) if version >= 11 and d.chance(0.3) else 0) for i, n in enumerate(s) if n == 1 and d.chance(0.7)]
    x = d.array(s, d.one(*ANY))
    if version < 13:
        return Node([x], {"axes": ones} if ones else {})
    return Node([x, vector(ones) if ones else None], fixed=(1,))


@family("Unsqueeze")
def unsqueeze(d, name, version):
    x = d.array(d.shape(0, 3), d.one(*ANY))
    rank = x.ndim + d.int(1, 3)
    axes = [int(k) - (rank if version >= 11 and d.chance(0.3) else 0) for k in d.rng.permutation(rank)[:rank - x.ndim]]
    return Node([x, vector(axes)], fixed=(1,)) if version >= 13 else Node([x], {"axes": axes if version >= 11 else sorted(axes)})


@family("Transpose")
def transpose(d, name, version):
    x = d.array(d.shape(0, 5), d.one(*ANY))
    return Node([x], {"perm": [int(k) for k in d.rng.permutation(x.ndim)]} if x.ndim and d.chance(0.8) else {})


@family("Expand")
def expand(d, name, version):
    s = d.shape()
    x = d.array(d.partner(s), d.one(*ANY))
    return Node([x, vector(d.partner(s) if d.chance(0.3) else s)], fixed=(1,))


@family("Tile")
def tile(d, name, version):
    x = d.array(d.shape(0 if version > 1 else 1, 4), d.one(*FLOATS, *NUMBERS, np.bool_))
    if version == 1:
        t = x.dtype
        return Node([x, np.array(d.int(1, 3)).astype(t), np.array(d.int(0, x.ndim - 1)).astype(t)], fixed=(1, 2), results=1)
    return Node([x, d.array((x.ndim,), np.int64, 0 if d.chance(0.1) else 1, 3)], fixed=(1,))


@family("Concat")
def concat(d, name, version):
    s, t = d.shape(1, 4), d.one(*(FLOATS if version < 4 else ANY))
    axis = d.axis(len(s)) if version >= 11 else d.int(0, len(s) - 1)
    def part():
        p = list(s)
        p[axis] = d.size()
        return d.array(p, t)
    return Node([part() for _ in range(d.int(1, 4))], {"axis": axis})


@family("Split")
def split(d, name, version):
    s = list(d.shape(1, 4))
    axis = d.axis(len(s)) if version >= 11 else d.int(0, len(s) - 1)
    n = d.int(1, 4)
    parts = [d.int(0 if version > 10 and d.chance(0.1) else 1, 4) for _ in range(n)]
    even = d.chance(0.4)
    s[axis] = n * parts[0] if even else sum(parts)
    x, a = d.array(s, d.one(*FLOATS, *(ANY if version > 1 else []))), maybe(d, {"axis": axis})
    a = {"axis": axis} if axis not in (0, -len(s)) else a
    if version >= 18 and even:
        if d.chance(0.4) and s[axis] > n:
            s[axis] -= 1
            x = d.array(s, x.dtype)
        return Node([x], {**a, "num_outputs": n}, n)
    if even and version < 18:
        return Node([x], a, n)
    return Node([x, vector(parts)], a, n, (1,)) if version in (13, 18) else Node([x], {**a, "split": parts}, n)


@family("Slice")
def slice_(d, name, version):
    x = d.array(d.shape(1, 4), d.one(*ANY))
    n = d.int(0, x.ndim)
    axes = d.axes(x.ndim, 1) if version > 1 else sorted(k % x.ndim for k in d.axes(x.ndim, 1))
    n = len(axes)
    starts, ends = ([d.one(d.int(-6, 6), d.int(0, 3), 2**31 - 1, -2**31) for _ in range(n)] for _ in range(2))
    if version == 1:
        return Node([x], {"starts": starts, "ends": ends, "axes": axes})
    steps = [d.one(1, 1, 2, 3, -1, -2) for _ in range(n)]
    t = d.one(np.int32, np.int64)
    starts = [min(v, 2**31 - 1) for v in starts]
    use = d.int(0, 2)
    if use == 0:
        return Node([x, vector(starts, t), vector(ends, t)], fixed=(1, 2)) if len(axes) == x.ndim and d.chance(0.9) else \
            Node([x, vector(starts, t), vector(ends, t), vector(axes, t)], fixed=(1, 2, 3))
    return Node([x, vector(starts, t), vector(ends, t), vector(axes, t), vector(steps, t) if use == 2 else None], fixed=(1, 2, 3, 4))


@family("Pad")
def pad(d, name, version):
    x = d.array(d.shape(1, 4) if version < 2 or d.chance(0.5) else d.full(1, 4), d.one(*FLOATS, *(NUMBERS if version > 12 else [])))
    mode = d.one("constant", "constant", "reflect", "edge", *(["wrap"] if version >= 19 else []))
    some = d.axes(x.ndim, 1) if version >= 18 and d.chance(0.4) else list(range(x.ndim))
    def amount(k):
        n = x.shape[k]
        most = max(n - 1, 0) if mode == "reflect" else n if mode == "wrap" else 3
        return d.int(-(n // 2 if mode == "constant" and d.chance(0.2) else 0), min(most, 4) if n else 0)
    pads = [amount(k) for k in some] + [amount(k) for k in some]
    value = 1.5
    if version < 11:
        return Node([x], {"mode": mode, "paddings" if version == 1 else "pads": pads, "value": value})
    operands = [x, vector(pads), d.array((), x.dtype, 1, 4) if d.chance(0.5) else None]
    if version >= 18 and len(some) < x.ndim or (version >= 18 and some != list(range(x.ndim))):
        operands.append(vector(some, d.one(np.int32, np.int64)))
    return Node(operands, {"mode": mode}, fixed=(1, 2, 3))


@family("DepthToSpace", "SpaceToDepth")
def depth_space(d, name, version):
    b, n, c, h, w = d.int(1, 3), d.int(1, 2), d.int(1, 3), d.int(1, 3), d.int(1, 4)
    t = d.one(*NUMBERS)
    if name == "SpaceToDepth":
        return Node([d.array((n, c, h * b, w * b), t)], {"blocksize": b})
    return Node([d.array((n, c * b * b, h, w), t)], {"blocksize": b, **(maybe(d, {"mode": d.one("DCR", "CRD")}) if version > 10 else {})})


@family("CenterCropPad")
def center(d, name, version):
    x = d.array(d.full(), d.one(*NUMBERS))
    axes = d.axes(x.ndim, 1) if d.chance(0.5) else None
    n = len(axes) if axes else x.ndim
    return Node([x, d.array((n,), d.one(np.int32, np.int64), 1, 7)], {"axes": axes} if axes else {}, fixed=(1,))


@family("ConstantOfShape")
def constant_of_shape(d, name, version):
    import onnx
    value = d.array((1,), d.one(*NUMBERS, np.bool_))
    return Node([vector(d.shape())], {"value": onnx.numpy_helper.from_array(value)} if d.chance(0.8) else {}, fixed=(0,))


@family("Range")
def range_(d, name, version):
    t = d.one(np.float32, np.float64, np.int32, np.int64, np.int16)
    step = d.one(1, 2, 3, -1, -2)
    lo = d.int(-5, 5)
    return Node([np.array(lo, t), np.array(lo + d.int(-2, 9) * (1 if step > 0 else -1), t), np.array(step, t)], fixed=(0, 1, 2))


# ---- gathering, scattering ---------------------------------------------------------------------

def places(d, shape, n, version, t=None):
    return d.array(shape, t or d.one(np.int32, np.int64), -n if version >= 11 else 0, n - 1)


@family("Gather")
def gather(d, name, version):
    x = d.array(d.full(), d.one(*ANY))
    axis = d.axis(x.ndim)
    return Node([x, places(d, d.shape(0, 3), x.shape[axis], version)], maybe(d, {"axis": axis}) if axis in (0, -x.ndim) else {"axis": axis}, fixed=(1,))


@family("GatherElements")
def gather_elements(d, name, version):
    x = d.array(d.full(), d.one(*ANY))
    axis = d.axis(x.ndim)
    s = [d.int(1, n) for n in x.shape]
    s[axis] = d.size()
    return Node([x, places(d, s, x.shape[axis], version)], {"axis": axis})


@family("GatherND")
def gather_nd(d, name, version):
    x = d.array(d.full(1, 4), d.one(*ANY))
    b = d.int(0, min(2, x.ndim - 1)) if version > 11 else 0
    depth = d.int(1, x.ndim - b)
    lead = x.shape[:b] + d.shape(0 if b else 1, 2)
    at = np.stack([places(d, lead, x.shape[b + k], 11, np.int64) for k in range(depth)], -1) if lead or depth else None
    return Node([x, at], {"batch_dims": b} if b else {})


@family("ScatterElements", "Scatter")
def scatter_elements(d, name, version):
    x = d.array(d.full(), d.one(*NUMBERS))
    axis = d.axis(x.ndim) if version >= 11 else d.int(0, x.ndim - 1)
    s = [d.int(1, n) for n in x.shape]
    how = d.one("none", "add", "mul", *(["max", "min"] if version >= 18 else [])) if version >= 16 else "none"
    one = d.rng.permuted(np.broadcast_to(np.arange(x.shape[axis]).reshape([-1 if k == axis % x.ndim else 1 for k in range(x.ndim)]), [x.shape[k] if k == axis % x.ndim else s[k] for k in range(x.ndim)]), axis=axis)
    at = np.take(one, range(s[axis]), axis) if how == "none" else places(d, s, x.shape[axis], version, np.int64)
    return Node([x, at.astype(d.one(np.int32, np.int64)), d.array(s, x.dtype)], {"axis": axis, **({"reduction": how} if how != "none" else {})})


@family("ScatterND")
def scatter_nd(d, name, version):
    x = d.array(d.full(1, 3), d.one(*NUMBERS))
    depth = d.int(1, x.ndim)
    how = d.one("none", "add", "mul", *(["max", "min"] if version >= 18 else [])) if version >= 16 else "none"
    total = int(np.prod(x.shape[:depth]))
    n = d.int(0 if d.chance(0.1) else 1, min(total, 5))
    flat = d.rng.permutation(total)[:n] if how == "none" else d.rng.integers(0, total, n)
    at = np.stack(np.unravel_index(flat, x.shape[:depth]), -1).astype(np.int64).reshape(n, depth)
    return Node([x, at, d.array((n,) + x.shape[depth:], x.dtype)], {"reduction": how} if how != "none" else {})


@family("TensorScatter")
def tensor_scatter(d, name, version):
    b, h, most, n, w = d.int(1, 3), d.int(1, 3), d.int(4, 8), d.int(1, 4), d.int(1, 4)
    x, u = d.array((b, h, most, w)), d.array((b, h, n, w))
    mode = d.one("linear", "circular")
    at = d.array((b,), np.int64, 0, most - n if mode == "linear" else most - 1)
    return Node([x, u, at if d.chance(0.7) else None], {"mode": mode, "axis": -2})


@family("OneHot")
def one_hot(d, name, version):
    s, depth = d.shape(0, 3), d.int(1, 6)
    t = d.one(np.int64, np.int32, np.float32)
    n = d.one(np.array(depth, np.int64), vector([depth]), np.array(depth, np.float32), np.array([depth], np.int32))
    values = d.array((2,), d.one(np.float32, np.int32, np.int64, np.float64))
    return Node([d.array(s, t, -depth if version > 9 else 0, depth - 1).round().astype(t), n, values], {"axis": d.int(-len(s) - 1, len(s))}, fixed=(1, 2))


@family("NonZero")
def non_zero(d, name, version):
    return Node([d.array(d.shape(1, 4), d.one(np.float32, np.int32, np.int64, np.bool_, np.uint8), -1, 1).round()])


@family("Compress")
def compress(d, name, version):
    x = d.array(d.full(), d.one(*ANY))
    if d.chance(0.4):
        return Node([x, d.array((d.int(1, x.size),), np.bool_)])
    axis = d.axis(x.ndim) if version >= 11 else d.int(0, x.ndim - 1)
    return Node([x, d.array((d.int(1, x.shape[axis]),), np.bool_)], {"axis": axis})


@family("NonMaxSuppression")
def nms(d, name, version):
    b, c, n = d.int(1, 2), d.int(1, 3), d.int(1, 12)
    lo = d.rng.uniform(0, 4, (b, n, 2))
    boxes = np.concatenate([lo, lo + d.rng.uniform(0.5, 3, (b, n, 2))], -1).astype(np.float32)
    scores = d.rng.permutation(b * c * n).reshape(b, c, n).astype(np.float32) / (b * c * n)
    a = {"center_point_box": d.int(0, 1)} if d.chance(0.5) else {}
    if a.get("center_point_box"):
        boxes = np.concatenate([(boxes[..., :2] + boxes[..., 2:]) / 2, boxes[..., 2:] - boxes[..., :2]], -1)
    elif d.chance(0.3):
        boxes = boxes[..., [2, 3, 0, 1]]
    return Node([boxes, scores.astype(np.float32), vector([d.int(1, n)]), vector([d.one(0.3, 0.5, 0.7)], np.float32),
                 vector([d.one(0.0, 0.2)], np.float32) if d.chance(0.6) else None], a, fixed=(2, 3, 4))
