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

/* ---- exchanged between threads ----------------------------------------------------------------
 */

/* Threads of a pair's row exchange what they have of four steps' columns, so that each has all of
 * one: eight neighbours, which are stored at once. */
typedef struct Turned {
    Warps *w;
    Leaf *f;
    int buf;       /* eight neighbours */
    int64_t steps; /* along columns, four at a time */
    int64_t ahead; /* as many of these what bodies read is asked for before; 0: not at all */
} Turned;

/* False where there are no four, or results do not end on a boundary of eight. */
static bool may_turn(const Warps *w) {
    const WarpStep *step = w->step;
    const JoinedDims *columns = &w->root->columns;
    Dim all = warps_total(w, w->root->map, columns), wide = warps_const(w, step->columns), q;
    return step->columns == PAIRS * 2 && columns->warp / step->columns % PAIRS == 0 &&
           step->c == F32 && dim_divides(w->lo->ctx, all, wide, &q);
}

/* The dims of the root at an element of the block. */
static void set_place(const Warps *w, Leaf *f, Dim row, Dim column) {
    for (int d = 0; d < f->map->dim.n; d++) f->value[d] = w->fixed[d];
    warps_set_dims(w, f->map, &w->root->rows, sum(w, w->a.first, row), f->value);
    warps_set_dims(w, f->map, &w->root->columns, sum(w, w->b.first, column), f->value);
}

static void set_turned(const Turned *t, WarpElement *e) {
    Warps *w = t->w;
    int64_t wide = w->step->columns;
    Dim l = lowering_var(w->lo, "l", warps_const(w, wide));
    e->lane = (Lane){.var = l, .width = (int)wide, .row = true};
    e->row = warps_row(w, e->m, e->h);
    e->column = sum(w, times(w, sum(w, times(w, e->n, PAIRS), w->pair), wide), l);
    e->column = sum(w, w->column, e->column);
    e->acc = (Access){t->buf, 1, arena_copy(w->lo->arena, &e->lane.var, sizeof(Dim))};
    set_place(w, t->f, e->row, e->column);
}

static void turn_elements(const Turned *t, const WarpElement *e, Stmts *into) {
    Warps *w = t->w;
    Lowering *lo = w->lo;
    int mark = lo->env.n;
    Dim pair = warps_open(w, "l", warps_const(w, w->step->columns / PAIRS), LOOP_UNROLL, &into);
    Dim v = lowering_var(lo, "v", warps_const(w, PAIRS));
    Dim from[] = {e->m, sum(w, times(w, e->n, PAIRS), v), e->h, pair};
    Dim to[] = {sum(w, times(w, v, w->step->columns / PAIRS), pair)};
    nest_turn(lo->nest, into, v, PAIRS,
              (Access){w->acc, 4, arena_copy(lo->arena, from, sizeof from)},
              (Access){t->buf, 1, arena_copy(lo->arena, to, sizeof to)});
    lo->env.n = mark;
}

/* ---- what bodies read, ahead of them ----------------------------------------------------------
 */

static bool uses(const Access *a, Dim sym) {
    for (int k = 0; k < a->rank; k++)
        if (dim_uses(a->at[k], sym)) return true;
    return false;
}

/* Does the root read lanes of it from memory, wherever a block stands? Then `at` is where. */
static bool is_fetched(const Turned *t, const Val *val, const Lane *lane, Access *at) {
    const Lowering *lo = t->w->lo;
    return val->kind == VAL_READ && !lo->local[val->read.cont].one && reads_inside(t->f, val, at) &&
           lo->nest->buf.at[at->cont].kind == BUF_MEMORY && uses(at, lane->var);
}

static void fetch_halves(const Turned *t, Dim n, Stmts *into) {
    Warps *w = t->w;
    Lowering *lo = w->lo;
    int mark = lo->env.n;
    WarpElement e = {.m = warps_const(w, 0), .n = n};
    e.h = warps_open(w, "h", warps_const(w, warps_halves(w->step)), LOOP_UNROLL, &into);
    set_turned(t, &e);
    for (int v = 0; v < t->f->map->body.val.n; v++) {
        const Val *val = &t->f->map->body.val.at[v];
        Access at;
        if (!is_fetched(t, val, &e.lane, &at)) continue;
        Stmt *s = nest_stmt(lo->nest, lane_loop(t->f, &e.lane, into), STMT_PREFETCH);
        s->at = at;
        s->from = t->f->map->from;
    }
    lo->env.n = mark;
}

/* Registers that what is read at one place along columns takes; -1: some of it may not be there. */
static int64_t fetched_words(const Turned *t) {
    Warps *w = t->w;
    int mark = w->lo->env.n;
    int64_t words = 0, halves = warps_halves(w->step);
    WarpElement e = {.m = warps_const(w, 0)};
    e.n = lowering_var(w->lo, "n", warps_const(w, t->steps));
    e.h = lowering_var(w->lo, "h", warps_const(w, halves));
    set_turned(t, &e);
    for (int v = 0; words >= 0 && v < t->f->map->body.val.n; v++) {
        const Val *val = &t->f->map->body.val.at[v];
        Access at;
        if (val->kind == VAL_READ && val->has_else) words = -1;
        if (words < 0 || !is_fetched(t, val, &e.lane, &at)) continue;
        words += (uses(&at, e.h) ? halves : 1) * w->step->columns * dtype_bits(val->type) / 32;
    }
    w->lo->env.n = mark;
    return words;
}

/* Loads stay behind stores that stand before them, so that each would wait for memory. As much is
 * asked for ahead as there is room for beside the sums. */
static int64_t fetch_ahead(const Turned *t) {
    enum { MOST = 4 };
    const Warps *w = t->w;
    int64_t sums = w->root->rows.warp * w->root->columns.warp / (GROUP * PAIRS * w->step->warps),
            words = fetched_words(t);
    if (w->root->rows.warp != w->step->rows || words <= 0) return 0;
    int64_t ahead = sums * 3 / 8 / words;
    ahead = ahead > MOST ? MOST : ahead;
    return ahead < t->steps ? ahead : t->steps - 1;
}

static void fetch_first(const Turned *t, Stmts *into) {
    int mark = t->w->lo->env.n;
    if (!t->ahead) return;
    Dim n = warps_open(t->w, "n", warps_const(t->w, t->ahead), LOOP_UNROLL, &into);
    fetch_halves(t, n, into);
    t->w->lo->env.n = mark;
}

/* At place n, the innermost variable. */
static void fetch_next(const Turned *t, Dim n, Stmts *into) {
    Lowering *lo = t->w->lo;
    if (!t->ahead) return;
    DimRange *range = &lo->env.at[lo->env.n - 1];
    Dim last = range->hi;
    Stmt *some = nest_if(lo->nest, into);
    vec_push(lo->arena, &some->guard,
             dim_sub(lo->ctx, warps_const(t->w, t->steps - 1 - t->ahead), n));
    range->hi = warps_const(t->w, t->steps - 1 - t->ahead);
    fetch_halves(t, dim_addc(lo->ctx, n, t->ahead), &some->body);
    lo->env.at[lo->env.n - 1].hi = last;
}

/* ---- to memory --------------------------------------------------------------------------------
 */

static void store_element(Warps *w, Leaf *f, const WarpElement *e, Stmts *into) {
    if (w->plan == w->root) {
        f->write = &f->map->write.at[0];
        store_sum(f, &e->lane, &e->acc, into);
    } else {
        w->lo->local[w->plan->map->write.at[0].to[0].cont].one = &e->acc;
        plain_body(f, &e->lane, into);
    }
}

static void store_turned(const Turned *t, Stmts *into) {
    Warps *w = t->w;
    const WarpStep *step = w->step;
    WarpElement e;
    e.m = warps_open(w, "m", warps_const(w, w->root->rows.warp / step->rows), LOOP_UNROLL, &into);
    e.n = warps_open(w, "n", warps_const(w, t->steps), LOOP_UNROLL, &into);
    fetch_next(t, e.n, into);
    e.h = warps_open(w, "h", warps_const(w, warps_halves(step)), LOOP_UNROLL, &into);
    turn_elements(t, &e, into);
    set_turned(t, &e);
    store_element(w, t->f, &e, into);
}

void warps_store(Warps *w, Stmts *into) {
    Lowering *lo = w->lo;
    int mark = lo->env.n;
    Leaf f = {.plan = w->root, .map = w->root->map, .lo = lo};
    Turned t = {w, &f, -1, w->root->columns.warp / w->step->columns / PAIRS, 0};
    bool turns = may_turn(w);
    Access sums = {.cont = w->acc};
    if (w->plan != w->root) lo->local[w->plan->map->write.at[0].to[0].cont].one = &sums;
    if (turns) {
        Dim box[] = {warps_const(w, w->step->columns)};
        t.buf = nest_buf(lo->nest, internf(lo->ctx, "row.%d", lo->fresh++), BUF_REG, F32, box, 1);
        t.ahead = fetch_ahead(&t);
        fetch_first(&t, into);
    }
    if (warps_behind(w)) warps_wait(w, 0, into);
    warps_next(w, into);
    if (turns) {
        nest_decl(lo->nest, into, t.buf);
        store_turned(&t, into);
    } else {
        WarpElement e = warps_element(w, &into);
        set_place(w, &f, e.row, e.column);
        store_element(w, &f, &e, into);
    }
    lo->env.n = mark;
}

void warps_sums(Warps *w, Stmts *into) {
    const JoinedDims *rows = &w->root->rows, *columns = &w->root->columns;
    Dim box[] = {warps_const(w, rows->warp / w->step->rows),
                 warps_const(w, columns->warp / w->step->columns),
                 warps_const(w, warps_halves(w->step)), warps_const(w, w->step->columns / PAIRS)};
    const char *name = internf(w->lo->ctx, "acc.%d", w->lo->fresh++);
    w->acc = nest_buf(w->lo->nest, name, BUF_REG, w->step->c, box, 4);
    nest_decl(w->lo->nest, into, w->acc)->has_init = true;
}
