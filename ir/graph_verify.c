/* SPDX-License-Identifier: Apache-2.0 */
/* Is a graph what graph.h demands? Names, topological order, producers, captures, types' symbols.
 * Whether types fit an operator is known to its row: `infer` finds that. */
#include "graph_text.h"
#include "verify.h"

typedef struct GraphVerify {
    Verify v; /* first */
    const Graph *g;
} GraphVerify;

static void verify_type(GraphVerify *gv, const Type *type, const void *object, int depth) {
    Verify *v = &gv->v;
    if (depth > 50) complain(v, object, gv->g, "a type nests too deeply");
    bool tensor = type->kind == TYPE_TENSOR || type->kind == TYPE_SPARSE;
    if (tensor && (type->rank < -1 || type->rank > RANK_MAX))
        complain(v, object, gv->g, "rank %d", type->rank);
    for (int i = 0; tensor && i < type->rank; i++)
        if (type->shape[i] != graph_unknown_dim(gv->g->ctx))
            verify_dim(v, type->shape[i], object, gv->g, "a type");
    bool elem =
        type->kind == TYPE_SEQUENCE || type->kind == TYPE_OPTIONAL || type->kind == TYPE_MAP;
    if (elem && !type->elem) complain(v, object, gv->g, "a type lacks its element's");
    if (elem) verify_type(gv, type->elem, object, depth + 1);
}

static void verify_value(GraphVerify *gv, int number, Table *names) {
    Verify *v = &gv->v;
    const Graph *g = gv->g;
    const Value *value = &g->value.at[number];
    if (!value->name) complain(v, value, g, "value %d has no name", number);
    const char *name = intern(v->ctx, value->name);
    if (table_get(names, name)) complain(v, value, g, "two values are named \"%s\"", name);
    table_put(names, name, (void *)value);
    verify_type(gv, &value->type, value, 0);
    int64_t count = type_count(&value->type);
    if (value->known && (count < 0 || count > KNOWN_MAX))
        complain(v, value, g, "\"%s\" has known elements but no known number of them", name);
    if (value->known) verify_dims(v, value->known, (int)count, value, g, "a known element");
    bool outside = !g->outer || value->outer < 0 || value->outer >= g->outer->value.n;
    if (value->kind == VALUE_OUTER && outside)
        complain(v, value, g, "\"%s\" captures nothing", name);
    if (value->kind != VALUE_NODE) return;
    bool made = value->node >= 0 && value->node < g->node.n && value->result >= 0 &&
                value->result < g->node.at[value->node].out.n &&
                g->node.at[value->node].out.at[value->result] == number;
    if (!made) complain(v, value, g, "\"%s\" is not a result of its node", name);
}

static void verify_nested(GraphVerify *outer, const Node *node, const Graph *sub);

static void verify_node(GraphVerify *gv, int number, bool *ready) {
    Verify *v = &gv->v;
    const Graph *g = gv->g;
    const Node *node = &g->node.at[number];
    if (!node->row) complain(v, node, g, "node %d has no operator", number);
    for (int i = 0; i < node->in.n; i++) {
        int in = node->in.at[i];
        if (in < -1 || in >= g->value.n) complain(v, node, g, "operand %d does not exist", i);
        if (in >= 0 && !ready[in])
            complain(v, node, g, "operand \"%s\" is made later: nodes are not in order",
                     g->value.at[in].name);
    }
    for (int i = 0; i < node->attr.n; i++) {
        const Attr *attr = &node->attr.at[i];
        for (int k = 0; k < i; k++)
            if (node->attr.at[k].name == attr->name)
                complain(v, node, g, "attribute \"%s\" stands twice", attr->name);
        if (attr->kind == ATTR_GRAPH) verify_nested(gv, node, attr->graph);
    }
    for (int i = 0; i < node->out.n; i++) {
        int out = node->out.at[i];
        if (out < -1 || out >= g->value.n) complain(v, node, g, "result %d does not exist", i);
        if (out < 0) continue;
        const Value *value = &g->value.at[out];
        if (value->kind != VALUE_NODE || value->node != number || value->result != i)
            complain(v, node, g, "result \"%s\" is also made elsewhere", value->name);
        ready[out] = true;
    }
}

static void verify_symbols(GraphVerify *gv) {
    Verify *v = &gv->v;
    for (int i = 0; i < gv->g->symbol.n; i++) {
        const Symbol *s = &gv->g->symbol.at[i];
        if (verify_known(v, s->sym))
            complain(v, gv->g, NULL, "symbol \"%s\" stands twice", dim_sym_name(s->sym));
        if (s->upper) verify_dim(v, s->upper, gv->g, NULL, "a symbol's upper bound");
        vec_push(v->arena, &v->range, (DimRange){s->sym, dim_const(v->ctx, s->lo), s->upper});
    }
}

static void verify_graph(GraphVerify *gv) {
    Verify *v = &gv->v;
    const Graph *g = gv->g;
    int symbols = v->range.n;
    verify_symbols(gv);
    Table *names = table_new(v->arena);
    bool *ready = NEW_ARRAY(v->arena, bool, g->value.n);
    for (int i = 0; i < g->value.n; i++) {
        verify_value(gv, i, names);
        ready[i] = g->value.at[i].kind != VALUE_NODE;
    }
    for (int i = 0; i < g->input.n; i++) {
        int in = g->input.at[i];
        if (in < 0 || in >= g->value.n || g->value.at[in].kind != VALUE_INPUT)
            complain(v, g, NULL, "input %d of \"%s\" is not an input value", i, g->name);
    }
    for (int i = 0; i < g->node.n; i++) verify_node(gv, i, ready);
    for (int i = 0; i < g->output.n; i++)
        if (g->output.at[i] < 0 || g->output.at[i] >= g->value.n || !ready[g->output.at[i]])
            complain(v, g, NULL, "output %d of \"%s\" is not made", i, g->name);
    v->range.n = symbols;
}

/* Faults inside are shown in the whole outermost graph, whose symbols nested types use. */
static void verify_nested(GraphVerify *outer, const Node *node, const Graph *sub) {
    if (!sub || sub->outer != outer->g)
        complain(&outer->v, node, outer->g, "a nested graph does not know the graph around it");
    GraphVerify gv = *outer;
    gv.g = sub;
    verify_graph(&gv);
}

static void print_whole(Printer *p, const void *graph) {
    graph_print_marked(p, graph);
}

void graph_verify(const Graph *g) {
    Arena *arena = arena_new(g->ctx);
    GraphVerify gv = {.g = g};
    gv.v = (Verify){.ctx = g->ctx, .arena = arena, .whole = g, .what = "graph", .name = g->name};
    gv.v.print = print_whole;
    if (g->outer) BUG("a nested graph is verified with the one around it");
    vec_push(arena, &gv.v.range, (DimRange){.sym = dim_sym(g->ctx, DIM_UNKNOWN)});
    verify_graph(&gv);
    arena_free(arena);
}
