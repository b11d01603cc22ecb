/* SPDX-License-Identifier: Apache-2.0 */
/* What the graph passes share. */
#ifndef WEIR_PASSES_GRAPH_PASSES_H
#define WEIR_PASSES_GRAPH_PASSES_H

#include "pass.h"

/* Turns the node's results into parameters by evaluating its lowering, when all its operands are
 * constant and its results have at most `most` bytes (fold.c). */
void fold_node(Infer *in, int64_t most);

#endif
