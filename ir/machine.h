/* SPDX-License-Identifier: Apache-2.0 */
/* The machine as data: all that passes know of where the code will run. Targets fill one in. */
#ifndef WEIR_IR_MACHINE_H
#define WEIR_IR_MACHINE_H

#include <stdbool.h>
#include <stdint.h>

typedef struct MemoryLevel {
    const char *name; /* "L1", "L2", "L3", "memory" */
    int64_t bytes;    /* capacity; INT64_MAX for memory */
    double bandwidth; /* bytes a second, one core */
    bool shared;      /* by all cores */
} MemoryLevel;

enum { MACHINE_LEVELS = 6 };
typedef struct Machine {
    const char *name; /* "x86-64-v4" */
    const char *on;   /* kernel word: "cpu", "cuda" */
    int vector_bytes; /* 64, 32 or 16 */
    int vector_regs;  /* 32 or 16 */
    double fma_flops; /* f32 FLOP a second of one core */
    int cores;        /* assumed when weighing parallel work */
    int nlevels;      /* innermost first */
    MemoryLevel level[MACHINE_LEVELS];
    bool dot_u8i8;           /* u8 x i8 dot-product instruction */
    bool tile_bf16, tile_i8; /* matrix tiles */
} Machine;

#endif
