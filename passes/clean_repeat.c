/* SPDX-License-Identifier: Apache-2.0 */
/* Sums that are the same along some dims of their results.
 *
 * What is expanded (positions, for each row of a batch) and then multiplied by weights makes equal
 * results. They are made once, and a view repeats them: readers meet the one. */
#include "passes/clean.h"

enum { TERMS_LEAST = 8 }; /* of a sum that is worth a container of its own */

/* Is m a sum of one result for each index, some of whose dims its terms do not use (`repeats`, by
 * dim)? */
static bool finds_repeats(const Flow *flow, const Map *m, bool *repeats) {
    const Write *w = &m->write.at[0];
    double terms = 1;
    int results = 0, n = 0;
    if (m->write.n != 1 || !w->combine || w->n != 1 || m->cons.n) return false;
    for (int d = 0; d < m->dim.n; d++) {
        if (m->dim.at[d].seq) return false;
        repeats[d] = false;
        if (map_reduces(m, d)) {
            terms *= (double)map_usual(flow, m, d);
            continue;
        }
        results++;
        repeats[d] = !body_uses(&m->body, m->dim.at[d].sym) && !dim_is(m->dim.at[d].extent, 1);
        n += repeats[d];
    }
    return n && results <= RANK_MAX && terms >= TERMS_LEAST;
}

static void drop_dims(Map *m, const bool *repeats) {
    int n = 0;
    for (int d = 0; d < m->dim.n; d++)
        if (!repeats[d]) m->dim.at[n++] = m->dim.at[d];
    m->dim.n = n;
}

bool make_once(Editing *c, int map) {
    Flow *flow = c->flow;
    Map *m = flow->map.at[map];
    bool repeats[MAP_DIMS];
    if (!finds_repeats(flow, m, repeats)) return false;
    const Access to = m->write.at[0].to[0];
    const char *name = internf(flow->ctx, "%s.once", flow->cont.at[to.cont].name);
    Items made = {0};
    Map *view = flow_map(flow, &made, name, m->from);
    DimSubst subst[RANK_MAX];
    Dim shape[RANK_MAX], read[RANK_MAX], at[RANK_MAX], *own = NEW_ARRAY(c->arena, Dim, RANK_MAX);
    int rank = 0, n = 0;
    for (int d = 0; d < m->dim.n; d++) {
        const MapDim *dim = &m->dim.at[d];
        if (map_reduces(m, d)) continue;
        Dim mine = map_dim(flow, view, dim_sym_name(dim->sym), dim->extent);
        subst[n++] = (DimSubst){dim->sym, mine};
        if (repeats[d]) continue;
        shape[rank] = dim->extent, read[rank] = mine;
        own[rank++] = dim->sym;
    }
    int once = flow_cont(flow, name, CONT_TMP, flow->cont.at[to.cont].type, shape, rank);
    for (int k = 0; k < to.rank; k++) at[k] = dim_subst(flow->ctx, to.at[k], subst, n);
    map_write(flow, view, to.cont, at, map_read(flow, view, once, read), NULL);
    Access all = {once, rank, own};
    m->write.at[0].to = arena_copy(c->arena, &all, sizeof all);
    drop_dims(m, repeats);
    items_insert_beside(flow, &flow->body, map, true, &made);
    return true;
}
