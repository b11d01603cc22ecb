/* SPDX-License-Identifier: Apache-2.0 */
/* ai.onnx.ml, maps and feature vectors: CastMap, DictVectorizer, FeatureVectorizer, ZipMap. A map
 * is an object: calls look keys up, and give the values as a tensor, which maps convert. */
#include "ml.h"

#include <string.h>

#include "object.h"

/* Operand 0 as a map of keys `key` to scalars; the type of these. */
static DType map_operand(Infer *in, DType key) {
    const Value *v = infer_in(in, 0);
    if (!v || v->type.kind != TYPE_MAP || v->type.elem->kind != TYPE_TENSOR)
        fail(in->ctx, E_TYPE, "operand 0 must be a map of scalars");
    if (v->type.dtype != key)
        fail(in->ctx, E_TYPE, "keys of \"%s\" are %s: the operator needs %s", v->name,
             dtype_name(v->type.dtype), dtype_name(key));
    return v->type.elem->dtype;
}

/* A result of n elements: [n], as the standard says, or [1,n] where the model declares that rank.
 */
static void set_vector(Infer *in, DType t, Dim n) {
    const Type *said = in->declared && in->node->out.n ? &in->declared[0] : NULL;
    Dim shape[] = {dim_const(in->ctx, 1), n};
    bool row = said && said->kind == TYPE_TENSOR && said->rank == 2;
    infer_set(in, 0, t, row ? shape : shape + 1, row ? 2 : 1);
}

/* The vector `from` to the result, converted. */
static void give_vector(Lower *lo, int from) {
    int to = lower_out(lo, 0);
    DType have = nn_cont(lo, from)->type, want = nn_cont(lo, to)->type;
    if ((have == STRING) != (want == STRING)) {
        int cast = nn_tmp_like(lo, "cast", want, from);
        nn_cast_text(lo, from, cast);
        from = cast;
    }
    Dim at[RANK_MAX];
    Map *m = nn_map_over(lo, NULL, "", to, at);
    int v = map_read(lo->flow, m, from, &at[nn_cont(lo, to)->rank - 1]);
    map_write(lo->flow, m, to, at, have == STRING ? v : body_cvt(&m->body, want, v), NULL);
}

/* What a key that is not there gives: zero, or as a text `word`. */
static int absent_value(Lower *lo, DType t, const char *word) {
    if (t != STRING) return lower_scalar(lo, "absent", t, 0);
    uint64_t handle = (uint64_t)flow_text(lo->flow, word, (int64_t)strlen(word));
    return lower_literal(lo, "absent", STRING, NULL, 0, &handle);
}

/* ---- DictVectorizer -------------------------------------------------------------------------- */

static MlList vocabulary(Ctx *ctx, const Node *node) {
    const Attr *text = node_attr(node, "string_vocabulary"),
               *ints = node_attr(node, "int64_vocabulary");
    if (text && text->kind == ATTR_STRINGS && text->n) return (MlList){text, STRING, text->n};
    if (ints && ints->kind == ATTR_INTS && ints->n) return (MlList){ints, I64, ints->n};
    fail(ctx, E_ATTRIBUTE,
         "attribute \"string_vocabulary\" or \"int64_vocabulary\" is missing: it "
         "lists the keys");
}

static void dict_infer(Infer *in) {
    MlList keys = vocabulary(in->ctx, in->node);
    set_vector(in, map_operand(in, keys.type), dim_const(in->ctx, keys.n));
}

static void dict_lower(Lower *lo) {
    MlList keys = vocabulary(lo->ctx, lo->node);
    int to = lower_out(lo, 0);
    if (to < 0) return;
    DType t = nn_cont(lo, to)->type;
    Dim n = dim_const(lo->ctx, keys.n);
    int values = lower_tmp(lo, "values", t, &n, 1);
    int from[] = {lower_in(lo, 0), ml_literal(lo, "keys", &keys), absent_value(lo, t, "")};
    lower_call(lo, "map_get", from, 3, &values, 1, NULL, 0, NULL, 0);
    give_vector(lo, values);
}

/* ---- CastMap --------------------------------------------------------------------------------- */

static bool is_sparse(Ctx *ctx, const Node *node) {
    const char *form = attr_string(ctx, node, "map_form", "DENSE");
    bool sparse = !strcmp(form, "SPARSE");
    if (!sparse && strcmp(form, "DENSE"))
        fail(ctx, E_ATTRIBUTE, "attribute \"map_form\" is \"%s\": DENSE and SPARSE are", form);
    return sparse;
}

static void cast_infer(Infer *in) {
    static const struct {
        const char *word;
        DType t;
    } words[] = {{"TO_FLOAT", F32}, {"TO_STRING", STRING}, {"TO_INT64", I64}};
    const char *word = attr_string(in->ctx, in->node, "cast_to", "TO_FLOAT");
    int64_t most = attr_int(in->ctx, in->node, "max_map", 1);
    int k = 0;
    map_operand(in, I64);
    while (k < 3 && strcmp(word, words[k].word)) k++;
    if (k == 3 || most < 0)
        fail(in->ctx, E_ATTRIBUTE, "attribute \"cast_to\" is \"%s\" and \"max_map\" %lld", word,
             (long long)most);
    Dim n = is_sparse(in->ctx, in->node)
                ? dim_const(in->ctx, most)
                : infer_fresh(in, "entries", dim_const(in->ctx, INT32_MAX));
    set_vector(in, words[k].t, n);
}

static void cast_lower(Lower *lo) {
    int to = lower_out(lo, 0), from = lower_in(lo, 0);
    if (to < 0) return;
    DType t = lower_value(lo, 0)->type.elem->dtype;
    Dim n = nn_shape(lo, to).at[nn_cont(lo, to)->rank - 1], one = dim_const(lo->ctx, 1);
    int values = lower_tmp(lo, "values", t, &n, 1);
    if (is_sparse(lo->ctx, lo->node)) {
        int keys = lower_tmp(lo, "keys", I64, &n, 1);
        Dim at[RANK_MAX];
        Map *m = nn_map_over(lo, "keys", "k", keys, at);
        map_write(lo->flow, m, keys, at, body_index(&m->body, at[0]), NULL);
        int in[] = {from, keys, absent_value(lo, t, "0")};
        lower_call(lo, "map_get", in, 3, &values, 1, NULL, 0, NULL, 0);
    } else {
        int length = lower_tmp(lo, "length", I64, &one, 1);
        lower_call(lo, "map_length", &from, 1, &length, 1, NULL, 0, NULL, 0);
        nn_define(lo, n, length, 0, dim_const(lo->ctx, INT32_MAX));
        lower_call(lo, "map_values", &from, 1, &values, 1, NULL, 0, NULL, 0);
    }
    give_vector(lo, values);
}

/* ---- ZipMap ---------------------------------------------------------------------------------- */

static void zip_infer(Infer *in) {
    const Type *x = nn_ranked(in, 0, 1, 2);
    MlList keys = ml_need(in->ctx, in->node, "classlabels");
    nn_agree(in, x->shape[x->rank - 1], dim_const(in->ctx, keys.n), 0, 0, "one column a label");
    Type scalar = {TYPE_TENSOR, x->dtype, 0, NULL, NULL}, map = object_of(in, TYPE_MAP, &scalar);
    map.dtype = keys.type;
    Type t = object_of(in, TYPE_SEQUENCE, &map);
    infer_set_type(in, 0, &t);
}

static void zip_lower(Lower *lo) {
    MlList keys = ml_need(lo->ctx, lo->node, "classlabels");
    int to = lower_out(lo, 0), in[] = {lower_in(lo, 0), ml_literal(lo, "keys", &keys)};
    if (to >= 0) lower_call(lo, "zip_map", in, 2, &to, 1, NULL, 0, NULL, 0);
}

/* ---- FeatureVectorizer ----------------------------------------------------------------------- */

/* Columns of operand i in the result; an operand of rank 1 is one row, or a column when the model
 * says that it has one feature. */
static int64_t features(Ctx *ctx, const Node *node, const Type *x, int i) {
    const Attr *a = node_attr(node, "inputdimensions");
    int64_t n = -1;
    if (a && a->kind == ATTR_INTS && a->n == node->in.n) n = a->ints[i];
    if (!a) dim_is_const(x->shape[x->rank - 1], &n);
    if (n < 0)
        fail(ctx, E_ATTRIBUTE, "attribute \"inputdimensions\" must give each operand's features");
    return n;
}

static void vectorizer_infer(Infer *in) {
    int64_t total = 0;
    Dim shape[2] = {NULL};
    for (int i = 0; i < in->node->in.n; i++) {
        const Type *x = nn_ranked(in, i, 1, 2);
        int64_t n = features(in->ctx, in->node, x, i);
        Dim rows = x->rank == 2 || n == 1 ? x->shape[0] : dim_const(in->ctx, 1);
        shape[0] = i ? nn_agree(in, shape[0], rows, 0, i, "rows must be equal") : rows;
        total += n;
    }
    shape[1] = dim_const(in->ctx, total);
    infer_set(in, 0, F32, shape, 2);
}

/* Cut, or filled up with zeros, to the features that the model declares. */
static void vectorizer_lower(Lower *lo) {
    int to = lower_out(lo, 0);
    int64_t place = 0;
    for (int i = 0; to >= 0 && i < lo->node->in.n; i++) {
        const Type *x = &lower_value(lo, i)->type;
        int64_t n = features(lo->ctx, lo->node, x, i);
        Dim at[2], shape[] = {nn_shape(lo, to).at[0], dim_const(lo->ctx, n)};
        Map *m = lower_map(lo, NULL);
        nn_dims(lo, m, "nf", shape, 2, at);
        int v = nn_read_else(lo, m, lower_in(lo, i), x->rank == 2 || n == 1 ? at : at + 1, 0, F32);
        nn_write(lo, m, to, (Dim[]){at[0], dim_addc(lo->ctx, at[1], place)}, v);
        place += n;
    }
}

const OpRow onnx_maps_rows[] = {
    {ML, "CastMap", 1, 0, cast_infer, cast_lower, NULL, NULL, 0},
    {ML, "DictVectorizer", 1, 0, dict_infer, dict_lower, NULL, NULL, 0},
    {ML, "FeatureVectorizer", 1, 0, vectorizer_infer, vectorizer_lower, NULL, ML_NUMS, 0},
    {ML, "ZipMap", 1, 0, zip_infer, zip_lower, NULL, "f32", 0},
    {0},
};
