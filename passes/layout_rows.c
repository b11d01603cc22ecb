/* SPDX-License-Identifier: Apache-2.0 */
/* Weights of products of one row, on a machine of blocks of threads.
 *
 * Such a product reads every weight once, so all that counts is how much is under way. With columns
 * side by side a block takes a few of them and all terms: a narrow product makes fewer blocks than
 * there are cores. With the terms of a result side by side, warps take results, each its own row of
 * memory: weights [k,n] are stored as (n, k). */
#include "passes/layout.h"

/* The dim of the sum, when the product is of one row and one sum; else -1. */
static int only_sum(const Map *m, const Contraction *r) {
    int sum = -1;
    for (int d = 0; d < m->dim.n; d++) {
        if (r->role[d] == ROLE_N || map_extent(m, d, 0) == 1) continue;
        if (r->role[d] != ROLE_K || sum >= 0) return -1;
        sum = d;
    }
    return sum;
}

/* The index of the weights that runs along the sum and should be the innermost, or -1. */
static int row_index(const Layouts *l, const Map *m, const Contraction *r) {
    const Machine *machine = l->env->machine;
    const Val *val = &m->body.val.at[r->b];
    const Cont *c = &l->flow->cont.at[val->read.cont];
    int d = only_sum(m, r);
    if (d < 0 || c->kind != CONT_PARAM || c->layout || val->has_else || dtype_bits(c->type) < 8)
        return -1;
    int64_t least = (int64_t)machine->warp * machine->vector_bytes,
            step = access_stride(l->flow, m, &val->read, d, 1);
    if (step == 1 || step == INT64_MAX || dtype_bytes(c->type, map_extent(m, d, 0)) < least)
        return -1;
    for (int k = 0; k < val->read.rank; k++)
        if (access_dim(m, &val->read, k) == d) return k;
    return -1;
}

void layout_rows(Layouts *l) {
    static const char *const words[] = {"columns", "rows", NULL};
    layouts_survey(l);
    for (int i = 0; i < l->flow->map.n; i++) {
        Map *m = l->flow->map.at[i];
        Contraction r = map_contraction(l->flow, m);
        int k = r.is ? row_index(l, m, &r) : -1;
        const char *name = internf(l->flow->ctx, "%s.weights", m->name);
        if (k < 0 || !recipe_decide(l->env, "layout", name, words, true)) continue;
        Access *weights = &m->body.val.at[r.b].read;
        Cont c = l->flow->cont.at[weights->cont];
        c.layout = layout_stored_last(l, &c, k);
        weights->cont = layout_weights(l, weights->cont, &c);
    }
}
