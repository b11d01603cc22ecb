/* SPDX-License-Identifier: Apache-2.0 */
/* Objects and the runtime to a shared library by ld.lld, all through memory files: lld reads its
 * inputs as /proc/self/fd/N and writes the library to its standard output.
 *
 * libc, libm and the loader are the very files this process runs on, so that no development package
 * is needed; any symbol that they, the objects and the runtime leave undefined fails the link. For
 * another system the compiler carries a runtime, and stubs of libc and libm (their names alone), if
 * a cross compiler was there when it was built. */
#include "private.h"

#include <errno.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "compiler/embedded.h"

static const char version_script[] = "{ global: " WEIR_MODEL_SYMBOL "; local: *; };\n";

typedef struct Libraries {
    Arena *arena;
    const char *c, *m, *loader;
} Libraries;

static int note_library(struct dl_phdr_info *info, size_t size, void *user) {
    (void)size;
    Libraries *found = user;
    const char *slash = strrchr(info->dlpi_name, '/');
    if (!slash) return 0;
    if (strcmp(slash, "/libc.so.6") == 0)
        found->c = arena_printf(found->arena, "%s", info->dlpi_name);
    if (strcmp(slash, "/libm.so.6") == 0)
        found->m = arena_printf(found->arena, "%s", info->dlpi_name);
    if (strncmp(slash, "/ld-linux", 9) == 0)
        found->loader = arena_printf(found->arena, "%s", info->dlpi_name);
    return 0;
}

static Libraries find_libraries(Arena *arena) {
    Libraries found = {.arena = arena};
    dl_iterate_phdr(note_library, &found);
    if (!found.c || !found.m)
        fail(arena_ctx(arena), E_TOOLCHAIN,
             "cannot find \"libc.so.6\" and \"libm.so.6\" of this process; run a "
             "weir that is linked with glibc dynamically");
    return found;
}

typedef struct Files {
    int n, *fd;
    VEC(const char *) arg;
} Files;

static void close_files(void *user) {
    Files *files = user;
    for (int i = 0; i < files->n; i++) close(files->fd[i]);
}

/* A memory file as an argument of the linker. */
static const char *add_file(Arena *arena, Files *files, const void *at, size_t n) {
    int fd = memory_file(at, n);
    if (fd < 0)
        fail(arena_ctx(arena), E_TOOLCHAIN,
             "cannot make a memory file of %zu bytes for the linker: %s", n, strerror(errno));
    files->fd[files->n++] = fd;
    return arena_printf(arena, "/proc/self/fd/%d", fd);
}

static void add_embedded(Arena *arena, Files *files, const EmbeddedFile *file) {
    vec_push(arena, &files->arg, add_file(arena, files, file->text, file->bytes));
}

static void add_native(Arena *arena, Files *files) {
    add_embedded(arena, files, embedded_file("libweir_image.a"));
    add_embedded(arena, files, embedded_file("libweir_rt.a"));
    Libraries system = find_libraries(arena);
    vec_push(arena, &files->arg, system.m);
    vec_push(arena, &files->arg, system.c);
    if (system.loader) vec_push(arena, &files->arg, system.loader);
}

static void add_foreign(Arena *arena, Files *files, const char *triple) {
    static const char *const names[] = {"libweir_rt.a", "libm.so", "libc.so"};
    for (int i = 0; i < 3; i++) {
        const EmbeddedFile *file = embedded_find(arena_printf(arena, "%s-%s", triple, names[i]));
        if (!file)
            fail(arena_ctx(arena), E_TOOLCHAIN,
                 "this weir was built without a runtime for %s; build it where %s-gcc is installed "
                 "(gcc-aarch64-linux-gnu, libc6-dev-arm64-cross)",
                 triple, triple);
        add_embedded(arena, files, file);
    }
}

static void linker_arguments(Arena *arena, const Objects *objects, const char *triple,
                             Files *files) {
    static const char *const fixed[] = {
        "ld.lld",
        "-shared",
        "-o",
        "-",
        "--no-undefined",
        "--gc-sections",
        "--strip-debug",
        "--as-needed",
        "--build-id=none",
        "--hash-style=gnu",
        "-Bsymbolic",
        "-znoexecstack",
        "-zrelro",
        "-znow",
        "--threads=1",
    };
    for (size_t i = 0; i < sizeof fixed / sizeof *fixed; i++)
        vec_push(arena, &files->arg, fixed[i]);
    vec_push(arena, &files->arg, "--version-script");
    vec_push(arena, &files->arg, add_file(arena, files, version_script, sizeof version_script - 1));
    for (int i = 0; i < objects->n; i++)
        vec_push(arena, &files->arg, add_file(arena, files, objects->at[i].at, objects->at[i].n));
    if (triple)
        add_foreign(arena, files, triple);
    else
        add_native(arena, files);
    vec_push(arena, &files->arg, NULL);
}

Span toolchain_link(Arena *arena, const Objects *objects, const char *triple) {
    Ctx *ctx = arena_ctx(arena);
    char *lld = tool_path("WEIR_LLD", WEIR_LLD_PATH, "ld.lld-19");
    if (!lld)
        fail(ctx, E_TOOLCHAIN,
             "cannot find \"ld.lld-19\"; install the package lld-19 or set WEIR_LLD to its "
             "path");
    arena_defer(arena, free, lld);
    Files *files = NEW(arena, Files);
    files->fd = NEW_ARRAY(arena, int, objects->n + 4);
    arena_defer(arena, close_files, files);
    linker_arguments(arena, objects, triple, files);
    ToolRun run = {.path = lld,
                   .argv = files->arg.at,
                   .keep = files->fd,
                   .nkeep = files->n,
                   .stop = ctx->stop};
    char *error = tool_run(&run);
    if (run.out.at) arena_defer(arena, free, run.out.at);
    if (error) {
        stop_check(ctx);
        char *text = arena_printf(arena, "%s", error);
        free(error);
        fail(ctx, E_TOOLCHAIN, "%s", text);
    }
    return run.out;
}
