/* SPDX-License-Identifier: Apache-2.0 */
/* What each kernel of a flow computes and moves, as numbers: for report and profile.
 *
 * `before`: what its maps would move one by one. `planned`: what the kernel moves as scheduled,
 * through the machine's second cache level. `bound`: what it cannot avoid moving. `activations`:
 * what is planned, weights left out. All iterations of a loop count; what each of them touches
 * again is once in the bound. `unfused`: what a model moves besides weights with a kernel for each
 * of its nodes. */
#ifndef WEIR_TOOLS_MOVEMENT_H
#define WEIR_TOOLS_MOVEMENT_H

#include "ir/flow.h"
#include "ir/machine.h"
#include "tools/weir/engine.h"

/* What symbols stand for: as --size names them, else their upper bound or least size. */
typedef struct Sizes {
    const Symbol *symbol;
    int n;
    const InputOptions *given; /* may be NULL */
} Sizes;
double size_value(const Sizes *sizes, Dim d);
double size_bytes(const Sizes *sizes, DType type, const Dim *shape, int rank);

/* contraction, normalisation, reduction, element-wise or movement: what maps do together. */
const char *maps_class(const Flow *flow, const int *maps, int n);

typedef struct Movement {
    const char *kernel, *class; /* maps_class */
    int maps;
    double flop, before, planned, bound, activations; /* bytes */
    double unfused;                                   /* of a whole model, else 0 */
    bool over;                                        /* the bound is an over-approximation */
    const char *serial;                               /* why one thread of many runs it, or NULL */
    const char *library;                              /* that it was given to, or NULL */
    double ms;                                        /* of a run, when it was measured; else 0 */
} Movement;
typedef VEC(Movement) Movements;

/* One row for each group of maps; of its variants the last, which has no guard. */
Movements movements(Arena *arena, const Flow *flow, const Machine *machine,
                    const InputOptions *sizes);

/* Bytes of a flow as `lower` leaves it, each node a kernel that moves each input and output once;
 * weights and what depends on them alone left out. Nodes that only show parts of what there is in
 * another order (views) move nothing. */
double unfused_bytes(Arena *arena, const Flow *flow, const InputOptions *sizes);

/* {"kernel", "class", "maps", "flop", "before_bytes", "planned_bytes", "bound_bytes",
 * "planned_activation_bytes", "bound_is_upper"}, "unfused_activation_bytes" of a model, "serial"
 * where one thread runs it, "library" where one does, and "ms" when it was measured */
void movement_json(Text *out, const Movement *row);

#endif
