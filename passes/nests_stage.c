/* SPDX-License-Identifier: Apache-2.0 */
/* Staging: in each block of a reduction, the threads of a block copy what all of them will read of
 * a container to shared memory, wait, compute from there, and wait again.
 *
 * What is copied is the box that the read reaches into while the root runs on the block's tile and
 * the reduced dims on theirs, tails as full tiles. Elements of the box that the container does not
 * have become what the read gives outside (zero where it never is): so nobody asks again. */
#include "passes/nests_leaf.h"

/* The map's box while the block's tile of the root is computed: reduced dims as they run now. */
static void block_box(Leaf *f, Span *box) {
    int pos = (int)(f->plan - f->lo->plan);
    plan_box(f->lo, pos, f->lo->block, box);
    for (int d = 0; d < f->map->dim.n; d++)
        if (map_reduces(f->map, d)) box[d] = f->span[d];
}

/* The element at `at` of the copy, from memory. */
static void copy_element(Leaf *f, const Val *read, const Dim *origin, const Dim *at, int buf,
                         Stmts *into) {
    Lowering *lo = f->lo;
    const Access *from = &read->read;
    Dim *index = NEW_ARRAY(lo->arena, Dim, from->rank + 1), cond[RANK_MAX * 2];
    for (int k = 0; k < from->rank; k++)
        index[k] = lowering_simplify(lo, dim_add(lo->ctx, origin[k], at[k]));
    Stmt *s = nest_body(lo->nest, into);
    Val val = *read;
    val.read = (Access){from->cont, from->rank, index};
    int n = read_conditions(f, &val.read, cond), got;
    if (n) {
        const Val *other = &f->map->body.val.at[read->arg[0]];
        val.arg[0] = body_bits(&s->code, read->type, read->has_else ? other->bits : 0);
        got = select_read(f, &s->code, &val, cond, n);
    } else {
        got = body_read(&s->code, lowering_access(lo, from->cont, index, false), read->type);
    }
    Access to = {buf, from->rank, arena_copy(lo->arena, at, (size_t)from->rank * sizeof *at)};
    body_store(f, s, to, got);
    finish_body(f, s);
}

/* Neighbouring threads take neighbours in memory. */
static void copy_box(Leaf *f, const Val *read, const Dim *origin, const Dim *size, int buf,
                     Stmts *into) {
    Lowering *lo = f->lo;
    int mark = lo->env.n, rank = read->read.rank;
    int64_t count = 1;
    if (!dim_is_const(dim_product(lo->ctx, size, rank), &count))
        BUG("the tile of '%s' is of no known size", lo->flow->cont.at[read->read.cont].name);
    int64_t steps = (count + lo->ncopying - 1) / lo->ncopying;
    Dim e = lo->number, at[RANK_MAX];
    if (steps > 1) {
        Dim var = lowering_var(lo, "e", dim_const(lo->ctx, steps));
        into = &nest_for(lo->nest, into, var, dim_const(lo->ctx, steps), LOOP_SEQ)->body;
        e = dim_add(lo->ctx, dim_mulc(lo->ctx, var, lo->ncopying), e);
    }
    if (steps * lo->ncopying > count) {
        Stmt *some = nest_if(lo->nest, into);
        vec_push(lo->arena, &some->guard, dim_sub(lo->ctx, dim_const(lo->ctx, count - 1), e));
        into = &some->body;
    }
    for (int k = rank - 1; k >= 0; k--) {
        at[k] = k ? lowering_simplify(lo, dim_mod(lo->ctx, e, size[k])) : e;
        e = lowering_simplify(lo, dim_div(lo->ctx, e, size[k]));
    }
    copy_element(f, read, origin, at, buf, into);
    lo->env.n = mark;
}

static const Val *read_of(const Map *m, int cont) {
    for (int v = 0; v < m->body.val.n; v++)
        if (m->body.val.at[v].kind == VAL_READ && m->body.val.at[v].read.cont == cont)
            return &m->body.val.at[v];
    BUG("map '%s' stages what it does not read", m->name);
}

void stage_reads(Leaf *f, Stmts *into) {
    Lowering *lo = f->lo;
    Span box[RANK_MAX * 2];
    block_box(f, box);
    for (int i = 0; i < f->plan->stage.n; i++) {
        int cont = f->plan->stage.at[i];
        const Cont *c = &lo->flow->cont.at[cont];
        const Val *read = read_of(f->map, cont);
        Dim origin[RANK_MAX], size[RANK_MAX];
        plan_read(lo, f->map, box, &read->read, origin, size);
        const char *name = internf(lo->ctx, "%s.%d", c->name, lo->fresh++);
        int buf = nest_buf(lo->nest, name, BUF_SHARED, c->type, size, c->rank);
        nest_decl(lo->nest, &lo->shared, buf);
        copy_box(f, read, origin, size, buf, into);
        Local *local = &lo->local[cont];
        *local = (Local){.buf = buf, .rank = c->rank, .lane_dim = -1, .lanes = 1, .staged = true};
        for (int k = 0; k < c->rank; k++) local->origin[k] = origin[k];
    }
    nest_stmt(lo->nest, into, STMT_SYNC);
}

void unstage_reads(Leaf *f, Stmts *into) {
    Lowering *lo = f->lo;
    for (int i = 0; i < f->plan->stage.n; i++) lo->local[f->plan->stage.at[i]] = (Local){.buf = -1};
    nest_stmt(lo->nest, into, STMT_SYNC);
}
