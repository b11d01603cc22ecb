/* SPDX-License-Identifier: Apache-2.0 */
/* Linking a shared library with ld.lld: objects are memory files, one symbol is exported, whatever is
 * neither ours nor libc's nor libm's fails. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "compiler/toolchain/toolchain.h"

static const char *find_program(Arena *arena, const char *env, const char *const *names) {
    const char *given = getenv(env);
    if (given && *given) return access(given, X_OK) == 0 ? given : NULL;
    for (; *names; names++)
        if (access(*names, X_OK) == 0) return arena_printf(arena, "%s", *names);
    return NULL;
}

const char *toolchain_clang(Arena *arena) {
    static const char *const names[] = {"/usr/bin/clang-19", "/usr/lib/llvm-19/bin/clang", "/usr/local/bin/clang-19", NULL};
    return find_program(arena, "WEIR_CLANG", names);
}

const char *toolchain_linker(Arena *arena) {
    static const char *const names[] = {"/usr/bin/ld.lld-19", "/usr/lib/llvm-19/bin/ld.lld", "/usr/local/bin/ld.lld-19", NULL};
    return find_program(arena, "WEIR_LD", names);
}

static const char *runtime_archive(Arena *arena) {
    static const char *const names[] = {WEIR_RT_BUILD, WEIR_RT_INSTALL, NULL};
    const char *given = getenv("WEIR_RT");
    if (given && *given) return given;
    for (int i = 0; names[i]; i++)
        if (access(names[i], R_OK) == 0) return names[i];
    fail(arena_ctx(arena), E_TOOLCHAIN, "the runtime archive is not at \"%s\"; install Weir, or name libweir_rt.a in WEIR_RT",
         WEIR_RT_INSTALL);
}

static void close_fd(void *fd) { close((int)(intptr_t)fd); }

/* A path that the linker can open: it inherits the descriptor. */
static const char *inherited(Arena *arena, const void *data, size_t n) {
    int fd = memfd_create("weir", 0);
    if (fd < 0) fail(arena_ctx(arena), E_TOOLCHAIN, "cannot make a memory file for the linker");
    arena_defer(arena, close_fd, (void *)(intptr_t)fd);
    for (size_t done = 0; done < n;) {
        ssize_t w = write(fd, (const char *)data + done, n - done);
        if (w <= 0) fail(arena_ctx(arena), E_MEMORY, "no memory for the linker's input");
        done += (size_t)w;
    }
    return arena_printf(arena, "/proc/self/fd/%d", fd);
}

void toolchain_link(Arena *arena, const Object *objects, int n, const char *path) {
    static const char script[] = "{ global: weir_model_descriptor; local: *; };";
    Arena *files = arena_new(arena_ctx(arena));
    const char *linker = toolchain_linker(files);
    if (!linker) fail(arena_ctx(arena), E_TOOLCHAIN, "ld.lld-19 is not found; install the package lld-19, or name it in WEIR_LD");
    const char **argv = NEW_ARRAY(files, const char *, n + 32);
    int k = 0;
    argv[k++] = linker;
    argv[k++] = "-shared";
    argv[k++] = "--build-id=none";
    argv[k++] = "-z";
    argv[k++] = "defs";
    argv[k++] = "--hash-style=gnu";
    argv[k++] = "-soname=weir-model.so";
    argv[k++] = arena_printf(files, "--version-script=%s", inherited(files, script, sizeof script - 1));
    for (int i = 0; i < n; i++) argv[k++] = inherited(files, objects[i].at, objects[i].n);
    argv[k++] = runtime_archive(files);
    argv[k++] = "--as-needed";
    argv[k++] = "-L/lib/x86_64-linux-gnu";
    argv[k++] = "-L/lib64";
    argv[k++] = "-l:libc.so.6";
    argv[k++] = "-l:libm.so.6";
    argv[k++] = "-o";
    argv[k++] = path;
    Object out;
    char *error;
    int rc = process_run((char *const *)argv, "", 0, &out, &error);
    const char *why = arena_printf(arena, "%.3000s", error ? error : "");
    free(out.at);
    free(error);
    arena_free(files);
    if (rc) fail(arena_ctx(arena), E_TOOLCHAIN, "the linker failed: %s", why);
}
