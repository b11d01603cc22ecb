/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of scores that weigh rows of values: what several passes ask of a kernel that does. */
#ifndef WEIR_PASSES_WEIGH_H
#define WEIR_PASSES_WEIGH_H

#include "passes/access.h"

enum { WEIGH_MAPS = 12 };
/* Fewer rows than this share too little of what is fetched for products of tiles. */
enum { WEIGH_ROWS = 8 };

/* Maps in their order, which hand on rows of the same elements, one for each key:
 *
 *     scores   s[.., i, j] = sum over c of q[.., i, c] * k[.., j, c]
 *     shaping  s = f(s, ..), element by element; any number of maps, or none
 *     top      the greatest s of each row
 *     terms    e = exp(s - top); or none: then `sum` and `weights` compute it
 *     sum      of the e of each row
 *     weights  p = e / sum; or none: then p is e
 *     root     y[.., i, n] = sum over j of p[.., i, j] * v[.., j, n]
 *     finish   f(y, sum, top), element by element; or none
 *
 * A row's elements stand at the same indices of s, e and p; one of these indices is the row, one
 * the key. Of both products another index may be two dims, joined (heads that share keys). The
 * domains may end at a key that the row tells (`end`): of the maps from `top` on all, of those
 * before some. */
typedef struct Weighing {
    int n;                           /* maps; positions in their list: */
    int top, terms, sum, weights;    /* terms, weights: -1 without a map */
    int root, finish;                /* finish: -1 without a map */
    int row, key, rank;              /* indices of s, and how many there are; row -1: it is one */
    int dim[WEIGH_MAPS][RANK_MAX];   /* by position and index of s: the map's dim; -1: none ... */
    int inner[WEIGH_MAPS][RANK_MAX]; /* ... and of two that the index joins the inner; or -1 */
    int q, k, p, v;                  /* Vals: reads of the scores' map and of the root */
    int depth, column;               /* dims: reduced, of the scores; the root's last */
    int own[MAP_DIMS];               /* by dim of the root: that of `finish`; or -1 */
    Dim end; /* >= 0 where there is an element, of weighing_row and weighing_key; NULL: everywhere
              */
} Weighing;

/* Symbols of `end`. */
Dim weighing_row(Ctx *ctx);
Dim weighing_key(Ctx *ctx);

/* False when the maps are anything else. */
bool weighing_find(const Flow *flow, const int *maps, int n, Weighing *w);
/* What scores are multiplied by, where maps shape them by that alone and it makes them neither
 * larger nor vanish, so that their order stays; else 0. */
double weighing_factor(const Flow *flow, const int *maps, const Weighing *w);

/* How a block of threads does it: each warp has 16 rows of the block's, whole rows of values, and
 * goes through the keys in blocks, the operands of which are copied `ahead` blocks before. */
typedef struct WeighTile {
    int64_t rows, warp_rows, keys, depth, columns;
    int ahead;
    const WarpStep *scores, *values; /* NULL: products by multiplying and adding */
} WeighTile;
/* schedule_weigh.c: of what type weights are; false when no tile fits the machine. */
DType weighing_type(const Flow *flow, const int *maps, const Weighing *w);
bool weighing_tile(const Flow *flow, const Machine *machine, const int *maps, const Weighing *w,
                   WeighTile *tile);

/* The maps that such a root (or `finish`) would stand behind, and itself, in their order; how many,
 * 0: none. writer: by container, its only writing map, or -1. */
int weighing_maps(const Flow *flow, const int *writer, int last, int *maps);
/* The maps up to the terms that such a product weighs values by, in their order; how many, 0: it
 * does not. */
int weighing_terms(const Flow *flow, const int *writer, int product, int *maps);
/* Does a product weigh values by terms, or weights? */
bool weighing_product(const Flow *flow, const int *writer, int map);

#endif
