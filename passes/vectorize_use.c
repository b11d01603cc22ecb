/* SPDX-License-Identifier: Apache-2.0 */
/* Instructions for loops. What is looked for is an unrolled loop over a group around unrolled loops
 * around one vector loop,
 *
 *     for q : G unroll { for i : 8 unroll { for l : W vector { c[i,l] = fma(a, b, c[i,l]) } } }
 *
 * where a and b have the types, q and l the strides, and the body the form of a row's meaning. The
 * loops inside are independent of each other, so the group moves to the inside, where it is
 * wrapped as a `use` block. Sums of integers are exact, their order is free; those of floats take
 * the order of the instruction, which then runs through whole groups only. A group may be short
 * where b is stored in whole groups filled up with 0 and a whole group of a still lies in its row:
 * what the instruction does beyond the block adds nothing. */
#include <string.h>

#include "passes/dot.h"
#include "passes/vectorize.h"

enum { PAIRS_REUSE = 3 }; /* where what is asked of b has no marks */
enum { STEP_MOST = 4 };   /* of windows over an image whose last group may be short */

typedef struct Using {
    Arena *arena;
    const Flow *flow;
    Nest *nest;
    const Machine *machine;
    VEC(DimRange) env;
    VEC(Dim) fact; /* conditions around, each at least 0 */
} Using;

static Dim flat(const Using *u, const Access *a) {
    DimEnv env = {u->env.at, u->env.n};
    return dim_simplify(u->nest->ctx, nest_flat(u->nest, a), &env);
}

static bool steps(const Using *u, const Access *a, Dim q, int64_t by_q, Dim l, int64_t by_l) {
    Dim coef[2], rest, sym[2] = {q, l};
    if (!dim_affine(u->nest->ctx, flat(u, a), sym, 2, coef, &rest)) return false;
    return dim_is(coef[0], by_q) && dim_is(coef[1], by_l);
}

static const Access *converted(const Body *b, int val, DType from, DType to) {
    const Val *v = &b->val.at[val];
    if (v->kind != VAL_PRIM || v->prim != P_CVT || v->type != to) return NULL;
    const Val *r = &b->val.at[v->arg[0]];
    return r->kind == VAL_READ && r->type == from && !r->has_else ? &r->read : NULL;
}

/* The index of an access that uses q, or -1: none or several. */
static int index_of(const Access *a, Dim q) {
    int found = -1, n = 0;
    for (int k = 0; k < a->rank; k++)
        if (dim_uses(a->at[k], q)) found = k, n++;
    return n == 1 ? found : -1;
}

/* Is the number at least 0, by one of the conditions around if need be (so many columns are left
 * over: what is beyond the tiles before them then lies within the row)? */
static bool at_least_0(const Using *u, Dim d) {
    Ctx *ctx = u->nest->ctx;
    DimEnv env = {u->env.at, u->env.n};
    bool yes = dim_ge0(ctx, d, &env);
    for (int i = 0; !yes && i < u->fact.n; i++)
        for (int step = 1; !yes && step <= STEP_MOST; step++)
            yes = dim_ge0(ctx, dim_sub(ctx, d, dim_mulc(ctx, u->fact.at[i], step)), &env);
    return yes;
}

/* The rest of a short group: zeros of b, and of a something that is there. */
static bool rest_is_harmless(const Using *u, const Instruction *row, const Access *a,
                             const Access *b, Dim q) {
    Ctx *ctx = u->nest->ctx;
    const Buf *x = &u->nest->buf.at[a->cont], *y = &u->nest->buf.at[b->cont];
    const Layout *w = nest_layout(u->nest, u->flow, b->cont);
    int k = index_of(a, q), last_b = b->rank - 1;
    if (!w || !w->has_fill || w->fill || x->kind != BUF_MEMORY || k < 0) return false;
    if (index_of(b, q) != last_b || b->at[last_b] != q || !dim_is(y->box[last_b], row->group))
        return false;
    DimSubst last = {q, dim_const(ctx, row->group - 1)};
    Dim room = dim_sub(ctx, dim_addc(ctx, x->box[k], -1), dim_subst(ctx, a->at[k], &last, 1));
    return at_least_0(u, room);
}

/* The body's operands, in one order or the other, stand as the row wants them. */
static bool operands_match(const Using *u, const Instruction *row, const Body *b, const Val *fma,
                           const Stmt *group, Dim l) {
    Dim q = group->var;
    bool whole = dim_is(group->extent, row->group);
    for (int swap = 0; swap < 2; swap++) {
        const Access *x = converted(b, fma->arg[swap], row->a, row->c);
        const Access *y = converted(b, fma->arg[1 - swap], row->b, row->c);
        if (x && y && u->nest->buf.at[x->cont].kind != BUF_REG &&
            u->nest->buf.at[y->cont].kind != BUF_REG &&
            steps(u, x, q, row->each ? row->lanes : 1, l, row->each) &&
            steps(u, y, q, 1, l, row->group) &&
            (whole || (!row->backward && rest_is_harmless(u, row, x, y, q))))
            return true;
    }
    return false;
}

static bool body_matches(const Using *u, const Instruction *row, const Stmt *s, const Stmt *group,
                         Dim l) {
    if (s->kind != STMT_BODY || s->store.n != 1) return false;
    const Access *to = &s->store.at[0].to;
    const Val *fma = &s->code.val.at[s->store.at[0].val];
    if (fma->kind != VAL_PRIM || fma->prim != P_FMA || fma->type != row->c) return false;
    const Val *acc = &s->code.val.at[fma->arg[2]];
    if (acc->kind != VAL_READ || !access_equal(&acc->read, to)) return false;
    BufKind kind = u->nest->buf.at[to->cont].kind;
    bool tiles = kind == BUF_TILE && matrix_of(u->machine, row->name);
    if ((kind != BUF_REG && !tiles) || !to->rank) return false;
    for (int k = 0; k < to->rank; k++)
        if (dim_uses(to->at[k], group->var)) return false;
    return operands_match(u, row, &s->code, fma, group, l);
}

/* Lanes are switched off from some lane on, if at all. */
static bool prefix_guard(const Using *u, const Stmt *loop) {
    for (int i = 0; i < loop->guard.n; i++) {
        Dim coef, rest;
        if (!dim_affine(u->nest->ctx, loop->guard.at[i], &loop->var, 1, &coef, &rest)) return false;
        if (!dim_is(coef, -1)) return false;
    }
    return true;
}

/* Is it a loop over results: unrolled, in lanes, or of rows whose number is not known? */
static bool over_results(const Stmt *s) {
    return s->kind == STMT_FOR && (s->mark == LOOP_UNROLL || s->mark == LOOP_VECTOR ||
                                   (s->mark == LOOP_SEQ && !dim_is_const(s->extent, NULL)));
}

/* Loops of s down to the vector loop; the statement is a chain of these. */
static const Instruction *row_for(Using *u, const Stmt *group, const Stmt *s) {
    if (!over_results(s)) return NULL;
    DimRange range = {s->var, dim_const(u->nest->ctx, 0), dim_addc(u->nest->ctx, s->extent, -1)};
    const Instruction *found = NULL;
    vec_push(u->arena, &u->env, range);
    if (s->mark != LOOP_VECTOR) {
        for (int i = 0; i < s->body.n; i++) {
            const Instruction *row = row_for(u, group, s->body.at[i]);
            if (!row || (found && row != found)) {
                found = NULL;
                break;
            }
            found = row;
        }
    } else if (s->body.n == 1 && prefix_guard(u, s)) {
        for (int i = 0; i < u->machine->nuse && !found; i++) {
            const Instruction *row = u->machine->use[i];
            int64_t extent;
            if (dim_is(s->extent, row->lanes) && dim_is_const(group->extent, &extent) &&
                extent <= row->group && body_matches(u, row, s->body.at[0], group, s->var))
                found = row;
        }
    }
    u->env.n--;
    return found;
}

/* The body of a vector loop for the group's indices from the last to the first. */
static Stmt *backward(Using *u, const Stmt *loop, Dim q, int64_t group) {
    Stmt *s = arena_copy(u->arena, loop, sizeof *loop);
    Stmt *b = arena_copy(u->arena, loop->body.at[0], sizeof *b);
    DimSubst other = {q, dim_addc(u->nest->ctx, dim_mulc(u->nest->ctx, q, -1), group - 1)};
    int *map = NEW_ARRAY(u->arena, int, b->code.val.n + 1);
    Body out = {.arena = u->arena};
    body_inline(&out, &b->code, &other, 1, NULL, NULL, NULL, map);
    b->code = out;
    b->store.at = arena_copy(u->arena, b->store.at, (size_t)b->store.n * sizeof *b->store.at);
    for (int i = 0; i < b->store.n; i++) b->store.at[i].val = map[b->store.at[i].val];
    s->body = (Stmts){0};
    vec_push(u->arena, &s->body, b);
    return s;
}

/* The group loop goes to the vector loops, inside `use` blocks. */
static void sink_group(Using *u, const Stmt *group, const Instruction *row, Stmts *at) {
    for (int i = 0; i < at->n; i++) {
        Stmt *s = at->at[i];
        if (s->mark != LOOP_VECTOR) {
            sink_group(u, group, row, &s->body);
            continue;
        }
        Stmt *use = NEW(u->arena, Stmt), *inner = arena_copy(u->arena, group, sizeof *group);
        use->kind = STMT_USE;
        use->use = row->name;
        use->from = s->body.at[0]->from;
        inner->body = (Stmts){0};
        if (row->backward) s = backward(u, s, group->var, row->group);
        vec_push(u->arena, &inner->body, s);
        vec_push(u->arena, &use->body, inner);
        at->at[i] = use;
    }
}

static bool marked(const Using *u, const Access *a) {
    const Layout *layout = nest_layout(u->nest, u->flow, a->cont);
    return layout && layout->marks;
}

/* Do the blocks in s, loops around one vector loop, take each group of b often enough to ask first
 * whether it is within bounds? */
static bool asks(const Using *u, const Stmt *s, const Instruction *row) {
    const Stmt *loop[MAP_DIMS];
    int64_t rows = 1, extent;
    int n = 0;
    for (; s->mark != LOOP_VECTOR; s = s->body.at[0]) {
        if (s->body.n != 1 || s->mark != LOOP_UNROLL || s->guard.n || n == MAP_DIMS) return false;
        loop[n++] = s;
    }
    const Body *b = &s->body.at[0]->code;
    const Val *fma = &b->val.at[s->body.at[0]->store.at[0].val];
    const Access *x = converted(b, fma->arg[0], row->b, row->c);
    if (!x || !dim_uses(flat(u, x), s->var)) x = converted(b, fma->arg[1], row->b, row->c);
    for (int i = 0; x && i < n; i++)
        if (dim_is_const(loop[i]->extent, &extent) && !dim_uses(flat(u, x), loop[i]->var))
            rows *= extent;
    return x && (marked(u, x) || rows >= PAIRS_REUSE);
}

/* Around the blocks of a step where several rows share what is asked of b first. */
static Stmt *in_pairs(Using *u, Stmt *s, const Instruction *row) {
    Stmt *out = NEW(u->arena, Stmt);
    *out = (Stmt){.kind = STMT_USE, .use = row->pairs, .from = s->from};
    vec_push(u->arena, &out->body, s);
    return out;
}

/* A step's loops, with the group's inside. */
static void add_blocks(Using *u, Stmt *group, const Instruction *row, Stmts *out) {
    int n = group->body.n;
    bool *pairs = NEW_ARRAY(u->arena, bool, n);
    for (int k = 0; k < n; k++) pairs[k] = row->pairs && asks(u, group->body.at[k], row);
    sink_group(u, group, row, &group->body);
    for (int k = 0; k < n; k++) {
        Stmt *s = group->body.at[k];
        vec_push(u->arena, out, pairs[k] ? in_pairs(u, s, row) : s);
    }
}

static bool all_rows(Using *u, const Stmt *group, const Instruction **row) {
    *row = NULL;
    for (int i = 0; i < group->body.n; i++) {
        const Instruction *r = row_for(u, group, group->body.at[i]);
        if (!r || (*row && r != *row)) return false;
        *row = r;
    }
    return *row != NULL;
}

/* Does it use a variable of a loop inside of variable number k's? */
static bool uses_inner(const Using *u, Dim d, int k) {
    while (++k < u->env.n)
        if (dim_uses(d, u->env.at[k].sym)) return true;
    return false;
}

/* Behind a guard such as 6 - i >= 0 its variable goes no further; of two bounds that are not
 * numbers the guard's is the less. */
static void narrow_ranges(Using *u, const Stmt *s) {
    int64_t most, hi;
    Dim coef, rest;
    for (int i = 0; i < s->guard.n; i++)
        for (int k = 0; k < u->env.n; k++) {
            DimRange *r = &u->env.at[k];
            bool bounds = dim_affine(u->nest->ctx, s->guard.at[i], &r->sym, 1, &coef, &rest) &&
                          dim_is(coef, -1) && r->hi;
            if (!bounds || uses_inner(u, rest, k)) continue;
            bool less = dim_is_const(rest, &most) && dim_is_const(r->hi, &hi) && most < hi;
            if (less || !dim_is_const(r->hi, NULL)) r->hi = rest;
        }
}

static void use_in(Using *u, Stmts *stmts) {
    Stmts out = {0};
    for (int i = 0; i < stmts->n; i++) {
        Stmt *s = stmts->at[i];
        const Instruction *row = NULL;
        int mark = u->env.n, facts = u->fact.n;
        bool guarded = s->kind == STMT_IF && mark;
        size_t bytes = sizeof(DimRange) * (size_t)mark;
        DimRange *around = guarded ? arena_copy(u->arena, u->env.at, bytes) : NULL;
        if (s->kind == STMT_FOR) {
            Dim last = dim_addc(u->nest->ctx, s->extent, -1);
            vec_push(u->arena, &u->env, ((DimRange){s->var, dim_const(u->nest->ctx, 0), last}));
        }
        if (guarded) narrow_ranges(u, s);
        for (int k = 0; s->kind == STMT_IF && k < s->guard.n; k++)
            vec_push(u->arena, &u->fact, s->guard.at[k]);
        if (s->kind == STMT_FOR && s->mark == LOOP_UNROLL && all_rows(u, s, &row)) {
            add_blocks(u, s, row, &out);
        } else {
            if (s->kind != STMT_USE) use_in(u, &s->body);
            vec_push(u->arena, &out, s);
        }
        u->env.n = mark, u->fact.n = facts;
        if (guarded) memcpy(u->env.at, around, bytes);
    }
    *stmts = out;
}

void use_instructions(Arena *arena, const Flow *flow, Nest *nest, const Machine *machine) {
    Using u = {.arena = arena, .flow = flow, .nest = nest, .machine = machine};
    for (int i = 0; i < nest->symbol.n; i++) {
        const Symbol *s = &nest->symbol.at[i];
        Dim hi = s->hi == INT64_MAX ? s->upper : dim_const(nest->ctx, s->hi);
        vec_push(arena, &u.env, ((DimRange){s->sym, dim_const(nest->ctx, s->lo), hi}));
    }
    if (machine->nuse) use_in(&u, &nest->body);
}
