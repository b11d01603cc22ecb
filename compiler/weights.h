/* SPDX-License-Identifier: Apache-2.0 */
/* The weights of a program as one run of bytes: every parameter that is used, in its storage layout,
 * each aligned to 64. They never pass through a C compiler or a linker: they are written behind the linked
 * library as a segment of their own, into a side file, or into memory. */
#ifndef WEIR_WEIGHTS_H
#define WEIR_WEIGHTS_H

#include "ir/nest.h"

typedef struct Weights {
    int n;           /* containers of the flow */
    int64_t *offset; /* by container; -1: not a weight */
    int64_t bytes;
} Weights;

Weights weights_plan(Arena *arena, const Flow *flow);
/* Puts one container's elements, laid out, to `to` (storage bytes, zeroed or not). */
void weights_pack(Ctx *ctx, const Flow *flow, int cont, void *to);
int64_t weights_bytes(const Flow *flow, int cont);

/* All weights to memory of w->bytes. */
void weights_to_memory(const Flow *flow, const Weights *w, void *to);
/* Appends them to the linked library at `path` and patches its blob. */
void weights_append(Ctx *ctx, const Flow *flow, const Weights *w, const char *path);
/* A side file: the weights, then `check` and the byte count. */
void weights_to_file(Ctx *ctx, const Flow *flow, const Weights *w, uint64_t check, const char *path);

#endif
