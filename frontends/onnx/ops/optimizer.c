/* SPDX-License-Identifier: Apache-2.0 */
/* Adagrad, Adam, Momentum: one element-wise map for each new value. Operands are the rate R, the
 * update count T, then all tensors, all gradients, and all of each kind of state; results in the
 * same order. */
#include "nn.h"

#include <string.h>

/* A row's expression is the number of states that its operator keeps for each tensor. */
static int state_count(const Node *node) {
    return !strcmp(node->row->expr, "2") ? 2 : 1;
}

static int tensor_group(Ctx *ctx, const Node *node) {
    int states = state_count(node), per = 2 + states, n = (node->in.n - 2) / per;
    if (node->in.n < 2 + per || (node->in.n - 2) % per || node->out.n > n * (1 + states))
        fail(ctx, E_MODEL,
             "%d operands and %d results do not fit: after R and T come tensors, gradients and %d "
             "kinds "
             "of state, as many of each",
             node->in.n, node->out.n, states);
    return n;
}

/* A tensor's gradient and states have its shape. */
static void same_shapes(Infer *in, int tensor, int with) {
    const char *rule = "a tensor, its gradient and its states have one shape";
    const Type *a = &infer_tensor(in, tensor)->type, *b = &infer_tensor(in, with)->type;
    if (a->rank != b->rank) nn_misfit(in, tensor, with, rule);
    for (int k = 0; k < a->rank; k++) nn_agree(in, a->shape[k], b->shape[k], tensor, with, rule);
}

static void optimizer_infer(Infer *in) {
    int n = tensor_group(in->ctx, in->node), states = state_count(in->node);
    nn_need_one(in->ctx, infer_tensor(in, 0), 0);
    nn_need_one(in->ctx, infer_tensor(in, 1), 0);
    for (int i = 0; i < n; i++) {
        for (int k = 1; k < 2 + states; k++) same_shapes(in, 2 + i, 2 + n * k + i);
        for (int s = 0; s <= states; s++) {
            infer_tensor(in, 2 + n * (s ? s + 1 : 0) + i);
            nn_same_as(in, n * s + i, 2 + n * (s ? s + 1 : 0) + i);
        }
    }
}

/* texts[s]: result s from $0 R, $1 T, $2 X, $3 G, $4.. states; each may use `pre`'s names. */
static void optimizer_lower(Lower *lo, const char *pre, const char *const *texts) {
    int n = tensor_group(lo->ctx, lo->node), states = state_count(lo->node), from[6];
    for (int i = 0; i < n; i++) {
        from[0] = lower_in(lo, 0), from[1] = lower_in(lo, 1);
        for (int k = 0; k < 2 + states; k++) from[2 + k] = lower_in(lo, 2 + n * k + i);
        for (int s = 0; s <= states; s++) {
            int to = lower_out(lo, n * s + i);
            if (to >= 0)
                lower_pointwise(lo, NULL, internf(lo->ctx, "%s; %s", pre, texts[s]), from,
                                4 + states, to);
        }
    }
}

static const char *factor(Lower *lo, const char *name, float otherwise) {
    return nn_lit(lo, nn_float(lo, name, otherwise));
}

static void adagrad_lower(Lower *lo) {
    const char *type = dtype_name(dtype_compute(nn_cont(lo, lower_in(lo, 2))->type));
    const char *pre =
        internf(lo->ctx, "r = %s($0) / (1 + %s($1) * %s); g = %s * $2 + $3; h = $4 + g * g", type,
                type, factor(lo, "decay_factor", 0), factor(lo, "norm_coefficient", 0));
    const char *x = internf(lo->ctx, "$2 - r * g / (sqrt(h) + %s)", factor(lo, "epsilon", 1e-6f));
    optimizer_lower(lo, pre, (const char *[]){x, "h"});
}

static void adam_lower(Lower *lo) {
    const char *a = factor(lo, "alpha", 0.9f), *b = factor(lo, "beta", 0.999f);
    const char *type = dtype_name(dtype_compute(nn_cont(lo, lower_in(lo, 2))->type));
    const char *pre = internf(
        lo->ctx,
        "t = %s($1); g = %s * $2 + $3; v = %s * $4 + (1 - %s) * g; "
        "h = %s * $5 + (1 - %s) * g * g; r0 = %s($0); "
        "r = select(t > 0, r0 * sqrt(1 - pow(0 * t + %s, t)) / (1 - pow(0 * t + %s, t)), r0)",
        type, factor(lo, "norm_coefficient", 0), a, a, b, b, type, b, a);
    const char *x = internf(lo->ctx, "(1 - %s) * ($2 - r * v / (sqrt(h) + %s))",
                            factor(lo, "norm_coefficient_post", 0), factor(lo, "epsilon", 1e-6f));
    optimizer_lower(lo, pre, (const char *[]){x, "v", "h"});
}

static void momentum_lower(Lower *lo) {
    const char *mode = attr_string(lo->ctx, lo->node, "mode", "standard"),
               *a = factor(lo, "alpha", 0);
    const char *type = dtype_name(dtype_compute(nn_cont(lo, lower_in(lo, 2))->type));
    const char *pre =
        internf(lo->ctx, "g = %s * $2 + $3; v = %s * $4 + select($1 > 0, %s, 1) * g; r = %s($0)",
                factor(lo, "norm_coefficient", 0), a, factor(lo, "beta", 1), type);
    if (strcmp(mode, "standard") != 0 && strcmp(mode, "nesterov") != 0)
        fail(lo->ctx, E_ATTRIBUTE, "attribute \"mode\" is \"%s\": use standard or nesterov", mode);
    const char *step = *mode == 's' ? "$2 - r * v" : internf(lo->ctx, "$2 - r * (g + %s * v)", a);
    optimizer_lower(lo, pre, (const char *[]){step, "v"});
}

#define TRAINING "ai.onnx.preview.training"

const OpRow onnx_optimizer_rows[] = {
    {TRAINING, "Adagrad", 1, 0, optimizer_infer, adagrad_lower, "1", "f32 f64", 0},
    {TRAINING, "Adam", 1, 0, optimizer_infer, adam_lower, "2", "f32 f64", 0},
    {TRAINING, "Momentum", 1, 0, optimizer_infer, momentum_lower, "1", "f32 f64", 0},
    {0},
};
