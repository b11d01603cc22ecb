/* SPDX-License-Identifier: Apache-2.0 */
/* The movement counter of the compiler, asked for every kernel at given sizes. */
#include "tools/weir/movement.h"

#include <stdlib.h>
#include <string.h>

#include "ir/move.h"
#include "passes/access.h"
#include "passes/library.h"

typedef struct Count {
    Arena *arena;
    const Flow *flow;
    const Machine *machine;
    Sizes sizes;
    const bool *weights; /* by container: a weight, or made of weights alone */
    const double *runs;  /* by map: iterations of the loops around it */
    const Flow *all;     /* the flow, loops' variables being dims of the maps in them */
} Count;

/* ---- sizes ----------------------------------------------------------------------------------- */

static bool symbol_value(void *user, Dim sym, int64_t *value) {
    const Sizes *sizes = user;
    const char *name = dim_sym_name(sym);
    if (size_given(sizes->given, name, value)) return true;
    for (int i = 0; i < sizes->n; i++) {
        const Symbol *s = &sizes->symbol[i];
        if (s->sym != sym) continue;
        if (s->upper) return dim_eval(s->upper, symbol_value, user, value);
        *value = s->lo > 1 ? s->lo : 1;
        return true;
    }
    *value = 1; /* variables of loops */
    return true;
}

double size_value(const Sizes *sizes, Dim d) {
    int64_t v;
    return dim_eval(d, symbol_value, (void *)(uintptr_t)sizes, &v) ? (double)v : 0;
}

double size_bytes(const Sizes *sizes, DType type, const Dim *shape, int rank) {
    double bytes = (double)dtype_bits(type) / 8;
    for (int k = 0; k < rank; k++) bytes *= size_value(sizes, shape[k]);
    return bytes;
}

/* ---- loops ----------------------------------------------------------------------------------- */

/* What sizes say of a choice: 1 or 0; -1: data decide. */
static int chosen_branch(const Count *c, const Item *it) {
    return it->when ? size_value(&c->sizes, it->when) >= 0 : -1;
}

/* How often the maps in the items run. A loop whose end is not known counts once, and so do both
 * sides of a choice that data make. */
static void count_runs(const Count *c, const Items *items, double runs, double *out) {
    for (int i = 0; i < items->n; i++) {
        const Item *it = &items->at[i];
        int branch = chosen_branch(c, it);
        Dim end = it->kind == ITEM_LOOP ? (it->done ? it->done : it->trip) : NULL;
        if (it->kind == ITEM_MAP) out[it->map] = runs;
        double inside = end ? runs * size_value(&c->sizes, end) : runs;
        count_runs(c, &it->body, branch == 0 ? 0 : inside, out);
        count_runs(c, &it->other, branch == 1 ? 0 : runs, out);
    }
}

/* The variables of loops around them become dims of maps. */
static void add_vars(Flow *all, const Items *items, const MapDim *var, int n) {
    for (int i = 0; i < items->n; i++) {
        const Item *it = &items->at[i];
        MapDim more[RANK_MAX];
        int with = n;
        if (it->kind == ITEM_MAP)
            for (int k = 0; k < n; k++) vec_push(all->arena, &all->map.at[it->map]->dim, var[k]);
        for (int k = 0; k < n; k++) more[k] = var[k];
        Dim end = it->kind == ITEM_LOOP ? (it->done ? it->done : it->trip) : NULL;
        if (end && it->var && n < RANK_MAX) more[with++] = (MapDim){it->var, end, false};
        add_vars(all, &it->body, more, with);
        add_vars(all, &it->other, var, n);
    }
}

static void count_loops(Count *c) {
    double *runs = NEW_ARRAY(c->arena, double, c->flow->map.n + 1);
    c->runs = runs;
    for (int m = 0; m < c->flow->map.n; m++) runs[m] = 1;
    count_runs(c, &c->flow->body, 1, runs);
    c->all = c->flow;
    if (!c->flow->loops) return;
    Flow *all = flow_clone(c->arena, c->flow);
    add_vars(all, &all->body, NULL, 0);
    all->loops = false;
    c->all = all;
}

/* ---- kernels --------------------------------------------------------------------------------- */

static bool reduces(const Map *map) {
    for (int w = 0; w < map->write.n; w++)
        if (map->write.at[w].combine) return true;
    return false;
}

static bool computes(const Map *map) {
    for (int v = 0; v < map->body.val.n; v++)
        if (map->body.val.at[v].kind == VAL_PRIM && map->body.val.at[v].prim != P_CVT) return true;
    return false;
}

/* A reduction whose kernel reads what was reduced again is a normalisation. */
const char *maps_class(const Flow *flow, const int *maps, int n) {
    bool contraction = false, reduction = false, compute = false, pointwise = false;
    for (int i = 0; i < n; i++) {
        const Map *map = flow->map.at[maps[i]];
        contraction = contraction || map_contraction(flow, map).is;
        reduction = reduction || reduces(map);
        pointwise = pointwise || !reduces(map);
        compute = compute || computes(map);
    }
    if (contraction) return "contraction";
    if (reduction) return pointwise && n > 1 ? "normalisation" : "reduction";
    return compute ? "element-wise" : "movement";
}

static Movement row_of(Count *c, const Kernel *k) {
    Movement row = {
        .kernel = k->name, .class = maps_class(c->flow, k->map.at, k->map.n), .maps = k->map.n};
    for (int i = 0; i < k->line.n; i++)
        if (k->line.at[i].kind == LINE_SERIAL) row.serial = k->line.at[i].name;
    row.library = kernel_library(k);
    const Machine *m = c->machine;
    int64_t cache = m->nlevels > 1 ? m->level[1].bytes : 1 << 20;
    double runs = c->runs[k->map.at[k->map.n - 1]];
    for (int i = 0; i < k->map.n; i++) {
        row.flop += runs * size_value(&c->sizes,
                                      move_flops(c->arena, c->flow, c->flow->map.at[k->map.at[i]]));
        row.before +=
            runs *
            size_value(&c->sizes, move_compulsory(c->arena, c->flow, &k->map.at[i], 1, NULL).bytes);
    }
    Bytes bound = move_compulsory(c->arena, c->all, k->map.at, k->map.n, NULL);
    row.bound = size_value(&c->sizes, bound.bytes);
    row.over = bound.over;
    row.planned = runs * move_scheduled(c->arena, c->flow, k, cache, NULL, symbol_value, &c->sizes);
    /* A bound from above that is more than what moves says nothing. */
    if (row.over && row.bound > row.planned) row.bound = row.planned;
    row.activations =
        runs * move_scheduled(c->arena, c->flow, k, cache, c->weights, symbol_value, &c->sizes);
    return row;
}

/* ---- nodes ----------------------------------------------------------------------------------- */

/* Does a map read weights, and nothing else? */
static bool reads_weights(const Map *map, const bool *weight) {
    bool reads = false;
    for (int v = 0; v < map->body.val.n; v++) {
        if (map->body.val.at[v].kind != VAL_READ) continue;
        if (!weight[map->body.val.at[v].read.cont]) return false;
        reads = true;
    }
    return reads;
}

/* Containers that hold weights, or what maps make of weights alone: all maps that write it. */
static const bool *find_weights(Arena *arena, const Flow *flow) {
    bool *weight = NEW_ARRAY(arena, bool, flow->cont.n + 1);
    bool *other = NEW_ARRAY(arena, bool, flow->cont.n + 1);
    for (int i = 0; i < flow->cont.n; i++) {
        weight[i] = flow->cont.at[i].kind == CONT_PARAM || flow->cont.at[i].kind == CONT_LITERAL;
        other[i] = flow->cont.at[i].kind != CONT_TMP;
    }
    for (int m = 0; m < flow->map.n; m++) {
        const Map *map = flow->map.at[m];
        bool alone = reads_weights(map, weight);
        for (int w = 0; w < map->write.n; w++)
            for (int k = 0; k < map->write.at[w].n; k++) {
                int to = map->write.at[w].to[k].cont;
                other[to] = other[to] || !alone;
                weight[to] = !other[to];
            }
    }
    return weight;
}

static bool copies(const Map *map) {
    const Val *val = map->body.val.at;
    return map->body.val.n == 1 && val->kind == VAL_READ && !val->has_else && !reduces(map) &&
           map->write.n == 1;
}

/* Do maps only show what there is? Joining several to one moves them. */
static bool is_view(const Flow *flow, const int *maps, int n) {
    for (int i = 0; i < n; i++) {
        const Map *map = flow->map.at[maps[i]];
        if (!copies(map)) return false;
        for (int k = 0; k < i; k++)
            if (flow->map.at[maps[k]]->write.at[0].to[0].cont == map->write.at[0].to[0].cont)
                return false;
    }
    return true;
}

static Count count_of(Arena *arena, const Flow *flow, const Machine *machine,
                      const InputOptions *sizes) {
    Count c = {.arena = arena, .flow = flow, .machine = machine};
    c.sizes = (Sizes){flow->symbol.at, flow->symbol.n, sizes};
    c.weights = find_weights(arena, flow);
    count_loops(&c);
    return c;
}

double unfused_bytes(Arena *arena, const Flow *flow, const InputOptions *sizes) {
    Count c = count_of(arena, flow, NULL, sizes);
    double total = 0;
    VEC(int) maps = {0};
    for (int m = 0; m < flow->map.n; m++) {
        const char *from = flow->map.at[m]->from,
                   *next = m + 1 < flow->map.n ? flow->map.at[m + 1]->from : NULL;
        vec_push(arena, &maps, m);
        if (from && next && !strcmp(from, next)) continue;
        if (!is_view(flow, maps.at, maps.n))
            total += size_value(&c.sizes,
                                move_compulsory(arena, c.all, maps.at, maps.n, c.weights).bytes);
        maps.n = 0;
    }
    return total;
}

/* ---- all kernels ----------------------------------------------------------------------------- */

static bool holds(const Count *c, const Kernel *kernel) {
    bool all = true;
    for (int i = 0; i < kernel->when.n; i++)
        all = all && size_value(&c->sizes, kernel->when.at[i]) >= 0;
    return all;
}

/* The variants of one group of maps are one kernel here: the first whose guards hold. Those of a
 * branch that the sizes do not choose are none. */
static bool is_taken(const Count *c, int k) {
    const Kernel *kernel = c->flow->kernel.at[k];
    if (c->runs[kernel->map.at[kernel->map.n - 1]] == 0) return false;
    for (int i = 0; i < k; i++) {
        const Kernel *before = c->flow->kernel.at[i];
        if (before->name == kernel->name && holds(c, before)) return false;
    }
    return holds(c, kernel);
}

Movements movements(Arena *arena, const Flow *flow, const Machine *machine,
                    const InputOptions *sizes) {
    Count count = count_of(arena, flow, machine, sizes);
    Movements all = {0};
    for (int k = 0; k < flow->kernel.n; k++)
        if (is_taken(&count, k)) vec_push(arena, &all, row_of(&count, flow->kernel.at[k]));
    return all;
}

void movement_json(Text *out, const Movement *row) {
    text_put(out, "{\"kernel\": ");
    text_json(out, row->kernel);
    text_printf(out,
                ", \"class\": \"%s\", \"maps\": %d, \"flop\": %.0f, \"before_bytes\": %.0f, "
                "\"planned_bytes\": %.0f, \"bound_bytes\": %.0f, "
                "\"planned_activation_bytes\": %.0f, \"bound_is_upper\": %s",
                row->class, row->maps, row->flop, row->before, row->planned, row->bound,
                row->activations, row->over ? "true" : "false");
    if (row->unfused > 0) text_printf(out, ", \"unfused_activation_bytes\": %.0f", row->unfused);
    if (row->serial) text_put(out, ", \"serial\": ");
    if (row->serial) text_json(out, row->serial);
    if (row->library) text_put(out, ", \"library\": ");
    if (row->library) text_json(out, row->library);
    if (row->ms > 0) text_printf(out, ", \"ms\": %.5f", row->ms);
    text_put(out, "}");
}
