/* SPDX-License-Identifier: Apache-2.0 */
/* Counting what a kernel moves as it is scheduled, through a memory level of a given size.
 *
 * The root's tile and reduce lines are a nest of loops. The outermost loop whose body's working set
 * fits the level is found; from there inwards everything is moved once an iteration. An access that
 * does not use the dim of the loop around it keeps its data from one iteration to the next.
 * Producers run on the box that the root's tiles need: their memory accesses count once. */
#include "dim_code.h"
#include "move.h"

enum { DIMS = RANK_MAX * 2, LOOPS = 64 };

typedef struct Loop {
    int dim;
    int64_t count;
} Loop;

typedef struct Sched {
    Ctx *ctx;
    Arena *arena;
    const Flow *flow;
    const Kernel *kernel;
    const Map *root;
    const bool *left_out;
    DimValueFn *value;
    void *user;
    int nloop;
    Loop loop[LOOPS];
    int64_t extent[LOOPS + 1][DIMS]; /* of the root's dims inside the first k loops */
} Sched;

static int64_t number(Sched *s, Dim d) {
    int64_t v;
    if (!dim_eval(d, s->value, s->user, &v))
        fail(s->ctx, E_OPTION, "\"%s\" has no value; give it with --size", dim_str(s->ctx, d));
    return v < 0 ? 0 : v;
}

/* ---- loops ---------------------------------------------------------------------------------- */

static int root_dim(const Sched *s, const char *name) {
    for (int d = 0; d < s->root->dim.n; d++)
        if (dim_sym_name(s->root->dim.at[d].sym) == name) return d;
    return -1;
}

static void add_loop(Sched *s, int dim, int64_t size) {
    int k = s->nloop;
    if (dim < 0 || k == LOOPS) return;
    int64_t whole = s->extent[k][dim];
    if (size <= 0) size = 1;
    if (size > whole) size = whole;
    s->loop[k] = (Loop){dim, size > 0 ? (whole + size - 1) / size : 0};
    for (int d = 0; d < s->root->dim.n; d++) s->extent[k + 1][d] = s->extent[k][d];
    s->extent[k + 1][dim] = size;
    s->nloop++;
}

static int64_t tile_size(const Line *tile, const char *dim) {
    for (int i = 0; i < tile->narg; i++)
        if (tile->arg[i].dim == dim) return tile->arg[i].size;
    return 0;
}

/* A tile line's loops, in the order of the `order` line after it. */
static void add_level(Sched *s, int line) {
    const Line *tile = &s->kernel->line.at[line], *order = NULL;
    for (int i = line + 1; i < s->kernel->line.n && !order; i++) {
        const Line *l = &s->kernel->line.at[i];
        if (l->kind == LINE_TILE) break;
        if (l->kind == LINE_ORDER) order = l;
    }
    for (int i = 0; order && i < order->narg; i++)
        if (tile_size(tile, order->arg[i].dim))
            add_loop(s, root_dim(s, order->arg[i].dim), tile_size(tile, order->arg[i].dim));
    for (int i = 0; i < tile->narg; i++) {
        bool done = false;
        for (int k = 0; order && k < order->narg; k++)
            done = done || order->arg[k].dim == tile->arg[i].dim;
        if (!done) add_loop(s, root_dim(s, tile->arg[i].dim), tile->arg[i].size);
    }
}

/* Of dims joined to one, the tile takes whole dims from the innermost on. */
static void add_joined(Sched *s, const Line *line) {
    int64_t size = line->narg ? line->arg[line->narg - 1].size : 0;
    for (int i = line->narg - 1; i >= 0; i--) {
        int d = root_dim(s, line->arg[i].dim);
        int64_t extent = s->extent[s->nloop][d], own = size < extent ? size : extent;
        if (own > 0) add_loop(s, d, own);
        size = own > 0 ? (size + own - 1) / own : size;
    }
}

static void find_loops(Sched *s) {
    int last = s->kernel->map.n - 1;
    for (int d = 0; d < s->root->dim.n; d++) s->extent[0][d] = number(s, s->root->dim.at[d].extent);
    for (int i = 0; i < s->kernel->line.n; i++)
        if (s->kernel->line.at[i].kind == LINE_TILE && s->kernel->line.at[i].map == last)
            add_level(s, i);
    for (int i = 0; i < s->kernel->line.n; i++) {
        const Line *l = &s->kernel->line.at[i];
        if (l->map == last && (l->kind == LINE_ROWS || l->kind == LINE_COLUMNS)) add_joined(s, l);
    }
    for (int i = 0; i < s->kernel->line.n; i++) {
        const Line *l = &s->kernel->line.at[i];
        if (l->kind != LINE_REDUCE || l->map != last) continue;
        for (int k = 0; k < l->narg; k++)
            if (l->arg[k].size > 0) add_loop(s, root_dim(s, l->arg[k].dim), l->arg[k].size);
    }
}

/* ---- footprints ----------------------------------------------------------------------------- */

static bool in_memory(const Sched *s, int cont) {
    if (s->flow->cont.at[cont].place == PLACE_KERNEL) return false;
    for (int i = 0; i < s->kernel->line.n; i++) {
        const Line *l = &s->kernel->line.at[i];
        if (l->kind == LINE_KEEP && l->cont == cont && l->storage != KEEP_ARENA) return false;
    }
    return true;
}

typedef struct Slots {
    Sched *s;
    const Map *map;
    bool data; /* some index comes from data */
} Slots;

static bool find_slot(void *user, Dim sym, int *slot, int64_t *value) {
    Slots *l = user;
    for (*slot = l->map->dim.n - 1; *slot >= 0; --*slot)
        if (l->map->dim.at[*slot].sym == sym) return true;
    if (l->s->value(l->s->user, sym, value)) return true;
    l->data = true;
    *value = 0;
    return true;
}

/* Bytes of the elements that an access meets while its map's dims run over `extent`. */
static double footprint(Sched *s, const Map *map, const Access *a, const int64_t *extent) {
    const Cont *c = &s->flow->cont.at[a->cont];
    double box = 1, points = 1;
    bool used[DIMS] = {false};
    for (int k = 0; k < a->rank; k++) {
        Slots slots = {s, map, false};
        const DimCode *code = dim_compile(s->arena, a->at[k], find_slot, &slots, NULL);
        double span = 1, size = (double)number(s, c->shape[k]);
        for (int d = 0; d < map->dim.n; d++) {
            int64_t coef = dim_code_coef(code, d);
            used[d] = used[d] || dim_code_uses(code, d);
            if (extent[d] > 0) span += (double)(coef < 0 ? -coef : coef) * (double)(extent[d] - 1);
        }
        box *= slots.data || !dim_code_affine(code) || span > size ? size : span;
    }
    for (int d = 0; d < map->dim.n; d++) points *= used[d] ? (double)extent[d] : 1;
    return (points < box ? points : box) * dtype_bits(c->type) / 8;
}

static bool uses_dim(const Sched *s, const Access *a, int dim) {
    for (int k = 0; k < a->rank; k++)
        if (dim_uses(a->at[k], s->root->dim.at[dim].sym)) return true;
    return false;
}

typedef VEC(const Access *) Accesses;

static void memory_accesses(Sched *s, const Map *map, Accesses *out) {
    for (int v = 0; v < map->body.val.n; v++)
        if (map->body.val.at[v].kind == VAL_READ && in_memory(s, map->body.val.at[v].read.cont))
            vec_push(s->arena, out, &map->body.val.at[v].read);
    for (int w = 0; w < map->write.n; w++)
        for (int k = 0; k < map->write.at[w].n; k++)
            if (in_memory(s, map->write.at[w].to[k].cont))
                vec_push(s->arena, out, &map->write.at[w].to[k]);
}

static bool is_left_out(const Sched *s, const Access *a) {
    return s->left_out && s->left_out[a->cont];
}

static double root_bytes(Sched *s, int64_t cache) {
    Accesses access = {0};
    int depth = 0;
    memory_accesses(s, s->root, &access);
    for (;; depth++) {
        double set = 0;
        for (int i = 0; i < access.n; i++)
            set += footprint(s, s->root, access.at[i], s->extent[depth]);
        if (set <= (double)cache || depth == s->nloop) break;
    }
    double total = 0;
    for (int i = 0; i < access.n; i++) {
        if (is_left_out(s, access.at[i])) continue;
        double bytes = footprint(s, s->root, access.at[i], s->extent[depth]);
        bool kept = true; /* as long as no loop around it uses its dims */
        for (int k = depth - 1; k >= 0; k--) {
            kept = kept && !uses_dim(s, access.at[i], s->loop[k].dim);
            if (!kept) bytes *= (double)s->loop[k].count;
        }
        double whole = footprint(s, s->root, access.at[i], s->extent[0]);
        total += bytes < whole ? whole : bytes;
    }
    return total;
}

double move_scheduled(Arena *arena, const Flow *flow, const Kernel *kernel, int64_t cache,
                      const bool *left_out, DimValueFn *value, void *user) {
    const char *why;
    const Flow *seen = flow_merged(arena, flow, kernel, &why);
    flow = seen ? seen : flow;
    Sched *s = NEW(arena, Sched);
    *s = (Sched){.ctx = flow->ctx,
                 .arena = arena,
                 .flow = flow,
                 .kernel = kernel,
                 .left_out = left_out,
                 .value = value,
                 .user = user};
    double total = 0;
    for (int i = 0; i + 1 < kernel->map.n; i++) {
        const Map *map = flow->map.at[kernel->map.at[i]];
        Accesses access = {0};
        int64_t extent[DIMS];
        if (map->dim.n > DIMS) continue;
        for (int d = 0; d < map->dim.n; d++) extent[d] = number(s, map->dim.at[d].extent);
        memory_accesses(s, map, &access);
        for (int k = 0; k < access.n; k++)
            if (!is_left_out(s, access.at[k])) total += footprint(s, map, access.at[k], extent);
    }
    s->root = flow->map.at[kernel->map.at[kernel->map.n - 1]];
    if (s->root->dim.n > DIMS) BUG("map \"%s\" has %d dims", s->root->name, s->root->dim.n);
    find_loops(s);
    return total + root_bytes(s, cache);
}
