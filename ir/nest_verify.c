/* SPDX-License-Identifier: Apache-2.0 */
/* Is a nest what nest.h demands? One walk with the loops, guards and declared buffers in sight.
 *
 * Bounds are proven by the ranges of the loops and the guards around, or by isl; an index for which
 * isl finds a counterexample is refused, one that nothing decides is left to the evaluator, which
 * checks all. */
#include <string.h>

#include "nest_text.h"
#include "poly.h"
#include "verify.h"

typedef struct NestVerify {
    Verify v; /* first */
    const Nest *nest;
    VEC(const Stmt *) loop; /* around, outermost first */
    VEC(Dim) guard;         /* each >= 0 here */
    bool *alive;            /* by buffer: declared here */
    bool *declared;         /* by buffer: declared anywhere before */
    const Stmt *stmt;       /* being checked */
} NestVerify;

/* ---- indices ----------------------------------------------------------------------------- */

static const Stmt *loop_of(const NestVerify *n, Dim var) {
    for (int i = n->loop.n - 1; i >= 0; i--)
        if (n->loop.at[i]->var == var) return n->loop.at[i];
    return NULL;
}

static bool proven(NestVerify *n, Dim d) {
    DimEnv env = verify_env(&n->v);
    if (dim_ge0(n->v.ctx, d, &env)) return true;
    for (int i = 0; i < n->guard.n; i++)
        if (dim_ge0(n->v.ctx, dim_sub(n->v.ctx, d, n->guard.at[i]), &env)) return true;
    return false;
}

typedef struct Foreign {
    const NestVerify *n;
    bool found;
} Foreign;

/* Symbols that are neither loops nor symbols of the nest: values of the body. */
static void note_foreign(void *user, Dim sym) {
    Foreign *foreign = user;
    for (int i = 0; i < foreign->n->nest->symbol.n; i++)
        if (foreign->n->nest->symbol.at[i].sym == sym) return;
    if (!loop_of(foreign->n, sym)) foreign->found = true;
}

/* Symbols of at least 64 where they may be: what fails only for tiny sizes is caught at run time.
 */
static DimEnv generic_env(NestVerify *n) {
    DimRange *range = NEW_ARRAY(n->v.arena, DimRange, n->nest->symbol.n);
    for (int i = 0; i < n->nest->symbol.n; i++) {
        const Symbol *s = &n->nest->symbol.at[i];
        int64_t lo = s->hi < 64 ? s->hi : 64;
        range[i] = n->v.range.at[i];
        if (!s->upper && lo > s->lo) range[i].lo = dim_const(n->v.ctx, lo);
    }
    return (DimEnv){range, n->nest->symbol.n};
}

enum { LOOPS_MAX = 36 };

/* Marks the loops and guards that share a symbol with the index, its extent or each other. */
static void mark_relevant(const NestVerify *n, Dim index, Dim extent, bool *loop, bool *guard) {
    bool grown = true;
    for (int i = 0; i < n->loop.n; i++) {
        Dim var = n->loop.at[i]->var;
        loop[i] = dim_uses(index, var) || dim_uses(extent, var);
    }
    while (grown) {
        grown = false;
        for (int g = 0; g < n->guard.n; g++) {
            for (int i = 0; i < n->loop.n && !guard[g]; i++)
                guard[g] = loop[i] && dim_uses(n->guard.at[g], n->loop.at[i]->var);
            for (int i = 0; i < n->loop.n && guard[g]; i++) {
                if (loop[i] || !dim_uses(n->guard.at[g], n->loop.at[i]->var)) continue;
                loop[i] = grown = true;
            }
        }
        for (int i = 0; i < n->loop.n; i++)
            for (int k = 0; k < n->loop.n; k++) {
                if (!loop[i] || loop[k] || !dim_uses(n->loop.at[i]->extent, n->loop.at[k]->var))
                    continue;
                loop[k] = grown = true;
            }
    }
}

/* isl's answer from the marked loops and guards; no extent is negative, the run refuses that. */
static PolyAnswer ask(NestVerify *n, Dim index, Dim extent, const bool *loop, const bool *guard) {
    Dim sym[LOOPS_MAX], ext[LOOPS_MAX];
    Dim *cons = NEW_ARRAY(n->v.arena, Dim, n->guard.n + 1);
    int nloops = 0, ncons = 0;
    for (int i = 0; i < n->loop.n; i++) {
        if (!loop[i]) continue;
        sym[nloops] = n->loop.at[i]->var;
        ext[nloops++] = n->loop.at[i]->extent;
    }
    for (int g = 0; g < n->guard.n; g++)
        if (guard[g]) cons[ncons++] = n->guard.at[g];
    cons[ncons++] = extent;
    PolyRel rel = {{nloops, sym, ext, ncons, cons}, {1, &index, &extent, false}};
    DimEnv env = generic_env(n);
    return poly_inside(n->v.ctx, &env, &rel);
}

/* Few loops and guards decide most indices, and isl's time grows fast with their number. A
 * counterexample only counts when all are taken together. */
static PolyAnswer inside(NestVerify *n, Dim index, Dim extent) {
    Foreign foreign = {n, false};
    dim_symbols(index, note_foreign, &foreign);
    dim_symbols(extent, note_foreign, &foreign);
    if (foreign.found || n->loop.n > LOOPS_MAX) return POLY_UNKNOWN;
    bool loop[LOOPS_MAX] = {0}, *guard = NEW_ARRAY(n->v.arena, bool, n->guard.n);
    mark_relevant(n, index, extent, loop, guard);
    PolyAnswer answer = ask(n, index, extent, loop, guard);
    if (answer != POLY_NO) return answer;
    for (int i = 0; i < n->loop.n; i++) loop[i] = true;
    for (int g = 0; g < n->guard.n; g++) guard[g] = true;
    return ask(n, index, extent, loop, guard);
}

typedef struct RegIndex {
    NestVerify *n;
    bool lane, bad;
} RegIndex;

static void note_reg(void *user, Dim sym) {
    RegIndex *reg = user;
    const Stmt *loop = loop_of(reg->n, sym);
    bool lane = loop && loop->mark == LOOP_VECTOR;
    if (lane ? !reg->lane : !loop || loop->mark != LOOP_UNROLL) reg->bad = true;
}

static void verify_reg(NestVerify *n, const Buf *buf, const Access *access, const void *object) {
    for (int k = 0; k < access->rank; k++) {
        RegIndex reg = {n, k + 1 == buf->rank, false};
        dim_symbols(access->at[k], note_reg, &reg);
        if (reg.bad)
            complain(&n->v, object, n->stmt,
                     "\"%s\" is in registers: its indices are constants and unrolled variables, "
                     "the last "
                     "one also the lane",
                     buf->name);
    }
}

static const Buf *verify_access(NestVerify *n, const Access *access, const void *object,
                                bool bounds) {
    Verify *v = &n->v;
    if (access->cont < 0 || access->cont >= n->nest->buf.n)
        complain(v, object, n->stmt, "buffer number %d does not exist", access->cont);
    const Buf *buf = &n->nest->buf.at[access->cont];
    if (buf->kind != BUF_MEMORY && !n->alive[access->cont])
        complain(v, object, n->stmt, "\"%s\" is not declared here", buf->name);
    if (access->rank != buf->rank)
        complain(v, object, n->stmt, "\"%s\" takes %d indices, not %d", buf->name, buf->rank,
                 access->rank);
    verify_dims(v, access->at, access->rank, object, n->stmt, "an index");
    if (buf->kind == BUF_REG) verify_reg(n, buf, access, object);
    for (int k = 0; k < access->rank && bounds; k++) {
        Dim room = dim_addc(v->ctx, dim_sub(v->ctx, buf->box[k], access->at[k]), -1);
        if (proven(n, access->at[k]) && proven(n, room)) continue;
        if (inside(n, access->at[k], buf->box[k]) == POLY_NO)
            complain(v, object, n->stmt, "index %d of \"%s\", %s, leaves 0..%s", k, buf->name,
                     dim_str(v->ctx, access->at[k]),
                     dim_str(v->ctx, dim_addc(v->ctx, buf->box[k], -1)));
    }
    return buf;
}

/* ---- bodies ------------------------------------------------------------------------------ */

static void verify_read(Verify *v, const Val *val) {
    NestVerify *n = (NestVerify *)v;
    const Buf *buf = verify_access(n, &val->read, val, !val->has_else);
    if (buf->type != val->type)
        complain(v, val, n->stmt, "\"%s\" is of type %s, read as %s", buf->name,
                 dtype_name(buf->type), dtype_name(val->type));
}

static const DimRange *no_range(Verify *v, int buf) {
    (void)v, (void)buf;
    return NULL;
}

static void verify_code(NestVerify *n, const Stmt *stmt) {
    Verify *v = &n->v;
    int symbols = v->range.n;
    verify_body(v, &stmt->code, stmt, verify_read, no_range);
    if (!stmt->store.n) complain(v, stmt, NULL, "a body stores nothing");
    for (int i = 0; i < stmt->store.n; i++) {
        const Store *store = &stmt->store.at[i];
        verify_val(v, &stmt->code, store->val, stmt);
        const Buf *buf = verify_access(n, &store->to, store, true);
        DType type = stmt->code.val.at[store->val].type;
        if (type != buf->type)
            complain(v, store, stmt, "a value of type %s stored to \"%s\" of type %s",
                     dtype_name(type), buf->name, dtype_name(buf->type));
        if (buf->kind == BUF_MEMORY && !buf->written)
            complain(v, store, stmt, "memory \"%s\" is stored to: mark it `written`", buf->name);
    }
    v->range.n = symbols;
}

static void verify_fold(NestVerify *n, const Stmt *stmt) {
    Verify *v = &n->v;
    for (int i = 0; i < stmt->combine->nstate; i++) {
        const Buf *src = verify_access(n, &stmt->src[i], stmt, true);
        const Buf *dst = verify_access(n, &stmt->dst[i], stmt, true);
        bool row = src->rank && dim_is(src->box[src->rank - 1], stmt->lanes);
        if (!row && !stmt->threads)
            complain(v, stmt, NULL, "rows of \"%s\" do not have %d lanes", src->name, stmt->lanes);
        if (!stmt->threads && !dim_is(stmt->src[i].at[src->rank - 1], 0))
            complain(v, stmt, NULL, "the last index of \"%s\" is 0, the first lane", src->name);
        if (src->type != stmt->combine->type[i] || dst->type != src->type)
            complain(v, stmt, NULL, "\"%s\" and \"%s\" must have the combine's type", src->name,
                     dst->name);
        if (dst->kind == BUF_MEMORY && !dst->written)
            complain(v, stmt, NULL, "memory \"%s\" is stored to: mark it `written`", dst->name);
    }
    if (stmt->lanes & (stmt->lanes - 1)) complain(v, stmt, NULL, "lanes are a power of two");
}

/* ---- statements -------------------------------------------------------------------------- */

/* Rows of 128 bytes, in groups of eight. */
static void verify_swizzled(NestVerify *n, const Stmt *stmt, const Buf *b) {
    int64_t row = 0, rows = 0;
    bool fits = b->kind == BUF_SHARED && b->rank >= 2 && dtype_bits(b->type) >= 8 &&
                dim_is_const(b->box[b->rank - 1], &row) && dim_is_const(b->box[b->rank - 2], &rows);
    if (!fits || dtype_bytes(b->type, row) != SWIZZLED_ROW || rows % SWIZZLED_ROWS)
        complain(&n->v, stmt, NULL, "a swizzled array is shared, with rows of %d bytes, in eights",
                 SWIZZLED_ROW);
}

static void verify_decl(NestVerify *n, const Stmt *stmt) {
    Verify *v = &n->v;
    if (stmt->buf < 0 || stmt->buf >= n->nest->buf.n)
        complain(v, stmt, NULL, "buffer number %d does not exist", stmt->buf);
    const Buf *buf = &n->nest->buf.at[stmt->buf];
    if (buf->kind == BUF_MEMORY)
        complain(v, stmt, NULL, "memory \"%s\" is not declared inside", buf->name);
    if (n->declared[stmt->buf]) complain(v, stmt, NULL, "\"%s\" is declared twice", buf->name);
    n->declared[stmt->buf] = n->alive[stmt->buf] = true;
    verify_dims(v, buf->box, buf->rank, stmt, NULL, "a box");
    if (buf->swizzled) verify_swizzled(n, stmt, buf);
    if (buf->kind == BUF_SCRATCH) return;
    if (!dim_is_const(dim_product(v->ctx, buf->box, buf->rank), NULL))
        complain(v, stmt, NULL, "\"%s\" needs a constant size", buf->name);
}

static void verify_mark(NestVerify *n, const Stmt *stmt) {
    Verify *v = &n->v;
    int64_t extent;
    bool constant = dim_is_const(stmt->extent, &extent);
    if ((stmt->mark == LOOP_UNROLL || stmt->mark == LOOP_VECTOR) && !constant)
        complain(v, stmt, NULL, "the extent of an unroll or vector loop is constant");
    if (stmt->mark == LOOP_PARALLEL)
        for (int i = 0; i < n->loop.n; i++)
            if (n->loop.at[i]->mark != LOOP_PARALLEL)
                complain(v, stmt, NULL, "parallel loops stand outermost");
    if (stmt->mark != LOOP_VECTOR && stmt->guard.n)
        complain(v, stmt, NULL, "only vector loops have guards: put an `if` around others");
    bool fetch =
        strcmp(n->nest->on, "cpu") && stmt->body.n == 1 && stmt->body.at[0]->kind == STMT_PREFETCH;
    for (int i = 0; i < stmt->body.n && stmt->mark == LOOP_VECTOR && !fetch; i++)
        if (stmt->body.at[i]->kind != STMT_BODY)
            complain(v, stmt->body.at[i], stmt, "a vector loop holds bodies, or one prefetch");
}

static void verify_stmts(NestVerify *n, const Stmts *stmts);

static void verify_guarded(NestVerify *n, const Stmt *stmt) {
    int guards = n->guard.n;
    verify_dims(&n->v, stmt->guard.at, stmt->guard.n, stmt, NULL, "a guard");
    for (int i = 0; i < stmt->guard.n; i++) vec_push(n->v.arena, &n->guard, stmt->guard.at[i]);
    verify_stmts(n, &stmt->body);
    n->guard.n = guards;
}

/* A variable from here on; until n->loop and the ranges are as before. */
static void open_var(NestVerify *n, const Stmt *stmt) {
    Verify *v = &n->v;
    if (!dim_sym_name(stmt->var)) complain(v, stmt, NULL, "a loop variable is not a symbol");
    if (verify_known(v, stmt->var))
        complain(v, stmt, NULL, "loop \"%s\" has the name of another symbol",
                 dim_sym_name(stmt->var));
    DimRange range = {stmt->var, dim_const(v->ctx, 0), dim_addc(v->ctx, stmt->extent, -1)};
    vec_push(v->arena, &v->range, range);
    vec_push(v->arena, &n->loop, stmt);
}

static void verify_for(NestVerify *n, const Stmt *stmt) {
    verify_dim(&n->v, stmt->extent, stmt, NULL, "an extent");
    verify_mark(n, stmt);
    open_var(n, stmt);
    verify_guarded(n, stmt);
    n->loop.n--;
    n->v.range.n--;
}

static void verify_turn(NestVerify *n, const Stmt *stmt) {
    open_var(n, stmt);
    const Buf *src = verify_access(n, stmt->src, stmt, true);
    const Buf *dst = verify_access(n, stmt->dst, stmt, true);
    if (src->kind != BUF_REG || dst->kind != BUF_REG || src == dst || src->type != dst->type)
        complain(&n->v, stmt, NULL, "threads exchange registers, to others of the same type");
    if (stmt->lanes & (stmt->lanes - 1)) complain(&n->v, stmt, NULL, "threads are a power of two");
    n->loop.n--;
    n->v.range.n--;
}

static void verify_stmt(NestVerify *n, const Stmt *stmt) {
    n->stmt = stmt;
    switch (stmt->kind) {
    case STMT_FOR: verify_for(n, stmt); break;
    case STMT_IF: verify_guarded(n, stmt); break;
    case STMT_WHILE:
        if (verify_access(n, &stmt->at, stmt, true)->type != BOOL)
            complain(&n->v, stmt, NULL, "the condition of `while` is a bool");
        verify_stmts(n, &stmt->body);
        break;
    case STMT_DECL: verify_decl(n, stmt); break;
    case STMT_BODY: verify_code(n, stmt); break;
    case STMT_FOLD: verify_fold(n, stmt); break;
    case STMT_PREFETCH: verify_access(n, &stmt->at, stmt, strcmp(n->nest->on, "cpu") != 0); break;
    case STMT_SYNC:
    case STMT_COMMIT:
    case STMT_WAIT: break;
    case STMT_TURN: verify_turn(n, stmt); break;
    case STMT_STEPS:
    case STMT_USE: verify_stmts(n, &stmt->body); break;
    }
}

/* A declaration lives to the end of its block. */
static void verify_stmts(NestVerify *n, const Stmts *stmts) {
    for (int i = 0; i < stmts->n; i++) verify_stmt(n, stmts->at[i]);
    for (int i = 0; i < stmts->n; i++)
        if (stmts->at[i]->kind == STMT_DECL) n->alive[stmts->at[i]->buf] = false;
}

/* ---- the nest ---------------------------------------------------------------------------- */

static void verify_symbols(NestVerify *n) {
    Verify *v = &n->v;
    for (int i = 0; i < n->nest->symbol.n; i++) {
        const Symbol *s = &n->nest->symbol.at[i];
        if (!dim_sym_name(s->sym) || verify_known(v, s->sym))
            complain(v, n->nest, NULL, "a symbol stands twice or is none");
        Dim hi = s->hi == INT64_MAX ? s->upper : dim_const(v->ctx, s->hi);
        if (hi) verify_dim(v, hi, n->nest, NULL, "a symbol's upper bound");
        vec_push(v->arena, &v->range, (DimRange){s->sym, dim_const(v->ctx, s->lo), hi});
    }
}

static void verify_memory(NestVerify *n) {
    Table *names = table_new(n->v.arena);
    for (int i = 0; i < n->nest->buf.n; i++) {
        const Buf *buf = &n->nest->buf.at[i];
        const char *name = intern(n->v.ctx, buf->name);
        if (table_get(names, name))
            complain(&n->v, buf, NULL, "two buffers are named \"%s\"", name);
        table_put(names, name, (void *)buf);
        if (buf->kind != BUF_MEMORY) continue;
        verify_dims(&n->v, buf->box, buf->rank, buf, NULL, "a box");
        if (buf->base) verify_dim(&n->v, buf->base, buf, NULL, "a base");
    }
}

static void print_whole(Printer *p, const void *nest) {
    nest_print_marked(p, nest);
}

void nest_verify(const Nest *nest) {
    Arena *arena = arena_new(nest->ctx);
    NestVerify n = {.nest = nest};
    n.v = (Verify){
        .ctx = nest->ctx, .arena = arena, .whole = nest, .what = "nest", .name = nest->name};
    n.v.print = print_whole;
    n.alive = NEW_ARRAY(arena, bool, nest->buf.n);
    n.declared = NEW_ARRAY(arena, bool, nest->buf.n);
    verify_symbols(&n);
    verify_memory(&n);
    verify_stmts(&n, &nest->body);
    verify_threads(&n.v, nest);
    arena_free(arena);
}
