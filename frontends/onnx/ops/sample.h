/* SPDX-License-Identifier: Apache-2.0 */
/* Reading a tensor between its elements: weighted taps along each spatial dim. */
#ifndef WEIR_FRONTENDS_ONNX_SAMPLE_H
#define WEIR_FRONTENDS_ONNX_SAMPLE_H

#include "nn.h"

enum { TAPS_MAX = 4 };
/* Along one dim: indices (symbols of values) and their weights (Vals). */
typedef struct Taps {
    int n;
    Dim index[TAPS_MAX];
    int weight[TAPS_MAX];
} Taps;

/* The two neighbours of coordinate x (a float value), which lie anywhere in -2 .. extent + 1: the
 * reader must take care of those outside. */
Taps taps_linear(Lower *lo, Map *m, int x, Dim extent);
/* Sum over all taps of weight * cont[prefix.., index..], 0 outside; in type t. */
int taps_read(Lower *lo, Map *m, int cont, const Dim *prefix, int nprefix, const Taps *taps, int n,
              DType t);

#endif
