/* SPDX-License-Identifier: Apache-2.0 */
/* Nodes behind one with branches move into each of them: whoever reads a result whose type only the
 * branch tells stands where that is known. What they give comes out of the branches instead. */
#include "graph.h"

typedef struct Sink {
    Graph *g;
    int at;             /* the node with branches */
    int n;              /* nodes of g, before */
    bool *follows;      /* value: depends on the node */
    bool *moves, *read; /* node: goes into the branches; value: is read by one that does */
} Sink;

typedef void SeeFn(void *user, int value);

/* Every value of g that the node reads, in nested graphs too. */
static void each_read(const Node *node, SeeFn *see, void *user) {
    for (int i = 0; i < node->in.n; i++)
        if (node->in.at[i] >= 0) see(user, node->in.at[i]);
    for (int i = 0; i < node->attr.n; i++) {
        const Graph *sub = node->attr.at[i].graph;
        for (int k = 0; sub && k < sub->value.n; k++)
            if (sub->value.at[k].kind == VALUE_OUTER) see(user, sub->value.at[k].outer);
    }
}

typedef struct Look {
    const bool *in;
    bool found;
} Look;

static void look_at(void *user, int value) {
    Look *look = user;
    look->found = look->found || look->in[value];
}

static bool reads_any(const Node *node, const bool *in) {
    Look look = {in, false};
    each_read(node, look_at, &look);
    return look.found;
}

static void mark_read(void *user, int value) {
    ((bool *)user)[value] = true;
}

static void mark_results(const Node *node, bool *set) {
    for (int i = 0; i < node->out.n; i++)
        if (node->out.at[i] >= 0) set[node->out.at[i]] = true;
}

static bool gives_any(const Node *node, const bool *set) {
    for (int i = 0; i < node->out.n; i++)
        if (node->out.at[i] >= 0 && set[node->out.at[i]]) return true;
    return false;
}

/* Readers of `asked`, then theirs, and so on; and what these need that depends on the node. */
static void choose_moves(Sink *s, const int *asked, int n, int layers) {
    const Graph *g = s->g;
    bool *from = NEW_ARRAY(g->arena, bool, g->value.n + 1);
    for (int i = 0; i < n; i++) from[asked[i]] = true;
    mark_results(&g->node.at[s->at], s->follows);
    for (int i = s->at + 1; i < s->n; i++)
        if (reads_any(&g->node.at[i], s->follows)) mark_results(&g->node.at[i], s->follows);
    for (; layers > 0; layers--) {
        for (int i = s->at + 1; i < s->n; i++)
            s->moves[i] = s->moves[i] || reads_any(&g->node.at[i], from);
        for (int i = s->at + 1; i < s->n; i++)
            if (s->moves[i]) mark_results(&g->node.at[i], from);
    }
    for (int i = s->n - 1; i > s->at; i--) {
        const Node *node = &g->node.at[i];
        bool needed = gives_any(node, s->follows) && gives_any(node, s->read);
        s->moves[i] = s->moves[i] || needed;
        if (s->moves[i]) each_read(node, mark_read, s->read);
    }
}

/* ---- into a branch --------------------------------------------------------------------------- */

typedef struct Branch {
    const Sink *s;
    Graph *into;
    int *value; /* of `into`, for each of s->g; -1: not there yet */
} Branch;

static bool has_name(const Graph *g, const char *name) {
    for (int i = 0; i < g->value.n; i++)
        if (g->value.at[i].name == name) return true;
    return false;
}

/* Names are interned, and each stands once in a graph. */
const char *graph_free_name(const Graph *g, const char *name) {
    const char *to = name;
    for (int i = 1; has_name(g, to); i++) to = internf(g->ctx, "%s.%d", name, i);
    return to;
}

int graph_capture(Graph *g, int value) {
    for (int i = 0; i < g->value.n; i++)
        if (g->value.at[i].kind == VALUE_OUTER && g->value.at[i].outer == value) return i;
    const Value *from = &g->outer->value.at[value];
    Value capture = {.kind = VALUE_OUTER, .outer = value, .type = from->type};
    capture.name = graph_free_name(g, intern(g->ctx, from->name));
    return graph_value(g, capture);
}

static int value_into(Branch *b, int v) {
    if (b->value[v] < 0) b->value[v] = graph_capture(b->into, v);
    return b->value[v];
}

static void node_into(Branch *b, const Node *from) {
    Graph *g = b->into;
    Node node = node_clone(g->arena, from, g);
    for (int i = 0; i < node.in.n; i++)
        if (node.in.at[i] >= 0) node.in.at[i] = value_into(b, node.in.at[i]);
    for (int i = 0; i < node.attr.n; i++) {
        Graph *sub = node.attr.at[i].graph;
        for (int k = 0; sub && k < sub->value.n; k++)
            if (sub->value.at[k].kind == VALUE_OUTER)
                sub->value.at[k].outer = value_into(b, sub->value.at[k].outer);
    }
    for (int i = 0; i < node.out.n; i++) {
        int v = node.out.at[i];
        if (v < 0) continue;
        Value to = b->s->g->value.at[v];
        to.name = graph_free_name(g, intern(g->ctx, to.name));
        to.node = g->node.n;
        node.out.at[i] = b->value[v] = graph_value(g, to);
    }
    vec_push(g->arena, &g->node, node);
}

static void fill_branch(const Sink *s, Graph *into, const bool *gone, const int *leaves, int n) {
    const Node *node = &s->g->node.at[s->at];
    int *value = NEW_ARRAY(into->arena, int, s->g->value.n), kept = 0;
    Branch b = {s, into, value};
    for (int i = 0; i < s->g->value.n; i++) value[i] = -1;
    for (int i = 0; i < node->out.n; i++)
        if (node->out.at[i] >= 0) value[node->out.at[i]] = into->output.at[i];
    for (int i = s->at + 1; i < s->n; i++)
        if (s->moves[i]) node_into(&b, &s->g->node.at[i]);
    for (int i = 0; i < node->out.n; i++)
        if (node->out.at[i] >= 0 && !gone[node->out.at[i]])
            into->output.at[kept++] = into->output.at[i];
    into->output.n = kept;
    for (int i = 0; i < n; i++) vec_push(into->arena, &into->output, value[leaves[i]]);
}

/* ---- the graph around ------------------------------------------------------------------------ */

/* The node stands behind all that does not depend on it. */
static void reorder(Sink *s) {
    Graph *g = s->g;
    Node *old = arena_copy(g->arena, g->node.at, sizeof *old * (size_t)s->n);
    g->node.n = s->at;
    for (int i = s->at + 1; i < s->n; i++)
        if (!s->moves[i] && !reads_any(&old[i], s->follows)) vec_push(g->arena, &g->node, old[i]);
    vec_push(g->arena, &g->node, old[s->at]);
    for (int i = s->at + 1; i < s->n; i++)
        if (!s->moves[i] && reads_any(&old[i], s->follows)) vec_push(g->arena, &g->node, old[i]);
    for (int i = s->at; i < g->node.n; i++)
        for (int k = 0; k < g->node.at[i].out.n; k++) {
            int v = g->node.at[i].out.at[k];
            if (v >= 0) g->value.at[v].node = i, g->value.at[v].result = k;
        }
}

/* What nobody reads any more is no result; what leaves the branches becomes one. */
static void change_results(Sink *s, const bool *gone, const int *leaves, int n) {
    Node *node = &s->g->node.at[s->at];
    int kept = 0;
    for (int i = 0; i < node->out.n; i++)
        if (node->out.at[i] >= 0 && !gone[node->out.at[i]]) node->out.at[kept++] = node->out.at[i];
    node->out.n = kept;
    for (int i = 0; i < n; i++) vec_push(s->g->arena, &node->out, leaves[i]);
}

static void renumber(int *at, int n, const int *to) {
    for (int i = 0; i < n; i++)
        if (at[i] >= 0) at[i] = to[at[i]];
}

static void drop_values(Graph *g, const bool *gone) {
    int *to = NEW_ARRAY(g->arena, int, g->value.n + 1), n = 0;
    for (int i = 0; i < g->value.n; i++) {
        to[i] = gone[i] ? -1 : n;
        if (!gone[i]) g->value.at[n++] = g->value.at[i];
    }
    g->value.n = n;
    renumber(g->input.at, g->input.n, to);
    renumber(g->output.at, g->output.n, to);
    for (int i = 0; i < g->node.n; i++) {
        const Node *node = &g->node.at[i];
        renumber(node->in.at, node->in.n, to);
        renumber(node->out.at, node->out.n, to);
        for (int k = 0; k < node->attr.n; k++) {
            Graph *sub = node->attr.at[k].graph;
            for (int j = 0; sub && j < sub->value.n; j++)
                if (sub->value.at[j].kind == VALUE_OUTER) renumber(&sub->value.at[j].outer, 1, to);
        }
    }
}

/* What of the node's results and of those of moved nodes stays in g, or does not. */
static void sort_results(const Sink *s, const bool *used, bool *gone, int *leaves, int *n) {
    for (int i = s->at; i < s->n; i++)
        for (int k = 0; (i == s->at || s->moves[i]) && k < s->g->node.at[i].out.n; k++) {
            int v = s->g->node.at[i].out.at[k];
            if (v < 0) continue;
            gone[v] = !used[v];
            if (i > s->at && used[v]) leaves[(*n)++] = v;
        }
}

bool graph_sink(Graph *g, int at, const int *asked, int n, int layers) {
    int values = g->value.n + 1, nleaves = 0;
    int *leaves = NEW_ARRAY(g->arena, int, values);
    bool *used = NEW_ARRAY(g->arena, bool, values), *gone = NEW_ARRAY(g->arena, bool, values);
    bool any = false;
    Sink s = {g,
              at,
              g->node.n,
              NEW_ARRAY(g->arena, bool, values),
              NEW_ARRAY(g->arena, bool, g->node.n),
              NEW_ARRAY(g->arena, bool, values)};
    choose_moves(&s, asked, n, layers);
    for (int i = at + 1; i < s.n; i++) {
        any = any || s.moves[i];
        if (!s.moves[i]) each_read(&g->node.at[i], mark_read, used);
    }
    for (int i = 0; i < g->output.n; i++) used[g->output.at[i]] = true;
    for (int i = 0; i < n; i++) any = any || !used[asked[i]];
    if (!any) return false;
    sort_results(&s, used, gone, leaves, &nleaves);
    for (int i = 0; i < g->node.at[at].attr.n; i++)
        if (g->node.at[at].attr.at[i].graph)
            fill_branch(&s, g->node.at[at].attr.at[i].graph, gone, leaves, nleaves);
    change_results(&s, gone, leaves, nleaves);
    reorder(&s);
    drop_values(g, gone);
    return true;
}
