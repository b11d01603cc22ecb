/* SPDX-License-Identifier: Apache-2.0 */
/* Drawings for Graphviz: `weir dump M.onnx --format dot | dot -Tsvg`. */
#include <string.h>

#include "tools/weir/dump.h"

static const char *shape_text(Ctx *ctx, const Dim *shape, int rank) {
    Text t = {.arena = ctx_arena(ctx)};
    text_put(&t, "[");
    for (int k = 0; k < rank; k++) text_printf(&t, "%s%s", k ? "," : "", dim_str(ctx, shape[k]));
    text_put(&t, "]");
    return text_str(&t);
}

/* ---- graphs --------------------------------------------------------------------------------- */

static void put_value(Text *out, const Graph *g, int v, const char *style) {
    const Value *value = &g->value.at[v];
    text_printf(out, "  v%d [shape=ellipse%s, label=", v, style);
    const char *shape =
        value->type.rank >= 0 ? shape_text(g->ctx, value->type.shape, value->type.rank) : "";
    text_json(out, internf(g->ctx, "%s\n%s%s", value->name, dtype_name(value->type.dtype), shape));
    text_put(out, "];\n");
}

static void put_from(Text *out, const Graph *g, int v) {
    const Value *value = &g->value.at[v];
    if (value->kind == VALUE_NODE)
        text_printf(out, "  n%d", value->node);
    else
        text_printf(out, "  v%d", v);
}

static void graph_dot(Text *out, const Graph *g) {
    for (int v = 0; v < g->value.n; v++)
        if (g->value.at[v].kind != VALUE_NODE)
            put_value(out, g, v, g->value.at[v].kind == VALUE_PARAM ? ", style=dashed" : "");
    for (int n = 0; n < g->node.n; n++) {
        const Node *node = &g->node.at[n];
        text_printf(out, "  n%d [shape=box, label=", n);
        text_json(out, internf(g->ctx, "%s\n%s", node->row->name, node->name ? node->name : ""));
        text_put(out, "];\n");
        for (int i = 0; i < node->in.n; i++) {
            if (node->in.at[i] < 0) continue;
            put_from(out, g, node->in.at[i]);
            text_printf(out, " -> n%d [label=", n);
            text_json(out, g->value.at[node->in.at[i]].name);
            text_put(out, "];\n");
        }
    }
    for (int i = 0; i < g->output.n; i++) {
        text_printf(out, "  out%d [shape=ellipse, label=", i);
        text_json(out, g->value.at[g->output.at[i]].name);
        text_put(out, "];\n");
        put_from(out, g, g->output.at[i]);
        text_printf(out, " -> out%d;\n", i);
    }
}

/* ---- flows ---------------------------------------------------------------------------------- */

static void put_map(Text *out, const Flow *f, int m) {
    const Map *map = f->map.at[m];
    Text label = {.arena = ctx_arena(f->ctx)};
    text_printf(&label, "%s\n[", map->name);
    for (int d = 0; d < map->dim.n; d++)
        text_printf(&label, "%s%s:%s", d ? ", " : "", dim_sym_name(map->dim.at[d].sym),
                    dim_str(f->ctx, map->dim.at[d].extent));
    text_put(&label, "]");
    text_printf(out, "  m%d [shape=box, label=", m);
    text_json(out, text_str(&label));
    text_put(out, "];\n");
}

static void map_edges(Text *out, const Flow *f, int m) {
    const Map *map = f->map.at[m];
    bool *seen = NEW_ARRAY(ctx_arena(f->ctx), bool, f->cont.n);
    for (int v = 0; v < map->body.val.n; v++) {
        const Val *val = &map->body.val.at[v];
        if (val->kind != VAL_READ || seen[val->read.cont]) continue;
        seen[val->read.cont] = true;
        text_printf(out, "  c%d -> m%d;\n", val->read.cont, m);
    }
    for (int w = 0; w < map->write.n; w++)
        for (int k = 0; k < map->write.at[w].n; k++)
            text_printf(out, "  m%d -> c%d;\n", m, map->write.at[w].to[k].cont);
}

static void item_edges(Text *out, const Flow *f, const Items *items, int *calls) {
    for (int i = 0; i < items->n; i++) {
        const Item *item = &items->at[i];
        if (item->kind == ITEM_MAP) map_edges(out, f, item->map);
        if (item->kind == ITEM_CALL) {
            int n = (*calls)++;
            text_printf(out, "  call%d [shape=octagon, label=", n);
            text_json(out, item->call->row->name);
            text_put(out, "];\n");
            for (int k = 0; k < item->call->nin; k++)
                if (item->call->in[k] >= 0)
                    text_printf(out, "  c%d -> call%d;\n", item->call->in[k], n);
            for (int k = 0; k < item->call->nout; k++)
                if (item->call->out[k] >= 0)
                    text_printf(out, "  call%d -> c%d;\n", n, item->call->out[k]);
        }
        for (int k = 0; k < item->carry.n; k++)
            text_printf(out, "  c%d -> c%d [style=dashed];\n", item->carry.at[k].next,
                        item->carry.at[k].cur);
        item_edges(out, f, &item->body, calls);
        item_edges(out, f, &item->other, calls);
    }
}

static void flow_dot(Text *out, const Flow *f) {
    bool *drawn = NEW_ARRAY(ctx_arena(f->ctx), bool, f->map.n);
    for (int c = 0; c < f->cont.n; c++) {
        const Cont *cont = &f->cont.at[c];
        text_printf(out, "  c%d [shape=ellipse%s, label=", c,
                    cont->kind == CONT_PARAM ? ", style=dashed" : "");
        text_json(out, internf(f->ctx, "%s\n%s%s", cont->name, dtype_name(cont->type),
                               shape_text(f->ctx, cont->shape, cont->rank)));
        text_put(out, "];\n");
    }
    for (int k = 0; k < f->kernel.n; k++) {
        const Kernel *kernel = f->kernel.at[k];
        text_printf(out, "  subgraph cluster_%d {\n  label=", k);
        text_json(out, kernel->name);
        text_put(out, ";\n");
        for (int i = 0; i < kernel->map.n; i++) {
            if (!drawn[kernel->map.at[i]]) put_map(out, f, kernel->map.at[i]);
            drawn[kernel->map.at[i]] = true;
        }
        text_put(out, "  }\n");
    }
    for (int m = 0; m < f->map.n; m++)
        if (!drawn[m]) put_map(out, f, m);
    int calls = 0;
    item_edges(out, f, &f->body, &calls);
}

void dump_dot(Text *out, const Stage *stage) {
    text_put(out, "digraph weir {\n");
    if (stage->graph)
        graph_dot(out, stage->graph);
    else
        flow_dot(out, stage->flow ? stage->flow : stage->program->flow);
    text_put(out, "}\n");
}
