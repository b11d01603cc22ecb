/* SPDX-License-Identifier: Apache-2.0 */
/* The library's interface over the driver: every call runs in a compilation context of its own. */
#include "compiler/weir.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "compiler/calls.h"
#include "compiler/driver.h"

struct weir_context {
    weir_diagnostic_fn *fn;
    void *user;
    Ctx *ctx; /* of the options */
    Options options;
};

struct weir_loaded {
    Ctx *ctx;   /* of a model in this process */
    void *so;   /* of an opened library */
    const weir_model *model;
};

const char *weir_version(void) { return WEIR_VERSION; }

static void forward(void *user, const Diag *d) {
    const weir_context *c = user;
    if (!c->fn) return;
    Ctx *ctx = ctx_new(NULL, NULL);
    const char *text = ctx ? diag_format(ctx_arena(ctx), d) : d->message;
    weir_diagnostic out = {sizeof out, (int)d->severity, d->id, text, d->message, d->where.file, d->where.node,
                           d->where.tensor, d->where.op, d->where.opset, d->where.line};
    c->fn(c->user, &out);
    if (ctx) ctx_free(ctx);
}

const Options *context_options(const weir_context *c) { return &c->options; }

Ctx *context_fork(weir_context *c) {
    Ctx *ctx = ctx_new(forward, c);
    if (ctx) ctx->run_call = calls_run;
    return ctx;
}

weir_context *weir_context_new(weir_diagnostic_fn *fn, void *user) {
    weir_context *c = calloc(1, sizeof *c);
    if (!c) return NULL;
    c->fn = fn, c->user = user;
    options_default(&c->options);
    c->ctx = context_fork(c);
    if (c->ctx) return c;
    free(c);
    return NULL;
}

void weir_context_free(weir_context *c) {
    if (!c) return;
    ctx_free(c->ctx);
    free(c);
}

/* ---- calls that may fail ---------------------------------------------------------------------------------------- */

typedef struct Task {
    weir_context *c;
    Ctx *ctx;
    const char *name, *value; /* an option */
    Source source;
    const char *output;
    weir_model_fn *descriptor;
} Task;

static void set_option(void *arg) {
    Task *t = arg;
    options_set(t->c->ctx, &t->c->options, t->name, t->value);
}

int weir_option(weir_context *c, const char *name, const char *value) {
    Task t = {.c = c, .name = name, .value = value ? value : "1"};
    return ctx_try(c->ctx, set_option, &t) ? 0 : 1;
}

static void compile(void *arg) {
    Task *t = arg;
    Arena *arena = arena_new(t->ctx);
    if (t->source.path) t->ctx->where.file = t->source.path;
    driver_compile(arena, &t->c->options, &t->source, t->output);
    arena_free(arena);
}

static void load(void *arg) {
    Task *t = arg;
    if (t->source.path) t->ctx->where.file = t->source.path;
    t->descriptor = driver_load(arena_new(t->ctx), &t->c->options, &t->source);
}

static int exit_code(const Ctx *ctx) { return ctx->last_error == E_INTERNAL || ctx->last_error == E_TOOLCHAIN ? 3 : 1; }

static int compile_source(weir_context *c, Source source, const char *output) {
    Task t = {.c = c, .ctx = context_fork(c), .source = source, .output = output};
    if (!t.ctx) return 3;
    int rc = ctx_try(t.ctx, compile, &t) ? 0 : exit_code(t.ctx);
    ctx_free(t.ctx);
    return rc;
}

int weir_compile_file(weir_context *c, const char *model, const char *output) {
    return compile_source(c, (Source){.path = model}, output);
}

int weir_compile_memory(weir_context *c, const void *bytes, size_t n, const char *folder, const char *output) {
    return compile_source(c, (Source){.bytes = bytes, .n = n, .folder = folder}, output);
}

static weir_loaded *load_source(weir_context *c, Source source) {
    weir_loaded *l = calloc(1, sizeof *l);
    Task t = {.c = c, .ctx = context_fork(c), .source = source};
    if (l && t.ctx && ctx_try(t.ctx, load, &t)) {
        l->ctx = t.ctx;
        l->model = t.descriptor();
        return l;
    }
    if (t.ctx) ctx_free(t.ctx);
    free(l);
    return NULL;
}

weir_loaded *weir_load_file(weir_context *c, const char *model) { return load_source(c, (Source){.path = model}); }

weir_loaded *weir_load_memory(weir_context *c, const void *bytes, size_t n, const char *folder) {
    return load_source(c, (Source){.bytes = bytes, .n = n, .folder = folder});
}

/* ---- opening a library -------------------------------------------------------------------------------------------- */

typedef struct Opening {
    Ctx *ctx;
    const char *path;
    void *so;
    const weir_model *model;
} Opening;

static void open_library(void *arg) {
    Opening *o = arg;
    const char *path = strchr(o->path, '/') ? o->path : internf(o->ctx, "./%s", o->path);
    o->so = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!o->so) fail(o->ctx, E_LOAD, "cannot open \"%s\": %s", o->path, dlerror());
    weir_model_fn *fn = (weir_model_fn *)dlsym(o->so, WEIR_MODEL_SYMBOL);
    if (!fn) fail(o->ctx, E_LOAD, "\"%s\" is not a library that Weir made", o->path);
    o->model = fn();
    if (o->model->abi != WEIR_ABI_VERSION)
        fail(o->ctx, E_LOAD, "\"%s\" speaks version %d of the interface, this is %d; compile the model again", o->path,
             (int)o->model->abi, (int)WEIR_ABI_VERSION);
}

weir_loaded *weir_open(weir_context *c, const char *library) {
    weir_loaded *l = calloc(1, sizeof *l);
    Opening o = {.ctx = c->ctx, .path = library};
    if (l && ctx_try(c->ctx, open_library, &o)) {
        l->so = o.so, l->model = o.model;
        return l;
    }
    if (o.so) dlclose(o.so);
    free(l);
    return NULL;
}

const weir_model *weir_loaded_model(const weir_loaded *l) { return l->model; }

void weir_unload(weir_loaded *l) {
    if (!l) return;
    if (l->ctx) ctx_free(l->ctx);
    if (l->so) dlclose(l->so);
    free(l);
}
