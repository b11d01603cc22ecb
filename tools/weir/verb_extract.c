/* SPDX-License-Identifier: Apache-2.0 */
/* weir extract: one kernel of a model as a text of its own. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/weir/engine.h"
#include "tools/weir/extract.h"
#include "tools/weir/session.h"
#include "tools/weir/verbs.h"

typedef struct Extract {
    const char *kernel, *output;
    bool all, shrink, plain;
    long small;
    int rc;
} Extract;

static const Kernel *kernel_named(Session *s, const Flow *f, const char *name) {
    Text names = {.arena = s->arena};
    for (int k = 0; k < f->kernel.n; k++) {
        if (!strcmp(f->kernel.at[k]->name, name)) return f->kernel.at[k];
        if (k < 40) text_printf(&names, "%s%s", k ? ", " : "", f->kernel.at[k]->name);
    }
    fail(s->ctx, E_OPTION, "there is no kernel \"%s\"; there are %s%s", name, text_str(&names),
         f->kernel.n > 40 ? ", ..." : "");
}

static void put_kernel(Session *s, const Flow *from, const Kernel *kernel, Text *out) {
    const Extract *e = s->user;
    Flow *f = flow_extract(s->arena, from, kernel);
    if (e->shrink) flow_shrink(f, e->small);
    if (e->plain) flow_plain(f);
    flow_verify(f);
    flow_print(out, f);
}

static void extract(Session *s) {
    Extract *e = s->user;
    const Flow *from = stage_flow(&s->driver.stage);
    Text out = {.arena = s->arena};
    if (!from)
        fail(s->ctx, E_OPTION, "the passes stop before there is a flow; leave --stop-after out");
    if (!e->all) put_kernel(s, from, kernel_named(s, from, e->kernel), &out);
    for (int k = 0; e->all && k < from->kernel.n; k++)
        put_kernel(s, from, from->kernel.at[k], &out);
    e->rc = put_text(e->output, text_str(&out));
}

static bool extract_option(Args *a, void *user, bool *bad) {
    Extract *e = user;
    const char **to = args_is(a, "kernel")                      ? &e->kernel
                      : args_is(a, "o") || args_is(a, "output") ? &e->output
                                                                : NULL;
    bool *on = args_is(a, "all")      ? &e->all
               : args_is(a, "shrink") ? &e->shrink
               : args_is(a, "plain")  ? &e->plain
                                      : NULL;
    if (to) *bad = !(*to = args_value(a));
    if (on) *on = true;
    if (!args_is(a, "small")) return to || on;
    *bad = !args_int(a, 1, 1 << 20, &e->small);
    return true;
}

int verb_extract(Args *a) {
    const char *model;
    Extract e = {.rc = EXIT_DONE};
    weir_context *c = context_new(false);
    int rc = session_args(a, c, &model, extract_option, &e) ? EXIT_DONE : EXIT_USAGE;
    if (rc == EXIT_DONE && !e.kernel == !e.all)
        rc = usage_error(a, "needs --kernel NAME (\"weir report\" lists them) or --all");
    if (rc == EXIT_DONE && e.small && !e.shrink)
        rc = usage_error(a, "--small says how small --shrink makes dims: give both");
    if (!e.small) e.small = 32;
    if (rc == EXIT_DONE) rc = session_run(c, model, "fuse", extract, &e);
    weir_context_free(c);
    return rc == EXIT_DONE ? e.rc : rc;
}
