/* SPDX-License-Identifier: Apache-2.0 */
/* Pass `pick`: products with rows that hold a single one become reads.
 *
 * A sum over k of (i == k ? 1 : 0) * w[k, j] is w[i, j], or 0 where no k is i: all other terms are
 * zeros of either sign, which the sum's own 0 takes in. So models embed codes by a product. Weights
 * must be known and finite, as zero times infinity is not zero; then no bit changes. */
#include <math.h>

#include "passes/compose.h"

/* map: p[.., k, ..] = (i == k ? 1 : 0); `code`: its value i, `dim`: its dim k. */
typedef struct OneHot {
    const Map *map;
    const Access *to;
    int code, dim;
} OneHot;

/* A sum of products over one dim of `hot` at read h with a constant at read w. */
typedef struct Product {
    OneHot hot;
    int h, w, dim;
} Product;

/* ---- rows of a single one ------------------------------------------------------------------- */

static bool is_one(const Body *b, int v, double one) {
    Bits bits;
    return body_const_bits(b, v, &bits) && bits_to_double(b->val.at[v].type, bits) == one;
}

/* The comparison that a value is 1 for, else 0; -1: it is none. */
static int compared(const Body *b, int v) {
    const Val *val = &b->val.at[v];
    if (val->kind != VAL_PRIM) return -1;
    bool chosen = val->prim == P_SELECT && is_one(b, val->arg[1], 1) && is_one(b, val->arg[2], 0);
    if (!chosen && val->prim != P_CVT) return -1;
    const Val *equal = &b->val.at[val->arg[0]];
    return equal->kind == VAL_PRIM && equal->prim == P_EQ ? val->arg[0] : -1;
}

/* A constant that holds 0, 1, 2 .. along its dim k. */
static bool counts_up(const Cont *c, int k) {
    int64_t n;
    if (!c->data || c->layout || !dtype_is_int(c->type) || !dim_is_const(c->shape[k], &n))
        return false;
    for (int i = 0; i < c->rank; i++)
        if (i != k && !dim_is(c->shape[i], 1)) return false;
    for (int64_t i = 0; i < n; i++)
        if (bits_to_double(c->type, mem_get(c->type, c->data, i)) != (double)i) return false;
    return true;
}

/* The dim whose index value v is, or -1. */
static int index_of(const Flow *flow, const Map *m, int v) {
    const Val *val = &m->body.val.at[body_unconverted(&m->body, v)];
    for (int d = 0; d < m->dim.n; d++) {
        if (val->kind == VAL_INDEX && val->index == m->dim.at[d].sym) return d;
        for (int k = 0; val->kind == VAL_READ && !val->has_else && k < val->read.rank; k++)
            if (val->read.at[k] == m->dim.at[d].sym && counts_up(&flow->cont.at[val->read.cont], k))
                return d;
    }
    return -1;
}

/* Types that hold every index and become i64 without a change. */
static bool holds_indices(DType t) {
    return t == I32 || t == I64 || t == U32;
}

/* The only map that writes a whole container, each element once; or NULL. */
static const Map *whole_writer(const Editing *e, int cont) {
    int writer = e->uses.writer[cont];
    const Map *m = writer < 0 ? NULL : e->flow->map.at[writer];
    const Access *to = m ? map_plain_write(m) : NULL;
    return to && !m->cons.n && writes_whole(e->flow, m, to) ? m : NULL;
}

/* A copy of the map that compares by itself, where it only reads what a comparison gave. */
static const Map *with_comparison(Editing *e, const Map *m) {
    const Val *v = &m->body.val.at[m->write.at[0].val[0]];
    const Val *flag = v->kind == VAL_PRIM ? &m->body.val.at[v->arg[0]] : v;
    if (flag->kind != VAL_READ || flag->type != BOOL || flag->has_else) return m;
    const Map *compare = whole_writer(e, flag->read.cont);
    if (!compare) return m;
    Map *copy = arena_copy(e->arena, m, sizeof *m);
    copy->write.at = arena_copy(e->arena, m->write.at, sizeof *m->write.at);
    compose_map(e, compare, map_plain_write(compare), copy);
    return copy;
}

static bool find_hot(Editing *e, int cont, OneHot *hot) {
    hot->map = whole_writer(e, cont);
    if (!hot->map) return false;
    hot->map = with_comparison(e, hot->map);
    hot->to = map_plain_write(hot->map);
    const Body *b = &hot->map->body;
    int equal = compared(b, hot->map->write.at[0].val[0]);
    for (int side = 0; equal >= 0 && side < 2; side++) {
        const int *arg = b->val.at[equal].arg;
        hot->code = arg[side];
        hot->dim = index_of(e->flow, hot->map, arg[1 - side]);
        if (hot->dim >= 0 && holds_indices(b->val.at[hot->code].type) &&
            val_fixed(hot->map, hot->code, hot->dim))
            return true;
    }
    return false;
}

/* ---- products ------------------------------------------------------------------------------- */

/* The index of read v that is dim d, the only one that uses it; -1: there is none such. */
static int only_index(const Map *m, int v, int d) {
    const Val *val = &m->body.val.at[v];
    int at = -1, uses = 0;
    for (int k = 0; k < val->read.rank; k++) {
        uses += dim_uses(val->read.at[k], m->dim.at[d].sym);
        if (val->read.at[k] == m->dim.at[d].sym) at = k;
    }
    return uses == 1 ? at : -1;
}

static bool all_finite(const Cont *c) {
    int64_t n = 1, extent;
    if (!c->data || c->layout || c->type != F32) return false;
    for (int k = 0; k < c->rank; k++) {
        if (!dim_is_const(c->shape[k], &extent)) return false;
        n *= extent;
    }
    for (int64_t i = 0; i < n; i++)
        if (!isfinite(bits_to_double(F32, mem_get(F32, c->data, i)))) return false;
    return true;
}

/* The one dim that a sum of f32 runs over, or -1. */
static int summed_dim(const Map *m) {
    if (m->write.n != 1 || m->write.at[0].n != 1 || m->cons.n || !map_is_reduction(m)) return -1;
    const Combine *c = m->write.at[0].combine;
    int dim = -1;
    if (c->simple != P_ADD || c->type[0] != F32 || c->finish.val.n) return -1;
    for (int d = 0; d < m->dim.n; d++) {
        if (m->dim.at[d].seq || (map_reduces(m, d) && dim >= 0)) return -1;
        if (map_reduces(m, d)) dim = d;
    }
    return dim;
}

static bool plain_read(const Body *b, int v) {
    return b->val.at[v].kind == VAL_READ && !b->val.at[v].has_else && b->val.at[v].type == F32;
}

/* Does read h meet the ones along dim p->dim, and read w a weight for each of them? */
static bool matches(Editing *e, int map, Product *p) {
    const Map *m = e->flow->map.at[map];
    const Access *h = &m->body.val.at[p->h].read, *w = &m->body.val.at[p->w].read;
    int along = only_index(m, p->h, p->dim), at = only_index(m, p->w, p->dim);
    if (along < 0 || at < 0 || !find_hot(e, h->cont, &p->hot)) return false;
    const MapDim *k = &p->hot.map->dim.at[p->hot.dim];
    const Cont *weights = &e->flow->cont.at[w->cont];
    return p->hot.to->at[along] == k->sym && k->extent == m->dim.at[p->dim].extent &&
           k->extent == weights->shape[at] &&
           e->uses.home[e->uses.writer[h->cont]] == e->uses.home[map] && all_finite(weights);
}

static bool find_product(Editing *e, int map, Product *p) {
    const Map *m = e->flow->map.at[map];
    p->dim = summed_dim(m);
    if (p->dim < 0 || e->flow->cont.at[m->write.at[0].to[0].cont].type != F32) return false;
    const Val *product = &m->body.val.at[m->write.at[0].val[0]];
    if (product->kind != VAL_PRIM || product->prim != P_MUL) return false;
    for (int side = 0; side < 2; side++) {
        p->h = product->arg[side], p->w = product->arg[1 - side];
        if (plain_read(&m->body, p->h) && plain_read(&m->body, p->w) && matches(e, map, p))
            return true;
    }
    return false;
}

/* ---- reads ---------------------------------------------------------------------------------- */

/* The code of the row that read h meets, in body b, as an index. */
static Dim code_at(Editing *e, const Map *m, const Product *p, Body *b) {
    Ctx *ctx = e->flow->ctx;
    const OneHot *hot = &p->hot;
    const Access *h = &m->body.val.at[p->h].read;
    DimSubst subst[MAP_DIMS];
    for (int d = 0; d < hot->map->dim.n; d++)
        subst[d] = (DimSubst){hot->map->dim.at[d].sym, dim_const(ctx, 0)};
    for (int k = 0; k < hot->to->rank; k++) {
        int d = access_dim(hot->map, hot->to, k);
        if (d >= 0 && d != hot->dim) subst[d].to = h->at[k];
    }
    DimEnv env = map_env(e->arena, e->flow, m);
    int *map = NEW_ARRAY(e->arena, int, hot->map->body.val.n + 1);
    body_inline(b, &hot->map->body, subst, hot->map->dim.n, NULL, simplify_read, &env, map);
    return body_symbol(b, body_cvt(b, I64, map[hot->code]), "code");
}

static void read_instead(Editing *e, Map *m, const Product *p) {
    const Access *w = &m->body.val.at[p->w].read;
    Body *b = NEW(e->arena, Body);
    b->arena = e->arena;
    Dim code = code_at(e, m, p, b), *at = arena_copy(e->arena, w->at, (size_t)w->rank * sizeof *at);
    at[only_index(m, p->w, p->dim)] = code;
    int zero = body_const(b, F32, 0);
    int row = body_read_else(b, (Access){w->cont, w->rank, at}, F32, zero);
    int *sum = NEW(e->arena, int);
    *sum = body_prim2(b, P_ADD, zero, row);
    body_prune(b, sum, 1);
    Write *write = &m->write.at[0];
    write->val = sum, write->combine = NULL;
    m->from = from_join(e->flow->ctx, m->from, p->hot.map->from);
    m->body = *b;
    for (int d = p->dim; d + 1 < m->dim.n; d++) m->dim.at[d] = m->dim.at[d + 1];
    m->dim.n--;
}

Flow *pass_pick(Arena *arena, const Flow *flow, const PassEnv *env);
Flow *pass_pick(Arena *arena, const Flow *flow, const PassEnv *env) {
    (void)env;
    Editing e = {.arena = arena, .flow = flow_clone(arena, flow)};
    Product p;
    uses_count(&e);
    for (int m = 0; m < e.flow->map.n; m++)
        if (find_product(&e, m, &p)) read_instead(&e, e.flow->map.at[m], &p);
    drop_unneeded(&e);
    return e.flow;
}
