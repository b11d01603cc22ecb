/* SPDX-License-Identifier: Apache-2.0 */
/* Products in parts, recognized by how two maps' accesses meet. */
#include "passes/parts.h"

/* The plain write of a sum into a temporary, of type t; or NULL. */
static const Access *sum_of(const Flow *flow, const Map *m, DType t) {
    if (m->cons.n || m->write.n != 1 || m->write.at[0].n != 1 || !map_is_reduction(m)) return NULL;
    const Combine *c = m->write.at[0].combine;
    const Access *to = &m->write.at[0].to[0];
    if (c->simple != P_ADD || c->type[0] != t) return NULL;
    for (int k = 0; k < to->rank; k++)
        if (access_dim(m, to, k) < 0 && !dim_is(flow->cont.at[to->cont].shape[k], 1)) return NULL;
    return to;
}

/* The read of the container in m, if it meets each element once and none outside; or NULL. */
static const Access *read_once(const Map *m, int cont) {
    int v = 0;
    while (m->body.val.at[v].kind != VAL_READ || m->body.val.at[v].read.cont != cont) v++;
    const Val *val = &m->body.val.at[v];
    bool once = !val->has_else && !access_by_value(m, &val->read) && access_covers(m, &val->read);
    return once ? &val->read : NULL;
}

int parts_adder(const Flow *flow, const IntVec *readers, int product, bool *part) {
    const Map *p = flow->map.at[product];
    const Access *to = sum_of(flow, p, I32);
    if (!to || flow->cont.at[to->cont].kind != CONT_TMP || readers[to->cont].n != 1) return -1;
    Contraction r = map_contraction(flow, p);
    if (!r.is) return -1;
    int adder = readers[to->cont].at[0];
    const Map *a = adder < 0 ? NULL : flow->map.at[adder];
    const Access *from = a && sum_of(flow, a, F32) ? read_once(a, to->cont) : NULL;
    if (!from) return -1;
    bool any = false, marks[MAP_DIMS] = {false};
    for (int k = 0; k < to->rank; k++) {
        int d = access_dim(p, to, k), own = access_dim(a, from, k);
        if (d < 0) continue;
        if (own < 0) return -1;
        any |= marks[d] = map_reduces(a, own);
        if (marks[d] && r.role[d] != ROLE_BATCH) return -1; /* tiles have several rows */
    }
    if (!any) return -1;
    for (int d = 0; d < p->dim.n; d++) part[d] = marks[d];
    return adder;
}
