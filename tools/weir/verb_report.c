/* SPDX-License-Identifier: Apache-2.0 */
/* weir report: what each kernel computes and moves (movement.h). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/weir/dump.h"
#include "tools/weir/host_work.h"
#include "tools/weir/movement.h"
#include "tools/weir/page.h"
#include "tools/weir/session.h"
#include "tools/weir/verbs.h"

typedef struct Report {
    const char *format, *output;
    InputOptions sizes; /* --size */
    double unfused;     /* movement.h; 0: the model is no graph */
    Session *s;
    int rc;
} Report;

/* ---- printing -------------------------------------------------------------------------------- */

static const char *scaled(Ctx *ctx, double v) {
    static const char *const unit[] = {"", "k", "M", "G", "T"};
    int u = 0;
    while (v >= 1000 && u < 4) v /= 1000, u++;
    return internf(ctx, v < 10 && u ? "%.2f%s" : v < 100 && u ? "%.1f%s" : "%.0f%s", v, unit[u]);
}

static void put_text_row(Report *r, Text *out, const Movement *row) {
    Ctx *ctx = r->s->ctx;
    text_printf(out, "%-36s %-14s %4d %8s %8s %8s %s%s\n", row->kernel, row->class, row->maps,
                scaled(ctx, row->flop), scaled(ctx, row->before), scaled(ctx, row->planned),
                row->over ? "<=" : "  ", scaled(ctx, row->bound));
}

static Movement total_of(const Report *r, const Movements *all) {
    Movement total = {.kernel = "total", .class = "", .unfused = r->unfused};
    for (int k = 0; k < all->n; k++) {
        const Movement *row = &all->at[k];
        total.flop += row->flop, total.before += row->before, total.planned += row->planned,
            total.bound += row->bound;
        total.activations += row->activations;
        total.maps += row->maps;
        total.over = total.over || row->over;
    }
    return total;
}

static void put_rows(Report *r, Text *out, const Movements *all) {
    Movement total = total_of(r, all);
    text_printf(out, "%-36s %-14s %4s %8s %8s %8s   %s\n", "kernel", "class", "maps", "flop",
                "before", "planned", "bound");
    for (int k = 0; k < all->n; k++) put_text_row(r, out, &all->at[k]);
    put_text_row(r, out, &total);
    if (total.unfused > 0)
        text_printf(out, "without weights: %s planned, %s in a kernel for each node: %.2f\n",
                    scaled(r->s->ctx, total.activations), scaled(r->s->ctx, total.unfused),
                    total.activations / total.unfused);
    for (int k = 0; k < all->n; k++)
        if (all->at[k].serial)
            text_printf(out, "%s runs in one thread: %s\n", all->at[k].kernel, all->at[k].serial);
    for (int k = 0; k < all->n; k++)
        if (all->at[k].library)
            text_printf(out, "%s runs by a library: %s\n", all->at[k].kernel, all->at[k].library);
}

static void put_json(const Report *r, Text *out, const Movements *all, const HostWork *host) {
    Movement total = total_of(r, all);
    text_put(out, "{\"kernels\": [");
    for (int k = 0; k < all->n; k++) {
        text_put(out, k ? ",\n    " : "\n    ");
        movement_json(out, &all->at[k]);
    }
    text_put(out, "],\n  \"total\":\n    ");
    movement_json(out, &total);
    if (host) host_work_json(out, host);
    text_put(out, "}\n");
}

static void note_lowered(void *user, const Pass *pass, const Stage *stage, double seconds) {
    Session *s = user;
    Report *r = s->user;
    (void)seconds;
    if (pass && pass->lower) r->unfused = unfused_bytes(s->arena, stage->flow, &r->sizes);
}

static void report(Session *s) {
    Report *r = s->user;
    s->watch = note_lowered;
    session_passes(s, last_pass(LEVEL_FLOW));
    Text out = {.arena = s->arena};
    const Flow *flow = stage_flow(&s->driver.stage);
    r->s = s;
    if (!flow)
        fail(s->ctx, E_OPTION, "the passes stop before there is a flow; leave --stop-after out");
    session_sizes(s, &r->sizes);
    HostWork host = {0};
    bool cuda = s->options.target == TARGET_CUDA;
    if (cuda) host = host_work(s->arena, flow);
    Movements all = movements(s->arena, flow, &s->driver.machine, &r->sizes);
    if (!strcmp(r->format, "html"))
        report_page(s, &all, &r->sizes, 0, 0, &out);
    else if (!strcmp(r->format, "json"))
        put_json(r, &out, &all, cuda ? &host : NULL);
    else
        put_rows(r, &out, &all);
    if (!strcmp(r->format, "text")) host_work_text(&out, &host, "");
    r->rc = put_text(r->output, text_str(&out));
}

static bool report_option(Args *a, void *user, bool *bad) {
    Report *r = user;
    const char **to = args_is(a, "format")                      ? &r->format
                      : args_is(a, "o") || args_is(a, "output") ? &r->output
                                                                : NULL;
    if (to) {
        *bad = !(*to = args_value(a));
        return true;
    }
    return args_is(a, "size") && input_option(a, &r->sizes, bad);
}

int verb_report(Args *a) {
    const char *model;
    Report r = {.format = "text", .rc = EXIT_DONE};
    weir_context *c = context_new(false);
    int rc = session_args(a, c, &model, report_option, &r) ? EXIT_DONE : EXIT_USAGE;
    if (rc == EXIT_DONE && strcmp(r.format, "text") && strcmp(r.format, "json") &&
        strcmp(r.format, "html"))
        rc = usage_error(a, "\"--format %s\" is none of text, json, html", r.format);
    if (rc == EXIT_DONE && page_unread(a, r.format, r.output)) rc = EXIT_USAGE;
    if (rc == EXIT_DONE) rc = session_try(c, model, report, &r);
    weir_context_free(c);
    return rc == EXIT_DONE ? r.rc : rc;
}
