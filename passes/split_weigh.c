/* SPDX-License-Identifier: Apache-2.0 */
/* Few rows of scores that weigh rows of values (weigh.h), in parts of their keys.
 *
 * Decoding has one row of queries, or one for each of a few heads, and thousands of keys. A block
 * for each head leaves most of a machine of blocks idle, and what goes from the scores to their
 * maximum, to the weights and to the values meets in memory each time. So the keys are cut into
 * parts: each is a softmax of its own, in one kernel of as many blocks as there are parts, and a
 * second kernel joins the parts in their order (Dao et al., Flash-Decoding for long-context
 * inference, 2023), always the same whoever ran when:
 *
 *     of a part p   top[p] = max s, e = exp(s - top[p]), sum[p] = sum of e, y[p] = sum of e * v
 *     of all        top = max top[p], f[p] = exp(top[p] - top), sum = sum of f[p] * sum[p],
 *                   y = sum of f[p] * y[p], divided by sum
 *
 * Exponentials and what they weigh stay f32. A part whose scores are all -inf must weigh nothing:
 * its maximum is the lowest number instead. What hangs over the last part has no scores. */
#include <float.h>
#include <math.h>

#include "passes/split.h"
#include "passes/weigh.h"

typedef struct Parted {
    Editing *e;
    Weighing w;
    const int *map;                      /* by position */
    int64_t size;                        /* keys of a part */
    Dim keys, count;                     /* all keys; parts */
    bool whole;                          /* parts divide the keys */
    int reshaped[WEIGH_MAPS], nreshaped; /* containers of scores, now [.., part, key, ..] */
    int top, sum, terms, weighed;        /* containers of parts */
} Parted;

static Map *map_at(const Parted *s, int pos) {
    return s->e->flow->map.at[s->map[pos]];
}

/* ---- is it one --------------------------------------------------------------------------------
 */

/* Are the scores of these maps alone, and their rows few, each index one dim? */
static bool few_rows(const Parted *s, int nmap) {
    const Weighing *w = &s->w;
    const Uses *uses = &s->e->uses;
    if (w->end || w->rank + 1 > RANK_MAX) return false;
    if (w->row >= 0 && map_extent(map_at(s, 0), w->dim[0][w->row], WEIGH_ROWS) >= WEIGH_ROWS)
        return false;
    for (int k = 0; k < w->rank; k++)
        if (w->inner[0][k] >= 0 || w->inner[w->root][k] >= 0) return false;
    for (int pos = 0; pos < nmap; pos++) {
        int cont = map_at(s, pos)->write.at[0].to[0].cont;
        if (uses->home[s->map[pos]] != uses->home[s->map[0]]) return false;
        if (pos >= w->root) continue;
        if (uses->held[cont] || s->e->flow->cont.at[cont].kind != CONT_TMP ||
            s->e->flow->cont.at[cont].layout)
            return false;
        for (int r = 0; r < uses->readers[cont].n; r++) {
            bool inside = false;
            for (int i = 0; i < nmap; i++) inside |= s->map[i] == uses->readers[cont].at[r];
            if (!inside) return false;
        }
    }
    return !map_at(s, 0)->body.val.at[w->k].has_else;
}

/* Keys of a part: many, but so that blocks are some for each core; 0: they stay together. */
static int64_t part_keys(const Parted *s, const Machine *machine) {
    enum { MOST = 256, LEAST = 64, CORE_BLOCKS = 2 };
    const Flow *flow = s->e->flow;
    const Cont *c = &flow->cont.at[map_at(s, 0)->write.at[0].to[0].cont];
    double rows = 1, keys = (double)usual_extent(flow, c->shape[s->w.key]);
    int64_t known;
    if (dim_is_const(s->keys, &known) && known <= LEAST) return 0;
    for (int k = 0; k < c->rank; k++)
        if (k != s->w.key) rows *= (double)usual_extent(flow, c->shape[k]);
    int64_t size = MOST;
    while (size > LEAST && rows * keys < (double)(size * CORE_BLOCKS * machine->cores)) size /= 2;
    return size;
}

/* ---- scores -----------------------------------------------------------------------------------
 */

static bool is_reshaped(const Parted *s, int cont) {
    for (int i = 0; i < s->nreshaped; i++)
        if (s->reshaped[i] == cont) return true;
    return false;
}

/* The indices of a row's element, the key's replaced by part and key. */
static const Dim *parted_index(const Parted *s, const Dim *at, Dim part, Dim key) {
    Dim *to = NEW_ARRAY(s->e->arena, Dim, s->w.rank + 1);
    int n = 0;
    for (int k = 0; k < s->w.rank; k++) {
        if (k == s->w.key) to[n++] = part;
        to[n++] = k == s->w.key ? key : at[k];
    }
    return to;
}

typedef struct Reading {
    const Parted *s;
    Dim part, key;
    int keys; /* the container of keys, which may end within a part; or -1 */
} Reading;

static int read_part(void *user, Body *b, const Val *read) {
    const Reading *r = user;
    if (is_reshaped(r->s, read->read.cont)) {
        const Dim *at = parted_index(r->s, read->read.at, r->part, r->key);
        return body_read(b, (Access){read->read.cont, read->read.rank + 1, at}, read->type);
    }
    if (read->read.cont == r->keys && !r->s->whole)
        return body_read_else(b, read->read, read->type, body_const(b, read->type, 0));
    return read->has_else ? body_read_else(b, read->read, read->type, read->arg[0])
                          : body_read(b, read->read, read->type);
}

/* What a part's keys are less than: the number of all. */
static void end_keys(const Parted *s, Map *m, Dim key) {
    Ctx *ctx = s->e->flow->ctx;
    if (!s->whole)
        vec_push(s->e->flow->arena, &m->cons, dim_sub(ctx, dim_addc(ctx, s->keys, -1), key));
}

/* Keys of the part at hand among all. */
static Dim all_keys(const Parted *s, Dim part, Dim key) {
    Ctx *ctx = s->e->flow->ctx;
    return dim_add(ctx, dim_mulc(ctx, part, s->size), key);
}

/* A map of scores goes over the keys of a part; those beyond the last have products of zeros, of
 * which nothing is used. */
static void part_scores(Parted *s, int pos) {
    Flow *flow = s->e->flow;
    Map *m = map_at(s, pos);
    MapDim *dim = &m->dim.at[s->w.dim[pos][s->w.key]];
    Dim key = dim->sym;
    dim->extent = dim_const(flow->ctx, s->size);
    Dim part = map_dim(flow, m, "part", s->count);
    Reading r = {s, part, key, pos ? -1 : m->body.val.at[s->w.k].read.cont};
    DimSubst all = {key, all_keys(s, part, key)};
    map_rewrite(s->e, m, &all, 1, read_part, &r);
    if (pos) end_keys(s, m, all.to);
    Access *to = NEW(s->e->arena, Access);
    *to = m->write.at[0].to[0];
    to->at = parted_index(s, to->at, part, key);
    to->rank++;
    m->write.at[0].to = to;
}

static void reshape(Parted *s, int cont) {
    Cont *c = &s->e->flow->cont.at[cont];
    s->reshaped[s->nreshaped++] = cont;
    Dim keys = dim_const(s->e->flow->ctx, s->size);
    c->shape = parted_index(s, c->shape, s->count, keys);
    c->rank++;
}

/* ---- maps of rows -----------------------------------------------------------------------------
 */

/* A new map over the rows, their parts and maybe their keys. */
typedef struct RowMap {
    Map *m;
    Dim at[RANK_MAX]; /* by index of the scores; of the key: the part */
    Dim key;          /* among the part's */
} RowMap;

static RowMap row_map(const Parted *s, const char *what, bool parts, bool keys, Items *into) {
    Flow *flow = s->e->flow;
    const Map *root = map_at(s, s->w.root);
    const Cont *c = &flow->cont.at[s->reshaped[0]];
    const char *name = internf(flow->ctx, "%s.%s", root->name, what);
    RowMap r = {.m = flow_map(flow, into, name, root->from)};
    for (int k = 0; k < s->w.rank; k++) {
        Dim extent = c->shape[k < s->w.key ? k : k + 1];
        r.at[k] = k == s->w.key       ? parts ? map_dim(flow, r.m, "part", s->count) : NULL
                  : dim_is(extent, 1) ? dim_const(flow->ctx, 0)
                                      : map_dim(flow, r.m, "row", extent);
    }
    if (keys) r.key = map_dim(flow, r.m, "key", dim_const(flow->ctx, s->size));
    if (keys) end_keys(s, r.m, all_keys(s, r.at[s->w.key], r.key));
    return r;
}

static int row_cont(const Parted *s, const char *what, bool keys) {
    Flow *flow = s->e->flow;
    const Cont *c = &flow->cont.at[s->reshaped[0]];
    Dim shape[RANK_MAX];
    int n = 0;
    for (int k = 0; k < c->rank; k++)
        if (keys || k != s->w.key + 1) shape[n++] = c->shape[k];
    const char *name = internf(flow->ctx, "%s.%s", map_at(s, s->w.root)->name, what);
    return flow_cont(flow, name, CONT_TMP, F32, shape, n);
}

static int read_score(const Parted *s, const RowMap *r) {
    int cont = s->reshaped[s->nreshaped - 1];
    const Dim *at = parted_index(s, r->at, r->at[s->w.key], r->key);
    return body_cvt(&r->m->body, F32, map_read(s->e->flow, r->m, cont, at));
}

/* top, terms and sum of each part. */
static void part_rows(Parted *s, Items *into) {
    Flow *flow = s->e->flow;
    const Write *max = &map_at(s, s->w.top)->write.at[0], *sum = &map_at(s, s->w.sum)->write.at[0];
    RowMap r = row_map(s, "top", true, true, into);
    int least = body_const(&r.m->body, F32, -FLT_MAX);
    s->top = row_cont(s, "part.top", false);
    map_write(flow, r.m, s->top, r.at, body_prim2(&r.m->body, P_MAX, read_score(s, &r), least),
              max->combine);

    r = row_map(s, "terms", true, true, into);
    s->terms = row_cont(s, "part.terms", true);
    int less = body_prim2(&r.m->body, P_SUB, read_score(s, &r), map_read(flow, r.m, s->top, r.at));
    map_write(flow, r.m, s->terms, parted_index(s, r.at, r.at[s->w.key], r.key),
              body_prim1(&r.m->body, P_EXP, less), NULL);

    r = row_map(s, "sum", true, true, into);
    s->sum = row_cont(s, "part.sum", false);
    int term = map_read(flow, r.m, s->terms, parted_index(s, r.at, r.at[s->w.key], r.key));
    map_write(flow, r.m, s->sum, r.at, term, sum->combine);
}

/* ---- maps of results --------------------------------------------------------------------------
 */

/* A new map over parts and the root's results: dims in the order of their container. */
typedef struct ResultMap {
    Map *m;
    Dim part, key;
    Dim at[RANK_MAX];         /* part, results */
    int n;                    /* how many */
    Dim row[RANK_MAX];        /* indices of the scores; of the key: the part */
    DimSubst subst[MAP_DIMS]; /* the root's dims */
} ResultMap;

static ResultMap result_map(const Parted *s, const char *what, bool parts, Items *into) {
    Flow *flow = s->e->flow;
    const Map *root = map_at(s, s->w.root);
    int dims[MAP_DIMS], n = result_dims(root, dims);
    const char *name = internf(flow->ctx, "%s.%s", root->name, what);
    ResultMap r = {.m = flow_map(flow, into, name, root->from)};
    for (int d = 0; d < root->dim.n; d++)
        r.subst[d] = (DimSubst){root->dim.at[d].sym, dim_const(flow->ctx, 0)};
    if (parts) r.part = r.at[r.n++] = map_dim(flow, r.m, "part", s->count);
    for (int i = 0; i < n; i++) {
        const MapDim *d = &root->dim.at[dims[i]];
        r.subst[dims[i]].to = r.at[r.n++] = map_dim(flow, r.m, dim_sym_name(d->sym), d->extent);
    }
    const Access *p = &root->body.val.at[s->w.p].read;
    for (int k = 0; k < s->w.rank; k++)
        r.row[k] = k == s->w.key ? r.part : dim_subst(flow->ctx, p->at[k], r.subst, root->dim.n);
    return r;
}

static int result_cont(const Parted *s, const char *what, const ResultMap *r) {
    Flow *flow = s->e->flow;
    Dim shape[RANK_MAX];
    for (int i = 0; i < r->n; i++)
        for (int d = 0; d < r->m->dim.n; d++)
            if (r->m->dim.at[d].sym == r->at[i]) shape[i] = r->m->dim.at[d].extent;
    const char *name = internf(flow->ctx, "%s.%s", map_at(s, s->w.root)->name, what);
    return flow_cont(flow, name, CONT_TMP, F32, shape, r->n);
}

/* What a part weighs. */
static void part_values(Parted *s, Items *into) {
    Flow *flow = s->e->flow;
    Ctx *ctx = flow->ctx;
    const Map *root = map_at(s, s->w.root);
    ResultMap r = result_map(s, "weighed", true, into);
    r.key = map_dim(flow, r.m, "key", dim_const(ctx, s->size));
    Dim all = all_keys(s, r.part, r.key);
    r.subst[s->w.dim[s->w.root][s->w.key]].to = all;
    end_keys(s, r.m, all);
    const Access *v = &root->body.val.at[s->w.v].read;
    Dim at[RANK_MAX];
    for (int k = 0; k < v->rank; k++) at[k] = dim_subst(ctx, v->at[k], r.subst, root->dim.n);
    int term = map_read(flow, r.m, s->terms, parted_index(s, r.row, r.part, r.key));
    int value = body_cvt(&r.m->body, F32, map_read(flow, r.m, v->cont, at));
    s->weighed = result_cont(s, "part", &r);
    map_write(flow, r.m, s->weighed, r.at, body_prim2(&r.m->body, P_MUL, term, value),
              root->write.at[0].combine);
}

/* ---- all parts --------------------------------------------------------------------------------
 */

/* exp(top[part] - top) * x */
static int scaled(const Parted *s, Map *m, const Dim *part, const Access *top, int x) {
    Flow *flow = s->e->flow;
    int less = body_prim2(&m->body, P_SUB, map_read(flow, m, s->top, part),
                          map_read(flow, m, top->cont, top->at));
    return body_prim2(&m->body, P_MUL, body_prim1(&m->body, P_EXP, less), x);
}

/* What the map at `pos` writes of a row, at the row that `at` says. */
static Access of_row(const Parted *s, int pos, const Dim *at) {
    const Map *m = map_at(s, pos);
    const Access *to = &m->write.at[0].to[0];
    DimSubst subst[RANK_MAX];
    int n = 0;
    for (int k = 0; k < s->w.rank; k++)
        if (k != s->w.key && s->w.dim[pos][k] >= 0)
            subst[n++] = (DimSubst){m->dim.at[s->w.dim[pos][k]].sym, at[k]};
    Dim *own = NEW_ARRAY(s->e->arena, Dim, to->rank + 1);
    for (int k = 0; k < to->rank; k++) own[k] = dim_subst(s->e->flow->ctx, to->at[k], subst, n);
    return (Access){to->cont, to->rank, own};
}

/* A part's maximum; -inf, as it was, of one whose scores are all that and weigh nothing. */
static int true_top(const Parted *s, const RowMap *r) {
    Flow *flow = s->e->flow;
    Body *b = &r->m->body;
    int top = map_read(flow, r->m, s->top, r->at), sum = map_read(flow, r->m, s->sum, r->at);
    int none = body_prim2(b, P_EQ, sum, body_const(b, F32, 0));
    return body_prim3(b, P_SELECT, none, body_const(b, F32, -INFINITY), top);
}

static void join_rows(const Parted *s, Items *into) {
    Flow *flow = s->e->flow;
    const Combine *max = map_at(s, s->w.top)->write.at[0].combine,
                  *sum = map_at(s, s->w.sum)->write.at[0].combine;
    RowMap r = row_map(s, "join.top", true, false, into);
    Access top = of_row(s, s->w.top, r.at);
    map_write(flow, r.m, top.cont, top.at, true_top(s, &r), max);
    r = row_map(s, "join.sum", true, false, into);
    top = of_row(s, s->w.top, r.at);
    Access total = of_row(s, s->w.sum, r.at);
    int part = map_read(flow, r.m, s->sum, r.at);
    map_write(flow, r.m, total.cont, total.at, scaled(s, r.m, r.at, &top, part), sum);
}

/* Where weights were divided the result is; else whoever follows divides it. */
static void join_values(const Parted *s, Items *into) {
    Flow *flow = s->e->flow;
    const Map *root = map_at(s, s->w.root);
    const Access *to = &root->write.at[0].to[0];
    ResultMap r = result_map(s, "join", true, into), y = r;
    Access top = of_row(s, s->w.top, r.row);
    int value = scaled(s, r.m, r.row, &top, map_read(flow, r.m, s->weighed, r.at));
    Dim at[RANK_MAX];
    if (s->w.weights >= 0) y = result_map(s, "divided", false, into);
    for (int k = 0; k < to->rank; k++)
        at[k] = dim_subst(flow->ctx, to->at[k], y.subst, root->dim.n);
    if (s->w.weights < 0) {
        map_write(flow, r.m, to->cont, at, value, root->write.at[0].combine);
        return;
    }
    int cont = result_cont(s, "joined", &y);
    map_write(flow, r.m, cont, &r.at[1], value, root->write.at[0].combine);
    Access sum = of_row(s, s->w.sum, y.row);
    int all = map_read(flow, y.m, cont, y.at), by = map_read(flow, y.m, sum.cont, sum.at);
    int quotient = body_prim2(&y.m->body, P_DIV, all, by);
    map_write(flow, y.m, to->cont, at, body_cvt(&y.m->body, flow->cont.at[to->cont].type, quotient),
              NULL);
}

bool split_weighing(Editing *e, const PassEnv *env, int root, Items *into) {
    static const char *const words[] = {"whole", "keys64", "keys128", "keys256", NULL};
    int map[WEIGH_MAPS];
    Parted s = {.e = e, .map = map};
    int n = weighing_maps(e->flow, e->uses.writer, root, map);
    if (!n || !env->machine->block_threads || !weighing_find(e->flow, map, n, &s.w)) return false;
    if (!few_rows(&s, n)) return false;
    Ctx *ctx = e->flow->ctx;
    s.keys = e->flow->cont.at[map_at(&s, 0)->write.at[0].to[0].cont].shape[s.w.key];
    int64_t size = part_keys(&s, env->machine);
    int chosen = size == 64 ? 1 : size == 128 ? 2 : size == 256 ? 3 : 0;
    chosen = recipe_decide(env, "split", map_at(&s, s.w.root)->name, words, chosen);
    if (!chosen) return false;
    s.size = 32 << chosen;
    s.count = dim_ceildiv(ctx, s.keys, dim_const(ctx, s.size));
    s.whole = dim_is(dim_mod(ctx, s.keys, dim_const(ctx, s.size)), 0);
    for (int pos = 0; pos < s.w.top; pos++) reshape(&s, map_at(&s, pos)->write.at[0].to[0].cont);
    for (int pos = 0; pos < s.w.top; pos++) part_scores(&s, pos);
    part_rows(&s, into);
    part_values(&s, into);
    join_rows(&s, into);
    join_values(&s, into);
    for (int pos = s.w.top; pos <= s.w.root; pos++) map_at(&s, pos)->write.n = 0;
    return true;
}
