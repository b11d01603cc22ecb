/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of scores that weigh rows of values (weigh.h).
 *
 * The maximum of a row is only taken off its scores, and the sum only divides: so both may grow
 * block by block of keys, with what was summed before scaled to the new maximum (Milakov and
 * Gimelshein, Online normalizer calculation for softmax, 2018; Dao et al., FlashAttention, 2022),
 * and no row need ever be whole. Who schedules that must know that the maps are these. */
#include "passes/weigh.h"

#include "passes/compose.h"

static const int64_t unknown_extent = 64;

typedef struct Search {
    const Flow *flow;
    const int *maps;
    Weighing *w;
    int s, e, p;             /* containers: the scores as they are now; terms, or -1; weights */
    int shape;               /* the container of the scores, whose indices all others have */
    const Access *top, *sum; /* as they are written */
} Search;

static const Map *map_of(const Search *f, int pos) {
    return f->flow->map.at[f->maps[pos]];
}

static const Val *value_of(const Map *m) {
    return &m->body.val.at[m->write.at[0].val[0]];
}

static bool is_one_float(const Write *w, Prim simple) {
    return w->combine && w->combine->simple == simple && w->combine->nstate == 1 && w->n == 1 &&
           w->combine->type[0] == F32;
}

/* Nothing that loops in blocks could not keep: sequences, constraints but one, several writes. */
static bool is_plain(const Map *m) {
    if (m->write.n != 1 || m->write.at[0].n != 1 || m->cons.n > 1) return false;
    for (int d = 0; d < m->dim.n; d++)
        if (m->dim.at[d].seq) return false;
    return true;
}

/* ---- indices ----------------------------------------------------------------------------------
 */

/* Finds the dim that is index k of a product's access, or the two that it joins; false when it is
 * anything else than these, over all of the container. */
static bool find_index(const Search *f, int pos, const Access *a, int k) {
    const Map *m = map_of(f, pos);
    Ctx *ctx = f->flow->ctx;
    Dim all = f->flow->cont.at[a->cont].shape[k];
    int d = f->w->dim[pos][k] = access_dim(m, a, k);
    f->w->inner[pos][k] = -1;
    if (d >= 0) return m->dim.at[d].extent == all;
    if (dim_is_const(a->at[k], NULL)) return dim_is(a->at[k], 0) && dim_is(all, 1);
    for (int o = 0; o < m->dim.n; o++)
        for (int i = 0; i < m->dim.n; i++) {
            const MapDim *outer = &m->dim.at[o], *inner = &m->dim.at[i];
            Dim joined = dim_add(ctx, dim_mul(ctx, outer->sym, inner->extent), inner->sym);
            if (o == i || joined != a->at[k]) continue;
            f->w->dim[pos][k] = o;
            f->w->inner[pos][k] = i;
            return dim_mul(ctx, outer->extent, inner->extent) == all;
        }
    return false;
}

/* Finds all of them; no dim may be in two. `seen`: those that are in one. */
static bool find_indices(const Search *f, int pos, const Access *a, bool *seen) {
    for (int k = 0; k < a->rank; k++) {
        if (!find_index(f, pos, a, k)) return false;
        const int own[] = {f->w->dim[pos][k], f->w->inner[pos][k]};
        for (int i = 0; i < 2; i++) {
            if (own[i] < 0) continue;
            if (seen[own[i]]) return false;
            seen[own[i]] = true;
        }
    }
    return true;
}

/* Does the access stand at the row's elements, each index a dim of its own, or the only one there
 * is? Fills in the position's dims. */
static bool is_row(const Search *f, int pos, const Access *a) {
    const Map *m = map_of(f, pos);
    const Cont *shape = &f->flow->cont.at[f->shape], *own = &f->flow->cont.at[a->cont];
    int *dim = f->w->dim[pos];
    if (a->rank != f->w->rank || !access_covers(m, a)) return false;
    for (int k = 0; k < a->rank; k++) {
        dim[k] = access_dim(m, a, k);
        f->w->inner[pos][k] = -1;
        if (own->shape[k] != shape->shape[k]) return false;
        if (dim[k] < 0 ? !dim_is(own->shape[k], 1) : m->dim.at[dim[k]].extent != own->shape[k])
            return false;
    }
    return true;
}

/* Do both accesses of the position's map have the same dims? */
static bool same_indices(const Search *f, int pos, const Access *a) {
    const Map *m = map_of(f, pos);
    if (a->rank != f->w->rank || dtype_bits(f->flow->cont.at[a->cont].type) > 32) return false;
    for (int k = 0; k < a->rank; k++)
        if (access_dim(m, a, k) != f->w->dim[pos][k]) return false;
    return true;
}

/* Does a map read what another wrote of a row, at the row at hand? */
static bool is_of_row(const Search *f, int pos, const Access *read, int by, const Access *to) {
    const Map *m = map_of(f, pos), *maker = map_of(f, by);
    if (read->cont != to->cont) return false;
    for (int k = 0; k < to->rank; k++) {
        int d = access_dim(maker, to, k), at = -1;
        for (int i = 0; d >= 0 && i < f->w->rank; i++)
            if (f->w->dim[by][i] == d) at = i;
        if (d < 0 ? read->at[k] != to->at[k] : access_dim(m, read, k) != f->w->dim[pos][at])
            return false;
    }
    return true;
}

/* ---- bodies -----------------------------------------------------------------------------------
 */

static const Access *read_at(const Map *m, int v) {
    const Val *val = &m->body.val.at[body_unconverted(&m->body, v)];
    return val->kind == VAL_READ && !val->has_else ? &val->read : NULL;
}

/* A read of a row's elements that is of this container. */
static bool reads_row(const Search *f, int pos, int v, int cont) {
    const Access *a = read_at(map_of(f, pos), v);
    return a && a->cont == cont && is_row(f, pos, a);
}

/* exp(s - top), or what the map of terms made of it. */
static bool is_term(const Search *f, int pos, int v) {
    const Map *m = map_of(f, pos);
    if (f->e >= 0) return reads_row(f, pos, v, f->e);
    const Val *exp = &m->body.val.at[v];
    if (exp->kind != VAL_PRIM || exp->prim != P_EXP) return false;
    const Val *sub = &m->body.val.at[exp->arg[0]];
    if (sub->kind != VAL_PRIM || sub->prim != P_SUB || !reads_row(f, pos, sub->arg[0], f->s))
        return false;
    const Access *top = read_at(m, sub->arg[1]);
    return top && is_of_row(f, pos, top, f->w->top, f->top);
}

/* A sum of products of two reads; sets which Vals these are. */
static bool is_product(const Map *m, int *x, int *y) {
    const Val *v = value_of(m);
    if (!is_plain(m) || !is_one_float(&m->write.at[0], P_ADD)) return false;
    if (v->kind != VAL_PRIM || v->prim != P_MUL || v->type != F32) return false;
    *x = body_unconverted(&m->body, v->arg[0]);
    *y = body_unconverted(&m->body, v->arg[1]);
    const Val *a = &m->body.val.at[*x], *b = &m->body.val.at[*y];
    return *x != *y && a->kind == VAL_READ && b->kind == VAL_READ &&
           !access_by_value(m, &a->read) && !access_by_value(m, &b->read);
}

/* The same, of what is there at all indices. */
static bool is_whole_product(const Map *m, int *x, int *y) {
    return is_product(m, x, y) && read_at(m, *x) && read_at(m, *y);
}

static const Access *val_read(const Map *m, int v) {
    return &m->body.val.at[v].read;
}

/* ---- maps -------------------------------------------------------------------------------------
 */

static bool find_scores(Search *f) {
    const Map *m = map_of(f, 0);
    Weighing *w = f->w;
    if (!is_whole_product(m, &w->q, &w->k)) return false;
    const Access *to = &m->write.at[0].to[0];
    f->s = f->shape = to->cont;
    w->rank = to->rank;
    w->depth = -1;
    for (int d = 0; d < m->dim.n; d++) {
        if (!map_reduces(m, d)) continue;
        if (w->depth >= 0 && !dim_is(m->dim.at[d].extent, 1)) return false;
        if (w->depth < 0 || !dim_is(m->dim.at[d].extent, 1)) w->depth = d;
    }
    bool seen[MAP_DIMS] = {false};
    return w->depth >= 0 && find_indices(f, 0, to, seen) &&
           dtype_bits(f->flow->cont.at[to->cont].type) <= 32;
}

/* An element-wise map from the scores to the scores. */
static bool shapes(Search *f, int pos) {
    const Map *m = map_of(f, pos);
    const Access *to = map_plain_write(m);
    bool any = false;
    if (!to || !is_plain(m) || !is_row(f, pos, to)) return false;
    for (int v = 0; v < m->body.val.n; v++) {
        const Val *val = &m->body.val.at[v];
        if (val->kind != VAL_READ) continue;
        if (access_by_value(m, &val->read)) return false;
        if (val->read.cont != f->s) continue;
        if (val->has_else || !same_indices(f, pos, &val->read)) return false;
        any = true;
    }
    DType type = f->flow->cont.at[to->cont].type;
    if (!any || !dtype_is_float(type) || dtype_bits(type) > 32) return false;
    f->s = to->cont;
    return true;
}

/* One value of a row: reduces the key, alone, of the row's elements. */
static const Access *find_row_value(Search *f, int pos, Prim simple) {
    const Map *m = map_of(f, pos);
    if (!is_plain(m) || !is_one_float(&m->write.at[0], simple)) return NULL;
    for (int k = 0; k < f->w->rank; k++) {
        int d = f->w->dim[pos][k];
        if (d < 0 || !map_reduces(m, d)) continue;
        if (f->w->key >= 0 && f->w->key != k) return NULL;
        f->w->key = k;
    }
    int d = f->w->key < 0 ? -1 : f->w->dim[pos][f->w->key];
    return d >= 0 && map_reduces(m, d) ? &m->write.at[0].to[0] : NULL;
}

static bool find_top(Search *f, int pos) {
    const Map *m = map_of(f, pos);
    f->w->top = pos;
    if (m->write.n != 1 || !reads_row(f, pos, m->write.at[0].val[0], f->s)) return false;
    f->top = find_row_value(f, pos, P_MAX);
    return f->top;
}

static bool find_terms(Search *f, int pos) {
    const Map *m = map_of(f, pos);
    const Access *to = map_plain_write(m);
    f->e = -1;
    if (!to || !is_plain(m) || !is_term(f, pos, m->write.at[0].val[0])) return false;
    if (!same_indices(f, pos, to) || f->flow->cont.at[to->cont].type != F32) return false;
    f->e = to->cont;
    return true;
}

static bool find_sum(Search *f, int pos) {
    const Map *m = map_of(f, pos);
    f->w->sum = pos;
    if (m->write.n != 1 || !is_term(f, pos, m->write.at[0].val[0])) return false;
    f->sum = find_row_value(f, pos, P_ADD);
    return f->sum;
}

static bool find_weights(Search *f, int pos) {
    const Map *m = map_of(f, pos);
    const Access *to = map_plain_write(m);
    f->w->weights = pos;
    if (!to || !is_plain(m)) return false;
    const Val *div = &m->body.val.at[body_unconverted(&m->body, m->write.at[0].val[0])];
    if (div->kind != VAL_PRIM || div->prim != P_DIV || !is_term(f, pos, div->arg[0])) return false;
    const Access *sum = read_at(m, div->arg[1]);
    DType type = f->flow->cont.at[to->cont].type;
    f->p = to->cont;
    return sum && is_of_row(f, pos, sum, f->w->sum, f->sum) && same_indices(f, pos, to) &&
           dtype_is_float(type) && dtype_bits(type) <= 32;
}

/* Is index k of the scores the same for all rows of one operand, of keys and of values? */
static bool may_be_row(const Search *f, int k) {
    const Map *scores = map_of(f, 0), *root = map_of(f, f->w->root);
    int d = f->w->dim[0][k], own = f->w->dim[f->w->root][k];
    return k != f->w->key && d >= 0 && own >= 0 && f->w->inner[0][k] < 0 &&
           f->w->inner[f->w->root][k] < 0 && !dim_is(scores->dim.at[d].extent, 1) &&
           access_uses(scores, val_read(scores, f->w->q), d) &&
           !access_uses(scores, val_read(scores, f->w->k), d) &&
           !access_uses(root, val_read(root, f->w->v), own);
}

static bool find_root(Search *f) {
    int pos = f->w->root;
    const Map *m = map_of(f, pos), *scores = map_of(f, 0);
    Weighing *w = f->w;
    if (!is_whole_product(m, &w->p, &w->v)) return false;
    if (val_read(m, w->v)->cont == f->p) {
        int other = w->p;
        w->p = w->v, w->v = other;
    }
    const Access *p = val_read(m, w->p);
    if (p->cont != f->p || val_read(m, w->v)->cont == f->p || p->rank != w->rank) return false;
    bool row[MAP_DIMS] = {false};
    if (!find_indices(f, pos, p, row) || w->inner[pos][w->key] >= 0) return false;
    for (int d = 0; d < m->dim.n; d++)
        if (row[d] && map_reduces(m, d) != (d == w->dim[pos][w->key])) return false;
    w->column = -1;
    for (int d = 0; d < m->dim.n; d++) {
        if (row[d] || dim_is(m->dim.at[d].extent, 1)) continue;
        if (w->column >= 0 || map_reduces(m, d)) return false;
        w->column = d;
    }
    int key = w->dim[0][w->key];
    if (!access_uses(scores, val_read(scores, w->k), key)) {
        int other = w->q;
        w->q = w->k, w->k = other;
    }
    if (!access_uses(scores, val_read(scores, w->k), key) ||
        access_uses(scores, val_read(scores, w->q), key) ||
        val_read(scores, w->q)->cont == val_read(scores, w->k)->cont)
        return false;
    w->row = -1;
    for (int k = 0; k < w->rank; k++) {
        if (!may_be_row(f, k)) continue;
        int64_t extent = map_extent(scores, w->dim[0][k], unknown_extent);
        if (w->row < 0 || extent >= map_extent(scores, w->dim[0][w->row], unknown_extent))
            w->row = k;
    }
    return w->column >= 0 && w->dim[pos][w->key] >= 0;
}

/* ---- what follows the root --------------------------------------------------------------------
 */

/* The dims of `finish` that are the root's, told by its read of what the root made. */
static bool find_own(const Search *f, const Map *m, const Access *read) {
    const Map *root = map_of(f, f->w->root);
    const Access *to = &root->write.at[0].to[0];
    int *own = f->w->own, dims = 0;
    for (int d = 0; d < MAP_DIMS; d++) own[d] = -1;
    for (int k = 0; k < to->rank; k++) {
        int by = access_dim(root, to, k), d = access_dim(m, read, k);
        if (by < 0 && d < 0 && to->at[k] == read->at[k]) continue;
        if (by < 0 || d < 0 || own[by] >= 0) return false;
        if (root->dim.at[by].extent != m->dim.at[d].extent) return false;
        own[by] = d;
        dims++;
    }
    return dims == m->dim.n;
}

/* What it reads of the kernel's maps: the root's results, the row's sum and maximum. */
static bool finishes(Search *f, int pos, const Access *read) {
    const Access *made = &map_of(f, f->w->root)->write.at[0].to[0];
    if (read->cont == f->sum->cont) return is_of_row(f, pos, read, f->w->sum, f->sum);
    if (read->cont == f->top->cont) return is_of_row(f, pos, read, f->w->top, f->top);
    for (int k = 0; k < read->rank && read->cont == made->cont; k++) {
        int d = access_dim(map_of(f, f->w->root), made, k);
        if (d >= 0 && access_dim(map_of(f, pos), read, k) != f->w->own[d]) return false;
    }
    return read->cont != f->s && read->cont != f->e && read->cont != f->p;
}

static bool find_finish(Search *f, int pos) {
    const Map *m = map_of(f, pos);
    const Access *made = &map_of(f, f->w->root)->write.at[0].to[0], *first = NULL;
    if (!map_plain_write(m) || !is_plain(m) || m->cons.n) return false;
    for (int v = 0; v < m->body.val.n; v++) {
        const Val *val = &m->body.val.at[v];
        if (val->kind != VAL_READ) continue;
        if (val->has_else || access_by_value(m, &val->read)) return false;
        if (val->read.cont == made->cont) first = &val->read;
    }
    if (!first || !find_own(f, m, first)) return false;
    for (int k = 0; k < f->w->rank; k++) {
        int d = f->w->dim[f->w->root][k];
        f->w->dim[pos][k] = d < 0 || f->w->inner[f->w->root][k] >= 0 ? -1 : f->w->own[d];
        f->w->inner[pos][k] = -1;
    }
    for (int v = 0; v < m->body.val.n; v++)
        if (m->body.val.at[v].kind == VAL_READ && !finishes(f, pos, &m->body.val.at[v].read))
            return false;
    f->w->finish = pos;
    return true;
}

/* ---- the end of rows --------------------------------------------------------------------------
 */

Dim weighing_row(Ctx *ctx) {
    return dim_sym(ctx, "%row");
}

Dim weighing_key(Ctx *ctx) {
    return dim_sym(ctx, "%key");
}

/* A map's constraint, of the row and the key alone; false: it is of others too. */
static bool end_of(const Search *f, int pos, Dim *end) {
    const Map *m = map_of(f, pos);
    Ctx *ctx = f->flow->ctx;
    int row = f->w->row < 0 ? -1 : f->w->dim[pos][f->w->row], key = f->w->dim[pos][f->w->key];
    *end = NULL;
    if (!m->cons.n) return true;
    if (row < 0 || key < 0) return false;
    DimSubst to[] = {{m->dim.at[row].sym, weighing_row(ctx)},
                     {m->dim.at[key].sym, weighing_key(ctx)}};
    *end = dim_subst(ctx, m->cons.at[0], to, 2);
    for (int d = 0; d < m->dim.n; d++)
        if (dim_uses(*end, m->dim.at[d].sym)) return false;
    return true;
}

/* All maps end alike: those that make scores may make more than is used. */
static bool find_end(const Search *f) {
    Weighing *w = f->w;
    Ctx *ctx = f->flow->ctx;
    Dim key = weighing_key(ctx), coef, rest;
    if (!end_of(f, w->root, &w->end)) return false;
    for (int pos = 0; pos < w->root; pos++) {
        Dim end;
        if (!end_of(f, pos, &end)) return false;
        bool may_lack = pos < w->top || pos == w->terms || pos == w->weights;
        if (end != w->end && (end || !may_lack)) return false;
    }
    return !w->end || (dim_affine(ctx, w->end, &key, 1, &coef, &rest) && dim_is(coef, -1));
}

bool weighing_find(const Flow *flow, const int *maps, int n, Weighing *w) {
    Search f = {.flow = flow, .maps = maps, .w = w, .e = -1};
    *w = (Weighing){.n = n, .terms = -1, .weights = -1, .finish = -1, .key = -1};
    if (n < 5 || n > WEIGH_MAPS || !find_scores(&f)) return false;
    int pos = 1;
    while (pos < n && shapes(&f, pos)) pos++;
    if (pos + 3 > n || !find_top(&f, pos++)) return false;
    if (find_terms(&f, pos)) w->terms = pos++;
    if (pos + 2 > n || !find_sum(&f, pos++)) return false;
    if (find_weights(&f, pos))
        pos++;
    else
        w->weights = -1, f.p = f.e;
    w->root = pos;
    if (pos >= n || f.p < 0 || !find_root(&f) || !find_end(&f)) return false;
    return w->weights >= 0 ? pos + 1 == n : pos + 2 == n && find_finish(&f, pos + 1);
}

/* ---- from the root back -----------------------------------------------------------------------
 */

typedef struct Chain {
    const Flow *flow;
    const int *writer;
    int at[WEIGH_MAPS], n; /* maps, the last one first */
} Chain;

static bool chain_add(Chain *c, int map) {
    if (map < 0 || c->n == WEIGH_MAPS) return false;
    c->at[c->n++] = map;
    return true;
}

/* The maps that shape scores which are written to `cont`, and the product in front. */
static bool chain_shapes(Chain *c, int cont) {
    int map = c->writer[cont], n = c->n, x, y;
    if (!chain_add(c, map)) return false;
    const Map *m = c->flow->map.at[map];
    if (is_product(m, &x, &y)) return true;
    for (int v = 0; v < m->body.val.n && map_plain_write(m); v++)
        if (m->body.val.at[v].kind == VAL_READ &&
            m->body.val.at[v].read.rank == c->flow->cont.at[cont].rank &&
            chain_shapes(c, m->body.val.at[v].read.cont))
            return true;
    c->n = n;
    return false;
}

/* Where a map has exp(s - top): the top's map, and those that make s. */
static bool chain_exp(Chain *c, const Map *m, int v) {
    const Val *exp = &m->body.val.at[v], *sub = &m->body.val.at[exp->arg[0]];
    if (exp->kind != VAL_PRIM || exp->prim != P_EXP) return false;
    if (sub->kind != VAL_PRIM || sub->prim != P_SUB) return false;
    const Access *s = read_at(m, sub->arg[0]), *top = read_at(m, sub->arg[1]);
    return s && top && chain_add(c, c->writer[top->cont]) && chain_shapes(c, s->cont);
}

static bool chain_weights(Chain *c, int map) {
    if (!chain_add(c, map)) return false;
    const Map *m = c->flow->map.at[map];
    if (!map_plain_write(m)) return false;
    const Val *div = &m->body.val.at[body_unconverted(&m->body, m->write.at[0].val[0])];
    if (div->kind != VAL_PRIM || div->prim != P_DIV) return false;
    const Access *sum = read_at(m, div->arg[1]), *e = read_at(m, div->arg[0]);
    if (!sum || !chain_add(c, c->writer[sum->cont])) return false;
    if (!e) return chain_exp(c, m, div->arg[0]);
    if (!chain_add(c, c->writer[e->cont])) return false;
    const Map *terms = c->flow->map.at[c->writer[e->cont]];
    return map_plain_write(terms) && chain_exp(c, terms, terms->write.at[0].val[0]);
}

/* A map of terms, and what makes them. */
static bool chain_terms(Chain *c, int map) {
    if (!chain_add(c, map)) return false;
    const Map *m = c->flow->map.at[map];
    return map_plain_write(m) && chain_exp(c, m, m->write.at[0].val[0]);
}

/* A product that weighs by terms, which `sum` adds up. */
static bool chain_summed(Chain *c, int product, int sum) {
    int read[2];
    if (!chain_add(c, product) || !chain_add(c, sum)) return false;
    if (!is_product(c->flow->map.at[product], &read[0], &read[1])) return false;
    const Access *terms = read_at(c->flow->map.at[sum], c->flow->map.at[sum]->write.at[0].val[0]);
    for (int i = 0; i < 2 && terms; i++)
        if (val_read(c->flow->map.at[product], read[i])->cont == terms->cont &&
            chain_terms(c, c->writer[terms->cont]))
            return true;
    return false;
}

/* Two of what the map reads are such a product and such a sum. */
static bool chain_finish(Chain *c, const Map *m) {
    if (!map_plain_write(m)) return false;
    for (int a = 0; a < m->body.val.n; a++)
        for (int b = 0; b < m->body.val.n; b++) {
            const Val *product = &m->body.val.at[a], *sum = &m->body.val.at[b];
            if (a == b || product->kind != VAL_READ || sum->kind != VAL_READ) continue;
            int by = c->writer[product->read.cont], with = c->writer[sum->read.cont];
            c->n = 1;
            if (by >= 0 && with >= 0 && by != with && chain_summed(c, by, with)) return true;
        }
    return false;
}

int weighing_maps(const Flow *flow, const int *writer, int last, int *maps) {
    const Map *m = flow->map.at[last];
    Chain c = {.flow = flow, .writer = writer, .at = {last}, .n = 1};
    int read[2];
    bool found = chain_finish(&c, m);
    for (int i = 0; i < 2 && !found && is_product(m, &read[0], &read[1]); i++) {
        c.n = 1;
        found = chain_weights(&c, writer[val_read(m, read[i])->cont]);
    }
    for (int k = 0; k < c.n && found; k++) maps[k] = c.at[c.n - 1 - k];
    return found ? c.n : 0;
}

int weighing_terms(const Flow *flow, const int *writer, int product, int *maps) {
    int read[2], n = 0;
    if (!is_product(flow->map.at[product], &read[0], &read[1])) return 0;
    for (int i = 0; i < 2 && !n; i++) {
        Chain c = {.flow = flow, .writer = writer};
        bool found = chain_terms(&c, writer[val_read(flow->map.at[product], read[i])->cont]);
        for (int k = 0; k < c.n && found; k++) maps[n++] = c.at[c.n - 1 - k];
    }
    return n;
}

bool weighing_product(const Flow *flow, const int *writer, int map) {
    const Map *m = flow->map.at[map];
    int read[2];
    if (!is_product(m, &read[0], &read[1])) return false;
    for (int i = 0; i < 2; i++) {
        Chain c = {.flow = flow, .writer = writer};
        int by = writer[val_read(m, read[i])->cont];
        if (chain_weights(&c, by)) return true;
        c.n = 0;
        if (chain_terms(&c, by)) return true;
    }
    return false;
}

/* What the map multiplies its only operand by, up to roundings to halves; 0: it does something
 * else. */
static double factor_of(const Map *m) {
    const Body *b = &m->body;
    const Val *v = &b->val.at[body_unconverted(b, m->write.at[0].val[0])];
    if (v->kind != VAL_PRIM || v->prim != P_MUL || v->type != F32) return 0;
    for (int i = 0; i < 2; i++) {
        const Val *by = &b->val.at[v->arg[i]], *of = &b->val.at[body_unconverted(b, v->arg[1 - i])];
        if (by->kind == VAL_CONST && of->kind == VAL_READ && !of->has_else)
            return bits_to_double(F32, by->bits);
    }
    return 0;
}

double weighing_factor(const Flow *flow, const int *maps, const Weighing *w) {
    static const double LEAST = 0x1p-60;
    double factor = 1;
    for (int p = 1; p < w->top; p++) factor *= factor_of(flow->map.at[maps[p]]);
    return factor >= LEAST && factor <= 1 ? factor : 0;
}
