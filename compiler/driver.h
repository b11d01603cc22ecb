/* SPDX-License-Identifier: Apache-2.0 */
/* The driver: the only code that sees every folder. A model or an .ir text goes through the passes to a
 * program, and on to C text, objects, a library or this process. All `fail`. */
#ifndef WEIR_DRIVER_H
#define WEIR_DRIVER_H

#include "compiler/toolchain/toolchain.h"
#include "compiler/weights.h"
#include "frontends/onnx/onnx.h"
#include "ir/file.h"
#include "passes/pass.h"

typedef VEC(DimOverride) DimOverrides;
typedef VEC(const char *) Names;

typedef struct Options {
    const char *cpu;
    MathMode math;
    bool weights_file, verify_each, time_passes, cache;
    int jobs;
    const char *emit, *emit_dir, *print_after, *stop_after;
    DimOverrides dim;
    Names skip;
} Options;
void options_default(Options *o);
/* Sets one option; E_OPTION. Strings are kept in the context. */
void options_set(Ctx *ctx, Options *o, const char *name, const char *value);

/* For tools: the options that a library's context holds, and a compilation context that reports to its
 * callback and can evaluate calls; ctx_free it. */
typedef struct weir_context weir_context;
const Options *context_options(const weir_context *c);
Ctx *context_fork(weir_context *c);

/* A model: a file (.onnx or .ir), or bytes of an ONNX model. */
typedef struct Source {
    const char *path;
    const void *bytes;
    size_t n;
    const char *folder;
} Source;

/* A text's last graph; or its flow with nests for all of its kernels; or its last flow. */
Stage driver_read_ir(Arena *arena, const char *path);
/* Runs the passes, as far as stop_after says. The stage lives in arenas of the context. */
Stage driver_stage(Arena *arena, const Options *o, const Source *source, Machine *machine);
/* C text of a program; `weights` gets the plan. */
void driver_emit(Arena *arena, const Options *o, const Stage *stage, const Machine *machine, const char *weights_file,
                 bool jit, Weights *weights, Units *units);
void driver_compile(Arena *arena, const Options *o, const Source *source, const char *output);
weir_model_fn *driver_load(Arena *arena, const Options *o, const Source *source);

#endif
