/* SPDX-License-Identifier: Apache-2.0 */
/* ImageDecoder: the height and width of a picture are read first, then its pixels. */
#include "nn.h"

#include <string.h>

static int format_of(Ctx *ctx, const Node *node) {
    static const char *const formats[] = {"RGB", "BGR", "Grayscale"};
    const char *word = attr_string(ctx, node, "pixel_format", "RGB");
    for (int i = 0; i < 3; i++)
        if (!strcmp(word, formats[i])) return i;
    fail(ctx, E_ATTRIBUTE, "attribute \"pixel_format\" is \"%s\": RGB, BGR and Grayscale are",
         word);
}

static void decoder_infer(Infer *in) {
    Dim most = dim_const(in->ctx, INT32_MAX);
    int grey = format_of(in->ctx, in->node) == 2;
    nn_ranked(in, 0, 1, 1);
    Dim shape[] = {infer_fresh(in, "height", most), infer_fresh(in, "width", most),
                   dim_const(in->ctx, grey ? 1 : 3)};
    infer_set(in, 0, U8, shape, 3);
}

static void decoder_lower(Lower *lo) {
    int x = lower_in(lo, 0), to = lower_out(lo, 0);
    int64_t format = format_of(lo->ctx, lo->node);
    Dim two = dim_const(lo->ctx, 2);
    if (to < 0) return;
    int size = lower_tmp(lo, "size", I64, &two, 1);
    Shape s = nn_shape(lo, to);
    lower_call(lo, "image_size", &x, 1, &size, 1, NULL, 0, NULL, 0);
    for (int i = 0; i < 2; i++) nn_define(lo, s.at[i], size, i, dim_const(lo->ctx, INT32_MAX));
    lower_call(lo, "image_decode", &x, 1, &to, 1, &format, 1, NULL, 0);
}

const OpRow onnx_image_rows[] = {
    {"", "ImageDecoder", 20, 0, decoder_infer, decoder_lower, NULL, "u8", 0},
    {0},
};
