/* SPDX-License-Identifier: Apache-2.0 */
/* Mixtures of experts: the weights of the experts that each token chose are gathered, so that
 * nothing is computed for the others. */
#include "compose.h"

#include <math.h>
#include <string.h>

/* Weights [expert, out, in] and bias [expert, out]; -1: absent. */
typedef struct Layer {
    int weight, bias;
} Layer;

typedef struct Experts {
    Layer fc1, fc2, fc3;
    int route; /* i64 [token, k]: chosen experts */
    int share; /* [token, k]: their weights */
} Experts;

static int last_axis(Infer *in) {
    return compose_shape(in, (int64_t[]){-1}, 1);
}

/* Tokens' scores to experts and weights. `weight` (-1: the softmax of the scores) mixes. */
static void choose(Infer *in, int score, int weight, Experts *e) {
    int64_t k = attr_int(in->ctx, in->node, "k", 1);
    compose_int(in, "axis", -1);
    int p = OP(in, "Softmax", score), count = compose_shape(in, &k, 1);
    e->share = compose_op(in, "TopK", (int[]){p, count}, 2, 2);
    e->route = e->share + 1;
    if (weight >= 0) {
        compose_int(in, "axis", 1);
        e->share = OP(in, "GatherElements", weight, e->route);
    }
    if (attr_int(in->ctx, in->node, "normalize_routing_weights", 0))
        e->share = OP(in, "Div", e->share, OP(in, "ReduceSum", e->share, last_axis(in)));
}

/* x [token, 1 or k, in] through each token's experts: [token, k, out]. */
static int layer(Infer *in, const Experts *e, const Layer *l, int x) {
    int w = OP(in, "Gather", l->weight, e->route);
    int y = OP(in, "MatMul", w, OP(in, "Unsqueeze", x, last_axis(in)));
    y = OP(in, "Squeeze", y, last_axis(in));
    return l->bias < 0 ? y : OP(in, "Add", y, OP(in, "Gather", l->bias, e->route));
}

/* Gate and value from one layer: interleaved, or one after the other. */
static void parted(Infer *in, int h, bool woven, int *gate, int *value) {
    if (woven) h = compose_reshape(in, h, (int64_t[]){0, 0, -1, 2}, 4);
    int y = compose_split(in, h, -1, 2);
    *gate = woven ? OP(in, "Squeeze", y, last_axis(in)) : y;
    *value = woven ? OP(in, "Squeeze", y + 1, last_axis(in)) : y + 1;
}

static int swiglu(Infer *in, const Experts *e, int h, int x) {
    int64_t fusion = attr_int(in->ctx, in->node, "swiglu_fusion", 0);
    float limit = attr_float(in->ctx, in->node, "swiglu_limit", INFINITY);
    int gate = h, value = -1;
    if (fusion)
        parted(in, h, fusion == 1, &gate, &value);
    else if (e->fc3.weight >= 0)
        value = layer(in, e, &e->fc3, x);
    else
        fail(in->ctx, E_MODEL, "operand fc3_experts_weights is missing: swiglu needs it");
    if (isfinite(limit)) {
        int most = compose_number(in, h, limit);
        gate = OP(in, "Min", gate, most);
        value = OP(in, "Clip", value, compose_number(in, h, -limit), most);
    }
    float beta = attr_float(in->ctx, in->node, "activation_beta", 0);
    if (beta != 0) value = OP(in, "Add", value, compose_number(in, h, beta));
    gate = compose_silu(in, gate, attr_float(in->ctx, in->node, "activation_alpha", 1));
    return OP(in, "Mul", gate, value);
}

static int activated(Infer *in, const Experts *e, int h, int x) {
    const char *name = attr_string(in->ctx, in->node, "activation_type", "relu");
    if (!strcmp(name, "swiglu")) return swiglu(in, e, h, x);
    if (!strcmp(name, "gelu")) compose_string(in, "approximate", "tanh");
    int y = !strcmp(name, "relu")   ? OP(in, "Relu", h)
            : !strcmp(name, "gelu") ? OP(in, "Gelu", h)
            : !strcmp(name, "silu") ? compose_silu(in, h, 1)
                                    : h;
    if (y == h && strcmp(name, "identity"))
        fail(in->ctx, E_ATTRIBUTE,
             "attribute \"activation_type\" is \"%s\": use relu, gelu, silu, swiglu or identity",
             name);
    return e->fc3.weight < 0 ? y : OP(in, "Mul", y, layer(in, e, &e->fc3, x));
}

static void mix(Infer *in, const Experts *e) {
    int64_t width;
    const Type *t = nn_ranked(in, 0, 2, 3);
    if (!dim_is_const(t->shape[t->rank - 1], &width))
        fail(in->ctx, E_UNSUPPORTED, "the hidden size is symbolic: make it a number");
    int x = compose_reshape(in, IN(0), (int64_t[]){-1, 1, width}, 3);
    int h = activated(in, e, layer(in, e, &e->fc1, x), x);
    int y = layer(in, e, &e->fc2, h);
    int scaled = OP(in, "Mul", y, OP(in, "Unsqueeze", e->share, last_axis(in)));
    int over = compose_shape(in, (int64_t[]){1}, 1);
    compose_int(in, "keepdims", 0);
    y = OP(in, "ReduceSum", scaled, over);
    compose_result(in, 0, OP(in, "Reshape", y, OP(in, "Shape", IN(0))));
}

static void moe_infer(Infer *in) {
    infer_tensor(in, 1), infer_tensor(in, 2), infer_tensor(in, 4);
    Experts e = {{IN(2), IN(3)}, {IN(4), IN(5)}, {IN(6), IN(7)}, 0, 0};
    choose(in, IN(1), -1, &e);
    mix(in, &e);
}

/* ---- with weights of few bits ---------------------------------------------------------------- */

static int64_t bits_of(const Infer *in, const char *name) {
    return attr_int(in->ctx, in->node, name, attr_int(in->ctx, in->node, "expert_weight_bits", 4));
}

/* Codes, scales [expert, out] or [expert, out, blocks], zero points: [expert, out, in]. */
static int dequantized(Infer *in, int codes, int scales, int zeros, int64_t bits) {
    DType t = bits == 2 ? U2 : bits == 4 ? U4 : bits == 8 ? U8 : DT_NONE;
    int64_t shape[3], blocks = 1;
    double middle = (double)(1 << (bits - 1));
    if (IN(codes) < 0) return -1;
    if (t == DT_NONE)
        fail(in->ctx, E_UNSUPPORTED, "weights have %lld bits: use 2, 4 or 8", (long long)bits);
    int q = compose_bits(in, codes, t), scale = IN(scales), zero = -1;
    const Type *type = compose_type(in, q);
    for (int i = 0; i < 3; i++) dim_is_const(type->shape[i], &shape[i]);
    bool grouped = nn_ranked(in, scales, 2, 3)->rank == 3;
    if (grouped) dim_is_const(compose_type(in, scale)->shape[2], &blocks);
    DType real = compose_type(in, scale)->dtype;
    q = compose_reshape(in, compose_cast(in, q, real),
                        (int64_t[]){shape[0], shape[1], blocks, shape[2] / blocks}, 4);
    int64_t each[] = {shape[0], shape[1], blocks, 1};
    zero = IN(zeros) < 0
               ? compose_constant(in, real, &middle, -1)
               : compose_reshape(in, compose_cast(in, compose_bits(in, zeros, t), real), each, 4);
    int w = OP(in, "Mul", OP(in, "Sub", q, zero), compose_reshape(in, scale, each, 4));
    return compose_reshape(in, w, shape, 3);
}

static void qmoe_infer(Infer *in) {
    infer_tensor(in, 1), infer_tensor(in, 2), infer_tensor(in, 5);
    Experts e = {{dequantized(in, 2, 3, 11, bits_of(in, "fc1_expert_weight_bits")), IN(4)},
                 {dequantized(in, 5, 6, 12, bits_of(in, "fc2_expert_weight_bits")), IN(7)},
                 {dequantized(in, 8, 9, 13, bits_of(in, "fc3_expert_weight_bits")), IN(10)},
                 0,
                 0};
    choose(in, IN(1), IN(14), &e);
    mix(in, &e);
}

/* ---- MoEGroupRouter -------------------------------------------------------------------------- */

/* Where the k largest of each row [token, n] stand: bool, of x's shape. */
static int largest(Infer *in, int x, int64_t k) {
    int best = compose_op(in, "TopK", (int[]){x, compose_vector(in, k)}, 2, 2);
    return compose_flags(in, OP(in, "Shape", x), best + 1);
}

/* Scores [token, expert] outside the `active` groups, by the sum of each one's best, become -inf.
 */
static int of_groups(Infer *in, int score, int64_t groups, int64_t each, int64_t active) {
    int64_t best = attr_int(in->ctx, in->node, "group_topk", 2);
    if (best < 1) fail(in->ctx, E_ATTRIBUTE, "attribute \"group_topk\" must be at least 1");
    int x = compose_reshape(in, score, (int64_t[]){-1, groups, each}, 3);
    int count = compose_vector(in, best < each ? best : each);
    int top = compose_op(in, "TopK", (int[]){x, count}, 2, 2), last = compose_vector(in, 2);
    compose_int(in, "keepdims", 0);
    int seen = OP(in, "Unsqueeze", largest(in, OP(in, "ReduceSum", top, last), active), last);
    x = OP(in, "Where", seen, x, compose_number(in, x, -INFINITY));
    return compose_reshape(in, x, (int64_t[]){-1, groups * each}, 2);
}

static void group_router_infer(Infer *in) {
    infer_arity(in, 2, 3);
    nn_ranked(in, 0, 1, RANK_MAX), nn_ranked(in, 1, 1, 1);
    int64_t n = compose_size(in, IN(1), 0), groups = attr_int(in->ctx, in->node, "n_group", 1),
            active = attr_int(in->ctx, in->node, "topk_group", 1),
            k = attr_int(in->ctx, in->node, "top_k", 0);
    if (groups < 1 || n < 1 || n % groups || active < 1 || active > groups || k < 1 ||
        k > active * (n / groups))
        fail(in->ctx, E_ATTRIBUTE,
             "\"top_k\" %lld of %lld experts in \"topk_group\" %lld of \"n_group\" %lld groups: "
             "there are not so many",
             (long long)k, (long long)n, (long long)active, (long long)groups);
    const Type *given = &infer_tensor(in, 0)->type;
    if (IN(2) < 0)
        nn_agree(in, given->shape[given->rank - 1], nn_ranked(in, 1, 1, 1)->shape[0], 0, 1,
                 "there is one score for each expert");
    DType t = given->dtype;
    int x = compose_cast(in, IN(0), F32);
    if (IN(2) >= 0) {
        int w = compose_transpose(in, compose_cast(in, IN(2), F32), (int64_t[]){1, 0}, 2);
        x = OP(in, "MatMul", x, w);
    }
    int s = OP(in, "Sigmoid", compose_reshape(in, x, (int64_t[]){-1, n}, 2));
    int score = OP(in, "Add", s, IN(1));
    compose_result(in, 1, score), compose_result(in, 2, s);
    if (!infer_out(in, 0)) return;
    if (groups > 1) score = of_groups(in, score, groups, n / groups, active);
    int y = OP(in, "Log", OP(in, "Max", s, compose_number(in, s, 1e-20)));
    float other = attr_float(in->ctx, in->node, "router_sentinel", -10000);
    y = OP(in, "Where", largest(in, score, k), y, compose_number(in, y, other));
    compose_result(in, 0, compose_cast(in, y, t));
}

const OpRow onnx_contrib_moe_rows[] = {
    COMPOSED("MoE", moe_infer, T_FLOATS),
    COMPOSED("QMoE", qmoe_infer, T_FLOATS),
    COMPOSED("MoEGroupRouter", group_router_infer, T_FLOATS),
    {0},
};
