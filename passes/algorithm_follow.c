/* SPDX-License-Identifier: Apache-2.0 */
/* What continues a product that has two forms, one for many rows and one for few: element-wise maps
 * behind it, if all that they read, and all sizes, are known where the product stands. Each form
 * gets them, so that they share its kernel; what they hand on to one another each has of its own.
 */
#include "passes/algorithm.h"

typedef struct Following {
    Editing *e;
    const Items *items;
    ByRows *by;
    Dim columns;   /* the product's */
    int *column;   /* by item: its dim that counts the product's cut columns; -1: it stays */
    bool *blocked; /* by container: written behind the product by what does not follow */
    int *index;    /* by container: which index counts these columns, or -1 */
    int *few;      /* by container: what stands for it where rows are few, or -1 */
    bool sizes;    /* are sizes defined behind the product? */
} Following;

static void block(Following *f, const Item *it) {
    IntVec conts = item_writes(f->e->arena, f->e->flow, it);
    for (int k = 0; k < conts.n; k++) f->blocked[conts.at[k]] = true;
    for (int k = 0; k < it->carry.n; k++) f->blocked[it->carry.at[k].cur] = true;
    f->sizes |= it->done || (it->kind == ITEM_CALL && it->call->ndefine);
    for (int i = 0; i < it->body.n; i++) block(f, &it->body.at[i]);
    for (int i = 0; i < it->other.n; i++) block(f, &it->other.at[i]);
}

/* The map's dim that counts the cut columns, by all that it reads of the product and of what
 * follows; -1: it does not follow. */
static int column_dim(const Following *f, const Map *m) {
    int column = -1;
    for (int v = 0; v < m->body.val.n; v++) {
        const Val *val = &m->body.val.at[v];
        if (val->kind != VAL_READ) continue;
        int k = f->index[val->read.cont], d = k < 0 ? -1 : access_dim(m, &val->read, k);
        if (f->blocked[val->read.cont]) return -1;
        if (f->e->flow->cont.at[val->read.cont].kind == CONT_STATE) return -1;
        if (k < 0) continue;
        if (val->has_else || !access_covers(m, &val->read) || d < 0) return -1;
        if (m->dim.at[d].extent != f->columns) return -1;
        if (column >= 0 && d != column) return -1;
        column = d;
    }
    return column;
}

static const Map *map_of(const Following *f, const Item *it) {
    return f->e->flow->map.at[it->map];
}

/* The same of an item, or -1. Notes where the columns are in what it writes. */
static int follows(Following *f, const Item *it) {
    const Map *m = it->kind == ITEM_MAP ? map_of(f, it) : NULL;
    const Access *to = m ? map_plain_write(m) : NULL;
    if (!to || f->sizes || map_is_reduction(m) || m->cons.n || m->dim.n + COLUMN_DIMS > RANK_MAX)
        return -1;
    if (f->e->uses.writer[to->cont] != it->map || f->e->flow->cont.at[to->cont].kind == CONT_STATE)
        return -1;
    int column = column_dim(f, m);
    if (column >= 0 && writes_whole(f->e->flow, m, to))
        f->index[to->cont] = access_plain(m, to, column);
    else if (column >= 0)
        f->blocked[to->cont] = true;
    return column;
}

static bool map_follows(const Following *f, int map) {
    for (int i = 0; i < f->items->n; i++)
        if (f->column[i] >= 0 && f->items->at[i].map == map) return true;
    return false;
}

/* Do maps that follow alone read it? */
static bool handed_on(const Following *f, int cont) {
    const Uses *u = &f->e->uses;
    bool all = f->e->flow->cont.at[cont].kind == CONT_TMP && !u->held[cont] && f->index[cont] >= 0;
    for (int r = 0; r < u->readers[cont].n && all; r++)
        all = map_follows(f, u->readers[cont].at[r]);
    return all;
}

/* ---- the form for few rows ---------------------------------------------------------------------
 */

/* Indices with those of the columns in place of number k. */
static int split_at(const Following *f, const Dim *at, int rank, int k, const Dim *columns,
                    Dim *out) {
    int n = 0;
    for (int i = 0; i < rank; i++) {
        for (int c = 0; i == k && c < f->by->n; c++) out[n++] = columns[c];
        if (i != k) out[n++] = at[i];
    }
    return n;
}

/* A container like `cont` with its columns split. */
static int split_cont(Following *f, int cont) {
    Flow *flow = f->e->flow;
    const Cont c = flow->cont.at[cont];
    Dim shape[RANK_MAX];
    int n = split_at(f, c.shape, c.rank, f->index[cont], f->by->split, shape);
    return flow_cont(flow, internf(flow->ctx, "%s.few", c.name), c.kind, c.type, shape, n);
}

/* A map in place of another, and its dims. */
typedef struct Few {
    const Following *f;
    Map *map;
    Dim column[COLUMN_DIMS]; /* in place of that of the columns */
} Few;

static Few few_map(Following *f, const char *name, const char *from) {
    Flow *flow = f->e->flow;
    name = internf(flow->ctx, "%s.few", name);
    return (Few){f, flow_map(flow, &f->by->item.other, name, from), {NULL}};
}

/* What stands for a dim of so many indices. */
static Dim few_dim(Few *w, const MapDim *dim, bool columns) {
    const ByRows *by = w->f->by;
    Flow *flow = w->f->e->flow;
    const char *name = dim_sym_name(dim->sym);
    if (!columns) return map_dim(flow, w->map, name, dim->extent);
    for (int i = 0; i < by->n; i++) w->column[i] = map_dim(flow, w->map, name, by->split[i]);
    return dim_flat(flow->ctx, w->column, by->split, by->n);
}

static int read_few(void *user, Body *b, const Val *read) {
    const Few *w = user;
    int cont = read->read.cont, few = w->f->few[cont];
    Dim at[RANK_MAX];
    if (few < 0) return -1;
    int n = split_at(w->f, read->read.at, read->read.rank, w->f->index[cont], w->column, at);
    Access to = {few, n, arena_copy(b->arena, at, sizeof *at * (size_t)n)};
    return body_read(b, to, read->type);
}

static void follow_few(Following *f, const Map *m, int column) {
    Flow *flow = f->e->flow;
    Few w = few_map(f, m->name, m->from);
    const Access *to = &m->write.at[0].to[0];
    DimSubst subst[MAP_DIMS];
    Dim at[RANK_MAX], split[RANK_MAX];
    for (int d = 0; d < m->dim.n; d++)
        subst[d] = (DimSubst){m->dim.at[d].sym, few_dim(&w, &m->dim.at[d], d == column)};
    int *val = NEW_ARRAY(f->e->arena, int, m->body.val.n + 1), few = f->few[to->cont];
    body_inline(&w.map->body, &m->body, subst, m->dim.n, NULL, read_few, &w, val);
    for (int k = 0; k < to->rank; k++) at[k] = dim_subst(flow->ctx, to->at[k], subst, m->dim.n);
    if (few >= 0) split_at(f, at, to->rank, f->index[to->cont], w.column, split);
    int value = val[m->write.at[0].val[0]];
    map_write(flow, w.map, few >= 0 ? few : to->cont, few >= 0 ? split : at, value, NULL);
}

/* The product's results where other maps read them. */
static void results_few(Following *f, const Map *product, const Access *to) {
    Flow *flow = f->e->flow;
    Few w = few_map(f, product->name, product->from);
    Dim at[RANK_MAX], split[RANK_MAX];
    for (int k = 0; k < to->rank; k++) {
        int d = access_dim(product, to, k);
        at[k] = d < 0 ? to->at[k] : few_dim(&w, &product->dim.at[d], d == f->by->column);
    }
    split_at(f, at, to->rank, f->index[to->cont], w.column, split);
    map_write(flow, w.map, to->cont, at, map_read(flow, w.map, f->by->few, split), NULL);
}

static void follow_all(Following *f) {
    for (int i = 0; i < f->items->n; i++) {
        if (f->column[i] < 0) continue;
        const Map *m = map_of(f, &f->items->at[i]);
        int to = m->write.at[0].to[0].cont;
        vec_push(f->e->arena, &f->by->item.body, f->items->at[i]);
        if (handed_on(f, to)) f->few[to] = split_cont(f, to);
        follow_few(f, m, f->column[i]);
    }
}

void follow_both(Editing *e, const Items *items, int at, bool *gone, ByRows *by) {
    const Map *product = e->flow->map.at[items->at[at].map];
    const Access *to = &product->write.at[0].to[0];
    int n = e->flow->cont.n;
    Following f = {.e = e, .items = items, .by = by};
    f.columns = product->dim.at[by->column].extent;
    f.blocked = NEW_ARRAY(e->arena, bool, n);
    f.index = NEW_ARRAY(e->arena, int, n), f.few = NEW_ARRAY(e->arena, int, n);
    f.column = NEW_ARRAY(e->arena, int, items->n);
    for (int c = 0; c < n; c++) f.index[c] = f.few[c] = -1;
    f.index[to->cont] = access_plain(product, to, by->column);
    for (int i = 0; i < items->n; i++) {
        f.column[i] = i <= at || gone[i] ? -1 : follows(&f, &items->at[i]);
        if (i > at && !gone[i] && f.column[i] < 0) block(&f, &items->at[i]);
    }
    for (int i = at + 1; i < items->n; i++) gone[i] |= f.column[i] >= 0;
    if (!handed_on(&f, to->cont)) results_few(&f, product, to);
    f.few[to->cont] = by->few;
    follow_all(&f);
}
