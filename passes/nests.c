/* SPDX-License-Identifier: Apache-2.0 */
/* Pass `nests`: every kernel's lines become loops over storage. It chooses nothing: each number in
 * a nest stands in a line of its kernel.
 *
 * The root's tile lines give a list of loops. At depth k (inside k of them) run the producers whose
 * `at` says so, each on the box that its consumers will read while the deeper loops run; after the
 * last loop runs the root. A container that is kept inside becomes a buffer declared at its
 * producer's depth, indexed relative to the box's first element. nests_plan.c reads the lines and
 * finds boxes; nests_leaf.c turns one map on one box into loops, lanes and bodies. */
#include "passes/nests_warps.h"

DimEnv lowering_env(const Lowering *lo) {
    return (DimEnv){lo->env.at, lo->env.n};
}

Dim lowering_simplify(const Lowering *lo, Dim d) {
    DimEnv env = lowering_env(lo);
    return dim_simplify(lo->ctx, d, &env);
}

Dim lowering_var(Lowering *lo, const char *base, Dim extent) {
    Dim var = dim_sym(lo->ctx, internf(lo->ctx, "%s_%d", base, lo->fresh++));
    DimRange range = {var, dim_const(lo->ctx, 0), dim_addc(lo->ctx, extent, -1)};
    vec_push(lo->arena, &lo->env, range);
    return var;
}

void lowering_pop(Lowering *lo) {
    lo->env.n--;
}

/* Indices of a tile that is cut off a tail; the longest tile whose tails are written out whole. */
enum { TAIL_STEP = 4, EXACT_MOST = 8 };

static int64_t const_or(Dim d, int64_t otherwise) {
    int64_t v;
    return dim_is_const(d, &v) ? v : otherwise;
}

/* ---- tiling one dim ------------------------------------------------------------------------- */

static void guard_ge0(Lowering *lo, Stmt *s, Dim d) {
    vec_push(lo->arena, &s->guard, d);
}

static void full_tiles(Lowering *lo, Stmts *into, const Tiling *how, Span span, Dim count,
                       int64_t size, TileFn *fn, void *user) {
    if (dim_is(count, 0)) return;
    Span tile = {span.start, dim_const(lo->ctx, size), size};
    if (dim_is(count, 1)) {
        fn(lo, user, tile, into);
        return;
    }
    Dim var = lowering_var(lo, how->name, count);
    Stmt *loop = nest_for(lo->nest, into, var, count, LOOP_SEQ);
    tile.start = dim_add(lo->ctx, span.start, dim_mulc(lo->ctx, var, size));
    fn(lo, user, tile, &loop->body);
    lowering_pop(lo);
}

/* Tiles of `size` of what is left, as many as there are room for; what is left behind them. */
static Span cut_tail(Lowering *lo, Stmts *into, const Tiling *how, Span tail, int64_t size,
                     TileFn *fn, void *user) {
    Dim step = dim_const(lo->ctx, size);
    Dim count = lowering_simplify(lo, dim_div(lo->ctx, tail.extent, step));
    full_tiles(lo, into, how, tail, count, size, fn, user);
    tail.start = dim_add(lo->ctx, tail.start, dim_mulc(lo->ctx, count, size));
    tail.extent = lowering_simplify(lo, dim_mod(lo->ctx, tail.extent, step));
    return tail;
}

/* A tile of each size that may be left, so that what they share is read once; behind tiles of a few
 * where there would be more than `most` of these. */
static void exact_tail(Lowering *lo, Stmts *into, const Tiling *how, Span tail, int64_t most,
                       TileFn *fn, void *user) {
    int64_t below = how->size;
    if (below > most) {
        tail = cut_tail(lo, into, how, tail, TAIL_STEP, fn, user);
        below = TAIL_STEP;
    }
    for (int64_t size = below - 1; size > 0; size--) {
        Stmt *some = nest_if(lo->nest, into);
        guard_ge0(lo, some, dim_addc(lo->ctx, tail.extent, -size));
        guard_ge0(lo, some, dim_sub(lo->ctx, dim_const(lo->ctx, size), tail.extent));
        fn(lo, user, (Span){tail.start, dim_const(lo->ctx, size), size}, &some->body);
    }
}

static void symbolic_tail(Lowering *lo, Stmts *into, const Tiling *how, Span tail, TileFn *fn,
                          void *user) {
    if (how->lanes > 1) {
        Span last = cut_tail(lo, into, how, tail, how->lanes, fn, user);
        if (dim_is(last.extent, 0)) return;
        Stmt *some = nest_if(lo->nest, into);
        guard_ge0(lo, some, dim_addc(lo->ctx, last.extent, -1));
        last.cap = how->lanes;
        fn(lo, user, last, &some->body);
    } else if (how->tail == TAIL_EXACT || how->tail == TAIL_NEAR) {
        int64_t most = how->tail == TAIL_EXACT ? EXACT_MOST : TAIL_STEP;
        exact_tail(lo, into, how, tail, most, fn, user);
    } else if (how->tail == TAIL_SINGLE) {
        cut_tail(lo, into, how, tail, 1, fn, user);
    } else {
        Stmt *some = nest_if(lo->nest, into);
        guard_ge0(lo, some, dim_addc(lo->ctx, tail.extent, -1));
        tail.cap = how->size - 1;
        fn(lo, user, tail, &some->body);
    }
}

static void tail_tile(Lowering *lo, Stmts *into, const Tiling *how, Span tail, TileFn *fn,
                      void *user) {
    if (dim_is(tail.extent, 0)) return;
    tail.cap = const_or(tail.extent, -1);
    if (tail.cap >= 0)
        fn(lo, user, tail, into);
    else
        symbolic_tail(lo, into, how, tail, fn, user);
}

/* fn for a full tile, where the tile's number is below `full`. */
static void full_tile(Lowering *lo, Stmts *into, const Tiling *how, Span tile, Dim full, TileFn *fn,
                      void *user) {
    Dim last = dim_addc(lo->ctx, full, -1), all = last;
    int at = 0;
    while (at < lo->env.n && lo->env.at[at].sym != how->tile) at++;
    bool known = at < lo->env.n;
    if (known) all = lo->env.at[at].hi, lo->env.at[at].hi = last;
    fn(lo, user, tile, into);
    if (known) lo->env.at[at].hi = all;
}

/* Behind a guard that holds the number of the tile below `full`. */
static Stmts *if_full(Lowering *lo, Stmts *into, Dim tile, Dim full) {
    Stmt *inner = nest_if(lo->nest, into);
    guard_ge0(lo, inner, dim_sub(lo->ctx, dim_addc(lo->ctx, full, -1), tile));
    return &inner->body;
}

/* A parallel loop is open already: its tasks are all tiles of the dim, full ones and the tail
 * behind two guards, unless the code is for some of them. */
static void parallel_tiles(Lowering *lo, Stmts *into, const Tiling *how, Span span, Dim full,
                           Dim rest, TileFn *fn, void *user) {
    Dim offset = dim_mulc(lo->ctx, how->tile, how->size);
    Span tile = {dim_add(lo->ctx, span.start, offset), dim_const(lo->ctx, how->size), how->size};
    Span tail = {dim_add(lo->ctx, span.start, dim_mulc(lo->ctx, full, how->size)), rest, -1};
    if (dim_is(rest, 0)) {
        fn(lo, user, tile, into);
    } else if (dim_is(full, 0)) {
        tail_tile(lo, into, how, tail, fn, user);
    } else if (how->tiles == TILES_FULL) {
        full_tile(lo, into, how, tile, full, fn, user);
    } else if (how->tiles == TILES_ANY) {
        tile.extent = dim_min(lo->ctx, tile.extent, dim_sub(lo->ctx, span.extent, offset));
        fn(lo, user, tile, into);
    } else {
        full_tile(lo, if_full(lo, into, how->tile, full), how, tile, full, fn, user);
        Stmt *last = nest_if(lo->nest, into);
        guard_ge0(lo, last, dim_sub(lo->ctx, how->tile, full));
        tail_tile(lo, &last->body, how, tail, fn, user);
    }
}

void for_tiles(Lowering *lo, Stmts *into, const Tiling *how, Span span, TileFn *fn, void *user) {
    Dim size = dim_const(lo->ctx, how->size);
    Dim full = lowering_simplify(lo, dim_div(lo->ctx, span.extent, size));
    Dim rest = lowering_simplify(lo, dim_mod(lo->ctx, span.extent, size));
    if (how->tile) {
        parallel_tiles(lo, into, how, span, full, rest, fn, user);
        return;
    }
    full_tiles(lo, into, how, span, full, how->size, fn, user);
    Span tail = {dim_add(lo->ctx, span.start, dim_mulc(lo->ctx, full, how->size)), rest, -1};
    tail_tile(lo, into, how, tail, fn, user);
}

/* ---- storage -------------------------------------------------------------------------------- */

static int memory_buf(Lowering *lo, int cont) {
    if (lo->memory[cont] < 0) {
        const Cont *c = &lo->flow->cont.at[cont];
        Dim box[RANK_MAX];
        int rank = cont_storage(lo->ctx, c, box);
        lo->memory[cont] = nest_buf(lo->nest, c->name, BUF_MEMORY, c->type, box, rank);
        lo->nest->buf.at[lo->memory[cont]].cont = cont;
    }
    return lo->memory[cont];
}

static Access local_access(Lowering *lo, int cont, const Dim *logical) {
    const Local *l = &lo->local[cont];
    const Buf *buf = &lo->nest->buf.at[l->buf];
    Dim *at = NEW_ARRAY(lo->arena, Dim, l->rank + 1);
    int n = 0;
    Dim lane = NULL;
    for (int k = 0; k < l->rank; k++) {
        Dim e = lowering_simplify(lo, dim_sub(lo->ctx, logical[k], l->origin[k]));
        if (k != l->lane_dim) {
            at[n++] = e;
        } else if (buf->kind == BUF_REG) {
            Dim w = dim_const(lo->ctx, l->lanes);
            at[n++] = lowering_simplify(lo, dim_div(lo->ctx, e, w));
            lane = lowering_simplify(lo, dim_mod(lo->ctx, e, w));
        } else {
            lane = e;
        }
    }
    if (lane) at[n++] = lane;
    return (Access){l->buf, n, at};
}

Access lowering_access(Lowering *lo, int cont, const Dim *logical, bool store) {
    if (lo->local[cont].buf >= 0) return local_access(lo, cont, logical);
    int buf = memory_buf(lo, cont);
    if (store) lo->nest->buf.at[buf].written = true;
    Dim at[RANK_MAX];
    DimEnv env = lowering_env(lo);
    int rank = cont_address(lo->ctx, &lo->flow->cont.at[cont], logical, &env, at);
    return (Access){buf, rank, arena_copy(lo->arena, at, (size_t)rank * sizeof *at)};
}

/* Is a kept container whole along dim d, 0 .. extent-1: because a map's several writes of it fix
 * that index, or because it is made of several dims (j + 3k)? */
static bool index_whole(const Lowering *lo, const Map *m, const Write *w, int k, int d) {
    int writes = 0;
    for (int i = 0; i < m->dim.n; i++)
        if (m->dim.at[i].sym == w->to[k].at[d]) return false;
    for (int i = 0; i < m->write.n; i++) writes += m->write.at[i].to[0].cont == w->to[k].cont;
    bool fixed = dim_is_const(w->to[k].at[d], NULL);
    return writes > 1 || (!fixed && dim_is_const(lo->flow->cont.at[w->to[k].cont].shape[d], NULL));
}

/* An index, of one dim or made of several (j + 3k), on `box`: where it begins, and over how many
 * elements it steps. It begins where dims that it falls with end. */
static void index_span(const Lowering *lo, const Map *m, Dim index, const Span *box, Dim *origin,
                       Dim *size) {
    Ctx *ctx = lo->ctx;
    DimSubst begin[RANK_MAX * 2];
    *size = dim_const(ctx, 1);
    for (int i = 0; i < m->dim.n; i++) {
        Dim sym = m->dim.at[i].sym, step, rest;
        begin[i] = (DimSubst){sym, box[i].start};
        if (!dim_uses(index, sym)) continue;
        if (!dim_affine(ctx, index, &sym, 1, &step, &rest))
            BUG("an index of map \"%s\" that a kernel keeps is not a sum of dims", m->name);
        Dim extent = box[i].cap >= 0 ? dim_const(ctx, box[i].cap) : box[i].extent;
        Dim last = dim_addc(ctx, extent, -1);
        int64_t by;
        if (dim_is_const(step, &by) && by < 0)
            begin[i].to = dim_add(ctx, begin[i].to, last), step = dim_const(ctx, -by);
        *size = dim_add(ctx, *size, dim_mul(ctx, step, last));
    }
    *origin = dim_subst(ctx, index, begin, m->dim.n);
}

/* Declares the buffer of what `pos` writes on `box`, when the kernel keeps it inside. */
static void declare_kept(Lowering *lo, int pos, const Write *w, int k, const Span *box,
                         Stmts *into) {
    const MapPlan *plan = &lo->plan[pos];
    int cont = w->to[k].cont;
    Storage keep = lo->keep[cont];
    if (keep == KEEP_ARENA) return;
    Local *l = &lo->local[cont];
    *l = (Local){.buf = -1, .rank = w->to[k].rank, .lane_dim = -1, .lanes = plan->lanes};
    Dim extent[RANK_MAX + 1], lane = NULL;
    int n = 0;
    for (int d = 0; d < l->rank; d++) {
        Dim index = w->to[k].at[d], whole = lo->flow->cont.at[cont].shape[d], size;
        if (index_whole(lo, plan->map, w, k, d))
            l->origin[d] = dim_const(lo->ctx, 0), size = whole;
        else
            index_span(lo, plan->map, index, box, &l->origin[d], &size);
        if (keep != KEEP_SCRATCH && !dim_is_const(size, NULL) && dim_is_const(whole, NULL))
            size = whole; /* of which the run may ask for less */
        if (plan->lane_dim >= 0 && !plan->spread && plan->map->dim.at[plan->lane_dim].sym == index)
            l->lane_dim = d;
        if (l->lane_dim != d) {
            extent[n++] = size;
        } else if (keep == KEEP_REG) {
            extent[n++] = dim_ceildiv(lo->ctx, size, dim_const(lo->ctx, l->lanes));
            lane = dim_const(lo->ctx, l->lanes);
        } else {
            lane = size;
        }
    }
    int64_t row;
    if (lane && keep == KEEP_SCRATCH && n && dim_is_const(lane, &row))
        lane = dim_const(lo->ctx, scratch_row(row, l->lanes));
    if (lane) extent[n++] = lane;
    static const BufKind kind[] = {[KEEP_REG] = BUF_REG,
                                   [KEEP_TILE] = BUF_TILE,
                                   [KEEP_SHARED] = BUF_SHARED,
                                   [KEEP_SCRATCH] = BUF_SCRATCH};
    const Cont *c = &lo->flow->cont.at[cont];
    const char *name = internf(lo->ctx, "%s.%d", c->name, lo->fresh++);
    l->buf = nest_buf(lo->nest, name, kind[keep], c->type, extent, n);
    Stmt *decl = nest_decl(lo->nest, keep == KEEP_SHARED ? &lo->shared : into, l->buf);
    if (w->combine && keep == KEEP_REG) {
        decl->has_init = true;
        decl->init = w->combine->identity[k];
    }
}

/* Has the map no result, whatever it reduces? Then nobody reads any, and what it would read may not
 * be there either. */
static bool writes_nothing(const Map *m) {
    for (int d = 0; d < m->dim.n; d++)
        if (dim_is(m->dim.at[d].extent, 0) && !map_reduces(m, d)) return true;
    return false;
}

static void run_producer(Lowering *lo, int pos, const Span *root, Stmts *into) {
    Span box[RANK_MAX * 2];
    plan_box(lo, pos, root, box);
    const Map *m = lo->plan[pos].map;
    for (int w = 0; w < m->write.n; w++) {
        bool again = false;
        for (int i = 0; i < w; i++) again |= m->write.at[i].to[0].cont == m->write.at[w].to[0].cont;
        for (int k = 0; !again && k < m->write.at[w].n; k++)
            declare_kept(lo, pos, &m->write.at[w], k, box, into);
    }
    if (writes_nothing(m)) return;
    leaf_map(lo, pos, box, into);
    for (int w = 0; w < m->write.n; w++) {
        int cont = m->write.at[w].to[0].cont;
        if (lo->keep[cont] == KEEP_REG || lo->local[cont].one) continue;
        meet(lo, into);
        break;
    }
}

/* ---- the loops of a kernel ------------------------------------------------------------------ */

/* Opens the leading tile loops that are marked parallel, as far as no producer stands between them.
 */
static Stmts *open_parallel(Lowering *lo, const Span *root, Stmts *into) {
    const MapPlan *plan = &lo->plan[lo->nplan - 1];
    int n = 0;
    while (n < plan->tile.n && plan->tile.at[n].mark == LOOP_PARALLEL) n++;
    for (int p = 0; p < lo->nplan - 1; p++)
        if (lo->plan[p].depth < n) n = lo->plan[p].depth;
    for (int i = 0; i < n; i++) {
        const TileLoop *t = &plan->tile.at[i];
        Dim count = dim_ceildiv(lo->ctx, root[t->dim].extent, dim_const(lo->ctx, t->size));
        count = lowering_simplify(lo, count);
        lo->parallel[i] = lowering_var(lo, dim_sym_name(plan->map->dim.at[t->dim].sym), count);
        into = &nest_for(lo->nest, into, lo->parallel[i], count, LOOP_PARALLEL)->body;
    }
    lo->nparallel = n;
    return into;
}

typedef struct Depth {
    int depth;
    const Span *root;
} Depth;

static void inside_tile(Lowering *lo, void *user, Span tile, Stmts *into) {
    const Depth *d = user;
    const MapPlan *plan = &lo->plan[lo->nplan - 1];
    Span span[RANK_MAX * 2];
    for (int i = 0; i < plan->map->dim.n; i++) span[i] = d->root[i];
    span[plan->tile.at[d->depth].dim] = tile;
    lower_depth(lo, d->depth + 1, span, into);
}

/* Does a map in front unroll a dim that its own tiles do not cut? */
static bool unrolls_whole(const MapPlan *plan) {
    for (int d = 0; d < plan->map->dim.n; d++) {
        bool cut = false;
        for (int k = 0; k < plan->tile.n; k++) cut |= plan->tile.at[k].dim == d;
        if (plan->unroll[d] && !cut) return true;
    }
    return false;
}

/* Does the map reduce dims that are written out, term by term? */
static bool writes_terms(const MapPlan *plan) {
    bool any = false;
    for (int d = 0; d < plan->map->dim.n; d++) {
        bool whole =
            plan->unroll[d] && map_reduces(plan->map, d) && map_extent(plan->map, d, 1) > 1;
        for (int k = 0; k < plan->reduce.n; k++) whole &= plan->reduce.at[k].dim != d;
        any |= whole;
    }
    return any;
}

/* Does `at` repeat along d within a tile of `size`, as where the tiles of a spread window lie? */
static bool repeats_within(Dim at, Dim d, int64_t size) {
    for (int i = 0; i < at->nterms; i++)
        for (int k = 0; k < at->term[i].natoms; k++) {
            const Atom *a = at->term[i].atom[k];
            if (a->kind == ATOM_SYM) continue;
            int64_t period = a->kind == ATOM_MOD && dim_uses(a->a, d) ? const_or(a->b, size) : size;
            if (period < size || repeats_within(a->a, d, size)) return true;
        }
    return false;
}

/* Do a few of `size` indices along the root's dim d want nearly all that the whole tile wants of
 * what is made for it? */
static bool wants_all(const Lowering *lo, int d, int64_t size) {
    const Map *m = lo->plan[lo->nplan - 1].map;
    for (int v = 0; size > EXACT_MOST && v < m->body.val.n; v++) {
        const Val *val = &m->body.val.at[v];
        if (val->kind != VAL_READ || lo->keep[val->read.cont] == KEEP_ARENA) continue;
        for (int k = 0; k < val->read.rank; k++)
            if (repeats_within(val->read.at[k], m->dim.at[d].sym, size)) return true;
    }
    return false;
}

/* What a symbolic tail of the root's tile loop number `depth` is. Registers want to know what they
 * hold, and maps in front that are unrolled whole what they are for; but where nothing is summed
 * for a tile, each size is a copy of these maps, and to make what a single result needs, one after
 * the other, takes little more. Where sums share a window's weights, all of whose terms are written
 * out, these stay near, and need not be read once for all that is left. */
static TailForm tail_form(const Lowering *lo, int depth) {
    const MapPlan *root = &lo->plan[lo->nplan - 1];
    bool sums = root->map->write.at[0].combine, held = sums, whole = false;
    bool near = writes_terms(root);
    for (int k = depth + 1; k < root->tile.n; k++)
        if (root->tile.at[k].dim == root->tile.at[depth].dim) return TAIL_ANY;
    for (int p = 0; p < lo->nplan - 1; p++) {
        const Map *m = lo->plan[p].map;
        whole |= unrolls_whole(&lo->plan[p]);
        near |= writes_terms(&lo->plan[p]);
        for (int w = 0; w < m->write.n; w++) {
            bool reg = lo->keep[m->write.at[w].to[0].cont] == KEEP_REG;
            held |= reg;
            sums |= m->write.at[w].combine && (reg || lo->plan[p].depth > depth);
        }
    }
    if (!whole && !(held && root->unroll[root->tile.at[depth].dim])) return TAIL_ANY;
    if (!held && wants_all(lo, root->tile.at[depth].dim, root->tile.at[depth].size))
        return TAIL_ANY;
    return whole && !sums ? TAIL_SINGLE : near ? TAIL_NEAR : TAIL_EXACT;
}

/* Is dim d of the root rows of a map that steps on tiles compute? Of what is left behind the last
 * tile of a size that is not known, they take any number of rows at once. */
static bool rows_on_tiles(const Lowering *lo, int d) {
    bool rows = false;
    for (int p = 0; p < lo->nplan; p++) {
        const MapPlan *plan = &lo->plan[p];
        int own = p == lo->nplan - 1 ? d : lo->al.at[p][d];
        rows |= plan->use && own >= 0 && own != plan->lane_dim && plan->unroll[own];
    }
    return rows;
}

/* How the root's tile loop number `depth` cuts its dim. */
static Tiling tiling_at(const Lowering *lo, int depth) {
    const MapPlan *plan = &lo->plan[lo->nplan - 1];
    const TileLoop *t = &plan->tile.at[depth];
    bool rows = rows_on_tiles(lo, t->dim);
    Tiling how = {.name = dim_sym_name(plan->map->dim.at[t->dim].sym), .size = t->size};
    how.tile = depth < lo->nparallel ? lo->parallel[depth] : NULL;
    how.lanes = !rows && t->dim == plan->lane_dim ? plan->lanes : 1;
    how.tail = !rows && how.lanes == 1 ? tail_form(lo, depth) : TAIL_ANY;
    return how;
}

/* Of the root's parallel loop number `depth`: how many tiles are full, if the last one may be of
 * any size; NULL: it may not. */
static Dim full_and_any(const Lowering *lo, int depth, const Span *root) {
    Tiling how = tiling_at(lo, depth);
    Dim extent = root[lo->plan[lo->nplan - 1].tile.at[depth].dim].extent;
    Dim size = dim_const(lo->ctx, how.size);
    if (how.lanes > 1 || how.tail != TAIL_ANY) return NULL;
    bool known = dim_is_const(lowering_simplify(lo, dim_mod(lo->ctx, extent, size)), NULL);
    Dim full = lowering_simplify(lo, dim_div(lo->ctx, extent, size));
    return known || dim_is(full, 0) ? NULL : full;
}

/* Tasks whose tiles may be cut short along several dims are of two forms, all tiles full or not:
 * each dim in two forms of its own would make four or eight of them. False: they are not such. */
static bool lower_tasks(Lowering *lo, const Span *root, Stmts *into) {
    Dim cut = NULL;
    Stmts *all = into;
    int n = 0;
    for (int k = 0; k < lo->nparallel; k++) n += full_and_any(lo, k, root) != NULL;
    if (n < 2) return false;
    for (int k = 0; k < lo->nparallel; k++) {
        Dim full = full_and_any(lo, k, root);
        if (!full) continue;
        Dim beyond = dim_sub(lo->ctx, lo->parallel[k], full);
        all = if_full(lo, all, lo->parallel[k], full);
        cut = cut ? dim_max(lo->ctx, cut, beyond) : beyond;
    }
    lo->tiles = TILES_FULL;
    lower_depth(lo, 0, root, all);
    lo->tiles = TILES_ANY;
    Stmt *any = nest_if(lo->nest, into);
    guard_ge0(lo, any, cut);
    lower_depth(lo, 0, root, &any->body);
    lo->tiles = TILES_EACH;
    return true;
}

void lower_depth(Lowering *lo, int depth, const Span *root, Stmts *into) {
    const MapPlan *plan = &lo->plan[lo->nplan - 1];
    if (!depth && lo->tiles == TILES_EACH && lower_tasks(lo, root, into)) return;
    if (depth == plan->tile.n) fetch_besides(lo, root, into);
    for (int p = 0; p < lo->nplan - 1; p++)
        if (lo->plan[p].depth == depth) run_producer(lo, p, root, into);
    if (depth == plan->tile.n) {
        Span box[RANK_MAX * 2];
        plan_box(lo, lo->nplan - 1, root, box);
        leaf_map(lo, lo->nplan - 1, box, into);
        return;
    }
    Tiling how = tiling_at(lo, depth);
    if (lo->tiles != TILES_EACH && how.tile && full_and_any(lo, depth, root)) how.tiles = lo->tiles;
    Depth next = {depth, root};
    for_tiles(lo, into, &how, root[plan->tile.at[depth].dim], inside_tile, &next);
}

/* ---- region variables: which loops of the flow enclose a map -------------------------------- */

static Dim last_iteration(Ctx *ctx, const Item *loop) {
    Dim end = loop->done ? loop->done : loop->trip;
    return end ? dim_addc(ctx, end, -1) : NULL;
}

static bool push_region_vars(Lowering *lo, const Items *items, int map) {
    for (int i = 0; i < items->n; i++) {
        const Item *it = &items->at[i];
        if (it->kind == ITEM_MAP && it->map == map) return true;
        if (it->kind != ITEM_LOOP && it->kind != ITEM_IF) continue;
        int mark = lo->env.n;
        if (it->kind == ITEM_LOOP) {
            Dim last = last_iteration(lo->ctx, it);
            DimRange range = {it->var, dim_const(lo->ctx, 0), last};
            vec_push(lo->arena, &lo->env, range);
        }
        if (push_region_vars(lo, &it->body, map) || push_region_vars(lo, &it->other, map)) {
            if (it->kind == ITEM_LOOP) {
                Symbol s = {it->var, 0, INT64_MAX, last_iteration(lo->ctx, it)};
                vec_push(lo->arena, &lo->nest->symbol, s);
            }
            return true;
        }
        lo->env.n = mark;
    }
    return false;
}

static Nest *lower_kernel(Arena *arena, const Flow *whole, const Kernel *kernel,
                          const Machine *machine) {
    const char *why;
    const Flow *flow = flow_merged(arena, whole, kernel, &why);
    if (!flow) BUG("merge lines of kernel '%s': %s", kernel->name, why);
    Lowering lo = {.arena = arena, .ctx = flow->ctx, .flow = flow, .kernel = kernel};
    lo.scratch = arena_new(flow->ctx);
    lo.machine = machine;
    lo.nest = nest_new(arena, kernel->name);
    if (kernel->on) lo.nest->on = kernel->on;
    for (int i = 0; i < flow->symbol.n; i++) vec_push(arena, &lo.nest->symbol, flow->symbol.at[i]);
    DimEnv env = flow_env(arena, flow);
    for (int i = 0; i < env.n; i++) vec_push(arena, &lo.env, env.at[i]);
    push_region_vars(&lo, &flow->body, kernel->map.at[kernel->map.n - 1]);
    lo.nouter = lo.env.n;
    lo.memory = NEW_ARRAY(lo.scratch, int, flow->cont.n);
    lo.local = NEW_ARRAY(lo.scratch, Local, flow->cont.n);
    for (int i = 0; i < flow->cont.n; i++) lo.memory[i] = lo.local[i].buf = -1;
    plan_kernel(&lo);
    const Map *root = lo.plan[lo.nplan - 1].map;
    lo.nest->from = root->from;
    Span span[RANK_MAX * 2];
    for (int i = 0; i < root->dim.n; i++)
        span[i] = (Span){dim_const(lo.ctx, 0), root->dim.at[i].extent,
                         const_or(root->dim.at[i].extent, -1)};
    lo.nest->serial = lo.serial;
    /* The innermost loop's variable is the first behind the flow's symbols. */
    if (lo.alternates) lo.nest->alternates = lo.nest->symbol.at[flow->symbol.n].sym;
    if (lo.weighs)
        lower_weighing(&lo);
    else if (lo.steps)
        lower_warps(&lo);
    else if (lo.blocks)
        lower_blocks(&lo, span);
    else
        lower_depth(&lo, 0, span, open_parallel(&lo, span, &lo.nest->body));
    if (machine->block_threads) carry_steps(lo.nest, &lo.nest->body);
    arena_free(lo.scratch);
    return lo.nest;
}

Program *pass_nests(Arena *arena, const Flow *flow, const PassEnv *env);
Program *pass_nests(Arena *arena, const Flow *flow, const PassEnv *env) {
    Program *p = NEW(arena, Program);
    p->arena = arena;
    p->flow = flow_clone(arena, flow);
    for (int k = 0; k < flow->kernel.n; k++)
        vec_push(arena, &p->nest,
                 lower_kernel(arena, p->flow, p->flow->kernel.at[k], env->machine));
    return p;
}
