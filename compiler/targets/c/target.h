/* SPDX-License-Identifier: Apache-2.0 */
/* The C target: a program at the last level becomes C text, in a few translation units that a
 * compiler may take in parallel. The text includes no header; gcc and clang compile it, without
 * options or with those of target_c_flags. The units need the runtime (libweir_rt.a or its sources)
 * and nothing else.
 *
 * Unit 0 holds the program that walks the kernels, the descriptor `weir_model_descriptor` (the only
 * exported symbol) and the blob: `weir_blob`, in writable data, which a patcher finds in the linked
 * file by its two magic words (WEIR_BLOB_MAGIC0, 1 of runtime/weir_rt.h) and whose `delta` it sets
 * to the distance in bytes from the blob to the weights. A loader in this process sets it through
 * the symbol (visible when `jit`). Left 0, the runtime maps `weights_file` beside the library: the
 * weights, then weights_check and the number of bytes as two u64. */
#ifndef WEIR_TARGET_C_H
#define WEIR_TARGET_C_H

#include "ir/machine.h"
#include "ir/nest.h"

typedef struct Unit {
    const char *name; /* "kernels1.c" */
    const char *text;
    const char *const *flags; /* for clang, NULL-ended */
} Unit;
typedef VEC(Unit) Units;

/* Which kernels have boxes of tensors copied by the GPU's engine, not by their threads: those that
 * gain by it, none or all. */
typedef enum CopyEngine { ENGINE_AUTO, ENGINE_NEVER, ENGINE_ALWAYS } CopyEngine;

typedef struct EmitOptions {
    int units; /* translation units at most, >= 1 */
    const int64_t
        *weight_offset; /* by container of the flow: bytes from the weights' start; -1: none */
    int64_t weight_bytes;
    /* Of a program with a constant part (which is emitted before, with `part` set): where what it
     * makes lies in a set of weights, by container and by output; where its inputs start. */
    const int64_t *made, *made_at, *raw;
    int64_t made_bytes;
    bool part;               /* this is the constant part */
    const Flow *constant;    /* the constant part's flow, when there is one */
    const int *weight_input; /* which of its inputs may be swapped, by number */
    int nweights;
    const char *weights_file; /* name of the side file, or NULL */
    uint64_t weights_check;   /* in the side file's trailer */
    const char *build;        /* JSON for weir_model.build */
    const char *const
        *flags; /* of the units: target_c_flags of the machine that runs the program */
    /* Of a library with code for several CPUs: which this is for; the others, the least first, in
     * the one that has the descriptor, NULL in those others. */
    const char *cpu;
    const char *const *lesser;
    int nlesser;
    bool jit;          /* weir_blob is visible */
    bool profile;      /* the program times its kernels */
    bool checked;      /* bounds checks in front of every access */
    CopyEngine engine; /* of kernels whose boxes the GPU's engine for these may copy */
} EmitOptions;

/* The machine named by --cpu: "native", "x86-64-v2" .. "x86-64-v4", or an LLVM CPU name. m->name is
 * what -march takes. E_OPTION for an unknown name. */
void target_c_machine(Ctx *ctx, Machine *m, const char *cpu);
/* The system that code is for when it cannot run in this process: "aarch64-linux-gnu"; else NULL.
 */
const char *target_c_triple(const Machine *m);
/* Options for clang or gcc: instruction set and strict arithmetic; NULL ends the list. */
const char *const *target_c_flags(Arena *arena, const Machine *m);
void target_c_emit(Arena *arena, const Program *p, const Machine *m, const EmitOptions *o,
                   Units *out);

#endif
