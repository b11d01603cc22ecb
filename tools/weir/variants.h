/* SPDX-License-Identifier: Apache-2.0 */
/* Other lines for a kernel, near those that the passes chose. */
#ifndef WEIR_TOOLS_VARIANTS_H
#define WEIR_TOOLS_VARIANTS_H

#include "ir/flow.h"

typedef VEC(const Kernel *) Kernels;

/* Legal variants of a kernel's lines: other numbers of rows and vectors in a register tile, other
 * orders of its loops, reductions unrolled or not, larger and smaller tiles, no prefetch, no
 * threads. What they are depends on the kernel's form alone, so that equal kernels have equal ones.
 */
Kernels kernel_variants(Arena *arena, const Flow *flow, const Kernel *kernel, int lanes);
/* Equal for kernels of the same maps (but for names) that run by the same lines. */
const char *kernel_form(Arena *arena, const Flow *flow, const Kernel *kernel);

#endif
