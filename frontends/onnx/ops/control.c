/* SPDX-License-Identifier: Apache-2.0 */
/* If, Loop, Scan.
 *
 * A condition that is known at compile time leaves one branch, lowered in place. Else both branches
 * write the same containers. Loops carry their values in containers: `cur` holds what the body
 * reads, `next` is what it computed. Results that collect one slice per iteration are containers
 * over the loop's variable; when the number of iterations depends on data their first dim is a
 * symbol that the loop defines. Carried shapes must not change. */
#include "nn.h"

#include <string.h>

static Graph *body_of(Ctx *ctx, const Node *node, const char *name) {
    const Attr *a = node_attr(node, name);
    if (!a || a->kind != ATTR_GRAPH)
        fail(ctx, E_ATTRIBUTE, "attribute \"%s\" must be a graph", name);
    return a->graph;
}

static const Value *result_of(const Graph *g, int i) {
    return &g->value.at[g->output.at[i]];
}

static Value *input_of(Graph *g, int i) {
    return &g->value.at[g->input.at[i]];
}

static void check_count(Ctx *ctx, const char *what, int have, int need) {
    if (have != need) fail(ctx, E_MODEL, "the body has %d %s: it needs %d", have, what, need);
}

/* An integer or bool operand, if all is known about it; -1 else. */
static int64_t known_scalar(Ctx *ctx, const Graph *graph, const Node *node, int i) {
    Graph *g = (Graph *)graph;
    Infer in = {.ctx = ctx, .arena = g->arena, .graph = g, .node = (Node *)node};
    const Dim *at;
    int n;
    int64_t v;
    return infer_known(&in, i, &at, &n) && n == 1 && dim_is_const(at[0], &v) ? v : -1;
}

static void tensors_only(const Infer *in, const Value *v) {
    if (v->type.kind != TYPE_TENSOR)
        fail(in->ctx, E_UNSUPPORTED,
             "\"%s\" is not a tensor: sequences and optionals cannot pass through control "
             "flow yet",
             v->name);
}

/* The value of result i of lo->node lies in `from`: the container itself where none was made
 * before. */
static void bind_result(Lower *lo, int i, int from) {
    if (i >= lo->node->out.n || lo->node->out.at[i] < 0) return;
    int v = lo->node->out.at[i];
    if (lo->cont[v] < 0)
        lo->cont[v] = from;
    else if (lo->cont[v] != from)
        lower_copy(lo, "result", from, lo->cont[v]);
}

/* ---- If -------------------------------------------------------------------------------------- */

/* Dims of both branches, which must agree; the model's own declaration decides where they do not.
 */
static void if_result(Infer *in, int i, const Value *a, const Value *b) {
    const Type *said = infer_declared(in, i);
    tensors_only(in, a);
    tensors_only(in, b);
    if (a->type.dtype != b->type.dtype)
        fail(in->ctx, E_TYPE, "result %d is %s in one branch and %s in the other: cast one", i,
             dtype_name(a->type.dtype), dtype_name(b->type.dtype));
    bool same = a->type.rank == b->type.rank;
    for (int k = 0; same && k < a->type.rank; k++) same = a->type.shape[k] == b->type.shape[k];
    const Type *t = same ? &a->type : said;
    if (!t)
        fail(in->ctx, E_UNSUPPORTED,
             "result %d is %s in one branch and %s in the other: the branches must give one "
             "shape, or the condition must be known at compile time",
             i, type_str(in->ctx, &a->type), type_str(in->ctx, &b->type));
    infer_set(in, i, a->type.dtype, t->shape, t->rank);
}

static void if_infer(Infer *in) {
    Graph *yes = body_of(in->ctx, in->node, "then_branch"),
          *no = body_of(in->ctx, in->node, "else_branch");
    int64_t cond = known_scalar(in->ctx, in->graph, in->node, 0);
    check_count(in->ctx, "results", yes->output.n, in->node->out.n);
    check_count(in->ctx, "results", no->output.n, in->node->out.n);
    if (cond != 0) infer_graph(in, yes);
    if (cond <= 0) infer_graph(in, no);
    for (int i = 0; i < in->node->out.n; i++) {
        const Value *a = result_of(cond == 0 ? no : yes, i), *b = result_of(cond > 0 ? yes : no, i);
        if_result(in, i, a, b);
        if (cond >= 0 && a->known) infer_set_known(in, i, a->known, (int)type_count(&a->type));
    }
}

static void if_branch(Lower *lo, const Graph *g, Items *into) {
    int *out = NEW_ARRAY(lo->arena, int, g->output.n + 1);
    Items *before = lo->into;
    lower_graph(lo, g, into, NULL, out);
    lo->into = into;
    for (int i = 0; i < g->output.n; i++)
        if (lower_out(lo, i) >= 0) lower_copy(lo, "result", out[i], lower_out(lo, i));
    lo->into = before;
}

static void if_lower(Lower *lo) {
    Graph *yes = body_of(lo->ctx, lo->node, "then_branch"),
          *no = body_of(lo->ctx, lo->node, "else_branch");
    int64_t known = known_scalar(lo->ctx, lo->graph, lo->node, 0);
    if (known >= 0) {
        const Graph *g = known ? yes : no;
        int *out = NEW_ARRAY(lo->arena, int, g->output.n + 1);
        lower_graph(lo, g, lo->into, NULL, out);
        for (int i = 0; i < g->output.n; i++) bind_result(lo, i, out[i]);
        return;
    }
    int cond = nn_scalar(lo, "cond", lower_in(lo, 0), BOOL, 0);
    for (int i = 0; i < lo->node->out.n; i++) lower_out(lo, i);
    Item branch = {.kind = ITEM_IF, .cond = cond, .from = lo->node->name};
    vec_push(lo->arena, lo->into, branch);
    Item *item = &lo->into->at[lo->into->n - 1];
    if_branch(lo, yes, &item->body);
    if_branch(lo, no, &item->other);
}

/* ---- what Loop and Scan share ---------------------------------------------------------------- */

static void set_type(Graph *g, int input, const Type *t) {
    Value *v = input_of(g, input);
    v->type = *t;
    v->known = NULL;
}

/* Result k of the body must have the type that the body's input has. */
static void check_carried(const Infer *in, const Value *before, const Value *after) {
    tensors_only(in, before);
    tensors_only(in, after);
    bool same = before->type.rank == after->type.rank && before->type.dtype == after->type.dtype;
    for (int i = 0; same && i < before->type.rank; i++)
        same = before->type.shape[i] == after->type.shape[i];
    if (!same)
        fail(in->ctx, E_UNSUPPORTED,
             "\"%s\" enters an iteration as %s and leaves it as %s: a carried value must keep "
             "its shape",
             before->name, type_str(in->ctx, &before->type), type_str(in->ctx, &after->type));
}

/* One slice per iteration, stacked along `axis`. */
static void set_stacked(Infer *in, int result, const Type *slice, Dim trip, int axis) {
    Dim shape[RANK_MAX + 1];
    if (slice->rank + 1 > RANK_MAX)
        fail(in->ctx, E_LIMIT, "result %d has more than %d dims", result, RANK_MAX);
    for (int i = 0; i <= slice->rank; i++)
        shape[i] = i < axis ? slice->shape[i] : i == axis ? trip : slice->shape[i - 1];
    infer_set(in, result, slice->dtype, shape, slice->rank + 1);
}

static void stack_slice(Lower *lo, int slice, int to, int axis, Dim t) {
    Dim at[RANK_MAX], out[RANK_MAX];
    Map *m = nn_map_over(lo, "slice", "", slice, at);
    int rank = nn_cont(lo, slice)->rank;
    for (int i = 0; i <= rank; i++) out[i] = i < axis ? at[i] : i == axis ? t : at[i - 1];
    map_write(lo->flow, m, to, out, nn_read_as(lo, m, slice, at, nn_cont(lo, slice)->type), NULL);
}

/* A container that an iteration reads and the next one finds changed. */
static int carry_open(Lower *lo, Item *loop, int init, const Value *like) {
    int cur = lower_tmp(lo, "cur", like->type.dtype, like->type.shape, like->type.rank);
    vec_push(lo->arena, &loop->carry, (Carry){cur, init, -1});
    return cur;
}

/* ---- Loop ------------------------------------------------------------------------------------ */

/* Body inputs: iteration, condition, carried; body results: condition, carried, slices. */
static int loop_carried(const Node *node) {
    return node->in.n > 2 ? node->in.n - 2 : 0;
}

static bool known_true(const Value *v) {
    int64_t x;
    return v->known && dim_is_const(v->known[0], &x) && x;
}

/* The iteration is a known value, the loop's variable: so shapes and indices that depend on it are
 * expressions. It is a symbol of the model only while the body is inferred. */
static Dim iteration_open(Infer *in, Dim trip) {
    return infer_fresh(in, "t", trip ? dim_addc(in->ctx, trip, -1) : NULL);
}

static void iteration_close(const Infer *in, Dim t) {
    Graph *root = (Graph *)graph_root(in->graph);
    int k = 0;
    for (int i = 0; i < root->symbol.n; i++)
        if (root->symbol.at[i].sym != t) root->symbol.at[k++] = root->symbol.at[i];
    root->symbol.n = k;
}

/* Infers the body; true when its condition holds in every iteration, given that it holds at first.
 */
static bool loop_body_infer(Infer *in, Graph *g, Dim t) {
    static const Type index = {.kind = TYPE_TENSOR, .dtype = I64},
                      flag = {.kind = TYPE_TENSOR, .dtype = BOOL};
    bool starts = nn_absent(in->node, 1) || known_scalar(in->ctx, in->graph, in->node, 1) == 1;
    Dim *one = NEW_ARRAY(in->arena, Dim, 2);
    one[0] = dim_const(in->ctx, 1);
    one[1] = t;
    for (int attempt = 0; attempt < 2; attempt++) {
        set_type(g, 0, &index);
        input_of(g, 0)->known = &one[1];
        set_type(g, 1, &flag);
        for (int i = 0; i < loop_carried(in->node); i++)
            set_type(g, 2 + i, &infer_in(in, 2 + i)->type);
        if (starts) input_of(g, 1)->known = one;
        infer_graph(in, g);
        if (!starts || known_true(result_of(g, 0))) return starts;
        starts = false;
    }
    return false;
}

/* The trip count as a size; NULL when there is none or only data tells it. */
static Dim loop_trip(Ctx *ctx, const Graph *graph, const Node *node) {
    Graph *g = (Graph *)graph;
    Infer in = {.ctx = ctx, .arena = g->arena, .graph = g, .node = (Node *)node};
    const Dim *at;
    int n;
    if (nn_absent(node, 0) || !infer_known(&in, 0, &at, &n) || n != 1) return NULL;
    DimEnv env = graph_env(g->arena, g);
    return dim_simplify(ctx, dim_max(ctx, at[0], dim_const(ctx, 0)), &env);
}

static void loop_infer(Infer *in) {
    Graph *g = body_of(in->ctx, in->node, "body");
    int n = loop_carried(in->node), slices = in->node->out.n - n;
    check_count(in->ctx, "inputs", g->input.n, 2 + n);
    check_count(in->ctx, "results", g->output.n, 1 + in->node->out.n);
    for (int i = 0; i < n; i++) tensors_only(in, infer_tensor(in, 2 + i));
    Dim trip = loop_trip(in->ctx, in->graph, in->node), count = trip, t = iteration_open(in, trip);
    bool always = loop_body_infer(in, g, t);
    iteration_close(in, t);
    if ((!always || !trip) && slices > 0) count = infer_fresh(in, "iterations", trip);
    for (int i = 0; i < n; i++) {
        const Value *before = input_of(g, 2 + i);
        check_carried(in, before, result_of(g, 1 + i));
        infer_set(in, i, before->type.dtype, before->type.shape, before->type.rank);
    }
    for (int i = n; i < in->node->out.n; i++) {
        tensors_only(in, result_of(g, 1 + i));
        set_stacked(in, i, &result_of(g, 1 + i)->type, count, 0);
    }
}

typedef struct Looping {
    Item *item;
    Graph *body;
    int carried;
    bool always; /* the condition never ends it */
    Dim trip;
    int count;     /* container of a trip count that only data tells, or -1 */
    int *in, *out; /* containers of the body's inputs and results */
} Looping;

static Looping loop_open(Lower *lo) {
    Looping l = {
        .body = body_of(lo->ctx, lo->node, "body"), .carried = loop_carried(lo->node), .count = -1};
    l.trip = loop_trip(lo->ctx, lo->graph, lo->node);
    l.always = input_of(l.body, 1)->known != NULL;
    l.in = NEW_ARRAY(lo->arena, int, l.body->input.n);
    l.out = NEW_ARRAY(lo->arena, int, l.body->output.n);
    if (!l.trip && !nn_absent(lo->node, 0)) {
        l.count = nn_scalar(lo, "count", lower_in(lo, 0), I64, 0);
        l.always = false;
    }
    return l;
}

/* The condition before the first iteration: the operand's, and that there is one to run. */
static int loop_first(Lower *lo, const Looping *l) {
    int cond = nn_scalar(lo, "starts", lower_in(lo, 1), BOOL, 1),
        first = lower_tmp(lo, "first", BOOL, NULL, 0);
    if (l->count < 0) return cond;
    lower_pointwise(lo, "first", "$0 & ($1 > 0)", (int[]){cond, l->count}, 2, first);
    return first;
}

/* In the body: whether another iteration follows. */
static int loop_next(Lower *lo, const Looping *l) {
    int cond = nn_scalar(lo, "goes_on", l->out[0], BOOL, 1);
    if (l->count < 0) return cond;
    int next = lower_tmp(lo, "next", BOOL, NULL, 0);
    Map *m = lower_map(lo, "next");
    int t = body_index(&m->body, dim_addc(lo->ctx, l->item->var, 1));
    int val =
        EXPR(m, "$0 & ($1 < $2)", nn_read(lo, m, cond, NULL), t, nn_read(lo, m, l->count, NULL));
    nn_write(lo, m, next, NULL, val);
    return next;
}

static void loop_body(Lower *lo, Looping *l) {
    int index = lower_tmp(lo, "i", I64, NULL, 0);
    Map *m = lower_map(lo, "i");
    nn_write(lo, m, index, NULL, body_index(&m->body, l->item->var));
    l->in[0] = index;
    lower_graph(lo, l->body, lo->into, l->in, l->out);
    int n = l->carried, first = l->always ? 0 : 1;
    if (!l->always) l->item->carry.at[0].next = loop_next(lo, l);
    for (int i = 0; i < n; i++) l->item->carry.at[first + i].next = l->out[1 + i];
    for (int i = n; i < lo->node->out.n; i++)
        if (lower_out(lo, i) >= 0)
            stack_slice(lo, l->out[1 + i], lower_out(lo, i), 0, l->item->var);
}

/* The symbol that stands for the number of iterations: dim 0 of a stacked result. */
static Dim loop_done(Lower *lo, const Looping *l) {
    for (int i = l->carried; i < lo->node->out.n; i++)
        if (lower_out(lo, i) >= 0) return nn_shape(lo, lower_out(lo, i)).at[0];
    return NULL;
}

static void loop_lower(Lower *lo) {
    Looping l = loop_open(lo);
    int first = l.always ? -1 : loop_first(lo, &l);
    for (int i = 0; i < l.carried; i++) l.in[2 + i] = lower_in(lo, 2 + i);
    Dim done = l.always && l.trip ? NULL : loop_done(lo, &l);
    Items *into = lo->into;
    l.item = nn_loop(lo, input_of(l.body, 0)->known[0], l.trip);
    l.item->done = done;
    if (!l.always) l.item->cond = carry_open(lo, l.item, first, input_of(l.body, 1));
    l.in[1] = l.always ? lower_scalar(lo, "true", BOOL, 1) : l.item->cond;
    for (int i = 0; i < l.carried; i++)
        l.in[2 + i] = carry_open(lo, l.item, l.in[2 + i], input_of(l.body, 2 + i));
    lo->into = &l.item->body;
    loop_body(lo, &l);
    lo->into = into;
    for (int i = 0; i < l.carried; i++) bind_result(lo, i, l.in[2 + i]);
}

/* ---- Scan ------------------------------------------------------------------------------------ */

/* Operands: states, then scanned tensors; version 8 has sequence_lens in front and a batch dim. */
typedef struct Scan {
    Graph *body;
    int first, states, inputs, outputs;
    bool batched; /* version 8 */
    int axis[64], out_axis[64];
    bool turned[64], out_turned[64];
} Scan;

static void scan_list(Ctx *ctx, const Node *node, const char *name, int n, int64_t *to) {
    if (n > 64) fail(ctx, E_LIMIT, "Scan has %d operands or results: the most is 64", n);
    nn_attr_n(ctx, node, name, n, 0, to);
}

static Scan scan_of(Ctx *ctx, const Node *node) {
    Scan s = {.body = body_of(ctx, node, "body"), .batched = node->version < 9};
    int64_t list[64];
    s.first = s.batched ? 1 : 0;
    s.inputs = (int)attr_int(ctx, node, "num_scan_inputs", 0);
    s.states = node->in.n - s.first - s.inputs;
    s.outputs = node->out.n - s.states;
    if (s.inputs < 1 || s.states < 0 || s.outputs < 0)
        fail(ctx, E_ATTRIBUTE,
             "attribute \"num_scan_inputs\" is %d: it does not fit the node's operands", s.inputs);
    if (s.batched && !nn_absent(node, 0))
        fail(ctx, E_UNSUPPORTED, "Scan with sequence_lens: drop that operand");
    scan_list(ctx, node, s.batched ? "directions" : "scan_input_directions", s.inputs, list);
    for (int i = 0; i < s.inputs; i++) s.turned[i] = list[i] != 0;
    scan_list(ctx, node, "scan_input_axes", s.inputs, list);
    for (int i = 0; i < s.inputs; i++) s.axis[i] = (int)list[i];
    scan_list(ctx, node, "scan_output_directions", s.outputs, list);
    for (int i = 0; i < s.outputs; i++) s.out_turned[i] = list[i] != 0;
    scan_list(ctx, node, "scan_output_axes", s.outputs, list);
    for (int i = 0; i < s.outputs; i++) s.out_axis[i] = (int)list[i];
    check_count(ctx, "inputs", s.body->input.n, s.states + s.inputs);
    check_count(ctx, "results", s.body->output.n, node->out.n);
    return s;
}

static int positive_axis(Ctx *ctx, int axis, int rank) {
    if (axis < -rank || axis >= rank)
        fail(ctx, E_ATTRIBUTE, "a scan axis is %d: it must be in %d..%d", axis, -rank, rank - 1);
    return axis < 0 ? axis + rank : axis;
}

/* The type without dim `axis` (and without the batch dim 0 of version 8). */
static Type without(Infer *in, const Type *t, int axis) {
    Type part = *t;
    Dim *shape = NEW_ARRAY(in->arena, Dim, t->rank);
    part.rank = 0;
    for (int i = 0; i < t->rank; i++)
        if (i != axis) shape[part.rank++] = t->shape[i];
    part.shape = shape;
    return part;
}

static void scan_operands(Infer *in, const Scan *s, Dim *trip, Dim *batch) {
    for (int i = 0; i < s->states + s->inputs; i++) {
        Type t = infer_tensor(in, s->first + i)->type;
        if (s->batched && t.rank < 1)
            nn_misfit(in, s->first + i, s->first + i, "it needs a batch dim");
        if (s->batched) {
            *batch = *batch ? nn_agree(in, *batch, t.shape[0], s->first, s->first + i,
                                       "batch dims differ")
                            : t.shape[0];
            t = without(in, &t, 0);
        }
        if (i >= s->states) {
            int axis = positive_axis(in->ctx, s->axis[i - s->states], t.rank);
            Dim n = t.shape[axis];
            *trip = *trip ? nn_agree(in, *trip, n, s->first + s->states, s->first + i,
                                     "scanned operands must have one extent along their scan axes")
                          : n;
            t = without(in, &t, axis);
        }
        set_type(s->body, i, &t);
    }
}

static void scan_infer(Infer *in) {
    Scan s = scan_of(in->ctx, in->node);
    Dim trip = NULL, batch = NULL, shape[RANK_MAX + 1];
    scan_operands(in, &s, &trip, &batch);
    infer_graph(in, s.body);
    for (int i = 0; i < s.states; i++) {
        check_carried(in, input_of(s.body, i), result_of(s.body, i));
        nn_same_as(in, i, s.first + i);
    }
    for (int i = 0; i < s.outputs; i++) {
        const Type *t = &result_of(s.body, s.states + i)->type;
        int axis = positive_axis(in->ctx, s.out_axis[i], t->rank + 1);
        set_stacked(in, s.states + i, t, trip, axis);
        if (!s.batched) continue;
        Value *v = infer_out(in, s.states + i);
        if (!v) continue;
        shape[0] = batch;
        memcpy(shape + 1, v->type.shape, sizeof(Dim) * (size_t)v->type.rank);
        infer_set(in, s.states + i, t->dtype, shape, v->type.rank + 1);
    }
}

/* Element `at` of operand slice t: with the batch index in front and t at `axis`. */
static int scan_at(const Scan *s, Dim b, Dim t, int axis, const Dim *at, int rank, Dim *to) {
    int n = 0;
    if (s->batched) to[n++] = b;
    for (int i = 0, k = 0; i < rank + (axis >= 0 ? 1 : 0); i++) to[n++] = i == axis ? t : at[k++];
    return n;
}

/* A copy between a container of the body and the operand or result it is a part of. */
static void scan_copy(Lower *lo, const Scan *s, const char *name, int part, int whole, bool store,
                      Dim b, Dim t, int axis) {
    Dim at[RANK_MAX], to[RANK_MAX + 2];
    Map *m = nn_map_over(lo, name, "", part, at);
    scan_at(s, b, t, axis, at, nn_cont(lo, part)->rank, to);
    int val = store ? nn_read_as(lo, m, part, at, nn_cont(lo, part)->type)
                    : nn_read_as(lo, m, whole, to, nn_cont(lo, whole)->type);
    map_write(lo->flow, m, store ? whole : part, store ? to : at, val, NULL);
}

static int body_tmp(Lower *lo, const char *name, const Value *v) {
    return lower_tmp(lo, name, v->type.dtype, v->type.shape, v->type.rank);
}

static Dim turned(Lower *lo, bool turn, Dim trip, Dim t) {
    return turn ? dim_sub(lo->ctx, dim_addc(lo->ctx, trip, -1), t) : t;
}

/* The loop over slices, for batch element b. */
static void scan_loop(Lower *lo, const Scan *s, Dim trip, Dim b, const int *init) {
    int *in = NEW_ARRAY(lo->arena, int, s->body->input.n),
        *out = NEW_ARRAY(lo->arena, int, s->body->output.n + 1);
    Items *into = lo->into;
    Item *loop = nn_loop(lo, NULL, trip);
    for (int i = 0; i < s->states; i++) in[i] = carry_open(lo, loop, init[i], input_of(s->body, i));
    lo->into = &loop->body;
    for (int i = 0; i < s->inputs; i++) {
        const Value *v = input_of(s->body, s->states + i);
        int axis = positive_axis(lo->ctx, s->axis[i], v->type.rank + 1);
        in[s->states + i] = body_tmp(lo, "part", v);
        scan_copy(lo, s, "part", in[s->states + i], lower_in(lo, s->first + s->states + i), false,
                  b, turned(lo, s->turned[i], trip, loop->var), axis);
    }
    lower_graph(lo, s->body, lo->into, in, out);
    for (int i = 0; i < s->states; i++) loop->carry.at[i].next = out[i];
    for (int i = 0; i < s->outputs; i++) {
        int to = lower_out(lo, s->states + i), part = out[s->states + i];
        if (to < 0) continue;
        int axis = positive_axis(lo->ctx, s->out_axis[i], nn_cont(lo, part)->rank + 1);
        scan_copy(lo, s, "slice", part, to, true, b, turned(lo, s->out_turned[i], trip, loop->var),
                  axis);
    }
    lo->into = into;
    for (int i = 0; i < s->states; i++) {
        if (!s->batched)
            bind_result(lo, i, in[i]);
        else if (lower_out(lo, i) >= 0)
            scan_copy(lo, s, "result", in[i], lower_out(lo, i), true, b, NULL, -1);
    }
}

static void scan_lower(Lower *lo) {
    Scan s = scan_of(lo->ctx, lo->node);
    Shape x = nn_shape(lo, lower_in(lo, s.first + s.states));
    int axis =
        positive_axis(lo->ctx, s.axis[0], x.rank - (s.batched ? 1 : 0)) + (s.batched ? 1 : 0);
    int *init = NEW_ARRAY(lo->arena, int, s.states + 1);
    for (int i = 0; i < s.states; i++) init[i] = lower_in(lo, s.first + i);
    if (!s.batched) {
        scan_loop(lo, &s, x.at[axis], NULL, init);
        return;
    }
    for (int i = 0; i < lo->node->out.n; i++) lower_out(lo, i);
    Items *into = lo->into;
    Item *batches = nn_loop(lo, NULL, x.at[0]);
    Dim b = batches->var;
    lo->into = &batches->body;
    for (int i = 0; i < s.states; i++) {
        init[i] = body_tmp(lo, "init", input_of(s.body, i));
        scan_copy(lo, &s, "init", init[i], lower_in(lo, s.first + i), false, b, NULL, -1);
    }
    scan_loop(lo, &s, x.at[axis], b, init);
    lo->into = into;
}

const OpRow onnx_control_rows[] = {
    {"", "If", 1, 0, if_infer, if_lower, NULL, "bool", 0},
    {"", "Loop", 1, 0, loop_infer, loop_lower, NULL, NULL, 0},
    {"", "Scan", 8, 0, scan_infer, scan_lower, NULL, NULL, 0},
    {0},
};
