/* SPDX-License-Identifier: Apache-2.0 */
/* What a map is as a contraction: a sum of products of two reads, its dims told apart by which of
 * the operands and of the result use them.
 *
 * A factor may be more than a bare read (a conversion, a zero point taken off, a scale): its
 * operand is the one read whose dims cover those of all others in it. */
#include "move.h"

enum { DIMS = RANK_MAX * 2 };

typedef struct DimSet {
    bool has[DIMS];
} DimSet;

static void add_dims(const Map *map, Dim d, DimSet *set) {
    for (int i = 0; i < map->dim.n; i++)
        if (dim_uses(d, map->dim.at[i].sym)) set->has[i] = true;
}

static DimSet access_dims(const Map *map, const Access *a) {
    DimSet set = {{false}};
    for (int k = 0; k < a->rank; k++) add_dims(map, a->at[k], &set);
    return set;
}

static bool covers(const Map *map, const DimSet *a, const DimSet *b) {
    for (int i = 0; i < map->dim.n; i++)
        if (b->has[i] && !a->has[i]) return false;
    return true;
}

typedef struct Factor {
    int read;   /* the read it is about; -1: constants only */
    bool mixed; /* two reads that do not cover each other, or values of dims */
} Factor;

static Factor factor_of(const Map *map, int val) {
    const Val *v = &map->body.val.at[val];
    Factor f = {.read = v->kind == VAL_READ ? val : -1, .mixed = v->kind == VAL_INDEX};
    for (int i = 0; v->kind == VAL_PRIM && i < prim_row(v->prim)->arity; i++) {
        Factor arg = factor_of(map, v->arg[i]);
        f.mixed = f.mixed || arg.mixed;
        if (arg.read < 0) continue;
        if (f.read < 0) f.read = arg.read;
        DimSet a = access_dims(map, &map->body.val.at[f.read].read);
        DimSet b = access_dims(map, &map->body.val.at[arg.read].read);
        if (!covers(map, &a, &b)) {
            f.mixed = f.mixed || !covers(map, &b, &a);
            f.read = arg.read;
        }
    }
    return f;
}

/* Do d and i count the parts of an index, i in steps of all of d? Nothing slides then. */
static bool counts_parts(const Flow *flow, const Map *map, Dim at, int d, int i) {
    Dim sym[] = {map->dim.at[d].sym, map->dim.at[i].sym}, coef[2], rest;
    int64_t extent, step;
    return dim_affine(flow->ctx, at, sym, 2, coef, &rest) && dim_is(coef[0], 1) &&
           dim_is_const(map->dim.at[d].extent, &extent) && dim_is_const(coef[1], &step) &&
           step >= extent;
}

/* Does reduced dim d slide along a result's dim in some index of the read? Parts of weights are
 * told apart, and those that a batch of products counts (groups of channels); images may be cut
 * like that along other dims, too, but have windows at their ends. */
static bool slides(const Flow *flow, const Map *map, const Access *a, const bool *reduced,
                   const DimSet *batch, int d) {
    bool weights = flow->cont.at[a->cont].kind == CONT_PARAM;
    for (int k = 0; k < a->rank; k++) {
        if (!dim_uses(a->at[k], map->dim.at[d].sym)) continue;
        for (int i = 0; i < map->dim.n; i++)
            if (!reduced[i] && dim_uses(a->at[k], map->dim.at[i].sym) &&
                !((weights || batch->has[i]) && counts_parts(flow, map, a->at[k], d, i)))
                return true;
    }
    return false;
}

static bool is_weight(const Flow *flow, const Map *map, int read) {
    ContKind kind = flow->cont.at[map->body.val.at[read].read.cont].kind;
    return kind == CONT_PARAM || kind == CONT_LITERAL;
}

static void set_roles(const Flow *flow, const Map *map, Contraction *c) {
    const Access *a = &map->body.val.at[c->a].read, *b = &map->body.val.at[c->b].read;
    DimSet in_a = access_dims(map, a), in_b = access_dims(map, b);
    bool reduced[DIMS];
    DimSet batch = {0};
    for (int d = 0; d < map->dim.n; d++) {
        reduced[d] = map_reduces(map, d);
        batch.has[d] = !reduced[d] && in_a.has[d] && in_b.has[d];
    }
    for (int d = 0; d < map->dim.n; d++) {
        DimRole role = ROLE_OTHER;
        bool both = in_a.has[d] && in_b.has[d];
        if (reduced[d] && both)
            role =
                slides(flow, map, a, reduced, &batch, d) || slides(flow, map, b, reduced, &batch, d)
                    ? ROLE_WINDOW
                    : ROLE_K;
        else if (batch.has[d])
            role = ROLE_BATCH;
        else if (!reduced[d] && in_a.has[d])
            role = ROLE_M;
        else if (!reduced[d] && in_b.has[d])
            role = ROLE_N;
        c->role[d] = role;
    }
}

Contraction map_contraction(const Flow *flow, const Map *map) {
    Contraction c = {.a = -1, .b = -1, .product = -1};
    if (map->write.n != 1 || map->dim.n > DIMS) return c;
    const Write *w = &map->write.at[0];
    if (!w->combine || w->combine->simple == PRIM_NONE || w->n != 1) return c;
    c.product = body_unconverted(&map->body, w->val[0]);
    const Val *v = &map->body.val.at[c.product];
    if (v->kind != VAL_PRIM || v->prim != P_MUL) return c;
    Factor a = factor_of(map, v->arg[0]), b = factor_of(map, v->arg[1]);
    if (a.read < 0 || b.read < 0 || a.mixed || b.mixed) return c;
    c.a = a.read, c.b = b.read;
    if (is_weight(flow, map, c.a) && !is_weight(flow, map, c.b)) {
        int t = c.a;
        c.a = c.b, c.b = t;
    }
    set_roles(flow, map, &c);
    for (int d = 0; d < map->dim.n; d++)
        c.is = c.is || c.role[d] == ROLE_K || c.role[d] == ROLE_WINDOW;
    return c;
}
