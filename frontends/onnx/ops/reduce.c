/* SPDX-License-Identifier: Apache-2.0 */
/* Reductions: one map that folds the reduced dims, and where the formula has more, one before or
 * after it.
 *
 * A Reduce row's expression has four parts, "before ; combine ; after ; float": what is combined,
 * the combine, what becomes of the result ($1 is the number of elements), and whether integers
 * compute in f64. Axes are an attribute in old versions and an operand in new ones; both are read
 * alike. */
#include "nn.h"

#include <string.h>

/* ---- Reduce* --------------------------------------------------------------------------------- */

typedef struct Formula {
    const char *before, *combine, *after;
    bool in_float;
} Formula;

static Formula formula_of(Ctx *ctx, const char *text) {
    const char *part[4] = {"", "", "", ""};
    for (int i = 0; i < 4; i++) {
        size_t n = strcspn(text, ";");
        part[i] = intern_n(ctx, text, n);
        if (!text[n]) break;
        text += n + 1;
    }
    return (Formula){part[0], part[1], part[2], part[3][0] != 0};
}

/* Which axes are reduced. Without axes: all, or none when noop_with_empty_axes is set. */
static void reduced_axes(Ctx *ctx, const Graph *g, const Node *node, int rank, bool *flag) {
    const int64_t *axes = NULL;
    int n = nn_ints(ctx, g, node, node->in.n > 1 ? 1 : -1, "axes", &axes);
    nn_axes(ctx, axes, n, rank, flag);
    if (n <= 0 && attr_int(ctx, node, "noop_with_empty_axes", 0))
        for (int i = 0; i < rank; i++) flag[i] = false;
}

/* The shape left; with keepdims, 1 stands for reduced axes. */
static int reduced_shape(Ctx *ctx, const Dim *shape, const bool *flag, int rank, bool keep,
                         Dim *out) {
    if (!keep) return nn_kept(shape, flag, rank, out);
    for (int i = 0; i < rank; i++) out[i] = flag[i] ? dim_const(ctx, 1) : shape[i];
    return rank;
}

/* Sizes that models compute: a product or sum of all elements of a shape. */
static void reduce_carry(Infer *in, const bool *flag, int rank) {
    const char *name = formula_of(in->ctx, in->node->row->expr).combine;
    const char *before = formula_of(in->ctx, in->node->row->expr).before;
    const Dim *at;
    int n;
    if (rank != 1 || !flag[0] || strcmp(before, "$0") != 0 || !infer_known(in, 0, &at, &n) || n < 1)
        return;
    Dim all = at[0];
    for (int i = 1; i < n; i++) {
        if (!strcmp(name, "prod"))
            all = dim_mul(in->ctx, all, at[i]);
        else if (!strcmp(name, "sum"))
            all = dim_add(in->ctx, all, at[i]);
        else if (!strcmp(name, "max"))
            all = dim_max(in->ctx, all, at[i]);
        else
            all = dim_min(in->ctx, all, at[i]);
    }
    if (!formula_of(in->ctx, in->node->row->expr).after[0]) infer_set_known(in, 0, &all, 1);
}

static void reduce_infer(Infer *in) {
    const Type *x = nn_ranked(in, 0, 0, RANK_MAX);
    bool flag[RANK_MAX];
    Dim out[RANK_MAX];
    reduced_axes(in->ctx, in->graph, in->node, x->rank, flag);
    bool keep = attr_int(in->ctx, in->node, "keepdims", 1) != 0;
    infer_set(in, 0, x->dtype, out, reduced_shape(in->ctx, x->shape, flag, x->rank, keep, out));
    if (in->node->row->expr) reduce_carry(in, flag, x->rank);
}

typedef struct Reduce {
    int x, y;
    Shape in;
    bool flag[RANK_MAX], keep;
    DType t;
} Reduce;

static Reduce reduce_open(Lower *lo) {
    Reduce r = {.x = lower_in(lo, 0), .y = lower_out(lo, 0)};
    r.in = nn_shape(lo, r.x);
    r.t = dtype_compute(nn_cont(lo, r.x)->type);
    reduced_axes(lo->ctx, lo->graph, lo->node, r.in.rank, r.flag);
    r.keep = nn_int(lo, "keepdims", 1) != 0;
    return r;
}

/* Where the result lies for indices `at` of the operand. */
static void reduced_at(Lower *lo, const Reduce *r, const Dim *at, Dim *to) {
    reduced_shape(lo->ctx, at, r->flag, r->in.rank, r->keep, to);
    for (int i = 0; r->keep && i < r->in.rank; i++)
        if (r->flag[i]) to[i] = dim_const(lo->ctx, 0);
}

static void reduce_into(Lower *lo, const Reduce *r, const char *name, const char *before, int shift,
                        const char *combine, int to) {
    Dim at[RANK_MAX], out[RANK_MAX];
    Map *m = nn_map_over(lo, name, "", r->x, at);
    reduced_at(lo, r, at, out);
    int x = nn_read_as(lo, m, r->x, at, r->t),
        s = shift < 0 ? x : nn_read_as(lo, m, shift, out, r->t);
    nn_reduce(lo, m, to, out, EXPR(m, before, x, s), combine);
}

static void reduce_after(Lower *lo, const Reduce *r, const char *after, int from) {
    Dim at[RANK_MAX];
    Map *m = nn_map_over(lo, NULL, "", r->y, at);
    int n = nn_size(m, nn_extent(lo->ctx, r->in.at, r->flag, r->in.rank), r->t);
    nn_write(lo, m, r->y, at, EXPR(m, after, nn_read_as(lo, m, from, at, r->t), n));
}

static void reduce_lower(Lower *lo) {
    Reduce r = reduce_open(lo);
    Formula f = formula_of(lo->ctx, lo->node->row->expr);
    if (r.t == BOOL) f.combine = !strcmp(f.combine, "max") ? "or" : "and";
    if (f.in_float && !nn_is_float(r.t)) r.t = F64;
    if (!f.after[0]) {
        reduce_into(lo, &r, NULL, f.before, -1, f.combine, r.y);
        return;
    }
    int acc = nn_tmp_like(lo, f.combine, r.t, r.y);
    reduce_into(lo, &r, f.combine, f.before, -1, f.combine, acc);
    reduce_after(lo, &r, f.after, acc);
}

/* log(sum(exp(x - max))) + max; a maximum that is not finite does not shift. */
static void reduce_log_sum_exp_lower(Lower *lo) {
    Reduce r = reduce_open(lo);
    if (!nn_is_float(r.t)) r.t = F64;
    int top = nn_tmp_like(lo, "max", r.t, r.y), sum = nn_tmp_like(lo, "sum", r.t, r.y);
    int shift = nn_tmp_like(lo, "shift", r.t, r.y);
    reduce_into(lo, &r, "max", "$0", -1, "max", top);
    lower_pointwise(lo, "shift", "select(abs($0) == inf, 0, $0)", &top, 1, shift);
    reduce_into(lo, &r, "sum", "exp($0 - $1)", shift, "sum", sum);
    lower_pointwise(lo, NULL, "log($0) + $1", (int[]){sum, shift}, 2, r.y);
}

/* ---- ArgMax, ArgMin -------------------------------------------------------------------------- */

static void arg_infer(Infer *in) {
    const Type *x = nn_ranked(in, 0, 1, RANK_MAX);
    bool flag[RANK_MAX] = {false};
    Dim out[RANK_MAX];
    flag[attr_axis(in->ctx, in->node, "axis", 0, x->rank)] = true;
    bool keep = attr_int(in->ctx, in->node, "keepdims", 1) != 0;
    infer_set(in, 0, I64, out, reduced_shape(in->ctx, x->shape, flag, x->rank, keep, out));
}

/* The row's expression names the pair of combines: which of equal elements wins is an attribute. */
static void arg_lower(Lower *lo) {
    Reduce r = {
        .x = lower_in(lo, 0), .y = lower_out(lo, 0), .keep = nn_int(lo, "keepdims", 1) != 0};
    Dim at[RANK_MAX], out[RANK_MAX];
    r.in = nn_shape(lo, r.x);
    r.t = dtype_compute(nn_cont(lo, r.x)->type);
    int axis = (int)attr_axis(lo->ctx, lo->node, "axis", 0, r.in.rank);
    r.flag[axis] = true;
    const char *last = nn_int(lo, "select_last_index", 0) ? "last" : "first";
    const char *combine = internf(lo->ctx, "%s_%s", lo->node->row->expr, last);
    int best = nn_tmp_like(lo, "best", r.t, r.y);
    Map *m = nn_map_over(lo, NULL, "", r.x, at);
    reduced_at(lo, &r, at, out);
    int val[2] = {nn_read(lo, m, r.x, at), body_index(&m->body, at[axis])};
    map_write_tuple(lo->flow, m, 2, (int[]){best, r.y}, (const Dim *const[]){out, out}, 2, val,
                    combine_get(lo->ctx, combine, r.t));
}

/* ---- rows ------------------------------------------------------------------------------------ */

#define REDUCE(name, formula)                                                                      \
    { "", name, 1, 0, reduce_infer, reduce_lower, formula, T_NUMS, 0 }

const OpRow onnx_reduce_rows[] = {
    REDUCE("ReduceSum", "$0;sum"),
    REDUCE("ReduceProd", "$0;prod"),
    REDUCE("ReduceMean", "$0;sum;$0 / $1"),
    REDUCE("ReduceL1", "abs($0);sum"),
    REDUCE("ReduceL2", "$0 * $0;sum;sqrt($0);float"),
    REDUCE("ReduceLogSum", "$0;sum;log($0);float"),
    REDUCE("ReduceSumSquare", "$0 * $0;sum"),
    {"", "ReduceMax", 1, 0, reduce_infer, reduce_lower, "$0;max", T_NUMS " bool", 0},
    {"", "ReduceMin", 1, 0, reduce_infer, reduce_lower, "$0;min", T_NUMS " bool", 0},
    {"", "ReduceLogSumExp", 1, 0, reduce_infer, reduce_log_sum_exp_lower, NULL, T_NUMS, 0},
    {"", "ArgMax", 1, 0, arg_infer, arg_lower, "argmax", T_NUMS, 0},
    {"", "ArgMin", 1, 0, arg_infer, arg_lower, "argmin", T_NUMS, 0},
    {0},
};
