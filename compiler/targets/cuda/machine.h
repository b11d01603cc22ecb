/* SPDX-License-Identifier: Apache-2.0 */
/* The machine behind --gpu. */
#ifndef WEIR_TARGET_CUDA_MACHINE_H
#define WEIR_TARGET_CUDA_MACHINE_H

#include "ir/base.h"
#include "ir/machine.h"

/* "sm_80", "sm_90a" or "sm_100": m->name. E_OPTION for others. */
void target_cuda_machine(Ctx *ctx, Machine *m, const char *gpu);

#endif
