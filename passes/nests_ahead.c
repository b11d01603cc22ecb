/* SPDX-License-Identifier: Apache-2.0 */
/* Part of pass `nests`: what the threads of a block do before all else. They ask for rows that
 * later blocks read, which then come to the cache meanwhile, and load what they read of weights,
 * which nobody has to make. */
#include "passes/nests_leaf.h"

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

/* ---- weights ------------------------------------------------------------------------------------
 */

static void load_first(Lowering *lo, const Span *root, Stmts *into) {
    for (int p = 0; p < lo->nplan; p++) {
        Span box[RANK_MAX * 2];
        if (!lo->plan[p].first.n) continue;
        plan_box(lo, p, root, box);
        leaf_loads(lo, p, box, into);
    }
}

void lower_ahead(Lowering *lo, const Span *root, int depth, Stmts *into) {
    for (int i = 0; i < lo->kernel->line.n && lo->thread; i++)
        if (lo->kernel->line.at[i].kind == LINE_PREFETCH)
            ask_ahead(lo, &lo->kernel->line.at[i], root, into);
    if (depth == lo->plan[lo->nplan - 1].tile.n) load_first(lo, root, into);
}
