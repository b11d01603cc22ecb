# SPDX-License-Identifier: Apache-2.0
"""Cases of contributed operators that few models carry (contrib_cases.py makes them). Judged by numpy where onnxruntime
has an operator for GPUs only, or computes sequences of several lengths wrongly."""
import itertools
import math

import numpy as np
import onnxruntime
from onnx import TensorProto, helper

from decoder_cases import rms, sigmoid

cases = []


def case(function):
    cases.append(function)
    return function


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def by_heads(x, heads):
    return x.reshape(*x.shape[:2], heads, -1).transpose(0, 2, 1, 3)


def attended(q, k, v, bias=0, scale=None):
    """q, k, v [batch, head, step, size]: [batch, step, head * size]."""
    k, v = (np.repeat(x, q.shape[1] // x.shape[1], 1) for x in (k, v))
    y = softmax(q @ k.swapaxes(-1, -2) * (scale or 1 / math.sqrt(q.shape[-1])) + bias) @ v
    return y.transpose(0, 2, 1, 3).reshape(q.shape[0], q.shape[2], -1).astype(np.float32)


# ---- SparseAttention --------------------------------------------------------------------------

def in_place(op, operands, attributes, same):
    """onnxruntime's results, those of `same` being the buffers of operands: {result: operand}."""
    names = ["" if a is None else f"x{i}" for i, a in enumerate(operands)]
    ins = [helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
           for n, a in zip(names, operands) if n]
    outs = [helper.make_tensor_value_info(f"y{i}", TensorProto.FLOAT, None) for i in range(3)]
    node = helper.make_node(op, names, ["y0", "y1", "y2"], domain="com.microsoft", **attributes)
    model = helper.make_model(helper.make_graph([node], op, ins, outs), ir_version=8,
                              opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)])
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    binding, held = session.io_binding(), {}
    for n, a in zip(names, operands):
        if n:
            held[n] = onnxruntime.OrtValue.ortvalue_from_numpy(a.copy())
            binding.bind_ortvalue_input(n, held[n])
    for i in range(3):
        binding.bind_ortvalue_output(f"y{i}", held[f"x{same[i]}"]) if i in same else binding.bind_output(f"y{i}")
    session.run_with_iobinding(binding)
    return [held[f"x{same[i]}"].numpy().copy() if i in same else binding.get_outputs()[i].numpy().copy() for i in range(3)]


def sees(row, column, size, room):
    """[layout, place of a query, place of a key]: bias 0 or -inf."""
    seen = np.zeros((len(row), room, room), bool)
    for l, r in itertools.product(range(len(row)), range(row.shape[1] - 1)):
        for c in column[l, row[l, r]:row[l, r + 1]]:
            seen[l, r * size:(r + 1) * size, c * size:(c + 1) * size] = True
    return np.where(seen & np.tri(room, dtype=bool), 0, -np.inf)


def sparse(operands, heads, kv_heads, size):
    q, k, v, past_k, past_v, row, column, _, ends = operands
    q, k, v, keys, values = by_heads(q, heads), by_heads(k, kv_heads), by_heads(v, kv_heads), past_k.copy(), past_v.copy()
    bias, outs = sees(row, column, size, keys.shape[2]), []
    for b, end in enumerate(ends):
        first = max(end - q.shape[2], 0)
        place = range(first, first + q.shape[2])
        keys[b, :, place], values[b, :, place] = k[b].swapaxes(0, 1), v[b].swapaxes(0, 1)
        own = np.stack([bias[h % len(bias), place] for h in range(heads)])
        outs.append(attended(q[b:b + 1], keys[b:b + 1], values[b:b + 1], own))
    return [np.concatenate(outs), keys, values]


@case
def sparse_attention(m):
    size, room, shape = 16, 64, {"num_heads": 4, "kv_num_heads": 1, "sparse_block_size": 16}
    row = np.array([[0, 1, 3, 5, 8], [0, 1, 3, 6, 9]], np.int32)
    column = np.array([[0, 0, 1, 1, 2, 1, 2, 3, -1], [0, 0, 1, 0, 1, 2, 0, 2, 3]], np.int32)
    cos, sin = m.f(room, 8), m.f(room, 8)
    def operands(batch, steps, ends):
        return [m.f(batch, steps, 64), m.f(batch, steps, 16), m.f(batch, steps, 16), m.f(batch, 1, room, 16), m.f(batch, 1, room, 16),
                row, column, np.array([max(ends)], np.int32), np.array(ends, np.int32)]
    def judged(x, **more):
        return {"results": [1, 1, 1], "want": in_place("SparseAttention", x, {**shape, **more}, {1: 3, 2: 4})}
    x = operands(1, 40, [40])
    yield "sparse_attention_prompt", "SparseAttention", x, shape, judged(x)
    x = operands(2, 1, [50, 50])
    yield "sparse_attention_step", "SparseAttention", x, {**shape, "scale": 0.5}, judged(x, scale=0.5)
    x = operands(1, 64, [64])
    x = [np.concatenate(x[:3], -1), None, None, *x[3:], cos, sin]
    yield "sparse_attention_packed", "SparseAttention", x, {**shape, "do_rotary": 1}, judged(x, do_rotary=1)
    x = [*operands(1, 1, [37]), cos, sin]
    turn = {"do_rotary": 1, "rotary_interleaved": 1}
    yield "sparse_attention_rotary", "SparseAttention", x, {**shape, **turn}, judged(x, **turn)
    x = operands(1, 3, [20])
    x[5:7] = row[1:], column[1:]
    yield "sparse_attention_one_layout", "SparseAttention", x, shape, judged(x)
    for name, x in ("prompt", operands(2, 24, [24, 17])), ("step", operands(2, 1, [24, 64])):
        yield f"sparse_attention_lengths_{name}", "SparseAttention", x, shape, {"results": [1, 1, 1], "want": sparse(x, 4, 1, size)}


@case
def chosen_attention(m):
    """Queries see places of the cache that operands choose; the third sees none."""
    b, steps, past, room, heads, kv_heads = 2, 3, 4, 9, 4, 2
    x = [m.f(b, steps, 32), m.f(b, steps, 16), m.f(b, steps, 16), m.f(b, kv_heads, room, 8), m.f(b, kv_heads, room, 8)]
    chosen = np.array([[0, 2, 4, -1], [1, 3, 4, 5], [-1, -1, -1, -1], [4, -1, -1, -1], [0, 5, -1, -1], [6, 2, 1, 0]], np.int32)
    counts, sink = np.array([3, 4, 0, 1, 2, 3], np.int32), m.f(heads)
    ends, total = np.array([past + steps - 1] * b, np.int32), np.array([past + steps], np.int32)
    q, k, v = by_heads(x[0], heads), by_heads(x[1], kv_heads), by_heads(x[2], kv_heads)
    keys, values = x[3].copy(), x[4].copy()
    keys[:, :, past:past + steps], values[:, :, past:past + steps] = k, v
    scores = q @ np.repeat(keys, 2, 1).swapaxes(-1, -2) / math.sqrt(8)
    seen = np.zeros((b * steps, room))
    for row, places, count in zip(seen, chosen, counts):
        row[places[:count]] = 1
    e = np.exp(scores) * seen.reshape(b, 1, steps, room)
    def want(more):
        y = e / np.maximum(e.sum(-1, keepdims=True) + more, 1e-30) @ np.repeat(values, 2, 1)
        return [y.transpose(0, 2, 1, 3).reshape(b, steps, -1).astype(np.float32), keys, values]
    given, shape = [None, None, chosen, counts, ends, total], {"num_heads": heads, "kv_num_heads": kv_heads}
    yield "chosen_attention", "DynamicSparseAttention", [*x, *given], shape, {"results": [1, 1, 1], "want": want(0)}
    yield "chosen_attention_sink", "DynamicSparseAttention", [*x, *given, *[None] * 5, sink], shape, {
        "results": [1, 1, 1], "want": want(np.exp(sink)[:, None, None])}


# ---- attention with projections ---------------------------------------------------------------

@case
def decoder_attention(m):
    b, steps, others, past, size, heads = 2, 3, 5, 4, 16, 4
    q, key, wq, wkv, bias = m.f(steps, b, size), m.f(others, b, size), m.f(size, size), m.f(size, 2 * size), m.f(3 * size)
    cache = m.f(b, heads, past, 4), m.f(b, heads, past, 4)
    flags = lambda *f: [np.array([v]) for v in f]
    def want(cross, layer_past, mask=None):
        x = q.transpose(1, 0, 2) @ wq + bias[:size]
        source = (key if cross else q).transpose(1, 0, 2) @ wkv + bias[size:]
        k, v = (by_heads(p, heads) for p in np.split(source, 2, -1))
        if layer_past:
            k, v = cache if cross else (np.concatenate([c, p], 2) for c, p in zip(cache, (k, v)))
        add = 0 if mask is None else np.where(mask[:, None, None], -np.inf, 0)
        return [attended(by_heads(x, heads), k, v, add).transpose(1, 0, 2).copy(), k.astype(np.float32), v.astype(np.float32)]
    for name, cross, use, layer in [("self", 0, 0, 1), ("self_past", 0, 1, 1), ("cross", 1, 0, 1), ("cross_past", 1, 1, 1), ("self_alone", 0, 1, 0)]:
        x = [q, key, wq, wkv, bias, None, *(cache if use else (None, None)), *flags(bool(cross), bool(use), bool(layer), False)]
        yield f"decoder_attention_{name}", "DecoderAttention", x, {"num_heads": heads}, {
            "results": [1, 1, 1], "constant": [8, 9, 10, 11], "want": want(cross, use and layer)}
    mask = np.array([[0, 0, 0, 1, 1], [0, 0, 0, 0, 1]], bool)
    yield "decoder_attention_mask", "DecoderAttention", [q, key, wq, wkv, bias, mask, None, None, *flags(True, False, False, True)], {
        "num_heads": heads}, {"results": [1, 1, 1], "constant": [8, 9, 10, 11], "want": want(1, 0, mask)}


def laid(k):
    """Keys [batch, head, step, size] as a shared cache has them."""
    return k.reshape(*k.shape[:3], -1, 4).transpose(0, 1, 3, 2, 4).reshape(k.shape)


@case
def decoder_self_attention(m):
    b, heads, size, past, most = 4, 2, 8, 3, 6
    x, w, bias, add = m.f(b, 1, 12), m.f(12, 3 * heads * size), m.f(3 * heads * size), m.f(1, heads, 1, past + 1)
    q, k, v = (by_heads(p, heads) for p in np.split(x @ w + bias, 3, -1))
    mask = np.array([[1, 1, 1, 1], [0, 1, 1, 1], [1, 1, 1, 1], [0, 0, 1, 1]], np.int32)
    hidden = np.where(mask[:, None, None], 0, -10000)
    cache, shape, count = m.f(2, b, heads, past, size), {"num_heads": heads}, np.array([past], np.int32)
    keys, values = np.concatenate([cache[0], k], 2), np.concatenate([cache[1], v], 2)
    yield "decoder_self_attention", "DecoderMaskedSelfAttention", [x, w, bias, mask, cache, add, count], shape, {
        "results": [1, 1], "want": [attended(q, keys, values, hidden + add), np.stack([keys, values])]}
    room, after = m.f(2, b, heads, most, size), None
    after = room.copy()
    after[0, :, :, past], after[1, :, :, past] = k[:, :, 0], v[:, :, 0]
    given = lambda c: np.stack([laid(c[0]), c[1]])
    there = after[:, :, :, :past + 1]
    shared = {**shape, "past_present_share_buffer": 1, "scale": 0.4}
    yield "decoder_self_attention_shared", "DecoderMaskedSelfAttention", [x, w, bias, mask, given(room), None, count], shared, {
        "results": [1, 1], "want": [attended(q, there[0], there[1], hidden, 0.4), given(after)]}
    beams = m.i(0, 2, 2, 2, most, t=np.int32)
    own = there.copy()
    for row, t in itertools.product(range(b), range(past)):
        own[:, row, :, t] = there[:, row // 2 * 2 + beams[row // 2, row % 2, t], :, t]
    yield "decoder_self_attention_beams", "DecoderMaskedSelfAttention", [
        x, w, bias, None, given(room), None, count, np.array([2], np.int32), beams], shared, {
            "results": [1, 1], "want": [attended(q, own[0], own[1], 0, 0.4), given(after)]}


@case
def longformer(m):
    b, steps, size, heads, window = 2, 12, 8, 2, 2
    x, w, bias, far, far_bias = m.f(b, steps, size), m.f(size, 3 * size), m.f(3 * size), m.f(size, 3 * size), m.f(3 * size)
    mask, flags = np.zeros((b, steps), np.float32), np.zeros((b, steps), np.int32)
    mask[1, 9:], flags[:, 0], flags[1, 5] = -10000, 1, 1
    place = np.arange(steps)
    seen = (abs(place[:, None] - place) <= window) | (flags[:, None, None] > 0)
    parts = lambda w, bias: [by_heads(p, heads) for p in np.split(x @ w + bias, 3, -1)]
    add = mask[:, None, None]
    near, all_ = attended(*parts(w, bias), add + np.where(seen, 0, -np.inf)), attended(*parts(far, far_bias), add)
    yield "longformer", "LongformerAttention", [x, w, bias, mask, far, far_bias, flags], {"num_heads": heads, "window": window}, {
        "want": [np.where(flags[..., None] > 0, all_, near)]}


# ---- pools, routers ---------------------------------------------------------------------------

@case
def masked_pool(m):
    for name, shape, mask, window in [
            ("1d", (2, 3, 9), (1, 1, 9), {"kernel_shape": [3], "pads": [1, 1]}),
            ("1d_strides", (2, 3, 9), (2, 1, 9), {"kernel_shape": [3], "pads": [1, 0], "strides": [2]}),
            ("1d_channels", (2, 3, 8), (2, 3, 8), {"kernel_shape": [4]}),
            ("2d", (1, 2, 5, 6), (1, 1, 5, 6), {"kernel_shape": [2, 3], "pads": [1, 1, 0, 1]}),
            ("3d", (1, 2, 3, 4, 5), (1, 1, 3, 4, 5), {"kernel_shape": [2, 2, 3]})]:
        yield f"masked_pool_{name}", "MaxpoolWithMask", [m.f(*shape), m.i(0, 4, *mask, t=np.int32).clip(0, 1)], window, {}


@case
def group_router(m):
    x, bias = m.f(2, 3, 12), m.f(12, scale=0.3)
    groups = {"n_group": 4, "topk_group": 2, "top_k": 3}
    yield "group_router", "MoEGroupRouter", [x, bias], groups, {}
    yield "group_router_more", "MoEGroupRouter", [x[0], bias], {**groups, "group_topk": 5, "router_sentinel": -1.5}, {}
    yield "group_router_one", "MoEGroupRouter", [x, bias], {"top_k": 4}, {}
    yield "group_router_scores", "MoEGroupRouter", [x, bias], {"top_k": 4}, {"results": [0, 1, 1]}
    yield "group_router_weights", "MoEGroupRouter", [m.f(4, 256), bias, m.f(12, 256, scale=0.1)], {"top_k": 4}, {
        "results": [0, 1, 1]}


# ---- newer attributes -------------------------------------------------------------------------

@case
def newer(m):
    b, steps, heads, d = 2, 4, 2, 4
    q, k, v, state = m.f(b, steps, heads, d), m.f(b, steps, heads, d), m.f(b, steps, heads, d), m.f(b, heads, d, d)
    gates = [m.f(b, steps, heads), m.f(b, steps, heads), state, m.f(heads), m.f(heads)]
    for name, more in ("softplus", {}), ("sigmoid", {"gate_lower_bound": -2.0}):
        yield f"gated_delta_net_{name}", "GatedDeltaNet", [q, k, v, None, *gates], {
            "gate_activation": name, "beta_activation": "sigmoid", "qk_l2_norm": 1, **more}, {"results": [1, 1]}
    x = [m.f(1, 3, 64), m.f(1, 3, 32), m.f(1, 3, 32), None, None, np.array([2], np.int32), np.array(3, np.int32)]
    scales, shape = [m.f(16), m.f(16)], {"num_heads": 4, "kv_num_heads": 2}
    normed = [rms(p.reshape(1, 3, -1, 16), s, e).reshape(p.shape).astype(np.float32) for p, s, e in zip(x, scales, (0.5, 0.125))]
    yield "group_query_epsilons", "GroupQueryAttention", [*x, *[None] * 7, *scales], {
        **shape, "q_norm_epsilon": 0.5, "k_norm_epsilon": 0.125}, {
            "results": [1, 1, 1], "constant": [6], "same_as": ("GroupQueryAttention", [*normed, *x[2:]], shape)}


# ---- packed requests --------------------------------------------------------------------------

@case
def packed_requests(m):
    ends = np.array([0, 3, 4, 9], np.int32)
    ids, by, sizes = m.i(0, 99, 9), m.i(1, 1 << 20, 3) * 2 + 1, np.array([11, 13, 17, 19], np.int64)
    shape = {"max_ngram_size": 3, "n_head_per_ngram": 2, "pad_id": 5}
    yield "packed_ngrams", "VarlenNGramHashMapping", [ids, by, sizes, ends], shape, {"results": [1, 1]}
    yield "packed_ngrams_past", "VarlenNGramHashMapping", [
        *(x.astype(np.int32) for x in (ids, by, sizes)), ends, m.i(0, 99, 3, 2, t=np.int32), m.i(0, 99, 4, t=np.int32)], shape, {
            "results": [1, 1]}
    x, w, state = m.f(9, 4), m.f(4, 1, 3), m.f(3, 4, 2)
    yield "packed_conv", "VarlenCausalConvWithState", [x, w, ends, None, state], {}, {"results": [1, 1]}
    yield "packed_conv_silu", "VarlenCausalConvWithState", [x, w, ends, m.f(4), m.f(3, 4, 6)], {
        "activation": "silu", "dilation": 3}, {"results": [1, 1]}


# ---- gates ------------------------------------------------------------------------------------

def clamped_swiglu(gate, up, alpha=1.0, beta=0.0, limit=0.0):
    if limit > 0:
        gate, up = np.minimum(gate, limit), np.clip(up, -limit, limit)
    return gate * sigmoid(alpha * gate) * (up + beta)


@case
def gates(m):
    x, up = m.f(2, 3, 8), m.f(2, 3, 8)
    yield "contrib_swiglu", "SwiGLU", [x, up], {}, {"want": [clamped_swiglu(x, up).astype(np.float32)]}
    yield "contrib_swiglu_limit", "SwiGLU", [x, up], {"limit": 0.7, "activation_alpha": 1.7, "activation_beta": 1.0}, {
        "want": [clamped_swiglu(x, up, 1.7, 1.0, 0.7).astype(np.float32)]}
    yield "contrib_swiglu_halves", "SwiGLU", [x], {"round_activation": 1}, {
        "want": [clamped_swiglu(x[..., :4], x[..., 4:]).astype(np.float32)]}
    a, w = m.f(2, 3, 8, t=np.float16), m.f(8, 11, t=np.float16)
    y = (a.astype(np.float32) @ w.astype(np.float32)).astype(np.float16)
    gate, up = y[..., 3:7].astype(np.float32), y[..., 7:].astype(np.float32)
    yield "router_gate", "RouterGateUpProj", [a, w], {"router_size": 3, "limit": 1.5}, {
        "results": [1, 1], "want": [y[..., :3].copy(), clamped_swiglu(gate, up, limit=1.5).astype(np.float16)]}
    yield "sample_op", "SampleOp", [m.f(2, 3)], {}, {}


@case
def low_rank_mix(m):
    n, size, rank = 3, 4, 5
    x, scale, block, before = m.f(2, 6, n * size), m.f(n * size), m.f(2, 6, size), m.f(2, 6, n)
    down, up, inject = m.f(n * size, rank), m.f(rank, n * size), m.f(n * size, n)
    def want(s, silu=1.0, by=1.0, div=1.0, mul=1.0, epsilon=1e-5):
        hn = rms(s.reshape(2, 6, n, size), scale.reshape(n, size), epsilon)
        flat = hn.reshape(s.shape)
        z = silu * (flat @ down)
        g = sigmoid(z * sigmoid(z) @ up).reshape(hn.shape)
        return [r.astype(np.float32) for r in (by * (hn * g).sum(2), sigmoid(flat @ inject / div) * mul, s)]
    yield "low_rank_mix", "HyperConnectionLowRankMix", [x, scale, down, up, inject], {"num_branches": n}, {
        "results": [1, 1, 1], "want": want(x)}
    s = (x.reshape(2, 6, n, size) + before[..., None] * block[:, :, None]).reshape(x.shape)
    yield "low_rank_mix_before", "HyperConnectionLowRankMix", [x, scale, down, up, inject, block, before], {
        "num_branches": n, "silu_alpha": 1.5, "reduction_scale": 0.5, "gate_div": 2.0, "gate_mul": 3.0, "epsilon": 0.01}, {
            "results": [1, 1, 1], "want": want(s, 1.5, 0.5, 2.0, 3.0, 0.01)}


# ---- rows in blocks of GGML's types -----------------------------------------------------------

PACKED = {0: ("f32", 1, 4, []), 1: ("f16", 1, 2, [0]), 2: ("q4_0", 32, 18, [0]), 6: ("q5_0", 32, 22, [0]), 8: ("q8_0", 32, 34, [0]),
          13: ("q5_k", 256, 176, [0, 2]), 14: ("q6_k", 256, 210, [208]), 20: ("iq4_nl", 32, 18, [0]), 23: ("iq4_xs", 256, 136, [0]),
          30: ("bf16", 1, 2, [])}


def blocks(m, kind, rows, k):
    """Random rows whose scales, halves at the places that PACKED tells, are numbers of small size."""
    _, elements, size, halves = PACKED[kind]
    if kind in (0, 30):
        words = m.f(rows, k).view(np.uint32)
        return (words if kind == 0 else (words >> 16).astype(np.uint16)).view(np.uint8)
    data = m.i(0, 256, rows, k // elements, size, t=np.uint8)
    for at in halves:
        data[:, :, at:at + 2] = m.f(rows, k // elements, 1, t=np.float16).view(np.uint8)
    return data.reshape(rows, -1)


@case
def packed_rows(m):
    index = np.array([[0, 2], [1, -1], [3, 4]], np.int64)
    for kind, (name, elements, *_) in PACKED.items():
        k = 2 * elements if elements > 1 else 6
        yield f"gather_packed_{name}", "GatherPacked", [blocks(m, kind, 4, k), index], {
            "packed_type": kind, "K": k, "output_dtype": TensorProto.FLOAT}, {}
    data, index = blocks(m, 2, 5, 32), np.array([4, 0, 1], np.int32)
    yield "gather_packed_half", "GatherPacked", [data, index], {"packed_type": 2, "K": 32, "output_dtype": TensorProto.FLOAT16}, {}
    q = np.concatenate([data[:, 2:] & 15, data[:, 2:] >> 4], -1).astype(np.float32) - 8
    w, a = q * data[:, :2].copy().view(np.float16).astype(np.float32), m.f(2, 3, 32, t=np.float16)
    y = (a.astype(np.float32) @ w.T.astype(np.float16).astype(np.float32)).astype(np.float16).astype(np.float32)
    for name, wanted in ("none", y), ("relu2", np.maximum(y, 0) ** 2), ("silu", y * sigmoid(y)):
        yield f"matmul_packed_{name}", "MatMulPacked", [a, data], {"packed_type": 2, "N": 5, "K": 32, "activation_type": name}, {
            "want": [wanted.astype(np.float16)]}


@case
def adapters(m):
    k, n, rank, x = 40, 6, 3, m.f(2, 5, 40)
    def table(rows, columns, bits, size):
        """Codes, packed, the steps of their blocks, and the numbers that they stand for."""
        count = -(-columns // size)
        q, step = m.i(0, 1 << bits, rows, count, size, t=np.uint8), np.abs(m.f(rows, count)) * np.float32(0.1)
        w = ((q - float(1 << (bits - 1))) * step[..., None]).reshape(rows, -1)[:, :columns].astype(np.float32)
        return (q if bits == 8 else q[..., ::2] | q[..., 1::2] << 4), step, w
    (codes, step, w), (down, down_step, a), (up, up_step, b) = table(n, k, 4, 16), table(rank, k, 8, 16), table(n, rank, 8, 16)
    shape = {"K": k, "N": n, "bits": 4, "block_size": 16, "lora_bits": 8, "lora_block_size": 16}
    tables = {"constant": list(range(1, 7))}
    yield "matmul_nbits_lora", "MatMulNBitsQLoRA", [x, codes, step, down, down_step, up, up_step], shape, {
        **tables, "want": [(x @ w.T + x @ a.T @ b.T).astype(np.float32)]}
    yield "matmul_nbits_lora_none", "MatMulNBitsQLoRA", [x, codes, step, down[:0], down_step, up[:, :0], up_step], shape, {
        **tables, "want": [(x @ w.T).astype(np.float32)]}


# ---- AttnLSTM ---------------------------------------------------------------------------------

@case
def attention_lstm(m):
    steps, b, size, hidden, places, depth, query, out = 4, 3, 5, 6, 7, 8, 4, 3
    lens, filled = np.array([4, 2, 3], np.int32), np.array([7, 3, 1], np.int32)
    for direction, dirs, layer, full in ("forward", 1, 1, 0), ("forward", 1, 0, 1), ("reverse", 1, 1, 1), ("bidirectional", 2, 1, 1):
        width = size + (out if layer else depth)
        state = [m.f(dirs, 8 * hidden), lens, m.f(dirs, b, hidden), m.f(dirs, b, hidden), m.f(dirs, 3 * hidden)]
        memory = [m.f(dirs, hidden, query), m.f(dirs, depth, query), m.f(dirs, query), m.f(b, places, depth)]
        name = f"attention_lstm_{direction}" + ("" if layer else "_context")
        yield name, "AttnLSTM", [
            m.f(steps, b, size), m.f(dirs, 4 * hidden, width), m.f(dirs, 4 * hidden, hidden), *(state if full else [None] * 5),
            *memory, filled if full else None, m.f(dirs, depth + hidden, out) if layer else None], {
                "hidden_size": hidden, "direction": direction}, {"results": [1, 1, 1]}
