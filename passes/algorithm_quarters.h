/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files about products by quarters. */
#ifndef WEIR_PASSES_ALGORITHM_QUARTERS_H
#define WEIR_PASSES_ALGORITHM_QUARTERS_H

#include "passes/algorithm.h"

/* What is cut. */
enum { ROWS, TERMS, COLUMNS, CUTS };

/* Index (outer * 2 + part) * block + inner of a dim; one of outer and inner may be missing. */
typedef struct Cut {
    int dim;
    Dim extent, blocks; /* blocks of one part */
    int64_t block;
} Cut;

typedef struct Quarters {
    Making as;
    Contraction roles;
    Cut cut[CUTS];
    Dim outer[CUTS], inner[CUTS]; /* in the map that is being made; 0 where missing */
} Quarters;

/* algorithm_cut.c: is the map such a product? Where its rows are not of known size, they lie as
 * texts do, and columns are cut into blocks: all at once would pass too few rows at a time. */
bool quarters_of(const Flow *flow, const PassEnv *env, const bool *weights, const Map *m,
                 Quarters *w);
bool quarters_open(const Quarters *w); /* does the run count the rows that are cut? */
/* Do so many rows take less time so? */
bool quarters_worth(const Flow *flow, const PassEnv *env, const Map *m, const Quarters *w,
                    double rows);
/* Of rows that the run counts: from how many on do they? 0: not from as many as texts have, or
 * these rows at most, or they are a batch's. Fewer leave tiles of few rows. Of small weights, for
 * each core, few rows take tens of microseconds; what they wait for besides, some four, is too
 * much. */
enum { QUARTERS_LEAST = 64 };
int64_t quarters_least_rows(const Flow *flow, const PassEnv *env, const Map *m, const Quarters *w);

#endif
