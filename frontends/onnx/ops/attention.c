/* SPDX-License-Identifier: Apache-2.0 */
/* Attention, FlexAttention and RotaryEmbedding.
 *
 * Attention is the chain of maps it means: scores, scale with softcap and masks, maximum, exp, sum,
 * product with the values, divide. A causal mask is the domain `j <= i + P`, so that nothing is
 * computed above the diagonal, unless the scores are a result of the operator. Grouped heads read
 * key and value at head h / (query heads per key head). */
#include "nn.h"

#include <math.h>

enum { Q_IN, K_IN, V_IN, MASK_IN, PAST_K_IN, PAST_V_IN, LENS_IN };
enum { Y_OUT, PRESENT_K_OUT, PRESENT_V_OUT, SCORES_OUT };

/* Extents, found alike by the type rule and the lowering. */
typedef struct Heads {
    bool flat;          /* operands are [batch, step, head * size] */
    Dim B, S;           /* batch; steps of the query */
    Dim past, steps;    /* of keys and values: before, and given now */
    Dim total;          /* past + steps */
    Dim hq, hk, dq, dv; /* query and key heads; sizes of a head of Q and K, and of V */
    Dim group;          /* query heads for each key head */
} Heads;

static Dim heads_attr(Ctx *ctx, const Node *node, const char *name) {
    int64_t n = attr_int(ctx, node, name, 0);
    if (n < 1)
        fail(ctx, E_ATTRIBUTE,
             "attribute \"%s\" is missing: operands of rank 3 need it to tell the heads", name);
    return dim_const(ctx, n);
}

static Heads heads_of(Ctx *ctx, const Node *node, const Shape *q, const Shape *k, const Shape *v,
                      const Shape *past) {
    Heads h = {.flat = q->rank == 3, .B = q->at[0]};
    if (h.flat) {
        h.hq = heads_attr(ctx, node, "q_num_heads"), h.hk = heads_attr(ctx, node, "kv_num_heads");
        h.dq = dim_div(ctx, q->at[2], h.hq), h.dv = dim_div(ctx, v->at[2], h.hk);
    } else {
        h.hq = q->at[1], h.hk = k->at[1], h.dq = q->at[3], h.dv = v->at[3];
    }
    h.S = q->at[q->rank - 2], h.steps = k->at[k->rank - 2];
    h.past = past ? past->at[2] : dim_const(ctx, 0);
    h.total = dim_add(ctx, h.past, h.steps);
    h.group = dim_div(ctx, h.hq, h.hk);
    return h;
}

/* ---- type rule ------------------------------------------------------------------------------- */

static void check_heads(Infer *in, const Heads *h, const Type *k) {
    int64_t q, kv, width;
    if (dim_is_const(h->hq, &q) && dim_is_const(h->hk, &kv) && (kv == 0 || q % kv))
        nn_misfit(in, 0, 1, "the query's heads must be a multiple of the key's heads");
    if (h->flat && dim_is_const(h->hk, &kv) && dim_is_const(k->shape[2], &width) && width % kv)
        nn_misfit(in, 1, 1, "its last extent must be a multiple of the attribute \"kv_num_heads\"");
    Dim size = h->flat ? dim_div(in->ctx, k->shape[2], h->hk) : k->shape[3];
    nn_agree(in, h->dq, size, 0, 1, "a head of the query and one of the key must have one size");
    if (!infer_in(in, PAST_K_IN) != !infer_in(in, PAST_V_IN))
        fail(in->ctx, E_MODEL, "past_key and past_value must be given together");
}

/* Keys and values of the past, and the given ones, go together. */
static void check_past(const Infer *in, const Heads *h) {
    Dim shape[] = {h->B, h->hk, h->past, NULL};
    const char *rule = "the past must have the batch, heads and sizes of keys and values";
    for (int i = PAST_K_IN; i <= PAST_V_IN && infer_in(in, PAST_K_IN); i++) {
        const Type *t = nn_ranked(in, i, 4, 4);
        shape[3] = i == PAST_K_IN ? h->dq : h->dv;
        for (int k = 0; k < 4; k++) nn_agree(in, t->shape[k], shape[k], i, 1, rule);
    }
}

/* Keys and values have the query's batch, and one number of heads and of steps. */
static void check_rows(const Infer *in, const Heads *h, const Type *k, const Type *v) {
    nn_agree(in, k->shape[0], h->B, K_IN, Q_IN, "query and key must have one batch");
    nn_agree(in, v->shape[0], h->B, V_IN, Q_IN, "query and value must have one batch");
    for (int i = 1; i < k->rank - 1; i++)
        nn_agree(in, v->shape[i], k->shape[i], V_IN, K_IN,
                 "key and value must have the same heads and steps");
}

/* A mask of up to four dims, one for all or each its own; keys that it lacks are not seen. */
static void check_mask(const Infer *in, const Heads *h) {
    Dim full[] = {h->B, h->hq, h->S};
    if (!infer_in(in, MASK_IN)) return;
    const Type *t = nn_ranked(in, MASK_IN, 0, 4);
    for (int i = 0; i < t->rank - 1; i++) {
        Dim own = t->shape[i], all = full[i + 4 - t->rank];
        if (own != all && dim_is_const(own, NULL) && dim_is_const(all, NULL) && !dim_is(own, 1))
            nn_misfit(in, MASK_IN, 0,
                      "the mask must have the query's batch, heads and steps, or 1");
    }
}

static void attention_infer(Infer *in) {
    const Type *q = nn_ranked(in, 0, 3, 4), *k = nn_ranked(in, 1, 3, 4),
               *v = nn_ranked(in, 2, 3, 4);
    if (q->rank != k->rank || q->rank != v->rank)
        nn_misfit(in, 0, 1, "query, key and value need one rank");
    Shape sq = shape_of(q), sk = shape_of(k), sv = shape_of(v), past;
    if (infer_in(in, PAST_K_IN)) past = shape_of(nn_ranked(in, PAST_K_IN, 4, 4));
    Heads h = heads_of(in->ctx, in->node, &sq, &sk, &sv, infer_in(in, PAST_K_IN) ? &past : NULL);
    check_heads(in, &h, k);
    check_rows(in, &h, k, v);
    check_past(in, &h);
    check_mask(in, &h);
    if (infer_in(in, LENS_IN)) nn_ranked(in, LENS_IN, 1, 1);
    Dim flat[] = {h.B, h.S, dim_mul(in->ctx, h.hq, h.dv)}, y[] = {h.B, h.hq, h.S, h.dv};
    Dim pk[] = {h.B, h.hk, h.total, h.dq}, pv[] = {h.B, h.hk, h.total, h.dv},
        qk[] = {h.B, h.hq, h.S, h.total};
    infer_set(in, Y_OUT, q->dtype, h.flat ? flat : y, q->rank);
    infer_set(in, PRESENT_K_OUT, k->dtype, pk, 4);
    infer_set(in, PRESENT_V_OUT, v->dtype, pv, 4);
    infer_set(in, SCORES_OUT, q->dtype, qk, 4);
}

/* ---- lowering -------------------------------------------------------------------------------- */

typedef struct Attention {
    Heads h;
    int q, k, v;         /* containers; k and v with the past in front */
    bool k_flat, v_flat; /* still [batch, step, head * size] */
    bool cut;            /* causal, as a domain */
    bool causal;
    int64_t left, right; /* how many keys before and after its own step a query sees; -1: all */
    DType t;
    int scores; /* result, or -1 */
    int mode;   /* which scores are the result */
} Attention;

/* A row index into [batch, head, step, size] or its flat form. */
static void head_at(Lower *lo, bool flat, Dim b, Dim head, Dim step, Dim d, Dim size, Dim *at) {
    at[0] = b;
    if (flat) {
        at[1] = step, at[2] = dim_add(lo->ctx, dim_mul(lo->ctx, head, size), d);
    } else {
        at[1] = head, at[2] = step, at[3] = d;
    }
}

/* Copies rows of `from` to steps from `first` on of `to`. */
static void append(Lower *lo, const char *name, int from, bool flat, Dim steps, Dim first, int to) {
    Shape s = nn_shape(lo, to);
    Dim box[] = {s.at[0], s.at[1], steps, s.at[3]}, at[4], src[4];
    Map *m = lower_map(lo, name);
    nn_dims(lo, m, "bgtd", box, 4, at);
    head_at(lo, flat, at[0], at[1], at[2], at[3], s.at[3], src);
    at[2] = dim_add(lo->ctx, at[2], first);
    map_write(lo->flow, m, to, at, map_read(lo->flow, m, from, src), NULL);
}

/* The container of all keys (or values): `now` itself, or `past` and then `now`. */
static int with_past(Lower *lo, const Heads *h, int past, int now, int result, Dim size,
                     bool *flat) {
    Dim shape[] = {h->B, h->hk, h->total, size}, zero = dim_const(lo->ctx, 0);
    if (past < 0 && result < 0) return now;
    int all = result >= 0 ? result : lower_tmp(lo, "all", nn_cont(lo, now)->type, shape, 4);
    if (past >= 0) append(lo, "old", past, false, h->past, zero, all);
    append(lo, "add", now, *flat, h->steps, h->past, all);
    if (past < 0) return now;
    *flat = false;
    return all;
}

static Attention attention_open(Lower *lo) {
    int q = lower_in(lo, Q_IN), k = lower_in(lo, K_IN), v = lower_in(lo, V_IN),
        past = lower_in(lo, PAST_K_IN);
    Shape sq = nn_shape(lo, q), sk = nn_shape(lo, k), sv = nn_shape(lo, v), sp;
    if (past >= 0) sp = nn_shape(lo, past);
    Attention a = {.q = q, .scores = lower_out(lo, SCORES_OUT)};
    a.h = heads_of(lo->ctx, lo->node, &sq, &sk, &sv, past >= 0 ? &sp : NULL);
    a.k_flat = a.v_flat = a.h.flat;
    a.k = with_past(lo, &a.h, past, k, lower_out(lo, PRESENT_K_OUT), a.h.dq, &a.k_flat);
    a.v = with_past(lo, &a.h, lower_in(lo, PAST_V_IN), v, lower_out(lo, PRESENT_V_OUT), a.h.dv,
                    &a.v_flat);
    a.t = dtype_compute(nn_cont(lo, q)->type);
    a.causal = nn_int(lo, "is_causal", 0) != 0;
    a.left = nn_int(lo, "left_window_size", -1);
    a.right = nn_int(lo, "right_window_size", -1);
    a.cut = a.causal && a.scores < 0 && lower_in(lo, LENS_IN) < 0;
    a.mode = (int)nn_int(lo, "qk_matmul_output_mode", 0);
    return a;
}

/* A map over batch, head, query step, key step, cut to the causal part: at = {b, h, i, j}. */
static Map *score_map(Lower *lo, const Attention *a, const char *name, Dim *at) {
    Dim shape[] = {a->h.B, a->h.hq, a->h.S, a->h.total};
    Map *m = lower_map(lo, name);
    nn_dims(lo, m, "bhij", shape, 4, at);
    if (a->cut)
        nn_between(lo, m, at[3], dim_const(lo->ctx, 0),
                   dim_addc(lo->ctx, dim_add(lo->ctx, at[2], a->h.past), 1));
    return m;
}

static int scores_tmp(Lower *lo, const Attention *a, const char *name) {
    Dim shape[] = {a->h.B, a->h.hq, a->h.S, a->h.total};
    return lower_tmp(lo, name, a->t, shape, 4);
}

static Dim key_head(Lower *lo, const Attention *a, Dim head) {
    return dim_is(a->h.group, 1) ? head : dim_div(lo->ctx, head, a->h.group);
}

static void products(Lower *lo, const Attention *a, int to) {
    Dim at[4], q[4], k[4];
    Map *m = score_map(lo, a, "qk", at);
    Dim d = nn_dim(lo, m, "d", a->h.dq);
    head_at(lo, a->h.flat, at[0], at[1], at[2], d, a->h.dq, q);
    head_at(lo, a->k_flat, at[0], key_head(lo, a, at[1]), at[3], d, a->h.dq, k);
    int x = nn_read_as(lo, m, a->q, q, a->t), y = nn_read_as(lo, m, a->k, k, a->t);
    nn_reduce(lo, m, to, at, EXPR(m, "$0 * $1", x, y), "sum");
}

/* Index of a mask's dim of `extent` for `at`, of `full`; extents that only run time tells may be 1.
 * The last one's may be another than `full`: what it lacks lies outside. */
static Dim mask_index(Ctx *ctx, Dim extent, Dim full, Dim at, bool last) {
    int64_t n;
    Dim most = dim_addc(ctx, extent, -1);
    if (extent == full) return at;
    if (!last) return dim_min(ctx, at, most);
    if (dim_is_const(extent, &n)) return n == 1 ? dim_const(ctx, 0) : at;
    return dim_mul(ctx, at, dim_min(ctx, most, dim_const(ctx, 1)));
}

/* The mask tensor, broadcast; where it is shorter than the keys it masks. */
static int apply_mask(Lower *lo, const Attention *a, Map *m, int val, const Dim *at) {
    int mask = lower_in(lo, MASK_IN), x;
    if (mask < 0) return val;
    Shape s = nn_shape(lo, mask);
    DType type = nn_cont(lo, mask)->type;
    Dim last = s.rank ? s.at[s.rank - 1] : NULL;
    if (s.rank && last != a->h.total && !dim_is(last, 1) && lo->node->version >= 24) {
        Dim to[4], full[] = {a->h.B, a->h.hq, a->h.S, a->h.total};
        for (int i = 0, k = 4 - s.rank; i < s.rank; i++, k++)
            to[i] = mask_index(lo->ctx, s.at[i], full[k], at[k], k == 3);
        x = map_read_else(lo->flow, m, mask, to,
                          body_const(&m->body, type, type == BOOL ? 0 : -INFINITY));
    } else {
        x = lower_read_broadcast(lo, m, mask, at, 4);
    }
    if (type == BOOL) return EXPR(m, "select($0, $1, -inf)", x, val);
    return EXPR(m, "$0 + $1", val, body_cvt(&m->body, a->t, x));
}

/* A query's own step counts from the past; where lengths are given, it ends with the last key. */
static int apply_bounds(Lower *lo, const Attention *a, Map *m, int val, const Dim *at) {
    int lens = lower_in(lo, LENS_IN), j = body_index(&m->body, at[3]), length = -1;
    int own = body_index(&m->body, dim_add(lo->ctx, at[2], a->h.past));
    if (lens >= 0) {
        length = nn_read_as(lo, m, lens, at, I64);
        own = EXPR(m, "$0 + $1 - $2", own, length, body_index(&m->body, a->h.S));
    }
    if (a->causal && !a->cut) val = EXPR(m, "select($0 <= $1, $2, -inf)", j, own, val);
    if (a->left >= 0)
        val = EXPR(m, internf(lo->ctx, "select($0 >= $1 - %lld, $2, -inf)", (long long)a->left), j,
                   own, val);
    if (a->right >= 0)
        val = EXPR(m, internf(lo->ctx, "select($0 <= $1 + %lld, $2, -inf)", (long long)a->right), j,
                   own, val);
    return lens < 0 ? val : EXPR(m, "select($0 < $1, $2, -inf)", j, length, val);
}

/* The result qk_matmul_output, when it is the stage `mode`. */
static void scores_result(Lower *lo, const Attention *a, Map *m, int mode, const Dim *at, int val) {
    if (a->scores >= 0 && a->mode == mode) nn_write(lo, m, a->scores, at, val);
}

/* scale, softcap, masks */
static void scaled(Lower *lo, const Attention *a, int from, int to) {
    Dim at[4];
    int64_t size;
    float cap = nn_float(lo, "softcap", 0), scale = nn_float(lo, "scale", 0);
    Map *m = score_map(lo, a, "scale", at);
    int v = nn_read(lo, m, from, at);
    if (scale == 0 && !dim_is_const(a->h.dq, &size))
        v = EXPR(m, "$0 / sqrt($1)", v, nn_size(m, a->h.dq, a->t));
    else
        v = EXPR(m,
                 internf(lo->ctx, "%s * $0",
                         nn_lit(lo, scale != 0 ? (double)scale : 1 / sqrt((double)size))),
                 v);
    scores_result(lo, a, m, 0, at, v);
    const char *c = nn_lit(lo, cap);
    if (cap != 0) v = EXPR(m, internf(lo->ctx, "%s * tanh($0 / %s)", c, c), v);
    scores_result(lo, a, m, 1, at, v);
    v = apply_bounds(lo, a, m, apply_mask(lo, a, m, v, at), at);
    scores_result(lo, a, m, 2, at, v);
    nn_write(lo, m, to, at, v);
}

/* One value per query row. */
static int row_tmp(Lower *lo, const Attention *a, const char *name) {
    Dim shape[] = {a->h.B, a->h.hq, a->h.S};
    return lower_tmp(lo, name, a->t, shape, 3);
}

static int row_fold(Lower *lo, const Attention *a, const char *name, int from,
                    const char *combine) {
    Dim at[4];
    int to = row_tmp(lo, a, name);
    Map *m = score_map(lo, a, name, at);
    nn_reduce(lo, m, to, at, nn_read(lo, m, from, at), combine);
    return to;
}

static void exponentials(Lower *lo, const Attention *a, int from, int top, int to) {
    Dim at[4];
    Map *m = score_map(lo, a, "exp", at);
    nn_write(lo, m, to, at,
             EXPR(m, "exp($0 - $1)", nn_read(lo, m, from, at), nn_read(lo, m, top, at)));
}

/* A share of the row's total; of a row that sees no key, whose greatest score is -inf, zero. */
static int share(Lower *lo, Map *m, int val, int top, int total, const Dim *at) {
    return EXPR(m, "select($2 == -inf, 0, $0 / $1)", val, nn_read(lo, m, total, at),
                nn_read(lo, m, top, at));
}

static void probabilities(Lower *lo, const Attention *a, int e, int top, int total, int to) {
    Dim at[4];
    Map *m = score_map(lo, a, "softmax", at);
    nn_write(lo, m, to, at, share(lo, m, nn_read(lo, m, e, at), top, total, at));
}

/* y = (e times the values) / total; total < 0: e are probabilities. */
static void values(Lower *lo, const Attention *a, int e, int top, int total) {
    Dim at[4], v[4], y[4], o_at[4], shape[] = {a->h.B, a->h.hq, a->h.S, a->h.dv};
    int o = lower_tmp(lo, "o", a->t, shape, 4);
    Map *m = score_map(lo, a, "pv", at);
    Dim d = nn_dim(lo, m, "d", a->h.dv);
    head_at(lo, a->v_flat, at[0], key_head(lo, a, at[1]), at[3], d, a->h.dv, v);
    int x = nn_read(lo, m, e, at), val = nn_read_as(lo, m, a->v, v, a->t);
    nn_reduce(lo, m, o, (Dim[]){at[0], at[1], at[2], d}, EXPR(m, "$0 * $1", x, val), "sum");
    m = lower_map(lo, NULL);
    nn_dims(lo, m, "bhid", shape, 4, o_at);
    head_at(lo, a->h.flat, o_at[0], o_at[1], o_at[2], o_at[3], a->h.dv, y);
    val = nn_read(lo, m, o, o_at);
    if (total >= 0) val = share(lo, m, val, top, total, o_at);
    nn_write(lo, m, lower_out(lo, Y_OUT), y, val);
}

static void attention_lower(Lower *lo) {
    Attention a = attention_open(lo);
    int raw = scores_tmp(lo, &a, "raw"), s = scores_tmp(lo, &a, "s"), e = scores_tmp(lo, &a, "e");
    products(lo, &a, raw);
    scaled(lo, &a, raw, s);
    int top = row_fold(lo, &a, "max", s, "max");
    exponentials(lo, &a, s, top, e);
    int total = row_fold(lo, &a, "sum", e, "sum");
    if (a.scores >= 0 && a.mode == 3) probabilities(lo, &a, e, top, total, a.scores);
    values(lo, &a, e, top, total);
}

/* ---- FlexAttention -----------------------------------------------------------------------------
 *
 * As Attention on operands of rank 4, with two graphs that may change scores and probabilities. */

static Graph *modifier(const Node *node, const char *name) {
    const Attr *a = node_attr(node, name);
    return a && a->kind == ATTR_GRAPH ? a->graph : NULL;
}

static void modifier_infer(Infer *in, const char *name, const Heads *h, DType t) {
    Graph *g = modifier(in->node, name);
    if (!g) return;
    if (g->input.n != 1 || g->output.n != 1)
        fail(in->ctx, E_MODEL, "graph \"%s\" must have one input and one result, the scores", name);
    Value *x = &g->value.at[g->input.at[0]];
    Dim *shape = arena_copy(in->arena, (Dim[]){h->B, h->hq, h->S, h->total}, 4 * sizeof(Dim));
    DType declared = x->type.kind == TYPE_TENSOR && x->type.dtype ? x->type.dtype : t;
    x->type = (Type){.kind = TYPE_TENSOR, .dtype = declared, .rank = 4, .shape = shape};
    infer_graph(in, g);
}

static void flex_infer(Infer *in) {
    Shape q = shape_of(nn_ranked(in, 0, 4, 4)), k = shape_of(nn_ranked(in, 1, 4, 4)),
          v = shape_of(nn_ranked(in, 2, 4, 4));
    Heads h = heads_of(in->ctx, in->node, &q, &k, &v, NULL);
    const Type *x = &infer_tensor(in, 0)->type;
    check_heads(in, &h, &infer_tensor(in, 1)->type);
    modifier_infer(in, "score_mod", &h, dtype_compute(x->dtype));
    modifier_infer(in, "prob_mod", &h, dtype_compute(x->dtype));
    infer_set(in, 0, x->dtype, (Dim[]){h.B, h.hq, h.S, h.dv}, 4);
}

/* `from`, or what the graph makes of it. */
static int modified(Lower *lo, const char *name, int from) {
    Graph *g = modifier(lo->node, name);
    if (!g) return from;
    DType t = g->value.at[g->input.at[0]].type.dtype;
    int in = from, out;
    if (nn_cont(lo, from)->type != t)
        lower_pointwise(lo, "mod", "$0", &from, 1,
                        in = lower_tmp(lo, "mod", t, nn_cont(lo, from)->shape, 4));
    lower_graph(lo, g, lo->into, &in, &out);
    return out;
}

static void flex_lower(Lower *lo) {
    Shape q = nn_shape(lo, lower_in(lo, 0)), k = nn_shape(lo, lower_in(lo, 1)),
          v = nn_shape(lo, lower_in(lo, 2));
    Attention a = {.h = heads_of(lo->ctx, lo->node, &q, &k, &v, NULL),
                   .q = lower_in(lo, 0),
                   .k = lower_in(lo, 1),
                   .v = lower_in(lo, 2),
                   .left = -1,
                   .right = -1,
                   .scores = -1};
    a.t = dtype_compute(nn_cont(lo, a.q)->type);
    int raw = scores_tmp(lo, &a, "raw"), s = scores_tmp(lo, &a, "s"), e = scores_tmp(lo, &a, "e");
    products(lo, &a, raw);
    scaled(lo, &a, raw, s);
    s = modified(lo, "score_mod", s);
    int top = row_fold(lo, &a, "max", s, "max");
    exponentials(lo, &a, s, top, e);
    int total = row_fold(lo, &a, "sum", e, "sum");
    if (modifier(lo->node, "prob_mod")) {
        int p = scores_tmp(lo, &a, "p");
        probabilities(lo, &a, e, top, total, p);
        e = modified(lo, "prob_mod", p), total = -1;
    }
    values(lo, &a, e, top, total);
}

/* ---- RotaryEmbedding ------------------------------------------------------------------------- */

static Dim rotary_size(Ctx *ctx, const Node *node, const Shape *x, Dim *heads) {
    if (x->rank == 4) {
        *heads = x->at[1];
        return x->at[3];
    }
    *heads = heads_attr(ctx, node, "num_heads");
    return dim_div(ctx, x->at[2], *heads);
}

/* A cache may be made for whole heads though a part of them is rotated: its first columns count. */
static void rotary_infer(Infer *in) {
    Shape x = shape_of(nn_ranked(in, 0, 3, 4));
    Dim heads, size = rotary_size(in->ctx, in->node, &x, &heads);
    int64_t part = attr_int(in->ctx, in->node, "rotary_embedding_dim", 0);
    Dim whole = dim_div(in->ctx, size, dim_const(in->ctx, 2));
    Dim half = part ? dim_const(in->ctx, part / 2) : whole;
    for (int i = 1; i < 3; i++) {
        const Type *cache = infer_in(in, 3) ? nn_ranked(in, i, 2, 2) : nn_ranked(in, i, 3, 3);
        if (cache->shape[cache->rank - 1] == whole) continue;
        nn_agree(in, cache->shape[cache->rank - 1], half, i, 0,
                 "the cache's last extent must be half of the rotated part of a head");
    }
    nn_infer_same(in);
}

/* Rotates the pairs of the first part of each head, (k, half + k) or (2k, 2k + 1); the rest is
 * copied. */
static void rotary_lower(Lower *lo) {
    Ctx *ctx = lo->ctx;
    int x = lower_in(lo, 0), pos = lower_in(lo, 3), y = lower_out(lo, 0);
    Shape s = nn_shape(lo, x);
    bool flat = s.rank == 3, woven = nn_int(lo, "interleaved", 0) != 0;
    int64_t part = nn_int(lo, "rotary_embedding_dim", 0);
    Dim heads, size = rotary_size(ctx, lo->node, &s, &heads), at[4], first[4], second[4];
    Dim turned = part ? dim_const(ctx, part) : size, half = dim_div(ctx, turned, dim_const(ctx, 2));
    Dim box[] = {s.at[0], heads, s.at[s.rank - 2], half};
    Map *m = lower_map(lo, NULL);
    nn_dims(lo, m, "bhsk", box, 4, at);
    Dim k = woven ? dim_mulc(ctx, at[3], 2) : at[3],
        l = woven ? dim_addc(ctx, k, 1) : dim_add(ctx, k, half);
    head_at(lo, flat, at[0], at[1], at[2], k, size, first);
    head_at(lo, flat, at[0], at[1], at[2], l, size, second);
    Dim cache[] = {at[0], at[2], at[3]}, row[] = {NULL, at[3]};
    if (pos >= 0)
        row[0] = body_symbol(&m->body, nn_read_as(lo, m, pos, (Dim[]){at[0], at[2]}, I64), "p");
    int c = nn_read(lo, m, lower_in(lo, 1), pos < 0 ? cache : row);
    int sn = nn_read(lo, m, lower_in(lo, 2), pos < 0 ? cache : row);
    int a = nn_read(lo, m, x, first), b = nn_read(lo, m, x, second);
    nn_write(lo, m, y, first, EXPR(m, "$0 * $2 - $1 * $3", a, b, c, sn));
    nn_write(lo, m, y, second, EXPR(m, "$0 * $3 + $1 * $2", a, b, c, sn));
    if (dim_sub(ctx, size, turned) == dim_const(ctx, 0)) return;
    m = lower_map(lo, "rest");
    box[3] = dim_sub(ctx, size, turned);
    nn_dims(lo, m, "bhsk", box, 4, at);
    head_at(lo, flat, at[0], at[1], at[2], dim_add(ctx, at[3], turned), size, first);
    map_write(lo->flow, m, y, first, map_read(lo->flow, m, x, first), NULL);
}

const OpRow onnx_attention_rows[] = {
    {"", "Attention", 23, 0, attention_infer, attention_lower, NULL, T_FLOATS, 0},
    {"ai.onnx.preview", "FlexAttention", 1, 0, flex_infer, flex_lower, NULL, T_FLOATS, 0},
    {"", "RotaryEmbedding", 23, 0, rotary_infer, rotary_lower, NULL, T_FLOATS, 0},
    {0},
};
