/* SPDX-License-Identifier: Apache-2.0 */
/* The machine as data: all that passes know of where the code will run. Targets fill one in. */
#ifndef WEIR_IR_MACHINE_H
#define WEIR_IR_MACHINE_H

#include "prim.h"

typedef struct MemoryLevel {
    const char *name; /* "L1", "L2", "L3", "memory" */
    int64_t bytes;    /* capacity; INT64_MAX for memory */
    double bandwidth; /* bytes a second, one core */
    bool shared;      /* by all cores */
} MemoryLevel;

/* An instruction that stands for loops around a product summed in exact integers (or as its own
 * text says): for each lane l, c[l] += sum over q of a[q] * b[l,q]. The `group` elements that q
 * counts stand next to each other in memory, and b's lanes beside one another. */
typedef struct Instruction {
    const char *name;    /* "vpdpbusd512" */
    const char *meaning; /* a nest over mem a, b, c: what it does; the evaluator runs it */
    DType a, b, c;
    int lanes, group;
    bool backward; /* floats, rounded at each step: the group's last product is added first. Only
                      with fast mathematics */
    const char *pairs; /* one that does the same sooner, adding products two by two in 16 bits,
                          where neighbours in b's groups add up to -128..127; or NULL */
    bool each; /* a has a group for each lane, too: a[q,l], the lanes of a q beside one another */
} Instruction;

/* An instruction, many times at once, on registers that hold tiles: each of `rows` rows of c gets
 * what `groups` groups, or fewer, of its row of a and of b's lanes add to it. Float sums take an
 * order of the processor's own, which the tiles' shape alone decides. */
typedef struct MatrixStep {
    const char *name; /* "tdpbusd" */
    const char *of;   /* the instruction */
    int rows, groups;
    double speed; /* products a second, of those that f32 multiply-adds make */
} MatrixStep;

/* What the threads of a warp do together: c += a b, where a is rows x depth and b depth x columns,
 * read from shared memory, and each thread has some elements of c in registers. Elements of a and b
 * are rounded by the function `round` first, where there is one: only with fast mathematics.
 * `meaning`: a nest with the warp's threads as loops, which says whose elements are where.
 *
 * What several warps do together reads swizzled arrays of shared memory behind their backs, and
 * takes any number of columns, up to `widest`, at once. What it rounds must come so: it is rounded
 * as it is copied there, and the meaning has it as it is.
 *
 * A `plain` step is no instruction: its threads multiply and add by themselves, each sum in the
 * order of the reduction. */
typedef struct WarpStep {
    const char *name; /* "mma.m16n8k16.f16" */
    const char *meaning;
    DType a, b, c;
    int rows, columns, depth;
    int warps, widest; /* 1, 0: a warp alone */
    Prim round;        /* PRIM_NONE: they are taken as they are */
    bool along;        /* reduced elements of a and b must lie side by side; for a warp alone they
                          should: others are read one by one */
    bool coarse; /* sums keep fewer bits than c has: only with fast mathematics, and only those
                    of one block of the reduction at a time */
    bool plain;
} WarpStep;

/* What a vendor's library, opened where the program runs, makes: products of such elements, each
 * rounded by `round` first (PRIM_NONE: they are taken as they are), summed in f32. */
typedef enum { LIBRARY_PRODUCT, LIBRARY_CONVOLUTION } LibraryKind;
typedef struct LibraryRate {
    const char *library; /* "cublaslt", "cudnn" */
    LibraryKind kind;
    DType factor;
    Prim round;
    double flops, begin; /* FLOP a second of one core; seconds of work of nothing */
} LibraryRate;

enum { MACHINE_LEVELS = 6, MACHINE_USES = 24 };
typedef struct Machine {
    const char *name;   /* "x86-64-v4" */
    const char *on;     /* kernel word: "cpu", "cuda" */
    int vector_bytes;   /* 64, 32 or 16 */
    int vector_regs;    /* 32 or 16 */
    double fma_flops;   /* f32 FLOP a second of one core */
    double table_prims; /* operations on vectors of f32 that as many bytes looked up among 256 take;
                           0: look-ups are no quicker than others */
    bool rounds_twice;  /* it has no fused multiply-add: sums of products are not made of them */
    int cores;          /* assumed when weighing parallel work */
    int nlevels;        /* innermost first */
    MemoryLevel level[MACHINE_LEVELS];
    int nuse; /* instructions, best first */
    const Instruction *use[MACHINE_USES];
    double use_speed[MACHINE_USES]; /* products a second, of those that f32 multiply-adds make */
    int nmatrix;
    const MatrixStep *matrix[MACHINE_USES];
    /* A machine whose kernels are blocks of threads (block_threads 0: it has none): */
    int block_threads;    /* as many in a block as are good to have */
    int warp;             /* neighbouring threads that run as one */
    int live_threads;     /* that run at a time, on all cores */
    int core_registers;   /* of a core, shared by the threads that it runs */
    int64_t shared_bytes; /* memory that the threads of a block share ... */
    int64_t shared_most;  /* ... and as much of it as a block may ask for */
    int nstep;            /* steps of warps */
    const WarpStep *step[MACHINE_USES];
    double step_flops[MACHINE_USES]; /* FLOP a second of one core by each */
    int nlibrary;                    /* what libraries make that the options allow */
    LibraryRate library[MACHINE_USES];
    /* Functions of f32 that it has an instruction for; 2^x: within 2 ulp, 0 below the normal
     * numbers. */
    bool native[PRIM_COUNT];
} Machine;

#endif
