/* SPDX-License-Identifier: Apache-2.0 */
/* Strings: StringConcat, StringSplit, StringNormalizer, RegexFullMatch. What only moves or compares
 * strings stands with the operators that move and compare numbers: strings are handles. */
#include "nn.h"

#include <string.h>

/* The attribute as a literal scalar; -1: there is none. */
static int text_attr(Lower *lo, const char *name) {
    const Attr *a = node_attr(lo->node, name);
    if (!a || a->kind != ATTR_STRING) return -1;
    uint64_t handle = (uint64_t)flow_text(lo->flow, a->s, a->n);
    return lower_literal(lo, name, STRING, NULL, 0, &handle);
}

/* ---- StringConcat ---------------------------------------------------------------------------- */

static void concat_infer(Infer *in) {
    infer_arity(in, 2, 2);
    infer_pointwise_to(in, STRING);
}

static void concat_lower(Lower *lo) {
    int to = lower_out(lo, 0), in[2];
    if (to < 0) return;
    for (int i = 0; i < 2; i++) {
        in[i] = nn_tmp_like(lo, "side", STRING, to);
        lower_copy(lo, "side", lower_in(lo, i), in[i]);
    }
    lower_call(lo, "string_concat", in, 2, &to, 1, NULL, 0, NULL, 0);
}

/* ---- StringSplit ----------------------------------------------------------------------------- */

static void split_infer(Infer *in) {
    const Type *x = nn_ranked(in, 0, 0, RANK_MAX - 1);
    Shape s = shape_of(x);
    infer_set(in, 1, I64, s.at, s.rank);
    s.at[s.rank++] = infer_fresh(in, "fields", dim_const(in->ctx, INT32_MAX));
    infer_set(in, 0, STRING, s.at, s.rank);
}

static void split_lower(Lower *lo) {
    int in[] = {lower_in(lo, 0), text_attr(lo, "delimiter")}, to = lower_out(lo, 0);
    Dim one = dim_const(lo->ctx, 1);
    int64_t most = nn_int(lo, "maxsplit", -1);
    int out[] = {lower_out(lo, 1), lower_tmp(lo, "most", I64, &one, 1)};
    lower_call(lo, "string_fields", in, 2, out, 2, &most, 1, NULL, 0);
    if (to < 0) return;
    Shape s = nn_shape(lo, to);
    nn_define(lo, s.at[s.rank - 1], out[1], 0, dim_const(lo->ctx, INT32_MAX));
    lower_call(lo, "string_split", in, 2, &to, 1, &most, 1, NULL, 0);
}

/* ---- StringNormalizer ------------------------------------------------------------------------ */

static void normalize_infer(Infer *in) {
    const Type *x = nn_ranked(in, 0, 1, 2);
    Dim shape[2], n = x->shape[x->rank - 1];
    if (x->rank == 2)
        nn_agree(in, x->shape[0], dim_const(in->ctx, 1), 0, 0, "dim 0 of two must be 1");
    shape[0] = dim_const(in->ctx, 1);
    shape[x->rank - 1] = infer_fresh(in, "words", dim_max(in->ctx, n, dim_const(in->ctx, 1)));
    infer_set(in, 0, STRING, shape, x->rank);
}

static int case_change(Lower *lo) {
    static const char *const words[] = {"NONE", "LOWER", "UPPER"};
    const char *word = attr_string(lo->ctx, lo->node, "case_change_action", "NONE");
    for (int i = 0; i < 3; i++)
        if (!strcmp(word, words[i])) return i;
    fail(lo->ctx, E_ATTRIBUTE, "attribute \"case_change_action\" is \"%s\": LOWER, UPPER, NONE are",
         word);
}

static void normalize_lower(Lower *lo) {
    int to = lower_out(lo, 0);
    const Attr *stop = node_attr(lo->node, "stopwords");
    if (to < 0) return;
    if (stop && stop->kind != ATTR_STRINGS)
        fail(lo->ctx, E_ATTRIBUTE, "attribute \"stopwords\" must be strings");
    int words = stop ? lower_texts(lo, "stop", stop->strings, stop->string_bytes, stop->n)
                     : lower_texts(lo, "stop", NULL, NULL, 0);
    int64_t attr[] = {case_change(lo), nn_int(lo, "is_case_sensitive", 0)};
    Shape s = nn_shape(lo, to);
    lower_call(lo, "string_normalize", (int[]){lower_in(lo, 0), words}, 2, &to, 1, attr, 2,
               &s.at[s.rank - 1], 1);
}

/* ---- RegexFullMatch -------------------------------------------------------------------------- */

static void match_infer(Infer *in) {
    const Type *x = nn_ranked(in, 0, 0, RANK_MAX);
    if (!node_attr(in->node, "pattern"))
        fail(in->ctx, E_ATTRIBUTE, "attribute \"pattern\" is missing: it is the expression");
    infer_set(in, 0, BOOL, x->shape, x->rank);
}

static void match_lower(Lower *lo) {
    int in[] = {lower_in(lo, 0), text_attr(lo, "pattern")}, to = lower_out(lo, 0);
    if (to >= 0) lower_call(lo, "string_match", in, 2, &to, 1, NULL, 0, NULL, 0);
}

const OpRow onnx_text_rows[] = {
    {"", "StringConcat", 20, 0, concat_infer, concat_lower, NULL, "string", 0},
    {"", "StringSplit", 20, 0, split_infer, split_lower, NULL, "string", 0},
    {"", "StringNormalizer", 10, 0, normalize_infer, normalize_lower, NULL, "string", 0},
    {"", "RegexFullMatch", 20, 0, match_infer, match_lower, NULL, "string", 0},
    {0},
};
