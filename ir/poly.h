/* SPDX-License-Identifier: Apache-2.0 */
/* The bridge to isl: legality of accesses over symbolic domains. isl is touched in poly.c only.
 *
 * A question first goes through our own interval algebra, which answers most in nanoseconds, then
 * to isl, with a limit on its work. Products of symbols become fresh parameters with known bounds,
 * an index that is not affine becomes "anywhere in the container": a POLY_YES is always proven for
 * all values of the symbols, a POLY_NO has a counterexample, and what lies between is POLY_UNKNOWN.
 */
#ifndef WEIR_IR_POLY_H
#define WEIR_IR_POLY_H

#include "dim.h"

/* All points with 0 <= sym[i] < extent[i] and every cons[j] >= 0. */
typedef struct PolyDomain {
    int ndims;
    const Dim *sym, *extent;
    int ncons;
    const Dim *cons;
} PolyDomain;

/* One element of a container per point. With `shape`, an index that is not affine is taken to be
 * anywhere in 0..shape-1; with `clip`, points whose index leaves the shape access nothing. */
typedef struct PolyAccess {
    int rank;
    const Dim *index;
    const Dim *shape; /* NULL: unknown */
    bool clip;
} PolyAccess;

typedef struct PolyRel {
    PolyDomain domain;
    PolyAccess access;
} PolyRel;

typedef enum { POLY_UNKNOWN, POLY_NO, POLY_YES } PolyAnswer;

/* `params`: ranges of the symbols that are not dims of a domain; those absent are unbounded. */

/* Do a and b access no common element? */
PolyAnswer poly_disjoint(Ctx *ctx, const DimEnv *params, const PolyRel *a, const PolyRel *b);
/* Is every element that `read` accesses accessed by one of the writes? */
PolyAnswer poly_covered(Ctx *ctx, const DimEnv *params, const PolyRel *read,
                        const PolyRel *const *writes, int nwrites);
/* Do points that differ in one of the dims with over[i] never access the same element? NULL: all.
 */
PolyAnswer poly_injective(Ctx *ctx, const DimEnv *params, const PolyRel *rel, const bool *over);
/* Is every index inside 0..shape-1? Needs the shape; ignores `clip`. */
PolyAnswer poly_inside(Ctx *ctx, const DimEnv *params, const PolyRel *rel);

#endif
