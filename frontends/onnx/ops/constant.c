/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors made from nothing: constants, ranges, diagonals. */
#include "known.h"
#include "view.h"

/* ---- constants ------------------------------------------------------------------------------ */

static const Value *constant_tensor(Infer *in, const char *name) {
    const Attr *a = node_attr(in->node, name);
    if (a && a->kind != ATTR_TENSOR)
        fail(in->ctx, E_ATTRIBUTE, "attribute \"%s\" must be a tensor", name);
    return a ? &a->tensor : NULL;
}

static void constant_infer(Infer *in) {
    const Value *v = constant_tensor(in, "value");
    const int64_t *ints;
    int n = attr_ints(in->ctx, in->node, "value_ints", &ints);
    Dim shape = dim_const(in->ctx, n < 0 ? 0 : n);
    if (v)
        infer_set(in, 0, v->type.dtype, v->type.shape, v->type.rank);
    else if (n >= 0)
        infer_set(in, 0, I64, &shape, 1);
    else if (node_attr(in->node, "value_int"))
        infer_set(in, 0, I64, NULL, 0);
    else if (node_attr(in->node, "value_float"))
        infer_set(in, 0, F32, NULL, 0);
    else
        fail(in->ctx, E_ATTRIBUTE,
             "the constant has no attribute \"value\", \"value_int\", \"value_ints\" or "
             "\"value_float\"");
}

static void constant_lower(Lower *lo) {
    Infer in = onnx_reader(lo);
    const Value *v = constant_tensor(&in, "value");
    int to = lower_out(lo, 0);
    if (to < 0) return;
    const Cont c = lo->flow->cont.at[to];
    const int64_t *ints;
    int64_t i = attr_int(lo->ctx, lo->node, "value_int", 0);
    float f = attr_float(lo->ctx, lo->node, "value_float", 0);
    const void *data = v ? v->data : c.type == F32 ? (const void *)&f : &i;
    if (!v && attr_ints(lo->ctx, lo->node, "value_ints", &ints) >= 0) data = ints;
    lower_copy(lo, NULL, lower_literal(lo, "value", c.type, c.shape, c.rank, data), to);
}

static void constant_of_shape_infer(Infer *in) {
    const Value *v = constant_tensor(in, "value");
    DType t = v ? v->type.dtype : F32;
    const Dim *want;
    int n;
    if (v && type_count(&v->type) != 1)
        fail(in->ctx, E_ATTRIBUTE, "attribute \"value\" must have one element");
    if (!infer_known(in, 0, &want, &n)) {
        onnx_unknown_shape(in, 0, t, NULL);
        return;
    }
    infer_set(in, 0, t, want, n);
    int64_t count = infer_out(in, 0) ? type_count(&infer_out(in, 0)->type) : -1;
    if (count < 0 || count > KNOWN_MAX || !type_is_integral(t)) return;
    Dim *all = NEW_ARRAY(in->arena, Dim, count);
    for (int64_t i = 0; i < count; i++)
        all[i] = dim_const(in->ctx, bits_to_int(t, mem_get(t, v->data, 0)));
    infer_set_known(in, 0, all, (int)count);
}

static void constant_of_shape_lower(Lower *lo) {
    Infer in = onnx_reader(lo);
    const Value *v = constant_tensor(&in, "value");
    const Dim *want;
    int to = lower_out(lo, 0), axes[RANK_MAX], count;
    if (to < 0) return;
    const Cont c = lo->flow->cont.at[to];
    int n = onnx_fresh_axes(lo, axes);
    if (n && !infer_known(&in, 0, &want, &count)) onnx_define(lo, lower_in(lo, 0), axes, n);
    uint64_t zero[2] = {0, 0};
    lower_copy(lo, NULL, lower_literal(lo, "value", c.type, NULL, 0, v ? v->data : zero), to);
}

/* ---- Range, EyeLike ------------------------------------------------------------------------- */

/* max(0, ceil((limit - start) / delta)) from constants of any type. */
static bool range_count(Infer *in, Dim *count) {
    Ctx *ctx = in->ctx;
    const Dim *a[3];
    int n;
    bool known = true;
    int64_t delta;
    for (int i = 0; i < 3; i++) known = known && onnx_known(in, i, &a[i], &n) && n == 1;
    if (known && dim_is(a[2][0], 0))
        fail(ctx, E_MODEL, "the step \"%s\" is 0: a range needs one that is not",
             infer_in(in, 2)->name);
    if (known && dim_is_const(a[2][0], &delta)) {
        DimEnv env = infer_env(in);
        Dim span = delta > 0 ? dim_sub(ctx, a[1][0], a[0][0]) : dim_sub(ctx, a[0][0], a[1][0]);
        Dim steps = dim_ceildiv(ctx, span, dim_const(ctx, delta > 0 ? delta : -delta));
        *count = dim_simplify(ctx, dim_max(ctx, dim_const(ctx, 0), steps), &env);
        return true;
    }
    double v[3];
    for (int i = 0; i < 3; i++) {
        const Value *p = value_source(in->graph, infer_tensor(in, i));
        if (p->kind != VALUE_PARAM || !p->data) return false;
        v[i] = bits_to_double(p->type.dtype, mem_get(p->type.dtype, p->data, 0));
    }
    double q = (v[1] - v[0]) / v[2];
    if (!(q < 1e15)) return false;
    int64_t steps = q <= 0 ? 0 : (int64_t)q + ((double)(int64_t)q < q);
    *count = dim_const(ctx, steps);
    return true;
}

static void range_infer(Infer *in) {
    DType t = infer_tensor(in, 0)->type.dtype;
    Dim count = NULL;
    const Dim *start, *delta;
    int n;
    int64_t size;
    infer_same(in, 0, 1);
    infer_same(in, 0, 2);
    for (int i = 0; i < 3; i++)
        if (type_count(&infer_tensor(in, i)->type) != 1)
            fail(in->ctx, E_SHAPE, "operand %d must be a scalar, it is %s", i,
                 type_str(in->ctx, &infer_in(in, i)->type));
    if (!range_count(in, &count)) {
        onnx_set_unknown(in, 1, t, &count, 1, onnx_any_size);
        return;
    }
    infer_set(in, 0, t, &count, 1);
    if (!dim_is_const(count, &size) || size > KNOWN_MAX) return;
    if (!onnx_known(in, 0, &start, &n) || !onnx_known(in, 2, &delta, &n)) return;
    Dim *all = NEW_ARRAY(in->arena, Dim, size);
    for (int64_t i = 0; i < size; i++)
        all[i] = dim_add(in->ctx, start[0], dim_mulc(in->ctx, delta[0], i));
    infer_set_known(in, 0, all, (int)size);
}

static int range_scalar(Lower *lo, Map *m, int operand) {
    Dim zero[RANK_MAX];
    int c = lower_in(lo, operand);
    for (int i = 0; i < RANK_MAX; i++) zero[i] = dim_const(lo->ctx, 0);
    int v = lower_read_broadcast(lo, m, c, zero, lo->flow->cont.at[c].rank);
    return body_cvt(&m->body, dtype_compute(lo->flow->cont.at[c].type), v);
}

static int range_size(Lower *lo, Map *m, int axis) {
    int arg[3] = {range_scalar(lo, m, 0), range_scalar(lo, m, 1), range_scalar(lo, m, 2)};
    (void)axis;
    for (int i = 0; i < 3; i++) arg[i] = body_cvt(&m->body, F64, arg[i]);
    int v = body_expr(&m->body, "max(0, ceil(($1 - $0) / $2))", arg, 3, NULL, 0, F64);
    return body_cvt(&m->body, I64, v);
}

static void range_lower(Lower *lo) {
    int to = lower_out(lo, 0);
    if (to < 0) return;
    const Cont c = lo->flow->cont.at[to];
    onnx_define_axes(lo, range_size);
    Map *m = lower_map(lo, NULL);
    Dim at;
    lower_dims(lo, m, c.shape, 1, &at);
    DType t = dtype_compute(c.type);
    int arg[3] = {range_scalar(lo, m, 0), range_scalar(lo, m, 2),
                  body_cvt(&m->body, t, body_index(&m->body, at))};
    int v = body_expr(&m->body, "$0 + $2 * $1", arg, 3, NULL, 0, t);
    map_write(lo->flow, m, to, &at, body_cvt(&m->body, c.type, v), NULL);
}

static void eye_infer(Infer *in) {
    const Type *t = &infer_tensor(in, 0)->type;
    if (t->rank != 2)
        fail(in->ctx, E_SHAPE, "operand must be a matrix, it is %s", type_str(in->ctx, t));
    infer_set(in, 0, onnx_dtype(in->ctx, in->node, "dtype", t->dtype), t->shape, 2);
}

static void eye_lower(Lower *lo) {
    int to = lower_out(lo, 0);
    if (to < 0) return;
    const Cont c = lo->flow->cont.at[to];
    Map *m = lower_map(lo, NULL);
    Dim at[2];
    lower_dims(lo, m, c.shape, 2, at);
    Dim diagonal = dim_addc(lo->ctx, at[0], attr_int(lo->ctx, lo->node, "k", 0));
    int is =
        body_prim2(&m->body, P_EQ, body_index(&m->body, diagonal), body_index(&m->body, at[1]));
    map_write(lo->flow, m, to, at, body_cvt(&m->body, c.type, is), NULL);
}

/* ---- rows ----------------------------------------------------------------------------------- */

const OpRow onnx_constant_rows[] = {
    {"", "Constant", 1, 0, constant_infer, constant_lower, NULL, NULL, 0},
    {"", "ConstantOfShape", 9, 0, constant_of_shape_infer, constant_of_shape_lower, NULL, "i64", 0},
    {"", "Range", 11, 0, range_infer, range_lower, NULL, T_NUMS, 0},
    {"", "EyeLike", 9, 0, eye_infer, eye_lower, NULL, T_NUMS " bool", 0},
    {0},
};
