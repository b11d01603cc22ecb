/* SPDX-License-Identifier: Apache-2.0 */
/* weir tune: variants of kernels' lines (variants.c), measured on this machine, where they run.
 *
 * Kernels of one form are tuned together. In a round every form runs by its next variant, all of
 * them in one compiled model, whose timers tell the kernels apart. What was quicker than the lines
 * that the passes chose is measured once more beside them, and kept where it is quicker again. The
 * result is a recipe of those kernels' lines, for this CPU and this version of weir. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ir/flow_text.h"
#include "tools/weir/profile.h"
#include "tools/weir/variants.h"
#include "tools/weir/verbs.h"

/* A variant must be so much quicker when it is found, and still when it is tried again. */
static const double found = 0.97, confirmed = 0.98;
/* Forms below this share of a run are left alone. */
static const double least_share = 0.004;
enum { ROUNDS_MOST = 24, CONFIRMATIONS = 2 };

/* Kernels of one form. */
typedef struct Form {
    VEC(const Kernel *) kernel;
    VEC(Kernels) variants; /* by kernel; as many for each */
    double ms, best_ms;    /* of all its kernels: by the passes' lines, by the best variant's */
    int best;              /* a variant, or -1 */
} Form;

typedef struct Tune {
    Session *s;
    ProfileOptions o;
    const char *output, *trying; /* the latter: a recipe for a while */
    double max_time, began;
    const Flow *flow;
    VEC(Form *) form;
    double run_ms;
    int rc;
} Tune;

/* ---- recipes --------------------------------------------------------------------------------- */

static void put_head(const Tune *t, Text *out) {
    text_put(out, "only cpu ");
    text_name(out, t->s->driver.machine.name);
    text_put(out, "\nonly weir ");
    text_quoted(out, weir_version(), strlen(weir_version()));
    text_put(out, "\n");
}

static void put_form(const Tune *t, const Form *f, int variant, Text *out) {
    Printer p = {.out = out};
    for (int k = 0; k < f->kernel.n; k++) print_kernel(&p, t->flow, f->variants.at[k].at[variant]);
}

/* Times of the model by a recipe. */
static bool measure(Tune *t, Text *recipe, KernelTimes *times) {
    if (put_text(t->trying, text_str(recipe)) != EXIT_DONE) return false;
    if (weir_option(t->s->context, "recipe", t->trying)) return false;
    return profile_times(t->s, &t->o, times);
}

static double form_ms(const Tune *t, const Form *f, const KernelTimes *times) {
    double ms = 0;
    for (int k = 0; k < f->kernel.n; k++)
        ms += kernel_ms(times, intern(t->s->ctx, f->kernel.at[k]->name));
    return ms;
}

/* ---- the search ------------------------------------------------------------------------------ */

static void find_forms(Tune *t) {
    Arena *arena = t->s->arena;
    Table *by_form = table_new(arena);
    int lanes = t->s->driver.machine.vector_bytes / 4;
    for (int k = 0; k < t->flow->kernel.n; k++) {
        const Kernel *kernel = t->flow->kernel.at[k];
        const char *key = intern(t->s->ctx, kernel_form(arena, t->flow, kernel));
        Form *f = table_get(by_form, key);
        if (!f) {
            f = NEW(arena, Form);
            f->best = -1;
            table_put(by_form, key, f);
            vec_push(arena, &t->form, f);
        }
        vec_push(arena, &f->kernel, kernel);
        vec_push(arena, &f->variants, kernel_variants(arena, t->flow, kernel, lanes));
    }
}

static bool time_left(const Tune *t) {
    return now_ms() - t->began < t->max_time * 1e3;
}

static bool worth(const Tune *t, const Form *f, int round) {
    return round < f->variants.at[0].n && f->ms >= least_share * t->run_ms;
}

/* Each form's variant of this number; false when none has one. */
static bool try_round(Tune *t, int round, bool *any) {
    Text recipe = {.arena = t->s->arena};
    KernelTimes times;
    *any = false;
    for (int i = 0; i < t->form.n; i++) {
        if (!worth(t, t->form.at[i], round)) continue;
        put_form(t, t->form.at[i], round, &recipe);
        *any = true;
    }
    if (!*any) return true;
    if (!measure(t, &recipe, &times)) return false;
    for (int i = 0; i < t->form.n; i++) {
        Form *f = t->form.at[i];
        double ms = worth(t, f, round) ? form_ms(t, f, &times) : f->best_ms;
        if (ms < f->best_ms) f->best_ms = ms, f->best = round;
    }
    return true;
}

/* The best once more, beside the passes' lines, in turns: the least of each counts. */
static bool confirm(Tune *t) {
    Text none = {.arena = t->s->arena}, best = {.arena = t->s->arena};
    for (int i = 0; i < t->form.n; i++) {
        Form *f = t->form.at[i];
        if (f->best_ms > found * f->ms) f->best = -1;
        if (f->best >= 0) put_form(t, f, f->best, &best);
        f->ms = f->best_ms = 1e30;
    }
    for (int n = 0; n < 2 * CONFIRMATIONS; n++) {
        KernelTimes times;
        if (!measure(t, n % 2 ? &best : &none, &times)) return false;
        for (int i = 0; i < t->form.n; i++) {
            Form *f = t->form.at[i];
            double ms = form_ms(t, f, &times), *least = n % 2 ? &f->best_ms : &f->ms;
            if (ms < *least) *least = ms;
        }
    }
    for (int i = 0; i < t->form.n; i++)
        if (t->form.at[i]->best_ms > confirmed * t->form.at[i]->ms) t->form.at[i]->best = -1;
    return true;
}

static bool search(Tune *t) {
    KernelTimes times;
    Text none = {.arena = t->s->arena};
    if (!measure(t, &none, &times)) return false;
    t->run_ms = times.run_ms;
    for (int i = 0; i < t->form.n; i++)
        t->form.at[i]->ms = t->form.at[i]->best_ms = form_ms(t, t->form.at[i], &times);
    bool any = true;
    for (int round = 0; any && round < ROUNDS_MOST && time_left(t); round++)
        if (!try_round(t, round, &any)) return false;
    return confirm(t);
}

/* ---- the verb -------------------------------------------------------------------------------- */

static void tell(Tune *t) {
    Text out = {.arena = t->s->arena};
    double saved = 0;
    int kernels = 0;
    put_head(t, &out);
    for (int i = 0; i < t->form.n; i++) {
        const Form *f = t->form.at[i];
        if (f->best < 0) continue;
        saved += f->ms - f->best_ms;
        kernels += f->kernel.n;
        printf("%-48s %2d kernels  %9.4f -> %9.4f ms\n", f->kernel.at[0]->name, f->kernel.n, f->ms,
               f->best_ms);
        text_printf(&out, "# %.4f ms, before %.4f\n", f->best_ms, f->ms);
        put_form(t, f, f->best, &out);
    }
    printf("%d of %d kernels run by other lines: %.4f of %.4f ms saved\n", kernels,
           t->flow->kernel.n, saved, t->run_ms);
    t->rc = put_text(t->output, text_str(&out));
}

static void tune(Session *s) {
    Tune *t = s->user;
    t->s = s;
    t->began = now_ms();
    t->trying = arena_printf(s->arena, "%s.trying", t->output);
    t->flow = stage_flow(&s->driver.stage);
    t->rc = EXIT_MODEL;
    find_forms(t);
    bool done = search(t);
    unlink(t->trying);
    if (done) tell(t);
}

static bool tune_option(Args *a, void *user, bool *bad) {
    Tune *t = user;
    long threads;
    bool own = true;
    if (args_is(a, "o") || args_is(a, "output"))
        *bad = !(t->output = args_value(a));
    else if (args_is(a, "max-time"))
        *bad = !args_double(a, &t->max_time);
    else if (args_is(a, "min-time"))
        *bad = !args_double(a, &t->o.min_time);
    else if (args_is(a, "threads") && !(*bad = !args_int(a, 0, 1024, &threads)))
        t->o.threads = (int)threads;
    else
        own = input_option(a, &t->o.in, bad) || *bad;
    return own;
}

int verb_tune(Args *a) {
    const char *model;
    Tune t = {
        .o = {.in.random = true, .min_time = 0.3, .threads = 1}, .max_time = 120, .rc = EXIT_DONE};
    weir_context *c = context_new(false);
    int rc = session_args(a, c, &model, tune_option, &t) ? EXIT_DONE : EXIT_USAGE;
    if (rc == EXIT_DONE && !t.output) rc = usage_error(a, "needs -o FILE, the recipe to write");
    if (rc == EXIT_DONE && context_options(c)->target != TARGET_C)
        rc = usage_error(a, "measures on this machine's CPU: --target c");
    if (rc == EXIT_DONE && weir_option(c, "profile", "yes")) rc = EXIT_USAGE;
    if (rc == EXIT_DONE) rc = session_run(c, model, "schedule", tune, &t);
    weir_context_free(c);
    return rc == EXIT_DONE ? t.rc : rc;
}
