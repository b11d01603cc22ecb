/* SPDX-License-Identifier: Apache-2.0 */
/* Topological order of the nodes of a graph or function.
 *
 * Depth first from each node in the file's order, with a stack of our own, so a file that is sorted
 * keeps its order. What nested graphs capture counts as used by the node that holds them. */
#include "import.h"

typedef struct Visit {
    int node, next; /* next dependency to look at */
} Visit;

/* Names defined in a nested graph, and in those around it. */
typedef struct Local {
    Table *names;
    const struct Local *outer;
} Local;

typedef struct Order {
    Import *im;
    const OnnxNodes *nodes;
    Table *producer; /* tensor name -> node + 1 */
    VEC(const char *) uses;
} Order;

static void use(Order *o, const Local *local, const char *name) {
    for (const Local *l = local; l; l = l->outer)
        if (table_get(l->names, name)) return;
    if (table_get(o->producer, name)) vec_push(o->im->arena, &o->uses, name);
}

static void define(Local *local, const char *name) {
    if (name) table_put(local->names, name, (void *)name);
}

static void collect_uses(Order *o, const Local *local, const OnnxNode *node);

static void collect_graph(Order *o, const Local *outer, const OnnxGraph *g) {
    Local local = {table_new(o->im->arena), outer};
    for (int i = 0; i < g->input.n; i++) define(&local, g->input.at[i].name);
    for (int i = 0; i < g->initializer.n; i++) define(&local, g->initializer.at[i].name);
    for (int i = 0; i < g->node.n; i++)
        for (int k = 0; k < g->node.at[i].output.n; k++) define(&local, g->node.at[i].output.at[k]);
    for (int i = 0; i < g->node.n; i++) collect_uses(o, &local, &g->node.at[i]);
    for (int i = 0; i < g->output.n; i++)
        if (g->output.at[i].name) use(o, &local, g->output.at[i].name);
}

static void collect_uses(Order *o, const Local *local, const OnnxNode *node) {
    for (int i = 0; i < node->input.n; i++) use(o, local, node->input.at[i]);
    for (int i = 0; i < node->attribute.n; i++)
        if (node->attribute.at[i].g) collect_graph(o, local, node->attribute.at[i].g);
}

static void collect_producers(Order *o) {
    for (int i = 0; i < o->nodes->n; i++) {
        const OnnxNode *node = &o->nodes->at[i];
        for (int k = 0; k < node->output.n; k++) {
            const char *name = node->output.at[k];
            if (!name[0]) continue;
            if (table_get(o->producer, name))
                fail(o->im->ctx, E_MODEL,
                     "tensor \"%s\" is the result of two nodes, the second \"%s\": names must be "
                     "unique",
                     name, node->name ? node->name : "");
            table_put(o->producer, name, (void *)(intptr_t)(i + 1));
        }
    }
}

enum { NEW_NODE, OPEN, DONE };

/* Emits `root` and what it depends on. */
static int visit(Order *o, int root, const int *first, char *state, Visit *stack, int *order,
                 int count) {
    int depth = 0;
    state[root] = OPEN;
    stack[depth++] = (Visit){root, first[root]};
    while (depth) {
        Visit *v = &stack[depth - 1];
        if (v->next == first[v->node + 1]) {
            state[v->node] = DONE;
            order[count++] = v->node;
            depth--;
            continue;
        }
        const char *name = o->uses.at[v->next++];
        int dep = (int)(intptr_t)table_get(o->producer, name) - 1;
        if (state[dep] == DONE) continue;
        if (state[dep] == OPEN)
            fail(
                o->im->ctx, E_MODEL,
                "the graph has a cycle through tensor \"%s\" of node \"%s\": ONNX graphs have none",
                name, o->nodes->at[dep].name ? o->nodes->at[dep].name : "");
        state[dep] = OPEN;
        stack[depth++] = (Visit){dep, first[dep]};
    }
    return count;
}

const int *import_order(Import *im, const OnnxNodes *nodes) {
    int n = nodes->n, count = 0;
    Order o = {im, nodes, table_new(im->arena), {0}};
    int *order = NEW_ARRAY(im->arena, int, n), *first = NEW_ARRAY(im->arena, int, n + 1);
    char *state = NEW_ARRAY(im->arena, char, n);
    Visit *stack = NEW_ARRAY(im->arena, Visit, n);
    collect_producers(&o);
    for (int i = 0; i < n; i++) {
        first[i] = o.uses.n;
        collect_uses(&o, NULL, &nodes->at[i]);
    }
    first[n] = o.uses.n;
    for (int root = 0; root < n; root++)
        if (state[root] == NEW_NODE) count = visit(&o, root, first, state, stack, order, count);
    return order;
}
