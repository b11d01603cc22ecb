/* SPDX-License-Identifier: Apache-2.0 */
/* Softmax, LogSoftmax, Hardmax, LpNormalization: statistics over some axes, then a map over all.
 *
 * Each is written as the chain that the formula names (max, exp, sum, divide), so that fusion sees
 * plain maps. Before version 13 the softmax family flattened its operand to two dims: the axes from
 * `axis` on are one row. */
#include "nn.h"

#include <string.h>

typedef struct Rows {
    int x, y;
    Shape shape;         /* of x */
    bool flag[RANK_MAX]; /* axes inside a row */
    Dim kept[RANK_MAX];  /* shape of one statistic per row */
    int nkept;
    DType t;
} Rows;

static Rows rows_of(Lower *lo, int x, int y, int from, int to) {
    Rows r = {.x = x, .y = y};
    r.shape = nn_shape(lo, x);
    for (int i = 0; i < r.shape.rank; i++) r.flag[i] = i >= from && i < to;
    r.nkept = nn_kept(r.shape.at, r.flag, r.shape.rank, r.kept);
    r.t = dtype_compute(nn_cont(lo, x)->type);
    return r;
}

/* Rows of a node whose attribute `axis` defaults to `otherwise`; `flat`: all axes from it on. */
static Rows rows_open(Lower *lo, int64_t otherwise, bool flat) {
    int x = lower_in(lo, 0), rank = nn_cont(lo, x)->rank;
    if (otherwise >= rank) otherwise = -1;
    int axis = (int)attr_axis(lo->ctx, lo->node, "axis", otherwise, rank);
    return rows_of(lo, x, lower_out(lo, 0), axis, flat ? rank : axis + 1);
}

static int rows_stat(Lower *lo, const Rows *r, const char *name) {
    return lower_tmp(lo, name, r->t, r->kept, r->nkept);
}

/* A map over `from` and the statistics `stat` (at most two, -1: none); returns the value of expr on
 * them. `to` gets it: per row with a combine, else per element. */
static void rows_map(Lower *lo, const Rows *r, const char *name, const char *expr, int from,
                     const int *stat, const char *combine, int to) {
    Dim at[RANK_MAX], row[RANK_MAX];
    Map *m = nn_map_over(lo, name, "", from, at);
    nn_kept(at, r->flag, r->shape.rank, row);
    int arg[3] = {nn_read(lo, m, from, at)};
    for (int i = 0; i < 2; i++) arg[i + 1] = stat[i] < 0 ? arg[0] : nn_read(lo, m, stat[i], row);
    int val = body_expr(&m->body, expr, arg, 3, NULL, 0, r->t);
    if (combine)
        nn_reduce(lo, m, to, row, val, combine);
    else
        nn_write(lo, m, to, at, val);
}

#define STAT(...) ((const int[2]){__VA_ARGS__})

/* exp(x - max) and its row sums, or only the sums (e < 0). */
static void rows_exp_sum(Lower *lo, const Rows *r, int top, int e, int sum) {
    rows_map(lo, r, "max", "$0", r->x, STAT(-1, -1), "max", top);
    if (e >= 0) {
        rows_map(lo, r, "exp", "exp($0 - $1)", r->x, STAT(top, -1), NULL, e);
        rows_map(lo, r, "sum", "$0", e, STAT(-1, -1), "sum", sum);
    } else {
        rows_map(lo, r, "sum", "exp($0 - $1)", r->x, STAT(top, -1), "sum", sum);
    }
}

static void softmax(Lower *lo, Rows r) {
    int top = rows_stat(lo, &r, "top"), sum = rows_stat(lo, &r, "total");
    int e = nn_tmp_like(lo, "e", r.t, r.x);
    rows_exp_sum(lo, &r, top, e, sum);
    rows_map(lo, &r, NULL, "$0 / $1", e, STAT(sum, -1), NULL, r.y);
}

static void log_softmax(Lower *lo, Rows r) {
    int top = rows_stat(lo, &r, "top"), sum = rows_stat(lo, &r, "total");
    rows_exp_sum(lo, &r, top, -1, sum);
    rows_map(lo, &r, NULL, "$0 - $1 - log($2)", r.x, STAT(top, sum), NULL, r.y);
}

void nn_log_softmax(Lower *lo, int x, int axis, int y) {
    log_softmax(lo, rows_of(lo, x, y, axis, axis + 1));
}

/* One at the first largest element of the row, zero elsewhere. */
static void hardmax(Lower *lo, Rows r) {
    int best = rows_stat(lo, &r, "best"), arg = lower_tmp(lo, "arg", I64, r.kept, r.nkept);
    for (int pass = 0; pass < 2; pass++) {
        Dim at[RANK_MAX], row[RANK_MAX], index = dim_const(lo->ctx, 0);
        Map *m = nn_map_over(lo, pass ? NULL : "argmax", "", r.x, at);
        nn_kept(at, r.flag, r.shape.rank, row);
        for (int i = 0; i < r.shape.rank; i++)
            if (r.flag[i]) index = dim_add(lo->ctx, dim_mul(lo->ctx, index, r.shape.at[i]), at[i]);
        int val[2] = {-1, body_index(&m->body, index)};
        if (pass) {
            int is = EXPR(m, "$0 == $1", val[1], map_read(lo->flow, m, arg, row));
            nn_write(lo, m, r.y, at, body_cvt(&m->body, nn_cont(lo, r.y)->type, is));
        } else {
            val[0] = nn_read(lo, m, r.x, at);
            map_write_tuple(lo->flow, m, 2, (int[]){best, arg}, (const Dim *const[]){row, row}, 2,
                            val, combine_get(lo->ctx, "argmax_first", r.t));
        }
    }
}

static void softmax_1_lower(Lower *lo) {
    softmax(lo, rows_open(lo, 1, true));
}
static void softmax_lower(Lower *lo) {
    softmax(lo, rows_open(lo, -1, false));
}
static void log_softmax_1_lower(Lower *lo) {
    log_softmax(lo, rows_open(lo, 1, true));
}
static void log_softmax_lower(Lower *lo) {
    log_softmax(lo, rows_open(lo, -1, false));
}
static void hardmax_1_lower(Lower *lo) {
    hardmax(lo, rows_open(lo, 1, true));
}
static void hardmax_lower(Lower *lo) {
    hardmax(lo, rows_open(lo, -1, false));
}

/* The attribute is checked here, where the message can name the operand. Rank 0 has no axis. */
static void rows_infer(Infer *in) {
    const Type *x = nn_ranked(in, 0, 1, RANK_MAX);
    attr_axis(in->ctx, in->node, "axis", in->node->version < 13 && x->rank > 1 ? 1 : -1, x->rank);
    nn_infer_same(in);
}

static void lp_infer(Infer *in) {
    int64_t p = attr_int(in->ctx, in->node, "p", 2);
    if (p != 1 && p != 2)
        fail(in->ctx, E_ATTRIBUTE, "attribute \"p\" is %lld: it must be 1 or 2", (long long)p);
    attr_axis(in->ctx, in->node, "axis", -1, nn_ranked(in, 0, 1, RANK_MAX)->rank);
    nn_infer_same(in);
}

/* x divided by its norm along the axis; a zero row stays zero. */
static void lp_normalization_lower(Lower *lo) {
    Rows r = rows_open(lo, -1, false);
    int sum = rows_stat(lo, &r, "total");
    bool square = nn_int(lo, "p", 2) == 2;
    rows_map(lo, &r, "sum", square ? "$0 * $0" : "abs($0)", r.x, STAT(-1, -1), "sum", sum);
    const char *divide =
        square ? "select($1 == 0, 0, $0 / sqrt($1))" : "select($1 == 0, 0, $0 / $1)";
    rows_map(lo, &r, NULL, divide, r.x, STAT(sum, -1), NULL, r.y);
}

const OpRow onnx_softmax_rows[] = {
    {"", "Softmax", 1, 12, rows_infer, softmax_1_lower, NULL, T_FLOATS, 0},
    {"", "Softmax", 13, 0, rows_infer, softmax_lower, NULL, T_FLOATS, 0},
    {"", "LogSoftmax", 1, 12, rows_infer, log_softmax_1_lower, NULL, T_FLOATS, 0},
    {"", "LogSoftmax", 13, 0, rows_infer, log_softmax_lower, NULL, T_FLOATS, 0},
    {"", "Hardmax", 1, 12, rows_infer, hardmax_1_lower, NULL, T_FLOATS, 0},
    {"", "Hardmax", 13, 0, rows_infer, hardmax_lower, NULL, T_FLOATS, 0},
    {"", "LpNormalization", 1, 0, lp_infer, lp_normalization_lower, NULL, T_FLOATS, 0},
    {0},
};
