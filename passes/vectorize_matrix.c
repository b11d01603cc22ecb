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
 * may be of two dims, acc[h,i,j,l], and their number may be known only at run time (it is less
 * than R then, and the loop not unrolled). The loops get two `use` blocks around them: `tiles`
 * around all, in which the sums are in tiles, and the step's around the loop over g. Sums are zeros
 * at the beginning of the first, by loops of their own. What follows reads the sums from memory,
 * and loops over rows are no longer unrolled. Where it only copies them to an array whose rows have
 * a stride, the tiles are stored there at once. */
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
    int64_t nrows[2]; /* of which there is room for sums */
} Step;

static bool plain_loop(const Stmt *s, LoopMark mark) {
    return s->kind == STMT_FOR && s->mark == mark && !s->guard.n && s->body.n == 1;
}

/* Does an index of the sums count what a loop does? Only the first of them may have room for more.
 */
static bool counts(const Tiling *t, const Access *to, int k, const Stmt *loop) {
    Dim box = t->nest->buf.at[to->cont].box[k];
    if (!loop) return dim_is(to->at[k], 0) && dim_is(box, 1);
    bool less = k == 0 && !dim_is_const(loop->extent, NULL);
    return to->at[k] == loop->var && (less || box == loop->extent);
}

/* A loop over results inside of a step. */
static bool result_loop(const Stmt *s) {
    bool open = s->kind == STMT_FOR && !dim_is_const(s->extent, NULL);
    return plain_loop(s, open ? LOOP_SEQ : LOOP_UNROLL);
}

/* Loops over rows and vectors inside of s, the loop over groups, around an instruction: the index
 * of the sums, all but the lane, is their variables. */
static bool find_step(const Tiling *t, Stmt *s, int acc, Step *out) {
    Stmt *in = s->body.at[0], *loop[STEP_LOOPS];
    int n = 0;
    for (; n < STEP_LOOPS && result_loop(in); in = in->body.at[0]) loop[n++] = in;
    if (in->kind != STMT_USE) return false;
    *out = (Step){.groups = s, .use = in, .nrows = {1, 1}};
    const Access *to = &in->body.at[0]->body.at[0]->body.at[0]->store.at[0].to;
    if (to->cont != acc || to->rank < 3 || to->rank > 4) return false;
    int rows = to->rank - 2;
    if (n && to->at[rows] == loop[n - 1]->var) out->vectors = loop[--n];
    for (int i = 0; i < n; i++) out->rows[i] = loop[n - 1 - i];
    if (!counts(t, to, rows, out->vectors)) return false;
    for (int i = 0; i < rows; i++) {
        if (!counts(t, to, i, out->rows[rows - 1 - i])) return false;
        Dim room = t->nest->buf.at[acc].box[i];
        if (!dim_is_const(room, &out->nrows[rows - 1 - i])) return false;
    }
    return true;
}

/* By how much an operand's place moves with the loops of a step; false: not by the same each time.
 */
enum { BY_GROUP, BY_ROW, BY_OUTER, BY_VECTOR, BY_LANE, STRIDES };

static bool strides_of(const Tiling *t, const Step *s, const Access *a, Dim *stride) {
    Ctx *ctx = t->nest->ctx;
    const Buf *b = &t->nest->buf.at[a->cont];
    const Stmt *lanes = s->use->body.at[0]->body.at[0];
    const Stmt *loop[STRIDES] = {s->groups, s->rows[0], s->rows[1], s->vectors, lanes};
    Dim flat = dim_const(ctx, 0), coef[STRIDES], rest, sym[STRIDES];
    int n = 0;
    for (int i = 0; i < STRIDES; i++)
        if (loop[i]) sym[n++] = loop[i]->var;
    for (int k = 0; k < a->rank; k++) flat = dim_add(ctx, dim_mul(ctx, flat, b->box[k]), a->at[k]);
    bool stored = b->kind == BUF_MEMORY || b->kind == BUF_SCRATCH || b->kind == BUF_TILE;
    if (!stored || !dim_affine(ctx, flat, sym, n, coef, &rest)) return false;
    for (int i = STRIDES - 1; i >= 0; i--) stride[i] = loop[i] ? coef[--n] : dim_const(ctx, 0);
    return true;
}

/* Rows of two dims fill both tiles where each of the outer dim is behind all of the inner; else
 * there are two of the outer dim, a tile each. */
static bool rows_fit(const Tiling *t, const Step *s, const Dim *stride, int64_t most) {
    bool in_line = stride[BY_OUTER] == dim_mulc(t->nest->ctx, stride[BY_ROW], s->nrows[0]);
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
        Dim stride[STRIDES];
        if (val->kind != VAL_READ || val->read.cont == acc) continue;
        if (!strides_of(t, step, &val->read, stride)) return NULL;
        bool moves = !dim_is(stride[BY_ROW], 0) || !dim_is(stride[BY_OUTER], 0);
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

/* Are all statements but the first what is fetched ahead? */
static bool only_fetches(const Stmts *stmts) {
    bool only = stmts->n > 0;
    for (int i = 1; i < stmts->n; i++) {
        const Stmt *s = stmts->at[i];
        only &= s->kind == STMT_PREFETCH ||
                (s->kind == STMT_FOR && s->body.n == 1 && s->body.at[0]->kind == STMT_PREFETCH);
    }
    return only;
}

/* The loop over groups gets its block; false: what `at` begins with is no chain of loops down to
 * one, or there is more. */
static bool wrap_step(const Tiling *t, Stmts *at, int acc, Step *step) {
    if (!only_fetches(at)) return false;
    Stmt *s = at->at[0];
    const MatrixStep *matrix = plain_loop(s, LOOP_SEQ) ? step_for(t, s, acc, step) : NULL;
    bool chain = s->kind == STMT_FOR && s->mark == LOOP_SEQ && !s->guard.n;
    if (!matrix) return chain && wrap_step(t, &s->body, acc, step);
    for (int i = 0; i < 2; i++)
        if (step->rows[i]) step->rows[i]->mark = LOOP_SEQ;
    if (step->vectors) step->vectors->mark = LOOP_SEQ;
    at->at[0] = wrapped(t, matrix->name, s);
    return true;
}

/* Loops that make the sums of a step zeros. */
static Stmt *cleared(const Tiling *t, const Step *step) {
    const Stmt *lanes = step->use->body.at[0]->body.at[0], *sum = lanes->body.at[0];
    const Stmt *loop[] = {step->rows[1], step->rows[0], step->vectors, lanes};
    Stmts out = {0}, *into = &out;
    for (int i = 0; i < 4; i++) {
        if (!loop[i]) continue;
        LoopMark mark = i == 3 ? LOOP_VECTOR : LOOP_SEQ;
        into = &nest_for(t->nest, into, loop[i]->var, loop[i]->extent, mark)->body;
    }
    Stmt *zero = nest_body(t->nest, into);
    zero->from = sum->from;
    Store to = sum->store.at[0];
    to.val = body_const(&zero->code, t->nest->buf.at[to.to.cont].type, 0);
    vec_push(t->arena, &zero->store, to);
    return out.at[0];
}

/* Where sums are copied to: loops over nothing but them, into an array of this nest. */
typedef struct Copy {
    const Access *sum, *to;
} Copy;

static bool find_copy(const Tiling *t, const Stmt *s, int acc, Copy *copy) {
    const Buf *sums = &t->nest->buf.at[acc];
    int loops = 0;
    for (; s->kind == STMT_FOR && !s->guard.n && s->body.n == 1; s = s->body.at[0]) loops++;
    if (s->kind != STMT_BODY || s->store.n != 1) return false;
    const Store *store = &s->store.at[0];
    const Val *val = &s->code.val.at[store->val];
    const Buf *into = &t->nest->buf.at[store->to.cont];
    if (val->kind != VAL_READ || val->has_else || val->read.cont != acc) return false;
    if (into->kind != BUF_TILE || into->type != sums->type) return false;
    for (int k = 0; k < sums->rank; k++) {
        bool one = dim_is(sums->box[k], 1) && dim_is(val->read.at[k], 0);
        bool all = dim_sym_name(val->read.at[k]) && loops-- > 0;
        if (!one && !all) return false;
    }
    *copy = (Copy){&val->read, &store->to};
    return loops == 0;
}

/* The sum at an index is the element that it would be copied to. */
static Access moved(const Tiling *t, const Copy *copy, const Access *sum) {
    Ctx *ctx = t->nest->ctx;
    DimSubst at[4];
    int n = 0;
    for (int k = 0; k < sum->rank; k++)
        if (!dim_is(copy->sum->at[k], 0)) at[n++] = (DimSubst){copy->sum->at[k], sum->at[k]};
    Dim *to = NEW_ARRAY(t->arena, Dim, copy->to->rank);
    for (int k = 0; k < copy->to->rank; k++) to[k] = dim_subst(ctx, copy->to->at[k], at, n);
    return (Access){copy->to->cont, copy->to->rank, to};
}

static void move_sums(const Tiling *t, const Copy *copy, Stmt *s) {
    int acc = copy->sum->cont;
    for (int i = 0; i < s->body.n; i++) move_sums(t, copy, s->body.at[i]);
    if (s->kind != STMT_BODY || s->store.at[0].to.cont != acc) return;
    ValVec *val = &s->code.val;
    val->at = arena_copy(t->arena, val->at, (size_t)val->n * sizeof *val->at);
    for (int v = 0; v < val->n; v++)
        if (val->at[v].kind == VAL_READ && val->at[v].read.cont == acc)
            val->at[v].read = moved(t, copy, &val->at[v].read);
    s->store.at[0].to = moved(t, copy, &s->store.at[0].to);
}

/* Tiles can be stored there: lanes side by side, one stride from row to row. */
static bool can_move(const Tiling *t, const Step *step, const Copy *copy) {
    const Stmt *lanes = step->use->body.at[0]->body.at[0];
    Access to = moved(t, copy, &lanes->body.at[0]->store.at[0].to);
    Dim stride[STRIDES];
    if (!strides_of(t, step, &to, stride) || !dim_is(stride[BY_LANE], 1)) return false;
    Dim by = dim_mulc(t->nest->ctx, stride[BY_ROW], step->nrows[0]);
    return step->nrows[1] == 1 || stride[BY_OUTER] == by;
}

static bool accesses(const Access *at, int n, int buf) {
    for (int i = 0; i < n; i++)
        if (at[i].cont == buf) return true;
    return false;
}

static bool mentions(const Stmt *s, int buf) {
    for (int i = 0; i < s->body.n; i++)
        if (mentions(s->body.at[i], buf)) return true;
    for (int v = 0; v < s->code.val.n; v++)
        if (s->code.val.at[v].kind == VAL_READ && s->code.val.at[v].read.cont == buf) return true;
    for (int i = 0; i < s->store.n; i++)
        if (s->store.at[i].to.cont == buf) return true;
    int n = s->kind == STMT_FOLD ? s->combine->nstate : s->kind == STMT_TURN;
    return accesses(s->src, n, buf) || accesses(s->dst, n, buf) ||
           ((s->kind == STMT_WHILE || s->kind == STMT_PREFETCH) && s->at.cont == buf);
}

/* Sums of the block at `i`, declared before it, go where the statement behind it copies them if
 * nothing else asks for them: neither that copy nor the declaration is needed. */
static bool drop_copy(const Tiling *t, const Step *step, Stmts *stmts, int i) {
    int acc = stmts->at[i - 1]->buf;
    Copy copy;
    if (i + 1 == stmts->n || !find_copy(t, stmts->at[i + 1], acc, &copy)) return false;
    for (int k = i + 2; k < stmts->n; k++)
        if (mentions(stmts->at[k], acc)) return false;
    if (mentions(stmts->at[i], copy.to->cont) || !can_move(t, step, &copy)) return false;
    move_sums(t, &copy, stmts->at[i]);
    stmts->at[i - 1] = stmts->at[i];
    for (int k = i; k + 2 < stmts->n; k++) stmts->at[k] = stmts->at[k + 2];
    stmts->n -= 2;
    return true;
}

/* `tiles` around the statement behind a declaration of sums; false: it has no steps. */
static bool tile_sums(const Tiling *t, Stmts *stmts, int i, Step *step) {
    Stmt *decl = stmts->at[i];
    Stmts chain = {&stmts->at[i + 1], 1, 1};
    if (!wrap_step(t, &chain, decl->buf, step)) return false;
    Stmt *block = wrapped(t, "tiles", cleared(t, step));
    vec_push(t->arena, &block->body, chain.at[0]);
    stmts->at[i + 1] = block;
    decl->has_init = false;
    t->nest->buf.at[decl->buf].kind = BUF_TILE;
    return true;
}

static void tile_stmts(const Tiling *t, Stmts *stmts) {
    bool tiled = false;
    for (int i = 0; i < stmts->n; i++) {
        Stmt *s = stmts->at[i];
        Step step;
        bool sums = s->kind == STMT_DECL && s->has_init && !s->init && i + 1 < stmts->n;
        if (tiled && s->kind == STMT_FOR && s->mark == LOOP_UNROLL) s->mark = LOOP_SEQ;
        if (sums && tile_sums(t, stmts, i, &step)) {
            tiled = true;
            if (!drop_copy(t, &step, stmts, i + 1)) i++;
            continue;
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
