/* SPDX-License-Identifier: Apache-2.0 */
/* Pass `vectorize`: the last step before text. Lanes stand in the nest already (each `vector` loop
 * is one chunk); here elementary functions become the polynomials of their definitions, so that
 * evaluator and targets run the same arithmetic (but those that the machine has an instruction for,
 * outside strict mathematics), and instructions of the machine's table take the
 * place of loops (vectorize_use.c), or many at once on tiles (vectorize_matrix.c). */
#include "passes/vectorize.h"

#include <string.h>

static void expand_body(Nest *nest, const Forms *forms, Stmt *s) {
    bool any = false;
    for (int v = 0; v < s->code.val.n; v++) any |= s->code.val.at[v].kind == VAL_PRIM;
    if (!any) return;
    Body out = {.arena = nest->arena};
    int *map = NEW_ARRAY(nest->arena, int, s->code.val.n);
    body_expand(&out, &s->code, forms, map);
    int *roots = NEW_ARRAY(nest->arena, int, s->store.n);
    for (int i = 0; i < s->store.n; i++) roots[i] = map[s->store.at[i].val];
    body_prune(&out, roots, s->store.n);
    for (int i = 0; i < s->store.n; i++) s->store.at[i].val = roots[i];
    s->code = out;
}

static void expand_stmts(Nest *nest, const Forms *forms, Stmts *stmts) {
    for (int i = 0; i < stmts->n; i++) {
        Stmt *s = stmts->at[i];
        if (s->kind == STMT_BODY) expand_body(nest, forms, s);
        expand_stmts(nest, forms, &s->body);
    }
}

Stmt *copy_stmt(Arena *arena, const Stmt *from) {
    Stmt *s = arena_copy(arena, from, sizeof *from);
    s->body = (Stmts){0};
    for (int i = 0; i < from->body.n; i++)
        vec_push(arena, &s->body, copy_stmt(arena, from->body.at[i]));
    s->store.at = arena_copy(arena, from->store.at, (size_t)from->store.n * sizeof *from->store.at);
    s->store.cap = from->store.n;
    return s;
}

Program *pass_vectorize(Arena *arena, const Program *program, const PassEnv *env);
Program *pass_vectorize(Arena *arena, const Program *program, const PassEnv *env) {
    Forms forms = {.brief = env->math != MATH_STRICT};
    memcpy(forms.native, env->machine->native, sizeof forms.native);
    forms.native[P_EXP2] &= forms.brief;
    forms.quotients = forms.brief && env->machine->block_threads;
    Program *p = NEW(arena, Program);
    p->arena = arena;
    p->flow = flow_clone(arena, program->flow);
    for (int k = 0; k < program->nest.n; k++) {
        Nest *nest = arena_copy(arena, program->nest.at[k], sizeof(Nest));
        nest->arena = arena;
        nest->body = (Stmts){0};
        for (int i = 0; i < program->nest.at[k]->body.n; i++)
            vec_push(arena, &nest->body, copy_stmt(arena, program->nest.at[k]->body.at[i]));
        expand_stmts(nest, &forms, &nest->body);
        use_instructions(arena, p->flow, nest, env->machine);
        use_matrices(arena, nest, env->machine);
        vec_push(arena, &p->nest, nest);
    }
    return p;
}
