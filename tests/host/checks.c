/* SPDX-License-Identifier: Apache-2.0 */
/* What a host may rely on, tried with compiled models.
 *
 *   host [--start-most MS] [CHECK] LIBRARY[:LIMIT]...
 *
 * LIMIT is the largest size of a symbolic dim (8). Each check runs in a child; the last line is
 * "N passed, N failed, N skipped". */
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "host.h"

typedef struct Suite {
    Model model[64];
    int n;
    double start_most;
} Suite;

/* ---- memory ---------------------------------------------------------------------------------- */

/* After reserve no run allocates, the first and smaller ones included. */
static void runs_quietly(Suite *s) {
    for (int i = 0; i < s->n; i++) {
        Model *m = &s->model[i];
        model_open(m);
        for (int threads = 1; threads <= 3; threads++) {
            weir_pool *pool = threads > 1 ? m->m->pool_new(threads) : NULL;
            weir_instance *in = instance_new(m, pool);
            Call *c = call_new(m, in);
            if (m->m->reserve(in, c->in)) die("%s: reserve: %s", m->path, m->m->error(in));
            for (uint64_t seed = 0; seed < 12; seed++) {
                call_size(m, c, seed);
                int64_t before = allocations();
                call_try(m, in, c);
                int64_t made = allocations() - before;
                if (made)
                    die("%s: run %d on %d threads makes %lld allocations", m->path, (int)seed,
                        threads, (long long)made);
            }
            call_run(m, in, c);
            call_free(m, c);
            weir_destroy(m->m, in);
            m->m->pool_free(pool);
        }
        model_close(m);
    }
}

/* Beyond the reserve: an error that says so, and the instance goes on. */
static void keeps_to_its_reserve(Suite *s) {
    for (int i = 0; i < s->n; i++) {
        Model *m = &s->model[i];
        if (m->limit < 2) continue;
        model_open(m);
        weir_instance *in = instance_new(m, NULL);
        Call *c = call_new(m, in);
        int64_t limit = m->limit;
        m->limit = 1;
        call_size(m, c, 0);
        if (m->m->reserve(in, c->in)) die("%s: reserve: %s", m->path, m->m->error(in));
        uint64_t small = call_run(m, in, c);
        m->limit = limit;
        call_size(m, c, 0);
        weir_status status = call_try(m, in, c);
        if (status != WEIR_OK && status != WEIR_E_RESERVE)
            die("%s: status %d beyond the reserve: %s", m->path, (int)status, m->m->error(in));
        if (status && !strstr(m->m->error(in), "reserved"))
            die("%s: the error says \"%s\"", m->path, m->m->error(in));
        m->limit = 1;
        call_size(m, c, 0);
        if (call_run(m, in, c) != small) die("%s: other bits after an error", m->path);
        m->limit = limit;
        if (m->m->reserve(in, (call_size(m, c, 0), c->in))) die("%s: second reserve", m->path);
        call_run(m, in, c);
        call_free(m, c);
        weir_destroy(m->m, in);
        model_close(m);
    }
}

/* Ten thousand runs of random sizes: nothing grows once the largest has been seen. */
static void stays(Model *m, weir_instance *in, int runs) {
    enum { ROUNDS = 6 };
    int64_t resident[ROUNDS], heap = 0;
    Call *c = call_new(m, in);
    call_run(m, in, c);
    int files = open_files(), threads = thread_count();
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < runs / ROUNDS; i++)
            call_size(m, c, (uint64_t)(round * runs + i + 1)), call_run(m, in, c);
        resident[round] = resident_bytes();
        if (round == 0) heap = heap_bytes();
    }
    if (open_files() != files || thread_count() != threads)
        die("%s: files or threads grow", m->path);
    if (heap_bytes() > heap)
        die("%s: %lld bytes are kept by runs", m->path, (long long)(heap_bytes() - heap));
    if (growth(resident, ROUNDS) > 16 << 10) die("%s: memory grows run by run", m->path);
    call_free(m, c);
}

static void does_not_grow(Suite *s) {
    int used = 0;
    for (int i = 0; i < s->n; i++) used += s->model[i].limit > 1;
    for (int i = 0; i < s->n; i++) {
        Model *m = &s->model[i];
        if (m->limit < 2) continue;
        model_open(m);
        weir_pool *pool = m->m->pool_new(2);
        weir_instance *in = instance_new(m, i % 2 ? pool : NULL);
        stays(m, in, 10000 / used + 6);
        weir_destroy(m->m, in);
        m->m->pool_free(pool);
        model_close(m);
    }
}

/* ---- many ------------------------------------------------------------------------------------ */

static void copy_file(const char *from, const char *to) {
    char buffer[65536];
    int in = open(from, O_RDONLY | O_CLOEXEC),
        out = open(to, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0700);
    ssize_t n;
    if (in < 0 || out < 0) die("cannot copy %s to %s", from, to);
    while ((n = read(in, buffer, sizeof buffer)) > 0)
        if (write(out, buffer, (size_t)n) != n) die("cannot write %s", to);
    close(in);
    close(out);
}

/* All at once, each run on a pool of its own; then all closed. */
static void load_all(Model *m, int n) {
    weir_instance **in = calloc((size_t)n, sizeof *in);
    weir_pool **pool = calloc((size_t)n, sizeof *pool);
    for (int i = 0; i < n; i++) {
        model_open(&m[i]);
        pool[i] = m[i].m->pool_new(2);
        in[i] = instance_new(&m[i], pool[i]);
    }
    for (int i = 0; i < n; i++) {
        Call *c = call_new(&m[i], in[i]);
        call_run(&m[i], in[i], c);
        call_free(&m[i], c);
    }
    if (thread_count() < n) die("%d threads with %d pools in use", thread_count(), n);
    for (int i = 0; i < n; i++) {
        weir_destroy(m[i].m, in[i]);
        m[i].m->pool_free(pool[i]);
        model_close(&m[i]);
    }
    free(in);
    free(pool);
}

static void check_gone(const Model *m, int n, int files) {
    for (int i = 0; i < n; i++)
        if (is_mapped(m[i].path)) die("%s is mapped after dlclose", m[i].path);
    if (open_files() != files) die("%d files are open, %d were", open_files(), files);
    if (thread_count() != 1) die("%d threads are left", thread_count());
}

/* A hundred models in one process: 100 different files, opened together, six times. dlopen itself
 * keeps some bytes (20 of glibc 2.36). */
static void loads_a_hundred(Suite *s) {
    enum { MANY = 100, ROUNDS = 6 };
    Model *m = calloc(MANY, sizeof *m);
    char folder[] = "/tmp/weir-host-XXXXXX", path[64];
    int64_t resident[ROUNDS], heap[ROUNDS];
    if (!mkdtemp(folder)) die("no folder for copies");
    for (int i = 0; i < MANY; i++) {
        snprintf(path, sizeof path, "%s/%d.so", folder, i);
        copy_file(s->model[i % s->n].path, path);
        m[i] = (Model){.path = strdup(path), .limit = s->model[i % s->n].limit};
    }
    int files = open_files();
    for (int round = 0; round < ROUNDS; round++) {
        load_all(m, MANY);
        resident[round] = resident_bytes();
        heap[round] = heap_bytes();
        check_gone(m, MANY, files);
    }
    for (int i = 0; i < MANY; i++) unlink(m[i].path);
    rmdir(folder);
    if (growth(heap, ROUNDS) > 64 * MANY || growth(resident, ROUNDS) > 64 << 10)
        die("each round of %d models keeps %lld bytes of heap, %lld resident", MANY,
            (long long)growth(heap, ROUNDS), (long long)growth(resident, ROUNDS));
}

/* ---- threads --------------------------------------------------------------------------------- */

static void same_bits(Suite *s) {
    for (int i = 0; i < s->n; i++) {
        Model *m = &s->model[i];
        uint64_t want = 0;
        model_open(m);
        for (int threads = 1; threads <= 5; threads++) {
            weir_pool *pool = m->m->pool_new(threads);
            weir_instance *in = instance_new(m, pool);
            Call *c = call_new(m, in);
            uint64_t got = call_run(m, in, c);
            if (threads > 1 && got != want) die("%s: other bits on %d threads", m->path, threads);
            want = got;
            call_free(m, c);
            weir_destroy(m->m, in);
            m->m->pool_free(pool);
        }
        model_close(m);
    }
}

typedef struct Caller {
    Model *m;
    weir_pool *pool;
    uint64_t want[8];
    bool shares; /* the pool with the other caller */
} Caller;

static void *call_often(void *arg) {
    Caller *c = arg;
    weir_pool *pool = c->shares ? c->pool : c->m->m->pool_new(2);
    weir_instance *in = instance_new(c->m, pool);
    Call *call = call_new(c->m, in);
    for (uint64_t k = 0; k < 200; k++) {
        call_size(c->m, call, k % 8);
        if (call_run(c->m, in, call) != c->want[k % 8])
            die("%s: wrong bits beside another thread", c->m->path);
    }
    call_free(c->m, call);
    weir_destroy(c->m->m, in);
    if (!c->shares) c->m->m->pool_free(pool);
    return NULL;
}

/* Two host threads at once: of one model and of two, with pools of their own and with one for both,
 * which another model made. */
static void instances_are_independent(Suite *s) {
    for (int i = 0; i < s->n; i++) model_open(&s->model[i]);
    weir_pool *pool = s->model[0].m->pool_new(2);
    for (int i = 0; i < s->n; i++) {
        for (int mode = 0; mode < 4; mode++) {
            Caller caller[2];
            pthread_t thread[2];
            for (int k = 0; k < 2; k++) {
                Model *m = &s->model[mode & 1 ? (i + k) % s->n : i];
                weir_instance *in = instance_new(m, NULL);
                Call *c = call_new(m, in);
                caller[k] = (Caller){.m = m, .pool = pool, .shares = mode > 1};
                for (uint64_t seed = 0; seed < 8; seed++)
                    call_size(m, c, seed), caller[k].want[seed] = call_run(m, in, c);
                call_free(m, c);
                weir_destroy(m->m, in);
            }
            for (int k = 0; k < 2; k++) pthread_create(&thread[k], NULL, call_often, &caller[k]);
            for (int k = 0; k < 2; k++) pthread_join(thread[k], NULL);
        }
    }
    s->model[0].m->pool_free(pool);
    for (int i = 0; i < s->n; i++) model_close(&s->model[i]);
}

/* fork between create and run, and between two runs; parent and child both get the right bits. */
static void survives_fork(Suite *s) {
    for (int i = 0; i < s->n; i++) {
        Model *m = &s->model[i];
        model_open(m);
        weir_pool *pool = m->m->pool_new(2);
        weir_instance *in = instance_new(m, pool), *alone = instance_new(m, NULL);
        Call *c = call_new(m, in);
        uint64_t want = call_run(m, alone, c);
        for (int round = 0; round < 2; round++) {
            pid_t pid = fork();
            if (pid == 0) {
                bool right = call_run(m, in, c) == want && call_run(m, in, c) == want;
                weir_destroy(m->m, in);
                m->m->pool_free(pool);
                _exit(right ? 0 : 1);
            }
            int status = 1;
            waitpid(pid, &status, 0);
            if (status) die("%s: wrong in a child", m->path);
            if (call_run(m, in, c) != want) die("%s: wrong after a fork", m->path);
        }
        call_free(m, c);
        weir_destroy(m->m, in);
        weir_destroy(m->m, alone);
        m->m->pool_free(pool);
        model_close(m);
    }
}

/* ---- start ----------------------------------------------------------------------------------- */

/* Milliseconds of this thread, so that other processes do not count: from dlopen to the first
 * output; *run gets those of the fastest run after it. */
static double start_ms(const Model *m, double *run) {
    Model sized = {.path = m->path, .limit = m->limit}, timed = sized;
    model_open(&sized);
    weir_instance *in = instance_new(&sized, NULL);
    Call *c = call_new(&sized, in);
    weir_destroy(sized.m, in);
    model_close(&sized);
    double start = cpu_ms();
    model_open(&timed);
    in = instance_new(&timed, NULL);
    call_try(&timed, in, c);
    double first = cpu_ms() - start;
    for (int k = 0; k < 5; k++) {
        start = cpu_ms();
        call_try(&timed, in, c);
        if (cpu_ms() - start < *run) *run = cpu_ms() - start;
    }
    call_free(&timed, c);
    weir_destroy(timed.m, in);
    model_close(&timed);
    return first;
}

/* Loading, create and what the first run has to do more than others: the least of seven. */
static void starts_fast(Suite *s) {
    for (int i = 0; i < s->n; i++) {
        double first = 1e9, run = 1e9;
        for (int round = 0; round < 7; round++) {
            double ms = start_ms(&s->model[i], &run);
            if (ms < first) first = ms;
        }
        const char *path = s->model[i].path;
        printf("start %s: %.2f ms beyond a run of %.2f ms\n", path, first - run, run);
        fflush(stdout);
        if (first - run > s->start_most)
            die("%s starts too late: at most %.0f ms", path, s->start_most);
    }
}

/* ---- all ------------------------------------------------------------------------------------- */

static const struct {
    const char *name;
    void (*check)(Suite *s);
} checks[] = {
    {"runs_quietly", runs_quietly},   {"keeps_to_its_reserve", keeps_to_its_reserve},
    {"does_not_grow", does_not_grow}, {"loads_a_hundred", loads_a_hundred},
    {"same_bits", same_bits},         {"instances_are_independent", instances_are_independent},
    {"survives_fork", survives_fork}, {"starts_fast", starts_fast},
};

static bool passes(void (*check)(Suite *s), Suite *s) {
    int status = 1;
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        check(s);
        fflush(NULL);
        _exit(0);
    }
    if (pid < 0 || waitpid(pid, &status, 0) != pid) return false;
    if (WIFSIGNALED(status)) printf("FAIL ended by signal %d\n", WTERMSIG(status));
    return status == 0;
}

int main(int argc, char **argv) {
    Suite s = {.start_most = 20};
    const char *only = NULL;
    int passed = 0, failed = 0;
    for (int i = 1; i < argc; i++) {
        char *colon = strrchr(argv[i], ':');
        if (!strcmp(argv[i], "--start-most") && i + 1 < argc) {
            s.start_most = strtod(argv[++i], NULL);
        } else if (!strstr(argv[i], ".so")) {
            only = argv[i];
        } else if (s.n < 64) {
            int64_t limit = colon ? strtoll(colon + 1, NULL, 10) : 8;
            if (colon) *colon = '\0';
            const char *path = realpath(argv[i], NULL);
            s.model[s.n++] = (Model){.path = path ? path : argv[i], .limit = limit};
        }
    }
    for (size_t i = 0; s.n && i < sizeof checks / sizeof *checks; i++) {
        if (only && strcmp(only, checks[i].name)) continue;
        double start = now_ms();
        bool ok = passes(checks[i].check, &s);
        ok ? passed++ : failed++;
        printf("%s %s (%.1f s)\n", ok ? "ok  " : "FAIL", checks[i].name, (now_ms() - start) * 1e-3);
    }
    printf("%d passed, %d failed, 0 skipped\n", passed, failed);
    return failed || !passed;
}
