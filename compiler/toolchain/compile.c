/* SPDX-License-Identifier: Apache-2.0 */
/* Units to objects, several at once. Each worker takes the next unit, asks the cache, else runs
 * clang and LLVM on it. The first unit (in order) that failed is the one reported. */
#include "private.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

typedef struct Work {
    const Units *units;
    const char *clang;
    Cache *cache;
    Stop *stop;
    Span *object; /* by unit */
    char **error;
    ToolTimes *times;
    atomic_int next;
} Work;

static char *compile_unit(const Work *work, const Unit *unit, Span *object, ToolTimes *times) {
    unsigned char key[HASH_BYTES];
    if (work->cache) {
        cache_key(work->cache, unit->text, unit->flags, key);
        if (cache_load(work->cache, key, object)) {
            times->cached = 1;
            return NULL;
        }
    }
    Span bitcode = {0};
    double start = tool_seconds();
    char *error = clang_bitcode(work->clang, unit->text, unit->flags, work->stop, &bitcode);
    times->clang = tool_seconds() - start;
    if (!error) error = llvm_object(bitcode, object, times);
    stop_look(work->stop, 0, 0);
    free(bitcode.at);
    if (!error && work->cache) cache_store(work->cache, key, *object);
    return error;
}

static void *worker(void *user) {
    Work *work = user;
    for (int i; !stop_now(work->stop) && (i = atomic_fetch_add(&work->next, 1)) < work->units->n;)
        work->error[i] = compile_unit(work, &work->units->at[i], &work->object[i], &work->times[i]);
    return NULL;
}

/* The calling thread works too; a thread that cannot be started is done without. */
static void run_workers(Work *work, int jobs) {
    enum { MOST = 256 };
    pthread_t thread[MOST];
    int started = 0;
    if (jobs > work->units->n) jobs = work->units->n;
    if (jobs > MOST) jobs = MOST;
    while (started < jobs - 1 && pthread_create(&thread[started], NULL, worker, work) == 0)
        started++;
    worker(work);
    for (int i = 0; i < started; i++) pthread_join(thread[i], NULL);
}

/* What was ended early has errors that say nothing. */
static void report_first(Arena *arena, const Work *work) {
    const char *text = NULL, *unit = NULL;
    for (int i = 0; i < work->units->n; i++) {
        if (work->error[i] && !text) {
            text = arena_printf(arena, "%s", work->error[i]);
            unit = work->units->at[i].name;
        }
        free(work->error[i]);
    }
    stop_check(arena_ctx(arena));
    if (text) fail(arena_ctx(arena), E_TOOLCHAIN, "unit \"%s\": %s", unit, text);
}

static ToolTimes sum_times(const Work *work) {
    ToolTimes sum = {.units = work->units->n};
    for (int i = 0; i < work->units->n; i++) {
        sum.clang += work->times[i].clang;
        sum.passes += work->times[i].passes;
        sum.codegen += work->times[i].codegen;
        sum.cached += work->times[i].cached;
    }
    return sum;
}

static char *find_clang(Arena *arena) {
    char *found = tool_path("WEIR_CLANG", WEIR_CLANG_PATH, "clang-19");
    if (!found)
        fail(arena_ctx(arena), E_TOOLCHAIN,
             "cannot find \"clang-19\"; install the package clang-19 or set "
             "WEIR_CLANG to its path");
    arena_defer(arena, free, found);
    return found;
}

void toolchain_compile(Arena *arena, const Units *units, const ToolOptions *options, Objects *out,
                       ToolTimes *times) {
    Work work = {.units = units, .clang = find_clang(arena), .stop = arena_ctx(arena)->stop};
    work.object = NEW_ARRAY(arena, Span, units->n);
    work.error = NEW_ARRAY(arena, char *, units->n);
    work.times = NEW_ARRAY(arena, ToolTimes, units->n);
    llvm_start();
    if (!options->no_cache) work.cache = cache_open(work.clang);
    run_workers(&work, options->jobs > 0 ? options->jobs : weir_cpus());
    cache_close(work.cache);
    for (int i = 0; i < units->n; i++) {
        if (work.object[i].at) arena_defer(arena, free, work.object[i].at);
        vec_push(arena, out, work.object[i]);
    }
    report_first(arena, &work);
    stop_check(arena_ctx(arena));
    if (times) *times = sum_times(&work);
}

ToolFound tool_found(Arena *arena, const char *name, char *path, const char *line,
                     const char *install) {
    ToolFound found = {.name = name, .install = install};
    if (!path) return found;
    found.path = arena_printf(arena, "%s", path);
    free(path);
    const char *argv[] = {found.path, "--version", NULL};
    ToolRun run = {.path = found.path, .argv = argv};
    free(tool_run(&run));
    const char *at = run.out.at && line ? strstr(run.out.at, line) : run.out.at;
    if (!at) at = run.out.at;
    if (at) found.version = arena_printf(arena, "%.*s", (int)strcspn(at, "\n"), at);
    free(run.out.at);
    return found;
}

ToolFound tool_clang(Arena *arena) {
    return tool_found(arena, "clang-19", tool_path("WEIR_CLANG", WEIR_CLANG_PATH, "clang-19"), NULL,
                      "install the package clang-19, or set WEIR_CLANG to its path");
}

ToolFound tool_linker(Arena *arena) {
    return tool_found(arena, "ld.lld-19", tool_path("WEIR_LLD", WEIR_LLD_PATH, "ld.lld-19"), NULL,
                      "install the package lld-19, or set WEIR_LLD to its path");
}
