/* SPDX-License-Identifier: Apache-2.0 */
/* Weights that element-wise maps decode: what a contraction reads of them, by the maps behind it.
 */
#ifndef WEIR_PASSES_DECODE_H
#define WEIR_PASSES_DECODE_H

#include "passes/compose.h"

bool is_weight(const Cont *c);
double cont_bits(const Cont *c); /* of all its elements; 0 where its size is not known */
/* Bits of the weights that a container follows from by element-wise maps alone; infinite where it
 * does not. Uses are counted. */
double decode_bits(const Editing *e, int cont);
/* Puts the maps behind what m reads of such a container into m, up to the weights. */
void decode_into(Editing *e, Map *m, int cont);
/* Room to undo that: a copy whose dims and writes are its own. */
Map map_saved(Arena *arena, const Map *m);

#endif
