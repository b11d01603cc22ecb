/* SPDX-License-Identifier: Apache-2.0 */
/* A container's data in its storage order. A plan is made where a context is at hand; running it
 * needs none, so that threads may run many at once. */
#ifndef WEIR_PACK_H
#define WEIR_PACK_H

#include "ir/flow.h"

typedef struct Pack {
    DType type;
    const void *from;       /* dense elements */
    int64_t count, storage; /* elements of the logical shape, of the storage box */
    bool dense;             /* storage is the dense order: a copy */
    bool has_fill;
    Bits fill;
    /* The address of an element is `base` plus one table entry per dim; dims may have been joined.
     */
    int rank, inner; /* inner: the dim along which storage is contiguous */
    int64_t extent[RANK_MAX], base;
    int64_t *table[RANK_MAX];
    /* Layouts whose address is no such sum: evaluated element by element. */
    Dim address;
    Dim sym[RANK_MAX];
} Pack;

/* E_UNSUPPORTED when a size is not constant. The plan refers to the container's data. */
Pack pack_plan(Arena *arena, Ctx *ctx, const Cont *cont);
int64_t pack_bytes(const Pack *pack); /* of the storage */
/* Writes pack_bytes bytes; holes hold the fill, else zeros. */
void pack_run(const Pack *pack, void *to);

#endif
