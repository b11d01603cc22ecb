/* SPDX-License-Identifier: Apache-2.0 */
/* Operators that ai.onnx tried before opset 10 and then dropped; converters of that time wrote
 * them. All are compositions. */
#include "compose.h"

static int scaled(Infer *in, int x, const char *attr) {
    float by = attr_float(in->ctx, in->node, attr, 1);
    return by == 1 ? x : OP(in, "Mul", x, compose_number(in, x, by));
}

static void scale_infer(Infer *in) {
    compose_result(in, 0, scaled(in, IN(0), "scale"));
}

static void affine_infer(Infer *in) {
    float beta = attr_float(in->ctx, in->node, "beta", 0);
    int y = scaled(in, IN(0), "alpha");
    compose_result(in, 0, beta == 0 ? y : OP(in, "Add", y, compose_number(in, y, beta)));
}

/* alpha * f(beta * x) */
static void around(Infer *in, const char *f) {
    compose_result(in, 0, scaled(in, OP(in, f, scaled(in, IN(0), "beta")), "alpha"));
}

static void parametric_softplus_infer(Infer *in) {
    around(in, "Softplus");
}

static void scaled_tanh_infer(Infer *in) {
    around(in, "Tanh");
}

/* scale * x + bias[channel] */
static void image_scaler_infer(Infer *in) {
    const Attr *bias = node_attr(in->node, "bias");
    const Type *x = nn_ranked(in, 0, 4, 4);
    int y = scaled(in, IN(0), "scale");
    if (bias && bias->kind == ATTR_FLOATS) {
        double *v = NEW_ARRAY(in->arena, double, bias->n + 1);
        for (int i = 0; i < bias->n; i++) v[i] = bias->floats[i];
        int each = compose_constant(in, x->dtype, v, bias->n);
        y = OP(in, "Add", y, compose_reshape(in, each, (const int64_t[]){-1, 1, 1}, 3));
    }
    nn_agree(in, compose_type(in, y)->shape[1], x->shape[1], 0, 0,
             "attribute \"bias\" must have a value for each channel");
    compose_result(in, 0, y);
}

/* `border` is cut off at the left, top, right and bottom; with `scale`, that many rows and columns
 * are left. */
static void crop_infer(Infer *in) {
    int64_t border[4], size[2];
    const int64_t *unused;
    nn_ranked(in, 0, 4, 4);
    nn_attr_n(in->ctx, in->node, "border", 4, 0, border);
    nn_attr_n(in->ctx, in->node, "scale", 2, 0, size);
    int64_t first[] = {border[1], border[0]}, last[] = {-border[3], -border[2]};
    for (int i = 0; i < 2; i++) {
        if (attr_ints(in->ctx, in->node, "scale", &unused) >= 0) last[i] = first[i] + size[i];
        if (first[i] < 0 || border[2 + i] < 0 || size[i] < 0)
            fail(in->ctx, E_ATTRIBUTE, "a border or scale is negative: it must be at least 0");
        if (!last[i]) last[i] = INT32_MAX;
    }
    int from = compose_shape(in, first, 2), to = compose_shape(in, last, 2),
        axes = compose_shape(in, (const int64_t[]){2, 3}, 2);
    compose_result(in, 0, OP(in, "Slice", IN(0), from, to, axes));
}

static void dynamic_slice_infer(Infer *in) {
    compose_result(in, 0, OP(in, "Slice", IN(0), IN(1), IN(2), IN(3)));
}

/* (x - mean) / deviation of each channel, or of the whole batch. */
static void mvn_infer(Infer *in) {
    const int64_t axes[] = {0, 2, 3, 1};
    bool all = attr_int(in->ctx, in->node, "across_channels", 0) != 0;
    int n = all ? 4 : 3;
    infer_arity(in, 1, 1);
    nn_ranked(in, 0, 4, 4);
    if (attr_int(in->ctx, in->node, "normalize_variance", 1)) {
        compose_ints(in, "axes", axes, n);
        compose_result(in, 0, OP(in, "MeanVarianceNormalization", IN(0)));
        return;
    }
    int mean = OP(in, "ReduceMean", IN(0), compose_shape(in, axes, n));
    compose_result(in, 0, OP(in, "Sub", IN(0), mean));
}

/* The shape is the operand, the attribute `shape` or the operand's own; `extra_shape` follows. */
static void constant_fill_infer(Infer *in) {
    Ctx *ctx = in->ctx;
    const int64_t *given = NULL, *extra = NULL;
    double value = attr_float(ctx, in->node, "value", 0);
    DType t = dtype_from_onnx((int)attr_int(ctx, in->node, "dtype", 1));
    int n = attr_ints(ctx, in->node, "shape", &given),
        more = attr_ints(ctx, in->node, "extra_shape", &extra);
    infer_arity(in, 0, 1);
    if (!t || t == STRING)
        fail(ctx, E_ATTRIBUTE, "attribute \"dtype\" is no number type: use 1 (float)");
    if (n < 0) infer_tensor(in, 0);
    int shape = n >= 0                                         ? compose_shape(in, given, n)
                : attr_int(ctx, in->node, "input_as_shape", 0) ? IN(0)
                                                               : OP(in, "Shape", IN(0));
    if (more > 0) {
        int end = compose_shape(in, extra, more);
        compose_int(in, "axis", 0);
        shape = OP(in, "Concat", shape, end);
    }
    compose_result(in, 0, OP(in, "Expand", compose_constant(in, t, &value, -1), shape));
}

const OpRow onnx_early_rows[] = {
    {"", "Scale", 1, 9, scale_infer, NULL, NULL, T_FLOATS, OP_COMPOSED},
    {"", "Affine", 1, 9, affine_infer, NULL, NULL, T_FLOATS, OP_COMPOSED},
    {"", "ParametricSoftplus", 1, 9, parametric_softplus_infer, NULL, NULL, T_FLOATS, OP_COMPOSED},
    {"", "ScaledTanh", 1, 9, scaled_tanh_infer, NULL, NULL, T_FLOATS, OP_COMPOSED},
    {"", "ImageScaler", 1, 9, image_scaler_infer, NULL, NULL, T_FLOATS, OP_COMPOSED},
    {"", "Crop", 1, 9, crop_infer, NULL, NULL, T_FLOATS, OP_COMPOSED},
    {"", "DynamicSlice", 1, 9, dynamic_slice_infer, NULL, NULL, NULL, OP_COMPOSED},
    {"", "MeanVarianceNormalization", 1, 8, mvn_infer, NULL, NULL, T_FLOATS, OP_COMPOSED},
    {"", "ConstantFill", 1, 9, constant_fill_infer, NULL, NULL, NULL, OP_COMPOSED},
    {0},
};
