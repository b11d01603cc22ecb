/* SPDX-License-Identifier: Apache-2.0 */
/* Margins of zeros, told by the maps that write them (layout_halo.c). */
#ifndef WEIR_PASSES_MARGIN_H
#define WEIR_PASSES_MARGIN_H

#include "passes/access.h"

/* Does the map but add products up, two factors each? */
bool adds_products(const Flow *flow, const Map *m, Contraction *c);

/* An index of a read that moves with one result dim, by `step` elements for each index of it, and
 * with one reduced dim (a tap), by `apart`: step * result + apart * tap + first. */
typedef struct Sliding {
    int result, tap;
    int64_t step, apart;
    Dim first;
} Sliding;
bool index_slides(const Flow *flow, const Map *m, Dim at, Sliding *s);
/* Does no index but number k of the read use the sliding's dims? */
bool slides_alone(const Map *m, const Access *a, int k, const Sliding *s);

/* A factor of a sum of products that moves with a reduced dim through a margin of zeros: its index
 * number `at` is `apart` times that dim, `step` times a dim of the results, and a number. What lies
 * below `low` along it is 0, and what lies at `high` and beyond. */
typedef struct MarginRead {
    const Val *val;
    int at, result;
    int64_t apart, step;
    Dim low, high;
} MarginRead;
/* What m reads so along its reduced dim d; false: nothing. */
bool margin_read(const Flow *flow, const Map *m, int d, MarginRead *r);

#endif
