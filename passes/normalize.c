/* SPDX-License-Identifier: Apache-2.0 */
/* Pass `normalize`: rows are divided once.
 *
 * Softmax times values sums e / l * v along a row, where l is the sum of the row's own e: a
 * division for each term. The sum of e * v, divided by l, differs by roundings only and takes one
 * for each result. The terms are exponentials of elements less their greatest one, so none is
 * above 1 and nothing overflows on the way.
 *
 * Where all e / l are wanted, they are products with 1 / l, of which there is one for each row: l
 * is at least 1, so that 1 / l is no subnormal. */
#include "passes/compose.h"
#include "passes/recipe.h"

static const int64_t unknown_extent = 64;

/* So many times fewer divisions are worth another pass over rows. */
enum { FEWER = 4 };

/* map: p[..] = e[..] / l[..], as `read` of the sum of products meets it. */
typedef struct Quotient {
    int read; /* of the sum's body */
    const Map *map;
    const Access *to;
    const Val *e, *l;
} Quotient;

static const Map *writer_of(const Editing *e, int cont) {
    int map = e->uses.writer[cont];
    return map < 0 ? NULL : e->flow->map.at[map];
}

static const Val *value_of(const Map *m) {
    return &m->body.val.at[m->write.at[0].val[0]];
}

static bool plain_read(const Val *v) {
    return v->kind == VAL_READ && !v->has_else && v->type == F32;
}

/* Exponentials of what is less a greatest element. */
static bool at_most_one(const Editing *e, int cont) {
    const Map *m = writer_of(e, cont);
    if (!m || !map_plain_write(m)) return false;
    const Val *v = value_of(m);
    if (v->kind != VAL_PRIM || v->prim != P_EXP) return false;
    v = &m->body.val.at[v->arg[0]];
    if (v->kind != VAL_PRIM || v->prim != P_SUB) return false;
    v = &m->body.val.at[v->arg[1]];
    const Map *top = plain_read(v) ? writer_of(e, v->read.cont) : NULL;
    return top && map_is_reduction(top) && top->write.at[0].combine->simple == P_MAX;
}

/* Is l the sum of e over the rows that the quotient divides by it? */
static bool sums_rows(const Editing *e, const Quotient *q) {
    const Map *sum = writer_of(e, q->l->read.cont);
    if (!sum || sum->write.n != 1 || !map_is_reduction(sum)) return false;
    const Val *term = value_of(sum);
    if (sum->write.at[0].combine->simple != P_ADD || !plain_read(term)) return false;
    if (term->read.cont != q->e->read.cont || !access_covers(q->map, &q->e->read)) return false;
    const Access *to = &sum->write.at[0].to[0];
    for (int k = 0; k < to->rank; k++) {
        int from = access_dim(sum, to, k), own = access_dim(q->map, &q->l->read, k), at = -1;
        for (int i = 0; i < term->read.rank; i++)
            if (from >= 0 && access_dim(sum, &term->read, i) == from)
                at = access_dim(q->map, &q->e->read, i);
        if (from >= 0 ? own < 0 || own != at : q->l->read.at[k] != to->at[k]) return false;
    }
    return true;
}

/* Does the map write all e / l of rows? */
static bool divides_rows(const Editing *e, const Map *map, Quotient *q) {
    q->map = map;
    q->to = map ? map_plain_write(map) : NULL;
    const Val *v = q->to ? value_of(map) : NULL;
    if (!v || v->kind != VAL_PRIM || v->prim != P_DIV) return false;
    q->e = &map->body.val.at[v->arg[0]], q->l = &map->body.val.at[v->arg[1]];
    return plain_read(q->e) && plain_read(q->l) && at_most_one(e, q->e->read.cont) &&
           sums_rows(e, q);
}

static bool find_quotient(const Editing *e, int map, int read, Quotient *q) {
    const Map *m = e->flow->map.at[map];
    const Val *val = &m->body.val.at[read];
    if (!plain_read(val)) return false;
    int cont = val->read.cont;
    q->read = read;
    if (e->uses.held[cont] || e->uses.readers[cont].n != 1) return false;
    return divides_rows(e, writer_of(e, cont), q) && e->flow->cont.at[cont].kind == CONT_TMP &&
           writes_whole(e->flow, q->map, q->to) &&
           e->uses.home[e->uses.writer[cont]] == e->uses.home[map];
}

/* What the quotient reads at, in the dims of the sum of products. */
static const Dim *in_sum(const Editing *e, const Map *m, const Quotient *q, const Access *read) {
    const Access *at = &m->body.val.at[q->read].read;
    DimSubst subst[RANK_MAX];
    Dim *out = NEW_ARRAY(e->arena, Dim, read->rank + 1);
    for (int k = 0; k < at->rank; k++) subst[k] = (DimSubst){q->to->at[k], at->at[k]};
    for (int k = 0; k < read->rank; k++)
        out[k] = dim_subst(e->flow->ctx, read->at[k], subst, at->rank);
    return out;
}

/* Does each row have terms, so that its sum is not that of nothing, and is l one value in a row? */
static bool rows_divide(const Editing *e, const Map *m, const Quotient *q) {
    Ctx *ctx = e->flow->ctx;
    DimEnv env = map_env(e->arena, e->flow, m);
    const Dim *l = in_sum(e, m, q, &q->l->read);
    if (m->cons.n) return false;
    for (int d = 0; d < m->dim.n; d++) {
        if (!map_reduces(m, d)) continue;
        if (!dim_ge0(ctx, dim_addc(ctx, m->dim.at[d].extent, -1), &env)) return false;
        for (int k = 0; k < q->l->read.rank; k++)
            if (dim_uses(l[k], m->dim.at[d].sym)) return false;
    }
    return true;
}

/* Are results so much fewer than terms to divide that they may pass through memory once more? */
static bool fewer(const Map *m, const Quotient *q) {
    double results = FEWER, terms = map_volume(q->map, unknown_extent);
    for (int d = 0; d < m->dim.n; d++)
        if (!map_reduces(m, d)) results *= (double)map_extent(m, d, unknown_extent);
    return results <= terms;
}

/* The sums go to a container of their own, and a map behind divides them. */
static void divide_behind(Editing *e, Map *m, const Quotient *q, Items *into) {
    Flow *flow = e->flow;
    const Access to = m->write.at[0].to[0];
    const Dim *l = in_sum(e, m, q, &q->l->read), *terms = in_sum(e, m, q, &q->e->read);
    Access *sums = NEW(e->arena, Access);
    Dim shape[MAP_DIMS], *at = NEW_ARRAY(e->arena, Dim, m->dim.n + 1), own[MAP_DIMS];
    DimSubst subst[MAP_DIMS];
    Map *div = flow_map(flow, into, internf(flow->ctx, "%s.divided", m->name), q->map->from);
    int n = 0;
    for (int d = 0; d < m->dim.n; d++) {
        if (map_reduces(m, d)) continue;
        shape[n] = m->dim.at[d].extent, at[n] = m->dim.at[d].sym;
        own[n] = map_dim(flow, div, dim_sym_name(at[n]), shape[n]);
        subst[n] = (DimSubst){at[n], own[n]};
        n++;
    }
    const char *name = internf(flow->ctx, "%s.sums", m->name);
    *sums = (Access){flow_cont(flow, name, CONT_TMP, F32, shape, n), n, at};
    m->write.at[0].to = sums;
    m->body.val.at[q->read].read = (Access){q->e->read.cont, q->e->read.rank, terms};
    Dim of_l[RANK_MAX], of_to[RANK_MAX];
    for (int k = 0; k < q->l->read.rank; k++) of_l[k] = dim_subst(flow->ctx, l[k], subst, n);
    for (int k = 0; k < to.rank; k++) of_to[k] = dim_subst(flow->ctx, to.at[k], subst, n);
    int sum = map_read(flow, div, sums->cont, own);
    int total = map_read(flow, div, q->l->read.cont, of_l);
    map_write(flow, div, to.cont, of_to, body_prim2(&div->body, P_DIV, sum, total), NULL);
}

/* As a recipe says, or where it takes far fewer divisions. */
static bool normalize_map(Editing *e, const PassEnv *env, int map, Items *into) {
    static const char *const words[] = {"each", "once", NULL};
    Map *m = e->flow->map.at[map];
    Contraction c = map_contraction(e->flow, m);
    if (!c.is || m->write.at[0].combine->simple != P_ADD || m->write.at[0].combine->type[0] != F32)
        return false;
    const Val *product = value_of(m);
    for (int i = 0; i < m->dim.n; i++)
        if (m->dim.at[i].seq) return false;
    for (int i = 0; product->kind == VAL_PRIM && i < 2; i++) {
        Quotient q;
        if (!find_quotient(e, map, product->arg[i], &q) || !rows_divide(e, m, &q)) continue;
        if (!recipe_decide(env, "normalize", m->name, words, fewer(m, &q))) return false;
        divide_behind(e, m, &q, into);
        return true;
    }
    return false;
}

/* The quotients become products with 1 / l, which a map in front makes. */
static void multiply_rows(Editing *e, Map *m, const Quotient *q, Items *into) {
    Flow *flow = e->flow;
    const Cont *total = &flow->cont.at[q->l->read.cont];
    const char *name = internf(flow->ctx, "%s.rate", m->name);
    Map *invert = flow_map(flow, into, name, m->from);
    Dim at[RANK_MAX], shape[RANK_MAX];
    int rank = total->rank;
    for (int k = 0; k < rank; k++) {
        shape[k] = total->shape[k];
        at[k] =
            dim_is(shape[k], 1) ? dim_const(flow->ctx, 0) : map_dim(flow, invert, "r", shape[k]);
    }
    int of = map_read(flow, invert, q->l->read.cont, at), one = body_const(&invert->body, F32, 1);
    int rate = flow_cont(flow, name, CONT_TMP, F32, shape, rank);
    map_write(flow, invert, rate, at, body_prim2(&invert->body, P_DIV, one, of), NULL);
    Val *quotient = &m->body.val.at[m->write.at[0].val[0]];
    quotient->prim = P_MUL;
    m->body.val.at[quotient->arg[1]].read.cont = rate;
}

/* As a recipe says, or where it takes far fewer divisions. */
static void multiply_map(Editing *e, const PassEnv *env, int map, Items *into) {
    static const char *const words[] = {"divided", "multiplied", NULL};
    Map *m = e->flow->map.at[map];
    Quotient q;
    if (!divides_rows(e, m, &q)) return;
    double rows = 1, terms = map_volume(m, unknown_extent);
    const Cont *total = &e->flow->cont.at[q.l->read.cont];
    for (int k = 0; k < total->rank; k++) {
        int d = access_dim(m, &q.l->read, k);
        if (d >= 0) rows *= (double)map_extent(m, d, unknown_extent);
    }
    if (recipe_decide(env, "normalize", m->name, words, FEWER * rows <= terms))
        multiply_rows(e, m, &q, into);
}

typedef struct Normalizing {
    Editing e;
    const PassEnv *env;
} Normalizing;

/* An ItemFn: sums of normalised terms. */
static void normalize_item(void *user, Item it, const Items *home, Items *out) {
    (void)home;
    Normalizing *n = user;
    vec_push(n->e.arena, out, it);
    if (it.kind == ITEM_MAP) normalize_map(&n->e, n->env, it.map, out);
}

/* An ItemFn: terms that are still wanted. */
static void multiply_item(void *user, Item it, const Items *home, Items *out) {
    (void)home;
    Normalizing *n = user;
    if (it.kind == ITEM_MAP) multiply_map(&n->e, n->env, it.map, out);
    vec_push(n->e.arena, out, it);
}

Flow *pass_normalize(Arena *arena, const Flow *flow, const PassEnv *env);
Flow *pass_normalize(Arena *arena, const Flow *flow, const PassEnv *env) {
    Normalizing n = {.e = {.arena = arena, .flow = flow_clone(arena, flow)}, .env = env};
    Flow *to = n.e.flow;
    if (env->math == MATH_STRICT || env->machine->block_threads) return to;
    uses_count(&n.e);
    items_rebuild(to, &to->body, normalize_item, &n);
    drop_unneeded(&n.e);
    items_rebuild(to, &to->body, multiply_item, &n);
    return to;
}
