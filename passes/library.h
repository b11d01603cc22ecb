/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels that a vendor's library can run (library.c). */
#ifndef WEIR_PASSES_LIBRARY_H
#define WEIR_PASSES_LIBRARY_H

#include "passes/pass.h"

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
    DType factor;
    Prim round; /* of a's and b's elements; PRIM_NONE: taken as they are */
    int64_t batch, rows, columns, depth;
} LibraryProduct;

/* Is the kernel nothing but such a product, of sizes that are known? */
bool library_product(const Flow *flow, const Kernel *kernel, LibraryProduct *p);

/* The library that the kernel was given to, or NULL. */
const char *kernel_library(const Kernel *kernel);

#endif
