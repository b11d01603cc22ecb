/* SPDX-License-Identifier: Apache-2.0 */
/* The movement counter of the compiler, asked for every kernel at given sizes. */
#include "tools/weir/movement.h"

#include <stdlib.h>
#include <string.h>

#include "ir/move.h"

typedef struct Count {
    Arena *arena;
    const Flow *flow;
    const Machine *machine;
    const InputOptions *sizes;
} Count;

/* ---- sizes
 * ------------------------------------------------------------------------------------------------
 */

static bool symbol_value(void *user, Dim sym, int64_t *value) {
    Count *c = user;
    const char *name = dim_sym_name(sym);
    size_t n = strlen(name);
    for (int i = 0; i < c->sizes->nsize; i++)
        if (!strncmp(c->sizes->size[i], name, n) && c->sizes->size[i][n] == '=') {
            *value = strtoll(c->sizes->size[i] + n + 1, NULL, 10);
            return true;
        }
    for (int i = 0; i < c->flow->symbol.n; i++) {
        const Symbol *s = &c->flow->symbol.at[i];
        if (s->sym != sym) continue;
        if (s->upper) return dim_eval(s->upper, symbol_value, c, value);
        *value = s->lo > 1 ? s->lo : 1;
        return true;
    }
    *value = 1; /* variables of loops: one iteration counts */
    return true;
}

static double number(Count *c, Dim d) {
    int64_t v;
    return dim_eval(d, symbol_value, c, &v) ? (double)v : 0;
}

/* ---- kernels
 * ------------------------------------------------------------------------------------------------
 */

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
static const char *class_of(const Flow *flow, const Kernel *k) {
    bool contraction = false, reduction = false, compute = false, pointwise = false;
    for (int i = 0; i < k->map.n; i++) {
        const Map *map = flow->map.at[k->map.at[i]];
        contraction = contraction || map_contraction(flow, map).is;
        reduction = reduction || reduces(map);
        pointwise = pointwise || !reduces(map);
        compute = compute || computes(map);
    }
    if (contraction) return "contraction";
    if (reduction) return pointwise && k->map.n > 1 ? "normalisation" : "reduction";
    return compute ? "element-wise" : "movement";
}

static Movement row_of(Count *c, const Kernel *k) {
    Movement row = {.kernel = k->name, .class = class_of(c->flow, k), .maps = k->map.n};
    const Machine *m = c->machine;
    int64_t cache = m->nlevels > 1 ? m->level[1].bytes : 1 << 20;
    for (int i = 0; i < k->map.n; i++) {
        row.flop += number(c, move_flops(c->arena, c->flow, c->flow->map.at[k->map.at[i]]));
        row.before += number(c, move_compulsory(c->arena, c->flow, &k->map.at[i], 1).bytes);
    }
    Bytes bound = move_compulsory(c->arena, c->flow, k->map.at, k->map.n);
    row.bound = number(c, bound.bytes);
    row.over = bound.over;
    row.planned = move_scheduled(c->arena, c->flow, k, cache, symbol_value, c);
    return row;
}

/* The variants of one group of maps are one kernel here: the last, which has no guard. */
static bool is_last_variant(const Flow *flow, int k) {
    for (int i = k + 1; i < flow->kernel.n; i++)
        if (flow->kernel.at[i]->name == flow->kernel.at[k]->name) return false;
    return true;
}

Movements movements(Arena *arena, const Flow *flow, const Machine *machine,
                    const InputOptions *sizes) {
    Count count = {arena, flow, machine, sizes};
    Movements all = {0};
    for (int k = 0; k < flow->kernel.n; k++)
        if (is_last_variant(flow, k)) vec_push(arena, &all, row_of(&count, flow->kernel.at[k]));
    return all;
}
