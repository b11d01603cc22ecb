/* SPDX-License-Identifier: Apache-2.0 */
/* Pass `lower`: operators become maps and calls over containers, by their rows.
 *
 * Inputs and outputs come first, in the model's order. A result that is an output is computed in
 * the output's container; outputs that are inputs, parameters or an earlier output are copied. */
#include "pass.h"

static int interface_cont(Lower *lo, const Value *v, ContKind kind) {
    const Type *t = &v->type;
    bool tensor = t->kind == TYPE_TENSOR;
    if (tensor && t->rank < 0)
        fail(lo->ctx, E_UNSUPPORTED,
             "\"%s\" has no rank: declare the shape of this input or output in the "
             "model, symbolic dims are enough",
             v->name);
    int c = flow_cont(lo->flow, v->name, kind, tensor ? t->dtype : OBJECT, t->shape,
                      tensor ? t->rank : 0);
    lo->flow->cont.at[c].from = v->name;
    if (!tensor) lo->flow->cont.at[c].object = type_str(lo->ctx, t);
    return c;
}

/* The operand of the row `call` in another container, in another form. */
static void convert(Lower *lo, const char *call, int from, int to) {
    lower_call(lo, call, &from, 1, &to, 1, NULL, 0, NULL, 0);
}

/* An input as its readers take it. */
static int input_cont(Lower *lo, const Value *v) {
    int c = interface_cont(lo, v, CONT_IN);
    const Cont in = lo->flow->cont.at[c];
    if (lower_type(in.type) == in.type) return c;
    int to = flow_cont(lo->flow, internf(lo->ctx, "%s.in", in.name), CONT_TMP, lower_type(in.type),
                       in.shape, in.rank);
    lo->flow->cont.at[to].from = in.from;
    convert(lo, "string_from", c, to);
    return to;
}

static void copy_output(Lower *lo, int from, int to) {
    const Cont c = lo->flow->cont.at[to];
    if (lower_type(c.type) != c.type) {
        convert(lo, "string_to", from, to);
        return;
    }
    Map *m = flow_map(lo->flow, lo->into, internf(lo->ctx, "%s.out", c.name), c.from);
    Dim at[RANK_MAX];
    lower_dims(lo, m, c.shape, c.rank, at);
    map_write(lo->flow, m, to, at, lower_read_broadcast(lo, m, from, at, c.rank), NULL);
}

Flow *pass_lower(Arena *arena, const Graph *g, const PassEnv *env);
Flow *pass_lower(Arena *arena, const Graph *g, const PassEnv *env) {
    Flow *flow = flow_new(arena, g->name);
    Lower lo = {.ctx = g->ctx,
                .arena = arena,
                .flow = flow,
                .into = &flow->body,
                .graph = g,
                .ops = env->ops};
    int *copy = NEW_ARRAY(arena, int, g->output.n);
    lo.cont = NEW_ARRAY(arena, int, g->value.n);
    for (int i = 0; i < g->symbol.n; i++) vec_push(arena, &flow->symbol, g->symbol.at[i]);
    for (int i = 0; i < g->require.n; i++) vec_push(arena, &flow->require, g->require.at[i]);
    for (int i = 0; i < g->value.n; i++) lo.cont[i] = -1;
    for (int i = 0; i < g->input.n; i++)
        lo.cont[g->input.at[i]] = input_cont(&lo, &g->value.at[g->input.at[i]]);
    for (int i = 0; i < g->output.n; i++) {
        int v = g->output.at[i], c = interface_cont(&lo, &g->value.at[v], CONT_OUT);
        bool first = lo.cont[v] < 0 && g->value.at[v].kind == VALUE_NODE &&
                     lower_type(g->value.at[v].type.dtype) == flow->cont.at[c].type;
        if (first) lo.cont[v] = c;
        copy[i] = first ? -1 : c;
    }
    lower_nodes(&lo);
    for (int i = 0; i < g->output.n; i++)
        if (copy[i] >= 0) copy_output(&lo, lower_cont(&lo, g->output.at[i]), copy[i]);
    return flow;
}
