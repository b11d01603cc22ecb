/* SPDX-License-Identifier: Apache-2.0 */
/* Nodes and edges of a graph or a flow. */
#include "tools/weir/drawing.h"

#include <stdlib.h>
#include <string.h>

#include "ir/move.h"
#include "tools/weir/movement.h"
#include "tools/weir/session.h"

/* `what` is a value of the graph or a container of the flow. */
typedef struct End {
    int node, what;
} End;

typedef struct Making {
    Drawing *d;
    Sizes sizes;
    VEC(End) makes, takes;
    int *seen; /* by container: the last node that takes it, and one */
} Making;

static int add_node(Making *m, DrawNode node) {
    vec_push(m->d->arena, &m->d->node, node);
    return m->d->node.n - 1;
}

static void add_make(Making *m, int node, int what) {
    if (what >= 0) vec_push(m->d->arena, &m->makes, (End){node, what});
}

static void add_take(Making *m, int node, int what) {
    if (what >= 0) vec_push(m->d->arena, &m->takes, (End){node, what});
}

/* Joins ends by what they are of. `first[what]`, `next[make]`: who makes it. */
typedef struct Makers {
    int *first, *next;
} Makers;

static Makers index_makers(const Making *m, int n) {
    Arena *arena = m->d->arena;
    Makers k = {NEW_ARRAY(arena, int, n + 1), NEW_ARRAY(arena, int, m->makes.n + 1)};
    for (int i = 0; i < n; i++) k.first[i] = -1;
    for (int i = m->makes.n - 1; i >= 0; i--) {
        k.next[i] = k.first[m->makes.at[i].what];
        k.first[m->makes.at[i].what] = i;
    }
    return k;
}

static int compare_edges(const void *a, const void *b) {
    const DrawEdge *x = a, *y = b;
    if (x->from != y->from) return x->from < y->from ? -1 : 1;
    if (x->to != y->to) return x->to < y->to ? -1 : 1;
    return strcmp(x->what, y->what);
}

void drawing_sort(Drawing *d) {
    if (d->edge.n) qsort(d->edge.at, (size_t)d->edge.n, sizeof *d->edge.at, compare_edges);
}

/* One edge for all that goes from one node to another. */
static void merge_edges(Ctx *ctx, Drawing *d) {
    int n = 0;
    drawing_sort(d);
    for (int i = 0; i < d->edge.n; i++) {
        DrawEdge *last = n ? &d->edge.at[n - 1] : NULL, *e = &d->edge.at[i];
        if (!last || last->from != e->from || last->to != e->to) {
            d->edge.at[n++] = *e;
        } else if (strcmp(last->what, e->what)) {
            last->what = internf(ctx, "%s, %s", last->what, e->what);
            last->bytes += e->bytes;
        }
    }
    d->edge.n = n;
}

typedef const char *WhatFn(const void *level, const Making *m, int what, double *bytes);

static void join(Making *m, int n, const void *level, WhatFn *what_is) {
    Makers makers = index_makers(m, n);
    for (int t = 0; t < m->takes.n; t++) {
        End take = m->takes.at[t];
        for (int k = makers.first[take.what]; k >= 0; k = makers.next[k]) {
            DrawEdge e = {.from = m->makes.at[k].node, .to = take.node};
            e.what = what_is(level, m, take.what, &e.bytes);
            if (e.from != e.to) vec_push(m->d->arena, &m->d->edge, e);
        }
    }
}

static const char *type_label(Ctx *ctx, DType t, const Dim *shape, int rank) {
    Text out = {.arena = ctx_arena(ctx)};
    text_printf(&out, "%s[", dtype_name(t));
    for (int k = 0; k < rank; k++) text_printf(&out, "%s%s", k ? "," : "", dim_str(ctx, shape[k]));
    text_put(&out, "]");
    return text_str(&out);
}

/* ---- graphs ---------------------------------------------------------------------------------- */

static const char *value_is(const void *level, const Making *m, int what, double *bytes) {
    const Value *v = &((const Graph *)level)->value.at[what];
    bool tensor = v->type.kind == TYPE_TENSOR && v->type.rank >= 0;
    *bytes = tensor ? size_bytes(&m->sizes, v->type.dtype, v->type.shape, v->type.rank) : 0;
    return v->name;
}

static void graph_port(Making *m, const Graph *g, int value, bool input) {
    const Value *v = &g->value.at[value];
    int node = add_node(m, (DrawNode){.name = v->name,
                                      .label = type_str(g->ctx, &v->type),
                                      .kind = input ? "in" : "out",
                                      .class = "",
                                      .from = "",
                                      .group = -1});
    input ? add_make(m, node, value) : add_take(m, node, value);
}

/* What the nested graphs of a node take from outside, it takes. */
static void take_captures(Making *m, int at, const Node *node) {
    for (int a = 0; a < node->attr.n; a++) {
        const Graph *sub = node->attr.at[a].kind == ATTR_GRAPH ? node->attr.at[a].graph : NULL;
        for (int v = 0; sub && v < sub->value.n; v++)
            if (sub->value.at[v].kind == VALUE_OUTER) add_take(m, at, sub->value.at[v].outer);
    }
}

static void draw_graph(Making *m, const Graph *g) {
    m->sizes.symbol = g->symbol.at, m->sizes.n = g->symbol.n;
    for (int i = 0; i < g->input.n; i++) graph_port(m, g, g->input.at[i], true);
    for (int n = 0; n < g->node.n; n++) {
        const Node *node = &g->node.at[n];
        int first = node->out.n ? node->out.at[0] : -1;
        int at = add_node(m, (DrawNode){.name = first >= 0 ? g->value.at[first].name : node->name,
                                        .label = node->row->name,
                                        .kind = "op",
                                        .class = "",
                                        .from = node->name ? node->name : "",
                                        .group = -1});
        for (int i = 0; i < node->in.n; i++) {
            add_take(m, at, node->in.at[i]);
            if (node->in.at[i] >= 0 && g->value.at[node->in.at[i]].kind == VALUE_PARAM)
                m->d->node.at[at].weight_bytes += (double)g->value.at[node->in.at[i]].data_bytes;
        }
        for (int i = 0; i < node->out.n; i++) add_make(m, at, node->out.at[i]);
        take_captures(m, at, node);
    }
    for (int i = 0; i < g->output.n; i++) graph_port(m, g, g->output.at[i], false);
    join(m, g->value.n, g, value_is);
}

/* ---- flows ----------------------------------------------------------------------------------- */

static const char *cont_is(const void *level, const Making *m, int what, double *bytes) {
    const Cont *c = &((const Flow *)level)->cont.at[what];
    *bytes = size_bytes(&m->sizes, c->type, c->shape, c->rank);
    return c->name;
}

static void flow_ports(Making *m, const Flow *f, ContKind kind) {
    for (int c = 0; c < f->cont.n; c++) {
        const Cont *cont = &f->cont.at[c];
        if (cont->kind != kind) continue;
        int node =
            add_node(m, (DrawNode){.name = cont->name,
                                   .label = type_label(f->ctx, cont->type, cont->shape, cont->rank),
                                   .kind = kind == CONT_IN ? "in" : "out",
                                   .class = "",
                                   .from = "",
                                   .group = -1});
        kind == CONT_IN ? add_make(m, node, c) : add_take(m, node, c);
    }
}

static const char *domain_label(const Flow *f, const Map *map) {
    Text label = {.arena = ctx_arena(f->ctx)};
    for (int d = 0; d < map->dim.n; d++)
        text_printf(&label, "%s%s:%s", d ? " " : "", dim_sym_name(map->dim.at[d].sym),
                    dim_str(f->ctx, map->dim.at[d].extent));
    return text_str(&label);
}

/* Its primitives and combines in order. */
static const char *work_of(const Flow *f, const Map *map) {
    Text work = {.arena = ctx_arena(f->ctx)};
    for (int v = 0; v < map->body.val.n; v++)
        if (map->body.val.at[v].kind == VAL_PRIM)
            text_printf(&work, "%d ", (int)map->body.val.at[v].prim);
    for (int w = 0; w < map->write.n; w++)
        text_printf(&work, "%s ", map->write.at[w].combine ? map->write.at[w].combine->name : "=");
    return text_str(&work);
}

static void draw_map(Making *m, const Flow *f, int number, int group) {
    const Map *map = f->map.at[number];
    int at =
        add_node(m, (DrawNode){.name = map->name,
                               .label = domain_label(f, map),
                               .kind = "map",
                               .class = maps_class(f, &number, 1),
                               .look = work_of(f, map),
                               .from = map->from ? map->from : "",
                               .group = group,
                               .flop = size_value(&m->sizes, move_flops(m->d->arena, f, map))});
    for (int v = 0; v < map->body.val.n; v++) {
        const Val *val = &map->body.val.at[v];
        if (val->kind != VAL_READ || m->seen[val->read.cont] == at + 1) continue;
        const Cont *c = &f->cont.at[val->read.cont];
        m->seen[val->read.cont] = at + 1;
        add_take(m, at, val->read.cont);
        if (c->kind == CONT_PARAM)
            m->d->node.at[at].weight_bytes += size_bytes(&m->sizes, c->type, c->shape, c->rank);
    }
    for (int w = 0; w < map->write.n; w++)
        for (int k = 0; k < map->write.at[w].n; k++) add_make(m, at, map->write.at[w].to[k].cont);
}

static void draw_call(Making *m, const Call *call) {
    int at = add_node(m, (DrawNode){.name = call->name,
                                    .label = call->row->name,
                                    .kind = "call",
                                    .class = "call",
                                    .from = call->from ? call->from : "",
                                    .group = -1});
    for (int k = 0; k < call->nin; k++) add_take(m, at, call->in[k]);
    for (int k = 0; k < call->nout; k++) add_make(m, at, call->out[k]);
}

static void draw_items(Making *m, const Flow *f, const Items *items, const int *group) {
    for (int i = 0; i < items->n; i++) {
        const Item *item = &items->at[i];
        if (item->kind == ITEM_MAP) draw_map(m, f, item->map, group[item->map]);
        if (item->kind == ITEM_CALL) draw_call(m, item->call);
        draw_items(m, f, &item->body, group);
        draw_items(m, f, &item->other, group);
    }
}

/* What a loop carries is made by who makes its next value, and by who makes the first. */
static void carry_on(Making *m, const Items *items) {
    for (int i = 0; i < items->n; i++) {
        const Item *item = &items->at[i];
        int n = m->makes.n;
        for (int c = 0; c < item->carry.n; c++)
            for (int k = 0; k < n; k++) {
                End e = m->makes.at[k];
                if (e.what == item->carry.at[c].init || e.what == item->carry.at[c].next)
                    add_make(m, e.node, item->carry.at[c].cur);
            }
        carry_on(m, &item->body);
        carry_on(m, &item->other);
    }
}

static void draw_flow(Making *m, const Flow *f) {
    int *group = NEW_ARRAY(m->d->arena, int, f->map.n + 1);
    m->sizes.symbol = f->symbol.at, m->sizes.n = f->symbol.n;
    m->seen = NEW_ARRAY(m->d->arena, int, f->cont.n + 1);
    for (int i = 0; i < f->map.n; i++) group[i] = -1;
    for (int k = 0; k < f->kernel.n; k++) {
        const Kernel *kernel = f->kernel.at[k];
        for (int i = 0; i < kernel->map.n; i++) group[kernel->map.at[i]] = m->d->group.n;
        if (k + 1 == f->kernel.n || f->kernel.at[k + 1]->name != kernel->name)
            vec_push(m->d->arena, &m->d->group, kernel->name);
    }
    flow_ports(m, f, CONT_IN);
    draw_items(m, f, &f->body, group);
    flow_ports(m, f, CONT_OUT);
    carry_on(m, &f->body);
    join(m, f->cont.n, f, cont_is);
}

Drawing *drawing_make(Arena *arena, const Stage *stage, const InputOptions *sizes) {
    Making m = {.d = NEW(arena, Drawing), .sizes = {.given = sizes}};
    m.d->arena = arena;
    if (stage->graph)
        draw_graph(&m, stage->graph);
    else
        draw_flow(&m, stage_flow(stage));
    merge_edges(stage->graph ? stage->graph->ctx : stage_flow(stage)->ctx, m.d);
    return m.d;
}
