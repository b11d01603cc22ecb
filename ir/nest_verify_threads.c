/* SPDX-License-Identifier: Apache-2.0 */
/* Do blocks and threads of a nest stand as nest.h says? One walk, beside that of nest_verify.c.
 *
 * A barrier must be reached by all threads of a block: the extents and guards around it may use no
 * thread's number. A fold over threads must be reached by whole warps: they may use the numbers of
 * loops inside which there are whole warps. What hangs on values is left to the evaluator. */
#include "nest_text.h"
#include "verify.h"

#include <string.h>

enum { THREADS_MOST = 1024, WARP = 32 };

typedef struct Walk {
    Verify *v;
    const Nest *nest;
    int64_t threads; /* of the thread loops around; 0: in none */
    int nvar;
    Dim var[RANK_MAX];        /* of these loops; ... */
    int64_t inside[RANK_MAX]; /* ... threads of an iteration */
    bool apart, torn;         /* not all threads come here; of some warp not all */
    Dim lane;                 /* of the vector loop around; or NULL */
    Dim reduced;              /* of the step around: the loop that counts what it sums; or NULL */
    bool steps;               /* in a `steps` block */
} Walk;

static bool has_threads(const Stmts *stmts) {
    for (int i = 0; i < stmts->n; i++) {
        const Stmt *s = stmts->at[i];
        if (s->kind == STMT_FOR && (s->mark == LOOP_BLOCK || s->mark == LOOP_THREAD)) return true;
        if (has_threads(&s->body)) return true;
    }
    return false;
}

/* Does it tell threads apart, those of groups of `whole` neighbours from one another? */
static bool uses_threads(const Walk *w, Dim d, int64_t whole) {
    for (int i = 0; i < w->nvar; i++)
        if (dim_uses(d, w->var[i]) && (!whole || w->inside[i] % whole)) return true;
    return false;
}

static bool splits(const Walk *w, const Stmt *s, int64_t whole) {
    bool apart =
        s->kind == STMT_FOR && (s->mark == LOOP_VECTOR || uses_threads(w, s->extent, whole));
    for (int i = 0; i < s->guard.n; i++) apart |= uses_threads(w, s->guard.at[i], whole);
    return apart;
}

static void verify_fold(Walk *w, const Stmt *s) {
    if (s->lanes > WARP)
        complain(w->v, s, NULL, "neighbours that fold are at most %d threads", WARP);
    for (int k = 0; k < s->combine->nstate; k++)
        if (w->nest->buf.at[s->src[k].cont].kind != BUF_REG ||
            w->nest->buf.at[s->dst[k].cont].kind != BUF_REG)
            complain(w->v, s, NULL, "threads fold what they have in registers");
    if (w->threads % s->lanes)
        complain(w->v, s, NULL, "%lld threads do not make groups of %d", (long long)w->threads,
                 s->lanes);
}

/* A copy: one read of memory, one store of it to a shared array. */
static void verify_async(Walk *w, const Stmt *s) {
    const Val *read = s->store.n == 1 ? &s->code.val.at[s->store.at[0].val] : NULL;
    bool copies = read && read->kind == VAL_READ && w->threads &&
                  w->nest->buf.at[read->read.cont].kind == BUF_MEMORY &&
                  w->nest->buf.at[s->store.at[0].to.cont].kind == BUF_SHARED;
    if (!copies)
        complain(w->v, s, NULL, "what is asynchronous copies from memory to a shared array");
}

static bool is_multiple(const Walk *w, Dim d, int64_t of) {
    Ctx *ctx = w->nest->ctx;
    return dim_is(dim_mod(ctx, d, dim_const(ctx, of)), 0);
}

/* d = a x + b y + rest, with a rest of a multiple of `step`; x or y: NULL where it may not occur.
 */
static bool is_spread(const Walk *w, Dim d, Dim x, int64_t a, Dim y, int64_t b, int64_t step) {
    const Dim group = w->var[w->nvar - 2], pair = w->var[w->nvar - 1];
    Dim sym[] = {x, y}, coef[2], rest;
    int n = y ? 2 : 1;
    if (!x || !dim_affine(w->nest->ctx, d, sym, n, coef, &rest) || !dim_is(coef[0], a))
        return false;
    if (y && !dim_is(coef[1], b)) return false;
    return !dim_uses(rest, group) && !dim_uses(rest, pair) && is_multiple(w, rest, step);
}

/* An access to a fragment stands where the thread has the element; what others read is left to the
 * evaluator. */
static void verify_fragment(Walk *w, const Stmt *s, const Access *a, bool store) {
    enum { SIDE = 8, DEPTH = 16 };
    const Buf *b = &w->nest->buf.at[a->cont];
    if (b->kind != BUF_FRAGMENT) return;
    bool good = w->nvar >= 2 && a->rank >= 2 && (store ? !w->reduced && w->lane : !!w->reduced);
    if (good) {
        Dim group = w->var[w->nvar - 2], pair = w->var[w->nvar - 1];
        Dim row = a->at[a->rank - 2], column = a->at[a->rank - 1];
        good = is_spread(w, row, group, 1, NULL, 0, SIDE) &&
               (store ? is_spread(w, column, pair, 2, w->lane, 1, SIDE)
                      : is_spread(w, column, w->reduced, 1, NULL, 0, DEPTH));
    }
    if (!good)
        complain(w->v, s, NULL,
                 "\"%s\" is a fragment: threads store the pairs that steps of their warp want of "
                 "them, and only steps read it",
                 b->name);
}

static void verify_fragments(Walk *w, const Stmt *s) {
    for (int v = 0; v < s->code.val.n; v++)
        if (s->code.val.at[v].kind == VAL_READ)
            verify_fragment(w, s, &s->code.val.at[v].read, false);
    for (int i = 0; i < s->store.n; i++) verify_fragment(w, s, &s->store.at[i].to, true);
}

/* Steps are loops around `use`; only they read arrays of a shuffled order, which copies fill. */
static void verify_steps(Walk *w, const Stmt *s) {
    if (w->steps && s->kind != STMT_FOR && s->kind != STMT_USE && s->kind != STMT_BODY)
        complain(w->v, s, NULL, "`steps` hold loops and what an instruction does");
    if (s->kind == STMT_STEPS && w->steps) complain(w->v, s, NULL, "`steps` stand in `steps`");
    if (s->kind != STMT_BODY) return;
    for (int i = 0; i < s->store.n; i++)
        if (w->steps && w->nest->buf.at[s->store.at[i].to.cont].kind != BUF_REG)
            complain(w->v, s, NULL, "`steps` add to registers");
    for (int i = 0; i < s->code.val.n; i++) {
        const Val *v = &s->code.val.at[i];
        if (v->kind == VAL_READ && !w->steps && w->nest->buf.at[v->read.cont].swizzled)
            complain(w->v, s, NULL, "only `steps` read a swizzled array");
    }
}

static bool meets(const Stmt *s) {
    return s->kind == STMT_SYNC || s->kind == STMT_COMMIT || s->kind == STMT_WAIT ||
           s->kind == STMT_STEPS || s->kind == STMT_TURN || (s->kind == STMT_FOLD && s->threads);
}

static bool is_of_block(const Walk *w, const Stmt *s) {
    BufKind kind = w->nest->buf.at[s->buf].kind;
    return kind == BUF_SHARED || kind == BUF_FRAGMENT;
}

static void verify_fragment_type(Walk *w, const Stmt *s) {
    const Buf *b = &w->nest->buf.at[s->buf];
    int64_t side = 16;
    bool good = dtype_is_float(b->type) && dtype_bits(b->type) == 16 && b->rank >= 2;
    for (int k = b->rank - 2; good && k < b->rank; k++) good = is_multiple(w, b->box[k], side);
    if (!good)
        complain(w->v, s, NULL, "a fragment has rows and columns by %lld, of 16-bit floats",
                 (long long)side);
}

static void verify_inside(Walk *w, const Stmts *stmts) {
    for (int i = 0; i < stmts->n; i++) {
        const Stmt *s = stmts->at[i];
        bool apart = w->apart, torn = w->torn, steps = w->steps;
        Dim lane = w->lane, reduced = w->reduced;
        verify_steps(w, s);
        if (meets(s) && !w->threads) complain(w->v, s, NULL, "there are no threads here to meet");
        if (meets(s) && (s->kind == STMT_FOLD ? w->torn : w->apart))
            complain(w->v, s, NULL, "not all threads of a block come here");
        if (meets(s) && s->kind == STMT_FOLD) verify_fold(w, s);
        if (s->kind == STMT_TURN && w->threads % s->lanes)
            complain(w->v, s, NULL, "%lld threads do not make groups of %d", (long long)w->threads,
                     s->lanes);
        if (s->kind == STMT_BODY && s->async) verify_async(w, s);
        if (s->kind == STMT_FOR && (s->mark == LOOP_BLOCK || s->mark == LOOP_THREAD))
            complain(w->v, s, NULL, "blocks and threads stand outermost, threads inside blocks");
        if (s->kind == STMT_FOR && s->mark == LOOP_PARALLEL && strcmp(w->nest->on, "cpu"))
            complain(w->v, s, NULL, "parallel loops are of the CPU; here are blocks and threads");
        if (s->kind == STMT_BODY) verify_fragments(w, s);
        if (s->kind == STMT_DECL && is_of_block(w, s))
            complain(w->v, s, NULL, "shared arrays stand around the threads of a block");
        if (s->kind == STMT_DECL && w->threads && w->nest->buf.at[s->buf].kind == BUF_SCRATCH)
            complain(w->v, s, NULL, "threads have no scratch memory");
        w->apart |= splits(w, s, 0);
        w->torn |= splits(w, s, WARP);
        if (s->kind == STMT_FOR && s->mark == LOOP_VECTOR) w->lane = s->var;
        if (s->kind == STMT_USE && s->body.n == 1) w->reduced = s->body.at[0]->var;
        w->steps |= s->kind == STMT_STEPS;
        verify_inside(w, &s->body);
        w->apart = apart, w->torn = torn, w->lane = lane, w->reduced = reduced, w->steps = steps;
    }
}

static void verify_thread(Walk *w, const Stmt *s) {
    int64_t extent;
    if (!dim_is_const(s->extent, &extent) || extent < 1 || extent * w->threads > THREADS_MOST)
        complain(w->v, s, NULL, "a block has at most %d threads, a constant number", THREADS_MOST);
    if (w->nvar == RANK_MAX) complain(w->v, s, NULL, "too many loops over threads");
    for (int i = 0; i < w->nvar; i++) w->inside[i] *= extent;
    w->inside[w->nvar] = 1;
    w->var[w->nvar++] = s->var;
    w->threads *= extent;
    const Stmt *first = s->body.n ? s->body.at[0] : NULL;
    if (s->body.n == 1 && first->kind == STMT_FOR && first->mark == LOOP_THREAD)
        verify_thread(w, first);
    else
        verify_inside(w, &s->body);
}

/* Shared arrays, then one loop over blocks or threads. */
static void verify_outside(Walk *w, const Stmts *stmts) {
    for (int i = 0; i + 1 < stmts->n; i++) {
        const Stmt *s = stmts->at[i];
        if (s->kind != STMT_DECL || !is_of_block(w, s))
            complain(w->v, s, NULL, "only shared arrays stand between blocks and threads");
        if (w->nest->buf.at[s->buf].kind == BUF_FRAGMENT)
            verify_fragment_type(w, s);
        else if (s->has_init)
            complain(w->v, s, NULL, "threads store to shared arrays what they hold");
    }
    const Stmt *last = stmts->n ? stmts->at[stmts->n - 1] : NULL;
    bool loop = last && last->kind == STMT_FOR;
    if (loop && last->mark == LOOP_BLOCK && stmts->n == 1) {
        verify_outside(w, &last->body);
    } else if (loop && last->mark == LOOP_THREAD) {
        w->threads = 1;
        verify_thread(w, last);
    } else {
        complain(w->v, last ? (const void *)last : w->nest, NULL,
                 "blocks hold shared arrays and one loop over threads");
    }
}

void verify_threads(Verify *v, const Nest *nest) {
    Walk w = {.v = v, .nest = nest};
    bool threads = has_threads(&nest->body), cpu = !strcmp(nest->on, "cpu");
    if (threads && cpu) complain(v, nest, NULL, "a nest on the CPU has no blocks and threads");
    bool known = !nest->alternates;
    for (int i = 0; i < nest->symbol.n; i++) known |= nest->symbol.at[i].sym == nest->alternates;
    if (!known || (nest->alternates && !cpu))
        complain(v, nest, NULL, "a nest on the CPU alternates by one of its symbols");
    if (nest->serial && (threads || cpu))
        complain(v, nest, NULL, "a serial nest runs in one thread of another machine");
    if (threads)
        verify_outside(&w, &nest->body);
    else
        verify_inside(&w, &nest->body);
}
