/* SPDX-License-Identifier: Apache-2.0 */
/* A deep copy of a flow: nothing in the copy lives in the original's arena. Dims and names live in
 * the context; the data of params are views of the model's file; rows are constant. */
#include "flow.h"

#include <string.h>

typedef struct Cloner {
    Arena *arena;
    Ctx *ctx;
    const Flow *from;
    Flow *to;
} Cloner;

#define COPY(arena, at, n) arena_copy((arena), (at), (size_t)(n) * sizeof *(at))
#define COPY_VEC(arena, to, from_)                                                                 \
    do {                                                                                           \
        (to)->at = COPY((arena), (from_)->at, (from_)->n);                                         \
        (to)->n = (to)->cap = (from_)->n;                                                          \
    } while (0)

static const char *name_copy(Cloner *c, const char *name) {
    return name ? intern(c->ctx, name) : NULL;
}

static Access access_copy(Cloner *c, Access access) {
    access.at = COPY(c->arena, access.at, access.rank);
    return access;
}

static Body body_copy(Cloner *c, const Body *from) {
    Body body = {.arena = c->arena};
    COPY_VEC(c->arena, &body.val, &from->val);
    for (int i = 0; i < body.val.n; i++) {
        Val *val = &body.val.at[i];
        if (val->kind == VAL_READ) val->read = access_copy(c, val->read);
        val->name = name_copy(c, val->name);
    }
    return body;
}

/* ---- containers, combines, maps ---------------------------------------------------------- */

static Cont cont_copy(Cloner *c, const Cont *from) {
    Cont cont = *from;
    cont.name = name_copy(c, from->name);
    cont.from = name_copy(c, from->from);
    cont.object = name_copy(c, from->object);
    cont.shape = COPY(c->arena, from->shape, from->rank);
    if (from->layout) {
        Layout *layout = COPY(c->arena, from->layout, 1);
        layout->map = COPY(c->arena, from->layout->map, layout->rank);
        layout->box = COPY(c->arena, from->layout->box, layout->rank);
        cont.layout = layout;
    }
    if (from->kind == CONT_LITERAL && from->data)
        cont.data = arena_copy(c->arena, from->data, (size_t)from->data_bytes);
    return cont;
}

static const Combine *combine_copy(Cloner *c, const Combine *from) {
    Combine *combine = COPY(c->arena, from, 1);
    combine->name = name_copy(c, from->name);
    combine->merge = body_copy(c, &from->merge);
    combine->finish = body_copy(c, &from->finish);
    return combine;
}

/* The copy of a combine that the text defines; rows of combine.def stay what they are. */
static const Combine *combine_in(Cloner *c, const Combine *combine) {
    for (int i = 0; i < c->from->combine.n; i++)
        if (c->from->combine.at[i] == combine) return c->to->combine.at[i];
    return combine;
}

static Map *map_copy(Cloner *c, const Map *from) {
    Map *map = COPY(c->arena, from, 1);
    map->name = name_copy(c, from->name);
    map->from = name_copy(c, from->from);
    COPY_VEC(c->arena, &map->dim, &from->dim);
    COPY_VEC(c->arena, &map->cons, &from->cons);
    map->body = body_copy(c, &from->body);
    COPY_VEC(c->arena, &map->write, &from->write);
    for (int i = 0; i < map->write.n; i++) {
        Write *write = &map->write.at[i];
        Access *to = COPY(c->arena, write->to, write->n);
        for (int k = 0; k < write->n; k++) to[k] = access_copy(c, to[k]);
        write->to = to;
        write->val = COPY(c->arena, write->val, write->nstate);
        write->combine = combine_in(c, write->combine);
    }
    return map;
}

/* ---- items and kernels ------------------------------------------------------------------- */

static Call *call_copy(Cloner *c, const Call *from) {
    Call *call = COPY(c->arena, from, 1);
    call->name = name_copy(c, from->name);
    call->from = name_copy(c, from->from);
    call->in = COPY(c->arena, from->in, from->nin);
    call->out = COPY(c->arena, from->out, from->nout);
    call->attr = COPY(c->arena, from->attr, from->nattr);
    call->define = COPY(c->arena, from->define, from->ndefine);
    return call;
}

static void items_copy(Cloner *c, Items *to, const Items *from) {
    Items items = {0};
    COPY_VEC(c->arena, &items, from);
    for (int i = 0; i < items.n; i++) {
        Item *item = &items.at[i];
        const Item *old = &from->at[i];
        if (item->call) item->call = call_copy(c, item->call);
        item->from = name_copy(c, item->from);
        COPY_VEC(c->arena, &item->carry, &old->carry);
        items_copy(c, &item->body, &old->body);
        items_copy(c, &item->other, &old->other);
    }
    *to = items;
}

static Kernel *kernel_copy(Cloner *c, const Kernel *from) {
    Kernel *kernel = COPY(c->arena, from, 1);
    kernel->name = name_copy(c, from->name);
    kernel->on = name_copy(c, from->on);
    COPY_VEC(c->arena, &kernel->map, &from->map);
    COPY_VEC(c->arena, &kernel->when, &from->when);
    COPY_VEC(c->arena, &kernel->line, &from->line);
    for (int i = 0; i < kernel->line.n; i++) {
        Line *line = &kernel->line.at[i];
        line->name = name_copy(c, line->name);
        LineArg *arg = COPY(c->arena, line->arg, line->narg);
        for (int k = 0; k < line->narg; k++) arg[k].dim = name_copy(c, arg[k].dim);
        line->arg = arg;
    }
    return kernel;
}

Flow *flow_clone(Arena *arena, const Flow *from) {
    Flow *flow = NEW(arena, Flow);
    Cloner c = {arena, arena_ctx(arena), from, flow};
    *flow = (Flow){.arena = arena, .ctx = c.ctx, .name = name_copy(&c, from->name)};
    flow->arena_bytes = from->arena_bytes;
    flow->loops = from->loops;
    COPY_VEC(arena, &flow->symbol, &from->symbol);
    COPY_VEC(arena, &flow->cont, &from->cont);
    for (int i = 0; i < from->cont.n; i++) flow->cont.at[i] = cont_copy(&c, &from->cont.at[i]);
    COPY_VEC(arena, &flow->require, &from->require);
    for (int i = 0; i < from->require.n; i++)
        flow->require.at[i].from = name_copy(&c, from->require.at[i].from);
    for (int i = 0; i < from->require.n; i++)
        flow->require.at[i].index = name_copy(&c, from->require.at[i].index);
    COPY_VEC(arena, &flow->combine, &from->combine);
    for (int i = 0; i < from->combine.n; i++)
        flow->combine.at[i] = combine_copy(&c, from->combine.at[i]);
    COPY_VEC(arena, &flow->map, &from->map);
    for (int i = 0; i < from->map.n; i++) flow->map.at[i] = map_copy(&c, from->map.at[i]);
    items_copy(&c, &flow->body, &from->body);
    COPY_VEC(arena, &flow->kernel, &from->kernel);
    for (int i = 0; i < from->kernel.n; i++)
        flow->kernel.at[i] = kernel_copy(&c, from->kernel.at[i]);
    COPY_VEC(arena, &flow->alias, &from->alias);
    for (int i = 0; i < from->text.n; i++) flow_text(flow, from->text.at[i].at, from->text.at[i].n);
    if (from->prepare) flow->prepare = flow_clone(arena, from->prepare);
    return flow;
}
