# SPDX-License-Identifier: Apache-2.0
"""Random operands of the operators of networks: windows, normalisations, recurrence, quantized ones, images, strings."""
import ml_dtypes
import numpy as np

from operators import FLOATS, NUMBERS, Node, family, maybe, vector

SMALL = [np.float32, np.float32, np.float64, np.float16]


# ---- windows -----------------------------------------------------------------------------------

def window(d, dims, size, version, transposed=False):
    """Attributes of a window over `size`, and its extent."""
    k = [d.int(1, min(3, n) if n else 1) for n in size]
    a = {"kernel_shape": k}
    if d.chance(0.6):
        a["strides"] = [d.int(1, 3) for _ in k]
    pads = d.one("none", "explicit", "SAME_UPPER", "SAME_LOWER", "VALID")
    if pads == "explicit":
        a["pads"] = [d.int(0, n - 1) for n in k + k]
    elif pads != "none":
        a["auto_pad"] = pads
        if "strides" in a:
            a["strides"] = [min(s, n) for s, n in zip(a["strides"], k)]
    if d.chance(0.3) and not pads.startswith("SAME") and dims:
        if pads != "VALID":
            a["dilations"] = [d.int(1, 2) for _ in k]
    return k, a


@family("Conv", "ConvInteger")
def conv(d, name, version):
    dims, g = d.one(1, 2, 2, 2, 3), d.one(1, 1, 2, 3)
    size = [d.int(3, 8) for _ in range(dims)]
    k, a = window(d, True, size, version)
    n, c, o = d.int(1, 2), g * d.int(1, 3), g * d.int(1, 3)
    if d.chance(0.3):
        del a["kernel_shape"]
    a = {**a, **({"group": g} if g > 1 else {})}
    if name == "ConvInteger":
        t, u = d.one(np.int8, np.uint8), d.one(np.int8, np.uint8)
        return Node([d.array((n, c, *size), t, -9, 20), d.array((o, c // g, *k), u, -9, 20), d.array((), t, 0, 5) if d.chance(0.6) else None,
                     d.array(d.one((), (o,)), u, 0, 5) if d.chance(0.3) else None], a, fixed=(1, 2, 3))
    t = d.one(*SMALL)
    return Node([d.array((n, c, *size), t), d.array((o, c // g, *k), t, -1, 1), d.array((o,), t) if d.chance(0.6) else None], a, fixed=(1, 2))


@family("ConvTranspose")
def conv_transpose(d, name, version):
    dims, g = d.one(1, 2, 2, 3), d.one(1, 1, 2)
    size = [d.int(2, 6) for _ in range(dims)]
    k, a = window(d, True, size, version)
    s = a.get("strides", [1] * dims)
    if d.chance(0.3):
        a["output_padding"] = [d.int(0, max(x - 1, 0)) for x in s]
    elif d.chance(0.3) and "pads" not in a and a.get("auto_pad") != "VALID":
        a["output_shape"] = [max((n - 1) * x + 1, 1) for n, x in zip(size, s)]
    if d.chance(0.3):
        del a["kernel_shape"]
    n, c, o, t = d.int(1, 2), g * d.int(1, 3), d.int(1, 3), d.one(*SMALL[:3])
    return Node([d.array((n, c, *size), t), d.array((c, o, *k), t, -1, 1), d.array((o * g,), t) if d.chance(0.6) else None],
                {**a, **({"group": g} if g > 1 else {})}, fixed=(1, 2))


@family("MaxPool", "AveragePool", "LpPool")
def pool(d, name, version):
    dims = d.one(1, 2, 2, 3)
    size = [d.int(3, 9) for _ in range(dims)]
    dilate = {"MaxPool": version >= 10, "AveragePool": version >= 19, "LpPool": version >= 18}[name]
    k, a = window(d, dilate, size, version)
    if version >= {"MaxPool": 10, "AveragePool": 10, "LpPool": 18}[name] and d.chance(0.4) and "auto_pad" not in a:
        a["ceil_mode"] = 1
    if name == "AveragePool" and version >= 7 and d.chance(0.5):
        a["count_include_pad"] = d.int(0, 1)
    if name == "LpPool" and d.chance(0.5):
        a["p"] = d.int(1, 3)
    t = d.one(np.float32, np.float64, np.float16, *([np.int8, np.uint8] if name == "MaxPool" and version >= 12 else []))
    shape = (d.int(1, 2), d.int(1, 3), *size)
    x = d.rng.permutation(int(np.prod(shape))).reshape(shape)
    x = (x % 120 if np.dtype(t).kind in "iu" else x / 8).astype(t)
    both = name == "MaxPool" and version >= 8 and d.chance(0.4)
    if both and version < 12 or (both and d.chance(0.5)):
        a = {**a, **maybe(d, {"storage_order": d.int(0, 1)})}
    return Node([x if name == "MaxPool" else np.abs(d.array(shape, t))], a, 2 if both else 1)


@family("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool")
def global_pool(d, name, version):
    x = d.array(d.full(3, 5), d.one(*SMALL))
    return Node([x], maybe(d, {"p": d.int(1, 3)}) if name == "GlobalLpPool" else {})


@family("MaxUnpool")
def max_unpool(d, name, version):
    n, c, h, w = d.int(1, 2), d.int(1, 2), d.int(1, 3), d.int(1, 3)
    at = np.stack([i * h * 2 * w * 2 + ((np.arange(h) * 2 + d.int(0, 1))[:, None] * w * 2 + np.arange(w) * 2 + d.int(0, 1)) for i in range(n * c)])
    return Node([d.array((n, c, h, w)), at.reshape(n, c, h, w).astype(np.int64)], {"kernel_shape": [2, 2], "strides": [2, 2]})


@family("LRN")
def lrn(d, name, version):
    return Node([d.array(d.full(3, 4), np.float32)], {"size": d.one(1, 3, 5), **maybe(d, {"alpha": 0.002, "beta": 0.5, "bias": 2.0})})


@family("RoiAlign", "MaxRoiPool")
def roi(d, name, version):
    n, h, w, r = d.int(1, 2), d.int(4, 8), d.int(4, 8), d.int(1, 3)
    x = d.array((n, d.int(1, 3), h, w))
    lo = d.rng.uniform(0, 3, (r, 2))
    boxes = np.concatenate([lo, lo + d.rng.uniform(1, 4, (r, 2))], -1).astype(np.float32)
    which = d.array((r,), np.int64, 0, n - 1)
    if name == "MaxRoiPool":
        return Node([x, np.concatenate([which[:, None], np.round(boxes)], -1).astype(np.float32)], {"pooled_shape": [d.int(1, 3), d.int(1, 3)]})
    a = maybe(d, {"output_height": d.int(1, 4), "output_width": d.int(1, 4), "sampling_ratio": d.int(0, 3), "spatial_scale": d.one(0.5, 1.0),
                  "mode": d.one("avg", "max")})
    return Node([x, boxes, which], {**a, **(maybe(d, {"coordinate_transformation_mode": d.one("half_pixel", "output_half_pixel")}) if version >= 16 else {})})


@family("Col2Im")
def col2im(d, name, version):
    h, w, kh, kw = d.int(3, 6), d.int(3, 6), d.int(1, 3), d.int(1, 3)
    s, p = [d.int(1, 2), d.int(1, 2)], [d.int(0, 1) for _ in range(4)]
    blocks = ((h + p[0] + p[2] - kh) // s[0] + 1) * ((w + p[1] + p[3] - kw) // s[1] + 1)
    return Node([d.array((d.int(1, 2), d.int(1, 3) * kh * kw, blocks)), vector([h, w]), vector([kh, kw])], {"strides": s, "pads": p}, fixed=(1, 2))


@family("GridSample")
def grid_sample(d, name, version):
    dims = 2 if version < 20 else d.one(2, 2, 3)
    modes = ("bilinear", "nearest", "bicubic") if version < 20 else ("linear", "nearest", "cubic") if dims == 2 else ("linear", "nearest")
    n = d.int(1, 2)
    x, out = d.array((n, d.int(1, 3), *[d.int(2, 5) for _ in range(dims)])), [d.int(1, 4) for _ in range(dims)]
    return Node([x, d.array((n, *out, dims), np.float32, -1.2, 1.2)],
                maybe(d, {"mode": d.one(*modes), "padding_mode": d.one("zeros", "border", "reflection"), "align_corners": d.int(0, 1)}))


@family("AffineGrid")
def affine_grid(d, name, version):
    dims, n = d.one(2, 3), d.int(1, 2)
    return Node([d.array((n, dims, dims + 1)), vector([n, d.int(1, 3), *[d.int(2, 4) for _ in range(dims)]])], maybe(d, {"align_corners": d.int(0, 1)}), fixed=(1,))


@family("Upsample", "Resize")
def resize(d, name, version):
    s = [d.int(1, 2), d.int(1, 2), d.int(2, 6), d.int(2, 6)]
    x = d.array(s, np.float32 if version < 11 else d.one(np.float32, np.float32, np.float64, np.uint8))
    mode = d.one("nearest", "linear", *(["cubic"] if version >= 11 else []))
    a = {"mode": mode if version > 1 or mode != "linear" else "bilinear"}
    up = [1.0, 1.0, d.one(1.0, 1.5, 2.0, 3.0), d.one(1.0, 2.0, 2.5)]
    down = [1.0, 1.0, d.one(0.5, 0.6, 0.8, 2.0), d.one(0.5, 0.4, 1.5)]
    if name == "Upsample" or version < 11:
        up = vector(up if name == "Upsample" or d.chance(0.5) else down, np.float32)
        if name == "Upsample" and version == 1:
            return Node([x], {**a, "height_scale": float(up[2]), "width_scale": float(up[3])})
        return Node([x], {**a, "scales": [float(v) for v in up]}) if name == "Upsample" and version < 9 else Node([x, up], a, fixed=(1,))
    how = d.one("half_pixel", "asymmetric", "pytorch_half_pixel", "align_corners", "tf_crop_and_resize",
                *(["tf_half_pixel_for_nn"] if version == 11 else []), *(["half_pixel_symmetric"] if version >= 19 else []))
    if d.chance(0.8):
        a["coordinate_transformation_mode"] = how
    crop = a.get("coordinate_transformation_mode") == "tf_crop_and_resize"
    roi = vector([0, 0, d.one(0.0, 0.23), 0.13, 1, 1, 0.91, d.one(0.79, 1.19)], np.float32) if crop else vector([], np.float32) if version < 13 else None
    if crop:
        a["extrapolation_value"] = 2.0
    if mode == "nearest" and d.chance(0.7):
        a["nearest_mode"] = d.one("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")
    if mode == "cubic":
        a.update(maybe(d, {"cubic_coeff_a": -0.5, "exclude_outside": d.int(0, 1)}))
    if version >= 18 and mode != "nearest" and not crop and d.chance(0.3):
        a["antialias"] = 1
    scales, sizes = vector(up if d.chance(0.5) else down, np.float32), None
    if d.chance(0.5):
        scales, sizes = (vector([], np.float32) if version < 13 else None), vector(s[:2] + [d.int(1, 9), d.int(1, 9)])
        if version >= 18 and d.chance(0.4) and not crop:
            sizes, a["axes"] = sizes[2:], [2, 3]
            a["keep_aspect_ratio_policy"] = d.one("stretch", "not_larger", "not_smaller")
    return Node([x, roi, scales, sizes], a, fixed=(1, 2, 3))


# ---- matrices, normalisations, losses ----------------------------------------------------------

@family("MatMul", "MatMulInteger")
def matmul(d, name, version):
    m, k, n = d.size(), d.size(), d.size()
    lead = d.full(0, 2)
    t = d.one(*SMALL, *([np.int32, np.int64, np.uint32] if version >= 9 else []))
    a, b = d.one(((m, k), (k, n)), ((k,), (k, n)), ((m, k), (k,)), ((*lead, m, k), (k, n)), ((*lead, m, k), (*d.partner(lead), k, n)), ((k,), (k,)))
    if name == "MatMul":
        return Node([d.array(a, t), d.array(b, t)], fixed=(1,))
    t, u = d.one(np.int8, np.uint8), d.one(np.int8, np.uint8)
    a, b = d.one(((m, k), (k, n)), ((*lead, m, k), (k, n)))
    return Node([d.array(a, t, -9, 30), d.array(b, u, -9, 30), d.array((), t, 0, 5) if d.chance(0.6) else None,
                 d.array(d.one((), (n,)), u, 0, 5) if d.chance(0.5) else None], fixed=(1, 2, 3))


@family("Gemm")
def gemm(d, name, version):
    m, k, n, ta, tb = d.size(), d.size(), d.size(), d.int(0, 1), d.int(0, 1)
    t = d.one(*SMALL, *([np.int32, np.uint32, np.int64] if version >= 9 else []))
    c = d.array((m, n) if version < 7 and d.chance(0.5) else d.one((m, n), (n,), (1, n), (m, 1), (), (1,)) if version >= 7 else (n,), t)
    a = maybe(d, {"alpha": d.one(0.5, 2.0), "beta": d.one(0.25, 2.0)}) if np.dtype(t).kind == "f" else {}
    if version < 7 and c.ndim < 2:
        a["broadcast"] = 1
    return Node([d.array((k, m) if ta else (m, k), t), d.array((n, k) if tb else (k, n), t), c if version < 11 or d.chance(0.7) else None],
                {**a, **({"transA": 1} if ta else {}), **({"transB": 1} if tb else {})}, fixed=(1, 2))


@family("Einsum")
def einsum(d, name, version):
    sizes = {c: d.int(1, 5) for c in "abcdefgh"}
    text = d.one("ij,jk->ik", "bij,bjk->bik", "ij->ji", "ii->i", "ii", "i,i->", "i,j->ij", "bhid,bhjd->bhij", "...ij,...jk->...ik", "abc->a",
                 "abc,cd->abd", "ij,ij->ij", "abcd->dcba", "bij,kj->bik", "a...,a...->...", "ab,bc,cd->ad", "abc,abd->acd", "i...->...i")
    lead = d.full(0, 2) if "..." in text else ()
    def of(term):
        return tuple(n for c in term.replace("...", "*") for n in (lead if c == "*" else (sizes.setdefault(c, d.int(1, 5)),)))
    t = d.one(np.float32, np.float64, np.int32, np.int64)
    return Node([d.array(of(term), t) for term in text.split("->")[0].split(",")], {"equation": text.replace(",", d.one(",", ", "))})


@family("Det")
def det(d, name, version):
    n = d.int(1, 4)
    return Node([d.array((*d.full(0, 2), n, n), d.one(np.float32, np.float64))])


@family("BatchNormalization")
def batch_norm(d, name, version):
    s = d.full(2, 4)
    c, t = s[1], d.one(*SMALL[:3])
    a = maybe(d, {"epsilon": 0.01, "momentum": 0.8})
    if version < 7:
        a["is_test"] = 1
    if version == 1:
        a["consumed_inputs"] = [0, 0, 0, 1, 1]
    return Node([d.array(s, t), d.array((c,), t), d.array((c,), t), d.array((c,), t), d.array((c,), t, 0.5, 2)], a, fixed=(1, 2, 3, 4))


@family("InstanceNormalization", "GroupNormalization", "LayerNormalization", "RMSNormalization")
def norm(d, name, version):
    s, t = list(d.full(3, 4)), d.one(*SMALL[:3])
    a = maybe(d, {"epsilon": 0.01})
    if name == "InstanceNormalization":
        return Node([d.array(s, t), d.array((s[1],), t), d.array((s[1],), t)], a, fixed=(1, 2))
    if name == "GroupNormalization":
        g = d.int(1, 3)
        s[1] = g * d.int(1, 3)
        n = g if version < 21 else s[1]
        return Node([d.array(s, t), d.array((n,), t), d.array((n,), t)], {**a, "num_groups": g}, fixed=(1, 2))
    axis = d.axis(len(s))
    n = tuple(s[axis:])
    scale = d.array(n, t)
    if name == "RMSNormalization":
        return Node([d.array(s, t), scale], {**a, "axis": axis}, fixed=(1,))
    return Node([d.array(s, t), scale, d.array(n, t) if d.chance(0.7) else None], {**a, "axis": axis}, d.one(1, 1, 3), fixed=(1, 2))


@family("Dropout")
def dropout(d, name, version):
    x = d.array(d.shape(), d.one(*FLOATS))
    if version < 12:
        return Node([x], {**({"is_test": 1} if version < 7 else {}), **maybe(d, {"ratio": 0.3})}, d.int(1, 2))
    return Node([x, np.array(0.3, np.float32) if d.chance(0.6) else None, np.array(False) if d.chance(0.5) else None], {}, d.int(1, 2), (1, 2))


@family("NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss")
def loss(d, name, version):
    s = d.full(2, 4)
    target = d.array((s[0], *s[2:]), d.one(np.int32, np.int64), 0, s[1] - 1)
    a = maybe(d, {"reduction": d.one("none", "sum", "mean"), "ignore_index": d.one(0, -100)})
    return Node([d.array(s, np.float32), target, d.array((s[1],), np.float32, 0.1, 2) if d.chance(0.5) else None], a,
                d.int(1, 2) if name.startswith("Soft") else 1)


@family("Attention")
def attention(d, name, version):
    b, kv, q, k, w, v = d.int(1, 2), d.int(1, 2), d.int(1, 5), d.int(1, 6), d.int(1, 4) * 2, d.int(1, 4) * 2
    h = kv * d.int(1, 2)
    flat, past = d.chance(0.4), d.int(0, 3) if d.chance(0.3) else 0
    x = [d.array((b, q, h * w) if flat else (b, h, q, w)), d.array((b, k, kv * w) if flat else (b, kv, k, w)), d.array((b, k, kv * v) if flat else (b, kv, k, v))]
    mask = d.one(None, d.array((q, k + past), np.bool_), d.array((q, k + past)), d.array((b, 1, q, k + past)))
    a = maybe(d, {"is_causal": d.int(0, 1), "softcap": d.one(0.0, 2.0), "scale": 0.3})
    a = {**a, **({"q_num_heads": h, "kv_num_heads": kv} if flat else {})}
    cache = [d.array((b, kv, past, w)), d.array((b, kv, past, v))] if past else []
    return Node([*x, mask, *cache], a, 3 if past else 1)


@family("RotaryEmbedding")
def rotary(d, name, version):
    b, h, s, w, most = d.int(1, 2), d.int(1, 3), d.int(1, 5), 2 * d.int(1, 4), 8
    part = 2 * d.int(1, w // 2) if d.chance(0.3) else 0
    n = (part or w) // 2
    flat, at = d.chance(0.4), d.chance(0.6)
    a = {**maybe(d, {"interleaved": d.int(0, 1)}), **({"rotary_embedding_dim": part} if part else {}), **({"num_heads": h} if flat else {})}
    return Node([d.array((b, s, h * w) if flat else (b, h, s, w)), d.array((most, n) if at else (b, s, n)), d.array((most, n) if at else (b, s, n)),
                 d.array((b, s), np.int64, 0, most - 1) if at else None], a)


# ---- recurrence --------------------------------------------------------------------------------

@family("RNN", "GRU", "LSTM")
def recurrent(d, name, version):
    gates = {"RNN": 1, "GRU": 3, "LSTM": 4}[name]
    s, b, n, h = d.int(1, 5), d.int(1, 3), d.int(1, 4), d.int(1, 4)
    way = d.one("forward", "reverse", "bidirectional")
    w = 2 if way == "bidirectional" else 1
    batch_first = version >= 14 and d.chance(0.25)
    a = {"hidden_size": h, "direction": way, **({"layout": 1} if batch_first else {})}
    if name == "GRU":
        a.update(maybe(d, {"linear_before_reset": d.int(0, 1)}))
    if d.chance(0.2):
        a["clip"] = 0.5
    if d.chance(0.3):
        pool = ["Sigmoid", "Tanh", "Relu", "HardSigmoid", "Softsign"]
        a["activations"] = [d.one(*pool) for _ in range(w * {"RNN": 1, "GRU": 2, "LSTM": 3}[name])]
    if name == "LSTM" and d.chance(0.2):
        a["input_forget"] = 1
    state = (b, w, h) if batch_first else (w, b, h)
    x = [d.array((b, s, n) if batch_first else (s, b, n)), d.array((w, gates * h, n), np.float32, -0.5, 0.5), d.array((w, gates * h, h), np.float32, -0.5, 0.5),
         d.array((w, 2 * gates * h)) if d.chance(0.6) else None, d.array((b,), np.int32, 1, s) if d.chance(0.5) else None,
         d.array(state) if d.chance(0.5) else None]
    if name == "LSTM":
        x += [d.array(state) if d.chance(0.5) else None, d.array((w, 3 * h)) if d.chance(0.4) else None]
    return Node(x, a, 3 if name == "LSTM" else 2, (1, 2, 3, 7))


# ---- quantized ---------------------------------------------------------------------------------

def codes(d, version):
    return d.one(np.uint8, np.int8, *([np.int16, np.uint16] if version >= 21 else []), *([ml_dtypes.int4, ml_dtypes.uint4] if version >= 21 else []),
                 *([np.int32] if version < 0 else []))


@family("QuantizeLinear", "DequantizeLinear")
def quantize(d, name, version):
    s, t = d.full(1, 4), codes(d, version)
    axis, a, shape = d.axis(len(s)), {}, ()
    if version >= 13 and d.chance(0.5):
        shape, a = (s[axis],), {"axis": axis}
    if version >= 21 and d.chance(0.4):
        block = d.one(*[k for k in range(1, s[axis] + 1) if s[axis] % k == 0])
        shape = tuple(n // block if i == axis % len(s) else n for i, n in enumerate(s))
        a = {"axis": axis, "block_size": block}
    scale = d.array(shape, np.float32, 0.05, 0.5)
    lo, hi = (-8, 7) if t == ml_dtypes.int4 else (0, 15) if t == ml_dtypes.uint4 else (0 if np.dtype(t).kind == "u" else -100, 100)
    zero = d.rng.integers(max(lo, -5), 5, shape).astype(t) if d.chance(0.7) else None
    if name == "QuantizeLinear":
        if zero is None and t != np.uint8:
            zero = np.zeros(shape, t)
        return Node([d.array(s, np.float32, -9, 9), scale, zero], a, fixed=(1, 2))
    x = d.rng.integers(lo, hi + 1, s).astype(t)
    if t in (np.int8, np.uint8) and d.chance(0.15):
        x, zero = d.array(s, np.int32, -1000, 1000), None
    return Node([x, scale, zero], a, fixed=(1, 2))


@family("DynamicQuantizeLinear")
def dynamic_quantize(d, name, version):
    return Node([d.array(d.full(0, 3), np.float32, d.one(-3.0, 0.5), d.one(4.0, -0.2, 1.0) if d.chance(0.3) else 4.0)], {}, 3)


@family("QLinearMatMul")
def qlinear_matmul(d, name, version):
    m, k, n = d.int(1, 6), d.int(1, 9), d.int(1, 6)
    t, u, o = d.one(np.int8, np.uint8), d.one(np.int8, np.uint8), d.one(np.int8, np.uint8)
    lead, wide = d.full(0, 1), d.chance(0.3)
    def f():
        return np.float32(d.rng.uniform(0.01, 0.1))
    return Node([d.array((*lead, m, k), t, -50, 100), np.array(f()), d.array((), t, 0, 9), d.array((k, n), u, -50, 100),
                 d.array((n,), np.float32, 0.01, 0.1) if wide else np.array(f()), d.array((n,) if wide else (), u, 0, 9),
                 np.array(np.float32(0.3)), d.array((), o, 0, 9)], {}, fixed=(1, 2, 3, 4, 5, 6, 7))


@family("QLinearConv")
def qlinear_conv(d, name, version):
    g, size = d.one(1, 1, 2), [d.int(3, 6), d.int(3, 6)]
    k, a = window(d, True, size, version)
    c, o, wide = g * d.int(1, 3), g * d.int(1, 3), d.chance(0.5)
    t, u = d.one(np.int8, np.uint8), d.one(np.int8, np.uint8)
    w = (o,) if wide else ()
    return Node([d.array((1, c, *size), t, -50, 100), np.array(np.float32(0.03)), d.array((), t, 0, 9), d.array((o, c // g, *k), u, -50, 100),
                 d.array(w, np.float32, 0.01, 0.05), d.array(w, u, 0, 0 if wide else 9), np.array(np.float32(0.11)), d.array((), t, 0, 9),
                 d.array((o,), np.int32, -500, 500) if d.chance(0.5) else None], {**a, "group": g}, fixed=(1, 2, 3, 4, 5, 6, 7, 8))


# ---- signals, strings, sequences ---------------------------------------------------------------

@family("HannWindow", "HammingWindow", "BlackmanWindow")
def window_values(d, name, version):
    return Node([np.array(d.int(2, 20), np.int64)], maybe(d, {"periodic": d.int(0, 1), "output_datatype": d.one(1, 11)}), fixed=(0,))


@family("DFT")
def dft(d, name, version):
    s, real = d.full(2, 3), d.chance(0.5)
    x = d.array((*s, 1 if real else 2), d.one(np.float32, np.float64))
    axis = d.int(1, len(s) - 1) if version < 20 else d.int(-len(s), len(s) - 1)
    axis = axis - 1 if axis < 0 and axis == -1 else axis
    a = {"onesided": 1} if real and d.chance(0.4) else {"inverse": 1} if not real and d.chance(0.5) else {}
    n = np.array(d.one(d.int(1, 9), d.int(10, 64)), np.int64) if d.chance(0.5) else None
    if version < 20:
        return Node([x, n], {**a, "axis": axis}, fixed=(1,))
    return Node([x, n, np.array(axis if axis != -1 else 0, np.int64)], a, fixed=(1, 2))


@family("STFT")
def stft(d, name, version):
    n, f, step = d.int(12, 30), d.int(2, 8), d.int(1, 4)
    return Node([d.array((d.int(1, 2), n, 1)), np.array(step, np.int64), d.array((f,)) if d.chance(0.5) else None, np.array(f, np.int64)],
                maybe(d, {"onesided": d.int(0, 1)}), fixed=(1, 3))


@family("MelWeightMatrix")
def mel(d, name, version):
    return Node([np.array(d.int(2, 8), np.int64), np.array(d.one(16, 32), np.int64), np.array(8192, np.int64), np.array(0.0, np.float32),
                 np.array(4096.0, np.float32)], fixed=(0, 1, 2, 3, 4))


@family("StringConcat")
def string_concat(d, name, version):
    s = d.shape(0, 3)
    return Node([d.array(s, object), d.array(d.partner(s), object)], fixed=(1,))


@family("StringSplit")
def string_split(d, name, version):
    return Node([d.array(d.full(1, 2), object)], maybe(d, {"delimiter": d.one(" ", "a", ""), "maxsplit": d.int(1, 2)}), 2)


@family("RegexFullMatch")
def regex(d, name, version):
    return Node([d.array(d.shape(0, 2), object)], {"pattern": d.one("a.*", "[a-z]+", r"\d", "(ab|a)?", "[^0-9]*")})


@family("StringNormalizer")
def string_normalizer(d, name, version):
    return Node([d.array((d.int(1, 5),), object)], maybe(d, {"case_change_action": d.one("UPPER", "LOWER", "NONE"), "is_case_sensitive": d.int(0, 1), "stopwords": ["a", "dog"]}))


@family("SequenceConstruct")
def sequence_construct(d, name, version):
    t = d.one(*NUMBERS)
    return Node([d.array(d.full(1, 2), t) for _ in range(d.int(1, 3))])


@family("SequenceAt", "SequenceErase", "SequenceLength", "SequenceInsert", "ConcatFromSequence")
def sequence(d, name, version):
    s, t, n = d.full(1, 3), d.one(np.float32, np.int64), d.int(1, 3)
    items = [d.array(s, t) for _ in range(n)]
    at = np.array(d.int(-n, n - 1), d.one(np.int32, np.int64))
    if name == "SequenceLength":
        return Node([items])
    if name == "ConcatFromSequence":
        new = d.int(0, 1)
        return Node([items], {"axis": d.int(-len(s) - new, len(s) - 1 + new), "new_axis": new})
    if name == "SequenceInsert":
        return Node([items, d.array(s, t), at if d.chance(0.6) else None])
    return Node([items, at if name == "SequenceAt" or d.chance(0.6) else None])


@family("SplitToSequence")
def split_to_sequence(d, name, version):
    s = list(d.full(1, 3))
    axis = d.axis(len(s))
    parts = [d.int(1, 3) for _ in range(d.int(1, 3))]
    s[axis] = sum(parts)
    by = d.one(None, vector(parts), np.array(d.int(1, 3), np.int64))
    return Node([d.array(s, np.float32), by], {"axis": axis, **maybe(d, {"keepdims": d.int(0, 1)})}, fixed=(1,))


# ---- operators of the newest opsets ---------------------------------------------------------------

@family("DeformConv")
def deform_conv(d, name, version):
    n, g, o, h, w = d.int(1, 2), d.one(1, 1, 2), d.one(1, 1, 2), d.int(3, 6), d.int(3, 6)
    k, p, s = d.int(1, 3), d.int(0, 1), d.int(1, 2)
    c, m, t = g * o * d.int(1, 2), g * d.int(1, 2), d.one(np.float32, np.float64)
    oh, ow = ((x + 2 * p - k) // s + 1 for x in (h, w))
    mask = d.array((n, o * k * k, oh, ow), t, 0, 1) if d.chance(0.5) else None
    return Node([d.array((n, c, h, w), t), d.array((m, c // g, k, k), t), d.array((n, 2 * o * k * k, oh, ow), t, -2, 2),
                 d.array((m,), t) if mask is not None or d.chance(0.5) else None, mask],
                {"kernel_shape": [k, k], "pads": [p] * 4, "strides": [s, s], "group": g, "offset_group": o}, fixed=(1, 3))


@family("SwiGLU")
def swiglu(d, name, version):
    s, t = d.shape(0, 3), d.one(*FLOATS)
    return Node([d.array(s, t), d.array(s, t)], maybe(d, {"alpha": d.one(0.5, 1.5)}))


@family("CausalConvWithState")
def causal_conv(d, name, version):
    n, c, length, k, t = d.int(1, 3), d.int(1, 5), d.int(1, 9), d.int(1, 5), d.one(np.float32, np.float32, np.float16)
    return Node([d.array((n, c, length), t), d.array((c, 1, k), t), d.array((c,), t) if d.chance(0.5) else None,
                 d.array((n, c, k - 1), t) if k > 1 and d.chance(0.5) else None],
                maybe(d, {"activation": d.one("silu", "swish", "none")}), 2, fixed=(1, 2))


@family("LinearAttention")
def linear_attention(d, name, version):
    n, length, kv, q, size, t = d.int(1, 2), d.int(1, 6), d.int(1, 3), d.int(1, 2), d.int(1, 9), np.float32
    rule = d.one("linear", "gated", "delta", "gated_delta")
    narrow = lambda heads: d.array((n, length, heads * size), t, -1, 1)
    decay = d.array((n, length, kv * d.one(1, size)), t, -1, 0) if "gated" in rule else None
    beta = d.array((n, length, d.one(1, kv)), t, 0, 1) if "delta" in rule else None
    past = d.array((n, kv, size, size), t, -1, 1) if d.chance(0.5) else None
    return Node([narrow(kv * q), narrow(kv), narrow(kv), past, decay, beta],
                {"q_num_heads": kv * q, "kv_num_heads": kv, "update_rule": rule, **maybe(d, {"scale": 0.3})}, 2)
