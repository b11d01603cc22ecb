/* SPDX-License-Identifier: Apache-2.0 */
/* Operands of contractions that are computed at run time, copied as an instruction wants them. */
#ifndef WEIR_PASSES_OPERAND_H
#define WEIR_PASSES_OPERAND_H

#include "passes/access.h"

/* What a contraction reads of an operand, for a container of the dims that it uses: the reduced
 * one, continued up to `terms`, behind the others, then `lane` (-1: none), up to `lanes` (NULL: as
 * many as there are). It is continued by what its indices find there, by 0 outside. */
typedef struct OperandCopy {
    const Map *of;
    Access read;
    int k, lane;
    Dim terms, lanes;
    DType type;
} OperandCopy;

/* Makes such a copy. Returns the access to it. */
Access operand_copy(Flow *flow, const OperandCopy *c, const char *suffix, Items *into);

/* Does one of its readers ask what is outside of the container, or might, by an index that is data?
 * Then it may not become larger. */
bool read_beyond(const Flow *flow, const IntVec *readers, int cont);

/* The index that is dim d of the map alone, over the whole of the container; -1: none is. Elements
 * behind its last are outside. */
int access_whole(const Flow *flow, const Map *m, const Access *a, int d);

#endif
