/* SPDX-License-Identifier: Apache-2.0 */
/* The machine behind --gpu. */
#ifndef WEIR_TARGET_CUDA_MACHINE_H
#define WEIR_TARGET_CUDA_MACHINE_H

#include "ir/base.h"
#include "ir/machine.h"

/* "sm_80", "sm_90a" or "sm_100": m->name. E_OPTION for others. One text is made for `all` of n
 * GPUs, gpu among them: it is planned for gpu, and asks for no room that one of them does not have.
 */
void target_cuda_machine(Ctx *ctx, Machine *m, const char *gpu, const char *const *all, int n);
/* What a library makes, "cublaslt" or "cudnn"; false for others. */
bool target_cuda_library(const char *name, LibraryKind *kind);
/* Lets kernels be given to such a library by a machine made so. E_OPTION for others. */
void target_cuda_allow(Ctx *ctx, Machine *m, const char *library);

#endif
