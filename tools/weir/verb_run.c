/* SPDX-License-Identifier: Apache-2.0 */
/* weir compile, run. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "tools/weir/engine.h"
#include "tools/weir/guard.h"
#include "tools/weir/session.h"
#include "tools/weir/verbs.h"

/* Sources (--emit), then the library (-o): whichever are asked for. */
static int compile(weir_context *c, const char *model, const char *output) {
    const Options *o = context_options(c);
    int rc = EXIT_DONE;
    if (o->emit != EMIT_LIBRARY) {
        rc = weir_compile_file(c, model, NULL);
        weir_option(c, "emit", "library");
    }
    if (rc == EXIT_DONE && output) rc = weir_compile_file(c, model, output);
    print_telling(true, stderr, NULL);
    if (rc == EXIT_DONE && o->stop_after && pass_result(find_pass(o->stop_after)) != LEVEL_NEST)
        fprintf(stderr,
                "stopped after \"%s\": nothing is written; \"weir dump --after %s\" prints what it "
                "makes\n",
                o->stop_after, o->stop_after);
    return rc;
}

int verb_compile(Args *a) {
    const char *model = NULL, *output = NULL;
    bool bad = false;
    weir_context *c = context_new(true);
    while (!bad && args_next(a)) {
        if (!a->name[0] && !model)
            model = args_operand(a);
        else if (args_is(a, "o") || args_is(a, "output"))
            bad = !(output = args_value(a));
        else if (!compile_option(a, c, &bad))
            bad = usage_error(a, "does not know \"%s\"", args_operand(a));
    }
    const Options *o = context_options(c);
    if (!bad && !model) bad = usage_error(a, "needs a model");
    if (!bad && !output && o->emit == EMIT_LIBRARY) bad = usage_error(a, "needs -o FILE");
    if (!bad && o->emit != EMIT_LIBRARY && !o->emit_dir)
        bad = usage_error(a, "--emit needs --emit-dir, the folder to write to");
    if (!bad && o->emit == EMIT_LIBRARY && o->emit_dir)
        bad = usage_error(a, "--emit-dir needs --emit, what to write there");
    guard_cancels(c);
    int rc = bad ? EXIT_USAGE : compile(c, model, output);
    guard_cancels(NULL);
    weir_context_free(c);
    return rc;
}

/* ---- run ------------------------------------------------------------------------------------ */

static void print_summary(const HostTensor *h) {
    if (host_is_object(h->t.dtype)) {
        printf("%s: ", h->name);
        host_print_object(&h->t);
        printf("\n");
        return;
    }
    printf("%s: %s[", h->name, dtype_text(h->t.dtype));
    for (int i = 0; i < h->t.rank; i++) printf("%s%lld", i ? "," : "", (long long)h->t.dims[i]);
    printf("]");
    int64_t n = host_count(&h->t);
    if (h->t.dtype == WEIR_C64 || h->t.dtype == WEIR_C128 || !n) {
        printf("\n");
        return;
    }
    double sum = 0, least = INFINITY, most = -INFINITY;
    for (int64_t i = 0; i < n; i++) {
        double v = host_get(&h->t, i);
        sum += v;
        least = v < least ? v : least, most = v > most ? v : most;
    }
    printf("  min %.6g  max %.6g  mean %.6g  [", least, most, sum / (double)n);
    for (int64_t i = 0; i < n && i < 6; i++) printf("%s%.6g", i ? ", " : "", host_get(&h->t, i));
    printf("%s]\n", n > 6 ? ", ..." : "");
}

static int write_outputs(const HostTensor *out, int n, const char *dir) {
    char error[256];
    if (mkdir(dir, 0777) && errno != EEXIST) {
        fprintf(stderr, "error: cannot make folder \"%s\": %s\n", dir, strerror(errno));
        return EXIT_MODEL;
    }
    for (int i = 0; i < n; i++)
        if (!host_write(&out[i], dir, error))
            return fprintf(stderr, "error: %s\n", error), EXIT_MODEL;
    return EXIT_DONE;
}

static int run_once(Engine *e, const InputOptions *in, const char *dir) {
    char error[512];
    HostTensor *inputs = host_alloc((size_t)e->ninputs, sizeof *inputs);
    HostTensor *outputs = host_alloc((size_t)e->noutputs, sizeof *outputs);
    int rc = EXIT_MODEL;
    if (!inputs_make(e, in, inputs)) {
        rc = EXIT_MODEL;
    } else if (!engine_run(e, inputs, outputs, error)) {
        if (error[0]) fprintf(stderr, "error: %s\n", error);
    } else {
        for (int i = 0; i < e->noutputs; i++) print_summary(&outputs[i]);
        rc = dir ? write_outputs(outputs, e->noutputs, dir) : EXIT_DONE;
    }
    tensors_free(inputs, e->ninputs);
    tensors_free(outputs, e->noutputs);
    free(inputs);
    free(outputs);
    return rc;
}

int verb_run(Args *a) {
    const char *model = NULL, *dir = NULL;
    long threads = 1;
    bool bad = false;
    InputOptions in = {0};
    EngineKind kind = ENGINE_COMPILED;
    weir_context *c = context_new(false);
    while (!bad && args_next(a)) {
        if (!a->name[0] && !model)
            model = args_operand(a);
        else if (args_is(a, "output-dir"))
            bad = !(dir = args_value(a));
        else if (args_is(a, "threads"))
            bad = !args_int(a, 0, 1024, &threads);
        else if (args_is(a, "engine"))
            bad = !engine_kind(a, &kind);
        else if (!input_option(a, &in, &bad) && !compile_option(a, c, &bad))
            bad = usage_error(a, "does not know \"%s\"%s", args_operand(a),
                              a->name[0] ? "" : "; write --input NAME=FILE");
    }
    if (!bad && !model) bad = usage_error(a, "needs a model");
    bad = bad || compiled_already(a, model);
    int rc = EXIT_USAGE;
    Engine e = {0};
    if (!bad)
        rc = engine_open(&e, kind, c, model, (int)threads) ? run_once(&e, &in, dir) : EXIT_MODEL;
    engine_close(&e);
    weir_context_free(c);
    return rc;
}
