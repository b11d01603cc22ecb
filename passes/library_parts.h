/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files of the pass `library`. */
#ifndef WEIR_PASSES_LIBRARY_PARTS_H
#define WEIR_PASSES_LIBRARY_PARTS_H

#include "passes/access.h"
#include "passes/library.h"

/* What a kernel multiplies, adds to the sums, and writes. */
enum { OF_A, OF_B, OF_C, OF_BIAS, OF_D, OPERANDS };

/* The kernel's contraction and its root, which may be the same; what they read and write. Results
 * are the sums, of which each has what is added to it, and where there is a `relu` the larger of
 * that and 0: NaNs stay NaNs. */
typedef struct Parts {
    const Flow *flow;
    const Map *map, *root;
    LibraryFactor factor;
    const Val *read[2];             /* the factors: those of OF_A and OF_B */
    int at[MAP_DIMS];               /* by the contraction's dim: the root's; -1: it is reduced */
    const Access *access[OPERANDS]; /* NULL: there is none */
    bool relu;
} Parts;

/* library_parts.c. False when the kernel is more than a sum of products, to which a bias (OF_BIAS)
 * and what has the results' dims (OF_C) may be added, and a ReLU of all that; which factor is OF_A
 * is the caller's to change, by parts_swap. */
bool parts_find(Parts *p, const Flow *flow, const Kernel *kernel);
void parts_swap(Parts *p);
/* Results are of this type, and so is all that is added; nothing is promised of elements between.
 */
bool parts_results(const Parts *p, DType type);
/* The element at which an operand begins, where each dim has its first index; false when it is not
 * constant. Indices that begin in front of a container count as 0 there. */
bool parts_first(const Parts *p, int operand, int64_t *first);
/* How far the contraction's dim d steps in an operand; INT64_MAX: not known, or backward. */
int64_t parts_step(const Parts *p, int operand, int d, int64_t extent);

/* Of kernels whose sizes are known. */
bool library_product(Parts *p, LibraryProduct *out);
bool library_convolution(Parts *p, LibraryConvolution *out);

#endif
