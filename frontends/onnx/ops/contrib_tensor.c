/* SPDX-License-Identifier: Apache-2.0 */
/* Small operators of com.microsoft that fusions, quantizers and training leave in a graph: integer
 * arithmetic, complex pairs, dropouts, sequences without padding, tables. Compositions. */
#include "compose.h"

#include <math.h>
#include <string.h>

static int joined(Infer *in, int64_t axis, int a, int b) {
    compose_int(in, "axis", axis);
    return OP(in, "Concat", a, b);
}

static void copy_infer(Infer *in) {
    infer_arity(in, 1, 1);
    compose_result(in, 0, IN(0));
}

/* ---- integers -------------------------------------------------------------------------------- */

static int without_zero(Infer *in, int x, int zero) {
    x = compose_cast(in, x, I32);
    return zero < 0 ? x : OP(in, "Sub", x, compose_cast(in, zero, I32));
}

static void mul_integer_infer(Infer *in) {
    infer_arity(in, 3, 4);
    infer_tensor(in, 2);
    compose_result(in, 0,
                   OP(in, "Mul", without_zero(in, IN(0), IN(1)), without_zero(in, IN(2), IN(3))));
}

static void matmul_integer16_infer(Infer *in) {
    infer_arity(in, 2, 2);
    bool natural = infer_tensor(in, 0)->type.dtype == U16 && infer_tensor(in, 1)->type.dtype == U16;
    DType t = natural ? U32 : I32;
    compose_result(in, 0, OP(in, "MatMul", compose_cast(in, IN(0), t), compose_cast(in, IN(1), t)));
}

static void reduce_sum_integer_infer(Infer *in) {
    const int64_t *axes;
    infer_arity(in, 1, 1);
    int n = attr_ints(in->ctx, in->node, "axes", &axes);
    int x = compose_cast(in, IN(0), infer_tensor(in, 0)->type.dtype == U8 ? U32 : I32);
    int over = compose_shape(in, axes, n);
    compose_attr(in, "keepdims", "keepdims");
    compose_result(in, 0, OP(in, "ReduceSum", x, over));
}

/* Of all operands: no element is infinite (or only that, or not a number). */
static void all_finite_infer(Infer *in) {
    bool nan_only = attr_int(in->ctx, in->node, "isnan_only", 0) != 0,
         inf_only = attr_int(in->ctx, in->node, "isinf_only", 0) != 0;
    int all = -1;
    for (int i = 0; i < in->node->in.n; i++) {
        infer_tensor(in, i);
        int bad = inf_only ? -1 : OP(in, "IsNaN", IN(i));
        if (!nan_only) {
            int inf = OP(in, "IsInf", IN(i));
            bad = bad < 0 ? inf : OP(in, "Or", bad, inf);
        }
        int good = compose_cast(in, OP(in, "Not", bad), I32);
        compose_int(in, "keepdims", 0);
        good = compose_cast(in, OP(in, "ReduceMin", good), BOOL);
        all = all < 0 ? good : OP(in, "And", all, good);
    }
    compose_result(in, 0, all);
}

/* ---- products and pairs ---------------------------------------------------------------------- */

static void gemm_fast_gelu_infer(Infer *in) {
    infer_arity(in, 2, 3);
    int x = compose_add(in, OP(in, "MatMul", IN(0), IN(1)), IN(2));
    compose_string(in, "approximate", "tanh");
    compose_result(in, 0, OP(in, "Gelu", x));
}

static void fused_matmul_activation_infer(Infer *in) {
    static const char *const names[] = {"alpha", "transA", "transB", "transBatchA", "transBatchB"};
    infer_arity(in, 2, 2);
    for (int i = 0; i < 5; i++) compose_attr(in, names[i], names[i]);
    compose_result(in, 0, compose_activation(in, OP(in, "FusedMatMul", IN(0), IN(1))));
}

/* Half i of pairs along the last axis. */
static int half(Infer *in, int pairs, int64_t i) {
    int which = compose_vector(in, i);
    compose_int(in, "axis", -1);
    return OP(in, "Gather", pairs, which);
}

/* sign: 1, or -1 for the product by b's conjugate */
static void complex_product(Infer *in, double sign) {
    infer_arity(in, 2, 2);
    int a = half(in, IN(0), 0), b = half(in, IN(0), 1), c = half(in, IN(1), 0),
        d = OP(in, "Mul", half(in, IN(1), 1), compose_number(in, IN(1), sign));
    int real = OP(in, "Sub", OP(in, "Mul", a, c), OP(in, "Mul", b, d)),
        turned = OP(in, "Add", OP(in, "Mul", a, d), OP(in, "Mul", b, c));
    compose_result(in, 0, joined(in, -1, real, turned));
}

static void complex_mul_infer(Infer *in) {
    complex_product(in, 1);
}

static void complex_mul_conj_infer(Infer *in) {
    complex_product(in, -1);
}

/* x * cos + turned * sin, of angles `emb` [batch, step, size], whose cosines and sines have x's
 * type: what these make is rounded to it once. */
static void gemma_rotary_infer(Infer *in) {
    infer_arity(in, 5, 5);
    int heads = compose_vector(in, 1);
    for (int i = 0; i < 2; i++) {
        DType t = infer_tensor(in, 1 + 2 * i)->type.dtype;
        int term[2];
        for (int k = 0; k < 2; k++) {
            int angle = compose_cast(in, OP(in, k ? "Sin" : "Cos", IN(0)), t);
            int by = OP(in, "Unsqueeze", compose_cast(in, angle, F32), heads);
            term[k] = OP(in, "Mul", compose_cast(in, IN(1 + 2 * i + k), F32), by);
        }
        compose_result(in, i, compose_cast(in, OP(in, "Add", term[0], term[1]), t));
    }
}

/* ---- dropouts -------------------------------------------------------------------------------- */

static void bitmask_dropout_infer(Infer *in) {
    infer_arity(in, 1, 3);
    compose_attr(in, "seed", "seed");
    compose_result(in, 0, OP(in, "Dropout", IN(0), IN(1), IN(2)));
}

/* dropout(x + bias) + residual */
static int bias_dropout(Infer *in) {
    infer_arity(in, 2, 5);
    int x = OP(in, "Add", IN(0), IN(1));
    compose_attr(in, "seed", "seed");
    int y = compose_op(in, "Dropout", (int[]){x, IN(3), IN(4)}, 3, 2);
    compose_result(in, 0, compose_add(in, y, IN(2)));
    return y + 1;
}

static void bias_dropout_infer(Infer *in) {
    compose_result(in, 1, bias_dropout(in));
}

static void bitmask_bias_dropout_infer(Infer *in) {
    bias_dropout(in);
}

/* ---- sequences ------------------------------------------------------------------------------- */

/* Places where the flat x is true. */
static int places(Infer *in, int x) {
    return OP(in, "Squeeze", OP(in, "NonZero", compose_reshape(in, x, (int64_t[]){-1}, 1)),
              compose_vector(in, 0));
}

/* Rows [token, width] of the first `count` steps of each sequence; where they, and behind them the
 * others, stood; sums of counts; the greatest count. */
static void remove_padding_infer(Infer *in) {
    infer_arity(in, 2, 2);
    const int64_t zero = 0;
    nn_ranked(in, 0, 3, 3), nn_ranked(in, 1, 1, 1);
    int steps = compose_extents(in, IN(0), 1, 2), shape = compose_extents(in, IN(0), 0, 2);
    int step = compose_range(in, steps);
    int count = compose_unsqueeze(in, compose_cast(in, IN(1), I64), 1);
    int seen = OP(in, "Less", step, count), kept = places(in, seen);
    int flat = joined(in, 0, compose_vector(in, -1), compose_extents(in, IN(0), 2, 3));
    int rows = OP(in, "Reshape", IN(0), flat);
    compose_int(in, "axis", 0);
    compose_result(in, 0, OP(in, "Gather", rows, kept));
    int all = joined(in, 0, kept, places(in, OP(in, "Not", seen)));
    compose_result(in, 1, compose_cast(in, OP(in, "Reshape", all, shape), I32));
    int first = compose_constant(in, I32, (double[]){0}, 1);
    int sums = OP(in, "CumSum", IN(1), compose_shape(in, &zero, -1));
    compose_result(in, 2, joined(in, 0, first, sums));
    compose_result(in, 3, OP(in, "ReduceMax", IN(1)));
}

/* Rows back at their places, zeros elsewhere. */
static void restore_padding_infer(Infer *in) {
    infer_arity(in, 2, 2);
    nn_ranked(in, 0, 2, 2), nn_ranked(in, 1, 2, 2);
    int places = compose_places(in, IN(0), IN(1));
    compose_result(in, 0, compose_padded(in, IN(0), places, IN(1)));
}

/* Scores of tokens that would repeat n tokens of the sequence become -inf. */
static void ngram_repeat_infer(Infer *in) {
    infer_arity(in, 2, 2);
    nn_ranked(in, 0, 2, 2), nn_ranked(in, 1, 2, 2);
    int64_t n = attr_int(in->ctx, in->node, "ngram_size", 0);
    if (n < 1 || n > 64)
        fail(in->ctx, E_ATTRIBUTE, "attribute \"ngram_size\" is %lld: it must be 1 .. 64",
             (long long)n);
    int ids = IN(0), steps = compose_extents(in, ids, 1, 2), again = -1;
    int count =
        OP(in, "Max", OP(in, "Sub", steps, compose_vector(in, n - 1)), compose_vector(in, 0));
    for (int64_t i = 0; i + 1 < n; i++) {
        int from = OP(in, "Add", count, compose_vector(in, i)),
            to = OP(in, "Add", count, compose_vector(in, i + 1));
        int same = OP(in, "Equal", compose_part(in, ids, 1, compose_vector(in, i), from),
                      compose_part(in, ids, 1, from, to));
        again = again < 0 ? same : OP(in, "And", again, same);
    }
    int next = compose_part(in, ids, 1, compose_vector(in, n - 1),
                            OP(in, "Add", count, compose_vector(in, n - 1)));
    int never = compose_number(in, IN(1), -INFINITY);
    int limit = again < 0 ? OP(in, "Expand", never, OP(in, "Shape", next))
                          : OP(in, "Where", again, never, compose_number(in, IN(1), INFINITY));
    compose_int(in, "axis", 1);
    compose_string(in, "reduction", "min");
    compose_result(in, 0, OP(in, "ScatterElements", IN(1), next, limit));
}

/* ---- slices and tables ----------------------------------------------------------------------- */

static void gather_nd_infer(Infer *in) {
    infer_arity(in, 2, 2);
    compose_result(in, 0, OP(in, "GatherND", IN(0), compose_cast(in, IN(1), I64)));
}

static void torch_embedding_infer(Infer *in) {
    infer_arity(in, 2, 4);
    compose_result(in, 0, OP(in, "Gather", IN(0), IN(1)));
}

/* All slices of `size` along one dim, `step` apart; their elements make a last dim. */
static void unfold_infer(Infer *in) {
    infer_arity(in, 1, 1);
    int rank = nn_ranked(in, 0, 1, RANK_MAX - 1)->rank;
    int axis = (int)attr_axis(in->ctx, in->node, "dim", -1, rank);
    int64_t size = attr_int(in->ctx, in->node, "size", 0),
            step = attr_int(in->ctx, in->node, "step", 1), perm[RANK_MAX];
    const int64_t zero = 0;
    if (size < 1 || step < 1 || size > INT32_MAX || step > INT32_MAX)
        fail(in->ctx, E_ATTRIBUTE, "attributes \"size\" and \"step\" must be at least 1");
    int last =
        OP(in, "Sub", compose_extents(in, IN(0), axis, axis + 1), compose_vector(in, size - 1));
    int from = OP(in, "Range", compose_shape(in, &zero, -1), OP(in, "Squeeze", last),
                  compose_shape(in, &step, -1));
    int within = compose_range(in, compose_vector(in, size));
    int index = OP(in, "Add", compose_unsqueeze(in, from, 1), within);
    compose_int(in, "axis", axis);
    int y = OP(in, "Gather", IN(0), index);
    for (int i = 0; i <= rank; i++) perm[i] = i <= axis ? i : i == rank ? axis + 1 : i + 1;
    compose_result(in, 0, compose_transpose(in, y, perm, rank + 1));
}

const OpRow onnx_contrib_tensor_rows[] = {
    COMPOSED("MulInteger", mul_integer_infer, T_BYTES),
    COMPOSED("MatMulInteger16", matmul_integer16_infer, "i16 u16"),
    COMPOSED("ReduceSumInteger", reduce_sum_integer_infer, T_BYTES),
    COMPOSED("IsAllFinite", all_finite_infer, T_FLOATS),
    COMPOSED("GemmFastGelu", gemm_fast_gelu_infer, T_FLOATS),
    COMPOSED("FusedMatMulActivation", fused_matmul_activation_infer, T_FLOATS),
    COMPOSED("ComplexMul", complex_mul_infer, "f16 f32 f64"),
    COMPOSED("ComplexMulConj", complex_mul_conj_infer, "f16 f32 f64"),
    COMPOSED("GemmaRotaryEmbedding", gemma_rotary_infer, "f32"),
    COMPOSED("BitmaskDropout", bitmask_dropout_infer, T_FLOATS),
    COMPOSED("BiasDropout", bias_dropout_infer, T_FLOATS),
    COMPOSED("BitmaskBiasDropout", bitmask_bias_dropout_infer, T_FLOATS),
    COMPOSED("RemovePadding", remove_padding_infer, "f16 f32"),
    COMPOSED("RestorePadding", restore_padding_infer, "f16 f32"),
    COMPOSED("NGramRepeatBlock", ngram_repeat_infer, "i64"),
    COMPOSED("GatherND", gather_nd_infer, NULL),
    COMPOSED("TorchEmbedding", torch_embedding_infer, NULL),
    COMPOSED("UnfoldTensor", unfold_infer, NULL),
    COMPOSED("SampleOp", copy_infer, NULL),
    {"", "MemcpyFromHost", 1, 0, copy_infer, NULL, NULL, NULL, OP_COMPOSED},
    {"", "MemcpyToHost", 1, 0, copy_infer, NULL, NULL, NULL, OP_COMPOSED},
    {0},
};
