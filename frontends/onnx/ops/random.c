/* SPDX-License-Identifier: Apache-2.0 */
/* RandomUniform, RandomNormal, their Like forms, Bernoulli, Multinomial, Dropout that may train.
 *
 * Numbers are a hash of the element's index and the seed (splitmix64 by Steele, Lea and Flood), so
 * they do not depend on threads or order. Without the attribute `seed` the seed comes from the name
 * of the node's result: every run of a model gives the same numbers, every node its own. */
#include "nn.h"
#include "view.h"

#include <string.h>

static const Value *first_result(const Lower *lo) {
    return &lo->graph->value.at[lo->node->out.at[0]];
}

static uint64_t seed_of(Lower *lo) {
    const Attr *a = node_attr(lo->node, "seed");
    const char *name = first_result(lo)->name;
    if (!a) return hash_bytes(1, name, strlen(name));
    if (a->kind == ATTR_INT) return hash_bytes(2, &a->i, sizeof a->i);
    float seed = nn_float(lo, "seed", 0);
    return hash_bytes(2, &seed, sizeof seed);
}

/* 64 random bits for the element at `index`; `stream` tells several numbers of one element apart.
 */
static int random_bits(Lower *lo, Map *m, Dim index, int stream) {
    const char *text =
        "a = ($0 + 1) * 0x9e3779b97f4a7c15 + $1; b = (a ^ (a >> 30)) * 0xbf58476d1ce4e5b9; "
        "c = (b ^ (b >> 27)) * 0x94d049bb133111eb; c ^ (c >> 31)";
    uint64_t seed = seed_of(lo) + (uint64_t)stream * 0xd1b54a32d192ed03u;
    int i = body_cvt(&m->body, U64, body_index(&m->body, index));
    return EXPR(m, text, i, body_bits(&m->body, U64, seed));
}

/* Uniform in [0, 1), with 24 bits for f32 and 53 for f64. */
static int uniform(Lower *lo, Map *m, Dim index, int stream, DType t) {
    int bits = random_bits(lo, m, index, stream);
    if (t == F64) return EXPR(m, "f64($0 >> 11) * 0x1p-53", bits);
    return EXPR(m, "f32($0 >> 40) * 0x1p-24", bits);
}

/* Box and Muller: the logarithm's operand is never 0. */
static int normal(Lower *lo, Map *m, Dim index, DType t) {
    int u = uniform(lo, m, index, 0, t), v = uniform(lo, m, index, 1, t);
    return EXPR(m, "sqrt(-2 * log(1 - $0)) * cos(0x1.921fb54442d18p+2 * $1)", u, v);
}

static Dim flat_index(Lower *lo, int cont, const Dim *at) {
    Shape s = nn_shape(lo, cont);
    return dim_flat(lo->ctx, at, s.at, s.rank);
}

/* ---- type rules ------------------------------------------------------------------------------ */

static DType dtype_attr(Infer *in, DType otherwise) {
    int64_t code = attr_int(in->ctx, in->node, "dtype", 0);
    DType t = code ? dtype_from_onnx((int)code) : otherwise;
    if (!t || t == STRING)
        fail(in->ctx, E_ATTRIBUTE, "attribute \"dtype\" is %lld: it is no number type",
             (long long)code);
    return t;
}

static void random_infer(Infer *in) {
    const int64_t *shape = NULL;
    Dim out[RANK_MAX];
    int n = attr_ints(in->ctx, in->node, "shape", &shape);
    if (n < 0 || n > RANK_MAX)
        fail(in->ctx, E_ATTRIBUTE, "attribute \"shape\" must list at most %d extents", RANK_MAX);
    for (int i = 0; i < n; i++) {
        if (shape[i] < 0)
            fail(in->ctx, E_ATTRIBUTE, "attribute \"shape\" holds %lld: extents are not negative",
                 (long long)shape[i]);
        out[i] = dim_const(in->ctx, shape[i]);
    }
    infer_set(in, 0, dtype_attr(in, F32), out, n);
}

static void random_like_infer(Infer *in) {
    const Type *x = nn_ranked(in, 0, 0, RANK_MAX);
    infer_set(in, 0, dtype_attr(in, nn_is_float(x->dtype) ? x->dtype : F32), x->shape, x->rank);
}

static void bernoulli_infer(Infer *in) {
    const Type *x = nn_ranked(in, 0, 0, RANK_MAX);
    infer_set(in, 0, dtype_attr(in, x->dtype), x->shape, x->rank);
}

static void multinomial_infer(Infer *in) {
    const Type *x = nn_ranked(in, 0, 2, 2);
    Dim out[] = {x->shape[0], dim_const(in->ctx, attr_int(in->ctx, in->node, "sample_size", 1))};
    infer_set(in, 0, dtype_attr(in, I32), out, 2);
}

/* ---- lowerings ------------------------------------------------------------------------------- */

static void random_uniform_lower(Lower *lo) {
    int y = lower_out(lo, 0);
    Dim at[RANK_MAX];
    Map *m = nn_map_over(lo, NULL, "", y, at);
    DType t = dtype_compute(nn_cont(lo, y)->type) == F64 ? F64 : F32;
    float low = nn_float(lo, "low", 0), high = nn_float(lo, "high", 1);
    const char *text =
        internf(lo->ctx, "$0 * %s + %s", nn_lit(lo, (double)high - (double)low), nn_lit(lo, low));
    nn_write(lo, m, y, at, EXPR(m, text, uniform(lo, m, flat_index(lo, y, at), 0, t)));
}

static void random_normal_lower(Lower *lo) {
    int y = lower_out(lo, 0);
    Dim at[RANK_MAX];
    Map *m = nn_map_over(lo, NULL, "", y, at);
    DType t = dtype_compute(nn_cont(lo, y)->type) == F64 ? F64 : F32;
    float mean = nn_float(lo, "mean", 0), scale = nn_float(lo, "scale", 1);
    const char *text = internf(lo->ctx, "$0 * %s + %s", nn_lit(lo, scale), nn_lit(lo, mean));
    nn_write(lo, m, y, at, EXPR(m, text, normal(lo, m, flat_index(lo, y, at), t)));
}

static void bernoulli_lower(Lower *lo) {
    int x = lower_in(lo, 0), y = lower_out(lo, 0);
    Dim at[RANK_MAX];
    Map *m = nn_map_over(lo, NULL, "", y, at);
    int p = nn_read(lo, m, x, at);
    int u = uniform(lo, m, flat_index(lo, y, at), 0, m->body.val.at[p].type);
    nn_write(lo, m, y, at, EXPR(m, "$0 < $1", u, p));
}

/* The class of the largest of log probability plus Gumbel noise is distributed as the classes are.
 */
static void multinomial_lower(Lower *lo) {
    int x = lower_in(lo, 0), y = lower_out(lo, 0);
    DType t = dtype_compute(nn_cont(lo, x)->type);
    int best = nn_tmp_like(lo, "best", t, y), arg = nn_tmp_like(lo, "class", I64, y);
    Dim at[RANK_MAX], classes = nn_shape(lo, x).at[1];
    Map *m = nn_map_over(lo, "class", "bs", y, at);
    Dim c = nn_dim(lo, m, "c", classes);
    Dim index = dim_add(lo->ctx, dim_mul(lo->ctx, flat_index(lo, y, at), classes), c);
    int u = uniform(lo, m, index, 0, t), p = nn_read(lo, m, x, (Dim[]){at[0], c});
    int val[2] = {EXPR(m, "$0 - log(-log(1 - $1))", p, u), body_index(&m->body, c)};
    map_write_tuple(lo->flow, m, 2, (int[]){best, arg}, (const Dim *const[]){at, at}, 2, val,
                    combine_get(lo->ctx, "argmax_first", t));
    Dim to[RANK_MAX];
    m = nn_map_over(lo, NULL, "bs", y, to);
    nn_write(lo, m, y, to, map_read(lo->flow, m, arg, to));
}

/* ---- Dropout --------------------------------------------------------------------------------- */

static void dropout_infer(Infer *in) {
    const Type *x = nn_ranked(in, 0, 0, RANK_MAX);
    for (int i = 1; i < in->node->in.n; i++)
        if (infer_in(in, i)) nn_ranked(in, i, 0, 0);
    infer_set(in, 0, x->dtype, x->shape, x->rank);
    infer_set(in, 1, in->node->version < 10 ? x->dtype : BOOL, x->shape, x->rank);
}

/* May it train? Versions 7 to 11 cannot; before there is an attribute, from 12 on an operand. */
static bool dropout_trains(Lower *lo) {
    Infer in = onnx_reader(lo);
    const Dim *at;
    int n;
    if (lo->node->version < 12) return lo->node->version < 7 && !nn_int(lo, "is_test", 0);
    return !nn_absent(lo->node, 2) && !(infer_known(&in, 2, &at, &n) && n == 1 && dim_is(at[0], 0));
}

/* An element stays with probability 1 - ratio, and is divided by that; all stay as they are outside
 * training. */
static void dropout_lower(Lower *lo) {
    int x = lower_in(lo, 0), y = lower_out(lo, 0), mask = lower_out(lo, 1);
    bool old = lo->node->version < 12;
    if (!dropout_trains(lo)) {
        if (y >= 0) lower_copy(lo, NULL, x, y);
        if (mask >= 0)
            lower_copy(lo, "mask", lower_scalar(lo, "one", nn_cont(lo, mask)->type, 1), mask);
        return;
    }
    int train =
        old ? lower_scalar(lo, "train", BOOL, 1) : nn_scalar(lo, "train", lower_in(lo, 2), BOOL, 0);
    float share = old ? nn_float(lo, "ratio", 0.5f) : 0.5f;
    int ratio = nn_scalar(lo, "ratio", old ? -1 : lower_in(lo, 1), F32, share);
    int keep = nn_tmp_like(lo, "keep", BOOL, x);
    Dim at[RANK_MAX];
    Map *m = nn_map_over(lo, "keep", "", x, at);
    int u = uniform(lo, m, flat_index(lo, x, at), 0, F32);
    int drop = EXPR(m, "$0 & ($1 < $2)", nn_read(lo, m, train, NULL), u,
                    nn_read_as(lo, m, ratio, NULL, F32));
    nn_write(lo, m, keep, at, EXPR(m, "$0 ^ $1", drop, body_const(&m->body, BOOL, 1)));
    if (mask >= 0) lower_pointwise(lo, "mask", "$0", &keep, 1, mask);
    if (y < 0) return;
    m = nn_map_over(lo, NULL, "", y, at);
    DType t = dtype_compute(nn_cont(lo, x)->type);
    int part = EXPR(m, "1 - select($0, $1, 0)", nn_read(lo, m, train, NULL),
                    nn_read_as(lo, m, ratio, NULL, t));
    nn_write(
        lo, m, y, at,
        EXPR(m, "select($0, $1 / $2, 0)", nn_read(lo, m, keep, at), nn_read(lo, m, x, at), part));
}

const OpRow onnx_random_rows[] = {
    {"", "Dropout", 1, 6, dropout_infer, dropout_lower, NULL, "float", OP_RANDOM},
    {"", "Dropout", 7, 11, dropout_infer, dropout_lower, NULL, "float", 0},
    {"", "Dropout", 12, 0, dropout_infer, dropout_lower, NULL, "float", OP_RANDOM},
    {"", "RandomUniform", 1, 0, random_infer, random_uniform_lower, NULL, NULL, OP_RANDOM},
    {"", "RandomNormal", 1, 0, random_infer, random_normal_lower, NULL, NULL, OP_RANDOM},
    {"", "RandomUniformLike", 1, 0, random_like_infer, random_uniform_lower, NULL, NULL, OP_RANDOM},
    {"", "RandomNormalLike", 1, 0, random_like_infer, random_normal_lower, NULL, NULL, OP_RANDOM},
    {"", "Bernoulli", 15, 0, bernoulli_infer, bernoulli_lower, NULL, T_FLOATS, OP_RANDOM},
    {"", "Multinomial", 7, 0, multinomial_infer, multinomial_lower, NULL, T_FLOATS, OP_RANDOM},
    {0},
};
