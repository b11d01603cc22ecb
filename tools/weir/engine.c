/* SPDX-License-Identifier: Apache-2.0 */
/* Opening and running a model, and making its inputs. */
#include "tools/weir/guard.h"
#include "tools/weir/engine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

double now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

/* Texts that --print-after asked for go to standard output; steps are shown on a terminal alone, in
 * one line that the next one replaces. */
void print_telling(bool progress, FILE *to, const char *text) {
    if (progress && text) guard_step(text);
    if (progress && !isatty(STDERR_FILENO)) return;
    if (isatty(STDERR_FILENO)) fputs("\r\033[K", stderr);
    if (!text) return;
    size_t n = strlen(text);
    fprintf(progress ? stderr : to, "%s%s", text,
            progress || (n && text[n - 1] == '\n') ? "" : "\n");
    fflush(progress ? stderr : to);
}

static void print_diagnostic(void *user, const weir_diagnostic *d) {
    const bool *library = user;
    bool asked = d->severity == 2 && d->id && strcmp(d->id, "time-passes");
    if (asked && !*library && !strcmp(d->id, "convert")) return;
    print_telling(d->severity == 3, asked ? stdout : stderr, d->text);
}

weir_context *context_new(bool library) {
    static bool is_library[] = {false, true};
    weir_context *c = weir_context_new(print_diagnostic, &is_library[library]);
    if (!c) out_of_memory();
    return c;
}

/* One that this verb has no use for. */
static bool refused(const Args *a) {
    for (const char *const *name = a->without; name && *name; name++)
        if (args_is(a, *name)) return true;
    return false;
}

bool compile_option(Args *a, weir_context *c, bool *bad) {
    if (refused(a)) {
        *bad = usage_error(a, "takes no \"%s\": %s", args_operand(a), a->why);
        return true;
    }
    int kind = weir_option_kind(a->name), at = a->next - 1;
    const char *value = kind == 1 ? args_value(a) : a->inlined ? a->inlined : "yes";
    if (kind) *bad = !value || weir_option(c, a->name, value) != 0;
    if (kind) a->compile = a->argv[at];
    return kind != 0;
}

/* ---- engines -------------------------------------------------------------------------------- */

bool path_ends(const char *s, const char *end) {
    size_t n = strlen(s), m = strlen(end);
    return n >= m && strcmp(s + n - m, end) == 0;
}

bool is_library(const char *path) {
    char magic[4] = "";
    FILE *f = path_ends(path, ".so") ? NULL : fopen(path, "rb");
    bool elf = f && fread(magic, 1, 4, f) == 4 && !memcmp(magic, "\177ELF", 4);
    if (f) fclose(f);
    return elf || path_ends(path, ".so");
}

bool compiled_already(const Args *a, const char *model) {
    if (!a->compile || !is_library(model)) return false;
    bool dim = !strncmp(a->compile, "--dim", 5);
    usage_error(a, "\"%s\" is compiled, \"%s\" has no effect on it%s", model, a->compile,
                dim ? "; sizes of random inputs are given by --size SYMBOL=N" : "");
    return true;
}

static weir_loaded *load(Engine *e, const char *path, Aside *aside) {
    if (is_library(path)) return weir_open(e->context, path);
    if (e->kind == ENGINE_COMPILED) return weir_load_file(e->context, path);
    if (aside_compile(aside, e->context, path, false) != EXIT_DONE) return NULL;
    return weir_open(e->context, aside->library);
}

static bool open_compiled(Engine *e, const char *path, int threads, Aside *aside) {
    char error[512] = "";
    double start = now_ms();
    e->loaded = load(e, path, aside);
    print_telling(true, stderr, NULL);
    if (!e->loaded) return false;
    e->compile_ms = now_ms() - start;
    e->model = weir_loaded_model(e->loaded);
    e->ninputs = e->model->ninputs, e->noutputs = e->model->noutputs;
    e->inputs = e->model->inputs, e->outputs = e->model->outputs;
    start = now_ms();
    if (threads != 1) e->pool = e->model->pool_new(threads);
    if (weir_create(e->model, e->pool, &e->instance, error) != WEIR_OK)
        return fprintf(stderr, "error: cannot create an instance: %s\n", error), false;
    e->create_ms = now_ms() - start;
    return true;
}

bool engine_open(Engine *e, EngineKind kind, weir_context *context, const char *path, int threads) {
    Aside aside = {.folder = ""};
    double start = now_ms();
    *e = (Engine){.kind = kind, .context = context};
    bool ok =
        kind == ENGINE_EVAL ? eval_open(e, path, threads) : open_compiled(e, path, threads, &aside);
    if (kind == ENGINE_EVAL) e->compile_ms = now_ms() - start;
    aside_remove(&aside);
    if (!ok) engine_close(e);
    return ok;
}

bool engine_run(Engine *e, const HostTensor *inputs, HostTensor *outputs, char *error) {
    if (e->kind != ENGINE_EVAL) return host_run(e->model, e->instance, inputs, outputs, error);
    return *error = '\0', eval_run(e, inputs, outputs);
}

void engine_close(Engine *e) {
    if (e->instance) weir_destroy(e->model, e->instance);
    if (e->pool) e->model->pool_free(e->pool);
    if (e->loaded) weir_unload(e->loaded);
    if (e->eval) eval_close(e);
    *e = (Engine){.context = e->context};
}

bool engine_kind(Args *a, EngineKind *kind) {
    static const char *const names[] = {
        [ENGINE_COMPILED] = "compiled", [ENGINE_LIBRARY] = "library", [ENGINE_EVAL] = "eval"};
    const char *v = args_value(a);
    if (!v) return false;
    for (int i = 0; i < 3; i++)
        if (!strcmp(v, names[i])) return *kind = (EngineKind)i, true;
    return usage_error(a, "\"--engine %s\" is none of compiled, library, eval", v), false;
}

/* ---- inputs --------------------------------------------------------------------------------- */

bool input_option(Args *a, InputOptions *o, bool *bad) {
    if (args_is(a, "input")) {
        const char *v = args_value(a);
        *bad = !v || o->nfile == 256;
        if (!*bad) o->file[o->nfile++] = v;
        return true;
    }
    if (args_is(a, "size")) {
        const char *v = args_value(a);
        *bad = !v || o->nsize == INPUT_SIZES;
        if (!*bad) o->size[o->nsize++] = v;
        return true;
    }
    if (!args_is(a, "random")) return false;
    o->random = true;
    *bad = !args_int(a, 0, 1L << 40, &o->seed);
    return true;
}

size_t size_name(const char *size) {
    const char *eq = strrchr(size, '=');
    char *end = NULL;
    bool good = eq && strtoll(eq + 1, &end, 10) >= 0 && end > eq + 1 && !*end;
    return good ? (size_t)(eq - size) : 0;
}

bool size_given(const InputOptions *o, const char *symbol, int64_t *value) {
    size_t n = strlen(symbol);
    for (int i = 0; o && i < o->nsize; i++)
        if (size_name(o->size[i]) == n && !strncmp(o->size[i], symbol, n))
            return *value = strtoll(o->size[i] + n + 1, NULL, 10), true;
    return false;
}

/* Do sizes name symbols of the inputs? */
static bool sizes_fit(const Engine *e, const InputOptions *o) {
    for (int s = 0; s < o->nsize; s++) {
        size_t n = size_name(o->size[s]);
        if (!n) return fprintf(stderr, "error: \"--size %s\" is no SYMBOL=N\n", o->size[s]), false;
        bool found = false;
        for (int i = 0; i < e->ninputs; i++)
            for (int k = 0; k < e->inputs[i].rank; k++)
                found |= strlen(e->inputs[i].dims[k]) == n &&
                         !strncmp(e->inputs[i].dims[k], o->size[s], n);
        if (!found)
            return fprintf(stderr, "error: no input has a dim \"%.*s\"; \"weir info\" shows them\n",
                           (int)n, o->size[s]),
                   false;
    }
    return true;
}

static bool is_number(const char *dim, int64_t *v) {
    char *end;
    *v = strtoll(dim, &end, 10);
    return *dim && !*end;
}

static int64_t dim_size(const InputOptions *o, const char *dim) {
    int64_t v;
    return is_number(dim, &v) || size_given(o, dim, &v) ? v : 1;
}

static int port_index(const Engine *e, const char *name, size_t n) {
    for (int i = 0; i < e->ninputs; i++)
        if (strlen(e->inputs[i].name) == n && strncmp(e->inputs[i].name, name, n) == 0) return i;
    return -1;
}

static bool read_input(const Engine *e, const char *spec, HostTensor *inputs) {
    char error[256];
    const char *eq = strchr(spec, '='), *path = eq ? eq + 1 : spec;
    int i = eq ? port_index(e, spec, (size_t)(eq - spec)) : e->ninputs == 1 ? 0 : -1;
    if (i < 0) {
        fprintf(stderr, "error: the model has no input \"%.*s\"; it has",
                eq ? (int)(eq - spec) : 20, spec);
        for (int k = 0; k < e->ninputs; k++) fprintf(stderr, " \"%s\"", e->inputs[k].name);
        fprintf(stderr, "; write --input NAME=FILE\n");
        return false;
    }
    host_free(&inputs[i]);
    if (host_read(&inputs[i], path, e->inputs[i].object, error)) return true;
    fprintf(stderr, "error: input \"%s\": %s\n", e->inputs[i].name, error);
    return false;
}

bool inputs_make(const Engine *e, const InputOptions *o, HostTensor *inputs) {
    memset(inputs, 0, (size_t)e->ninputs * sizeof *inputs);
    if (!sizes_fit(e, o)) return false;
    for (int i = 0; i < o->nfile; i++)
        if (!read_input(e, o->file[i], inputs)) return false;
    for (int i = 0; i < e->ninputs; i++) {
        const weir_port *p = &e->inputs[i];
        if (inputs[i].t.data) continue;
        if (p->object) {
            fprintf(stderr, "error: input \"%s\" is a %s; write --input %s=FILE.pb\n", p->name,
                    p->object, p->name);
            return false;
        }
        if (!o->random) {
            fprintf(stderr,
                    "error: input \"%s\" is not given; use --input %s=FILE.npy or --random SEED\n",
                    p->name, p->name);
            return false;
        }
        inputs[i].t.dtype = p->dtype;
        inputs[i].t.rank = p->rank;
        for (int k = 0; k < p->rank; k++) inputs[i].t.dims[k] = dim_size(o, p->dims[k]);
        if (!host_has_size(&inputs[i].t)) {
            fprintf(stderr, "error: input \"%s\" would have too many elements\n", p->name);
            return false;
        }
        host_random(&inputs[i], (uint64_t)o->seed * 1000003u + (uint64_t)i);
    }
    return true;
}

void inputs_sizes(const Engine *e, const HostTensor *inputs, Arena *arena, InputOptions *o) {
    for (int i = 0; i < e->ninputs; i++) {
        const weir_port *p = &e->inputs[i];
        for (int k = 0; k < p->rank && !p->object; k++) {
            int64_t v = inputs[i].t.dims[k], known;
            if (is_number(p->dims[k], &known) || size_given(o, p->dims[k], &known)) continue;
            if (o->nsize == INPUT_SIZES) return;
            o->size[o->nsize++] = arena_printf(arena, "%s=%lld", p->dims[k], (long long)v);
        }
    }
}
