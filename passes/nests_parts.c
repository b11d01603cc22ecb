/* SPDX-License-Identifier: Apache-2.0 */
/* A reduction in parts, whose threads own results: each part takes neighbouring indices of one
 * reduced dim, a thread for each result. What the parts have goes to shared memory, whence those of
 * the first few merge what the others left, and of these the first one's, in an order that is
 * always the same. */
#include "passes/nests_leaf.h"

static Dim zero(const Lowering *lo) {
    return dim_const(lo->ctx, 0);
}

/* One part of the split dim: neighbouring indices. */
static void reduce_part(Leaf *f, Stmts *into) {
    Lowering *lo = f->lo;
    Span *span = &f->span[f->plan->split], whole = *span;
    Dim parts = dim_const(lo->ctx, f->plan->parts);
    Dim size = lowering_simplify(lo, dim_ceildiv(lo->ctx, whole.extent, parts));
    Dim offset = dim_mul(lo->ctx, lo->part, size);
    bool even = dim_is(lowering_simplify(lo, dim_mod(lo->ctx, whole.extent, parts)), 0);
    span->start = dim_add(lo->ctx, whole.start, offset);
    span->extent = even ? size : dim_min(lo->ctx, size, dim_sub(lo->ctx, whole.extent, offset));
    int64_t most = f->plan->parts;
    span->cap = f->plan->written_out && whole.cap >= 0 ? (whole.cap + most - 1) / most : -1;
    reduce_loops(f, 0, into);
    *span = whole;
}

/* The number of a result among those of a thread, but for its lane. */
static Dim result_number(Leaf *f) {
    Lowering *lo = f->lo;
    Dim n = zero(lo);
    for (int d = 0; d < f->map->dim.n; d++) {
        if (map_reduces(f->map, d) || d == f->plan->lane_dim || !f->plan->unroll[d]) continue;
        Dim own = dim_sub(lo->ctx, f->value[d], f->span[d].start);
        n = dim_add(lo->ctx, dim_mulc(lo->ctx, n, f->span[d].cap), own);
    }
    return lowering_simplify(lo, n);
}

/* What part `part` left, or leaves, of state k: neighbouring threads side by side. */
static Access part_access(Leaf *f, int k, const Lane *lane) {
    Lowering *lo = f->lo;
    Dim at[] = {result_number(f), lane->row ? lane->var : zero(lo), f->part, lo->number};
    return (Access){f->parts[k], 4, arena_copy(lo->arena, at, sizeof at)};
}

/* Threads, not lanes, lie side by side. */
static Stmts *each_lane(Leaf *f, const Lane *lane, Stmts *into) {
    Stmts *body = lane_loop(f, lane, into);
    if (lane->row) into->at[into->n - 1]->mark = LOOP_UNROLL;
    return body;
}

static void leave_part(Leaf *f, const Lane *lane, Stmts *into) {
    const Combine *c = f->write->combine;
    Stmt *s = nest_body(f->lo->nest, each_lane(f, lane, into));
    for (int k = 0; k < c->nstate; k++) {
        int acc = body_read(&s->code, reduce_state(f, k, lane), c->type[k]);
        body_store(f, s, part_access(f, k, lane), acc);
    }
    finish_body(f, s);
}

/* acc = merge(acc, what the part left in shared memory) */
static void merge_part(Leaf *f, const Lane *lane, Stmts *into) {
    const Combine *c = f->write->combine;
    Stmt *s = nest_body(f->lo->nest, each_lane(f, lane, into));
    int acc[COMBINE_STATES], other[COMBINE_STATES], out[COMBINE_STATES];
    Access at[COMBINE_STATES];
    for (int k = 0; k < c->nstate; k++) {
        at[k] = reduce_state(f, k, lane);
        acc[k] = body_read(&s->code, at[k], c->type[k]);
        other[k] = body_read(&s->code, part_access(f, k, lane), c->type[k]);
    }
    reduce_merge(f, &s->code, acc, other, out);
    for (int k = 0; k < c->nstate; k++) body_store(f, s, at[k], out[k]);
    finish_body(f, s);
}

/* Behind a guard: the first `n` parts, of threads that have a tile. */
static Stmts *first_parts(Leaf *f, int n, Stmts *into) {
    Lowering *lo = f->lo;
    if (!lo->mine.n && n == f->plan->parts) return into;
    Stmt *guard = nest_if(lo->nest, into);
    if (n < f->plan->parts)
        vec_push(lo->arena, &guard->guard, dim_sub(lo->ctx, dim_const(lo->ctx, n - 1), lo->part));
    for (int i = 0; i < lo->mine.n; i++) vec_push(lo->arena, &guard->guard, lo->mine.at[i]);
    return &guard->body;
}

/* Buffers for what the parts leave, by state. */
static void declare_parts(Leaf *f, int *buf) {
    Lowering *lo = f->lo;
    const Combine *c = f->write->combine;
    int64_t results = 1;
    for (int d = 0; d < f->map->dim.n; d++)
        if (!map_reduces(f->map, d) && d != f->plan->lane_dim && f->plan->unroll[d])
            results *= f->span[d].cap;
    Dim box[] = {dim_const(lo->ctx, results),
                 dim_const(lo->ctx, lanes_in_row(f) ? f->plan->lanes : 1),
                 dim_const(lo->ctx, f->plan->parts), dim_const(lo->ctx, lo->ncopying)};
    for (int k = 0; k < c->nstate; k++) {
        const char *name = internf(lo->ctx, "parts.%d", lo->fresh++);
        buf[k] = nest_buf(lo->nest, name, BUF_SHARED, c->type[k], box, 4);
        nest_decl(lo->nest, &lo->shared, buf[k]);
    }
    f->parts = buf;
}

/* All parts leave what they have; the first `to` merge with it what every to-th one behind left. */
static void merge_parts(Leaf *f, int from, int to, Stmts *into) {
    Lowering *lo = f->lo;
    f->part = lo->part;
    reduce_states(f, from < f->plan->parts ? first_parts(f, from, into) : into, leave_part);
    nest_stmt(lo->nest, into, STMT_SYNC);
    Dim count = dim_const(lo->ctx, from / to - 1);
    Dim var = lowering_var(lo, "p", count);
    Stmt *loop = nest_for(lo->nest, first_parts(f, to, into), var, count, LOOP_SEQ);
    f->part = dim_add(lo->ctx, dim_mulc(lo->ctx, dim_addc(lo->ctx, var, 1), to), lo->part);
    reduce_states(f, &loop->body, merge_part);
    lowering_pop(lo);
}

void reduce_parts(Leaf *f, Stmts *into) {
    enum { SERIAL = 8 };
    int buf[COMBINE_STATES], parts = f->plan->parts, few = parts;
    while (few * few > parts && parts > SERIAL && few % 2 == 0) few /= 2;
    reduce_part(f, first_parts(f, parts, into));
    declare_parts(f, buf);
    if (few > 1 && few < parts)
        merge_parts(f, parts, few, into);
    else
        few = parts;
    merge_parts(f, few, 1, into);
    bool repeats = f->lo->env.n > f->lo->ninside; /* the next parts would take their places */
    if (repeats) nest_stmt(f->lo->nest, into, STMT_SYNC);
}
