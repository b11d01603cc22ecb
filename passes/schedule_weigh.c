/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of scores that weigh rows of values (weigh.h), for a machine of blocks of threads: the lines
 * of both products, rows and warps alike, and the keys, which are columns of one and are reduced in
 * the other, in the same blocks. */
#include "passes/schedule.h"
#include "passes/weigh.h"

static const int64_t unknown_extent = 64;
enum { ROWS_OF_WARP = 16, ROWS_OF_BLOCK = 128, COLUMNS_MOST = 128, DEPTH_MOST = 256, PAD = 16 };
enum { WIDE = 128 }; /* depth and columns of which a warp has registers for 16 rows only */
enum { FEWEST_KEYS = 16 };

/* ---- tiles ------------------------------------------------------------------------------------
 */

typedef struct Operands {
    const Flow *flow;
    const Map *scores, *root;
    const Val *q, *k, *p, *v;
} Operands;

static Operands operands_of(const Flow *flow, const int *maps, const Weighing *w) {
    const Map *s = flow->map.at[maps[0]], *y = flow->map.at[maps[w->root]];
    return (Operands){flow,
                      s,
                      y,
                      &s->body.val.at[w->q],
                      &s->body.val.at[w->k],
                      &y->body.val.at[w->p],
                      &y->body.val.at[w->v]};
}

/* Copies can be made of it: floats of two or four bytes as they are stored. */
static bool can_copy(const Operands *o, const Val *read) {
    const Cont *c = &o->flow->cont.at[read->read.cont];
    int bits = dtype_bits(c->type);
    return !c->layout && dtype_is_float(c->type) && (bits == 16 || bits == 32);
}

/* What is copied beyond the last key is zero, as the container ends there; or there is nothing. */
static bool ends_with_keys(const Operands *o, int key, int64_t block) {
    const Access *a = &o->v->read;
    int64_t extent = map_extent(o->root, key, -1);
    for (int k = 0; k < a->rank; k++)
        if (access_dim(o->root, a, k) == key)
            return extent % block == 0 ||
                   o->flow->cont.at[a->cont].shape[k] == o->root->dim.at[key].extent;
    return extent > 0 && extent % block == 0;
}

static const WarpStep *step_for(const Machine *m, DType a, DType b, bool group) {
    for (int i = 0; i < m->nstep; i++)
        if (m->step[i]->a == a && m->step[i]->b == b && m->step[i]->c == F32 &&
            (m->step[i]->warps > 1) == group && !m->step[i]->round && !m->step[i]->plain)
            return m->step[i];
    return NULL;
}

/* Terms that no map divides are rounded as the values are that they weigh. */
DType weighing_type(const Flow *flow, const int *maps, const Weighing *w) {
    const Body *b = &flow->map.at[maps[w->root]]->body;
    return b->val.at[w->weights >= 0 ? w->p : w->v].type;
}

static int64_t bytes_of(const Val *v) {
    return dtype_bits(v->type) / 8;
}

/* Steps have rows of q and their weights in registers. */
static bool fits(const Operands *o, const Machine *m, const WeighTile *t) {
    int64_t q = t->scores ? 0 : t->rows * (t->depth * bytes_of(o->q) + PAD),
            p = t->values ? 0 : t->rows * (t->keys * bytes_of(o->p) + PAD), once = q + p,
            slot = t->keys * (t->depth * bytes_of(o->k) + PAD) +
                   t->keys * (t->columns * bytes_of(o->v) + PAD);
    return once + (t->ahead + 1) * slot <= m->shared_most / 2;
}

/* As many rows for each key that is fetched as leave a block for every core. */
static int64_t rows_of_block(const Operands *o, const Machine *m, const Weighing *w,
                             const WeighTile *t) {
    double others = 1;
    for (int k = 0; k < w->rank; k++)
        if (k != w->row && k != w->key)
            others *= (double)extent_or(o->flow->cont.at[o->p->read.cont].shape[k], unknown_extent);
    int64_t rows = t->depth + t->columns > WIDE ? ROWS_OF_BLOCK / 2 : ROWS_OF_BLOCK,
            extent = map_extent(o->root, w->dim[w->root][w->row], ROWS_OF_BLOCK);
    while (rows > ROWS_OF_WARP &&
           (rows / 2 >= extent || others * (double)((extent + rows - 1) / rows) < m->cores))
        rows /= 2;
    return rows;
}

/* Is there a key wherever there is a result? */
static bool has_one(const Operands *o, int key) {
    DimEnv env = map_env(o->flow->arena, o->flow, o->root);
    Dim keys = o->root->dim.at[key].extent;
    for (int d = 0; d < o->root->dim.n; d++)
        if (!map_reduces(o->root, d) && o->root->dim.at[d].extent == keys) return true;
    return dim_ge0(o->flow->ctx, dim_addc(o->flow->ctx, keys, -1), &env);
}

/* Rows without keys sum nothing: that is 0, and not 0 / 0, unless the sum is divided last. */
static bool has_keys(const Operands *o, const Weighing *w) {
    Ctx *ctx = o->flow->ctx;
    if (!has_one(o, w->dim[w->root][w->key])) return false;
    if (!w->end || w->weights < 0) return true;
    Map any = *o->root; /* every row, also those that its constraint leaves out */
    any.cons.n = 0;
    DimEnv env = map_env(o->flow->arena, o->flow, &any);
    DimSubst first[] = {{weighing_row(ctx), any.dim.at[w->dim[w->root][w->row]].sym},
                        {weighing_key(ctx), dim_const(ctx, 0)}};
    return dim_ge0(ctx, dim_subst(ctx, w->end, first, 2), &env);
}

static bool choose_keys(const Operands *o, const Machine *m, const Weighing *w, WeighTile *t) {
    static const int sizes[][2] = {{64, 2}, {64, 1}, {32, 2}, {32, 1}, {16, 1}};
    int key = w->dim[w->root][w->key];
    for (; t->rows >= ROWS_OF_WARP; t->rows /= 2)
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            t->keys = sizes[i][0], t->ahead = sizes[i][1];
            if (t->keys / 2 >= map_extent(o->root, key, INT32_MAX)) continue;
            if (ends_with_keys(o, key, t->keys) && fits(o, m, t)) return true;
        }
    return false;
}

/* Steps of several warps: one such group a block, as several blocks on a core take turns with their
 * products and their exponentials. Few keys are gone through in longer blocks, which leave less to
 * do between them; more in shorter ones, which leave room for more groups. Operands lie in rows of
 * 128 bytes. False: they do not, or one warp would have all rows. */
static bool group_tile(const Operands *o, const Machine *m, const Weighing *w, WeighTile *t) {
    enum { KEYS = 64, FEW = 1024 };
    int key = w->dim[w->root][w->key];
    int64_t row = SWIZZLED_ROW / bytes_of(o->v);
    WeighTile g = *t;
    if (!t->scores || !t->values) return false;
    g.scores = step_for(m, t->scores->a, t->scores->b, true);
    g.values = step_for(m, t->values->a, t->values->b, true);
    if (!g.scores || !g.values || t->depth % row || t->columns % row) return false;
    g.rows = g.warp_rows = g.scores->rows;
    g.keys = KEYS;
    g.ahead = 1;
    WeighTile longer = g;
    longer.keys = 2 * KEYS;
    int64_t keys = map_extent(o->root, key, INT32_MAX), blocks = (keys + KEYS - 1) / KEYS;
    if (t->depth + t->columns <= WIDE && blocks % 2 == 0 && keys <= FEW &&
        ends_with_keys(o, key, longer.keys) && fits(o, m, &longer))
        g = longer;
    if (map_extent(o->root, w->dim[w->root][w->row], KEYS) <= ROWS_OF_WARP ||
        map_extent(o->root, key, KEYS) <= KEYS / 2 || !ends_with_keys(o, key, KEYS) ||
        !fits(o, m, &g))
        return false;
    *t = g;
    return true;
}

/* Terms of a score as steps take them: they go on with zeros where pieces of eight end within a
 * step. */
static int64_t depth_of_steps(const WarpStep *step, int64_t depth) {
    enum { PIECE = 8 };
    return step && depth % PIECE == 0 ? (depth + step->depth - 1) / step->depth * step->depth
                                      : depth;
}

bool weighing_tile(const Flow *flow, const Machine *machine, const int *maps, const Weighing *w,
                   WeighTile *t) {
    enum { PLAIN_DEPTH = 4, PLAIN_COLUMNS = 8 };
    Operands o = operands_of(flow, maps, w);
    if (w->row < 0) return false;
    int row = w->dim[w->root][w->row], key = w->dim[w->root][w->key];
    if (!can_copy(&o, o.q) || !can_copy(&o, o.k) || !can_copy(&o, o.p) || !can_copy(&o, o.v))
        return false;
    DType weights = weighing_type(flow, maps, w);
    *t = (WeighTile){.scores = step_for(machine, o.q->type, o.k->type, false),
                     .values = step_for(machine, weights, o.v->type, false)};
    t->depth = depth_of_steps(t->scores, map_extent(o.scores, w->depth, 0));
    t->columns = map_extent(o.root, w->column, 0);
    if (t->depth < 1 || t->depth > DEPTH_MOST || t->columns < 1 || t->columns > COLUMNS_MOST ||
        t->depth % (t->scores ? t->scores->depth : PLAIN_DEPTH) || t->columns % PLAIN_COLUMNS)
        return false;
    if (map_extent(o.root, row, WEIGH_ROWS) < WEIGH_ROWS ||
        map_extent(o.root, key, FEWEST_KEYS) < FEWEST_KEYS || !has_keys(&o, w))
        return false;
    if (group_tile(&o, machine, w, t)) return true;
    t->rows = rows_of_block(&o, machine, w, t);
    t->warp_rows =
        t->rows == ROWS_OF_BLOCK && t->scores && t->values ? 2 * ROWS_OF_WARP : ROWS_OF_WARP;
    return choose_keys(&o, machine, w, t);
}

/* ---- lines ------------------------------------------------------------------------------------
 */

static void size_line(const Rows *r, LineKind kind, int pos, int dim, int64_t size) {
    const Map *m = r->s->flow->map.at[r->kernel->map.at[pos]];
    line_dim(r->s->flow, kernel_line(r->s->flow, r->kernel, kind, pos), m, dim, size);
}

static void stage_line(const Rows *r, int pos, int read, int ahead) {
    const Map *m = r->s->flow->map.at[r->kernel->map.at[pos]];
    Line *line = kernel_line(r->s->flow, r->kernel, LINE_STAGE, pos);
    line->cont = m->body.val.at[read].read.cont;
    line->ahead = ahead;
}

static void use_line(const Rows *r, int pos, const WarpStep *step) {
    if (step) kernel_line(r->s->flow, r->kernel, LINE_USE, pos)->name = step->name;
}

bool weigh_tiles(Rows *r) {
    const Machine *machine = r->s->env->machine;
    Weighing w;
    WeighTile t;
    if (r->s->env->math == MATH_STRICT || r->kernel->map.n > WEIGH_MAPS ||
        !weighing_find(r->s->flow, r->kernel->map.at, r->kernel->map.n, &w) ||
        !weighing_tile(r->s->flow, machine, r->kernel->map.at, &w, &t))
        return false;
    for (int i = 0; i < 2; i++) {
        int pos = i ? w.root : 0, columns = i ? w.column : w.dim[0][w.key];
        int64_t width = i ? t.columns : t.keys;
        size_line(r, LINE_ROWS, pos, w.dim[pos][w.row], t.rows);
        size_line(r, LINE_COLUMNS, pos, columns, width);
        size_line(r, LINE_ROWS, pos, w.dim[pos][w.row], t.warp_rows);
        size_line(r, LINE_COLUMNS, pos, columns, width);
        size_line(r, LINE_DEPTH, pos, i ? w.dim[w.root][w.key] : w.depth, i ? t.keys : t.depth);
        use_line(r, pos, i ? t.values : t.scores);
    }
    stage_line(r, 0, w.q, 0);
    stage_line(r, 0, w.k, t.ahead);
    stage_line(r, w.root, w.v, t.ahead);
    keep_in_registers(r);
    return true;
}
