/* SPDX-License-Identifier: Apache-2.0 */
/* What the passes start from, of the flows of a text. Both are copies, of the arena. */
#ifndef WEIR_TESTS_STARTS_H
#define WEIR_TESTS_STARTS_H

#include "ir/flow.h"

/* With values for weights that a text does not carry: passes copy them under other names. */
Flow *flow_with_weights(Arena *arena, const Flow *flow);

/* Without what schedules and places it. */
Flow *flow_bare(Arena *arena, const Flow *flow);

#endif
