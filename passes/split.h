/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files of pass `split`. */
#ifndef WEIR_PASSES_SPLIT_H
#define WEIR_PASSES_SPLIT_H

#include "passes/compose.h"
#include "passes/recipe.h"
#include "passes/schedule.h"

/* Dims of a map's results in the order of their container's indices; how many. */
int result_dims(const Map *m, int *dims);

/* Is it a reduction by one operation to one place, over all of its dims, in any order? */
bool plain_reduction(const Map *m);

/* Indices of dim `dim` of a reduction in n parts, each to a place of its own: the last index of
 * what they leave, or the first. */
typedef struct Parting {
    int dim, n;
    bool last;
    const char *name; /* of the index */
} Parting;

/* The map reduces parts, and one behind, appended to `into`, puts them together. */
void split_map(Editing *e, Map *m, const Parting *p, Items *into);

/* split_channels.c: a reduction over channels of groups goes channel by channel, and a map behind
 * it, appended to `into`, puts these together; false: it stays whole. */
bool split_channels(Editing *e, const PassEnv *env, Map *m, Items *into);

/* split_weigh.c: cuts the keys of few rows that weigh values by them, the last of whose maps is
 * `last`, and appends the new maps; false: it is none, or stays whole. What the old ones write is
 * dropped, so uses are to be counted anew. */
bool split_weighing(Editing *e, const PassEnv *env, int last, Items *into);

/* What parts must take of a product's time at most. */
#define SPLIT_GAIN 0.8
/* The product as it is; false when it is none of known size by an instruction. */
bool split_product(const Flow *flow, const Machine *machine, const Map *m, Product *p);
/* In how many parts the product m takes least, where that is less than `least`; else 1. Sets the
 * seconds, or `least`. */
int split_parts(const Map *m, const Product *p, double least, double *seconds);

/* split_waves.c: cuts the product's results in two, with what follows them, where tiles of all
 * would leave most cores idle in the end; uses are to be counted anew. The number of the rest's
 * map; -1: it stays whole. */
int split_waves(Editing *e, const PassEnv *env, int map);

/* split_runs.c: cuts a running sum of many steps in stretches that run side by side, and appends
 * the maps that put them together. */
void split_run(Editing *e, const PassEnv *env, Map *m, Items *into);

#endif
