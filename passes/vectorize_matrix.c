/* SPDX-License-Identifier: Apache-2.0 */
/* Steps on tiles. What is looked for are accumulators and, next to them, loops of a reduction down
 * to an instruction in the loops over rows and vectors:
 *
 *     reg acc : f32[R,V,W] = 0
 *     for ... {
 *       for g : G { for i : R unroll { for j : V unroll { use I { acc[i,j,l] += a[i,g] b[g,j,l] } }
 * } }
 *     }
 *
 * where G is the number of groups that a step takes, and a and b have strides along i and g. The
 * loops get two `use` blocks around them: `tiles` around all, in which the sums are in tiles, and
 * the step's around the loop over g. What follows reads the sums from memory, and loops over rows
 * are no longer unrolled. */
#include "passes/dot.h"
#include "passes/vectorize.h"

typedef struct Tiling {
    Arena *arena;
    Nest *nest;
    const Machine *machine;
} Tiling;

/* The loops of a step; rows and vectors may be NULL: there is one. */
typedef struct Step {
    Stmt *groups, *rows, *vectors, *use;
} Step;

static bool plain_loop(const Stmt *s, LoopMark mark) {
    return s->kind == STMT_FOR && s->mark == mark && !s->guard.n && s->body.n == 1;
}

/* Loops over rows and vectors inside of s, the loop over groups, around an instruction. */
static bool find_step(Stmt *s, Step *out) {
    *out = (Step){.groups = s};
    Stmt *in = s->body.at[0];
    if (plain_loop(in, LOOP_UNROLL)) out->rows = in, in = in->body.at[0];
    if (plain_loop(in, LOOP_UNROLL)) out->vectors = in, in = in->body.at[0];
    if (in->kind != STMT_USE) return false;
    out->use = in;
    return true;
}

/* The index of acc is the loops' variables: a row, a vector, a lane. */
static bool sums_match(const Tiling *t, const Step *s, const Access *to, int acc) {
    const Stmt *loop[] = {s->rows, s->vectors};
    if (to->cont != acc || to->rank != 3) return false;
    for (int k = 0; k < 2; k++) {
        const Buf *b = &t->nest->buf.at[acc];
        if (loop[k] ? to->at[k] != loop[k]->var || b->box[k] != loop[k]->extent
                    : !dim_is(to->at[k], 0) || !dim_is(b->box[k], 1))
            return false;
    }
    return true;
}

/* An operand's place moves by the same step from row to row, and from group to group. */
static bool strides_match(const Tiling *t, const Step *s, const Access *a) {
    Ctx *ctx = t->nest->ctx;
    const Buf *b = &t->nest->buf.at[a->cont];
    Dim flat = dim_const(ctx, 0), coef[3], rest, sym[3] = {s->groups->var};
    int n = 1;
    if (s->rows) sym[n++] = s->rows->var;
    if (s->vectors) sym[n++] = s->vectors->var;
    for (int k = 0; k < a->rank; k++) flat = dim_add(ctx, dim_mul(ctx, flat, b->box[k]), a->at[k]);
    return b->kind == BUF_MEMORY && dim_affine(ctx, flat, sym, n, coef, &rest);
}

static const MatrixStep *step_for(const Tiling *t, Stmt *s, int acc, Step *step) {
    if (!find_step(s, step)) return NULL;
    const MatrixStep *matrix = matrix_of(t->machine, step->use->use);
    int64_t rows = 1, vectors = 1;
    if (!matrix || !dim_is(s->extent, matrix->groups)) return NULL;
    if (step->rows && !dim_is_const(step->rows->extent, &rows)) return NULL;
    if (step->vectors && !dim_is_const(step->vectors->extent, &vectors)) return NULL;
    const Stmt *group = step->use->body.at[0], *lanes = group->body.at[0];
    const Stmt *body = lanes->body.at[0];
    if (rows > 2 * matrix->rows || vectors > 2 || lanes->guard.n) return NULL;
    if (!sums_match(t, step, &body->store.at[0].to, acc)) return NULL;
    for (int v = 0; v < body->code.val.n; v++) {
        const Val *val = &body->code.val.at[v];
        if (val->kind == VAL_READ && val->read.cont != acc && !strides_match(t, step, &val->read))
            return NULL;
    }
    return matrix;
}

static Stmt *wrapped(const Tiling *t, const char *use, Stmt *s) {
    Stmt *out = NEW(t->arena, Stmt);
    *out = (Stmt){.kind = STMT_USE, .use = use, .from = s->from};
    vec_push(t->arena, &out->body, s);
    return out;
}

/* The loop over groups gets its block; false: s is no chain of loops down to one. */
static bool wrap_step(const Tiling *t, Stmts *at, int acc) {
    Stmt *s = at->at[0];
    Step step;
    if (at->n != 1 || !plain_loop(s, LOOP_SEQ)) return false;
    const MatrixStep *matrix = step_for(t, s, acc, &step);
    if (!matrix) return wrap_step(t, &s->body, acc);
    if (step.rows) step.rows->mark = LOOP_SEQ;
    if (step.vectors) step.vectors->mark = LOOP_SEQ;
    at->at[0] = wrapped(t, matrix->name, s);
    return true;
}

static void tile_stmts(const Tiling *t, Stmts *stmts) {
    bool tiled = false;
    for (int i = 0; i < stmts->n; i++) {
        Stmt *s = stmts->at[i], *next = i + 1 < stmts->n ? stmts->at[i + 1] : NULL;
        if (tiled && s->kind == STMT_FOR && s->mark == LOOP_UNROLL) s->mark = LOOP_SEQ;
        if (s->kind == STMT_DECL && s->has_init && !s->init && next) {
            Stmts chain = {&stmts->at[i + 1], 1, 1};
            if (wrap_step(t, &chain, s->buf)) {
                stmts->at[i + 1] = wrapped(t, "tiles", stmts->at[i + 1]);
                t->nest->buf.at[s->buf].kind = BUF_TILE;
                tiled = true;
                i++;
                continue;
            }
        }
        if (s->kind != STMT_USE) tile_stmts(t, &s->body);
    }
}

void use_matrices(Arena *arena, Nest *nest, const Machine *machine) {
    Tiling t = {arena, nest, machine};
    if (!machine->nmatrix) return;
    nest->buf.at = arena_copy(arena, nest->buf.at, (size_t)nest->buf.n * sizeof *nest->buf.at);
    tile_stmts(&t, &nest->body);
}
