/* SPDX-License-Identifier: Apache-2.0 */
/* What blocks of threads ask for before their turn: rows of later blocks, and weights.
 *
 * A block's threads load their row, and then wait for each other while they reduce it: the memory
 * has less to do than it could. Where many blocks follow one another, each asks first for the row
 * of one that begins a little later; that one finds it in the cache of all cores. Only what comes
 * from memory, once, is worth that: what all blocks read of it is more than this cache holds.
 *
 * Weights are there whatever runs: threads load those that each of them uses once, if registers
 * hold them, before they wait for anything. */
#include "passes/schedule.h"

/* Blocks come to all cores at least so often. */
enum { WAVES = 3 };

typedef struct Ahead {
    const Rows *r;
    int64_t threads; /* of a block */
    const int *dim;  /* by position: what they share */
    int n, pos[MAP_DIMS], cont[MAP_DIMS];
    double bytes; /* that all blocks read of these */
} Ahead;

static const Map *map_at(const Rows *r, int pos) {
    return r->s->flow->map.at[r->kernel->map.at[pos]];
}

/* Does each block read a row of its own? Elsewhere rows come again, from a cache. */
static bool is_own(const Rows *r, int pos, const Access *read) {
    for (int d = 0; d < r->root->dim.n; d++)
        if (r->outer[d] && !dim_is(r->root->dim.at[d].extent, 1) &&
            !access_uses(map_at(r, pos), read, r->al.at[pos][d]))
            return false;
    return true;
}

/* Rows that a map of the kernel is the first to read, long enough for all threads. */
static void add_row(Ahead *a, int pos, int cont) {
    const Map *m = map_at(a->r, pos);
    bool block[MAP_DIMS];
    for (int i = 0; i < a->n; i++)
        if (a->cont[i] == cont) return;
    for (int d = 0; d < m->dim.n; d++) block[d] = rows_outer(a->r, pos, d);
    const Val *read = access_row(a->r->s->flow, m, cont, a->dim[pos], block);
    if (!read || a->n == MAP_DIMS || kernel_writer(a->r->s->flow, a->r->kernel, cont) >= 0 ||
        !is_own(a->r, pos, &read->read) || map_extent(m, a->dim[pos], 0) < a->threads)
        return;
    double elements = 1;
    for (int d = 0; d < m->dim.n; d++)
        if (access_uses(m, &read->read, d)) elements *= (double)map_extent(m, d, 1);
    a->bytes += elements * dtype_bits(read->type) / 8;
    a->pos[a->n] = pos;
    a->cont[a->n++] = cont;
}

/* Blocks, those that cores hold at a time taken as one; 0 where the run alone knows how many. */
static double waves(const Rows *r, int64_t threads) {
    double blocks = 1;
    for (int d = 0; d < r->root->dim.n; d++)
        if (r->outer[d]) blocks *= (double)map_extent(r->root, d, 0);
    return blocks * (double)threads / r->s->env->machine->live_threads;
}

/* Half as many blocks ahead as there are cores, as was measured to pay (tests/results/gpu.md); for
 * rows so short that warps take one each it was not measured. */
void ahead_lines(const Rows *r, const int *dim, int64_t threads) {
    const Machine *machine = r->s->env->machine;
    Ahead a = {.r = r, .threads = threads, .dim = dim};
    int64_t blocks = machine->cores / 2;
    if (threads <= machine->warp || r->block < 0 || waves(r, threads) < WAVES ||
        map_extent(r->root, r->block, 0) < WAVES * blocks)
        return;
    for (int p = 0; p < r->kernel->map.n; p++)
        for (int v = 0; dim[p] >= 0 && v < map_at(r, p)->body.val.n; v++)
            if (map_at(r, p)->body.val.at[v].kind == VAL_READ)
                add_row(&a, p, map_at(r, p)->body.val.at[v].read.cont);
    if (a.bytes <= (double)machine->level[machine->nlevels - 2].bytes) return;
    for (int i = 0; i < a.n; i++) {
        Line *line = kernel_line(r->s->flow, r->kernel, LINE_PREFETCH, a.pos[i]);
        line->cont = a.cont[i];
        line_dim(r->s->flow, line, map_at(r, a.pos[i]), r->al.at[a.pos[i]][r->block], blocks);
    }
}

void first_lines(const Rows *r, int pos, int64_t each) {
    enum { FIRST_BYTES = 192 };
    const Map *m = map_at(r, pos);
    for (int v = 0; v < m->body.val.n; v++) {
        const Val *val = &m->body.val.at[v];
        const Cont *c = val->kind == VAL_READ ? &r->s->flow->cont.at[val->read.cont] : NULL;
        bool once = c && c->kind == CONT_PARAM && !val->has_else && !m->cons.n &&
                    !access_by_value(m, &val->read);
        for (int d = 0; once && d < m->dim.n; d++)
            once = access_uses(m, &val->read, d) || dim_is(m->dim.at[d].extent, 1);
        if (once && dtype_bytes(c->type, each) <= FIRST_BYTES)
            kernel_line(r->s->flow, r->kernel, LINE_PREFETCH, pos)->cont = val->read.cont;
    }
}
