/* SPDX-License-Identifier: Apache-2.0 */
/* Products in parts: what one map sums, another weighs and adds up along some of the product's
 * dims, which both operands have. Sums of codes are such, where blocks of the terms have scales of
 * their own. */
#ifndef WEIR_PASSES_PARTS_H
#define WEIR_PASSES_PARTS_H

#include "passes/access.h"

/* The map that alone reads the sums of integers which map `product` makes, each once, and adds them
 * up, and in part[] which of the product's dims count what is added; or -1. readers: by container,
 * once a read. */
int parts_adder(const Flow *flow, const IntVec *readers, int product, bool *part);

#endif
