/* SPDX-License-Identifier: Apache-2.0 */
/* Analyses of a Flow: what maps move (move.c), what a kernel's lines make of it (move_scheduled.c),
 * and what a map is as a contraction (contract.c). Every cost reads these. */
#ifndef WEIR_IR_MOVE_H
#define WEIR_IR_MOVE_H

#include "flow.h"

/* Bytes as a polynomial; `bound` is set when it is an over-approximation. */
typedef struct Bytes {
    Dim bytes;
    bool over;
} Bytes;
/* Both leave out the containers that `left_out` marks (NULL: none). The footprint of every
 * container that a set of maps reads from or writes to memory, each once. */
Bytes move_compulsory(Arena *arena, const Flow *flow, const int *maps, int nmaps,
                      const bool *left_out);
/* Bytes that a kernel moves through a memory level of `cache` bytes as its lines schedule it. */
double move_scheduled(Arena *arena, const Flow *flow, const Kernel *kernel, int64_t cache,
                      const bool *left_out, DimValueFn *value, void *user);
/* Floating-point operations of a map (fma = 2). */
Dim move_flops(Arena *arena, const Flow *flow, const Map *map);

/* What a map is as a contraction out[batch,m,n] += a[batch,m,k,window] * b[batch,n,k,window]. */
typedef enum { ROLE_BATCH, ROLE_M, ROLE_N, ROLE_K, ROLE_WINDOW, ROLE_OTHER } DimRole;
typedef struct Contraction {
    bool is;     /* one sum (or other simple combine) of a product of two reads */
    int a, b;    /* Vals that read the operands; b is the one that looks like weights */
    int product; /* Val summed */
    DimRole role[RANK_MAX * 2]; /* by map dim */
} Contraction;
Contraction map_contraction(const Flow *flow, const Map *map);

#endif
