/* SPDX-License-Identifier: Apache-2.0 */
/* Operators of com.microsoft that tell attention where a token stands: rotations, and biases by
 * distance. Compositions. */
#include "compose.h"

#include <math.h>

/* ---- rotary ---------------------------------------------------------------------------------- */

/* Result 0: operand 0 by caches as RotaryEmbedding of ai.onnx takes them. */
static void turn(Infer *in, int cos, int sin, int place) {
    int64_t heads = attr_int(in->ctx, in->node, "num_heads", 0);
    if (compose_type(in, IN(0))->rank == 3)
        compose_int(in, "num_heads",
                    heads ? heads
                          : compose_size(in, IN(0), -1) / (2 * compose_size(in, IN(2), -1)));
    compose_attr(in, "interleaved", "interleaved");
    compose_attr(in, "rotary_embedding_dim", "rotary_embedding_dim");
    int y = OP(in, "RotaryEmbedding", IN(0), cos, sin, place);
    float scale = attr_float(in->ctx, in->node, "scale", 1);
    compose_result(in, 0, scale == 1 ? y : OP(in, "Mul", y, compose_number(in, y, scale)));
}

/* `place`: [batch, step], or an offset of one element for all. */
static void rotary_infer(Infer *in) {
    infer_arity(in, 4, 4);
    int place = IN(1), step = nn_ranked(in, 0, 3, 4)->rank - 2;
    if (nn_ranked(in, 1, 1, 2)->rank == 1) {
        int batch = compose_extents(in, IN(0), 0, 1),
            steps = compose_extents(in, IN(0), step, step + 1);
        place = OP(in, "Add", compose_range(in, steps), place);
        compose_int(in, "axis", 0);
        place = OP(in, "Expand", place, OP(in, "Concat", batch, steps));
    }
    turn(in, IN(2), IN(3), place);
}

/* Three places of each row, [3, batch, step]: a column of the caches is read at that of its
 * section, which lie one after the other, or (by layout 1) take turns as long as they last. */
static int sections(Infer *in, int cache) {
    const int64_t *size = NULL;
    int64_t half = compose_size(in, cache, -1),
            layout = attr_int(in->ctx, in->node, "mrope_layout", 0);
    int n = attr_ints(in->ctx, in->node, "mrope_section", &size);
    if (n != 3 || size[0] < 0 || size[1] < 0 || size[2] < 0 || half > INT32_MAX)
        fail(in->ctx, E_ATTRIBUTE, "attribute \"mrope_section\" must be three sizes");
    double *is = NEW_ARRAY(in->arena, double, 2 * half);
    for (int64_t i = 0; i < half; i++) {
        int64_t turn = layout && i < 3 * size[i % 3] ? i % 3 : 0;
        int64_t which = layout ? turn : (i >= size[0]) + (i >= size[0] + size[1]);
        is[i] = which == 1, is[half + i] = which == 2;
    }
    compose_int(in, "axis", 0);
    int rows = OP(in, "Gather", cache, IN(1)), at[3];
    for (int64_t i = 0; i < 3; i++) {
        compose_int(in, "axis", 0);
        at[i] = OP(in, "Gather", rows, compose_shape(in, &i, -1));
    }
    int second = compose_constant(in, BOOL, is, (int)half),
        third = compose_constant(in, BOOL, is + half, (int)half);
    return OP(in, "Where", second, at[1], OP(in, "Where", third, at[2], at[0]));
}

static void multi_rotary_infer(Infer *in) {
    infer_arity(in, 4, 4);
    nn_ranked(in, 0, 3, 4), nn_ranked(in, 1, 3, 3), nn_ranked(in, 2, 2, 2), nn_ranked(in, 3, 2, 2);
    int cos = sections(in, IN(2)), sin = sections(in, IN(3));
    turn(in, cos, sin, -1);
}

/* ---- biases ---------------------------------------------------------------------------------- */

/* T5's: distances in buckets, exact when small, logarithmic up to max_distance. */
static void relative_bias_infer(Infer *in) {
    infer_arity(in, 3, 3);
    Ctx *ctx = in->ctx;
    int64_t both = attr_int(ctx, in->node, "is_bidirectional", 0), n,
            most = attr_int(ctx, in->node, "max_distance", 128);
    if (!dim_is_const(nn_ranked(in, 0, 2, 2)->shape[0], &n) || n < 2)
        fail(ctx, E_UNSUPPORTED, "the number of buckets must be constant and at least 2");
    int q = compose_range(in, compose_reshape(in, compose_cast(in, IN(1), I64), (int64_t[]){1}, 1));
    int k = compose_range(in, compose_reshape(in, compose_cast(in, IN(2), I64), (int64_t[]){1}, 1));
    int far = OP(in, "Sub", k, compose_unsqueeze(in, q, 1)), zero = compose_number(in, far, 0);
    int first = -1;
    if (both) {
        n /= 2;
        first = OP(in, "Mul", compose_cast(in, OP(in, "Greater", far, zero), I64),
                   compose_number(in, far, (double)n));
        far = OP(in, "Abs", far);
    } else {
        far = OP(in, "Neg", OP(in, "Min", far, zero));
    }
    int64_t exact = n / 2;
    double rate = (double)(n - exact) / log((double)most / (double)exact);
    int f = compose_cast(in, OP(in, "Max", far, compose_number(in, far, 1)), F32);
    f = OP(in, "Log", OP(in, "Div", f, compose_number(in, f, (double)exact)));
    int log_bucket = compose_cast(in, OP(in, "Mul", f, compose_number(in, f, rate)), I64);
    log_bucket = OP(in, "Add", log_bucket, compose_number(in, far, (double)exact));
    log_bucket = OP(in, "Min", log_bucket, compose_number(in, far, (double)(n - 1)));
    int small = OP(in, "Less", far, compose_number(in, far, (double)exact));
    int bucket = compose_add(in, first, OP(in, "Where", small, far, log_bucket));
    int y = compose_transpose(in, OP(in, "Gather", IN(0), bucket), (int64_t[]){2, 0, 1}, 3);
    compose_result(in, 0, compose_unsqueeze(in, y, 0));
}

const OpRow onnx_contrib_position_rows[] = {
    COMPOSED("RotaryEmbedding", rotary_infer, T_FLOATS),
    COMPOSED("MRotaryEmbedding", multi_rotary_infer, T_FLOATS),
    COMPOSED("RelativePositionBias", relative_bias_infer, T_FLOATS),
    {0},
};
