/* SPDX-License-Identifier: Apache-2.0 */
/* QuantizeLinear, DequantizeLinear, DynamicQuantizeLinear: element-wise maps that read a scale and
 * a zero point for the whole tensor, for an index of one axis, or for a block along it.
 *
 * Quantizing divides, rounds to even and saturates; small float types are converted without
 * rounding first, saturating unless the attribute `saturate` is 0. */
#include "nn.h"

#include <math.h>

#define T_CODES                                                                                    \
    "i8 u8 i16 u16 i32 i4 u4 i2 u2 f8e4m3fn f8e4m3fnuz f8e5m2 f8e5m2fnuz f4e2m1 f6e2m3 f6e3m2"

/* One scale for the whole tensor? */
static bool is_whole(const Dim *shape, int rank) {
    return rank == 0 || (rank == 1 && dim_is(shape[0], 1));
}

/* Scale `s` (operand 1) fits operand 0: scalar, vector along `axis`, or blocks along it. */
static void check_scale(Infer *in) {
    const Type *x = nn_ranked(in, 0, 0, RANK_MAX), *s = nn_ranked(in, 1, 0, RANK_MAX);
    int64_t block = attr_int(in->ctx, in->node, "block_size", 0);
    const Value *zero = infer_in(in, 2);
    if (is_whole(s->shape, s->rank)) {
        for (int i = 0; zero && i < zero->type.rank; i++)
            infer_require(in, zero->type.shape[i], dim_const(in->ctx, 1), false);
        return;
    }
    int axis = (int)attr_axis(in->ctx, in->node, "axis", 1, x->rank);
    if (s->rank == 1 && block == 0)
        nn_agree(in, x->shape[axis], s->shape[0], 0, 1,
                 "the scale needs one element, or one for each index of the attribute \"axis\"");
    else if (s->rank != x->rank || block < 1)
        nn_misfit(in, 0, 1,
                  "the scale must be a scalar, a vector along the attribute \"axis\", or of the "
                  "operand's rank with the attribute \"block_size\"");
    if (zero) {
        Dim out[RANK_MAX];
        const Type *z = &infer_tensor(in, 2)->type;
        if (z->rank > s->rank) nn_misfit(in, 1, 2, "scale and zero point must have one shape");
        infer_broadcast(in, s, z, out);
    }
}

/* Reads a scale or zero point for the element `at` of a tensor of `rank`; the scale's shape tells
 * how both are laid out. */
static int read_scale(Lower *lo, Map *m, int cont, const Dim *at, int rank, DType t) {
    const Cont *scale = nn_cont(lo, lower_in(lo, 1));
    Dim to[RANK_MAX] = {dim_const(lo->ctx, 0)};
    if (is_whole(scale->shape, scale->rank)) {
        for (int i = 1; i < nn_cont(lo, cont)->rank; i++) to[i] = to[0];
        return nn_read_as(lo, m, cont, to, t);
    }
    int axis = (int)attr_axis(lo->ctx, lo->node, "axis", 1, rank);
    int64_t block = nn_int(lo, "block_size", 0);
    for (int i = 0; i < rank; i++) to[i] = at[i];
    if (block > 0) to[axis] = dim_div(lo->ctx, at[axis], dim_const(lo->ctx, block));
    if (scale->rank == 1) return nn_read_broadcast(lo, m, cont, &to[axis], 1, t);
    return nn_read_broadcast(lo, m, cont, to, rank, t);
}

static DType attr_dtype(Ctx *ctx, const Node *node, DType otherwise) {
    int64_t code = attr_int(ctx, node, "output_dtype", 0);
    DType t = code ? dtype_from_onnx((int)code) : otherwise;
    if (!t)
        fail(ctx, E_ATTRIBUTE, "attribute \"output_dtype\" is %lld: it is no element type",
             (long long)code);
    return t;
}

/* ---- QuantizeLinear -------------------------------------------------------------------------- */

static bool type_is_code(DType t) {
    return dtype_is_int(t) || (nn_is_float(t) && dtype_bits(t) <= 8);
}

static void quantize_infer(Infer *in) {
    const Type *x = nn_ranked(in, 0, 0, RANK_MAX);
    check_scale(in);
    DType t = infer_in(in, 2) ? infer_tensor(in, 2)->type.dtype : attr_dtype(in->ctx, in->node, U8);
    if (!type_is_code(t))
        fail(
            in->ctx, E_TYPE,
            "the quantized type is %s: the zero point \"%s\" must have a type of integers or small "
            "floats",
            dtype_name(t), infer_in(in, 2) ? infer_in(in, 2)->name : "output_dtype");
    infer_set(in, 0, t, x->shape, x->rank);
}

/* val / scale as a code of type t. */
static int to_code(Lower *lo, Map *m, int val, int scale, int zero, DType t) {
    if (nn_is_float(t)) {
        bool saturate = nn_int(lo, "saturate", 1) != 0;
        return body_prim_as(&m->body, saturate ? P_CVT : P_CVTINF, t,
                            EXPR(m, "$0 / $1 + $2", val, scale, zero));
    }
    return body_cvt(&m->body, t, EXPR(m, "rint($0 / $1) + $2", val, scale, zero));
}

static void quantize_lower(Lower *lo) {
    int x = lower_in(lo, 0), scale = lower_in(lo, 1), zero = lower_in(lo, 2), y = lower_out(lo, 0);
    Dim at[RANK_MAX];
    Map *m = nn_map_over(lo, NULL, "", x, at);
    int rank = nn_cont(lo, x)->rank, v = nn_read_as(lo, m, x, at, F32);
    int s = read_scale(lo, m, scale, at, rank, F32);
    int z = zero < 0 ? body_const(&m->body, F32, 0) : read_scale(lo, m, zero, at, rank, F32);
    nn_write(lo, m, y, at, to_code(lo, m, v, s, z, nn_cont(lo, y)->type));
}

/* ---- DequantizeLinear ------------------------------------------------------------------------ */

static void dequantize_infer(Infer *in) {
    const Type *x = nn_ranked(in, 0, 0, RANK_MAX);
    check_scale(in);
    infer_set(in, 0, attr_dtype(in->ctx, in->node, infer_tensor(in, 1)->type.dtype), x->shape,
              x->rank);
}

/* Integer codes subtract the zero point exactly before they become floats. */
static void dequantize_lower(Lower *lo) {
    int x = lower_in(lo, 0), scale = lower_in(lo, 1), zero = lower_in(lo, 2), y = lower_out(lo, 0);
    Dim at[RANK_MAX];
    Map *m = nn_map_over(lo, NULL, "", x, at);
    int rank = nn_cont(lo, x)->rank;
    DType t = nn_is_float(nn_cont(lo, x)->type) ? F32 : I32;
    int v = nn_read_as(lo, m, x, at, t);
    if (zero >= 0) v = EXPR(m, "$0 - $1", v, read_scale(lo, m, zero, at, rank, t));
    int s = read_scale(lo, m, scale, at, rank, F32);
    nn_write(lo, m, y, at, EXPR(m, "$0 * $1", body_cvt(&m->body, F32, v), s));
}

/* ---- DynamicQuantizeLinear ------------------------------------------------------------------- */

static void dynamic_infer(Infer *in) {
    const Type *x = nn_ranked(in, 0, 0, RANK_MAX);
    infer_set(in, 0, U8, x->shape, x->rank);
    infer_set(in, 1, F32, NULL, 0);
    infer_set(in, 2, U8, NULL, 0);
}

/* Folds the dims of x behind the first `rows` dims. */
static int fold_rows(Lower *lo, const char *combine, int x, int rows) {
    Dim at[RANK_MAX];
    int to = lower_tmp(lo, combine, F32, nn_shape(lo, x).at, rows);
    Map *m = nn_map_over(lo, combine, "", x, at);
    nn_reduce(lo, m, to, at, nn_read(lo, m, x, at), combine);
    return to;
}

/* The range always holds 0, so that 0 has a code. */
static void dynamic_range(Lower *lo, int x, int rows, int scale, int zero) {
    int ends[2] = {fold_rows(lo, "min", x, rows), fold_rows(lo, "max", x, rows)};
    lower_pointwise(lo, "scale", "r = (max($1, 0) - min($0, 0)) / 255; select(r == 0, 1, r)", ends,
                    2, scale);
    ends[1] = scale;
    lower_pointwise(lo, "zero", "rint(min(max(-min($0, 0) / $1, 0), 255))", ends, 2, zero);
}

int nn_row_codes(Lower *lo, int x) {
    const Dim *shape = nn_shape(lo, x).at;
    int scale = lower_tmp(lo, "scale", F32, shape, 1), zero = lower_tmp(lo, "zero", U8, shape, 1);
    int codes = nn_tmp_like(lo, "codes", U8, x), y = nn_tmp_like(lo, "coded", F32, x);
    dynamic_range(lo, x, 1, scale, zero);
    Dim at[RANK_MAX];
    Map *m = nn_map_over(lo, "codes", "", x, at);
    int v = nn_read(lo, m, x, at), s = nn_read(lo, m, scale, at),
        z = nn_read_as(lo, m, zero, at, F32);
    nn_write(lo, m, codes, at, to_code(lo, m, v, s, z, U8));
    m = nn_map_over(lo, "coded", "", x, at);
    v = EXPR(m, "$0 - $1", nn_read_as(lo, m, codes, at, I32), nn_read_as(lo, m, zero, at, I32));
    s = nn_read(lo, m, scale, at);
    nn_write(lo, m, y, at, EXPR(m, "$0 * $1", body_cvt(&m->body, F32, v), s));
    return y;
}

static void dynamic_lower(Lower *lo) {
    int x = lower_in(lo, 0), y = lower_out(lo, 0), scale = lower_out(lo, 1),
        zero = lower_out(lo, 2);
    if (scale < 0) scale = lower_tmp(lo, "scale", F32, NULL, 0);
    if (zero < 0) zero = lower_tmp(lo, "zero", U8, NULL, 0);
    dynamic_range(lo, x, 0, scale, zero);
    Dim at[RANK_MAX];
    Map *m = nn_map_over(lo, NULL, "", x, at);
    int z = nn_read_as(lo, m, zero, NULL, F32), v = nn_read(lo, m, x, at);
    if (y >= 0) nn_write(lo, m, y, at, to_code(lo, m, v, nn_read(lo, m, scale, NULL), z, U8));
}

const OpRow onnx_quantize_rows[] = {
    {"", "QuantizeLinear", 10, 0, quantize_infer, quantize_lower, NULL, T_FLOATS " i32", 0},
    {"", "DequantizeLinear", 10, 0, dequantize_infer, dequantize_lower, NULL, T_CODES, 0},
    {"", "DynamicQuantizeLinear", 11, 0, dynamic_infer, dynamic_lower, NULL, "f32", 0},
    {"com.microsoft", "QuantizeLinear", 1, 0, quantize_infer, quantize_lower, NULL, T_FLOATS " i32",
     0},
    {"com.microsoft", "DequantizeLinear", 1, 0, dequantize_infer, dequantize_lower, NULL, T_CODES,
     0},
    {0},
};
