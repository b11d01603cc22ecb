/* SPDX-License-Identifier: Apache-2.0 */
/* Operators that are calls of the runtime: TopK, NonZero, Unique, NonMaxSuppression.
 *
 * Sizes that data decides are fresh symbols with an upper bound; the call defines them. */
#include "nn.h"

/* ---- TopK ------------------------------------------------------------------------------------ */

/* How many: an attribute in version 1, then an operand; NULL when it is computed at run time. */
static Dim top_count(Infer *in) {
    const Dim *at;
    int n;
    if (in->node->version < 10) return dim_const(in->ctx, attr_int(in->ctx, in->node, "k", -1));
    infer_tensor(in, 1);
    if (!infer_known(in, 1, &at, &n)) return NULL;
    if (n != 1) nn_misfit(in, 1, 1, "it must hold one element, how many to take");
    return at[0];
}

static void topk_infer(Infer *in) {
    const Type *x = nn_ranked(in, 0, 1, RANK_MAX);
    Shape s = shape_of(x);
    int axis = (int)attr_axis(in->ctx, in->node, "axis", -1, x->rank);
    Dim k = top_count(in);
    int64_t have, want;
    if (k && dim_is_const(k, &want) &&
        (want < 0 || (dim_is_const(s.at[axis], &have) && want > have)))
        fail(in->ctx, E_SHAPE,
             "k is %lld, but dim %d of \"%s\" of type %s has %s elements: take at most that many",
             (long long)want, axis, infer_in(in, 0)->name, type_str(in->ctx, x),
             dim_str(in->ctx, s.at[axis]));
    s.at[axis] = k ? k : infer_fresh(in, "K", s.at[axis]);
    infer_set(in, 0, x->dtype, s.at, s.rank);
    infer_set(in, 1, I64, s.at, s.rank);
}

/* A symbol that a run-time value defines: only when type inference made one. */
static void define_size(Lower *lo, int operand, Dim size, Dim most) {
    const Value *v = lower_value(lo, operand);
    if (!v || v->known || v->kind == VALUE_PARAM || !dim_sym_name(size)) return;
    nn_define(lo, size, lower_in(lo, operand), 0, most);
}

static void topk_lower(Lower *lo) {
    int x = lower_in(lo, 0), out[2] = {lower_out(lo, 0), lower_out(lo, 1)};
    Shape s = nn_shape(lo, x);
    int axis = (int)attr_axis(lo->ctx, lo->node, "axis", -1, s.rank);
    if (out[0] < 0 && out[1] < 0) return;
    Shape k = nn_shape(lo, out[0] >= 0 ? out[0] : out[1]);
    if (out[0] < 0) out[0] = lower_tmp(lo, "values", nn_cont(lo, x)->type, k.at, k.rank);
    if (lo->node->version >= 10) define_size(lo, 1, k.at[axis], s.at[axis]);
    lower_call(lo, "topk", &x, 1, out, 2, (int64_t[]){axis, nn_int(lo, "largest", 1)}, 2, NULL, 0);
}

/* ---- NonZero --------------------------------------------------------------------------------- */

static void nonzero_infer(Infer *in) {
    const Type *x = nn_ranked(in, 0, 0, RANK_MAX);
    Dim n = dim_product(in->ctx, x->shape, x->rank);
    Dim out[] = {dim_const(in->ctx, x->rank), infer_fresh(in, "K", n)};
    infer_set(in, 0, I64, out, 2);
}

static void nonzero_lower(Lower *lo) {
    int x = nn_pairs(lo, lower_in(lo, 0), lower_value(lo, 0)->type.dtype), y = lower_out(lo, 0);
    if (y < 0) return;
    Dim k = nn_shape(lo, y).at[1];
    lower_call(lo, "nonzero", &x, 1, &y, 1, NULL, 0, &k, 1);
}

/* ---- Unique ---------------------------------------------------------------------------------- */

/* -1: of the flattened operand. */
static int unique_axis(Ctx *ctx, const Node *node, int rank) {
    return node_attr(node, "axis") ? (int)attr_axis(ctx, node, "axis", 0, rank) : -1;
}

static void unique_infer(Infer *in) {
    const Type *x = nn_ranked(in, 0, 0, RANK_MAX);
    int axis = unique_axis(in->ctx, in->node, x->rank);
    if (!infer_out(in, 0)) fail(in->ctx, E_MODEL, "result 0 is missing: the operator gives it");
    Shape s = shape_of(x);
    Dim n = axis < 0 ? dim_product(in->ctx, s.at, s.rank) : s.at[axis], k = infer_fresh(in, "K", n);
    if (axis < 0) s.rank = 1;
    s.at[axis < 0 ? 0 : axis] = k;
    infer_set(in, 0, x->dtype, s.at, s.rank);
    infer_set(in, 1, I64, &k, 1);
    infer_set(in, 2, I64, &n, 1);
    infer_set(in, 3, I64, &k, 1);
}

static void unique_lower(Lower *lo) {
    int x = lower_in(lo, 0), out[4];
    Shape s = nn_shape(lo, x);
    int axis = unique_axis(lo->ctx, lo->node, s.rank);
    for (int i = 0; i < 4; i++) out[i] = lower_out(lo, i);
    if (out[0] < 0) BUG("Unique without its first result");
    Dim k = nn_shape(lo, out[0]).at[axis < 0 ? 0 : axis];
    DType t = lower_value(lo, 0)->type.dtype;
    int y = out[0], pairs = nn_pairs(lo, x, t);
    out[0] = nn_pairs_for(lo, y, t);
    int64_t attr[] = {axis, nn_int(lo, "sorted", 1)};
    lower_call(lo, "unique", &pairs, 1, out, 4, attr, 2, &k, 1);
    nn_pairs_to(lo, out[0], y);
}

/* ---- NonMaxSuppression ----------------------------------------------------------------------- */

static void nms_infer(Infer *in) {
    const Type *boxes = nn_ranked(in, 0, 3, 3), *scores = nn_ranked(in, 1, 3, 3);
    Ctx *ctx = in->ctx;
    nn_agree(in, boxes->shape[0], scores->shape[0], 0, 1,
             "boxes and scores must have one batch (dim 0)");
    nn_agree(in, boxes->shape[1], scores->shape[2], 0, 1,
             "scores need one element for each box (dim 1 of the first)");
    nn_agree(in, boxes->shape[2], dim_const(ctx, 4), 0, 0, "a box has 4 elements");
    Dim each = boxes->shape[1];
    const Dim *at;
    int n;
    if (infer_known(in, 2, &at, &n) && n == 1)
        each = dim_min(ctx, each, dim_max(ctx, at[0], dim_const(ctx, 0)));
    Dim most = dim_mul(ctx, dim_mul(ctx, scores->shape[0], scores->shape[1]), each);
    Dim out[] = {infer_fresh(in, "K", most), dim_const(ctx, 3)};
    infer_set(in, 0, I64, out, 2);
}

static void nms_lower(Lower *lo) {
    int in[5], y = lower_out(lo, 0);
    for (int i = 0; i < 5; i++) in[i] = lower_in(lo, i);
    if (y < 0) return;
    Dim k = nn_shape(lo, y).at[0];
    lower_call(lo, "nms", in, 5, &y, 1, (int64_t[]){nn_int(lo, "center_point_box", 0)}, 1, &k, 1);
}

const OpRow onnx_irregular_rows[] = {
    {"", "TopK", 1, 0, topk_infer, topk_lower, NULL, T_NUMS, 0},
    {"", "NonZero", 9, 0, nonzero_infer, nonzero_lower, NULL, T_ALL, 0},
    {"", "Unique", 11, 0, unique_infer, unique_lower, NULL, T_ALL, 0},
    {"", "NonMaxSuppression", 10, 0, nms_infer, nms_lower, NULL, "f32", 0},
    {0},
};
