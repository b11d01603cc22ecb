/* SPDX-License-Identifier: Apache-2.0 */
/* Convolutions: Conv, ConvInteger, QLinearConv, in one to eight spatial dims.
 *
 * One map over image n, group g, output channel o, output position h w, input channel c and window
 * r s; dims of extent 1 are left out, so a depthwise convolution has no c. Padding is the value of
 * a read outside the operand. Bias and requantization are maps of their own. */
#include "nn.h"

#include "conv.h"

const char *const conv_out_name[3][3] = {{"w"}, {"h", "w"}, {"d", "h", "w"}};
const char *const conv_tap_name[3][3] = {{"s"}, {"r", "s"}, {"q", "r", "s"}};

int64_t conv_groups(const Infer *in, const char *name, int i, int dim) {
    Ctx *ctx = in->ctx;
    int64_t n = attr_int(ctx, in->node, name, 1);
    Dim channels = infer_tensor(in, i)->type.shape[dim];
    if (n < 1)
        fail(ctx, E_ATTRIBUTE, "attribute \"%s\" is %lld: it must be at least 1", name,
             (long long)n);
    nn_agree(in, channels, dim_mulc(ctx, dim_div(ctx, channels, dim_const(ctx, n)), n), i, i,
             internf(ctx, "dim %d must be a multiple of the attribute \"%s\"", dim, name));
    return n;
}

/* Operand x [N,C,..] and weights w [M,C/group,window..]; sets the result's shape. */
static int conv_shape(Infer *in, int x, int w, Dim *out) {
    const Type *tx = nn_ranked(in, x, 3, 2 + SPATIAL_MAX),
               *tw = nn_ranked(in, w, 3, 2 + SPATIAL_MAX);
    Ctx *ctx = in->ctx;
    int64_t group = conv_groups(in, "group", w, 0);
    if (tx->rank != tw->rank) nn_misfit(in, x, w, "input and weights must have one rank");
    nn_agree(in, tx->shape[1], dim_mulc(ctx, tw->shape[1], group), x, w,
             "the input's channels (dim 1) must be those of the weights (dim 1) times the "
             "attribute \"group\"");
    Window win = nn_window(ctx, in->node, tx->shape + 2, tx->rank - 2, tw->shape + 2);
    nn_window_require(in, &win, tw->shape + 2);
    out[0] = tx->shape[0], out[1] = tw->shape[0];
    for (int i = 0; i < win.n; i++) out[2 + i] = win.out[i];
    return tx->rank;
}

Conv conv_open(Lower *lo, int x, int w) {
    Conv c = {.x = x, .w = w, .group = nn_int(lo, "group", 1)};
    Shape sx = nn_shape(lo, x), sw = nn_shape(lo, w);
    c.batch = sx.at[0];
    c.in = sw.at[1];
    c.out = dim_div(lo->ctx, sw.at[0], dim_const(lo->ctx, c.group));
    c.win = nn_window(lo->ctx, lo->node, sx.at + 2, sx.rank - 2, sw.at + 2);
    return c;
}

const char *conv_name(const char *const names[3][3], int n, int i) {
    return n <= 3 ? names[n - 1][i] : names == conv_tap_name ? "r" : "h";
}

/* (x else 0) - zero point, times w - zero point, summed into y. zx, zw: containers or -1. */
static void conv_map(Lower *lo, const char *name, const Conv *c, int y, int zx, int zw, DType t) {
    Ctx *ctx = lo->ctx;
    Map *m = lower_map(lo, name);
    Dim ax[RANK_MAX], aw[RANK_MAX], ay[RANK_MAX];
    const Window *win = &c->win;
    Dim n = nn_dim(lo, m, "n", c->batch), g = nn_dim(lo, m, "g", dim_const(ctx, c->group));
    Dim o = dim_add(ctx, dim_mul(ctx, g, c->out), nn_dim(lo, m, "o", c->out));
    ax[0] = ay[0] = n, ay[1] = aw[0] = o;
    for (int i = 0; i < win->n; i++)
        ay[2 + i] = nn_dim(lo, m, conv_name(conv_out_name, win->n, i), win->out[i]);
    aw[1] = nn_dim(lo, m, "c", c->in);
    ax[1] = dim_add(ctx, dim_mul(ctx, g, c->in), aw[1]);
    for (int i = 0; i < win->n; i++) {
        aw[2 + i] = nn_dim(lo, m, conv_name(conv_tap_name, win->n, i), win->kernel[i]);
        ax[2 + i] = nn_tap(ctx, win, i, ay[2 + i], aw[2 + i]);
    }
    Dim none[] = {dim_const(ctx, 0)};
    int pad = zx < 0 ? body_const(&m->body, nn_cont(lo, c->x)->type, 0)
                     : nn_read_as(lo, m, zx, none, nn_cont(lo, c->x)->type);
    int a = body_cvt(&m->body, t,
                     win->padded ? map_read_else(lo->flow, m, c->x, ax, pad)
                                 : map_read(lo->flow, m, c->x, ax));
    int b = nn_read_as(lo, m, c->w, aw, t);
    if (zx >= 0) a = EXPR(m, "$0 - $1", a, body_cvt(&m->body, t, pad));
    if (zw >= 0) b = EXPR(m, "$0 - $1", b, nn_read_broadcast(lo, m, zw, &o, 1, t));
    nn_reduce(lo, m, y, ay, EXPR(m, "$0 * $1", a, b), "sum");
}

void conv_bias(Lower *lo, int acc, int bias, int y) {
    Dim at[RANK_MAX];
    Map *m = nn_map_over(lo, NULL, "nohw", y, at);
    int sum = nn_read(lo, m, acc, at), b = nn_read(lo, m, bias, &at[1]);
    nn_write(lo, m, y, at, EXPR(m, "$0 + $1", sum, b));
}

void conv_bias_infer(const Infer *in, int x, int bias, Dim channels) {
    if (!infer_in(in, bias)) return;
    nn_agree(in, nn_ranked(in, bias, 1, 1)->shape[0], channels, bias, x,
             "the bias needs one element for each output channel");
}

/* ---- Conv ------------------------------------------------------------------------------------ */

static void conv_infer(Infer *in) {
    Dim out[RANK_MAX];
    infer_tensor(in, 1);
    infer_same(in, 0, 1);
    infer_same(in, 0, 2);
    int rank = conv_shape(in, 0, 1, out);
    conv_bias_infer(in, 1, 2, out[1]);
    infer_set(in, 0, infer_tensor(in, 0)->type.dtype, out, rank);
}

static void conv_lower(Lower *lo) {
    Conv c = conv_open(lo, lower_in(lo, 0), lower_in(lo, 1));
    int bias = lower_in(lo, 2), y = lower_out(lo, 0);
    DType t = dtype_compute(nn_cont(lo, c.x)->type);
    int acc = bias < 0 ? y : nn_tmp_like(lo, "conv", t, y);
    conv_map(lo, bias < 0 ? NULL : "conv", &c, acc, -1, -1, t);
    if (bias >= 0) conv_bias(lo, acc, bias, y);
}

/* ---- integers -------------------------------------------------------------------------------- */

static void conv_integer_infer(Infer *in) {
    Dim out[RANK_MAX];
    int rank = conv_shape(in, 0, 1, out);
    nn_need_one(in->ctx, infer_in(in, 2), 1);
    const Type *zero = infer_in(in, 3) ? nn_ranked(in, 3, 0, 1) : NULL;
    if (zero && zero->rank == 1 && !dim_is(zero->shape[0], 1))
        nn_agree(in, zero->shape[0], out[1], 3, 1,
                 "there is one zero point, or one for each output channel");
    infer_set(in, 0, I32, out, rank);
}

static void conv_integer_lower(Lower *lo) {
    Conv c = conv_open(lo, lower_in(lo, 0), lower_in(lo, 1));
    conv_map(lo, NULL, &c, lower_out(lo, 0), lower_in(lo, 2), lower_in(lo, 3), I32);
}

/* Operands: x, its scale and zero point, w, its scale and zero point, y's scale and zero point,
 * bias. */
static void qlinear_conv_infer(Infer *in) {
    Dim out[RANK_MAX];
    int rank = conv_shape(in, 0, 3, out);
    conv_bias_infer(in, 3, 8, out[1]);
    infer_set(in, 0, infer_tensor(in, 7)->type.dtype, out, rank);
}

static void qlinear_conv_lower(Lower *lo) {
    int in[9], y = lower_out(lo, 0);
    for (int i = 0; i < 9; i++) in[i] = lower_in(lo, i);
    Conv c = conv_open(lo, in[0], in[3]);
    int acc = nn_tmp_like(lo, "conv", I32, y);
    conv_map(lo, "conv", &c, acc, in[2], in[5], I32);
    Dim at[RANK_MAX], none[] = {dim_const(lo->ctx, 0)};
    Map *m = nn_map_over(lo, NULL, "nohw", y, at);
    int sum = nn_read(lo, m, acc, at);
    if (in[8] >= 0) sum = EXPR(m, "$0 + $1", sum, nn_read(lo, m, in[8], &at[1]));
    int sx = nn_read_as(lo, m, in[1], none, F32), sy = nn_read_as(lo, m, in[6], none, F32);
    int sw = nn_read_broadcast(lo, m, in[4], &at[1], 1, F32),
        zy = nn_read_as(lo, m, in[7], none, F32);
    sum = body_cvt(&m->body, F32, sum);
    nn_write(lo, m, y, at, EXPR(m, "rint($0 * ($1 * $2 / $3)) + $4", sum, sx, sw, sy, zy));
}

const OpRow onnx_conv_rows[] = {
    {"", "Conv", 1, 0, conv_infer, conv_lower, NULL, T_FLOATS, 0},
    {"", "ConvInteger", 10, 0, conv_integer_infer, conv_integer_lower, NULL, "i8 u8", 0},
    {"", "QLinearConv", 10, 0, qlinear_conv_infer, qlinear_conv_lower, NULL, "i8 u8", 0},
    {0},
};
