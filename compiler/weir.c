/* SPDX-License-Identifier: Apache-2.0 */
/* The library's interface over the driver. Every compilation runs in a context of its own, which is
 * gone when it is done; options live in the caller's. */
#include "weir.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "calls.h"
#include "driver.h"
#include "ir/stop.h"

struct weir_context {
    weir_diagnostic_fn *fn;
    void *user;
    Ctx *ctx; /* of the options */
    Options options;
    Stop stop; /* of what is compiled now */
};

struct weir_loaded {
    Loaded process; /* compiled into this process, or */
    void *library;  /* opened */
    const weir_model *model;
    weir_model copy; /* of a shorter descriptor */
};

const char *weir_version(void) {
    return WEIR_VERSION;
}

/* ---- diagnostics ----------------------------------------------------------------------------- */

/* Formatting may itself run out of memory: then the bare message must do. */
typedef struct Formatting {
    Ctx *ctx;
    const Diag *diag;
    const char *text;
} Formatting;

static void format(void *arg) {
    Formatting *f = arg;
    f->text = diag_format(ctx_arena(f->ctx), f->diag);
}

static void forward(void *user, const Diag *d) {
    const weir_context *c = user;
    if (!c->fn) return;
    Formatting f = {ctx_new(NULL, NULL), d, d->message};
    if (f.ctx) ctx_try(f.ctx, format, &f);
    weir_diagnostic out = {.size = sizeof out,
                           .severity = (int)d->severity,
                           .id = d->id,
                           .text = f.text,
                           .message = d->message,
                           .file = d->where.file,
                           .node = d->where.node,
                           .tensor = d->where.tensor,
                           .op = d->where.op,
                           .opset = d->where.opset,
                           .line = d->where.line};
    c->fn(c->user, &out);
    ctx_free(f.ctx);
}

static void forward_telling(void *user, Telling kind, const char *text) {
    static const char *const id[] = {
        [TELL_TEXT] = "print-after", [TELL_TIME] = "time-passes", [TELL_CONVERT] = "convert"};
    const weir_context *c = user;
    weir_diagnostic out = {.size = sizeof out,
                           .severity = kind == TELL_STEP ? 3 : 2,
                           .text = text,
                           .message = text,
                           .id = id[kind]};
    if (c->fn) c->fn(c->user, &out);
}

/* ---- contexts and options -------------------------------------------------------------------- */

const Options *context_options(const weir_context *c) {
    return &c->options;
}

Ctx *context_fork(weir_context *c) {
    Ctx *ctx = ctx_new(forward, c);
    if (!ctx) return NULL;
    ctx->runtime = &calls_runtime;
    ctx->stop = &c->stop;
    stop_begin(&c->stop, c->options.max_time, c->options.max_memory);
    return ctx;
}

void weir_cancel(weir_context *c) {
    c->stop.wished = 1;
}

weir_context *weir_context_new(weir_diagnostic_fn *fn, void *user) {
    weir_context *c = calloc(1, sizeof *c);
    if (!c) return NULL;
    c->fn = fn;
    c->user = user;
    options_default(&c->options);
    c->ctx = ctx_new(forward, c);
    if (c->ctx) {
        c->ctx->runtime = &calls_runtime;
        return c;
    }
    free(c);
    return NULL;
}

void weir_context_free(weir_context *c) {
    if (!c) return;
    ctx_free(c->ctx);
    free(c);
}

int weir_option_kind(const char *name) {
    return options_kind(name);
}

typedef struct Setting {
    weir_context *c;
    const char *name, *value;
} Setting;

static void set_option(void *arg) {
    Setting *s = arg;
    options_set(s->c->ctx, &s->c->options, s->name, s->value);
}

int weir_option(weir_context *c, const char *name, const char *value) {
    return ctx_try(c->ctx, set_option, &(Setting){c, name, value}) ? 0 : 1;
}

static void add_operators(void *arg) {
    Setting *s = arg;
    options_add_operators(s->c->ctx, &s->c->options, s->value);
}

int weir_operators(weir_context *c, const char *text) {
    return ctx_try(c->ctx, add_operators, &(Setting){c, "operators", text}) ? 0 : 1;
}

/* ---- compiling ------------------------------------------------------------------------------- */

typedef struct Task {
    weir_context *c;
    Ctx *ctx;
    Source source;
    const char *output;
    bool load; /* into this process */
    Loaded loaded;
} Task;

static void run_task(void *arg) {
    Task *t = arg;
    if (t->source.path) t->ctx->where.file = t->source.path;
    Driver d = driver_new(arena_new(t->ctx), &t->c->options, t->source, forward_telling, t->c);
    if (t->load)
        t->loaded = driver_load(&d);
    else
        driver_compile(&d, t->output);
}

/* 0, 1, 3 or 4, as weir_compile_file. A wish to cancel is fulfilled, or came too late. */
static int task(Task *t) {
    t->ctx = context_fork(t->c);
    if (!t->ctx) return 3;
    bool done = ctx_try(t->ctx, run_task, t);
    Code code = t->ctx->last_error;
    ctx_free(t->ctx);
    t->c->stop.wished = 0;
    if (done) return 0;
    return code == E_CANCELLED ? 4 : code == E_INTERNAL || code == E_TOOLCHAIN ? 3 : 1;
}

int weir_compile_file(weir_context *c, const char *model, const char *output) {
    return task(&(Task){.c = c, .source = {.path = model}, .output = output});
}

int weir_compile_memory(weir_context *c, const void *bytes, size_t n, const char *folder,
                        const char *output) {
    return task(
        &(Task){.c = c, .source = {.bytes = bytes, .n = n, .folder = folder}, .output = output});
}

static weir_loaded *load(weir_context *c, Source source) {
    Task t = {.c = c, .source = source, .load = true};
    if (task(&t) != 0) return NULL;
    weir_loaded *l = calloc(1, sizeof *l);
    if (!l) {
        loaded_free(&t.loaded);
        return NULL;
    }
    l->process = t.loaded;
    l->model = t.loaded.model;
    return l;
}

weir_loaded *weir_load_file(weir_context *c, const char *model) {
    return load(c, (Source){.path = model});
}

weir_loaded *weir_load_memory(weir_context *c, const void *bytes, size_t n, const char *folder) {
    return load(c, (Source){.bytes = bytes, .n = n, .folder = folder});
}

/* ---- opening --------------------------------------------------------------------------------- */

typedef struct Opening {
    Ctx *ctx;
    const char *path;
    void *library;
    const weir_model *model;
} Opening;

static void open_library(void *arg) {
    Opening *o = arg;
    const char *path = strchr(o->path, '/') ? o->path : internf(o->ctx, "./%s", o->path);
    o->library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!o->library)
        fail(o->ctx, E_LOAD, "cannot open \"%s\": %s; is it a library that \"weir compile\" wrote?",
             o->path, dlerror());
    weir_model_fn *descriptor = (weir_model_fn *)(uintptr_t)dlsym(o->library, WEIR_MODEL_SYMBOL);
    if (!descriptor)
        fail(o->ctx, E_LOAD,
             "\"%s\" is no compiled model: it does not export \"%s\"; make one with \"weir "
             "compile\"",
             o->path, WEIR_MODEL_SYMBOL);
    o->model = descriptor();
    if (o->model->abi != WEIR_ABI_VERSION)
        fail(o->ctx, E_LOAD,
             "\"%s\" speaks version %d of the interface, this is version %d; compile the model "
             "again",
             o->path, (int)o->model->abi, (int)WEIR_ABI_VERSION);
}

/* An older library's descriptor ends earlier: what it does not have is 0 in a copy. */
static const weir_model *whole_model(weir_loaded *l, const weir_model *model) {
    if (model->size >= sizeof l->copy) return model;
    memcpy(&l->copy, model, model->size);
    l->copy.size = sizeof l->copy;
    return &l->copy;
}

weir_loaded *weir_open(weir_context *c, const char *library) {
    weir_loaded *l = calloc(1, sizeof *l);
    Opening o = {.ctx = c->ctx, .path = library};
    if (l && ctx_try(c->ctx, open_library, &o)) {
        l->library = o.library;
        l->model = whole_model(l, o.model);
        return l;
    }
    if (o.library) dlclose(o.library);
    free(l);
    return NULL;
}

const weir_model *weir_loaded_model(const weir_loaded *l) {
    return l->model;
}

void weir_unload(weir_loaded *l) {
    if (!l) return;
    if (l->library)
        dlclose(l->library);
    else
        loaded_free(&l->process);
    free(l);
}
