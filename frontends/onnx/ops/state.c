/* SPDX-License-Identifier: Apache-2.0 */
/* LinearAttention and CausalConvWithState: layers that carry a state from call to call. */
#include "nn.h"

#include <math.h>
#include <string.h>

/* ---- LinearAttention ---------------------------------------------------------------------------
 *
 * A step decays the state [d,e] of each key head, adds the outer product of key and value (in the
 * delta rules of what the state does not yet say about the key), and reads it by the queries of the
 * group. */

/* A past of several calls' last steps is one dim more, in front; its last is where to go on. */
static int64_t attr_window(Ctx *ctx, const Node *node) {
    int64_t n = attr_int(ctx, node, "state_window", 0);
    if (n < 0 || n > 8)
        fail(ctx, E_ATTRIBUTE, "attribute \"state_window\" is %lld: it must be 0 .. 8",
             (long long)n);
    return n;
}

/* Dims of a state in its operand and result: the window's before its own. */
static int windowed(Ctx *ctx, int64_t window, const Dim *own, int n, Dim *to) {
    if (window) *to++ = dim_const(ctx, window);
    memcpy(to, own, sizeof(Dim) * (size_t)n);
    return n + (window > 0);
}

/* A value of step at - window of a call, 0 before its first. */
static int from_call(Map *m, Dim step, int val) {
    return EXPR(m, "select($0 >= 0, $1, 0.0)", body_index(&m->body, step), val);
}

enum { QUERY_IN, KEY_IN, VALUE_IN, STATE_IN, DECAY_IN, BETA_IN };

typedef struct Linear {
    Dim B, T, hq, hk, d, e;
    Dim heads;      /* of the result: the more of those of queries and of keys */
    int64_t window; /* how many last states the past and the result hold; 0: one, without a dim */
    bool gated, delta;
    int in[6];
    int s, value; /* containers: state [T+1,B,hk,d,e]; what a step writes [B,hk,e] */
    Dim t;
    DType type;
} Linear;

static Linear linear_of(Ctx *ctx, const Node *node, const Shape *q, const Shape *v) {
    int64_t hq = attr_int(ctx, node, "q_num_heads", 0), hk = attr_int(ctx, node, "kv_num_heads", 0);
    const char *rule = attr_string(ctx, node, "update_rule", "gated_delta");
    if (hq < 1 || hk < 1 || (hq % hk && hk % hq))
        fail(ctx, E_ATTRIBUTE,
             "attributes \"q_num_heads\" %lld and \"kv_num_heads\" %lld must be given, one a "
             "multiple of the other",
             (long long)hq, (long long)hk);
    Linear l = {.B = q->at[0], .T = q->at[1], .hq = dim_const(ctx, hq), .hk = dim_const(ctx, hk)};
    l.heads = dim_max(ctx, l.hq, l.hk);
    l.window = attr_window(ctx, node);
    l.d = dim_div(ctx, q->at[2], l.hq), l.e = dim_div(ctx, v->at[2], l.hk);
    l.gated = !strncmp(rule, "gated", 5);
    l.delta = !strcmp(rule, "delta") || !strcmp(rule, "gated_delta");
    if (!l.delta && strcmp(rule, "gated") != 0 && strcmp(rule, "linear") != 0)
        fail(ctx, E_ATTRIBUTE,
             "attribute \"update_rule\" is \"%s\": use linear, gated, delta or gated_delta", rule);
    return l;
}

/* All dims of operand i but the last are those of the query, if it is there. */
static void agree_steps(const Infer *in, int i, const Type *q) {
    if (!infer_in(in, i)) return;
    const Type *t = nn_ranked(in, i, 3, 3);
    for (int k = 0; k < 2; k++)
        nn_agree(in, t->shape[k], q->shape[k], i, 0,
                 "batch and steps (dims 0 and 1) must be those of the query");
}

/* How many numbers an operand gives for `each` of something: one for each, or one for all. */
static Dim given_for(Ctx *ctx, Dim given, Dim each) {
    return dim_max(ctx, dim_const(ctx, 1), dim_min(ctx, given, each));
}

/* The last dim of operand i holds `times` numbers for each of `each`, or for all. */
static void agree_given(const Infer *in, int i, Dim times, Dim each, const char *rule) {
    Dim last = nn_ranked(in, i, 3, 3)->shape[2];
    Dim n = given_for(in->ctx, dim_div(in->ctx, last, times), each);
    nn_agree(in, last, dim_mul(in->ctx, n, times), i, i, rule);
    infer_require(in, n, each, true);
}

static void agree_state(const Infer *in, const Linear *l) {
    Dim shape[5];
    int n = windowed(in->ctx, l->window, (Dim[]){l->B, l->hk, l->d, l->e}, 4, shape);
    if (!infer_in(in, STATE_IN)) return;
    const Type *t = nn_ranked(in, STATE_IN, n, n);
    for (int k = 0; k < n; k++)
        nn_agree(in, t->shape[k], shape[k], STATE_IN, 0,
                 "the state needs the dims (window,) batch, key heads, key size and value size");
}

static void linear_infer(Infer *in) {
    const Type *tq = nn_ranked(in, 0, 3, 3), *tk = nn_ranked(in, 1, 3, 3),
               *tv = nn_ranked(in, 2, 3, 3);
    Shape q = shape_of(tq), v = shape_of(tv);
    Linear l = linear_of(in->ctx, in->node, &q, &v);
    const char *heads = "their last dims must be heads of one size";
    infer_same(in, 0, 1);
    infer_same(in, 0, 2);
    for (int i = KEY_IN; i <= VALUE_IN; i++) agree_steps(in, i, tq);
    nn_agree(in, tq->shape[2], dim_mul(in->ctx, l.d, l.hq), QUERY_IN, KEY_IN, heads);
    nn_agree(in, tk->shape[2], dim_mul(in->ctx, l.d, l.hk), QUERY_IN, KEY_IN, heads);
    nn_agree(in, tv->shape[2], dim_mul(in->ctx, l.e, l.hk), VALUE_IN, VALUE_IN, heads);
    agree_state(in, &l);
    for (int i = DECAY_IN; i <= BETA_IN; i++)
        if (i == DECAY_IN ? l.gated : l.delta) agree_steps(in, i, tq);
    if (l.gated)
        agree_given(in, DECAY_IN, l.hk, l.d,
                    "its last dim must have one decay for each key head, or for each element of "
                    "their keys");
    if (l.delta)
        agree_given(in, BETA_IN, dim_const(in->ctx, 1), l.hk,
                    "its last dim must have one factor for each key head, or one for all");
    Dim state[5];
    int n = windowed(in->ctx, l.window, (Dim[]){l.B, l.hk, l.d, l.e}, 4, state);
    infer_set(in, 0, tq->dtype, (Dim[]){l.B, l.T, dim_mul(in->ctx, l.heads, l.e)}, 3);
    infer_set(in, 1, infer_in(in, STATE_IN) ? infer_in(in, STATE_IN)->type.dtype : tq->dtype, state,
              n);
}

static Dim head_index(Lower *lo, Dim head, Dim size, Dim d) {
    return dim_add(lo->ctx, dim_mul(lo->ctx, head, size), d);
}

/* The state before this step at [b,g,d,e], decayed. */
static int decayed(Lower *lo, const Linear *l, Map *m, Dim b, Dim g, Dim d, Dim e) {
    Ctx *ctx = lo->ctx;
    int s = nn_read(lo, m, l->s, (Dim[]){l->t, b, g, d, e});
    if (!l->gated) return s;
    DimEnv env = map_env(lo->arena, lo->flow, m);
    Dim n = given_for(ctx, dim_div(ctx, nn_shape(lo, l->in[DECAY_IN]).at[2], l->hk), l->d);
    Dim own = dim_simplify(ctx, dim_min(ctx, d, dim_addc(ctx, n, -1)), &env);
    Dim at[] = {b, l->t, head_index(lo, g, n, own)};
    return EXPR(m, "$0 * exp($1)", s, nn_read_as(lo, m, l->in[DECAY_IN], at, l->type));
}

static int key(Lower *lo, const Linear *l, Map *m, Dim b, Dim g, Dim d) {
    return nn_read_as(lo, m, l->in[KEY_IN], (Dim[]){b, l->t, head_index(lo, g, l->d, d)}, l->type);
}

/* value[b,g,e]: the value, or beta times what the state lacks of it. */
static void step_value(Lower *lo, const Linear *l) {
    Dim at[3], shape[] = {l->B, l->hk, l->e};
    int known = l->delta ? lower_tmp(lo, "known", l->type, shape, 3) : -1;
    Map *m;
    if (l->delta) {
        m = nn_map_over(lo, "known", "bge", known, at);
        Dim d = nn_dim(lo, m, "d", l->d);
        int s = decayed(lo, l, m, at[0], at[1], d, at[2]);
        nn_reduce(lo, m, known, at, EXPR(m, "$0 * $1", s, key(lo, l, m, at[0], at[1], d)), "sum");
    }
    m = nn_map_over(lo, "value", "bge", l->value, at);
    int v = nn_read_as(lo, m, l->in[VALUE_IN],
                       (Dim[]){at[0], l->t, head_index(lo, at[1], l->e, at[2])}, l->type);
    if (l->delta) {
        Dim from[] = {at[0], l->t, at[1]};
        int beta = nn_read_broadcast(lo, m, l->in[BETA_IN], from, 3, l->type);
        v = EXPR(m, "$0 * ($1 - $2)", beta, v, nn_read(lo, m, known, at));
    }
    nn_write(lo, m, l->value, at, v);
}

static void step_state(Lower *lo, const Linear *l) {
    Dim at[5], shape[] = {l->B, l->hk, l->d, l->e};
    Map *m = lower_map(lo, "step");
    nn_dims(lo, m, "bgde", shape, 4, at + 1);
    at[0] = dim_addc(lo->ctx, l->t, 1);
    int s = decayed(lo, l, m, at[1], at[2], at[3], at[4]), k = key(lo, l, m, at[1], at[2], at[3]);
    int v = nn_read(lo, m, l->value, (Dim[]){at[1], at[2], at[4]});
    nn_write(lo, m, l->s, at, EXPR(m, "$0 + $1 * $2", s, k, v));
}

/* The one of n heads that head h of the result shares with its neighbours. */
static Dim group_of(Lower *lo, const Linear *l, Dim h, Dim n) {
    return dim_div(lo->ctx, h, dim_div(lo->ctx, l->heads, n));
}

static void step_output(Lower *lo, const Linear *l) {
    Dim at[3], shape[] = {l->B, l->heads, l->e};
    int64_t size = 1;
    int o = lower_tmp(lo, "o", l->type, shape, 3);
    Map *m = nn_map_over(lo, "o", "bhe", o, at);
    Dim d = nn_dim(lo, m, "d", l->d), g = group_of(lo, l, at[1], l->hk);
    Dim h = group_of(lo, l, at[1], l->hq);
    int q = nn_read_as(lo, m, l->in[QUERY_IN], (Dim[]){at[0], l->t, head_index(lo, h, l->d, d)},
                       l->type);
    int s = nn_read(lo, m, l->s, (Dim[]){dim_addc(lo->ctx, l->t, 1), at[0], g, d, at[2]});
    nn_reduce(lo, m, o, at, EXPR(m, "$0 * $1", q, s), "sum");
    m = nn_map_over(lo, NULL, "bhe", o, at);
    float scale = nn_float(lo, "scale", 0);
    int val = nn_read(lo, m, o, at);
    double factor = scale != 0                  ? (double)scale
                    : dim_is_const(l->d, &size) ? 1 / sqrt((double)size)
                                                : 0;
    if (factor != 0)
        val = EXPR(m, internf(lo->ctx, "$0 * %s", nn_lit(lo, factor)), val);
    else
        val = EXPR(m, "$0 / sqrt($1)", val, nn_size(m, l->d, l->type));
    nn_write(lo, m, lower_out(lo, 0), (Dim[]){at[0], l->t, head_index(lo, at[1], l->e, at[2])},
             val);
}

/* shape: [B,hk,d,e] */
static void first_state(Lower *lo, const Linear *l, const Dim *shape) {
    Dim at[5] = {dim_const(lo->ctx, 0)}, from[5];
    Map *m = lower_map(lo, "s0");
    nn_dims(lo, m, "bgde", shape, 4, at + 1);
    from[0] = dim_const(lo->ctx, l->window - 1);
    memcpy(from + (l->window > 0), at + 1, 4 * sizeof(Dim));
    nn_write(lo, m, l->s, at,
             l->in[STATE_IN] < 0 ? body_const(&m->body, l->type, 0)
                                 : nn_read_as(lo, m, l->in[STATE_IN], from, l->type));
}

/* What the last steps left; 0 in the window's places of steps before the first. */
static void last_states(Lower *lo, const Linear *l) {
    int to = lower_out(lo, 1);
    Dim at[5], from[5] = {l->T};
    if (to < 0) return;
    Map *m = nn_map_over(lo, "present", l->window ? "wbgde" : "bgde", to, at);
    memcpy(from + 1, at + (l->window > 0), 4 * sizeof(Dim));
    if (!l->window) {
        nn_write(lo, m, to, at, nn_read(lo, m, l->s, from));
        return;
    }
    Dim step = dim_addc(lo->ctx, dim_add(lo->ctx, l->T, at[0]), -l->window);
    from[0] = dim_addc(lo->ctx, step, 1);
    nn_write(lo, m, to, at, from_call(m, step, nn_read_else(lo, m, l->s, from, 0, l->type)));
}

static void linear_lower(Lower *lo) {
    Shape q = nn_shape(lo, lower_in(lo, 0)), v = nn_shape(lo, lower_in(lo, 2));
    Linear l = linear_of(lo->ctx, lo->node, &q, &v);
    for (int i = 0; i < 6; i++) l.in[i] = lower_in(lo, i);
    l.type = dtype_compute(nn_cont(lo, l.in[0])->type);
    Dim shape[] = {dim_addc(lo->ctx, l.T, 1), l.B, l.hk, l.d, l.e};
    l.s = lower_tmp(lo, "s", l.type, shape, 5),
    l.value = lower_tmp(lo, "value", l.type, (Dim[]){l.B, l.hk, l.e}, 3);
    lo->flow->cont.at[l.s].kind = CONT_STATE;
    first_state(lo, &l, shape + 1);
    Items *into = lo->into;
    Item *loop = nn_loop(lo, NULL, l.T);
    l.t = loop->var, lo->into = &loop->body;
    step_value(lo, &l);
    step_state(lo, &l);
    if (lower_out(lo, 0) >= 0) step_output(lo, &l);
    lo->into = into;
    last_states(lo, &l);
}

/* ---- CausalConvWithState -----------------------------------------------------------------------
 *
 * A depthwise convolution over the last dim whose left padding is the past state, and whose last
 * inputs are the next one. Taps may be `dilation` apart. */

static Dim before_of(Ctx *ctx, const Node *node, Dim taps) {
    int64_t apart = attr_int(ctx, node, "dilation", 1);
    if (apart < 1 || apart > INT32_MAX)
        fail(ctx, E_ATTRIBUTE, "attribute \"dilation\" is %lld: it must be at least 1",
             (long long)apart);
    return dim_mulc(ctx, dim_addc(ctx, taps, -1), apart);
}

static void causal_conv_infer(Infer *in) {
    const Type *x = nn_ranked(in, 0, 3, 3), *w = nn_ranked(in, 1, 3, 3);
    const char *act = attr_string(in->ctx, in->node, "activation", "none");
    infer_same(in, 0, 1);
    nn_agree(in, x->shape[1], w->shape[0], 0, 1,
             "the weights need one row for each channel (dim 1) of the input");
    nn_agree(in, w->shape[1], dim_const(in->ctx, 1), 1, 1,
             "its dim 1 must be 1: the convolution is depthwise");
    if (strcmp(act, "none") != 0 && strcmp(act, "silu") != 0 && strcmp(act, "swish") != 0)
        fail(in->ctx, E_ATTRIBUTE, "attribute \"activation\" is \"%s\": use none, silu or swish",
             act);
    nn_infer_same(in);
    Dim own[] = {x->shape[0], x->shape[1], before_of(in->ctx, in->node, w->shape[2])}, shape[4];
    int n = windowed(in->ctx, attr_window(in->ctx, in->node), own, 3, shape);
    for (int k = 0; infer_in(in, 3) && k < n; k++)
        nn_agree(in, nn_ranked(in, 3, n, n)->shape[k], shape[k], 3, 0,
                 "the state needs the dims (window,) batch, channels and positions before the "
                 "first");
    infer_set(in, 1, x->dtype, shape, n);
}

/* The input with the past in front: position 0 is the oldest. Without a past, zeros lie there. */
static int padded_read(Lower *lo, Map *m, int padded, Dim n, Dim c, Dim at, Dim before, DType t) {
    if (padded >= 0) return nn_read_else(lo, m, padded, (Dim[]){n, c, at}, 0, t);
    return nn_read_else(lo, m, lower_in(lo, 0), (Dim[]){n, c, dim_sub(lo->ctx, at, before)}, 0, t);
}

static int pad_with_past(Lower *lo, int past, Dim before) {
    int x = lower_in(lo, 0);
    Shape s = nn_shape(lo, x);
    Dim shape[] = {s.at[0], s.at[1], dim_add(lo->ctx, s.at[2], before)}, at[3];
    DType t = nn_cont(lo, x)->type;
    if (past < 0) return -1;
    int to = lower_tmp(lo, "padded", t, shape, 3);
    int64_t window = attr_window(lo->ctx, lo->node);
    Dim from[4] = {dim_const(lo->ctx, window - 1)};
    Map *m = lower_map(lo, "past");
    nn_dims(lo, m, "ncw", (Dim[]){s.at[0], s.at[1], before}, 3, at);
    memcpy(from + (window > 0), at, sizeof at);
    map_write(lo->flow, m, to, at, nn_read_as(lo, m, past, from, t), NULL);
    m = nn_map_over(lo, "now", "ncw", x, at);
    int val = nn_read_as(lo, m, x, at, t);
    at[2] = dim_add(lo->ctx, at[2], before);
    map_write(lo->flow, m, to, at, val, NULL);
    return to;
}

/* The inputs that lie before the next step; or before each of the window's last ones. */
static void last_inputs(Lower *lo, int padded, Dim before, int to) {
    int64_t window = attr_window(lo->ctx, lo->node);
    Dim at[4], count = nn_shape(lo, lower_in(lo, 0)).at[2];
    DType out = nn_cont(lo, to)->type;
    Map *m = nn_map_over(lo, "present", window ? "vncw" : "ncw", to, at);
    const Dim *own = at + (window > 0);
    Dim behind = window ? dim_addc(lo->ctx, dim_add(lo->ctx, count, at[0]), 1 - window) : count;
    int val =
        padded_read(lo, m, padded, own[0], own[1], dim_add(lo->ctx, own[2], behind), before, out);
    if (window) val = from_call(m, dim_addc(lo->ctx, behind, -1), val);
    nn_write(lo, m, to, at, val);
}

static void causal_conv_lower(Lower *lo) {
    int w = lower_in(lo, 1), bias = lower_in(lo, 2), y = lower_out(lo, 0),
        present = lower_out(lo, 1);
    Shape s = nn_shape(lo, lower_in(lo, 0));
    DType t = dtype_compute(nn_cont(lo, w)->type);
    Dim taps = nn_shape(lo, w).at[2], before = before_of(lo->ctx, lo->node, taps), at[3];
    int64_t apart = attr_int(lo->ctx, lo->node, "dilation", 1);
    int padded = pad_with_past(lo, lower_in(lo, 3), before),
        acc = lower_tmp(lo, "conv", t, s.at, 3);
    Map *m = nn_map_over(lo, "conv", "ncw", acc, at);
    Dim r = nn_dim(lo, m, "s", taps);
    Dim place = dim_add(lo->ctx, at[2], dim_mulc(lo->ctx, r, apart));
    int x = padded_read(lo, m, padded, at[0], at[1], place, before, t);
    int k = nn_read_as(lo, m, w, (Dim[]){at[1], dim_const(lo->ctx, 0), r}, t);
    nn_reduce(lo, m, acc, at, EXPR(m, "$0 * $1", x, k), "sum");
    if (y >= 0) {
        m = nn_map_over(lo, NULL, "ncw", y, at);
        int val = nn_read(lo, m, acc, at);
        if (bias >= 0) val = EXPR(m, "$0 + $1", val, nn_read_as(lo, m, bias, &at[1], t));
        bool plain = !strcmp(attr_string(lo->ctx, lo->node, "activation", "none"), "none");
        nn_write(lo, m, y, at, plain ? val : EXPR(m, "$0 * sigmoid($0)", val));
    }
    if (present >= 0) last_inputs(lo, padded, before, present);
}

const OpRow onnx_state_rows[] = {
    {"", "LinearAttention", 27, 0, linear_infer, linear_lower, NULL, T_FLOATS, 0},
    {"", "CausalConvWithState", 27, 0, causal_conv_infer, causal_conv_lower, NULL, T_FLOATS, 0},
    {"com.microsoft", "LinearAttention", 1, 0, linear_infer, linear_lower, NULL, T_FLOATS, 0},
    {0},
};
