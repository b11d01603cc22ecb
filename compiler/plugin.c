/* SPDX-License-Identifier: Apache-2.0 */
/* Passes of the user's own (weir_plugin.h): text out, text in, parsed, given its weights, verified,
 * and held to the model's inputs and outputs. */
#include "driver.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "compiler/weir_plugin.h"

/* What the plug-in says, in memory of our own: nothing may leave by `fail` through its frames. */
typedef struct Said {
    char *text, *message;
    size_t n, cap;
    bool no_memory;
} Said;

static void put(void *host, const char *text, size_t bytes) {
    Said *s = host;
    if (s->no_memory) return;
    if (s->n + bytes + 1 > s->cap) {
        size_t cap = 2 * (s->n + bytes + 1);
        char *at = realloc(s->text, cap);
        s->no_memory = !at;
        if (!at) return;
        s->text = at;
        s->cap = cap;
    }
    memcpy(s->text + s->n, text, bytes);
    s->text[s->n += bytes] = '\0';
}

static void error(void *host, const char *message) {
    Said *s = host;
    free(s->message);
    s->message = strdup(message);
}

static void drop(void *said) {
    Said *s = said;
    free(s->text);
    free(s->message);
}

/* ---- the option ------------------------------------------------------------------------------ */

/* P.so or P.so:after PASS */
void options_add_plugin(Ctx *ctx, Options *o, const char *value) {
    static const char mark[] = ":after ", usual[] = "clean";
    const char *at = strstr(value, mark), *after = at ? at + strlen(mark) : usual;
    Plugin p = {.path = at ? intern_n(ctx, value, (size_t)(at - value)) : intern(ctx, value)};
    int n;
    const Pass *list = pass_list(&n);
    for (int i = 0; i < n; i++)
        if (!strcmp(list[i].name, after)) p.after = &list[i];
    if (!p.after || !(p.after->flow || p.after->lower))
        fail(
            ctx, E_OPTION,
            "\"%s\" is no pass that leaves a Flow; a pass plug-in is given as P.so or \"P.so:after "
            "PASS\"",
            after);
    vec_push(ctx_arena(ctx), &o->plugin, p);
}

/* ---- calling --------------------------------------------------------------------------------- */

static void close_library(void *library) {
    dlclose(library);
}

static weir_plugin_fn *load(Arena *arena, const Plugin *p) {
    Ctx *ctx = arena_ctx(arena);
    void *library = dlopen(strchr(p->path, '/') ? p->path : internf(ctx, "./%s", p->path),
                           RTLD_NOW | RTLD_LOCAL);
    if (!library) fail(ctx, E_PLUGIN, "cannot open pass plug-in \"%s\": %s", p->path, dlerror());
    arena_defer(ctx_arena(ctx), close_library, library);
    weir_plugin_fn *fn = (weir_plugin_fn *)(uintptr_t)dlsym(library, WEIR_PLUGIN_SYMBOL);
    if (!fn)
        fail(ctx, E_PLUGIN, "\"%s\" is no pass plug-in: it does not export \"%s\" (weir_plugin.h)",
             p->path, WEIR_PLUGIN_SYMBOL);
    return fn;
}

/* The new text, in the arena; NULL when nothing was put. */
static const char *call(Arena *arena, const Plugin *p, const Flow *flow) {
    Ctx *ctx = arena_ctx(arena);
    Text text = {.arena = arena};
    Said *said = NEW(arena, Said);
    arena_defer(arena, drop, said);
    weir_plugin_fn *fn = load(arena, p);
    flow_print(&text, flow);
    weir_plugin_call c = {.size = sizeof c,
                          .after = p->after->name,
                          .text = text_str(&text),
                          .bytes = text.n,
                          .host = said,
                          .put = put,
                          .error = error};
    int bad = fn(&c);
    if (bad || said->message)
        fail(ctx, E_PLUGIN, "pass plug-in \"%s\" gives up with %d: %s", p->path, bad,
             said->message ? said->message : "it does not say why");
    if (said->no_memory) fail(ctx, E_MEMORY, "no memory for the text of \"%s\"", p->path);
    return said->text;
}

/* ---- the new flow ---------------------------------------------------------------------------- */

static const Cont *cont_named(const Flow *flow, const char *name) {
    for (int i = 0; i < flow->cont.n; i++)
        if (!strcmp(flow->cont.at[i].name, name)) return &flow->cont.at[i];
    return NULL;
}

static bool same_form(const Cont *a, const Cont *b) {
    bool same = a->type == b->type && a->rank == b->rank;
    for (int k = 0; same && k < a->rank; k++) same = a->shape[k] == b->shape[k];
    return same;
}

/* Large weights are not in the text: they are those of the old flow. */
static void give_data(Ctx *ctx, const Flow *old, Flow *made) {
    for (int i = 0; i < made->cont.n; i++) {
        Cont *c = &made->cont.at[i];
        if (c->kind != CONT_PARAM || c->data) continue;
        const Cont *from = cont_named(old, c->name);
        if (!from || from->kind != CONT_PARAM || !same_form(from, c))
            fail(ctx, E_PLUGIN, "there was no weight \"%s\" of this type and shape", c->name);
        c->data = from->data, c->unseen = from->unseen;
        c->data_bytes = from->data_bytes;
        c->from = from->from ? intern(ctx, from->from) : NULL;
    }
    if (old->prepare && made->prepare) give_data(ctx, old->prepare, (Flow *)made->prepare);
    if (!old->prepare != !made->prepare)
        fail(ctx, E_PLUGIN, "the constant part is %s", old->prepare ? "gone" : "new");
}

/* Containers of one kind, in their order, are the same in both. */
static void check_kind(Ctx *ctx, const Flow *old, const Flow *made, ContKind kind,
                       const char *what) {
    int b = 0;
    for (int a = 0; a < old->cont.n; a++) {
        if (old->cont.at[a].kind != kind) continue;
        while (b < made->cont.n && made->cont.at[b].kind != kind) b++;
        const Cont *x = &old->cont.at[a], *y = b < made->cont.n ? &made->cont.at[b++] : NULL;
        if (!y || strcmp(x->name, y->name) || !same_form(x, y))
            fail(ctx, E_PLUGIN, "%s \"%s\" is not what it was: inputs and outputs stay", what,
                 x->name);
    }
    for (; b < made->cont.n; b++)
        if (made->cont.at[b].kind == kind)
            fail(ctx, E_PLUGIN, "%s \"%s\" is new: inputs and outputs stay", what,
                 made->cont.at[b].name);
}

static const Flow *replace(Arena *arena, const Plugin *p, const Flow *flow) {
    Ctx *ctx = arena_ctx(arena);
    const char *text = call(arena, p, flow), *end;
    if (!text) return flow;
    Where where = ctx->where;
    ctx->where = (Where){.file = p->path};
    Flow *made = flow_parse(arena, text, &end);
    if (end[strspn(end, " \n\t")])
        fail(ctx, E_PLUGIN, "something stands behind the flow: \"%.20s\"", end);
    give_data(ctx, flow, made);
    check_kind(ctx, flow, made, CONT_IN, "input");
    check_kind(ctx, flow, made, CONT_OUT, "output");
    flow_verify(made);
    ctx->where = where;
    return made;
}

const Flow *plugins_run(void *driver, Arena *arena, const Pass *pass, const Flow *flow) {
    Driver *d = driver;
    for (int i = 0; i < d->options->plugin.n; i++) {
        if (d->options->plugin.at[i].after != pass) continue;
        flow = replace(arena, &d->options->plugin.at[i], flow);
        d->plugins_ran++;
    }
    return flow;
}

void plugins_all_ran(const Driver *d) {
    if (!d->options->stop_after && d->plugins_ran < d->options->plugin.n)
        fail(d->ctx, E_PLUGIN,
             "a pass plug-in never ran: the model is a text of a level behind the pass it follows");
}
