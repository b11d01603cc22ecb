/* SPDX-License-Identifier: Apache-2.0 */
/* Operators of com.microsoft over what is sparse: attention to blocks of keys, products with sparse
 * matrices. Compositions. */
#include "compose.h"

#include <math.h>

/* ---- SparseAttention ------------------------------------------------------------------------- */

/* Which columns of blocks each row of them sees, bool [layout, row, column], of rows' ends among
 * the columns, [layout, row + 1], and columns [layout, element]. Elements of no row, and columns
 * that are not there, go to a row more, which is left out. */
static int block_mask(Infer *in, int starts, int columns) {
    int zero = compose_vector(in, 0), one = compose_vector(in, 1);
    int rows = OP(in, "Sub", compose_extents(in, starts, 1, 2), one);
    int ends = compose_part(in, starts, 1, one, compose_vector(in, INT64_MAX));
    int element = compose_range(in, compose_extents(in, columns, 1, 2));
    int behind = OP(in, "LessOrEqual", compose_unsqueeze(in, ends, 2), element);
    behind = compose_cast(in, behind, I64);
    compose_int(in, "keepdims", 0);
    int row = OP(in, "ReduceSum", behind, one);
    int there =
        OP(in, "And", OP(in, "GreaterOrEqual", columns, zero), OP(in, "Less", columns, rows));
    int column = OP(in, "Where", there, columns, zero);
    row = OP(in, "Mul", OP(in, "Where", there, row, rows), rows);
    int all = OP(in, "Mul", rows, OP(in, "Add", rows, one)),
        layouts = compose_extents(in, starts, 0, 1);
    compose_int(in, "axis", 0);
    int shape = OP(in, "Concat", layouts, all);
    int room = compose_flags(in, shape, OP(in, "Add", row, column));
    compose_int(in, "axis", 0);
    shape = OP(in, "Concat", layouts, compose_vector(in, -1), rows);
    return compose_part(in, OP(in, "Reshape", room, shape), 1, zero, rows);
}

/* Blocks that places lie in, but at most the last one. */
static int block_of(Infer *in, int place, int64_t size, int blocks) {
    int block = OP(in, "Div", place, compose_number(in, place, (double)size));
    return OP(in, "Min", block, OP(in, "Sub", blocks, compose_vector(in, 1)));
}

/* What is added to scores [batch, head, step, place]: nothing or -inf. Heads take turns in the
 * layouts. `place`: [batch, step], of the queries. */
static int block_bias(Infer *in, int place, int room) {
    int64_t size = attr_int(in->ctx, in->node, "sparse_block_size", 0),
            heads = attr_int(in->ctx, in->node, "num_heads", 0);
    int starts = compose_cast(in, IN(5), I64), columns = compose_cast(in, IN(6), I64);
    int64_t layouts = compose_size(in, starts, 0);
    if (size < 1 || heads < 1 || layouts < 1 || heads % layouts)
        fail(in->ctx, E_ATTRIBUTE,
             "\"sparse_block_size\" must be at least 1, \"num_heads\" a multiple of %lld layouts",
             (long long)layouts);
    int seen = block_mask(in, starts, columns), blocks = compose_extents(in, seen, 1, 2);
    int row = block_of(in, place, size, blocks),
        column = block_of(in, compose_range(in, room), size, blocks);
    compose_int(in, "axis", 1);
    seen = OP(in, "Gather", seen, row);
    compose_int(in, "axis", 3);
    seen = OP(in, "Gather", seen, column);
    seen = compose_transpose(in, seen, (int64_t[]){1, 0, 2, 3}, 4);
    int bias = compose_bias(in, seen, IN(0));
    if (layouts == 1) return bias;
    bias = compose_unsqueeze(in, bias, 1);
    bias = OP(in, "Expand", bias, compose_shape(in, (int64_t[]){heads / layouts, 1, 1, 1}, 4));
    int shape = compose_extents(in, bias, 3, 5);
    compose_int(in, "axis", 0);
    shape = OP(in, "Concat", compose_shape(in, (int64_t[]){0, heads}, 2), shape);
    return OP(in, "Reshape", bias, shape);
}

/* GroupQueryAttention whose cache has the room of the past, biased by blocks. */
static void sparse_attention_infer(Infer *in) {
    static const char *const names[] = {"num_heads", "kv_num_heads", "scale", "do_rotary",
                                        "rotary_interleaved"};
    infer_arity(in, 1, 11);
    for (int i = 3; i < 9; i++) infer_tensor(in, i);
    nn_ranked(in, 0, 3, 3), nn_ranked(in, 3, 4, 4), nn_ranked(in, 4, 4, 4);
    nn_ranked(in, 5, 2, 2), nn_ranked(in, 6, 2, 2);
    nn_agree(in, nn_ranked(in, 8, 1, 1)->shape[0], nn_ranked(in, 0, 3, 3)->shape[0], 8, 0,
             "there is one length for each sequence of the batch");
    int zero = compose_vector(in, 0), room = compose_extents(in, IN(3), 2, 3),
        steps = compose_extents(in, IN(0), 1, 2);
    int ends = compose_reshape(in, compose_cast(in, IN(8), I64), (int64_t[]){-1, 1}, 2);
    int before = OP(in, "Max", OP(in, "Sub", ends, steps), zero);
    int bias = block_bias(in, OP(in, "Add", before, compose_range(in, steps)), room);
    int last = OP(in, "Sub", IN(8), compose_number(in, IN(8), 1));
    int total = compose_cast(in, room, I32);
    for (int i = 0; i < 5; i++) compose_attr(in, names[i], names[i]);
    int operand[] = {IN(0), IN(1), IN(2), IN(3), IN(4), last, total, IN(9), IN(10), -1, bias};
    int y = compose_op(in, "GroupQueryAttention", operand, 11, 3);
    for (int i = 0; i < 3; i++) compose_result(in, i, y + i);
}

/* ---- DynamicSparseAttention -------------------------------------------------------------------
 */

/* What is added to scores [batch, 1, step, place]: nothing where one of the first elements of a
 * query's row [query, element], as many as its count says, is the place; else -inf. */
static int chosen_bias(Infer *in, int rows, int counts, int room) {
    int zero = compose_vector(in, 0), one = compose_vector(in, 1);
    int index = compose_cast(in, rows, I64), count = compose_cast(in, counts, I64);
    int element = compose_range(in, compose_extents(in, rows, 1, 2));
    int there = OP(in, "Less", element, OP(in, "Unsqueeze", count, one));
    there = OP(in, "And", there, OP(in, "GreaterOrEqual", index, zero));
    there = OP(in, "And", there, OP(in, "Less", index, room));
    int place = OP(in, "Where", there, index, room), more = OP(in, "Add", room, one),
        queries = compose_extents(in, rows, 0, 1);
    compose_int(in, "axis", 0);
    int shape = OP(in, "Concat", queries, more);
    int bias = OP(in, "Expand", compose_number(in, IN(0), -INFINITY), shape);
    int none = OP(in, "Expand", compose_number(in, IN(0), 0), OP(in, "Shape", place));
    compose_int(in, "axis", 1);
    bias = OP(in, "ScatterElements", bias, place, none);
    shape = compose_extents(in, IN(0), 0, 2);
    compose_int(in, "axis", 0);
    shape = OP(in, "Concat", shape, room);
    bias = OP(in, "Reshape", compose_part(in, bias, 1, zero, room), shape);
    return OP(in, "Unsqueeze", bias, one);
}

/* GroupQueryAttention over places of the cache that operands choose. */
static void chosen_attention_infer(Infer *in) {
    static const char *const names[] = {"num_heads",     "kv_num_heads",       "scale",
                                        "do_rotary",     "rotary_interleaved", "qk_norm_epsilon",
                                        "smooth_softmax"};
    infer_arity(in, 1, 20);
    nn_ranked(in, 0, 3, 3), nn_ranked(in, 7, 2, 2), nn_ranked(in, 8, 1, 1);
    infer_tensor(in, 9), infer_tensor(in, 10);
    nn_agree(in, nn_ranked(in, 7, 2, 2)->shape[0], nn_ranked(in, 8, 1, 1)->shape[0], 7, 8,
             "there is one count for each row of places");
    int room = compose_reshape(in, compose_cast(in, IN(10), I64), (int64_t[]){1}, 1);
    if (IN(3) >= 0) room = OP(in, "Max", room, compose_extents(in, IN(3), 2, 3));
    room = compose_extents(in, compose_range(in, room), 0, 1);
    int bias = chosen_bias(in, IN(7), IN(8), room), total = compose_cast(in, room, I32);
    int operand[] = {IN(0),  IN(1),  IN(2), IN(3),  IN(4), IN(9), total,  IN(11),
                     IN(12), IN(13), bias,  IN(16), -1,    -1,    IN(14), IN(15)};
    for (int i = 0; i < 7; i++) compose_attr(in, names[i], names[i]);
    int y = compose_op(in, "GroupQueryAttention", operand, 16, 3);
    for (int i = 0; i < 3; i++) compose_result(in, i, y + i);
}

/* ---- SparseToDenseMatMul --------------------------------------------------------------------- */

/* The sparse matrix is filled out. */
static int turned(Infer *in, int i, const char *attr) {
    int64_t perm[RANK_MAX];
    int rank = nn_ranked(in, i, 2, RANK_MAX)->rank;
    if (!attr_int(in->ctx, in->node, attr, 0)) return IN(i);
    for (int k = 0; k < rank; k++) perm[k] = k < rank - 2 ? k : 2 * rank - 3 - k;
    return compose_transpose(in, IN(i), perm, rank);
}

static void sparse_product_infer(Infer *in) {
    infer_arity(in, 2, 2);
    int a = turned(in, 0, "transA"), y = OP(in, "MatMul", a, turned(in, 1, "transB"));
    float alpha = attr_float(in->ctx, in->node, "alpha", 1);
    compose_result(in, 0, alpha == 1 ? y : OP(in, "Mul", y, compose_number(in, y, alpha)));
}

const OpRow onnx_contrib_sparse_rows[] = {
    COMPOSED("SparseAttention", sparse_attention_infer, T_FLOATS),
    COMPOSED("DynamicSparseAttention", chosen_attention_infer, T_FLOATS),
    COMPOSED("SparseToDenseMatMul", sparse_product_infer, "f32 f64 i32 i64 u32 u64"),
    {0},
};
