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
 * where G is the number of groups that a step takes, and a and b have strides along i and g; rows
 * may be of two dims, acc[h,i,j,l]. The loops get two `use` blocks around them: `tiles` around all,
 * in which the sums are in tiles, and the step's around the loop over g. What follows reads the
 * sums from memory, and loops over rows are no longer unrolled. */
#include "passes/dot.h"
#include "passes/vectorize.h"

typedef struct Tiling {
    Arena *arena;
    Nest *nest;
    const Machine *machine;
} Tiling;

enum { STEP_LOOPS = 3 };

/* The loops of a step; rows, inner and outer, and vectors may be NULL: there is one. */
typedef struct Step {
    Stmt *groups, *rows[2], *vectors, *use;
    int64_t nrows[2];
} Step;

static bool plain_loop(const Stmt *s, LoopMark mark) {
    return s->kind == STMT_FOR && s->mark == mark && !s->guard.n && s->body.n == 1;
}

/* Does an index of the sums count what a loop does? */
static bool counts(const Tiling *t, const Access *to, int k, const Stmt *loop) {
    Dim box = t->nest->buf.at[to->cont].box[k];
    return loop ? to->at[k] == loop->var && box == loop->extent
                : dim_is(to->at[k], 0) && dim_is(box, 1);
}

/* Loops over rows and vectors inside of s, the loop over groups, around an instruction: the index
 * of the sums, all but the lane, is their variables. */
static bool find_step(const Tiling *t, Stmt *s, int acc, Step *out) {
    Stmt *in = s->body.at[0], *loop[STEP_LOOPS];
    int n = 0;
    for (; n < STEP_LOOPS && plain_loop(in, LOOP_UNROLL); in = in->body.at[0]) loop[n++] = in;
    if (in->kind != STMT_USE) return false;
    *out = (Step){.groups = s, .use = in, .nrows = {1, 1}};
    const Access *to = &in->body.at[0]->body.at[0]->body.at[0]->store.at[0].to;
    if (to->cont != acc || to->rank < 3 || to->rank > 4) return false;
    int rows = to->rank - 2;
    if (n && to->at[rows] == loop[n - 1]->var) out->vectors = loop[--n];
    for (int i = 0; i < n; i++) out->rows[i] = loop[n - 1 - i];
    if (!counts(t, to, rows, out->vectors)) return false;
    for (int i = 0; i < rows; i++) {
        const Stmt *row = out->rows[rows - 1 - i];
        if (!counts(t, to, i, row)) return false;
        if (row && !dim_is_const(row->extent, &out->nrows[rows - 1 - i])) return false;
    }
    return true;
}

/* By how much an operand's place moves with a step's loops, groups first, then rows, then vectors;
 * false: not by the same each time. */
static bool strides_of(const Tiling *t, const Step *s, const Access *a, Dim *stride) {
    Ctx *ctx = t->nest->ctx;
    const Buf *b = &t->nest->buf.at[a->cont];
    const Stmt *loop[] = {s->groups, s->rows[0], s->rows[1], s->vectors};
    Dim flat = dim_const(ctx, 0), coef[4], rest, sym[4];
    int n = 0;
    for (int i = 0; i < 4; i++)
        if (loop[i]) sym[n++] = loop[i]->var;
    for (int k = 0; k < a->rank; k++) flat = dim_add(ctx, dim_mul(ctx, flat, b->box[k]), a->at[k]);
    bool stored = b->kind == BUF_MEMORY || b->kind == BUF_SCRATCH || b->kind == BUF_TILE;
    if (!stored || !dim_affine(ctx, flat, sym, n, coef, &rest)) return false;
    for (int i = 3; i >= 0; i--) stride[i] = loop[i] ? coef[--n] : dim_const(ctx, 0);
    return true;
}

/* Rows of two dims fill both tiles where each of the outer dim is behind all of the inner; else
 * there are two of the outer dim, a tile each. */
static bool rows_fit(const Tiling *t, const Step *s, const Dim *stride, int64_t most) {
    bool in_line = stride[2] == dim_mulc(t->nest->ctx, stride[1], s->nrows[0]);
    if (s->nrows[1] == 1 || in_line) return s->nrows[0] * s->nrows[1] <= 2 * most;
    return s->nrows[1] == 2 && s->nrows[0] <= most;
}

static const MatrixStep *step_for(const Tiling *t, Stmt *s, int acc, Step *step) {
    if (!find_step(t, s, acc, step)) return NULL;
    const MatrixStep *matrix = matrix_of(t->machine, step->use->use);
    int64_t vectors = 1;
    if (!matrix || !dim_is(s->extent, matrix->groups)) return NULL;
    if (step->vectors && !dim_is_const(step->vectors->extent, &vectors)) return NULL;
    const Stmt *group = step->use->body.at[0], *lanes = group->body.at[0];
    const Stmt *body = lanes->body.at[0];
    if (vectors > 2 || lanes->guard.n) return NULL;
    for (int v = 0; v < body->code.val.n; v++) {
        const Val *val = &body->code.val.at[v];
        Dim stride[4];
        if (val->kind != VAL_READ || val->read.cont == acc) continue;
        if (!strides_of(t, step, &val->read, stride)) return NULL;
        bool moves = !dim_is(stride[1], 0) || !dim_is(stride[2], 0);
        if (moves && !rows_fit(t, step, stride, matrix->rows)) return NULL;
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
    for (int i = 0; i < 2; i++)
        if (step.rows[i]) step.rows[i]->mark = LOOP_SEQ;
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
