/* SPDX-License-Identifier: Apache-2.0 */
/* Variants of schedules for `weir tune`. Each changes one thing that the cost model decides by a
 * formula; what the formula cannot know (how a core's ports and prefetchers take it) is measured.
 */
#include "tools/weir/variants.h"

#include <string.h>

#include "tools/weir/extract.h"

enum { ACCUMULATORS = 28, UNROLL_BY = 4 };

typedef struct Varying {
    Arena *arena;
    const Flow *flow;
    const Kernel *kernel;
    int lanes, root, tile; /* position of the last map; its first tile line, or -1 */
    bool registers;        /* something is kept in registers: only unrolled dims may change */
    Kernels out;
} Varying;

static const Map *map_at(const Varying *v, int p) {
    return v->flow->map.at[v->kernel->map.at[p]];
}

static const MapDim *dim_named(const Map *m, const char *name) {
    for (int d = 0; d < m->dim.n; d++)
        if (!strcmp(dim_sym_name(m->dim.at[d].sym), name)) return &m->dim.at[d];
    return NULL;
}

static int64_t extent_of(const Map *m, const char *name) {
    const MapDim *d = dim_named(m, name);
    int64_t n = 0;
    return d && dim_is_const(d->extent, &n) ? n : 0;
}

/* A copy of the kernel, appended; its lines may be changed, their arguments through `args`. */
static Kernel *add(Varying *v) {
    Kernel *k = arena_copy(v->arena, v->kernel, sizeof *k);
    k->line.at = arena_copy(v->arena, k->line.at, (size_t)k->line.n * sizeof *k->line.at);
    k->line.cap = k->line.n;
    vec_push(v->arena, &v->out, k);
    return k;
}

static LineArg *args(Varying *v, Kernel *k, int line) {
    LineArg *arg =
        arena_copy(v->arena, k->line.at[line].arg, (size_t)k->line.at[line].narg * sizeof *arg);
    k->line.at[line].arg = arg;
    return arg;
}

static int find_line(const Varying *v, LineKind kind, int map, const char *dim) {
    for (int i = 0; i < v->kernel->line.n; i++) {
        const Line *line = &v->kernel->line.at[i];
        if (line->kind != kind || line->map != map) continue;
        if (!dim) return i;
        for (int k = 0; k < line->narg; k++)
            if (!strcmp(line->arg[k].dim, dim)) return i;
    }
    return -1;
}

static void drop_line(Varying *v, int at) {
    Kernel *k = add(v);
    memmove(&k->line.at[at], &k->line.at[at + 1], (size_t)(--k->line.n - at) * sizeof *k->line.at);
}

/* ---- register tiles -------------------------------------------------------------------------- */

/* Do whole tiles that are cut from those of the dim fill a tile of that size? */
static bool holds_inner(const Varying *v, const char *dim, int64_t size) {
    for (int i = v->tile + 1; i < v->kernel->line.n; i++) {
        const Line *line = &v->kernel->line.at[i];
        for (int k = 0; line->kind == LINE_TILE && line->map == v->root && k < line->narg; k++)
            if (!strcmp(line->arg[k].dim, dim) && size % line->arg[k].size) return false;
    }
    return true;
}

/* Maps that run at that tile do so still. */
static void resize(Varying *v, int arg, int64_t size) {
    const LineArg was = v->kernel->line.at[v->tile].arg[arg];
    if (!holds_inner(v, was.dim, size)) return;
    Kernel *k = add(v);
    args(v, k, v->tile)[arg].size = size;
    for (int i = 0; i < k->line.n; i++) {
        if (k->line.at[i].kind != LINE_AT || !k->line.at[i].narg) continue;
        LineArg *at = args(v, k, i);
        for (int n = 0; n < k->line.at[i].narg; n++)
            if (!strcmp(at[n].dim, was.dim) && at[n].size == was.size) at[n].size = size;
    }
}

/* Accumulators besides those of one step along a tiled dim. */
static int64_t others(const Varying *v, int arg) {
    const Line *tile = &v->kernel->line.at[v->tile];
    int64_t n = 1;
    for (int k = 0; k < tile->narg; k++) {
        if (k == arg || find_line(v, LINE_UNROLL, v->root, tile->arg[k].dim) < 0) continue;
        bool lane = find_line(v, LINE_VECTOR, v->root, tile->arg[k].dim) >= 0;
        n *= lane ? (tile->arg[k].size + v->lanes - 1) / v->lanes : tile->arg[k].size;
    }
    return n;
}

/* Other numbers of rows or vectors that fit the registers: first those that divide the extent. */
static void resize_unrolled(Varying *v, int arg) {
    static const int sizes[] = {14, 12, 10, 8, 7, 6, 5, 4, 3, 2, 1};
    const LineArg *now = &v->kernel->line.at[v->tile].arg[arg];
    int64_t extent = extent_of(map_at(v, v->root), now->dim), room = ACCUMULATORS / others(v, arg);
    bool lane = find_line(v, LINE_VECTOR, v->root, now->dim) >= 0;
    int64_t unit = lane ? v->lanes : 1;
    for (int even = 1, n = 0; even >= 0; even--)
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes && n < 3; i++) {
            int64_t size = sizes[i] * unit;
            if (sizes[i] > room || size > extent || size == now->size) continue;
            if ((extent % size == 0) != even || (lane && sizes[i] > 4)) continue;
            resize(v, arg, size);
            n++;
        }
}

static void resize_tiles(Varying *v) {
    const Line *tile = &v->kernel->line.at[v->tile];
    for (int k = 0; k < tile->narg; k++) {
        const LineArg *a = &tile->arg[k];
        int64_t extent = extent_of(map_at(v, v->root), a->dim);
        if (find_line(v, LINE_UNROLL, v->root, a->dim) >= 0) {
            resize_unrolled(v, k);
            continue;
        }
        if (v->registers || k != tile->narg - 1) continue;
        for (int64_t size = a->size * 4; size >= a->size / 4 && size >= 1; size /= 2)
            if (size != a->size && size < extent) resize(v, k, size);
    }
}

/* ---- loops ----------------------------------------------------------------------------------- */

/* The tile line's dims, number `from` moved to `to`. */
static void move_dim(Varying *v, int from, int to) {
    LineArg *arg = args(v, add(v), v->tile), moved = arg[from];
    for (int k = from; k < to; k++) arg[k] = arg[k + 1];
    for (int k = from; k > to; k--) arg[k] = arg[k - 1];
    arg[to] = moved;
}

/* Where maps stand at loops by `at`, the loops stay. */
static void reorder_loops(Varying *v) {
    int n = v->kernel->line.at[v->tile].narg;
    for (int i = 0; i < v->kernel->line.n; i++)
        if (v->kernel->line.at[i].kind == LINE_AT || v->kernel->line.at[i].kind == LINE_ORDER)
            return;
    for (int k = 1; k < n; k++) move_dim(v, k, 0);
    if (n > 2) move_dim(v, n - 1, n - 2);
    if (n > 2) move_dim(v, 0, n - 1);
}

static void add_dim(Varying *v, Kernel *k, LineKind kind, int map, const char *dim, int64_t block) {
    LineArg *arg = NEW_ARRAY(v->arena, LineArg, 2);
    arg[0] = (LineArg){dim, block};
    arg[1] = (LineArg){dim, 0};
    Line line = {.kind = kind, .map = map, .cont = -1, .narg = block ? 2 : 1, .arg = arg};
    vec_push(v->arena, &k->line, line);
}

/* The innermost reduction loop in steps that are unrolled. */
static void unroll_reduction(Varying *v, int p) {
    const Map *m = map_at(v, p);
    int reduce = find_line(v, LINE_REDUCE, p, NULL);
    if (reduce >= 0) {
        const Line *line = &v->kernel->line.at[reduce];
        const char *dim = line->arg[line->narg - 1].dim;
        if (find_line(v, LINE_UNROLL, p, dim) < 0) add_dim(v, add(v), LINE_UNROLL, p, dim, 0);
        return;
    }
    int inner = -1, reduced = 0;
    for (int d = 0; d < m->dim.n; d++)
        if (map_reduces(m, d)) inner = d, reduced++;
    if (reduced != 1) return;
    const char *dim = dim_sym_name(m->dim.at[inner].sym);
    bool taken = find_line(v, LINE_UNROLL, p, dim) >= 0 || find_line(v, LINE_VECTOR, p, dim) >= 0;
    int64_t extent = extent_of(m, dim);
    if (taken || extent % UNROLL_BY || extent <= UNROLL_BY) return;
    Kernel *k = add(v);
    add_dim(v, k, LINE_REDUCE, p, dim, UNROLL_BY);
    add_dim(v, k, LINE_UNROLL, p, dim, 0);
}

static void toggle_lines(Varying *v) {
    for (int i = 0; i < v->kernel->line.n; i++) {
        const Line *line = &v->kernel->line.at[i];
        bool window = line->kind == LINE_UNROLL && line->narg;
        for (int k = 0; window && k < line->narg; k++) {
            const Map *m = map_at(v, line->map);
            const MapDim *d = dim_named(m, line->arg[k].dim);
            window = d && map_reduces(m, (int)(d - m->dim.at));
        }
        if (window || line->kind == LINE_PREFETCH || line->kind == LINE_PARALLEL) drop_line(v, i);
    }
}

Kernels kernel_variants(Arena *arena, const Flow *flow, const Kernel *kernel, int lanes) {
    Varying v = {.arena = arena, .kernel = kernel, .lanes = lanes, .root = kernel->map.n - 1};
    const char *why;
    v.flow = flow_merged(arena, flow, kernel, &why);
    for (int i = 0; i < kernel->line.n; i++)
        v.registers |=
            kernel->line.at[i].kind == LINE_KEEP && kernel->line.at[i].storage == KEEP_REG;
    v.tile = find_line(&v, LINE_TILE, v.root, NULL);
    if (v.tile >= 0) resize_tiles(&v);
    if (v.tile >= 0) reorder_loops(&v);
    for (int p = 0; p < kernel->map.n; p++) unroll_reduction(&v, p);
    toggle_lines(&v);
    return v.out;
}

/* ---- forms ----------------------------------------------------------------------------------- */

static int dim_number(const Map *m, const char *name) {
    const MapDim *d = dim_named(m, name);
    return d ? (int)(d - m->dim.at) : -1;
}

const char *kernel_form(Arena *arena, const Flow *flow, const Kernel *kernel) {
    Text out = {.arena = arena};
    Flow *alone = flow_extract(arena, flow, kernel);
    flow_plain(alone);
    flow_print(&out, alone);
    for (int i = 0; i < kernel->line.n; i++) {
        const Line *line = &kernel->line.at[i];
        int p = line->kind == LINE_AT ? kernel->map.n - 1 : line->map;
        text_printf(&out, "%d %d %d", line->kind, line->map, line->storage);
        for (int k = 0; k < line->narg; k++)
            text_printf(&out, " %d:%lld",
                        dim_number(flow->map.at[kernel->map.at[p]], line->arg[k].dim),
                        (long long)line->arg[k].size);
        text_put(&out, "\n");
    }
    return text_str(&out);
}
