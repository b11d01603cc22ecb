/* SPDX-License-Identifier: Apache-2.0 */
/* Part of pass `nests`: a step that reads what the step before wrote. Where a loop stores an
 * element of memory and its next iteration loads it again, a register beside the loop hands it on:
 * on a machine of threads the way through memory takes longer than the step. */
#include "passes/nests_warps.h"

enum { AHEAD = 8 };

/* Statement `at` of a loop declares a register with its first value, the next one loads it in all
 * iterations but the first; `store` of statement `writer` is what they load in the next. */
typedef struct Carried {
    int at, writer, store;
} Carried;

static int stores_to(const Stmts *stmts, int buf) {
    int n = 0;
    for (int i = 0; i < stmts->n; i++) {
        const Stmt *s = stmts->at[i];
        for (int k = 0; k < s->store.n; k++) n += s->store.at[k].to.cont == buf;
        n += stores_to(&s->body, buf);
    }
    return n;
}

/* What the statement loads to the register of the declaration before it, in all iterations of the
 * loop but the first; or NULL. */
static const Access *loaded(const Nest *nest, const Stmt *loop, const Stmt *decl,
                            const Stmt *some) {
    if (decl->kind != STMT_DECL || !decl->has_init || nest->buf.at[decl->buf].rank ||
        some->kind != STMT_IF || some->guard.n != 1 || some->body.n != 1 ||
        some->guard.at[0] != dim_addc(nest->ctx, loop->var, -1))
        return NULL;
    const Stmt *load = some->body.at[0];
    if (load->kind != STMT_BODY || load->store.n != 1 || load->store.at[0].to.cont != decl->buf)
        return NULL;
    const Val *v = &load->code.val.at[load->store.at[0].val];
    return v->kind == VAL_READ && !v->has_else ? &v->read : NULL;
}

static bool find_carried(const Nest *nest, const Stmt *loop, Carried *c) {
    DimSubst back = {loop->var, dim_addc(nest->ctx, loop->var, -1)};
    for (c->at = 0; c->at + 1 < loop->body.n; c->at++) {
        const Access *read = loaded(nest, loop, loop->body.at[c->at], loop->body.at[c->at + 1]);
        if (!read || stores_to(&loop->body, read->cont) != 1) continue;
        for (c->writer = c->at + 2; c->writer < loop->body.n; c->writer++) {
            const Stmt *s = loop->body.at[c->writer];
            for (c->store = 0; s->kind == STMT_BODY && c->store < s->store.n; c->store++) {
                const Access *to = &s->store.at[c->store].to;
                bool same = to->cont == read->cont;
                for (int k = 0; same && k < to->rank; k++)
                    same = dim_subst(nest->ctx, to->at[k], &back, 1) == read->at[k];
                if (same) return true;
            }
        }
    }
    return false;
}

/* The register is declared in front of the loop, and stored where the element is. */
static void carry(Nest *nest, Stmt *loop, const Carried *c, Stmts *before) {
    Stmt *decl = loop->body.at[c->at], *writer = loop->body.at[c->writer];
    Store own = {loop->body.at[c->at + 1]->body.at[0]->store.at[0].to,
                 writer->store.at[c->store].val};
    vec_push(nest->arena, &writer->store, own);
    vec_push(nest->arena, before, decl);
    for (int i = c->at; i + 2 < loop->body.n; i++) loop->body.at[i] = loop->body.at[i + 2];
    loop->body.n -= 2;
}

/* ---- loads ahead of steps ---------------------------------------------------------------------
 */

/* A loop of nothing but a body, whose loads go ahead: by value, the register array that it loads
 * to, or -1. */
typedef struct Ahead {
    Nest *nest;
    const Body *code;
    int *buf;
    Dim step; /* in the array */
} Ahead;

/* Does the value load an element of memory that the body does not store, by the loop alone? */
static bool goes_ahead(const Nest *nest, const Stmt *body, const Val *v) {
    if (v->kind != VAL_READ || v->has_else || nest->buf.at[v->read.cont].kind != BUF_MEMORY)
        return false;
    for (int k = 0; k < body->store.n; k++)
        if (body->store.at[k].to.cont == v->read.cont) return false;
    for (int k = 0; k < v->read.rank; k++)
        for (int i = 0; i < body->code.val.n; i++) {
            Dim sym = body->code.val.at[i].sym;
            if (sym && dim_uses(v->read.at[k], sym)) return false;
        }
    return true;
}

static int from_array(void *user, Body *b, const Val *read) {
    const Ahead *a = user;
    for (int i = 0; i < a->code->val.n; i++) {
        const Val *v = &a->code->val.at[i];
        if (a->buf[i] < 0 || v->read.cont != read->read.cont) continue;
        Dim *at = NEW_ARRAY(a->nest->arena, Dim, 1);
        at[0] = a->step;
        return body_read(b, (Access){a->buf[i], 1, at}, read->type);
    }
    return -1;
}

static Access subst_access(const Nest *nest, const Access *a, const DimSubst *subst) {
    Dim *at = NEW_ARRAY(nest->arena, Dim, a->rank + 1);
    for (int k = 0; k < a->rank; k++) at[k] = dim_subst(nest->ctx, a->at[k], subst, 1);
    return (Access){a->cont, a->rank, at};
}

/* An array for each load; containers that are loaded twice stay as they are. */
static int declare_arrays(Ahead *a, const Stmt *body, Stmts *into) {
    int n = 0;
    Dim size = dim_const(a->nest->ctx, AHEAD);
    for (int i = 0; i < a->code->val.n; i++) {
        const Val *v = &a->code->val.at[i];
        bool once = true;
        for (int k = 0; k < a->code->val.n; k++)
            once &= k == i || a->code->val.at[k].kind != VAL_READ ||
                    a->code->val.at[k].read.cont != v->read.cont;
        a->buf[i] = -1;
        if (!goes_ahead(a->nest, body, v) || !once) continue;
        const char *name = internf(a->nest->ctx, "ahead.%d", a->nest->buf.n);
        a->buf[i] = nest_buf(a->nest, name, BUF_REG, v->type, &size, 1);
        nest_decl(a->nest, into, a->buf[i]);
        n++;
    }
    return n;
}

/* Loads of AHEAD steps stand in front of these, of which each waits for the one before alone. */
static void load_ahead(Nest *nest, Stmt *loop) {
    Ctx *ctx = nest->ctx;
    Stmt *body = loop->body.n == 1 ? loop->body.at[0] : NULL;
    int64_t extent;
    if (!body || body->kind != STMT_BODY || !dim_is_const(loop->extent, &extent) ||
        extent % AHEAD || extent < 2 * AHEAD)
        return;
    const char *name = dim_sym_name(loop->var);
    Dim outer = dim_sym(ctx, internf(ctx, "%s_by", name)), size = dim_const(ctx, AHEAD),
        step[] = {dim_sym(ctx, internf(ctx, "%s_load", name)),
                  dim_sym(ctx, internf(ctx, "%s_in", name))};
    Ahead a = {nest, &body->code, NEW_ARRAY(nest->arena, int, body->code.val.n + 1), step[1]};
    int *map = NEW_ARRAY(nest->arena, int, body->code.val.n + 1);
    Stmts out = {0};
    if (!declare_arrays(&a, body, &out)) return;
    DimSubst at = {loop->var, dim_add(ctx, dim_mulc(ctx, outer, AHEAD), step[0])};
    Stmt *loads = nest_for(nest, &out, step[0], size, LOOP_UNROLL);
    for (int i = 0; i < body->code.val.n; i++) {
        const Val *v = &body->code.val.at[i];
        if (a.buf[i] < 0) continue;
        Stmt *s = nest_body(nest, &loads->body);
        Dim *to = arena_copy(nest->arena, &step[0], sizeof *to);
        int val = body_read(&s->code, subst_access(nest, &v->read, &at), v->type);
        vec_push(nest->arena, &s->store, ((Store){{a.buf[i], 1, to}, val}));
    }
    at.to = dim_add(ctx, dim_mulc(ctx, outer, AHEAD), step[1]);
    Stmt *steps = nest_for(nest, &out, step[1], size, LOOP_UNROLL);
    Stmt *s = nest_body(nest, &steps->body);
    s->from = body->from;
    body_inline(&s->code, &body->code, &at, 1, NULL, from_array, &a, map);
    for (int k = 0; k < body->store.n; k++)
        vec_push(
            nest->arena, &s->store,
            ((Store){subst_access(nest, &body->store.at[k].to, &at), map[body->store.at[k].val]}));
    loop->var = outer;
    loop->extent = dim_const(ctx, extent / AHEAD);
    loop->body = out;
}

void carry_steps(Nest *nest, Stmts *stmts) {
    Stmts out = {0};
    for (int i = 0; i < stmts->n; i++) {
        Stmt *s = stmts->at[i];
        Carried c;
        carry_steps(nest, &s->body);
        bool any = false;
        for (; s->kind == STMT_FOR && s->mark == LOOP_SEQ && find_carried(nest, s, &c); any = true)
            carry(nest, s, &c, &out);
        if (any) load_ahead(nest, s);
        vec_push(nest->arena, &out, s);
    }
    *stmts = out;
}
