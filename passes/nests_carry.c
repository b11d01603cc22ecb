/* SPDX-License-Identifier: Apache-2.0 */
/* Part of pass `nests`: a step that reads what the step before wrote. Where a loop stores an
 * element of memory and its next iteration loads it again, a register beside the loop hands it on:
 * on a machine of threads the way through memory takes longer than the step. */
#include "passes/nests_warps.h"

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

void carry_steps(Nest *nest, Stmts *stmts) {
    Stmts out = {0};
    for (int i = 0; i < stmts->n; i++) {
        Stmt *s = stmts->at[i];
        Carried c;
        carry_steps(nest, &s->body);
        while (s->kind == STMT_FOR && s->mark == LOOP_SEQ && find_carried(nest, s, &c))
            carry(nest, s, &c, &out);
        vec_push(nest->arena, &out, s);
    }
    *stmts = out;
}
