/* SPDX-License-Identifier: Apache-2.0 */
/* Operands that a product reads a few columns of at a time, a term on each page (layout_near.c). */
#ifndef WEIR_PASSES_NEAR_H
#define WEIR_PASSES_NEAR_H

#include "passes/access.h"

/* The number in m's body of the read that is worth a copy near each tile, or -1: lanes run along
 * rows of memory, terms lie a page or more apart, and several tiles read the same columns. */
int near_read(const Machine *machine, const Flow *flow, const Map *m);

#endif
