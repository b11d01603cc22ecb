/* SPDX-License-Identifier: Apache-2.0 */
/* From C text to machine code: clang-19 turns a unit into bitcode (through memory, no temporary files),
 * LLVM runs a short list of passes and emits an object, ld.lld links, or LLJIT loads in this process.
 * Units are compiled in parallel; equal units are taken from a cache. All `fail` with E_TOOLCHAIN and
 * the tool's own words. */
#ifndef WEIR_TOOLCHAIN_H
#define WEIR_TOOLCHAIN_H

#include "compiler/targets/c/target.h"
#include "runtime/weir_rt.h"

typedef struct Object {
    void *at;
    size_t n;
} Object;

typedef struct ToolchainOptions {
    const char *const *flags; /* for clang, NULL at the end: target_c_flags */
    int jobs;                 /* >= 1 */
    bool cache;
} ToolchainOptions;

/* One object per unit; they live in `arena`. */
Object *toolchain_compile(Arena *arena, const Units *units, const ToolchainOptions *o);

/* Links objects and the runtime to a shared library at `path` (written in place; the caller renames). */
void toolchain_link(Arena *arena, const Object *objects, int n, const char *path);

/* Loads objects into this process; freed with the arena. Returns the program's descriptor function and
 * the blob whose delta the caller sets. */
typedef struct Jit {
    weir_model_fn *descriptor;
    struct weir_blob *blob;
} Jit;
Jit toolchain_jit(Arena *arena, const Object *objects, int n);

/* What was found, for `weir doctor`; NULL when missing. */
const char *toolchain_clang(Arena *arena);
const char *toolchain_linker(Arena *arena);

/* Runs argv with `input` on standard input; standard output and error come back whole (malloc'd, always
 * set). Returns the exit status, or -1 when the program cannot be started. Waits for this child alone. */
int process_run(char *const *argv, const void *input, size_t n, Object *out, char **error);

/* Object cache: a malloc'd copy of the entry, or NULL. Damaged entries are dropped. */
void *cache_get(const char *key, size_t *n);
void cache_put(const char *key, const void *at, size_t n);
/* Bytes held; clears when asked. */
int64_t cache_size(bool clear);
const char *cache_folder(char *buffer, size_t n);

#endif
