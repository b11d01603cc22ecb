/* SPDX-License-Identifier: Apache-2.0 */
/* Triangles, blocks and running sums: Trilu, DepthToSpace, SpaceToDepth, CumSum, CumProd. */
#include "known.h"
#include "nn.h"
#include "view.h"

#include <string.h>

static void same_infer(Infer *in) {
    const Type *t = &infer_tensor(in, 0)->type;
    infer_set(in, 0, t->dtype, t->shape, t->rank);
}

/* ---- Trilu: the element where column - row >= k (upper) or <= k, else 0 --------------------- */

static void trilu_infer(Infer *in) {
    const Type *t = &infer_tensor(in, 0)->type;
    if (t->rank < 2)
        fail(in->ctx, E_SHAPE, "operand must have rank 2 or more, it is %s", type_str(in->ctx, t));
    nn_need_one(in->ctx, infer_in(in, 1), 1);
    same_infer(in);
}

static void trilu_lower(Lower *lo) {
    int from = lower_in(lo, 0), to = lower_out(lo, 0), k = lower_in(lo, 1);
    if (to < 0) return;
    const Cont c = lo->flow->cont.at[to];
    Map *m = lower_map(lo, NULL);
    Body *b = &m->body;
    Dim at[RANK_MAX], zero = dim_const(lo->ctx, 0);
    lower_dims(lo, m, c.shape, c.rank, at);
    Dim diagonal = dim_sub(lo->ctx, at[c.rank - 1], at[c.rank - 2]);
    int offset =
        k < 0 ? body_const(b, I64, 0) : body_cvt(b, I64, lower_read_broadcast(lo, m, k, &zero, 1));
    Prim keep = attr_int(lo->ctx, lo->node, "upper", 1) ? P_GE : P_LE;
    int inside = body_prim2(b, keep, body_index(b, diagonal), offset);
    int val =
        body_prim3(b, P_SELECT, inside, map_read(lo->flow, m, from, at), body_const(b, c.type, 0));
    map_write(lo->flow, m, to, at, val, NULL);
}

/* ---- blocks --------------------------------------------------------------------------------- */

static int64_t block_size(Infer *in, const Type *t) {
    int64_t b = attr_int(in->ctx, in->node, "blocksize", 0);
    if (t->rank != 4)
        fail(in->ctx, E_SHAPE, "operand must have rank 4, it is %s", type_str(in->ctx, t));
    if (b < 1 || b > INT32_MAX)
        fail(in->ctx, E_ATTRIBUTE, "attribute \"blocksize\" is %lld: it must be positive",
             (long long)b);
    return b;
}

static Dim divided(Infer *in, const Type *t, int axis, int64_t by) {
    Dim q;
    if (dim_divides(in->ctx, t->shape[axis], dim_const(in->ctx, by), &q)) return q;
    if (dim_is_const(t->shape[axis], NULL))
        fail(in->ctx, E_SHAPE, "axis %d of \"%s\", which is %s, is not divisible by %lld", axis,
             infer_in(in, 0)->name, type_str(in->ctx, t), (long long)by);
    return dim_div(in->ctx, t->shape[axis], dim_const(in->ctx, by));
}

static void depth_to_space_infer(Infer *in) {
    const Type *t = &infer_tensor(in, 0)->type;
    int64_t b = block_size(in, t);
    Dim shape[4] = {t->shape[0], divided(in, t, 1, b * b), dim_mulc(in->ctx, t->shape[2], b),
                    dim_mulc(in->ctx, t->shape[3], b)};
    infer_set(in, 0, t->dtype, shape, 4);
}

static void depth_to_space_lower(Lower *lo) {
    int from = lower_in(lo, 0), to = lower_out(lo, 0);
    if (to < 0) return;
    Ctx *ctx = lo->ctx;
    const Cont c = lo->flow->cont.at[to];
    const char *mode = attr_string(ctx, lo->node, "mode", "DCR");
    int64_t b = attr_int(ctx, lo->node, "blocksize", 1);
    if (strcmp(mode, "DCR") && strcmp(mode, "CRD"))
        fail(ctx, E_ATTRIBUTE, "attribute \"mode\" is \"%s\": it must be DCR or CRD", mode);
    Map *m = lower_map(lo, NULL);
    Dim at[4], by = dim_const(ctx, b);
    lower_dims(lo, m, c.shape, 4, at);
    Dim inner = dim_add(ctx, dim_mulc(ctx, dim_mod(ctx, at[2], by), b), dim_mod(ctx, at[3], by));
    Dim channel = mode[0] == 'D' ? dim_add(ctx, dim_mul(ctx, inner, c.shape[1]), at[1])
                                 : dim_add(ctx, dim_mulc(ctx, at[1], b * b), inner);
    Dim read[4] = {at[0], channel, dim_div(ctx, at[2], by), dim_div(ctx, at[3], by)};
    map_write(lo->flow, m, to, at, map_read(lo->flow, m, from, read), NULL);
}

static void space_to_depth_infer(Infer *in) {
    const Type *t = &infer_tensor(in, 0)->type;
    int64_t b = block_size(in, t);
    Dim shape[4] = {t->shape[0], dim_mulc(in->ctx, t->shape[1], b * b), divided(in, t, 2, b),
                    divided(in, t, 3, b)};
    infer_set(in, 0, t->dtype, shape, 4);
}

static void space_to_depth_lower(Lower *lo) {
    int from = lower_in(lo, 0), to = lower_out(lo, 0);
    if (to < 0) return;
    Ctx *ctx = lo->ctx;
    const Cont a = lo->flow->cont.at[from], c = lo->flow->cont.at[to];
    int64_t b = attr_int(ctx, lo->node, "blocksize", 1);
    Map *m = lower_map(lo, NULL);
    Dim at[4], by = dim_const(ctx, b);
    lower_dims(lo, m, c.shape, 4, at);
    DimEnv env = map_env(lo->arena, lo->flow, m);
    bool columns = !strcmp(attr_string(ctx, lo->node, "mode", "DCR"), "CRD");
    Dim inner = columns ? dim_const(ctx, b * b) : a.shape[1];
    Dim high = dim_simplify(ctx, dim_div(ctx, at[1], inner), &env),
        low = dim_simplify(ctx, dim_mod(ctx, at[1], inner), &env);
    Dim block = columns ? low : high;
    Dim read[4] = {at[0], columns ? high : low,
                   dim_add(ctx, dim_mulc(ctx, at[2], b), dim_div(ctx, block, by)),
                   dim_add(ctx, dim_mulc(ctx, at[3], b), dim_mod(ctx, block, by))};
    map_write(lo->flow, m, to, at, map_read(lo->flow, m, from, read), NULL);
}

/* ---- running sums and products -------------------------------------------------------------- */

static void cumulative_infer(Infer *in) {
    const int64_t *axis;
    const Type *t = nn_ranked(in, 0, 1, RANK_MAX);
    nn_need_one(in->ctx, infer_tensor(in, 1), 1);
    int n = onnx_ints(in, 1, NULL, &axis);
    if (n == 1 && (axis[0] < -t->rank || axis[0] >= t->rank))
        fail(in->ctx, E_ATTRIBUTE, "axis %lld is out of range for rank %d", (long long)axis[0],
             t->rank);
    same_infer(in);
}

/* Along one axis: each step adds to (or multiplies) the one before what it takes, its own element
 * or with `exclusive` the one before; nothing stands before the first. In reverse, steps go down
 * from the end. */
static void cumulate(Lower *lo, int from, int to, int axis) {
    Ctx *ctx = lo->ctx;
    const Cont c = lo->flow->cont.at[to];
    bool exclusive = attr_int(ctx, lo->node, "exclusive", 0) != 0,
         reverse = attr_int(ctx, lo->node, "reverse", 0) != 0,
         product = strcmp(lo->node->row->expr, "+") != 0;
    DType t = dtype_compute(c.type);
    int sums = t == c.type ? to : lower_tmp(lo, "wide", t, c.shape, c.rank);
    Map *m = lower_map(lo, internf(ctx, "axis%d", axis));
    Dim at[RANK_MAX], before[RANK_MAX];
    for (int i = 0; i < c.rank; i++)
        at[i] = map_dim(lo->flow, m, internf(ctx, "i%d", i), c.shape[i]);
    m->dim.at[axis].seq = true;
    if (reverse) at[axis] = dim_sub(ctx, dim_addc(ctx, c.shape[axis], -1), at[axis]);
    memcpy(before, at, sizeof before);
    before[axis] = dim_addc(ctx, at[axis], reverse ? 1 : -1);
    Body *b = &m->body;
    int none = body_const(b, t, product), sum = map_read_else(lo->flow, m, sums, before, none), val;
    if (exclusive)
        val = map_read_else(lo->flow, m, from, before, body_const(b, c.type, product));
    else
        val = map_read(lo->flow, m, from, at);
    map_write(lo->flow, m, sums, at,
              body_prim2(b, product ? P_MUL : P_ADD, sum, body_cvt(b, t, val)), NULL);
    if (sums != to) lower_pointwise(lo, "round", "$0", &sums, 1, to);
}

/* An axis that only run time knows chooses among the results for all. */
static void cumulative_lower(Lower *lo) {
    int from = lower_in(lo, 0), to = lower_out(lo, 0);
    if (to < 0) return;
    const Cont c = lo->flow->cont.at[to];
    Infer in = onnx_reader(lo);
    const int64_t *axis;
    int each[RANK_MAX];
    if (onnx_ints(&in, 1, NULL, &axis) == 1) {
        cumulate(lo, from, to, (int)(axis[0] < 0 ? axis[0] + c.rank : axis[0]));
        return;
    }
    for (int i = 0; i < c.rank; i++) {
        each[i] = lower_tmp(lo, "along", c.type, c.shape, c.rank);
        cumulate(lo, from, each[i], i);
    }
    Map *m = lower_map(lo, "choose");
    Body *b = &m->body;
    Dim at[RANK_MAX], zero = dim_const(lo->ctx, 0);
    lower_dims(lo, m, c.shape, c.rank, at);
    int which = body_cvt(b, I64, lower_read_broadcast(lo, m, lower_in(lo, 1), &zero, 1));
    int val = lower_read_broadcast(lo, m, each[0], at, c.rank);
    for (int i = 1; i < c.rank; i++) {
        int hit = body_expr(b, internf(lo->ctx, "$0 == %d | $0 == %d", i, i - c.rank), &which, 1,
                            NULL, 0, I64);
        val = body_prim3(b, P_SELECT, hit, lower_read_broadcast(lo, m, each[i], at, c.rank), val);
    }
    map_write(lo->flow, m, to, at, val, NULL);
}

/* ---- rows ----------------------------------------------------------------------------------- */

const OpRow onnx_arrange_rows[] = {
    {"", "Trilu", 14, 0, trilu_infer, trilu_lower, NULL, NULL, 0},
    {"", "DepthToSpace", 1, 0, depth_to_space_infer, depth_to_space_lower, NULL, NULL, 0},
    {"", "SpaceToDepth", 1, 0, space_to_depth_infer, space_to_depth_lower, NULL, NULL, 0},
    {"", "CumSum", 11, 0, cumulative_infer, cumulative_lower, "+", T_NUMS, 0},
    {"", "CumProd", 26, 0, cumulative_infer, cumulative_lower, "*", T_NUMS, 0},
    {0},
};
