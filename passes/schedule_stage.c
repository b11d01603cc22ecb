/* SPDX-License-Identifier: Apache-2.0 */
/* Contractions for a machine of blocks of threads that has no step of warps for them.
 *
 * A block computes a tile of the results, each thread 4 by 4 of it in registers, or 8 by 8 where
 * that leaves a tile for every core: neighbours along the dim that is stored innermost (the
 * columns), and along one that the other operand has (the rows). The reduction runs in blocks;
 * before each, the threads copy what the tile needs of both operands to shared memory, so that an
 * operand is fetched once for a tile and not once for a thread. Where a result slides over an
 * operand (a convolution) the copy is the tile with its margin, whatever stands outside the
 * container included.
 *
 * Element-wise maps that read across what they write (transposes) are cut into square tiles, so
 * that a block can fetch what it reads in the order of memory; where the innermost dim is short,
 * the next one belongs to their side. */
#include "passes/schedule.h"

static const int64_t unknown_extent = 64;
enum {
    EACH = 4,
    MANY = 8,
    LANES = 4,
    LEAST_ROWS = 8,
    LEAST_COLUMNS = 16,
    REDUCE_MOST = 32,
    REDUCE_LEAST = 4
};
enum { TRANSPOSE_LEAST = 8 };

typedef struct Tiles {
    Rows *r;
    const Map *map; /* the contraction */
    Contraction roles;
    const int *dims; /* of results: root dims by storage */
    int n;
    int64_t threads[MAP_DIMS], each[MAP_DIMS]; /* by root dim */
    int reduce;                                /* dim of the map that is reduced in blocks */
    int64_t block;
} Tiles;

static int64_t extent_of(const Tiles *t, int d) {
    return map_extent(t->r->root, d, unknown_extent);
}

static DimRole role_of(const Tiles *t, int d) {
    return t->roles.role[t->r->kernel->map.n == 1 ? d : t->r->al.at[0][d]];
}

/* ---- shape ------------------------------------------------------------------------------------
 */

/* Does a map of the kernel write the container (another part of it)? Copies go on beyond what is
 * read, where another block may write. */
static bool written_here(const Rows *r, int cont) {
    for (int p = 0; p < r->kernel->map.n; p++)
        if (map_writes(r->s->flow->map.at[r->kernel->map.at[p]], cont)) return true;
    return false;
}

/* Every read can be staged: of a container of its own, at affine indices, with a constant outside.
 */
static bool can_stage(const Tiles *t) {
    Dim sym[MAP_DIMS], coef[MAP_DIMS], rest;
    const Map *m = t->map;
    for (int d = 0; d < m->dim.n; d++) sym[d] = m->dim.at[d].sym;
    for (int v = 0; v < m->body.val.n; v++) {
        const Val *val = &m->body.val.at[v];
        if (val->kind != VAL_READ) continue;
        if (access_by_value(m, &val->read) || dtype_bits(val->type) < 8) return false;
        if (written_here(t->r, val->read.cont)) return false;
        if (val->has_else && m->body.val.at[val->arg[0]].kind != VAL_CONST) return false;
        for (int w = 0; w < v; w++)
            if (m->body.val.at[w].kind == VAL_READ && m->body.val.at[w].read.cont == val->read.cont)
                return false;
        for (int k = 0; k < val->read.rank; k++)
            if (!dim_affine(t->r->s->flow->ctx, val->read.at[k], sym, m->dim.n, coef, &rest))
                return false;
    }
    return true;
}

static bool has_shape(Tiles *t) {
    const Kernel *kernel = t->r->kernel;
    t->map = t->r->s->flow->map.at[kernel->map.at[0]];
    if (kernel->map.n > 2 || !map_is_reduction(t->map) || t->map->cons.n || t->r->root->cons.n)
        return false;
    if (kernel->map.n == 2 && map_is_reduction(t->r->root)) return false;
    t->roles = map_contraction(t->r->s->flow, t->map);
    return t->roles.is && can_stage(t);
}

/* ---- tiles ------------------------------------------------------------------------------------
 */

/* A power of two: the number of a thread falls into those of rows and columns by its bits. */
static int64_t threads_for(int64_t extent, int64_t each, int64_t most) {
    int64_t n = 1;
    while (n * each < extent && n * 2 <= most) n *= 2;
    return n;
}

/* Elements of a thread along rows and columns: many, where both dims fill such tiles and there is
 * one for every core. */
static int64_t each_of(const Tiles *t, int row, int column) {
    const Machine *m = t->r->s->env->machine;
    double tile = (double)m->block_threads * MANY * MANY;
    int64_t side = MANY * m->warp / 2;
    bool fill = extent_of(t, row) >= side && extent_of(t, column) >= side;
    double results = 1;
    for (int i = 0; i < t->n; i++) results *= (double)extent_of(t, t->dims[i]);
    return fill && results >= tile * m->cores ? MANY : EACH;
}

/* Rows: the longest dim of the other operand. False when there is little to reuse. */
static bool choose_tile(Tiles *t) {
    int column = t->dims[t->n - 1], row = -1, beside = -1;
    DimRole role = role_of(t, column), other = role == ROLE_M ? ROLE_N : ROLE_M;
    if (role != ROLE_M && role != ROLE_N) return false;
    int64_t columns = extent_of(t, column);
    for (int i = 0; i < t->n - 1; i++) {
        int d = t->dims[i];
        if (role_of(t, d) == other && (row < 0 || extent_of(t, d) > extent_of(t, row))) row = d;
        if (role_of(t, d) == role) beside = d;
    }
    if (beside >= 0) columns *= extent_of(t, beside);
    if (row < 0 || extent_of(t, row) < LEAST_ROWS || columns < LEAST_COLUMNS) return false;
    int64_t each = each_of(t, row, column), side = 1, most = t->r->s->env->machine->block_threads;
    while (side * side < most) side *= 2;
    for (int i = 0; i < t->n; i++) t->threads[t->dims[i]] = t->each[t->dims[i]] = 1;
    t->each[column] = t->each[row] = each;
    t->threads[column] = threads_for(extent_of(t, column), each, side);
    if (beside >= 0)
        t->threads[beside] = threads_for(extent_of(t, beside), 1, side / t->threads[column]);
    int64_t taken = t->threads[column] * (beside < 0 ? 1 : t->threads[beside]);
    t->threads[row] = threads_for(extent_of(t, row), each, most / taken);
    return true;
}

/* ---- blocks of the reduction ------------------------------------------------------------------
 */

typedef struct Corner {
    const Tiles *t;
    int64_t last[MAP_DIMS]; /* by dim of the map: of a tile */
    bool far;
} Corner;

static bool corner_value(void *user, Dim sym, int64_t *value) {
    const Corner *c = user;
    *value = 0;
    for (int d = 0; d < c->t->map->dim.n; d++)
        if (c->t->map->dim.at[d].sym == sym && c->far) *value = c->last[d];
    return true;
}

/* Bytes that the reads reach into while dims go from 0 to `last`. */
static int64_t staged_bytes(Corner *c) {
    const Map *m = c->t->map;
    int64_t bytes = 0;
    for (int v = 0; v < m->body.val.n; v++) {
        const Val *val = &m->body.val.at[v];
        if (val->kind != VAL_READ) continue;
        int64_t count = 1, first, last;
        for (int k = 0; k < val->read.rank; k++) {
            c->far = false;
            if (!dim_eval(val->read.at[k], corner_value, c, &first)) return INT64_MAX;
            c->far = true;
            if (!dim_eval(val->read.at[k], corner_value, c, &last)) return INT64_MAX;
            count *= (last > first ? last - first : first - last) + 1;
        }
        bytes += dtype_bytes(val->type, count);
    }
    return bytes;
}

/* Does the reduced dim run along indices that other results of a tile begin elsewhere in? */
static bool slides_in_tile(const Tiles *t, int d) {
    const Map *m = t->map;
    for (int v = 0; v < m->body.val.n; v++) {
        const Val *val = &m->body.val.at[v];
        for (int k = 0; val->kind == VAL_READ && k < val->read.rank; k++) {
            if (!dim_uses(val->read.at[k], m->dim.at[d].sym)) continue;
            for (int i = 0; i < t->n; i++) {
                int own = t->r->kernel->map.n == 1 ? t->dims[i] : t->r->al.at[0][t->dims[i]];
                bool one = t->threads[t->dims[i]] * t->each[t->dims[i]] == 1;
                if (!one && dim_uses(val->read.at[k], m->dim.at[own].sym)) return true;
            }
        }
    }
    return false;
}

/* The longest reduced dim that no result slides along, in blocks as long as they fit. */
static bool choose_reduction(Tiles *t) {
    Corner c = {.t = t};
    t->reduce = -1;
    for (int d = 0; d < t->map->dim.n; d++) {
        int64_t extent = map_extent(t->map, d, -1);
        if (!map_reduces(t->map, d)) continue;
        c.last[d] = extent - 1;
        if (t->roles.role[d] != ROLE_K && slides_in_tile(t, d)) {
            if (extent < 0) return false;
            continue;
        }
        bool longer =
            t->reduce < 0 || extent < 0 || extent > map_extent(t->map, t->reduce, INT64_MAX);
        if (longer) t->reduce = d;
    }
    if (t->reduce < 0) return false;
    for (int i = 0; i < t->n; i++) {
        int d = t->dims[i], own = t->r->kernel->map.n == 1 ? d : t->r->al.at[0][d];
        c.last[own] = t->threads[d] * t->each[d] - 1;
    }
    for (int d = 0; d < t->map->dim.n; d++)
        if (c.last[d] < 0 && d != t->reduce) return false;
    int64_t room = t->r->s->env->machine->shared_bytes / 2;
    for (t->block = REDUCE_MOST; t->block >= REDUCE_LEAST; t->block /= 2) {
        c.last[t->reduce] = t->block - 1;
        if (staged_bytes(&c) <= room) break;
    }
    int64_t extent = map_extent(t->map, t->reduce, REDUCE_MOST);
    bool fits = t->block >= REDUCE_LEAST;
    if (extent < t->block) t->block = extent;
    return fits && t->block > 0;
}

/* ---- lines ------------------------------------------------------------------------------------
 */

static void tile_lines(const Tiles *t, LineKind kind) {
    const Rows *r = t->r;
    int root = r->kernel->map.n - 1;
    Line *tile = kernel_line(r->s->flow, r->kernel, LINE_TILE, root);
    for (int i = 0; i < t->n; i++) {
        int d = t->dims[i];
        int64_t size = kind == LINE_BLOCK ? t->threads[d] * t->each[d] : t->each[d];
        line_dim(r->s->flow, tile, r->root, d, size);
    }
    Line *spread = kernel_line(r->s->flow, r->kernel, kind, root);
    for (int i = 0; i < t->n; i++) line_dim(r->s->flow, spread, r->root, t->dims[i], 0);
}

static void reduce_line(const Tiles *t) {
    const Rows *r = t->r;
    Line *line = kernel_line(r->s->flow, r->kernel, LINE_REDUCE, 0);
    line_dim(r->s->flow, line, t->map, t->reduce, t->block);
    line_dim(r->s->flow, line, t->map, t->reduce, 0);
    for (int d = 0; d < t->map->dim.n; d++)
        if (map_reduces(t->map, d) && d != t->reduce) line_dim(r->s->flow, line, t->map, d, 0);
}

/* A thread's tile: rows unrolled, columns in lanes. */
static void register_lines(const Tiles *t, int pos) {
    const Rows *r = t->r;
    const Map *m = r->s->flow->map.at[r->kernel->map.at[pos]];
    Line *unroll = kernel_line(r->s->flow, r->kernel, LINE_UNROLL, pos);
    for (int i = 0; i < t->n; i++) {
        int d = t->dims[i], own = m == r->root ? d : r->al.at[pos][d];
        if (t->each[d] > 1) line_dim(r->s->flow, unroll, m, own, 0);
    }
    int column = t->dims[t->n - 1], own = m == r->root ? column : r->al.at[pos][column];
    Line *vector = kernel_line(r->s->flow, r->kernel, LINE_VECTOR, pos);
    line_dim(r->s->flow, vector, m, own, LANES);
}

/* ---- transposes -------------------------------------------------------------------------------
 */

/* A dim next to the innermost of the results, where a warp has room for two indices of it: groups
 * of channels; or -1. */
static int dim_beside(const Tiles *t) {
    int warp = t->r->s->env->machine->warp;
    return t->n > 1 && 2 * extent_of(t, t->dims[t->n - 1]) <= warp ? t->dims[t->n - 2] : -1;
}

/* The dim along which a read goes through memory side by side, when that is not the innermost of
 * the results and the read can be staged; else -1. */
static int transposed_dim(const Tiles *t, const Val *val) {
    const Flow *flow = t->r->s->flow;
    const Map *m = t->map;
    int warp = t->r->s->env->machine->warp, inner = t->dims[t->n - 1], beside = dim_beside(t);
    int64_t columns = extent_of(t, inner) * (beside < 0 ? 1 : extent_of(t, beside));
    if (val->kind != VAL_READ || access_by_value(m, &val->read) || dtype_bits(val->type) < 8 ||
        val->has_else)
        return -1;
    int64_t step = access_stride(flow, m, &val->read, inner, warp);
    if (step == 0 || step == 1 || step == INT64_MAX || columns < TRANSPOSE_LEAST) return -1;
    for (int i = 0; i < t->n - 1; i++)
        if (t->dims[i] != beside && access_stride(flow, m, &val->read, t->dims[i], warp) == 1 &&
            extent_of(t, t->dims[i]) >= TRANSPOSE_LEAST)
            return t->dims[i];
    return -1;
}

/* The one read of its container? */
static bool only_read(const Map *m, int read) {
    int n = 0;
    for (int v = 0; v < m->body.val.n; v++)
        n += m->body.val.at[v].kind == VAL_READ &&
             m->body.val.at[v].read.cont == m->body.val.at[read].read.cont;
    return n == 1;
}

bool stage_transposed(Rows *r, const int *dims, int n) {
    Tiles t = {.r = r, .map = r->root, .dims = dims, .n = n};
    const Machine *machine = r->s->env->machine;
    int read = -1, other = -1;
    if (r->kernel->map.n != 1 || map_is_reduction(t.map) || t.map->cons.n) return false;
    for (int v = 0; v < t.map->body.val.n && other < 0; v++) {
        other = transposed_dim(&t, &t.map->body.val.at[v]);
        read = v;
    }
    if (other < 0 || !only_read(t.map, read)) return false;
    int64_t side = 2 * machine->warp;
    bool words = dtype_bits(t.map->body.val.at[read].type) >= 32;
    if (words || extent_of(&t, dims[n - 1]) < side || extent_of(&t, other) < side) side /= 2;
    for (int i = 0; i < n; i++) t.threads[dims[i]] = t.each[dims[i]] = 1;
    int beside = dim_beside(&t);
    int64_t taken = beside < 0 ? side : extent_of(&t, dims[n - 1]);
    t.threads[dims[n - 1]] = taken;
    if (beside >= 0) {
        t.threads[beside] = threads_for(extent_of(&t, beside), 1, side / taken);
        taken *= t.threads[beside];
    }
    t.threads[other] = threads_for(side, 1, machine->block_threads / taken);
    t.each[other] = side / t.threads[other];
    tile_lines(&t, LINE_BLOCK);
    tile_lines(&t, LINE_THREAD);
    line_dim(r->s->flow, kernel_line(r->s->flow, r->kernel, LINE_UNROLL, 0), t.map, other, 0);
    kernel_line(r->s->flow, r->kernel, LINE_STAGE, 0)->cont = t.map->body.val.at[read].read.cont;
    return true;
}

bool stage_tiles(Rows *r, const int *dims, int n) {
    Tiles t = {.r = r, .dims = dims, .n = n};
    if (!has_shape(&t) || !choose_tile(&t) || !choose_reduction(&t)) return false;
    tile_lines(&t, LINE_BLOCK);
    tile_lines(&t, LINE_THREAD);
    reduce_line(&t);
    for (int p = 0; p < r->kernel->map.n; p++) register_lines(&t, p);
    for (int v = 0; v < t.map->body.val.n; v++)
        if (t.map->body.val.at[v].kind == VAL_READ)
            kernel_line(r->s->flow, r->kernel, LINE_STAGE, 0)->cont =
                t.map->body.val.at[v].read.cont;
    keep_in_registers(r);
    return true;
}
