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
    int64_t marks; /* bytes behind the storage (Layout.marks) */
    /* The address of an element is `base` plus one table entry per dim; dims may have been joined.
     */
    int rank, inner; /* inner: the dim along which storage is contiguous */
    int64_t extent[RANK_MAX], stride[RANK_MAX], base; /* stride: in `from` */
    int64_t *table[RANK_MAX];
    /* Storage may be cut where an index of dim `cut` is `span` elements behind the one before: what
     * stands in front is then complete. -1: it is packed as a whole. */
    int cut;
    int64_t span;
    /* Layouts whose address is no such sum: evaluated element by element. */
    Dim address;
    Dim sym[RANK_MAX];
} Pack;

/* E_UNSUPPORTED when a size is not constant. The plan refers to the container's data. */
Pack pack_plan(Arena *arena, Ctx *ctx, const Cont *cont);
int64_t pack_bytes(const Pack *pack); /* of the storage, without marks */
/* Writes pack_bytes bytes; holes hold the fill, else zeros. Then the marks. */
void pack_run(const Pack *pack, void *to);
/* The marks of so many bytes of storage; returns how many. */
int64_t pack_marks(const int8_t *storage, int64_t bytes, uint8_t *marks);
/* The next part of the storage, without marks, of at most `most` bytes where it can be cut. Parts
 * follow each other without a gap; *at, 0 for the first, becomes what the next one starts with. */
Pack pack_part(const Pack *pack, int64_t *at, int64_t most);

#endif
