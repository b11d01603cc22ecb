/* SPDX-License-Identifier: Apache-2.0 */
/* Pass `algorithm`: the same sums in fewer products.
 *
 * Convolutions by small windows go tile by tile (Winograd, algorithm_tiles.c), products of matrices
 * by quarters (Strassen, algorithm_quarters.c): sums and differences of operands, fewer products of
 * these, and sums and differences of the products, each a map. What depends on weights alone the
 * constant part computes. Maps are recognized by their accesses (ir/contract.c). */
#include "passes/algorithm.h"

#include "passes/prepare.h"

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

void making_at(const Making *m, const Access *a, int more, Dim *at) {
    for (int k = 0; k < a->rank; k++)
        at[k] = dim_subst(m->flow->ctx, a->at[k], m->subst, m->nsubst + more);
}

void making_result(Making *m, int value) {
    const Access *to = &m->of->write.at[0].to[0];
    Dim at[RANK_MAX];
    making_at(m, to, 0, at);
    value = body_cvt(&m->map->body, m->flow->cont.at[to->cont].type, value);
    map_write(m->flow, m->map, to->cont, at, value, NULL);
}

/* ---- maps that compute the same ----------------------------------------------------------------
 */

static bool same_access(Ctx *ctx, const Access *a, const Access *b, const DimSubst *subst, int n) {
    bool same = a->rank == b->rank;
    for (int k = 0; same && k < a->rank; k++) same = a->at[k] == dim_subst(ctx, b->at[k], subst, n);
    return same;
}

static bool same_val(const Flow *flow, const Val *a, const Val *b, const DimSubst *subst, int n) {
    bool same = a->kind == b->kind && a->type == b->type && a->prim == b->prim &&
                a->bits == b->bits && a->has_else == b->has_else;
    for (int i = 0; i < 3; i++) same &= a->arg[i] == b->arg[i];
    if (same && a->kind == VAL_INDEX) return a->index == dim_subst(flow->ctx, b->index, subst, n);
    if (!same || a->kind != VAL_READ) return same;
    return a->read.cont == b->read.cont && flow->cont.at[a->read.cont].kind != CONT_STATE &&
           same_access(flow->ctx, &a->read, &b->read, subst, n);
}

/* Do both maps write the same, but for the container? A state may have changed between them. */
static bool same_map(const Flow *flow, const Map *a, const Map *b) {
    DimSubst subst[MAP_DIMS];
    int n = a->dim.n;
    bool same = n == b->dim.n && a->body.val.n == b->body.val.n && a->write.n == b->write.n &&
                !a->cons.n && !b->cons.n;
    for (int d = 0; same && d < n; d++) {
        subst[d] = (DimSubst){b->dim.at[d].sym, a->dim.at[d].sym};
        same = a->dim.at[d].extent == b->dim.at[d].extent;
    }
    for (int v = 0; same && v < a->body.val.n; v++)
        same = same_val(flow, &a->body.val.at[v], &b->body.val.at[v], subst, n);
    for (int i = 0; same && i < a->write.n; i++) {
        const Write *x = &a->write.at[i], *y = &b->write.at[i];
        same = x->n == 1 && y->n == 1 && x->combine == y->combine && x->val[0] == y->val[0] &&
               same_access(flow->ctx, &x->to[0], &y->to[0], subst, n);
    }
    return same;
}

int making_once(Making *m, int cont) {
    Flow *flow = m->flow;
    for (int i = 0; i < m->into->n - 1; i++) {
        const Item *it = &m->into->at[i];
        Map *map = it->kind == ITEM_MAP ? flow->map.at[it->map] : NULL;
        if (!map || !same_map(flow, map, m->map)) continue;
        map->from = from_join(flow->ctx, map->from, m->map->from);
        m->into->n--;
        flow->cont.n--;
        return map->write.at[0].to[0].cont;
    }
    return cont;
}

bool always_many(const Flow *flow, Dim rows, int64_t least) {
    Arena *scratch = arena_new(flow->ctx);
    DimEnv bounds = flow_env(scratch, flow);
    bool always = dim_ge0(flow->ctx, dim_addc(flow->ctx, rows, -least), &bounds);
    arena_free(scratch);
    return always;
}

Item choice_of_rows(const Flow *flow, Dim rows, int64_t least, const char *from) {
    Dim many = dim_addc(flow->ctx, rows, -least);
    return (Item){.kind = ITEM_IF, .cond = -1, .when = many, .from = from};
}

/* ---- the pass ----------------------------------------------------------------------------------
 */

static void rewrite_items(Editing *e, const PassEnv *env, Weights *weights, Items *items) {
    Items out = {0};
    bool *gone = NEW_ARRAY(e->arena, bool, items->n + 1);
    for (int i = 0; i < items->n; i++) {
        Item it = items->at[i];
        ByRows by = {0};
        if (gone[i]) continue;
        rewrite_items(e, env, weights, &it.body);
        rewrite_items(e, env, weights, &it.other);
        const Map *map = it.kind == ITEM_MAP ? e->flow->map.at[it.map] : NULL;
        if (map && rewrite_in_tiles(e->flow, env, weights->is, map, &out)) continue;
        if (!map || !rewrite_in_quarters(e->flow, env, weights, map, &out, &by)) {
            vec_push(e->arena, &out, it);
        } else if (by.item.body.n) {
            follow_both(e, items, i, gone, &by);
            vec_push(e->arena, &out, by.item);
        }
    }
    *items = out;
}

typedef struct RowByRow {
    Editing *e;
    const PassEnv *env;
} RowByRow;

/* An ItemFn. */
static void rows_of_item(void *user, Item it, const Items *home, Items *out) {
    (void)home;
    const RowByRow *r = user;
    if (it.kind != ITEM_MAP || !rewrite_by_row(r->e, r->env, it.map, out))
        vec_push(r->e->arena, out, it);
}

Flow *pass_algorithm(Arena *arena, const Flow *flow, const PassEnv *env);
Flow *pass_algorithm(Arena *arena, const Flow *flow, const PassEnv *env) {
    Editing e = {.arena = arena, .flow = flow_clone(arena, flow)};
    if (env->math == MATH_STRICT) return e.flow;
    uses_count(&e);
    items_rebuild(e.flow, &e.flow->body, rows_of_item, &(RowByRow){&e, env});
    uses_count(&e);
    Weights weights = {constants_weights(arena, e.flow, env), growth_most};
    rewrite_items(&e, env, &weights, &e.flow->body);
    flow_compact(e.flow);
    return e.flow;
}
