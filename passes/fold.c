/* SPDX-License-Identifier: Apache-2.0 */
/* Pass `fold`: small nodes whose operands are constant become parameters.
 *
 * The node alone is made a graph, lowered like any other and run by the evaluator, so folding can
 * never mean something else than compiling. The new data lives as long as the context. What is
 * larger, or larger than its operands (codes that are decoded), is left to the flow. */
#include "graph_passes.h"

#include <string.h>

enum { FOLD_BYTES = 1 << 16, OPERAND_BYTES = 1 << 20, GROWN_BYTES = 1 << 8 };

Flow *pass_lower(Arena *arena, const Graph *g, const PassEnv *env);
Graph *pass_fold(Arena *arena, const Graph *g, const PassEnv *env);

static bool plain_type(DType t) {
    return dtype_is_float(t) || dtype_is_int(t) || t == BOOL;
}

static bool all_const_known(const Value *v) {
    int64_t count = type_count(&v->type);
    for (int64_t i = 0; v->known && i < count; i++)
        if (!dim_is_const(v->known[i], NULL)) return false;
    return v->known && count >= 0;
}

/* Elements known as constants, as packed data. */
static void *known_data(Arena *arena, const Value *v) {
    DType t = v->type.dtype;
    int64_t count = type_count(&v->type), x = 0;
    void *data = arena_alloc(arena, (size_t)dtype_bytes(t, count));
    for (int64_t i = 0; i < count; i++) {
        dim_is_const(v->known[i], &x);
        mem_set(t, data, i, bits_of_int(t, x));
    }
    return data;
}

static void become_param(Value *v, const void *data) {
    v->data = data;
    v->data_bytes = dtype_bytes(v->type.dtype, type_count(&v->type));
    v->kind = VALUE_PARAM;
    v->known = NULL;
}

/* The value as a parameter; false when it is not constant. What is known inside a nested graph may
 * be known for one iteration or under a condition only, so there parameters alone count. */
static bool constant_value(const Graph *g, Arena *arena, const Value *v, Value *to) {
    if (type_count(&v->type) < 0 || !plain_type(v->type.dtype)) return false;
    const Value *source = value_source(g, v);
    *to = *source;
    if (source->kind == VALUE_PARAM && source->data) return !source->hidden;
    *to = *v;
    if (g->outer || !all_const_known(v)) return false;
    become_param(to, known_data(arena, v));
    return true;
}

/* Are there results, all small tensors of numbers, and known already? */
static bool results_fit(Infer *in, int64_t most, bool *known) {
    int used = 0;
    *known = true;
    for (int i = 0; i < in->node->out.n; i++) {
        const Value *v = infer_out(in, i);
        if (!v) continue;
        int64_t count = type_count(&v->type);
        if (count < 0 || !plain_type(v->type.dtype)) return false;
        if (count > most || dtype_bytes(v->type.dtype, count) > most) return false;
        *known = *known && all_const_known(v);
        used++;
    }
    return used;
}

/* A graph of this node alone, or NULL. */
static Graph *isolate(Infer *in, Arena *arena) {
    const Node *node = in->node;
    Graph *g = graph_new(arena, "fold", NULL);
    Node copy = *node;
    memset(&copy.in, 0, sizeof copy.in);
    memset(&copy.out, 0, sizeof copy.out);
    int64_t bytes = 0, made = 0;
    for (int i = 0; i < node->in.n; i++) {
        const Value *v = infer_in(in, i);
        Value constant = {0};
        if (v && !constant_value(in->graph, arena, v, &constant)) return NULL;
        bytes += constant.data_bytes;
        vec_push(arena, &copy.in, v ? graph_value(g, constant) : -1);
    }
    for (int i = 0; i < node->out.n; i++) {
        const Value *v = infer_out(in, i);
        Value result = v ? *v : (Value){0};
        if (v) made += dtype_bytes(v->type.dtype, type_count(&v->type));
        result.node = 0;
        vec_push(arena, &copy.out, v ? graph_value(g, result) : -1);
        if (v) vec_push(arena, &g->output, copy.out.at[i]);
    }
    vec_push(arena, &g->node, copy);
    return bytes <= OPERAND_BYTES && (made <= bytes || made <= GROWN_BYTES) ? g : NULL;
}

/* Evaluates the graph of the node; its results go to the context's arena. */
static void evaluate(Infer *in, Arena *scratch, const Graph *g) {
    PassEnv env = {.ops = in->ops};
    Flow *flow = pass_lower(scratch, g, &env);
    Tensor *out = NEW_ARRAY(scratch, Tensor, g->output.n);
    flow_eval(scratch, flow, NULL, out, 1);
    for (int i = 0, k = 0; i < in->node->out.n; i++) {
        Value *v = infer_out(in, i);
        if (!v) continue;
        int64_t bytes = dtype_bytes(v->type.dtype, type_count(&v->type));
        become_param(v, arena_copy(ctx_arena(in->ctx), out[k++].data, (size_t)bytes));
    }
}

void fold_node(Infer *in, int64_t most) {
    const Node *node = in->node;
    bool known;
    if ((node->row->flags & OP_ONCE) || !results_fit(in, most, &known)) return;
    for (int i = 0; i < node->attr.n; i++)
        if (node->attr.at[i].kind == ATTR_GRAPH) return;
    Arena *scratch = arena_new(in->ctx);
    Graph *g = known && !in->graph->outer ? NULL : isolate(in, scratch);
    if (g && !known) evaluate(in, scratch, g);
    if (known && (g || !in->graph->outer))
        for (int i = 0; i < node->out.n; i++)
            if (infer_out(in, i))
                become_param(infer_out(in, i), known_data(ctx_arena(in->ctx), infer_out(in, i)));
    for (int i = 0; i < node->out.n; i++)
        if (infer_out(in, i) && infer_out(in, i)->kind == VALUE_PARAM) in->node->out.at[i] = -1;
    arena_free(scratch);
}

static void fold_done(Infer *in) {
    fold_node(in, FOLD_BYTES);
}

Graph *pass_fold(Arena *arena, const Graph *g, const PassEnv *env) {
    Graph *out = graph_clone(arena, g);
    Infer in = {.ctx = g->ctx, .arena = arena, .graph = out, .ops = env->ops};
    Where where = g->ctx->where;
    for (int i = 0; i < out->node.n; i++) {
        in.node = &out->node.at[i];
        node_where(g->ctx, in.node);
        fold_done(&in);
    }
    g->ctx->where = where;
    return out;
}
