/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels' text to a GPU's code by nvcc: one image (a fatbin) for all GPUs asked for. */
#include "private.h"
#include "process.h"

#include <stdlib.h>
#include <string.h>

enum { NVCC_FLAGS = 11, MOST_GPUS = 16 };

static const char *const fixed_flags[NVCC_FLAGS] = {
    "-x",
    "cu",
    "-fatbin",
    "-o",
    "/proc/self/fd/1",
    "-std=c++17",
    "-w",
    "-fmad=false",
    "-prec-div=true",
    "-prec-sqrt=true",
    "-ftz=false",
};

static char *nvcc_path(void) {
    return tool_path("WEIR_NVCC", "/usr/local/cuda/bin/nvcc", "nvcc");
}

ToolFound tool_nvcc(Arena *arena) {
    return tool_found(arena, "nvcc", nvcc_path(), "release",
                      "install the CUDA toolkit, or set WEIR_NVCC to the path of its nvcc");
}

/* The newest GPU without a letter: the instructions of the others are not in later ones. */
static const char *newest(const char *const *gpu, int n) {
    const char *best = NULL;
    for (int i = 0; i < n; i++) {
        size_t end = strlen(gpu[i]) - 1;
        if (gpu[i][end] == 'a' || gpu[i][end] == 'f') continue;
        if (!best || atoi(gpu[i] + 3) > atoi(best + 3)) best = gpu[i];
    }
    return best;
}

static const char *const *make_flags(Arena *arena, const char *const *gpu, int n) {
    const char **flag = NEW_ARRAY(arena, const char *, NVCC_FLAGS + 2 * n + 6);
    const char *later = newest(gpu, n);
    int k = 0;
    for (; k < NVCC_FLAGS; k++) flag[k] = fixed_flags[k];
    for (int i = 0; i < n; i++) {
        flag[k++] = "-gencode";
        flag[k++] = arena_printf(arena, "arch=compute_%s,code=%s", gpu[i] + 3, gpu[i]);
    }
    if (later) flag[k++] = "-gencode";
    if (later)
        flag[k++] = arena_printf(arena, "arch=compute_%s,code=compute_%s", later + 3, later + 3);
    return flag;
}

static char *run_nvcc(const char *nvcc, const char *const *flags, const char *text, Stop *stop,
                      Span *code) {
    const char *argv[NVCC_FLAGS + 2 * MOST_GPUS + 6] = {nvcc};
    int n = 1;
    while (*flags) argv[n++] = *flags++;
    argv[n++] = "-";
    ToolRun run = {
        .path = nvcc, .argv = argv, .in = {(void *)(uintptr_t)text, strlen(text)}, .stop = stop};
    char *error = tool_run(&run);
    *code = run.out;
    return error;
}

Span toolchain_nvcc(Arena *arena, const char *text, const char *const *gpu, int n, bool no_cache) {
    Ctx *ctx = arena_ctx(arena);
    unsigned char key[HASH_BYTES];
    Span code = {0};
    if (n > MOST_GPUS) fail(ctx, E_OPTION, "code for %d GPUs; ask for %d at most", n, MOST_GPUS);
    char *nvcc = nvcc_path();
    if (!nvcc)
        fail(ctx, E_TOOLCHAIN,
             "cannot find \"nvcc\", which compiles kernels for a GPU; install the CUDA toolkit or "
             "set WEIR_NVCC to its path");
    arena_defer(arena, free, nvcc);
    const char *const *flags = make_flags(arena, gpu, n);
    Cache *cache = no_cache ? NULL : cache_open(nvcc);
    if (cache) cache_key(cache, text, flags, key);
    bool known = cache && cache_load(cache, key, &code);
    char *error = known ? NULL : run_nvcc(nvcc, flags, text, ctx->stop, &code);
    if (cache && !known && !error) cache_store(cache, key, code);
    cache_close(cache);
    if (code.at) arena_defer(arena, free, code.at);
    if (!error && code.n) return code;
    if (error) stop_check(ctx);
    char *said = error ? arena_printf(arena, "%s", error) : "nvcc made no code";
    free(error);
    fail(ctx, E_TOOLCHAIN, "kernels for the GPU: %s", said);
}
