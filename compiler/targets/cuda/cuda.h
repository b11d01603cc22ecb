/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files of the CUDA target. */
#ifndef WEIR_CUDA_H
#define WEIR_CUDA_H

#include "compiler/targets/c/c_nest.h"
#include "compiler/targets/c/c_program.h"
#include "target.h"

/* Of a kernel whose tasks are threads: threads of a block, and blocks at most: with arrays in
 * memory fewer. */
enum { CUDA_TASK_THREADS = 128, CUDA_TASK_BLOCKS = 4096, CUDA_SCRATCH_BLOCKS = 64 };

extern const CForm cuda_form;

#endif
