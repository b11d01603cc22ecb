/* SPDX-License-Identifier: Apache-2.0 */
/* weir bench: median, minimum and 90th percentile of a run of the library, what it took to compile
 * and to create, its size. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "tools/weir/profile.h"
#include "tools/weir/verbs.h"

enum { RUNS_MAX = 100000 };

typedef struct BenchOptions {
    InputOptions in;
    int threads;
    double min_time;
    const char *json;
} BenchOptions;

typedef struct Figures {
    double median, min, p90;
    int runs;
} Figures;

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* One warm-up, then runs until min_time seconds have passed (3 at least); buffers are made once. */
static bool measure(Engine *e, HostTensor *inputs, double min_time, Figures *f, char *error) {
    HostTensor *outputs = host_alloc((size_t)e->noutputs, sizeof *outputs);
    weir_tensor *in = host_alloc((size_t)e->ninputs, sizeof *in),
                *out = host_alloc((size_t)e->noutputs, sizeof *out);
    double *time = host_alloc(RUNS_MAX, sizeof *time), start = now_ms();
    bool ok = engine_run(e, inputs, outputs, error);
    for (int i = 0; ok && i < e->ninputs; i++) in[i] = inputs[i].t;
    for (int i = 0; ok && i < e->noutputs; i++) out[i] = outputs[i].t;
    for (f->runs = 0;
         ok && f->runs < RUNS_MAX && (f->runs < 3 || now_ms() - start < min_time * 1e3);
         f->runs++) {
        double from = now_ms();
        ok = weir_run(e->model, e->instance, in, out) == WEIR_OK;
        time[f->runs] = now_ms() - from;
        if (!ok) snprintf(error, 512, "%s", e->model->error(e->instance));
    }
    if (ok) {
        qsort(time, (size_t)f->runs, sizeof *time, by_value);
        f->median = time[f->runs / 2], f->min = time[0], f->p90 = time[f->runs * 9 / 10];
    }
    tensors_free(outputs, e->noutputs);
    free(outputs);
    free(in);
    free(out);
    free(time);
    return ok;
}

static int report(const Engine *e, const Figures *f, const char *path, int threads,
                  const char *json) {
    struct rusage usage;
    struct stat st;
    getrusage(RUSAGE_SELF, &usage);
    long long artifact = stat(path, &st) == 0 ? (long long)st.st_size : 0;
    char text[640], error[256];
    int n = snprintf(
        text, sizeof text,
        "{\"median_ms\": %.4f, \"min_ms\": %.4f, \"p90_ms\": %.4f, \"runs\": %d, \"threads\": %d, "
        "\"create_ms\": %.3f, \"compile_ms\": %.1f, \"artifact_bytes\": %lld, \"peak_rss_bytes\": "
        "%lld}\n",
        f->median, f->min, f->p90, f->runs, threads, e->create_ms, e->compile_ms, artifact,
        (long long)usage.ru_maxrss * 1024);
    printf("median %.4f ms  min %.4f  p90 %.4f  (%d runs, %d threads)  compile %.0f ms  create "
           "%.2f ms  library %.1f MB  peak %.0f MB\n",
           f->median, f->min, f->p90, f->runs, threads, e->compile_ms, e->create_ms,
           (double)artifact / (1 << 20), (double)usage.ru_maxrss / 1024);
    if (json && !write_whole(json, text, (size_t)n, error))
        return fprintf(stderr, "error: %s\n", error), EXIT_MODEL;
    return EXIT_DONE;
}

static int bench_library(weir_context *c, const char *library, double compile_ms,
                         const BenchOptions *o) {
    Engine e;
    char error[512];
    Figures f = {0};
    if (!engine_open(&e, ENGINE_COMPILED, c, library, o->threads)) return EXIT_MODEL;
    e.compile_ms = compile_ms;
    HostTensor *inputs = host_alloc((size_t)e.ninputs, sizeof *inputs);
    int rc = EXIT_MODEL;
    if (inputs_make(&e, &o->in, inputs)) {
        if (measure(&e, inputs, o->min_time, &f, error))
            rc = report(&e, &f, library, e.pool ? e.pool->threads : 1, o->json);
        else
            fprintf(stderr, "error: %s\n", error);
    }
    tensors_free(inputs, e.ninputs);
    free(inputs);
    engine_close(&e);
    return rc;
}

/* The library of a model is made by a child, so that the peak of memory is that of running. */
static int bench(weir_context *c, const char *model, const BenchOptions *o) {
    if (is_library(model)) return bench_library(c, model, 0, o);
    Aside aside = {.name = NULL};
    double start = now_ms();
    int rc = aside_compile(&aside, c, model, true);
    if (rc == EXIT_DONE) rc = bench_library(c, aside.library, now_ms() - start, o);
    aside_remove(&aside);
    return rc;
}

int verb_bench(Args *a) {
    const char *model = NULL;
    long threads = 1;
    bool bad = false, kernels = false;
    BenchOptions o = {.in = {.random = true}, .min_time = 1};
    weir_context *c = context_new(false);
    while (!bad && args_next(a)) {
        if (!a->name[0] && !model)
            model = args_operand(a);
        else if (args_is(a, "json"))
            bad = !(o.json = args_value(a));
        else if (args_is(a, "kernels"))
            kernels = true;
        else if (args_is(a, "min-time"))
            bad = !args_double(a, &o.min_time);
        else if (args_is(a, "threads"))
            bad = !args_int(a, 0, 1024, &threads);
        else if (!input_option(a, &o.in, &bad) && !compile_option(a, c, &bad))
            bad = usage_error(a, "does not know \"%s\"", args_operand(a));
    }
    if (!bad && !model) bad = usage_error(a, "needs a model");
    bad = bad || compiled_already(a, model);
    if (!bad && kernels && is_library(model))
        bad = usage_error(a, "--kernels needs the model: it is compiled again, with timers");
    o.threads = (int)threads;
    int rc = bad ? EXIT_USAGE : bench(c, model, &o);
    if (rc == EXIT_DONE && kernels)
        rc = profile_model(
            c, model,
            &(ProfileOptions){
                .in = o.in, .threads = o.threads, .min_time = o.min_time, .format = "text"});
    weir_context_free(c);
    return rc;
}
