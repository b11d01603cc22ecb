/* SPDX-License-Identifier: Apache-2.0 */
/* Attention operators of com.microsoft, as Attention of ai.onnx with what stands around it:
 * projections, biases, masks of many forms, rotations, caches. Masked scores get
 * mask_filter_value added, so that a row without any key is what it is in the original. */
#include "compose.h"

#include <math.h>
#include <string.h>

static int ones(Infer *in, int64_t v) {
    return compose_shape(in, &v, 1);
}

/* Extent `axis` of x, as a vector of one. */
static int extent(Infer *in, int x, int64_t axis) {
    return compose_extents(in, x, axis, axis + 1);
}

static int scalar(Infer *in, int x) {
    return OP(in, "Squeeze", x);
}

/* 0, 1, ... n - 1 */
static int range(Infer *in, int n) {
    int64_t zero = 0, one = 1;
    return OP(in, "Range", compose_shape(in, &zero, -1), scalar(in, n),
              compose_shape(in, &one, -1));
}

static int unsqueezed(Infer *in, int x, const int64_t *axes, int n) {
    return OP(in, "Unsqueeze", x, compose_shape(in, axes, n));
}

static int part(Infer *in, int x, int64_t axis, int from, int to) {
    return OP(in, "Slice", x, from, to, ones(in, axis));
}

static int64_t width(Infer *in, int x) {
    int64_t n = -1;
    const Type *t = compose_type(in, x);
    if (!dim_is_const(t->shape[t->rank - 1], &n))
        fail(in->ctx, E_UNSUPPORTED, "the last dim of \"%s\" is symbolic: make it a number",
             in->graph->value.at[x].name);
    return n;
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
        int j = range(in, total), ends = mask;
        bool starts = type->shape[0] == dim_mulc(in->ctx, batch, 2);
        if (!starts && type->shape[0] != batch)
            fail(in->ctx, E_UNSUPPORTED,
                 "mask \"%s\" of type %s is of a form that is not known: give one of two dims",
                 in->graph->value.at[mask].name, type_str(in->ctx, type));
        if (starts) {
            compose_int(in, "axis", 0);
            compose_int(in, "num_outputs", 2);
            ends = compose_op(in, "Split", &mask, 1, 2);
        }
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
        seen = part(in, seen, 2, OP(in, "Sub", total, steps), total);
        seen = part(in, seen, 3, ones(in, 0), total);
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
} Core;

/* y with its rows' shares of a softmax that has the sink's score, too: e^l / (e^l + e^sink), l
 * being the logarithm of the sum without it. */
static int sunk(Infer *in, const Core *c, int y, int scores) {
    int64_t last = -1;
    int l = OP(in, "ReduceLogSumExp", scores, compose_shape(in, &last, 1));
    return OP(in, "Mul", y, OP(in, "Sigmoid", OP(in, "Sub", l, c->sink)));
}

/* Its result and, after it, keys and values with the past, unless it is smooth. */
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
    if (!c->smooth) return compose_op(in, "Attention", operand, 6, 3);
    compose_int(in, "qk_matmul_output_mode", 2);
    int y = compose_op(in, "Attention", operand, 6, 4);
    return sunk(in, c, y, y + 3);
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
    if (past < 0) return -1;
    compose_int(in, "axis", 0);
    return OP(in, "Gather", past, compose_shape(in, &which, -1));
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

/* Tokens of sequences without padding, [token, width]; `token_offset` [batch, step] says where each
 * stands among all places, those of tokens first. */
static void packed_attention_infer(Infer *in) {
    infer_arity(in, 5, 6);
    int x = compose_add(in, OP(in, "MatMul", IN(0), IN(1)), IN(2)), part[3];
    const int64_t *sizes = NULL;
    int n = attr_ints(in->ctx, in->node, "qkv_hidden_sizes", &sizes);
    DType t = compose_type(in, x)->dtype;
    double filter[] = {-INFINITY}, none = 0;
    int count = extent(in, IN(0), 0), batch = extent(in, IN(3), 0), steps = extent(in, IN(3), 1);
    int zero = ones(in, 0), one = ones(in, 1),
        all = compose_reshape(in, compose_cast(in, IN(3), I64), (int64_t[]){-1}, 1);
    int places = OP(in, "Slice", all, zero, count), row = ones(in, width(in, x));
    int total = OP(in, "Mul", batch, steps);
    compose_int(in, "axis", 0);
    int shape = OP(in, "Concat", total, row);
    int room = OP(in, "Expand", compose_constant(in, t, &none, -1), shape);
    room = OP(in, "ScatterND", room, OP(in, "Unsqueeze", places, one), x);
    compose_int(in, "axis", 0);
    shape = OP(in, "Concat", batch, steps, row);
    split_three(in, OP(in, "Reshape", room, shape), n == 3 ? sizes : NULL, part);
    int ends = compose_cast(in, IN(4), I64);
    int length = OP(in, "Sub", OP(in, "Slice", ends, one, ones(in, INT64_MAX)),
                    OP(in, "Slice", ends, zero, ones(in, -1)));
    int seen = OP(in, "Less", range(in, steps), unsqueezed(in, length, (int64_t[]){1, 2, 3}, 3));
    Core c = {.q = part[0], .k = part[1], .v = part[2], .past_k = -1, .past_v = -1};
    c.heads = c.shared = attr_heads(in, "num_heads");
    c.mask = OP(in, "Where", seen, IN(5) >= 0 ? IN(5) : compose_constant(in, t, &none, -1),
                compose_constant(in, t, filter, -1));
    int y = attend(in, &c);
    y = compose_reshape(in, y, (int64_t[]){-1, width(in, y)}, 2);
    compose_int(in, "axis", 0);
    compose_result(in, 0, OP(in, "Gather", y, places));
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
        end = from + width(in, *to[i]);
        *to[i] = OP(in, "Add", *to[i], part(in, bias, 0, ones(in, from), ones(in, end)));
    }
}

/* Which operand is what: the two operators have other orders. */
typedef struct Operands {
    int mask, bias_added, past_k, past_v, bias;
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
    Dim batch = compose_type(in, c.q)->shape[0];
    int steps = extent(in, c.q, 1);
    bool by_heads = compose_type(in, c.k)->rank == 4;
    if (by_heads) c.q = split_heads(in, c.q, c.heads);
    c.mask = IN(o->bias_added);
    if (IN(o->mask) >= 0)
        c.mask = compose_add(in, c.mask,
                             added_mask(in, IN(o->mask), compose_type(in, c.q)->dtype, batch, steps,
                                        total_of(in, c.k, c.past_k)));
    int y = attend(in, &c);
    compose_result(in, 0, by_heads ? join_heads(in, y) : y);
    compose_result(in, 1, y + 1);
    compose_result(in, 2, y + 2);
}

static void multi_head_infer(Infer *in) {
    infer_arity(in, 1, 10);
    nn_ranked(in, 0, 3, 5);
    multi_head(in, &(Operands){.bias = 3, .mask = 4, .bias_added = 5, .past_k = 6, .past_v = 7});
}

static void decoder_masked_infer(Infer *in) {
    infer_arity(in, 1, 11);
    nn_ranked(in, 0, 3, 3);
    multi_head(in, &(Operands){.mask = 3, .bias_added = 4, .past_k = 5, .past_v = 6, .bias = 10});
}

/* ---- rotary ---------------------------------------------------------------------------------- */

/* `place`: [batch, step], or an offset of one element for all. */
static void rotary_infer(Infer *in) {
    infer_arity(in, 4, 4);
    const Type *x = nn_ranked(in, 0, 3, 4);
    int place = IN(1), step = x->rank - 2;
    int64_t heads = attr_int(in->ctx, in->node, "num_heads", 0);
    if (nn_ranked(in, 1, 1, 2)->rank == 1) {
        int batch = extent(in, IN(0), 0), steps = extent(in, IN(0), step);
        place = OP(in, "Add", range(in, steps), place);
        compose_int(in, "axis", 0);
        place = OP(in, "Expand", place, OP(in, "Concat", batch, steps));
    }
    if (x->rank == 3)
        compose_int(in, "num_heads", heads ? heads : width(in, IN(0)) / (2 * width(in, IN(2))));
    compose_attr(in, "interleaved", "interleaved");
    compose_attr(in, "rotary_embedding_dim", "rotary_embedding_dim");
    int y = OP(in, "RotaryEmbedding", IN(0), IN(2), IN(3), place);
    float scale = attr_float(in->ctx, in->node, "scale", 1);
    compose_result(in, 0, scale == 1 ? y : OP(in, "Mul", y, compose_number(in, y, scale)));
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
    ends = OP(in, "Add", ends, compose_shape(in, &one, -1));
    c.before = OP(in, "Max", OP(in, "Sub", ends, steps), compose_shape(in, &zero, -1));
    c.place = OP(in, "Add", unsqueezed(in, c.before, (int64_t[]){1}, 1), range(in, steps));
    c.total = compose_reshape(in, compose_cast(in, IN(6), I64), (int64_t[]){1}, 1);
    if (IN(3) >= 0) c.total = OP(in, "Max", c.total, extent(in, IN(3), 2));
    return c;
}

/* New rows by heads, [batch, head, step, size], behind the past's. */
static int cached(Infer *in, const Cache *c, int past, int now) {
    int64_t zero = 0;
    int room = past >= 0 ? past : now;
    int more = OP(in, "Sub", c->total, extent(in, room, 2)), last = compose_shape(in, &zero, 1);
    int none = compose_constant(in, I64, (double[]){0, 0, 0, 0, 0, 0}, 6);
    compose_int(in, "axis", 0);
    int pads = OP(in, "Concat", none, more, last);
    room = OP(in, "Pad", room, pads);
    if (past < 0) return room;
    compose_int(in, "axis", 2);
    return OP(in, "TensorScatter", room, now, c->before);
}

static int normed(Infer *in, int x, int weight) {
    if (weight < 0) return x;
    compose_float(in, "epsilon", attr_float(in->ctx, in->node, "qk_norm_epsilon", 1e-6f));
    return OP(in, "RMSNormalization", x, weight);
}

static int rotated(Infer *in, int x, int place) {
    if (!attr_int(in->ctx, in->node, "do_rotary", 0)) return x;
    compose_attr(in, "interleaved", "rotary_interleaved");
    int64_t turned = 2 * width(in, IN(7));
    if (turned < width(in, x)) compose_int(in, "rotary_embedding_dim", turned);
    return OP(in, "RotaryEmbedding", x, IN(7), IN(8), place);
}

/* What each new row may see, bool [batch, 1, step, total]; or the bias where it may. */
static int group_mask(Infer *in, const Cache *c, DType t) {
    double never = -INFINITY;
    int row = unsqueezed(in, c->place, (int64_t[]){1, 3}, 2), j = range(in, c->total);
    int64_t window = attr_int(in->ctx, in->node, "local_window_size", -1);
    if (!attr_int(in->ctx, in->node, "causal", 1)) row = OP(in, "ReduceMax", row, ones(in, 2));
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
        int64_t size = width(in, c.q) / (c.heads + 2 * c.shared);
        int to[3];
        split_three(in, c.q, (int64_t[]){c.heads * size, c.shared * size, c.shared * size}, to);
        c.q = to[0], c.k = to[1], c.v = to[2];
    }
    Cache cache = cache_of(in, c.q);
    int place = IN(9) >= 0 ? IN(9) : cache.place;
    c.q = rotated(in, normed(in, split_heads(in, c.q, c.heads), IN(14)), place);
    c.k = rotated(in, normed(in, split_heads(in, c.k, c.shared), IN(15)), place);
    c.v = split_heads(in, c.v, c.shared);
    c.k = cached(in, &cache, IN(3), c.k), c.v = cached(in, &cache, IN(4), c.v);
    c.mask = group_mask(in, &cache, compose_type(in, c.q)->dtype);
    c.smooth = IN(11) >= 0 || attr_int(in->ctx, in->node, "smooth_softmax", 0) > 0;
    if (c.smooth)
        c.sink = IN(11) >= 0 ? compose_reshape(in, IN(11), (int64_t[]){-1, 1, 1}, 3)
                             : compose_number(in, c.q, 0);
    compose_result(in, 0, join_heads(in, attend(in, &c)));
    compose_result(in, 1, c.k);
    compose_result(in, 2, c.v);
}

/* ---- biases ---------------------------------------------------------------------------------- */

/* T5's: distances in buckets, exact when small, logarithmic up to max_distance. */
static void relative_bias_infer(Infer *in) {
    infer_arity(in, 3, 3);
    Ctx *ctx = in->ctx;
    int64_t both = attr_int(ctx, in->node, "is_bidirectional", 0), n,
            most = attr_int(ctx, in->node, "max_distance", 128);
    if (!dim_is_const(nn_ranked(in, 0, 2, 2)->shape[0], &n) || n < 2)
        fail(ctx, E_UNSUPPORTED, "the number of buckets must be constant and at least 2");
    int q = range(in, compose_reshape(in, compose_cast(in, IN(1), I64), (int64_t[]){1}, 1));
    int k = range(in, compose_reshape(in, compose_cast(in, IN(2), I64), (int64_t[]){1}, 1));
    int far = OP(in, "Sub", k, unsqueezed(in, q, (int64_t[]){1}, 1)),
        zero = compose_number(in, far, 0);
    int first = -1;
    if (both) {
        n /= 2;
        first = OP(in, "Mul", compose_cast(in, OP(in, "Greater", far, zero), I64),
                   compose_number(in, far, (double)n));
        far = OP(in, "Abs", far);
    } else {
        far = OP(in, "Neg", OP(in, "Min", far, zero));
    }
    int64_t exact = n / 2;
    double rate = (double)(n - exact) / log((double)most / (double)exact);
    int f = compose_cast(in, OP(in, "Max", far, compose_number(in, far, 1)), F32);
    f = OP(in, "Log", OP(in, "Div", f, compose_number(in, f, (double)exact)));
    int log_bucket = compose_cast(in, OP(in, "Mul", f, compose_number(in, f, rate)), I64);
    log_bucket = OP(in, "Add", log_bucket, compose_number(in, far, (double)exact));
    log_bucket = OP(in, "Min", log_bucket, compose_number(in, far, (double)(n - 1)));
    int small = OP(in, "Less", far, compose_number(in, far, (double)exact));
    int bucket = compose_add(in, first, OP(in, "Where", small, far, log_bucket));
    int y = compose_transpose(in, OP(in, "Gather", IN(0), bucket), (int64_t[]){2, 0, 1}, 3);
    compose_result(in, 0, unsqueezed(in, y, (int64_t[]){0}, 1));
}

/* rel_pos scaled by two gates of each query row. */
static void gated_bias_infer(Infer *in) {
    infer_arity(in, 6, 7);
    nn_ranked(in, 0, 3, 3);
    int q = split_heads(in, OP(in, "Add", IN(0), IN(1)), attr_heads(in, "num_heads"));
    int g = OP(in, "Add", OP(in, "MatMul", q, IN(3)), IN(4));
    g = compose_reshape(in, g, (int64_t[]){0, 0, 0, 2, -1}, 5);
    compose_int(in, "keepdims", 0);
    g = OP(in, "Sigmoid", OP(in, "ReduceSum", g, ones(in, 4)));
    compose_int(in, "axis", 3);
    compose_int(in, "num_outputs", 2);
    int u = compose_op(in, "Split", &g, 1, 2), one = compose_number(in, g, 1);
    int r = OP(in, "Sub", OP(in, "Mul", u + 1, IN(5)), one);
    int gate = OP(in, "Add", OP(in, "Mul", u, r), compose_number(in, g, 2));
    compose_result(in, 0, OP(in, "Mul", gate, IN(2)));
}

const OpRow onnx_contrib_attention_rows[] = {
    COMPOSED("Attention", attention_infer, T_FLOATS),
    COMPOSED("QAttention", qattention_infer, "i8 u8"),
    COMPOSED("PackedAttention", packed_attention_infer, T_FLOATS),
    COMPOSED("MultiHeadAttention", multi_head_infer, T_FLOATS),
    COMPOSED("DecoderMaskedMultiHeadAttention", decoder_masked_infer, T_FLOATS),
    COMPOSED("GroupQueryAttention", group_query_infer, T_FLOATS),
    COMPOSED("RotaryEmbedding", rotary_infer, T_FLOATS),
    COMPOSED("RelativePositionBias", relative_bias_infer, T_FLOATS),
    COMPOSED("GatedRelativePositionBias", gated_bias_infer, T_FLOATS),
    {0},
};
