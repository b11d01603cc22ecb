/* SPDX-License-Identifier: Apache-2.0 */
/* Containers of floats stored in another type: what `convert` and `narrow` share. */
#ifndef WEIR_PASSES_CONVERTED_H
#define WEIR_PASSES_CONVERTED_H

#include "passes/compose.h"

typedef struct Converted {
    int from, to; /* containers; the second may have zeros behind what the first has */
    const Items *home;
} Converted;

typedef struct Conversions {
    VEC(Converted) done;
} Conversions;

/* A map at the end of `into` that rounds or widens a container; made once for all that ask with one
 * `home`. Returns the copy. */
int converted_copy(Editing *e, Conversions *c, int cont, DType type, const Items *home,
                   Items *into);

/* Is every element of a state what some map writes, and nothing else? Then `converted_copy` need
 * not read it. */
bool converted_written(const Editing *e, int cont);

/* A state of another type that all maps write beside a state of which converted_written holds; made
 * once. */
int converted_state(Editing *e, Conversions *c, int cont, DType type);

/* The same, with zeros up to the extents of `shape`. */
int converted_filled(Editing *e, Conversions *c, int cont, DType type, const Dim *shape,
                     const Items *home, Items *into);

/* Has the copy the same elements, no zeros beside them? */
bool converted_alike(const Flow *flow, const Converted *one);

/* Copies of what one element-wise map writes, and others read as it is, become writes of that map;
 * drops what nobody needs. */
void converted_join(Editing *e, const Conversions *c);

/* In place of a read of f32: the same element of `cont`, which holds `type`, as f32. */
int converted_read(Body *b, const Val *read, int cont, DType type);

#endif
