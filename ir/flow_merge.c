/* SPDX-License-Identifier: Apache-2.0 */
/* The `merge` lines of a kernel: `merge (a, b)` joins two dims to one loop, which keeps the name of
 * the last. What is contiguous over both (x[a,b,k] of a dense container) is then walked as one dim,
 * so that tiles of rows are full whatever the two extents are.
 *
 * Maps never join dims: a kernel does, and what it sees is made here, a copy of the flow in which
 * its maps have one dim and its containers one extent for the two. Each access uses both dims, side
 * by side, or none of them; all accesses to a container do it at the same place. The first merge
 * lines of all maps make one round, the second ones the next. */
#include "flow.h"

#include <string.h>

enum { NOT_SEEN = -2, NOT_JOINED = -1 };

typedef struct Merging {
    Arena *arena;
    Flow *flow;
    const Kernel *kernel;
    int *join; /* by container: the first of the two indices, or one of the above */
    Dim a, b;  /* the dims that the map at hand joins; NULL: none */
    const char *why;
} Merging;

static void refuse(Merging *m, const char *why) {
    if (!m->why) m->why = why;
}

static const MapDim *dim_named(const Map *map, const char *name) {
    for (int d = 0; d < map->dim.n; d++)
        if (strcmp(dim_sym_name(map->dim.at[d].sym), name) == 0) return &map->dim.at[d];
    return NULL;
}

/* The merge line number `round` of the map at a position. */
static const Line *merge_line(const Kernel *kernel, int position, int round) {
    for (int i = 0; i < kernel->line.n; i++) {
        const Line *line = &kernel->line.at[i];
        if (line->kind == LINE_MERGE && line->map == position && round-- == 0) return line;
    }
    return NULL;
}

static bool uses(const Merging *m, Dim d) {
    return m->a && (dim_uses(d, m->a) || dim_uses(d, m->b));
}

/* Where indices k and k + 1 are stored as they are, side by side, nothing between their rows: the
 * place of the first; or -1. */
static int stored_at(const Merging *m, const Cont *c, int k) {
    Dim a = flow_layout_sym(m->flow->ctx, k), b = flow_layout_sym(m->flow->ctx, k + 1);
    const Layout *y = c->layout;
    int at = y ? -1 : k, used = 0;
    for (int i = 0; y && i < y->rank; i++) {
        used += dim_uses(y->map[i], a) || dim_uses(y->map[i], b);
        bool pair = i + 1 < y->rank && y->map[i] == a && y->map[i + 1] == b;
        if (pair && y->box[i + 1] == c->shape[k + 1]) at = i;
    }
    return used > 2 ? -1 : at;
}

static void look_at(Merging *m, const Access *access, Dim inner) {
    int at = NOT_JOINED;
    for (int k = 0; k < access->rank; k++) {
        if (!uses(m, access->at[k])) continue;
        const Cont *c = &m->flow->cont.at[access->cont];
        bool pair = at < 0 && k + 1 < access->rank && access->at[k] == m->a &&
                    access->at[k + 1] == m->b && c->shape[k + 1] == inner &&
                    stored_at(m, c, k) >= 0;
        if (!pair) refuse(m, "an access does not use the dims side by side in a dense container");
        at = k++;
    }
    int *join = &m->join[access->cont];
    if (*join != NOT_SEEN && *join != at)
        refuse(m, "two accesses to a container use the dims at different places");
    *join = at;
}

static void look_at_map(Merging *m, const Map *map) {
    Dim inner = NULL;
    for (int d = 0; d < map->dim.n; d++) {
        if (m->a && map->dim.at[d].seq) refuse(m, "a dim runs in order");
        if (map->dim.at[d].sym == m->b) inner = map->dim.at[d].extent;
    }
    for (int i = 0; i < map->cons.n; i++)
        if (uses(m, map->cons.at[i])) refuse(m, "a constraint uses a dim");
    for (int v = 0; v < map->body.val.n; v++) {
        const Val *val = &map->body.val.at[v];
        if (val->kind == VAL_INDEX && uses(m, val->index)) refuse(m, "a value is made of a dim");
        if (val->kind == VAL_READ) look_at(m, &val->read, inner);
    }
    for (int w = 0; w < map->write.n; w++)
        for (int k = 0; k < map->write.at[w].n; k++) look_at(m, &map->write.at[w].to[k], inner);
}

/* ---- the joined flow ------------------------------------------------------------------------- */

static Access join_access(const Merging *m, Access access) {
    int k = m->join[access.cont];
    if (k < 0) return access;
    Dim *at = arena_copy(m->arena, access.at, (size_t)access.rank * sizeof *at);
    memmove(at + k, at + k + 1, (size_t)(--access.rank - k) * sizeof *at);
    access.at = at;
    return access;
}

static Map *join_map(const Merging *m, const Map *from) {
    Map *map = arena_copy(m->arena, from, sizeof *from);
    map->dim.at = arena_copy(m->arena, from->dim.at, (size_t)from->dim.n * sizeof *from->dim.at);
    int n = 0;
    Dim outer = NULL;
    for (int d = 0; d < from->dim.n; d++)
        if (from->dim.at[d].sym == m->a) outer = from->dim.at[d].extent;
    for (int d = 0; d < from->dim.n; d++) {
        if (from->dim.at[d].sym == m->a) continue;
        map->dim.at[n] = from->dim.at[d];
        if (map->dim.at[n].sym == m->b)
            map->dim.at[n].extent = dim_mul(m->flow->ctx, outer, map->dim.at[n].extent);
        n++;
    }
    map->dim.n = n;
    Val *val = arena_copy(m->arena, from->body.val.at, (size_t)from->body.val.n * sizeof *val);
    map->body = (Body){.arena = m->arena};
    map->body.val.at = val;
    map->body.val.n = map->body.val.cap = from->body.val.n;
    for (int v = 0; v < map->body.val.n; v++)
        if (val[v].kind == VAL_READ) val[v].read = join_access(m, val[v].read);
    map->write.at =
        arena_copy(m->arena, from->write.at, (size_t)from->write.n * sizeof *from->write.at);
    for (int w = 0; w < map->write.n; w++) {
        Write *write = &map->write.at[w];
        Access *to = arena_copy(m->arena, write->to, (size_t)write->n * sizeof *to);
        for (int k = 0; k < write->n; k++) to[k] = join_access(m, to[k]);
        write->to = to;
    }
    return map;
}

/* The extents of a box in which k and k + 1 are one. */
static const Dim *join_box(const Merging *m, const Dim *from, int rank, int k) {
    Dim *box = arena_copy(m->arena, from, (size_t)rank * sizeof *box);
    box[k + 1] = dim_mul(m->flow->ctx, box[k], box[k + 1]);
    memmove(box + k, box + k + 1, (size_t)(rank - 1 - k) * sizeof *box);
    return box;
}

/* Indices behind k + 1 have the numbers before theirs now, k + 1 that of k. */
static Layout *join_layout(const Merging *m, const Cont *c, int k) {
    Layout *y = arena_copy(m->arena, c->layout, sizeof *y);
    int at = stored_at(m, c, k);
    y->box = join_box(m, y->box, y->rank, at);
    Dim *map = arena_copy(m->arena, y->map, (size_t)y->rank * sizeof *map);
    DimSubst *renumbered = NEW_ARRAY(m->arena, DimSubst, c->rank);
    for (int i = k + 1; i < c->rank; i++)
        renumbered[i - k - 1] =
            (DimSubst){flow_layout_sym(m->flow->ctx, i), flow_layout_sym(m->flow->ctx, i - 1)};
    memmove(map + at, map + at + 1, (size_t)(--y->rank - at) * sizeof *map);
    for (int i = 0; i < y->rank; i++)
        map[i] = dim_subst(m->flow->ctx, map[i], renumbered, c->rank - k - 1);
    y->map = map;
    return y;
}

static void join_cont(const Merging *m, Cont *c, int k) {
    if (c->layout) c->layout = join_layout(m, c, k);
    c->shape = join_box(m, c->shape, c->rank--, k);
}

static void set_dims(Merging *m, int position, int round) {
    const Map *map = m->flow->map.at[m->kernel->map.at[position]];
    const Line *line = merge_line(m->kernel, position, round);
    m->a = m->b = NULL;
    if (!line) return;
    const MapDim *a = line->narg == 2 ? dim_named(map, line->arg[0].dim) : NULL;
    const MapDim *b = line->narg == 2 ? dim_named(map, line->arg[1].dim) : NULL;
    if (!a || !b || a == b)
        refuse(m, "two dims of the map are joined at a time");
    else
        m->a = a->sym, m->b = b->sym;
}

static bool join_round(Merging *m, int round) {
    const Kernel *kernel = m->kernel;
    bool any = false;
    for (int c = 0; c < m->flow->cont.n; c++) m->join[c] = NOT_SEEN;
    for (int p = 0; p < kernel->map.n; p++) {
        any |= merge_line(kernel, p, round) != NULL;
        set_dims(m, p, round);
        look_at_map(m, m->flow->map.at[kernel->map.at[p]]);
    }
    if (!any || m->why) return false;
    for (int p = 0; p < kernel->map.n; p++) {
        set_dims(m, p, round);
        Map **map = &m->flow->map.at[kernel->map.at[p]];
        if (m->a) *map = join_map(m, *map);
    }
    for (int c = 0; c < m->flow->cont.n; c++)
        if (m->join[c] >= 0) join_cont(m, &m->flow->cont.at[c], m->join[c]);
    return true;
}

const Flow *flow_merged(Arena *arena, const Flow *flow, const Kernel *kernel, const char **why) {
    bool any = false;
    for (int i = 0; i < kernel->line.n; i++) any |= kernel->line.at[i].kind == LINE_MERGE;
    *why = NULL;
    if (!any) return flow;
    Merging m = {.arena = arena, .kernel = kernel};
    m.flow = arena_copy(arena, flow, sizeof *flow);
    m.flow->cont.at = arena_copy(arena, flow->cont.at, (size_t)flow->cont.n * sizeof(Cont));
    m.flow->map.at = arena_copy(arena, flow->map.at, (size_t)flow->map.n * sizeof(Map *));
    m.join = NEW_ARRAY(arena, int, flow->cont.n + 1);
    for (int round = 0; join_round(&m, round);) round++;
    *why = m.why;
    return m.why ? NULL : m.flow;
}
