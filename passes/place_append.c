/* SPDX-License-Identifier: Apache-2.0 */
/* Outputs that continue an input (a cache and its new rows) may be bound to the input's buffer.
 *
 * A map that only copies an input to the start of a longer output is not needed then: what it would
 * write is there. Both get rows to spare in their boxes, as many as the caller's strides say, so
 * that the strides of a buffer with room for more rows fit both; and the flow says that the output
 * may share the input's memory in a run where the caller has bound them so. */
#include "passes/place.h"

static Dim new_symbol(Flow *flow, const char *what, int64_t hi) {
    for (int n = 0;; n++) {
        Symbol s = {.sym = dim_sym(flow->ctx, internf(flow->ctx, "%s%d", what, n)), .hi = hi};
        bool taken = false;
        for (int i = 0; i < flow->symbol.n; i++) taken |= flow->symbol.at[i].sym == s.sym;
        if (taken) continue;
        vec_push(flow->arena, &flow->symbol, s);
        return s.sym;
    }
}

/* The dense form, with rows to spare along `dim`. */
static void give_spare(Flow *flow, Cont *c, int dim) {
    Layout *l = NEW(flow->arena, Layout);
    Dim *map = NEW_ARRAY(flow->arena, Dim, c->rank), *box = NEW_ARRAY(flow->arena, Dim, c->rank);
    for (int k = 0; k < c->rank; k++) {
        map[k] = flow_layout_sym(flow->ctx, k);
        box[k] = c->shape[k];
    }
    box[dim] = dim_add(flow->ctx, box[dim], new_symbol(flow, "spare", INT64_MAX));
    *l = (Layout){.rank = c->rank, .map = map, .box = box};
    c->layout = l;
}

/* Calls and regions take dense containers. */
static bool held(const Flow *flow, const Items *items, int cont) {
    for (int i = 0; i < items->n; i++) {
        const Item *it = &items->at[i];
        bool found = it->kind != ITEM_MAP && it->kind != ITEM_CALL && it->cond == cont;
        for (int k = 0; it->kind == ITEM_CALL && k < it->call->nin; k++)
            found |= it->call->in[k] == cont;
        for (int k = 0; it->kind == ITEM_CALL && k < it->call->nout; k++)
            found |= it->call->out[k] == cont;
        for (int k = 0; k < it->carry.n; k++)
            found |= it->carry.at[k].cur == cont || it->carry.at[k].init == cont ||
                     it->carry.at[k].next == cont;
        if (found || held(flow, &it->body, cont) || held(flow, &it->other, cont)) return true;
    }
    return false;
}

static bool taken(const Flow *flow, int from, int to) {
    for (int i = 0; i < flow->alias.n; i++)
        if (flow->alias.at[i].cont == to || flow->alias.at[i].of == from) return true;
    return false;
}

/* Is the output's size known before the run? */
static bool known_size(const Flow *flow, const Cont *c) {
    for (int i = 0; i < flow->symbol.n; i++) {
        bool given = false;
        for (int k = 0; k < flow->cont.n; k++)
            for (int d = 0; flow->cont.at[k].kind == CONT_IN && d < flow->cont.at[k].rank; d++)
                given |= dim_uses(flow->cont.at[k].shape[d], flow->symbol.at[i].sym);
        for (int d = 0; d < c->rank; d++)
            if (!given && dim_uses(c->shape[d], flow->symbol.at[i].sym)) return false;
    }
    return true;
}

void place_appended(Flow *flow) {
    for (int k = 0; k < flow->kernel.n; k++) {
        const Kernel *kernel = flow->kernel.at[k];
        int from, to, dim;
        if (kernel->map.n != 1 ||
            !flow_carries_over(flow, flow->map.at[kernel->map.at[0]], &from, &to, &dim))
            continue;
        Cont *x = &flow->cont.at[from], *y = &flow->cont.at[to];
        if (x->layout || y->layout || taken(flow, from, to) || held(flow, &flow->body, from) ||
            held(flow, &flow->body, to) || !known_size(flow, y))
            continue;
        give_spare(flow, x, dim);
        give_spare(flow, y, dim);
        Dim shared = new_symbol(flow, "shared", 1);
        Alias alias = {to, from, dim_const(flow->ctx, 0), dim_addc(flow->ctx, shared, -1)};
        vec_push(flow->arena, &flow->alias, alias);
    }
}
