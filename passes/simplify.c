/* SPDX-License-Identifier: Apache-2.0 */
/* Pass `simplify`: equal small integer and scalar parameters and equal nodes become one, nodes and
 * values that nobody needs are dropped. Nodes are equal when row, version, operands and attributes
 * are; those with nested graphs, random ones and those whose result is an output (it keeps its
 * name) are left alone. A node that stays keeps its first result: lowerings write it unasked, and
 * `clean` drops what nobody reads. */
#include "pass.h"

#include <string.h>

enum { SMALL_BYTES = 4096 };

/* ---- equality ------------------------------------------------------------------------------- */

static bool type_equal(const Type *a, const Type *b) {
    if (a->kind != b->kind || a->dtype != b->dtype || a->rank != b->rank || !a->elem != !b->elem ||
        !dims_equal(a->shape, b->shape, a->rank))
        return false;
    return !a->elem || type_equal(a->elem, b->elem);
}

static bool data_equal(const Value *a, const Value *b) {
    return a->data && b->data && a->data_bytes == b->data_bytes && type_equal(&a->type, &b->type) &&
           (a->data == b->data || !memcmp(a->data, b->data, (size_t)a->data_bytes));
}

static bool strings_equal(const Attr *a, const Attr *b) {
    for (int i = 0; i < a->n; i++)
        if (a->string_bytes[i] != b->string_bytes[i] ||
            memcmp(a->strings[i], b->strings[i], (size_t)a->string_bytes[i]))
            return false;
    return true;
}

static bool attr_equal(const Attr *a, const Attr *b) {
    if (a->name != b->name || a->kind != b->kind || a->n != b->n) return false;
    switch (a->kind) {
    case ATTR_INT: return a->i == b->i;
    case ATTR_FLOAT: return !memcmp(&a->f, &b->f, sizeof a->f);
    case ATTR_STRING: return !memcmp(a->s, b->s, (size_t)a->n);
    case ATTR_TENSOR: return data_equal(&a->tensor, &b->tensor);
    case ATTR_GRAPH: return false;
    case ATTR_INTS: return !a->n || !memcmp(a->ints, b->ints, sizeof *a->ints * (size_t)a->n);
    case ATTR_FLOATS:
        return !a->n || !memcmp(a->floats, b->floats, sizeof *a->floats * (size_t)a->n);
    case ATTR_STRINGS: return strings_equal(a, b);
    case ATTR_TYPE: return type_equal(&a->type, &b->type);
    }
    return false;
}

static bool node_equal(const Node *a, const Node *b) {
    if (a->row != b->row || a->version != b->version || a->in.n != b->in.n ||
        a->out.n != b->out.n || a->attr.n != b->attr.n)
        return false;
    for (int i = 0; i < a->in.n; i++)
        if (a->in.at[i] != b->in.at[i]) return false;
    for (int i = 0; i < a->out.n; i++)
        if ((a->out.at[i] < 0) != (b->out.at[i] < 0)) return false;
    for (int i = 0; i < a->attr.n; i++)
        if (!attr_equal(&a->attr.at[i], &b->attr.at[i])) return false;
    return true;
}

/* ---- merging -------------------------------------------------------------------------------- */

/* Chains of candidates by hash: table from hash to the first, next from each to the next. */
typedef struct Merge {
    Graph *g;
    int *same; /* value -> the one it equals */
    int *next; /* of a chain; -1: its end */
    int *head; /* by hash */
    int size;
} Merge;

static void merge_start(Merge *m, int n) {
    m->size = 2 * n + 16;
    m->head = NEW_ARRAY(m->g->arena, int, m->size);
    m->next = NEW_ARRAY(m->g->arena, int, n + 1);
    for (int i = 0; i < m->size; i++) m->head[i] = -1;
}

static void merge_params(Merge *m) {
    merge_start(m, m->g->value.n);
    for (int i = 0; i < m->g->value.n; i++) {
        const Value *v = &m->g->value.at[i];
        bool weight = !type_is_integral(v->type.dtype) && type_count(&v->type) != 1;
        if (v->kind != VALUE_PARAM || !v->data || weight || v->data_bytes > SMALL_BYTES) continue;
        int slot =
            (int)(hash_bytes(v->type.dtype, v->data, (size_t)v->data_bytes) % (uint64_t)m->size);
        int k = m->head[slot];
        while (k >= 0 && !data_equal(&m->g->value.at[k], v)) k = m->next[k];
        if (k >= 0) {
            m->same[i] = k;
            continue;
        }
        m->next[i] = m->head[slot];
        m->head[slot] = i;
    }
}

static bool mergeable(const Node *node, const bool *is_output) {
    if (node->row->flags & OP_ONCE) return false;
    for (int i = 0; i < node->attr.n; i++)
        if (node->attr.at[i].kind == ATTR_GRAPH) return false;
    for (int i = 0; i < node->out.n; i++)
        if (node->out.at[i] >= 0 && is_output[node->out.at[i]]) return false;
    return true;
}

static void rename_captures(const Graph *outer, Graph *sub, const int *same) {
    for (int i = 0; i < sub->value.n; i++) {
        Value *v = &sub->value.at[i];
        if (v->kind == VALUE_OUTER && sub->outer == outer) v->outer = same[v->outer];
    }
}

static void rename_node(Merge *m, Node *node) {
    for (int i = 0; i < node->in.n; i++)
        if (node->in.at[i] >= 0) node->in.at[i] = m->same[node->in.at[i]];
    for (int i = 0; i < node->attr.n; i++)
        if (node->attr.at[i].graph) rename_captures(m->g, node->attr.at[i].graph, m->same);
}

/* Sizes that data tells are symbols of the node that finds them. Those of a node that goes are the
 * other's from then on, which they must be able to be. */
static bool is_found(const Graph *g, Dim size) {
    const Graph *root = graph_root(g);
    for (int i = 0; i < root->symbol.n; i++)
        if (root->symbol.at[i].sym == size) return root->symbol.at[i].upper != NULL;
    return false;
}

static bool sizes_merge(const Graph *g, const Type *keep, const Type *drop) {
    if (keep->rank != drop->rank) return false;
    for (int i = 0; i < keep->rank; i++)
        if (keep->shape[i] != drop->shape[i] && !is_found(g, drop->shape[i])) return false;
    return keep->kind == TYPE_TENSOR || type_equal(keep, drop);
}

static bool results_merge(const Graph *g, const Node *keep, const Node *drop) {
    for (int i = 0; i < keep->out.n; i++)
        if (keep->out.at[i] >= 0 &&
            !sizes_merge(g, &g->value.at[keep->out.at[i]].type, &g->value.at[drop->out.at[i]].type))
            return false;
    return true;
}

static void merge_results(Merge *m, const Node *keep, const Node *drop) {
    for (int i = 0; i < keep->out.n; i++) {
        if (keep->out.at[i] < 0) continue;
        const Type *to = &m->g->value.at[keep->out.at[i]].type,
                   *from = &m->g->value.at[drop->out.at[i]].type;
        for (int k = 0; k < to->rank; k++)
            if (from->shape[k] != to->shape[k])
                graph_subst((Graph *)graph_root(m->g), from->shape[k], to->shape[k]);
        m->same[drop->out.at[i]] = keep->out.at[i];
    }
}

static void merge_nodes(Merge *m, const bool *is_output) {
    Graph *g = m->g;
    merge_start(m, g->node.n);
    for (int i = 0; i < g->node.n; i++) {
        Node *node = &g->node.at[i];
        rename_node(m, node);
        if (!mergeable(node, is_output)) continue;
        uint64_t hash =
            hash_bytes((uint64_t)(uintptr_t)0, node->in.at, sizeof(int) * (size_t)node->in.n);
        hash = hash_bytes(hash, node->row->name, strlen(node->row->name));
        int slot = (int)(hash % (uint64_t)m->size), k = m->head[slot];
        while (k >= 0 &&
               !(node_equal(&g->node.at[k], node) && results_merge(g, &g->node.at[k], node)))
            k = m->next[k];
        if (k >= 0) {
            merge_results(m, &g->node.at[k], node);
            continue;
        }
        m->next[i] = m->head[slot];
        m->head[slot] = i;
    }
}

/* ---- what is needed ------------------------------------------------------------------------- */

static void need_captures(const Graph *sub, bool *needed) {
    for (int i = 0; i < sub->value.n; i++)
        if (sub->value.at[i].kind == VALUE_OUTER) needed[sub->value.at[i].outer] = true;
}

static bool *find_needed(const Graph *g, bool *keep) {
    bool *needed = NEW_ARRAY(g->arena, bool, g->value.n + 1);
    for (int i = 0; i < g->output.n; i++) needed[g->output.at[i]] = true;
    for (int i = 0; i < g->input.n; i++) needed[g->input.at[i]] = true;
    for (int i = g->node.n; i-- > 0;) {
        const Node *node = &g->node.at[i];
        keep[i] = (node->row->flags & OP_SIDE) != 0;
        for (int k = 0; k < node->out.n; k++)
            keep[i] = keep[i] || (node->out.at[k] >= 0 && needed[node->out.at[k]]);
        if (!keep[i]) continue;
        if (node->out.n && node->out.at[0] >= 0) needed[node->out.at[0]] = true;
        for (int k = 0; k < node->in.n; k++)
            if (node->in.at[k] >= 0) needed[node->in.at[k]] = true;
        for (int k = 0; k < node->attr.n; k++)
            if (node->attr.at[k].graph) need_captures(node->attr.at[k].graph, needed);
    }
    return needed;
}

static void renumber(const Graph *g, const int *number, Node *node, int place) {
    for (int k = 0; k < node->in.n; k++)
        if (node->in.at[k] >= 0) node->in.at[k] = number[node->in.at[k]];
    for (int k = 0; k < node->out.n; k++) {
        if (node->out.at[k] < 0) continue;
        node->out.at[k] = number[node->out.at[k]];
        if (node->out.at[k] >= 0) g->value.at[node->out.at[k]].node = place;
    }
    for (int k = 0; k < node->attr.n; k++)
        if (node->attr.at[k].graph) rename_captures(g, node->attr.at[k].graph, number);
}

static void drop_unneeded(Graph *g) {
    bool *keep = NEW_ARRAY(g->arena, bool, g->node.n + 1), *needed = find_needed(g, keep);
    int *number = NEW_ARRAY(g->arena, int, g->value.n + 1), values = 0, nodes = 0;
    for (int i = 0; i < g->value.n; i++) {
        number[i] = needed[i] ? values : -1;
        if (needed[i]) g->value.at[values++] = g->value.at[i];
    }
    g->value.n = values;
    for (int i = 0; i < g->node.n; i++) {
        if (!keep[i]) continue;
        g->node.at[nodes] = g->node.at[i];
        renumber(g, number, &g->node.at[nodes], nodes);
        nodes++;
    }
    g->node.n = nodes;
    for (int i = 0; i < g->input.n; i++) g->input.at[i] = number[g->input.at[i]];
    for (int i = 0; i < g->output.n; i++) g->output.at[i] = number[g->output.at[i]];
}

/* ---- the pass ------------------------------------------------------------------------------- */

/* Inner graphs first: what they no longer capture may fall away outside. */
static void simplify(Graph *g) {
    for (int i = 0; i < g->node.n; i++)
        for (int k = 0; k < g->node.at[i].attr.n; k++)
            if (g->node.at[i].attr.at[k].graph) simplify(g->node.at[i].attr.at[k].graph);
    Merge m = {.g = g, .same = NEW_ARRAY(g->arena, int, g->value.n + 1)};
    bool *is_output = NEW_ARRAY(g->arena, bool, g->value.n + 1);
    for (int i = 0; i < g->value.n; i++) m.same[i] = i;
    for (int i = 0; i < g->output.n; i++) is_output[g->output.at[i]] = true;
    merge_params(&m);
    merge_nodes(&m, is_output);
    drop_unneeded(g);
}

Graph *pass_simplify(Arena *arena, const Graph *g, const PassEnv *env);
Graph *pass_simplify(Arena *arena, const Graph *g, const PassEnv *env) {
    (void)env;
    Graph *out = graph_clone(arena, g);
    simplify(out);
    return out;
}
