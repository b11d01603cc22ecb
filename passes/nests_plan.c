/* SPDX-License-Identifier: Apache-2.0 */
/* Reading a kernel's lines, and the boxes of its producers.
 *
 * A producer's box is the hull of what its consumers in the kernel read: each consumer dim is
 * start + local with 0 <= local < extent, and bounds of the read's index over the locals give first
 * and last element. Producers write their containers at plain dims (or constants), so a box over
 * the container is a box over the producer's dims; its reduction dims are whole. */
#include <string.h>

#include "passes/nests.h"

int plan_dim(const MapPlan *p, const char *name) {
    for (int i = 0; i < p->map->dim.n; i++)
        if (strcmp(dim_sym_name(p->map->dim.at[i].sym), name) == 0) return i;
    BUG("kernel line names dim '%s' that map '%s' does not have", name, p->map->name);
}

static void plan_tile(Lowering *lo, MapPlan *p, const Line *line, const Line *order) {
    const Line *names = order ? order : line;
    for (int i = 0; i < names->narg; i++)
        for (int k = 0; k < line->narg; k++)
            if (strcmp(names->arg[i].dim, line->arg[k].dim) == 0) {
                TileLoop t = {plan_dim(p, line->arg[k].dim), line->arg[k].size, LOOP_SEQ};
                vec_push(lo->arena, &p->tile, t);
            }
}

/* `parallel`, `block` and `thread` mark the outermost loop of each named dim that has no mark. */
static void plan_mark(MapPlan *p, const Line *line, LoopMark mark) {
    for (int i = 0; i < line->narg; i++) {
        int d = plan_dim(p, line->arg[i].dim);
        for (int k = 0; k < p->tile.n; k++)
            if (p->tile.at[k].dim == d && p->tile.at[k].mark == LOOP_SEQ) {
                p->tile.at[k].mark = mark;
                break;
            }
    }
}

static void plan_lanes(MapPlan *p, const Line *line) {
    p->lane_dim = plan_dim(p, line->arg[0].dim);
    p->lanes = (int)line->arg[0].size;
}

/* Threads own the tiles of the named dims; with a number, they share the lanes of one, with two in
 * groups that share another: its results, or parts of its reduction. */
static void plan_threads(Lowering *lo, MapPlan *p, const Line *line) {
    lo->blocks = true;
    if (!line->arg[0].size) {
        plan_mark(p, line, LOOP_THREAD);
        return;
    }
    const LineArg *lane = &line->arg[line->narg - 1];
    p->lane_dim = plan_dim(p, lane->dim);
    p->spread = (int)lane->size;
    if (p->spread > lo->threads) lo->threads = p->spread;
    if (line->narg == 1) return;
    p->among = plan_dim(p, line->arg[0].dim);
    p->groups = (int)line->arg[0].size;
    lo->threads = p->groups * p->spread;
    if (!map_reduces(p->map, p->among)) return;
    p->split = p->among;
    p->parts = p->groups;
}

/* Of what groups of threads share each has one index at a time. */
static void plan_unroll(MapPlan *p, int dim) {
    if (p->groups && dim == p->among)
        p->written_out = true;
    else
        p->unroll[dim] = true;
}

/* The first line is of a block, the second of a warp; of three the first is of all blocks. */
static void plan_joined(MapPlan *p, JoinedDims *j, const Line *line) {
    int64_t size = line->narg ? line->arg[line->narg - 1].size : 0;
    if (j->n) {
        if (j->warp) j->round = j->block, j->block = j->warp;
        j->warp = size;
        return;
    }
    for (int i = 0; i < line->narg; i++) j->dim[j->n++] = plan_dim(p, line->arg[i].dim);
    j->block = size;
}

static void plan_line(Lowering *lo, int index) {
    const Line *line = &lo->kernel->line.at[index];
    MapPlan *p = &lo->plan[line->map];
    const Line *next = index + 1 < lo->kernel->line.n ? line + 1 : NULL;
    switch (line->kind) {
    case LINE_TILE:
        plan_tile(lo, p, line,
                  next && next->kind == LINE_ORDER && next->map == line->map ? next : NULL);
        break;
    case LINE_PARALLEL: plan_mark(p, line, LOOP_PARALLEL); break;
    case LINE_BLOCK: plan_mark(p, line, LOOP_BLOCK); break;
    case LINE_THREAD: plan_threads(lo, p, line); break;
    case LINE_STAGE:
        vec_push(lo->arena, &p->stage, line->cont);
        p->ahead = line->ahead;
        lo->staged = true;
        break;
    case LINE_USE: p->use = line->name; break;
    case LINE_ROWS: plan_joined(p, &p->rows, line); break;
    case LINE_COLUMNS: plan_joined(p, &p->columns, line); break;
    case LINE_DEPTH: plan_joined(p, &p->reduced, line); break;
    case LINE_SERIAL: lo->serial = line->name; break;
    case LINE_ALTERNATE: lo->alternates = true; break;
    case LINE_KEEP: ((Storage *)lo->keep)[line->cont] = line->storage; break;
    case LINE_PREFETCH:
        if (lo->machine->block_threads) { /* those with a dim: nests_ahead.c */
            if (!line->narg) vec_push(lo->arena, &p->first, line->cont);
            break;
        }
        p->prefetch = line->cont;
        p->fetch = line->narg ? plan_dim(p, line->arg[0].dim) : -1;
        break;
    case LINE_VECTOR: plan_lanes(p, line); break;
    case LINE_UNROLL:
        for (int i = 0; i < line->narg; i++) plan_unroll(p, plan_dim(p, line->arg[i].dim));
        break;
    case LINE_SKIP:
        for (int i = 0; i < line->narg; i++) p->skip[plan_dim(p, line->arg[i].dim)] = true;
        break;
    case LINE_REDUCE:
        for (int i = 0; i < line->narg; i++) {
            TileLoop t = {plan_dim(p, line->arg[i].dim), line->arg[i].size, LOOP_SEQ};
            vec_push(lo->arena, &p->reduce, t);
        }
        break;
    case LINE_SPLIT:
        p->split = plan_dim(p, line->arg[0].dim);
        p->parts = lo->parts = (int)line->arg[0].size;
        break;
    case LINE_PARTIAL:
        p->partial = plan_dim(p, line->arg[0].dim);
        p->block = line->arg[0].size;
        break;
    case LINE_FACTOR: p->factored = true; break;
    default: break;
    }
}

/* Depth of `at (dims)`: inside the innermost loop over any of them (of the size it names). */
static void plan_at(Lowering *lo, const Line *line) {
    const MapPlan *root = &lo->plan[lo->nplan - 1];
    int depth = 0;
    for (int i = 0; i < line->narg; i++)
        for (int k = 0; k < root->tile.n; k++)
            if (root->tile.at[k].dim == plan_dim(root, line->arg[i].dim) && k + 1 > depth &&
                (!line->arg[i].size || line->arg[i].size == root->tile.at[k].size))
                depth = k + 1;
    lo->plan[line->map].depth = depth;
}

/* Maps that share a row among fewer threads than there are: so many after so many do it, each for
 * themselves. */
static void plan_alike(Lowering *lo) {
    for (int i = 0; i < lo->nplan; i++) {
        MapPlan *p = &lo->plan[i];
        if (!p->spread || p->groups || p->spread == lo->threads) continue;
        if (lo->threads % p->spread || !map_is_reduction(p->map))
            fail(lo->ctx, E_UNSUPPORTED,
                 "kernel \"%s\" has %d threads, of which %d share what \"%s\" does; only "
                 "reductions may, and as many as divide them",
                 lo->kernel->name, lo->threads, p->spread, p->map->name);
        p->groups = lo->threads / p->spread;
        p->among = -1;
    }
}

void plan_kernel(Lowering *lo) {
    const Kernel *kernel = lo->kernel;
    lo->nplan = kernel->map.n;
    lo->plan = NEW_ARRAY(lo->arena, MapPlan, lo->nplan);
    Storage *keep = NEW_ARRAY(lo->scratch, Storage, lo->flow->cont.n);
    for (int i = 0; i < lo->flow->cont.n; i++) keep[i] = KEEP_ARENA;
    lo->keep = keep;
    lo->al = kernel_align(lo->arena, lo->flow, kernel->map.at, kernel->map.n);
    for (int i = 0; i < lo->nplan; i++)
        lo->plan[i] = (MapPlan){.map = lo->flow->map.at[kernel->map.at[i]],
                                .lane_dim = -1,
                                .lanes = 1,
                                .prefetch = -1,
                                .fetch = -1};
    for (int i = 0; i < kernel->line.n; i++) plan_line(lo, i);
    plan_alike(lo);
    if (lo->parts && (!lo->blocks || lo->threads))
        fail(lo->ctx, E_UNSUPPORTED,
             "kernel \"%s\" is split, but its threads own no tiles; leave its line `split` out",
             kernel->name);
    for (int i = 0; i < lo->nplan; i++) {
        const MapPlan *p = &lo->plan[i];
        if (p->block && (lo->blocks || (p->lane_dim >= 0 && map_reduces(p->map, p->lane_dim))))
            fail(lo->ctx, E_UNSUPPORTED,
                 "kernel \"%s\" reduces lanes or has threads; leave its line `partial` out",
                 kernel->name);
    }
    for (int i = 0; i < lo->nplan; i++)
        if (lo->plan[i].reduced.n) lo->weighs = lo->steps, lo->steps = &lo->plan[i];
    for (int i = 0; i < lo->nplan; i++) lo->plan[i].depth = lo->plan[lo->nplan - 1].tile.n;
    for (int i = 0; i < kernel->line.n; i++)
        if (kernel->line.at[i].kind == LINE_AT) plan_at(lo, &kernel->line.at[i]);
}

/* ---- boxes ---------------------------------------------------------------------------------- */

/* lo .. hi is what is read of the container's box; lo_cap .. hi_cap what the tile's largest size
 * would reach, also outside: the latter's size is a constant more often. */
typedef struct Hull {
    Dim lo[RANK_MAX], hi[RANK_MAX], lo_cap[RANK_MAX], hi_cap[RANK_MAX];
    bool any;
    const Val *last; /* of the same map: indices that it shares with the next read join nothing */
} Hull;

/* d, or 0 where it is negative: a box is empty then, or the `else` of a read stands for these. */
static Dim at_least_0(Lowering *lo, Dim d) {
    DimEnv env = lowering_env(lo);
    if (!dim_ge0(lo->ctx, d, &env)) d = dim_max(lo->ctx, d, dim_const(lo->ctx, 0));
    return lowering_simplify(lo, d);
}

/* How many elements lie in first .. last. */
static Dim hull_size(Lowering *lo, Dim first, Dim last) {
    return at_least_0(lo, dim_addc(lo->ctx, dim_sub(lo->ctx, last, first), 1));
}

static void hull_join(Lowering *lo, Hull *h, int k, Dim first, Dim last, Dim first_cap,
                      Dim last_cap) {
    if (!h->any) {
        h->lo[k] = first, h->hi[k] = last, h->lo_cap[k] = first_cap, h->hi_cap[k] = last_cap;
        return;
    }
    h->lo[k] = lowering_simplify(lo, dim_min(lo->ctx, h->lo[k], first));
    h->hi[k] = lowering_simplify(lo, dim_max(lo->ctx, h->hi[k], last));
    h->lo_cap[k] = lowering_simplify(lo, dim_min(lo->ctx, h->lo_cap[k], first_cap));
    h->hi_cap[k] = lowering_simplify(lo, dim_max(lo->ctx, h->hi_cap[k], last_cap));
}

/* Upper bound of e over the consumer's locals, which run to extent-1, or to cap-1 where there is
 * one. */
static Dim local_upper(Lowering *lo, Dim e, const Dim *sym, const Span *span, int n, bool cap) {
    int mark = lo->env.n;
    for (int i = 0; i < n; i++) {
        Dim extent = cap && span[i].cap >= 0 ? dim_const(lo->ctx, span[i].cap) : span[i].extent;
        DimRange r = {sym[i], dim_const(lo->ctx, 0), dim_addc(lo->ctx, extent, -1)};
        vec_push(lo->arena, &lo->env, r);
    }
    DimEnv env = lowering_env(lo);
    Dim up = dim_upper_from(lo->ctx, e, &env, mark);
    lo->env.n = mark;
    return up;
}

static Dim local_lower(Lowering *lo, Dim e, const Dim *sym, const Span *span, int n) {
    int mark = lo->env.n;
    for (int i = 0; i < n; i++) {
        DimRange r = {sym[i], dim_const(lo->ctx, 0), dim_addc(lo->ctx, span[i].extent, -1)};
        vec_push(lo->arena, &lo->env, r);
    }
    DimEnv env = lowering_env(lo);
    Dim low = dim_lower_from(lo->ctx, e, &env, mark);
    lo->env.n = mark;
    return low;
}

static void whole_box(Lowering *lo, const Map *m, Span *out) {
    for (int i = 0; i < m->dim.n; i++) {
        int64_t cap = -1;
        dim_is_const(m->dim.at[i].extent, &cap);
        out[i] = (Span){dim_const(lo->ctx, 0), m->dim.at[i].extent, cap};
    }
}

/* Is an index one of the map's dims? Such a box begins where the dim's does, never below 0. */
static bool is_dim(const Map *m, Dim index) {
    for (int i = 0; i < m->dim.n; i++)
        if (m->dim.at[i].sym == index) return true;
    return false;
}

/* Does an index run over all of its extent by one dim of the map? It never leaves. */
static bool runs_over(const Map *m, Dim index, Dim extent) {
    for (int i = 0; i < m->dim.n; i++)
        if (m->dim.at[i].sym == index && m->dim.at[i].extent == extent) return true;
    return false;
}

/* Is the index at most `most` up to the last element of each dim, also of a dim that may have none
 * (its last is -1 then)? */
static bool at_most(Lowering *lo, const Map *m, Dim index, Dim most) {
    Dim sym[RANK_MAX * 2];
    Span all[RANK_MAX * 2];
    DimEnv env = lowering_env(lo);
    whole_box(lo, m, all);
    for (int i = 0; i < m->dim.n; i++) sym[i] = m->dim.at[i].sym;
    Dim last = local_upper(lo, index, sym, all, m->dim.n, false);
    return last && dim_le(lo->ctx, last, most, &env);
}

/* Where nothing bounds an index over the tile, as one divided by a size that may be 0, all of the
 * container's extent is read. What nobody reads, as dims have no elements or `else` stands for it,
 * may have bounds beyond the container: the box ends with that. */
static void hull_read(Lowering *lo, Hull *h, const Map *m, const Span *span, const Val *val) {
    const Access *read = &val->read;
    DimSubst subst[RANK_MAX * 2];
    Dim local[RANK_MAX * 2];
    for (int i = 0; i < m->dim.n; i++) {
        local[i] = dim_sym(lo->ctx, internf(lo->ctx, "local.%d", i));
        subst[i] = (DimSubst){m->dim.at[i].sym, dim_add(lo->ctx, span[i].start, local[i])};
    }
    for (int k = 0; k < read->rank; k++) {
        if (h->last && h->last->read.at[k] == read->at[k] && h->last->has_else == val->has_else)
            continue;
        Dim e = dim_subst(lo->ctx, read->at[k], subst, m->dim.n);
        Dim first = local_lower(lo, e, local, span, m->dim.n);
        Dim last = local_upper(lo, e, local, span, m->dim.n, false);
        Dim cap = local_upper(lo, e, local, span, m->dim.n, true);
        Dim extent = lo->flow->cont.at[read->cont].shape[k];
        Dim end = dim_addc(lo->ctx, extent, -1);
        if (!first || !last || !cap) first = dim_const(lo->ctx, 0), last = cap = end;
        Dim from = first;
        if (!is_dim(m, read->at[k])) first = at_least_0(lo, first);
        if (!at_most(lo, m, read->at[k], extent))
            first = lowering_simplify(lo, dim_min(lo->ctx, first, extent));
        if (val->has_else ? !runs_over(m, read->at[k], extent) : !at_most(lo, m, read->at[k], end))
            last = lowering_simplify(lo, dim_min(lo->ctx, last, end));
        hull_join(lo, h, k, first, last, from, cap);
    }
    h->any = true;
    h->last = val;
}

void plan_read(Lowering *lo, const Map *m, const Span *span, const Access *read, Dim *origin,
               Dim *size) {
    Val val = {.kind = VAL_READ, .read = *read};
    Hull h = {.any = false};
    hull_read(lo, &h, m, span, &val);
    for (int k = 0; k < read->rank; k++) {
        Dim extent = dim_addc(lo->ctx, dim_sub(lo->ctx, h.hi_cap[k], h.lo_cap[k]), 1);
        origin[k] = lowering_simplify(lo, h.lo_cap[k]);
        size[k] = lowering_simplify(lo, extent);
    }
}

static void hull_of(Lowering *lo, int pos, int cont, const Span *root, Hull *h) {
    for (int q = pos + 1; q < lo->nplan; q++) {
        const Map *m = lo->plan[q].map;
        Span span[RANK_MAX * 2];
        bool boxed = false;
        h->last = NULL;
        for (int v = 0; v < m->body.val.n; v++) {
            const Val *val = &m->body.val.at[v];
            if (val->kind != VAL_READ || val->read.cont != cont) continue;
            if (!boxed) plan_box(lo, q, root, span);
            boxed = true;
            hull_read(lo, h, m, span, val);
        }
    }
}

static bool in_memory(const Lowering *lo, const Map *m) {
    for (int w = 0; w < m->write.n; w++)
        for (int k = 0; k < m->write.at[w].n; k++)
            if (lo->keep[m->write.at[w].to[k].cont] == KEEP_ARENA) return true;
    return false;
}

static bool uses_loop(const Lowering *lo, Dim d) {
    for (int i = lo->nouter; i < lo->env.n; i++)
        if (dim_uses(d, lo->env.at[i].sym)) return true;
    return false;
}

/* May the loop over all of dim d end early? Not where its iterations are unrolled as they stand, or
 * must be for registers that they index. */
static bool may_end(const Lowering *lo, const MapPlan *plan, int d, const Span *span) {
    bool tiled = false;
    for (int w = 0; w < plan->map->write.n && !map_reduces(plan->map, d); w++)
        for (int k = 0; k < plan->map->write.at[w].n; k++)
            if (lo->keep[plan->map->write.at[w].to[k].cont] == KEEP_REG) return false;
    for (int t = 0; t < plan->tile.n; t++) tiled |= plan->tile.at[t].dim == d;
    return dim_is(span->start, 0) && span->extent == plan->map->dim.at[d].extent &&
           (tiled || !plan->unroll[d]);
}

/* A dim with a constraint that ends it (d <= bound) runs to the largest bound in the box, where the
 * box is never beyond it: loops end there, and what the constraint still cuts off is guarded. */
static void cut_box(Lowering *lo, const MapPlan *plan, Span *box) {
    const Map *m = plan->map;
    DimSubst subst[RANK_MAX * 2];
    Dim local[RANK_MAX * 2];
    for (int i = 0; m->cons.n && i < m->dim.n; i++) {
        local[i] = dim_sym(lo->ctx, internf(lo->ctx, "local.%d", i));
        subst[i] = (DimSubst){m->dim.at[i].sym, dim_add(lo->ctx, box[i].start, local[i])};
    }
    for (int i = 0; i < m->cons.n; i++)
        for (int d = 0; d < m->dim.n; d++) {
            Dim coef, bound;
            if (!dim_affine(lo->ctx, m->cons.at[i], &m->dim.at[d].sym, 1, &coef, &bound)) continue;
            if (!dim_is(coef, -1) || !may_end(lo, plan, d, &box[d])) continue;
            bound = dim_subst(lo->ctx, bound, subst, m->dim.n);
            bound = local_upper(lo, bound, local, box, m->dim.n, false);
            if (!bound) continue;
            DimEnv env = lowering_env(lo);
            Dim extent = dim_addc(lo->ctx, dim_sub(lo->ctx, bound, box[d].start), 1);
            extent = lowering_simplify(lo, dim_min(lo->ctx, extent, box[d].extent));
            if (!dim_ge0(lo->ctx, extent, &env)) continue;
            box[d].extent = extent;
            dim_is_const(extent, &box[d].cap);
        }
}

static void find_box(Lowering *lo, int pos, const Span *root, Span *out);

void plan_box(Lowering *lo, int pos, const Span *root, Span *out) {
    find_box(lo, pos, root, out);
    cut_box(lo, &lo->plan[pos], out);
}

/* All that the consumers read of what `pos` writes; false where none does. */
static bool hull_of_all(Lowering *lo, int pos, const Span *root, const Write **w, Hull *h) {
    const Map *m = lo->plan[pos].map;
    *w = &m->write.at[0];
    h->any = false;
    for (int j = 0; j < m->write.n; j++)
        for (int k = 0; k < m->write.at[j].n; k++) {
            if (!h->any) *w = &m->write.at[j];
            hull_of(lo, pos, m->write.at[j].to[k].cont, root, h);
        }
    return h->any;
}

/* Is a box that begins at `first` one of several along dim d of the container? Also the last one,
 * behind all loops, which names none of their tiles. */
static bool is_cut(Lowering *lo, int pos, Dim first, int d) {
    const Write *w;
    Span all[RANK_MAX * 2];
    Hull h;
    if (uses_loop(lo, first)) return true;
    whole_box(lo, lo->plan[lo->nplan - 1].map, all);
    return hull_of_all(lo, pos, all, &w, &h) && h.lo[d] != first;
}

/* What only others need, of the root's tile: along dims that are tied to the root's. */
static void tied_box(const Lowering *lo, int pos, const Span *root, Span *out) {
    const Map *m = lo->plan[pos].map, *last = lo->plan[lo->nplan - 1].map;
    for (int r = 0; r < last->dim.n; r++) {
        int own = lo->al.at[pos][r];
        if (own >= 0 && m->dim.at[own].extent == last->dim.at[r].extent) out[own] = root[r];
    }
}

/* What is also needed outside the kernel is computed whole along dims that no tile cuts; so are
 * lanes of steps on tiles, of which there may be more than others read, to fill vectors. */
static void find_box(Lowering *lo, int pos, const Span *root, Span *out) {
    const MapPlan *plan = &lo->plan[pos];
    const Map *m = plan->map;
    const Write *w;
    Hull h;
    if (pos == lo->nplan - 1) {
        memcpy(out, root, sizeof(Span) * (size_t)m->dim.n);
        return;
    }
    whole_box(lo, m, out);
    if (!hull_of_all(lo, pos, root, &w, &h)) {
        tied_box(lo, pos, root, out);
        return;
    }
    for (int i = 0; i < m->dim.n; i++)
        for (int d = 0; d < w->to[0].rank; d++) {
            if (w->to[0].at[d] != m->dim.at[i].sym) continue;
            if (in_memory(lo, m) && !is_cut(lo, pos, h.lo[d], d)) continue;
            if (plan->use && i == plan->lane_dim && dim_is(h.lo[d], 0) && !uses_loop(lo, h.hi[d]))
                continue;
            Dim size_cap = hull_size(lo, h.lo_cap[d], h.hi_cap[d]);
            out[i] = (Span){lowering_simplify(lo, h.lo[d]), hull_size(lo, h.lo[d], h.hi[d]), -1};
            dim_is_const(size_cap, &out[i].cap);
        }
}
