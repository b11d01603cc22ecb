/* SPDX-License-Identifier: Apache-2.0 */
/* Pass `reassociate`: reductions in another order, where that changes no bit.
 *
 * A reduction of much to little (the greatest element of a tensor) has no result dim that threads
 * could share or that a producer's rows could be tied to. Along its first reduced dim it is done in
 * two steps, results for each index first; on a machine of blocks of threads the second one stands
 * where its result is needed, so that rows behind may go with those of the first. And a large
 * window is taken along rows, then along columns: r + s elements a result instead of r * s. Only
 * combines that round nothing are touched: least and greatest, logic, and integers that wrap. */
#include "passes/access.h"

enum { LITTLE = 64, MUCH = 16384, ROW = 128 };
static const int64_t unknown_extent = 64;

static bool rounds_nothing(const Combine *c) {
    if (c->nstate != 1 || c->finish.val.n || !c->associative || !c->commutative) return false;
    bool order = c->simple == P_MIN || c->simple == P_MAX || c->simple == P_AND ||
                 c->simple == P_OR || c->simple == P_XOR;
    return order || (!dtype_is_float(c->type[0]) && c->simple == P_ADD);
}

/* ---- much to little ------------------------------------------------------------------------- */

/* The dim to keep in the first step: the first reduced one, when a row is left to reduce behind it;
 * -1: leave the map alone. */
static int dim_to_keep(const Flow *flow, const Map *m) {
    double results = 1, volume = map_volume(m, unknown_extent);
    int first = -1, nresult = 0;
    if (m->write.n != 1 || m->write.at[0].n != 1 || m->cons.n || !map_is_reduction(m)) return -1;
    const Write *w = &m->write.at[0];
    if (!rounds_nothing(w->combine) || flow->cont.at[w->to[0].cont].type != w->combine->type[0])
        return -1;
    for (int d = 0; d < m->dim.n; d++) {
        int64_t extent = map_extent(m, d, unknown_extent);
        if (m->dim.at[d].seq) return -1;
        if (!map_reduces(m, d)) results *= (double)extent, nresult++;
        if (map_reduces(m, d) && first < 0 && extent > 1) first = d;
    }
    if (first < 0 || nresult == RANK_MAX || results > LITTLE || volume < MUCH) return -1;
    int64_t kept = map_extent(m, first, unknown_extent);
    return kept >= 4 && volume / (double)kept / results >= ROW ? first : -1;
}

/* Results for each index of the kept dim, then those of all. What is between has the map's own
 * dims: the target may have others, as one row for each iteration of a loop around. */
static void split_reduction(Flow *flow, Map *m, int keep, Items *into) {
    const Access to = m->write.at[0].to[0];
    const Cont *c = &flow->cont.at[to.cont];
    const char *name = internf(flow->ctx, "%s.part", c->name);
    DType type = c->type;
    Map *second = flow_map(flow, into, internf(flow->ctx, "%s.all", m->name), m->from);
    DimSubst subst[RANK_MAX];
    Dim shape[RANK_MAX], own[RANK_MAX], at[RANK_MAX], *part = NEW_ARRAY(flow->arena, Dim, RANK_MAX);
    int n = 1;
    for (int d = 0; d < m->dim.n; d++) {
        const MapDim *dim = &m->dim.at[d];
        if (map_reduces(m, d) && d != keep) continue;
        int k = d == keep ? 0 : n++;
        part[k] = dim->sym, shape[k] = dim->extent;
        own[k] = map_dim(flow, second, dim_sym_name(dim->sym), dim->extent);
        subst[k] = (DimSubst){dim->sym, own[k]};
    }
    int partial = flow_cont(flow, name, CONT_TMP, type, shape, n);
    for (int k = 0; k < to.rank; k++) at[k] = dim_subst(flow->ctx, to.at[k], subst, n);
    map_write(flow, second, to.cont, at, map_read(flow, second, partial, own),
              m->write.at[0].combine);
    m->write.at[0].to = arena_copy(flow->arena, &(Access){partial, n, part}, sizeof(Access));
}

/* ---- windows -------------------------------------------------------------------------------- */

/* A window over two dims: its reduced dim `tap` slides along result dim `row` in index `at` of the
 * map's only read, and neither stands in another one. */
typedef struct Slide {
    int row, tap, at;
} Slide;

/* The only index of the access that uses dim d, or -1. */
static int only_index(const Map *m, const Access *a, int d) {
    int only = -1;
    for (int k = 0; k < a->rank; k++) {
        if (!dim_uses(a->at[k], m->dim.at[d].sym)) continue;
        if (only >= 0) return -1;
        only = k;
    }
    return only;
}

static bool find_slide(const Map *m, const Access *a, int tap, Slide *s) {
    *s = (Slide){-1, tap, only_index(m, a, tap)};
    for (int d = 0; s->at >= 0 && d < m->dim.n; d++) {
        if (d == tap || !dim_uses(a->at[s->at], m->dim.at[d].sym)) continue;
        if (s->row >= 0 || map_reduces(m, d) || only_index(m, a, d) != s->at) return false;
        s->row = d;
    }
    return s->row >= 0;
}

/* Is m a window over two dims of one operand, whose first is worth a step of its own? */
static bool splits_window(const Flow *flow, const Map *m, Slide *s) {
    if (m->write.n != 1 || m->write.at[0].n != 1 || m->cons.n || m->dim.n > RANK_MAX) return false;
    const Write *w = &m->write.at[0];
    const Val *v = &m->body.val.at[w->val[0]];
    if (!w->combine || !rounds_nothing(w->combine) || v->kind != VAL_READ ||
        access_by_value(m, &v->read) || v->type != w->combine->type[0] ||
        flow->cont.at[w->to[0].cont].type != v->type)
        return false;
    Bits none;
    if (v->has_else &&
        (!body_const_bits(&m->body, v->arg[0], &none) || none != w->combine->identity[0]))
        return false;
    int tap[2], n = 0;
    for (int d = 0; d < m->dim.n; d++) {
        if (m->dim.at[d].seq) return false;
        if (!map_reduces(m, d)) continue;
        if (n == 2) return false;
        tap[n++] = d;
    }
    Slide other;
    if (n != 2 || !find_slide(m, &v->read, tap[0], s) || !find_slide(m, &v->read, tap[1], &other))
        return false;
    int64_t r = map_extent(m, tap[0], 0), t = map_extent(m, tap[1], 0);
    int64_t rows = map_extent(m, s->row, 0),
            from = extent_or(flow->cont.at[v->read.cont].shape[s->at], INT32_MAX);
    return s->at != other.at && r * t * rows >= 2 * (r * rows + t * from);
}

/* The read of a window's map in a map with other dims, the index of the slide replaced or not. */
static int read_window(const Flow *flow, const Map *m, Map *into, const DimSubst *subst, int n,
                       const Access *from) {
    const Val *v = &m->body.val.at[m->write.at[0].val[0]];
    Dim *at = NEW_ARRAY(flow->arena, Dim, from->rank + 1);
    for (int k = 0; k < from->rank; k++) at[k] = dim_subst(flow->ctx, from->at[k], subst, n);
    Access a = {from->cont, from->rank, at};
    if (!v->has_else) return body_read(&into->body, a, v->type);
    int none = body_bits(&into->body, v->type, m->write.at[0].combine->identity[0]);
    return body_read_else(&into->body, a, v->type, none);
}

/* Two maps instead of m: along the other dim for every row of the operand, then along the slide's.
 */
static void split_window(Flow *flow, const Map *m, const Slide *s, Items *into) {
    const Write w = m->write.at[0];
    const Access from = m->body.val.at[w.val[0]].read;
    Dim shape[RANK_MAX], partial[RANK_MAX], index[RANK_MAX], at[RANK_MAX];
    DimSubst subst[2][MAP_DIMS];
    int n[2] = {0, 0}, rank = 0;
    Map *first = flow_map(flow, into, internf(flow->ctx, "%s.rows", m->name), m->from);
    Map *second = flow_map(flow, into, internf(flow->ctx, "%s.columns", m->name), m->from);
    for (int d = 0; d < m->dim.n; d++) {
        const MapDim *dim = &m->dim.at[d];
        const char *name = dim_sym_name(dim->sym);
        bool slides = d == s->row, result = !map_reduces(m, d);
        Dim extent = slides ? flow->cont.at[from.cont].shape[s->at] : dim->extent, mine;
        if (result || d == s->tap)
            subst[1][n[1]++] = (DimSubst){dim->sym, map_dim(flow, second, name, dim->extent)};
        if (d == s->tap) continue;
        mine = map_dim(flow, first, name, extent);
        subst[0][n[0]++] = (DimSubst){dim->sym, mine};
        if (!result) continue;
        shape[rank] = extent, partial[rank] = mine;
        index[rank++] = slides ? from.at[s->at] : dim->sym;
    }
    int cont = flow_cont(flow, internf(flow->ctx, "%s.rows", m->name), CONT_TMP, w.combine->type[0],
                         shape, rank);
    Dim row[RANK_MAX];
    for (int k = 0; k < from.rank; k++) row[k] = k == s->at ? m->dim.at[s->row].sym : from.at[k];
    Access rows = {from.cont, from.rank, row};
    map_write(flow, first, cont, partial, read_window(flow, m, first, subst[0], n[0], &rows),
              w.combine);
    Access columns = {cont, rank, index};
    for (int k = 0; k < w.to[0].rank; k++)
        at[k] = dim_subst(flow->ctx, w.to[0].at[k], subst[1], n[1]);
    map_write(flow, second, w.to[0].cont, at,
              read_window(flow, m, second, subst[1], n[1], &columns), w.combine);
}

/* ---- the pass ------------------------------------------------------------------------------- */

/* Second steps that nothing has needed so far. */
typedef struct Waiting {
    Flow *flow;
    Items late;
} Waiting;

static bool map_uses(const Map *m, int cont) {
    return map_reads(m, cont) || map_writes(m, cont);
}

/* All of them come in front of an item that is no map, or uses what one makes; NULL: of the end. */
static void bring(Waiting *w, const Item *next, Items *out) {
    bool needed = !next || next->kind != ITEM_MAP;
    for (int i = 0; i < w->late.n && !needed; i++) {
        const Map *late = w->flow->map.at[w->late.at[i].map];
        needed = map_uses(w->flow->map.at[next->map], late->write.at[0].to[0].cont);
    }
    for (int i = 0; needed && i < w->late.n; i++) vec_push(w->flow->arena, out, w->late.at[i]);
    if (needed) w->late.n = 0;
}

static void reassociate_items(Flow *flow, const Machine *machine, Items *items) {
    Items out = {0};
    Waiting wait = {.flow = flow};
    for (int i = 0; i < items->n; i++) {
        Item it = items->at[i];
        reassociate_items(flow, machine, &it.body);
        reassociate_items(flow, machine, &it.other);
        Slide slide;
        Map *m = it.kind == ITEM_MAP ? flow->map.at[it.map] : NULL;
        if (m && !machine->block_threads && splits_window(flow, m, &slide)) {
            split_window(flow, m, &slide, &out);
            continue;
        }
        bring(&wait, &it, &out);
        vec_push(flow->arena, &out, it);
        if (!m) continue;
        int keep = dim_to_keep(flow, m);
        if (keep >= 0) split_reduction(flow, m, keep, machine->block_threads ? &wait.late : &out);
    }
    bring(&wait, NULL, &out);
    *items = out;
}

Flow *pass_reassociate(Arena *arena, const Flow *flow, const PassEnv *env);
Flow *pass_reassociate(Arena *arena, const Flow *flow, const PassEnv *env) {
    Flow *out = flow_clone(arena, flow);
    reassociate_items(out, env->machine, &out->body);
    flow_compact(out);
    return out;
}
