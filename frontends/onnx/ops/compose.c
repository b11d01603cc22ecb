/* SPDX-License-Identifier: Apache-2.0 */
/* Writing compositions down. Constants go to the context's arena: weight data outlives passes. */
#include "compose.h"

#include <math.h>
#include <string.h>

enum { COMPOSE_OPSET = 28 };

int compose_operand(const Infer *in, int i) {
    return i < in->node->in.n ? in->node->in.at[i] : -1;
}

const Type *compose_type(const Infer *in, int value) {
    return &in->graph->value.at[value].type;
}

/* ---- attributes ------------------------------------------------------------------------------ */

static void give(Infer *in, const char *name, Attr a) {
    a.name = intern(in->ctx, name);
    vec_push(in->graph->arena, &in->attr, a);
}

void compose_int(Infer *in, const char *name, int64_t v) {
    give(in, name, (Attr){.kind = ATTR_INT, .i = v});
}

void compose_float(Infer *in, const char *name, float v) {
    give(in, name, (Attr){.kind = ATTR_FLOAT, .f = v});
}

void compose_string(Infer *in, const char *name, const char *v) {
    give(in, name, (Attr){.kind = ATTR_STRING, .s = intern(in->ctx, v), .n = (int)strlen(v)});
}

void compose_ints(Infer *in, const char *name, const int64_t *v, int n) {
    const int64_t *ints = arena_copy(in->graph->arena, v, sizeof *v * (size_t)n);
    give(in, name, (Attr){.kind = ATTR_INTS, .ints = ints, .n = n});
}

void compose_attr(Infer *in, const char *name, const char *from) {
    const Attr *a = node_attr(in->node, from);
    if (a) give(in, name, *a);
}

/* ---- operators ------------------------------------------------------------------------------- */

/* Of ai.onnx, or else a contributed one. */
static const OpRow *standard(const Infer *in, const char *op) {
    const OpRow *row = op_find(in->ops, "", op, COMPOSE_OPSET);
    if (!row) row = op_find(in->ops, "com.microsoft", op, 1);
    if (!row) BUG("no operator \"%s\" to compose with", op);
    return row;
}

int compose_op(Infer *in, const char *op, const int *operand, int n, int nout) {
    while (n > 0 && operand[n - 1] < 0) n--;
    return infer_append(in, standard(in, op), COMPOSE_OPSET, operand, n, nout);
}

void compose_result(Infer *in, int result, int value) {
    infer_become(in, standard(in, "Identity"), COMPOSE_OPSET, value, result);
}

/* ---- constants ------------------------------------------------------------------------------- */

/* n < 0: a scalar */
static int constant(Infer *in, DType t, const void *data, int n) {
    Graph *g = in->graph;
    int64_t count = n < 0 ? 1 : n;
    Value v = {.kind = VALUE_PARAM,
               .type = {.kind = TYPE_TENSOR, .dtype = t, .rank = n < 0 ? 0 : 1},
               .data = data,
               .data_bytes = dtype_bytes(t, count)};
    v.name = internf(in->ctx, "%s/constant.%d", in->node->name, g->value.n);
    v.type.shape = arena_copy(g->arena, (Dim[]){dim_const(in->ctx, count)}, sizeof(Dim));
    return graph_value(g, v);
}

int compose_constant(Infer *in, DType t, const double *v, int n) {
    int64_t count = n < 0 ? 1 : n;
    void *data = arena_alloc(ctx_arena(in->ctx), (size_t)dtype_bytes(t, count) + 8);
    for (int64_t i = 0; i < count; i++) mem_set(t, data, i, bits_of_double(t, v[i]));
    return constant(in, t, data, n);
}

int compose_number(Infer *in, int like, double v) {
    return compose_constant(in, compose_type(in, like)->dtype, &v, -1);
}

int compose_shape(Infer *in, const int64_t *v, int n) {
    size_t bytes = sizeof *v * (size_t)(n < 0 ? 1 : n);
    return constant(in, I64, arena_copy(ctx_arena(in->ctx), v, bytes), n);
}

int compose_vector(Infer *in, int64_t v) {
    return compose_shape(in, &v, 1);
}

/* ---- often needed ---------------------------------------------------------------------------- */

int compose_add(Infer *in, int a, int b) {
    return a < 0 ? b : b < 0 ? a : OP(in, "Add", a, b);
}

int compose_silu(Infer *in, int x, double alpha) {
    int scaled = alpha == 1 ? x : OP(in, "Mul", x, compose_number(in, x, alpha));
    return OP(in, "Mul", x, OP(in, "Sigmoid", scaled));
}

int compose_extents(Infer *in, int x, int64_t from, int64_t to) {
    compose_int(in, "start", from);
    compose_int(in, "end", to);
    return OP(in, "Shape", x);
}

int64_t compose_size(Infer *in, int x, int axis) {
    int64_t n = -1;
    const Type *t = compose_type(in, x);
    const char *name = in->graph->value.at[x].name;
    int k = axis < 0 ? axis + t->rank : axis;
    if (k < 0 || k >= t->rank)
        fail(in->ctx, E_SHAPE, "operand \"%s\" has only %d dims", name, t->rank);
    if (!dim_is_const(t->shape[k], &n))
        fail(in->ctx, E_UNSUPPORTED, "dim %d of \"%s\" is symbolic: make it a number", k, name);
    return n;
}

int compose_range(Infer *in, int n) {
    const int64_t zero = 0, one = 1;
    return OP(in, "Range", compose_shape(in, &zero, -1), OP(in, "Squeeze", n),
              compose_shape(in, &one, -1));
}

int compose_part(Infer *in, int x, int64_t axis, int from, int to) {
    return OP(in, "Slice", x, from, to, compose_vector(in, axis));
}

int compose_row(Infer *in, int x, int64_t row) {
    compose_int(in, "axis", 0);
    return OP(in, "Gather", x, compose_shape(in, &row, -1));
}

int compose_split(Infer *in, int x, int64_t axis, int parts) {
    compose_int(in, "axis", axis);
    compose_int(in, "num_outputs", parts);
    return compose_op(in, "Split", &x, 1, parts);
}

int compose_unsqueeze(Infer *in, int x, int64_t axis) {
    return OP(in, "Unsqueeze", x, compose_vector(in, axis));
}

int compose_bias(Infer *in, int seen, int like) {
    return OP(in, "Where", seen, compose_number(in, like, 0), compose_number(in, like, -INFINITY));
}

int compose_flags(Infer *in, int shape, int places) {
    int none = compose_constant(in, BOOL, (double[]){0}, -1),
        one = compose_constant(in, BOOL, (double[]){1}, -1);
    int room = OP(in, "Expand", none, shape), set = OP(in, "Expand", one, OP(in, "Shape", places));
    compose_int(in, "axis", 1);
    return OP(in, "ScatterElements", room, places, set);
}

int compose_places(Infer *in, int rows, int offset) {
    int all = compose_reshape(in, compose_cast(in, offset, I64), (int64_t[]){-1}, 1);
    return compose_part(in, all, 0, compose_vector(in, 0), compose_extents(in, rows, 0, 1));
}

int compose_padded(Infer *in, int rows, int places, int offset) {
    int row = compose_extents(in, rows, 1, 2), shape = OP(in, "Shape", offset);
    int count = compose_unsqueeze(in, OP(in, "Size", offset), 0);
    compose_int(in, "axis", 0);
    int room = OP(in, "Expand", compose_number(in, rows, 0), OP(in, "Concat", count, row));
    room = OP(in, "ScatterND", room, compose_unsqueeze(in, places, 1), rows);
    compose_int(in, "axis", 0);
    return OP(in, "Reshape", room, OP(in, "Concat", shape, row));
}

ComposeRequests compose_requests(Infer *in, int rows, int ends, int64_t kept) {
    int zero = compose_vector(in, 0), one = compose_vector(in, 1);
    ends = compose_cast(in, ends, I64);
    ComposeRequests r = {.kept = kept,
                         .start = compose_part(in, ends, 0, zero, compose_vector(in, -1)),
                         .end = compose_part(in, ends, 0, one, compose_vector(in, INT64_MAX))};
    int tokens = compose_extents(in, rows, 0, 1), requests = compose_extents(in, r.start, 0, 1);
    r.token = compose_range(in, tokens);
    r.past = OP(in, "Mul", requests, compose_vector(in, kept));
    r.all = OP(in, "Add", r.past, tokens);
    int behind = OP(in, "LessOrEqual", OP(in, "Unsqueeze", r.end, one), r.token);
    behind = compose_cast(in, behind, I64);
    compose_int(in, "keepdims", 0);
    r.request = OP(in, "ReduceSum", behind, zero);
    r.request = OP(in, "Min", r.request, OP(in, "Sub", requests, one));
    return r;
}

int compose_history(Infer *in, const ComposeRequests *r, int at, int request) {
    int zero = compose_vector(in, 0), last = OP(in, "Sub", r->all, compose_vector(in, 1));
    int local = OP(in, "Sub", at, OP(in, "Gather", r->start, request));
    int own =
        OP(in, "Mul", OP(in, "Add", request, compose_vector(in, 1)), compose_vector(in, r->kept));
    int row = OP(in, "Where", OP(in, "Less", local, zero), OP(in, "Add", own, local),
                 OP(in, "Add", r->past, at));
    return OP(in, "Max", OP(in, "Min", row, last), zero);
}

int compose_last(Infer *in, const ComposeRequests *r) {
    int one = compose_vector(in, 1), step = compose_range(in, compose_vector(in, r->kept));
    int first = OP(in, "Sub", r->end, compose_vector(in, r->kept));
    int at = OP(in, "Add", OP(in, "Unsqueeze", first, one), step);
    int request = compose_range(in, compose_extents(in, r->end, 0, 1));
    return compose_history(in, r, at, OP(in, "Unsqueeze", request, one));
}

int compose_reshape(Infer *in, int x, const int64_t *shape, int n) {
    return OP(in, "Reshape", x, compose_shape(in, shape, n));
}

int compose_transpose(Infer *in, int x, const int64_t *perm, int n) {
    compose_ints(in, "perm", perm, n);
    return OP(in, "Transpose", x);
}

int compose_cast(Infer *in, int x, DType t) {
    if (compose_type(in, x)->dtype == t) return x;
    compose_int(in, "to", dtype_onnx(t));
    return OP(in, "Cast", x);
}

/* Names of the parameters in activation_params, in order. */
typedef struct Activation {
    const char *name, *first, *second;
} Activation;

static const Activation activations[] = {
    {"Relu", NULL, NULL},
    {"Tanh", NULL, NULL},
    {"Sigmoid", NULL, NULL},
    {"LeakyRelu", "alpha", NULL},
    {"HardSigmoid", "alpha", "beta"},
    {"Gelu", NULL, NULL},
    {"Elu", "alpha", NULL},
    {"Softplus", NULL, NULL},
};

static float parameter(const Infer *in, int i, const char *attr, float otherwise) {
    const Attr *a = node_attr(in->node, "activation_params");
    if (a && a->kind == ATTR_FLOATS && i < a->n) return a->floats[i];
    const char *own = internf(in->ctx, "activation_%s", attr);
    return attr_float(in->ctx, in->node, own, attr_float(in->ctx, in->node, attr, otherwise));
}

int compose_activation(Infer *in, int x) {
    const char *name = attr_string(in->ctx, in->node, "activation", "");
    if (!name[0]) return x;
    if (!strcmp(name, "Clip"))
        return OP(in, "Clip", x, compose_number(in, x, parameter(in, 0, "min", 0)),
                  compose_number(in, x, parameter(in, 1, "max", 6)));
    for (size_t i = 0; i < sizeof activations / sizeof *activations; i++) {
        const Activation *a = &activations[i];
        if (strcmp(a->name, name)) continue;
        bool leaky = a->first && !strcmp(name, "LeakyRelu"), hard = a->second != NULL;
        if (a->first)
            compose_float(in, a->first,
                          parameter(in, 0, a->first,
                                    leaky  ? 0.01f
                                    : hard ? 0.2f
                                           : 1.0f));
        if (a->second) compose_float(in, a->second, parameter(in, 1, a->second, 0.5f));
        return OP(in, name, x);
    }
    fail(in->ctx, E_UNSUPPORTED,
         "activation \"%s\" is not known: use Relu, Tanh, Sigmoid, "
         "LeakyRelu, HardSigmoid, Elu, Gelu, Softplus or Clip",
         name);
}

int compose_channels(Infer *in, int x, bool first) {
    int64_t perm[RANK_MAX];
    int rank = compose_type(in, x)->rank;
    for (int i = 0; i < rank; i++)
        perm[i] = first ? (i == 0   ? 0
                           : i == 1 ? rank - 1
                                    : i - 1)
                        : (i == 0          ? 0
                           : i == rank - 1 ? 1
                                           : i + 1);
    return compose_transpose(in, x, perm, rank);
}

void compose_window(Infer *in) {
    static const char *const names[] = {
        "auto_pad",         "dilations", "group",         "kernel_shape",   "pads",
        "strides",          "ceil_mode", "storage_order", "output_padding", "output_shape",
        "count_include_pad"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) compose_attr(in, names[i], names[i]);
}

int compose_softmax(Infer *in, int x, int from, int to) {
    int64_t flat[RANK_MAX + 1] = {0};
    bool one = to == from + 1;
    flat[from] = -1;
    int rows = one ? x : compose_reshape(in, x, flat, from + 1);
    compose_int(in, "axis", from);
    int y = OP(in, "Softmax", rows);
    return one ? y : OP(in, "Reshape", y, OP(in, "Shape", x));
}

int compose_view(Infer *in, const Value *param, DType t, const int64_t *shape, int rank) {
    Graph *g = in->graph;
    Value v = *param;
    Dim *to = NEW_ARRAY(g->arena, Dim, rank);
    for (int i = 0; i < rank; i++) to[i] = dim_const(in->ctx, shape[i]);
    v.name = internf(in->ctx, "%s/bits.%d", in->node->name, g->value.n);
    v.type = (Type){.kind = TYPE_TENSOR, .dtype = t, .rank = rank, .shape = to};
    v.known = NULL;
    return graph_value(g, v);
}

int compose_bits(Infer *in, int i, DType t) {
    const Value *v = value_source(in->graph, infer_tensor(in, i));
    int64_t shape[RANK_MAX];
    if (!value_look(v) || type_count(&v->type) < 0)
        fail(in->ctx, E_UNSUPPORTED,
             "operand \"%s\" must be constant: its bits are read at compile time", v->name);
    for (int k = 0; k < v->type.rank; k++) dim_is_const(v->type.shape[k], &shape[k]);
    shape[v->type.rank - 1] *= 8 / dtype_bits(t);
    return compose_view(in, v, t, shape, v->type.rank);
}
