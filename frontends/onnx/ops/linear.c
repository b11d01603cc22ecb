/* SPDX-License-Identifier: Apache-2.0 */
/* ai.onnx.ml, models that are a product: LinearClassifier, LinearRegressor, SVMClassifier,
 * SVMRegressor; and what all classifiers share: labels, and the two scores of a model that gives
 * one.
 *
 * Where the standard is silent on these two, they are what ONNX Runtime gives. A support vector
 * machine decides between every two classes by a sum over the vectors of both: one product with a
 * table that has zeros for the vectors of all others. */
#include "ml.h"

#include <string.h>

/* ---- classes --------------------------------------------------------------------------------- */

void ml_classes_infer(Infer *in, int64_t scores) {
    const Type *x = nn_ranked(in, 0, 1, 2);
    MlList labels = ml_need(in->ctx, in->node, "classlabels");
    Dim shape[] = {x->rank == 2 ? x->shape[0] : dim_const(in->ctx, 1), dim_const(in->ctx, scores)};
    infer_set(in, 0, labels.type, shape, 1);
    infer_set(in, 1, F32, shape, 2);
}

int ml_rows(Lower *lo) {
    int x = ml_numbers(lo, false);
    Shape s = nn_shape(lo, x);
    if (s.rank == 2) return x;
    Dim shape[] = {dim_const(lo->ctx, 1), s.at[0]}, at[RANK_MAX];
    int to = lower_tmp(lo, "row", F32, shape, 2);
    Map *m = nn_map_over(lo, "row", "", to, at);
    nn_write(lo, m, to, at, nn_read(lo, m, x, &at[1]));
    return to;
}

void ml_label(Lower *lo, int scores) {
    int to = lower_out(lo, 0);
    if (to < 0) return;
    MlList labels = ml_need(lo->ctx, lo->node, "classlabels");
    int label = ml_literal(lo, "labels", &labels), best = nn_tmp_like(lo, "best", I64, to),
        top = nn_tmp_like(lo, "top", F32, to);
    Dim at[RANK_MAX], row[1];
    Map *m = nn_map_over(lo, "best", "nc", scores, at);
    int val[] = {nn_read(lo, m, scores, at), body_index(&m->body, at[1])};
    map_write_tuple(lo->flow, m, 2, (int[]){top, best}, (const Dim *const[]){at, at}, 2, val,
                    combine_get(lo->ctx, "argmax_first", F32));
    m = nn_map_over(lo, "label", "n", to, row);
    Dim k = body_symbol(&m->body, map_read(lo->flow, m, best, row), "k");
    map_write(lo->flow, m, to, row, map_read(lo->flow, m, label, &k), NULL);
}

int ml_pair(Lower *lo, int score, const char *first) {
    Dim shape[] = {nn_shape(lo, score).at[0], dim_const(lo->ctx, 2)}, at[2];
    int to = lower_tmp(lo, "pair", F32, shape, 2);
    Map *m = nn_map_over(lo, "pair", "nc", to, at);
    int s = nn_read(lo, m, score, (Dim[]){at[0], dim_const(lo->ctx, 0)});
    int other = EXPR(m, first, s), c = body_index(&m->body, at[1]);
    nn_write(lo, m, to, at, EXPR(m, "select($0 == 0, $1, $2)", c, other, s));
    return to;
}

void ml_pair_scores(Lower *lo, int score, const char *first, const char *word) {
    int to = lower_out(lo, 1);
    bool logistic = !strcmp(word, "LOGISTIC");
    if (to < 0) return;
    if (!strncmp(word, "SOFTMAX", 7)) word = "NONE";
    ml_transform(lo, ml_pair(lo, score, logistic ? "-$0" : first), to, word);
}

static const char *transform_of(const Lower *lo) {
    return attr_string(lo->ctx, lo->node, "post_transform", "NONE");
}

/* ---- linear models --------------------------------------------------------------------------- */

/* The list is a table of so many rows (0: not known), and of a column for each feature. */
static void features_infer(Infer *in, const char *list, int64_t rows) {
    int64_t n;
    ml_floats(in->ctx, in->node, list, -1, &n);
    if (rows > 0 && n % rows == 0)
        ml_features(in, n / rows, internf(in->ctx, "%s must fit the features", list));
}

/* x [N,C] · weight [targets,C] + bias (a list, or one number) */
static int product(Lower *lo, int x, const float *weight, int64_t targets, int bias) {
    Shape s = nn_shape(lo, x);
    Dim shape[] = {dim_const(lo->ctx, targets), s.at[1]}, out[] = {s.at[0], shape[0]}, at[3];
    int w = lower_literal(lo, "coefficients", F32, shape, 2, weight);
    int sum = lower_tmp(lo, "sum", F32, out, 2), to = lower_tmp(lo, "linear", F32, out, 2);
    Map *m = lower_map(lo, "sum");
    nn_dims(lo, m, "nko", (Dim[]){s.at[0], s.at[1], shape[0]}, 3, at);
    int v = EXPR(m, "$0 * $1", nn_read(lo, m, x, at), nn_read(lo, m, w, (Dim[]){at[2], at[1]}));
    nn_reduce(lo, m, sum, (Dim[]){at[0], at[2]}, v, "sum");
    lower_pointwise(lo, "linear", "$0 + $1", (int[]){sum, bias}, 2, to);
    return to;
}

/* x · coefficients, of so many targets or (0) of as many as there are, plus intercepts. */
static int linear(Lower *lo, int64_t targets) {
    int64_t n, have;
    int x = ml_rows(lo);
    Dim features = nn_shape(lo, x).at[1];
    const float *w = ml_floats(lo->ctx, lo->node, "coefficients", -1, &n);
    const float *b = ml_floats(lo->ctx, lo->node, "intercepts", -1, &have);
    int64_t columns = 0;
    if (!targets && dim_is_const(features, &columns) && columns > 0) targets = n / columns;
    if (!w || targets < 1 || n % targets || !dim_is(features, n / targets) ||
        (b && have && have != targets))
        fail(lo->ctx, E_ATTRIBUTE, "coefficients and intercepts do not fit %lld targets",
             (long long)targets);
    int bias = b && have ? ml_floats_literal(lo, "intercepts", b, targets)
                         : lower_scalar(lo, "zero", F32, 0);
    return product(lo, x, w, targets, bias);
}

static void regressor_infer(Infer *in) {
    const Type *x = nn_ranked(in, 0, 2, 2);
    int64_t targets = attr_int(in->ctx, in->node, "targets", 1);
    Dim shape[] = {x->shape[0], dim_const(in->ctx, targets)};
    features_infer(in, "coefficients", targets);
    infer_set(in, 0, F32, shape, 2);
}

static void regressor_lower(Lower *lo) {
    int to = lower_out(lo, 0);
    if (to < 0) return;
    ml_transform(lo, linear(lo, nn_int(lo, "targets", 1)), to, transform_of(lo));
}

static void classifier_infer(Infer *in) {
    int64_t targets;
    ml_floats(in->ctx, in->node, "intercepts", -1, &targets);
    features_infer(in, "coefficients", targets);
    ml_classes_infer(in, ml_need(in->ctx, in->node, "classlabels").n);
}

static void classifier_lower(Lower *lo) {
    int64_t classes = ml_need(lo->ctx, lo->node, "classlabels").n, targets;
    int score = linear(lo, 0), to = lower_out(lo, 1);
    dim_is_const(nn_shape(lo, score).at[1], &targets);
    if (targets == 1 && classes == 2) {
        ml_label(lo, ml_pair(lo, score, "-$0"));
        ml_pair_scores(lo, score, "1 - $0", transform_of(lo));
        return;
    }
    if (targets != classes)
        fail(lo->ctx, E_ATTRIBUTE, "%lld labels do not fit %lld scores", (long long)classes,
             (long long)targets);
    ml_label(lo, score);
    if (to >= 0) ml_transform(lo, score, to, transform_of(lo));
}

/* ---- support vectors ------------------------------------------------------------------------- */

/* What the kernel makes of a product of x and a vector, gamma and coef0: $0, $1, $2. */
static const char *kernel_of(const Lower *lo, const char *word) {
    static const char *const kernels[][2] = {{"LINEAR", "$0"},
                                             {"POLY", "pow($1 * $0 + $2, $3)"},
                                             {"SIGMOID", "tanh($1 * $0 + $2)"},
                                             {"RBF", "exp(-$1 * $0)"}};
    for (int i = 0; i < 4; i++)
        if (!strcmp(word, kernels[i][0])) return kernels[i][1];
    fail(lo->ctx, E_ATTRIBUTE,
         "attribute \"kernel_type\" is \"%s\": LINEAR, POLY, RBF and SIGMOID are", word);
}

/* The kernel of each row and each of n support vectors: [N,n]. */
static int kernels(Lower *lo, int64_t n) {
    int64_t have;
    int x = ml_rows(lo);
    Shape s = nn_shape(lo, x);
    const float *vector = ml_floats(lo->ctx, lo->node, "support_vectors", -1, &have);
    const float *param = ml_floats(lo->ctx, lo->node, "kernel_params", -1, NULL);
    const char *word = attr_string(lo->ctx, lo->node, "kernel_type", "LINEAR");
    if (have % n || !dim_is(s.at[1], have / n))
        fail(lo->ctx, E_ATTRIBUTE, "%lld support vectors do not fit the features", (long long)n);
    if (param) ml_floats(lo->ctx, lo->node, "kernel_params", 3, NULL);
    Dim shape[] = {dim_const(lo->ctx, n), s.at[1]}, out[] = {s.at[0], shape[0]}, at[3];
    int v = lower_literal(lo, "vectors", F32, shape, 2, vector);
    int sum = lower_tmp(lo, "dot", F32, out, 2), to = lower_tmp(lo, "kernel", F32, out, 2);
    Map *m = lower_map(lo, "dot");
    nn_dims(lo, m, "nkv", (Dim[]){s.at[0], s.at[1], shape[0]}, 3, at);
    int a = nn_read(lo, m, x, at), b = nn_read(lo, m, v, (Dim[]){at[2], at[1]});
    bool apart = !strcmp(word, "RBF");
    nn_reduce(lo, m, sum, (Dim[]){at[0], at[2]},
              EXPR(m, apart ? "($0 - $1) * ($0 - $1)" : "$0 * $1", a, b), "sum");
    int from[] = {sum, lower_scalar(lo, "gamma", F32, param ? param[0] : 0),
                  lower_scalar(lo, "coef0", F32, param ? param[1] : 0),
                  lower_scalar(lo, "degree", F32, param ? param[2] : 0)};
    lower_pointwise(lo, "kernel", kernel_of(lo, word), from, 4, to);
    return to;
}

static const float *rho_of(Lower *lo, int64_t least, int64_t *n) {
    const float *rho = ml_floats(lo->ctx, lo->node, "rho", -1, n);
    if (*n < least)
        fail(lo->ctx, E_ATTRIBUTE, "attribute \"rho\" must be %lld floats", (long long)least);
    return rho;
}

static void svm_regressor_infer(Infer *in) {
    const Type *x = nn_ranked(in, 0, 2, 2);
    int64_t vectors = attr_int(in->ctx, in->node, "n_supports", 0);
    Dim shape[] = {x->shape[0], dim_const(in->ctx, 1)};
    features_infer(in, vectors > 0 ? "support_vectors" : "coefficients", vectors > 0 ? vectors : 1);
    infer_set(in, 0, F32, shape, 2);
}

static void svm_regressor_lower(Lower *lo) {
    int to = lower_out(lo, 0);
    int64_t vectors = nn_int(lo, "n_supports", 0), n;
    const float *w = ml_floats(lo->ctx, lo->node, "coefficients", -1, &n);
    const float *rho = rho_of(lo, 1, &(int64_t){0});
    if (to < 0) return;
    int x = vectors > 0 ? kernels(lo, vectors) : ml_rows(lo);
    if (!w || !dim_is(nn_shape(lo, x).at[1], n))
        fail(lo->ctx, E_ATTRIBUTE, "%lld coefficients do not fit what they weigh", (long long)n);
    int y = product(lo, x, w, 1, lower_scalar(lo, "rho", F32, rho[0]));
    if (nn_int(lo, "one_class", 0))
        lower_pointwise(lo, NULL, "select($0 > 0, 1, -1)", &y, 1, to);
    else
        ml_transform(lo, y, to, transform_of(lo));
}

typedef struct Machine {
    int64_t classes, vectors, pairs; /* no vectors: a linear model with a row for each class */
    const int64_t *per_class;
    const float *weight, *rho;
    bool likely; /* scores are probabilities */
} Machine;

static Machine machine_of(Ctx *ctx, const Node *node) {
    Machine s = {.classes = ml_need(ctx, node, "classlabels").n};
    int64_t n, have;
    const Attr *per = node_attr(node, "vectors_per_class");
    s.pairs = s.classes * (s.classes - 1) / 2;
    s.weight = ml_floats(ctx, node, "coefficients", -1, &n);
    s.rho = ml_floats(ctx, node, "rho", -1, &have);
    for (int i = 0; per && per->kind == ATTR_INTS && i < per->n; i++) {
        if (per->n != s.classes || per->ints[i] < 0 || per->ints[i] > n)
            fail(ctx, E_ATTRIBUTE, "attribute \"vectors_per_class\" does not fit the labels");
        s.per_class = per->ints;
        s.vectors += per->ints[i];
    }
    if (have < 1 || n < 1 || (s.vectors && (have < s.pairs || n != s.vectors * (s.classes - 1))) ||
        (!s.vectors && n % s.classes))
        fail(ctx, E_ATTRIBUTE, "coefficients and rho do not fit %lld classes",
             (long long)s.classes);
    const Attr *a = node_attr(node, "prob_a");
    s.likely = s.vectors && a && a->n;
    if (s.likely) ml_floats(ctx, node, "prob_a", s.pairs, NULL);
    if (s.likely) ml_floats(ctx, node, "prob_b", s.pairs, NULL);
    return s;
}

static void svm_infer(Infer *in) {
    Machine s = machine_of(in->ctx, in->node);
    features_infer(in, s.vectors ? "support_vectors" : "coefficients",
                   s.vectors ? s.vectors : s.classes);
    ml_classes_infer(in, s.vectors && !s.likely && s.classes > 2 ? s.pairs : s.classes);
}

/* The decision between every two classes, above 0 for the first: [N,pairs]. */
static int decisions(Lower *lo, const Machine *s) {
    float *table = NEW_ARRAY(lo->arena, float, s->pairs * s->vectors + 1), *row = table;
    for (int64_t i = 0; i < s->classes; i++)
        for (int64_t j = i + 1; j < s->classes; j++, row += s->vectors)
            for (int64_t c = 0, v = 0; c < s->classes; v += s->per_class[c++])
                for (int64_t k = v; k < v + s->per_class[c]; k++)
                    if (c == i || c == j) row[k] = s->weight[(c == i ? j - 1 : i) * s->vectors + k];
    return product(lo, kernels(lo, s->vectors), table, s->pairs,
                   ml_floats_literal(lo, "rho", s->rho, s->pairs));
}

/* How many decisions each class won: [N,classes]. */
static int votes(Lower *lo, const Machine *s, int decided) {
    int64_t *pair = NEW_ARRAY(lo->arena, int64_t, 2 * s->pairs + 1), p = 0;
    for (int64_t i = 0; i < s->classes; i++)
        for (int64_t j = i + 1; j < s->classes; j++, p++) pair[p] = i, pair[s->pairs + p] = j;
    Dim shape[] = {dim_const(lo->ctx, 2), dim_const(lo->ctx, s->pairs)},
        out[] = {nn_shape(lo, decided).at[0], dim_const(lo->ctx, s->classes)}, at[3];
    int of = lower_literal(lo, "pairs", I64, shape, 2, pair);
    int to = lower_tmp(lo, "votes", F32, out, 2);
    Map *m = lower_map(lo, "votes");
    nn_dims(lo, m, "npc", (Dim[]){out[0], shape[1], out[1]}, 3, at);
    int d = nn_read(lo, m, decided, at), c = body_index(&m->body, at[2]);
    int first = map_read(lo->flow, m, of, (Dim[]){dim_const(lo->ctx, 0), at[1]});
    int second = map_read(lo->flow, m, of, (Dim[]){dim_const(lo->ctx, 1), at[1]});
    int won = EXPR(m, "select($0 > 0, $1, $2) == $3", d, first, second, c);
    nn_reduce(lo, m, to, (Dim[]){at[0], at[2]}, body_cvt(&m->body, F32, won), "sum");
    return to;
}

static int probabilities(Lower *lo, const Machine *s, int decided) {
    Dim out[] = {nn_shape(lo, decided).at[0], dim_const(lo->ctx, s->classes)};
    int pair = nn_tmp_like(lo, "pair", F32, decided), to = lower_tmp(lo, "likely", F32, out, 2);
    int from[] = {decided,
                  ml_floats_literal(lo, "a", node_attr(lo->node, "prob_a")->floats, s->pairs),
                  ml_floats_literal(lo, "b", node_attr(lo->node, "prob_b")->floats, s->pairs)};
    lower_pointwise(lo, "pair", "min(max(1 - 1 / (1 + exp(-($0 * $1 + $2))), 1e-7), 0.9999999)",
                    from, 3, pair);
    lower_call(lo, "coupling", &pair, 1, &to, 1, NULL, 0, NULL, 0);
    return to;
}

static void svm_lower(Lower *lo) {
    Machine s = machine_of(lo->ctx, lo->node);
    const char *word = transform_of(lo);
    int to = lower_out(lo, 1), scores;
    if (s.vectors) {
        scores = decisions(lo, &s);
        ml_label(lo, votes(lo, &s, scores));
        if (s.likely) scores = probabilities(lo, &s, scores);
    } else {
        scores =
            product(lo, ml_rows(lo), s.weight, s.classes, lower_scalar(lo, "rho", F32, s.rho[0]));
        ml_label(lo, scores);
    }
    if (s.vectors && !s.likely && s.classes == 2)
        ml_pair_scores(lo, scores, strcmp(word, "NONE") ? "1 - $0" : "-$0", word);
    else if (to >= 0)
        ml_transform(lo, scores, to, word);
}

const OpRow onnx_linear_rows[] = {
    {ML, "LinearClassifier", 1, 0, classifier_infer, classifier_lower, NULL, ML_NUMS, 0},
    {ML, "LinearRegressor", 1, 0, regressor_infer, regressor_lower, NULL, ML_NUMS, 0},
    {ML, "SVMClassifier", 1, 0, svm_infer, svm_lower, NULL, ML_NUMS, 0},
    {ML, "SVMRegressor", 1, 0, svm_regressor_infer, svm_regressor_lower, NULL, ML_NUMS, 0},
    {0},
};
