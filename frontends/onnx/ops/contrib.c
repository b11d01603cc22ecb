/* SPDX-License-Identifier: Apache-2.0 */
/* Operators of com.microsoft that optimizers write instead of chains of standard ones: activations,
 * normalisations, fused convolutions and products, channels-last forms. All are compositions. */
#include "compose.h"

#include <string.h>

static int mul(Infer *in, int a, int b) {
    return OP(in, "Mul", a, b);
}

/* ---- activations ----------------------------------------------------------------------------- */

static int gelu(Infer *in, int x, bool by_tanh) {
    if (by_tanh) compose_string(in, "approximate", "tanh");
    return OP(in, "Gelu", x);
}

static void gelu_infer(Infer *in) {
    infer_arity(in, 1, 1);
    compose_result(in, 0, gelu(in, IN(0), false));
}

static void bias_gelu_infer(Infer *in) {
    infer_arity(in, 2, 2);
    compose_result(in, 0, gelu(in, compose_add(in, IN(0), IN(1)), false));
}

static void fast_gelu_infer(Infer *in) {
    infer_arity(in, 1, 2);
    compose_result(in, 0, gelu(in, compose_add(in, IN(0), IN(1)), true));
}

static void quick_gelu_infer(Infer *in) {
    infer_arity(in, 1, 1);
    float alpha = attr_float(in->ctx, in->node, "alpha", 1.702f);
    compose_result(in, 0, compose_silu(in, IN(0), alpha));
}

/* The left half times gelu of the right half. */
static void bias_split_gelu_infer(Infer *in) {
    infer_arity(in, 2, 2);
    int x = compose_add(in, IN(0), IN(1));
    int left = compose_split(in, x, -1, 2);
    compose_result(in, 0, mul(in, left, gelu(in, left + 1, false)));
}

static void bias_add_infer(Infer *in) {
    infer_arity(in, 3, 3);
    compose_result(in, 0, compose_add(in, compose_add(in, IN(0), IN(1)), IN(2)));
}

static void bias_softmax_infer(Infer *in) {
    infer_arity(in, 2, 2);
    int x = compose_add(in, IN(0), IN(1)), rank = nn_ranked(in, 0, 1, RANK_MAX)->rank;
    int axis = (int)attr_axis(in->ctx, in->node, "axis", 1, rank);
    compose_result(in, 0, compose_softmax(in, x, axis, rank));
}

/* ---- normalisations -------------------------------------------------------------------------- */

static void epsilon(Infer *in, float otherwise) {
    compose_float(in, "epsilon", attr_float(in->ctx, in->node, "epsilon", otherwise));
}

static void simplified_layer_norm_infer(Infer *in) {
    infer_arity(in, 2, 2);
    epsilon(in, 1e-5f);
    compose_attr(in, "axis", "axis");
    compose_attr(in, "stash_type", "stash_type");
    compose_result(in, 0, OP(in, "RMSNormalization", IN(0), IN(1)));
}

/* Normalised input + skip + bias; the sum is a result too. */
static void skip_norm(Infer *in, int bias, bool simplified) {
    int sum = compose_add(in, compose_add(in, IN(0), IN(1)), IN(bias));
    epsilon(in, simplified ? 1e-5f : 1e-12f);
    if (simplified) {
        compose_result(in, 0, OP(in, "RMSNormalization", sum, IN(2)));
    } else {
        int y = compose_op(in, "LayerNormalization", (int[]){sum, IN(2), IN(3)}, 3, 3);
        for (int i = 0; i < 3; i++) compose_result(in, i, y + i);
    }
    compose_result(in, 3, sum);
}

static void skip_layer_norm_infer(Infer *in) {
    infer_arity(in, 3, 5);
    skip_norm(in, 4, false);
}

static void skip_simplified_infer(Infer *in) {
    infer_arity(in, 3, 4);
    skip_norm(in, 3, true);
}

typedef struct Embedding {
    int word, position, segment; /* tables; segment may be -1 */
    int gamma, beta;
    int places; /* position ids; -1: 0, 1, ... */
} Embedding;

/* Rows of the tables summed and normalised; the row sums of the mask, operand 7. */
static void embed(Infer *in, const Embedding *e) {
    int ids = IN(0), zero = compose_shape(in, (int64_t[]){0}, 1);
    int sum = OP(in, "Gather", e->word, ids);
    int place = e->places >= 0 ? OP(in, "Gather", e->position, e->places)
                               : OP(in, "Slice", e->position, zero, compose_extents(in, ids, 1, 2));
    sum = compose_add(in, sum, place);
    if (IN(1) >= 0 && e->segment >= 0)
        sum = compose_add(in, sum, OP(in, "Gather", e->segment, IN(1)));
    epsilon(in, 1e-12f);
    compose_result(in, 0, OP(in, "LayerNormalization", sum, e->gamma, e->beta));
    if (IN(7) >= 0) {
        int steps = compose_shape(in, (int64_t[]){1}, 1);
        compose_int(in, "keepdims", 0);
        compose_result(in, 1, OP(in, "ReduceSum", IN(7), steps));
    } else {
        int none = compose_constant(in, I32, (double[]){0}, 1);
        compose_result(in, 1, OP(in, "Expand", none, compose_extents(in, ids, 0, 1)));
    }
    compose_result(in, 2, sum);
}

static void embed_layer_norm_infer(Infer *in) {
    infer_tensor(in, 2), infer_tensor(in, 3), infer_tensor(in, 6);
    embed(in, &(Embedding){IN(2), IN(3), IN(4), IN(5), IN(6), IN(8)});
}

/* Five tables, then their scales from operand 8 on, then their zero points. */
static void qembed_layer_norm_infer(Infer *in) {
    int table[5];
    infer_tensor(in, 2), infer_tensor(in, 3), infer_tensor(in, 17);
    for (int i = 0; i < 5; i++)
        table[i] =
            IN(2 + i) < 0 ? -1 : OP(in, "DequantizeLinear", IN(2 + i), IN(8 + i), IN(13 + i));
    embed(in, &(Embedding){table[0], table[1], table[2], table[3], table[4], -1});
}

static void group_norm(Infer *in, int x, int gamma, int beta) {
    bool last = attr_int(in->ctx, in->node, "channels_last", 1) != 0;
    DType t = compose_type(in, x)->dtype;
    int wide = compose_cast(in, last ? compose_channels(in, x, true) : x, F32);
    epsilon(in, 1e-5f);
    compose_attr(in, "num_groups", "groups");
    int y = OP(in, "GroupNormalization", wide, compose_cast(in, gamma, F32),
               compose_cast(in, beta, F32));
    if (attr_int(in->ctx, in->node, "activation", 0)) y = compose_silu(in, y, 1);
    y = compose_cast(in, y, t);
    compose_result(in, 0, last ? compose_channels(in, y, false) : y);
}

static void group_norm_infer(Infer *in) {
    infer_arity(in, 3, 3);
    nn_ranked(in, 0, 3, 5);
    group_norm(in, IN(0), IN(1), IN(2));
}

/* Operands: x, gamma, beta, skip (maybe [N,C]), bias. */
static void skip_group_norm_infer(Infer *in) {
    infer_arity(in, 4, 5);
    int skip = IN(3);
    nn_ranked(in, 0, 4, 4);
    if (nn_ranked(in, 3, 2, 4)->rank == 2)
        skip = OP(in, "Unsqueeze", skip, compose_shape(in, (int64_t[]){1, 2}, 2));
    int sum = compose_add(in, compose_add(in, IN(0), skip), IN(4));
    group_norm(in, sum, IN(1), IN(2));
    compose_result(in, 1, sum);
}

/* ---- convolutions and products --------------------------------------------------------------- */

/* activation(conv(x, w, b) + z) */
static void fused_conv_infer(Infer *in) {
    infer_arity(in, 2, 4);
    compose_window(in);
    int y = OP(in, "Conv", IN(0), IN(1), IN(2));
    compose_result(in, 0, compose_activation(in, compose_add(in, y, IN(3))));
}

static void nhwc_conv_infer(Infer *in) {
    infer_arity(in, 2, 4);
    nn_ranked(in, 0, 3, 5);
    int x = compose_channels(in, IN(0), true);
    compose_window(in);
    int y = compose_channels(in, OP(in, "Conv", x, IN(1), IN(2)), false);
    compose_result(in, 0, compose_activation(in, compose_add(in, y, IN(3))));
}

static void nhwc_max_pool_infer(Infer *in) {
    infer_arity(in, 1, 1);
    nn_ranked(in, 0, 3, 5);
    int x = compose_channels(in, IN(0), true);
    compose_window(in);
    compose_result(in, 0, compose_channels(in, OP(in, "MaxPool", x), false));
}

static void fused_gemm_infer(Infer *in) {
    static const char *const names[] = {"alpha", "beta", "transA", "transB"};
    infer_arity(in, 2, 3);
    for (int i = 0; i < 4; i++) compose_attr(in, names[i], names[i]);
    compose_result(in, 0, compose_activation(in, OP(in, "Gemm", IN(0), IN(1), IN(2))));
}

/* The pads are an operand, which must be known at compile time. */
static void conv_transpose_pads_infer(Infer *in) {
    const Dim *pad;
    int64_t pads[2 * SPATIAL_MAX];
    int n = 0;
    infer_arity(in, 2, 4);
    compose_window(in);
    if (IN(2) >= 0) {
        if (!infer_known(in, 2, &pad, &n) || n > 2 * SPATIAL_MAX)
            fail(in->ctx, E_UNSUPPORTED,
                 "the pads are not known at compile time: make them constant");
        for (int i = 0; i < n; i++)
            if (!dim_is_const(pad[i], &pads[i]))
                fail(in->ctx, E_UNSUPPORTED, "pad %d depends on a symbolic dim: make it constant",
                     i);
        compose_ints(in, "pads", pads, n);
    }
    compose_result(in, 0, OP(in, "ConvTranspose", IN(0), IN(1), IN(3)));
}

/* ---- arrangement ----------------------------------------------------------------------------- */

static void expand_dims_infer(Infer *in) {
    infer_arity(in, 2, 2);
    int axis = compose_reshape(in, IN(1), (int64_t[]){1}, 1);
    compose_result(in, 0, OP(in, "Unsqueeze", IN(0), axis));
}

static void range_infer(Infer *in) {
    infer_arity(in, 2, 3);
    int step = IN(2) >= 0 ? IN(2) : compose_number(in, IN(0), 1);
    compose_result(in, 0, OP(in, "Range", IN(0), IN(1), step));
}

static void pad_infer(Infer *in) {
    infer_arity(in, 2, 3);
    compose_attr(in, "mode", "mode");
    int pads = compose_reshape(in, IN(1), (int64_t[]){-1}, 1);
    compose_result(in, 0, OP(in, "Pad", IN(0), pads, IN(2)));
}

static void trilu_infer(Infer *in) {
    infer_arity(in, 1, 2);
    compose_attr(in, "upper", "upper");
    compose_result(in, 0, OP(in, "Trilu", IN(0), IN(1)));
}

static void grid_sample_infer(Infer *in) {
    infer_arity(in, 2, 2);
    const char *mode = attr_string(in->ctx, in->node, "mode", "bilinear");
    compose_string(in, "mode",
                   !strcmp(mode, "bilinear")  ? "linear"
                   : !strcmp(mode, "bicubic") ? "cubic"
                                              : mode);
    compose_attr(in, "padding_mode", "padding_mode");
    compose_attr(in, "align_corners", "align_corners");
    compose_result(in, 0, OP(in, "GridSample", IN(0), IN(1)));
}

/* Uniques in the order they are met, the place of each element among them, and counts. */
static void unique_infer(Infer *in) {
    infer_arity(in, 1, 1);
    compose_int(in, "sorted", 0);
    int y = compose_op(in, "Unique", (int[]){IN(0)}, 1, 4);
    compose_result(in, 0, y);
    compose_result(in, 1, y + 2);
    compose_result(in, 2, y + 3);
}

/* The spectrum of a real signal along the last axis, as pairs. */
static void rfft_infer(Infer *in) {
    infer_arity(in, 1, 1);
    int x = compose_unsqueeze(in, IN(0), -1);
    compose_int(in, "onesided", attr_int(in->ctx, in->node, "onesided", 1));
    compose_result(in, 0, OP(in, "DFT", x, -1, compose_shape(in, (int64_t[]){-2}, -1)));
}

/* The inverse of Rfft: the other half of the spectrum is the conjugate, backwards. */
static void irfft_infer(Infer *in) {
    infer_arity(in, 1, 1);
    nn_ranked(in, 0, 2, RANK_MAX);
    int axis = compose_shape(in, (int64_t[]){-2}, 1), back = compose_shape(in, (int64_t[]){-1}, 1);
    int rest = OP(in, "Slice", IN(0), axis, compose_shape(in, (int64_t[]){0}, 1), axis, back);
    rest = mul(in, rest, compose_constant(in, compose_type(in, rest)->dtype, (double[]){1, -1}, 2));
    compose_int(in, "axis", -2);
    int all = OP(in, "Concat", IN(0), rest), along = compose_shape(in, (int64_t[]){-2}, -1);
    compose_int(in, "inverse", 1);
    int y = OP(in, "DFT", all, -1, along), first = compose_shape(in, (int64_t[]){0}, -1);
    compose_int(in, "axis", -1);
    compose_result(in, 0, OP(in, "Gather", y, first));
}

/* Places lo + (hi - lo) * i / (n - 1) of n samples, in pixels of an image of `size`, for each box:
 * the middle when n is 1. lo and hi are columns of the boxes, [box, 1]. */
static int crop_places(Infer *in, int lo, int hi, int64_t n, int size) {
    int last =
        OP(in, "Sub", compose_cast(in, size, F32), compose_constant(in, F32, (double[]){1}, -1));
    double *step = NEW_ARRAY(in->arena, double, n);
    for (int64_t i = 0; i < n; i++) step[i] = n > 1 ? (double)i / (double)(n - 1) : 0.5;
    int far = mul(in, OP(in, "Sub", hi, lo), compose_constant(in, F32, step, (int)n));
    return mul(in, compose_add(in, lo, far), last);
}

/* Pixels to the scale of GridSample with align_corners, -1 .. 1. */
static int grid_places(Infer *in, int pixel, int size) {
    int one = compose_constant(in, F32, (double[]){1}, -1),
        two = compose_constant(in, F32, (double[]){2}, -1);
    int last = OP(in, "Max", OP(in, "Sub", compose_cast(in, size, F32), one), one);
    return OP(in, "Sub", OP(in, "Div", mul(in, pixel, two), last), one);
}

static int inside(Infer *in, int pixel, int size) {
    int zero = compose_constant(in, F32, (double[]){0}, -1),
        one = compose_constant(in, F32, (double[]){1}, -1);
    int last = OP(in, "Sub", compose_cast(in, size, F32), one);
    return OP(in, "And", OP(in, "GreaterOrEqual", pixel, zero), OP(in, "LessOrEqual", pixel, last));
}

/* Boxes [box, (y1, x1, y2, x2)] of images, as fractions, each sampled to one size; what lies
 * outside the image is extrapolation_value. */
static void crop_and_resize_infer(Infer *in) {
    const Dim *crop;
    int64_t n[2];
    int count, place[2], shape[2], size[2], corner[4];
    infer_arity(in, 4, 4);
    nn_ranked(in, 0, 4, 4), nn_ranked(in, 1, 2, 2);
    if (!infer_known(in, 3, &crop, &count) || count != 2 || !dim_is_const(crop[0], &n[0]) ||
        !dim_is_const(crop[1], &n[1]) || n[0] < 1 || n[1] < 1)
        fail(in->ctx, E_UNSUPPORTED, "the crop's size must be known at compile time");
    for (int i = 0; i < 4; i++) {
        int which = compose_shape(in, (int64_t[]){i}, 1);
        compose_int(in, "axis", 1);
        corner[i] = OP(in, "Gather", IN(1), which);
    }
    for (int i = 0; i < 2; i++) {
        size[i] = compose_extents(in, IN(0), 2 + i, 3 + i);
        place[i] = crop_places(in, corner[i], corner[2 + i], n[i], size[i]);
        shape[i] = compose_unsqueeze(in, place[i], 2 - i);
    }
    int seen = OP(in, "And", inside(in, shape[0], size[0]), inside(in, shape[1], size[1]));
    bool nearest = !strcmp(attr_string(in->ctx, in->node, "mode", "bilinear"), "nearest");
    int same = OP(in, "Shape", seen), half = compose_constant(in, F32, (double[]){0.5}, -1),
        part[2];
    for (int i = 0; i < 2; i++) {
        int pixel = nearest ? OP(in, "Floor", compose_add(in, shape[i], half)) : shape[i];
        part[i] = OP(in, "Expand", grid_places(in, pixel, size[i]), same);
        part[i] = compose_unsqueeze(in, part[i], -1);
    }
    compose_int(in, "axis", -1);
    int grid = OP(in, "Concat", part[1], part[0]), images = OP(in, "Gather", IN(0), IN(2));
    compose_string(in, "mode", nearest ? "nearest" : "linear");
    compose_string(in, "padding_mode", "border");
    compose_int(in, "align_corners", 1);
    int y = OP(in, "GridSample", images, grid);
    float other = attr_float(in->ctx, in->node, "extrapolation_value", 0);
    seen = compose_unsqueeze(in, seen, 1);
    compose_result(in, 0, OP(in, "Where", seen, y, compose_number(in, y, other)));
}

/* Distances of the rows of one matrix from those of another. */
static void cdist_infer(Infer *in) {
    infer_arity(in, 2, 2);
    nn_ranked(in, 0, 2, 2), nn_ranked(in, 1, 2, 2);
    const char *metric = attr_string(in->ctx, in->node, "metric", "sqeuclidean");
    bool root = !strcmp(metric, "euclidean");
    if (!root && strcmp(metric, "sqeuclidean"))
        fail(in->ctx, E_ATTRIBUTE,
             "metric \"%s\" is not known: it must be \"euclidean\" or \"sqeuclidean\"", metric);
    int rows = compose_unsqueeze(in, IN(0), 1);
    int gap = OP(in, "Sub", rows, IN(1)), square = mul(in, gap, gap);
    int axis = compose_shape(in, (int64_t[]){2}, 1);
    compose_int(in, "keepdims", 0);
    int sum = OP(in, "ReduceSum", square, axis);
    compose_result(in, 0, root ? OP(in, "Sqrt", sum) : sum);
}

const OpRow onnx_contrib_rows[] = {
    COMPOSED("Gelu", gelu_infer, T_FLOATS),
    COMPOSED("BiasGelu", bias_gelu_infer, T_FLOATS),
    COMPOSED("FastGelu", fast_gelu_infer, T_FLOATS),
    COMPOSED("QuickGelu", quick_gelu_infer, T_FLOATS),
    COMPOSED("BiasSplitGelu", bias_split_gelu_infer, T_FLOATS),
    COMPOSED("BiasAdd", bias_add_infer, T_FLOATS),
    COMPOSED("BiasSoftmax", bias_softmax_infer, T_FLOATS),
    {"", "SimplifiedLayerNormalization", 1, 0, simplified_layer_norm_infer, NULL, NULL, T_FLOATS,
     OP_COMPOSED},
    COMPOSED("SimplifiedLayerNormalization", simplified_layer_norm_infer, T_FLOATS),
    COMPOSED("SkipLayerNormalization", skip_layer_norm_infer, T_FLOATS),
    COMPOSED("SkipSimplifiedLayerNormalization", skip_simplified_infer, T_FLOATS),
    COMPOSED("EmbedLayerNormalization", embed_layer_norm_infer, "i32 i64"),
    COMPOSED("QEmbedLayerNormalization", qembed_layer_norm_infer, "i32 i64"),
    COMPOSED("GroupNorm", group_norm_infer, T_FLOATS),
    COMPOSED("SkipGroupNorm", skip_group_norm_infer, T_FLOATS),
    COMPOSED("FusedConv", fused_conv_infer, T_FLOATS),
    COMPOSED("NhwcConv", nhwc_conv_infer, T_FLOATS),
    COMPOSED("NhwcFusedConv", nhwc_conv_infer, T_FLOATS),
    COMPOSED("NhwcMaxPool", nhwc_max_pool_infer, T_NUMS),
    COMPOSED("FusedGemm", fused_gemm_infer, T_NUMS),
    COMPOSED("ConvTransposeWithDynamicPads", conv_transpose_pads_infer, T_FLOATS),
    COMPOSED("ExpandDims", expand_dims_infer, NULL),
    COMPOSED("Range", range_infer, T_NUMS),
    COMPOSED("Pad", pad_infer, NULL),
    COMPOSED("Trilu", trilu_infer, NULL),
    COMPOSED("GridSample", grid_sample_infer, T_FLOATS),
    COMPOSED("Unique", unique_infer, T_NUMS),
    COMPOSED("Rfft", rfft_infer, T_FLOATS),
    COMPOSED("Irfft", irfft_infer, T_FLOATS),
    COMPOSED("CDist", cdist_infer, "f32 f64"),
    COMPOSED("CropAndResize", crop_and_resize_infer, "f32"),
    {0},
};
