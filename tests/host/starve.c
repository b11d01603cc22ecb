/* SPDX-License-Identifier: Apache-2.0 */
/* Every allocation of a compilation, of a create and of a run fails once, one after the other: each
 * time an error comes back (or a cache was done without), nothing crashes, nothing leaks, no file
 * is left.
 *
 *     starve MODEL EVERY FOLDER     fails the first, then each EVERY-th allocation of ours
 *
 * Ours are those that code in this executable asks for: the compiler and the runtime are linked
 * into it. (LLVM, isl and libc answer for themselves: LLVM ends the process when memory is out.)
 * The malloc family here comes before libc's. */
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "compiler/weir.h"

void *__libc_malloc(size_t n);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *at, size_t n);
void *__libc_memalign(size_t align, size_t n);
void __libc_free(void *at);

/* ---- allocations ----------------------------------------------------------------------------- */

enum { PLACES = 1 << 20 };
static struct {
    pthread_mutex_t lock;
    int64_t asked, fail_at; /* counted while fail_at is not 0 */
    void *where;            /* who asked for the one that failed */
    void *at[PLACES];       /* blocks of ours that live, by address */
    int64_t living;
} ours = {.lock = PTHREAD_MUTEX_INITIALIZER};

static bool is_ours(const void *caller) {
    extern const char __executable_start, etext;
    return (const char *)caller >= &__executable_start && (const char *)caller < &etext;
}

static size_t place_of(const void *at) {
    size_t i = ((uintptr_t)at >> 4) * UINT64_C(0x9e3779b97f4a7c15) >> 44;
    while (ours.at[i] && ours.at[i] != at) i = (i + 1) % PLACES;
    return i;
}

/* Takes the block out, and closes the gap in the run of places. */
static void forget(const void *at) {
    pthread_mutex_lock(&ours.lock);
    size_t hole = place_of(at);
    if (ours.at[hole]) {
        ours.living--;
        ours.at[hole] = NULL;
        for (size_t i = (hole + 1) % PLACES; ours.at[i]; i = (i + 1) % PLACES) {
            void *moved = ours.at[i];
            ours.at[i] = NULL;
            ours.at[place_of(moved)] = moved;
        }
    }
    pthread_mutex_unlock(&ours.lock);
}

static void *remember(void *at, const void *caller) {
    if (!at || !ours.fail_at || !is_ours(caller)) return at;
    pthread_mutex_lock(&ours.lock);
    ours.at[place_of(at)] = at;
    ours.living++;
    pthread_mutex_unlock(&ours.lock);
    return at;
}

static bool refused(void *caller) {
    if (!ours.fail_at || !is_ours(caller)) return false;
    bool now = __atomic_add_fetch(&ours.asked, 1, __ATOMIC_SEQ_CST) == ours.fail_at;
    if (now) ours.where = caller;
    if (now) errno = ENOMEM;
    return now;
}

#define CALLER __builtin_return_address(0)

void *malloc(size_t n) {
    return refused(CALLER) ? NULL : remember(__libc_malloc(n), CALLER);
}

void *calloc(size_t n, size_t size) {
    return refused(CALLER) ? NULL : remember(__libc_calloc(n, size), CALLER);
}

void *memalign(size_t align, size_t n) {
    return refused(CALLER) ? NULL : remember(__libc_memalign(align, n), CALLER);
}

void *aligned_alloc(size_t align, size_t n) {
    return refused(CALLER) ? NULL : remember(__libc_memalign(align, n), CALLER);
}

int posix_memalign(void **at, size_t align, size_t n) {
    *at = refused(CALLER) ? NULL : remember(__libc_memalign(align, n), CALLER);
    return *at ? 0 : ENOMEM;
}

void *realloc(void *at, size_t n) {
    if (refused(CALLER)) return NULL;
    if (at) forget(at);
    return remember(__libc_realloc(at, n), CALLER);
}

void free(void *at) {
    if (at) forget(at);
    __libc_free(at);
}

/* ---- what is tried --------------------------------------------------------------------------- */

typedef struct Try {
    const char *model, *library;
    int errors;
} Try;

static void note(void *user, const weir_diagnostic *d) {
    Try *t = user;
    t->errors += d->severity == 0;
}

static int compile(Try *t) {
    weir_context *c = weir_context_new(note, t);
    if (!c) return 1;
    int code = weir_option(c, "j", "1") ? 1 : weir_compile_file(c, t->model, t->library);
    weir_context_free(c);
    return code;
}

static int64_t count_of(const weir_tensor *t) {
    int64_t n = 1;
    for (int k = 0; k < t->rank; k++) n *= t->dims[k];
    return n;
}

/* On two threads and zeros, every symbolic dim 3. */
static int create_and_run(const weir_model *m) {
    static char data[8][1 << 22];
    weir_tensor in[8] = {{0}}, out[8] = {{0}};
    weir_pool *pool = m->pool_new(2);
    weir_instance *instance = NULL;
    int failed = !pool || weir_create(m, pool, &instance, NULL) != WEIR_OK;
    for (int i = 0; !failed && i < m->ninputs && i < 8; i++) {
        in[i] =
            (weir_tensor){.data = data[i], .dtype = m->inputs[i].dtype, .rank = m->inputs[i].rank};
        for (int k = 0; k < in[i].rank; k++) {
            long long size = strtoll(m->inputs[i].dims[k], NULL, 10);
            in[i].dims[k] = size > 0 ? size : 3;
        }
    }
    failed = failed || m->shapes(instance, in, out) != WEIR_OK;
    for (int i = 0; !failed && i < m->noutputs && i < 8; i++) {
        out[i].capacity = count_of(&out[i]);
        out[i].data = data[7 - i];
    }
    failed = failed || weir_run(m, instance, in, out) != WEIR_OK;
    if (instance) weir_destroy(m, instance);
    if (pool) m->pool_free(pool);
    return failed;
}

static int load(Try *t) {
    weir_context *c = weir_context_new(note, t);
    weir_loaded *l = c && !weir_option(c, "j", "1") ? weir_load_file(c, t->model) : NULL;
    int failed = !l || create_and_run(weir_loaded_model(l));
    weir_unload(l);
    weir_context_free(c);
    return failed;
}

/* ---- each in a process of its own ------------------------------------------------------------ */

enum { PASSED, DONE, WRONG }; /* DONE: there is no such allocation any more */

static int in_child(int (*fn)(Try *), Try *t, int64_t n) {
    bool writes = fn == compile;
    unlink(t->library);
    ours.fail_at = n;
    int code = fn(t);
    bool reached = ours.asked >= n, there = access(t->library, F_OK) == 0;
    ours.fail_at = 0;
    if (!reached && !code) return DONE;
    const char *wrong = ours.living                 ? "leaks"
                        : !reached                  ? "fails without a reason"
                        : writes && code && there   ? "leaves a file"
                        : writes && !code && !there ? "leaves no file"
                                                    : NULL;
    if (!wrong) return PASSED;
    extern const char __executable_start;
    printf("FAIL allocation %lld, asked for at %#zx, %s (%lld blocks)\n", (long long)n,
           (size_t)((char *)ours.where - &__executable_start), wrong, (long long)ours.living);
    return WRONG;
}

static int try_each(const char *what, int (*fn)(Try *), Try *t, int64_t every) {
    int tried = 0, failed = 0;
    for (int64_t n = 1;; n += every) {
        int status = 0;
        fflush(stdout);
        pid_t pid = fork();
        if (pid == 0) {
            int code = in_child(fn, t, n);
            fflush(stdout);
            _exit(code);
        }
        if (waitpid(pid, &status, 0) != pid) return 1;
        if (WIFEXITED(status) && WEXITSTATUS(status) == DONE) break;
        tried++;
        if (WIFEXITED(status) && WEXITSTATUS(status) == PASSED) continue;
        failed++;
        if (WIFSIGNALED(status))
            printf("FAIL allocation %lld: ended by signal %d\n", (long long)n, WTERMSIG(status));
        if (failed > 20) break;
    }
    printf("%s: %d allocations refused, %d wrong\n", what, tried, failed);
    return failed || tried < 10;
}

int main(int argc, char **argv) {
    static char library[4096];
    if (argc != 4) return 2;
    snprintf(library, sizeof library, "%s/starved.so", argv[3]);
    Try t = {.model = argv[1], .library = library};
    int every = atoi(argv[2]);
    if (compile(&t))
        return printf("FAIL cannot compile %s\n", argv[1]), 1; /* and fills the cache */
    return try_each("compile", compile, &t, every) |
           try_each("load, create and run", load, &t, every);
}
