/* SPDX-License-Identifier: Apache-2.0 */
/* Fourier transforms in stages: see fft.c. */
#ifndef WEIR_FRONTENDS_ONNX_FFT_H
#define WEIR_FRONTENDS_ONNX_FFT_H

#include "nn.h"

/* A transform along one dim of the node's operand. */
typedef struct Transform {
    bool inverse, half_in,
        half_out;             /* half_in: conjugate-symmetric input, only its first bins given */
    Dim n, bins_in, bins_out; /* length of the transform; elements given and wanted */
    Dim parts_in;             /* 1: real, 2: complex; in the last dim */
    int parts_out;
    int window; /* container of factors over n, or -1 */
    DType t;    /* of the arithmetic */
} Transform;

/* Writes container y from x along `axis`; false, and nothing written, when the length or the parts
 * are not known, or the length has no small factors. */
bool fft_stages(Lower *lo, const Transform *f, int x, int y, int axis);

#endif
