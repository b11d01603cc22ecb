/* SPDX-License-Identifier: Apache-2.0 */
/* Rows that the threads of a block share in groups.
 *
 * Where a map of such a kernel has two dims within a row, a result for each index of one and a
 * reduction over the other, neighbouring threads go along the one that neighbours in memory go
 * along, no more of them than it has elements for; groups of these share the other: each has some
 * of the results, or a part of every reduction. So a product of a row and a matrix in the middle of
 * a kernel keeps all threads busy and fetches whole sectors. */
#include "passes/schedule.h"

/* THREADS of a block; indices that a group takes one after the other, written out at most. */
enum { THREADS = 256, WRITTEN_OUT = 8 };

typedef struct Grouping {
    int lane, among; /* dims; among -1: all threads go along the lane, lane -1: one element */
    int64_t lanes, spread;
} Grouping;

static const Map *map_at(const Rows *r, int pos) {
    return r->s->flow->map.at[r->kernel->map.at[pos]];
}

static bool large_size(void *user, Dim sym, int64_t *value) {
    enum { LARGE = 4096 };
    (void)user, (void)sym;
    *value = LARGE;
    return true;
}

/* Indices of a dim, where the run knows them those of large sizes. */
static int64_t many_indices(const Map *m, int dim) {
    int64_t n;
    return dim_eval(m->dim.at[dim].extent, large_size, NULL, &n) ? n : INT64_MAX;
}

/* Neighbours that a thread takes along the dim: as many as one instruction fetches of what lies so
 * in memory. */
static int64_t lanes_along(const Rows *r, const Map *m, int dim) {
    int64_t lanes = 8 * r->s->env->machine->vector_bytes / widest(r, m, dim);
    if (map_extent(m, dim, 1) % lanes) return 1;
    for (int v = 0; v < m->body.val.n; v++)
        while (lanes > 1 && m->body.val.at[v].kind == VAL_READ &&
               !lies_wide(r, m, &m->body.val.at[v].read, dim, lanes))
            lanes /= 2;
    return lanes;
}

/* As many threads as the lane dim has chunks for, of one warp at most, but so that groups divide
 * the results. */
static bool group_map(const Rows *r, const Map *m, Grouping *g) {
    int64_t warp = r->s->env->machine->warp, extent = map_extent(m, g->lane, THREADS);
    int64_t others = map_extent(m, g->among, -1);
    if (map_reduces(m, g->lane) == map_reduces(m, g->among)) return false;
    if (extent * map_extent(m, g->among, THREADS) < 2 * THREADS) return false;
    g->lanes = lanes_along(r, m, g->lane);
    g->spread = 2;
    while (g->spread < warp && g->spread * g->lanes < extent) g->spread *= 2;
    while (g->spread < warp && map_reduces(m, g->lane) && THREADS / g->spread > others)
        g->spread *= 2;
    return map_reduces(m, g->among) || (others > 0 && others % (THREADS / g->spread) == 0);
}

/* Do neighbours along the dim lie side by side in what the map reads of both? */
static bool side_by_side(const Rows *r, const Map *m, int dim, int other) {
    for (int v = 0; v < m->body.val.n; v++) {
        const Val *val = &m->body.val.at[v];
        if (val->kind == VAL_READ && access_uses(m, &val->read, other) &&
            access_stride(r->s->flow, m, &val->read, dim, r->s->env->machine->warp) == 1)
            return true;
    }
    return false;
}

/* False where the map has more dims in a row than two. */
static bool find_grouping(const Rows *r, int pos, Grouping *g) {
    const Map *m = map_at(r, pos);
    int64_t warp = r->s->env->machine->warp;
    int dim[2], n = 0;
    for (int d = 0; d < m->dim.n; d++) {
        if (rows_outer(r, pos, d) || dim_is(m->dim.at[d].extent, 1)) continue;
        if (n == 2) return false;
        dim[n++] = d;
    }
    *g = (Grouping){.lane = n ? dim[0] : -1, .among = -1, .lanes = 1, .spread = THREADS};
    if (n && map_reduces(m, dim[0]) && many_indices(m, dim[0]) <= WRITTEN_OUT * warp)
        g->spread = warp;
    if (n < 2) return true;
    bool turned = side_by_side(r, m, dim[1], dim[0]);
    g->lane = dim[turned];
    g->among = dim[!turned];
    return group_map(r, m, g);
}

static void group_lines(const Rows *r, int pos, const Grouping *g) {
    Flow *flow = r->s->flow;
    const Map *m = map_at(r, pos);
    Line *threads = kernel_line(flow, r->kernel, LINE_THREAD, pos);
    if (g->among >= 0) line_dim(flow, threads, m, g->among, THREADS / g->spread);
    line_dim(flow, threads, m, g->lane, g->spread);
    if (g->lanes > 1)
        line_dim(flow, kernel_line(flow, r->kernel, LINE_VECTOR, pos), m, g->lane, g->lanes);
    int among = g->among < 0 ? g->lane : g->among;
    int64_t each = g->among < 0 ? g->spread : THREADS / g->spread;
    int64_t most = map_extent(m, among, INT64_MAX);
    if (most > each && most <= each * WRITTEN_OUT)
        line_dim(flow, kernel_line(flow, r->kernel, LINE_UNROLL, pos), m, among, 0);
}

bool group_rows(Rows *r) {
    int n = r->kernel->map.n;
    Grouping *g = NEW_ARRAY(r->s->flow->arena, Grouping, n);
    bool any = false;
    for (int p = 0; p < n; p++) {
        if (!find_grouping(r, p, &g[p])) return false;
        any |= g[p].among >= 0;
    }
    if (!any) return false;
    keep_handed_on(r);
    row_lines(r, false);
    for (int p = 0; p < n; p++) {
        if (g[p].lane >= 0) group_lines(r, p, &g[p]);
        if (p < n - 1) rows_line(r, LINE_AT, p);
    }
    return true;
}
