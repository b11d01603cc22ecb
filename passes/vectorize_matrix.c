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
 * where G is the number of groups that a step takes, or less, and a and b have strides along i and
 * g; rows may be of two dims, acc[h,i,j,l], and their number may be known only at run time (it is
 * less than R then, and the loop not unrolled). The loops get two `use` blocks around them: `tiles`
 * around all, in which the sums are in tiles, and the step's around the loop over g. Sums are zeros
 * at the beginning of the first, by loops of their own. What follows reads the sums from memory,
 * and loops over rows are no longer unrolled. Where it only copies them to an array whose rows have
 * a stride, the tiles are stored there at once.
 *
 * More rows than tiles hold go block by block, each through the innermost loop around that over g;
 * around these stand the other loops. So `tiles` begins with zeros the first time only, and what
 * all rows meet of b meanwhile stays near. Each block of rows fetches its part
 * of what the loop fetches ahead. */
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

static bool is_loop(const Stmt *s, LoopMark mark) {
    return s->kind == STMT_FOR && s->mark == mark && !s->guard.n;
}

static bool plain_loop(const Stmt *s, LoopMark mark) {
    return is_loop(s, mark) && s->body.n == 1;
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

/* Loops over rows and vectors inside of s, the loop over groups, around an instruction. */
static bool open_step(Stmt *s, int acc, Step *out) {
    if (!plain_loop(s, LOOP_SEQ)) return false;
    Stmt *in = s->body.at[0], *loop[STEP_LOOPS];
    int n = 0;
    for (; n < STEP_LOOPS && result_loop(in); in = in->body.at[0]) loop[n++] = in;
    if (in->kind != STMT_USE) return false;
    *out = (Step){.groups = s, .use = in, .nrows = {1, 1}};
    const Access *to = &in->body.at[0]->body.at[0]->body.at[0]->store.at[0].to;
    if (to->cont != acc || to->rank < 3 || to->rank > 4) return false;
    if (n && to->at[to->rank - 2] == loop[n - 1]->var) out->vectors = loop[--n];
    for (int i = 0; i < n; i++) out->rows[i] = loop[n - 1 - i];
    return true;
}

/* The index of the sums, all but the lane, is the variables of a step's loops. */
static bool find_step(const Tiling *t, Stmt *s, int acc, Step *out) {
    if (!open_step(s, acc, out)) return false;
    const Access *to = &out->use->body.at[0]->body.at[0]->body.at[0]->store.at[0].to;
    int rows = to->rank - 2;
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
    Dim coef[STRIDES], rest, sym[STRIDES];
    int n = 0;
    for (int i = 0; i < STRIDES; i++)
        if (loop[i]) sym[n++] = loop[i]->var;
    bool stored = b->kind == BUF_MEMORY || b->kind == BUF_SCRATCH || b->kind == BUF_TILE;
    if (!stored || !dim_affine(ctx, nest_flat(t->nest, a), sym, n, coef, &rest)) return false;
    for (int i = STRIDES - 1; i >= 0; i--) stride[i] = loop[i] ? coef[--n] : dim_const(ctx, 0);
    return true;
}

/* Rows of one dim go block by block. Rows of two dims fill both tiles where each of the outer dim
 * is behind all of the inner; else there are two of the outer dim, a tile each. */
static bool rows_fit(const Tiling *t, const Step *s, const Dim *stride, int64_t most) {
    bool in_line = stride[BY_OUTER] == dim_mulc(t->nest->ctx, stride[BY_ROW], s->nrows[0]);
    if (s->nrows[1] == 1 && s->rows[0] && dim_is_const(s->rows[0]->extent, NULL)) return true;
    if (s->nrows[1] == 1 || in_line) return s->nrows[0] * s->nrows[1] <= 2 * most;
    return s->nrows[1] == 2 && s->nrows[0] <= most;
}

static const MatrixStep *step_for(const Tiling *t, Stmt *s, int acc, Step *step) {
    if (!find_step(t, s, acc, step)) return NULL;
    const MatrixStep *matrix = matrix_of(t->machine, step->use->use);
    int64_t vectors = 1, groups;
    if (!matrix || !dim_is_const(s->extent, &groups)) return NULL;
    if (groups < MATRIX_GROUPS_LEAST || groups > matrix->groups) return NULL;
    if (step->vectors && !dim_is_const(step->vectors->extent, &vectors)) return NULL;
    const Stmt *group = step->use->body.at[0], *lanes = group->body.at[0];
    const Stmt *body = lanes->body.at[0];
    if (vectors > 2 || lanes->guard.n) return NULL;
    for (int v = 0; v < body->code.val.n; v++) {
        const Val *val = &body->code.val.at[v];
        Dim stride[STRIDES];
        if (val->kind != VAL_READ || val->read.cont == acc) continue;
        if (!strides_of(t, step, &val->read, stride)) return NULL;
        bool by_rows = !dim_is(stride[BY_ROW], 0) || !dim_is(stride[BY_OUTER], 0);
        bool by_lanes = !dim_is(stride[BY_VECTOR], 0) || !dim_is(stride[BY_LANE], 0);
        if (by_rows && (by_lanes || !rows_fit(t, step, stride, matrix->rows))) return NULL;
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

static Access shifted(const Tiling *t, Access a, Dim var, Dim to) {
    DimSubst subst = {var, to};
    Dim *at = NEW_ARRAY(t->arena, Dim, a.rank);
    for (int k = 0; k < a.rank; k++) at[k] = dim_subst(t->nest->ctx, a.at[k], &subst, 1);
    return (Access){a.cont, a.rank, at};
}

/* The loop over groups, which `at` begins with, gets its block. */
static void wrap_step(const Tiling *t, Stmts *at, const Step *step) {
    for (int i = 0; i < 2; i++)
        if (step->rows[i]) step->rows[i]->mark = LOOP_SEQ;
    if (step->vectors) step->vectors->mark = LOOP_SEQ;
    at->at[0] = wrapped(t, matrix_of(t->machine, step->use->use)->name, at->at[0]);
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
    bool own = into->kind == BUF_TILE || into->kind == BUF_SCRATCH;
    if (!own || into->type != sums->type) return false;
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

/* Loops down to those of a step: where the loop over groups stands, where that around it, and what
 * the others count. */
typedef struct Chain {
    Stmts *groups, *inner;
    Dim var[MAP_DIMS];
    int n;
} Chain;

static bool find_chain(const Tiling *t, Stmts *at, int acc, Chain *c, Step *step) {
    *c = (Chain){.groups = at, .inner = at};
    while (!step_for(t, c->groups->at[0], acc, step)) {
        const Stmt *s = c->groups->at[0], *outer = c->inner->at[0];
        if (!is_loop(s, LOOP_SEQ) || !only_fetches(&s->body) || c->n == MAP_DIMS) return false;
        if (c->groups != c->inner) c->var[c->n++] = outer->var;
        c->inner = c->groups;
        c->groups = &c->groups->at[0]->body;
    }
    return true;
}

/* `tiles` around loops down to a step, in which sums go on unless the loops outside begin. */
static Stmt *tiles_block(const Tiling *t, const Chain *c, const Step *step, Stmt *loops) {
    Stmt *zeros = cleared(t, step);
    if (c->n) {
        Stmts first = {0};
        Stmt *begin = nest_if(t->nest, &first);
        for (int i = 0; i < c->n; i++)
            vec_push(t->arena, &begin->guard, dim_mulc(t->nest->ctx, c->var[i], -1));
        vec_push(t->arena, &begin->body, zeros);
        zeros = begin;
    }
    Stmt *block = wrapped(t, "tiles", zeros);
    vec_push(t->arena, &block->body, loops);
    return block;
}

static void shift_rows(const Tiling *t, const Step *step, Dim start) {
    Stmt *body = step->use->body.at[0]->body.at[0]->body.at[0];
    Dim var = step->rows[0]->var, to = dim_add(t->nest->ctx, start, var);
    ValVec *val = &body->code.val;
    val->at = arena_copy(t->arena, val->at, (size_t)val->n * sizeof *val->at);
    for (int v = 0; v < val->n; v++)
        if (val->at[v].kind == VAL_READ) val->at[v].read = shifted(t, val->at[v].read, var, to);
    body->store.at[0].to = shifted(t, body->store.at[0].to, var, to);
}

/* Blocks of rows, each through a copy of the loops: `rows` from `start` on, which is block `index`
 * of n. */
typedef struct Block {
    Dim start, index;
    int64_t rows, n;
} Block;

/* Each block of rows fetches a part. */
static void part_fetches(const Tiling *t, Stmts *stmts, const Block *b) {
    for (int i = 1; i < stmts->n; i++) {
        Stmt *loop = stmts->at[i];
        int64_t all;
        if (loop->kind != STMT_FOR || !dim_is_const(loop->extent, &all)) continue;
        int64_t part = (all + b->n - 1) / b->n;
        Dim first = dim_mulc(t->nest->ctx, b->index, part);
        Access *at = &loop->body.at[0]->at;
        *at = shifted(t, *at, loop->var, dim_add(t->nest->ctx, first, loop->var));
        loop->extent = dim_const(t->nest->ctx, part);
    }
}

static Stmt *rows_block(const Tiling *t, const Chain *c, int acc, const Block *b) {
    Stmts in = {0}, *groups = &in;
    Step step;
    vec_push(t->arena, &in, copy_stmt(t->arena, c->inner->at[0]));
    if (c->groups != c->inner) groups = &in.at[0]->body;
    if (!open_step(groups->at[0], acc, &step)) BUG("a copy of a step is none");
    step.rows[0]->extent = dim_const(t->nest->ctx, b->rows);
    shift_rows(t, &step, b->start);
    part_fetches(t, groups, b);
    wrap_step(t, groups, &step);
    return tiles_block(t, c, &step, in.at[0]);
}

/* Rows of one dim, more than tiles hold: blocks of the same number, and what is left. */
static void tile_rows(const Tiling *t, const Chain *c, int acc, int64_t rows, int64_t most) {
    Ctx *ctx = t->nest->ctx;
    int64_t n = (rows + most - 1) / most, size = (rows + n - 1) / n, even = rows / size;
    Stmts out = {0};
    Dim var = dim_sym(ctx, internf(ctx, "rows_%d", acc));
    Block b = {dim_mulc(ctx, var, size), var, size, n};
    Stmt *loop = nest_for(t->nest, &out, var, dim_const(ctx, even), LOOP_SEQ);
    vec_push(t->arena, &loop->body, rows_block(t, c, acc, &b));
    Dim rest = dim_const(ctx, even * size);
    b = (Block){rest, dim_const(ctx, even), rows - even * size, n};
    if (b.rows) vec_push(t->arena, &out, rows_block(t, c, acc, &b));
    for (int i = 1; i < c->inner->n; i++) vec_push(t->arena, &out, c->inner->at[i]);
    *c->inner = out;
}

static void insert_stmt(const Tiling *t, Stmts *stmts, int at, Stmt *s) {
    vec_push(t->arena, stmts, s);
    for (int i = stmts->n - 1; i > at; i--) stmts->at[i] = stmts->at[i - 1];
    stmts->at[at] = s;
}

/* `tiles` around the statement behind a declaration of sums; false: it has no steps. */
static bool tile_sums(const Tiling *t, Stmts *stmts, int i, Step *step) {
    Stmt *decl = stmts->at[i];
    Stmts loops = {0};
    Chain c;
    vec_push(t->arena, &loops, stmts->at[i + 1]);
    if (!find_chain(t, &loops, decl->buf, &c, step)) return false;
    int64_t most = 2 * matrix_of(t->machine, step->use->use)->rows;
    if (step->nrows[1] == 1 && step->nrows[0] > most) {
        tile_rows(t, &c, decl->buf, step->nrows[0], most);
    } else {
        wrap_step(t, c.groups, step);
        c.n = 0;
        loops.at[0] = tiles_block(t, &c, step, loops.at[0]);
    }
    stmts->at[i + 1] = loops.at[0];
    for (int k = 1; k < loops.n; k++) insert_stmt(t, stmts, i + 1 + k, loops.at[k]);
    decl->has_init = false;
    t->nest->buf.at[decl->buf].kind = BUF_TILE;
    return true;
}

static void tile_stmts(const Tiling *t, Stmts *stmts) {
    int tiled = -1;
    for (int i = 0; i < stmts->n; i++) {
        Stmt *s = stmts->at[i];
        Step step;
        bool sums = s->kind == STMT_DECL && s->has_init && !s->init && i + 1 < stmts->n;
        bool reads = tiled >= 0 && s->kind == STMT_FOR && mentions(s, tiled);
        if (reads && s->mark == LOOP_UNROLL) s->mark = LOOP_SEQ;
        if (sums && tile_sums(t, stmts, i, &step)) {
            tiled = s->buf;
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
