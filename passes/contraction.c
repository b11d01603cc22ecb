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
