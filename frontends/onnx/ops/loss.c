/* SPDX-License-Identifier: Apache-2.0 */
/* NegativeLogLikelihoodLoss, SoftmaxCrossEntropyLoss: a gather of the target's log probability, and
 * a sum. Targets equal to ignore_index count nothing. */
#include "nn.h"

#include <string.h>

typedef enum { REDUCE_NONE, REDUCE_SUM, REDUCE_MEAN } Reduction;

static Reduction reduction_of(Ctx *ctx, const Node *node) {
    const char *name = attr_string(ctx, node, "reduction", "mean");
    if (!strcmp(name, "none")) return REDUCE_NONE;
    if (!strcmp(name, "sum")) return REDUCE_SUM;
    if (strcmp(name, "mean") != 0)
        fail(ctx, E_ATTRIBUTE, "attribute \"reduction\" is \"%s\": use none, sum or mean", name);
    return REDUCE_MEAN;
}

static void loss_infer(Infer *in) {
    const Type *x = nn_ranked(in, 0, 2, RANK_MAX), *t = nn_ranked(in, 1, 1, RANK_MAX - 1);
    if (t->rank != x->rank - 1)
        nn_misfit(in, 0, 1, "the targets must have the scores' shape without the classes (dim 1)");
    for (int i = 0; i < t->rank; i++)
        nn_agree(in, x->shape[i ? i + 1 : 0], t->shape[i], 0, 1,
                 "the targets must have the scores' shape without the classes (dim 1)");
    if (infer_in(in, 2))
        nn_agree(in, x->shape[1], nn_ranked(in, 2, 1, 1)->shape[0], 0, 2,
                 "the weights need one element for each class (dim 1)");
    bool whole = reduction_of(in->ctx, in->node) != REDUCE_NONE;
    infer_set(in, 0, x->dtype, t->shape, whole ? 0 : t->rank);
    infer_set(in, 1, x->dtype, x->shape, x->rank);
}

/* In a map over the targets: the class's index, its weight (0 when ignored). */
typedef struct Target {
    Dim class;
    int weight;
} Target;

static Target target_read(Lower *lo, Map *m, const Dim *at, DType t) {
    int target = nn_read_as(lo, m, lower_in(lo, 1), at, I64), weights = lower_in(lo, 2);
    const Attr *ignore = node_attr(lo->node, "ignore_index");
    int skip = -1, safe = target;
    if (ignore) {
        skip = EXPR(m, internf(lo->ctx, "$0 == %lld", (long long)ignore->i), target);
        safe = EXPR(m, "select($0, 0, $1)", skip, target);
    }
    Target r = {.class = body_symbol(&m->body, safe, "class")};
    r.weight = weights < 0 ? body_const(&m->body, t, 1) : nn_read_as(lo, m, weights, &r.class, t);
    if (ignore) r.weight = EXPR(m, "select($0, 0, $1)", skip, r.weight);
    return r;
}

/* Every target's weighted loss: written to `to`, or summed into it. */
static void each_loss(Lower *lo, const char *name, int logp, int to, bool sum, DType t) {
    int targets = lower_in(lo, 1), rank = nn_cont(lo, targets)->rank;
    Dim at[RANK_MAX], from[RANK_MAX];
    Map *m = nn_map_over(lo, name, "nhwd", targets, at);
    Target target = target_read(lo, m, at, t);
    from[0] = at[0], from[1] = target.class;
    for (int i = 1; i < rank; i++) from[i + 1] = at[i];
    int val =
        EXPR(m, "select($1 == 0, 0, -$0 * $1)", nn_read_as(lo, m, logp, from, t), target.weight);
    if (sum)
        nn_reduce(lo, m, to, NULL, val, "sum");
    else
        nn_write(lo, m, to, at, val);
}

static void mean_loss(Lower *lo, int logp, int y, DType t) {
    Dim at[RANK_MAX];
    int total = lower_tmp(lo, "total", t, NULL, 0), weight = lower_tmp(lo, "weight", t, NULL, 0);
    each_loss(lo, "total", logp, total, true, t);
    Map *m = nn_map_over(lo, "weight", "nhwd", lower_in(lo, 1), at);
    nn_reduce(lo, m, weight, NULL, target_read(lo, m, at, t).weight, "sum");
    lower_pointwise(lo, NULL, "$0 / $1", (int[]){total, weight}, 2, y);
}

static void loss(Lower *lo, int logp) {
    int y = lower_out(lo, 0);
    DType t = dtype_compute(nn_cont(lo, lower_in(lo, 0))->type);
    Reduction r = reduction_of(lo->ctx, lo->node);
    if (y < 0) return;
    if (r == REDUCE_MEAN)
        mean_loss(lo, logp, y, t);
    else
        each_loss(lo, NULL, logp, y, r == REDUCE_SUM, t);
}

static void nll_lower(Lower *lo) {
    loss(lo, lower_in(lo, 0));
}

static void softmax_loss_lower(Lower *lo) {
    int x = lower_in(lo, 0), logp = lower_out(lo, 1);
    if (logp < 0) logp = nn_tmp_like(lo, "logp", dtype_compute(nn_cont(lo, x)->type), x);
    nn_log_softmax(lo, x, 1, logp);
    loss(lo, logp);
}

const OpRow onnx_loss_rows[] = {
    {"", "NegativeLogLikelihoodLoss", 12, 0, loss_infer, nll_lower, NULL, T_FLOATS, 0},
    {"", "SoftmaxCrossEntropyLoss", 12, 0, loss_infer, softmax_loss_lower, NULL, T_FLOATS, 0},
    {0},
};
