/* SPDX-License-Identifier: Apache-2.0 */
/* Pass `reassociate`: reductions in another order, where that changes no bit.
 *
 * A reduction of much to little (the greatest element of a tensor) has no result dim that threads
 * could share or that a producer's rows could be tied to. Along its first reduced dim it is done in
 * two steps, results for each index first. Only combines that round nothing are touched: least and
 * greatest, logic, and integers that wrap. */
#include "passes/access.h"

enum { LITTLE = 64, MUCH = 16384, ROW = 128 };
static const int64_t unknown_extent = 64;

static bool rounds_nothing(const Combine *c) {
    if (c->nstate != 1 || c->finish.val.n || !c->associative || !c->commutative) return false;
    bool order = c->simple == P_MIN || c->simple == P_MAX || c->simple == P_AND ||
                 c->simple == P_OR || c->simple == P_XOR;
    return order || (!dtype_is_float(c->type[0]) && c->simple == P_ADD);
}

/* The dim to keep in the first step: the first reduced one, when a row is left to reduce behind it;
 * -1: leave the map alone. */
static int dim_to_keep(const Flow *flow, const Map *m) {
    double results = 1, volume = map_volume(m, unknown_extent);
    int first = -1;
    if (m->write.n != 1 || m->write.at[0].n != 1 || m->cons.n || !map_is_reduction(m)) return -1;
    const Write *w = &m->write.at[0];
    if (!rounds_nothing(w->combine) || flow->cont.at[w->to[0].cont].type != w->combine->type[0])
        return -1;
    if (w->to[0].rank == RANK_MAX) return -1;
    for (int d = 0; d < m->dim.n; d++) {
        int64_t extent = map_extent(m, d, unknown_extent);
        if (m->dim.at[d].seq) return -1;
        if (!map_reduces(m, d)) results *= (double)extent;
        if (map_reduces(m, d) && first < 0 && extent > 1) first = d;
    }
    if (first < 0 || results > LITTLE || volume < MUCH) return -1;
    int64_t kept = map_extent(m, first, unknown_extent);
    return kept >= 4 && volume / (double)kept / results >= ROW ? first : -1;
}

/* The second step: results over the kept dim. */
static void add_second(Flow *flow, const Map *m, int keep, const Access *to, int partial,
                       Items *into) {
    Map *second = flow_map(flow, into, internf(flow->ctx, "%s.all", m->name), m->from);
    DimSubst subst[MAP_DIMS];
    Dim from[RANK_MAX], at[RANK_MAX];
    int n = 0;
    for (int d = 0; d < m->dim.n; d++) {
        const MapDim *dim = &m->dim.at[d];
        if (map_reduces(m, d) && d != keep) continue;
        Dim mine = map_dim(flow, second, dim_sym_name(dim->sym), dim->extent);
        subst[n++] = (DimSubst){dim->sym, mine};
        if (d == keep) from[0] = mine;
    }
    for (int k = 0; k < to->rank; k++)
        from[k + 1] = at[k] = dim_subst(flow->ctx, to->at[k], subst, n);
    int value = map_read(flow, second, partial, from);
    map_write(flow, second, to->cont, at, value, m->write.at[0].combine);
}

static void split_reduction(Flow *flow, Map *m, int keep, Items *into) {
    const Access to = m->write.at[0].to[0];
    const Cont *c = &flow->cont.at[to.cont];
    Dim shape[RANK_MAX], *at = NEW_ARRAY(flow->arena, Dim, to.rank + 1);
    shape[0] = m->dim.at[keep].extent, at[0] = m->dim.at[keep].sym;
    for (int k = 0; k < to.rank; k++) shape[k + 1] = c->shape[k], at[k + 1] = to.at[k];
    int partial = flow_cont(flow, internf(flow->ctx, "%s.part%d", c->name, flow->cont.n), CONT_TMP,
                            c->type, shape, to.rank + 1);
    add_second(flow, m, keep, &to, partial, into);
    Access *part = NEW(flow->arena, Access);
    *part = (Access){partial, to.rank + 1, at};
    m->write.at[0].to = part;
}

static void reassociate_items(Flow *flow, Items *items) {
    Items out = {0};
    for (int i = 0; i < items->n; i++) {
        Item it = items->at[i];
        reassociate_items(flow, &it.body);
        reassociate_items(flow, &it.other);
        vec_push(flow->arena, &out, it);
        if (it.kind != ITEM_MAP) continue;
        Map *m = flow->map.at[it.map];
        int keep = dim_to_keep(flow, m);
        if (keep >= 0) split_reduction(flow, m, keep, &out);
    }
    *items = out;
}

Flow *pass_reassociate(Arena *arena, const Flow *flow, const PassEnv *env);
Flow *pass_reassociate(Arena *arena, const Flow *flow, const PassEnv *env) {
    (void)env;
    Flow *out = flow_clone(arena, flow);
    reassociate_items(out, &out->body);
    flow_compact(out);
    return out;
}
