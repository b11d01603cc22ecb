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
 * may. And there are steps that take terms side by side only, or others one by one. */
#include <math.h>

#include "passes/layout.h"
#include "passes/schedule.h"

/* The only dim with several indices that is summed; -1: there is none, or another one. */
static int only_sum(const Map *m, const Contraction *r) {
    int sum = -1;
    for (int d = 0; d < m->dim.n; d++) {
        if (!map_reduces(m, d) || map_extent(m, d, 0) == 1) continue;
        if (r->role[d] != ROLE_K || sum >= 0) return -1;
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
    for (int k = 0; k < val->read.rank; k++)
        if (access_dim(m, &val->read, k) == d) return k;
    return -1;
}

void layout_rows(Layouts *l) {
    static const char *const words[] = {"columns", "rows", NULL};
    layouts_survey(l);
    for (int i = 0; i < l->flow->map.n; i++) {
        Map *m = l->flow->map.at[i];
        Contraction r = map_contraction(l->flow, m);
        int k = r.is ? row_index(l, m, &r) : -1;
        const char *name = internf(l->flow->ctx, "%s.weights", m->name);
        if (k < 0 || !recipe_decide(l->env, "layout", name, words, true)) continue;
        layout_turn_weights(l, &m->body.val.at[r.b].read, k);
    }
}
