/* SPDX-License-Identifier: Apache-2.0 */
/* Det and Inverse: elimination with partial pivoting, a loop over columns.
 *
 * States are arrays over the steps: a[t] is the matrix before step t, d[t] the determinant so far.
 * A step finds the pivot's row (the largest element of column t from row t on), exchanges rows by
 * reading them so, and clears the column below. A column of zeros leaves a zero pivot, and the
 * result is 0. */
#include "nn.h"

static const Type *square(const Infer *in) {
    const Type *x = nn_ranked(in, 0, 2, RANK_MAX - 1);
    nn_agree(in, x->shape[x->rank - 1], x->shape[x->rank - 2], 0, 0,
             "its last two dims must be equal: a square matrix");
    return x;
}

static void det_infer(Infer *in) {
    const Type *x = square(in);
    infer_set(in, 0, x->dtype, x->shape, x->rank - 2);
}

typedef struct Det {
    int a, d;          /* states */
    int best, pivot;   /* of a step: the pivot's size and row, for each matrix */
    int batch;         /* leading dims */
    Dim box[RANK_MAX]; /* batch, then n, n */
    Dim n, t;
    DType type;
} Det;

/* An array over steps, as long as says `steps`. */
static int state_tmp(Lower *lo, const Det *e, const char *name, DType t, Dim steps, int rank) {
    Dim shape[RANK_MAX + 1] = {steps};
    for (int i = 0; i < rank; i++) shape[i + 1] = e->box[i];
    int c = lower_tmp(lo, name, t, shape, rank + 1);
    lo->flow->cont.at[c].kind = CONT_STATE;
    return c;
}

/* Reads a[t][batch, row, column]. */
static int element(Lower *lo, const Det *e, Map *m, const Dim *batch, Dim row, Dim column) {
    Dim at[RANK_MAX + 1] = {e->t};
    for (int i = 0; i < e->batch; i++) at[i + 1] = batch[i];
    at[e->batch + 1] = row, at[e->batch + 2] = column;
    return nn_read(lo, m, e->a, at);
}

static void find_pivot(Lower *lo, const Det *e) {
    Dim all[RANK_MAX + 1] = {e->t}, *at = all + 1;
    Map *m = lower_map(lo, "pivot");
    nn_dims(lo, m, "", e->box, e->batch, at);
    Dim i = nn_dim(lo, m, "i", e->n);
    nn_between(lo, m, i, e->t, e->n);
    int val[2] = {EXPR(m, "abs($0)", element(lo, e, m, at, i, e->t)), body_index(&m->body, i)};
    map_write_tuple(lo->flow, m, 2, (int[]){e->best, e->pivot}, (const Dim *const[]){all, all}, 2,
                    val, combine_get(lo->ctx, "argmax_first", e->type));
}

/* a[t+1] from a[t] with the pivot's row in row t: `expr` of row $0, t $1, the pivot $2, the element
 * $3, the first of its row in column t $4, and the pivot row's element in its column $5. */
static void step(Lower *lo, const Det *e, const char *expr) {
    Dim all[RANK_MAX + 1] = {e->t}, *at = all + 1;
    Dim to[RANK_MAX + 1] = {dim_addc(lo->ctx, e->t, 1)};
    Map *m = lower_map(lo, "step");
    nn_dims(lo, m, "", e->box, e->batch + 2, at);
    Dim row = at[e->batch], column = at[e->batch + 1];
    int i = body_index(&m->body, row), t = body_index(&m->body, e->t),
        p = map_read(lo->flow, m, e->pivot, all);
    Dim pivot = body_symbol(&m->body, p, "p");
    Dim from = body_symbol(&m->body,
                           EXPR(m, "select($0 == $1, $2, select($0 == $2, $1, $0))", i, t, p), "r");
    int top = element(lo, e, m, at, pivot, column), head = element(lo, e, m, at, pivot, e->t);
    int old = element(lo, e, m, at, from, column), first = element(lo, e, m, at, from, e->t);
    for (int k = 0; k < e->batch + 2; k++) to[k + 1] = at[k];
    nn_write(lo, m, e->a, to, EXPR(m, expr, i, t, head, old, first, top));
}

static void multiply(Lower *lo, const Det *e) {
    Dim at[RANK_MAX + 1] = {e->t}, to[RANK_MAX + 1] = {dim_addc(lo->ctx, e->t, 1)};
    Map *m = lower_map(lo, "product");
    nn_dims(lo, m, "", e->box, e->batch, at + 1);
    for (int i = 1; i <= e->batch; i++) to[i] = at[i];
    int p = map_read(lo->flow, m, e->pivot, at), t = body_index(&m->body, e->t);
    int head = element(lo, e, m, at + 1, body_symbol(&m->body, p, "p"), e->t);
    nn_write(lo, m, e->d, to,
             EXPR(m, "$0 * select($1 == $2, $3, -$3)", nn_read(lo, m, e->d, at), p, t, head));
}

/* Containers for the elimination of x, with `copies` matrices side by side. */
static Det elimination(Lower *lo, int x, int copies) {
    Shape s = nn_shape(lo, x);
    Det e = {
        .batch = s.rank - 2, .n = s.at[s.rank - 1], .type = dtype_compute(nn_cont(lo, x)->type)};
    for (int i = 0; i < s.rank; i++) e.box[i] = s.at[i];
    e.box[s.rank - 1] = dim_mulc(lo->ctx, e.n, copies);
    e.a = state_tmp(lo, &e, "a", e.type, dim_addc(lo->ctx, e.n, 1), s.rank);
    e.best = state_tmp(lo, &e, "best", e.type, e.n, e.batch);
    e.pivot = state_tmp(lo, &e, "row", I64, e.n, e.batch);
    return e;
}

static Det det_open(Lower *lo, int x) {
    Shape s = nn_shape(lo, x);
    Det e = elimination(lo, x, 1);
    Dim at[RANK_MAX + 1] = {dim_const(lo->ctx, 0)};
    e.d = state_tmp(lo, &e, "d", e.type, dim_addc(lo->ctx, e.n, 1), e.batch);
    Map *m = lower_map(lo, "a0");
    nn_dims(lo, m, "", s.at, s.rank, at + 1);
    nn_write(lo, m, e.a, at, nn_read(lo, m, x, at + 1));
    m = lower_map(lo, "d0");
    nn_dims(lo, m, "", s.at, e.batch, at + 1);
    nn_write(lo, m, e.d, at, body_const(&m->body, e.type, 1));
    return e;
}

static void det_lower(Lower *lo) {
    int x = lower_in(lo, 0), y = lower_out(lo, 0);
    Det e = det_open(lo, x);
    Items *into = lo->into;
    Item *loop = nn_loop(lo, NULL, e.n);
    e.t = loop->var;
    lo->into = &loop->body;
    find_pivot(lo, &e);
    step(lo, &e, "select(($0 > $1) & ($2 != 0), $3 - $4 / $2 * $5, $3)");
    multiply(lo, &e);
    lo->into = into;
    Dim at[RANK_MAX + 1] = {e.n};
    Map *m = lower_map(lo, NULL);
    nn_dims(lo, m, "", e.box, e.batch, at + 1);
    nn_write(lo, m, y, at + 1, nn_read(lo, m, e.d, at));
}

/* ---- Inverse --------------------------------------------------------------------------------- */

static void inverse_infer(Infer *in) {
    square(in);
    nn_infer_same(in);
}

/* a[0] is [x | 1], of 2n columns. */
static Det inverse_open(Lower *lo, int x) {
    Shape s = nn_shape(lo, x);
    Det e = elimination(lo, x, 2);
    Dim at[RANK_MAX + 1] = {dim_const(lo->ctx, 0)};
    for (int half = 0; half < 2; half++) {
        Map *m = lower_map(lo, half ? "one" : "a0");
        nn_dims(lo, m, "", s.at, s.rank, at + 1);
        int row = body_index(&m->body, at[s.rank - 1]), column = body_index(&m->body, at[s.rank]);
        int val =
            half ? EXPR(m, "select($0 == $1, 1.0, 0.0)", row, column) : nn_read(lo, m, x, at + 1);
        if (half) at[s.rank] = dim_add(lo->ctx, at[s.rank], e.n);
        nn_write(lo, m, e.a, at, val);
    }
    return e;
}

static void inverse_lower(Lower *lo) {
    int y = lower_out(lo, 0), rank = nn_cont(lo, y)->rank;
    Det e = inverse_open(lo, lower_in(lo, 0));
    Items *into = lo->into;
    Item *loop = nn_loop(lo, NULL, e.n);
    e.t = loop->var;
    lo->into = &loop->body;
    find_pivot(lo, &e); /* its row is divided by it, and subtracted from all others */
    step(lo, &e, "select($0 == $1, $5 / $2, $3 - $4 / $2 * $5)");
    lo->into = into;
    Dim at[RANK_MAX + 1] = {e.n}, to[RANK_MAX];
    Map *m = nn_map_over(lo, NULL, "", y, at + 1);
    for (int i = 0; i < rank; i++) to[i] = at[i + 1];
    at[rank] = dim_add(lo->ctx, at[rank], e.n);
    nn_write(lo, m, y, to, nn_read(lo, m, e.a, at));
}

const OpRow onnx_linalg_rows[] = {
    {"", "Det", 11, 0, det_infer, det_lower, NULL, T_FLOATS, 0},
    {"com.microsoft", "Inverse", 1, 0, inverse_infer, inverse_lower, NULL, T_FLOATS, 0},
    {0},
};
