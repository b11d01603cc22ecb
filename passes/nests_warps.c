/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels of steps of warps.
 *
 * Rows and columns of the results, and what is reduced, are each one number: the dims that a line
 * joins, the innermost fastest. A block has a tile of rows and columns, a warp of it one of its
 * own, and of that each thread the elements which the machine's step gives it, in registers:
 *
 *     copy the first blocks of the reduction to shared memory, a group of copies each
 *     for each block: wait for it; ask for the one `ahead`; all steps of the warp on this one
 *     the root's body (or the sum itself), element by element, guarded where tiles hang over
 *
 * An operand lies in shared memory in the order in which it lies in memory, rows longer by 16
 * bytes, so that neighbouring rows begin in other banks. As many neighbours are copied at once as
 * lie side by side on a boundary of their size. What stands outside the container is zero.
 *
 * Steps of several warps run behind their threads: they are started, then the next block is asked
 * for, then the steps before are waited for. Their operands are swizzled, in panels of 128 bytes,
 * and what they are rounded to is stored there. Where their sums are coarse, those of a block are
 * waited for and added to the others by themselves. */
#include "passes/nests_warps.h"

#include <string.h>

enum { UNROLL_MOST = 16 };

/* ---- numbers and dims -------------------------------------------------------------------------
 */

Dim warps_total(const Warps *w, const Map *m, const JoinedDims *j) {
    Dim n = warps_const(w, 1);
    for (int i = 0; i < j->n; i++) n = dim_mul(w->lo->ctx, n, m->dim.at[j->dim[i]].extent);
    return lowering_simplify(w->lo, n);
}

void warps_set_dims(const Warps *w, const Map *m, const JoinedDims *j, Dim number, Dim *value) {
    Lowering *lo = w->lo;
    for (int i = j->n - 1; i >= 0; i--) {
        Dim extent = m->dim.at[j->dim[i]].extent;
        value[j->dim[i]] = lowering_simplify(lo, i ? dim_mod(lo->ctx, number, extent) : number);
        number = lowering_simplify(lo, dim_div(lo->ctx, number, extent));
    }
}

/* Values of the contraction's dims where rows, columns and the reduced ones have these numbers;
 * NULL: 0. */
static void map_dims(const Warps *w, Dim row, Dim column, Dim reduced, Dim *value) {
    const Map *m = w->plan->map, *root = w->root->map;
    Dim at[RANK_MAX * 2];
    for (int d = 0; d < root->dim.n; d++) at[d] = w->fixed[d];
    warps_set_dims(w, root, &w->root->rows, row ? row : warps_const(w, 0), at);
    warps_set_dims(w, root, &w->root->columns, column ? column : warps_const(w, 0), at);
    for (int d = 0; d < m->dim.n; d++) value[d] = warps_const(w, 0);
    for (int d = 0; d < root->dim.n; d++)
        if (w->own[d] >= 0) value[w->own[d]] = at[d];
    warps_set_dims(w, m, &w->plan->reduced, reduced, value);
}

/* ---- guards ------------------------------------------------------------------------------------
 */

static bool never(const Lowering *lo, Dim guard) {
    DimEnv env = lowering_env(lo);
    return dim_ge0(lo->ctx, dim_addc(lo->ctx, dim_mulc(lo->ctx, guard, -1), -1), &env);
}

static Stmts *when(Warps *w, Dim guard, Stmts *into) {
    DimEnv env = lowering_env(w->lo);
    if (dim_ge0(w->lo->ctx, guard, &env)) return into;
    Stmt *s = nest_if(w->lo->nest, into);
    vec_push(w->lo->arena, &s->guard, guard);
    return &s->body;
}

/* ---- blocks and threads -----------------------------------------------------------------------
 */

Dim warps_open(const Warps *w, const char *name, Dim count, LoopMark mark, Stmts **into) {
    if (mark == LOOP_BLOCK && dim_is(count, 1)) return warps_const(w, 0);
    Dim var = lowering_var(w->lo, name, count);
    *into = &nest_for(w->lo->nest, *into, var, count, mark)->body;
    return var;
}

/* The threads of a warp. Of plain steps neighbours share rows in pairs, and halves of the warp have
 * columns of their own: four words for each come at once where next to every thread is one that
 * wants the same. */
static Dim open_warp(Warps *w, Dim *group, Stmts **into) {
    bool plain = w->step->plain;
    Dim groups = warps_const(w, GROUP), half = warps_const(w, PAIRS / 2), far = warps_const(w, 0);
    if (plain) far = warps_open(w, "t", half, LOOP_THREAD, into);
    *group = warps_open(w, "g", groups, LOOP_THREAD, into);
    Dim near = warps_open(w, "t", plain ? half : warps_const(w, PAIRS), LOOP_THREAD, into);
    w->pair = sum(w, times(w, far, PAIRS / 2), near);
    Dim before = sum(w, times(w, far, GROUP), *group);
    return sum(w, times(w, before, plain ? PAIRS / 2 : PAIRS), near);
}

void warps_threads(Warps *w, Stmts **into) {
    const JoinedDims *rows = &w->root->rows, *columns = &w->root->columns;
    int64_t down = rows->block / rows->warp, right = columns->block / columns->warp;
    int64_t warps = w->step->warps;
    Dim i = warps_open(w, "warp", warps_const(w, down), LOOP_THREAD, into);
    Dim j = warps_open(w, "warp", warps_const(w, right), LOOP_THREAD, into);
    Dim part = warps_const(w, 0);
    if (warps > 1) part = warps_open(w, "part", warps_const(w, warps), LOOP_THREAD, into);
    Dim g, lane = open_warp(w, &g, into);
    w->row = times(w, i, rows->warp);
    w->column = times(w, j, columns->warp);
    w->group = sum(w, times(w, part, w->step->rows / warps), g);
    Dim warp = sum(w, times(w, sum(w, times(w, i, right), j), warps), part);
    w->number = sum(w, times(w, warp, GROUP * PAIRS), lane);
    w->nthreads = (int)(down * right * warps) * GROUP * PAIRS;
}

/* ---- copies -----------------------------------------------------------------------------------
 */

Access warps_memory(const Warps *w, const Operand *o, Dim side, Dim reduced) {
    Lowering *lo = w->lo;
    const Map *m = w->plan->map;
    Dim value[RANK_MAX * 2], at[RANK_MAX];
    DimSubst subst[RANK_MAX * 2];
    bool row = o->side == &w->root->rows;
    map_dims(w, row ? side : NULL, row ? NULL : side, reduced, value);
    for (int d = 0; d < m->dim.n; d++) subst[d] = (DimSubst){m->dim.at[d].sym, value[d]};
    for (int k = 0; k < o->read->read.rank; k++)
        at[k] = lowering_simplify(lo, dim_subst(lo->ctx, o->read->read.at[k], subst, m->dim.n));
    return lowering_access(lo, o->read->read.cont, at, false);
}

static Dim flat(const Warps *w, const Access *a) {
    return lowering_simplify(w->lo, nest_flat(w->lo->nest, a));
}

/* Are `size` neighbours along l, of which number 0 has an index that is a multiple, all inside the
 * container or none of them? */
static bool inside_together(const Warps *w, const Access *a, Dim l, Dim size) {
    Ctx *ctx = w->lo->ctx;
    const Buf *b = &w->lo->nest->buf.at[a->cont];
    for (int k = 0; k < a->rank; k++) {
        Dim coef, rest;
        if (!dim_uses(a->at[k], l)) continue;
        if (!dim_is(dim_mod(ctx, b->box[k], size), 0) ||
            !dim_affine(ctx, a->at[k], &l, 1, &coef, &rest) || !dim_is(coef, 1) ||
            !dim_is(lowering_simplify(w->lo, dim_mod(ctx, rest, size)), 0))
            return false;
    }
    return true;
}

/* Do `lanes` neighbours lie side by side, on a boundary, and all inside or none? */
static bool copies_row(Warps *w, const Operand *o, int64_t lanes) {
    Lowering *lo = w->lo;
    Ctx *ctx = lo->ctx;
    const JoinedDims *inner = o->along ? &w->plan->reduced : o->side;
    const Map *m = o->along ? w->plan->map : w->root->map;
    int mark = lo->env.n;
    Dim size = warps_const(w, lanes), chunks = warps_const(w, inner->block / lanes), coef, rest;
    if (!dim_is(dim_mod(ctx, warps_total(w, m, inner), size), 0)) return false;
    Dim l = lowering_var(lo, "l", size), c = lowering_var(lo, "c", chunks);
    Dim x = sum(w, times(w, c, lanes), l);
    Dim block = lowering_var(lo, "k", warps_const(w, INT32_MAX));
    Dim k = times(w, block, w->plan->reduced.block);
    Access at = o->along ? warps_memory(w, o, o->first, sum(w, k, x))
                         : warps_memory(w, o, sum(w, o->first, x), k);
    bool good = dim_affine(ctx, flat(w, &at), &l, 1, &coef, &rest) && dim_is(coef, 1) &&
                dim_is(lowering_simplify(lo, dim_mod(ctx, rest, size)), 0) &&
                (!o->read->has_else || inside_together(w, &at, l, size));
    lo->env.n = mark;
    return good;
}

/* Do elements that are neighbours in the reduction, in groups of some, lie side by side? */
static bool lies_along(const Warps *w, const Operand *o) {
    Lowering *lo = w->lo;
    int64_t group = PAD_BYTES / (dtype_bits(o->type) / 8);
    int mark = lo->env.n;
    Dim last = warps_blocks(w, warps_total(w, w->plan->map, &w->plan->reduced), group), coef, rest;
    Dim l = lowering_var(lo, "l", warps_const(w, group)), at = lowering_var(lo, "k", last);
    Access first = warps_memory(w, o, warps_const(w, 0), sum(w, times(w, at, group), l));
    bool along = dim_affine(lo->ctx, flat(w, &first), &l, 1, &coef, &rest) && dim_is(coef, 1);
    lo->env.n = mark;
    return along;
}

/* Rows that steps read along begin 16 bytes apart in the banks, so that eight of them lie in all;
 * of words that they read across a thread has one of each of four rows, eight side by side. */
static int64_t warps_pad(const Operand *o) {
    bool words = dtype_bits(o->type) == 8 * WORD_BYTES;
    return words && !o->along ? GROUP * WORD_BYTES : PAD_BYTES;
}

void warps_operand(Warps *w, Operand *o, Stmts *into) {
    Lowering *lo = w->lo;
    const Cont *c = &lo->flow->cont.at[o->read->read.cont];
    o->type = c->type;
    int64_t bytes = dtype_bits(c->type) / 8, depth = w->plan->reduced.block;
    o->along = lies_along(w, o);
    for (o->lanes = (int)(PAD_BYTES / bytes); o->lanes > 1 && !copies_row(w, o, o->lanes);)
        o->lanes /= 2;
    int64_t outer = o->along ? o->side->block : depth, inner = o->along ? depth : o->side->block;
    int64_t row = SWIZZLED_ROW / bytes, pad = warps_pad(o) / bytes;
    Dim slots = warps_const(w, o->slots), rows = warps_const(w, outer);
    Dim plain[] = {slots, rows, warps_const(w, inner + pad)};
    Dim panels[] = {slots, warps_const(w, inner / row), rows, warps_const(w, row)};
    o->swizzled = warps_behind(w);
    if (o->swizzled && (inner % row || outer % SWIZZLED_ROWS || (w->step->along && !o->along)))
        fail(lo->ctx, E_UNSUPPORTED,
             "kernel \"%s\": \"%s\" reads \"%s\" in rows of %d bytes, eight at a time%s, and its "
             "tile is none of such",
             lo->kernel->name, w->step->name, c->name, SWIZZLED_ROW,
             w->step->along ? ", along what is reduced" : "");
    o->buf = nest_buf(lo->nest, internf(lo->ctx, "%s.%d", c->name, lo->fresh++), BUF_SHARED,
                      c->type, o->swizzled ? panels : plain, o->swizzled ? 4 : 3);
    lo->nest->buf.at[o->buf].swizzled = o->swizzled;
    nest_decl(lo->nest, into, o->buf);
}

Access warps_shared(const Warps *w, const Operand *o, Dim slot, Dim side, Dim reduced) {
    Dim outer = o->along ? side : reduced, inner = o->along ? reduced : side;
    Dim at[4] = {slot, outer, inner};
    int rank = 3, first = o->fragment;
    if (o->swizzled) {
        Dim row = warps_const(w, SWIZZLED_ROW / (dtype_bits(o->type) / 8));
        Dim panel[] = {slot, dim_div(w->lo->ctx, inner, row), outer,
                       dim_mod(w->lo->ctx, inner, row)};
        memcpy(at, panel, sizeof panel);
        rank = 4;
    }
    for (int k = first; k < rank; k++) at[k] = lowering_simplify(w->lo, at[k]);
    Dim *index = arena_copy(w->lo->arena, at, sizeof at);
    return (Access){o->buf, rank - first, index + first};
}

/* Is an element of the container certainly there? */
static bool is_inside(const Warps *w, const Access *a) {
    DimEnv env = lowering_env(w->lo);
    const Buf *b = &w->lo->nest->buf.at[a->cont];
    for (int k = 0; k < a->rank; k++) {
        Dim room = dim_addc(w->lo->ctx, dim_sub(w->lo->ctx, b->box[k], a->at[k]), -1);
        if (!dim_ge0(w->lo->ctx, a->at[k], &env) || !dim_ge0(w->lo->ctx, room, &env)) return false;
    }
    return true;
}

/* Asynchronous copies move whole words. */
static bool copies_words(const Operand *o) {
    return o->lanes * dtype_bits(o->type) >= 8 * WORD_BYTES;
}

static void copy_element(Warps *w, const Operand *o, Dim side, Dim reduced, const Access *to,
                         Stmts *into) {
    Lowering *lo = w->lo;
    DType type = o->read->type;
    Stmt *s = nest_body(lo->nest, into);
    Access from = warps_memory(w, o, side, reduced);
    int val = is_inside(w, &from)
                  ? body_read(&s->code, from, type)
                  : body_read_else(&s->code, from, type, body_bits(&s->code, type, 0));
    bool rounds = w->step->round && warps_behind(w);
    if (rounds) val = body_prim1(&s->code, w->step->round, val);
    s->async = !rounds && copies_words(o);
    s->from = w->plan->map->from;
    vec_push(lo->arena, &s->store, ((Store){*to, val}));
}

/* Of a block of the reduction. */
static int64_t copied_depth(const Warps *w) {
    return w->there ? w->there : w->plan->reduced.block;
}

void warps_clear(Warps *w, const Operand *o, Stmts *into) {
    Lowering *lo = w->lo;
    int64_t depth = copied_depth(w), left = w->plan->reduced.block - depth, side = o->side->block;
    int64_t count = o->slots * side * left, steps = (count + w->nthreads - 1) / w->nthreads;
    if (!left) return;
    int mark = lo->env.n;
    Dim e =
        sum(w, times(w, warps_open(w, "e", warps_const(w, steps), LOOP_SEQ, &into), w->nthreads),
            w->number);
    into = when(w, dim_sub(lo->ctx, warps_const(w, count - 1), e), into);
    Dim row = dim_div(lo->ctx, e, warps_const(w, left)), sides = warps_const(w, side);
    Dim reduced = dim_addc(lo->ctx, dim_mod(lo->ctx, e, warps_const(w, left)), depth);
    Access to =
        warps_shared(w, o, dim_div(lo->ctx, row, sides), dim_mod(lo->ctx, row, sides), reduced);
    Stmt *s = nest_body(lo->nest, into);
    vec_push(lo->arena, &s->store, ((Store){to, body_bits(&s->code, o->type, 0)}));
    s->from = w->plan->map->from;
    lo->env.n = mark;
}

void warps_fragment(Warps *w, Operand *o, Stmts *into) {
    Nest *nest = w->lo->nest;
    const char *name = w->lo->flow->cont.at[o->read->read.cont].name;
    Dim box[] = {warps_const(w, o->side->block), warps_const(w, w->plan->reduced.block)};
    o->along = o->fragment = true;
    o->buf = nest_buf(nest, internf(w->lo->ctx, "%s.%d", name, w->lo->fresh++), BUF_FRAGMENT,
                      o->type, box, 2);
    nest_decl(nest, into, o->buf)->has_init = true;
}

void warps_fetch(Warps *w, const Operand *o, Stmts *into) {
    Lowering *lo = w->lo;
    const WarpStep *step = w->step;
    int mark = lo->env.n;
    Dim parts = warps_const(w, copied_depth(w) / GROUP), two = warps_const(w, 2);
    Dim m = warps_open(w, "m", warps_const(w, o->side->warp / step->rows), LOOP_UNROLL, &into);
    Dim h = warps_open(w, "h", warps_const(w, warps_halves(step)), LOOP_UNROLL, &into);
    Dim row = warps_row(w, m, h);
    Dim side = sum(w, o->first, row);
    into = when(
        w, dim_addc(lo->ctx, dim_sub(lo->ctx, warps_total(w, w->root->map, o->side), side), -1),
        into);
    Dim k = warps_open(w, "k", parts, LOOP_UNROLL, &into);
    Dim l = warps_open(w, "l", two, LOOP_VECTOR, &into);
    Dim reduced = sum(w, times(w, k, GROUP), sum(w, times(w, w->pair, 2), l));
    Stmt *s = nest_body(lo->nest, into);
    int val = body_read(&s->code, warps_memory(w, o, side, reduced), o->type);
    vec_push(lo->arena, &s->store, ((Store){warps_shared(w, o, NULL, row, reduced), val}));
    s->from = w->plan->map->from;
    lo->env.n = mark;
}

/* A block of the reduction to a slot: neighbouring threads take neighbours in memory. */
void warps_copy(Warps *w, const Operand *o, Dim block, Dim slot, Stmts *into) {
    Lowering *lo = w->lo;
    int64_t depth = copied_depth(w), side = o->side->block;
    int64_t chunks = (o->along ? depth : side) / o->lanes,
            count = chunks * (o->along ? side : depth);
    int64_t steps = (count + w->nthreads - 1) / w->nthreads;
    int mark = lo->env.n;
    Dim e = w->number;
    if (steps > 1) {
        Dim var = lowering_var(lo, "e", warps_const(w, steps));
        LoopMark how = steps <= UNROLL_MOST ? LOOP_UNROLL : LOOP_SEQ;
        into = &nest_for(lo->nest, into, var, warps_const(w, steps), how)->body;
        e = sum(w, times(w, var, w->nthreads), e);
    }
    if (steps * w->nthreads > count) {
        Stmt *some = nest_if(lo->nest, into);
        vec_push(lo->arena, &some->guard, dim_sub(lo->ctx, warps_const(w, count - 1), e));
        into = &some->body;
    }
    Dim outer = lowering_simplify(lo, dim_div(lo->ctx, e, warps_const(w, chunks)));
    Dim inner =
        times(w, lowering_simplify(lo, dim_mod(lo->ctx, e, warps_const(w, chunks))), o->lanes);
    if (o->lanes > 1 || copies_words(o)) {
        Dim lanes = warps_const(w, o->lanes), l = lowering_var(lo, "l", lanes);
        into = &nest_for(lo->nest, into, l, lanes, LOOP_VECTOR)->body;
        if (o->lanes > 1) inner = sum(w, inner, l);
    }
    Dim own = o->along ? outer : inner, reduced = o->along ? inner : outer;
    Access to = warps_shared(w, o, slot, own, reduced);
    copy_element(w, o, sum(w, o->first, own),
                 sum(w, times(w, block, w->plan->reduced.block), reduced), &to, into);
    lo->env.n = mark;
}

void warps_fill(Warps *w, const Operand *o, Dim block, Dim slot, Stmts *into) {
    if (warps_box(w, o)) {
        Stmt *box = nest_stmt(w->lo->nest, into, STMT_USE);
        box->use = COPY_BOX;
        box->from = w->plan->map->from;
        into = &box->body;
    }
    warps_copy(w, o, block, slot, into);
}

static void copy_both(void *user, Dim block, Dim slot, Stmts *into) {
    Warps *w = user;
    warps_fill(w, &w->a, block, slot, into);
    warps_fill(w, &w->b, block, slot, into);
}

/* ---- steps ------------------------------------------------------------------------------------
 */

/* As the step takes it. */
static int factor_of(const Warps *w, const Operand *o, Body *b, Dim side, Dim reduced) {
    int read = body_read(b, warps_shared(w, o, o->slot, side, reduced), o->type);
    bool rounds = w->step->round && !warps_behind(w);
    int value = rounds ? body_prim1(b, w->step->round, read) : read;
    return body_cvt(b, w->step->c, value);
}

bool warps_behind(const Warps *w) {
    return w->step->warps > 1;
}

static Dim open_columns(const Warps *w, Stmts **into) {
    Dim count = warps_const(w, w->root->columns.warp / w->step->columns);
    return warps_open(w, "n", count, LOOP_UNROLL, into);
}

/* The loops that a step stands for, at tile (m, n) of the warp and part k of the block. What takes
 * all columns at once opens the loop over n itself. */
static void one_step(Warps *w, Dim k, Dim m, Dim n, Stmts *into) {
    Lowering *lo = w->lo;
    const WarpStep *step = w->step;
    if (step->name) {
        Stmt *use = nest_stmt(lo->nest, into, STMT_USE);
        use->use = step->name;
        use->from = w->plan->map->from;
        into = &use->body;
    }
    int mark = lo->env.n;
    Dim q = warps_open(w, "q", warps_const(w, step->depth), LOOP_UNROLL, &into);
    if (!n) n = open_columns(w, &into);
    Dim h = warps_open(w, "h", warps_const(w, warps_halves(step)), LOOP_UNROLL, &into);
    Dim l = warps_open(w, "l", warps_const(w, step->columns / PAIRS), LOOP_VECTOR, &into);
    Dim row = warps_row(w, m, h);
    Dim column = sum(w, sum(w, w->column, times(w, n, step->columns)),
                     sum(w, times(w, w->pair, step->columns / PAIRS), l));
    Dim reduced = sum(w, times(w, k, step->depth), q);
    Dim acc[] = {step->coarse ? warps_const(w, 0) : m, n, h, l};
    Access to = {w->acc, 4, arena_copy(lo->arena, acc, sizeof acc)};
    Stmt *s = nest_body(lo->nest, into);
    Body *b = &s->code;
    int x = factor_of(w, &w->a, b, row, reduced), y = factor_of(w, &w->b, b, column, reduced);
    int z = body_prim3(b, P_FMA, x, y, body_read(b, to, step->c));
    vec_push(lo->arena, &s->store, ((Store){to, z}));
    s->from = w->plan->map->from;
    lo->env.n = mark;
}

void warps_steps(Warps *w, Dim m, Stmts *into) {
    const WarpStep *step = w->step;
    bool behind = warps_behind(w);
    int mark = w->lo->env.n;
    if (behind) into = &nest_stmt(w->lo->nest, into, STMT_STEPS)->body;
    Dim parts = warps_const(w, w->plan->reduced.block / step->depth);
    Dim k = warps_open(w, "part", parts, step->name ? LOOP_UNROLL : LOOP_SEQ, &into);
    Dim count = warps_const(w, w->root->rows.warp / step->rows);
    if (!m) m = warps_open(w, "m", count, LOOP_UNROLL, &into);
    Dim n = behind ? NULL : open_columns(w, &into);
    one_step(w, k, m, n, into);
    w->lo->env.n = mark;
}

/* Asks for the block `ahead` of this one, when there is one. */
static void copy_ahead(Warps *w, const Pipeline *p, Dim block, Dim slots, Stmts *into) {
    Lowering *lo = w->lo;
    DimRange *range = &lo->env.at[lo->env.n - 1];
    Dim next = dim_addc(lo->ctx, block, p->ahead), last = range->hi;
    Dim more = dim_sub(lo->ctx, dim_addc(lo->ctx, p->count, -1), next);
    if (!never(lo, more)) {
        Stmts *some = when(w, more, into);
        range->hi = dim_addc(lo->ctx, last, -p->ahead);
        p->copy(p->user, next, dim_mod(lo->ctx, next, slots), some);
        lo->env.at[lo->env.n - 1].hi = last;
    }
    nest_stmt(lo->nest, into, STMT_COMMIT);
}

void warps_wait(const Warps *w, int left, Stmts *into) {
    Stmt *s = nest_stmt(w->lo->nest, into, STMT_WAIT);
    s->steps = true;
    s->left = left;
}

void warps_pipeline(Warps *w, const Pipeline *p, Stmts *into) {
    Lowering *lo = w->lo;
    bool behind = warps_behind(w) && !p->waits;
    int mark = lo->env.n;
    Dim slots = warps_const(w, p->ahead + 1 + behind);
    for (int i = 0; i < p->ahead && !p->begun; i++) {
        Dim left = dim_addc(lo->ctx, p->count, -1 - i), at = warps_const(w, i);
        if (!never(lo, left)) p->copy(p->user, at, at, when(w, left, into));
        nest_stmt(lo->nest, into, STMT_COMMIT);
    }
    Dim block = lowering_var(lo, "block", p->count);
    Stmts *each = &nest_for(lo->nest, into, block, p->count, LOOP_SEQ)->body;
    nest_stmt(lo->nest, each, STMT_WAIT)->left = p->ahead - 1;
    nest_stmt(lo->nest, each, STMT_SYNC);
    if (!behind) copy_ahead(w, p, block, slots, each);
    p->use(p->user, block, dim_mod(lo->ctx, block, slots), each);
    if (behind) {
        copy_ahead(w, p, block, slots, each);
        warps_wait(w, 1, each);
    }
    lo->env.n = mark;
}

static void use_both(void *user, Dim block, Dim slot, Stmts *into) {
    Warps *w = user;
    (void)block;
    w->a.slot = w->b.slot = slot;
    if (w->step->plain)
        warps_multiply(w, into);
    else if (w->step->coarse)
        warps_coarse_steps(w, into);
    else
        warps_steps(w, NULL, into);
}

Dim warps_blocks(const Warps *w, Dim all, int64_t block) {
    return lowering_simplify(w->lo, dim_ceildiv(w->lo->ctx, all, warps_const(w, block)));
}

void warps_begin(Warps *w, int block, Stmts *into) {
    copy_both(w, warps_const(w, block), warps_const(w, block), into);
}

static void reduce_blocks(Warps *w, Stmts *into) {
    Dim all = warps_total(w, w->plan->map, &w->plan->reduced);
    Pipeline p = {.ahead = w->plan->ahead,
                  .waits = w->step->coarse,
                  .begun = w->rounds > 1,
                  .copy = copy_both,
                  .use = use_both,
                  .user = w};
    p.count = warps_blocks(w, all, w->plan->reduced.block);
    warps_pipeline(w, &p, into);
}

/* ---- the kernel -------------------------------------------------------------------------------
 */

static bool uses_side(const Warps *w, const Val *read, const JoinedDims *j) {
    for (int k = 0; k < read->read.rank; k++)
        for (int i = 0; i < j->n; i++) {
            int d = warps_own(w, j->dim[i]);
            if (d >= 0 && dim_uses(read->read.at[k], w->plan->map->dim.at[d].sym)) return true;
        }
    return false;
}

static void find_operands(Warps *w) {
    const Map *m = w->plan->map;
    w->a.side = &w->root->rows;
    w->b.side = &w->root->columns;
    for (int v = 0; v < m->body.val.n; v++) {
        const Val *val = &m->body.val.at[v];
        if (val->kind == VAL_READ)
            *(uses_side(w, val, &w->root->columns) ? &w->b.read : &w->a.read) = val;
    }
}

const WarpStep *warps_step(const Lowering *lo, const char *name) {
    for (int i = 0; name && i < lo->machine->nstep; i++)
        if (strcmp(lo->machine->step[i]->name, name) == 0) return lo->machine->step[i];
    fail(lo->ctx, E_UNSUPPORTED, "kernel \"%s\" uses \"%s\", which %s does not have",
         lo->kernel->name, name ? name : "", lo->machine->name);
}

static void check_sizes(const Warps *w) {
    const JoinedDims *r = &w->root->rows, *c = &w->root->columns, *k = &w->plan->reduced;
    const WarpStep *s = w->step;
    bool sized = r->warp > 0 && c->warp > 0 && k->block > 0 && w->plan->ahead > 0 &&
                 r->block % r->warp == 0 && c->block % c->warp == 0 && r->warp % s->rows == 0 &&
                 c->warp % s->columns == 0 && k->block % s->depth == 0 &&
                 (s->warps == 1 || c->warp <= s->widest) && !r->round == !c->round &&
                 r->round % r->block == 0 && c->round % c->block == 0;
    if (!sized || !w->a.read || !w->b.read)
        fail(
            w->lo->ctx, E_UNSUPPORTED,
            "kernel \"%s\" has no rows, columns and depth that \"%s\" divides, of a block and of a "
            "warp, with operands staged ahead",
            w->lo->kernel->name, s->name);
}

void lower_warps(Lowering *lo) {
    Warps w = {.lo = lo, .plan = lo->steps, .root = &lo->plan[lo->nplan - 1]};
    Stmts *into = &lo->nest->body;
    w.step = warps_step(lo, w.plan->use);
    find_operands(&w);
    check_sizes(&w);
    warps_grid(&w, &into);
    w.a.slots = w.b.slots = w.plan->ahead + 1 + (warps_behind(&w) && !w.step->coarse);
    warps_operand(&w, &w.a, into);
    warps_operand(&w, &w.b, into);
    if (w.step->plain) warps_widen(&w);
    warps_threads(&w, &into);
    warps_stay(&w, &into);
    warps_sums(&w, into);
    reduce_blocks(&w, into);
    warps_store(&w, into);
}
