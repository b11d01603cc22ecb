/* SPDX-License-Identifier: Apache-2.0 */
/* One map on one box: its own tiles, its loops, its lanes, its bodies.
 *
 * A map without a combine is loops over its dims, the `vector` dim innermost in chunks of lanes
 * (the rest of the dim as one masked chunk), and the body; nests_reduce.c has the others. Reads
 * outside the logical box take their `else` value: nests_read.c. */
#include "passes/access.h"
#include "passes/nests_leaf.h"

static Dim zero(const Lowering *lo) {
    return dim_const(lo->ctx, 0);
}

bool lanes_in_row(const Leaf *f) {
    return f->plan->lane_dim >= 0 && (!f->plan->spread || f->plan->lanes > 1);
}

/* ---- loops over one dim --------------------------------------------------------------------- */

/* Groups of threads take neighbouring indices; there are as many for each, so that all come to the
 * folds inside. */
static Stmts *open_among(Leaf *f, int d, Stmts *into) {
    Lowering *lo = f->lo;
    bool whole = f->plan->written_out && f->span[d].cap >= 0;
    Dim groups = dim_const(lo->ctx, f->plan->groups), all = f->span[d].extent;
    if (whole) all = dim_const(lo->ctx, f->span[d].cap);
    Dim count = lowering_simplify(lo, dim_ceildiv(lo->ctx, all, groups));
    f->value[d] = dim_add(lo->ctx, f->span[d].start, lo->group);
    if (dim_is(count, 1)) return into;
    Dim var = lowering_var(lo, dim_sym_name(f->map->dim.at[d].sym), count);
    f->value[d] = dim_add(lo->ctx, f->value[d], dim_mul(lo->ctx, var, groups));
    return &nest_for(lo->nest, into, var, count, whole ? LOOP_UNROLL : LOOP_SEQ)->body;
}

/* As many as a part has at most, written out; behind the part's end there is nothing. */
static Stmts *open_part(Leaf *f, int d, Stmts *into) {
    Lowering *lo = f->lo;
    Dim count = dim_const(lo->ctx, f->span[d].cap);
    Dim var = lowering_var(lo, dim_sym_name(f->map->dim.at[d].sym), count);
    f->value[d] = dim_add(lo->ctx, f->span[d].start, var);
    into = &nest_for(lo->nest, into, var, count, LOOP_UNROLL)->body;
    Dim left = dim_addc(lo->ctx, dim_sub(lo->ctx, f->span[d].extent, var), -1);
    DimEnv env = lowering_env(lo);
    if (dim_ge0(lo->ctx, left, &env)) return into;
    Stmt *some = nest_if(lo->nest, into);
    vec_push(lo->arena, &some->guard, left);
    return &some->body;
}

Stmts *open_dim(Leaf *f, int d, Stmts *into) {
    Lowering *lo = f->lo;
    if (dim_is(f->span[d].extent, 1)) {
        f->value[d] = f->span[d].start;
        return into;
    }
    if (f->plan->groups && d == f->plan->among && !f->plan->parts) return open_among(f, d, into);
    if (f->plan->written_out && d == f->plan->split && f->span[d].cap > 1)
        return open_part(f, d, into);
    LoopMark mark =
        f->plan->unroll[d] && dim_is_const(f->span[d].extent, NULL) ? LOOP_UNROLL : LOOP_SEQ;
    Dim var = lowering_var(lo, dim_sym_name(f->map->dim.at[d].sym), f->span[d].extent);
    f->value[d] = dim_add(lo->ctx, f->span[d].start, var);
    return &nest_for(lo->nest, into, var, f->span[d].extent, mark)->body;
}

static void lane_chunk(Leaf *f, Dim offset, Dim rest, Stmts *into, LaneFn *fn) {
    Lowering *lo = f->lo;
    int d = f->plan->lane_dim;
    bool row = lanes_in_row(f);
    Lane lane = {NULL, f->plan->lanes, NULL, row};
    lane.var = row ? lowering_var(lo, "l", dim_const(lo->ctx, lane.width)) : lo->thread;
    if (rest) lane.guard = dim_sub(lo->ctx, dim_addc(lo->ctx, rest, -1), lane.var);
    f->value[d] = dim_add(lo->ctx, dim_add(lo->ctx, f->span[d].start, offset), lane.var);
    fn(f, &lane, into);
    if (row) lowering_pop(lo);
}

/* A chunk of all threads, each its lanes; of the last one (`rest`) there may be less. */
static void thread_chunk(Leaf *f, Dim offset, Dim rest, Stmts *into, LaneFn *fn) {
    Lowering *lo = f->lo;
    if (!lanes_in_row(f)) {
        lane_chunk(f, offset, rest, into, fn);
        return;
    }
    Dim width = dim_const(lo->ctx, f->plan->lanes), own = dim_mul(lo->ctx, lo->thread, width);
    offset = dim_add(lo->ctx, offset, own);
    if (rest && dim_is(lowering_simplify(lo, dim_mod(lo->ctx, rest, width)), 0)) {
        Stmt *some = nest_if(lo->nest, into);
        vec_push(lo->arena, &some->guard, dim_sub(lo->ctx, dim_addc(lo->ctx, rest, -1), own));
        into = &some->body;
        rest = NULL;
    }
    lane_chunk(f, offset, rest ? dim_sub(lo->ctx, rest, own) : NULL, into, fn);
}

/* Threads take neighbouring elements, chunk after chunk: where these are not unrolled, one loop,
 * whose last chunk is behind a guard. */
static void thread_chunks(Leaf *f, Stmts *into, LaneFn *fn) {
    Lowering *lo = f->lo;
    int d = f->plan->lane_dim, mark = lo->env.n;
    const Span *span = &f->span[d];
    int64_t w = (int64_t)f->plan->spread * f->plan->lanes;
    Dim width = dim_const(lo->ctx, w), offset = zero(lo);
    Dim full = lowering_simplify(lo, dim_div(lo->ctx, span->extent, width));
    Dim rest = lowering_simplify(lo, dim_mod(lo->ctx, span->extent, width));
    bool even = dim_is(rest, 0), unroll = f->plan->unroll[d] && dim_is_const(full, NULL);
    Dim chunks = unroll ? full : lowering_simplify(lo, dim_ceildiv(lo->ctx, span->extent, width));
    Stmts *inside = into;
    if (!dim_is(chunks, 1) && !dim_is(chunks, 0) && !(span->cap >= 0 && span->cap <= w)) {
        Dim var = lowering_var(lo, dim_sym_name(f->map->dim.at[d].sym), chunks);
        LoopMark how = unroll ? LOOP_UNROLL : LOOP_SEQ;
        inside = &nest_for(lo->nest, into, var, chunks, how)->body;
        offset = dim_mulc(lo->ctx, var, w);
    }
    bool whole = even || unroll;
    if (!dim_is(chunks, 0))
        thread_chunk(f, offset, whole ? NULL : dim_sub(lo->ctx, span->extent, offset), inside, fn);
    lo->env.n = mark;
    if (!unroll || even) return;
    thread_chunk(f, dim_mulc(lo->ctx, full, w), rest, into, fn);
}

/* As many chunks as there may be at most, unrolled, as registers want it; each ends where the dim
 * does. */
static void capped_chunks(Leaf *f, Stmts *into, LaneFn *fn) {
    Lowering *lo = f->lo;
    const Span *span = &f->span[f->plan->lane_dim];
    int64_t w = f->plan->lanes, chunks = (span->cap + w - 1) / w;
    int mark = lo->env.n;
    Dim offset = zero(lo);
    if (chunks > 1) {
        Dim count = dim_const(lo->ctx, chunks);
        Dim var = lowering_var(lo, dim_sym_name(f->map->dim.at[f->plan->lane_dim].sym), count);
        into = &nest_for(lo->nest, into, var, count, LOOP_UNROLL)->body;
        offset = dim_mulc(lo->ctx, var, w);
    }
    lane_chunk(f, offset, dim_sub(lo->ctx, span->extent, offset), into, fn);
    lo->env.n = mark;
}

/* Runs fn for every chunk of lanes of the lane dim's span. */
void lane_chunks(Leaf *f, Stmts *into, LaneFn *fn) {
    Lowering *lo = f->lo;
    int d = f->plan->lane_dim;
    if (d < 0) {
        fn(f, &(Lane){NULL, 1, NULL, false}, into);
        return;
    }
    if (f->plan->spread) {
        thread_chunks(f, into, fn);
        return;
    }
    int64_t w = f->plan->lanes, extent;
    Dim width = dim_const(lo->ctx, w);
    Dim full = lowering_simplify(lo, dim_div(lo->ctx, f->span[d].extent, width));
    Dim rest = lowering_simplify(lo, dim_mod(lo->ctx, f->span[d].extent, width));
    bool known = dim_is_const(f->span[d].extent, &extent);
    bool bounded = !known && f->span[d].cap >= 0;
    if (bounded && (f->span[d].cap <= w || f->plan->unroll[d])) {
        capped_chunks(f, into, fn);
        return;
    }
    if (dim_is(full, 1)) {
        lane_chunk(f, zero(lo), NULL, into, fn);
    } else if (!dim_is(full, 0)) {
        Dim var = lowering_var(lo, dim_sym_name(f->map->dim.at[d].sym), full);
        LoopMark mark = f->plan->unroll[d] && known ? LOOP_UNROLL : LOOP_SEQ;
        Stmt *loop = nest_for(lo->nest, into, var, full, mark);
        lane_chunk(f, dim_mulc(lo->ctx, var, w), NULL, &loop->body, fn);
        lowering_pop(lo);
    }
    if (!dim_is(rest, 0)) lane_chunk(f, dim_mulc(lo->ctx, full, w), rest, into, fn);
}

/* ---- bodies --------------------------------------------------------------------------------- */

Stmts *lane_loop(Leaf *f, const Lane *lane, Stmts *into) {
    if (!lane->var) return into;
    Lowering *lo = f->lo;
    if (!lane->row) {
        if (!lane->guard) return into;
        Stmt *some = nest_if(lo->nest, into);
        vec_push(lo->arena, &some->guard, lane->guard);
        return &some->body;
    }
    Stmt *s = nest_for(lo->nest, into, lane->var, dim_const(lo->ctx, lane->width), LOOP_VECTOR);
    if (lane->guard) vec_push(lo->arena, &s->guard, lane->guard);
    return &s->body;
}

int dim_substs(const Leaf *f, DimSubst *subst) {
    for (int i = 0; i < f->map->dim.n; i++)
        subst[i] = (DimSubst){f->map->dim.at[i].sym, f->value[i]};
    return f->map->dim.n;
}

typedef struct Inline {
    Leaf *f;
    const Lane *lane;
} Inline;

static int inline_read(void *user, Body *b, const Val *read) {
    Inline *in = user;
    Leaf *f = in->f;
    Lowering *lo = f->lo;
    const Access *one = lo->local[read->read.cont].one;
    if (one) return body_cvt(b, read->type, body_read(b, *one, lo->nest->buf.at[one->cont].type));
    int buf = lo->local[read->read.cont].staged ? -1 : guarded_buf(f, &read->read);
    if (buf >= 0) {
        Access at = {buf, in->lane->row ? 1 : 0, &in->lane->var};
        at.at = arena_copy(lo->arena, at.at, sizeof(Dim));
        return body_read(b, at, read->type);
    }
    if (read->has_else && !lo->local[read->read.cont].staged) {
        Dim cond[RANK_MAX * 2];
        int n = read_conditions(f, &read->read, cond);
        if (n) return select_read(f, b, read, cond, n);
    }
    Dim at[RANK_MAX];
    for (int k = 0; k < read->read.rank; k++) at[k] = lowering_simplify(lo, read->read.at[k]);
    return body_read(b, lowering_access(lo, read->read.cont, at, false), read->type);
}

void inline_body(Leaf *f, const Lane *lane, Body *b, int *map) {
    DimSubst subst[RANK_MAX * 2];
    int n = dim_substs(f, subst);
    Inline in = {f, lane};
    body_inline(b, &f->map->body, subst, n, NULL, inline_read, &in, map);
}

void body_store(Leaf *f, Stmt *s, Access to, int val) {
    vec_push(f->lo->arena, &s->store, (Store){to, val});
}

void finish_body(Leaf *f, Stmt *s) {
    int *roots = NEW_ARRAY(f->lo->arena, int, s->store.n);
    for (int i = 0; i < s->store.n; i++) roots[i] = s->store.at[i].val;
    body_prune(&s->code, roots, s->store.n);
    for (int i = 0; i < s->store.n; i++) s->store.at[i].val = roots[i];
    s->from = f->map->from;
}

typedef struct Guards {
    Lowering *lo;
    Lane *lane;
    Stmts *into;
    Stmt *some; /* the `if`, once there is one */
} Guards;

/* Of c >= 0 the same for the first lane, where it holds for all lanes or for none: what is left
 * for them falls into whole vectors. Else c. */
static Dim for_all_lanes(const Guards *g, Dim c) {
    Ctx *ctx = g->lo->ctx;
    Dim coef, first;
    if (!dim_affine(ctx, c, &g->lane->var, 1, &coef, &first) || !dim_is(coef, -1)) return c;
    Dim width = dim_const(ctx, g->lane->width);
    bool whole = dim_is(lowering_simplify(g->lo, dim_mod(ctx, dim_addc(ctx, first, 1), width)), 0);
    return whole ? first : c;
}

/* c >= 0, unless it always is; where it uses the lane it joins the lane's guard. */
static void add_guard(Guards *g, Dim c) {
    Ctx *ctx = g->lo->ctx;
    DimEnv env = lowering_env(g->lo);
    if (dim_ge0(ctx, c, &env)) return;
    if (g->lane->var && g->lane->width > 1) c = for_all_lanes(g, c);
    if (g->lane->var && dim_uses(c, g->lane->var)) {
        g->lane->guard = g->lane->guard ? dim_min(ctx, g->lane->guard, c) : c;
        return;
    }
    if (!g->some) g->some = nest_if(g->lo->nest, g->into);
    vec_push(g->lo->arena, &g->some->guard, c);
}

static bool uses_reduced(const Map *m, Dim cons) {
    for (int d = 0; d < m->dim.n; d++)
        if (map_reduces(m, d) && dim_uses(cons, m->dim.at[d].sym)) return true;
    return false;
}

/* Does cons >= 0 cut off an eighth of the map's domain at most? */
static bool cuts_little(const Leaf *f, Dim cons) {
    Ctx *ctx = f->lo->ctx;
    DimEnv env = map_env(f->lo->arena, f->lo->flow, f->map);
    Dim least = dim_lower(ctx, cons, &env), most = dim_upper(ctx, cons, &env);
    int64_t lo, hi;
    return least && most && dim_is_const(least, &lo) && dim_is_const(most, &hi) &&
           -8 * lo <= hi - lo;
}

/* Opens what guards a body: the map's constraints, and of the root the ends of dims that blocks
 * hang over. `outputs` leaves out constraints that use reduced dims. */
Stmts *open_guards(Leaf *f, Lane *lane, bool outputs, Stmts *into) {
    Lowering *lo = f->lo;
    DimSubst subst[RANK_MAX * 2];
    int n = dim_substs(f, subst);
    Guards g = {lo, lane, into, NULL};
    for (int i = 0; i < f->map->cons.n; i++) {
        Dim cons = f->map->cons.at[i];
        bool reduced = uses_reduced(f->map, cons);
        if (outputs ? reduced : f->idle && !reduced && cuts_little(f, cons)) continue;
        add_guard(&g, dim_subst(lo->ctx, cons, subst, n));
    }
    bool stores = f->plan == &lo->plan[lo->nplan - 1] && (outputs || !f->write);
    for (int d = 0; stores && d < f->map->dim.n; d++) {
        Dim last = dim_addc(lo->ctx, f->map->dim.at[d].extent, -1);
        if (lo->over[d]) add_guard(&g, dim_sub(lo->ctx, last, f->value[d]));
    }
    return g.some ? &g.some->body : into;
}

Stmt *open_body(Leaf *f, Lane *lane, Stmts *into) {
    into = open_guards(f, lane, false, into);
    guard_reads(f, lane, into);
    return nest_body(f->lo->nest, lane_loop(f, lane, into));
}

Access storage_access(Leaf *f, const Access *to, bool store) {
    Lowering *lo = f->lo;
    DimSubst subst[RANK_MAX * 2];
    int n = dim_substs(f, subst);
    Dim at[RANK_MAX];
    for (int k = 0; k < to->rank; k++)
        at[k] = lowering_simplify(lo, dim_subst(lo->ctx, to->at[k], subst, n));
    return lowering_access(lo, to->cont, at, store);
}

Access target_access(Leaf *f, const Access *to) {
    return storage_access(f, to, true);
}

/* Is index k inside of its container, whatever the loops around say? */
static bool index_inside(const Lowering *lo, const Access *at, int k) {
    DimEnv env = lowering_env(lo);
    Dim last = dim_addc(lo->ctx, lo->nest->buf.at[at->cont].box[k], -1);
    return dim_ge0(lo->ctx, at->at[k], &env) &&
           dim_ge0(lo->ctx, dim_sub(lo->ctx, last, at->at[k]), &env);
}

bool reads_inside(Leaf *f, const Val *val, Access *at) {
    if (val->has_else || access_by_value(f->map, &val->read)) return false;
    *at = storage_access(f, &val->read, false);
    for (int k = 0; k < at->rank; k++)
        if (!index_inside(f->lo, at, k)) return false;
    return true;
}

bool reads_whole(Leaf *f, const Val *val, const Lane *lane) {
    if (val->has_else || access_by_value(f->map, &val->read)) return false;
    Access at = storage_access(f, &val->read, false);
    const Buf *buf = &f->lo->nest->buf.at[at.cont];
    bool harmless = buf->kind == BUF_REG;
    if (buf->kind == BUF_MEMORY) {
        const Cont *from = &f->lo->flow->cont.at[val->read.cont];
        harmless = type_is_integral(from->type) || (from->layout && from->layout->has_fill);
    }
    for (int k = 0; k < at.rank; k++)
        if (dim_uses(at.at[k], lane->var) && !(harmless && index_inside(f->lo, &at, k)))
            return false;
    return true;
}

/* ---- maps without a combine ----------------------------------------------------------------- */

static void plain_once(Leaf *f, const Lane *lane, Stmts *into) {
    Lane mine = *lane;
    Stmt *s = open_body(f, &mine, into);
    int *map = NEW_ARRAY(f->lo->arena, int, f->map->body.val.n);
    inline_body(f, &mine, &s->code, map);
    for (int w = 0; w < f->map->write.n; w++) {
        const Access *to = &f->map->write.at[w].to[0];
        DType type = f->lo->flow->cont.at[to->cont].type;
        int val = body_cvt(&s->code, type, map[f->map->write.at[w].val[0]]);
        body_store(f, s, target_access(f, to), val);
    }
    finish_body(f, s);
}

void plain_body(Leaf *f, const Lane *lane, Stmts *into) {
    for_sizes(f, lane, plain_once, into);
}

static void plain_map(Leaf *f, Stmts *into) {
    int mark = f->lo->env.n;
    if (f->plan->stage.n) stage_reads(f, into);
    for (int d = 0; d < f->map->dim.n; d++)
        if (d != f->plan->lane_dim) into = open_dim(f, d, into);
    bool own = f->lo->keep[f->map->write.at[0].to[0].cont] == KEEP_REG;
    if (!f->plan->spread && !own) into = one_thread(f->lo, into);
    lane_chunks(f, into, plain_body);
    unstage_reads(f);
    f->lo->env.n = mark;
}

/* ---- factors of whole blocks ---------------------------------------------------------------- */

/* Is Val v of the map's body a factor that multiplies the sums of blocks? */
static bool of_block(const Leaf *f, int v) {
    return val_fixed(f->map, v, f->plan->partial);
}

bool leaf_factored(const Leaf *f) {
    return f->plan->factored && !of_block(f, f->write->val[0]);
}

int leaf_product(Leaf *f, Body *b, const int *map, int v, bool whole) {
    const Val *val = &f->map->body.val.at[v];
    if (of_block(f, v)) return whole ? map[v] : -1;
    if (val->kind != VAL_PRIM || val->prim != P_MUL || val->type != f->write->combine->type[0])
        return whole ? -1 : map[v];
    int x = leaf_product(f, b, map, val->arg[0], whole),
        y = leaf_product(f, b, map, val->arg[1], whole);
    return x < 0 ? y : y < 0 ? x : body_prim2(b, P_MUL, x, y);
}

/* ---- own tiles ------------------------------------------------------------------------------ */

typedef struct OwnTile {
    int pos, level;
    const Span *box, *span;
} OwnTile;

static void own_tiles(Lowering *lo, const OwnTile *t, Stmts *into);

static void own_tile(Lowering *lo, void *user, Span tile, Stmts *into) {
    const OwnTile *t = user;
    const MapPlan *plan = &lo->plan[t->pos];
    Span span[RANK_MAX * 2];
    for (int i = 0; i < plan->map->dim.n; i++) span[i] = t->span[i];
    span[plan->tile.at[t->level].dim] = tile;
    OwnTile inside = {t->pos, t->level + 1, t->box, span};
    own_tiles(lo, &inside, into);
}

static void own_tiles(Lowering *lo, const OwnTile *t, Stmts *into) {
    const MapPlan *plan = &lo->plan[t->pos];
    if (t->pos == lo->nplan - 1 || t->level == plan->tile.n) {
        Leaf f = {.plan = plan, .map = plan->map, .lo = lo, .box = t->box};
        for (int i = 0; i < plan->map->dim.n; i++) f.span[i] = t->span[i];
        if (plan->map->write.at[0].combine)
            reduce_map(&f, into);
        else
            plain_map(&f, into);
        return;
    }
    const TileLoop *loop = &plan->tile.at[t->level];
    Tiling how = {.name = dim_sym_name(plan->map->dim.at[loop->dim].sym), .size = loop->size};
    how.lanes = loop->dim == plan->lane_dim ? plan->lanes : 1;
    how.tail = how.lanes == 1 && plan->unroll[loop->dim] ? TAIL_NEAR : TAIL_ANY;
    for_tiles(lo, into, &how, t->span[loop->dim], own_tile, (void *)t);
}

/* Threads in groups are numbered in these while the map runs. */
static void open_groups(Lowering *lo, const MapPlan *plan) {
    Dim thread = lo->thread, size = dim_const(lo->ctx, plan->spread);
    if (!plan->groups) return;
    lo->group = dim_div(lo->ctx, thread, size);
    lo->thread = dim_mod(lo->ctx, thread, size);
    if (plan->parts) lo->part = lo->group, lo->parts = plan->parts;
    lo->number = lo->thread;
    lo->ncopying = plan->spread;
    if (plan->among < 0) lo->alike = thread;
}

static void close_groups(Lowering *lo, const MapPlan *plan, Dim thread) {
    lo->thread = thread;
    if (plan->groups) lo->group = lo->part = lo->alike = NULL, lo->parts = 0;
}

void leaf_map(Lowering *lo, int pos, const Span *span, Stmts *into) {
    Dim thread = lo->thread;
    open_groups(lo, &lo->plan[pos]);
    own_tiles(lo, &(OwnTile){pos, 0, span, span}, into);
    close_groups(lo, &lo->plan[pos], thread);
}

/* ---- loads before all else ---------------------------------------------------------------------
 */

static void load_lanes(Leaf *f, const Lane *lane, Stmts *into) {
    for (int v = 0; v < f->map->body.val.n; v++) {
        const Val *val = &f->map->body.val.at[v];
        bool first = false;
        for (int i = 0; val->kind == VAL_READ && i < f->plan->first.n; i++)
            first |= f->plan->first.at[i] == val->read.cont;
        if (!first || (lane->row && lane->guard)) continue;
        Lane mine = *lane;
        Stmt *s = nest_stmt(f->lo->nest, lane_loop(f, &mine, into), STMT_PREFETCH);
        s->at = storage_access(f, &val->read, false);
        s->from = f->map->from;
    }
}

void leaf_loads(Lowering *lo, int pos, const Span *span, Stmts *into) {
    const MapPlan *plan = &lo->plan[pos];
    Dim thread = lo->thread;
    int mark = lo->env.n;
    Leaf f = {.plan = plan, .map = plan->map, .lo = lo, .box = span};
    for (int d = 0; d < plan->map->dim.n; d++) f.span[d] = span[d];
    open_groups(lo, plan);
    for (int d = 0; d < plan->map->dim.n; d++)
        if (d != plan->lane_dim) into = open_dim(&f, d, into);
    lane_chunks(&f, into, load_lanes);
    close_groups(lo, plan, thread);
    lo->env.n = mark;
}
