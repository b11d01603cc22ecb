/* SPDX-License-Identifier: Apache-2.0 */
/* Puts the work of one flow into another: maps, calls, loops and branches under new names, sizes
 * replaced by the target's. Kernels stay behind: schedules are made where the work ends up. */
#include "flow.h"

#include <string.h>

typedef struct Inliner {
    Flow *to;
    const Flow *from;
    const char *name;
    int *cont;           /* by container of `from` */
    VEC(DimSubst) subst; /* grows by the dims of what is being copied */
} Inliner;

static Dim dim_in(const Inliner *n, Dim d) {
    return d ? dim_subst(n->to->ctx, d, n->subst.at, n->subst.n) : NULL;
}

static int cont_in(const Inliner *n, int cont) {
    return cont < 0 ? -1 : n->cont[cont];
}

/* ---- containers ------------------------------------------------------------------------------ */

static void make_conts(Inliner *n) {
    for (int i = 0; i < n->from->cont.n; i++) {
        const Cont *from = &n->from->cont.at[i];
        Dim shape[RANK_MAX];
        if (n->cont[i] >= 0) continue;
        for (int k = 0; k < from->rank; k++) shape[k] = dim_in(n, from->shape[k]);
        const char *name = internf(n->to->ctx, "%s.%s", n->name, from->name);
        n->cont[i] = flow_cont(n->to, name, from->kind, from->type, shape, from->rank);
        Cont *to = &n->to->cont.at[n->cont[i]];
        to->data_bytes = from->data_bytes;
        if (from->data) to->data = arena_copy(n->to->arena, from->data, (size_t)from->data_bytes);
    }
}

/* ---- maps ------------------------------------------------------------------------------------ */

static int read_in(void *user, Body *b, const Val *read) {
    const Inliner *n = user;
    Access to = read->read;
    to.cont = n->cont[to.cont];
    return read->has_else ? body_read_else(b, to, read->type, read->arg[0])
                          : body_read(b, to, read->type);
}

static Write write_in(const Inliner *n, const Write *from, const int *val) {
    Arena *arena = n->to->arena;
    Write to = *from;
    Access *access = arena_copy(arena, from->to, sizeof *access * (size_t)from->n);
    int *value = NEW_ARRAY(arena, int, from->nstate);
    for (int i = 0; i < from->nstate; i++) value[i] = val[from->val[i]];
    for (int i = 0; i < from->n; i++) {
        Dim *at = NEW_ARRAY(arena, Dim, access[i].rank);
        for (int k = 0; k < access[i].rank; k++) at[k] = dim_in(n, access[i].at[k]);
        access[i].cont = n->cont[access[i].cont];
        access[i].at = at;
    }
    to.to = access;
    to.val = value;
    return to;
}

static void map_in(Inliner *n, Items *into, const Map *from) {
    Flow *flow = n->to;
    int before = n->subst.n, *val = NEW_ARRAY(flow->arena, int, from->body.val.n);
    Map *to = flow_map(flow, into, internf(flow->ctx, "%s.%s", n->name, from->name), n->name);
    for (int i = 0; i < from->dim.n; i++) {
        const MapDim *d = &from->dim.at[i];
        Dim sym = map_dim(flow, to, dim_sym_name(d->sym), dim_in(n, d->extent));
        to->dim.at[i].seq = d->seq;
        vec_push(flow->arena, &n->subst, (DimSubst){d->sym, sym});
    }
    for (int i = 0; i < from->cons.n; i++)
        vec_push(flow->arena, &to->cons, dim_in(n, from->cons.at[i]));
    body_inline(&to->body, &from->body, n->subst.at, n->subst.n, NULL, read_in, n, val);
    for (int i = 0; i < from->write.n; i++)
        vec_push(flow->arena, &to->write, write_in(n, &from->write.at[i], val));
    n->subst.n = before;
}

/* ---- items ----------------------------------------------------------------------------------- */

static Call *call_in(const Inliner *n, const Call *from) {
    Arena *arena = n->to->arena;
    Call *to = arena_copy(arena, from, sizeof *from);
    int *in = NEW_ARRAY(arena, int, from->nin), *out = NEW_ARRAY(arena, int, from->nout);
    for (int i = 0; i < from->nin; i++) in[i] = cont_in(n, from->in[i]);
    for (int i = 0; i < from->nout; i++) out[i] = cont_in(n, from->out[i]);
    to->name = internf(n->to->ctx, "%s.%s", n->name, from->name);
    to->from = n->name;
    to->in = in, to->out = out;
    to->attr = arena_copy(arena, from->attr, sizeof *from->attr * (size_t)from->nattr);
    return to;
}

static void items_in(Inliner *n, Items *into, const Items *from);

/* A name that no dim of the target has: loops nest, so the one of this loop is told from others. */
static Dim loop_var(const Inliner *n, Dim var) {
    const char *name = internf(n->to->ctx, "%s_%d", dim_sym_name(var), n->to->map.n);
    return dim_sym(n->to->ctx, name);
}

static void region_in(Inliner *n, Items *into, const Item *from) {
    Item to = {.kind = from->kind, .trip = dim_in(n, from->trip), .from = n->name};
    to.when = dim_in(n, from->when);
    int before = n->subst.n;
    n->to->loops |= from->kind == ITEM_LOOP;
    if (from->var) {
        to.var = loop_var(n, from->var);
        vec_push(n->to->arena, &n->subst, (DimSubst){from->var, to.var});
    }
    to.cond = cont_in(n, from->cond);
    for (int i = 0; i < from->carry.n; i++) {
        const Carry *c = &from->carry.at[i];
        Carry copy = {cont_in(n, c->cur), cont_in(n, c->init), cont_in(n, c->next)};
        vec_push(n->to->arena, &to.carry, copy);
    }
    vec_push(n->to->arena, into, to);
    Item *placed = &into->at[into->n - 1];
    items_in(n, &placed->body, &from->body);
    items_in(n, &placed->other, &from->other);
    n->subst.n = before;
}

static void items_in(Inliner *n, Items *into, const Items *from) {
    for (int i = 0; i < from->n; i++) {
        const Item *item = &from->at[i];
        if (item->kind == ITEM_MAP) {
            map_in(n, into, n->from->map.at[item->map]);
        } else if (item->kind == ITEM_CALL) {
            Item call = {.kind = ITEM_CALL, .call = call_in(n, item->call), .cond = -1};
            vec_push(n->to->arena, into, call);
        } else {
            region_in(n, into, item);
        }
    }
}

void flow_inline(Flow *to, Items *into, const Flow *from, const char *name, int *cont,
                 const DimSubst *subst, int nsubst) {
    Inliner n = {.to = to, .from = from, .name = intern(to->ctx, name), .cont = cont};
    for (int i = 0; i < nsubst; i++) vec_push(to->arena, &n.subst, subst[i]);
    make_conts(&n);
    items_in(&n, into, &from->body);
}
