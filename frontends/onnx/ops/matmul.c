/* SPDX-License-Identifier: Apache-2.0 */
/* Matrix products: MatMul, Gemm, their integer and quantized forms, FusedMatMul.
 *
 * Each is one map `a[b..,i,k] * b[b..,k,j] -> y[b..,i,j] sum`, small floats accumulated in f32 and
 * bytes in i32, and a map for whatever is done to the sum. */
#include "nn.h"

#include <math.h>
#include <string.h>

/* A product y = a b: the shapes with 1-D operands promoted, and which axes are swapped. */
typedef struct Product {
    Shape a, b;          /* as declared */
    bool swap_a, swap_b; /* the last two axes are transposed */
    Dim batch[RANK_MAX];
    int nbatch;
    Dim i, j, k;
    bool has_i, has_j; /* 1-D operands lack theirs */
} Product;

static Type batch_of(const Type *t, Dim *shape) {
    Type batch = *t;
    batch.rank = t->rank > 2 ? t->rank - 2 : 0;
    for (int i = 0; i < batch.rank; i++) shape[i] = t->shape[i];
    batch.shape = shape;
    return batch;
}

static void product_dims(Product *p) {
    int ra = p->a.rank, rb = p->b.rank;
    p->has_i = ra > 1, p->has_j = rb > 1;
    if (p->has_i) p->i = p->a.at[p->swap_a ? ra - 1 : ra - 2];
    if (p->has_j) p->j = p->b.at[p->swap_b ? rb - 2 : rb - 1];
}

static Dim product_k(const Shape *s, bool first, bool swap) {
    if (s->rank == 1) return s->at[0];
    return s->at[first != swap ? s->rank - 1 : s->rank - 2];
}

/* Of operands x and y of the node, taken for a and b: the result's shape into `out`; returns its
 * rank. */
static int product_shape(Infer *in, int x, int y, const Type *a, const Type *b, bool swap_a,
                         bool swap_b, Dim *out) {
    Product p = {.a = shape_of(a), .b = shape_of(b), .swap_a = swap_a, .swap_b = swap_b};
    Dim sa[RANK_MAX], sb[RANK_MAX];
    product_dims(&p);
    nn_agree(
        in, product_k(&p.a, true, swap_a), product_k(&p.b, false, swap_b), x, y,
        "the inner extents differ: the columns of the first must equal the rows of the second; "
        "transpose or reshape one");
    Type ba = batch_of(a, sa), bb = batch_of(b, sb);
    int n = infer_broadcast(in, &ba, &bb, out);
    if (p.has_i) out[n++] = p.i;
    if (p.has_j) out[n++] = p.j;
    return n;
}

static int product_infer(Infer *in, int x, int y, bool swap_a, bool swap_b, Dim *out) {
    const Type *a = nn_ranked(in, x, 1, RANK_MAX), *b = nn_ranked(in, y, 1, RANK_MAX);
    return product_shape(in, x, y, a, b, swap_a, swap_b, out);
}

static Product product_open(Lower *lo, int a, int b, int y, bool swap_a, bool swap_b) {
    Product p = {.a = nn_shape(lo, a), .b = nn_shape(lo, b), .swap_a = swap_a, .swap_b = swap_b};
    product_dims(&p);
    p.k = product_k(&p.a, true, swap_a);
    if (!dim_is_const(p.k, NULL)) p.k = product_k(&p.b, false, swap_b);
    Shape s = nn_shape(lo, y);
    p.nbatch = s.rank - p.has_i - p.has_j;
    memcpy(p.batch, s.at, sizeof(Dim) * (size_t)p.nbatch);
    return p;
}

/* A broadcast read of an operand whose last two (or one) indices are exact. */
static int product_read(Lower *lo, Map *m, int cont, const Dim *batch, int nbatch, Dim row, Dim col,
                        bool swap, DType t) {
    const Cont *c = nn_cont(lo, cont);
    Dim at[RANK_MAX + 2];
    memcpy(at, batch, sizeof(Dim) * (size_t)nbatch);
    int n = nbatch;
    if (c->rank == 1)
        at[n++] = row ? row : col;
    else
        at[n++] = swap ? col : row, at[n++] = swap ? row : col;
    return nn_read_broadcast(lo, m, cont, at, n, t);
}

/* What a quantized product subtracts from its operands (containers, or -1). */
typedef struct Zero {
    int a, b;
} Zero;

/* The zero point of a's rows or b's columns: a scalar, a vector along that dim, or broadcast whole.
 */
static int minus_zero(Lower *lo, Map *m, int val, int zero, const Dim *batch, int nbatch, Dim at,
                      bool rows) {
    if (zero < 0) return val;
    const Cont *c = nn_cont(lo, zero);
    Dim to[RANK_MAX + 2], nought = dim_const(lo->ctx, 0);
    memcpy(to, batch, sizeof(Dim) * (size_t)nbatch);
    int n = c->rank > 1 ? nbatch : 0;
    if (c->rank > 1)
        to[n++] = rows ? at : nought, to[n++] = rows ? nought : at;
    else
        to[n++] = at;
    return EXPR(m, "$0 - $1", val, nn_read_broadcast(lo, m, zero, to, n, m->body.val.at[val].type));
}

static Map *product_map(Lower *lo, const char *name, int a, int b, int y, bool swap_a, bool swap_b,
                        Zero zero, DType t) {
    Product p = product_open(lo, a, b, y, swap_a, swap_b);
    Map *m = lower_map(lo, name);
    Dim at[RANK_MAX], i = NULL, j = NULL;
    nn_dims(lo, m, "", p.batch, p.nbatch, at);
    int n = p.nbatch;
    if (p.has_i) at[n++] = i = nn_dim(lo, m, "i", p.i);
    if (p.has_j) at[n++] = j = nn_dim(lo, m, "j", p.j);
    Dim k = nn_dim(lo, m, "k", p.k);
    int va = product_read(lo, m, a, at, p.nbatch, i, k, swap_a, t);
    int vb = product_read(lo, m, b, at, p.nbatch, j ? k : NULL, j ? j : k, swap_b, t);
    va = minus_zero(lo, m, va, zero.a, at, p.nbatch, i ? i : dim_const(lo->ctx, 0), true);
    vb = minus_zero(lo, m, vb, zero.b, at, p.nbatch, j ? j : dim_const(lo->ctx, 0), false);
    nn_reduce(lo, m, y, at, EXPR(m, "$0 * $1", va, vb), "sum");
    return m;
}

/* ---- MatMul ---------------------------------------------------------------------------------- */

static void matmul_infer(Infer *in) {
    Dim out[RANK_MAX + 2];
    infer_tensor(in, 1);
    infer_same(in, 0, 1);
    int n = product_infer(in, 0, 1, false, false, out);
    infer_set(in, 0, infer_tensor(in, 0)->type.dtype, out, n);
}

/* "accuracy_level" comes from MatMulNBits, which is put together of this: at 4, operand 0 may be
 * rounded to codes of 8 bits, a scale for each block of a row. */
static void matmul_lower(Lower *lo) {
    enum { CODES = 4 };
    int a = lower_in(lo, 0);
    Map *m = product_map(lo, NULL, a, lower_in(lo, 1), lower_out(lo, 0), false, false,
                         (Zero){-1, -1}, dtype_compute(nn_cont(lo, a)->type));
    m->coded = nn_int(lo, "accuracy_level", 0) == CODES;
}

/* transBatchA and transBatchB: [rows, batch .., columns] for [batch .., rows, columns]. */
static void rows_behind(const Dim *from, int rank, Dim *to) {
    for (int i = 0; i + 2 < rank; i++) to[i] = from[i + 1];
    to[rank - 2] = from[0], to[rank - 1] = from[rank - 1];
}

static void fused_matmul_infer(Infer *in) {
    static const char *const names[] = {"transBatchA", "transBatchB"};
    Dim out[RANK_MAX + 2], shape[2][RANK_MAX];
    Type t[2];
    bool a = attr_int(in->ctx, in->node, "transA", 0), b = attr_int(in->ctx, in->node, "transB", 0);
    infer_same(in, 0, 1);
    for (int i = 0; i < 2; i++) {
        bool behind = attr_int(in->ctx, in->node, names[i], 0) != 0;
        t[i] = *nn_ranked(in, i, behind ? 3 : 1, RANK_MAX);
        if (!behind) continue;
        rows_behind(t[i].shape, t[i].rank, shape[i]);
        t[i].shape = shape[i];
    }
    int n = product_shape(in, 0, 1, &t[0], &t[1], a, b, out);
    infer_set(in, 0, t[0].dtype, out, n);
}

/* Operand i with its rows behind the batch. */
static int batch_first(Lower *lo, int i, const char *name) {
    int x = lower_in(lo, i);
    if (!nn_int(lo, name, 0)) return x;
    Shape s = nn_shape(lo, x);
    Dim at[RANK_MAX], to_at[RANK_MAX], shape[RANK_MAX];
    rows_behind(s.at, s.rank, shape);
    int to = lower_tmp(lo, "rows", nn_cont(lo, x)->type, shape, s.rank);
    Map *m = nn_map_over(lo, "rows", "", x, at);
    rows_behind(at, s.rank, to_at);
    map_write(lo->flow, m, to, to_at, map_read(lo->flow, m, x, at), NULL);
    return to;
}

static void fused_matmul_lower(Lower *lo) {
    int a = batch_first(lo, 0, "transBatchA"), b = batch_first(lo, 1, "transBatchB");
    int y = lower_out(lo, 0);
    DType t = dtype_compute(nn_cont(lo, a)->type);
    float alpha = nn_float(lo, "alpha", 1);
    int acc = alpha == 1 ? y : nn_tmp_like(lo, "sum", t, y);
    product_map(lo, alpha == 1 ? NULL : "sum", a, b, acc, nn_int(lo, "transA", 0) != 0,
                nn_int(lo, "transB", 0) != 0, (Zero){-1, -1}, t);
    if (alpha == 1) return;
    lower_pointwise(lo, NULL, internf(lo->ctx, "$0 * %s", nn_lit(lo, alpha)), &acc, 1, y);
}

static void matmul_integer_infer(Infer *in) {
    Dim out[RANK_MAX + 2];
    int n = product_infer(in, 0, 1, false, false, out);
    infer_set(in, 0, I32, out, n);
}

static void matmul_integer_lower(Lower *lo) {
    product_map(lo, NULL, lower_in(lo, 0), lower_in(lo, 1), lower_out(lo, 0), false, false,
                (Zero){lower_in(lo, 2), lower_in(lo, 3)}, I32);
}

/* ---- Gemm ------------------------------------------------------------------------------------ */

static void gemm_infer(Infer *in) {
    Dim out[RANK_MAX + 2];
    Ctx *ctx = in->ctx;
    nn_ranked(in, 0, 2, 2);
    nn_ranked(in, 1, 2, 2);
    infer_same(in, 0, 1);
    infer_same(in, 0, 2);
    bool a = attr_int(ctx, in->node, "transA", 0), b = attr_int(ctx, in->node, "transB", 0);
    int n = product_infer(in, 0, 1, a, b, out);
    const DType t = infer_tensor(in, 0)->type.dtype;
    if (infer_in(in, 2)) {
        Type y = {.kind = TYPE_TENSOR, .dtype = t, .rank = n, .shape = out},
             c = infer_tensor(in, 2)->type;
        Dim both[RANK_MAX];
        int rank = infer_broadcast(in, &y, &c, both);
        for (int i = 0; i < rank; i++)
            if (rank != n || (both[i] != out[i] && dim_is(out[i], 1)))
                fail(ctx, E_SHAPE,
                     "operand \"%s\" of type %s does not broadcast to the product's %s: give it "
                     "that shape or extents 1",
                     infer_in(in, 2)->name, type_str(ctx, &c), type_str(ctx, &y));
    }
    infer_set(in, 0, t, out, n);
}

static bool is_whole(float v) {
    return v == floorf(v) && fabsf(v) < 0x1p62f;
}

static const char *factor(const Lower *lo, DType t, float v) {
    return nn_is_float(t) ? nn_lit(lo, v) : internf(lo->ctx, "%lld", (long long)v);
}

/* alpha * a b + beta * c; factors of 1 are not written. Integers times fractions are cut. */
static void gemm_lower(Lower *lo) {
    int a = lower_in(lo, 0), c = lower_in(lo, 2), y = lower_out(lo, 0);
    DType t = dtype_compute(nn_cont(lo, a)->type);
    float alpha = nn_float(lo, "alpha", 1), beta = nn_float(lo, "beta", 1);
    if (beta == 0) c = -1;
    bool plain = c < 0 && alpha == 1;
    int acc = plain ? y : nn_tmp_like(lo, "sum", t, y);
    product_map(lo, plain ? NULL : "sum", a, lower_in(lo, 1), acc, nn_int(lo, "transA", 0) != 0,
                nn_int(lo, "transB", 0) != 0, (Zero){-1, -1}, t);
    if (plain) return;
    const char *sum = alpha == 1 ? "$0" : internf(lo->ctx, "%s * $0", factor(lo, t, alpha));
    const char *text = c < 0       ? sum
                       : beta == 1 ? internf(lo->ctx, "%s + $1", sum)
                                   : internf(lo->ctx, "%s + %s * $1", sum, factor(lo, t, beta));
    if (!nn_is_float(t) && (!is_whole(alpha) || !is_whole(beta)))
        text = internf(lo->ctx, "%s((%a) * f64($0) + (%a) * f64(%s))", dtype_name(t), (double)alpha,
                       (double)beta, c < 0 ? "0" : "$1");
    lower_pointwise(lo, NULL, text, (int[]){acc, c}, c < 0 ? 1 : 2, y);
}

/* ---- QLinearMatMul --------------------------------------------------------------------------- */

/* Operand i is one number, or one for each row (column) of the result `out` of n dims, as a vector
 * or along its dim of the result. */
static void need_along(Infer *in, int i, const Dim *out, int n, bool rows) {
    const Type *t = &infer_tensor(in, i)->type;
    Dim one = dim_const(in->ctx, 1), want[RANK_MAX + 2];
    for (int k = 0; k < n; k++) want[k] = k == n - (rows ? 1 : 2) ? one : out[k];
    if (t->rank > (n ? n : 1))
        fail(in->ctx, E_SHAPE, "operand \"%s\" of type %s has more dims than the result, %d",
             infer_tensor(in, i)->name, type_str(in->ctx, t), n);
    if (t->rank == 1) {
        Dim along = rows ? (n > 1 ? out[n - 2] : one) : n ? out[n - 1] : one;
        infer_require(in, t->shape[0], along, true);
    }
    for (int k = 0; k < t->rank && t->rank > 1; k++)
        infer_require(in, t->shape[k], want[n - t->rank + k], true);
}

/* Operands: a, its scale and zero point, b, its scale and zero point, y's scale and zero point. */
static void qlinear_matmul_infer(Infer *in) {
    Dim out[RANK_MAX + 2];
    int n = product_infer(in, 0, 3, false, false, out);
    static const int numbers[] = {1, 2, 4, 5, 6, 7};
    for (int i = 0; i < 6; i++)
        need_along(in, numbers[i], out, n, numbers[i] != 4 && numbers[i] != 5);
    infer_set(in, 0, infer_tensor(in, 7)->type.dtype, out, n);
}

/* Scales and zero points as values for the element `at` of the result: along a row or a column. */
static int along(Lower *lo, Map *m, int cont, const Dim *at, int rank, bool rows, DType t) {
    const Cont *c = nn_cont(lo, cont);
    Dim to[RANK_MAX], zero = dim_const(lo->ctx, 0);
    if (c->rank == 0) return nn_read_as(lo, m, cont, at, t);
    memcpy(to, at, sizeof(Dim) * (size_t)rank);
    if (c->rank == 1) {
        to[0] = rows ? (rank > 1 ? at[rank - 2] : zero) : rank ? at[rank - 1] : zero;
        return nn_read_broadcast(lo, m, cont, to, 1, t);
    }
    if (rows)
        to[rank - 1] = zero;
    else if (rank > 1)
        to[rank - 2] = zero;
    return nn_read_broadcast(lo, m, cont, to, rank, t);
}

static void qlinear_matmul_lower(Lower *lo) {
    int in[8], y = lower_out(lo, 0);
    for (int i = 0; i < 8; i++) in[i] = lower_in(lo, i);
    DType t = nn_is_float(nn_cont(lo, in[0])->type) ? F32 : I32, out = nn_cont(lo, y)->type;
    int acc = nn_tmp_like(lo, "sum", t, y);
    product_map(lo, "sum", in[0], in[3], acc, false, false, (Zero){in[2], in[5]}, t);
    Dim at[RANK_MAX];
    Map *m = nn_map_over(lo, NULL, "", y, at);
    int rank = nn_cont(lo, y)->rank;
    int sa = along(lo, m, in[1], at, rank, true, F32),
        sb = along(lo, m, in[4], at, rank, false, F32);
    int sy = along(lo, m, in[6], at, rank, true, F32),
        zy = along(lo, m, in[7], at, rank, true, F32);
    int sum = body_cvt(&m->body, F32, nn_read(lo, m, acc, at));
    const char *text =
        nn_is_float(out) ? "$0 * ($1 * $2 / $3) + $4" : "rint($0 * ($1 * $2 / $3)) + $4";
    nn_write(lo, m, y, at, EXPR(m, text, sum, sa, sb, sy, zy));
}

#define T_BYTE_LIKE T_BYTES " f8e4m3fn f8e4m3fnuz f8e5m2 f8e5m2fnuz"

const OpRow onnx_matmul_rows[] = {
    {"", "MatMul", 1, 0, matmul_infer, matmul_lower, NULL, T_NUMS, 0},
    {"", "Gemm", 1, 0, gemm_infer, gemm_lower, NULL, T_NUMS, 0},
    {"", "MatMulInteger", 10, 0, matmul_integer_infer, matmul_integer_lower, NULL, T_BYTES, 0},
    {"", "QLinearMatMul", 10, 0, qlinear_matmul_infer, qlinear_matmul_lower, NULL, T_BYTE_LIKE, 0},
    {"com.microsoft", "TransposeMatMul", 1, 0, fused_matmul_infer, fused_matmul_lower, NULL,
     T_FLOATS, 0},
    {"com.microsoft", "FusedMatMul", 1, 0, fused_matmul_infer, fused_matmul_lower, NULL, T_FLOATS,
     0},
    {0},
};
