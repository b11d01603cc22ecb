/* SPDX-License-Identifier: Apache-2.0 */
/* What the convolution families share. */
#ifndef WEIR_FRONTENDS_ONNX_CONV_H
#define WEIR_FRONTENDS_ONNX_CONV_H

#include "nn.h"

typedef struct Conv {
    int x, w;           /* containers */
    Dim batch, in, out; /* channels of one group */
    int64_t group;
    Window win;
} Conv;

Conv conv_open(Lower *lo, int x, int w);
/* Names of output and window dims by spatial rank. */
extern const char *const conv_out_name[3][3];
extern const char *const conv_tap_name[3][3];
const char *conv_name(const char *const names[3][3], int n, int i);
void conv_bias(Lower *lo, int acc, int bias, int y); /* y = acc + bias[channel] */
/* Attribute "group"; `channels`, dim `dim` of operand i, must be a multiple of it. */
int64_t conv_groups(const Infer *in, const char *name, int i, int dim);
/* Bias operand: one element for each of `channels`, or absent. */
void conv_bias_infer(const Infer *in, int x, int bias, Dim channels);

/* One spatial dim of a transposed convolution, written by gathering. Output p receives input i by
 * tap r when p + pad = stride*i + dilation*r. With g = gcd(stride, dilation) and s' = stride/g let
 * r = r0 + s'*t, r0 < s': then p = stride*q + dilation*r0 - pad and i = q - (dilation/g)*t, so q
 * and r0 choose p, t is summed, and every index is affine. Residues that no tap reaches (g > 1) are
 * an extra dim e < g whose sum is 0. */
typedef struct Phase {
    Dim p, i, r, e; /* e: NULL when g is 1 */
    Dim taps;       /* extent of t; the caller makes the dim and calls phase_tap */
    int64_t step, dilation_step;
    Dim r0, q;
} Phase;
/* Makes the dims that choose p, and the constraints 0 <= p < extent. */
Phase phase_open(Lower *lo, Map *m, const char *name, Dim kernel, int64_t stride, int64_t dilation,
                 Dim pad, Dim extent);
/* Sets i and r for tap number t. */
void phase_tap(Ctx *ctx, Phase *phase, Dim t);

#endif
