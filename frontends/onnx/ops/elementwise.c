/* SPDX-License-Identifier: Apache-2.0 */
/* Element-wise operators: mostly rows whose expression is the whole meaning.
 *
 * Attributes of activations are written into the expression as numbers. Integer arithmetic also
 * carries known values. Before opset 7 binary operators broadcast only on request, and then the
 * second operand against the axes of the first from `axis` on. */
#include "known.h"

#include <math.h>
#include <string.h>

/* The node's operands through an expression made from a format. */
static void lower_text(Lower *lo, const char *text) {
    int n = lo->node->in.n, *from = NEW_ARRAY(lo->arena, int, n), to = lower_out(lo, 0);
    for (int i = 0; i < n; i++) from[i] = lower_in(lo, i);
    if (to >= 0) lower_pointwise(lo, NULL, text, from, n, to);
}

static double attr(const Lower *lo, const char *name, float otherwise) {
    return attr_float(lo->ctx, lo->node, name, otherwise);
}

/* ---- activations with attributes ------------------------------------------------------------ */

static void leaky_relu_lower(Lower *lo) {
    lower_text(lo, internf(lo->ctx, "select($0 < 0, (%a) * $0, $0)", attr(lo, "alpha", 0.01f)));
}

static void elu_lower(Lower *lo) {
    lower_text(lo, internf(lo->ctx, "select($0 < 0, (%a) * expm1($0), $0)", attr(lo, "alpha", 1)));
}

static void selu_with(Lower *lo, float alpha, float gamma) {
    double a = attr(lo, "alpha", alpha), g = attr(lo, "gamma", gamma);
    lower_text(lo, internf(lo->ctx, "(%a) * select($0 > 0, $0, (%a) * expm1($0))", g, a));
}

static void selu_1_lower(Lower *lo) {
    selu_with(lo, 1.6732f, 1.0507f);
}

static void selu_lower(Lower *lo) {
    selu_with(lo, 1.67326319217681884765625f, 1.05070102214813232421875f);
}

static void celu_lower(Lower *lo) {
    double a = attr(lo, "alpha", 1);
    lower_text(lo, internf(lo->ctx, "max($0, 0) + min(0, (%a) * expm1($0 / (%a)))", a, a));
}

static void thresholded_relu_lower(Lower *lo) {
    lower_text(lo, internf(lo->ctx, "select($0 > (%a), $0, 0)", attr(lo, "alpha", 1)));
}

static void hard_sigmoid_lower(Lower *lo) {
    double a = attr(lo, "alpha", 0.2f), b = attr(lo, "beta", 0.5f);
    lower_text(lo, internf(lo->ctx, "max(0, min(1, (%a) * $0 + (%a)))", a, b));
}

static void swish_lower(Lower *lo) {
    lower_text(lo, internf(lo->ctx, "$0 * sigmoid((%a) * $0)", attr(lo, "alpha", 1)));
}

static void swiglu_lower(Lower *lo) {
    lower_text(lo, internf(lo->ctx, "$0 * sigmoid((%a) * $0) * $1", attr(lo, "alpha", 1)));
}

/* Integers are compared as numbers, and cut again. */
static void shrink_lower(Lower *lo) {
    double l = attr(lo, "lambd", 0.5f), b = attr(lo, "bias", 0);
    const char *x = dtype_is_int(lower_value(lo, 0)->type.dtype) ? "f64($0)" : "$0";
    lower_text(lo,
               internf(lo->ctx, "x = %s; select(x < (%a), x + (%a), select(x > (%a), x - (%a), 0))",
                       x, -l, b, l, b));
}

static void sign_lower(Lower *lo) {
    bool negative = dtype_class(lower_value(lo, 0)->type.dtype) != CLASS_UINT;
    lower_text(lo, negative ? "select($0 > 0, 1, select($0 < 0, -1, $0))" : "min($0, 1)");
}

static void gelu_lower(Lower *lo) {
    const char *how = attr_string(lo->ctx, lo->node, "approximate", "none");
    if (!strcmp(how, "none"))
        lower_text(lo, "0.5 * $0 * (1 + erf($0 * 0x1.6a09e667f3bcdp-1))");
    else if (!strcmp(how, "tanh"))
        lower_text(lo,
                   "0.5 * $0 * (1 + tanh(0x1.9884533d43651p-1 * ($0 + 0.044715 * $0 * $0 * $0)))");
    else
        fail(lo->ctx, E_ATTRIBUTE, "attribute \"approximate\" is \"%s\": it must be none or tanh",
             how);
}

static void isinf_lower(Lower *lo) {
    bool neg = attr_int(lo->ctx, lo->node, "detect_negative", 1) != 0;
    bool pos = attr_int(lo->ctx, lo->node, "detect_positive", 1) != 0;
    lower_text(lo, neg && pos ? "abs($0) == inf"
                   : neg      ? "$0 == -inf"
                   : pos      ? "$0 == inf"
                              : "$0 != $0 & $0 == $0");
}

/* Of an integer, the integer part. */
static void erf_lower(Lower *lo) {
    lower_text(lo,
               dtype_is_float(lower_value(lo, 0)->type.dtype) ? "erf($0)" : "trunc(erf(f32($0)))");
}

/* Before opset 11 the bounds are attributes. */
static void clip_1_lower(Lower *lo) {
    bool lo_set = node_attr(lo->node, "min"), hi_set = node_attr(lo->node, "max");
    double low = attr(lo, "min", 0), high = attr(lo, "max", 0);
    const char *text = "$0";
    if (lo_set) text = internf(lo->ctx, "max(%s, (%a))", text, low);
    if (hi_set) text = internf(lo->ctx, "min(%s, (%a))", text, high);
    lower_text(lo, text);
}

static void clip_lower(Lower *lo) {
    const char *text = "$0";
    if (lower_value(lo, 1)) text = "max($0, $1)";
    if (lower_value(lo, 2)) text = internf(lo->ctx, "min(%s, $2)", text);
    lower_text(lo, text);
}

static Dim known_clip(Infer *in, const Dim *a) {
    DimEnv env = infer_env(in);
    Dim d = a[0];
    if (infer_in(in, 1)) d = dim_max(in->ctx, d, a[1]);
    if (infer_in(in, 2)) d = dim_min(in->ctx, d, a[2]);
    return dim_simplify(in->ctx, d, &env);
}

static void unary_infer(Infer *in) {
    infer_arity(in, 1, 1);
    const Type *t = &infer_tensor(in, 0)->type;
    infer_set(in, 0, t->dtype, t->shape, t->rank);
}

static void check_scalar(Infer *in, int i) {
    const Value *v = infer_in(in, i);
    if (!v) return;
    infer_same(in, 0, i);
    for (int k = 0; k < infer_tensor(in, i)->type.rank; k++)
        if (!dim_is(v->type.shape[k], 1))
            fail(in->ctx, E_SHAPE, "operand %d, \"%s\", is %s: it must be a scalar", i, v->name,
                 type_str(in->ctx, &v->type));
}

static void clip_infer(Infer *in) {
    const Type *t = &infer_tensor(in, 0)->type;
    infer_arity(in, 1, 3);
    infer_set(in, 0, t->dtype, t->shape, t->rank);
    check_scalar(in, 1);
    check_scalar(in, 2);
    onnx_carry(in, known_clip);
}

static void to_bool_infer(Infer *in) {
    infer_arity(in, 1, 1);
    const Type *t = &infer_tensor(in, 0)->type;
    infer_set(in, 0, BOOL, t->shape, t->rank);
}

/* ---- type rules that carry values ----------------------------------------------------------- */

#define CARRIES(name, rule, known)                                                                 \
    static void name##_infer(Infer *in) {                                                          \
        rule;                                                                                      \
        onnx_carry(in, known);                                                                     \
    }
CARRIES(add, infer_pointwise(in), onnx_known_add)
CARRIES(sub, infer_pointwise(in), onnx_known_sub)
CARRIES(mul, infer_pointwise(in), onnx_known_mul)
CARRIES(div, infer_pointwise(in), onnx_known_div)
CARRIES(min, infer_pointwise(in), onnx_known_min)
CARRIES(max, infer_pointwise(in), onnx_known_max)
CARRIES(and, infer_pointwise(in), onnx_known_and)
CARRIES(or, infer_pointwise(in), onnx_known_or)
CARRIES(equal, infer_pointwise_to(in, BOOL), onnx_known_equal)
CARRIES(less, infer_pointwise_to(in, BOOL), onnx_known_less)
CARRIES(greater, infer_pointwise_to(in, BOOL), onnx_known_greater)
CARRIES(less_equal, infer_pointwise_to(in, BOOL), onnx_known_less_equal)
CARRIES(greater_equal, infer_pointwise_to(in, BOOL), onnx_known_greater_equal)
CARRIES(neg, unary_infer(in), onnx_known_neg)
CARRIES(abs, unary_infer(in), onnx_known_abs)
CARRIES(sign, unary_infer(in), onnx_known_sign)
CARRIES(not, unary_infer(in), onnx_known_not)
CARRIES(round, unary_infer(in), onnx_known_same)

/* ---- the rest ------------------------------------------------------------------------------- */

static void where_infer(Infer *in) {
    Dim shape[RANK_MAX];
    const Type *c = &infer_tensor(in, 0)->type, *x = &infer_tensor(in, 1)->type;
    const Type *y = &infer_tensor(in, 2)->type;
    infer_same(in, 1, 2);
    Type both = {TYPE_TENSOR, x->dtype, infer_broadcast(in, x, y, shape), shape, NULL};
    Dim all[RANK_MAX];
    int rank = infer_broadcast(in, c, &both, all);
    infer_set(in, 0, x->dtype, all, rank);
    onnx_carry(in, onnx_known_where);
}

static void mod_infer(Infer *in) {
    infer_arity(in, 2, 2);
    infer_pointwise(in);
    onnx_carry(in, onnx_known_mod);
}

static void mod_lower(Lower *lo) {
    bool floats = dtype_is_float(lower_value(lo, 0)->type.dtype);
    lower_text(lo, attr_int(lo->ctx, lo->node, "fmod", 0) ? "rem($0, $1)"
                   : floats
                       ? "select((abs($1) == inf) & (abs($0) < inf), select(($0 == 0) | (($0 < 0) "
                         "== ($1 < 0)), $0, $1), $0 % $1)"
                       : "$0 % $1");
}

/* Integer powers by squaring: exact modulo the type's width. Negative exponents leave 1/x cut to 0.
 */
static const char *integer_power(Lower *lo) {
    Text t = {lo->arena, NULL, 0, 0};
    text_put(&t, "r0 = select(($1 & 1) != 0, $0, 1); b0 = $0; ");
    for (int i = 1; i < 6; i++)
        text_printf(&t, "b%d = b%d * b%d; r%d = select((($1 >> %d) & 1) != 0, r%d * b%d, r%d); ", i,
                    i - 1, i - 1, i, i, i - 1, i, i - 1);
    text_put(&t, "select($1 < 0, select($0 == 1, 1, select($0 + 1 == 0, r0, 0)), select($0 == 0, "
                 "select($1 == 0, 1, 0), r5))");
    return text_str(&t);
}

/* Powers that are written out: they are what models use. */
static const char *constant_power(Lower *lo) {
    Infer in = {
        .ctx = lo->ctx, .arena = lo->arena, .graph = (Graph *)lo->graph, .node = (Node *)lo->node};
    const Value *v = value_source(lo->graph, infer_in(&in, 1));
    if (v->kind != VALUE_PARAM || !v->data || type_count(&v->type) != 1) return NULL;
    double e = bits_to_double(v->type.dtype, mem_get(v->type.dtype, v->data, 0));
    return e == 1     ? "$0"
           : e == 2   ? "$0 * $0"
           : e == 3   ? "$0 * $0 * $0"
           : e == -1  ? "1 / $0"
           : e == 0.5 ? "select($0 == -inf, inf, sqrt($0) + 0)"
                      : NULL;
}

static void pow_lower(Lower *lo) {
    int to = lower_out(lo, 0), arg[2];
    if (to < 0) return;
    const Cont c = lo->flow->cont.at[to];
    bool whole = dtype_is_int(c.type), both = whole && dtype_is_int(lower_value(lo, 1)->type.dtype);
    DType t = both ? dtype_compute(c.type) : whole ? F64 : dtype_compute(c.type);
    Map *m = lower_map(lo, NULL);
    Dim at[RANK_MAX];
    lower_dims(lo, m, c.shape, c.rank, at);
    for (int i = 0; i < 2; i++) {
        arg[i] = lower_read_broadcast(lo, m, lower_in(lo, i), at, c.rank);
        arg[i] = body_cvt(
            &m->body, t, body_cvt(&m->body, dtype_compute(lower_value(lo, i)->type.dtype), arg[i]));
    }
    const char *text = whole ? NULL : constant_power(lo);
    if (!text) text = both ? integer_power(lo) : "pow($0, $1)";
    if (whole && !both)
        text = "p = pow($0, $1); n = rint(p); select(abs(p - n) <= abs(n) * 0x1p-40, n, p)";
    int v = body_expr(&m->body, text, arg, 2, at, c.rank, t);
    map_write(lo->flow, m, to, at, body_cvt(&m->body, c.type, v), NULL);
}

/* Base and exponent may differ in type; the result has the base's. */
static void pow_infer(Infer *in) {
    infer_arity(in, 2, 2);
    const Type *a = &infer_tensor(in, 0)->type, *b = &infer_tensor(in, 1)->type;
    Dim shape[RANK_MAX];
    infer_set(in, 0, a->dtype, shape, infer_broadcast(in, a, b, shape));
}

static void bit_shift_lower(Lower *lo) {
    const char *way = attr_string(lo->ctx, lo->node, "direction", "");
    if (strcmp(way, "LEFT") && strcmp(way, "RIGHT"))
        fail(lo->ctx, E_ATTRIBUTE, "attribute \"direction\" is \"%s\": it must be LEFT or RIGHT",
             way);
    lower_text(lo, way[0] == 'L' ? "$0 << $1" : "$0 >> $1");
}

/* Operands joined by a format of two: "%s + $%d" from "$0" on. */
static const char *chain(Lower *lo, const char *fmt) {
    Text now = {lo->arena, NULL, 0, 0};
    const char *text = "$0";
    for (int i = 1; i < lo->node->in.n; i++) {
        Text next = {lo->arena, NULL, 0, 0};
        const char *hole = strstr(fmt, "%s"), *number = strstr(fmt, "%d");
        text_put_n(&next, fmt, (size_t)(hole - fmt));
        text_put(&next, text);
        text_put_n(&next, hole + 2, (size_t)(number - hole - 2));
        text_printf(&next, "%d%s", i, number + 2);
        now = next;
        text = text_str(&now);
    }
    return text;
}

static void sum_lower(Lower *lo) {
    lower_text(lo, chain(lo, "%s + $%d"));
}

static void mean_lower(Lower *lo) {
    lower_text(lo, arena_printf(lo->arena, "(%s) / %d", chain(lo, "%s + $%d"), lo->node->in.n));
}

static void max_lower(Lower *lo) {
    lower_text(lo, chain(lo, "max(%s, $%d)"));
}

static void min_lower(Lower *lo) {
    lower_text(lo, chain(lo, "min(%s, $%d)"));
}

/* The slope broadcasts to x, one way. Before opset 7 a vector of slopes goes along axis 1. */
static void prelu_infer(Infer *in) {
    infer_arity(in, 2, 2);
    const Value *x = infer_tensor(in, 0), *slope = infer_tensor(in, 1);
    Dim all[RANK_MAX];
    infer_same(in, 0, 1);
    bool along = in->node->version < 7 && slope->type.rank == 1 && !dim_is(slope->type.shape[0], 1);
    if (along && x->type.rank < 2)
        fail(in->ctx, E_SHAPE, "slope \"%s\" is a vector: \"%s\" needs an axis 1 for it, it is %s",
             slope->name, x->name, type_str(in->ctx, &x->type));
    if (along) {
        infer_require(in, x->type.shape[1], slope->type.shape[0], false);
    } else {
        int rank = infer_broadcast(in, &x->type, &slope->type, all);
        if (rank > x->type.rank)
            fail(in->ctx, E_SHAPE,
                 "slope \"%s\" of shape %s does not broadcast to \"%s\" of shape %s", slope->name,
                 type_str(in->ctx, &slope->type), x->name, type_str(in->ctx, &x->type));
    }
    infer_set(in, 0, x->type.dtype, x->type.shape, x->type.rank);
}

/* Reads cont with its dims against `at` from `axis` on, as opsets before 7 broadcast. */
static void lower_at_axis(Lower *lo, const char *expr, int axis) {
    int a = lower_in(lo, 0), b = lower_in(lo, 1), to = lower_out(lo, 0), arg[2];
    if (to < 0) return;
    Cont ca = lo->flow->cont.at[a], cb = lo->flow->cont.at[b], ct = lo->flow->cont.at[to];
    Map *m = lower_map(lo, NULL);
    Dim at[RANK_MAX];
    lower_dims(lo, m, ct.shape, ct.rank, at);
    DType compute = dtype_compute(ca.type);
    arg[0] = body_cvt(&m->body, compute, lower_read_broadcast(lo, m, a, at, ct.rank));
    arg[1] = body_cvt(&m->body, compute, lower_read_broadcast(lo, m, b, at, axis + cb.rank));
    int val = body_expr(&m->body, expr, arg, 2, at, ct.rank, compute);
    map_write(lo->flow, m, to, at, body_cvt(&m->body, ct.type, val), NULL);
}

static void prelu_lower(Lower *lo) {
    const char *text = "select($0 < 0, $1 * $0, $0)";
    const Type *slope = &lower_value(lo, 1)->type;
    if (lo->node->version < 7 && slope->rank == 1 && !dim_is(slope->shape[0], 1))
        lower_at_axis(lo, text, 1);
    else
        lower_text(lo, text);
}

static int legacy_axis(Ctx *ctx, const Node *node, const Type *a, const Type *b) {
    int64_t axis = attr_int(ctx, node, "axis", a->rank - b->rank);
    if (axis < 0) axis += a->rank;
    if (axis < 0 || axis + b->rank > a->rank)
        fail(ctx, E_SHAPE, "shape %s does not lie in shape %s from attribute \"axis\" = %lld on",
             type_str(ctx, b), type_str(ctx, a), (long long)axis);
    return (int)axis;
}

/* A scalar fits without the attribute: there is one way to spread it. */
static void legacy_check(Infer *in) {
    infer_arity(in, 2, 2);
    const Value *a = infer_tensor(in, 0), *b = infer_tensor(in, 1);
    bool broadcast = attr_int(in->ctx, in->node, "broadcast", 0) != 0;
    infer_same(in, 0, 1);
    int axis = legacy_axis(in->ctx, in->node, &a->type, &b->type);
    bool same = a->type.rank == b->type.rank;
    for (int i = 0; i < b->type.rank; i++) {
        Dim x = a->type.shape[axis + i], y = b->type.shape[i];
        bool differ = dim_is_const(dim_sub(in->ctx, x, y), NULL) && x != y;
        same = same && !differ;
        if (!broadcast) infer_require(in, x, y, false);
        if (differ && !(broadcast && dim_is(y, 1)))
            fail(in->ctx, E_SHAPE,
                 "shapes %s and %s do not fit: opset %d broadcasts the second operand only",
                 type_str(in->ctx, &a->type), type_str(in->ctx, &b->type), in->node->version);
    }
    if (!same && !broadcast && b->type.rank)
        fail(in->ctx, E_SHAPE, "shapes %s and %s differ: set attribute \"broadcast\" to 1",
             type_str(in->ctx, &a->type), type_str(in->ctx, &b->type));
}

static void legacy_infer(Infer *in) {
    const Type *t = &infer_tensor(in, 0)->type;
    legacy_check(in);
    infer_set(in, 0, t->dtype, t->shape, t->rank);
}

static void legacy_bool_infer(Infer *in) {
    const Type *t = &infer_tensor(in, 0)->type;
    legacy_check(in);
    infer_set(in, 0, BOOL, t->shape, t->rank);
}

static void legacy_lower(Lower *lo) {
    const Type *a = &lower_value(lo, 0)->type, *b = &lower_value(lo, 1)->type;
    lower_at_axis(lo, lo->node->row->expr, legacy_axis(lo->ctx, lo->node, a, b));
}

/* ---- rows ----------------------------------------------------------------------------------- */

#define LEGACY(name, rule, expr, types)                                                            \
    { "", name, 1, 6, rule, legacy_lower, expr, types, 0 }
#define UNARY(name, since, expr)                                                                   \
    { "", name, since, 0, unary_infer, NULL, expr, T_FLOATS, 0 }

const OpRow onnx_elementwise_rows[] = {
    LEGACY("Add", legacy_infer, "$0 + $1", T_NUMS),
    {"", "Add", 7, 0, add_infer, NULL, "$0 + $1", T_NUMS, 0},
    LEGACY("Sub", legacy_infer, "$0 - $1", T_NUMS),
    {"", "Sub", 7, 0, sub_infer, NULL, "$0 - $1", T_NUMS, 0},
    LEGACY("Mul", legacy_infer, "$0 * $1", T_NUMS),
    {"", "Mul", 7, 0, mul_infer, NULL, "$0 * $1", T_NUMS, 0},
    LEGACY("Div", legacy_infer, "$0 / $1", T_NUMS),
    {"", "Div", 7, 0, div_infer, NULL, "$0 / $1", T_NUMS, 0},
    LEGACY("Pow", legacy_infer, "pow($0, $1)", T_FLOATS),
    {"", "Pow", 7, 0, pow_infer, pow_lower, NULL, T_NUMS, 0},
    {"", "Mod", 10, 0, mod_infer, mod_lower, NULL, T_NUMS, 0},
    LEGACY("And", legacy_infer, "$0 & $1", "bool"),
    {"", "And", 7, 0, and_infer, NULL, "$0 & $1", "bool", 0},
    LEGACY("Or", legacy_infer, "$0 | $1", "bool"),
    {"", "Or", 7, 0, or_infer, NULL, "$0 | $1", "bool", 0},
    LEGACY("Xor", legacy_infer, "$0 ^ $1", "bool"),
    {"", "Xor", 7, 0, NULL, NULL, "$0 ^ $1", "bool", 0},
    {"", "Not", 1, 0, not_infer, NULL, "not($0)", "bool", 0},
    LEGACY("Equal", legacy_bool_infer, "$0 == $1", T_NUMS " bool"),
    {"", "Equal", 7, 0, equal_infer, NULL, "$0 == $1", T_NUMS " bool string", 0},
    LEGACY("Less", legacy_bool_infer, "$0 < $1", T_NUMS),
    {"", "Less", 7, 0, less_infer, NULL, "$0 < $1", T_NUMS, 0},
    LEGACY("Greater", legacy_bool_infer, "$0 > $1", T_NUMS),
    {"", "Greater", 7, 0, greater_infer, NULL, "$0 > $1", T_NUMS, 0},
    {"", "LessOrEqual", 12, 0, less_equal_infer, NULL, "$0 <= $1", T_NUMS, 0},
    {"", "GreaterOrEqual", 12, 0, greater_equal_infer, NULL, "$0 >= $1", T_NUMS, 0},
    {"", "BitwiseAnd", 18, 0, NULL, NULL, "$0 & $1", T_INTS, 0},
    {"", "BitwiseOr", 18, 0, NULL, NULL, "$0 | $1", T_INTS, 0},
    {"", "BitwiseXor", 18, 0, NULL, NULL, "$0 ^ $1", T_INTS, 0},
    {"", "BitwiseNot", 18, 0, NULL, NULL, "not($0)", T_INTS, 0},
    {"", "BitShift", 11, 0, NULL, bit_shift_lower, NULL, T_INTS, 0},
    {"", "Sum", 1, 0, NULL, sum_lower, NULL, T_FLOATS, 0},
    {"", "Mean", 1, 0, NULL, mean_lower, NULL, T_FLOATS, 0},
    {"", "Max", 1, 0, max_infer, max_lower, NULL, T_NUMS, 0},
    {"", "Min", 1, 0, min_infer, min_lower, NULL, T_NUMS, 0},
    {"", "Where", 9, 0, where_infer, NULL, "select($0, $1, $2)", "bool", 0},
    {"", "Abs", 1, 0, abs_infer, NULL, "abs($0)", T_NUMS, 0},
    {"", "Neg", 1, 0, neg_infer, NULL, "-$0", T_NUMS, 0},
    {"", "Sign", 9, 0, sign_infer, sign_lower, NULL, T_NUMS, 0},
    {"", "Floor", 1, 0, round_infer, NULL, "floor($0)", T_FLOATS, 0},
    {"", "Ceil", 1, 0, round_infer, NULL, "ceil($0)", T_FLOATS, 0},
    {"", "Round", 11, 0, round_infer, NULL, "rint($0)", T_FLOATS, 0},
    {"", "Relu", 1, 0, unary_infer, NULL, "max($0, 0)", T_FLOATS " i8 i16 i32 i64", 0},
    {"", "Clip", 1, 10, unary_infer, clip_1_lower, NULL, T_FLOATS, 0},
    {"", "Clip", 11, 0, clip_infer, clip_lower, NULL, T_NUMS, 0},
    {"", "PRelu", 1, 0, prelu_infer, prelu_lower, NULL, T_NUMS, 0},
    UNARY("Reciprocal", 1, "1 / $0"),
    UNARY("Sqrt", 1, "sqrt($0)"),
    UNARY("Exp", 1, "exp($0)"),
    UNARY("Log", 1, "log($0)"),
    UNARY("Sin", 7, "sin($0)"),
    UNARY("Cos", 7, "cos($0)"),
    UNARY("Tan", 7, "tan($0)"),
    UNARY("Asin", 7, "asin($0)"),
    UNARY("Acos", 7, "acos($0)"),
    UNARY("Atan", 7, "atan($0)"),
    UNARY("Sinh", 9, "sinh($0)"),
    UNARY("Cosh", 9, "cosh($0)"),
    UNARY("Asinh", 9, "asinh($0)"),
    UNARY("Acosh", 9, "acosh($0)"),
    UNARY("Atanh", 9, "atanh($0)"),
    UNARY("Tanh", 1, "tanh($0)"),
    UNARY("Sigmoid", 1, "sigmoid($0)"),
    UNARY("Softplus", 1, "softplus($0)"),
    UNARY("Softsign", 1, "$0 / (1 + abs($0))"),
    UNARY("HardSwish", 14, "$0 * max(0, min(1, $0 * 0x1.5555555555555p-3 + 0.5))"),
    UNARY("Mish", 18, "$0 * tanh(softplus($0))"),
    {"", "LeakyRelu", 1, 0, unary_infer, leaky_relu_lower, NULL, T_FLOATS, 0},
    {"", "Elu", 1, 0, unary_infer, elu_lower, NULL, T_FLOATS, 0},
    {"", "Selu", 1, 5, unary_infer, selu_1_lower, NULL, T_FLOATS, 0},
    {"", "Selu", 6, 0, unary_infer, selu_lower, NULL, T_FLOATS, 0},
    {"", "Celu", 12, 0, unary_infer, celu_lower, NULL, T_FLOATS, 0},
    {"", "ThresholdedRelu", 1, 0, unary_infer, thresholded_relu_lower, NULL, T_FLOATS, 0},
    {"", "HardSigmoid", 1, 0, unary_infer, hard_sigmoid_lower, NULL, T_FLOATS, 0},
    {"", "Swish", 24, 0, unary_infer, swish_lower, NULL, T_FLOATS, 0},
    {"", "SwiGLU", 28, 0, NULL, swiglu_lower, NULL, T_FLOATS, 0},
    {"", "Shrink", 9, 0, unary_infer, shrink_lower, NULL, T_NUMS, 0},
    {"", "Gelu", 20, 0, unary_infer, gelu_lower, NULL, T_FLOATS, 0},
    {"", "Erf", 9, 0, unary_infer, erf_lower, NULL, T_NUMS, 0},
    {"", "IsNaN", 9, 0, to_bool_infer, NULL, "$0 != $0", "float", 0},
    {"", "IsInf", 10, 0, to_bool_infer, isinf_lower, NULL, "float", 0},
    {0},
};
