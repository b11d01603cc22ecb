/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels of rows of scores that weigh rows of values (weigh.h), block by block of keys.
 *
 * A warp has some rows of the block's, each thread some elements of them, of the scores and of the
 * results alike. Of a row it keeps the greatest score so far, the sum of terms exp(s - top), and
 * what they weighed:
 *
 *     fetch the block's rows of q; copy the first blocks of k and v
 *     for each block of keys: wait for it; ask for the one `ahead`
 *         s = q k, by steps; shaped, and -inf where there is no key
 *         greatest of the block; all that was summed before, times exp(top before - top now)
 *         p = exp(s - top), a fragment for the next product, and added to the row's sum
 *         y += p v, by steps
 *     y / sum, where a row is there
 *
 * Rows of q and terms p stay in the registers in which steps want them: of the sums of a step each
 * thread has just the elements that it must bring to the next as an operand. Products without a
 * step have both in shared memory. Steps of several warps are waited for where they are used: other
 * blocks of the core compute meanwhile.
 *
 * Terms are powers of two: exp(s - top) = 2^(s u - top u) with u = log2 e, one multiplication and
 * addition a score. What scores are multiplied by, if that is all their shape, is part of u. Where
 * top u would overflow u is 1: so far out scores that differ at all differ by so much that the
 * lower one's term is 0. While all scores of a row are -inf nothing is taken off them, so that
 * their terms are 0; a row that has no other is 0 / 0, as it is where the maximum is known before.
 */
#include "passes/nests_warps.h"
#include "passes/weigh.h"

static const double log2_e = 0x1.715476p0;

typedef struct Weigh {
    Lowering *lo;
    Weighing is;
    Warps scores, values;
    WarpStep plain[2];
    Dim key;                                   /* the first of the block */
    Dim at[RANK_MAX];                          /* by index of the scores: that of the block */
    int high, one, top, unit, off, scale, sum; /* registers: by row, `high` and `sum` by lane too */
    Access s;      /* what bodies read instead of the scores' container */
    double factor; /* of all scores, in their unit instead of in them: of maps in front ... */
    int unshaped;  /* ... of this one */
} Weigh;

static const MapPlan *plan_at(const Weigh *g, int pos) {
    return &g->lo->plan[pos];
}

/* ---- registers --------------------------------------------------------------------------------
 */

static int row_register(Weigh *g, const char *name, bool lanes, DType type, Bits init,
                        Stmts *into) {
    Lowering *lo = g->lo;
    const WarpStep *step = g->scores.step;
    const Warps *w = &g->scores;
    Dim box[] = {warps_const(w, w->root->rows.warp / step->rows),
                 warps_const(w, warps_halves(step)), warps_const(w, step->columns / PAIRS)};
    int buf = nest_buf(lo->nest, internf(lo->ctx, "%s.%d", name, lo->fresh++), BUF_REG, type, box,
                       lanes ? 3 : 2);
    Stmt *decl = nest_decl(lo->nest, into, buf);
    decl->has_init = true;
    decl->init = init;
    return buf;
}

static Access row_at(const Weigh *g, int buf, Dim m, Dim h, Dim lane) {
    Dim at[] = {m, h, lane};
    return (Access){buf, lane ? 3 : 2, arena_copy(g->lo->arena, at, sizeof at)};
}

static Bits lowest(const Weigh *g) {
    return combine_get(g->lo->ctx, "max", F32)->identity[0];
}

static void open_rows(Weigh *g, Dim *m, Dim *h, Stmts **into) {
    const Warps *w = &g->scores;
    Dim steps = warps_const(w, w->root->rows.warp / w->step->rows);
    *m = warps_open(w, "m", steps, LOOP_UNROLL, into);
    *h = warps_open(w, "h", warps_const(w, warps_halves(w->step)), LOOP_UNROLL, into);
}

/* ---- indices ----------------------------------------------------------------------------------
 */

/* The values of a map's dims where index k of the scores is `at`. */
static void set_index(const Weigh *g, int pos, int k, Dim at, Dim *value) {
    Lowering *lo = g->lo;
    int d = g->is.dim[pos][k], inner = g->is.inner[pos][k];
    if (d < 0) return;
    value[d] = at;
    if (inner < 0) return;
    Dim by = lo->plan[pos].map->dim.at[inner].extent;
    value[d] = lowering_simplify(lo, dim_div(lo->ctx, at, by));
    value[inner] = lowering_simplify(lo, dim_mod(lo->ctx, at, by));
}

/* ---- elements ---------------------------------------------------------------------------------
 */

/* The map at the element; what others of the kernel made is in registers. */
static Leaf leaf_at(Weigh *g, int pos, const WarpElement *e) {
    const Weighing *is = &g->is;
    const Warps *w = &g->scores;
    Leaf f = {.plan = plan_at(g, pos), .map = plan_at(g, pos)->map, .lo = g->lo};
    for (int d = 0; d < f.map->dim.n; d++) f.value[d] = warps_const(w, 0);
    for (int k = 0; k < is->rank; k++) {
        Dim at = g->at[k];
        if (k == is->row) at = sum(w, w->a.first, e->row);
        if (k == is->key) at = sum(w, g->key, e->column);
        set_index(g, pos, k, at, f.value);
    }
    g->s = e->acc;
    return f;
}

/* What the map makes of the scores takes their place. */
static void shape(Weigh *g, int pos, const WarpElement *e, const Lane *lane, const Access *to,
                  Stmts *into) {
    Leaf f = leaf_at(g, pos, e);
    Stmt *s = nest_body(g->lo->nest, lane_loop(&f, lane, into));
    int *map = NEW_ARRAY(g->lo->arena, int, f.map->body.val.n);
    inline_body(&f, lane, &s->code, map);
    int score = body_cvt(&s->code, F32, map[f.map->write.at[0].val[0]]);
    body_unround(&s->code); /* no memory holds these scores: they are not rounded */
    body_store(&f, s, *to, body_unrounded(&s->code, score));
    finish_body(&f, s);
}

static void copy_score(Weigh *g, const WarpElement *e, const Lane *lane, const Access *from,
                       const Access *to, Stmts *into) {
    Leaf f = leaf_at(g, 0, e);
    Stmt *s = nest_body(g->lo->nest, lane_loop(&f, lane, into));
    body_store(&f, s, *to, body_read(&s->code, *from, F32));
    finish_body(&f, s);
}

/* >= 0 where there is an element at row and key: what is not proven. */
typedef struct Ends {
    Dim at[3];
    int n;
} Ends;

static void add_end(const Weigh *g, Ends *ends, Dim d) {
    DimEnv env = lowering_env(g->lo);
    d = lowering_simplify(g->lo, d);
    if (!dim_ge0(g->lo->ctx, d, &env)) ends->at[ends->n++] = d;
}

/* first, last: of several rows; of these the ends hold where they hold of one element. */
static Ends ends_at(const Weigh *g, Dim first, Dim last, Dim key) {
    Ctx *ctx = g->lo->ctx;
    const Map *m = g->scores.plan->map;
    Dim rows = m->dim.at[g->is.dim[0][g->is.row]].extent,
        keys = m->dim.at[g->is.dim[0][g->is.key]].extent;
    Ends ends = {.n = 0};
    add_end(g, &ends, dim_addc(ctx, dim_sub(ctx, rows, last), -1));
    add_end(g, &ends, dim_addc(ctx, dim_sub(ctx, keys, key), -1));
    if (!g->is.end) return ends;
    DimSubst to[] = {{weighing_row(ctx), first}, {weighing_key(ctx), key}};
    add_end(g, &ends, dim_subst(ctx, g->is.end, to, 2));
    return ends;
}

/* Cuts off lanes of rows and keys that are not there. */
static void guard_element(const Weigh *g, const WarpElement *e, Lane *lane) {
    const Warps *w = &g->scores;
    Dim row = sum(w, w->a.first, e->row);
    Ends ends = ends_at(g, row, row, sum(w, g->key, e->column));
    for (int i = 0; i < ends.n; i++)
        lane->guard = lane->guard ? dim_min(g->lo->ctx, lane->guard, ends.at[i]) : ends.at[i];
}

/* Scores that are there, in their registers. */
static void shape_whole(Weigh *g, Stmts *into) {
    int mark = g->lo->env.n;
    WarpElement e = warps_element(&g->scores, &into);
    for (int p = g->unshaped; p < g->is.top; p++) shape(g, p, &e, &e.lane, &e.acc, into);
    g->lo->env.n = mark;
}

/* The same where some are not: these are as low as can be. */
static void shape_part(Weigh *g, Stmts *into) {
    Lowering *lo = g->lo;
    int mark = lo->env.n, last = g->is.top - 1, first = g->unshaped;
    WarpElement e = warps_element(&g->scores, &into);
    Lane lane = e.lane;
    guard_element(g, &e, &lane);
    Dim width = warps_const(&g->scores, lane.width);
    int buf =
        nest_buf(lo->nest, internf(lo->ctx, "shaped.%d", lo->fresh++), BUF_REG, F32, &width, 1);
    Stmt *decl = nest_decl(lo->nest, into, buf);
    decl->has_init = true;
    decl->init = lowest(g);
    Access to = {buf, 1, arena_copy(lo->arena, &lane.var, sizeof(Dim))};
    for (int p = first; p <= last; p++) shape(g, p, &e, &lane, p == last ? &to : &e.acc, into);
    if (last < first) copy_score(g, &e, &lane, &e.acc, &to, into);
    copy_score(g, &e, &e.lane, &to, &e.acc, into);
    lo->env.n = mark;
}

/* The scores as they are compared. Few blocks of a warp's rows have elements that are not there. */
static void shape_scores(Weigh *g, Stmts *into) {
    Lowering *lo = g->lo;
    const Warps *w = &g->scores;
    Dim first = sum(w, w->a.first, w->row);
    Dim last = dim_addc(lo->ctx, first, w->root->rows.warp - 1);
    Ends ends = ends_at(g, first, last, dim_addc(lo->ctx, g->key, w->plan->columns.block - 1));
    if (!ends.n) {
        shape_whole(g, into);
        return;
    }
    Stmt *whole = nest_if(lo->nest, into), *part = nest_if(lo->nest, into);
    Dim least = ends.at[0];
    for (int i = 0; i < ends.n; i++) {
        vec_push(lo->arena, &whole->guard, ends.at[i]);
        least = dim_min(lo->ctx, least, ends.at[i]);
    }
    vec_push(lo->arena, &part->guard, dim_addc(lo->ctx, dim_mulc(lo->ctx, least, -1), -1));
    shape_whole(g, &whole->body);
    shape_part(g, &part->body);
}

/* high = max(high, s), lane by lane. */
static void find_greatest(Weigh *g, Stmts *into) {
    int mark = g->lo->env.n;
    WarpElement e = warps_element(&g->scores, &into);
    Leaf f = leaf_at(g, g->is.top, &e);
    Stmt *s = nest_body(g->lo->nest, lane_loop(&f, &e.lane, into));
    Body *b = &s->code;
    Access to = row_at(g, g->high, e.m, e.h, e.lane.var);
    body_store(&f, s, to, body_prim2(b, P_MAX, body_read(b, to, F32), body_read(b, e.acc, F32)));
    finish_body(&f, s);
    g->lo->env.n = mark;
}

/* Both lanes of a row, then the threads that share it: `one`. */
static void fold_row(Weigh *g, int lanes, Prim by, const char *combine, Dim m, Dim h, Stmts *into) {
    Lowering *lo = g->lo;
    const Warps *w = &g->scores;
    Access one = row_at(g, g->one, m, h, NULL), *at = arena_copy(lo->arena, &one, sizeof one);
    Stmt *s = nest_body(lo->nest, into);
    Body *b = &s->code;
    int val = body_read(b, row_at(g, lanes, m, h, warps_const(w, 0)), F32);
    for (int l = 1; l < w->step->columns / PAIRS; l++)
        val = body_prim2(b, by, val, body_read(b, row_at(g, lanes, m, h, warps_const(w, l)), F32));
    vec_push(lo->arena, &s->store, ((Store){one, val}));
    s->from = w->plan->map->from;
    Stmt *fold = nest_stmt(lo->nest, into, STMT_FOLD);
    fold->threads = true;
    fold->combine = combine_get(lo->ctx, combine, F32);
    fold->lanes = PAIRS;
    fold->src = fold->dst = at;
    fold->from = w->plan->map->from;
}

/* The greatest so far, in what unit exponents are and what is taken off them now, and by what is
 * scaled what was summed. */
static void raise_top(Weigh *g, Dim m, Dim h, Stmts *into) {
    Lowering *lo = g->lo;
    Stmt *s = nest_body(lo->nest, into);
    Body *b = &s->code;
    Access top = row_at(g, g->top, m, h, NULL), off = row_at(g, g->off, m, h, NULL);
    int least = body_bits(b, F32, lowest(g)), before = body_read(b, top, F32);
    int now = body_prim2(b, P_MAX, before, body_read(b, row_at(g, g->one, m, h, NULL), F32));
    int small = body_prim2(b, P_LT, body_prim1(b, P_ABS, now), body_const(b, F32, 0x1p127));
    int unit = body_prim3(b, P_SELECT, small, body_const(b, F32, g->factor * log2_e),
                          body_const(b, F32, g->factor));
    int any = body_prim2(b, P_GT, now, least);
    int less = body_prim3(b, P_SELECT, any, body_prim2(b, P_MUL, now, unit), body_const(b, F32, 0));
    int had = body_prim2(b, P_GT, before, least);
    int last = body_prim3(b, P_SELECT, had, body_read(b, off, F32), least);
    int scale = body_prim1(b, P_EXP2, body_prim2(b, P_SUB, last, less));
    vec_push(lo->arena, &s->store, ((Store){top, now}));
    vec_push(lo->arena, &s->store, ((Store){off, less}));
    vec_push(lo->arena, &s->store, ((Store){row_at(g, g->unit, m, h, NULL), unit}));
    vec_push(lo->arena, &s->store, ((Store){row_at(g, g->scale, m, h, NULL), scale}));
    s->from = plan_at(g, g->is.top)->map->from;
}

static void raise_tops(Weigh *g, Stmts *into) {
    int mark = g->lo->env.n;
    Dim m, h;
    open_rows(g, &m, &h, &into);
    fold_row(g, g->high, P_MAX, "max", m, h, into);
    raise_top(g, m, h, into);
    g->lo->env.n = mark;
}

static void scale_one(Weigh *g, const Access *at, Dim m, Dim h, const Lane *lane, Stmts *into) {
    Leaf f = {.lo = g->lo, .plan = plan_at(g, g->is.root), .map = plan_at(g, g->is.root)->map};
    Stmt *s = nest_body(g->lo->nest, lane_loop(&f, lane, into));
    int by = body_read(&s->code, row_at(g, g->scale, m, h, NULL), F32);
    body_store(&f, s, *at, body_prim2(&s->code, P_MUL, body_read(&s->code, *at, F32), by));
    finish_body(&f, s);
}

static void scale_sums(Weigh *g, Stmts *into) {
    Lowering *lo = g->lo;
    int mark = lo->env.n;
    Stmts *rows = into;
    Dim m, h;
    open_rows(g, &m, &h, &rows);
    Lane lane = {.width = g->scores.step->columns / PAIRS, .row = true};
    lane.var = lowering_var(lo, "l", warps_const(&g->scores, lane.width));
    Access sum = row_at(g, g->sum, m, h, lane.var);
    scale_one(g, &sum, m, h, &lane, rows);
    lo->env.n = mark;
    WarpElement e = warps_element(&g->values, &into);
    scale_one(g, &e.acc, e.m, e.h, &e.lane, into);
    lo->env.n = mark;
}

/* Terms take the place of scores. */
static void find_terms(Weigh *g, const WarpElement *e, Stmts *into) {
    Leaf f = leaf_at(g, g->is.sum, e);
    Stmt *s = nest_body(g->lo->nest, lane_loop(&f, &e->lane, into));
    Body *b = &s->code;
    int unit = body_read(b, row_at(g, g->unit, e->m, e->h, NULL), F32);
    int off = body_read(b, row_at(g, g->off, e->m, e->h, NULL), F32);
    int exponent = body_prim3(b, P_FMA, body_read(b, e->acc, F32), unit, body_prim1(b, P_NEG, off));
    body_store(&f, s, e->acc, body_prim1(b, P_EXP2, exponent));
    finish_body(&f, s);
}

/* They are added to their row's sum, and go where the second product reads them. */
static void weigh_scores(Weigh *g, Stmts *into) {
    Lowering *lo = g->lo;
    Warps *v = &g->values;
    int mark = lo->env.n;
    WarpElement e = warps_element(&g->scores, &into);
    find_terms(g, &e, into);
    Leaf f = leaf_at(g, g->is.sum, &e);
    Stmt *s = nest_body(lo->nest, lane_loop(&f, &e.lane, into));
    Body *b = &s->code;
    Access sum_at = row_at(g, g->sum, e.m, e.h, e.lane.var);
    int term = body_read(b, e.acc, F32);
    body_store(&f, s, sum_at, body_prim2(b, P_ADD, body_read(b, sum_at, F32), term));
    finish_body(&f, s);
    f = leaf_at(g, g->is.weights >= 0 ? g->is.weights : g->is.sum, &e);
    s = nest_body(lo->nest, lane_loop(&f, &e.lane, into));
    Access to = warps_shared(v, &v->a, v->a.slot, e.row, e.column);
    body_store(&f, s, to, body_cvt(&s->code, v->a.type, body_read(&s->code, e.acc, F32)));
    finish_body(&f, s);
    lo->env.n = mark;
}

/* ---- blocks of keys ---------------------------------------------------------------------------
 */

static void copy_keys(void *user, Dim block, Dim slot, Stmts *into) {
    Weigh *g = user;
    Warps *w = &g->scores, *v = &g->values;
    w->b.first = times(w, block, w->plan->columns.block);
    warps_fill(w, &w->b, warps_const(w, 0), slot, into);
    warps_fill(v, &v->b, block, slot, into);
}

static void all_steps(Warps *w, Stmts *into) {
    warps_steps(w, NULL, into);
    if (warps_behind(w)) warps_wait(w, 0, into);
}

static void use_keys(void *user, Dim block, Dim slot, Stmts *into) {
    Weigh *g = user;
    Warps *w = &g->scores, *v = &g->values;
    g->key = times(w, block, w->plan->columns.block);
    w->b.slot = v->b.slot = slot;
    warps_sums(w, into);
    all_steps(w, into);
    shape_scores(g, into);
    g->high = row_register(g, "high", true, F32, lowest(g), into);
    g->one = row_register(g, "one", false, F32, 0, into);
    g->scale = row_register(g, "scale", false, F32, 0, into);
    find_greatest(g, into);
    raise_tops(g, into);
    scale_sums(g, into);
    weigh_scores(g, into);
    if (!v->a.fragment) nest_stmt(g->lo->nest, into, STMT_SYNC);
    all_steps(v, into);
}

/* ---- results ----------------------------------------------------------------------------------
 */

/* y / sum. */
static void store_quotient(Weigh *g, const WarpElement *e, Leaf *f, Stmts *into) {
    const Access *to = &f->map->write.at[0].to[0];
    Lane lane = e->lane;
    f->write = &f->map->write.at[0];
    into = open_guards(f, &lane, true, into);
    Stmt *s = nest_body(g->lo->nest, lane_loop(f, &lane, into));
    Body *b = &s->code;
    int all = body_read(b, row_at(g, g->one, e->m, e->h, NULL), F32);
    int val = body_prim2(b, P_DIV, body_read(b, e->acc, F32), all);
    body_store(f, s, target_access(f, to), body_cvt(b, g->lo->flow->cont.at[to->cont].type, val));
    finish_body(f, s);
}

static int made_by(const Weigh *g, int pos) {
    return plan_at(g, pos)->map->write.at[0].to[0].cont;
}

/* What the last map makes of y, sum and top. */
static void store_finished(Weigh *g, const WarpElement *e, const Leaf *root, Stmts *into) {
    Lowering *lo = g->lo;
    const MapPlan *plan = plan_at(g, g->is.finish);
    Leaf f = {.plan = plan, .map = plan->map, .lo = lo};
    Access top = row_at(g, g->top, e->m, e->h, NULL), all = row_at(g, g->one, e->m, e->h, NULL);
    for (int d = 0; d < root->map->dim.n; d++)
        if (g->is.own[d] >= 0) f.value[g->is.own[d]] = root->value[d];
    lo->local[made_by(g, g->is.root)].one = &e->acc;
    lo->local[made_by(g, g->is.top)].one = &top;
    lo->local[made_by(g, g->is.sum)].one = &all;
    plain_body(&f, &e->lane, into);
}

static void store_results(Weigh *g, Stmts *into) {
    Lowering *lo = g->lo;
    Warps *v = &g->values;
    int mark = lo->env.n;
    Stmts *rows = into;
    Dim m, h;
    g->one = row_register(g, "one", false, F32, 0, into);
    open_rows(g, &m, &h, &rows);
    fold_row(g, g->sum, P_ADD, "sum", m, h, rows);
    lo->env.n = mark;
    WarpElement e = warps_element(v, &into);
    Leaf f = leaf_at(g, g->is.root, &e);
    f.value[g->is.dim[g->is.root][g->is.key]] = warps_const(v, 0);
    f.value[g->is.column] = e.column;
    if (g->is.finish < 0)
        store_quotient(g, &e, &f, into);
    else
        store_finished(g, &e, &f, into);
    lo->env.n = mark;
}

/* ---- the kernel -------------------------------------------------------------------------------
 */

/* An instruction of the machine; or the same loops without one. */
static const WarpStep *step_of(Weigh *g, const MapPlan *plan, WarpStep *plain) {
    enum { DEPTH = 4 };
    *plain =
        (WarpStep){.c = F32, .rows = 2 * GROUP, .columns = 2 * PAIRS, .depth = DEPTH, .warps = 1};
    return plan->use ? warps_step(g->lo, plan->use) : plain;
}

static Warps open_product(Weigh *g, int pos, int row_val, int column_val) {
    Warps w = {.lo = g->lo, .plan = plan_at(g, pos), .root = plan_at(g, pos)};
    w.step = step_of(g, w.plan, &g->plain[pos != 0]);
    for (int d = 0; d < w.plan->map->dim.n; d++) {
        w.own[d] = d;
        w.fixed[d] = warps_const(&w, 0);
    }
    w.a = (Operand){.read = &w.plan->map->body.val.at[row_val], .side = &w.plan->rows};
    w.b = (Operand){.read = &w.plan->map->body.val.at[column_val], .side = &w.plan->columns};
    w.a.slots = 1;
    w.b.slots = w.plan->ahead + 1;
    w.a.slot = w.a.first = w.b.first = warps_const(&w, 0);
    return w;
}

/* A block for each tile of rows at each index of all other dims. */
static void open_blocks(Weigh *g, Stmts **into) {
    const Weighing *is = &g->is;
    Warps *w = &g->scores, *v = &g->values;
    const Cont *shape = &g->lo->flow->cont.at[v->a.read->read.cont];
    for (int k = 0; k < is->rank; k++) {
        if (k == is->row || k == is->key) continue;
        g->at[k] = warps_open(v, "h", shape->shape[k], LOOP_BLOCK, into);
        set_index(g, 0, k, g->at[k], w->fixed);
        set_index(g, g->is.root, k, g->at[k], v->fixed);
    }
    w->a.first = v->a.first = warps_tiles(v, "row", &v->plan->rows, into);
    if (is->finish < 0) return;
    int row = v->plan->rows.dim[0];
    bool over = g->lo->over[row];
    g->lo->over[row] = false;
    g->lo->over[is->own[row]] = over;
}

/* Rows of q and their weights: in registers where a step takes them from there. */
static void declare_rows(Weigh *g, Warps *w, Stmts *into) {
    Lowering *lo = g->lo;
    bool staged = w == &g->scores;
    const Cont *c = &lo->flow->cont.at[w->a.read->read.cont];
    w->a.type = staged ? c->type : weighing_type(lo->flow, lo->kernel->map.at, &g->is);
    if (w->step->name) {
        warps_fragment(w, &w->a, into);
    } else if (staged) {
        warps_operand(w, &w->a, into);
    } else {
        int pad = PAD_BYTES / (dtype_bits(w->a.type) / 8);
        Dim box[] = {warps_const(w, 1), warps_const(w, w->plan->rows.block),
                     warps_const(w, w->plan->reduced.block + pad)};
        const char *name = internf(lo->ctx, "%s.%d", c->name, lo->fresh++);
        w->a.along = true;
        w->a.buf = nest_buf(lo->nest, name, BUF_SHARED, w->a.type, box, 3);
        nest_decl(lo->nest, into, w->a.buf);
    }
}

/* Keys are copied from the first of any block on. */
static void declare_keys(Weigh *g, Stmts *into) {
    Lowering *lo = g->lo;
    Warps *w = &g->scores;
    int mark = lo->env.n;
    Dim block = lowering_var(lo, "block", warps_const(w, INT32_MAX));
    w->b.first = times(w, block, w->plan->columns.block);
    warps_operand(w, &w->b, into);
    lo->env.n = mark;
}

/* What bodies of maps that shape scores read of each other. */
static void bind_containers(Weigh *g) {
    for (int p = 0; p < g->is.top; p++) g->lo->local[made_by(g, p)].one = &g->s;
}

/* What follows the root wants the greatest score as it is. */
static void find_factor(Weigh *g) {
    g->factor = weighing_factor(g->lo->flow, g->lo->kernel->map.at, &g->is);
    g->unshaped = g->is.finish < 0 && g->factor ? g->is.top : 1;
    if (g->unshaped == 1) g->factor = 1;
}

/* As many keys as any of the block's rows has. */
static Dim keys_of_block(const Weigh *g, Dim all) {
    Lowering *lo = g->lo;
    Ctx *ctx = lo->ctx;
    const Warps *w = &g->scores;
    Dim row = weighing_row(ctx), key = weighing_key(ctx), coef, rest;
    if (!g->is.end || !dim_affine(ctx, g->is.end, &key, 1, &coef, &rest)) return all;
    DimRange range = {row, w->a.first, dim_addc(ctx, w->a.first, w->root->rows.block - 1)};
    vec_push(lo->arena, &lo->env, range);
    DimEnv env = lowering_env(lo);
    Dim most = dim_upper_from(ctx, rest, &env, lo->env.n - 1);
    lo->env.n--;
    if (!most) return all;
    return lowering_simplify(
        lo, dim_max(ctx, warps_const(w, 0), dim_min(ctx, all, dim_addc(ctx, most, 1))));
}

void lower_weighing(Lowering *lo) {
    Weigh g = {.lo = lo};
    Stmts *into = &lo->nest->body;
    if (!weighing_find(lo->flow, lo->kernel->map.at, lo->nplan, &g.is))
        BUG("kernel \"%s\" has two products by rows and columns, and no rows that they share",
            lo->kernel->name);
    g.scores = open_product(&g, 0, g.is.q, g.is.k);
    g.values = open_product(&g, g.is.root, g.is.p, g.is.v);
    g.scores.there = map_extent(g.scores.plan->map, g.is.depth, 0);
    bind_containers(&g);
    find_factor(&g);
    open_blocks(&g, &into);
    declare_rows(&g, &g.scores, into);
    declare_keys(&g, into);
    warps_operand(&g.values, &g.values.b, into);
    declare_rows(&g, &g.values, into);
    Warps *w = &g.scores, *v = &g.values;
    warps_threads(w, &into);
    v->row = w->row, v->column = w->column, v->number = w->number, v->group = w->group;
    v->pair = w->pair, v->nthreads = w->nthreads;
    g.top = row_register(&g, "top", false, F32, lowest(&g), into);
    g.unit = row_register(&g, "unit", false, F32, 0, into);
    g.off = row_register(&g, "off", false, F32, 0, into);
    g.sum = row_register(&g, "sum", true, F32, 0, into);
    warps_sums(v, into);
    warps_clear(w, &w->b, into);
    Dim zero = warps_const(w, 0);
    if (w->a.fragment)
        warps_fetch(w, &w->a, into);
    else
        warps_copy(w, &w->a, zero, zero, into);
    Dim keys = w->plan->map->dim.at[w->plan->columns.dim[0]].extent;
    Pipeline p = {
        .ahead = v->plan->ahead, .waits = true, .copy = copy_keys, .use = use_keys, .user = &g};
    p.count = warps_blocks(w, keys_of_block(&g, keys), w->plan->columns.block);
    warps_pipeline(w, &p, into);
    store_results(&g, into);
}
