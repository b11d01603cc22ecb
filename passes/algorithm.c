/* SPDX-License-Identifier: Apache-2.0 */
/* Pass `algorithm`: the same sums in fewer products.
 *
 * Convolutions by small windows go tile by tile (Winograd, algorithm_tiles.c), products of matrices
 * by quarters (Strassen, algorithm_quarters.c): sums and differences of operands, fewer products of
 * these, and sums and differences of the products, each a map. What depends on weights alone the
 * constant part computes. Maps are recognized by their accesses (ir/contract.c). */
#include "passes/algorithm.h"

void making_map(Making *m, const char *what) {
    Ctx *ctx = m->flow->ctx;
    m->map = flow_map(m->flow, m->into, internf(ctx, "%s.%s", m->of->name, what), m->of->from);
    m->nsubst = m->rank = 0;
}

void making_index(Making *m, Dim at, Dim extent) {
    m->at[m->rank] = at;
    m->shape[m->rank++] = extent;
}

void making_dim(Making *m, int d) {
    const MapDim *dim = &m->of->dim.at[d];
    Dim mine = map_dim(m->flow, m->map, dim_sym_name(dim->sym), dim->extent);
    m->subst[m->nsubst++] = (DimSubst){dim->sym, mine};
    making_index(m, mine, dim->extent);
}

void making_dims(Making *m, DimRole role) {
    for (int d = 0; d < m->of->dim.n; d++)
        if (m->role[d] == role) making_dim(m, d);
}

int making_cont(const Making *m, const char *what) {
    const char *name = internf(m->flow->ctx, "%s.%s", m->of->name, what);
    return flow_cont(m->flow, name, CONT_TMP, F32, m->shape, m->rank);
}

static void rewrite_items(Flow *flow, const PassEnv *env, Items *items) {
    Items out = {0};
    for (int i = 0; i < items->n; i++) {
        Item it = items->at[i];
        rewrite_items(flow, env, &it.body);
        rewrite_items(flow, env, &it.other);
        const Map *map = it.kind == ITEM_MAP ? flow->map.at[it.map] : NULL;
        if (!map ||
            !(rewrite_in_tiles(flow, env, map, &out) || rewrite_in_quarters(flow, env, map, &out)))
            vec_push(flow->arena, &out, it);
    }
    *items = out;
}

Flow *pass_algorithm(Arena *arena, const Flow *flow, const PassEnv *env);
Flow *pass_algorithm(Arena *arena, const Flow *flow, const PassEnv *env) {
    Flow *out = flow_clone(arena, flow);
    if (env->math == MATH_STRICT) return out;
    rewrite_items(out, env, &out->body);
    flow_compact(out);
    return out;
}
