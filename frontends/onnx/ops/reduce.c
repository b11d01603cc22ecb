/* SPDX-License-Identifier: Apache-2.0 */
/* Reductions: one map that folds the reduced dims, and where the formula has more, one before or
 * after it.
 *
 * A Reduce row's expression has four parts, "before ; combine ; after ; float": what is combined,
 * the combine, what becomes of the result ($1 is the number of elements), and whether integers
 * compute in f64. Axes are an attribute in old versions and an operand in new ones; both are read
 * alike. */
#include "nn.h"
#include "view.h"

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

/* The operand that holds the axes, or -1: none is given, or one without elements, which means the
 * same. */
static int axes_operand(const Graph *g, const Node *node) {
    if (nn_absent(node, 1)) return -1;
    const Type *t = &g->value.at[node->in.at[1]].type;
    return t->rank == 1 && dim_is(t->shape[0], 0) ? -1 : 1;
}

/* As many axes as dims: whatever they are, all dims are reduced. */
static bool all_axes(const Graph *g, const Node *node, int rank) {
    if (axes_operand(g, node) < 0) return false;
    const Type *t = &g->value.at[node->in.at[1]].type;
    return t->rank == 1 && rank > 0 && dim_is(t->shape[0], rank);
}

/* Which axes are reduced. Without axes: all, or none when noop_with_empty_axes is set. */
static void reduced_axes(Ctx *ctx, const Graph *g, const Node *node, int rank, bool *flag) {
    const int64_t *axes = NULL;
    if (all_axes(g, node, rank)) {
        for (int i = 0; i < rank; i++) flag[i] = true;
        return;
    }
    int n = nn_ints(ctx, g, node, axes_operand(g, node), "axes", &axes);
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

/* Axes that data decides: every extent of the result is a symbol. How many axes there are must be
 * known where they are dropped. */
static void reduce_infer_late(Infer *in, const Type *x) {
    const Type *axes = nn_ranked(in, 1, 1, 1);
    Dim out[RANK_MAX], most = dim_const(in->ctx, 1);
    int64_t n;
    if (attr_int(in->ctx, in->node, "keepdims", 1)) {
        for (int i = 0; i < x->rank; i++)
            out[i] = infer_fresh(in, "D", dim_max(in->ctx, x->shape[i], dim_const(in->ctx, 1)));
        infer_set(in, 0, x->dtype, out, x->rank);
        return;
    }
    if (!dim_is_const(axes->shape[0], &n) || n > x->rank)
        nn_misfit(in, 0, 1, "how many axes are reduced must be known, and not more than there are");
    for (int i = 0; i < x->rank; i++) most = dim_max(in->ctx, most, x->shape[i]);
    for (int i = 0; i < x->rank - n; i++) out[i] = infer_fresh(in, "D", most);
    infer_set(in, 0, x->dtype, out, x->rank - (int)n);
}

/* Axes are an operand whose elements are not known. */
static bool late_axes(Ctx *ctx, const Graph *graph, const Node *node) {
    Graph *g = (Graph *)graph;
    Infer in = {.ctx = ctx, .arena = g->arena, .graph = g, .node = (Node *)node};
    const Dim *at;
    int n;
    int rank = g->value.at[node->in.at[0]].type.rank;
    return axes_operand(g, node) == 1 && !all_axes(g, node, rank) && !infer_known(&in, 1, &at, &n);
}

static void reduce_infer(Infer *in) {
    const Type *x = nn_ranked(in, 0, 0, RANK_MAX);
    if (late_axes(in->ctx, in->graph, in->node)) {
        reduce_infer_late(in, x);
        return;
    }
    bool flag[RANK_MAX];
    Dim out[RANK_MAX];
    reduced_axes(in->ctx, in->graph, in->node, x->rank, flag);
    bool keep = attr_int(in->ctx, in->node, "keepdims", 1) != 0;
    infer_set(in, 0, x->dtype, out, reduced_shape(in->ctx, x->shape, flag, x->rank, keep, out));
    if (in->node->row->expr) reduce_carry(in, flag, x->rank);
}

/* `late`: data decides the axes. Then left[k] and gone[k] are symbols, one of them the extent of
 * dim k and the other 1, so that index k of the operand is the sum of an index below each; of an
 * empty dim gone[k] is 0, whether reduced or not. */
typedef struct Reduce {
    int x, y; /* y: the result, or what `finish` copies to it */
    Shape in;
    bool flag[RANK_MAX], keep, late;
    Dim left[RANK_MAX], gone[RANK_MAX];
    DType t;
} Reduce;

/* Where the result lies for indices `at` of the operand. */
static void reduced_at(Lower *lo, const Reduce *r, const Dim *at, Dim *to) {
    reduced_shape(lo->ctx, at, r->flag, r->in.rank, r->keep, to);
    for (int i = 0; r->keep && i < r->in.rank; i++)
        if (r->flag[i]) to[i] = dim_const(lo->ctx, 0);
}

/* A map over the operand; `at` indexes it, `out` the result. */
static Map *reduce_map(Lower *lo, const Reduce *r, const char *name, Dim *at, Dim *out) {
    if (!r->late) {
        Map *m = nn_map_over(lo, name, "", r->x, at);
        reduced_at(lo, r, at, out);
        return m;
    }
    Map *m = lower_map(lo, name);
    Dim more[RANK_MAX];
    nn_dims(lo, m, "", r->left, r->in.rank, out);
    nn_dims(lo, m, "", r->gone, r->in.rank, more);
    for (int k = 0; k < r->in.rank; k++)
        at[k] =
            dim_min(lo->ctx, dim_add(lo->ctx, out[k], more[k]), dim_addc(lo->ctx, r->in.at[k], -1));
    return m;
}

static void reduce_into(Lower *lo, const Reduce *r, const char *name, const char *before, int shift,
                        const char *combine, int to) {
    Dim at[RANK_MAX], out[RANK_MAX];
    Map *m = reduce_map(lo, r, name, at, out);
    int x = nn_read_as(lo, m, r->x, at, r->t),
        s = shift < 0 ? x : nn_read_as(lo, m, shift, out, r->t);
    nn_reduce(lo, m, to, out, EXPR(m, before, x, s), combine);
}

static void reduce_after(Lower *lo, const Reduce *r, const char *after, int from) {
    Dim at[RANK_MAX], n;
    Map *m = nn_map_over(lo, NULL, "", r->y, at);
    if (r->late)
        n = dim_product(lo->ctx, r->gone, r->in.rank);
    else
        n = nn_extent(lo->ctx, r->in.at, r->flag, r->in.rank);
    int count = nn_size(m, n, r->t);
    nn_write(lo, m, r->y, at, EXPR(m, after, nn_read_as(lo, m, from, at, r->t), count));
}

/* ---- axes that data decides ---------------------------------------------------------------------
 */

/* flags[k]: whether axis k is among the axes. */
static int axis_flags(Lower *lo, const Reduce *r) {
    Dim rank = dim_const(lo->ctx, r->in.rank);
    int axes = lower_in(lo, 1), flags = lower_tmp(lo, "reduced", BOOL, &rank, 1);
    Map *m = lower_map(lo, "reduced");
    Dim k = nn_dim(lo, m, "k", rank), i = nn_dim(lo, m, "i", nn_shape(lo, axes).at[0]);
    int axis = nn_read_as(lo, m, axes, &i, I64), here = body_index(&m->body, k);
    int n = body_index(&m->body, rank);
    nn_reduce(lo, m, flags, &k, EXPR(m, "($0 == $1) | ($0 + $2 == $1)", axis, here, n), "or");
    Dim count = nn_shape(lo, axes).at[0];
    if (dim_is_const(count, NULL) || nn_int(lo, "noop_with_empty_axes", 0)) return flags;
    int all = lower_tmp(lo, "all_reduced", BOOL, &rank, 1);
    m = nn_map_over(lo, "all_reduced", "k", all, &k);
    int flag = map_read(lo->flow, m, flags, &k);
    nn_write(lo, m, all, &k, EXPR(m, "$0 | ($1 == 0)", flag, body_index(&m->body, count)));
    return all;
}

/* sizes[k] = text of $0, the flag of axis k, and $1, its extent. */
static int axis_sizes(Lower *lo, const Reduce *r, const char *name, const char *text, int flags) {
    Dim rank = dim_const(lo->ctx, r->in.rank);
    int sizes = lower_tmp(lo, name, I64, &rank, 1);
    for (int i = 0; i < r->in.rank; i++) {
        Map *m = lower_map(lo, name);
        Dim k = dim_const(lo->ctx, i);
        int flag = map_read(lo->flow, m, flags, &k), extent = body_index(&m->body, r->in.at[i]);
        nn_write(lo, m, sizes, &k, EXPR(m, text, flag, extent));
    }
    return sizes;
}

/* Defines the extents of a result without the reduced axes: extent i is that of the axis which i
 * kept ones stand before. */
static void define_kept(Lower *lo, const Reduce *r, int flags) {
    Shape y = nn_shape(lo, lower_out(lo, 0));
    Dim n = dim_const(lo->ctx, y.rank), i;
    if (y.rank == 0) return;
    int sizes = lower_tmp(lo, "kept", I64, &n, 1);
    Map *m = lower_map(lo, "kept");
    i = nn_dim(lo, m, "i", n);
    int before = body_const(&m->body, I64, 0), val = before, here = body_index(&m->body, i);
    for (int k = 0; k < r->in.rank; k++) {
        Dim at = dim_const(lo->ctx, k);
        int gone = map_read(lo->flow, m, flags, &at), extent = body_index(&m->body, r->in.at[k]);
        val = EXPR(m, "select(not($0) & ($1 == $2), $3, $4)", gone, before, here, extent, val);
        before = EXPR(m, "$1 + select($0, 0, 1)", gone, before);
    }
    nn_write(lo, m, sizes, &i, val);
    for (int k = 0; k < y.rank; k++)
        nn_define(lo, y.at[k], sizes, k, dim_const(lo->ctx, INT64_MAX));
}

static void reduce_open_late(Lower *lo, Reduce *r) {
    int flags = axis_flags(lo, r);
    int left = axis_sizes(lo, r, "left", "select($0, 1, $1)", flags);
    int gone = axis_sizes(lo, r, "gone", "select($0, $1, 1)", flags);
    Shape y = nn_shape(lo, r->y);
    for (int k = 0; k < r->in.rank; k++) {
        Dim upper = dim_max(lo->ctx, r->in.at[k], dim_const(lo->ctx, 1));
        r->left[k] = r->keep ? y.at[k] : nn_fresh(lo, "left", upper);
        nn_define(lo, r->left[k], left, k, upper);
        r->gone[k] = r->in.at[k];
        if (dim_is(r->gone[k], 0)) continue;
        r->gone[k] = nn_fresh(lo, "gone", upper);
        nn_define(lo, r->gone[k], gone, k, upper);
    }
    if (r->keep) return;
    define_kept(lo, r, flags);
    r->y = lower_tmp(lo, "whole", nn_cont(lo, r->y)->type, r->left, r->in.rank);
}

static Reduce reduce_open(Lower *lo) {
    Reduce r = {.x = lower_in(lo, 0), .y = lower_out(lo, 0)};
    r.in = nn_shape(lo, r.x);
    r.t = dtype_compute(nn_cont(lo, r.x)->type);
    r.keep = nn_int(lo, "keepdims", 1) != 0;
    r.late = late_axes(lo->ctx, lo->graph, lo->node);
    if (r.late)
        reduce_open_late(lo, &r);
    else
        reduced_axes(lo->ctx, lo->graph, lo->node, r.in.rank, r.flag);
    return r;
}

/* The result without the reduced dims, which all have extent 1 by now: the same elements in order.
 */
static void reduce_close(Lower *lo, const Reduce *r) {
    int y = lower_out(lo, 0);
    if (r->y == y) return;
    Dim at[RANK_MAX], from[RANK_MAX];
    Shape to = nn_shape(lo, y);
    Map *m = nn_map_over(lo, NULL, "", y, at);
    DimEnv env = map_env(lo->arena, lo->flow, m);
    onnx_reshape_index(lo, &env, r->left, r->in.rank, to.at, to.rank, at, from);
    map_write(lo->flow, m, y, at, map_read(lo->flow, m, r->y, from), NULL);
}

/* ---- lowerings ------------------------------------------------------------------------------ */

/* Of no elements the greatest is the least of the result's type, which is not that of the wider
 * type that it is found in. "": no such thing can happen, or wraps to the right value. */
static const char *of_nothing(Lower *lo, const Reduce *r, const char *combine) {
    DType t = nn_cont(lo, r->x)->type;
    bool max = !strcmp(combine, "max"), empty = r->late;
    for (int k = 0; k < r->in.rank && !empty; k++)
        empty = r->flag[k] && (!dim_is_const(r->in.at[k], NULL) || dim_is(r->in.at[k], 0));
    if (!empty || t == r->t || dtype_class(t) != CLASS_INT || (!max && strcmp(combine, "min")))
        return "";
    return internf(lo->ctx, "%s($0, %.0f)", combine, max ? dtype_lowest(t) : dtype_highest(t));
}

static void reduce_lower(Lower *lo) {
    Reduce r = reduce_open(lo);
    Formula f = formula_of(lo->ctx, lo->node->row->expr);
    if (!f.after[0]) f.after = of_nothing(lo, &r, f.combine);
    if (r.t == BOOL) f.combine = !strcmp(f.combine, "max") ? "or" : "and";
    if (f.in_float && !nn_is_float(r.t)) r.t = F64;
    if (!f.after[0]) {
        reduce_into(lo, &r, NULL, f.before, -1, f.combine, r.y);
        reduce_close(lo, &r);
        return;
    }
    int acc = nn_tmp_like(lo, f.combine, r.t, r.y);
    reduce_into(lo, &r, f.combine, f.before, -1, f.combine, acc);
    reduce_after(lo, &r, f.after, acc);
    reduce_close(lo, &r);
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
    reduce_close(lo, &r);
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
