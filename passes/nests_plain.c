/* SPDX-License-Identifier: Apache-2.0 */
/* Plain steps of warps: threads multiply by themselves what their block staged.
 *
 * A thread has some rows and columns of its warp's tile. For a few indices of the reduction it
 * fetches its elements of both operands to registers, four at once, then multiplies each row by
 * each column: with 8 of both that is 16 loads for 256 multiply-adds. Four neighbours in shared
 * memory are indices of the reduction where an operand lies along it, else rows or columns. So that
 * threads fetch from different banks, in the first case a thread's rows are 8 apart and its columns
 * come in pairs, in the second it has four of them side by side. Each sum is one chain, in the
 * order of the reduction. */
#include "passes/nests_warps.h"

enum { MOST = 4 }; /* neighbours */

/* What a thread has of an operand for a step's depth. Registers are indexed by its rows or columns
 * and what is reduced: the one along which neighbours are fetched comes last. */
typedef struct Fragment {
    const Operand *o;
    Dim (*place)(const Warps *w, Dim number); /* of its rows or columns, in the block */
    int64_t count, neighbours;                /* of these */
    int buf;
} Fragment;

static Dim quotient(const Warps *w, Dim a, int64_t by) {
    return lowering_simplify(w->lo, dim_div(w->lo->ctx, a, warps_const(w, by)));
}

static Dim rest(const Warps *w, Dim a, int64_t by) {
    return lowering_simplify(w->lo, dim_mod(w->lo->ctx, a, warps_const(w, by)));
}

/* Number n of what a thread has, `each` neighbours at a time, of so many threads' in turn. */
static Dim spread(const Warps *w, Dim n, int64_t each, int64_t threads, Dim own) {
    Dim first = sum(w, times(w, quotient(w, n, each), each * threads), times(w, own, each));
    return sum(w, first, rest(w, n, each));
}

static int64_t row_neighbours(const Warps *w) {
    int64_t rows = w->root->rows.warp / w->step->rows, each = w->a.along ? 1 : MOST;
    while (rows % each) each /= 2;
    return each;
}

void warps_widen(Warps *w) {
    w->wide = *w->step;
    if (!w->b.along && w->root->columns.warp % (MOST * PAIRS) == 0) w->wide.columns = MOST * PAIRS;
    w->step = &w->wide;
}

Dim warps_own_row(const Warps *w, Dim number) {
    return sum(w, w->row, spread(w, number, row_neighbours(w), GROUP, w->group));
}

Dim warps_own_column(const Warps *w, Dim number) {
    int64_t each = w->step->columns / PAIRS;
    return sum(w, w->column, spread(w, number, each, PAIRS, w->pair));
}

static Fragment open_fragment(Warps *w, const Operand *o, Stmts *into) {
    Lowering *lo = w->lo;
    const char *name = lo->flow->cont.at[o->read->read.cont].name;
    Fragment f = {.o = o, .place = warps_own_row, .neighbours = row_neighbours(w)};
    f.count = w->root->rows.warp / w->step->rows;
    if (o == &w->b) {
        f.place = warps_own_column;
        f.neighbours = w->step->columns / PAIRS;
        f.count = w->root->columns.warp / PAIRS;
    }
    Dim count = warps_const(w, f.count), depth = warps_const(w, w->step->depth);
    Dim box[] = {o->along ? count : depth, o->along ? depth : count};
    f.buf =
        nest_buf(lo->nest, internf(lo->ctx, "%s.%d", name, lo->fresh++), BUF_REG, o->type, box, 2);
    nest_decl(lo->nest, into, f.buf);
    return f;
}

static Access held(const Warps *w, const Fragment *f, Dim number, Dim q) {
    Dim at[] = {f->o->along ? number : q, f->o->along ? q : number};
    return (Access){f->buf, 2, arena_copy(w->lo->arena, at, sizeof at)};
}

static void fetch_element(Warps *w, const Fragment *f, Dim part, Dim number, Dim q, Stmts *into) {
    const Operand *o = f->o;
    Dim reduced = sum(w, times(w, part, w->step->depth), q);
    Stmt *s = nest_body(w->lo->nest, into);
    int val =
        body_read(&s->code, warps_shared(w, o, o->slot, f->place(w, number), reduced), o->type);
    vec_push(w->lo->arena, &s->store, ((Store){held(w, f, number, q), val}));
    s->from = w->plan->map->from;
}

/* Of one row or column (NULL: of all) all indices of the reduction, or of one index (NULL: of all)
 * all rows or columns; as neighbours lie. */
static void fetch(Warps *w, const Fragment *f, Dim part, Dim number, Dim q, Stmts *into) {
    int mark = w->lo->env.n;
    Dim depth = warps_const(w, w->step->depth);
    if (f->o->along) {
        if (!number) number = warps_open(w, "n", warps_const(w, f->count), LOOP_UNROLL, &into);
        q = warps_open(w, "q", depth, LOOP_VECTOR, &into);
    } else {
        if (!q) q = warps_open(w, "q", depth, LOOP_UNROLL, &into);
        Dim groups = warps_const(w, f->count / f->neighbours);
        Dim group = warps_open(w, "n", groups, LOOP_UNROLL, &into);
        Dim l = warps_open(w, "l", warps_const(w, f->neighbours), LOOP_VECTOR, &into);
        number = sum(w, times(w, group, f->neighbours), l);
    }
    fetch_element(w, f, part, number, q, into);
    w->lo->env.n = mark;
}

/* A row times all columns, for one index of the reduction. */
static void multiply_row(Warps *w, const Fragment *a, const Fragment *b, Dim m, Dim q,
                         Stmts *into) {
    int64_t each = w->step->columns / PAIRS;
    int mark = w->lo->env.n;
    Dim n = warps_open(w, "n", warps_const(w, b->count / each), LOOP_UNROLL, &into);
    Dim l = warps_open(w, "l", warps_const(w, each), LOOP_UNROLL, &into);
    Dim at[] = {m, n, warps_const(w, 0), l}, column = sum(w, times(w, n, each), l);
    Access acc = {w->acc, 4, arena_copy(w->lo->arena, at, sizeof at)};
    Stmt *s = nest_body(w->lo->nest, into);
    int x = body_read(&s->code, held(w, a, m, q), a->o->type);
    int y = body_read(&s->code, held(w, b, column, q), b->o->type);
    int z = body_prim3(&s->code, P_FMA, x, y, body_read(&s->code, acc, w->step->c));
    vec_push(w->lo->arena, &s->store, ((Store){acc, z}));
    s->from = w->plan->map->from;
    w->lo->env.n = mark;
}

/* Rows that lie along the reduction come one by one, for all of the step's depth; else all rows for
 * one index. */
void warps_multiply(Warps *w, Stmts *into) {
    int mark = w->lo->env.n;
    Dim parts = warps_const(w, w->plan->reduced.block / w->step->depth);
    Dim depth = warps_const(w, w->step->depth);
    Dim part = warps_open(w, "part", parts, LOOP_SEQ, &into), m, q;
    Fragment a = open_fragment(w, &w->a, into), b = open_fragment(w, &w->b, into);
    Dim rows = warps_const(w, a.count);
    if (w->b.along || w->a.along) fetch(w, &b, part, NULL, NULL, into);
    if (w->a.along) {
        m = warps_open(w, "m", rows, LOOP_UNROLL, &into);
        fetch(w, &a, part, m, NULL, into);
        q = warps_open(w, "q", depth, LOOP_UNROLL, &into);
    } else {
        q = warps_open(w, "q", depth, LOOP_UNROLL, &into);
        if (!w->b.along) fetch(w, &b, part, NULL, q, into);
        fetch(w, &a, part, NULL, q, into);
        m = warps_open(w, "m", rows, LOOP_UNROLL, &into);
    }
    multiply_row(w, &a, &b, m, q, into);
    w->lo->env.n = mark;
}
