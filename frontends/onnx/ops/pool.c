/* SPDX-License-Identifier: Apache-2.0 */
/* Pools: a map over image, channel, output position and window, folded by max or sum.
 *
 * Outside the operand, max reads the smallest value and sums read 0. How many elements an average
 * counts is an integer expression of the output position, the product over the spatial dims, and so
 * needs no table. With indices, max is the combine that carries an index, over the part of the
 * window that lies inside. */
#include "conv.h"
#include "view.h"

#include <float.h>
#include <math.h>

/* ---- the window's map ------------------------------------------------------------------------ */

static Window pool_window(Ctx *ctx, const Node *node, const Dim *shape, int rank) {
    return nn_window(ctx, node, shape + 2, rank - 2, NULL);
}

static void pool_infer(Infer *in) {
    const Type *x = nn_ranked(in, 0, 3, 2 + SPATIAL_MAX);
    Dim out[RANK_MAX] = {x->shape[0], x->shape[1]};
    Window w = pool_window(in->ctx, in->node, x->shape, x->rank);
    for (int i = 0; i < w.n; i++) out[2 + i] = w.out[i];
    infer_set(in, 0, x->dtype, out, x->rank);
    infer_set(in, 1, I64, out, x->rank);
}

typedef struct Pool {
    int x, y;
    Window w;
    Map *m;
    Dim in[RANK_MAX], out[RANK_MAX]; /* indices */
    DType t;
} Pool;

static Pool pool_open(Lower *lo, const char *name, int y) {
    Pool p = {.x = lower_in(lo, 0), .y = y};
    Shape sx = nn_shape(lo, p.x);
    p.t = dtype_compute(nn_cont(lo, p.x)->type);
    p.w = pool_window(lo->ctx, lo->node, sx.at, sx.rank);
    p.m = lower_map(lo, name);
    p.in[0] = p.out[0] = nn_dim(lo, p.m, "n", sx.at[0]);
    p.in[1] = p.out[1] = nn_dim(lo, p.m, "c", sx.at[1]);
    for (int i = 0; i < p.w.n; i++)
        p.out[2 + i] = nn_dim(lo, p.m, conv_name(conv_out_name, p.w.n, i), p.w.out[i]);
    for (int i = 0; i < p.w.n; i++) {
        Dim r = nn_dim(lo, p.m, conv_name(conv_tap_name, p.w.n, i), p.w.kernel[i]);
        p.in[2 + i] = nn_tap(lo->ctx, &p.w, i, p.out[2 + i], r);
    }
    return p;
}

static int pool_read(Lower *lo, Pool *p, double otherwise) {
    if (!p->w.padded) return nn_read_as(lo, p->m, p->x, p->in, p->t);
    return nn_read_else(lo, p->m, p->x, p->in, otherwise, p->t);
}

/* ---- MaxPool --------------------------------------------------------------------------------- */

/* Index of the element among all of the operand, rows first: of equal elements the first wins. */
static Dim flat_index(Lower *lo, const Pool *p) {
    Shape s = nn_shape(lo, p->x);
    return dim_flat(lo->ctx, p->in, s.at, s.rank);
}

/* The same elements counted columns first within each channel (storage_order 1). */
static void count_columns(Lower *lo, const Pool *p, int flat, int indices) {
    Dim at[RANK_MAX], columns = dim_const(lo->ctx, 1);
    Shape s = nn_shape(lo, p->x);
    Map *m = nn_map_over(lo, NULL, "", indices, at);
    int rest = nn_read(lo, m, flat, at), sum = body_const(&m->body, I64, 0), digit[RANK_MAX];
    for (int i = s.rank - 1; i >= 2; i--) {
        int size = nn_size(m, s.at[i], I64);
        digit[i] = EXPR(m, "$0 % $1", rest, size);
        rest = EXPR(m, "$0 / $1", rest, size);
    }
    for (int i = 2; i < s.rank; i++) {
        sum = EXPR(m, "$0 + $1 * $2", sum, digit[i], nn_size(m, columns, I64));
        columns = dim_mul(lo->ctx, columns, s.at[i]);
    }
    sum = EXPR(m, "$0 + $1 * $2", sum, rest, nn_size(m, columns, I64));
    nn_write(lo, m, indices, at, sum);
}

static void max_pool_indices(Lower *lo, int y, int indices) {
    Pool p = pool_open(lo, NULL, y);
    Dim zero = dim_const(lo->ctx, 0);
    bool columns = nn_int(lo, "storage_order", 0) != 0;
    int best = y < 0 ? nn_tmp_like(lo, "best", p.t, indices) : y;
    int flat = columns ? nn_tmp_like(lo, "flat", I64, indices) : indices;
    for (int i = 0; i < p.w.n; i++) nn_between(lo, p.m, p.in[2 + i], zero, p.w.in[i]);
    int val[2] = {nn_read(lo, p.m, p.x, p.in), body_index(&p.m->body, flat_index(lo, &p))};
    map_write_tuple(lo->flow, p.m, 2, (int[]){best, flat}, (const Dim *const[]){p.out, p.out}, 2,
                    val, combine_get(lo->ctx, "argmax_first", p.t));
    if (columns) count_columns(lo, &p, flat, indices);
}

static void max_pool_lower(Lower *lo) {
    int y = lower_out(lo, 0), indices = lower_out(lo, 1);
    if (indices >= 0) {
        max_pool_indices(lo, y, indices);
        return;
    }
    Pool p = pool_open(lo, NULL, y);
    DType t = nn_cont(lo, p.x)->type;
    int val = pool_read(lo, &p, nn_is_float(t) ? -INFINITY : dtype_lowest(t));
    nn_reduce(lo, p.m, y, p.out, val, "max");
}

/* ---- MaxpoolWithMask ---------------------------------------------------------------------------
 *
 * A row of a window, along the last axis, ends at the first element whose mask is 0. Which mask a
 * channel has is what ONNX Runtime reads: that from element (channel * elements of an image) %
 * (channels of the mask) on. */

/* The mask of each element of the operand. */
static int masks(Lower *lo) {
    Ctx *ctx = lo->ctx;
    int x = lower_in(lo, 0), given = lower_in(lo, 1), to = nn_tmp_like(lo, "mask", I32, x);
    Shape s = nn_shape(lo, x), g = nn_shape(lo, given);
    Dim at[RANK_MAX], from[RANK_MAX], image = dim_product(ctx, s.at + 2, s.rank - 2);
    Map *m = nn_map_over(lo, NULL, "nchw", to, at);
    Dim place = dim_flat(ctx, at + 2, s.at + 2, s.rank - 2);
    Dim first = dim_mul(ctx, dim_flat(ctx, at, s.at, 2), image);
    Dim rest = dim_add(ctx, dim_mod(ctx, first, dim_product(ctx, g.at, 2)), place);
    for (int i = g.rank - 1; i >= 0; i--) {
        from[i] = i ? dim_mod(ctx, rest, g.at[i]) : rest;
        rest = dim_div(ctx, rest, g.at[i]);
    }
    nn_write(lo, m, to, at, nn_read_else(lo, m, given, from, 1, I32));
    return to;
}

/* Of each row of the operand, window along it and tap: 0 when a mask up to the tap is 0. */
static int open_taps(Lower *lo, const Window *w) {
    int mask = masks(lo), last = w->n - 1, rank = w->n + 3;
    Shape s = nn_shape(lo, mask);
    Dim at[RANK_MAX], from[RANK_MAX], taps = w->kernel[last];
    s.at[rank - 2] = w->out[last], s.at[rank - 1] = taps;
    int to = lower_tmp(lo, "open", I32, s.at, rank);
    Map *m = lower_map(lo, "open");
    nn_dims(lo, m, "nchwo", s.at, rank, at);
    Dim tap = nn_dim(lo, m, "e", taps);
    for (int i = 0; i < rank - 1; i++) from[i] = at[i];
    from[rank - 2] = nn_tap(lo->ctx, w, last, at[rank - 2], tap);
    nn_between(lo, m, dim_sub(lo->ctx, at[rank - 1], tap), dim_const(lo->ctx, 0), taps);
    int val = nn_read_else(lo, m, mask, from, 1, I32);
    nn_reduce(lo, m, to, at, EXPR(m, "min(abs($0), 1)", val), "min");
    return to;
}

static void masked_infer(Infer *in) {
    infer_arity(in, 2, 2);
    nn_ranked(in, 1, 2, RANK_MAX);
    nn_ranked(in, 0, 3, 5);
    pool_infer(in);
}

static void masked_lower(Lower *lo) {
    int y = lower_out(lo, 0);
    Shape s = nn_shape(lo, lower_in(lo, 0));
    Window w = pool_window(lo->ctx, lo->node, s.at, s.rank);
    int open = open_taps(lo, &w), last = s.rank - 1;
    Pool p = pool_open(lo, NULL, y);
    Dim at[RANK_MAX], zero = dim_const(lo->ctx, 0);
    for (int i = 0; i < last; i++) at[i] = p.in[i];
    at[last] = p.out[last];
    at[s.rank] = dim_sub(lo->ctx, p.in[last], nn_tap(lo->ctx, &w, w.n - 1, p.out[last], zero));
    int seen = nn_read_else(lo, p.m, open, at, 0, I32), val = pool_read(lo, &p, -FLT_MAX);
    int none = body_const(&p.m->body, p.t, -FLT_MAX);
    nn_reduce(lo, p.m, y, p.out, EXPR(p.m, "select($0 != 0, $1, $2)", seen, val, none), "max");
}

/* ---- AveragePool ----------------------------------------------------------------------------- */

/* Taps of output o that are counted along spatial dim i: those inside, or inside the padded
 * operand. */
static Dim counted(Lower *lo, const Window *w, int i, Dim o, bool padding) {
    Ctx *ctx = lo->ctx;
    Dim kernel = w->kernel[i], step = dim_const(ctx, w->dilation[i]), zero = dim_const(ctx, 0);
    Dim start = dim_sub(ctx, dim_mulc(ctx, o, w->stride[i]), w->begin[i]);
    Dim end = padding ? dim_add(ctx, w->in[i], w->end[i]) : w->in[i];
    Dim hi = dim_min(ctx, kernel, dim_ceildiv(ctx, dim_sub(ctx, end, start), step));
    if (padding) return hi;
    Dim lo_tap = dim_max(ctx, zero, dim_ceildiv(ctx, dim_mulc(ctx, start, -1), step));
    return dim_sub(ctx, hi, lo_tap);
}

static void average_pool_lower(Lower *lo) {
    int y = lower_out(lo, 0);
    DType t = dtype_compute(nn_cont(lo, y)->type);
    int acc = nn_tmp_like(lo, "sum", t, y);
    bool padding = nn_int(lo, "count_include_pad", 0) != 0;
    Pool p = pool_open(lo, "sum", acc);
    nn_reduce(lo, p.m, acc, p.out, pool_read(lo, &p, 0), "sum");
    Dim at[RANK_MAX], count = dim_const(lo->ctx, 1);
    Map *m = nn_map_over(lo, NULL, p.w.n == 1 ? "ncw" : p.w.n == 2 ? "nchw" : "ncdhw", y, at);
    DimEnv env = map_env(lo->arena, lo->flow, m);
    for (int i = 0; i < p.w.n; i++) {
        Dim part = p.w.padded
                       ? dim_simplify(lo->ctx, counted(lo, &p.w, i, at[2 + i], padding), &env)
                       : p.w.kernel[i];
        count = dim_mul(lo->ctx, count, part);
    }
    nn_write(lo, m, y, at, EXPR(m, "$0 / $1", nn_read(lo, m, acc, at), nn_size(m, count, t)));
}

/* ---- LpPool ---------------------------------------------------------------------------------- */

/* The attribute p was a float in version 1. */
static double norm_order(Lower *lo) {
    const Attr *p = node_attr(lo->node, "p");
    return p && p->kind == ATTR_FLOAT ? (double)p->f : (double)nn_int(lo, "p", 2);
}

static const char *norm_before(Lower *lo, double p) {
    return p == 1   ? "abs($0)"
           : p == 2 ? "$0 * $0"
                    : internf(lo->ctx, "pow(abs($0), %s)", nn_lit(lo, p));
}

static const char *norm_after(Lower *lo, double p) {
    return p == 1 ? "$0" : p == 2 ? "sqrt($0)" : internf(lo->ctx, "pow($0, %s)", nn_lit(lo, 1 / p));
}

static void lp_pool_lower(Lower *lo) {
    int y = lower_out(lo, 0);
    double order = norm_order(lo);
    int acc = nn_tmp_like(lo, "sum", dtype_compute(nn_cont(lo, y)->type), y);
    Pool p = pool_open(lo, "sum", acc);
    nn_reduce(lo, p.m, acc, p.out, EXPR(p.m, norm_before(lo, order), pool_read(lo, &p, 0)), "sum");
    lower_pointwise(lo, NULL, norm_after(lo, order), &acc, 1, y);
}

/* ---- over the whole image -------------------------------------------------------------------- */

static void global_infer(Infer *in) {
    const Type *x = nn_ranked(in, 0, 2, RANK_MAX);
    Dim out[RANK_MAX];
    for (int i = 0; i < x->rank; i++) out[i] = i < 2 ? x->shape[i] : dim_const(in->ctx, 1);
    infer_set(in, 0, x->dtype, out, x->rank);
}

/* Folds `before` of all elements of each channel into `to`; returns how many they are. */
static Dim global_fold(Lower *lo, const char *name, const char *before, const char *combine,
                       int to) {
    int x = lower_in(lo, 0), rank = nn_cont(lo, x)->rank;
    Shape s = nn_shape(lo, x);
    Dim at[RANK_MAX], out[RANK_MAX];
    Map *m = nn_map_over(lo, name, rank == 3 ? "ncw" : rank == 4 ? "nchw" : "ncdhw", x, at);
    for (int i = 0; i < rank; i++) out[i] = i < 2 ? at[i] : dim_const(lo->ctx, 0);
    nn_reduce(lo, m, to, out, EXPR(m, before, nn_read(lo, m, x, at)), combine);
    return dim_product(lo->ctx, s.at + 2, rank - 2);
}

static void global_max_lower(Lower *lo) {
    global_fold(lo, NULL, "$0", "max", lower_out(lo, 0));
}

static void global_average_lower(Lower *lo) {
    int y = lower_out(lo, 0);
    DType t = dtype_compute(nn_cont(lo, y)->type);
    int acc = nn_tmp_like(lo, "sum", t, y);
    Dim at[RANK_MAX], n = global_fold(lo, "sum", "$0", "sum", acc);
    Map *m = nn_map_over(lo, NULL, "nc", y, at);
    nn_write(lo, m, y, at, EXPR(m, "$0 / $1", nn_read(lo, m, acc, at), nn_size(m, n, t)));
}

static void global_lp_lower(Lower *lo) {
    int y = lower_out(lo, 0);
    double order = norm_order(lo);
    int acc = nn_tmp_like(lo, "sum", dtype_compute(nn_cont(lo, y)->type), y);
    global_fold(lo, "sum", norm_before(lo, order), "sum", acc);
    lower_pointwise(lo, NULL, norm_after(lo, order), &acc, 1, y);
}

/* ---- MaxUnpool ----------------------------------------------------------------------------------
 *
 * Indices count elements of the tensor that was pooled, whatever the result's shape: a call puts
 * the values there, into one row, and a map lays the row out. A larger result has zeros behind. */

/* Extents of the tensor that was pooled; or of the result, which an operand may give. */
static void unpool_shape(Ctx *ctx, const Node *node, const Dim *x, int rank, Dim *out) {
    int64_t kernel[SPATIAL_MAX], stride[SPATIAL_MAX], pads[2 * SPATIAL_MAX];
    int n = rank - 2;
    nn_attr_n(ctx, node, "kernel_shape", n, 1, kernel);
    nn_attr_n(ctx, node, "strides", n, 1, stride);
    nn_attr_n(ctx, node, "pads", 2 * n, 0, pads);
    out[0] = x[0], out[1] = x[1];
    for (int i = 0; i < n; i++) {
        Dim first = dim_mulc(ctx, dim_addc(ctx, x[2 + i], -1), stride[i]);
        out[2 + i] = dim_addc(ctx, first, kernel[i] - pads[i] - pads[n + i]);
    }
}

static void unpool_infer(Infer *in) {
    const Type *x = nn_ranked(in, 0, 3, 2 + SPATIAL_MAX),
               *at = nn_ranked(in, 1, 3, 2 + SPATIAL_MAX);
    const Dim *known;
    Dim out[RANK_MAX];
    int n;
    if (at->rank != x->rank) nn_misfit(in, 0, 1, "values and indices must have one shape");
    for (int i = 0; i < x->rank; i++)
        nn_agree(in, x->shape[i], at->shape[i], 0, 1, "values and indices must have one shape");
    if (!nn_absent(in->node, 2)) {
        onnx_need_length(in, 2, x->rank);
        if (infer_known(in, 2, &known, &n))
            infer_set(in, 0, x->dtype, known, n);
        else
            onnx_unknown_shape(in, 2, x->dtype, NULL);
        return;
    }
    unpool_shape(in->ctx, in->node, x->shape, x->rank, out);
    infer_set(in, 0, x->dtype, out, x->rank);
}

static void unpool_lower(Lower *lo) {
    Ctx *ctx = lo->ctx;
    int y = lower_out(lo, 0), axes[RANK_MAX], naxes = onnx_fresh_axes(lo, axes);
    if (naxes) onnx_define(lo, lower_in(lo, 2), axes, naxes);
    Shape x = nn_shape(lo, lower_in(lo, 0)), out = nn_shape(lo, y);
    DType t = nn_cont(lo, y)->type;
    Dim pooled[RANK_MAX], at[RANK_MAX];
    unpool_shape(ctx, lo->node, x.at, x.rank, pooled);
    bool same = true;
    for (int i = 0; i < x.rank; i++) same &= pooled[i] == out.at[i];
    int in[] = {-1, lower_in(lo, 1), lower_in(lo, 0)},
        to = same ? y : lower_tmp(lo, "pooled", t, pooled, x.rank);
    lower_call(lo, "scatter_elements", in, 3, &to, 1, (int64_t[]){-1, 0}, 2, NULL, 0);
    if (same) return;
    Map *m = nn_map_over(lo, NULL, "nchw", y, at);
    int zero = body_const(&m->body, t, 0);
    nn_write(lo, m, y, at, map_read_else(lo->flow, m, to, at, zero));
}

const OpRow onnx_pool_rows[] = {
    {"", "MaxPool", 1, 0, pool_infer, max_pool_lower, NULL, T_FLOATS " i8 u8", 0},
    {"", "AveragePool", 1, 0, pool_infer, average_pool_lower, NULL, T_FLOATS, 0},
    {"", "LpPool", 1, 0, pool_infer, lp_pool_lower, NULL, T_FLOATS, 0},
    {"com.microsoft", "MaxpoolWithMask", 1, 0, masked_infer, masked_lower, NULL, "f32", 0},
    {"", "MaxUnpool", 9, 0, unpool_infer, unpool_lower, NULL, T_FLOATS, 0},
    {"", "GlobalMaxPool", 1, 0, global_infer, global_max_lower, NULL, T_FLOATS, 0},
    {"", "GlobalAveragePool", 1, 0, global_infer, global_average_lower, NULL, T_FLOATS, 0},
    {"", "GlobalLpPool", 1, 0, global_infer, global_lp_lower, NULL, T_FLOATS, 0},
    {0},
};
