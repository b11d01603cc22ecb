/* SPDX-License-Identifier: Apache-2.0 */
/* TreeEnsemble, TreeEnsembleRegressor and TreeEnsembleClassifier, which become one.
 *
 * All forms are brought to the tables of the call `trees`: nodes of four numbers, leaves that vote.
 * It knows comparisons by <=, by == and with members alone: what is written otherwise changes its
 * branches, or its number. The call checks each place before it follows it. */
#include "ml.h"

#include <math.h>
#include <string.h>

enum { FEATURE, HOW, YES, NO, FIELDS };
/* Modes as ONNX counts them; what the call makes of them. */
enum { LEQ, LT, GTE, GT, EQ, NEQ, MEMBER };
enum { BY_LEQ, BY_EQ, BY_MEMBER, NAN_YES = 4, HOWS = 7, MEMBERS_FROM = 3 };

typedef struct Trees {
    int64_t inner, nodes, leaves, targets, roots; /* nodes: inner ones, then leaves */
    int32_t *node;                                /* FIELDS each */
    double *split, *weight;                       /* by node; by vote */
    int32_t *first, *target;                      /* by leaf: its votes; by vote */
    int32_t *root;
    double *member;
    int64_t members, votes, aggregate;
    DType type; /* of the numbers that are compared, and of the sums */
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

static int list(Lower *lo, const char *name, const int32_t *at, int64_t n) {
    Dim d = dim_const(lo->ctx, n);
    return lower_literal(lo, name, I32, &d, 1, at);
}

/* What is outside of the call's tables stays outside. */
static int32_t place(int64_t at) {
    return at < INT32_MIN || at > INT32_MAX ? INT32_MAX : (int32_t)at;
}

static int32_t *places(Lower *lo, const int64_t *at, int64_t n) {
    int32_t *to = NEW_ARRAY(lo->arena, int32_t, n + 1);
    for (int64_t i = 0; i < n; i++) to[i] = place(at[i]);
    return to;
}

/* The greatest number of the type below s, so that v < s is v <= it: NaN below the least. */
static double below(DType t, double s) {
    if (s == -INFINITY) return NAN;
    return t == F64 ? nextafter(s, -INFINITY) : (double)nextafterf((float)s, -INFINITY);
}

typedef struct Rule {
    int64_t mode, feature;
    double split;
    bool nan_yes;
} Rule;

/* Node i by a mode of ONNX. What the call lacks is the contrary of what it has, but for NaN, which
 * goes where it is told. */
static void set_node(Trees *t, int64_t i, const Rule *rule, const int64_t branch[2]) {
    int32_t *node = t->node + i * FIELDS;
    int64_t mode = rule->mode;
    bool turned = mode == GTE || mode == GT || mode == NEQ;
    t->split[i] = mode == LT || mode == GTE ? below(t->type, rule->split) : rule->split;
    node[FEATURE] = place(rule->feature);
    node[HOW] = mode == EQ || mode == NEQ ? BY_EQ : BY_LEQ;
    if (rule->nan_yes != turned) node[HOW] |= NAN_YES;
    node[YES] = place(branch[turned]);
    node[NO] = place(branch[!turned]);
}

static DType numbers_type(Lower *lo) {
    return nn_cont(lo, lower_in(lo, 0))->type == F64 ? F64 : F32;
}

/* Room for inner nodes, and the leaves. */
static void make_nodes(Lower *lo, Trees *t, int64_t inner, int64_t leaves) {
    t->inner = inner, t->leaves = leaves, t->nodes = inner + leaves;
    t->node = NEW_ARRAY(lo->arena, int32_t, t->nodes * FIELDS + 1);
    t->split = NEW_ARRAY(lo->arena, double, t->nodes + 1);
    for (int64_t i = inner; i < t->nodes; i++)
        t->node[i * FIELDS + YES] = t->node[i * FIELDS + NO] = place(i);
}

/* Sums of the votes, with base values: [N,targets]. */
static int walk(Lower *lo, const Trees *t) {
    int x = ml_numbers(lo, true);
    DType type = t->type;
    Dim shape[] = {nn_shape(lo, x).at[0], dim_const(lo->ctx, t->targets)};
    Dim nodes[] = {dim_const(lo->ctx, t->nodes), dim_const(lo->ctx, FIELDS)};
    int scores = lower_tmp(lo, "scores", type, shape, 2);
    int in[] = {x,
                table(lo, "split", type, t->split, t->nodes),
                lower_literal(lo, "node", I32, nodes, 2, t->node),
                list(lo, "first", t->first, t->leaves + 1),
                list(lo, "target", t->target, t->votes),
                table(lo, "weight", type, t->weight, t->votes),
                table(lo, "member", type, t->member, t->members),
                list(lo, "root", t->root, t->roots)};
    int64_t attr[] = {t->aggregate, 0};
    for (int64_t i = 0; i < t->nodes; i++) attr[1] |= t->node[i * FIELDS + HOW] & HOWS;
    lower_call(lo, "trees", in, 8, &scores, 1, attr, 2, NULL, 0);
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
static void members(Lower *lo, Trees *t, const double *mode) {
    double *all = floats(lo, "membership_values", &t->members);
    t->member = all ? all : NEW_ARRAY(lo->arena, double, 1);
    int64_t at = 0;
    if (t->members > INT32_MAX >> MEMBERS_FROM)
        fail(lo->ctx, E_LIMIT, "attribute \"membership_values\" has %lld numbers: the most are %d",
             (long long)t->members, INT32_MAX >> MEMBERS_FROM);
    for (int64_t i = 0; i < t->inner; i++) {
        if (mode[i] != MEMBER) continue;
        int64_t first = at < t->members ? at : t->members;
        t->node[i * FIELDS + HOW] |= BY_MEMBER | (int32_t)first << MEMBERS_FROM;
        while (at < t->members && all[at] == all[at]) at++;
        at++;
    }
}

/* Where a branch leads, as a node of the call. */
static int64_t branch_to(Lower *lo, const Trees *t, int64_t to, bool leaf) {
    int64_t n = leaf ? t->leaves : t->inner;
    if (to < 0 || to >= n)
        fail(lo->ctx, E_ATTRIBUTE, "a branch leads to %s %lld: there are %lld",
             leaf ? "leaf" : "node", (long long)to, (long long)n);
    return leaf ? t->inner + to : to;
}

static void ensemble_nodes(Lower *lo, Trees *t) {
    const Attr *a = node_attr(lo->node, "nodes_featureids");
    const int64_t *feature = numbers(lo, "nodes_featureids", -1, true), n = a->n;
    const int64_t *yes = numbers(lo, "nodes_truenodeids", n, true),
                  *no = numbers(lo, "nodes_falsenodeids", n, true),
                  *yes_leaf = numbers(lo, "nodes_trueleafs", n, true),
                  *no_leaf = numbers(lo, "nodes_falseleafs", n, true),
                  *missing = numbers(lo, "nodes_missing_value_tracks_true", n, false);
    double *mode = floats_n(lo, "nodes_modes", n);
    const double *split = floats_n(lo, "nodes_splits", n);
    make_nodes(lo, t, n, t->leaves);
    for (int64_t i = 0; i < n; i++) {
        const Rule rule = {(int64_t)mode[i], feature[i], split[i], missing && missing[i]};
        const int64_t branch[] = {branch_to(lo, t, yes[i], yes_leaf[i]),
                                  branch_to(lo, t, no[i], no_leaf[i])};
        if (rule.mode < LEQ || rule.mode > MEMBER)
            fail(lo->ctx, E_ATTRIBUTE, "a mode of a node is %lld: it must be in 0..%d",
                 (long long)rule.mode, MEMBER);
        set_node(t, i, &rule, branch);
    }
    members(lo, t, mode);
}

static void ensemble_lower(Lower *lo) {
    static const char *const transforms[] = {"NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO",
                                             "PROBIT"};
    Trees t = {.targets = nn_int(lo, "n_targets", 1),
               .aggregate = nn_int(lo, "aggregate_function", 1),
               .type = numbers_type(lo)};
    int64_t transform = nn_int(lo, "post_transform", 0);
    const Attr *leaf = node_attr(lo->node, "leaf_targetids"),
               *root = node_attr(lo->node, "tree_roots");
    if (lower_out(lo, 0) < 0) return;
    if (transform < 0 || transform > 4 || t.aggregate < 0 || t.aggregate > 3)
        fail(lo->ctx, E_ATTRIBUTE, "aggregate_function or post_transform is none that is defined");
    const int64_t *target = numbers(lo, "leaf_targetids", -1, true),
                  *first = numbers(lo, "tree_roots", -1, true);
    t.roots = root->n, t.votes = t.leaves = leaf->n;
    t.target = places(lo, target, t.votes);
    t.root = places(lo, first, t.roots);
    t.weight = floats_n(lo, "leaf_weights", t.leaves);
    t.first = NEW_ARRAY(lo->arena, int32_t, t.leaves + 1);
    for (int64_t i = 0; i <= t.leaves; i++) t.first[i] = place(i);
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
    int64_t *mode, *number; /* mode: -1 a leaf; number: among the call's nodes */
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

/* Numbers of listed nodes: inner ones, then leaves, both as they are listed. */
static void number_nodes(Lower *lo, Trees *t, Ids *ids) {
    const Attr *mode = node_attr(lo->node, "nodes_modes");
    int64_t inner = 0;
    if (!mode || mode->kind != ATTR_STRINGS || mode->n != ids->n)
        fail(lo->ctx, E_ATTRIBUTE, "attribute \"nodes_modes\" must be %lld words",
             (long long)ids->n);
    ids->mode = NEW_ARRAY(lo->arena, int64_t, ids->n + 1);
    ids->number = NEW_ARRAY(lo->arena, int64_t, ids->n + 1);
    for (int64_t i = 0; i < ids->n; i++) {
        ids->mode[i] = mode_of(lo, mode, i);
        inner += ids->mode[i] >= 0;
    }
    make_nodes(lo, t, inner, ids->n - inner);
    for (int64_t i = 0, k = 0; i < ids->n; i++)
        ids->number[i] = ids->mode[i] >= 0 ? k++ : inner + i - k;
}

static void listed_nodes(Lower *lo, Trees *t, const Ids *ids) {
    int64_t n = ids->n;
    const int64_t *feature = numbers(lo, "nodes_featureids", n, true),
                  *yes = numbers(lo, "nodes_truenodeids", n, true),
                  *no = numbers(lo, "nodes_falsenodeids", n, true),
                  *missing = numbers(lo, "nodes_missing_value_tracks_true", n, false);
    const double *split = floats_n(lo, "nodes_values", n);
    t->root = NEW_ARRAY(lo->arena, int32_t, n + 1);
    for (int64_t i = 0; i < n; i++) {
        if (i == 0 || ids->tree[i] != ids->tree[i - 1]) t->root[t->roots++] = place(ids->number[i]);
        if (ids->mode[i] < 0) continue;
        const Rule rule = {ids->mode[i], feature[i], split[i], missing && missing[i]};
        const int64_t branch[] = {ids->number[find_node(lo, ids, ids->tree[i], yes[i], i + 1)],
                                  ids->number[find_node(lo, ids, ids->tree[i], no[i], i + 2)]};
        set_node(t, ids->number[i], &rule, branch);
    }
    t->member = NEW_ARRAY(lo->arena, double, 1);
}

/* Votes sorted by leaf: counted, then placed. Those of inner nodes are never asked for. */
static void listed_votes(Lower *lo, Trees *t, const Ids *ids, const char *stem) {
    const Attr *a = node_attr(lo->node, internf(lo->ctx, "%s_ids", stem));
    int64_t n = t->votes = a ? a->n : 0;
    const int64_t *target = numbers(lo, internf(lo->ctx, "%s_ids", stem), n, true),
                  *tree = numbers(lo, internf(lo->ctx, "%s_treeids", stem), n, true),
                  *id = numbers(lo, internf(lo->ctx, "%s_nodeids", stem), n, true);
    double *weight = floats_n(lo, internf(lo->ctx, "%s_weights", stem), n);
    int64_t *leaf = NEW_ARRAY(lo->arena, int64_t, n), near = 0;
    t->first = NEW_ARRAY(lo->arena, int32_t, t->leaves + 2);
    t->target = NEW_ARRAY(lo->arena, int32_t, n + 1);
    t->weight = NEW_ARRAY(lo->arena, double, n);
    for (int64_t i = 0; i < n; i++) {
        near = find_node(lo, ids, tree[i], id[i], near);
        leaf[i] = ids->number[near] - t->inner;
        if (leaf[i] >= 0) t->first[leaf[i] + 2]++;
    }
    for (int64_t i = 2; i < t->leaves + 2; i++) t->first[i] += t->first[i - 1];
    for (int64_t i = 0; i < n; i++) {
        if (leaf[i] < 0) continue;
        int32_t k = t->first[leaf[i] + 1]++;
        t->target[k] = place(target[i]);
        t->weight[k] = weight[i];
    }
}

/* All of a model whose votes stand in the attributes `stem`_ids and so on. */
static Trees listed(Lower *lo, const char *stem, int64_t targets, int64_t aggregate) {
    const Attr *a = node_attr(lo->node, "nodes_nodeids");
    Trees t = {.targets = targets, .aggregate = aggregate, .type = numbers_type(lo)};
    Ids ids = {.n = a ? a->n : 0};
    ids.id = numbers(lo, "nodes_nodeids", ids.n, true);
    ids.tree = numbers(lo, "nodes_treeids", ids.n, true);
    number_nodes(lo, &t, &ids);
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
