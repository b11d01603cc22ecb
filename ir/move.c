/* SPDX-License-Identifier: Apache-2.0 */
/* Counting what maps must move, and what they compute.
 *
 * The compulsory movement of a set of maps is the footprint of every container that it reads from
 * or writes to memory, once: a temporary whose writers and readers are all in the set needs no
 * memory. The footprint of an access is, in each dim of the container, at most the span of its
 * index and at most the number of points of the dims in it; in all, at most the points of all dims
 * in it. Where these are not known to be met the count is marked `over`. */
#include "move.h"

typedef struct Count {
    Ctx *ctx;
    Arena *arena;
    const Flow *flow;
    const Map *map;
    DimEnv env;
    int outer; /* entries of env before the map's dims */
    bool over;
} Count;

static Dim smaller(const Count *c, Dim a, Dim b) {
    if (dim_le(c->ctx, a, b, &c->env)) return a;
    if (dim_le(c->ctx, b, a, &c->env)) return b;
    return dim_min(c->ctx, a, b);
}

/* Distinct values of one index, inside the container. */
static Dim index_values(Count *c, Dim at, Dim extent) {
    Dim lo = dim_lower_from(c->ctx, at, &c->env, c->outer);
    Dim hi = dim_upper_from(c->ctx, at, &c->env, c->outer);
    Dim points = dim_const(c->ctx, 1), zero = dim_const(c->ctx, 0), coef, rest;
    bool affine = true;
    for (int d = 0; d < c->map->dim.n; d++) {
        if (!dim_uses(at, c->map->dim.at[d].sym)) continue;
        affine = affine && dim_affine(c->ctx, at, &c->map->dim.at[d].sym, 1, &coef, &rest);
        points = dim_mul(c->ctx, points, c->map->dim.at[d].extent);
    }
    for (int v = 0; v < c->map->body.val.n; v++) {
        Dim sym = c->map->body.val.at[v].sym;
        if (!sym || !dim_uses(at, sym)) continue;
        c->over = true;
        return extent;
    }
    if (!lo || !hi) {
        c->over = true;
        return smaller(c, points, extent);
    }
    Dim last = dim_addc(c->ctx, extent, -1);
    if (!dim_ge0(c->ctx, lo, &c->env)) lo = dim_max(c->ctx, lo, zero);
    hi = smaller(c, hi, last);
    Dim span = dim_addc(c->ctx, dim_sub(c->ctx, hi, lo), 1);
    c->over = c->over || !affine;
    return smaller(c, span, points);
}

static Dim access_elements(Count *c, const Access *a) {
    const Cont *cont = &c->flow->cont.at[a->cont];
    Dim box = dim_const(c->ctx, 1), points = dim_const(c->ctx, 1);
    for (int k = 0; k < a->rank; k++)
        box = dim_mul(c->ctx, box, index_values(c, a->at[k], cont->shape[k]));
    bool data = false;
    for (int d = 0; d < c->map->dim.n; d++) {
        bool uses = false;
        for (int k = 0; k < a->rank; k++) uses = uses || dim_uses(a->at[k], c->map->dim.at[d].sym);
        if (uses) points = dim_mul(c->ctx, points, c->map->dim.at[d].extent);
    }
    for (int v = 0; v < c->map->body.val.n; v++)
        for (int k = 0; k < a->rank; k++)
            data = data ||
                   (c->map->body.val.at[v].sym && dim_uses(a->at[k], c->map->body.val.at[v].sym));
    if (data) { /* each point of the map touches one element at most */
        points = dim_const(c->ctx, 1);
        for (int d = 0; d < c->map->dim.n; d++)
            points = dim_mul(c->ctx, points, c->map->dim.at[d].extent);
    }
    if (c->map->cons.n) c->over = true;
    return smaller(c, box, points);
}

/* ---- a set of maps -------------------------------------------------------------------------- */

typedef struct Touch {
    Dim elements;
    const Access *first;
    bool inside, outside; /* touched by maps of the set; by anything else */
    bool written;         /* by the set */
} Touch;

static void add_access(Count *c, Touch *touch, const Access *a) {
    Touch *t = &touch[a->cont];
    if (t->first && access_equal(t->first, a)) return;
    Dim n = access_elements(c, a);
    const Cont *cont = &c->flow->cont.at[a->cont];
    Dim all = dim_product(c->ctx, cont->shape, cont->rank);
    if (t->elements) {
        n = smaller(c, dim_add(c->ctx, t->elements, n), all);
        if (n != all) c->over = true;
    }
    t->first = a;
    t->elements = n;
}

static void touch_map(Count *c, Touch *touch, const Map *map, bool inside) {
    for (int v = 0; v < map->body.val.n; v++) {
        const Val *val = &map->body.val.at[v];
        if (val->kind != VAL_READ) continue;
        *(inside ? &touch[val->read.cont].inside : &touch[val->read.cont].outside) = true;
        if (inside) add_access(c, touch, &val->read);
    }
    for (int w = 0; w < map->write.n; w++)
        for (int k = 0; k < map->write.at[w].n; k++) {
            const Access *to = &map->write.at[w].to[k];
            *(inside ? &touch[to->cont].inside : &touch[to->cont].outside) = true;
            if (!inside) continue;
            touch[to->cont].written = true;
            add_access(c, touch, to);
        }
}

static void touch_items(const Items *items, Touch *touch) {
    for (int i = 0; i < items->n; i++) {
        const Item *it = &items->at[i];
        if (it->kind == ITEM_CALL) {
            for (int k = 0; k < it->call->nin; k++)
                if (it->call->in[k] >= 0) touch[it->call->in[k]].outside = true;
            for (int k = 0; k < it->call->nout; k++)
                if (it->call->out[k] >= 0) touch[it->call->out[k]].outside = true;
        }
        if ((it->kind == ITEM_LOOP || it->kind == ITEM_IF) && it->cond >= 0)
            touch[it->cond].outside = true;
        for (int k = 0; k < it->carry.n; k++) {
            touch[it->carry.at[k].cur].outside = true;
            touch[it->carry.at[k].init].outside = true;
            touch[it->carry.at[k].next].outside = true;
        }
        touch_items(&it->body, touch);
        touch_items(&it->other, touch);
    }
}

static bool in_set(const int *maps, int n, int m) {
    for (int i = 0; i < n; i++)
        if (maps[i] == m) return true;
    return false;
}

Bytes move_compulsory(Arena *arena, const Flow *flow, const int *maps, int nmaps,
                      const bool *left_out) {
    Arena *scratch = arena_new(flow->ctx);
    Touch *touch = NEW_ARRAY(scratch, Touch, flow->cont.n);
    Count c = {.ctx = flow->ctx, .arena = scratch, .flow = flow};
    (void)arena;
    c.outer = flow_env(scratch, flow).n;
    touch_items(&flow->body, touch);
    for (int m = 0; m < flow->map.n; m++) {
        bool inside = in_set(maps, nmaps, m);
        c.map = flow->map.at[m];
        if (inside) c.env = map_env(scratch, flow, c.map);
        touch_map(&c, touch, c.map, inside);
    }
    Dim bits = dim_const(flow->ctx, 0);
    for (int i = 0; i < flow->cont.n; i++) {
        const Cont *cont = &flow->cont.at[i];
        bool temporary = cont->kind == CONT_TMP || cont->kind == CONT_STATE;
        if (!touch[i].inside || (left_out && left_out[i])) continue;
        if (dtype_class(cont->type) == CLASS_OBJECT) continue;
        if (temporary && touch[i].written && !touch[i].outside) continue;
        bits = dim_add(flow->ctx, bits,
                       dim_mulc(flow->ctx, touch[i].elements, dtype_bits(cont->type)));
    }
    arena_free(scratch);
    return (Bytes){dim_ceildiv(flow->ctx, bits, dim_const(flow->ctx, 8)), c.over};
}

/* ---- operations ----------------------------------------------------------------------------- */

static int prim_flops(Prim p) {
    switch (p) {
    case P_ADD:
    case P_SUB:
    case P_MUL:
    case P_DIV:
    case P_REM:
    case P_MOD:
    case P_NEG:
    case P_ABS:
    case P_MIN:
    case P_MAX:
    case P_FLOOR:
    case P_CEIL:
    case P_TRUNC:
    case P_RINT:
    case P_SQRT:
    case P_LT:
    case P_LE:
    case P_GT:
    case P_GE:
    case P_EQ:
    case P_NE: return 1;
    case P_FMA: return 2;
    default: return 0;
    }
}

static int body_flops(const Body *b) {
    int n = 0;
    for (int v = 0; v < b->val.n; v++)
        if (b->val.at[v].kind == VAL_PRIM) n += prim_flops(b->val.at[v].prim);
    return n;
}

/* Operations at each point: arithmetic of the body (functions by their definitions) and of the
 * merges. */
Dim move_flops(Arena *arena, const Flow *flow, const Map *map) {
    Arena *scratch = arena_new(flow->ctx);
    Body expanded = {.arena = scratch};
    int *number = NEW_ARRAY(scratch, int, map->body.val.n), flops;
    (void)arena;
    body_expand(&expanded, &map->body, NULL, number);
    flops = body_flops(&expanded);
    for (int w = 0; w < map->write.n; w++)
        if (map->write.at[w].combine) flops += body_flops(&map->write.at[w].combine->merge);
    Dim total = dim_const(flow->ctx, flops);
    for (int d = 0; d < map->dim.n; d++) total = dim_mul(flow->ctx, total, map->dim.at[d].extent);
    arena_free(scratch);
    return total;
}
