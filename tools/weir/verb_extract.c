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
    bool shrink;
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

static void extract(Session *s) {
    Extract *e = s->user;
    const Flow *from = stage_flow(&s->driver.stage);
    if (!from)
        fail(s->ctx, E_OPTION, "the passes stop before there is a flow; leave --stop-after out");
    Flow *f = flow_extract(s->arena, from, kernel_named(s, from, e->kernel));
    if (e->shrink) flow_shrink(f);
    flow_verify(f);
    Text out = {.arena = s->arena};
    flow_print(&out, f);
    e->rc = put_text(e->output, text_str(&out));
}

static bool extract_option(Args *a, void *user, bool *bad) {
    Extract *e = user;
    const char **to = args_is(a, "kernel")                      ? &e->kernel
                      : args_is(a, "o") || args_is(a, "output") ? &e->output
                                                                : NULL;
    if (to) *bad = !(*to = args_value(a));
    if (args_is(a, "shrink")) e->shrink = true;
    return to || args_is(a, "shrink");
}

int verb_extract(Args *a) {
    const char *model;
    Extract e = {.rc = EXIT_DONE};
    weir_context *c = context_new();
    int rc = session_args(a, c, &model, extract_option, &e) ? EXIT_DONE : EXIT_USAGE;
    if (rc == EXIT_DONE && !e.kernel)
        rc = usage_error(a, "needs --kernel NAME (\"weir report\" lists them)");
    if (rc == EXIT_DONE) rc = session_run(c, model, "fuse", extract, &e);
    weir_context_free(c);
    return rc == EXIT_DONE ? e.rc : rc;
}
