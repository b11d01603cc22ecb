/* SPDX-License-Identifier: Apache-2.0 */
/* Layers of attention of com.microsoft with their projections, as MultiHeadAttention with what
 * stands around it: DecoderAttention, DecoderMaskedSelfAttention, LongformerAttention. */
#include "compose.h"

/* x times a weight, and part from .. to - 1 of a bias. */
static int projected(Infer *in, int x, int weight, int bias, int from, int to) {
    return OP(in, "Add", OP(in, "MatMul", x, weight), compose_part(in, bias, 0, from, to));
}

/* ---- DecoderAttention ------------------------------------------------------------------------ */

/* Operand i says at compile time which parts the layer has. */
static bool flag(Infer *in, int i) {
    const Dim *v;
    int n;
    int64_t is;
    nn_need_one(in->ctx, infer_tensor(in, i), 1);
    if (!infer_known(in, i, &v, &n) || n != 1 || !v[0] || !dim_is_const(v[0], &is))
        fail(in->ctx, E_UNSUPPORTED,
             "operand \"%s\" must be constant: what the layer reads follows from it",
             infer_tensor(in, i)->name);
    return is != 0;
}

/* [step, batch, size], and back. */
static int batch_first(Infer *in, int x) {
    return compose_transpose(in, x, (int64_t[]){1, 0, 2}, 3);
}

static void decoder_infer(Infer *in) {
    infer_arity(in, 5, 12);
    for (int i = 0; i < 2; i++) nn_ranked(in, i, 3, 3);
    bool cross = flag(in, 8), past = flag(in, 9), layer = flag(in, 10), padded = flag(in, 11);
    past = past && layer;
    if ((past && (IN(6) < 0 || IN(7) < 0)) || (padded && IN(5) < 0))
        fail(in->ctx, E_MODEL, "the cache or the mask is missing that the layer is told to read");
    int size = compose_extents(in, IN(2), 1, 2), zero = compose_vector(in, 0),
        end = compose_vector(in, INT64_MAX), bias = -1, k = IN(6), v = IN(7);
    int q = projected(in, batch_first(in, IN(0)), IN(2), IN(4), zero, size);
    if (!past || !cross) {
        int from = batch_first(in, IN(cross ? 1 : 0));
        k = compose_split(in, projected(in, from, IN(3), IN(4), size, end), -1, 2), v = k + 1;
    }
    if (padded) {
        int seen =
            OP(in, "Not", OP(in, "Unsqueeze", IN(5), compose_shape(in, (int64_t[]){1, 2}, 2)));
        bias = compose_bias(in, seen, q);
    }
    bool goes_on = past && !cross;
    int operand[] = {q, k, v, -1, -1, bias, goes_on ? IN(6) : -1, goes_on ? IN(7) : -1};
    compose_attr(in, "num_heads", "num_heads");
    int y = compose_op(in, "MultiHeadAttention", operand, 8, 3);
    compose_result(in, 0, batch_first(in, y));
    for (int i = 1; i < 3; i++) compose_result(in, i, y + i);
}

/* ---- DecoderMaskedSelfAttention -------------------------------------------------------------- */

/* Keys of a shared cache lie as [batch, head, size / x, step, x], x of 16 bytes, whatever their
 * dims say: as these say (or, `back`, as they lie). */
static int keys_of(Infer *in, int k, bool back) {
    int64_t size = compose_size(in, k, 3), x = 128 / dtype_bits(compose_type(in, k)->dtype);
    if (size % x)
        fail(in->ctx, E_SHAPE, "heads of %lld elements do not fill parts of %lld", (long long)size,
             (long long)x);
    int64_t there[] = {0, 0, size / x, -1, x}, own[] = {0, 0, -1, size / x, x};
    int y = compose_reshape(in, k, back ? own : there, 5);
    y = compose_transpose(in, y, (int64_t[]){0, 1, 3, 2, 4}, 5);
    if (!back) return compose_reshape(in, y, (int64_t[]){0, 0, -1, size}, 4);
    return OP(in, "Reshape", y, OP(in, "Shape", k));
}

static void decoder_self_infer(Infer *in) {
    static const char *const names[] = {"num_heads", "mask_filter_value", "scale",
                                        "past_present_share_buffer"};
    infer_arity(in, 3, 9);
    nn_ranked(in, 0, 3, 3), nn_ranked(in, 4, 5, 5);
    bool shared = attr_int(in->ctx, in->node, "past_present_share_buffer", 0) != 0;
    int qkv = compose_split(in, OP(in, "Add", OP(in, "MatMul", IN(0), IN(1)), IN(2)), -1, 3);
    int k = compose_row(in, IN(4), 0), v = compose_row(in, IN(4), 1);
    if (shared) k = keys_of(in, k, false);
    int operand[] = {qkv, qkv + 1, qkv + 2, IN(3), IN(5), k, v, -1, IN(7), -1};
    if (shared) operand[7] = IN(6), operand[9] = IN(8);
    for (int i = 0; i < 4; i++) compose_attr(in, names[i], names[i]);
    int y = compose_op(in, "DecoderMaskedMultiHeadAttention", operand, 10, 3);
    k = compose_unsqueeze(in, shared ? keys_of(in, y + 1, true) : y + 1, 0);
    v = compose_unsqueeze(in, y + 2, 0);
    compose_int(in, "axis", 0);
    compose_result(in, 1, OP(in, "Concat", k, v));
    compose_result(in, 0, y);
}

/* ---- LongformerAttention --------------------------------------------------------------------- */

static int whole_attention(Infer *in, int weight, int bias, int scores) {
    int qkv = compose_split(in, OP(in, "Add", OP(in, "MatMul", IN(0), weight), bias), -1, 3);
    int operand[] = {qkv, qkv + 1, qkv + 2, -1, -1, scores};
    compose_attr(in, "num_heads", "num_heads");
    return compose_op(in, "MultiHeadAttention", operand, 6, 1);
}

/* A token sees those of its window and the global ones; a global one all, by its own weights. */
static void longformer_infer(Infer *in) {
    infer_arity(in, 7, 7);
    nn_ranked(in, 0, 3, 3), nn_ranked(in, 3, 2, 2), nn_ranked(in, 6, 2, 2);
    int64_t window = attr_int(in->ctx, in->node, "window", 0);
    if (window < 1) fail(in->ctx, E_ATTRIBUTE, "attribute \"window\" must be at least 1");
    int last = compose_vector(in, 2), key = compose_shape(in, (int64_t[]){1, 2}, 2);
    int place = compose_range(in, compose_extents(in, IN(0), 1, 2));
    int far = OP(in, "Sub", compose_unsqueeze(in, place, 1), place);
    int near = OP(in, "LessOrEqual", OP(in, "Abs", far), compose_vector(in, window));
    int global = compose_cast(in, IN(6), BOOL), mask = OP(in, "Unsqueeze", IN(3), key);
    int seen = OP(in, "Or", OP(in, "Unsqueeze", global, key), near);
    int own = whole_attention(in, IN(1), IN(2), OP(in, "Add", mask, compose_bias(in, seen, mask)));
    int all = whole_attention(in, IN(4), IN(5), mask);
    compose_result(in, 0, OP(in, "Where", OP(in, "Unsqueeze", global, last), all, own));
}

const OpRow onnx_contrib_decoder_rows[] = {
    COMPOSED("DecoderAttention", decoder_infer, T_FLOATS),
    COMPOSED("DecoderMaskedSelfAttention", decoder_self_infer, T_FLOATS),
    COMPOSED("LongformerAttention", longformer_infer, T_FLOATS),
    {0},
};
