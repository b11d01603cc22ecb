/* SPDX-License-Identifier: Apache-2.0 */
/* Steps of a warp: one row each. A row names the instruction, says what it does as a nest (its
 * meaning), and which helpers of cuda.in spell it and the loads of its operands. */
#include "cuda.h"

#include <string.h>

/* By warps of which each has 16 of the rows. */
#define MEANING(type, rows, open, part, close)                                                     \
    "nest step on cuda {\n"                                                                        \
    "  mem a : " type "[" rows ", 16]\n"                                                           \
    "  mem b : " type "[16, 8]\n"                                                                  \
    "  mem c : f32[" rows ", 8] written\n" open "  thread g : 8 {\n"                               \
    "    thread t : 4 {\n"                                                                         \
    "      for q : 16 unroll {\n"                                                                  \
    "        for h : 2 unroll {\n"                                                                 \
    "          for l : 2 vector {\n"                                                               \
    "            c[" part "8*h + g, 2*t + l] = fma(f32(a[" part "8*h + g, q]),\n"                  \
    "              f32(b[q, 2*t + l]), c[" part "8*h + g, 2*t + l])\n"                             \
    "          }\n"                                                                                \
    "        }\n"                                                                                  \
    "      }\n"                                                                                    \
    "    }\n"                                                                                      \
    "  }\n" close "}\n"
#define STEP(type) MEANING(type, "16", "", "", "")
#define GROUP_STEP(type) MEANING(type, "64", "  thread w : 4 {\n", "16*w + ", "  }\n")

#define LOADS "ldmatrix4", "ldmatrix4_across", "ldmatrix2", "ldmatrix2_across"

static const CudaStep rows[] = {
    {{"mma.m16n8k16.f16", STEP("f16"), F16, F16, F32, 16, 8, 16, 1, 0}, LOADS, "mma_f16"},
    {{"mma.m16n8k16.bf16", STEP("bf16"), BF16, BF16, F32, 16, 8, 16, 1, 0}, LOADS, "mma_bf16"},
    {{"wgmma.m64k16.f16", GROUP_STEP("f16"), F16, F16, F32, 64, 8, 16, 4, 256},
     "",
     "",
     "",
     "",
     "wgmma_f16"},
    {{"wgmma.m64k16.bf16", GROUP_STEP("bf16"), BF16, BF16, F32, 64, 8, 16, 4, 256},
     "",
     "",
     "",
     "",
     "wgmma_bf16"},
};

const CudaStep *target_cuda_step(const char *name) {
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (strcmp(rows[i].row.name, name) == 0) return &rows[i];
    return NULL;
}

void target_cuda_steps(Machine *m, const StepRates *rates) {
    m->nstep = 0;
    for (size_t i = 0; i < sizeof rows / sizeof *rows && m->nstep < MACHINE_USES; i++) {
        double flops = rows[i].row.warps > 1 ? rates->group : rates->warp;
        if (flops == 0) continue;
        m->step_flops[m->nstep] = flops / m->cores;
        m->step[m->nstep++] = &rows[i].row;
    }
}
