/* SPDX-License-Identifier: Apache-2.0 */
/* Operators of com.microsoft that make numbers of words and tokens: hashes, embeddings of
 * characters, ways through their times, guesses of their sequence. */
#include "compose.h"

#include <math.h>

/* ---- MurmurHash3 ----------------------------------------------------------------------------- */

/* MurmurHash3_x86_32 (A. Appleby) of each element's bytes. */
static void murmur_infer(Infer *in) {
    const Type *t = &infer_tensor(in, 0)->type;
    bool natural = attr_int(in->ctx, in->node, "positive", 1) != 0;
    infer_set(in, 0, natural ? U32 : I32, t->shape, t->rank);
}

/* The hash $0 with four bytes more, $1. */
static const char block[] = "k = $1 * 3432918353 \n k2 = ((k << 15) | (k >> 17)) * 461845907 \n "
                            "h = $0 ^ k2 \n ((h << 13) | (h >> 19)) * 5 + 3864292196";
/* Of $1 bytes all told. */
static const char finish[] = "a = $0 ^ $1 \n b = (a ^ (a >> 16)) * 2246822507 \n c = (b ^ (b >> "
                             "13)) * 3266489909 \n c ^ (c >> 16)";

static void murmur_lower(Lower *lo) {
    int x = lower_in(lo, 0), to = lower_out(lo, 0);
    if (to < 0) return;
    Dim at[RANK_MAX];
    Map *m = nn_map_over(lo, NULL, "", x, at);
    Body *b = &m->body;
    uint32_t seed = (uint32_t)attr_int(lo->ctx, lo->node, "seed", 0);
    int bytes = dtype_bits(nn_cont(lo, x)->type) / 8, val = nn_read(lo, m, x, at);
    int h = body_const(b, U32, seed), size = body_const(b, U32, bytes), word[2];
    if (bytes == 4) {
        word[0] = body_expr(b, "bitcast:u32($0)", &val, 1, NULL, 0, U32);
    } else {
        val = body_expr(b, "bitcast:u64($0)", &val, 1, NULL, 0, U64);
        word[0] = body_expr(b, "u32($0 & 4294967295)", &val, 1, NULL, 0, U32);
        word[1] = body_expr(b, "u32($0 >> 32)", &val, 1, NULL, 0, U32);
    }
    for (int i = 0; i < bytes / 4; i++)
        h = body_expr(b, block, (int[]){h, word[i]}, 2, NULL, 0, U32);
    h = body_expr(b, finish, (int[]){h, size}, 2, NULL, 0, U32);
    if (nn_cont(lo, to)->type == I32) h = body_expr(b, "bitcast:i32($0)", &h, 1, NULL, 0, I32);
    nn_write(lo, m, to, at, h);
}

/* ---- WordConvEmbedding ----------------------------------------------------------------------- */

/* Words of characters [word, character], 0 behind their ends: the largest of the windows' values
 * that lie within a word, tanh of a convolution of its characters' rows; an empty one is 0. */
static void word_conv_infer(Infer *in) {
    infer_arity(in, 4, 4);
    nn_ranked(in, 0, 2, 2), nn_ranked(in, 1, 4, 4), nn_ranked(in, 2, 1, 1), nn_ranked(in, 3, 2, 2);
    int zero = compose_number(in, IN(0), 0), last = compose_vector(in, 1);
    int rows = OP(in, "Unsqueeze", OP(in, "Gather", IN(3), IN(0)), last);
    int y = OP(in, "Squeeze", OP(in, "Conv", rows, IN(1), IN(2)), compose_vector(in, 3));
    int letters = compose_cast(in, OP(in, "Greater", IN(0), zero), I64);
    int length = OP(in, "ReduceSum", letters, last);
    int most = OP(in, "Sub", length, compose_extents(in, IN(1), 2, 3));
    most = OP(in, "Unsqueeze", OP(in, "Max", most, compose_vector(in, 0)), last);
    int seen = OP(in, "LessOrEqual", compose_range(in, compose_extents(in, y, 2, 3)), most);
    y = OP(in, "Where", seen, OP(in, "Tanh", y), compose_number(in, y, -INFINITY));
    compose_int(in, "keepdims", 0);
    y = OP(in, "ReduceMax", y, compose_vector(in, 2));
    int some = OP(in, "Greater", length, compose_vector(in, 0));
    compose_result(in, 0, OP(in, "Where", some, y, compose_number(in, y, 0)));
}

/* ---- NGramHashMapping, VarlenNGramHashMapping --------------------------------------------------
 */

enum { NGRAM_MAX = 64 };

/* The longest n-gram. */
static int64_t ngram_most(const Infer *in) {
    int64_t most = attr_int(in->ctx, in->node, "max_ngram_size", 0);
    if (most < 2 || most > NGRAM_MAX)
        fail(in->ctx, E_ATTRIBUTE, "attribute \"max_ngram_size\" must be 2 .. %d", NGRAM_MAX);
    return most;
}

/* For n = 2 .. most: the last n ids by their multipliers, xored, modulo the size of each head, and
 * its offset (-1: none). ids[k]: those k steps before. */
static int hashes(Infer *in, const int *ids, int64_t most, int offset) {
    int64_t heads = attr_int(in->ctx, in->node, "n_head_per_ngram", 0);
    int mix = -1, y = -1, last = compose_type(in, ids[0])->rank;
    if (heads < 1 || heads > 1 << 20)
        fail(in->ctx, E_ATTRIBUTE, "attribute \"n_head_per_ngram\" must be 1 .. 2^20");
    for (int64_t k = 0; k < most; k++) {
        int by = OP(in, "Gather", IN(1), compose_vector(in, k));
        int term = OP(in, "Mul", ids[k], by);
        mix = k ? OP(in, "BitwiseXor", mix, term) : term;
        if (!k) continue;
        int size = compose_part(in, IN(2), 0, compose_vector(in, (k - 1) * heads),
                                compose_vector(in, k * heads));
        int hash = OP(in, "Mod", compose_unsqueeze(in, mix, last), size);
        if (k > 1) compose_int(in, "axis", last);
        y = k > 1 ? OP(in, "Concat", y, hash) : hash;
    }
    return compose_add(in, y, offset);
}

/* Ids before the first one: operand i, or the attribute pad_id as often as `shape` says. */
static int past_ids(Infer *in, int i, int shape) {
    if (IN(i) >= 0) return IN(i);
    int pad = compose_number(in, IN(0), (double)attr_int(in->ctx, in->node, "pad_id", 0));
    return OP(in, "Expand", pad, shape);
}

static void ngram_hash_infer(Infer *in) {
    infer_arity(in, 3, 5);
    nn_ranked(in, 0, 2, 2), nn_ranked(in, 1, 1, 1), nn_ranked(in, 2, 1, 1);
    int64_t most = ngram_most(in);
    int steps = compose_extents(in, IN(0), 1, 2), batch = compose_extents(in, IN(0), 0, 1),
        before = compose_vector(in, most - 1), shifted[NGRAM_MAX];
    compose_int(in, "axis", 0);
    int past = past_ids(in, 3, OP(in, "Concat", batch, before));
    compose_int(in, "axis", 1);
    int ids = OP(in, "Concat", past, IN(0));
    for (int64_t k = 0; k < most; k++) {
        int from = compose_vector(in, most - 1 - k);
        shifted[k] = compose_part(in, ids, 1, from, OP(in, "Add", from, steps));
    }
    compose_result(in, 0, hashes(in, shifted, most, IN(4)));
    compose_result(in, 1, compose_part(in, ids, 1, steps, OP(in, "Add", steps, before)));
}

static void packed_ngram_infer(Infer *in) {
    infer_arity(in, 4, 10);
    for (int i = 0; i < 4; i++) nn_ranked(in, i, 1, 1);
    int64_t most = ngram_most(in);
    ComposeRequests r = compose_requests(in, IN(0), IN(3), most - 1);
    int past = past_ids(in, 4, r.past), shifted[NGRAM_MAX];
    past = compose_reshape(in, past, (int64_t[]){-1}, 1);
    compose_int(in, "axis", 0);
    int ids = OP(in, "Concat", past, IN(0));
    for (int64_t k = 0; k < most; k++) {
        int at = OP(in, "Sub", r.token, compose_vector(in, k));
        shifted[k] = OP(in, "Gather", ids, compose_history(in, &r, at, r.request));
    }
    compose_result(in, 0, hashes(in, shifted, most, IN(5)));
    compose_result(in, 1, OP(in, "Gather", ids, compose_last(in, &r)));
}

/* ---- DynamicTimeWarping ---------------------------------------------------------------------- */

static void warp_infer(Infer *in) {
    const Type *x = nn_ranked(in, 0, 2, 3);
    infer_arity(in, 1, 1);
    if (x->rank == 3)
        nn_agree(in, x->shape[0], dim_const(in->ctx, 1), 0, 0, "there is one matrix (dim 0)");
    Dim most = dim_add(in->ctx, x->shape[x->rank - 2], x->shape[x->rank - 1]);
    Dim out[] = {dim_const(in->ctx, 2), infer_fresh(in, "steps", most)};
    infer_set(in, 0, I32, out, 2);
}

static void warp_lower(Lower *lo) {
    int x = lower_in(lo, 0), y = lower_out(lo, 0);
    if (y < 0) return;
    Dim steps = nn_shape(lo, y).at[1];
    lower_call(lo, "warp", &x, 1, &y, 1, NULL, 0, &steps, 1);
}

/* ---- BifurcationDetector --------------------------------------------------------------------- */

static void bifurcate_infer(Infer *in) {
    infer_arity(in, 3, 4);
    nn_ranked(in, 0, 1, 1);
    Dim most = nn_ranked(in, 1, 1, 1)->shape[0];
    nn_need_one(in->ctx, infer_tensor(in, 2), 1);
    if (infer_in(in, 3)) most = dim_add(in->ctx, most, nn_ranked(in, 3, 1, 1)->shape[0]);
    if (!infer_out(in, 0)) fail(in->ctx, E_MODEL, "result 0 is missing: the operator gives it");
    Dim n = infer_fresh(in, "tokens", most);
    infer_set(in, 0, I64, &n, 1);
    infer_set(in, 1, I64, NULL, 0);
}

static void bifurcate_lower(Lower *lo) {
    int in[4], out[] = {lower_out(lo, 0), lower_out(lo, 1)};
    for (int i = 0; i < 4; i++) in[i] = lower_in(lo, i);
    in[2] = nn_scalar(lo, "from", in[2], I64, 0);
    if (out[1] < 0) out[1] = lower_tmp(lo, "end", I64, NULL, 0);
    int64_t attr[] = {nn_int(lo, "min_ngram_size", 1), nn_int(lo, "max_ngram_size", 3)};
    Dim n = nn_shape(lo, out[0]).at[0];
    lower_call(lo, "bifurcate", in, 4, out, 2, attr, 2, &n, 1);
}

const OpRow onnx_contrib_words_rows[] = {
    {"com.microsoft", "MurmurHash3", 1, 0, murmur_infer, murmur_lower, NULL,
     "i32 u32 i64 u64 f32 f64", 0},
    COMPOSED("WordConvEmbedding", word_conv_infer, "i32"),
    COMPOSED("NGramHashMapping", ngram_hash_infer, "i32 i64"),
    COMPOSED("VarlenNGramHashMapping", packed_ngram_infer, "i32 i64"),
    {"com.microsoft", "DynamicTimeWarping", 1, 0, warp_infer, warp_lower, NULL, "f32", 0},
    {"com.microsoft", "BifurcationDetector", 1, 0, bifurcate_infer, bifurcate_lower, NULL, "i64",
     0},
    {0},
};
