# SPDX-License-Identifier: Apache-2.0
"""Cases of rotary embeddings, grouped queries and position biases for contrib_cases.py."""
import math

import numpy as np


def rotary(m):
    cos, sin = m.f(9, 4), m.f(9, 4)
    x = m.f(2, 3, 16)
    yield "rotary_offset", "RotaryEmbedding", [x, np.array([2], np.int64), cos, sin], {}, {}
    yield "rotary_places", "RotaryEmbedding", [x, m.i(0, 9, 2, 3), cos, sin], {"interleaved": 1}, {}
    yield "rotary_heads", "RotaryEmbedding", [m.f(2, 2, 3, 8), m.i(0, 9, 2, 3), cos, sin], {}, {}
    yield "rotary_part", "RotaryEmbedding", [m.f(2, 3, 24), m.i(0, 9, 2, 3), cos, sin], {
        "num_heads": 2, "rotary_embedding_dim": 8}, {}


def group_query(m):
    shape = {"num_heads": 4, "kv_num_heads": 2}
    cos, sin = m.f(16, 8), m.f(16, 8)
    def operands(batch, steps, past, ends, total, room=None):
        cache = [m.f(batch, 2, room or past, 16), m.f(batch, 2, room or past, 16)]
        return [m.f(batch, steps, 64), m.f(batch, steps, 32), m.f(batch, steps, 32), *cache,
                np.array(ends, np.int32), np.array(total, np.int32)]
    use = {"results": [1, 1, 1], "constant": [6]}
    prompt = operands(2, 5, 0, [4, 4], 5, room=5)
    yield "group_query_prompt", "GroupQueryAttention", [*prompt[:3], None, None, *prompt[5:]], shape, use
    step = operands(2, 1, 6, [6, 6], 7)
    yield "group_query_step", "GroupQueryAttention", step, shape, use
    yield "group_query_rotary", "GroupQueryAttention", [*step, cos, sin], {"do_rotary": 1, **shape}, use
    yield "group_query_woven", "GroupQueryAttention", [*step, cos, sin], {
        "do_rotary": 1, "rotary_interleaved": 1, **shape}, use
    ragged, turned = [*operands(2, 1, 6, [4, 6], 7), cos, sin], {"do_rotary": 1, **shape}
    yield "group_query_ragged", "GroupQueryAttention", ragged, turned, {
        "constant": [6], "same_as": ("GroupQueryAttention", ragged, turned)}  # behind a sequence: anything
    yield "group_query_softcap", "GroupQueryAttention", step, {"softcap": 3.0, "scale": 0.5, **shape}, use
    yield "group_query_window", "GroupQueryAttention", step, {"local_window_size": 3, **shape}, use
    yield "group_query_prompt_window", "GroupQueryAttention", [*prompt[:3], None, None, *prompt[5:]], {
        "local_window_size": 2, **shape}, use
    yield "group_query_chunk", "GroupQueryAttention", [*operands(1, 3, 6, [8], 9), cos, sin], {"do_rotary": 1, **shape}, use
    yield "group_query_smooth", "GroupQueryAttention", step, {"smooth_softmax": 1, **shape}, use
    yield "group_query_sink", "GroupQueryAttention", [*step, *[None] * 4, m.f(4)], shape, use
    packed = m.f(2, 1, 128)
    yield "group_query_packed", "GroupQueryAttention", [packed, None, None, *step[3:], cos, sin], {
        "do_rotary": 1, **shape}, use
    yield "group_query_bias", "GroupQueryAttention", [*step, None, None, None, m.f(2, 4, 1, 7)], shape, use


def t5_bucket(far, both, n, most):
    bucket = np.zeros_like(far)
    if both:
        n //= 2
        bucket += (far > 0) * n
        far = np.abs(far)
    else:
        far = -np.minimum(far, 0)
    exact = n // 2
    large = exact + (np.log(np.maximum(far, 1) / exact) / math.log(most / exact) * (n - exact)).astype(np.int64)
    return bucket + np.where(far < exact, far, np.minimum(large, n - 1))


def position_bias(m):
    table = m.f(8, 3)
    far = np.arange(20)[None, :] - np.arange(20)[:, None]
    for both in 0, 1:
        want = table[t5_bucket(far, both, 8, 16)].transpose(2, 0, 1)[None]
        yield f"relative_position_bias_{both}", "RelativePositionBias", [table, np.int64(20), np.int64(20)], {
            "is_bidirectional": both, "max_distance": 16}, {"want": [want], "constant": [1, 2]}
    q, qb, rel, w, b, a = m.f(2, 3, 8), m.f(8), m.f(1, 2, 3, 3), m.f(4, 6), m.f(6), m.f(1, 2, 1, 1)
    by_head = (q + qb).reshape(2, 3, 2, 4).transpose(0, 2, 1, 3)
    gates = 1 / (1 + np.exp(-((by_head @ w + b).reshape(2, 2, 3, 2, 3).sum(-1))))
    u, r = gates[..., :1], gates[..., 1:]
    yield "gated_relative_position_bias", "GatedRelativePositionBias", [q, qb, rel, w, b, a], {"num_heads": 2}, {
        "want": [((u * (r * a - 1) + 2) * rel).astype(np.float32)]}


cases = [rotary, group_query, position_bias]
