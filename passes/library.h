/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels that a vendor's library can run (library.c): products of matrices and convolutions. */
#ifndef WEIR_PASSES_LIBRARY_H
#define WEIR_PASSES_LIBRARY_H

#include "passes/pass.h"

/* Elements that are multiplied, and the rounding of each first; PRIM_NONE: taken as they are. */
typedef struct LibraryFactor {
    DType type;
    Prim round;
} LibraryFactor;

/* A matrix in a container: element (i, j) lies `first + i + j * apart` elements from its start, or,
 * across, at `first + i * apart + j`; the next matrix of a batch `step` elements on. */
typedef struct LibraryMatrix {
    int cont;
    bool across;
    int64_t first, apart, step;
} LibraryMatrix;

/* d = a b + c + bias, `batch` times: d of rows x columns, a of rows x depth. c and d are not
 * across; a bias has an element for each row. `cont` of c and bias is -1 where there is none. */
typedef struct LibraryProduct {
    LibraryMatrix a, b, c, d, bias;
    int64_t batch, rows, columns, depth;
} LibraryProduct;

/* Images in a container: so many along each dim, and elements from one to the next; the first of
 * all `first` elements from its start. */
enum { IMAGE_N, IMAGE_C, IMAGE_H, IMAGE_W, IMAGE_DIMS };
typedef struct LibraryImages {
    int cont;
    int64_t first, size[IMAGE_DIMS], step[IMAGE_DIMS];
} LibraryImages;

/* A vector, filters as they are stored, or images like others: the first element is `first` from
 * the start. */
typedef struct LibraryRow {
    int cont;
    int64_t first;
} LibraryRow;

/* Along IMAGE_H (0) and IMAGE_W (1): output y reads input stride y + dilation t - padding at tap t;
 * padding is as wide at the end, as far as windows reach. */
typedef struct LibraryWindow {
    int64_t taps, stride, dilation, padding;
} LibraryWindow;

/* y = x filtered by w + bias + residual, in `groups` of channels; with a `relu` the larger of that
 * and 0. Filters lie [o][c][h][w], or, channels_last, [o][h][w][c], c being those of a group. A
 * bias has an element for each of y's channels, a residual lies as y does; `cont` is -1 where there
 * is none. */
typedef struct LibraryConvolution {
    LibraryImages x, y;
    LibraryRow w, bias, residual;
    bool channels_last, relu;
    int64_t groups;
    LibraryWindow window[2];
} LibraryConvolution;

/* What a library makes of a kernel. As a product of matrices it has these sizes, `batch` times. */
typedef struct LibraryWork {
    LibraryKind kind;
    LibraryFactor factor;
    int64_t batch, rows, columns, depth;
    union {
        LibraryProduct product;
        LibraryConvolution convolution;
    };
} LibraryWork;

/* Is the kernel nothing but such work, of sizes that are known? */
bool library_work(const Flow *flow, const Kernel *kernel, LibraryWork *work);

/* Bytes on a multiple of which an element is sure to lie, 16 at most: less inside of a container,
 * or of one in another's memory. */
int library_align(const Flow *flow, int cont, int64_t element);

/* The library that the kernel was given to, or NULL. */
const char *kernel_library(const Kernel *kernel);

#endif
