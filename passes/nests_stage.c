/* SPDX-License-Identifier: Apache-2.0 */
/* Staging: in each block of a reduction, the threads of a block copy what all of them will read of
 * a container to shared memory, wait, compute from there, and wait again.
 *
 * What is copied is the box that the read reaches into while the root runs on the block's tile and
 * the reduced dims on theirs, tails as full tiles. Elements of the box that the container does not
 * have become what the read gives outside (zero where it never is): so nobody asks again. The dim
 * that goes with the map's lanes is stored last, so that the lanes of neighbouring threads lie side
 * by side; where it is not the last in memory, rows are longer by some lanes, a word at least, so
 * that copying does not put neighbours into one bank. */
#include "passes/nests_leaf.h"

/* The map's box while the block's tile of the root is computed: reduced dims as they run now. */
static void block_box(Leaf *f, Span *box) {
    int pos = (int)(f->plan - f->lo->plan);
    plan_box(f->lo, pos, f->lo->block, box);
    for (int d = 0; d < f->map->dim.n; d++)
        if (map_reduces(f->map, d)) box[d] = f->span[d];
}

/* A copy in the making: a box of a container, and where it goes. */
typedef struct Copy {
    const Val *read;
    int rank, buf, last; /* last: the dim that is stored last */
    Dim origin[RANK_MAX], size[RANK_MAX];
} Copy;

/* An index, or a size, in the order in which the copy is stored. */
static void stored_order(const Copy *c, const Dim *at, Dim *out) {
    int n = 0;
    for (int k = 0; k < c->rank; k++)
        if (k != c->last) out[n++] = at[k];
    if (c->rank) out[n] = at[c->last];
}

/* The element at `at` of the copy, from memory. */
static void copy_element(Leaf *f, const Copy *copy, const Dim *at, Stmts *into) {
    Lowering *lo = f->lo;
    const Val *read = copy->read;
    const Access *from = &read->read;
    Dim *index = NEW_ARRAY(lo->arena, Dim, from->rank + 1), cond[RANK_MAX * 2];
    for (int k = 0; k < from->rank; k++)
        index[k] = lowering_simplify(lo, dim_add(lo->ctx, copy->origin[k], at[k]));
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
    Dim *stored = NEW_ARRAY(lo->arena, Dim, copy->rank + 1);
    stored_order(copy, at, stored);
    body_store(f, s, (Access){copy->buf, copy->rank, stored}, got);
    finish_body(f, s);
}

/* Neighbouring threads take neighbours in memory. */
static void copy_box(Leaf *f, const Copy *copy, Stmts *into) {
    Lowering *lo = f->lo;
    const Dim *size = copy->size;
    int mark = lo->env.n;
    int64_t count = 1;
    if (!dim_is_const(dim_product(lo->ctx, size, copy->rank), &count))
        BUG("the tile of '%s' is of no known size", lo->flow->cont.at[copy->read->read.cont].name);
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
    for (int k = copy->rank - 1; k >= 0; k--) {
        at[k] = k ? lowering_simplify(lo, dim_mod(lo->ctx, e, size[k])) : e;
        e = lowering_simplify(lo, dim_div(lo->ctx, e, size[k]));
    }
    copy_element(f, copy, at, into);
    lo->env.n = mark;
}

static const Val *read_of(const Map *m, int cont) {
    for (int v = 0; v < m->body.val.n; v++)
        if (m->body.val.at[v].kind == VAL_READ && m->body.val.at[v].read.cont == cont)
            return &m->body.val.at[v];
    BUG("map '%s' stages what it does not read", m->name);
}

/* The index that the map's lanes step through, or neighbouring threads; else the last. */
static int lane_index(const Leaf *f, const Access *read) {
    int lane = f->plan->lane_dim;
    for (int i = 0; lane < 0 && i < f->plan->tile.n; i++)
        if (f->plan->tile.at[i].mark == LOOP_THREAD && i + 1 == f->plan->tile.n)
            lane = f->plan->tile.at[i].dim;
    for (int k = read->rank - 1; lane >= 0 && k >= 0; k--)
        if (dim_uses(read->at[k], f->map->dim.at[lane].sym)) return k;
    return read->rank - 1;
}

static void open_copy(Leaf *f, int cont, Copy *copy) {
    Lowering *lo = f->lo;
    const Cont *c = &lo->flow->cont.at[cont];
    Dim box[RANK_MAX];
    copy->last = lane_index(f, &copy->read->read);
    stored_order(copy, copy->size, box);
    int64_t word = 32 / dtype_bits(c->type), more = f->plan->lanes > word ? f->plan->lanes : word;
    if (copy->last < c->rank - 1)
        box[c->rank - 1] = dim_addc(lo->ctx, box[c->rank - 1], more > 1 ? more : 1);
    const char *name = internf(lo->ctx, "%s.%d", c->name, lo->fresh++);
    copy->buf = nest_buf(lo->nest, name, BUF_SHARED, c->type, box, c->rank);
    nest_decl(lo->nest, &lo->shared, copy->buf);
}

/* What reads of the container mean from now on. */
static void use_copy(Leaf *f, int cont, const Copy *copy) {
    Local *local = &f->lo->local[cont];
    *local = (Local){
        .buf = copy->buf, .rank = copy->rank, .lane_dim = copy->last, .lanes = 1, .staged = true};
    for (int k = 0; k < copy->rank; k++) local->origin[k] = copy->origin[k];
}

void stage_reads(Leaf *f, Stmts *into) {
    Lowering *lo = f->lo;
    Span box[RANK_MAX * 2];
    block_box(f, box);
    for (int i = 0; i < f->plan->stage.n; i++) {
        int cont = f->plan->stage.at[i];
        Copy copy = {.read = read_of(f->map, cont), .rank = lo->flow->cont.at[cont].rank};
        plan_read(lo, f->map, box, &copy.read->read, copy.origin, copy.size);
        open_copy(f, cont, &copy);
        copy_box(f, &copy, into);
        use_copy(f, cont, &copy);
    }
    nest_stmt(lo->nest, into, STMT_SYNC);
}

void unstage_reads(Leaf *f) {
    for (int i = 0; i < f->plan->stage.n; i++)
        f->lo->local[f->plan->stage.at[i]] = (Local){.buf = -1};
}
