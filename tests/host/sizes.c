/* SPDX-License-Identifier: Apache-2.0 */
/* Runs of random sizes and values on one instance: what it answers is what a fresh instance
 * answers, and its memory stays.
 *
 *   sizes RUNS LIBRARY[:LIMIT]...
 *
 * LIMIT is the largest size of a symbolic dim (8). The last line is "N passed, N failed, N
 * skipped"; the first failure ends the program. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host.h"

enum {
    ROUNDS = 6,
    FRESH = 8 /* every so many runs an instance that has not run yet answers too */
};

static void compare_fresh(const Model *m, Call *c, const weir_pool *pool, uint64_t got, int run) {
    weir_instance *fresh = instance_new(m, pool);
    if (call_run(m, fresh, c) != got)
        die("%s: a fresh instance answers run %d otherwise", m->path, run);
    weir_destroy(m->m, fresh);
}

/* The run of one size and its values. */
static uint64_t run_of(const Model *m, weir_instance *in, Call *c, int i) {
    call_size(m, c, (uint64_t)i + 1);
    call_fill(m, c, (uint64_t)i);
    return call_run(m, in, c);
}

/* All again, backwards: the same answers, and as what is largest has been seen, nothing grows. */
static void run_again(const Model *m, weir_instance *in, Call *c, const uint64_t *want, int n) {
    int64_t resident[ROUNDS] = {resident_bytes()}, heap = heap_bytes();
    for (int i = 0; i < n; i++) {
        int at = n - 1 - i;
        if (run_of(m, in, c, at) != want[at]) die("%s: run %d answers otherwise", m->path, at);
        resident[(int64_t)i * ROUNDS / n] = resident_bytes();
    }
    if (heap_bytes() > heap)
        die("%s: %lld bytes are kept by runs", m->path, (long long)(heap_bytes() - heap));
    if (growth(resident, ROUNDS) > 0)
        die("%s: %lld bytes more are resident after each round", m->path,
            (long long)growth(resident, ROUNDS));
}

static void try_sizes(Model *m, int threads, int runs) {
    int half = runs / 2;
    uint64_t *got = calloc((size_t)half, sizeof *got);
    model_open(m);
    weir_pool *pool = threads > 1 ? m->m->pool_new(threads) : NULL;
    weir_instance *in = instance_new(m, pool);
    Call *c = call_new(m, in);
    double start = now_ms();
    for (int i = 0; i < half; i++) {
        got[i] = run_of(m, in, c, i);
        if (i % FRESH == 0) compare_fresh(m, c, pool, got[i], i);
    }
    run_again(m, in, c, got, half);
    const char *name = strrchr(m->path, '/');
    printf("%s: %d runs on %d threads, %.1f s, %lld kB resident\n", name ? name + 1 : m->path,
           2 * half, threads, (now_ms() - start) * 1e-3, (long long)(resident_bytes() >> 10));
    call_free(m, c);
    weir_destroy(m->m, in);
    m->m->pool_free(pool);
    model_close(m);
    free(got);
}

int main(int argc, char **argv) {
    int runs = argc > 2 ? atoi(argv[1]) : 0;
    if (runs < 2 * ROUNDS)
        die("sizes RUNS LIBRARY[:LIMIT]...: at least %d runs, a library", 2 * ROUNDS);
    for (int i = 2; i < argc; i++) {
        char *colon = strrchr(argv[i], ':');
        Model m = {.path = argv[i], .limit = colon ? strtoll(colon + 1, NULL, 10) : 8};
        if (colon) *colon = '\0';
        try_sizes(&m, 1 + i % 2, runs);
    }
    printf("%d passed, 0 failed, 0 skipped\n", argc - 2);
    return 0;
}
