/* SPDX-License-Identifier: Apache-2.0 */
/* Nests evaluated from their text: lanes with tails, register rows, folds, gathers, bounds; and
 * speed. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "ir/nest.h"

typedef struct Job {
    Ctx *ctx;
    const char *text;
    Tensor buf[8];
    int64_t n;
    char message[512];
    Code code;
} Job;

static void see(void *user, const Diag *diag) {
    Job *job = user;
    job->code = diag->code;
    snprintf(job->message, sizeof job->message, "%s", diag->message);
    fprintf(stderr, "%s\n", diag->message);
}

static bool value_of(void *user, Dim sym, int64_t *value) {
    Job *job = user;
    *value = job->n;
    return strcmp(dim_sym_name(sym), "N") == 0;
}

static void run(void *at) {
    Job *job = at;
    const char *end;
    Nest *nest = nest_parse(ctx_arena(job->ctx), job->text, &end);
    nest_eval(nest, job->buf, value_of, job);
}

static bool eval(Job *job) {
    job->ctx = ctx_new(see, job);
    return ctx_try(job->ctx, run, job);
}

static float *floats(int n, int seed) {
    float *x = calloc((size_t)n + 16, 4);
    for (int i = 0; i < n; i++) x[i] = (float)((i * 37 + seed * 11) % 19 - 9) / 8;
    return x;
}

static const char gemm[] =
    "nest gemm on cpu (N in 1..) {\n"
    "  mem x : f32[N,64]  mem w : f32[64,48]  mem y : f32[N,48] written\n"
    "  parallel p : (N+3)/4 {\n"
    "    reg h : f32[4,3,16] = 0\n"
    "    for k : 64 {\n"
    "      for m : 4 unroll { for n : 3 unroll { for l : 16 vector if N - 4*p - m > 0 {\n"
    "        h[m,n,l] = fma(x[4*p+m,k], w[k,16*n+l], h[m,n,l])\n"
    "      } } }\n"
    "      prefetch w[k+1,0]\n"
    "    }\n"
    "    for m : 4 unroll { for n : 3 unroll { for l : 16 vector if N - 4*p - m > 0 {\n"
    "      y[4*p+m,16*n+l] = max(h[m,n,l], 0)\n"
    "    } } }\n"
    "  }\n"
    "}\n";

Test(nest_eval, gemm) {
    int n = 7;
    float *x = floats(n * 64, 1), *w = floats(64 * 48, 2), *y = floats(n * 48, 3);
    Job job = {.text = gemm, .n = n, .buf = {{.data = x}, {.data = w}, {.data = y}}};
    cr_assert(eval(&job));
    for (int i = 0; i < n * 48; i++) {
        float sum = 0;
        for (int k = 0; k < 64; k++) sum = fmaf(x[i / 48 * 64 + k], w[k * 48 + i % 48], sum);
        cr_assert_eq(y[i], sum > 0 ? sum : 0, "%d: %g %g", i, y[i], sum);
    }
    ctx_free(job.ctx);
}

/* The best of a few: another thread on the core may take half of it. */
Test(nest_eval, speed) {
    int n = 256;
    float *x = floats(n * 64, 1), *w = floats(64 * 48, 2), *y = floats(n * 48, 3);
    Job job = {.text = gemm, .n = n, .buf = {{.data = x}, {.data = w}, {.data = y}}};
    double best = 0;
    for (int i = 0; i < 5; i++) {
        struct timespec a, b;
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &a);
        cr_assert(eval(&job));
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &b);
        double s = (double)(b.tv_sec - a.tv_sec) + (double)(b.tv_nsec - a.tv_nsec) * 1e-9;
        double rate = (double)n * 64 * 48 / s * 1e-6;
        if (rate > best) best = rate;
        ctx_free(job.ctx);
    }
    printf("nest: %.0f M statement-lanes/s\n", best);
    /* 32 here; cores that other machines share make 19 of it. */
    cr_assert(best > 10 || getenv("WEIR_UNTIMED"));
}

/* Lanes fold 8-4-2-1, which for these values is told apart from adding in order. */
Test(nest_eval, fold) {
    float x[8] = {1e8f, 1, -1e8f, 1, 3, 1, 4, 1}, y[1];
    Job job = {.text = "nest f on cpu {\n  mem x : f32[8]  mem y : f32[1] written\n"
                       "  reg s : f32[8]\n  for l : 8 vector { s[l] = x[l] }\n"
                       "  fold sum:f32 8 s[0] -> y[0]\n}\n",
               .buf = {{.data = x}, {.data = y}}};
    cr_assert(eval(&job));
    float h[4] = {x[0] + x[4], x[1] + x[5], x[2] + x[6], x[3] + x[7]};
    cr_assert_eq(y[0], (h[0] + h[2]) + (h[1] + h[3]));
    ctx_free(job.ctx);
}

Test(nest_eval, gather_and_masks) {
    float table[20] = {0}, y[6] = {9, 9, 9, 9, 9, 9};
    int64_t ids[5] = {19, 0, 7, 3, 11};
    for (int i = 0; i < 20; i++) table[i] = (float)i * 10;
    Job job = {.text = "nest g on cpu (N in 1..) {\n  mem t : f32[20]  mem ids : i64[N]  mem y : "
                       "f32[6] written\n"
                       "  for l : 8 vector if l < N {\n"
                       "    body { r <- ids[l]  a <- t[r]  b = a + f32(l)  b -> y[l] }\n  }\n}\n",
               .n = 5,
               .buf = {{.data = table}, {.data = ids}, {.data = y}}};
    cr_assert(eval(&job));
    for (int i = 0; i < 5; i++) cr_assert_eq(y[i], (float)(ids[i] * 10 + i));
    cr_assert_eq(y[5], 9);
    ids[2] = -1;
    cr_assert(!eval(&job));
    cr_assert_eq(job.code, E_RUN);
    cr_assert(strstr(job.message, "\"t\""));
}

Test(nest_eval, outside) {
    float x[4] = {0}, y[4];
    Job job = {.text = "nest o on cpu {\n  mem x : f32[4]  mem y : f32[4] written\n"
                       "  for i : 4 { y[i] = x[i+1] }\n}\n",
               .buf = {{.data = x}, {.data = y}}};
    cr_assert(!eval(&job));
    cr_assert_eq(job.code, E_VERIFY);
    cr_assert(strstr(job.message, "\"x\"") && strstr(job.message, "4"));
    ctx_free(job.ctx);
}

/* What is not stored is NaN, not what lay there. */
Test(nest_eval, undefined_is_seen) {
    float y[1] = {0};
    Job job = {
        .text = "nest u on cpu {\n  mem y : f32[1] written\n  tile t : f32[4]\n  y[0] = t[2]\n}\n",
        .buf = {{.data = y}}};
    cr_assert(eval(&job));
    cr_assert(isnan(y[0]));
    ctx_free(job.ctx);
}
