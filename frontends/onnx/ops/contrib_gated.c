/* SPDX-License-Identifier: Apache-2.0 */
/* Operators of com.microsoft for decoders with a recurrent state, gates and several residual
 * streams: gated norms, hyper-connections, GatedDeltaNet. Compositions; what is computed in f32
 * whatever the type is rounded once. */
#include "compose.h"

#include <math.h>
#include <string.h>

static int wide(Infer *in, int x) {
    return x < 0 ? -1 : compose_cast(in, x, F32);
}

static DType type_of(const Infer *in, int x) {
    return compose_type(in, x)->dtype;
}

static int same_shape(Infer *in, int x, int like) {
    return OP(in, "Reshape", x, OP(in, "Shape", like));
}

/* Rows along the last axis, normalised and scaled by `scale` (-1: not), which broadcasts. */
static int rms_norm(Infer *in, int x, int scale) {
    DType t = type_of(in, x);
    compose_float(in, "epsilon", attr_float(in->ctx, in->node, "epsilon", 1e-5f));
    int y = OP(in, "RMSNormalization", x, compose_constant(in, t, (double[]){1}, 1));
    return scale < 0 ? y : OP(in, "Mul", y, scale);
}

/* ---- gates ----------------------------------------------------------------------------------- */

/* One of the names of an activation of gates applied to x. */
static int gate_of(Infer *in, const char *name, int x) {
    if (!strcmp(name, "silu") || !strcmp(name, "swish")) return compose_silu(in, x, 1);
    if (!strcmp(name, "sigmoid")) return OP(in, "Sigmoid", x);
    fail(in->ctx, E_ATTRIBUTE, "attribute \"activation\" is \"%s\": use silu, swish or sigmoid",
         name);
}

/* Groups of as many elements as the scale has, each normalised. */
static void gated_rms_norm_infer(Infer *in) {
    int64_t size;
    infer_arity(in, 3, 3);
    if (!dim_is_const(nn_ranked(in, 1, 1, 1)->shape[0], &size) || size < 1)
        fail(in->ctx, E_UNSUPPORTED, "the size of the scale must be a number of at least 1");
    int groups = compose_reshape(in, wide(in, IN(0)), (int64_t[]){-1, size}, 2);
    int y = same_shape(in, rms_norm(in, groups, wide(in, IN(1))), IN(0));
    const char *name = attr_string(in->ctx, in->node, "activation", "silu");
    y = OP(in, "Mul", y, gate_of(in, name, wide(in, IN(2))));
    compose_result(in, 0, compose_cast(in, y, type_of(in, IN(0))));
}

static void gated_add_infer(Infer *in) {
    infer_arity(in, 3, 3);
    compose_result(in, 0, OP(in, "Add", IN(0), OP(in, "Mul", IN(1), IN(2))));
}

/* Every step is rounded to the type. */
static void scaled_silu_infer(Infer *in) {
    infer_arity(in, 1, 2);
    int scale = IN(1);
    if (scale < 0)
        scale = compose_number(in, IN(0), attr_float(in->ctx, in->node, "alpha", 1));
    else
        scale = compose_reshape(in, wide(in, scale), NULL, 0);
    DType t = type_of(in, IN(0));
    int z = compose_cast(in, OP(in, "Mul", wide(in, IN(0)), wide(in, scale)), t);
    compose_result(in, 0, compose_silu(in, z, 1));
}

static void linear_attention_gate_infer(Infer *in) {
    infer_arity(in, 3, 4);
    DType t = type_of(in, IN(0));
    int raw = OP(in, "Softplus", OP(in, "Add", wide(in, IN(0)), IN(1)));
    compose_result(in, 0, compose_cast(in, OP(in, "Mul", raw, IN(2)), t));
    if (IN(3) >= 0) compose_result(in, 1, compose_cast(in, OP(in, "Sigmoid", wide(in, IN(3))), t));
}

/* Keys and queries [batch, step, branch, size], one value for all branches. */
static void engram_gate_infer(Infer *in) {
    int64_t size;
    infer_arity(in, 5, 6);
    const Type *key = nn_ranked(in, 0, 4, 4);
    if (!dim_is_const(key->shape[3], &size))
        fail(in->ctx, E_UNSUPPORTED, "the hidden size is symbolic: make it a number");
    DType t = key->dtype;
    int k = rms_norm(in, wide(in, IN(0)), wide(in, IN(3))),
        q = rms_norm(in, wide(in, IN(1)), wide(in, IN(4)));
    int dot = OP(in, "ReduceSum", OP(in, "Mul", k, q), compose_vector(in, -1));
    dot = OP(in, "Mul", dot, compose_number(in, dot, 1 / sqrt((double)size)));
    int far = OP(in, "Max", OP(in, "Abs", dot), compose_number(in, dot, 1e-6));
    int gate = OP(in, "Sigmoid", OP(in, "Mul", OP(in, "Sign", dot), OP(in, "Sqrt", far)));
    int y = OP(in, "Mul", gate, compose_unsqueeze(in, wide(in, IN(2)), 2));
    compose_result(in, 0, compose_cast(in, y, t));
    if (IN(5) >= 0) compose_result(in, 1, compose_cast(in, rms_norm(in, y, wide(in, IN(5))), t));
}

/* gate * sigmoid(activation_alpha * gate) * (up + activation_beta), in f32; both clamped. `t`: the
 * type that what comes before the last product is rounded to, if at all. */
static int clamped_swiglu(Infer *in, int gate, int up, DType t) {
    float limit = attr_float(in->ctx, in->node, "limit", 0),
          beta = attr_float(in->ctx, in->node, "activation_beta", 0);
    int g = wide(in, gate), u = wide(in, up);
    if (limit > 0) {
        int most = compose_number(in, g, limit);
        g = OP(in, "Min", g, most);
        u = OP(in, "Clip", u, compose_number(in, u, -limit), most);
    }
    g = compose_silu(in, g, attr_float(in->ctx, in->node, "activation_alpha", 1));
    if (t != DT_NONE) g = wide(in, compose_cast(in, g, t));
    if (beta != 0) u = OP(in, "Add", u, compose_number(in, u, beta));
    return compose_cast(in, OP(in, "Mul", g, u), type_of(in, gate));
}

/* Both halves may be one operand. */
static void swiglu_infer(Infer *in) {
    infer_arity(in, 1, 2);
    int gate = IN(0), up = IN(1);
    if (up < 0) gate = compose_split(in, gate, -1, 2), up = gate + 1;
    bool rounds = attr_int(in->ctx, in->node, "round_activation", 0) != 0;
    compose_result(in, 0, clamped_swiglu(in, gate, up, rounds ? type_of(in, gate) : DT_NONE));
}

/* One product: scores of experts, and a shared expert's gate and value. */
static void router_gate_infer(Infer *in) {
    infer_arity(in, 2, 2);
    int64_t n = attr_int(in->ctx, in->node, "router_size", 0), all = compose_size(in, IN(1), 1);
    const char *name = attr_string(in->ctx, in->node, "activation", "swiglu");
    if (strcmp(name, "swiglu") != 0)
        fail(in->ctx, E_ATTRIBUTE, "attribute \"activation\" is \"%s\": use swiglu", name);
    if (n < 1 || n > all || (all - n) % 2)
        fail(in->ctx, E_ATTRIBUTE,
             "attribute \"router_size\" is %lld: of %lld columns an even number must be left",
             (long long)n, (long long)all);
    int x = OP(in, "MatMul", IN(0), IN(1));
    int sizes = compose_shape(in, (int64_t[]){n, (all - n) / 2, (all - n) / 2}, 3);
    compose_int(in, "axis", -1);
    int y = compose_op(in, "Split", (int[]){x, sizes}, 2, 3);
    compose_result(in, 0, y);
    compose_result(in, 1, clamped_swiglu(in, y + 1, y + 2, DT_NONE));
}

/* ---- streams --------------------------------------------------------------------------------- */

/* Streams as [..., branch, size]: flat ones by the attribute num_branches. */
static int grouped(Infer *in, int x) {
    int64_t n = attr_int(in->ctx, in->node, "num_branches", 0), flat[RANK_MAX] = {0};
    int rank = compose_type(in, x)->rank;
    if (rank < 1 + (n == 0) || rank >= RANK_MAX)
        fail(in->ctx, E_SHAPE, "operand \"%s\" has %d dims: give it branches and a size",
             in->graph->value.at[x].name, rank);
    if (n <= 0) return x;
    flat[rank - 1] = n, flat[rank] = -1;
    return compose_reshape(in, x, flat, rank + 1);
}

/* Gates of branches, or of all their elements, as [..., branch, 1 or size]. */
static int branch_gates(Infer *in, int gates, int streams) {
    int64_t n = attr_int(in->ctx, in->node, "num_branches", 0);
    const Type *g = compose_type(in, gates);
    if (g->rank == compose_type(in, streams)->rank) return gates;
    bool flat = n > 0 && g->rank > 0 && !dim_is(g->shape[g->rank - 1], n);
    return flat ? grouped(in, gates) : compose_unsqueeze(in, gates, -1);
}

static void pre_mix_infer(Infer *in) {
    infer_arity(in, 2, 2);
    DType t = infer_tensor(in, 0)->type.dtype;
    int x = grouped(in, IN(0)), g = branch_gates(in, IN(1), x);
    int y = OP(in, "Mul", wide(in, x), wide(in, g));
    compose_int(in, "keepdims", 0);
    y = OP(in, "ReduceSum", y, compose_vector(in, -2));
    y = OP(in, "Mul", y,
           compose_number(in, y, attr_float(in->ctx, in->node, "reduction_scale", 1)));
    compose_result(in, 0, compose_cast(in, y, t));
}

static void post_mix_infer(Infer *in) {
    infer_arity(in, 3, 4);
    DType t = infer_tensor(in, 0)->type.dtype;
    int x = grouped(in, IN(0)), g = wide(in, branch_gates(in, IN(2), x)), kept = wide(in, x);
    if (IN(3) >= 0) {
        int64_t perm[RANK_MAX];
        int rank = infer_tensor(in, 3)->type.rank;
        for (int i = 0; i < rank; i++) perm[i] = i < rank - 2 ? i : 2 * rank - 3 - i;
        kept = OP(in, "MatMul", compose_transpose(in, wide(in, IN(3)), perm, rank), kept);
    }
    int branch = OP(in, "Mul", g, compose_unsqueeze(in, wide(in, IN(1)), -2));
    int y = same_shape(in, OP(in, "Add", kept, branch), IN(0));
    compose_result(in, 0, compose_cast(in, y, t));
}

static void branchwise_norm_infer(Infer *in) {
    infer_arity(in, 1, 2);
    DType t = infer_tensor(in, 0)->type.dtype;
    int x = wide(in, grouped(in, IN(0))), scale = wide(in, IN(1));
    const Type *rows = compose_type(in, x), *given = scale < 0 ? NULL : compose_type(in, scale);
    if (given && given->rank == 1 && given->shape[0] != rows->shape[rows->rank - 1])
        scale = compose_reshape(in, scale, (int64_t[]){-1, compose_size(in, x, rows->rank - 1)}, 2);
    int y = same_shape(in, rms_norm(in, x, scale), IN(0));
    compose_result(in, 0, compose_cast(in, y, t));
}

/* x times a number, in f32 and rounded to x's type. */
static int scaled(Infer *in, int x, double by) {
    int y = wide(in, x);
    return compose_cast(in, OP(in, "Mul", y, compose_number(in, y, by)), type_of(in, x));
}

/* Streams normalised, the last block's output added before; gates of their elements by a product of
 * low rank mix them to one, gates of the streams come from another product. */
static void low_rank_mix_infer(Infer *in) {
    infer_arity(in, 5, 7);
    const Node *node = in->node;
    DType t = infer_tensor(in, 0)->type.dtype;
    int64_t n = attr_int(in->ctx, node, "num_branches", 0);
    float divisor = attr_float(in->ctx, node, "gate_div", 1);
    if (n < 1 || divisor == 0)
        fail(in->ctx, E_ATTRIBUTE, "\"num_branches\" must be at least 1, \"gate_div\" not 0");
    int s = grouped(in, IN(0)), size = compose_extents(in, s, -1, INT64_MAX);
    if (IN(5) >= 0 && IN(6) >= 0) {
        int more = OP(in, "Mul", wide(in, compose_unsqueeze(in, IN(6), -1)),
                      wide(in, compose_unsqueeze(in, IN(5), -2)));
        s = compose_cast(in, OP(in, "Add", wide(in, s), more), t);
    }
    compose_int(in, "axis", 0);
    int each = OP(in, "Concat", compose_vector(in, n), size);
    int scale = OP(in, "Reshape", wide(in, IN(1)), each);
    int hn = compose_cast(in, rms_norm(in, wide(in, s), scale), t),
        flat = same_shape(in, hn, IN(0));
    int z = scaled(in, OP(in, "MatMul", flat, IN(2)), attr_float(in->ctx, node, "silu_alpha", 1));
    int g = OP(in, "Sigmoid", OP(in, "MatMul", compose_silu(in, z, 1), IN(3)));
    int mixed = OP(in, "Mul", wide(in, hn), wide(in, same_shape(in, g, hn)));
    compose_int(in, "keepdims", 0);
    mixed = OP(in, "ReduceSum", mixed, compose_vector(in, -2));
    float by = attr_float(in->ctx, node, "reduction_scale", 1);
    compose_result(in, 0, compose_cast(in, scaled(in, mixed, by), t));
    int gate = wide(in, OP(in, "MatMul", flat, IN(4)));
    gate = compose_cast(in, OP(in, "Div", gate, compose_number(in, gate, divisor)), t);
    float times = attr_float(in->ctx, node, "gate_mul", 1);
    compose_result(in, 1, scaled(in, OP(in, "Sigmoid", gate), times));
    compose_result(in, 2, same_shape(in, s, IN(0)));
}

/* ---- recurrences ----------------------------------------------------------------------------- */

/* A state [.., batch, channel, place] with channels last, as the input has them. */
static int channels_last(Infer *in, int state) {
    int64_t turn[] = {0, 1, 2, 3};
    int n = compose_type(in, state)->rank, rank = compose_type(in, IN(0))->rank;
    turn[n - 2] = n - 1, turn[n - 1] = n - 2;
    state = compose_transpose(in, state, turn, n);
    int head = compose_extents(in, state, 0, n - 1), tail = compose_extents(in, IN(0), 2, rank);
    compose_int(in, "axis", 0);
    return OP(in, "Reshape", state, OP(in, "Concat", head, tail));
}

/* All channels, the last dims from `from` on, as the dim before the last. */
static int channels_first(Infer *in, int x, int from) {
    int64_t flat[] = {0, 0, 0, -1}, turn[] = {0, 1, 2, 3};
    flat[from] = -1, turn[from] = from - 1, turn[from - 1] = from;
    return compose_transpose(in, compose_reshape(in, x, flat, from + 1), turn, from + 1);
}

/* The convolution of ai.onnx, maybe with channels last, taps apart, or a window of states. */
static void causal_conv_infer(Infer *in) {
    static const char *const names[] = {"activation", "dilation", "state_window"};
    infer_arity(in, 2, 4);
    bool last = attr_int(in->ctx, in->node, "channels_last", 0) != 0;
    int window = attr_int(in->ctx, in->node, "state_window", 0) > 0, x = IN(0), past = IN(3);
    nn_ranked(in, 0, 3, last ? RANK_MAX - 1 : 3);
    if (last) x = channels_first(in, x, 2);
    if (last && past >= 0) past = channels_first(in, past, 2 + window);
    for (int i = 0; i < 3; i++) compose_attr(in, names[i], names[i]);
    int y = compose_op(in, "CausalConvWithState", (int[]){x, IN(1), IN(2), past}, 4, 2);
    int flat = last ? compose_transpose(in, y, (int64_t[]){0, 2, 1}, 3) : y;
    compose_result(in, 0, last ? same_shape(in, flat, IN(0)) : flat);
    compose_result(in, 1, last ? channels_last(in, y + 1) : y + 1);
}

/* Requests one after the other, channels last: a tap reads rows of its own request. */
static void packed_conv_infer(Infer *in) {
    infer_arity(in, 3, 8);
    nn_ranked(in, 0, 2, 2), nn_ranked(in, 1, 3, 3), nn_ranked(in, 2, 1, 1), nn_ranked(in, 4, 3, 3);
    int64_t taps = compose_size(in, IN(1), 2), far = attr_int(in->ctx, in->node, "dilation", 1);
    if (taps < 2 || taps > 4096 || far < 1 || far > 4096)
        fail(in->ctx, E_UNSUPPORTED, "a kernel has 2 .. 4096 taps, 1 .. 4096 apart");
    double *back = NEW_ARRAY(in->arena, double, taps);
    for (int64_t i = 0; i < taps; i++) back[i] = (double)((taps - 1 - i) * far);
    const char *name = attr_string(in->ctx, in->node, "activation", "none");
    ComposeRequests r = compose_requests(in, IN(0), IN(2), (taps - 1) * far);
    int last = compose_transpose(in, IN(4), (int64_t[]){0, 2, 1}, 3),
        width = compose_extents(in, IN(0), 1, 2);
    compose_int(in, "axis", 0);
    int shape = OP(in, "Concat", r.past, width), past = OP(in, "Reshape", last, shape);
    compose_int(in, "axis", 0);
    int rows = OP(in, "Concat", past, IN(0));
    int at = OP(in, "Sub", compose_unsqueeze(in, r.token, 1),
                compose_constant(in, I64, back, (int)taps));
    int x =
        OP(in, "Gather", rows, compose_history(in, &r, at, compose_unsqueeze(in, r.request, 1)));
    int w = compose_transpose(in, IN(1), (int64_t[]){1, 2, 0}, 3);
    int y = OP(in, "Mul", wide(in, x), wide(in, w));
    compose_int(in, "keepdims", 0);
    y = compose_add(in, OP(in, "ReduceSum", y, compose_vector(in, 1)), wide(in, IN(3)));
    if (strcmp(name, "none") != 0) y = gate_of(in, name, y);
    compose_result(in, 0, compose_cast(in, y, type_of(in, IN(0))));
    int end = OP(in, "Gather", rows, compose_last(in, &r));
    compose_result(in, 1, compose_transpose(in, end, (int64_t[]){0, 2, 1}, 3));
}

/* ---- GatedDeltaNet --------------------------------------------------------------------------- */

/* Query, key and value [token, head, size]; their heads' numbers and sizes. */
typedef struct Delta {
    int x[3];
    int64_t heads, value_heads, size, value_size;
} Delta;

/* Tokens of all sequences, or [batch, step], as [batch, step, rest]. */
static int by_sequence(Infer *in, int x, int batch, int64_t rest) {
    if (x < 0) return -1;
    compose_int(in, "axis", 0);
    int shape = OP(in, "Concat", batch, compose_shape(in, (int64_t[]){-1, rest}, 2));
    return OP(in, "Reshape", x, shape);
}

/* One operand holds all three, one after the other along the last axis. */
static Delta unpacked(Infer *in) {
    const Type *state = nn_ranked(in, 6, 4, 4);
    Delta d = {.value_heads = compose_size(in, IN(6), 1),
               .value_size = compose_size(in, IN(6), 2),
               .size = compose_size(in, IN(6), 3)};
    int64_t all = compose_size(in, IN(0), infer_tensor(in, 0)->type.rank - 1),
            values = d.value_heads * d.value_size;
    d.heads = (all - values) / (2 * d.size);
    if (state->rank != 4 || d.heads < 1 || 2 * d.heads * d.size + values != all)
        fail(in->ctx, E_SHAPE, "operand \"%s\" does not hold queries, keys and values of the state",
             infer_tensor(in, 0)->name);
    compose_int(in, "axis", -1);
    int sizes = compose_shape(in, (int64_t[]){d.heads * d.size, d.heads * d.size, values}, 3);
    int y = compose_op(in, "Split", (int[]){IN(0), sizes}, 2, 3);
    for (int i = 0; i < 3; i++) d.x[i] = y + i;
    return d;
}

static Delta delta_of(Infer *in) {
    if (IN(1) < 0) return unpacked(in);
    int q = infer_tensor(in, 0)->type.rank, v = infer_tensor(in, 2)->type.rank;
    nn_ranked(in, 0, 3, 4), nn_ranked(in, 2, 3, 4);
    return (Delta){.x = {IN(0), IN(1), IN(2)},
                   .heads = compose_size(in, IN(0), q - 2),
                   .size = compose_size(in, IN(0), q - 1),
                   .value_heads = compose_size(in, IN(2), v - 2),
                   .value_size = compose_size(in, IN(2), v - 1)};
}

/* Each head's vector by its length. */
static int unit_rows(Infer *in, int x, const Delta *d) {
    if (!attr_int(in->ctx, in->node, "qk_l2_norm", 0)) return x;
    int rows = compose_reshape(in, wide(in, x), (int64_t[]){0, 0, d->heads, d->size}, 4);
    int sum = OP(in, "ReduceSum", OP(in, "Mul", rows, rows), compose_vector(in, -1));
    sum = OP(in, "Sqrt", OP(in, "Add", sum, compose_number(in, sum, 1e-6)));
    return compose_cast(in, same_shape(in, OP(in, "Div", rows, sum), x), type_of(in, x));
}

/* The logarithm of a decay: as it is given, -exp(a_log) softplus(raw + bias), or a bound by a
 * sigmoid. */
static int decay_of(Infer *in) {
    const char *name = attr_string(in->ctx, in->node, "gate_activation", "none");
    int raw = wide(in, IN(4));
    if (raw < 0 || !strcmp(name, "none")) return raw;
    bool bounded = !strcmp(name, "sigmoid") || !strcmp(name, "kda");
    if (!bounded && strcmp(name, "qwen") != 0 && strcmp(name, "softplus") != 0)
        fail(in->ctx, E_ATTRIBUTE,
             "attribute \"gate_activation\" is \"%s\": use none, softplus, qwen, sigmoid or kda",
             name);
    int rate = OP(in, "Exp", IN(7)), shifted = compose_add(in, raw, IN(8));
    if (!bounded) return OP(in, "Neg", OP(in, "Mul", rate, OP(in, "Softplus", shifted)));
    int gate = OP(in, "Sigmoid", OP(in, "Mul", rate, shifted));
    float bound = attr_float(in->ctx, in->node, "gate_lower_bound", -5);
    return OP(in, "Mul", gate, compose_number(in, gate, bound));
}

/* Each head as often as value heads share it: [batch, step, value head * size]. */
static int shared_heads(Infer *in, int x, const Delta *d) {
    int64_t times = d->value_heads / d->heads;
    if (times == 1) return x;
    int one = compose_reshape(in, x, (int64_t[]){0, 0, d->heads, 1, d->size}, 5);
    int more = OP(in, "Expand", one, compose_shape(in, (int64_t[]){times, 1}, 2));
    return compose_reshape(in, more, (int64_t[]){0, 0, -1}, 3);
}

/* LinearAttention over sequences of one length; states have the value's dim first. */
static void gated_delta_net_infer(Infer *in) {
    infer_tensor(in, 6);
    Delta d = delta_of(in);
    if (d.value_heads % d.heads)
        fail(in->ctx, E_SHAPE, "%lld heads of values are no multiple of %lld of keys",
             (long long)d.value_heads, (long long)d.heads);
    const int64_t turn[] = {0, 1, 3, 2};
    int batch = compose_extents(in, IN(6), 0, 1), decay = decay_of(in), beta = wide(in, IN(5));
    int heads = infer_tensor(in, 0)->type.rank - 1 - (IN(1) >= 0); /* the dim of heads */
    bool each = decay >= 0 && compose_type(in, decay)->rank > heads + 1;
    if (beta >= 0 && !strcmp(attr_string(in->ctx, in->node, "beta_activation", "none"), "sigmoid"))
        beta = OP(in, "Sigmoid", beta);
    int operand[] = {
        unit_rows(in, by_sequence(in, d.x[0], batch, d.heads * d.size), &d),
        shared_heads(in, unit_rows(in, by_sequence(in, d.x[1], batch, d.heads * d.size), &d), &d),
        by_sequence(in, d.x[2], batch, d.value_heads * d.value_size),
        compose_transpose(in, IN(6), turn, 4),
        by_sequence(in, decay, batch, d.value_heads * (each ? d.size : 1)),
        by_sequence(in, beta, batch, d.value_heads)};
    compose_attr(in, "update_rule", "update_rule");
    compose_attr(in, "scale", "scale");
    compose_int(in, "q_num_heads", d.heads);
    compose_int(in, "kv_num_heads", d.value_heads);
    int y = compose_op(in, "LinearAttention", operand, 6, 2),
        lead = compose_extents(in, IN(0), 0, heads);
    int tail = compose_shape(in, (int64_t[]){d.value_heads, d.value_size}, 2);
    compose_int(in, "axis", 0);
    compose_result(in, 0, OP(in, "Reshape", y, OP(in, "Concat", lead, tail)));
    compose_result(in, 1, compose_transpose(in, y + 1, turn, 4));
}

const OpRow onnx_contrib_gated_rows[] = {
    COMPOSED("GatedRMSNorm", gated_rms_norm_infer, T_FLOATS),
    COMPOSED("SwiGLU", swiglu_infer, T_FLOATS),
    COMPOSED("RouterGateUpProj", router_gate_infer, T_FLOATS),
    COMPOSED("HyperConnectionLowRankMix", low_rank_mix_infer, T_FLOATS),
    COMPOSED("VarlenCausalConvWithState", packed_conv_infer, T_FLOATS),
    COMPOSED("GatedAdd", gated_add_infer, T_FLOATS),
    COMPOSED("ScaledSiLU", scaled_silu_infer, T_FLOATS),
    COMPOSED("LinearAttentionGate", linear_attention_gate_infer, T_FLOATS),
    COMPOSED("EngramGate", engram_gate_infer, T_FLOATS),
    COMPOSED("HyperConnectionPreMix", pre_mix_infer, T_FLOATS),
    COMPOSED("HyperConnectionPostMix", post_mix_infer, T_FLOATS),
    COMPOSED("BranchwiseRMSNorm", branchwise_norm_infer, T_FLOATS),
    COMPOSED("GatedDeltaNet", gated_delta_net_infer, T_FLOATS),
    COMPOSED("CausalConvWithState", causal_conv_infer, T_FLOATS),
    {0},
};
