/* SPDX-License-Identifier: Apache-2.0 */
/* Weights with each result's terms side by side, on a machine of blocks of threads: [k,n] is stored
 * as (n, k).
 *
 * A product of one row reads every weight once, so all that counts is how much is under way. With
 * columns side by side a block takes a few of them and all terms: a narrow product makes fewer
 * blocks than there are cores. With terms side by side warps take results, each its own row of
 * memory.
 *
 * A product by steps copies pieces of PIECE_BYTES to shared memory. Where rows of columns do not
 * begin on such a boundary (a vocabulary of 50,257 words) it would copy one by one; rows of terms
 * may. And there are steps that take terms side by side only, or others one by one: for these a
 * copy of what are no weights is turned, where the product gains more than that takes. */
#include <math.h>

#include "passes/layout.h"
#include "passes/schedule.h"

/* Of the product's time, with copies and without them. */
static const double COPY_GAIN = 0.9;

/* The only dim with several indices that is summed, maybe those of a part; -1: there is none, or
 * another one. */
static int only_sum(const Map *m, const Contraction *r) {
    int sum = -1;
    for (int d = 0; d < m->dim.n; d++) {
        if (!map_reduces(m, d) || map_extent(m, d, 0) == 1) continue;
        if ((r->role[d] != ROLE_K && r->role[d] != ROLE_WINDOW) || sum >= 0) return -1;
        sum = d;
    }
    return sum;
}

static bool is_row(const Map *m, const Contraction *r) {
    for (int d = 0; d < m->dim.n; d++)
        if (!map_reduces(m, d) && r->role[d] != ROLE_N && map_extent(m, d, 0) != 1) return false;
    return true;
}

static bool whole_pieces(DType type, int64_t extent) {
    return extent > 0 && dtype_bytes(type, extent) % PIECE_BYTES == 0;
}

/* Rows of columns begin within pieces, rows of terms do not. */
static bool begins_within(const Layouts *l, const Map *m, const Cont *c, int sum) {
    int64_t columns, terms = map_extent(m, sum, 0);
    int x, y;
    return product_step(l->env->machine, m, &x, &y) && c->rank >= 2 &&
           dim_is_const(c->shape[c->rank - 1], &columns) && !whole_pieces(c->type, columns) &&
           whole_pieces(c->type, terms);
}

/* Does the product go by steps that want terms side by side? */
static bool wants_along(const Layouts *l, const Map *m, const Cont *c, int sum) {
    const Machine *machine = l->env->machine;
    Product p;
    int x, y;
    const WarpStep *step = product_step(machine, m, &x, &y);
    return step && step->along && whole_pieces(c->type, map_extent(m, sum, 0)) &&
           product_sizes(l->flow, machine, m, step, &p) && product_seconds(&p) < INFINITY;
}

/* The index that takes a step with each term, which may be one of a part; or -1. */
static int term_index(const Layouts *l, const Map *m, const Access *a, int d) {
    Dim term = m->dim.at[d].sym, coef, rest;
    int at = -1;
    for (int k = 0; k < a->rank; k++) {
        if (!dim_uses(a->at[k], term)) continue;
        bool steps = dim_affine(l->flow->ctx, a->at[k], &term, 1, &coef, &rest);
        if (at >= 0 || !steps || !dim_is(coef, 1)) return -1;
        at = k;
    }
    return at;
}

/* The index of the weights that runs along the sum and should be the innermost, or -1. */
static int row_index(const Layouts *l, const Map *m, const Contraction *r) {
    const Machine *machine = l->env->machine;
    const Val *val = &m->body.val.at[r->b];
    const Cont *c = &l->flow->cont.at[val->read.cont];
    int d = only_sum(m, r);
    if (d < 0 || c->kind != CONT_PARAM || c->layout || val->has_else || dtype_bits(c->type) < 8)
        return -1;
    int64_t least = (int64_t)machine->warp * machine->vector_bytes,
            step = access_stride(l->flow, m, &val->read, d, 1);
    bool row = is_row(m, r) && dtype_bytes(c->type, map_extent(m, d, 0)) >= least;
    bool gains = row || begins_within(l, m, c, d) || wants_along(l, m, c, d);
    if (step == 1 || step == INT64_MAX || !gains) return -1;
    return term_index(l, m, &val->read, d);
}

/* The operand's index that runs along the sum, where its terms lie apart and a copy may have them
 * side by side. */
enum { BESIDE = -1, STUCK = -2 };
static int apart_index(const Layouts *l, const Map *m, const Val *read, int d) {
    const Cont *c = &l->flow->cont.at[read->read.cont];
    if (access_stride(l->flow, m, &read->read, d, 1) == 1) return BESIDE;
    int k = access_plain(m, &read->read, d);
    bool copied = c->kind != CONT_PARAM && !c->layout && !read->has_else &&
                  !access_by_value(m, &read->read) && whole_pieces(c->type, map_extent(m, d, 0));
    return copied && k >= 0 ? k : STUCK;
}

/* Seconds of a kernel that turns the container; infinity: of unknown size. */
static double copy_seconds(const Layouts *l, int cont) {
    const Machine *machine = l->env->machine;
    const Cont *c = &l->flow->cont.at[cont];
    double bytes = 2.0 * dtype_bits(c->type) / 8;
    for (int k = 0; k < c->rank; k++) {
        int64_t extent = extent_or(c->shape[k], -1);
        bytes *= extent < 0 ? INFINITY : (double)extent;
    }
    return LAUNCH_SECONDS +
           bytes / (machine->level[machine->nlevels - 1].bandwidth * machine->cores);
}

/* Seconds of the product by a library, which takes operands as they lie; infinity: by none. */
static double library_seconds(const Machine *m, const WarpStep *step, const Product *p) {
    double least = INFINITY, flop = 2 * p->batch * p->rows * p->columns * p->reduced;
    for (int i = 0; i < m->nlibrary; i++) {
        const LibraryRate *by = &m->library[i];
        double seconds = by->begin + flop / (by->flops * m->cores);
        if (by->kind == LIBRARY_PRODUCT && by->factor == step->a && by->round == step->round)
            least = seconds < least ? seconds : least;
    }
    return least;
}

/* Turns copies of operands whose terms lie apart, for steps of several warps. */
static void turn_copies(Layouts *l, int map) {
    static const char *const words[] = {"apart", "copied", NULL};
    Map *m = l->flow->map.at[map];
    Contraction r = map_contraction(l->flow, m);
    int x, y, d = r.is ? only_sum(m, &r) : -1;
    const WarpStep *step = product_step(l->env->machine, m, &x, &y);
    Product p;
    if (d < 0 || !step || !step->along || !product_sizes(l->flow, l->env->machine, m, step, &p) ||
        p.along)
        return;
    const int read[] = {r.a, r.b};
    int index[2], cont[2];
    double takes = product_seconds(&p), other = library_seconds(l->env->machine, step, &p),
           copies = 0;
    for (int o = 0; o < 2; o++) {
        cont[o] = m->body.val.at[read[o]].read.cont;
        index[o] = apart_index(l, m, &m->body.val.at[read[o]], d);
        if (index[o] == STUCK) return;
        if (index[o] >= 0) copies += copy_seconds(l, cont[o]);
    }
    p.along = true;
    double copied = product_seconds(&p) + copies;
    bool gains = copied < COPY_GAIN * takes && copied < other;
    const char *name = internf(l->flow->ctx, "%s.terms", m->name);
    if (!recipe_decide(l->env, "layout", name, words, gains)) return;
    for (int o = 0; o < 2; o++)
        if (index[o] >= 0) layout_lane_last(l, map, cont[o], index[o], m->dim.at[d].sym);
}

void layout_rows(Layouts *l) {
    static const char *const words[] = {"columns", "rows", NULL};
    int nmap = l->flow->map.n;
    layouts_survey(l);
    for (int i = 0; i < nmap; i++) {
        Map *m = l->flow->map.at[i];
        Contraction r = map_contraction(l->flow, m);
        int k = r.is ? row_index(l, m, &r) : -1;
        const char *name = internf(l->flow->ctx, "%s.weights", m->name);
        if (k >= 0 && recipe_decide(l->env, "layout", name, words, true))
            layout_turn_weights(l, &m->body.val.at[r.b].read, k);
        turn_copies(l, i);
    }
}
