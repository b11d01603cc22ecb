/* SPDX-License-Identifier: Apache-2.0 */
/* DeformConv in two spatial dims: a map samples the input at each tap's own place, a second one is
 * the convolution of the samples. */
#include "conv.h"
#include "sample.h"

/* Offsets and the mask: channels for each tap of each offset group, at each place of the result. */
static void deform_agree(const Infer *in, int i, Dim batch, Dim channels, const Window *win) {
    const Type *t = nn_ranked(in, i, 4, 4);
    nn_agree(in, t->shape[0], batch, i, 0, "they must have one batch");
    nn_agree(in, t->shape[1], channels, i, 1,
             i == 2 ? "offsets need two channels for each tap of each offset group"
                    : "the mask needs a channel for each tap of each offset group");
    for (int k = 0; k < 2; k++)
        nn_agree(in, t->shape[2 + k], win->out[k], i, 0, "both need the result's spatial extents");
}

static void deform_infer(Infer *in) {
    const Type *x = nn_ranked(in, 0, 4, 4), *w = nn_ranked(in, 1, 4, 4);
    Ctx *ctx = in->ctx;
    int64_t group = conv_groups(in, "group", 1, 0), parts = conv_groups(in, "offset_group", 0, 1);
    Window win = nn_window(ctx, in->node, x->shape + 2, 2, w->shape + 2);
    nn_window_require(in, &win, w->shape + 2);
    infer_same(in, 0, 1);
    nn_agree(in, x->shape[1], dim_mulc(ctx, w->shape[1], group), 0, 1,
             "the input's channels (dim 1) must be those of the weights (dim 1) times the "
             "attribute \"group\"");
    Dim taps = dim_mulc(ctx, dim_mul(ctx, win.kernel[0], win.kernel[1]), parts);
    deform_agree(in, 2, x->shape[0], dim_mulc(ctx, taps, 2), &win);
    if (infer_in(in, 4)) deform_agree(in, 4, x->shape[0], taps, &win);
    conv_bias_infer(in, 1, 3, w->shape[0]);
    infer_set(in, 0, x->dtype, (Dim[]){x->shape[0], w->shape[0], win.out[0], win.out[1]}, 4);
}

/* v[n,c,r,s,h,w]: the input at the place of tap (r,s) of output (h,w), times the mask. */
static int deform_sample(Lower *lo, const Conv *c, DType t) {
    Ctx *ctx = lo->ctx;
    int offset = lower_in(lo, 2), mask = lower_in(lo, 4);
    Shape x = nn_shape(lo, c->x);
    Dim parts = dim_const(ctx, nn_int(lo, "offset_group", 1)), at[6];
    Dim r = c->win.kernel[0], s = c->win.kernel[1];
    Dim shape[] = {x.at[0], x.at[1], r, s, c->win.out[0], c->win.out[1]};
    int v = lower_tmp(lo, "samples", t, shape, 6);
    Map *m = lower_map(lo, "samples");
    nn_dims(lo, m, "ncrshw", shape, 6, at);
    Dim part = dim_div(ctx, at[1], dim_div(ctx, x.at[1], parts));
    Dim tap = dim_add(ctx, dim_mul(ctx, dim_add(ctx, dim_mul(ctx, part, r), at[2]), s), at[3]);
    Taps taps[2];
    for (int i = 0; i < 2; i++) {
        Dim from[] = {at[0], dim_addc(ctx, dim_mulc(ctx, tap, 2), i), at[4], at[5]};
        int place = nn_size(m, nn_tap(ctx, &c->win, i, at[4 + i], at[2 + i]), t);
        taps[i] = taps_linear(lo, m, EXPR(m, "$0 + $1", place, nn_read_as(lo, m, offset, from, t)),
                              x.at[2 + i]);
    }
    int val = taps_read(lo, m, c->x, at, 2, taps, 2, t);
    if (mask >= 0)
        val =
            EXPR(m, "$0 * $1", val, nn_read_as(lo, m, mask, (Dim[]){at[0], tap, at[4], at[5]}, t));
    nn_write(lo, m, v, at, val);
    return v;
}

static void deform_product(Lower *lo, const char *name, const Conv *c, int samples, int y,
                           DType t) {
    Ctx *ctx = lo->ctx;
    Map *m = lower_map(lo, name);
    Dim n = nn_dim(lo, m, "n", c->batch), g = nn_dim(lo, m, "g", dim_const(ctx, c->group));
    Dim o = dim_add(ctx, dim_mul(ctx, g, c->out), nn_dim(lo, m, "o", c->out));
    Dim h = nn_dim(lo, m, "h", c->win.out[0]), w = nn_dim(lo, m, "w", c->win.out[1]),
        k = nn_dim(lo, m, "c", c->in);
    Dim r = nn_dim(lo, m, "r", c->win.kernel[0]);
    Dim s = nn_dim(lo, m, "s", c->win.kernel[1]);
    Dim from[] = {n, dim_add(ctx, dim_mul(ctx, g, c->in), k), r, s, h, w};
    int a = nn_read(lo, m, samples, from), b = nn_read_as(lo, m, c->w, (Dim[]){o, k, r, s}, t);
    nn_reduce(lo, m, y, (Dim[]){n, o, h, w}, EXPR(m, "$0 * $1", a, b), "sum");
}

static void deform_lower(Lower *lo) {
    Conv c = conv_open(lo, lower_in(lo, 0), lower_in(lo, 1));
    int bias = lower_in(lo, 3), y = lower_out(lo, 0);
    DType t = dtype_compute(nn_cont(lo, c.x)->type);
    int acc = bias < 0 ? y : nn_tmp_like(lo, "conv", t, y);
    deform_product(lo, bias < 0 ? NULL : "conv", &c, deform_sample(lo, &c, t), acc, t);
    if (bias >= 0) conv_bias(lo, acc, bias, y);
}

const OpRow onnx_deform_rows[] = {
    {"", "DeformConv", 19, 0, deform_infer, deform_lower, NULL, T_FLOATS, 0},
    {0},
};
