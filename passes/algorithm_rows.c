/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of scores that weigh rows of values (weigh.h), row by row where the run has few.
 *
 * Many rows share what is done for keys: those that lie one after the other are turned first, so
 * that neighbours stand in the lanes of one row's scores. Decoding runs the same model with one row
 * of queries; then turning a whole cache takes longer than all else, and on a machine of blocks one
 * block has all keys of a head, where its parts (split_weigh.c) would keep many blocks busy. So
 * where the run counts the rows, their number chooses: for few the maps stand again in a loop over
 * rows, each for one. */
#include "passes/algorithm.h"
#include "passes/weigh.h"

/* So many rows are not few; fewer keys need no choice. */
enum { FEW = 4, KEYS = 64 };

typedef struct ByRow {
    Editing *e;
    Weighing w;
    int map[WEIGH_MAPS], n;
    Dim var;           /* the row at hand */
    int *made, *index; /* by container: that of one row, or -1; which of its indices is the row */
} ByRow;

static const Map *map_at(const ByRow *r, int pos) {
    return r->e->flow->map.at[r->map[pos]];
}

static int row_dim(const ByRow *r, int pos) {
    const Weighing *w = &r->w;
    return pos == w->finish ? w->own[w->dim[w->root][w->row]] : w->dim[pos][w->row];
}

static Dim all_rows(const ByRow *r) {
    return map_at(r, 0)->dim.at[row_dim(r, 0)].extent;
}

static bool is_among(const ByRow *r, int map) {
    for (int i = 0; i < r->n; i++)
        if (r->map[i] == map) return true;
    return false;
}

/* The index of what a map writes that is its row; -1: none is, or others read it. */
static int row_index(const ByRow *r, int pos) {
    const Map *m = map_at(r, pos);
    const Access *to = &m->write.at[0].to[0];
    const IntVec *readers = &r->e->uses.readers[to->cont];
    if (r->e->flow->cont.at[to->cont].kind != CONT_TMP || r->e->uses.held[to->cont]) return -1;
    for (int i = 0; i < readers->n; i++)
        if (!is_among(r, readers->at[i])) return -1;
    return access_plain(m, to, row_dim(r, pos));
}

/* May a map stand for a row alone? */
static bool is_rowwise(const ByRow *r, int pos) {
    const Map *m = map_at(r, pos);
    int d = row_dim(r, pos);
    const Uses *uses = &r->e->uses;
    if (uses->home[r->map[pos]] != uses->home[r->map[0]] || d < 0 || m->write.n != 1) return false;
    if (m->write.at[0].n != 1 || m->dim.at[d].extent != all_rows(r)) return false;
    for (int v = 0; v < m->body.val.n; v++) {
        const Val *val = &m->body.val.at[v];
        if (val->kind != VAL_READ) continue;
        if (val->has_else || r->e->flow->cont.at[val->read.cont].kind == CONT_STATE) return false;
    }
    return pos == r->n - 1 || row_index(r, pos) >= 0;
}

/* Do few rows and many want something else of the keys? Of those that somebody keeps, as those of
 * earlier runs: threads turn them for many rows, blocks of threads share them out for few. */
static bool keeps_keys(const ByRow *r, const Machine *machine) {
    const Flow *flow = r->e->flow;
    const Map *m = map_at(r, 0);
    const Access *k = &m->body.val.at[r->w.k].read;
    int key = r->w.dim[0][r->w.key];
    if (flow->cont.at[k->cont].kind == CONT_TMP || map_usual(flow, m, key) < KEYS) return false;
    if (machine->block_threads) return !r->w.end;
    return access_stride(flow, m, k, key, machine->vector_bytes / 4) != 1;
}

/* May there be few rows, or many? */
static bool is_open(const ByRow *r) {
    const Flow *flow = r->e->flow;
    Dim rows = all_rows(r);
    if (dim_is_const(rows, NULL)) return false;
    return usual_extent(flow, rows) >= FEW && !always_many(flow, rows, FEW);
}

static bool find(ByRow *r, const PassEnv *env, int last) {
    const Uses *uses = &r->e->uses;
    r->n = weighing_maps(r->e->flow, uses->writer, last, r->map);
    if (!r->n || !weighing_find(r->e->flow, r->map, r->n, &r->w) || r->w.row < 0) return false;
    for (int k = 0; k < r->w.rank; k++)
        if (r->w.inner[0][k] >= 0 || r->w.inner[r->w.root][k] >= 0) return false;
    for (int pos = 0; pos < r->n; pos++)
        if (!is_rowwise(r, pos)) return false;
    return keeps_keys(r, env->machine) && is_open(r);
}

/* ---- a row by itself ---------------------------------------------------------------------------
 */

/* Indices of the container of one row, in place of those of all. */
static Access of_one(const ByRow *r, const Access *a) {
    Dim *at = arena_copy(r->e->arena, a->at, sizeof *at * (size_t)a->rank);
    int k = r->index[a->cont];
    at[k] = dim_sub(r->e->flow->ctx, at[k], r->var);
    return (Access){r->made[a->cont], a->rank, at};
}

static int read_row(void *user, Body *b, const Val *read) {
    const ByRow *r = user;
    if (r->made[read->read.cont] < 0) return -1;
    return body_read(b, of_one(r, &read->read), read->type);
}

static void make_one(ByRow *r, int pos) {
    Flow *flow = r->e->flow;
    int cont = map_at(r, pos)->write.at[0].to[0].cont;
    const Cont *c = &flow->cont.at[cont];
    Dim *shape = arena_copy(r->e->arena, c->shape, sizeof *shape * (size_t)c->rank);
    r->index[cont] = row_index(r, pos);
    shape[r->index[cont]] = dim_const(flow->ctx, 1);
    const char *name = internf(flow->ctx, "%s.row", c->name);
    r->made[cont] = flow_cont(flow, name, CONT_TMP, c->type, shape, c->rank);
}

static void map_of_row(ByRow *r, int pos, Items *into) {
    Flow *flow = r->e->flow;
    Map *m = map_again(r->e, map_at(r, pos), into);
    MapDim *d = &m->dim.at[row_dim(r, pos)];
    DimSubst row = {d->sym, dim_add(flow->ctx, r->var, d->sym)};
    d->extent = dim_const(flow->ctx, 1);
    map_rewrite(r->e, m, &row, 1, read_row, r);
    const Access *to = &m->write.at[0].to[0];
    if (r->made[to->cont] < 0) return;
    Access *own = NEW(flow->arena, Access);
    *own = of_one(r, to);
    m->write.at[0].to = own;
}

static Item rows_loop(ByRow *r, Dim rows) {
    Flow *flow = r->e->flow;
    Item loop = {.kind = ITEM_LOOP, .cond = -1, .trip = rows};
    int n = flow->cont.n;
    loop.var = r->var = loop_var(flow, "row", r->map[0]);
    r->made = NEW_ARRAY(r->e->arena, int, n), r->index = NEW_ARRAY(r->e->arena, int, n);
    for (int i = 0; i < n; i++) r->made[i] = -1;
    for (int pos = 0; pos < r->n - 1; pos++) make_one(r, pos);
    for (int pos = 0; pos < r->n; pos++) map_of_row(r, pos, &loop.body);
    flow->loops = true;
    return loop;
}

/* ---- the choice --------------------------------------------------------------------------------
 */

/* The maps leave `items`, and stand in `choice`. */
static void move_maps(ByRow *r, Items *items, int last, Items *choice) {
    int kept = 0;
    for (int i = 0; i < items->n; i++) {
        bool moves = items->at[i].kind == ITEM_MAP && is_among(r, items->at[i].map);
        if (moves)
            vec_push(r->e->arena, choice, items->at[i]);
        else
            items->at[kept++] = items->at[i];
    }
    items->n = kept;
    vec_push(r->e->arena, choice, ((Item){.kind = ITEM_MAP, .map = last, .cond = -1}));
}

bool rewrite_by_row(Editing *e, const PassEnv *env, int last, Items *into) {
    static const char *const words[] = {"together", "rows", NULL};
    Flow *flow = e->flow;
    ByRow r = {.e = e};
    if (!find(&r, env, last)) return false;
    const Map *root = map_at(&r, r.w.root);
    if (!recipe_decide(env, "algorithm", root->name, words, 1)) return false;
    Dim rows = all_rows(&r);
    Item choice = choice_of_rows(flow, rows, FEW, root->from);
    move_maps(&r, into, last, &choice.body);
    Item loop = rows_loop(&r, rows);
    vec_push(e->arena, &choice.other, loop);
    vec_push(e->arena, into, choice);
    return true;
}
