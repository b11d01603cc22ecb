/* SPDX-License-Identifier: Apache-2.0 */
/* Part of pass `clean`: choices whose condition sizes alone decide are choices of sizes. Then
 * nothing computes the condition, no thread waits for it, and what runs on a GPU need not be read
 * back.
 *
 * The condition is followed to what it is made of: sizes, numbers, sums and products of these,
 * comparisons. As a dim it is >= 0 where it holds. */
#include "passes/clean.h"

enum { DEPTH = 16 }; /* of what is followed */

typedef struct Sizes {
    Editing *e;
    const Items *home; /* the list that the choice stands in */
    const Map *map;
    int depth;
} Sizes;

static Dim number_of(Sizes *s, int v);
static Dim truth_of(Sizes *s, int v);

/* Does the map, of one element, write what is read? */
static bool makes(const Map *m, const Access *read) {
    if (m->dim.n || m->cons.n || m->write.n != 1 || m->write.at[0].combine) return false;
    return access_equal(&m->write.at[0].to[0], read);
}

/* A number that the flow brings along. */
static Dim literal_of(const Sizes *s, const Val *read) {
    const Cont *c = &s->e->flow->cont.at[read->read.cont];
    for (int k = 0; k < c->rank; k++)
        if (!dim_is(c->shape[k], 1)) return NULL;
    if (c->kind != CONT_LITERAL || !c->data || c->layout) return NULL;
    return dim_const(s->e->flow->ctx, bits_to_int(c->type, mem_get(c->type, c->data, 0)));
}

/* What the map that makes the element in each run gives, by `value`; NULL: none does. */
static Dim read_of(const Sizes *s, const Val *read, Dim (*value)(Sizes *, int)) {
    const Uses *uses = &s->e->uses;
    const IntVec *writers = &uses->writers[read->read.cont];
    for (int i = 0; i < writers->n && !read->has_else && s->depth < DEPTH; i++) {
        const Map *m = s->e->flow->map.at[writers->at[i]];
        Sizes inner = {s->e, s->home, m, s->depth + 1};
        const Items *home = uses->home[writers->at[i]];
        bool always = home == s->home || home == &s->e->flow->body;
        if (always && makes(m, &read->read)) return value(&inner, m->write.at[0].val[0]);
    }
    return NULL;
}

/* An i64, or NULL: no size tells it. */
static Dim number_of(Sizes *s, int v) {
    const Val *val = &s->map->body.val.at[v];
    Ctx *ctx = s->e->flow->ctx;
    if (val->type != I64) return NULL;
    if (val->kind == VAL_INDEX) return val->index;
    if (val->kind == VAL_CONST) return dim_const(ctx, bits_to_int(I64, val->bits));
    if (val->kind == VAL_READ) {
        Dim literal = literal_of(s, val);
        return literal ? literal : read_of(s, val, number_of);
    }
    if (val->kind != VAL_PRIM || prim_row(val->prim)->arity != 2) return NULL;
    return dim_computed(ctx, val->prim, number_of(s, val->arg[0]), number_of(s, val->arg[1]));
}

/* a op b of numbers. */
static Dim compared(Ctx *ctx, Prim op, Dim a, Dim b) {
    Dim less = dim_sub(ctx, b, a), more = dim_sub(ctx, a, b);
    switch (op) {
    case P_LE: return less;
    case P_GE: return more;
    case P_LT: return dim_addc(ctx, less, -1);
    case P_GT: return dim_addc(ctx, more, -1);
    case P_EQ: return dim_min(ctx, less, more);
    case P_NE: return dim_addc(ctx, dim_max(ctx, less, more), -1);
    default: return NULL;
    }
}

static Dim truth_of_operation(Sizes *s, const Val *val) {
    const Body *b = &s->map->body;
    Ctx *ctx = s->e->flow->ctx;
    if (val->prim == P_NOT || (val->prim == P_CVT && b->val.at[val->arg[0]].type == BOOL)) {
        Dim x = truth_of(s, val->arg[0]);
        return x && val->prim == P_NOT ? dim_sub(ctx, dim_const(ctx, -1), x) : x;
    }
    if (val->prim == P_CVT) {
        Dim x = number_of(s, val->arg[0]);
        return x ? compared(ctx, P_NE, x, dim_const(ctx, 0)) : NULL;
    }
    if (val->prim == P_AND || val->prim == P_OR) {
        Dim x = truth_of(s, val->arg[0]), y = x ? truth_of(s, val->arg[1]) : NULL;
        if (!y) return NULL;
        return val->prim == P_AND ? dim_min(ctx, x, y) : dim_max(ctx, x, y);
    }
    if (prim_row(val->prim)->typing != TYPE_COMPARE) return NULL;
    Dim x = number_of(s, val->arg[0]), y = x ? number_of(s, val->arg[1]) : NULL;
    return y ? compared(ctx, val->prim, x, y) : NULL;
}

/* A bool: >= 0 where it is true; or NULL. */
static Dim truth_of(Sizes *s, int v) {
    const Val *val = &s->map->body.val.at[v];
    if (val->type != BOOL) return NULL;
    if (val->kind == VAL_CONST) return dim_const(s->e->flow->ctx, val->bits ? 0 : -1);
    if (val->kind == VAL_READ) return read_of(s, val, truth_of);
    return val->kind == VAL_PRIM ? truth_of_operation(s, val) : NULL;
}

typedef struct Known {
    const Flow *flow;
    bool all;
} Known;

static void check_symbol(void *user, Dim sym) {
    Known *k = user;
    bool known = false;
    for (int i = 0; i < k->flow->symbol.n; i++) known |= k->flow->symbol.at[i].sym == sym;
    k->all &= known;
}

bool made_of_sizes(const Flow *flow, Dim d) {
    Known k = {flow, true};
    dim_symbols(d, check_symbol, &k);
    return k.all;
}

/* The condition as one of the flow's sizes; NULL: it is none. */
static Dim condition(Editing *e, const Items *home, int cont) {
    Sizes s = {e, home, NULL, 0};
    Access at = {cont, 0, NULL};
    Val read = {.kind = VAL_READ, .type = BOOL, .read = at};
    if (e->flow->cont.at[cont].rank) return NULL;
    Dim when = read_of(&s, &read, truth_of);
    if (!when || dim_is_const(when, NULL)) return NULL;
    return made_of_sizes(e->flow, when) ? when : NULL;
}

static bool choose_in(Editing *e, Items *items) {
    bool any = false;
    for (int i = 0; i < items->n; i++) {
        Item *it = &items->at[i];
        any |= choose_in(e, &it->body);
        any |= choose_in(e, &it->other);
        Dim when = it->kind == ITEM_IF && it->cond >= 0 ? condition(e, items, it->cond) : NULL;
        if (!when) continue;
        it->cond = -1;
        it->when = when;
        any = true;
    }
    return any;
}

void choose_by_sizes(Editing *e) {
    uses_count(e);
    if (choose_in(e, &e->flow->body)) drop_unneeded(e);
}
