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
    OnnxNode *const *node;
    int n;
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
    for (size_t i = 0; i < g->n_input; i++) define(&local, g->input[i]->name);
    for (size_t i = 0; i < g->n_initializer; i++) define(&local, g->initializer[i]->name);
    for (size_t i = 0; i < g->n_node; i++)
        for (size_t k = 0; k < g->node[i]->n_output; k++) define(&local, g->node[i]->output[k]);
    for (size_t i = 0; i < g->n_node; i++) collect_uses(o, &local, g->node[i]);
    for (size_t i = 0; i < g->n_output; i++)
        if (g->output[i]->name) use(o, &local, g->output[i]->name);
}

static void collect_uses(Order *o, const Local *local, const OnnxNode *node) {
    for (size_t i = 0; i < node->n_input; i++) use(o, local, node->input[i]);
    for (size_t i = 0; i < node->n_attribute; i++)
        if (node->attribute[i]->g) collect_graph(o, local, node->attribute[i]->g);
}

static void collect_producers(Order *o) {
    for (int i = 0; i < o->n; i++) {
        const OnnxNode *node = o->node[i];
        for (size_t k = 0; k < node->n_output; k++) {
            const char *name = node->output[k];
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
                name, text_or(o->node[dep]->name, ""));
        state[dep] = OPEN;
        stack[depth++] = (Visit){dep, first[dep]};
    }
    return count;
}

const int *import_order(Import *im, OnnxNode *const *node, int n) {
    int count = 0;
    Order o = {im, node, n, table_new(im->arena), {0}};
    int *order = NEW_ARRAY(im->arena, int, n), *first = NEW_ARRAY(im->arena, int, n + 1);
    char *state = NEW_ARRAY(im->arena, char, n);
    Visit *stack = NEW_ARRAY(im->arena, Visit, n);
    collect_producers(&o);
    for (int i = 0; i < n; i++) {
        first[i] = o.uses.n;
        collect_uses(&o, NULL, node[i]);
    }
    first[n] = o.uses.n;
    for (int root = 0; root < n; root++)
        if (state[root] == NEW_NODE) count = visit(&o, root, first, state, stack, order, count);
    return order;
}
