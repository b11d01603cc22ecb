/* SPDX-License-Identifier: Apache-2.0 */
/* The parallel loops of a kernel as tasks, of which a thread gets some that follow one another. */
#include "c_nest.h"

#include <string.h>

CTasks tasks_of(CNest *c, const Stmt *s) {
    CTasks t = {.count = dim_const(c->ctx, 1)};
    for (;;) {
        for (int i = 0; i < t.n; i++)
            if (dim_uses(s->extent, t.loop[i]->var)) return t;
        t.loop[t.n++] = s;
        t.count = dim_mul(c->ctx, t.count, s->extent);
        t.body = &s->body;
        const Stmt *in = s->body.n == 1 ? s->body.at[0] : s;
        if (in == s || in->kind != STMT_FOR || in->mark != s->mark || t.n == RANK_MAX) return t;
        s = s->body.at[0];
    }
}

/* The loops' variables in task number `at`. */
static void task_vars(CNest *c, const CTasks *t, const char *at) {
    Dim inner = dim_const(c->ctx, 1);
    for (int i = t->n - 1; i >= 0; i--) {
        const char *step = emit_dim_str(&c->names, inner),
                   *extent = emit_dim_str(&c->names, t->loop[i]->extent);
        const char *e = dim_is(inner, 1) ? at : str(c, "%s / (%s)", at, step);
        if (i > 0) e = str(c, "%s %% (%s)", e, extent);
        put_line(c, "i64 p%d = %s;", i, e);
        inner = dim_mul(c->ctx, inner, t->loop[i]->extent);
    }
}

/* Opens the loop over tasks, which runs backward where the symbol that the nest alternates by is
 * odd. */
static void open_tasks(CNest *c, const CTasks *t) {
    Dim by = c->nest->alternates;
    if (by) {
        put_line(c, "for (i64 q = task->lo; q < task->hi; q++) {");
        put_line(c, "const i64 p = %s & 1 ? task->lo + task->hi - 1 - q : q;",
                 emit_dim_str(&c->names, by));
        task_vars(c, t, "p");
        return;
    }
    task_vars(c, t, "task->lo");
    put_line(c, t->n == 1 ? "for (; p0 < task->hi; p0++) {"
                          : "for (i64 p = task->lo; p < task->hi; p++) {");
}

/* The next task's variables, counted up. */
static void step_tasks(CNest *c, const CTasks *t) {
    for (int i = t->n - 1; i > 0; i--)
        put_line(c, "if (++p%d == %s) { p%d = 0;", i, emit_dim_str(&c->names, t->loop[i]->extent),
                 i);
    if (t->n == 1) return;
    put_line(c, "p0++;");
    char *close = arena_alloc(c->arena, (size_t)t->n + 1);
    memset(close, '}', (size_t)t->n - 1);
    put_line(c, "%s", close);
}

void emit_tasks(CNest *c, const CTasks *t) {
    open_tasks(c, t);
    int mark = c->names.at.n;
    for (int i = 0; i < t->n; i++)
        names_var(&c->names, t->loop[i]->var, str(c, "p%d", i), dim_const(c->ctx, 0),
                  dim_addc(c->ctx, t->loop[i]->extent, -1));
    open_scope(c);
    emit_stmts(c, t->body);
    if (!c->nest->alternates) step_tasks(c, t);
    close_scope(c);
    names_pop(&c->names, mark);
}
