/* SPDX-License-Identifier: Apache-2.0 */
/* Cutting one kernel out of a flow. */
#ifndef WEIR_TOOLS_EXTRACT_H
#define WEIR_TOOLS_EXTRACT_H

#include "ir/flow.h"

/* A flow of the kernel's maps alone, without schedule and layouts: what it reads becomes inputs and
 * parameters, what others read of it outputs; loop variables are 0. */
Flow *flow_extract(Arena *arena, const Flow *flow, const Kernel *kernel);
/* The same flow with constant dims above `to` + 16 made small, `to` and the rest by 16: those that
 * every access allows. Indices keep their coefficients, so windows, strides and tails stay what
 * they are. */
void flow_shrink(Flow *flow, int64_t to);
/* The same flow with short names by position and without the model's. */
void flow_plain(Flow *flow);

#endif
