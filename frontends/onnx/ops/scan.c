/* SPDX-License-Identifier: Apache-2.0 */
/* Scan: a loop over slices. States are carried, scanned operands are read at the iteration's index
 * (or from the end), results get one slice per iteration. Version 8 runs once for each element of a
 * batch; where sequence_lens makes one shorter, iterations beyond its length change no state and
 * give zeros. */
#include "control.h"

#include <string.h>

/* Operands: states, then scanned tensors; version 8 has sequence_lens in front and a batch dim. */
typedef struct Scan {
    Graph *body;
    int first, states, inputs, outputs;
    bool batched; /* version 8 */
    int length;   /* container of this batch element's length; -1: that of all */
    int axis[64], out_axis[64];
    bool turned[64], out_turned[64];
} Scan;

static void scan_list(Ctx *ctx, const Node *node, const char *name, int n, int64_t *to) {
    if (n > 64) fail(ctx, E_LIMIT, "Scan has %d operands or results: the most is 64", n);
    nn_attr_n(ctx, node, name, n, 0, to);
}

static Scan scan_of(Ctx *ctx, const Node *node) {
    Scan s = {.body = control_body(ctx, node, "body"), .batched = node->version < 9, .length = -1};
    int64_t list[64];
    s.first = s.batched ? 1 : 0;
    s.inputs = (int)attr_int(ctx, node, "num_scan_inputs", 0);
    s.states = node->in.n - s.first - s.inputs;
    s.outputs = node->out.n - s.states;
    if (s.inputs < 1 || s.states < 0 || s.outputs < 0)
        fail(ctx, E_ATTRIBUTE,
             "attribute \"num_scan_inputs\" is %d: it does not fit the node's operands", s.inputs);
    scan_list(ctx, node, s.batched ? "directions" : "scan_input_directions", s.inputs, list);
    for (int i = 0; i < s.inputs; i++) s.turned[i] = list[i] != 0;
    scan_list(ctx, node, "scan_input_axes", s.inputs, list);
    for (int i = 0; i < s.inputs; i++) s.axis[i] = (int)list[i];
    scan_list(ctx, node, "scan_output_directions", s.outputs, list);
    for (int i = 0; i < s.outputs; i++) s.out_turned[i] = list[i] != 0;
    scan_list(ctx, node, "scan_output_axes", s.outputs, list);
    for (int i = 0; i < s.outputs; i++) s.out_axis[i] = (int)list[i];
    control_count(ctx, "inputs", s.body->input.n, s.states + s.inputs);
    control_count(ctx, "results", s.body->output.n, node->out.n);
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
        control_set_type(s->body, i, &t);
    }
}

static void scan_infer(Infer *in) {
    Scan s = scan_of(in->ctx, in->node);
    Dim trip = NULL, batch = NULL, shape[RANK_MAX + 1];
    scan_operands(in, &s, &trip, &batch);
    if (s.batched && infer_in(in, 0))
        nn_agree(in, nn_ranked(in, 0, 1, 1)->shape[0], batch, 0, s.first,
                 "a sequence has one length");
    infer_graph(in, s.body);
    for (int i = 0; i < s.states; i++) {
        control_carried(in, control_input(s.body, i), control_result(s.body, i));
        nn_same_as(in, i, s.first + i);
    }
    for (int i = 0; i < s.outputs; i++) {
        const Type *t = &control_result(s.body, s.states + i)->type;
        int axis = positive_axis(in->ctx, s.out_axis[i], t->rank + 1);
        control_stacked(in, s.states + i, t, trip, axis);
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

/* Iteration t's place in what is read from its end (`trip` steps, NULL: from its start): from the
 * end of a sequence that has a length of its own, and at 0 beyond that. */
static Dim scan_place(Lower *lo, const Scan *s, Map *m, Dim trip, Dim t) {
    if (!trip) return t;
    if (s->length < 0) return dim_sub(lo->ctx, dim_addc(lo->ctx, trip, -1), t);
    int length = nn_read_as(lo, m, s->length, NULL, I64), step = body_index(&m->body, t);
    return body_symbol(&m->body, EXPR(m, "max($0 - 1 - $1, 0)", length, step), "place");
}

/* A copy between a container of the body and the operand or result it is a part of. */
static void scan_copy(Lower *lo, const Scan *s, const char *name, int part, int whole, bool store,
                      Dim b, Dim t, Dim turned, int axis) {
    Dim at[RANK_MAX], to[RANK_MAX + 2];
    Map *m = nn_map_over(lo, name, "", part, at);
    t = scan_place(lo, s, m, turned, t);
    scan_at(s, b, t, axis, at, nn_cont(lo, part)->rank, to);
    int val = store ? nn_read_as(lo, m, part, at, nn_cont(lo, part)->type)
                    : nn_read_as(lo, m, whole, to, nn_cont(lo, whole)->type);
    map_write(lo->flow, m, store ? whole : part, store ? to : at, val, NULL);
}

/* `now` where iteration t lies within the sequence, else `otherwise` (-1: zeros). */
static int scan_within(Lower *lo, const Scan *s, int now, int otherwise, Dim t) {
    if (s->length < 0) return now;
    DType type = nn_cont(lo, now)->type;
    int to = nn_tmp_like(lo, "within", type, now);
    Dim at[RANK_MAX];
    Map *m = nn_map_over(lo, "within", "", now, at);
    int inside =
        EXPR(m, "$0 < $1", body_index(&m->body, t), nn_read_as(lo, m, s->length, NULL, I64));
    int other =
        otherwise < 0 ? body_const(&m->body, type, 0) : nn_read_as(lo, m, otherwise, at, type);
    int val[] = {inside, nn_read_as(lo, m, now, at, type), other};
    map_write(lo->flow, m, to, at, body_prim(&m->body, P_SELECT, val), NULL);
    return to;
}

static int body_tmp(Lower *lo, const char *name, const Value *v) {
    return lower_tmp(lo, name, v->type.dtype, v->type.shape, v->type.rank);
}

/* The loop over slices, for batch element b. */
static void scan_loop(Lower *lo, const Scan *s, Dim trip, Dim b, const int *init) {
    int *in = NEW_ARRAY(lo->arena, int, s->body->input.n),
        *out = NEW_ARRAY(lo->arena, int, s->body->output.n + 1);
    Items *into = lo->into;
    Item *loop = nn_loop(lo, NULL, trip);
    for (int i = 0; i < s->states; i++)
        in[i] = control_carry(lo, loop, init[i], control_input(s->body, i));
    lo->into = &loop->body;
    for (int i = 0; i < s->inputs; i++) {
        const Value *v = control_input(s->body, s->states + i);
        int axis = positive_axis(lo->ctx, s->axis[i], v->type.rank + 1);
        in[s->states + i] = body_tmp(lo, "part", v);
        scan_copy(lo, s, "part", in[s->states + i], lower_in(lo, s->first + s->states + i), false,
                  b, loop->var, s->turned[i] ? trip : NULL, axis);
    }
    lower_graph(lo, s->body, lo->into, in, out);
    for (int i = 0; i < s->states; i++)
        loop->carry.at[i].next = scan_within(lo, s, out[i], in[i], loop->var);
    for (int i = 0; i < s->outputs; i++) {
        int to = lower_out(lo, s->states + i), part = out[s->states + i];
        if (to < 0) continue;
        int axis = positive_axis(lo->ctx, s->out_axis[i], nn_cont(lo, part)->rank + 1);
        part = scan_within(lo, s, part, -1, loop->var);
        scan_copy(lo, s, "slice", part, to, true, b, loop->var, s->out_turned[i] ? trip : NULL,
                  axis);
    }
    lo->into = into;
    for (int i = 0; i < s->states; i++) {
        if (!s->batched)
            control_bind(lo, i, in[i]);
        else if (lower_out(lo, i) >= 0)
            scan_copy(lo, s, "result", in[i], lower_out(lo, i), true, b, NULL, NULL, -1);
    }
}

/* The length of batch element b, in 0..trip. */
static int scan_length(Lower *lo, Dim trip, Dim b) {
    int to = lower_tmp(lo, "length", I64, NULL, 0);
    Map *m = lower_map(lo, "length");
    int length = nn_read_as(lo, m, lower_in(lo, 0), &b, I64);
    nn_write(lo, m, to, NULL, EXPR(m, "max(min($0, $1), 0)", length, body_index(&m->body, trip)));
    return to;
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
    if (lower_in(lo, 0) >= 0) s.length = scan_length(lo, x.at[axis], b);
    for (int i = 0; i < s.states; i++) {
        init[i] = body_tmp(lo, "init", control_input(s.body, i));
        scan_copy(lo, &s, "init", init[i], lower_in(lo, s.first + i), false, b, NULL, NULL, -1);
    }
    scan_loop(lo, &s, x.at[axis], b, init);
    lo->into = into;
}

const OpRow onnx_scan_rows[] = {
    {"", "Scan", 8, 0, scan_infer, scan_lower, NULL, NULL, 0},
    {0},
};
