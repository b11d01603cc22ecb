/* SPDX-License-Identifier: Apache-2.0 */
/* Profiling: the kernels' spans of many runs become one time per kernel: in each run the longest of
 * its threads' sums, then the median over the runs. Predicted is the roofline of the machine as the
 * passes see it: the longer of computing and of moving what is planned. */
#include "tools/weir/profile.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/weir/dump.h"
#include "tools/weir/movement.h"
#include "tools/weir/page.h"
#include "tools/weir/session.h"

enum { RUNS_LEAST = 5, RUNS_MOST = 1000 };

/* One name: a kernel with its variants, a call, or waiting. */
typedef struct Timed {
    const char *name;
    Movement *movement;    /* NULL: a call, or waiting */
    double ms;             /* median */
    double calls;          /* spans a run, of the thread that has most */
    double now, now_calls; /* of the thread that is added up */
    double sample[RUNS_MOST];
} Timed;

typedef struct Profile {
    Session *s;
    const ProfileOptions *o;
    Engine e;
    InputOptions sizes; /* as the inputs have them */
    Movements movements;
    VEC(Timed *) timed;
    Table *by_name;
    int runs;
    double run[RUNS_MOST], run_ms;
    char error[512];
} Profile;

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *v, int n) {
    qsort(v, (size_t)n, sizeof *v, by_value);
    return v[n / 2];
}

static int by_time(const void *a, const void *b) {
    const Timed *x = *(Timed *const *)a, *y = *(Timed *const *)b;
    return (x->ms < y->ms) - (x->ms > y->ms);
}

/* ---- measuring ------------------------------------------------------------------------------ */

static Timed *timed(Profile *p, const char *name) {
    name = intern(p->s->ctx, name);
    Timed *t = table_get(p->by_name, name);
    if (t) return t;
    t = NEW(p->s->arena, Timed);
    t->name = name;
    for (int i = 0; i < p->movements.n && !t->movement; i++)
        if (!strcmp(p->movements.at[i].kernel, name)) t->movement = &p->movements.at[i];
    table_put(p->by_name, name, t);
    vec_push(p->s->arena, &p->timed, t);
    return t;
}

static const char *span_name(const weir_profile *w, const weir_span *span) {
    return span->kernel < 0 ? "(waiting)" : w->kernel[span->kernel];
}

/* Adds the last run's spans: of each name the longest over the threads. */
static void add_run(Profile *p) {
    weir_profile w;
    p->e.model->profile(p->e.instance, &w);
    for (int t = 0; t < w.threads; t++) {
        Arena *scratch = arena_new(p->s->ctx);
        double *sum = NEW_ARRAY(scratch, double, w.nkernels + 1);
        int *calls = NEW_ARRAY(scratch, int, w.nkernels + 1);
        for (int64_t k = 0; k < w.nspans[t]; k++) {
            const weir_span *span = &w.span[t][k];
            sum[span->kernel + 1] += (double)(span->end - span->begin) * 1e-6;
            calls[span->kernel + 1]++;
        }
        for (int k = 0; k <= w.nkernels; k++) {
            if (!calls[k]) continue;
            Timed *to = timed(p, span_name(&w, &(weir_span){.kernel = k - 1}));
            to->now += sum[k], to->now_calls += calls[k];
        }
        for (int i = 0; i < p->timed.n; i++) {
            Timed *to = p->timed.at[i];
            if (to->now > to->sample[p->runs]) to->sample[p->runs] = to->now;
            if (to->now_calls > to->calls) to->calls = to->now_calls;
            to->now = to->now_calls = 0;
        }
        arena_free(scratch);
    }
}

static bool measure(Profile *p, HostTensor *inputs) {
    HostTensor *outputs = host_alloc((size_t)p->e.noutputs, sizeof *outputs);
    weir_tensor *in = host_alloc((size_t)p->e.ninputs, sizeof *in),
                *out = host_alloc((size_t)p->e.noutputs, sizeof *out);
    bool ok = engine_run(&p->e, inputs, outputs, p->error);
    for (int i = 0; ok && i < p->e.ninputs; i++) in[i] = inputs[i].t;
    for (int i = 0; ok && i < p->e.noutputs; i++) out[i] = outputs[i].t;
    double start = now_ms();
    while (ok && p->runs < RUNS_MOST &&
           (p->runs < RUNS_LEAST || now_ms() - start < p->o->min_time * 1e3)) {
        double from = now_ms();
        ok = weir_run(p->e.model, p->e.instance, in, out) == WEIR_OK;
        p->run[p->runs] = now_ms() - from;
        if (ok) add_run(p), p->runs++;
    }
    if (!ok && !p->error[0])
        snprintf(p->error, sizeof p->error, "%s", p->e.model->error(p->e.instance));
    tensors_free(outputs, p->e.noutputs);
    free(outputs);
    free(in);
    free(out);
    return ok;
}

static void settle(Profile *p) {
    p->run_ms = median(p->run, p->runs);
    for (int i = 0; i < p->timed.n; i++) {
        Timed *t = p->timed.at[i];
        t->ms = median(t->sample, p->runs);
        if (t->movement) t->movement->ms = t->ms;
    }
    qsort(p->timed.at, (size_t)p->timed.n, sizeof *p->timed.at, by_time);
}

/* ---- telling -------------------------------------------------------------------------------- */

static double predicted_ms(const Profile *p, const Movement *m) {
    const Machine *machine = &p->s->driver.machine;
    double cores = p->o->threads > 0 ? p->o->threads : machine->cores;
    const MemoryLevel *memory = &machine->level[machine->nlevels - 1];
    double compute = m->flop / (machine->fma_flops * cores);
    double move = m->planned / (memory->bandwidth * (memory->shared ? 1 : cores));
    return (compute > move ? compute : move) * 1e3;
}

static void put_text_rows(const Profile *p, Text *out) {
    text_printf(out, "%-36s %-14s %6s %9s %6s %9s %8s %8s\n", "kernel", "class", "spans", "ms",
                "share", "predicted", "GFLOP/s", "GB/s");
    for (int i = 0; i < p->timed.n; i++) {
        const Timed *t = p->timed.at[i];
        const Movement *m = t->movement;
        text_printf(out, "%-36s %-14s %6.0f %9.4f %5.1f%%", t->name, m ? m->class : "", t->calls,
                    t->ms, 100 * t->ms / p->run_ms);
        if (m && t->ms > 0)
            text_printf(out, " %9.4f %8.1f %8.1f", predicted_ms(p, m), m->flop / t->ms * 1e-6,
                        m->planned / t->ms * 1e-6);
        text_put(out, "\n");
    }
    text_printf(out, "one run: %.4f ms (median of %d, %d threads, with timers)\n", p->run_ms,
                p->runs, p->e.pool ? p->e.pool->threads : 1);
}

static void put_json_rows(const Profile *p, Text *out) {
    text_printf(out, "{\"run_ms\": %.4f, \"runs\": %d, \"threads\": %d, \"kernels\": [", p->run_ms,
                p->runs, p->e.pool ? p->e.pool->threads : 1);
    for (int i = 0; i < p->timed.n; i++) {
        const Timed *t = p->timed.at[i];
        const Movement *m = t->movement;
        text_printf(out, "%s\n  {\"kernel\": ", i ? "," : "");
        text_json(out, t->name);
        text_printf(out, ", \"spans\": %.0f, \"ms\": %.5f", t->calls, t->ms);
        if (m)
            text_printf(out,
                        ", \"class\": \"%s\", \"predicted_ms\": %.5f, \"flop\": %.0f, "
                        "\"planned_bytes\": %.0f, \"bound_bytes\": %.0f",
                        m->class, predicted_ms(p, m), m->flop, m->planned, m->bound);
        text_put(out, "}");
    }
    text_put(out, "]}\n");
}

/* The trace event format that Chrome and Perfetto read: complete events in microseconds. */
static int write_trace(const Profile *p) {
    weir_profile w;
    Text out = {.arena = p->s->arena};
    bool first = true;
    p->e.model->profile(p->e.instance, &w);
    text_put(&out, "{\"traceEvents\": [");
    for (int t = 0; t < w.threads; t++)
        for (int64_t k = 0; k < w.nspans[t]; k++, first = false) {
            const weir_span *span = &w.span[t][k];
            text_printf(&out, "%s\n{\"name\": ", first ? "" : ",");
            text_json(&out, span_name(&w, span));
            text_printf(&out,
                        ", \"ph\": \"X\", \"pid\": 1, \"tid\": %d, \"ts\": %.3f, \"dur\": %.3f}", t,
                        (double)span->begin * 1e-3, (double)(span->end - span->begin) * 1e-3);
        }
    text_put(&out, "]}\n");
    return put_text(p->o->trace, text_str(&out));
}

/* ---- for others ------------------------------------------------------------------------------ */

bool profile_times(Session *s, const ProfileOptions *o, KernelTimes *times) {
    Profile *p = NEW(s->arena, Profile);
    *p = (Profile){.s = s, .o = o, .by_name = table_new(s->arena)};
    if (!engine_open(&p->e, ENGINE_COMPILED, s->context, s->path, o->threads)) return false;
    HostTensor *inputs = host_alloc((size_t)p->e.ninputs, sizeof *inputs);
    bool done = inputs_make(&p->e, &o->in, inputs) && measure(p, inputs);
    if (p->error[0]) fprintf(stderr, "error: %s\n", p->error);
    tensors_free(inputs, p->e.ninputs);
    free(inputs);
    engine_close(&p->e);
    if (!done) return false;
    settle(p);
    times->run_ms = p->run_ms;
    times->by_name = p->by_name;
    return true;
}

double kernel_ms(const KernelTimes *times, const char *kernel) {
    const Timed *t = table_get(times->by_name, kernel);
    return t ? t->ms : 0;
}

/* ---- all of it ------------------------------------------------------------------------------ */

static int tell(Profile *p) {
    Text out = {.arena = p->s->arena};
    settle(p);
    int threads = p->e.pool ? p->e.pool->threads : 1;
    if (!strcmp(p->o->format, "html"))
        report_page(p->s, &p->movements, &p->sizes, threads, p->run_ms, &out);
    else
        !strcmp(p->o->format, "json") ? put_json_rows(p, &out) : put_text_rows(p, &out);
    int rc = put_text(p->o->output, text_str(&out));
    return rc == EXIT_DONE && p->o->trace ? write_trace(p) : rc;
}

static void count(Profile *p, const HostTensor *inputs) {
    const Driver *d = &p->s->driver;
    p->sizes = p->o->in;
    inputs_sizes(&p->e, inputs, p->s->arena, &p->sizes);
    p->movements = movements(p->s->arena, stage_flow(&d->stage), &d->machine, &p->sizes);
}

static int run_engine(Profile *p) {
    HostTensor *inputs = host_alloc((size_t)p->e.ninputs, sizeof *inputs);
    int rc = EXIT_MODEL;
    if (inputs_make(&p->e, &p->o->in, inputs)) {
        count(p, inputs);
        if (measure(p, inputs))
            rc = tell(p);
        else
            fprintf(stderr, "error: %s\n", p->error);
    }
    tensors_free(inputs, p->e.ninputs);
    free(inputs);
    return rc;
}

typedef struct Order {
    const ProfileOptions *o;
    int rc;
} Order;

static void profile(Session *s) {
    Order *order = s->user;
    Profile *p = NEW(s->arena, Profile);
    p->s = s;
    p->o = order->o;
    p->by_name = table_new(s->arena);
    p->movements = movements(s->arena, stage_flow(&s->driver.stage), &s->driver.machine, &p->o->in);
    order->rc = EXIT_MODEL;
    if (!engine_open(&p->e, ENGINE_COMPILED, s->context, s->path, p->o->threads)) return;
    order->rc = run_engine(p);
    engine_close(&p->e);
}

int profile_model(weir_context *c, const char *model, const ProfileOptions *o) {
    Order order = {o, EXIT_DONE};
    if (weir_option(c, "profile", "yes")) return EXIT_USAGE;
    int rc = session_run(c, model, last_pass(LEVEL_FLOW), profile, &order);
    return rc == EXIT_DONE ? order.rc : rc;
}
