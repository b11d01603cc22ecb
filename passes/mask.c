/* SPDX-License-Identifier: Apache-2.0 */
/* Pass `mask`: what a constant mask leaves out is not computed.
 *
 * A map that adds a constant matrix of zeros and of values far below any score (-inf, less than
 * -2^100, of f16 the lowest) gives scores whose exponential, once the row's maximum is taken off,
 * is 0 beyond some last column of each row. Where that is the column i + P for row i at most (a
 * causal mask), the domains of the maps between the scores and what they weigh end there: the
 * product that makes the scores, the maximum, the exponential, the sum, the quotient, the product
 * with the values. Nothing is left out that any of these could tell from 0, for finite values and
 * scores below 2^100 (2^14 beside a mask of f16); so strict mathematics does without this pass.
 *
 * The constraint goes by blocks of rows and columns, j <= B*(i/B) + B-1 + P, so that a block of
 * rows in a nest has one end for its loops and needs no test inside. The mask itself stays. */
#include "passes/access.h"

enum { CHAIN = 16 };

/* What is known of a container beyond the end of a row. */
typedef enum { BEYOND_LOW, BEYOND_ZERO } Beyond;

typedef struct Masking {
    Arena *arena;
    Flow *flow;
    int lanes;
    int *writer;
    IntVec *readers;
    int n; /* maps of the chain, with their row and column dims */
    int map[CHAIN], row[CHAIN], column[CHAIN];
} Masking;

static void survey(Masking *k, const Items *items) {
    for (int i = 0; i < items->n; i++) {
        const Item *it = &items->at[i];
        if (it->kind == ITEM_MAP) {
            const Body *b = &k->flow->map.at[it->map]->body;
            for (int v = 0; v < b->val.n; v++)
                if (b->val.at[v].kind == VAL_READ)
                    vec_push(k->arena, &k->readers[b->val.at[v].read.cont], it->map);
            continue;
        }
        for (int c = 0; it->kind == ITEM_CALL && c < it->call->nin; c++)
            if (it->call->in[c] >= 0) vec_push(k->arena, &k->readers[it->call->in[c]], -1);
        for (int c = 0; c < it->carry.n; c++) {
            vec_push(k->arena, &k->readers[it->carry.at[c].init], -1);
            vec_push(k->arena, &k->readers[it->carry.at[c].next], -1);
        }
        survey(k, &it->body);
        survey(k, &it->other);
    }
}

/* ---- the mask ------------------------------------------------------------------------------- */

/* As good as -inf before an exponential. */
static double low(DType t) {
    return t == F16 ? -65504 : -0x1p100;
}

/* The last dims of a dense constant, all others 1: P such that no row i has a value above `low`
 * beyond column i + P, while each has one up to there. False: not such a mask. */
static bool mask_end(const Cont *c, int64_t *end) {
    int64_t rows, columns;
    if ((c->kind != CONT_PARAM && c->kind != CONT_LITERAL) || !c->data || c->layout ||
        c->rank < 2 || !dtype_is_float(c->type) || dtype_bits(c->type) > 32)
        return false;
    for (int k = 0; k + 2 < c->rank; k++)
        if (!dim_is(c->shape[k], 1)) return false;
    if (!dim_is_const(c->shape[c->rank - 2], &rows) ||
        !dim_is_const(c->shape[c->rank - 1], &columns))
        return false;
    *end = INT64_MIN;
    for (int64_t i = 0; i < rows; i++) {
        int64_t last = -1;
        for (int64_t j = 0; j < columns; j++) {
            double v = bits_to_double(c->type, mem_get(c->type, c->data, i * columns + j));
            if (v > low(c->type) || v != v) last = j;
        }
        if (last < 0) return false;
        if (last - i > *end) *end = last - i;
    }
    return *end >= 0 && *end + 1 < columns;
}

/* ---- the chain ------------------------------------------------------------------------------ */

static bool add(Masking *k, int map, int row, int column) {
    if (map < 0 || k->n == CHAIN || row < 0 || column < 0 || row == column) return false;
    const Map *m = k->flow->map.at[map];
    if (m->write.n != 1 || m->write.at[0].n != 1 || m->cons.n) return false;
    for (int d = 0; d < m->dim.n; d++)
        if (m->dim.at[d].seq) return false;
    k->map[k->n] = map, k->row[k->n] = row, k->column[k->n++] = column;
    return true;
}

static bool depends(const Map *m, int val, int dim) {
    const Val *v = &m->body.val.at[val];
    bool uses = false;
    for (int i = 0; v->kind == VAL_READ && i < v->read.rank; i++)
        uses |= dim_uses(v->read.at[i], m->dim.at[dim].sym) || access_by_value(m, &v->read);
    uses |= v->kind == VAL_INDEX || (v->kind == VAL_READ && v->has_else);
    for (int a = 0; v->kind == VAL_PRIM && a < prim_row(v->prim)->arity; a++)
        uses |= depends(m, v->arg[a], dim);
    return uses;
}

static bool follow(Masking *k, int cont, int row, int column, Beyond beyond);

/* Reader m of the chain's container, by its only read v of it: does it end the chain, or hand on
 * zeros? */
static bool follow_reader(Masking *k, int map, int v, int row, int column, Beyond beyond) {
    const Map *m = k->flow->map.at[map];
    const Write *w = &m->write.at[0];
    if (!add(k, map, row, column)) return false;
    const Val *val = &m->body.val.at[w->val[0]];
    bool product =
        val->kind == VAL_PRIM && val->prim == P_MUL && (val->arg[0] == v || val->arg[1] == v);
    if (w->combine) {
        bool whole = w->val[0] == v, reduced = map_reduces(m, column);
        if (!reduced || map_reduces(m, row) || w->nstate != 1) return false;
        return beyond == BEYOND_LOW ? whole && w->combine->simple == P_MAX
                                    : (whole || product) && w->combine->simple == P_ADD;
    }
    if (beyond == BEYOND_LOW) {
        const Val *e =
            val->kind == VAL_PRIM && val->prim == P_EXP ? &m->body.val.at[val->arg[0]] : NULL;
        if (!e || e->kind != VAL_PRIM || e->prim != P_SUB || e->arg[0] != v) return false;
        const Val *top = &m->body.val.at[e->arg[1]];
        if (top->kind != VAL_READ || depends(m, e->arg[1], column)) return false;
        int by = k->writer[top->read.cont];
        const Map *max = by < 0 ? NULL : k->flow->map.at[by];
        if (!max || !max->write.at[0].combine || max->write.at[0].combine->simple != P_MAX)
            return false;
    } else {
        bool quotient = val->kind == VAL_PRIM && val->prim == P_DIV && val->arg[0] == v;
        if (!quotient && !product) return false;
        int other = val->arg[0] == v ? val->arg[1] : val->arg[0];
        if (depends(m, other, column)) return false;
    }
    int to[2] = {-1, -1};
    for (int d = 0; d < w->to[0].rank; d++) {
        if (access_dim(m, &w->to[0], d) == row) to[0] = d;
        if (access_dim(m, &w->to[0], d) == column) to[1] = d;
    }
    return follow(k, w->to[0].cont, to[0], to[1], BEYOND_ZERO);
}

/* All readers of a container whose indices `row` and `column` are those of the mask. */
static bool follow(Masking *k, int cont, int row, int column, Beyond beyond) {
    if (row < 0 || column < 0 || k->flow->cont.at[cont].kind != CONT_TMP || k->writer[cont] < 0)
        return false;
    for (int r = 0; r < k->readers[cont].n; r++) {
        int map = k->readers[cont].at[r], read = -1;
        if (map < 0) return false;
        const Map *m = k->flow->map.at[map];
        for (int v = 0; v < m->body.val.n; v++) {
            const Val *val = &m->body.val.at[v];
            if (val->kind != VAL_READ || val->read.cont != cont) continue;
            if (read >= 0 || val->has_else) return false;
            read = v;
        }
        const Access *a = &m->body.val.at[read].read;
        int i = access_dim(m, a, row), j = access_dim(m, a, column);
        if (i < 0 || j < 0 || !follow_reader(k, map, read, i, j, beyond)) return false;
    }
    return k->readers[cont].n > 0;
}

/* The maps that make what only the masked map reads: they end where it does. */
static void follow_back(Masking *k, const Map *m, const Val *read, int row, int column) {
    int cont = read->read.cont, by = k->writer[cont];
    if (by < 0 || k->readers[cont].n != 1 || k->flow->cont.at[cont].kind != CONT_TMP) return;
    const Map *p = k->flow->map.at[by];
    const Access *to = &p->write.at[0].to[0];
    int i = -1, j = -1;
    for (int d = 0; d < to->rank; d++) {
        if (access_dim(m, &read->read, d) == row) i = access_dim(p, to, d);
        if (access_dim(m, &read->read, d) == column) j = access_dim(p, to, d);
    }
    if (i < 0 || j < 0 || map_reduces(p, i) || map_reduces(p, j)) return;
    if (!add(k, by, i, j) || p->write.at[0].combine) return;
    for (int v = 0; v < p->body.val.n; v++)
        if (p->body.val.at[v].kind == VAL_READ && !p->body.val.at[v].has_else)
            follow_back(k, p, &p->body.val.at[v], i, j);
}

/* ---- the constraint ------------------------------------------------------------------------- */

static void end_domains(Masking *k, int64_t end, int64_t block) {
    Ctx *ctx = k->flow->ctx;
    for (int i = 0; i < k->n; i++) {
        Map *m = k->flow->map.at[k->map[i]];
        Dim row = m->dim.at[k->row[i]].sym, b = dim_const(ctx, block);
        Dim last = dim_addc(ctx, dim_mul(ctx, b, dim_div(ctx, row, b)), block - 1 + end);
        vec_push(k->arena, &m->cons, dim_sub(ctx, last, m->dim.at[k->column[i]].sym));
    }
}

/* The mask is the operand of a sum that is the map's value, over whole blocks. */
static void mask_map(Masking *k, int map) {
    const Map *m = k->flow->map.at[map];
    if (m->write.n != 1 || m->write.at[0].combine || m->write.at[0].n != 1) return;
    const Val *sum = &m->body.val.at[m->write.at[0].val[0]];
    if (sum->kind != VAL_PRIM || sum->prim != P_ADD) return;
    for (int a = 0; a < 2; a++) {
        int given = body_unconverted(&m->body, sum->arg[a]);
        const Val *mask = &m->body.val.at[given];
        int64_t end, block = 2 * k->lanes;
        if (mask->kind != VAL_READ || mask->has_else ||
            !mask_end(&k->flow->cont.at[mask->read.cont], &end))
            continue;
        int rank = mask->read.rank, row = access_dim(m, &mask->read, rank - 2),
            column = access_dim(m, &mask->read, rank - 1), to[2] = {-1, -1};
        const Access *write = &m->write.at[0].to[0];
        for (int d = 0; d < write->rank; d++) {
            if (access_dim(m, write, d) == row) to[0] = d;
            if (access_dim(m, write, d) == column) to[1] = d;
        }
        k->n = 0;
        if (!add(k, map, row, column)) continue;
        int64_t columns = map_extent(m, column, -1), rows = map_extent(m, row, -1);
        end = (end + block - 1) / block * block;
        if (columns % block || rows % block || rows + end > columns) continue;
        if (!follow(k, write->cont, to[0], to[1], BEYOND_LOW)) continue;
        for (int v = 0; v < m->body.val.n; v++)
            if (m->body.val.at[v].kind == VAL_READ && v != given)
                follow_back(k, m, &m->body.val.at[v], row, column);
        end_domains(k, end, block);
        return;
    }
}

Flow *pass_mask(Arena *arena, const Flow *flow, const PassEnv *env);
Flow *pass_mask(Arena *arena, const Flow *flow, const PassEnv *env) {
    Masking k = {.arena = arena, .flow = flow_clone(arena, flow)};
    if (env->math == MATH_STRICT) return k.flow;
    k.lanes = env->machine->vector_bytes / 4;
    k.writer = flow_writers(arena, k.flow);
    k.readers = arena_array(arena, (size_t)flow->cont.n + 1, sizeof *k.readers);
    survey(&k, &k.flow->body);
    for (int m = 0; m < k.flow->map.n; m++) mask_map(&k, m);
    return k.flow;
}
