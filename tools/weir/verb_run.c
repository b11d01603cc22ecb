/* SPDX-License-Identifier: Apache-2.0 */
/* weir compile, run, info, explain, ops. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "frontends/onnx/onnx.h"
#include "tools/weir/engine.h"
#include "tools/weir/verbs.h"

int verb_compile(Args *a) {
    const char *model = NULL, *output = NULL;
    bool bad = false, emits = false;
    weir_context *c = context_new();
    while (!bad && args_next(a)) {
        if (!a->name[0] && !model)
            model = args_operand(a);
        else if (args_is(a, "o") || args_is(a, "output"))
            bad = !(output = args_value(a));
        else if (emits |= args_is(a, "emit"), !compile_option(a, c, &bad))
            bad = usage_error(a, "does not know \"%s\"", args_operand(a));
    }
    if (!bad && !model) bad = usage_error(a, "needs a model");
    if (!bad && !output && !emits) bad = usage_error(a, "needs -o FILE");
    int rc = bad ? EXIT_USAGE : weir_compile_file(c, model, output);
    weir_context_free(c);
    return rc;
}

/* ---- run --------------------------------------------------------------------------------------------------- */

static void print_summary(const HostTensor *h) {
    printf("%s: %s[", h->name, dtype_text(h->t.dtype));
    for (int i = 0; i < h->t.rank; i++) printf("%s%lld", i ? "," : "", (long long)h->t.dims[i]);
    printf("]");
    int64_t n = host_count(&h->t);
    if (h->t.dtype == WEIR_C64 || h->t.dtype == WEIR_C128 || h->t.dtype == WEIR_STRING || !n) {
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
        if (!host_write(&out[i], dir, error)) return fprintf(stderr, "error: %s\n", error), EXIT_MODEL;
    return EXIT_DONE;
}

static int run_once(Engine *e, const InputOptions *in, const char *dir) {
    char error[512];
    HostTensor *inputs = calloc((size_t)e->ninputs + 1, sizeof *inputs);
    HostTensor *outputs = calloc((size_t)e->noutputs + 1, sizeof *outputs);
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
    weir_context *c = context_new();
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
            bad = usage_error(a, "does not know \"%s\"", args_operand(a));
    }
    if (!bad && !model) bad = usage_error(a, "needs a model");
    int rc = EXIT_USAGE;
    Engine e = {0};
    if (!bad) rc = engine_open(&e, kind, c, model, (int)threads) ? run_once(&e, &in, dir) : EXIT_MODEL;
    engine_close(&e);
    weir_context_free(c);
    return rc;
}

/* ---- info, explain, ops --------------------------------------------------------------------------------------- */

static void print_ports(const char *what, const weir_port *port, int n) {
    for (int i = 0; i < n; i++) {
        printf("%s %s: %s[", what, port[i].name, dtype_text(port[i].dtype));
        for (int k = 0; k < port[i].rank; k++) printf("%s%s", k ? "," : "", port[i].dims[k]);
        printf("]\n");
    }
}

int verb_info(Args *a) {
    const char *path = NULL;
    while (args_next(a)) {
        if (a->name[0] || path) return usage_error(a, "does not know \"%s\"", args_operand(a));
        path = args_operand(a);
    }
    if (!path) return usage_error(a, "needs a library");
    weir_context *c = context_new();
    weir_loaded *l = weir_open(c, path);
    if (l) {
        const weir_model *m = weir_loaded_model(l);
        printf("model %s\n", m->name);
        print_ports("input ", m->inputs, m->ninputs);
        print_ports("output", m->outputs, m->noutputs);
        printf("weights %lld bytes\nbuild %s\n", (long long)m->weight_bytes, m->build);
        weir_unload(l);
    }
    weir_context_free(c);
    return l ? EXIT_DONE : EXIT_MODEL;
}

int verb_explain(Args *a) {
    Code code;
    if (!args_next(a)) return usage_error(a, "needs a code such as W012");
    if (!code_parse(args_operand(a), &code)) return usage_error(a, "there is no code \"%s\"", args_operand(a));
    printf("%s: %s\n%s\n", code_id(code), code_title(code), code_explanation(code));
    return EXIT_DONE;
}

static void print_op(const OpRow *row, const char *format, bool first) {
    const char *domain = row->domain[0] ? row->domain : "ai.onnx", *types = row->types ? row->types : "";
    char until[16] = "";
    if (row->until) snprintf(until, sizeof until, "%d", row->until);
    if (!strcmp(format, "json"))
        printf("%s  {\"domain\": \"%s\", \"op\": \"%s\", \"since\": %d, \"until\": %s, \"types\": \"%s\"}",
               first ? "" : ",\n", domain, row->name, row->since, until[0] ? until : "null", types);
    else if (!strcmp(format, "markdown"))
        printf("| %s | %s | %d%s%s | %s |\n", domain, row->name, row->since, until[0] ? "–" : "+", until, types);
    else
        printf("%-14s %-28s %d%s%-4s %s\n", domain, row->name, row->since, until[0] ? "-" : "+", until, types);
}

int verb_ops(Args *a) {
    const char *format = "text";
    while (args_next(a)) {
        if (!args_is(a, "format")) return usage_error(a, "does not know \"%s\"", args_operand(a));
        if (!(format = args_value(a))) return EXIT_USAGE;
    }
    if (strcmp(format, "text") && strcmp(format, "markdown") && strcmp(format, "json"))
        return usage_error(a, "\"--format %s\" is none of text, markdown, json", format);
    const OpTable *ops = onnx_ops();
    if (!strcmp(format, "json")) printf("[\n");
    if (!strcmp(format, "markdown")) printf("| domain | operator | versions | types |\n|---|---|---|---|\n");
    for (int i = 0; i < ops->n; i++)
        for (const OpRow *row = ops->family[i]; row->name; row++) print_op(row, format, !i && row == ops->family[0]);
    if (!strcmp(format, "json")) printf("\n]\n");
    return EXIT_DONE;
}
