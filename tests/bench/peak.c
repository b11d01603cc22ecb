/* SPDX-License-Identifier: Apache-2.0 */
/* What this machine can do at most: f32 FLOP a second by fused multiply-adds in registers, and
 * bytes a second read from memory, on N threads at once. cc -O3 -march=native -pthread peak.c -o
 * peak
 * && ./peak N prints both; the best of several rounds. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#ifdef __AVX512F__
enum { LANES = 16 };
#else
enum { LANES = 8 };
#endif
typedef float V __attribute__((vector_size(LANES * sizeof(float))));
typedef long W __attribute__((vector_size(LANES * sizeof(float))));

enum { CHAINS = 12, STEPS = 4000000, ROUNDS = 5 };
static const size_t block = (size_t)256 << 20;

typedef struct Job {
    pthread_barrier_t *start;
    void *memory;
    double from, to;
    float seen;
} Job;

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void *multiply(void *arg) {
    Job *job = arg;
    V c[CHAINS], a, b;
    for (int k = 0; k < LANES; k++) a[k] = 0.999f, b[k] = 1e-3f;
#pragma GCC unroll 16
    for (int k = 0; k < CHAINS; k++) c[k] = a;
    pthread_barrier_wait(job->start);
    job->from = now();
    for (int i = 0; i < STEPS; i++)
#pragma GCC unroll 16
        for (int k = 0; k < CHAINS; k++) {
            c[k] = c[k] * a + b;
            __asm__ volatile("" : "+v"(c[k]));
        }
#pragma GCC unroll 16
    for (int k = 1; k < CHAINS; k++) c[0] += c[k];
    __asm__ volatile("" : "+v"(c[0]));
    job->to = now();
    job->seen = c[0][0];
    return NULL;
}

static void *read_all(void *arg) {
    Job *job = arg;
    const W *at = job->memory;
    W sum[4] = {{0}};
    pthread_barrier_wait(job->start);
    job->from = now();
    for (size_t i = 0; i < block / sizeof(W); i += 4)
        for (int k = 0; k < 4; k++) sum[k] ^= at[i + (size_t)k];
    __asm__ volatile("" : "+v"(sum[0]), "+v"(sum[1]), "+v"(sum[2]), "+v"(sum[3]));
    job->to = now();
    job->seen = (float)(sum[0][0] ^ sum[1][0] ^ sum[2][0] ^ sum[3][0]);
    return NULL;
}

/* Seconds of the fastest round. */
static double best(void *(*work)(void *), Job *job, int n) {
    double least = 1e9;
    pthread_t *thread = malloc(sizeof *thread * (size_t)n);
    for (int round = 0; round < ROUNDS; round++) {
        for (int t = 0; t < n; t++) pthread_create(&thread[t], NULL, work, &job[t]);
        double from = 1e18, to = 0;
        for (int t = 0; t < n; t++) {
            pthread_join(thread[t], NULL);
            from = job[t].from < from ? job[t].from : from;
            to = job[t].to > to ? job[t].to : to;
        }
        if (to - from < least) least = to - from;
    }
    free(thread);
    return least;
}

int main(int argc, char **argv) {
    int n = argc > 1 ? atoi(argv[1]) : 1;
    Job *job = calloc((size_t)n, sizeof *job);
    pthread_barrier_t start;
    pthread_barrier_init(&start, NULL, (unsigned)n);
    for (int t = 0; t < n; t++) {
        job[t].start = &start;
        job[t].memory = aligned_alloc(64, block);
        memset(job[t].memory, t + 1, block);
    }
    double flop = 2.0 * LANES * CHAINS * STEPS * n / best(multiply, job, n);
    double bytes = (double)block * n / best(read_all, job, n);
    printf("%.4g %.4g\n", flop, bytes);
    return 0;
}
