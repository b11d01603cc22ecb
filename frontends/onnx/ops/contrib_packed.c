/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of weights in the blocks of GGML's files: GatherPacked and MatMulPacked of com.microsoft, as
 * arithmetic on bytes. `packed_type` is GGML's number of a type; those whose codes index grids of
 * hundreds of vectors (IQ2_*, IQ3_*) are not done. */
#include "compose.h"

#include <string.h>

/* ---- bytes ----------------------------------------------------------------------------------- */

/* Bytes from .. to - 1 of each block, [.., block, byte]. */
static int bytes(Infer *in, int blocks, int64_t from, int64_t to) {
    return compose_part(in, blocks, -1, compose_vector(in, from), compose_vector(in, to));
}

static int joined(Infer *in, int a, int b) {
    compose_int(in, "axis", -1);
    return OP(in, "Concat", a, b);
}

static int shifted(Infer *in, int x, int by, const char *direction) {
    compose_string(in, "direction", direction);
    return OP(in, "BitShift", x, by);
}

static int masked(Infer *in, int x, int bits) {
    return OP(in, "BitwiseAnd", x, compose_number(in, x, (1 << bits) - 1));
}

/* Fields of `bits` bits in bytes, `n` of them, the lowest first: a dim more, the last one, or
 * (`outer`) the one before. */
static int fields(Infer *in, int x, int n, int bits, bool outer) {
    double by[8];
    for (int i = 0; i < n; i++) by[i] = bits * i;
    int shift = compose_constant(in, U8, by, n);
    if (outer) shift = compose_unsqueeze(in, shift, 1);
    return masked(in, shifted(in, compose_unsqueeze(in, x, outer ? -2 : -1), shift, "RIGHT"), bits);
}

/* Numbers of f16 or bf16 (two bytes) or f32 (four), the lowest first: [.., n]. */
static int floats(Infer *in, int x, DType t) {
    double by[] = {0, 8, 16, 24};
    int size = dtype_bits(t) / 8, shift = compose_constant(in, U32, by, size);
    x = compose_reshape(in, x, (int64_t[]){0, 0, -1, size}, 4);
    x = shifted(in, compose_cast(in, x, U32), shift, "LEFT");
    int last = compose_vector(in, 3);
    compose_int(in, "keepdims", 0);
    int word = compose_cast(in, OP(in, "ReduceSum", x, last), size == 2 ? U16 : U32);
    compose_int(in, "to", dtype_onnx(t));
    return compose_cast(in, OP(in, "BitCast", word), F32);
}

/* Bytes as signed ones. */
static int signed_bytes(Infer *in, int x) {
    compose_int(in, "to", dtype_onnx(I8));
    return compose_cast(in, OP(in, "BitCast", x), F32);
}

/* ---- types ------------------------------------------------------------------------------------
 *
 * Blocks [row, block, byte] as numbers [row, ..]; f32. */

static int half_scale(Infer *in, int blocks, int64_t at) {
    return floats(in, bytes(in, blocks, at, at + 2), F16);
}

/* x - offset, by a scale. */
static int centred(Infer *in, int codes, double offset, int scale) {
    int x = compose_cast(in, codes, F32);
    return OP(in, "Mul", OP(in, "Sub", x, compose_number(in, x, offset)), scale);
}

/* Low halves of 16 bytes, then high ones. */
static int halves(Infer *in, int x) {
    return joined(in, masked(in, x, 4), shifted(in, x, compose_number(in, x, 4), "RIGHT"));
}

static int q4_0(Infer *in, int b) {
    return centred(in, halves(in, bytes(in, b, 2, 18)), 8, half_scale(in, b, 0));
}

static int q5_0(Infer *in, int b) {
    int top = fields(in, bytes(in, b, 2, 6), 8, 1, false), low = halves(in, bytes(in, b, 6, 22));
    top = compose_reshape(in, top, (int64_t[]){0, 0, 32}, 3);
    top = OP(in, "Mul", top, compose_number(in, top, 16));
    return centred(in, OP(in, "Add", low, top), 16, half_scale(in, b, 0));
}

static int q8_0(Infer *in, int b) {
    return OP(in, "Mul", signed_bytes(in, bytes(in, b, 2, 34)), half_scale(in, b, 0));
}

/* Scales and minima of 6 bits in 12 bytes: those of the first four groups in the low bits of eight
 * bytes, the others' low bits behind, their high ones above the first. */
static int q5_k(Infer *in, int b) {
    int first = bytes(in, b, 4, 8), second = bytes(in, b, 8, 12), rest = bytes(in, b, 12, 16);
    int six = compose_number(in, b, 6), four = compose_number(in, b, 4), part[2];
    for (int i = 0; i < 2; i++) {
        int own = i ? second : first,
            low = i ? shifted(in, rest, four, "RIGHT") : masked(in, rest, 4);
        int high = shifted(in, shifted(in, own, six, "RIGHT"), four, "LEFT");
        int six_bits = joined(in, masked(in, own, 6), OP(in, "Add", low, high));
        part[i] = OP(in, "Mul", compose_cast(in, six_bits, F32), half_scale(in, b, 2 * i));
        part[i] = compose_unsqueeze(in, part[i], -1);
    }
    int low = compose_reshape(in, bytes(in, b, 48, 176), (int64_t[]){0, 0, 4, 32}, 4);
    low = compose_reshape(in, fields(in, low, 2, 4, true), (int64_t[]){0, 0, 8, 32}, 4);
    int top = fields(in, bytes(in, b, 16, 48), 8, 1, true);
    int codes = OP(in, "Add", low, OP(in, "Mul", top, compose_number(in, top, 16)));
    return OP(in, "Sub", OP(in, "Mul", compose_cast(in, codes, F32), part[0]), part[1]);
}

static int q6_k(Infer *in, int b) {
    int64_t quarters[] = {0, 0, 2, -1}, groups[] = {0, 0, 16, 16};
    int low = compose_reshape(in, bytes(in, b, 0, 128), quarters, 4),
        top = compose_reshape(in, bytes(in, b, 128, 192), quarters, 4);
    top = compose_reshape(in, fields(in, top, 4, 2, true), quarters, 4);
    low = halves(in, low);
    int codes = OP(in, "Add", low, OP(in, "Mul", top, compose_number(in, top, 16)));
    int scale = OP(in, "Mul", signed_bytes(in, bytes(in, b, 192, 208)), half_scale(in, b, 208));
    return centred(in, compose_reshape(in, codes, groups, 4), 32, compose_unsqueeze(in, scale, -1));
}

/* Codes of 4 bits as the values that they stand for. */
static int curved(Infer *in, int codes) {
    static const double value[] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                   1,    13,   25,  38,  53,  69,  89,  113};
    int index = compose_cast(in, codes, I32);
    return OP(in, "Gather", compose_constant(in, F32, value, 16), index);
}

static int iq4_nl(Infer *in, int b) {
    return OP(in, "Mul", curved(in, halves(in, bytes(in, b, 2, 18))), half_scale(in, b, 0));
}

static int iq4_xs(Infer *in, int b) {
    int64_t each[] = {0, 0, 8}, groups[] = {0, 0, 8, 16};
    int top = compose_reshape(in, fields(in, bytes(in, b, 2, 4), 4, 2, false), each, 3),
        low = compose_reshape(in, fields(in, bytes(in, b, 4, 8), 2, 4, false), each, 3);
    int codes = OP(in, "Add", low, OP(in, "Mul", top, compose_number(in, top, 16)));
    int scale = compose_unsqueeze(in, centred(in, codes, 32, half_scale(in, b, 0)), -1);
    int x = halves(in, compose_reshape(in, bytes(in, b, 8, 136), groups, 4));
    return OP(in, "Mul", curved(in, x), scale);
}

static int plain_f32(Infer *in, int b) {
    return floats(in, b, F32);
}

static int plain_f16(Infer *in, int b) {
    return floats(in, b, F16);
}

static int plain_bf16(Infer *in, int b) {
    return floats(in, b, BF16);
}

typedef struct Packed {
    int number, elements, bytes; /* of a block */
    int (*numbers)(Infer *in, int blocks);
} Packed;

static const Packed types[] = {
    {0, 1, 4, plain_f32},   {1, 1, 2, plain_f16},   {2, 32, 18, q4_0},    {6, 32, 22, q5_0},
    {8, 32, 34, q8_0},      {13, 256, 176, q5_k},   {14, 256, 210, q6_k}, {20, 32, 18, iq4_nl},
    {23, 256, 136, iq4_xs}, {30, 1, 2, plain_bf16},
};

/* ---- the operators --------------------------------------------------------------------------- */

static const Packed *packed_type(const Infer *in) {
    int64_t number = attr_int(in->ctx, in->node, "packed_type", -1);
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (types[i].number == number) return &types[i];
    fail(
        in->ctx, E_UNSUPPORTED,
        "attribute \"packed_type\" is %lld: F32, F16, BF16 (0, 1, 30), Q4_0, Q5_0, Q8_0 (2, 6, 8), "
        "Q5_K, Q6_K (13, 14), IQ4_NL, IQ4_XS (20, 23) are supported",
        (long long)number);
}

/* Rows of bytes [row, byte], of operand i's rows, as K numbers each, in type t. */
static int unpacked(Infer *in, int i, int rows, DType t) {
    const Packed *p = packed_type(in);
    int64_t k = attr_int(in->ctx, in->node, "K", 0), have = compose_size(in, IN(i), 1);
    if (k < 1 || k > INT32_MAX || k % p->elements || have != k / p->elements * p->bytes)
        fail(in->ctx, E_SHAPE,
             "attribute \"K\" is %lld, rows of \"%s\" have %lld bytes: a block holds %d numbers in "
             "%d bytes",
             (long long)k, infer_tensor(in, i)->name, (long long)have, p->elements, p->bytes);
    int64_t blocks[] = {0, k / p->elements, p->bytes}, flat[] = {0, k};
    int x = p->numbers(in, compose_reshape(in, rows, blocks, 3));
    return compose_cast(in, compose_reshape(in, x, flat, 2), t);
}

/* An index that is no row's means the first. */
static void gather_packed_infer(Infer *in) {
    infer_arity(in, 2, 2);
    nn_ranked(in, 0, 2, 2), infer_tensor(in, 1);
    DType t = dtype_from_onnx((int)attr_int(in->ctx, in->node, "output_dtype", dtype_onnx(BF16)));
    if (t != F32 && t != F16 && t != BF16)
        fail(in->ctx, E_ATTRIBUTE, "attribute \"output_dtype\" must be f32, f16 or bf16");
    int64_t k = attr_int(in->ctx, in->node, "K", 0);
    int zero = compose_vector(in, 0), index = compose_cast(in, IN(1), I64);
    int shape = OP(in, "Shape", index);
    index = compose_reshape(in, index, (int64_t[]){-1}, 1);
    int there = OP(in, "And", OP(in, "GreaterOrEqual", index, zero),
                   OP(in, "Less", index, compose_extents(in, IN(0), 0, 1)));
    index = OP(in, "Where", there, index, zero);
    compose_int(in, "axis", 0);
    int y = unpacked(in, 0, OP(in, "Gather", IN(0), index), t);
    compose_int(in, "axis", 0);
    compose_result(in, 0, OP(in, "Reshape", y, OP(in, "Concat", shape, compose_vector(in, k))));
}

static void matmul_packed_infer(Infer *in) {
    infer_arity(in, 2, 3);
    nn_ranked(in, 1, 2, 2);
    const char *name = attr_string(in->ctx, in->node, "activation_type", "none");
    if (compose_size(in, IN(1), 0) != attr_int(in->ctx, in->node, "N", 0))
        fail(in->ctx, E_SHAPE, "attribute \"N\" must be the number of rows of \"%s\"",
             infer_tensor(in, 1)->name);
    int w = unpacked(in, 1, IN(1), infer_tensor(in, 0)->type.dtype);
    int y = OP(in, "MatMul", IN(0), compose_transpose(in, w, (int64_t[]){1, 0}, 2));
    if (!strcmp(name, "silu")) {
        y = compose_silu(in, y, 1);
    } else if (!strcmp(name, "relu2") || !strcmp(name, "relu_squared")) {
        y = OP(in, "Relu", y), y = OP(in, "Mul", y, y);
    } else if (strcmp(name, "none") != 0) {
        fail(in->ctx, E_ATTRIBUTE,
             "attribute \"activation_type\" is \"%s\": use none, relu2 or silu", name);
    }
    compose_result(in, 0, y);
}

const OpRow onnx_contrib_packed_rows[] = {
    COMPOSED("GatherPacked", gather_packed_infer, "u8"),
    COMPOSED("MatMulPacked", matmul_packed_infer, T_FLOATS),
    {0},
};
