/* SPDX-License-Identifier: Apache-2.0 */
/* Cutting one kernel out of a flow. */
#ifndef WEIR_TOOLS_EXTRACT_H
#define WEIR_TOOLS_EXTRACT_H

#include "ir/flow.h"

/* A flow of the kernel's maps alone, without schedule and layouts: what it reads becomes inputs and
 * parameters, what others read of it outputs; loop variables are 0. */
Flow *flow_extract(Arena *arena, const Flow *flow, const Kernel *kernel);
/* The same flow with large constant dims made small: those that every access allows. Indices keep
 * their coefficients, so windows, strides and tails stay what they are. */
void flow_shrink(Flow *flow);

#endif
