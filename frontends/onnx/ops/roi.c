/* SPDX-License-Identifier: Apache-2.0 */
/* RoiAlign, MaxRoiPool: pools over bins of regions that are given as data.
 *
 * RoiAlign samples a grid of points in each bin. With a fixed sampling ratio the points are dims of
 * one map. Without, a bin has as many points as it is long, which data decides; the average over
 * points is then written as the separable sum over the tensor's rows and columns, each weighted by
 * how much the points lie on it: two small maps for the weights and two contractions. The largest
 * is taken along rows of the largest along columns. */
#include "sample.h"

#include <math.h>
#include <string.h>

typedef struct Roi {
    int x, rois, batch, y;
    Shape in, out; /* [N,C,H,W], [K,C,P,Q] */
    bool half_pixel, max;
    int64_t ratio;
    float scale;
    DType t;
} Roi;

static const char *roi_mode(Ctx *ctx, const Node *node) {
    const char *usual = node->version < 16 ? "output_half_pixel" : "half_pixel";
    const char *mode = attr_string(ctx, node, "coordinate_transformation_mode", usual);
    if (strcmp(mode, "half_pixel") != 0 && strcmp(mode, "output_half_pixel") != 0)
        fail(ctx, E_ATTRIBUTE,
             "attribute \"coordinate_transformation_mode\" is \"%s\": use half_pixel or "
             "output_half_pixel",
             mode);
    return mode;
}

static void roi_align_infer(Infer *in) {
    const Type *x = nn_ranked(in, 0, 4, 4), *rois = nn_ranked(in, 1, 2, 2),
               *batch = nn_ranked(in, 2, 1, 1);
    const char *mode = attr_string(in->ctx, in->node, "mode", "avg");
    roi_mode(in->ctx, in->node);
    nn_agree(in, rois->shape[1], dim_const(in->ctx, 4), 1, 1, "a region has 4 elements");
    Dim n =
        nn_agree(in, rois->shape[0], batch->shape[0], 1, 2, "each region needs one batch index");
    if (strcmp(mode, "avg") != 0 && strcmp(mode, "max") != 0)
        fail(in->ctx, E_ATTRIBUTE, "attribute \"mode\" is \"%s\": use avg or max", mode);
    Dim out[] = {n, x->shape[1],
                 dim_const(in->ctx, attr_int(in->ctx, in->node, "output_height", 1)),
                 dim_const(in->ctx, attr_int(in->ctx, in->node, "output_width", 1))};
    infer_set(in, 0, x->dtype, out, 4);
}

static Roi roi_open(Lower *lo) {
    Roi r = {.x = lower_in(lo, 0),
             .rois = lower_in(lo, 1),
             .batch = lower_in(lo, 2),
             .y = lower_out(lo, 0)};
    r.in = nn_shape(lo, r.x), r.out = nn_shape(lo, r.y);
    r.t = dtype_compute(nn_cont(lo, r.x)->type);
    r.half_pixel = !strcmp(roi_mode(lo->ctx, lo->node), "half_pixel");
    r.max = !strcmp(attr_string(lo->ctx, lo->node, "mode", "avg"), "max");
    r.ratio = nn_int(lo, "sampling_ratio", 0);
    r.scale = nn_float(lo, "spatial_scale", 1);
    return r;
}

/* Start and length of region k along dim i (0: rows), scaled. */
static void roi_span(Lower *lo, const Roi *r, Map *m, Dim k, int i, int *start, int *length) {
    int end[2];
    const char *text =
        internf(lo->ctx, r->half_pixel ? "$0 * %s - 0.5" : "$0 * %s", nn_lit(lo, r->scale));
    for (int e = 0; e < 2; e++) {
        Dim at[] = {k, dim_const(lo->ctx, 2 * e + 1 - i)};
        end[e] = EXPR(m, text, nn_read_as(lo, m, r->rois, at, r->t));
    }
    *start = end[0];
    *length = EXPR(m, r->half_pixel ? "$1 - $0" : "max($1 - $0, 1)", end[0], end[1]);
}

/* The coordinate of point s of `points` in bin p of `bins`. */
static int roi_point(Map *m, int start, int length, int bins, int p, int s, int points) {
    return EXPR(m, "bin = $1 / $2; $0 + $3 * bin + ($4 + 0.5) * bin / $5", start, length, bins, p,
                s, points);
}

/* Neighbours of a point: none when it is more than one outside; at the edge the edge itself. */
static Taps roi_taps(Map *m, const Roi *r, int x, Dim extent) {
    Taps taps = {.n = 2};
    int last = nn_size(m, extent, r->t);
    int inside = EXPR(m, "select(($0 >= -1) & ($0 <= $1), 1, 0 * $0)", x, last);
    last = EXPR(m, "$0 - 1", last);
    x = EXPR(m, "min(max($0, 0), $1)", x, last);
    int low = EXPR(m, "floor($0)", x), part = EXPR(m, "$0 - $1", x, low);
    taps.index[0] = body_symbol(&m->body, EXPR(m, "i64($0)", low), "at");
    taps.index[1] = body_symbol(&m->body, EXPR(m, "i64(min($0 + 1, $1))", low, last), "at");
    taps.weight[0] = EXPR(m, "$1 * (1 - $0)", part, inside);
    taps.weight[1] = EXPR(m, "$1 * $0", part, inside);
    return taps;
}

static Dim roi_image(Lower *lo, const Roi *r, Map *m, Dim k) {
    return body_symbol(&m->body, nn_read_as(lo, m, r->batch, &k, I64), "image");
}

/* In max mode a point's value is the largest of its four weighted neighbours. */
static int roi_largest(Lower *lo, Map *m, const Roi *r, const Dim *prefix, const Taps *taps) {
    int best = -1;
    for (int i = 0; i < 4; i++) {
        Dim at[] = {prefix[0], prefix[1], taps[0].index[i / 2], taps[1].index[i % 2]};
        int v = EXPR(m, "$0 * $1 * $2", nn_read_as(lo, m, r->x, at, r->t), taps[0].weight[i / 2],
                     taps[1].weight[i % 2]);
        best = i ? EXPR(m, "max($0, $1)", best, v) : v;
    }
    return best;
}

static void roi_fixed(Lower *lo, const Roi *r) {
    Ctx *ctx = lo->ctx;
    Dim at[6], points = dim_const(ctx, r->ratio);
    Dim shape[] = {r->out.at[0], r->out.at[1], r->out.at[2], r->out.at[3], points, points};
    int acc = r->max ? r->y : nn_tmp_like(lo, "sum", r->t, r->y);
    Map *m = lower_map(lo, r->max ? NULL : "sum");
    Taps taps[2];
    nn_dims(lo, m, "kchwrs", shape, 6, at);
    for (int i = 0; i < 2; i++) {
        int start, length;
        roi_span(lo, r, m, at[0], i, &start, &length);
        int x = roi_point(m, start, length, nn_size(m, r->out.at[2 + i], r->t),
                          nn_size(m, at[2 + i], r->t), nn_size(m, at[4 + i], r->t),
                          nn_size(m, points, r->t));
        taps[i] = roi_taps(m, r, x, r->in.at[2 + i]);
    }
    Dim prefix[] = {roi_image(lo, r, m, at[0]), at[1]};
    int val = r->max ? roi_largest(lo, m, r, prefix, taps)
                     : taps_read(lo, m, r->x, prefix, 2, taps, 2, r->t);
    nn_reduce(lo, m, acc, at, val, r->max ? "max" : "sum");
    const char *mean = internf(ctx, "$0 / %lld", (long long)(r->ratio * r->ratio));
    if (!r->max) lower_pointwise(lo, NULL, mean, &acc, 1, r->y);
}

/* A point of a bin that has as many as it is long: where it is, whether there is one, how many the
 * bin has, and whether some of them lie more than one outside. */
typedef struct Point {
    int x, here, points, beyond;
} Point;

enum { POINTS_MORE = 4 }; /* 2 * extent + 4 points at most lie within one of the tensor */

/* Point s of those of bin p of region k that do not lie further than one outside. */
static Point roi_number(Lower *lo, const Roi *r, Map *m, Dim k, Dim bin, Dim s, int i) {
    Point at;
    int start, length;
    roi_span(lo, r, m, k, i, &start, &length);
    int bins = nn_size(m, r->out.at[2 + i], r->t), p = nn_size(m, bin, r->t),
        size = nn_size(m, r->in.at[2 + i], r->t);
    at.points = EXPR(m, "max(ceil($0 / $1), 0)", length, bins);
    int divisor = EXPR(m, "max($0, 1)", at.points);
    int step = EXPR(m, "$0 / $1 / $2", length, bins, divisor);
    int edge = EXPR(m, "$0 + $1 * $2 / $3", start, p, length, bins);
    int first = EXPR(m, "select($1 > 0, max(ceil((-1 - $0) / $1 - 0.5) - 1, 0), 0)", edge, step);
    int number = EXPR(m, "$0 + $1", nn_size(m, s, r->t), first);
    at.x = roi_point(m, start, length, bins, p, number, divisor);
    at.here = EXPR(m, "($0 < $1) & ($2 >= -1) & ($2 <= $3)", number, at.points, at.x, size);
    at.beyond = EXPR(m, "($0 > 0) & (($1 + 0.5 * $2 < -1) | ($1 + ($0 - 0.5) * $2 > $3))",
                     at.points, edge, step, size);
    return at;
}

static Dim roi_points(Lower *lo, const Roi *r, Map *m, int i) {
    return nn_dim(lo, m, "s",
                  dim_addc(lo->ctx, dim_mulc(lo->ctx, r->in.at[2 + i], 2), POINTS_MORE));
}

/* weight[k,p,h]: what part of bin p's points lies on row (or column) h. */
static int roi_weights(Lower *lo, const Roi *r, int i) {
    Dim shape[] = {r->out.at[0], r->out.at[2 + i], r->in.at[2 + i]}, at[3];
    int w = lower_tmp(lo, i ? "columns" : "rows", r->t, shape, 3);
    Map *m = lower_map(lo, i ? "columns" : "rows");
    nn_dims(lo, m, "kph", shape, 3, at);
    Point s = roi_number(lo, r, m, at[0], at[1], roi_points(lo, r, m, i), i);
    int x = EXPR(m, "min(max($0, 0), $1 - 1)", s.x, nn_size(m, shape[2], r->t));
    int near = EXPR(m, "max(1 - abs($0 - $1), 0) / $2", x, nn_size(m, at[2], r->t), s.points);
    nn_reduce(lo, m, w, at, EXPR(m, "select($0, $1, 0)", s.here, near), "sum");
    return w;
}

/* The largest of points' weighted neighbours along rows (i: 0) or columns, into container `to`, of
 * [k,c,p,q] or [k,c,h,q]. Weights are not negative: the largest product with both is the largest
 * with one, of the largest with the other. Points outside weigh 0; no points give 0. */
static void roi_top(Lower *lo, const Roi *r, int i, int from, int to) {
    int top = nn_tmp_like(lo, "top", r->t, to), best = -1;
    Dim at[RANK_MAX];
    Map *m = nn_map_over(lo, "top", "kchq", top, at);
    Point s = roi_number(lo, r, m, at[0], at[2 + i], roi_points(lo, r, m, i), i);
    Taps taps = roi_taps(m, r, s.x, r->in.at[2 + i]);
    Dim read[] = {i ? roi_image(lo, r, m, at[0]) : at[0], at[1], at[2], at[3]};
    for (int e = 0; e < taps.n; e++) {
        read[2 + i] = taps.index[e];
        int v = EXPR(m, "$0 * $1", nn_read_as(lo, m, from, read, r->t), taps.weight[e]);
        best = e ? EXPR(m, "max($0, $1)", best, v) : v;
    }
    int val = EXPR(m, "max(select($0, $1, -inf), select($2, 0, -inf))", s.here, best, s.beyond);
    nn_reduce(lo, m, top, at, val, "max");
    lower_pointwise(lo, NULL, "select($0 == -inf, 0, $0)", &top, 1, to);
}

static void roi_adaptive_max(Lower *lo, const Roi *r) {
    Dim shape[] = {r->out.at[0], r->in.at[1], r->in.at[2], r->out.at[3]};
    int part = lower_tmp(lo, "part", r->t, shape, 4);
    roi_top(lo, r, 1, r->x, part);
    roi_top(lo, r, 0, part, r->y);
}

static void roi_adaptive(Lower *lo, const Roi *r) {
    int rows = roi_weights(lo, r, 0), columns = roi_weights(lo, r, 1);
    Dim shape[] = {r->out.at[0], r->in.at[1], r->in.at[2], r->out.at[3]}, at[4];
    int part = lower_tmp(lo, "part", r->t, shape, 4);
    Map *m = lower_map(lo, "part");
    nn_dims(lo, m, "kchq", shape, 4, at);
    Dim w = nn_dim(lo, m, "w", r->in.at[3]), image = roi_image(lo, r, m, at[0]);
    int x = nn_read_as(lo, m, r->x, (Dim[]){image, at[1], at[2], w}, r->t);
    nn_reduce(lo, m, part, at,
              EXPR(m, "$0 * $1", x, nn_read(lo, m, columns, (Dim[]){at[0], at[3], w})), "sum");
    m = nn_map_over(lo, NULL, "kcpq", r->y, at);
    Dim h = nn_dim(lo, m, "h", r->in.at[2]);
    x = nn_read(lo, m, part, (Dim[]){at[0], at[1], h, at[3]});
    nn_reduce(lo, m, r->y, at,
              EXPR(m, "$0 * $1", x, nn_read(lo, m, rows, (Dim[]){at[0], at[2], h})), "sum");
}

static void roi_align_lower(Lower *lo) {
    Roi r = roi_open(lo);
    if (r.ratio > 0)
        roi_fixed(lo, &r);
    else if (r.max)
        roi_adaptive_max(lo, &r);
    else
        roi_adaptive(lo, &r);
}

/* ---- MaxRoiPool ------------------------------------------------------------------------------ */

static void max_roi_infer(Infer *in) {
    const Type *x = nn_ranked(in, 0, 4, 4), *rois = nn_ranked(in, 1, 2, 2);
    int64_t pooled[2];
    nn_attr_n(in->ctx, in->node, "pooled_shape", 2, 1, pooled);
    nn_agree(in, rois->shape[1], dim_const(in->ctx, 5), 1, 1, "a region has 5 elements");
    Dim out[] = {rois->shape[0], x->shape[1], dim_const(in->ctx, pooled[0]),
                 dim_const(in->ctx, pooled[1])};
    infer_set(in, 0, x->dtype, out, 4);
}

/* Whether row (or column) h belongs to bin p of region k. */
static int in_bin(Lower *lo, Map *m, int rois, Dim k, Dim p, Dim bins, Dim h, int i, DType t) {
    int end[2];
    const char *text =
        internf(lo->ctx, "floor($0 * %s + 0.5)", nn_lit(lo, nn_float(lo, "spatial_scale", 1)));
    for (int e = 0; e < 2; e++) {
        Dim at[] = {k, dim_const(lo->ctx, 2 * e + 2 - i)};
        end[e] = EXPR(m, text, nn_read_as(lo, m, rois, at, t));
    }
    int bin = EXPR(m, "max($1 - $0 + 1, 1) / $2", end[0], end[1], nn_size(m, bins, t));
    int from = EXPR(m, "floor($1 * $2) + $0", end[0], bin, nn_size(m, p, t));
    int to = EXPR(m, "ceil(($1 + 1) * $2) + $0", end[0], nn_size(m, p, t), bin),
        at = nn_size(m, h, t);
    return EXPR(m, "($0 >= $1) & ($0 < $2)", at, from, to);
}

/* An empty bin gives 0. */
static void max_roi_lower(Lower *lo) {
    int x = lower_in(lo, 0), rois = lower_in(lo, 1), y = lower_out(lo, 0);
    Shape in = nn_shape(lo, x), out = nn_shape(lo, y);
    DType t = dtype_compute(nn_cont(lo, x)->type);
    int top = nn_tmp_like(lo, "top", t, y);
    Dim at[RANK_MAX];
    Map *m = nn_map_over(lo, "top", "kcpq", top, at);
    Dim h = nn_dim(lo, m, "h", in.at[2]), w = nn_dim(lo, m, "w", in.at[3]);
    int number = nn_read_as(lo, m, rois, (Dim[]){at[0], dim_const(lo->ctx, 0)}, F32);
    Dim image = body_symbol(&m->body, EXPR(m, "i64($0)", number), "image");
    int row = in_bin(lo, m, rois, at[0], at[2], out.at[2], h, 0, t);
    int column = in_bin(lo, m, rois, at[0], at[3], out.at[3], w, 1, t);
    int v = nn_read_as(lo, m, x, (Dim[]){image, at[1], h, w}, t);
    nn_reduce(lo, m, top, at, EXPR(m, "select($0 & $1, $2, -inf)", row, column, v), "max");
    lower_pointwise(lo, NULL, "select($0 == -inf, 0, $0)", &top, 1, y);
}

const OpRow onnx_roi_rows[] = {
    {"", "RoiAlign", 10, 0, roi_align_infer, roi_align_lower, NULL, T_FLOATS, 0},
    {"", "MaxRoiPool", 1, 0, max_roi_infer, max_roi_lower, NULL, T_FLOATS, 0},
    {0},
};
