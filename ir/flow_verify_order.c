/* SPDX-License-Identifier: Apache-2.0 */
/* Sizes that data decide: each is defined before anything of that size is made, and once, so that
 * no two places can differ about it. An iteration of a loop may change what was before; what a
 * loop makes may have a row for each of its iterations. */
#include "flow_verify.h"

typedef struct Order {
    FlowVerify *f;
    int *defined; /* by symbol of the flow: 0, or 1 + the loops around the definition */
    int loops;
    const void *object; /* who is looked at */
    const Call *by;     /* a call that may define what it makes itself */
} Order;

static int data_symbol(const Order *o, Dim sym) {
    const Flow *flow = o->f->flow;
    for (int i = 0; i < flow->symbol.n; i++)
        if (flow->symbol.at[i].sym == sym) return flow->symbol.at[i].upper ? i : -1;
    return -1;
}

static void need_symbol(void *user, Dim sym) {
    const Order *o = user;
    int k = data_symbol(o, sym);
    if (k < 0 || o->defined[k]) return;
    for (int i = 0; o->by && i < o->by->ndefine; i++)
        if (o->by->define[i] == sym) return;
    complain(&o->f->v, o->object, NULL, "size \"%s\" is used before anything defines it",
             dim_sym_name(sym));
}

static void need_shape(Order *o, int cont) {
    const Cont *c = &o->f->flow->cont.at[cont];
    for (int k = 0; k < c->rank; k++) dim_symbols(c->shape[k], need_symbol, o);
}

static void order_map(Order *o, const Map *map) {
    o->object = map, o->by = NULL;
    for (int i = 0; i < map->dim.n; i++)
        if (map->dim.at[i].extent) dim_symbols(map->dim.at[i].extent, need_symbol, o);
    for (int i = 0; i < map->write.n; i++)
        for (int k = 0; k < map->write.at[i].n; k++) need_shape(o, map->write.at[i].to[k].cont);
}

static void define(Order *o, Dim sym, const void *object) {
    int k = data_symbol(o, sym);
    if (k < 0) return;
    if (o->defined[k] == o->loops + 1)
        complain(&o->f->v, object, NULL, "size \"%s\" is defined twice", dim_sym_name(sym));
    o->defined[k] = o->loops + 1;
}

static void order_call(Order *o, const Call *call) {
    o->object = call, o->by = call;
    for (int i = 0; i < call->nout; i++)
        if (call->out[i] >= 0) need_shape(o, call->out[i]);
    for (int i = 0; i < call->ndefine; i++) define(o, call->define[i], call);
}

static void order_items(Order *o, const Items *items);

/* One of both runs: what either defines is defined behind them. */
static void order_branches(Order *o, const Item *item) {
    int n = o->f->flow->symbol.n, *before = o->defined;
    int *other = arena_copy(o->f->v.arena, before, sizeof *before * (size_t)n);
    order_items(o, &item->body);
    o->defined = other;
    order_items(o, &item->other);
    for (int i = 0; i < n; i++)
        if (!before[i]) before[i] = other[i];
    o->defined = before;
}

static void order_items(Order *o, const Items *items) {
    for (int i = 0; i < items->n; i++) {
        const Item *item = &items->at[i];
        switch (item->kind) {
        case ITEM_MAP: order_map(o, o->f->flow->map.at[item->map]); break;
        case ITEM_CALL: order_call(o, item->call); break;
        case ITEM_LOOP:
            if (item->done) define(o, item->done, item);
            o->loops++;
            order_items(o, &item->body);
            o->loops--;
            break;
        case ITEM_IF:
            o->object = item, o->by = NULL;
            if (item->when) dim_symbols(item->when, need_symbol, o);
            order_branches(o, item);
            break;
        }
    }
}

void verify_order(FlowVerify *f) {
    const Flow *flow = f->flow;
    Order o = {.f = f, .defined = NEW_ARRAY(f->v.arena, int, flow->symbol.n + 1)};
    order_items(&o, &flow->body);
    for (int i = 0; i < flow->cont.n; i++) {
        o.object = &flow->cont.at[i], o.by = NULL;
        if (flow->cont.at[i].kind == CONT_OUT) need_shape(&o, i);
    }
}
