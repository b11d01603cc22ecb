/* SPDX-License-Identifier: Apache-2.0 */
/* A loop that changes the rank of what it carries: its first iteration becomes nodes of its own, so
 * that the loop over the others carries the rank that the first one leaves.
 *
 *     y, slices = Loop(n, c, x)
 *
 * becomes, with the body written down for iteration 0 and then looped over from 1 on,
 *
 *     y, slices = If(c and n > 0) { c1, x1, s1 = body(0, true, x)
 *                                   y, rest = Loop(n - 1, c1, x1) { body(i + 1, ..) }
 *                                   slices = Concat(s1, rest) }
 *                              else { y = x,  slices = those of Loop(0, .., x) }
 *
 * A condition that is known leaves one branch; else what follows branches of different rank moves
 * into them. */
#include "control.h"

enum { OPSET = 21 }; /* of the nodes that are added */

typedef struct Peel {
    Node loop;
    const Graph *body;
    int carried;
    const OpTable *ops;
} Peel;

static const int64_t zero = 0, one = 1;
static const uint8_t yes = 1;

static int constant(Graph *g, DType t, int rank, const void *data) {
    static const char *const name = "peeled";
    Value v = {.name = graph_free_name(g, intern(g->ctx, name)), .kind = VALUE_PARAM, .data = data};
    Dim *shape = NEW_ARRAY(g->arena, Dim, 1);
    shape[0] = dim_const(g->ctx, 1);
    v.type = (Type){TYPE_TENSOR, t, rank, shape, NULL};
    v.data_bytes = dtype_bytes(t, 1);
    return graph_value(g, v);
}

static int result(Graph *g, Node *node, const char *name) {
    Value v = {.kind = VALUE_NODE, .name = graph_free_name(g, intern(g->ctx, name))};
    int value = graph_value(g, v);
    vec_push(g->arena, &node->out, value);
    return value;
}

static Node node_of(const Peel *p, const Graph *g, const char *op) {
    return (Node){.name = internf(g->ctx, "%s/peeled", p->loop.name),
                  .row = op_find(p->ops, "", op, OPSET),
                  .version = OPSET};
}

/* Appends a node with one result. */
static int added(const Peel *p, Graph *g, const char *op, int a, int b) {
    Node node = node_of(p, g, op);
    vec_push(g->arena, &node.in, a);
    vec_push(g->arena, &node.in, b);
    int value = result(g, &node, "peeled");
    vec_push(g->arena, &g->node, node);
    return value;
}

/* Values of nodes say where these stand. */
static void number_results(Graph *g) {
    for (int i = 0; i < g->node.n; i++)
        for (int k = 0; k < g->node.at[i].out.n; k++) {
            int v = g->node.at[i].out.at[k];
            if (v >= 0) g->value.at[v].node = i, g->value.at[v].result = k;
        }
}

/* ---- the loop over the other iterations ------------------------------------------------------ */

/* A copy of the body inside graph `in`. */
static Graph *body_in(const Peel *p, Graph *in) {
    Graph *body = graph_clone(in->arena, p->body);
    body->outer = in;
    body->symbol.n = 0;
    for (int i = 0; i < body->value.n; i++)
        if (body->value.at[i].kind == VALUE_OUTER)
            body->value.at[i].outer = graph_capture(in, body->value.at[i].outer);
    return body;
}

/* What the body takes for the number of its iteration is one more. */
static void start_at_one(const Peel *p, Graph *body) {
    int old = body->input.at[0], n = body->node.n;
    Value index = body->value.at[old];
    index.name = graph_free_name(body, internf(body->ctx, "%s.rest", index.name));
    Node *nodes = body->node.at;
    body->node.at = NULL, body->node.n = body->node.cap = 0;
    body->input.at[0] = graph_value(body, index);
    Node add = node_of(p, body, "Add");
    vec_push(body->arena, &add.in, body->input.at[0]);
    vec_push(body->arena, &add.in, constant(body, I64, 0, &one));
    vec_push(body->arena, &add.out, old);
    body->value.at[old].kind = VALUE_NODE;
    vec_push(body->arena, &body->node, add);
    for (int i = 0; i < n; i++) vec_push(body->arena, &body->node, nodes[i]);
    number_results(body);
}

/* A loop over a copy of the body from what `from` carries; its results are new values. */
static Node loop_in(const Peel *p, Graph *in, int count, int cond, const int *from, Graph *body) {
    Node loop = {.name = p->loop.name, .row = p->loop.row, .version = p->loop.version};
    loop.peeled = p->loop.peeled + 1;
    vec_push(in->arena, &loop.in, count);
    vec_push(in->arena, &loop.in, cond);
    for (int i = 0; i < p->carried; i++) vec_push(in->arena, &loop.in, from[i]);
    for (int i = 0; i < p->loop.attr.n; i++) {
        Attr a = p->loop.attr.at[i];
        if (a.kind == ATTR_GRAPH) a.graph = body;
        vec_push(in->arena, &loop.attr, a);
    }
    for (int i = 1; i < body->output.n; i++)
        result(in, &loop, body->value.at[body->output.at[i]].name);
    return loop;
}

/* ---- the branches ---------------------------------------------------------------------------- */

static void becomes_constant(Value *v, DType t, const void *data) {
    const char *name = v->name;
    *v = (Value){.kind = VALUE_PARAM, .name = name, .data = data, .data_bytes = dtype_bytes(t, 1)};
    v->type = (Type){.kind = TYPE_TENSOR, .dtype = t};
}

/* The body's inputs in iteration 0, as the graph around has them. */
static void enter_body(const Peel *p, Graph *g) {
    becomes_constant(control_input(g, 0), I64, &zero);
    becomes_constant(control_input(g, 1), BOOL, &yes);
    for (int i = 0; i < p->carried; i++) {
        Value *v = control_input(g, 2 + i);
        v->kind = VALUE_OUTER;
        v->outer = p->loop.in.at[2 + i];
    }
    g->input.n = 0;
}

static Graph *some_branch(const Peel *p, Graph *g) {
    Graph *to = graph_clone(g->arena, p->body);
    int n = to->output.n, *first = arena_copy(g->arena, to->output.at, sizeof(int) * (size_t)n);
    to->symbol.n = 0;
    enter_body(p, to);
    Graph *body = body_in(p, to);
    start_at_one(p, body);
    int count = -1;
    if (!nn_absent(&p->loop, 0))
        count =
            added(p, to, "Sub", graph_capture(to, p->loop.in.at[0]), constant(to, I64, 0, &one));
    Node rest = loop_in(p, to, count, first[0], first + 1, body);
    vec_push(to->arena, &to->node, rest);
    to->output.n = 0;
    for (int i = 0; i < rest.out.n; i++) {
        int out = rest.out.at[i];
        if (i >= p->carried) {
            int slice = added(p, to, "Unsqueeze", first[1 + i], constant(to, I64, 1, &zero));
            out = added(p, to, "Concat", slice, out);
            Attr axis = {.name = intern(g->ctx, "axis"), .kind = ATTR_INT};
            vec_push(to->arena, &to->node.at[to->node.n - 1].attr, axis);
        }
        vec_push(to->arena, &to->output, out);
    }
    number_results(to);
    return to;
}

static Graph *none_branch(const Peel *p, Graph *g) {
    Graph *to = graph_new(g->arena, "none", g);
    int *from = NEW_ARRAY(g->arena, int, p->carried + 1);
    for (int i = 0; i < p->carried; i++) {
        from[i] = graph_capture(to, p->loop.in.at[2 + i]);
        vec_push(to->arena, &to->output, from[i]);
    }
    if (p->loop.out.n == p->carried) return to;
    int count = constant(to, I64, 0, &zero), cond = constant(to, BOOL, 0, &yes);
    Node loop = loop_in(p, to, count, cond, from, body_in(p, to));
    vec_push(to->arena, &to->node, loop);
    for (int i = p->carried; i < loop.out.n; i++) vec_push(to->arena, &to->output, loop.out.at[i]);
    number_results(to);
    return to;
}

/* ---- instead of the loop --------------------------------------------------------------------- */

/* Is there an iteration? */
static int condition(const Peel *p, Graph *g) {
    int cond = nn_absent(&p->loop, 1) ? -1 : p->loop.in.at[1];
    if (!nn_absent(&p->loop, 0)) {
        int some = added(p, g, "Greater", p->loop.in.at[0], constant(g, I64, 0, &zero));
        return cond < 0 ? some : added(p, g, "And", cond, some);
    }
    return cond < 0 ? constant(g, BOOL, 0, &yes) : cond;
}

void loop_peel(Graph *g, int at, const OpTable *ops) {
    int n = g->node.n;
    Node *nodes = arena_copy(g->arena, g->node.at, sizeof *nodes * (size_t)n);
    Peel p = {.loop = nodes[at], .ops = ops};
    p.body = control_body(g->ctx, &p.loop, "body");
    p.carried = p.loop.in.n > 2 ? p.loop.in.n - 2 : 0;
    g->node.n = at;
    Node branch = node_of(&p, g, "If");
    int cond = condition(&p, g);
    vec_push(g->arena, &branch.in, cond);
    for (int i = 0; i < p.loop.out.n; i++) vec_push(g->arena, &branch.out, p.loop.out.at[i]);
    Graph *way[] = {some_branch(&p, g), none_branch(&p, g)};
    for (int i = 0; i < 2; i++) {
        Attr a = {.name = intern(g->ctx, i ? "else_branch" : "then_branch"), .kind = ATTR_GRAPH};
        a.graph = way[i];
        vec_push(g->arena, &branch.attr, a);
    }
    vec_push(g->arena, &g->node, branch);
    for (int i = at + 1; i < n; i++) vec_push(g->arena, &g->node, nodes[i]);
    number_results(g);
}
