/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files of pass `split`. */
#ifndef WEIR_PASSES_SPLIT_H
#define WEIR_PASSES_SPLIT_H

#include "passes/compose.h"
#include "passes/recipe.h"

/* Dims of a map's results in the order of their container's indices; how many. */
int result_dims(const Map *m, int *dims);

/* split_weigh.c: cuts the keys of few rows that weigh values by them, the last of whose maps is
 * `last`, and appends the new maps; false: it is none, or stays whole. What the old ones write is
 * dropped, so uses are to be counted anew. */
bool split_weighing(Editing *e, const PassEnv *env, int last, Items *into);

#endif
