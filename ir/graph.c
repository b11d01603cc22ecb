/* SPDX-License-Identifier: Apache-2.0 */
/* Building and copying graphs, finding operators.
 *
 * A clone owns everything that is not weight data: names are interned in the context, shapes, known
 * values and attribute lists are copied, `data` stays the view it was. So whoever makes new weight
 * data must put it where it outlives the passes: the context's arena, or the mapped file. */
#include "graph.h"

#include <string.h>

Dim graph_unknown_dim(Ctx *ctx) {
    return dim_sym(ctx, intern(ctx, "unknown"));
}

Graph *graph_new(Arena *arena, const char *name, const Graph *outer) {
    Graph *g = NEW(arena, Graph);
    g->arena = arena;
    g->ctx = arena_ctx(arena);
    g->name = intern(g->ctx, name);
    g->outer = outer;
    return g;
}

int graph_value(Graph *g, Value v) {
    vec_push(g->arena, &g->value, v);
    return g->value.n - 1;
}

const Graph *graph_root(const Graph *g) {
    while (g->outer) g = g->outer;
    return g;
}

DimEnv graph_env(Arena *arena, const Graph *g) {
    const Graph *root = graph_root(g);
    Ctx *ctx = g->ctx;
    DimRange *range = NEW_ARRAY(arena, DimRange, root->symbol.n);
    for (int i = 0; i < root->symbol.n; i++) {
        const Symbol *s = &root->symbol.at[i];
        Dim hi = s->upper ? s->upper : s->hi == INT64_MAX ? NULL : dim_const(ctx, s->hi);
        range[i] = (DimRange){s->sym, dim_const(ctx, s->lo), hi};
    }
    return (DimEnv){range, root->symbol.n};
}

static Type type_clone(Arena *arena, const Type *t) {
    Type to = *t;
    if (t->shape)
        to.shape = arena_copy(arena, t->shape, sizeof(Dim) * (size_t)(t->rank > 0 ? t->rank : 0));
    if (t->elem) {
        Type *elem = NEW(arena, Type);
        *elem = type_clone(arena, t->elem);
        to.elem = elem;
    }
    return to;
}

int64_t type_count(const Type *t) {
    int64_t count = 1;
    if (t->kind != TYPE_TENSOR || t->rank < 0) return -1;
    for (int i = 0; i < t->rank; i++) {
        int64_t d;
        if (!dim_is_const(t->shape[i], &d) || __builtin_mul_overflow(count, d, &count)) return -1;
    }
    return count;
}

static Value value_clone(Arena *arena, const Value *v) {
    Value to = *v;
    int64_t count = type_count(&v->type);
    to.type = type_clone(arena, &v->type);
    if (v->known) to.known = arena_copy(arena, v->known, sizeof(Dim) * (size_t)count);
    to.partly = NULL;
    if (v->strings) {
        to.strings = arena_copy(arena, v->strings, sizeof *v->strings * (size_t)count);
        to.string_bytes =
            arena_copy(arena, v->string_bytes, sizeof *v->string_bytes * (size_t)count);
    }
    return to;
}

static Graph *clone(Arena *arena, const Graph *g, const Graph *outer);

static Attr attr_clone(Arena *arena, const Attr *a, const Graph *outer) {
    Attr to = *a;
    size_t n = (size_t)a->n;
    if (a->ints) to.ints = arena_copy(arena, a->ints, n * sizeof *a->ints);
    if (a->floats) to.floats = arena_copy(arena, a->floats, n * sizeof *a->floats);
    if (a->strings) to.strings = arena_copy(arena, a->strings, n * sizeof *a->strings);
    if (a->string_bytes)
        to.string_bytes = arena_copy(arena, a->string_bytes, n * sizeof *a->string_bytes);
    if (a->kind == ATTR_TENSOR) to.tensor = value_clone(arena, &a->tensor);
    if (a->kind == ATTR_TYPE) to.type = type_clone(arena, &a->type);
    if (a->graph) to.graph = clone(arena, a->graph, outer);
    return to;
}

Node node_clone(Arena *arena, const Node *node, const Graph *outer) {
    Node to = {node->name, node->row,      node->version, {0},         {0},
               {0},        node->composed, node->serial,  node->split, node->peeled};
    for (int i = 0; i < node->in.n; i++) vec_push(arena, &to.in, node->in.at[i]);
    for (int i = 0; i < node->out.n; i++) vec_push(arena, &to.out, node->out.at[i]);
    for (int i = 0; i < node->attr.n; i++)
        vec_push(arena, &to.attr, attr_clone(arena, &node->attr.at[i], outer));
    return to;
}

static Graph *clone(Arena *arena, const Graph *g, const Graph *outer) {
    Graph *to = graph_new(arena, g->name, outer);
    for (int i = 0; i < g->symbol.n; i++) vec_push(arena, &to->symbol, g->symbol.at[i]);
    for (int i = 0; i < g->require.n; i++) vec_push(arena, &to->require, g->require.at[i]);
    for (int i = 0; i < g->value.n; i++)
        vec_push(arena, &to->value, value_clone(arena, &g->value.at[i]));
    for (int i = 0; i < g->node.n; i++)
        vec_push(arena, &to->node, node_clone(arena, &g->node.at[i], to));
    for (int i = 0; i < g->input.n; i++) vec_push(arena, &to->input, g->input.at[i]);
    for (int i = 0; i < g->output.n; i++) vec_push(arena, &to->output, g->output.at[i]);
    return to;
}

Graph *graph_clone(Arena *arena, const Graph *g) {
    return clone(arena, g, g->outer);
}

/* ---- one symbol or term less ----------------------------------------------------------------- */

static const Dim *dims_subst(Graph *g, const Dim *at, int64_t n, const DimSubst *subst) {
    Dim *to = NULL;
    for (int64_t i = 0; i < n; i++) {
        bool symbol = dim_sym_name(subst->sym);
        Dim d = symbol ? dim_subst(g->ctx, at[i], subst, 1)
                       : dim_replace(g->ctx, at[i], subst->sym, subst->to);
        if (d == at[i]) continue;
        if (!to) to = arena_copy(g->arena, at, sizeof *to * (size_t)n);
        to[i] = d;
    }
    return to ? to : at;
}

static void type_subst(Graph *g, Type *t, const DimSubst *subst) {
    t->shape = dims_subst(g, t->shape, t->rank, subst);
    if (!t->elem) return;
    Type elem = *t->elem;
    type_subst(g, &elem, subst);
    t->elem = arena_copy(g->arena, &elem, sizeof elem);
}

static void values_subst(Graph *g, const DimSubst *subst) {
    for (int i = 0; i < g->value.n; i++) {
        Value *v = &g->value.at[i];
        if (v->known) v->known = dims_subst(g, v->known, type_count(&v->type), subst);
        v->partly = NULL;
        type_subst(g, &v->type, subst);
    }
    for (int i = 0; i < g->node.n; i++)
        for (int k = 0; k < g->node.at[i].attr.n; k++)
            if (g->node.at[i].attr.at[k].graph) values_subst(g->node.at[i].attr.at[k].graph, subst);
}

void graph_subst(Graph *g, Dim sym, Dim to) {
    DimSubst subst = {sym, to};
    int n = 0;
    values_subst(g, &subst);
    for (int i = 0; i < g->symbol.n; i++) {
        Symbol s = g->symbol.at[i];
        if (s.upper) s.upper = dim_subst(g->ctx, s.upper, &subst, 1);
        if (s.sym != sym) g->symbol.at[n++] = s;
    }
    g->symbol.n = n;
}

/* ---- finding --------------------------------------------------------------------------------- */

const Attr *node_attr(const Node *node, const char *name) {
    for (int i = 0; i < node->attr.n; i++)
        if (!strcmp(node->attr.at[i].name, name)) return &node->attr.at[i];
    return NULL;
}

const OpRow *op_find(const OpTable *table, const char *domain, const char *name, int version) {
    for (int i = 0; i < table->n; i++)
        for (const OpRow *row = table->family[i]; row->name; row++) {
            if (strcmp(row->name, name) || strcmp(row->domain, domain)) continue;
            if (version >= row->since && (!row->until || version <= row->until)) return row;
        }
    return NULL;
}
