/* SPDX-License-Identifier: Apache-2.0 */
/* The machine behind --gpu, by compute capability: its server part of that generation. The numbers
 * are its vendor's: they weigh one plan against another and need not be exact. Rates are of one
 * multiprocessor, which is what a core is here. */
#include "compiler/targets/cuda/machine.h"

#include "compiler/targets/cuda/cuda.h"

#include <string.h>

typedef struct Generation {
    const char *name;
    int cores;
    int64_t l1, l2;
    double l1_rate, l2_rate, memory_rate; /* bytes a second, of all cores */
    double fma_flops;                     /* f32, of all cores */
    double step_flops;                    /* of 16-bit operands by steps of a warp */
    int64_t shared_most;
} Generation;

static const Generation generations[] = {
    {"sm_80", 108, 128 << 10, 40 << 20, 19e12, 5e12, 2.0e12, 19.5e12, 312e12, 163 << 10},
    {"sm_90a", 132, 192 << 10, 50 << 20, 29e12, 5.5e12, 4.8e12, 67e12, 620e12, 227 << 10},
    {"sm_100", 148, 192 << 10, 126 << 20, 33e12, 10e12, 8.0e12, 75e12, 900e12, 227 << 10},
};

/* Shared memory: what every device gives a block without being asked. */
enum { WARP = 32, BLOCK = 256, LIVE = 2048, SHARED = 48 << 10 };

void target_cuda_machine(Ctx *ctx, Machine *m, const char *gpu) {
    for (size_t i = 0; i < sizeof generations / sizeof *generations; i++) {
        const Generation *g = &generations[i];
        if (strcmp(g->name, gpu) != 0) continue;
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
                       .shared_bytes = SHARED,
                       .shared_most = g->shared_most,
                       .step_flops = g->step_flops / g->cores,
                       .exp2 = true};
        target_cuda_steps(m);
        m->level[0] = (MemoryLevel){"L1", g->l1, g->l1_rate / g->cores, false};
        m->level[1] = (MemoryLevel){"L2", g->l2, g->l2_rate / g->cores, true};
        m->level[2] = (MemoryLevel){"memory", INT64_MAX, g->memory_rate / g->cores, true};
        return;
    }
    fail(ctx, E_OPTION, "unknown GPU \"%s\"; give sm_80, sm_90a or sm_100", gpu);
}
