/* SPDX-License-Identifier: Apache-2.0 */
/* weir dump: a model at any level and after any pass, as text that reads back, as a drawing, or as
 * JSON; or all levels and passes as a page to click through. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/weir/diff.h"
#include "tools/weir/drawing.h"
#include "tools/weir/dump.h"
#include "tools/weir/engine.h"
#include "tools/weir/host_work.h"
#include "tools/weir/page.h"
#include "tools/weir/session.h"
#include "tools/weir/verbs.h"

typedef struct Dump {
    const char *level, *after, *format, *output;
    const char *from;   /* --diff: the model to compare with */
    char *text;         /* its dump, malloc'ed: sessions end between the two */
    InputOptions sizes; /* --size */
    Text out;
    int rc;
} Dump;

static bool dump_option(Args *a, void *user, bool *bad) {
    Dump *d = user;
    const char **to = args_is(a, "level")                       ? &d->level
                      : args_is(a, "after")                     ? &d->after
                      : args_is(a, "format")                    ? &d->format
                      : args_is(a, "diff")                      ? &d->from
                      : args_is(a, "o") || args_is(a, "output") ? &d->output
                                                                : NULL;
    if (!to) return args_is(a, "size") && input_option(a, &d->sizes, bad);
    *bad = !(*to = args_value(a));
    return true;
}

static void put_units(Dump *d, Session *s) {
    driver_emit(&s->driver, NULL, false);
    for (int i = 0; i < s->driver.units.n; i++)
        text_printf(&d->out, "/* %s */\n%s\n", s->driver.units.at[i].name,
                    s->driver.units.at[i].text);
}

static void put_svg(Dump *d, Session *s) {
    session_sizes(s, &d->sizes);
    Drawing *whole = drawing_make(s->arena, &s->driver.stage, &d->sizes);
    Folds folds = drawing_folds(s->arena, whole);
    Drawing *drawn = folds.n ? drawing_fold(s->arena, whole, &folds) : whole;
    drawing_layout(s->ctx, &drawn, 1);
    drawing_svg(&d->out, drawn);
}

static void dump_all(Session *s) {
    Dump *d = s->user;
    d->out = (Text){.arena = s->arena};
    dump_page(s, &d->sizes, &d->out);
    d->rc = put_text(d->output, text_str(&d->out));
}

/* Of a flow or nests for a GPU also, as comments, where calls run. */
static void put_stage_text(Dump *d, Session *s) {
    const Flow *flow = stage_flow(&s->driver.stage);
    text_put(&d->out, stage_text(s->arena, &s->driver.stage));
    if (!flow || s->options.target != TARGET_CUDA) return;
    HostWork work = host_work(s->arena, flow);
    host_work_text(&d->out, &work, "# ");
}

static void put_stage(Dump *d, Session *s) {
    if (!strcmp(d->level, "c"))
        put_units(d, s);
    else if (!strcmp(d->format, "dot"))
        dump_dot(&d->out, &s->driver.stage);
    else if (!strcmp(d->format, "svg"))
        put_svg(d, s);
    else if (!strcmp(d->format, "json"))
        dump_json(&d->out, &s->driver.stage);
    else
        put_stage_text(d, s);
}

static void dump(Session *s) {
    Dump *d = s->user;
    d->out = (Text){.arena = s->arena};
    put_stage(d, s);
    if (d->text) {
        Text diff = {.arena = s->arena};
        diff_put(&diff, s->ctx, d->text, d->from, text_str(&d->out), s->path);
        d->out = diff;
    }
    d->rc = put_text(d->output, text_str(&d->out));
}

static void remember(Session *s) {
    Dump *d = s->user;
    d->out = (Text){.arena = s->arena};
    put_stage(d, s);
    d->text = host_text(text_str(&d->out));
}

static bool one_of(const char *word, const char *const *words, int n) {
    for (int i = 0; i < n; i++)
        if (!strcmp(word, words[i])) return true;
    return false;
}

/* Fills in level from --after, and the pass to stop after from --level. */
static int settle(Args *a, Dump *d) {
    static const char *const levels[] = {"graph", "flow", "nest", "c"};
    static const char *const formats[] = {"text", "dot", "svg", "json", "html"};
    if (!one_of(d->format, formats, 5))
        return usage_error(a, "\"--format %s\" is none of text, dot, svg, json, html", d->format);
    if (d->from && strcmp(d->format, "text"))
        return usage_error(a, "\"--diff\" compares texts, not %s", d->format);
    if (!strcmp(d->format, "html") && (d->level || d->after))
        return usage_error(a, "\"--format html\" shows all levels and passes: leave --level and "
                              "--after out");
    if (d->sizes.nsize && strcmp(d->format, "svg") && strcmp(d->format, "html"))
        return usage_error(a, "\"--size\" is for drawings (svg, html), not for %s", d->format);
    if (d->level && !one_of(d->level, levels, 4))
        return usage_error(a, "\"--level %s\" is none of graph, flow, nest, c", d->level);
    const Pass *pass = d->after ? find_pass(d->after) : NULL;
    if (d->after && !pass)
        return usage_error(a, "there is no pass \"%s\" (\"weir explain passes\" lists them)",
                           d->after);
    if (pass && d->level && (!strcmp(d->level, "c") || strcmp(d->level, levels[pass_result(pass)])))
        return usage_error(a, "pass \"%s\" makes a %s, not \"--level %s\"", d->after,
                           levels[pass_result(pass)], d->level);
    if (pass) d->level = levels[pass_result(pass)];
    if (!d->level) d->level = "flow";
    for (int i = 0; i < 3 && !pass; i++)
        if (!strcmp(d->level, levels[i])) d->after = last_pass((Level)i);
    if (!strcmp(d->level, "c") && strcmp(d->format, "text"))
        return usage_error(a, "\"--level c\" is text, not %s", d->format);
    return EXIT_DONE;
}

int verb_dump(Args *a) {
    const char *model;
    Dump d = {.format = "text", .rc = EXIT_DONE};
    weir_context *c = context_new(false);
    int rc = session_args(a, c, &model, dump_option, &d) ? EXIT_DONE : EXIT_USAGE;
    if (!d.after && strcmp(d.format, "html")) d.after = context_options(c)->stop_after;
    if (rc == EXIT_DONE) rc = settle(a, &d);
    if (rc == EXIT_DONE && page_unread(a, d.format, d.output)) rc = EXIT_USAGE;
    if (rc == EXIT_DONE && !strcmp(d.format, "html"))
        rc = session_try(c, model, dump_all, &d);
    else if (rc == EXIT_DONE && d.from)
        rc = session_run(c, d.from, d.after, remember, &d);
    if (rc == EXIT_DONE && strcmp(d.format, "html")) rc = session_run(c, model, d.after, dump, &d);
    free(d.text);
    weir_context_free(c);
    return rc == EXIT_DONE ? d.rc : rc;
}
