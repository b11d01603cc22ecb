/* SPDX-License-Identifier: Apache-2.0 */
/* Steps on tiles (vectorize_matrix.c in passes/): a block `tiles`, in which sums are in registers
 * that hold tiles, and a step's block inside of it as one call of its helper. */
#include "c_nest.h"

#include <string.h>

enum { STEP_LOOPS = 3 };

/* A step's loops; rows, inner and outer, and vectors may be NULL: there is one. */
typedef struct Step {
    const Stmt *groups, *rows[2], *vectors;
    Used used;
    int nvectors;
    Dim tile[2]; /* rows of the tiles ... */
    Dim by, far; /* ... in the first operand: from row to row, from the first to the second tile */
    bool last;   /* groups run backward: their first element is the last one's */
} Step;

static int extent_of(const Stmt *loop) {
    int64_t n = 1;
    if (loop && !dim_is_const(loop->extent, &n)) BUG("a loop of a step on tiles has no extent");
    return (int)n;
}

static Dim rows_of(CNest *c, const Stmt *loop) {
    return loop ? loop->extent : dim_const(c->ctx, 1);
}

/* By how many elements an operand's place moves with a loop. */
static Dim step_by(CNest *c, const Access *a, const Stmt *loop) {
    Dim coef, rest;
    if (!loop) return dim_const(c->ctx, 0);
    if (!dim_affine(c->ctx, access_flat(c, a), &loop->var, 1, &coef, &rest))
        BUG("an operand of a step on tiles has no stride");
    return coef;
}

/* Loops over rows and vectors: with the latter the second operand moves. Rows of two dims fill one
 * tile after the other where the outer ones continue the inner ones; else each outer row has its
 * tile. */
static Step step_of(CNest *c, const Stmt *s) {
    Step step = {.groups = s->body.at[0]};
    const Stmt *in = step.groups->body.at[0], *loop[STEP_LOOPS];
    int n = 0;
    for (; in->kind == STMT_FOR && n < STEP_LOOPS; in = in->body.at[0]) loop[n++] = in;
    if (in->kind != STMT_USE) BUG("a step on tiles holds something else");
    step.used = used_of(c, in);
    step.last = target_c_instruction(in->use)->row.backward;
    if (n && !dim_is(step_by(c, step.used.b, loop[n - 1]), 0)) step.vectors = loop[--n];
    for (int i = 0; i < n; i++) step.rows[i] = loop[n - 1 - i];
    step.nvectors = extent_of(step.vectors);
    step.by = step_by(c, step.used.a, step.rows[0]);
    step.far = step_by(c, step.used.a, step.rows[1]);
    Dim first = rows_of(c, step.rows[0]), all = dim_mul(c->ctx, first, rows_of(c, step.rows[1]));
    if (!step.rows[1] || step.far == dim_mul(c->ctx, step.by, first)) {
        first = dim_const(c->ctx, target_c_matrix(s->use)->step.rows);
        step.far = dim_mul(c->ctx, step.by, first);
    }
    step.tile[0] = dim_min(c->ctx, all, first);
    step.tile[1] = dim_sub(c->ctx, all, step.tile[0]);
    return step;
}

/* The step's block inside of s. */
static const Stmt *inner_block(const Stmt *s) {
    while (s->kind == STMT_FOR) s = s->body.at[0];
    return s;
}

static void push_first(CNest *c, const Stmt *loop, int64_t i) {
    if (loop) names_const(&c->names, loop->var, i, dim_const(c->ctx, i), dim_const(c->ctx, i));
}

/* Names for the first element of a step; names_pop takes them back. */
static void push_step(CNest *c, const Step *step) {
    const Stmt *group = step->used.group;
    push_first(c, step->groups, 0);
    push_first(c, step->rows[0], 0);
    push_first(c, step->rows[1], 0);
    push_first(c, step->vectors, 0);
    push_first(c, group, step->last ? extent_of(group) - 1 : 0);
    push_first(c, step->used.lanes, 0);
}

/* The sums as their helpers take them: the first one, how far it is to the next row and vector, and
 * how many. */
static const char *sums_of(CNest *c, const Step *step) {
    const Access *sums = step->used.c;
    const char *by = emit_dim_str(&c->names, step_by(c, sums, step->rows[0]));
    const char *apart = emit_dim_str(&c->names, step_by(c, sums, step->vectors));
    int mark = c->names.at.n;
    push_step(c, step);
    const char *first = emit_dim_str(&c->names, access_flat(c, sums));
    names_pop(&c->names, mark);
    const char *rows = emit_dim_str(&c->names, step->tile[0]);
    const char *more = emit_dim_str(&c->names, step->tile[1]);
    return str(c, "&%s[%s], %s, %s, %s, %s, %d", c->buf[sums->cont].name, first, by, apart, rows,
               more, step->nvectors);
}

static void emit_step(CNest *c, const Stmt *s, const CMatrix *matrix) {
    Step step = step_of(c, s);
    const Used *u = &step.used;
    int mark = c->names.at.n;
    const char *sums = sums_of(c, &step);
    const char *step_a = emit_dim_str(&c->names, step.by);
    const char *far_a = emit_dim_str(&c->names, step.far);
    const char *step_b = emit_dim_str(&c->names, step_by(c, u->b, step.groups));
    push_step(c, &step);
    const char *a = emit_dim_str(&c->names, access_flat(c, u->a));
    const char *b = emit_dim_str(&c->names, access_flat(c, u->b));
    int group = extent_of(u->group), depth = extent_of(step.groups) * group;
    int lanes = step.nvectors * extent_of(u->lanes) * group;
    const char *begin[] = {a, str(c, "%s + %s", a, far_a)}, *rows[2];
    for (int i = 0; i < 2; i++) rows[i] = emit_dim_str(&c->names, step.tile[i]);
    for (int i = 0; i < 2 && !dim_is(step.tile[i], 0); i++)
        check_span(c, "reads", u->a, begin[i],
                   str(c, "(%s - 1) * (%s) + %d", rows[i], step_a, depth));
    check_span(c, "reads", u->b, b,
               str(c, "%d * (%s) + %d", extent_of(step.groups) - 1, step_b, lanes));
    put_line(c, "%s(%s, %s + %s, %s, %s, %s + %s, %s, %d);", matrix->helper, sums,
             c->buf[u->a->cont].name, a, step_a, dim_is(step.tile[1], 0) ? "0" : far_a,
             c->buf[u->b->cont].name, b, step_b, extent_of(step.groups));
    names_pop(&c->names, mark);
}

/* When the statement does nothing. */
static const char *unless(CNest *c, const Stmt *s) {
    Text out = {.arena = c->arena};
    for (int i = 0; i < s->guard.n; i++)
        text_printf(&out, "%s%s < 0", i ? " || " : "",
                    emit_dim_str(&c->names, names_subst(&c->names, s->guard.at[i])));
    return text_str(&out);
}

bool emit_matrix(CNest *c, const Stmt *s) {
    const CMatrix *matrix = target_c_matrix(s->use);
    if (matrix) emit_step(c, s, matrix);
    if (matrix || strcmp(s->use, "tiles") != 0) return matrix != NULL;
    if (s->body.n != 2) BUG("sums on tiles are zeros, then steps");
    const Stmt *zeros = s->body.at[0];
    Step step = step_of(c, inner_block(s->body.at[1]));
    const char *sums = sums_of(c, &step);
    const char *rows = emit_dim_str(&c->names, step.tile[0]);
    const char *more = emit_dim_str(&c->names, step.tile[1]);
    c->tiled = true;
    put_line(c, "tiles_open(&tiles, %s, %s, %d);", rows, more, extent_of(step.groups));
    if (zeros->kind == STMT_IF) put_line(c, "if (%s) tiles_go_on(%s);", unless(c, zeros), sums);
    put_line(c, "%stiles_clear(%s);", zeros->kind == STMT_IF ? "else " : "", sums);
    emit_stmts(c, &(Stmts){&s->body.at[1], 1, 1});
    put_line(c, "tiles_store(%s);", sums);
    c->epoch[1]++;
    return true;
}
