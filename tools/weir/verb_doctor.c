/* SPDX-License-Identifier: Apache-2.0 */
/* weir doctor: what a compilation here would use. weir cache: the objects it keeps. */
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tools/weir/engine.h"
#include "tools/weir/session.h"
#include "tools/weir/verbs.h"

/* ---- doctor --------------------------------------------------------------------------------- */

/* A tool and what to do without it. False when it cannot be used. */
static bool print_tool(const ToolFound *t) {
    if (!t->path)
        printf("%-9s not found: %s\n", t->name, t->install);
    else if (!t->version)
        printf("%-9s %s does not run: %s\n", t->name, t->path, t->install);
    else
        printf("%-9s %s (%s)\n", t->name, t->version, t->path);
    return t->path && t->version;
}

static void print_cpu(const Machine *m) {
    printf("%-9s %s: %d-byte vectors, %d registers, %s%s; %ld CPUs\n", "cpu", m->name,
           m->vector_bytes, m->vector_regs, m->nuse ? m->use[0]->name : "no dot products",
           m->nmatrix ? ", matrix tiles" : "", sysconf(_SC_NPROCESSORS_ONLN));
    for (int i = 0; i < m->nlevels; i++) {
        if (m->level[i].bytes == INT64_MAX) continue;
        printf("%-9s %s %lld KiB%s\n", "", m->level[i].name, (long long)(m->level[i].bytes >> 10),
               m->level[i].shared ? ", shared" : "");
    }
}

static void print_cache(const CacheInfo *info) {
    if (info->folder)
        printf("%-9s %s: %d objects, %.1f of %.0f MB\n", "cache", info->folder, info->entries,
               (double)info->bytes / 1e6, (double)info->limit / 1e6);
    else
        printf("%-9s none: set XDG_CACHE_HOME or HOME to a folder that can be written\n", "cache");
}

static void print_gpu(void) {
    void *driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
    if (driver)
        printf("%-9s NVIDIA driver found\n", "gpu");
    else
        printf(
            "%-9s no NVIDIA driver (libcuda.so.1): models for a GPU compile here, but do not run\n",
            "gpu");
    if (driver) dlclose(driver);
}

static void doctor(Session *s) {
    int *rc = s->user;
    Machine machine = {0};
    ToolFound clang = tool_clang(s->arena), linker = tool_linker(s->arena),
              nvcc = tool_nvcc(s->arena);
    printf("%-9s %s\n", "weir", weir_version());
    bool fit = print_tool(&clang);
    fit = print_tool(&linker) && fit;
    printf("%-9s %s\n", "llvm", tool_llvm_version(s->arena));
    target_c_machine(s->ctx, &machine, s->options.cpu ? s->options.cpu : "native");
    print_cpu(&machine);
    CacheInfo info = cache_info(s->arena);
    print_cache(&info);
    print_tool(&nvcc);
    print_gpu();
    printf(fit ? "all that compiling needs is here\n"
               : "compiling will fail until what is named above is mended\n");
    *rc = fit ? EXIT_DONE : EXIT_MODEL;
}

int verb_doctor(Args *a) {
    int found = EXIT_DONE;
    if (args_next(a)) return usage_error(a, "takes no \"%s\"", args_operand(a));
    weir_context *c = context_new(false);
    int rc = session_try(c, NULL, doctor, &found);
    weir_context_free(c);
    return rc == EXIT_DONE ? found : rc;
}

/* ---- cache ---------------------------------------------------------------------------------- */

static void cache(Session *s) {
    const bool *clear = s->user;
    if (*clear) cache_clear(s->arena);
    CacheInfo info = cache_info(s->arena);
    print_cache(&info);
}

int verb_cache(Args *a) {
    bool clear = false;
    while (args_next(a)) {
        if (!args_is(a, "clear")) return usage_error(a, "does not know \"%s\"", args_operand(a));
        clear = true;
    }
    weir_context *c = context_new(false);
    int rc = session_try(c, NULL, cache, &clear);
    weir_context_free(c);
    return rc;
}
