/* SPDX-License-Identifier: Apache-2.0 */
/* Stages as JSON. Dims are text, as in an .ir file. */
#include "tools/weir/dump.h"

static void put_key(Text *out, const char *key, const char *value) {
    text_printf(out, "\"%s\": ", key);
    text_json(out, value ? value : "");
}

static void put_dims(Text *out, Ctx *ctx, const char *key, const Dim *dim, int n) {
    text_printf(out, "\"%s\": [", key);
    for (int k = 0; k < n; k++) {
        text_put(out, k ? ", " : "");
        text_json(out, dim_str(ctx, dim[k]));
    }
    text_put(out, "]");
}

static void next_item(Text *out, bool *first) {
    text_put(out, *first ? "\n    {" : ",\n    {");
    *first = false;
}

static void open_list(Text *out, const char *key, bool *first) {
    text_printf(out, ",\n  \"%s\": [", key);
    *first = true;
}

/* ---- graph ---------------------------------------------------------------------------------- */

static void put_value_names(Text *out, const Graph *g, const char *key, const int *value, int n) {
    text_printf(out, "\"%s\": [", key);
    for (int i = 0; i < n; i++) {
        text_put(out, i ? ", " : "");
        text_json(out, value[i] < 0 ? "" : g->value.at[value[i]].name);
    }
    text_put(out, "]");
}

static void graph_json(Text *out, const Graph *g) {
    bool first;
    text_put(out, "{\"level\": \"graph\", ");
    put_key(out, "name", g->name);
    text_put(out, ",\n  ");
    put_value_names(out, g, "inputs", g->input.at, g->input.n);
    text_put(out, ",\n  ");
    put_value_names(out, g, "outputs", g->output.at, g->output.n);
    open_list(out, "values", &first);
    for (int i = 0; i < g->value.n; i++) {
        const Value *v = &g->value.at[i];
        next_item(out, &first);
        put_key(out, "name", v->name);
        text_put(out, ", ");
        put_key(out, "type", v->type.kind == TYPE_TENSOR ? dtype_name(v->type.dtype) : "");
        text_put(out, ", ");
        put_dims(out, g->ctx, "shape", v->type.shape, v->type.rank > 0 ? v->type.rank : 0);
        text_printf(out, ", \"param\": %s}", v->kind == VALUE_PARAM ? "true" : "false");
    }
    text_put(out, "]");
    open_list(out, "nodes", &first);
    for (int i = 0; i < g->node.n; i++) {
        const Node *node = &g->node.at[i];
        next_item(out, &first);
        put_key(out, "name", node->name);
        text_put(out, ", ");
        put_key(out, "op", node->row->name);
        text_put(out, ", ");
        put_key(out, "domain", node->row->domain);
        text_put(out, ", ");
        put_value_names(out, g, "inputs", node->in.at, node->in.n);
        text_put(out, ", ");
        put_value_names(out, g, "outputs", node->out.at, node->out.n);
        text_put(out, "}");
    }
    text_put(out, "]}\n");
}

/* ---- flow ----------------------------------------------------------------------------------- */

static void put_access(Text *out, const Flow *f, const Access *a) {
    text_put(out, "{");
    put_key(out, "container", f->cont.at[a->cont].name);
    text_put(out, ", ");
    put_dims(out, f->ctx, "at", a->at, a->rank);
    text_put(out, "}");
}

static void put_map(Text *out, const Flow *f, const Map *m) {
    put_key(out, "name", m->name);
    text_put(out, ", ");
    put_key(out, "from", m->from);
    text_put(out, ", \"dims\": [");
    for (int d = 0; d < m->dim.n; d++) {
        text_put(out, d ? ", {" : "{");
        put_key(out, "name", dim_sym_name(m->dim.at[d].sym));
        text_put(out, ", ");
        put_key(out, "extent", dim_str(f->ctx, m->dim.at[d].extent));
        text_printf(out, ", \"seq\": %s, \"reduced\": %s}", m->dim.at[d].seq ? "true" : "false",
                    map_reduces(m, d) ? "true" : "false");
    }
    text_put(out, "], \"reads\": [");
    bool some = false;
    for (int v = 0; v < m->body.val.n; v++) {
        if (m->body.val.at[v].kind != VAL_READ) continue;
        text_put(out, some ? ", " : "");
        put_access(out, f, &m->body.val.at[v].read);
        some = true;
    }
    text_put(out, "], \"writes\": [");
    some = false;
    for (int w = 0; w < m->write.n; w++)
        for (int k = 0; k < m->write.at[w].n; k++) {
            text_put(out, some ? ", " : "");
            put_access(out, f, &m->write.at[w].to[k]);
            some = true;
        }
    text_put(out, "]");
}

static void put_kernel(Text *out, const Flow *f, const Kernel *k) {
    put_key(out, "name", k->name);
    text_put(out, ", ");
    put_key(out, "on", k->on);
    text_put(out, ", ");
    put_dims(out, f->ctx, "when", k->when.at, k->when.n);
    text_put(out, ", \"maps\": [");
    for (int i = 0; i < k->map.n; i++) {
        text_put(out, i ? ", " : "");
        text_json(out, f->map.at[k->map.at[i]]->name);
    }
    text_put(out, "]");
}

static void flow_parts(Text *out, const Flow *f) {
    static const char *const kind[] = {"in", "out", "param", "tmp", "state", "literal"};
    bool first;
    open_list(out, "containers", &first);
    for (int i = 0; i < f->cont.n; i++) {
        const Cont *c = &f->cont.at[i];
        next_item(out, &first);
        put_key(out, "name", c->name);
        text_put(out, ", ");
        put_key(out, "kind", kind[c->kind]);
        text_put(out, ", ");
        put_key(out, "type", dtype_name(c->type));
        text_put(out, ", ");
        put_dims(out, f->ctx, "shape", c->shape, c->rank);
        if (c->layout) {
            text_put(out, ", ");
            put_dims(out, f->ctx, "storage", c->layout->box, c->layout->rank);
        }
        text_put(out, "}");
    }
    text_put(out, "]");
    open_list(out, "maps", &first);
    for (int i = 0; i < f->map.n; i++) {
        next_item(out, &first);
        put_map(out, f, f->map.at[i]);
        text_put(out, "}");
    }
    text_put(out, "]");
    open_list(out, "kernels", &first);
    for (int i = 0; i < f->kernel.n; i++) {
        next_item(out, &first);
        put_kernel(out, f, f->kernel.at[i]);
        text_put(out, "}");
    }
    text_put(out, "]");
}

void dump_json(Text *out, const Stage *stage) {
    if (stage->graph) {
        graph_json(out, stage->graph);
        return;
    }
    const Flow *f = stage->flow ? stage->flow : stage->program->flow;
    bool first;
    text_printf(out, "{\"level\": \"%s\", ", stage->program ? "nest" : "flow");
    put_key(out, "name", f->name);
    flow_parts(out, f);
    if (stage->program) open_list(out, "nests", &first);
    for (int i = 0; stage->program && i < stage->program->nest.n; i++) {
        Text text = {.arena = out->arena};
        nest_print(&text, stage->program->nest.at[i]);
        next_item(out, &first);
        put_key(out, "name", stage->program->nest.at[i]->name);
        text_put(out, ", ");
        put_key(out, "text", text_str(&text));
        text_put(out, "}");
    }
    text_put(out, stage->program ? "]}\n" : "}\n");
}
