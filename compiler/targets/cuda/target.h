/* SPDX-License-Identifier: Apache-2.0 */
/* The CUDA target: a program's nests become one .cu text, the program around them C text for this
 * machine's processor, as the C target prints it. */
#ifndef WEIR_TARGET_CUDA_H
#define WEIR_TARGET_CUDA_H

#include "compiler/targets/c/target.h"

/* Appends the units of the host to `out` and gives the text of the device. The code that is made of
 * it becomes a unit too (target_cuda_image). */
const char *target_cuda_emit(Arena *arena, const Program *p, const Machine *m, const EmitOptions *o,
                             Units *out);
/* The function of the runtime by which a call runs on the device; NULL: it runs on the host. */
const char *target_cuda_call(const Flow *flow, const Call *call);
Unit target_cuda_image(Arena *arena, const void *code, size_t n);

#endif
