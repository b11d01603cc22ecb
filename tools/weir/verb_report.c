/* SPDX-License-Identifier: Apache-2.0 */
/* weir report: what each kernel computes and moves (movement.h). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/weir/dump.h"
#include "tools/weir/movement.h"
#include "tools/weir/session.h"
#include "tools/weir/verbs.h"

typedef struct Report {
    const char *format;
    InputOptions sizes; /* --size */
    Session *s;
    const Flow *flow;
    int rc;
} Report;

/* ---- printing
 * --------------------------------------------------------------------------------------------------
 */

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

static void put_json_row(Text *out, const Movement *row, bool first) {
    text_put(out, first ? "\n    " : ",\n    ");
    movement_json(out, row);
}

static void report(Session *s) {
    Report *r = s->user;
    bool json = !strcmp(r->format, "json"), first = true;
    Text out = {.arena = s->arena};
    Movement total = {.kernel = "total", .class = ""};
    r->s = s;
    r->flow = stage_flow(&s->driver.stage);
    if (!r->flow)
        fail(s->ctx, E_OPTION, "the passes stop before there is a flow; leave --stop-after out");
    text_printf(&out, json ? "{\"kernels\": [" : "%-36s %-14s %4s %8s %8s %8s   %s\n", "kernel",
                "class", "maps", "flop", "before", "planned", "bound");
    Movements all = movements(s->arena, r->flow, &s->driver.machine, &r->sizes);
    for (int k = 0; k < all.n; k++) {
        const Movement row = all.at[k];
        json ? put_json_row(&out, &row, first) : put_text_row(r, &out, &row);
        first = false;
        total.flop += row.flop, total.before += row.before, total.planned += row.planned,
            total.bound += row.bound;
        total.maps += row.maps;
        total.over = total.over || row.over;
    }
    if (json) {
        text_put(&out, "],\n  \"total\":");
        put_json_row(&out, &total, true);
        text_put(&out, "}\n");
    } else {
        put_text_row(r, &out, &total);
    }
    r->rc = put_text(NULL, text_str(&out));
}

static bool report_option(Args *a, void *user, bool *bad) {
    Report *r = user;
    if (args_is(a, "format")) {
        *bad = !(r->format = args_value(a));
        return true;
    }
    return args_is(a, "size") && input_option(a, &r->sizes, bad);
}

int verb_report(Args *a) {
    const char *model;
    Report r = {.format = "text", .rc = EXIT_DONE};
    weir_context *c = context_new();
    int rc = session_args(a, c, &model, report_option, &r) ? EXIT_DONE : EXIT_USAGE;
    if (rc == EXIT_DONE && strcmp(r.format, "text") && strcmp(r.format, "json"))
        rc = usage_error(a, "\"--format %s\" is neither text nor json", r.format);
    if (rc == EXIT_DONE) rc = session_run(c, model, last_pass(LEVEL_FLOW), report, &r);
    weir_context_free(c);
    return rc == EXIT_DONE ? r.rc : rc;
}
