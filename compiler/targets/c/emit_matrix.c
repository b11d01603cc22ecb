/* SPDX-License-Identifier: Apache-2.0 */
/* Steps on tiles (vectorize_matrix.c in passes/): a block `tiles`, in which sums are in registers
 * that hold tiles, and a step's block inside of it as one call of its helper. */
#include "c_nest.h"

#include <string.h>

/* A step's loops; rows and vectors may be NULL: there is one. */
typedef struct Step {
    const Stmt *groups, *rows, *vectors;
    Used used;
    int nrows, nvectors;
    bool last; /* groups run backward: their first element is the last one's */
} Step;

static int extent_of(const Stmt *loop) {
    int64_t n = 1;
    if (loop && !dim_is_const(loop->extent, &n)) BUG("a loop of a step on tiles has no extent");
    return (int)n;
}

/* Loops over rows and vectors: the sums tell them apart by the index that each stands in. */
static Step step_of(const Stmt *s) {
    Step step = {.groups = s->body.at[0]};
    const Stmt *in = step.groups->body.at[0], *loop[2] = {NULL, NULL};
    for (int i = 0; in->kind == STMT_FOR && i < 2; i++) loop[i] = in, in = in->body.at[0];
    if (in->kind != STMT_USE) BUG("a step on tiles holds something else");
    step.used = used_of(in);
    step.last = target_c_instruction(in->use)->row.backward;
    for (int i = 0; i < 2 && loop[i]; i++)
        *(step.used.c->at[0] == loop[i]->var ? &step.rows : &step.vectors) = loop[i];
    step.nrows = extent_of(step.rows);
    step.nvectors = extent_of(step.vectors);
    return step;
}

/* The step's block inside of s. */
static const Stmt *inner_block(const Stmt *s) {
    while (s->kind == STMT_FOR) s = s->body.at[0];
    return s;
}

static void push_index(CNest *c, const Stmt *loop, int64_t i) {
    if (loop) names_const(&c->names, loop->var, i, dim_const(c->ctx, i), dim_const(c->ctx, i));
}

/* By how many elements an operand's place moves with a loop. */
static const char *step_text(CNest *c, const Access *a, const Stmt *loop) {
    Dim coef, rest;
    if (!loop) return "0";
    if (!dim_affine(c->ctx, access_flat(c, a), &loop->var, 1, &coef, &rest))
        BUG("an operand of a step on tiles has no stride");
    return emit_dim_str(&c->names, coef);
}

static void emit_step(CNest *c, const Stmt *s, const CMatrix *matrix) {
    Step step = step_of(s);
    const Used *u = &step.used;
    int mark = c->names.at.n;
    const char *step_a = step_text(c, u->a, step.rows), *step_b = step_text(c, u->b, step.groups);
    push_index(c, step.groups, 0);
    push_index(c, step.rows, 0);
    push_index(c, step.vectors, 0);
    push_index(c, u->group, step.last ? extent_of(u->group) - 1 : 0);
    push_index(c, u->lanes, 0);
    const char *a = emit_dim_str(&c->names, access_flat(c, u->a));
    const char *b = emit_dim_str(&c->names, access_flat(c, u->b));
    int group = extent_of(u->group), depth = extent_of(step.groups) * group;
    int lanes = step.nvectors * extent_of(u->lanes) * group;
    check_span(c, "reads", u->a, a, str(c, "%d * (%s) + %d", step.nrows - 1, step_a, depth));
    check_span(c, "reads", u->b, b,
               str(c, "%d * (%s) + %d", extent_of(step.groups) - 1, step_b, lanes));
    put_line(c, "%s(%s, %d, %d, %s + %s, %s, %s + %s, %s);", matrix->helper,
             c->buf[u->c->cont].name, step.nrows, step.nvectors, c->buf[u->a->cont].name, a, step_a,
             c->buf[u->b->cont].name, b, step_b);
    names_pop(&c->names, mark);
}

bool emit_matrix(CNest *c, const Stmt *s) {
    const CMatrix *matrix = target_c_matrix(s->use);
    if (matrix) emit_step(c, s, matrix);
    if (matrix || strcmp(s->use, "tiles") != 0) return matrix != NULL;
    Step step = step_of(inner_block(s->body.at[0]));
    c->tiled = true;
    put_line(c, "tiles_open(&tiles, %d);", step.nrows);
    put_line(c, "tiles_clear(%d, %d);", step.nrows, step.nvectors);
    emit_stmts(c, &s->body);
    put_line(c, "tiles_store(%s, %d, %d);", c->buf[step.used.c->cont].name, step.nrows,
             step.nvectors);
    c->epoch[1]++;
    return true;
}
