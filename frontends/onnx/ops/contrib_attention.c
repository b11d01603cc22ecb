/* SPDX-License-Identifier: Apache-2.0 */
/* Attention operators of com.microsoft, as Attention of ai.onnx with what stands around it:
 * projections, biases, masks of many forms, caches. Masked scores get
 * mask_filter_value added, so that a row without any key is what it is in the original. */
#include "compose.h"

#include <math.h>
#include <string.h>

/* Extent `axis` of x, as a vector of one. */
static int extent(Infer *in, int x, int64_t axis) {
    return compose_extents(in, x, axis, axis + 1);
}

static int unsqueezed(Infer *in, int x, const int64_t *axes, int n) {
    return OP(in, "Unsqueeze", x, compose_shape(in, axes, n));
}

static int64_t attr_heads(const Infer *in, const char *name) {
    int64_t n = attr_int(in->ctx, in->node, name, 0);
    if (n < 1) fail(in->ctx, E_ATTRIBUTE, "attribute \"%s\" must be at least 1", name);
    return n;
}

/* [batch, step, head * size] to [batch, head, step, size], and back. */
static int split_heads(Infer *in, int x, int64_t heads) {
    int y = compose_reshape(in, x, (int64_t[]){0, 0, heads, -1}, 4);
    return compose_transpose(in, y, (int64_t[]){0, 2, 1, 3}, 4);
}

static int join_heads(Infer *in, int x) {
    int y = compose_transpose(in, x, (int64_t[]){0, 2, 1, 3}, 4);
    return compose_reshape(in, y, (int64_t[]){0, 0, -1}, 3);
}

/* ---- masks ----------------------------------------------------------------------------------- */

/* What a mask operand adds to scores of type t: [batch, 1, 1 or step, total]. It holds 1 for what
 * may be seen, or lengths of the batch's sequences, or their ends and then their starts. `steps`
 * and `total` are vectors of one. */
static int added_mask(Infer *in, int mask, DType t, Dim batch, int steps, int total) {
    const Type *type = compose_type(in, mask);
    double filter = attr_float(in->ctx, in->node, "mask_filter_value", -10000), none = 0;
    int seen;
    if (type->rank == 1) {
        int j = compose_range(in, total), ends = mask;
        bool starts = type->shape[0] == dim_mulc(in->ctx, batch, 2);
        if (!starts && type->shape[0] != batch)
            fail(in->ctx, E_UNSUPPORTED,
                 "mask \"%s\" of type %s is of a form that is not known: give one of two dims",
                 in->graph->value.at[mask].name, type_str(in->ctx, type));
        if (starts) ends = compose_split(in, mask, 0, 2);
        int places = compose_cast(in, j, type->dtype);
        seen = OP(in, "Less", places, unsqueezed(in, ends, (int64_t[]){1}, 1));
        if (starts) {
            int first = unsqueezed(in, ends + 1, (int64_t[]){1}, 1);
            seen = OP(in, "And", seen, OP(in, "GreaterOrEqual", places, first));
        }
    } else {
        seen = compose_cast(in, mask, BOOL);
    }
    if (type->rank == 4) { /* the last steps of a square */
        seen = compose_part(in, seen, 2, OP(in, "Sub", total, steps), total);
        seen = compose_part(in, seen, 3, compose_vector(in, 0), total);
    } else {
        seen = unsqueezed(in, seen, (int64_t[]){1, 2}, type->rank == 3 ? 1 : 2);
    }
    return OP(in, "Where", seen, compose_constant(in, t, &none, -1),
              compose_constant(in, t, &filter, -1));
}

/* ---- the core -------------------------------------------------------------------------------- */

typedef struct Core {
    int q, k, v;           /* all [batch, step, head * size] or all by heads */
    int64_t heads, shared; /* of the query; of keys and values */
    int mask;              /* bool or added; -1 */
    int past_k, past_v;
    bool causal;
    bool smooth; /* the softmax has one more score, `sink`, that belongs to no key */
    int sink;
    bool scores; /* has masked scores as fourth result */
} Core;

/* y with its rows' shares of a softmax that has the sink's score, too: e^l / (e^l + e^sink), l
 * being the logarithm of the sum without it. */
static int sunk(Infer *in, const Core *c, int y, int scores) {
    int64_t last = -1;
    int l = OP(in, "ReduceLogSumExp", scores, compose_shape(in, &last, 1));
    return OP(in, "Mul", y, OP(in, "Sigmoid", OP(in, "Sub", l, c->sink)));
}

/* Its result and, after it, keys and values with the past and the scores, unless it is smooth. */
static int attend(Infer *in, const Core *c) {
    int operand[] = {c->q, c->k, c->v, c->mask, c->past_k, c->past_v};
    float scale = attr_float(in->ctx, in->node, "scale", 0);
    if (compose_type(in, c->q)->rank == 3) {
        compose_int(in, "q_num_heads", c->heads);
        compose_int(in, "kv_num_heads", c->shared);
    }
    if (scale != 0) compose_float(in, "scale", scale);
    compose_attr(in, "softcap", "softcap");
    compose_int(in, "is_causal", c->causal);
    if (!c->smooth && !c->scores) return compose_op(in, "Attention", operand, 6, 3);
    compose_int(in, "qk_matmul_output_mode", 2);
    int y = compose_op(in, "Attention", operand, 6, 4);
    return c->smooth ? sunk(in, c, y, y + 3) : y;
}

static bool causal(const Infer *in) {
    return attr_int(in->ctx, in->node, "unidirectional", 0) != 0;
}

/* Steps of the past and now, as a vector of one. */
static int total_of(Infer *in, int k, int past) {
    int now = extent(in, k, compose_type(in, k)->rank - 2);
    return past < 0 ? now : OP(in, "Add", now, extent(in, past, compose_type(in, past)->rank - 2));
}

/* ---- Attention, QAttention ------------------------------------------------------------------- */

/* Query, key and value one after the other along the last axis. */
static void split_three(Infer *in, int x, const int64_t *sizes, int *to) {
    compose_int(in, "axis", -1);
    if (!sizes) compose_int(in, "num_outputs", 3);
    int from[] = {x, sizes ? compose_shape(in, sizes, 3) : -1};
    int y = compose_op(in, "Split", from, 2, 3);
    for (int i = 0; i < 3; i++) to[i] = y + i;
}

/* One of the two halves of past or present, [2, batch, head, step, size]. */
static int half(Infer *in, int past, int64_t which) {
    return past < 0 ? -1 : compose_row(in, past, which);
}

static void self_attention(Infer *in, int qkv, int mask, int past, int bias) {
    const int64_t *sizes = NULL;
    int part[3], n = attr_ints(in->ctx, in->node, "qkv_hidden_sizes", &sizes);
    split_three(in, qkv, n == 3 ? sizes : NULL, part);
    Core c = {.q = part[0], .k = part[1], .v = part[2], .causal = causal(in)};
    c.heads = c.shared = attr_heads(in, "num_heads");
    c.past_k = half(in, past, 0), c.past_v = half(in, past, 1);
    Dim batch = compose_type(in, qkv)->shape[0];
    c.mask = bias;
    if (mask >= 0)
        c.mask = compose_add(in, bias,
                             added_mask(in, mask, compose_type(in, qkv)->dtype, batch,
                                        extent(in, qkv, 1), total_of(in, c.k, c.past_k)));
    int y = attend(in, &c);
    compose_result(in, 0, y);
    if (in->node->out.n < 2 || in->node->out.at[1] < 0) return;
    int first = unsqueezed(in, y + 1, (int64_t[]){0}, 1),
        second = unsqueezed(in, y + 2, (int64_t[]){0}, 1);
    compose_int(in, "axis", 0);
    compose_result(in, 1, OP(in, "Concat", first, second));
}

static void attention_infer(Infer *in) {
    infer_arity(in, 2, 7);
    nn_ranked(in, 0, 3, 3);
    self_attention(in, compose_add(in, OP(in, "MatMul", IN(0), IN(1)), IN(2)), IN(3), IN(4), IN(5));
}

/* Operands: input, weights, bias, their scales, mask, their zero points, past. */
static void qattention_infer(Infer *in) {
    infer_arity(in, 5, 9);
    nn_ranked(in, 0, 3, 3);
    int qkv = compose_integer_product(in, IN(0), IN(1), IN(3), IN(4), IN(6), IN(7), IN(2));
    self_attention(in, qkv, IN(5), IN(8), -1);
}

/* Where tokens without padding stand: `offset` [batch, step] numbers all places, those of tokens
 * first; `ends` is where each sequence ends among the tokens, from 0 on. */
typedef struct Packing {
    int offset, ends, bias;
} Packing;

/* Rows [token, width], which are queries, keys and values one after the other, at their places. */
static void packed_rows(Infer *in, const Packing *p, int x, const int64_t *sizes) {
    int part[3];
    DType t = compose_type(in, x)->dtype;
    double filter[] = {-INFINITY}, none = 0;
    int places = compose_places(in, x, p->offset), steps = extent(in, p->offset, 1),
        zero = compose_vector(in, 0), one = compose_vector(in, 1);
    split_three(in, compose_padded(in, x, places, p->offset), sizes, part);
    int ends = compose_cast(in, p->ends, I64);
    int length = OP(in, "Sub", OP(in, "Slice", ends, one, compose_vector(in, INT64_MAX)),
                    OP(in, "Slice", ends, zero, compose_vector(in, -1)));
    int seen =
        OP(in, "Less", compose_range(in, steps), unsqueezed(in, length, (int64_t[]){1, 2, 3}, 3));
    Core c = {.q = part[0], .k = part[1], .v = part[2], .past_k = -1, .past_v = -1};
    c.heads = c.shared = attr_heads(in, "num_heads");
    c.mask = OP(in, "Where", seen, p->bias >= 0 ? p->bias : compose_constant(in, t, &none, -1),
                compose_constant(in, t, filter, -1));
    int y = attend(in, &c),
        rows = compose_reshape(in, y, (int64_t[]){-1, compose_size(in, y, -1)}, 2);
    compose_int(in, "axis", 0);
    compose_result(in, 0, OP(in, "Gather", rows, places));
}

static void packed_attention_infer(Infer *in) {
    infer_arity(in, 5, 6);
    int x = compose_add(in, OP(in, "MatMul", IN(0), IN(1)), IN(2));
    const int64_t *sizes = NULL;
    int n = attr_ints(in->ctx, in->node, "qkv_hidden_sizes", &sizes);
    packed_rows(in, &(Packing){IN(3), IN(4), IN(5)}, x, n == 3 ? sizes : NULL);
}

/* Query [token, head, 3, size], or query, key and value [token, width] each. */
static void packed_multi_head_infer(Infer *in) {
    infer_tensor(in, 4), infer_tensor(in, 5);
    int x = IN(0);
    int64_t sizes[3];
    if (IN(1) < 0) {
        int64_t size = compose_size(in, x, -1) * attr_heads(in, "num_heads");
        nn_ranked(in, 0, 4, 4);
        x = compose_transpose(in, x, (int64_t[]){0, 2, 1, 3}, 4);
        x = compose_reshape(in, x, (int64_t[]){0, 3 * size}, 2);
        for (int i = 0; i < 3; i++) sizes[i] = size;
    } else {
        infer_tensor(in, 2);
        for (int i = 0; i < 3; i++) sizes[i] = compose_size(in, IN(i), -1);
        compose_int(in, "axis", -1);
        x = OP(in, "Concat", IN(0), IN(1), IN(2));
    }
    packed_rows(in, &(Packing){IN(4), IN(5), IN(6)}, compose_add(in, x, IN(3)), sizes);
}

/* ---- MultiHeadAttention ---------------------------------------------------------------------- */

/* Part `which` of [batch, step, head, parts, size], as [batch, step, head * size]. */
static int packed(Infer *in, int x, int64_t which) {
    compose_int(in, "axis", 3);
    int y = OP(in, "Gather", x, compose_shape(in, &which, -1));
    return compose_reshape(in, y, (int64_t[]){0, 0, -1}, 3);
}

/* Adds the parts of one bias to query, key and value that are flat. */
static void add_bias(Infer *in, Core *c, int bias) {
    int *to[] = {&c->q, &c->k, &c->v};
    int64_t from = 0, end;
    for (int i = 0; i < 3 && bias >= 0; i++, from = end) {
        if (compose_type(in, *to[i])->rank != 3) return;
        end = from + compose_size(in, *to[i], -1);
        *to[i] = OP(in, "Add", *to[i],
                    compose_part(in, bias, 0, compose_vector(in, from), compose_vector(in, end)));
    }
}

/* A cache that past and present share, [batch, head, most, size]: all i64, vectors of one but for
 * `rows`. */
typedef struct Shared {
    int before, steps, total; /* rows that are there, new ones, both */
    int rows; /* [batch, 1, total, 1]: which sequence each row is one of; -1: its own */
} Shared;

/* Beams of a group, [group, beam, most], that each earlier row is from; new rows are one's own. */
static int beam_rows(Infer *in, const Shared *s, int from) {
    int beams = extent(in, from, 1);
    compose_int(in, "axis", 2);
    int rows = compose_cast(in, OP(in, "Flatten", from), I64);
    int own = compose_range(in, extent(in, rows, 0));
    int group = compose_unsqueeze(in, OP(in, "Sub", own, OP(in, "Mod", own, beams)), 1);
    rows = OP(in, "Add", compose_part(in, rows, 1, compose_vector(in, 0), s->total), group);
    int earlier = OP(in, "Less", compose_range(in, s->total), s->before);
    rows = OP(in, "Where", earlier, rows, compose_unsqueeze(in, own, 1));
    return unsqueezed(in, rows, (int64_t[]){1, 3}, 2);
}

/* New rows [batch, head, step, size] in their places are result `result`; those that are there. */
static int shared_rows(Infer *in, const Shared *s, int past, int now, int result) {
    int places = OP(in, "Expand", s->before, extent(in, now, 0));
    compose_int(in, "axis", 2);
    int all = OP(in, "TensorScatter", past, now, places);
    compose_result(in, result, all);
    int there = compose_part(in, all, 2, compose_vector(in, 0), s->total);
    if (s->rows < 0) return there;
    int each = OP(in, "Expand", s->rows, OP(in, "Shape", there));
    compose_int(in, "axis", 0);
    return OP(in, "GatherElements", there, each);
}

/* What a new row may see of those behind the first `before`: -inf is added to others. */
static int causal_mask(Infer *in, const Shared *s, int like) {
    int row = OP(in, "Add", compose_range(in, s->steps), s->before);
    row = compose_unsqueeze(in, row, 1);
    int seen = OP(in, "LessOrEqual", compose_range(in, s->total), row);
    return compose_bias(in, seen, like);
}

/* Keys and values become those of the cache; all are by heads then. */
static void share(Infer *in, Core *c, int before, int from) {
    Shared s = {.before = compose_reshape(in, compose_cast(in, before, I64), (int64_t[]){1}, 1),
                .steps = extent(in, c->q, 1),
                .rows = -1};
    s.total = OP(in, "Add", s.before, s.steps);
    if (from >= 0) s.rows = beam_rows(in, &s, from);
    c->k = shared_rows(in, &s, c->past_k, split_heads(in, c->k, c->shared), 1);
    s.total = extent(in, c->k, 2);
    c->v = shared_rows(in, &s, c->past_v, split_heads(in, c->v, c->shared), 2);
    c->past_k = c->past_v = -1;
    if (c->causal) c->mask = compose_add(in, c->mask, causal_mask(in, &s, c->q));
    c->causal = false;
}

/* Which operand is what: the two operators have other orders. */
typedef struct Operands {
    int mask, bias_added, past_k, past_v, before, from, bias;
} Operands;

static void multi_head(Infer *in, const Operands *o) {
    Core c = {.q = IN(0), .k = IN(1), .v = IN(2), .causal = causal(in)};
    c.heads = c.shared = attr_heads(in, "num_heads");
    c.past_k = IN(o->past_k), c.past_v = IN(o->past_v);
    if (compose_type(in, c.q)->rank == 5) {
        int x = c.q;
        c.q = packed(in, x, 0), c.k = packed(in, x, 1), c.v = packed(in, x, 2);
    } else if (c.k < 0) {
        int to[3];
        split_three(in, c.q, NULL, to);
        c.q = to[0], c.k = to[1], c.v = to[2];
    } else if (c.v < 0) {
        int x = c.k;
        c.k = packed(in, x, 0), c.v = packed(in, x, 1);
    }
    add_bias(in, &c, IN(o->bias));
    c.mask = IN(o->bias_added);
    bool shares = IN(o->before) >= 0 && c.past_k >= 0;
    if (shares) share(in, &c, IN(o->before), IN(o->from));
    if (!shares && IN(o->from) >= 0)
        fail(in->ctx, E_UNSUPPORTED, "beams without a cache that past and present share");
    Dim batch = compose_type(in, c.q)->shape[0];
    int steps = extent(in, c.q, 1);
    bool by_heads = compose_type(in, c.k)->rank == 4;
    if (by_heads) c.q = split_heads(in, c.q, c.heads);
    if (IN(o->mask) >= 0)
        c.mask = compose_add(in, c.mask,
                             added_mask(in, IN(o->mask), compose_type(in, c.q)->dtype, batch, steps,
                                        total_of(in, c.k, c.past_k)));
    c.scores = in->node->out.n > 3;
    int y = attend(in, &c);
    compose_result(in, 0, by_heads ? join_heads(in, y) : y);
    for (int i = shares ? 3 : 1; i < 3 + c.scores; i++) compose_result(in, i, y + i);
}

static void multi_head_infer(Infer *in) {
    infer_arity(in, 1, 10);
    nn_ranked(in, 0, 3, 5);
    multi_head(in, &(Operands){.bias = 3,
                               .mask = 4,
                               .bias_added = 5,
                               .past_k = 6,
                               .past_v = 7,
                               .before = 8,
                               .from = 9});
}

static void decoder_masked_infer(Infer *in) {
    infer_arity(in, 1, 11);
    nn_ranked(in, 0, 3, 3);
    multi_head(in, &(Operands){.mask = 3,
                               .bias_added = 4,
                               .past_k = 5,
                               .past_v = 6,
                               .before = 7,
                               .from = 9,
                               .bias = 10});
}

/* ---- GroupQueryAttention --------------------------------------------------------------------- */

/* The first rows of a cache are the past's; each sequence goes on where it ended. Its capacity is
 * that of the past, or the total, whichever is larger. */
typedef struct Cache {
    int before; /* i64 [batch]: rows each sequence has */
    int place;  /* i64 [batch, step]: of the new ones */
    int total;  /* i64, a vector of one */
} Cache;

static Cache cache_of(Infer *in, int q) {
    Cache c;
    int64_t zero = 0, one = 1;
    int steps = extent(in, q, 1),
        ends = compose_reshape(in, compose_cast(in, IN(5), I64), (int64_t[]){-1}, 1);
    nn_agree(in, compose_type(in, ends)->shape[0], compose_type(in, q)->shape[0], 5, 0,
             "there is one length for each sequence of the batch");
    ends = OP(in, "Add", ends, compose_shape(in, &one, -1));
    c.before = OP(in, "Max", OP(in, "Sub", ends, steps), compose_shape(in, &zero, -1));
    c.place = OP(in, "Add", unsqueezed(in, c.before, (int64_t[]){1}, 1), compose_range(in, steps));
    c.total = compose_reshape(in, compose_cast(in, IN(6), I64), (int64_t[]){1}, 1);
    if (IN(3) >= 0) c.total = OP(in, "Max", c.total, extent(in, IN(3), 2));
    c.total = extent(in, compose_range(in, c.total), 0); /* one size, whatever has it */
    return c;
}

/* New rows by heads, [batch, head, step, size], behind the past's. */
static int cached(Infer *in, const Cache *c, int past, int now) {
    int64_t zero = 0;
    int room = past >= 0 ? past : now;
    int more = OP(in, "Sub", c->total, extent(in, room, 2));
    compose_int(in, "axis", 0);
    int pads = OP(in, "Concat", compose_shape(in, &zero, 1), more);
    room = OP(in, "Pad", room, pads, compose_number(in, room, 0), compose_vector(in, 2));
    if (past < 0) return room;
    compose_int(in, "axis", 2);
    return OP(in, "TensorScatter", room, now, c->before);
}

/* x in parts of the scale, in the cache's type: integers, floats of 8 bits, or two numbers of 4
 * bits from -8 on in a byte, the first in its low half. */
static int cache_codes(Infer *in, int x, int scale, DType t) {
    double most = t == U8 ? 7 : 127;
    int y = OP(in, "Div", compose_cast(in, x, F32), scale), half[2];
    if (t == F8E4M3FN) return compose_cast(in, y, t);
    y = OP(in, "Clip", OP(in, "Round", y), compose_number(in, y, -most - 1),
           compose_number(in, y, most));
    if (t != U8) return compose_cast(in, y, t);
    int pairs = compose_reshape(in, y, (int64_t[]){0, 0, 0, -1, 2}, 5);
    for (int64_t i = 0; i < 2; i++) {
        int which = compose_shape(in, &i, -1);
        compose_int(in, "axis", 4);
        half[i] = OP(in, "Add", OP(in, "Gather", pairs, which), compose_number(in, y, 8));
    }
    int high = OP(in, "Mul", half[1], compose_number(in, y, 16));
    return compose_cast(in, OP(in, "Add", half[0], high), U8);
}

static int cache_values(Infer *in, int codes, int scale, DType to) {
    int y = codes;
    if (compose_type(in, codes)->dtype == U8) {
        int low = OP(in, "BitwiseAnd", codes, compose_number(in, codes, 15));
        compose_string(in, "direction", "RIGHT");
        int high = OP(in, "BitShift", codes, compose_number(in, codes, 4));
        int64_t last = -1;
        low = unsqueezed(in, low, &last, 1), high = unsqueezed(in, high, &last, 1);
        compose_int(in, "axis", -1);
        y = compose_reshape(in, OP(in, "Concat", low, high), (int64_t[]){0, 0, 0, -1}, 4);
        y = compose_cast(in, y, F32);
        y = OP(in, "Sub", y, compose_number(in, y, 8));
    }
    return compose_cast(in, OP(in, "Mul", compose_cast(in, y, F32), scale), to);
}

/* New rows behind the past's, operand i, which may be codes by a scale, operand `by`: result
 * `result`, and the numbers it stands for. */
static int kept(Infer *in, const Cache *c, int i, int by, int now, int result) {
    DType real = compose_type(in, now)->dtype,
          t = IN(i) >= 0 ? compose_type(in, IN(i))->dtype : real;
    bool coded = t == I8 || t == U8 || t == F8E4M3FN;
    if (coded && IN(by) < 0)
        fail(in->ctx, E_MODEL, "operand %d is missing: a cache of %s needs a scale", by + 1,
             dtype_name(t));
    if (t == U8 && attr_int(in->ctx, in->node, "kv_cache_bit_width", 0) != 4)
        fail(in->ctx, E_UNSUPPORTED, "a cache of u8 holds 4 bits: set kv_cache_bit_width");
    int all = cached(in, c, IN(i), coded ? cache_codes(in, now, IN(by), t) : now);
    compose_result(in, result, all);
    return coded ? cache_values(in, all, IN(by), real) : all;
}

/* `own`: the name of x's epsilon, where it is not that of queries and keys. */
static int normed(Infer *in, int x, int weight, const char *own) {
    if (weight < 0) return x;
    float epsilon = attr_float(in->ctx, in->node, "qk_norm_epsilon", 1e-6f);
    compose_float(in, "epsilon", attr_float(in->ctx, in->node, own, epsilon));
    return OP(in, "RMSNormalization", x, weight);
}

static int rotated(Infer *in, int x, int place) {
    if (!attr_int(in->ctx, in->node, "do_rotary", 0)) return x;
    compose_attr(in, "interleaved", "rotary_interleaved");
    int64_t turned = 2 * compose_size(in, IN(7), -1);
    if (turned < compose_size(in, x, -1)) compose_int(in, "rotary_embedding_dim", turned);
    return OP(in, "RotaryEmbedding", x, IN(7), IN(8), place);
}

/* What each new row may see, bool [batch, 1, step, total]; or the bias where it may. */
static int group_mask(Infer *in, const Cache *c, DType t) {
    double never = -INFINITY;
    int row = unsqueezed(in, c->place, (int64_t[]){1, 3}, 2), j = compose_range(in, c->total);
    int64_t window = attr_int(in->ctx, in->node, "local_window_size", -1);
    if (!attr_int(in->ctx, in->node, "causal", 1))
        row = OP(in, "ReduceMax", row, compose_vector(in, 2));
    int seen = OP(in, "LessOrEqual", j, row);
    if (window > 0)
        seen = OP(in, "And", seen,
                  OP(in, "Greater", j, OP(in, "Sub", row, compose_shape(in, &window, -1))));
    if (IN(10) < 0) return seen;
    return OP(in, "Where", seen, IN(10), compose_constant(in, t, &never, -1));
}

static void group_query_infer(Infer *in) {
    infer_tensor(in, 5), infer_tensor(in, 6);
    nn_ranked(in, 0, 3, 3);
    Core c = {.q = IN(0), .k = IN(1), .v = IN(2), .past_k = -1, .past_v = -1};
    c.heads = attr_heads(in, "num_heads"), c.shared = attr_heads(in, "kv_num_heads");
    if (c.k < 0) {
        int64_t size = compose_size(in, c.q, -1) / (c.heads + 2 * c.shared);
        int to[3];
        split_three(in, c.q, (int64_t[]){c.heads * size, c.shared * size, c.shared * size}, to);
        c.q = to[0], c.k = to[1], c.v = to[2];
    }
    Cache cache = cache_of(in, c.q);
    int place = IN(9) >= 0 ? IN(9) : cache.place;
    c.q = rotated(in, normed(in, split_heads(in, c.q, c.heads), IN(14), "q_norm_epsilon"), place);
    c.k = rotated(in, normed(in, split_heads(in, c.k, c.shared), IN(15), "k_norm_epsilon"), place);
    c.v = split_heads(in, c.v, c.shared);
    c.k = kept(in, &cache, 3, 12, c.k, 1), c.v = kept(in, &cache, 4, 13, c.v, 2);
    c.mask = group_mask(in, &cache, compose_type(in, c.q)->dtype);
    c.smooth = IN(11) >= 0 || attr_int(in->ctx, in->node, "smooth_softmax", 0) > 0;
    if (c.smooth)
        c.sink = IN(11) >= 0 ? compose_reshape(in, IN(11), (int64_t[]){-1, 1, 1}, 3)
                             : compose_number(in, c.q, 0);
    compose_result(in, 0, join_heads(in, attend(in, &c)));
}

/* ---- GatedRelativePositionBias --------------------------------------------------------------- */

/* rel_pos scaled by two gates of each query row. */
static void gated_bias_infer(Infer *in) {
    infer_arity(in, 6, 7);
    nn_ranked(in, 0, 3, 3);
    int q = split_heads(in, OP(in, "Add", IN(0), IN(1)), attr_heads(in, "num_heads"));
    int g = OP(in, "Add", OP(in, "MatMul", q, IN(3)), IN(4));
    g = compose_reshape(in, g, (int64_t[]){0, 0, 0, 2, -1}, 5);
    compose_int(in, "keepdims", 0);
    g = OP(in, "Sigmoid", OP(in, "ReduceSum", g, compose_vector(in, 4)));
    int u = compose_split(in, g, 3, 2), one = compose_number(in, g, 1);
    int r = OP(in, "Sub", OP(in, "Mul", u + 1, IN(5)), one);
    int gate = OP(in, "Add", OP(in, "Mul", u, r), compose_number(in, g, 2));
    compose_result(in, 0, OP(in, "Mul", gate, IN(2)));
}

const OpRow onnx_contrib_attention_rows[] = {
    COMPOSED("Attention", attention_infer, T_FLOATS),
    COMPOSED("QAttention", qattention_infer, "i8 u8"),
    COMPOSED("PackedAttention", packed_attention_infer, T_FLOATS),
    COMPOSED("PackedMultiHeadAttention", packed_multi_head_infer, T_FLOATS),
    COMPOSED("MultiHeadAttention", multi_head_infer, T_FLOATS),
    COMPOSED("DecoderMaskedMultiHeadAttention", decoder_masked_infer, T_FLOATS),
    COMPOSED("GroupQueryAttention", group_query_infer, T_FLOATS),
    COMPOSED("GatedRelativePositionBias", gated_bias_infer, T_FLOATS),
    {0},
};
