/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels for machines of blocks: the loops that are spread over blocks and threads, in one of two
 * ways.
 *
 * Threads own tiles: tile loops of the root marked `block`, and inside them `thread`, are opened in
 * front; each thread runs all maps of the kernel on its own tile, behind one guard where blocks do
 * not divide a dim. Threads share lanes: `block` loops go over indices that the maps have in
 * common, and within a block each map's lane dim runs over the threads, as it would over the lanes
 * of a vector; what a map reduces over them is folded, what it hands on by memory waits for a
 * barrier. */
#include "passes/nests_leaf.h"

/* Open loops, and where the declarations of shared arrays belong. */
typedef struct Open {
    Stmts *outside; /* of the threads: statements of a block */
    Stmts threads;  /* the loop over threads, appended to these at the end */
    Stmts *into;
} Open;

static Dim open_loop(Lowering *lo, Open *open, int dim, Dim count, LoopMark mark) {
    const Map *root = lo->plan[lo->nplan - 1].map;
    Dim var = lowering_var(lo, dim_sym_name(root->dim.at[dim].sym), count);
    open->into = &nest_for(lo->nest, open->into, var, count, mark)->body;
    if (mark == LOOP_BLOCK) open->outside = open->into;
    return var;
}

/* Blocks take whole tiles; what hangs over is cut off by the threads' guards. */
static void open_blocks(Lowering *lo, Open *open, Span *span, int *depth) {
    const MapPlan *plan = &lo->plan[lo->nplan - 1];
    for (; *depth < plan->tile.n && plan->tile.at[*depth].mark == LOOP_BLOCK; ++*depth) {
        const TileLoop *t = &plan->tile.at[*depth];
        Span *s = &span[t->dim];
        Dim size = dim_const(lo->ctx, t->size);
        Dim count = lowering_simplify(lo, dim_ceildiv(lo->ctx, s->extent, size));
        Dim start = s->start;
        if (!dim_is(count, 1))
            start = dim_mulc(lo->ctx, open_loop(lo, open, t->dim, count, LOOP_BLOCK), t->size);
        *s = (Span){start, size, t->size};
    }
}

/* What is left of a dim from the start of the thread's tile. */
static Dim rest_of(Lowering *lo, const Span *s, const Span *whole) {
    return dim_sub(lo->ctx, dim_add(lo->ctx, whole->start, whole->extent), s->start);
}

static bool hangs_over(Lowering *lo, const Span *s, const Span *whole) {
    DimEnv env = lowering_env(lo);
    return !dim_ge0(lo->ctx, dim_sub(lo->ctx, rest_of(lo, s, whole), s->extent), &env);
}

/* The guard of what hangs over, for the thread's tile at `s`. */
static void guard_tile(Lowering *lo, Span *s, const Span *whole, Stmt **guard) {
    Dim rest = rest_of(lo, s, whole);
    if (!hangs_over(lo, s, whole)) return;
    Dim over = lowering_simplify(lo, dim_mod(lo->ctx, whole->extent, s->extent));
    if (!*guard) {
        *guard = NEW(lo->arena, Stmt);
        (*guard)->kind = STMT_IF;
    }
    vec_push(lo->arena, &(*guard)->guard, dim_addc(lo->ctx, rest, -1));
    if (!dim_is(over, 0)) s->extent = dim_min(lo->ctx, s->extent, rest);
}

static void open_threads(Lowering *lo, Open *open, Span *span, const Span *whole, int *depth) {
    const MapPlan *plan = &lo->plan[lo->nplan - 1];
    Stmt *guard = NULL;
    open->into = &open->threads;
    int first = *depth;
    lo->number = dim_const(lo->ctx, 0);
    lo->ncopying = 1;
    if (lo->parts) {
        Dim count = dim_const(lo->ctx, lo->parts);
        lo->part = lowering_var(lo, "part", count);
        open->into = &nest_for(lo->nest, open->into, lo->part, count, LOOP_THREAD)->body;
    }
    for (; *depth < plan->tile.n && plan->tile.at[*depth].mark == LOOP_THREAD; ++*depth) {
        const TileLoop *t = &plan->tile.at[*depth];
        Span *s = &span[t->dim];
        Dim count = dim_const(lo->ctx, (s->cap + t->size - 1) / t->size);
        Dim var = open_loop(lo, open, t->dim, count, LOOP_THREAD);
        int64_t threads = (s->cap + t->size - 1) / t->size;
        lo->number = dim_add(lo->ctx, dim_mulc(lo->ctx, lo->number, threads), var);
        lo->ncopying *= (int)threads;
        s->start = dim_add(lo->ctx, s->start, dim_mulc(lo->ctx, var, t->size));
        s->extent = dim_const(lo->ctx, t->size);
        s->cap = t->size;
    }
    if (lo->threads) {
        Dim count = dim_const(lo->ctx, lo->threads);
        lo->thread = lowering_var(lo, "t", count);
        open->into = &nest_for(lo->nest, open->into, lo->thread, count, LOOP_THREAD)->body;
    }
    for (int k = first; k < *depth; k++) {
        int d = plan->tile.at[k].dim;
        if (lo->staged)
            lo->over[d] = hangs_over(lo, &span[d], &whole[d]);
        else
            guard_tile(lo, &span[d], &whole[d], &guard);
    }
    if (!guard) return;
    if (lo->parts) {
        for (int i = 0; i < guard->guard.n; i++) vec_push(lo->arena, &lo->mine, guard->guard.at[i]);
        return;
    }
    vec_push(lo->arena, open->into, guard);
    open->into = &guard->body;
}

void lower_blocks(Lowering *lo, const Span *root) {
    Open open = {.outside = &lo->nest->body, .into = &lo->nest->body};
    Span span[RANK_MAX * 2];
    int depth = 0;
    for (int d = 0; d < RANK_MAX * 2; d++) span[d] = root[d];
    open_blocks(lo, &open, span, &depth);
    for (int d = 0; d < RANK_MAX * 2; d++) lo->block[d] = span[d];
    open_threads(lo, &open, span, root, &depth);
    lo->ninside = lo->env.n;
    lower_ahead(lo, span, depth, open.into);
    lower_depth(lo, depth, span, open.into);
    for (int i = 0; i < lo->shared.n; i++) vec_push(lo->arena, open.outside, lo->shared.at[i]);
    for (int i = 0; i < open.threads.n; i++) vec_push(lo->arena, open.outside, open.threads.at[i]);
}

/* ---- threads that share lanes -----------------------------------------------------------------
 */

Stmts *one_thread(Lowering *lo, Stmts *into) {
    Dim number = lo->parts ? lo->part : lo->alike ? lo->alike : lo->thread;
    if (!number) return into;
    Stmt *first = nest_if(lo->nest, into);
    vec_push(lo->arena, &first->guard, dim_mulc(lo->ctx, number, -1));
    for (int i = 0; i < lo->mine.n; i++) vec_push(lo->arena, &first->guard, lo->mine.at[i]);
    return &first->body;
}

void meet(Lowering *lo, Stmts *into) {
    if (lo->thread) nest_stmt(lo->nest, into, STMT_SYNC);
}

static void copy_states(Lowering *lo, const Fold *fold, const Access *to, const Access *from,
                        Stmts *into) {
    Stmt *s = nest_body(lo->nest, into);
    s->from = fold->from;
    for (int k = 0; k < fold->combine->nstate; k++) {
        Store store = {to[k], body_read(&s->code, from[k], fold->combine->type[k])};
        vec_push(lo->arena, &s->store, store);
    }
}

static void fold_stmt(Lowering *lo, const Fold *fold, int lanes, const Access *src, Stmts *into) {
    Stmt *s = nest_stmt(lo->nest, into, STMT_FOLD);
    s->threads = true;
    s->combine = fold->combine;
    s->lanes = lanes;
    s->src = src;
    s->dst = fold->dst;
    s->from = fold->from;
}

/* Warps fold among themselves; with several, the first thread of each puts its result where all
 * threads read the results of all warps, which they fold alike. */
void fold_threads(Lowering *lo, const Fold *fold, Stmts *into) {
    enum { WARP = 32 };
    int n = fold->combine->nstate, warps = fold->lanes / WARP;
    fold_stmt(lo, fold, warps ? WARP : fold->lanes, fold->src, into);
    if (warps < 2) return;
    Dim warp = dim_const(lo->ctx, WARP), all = dim_const(lo->ctx, warps);
    Dim mine = dim_div(lo->ctx, lo->thread, warp), other = dim_mod(lo->ctx, lo->thread, all);
    Access *to = NEW_ARRAY(lo->arena, Access, n), *from = NEW_ARRAY(lo->arena, Access, n);
    for (int k = 0; k < n; k++) {
        const char *name = internf(lo->ctx, "warps.%d", lo->fresh++);
        int buf = nest_buf(lo->nest, name, BUF_SHARED, fold->combine->type[k], &all, 1);
        nest_decl(lo->nest, &lo->shared, buf);
        to[k] = (Access){buf, 1, arena_copy(lo->arena, &mine, sizeof mine)};
        from[k] = (Access){buf, 1, arena_copy(lo->arena, &other, sizeof other)};
    }
    Stmt *first = nest_if(lo->nest, into);
    vec_push(lo->arena, &first->guard, dim_mulc(lo->ctx, dim_mod(lo->ctx, lo->thread, warp), -1));
    copy_states(lo, fold, to, fold->dst, &first->body);
    meet(lo, into);
    copy_states(lo, fold, fold->dst, from, into);
    fold_stmt(lo, fold, warps, fold->dst, into);
    if (lo->env.n > lo->ninside) meet(lo, into);
}
