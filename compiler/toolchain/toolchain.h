/* SPDX-License-Identifier: Apache-2.0 */
/* From C text to machine code: clang-19 makes bitcode, LLVM makes objects, lld makes a library, or
 * LLVM's JIT loads the objects into this process. Nothing is written to disk but the object cache.
 *
 * clang is found as $WEIR_CLANG, else where the build found it, else on the path; ld.lld likewise
 * by $WEIR_LLD, nvcc by $WEIR_NVCC or in /usr/local/cuda. Whatever they say on failure stands in an
 * E_TOOLCHAIN diagnostic. */
#ifndef WEIR_TOOLCHAIN_H
#define WEIR_TOOLCHAIN_H

#include "compiler/targets/c/target.h"
#include "compiler/toolchain/process.h"
#include "runtime/weir_rt.h"

typedef struct ToolOptions {
    int jobs; /* threads; <= 0: as many as the CPUs we may use */
    bool no_cache;
} ToolOptions;

/* What happened, for --time-passes; seconds are summed over threads. */
typedef struct ToolTimes {
    double clang, passes, codegen;
    int units, cached;
} ToolTimes;

typedef VEC(Span) Objects;

/* Units become objects, in order, several at once. `times` may be NULL. */
void toolchain_compile(Arena *arena, const Units *units, const ToolOptions *options, Objects *out,
                       ToolTimes *times);
/* The kernels' text to one image with code for each of the GPUs ("sm_90a"), and, for later ones,
 * PTX of the newest of those whose features later ones keep. */
Span toolchain_nvcc(Arena *arena, const char *text, const char *const *gpu, int n, bool no_cache);
/* Objects and the runtime become a shared library that exports weir_model_descriptor alone and
 * needs libc and libm alone. `triple`: as target_c_triple. */
Span toolchain_link(Arena *arena, const Objects *objects, const char *triple);

/* Objects loaded into this process; the runtime is this process's. Made with EmitOptions.jit. */
typedef struct Jit Jit;
Jit *jit_new(Ctx *ctx, const Objects *objects);
weir_model_fn *jit_model(const Jit *jit);
struct weir_blob *jit_blob(const Jit *jit);
void jit_free(Jit *jit);

/* ---- for `weir doctor` and build information ------------------------------------------------- */

typedef struct ToolFound {
    const char *name, *path, *version; /* path NULL: not found; version NULL: it does not run */
    const char *install;               /* what to do when it is missing */
} ToolFound;
ToolFound tool_clang(Arena *arena);
ToolFound tool_linker(Arena *arena);
ToolFound tool_nvcc(Arena *arena);
const char *tool_llvm_version(Arena *arena);
double tool_seconds(void); /* a clock, for times */

/* ---- the object cache: $XDG_CACHE_HOME/weir, else ~/.cache/weir (cache.c) -------------------- */

typedef struct CacheInfo {
    const char *folder; /* NULL: none can be used */
    int64_t bytes, limit;
    int entries;
} CacheInfo;
CacheInfo cache_info(Arena *arena);
void cache_clear(Arena *arena); /* E_FILE when something cannot be removed */

#endif
