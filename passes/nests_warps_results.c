/* SPDX-License-Identifier: Apache-2.0 */
/* What kernels of steps of warps do with their sums: where each thread's are, and how they get to
 * memory. */
#include "passes/nests_warps.h"

/* The sum itself, where nothing is computed from it. */
static void store_sum(Leaf *f, const Lane *lane, const Access *acc, Stmts *into) {
    Lane mine = *lane;
    const Access *to = &f->map->write.at[0].to[0];
    into = open_guards(f, &mine, true, into);
    Stmt *s = nest_body(f->lo->nest, lane_loop(f, &mine, into));
    int val = body_read(&s->code, *acc, f->lo->nest->buf.at[acc->cont].type);
    body_store(f, s, target_access(f, to),
               body_cvt(&s->code, f->lo->flow->cont.at[to->cont].type, val));
    finish_body(f, s);
}

Dim warps_row(const Warps *w, Dim m, Dim h) {
    if (w->step->plain) return warps_own_row(w, m);
    Dim row = sum(w, times(w, m, w->step->rows), sum(w, times(w, h, GROUP), w->group));
    return sum(w, w->row, row);
}

WarpElement warps_element(Warps *w, Stmts **into) {
    Lowering *lo = w->lo;
    const WarpStep *step = w->step;
    const JoinedDims *rows = &w->root->rows, *columns = &w->root->columns;
    int pair = step->columns / PAIRS;
    WarpElement e;
    e.m = warps_open(w, "m", warps_const(w, rows->warp / step->rows), LOOP_UNROLL, into);
    e.n = warps_open(w, "n", warps_const(w, columns->warp / step->columns), LOOP_UNROLL, into);
    e.h = warps_open(w, "h", warps_const(w, warps_halves(step)), LOOP_UNROLL, into);
    e.lane = (Lane){.var = lowering_var(lo, "l", warps_const(w, pair)), .width = pair, .row = true};
    e.row = warps_row(w, e.m, e.h);
    e.column = sum(w, times(w, e.n, step->columns), sum(w, times(w, w->pair, pair), e.lane.var));
    e.column = sum(w, w->column, e.column);
    Dim at[] = {e.m, e.n, e.h, e.lane.var};
    e.acc = (Access){w->acc, 4, arena_copy(lo->arena, at, sizeof at)};
    return e;
}

/* Threads of a pair's row exchange what they have of four steps' columns, so that each has all of
 * one: eight neighbours, which are stored at once. False where there are no four, or results do
 * not end on such a boundary. */
static bool turn_elements(Warps *w, WarpElement *e, Stmts **into) {
    Lowering *lo = w->lo;
    const WarpStep *step = w->step;
    const JoinedDims *columns = &w->root->columns;
    int64_t steps = columns->warp / step->columns;
    Dim all = warps_total(w, w->root->map, columns), wide = warps_const(w, step->columns), q;
    if (step->plain || step->columns != PAIRS * 2 || steps % PAIRS ||
        dtype_bits(step->c) != 8 * WORD_BYTES || !dim_divides(lo->ctx, all, wide, &q))
        return false;
    Dim box[] = {warps_const(w, step->columns)};
    int buf = nest_buf(lo->nest, internf(lo->ctx, "row.%d", lo->fresh++), BUF_REG, step->c, box, 1);
    e->m = warps_open(w, "m", warps_const(w, w->root->rows.warp / step->rows), LOOP_UNROLL, into);
    e->n = warps_open(w, "n", warps_const(w, steps / PAIRS), LOOP_UNROLL, into);
    e->h = warps_open(w, "h", warps_const(w, warps_halves(step)), LOOP_UNROLL, into);
    nest_decl(lo->nest, *into, buf);
    int mark = lo->env.n;
    Stmts *each = *into;
    Dim pair = warps_open(w, "l", warps_const(w, step->columns / PAIRS), LOOP_UNROLL, &each);
    Dim v = lowering_var(lo, "v", warps_const(w, PAIRS));
    Dim from[] = {e->m, sum(w, times(w, e->n, PAIRS), v), e->h, pair};
    Dim to[] = {sum(w, times(w, v, step->columns / PAIRS), pair)};
    nest_turn(lo->nest, each, v, PAIRS,
              (Access){w->acc, 4, arena_copy(lo->arena, from, sizeof from)},
              (Access){buf, 1, arena_copy(lo->arena, to, sizeof to)});
    lo->env.n = mark;
    e->lane = (Lane){.var = lowering_var(lo, "l", wide), .width = step->columns, .row = true};
    e->row = warps_row(w, e->m, e->h);
    e->column =
        sum(w, times(w, sum(w, times(w, e->n, PAIRS), w->pair), step->columns), e->lane.var);
    e->column = sum(w, w->column, e->column);
    e->acc = (Access){buf, 1, arena_copy(lo->arena, &e->lane.var, sizeof(Dim))};
    return true;
}

void warps_store(Warps *w, Stmts *into) {
    Lowering *lo = w->lo;
    int mark = lo->env.n;
    if (w->step->coarse) w->acc = w->total;
    Leaf f = {.plan = w->root, .map = w->root->map, .lo = lo};
    WarpElement e;
    if (!turn_elements(w, &e, &into)) e = warps_element(w, &into);
    for (int d = 0; d < f.map->dim.n; d++) f.value[d] = w->fixed[d];
    warps_set_dims(w, f.map, &w->root->rows, sum(w, w->a.first, e.row), f.value);
    warps_set_dims(w, f.map, &w->root->columns, sum(w, w->b.first, e.column), f.value);
    if (w->plan == w->root) {
        f.write = &f.map->write.at[0];
        store_sum(&f, &e.lane, &e.acc, into);
    } else {
        lo->local[w->plan->map->write.at[0].to[0].cont].one = &e.acc;
        plain_body(&f, &e.lane, into);
    }
    lo->env.n = mark;
}

/* Registers for what a thread has of its warp's sums, zero. */
static int sums_like(Warps *w, const char *name, Stmts *into) {
    const JoinedDims *rows = &w->root->rows, *columns = &w->root->columns;
    Dim box[] = {warps_const(w, rows->warp / w->step->rows),
                 warps_const(w, columns->warp / w->step->columns),
                 warps_const(w, warps_halves(w->step)), warps_const(w, w->step->columns / PAIRS)};
    name = internf(w->lo->ctx, "%s.%d", name, w->lo->fresh++);
    int buf = nest_buf(w->lo->nest, name, BUF_REG, w->step->c, box, 4);
    nest_decl(w->lo->nest, into, buf)->has_init = true;
    return buf;
}

void warps_sums(Warps *w, Stmts *into) {
    w->acc = sums_like(w, "acc", into);
    if (w->step->coarse) w->total = sums_like(w, "total", into);
}

void warps_add_block(Warps *w, Stmts *into) {
    Lowering *lo = w->lo;
    int mark = lo->env.n;
    WarpElement e = warps_element(w, &into);
    Dim l = e.lane.var;
    into = &nest_for(lo->nest, into, l, warps_const(w, e.lane.width), LOOP_UNROLL)->body;
    Stmt *s = nest_body(lo->nest, into);
    Body *b = &s->code;
    DType type = w->step->c;
    Access total = {w->total, e.acc.rank, e.acc.at};
    int sum = body_prim2(b, P_ADD, body_read(b, total, type), body_read(b, e.acc, type));
    vec_push(lo->arena, &s->store, ((Store){total, sum}));
    vec_push(lo->arena, &s->store, ((Store){e.acc, body_bits(b, type, 0)}));
    s->from = w->plan->map->from;
    lo->env.n = mark;
}
