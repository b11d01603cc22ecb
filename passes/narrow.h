/* SPDX-License-Identifier: Apache-2.0 */
/* Products in bf16, with fast mathematics: what `narrow` (products with weights) and
 * `narrow_computed` (both factors computed) share. */
#ifndef WEIR_PASSES_NARROW_H
#define WEIR_PASSES_NARROW_H

#include "passes/converted.h"
#include "passes/dot.h"

/* The machine's instruction for groups of products of bf16, added in f32; NULL: it has none. */
const Instruction *narrow_row(const Machine *machine);
/* Is the map, whose contraction r is, a sum of products of two plain reads, of f32 or of halves
 * that it widens, 0 outside? */
bool narrow_factors(const Map *m, const Contraction *r);

/* Are halves that the map's products read as weights widened once? Where the products take longer
 * than reading f32 from memory. */
bool narrow_widens(const Machine *machine, const Flow *flow, const Map *m, int weights);

/* Rewrites a sum of products over windows of an image of a few channels as one of bf16 over rows of
 * pixels, where that costs less (narrow_window.c): maps into `into`, of weights into `front`. The
 * map is left for dropping. */
bool narrow_window(Editing *e, const Machine *machine, const Map *m, Items *into, Items *front);
/* Stores in bf16 alone what is rounded to it, where no other reader minds (narrow_stored.c). */
void narrow_stored(Editing *e, Conversions *c);

#endif
