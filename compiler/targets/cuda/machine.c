/* SPDX-License-Identifier: Apache-2.0 */
/* The machine behind --gpu, by compute capability: its server part of that generation. The numbers
 * are its vendor's, but for sm_90a's steps and caches: there they are such that 57 products in
 * tiles of all sizes take what they took, within a tenth, and of 12 larger ones the tile that takes
 * least is chosen (tests/results/gpu-2026-11-26.md). They weigh one
 * plan against another and need not be exact. Rates are of one multiprocessor, which is what a core
 * is here. */
#include "compiler/targets/cuda/machine.h"

#include "compiler/targets/cuda/cuda.h"

#include <string.h>

typedef struct Generation {
    const char *name;
    int cores;
    int64_t l1, l2;
    double l1_rate, l2_rate, memory_rate; /* bytes a second, of all cores */
    double fma_flops;                     /* f32, of all cores */
    StepRates steps;                      /* of 16-bit operands */
    int64_t shared_most;
} Generation;

static const Generation generations[] = {
    {"sm_80",
     108,
     128 << 10,
     40 << 20,
     19e12,
     5e12,
     2.0e12,
     19.5e12,
     {312e12, 0, 14e12},
     163 << 10},
    {"sm_90a",
     132,
     192 << 10,
     50 << 20,
     15e12,
     15e12,
     4.8e12,
     67e12,
     {300e12, 800e12, 47e12},
     227 << 10},
    {"sm_100",
     148,
     192 << 10,
     126 << 20,
     33e12,
     10e12,
     8.0e12,
     75e12,
     {900e12, 0, 54e12},
     227 << 10},
};

/* Of products by cuBLASLt, to what our fastest step makes: as on sm_90a, where of halves it makes
 * 745 TFLOP/s; of factors rounded to TF32 half as much. Of f32 that stays so, to multiply-adds.
 * Only the first was measured; so was how long it takes to begin. That cuDNN's convolutions make as
 * much is a guess, nothing of them was measured. */
static const double LIBRARY_STEPS = 0.93, LIBRARY_FMA = 0.75, LIBRARY_BEGIN = 3e-6;

/* Shared memory: what every device gives a block without being asked. */
enum { WARP = 32, BLOCK = 256, LIVE = 2048, SHARED = 48 << 10, REGISTERS = 64 << 10 };

static const Generation *generation(Ctx *ctx, const char *gpu) {
    for (size_t i = 0; i < sizeof generations / sizeof *generations; i++)
        if (strcmp(generations[i].name, gpu) == 0) return &generations[i];
    fail(ctx, E_OPTION, "unknown GPU \"%s\"; give sm_80, sm_90a or sm_100", gpu);
}

void target_cuda_machine(Ctx *ctx, Machine *m, const char *gpu, const char *const *all, int n) {
    const Generation *g = generation(ctx, gpu);
    *m = (Machine){.name = g->name,
                   .on = "cuda",
                   .vector_bytes = 16,
                   .vector_regs = 32,
                   .fma_flops = g->fma_flops / g->cores,
                   .cores = g->cores,
                   .nlevels = 3,
                   .block_threads = BLOCK,
                   .warp = WARP,
                   .live_threads = g->cores * LIVE,
                   .core_registers = REGISTERS,
                   .shared_bytes = SHARED,
                   .shared_most = g->shared_most,
                   .native = {[P_EXP2] = true, [P_RATIO] = true, [P_TF32] = true}};
    m->level[0] = (MemoryLevel){"L1", g->l1, g->l1_rate / g->cores, false};
    m->level[1] = (MemoryLevel){"L2", g->l2, g->l2_rate / g->cores, true};
    m->level[2] = (MemoryLevel){"memory", INT64_MAX, g->memory_rate / g->cores, true};
    for (int i = 0; i < n; i++) {
        int64_t most = generation(ctx, all[i])->shared_most;
        if (most < m->shared_most) m->shared_most = most;
    }
    target_cuda_steps(m, &g->steps);
}

static const struct {
    const char *name;
    LibraryKind kind;
} libraries[] = {{"cublaslt", LIBRARY_PRODUCT}, {"cudnn", LIBRARY_CONVOLUTION}};

static int find_library(const char *name) {
    int i = 0, n = sizeof libraries / sizeof *libraries;
    while (i < n && strcmp(libraries[i].name, name)) i++;
    return i < n ? i : -1;
}

bool target_cuda_library(const char *name, LibraryKind *kind) {
    int i = find_library(name);
    if (i >= 0) *kind = libraries[i].kind;
    return i >= 0;
}

void target_cuda_allow(Ctx *ctx, Machine *m, const char *library) {
    double halves = 0;
    int which = find_library(library);
    if (which < 0) fail(ctx, E_OPTION, "unknown library \"%s\"; give cublaslt or cudnn", library);
    LibraryRate rate = {libraries[which].name, libraries[which].kind, .begin = LIBRARY_BEGIN};
    for (int i = 0; i < m->nlibrary; i++)
        if (!strcmp(m->library[i].library, library)) return;
    for (int i = 0; i < m->nstep; i++)
        if (m->step[i]->a == F16 && m->step_flops[i] > halves) halves = m->step_flops[i];
    const struct {
        DType factor;
        Prim round;
        double flops;
    } by[] = {{F16, PRIM_NONE, LIBRARY_STEPS * halves},
              {BF16, PRIM_NONE, LIBRARY_STEPS * halves},
              {F32, P_TF32, LIBRARY_STEPS * halves / 2},
              {F32, PRIM_NONE, LIBRARY_FMA * m->fma_flops}};
    for (size_t i = 0; i < sizeof by / sizeof *by; i++) {
        rate.factor = by[i].factor, rate.round = by[i].round, rate.flops = by[i].flops;
        m->library[m->nlibrary++] = rate;
    }
}
