/* SPDX-License-Identifier: Apache-2.0 */
/* Transposed convolution and Col2Im, written by gathering: see Phase in conv.h. */
#include "conv.h"
#include "view.h"

#include <string.h>

static int64_t gcd(int64_t a, int64_t b) {
    while (b) {
        int64_t r = a % b;
        a = b, b = r;
    }
    return a;
}

Phase phase_open(Lower *lo, Map *m, const char *name, Dim kernel, int64_t stride, int64_t dilation,
                 Dim pad, Dim extent) {
    Ctx *ctx = lo->ctx;
    int64_t g = gcd(stride, dilation), step = stride / g;
    Phase f = {.step = step, .dilation_step = dilation / g};
    f.taps = dim_ceildiv(ctx, kernel, dim_const(ctx, step));
    f.r0 = dim_const(ctx, 0);
    if (stride == 1) {
        f.p = nn_dim(lo, m, name, extent);
        f.q = dim_add(ctx, f.p, pad);
        return f;
    }
    Dim s = dim_const(ctx, stride);
    int64_t reach = (step - 1) * dilation + g - 1;
    Dim first = dim_ceildiv(ctx, dim_addc(ctx, pad, -reach), s);
    Dim last = dim_div(ctx, dim_addc(ctx, dim_add(ctx, extent, pad), -1), s);
    f.q = dim_add(ctx, nn_dim(lo, m, name, dim_addc(ctx, dim_sub(ctx, last, first), 1)), first);
    f.r0 = nn_dim(lo, m, internf(ctx, "%sp", name), dim_const(ctx, step));
    f.p = dim_add(ctx, dim_mulc(ctx, f.q, stride), dim_mulc(ctx, f.r0, dilation));
    if (g > 1)
        f.p = dim_add(ctx, f.p, f.e = nn_dim(lo, m, internf(ctx, "%se", name), dim_const(ctx, g)));
    f.p = dim_sub(ctx, f.p, pad);
    nn_between(lo, m, f.p, dim_const(ctx, 0), extent);
    return f;
}

void phase_tap(Ctx *ctx, Phase *f, Dim t) {
    f->r = dim_add(ctx, f->r0, dim_mulc(ctx, t, f->step));
    f->i = dim_sub(ctx, f->q, dim_mulc(ctx, t, f->dilation_step));
}

/* The value, or 0 on residues that no tap reaches. */
static int phase_guard(Map *m, const Phase *f, int n, int val) {
    for (int i = 0; i < n; i++) {
        if (!f[i].e) continue;
        val = EXPR(m, "select($0 == 0, $1, 0)", body_index(&m->body, f[i].e), val);
    }
    return val;
}

/* ---- ConvTranspose --------------------------------------------------------------------------- */

/* Early models give batch and channels, too. */
static bool output_extents(Ctx *ctx, const Node *node, int n, int64_t *shape) {
    const int64_t *at;
    int have = attr_ints(ctx, node, "output_shape", &at);
    if (have == n + 2)
        memcpy(shape, at + 2, sizeof *at * (size_t)n);
    else
        nn_attr_n(ctx, node, "output_shape", n, 0, shape);
    return have >= 0;
}

/* Output extents and leading pads, from output_shape, auto_pad or pads; into w->out and w->begin.
 */
static void transposed_window(Ctx *ctx, const Node *node, Window *w) {
    int64_t shape[SPATIAL_MAX], more[SPATIAL_MAX];
    bool given = output_extents(ctx, node, w->n, shape);
    const char *mode = attr_string(ctx, node, "auto_pad", "NOTSET");
    bool same = !strncmp(mode, "SAME", 4), upper = !strcmp(mode, "SAME_UPPER");
    nn_attr_n(ctx, node, "output_padding", w->n, 0, more);
    for (int i = 0; i < w->n; i++) {
        Dim first = dim_mulc(ctx, dim_addc(ctx, w->in[i], -1), w->stride[i]);
        Dim full = dim_add(ctx, first, dim_addc(ctx, nn_span(ctx, w, i), more[i]));
        if (!given && !same) {
            w->out[i] = dim_sub(ctx, dim_sub(ctx, full, w->begin[i]), w->end[i]);
            continue;
        }
        w->out[i] = given ? dim_const(ctx, shape[i])
                          : dim_min(ctx, full, dim_mulc(ctx, w->in[i], w->stride[i]));
        Dim total = dim_max(ctx, dim_sub(ctx, full, w->out[i]), dim_const(ctx, 0));
        Dim half = dim_div(ctx, total, dim_const(ctx, 2));
        w->begin[i] = upper ? half : dim_sub(ctx, total, half);
        w->end[i] = dim_sub(ctx, total, w->begin[i]);
    }
}

static Window transpose_open(Ctx *ctx, const Node *node, const Dim *x, const Dim *w, int rank) {
    Dim wide[SPATIAL_MAX];
    for (int i = 0; i < rank - 2 && i < SPATIAL_MAX; i++) wide[i] = dim_const(ctx, INT32_MAX);
    Window win = nn_window(ctx, node, wide, rank - 2, w + 2);
    for (int i = 0; i < win.n; i++) win.in[i] = x[2 + i];
    transposed_window(ctx, node, &win);
    return win;
}

static void conv_transpose_infer(Infer *in) {
    const Type *x = nn_ranked(in, 0, 3, 2 + SPATIAL_MAX), *w = nn_ranked(in, 1, 3, 2 + SPATIAL_MAX);
    int64_t group = conv_groups(in, "group", 1, 0);
    Dim out[RANK_MAX];
    infer_same(in, 0, 1);
    if (x->rank != w->rank) nn_misfit(in, 0, 1, "input and weights must have one rank");
    nn_agree(in, x->shape[1], w->shape[0], 0, 1,
             "the input's channels (dim 1) must be those of the weights (dim 0)");
    Window win = transpose_open(in->ctx, in->node, x->shape, w->shape, x->rank);
    nn_window_require(in, &win, w->shape + 2);
    out[0] = x->shape[0], out[1] = dim_mulc(in->ctx, w->shape[1], group);
    for (int i = 0; i < win.n; i++) out[2 + i] = win.out[i];
    conv_bias_infer(in, 1, 2, out[1]);
    infer_set(in, 0, x->dtype, out, x->rank);
}

/* Residues r0 .. r0 + n - 1 of one spatial dim (Phase) that have the same taps and the same range
 * of q: together a box without constraints. */
typedef struct Run {
    int64_t r0, n;
    Dim first, count; /* of q */
    Dim taps;
} Run;

enum { RUNS = 8 };

static bool run_grows(const Run *run, const Run *by) {
    return run->first == by->first && run->count == by->count && run->taps == by->taps;
}

/* The runs of spatial dim i; 0: too many, or residues that no tap reaches or may not reach. */
static int find_runs(Ctx *ctx, const Window *w, int i, Run *run) {
    int64_t stride = w->stride[i], dilation = w->dilation[i], kernel;
    int n = 0;
    if (gcd(stride, dilation) > 1 || !dim_is_const(w->kernel[i], &kernel) || kernel < stride)
        return 0;
    Dim s = dim_const(ctx, stride);
    for (int64_t r0 = 0; r0 < stride; r0++) {
        Dim from = dim_addc(ctx, w->begin[i], -dilation * r0);
        Run one = {r0, 1, dim_ceildiv(ctx, from, s), NULL, NULL};
        Dim last = dim_div(ctx, dim_addc(ctx, dim_add(ctx, w->out[i], from), -1), s);
        one.count = dim_addc(ctx, dim_sub(ctx, last, one.first), 1);
        one.taps = dim_const(ctx, (kernel - r0 + stride - 1) / stride);
        if (n && run_grows(&run[n - 1], &one))
            run[n - 1].n++;
        else if (n < RUNS)
            run[n++] = one;
        else
            return 0;
    }
    return n;
}

static Phase run_open(Lower *lo, Map *m, const char *name, const Run *run, const Window *w, int i) {
    Ctx *ctx = lo->ctx;
    Phase f = {.step = w->stride[i], .dilation_step = w->dilation[i], .taps = run->taps};
    f.q = dim_add(ctx, nn_dim(lo, m, name, run->count), run->first);
    f.r0 = nn_dim(lo, m, internf(ctx, "%sp", name), dim_const(ctx, run->n));
    f.r0 = dim_addc(ctx, f.r0, run->r0);
    f.p = dim_add(ctx, dim_mulc(ctx, f.q, f.step), dim_mulc(ctx, f.r0, f.dilation_step));
    f.p = dim_sub(ctx, f.p, w->begin[i]);
    return f;
}

typedef struct Transposed {
    int x, w, y; /* containers */
    DType type;
    Window win;
} Transposed;

/* All results, or those of one run of each spatial dim. */
static void transposed_map(Lower *lo, const Transposed *c, const char *name, Run *const *run) {
    Ctx *ctx = lo->ctx;
    Shape sx = nn_shape(lo, c->x), sw = nn_shape(lo, c->w);
    const Window *win = &c->win;
    int64_t group = nn_int(lo, "group", 1);
    Dim ax[RANK_MAX], aw[RANK_MAX], ay[RANK_MAX],
        part = dim_div(ctx, sx.at[1], dim_const(ctx, group));
    Phase f[SPATIAL_MAX];
    Map *m = lower_map(lo, name);
    ax[0] = ay[0] = nn_dim(lo, m, "n", sx.at[0]);
    Dim g = nn_dim(lo, m, "g", dim_const(ctx, group));
    aw[1] = nn_dim(lo, m, "o", sw.at[1]);
    ay[1] = dim_add(ctx, dim_mul(ctx, g, sw.at[1]), aw[1]);
    for (int i = 0; i < win->n; i++) {
        const char *dim = conv_name(conv_out_name, win->n, i);
        f[i] = run ? run_open(lo, m, dim, run[i], win, i)
                   : phase_open(lo, m, dim, win->kernel[i], win->stride[i], win->dilation[i],
                                win->begin[i], win->out[i]);
        ay[2 + i] = f[i].p;
    }
    ax[1] = aw[0] = dim_add(ctx, dim_mul(ctx, g, part), nn_dim(lo, m, "c", part));
    for (int i = 0; i < win->n; i++) {
        phase_tap(ctx, &f[i], nn_dim(lo, m, conv_name(conv_tap_name, win->n, i), f[i].taps));
        ax[2 + i] = f[i].i, aw[2 + i] = f[i].r;
    }
    int a = nn_read_else(lo, m, c->x, ax, 0, c->type);
    int b = run ? nn_read_as(lo, m, c->w, aw, c->type) : nn_read_else(lo, m, c->w, aw, 0, c->type);
    nn_reduce(lo, m, c->y, ay, phase_guard(m, f, win->n, EXPR(m, "$0 * $1", a, b)), "sum");
}

/* A map for each way to choose a run of every spatial dim: their results are disjoint. */
static void conv_transpose_map(Lower *lo, const char *name, const Transposed *c) {
    Run run[SPATIAL_MAX][RUNS], *now[SPATIAL_MAX];
    int n[SPATIAL_MAX], all = 1;
    for (int i = 0; i < c->win.n; i++) {
        n[i] = find_runs(lo->ctx, &c->win, i, run[i]);
        all = all * n[i] > RUNS ? 0 : all * n[i];
    }
    if (!all) transposed_map(lo, c, name, NULL);
    for (int k = 0; k < all; k++) {
        bool none = false;
        for (int i = c->win.n - 1, rest = k; i >= 0; rest /= n[i--]) {
            int64_t count;
            now[i] = &run[i][rest % n[i]];
            none |= dim_is_const(now[i]->count, &count) && count <= 0;
        }
        if (none) continue;
        transposed_map(lo, c, all > 1 ? internf(lo->ctx, "%s%d", name ? name : "", k) : name, now);
    }
}

static void conv_transpose_lower(Lower *lo) {
    int x = lower_in(lo, 0), w = lower_in(lo, 1), bias = lower_in(lo, 2), y = lower_out(lo, 0);
    DType t = dtype_compute(nn_cont(lo, x)->type);
    int acc = bias < 0 ? y : nn_tmp_like(lo, "conv", t, y);
    Shape sx = nn_shape(lo, x), sw = nn_shape(lo, w);
    Transposed c = {x, w, acc, t, transpose_open(lo->ctx, lo->node, sx.at, sw.at, sx.rank)};
    conv_transpose_map(lo, bias < 0 ? NULL : "conv", &c);
    if (bias >= 0) conv_bias(lo, acc, bias, y);
}

/* ---- Col2Im ---------------------------------------------------------------------------------- */

typedef struct Image {
    int n;
    Dim block[SPATIAL_MAX], size[SPATIAL_MAX],
        count[SPATIAL_MAX]; /* count: blocks along the image */
    int64_t stride[SPATIAL_MAX], dilation[SPATIAL_MAX], pad[2 * SPATIAL_MAX];
    Dim elements, blocks; /* in a block; in all. NULL: only run time tells the sizes */
} Image;

static void image_attributes(Infer *in, Image *im) {
    im->n = onnx_vector_length(in, 1);
    if (im->n < 0) im->n = onnx_vector_length(in, 2);
    if (im->n < 1 || im->n > SPATIAL_MAX)
        fail(in->ctx, E_SHAPE,
             "\"image_shape\" and \"block_shape\" must have one element for each of 1 to %d "
             "spatial dims",
             SPATIAL_MAX);
    onnx_need_length(in, 1, im->n);
    onnx_need_length(in, 2, im->n);
    nn_attr_n(in->ctx, in->node, "strides", im->n, 1, im->stride);
    nn_attr_n(in->ctx, in->node, "dilations", im->n, 1, im->dilation);
    nn_attr_n(in->ctx, in->node, "pads", 2 * im->n, 0, im->pad);
    for (int i = 0; i < im->n; i++)
        if (im->stride[i] < 1 || im->dilation[i] < 1)
            fail(in->ctx, E_ATTRIBUTE, "strides and dilations must be at least 1");
}

static Image image_of(Infer *in) {
    Ctx *ctx = in->ctx;
    Image im = {0};
    const Dim *size, *block;
    int n;
    image_attributes(in, &im);
    if (!infer_known(in, 1, &size, &n) || !infer_known(in, 2, &block, &n)) return im;
    for (int i = 0; i < im.n; i++) {
        int64_t least;
        im.size[i] = size[i], im.block[i] = block[i];
        if ((dim_is_const(size[i], &least) && least < 1) ||
            (dim_is_const(block[i], &least) && least < 1))
            fail(ctx, E_ATTRIBUTE, "image and block must be at least 1");
        Dim span = dim_addc(ctx, dim_mulc(ctx, dim_addc(ctx, block[i], -1), im.dilation[i]), 1);
        Dim room = dim_sub(ctx, dim_addc(ctx, size[i], im.pad[i] + im.pad[im.n + i]), span);
        im.count[i] = dim_addc(ctx, dim_div(ctx, room, dim_const(ctx, im.stride[i])), 1);
    }
    im.elements = dim_product(ctx, im.block, im.n);
    im.blocks = dim_product(ctx, im.count, im.n);
    return im;
}

static void col2im_infer(Infer *in) {
    Ctx *ctx = in->ctx;
    const Type *x = nn_ranked(in, 0, 3, 3);
    Image im = image_of(in);
    Dim out[RANK_MAX] = {x->shape[0]}, most[RANK_MAX] = {NULL, x->shape[1]};
    if (!im.elements) {
        onnx_take_partly(in, 1, out + 2, im.n);
        onnx_set_unknown(in, 1, x->dtype, out, 2 + im.n, most);
        return;
    }
    for (int i = 0; i < im.n; i++) {
        nn_require_ge(in, im.block[i], dim_const(ctx, 1));
        nn_require_ge(in, im.count[i], dim_const(ctx, 1));
        out[2 + i] = im.size[i];
    }
    out[1] = dim_div(ctx, x->shape[1], im.elements);
    nn_agree(in, x->shape[1], dim_mul(ctx, out[1], im.elements), 0, 0,
             "its channels must be a multiple of the elements of a block");
    nn_agree(in, x->shape[2], im.blocks, 0, 0,
             "its last dim must be the number of blocks that image, block, strides and pads give");
    infer_set(in, 0, x->dtype, out, 2 + im.n);
}

/* Col2Im of sizes that only run time tells, or of elements that maps do not add: each element of a
 * block finds its place by arithmetic on values, and a call adds it there. Elements that fall into
 * the padding go behind the image; where sizes do not fit together the place is none, which the
 * call reports. */
static int col2im_size(Lower *lo, Map *m, int axis) {
    int n = nn_cont(lo, lower_out(lo, 0))->rank - 2, elements = body_const(&m->body, I64, 1);
    if (axis >= 2) {
        Dim at = dim_const(lo->ctx, axis - 2);
        return nn_read_as(lo, m, lower_in(lo, 1), &at, I64);
    }
    for (int i = 0; i < n; i++) {
        Dim at = dim_const(lo->ctx, i);
        int block = nn_read_as(lo, m, lower_in(lo, 2), &at, I64);
        elements = EXPR(m, "$0 * $1", elements, block);
    }
    return EXPR(m, "$0 / max($1, 1)", nn_size(m, nn_cont(lo, lower_in(lo, 0))->shape[1], I64),
                elements);
}

/* The place of element (e, l) of x in a flat [n,c,image], or `behind`, or beyond. */
static int image_place(Lower *lo, Map *m, const Image *im, const Dim *at, const Shape *x,
                       const Shape *y, int behind) {
    Ctx *ctx = lo->ctx;
    int e = body_index(&m->body, at[1]), l = body_index(&m->body, at[2]);
    int flat = body_const(&m->body, I64, 0), blocks = body_const(&m->body, I64, 1);
    int inside = body_const(&m->body, BOOL, 1);
    Dim step = dim_const(ctx, 1);
    for (int i = im->n - 1; i >= 0; i--) {
        Dim k = dim_const(ctx, i);
        int one = body_const(&m->body, I64, 1);
        int block = EXPR(m, "max($0, $1)", nn_read_as(lo, m, lower_in(lo, 2), &k, I64), one);
        int size = body_index(&m->body, y->at[2 + i]);
        int span = EXPR(m, internf(ctx, "($0 - 1) * %lld + 1", (long long)im->dilation[i]), block);
        int count =
            EXPR(m,
                 internf(ctx, "max(($0 + %lld - $1) / %lld + 1, 1)",
                         (long long)(im->pad[i] + im->pad[im->n + i]), (long long)im->stride[i]),
                 size, span);
        int p =
            EXPR(m,
                 internf(ctx, "$0 %% $1 * %lld + $2 %% $3 * %lld - %lld", (long long)im->stride[i],
                         (long long)im->dilation[i], (long long)im->pad[i]),
                 l, count, e, block);
        inside = EXPR(m, "$0 & ($1 >= 0) & ($1 < $2)", inside, p, size);
        flat = EXPR(m, "$0 + $1 * $2", flat, p, body_index(&m->body, step));
        blocks = EXPR(m, "$0 * $1", blocks, count);
        e = EXPR(m, "$0 / $1", e, block), l = EXPR(m, "$0 / $1", l, count);
        step = dim_mul(ctx, step, y->at[2 + i]);
    }
    int c = body_index(&m->body, y->at[1]), b = body_index(&m->body, at[0]);
    int all = body_index(&m->body, x->at[2]);
    flat = EXPR(m, "$0 + ($1 * $2 + $3) * $4", flat, b, c, e, body_index(&m->body, step));
    int place = EXPR(m, "select($0, $1, $2)", inside, flat, behind);
    return EXPR(m, "select(($0 < $1) & ($2 == $3), $4, $5 + 1)", e, c, blocks, all, place, behind);
}

static void col2im_scatter(Lower *lo, const Image *im) {
    int x = lower_in(lo, 0), y = lower_out(lo, 0);
    onnx_define_axes(lo, col2im_size);
    Shape sx = nn_shape(lo, x), sy = nn_shape(lo, y);
    DType t = lower_value(lo, 0)->type.dtype;
    Dim n = dim_product(lo->ctx, sx.at, 3), room = dim_product(lo->ctx, sy.at, sy.rank);
    Dim more = dim_addc(lo->ctx, room, 1), at[RANK_MAX];
    int in[] = {-1, lower_tmp(lo, "place", I64, &n, 1), lower_tmp(lo, "values", t, &n, 1)};
    int row = lower_tmp(lo, "row", t, &more, 1);
    for (int i = 1; i < 3; i++) {
        Map *m = nn_map_over(lo, i == 1 ? "place" : "values", "nel", x, at);
        Dim index = nn_row_index(lo->ctx, at, sx.at, 3);
        int val = i == 2 ? map_read(lo->flow, m, x, at)
                         : image_place(lo, m, im, at, &sx, &sy, body_index(&m->body, room));
        map_write(lo->flow, m, in[i], &index, val, NULL);
    }
    int sums = nn_pairs_for(lo, row, t);
    in[2] = nn_pairs(lo, in[2], t);
    lower_call(lo, "scatter_elements", in, 3, &sums, 1, (int64_t[]){0, 1}, 2, NULL, 0);
    nn_pairs_to(lo, sums, row);
    Map *m = nn_map_over(lo, NULL, "", y, at);
    Dim index = nn_row_index(lo->ctx, at, sy.at, sy.rank);
    map_write(lo->flow, m, y, at, map_read(lo->flow, m, row, &index), NULL);
}

/* Every image element sums the block elements that fell on it ("or" is the sum of truth values, one
 * behind the other that of texts); places outside a block are guarded by value, for one flat index
 * holds all blocks. */
static void col2im_lower(Lower *lo) {
    Ctx *ctx = lo->ctx;
    Infer in = onnx_reader(lo);
    Image im = image_of(&in);
    DType t = dtype_compute(lower_value(lo, 0)->type.dtype);
    if (!im.elements || dtype_class(t) == CLASS_COMPLEX || t == STRING) {
        col2im_scatter(lo, &im);
        return;
    }
    int x = lower_in(lo, 0), y = lower_out(lo, 0);
    Shape sy = nn_shape(lo, y);
    Map *m = lower_map(lo, NULL);
    Phase f[SPATIAL_MAX];
    Dim ay[RANK_MAX] = {nn_dim(lo, m, "n", sy.at[0]), nn_dim(lo, m, "c", sy.at[1])};
    for (int i = 0; i < im.n; i++) {
        f[i] = phase_open(lo, m, conv_name(conv_out_name, im.n, i), im.block[i], im.stride[i],
                          im.dilation[i], dim_const(ctx, im.pad[i]), sy.at[2 + i]);
        ay[2 + i] = f[i].p;
    }
    Dim element = ay[1], block = dim_const(ctx, 0);
    int inside = body_const(&m->body, BOOL, 1);
    for (int i = 0; i < im.n; i++) {
        phase_tap(ctx, &f[i], nn_dim(lo, m, conv_name(conv_tap_name, im.n, i), f[i].taps));
        element = dim_add(ctx, dim_mul(ctx, element, im.block[i]), f[i].r);
        block = dim_add(ctx, dim_mul(ctx, block, im.count[i]), f[i].i);
        int r = body_index(&m->body, dim_sub(ctx, im.block[i], f[i].r));
        int at = body_index(&m->body, f[i].i);
        int left = body_index(&m->body, dim_sub(ctx, im.count[i], f[i].i));
        inside = EXPR(m, "$0 & ($1 > 0) & ($2 >= 0) & ($3 > 0)", inside, r, at, left);
    }
    int val = nn_read_else(lo, m, x, (Dim[]){ay[0], element, block}, 0, t);
    val = phase_guard(m, f, im.n, EXPR(m, "select($0, $1, 0)", inside, val));
    nn_reduce(lo, m, y, ay, val, t == BOOL ? "or" : "sum");
}

const OpRow onnx_conv_transpose_rows[] = {
    {"", "ConvTranspose", 1, 0, conv_transpose_infer, conv_transpose_lower, NULL, T_FLOATS, 0},
    {"", "Col2Im", 18, 0, col2im_infer, col2im_lower, NULL, T_ALL, 0},
    {0},
};
