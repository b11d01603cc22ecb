/* SPDX-License-Identifier: Apache-2.0 */
/* Pass `reassociate`: reductions in another order, where that changes no bit.
 *
 * A reduction of much to little (the greatest element of a tensor) has no result dim that threads
 * could share or that a producer's rows could be tied to. Along its first reduced dim it is done in
 * two steps, results for each index first; on a machine of blocks of threads the second one stands
 * where its result is needed, so that rows behind may go with those of the first. Only combines
 * that round nothing are touched: least and greatest, logic, and integers that wrap. */
#include "passes/access.h"

enum { LITTLE = 64, MUCH = 16384, ROW = 128 };
static const int64_t unknown_extent = 64;

/* ---- much to little ------------------------------------------------------------------------- */

/* The dim to keep in the first step: the first reduced one, when a row is left to reduce behind it;
 * -1: leave the map alone. */
static int dim_to_keep(const Flow *flow, const Map *m) {
    double results = 1, volume = map_volume(m, unknown_extent);
    int first = -1, nresult = 0;
    if (m->write.n != 1 || m->write.at[0].n != 1 || m->cons.n || !map_is_reduction(m)) return -1;
    const Write *w = &m->write.at[0];
    if (!combine_rounds_nothing(w->combine) ||
        flow->cont.at[w->to[0].cont].type != w->combine->type[0])
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
        Map *m = it.kind == ITEM_MAP ? flow->map.at[it.map] : NULL;
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
