/* SPDX-License-Identifier: Apache-2.0 */
/* Building nests. Each builder appends its statement to `into` and returns it for filling in. */
#include "nest.h"

Nest *nest_new(Arena *arena, const char *name) {
    Nest *nest = NEW(arena, Nest);
    nest->arena = arena;
    nest->ctx = arena_ctx(arena);
    nest->name = intern(nest->ctx, name);
    nest->on = intern(nest->ctx, "cpu");
    return nest;
}

const Layout *nest_layout(const Nest *nest, const Flow *flow, int buf) {
    int cont = nest->buf.at[buf].cont;
    return flow && cont >= 0 ? flow->cont.at[cont].layout : NULL;
}

int nest_buf(Nest *nest, const char *name, BufKind kind, DType t, const Dim *box, int rank) {
    if (rank < 0 || rank > RANK_MAX) BUG("buffer \"%s\" of rank %d", name, rank);
    Buf buf = {.name = intern(nest->ctx, name), .kind = kind, .type = t, .rank = rank, .cont = -1};
    for (int n = 1, i = 0; i < nest->buf.n; i++)
        if (nest->buf.at[i].name == buf.name) {
            buf.name = internf(nest->ctx, "%s_%d", name, n++);
            i = -1;
        }
    buf.box = arena_copy(nest->arena, box, (size_t)rank * sizeof *box);
    vec_push(nest->arena, &nest->buf, buf);
    return nest->buf.n - 1;
}

Dim nest_flat(const Nest *nest, const Access *a) {
    return dim_flat(nest->ctx, a->at, nest->buf.at[a->cont].box, a->rank);
}

Stmt *nest_stmt(Nest *nest, Stmts *into, StmtKind kind) {
    Stmt *stmt = NEW(nest->arena, Stmt);
    stmt->kind = kind;
    stmt->buf = -1;
    stmt->code.arena = nest->arena;
    vec_push(nest->arena, into, stmt);
    return stmt;
}

Stmt *nest_for(Nest *nest, Stmts *into, Dim var, Dim extent, LoopMark mark) {
    Stmt *stmt = nest_stmt(nest, into, STMT_FOR);
    stmt->var = var;
    stmt->extent = extent;
    stmt->mark = mark;
    return stmt;
}

Stmt *nest_turn(Nest *nest, Stmts *into, Dim var, int lanes, Access src, Access dst) {
    Stmt *s = nest_stmt(nest, into, STMT_TURN);
    s->var = var;
    s->mark = LOOP_UNROLL;
    s->lanes = lanes;
    s->extent = dim_const(nest->ctx, lanes);
    s->src = arena_copy(nest->arena, &src, sizeof src);
    s->dst = arena_copy(nest->arena, &dst, sizeof dst);
    return s;
}

Stmt *nest_if(Nest *nest, Stmts *into) {
    return nest_stmt(nest, into, STMT_IF);
}

Stmt *nest_decl(Nest *nest, Stmts *into, int buf) {
    Stmt *stmt = nest_stmt(nest, into, STMT_DECL);
    stmt->buf = buf;
    return stmt;
}

Stmt *nest_body(Nest *nest, Stmts *into) {
    return nest_stmt(nest, into, STMT_BODY);
}
