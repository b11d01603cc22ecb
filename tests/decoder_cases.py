#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Cases of contributed operators of newer decoders, of packed sequences and of small things that fusions leave
(contrib_cases.py makes them). Judged by numpy where onnxruntime has an operator for GPUs only."""
import math

import ml_dtypes
import numpy as np

cases = []


def case(function):
    cases.append(function)
    return function


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def softplus(x):
    return np.log1p(np.exp(-np.abs(x))) + np.maximum(x, 0)


def rms(x, scale, epsilon=1e-5):
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + epsilon) * scale


def gelu_tanh(x):
    return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x ** 3)))


# ---- states -----------------------------------------------------------------------------------

def recurrence(q, k, v, state, decay, beta, rule, scale):
    """q [T,hq,d], k [T,hk,d], v [T,hk,e], decay [T,hk,d or 1], beta [T,hk,1], state [hk,d,e]: outputs and all states."""
    heads = max(q.shape[1], k.shape[1])
    outs, states = [], []
    for t in range(len(q)):
        if rule.startswith("gated"):
            state = state * np.exp(decay[t])[:, :, None]
        add = v[t]
        if rule.endswith("delta"):
            add = beta[t] * (add - np.einsum("hd,hde->he", k[t], state))
        state = state + k[t][:, :, None] * add[:, None, :]
        outs.append(np.stack([scale * q[t, h * q.shape[1] // heads] @ state[h * len(state) // heads] for h in range(heads)]))
        states.append(state)
    return np.stack(outs), states


def recurrences(operands, hq, hk, rule, window=0):
    q, k, v, past, decay, beta = operands
    batch, steps = q.shape[:2]
    split = lambda x, n: x.reshape(batch, steps, n, -1)
    q, k, v = split(q, hq), split(k, hk), split(v, hk)
    start = np.zeros((batch, hk, k.shape[-1], v.shape[-1])) if past is None else past[-1] if window else past
    decay = np.zeros((batch, steps, hk, 1)) if decay is None else split(decay, hk)
    beta = np.ones((batch, steps, hk, 1)) if beta is None else np.broadcast_to(split(beta, beta.shape[-1]), (batch, steps, hk, 1))
    outs, ends = [], []
    for b in range(batch):
        y, states = recurrence(q[b], k[b], v[b], start[b], decay[b], beta[b], rule, 1 / math.sqrt(q.shape[-1]))
        outs.append(y.reshape(steps, -1))
        none = np.zeros_like(states[0])
        ends.append(np.stack([states[i] if i >= 0 else none for i in range(steps - window, steps)]) if window else states[-1])
    return [np.stack(outs).astype(np.float32), np.stack(ends, axis=1 if window else 0).astype(np.float32)]


@case
def linear_attention(m):
    b, steps, d, e = 2, 5, 4, 6
    def operands(hq, hk, each=False, past=(), shared=False):
        k = m.f(b, steps, hk, d)
        k /= np.linalg.norm(k, axis=-1, keepdims=True)
        return [m.f(b, steps, hq * d), k.reshape(b, steps, hk * d), m.f(b, steps, hk * e),
                m.f(*past, b, hk, d, e) if past is not None else None,
                -np.abs(m.f(b, steps, hk * (d if each else 1))), sigmoid(m.f(b, steps, 1 if shared else hk)).astype(np.float32)]
    for rule in "linear", "gated", "delta", "gated_delta":
        x = operands(4, 2, each=rule == "gated", shared=rule == "delta")
        x[4] = x[4] if rule.startswith("gated") else None
        x[5] = x[5] if rule.endswith("delta") else None
        yield f"linear_attention_{rule}", "LinearAttention", x, {"q_num_heads": 4, "kv_num_heads": 2, "update_rule": rule}, {
            "results": [1, 1], "want": recurrences(x, 4, 2, rule)}
    x = operands(2, 4, past=None)
    yield "linear_attention_more_keys", "LinearAttention", x, {"q_num_heads": 2, "kv_num_heads": 4}, {
        "results": [1, 1], "want": recurrences([x[0], *x[1:]], 2, 4, "gated_delta")}
    for window in 3, 7:  # shorter and longer than the call
        x = operands(2, 2, past=(window,))
        yield f"linear_attention_window_{window}", "LinearAttention", x, {
            "q_num_heads": 2, "kv_num_heads": 2, "state_window": window}, {
                "results": [1, 1], "want": recurrences(x, 2, 2, "gated_delta", window)}


def causal(x, w, bias, past, dilation=1, window=0, silu=False):
    before = (w.shape[2] - 1) * dilation
    start = np.zeros((*x.shape[:2], before)) if past is None else past[-1] if window else past
    full = np.concatenate([start, x], 2)
    y = sum(w[:, 0, r, None] * full[:, :, r * dilation:r * dilation + x.shape[2]] for r in range(w.shape[2]))
    y = y + (0 if bias is None else bias[:, None])
    y = y * sigmoid(y) if silu else y
    none, count = np.zeros_like(start), x.shape[2]
    last = [full[:, :, n:n + before] if n > 0 else none for n in range(count - window + 1, count + 1)]
    return [y.astype(np.float32), (np.stack(last) if window else full[:, :, count:count + before]).astype(np.float32)]


@case
def causal_conv(m):
    b, c, n, taps = 2, 3, 6, 4
    x, w, bias = m.f(b, c, n), m.f(c, 1, taps), m.f(c)
    past = m.f(b, c, taps - 1)
    yield "causal_conv", "CausalConvWithState", [x, w, bias, past], {"activation": "silu"}, {
        "results": [1, 1], "want": causal(x, w, bias, past, silu=True)}
    wide = m.f(b, c, 2 * (taps - 1))
    yield "causal_conv_dilation", "CausalConvWithState", [x, w, bias, wide], {"dilation": 2}, {
        "results": [1, 1], "want": causal(x, w, bias, wide, 2)}
    yield "causal_conv_plain", "CausalConvWithState", [x, w], {}, {"results": [1, 1], "want": causal(x, w, None, None)}
    for window in 2, 8:
        slots = m.f(window, b, c, taps - 1)
        yield f"causal_conv_window_{window}", "CausalConvWithState", [x, w, bias, slots], {"state_window": window}, {
            "results": [1, 1], "want": causal(x, w, bias, slots, window=window)}
    y, state = causal(x, w, bias, past, silu=True)
    turn = lambda v: np.ascontiguousarray(v.swapaxes(-1, -2))
    yield "causal_conv_last", "CausalConvWithState", [turn(x), w, bias, turn(past)], {"activation": "swish", "channels_last": 1}, {
        "results": [1, 1], "want": [turn(y), turn(state)]}
    x, w, slots = m.f(b, 6, n), m.f(6, 1, taps), m.f(2, b, 6, taps - 1)
    y, state = causal(x, w, None, slots, window=2)
    grid = lambda v: turn(v).reshape(*v.shape[:-2], v.shape[-1], 2, 3)
    yield "causal_conv_last_axes", "CausalConvWithState", [grid(x), w, None, grid(slots)], {
        "channels_last": 1, "state_window": 2}, {"results": [1, 1], "want": [grid(y), grid(state)]}


@case
def gated_delta_net(m):
    b, steps, hq, hv, d, e = 2, 5, 2, 4, 4, 6
    q, k, v, state = m.f(b, steps, hq, d), m.f(b, steps, hq, d), m.f(b, steps, hv, e), m.f(b, hv, e, d)
    raw, rate, a_log, bias = m.f(b, steps, hv), m.f(b, steps, hv), m.f(hv), m.f(hv)
    unit = lambda x: x / np.sqrt((x * x).sum(-1, keepdims=True) + 1e-6)
    flat = lambda x: x.reshape(b, steps, -1)
    def want(q, k, decay, beta):
        q, k = np.repeat(q, hv // hq, 2), np.repeat(k, hv // hq, 2)
        y, last = recurrences([flat(q), flat(k), flat(v), state.transpose(0, 1, 3, 2), flat(decay), flat(beta)], hv, hv, "gated_delta")
        return [y.reshape(b, steps, hv, e), last.transpose(0, 1, 3, 2).copy()]
    decay, beta = -np.abs(raw), sigmoid(rate).astype(np.float32)
    y, last = want(unit(q), unit(k), decay, beta)
    yield "gated_delta_net", "GatedDeltaNet", [unit(q), unit(k), v, None, decay, beta, state], {}, {
        "results": [1, 1], "want": [y, last]}
    tokens = lambda x: x.reshape(b * steps, *x.shape[2:])
    y, last = want(unit(q), unit(k), -np.exp(a_log) * softplus(raw + bias), beta)
    packed = np.concatenate([flat(q), flat(k), flat(v)], -1)
    yield "gated_delta_net_packed", "GatedDeltaNet", [
        tokens(packed), None, None, None, tokens(raw), tokens(rate), state, a_log, bias], {
            "gate_activation": "qwen", "beta_activation": "sigmoid", "qk_l2_norm": 1}, {
                "results": [1, 1], "want": [tokens(y), last]}


# ---- gates, streams ---------------------------------------------------------------------------

@case
def gates(m):
    x, z, scale = m.f(2, 3, 12), m.f(2, 3, 12), m.f(4)
    normed = rms(x.reshape(2, 3, 3, 4), scale, 1e-6).reshape(x.shape)
    for name, gate in ("silu", z * sigmoid(z)), ("sigmoid", sigmoid(z)):
        yield f"gated_rms_norm_{name}", "GatedRMSNorm", [x, scale, z], {"activation": name, "epsilon": 1e-6}, {
            "want": [(normed * gate).astype(np.float32)]}
    g = m.f(2, 3, 1)
    yield "gated_add", "GatedAdd", [x, z, g], {}, {"want": [x + z * g]}
    yield "scaled_silu", "ScaledSiLU", [x], {"alpha": 1.5}, {"want": [(1.5 * x * sigmoid(1.5 * x)).astype(np.float32)]}
    yield "scaled_silu_operand", "ScaledSiLU", [x, np.float32(0.5)], {}, {"want": [(0.5 * x * sigmoid(0.5 * x)).astype(np.float32)]}
    a, bias, rate, b = m.f(2, 3, 4), m.f(4), -np.abs(m.f(4)), m.f(2, 3, 4)
    yield "linear_attention_gate", "LinearAttentionGate", [a, bias, rate, b], {}, {
        "results": [1, 1], "want": [(rate * softplus(a + bias)).astype(np.float32), sigmoid(b).astype(np.float32)]}
    key, query, value, scales = m.f(2, 3, 4, 8), m.f(2, 3, 4, 8), m.f(2, 3, 8), [m.f(4, 8) for _ in range(3)]
    dot = (rms(key, scales[0]) * rms(query, scales[1])).sum(-1, keepdims=True) / math.sqrt(8)
    gated = sigmoid(np.sign(dot) * np.sqrt(np.maximum(np.abs(dot), 1e-6))) * value[:, :, None]
    yield "engram_gate", "EngramGate", [key, query, value, *scales], {}, {
        "results": [1, 1], "want": [gated.astype(np.float32), rms(gated, scales[2]).astype(np.float32)]}


@case
def streams(m):
    x, h = m.f(2, 3, 4, 8), m.f(2, 3, 8)
    flat = x.reshape(2, 3, 32)
    for name, g in ("", m.f(2, 3, 4)), ("_one", m.f(2, 3, 4, 1)), ("_each", m.f(2, 3, 4, 8)):
        wide = g[..., None] if g.ndim == 3 else g
        yield f"hyper_pre_mix{name}", "HyperConnectionPreMix", [x, g], {"reduction_scale": 0.5}, {
            "want": [(0.5 * (x * wide).sum(2)).astype(np.float32)]}
        yield f"hyper_post_mix{name}", "HyperConnectionPostMix", [x, h, g], {}, {"want": [x + wide * h[:, :, None]]}
    g, mix = m.f(2, 3, 32), m.f(2, 3, 4, 4)
    yield "hyper_pre_mix_flat", "HyperConnectionPreMix", [flat, g], {"num_branches": 4}, {
        "want": [(flat * g).reshape(x.shape).sum(2)]}
    wanted = np.einsum("bsck,bsch->bskh", mix, x) + g[:, :, :4, None] * h[:, :, None]
    yield "hyper_post_mix_flat", "HyperConnectionPostMix", [flat, h, g[:, :, :4].copy(), mix], {"num_branches": 4}, {
        "want": [wanted.reshape(flat.shape).astype(np.float32)]}
    for name, scale in ("", m.f(4, 8)), ("_flat", m.f(32)), ("_shared", m.f(8)):
        wanted = rms(x, scale.reshape(-1, 8)).astype(np.float32)
        yield f"branchwise_rms_norm{name}", "BranchwiseRMSNorm", [x, scale], {}, {"want": [wanted]}
        yield f"branchwise_rms_norm{name}_branches", "BranchwiseRMSNorm", [flat, scale], {"num_branches": 4}, {
            "want": [wanted.reshape(flat.shape)]}


# ---- attention --------------------------------------------------------------------------------

@case
def packed_heads(m):
    lengths, steps = [2, 1, 4], 4
    places = [4 * s + i for s, n in enumerate(lengths) for i in range(n)]
    offset = np.array(places + [p for p in range(12) if p not in places], np.int32).reshape(3, steps)
    ends = np.array([0, 2, 3, 7], np.int32)
    q, k, v, bias = m.f(7, 8), m.f(7, 8), m.f(7, 12), m.f(28)
    def want(q, k, v, size):
        out = []
        for a, e in zip(ends[:-1], ends[1:]):
            by_head = lambda x: x[a:e].reshape(e - a, 2, -1).swapaxes(0, 1)
            p = np.exp(by_head(q) @ by_head(k).swapaxes(1, 2) / math.sqrt(size))
            out.append((p / p.sum(-1, keepdims=True) @ by_head(v)).swapaxes(0, 1).reshape(e - a, -1))
        return [np.concatenate(out).astype(np.float32)]
    yield "packed_multi_head", "PackedMultiHeadAttention", [q, k, v, bias, offset, ends], {"num_heads": 2}, {
        "want": want(q + bias[:8], k + bias[8:16], v + bias[16:], 4)}
    x = m.f(7, 2, 3, 4)
    yield "packed_multi_head_one", "PackedMultiHeadAttention", [x, None, None, None, offset, ends], {"num_heads": 2}, {
        "want": want(*[x[:, :, i].reshape(7, 8) for i in range(3)], 4)}


@case
def multi_rotary(m):
    cos, sin, place = m.f(9, 6), m.f(9, 6), m.i(0, 9, 3, 2, 5)
    def rows(cache, layout, section):
        turn = [i % 3 if i < 3 * section[i % 3] else 0 for i in range(6)] if layout else np.repeat(range(3), section)
        return np.stack([cache[place[t]][..., i] for i, t in enumerate(turn)], -1)[:, None]
    for layout, section in (0, [2, 3, 1]), (1, [3, 2, 1]):
        x = m.f(2, 3, 5, 12)
        c, s = rows(cos, layout, section), rows(sin, layout, section)
        left, right = x[..., :6], x[..., 6:]
        wanted = np.concatenate([left * c - right * s, right * c + left * s], -1).astype(np.float32)
        how = {"mrope_section": section, "mrope_layout": layout}
        yield f"multi_rotary_{layout}", "MRotaryEmbedding", [x, place, cos, sin], how, {"want": [wanted]}
        flat = lambda v: np.ascontiguousarray(v.swapaxes(1, 2)).reshape(2, 5, 36)
        yield f"multi_rotary_flat_{layout}", "MRotaryEmbedding", [flat(x), place, cos, sin], {"num_heads": 3, **how}, {
            "want": [flat(wanted)]}


@case
def coded_caches(m):
    """Keys and values of few bits; onnxruntime is the judge."""
    each = (np.abs(m.f(1, 2, 1, 16, scale=0.02)) + 0.01).astype(np.float32)
    for steps, batch in (1, 2), (3, 1):
        x = [m.f(batch, steps, 64), m.f(batch, steps, 32), m.f(batch, steps, 32)]
        size = [np.full(batch, 5 + steps, np.int32), np.array(6 + steps, np.int32), *[None] * 5]
        for name, t, last, kind, scale in ("bytes", np.int8, 16, "PER_TENSOR", np.array([0.02], np.float32)), (
                "bytes_each", np.int8, 16, "PER_CHANNEL", each), ("nibbles", np.uint8, 8, "PER_TENSOR", np.array([0.3], np.float32)):
            past = [m.i(0 if t == np.uint8 else -100, 100, batch, 2, 6, last, t=t) for _ in range(2)]
            yield f"group_query_{name}_{steps}", "GroupQueryAttention", [*x, *past, *size, scale, scale], {
                "num_heads": 4, "kv_num_heads": 2, "k_quant_type": kind, "v_quant_type": kind,
                "kv_cache_bit_width": 4 if t == np.uint8 else 8}, {"results": [1, 1, 1], "constant": [6]}


# ---- products ---------------------------------------------------------------------------------

@case
def quantized_windows(m):
    x, w = m.i(0, 256, 1, 6, 5, 4, t=np.uint8), m.i(-90, 90, 8, 2, 3, 3, t=np.int8)
    sizes = [np.float32(0.02), np.uint8(120)], [np.abs(m.f(8, scale=0.02)) + np.float32(0.01), np.zeros(8, np.int8)], [
        np.float32(0.05), np.uint8(110)]
    for last in 1, 0:
        yield f"qlinear_conv_{'last' if last else 'first'}", "QLinearConv", [
            x if last else np.ascontiguousarray(x.transpose(0, 3, 1, 2)), *sizes[0], w, *sizes[1], *sizes[2], m.i(-99, 99, 8, t=np.int32)], {
                "channels_last": last, "group": 2, "pads": [1, 1, 1, 1], "strides": [2, 1]}, {"constant": [1, 2, 3, 4, 5, 6, 7, 8]}


@case
def fused_nbits(m):
    k, rows = 64, (16, 8, 8)
    x, skip, scale = m.f(2, 3, k), m.f(2, 3, k), m.f(k)
    codes = [m.i(0, 256, n, k // 32, 16, t=np.uint8) for n in rows]
    steps = [np.abs(m.f(n, k // 32, scale=0.1)) for n in rows]
    bias = [m.f(n) for n in rows]
    def product(x, i):
        q = np.stack([codes[i] & 15, codes[i] >> 4], -1).reshape(rows[i], -1, 32).astype(np.float32) - 8
        return x @ (q * steps[i][..., None]).reshape(rows[i], k).T + bias[i]
    how = {"K": k, "bits": 4, "block_size": 32, "epsilon": 1e-6}
    total = x + skip
    normed = rms(total, scale, 1e-6)
    parts = [v for i in range(3) for v in (codes[i], steps[i], bias[i])]
    weights = {"constant": list(range(3, 12))}
    yield "matmul_nbits_qkv", "MatMulNBitsQkv", [x, skip, scale, *parts], {"Nq": 16, "Nkv": 8, **how}, {
        **weights, "results": [1, 1, 1, 1], "want": [*[product(normed, i).astype(np.float32) for i in range(3)], total]}
    for name, s, g, to in ("", None, None, x), ("_normed", None, scale, rms(x, scale, 1e-6)), ("_skip", skip, scale, normed):
        gate, up = product(to, 1), product(to, 2)
        yield f"matmul_nbits_mlp{name}", "MatMulNBitsMlp", [x, s, g, *parts[3:]], {"N": 8, "activation": "silu", **how}, {
            "constant": list(range(3, 9)), "want": [(gate * sigmoid(gate) * up).astype(np.float32)]}


@case
def block_floats(m):
    x, bias = m.f(3, 48, t=np.float16), m.f(8, t=np.float16)
    w, step = m.f(8, 48).astype(ml_dtypes.float8_e4m3fn), np.abs(m.f(8, 3)) + np.float32(0.1)
    real = w.astype(np.float32) * np.repeat(step, 16, 1)
    for name, a in ("", None), ("_both", np.array(0.05, np.float32)):
        left = x.astype(np.float32)
        left = left if a is None else (left / a).astype(ml_dtypes.float8_e4m3fn).astype(np.float32) * a
        yield f"matmul_block_fp8{name}", "MatMulBlockQuantizedFp8Weight", [x, w, step, a, bias], {"block_size": 16}, {
            "constant": [1, 2], "want": [(left @ real.T + bias).astype(np.float16)]}
    codes = m.i(0, 16, 8, 48)
    values = codes.astype(np.uint8).view(np.uint8)
    table = np.array([0, .5, 1, 1.5, 2, 3, 4, 6], np.float32)
    real = np.where(values & 8, -1, 1) * table[values & 7]
    steps = (np.abs(m.f(8, 3)) + 0.1).astype(ml_dtypes.float8_e4m3fn)
    real = real * np.repeat(steps.astype(np.float32), 16, 1) * 0.5
    packed = (values[:, ::2] | values[:, 1::2] << 4).astype(np.uint8)
    yield "matmul_block_fp4", "MatMulBlockQuantizedFp4Weight", [x, packed, steps.view(np.uint8), np.array(0.5, np.float32), None, bias], {}, {
        "constant": [1, 2, 3], "want": [(x.astype(np.float32) @ real.T + bias).astype(np.float16)]}


# ---- small things -----------------------------------------------------------------------------

@case
def integers(m):
    a, b = m.i(0, 256, 3, 4, t=np.uint8), m.i(0, 256, 4, t=np.uint8)
    wanted = (a.astype(np.int32) - 7) * (b.astype(np.int32) - 200)
    yield "mul_integer", "MulInteger", [a, np.uint8(7), b, np.uint8(200)], {}, {"want": [wanted]}
    a, b = m.i(-999, 999, 2, 3, 5, t=np.int16), m.i(-999, 999, 5, 4, t=np.int16)
    yield "matmul_integer16", "MatMulInteger16", [a, b], {}, {"want": [a.astype(np.int32) @ b.astype(np.int32)]}
    x = m.i(-128, 128, 2, 3, 4, t=np.int8)
    yield "reduce_sum_integer", "ReduceSumInteger", [x], {"axes": [0, -1], "keepdims": 0}, {
        "want": [x.astype(np.int32).sum((0, 2), dtype=np.int32)]}
    bad = np.array([1, np.inf, 2], np.float32)
    yield "is_all_finite", "IsAllFinite", [m.f(2, 3), m.f(4)], {}, {"want": [np.array(True)]}
    yield "is_all_finite_not", "IsAllFinite", [m.f(2, 3), bad], {}, {"want": [np.array(False)]}
    yield "is_all_finite_nan", "IsAllFinite", [bad], {"isnan_only": 1}, {"want": [np.array(True)]}


@case
def products(m):
    x, w, b = m.f(2, 3, 5), m.f(5, 4), m.f(4)
    yield "gemm_fast_gelu", "GemmFastGelu", [x, w, b], {}, {"want": [gelu_tanh(x @ w + b).astype(np.float32)]}
    right = m.f(2, 4, 5)
    yield "fused_matmul_activation", "FusedMatMulActivation", [x, right], {
        "activation": "Relu", "transB": 1, "alpha": 0.5}, {"want": [np.maximum(0.5 * x @ right.swapaxes(1, 2), 0).astype(np.float32)]}
    a, b = m.f(3, 4, 2), m.f(3, 4, 2)
    for name, to in ("ComplexMul", 1), ("ComplexMulConj", -1):
        y = (a[..., 0] + 1j * a[..., 1]) * (b[..., 0] + to * 1j * b[..., 1])
        yield f"complex_{name[7:].lower()}", name, [a, b], {}, {"want": [np.stack([y.real, y.imag], -1).astype(np.float32)]}
    emb, parts = m.f(2, 3, 8), [m.f(2, 4, 3, 8, t=np.float16) for _ in range(4)]
    c, s = (f(emb)[:, None].astype(np.float16).astype(np.float32) for f in (np.cos, np.sin))
    yield "gemma_rotary", "GemmaRotaryEmbedding", [emb, *parts], {}, {
        "want": [(parts[k] * c + parts[k + 1] * s).astype(np.float16) for k in (0, 2)]}
    bias, more = m.f(5), m.f(2, 3, 5)
    for name in "BiasDropout", "BitmaskBiasDropout":
        yield name.lower(), name, [x, bias, more, np.float32(0.3)], {}, {"want": [x + bias + more]}
    yield "bitmask_dropout", "BitmaskDropout", [x, np.float32(0.2)], {}, {"want": [x]}


@case
def guesses(m):
    more = {"results": [1, 1]}
    for k, (least, most) in enumerate(((1, 3), (2, 4), (1, 1), (1, 3), (3, 3))):
        text, ids = m.i(0, 3, 9 - k), m.i(0, 3, 2 * k)
        guess = np.append(text[k:], m.i(0, 3, 1))
        guess[-2:] = m.i(0, 3, 2)
        grams = {"min_ngram_size": least, "max_ngram_size": most}
        yield f"bifurcation_{k}", "BifurcationDetector", [text, ids, np.int64(k), guess], grams, more
        yield f"bifurcation_start_{k}", "BifurcationDetector", [text, ids[:k], np.int64(0)], grams, more
    yield "time_warping", "DynamicTimeWarping", [m.f(5, 9)], {}, {"sizes": [[m.f(1, 4)], [m.f(20, 3)], [m.f(7, 7).round()]]}
    yield "time_warping_batch", "DynamicTimeWarping", [m.f(1, 6, 30)], {}, {}


@case
def sequences(m):
    count = np.array([2, 0, 4], np.int32)
    x = m.f(3, 4, 5)
    seen = np.arange(4) < count[:, None]
    flat = np.arange(12, dtype=np.int32)
    offset = np.concatenate([flat[seen.ravel()], flat[~seen.ravel()]]).reshape(3, 4)
    yield "remove_padding", "RemovePadding", [x, count], {}, {"results": [1, 1, 1, 1], "want": [
        x[seen], offset, np.array([0, 2, 2, 6], np.int32), np.array([4], np.int32)]}
    back = np.where(seen[..., None], x, 0).astype(np.float32)
    yield "restore_padding", "RestorePadding", [x[seen], offset], {}, {"want": [back]}
    ids = np.array([[1, 2, 3, 1, 2, 4, 1, 2], [0, 0, 0, 0, 0, 0, 0, 0]])
    for n in 1, 2, 3, 9:
        yield f"ngram_repeat_{n}", "NGramRepeatBlock", [ids, m.f(2, 6)], {"ngram_size": n}, {}
    data = m.f(3, 4, 5)
    yield "gather_nd", "GatherND", [data, m.i(0, 3, 2, 2, t=np.int32)], {}, {}
    table, rows = m.f(7, 3), m.i(0, 7, 2, 4)
    yield "torch_embedding", "TorchEmbedding", [table, rows], {}, {"want": [table[rows]]}
    for axis, size, step in (1, 2, 1), (-1, 3, 2), (0, 3, 1):
        wanted = np.lib.stride_tricks.sliding_window_view(data, size, axis)
        wanted = np.take(wanted, range(0, wanted.shape[axis % 3], step), axis % 3)
        yield f"unfold_{axis % 3}", "UnfoldTensor", [data], {"dim": axis, "size": size, "step": step}, {"want": [wanted.copy()]}
    for name in "MemcpyFromHost", "MemcpyToHost":
        yield name.lower(), name, [data], {}, {"want": [data], "domain": ""}
