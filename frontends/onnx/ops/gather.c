/* SPDX-License-Identifier: Apache-2.0 */
/* Gather, GatherElements, GatherND, Compress, OneHot, ReverseSequence: indices from data.
 *
 * An index is a value of the body that later reads use. Negative ones count from the end; ones
 * outside are clamped, so nothing outside a tensor is ever read. An index known at compile time is
 * no data at all. */
#include "known.h"
#include "nn.h"
#include "view.h"

#include <string.h>

/* ---- Gather --------------------------------------------------------------------------------- */

static void carry_gather(Infer *in) {
    const Dim *data, *index;
    int n, k;
    int64_t i;
    if (infer_in(in, 0)->type.rank != 1 || !infer_out(in, 0)) return;
    if (!onnx_known(in, 0, &data, &n) || !infer_known(in, 1, &index, &k)) return;
    Dim *to = NEW_ARRAY(in->arena, Dim, k);
    for (int j = 0; j < k; j++) {
        if (!dim_is_const(index[j], &i)) return;
        if (i < -n || i >= n)
            fail(in->ctx, E_SHAPE, "index %lld is out of range for \"%s\" with %d elements",
                 (long long)i, infer_in(in, 0)->name, n);
        to[j] = data[i < 0 ? i + n : i];
    }
    infer_set_known(in, 0, to, k);
}

static void check_index_type(Infer *in, int operand) {
    DType t = infer_tensor(in, operand)->type.dtype;
    if (t != I32 && t != I64)
        fail(in->ctx, E_TYPE, "indices \"%s\" have type %s: they must be i32 or i64",
             infer_in(in, operand)->name, dtype_name(t));
}

static void check_rank(Infer *in, int rank) {
    if (rank > RANK_MAX)
        fail(in->ctx, E_LIMIT, "result has rank %d: the most is %d", rank, RANK_MAX);
}

/* Indices that are known, or constants, lie on the axis; E_SHAPE. */
static void check_index(const Infer *in, int operand, Dim extent, int64_t first, int64_t step) {
    const Value *v = value_source(in->graph, infer_in(in, operand));
    const Dim *known;
    int64_t n, i, count = type_count(&v->type);
    int given;
    if (!dim_is_const(extent, &n) || count < 0) return;
    bool have = infer_known(in, operand, &known, &given), data = v->kind == VALUE_PARAM && v->data;
    for (int64_t k = first; (have || data) && k < count; k += step) {
        if (!have)
            i = bits_to_int(v->type.dtype, mem_get(v->type.dtype, v->data, k));
        else if (!dim_is_const(known[k], &i))
            continue;
        if (i < -n || i >= n)
            fail(in->ctx, E_SHAPE, "index %lld of \"%s\" is out of range for an extent of %lld",
                 (long long)i, v->name, (long long)n);
    }
}

static void gather_infer(Infer *in) {
    const Type *t = &infer_tensor(in, 0)->type, *i = &infer_tensor(in, 1)->type;
    Dim shape[RANK_MAX];
    if (t->rank < 1)
        fail(in->ctx, E_SHAPE, "\"%s\" is a scalar: nothing can be gathered",
             infer_in(in, 0)->name);
    int axis = (int)attr_axis(in->ctx, in->node, "axis", 0, t->rank), n = 0;
    check_index_type(in, 1);
    check_rank(in, t->rank - 1 + i->rank);
    for (int k = 0; k < axis; k++) shape[n++] = t->shape[k];
    for (int k = 0; k < i->rank; k++) shape[n++] = i->shape[k];
    for (int k = axis + 1; k < t->rank; k++) shape[n++] = t->shape[k];
    check_index(in, 1, t->shape[axis], 0, 1);
    infer_set(in, 0, t->dtype, shape, n);
    carry_gather(in);
}

typedef struct Given {
    const Flow *flow;
    bool all;
} Given;

static void given_symbol(void *user, Dim sym) {
    Given *g = user;
    for (int i = 0; i < g->flow->symbol.n; i++)
        if (g->flow->symbol.at[i].sym == sym && !g->flow->symbol.at[i].upper) return;
    g->all = false;
}

/* Do the inputs give the size? */
static bool size_given(const Flow *flow, Dim size) {
    Given g = {flow, true};
    dim_symbols(size, given_symbol, &g);
    return g.all;
}

/* Indices that are an input of the model, perhaps in another shape: its values get a range, which
 * is checked when a run begins. */
static void range_index(Lower *lo, int operand, Dim extent) {
    const Graph *g = lo->graph;
    const Value *v = lower_value(lo, operand);
    int64_t n;
    while (v && v->kind == VALUE_NODE && (g->node.at[v->node].row->flags & OP_SAME)) {
        int from = g->node.at[v->node].in.at[0];
        v = from < 0 ? NULL : &g->value.at[from];
    }
    if (g->outer || !v || v->kind != VALUE_INPUT) return;
    const char *name = lo->flow->cont.at[lower_cont(lo, (int)(v - g->value.at))].name;
    if (!dim_is_const(extent, &n) && size_given(lo->flow, extent))
        vec_push(lo->arena, &lo->flow->require,
                 (Require){.a = extent, .index = name, .from = lo->node->name});
    if (!dim_is_const(extent, &n) || n < 1) return;
    Cont *c = &lo->flow->cont.at[lower_cont(lo, (int)(v - g->value.at))];
    if (!c->has_range || c->lo < -n) c->lo = -n;
    if (!c->has_range || c->hi > n - 1) c->hi = n - 1;
    c->has_range = true;
}

/* The single index when it is known: a plain place on the axis. */
static bool single_index(Lower *lo, Dim extent, Dim *at) {
    Infer in = onnx_reader(lo);
    DimEnv env = flow_env(lo->arena, lo->flow);
    const Dim *index;
    int n;
    if (!infer_known(&in, 1, &index, &n) || n != 1) return false;
    *at = index[0];
    if (dim_ge0(lo->ctx, dim_addc(lo->ctx, dim_mulc(lo->ctx, *at, -1), -1), &env))
        *at = dim_add(lo->ctx, *at, extent);
    return dim_ge0(lo->ctx, *at, &env) && dim_le(lo->ctx, *at, dim_addc(lo->ctx, extent, -1), &env);
}

static void gather_lower(Lower *lo) {
    int from = lower_in(lo, 0), to = lower_out(lo, 0);
    if (to < 0) return;
    const Cont a = lo->flow->cont.at[from], c = lo->flow->cont.at[to];
    int axis = (int)attr_axis(lo->ctx, lo->node, "axis", 0, a.rank),
        n = lower_value(lo, 1)->type.rank;
    Map *m = lower_map(lo, NULL);
    Dim at[RANK_MAX], read[RANK_MAX];
    bool guard = false;
    lower_dims(lo, m, c.shape, c.rank, at);
    memcpy(read, at, sizeof *at * (size_t)axis);
    memcpy(read + axis + 1, at + axis + n, sizeof *at * (size_t)(a.rank - axis - 1));
    if (!single_index(lo, a.shape[axis], &read[axis])) {
        range_index(lo, 1, a.shape[axis]);
        int val = lower_read_broadcast(lo, m, lower_in(lo, 1), at + axis, n);
        read[axis] = onnx_value_index(lo, m, val, a.shape[axis], &guard);
    }
    map_write(lo->flow, m, to, at, onnx_read(lo, m, from, read, guard), NULL);
}

/* ---- GatherElements, GatherND --------------------------------------------------------------- */

static void gather_elements_infer(Infer *in) {
    const Type *t = &infer_tensor(in, 0)->type, *i = &infer_tensor(in, 1)->type;
    check_index_type(in, 1);
    if (t->rank != i->rank || !t->rank)
        fail(in->ctx, E_SHAPE,
             "\"%s\" of type %s and its indices of type %s must have one rank, at least 1",
             infer_in(in, 0)->name, type_str(in->ctx, t), type_str(in->ctx, i));
    int axis = (int)attr_axis(in->ctx, in->node, "axis", 0, t->rank);
    check_index(in, 1, t->shape[axis], 0, 1);
    for (int k = 0; k < t->rank; k++) {
        int64_t have, want;
        if (k != axis && dim_is_const(t->shape[k], &have) && dim_is_const(i->shape[k], &want) &&
            want > have)
            nn_misfit(in, 0, 1, "beside the axis, indices must not be longer than the data");
    }
    infer_set(in, 0, t->dtype, i->shape, i->rank);
}

/* The other axes index the data directly: they must not be longer than it. */
static void gather_elements_lower(Lower *lo) {
    int from = lower_in(lo, 0), to = lower_out(lo, 0);
    if (to < 0) return;
    const Cont a = lo->flow->cont.at[from], c = lo->flow->cont.at[to];
    int axis = (int)attr_axis(lo->ctx, lo->node, "axis", 0, a.rank);
    Map *m = lower_map(lo, NULL);
    Dim at[RANK_MAX], read[RANK_MAX];
    bool guard = false;
    lower_dims(lo, m, c.shape, c.rank, at);
    DimEnv env = map_env(lo->arena, lo->flow, m);
    memcpy(read, at, sizeof read);
    range_index(lo, 1, a.shape[axis]);
    read[axis] =
        onnx_value_index(lo, m, map_read(lo->flow, m, lower_in(lo, 1), at), a.shape[axis], &guard);
    for (int i = 0; i < a.rank; i++)
        if (i != axis && !dim_le(lo->ctx, at[i], dim_addc(lo->ctx, a.shape[i], -1), &env))
            guard = true;
    map_write(lo->flow, m, to, at, onnx_read(lo, m, from, read, guard), NULL);
}

/* How many dims of the data an index names: the last extent of the indices, or, where run time
 * tells that, what the rank of the result leaves; E_UNSUPPORTED. */
static int index_length(const Infer *in, const Type *data, const Type *i, const Type *result) {
    int64_t n, batch = attr_int(in->ctx, in->node, "batch_dims", 0);
    if (i->rank < 1)
        fail(in->ctx, E_SHAPE, "indices of type %s must have a rank of at least 1",
             type_str(in->ctx, i));
    if (dim_is_const(i->shape[i->rank - 1], &n)) return (int)n;
    if (!result || result->kind != TYPE_TENSOR || result->rank < 0)
        fail(in->ctx, E_UNSUPPORTED,
             "indices of type %s: the run tells their last extent, and so the rank of the result: "
             "fix the dim, or declare the result with its rank",
             type_str(in->ctx, i));
    return i->rank - 1 + data->rank - (int)batch - result->rank;
}

static void gather_nd_infer(Infer *in) {
    const Type *t = &infer_tensor(in, 0)->type, *i = &infer_tensor(in, 1)->type;
    int64_t batch = attr_int(in->ctx, in->node, "batch_dims", 0),
            n = index_length(in, t, i, in->declared);
    Dim shape[RANK_MAX];
    int rank = 0;
    check_index_type(in, 1);
    if (batch < 0 || n < 1 || batch + n > t->rank || batch >= i->rank)
        fail(in->ctx, E_SHAPE, "\"%s\" of type %s cannot be indexed by %s with %lld batch dims",
             infer_in(in, 0)->name, type_str(in->ctx, t), type_str(in->ctx, i), (long long)batch);
    check_rank(in, i->rank - 1 + t->rank - (int)(batch + n));
    infer_require(in, i->shape[i->rank - 1], dim_const(in->ctx, n), false);
    for (int k = 0; k < n; k++) check_index(in, 1, t->shape[batch + k], k, n);
    for (int k = 0; k < i->rank - 1; k++) shape[rank++] = i->shape[k];
    for (int k = (int)(batch + n); k < t->rank; k++) shape[rank++] = t->shape[k];
    infer_set(in, 0, t->dtype, shape, rank);
}

static void gather_nd_lower(Lower *lo) {
    int from = lower_in(lo, 0), to = lower_out(lo, 0), index = lower_in(lo, 1);
    if (to < 0) return;
    const Cont a = lo->flow->cont.at[from], c = lo->flow->cont.at[to], i = lo->flow->cont.at[index];
    int batch = (int)attr_int(lo->ctx, lo->node, "batch_dims", 0);
    int n = i.rank - 1 + a.rank - batch - c.rank;
    Map *m = lower_map(lo, NULL);
    Dim at[RANK_MAX], read[RANK_MAX], place[RANK_MAX];
    bool guard = false;
    lower_dims(lo, m, c.shape, c.rank, at);
    DimEnv env = map_env(lo->arena, lo->flow, m);
    memcpy(read, at, sizeof *at * (size_t)batch);
    memcpy(place, at, sizeof *at * (size_t)(i.rank - 1));
    for (int k = 0; k < batch; k++)
        if (!dim_le(lo->ctx, at[k], dim_addc(lo->ctx, a.shape[k], -1), &env)) guard = true;
    for (int k = 0; k < n; k++) {
        place[i.rank - 1] = dim_const(lo->ctx, k);
        int val = onnx_read(lo, m, index, place, !dim_is_const(i.shape[i.rank - 1], NULL));
        read[batch + k] = onnx_value_index(lo, m, val, a.shape[batch + k], &guard);
    }
    for (int k = batch + n; k < a.rank; k++) read[k] = at[i.rank - 1 + k - batch - n];
    map_write(lo->flow, m, to, at, onnx_read(lo, m, from, read, guard), NULL);
}

/* ---- OneHot --------------------------------------------------------------------------------- */

static void one_hot_infer(Infer *in) {
    const Type *i = &infer_tensor(in, 0)->type, *v = &infer_tensor(in, 2)->type;
    const Dim *depth;
    Dim shape[RANK_MAX];
    int n;
    check_rank(in, i->rank + 1);
    int axis = (int)attr_axis(in->ctx, in->node, "axis", -1, i->rank + 1);
    bool known = onnx_known(in, 1, &depth, &n) && n == 1;
    onnx_need_length(in, 2, 2);
    if (infer_tensor(in, 1)->type.rank > 1 || type_count(&infer_in(in, 1)->type) != 1)
        fail(in->ctx, E_SHAPE, "depth must be a scalar, it is %s",
             type_str(in->ctx, &infer_in(in, 1)->type));
    for (int k = 0; k <= i->rank; k++)
        shape[k] = k == axis ? (known ? depth[0] : NULL) : i->shape[k < axis ? k : k - 1];
    if (known)
        infer_set(in, 0, v->dtype, shape, i->rank + 1);
    else
        onnx_set_unknown(in, 1, v->dtype, shape, i->rank + 1, onnx_any_size);
}

static int one_hot_size(Lower *lo, Map *m, int axis) {
    Dim zero = dim_const(lo->ctx, 0);
    (void)axis;
    return body_cvt(&m->body, I64, lower_read_broadcast(lo, m, lower_in(lo, 1), &zero, 1));
}

static void one_hot_lower(Lower *lo) {
    int to = lower_out(lo, 0), index = lower_in(lo, 0);
    if (to < 0) return;
    const Cont c = lo->flow->cont.at[to];
    int axis = (int)attr_axis(lo->ctx, lo->node, "axis", -1, c.rank);
    onnx_define_axes(lo, one_hot_size);
    Map *m = lower_map(lo, NULL);
    Dim at[RANK_MAX], place[RANK_MAX], off = dim_const(lo->ctx, 0), on = dim_const(lo->ctx, 1);
    lower_dims(lo, m, c.shape, c.rank, at);
    memcpy(place, at, sizeof *at * (size_t)axis);
    memcpy(place + axis, at + axis + 1, sizeof *at * (size_t)(c.rank - 1 - axis));
    Body *b = &m->body;
    int arg[5] = {body_cvt(b, I64, lower_read_broadcast(lo, m, index, place, c.rank - 1)),
                  body_index(b, c.shape[axis]), body_index(b, at[axis])};
    int hit = body_expr(b, "select($0 < 0, $0 + $1, $0) == $2", arg, 3, NULL, 0, I64);
    int val = body_prim3(b, P_SELECT, hit, map_read(lo->flow, m, lower_in(lo, 2), &on),
                         map_read(lo->flow, m, lower_in(lo, 2), &off));
    map_write(lo->flow, m, to, at, val, NULL);
}

/* ---- ReverseSequence ------------------------------------------------------------------------ */

static void reverse_infer(Infer *in) {
    const Type *t = &infer_tensor(in, 0)->type;
    int64_t batch = attr_axis(in->ctx, in->node, "batch_axis", 1, t->rank);
    int64_t time = attr_axis(in->ctx, in->node, "time_axis", 0, t->rank);
    if (batch == time || batch > 1 || time > 1)
        fail(in->ctx, E_ATTRIBUTE, "batch_axis %lld and time_axis %lld must be 0 and 1",
             (long long)batch, (long long)time);
    const Type *lens = &infer_tensor(in, 1)->type;
    if (lens->rank != 1)
        fail(in->ctx, E_SHAPE, "lengths \"%s\" of type %s must be a vector: one for each sequence",
             infer_in(in, 1)->name, type_str(in->ctx, lens));
    infer_require(in, lens->shape[0], t->shape[batch], false);
    infer_set(in, 0, t->dtype, t->shape, t->rank);
}

static void reverse_lower(Lower *lo) {
    int from = lower_in(lo, 0), to = lower_out(lo, 0);
    if (to < 0) return;
    const Cont c = lo->flow->cont.at[to];
    int time = (int)attr_axis(lo->ctx, lo->node, "time_axis", 0, c.rank);
    Map *m = lower_map(lo, NULL);
    Dim at[RANK_MAX], read[RANK_MAX];
    bool guard = false;
    lower_dims(lo, m, c.shape, c.rank, at);
    memcpy(read, at, sizeof read);
    Body *b = &m->body;
    int arg[2] = {body_cvt(b, I64, lower_read_broadcast(lo, m, lower_in(lo, 1), &at[1 - time], 1)),
                  body_index(b, at[time])};
    int val = body_expr(b, "select($1 < $0, $0 - 1 - $1, $1)", arg, 2, NULL, 0, I64);
    read[time] = onnx_value_index(lo, m, val, c.shape[time], &guard);
    map_write(lo->flow, m, to, at, onnx_read(lo, m, from, read, guard), NULL);
}

/* ---- Compress: the places where the condition holds, then a gather -------------------------- */

static int compress_axis(Ctx *ctx, const Node *node, int rank) {
    return node_attr(node, "axis") ? (int)attr_axis(ctx, node, "axis", 0, rank) : -1;
}

static void compress_infer(Infer *in) {
    const Type *t = &infer_tensor(in, 0)->type, *c = &infer_tensor(in, 1)->type;
    Dim shape[RANK_MAX];
    int axis = compress_axis(in->ctx, in->node, t->rank);
    if (c->rank != 1 || c->dtype != BOOL)
        fail(in->ctx, E_TYPE, "condition must be a vector of bools, it is %s",
             type_str(in->ctx, c));
    Dim k = infer_fresh(in, "Compress_n", c->shape[0]);
    memcpy(shape, t->shape, sizeof *shape * (size_t)t->rank);
    shape[axis < 0 ? 0 : axis] = k;
    infer_set(in, 0, t->dtype, shape, axis < 0 ? 1 : t->rank);
}

static void compress_lower(Lower *lo) {
    int from = lower_in(lo, 0), to = lower_out(lo, 0), cond = lower_in(lo, 1);
    if (to < 0) return;
    const Cont a = lo->flow->cont.at[from], c = lo->flow->cont.at[to];
    int axis = compress_axis(lo->ctx, lo->node, a.rank);
    Dim k = c.shape[axis < 0 ? 0 : axis], shape[2] = {dim_const(lo->ctx, 1), k};
    int place = lower_tmp(lo, "places", I64, shape, 2);
    lower_call(lo, "nonzero", &cond, 1, &place, 1, NULL, 0, &k, 1);
    Map *m = lower_map(lo, NULL);
    Dim at[RANK_MAX], read[RANK_MAX], index[2] = {dim_const(lo->ctx, 0), NULL};
    bool guard = false;
    lower_dims(lo, m, c.shape, c.rank, at);
    index[1] = at[axis < 0 ? 0 : axis];
    int val = map_read(lo->flow, m, place, index);
    memcpy(read, at, sizeof read);
    if (axis < 0) {
        Dim total = dim_product(lo->ctx, a.shape, a.rank),
            linear = onnx_value_index(lo, m, val, total, &guard);
        DimEnv env = map_env(lo->arena, lo->flow, m);
        onnx_reshape_index(lo, &env, a.shape, a.rank, &total, 1, &linear, read);
    } else {
        read[axis] = onnx_value_index(lo, m, val, a.shape[axis], &guard);
    }
    map_write(lo->flow, m, to, at, onnx_read(lo, m, from, read, guard), NULL);
}

/* ---- rows ----------------------------------------------------------------------------------- */

const OpRow onnx_gather_rows[] = {
    {"", "Gather", 1, 0, gather_infer, gather_lower, NULL, NULL, 0},
    {"", "GatherElements", 11, 0, gather_elements_infer, gather_elements_lower, NULL, NULL, 0},
    {"", "GatherND", 11, 0, gather_nd_infer, gather_nd_lower, NULL, NULL, 0},
    {"", "OneHot", 9, 0, one_hot_infer, one_hot_lower, NULL, T_NUMS, 0},
    {"", "ReverseSequence", 10, 0, reverse_infer, reverse_lower, NULL, NULL, 0},
    {"", "Compress", 9, 0, compress_infer, compress_lower, NULL, NULL, 0},
    {0},
};
