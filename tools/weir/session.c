/* SPDX-License-Identifier: Apache-2.0 */
/* Running passes for verbs, and finding passes by level. */
#include "tools/weir/session.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/weir/engine.h"

typedef struct Trying {
    Session session;
    SessionFn *fn;
    bool passes;
    const char *stop_after;
} Trying;

static void tell(void *user, Telling kind, const char *text) {
    (void)user;
    print_telling(kind == TELL_STEP, kind == TELL_TEXT ? stdout : stderr, text);
}

void session_passes(Session *s, const char *stop_after) {
    s->options = *context_options(s->context);
    if (stop_after) s->options.stop_after = stop_after;
    s->driver = driver_new(s->arena, &s->options, (Source){.path = s->path}, tell, NULL);
    s->driver.watch = s->watch;
    s->driver.watcher = s;
    driver_passes(&s->driver);
}

void session_sizes(Session *s, const InputOptions *sizes) {
    const Stage *stage = &s->driver.stage;
    const Flow *flow = stage_flow(stage);
    const Symbol *symbol = flow ? flow->symbol.at : stage->graph->symbol.at;
    for (int i = 0, n = flow ? flow->symbol.n : stage->graph->symbol.n; i < sizes->nsize; i++) {
        const char *size = sizes->size[i];
        if (!size_name(size)) fail(s->ctx, E_OPTION, "\"--size %s\" is no SYMBOL=N", size);
        const char *name = intern_n(s->ctx, size, size_name(size));
        bool found = false;
        for (int k = 0; k < n; k++) found |= !strcmp(dim_sym_name(symbol[k].sym), name);
        if (!found)
            fail(s->ctx, E_OPTION, "the model has no dim \"%s\"; \"weir info\" shows them", name);
    }
}

static void try_session(void *arg) {
    Trying *t = arg;
    t->session.ctx->where.file = t->session.path;
    t->session.arena = arena_new(t->session.ctx);
    if (t->passes) session_passes(&t->session, t->stop_after);
    t->fn(&t->session);
}

static int run(weir_context *c, const char *path, SessionFn *fn, void *user, bool passes,
               const char *stop) {
    Trying t = {.session = {.context = c, .ctx = context_fork(c), .path = path, .user = user},
                .fn = fn,
                .passes = passes,
                .stop_after = stop};
    if (!t.session.ctx) return EXIT_OURS;
    bool done = ctx_try(t.session.ctx, try_session, &t);
    Code code = t.session.ctx->last_error;
    ctx_free(t.session.ctx);
    print_telling(true, stderr, NULL);
    return done ? EXIT_DONE : code == E_INTERNAL || code == E_TOOLCHAIN ? EXIT_OURS : EXIT_MODEL;
}

int session_run(weir_context *c, const char *path, const char *stop_after, SessionFn *fn,
                void *user) {
    return run(c, path, fn, user, true, stop_after);
}

int session_try(weir_context *c, const char *path, SessionFn *fn, void *user) {
    return run(c, path, fn, user, false, NULL);
}

/* ---- passes --------------------------------------------------------------------------------- */

Level pass_result(const Pass *pass) {
    return pass->graph ? LEVEL_GRAPH : pass->lower || pass->flow ? LEVEL_FLOW : LEVEL_NEST;
}

const char *last_pass(Level level) {
    int n;
    const Pass *pass = pass_list(&n);
    const char *last = NULL;
    for (int i = 0; i < n; i++)
        if (pass_result(&pass[i]) == level) last = pass[i].name;
    return last;
}

const Pass *find_pass(const char *name) {
    int n;
    const Pass *pass = pass_list(&n);
    for (int i = 0; i < n; i++)
        if (!strcmp(pass[i].name, name)) return &pass[i];
    return NULL;
}

const Flow *stage_flow(const Stage *stage) {
    return stage->flow ? stage->flow : stage->program ? stage->program->flow : NULL;
}

/* ---- arguments ------------------------------------------------------------------------------ */

bool session_args(Args *a, weir_context *c, const char **model, OwnOption *own, void *user) {
    bool bad = false;
    *model = NULL;
    while (!bad && args_next(a)) {
        if (!a->name[0] && !*model)
            *model = args_operand(a);
        else if (!(own && own(a, user, &bad)) && !compile_option(a, c, &bad))
            bad = usage_error(a, "does not know \"%s\"", args_operand(a));
    }
    return !bad && (*model || !usage_error(a, "needs a model"));
}

bool page_unread(const Args *a, const char *format, const char *output) {
    if (strcmp(format, "html") || output || !isatty(STDOUT_FILENO)) return false;
    usage_error(a, "\"--format html\" is a page for a browser: -o FILE.html");
    return true;
}

int put_text(const char *path, const char *text) {
    char error[256];
    if (!path) return fputs(text, stdout) < 0 || fflush(stdout) ? EXIT_MODEL : EXIT_DONE;
    if (write_whole(path, text, strlen(text), error)) return EXIT_DONE;
    fprintf(stderr, "error: %s\n", error);
    return EXIT_MODEL;
}
