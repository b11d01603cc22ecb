/* SPDX-License-Identifier: Apache-2.0 */
/* Products of one row behind the maps that make it (fuse_prologue.c): a block takes some results.
 *
 * All its threads make the row, each map in turn along its one dim, and leave it in shared memory;
 * groups of them then take a result each, the threads of a group parts of its sum, and neighbours
 * what comes behind the sums. */
#include "passes/schedule.h"

/* THREADS of a block; RESULTS that it has at most; BLOCKS for each core that make the row, at most,
 * and above which blocks take more results. */
enum { THREADS = 256, RESULTS = 64, BLOCKS_MOST = 4, BLOCKS = 2 };
/* Steps along a row that are written out at most; elements of a row that a thread reduces where
 * each warp does it. */
enum { WRITTEN_OUT = 8, WARP_EACH = 32 };

static const Map *map_at(const Rows *r, int pos) {
    return r->s->flow->map.at[r->kernel->map.at[pos]];
}

static const Machine *machine_of(const Rows *r) {
    return r->s->env->machine;
}

/* Threads that share a sum of so many terms. */
static int64_t group_threads(const Machine *machine, int64_t terms) {
    int64_t threads = 2;
    while (threads < machine->warp && threads * machine->vector_bytes < terms) threads *= 2;
    return threads;
}

int64_t prologue_columns(const Machine *machine, const Map *m, int *result, int *reduced) {
    *result = *reduced = -1;
    if (!map_is_reduction(m) || m->write.n != 1) return 0;
    for (int d = 0; d < m->dim.n; d++) {
        int *which = map_reduces(m, d) ? reduced : result;
        if (dim_is(m->dim.at[d].extent, 1)) continue;
        if (*which >= 0) return 0;
        *which = d;
    }
    if (*result < 0 || *reduced < 0 || !folds(m, *reduced)) return 0;
    int64_t results = map_extent(m, *result, -1), terms = map_extent(m, *reduced, -1);
    if (results < 0 || terms < 0) return 0;
    int64_t size = THREADS / group_threads(machine, terms);
    while (size < RESULTS && results > size * BLOCKS * machine->cores) size *= 2;
    bool few = results <= size * BLOCKS_MOST * machine->cores;
    return few && results % size == 0 ? size : 0;
}

/* The dim of a map of the prologue that has more than one index; -1: none; -2: several. */
static int only_dim(const Map *m) {
    int only = -1;
    for (int d = 0; d < m->dim.n; d++) {
        if (dim_is(m->dim.at[d].extent, 1)) continue;
        if (only >= 0) return -2;
        only = d;
    }
    return only;
}

/* Neighbours that a thread takes along the dim: as many as one instruction fetches, while half of
 * the threads have some. */
static int64_t lanes_along(const Rows *r, const Map *m, int dim, int64_t threads) {
    int64_t lanes = 8 * machine_of(r)->vector_bytes / widest(r, m, dim);
    int64_t extent = map_extent(m, dim, 1);
    while (lanes > 1 && lanes * threads / 2 >= extent) lanes /= 2;
    return row_lanes(r, m, dim, lanes);
}

/* All threads go along a map in front, but each warp along what is reduced and not long: then none
 * waits for others. */
static int64_t prologue_threads(const Rows *r, const Map *m, int dim) {
    int64_t warp = machine_of(r)->warp;
    bool alone = map_reduces(m, dim) && map_extent(m, dim, INT64_MAX) <= warp * WARP_EACH;
    return alone ? warp : THREADS;
}

static bool is_written_out(const Map *m, int dim, int64_t threads, int64_t lanes) {
    return map_extent(m, dim, INT64_MAX) <= threads * lanes * WRITTEN_OUT;
}

static void at_line(Rows *r, int pos, int root_dim) {
    if (pos == r->kernel->map.n - 1) return;
    Line *at = kernel_line(r->s->flow, r->kernel, LINE_AT, pos);
    line_dim(r->s->flow, at, r->root, root_dim, 0);
}

/* A map in front, along its dim. */
static void prologue_lines(Rows *r, int pos, int root_dim) {
    Flow *flow = r->s->flow;
    const Map *m = map_at(r, pos);
    int dim = only_dim(m);
    if (dim >= 0) {
        int64_t threads = prologue_threads(r, m, dim), lanes = lanes_along(r, m, dim, threads);
        line_dim(flow, kernel_line(flow, r->kernel, LINE_THREAD, pos), m, dim, threads);
        bool all = is_written_out(m, dim, threads, lanes);
        along_lines(r, pos, dim, lanes, all);
        if (all) first_lines(r, pos, (map_extent(m, dim, 1) + threads - 1) / threads);
    }
    at_line(r, pos, root_dim);
}

static void product_lines(Rows *r, int pos, int64_t block, int root_dim) {
    int result, reduced;
    Flow *flow = r->s->flow;
    const Map *m = map_at(r, pos);
    prologue_columns(machine_of(r), m, &result, &reduced);
    int64_t group = group_threads(machine_of(r), map_extent(m, reduced, 1));
    int64_t lanes = 8 * machine_of(r)->vector_bytes / widest(r, m, reduced);
    Line *threads = kernel_line(flow, r->kernel, LINE_THREAD, pos);
    line_dim(flow, threads, m, result, THREADS / group);
    line_dim(flow, threads, m, reduced, group);
    while (lanes > 1 && lanes * group > map_extent(m, reduced, 1)) lanes /= 2;
    lanes = row_lanes(r, m, reduced, lanes);
    along_lines(r, pos, reduced, lanes, is_written_out(m, reduced, group, lanes));
    if (block / (THREADS / group) <= WRITTEN_OUT / 2)
        line_dim(flow, kernel_line(flow, r->kernel, LINE_UNROLL, pos), m, result, 0);
    first_lines(r, pos, block / (THREADS / group) * (map_extent(m, reduced, 1) / group));
    at_line(r, pos, root_dim);
}

/* What is handed on: single numbers in registers, rows in shared memory. */
static void keep_lines(Rows *r) {
    for (int p = 0; p < r->kernel->map.n - 1; p++) {
        const Write *w = &map_at(r, p)->write.at[0];
        int dim = only_dim(map_at(r, p));
        bool number = dim == -1 || (dim >= 0 && map_reduces(map_at(r, p), dim));
        for (int k = 0; k < w->n; k++)
            kernel_keep(r->s->flow, r->kernel, p, w->to[k].cont, number ? KEEP_REG : KEEP_SHARED);
    }
}

/* The dim of map p that is the root's, alone or beside one that it reduces; -1: it is none of both.
 */
static int result_dim(const Rows *r, int p, int root_dim) {
    const Map *m = map_at(r, p);
    int result = r->al.at[p][root_dim], reduced;
    if (!map_is_reduction(m)) return only_dim(m) == result ? result : -1;
    int own, size = (int)prologue_columns(machine_of(r), m, &own, &reduced);
    return size && own == result ? result : -1;
}

/* The first product's position: behind maps that know nothing of its results. -1: it is no such
 * kernel. */
static int product_at(const Rows *r, int root_dim) {
    int n = r->kernel->map.n, at = 0;
    while (at < n && r->al.at[at][root_dim] < 0) at++;
    if (!at || at == n || !map_is_reduction(map_at(r, at))) return -1;
    for (int p = 0; p < n; p++) {
        if (map_at(r, p)->write.n != 1) return -1;
        if (p < at ? only_dim(map_at(r, p)) == -2 : result_dim(r, p, root_dim) < 0) return -1;
        for (int k = 0; p < n - 1 && k < map_at(r, p)->write.at[0].n; k++)
            if (read_outside(r->s, r->kernel, map_at(r, p)->write.at[0].to[k].cont)) return -1;
    }
    return at;
}

/* Results of a block: as few as one of the products wants. */
static int64_t block_results(const Rows *r, int at) {
    int64_t least = RESULTS;
    for (int p = at; p < r->kernel->map.n; p++) {
        int result, reduced;
        int64_t size = map_is_reduction(map_at(r, p))
                           ? prologue_columns(machine_of(r), map_at(r, p), &result, &reduced)
                           : RESULTS;
        if (size < least) least = size;
    }
    return least;
}

/* A product, or what ends one. */
static void result_lines(Rows *r, int pos, int64_t block, int root_dim) {
    const Map *m = map_at(r, pos);
    if (map_is_reduction(m)) {
        product_lines(r, pos, block, root_dim);
        return;
    }
    Line *threads = kernel_line(r->s->flow, r->kernel, LINE_THREAD, pos);
    line_dim(r->s->flow, threads, m, result_dim(r, pos, root_dim), THREADS);
    first_lines(r, pos, 1);
    at_line(r, pos, root_dim);
}

bool prologue_tiles(Rows *r) {
    Flow *flow = r->s->flow;
    int n = r->kernel->map.n, root_dim = -1;
    for (int d = 0; d < r->root->dim.n; d++) {
        if (map_reduces(r->root, d) || dim_is(r->root->dim.at[d].extent, 1)) continue;
        if (root_dim >= 0) return false;
        root_dim = d;
    }
    int at = root_dim < 0 ? -1 : product_at(r, root_dim);
    if (at < 0) return false;
    keep_lines(r);
    Line *tile = kernel_line(flow, r->kernel, LINE_TILE, n - 1);
    int64_t block = block_results(r, at);
    line_dim(flow, tile, r->root, root_dim, block);
    line_dim(flow, kernel_line(flow, r->kernel, LINE_BLOCK, n - 1), r->root, root_dim, 0);
    for (int p = 0; p < at; p++) prologue_lines(r, p, root_dim);
    for (int p = at; p < n; p++) result_lines(r, p, block, root_dim);
    return true;
}
