/* SPDX-License-Identifier: Apache-2.0 */
/* Operands that a product reads a few columns of at a time, a term on each page (layout_near.c). */
#ifndef WEIR_PASSES_NEAR_H
#define WEIR_PASSES_NEAR_H

#include "passes/access.h"

/* The number in m's body of the read that is worth a copy near each tile, or -1: lanes run along
 * rows of memory, terms lie far apart, several tiles read the same columns, and the product is no
 * step of a softmax' kind, whose maps may share rows: its other operand is not computed, nothing
 * but products reduces its results. Nor is it made, element by element, of what lies across its
 * rows. By container, `readers`: the maps that read it, others below 0; `writer`: as flow_writers.
 */
int near_read(const Machine *machine, const Flow *flow, const IntVec *readers, const int *writer,
              const Map *m);

#endif
