/* SPDX-License-Identifier: Apache-2.0 */
/* Normalisations: mean and variance over some axes, then one map over everything.
 *
 * The variance is the mean of squared distances from the mean (two passes: exact enough for any
 * data), and each step is a map of its own: sum, divide, sum of squares, inverse root, scale.
 * Passes fuse them. All is computed in f32 for small floats, whatever the stash type, and rounded
 * once. */
#include "nn.h"

#include <string.h>

/* What is normalised. `split` (may be NULL): the channel axis is walked as groups of that many, so
 * the box has one dim more than the operand: [n, group, channel, ..]. */
typedef struct Norm {
    int x;
    Shape box;
    bool flag[RANK_MAX];
    Dim split;
    Dim kept[RANK_MAX];
    int nkept;
    DType t;
} Norm;

static void norm_kept(Norm *n) {
    n->nkept = nn_kept(n->box.at, n->flag, n->box.rank, n->kept);
}

static Norm norm_open(Lower *lo) {
    Norm n = {.x = lower_in(lo, 0)};
    n.box = nn_shape(lo, n.x);
    n.t = dtype_compute(nn_cont(lo, n.x)->type);
    return n;
}

static Norm norm_from(Lower *lo, int axis) {
    Norm n = norm_open(lo);
    for (int i = axis; i < n.box.rank; i++) n.flag[i] = true;
    norm_kept(&n);
    return n;
}

/* A map over the box; `at` indexes the box, `x` the operand. */
static Map *norm_map(Lower *lo, const Norm *n, const char *name, Dim *at, Dim *x) {
    Map *m = lower_map(lo, name);
    nn_dims(lo, m,
            n->split           ? "ngchwd"
            : n->box.rank == 4 ? "nchw"
                               : "",
            n->box.at, n->box.rank, at);
    int k = 0;
    for (int i = 0; i < n->box.rank; i++) {
        if (n->split && i == 2)
            x[k - 1] = dim_add(lo->ctx, dim_mul(lo->ctx, x[k - 1], n->split), at[2]);
        else
            x[k++] = at[i];
    }
    return m;
}

static int norm_stat(Lower *lo, const Norm *n, const char *name) {
    return lower_tmp(lo, name, n->t, n->kept, n->nkept);
}

/* stat = expr(sum / count) for each kept index. */
static int norm_finish(Lower *lo, const Norm *n, const char *name, const char *expr, int sum) {
    Dim at[RANK_MAX];
    int to = norm_stat(lo, n, name);
    Map *m = nn_map_over(lo, name, "", to, at);
    int count = nn_size(m, nn_extent(lo->ctx, n->box.at, n->flag, n->box.rank), n->t);
    nn_write(lo, m, to, at, EXPR(m, expr, nn_read(lo, m, sum, at), count));
    return to;
}

static int norm_mean(Lower *lo, const Norm *n) {
    Dim at[RANK_MAX], x[RANK_MAX], row[RANK_MAX];
    int sum = norm_stat(lo, n, "sum");
    Map *m = norm_map(lo, n, "sum", at, x);
    nn_kept(at, n->flag, n->box.rank, row);
    nn_reduce(lo, m, sum, row, nn_read(lo, m, n->x, x), "sum");
    return norm_finish(lo, n, "mean", "$0 / $1", sum);
}

/* expr of the sum $0 of squared distances from the mean (mean < 0: of squares) and the count $1. */
static int norm_squares(Lower *lo, const Norm *n, const char *name, const char *expr, int mean) {
    Dim at[RANK_MAX], x[RANK_MAX], row[RANK_MAX];
    int sum = norm_stat(lo, n, "squares");
    Map *m = norm_map(lo, n, "squares", at, x);
    nn_kept(at, n->flag, n->box.rank, row);
    int v = nn_read(lo, m, n->x, x);
    if (mean >= 0) v = EXPR(m, "$0 - $1", v, nn_read(lo, m, mean, row));
    nn_reduce(lo, m, sum, row, EXPR(m, "$0 * $0", v), "sum");
    return norm_finish(lo, n, name, expr, sum);
}

static const char *inverse_root(Lower *lo, float otherwise) {
    return internf(lo->ctx, "1 / sqrt($0 / $1 + %s)",
                   nn_lit(lo, nn_float(lo, "epsilon", otherwise)));
}

/* x or x - mean, times the inverse deviation: the value in an open map. */
static int norm_value(Lower *lo, const Norm *n, Map *m, const Dim *at, const Dim *x, int mean,
                      int inverse) {
    Dim row[RANK_MAX];
    nn_kept(at, n->flag, n->box.rank, row);
    int v = nn_read(lo, m, n->x, x), r = nn_read(lo, m, inverse, row);
    if (mean < 0) return EXPR(m, "$0 * $1", v, r);
    return EXPR(m, "($0 - $1) * $2", v, nn_read(lo, m, mean, row), r);
}

/* A statistic as a result that keeps reduced axes as 1. */
static void norm_result(Lower *lo, const Norm *n, const char *name, int stat, int to) {
    Dim at[RANK_MAX], row[RANK_MAX];
    if (to < 0) return;
    Map *m = nn_map_over(lo, name, "", to, at);
    nn_kept(at, n->flag, n->box.rank, row);
    nn_write(lo, m, to, at, nn_read(lo, m, stat, row));
}

/* ---- BatchNormalization ---------------------------------------------------------------------- */

static bool is_training(Ctx *ctx, const Node *node) {
    int used = 0;
    for (int i = 1; i < node->out.n; i++) used += node->out.at[i] >= 0;
    if (node->version >= 14) return attr_int(ctx, node, "training_mode", 0) != 0;
    if (node->version < 7 && attr_int(ctx, node, "is_test", 0)) return false;
    return used > 0;
}

static void batch_norm_infer(Infer *in) {
    const Type *x = nn_ranked(in, 0, 1, RANK_MAX);
    Dim channels = x->rank > 1 ? x->shape[1] : dim_const(in->ctx, 1);
    if (!attr_int(in->ctx, in->node, "spatial", 1))
        fail(in->ctx, E_UNSUPPORTED,
             "attribute \"spatial\" is 0: only statistics per channel are supported");
    for (int i = 1; i < in->node->out.n; i++)
        if (in->node->out.at[i] >= 0 && !is_training(in->ctx, in->node))
            fail(in->ctx, E_MODEL,
                 "result %d is a statistic of training, but the node does not train: set "
                 "\"training_mode\", or ask for the first result only",
                 i);
    for (int i = 1; i < 5; i++)
        channels = nn_agree(in, channels, nn_ranked(in, i, 1, 1)->shape[0], 0, i,
                            "the second needs one element for each channel (dim 1) of the first");
    nn_infer_same(in);
    for (int i = 1; i < 5; i++)
        infer_set(in, i, infer_tensor(in, i < 3 ? i + 2 : i)->type.dtype, &channels, 1);
}

/* out = old * momentum + now * (1 - momentum) */
static void running(Lower *lo, const char *name, int old, int now, int to) {
    const char *f = nn_lit(lo, nn_float(lo, "momentum", 0.9f));
    const char *text = internf(lo->ctx, "$0 * %s + $1 * (1 - %s)", f, f);
    if (to >= 0) lower_pointwise(lo, name, text, (int[]){old, now}, 2, to);
}

static void batch_norm_scale(Lower *lo, int mean, int var) {
    int x = lower_in(lo, 0), scale = lower_in(lo, 1), bias = lower_in(lo, 2), y = lower_out(lo, 0);
    DType t = dtype_compute(nn_cont(lo, x)->type), s = dtype_compute(nn_cont(lo, scale)->type);
    if (s == F64) t = F64;
    int factor = nn_tmp_like(lo, "factor", t, scale), shift = nn_tmp_like(lo, "shift", t, scale);
    const char *eps = nn_lit(lo, nn_float(lo, "epsilon", 1e-5f)), *type = dtype_name(t);
    const char *text = internf(lo->ctx, "%s($0) / sqrt(%s($1) + %s)", type, type, eps);
    lower_pointwise(lo, "factor", text, (int[]){scale, var}, 2, factor);
    text = internf(lo->ctx, "%s($0) - %s($1) * $2", type, type);
    lower_pointwise(lo, "shift", text, (int[]){bias, mean, factor}, 3, shift);
    Dim at[RANK_MAX];
    Map *m = nn_map_over(lo, NULL, "nchw", y, at);
    Dim c = nn_cont(lo, y)->rank > 1 ? at[1] : dim_const(lo->ctx, 0);
    int v = nn_read_as(lo, m, x, at, t);
    int a = nn_read(lo, m, factor, &c), b = nn_read(lo, m, shift, &c);
    nn_write(lo, m, y, at, EXPR(m, "$0 * $1 + $2", v, a, b));
}

static void batch_norm_lower(Lower *lo) {
    int mean = lower_in(lo, 3), var = lower_in(lo, 4);
    if (!is_training(lo->ctx, lo->node)) {
        batch_norm_scale(lo, mean, var);
        return;
    }
    Norm n = norm_open(lo);
    for (int i = 0; i < n.box.rank; i++) n.flag[i] = i != 1;
    norm_kept(&n);
    int now = norm_mean(lo, &n), spread = norm_squares(lo, &n, "variance", "$0 / $1", now);
    batch_norm_scale(lo, now, spread);
    running(lo, "running_mean", mean, now, lower_out(lo, 1));
    running(lo, "running_var", var, spread, lower_out(lo, 2));
    if (lower_out(lo, 3) >= 0) lower_copy(lo, "saved_mean", now, lower_out(lo, 3));
    if (lower_out(lo, 4) >= 0) lower_copy(lo, "saved_var", spread, lower_out(lo, 4));
}

/* ---- InstanceNormalization, GroupNormalization ----------------------------------------------- */

static void per_channel_infer(Infer *in, Dim expect) {
    for (int i = 1; i < 3; i++)
        nn_agree(in, expect, nn_ranked(in, i, 1, 1)->shape[0], 0, i,
                 "the second needs one element for each channel (dim 1) of the first, or for each "
                 "group");
    nn_infer_same(in);
}

static void instance_norm_infer(Infer *in) {
    per_channel_infer(in, nn_ranked(in, 0, 2, RANK_MAX)->shape[1]);
}

/* Scale and bias are read at `c`. */
static void affine_write(Lower *lo, const Norm *n, Map *m, const Dim *x, int value, Dim c) {
    int scale = nn_read_as(lo, m, lower_in(lo, 1), &c, n->t);
    int bias = nn_read_as(lo, m, lower_in(lo, 2), &c, n->t);
    nn_write(lo, m, lower_out(lo, 0), x, EXPR(m, "$0 * $1 + $2", value, scale, bias));
}

static void instance_norm_lower(Lower *lo) {
    Norm n = norm_from(lo, 2);
    Dim at[RANK_MAX], x[RANK_MAX];
    int mean = norm_mean(lo, &n),
        inverse = norm_squares(lo, &n, "inverse", inverse_root(lo, 1e-5f), mean);
    Map *m = norm_map(lo, &n, NULL, at, x);
    affine_write(lo, &n, m, x, norm_value(lo, &n, m, at, x, mean, inverse), at[1]);
}

static void group_norm_infer(Infer *in) {
    const Type *x = nn_ranked(in, 0, 2, RANK_MAX - 1);
    int64_t groups = attr_int(in->ctx, in->node, "num_groups", 0), c;
    if (groups < 1)
        fail(in->ctx, E_ATTRIBUTE, "attribute \"num_groups\" is %lld: it must be at least 1",
             (long long)groups);
    if (dim_is_const(x->shape[1], &c) && c % groups)
        nn_misfit(in, 0, 0,
                  "its channels (dim 1) must be a multiple of the attribute \"num_groups\"");
    per_channel_infer(in, in->node->version < 21 ? dim_const(in->ctx, groups) : x->shape[1]);
}

/* Before version 21 scale and bias belong to groups, then to channels. */
static void group_norm_lower(Lower *lo) {
    Norm n = norm_open(lo);
    Dim groups = dim_const(lo->ctx, nn_int(lo, "num_groups", 1)), at[RANK_MAX], x[RANK_MAX];
    n.split = dim_div(lo->ctx, n.box.at[1], groups);
    memmove(n.box.at + 3, n.box.at + 2, sizeof(Dim) * (size_t)(n.box.rank - 2));
    n.box.at[1] = groups, n.box.at[2] = n.split;
    n.box.rank++;
    for (int i = 2; i < n.box.rank; i++) n.flag[i] = true;
    norm_kept(&n);
    int mean = norm_mean(lo, &n),
        inverse = norm_squares(lo, &n, "inverse", inverse_root(lo, 1e-5f), mean);
    Map *m = norm_map(lo, &n, NULL, at, x);
    int value = norm_value(lo, &n, m, at, x, mean, inverse);
    affine_write(lo, &n, m, x, value, lo->node->version < 21 ? at[1] : x[1]);
}

/* ---- LayerNormalization, RMSNormalization ---------------------------------------------------- */

static void broadcasts_to_first(Infer *in, int i) {
    Dim out[RANK_MAX];
    const Type *x = &infer_tensor(in, 0)->type;
    if (!infer_in(in, i)) return;
    if (infer_broadcast(in, x, &infer_tensor(in, i)->type, out) != x->rank)
        nn_misfit(in, 0, i, "the second must broadcast to the first: it has more dims");
}

static void layer_norm_infer(Infer *in) {
    const Type *x = nn_ranked(in, 0, 1, RANK_MAX);
    Dim stat[RANK_MAX];
    int axis = (int)attr_axis(in->ctx, in->node, "axis", -1, x->rank);
    DType stash = dtype_from_onnx((int)attr_int(in->ctx, in->node, "stash_type", 1));
    if (!nn_is_float(stash))
        fail(in->ctx, E_ATTRIBUTE, "attribute \"stash_type\" is no float type: use 1 (float)");
    broadcasts_to_first(in, 1);
    broadcasts_to_first(in, 2);
    for (int i = 0; i < x->rank; i++) stat[i] = i < axis ? x->shape[i] : dim_const(in->ctx, 1);
    nn_infer_same(in);
    infer_set(in, 1, stash, stat, x->rank);
    infer_set(in, 2, stash, stat, x->rank);
}

/* y = value * scale + bias, broadcast from the right; both operands may be absent. */
static void layer_write(Lower *lo, const Norm *n, Map *m, const Dim *at, int value) {
    int scale = lower_in(lo, 1), bias = lower_in(lo, 2), rank = n->box.rank;
    if (scale >= 0)
        value = EXPR(m, "$0 * $1", value, nn_read_broadcast(lo, m, scale, at, rank, n->t));
    if (bias >= 0)
        value = EXPR(m, "$0 + $1", value, nn_read_broadcast(lo, m, bias, at, rank, n->t));
    nn_write(lo, m, lower_out(lo, 0), at, value);
}

static void layer_norm_lower(Lower *lo) {
    int rank = nn_cont(lo, lower_in(lo, 0))->rank;
    Norm n = norm_from(lo, (int)attr_axis(lo->ctx, lo->node, "axis", -1, rank));
    Dim at[RANK_MAX], x[RANK_MAX];
    int mean = norm_mean(lo, &n),
        inverse = norm_squares(lo, &n, "inverse", inverse_root(lo, 1e-5f), mean);
    Map *m = norm_map(lo, &n, NULL, at, x);
    layer_write(lo, &n, m, at, norm_value(lo, &n, m, at, x, mean, inverse));
    norm_result(lo, &n, "mean_out", mean, lower_out(lo, 1));
    norm_result(lo, &n, "inverse_out", inverse, lower_out(lo, 2));
}

static void rms_norm_infer(Infer *in) {
    attr_axis(in->ctx, in->node, "axis", -1, nn_ranked(in, 0, 1, RANK_MAX)->rank);
    broadcasts_to_first(in, 1);
    const Type *x = &infer_tensor(in, 0)->type;
    infer_set(in, 0, infer_tensor(in, 1)->type.dtype, x->shape, x->rank);
}

static void rms_norm_lower(Lower *lo) {
    int rank = nn_cont(lo, lower_in(lo, 0))->rank;
    Norm n = norm_from(lo, (int)attr_axis(lo->ctx, lo->node, "axis", -1, rank));
    Dim at[RANK_MAX], x[RANK_MAX];
    int inverse = norm_squares(lo, &n, "inverse", inverse_root(lo, 1e-5f), -1);
    Map *m = norm_map(lo, &n, NULL, at, x);
    layer_write(lo, &n, m, at, norm_value(lo, &n, m, at, x, -1, inverse));
}

/* ---- LRN, MeanVarianceNormalization ---------------------------------------------------------- */

static void lrn_infer(Infer *in) {
    int64_t size = attr_int(in->ctx, in->node, "size", 0);
    nn_ranked(in, 0, 2, RANK_MAX);
    if (size < 1)
        fail(in->ctx, E_ATTRIBUTE, "attribute \"size\" is %lld: it must be at least 1",
             (long long)size);
    nn_infer_same(in);
}

/* x / (bias + alpha / size * sum of squares over the neighbouring channels) ^ beta */
static void lrn_lower(Lower *lo) {
    Ctx *ctx = lo->ctx;
    int x = lower_in(lo, 0), y = lower_out(lo, 0);
    int64_t size = nn_int(lo, "size", 1);
    DType t = dtype_compute(nn_cont(lo, x)->type);
    int sum = nn_tmp_like(lo, "squares", t, x);
    Dim at[RANK_MAX], near[RANK_MAX];
    Map *m = nn_map_over(lo, "squares", "nchw", x, at);
    memcpy(near, at, sizeof near);
    near[1] = dim_addc(ctx, dim_add(ctx, at[1], nn_dim(lo, m, "k", dim_const(ctx, size))),
                       -((size - 1) / 2));
    nn_reduce(lo, m, sum, at, EXPR(m, "$0 * $0", nn_read_else(lo, m, x, near, 0, t)), "sum");
    float alpha = nn_float(lo, "alpha", 1e-4f), beta = nn_float(lo, "beta", 0.75f);
    const char *text =
        internf(ctx, "$0 / pow(%s + %s * $1, %s)", nn_lit(lo, nn_float(lo, "bias", 1)),
                nn_lit(lo, alpha / (float)size), nn_lit(lo, beta));
    lower_pointwise(lo, NULL, text, (int[]){x, sum}, 2, y);
}

static Norm mvn_open(Lower *lo) {
    static const int64_t usual[] = {0, 2, 3};
    Norm n = norm_open(lo);
    const int64_t *axes = usual;
    int count = attr_ints(lo->ctx, lo->node, "axes", &axes);
    nn_axes(lo->ctx, axes, count < 0 ? 3 : count, n.box.rank, n.flag);
    norm_kept(&n);
    return n;
}

static void mvn_lower(Lower *lo) {
    Norm n = mvn_open(lo);
    Dim at[RANK_MAX], x[RANK_MAX];
    int mean = norm_mean(lo, &n);
    int inverse =
        norm_squares(lo, &n, "inverse", "1 / (sqrt($0 / $1) + 0x1.12e0be826d695p-30)", mean);
    Map *m = norm_map(lo, &n, NULL, at, x);
    nn_write(lo, m, lower_out(lo, 0), x, norm_value(lo, &n, m, at, x, mean, inverse));
}

const OpRow onnx_norm_rows[] = {
    {"", "BatchNormalization", 1, 0, batch_norm_infer, batch_norm_lower, NULL, T_FLOATS, 0},
    {"", "InstanceNormalization", 1, 0, instance_norm_infer, instance_norm_lower, NULL, T_FLOATS,
     0},
    {"", "GroupNormalization", 18, 0, group_norm_infer, group_norm_lower, NULL, T_FLOATS, 0},
    {"", "LayerNormalization", 1, 0, layer_norm_infer, layer_norm_lower, NULL, T_FLOATS, 0},
    {"", "RMSNormalization", 23, 0, rms_norm_infer, rms_norm_lower, NULL, T_FLOATS, 0},
    {"", "LRN", 1, 0, lrn_infer, lrn_lower, NULL, T_FLOATS, 0},
    {"", "MeanVarianceNormalization", 9, 0, nn_infer_same, mvn_lower, NULL, T_FLOATS, 0},
    {0},
};
