/* SPDX-License-Identifier: Apache-2.0 */
/* What each kernel of a flow computes and moves, as numbers: for report and profile.
 *
 * `before`: what its maps would move one by one. `planned`: what the kernel moves as scheduled,
 * through the machine's second cache level. `bound`: what it cannot avoid moving. */
#ifndef WEIR_TOOLS_MOVEMENT_H
#define WEIR_TOOLS_MOVEMENT_H

#include "ir/flow.h"
#include "ir/machine.h"
#include "tools/weir/engine.h"

typedef struct Movement {
    const char *kernel, *class; /* class: contraction, normalisation, reduction, element-wise,
                                   movement */
    int maps;
    double flop, before, planned, bound; /* bytes */
    bool over;                           /* the bound is an over-approximation */
} Movement;
typedef VEC(Movement) Movements;

/* One row for each group of maps; of its variants the last, which has no guard. Symbols that
 * --size does not name have their upper bound or least size. */
Movements movements(Arena *arena, const Flow *flow, const Machine *machine,
                    const InputOptions *sizes);

#endif
