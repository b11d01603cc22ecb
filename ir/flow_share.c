/* SPDX-License-Identifier: Apache-2.0 */
/* What a caller may do with memory: rows to spare in an input or output, and an output bound to the
 * input that it continues. */
#include "flow.h"

int flow_spare(const Flow *flow, Dim sym, int *dim) {
    for (int i = 0; i < flow->cont.n; i++) {
        const Cont *c = &flow->cont.at[i];
        if ((c->kind != CONT_IN && c->kind != CONT_OUT) || !c->layout || c->layout->rank != c->rank)
            continue;
        for (int k = 0; k < c->rank; k++) {
            if (dim_uses(c->shape[k], sym) ||
                c->layout->box[k] != dim_add(flow->ctx, c->shape[k], sym))
                continue;
            *dim = k;
            return i;
        }
    }
    return -1;
}

int flow_shared(const Flow *flow, Dim sym) {
    for (int i = 0; i < flow->alias.n; i++)
        if (flow->alias.at[i].when && dim_uses(flow->alias.at[i].when, sym)) return i;
    return -1;
}

/* Index k of both accesses is the same, and the map runs over all of it. */
static bool copies_whole(const Map *m, const Access *from, const Access *to, const Cont *c, int k) {
    if (from->at[k] != to->at[k]) return false;
    if (dim_is(from->at[k], 0)) return dim_is(c->shape[k], 1);
    for (int d = 0; d < m->dim.n; d++)
        if (m->dim.at[d].sym == from->at[k]) return m->dim.at[d].extent == c->shape[k];
    return false;
}

bool flow_carries_over(const Flow *flow, const Map *m, int *from, int *to, int *dim) {
    const Val *val = m->body.val.n == 1 ? &m->body.val.at[0] : NULL;
    if (!val || val->kind != VAL_READ || val->has_else || m->cons.n || m->write.n != 1 ||
        m->write.at[0].combine || m->write.at[0].n != 1)
        return false;
    const Access *read = &val->read, *write = &m->write.at[0].to[0];
    const Cont *x = &flow->cont.at[read->cont], *y = &flow->cont.at[write->cont];
    int longer = 0;
    if (x->kind != CONT_IN || y->kind != CONT_OUT || x->type != y->type || x->rank != y->rank ||
        dtype_bits(x->type) < 8)
        return false;
    for (int k = 0; k < x->rank; k++) {
        if (!copies_whole(m, read, write, x, k)) return false;
        for (int i = 0; i < k; i++)
            if (read->at[i] == read->at[k] && !dim_is(read->at[k], 0)) return false;
        if (x->shape[k] == y->shape[k]) continue;
        *dim = k;
        longer++;
    }
    *from = read->cont;
    *to = write->cont;
    return longer == 1;
}
