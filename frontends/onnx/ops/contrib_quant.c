/* SPDX-License-Identifier: Apache-2.0 */
/* Quantized operators of com.microsoft: a standard operator between DequantizeLinear and
 * QuantizeLinear, integer products with their scales, and weights in blocks of few bits. */
#include "compose.h"

#include <string.h>

/* Operand i by its scale and zero point, the operands after it. */
static int real(Infer *in, int i) {
    return OP(in, "DequantizeLinear", IN(i), IN(i + 1), IN(i + 2));
}

/* y in type `t` by the scale and zero point at operands i and i + 1. */
static void quantized(Infer *in, int y, int i, DType t) {
    int zero = IN(i + 1);
    if (zero < 0) zero = compose_constant(in, t, (double[]){0}, -1);
    compose_result(in, 0, OP(in, "QuantizeLinear", y, IN(i), zero));
}

static DType code(const Infer *in, int i) {
    return infer_tensor(in, i)->type.dtype;
}

/* ---- element-wise ---------------------------------------------------------------------------- */

static void qlinear_binary(Infer *in, const char *op) {
    infer_arity(in, 7, 8);
    quantized(in, OP(in, op, real(in, 0), real(in, 3)), 6, code(in, 0));
}

static void qlinear_add_infer(Infer *in) {
    qlinear_binary(in, "Add");
}

static void qlinear_mul_infer(Infer *in) {
    qlinear_binary(in, "Mul");
}

static void qlinear_sigmoid_infer(Infer *in) {
    infer_arity(in, 4, 5);
    quantized(in, OP(in, "Sigmoid", real(in, 0)), 3, code(in, 0));
}

static void qlinear_leaky_relu_infer(Infer *in) {
    infer_arity(in, 4, 5);
    int x = real(in, 0);
    compose_float(in, "alpha", attr_float(in->ctx, in->node, "alpha", 0.01f));
    quantized(in, OP(in, "LeakyRelu", x), 3, code(in, 0));
}

static void qlinear_where_infer(Infer *in) {
    infer_arity(in, 9, 9);
    quantized(in, OP(in, "Where", IN(0), real(in, 1), real(in, 4)), 7, code(in, 1));
}

static void qlinear_concat_infer(Infer *in) {
    int n = (in->node->in.n - 2) / 3, *part = NEW_ARRAY(in->arena, int, n + 1);
    if (n < 1 || in->node->in.n != 2 + 3 * n)
        fail(in->ctx, E_MODEL,
             "the node has %d operands: a scale, a zero point and three for each "
             "tensor are needed",
             in->node->in.n);
    for (int i = 0; i < n; i++) part[i] = real(in, 2 + 3 * i);
    compose_attr(in, "axis", "axis");
    quantized(in, compose_op(in, "Concat", part, n, 1), 0, code(in, 2));
}

/* ---- rows and windows ------------------------------------------------------------------------ */

static void qlinear_softmax_infer(Infer *in) {
    infer_arity(in, 5, 5);
    int rank = nn_ranked(in, 0, 1, RANK_MAX)->rank;
    bool flat = attr_int(in->ctx, in->node, "opset", 13) < 13;
    int axis = (int)attr_axis(in->ctx, in->node, "axis", -1, rank);
    quantized(in, compose_softmax(in, real(in, 0), axis, flat ? rank : axis + 1), 3, code(in, 0));
}

static void qlinear_reduce_mean_infer(Infer *in) {
    const int64_t *axes;
    infer_arity(in, 4, 5);
    int n = attr_ints(in->ctx, in->node, "axes", &axes), x = real(in, 0);
    compose_int(in, "keepdims", attr_int(in->ctx, in->node, "keepdims", 1));
    int y = n > 0 ? OP(in, "ReduceMean", x, compose_shape(in, axes, n)) : OP(in, "ReduceMean", x);
    quantized(in, y, 3, code(in, 0));
}

static void qlinear_pool(Infer *in, const char *op) {
    bool last = attr_int(in->ctx, in->node, "channels_last", 0) != 0;
    infer_arity(in, 4, 5);
    nn_ranked(in, 0, 3, 5);
    int x = last ? compose_channels(in, real(in, 0), true) : real(in, 0);
    compose_window(in);
    int y = OP(in, op, x);
    quantized(in, last ? compose_channels(in, y, false) : y, 3, code(in, 0));
}

static void qlinear_average_pool_infer(Infer *in) {
    qlinear_pool(in, "AveragePool");
}

static void qlinear_global_average_pool_infer(Infer *in) {
    qlinear_pool(in, "GlobalAveragePool");
}

/* ---- products -------------------------------------------------------------------------------- */

/* float(a b) * scale + bias, of integer operands with their zero points. */
static int scaled_product(Infer *in, int a, int b, int zero_a, int zero_b, int scale, int bias) {
    DType t = compose_type(in, scale)->dtype;
    int y = compose_cast(in, OP(in, "MatMulInteger", a, b, zero_a, zero_b), t);
    y = OP(in, "Mul", y, scale);
    return bias < 0 ? y : OP(in, "Add", y, bias);
}

int compose_integer_product(Infer *in, int a, int b, int scale_a, int scale_b, int zero_a,
                            int zero_b, int bias) {
    return scaled_product(in, a, b, zero_a, zero_b, OP(in, "Mul", scale_a, scale_b), bias);
}

static void matmul_integer_to_float_infer(Infer *in) {
    infer_arity(in, 4, 7);
    compose_result(in, 0,
                   compose_integer_product(in, IN(0), IN(1), IN(2), IN(3), IN(4), IN(5), IN(6)));
}

/* The first operand is quantized as a whole, at run time. */
static void dynamic_quantize_matmul_infer(Infer *in) {
    infer_arity(in, 3, 5);
    int a = compose_op(in, "DynamicQuantizeLinear", (int[]){IN(0)}, 1, 3);
    compose_result(in, 0, compose_integer_product(in, a, IN(1), a + 1, IN(2), a + 2, IN(3), IN(4)));
}

static int turned(Infer *in, int x, const char *attr) {
    if (!attr_int(in->ctx, in->node, attr, 0)) return x;
    return compose_transpose(in, x, (int64_t[]){1, 0}, 2);
}

/* Operands: A, B with scale and zero point, C (int32), then y's scale and zero point, or a float
 * result. */
static void qgemm_infer(Infer *in) {
    infer_arity(in, 6, 9);
    int a = turned(in, IN(0), "transA"), b = turned(in, IN(3), "transB");
    int acc = OP(in, "MatMulInteger", a, b, IN(2), IN(5));
    if (IN(6) >= 0) acc = OP(in, "Add", acc, IN(6));
    float alpha = attr_float(in->ctx, in->node, "alpha", 1);
    int scale = OP(in, "Mul", IN(1), IN(4));
    if (alpha != 1) scale = OP(in, "Mul", scale, compose_number(in, scale, alpha));
    int y = OP(in, "Mul", compose_cast(in, acc, compose_type(in, scale)->dtype), scale);
    if (IN(7) >= 0)
        quantized(in, y, 7, code(in, 0));
    else
        compose_result(in, 0, y);
}

/* As QLinearConv of ai.onnx, maybe with channels last; weights are as there. */
static void qlinear_conv_infer(Infer *in) {
    infer_arity(in, 8, 9);
    bool last = attr_int(in->ctx, in->node, "channels_last", 0) != 0;
    nn_ranked(in, 0, 3, 5);
    int operand[9];
    for (int i = 0; i < 9; i++) operand[i] = IN(i);
    if (last) operand[0] = compose_channels(in, operand[0], true);
    compose_window(in);
    int y = compose_op(in, "QLinearConv", operand, 9, 1);
    compose_result(in, 0, last ? compose_channels(in, y, false) : y);
}

/* ---- weights of few bits --------------------------------------------------------------------- */

static DType unsigned_of(Infer *in, int64_t bits) {
    DType t = bits == 2 ? U2 : bits == 4 ? U4 : bits == 8 ? U8 : DT_NONE;
    if (t == DT_NONE)
        fail(in->ctx, E_UNSUPPORTED, "attribute \"bits\" is %lld: use 2, 4 or 8", (long long)bits);
    return t;
}

/* Constant bytes (operand i) as `rows` rows of `bits`-bit numbers. */
static int rows_of_bits(Infer *in, int i, int64_t bits, int64_t rows) {
    int x = compose_bits(in, i, unsigned_of(in, bits));
    int64_t n = type_count(compose_type(in, x));
    if (n % rows)
        fail(in->ctx, E_SHAPE, "operand \"%s\" has %lld numbers: they do not make %lld rows",
             infer_tensor(in, i)->name, (long long)n, (long long)rows);
    return compose_view(in, &in->graph->value.at[x], unsigned_of(in, bits),
                        (int64_t[]){rows, n / rows}, 2);
}

/* The first n columns. */
static int columns(Infer *in, int x, int64_t n) {
    const Type *t = compose_type(in, x);
    if (dim_is(t->shape[1], n)) return x;
    int from = compose_shape(in, (int64_t[]){0}, 1), to = compose_shape(in, &n, 1);
    return OP(in, "Slice", x, from, to, compose_shape(in, (int64_t[]){1}, 1));
}

/* Zero points as floats [rows, blocks]: packed like the weights, floats, or the middle. */
static int block_zeros(Infer *in, int i, int64_t bits, int64_t rows, int64_t blocks, DType t) {
    int64_t shape[] = {rows, blocks};
    if (IN(i) < 0) return compose_constant(in, t, (double[]){(double)(1 << (bits - 1))}, -1);
    if (code(in, i) != U8) return compose_reshape(in, compose_cast(in, IN(i), t), shape, 2);
    return compose_cast(in, columns(in, rows_of_bits(in, i, bits, rows), blocks), t);
}

/* (q - zero) * scale for each block of `size` along the last axis; q [rows, blocks * size]. */
static int unblocked(Infer *in, int q, int scale, int zero, int64_t rows, int64_t blocks,
                     int64_t size) {
    DType t = compose_type(in, scale)->dtype;
    int last = compose_shape(in, (int64_t[]){-1}, 1);
    int x = compose_reshape(in, compose_cast(in, q, t), (int64_t[]){rows, blocks, size}, 3);
    if (compose_type(in, zero)->rank) zero = OP(in, "Unsqueeze", zero, last);
    x = OP(in, "Mul", OP(in, "Sub", x, zero), OP(in, "Unsqueeze", scale, last));
    return compose_reshape(in, x, (int64_t[]){rows, blocks * size}, 2);
}

/* The same where `block` names the block of each column. */
static int by_column(Infer *in, int q, int scale, int zero, int block) {
    compose_int(in, "axis", 1);
    int s = OP(in, "Gather", scale, block);
    if (compose_type(in, zero)->rank) {
        compose_int(in, "axis", 1);
        zero = OP(in, "Gather", zero, block);
    }
    return OP(in, "Mul", OP(in, "Sub", compose_cast(in, q, compose_type(in, s)->dtype), zero), s);
}

/* Operand i as [rows, n]: exporters write such tables flat, too. */
static int as_matrix(Infer *in, int i, int64_t rows, int64_t n) {
    const int64_t shape[] = {rows, n};
    const Value *v = value_source(in->graph, infer_tensor(in, i));
    bool same = value_look(v) && type_count(&v->type) == rows * n;
    return same ? compose_view(in, v, v->type.dtype, shape, 2)
                : compose_reshape(in, IN(i), shape, 2);
}

/* a times the transpose of [N, K] weights of `bits` bits, with a scale for each block of a row.
 * Halves are computed in f32 and rounded once. */
static void matmul_nbits_infer(Infer *in) {
    Ctx *ctx = in->ctx;
    int64_t bits = attr_int(ctx, in->node, "bits", 4), n = attr_int(ctx, in->node, "N", 0),
            k = attr_int(ctx, in->node, "K", 0), size = attr_int(ctx, in->node, "block_size", 0);
    infer_arity(in, 3, 6);
    if (n < 1 || k < 1 || size < 1)
        fail(ctx, E_ATTRIBUTE, "attributes \"N\", \"K\" and \"block_size\" must be at least 1");
    int64_t blocks = (k + size - 1) / size;
    int q = rows_of_bits(in, 1, bits, n);
    if (!dim_is(compose_type(in, q)->shape[1], blocks * size))
        fail(ctx, E_SHAPE, "operand \"%s\" does not hold %lld x %lld numbers of %lld bits",
             infer_tensor(in, 1)->name, (long long)n, (long long)(blocks * size), (long long)bits);
    int scale = compose_cast(in, as_matrix(in, 2, n, blocks), F32);
    int zero = block_zeros(in, 3, bits, n, blocks, compose_type(in, scale)->dtype);
    int w = IN(4) >= 0 ? by_column(in, columns(in, q, k), scale, zero, IN(4))
                       : columns(in, unblocked(in, q, scale, zero, n, blocks, size), k);
    int x = compose_cast(in, IN(0), F32), bias = IN(5) < 0 ? -1 : compose_cast(in, IN(5), F32);
    w = compose_transpose(in, w, (int64_t[]){1, 0}, 2);
    compose_attr(in, "accuracy_level", "accuracy_level");
    int y = OP(in, "MatMul", x, w);
    compose_result(in, 0, compose_cast(in, compose_add(in, y, bias), code(in, 0)));
}

/* x, x normalised, or x + skip (operand 1) normalised, by the scale at operand 2; the sum is result
 * `sum`. */
static int normed_rows(Infer *in, int sum) {
    int x = compose_add(in, IN(0), IN(1));
    compose_result(in, sum, x);
    if (IN(2) < 0) return x;
    compose_float(in, "epsilon", attr_float(in->ctx, in->node, "epsilon", 1e-5f));
    return OP(in, "RMSNormalization", x, IN(2));
}

/* x times weights at operand i, by their scales and plus a bias, the operands behind. */
static int nbits_product(Infer *in, int x, int i, const char *rows) {
    static const char *const names[] = {"K", "bits", "block_size"};
    for (int k = 0; k < 3; k++) compose_attr(in, names[k], names[k]);
    compose_attr(in, "N", rows);
    infer_tensor(in, i), infer_tensor(in, i + 1);
    return compose_op(in, "MatMulNBits", (int[]){x, IN(i), IN(i + 1), -1, -1, IN(i + 2)}, 6, 1);
}

/* activation(x gate) * (x up) */
static void matmul_nbits_mlp_infer(Infer *in) {
    const char *name = attr_string(in->ctx, in->node, "activation", "");
    int x = normed_rows(in, 1), gate = nbits_product(in, x, 3, "N");
    if (strcmp(name, "silu") && strcmp(name, "swish"))
        fail(in->ctx, E_UNSUPPORTED, "attribute \"activation\" is \"%s\": use silu", name);
    compose_result(in, 0, OP(in, "Mul", compose_silu(in, gate, 1), nbits_product(in, x, 6, "N")));
}

static void matmul_nbits_qkv_infer(Infer *in) {
    int x = normed_rows(in, 3);
    for (int i = 0; i < 3; i++)
        compose_result(in, i, nbits_product(in, x, 3 + 3 * i, i ? "Nkv" : "Nq"));
}

/* The product, and that of two matrices of low rank, operands 3 and 5, unless these are empty. */
static void matmul_nbits_lora_infer(Infer *in) {
    Ctx *ctx = in->ctx;
    infer_arity(in, 7, 7);
    nn_ranked(in, 3, 3, 3), nn_ranked(in, 5, 3, 3);
    int64_t rank = compose_size(in, IN(3), 0), k = attr_int(ctx, in->node, "K", 0),
            n = attr_int(ctx, in->node, "N", 0), bits = attr_int(ctx, in->node, "lora_bits", 8),
            size = attr_int(ctx, in->node, "lora_block_size", 32), to[] = {rank, n},
            of[] = {k, rank};
    int base[] = {IN(0), IN(1), IN(2)}, x = IN(0);
    compose_int(in, "K", k), compose_int(in, "N", n);
    compose_int(in, "bits", attr_int(ctx, in->node, "bits", 4));
    compose_int(in, "block_size", attr_int(ctx, in->node, "block_size", 32));
    int y = compose_op(in, "MatMulNBits", base, 3, 1);
    bool empty = rank == 0 || compose_size(in, IN(5), 1) == 0;
    for (int i = 0; i < 2 && !empty; i++) {
        int operand[] = {x, IN(3 + 2 * i), IN(4 + 2 * i)};
        compose_int(in, "K", of[i]), compose_int(in, "N", to[i]);
        compose_int(in, "bits", bits), compose_int(in, "block_size", size);
        x = compose_op(in, "MatMulNBits", operand, 3, 1);
    }
    compose_result(in, 0, empty ? y : OP(in, "Add", y, x));
}

/* x times the transpose of floats [N, K] of 8 or 4 bits, plus a bias; a scale for each block of a
 * row. */
static void block_product(Infer *in, int x, int codes, int scale, int bias, int64_t otherwise) {
    compose_int(in, "axis", 1);
    compose_int(in, "block_size", attr_int(in->ctx, in->node, "block_size", otherwise));
    int w = OP(in, "DequantizeLinear", codes, scale);
    int y =
        OP(in, "MatMul", compose_cast(in, x, F32), compose_transpose(in, w, (int64_t[]){1, 0}, 2));
    if (bias >= 0) y = OP(in, "Add", y, compose_cast(in, bias, F32));
    compose_result(in, 0, compose_cast(in, y, code(in, 0)));
}

/* With a scale of its own x is rounded to the weights' type, too. */
static void matmul_fp8_infer(Infer *in) {
    infer_arity(in, 3, 5);
    int x = IN(0);
    if (IN(3) >= 0) {
        int q = compose_cast(in, OP(in, "Div", compose_cast(in, x, F32), IN(3)), F8E4M3FN);
        x = OP(in, "Mul", compose_cast(in, q, F32), IN(3));
    }
    block_product(in, x, IN(1), IN(2), IN(4), 128);
}

/* Codes of 4 bits, and bytes that are scales of 8 bits. */
static void matmul_fp4_infer(Infer *in) {
    infer_arity(in, 4, 6);
    int codes = compose_bits(in, 1, F4E2M1), scale = compose_bits(in, 2, F8E4M3FN);
    scale = OP(in, "Mul", compose_cast(in, scale, F32), IN(3));
    block_product(in, IN(0), codes, scale, IN(5), 16);
}

/* What the 16 codes of a type of bitsandbytes stand for, in parts of a block's greatest magnitude:
 * FP4, and NF4 of QLoRA (arXiv 2305.14314, appendix E). */
static const double bnb_values[2][16] = {
    {0, 1.0 / 192, 2.0 / 3, 1, 1.0 / 3, 0.5, 1.0 / 6, 0.25, 0, -1.0 / 192, -2.0 / 3, -1, -1.0 / 3,
     -0.5, -1.0 / 6, -0.25},
    {-1, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635,
     -0.18477343022823334, -0.09105003625154495, 0, 0.07958029955625534, 0.16093020141124725,
     0.24611230194568634, 0.33791524171829224, 0.44070982933044434, 0.5626170039176941,
     0.7229568362236023, 1}};

/* The first of two codes lies in the high half of a byte. */
static int high_first(Infer *in, int codes) {
    int pairs = compose_reshape(in, codes, (int64_t[]){-1, 2}, 2);
    compose_int(in, "axis", 1);
    int turned = OP(in, "Gather", pairs, compose_shape(in, (int64_t[]){1, 0}, 2));
    return compose_reshape(in, turned, (int64_t[]){-1}, 1);
}

/* a times [N, K] weights (transposed by default), flat in blocks that have a greatest magnitude
 * each. */
static void matmul_bnb4_infer(Infer *in) {
    Ctx *ctx = in->ctx;
    int64_t n = attr_int(ctx, in->node, "N", 0), k = attr_int(ctx, in->node, "K", 0),
            size = attr_int(ctx, in->node, "block_size", 0),
            type = attr_int(ctx, in->node, "quant_type", 0), all = n * k;
    infer_arity(in, 3, 3);
    if (n < 1 || k < 1 || size < 1 || n > INT32_MAX || k > INT32_MAX || type < 0 || type > 1)
        fail(
            ctx, E_ATTRIBUTE,
            "attributes \"N\", \"K\" and \"block_size\" must be at least 1, \"quant_type\" 0 or 1");
    int codes = high_first(in, compose_bits(in, 1, U4)),
        zero = compose_shape(in, (int64_t[]){0}, 1);
    int blocks = compose_shape(in, (int64_t[]){(all + size - 1) / size, size}, 2);
    int scale =
        OP(in, "Expand", compose_reshape(in, compose_cast(in, IN(2), F32), (int64_t[]){-1, 1}, 2),
           blocks);
    scale = OP(in, "Slice", compose_reshape(in, scale, (int64_t[]){-1}, 1), zero,
               compose_shape(in, &all, 1));
    codes = OP(in, "Slice", codes, zero, compose_shape(in, &all, 1));
    int value = OP(in, "Gather", compose_constant(in, F32, bnb_values[type], 16),
                   compose_cast(in, codes, I32));
    int w = compose_reshape(in, OP(in, "Mul", value, scale), (int64_t[]){n, k}, 2);
    if (attr_int(ctx, in->node, "transB", 1)) w = compose_transpose(in, w, (int64_t[]){1, 0}, 2);
    int y = OP(in, "MatMul", compose_cast(in, IN(0), F32), w);
    compose_result(in, 0, compose_cast(in, y, code(in, 0)));
}

/* Weights [directions, inputs, 4 * hidden] as floats [directions, 4 * hidden, inputs]; a scale and
 * a zero point for each direction, or for each of its columns (blocks of all inputs). */
static int gate_weights(Infer *in, int w, int scale, int zero) {
    bool columns = nn_ranked(in, scale, 1, 2)->rank == 2;
    int part[] = {IN(w), IN(scale), IN(zero)}, inputs = compose_shape(in, (int64_t[]){1}, 1);
    nn_ranked(in, w, 3, 3);
    for (int i = 1; i < 3 && columns; i++) part[i] = OP(in, "Unsqueeze", part[i], inputs);
    if (columns) compose_int(in, "block_size", compose_size(in, IN(w), 1));
    compose_int(in, "axis", columns);
    int x = compose_op(in, "DequantizeLinear", part, 3, 1);
    return compose_transpose(in, x, (int64_t[]){0, 2, 1}, 3);
}

/* Weights of 8 bits; all inputs, and the state of each step, are rounded to 8 bits by their range.
 */
static void dynamic_quantize_lstm_infer(Infer *in) {
    static const char *const attributes[] = {"direction",   "hidden_size",      "activations",
                                             "clip",        "activation_alpha", "activation_beta",
                                             "input_forget"};
    infer_arity(in, 3, 12);
    int w = gate_weights(in, 1, 8, 9), r = gate_weights(in, 2, 10, 11);
    int codes = compose_op(in, "DynamicQuantizeLinear", (int[]){IN(0)}, 1, 3);
    int x = OP(in, "DequantizeLinear", codes, codes + 1, codes + 2);
    for (int i = 0; i < 7; i++) compose_attr(in, attributes[i], attributes[i]);
    compose_int(in, "quantize_state", 1);
    int y = compose_op(in, "LSTM", (int[]){x, w, r, IN(3), IN(4), IN(5), IN(6), IN(7)}, 8, 3);
    for (int i = 0; i < 3; i++) compose_result(in, i, y + i);
}

/* Rows (or other slices) of a quantized table, dequantized in blocks. */
static void gather_block_infer(Infer *in) {
    Ctx *ctx = in->ctx;
    infer_arity(in, 3, 4);
    const Type *x = nn_ranked(in, 0, 1, RANK_MAX), *ids = nn_ranked(in, 1, 0, RANK_MAX);
    int axis = (int)attr_axis(ctx, in->node, "gather_axis", 0, x->rank);
    int along = (int)attr_axis(ctx, in->node, "quantize_axis", 1, x->rank);
    int64_t bits = attr_int(ctx, in->node, "bits", 4),
            size = attr_int(ctx, in->node, "block_size", 128);
    int part[3] = {IN(0), IN(2), IN(3)}, row[3] = {-1, -1, -1};
    if (x->dtype == U8) {
        part[0] = compose_bits(in, 0, unsigned_of(in, bits));
        if (part[2] >= 0) part[2] = compose_bits(in, 3, unsigned_of(in, bits));
    }
    for (int i = 0; i < 3; i++) {
        if (part[i] < 0) continue;
        compose_int(in, "axis", axis);
        row[i] = OP(in, "Gather", part[i], IN(1));
    }
    if (row[2] < 0 && x->dtype == U8) {
        int middle =
            compose_constant(in, unsigned_of(in, bits), (double[]){(double)(1 << (bits - 1))}, -1);
        row[2] = OP(in, "Expand", middle, OP(in, "Shape", row[1]));
    }
    compose_int(in, "axis", along > axis ? along + ids->rank - 1 : along);
    compose_int(in, "block_size", size);
    compose_result(in, 0, compose_op(in, "DequantizeLinear", row, 3, 1));
}

const OpRow onnx_contrib_quant_rows[] = {
    COMPOSED("QLinearAdd", qlinear_add_infer, T_BYTES),
    COMPOSED("QLinearMul", qlinear_mul_infer, T_BYTES),
    COMPOSED("QLinearSigmoid", qlinear_sigmoid_infer, T_BYTES),
    COMPOSED("QLinearLeakyRelu", qlinear_leaky_relu_infer, T_BYTES),
    COMPOSED("QLinearWhere", qlinear_where_infer, "bool"),
    COMPOSED("QLinearConcat", qlinear_concat_infer, "f32"),
    COMPOSED("QLinearSoftmax", qlinear_softmax_infer, T_BYTES),
    COMPOSED("QLinearReduceMean", qlinear_reduce_mean_infer, T_BYTES),
    COMPOSED("QLinearAveragePool", qlinear_average_pool_infer, T_BYTES),
    COMPOSED("QLinearGlobalAveragePool", qlinear_global_average_pool_infer, T_BYTES),
    COMPOSED("MatMulIntegerToFloat", matmul_integer_to_float_infer, T_BYTES),
    COMPOSED("DynamicQuantizeMatMul", dynamic_quantize_matmul_infer, "f32"),
    COMPOSED("QGemm", qgemm_infer, T_BYTES),
    COMPOSED("QLinearConv", qlinear_conv_infer, T_BYTES),
    COMPOSED("MatMulNBitsMlp", matmul_nbits_mlp_infer, T_FLOATS),
    COMPOSED("MatMulNBitsQLoRA", matmul_nbits_lora_infer, "f16 f32"),
    COMPOSED("MatMulNBitsQkv", matmul_nbits_qkv_infer, T_FLOATS),
    COMPOSED("MatMulBlockQuantizedFp8Weight", matmul_fp8_infer, "f16 bf16"),
    COMPOSED("MatMulBlockQuantizedFp4Weight", matmul_fp4_infer, "f16 bf16"),
    COMPOSED("MatMulNBits", matmul_nbits_infer, T_FLOATS),
    COMPOSED("MatMulBnb4", matmul_bnb4_infer, "f16 f32 bf16"),
    COMPOSED("DynamicQuantizeLSTM", dynamic_quantize_lstm_infer, "f32"),
    COMPOSED("GatherBlockQuantized", gather_block_infer, "u8 i4 u4 f8e4m3fn f8e5m2 f4e2m1"),
    {0},
};
