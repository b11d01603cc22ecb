/* SPDX-License-Identifier: Apache-2.0 */
/* Schedules: once a flow has kernels, each map is in one kernel, whose variants (kernels of one
 * name, in a row) hold the same maps and end in one without a guard; lines name what is there. */
#include "flow_verify.h"

#include <string.h>

static int dim_number(const Map *map, const char *name) {
    for (int d = 0; d < map->dim.n; d++)
        if (dim_sym_name(map->dim.at[d].sym) == name) return d;
    return -1;
}

static bool map_touches(const Map *map, int cont) {
    for (int i = 0; i < map->body.val.n; i++)
        if (map->body.val.at[i].kind == VAL_READ && map->body.val.at[i].read.cont == cont)
            return true;
    for (int w = 0; w < map->write.n; w++)
        for (int i = 0; i < map->write.at[w].n; i++)
            if (map->write.at[w].to[i].cont == cont) return true;
    return false;
}

static void verify_line_cont(FlowVerify *f, const Kernel *kernel, const Line *line) {
    bool touched = false;
    if (line->cont < 0 || line->cont >= f->flow->cont.n)
        complain(&f->v, line, kernel, "container number %d does not exist", line->cont);
    for (int i = 0; i < kernel->map.n; i++)
        touched |= map_touches(f->flow->map.at[kernel->map.at[i]], line->cont);
    if (!touched)
        complain(&f->v, line, kernel, "no map of the kernel uses \"%s\"",
                 f->flow->cont.at[line->cont].name);
}

/* Has the map at this position a tile loop over the dim (of this size, unless 0)? */
static bool is_tiled(const Kernel *kernel, int position, const char *dim, int64_t size) {
    for (int i = 0; i < kernel->line.n; i++) {
        const Line *line = &kernel->line.at[i];
        for (int k = 0; line->kind == LINE_TILE && line->map == position && k < line->narg; k++)
            if (strcmp(line->arg[k].dim, dim) == 0 && (!size || size == line->arg[k].size))
                return true;
    }
    return false;
}

/* What multiplies sums of blocks of one index: is there a `partial` line of such blocks, and a sum?
 */
static void verify_factor(FlowVerify *f, const Map *map, const Kernel *kernel, const Line *line) {
    const Combine *c = map->write.n ? map->write.at[0].combine : NULL;
    bool alone = false;
    if (!line->narg) complain(&f->v, line, kernel, "`factor` names no dim");
    for (int i = 0; i < kernel->line.n; i++) {
        const Line *other = &kernel->line.at[i];
        alone |= other->kind == LINE_PARTIAL && other->map == line->map && other->narg &&
                 !strcmp(other->arg[0].dim, line->arg[0].dim) && other->arg[0].size == 1;
    }
    if (!alone)
        complain(&f->v, line, kernel, "\"%s\" needs a `partial` line with blocks of 1",
                 line->arg[0].dim);
    if (!c || c->simple != P_ADD || c->nstate != 1 || !dtype_is_float(c->type[0]))
        complain(&f->v, line, kernel, "map \"%s\" sums no floats, so no factor leaves it",
                 map->name);
}

static bool in_loop(const Items *items, int map, bool inside) {
    for (int i = 0; i < items->n; i++) {
        const Item *it = &items->at[i];
        if (it->kind == ITEM_MAP && it->map == map) return inside;
        if (in_loop(&it->body, map, inside || it->kind == ITEM_LOOP) ||
            in_loop(&it->other, map, inside))
            return true;
    }
    return false;
}

static void verify_line(FlowVerify *f, const Flow *seen, const Kernel *kernel, const Line *line) {
    Verify *v = &f->v;
    int position = line->kind == LINE_AT ? kernel->map.n - 1 : line->map;
    bool tiled = line->kind == LINE_AT || line->kind == LINE_ORDER || line->kind == LINE_PARALLEL ||
                 line->kind == LINE_BLOCK;
    const Map *map = (line->kind == LINE_MERGE ? f->flow : seen)->map.at[kernel->map.at[position]];
    for (int i = 0; i < line->narg; i++) {
        int d = dim_number(map, intern(v->ctx, line->arg[i].dim));
        if (d < 0)
            complain(v, line, kernel, "map \"%s\" has no dim \"%s\"", map->name, line->arg[i].dim);
        if (d >= 0 && map->dim.at[d].seq && line->kind == LINE_PARALLEL)
            complain(v, line, kernel, "dim \"%s\" of map \"%s\" runs in order, not in parallel",
                     line->arg[i].dim, map->name);
        bool loop = tiled || (line->kind == LINE_THREAD && !line->arg[i].size);
        int64_t size = line->kind == LINE_AT ? line->arg[i].size : 0;
        if (loop && !is_tiled(kernel, position, line->arg[i].dim, size))
            complain(v, line, kernel, "dim \"%s\" of map \"%s\" has no tile, so no loop",
                     line->arg[i].dim, map->name);
        bool sized = line->kind == LINE_TILE || line->kind == LINE_VECTOR ||
                     line->kind == LINE_SPLIT || line->kind == LINE_PARTIAL;
        if (line->arg[i].size < (sized ? 1 : 0))
            complain(v, line, kernel, "dim \"%s\" needs a size", line->arg[i].dim);
        for (int k = 0; k < i && line->kind != LINE_REDUCE; k++)
            if (line->arg[k].dim == line->arg[i].dim)
                complain(v, line, kernel, "dim \"%s\" stands twice", line->arg[i].dim);
    }
    if (line->kind == LINE_KEEP || line->kind == LINE_PREFETCH || line->kind == LINE_STAGE)
        verify_line_cont(f, kernel, line);
    if (line->kind == LINE_FACTOR) verify_factor(f, map, kernel, line);
    if (line->kind == LINE_ALTERNATE &&
        !in_loop(&f->flow->body, kernel->map.at[kernel->map.n - 1], false))
        complain(v, line, kernel, "kernel \"%s\" stands in no loop, so nothing alternates",
                 kernel->name);
}

static void verify_kernel(FlowVerify *f, const Kernel *kernel) {
    Verify *v = &f->v;
    if (!kernel->map.n) complain(v, kernel, NULL, "kernel \"%s\" has no maps", kernel->name);
    for (int i = 0; i < kernel->map.n; i++)
        if (kernel->map.at[i] < 0 || kernel->map.at[i] >= f->flow->map.n)
            complain(v, kernel, NULL, "kernel \"%s\" names map %d of %d", kernel->name,
                     kernel->map.at[i], f->flow->map.n);
    verify_dims(v, kernel->when.at, kernel->when.n, kernel, NULL, "a guard");
    for (int i = 0; i < kernel->line.n; i++) {
        const Line *line = &kernel->line.at[i];
        if (line->map < 0 || line->map >= kernel->map.n)
            complain(v, line, kernel, "a line speaks of map %d of %d", line->map, kernel->map.n);
    }
    const char *why;
    const Flow *seen = flow_merged(v->arena, f->flow, kernel, &why);
    if (!seen)
        complain(v, kernel, NULL, "the merge lines of \"%s\" cannot hold: %s", kernel->name, why);
    for (int i = 0; i < kernel->line.n; i++) verify_line(f, seen, kernel, &kernel->line.at[i]);
}

static void blame_line(Verify *v, const void *guilty) {
    const Kernel *kernel = v->whole;
    for (int i = 0; i < kernel->line.n; i++)
        if (guilty == &kernel->line.at[i]) v->ctx->where.line = kernel->line.at[i].source;
}

void flow_verify_lines(const Flow *flow, const Kernel *kernel) {
    Arena *arena = arena_new(flow->ctx);
    FlowVerify f = {.flow = flow};
    f.v = (Verify){.ctx = flow->ctx, .arena = arena, .whole = kernel, .blame = blame_line};
    f.v.range.at = (DimRange *)flow_env(arena, flow).at;
    f.v.range.n = flow_env(arena, flow).n;
    verify_kernel(&f, kernel);
    arena_free(arena);
}

static bool holds(const Kernel *kernel, int map) {
    for (int i = 0; i < kernel->map.n; i++)
        if (kernel->map.at[i] == map) return true;
    return false;
}

static void verify_variant(FlowVerify *f, const Kernel *before, const Kernel *kernel) {
    bool same = before->map.n == kernel->map.n;
    for (int i = 0; i < kernel->map.n; i++) same = same && holds(before, kernel->map.at[i]);
    if (!same)
        complain(&f->v, kernel, NULL, "variants of \"%s\" hold different maps", kernel->name);
    if (!before->when.n)
        complain(&f->v, kernel, NULL, "a variant of \"%s\" without guard stands before",
                 kernel->name);
}

void verify_kernels(FlowVerify *f) {
    const Flow *flow = f->flow;
    int *in =
        NEW_ARRAY(f->v.arena, int, flow->map.n); /* 1 + number of the kernel's first variant */
    int first = 0;
    if (!flow->kernel.n) return;
    for (int k = 0; k < flow->kernel.n; k++) {
        const Kernel *kernel = flow->kernel.at[k];
        bool variant = k > 0 && flow->kernel.at[k - 1]->name == kernel->name;
        bool last = k + 1 == flow->kernel.n || flow->kernel.at[k + 1]->name != kernel->name;
        verify_kernel(f, kernel);
        if (variant)
            verify_variant(f, flow->kernel.at[k - 1], kernel);
        else
            first = k;
        if (last && kernel->when.n)
            complain(&f->v, kernel, NULL, "the last variant of \"%s\" has a guard", kernel->name);
        for (int i = 0; i < kernel->map.n; i++) {
            int map = kernel->map.at[i];
            if (in[map] && in[map] != first + 1)
                complain(&f->v, kernel, NULL, "map \"%s\" is in two kernels",
                         flow->map.at[map]->name);
            in[map] = first + 1;
        }
    }
    for (int m = 0; m < flow->map.n; m++)
        if (!in[m])
            complain(&f->v, flow->map.at[m], NULL, "map \"%s\" is in no kernel",
                     flow->map.at[m]->name);
}
