/* SPDX-License-Identifier: Apache-2.0 */
/* Steps of a warp: one row each. A row names the instruction, says what it does as a nest (its
 * meaning), and which helpers of cuda.in spell it and the loads of its operands. */
#include "cuda.h"

#include <string.h>

/* By warps of which each has 16 of the rows; `x` and `y` tell how factors are taken. */
#define MEANING(a, b, c, rows, depth, x, y, open, part, close)                                     \
    "nest step on cuda {\n"                                                                        \
    "  mem a : " a "[" rows ", " depth "]\n"                                                       \
    "  mem b : " b "[" depth ", 8]\n"                                                              \
    "  mem c : " c "[" rows ", 8] written\n" open "  thread g : 8 {\n"                             \
    "    thread t : 4 {\n"                                                                         \
    "      for q : " depth " unroll {\n"                                                           \
    "        for h : 2 unroll {\n"                                                                 \
    "          for l : 2 vector {\n"                                                               \
    "            c[" part "8*h + g, 2*t + l] = fma(" x "(a[" part "8*h + g, q]),\n"                \
    "              " y "(b[q, 2*t + l]), c[" part "8*h + g, 2*t + l])\n"                           \
    "          }\n"                                                                                \
    "        }\n"                                                                                  \
    "      }\n"                                                                                    \
    "    }\n"                                                                                      \
    "  }\n" close "}\n"
#define STEP(a, b, c, depth, by) MEANING(a, b, c, "16", depth, by, by, "", "", "")
#define HALVES(type) STEP(type, type, "f32", "16", "f32")
#define CODES(a, b) STEP(a, b, "i32", "32", "i32")
#define BYTES(a, b) STEP(a, b, "f32", "32", "f32")
#define GROUP_STEP(type)                                                                           \
    MEANING(type, type, "f32", "64", "16", "f32", "f32", "  thread w : 4 {\n", "16*w + ", "  }\n")

#define LOADS "ldmatrix4", "ldmatrix4_across", "ldmatrix2", "ldmatrix2_across"
#define WORDS "ldmatrix4", "", "ldmatrix2", ""

static const CudaStep rows[] = {
    {{"mma.m16n8k16.f16", HALVES("f16"), F16, F16, F32, 16, 8, 16, 1, 0, PRIM_NONE, false},
     LOADS,
     "mma_f16"},
    {{"mma.m16n8k16.bf16", HALVES("bf16"), BF16, BF16, F32, 16, 8, 16, 1, 0, PRIM_NONE, false},
     LOADS,
     "mma_bf16"},
    {{"mma.m16n8k8.tf32", STEP("f32", "f32", "f32", "8", "tf32"), F32, F32, F32, 16, 8, 8, 1, 0,
      P_TF32, false},
     WORDS,
     "mma_tf32"},
    {{"mma.m16n8k32.i8.i8", CODES("i8", "i8"), I8, I8, I32, 16, 8, 32, 1, 0, PRIM_NONE, false},
     WORDS,
     "mma_i8_i8"},
    {{"mma.m16n8k32.u8.i8", CODES("u8", "i8"), U8, I8, I32, 16, 8, 32, 1, 0, PRIM_NONE, false},
     WORDS,
     "mma_u8_i8"},
    {{"mma.m16n8k32.i8.u8", CODES("i8", "u8"), I8, U8, I32, 16, 8, 32, 1, 0, PRIM_NONE, false},
     WORDS,
     "mma_i8_u8"},
    {{"mma.m16n8k32.u8.u8", CODES("u8", "u8"), U8, U8, I32, 16, 8, 32, 1, 0, PRIM_NONE, false},
     WORDS,
     "mma_u8_u8"},
    {{"mma.m16n8k32.e4m3.e4m3", BYTES("f8e4m3fn", "f8e4m3fn"), F8E4M3FN, F8E4M3FN, F32, 16, 8, 32,
      1, 0, PRIM_NONE, false},
     WORDS,
     "mma_e4m3_e4m3"},
    {{"mma.m16n8k32.e4m3.e5m2", BYTES("f8e4m3fn", "f8e5m2"), F8E4M3FN, F8E5M2, F32, 16, 8, 32, 1, 0,
      PRIM_NONE, false},
     WORDS,
     "mma_e4m3_e5m2"},
    {{"mma.m16n8k32.e5m2.e4m3", BYTES("f8e5m2", "f8e4m3fn"), F8E5M2, F8E4M3FN, F32, 16, 8, 32, 1, 0,
      PRIM_NONE, false},
     WORDS,
     "mma_e5m2_e4m3"},
    {{"mma.m16n8k32.e5m2.e5m2", BYTES("f8e5m2", "f8e5m2"), F8E5M2, F8E5M2, F32, 16, 8, 32, 1, 0,
      PRIM_NONE, false},
     WORDS,
     "mma_e5m2_e5m2"},
    {{"wgmma.m64k16.f16", GROUP_STEP("f16"), F16, F16, F32, 64, 8, 16, 4, 256, PRIM_NONE, false},
     "",
     "",
     "",
     "",
     "wgmma_f16"},
    {{"wgmma.m64k16.bf16", GROUP_STEP("bf16"), BF16, BF16, F32, 64, 8, 16, 4, 256, PRIM_NONE,
      false},
     "",
     "",
     "",
     "",
     "wgmma_bf16"},
    {{"fma.f32", NULL, F32, F32, F32, 8, 8, 4, 1, 0, PRIM_NONE, true}, "", "", "", "", ""},
};

const CudaStep *target_cuda_step(const char *name) {
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (strcmp(rows[i].row.name, name) == 0) return &rows[i];
    return NULL;
}

/* Bits of what tensor cores multiply: 8-bit floats are widened to halves. */
static int factor_bits(const WarpStep *step) {
    int bits = dtype_bits(step->a);
    return dtype_is_float(step->a) && bits < 16 ? 16 : bits;
}

void target_cuda_steps(Machine *m, const StepRates *rates) {
    m->nstep = 0;
    for (size_t i = 0; i < sizeof rows / sizeof *rows && m->nstep < MACHINE_USES; i++) {
        const WarpStep *step = &rows[i].row;
        double flops = step->warps > 1 ? rates->group : rates->warp;
        if (step->plain)
            flops = rates->plain;
        else
            flops = flops * 16 / factor_bits(step);
        if (flops == 0) continue;
        m->step_flops[m->nstep] = flops / m->cores;
        m->step[m->nstep++] = step;
    }
}
