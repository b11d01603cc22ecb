/* SPDX-License-Identifier: Apache-2.0 */
/* What running a map in lanes along one of its dims costs. */
#include "passes/access.h"

/* A look-up among the bytes that registers hold takes a few operations. */
static const double LOOKED_UP = 4;

/* Lanes that lie apart are put together one by one, which costs more than scalar code's accesses.
 */
double gather_cost(int lanes) {
    return 1.1 * lanes;
}

static double step_cost(int64_t step, int lanes) {
    return step == 0 ? 0.3 : step == 1 ? 1 : gather_cost(lanes);
}

int map_prims(const Map *map) {
    int n = 0;
    for (int v = 0; v < map->body.val.n; v++) n += map->body.val.at[v].kind == VAL_PRIM;
    return n;
}

bool access_looks_up(const Flow *flow, const Map *map, const Access *a) {
    enum { BYTES = 256 };
    const Cont *c = &flow->cont.at[a->cont];
    return a->rank == 1 && dtype_bits(c->type) == 8 && !c->layout &&
           extent_or(c->shape[0], 0) >= BYTES && body_byte(&map->body, a->at[0]) >= 0;
}

/* Every second, third or fourth element of a row is sifted from as many vectors; elements of one
 * vector, in another order, are picked from it. */
static double read_cost(const Flow *flow, const Map *map, const Access *a, int dim, int lanes,
                        bool packs) {
    int64_t step = access_stride(flow, map, a, dim, lanes);
    if (packs && step && flow->cont.at[a->cont].kind == CONT_PARAM) return 1;
    if (step >= 2 && step <= 4) return 1.5 * (double)step;
    if (access_looks_up(flow, map, a)) return LOOKED_UP;
    if (step == INT64_MAX && access_in_block(flow, map, a, dim, lanes)) return 2;
    return step_cost(step, lanes);
}

int access_interleaves(const Flow *flow, const Map *map, const Access *to, int dim, int lanes) {
    int64_t step = access_stride(flow, map, to, dim, lanes);
    for (int d = 0; step >= 2 && step <= 4 && d < map->dim.n; d++)
        if (d != dim && !map->dim.at[d].seq && map_usual(flow, map, d) >= step &&
            access_stride(flow, map, to, d, step) == 1)
            return d;
    return -1;
}

int access_words(const Flow *flow, const Map *map, const Access *to, int dim, int lanes,
                 int64_t *word) {
    for (*word = lanes / 2; *word >= 2; *word /= 2)
        if (access_stride(flow, map, to, dim, *word) == 1) break;
    for (int d = 0; *word >= 2 && *word <= 4 && d < map->dim.n; d++)
        if (d != dim && !map->dim.at[d].seq && map_usual(flow, map, d) >= lanes / *word &&
            access_stride(flow, map, to, d, lanes / *word) == *word)
            return d;
    return -1;
}

static double write_cost(const Flow *flow, const Map *map, const Access *to, int dim, int lanes) {
    int64_t word;
    bool turned = access_interleaves(flow, map, to, dim, lanes) >= 0 ||
                  access_words(flow, map, to, dim, lanes, &word) >= 0;
    if (turned && map_prims(map) <= TURNED_PRIMS) return 2;
    return step_cost(access_stride(flow, map, to, dim, lanes), lanes);
}

double idle_lanes(int64_t extent, int64_t lanes) {
    return (double)((extent + lanes - 1) / lanes * lanes) / (double)extent;
}

double lane_cost(const Flow *flow, const Map *map, int dim, int lanes, bool packs) {
    double reads = 0, writes = 0, results = 1;
    bool reduced = map_reduces(map, dim);
    for (int v = 0; v < map->body.val.n; v++) {
        const Val *val = &map->body.val.at[v];
        if (val->kind == VAL_READ) reads += read_cost(flow, map, &val->read, dim, lanes, packs);
    }
    for (int w = 0; w < map->write.n; w++)
        for (int k = 0; k < map->write.at[w].n; k++)
            writes +=
                reduced ? 8 * lanes : write_cost(flow, map, &map->write.at[w].to[k], dim, lanes);
    for (int d = 0; d < map->dim.n; d++)
        if (!map_reduces(map, d)) results *= (double)map_usual(flow, map, d);
    double idle = idle_lanes(map_usual(flow, map, dim), lanes);
    return idle * ((reads + map_prims(map) * 0.3) * map_usual_volume(flow, map) + writes * results);
}
