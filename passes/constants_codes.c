/* SPDX-License-Identifier: Apache-2.0 */
/* Weights that stay codes: what a contraction reads, and element-wise maps make of weights of far
 * fewer bits (scaled codes of 4 or 8 bits), is computed where it is read. Products by them are as
 * fast as memory brings their operands, and the contraction has registers for the rest. Not where
 * an instruction for groups multiplies what was decoded before in less time. */
#include <math.h>

#include "passes/clean.h"
#include "passes/decode.h"
#include "passes/dot.h"
#include "passes/prepare.h"

enum { WIDER = 3 }; /* times the bits, at least */

typedef struct Decoding {
    Editing e;
    const PassEnv *env;
} Decoding;

/* Does read v of the contraction ask for decoded weights that no cache would hold? */
static bool reads_decoded(const Decoding *x, const Map *m, int v) {
    const Val *val = &m->body.val.at[v];
    if (val->kind != VAL_READ || val->has_else || access_by_value(m, &val->read)) return false;
    const Cont *c = &x->e.flow->cont.at[val->read.cont];
    const Machine *machine = x->env->machine;
    double bits = cont_bits(c), held = (double)machine->level[machine->block_threads ? 0 : 1].bytes;
    if (is_weight(c) || bits / 8 <= held) return false;
    return WIDER * decode_bits(&x->e, val->read.cont) <= bits;
}

/* Do codes of less than a byte stand in a row of whole words along a reduced dim, so that lanes
 * can have a word each? */
static bool in_words(const Flow *flow, const Map *m, const Contraction *r) {
    const Access *b = &m->body.val.at[r->b].read;
    int bits = dtype_bits(flow->cont.at[b->cont].type);
    if (bits >= 8) return true;
    for (int k = 0; k < b->rank; k++)
        for (int d = 0; d < m->dim.n; d++) {
            Dim coef, rest;
            if (map_reduces(m, d) && map_extent(m, d, 1) % (32 / bits) == 0 &&
                dim_affine(flow->ctx, b->at[k], &m->dim.at[d].sym, 1, &coef, &rest) &&
                dim_is(coef, 1))
                return true;
        }
    return false;
}

/* Are all indices of a map's reads sums of its dims? */
static bool affine_reads(const Flow *flow, const Map *m) {
    Dim sym[MAP_DIMS], coef[MAP_DIMS], rest;
    for (int d = 0; d < m->dim.n; d++) sym[d] = m->dim.at[d].sym;
    for (int v = 0; v < m->body.val.n; v++) {
        const Val *val = &m->body.val.at[v];
        for (int k = 0; val->kind == VAL_READ && k < val->read.rank; k++)
            if (!dim_affine(flow->ctx, val->read.at[k], sym, m->dim.n, coef, &rest)) return false;
    }
    return true;
}

/* Does the other operand make more than one row of results? Products of these go by steps, which
 * take their operands as they are. */
static bool many_rows(const Map *m, const Contraction *r, DimRole role) {
    for (int d = 0; d < m->dim.n; d++)
        if (r->role[d] == role && map_extent(m, d, 2) > 1) return true;
    return false;
}

/* Do products of stored operands, and reading these, take less time than products by what is
 * decoded to f32 each time? */
static bool quicker_stored(const Decoding *x, const Map *m, const Contraction *r) {
    enum { ROWS = 1, SIDE = 1 };
    const Machine *machine = x->env->machine;
    const Val *a = &m->body.val.at[r->a], *b = &m->body.val.at[r->b];
    int64_t side = SIDE;
    if (machine->block_threads || !dot_types(machine, m)) return false;
    for (int d = 0; d < m->dim.n; d++)
        if (r->role[d] == ROLE_K && map_extent(m, d, SIDE) > side) side = map_extent(m, d, SIDE);
    double flop = 2 * map_volume(m, ROWS);
    double bytes = cont_bits(&x->e.flow->cont.at[b->read.cont]) / 8;
    double read = bytes / machine_bandwidth(machine, bytes);
    double rows = contraction_rows(m, r, ROWS);
    double products = flop / dot_flops(machine, a->type, b->type, rows, side);
    return fmax(read, products) < flop / machine->fma_flops;
}

/* Rounding of what is decoded where it is read saves nothing. */
static void drop_rounding(Arena *arena, Map *m) {
    ValVec *val = &m->body.val;
    for (int v = 0; v < val->n; v++)
        for (int i = 0; val->at[v].kind == VAL_PRIM && i < prim_row(val->at[v].prim)->arity; i++) {
            const Val *wide = &val->at[val->at[v].arg[i]];
            if (wide->kind != VAL_PRIM || wide->prim != P_CVT || wide->type != F32) continue;
            const Val *small = &val->at[wide->arg[0]];
            if (small->kind != VAL_PRIM || small->prim != P_CVT || small->type != BF16) continue;
            if (val->at[small->arg[0]].type == F32) val->at[v].arg[i] = small->arg[0];
        }
    Write *write = &m->write.at[0];
    int *root = arena_copy(arena, write->val, (size_t)write->nstate * sizeof *root);
    body_prune(&m->body, root, write->nstate);
    write->val = root;
}

/* The contraction with its decoded operand computed inside, if it still is one of plain rows. For
 * blocks of threads its dims stay as they are: a thread's neighbours in memory are one run. */
static void decode_operand(Decoding *x, Map *m) {
    bool blocks = x->env->machine->block_threads > 0;
    Contraction r = map_contraction(x->e.flow, m);
    bool first = r.is && reads_decoded(x, m, r.a), second = r.is && reads_decoded(x, m, r.b);
    if (first == second || m->cons.n || quicker_stored(x, m, &r)) return;
    if (blocks && many_rows(m, &r, first ? ROLE_N : ROLE_M)) return;
    const Map before = map_saved(x->e.arena, m);
    decode_into(&x->e, m, m->body.val.at[first ? r.a : r.b].read.cont);
    if (x->env->math == MATH_FAST) drop_rounding(x->e.arena, m);
    if (blocks) {
        if (m->body.val.n > BODY_MAX) *m = before;
        return;
    }
    split_dims(&x->e, m);
    r = map_contraction(x->e.flow, m);
    bool plain = r.is && m->body.val.n <= BODY_MAX && affine_reads(x->e.flow, m);
    for (int d = 0; d < m->dim.n; d++) plain &= r.role[d] != ROLE_WINDOW && r.role[d] != ROLE_BATCH;
    if (!plain || !in_words(x->e.flow, m, &r)) *m = before;
}

void constants_decode(Arena *arena, Flow *flow, const PassEnv *env) {
    Decoding x = {.e = {.arena = arena, .flow = flow}, .env = env};
    uses_count(&x.e);
    for (int m = 0; m < flow->map.n; m++) decode_operand(&x, flow->map.at[m]);
    drop_unneeded(&x.e);
}
