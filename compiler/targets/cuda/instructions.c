/* SPDX-License-Identifier: Apache-2.0 */
/* Steps of warps: one row each. A row names the instruction, says what it does as a nest (its
 * meaning), and which helpers of cuda.in spell it and the loads of its operands, or, of a step of
 * several warps, how PTX names its types. */
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
#define GROUP_STEP(a, b, c, depth, by)                                                             \
    MEANING(a, b, c, "64", depth, by, by, "  thread w : 4 {\n", "16*w + ", "  }\n")

#define LOADS "ldmatrix4", "ldmatrix4_across", "ldmatrix2", "ldmatrix2_across"
#define WORDS "ldmatrix4", "", "ldmatrix2", ""

/* Of one warp, and of four. */
#define ALONE(name, meaning, a, b, c, depth, round, along, loads, multiply)                        \
    {                                                                                              \
        {name, meaning, a, b, c, 16, 8, depth, 1, 0, round, along, false, false}, loads, multiply, \
            ""                                                                                     \
    }
#define GROUP(name, meaning, a, b, c, depth, round, along, coarse, multiply, types)                \
    {                                                                                              \
        {name, meaning, a, b, c, 64, 8, depth, 4, 256, round, along, coarse, false}, "", "", "",   \
            "", multiply, types                                                                    \
    }

#define HALVES_ROWS(name, type)                                                                    \
    ALONE("mma.m16n8k16." name, STEP(name, name, "f32", "16", "f32"), type, type, F32, 16,         \
          PRIM_NONE, false, LOADS, "mma_" name),                                                   \
        GROUP("wgmma.m64k16." name, GROUP_STEP(name, name, "f32", "16", "f32"), type, type, F32,   \
              16, PRIM_NONE, false, false, "wgmma_" name, "f32." name "." name)
#define CODES_ROWS(name_a, name_b, a, b, types)                                                    \
    ALONE("mma.m16n8k32." name_a "." name_b, STEP(name_a, name_b, "i32", "32", "i32"), a, b, I32,  \
          32, PRIM_NONE, true, WORDS, "mma_" name_a "_" name_b),                                   \
        GROUP("wgmma.m64k32." name_a "." name_b, GROUP_STEP(name_a, name_b, "i32", "32", "i32"),   \
              a, b, I32, 32, PRIM_NONE, true, false, "wgmma_" name_a "_" name_b, "s32." types)
#define BYTES_ROWS(name_a, name_b, type_a, type_b, a, b)                                           \
    ALONE("mma.m16n8k32." name_a "." name_b, STEP(type_a, type_b, "f32", "32", "f32"), a, b, F32,  \
          32, PRIM_NONE, true, WORDS, "mma_" name_a "_" name_b),                                   \
        GROUP("wgmma.m64k32." name_a "." name_b, GROUP_STEP(type_a, type_b, "f32", "32", "f32"),   \
              a, b, F32, 32, PRIM_NONE, true, true, "wgmma_" name_a "_" name_b,                    \
              "f32." name_a "." name_b)

static const CudaStep rows[] = {
    HALVES_ROWS("f16", F16),
    HALVES_ROWS("bf16", BF16),
    ALONE("mma.m16n8k8.tf32", STEP("f32", "f32", "f32", "8", "tf32"), F32, F32, F32, 8, P_TF32,
          true, WORDS, "mma_tf32"),
    GROUP("wgmma.m64k8.tf32", GROUP_STEP("f32", "f32", "f32", "8", ""), F32, F32, F32, 8, P_TF32,
          true, false, "wgmma_tf32", "f32.tf32.tf32"),
    CODES_ROWS("i8", "i8", I8, I8, "s8.s8"),
    CODES_ROWS("u8", "i8", U8, I8, "u8.s8"),
    CODES_ROWS("i8", "u8", I8, U8, "s8.u8"),
    CODES_ROWS("u8", "u8", U8, U8, "u8.u8"),
    BYTES_ROWS("e4m3", "e4m3", "f8e4m3fn", "f8e4m3fn", F8E4M3FN, F8E4M3FN),
    BYTES_ROWS("e4m3", "e5m2", "f8e4m3fn", "f8e5m2", F8E4M3FN, F8E5M2),
    BYTES_ROWS("e5m2", "e4m3", "f8e5m2", "f8e4m3fn", F8E5M2, F8E4M3FN),
    BYTES_ROWS("e5m2", "e5m2", "f8e5m2", "f8e5m2", F8E5M2, F8E5M2),
    {{"fma.f32", NULL, F32, F32, F32, 8, 8, 4, 1, 0, PRIM_NONE, false, false, true},
     "",
     "",
     "",
     "",
     "",
     ""},
};

const CudaStep *target_cuda_step(const char *name) {
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (strcmp(rows[i].row.name, name) == 0) return &rows[i];
    return NULL;
}

const CudaStep *target_cuda_step_at(int i) {
    return i < (int)(sizeof rows / sizeof *rows) ? &rows[i] : NULL;
}

const CudaStep *target_cuda_alone(const CudaStep *group) {
    const WarpStep *g = &group->row;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const WarpStep *s = &rows[i].row;
        if (s->warps == 1 && s->a == g->a && s->b == g->b && s->c == g->c) return &rows[i];
    }
    BUG("no step of one warp does what \"%s\" does", g->name);
}

/* Bits of what tensor cores multiply: of one warp, 8-bit floats are widened to halves. */
static int factor_bits(const WarpStep *step) {
    int bits = dtype_bits(step->a);
    return step->warps == 1 && dtype_is_float(step->a) && bits < 16 ? 16 : bits;
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
