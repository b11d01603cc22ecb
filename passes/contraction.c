/* SPDX-License-Identifier: Apache-2.0 */
/* Sizes of a contraction by what its dims are (ir/contract.c). */
#include "passes/access.h"

double contraction_rows(const Map *m, const Contraction *r, int64_t otherwise) {
    double rows = 1;
    for (int d = 0; d < m->dim.n; d++)
        if (r->role[d] == ROLE_M) rows *= (double)map_extent(m, d, otherwise);
    return rows;
}

double contraction_usual(const Flow *flow, const Map *m, const Contraction *r, DimRole role) {
    double n = 1;
    for (int d = 0; d < m->dim.n; d++)
        if (r->role[d] == role) n *= (double)map_usual(flow, m, d);
    return n;
}

int contraction_longest(const Map *m, const Contraction *r, DimRole role) {
    int longest = -1;
    for (int d = 0; d < m->dim.n; d++)
        if (r->role[d] == role && (longest < 0 || map_extent(m, d, 0) > map_extent(m, longest, 0)))
            longest = d;
    return longest;
}

bool access_counts(const Flow *flow, const Map *m, const Access *a, int groups, int channel) {
    const MapDim *group = &m->dim.at[groups], *dim = &m->dim.at[channel];
    Dim place = dim_add(flow->ctx, dim->sym, dim_mul(flow->ctx, group->sym, dim->extent));
    int found = 0;
    for (int k = 0; k < a->rank; k++) {
        bool uses = dim_uses(a->at[k], group->sym) || dim_uses(a->at[k], dim->sym);
        if (uses && a->at[k] != place) return false;
        found += uses;
    }
    return found == 1;
}

bool access_repeats(const Flow *flow, const Map *m, const Access *a) {
    const Cont *x = &flow->cont.at[a->cont];
    double all = 1, read = 1;
    for (int k = 0; k < x->rank; k++) all *= (double)usual_extent(flow, x->shape[k]);
    for (int d = 0; d < m->dim.n; d++)
        if (access_uses(m, a, d)) read *= (double)map_usual(flow, m, d);
    return read > all;
}

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
