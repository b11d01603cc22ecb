/* SPDX-License-Identifier: Apache-2.0 */
#include "passes/operand.h"

/* The dims that the operand uses, as they follow one another in its copy. */
static int copied_dims(const OperandCopy *c, int *order) {
    int n = 0;
    for (int d = 0; d < c->of->dim.n; d++)
        if (d != c->k && d != c->lane && access_uses(c->of, &c->read, d)) order[n++] = d;
    order[n++] = c->k;
    if (c->lane >= 0) order[n++] = c->lane;
    return n;
}

Access operand_copy(Flow *flow, const OperandCopy *c, const char *suffix, Items *into) {
    const Access *a = &c->read;
    Dim own[MAP_DIMS], shape[MAP_DIMS], *at = NEW_ARRAY(flow->arena, Dim, a->rank);
    Dim *out = NEW_ARRAY(flow->arena, Dim, MAP_DIMS);
    DimSubst subst[MAP_DIMS];
    int order[MAP_DIMS], n = copied_dims(c, order);
    bool more = false;
    const Cont x = flow->cont.at[a->cont];
    const char *name = internf(flow->ctx, "%s.%s", x.name, suffix);
    Map *copy = flow_map(flow, into, name, x.from);
    for (int i = 0; i < n; i++) {
        const MapDim *dim = &c->of->dim.at[order[i]];
        out[i] = dim->sym, shape[i] = dim->extent;
        if (order[i] == c->k) shape[i] = c->terms;
        if (order[i] == c->lane && c->lanes) shape[i] = c->lanes;
        more |= shape[i] != dim->extent;
        own[i] = map_dim(flow, copy, dim_sym_name(dim->sym), shape[i]);
        subst[i] = (DimSubst){dim->sym, own[i]};
    }
    for (int k = 0; k < a->rank; k++) at[k] = dim_subst(flow->ctx, a->at[k], subst, n);
    int to = flow_cont(flow, name, CONT_TMP, c->type, shape, n);
    int value = more ? map_read_else(flow, copy, a->cont, at, body_const(&copy->body, x.type, 0))
                     : map_read(flow, copy, a->cont, at);
    map_write(flow, copy, to, own, body_cvt(&copy->body, c->type, value), NULL);
    return (Access){to, n, out};
}

bool read_beyond(const Flow *flow, const IntVec *readers, int cont) {
    for (int i = 0; i < readers->n; i++) {
        const Map *m = flow->map.at[readers->at[i]];
        for (int v = 0; v < m->body.val.n; v++) {
            const Val *val = &m->body.val.at[v];
            if (val->kind == VAL_READ && val->read.cont == cont &&
                (val->has_else || access_by_value(m, &val->read)))
                return true;
        }
    }
    return false;
}

int access_whole(const Flow *flow, const Map *m, const Access *a, int d) {
    int k = access_plain(m, a, d);
    return k >= 0 && flow->cont.at[a->cont].shape[k] == m->dim.at[d].extent ? k : -1;
}
