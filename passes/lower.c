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

static void copy_output(Lower *lo, int from, int to) {
    const Cont c = lo->flow->cont.at[to];
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
        lo.cont[g->input.at[i]] = interface_cont(&lo, &g->value.at[g->input.at[i]], CONT_IN);
    for (int i = 0; i < g->output.n; i++) {
        int v = g->output.at[i], c = interface_cont(&lo, &g->value.at[v], CONT_OUT);
        bool first = lo.cont[v] < 0 && g->value.at[v].kind == VALUE_NODE;
        if (first) lo.cont[v] = c;
        copy[i] = first ? -1 : c;
    }
    lower_nodes(&lo);
    for (int i = 0; i < g->output.n; i++)
        if (copy[i] >= 0) copy_output(&lo, lower_cont(&lo, g->output.at[i]), copy[i]);
    return flow;
}
