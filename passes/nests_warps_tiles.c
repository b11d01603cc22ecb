/* SPDX-License-Identifier: Apache-2.0 */
/* Which tile of a product each block has: one, or, where blocks stay, one of each round, whose
 * first blocks of the reduction are copied while results of the tile ahead are stored. */
#include "passes/nests_warps.h"

enum { BAND = 8 };

int warps_own(const Warps *w, int d) {
    const Map *m = w->plan->map, *root = w->root->map;
    const Access *to = &m->write.at[0].to[0];
    if (m == root) return d;
    for (int v = 0; v < root->body.val.n; v++) {
        const Val *val = &root->body.val.at[v];
        if (val->kind != VAL_READ || val->read.cont != to->cont) continue;
        for (int k = 0; k < to->rank; k++)
            for (int i = 0; i < m->dim.n && val->read.at[k] == root->dim.at[d].sym; i++)
                if (to->at[k] == m->dim.at[i].sym) return i;
    }
    return -1;
}

static bool is_joined(const JoinedDims *j, int d) {
    for (int i = 0; i < j->n; i++)
        if (j->dim[i] == d) return true;
    return false;
}

static Dim tile_count(const Warps *w, const JoinedDims *j) {
    Dim all = warps_total(w, w->root->map, j), size = warps_const(w, j->block);
    bool full = dim_is(lowering_simplify(w->lo, dim_mod(w->lo->ctx, all, size)), 0);
    w->lo->over[j->dim[0]] = !full;
    return warps_blocks(w, all, j->block);
}

Dim warps_tiles(const Warps *w, const char *name, const JoinedDims *j, Stmts **into) {
    return times(w, warps_open(w, name, tile_count(w, j), LOOP_BLOCK, into), j->block);
}

/* ---- blocks that stay -------------------------------------------------------------------------
 */

/* As many blocks as a round has tiles: the tile of this block in round `turn`. */
static void set_turn(Warps *w, Dim turn) {
    const JoinedDims *rows = &w->root->rows, *columns = &w->root->columns;
    Lowering *lo = w->lo;
    Dim right = warps_const(w, w->rounds_right);
    Dim down = lowering_simplify(lo, dim_div(lo->ctx, turn, right));
    Dim along = lowering_simplify(lo, dim_mod(lo->ctx, turn, right));
    w->a.first = sum(w, times(w, down, rows->round), times(w, w->own_row, rows->block));
    w->b.first = sum(w, times(w, along, columns->round), times(w, w->own_column, columns->block));
}

static void open_round(Warps *w, Dim down, Dim right, Stmts **into) {
    const JoinedDims *rows = &w->root->rows, *columns = &w->root->columns;
    int64_t tiles_down = 0, tiles_right = 0, rows_of = rows->round / rows->block,
            columns_of = columns->round / columns->block;
    bool known = dim_is_const(down, &tiles_down) && dim_is_const(right, &tiles_right);
    if (!known || tiles_down % rows_of || tiles_right % columns_of || w->lo->over[rows->dim[0]] ||
        w->lo->over[columns->dim[0]])
        fail(w->lo->ctx, E_UNSUPPORTED,
             "kernel \"%s\" has no rows and columns of whole rounds of its blocks",
             w->lo->kernel->name);
    w->rounds_right = tiles_right / columns_of;
    w->rounds = tiles_down / rows_of * w->rounds_right;
    w->own_column = warps_open(w, "column", warps_const(w, columns_of), LOOP_BLOCK, into);
    w->own_row = warps_open(w, "row", warps_const(w, rows_of), LOOP_BLOCK, into);
    set_turn(w, warps_const(w, 0));
}

void warps_stay(Warps *w, Stmts **into) {
    Lowering *lo = w->lo;
    if (w->rounds < 2) return;
    for (int i = 0; i < w->plan->ahead; i++) {
        warps_begin(w, i, *into);
        nest_stmt(lo->nest, *into, STMT_COMMIT);
    }
    w->turn_range = lo->env.n;
    w->turn = lowering_var(lo, "turn", warps_const(w, w->rounds));
    *into = &nest_for(lo->nest, *into, w->turn, warps_const(w, w->rounds), LOOP_SEQ)->body;
    set_turn(w, w->turn);
}

/* The slots are free once all threads are behind their steps, and no copy is under way. */
void warps_next(Warps *w, Stmts *into) {
    Lowering *lo = w->lo;
    if (w->rounds < 2) return;
    Dim last = lo->env.at[w->turn_range].hi, before = warps_const(w, w->rounds - 2);
    nest_stmt(lo->nest, into, STMT_WAIT);
    nest_stmt(lo->nest, into, STMT_SYNC);
    lo->env.at[w->turn_range].hi = before;
    set_turn(w, dim_addc(lo->ctx, w->turn, 1));
    for (int i = 0; i < w->plan->ahead; i++) {
        Stmt *more = nest_if(lo->nest, into);
        vec_push(lo->arena, &more->guard, dim_sub(lo->ctx, before, w->turn));
        warps_begin(w, i, &more->body);
        nest_stmt(lo->nest, into, STMT_COMMIT);
    }
    lo->env.at[w->turn_range].hi = last;
    set_turn(w, w->turn);
}

/* ---- all blocks -------------------------------------------------------------------------------
 */

/* Blocks that run at a time are of a few rows and columns of tiles, as near a square as may be, so
 * that what one fetches is in a cache for the others: a band of rows, column after column. */
static void open_tiles(Warps *w, Stmts **into) {
    const JoinedDims *rows = &w->root->rows, *columns = &w->root->columns;
    Dim down = tile_count(w, rows), right = tile_count(w, columns);
    if (rows->round) {
        open_round(w, down, right, into);
        return;
    }
    Dim bands = warps_const(w, 1), band = warps_const(w, BAND);
    if (dim_divides(w->lo->ctx, down, band, &bands))
        down = band;
    else
        bands = warps_const(w, 1);
    Dim b = warps_open(w, "band", bands, LOOP_BLOCK, into);
    Dim j = warps_open(w, "column", right, LOOP_BLOCK, into);
    Dim i = warps_open(w, "row", down, LOOP_BLOCK, into);
    w->a.first = times(w, sum(w, times(w, b, BAND), i), rows->block);
    w->b.first = times(w, j, columns->block);
}

void warps_grid(Warps *w, Stmts **into) {
    const Map *root = w->root->map;
    for (int d = 0; d < root->dim.n; d++) {
        w->own[d] = warps_own(w, d);
        w->fixed[d] = warps_const(w, 0);
        if (is_joined(&w->root->rows, d) || is_joined(&w->root->columns, d)) continue;
        if (map_reduces(root, d)) continue;
        const MapDim *dim = &root->dim.at[d];
        w->fixed[d] = warps_open(w, dim_sym_name(dim->sym), dim->extent, LOOP_BLOCK, into);
    }
    open_tiles(w, into);
}
