/* SPDX-License-Identifier: Apache-2.0 */
/* ai.onnx.ml, features: ArrayFeatureExtractor, Binarizer, CategoryMapper, Imputer, LabelEncoder,
 * Normalizer, OneHotEncoder, Scaler; and TfIdfVectorizer. Keys are looked up by a
 * call; what belongs to a key is read by a map. */
#include "ml.h"

#include <string.h>

#include "object.h"

/* ---- lists in attributes --------------------------------------------------------------------- */

bool ml_list(const Node *node, const char *stem, MlList *list) {
    static const struct {
        const char *end;
        AttrKind kind;
        DType type;
    } forms[] = {{"_tensor", ATTR_TENSOR, DT_NONE},
                 {"_strings", ATTR_STRINGS, STRING},
                 {"_int64s", ATTR_INTS, I64},
                 {"_ints", ATTR_INTS, I64},
                 {"_floats", ATTR_FLOATS, F32}};
    size_t n = strlen(stem);
    for (int i = 0; i < node->attr.n; i++)
        for (size_t k = 0; k < sizeof forms / sizeof *forms; k++) {
            const Attr *a = &node->attr.at[i];
            if (strncmp(a->name, stem, n) != 0 || strcmp(a->name + n, forms[k].end) != 0 ||
                a->kind != forms[k].kind || (a->kind != ATTR_TENSOR && !a->n))
                continue;
            *list = (MlList){a, forms[k].type, a->n};
            if (a->kind == ATTR_TENSOR)
                *list = (MlList){a, a->tensor.type.dtype, type_count(&a->tensor.type)};
            return true;
        }
    return false;
}

MlList ml_need(Ctx *ctx, const Node *node, const char *stem) {
    MlList list;
    if (!ml_list(node, stem, &list))
        fail(ctx, E_ATTRIBUTE, "attribute \"%s_...\" is missing: it lists what the operator knows",
             stem);
    return list;
}

int ml_literal(Lower *lo, const char *name, const MlList *list) {
    const Attr *a = list->attr;
    Dim n = dim_const(lo->ctx, list->n);
    bool tensor = a->kind == ATTR_TENSOR;
    if (list->type == STRING)
        return lower_texts(lo, name, tensor ? a->tensor.strings : a->strings,
                           tensor ? a->tensor.string_bytes : a->string_bytes, list->n);
    const void *data = tensor                 ? a->tensor.data
                       : a->kind == ATTR_INTS ? (const void *)a->ints
                                              : a->floats;
    return lower_literal(lo, name, list->type, &n, 1, data);
}

const float *ml_floats(Ctx *ctx, const Node *node, const char *name, int64_t n, int64_t *count) {
    const Attr *a = node_attr(node, name);
    if (count) *count = a ? a->n : 0;
    if (!a) return NULL;
    if (a->kind != ATTR_FLOATS || (n >= 0 && a->n != n))
        fail(ctx, E_ATTRIBUTE, "attribute \"%s\" must be %lld floats", name, (long long)n);
    return a->floats;
}

int ml_floats_literal(Lower *lo, const char *name, const float *at, int64_t n) {
    Dim d = dim_const(lo->ctx, n);
    return lower_literal(lo, name, F32, &d, 1, at);
}

/* The container in another type: itself where it is of that type. */
static int converted(Lower *lo, int x, DType want) {
    if (nn_cont(lo, x)->type == want) return x;
    int to = nn_tmp_like(lo, "numbers", want, x);
    Dim at[RANK_MAX];
    Map *m = nn_map_over(lo, "numbers", "", x, at);
    map_write(lo->flow, m, to, at, nn_read_as(lo, m, x, at, want), NULL);
    return to;
}

int ml_numbers(Lower *lo, bool wide) {
    int x = lower_in(lo, 0);
    return converted(lo, x, wide && nn_cont(lo, x)->type == F64 ? F64 : F32);
}

/* ---- values by key --------------------------------------------------------------------------- */

/* to = values[position], or `otherwise` (a scalar literal) where the position is below 0. */
static void pick(Lower *lo, int position, int values, int otherwise, int to) {
    Dim at[RANK_MAX];
    Map *m = nn_map_over(lo, NULL, "", to, at);
    int p = map_read(lo->flow, m, position, at), zero = body_const(&m->body, I64, 0);
    int other = lower_read_broadcast(lo, m, otherwise, NULL, 0);
    Dim k = body_symbol(&m->body, body_prim(&m->body, P_MAX, (int[]){p, zero}), "k");
    int none = body_prim(&m->body, P_LT, (int[]){p, zero});
    int v = nn_shape(lo, values).rank && dim_is(nn_shape(lo, values).at[0], 0)
                ? other
                : map_read(lo->flow, m, values, &k);
    map_write(lo->flow, m, to, at, body_prim(&m->body, P_SELECT, (int[]){none, other, v}), NULL);
}

/* Where n keys are found: half of the slots stay free. */
static int slots(Lower *lo, int pool, int start, int64_t n) {
    int64_t most = 2;
    while (most < 2 * n) most *= 2;
    Dim room = dim_const(lo->ctx, most);
    int to = nn_tmp(lo, "slots", I32, &room, 1), in[] = {pool, start};
    lower_call(lo, "slots", in, 2, &to, 1, NULL, 0, NULL, 0);
    return to;
}

static int positions(Lower *lo, const MlList *list) {
    int x = lower_in(lo, 0), keys = ml_literal(lo, "keys", list);
    int to = nn_tmp_like(lo, "position", I64, x), in[] = {x, keys, slots(lo, keys, -1, list->n)};
    lower_call(lo, "lookup", in, 3, &to, 1, NULL, 0, NULL, 0);
    return to;
}

static int text_scalar(Lower *lo, const char *name, const char *at, int64_t n) {
    uint64_t handle = (uint64_t)flow_text(lo->flow, at, n);
    return lower_literal(lo, name, STRING, NULL, 0, &handle);
}

/* What stands for a key that is not there. */
static int default_value(Lower *lo, DType t) {
    const Attr *a = node_attr(lo->node, "default_tensor");
    const char *text = attr_string(lo->ctx, lo->node, "default_string", "_Unused");
    if (a && a->kind == ATTR_TENSOR && a->tensor.type.dtype == t &&
        type_count(&a->tensor.type) == 1)
        return t == STRING
                   ? text_scalar(lo, "default", a->tensor.strings[0], a->tensor.string_bytes[0])
                   : lower_literal(lo, "default", t, NULL, 0, a->tensor.data);
    if (t == STRING) return text_scalar(lo, "default", text, (int64_t)strlen(text));
    if (dtype_is_float(t))
        return lower_scalar(lo, "default", t, nn_float(lo, "default_float", -0.0f));
    return lower_scalar(lo, "default", t, (double)nn_int(lo, "default_int64", -1));
}

static void check_keys(Infer *in, const MlList *keys, const MlList *values) {
    const Type *x = nn_ranked(in, 0, 0, RANK_MAX);
    if (keys->type != x->dtype)
        fail(in->ctx, E_TYPE, "keys are %s, \"%s\" is %s: they must be of one type",
             dtype_name(keys->type), infer_in(in, 0)->name, dtype_name(x->dtype));
    if (keys->n != values->n)
        fail(in->ctx, E_ATTRIBUTE, "%lld keys have %lld values: each must have one",
             (long long)keys->n, (long long)values->n);
    infer_set(in, 0, values->type, x->shape, x->rank);
}

static void label_infer(Infer *in) {
    MlList keys = ml_need(in->ctx, in->node, "keys"), values = ml_need(in->ctx, in->node, "values");
    check_keys(in, &keys, &values);
}

static void label_lower(Lower *lo) {
    MlList keys = ml_need(lo->ctx, lo->node, "keys"), values = ml_need(lo->ctx, lo->node, "values");
    if (lower_out(lo, 0) >= 0)
        pick(lo, positions(lo, &keys), ml_literal(lo, "values", &values),
             default_value(lo, values.type), lower_out(lo, 0));
}

/* Strings to their places in a list, or places to strings: version 1, CategoryMapper. */
static void classes_infer(Infer *in, const char *list) {
    const Type *x = nn_ranked(in, 0, 0, RANK_MAX);
    ml_need(in->ctx, in->node, list);
    infer_set(in, 0, x->dtype == STRING ? I64 : STRING, x->shape, x->rank);
}

static void classes_lower(Lower *lo, const MlList *strings, const int64_t *numbers) {
    int to = lower_out(lo, 0);
    if (to < 0) return;
    int64_t *count = NEW_ARRAY(lo->arena, int64_t, strings->n);
    for (int64_t i = 0; i < strings->n; i++) count[i] = numbers ? numbers[i] : i;
    Dim n = dim_const(lo->ctx, strings->n);
    Attr places = {.name = "places", .kind = ATTR_INTS, .n = (int)strings->n, .ints = count};
    MlList list = {&places, I64, strings->n};
    bool text = nn_cont(lo, to)->type == STRING;
    int values =
        text ? ml_literal(lo, "values", strings) : lower_literal(lo, "values", I64, &n, 1, count);
    pick(lo, positions(lo, text ? &list : strings), values, default_value(lo, text ? STRING : I64),
         to);
}

static void label_1_infer(Infer *in) {
    classes_infer(in, "classes");
}

static void label_1_lower(Lower *lo) {
    MlList list = ml_need(lo->ctx, lo->node, "classes");
    classes_lower(lo, &list, NULL);
}

static MlList categories(Ctx *ctx, const Node *node, const int64_t **numbers) {
    const Attr *text = node_attr(node, "cats_strings"), *ints = node_attr(node, "cats_int64s");
    if (!text || !ints || text->kind != ATTR_STRINGS || ints->kind != ATTR_INTS ||
        text->n != ints->n)
        fail(ctx, E_ATTRIBUTE,
             "attributes \"cats_strings\" and \"cats_int64s\" must be of one length");
    *numbers = ints->ints;
    return (MlList){text, STRING, text->n};
}

static void category_infer(Infer *in) {
    const int64_t *numbers;
    categories(in->ctx, in->node, &numbers);
    classes_infer(in, "cats");
}

static void category_lower(Lower *lo) {
    const int64_t *numbers;
    MlList list = categories(lo->ctx, lo->node, &numbers);
    int to = lower_out(lo, 0);
    if (to >= 0 && nn_cont(lo, to)->type == I64) classes_lower(lo, &list, numbers);
    if (to < 0 || nn_cont(lo, to)->type == I64) return;
    Attr places = {.name = "places", .kind = ATTR_INTS, .n = (int)list.n, .ints = numbers};
    pick(lo, positions(lo, &(MlList){&places, I64, list.n}), ml_literal(lo, "values", &list),
         default_value(lo, STRING), to);
}

/* ---- OneHotEncoder --------------------------------------------------------------------------- */

static void onehot_infer(Infer *in) {
    const Type *x = nn_ranked(in, 0, 0, RANK_MAX - 1);
    MlList cats = ml_need(in->ctx, in->node, "cats");
    Shape s = shape_of(x);
    if ((cats.type == STRING) != (x->dtype == STRING))
        fail(in->ctx, E_TYPE, "categories and \"%s\" must both be strings, or numbers",
             infer_in(in, 0)->name);
    s.at[s.rank++] = dim_const(in->ctx, cats.n);
    infer_set(in, 0, F32, s.at, s.rank);
}

static void onehot_lower(Lower *lo) {
    MlList cats = ml_need(lo->ctx, lo->node, "cats");
    int to = lower_out(lo, 0), x = lower_in(lo, 0), keys = ml_literal(lo, "cats", &cats);
    if (to < 0) return;
    Dim at[RANK_MAX];
    Map *m = nn_map_over(lo, NULL, "", to, at);
    int rank = nn_cont(lo, x)->rank, v = map_read(lo->flow, m, x, at);
    if (cats.type != STRING) v = body_cvt(&m->body, I64, v);
    int k = map_read(lo->flow, m, keys, &at[rank]);
    int same = body_prim(&m->body, P_EQ, (int[]){v, k});
    nn_write(lo, m, to, at, body_cvt(&m->body, F32, same));
}

/* ---- element-wise ---------------------------------------------------------------------------- */

static void f32_infer(Infer *in) {
    const Type *x = nn_ranked(in, 0, 1, RANK_MAX);
    infer_set(in, 0, F32, x->shape, x->rank);
}

/* The threshold is a float: integers are compared as f64. */
static void binarizer_lower(Lower *lo) {
    int x = lower_in(lo, 0), to = lower_out(lo, 0);
    const char *over =
        internf(lo->ctx, "select($0 > %s, 1, 0)", nn_lit(lo, nn_float(lo, "threshold", 0)));
    if (to < 0) return;
    if (!dtype_is_float(nn_cont(lo, x)->type)) x = converted(lo, x, F64);
    lower_pointwise(lo, NULL, over, &x, 1, to);
}

void ml_features(Infer *in, int64_t n, const char *rule) {
    const Type *x = nn_ranked(in, 0, 1, RANK_MAX);
    if (n > 0) nn_agree(in, x->shape[x->rank - 1], dim_const(in->ctx, n), 0, 0, rule);
}

static void scaler_infer(Infer *in) {
    static const char *const lists[] = {"offset", "scale"};
    f32_infer(in);
    for (int i = 0; i < 2; i++) {
        int64_t n;
        ml_floats(in->ctx, in->node, lists[i], -1, &n);
        if (n != 1) ml_features(in, n, "offsets and scales are one, or one for each feature");
    }
}

/* A list of one element for all features, or of one for each, as an operand of a map. */
static int per_feature(Lower *lo, const char *name, float otherwise) {
    int64_t n;
    const float *at = ml_floats(lo->ctx, lo->node, name, -1, &n);
    return at && n ? ml_floats_literal(lo, name, at, n) : lower_scalar(lo, name, F32, otherwise);
}

static void scaler_lower(Lower *lo) {
    int to = lower_out(lo, 0);
    int from[] = {ml_numbers(lo, false), per_feature(lo, "offset", 0), per_feature(lo, "scale", 1)};
    if (to >= 0) lower_pointwise(lo, NULL, "($0 - $1) * $2", from, 3, to);
}

static void imputer_lower(Lower *lo) {
    int to = lower_out(lo, 0), x = lower_in(lo, 0);
    MlList list;
    if (to < 0) return;
    list = ml_need(lo->ctx, lo->node, "imputed_value");
    bool floats = dtype_is_float(nn_cont(lo, x)->type);
    if (floats != (list.type == F32))
        fail(lo->ctx, E_ATTRIBUTE, "imputed values must be of the operand's type");
    float gone = nn_float(lo, "replaced_value_float", 0);
    int from[] = {x, converted(lo, ml_literal(lo, "imputed", &list), nn_cont(lo, x)->type)};
    const char *text = floats ? gone != gone
                                    ? "select($0 != $0, $1, $0)"
                                    : internf(lo->ctx, "select($0 == %s, $1, $0)", nn_lit(lo, gone))
                              : internf(lo->ctx, "select($0 == %lld, $1, $0)",
                                        (long long)nn_int(lo, "replaced_value_int64", 0));
    lower_pointwise(lo, NULL, text, from, 2, to);
}

/* ---- rows ------------------------------------------------------------------------------------ */

/* One number for each row of [N,C]: a reduction of an expression. */
static int row_stat(Lower *lo, const char *name, int x, const char *expr, const char *combine) {
    Shape s = nn_shape(lo, x);
    Dim at[RANK_MAX];
    int to = lower_tmp(lo, name, nn_cont(lo, x)->type, s.at, s.rank - 1);
    Map *m = nn_map_over(lo, name, "", x, at);
    int v = nn_read(lo, m, x, at);
    nn_reduce(lo, m, to, at, body_expr(&m->body, expr, &v, 1, NULL, 0, nn_cont(lo, x)->type),
              combine);
    return to;
}

static void row_map(Lower *lo, const char *name, int x, const int *stat, int nstat,
                    const char *expr, int to) {
    Dim at[RANK_MAX];
    Map *m = nn_map_over(lo, name, "", x, at);
    int arg[4] = {nn_read(lo, m, x, at)};
    for (int i = 0; i < nstat; i++) arg[1 + i] = nn_read(lo, m, stat[i], at);
    nn_write(lo, m, to, at,
             body_expr(&m->body, expr, arg, 1 + nstat, NULL, 0, nn_cont(lo, x)->type));
}

static void normalizer_lower(Lower *lo) {
    const char *norm = attr_string(lo->ctx, lo->node, "norm", "MAX");
    int x = ml_numbers(lo, false), to = lower_out(lo, 0), n;
    if (to < 0) return;
    bool l2 = !strcmp(norm, "L2");
    if (l2 || !strcmp(norm, "L1"))
        n = row_stat(lo, "norm", x, l2 ? "$0 * $0" : "abs($0)", "sum");
    else if (!strcmp(norm, "MAX"))
        n = row_stat(lo, "norm", x, "$0", "max");
    else
        fail(lo->ctx, E_ATTRIBUTE, "attribute \"norm\" is \"%s\": MAX, L1 and L2 are", norm);
    row_map(lo, NULL, x, &n, 1,
            l2 ? "select($1 == 0, $0, $0 / sqrt($1))" : "select($1 == 0, $0, $0 / $1)", to);
}

void ml_transform(Lower *lo, int scores, int to, const char *word) {
    static const char *const erfinv = /* Winitzki's formula */
        "l = log(1 - (2*$0 - 1)*(2*$0 - 1)) \n v = 4.3307467508 + 0.5*l \n r = sqrt(sqrt(v*v - "
        "6.8027210884*l) - v) \n 1.41421356 * select($0 < 0.5, 0 - r, r)";
    bool zero = !strcmp(word, "SOFTMAX_ZERO");
    if (zero || !strcmp(word, "SOFTMAX")) {
        int top = row_stat(lo, "top", scores, "$0", "max"), e = nn_tmp_like(lo, "e", F32, scores);
        row_map(lo, "e", scores, &top, 1,
                zero ? "select(abs($0) > 1e-7, exp($0 - $1), $0 * exp(-$1))" : "exp($0 - $1)", e);
        int sum = row_stat(lo, "sum", e, "$0", "sum");
        row_map(lo, "softmax", e, &sum, 1, "select($1 == 0, 0, $0 / $1)", to);
        return;
    }
    const char *expr = !strcmp(word, "NONE")       ? "$0"
                       : !strcmp(word, "LOGISTIC") ? "1 / (1 + exp(-$0))"
                       : !strcmp(word, "PROBIT")   ? erfinv
                                                   : NULL;
    if (!expr)
        fail(lo->ctx, E_ATTRIBUTE, "attribute \"post_transform\" is \"%s\", which is none", word);
    row_map(lo, "scores", scores, NULL, 0, expr, to);
}

/* ---- ArrayFeatureExtractor, FeatureVectorizer ------------------------------------------------ */

static void extract_infer(Infer *in) {
    const Type *x = nn_ranked(in, 0, 1, RANK_MAX - 1), *y = nn_ranked(in, 1, 0, RANK_MAX);
    Shape s = shape_of(x);
    if (s.rank == 1) s.at[s.rank++] = s.at[0], s.at[0] = dim_const(in->ctx, 1);
    s.at[s.rank - 1] = dim_product(in->ctx, y->shape, y->rank);
    infer_set(in, 0, x->dtype, s.at, s.rank);
}

static void extract_lower(Lower *lo) {
    int x = lower_in(lo, 0), y = lower_in(lo, 1), to = lower_out(lo, 0);
    if (to < 0) return;
    Shape s = nn_shape(lo, x), o = nn_shape(lo, to), i = nn_shape(lo, y);
    Dim at[RANK_MAX], which[RANK_MAX], from[RANK_MAX];
    Map *m = lower_map(lo, NULL);
    nn_dims(lo, m, "", o.at, o.rank - 1, at);
    nn_dims(lo, m, "", i.at, i.rank, which);
    at[o.rank - 1] = nn_row_index(lo->ctx, which, i.at, i.rank);
    int p = body_cvt(&m->body, I64, map_read(lo->flow, m, y, which));
    Dim last = dim_addc(lo->ctx, s.at[s.rank - 1], -1);
    int top = body_index(&m->body, last), zero = body_const(&m->body, I64, 0);
    p = body_prim(&m->body, P_MAX, (int[]){body_prim(&m->body, P_MIN, (int[]){p, top}), zero});
    for (int k = 0; k < s.rank - 1; k++) from[k] = at[k];
    from[s.rank - 1] = body_symbol(&m->body, p, "f");
    map_write(lo->flow, m, to, at, map_read(lo->flow, m, x, from), NULL);
}

/* ---- TfIdfVectorizer ------------------------------------------------------------------------- */

static const Attr *ints(Ctx *ctx, const Node *node, const char *name) {
    const Attr *a = node_attr(node, name);
    if (!a || a->kind != ATTR_INTS)
        fail(ctx, E_ATTRIBUTE, "attribute \"%s\" must be integers", name);
    return a;
}

static void tfidf_infer(Infer *in) {
    const Type *x = nn_ranked(in, 0, 1, 2);
    const Attr *index = ints(in->ctx, in->node, "ngram_indexes");
    MlList pool = ml_need(in->ctx, in->node, "pool");
    Dim shape[2] = {x->shape[0]};
    int64_t most = -1;
    for (int i = 0; i < index->n; i++) {
        if (index->ints[i] < 0 || index->ints[i] > INT32_MAX)
            fail(in->ctx, E_ATTRIBUTE, "an index of an n-gram is %lld", (long long)index->ints[i]);
        if (index->ints[i] > most) most = index->ints[i];
    }
    ints(in->ctx, in->node, "ngram_counts");
    if ((pool.type == STRING) != (x->dtype == STRING))
        fail(in->ctx, E_TYPE, "the pool and \"%s\" must both be strings, or integers",
             infer_in(in, 0)->name);
    shape[x->rank - 1] = dim_const(in->ctx, most + 1);
    infer_set(in, 0, F32, shape, x->rank);
}

static void tfidf_lower(Lower *lo) {
    static const char *const modes[] = {"TF", "IDF", "TFIDF"};
    const Attr *count = ints(lo->ctx, lo->node, "ngram_counts"),
               *index = ints(lo->ctx, lo->node, "ngram_indexes");
    MlList pool = ml_need(lo->ctx, lo->node, "pool");
    const char *word = attr_string(lo->ctx, lo->node, "mode", "TF");
    int to = lower_out(lo, 0), mode = 0;
    while (mode < 3 && strcmp(word, modes[mode])) mode++;
    if (mode == 3)
        fail(lo->ctx, E_ATTRIBUTE, "attribute \"mode\" is \"%s\": TF, IDF and TFIDF are", word);
    if (to < 0) return;
    const float *weight = ml_floats(lo->ctx, lo->node, "weights", index->n, NULL);
    int known = ml_literal(lo, "pool", &pool),
        start = ml_literal(lo, "counts", &(MlList){count, I64, count->n});
    int in[] = {converted(lo, lower_in(lo, 0), pool.type),
                known,
                start,
                slots(lo, known, start, pool.n),
                ml_literal(lo, "indexes", &(MlList){index, I64, index->n}),
                weight ? ml_floats_literal(lo, "weights", weight, index->n) : -1};
    int64_t attr[] = {nn_int(lo, "min_gram_length", 1), nn_int(lo, "max_gram_length", 1),
                      nn_int(lo, "max_skip_count", 0), mode};
    lower_call(lo, "tfidf", in, 6, &to, 1, attr, 4, NULL, 0);
}

const OpRow onnx_ml_rows[] = {
    {ML, "ArrayFeatureExtractor", 1, 0, extract_infer, extract_lower, NULL, ML_NUMS " string", 0},
    {ML, "Binarizer", 1, 0, nn_infer_same, binarizer_lower, NULL, ML_NUMS, 0},
    {ML, "CategoryMapper", 1, 0, category_infer, category_lower, NULL, "string i64", 0},
    {ML, "Imputer", 1, 0, nn_infer_same, imputer_lower, NULL, ML_NUMS, 0},
    {ML, "LabelEncoder", 1, 1, label_1_infer, label_1_lower, NULL, "string i64", 0},
    {ML, "LabelEncoder", 2, 0, label_infer, label_lower, NULL, NULL, 0},
    {ML, "Normalizer", 1, 0, f32_infer, normalizer_lower, NULL, ML_NUMS, 0},
    {ML, "OneHotEncoder", 1, 0, onehot_infer, onehot_lower, NULL, ML_NUMS " string", 0},
    {ML, "Scaler", 1, 0, scaler_infer, scaler_lower, NULL, ML_NUMS, 0},
    {"", "TfIdfVectorizer", 9, 0, tfidf_infer, tfidf_lower, NULL, "i32 i64 string", 0},
    {0},
};
