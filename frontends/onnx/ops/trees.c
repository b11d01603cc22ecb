/* SPDX-License-Identifier: Apache-2.0 */
/* TreeEnsemble, TreeEnsembleRegressor and TreeEnsembleClassifier, which become one.
 *
 * All forms are brought to the tables of the call `trees`: nodes of seven numbers, leaves that
 * vote. Places are checked here once more by range: the call checks each before it follows it. */
#include "ml.h"

#include <string.h>

enum { FEATURE, MODE, MISSING, YES, NO, FIRST, END, FIELDS, MEMBER = 6 };

typedef struct Trees {
    int64_t nodes, leaves, targets, roots;
    int64_t *node;           /* FIELDS each */
    double *split, *weight;  /* by node; by vote */
    int64_t *first, *target; /* by leaf: its votes; by vote */
    const int64_t *root;
    double *member;
    int64_t members, votes, aggregate;
} Trees;

static const int64_t *numbers(Lower *lo, const char *name, int64_t n, bool needed) {
    const Attr *a = node_attr(lo->node, name);
    if (!a && !needed) return NULL;
    if (!a || a->kind != ATTR_INTS || (n >= 0 && a->n != n))
        fail(lo->ctx, E_ATTRIBUTE, "attribute \"%s\" must be %lld integers", name, (long long)n);
    return a->ints;
}

/* Floats of an attribute: NAME as a tensor, NAME_as_tensor, or NAME as floats. */
static double *floats(Lower *lo, const char *name, int64_t *n) {
    const Attr *a = node_attr(lo->node, name);
    if (!a) a = node_attr(lo->node, internf(lo->ctx, "%s_as_tensor", name));
    *n = 0;
    if (!a) return NULL;
    bool tensor = a->kind == ATTR_TENSOR;
    if (!tensor && a->kind != ATTR_FLOATS)
        fail(lo->ctx, E_ATTRIBUTE, "attribute \"%s\" must be numbers", name);
    *n = tensor ? type_count(&a->tensor.type) : a->n;
    double *to = NEW_ARRAY(lo->arena, double, *n);
    for (int64_t i = 0; i < *n; i++)
        to[i] = tensor ? bits_to_double(a->tensor.type.dtype,
                                        mem_get(a->tensor.type.dtype, a->tensor.data, i))
                       : (double)a->floats[i];
    return to;
}

static double *floats_n(Lower *lo, const char *name, int64_t n) {
    int64_t have;
    double *at = floats(lo, name, &have);
    if (!at || have != n)
        fail(lo->ctx, E_ATTRIBUTE, "attribute \"%s\" must be %lld numbers", name, (long long)n);
    return at;
}

static int table(Lower *lo, const char *name, DType t, const double *at, int64_t n) {
    Dim d = dim_const(lo->ctx, n);
    void *data = arena_alloc(lo->arena, (size_t)n * 8 + 8);
    for (int64_t i = 0; i < n; i++) mem_set(t, data, i, bits_of_double(t, at[i]));
    return lower_literal(lo, name, t, &d, 1, data);
}

static int list(Lower *lo, const char *name, const int64_t *at, int64_t n) {
    Dim d = dim_const(lo->ctx, n);
    return lower_literal(lo, name, I64, &d, 1, at);
}

/* Sums of the votes, with base values: [N,targets]. */
static int walk(Lower *lo, const Trees *t) {
    int x = ml_numbers(lo, true);
    DType type = nn_cont(lo, x)->type;
    Dim shape[] = {nn_shape(lo, x).at[0], dim_const(lo->ctx, t->targets)};
    Dim nodes[] = {dim_const(lo->ctx, t->nodes), dim_const(lo->ctx, FIELDS)};
    int scores = lower_tmp(lo, "scores", type, shape, 2);
    int in[] = {x,
                table(lo, "split", type, t->split, t->nodes),
                lower_literal(lo, "node", I64, nodes, 2, t->node),
                list(lo, "first", t->first, t->leaves + 1),
                list(lo, "target", t->target, t->votes),
                table(lo, "weight", type, t->weight, t->votes),
                table(lo, "member", type, t->member, t->members),
                list(lo, "root", t->root, t->roots)};
    lower_call(lo, "trees", in, 8, &scores, 1, &t->aggregate, 1, NULL, 0);
    int64_t n;
    double *base = floats(lo, "base_values", &n);
    if (n == t->targets || n == 1) {
        int sum = nn_tmp_like(lo, "based", type, scores);
        lower_pointwise(lo, "based", "$0 + $1", (int[]){scores, table(lo, "base", type, base, n)},
                        2, sum);
        scores = sum;
    }
    return scores;
}

/* ---- TreeEnsemble ---------------------------------------------------------------------------- */

static void ensemble_infer(Infer *in) {
    const Type *x = nn_ranked(in, 0, 2, 2);
    Dim shape[] = {x->shape[0], dim_const(in->ctx, attr_int(in->ctx, in->node, "n_targets", 1))};
    infer_set(in, 0, x->dtype, shape, 2);
}

/* Members of each node that asks for membership: a NaN ends one list. */
static void members(Lower *lo, Trees *t) {
    double *all = floats(lo, "membership_values", &t->members);
    t->member = all ? all : NEW_ARRAY(lo->arena, double, 1);
    int64_t at = 0;
    for (int64_t i = 0; i < t->nodes; i++) {
        int64_t *node = t->node + i * FIELDS;
        if (node[MODE] != MEMBER) continue;
        node[FIRST] = at;
        while (at < t->members && all[at] == all[at]) at++;
        node[END] = at++;
        if (node[FIRST] > t->members) node[FIRST] = node[END] = t->members;
    }
}

static void ensemble_nodes(Lower *lo, Trees *t) {
    const Attr *a = node_attr(lo->node, "nodes_featureids");
    const int64_t *feature = numbers(lo, "nodes_featureids", -1, true), n = t->nodes = a->n;
    const int64_t *yes = numbers(lo, "nodes_truenodeids", n, true),
                  *no = numbers(lo, "nodes_falsenodeids", n, true),
                  *yes_leaf = numbers(lo, "nodes_trueleafs", n, true),
                  *no_leaf = numbers(lo, "nodes_falseleafs", n, true),
                  *missing = numbers(lo, "nodes_missing_value_tracks_true", n, false);
    double *mode = floats_n(lo, "nodes_modes", n);
    t->split = floats_n(lo, "nodes_splits", n);
    t->node = NEW_ARRAY(lo->arena, int64_t, n * FIELDS);
    for (int64_t i = 0; i < n; i++) {
        int64_t *node = t->node + i * FIELDS;
        node[FEATURE] = feature[i];
        node[MODE] = (int64_t)mode[i];
        node[MISSING] = missing && missing[i];
        node[YES] = yes_leaf[i] ? -1 - yes[i] : yes[i];
        node[NO] = no_leaf[i] ? -1 - no[i] : no[i];
    }
    members(lo, t);
}

static void ensemble_lower(Lower *lo) {
    static const char *const transforms[] = {"NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO",
                                             "PROBIT"};
    Trees t = {.targets = nn_int(lo, "n_targets", 1),
               .aggregate = nn_int(lo, "aggregate_function", 1)};
    int64_t transform = nn_int(lo, "post_transform", 0);
    const Attr *leaf = node_attr(lo->node, "leaf_targetids"),
               *root = node_attr(lo->node, "tree_roots");
    if (lower_out(lo, 0) < 0) return;
    if (transform < 0 || transform > 4 || t.aggregate < 0 || t.aggregate > 3)
        fail(lo->ctx, E_ATTRIBUTE, "aggregate_function or post_transform is none that is defined");
    t.target = (int64_t *)(uintptr_t)numbers(lo, "leaf_targetids", -1, true);
    t.root = numbers(lo, "tree_roots", -1, true);
    t.roots = root->n, t.votes = t.leaves = leaf->n;
    t.weight = floats_n(lo, "leaf_weights", t.leaves);
    t.first = NEW_ARRAY(lo->arena, int64_t, t.leaves + 1);
    for (int64_t i = 0; i <= t.leaves; i++) t.first[i] = i;
    ensemble_nodes(lo, &t);
    ml_transform(lo, walk(lo, &t), lower_out(lo, 0), transforms[transform]);
}

/* ---- trees by lists: TreeEnsembleRegressor -------------------------------------------------- */

static void regressor_infer(Infer *in) {
    const Type *x = nn_ranked(in, 0, 2, 2);
    Dim shape[] = {x->shape[0], dim_const(in->ctx, attr_int(in->ctx, in->node, "n_targets", 1))};
    infer_set(in, 0, F32, shape, 2);
}

/* The number of a node by tree and id: they are listed tree by tree, ids mostly in order. */
typedef struct Ids {
    const int64_t *tree, *id;
    int64_t n;
} Ids;

static int64_t find_node(Lower *lo, const Ids *ids, int64_t tree, int64_t id, int64_t near) {
    for (int64_t d = 0; d < ids->n; d++)
        for (int side = 0; side < 2; side++) {
            int64_t i = side ? near - d : near + d;
            if (i >= 0 && i < ids->n && ids->tree[i] == tree && ids->id[i] == id) return i;
        }
    fail(lo->ctx, E_ATTRIBUTE, "tree %lld has no node %lld", (long long)tree, (long long)id);
}

static int64_t mode_of(Lower *lo, const Attr *a, int64_t i) {
    static const char *const words[] = {"BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE",
                                        "BRANCH_GT",  "BRANCH_EQ", "BRANCH_NEQ"};
    size_t n = (size_t)a->string_bytes[i];
    for (int k = 0; k < 6; k++)
        if (strlen(words[k]) == n && !memcmp(words[k], a->strings[i], n)) return k;
    if (n == 4 && !memcmp(a->strings[i], "LEAF", 4)) return -1;
    fail(lo->ctx, E_ATTRIBUTE, "a mode of a node is \"%.*s\", which is none", (int)n,
         a->strings[i]);
}

/* Each node that is a leaf is leaf number i too; a tree of one leaf has a node that leads to it. */
static void listed_nodes(Lower *lo, Trees *t, const Ids *ids) {
    const Attr *mode = node_attr(lo->node, "nodes_modes");
    int64_t n = t->nodes = t->leaves = ids->n;
    if (!mode || mode->kind != ATTR_STRINGS || mode->n != n)
        fail(lo->ctx, E_ATTRIBUTE, "attribute \"nodes_modes\" must be %lld words", (long long)n);
    const int64_t *feature = numbers(lo, "nodes_featureids", n, true),
                  *yes = numbers(lo, "nodes_truenodeids", n, true),
                  *no = numbers(lo, "nodes_falsenodeids", n, true),
                  *missing = numbers(lo, "nodes_missing_value_tracks_true", n, false);
    int64_t *root = NEW_ARRAY(lo->arena, int64_t, n);
    t->split = floats_n(lo, "nodes_values", n);
    t->node = NEW_ARRAY(lo->arena, int64_t, n * FIELDS);
    for (int64_t i = 0; i < n; i++) {
        int64_t *node = t->node + i * FIELDS, kind = mode_of(lo, mode, i);
        bool leaf = kind < 0;
        node[MODE] = leaf ? 0 : kind;
        node[FEATURE] = leaf ? 0 : feature[i];
        node[MISSING] = missing && missing[i];
        node[YES] = leaf ? -1 - i : find_node(lo, ids, ids->tree[i], yes[i], i + 1);
        node[NO] = leaf ? -1 - i : find_node(lo, ids, ids->tree[i], no[i], i + 2);
        if (i == 0 || ids->tree[i] != ids->tree[i - 1]) root[t->roots++] = i;
    }
    t->root = root;
    t->member = NEW_ARRAY(lo->arena, double, 1);
}

/* Votes sorted by leaf: counted, then placed. */
static void listed_votes(Lower *lo, Trees *t, const Ids *ids, const char *stem) {
    const Attr *a = node_attr(lo->node, internf(lo->ctx, "%s_ids", stem));
    int64_t n = t->votes = a ? a->n : 0;
    const int64_t *target = numbers(lo, internf(lo->ctx, "%s_ids", stem), n, true),
                  *tree = numbers(lo, internf(lo->ctx, "%s_treeids", stem), n, true),
                  *id = numbers(lo, internf(lo->ctx, "%s_nodeids", stem), n, true);
    double *weight = floats_n(lo, internf(lo->ctx, "%s_weights", stem), n);
    int64_t *leaf = NEW_ARRAY(lo->arena, int64_t, n), near = 0;
    t->first = NEW_ARRAY(lo->arena, int64_t, t->leaves + 2);
    t->target = NEW_ARRAY(lo->arena, int64_t, n);
    t->weight = NEW_ARRAY(lo->arena, double, n);
    for (int64_t i = 0; i < n; i++) {
        near = leaf[i] = find_node(lo, ids, tree[i], id[i], near);
        t->first[leaf[i] + 2]++;
    }
    for (int64_t i = 2; i < t->leaves + 2; i++) t->first[i] += t->first[i - 1];
    for (int64_t i = 0; i < n; i++) {
        int64_t k = t->first[leaf[i] + 1]++;
        t->target[k] = target[i];
        t->weight[k] = weight[i];
    }
}

/* All of a model whose votes stand in the attributes `stem`_ids and so on. */
static Trees listed(Lower *lo, const char *stem, int64_t targets, int64_t aggregate) {
    const Attr *a = node_attr(lo->node, "nodes_nodeids");
    Trees t = {.targets = targets, .aggregate = aggregate};
    Ids ids = {.n = a ? a->n : 0};
    ids.id = numbers(lo, "nodes_nodeids", ids.n, true);
    ids.tree = numbers(lo, "nodes_treeids", ids.n, true);
    listed_nodes(lo, &t, &ids);
    listed_votes(lo, &t, &ids, stem);
    return t;
}

static const char *transform_of(const Lower *lo) {
    return attr_string(lo->ctx, lo->node, "post_transform", "NONE");
}

static void regressor_lower(Lower *lo) {
    static const char *const words[] = {"AVERAGE", "SUM", "MIN", "MAX"};
    const char *word = attr_string(lo->ctx, lo->node, "aggregate_function", "SUM");
    int aggregate = 0, to = lower_out(lo, 0);
    while (aggregate < 4 && strcmp(words[aggregate], word)) aggregate++;
    if (aggregate == 4) fail(lo->ctx, E_ATTRIBUTE, "aggregate_function \"%s\" is none", word);
    Trees t = listed(lo, "target", nn_int(lo, "n_targets", 1), aggregate);
    if (to >= 0) ml_transform(lo, walk(lo, &t), to, transform_of(lo));
}

/* ---- TreeEnsembleClassifier ------------------------------------------------------------------ */

static void classifier_infer(Infer *in) {
    nn_ranked(in, 0, 2, 2);
    ml_classes_infer(in, ml_need(in->ctx, in->node, "classlabels").n);
}

/* Two classes, and all votes are for the first: then the sum stands for the second, and what the
 * first gets follows from it. With no weight below 0 the sum is taken for a probability. */
static void classifier_lower(Lower *lo) {
    int64_t classes = ml_need(lo->ctx, lo->node, "classlabels").n;
    int to = lower_out(lo, 1);
    Trees t = listed(lo, "class", classes, 1);
    bool one = classes == 2, likely = true;
    for (int64_t i = 0; i < t.votes; i++) {
        one = one && t.target[i] == 0;
        likely = likely && t.weight[i] >= 0;
    }
    if (one) t.targets = 1;
    int scores = walk(lo, &t);
    DType type = nn_cont(lo, scores)->type;
    if (type != F32) {
        int wide = scores;
        scores = nn_tmp_like(lo, "scores", F32, wide);
        lower_pointwise(lo, "scores", "$0", &wide, 1, scores);
    }
    if (one) {
        const char *first = likely ? "1 - $0" : "-$0";
        ml_label(lo, ml_pair(lo, scores, first));
        ml_pair_scores(lo, scores, first, transform_of(lo));
        return;
    }
    ml_label(lo, scores);
    if (to >= 0) ml_transform(lo, scores, to, transform_of(lo));
}

const OpRow onnx_trees_rows[] = {
    {"ai.onnx.ml", "TreeEnsemble", 5, 0, ensemble_infer, ensemble_lower, NULL, "f16 f32 f64", 0},
    {"ai.onnx.ml", "TreeEnsembleRegressor", 1, 0, regressor_infer, regressor_lower, NULL,
     "f32 f64 i64 i32", 0},
    {"ai.onnx.ml", "TreeEnsembleClassifier", 1, 0, classifier_infer, classifier_lower, NULL,
     "f32 f64 i64 i32", 0},
    {0},
};
