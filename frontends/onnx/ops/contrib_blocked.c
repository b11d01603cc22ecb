/* SPDX-License-Identifier: Apache-2.0 */
/* Operators of com.microsoft.nchwc, which saved optimized models of ONNX Runtime carry: windows
 * over images whose channels lie in blocks. How a value lies in memory is not the model's business
 * here: images are plain ones, with as many channels as fill their blocks; only the filters, which
 * come in blocks, are put back. All are compositions. */
#include "compose.h"

#include <string.h>

/* Channels of a block where there is AVX-512, and elsewhere: the file does not say which. */
enum { WIDE = 16, SMALL = 8 };

static bool in_blocks(const Infer *in, int value, int64_t block) {
    const Type *t = compose_type(in, value);
    int64_t out, from;
    return t->kind != TYPE_TENSOR || t->rank < 2 || !dim_is_const(t->shape[0], &out) ||
           !dim_is_const(t->shape[1], &from) ||
           (out % block == 0 && (from < block || from % block == 0));
}

/* The widest blocks that all filters of the graph fill. */
static int64_t block_of(const Infer *in) {
    for (int i = 0; i < in->nlist; i++) {
        const Node *node = &in->list[i];
        bool filter = !strcmp(node->row->domain, in->node->row->domain) &&
                      !strcmp(node->row->name, "Conv") && node->in.n > 1;
        if (filter && !in_blocks(in, node->in.at[1], WIDE)) return SMALL;
    }
    return WIDE;
}

/* [o/b, i/b, h, w, b of i, b of o], or [o/b, i, h, w, b of o] with fewer channels than a block. */
static int plain_filter(Infer *in, int w) {
    int64_t b = block_of(in), d[4];
    nn_ranked(in, 1, 4, 4);
    for (int k = 0; k < 4; k++) d[k] = compose_size(in, w, k);
    if (!in_blocks(in, w, b))
        fail(in->ctx, E_SHAPE, "the filter's channels do not fill blocks of %lld", (long long)b);
    if (d[1] < b) {
        int y = compose_reshape(in, w, (int64_t[]){d[0] / b, d[1], d[2], d[3], b}, 5);
        return compose_reshape(in, compose_transpose(in, y, (int64_t[]){0, 4, 1, 2, 3}, 5), d, 4);
    }
    int y = compose_reshape(in, w, (int64_t[]){d[0] / b, d[1] / b, d[2], d[3], b, b}, 6);
    return compose_reshape(in, compose_transpose(in, y, (int64_t[]){0, 5, 1, 4, 2, 3}, 6), d, 4);
}

static void conv_infer(Infer *in) {
    infer_arity(in, 2, 4);
    int w = plain_filter(in, IN(1));
    compose_window(in);
    int y = OP(in, "Conv", IN(0), w, IN(2));
    compose_result(in, 0, compose_activation(in, compose_add(in, y, IN(3))));
}

static void reorder_input_infer(Infer *in) {
    infer_arity(in, 1, 1);
    nn_ranked(in, 0, 3, 5);
    int x = IN(0);
    if (attr_int(in->ctx, in->node, "channels_last", 0)) x = compose_channels(in, x, true);
    int64_t c = compose_size(in, x, 1), b = block_of(in), more = (c + b - 1) / b * b - c;
    if (more)
        x = OP(in, "Pad", x, compose_shape(in, (int64_t[]){0, more}, 2), compose_number(in, x, 0),
               compose_vector(in, 1));
    compose_result(in, 0, x);
}

static void reorder_output_infer(Infer *in) {
    infer_arity(in, 1, 1);
    nn_ranked(in, 0, 3, 5);
    int64_t c = attr_int(in->ctx, in->node, "channels", 0);
    int x = compose_part(in, IN(0), 1, compose_vector(in, 0), compose_vector(in, c));
    if (attr_int(in->ctx, in->node, "channels_last", 0)) x = compose_channels(in, x, false);
    compose_result(in, 0, x);
}

static void same_window_infer(Infer *in) {
    infer_arity(in, 1, 1);
    compose_window(in);
    compose_result(in, 0, OP(in, in->node->row->name, IN(0)));
}

static void upsample_infer(Infer *in) {
    const int64_t *by;
    double scale[RANK_MAX];
    int n = attr_ints(in->ctx, in->node, "scales", &by);
    infer_arity(in, 1, 1);
    if (n != nn_ranked(in, 0, 3, 5)->rank)
        fail(in->ctx, E_ATTRIBUTE, "attribute \"scales\" needs an element for each dim");
    for (int k = 0; k < n; k++) scale[k] = (double)by[k];
    const char *at = "coordinate_transformation_mode";
    compose_string(in, "mode", attr_string(in->ctx, in->node, "mode", "nearest"));
    compose_string(in, at, attr_string(in->ctx, in->node, at, "asymmetric"));
    compose_string(in, "nearest_mode", "floor");
    compose_result(in, 0, OP(in, "Resize", IN(0), -1, compose_constant(in, F32, scale, n)));
}

#define BLOCKED(name, infer)                                                                       \
    { "com.microsoft.nchwc", name, 1, 0, infer, NULL, NULL, "f16 f32", OP_COMPOSED }

const OpRow onnx_contrib_blocked_rows[] = {
    BLOCKED("Conv", conv_infer),
    BLOCKED("ReorderInput", reorder_input_infer),
    BLOCKED("ReorderOutput", reorder_output_infer),
    BLOCKED("MaxPool", same_window_infer),
    BLOCKED("AveragePool", same_window_infer),
    BLOCKED("GlobalMaxPool", same_window_infer),
    BLOCKED("GlobalAveragePool", same_window_infer),
    BLOCKED("Upsample", upsample_infer),
    {0},
};
