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

/* ---- rows of later blocks ---------------------------------------------------------------------
 */

/* What a request brings at least, and at most. */
enum { SECTOR_BITS = 256, LINE_BITS = 1024 };

/* Bits from one request to the next: so few that each thread has one, if that is enough. */
static int64_t request_bits(int64_t row, int64_t threads) {
    int64_t bits = SECTOR_BITS;
    while (bits < LINE_BITS && (row < 0 || bits * threads < row)) bits *= 2;
    return bits;
}

/* `d` >= 0, unless it always is. */
static void add_guard(Lowering *lo, Stmt **guard, Dim d, Stmts **into) {
    DimEnv env = lowering_env(lo);
    if (dim_ge0(lo->ctx, d, &env)) return;
    if (!*guard) {
        *guard = nest_if(lo->nest, *into);
        *into = &(*guard)->body;
    }
    vec_push(lo->arena, &(*guard)->guard, d);
}

/* All threads of the block, each its part of the row that begins at the values of the map's dims.
 */
static void ask_for_row(Leaf *f, const Access *read, Stmts *into) {
    enum { FEW = 8 };
    Lowering *lo = f->lo;
    int lane = f->plan->lane_dim, mark = lo->env.n;
    const Span *row = &f->span[lane];
    int64_t threads = f->plan->spread, bits = dtype_bits(lo->flow->cont.at[read->cont].type), n;
    int64_t each = request_bits(row->cap < 0 ? -1 : row->cap * bits, threads) / bits;
    Dim all = dim_const(lo->ctx, each * threads), at = dim_mulc(lo->ctx, lo->thread, each);
    Dim count = lowering_simplify(lo, dim_ceildiv(lo->ctx, row->extent, all));
    if (!dim_is(count, 1)) {
        bool few = dim_is_const(count, &n) && n <= FEW;
        Dim var = lowering_var(lo, dim_sym_name(f->map->dim.at[lane].sym), count);
        into = &nest_for(lo->nest, into, var, count, few ? LOOP_UNROLL : LOOP_SEQ)->body;
        at = dim_add(lo->ctx, at, dim_mul(lo->ctx, var, all));
    }
    Stmt *guard = NULL;
    add_guard(lo, &guard, dim_sub(lo->ctx, dim_addc(lo->ctx, row->extent, -1), at), &into);
    f->value[lane] = dim_add(lo->ctx, row->start, at);
    nest_stmt(lo->nest, into, STMT_PREFETCH)->at = storage_access(f, read, false);
    lo->env.n = mark;
}

/* Indices that a block has of the root's dim which is dim d of the map at `pos`; 0: blocks do not
 * go along it. */
static int64_t block_size(const Lowering *lo, int pos, int d) {
    const TileLoops *tile = &lo->plan[lo->nplan - 1].tile;
    int64_t size = 0;
    for (int t = 0; t < tile->n; t++)
        if (tile->at[t].mark == LOOP_BLOCK && lo->al.at[pos][tile->at[t].dim] == d)
            size = tile->at[t].size;
    return size;
}

/* `M prefetch C M.d:n`: what M reads of C in the n-th block from this one on, if there is one. */
static void ask_ahead(Lowering *lo, const Line *line, const Span *root, Stmts *into) {
    const MapPlan *plan = &lo->plan[line->map];
    Leaf f = {.plan = plan, .map = plan->map, .lo = lo};
    int ahead = line->narg ? plan_dim(plan, line->arg[0].dim) : -1;
    int64_t size = ahead < 0 ? 0 : block_size(lo, line->map, ahead);
    bool block[RANK_MAX * 2];
    if (!size || !plan->spread || plan->groups || lo->keep[line->cont] != KEEP_ARENA) return;
    for (int d = 0; d < plan->map->dim.n; d++) block[d] = block_size(lo, line->map, d) > 0;
    const Val *val = access_row(lo->flow, plan->map, line->cont, plan->lane_dim, block);
    if (!val) return;
    plan_box(lo, line->map, root, f.span);
    for (int d = 0; d < plan->map->dim.n; d++) f.value[d] = f.span[d].start;
    f.value[ahead] = dim_addc(lo->ctx, f.value[ahead], size * line->arg[0].size);
    Dim last = dim_addc(lo->ctx, plan->map->dim.at[ahead].extent, -1);
    Stmt *guard = NULL;
    add_guard(lo, &guard, lowering_simplify(lo, dim_sub(lo->ctx, last, f.value[ahead])), &into);
    ask_for_row(&f, &val->read, into);
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
    for (int i = 0; i < lo->kernel->line.n && lo->thread; i++)
        if (lo->kernel->line.at[i].kind == LINE_PREFETCH)
            ask_ahead(lo, &lo->kernel->line.at[i], span, open.into);
    lower_depth(lo, depth, span, open.into);
    for (int i = 0; i < lo->shared.n; i++) vec_push(lo->arena, open.outside, lo->shared.at[i]);
    for (int i = 0; i < open.threads.n; i++) vec_push(lo->arena, open.outside, open.threads.at[i]);
}

/* ---- threads that share lanes -----------------------------------------------------------------
 */

Stmts *one_thread(Lowering *lo, Stmts *into) {
    Dim number = lo->parts ? lo->part : lo->thread;
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
