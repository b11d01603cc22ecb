/* SPDX-License-Identifier: Apache-2.0 */
/* weir report: what each kernel computes and moves.
 *
 * `before`: what its maps would move one by one. `planned`: what the kernel moves as scheduled,
 * through the machine's second cache level. `bound`: what it cannot avoid moving. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/weir/dump.h"
#include "tools/weir/engine.h"
#include "tools/weir/session.h"
#include "tools/weir/verbs.h"

typedef struct Report {
    const char *format;
    InputOptions sizes; /* --size */
    Session *s;
    const Flow *flow;
    int rc;
} Report;

typedef struct Row {
    const char *name, *class;
    double flop, before, planned, bound;
    bool over;
    int maps;
} Row;

/* ---- sizes
 * ------------------------------------------------------------------------------------------------
 */

static bool symbol_value(void *user, Dim sym, int64_t *value) {
    Report *r = user;
    const char *name = dim_sym_name(sym);
    size_t n = strlen(name);
    for (int i = 0; i < r->sizes.nsize; i++)
        if (!strncmp(r->sizes.size[i], name, n) && r->sizes.size[i][n] == '=') {
            *value = strtoll(r->sizes.size[i] + n + 1, NULL, 10);
            return true;
        }
    for (int i = 0; i < r->flow->symbol.n; i++) {
        const Symbol *s = &r->flow->symbol.at[i];
        if (s->sym != sym) continue;
        if (s->upper) return dim_eval(s->upper, symbol_value, r, value);
        *value = s->lo > 1 ? s->lo : 1;
        return true;
    }
    *value = 1; /* variables of loops: one iteration counts */
    return true;
}

static double number(Report *r, Dim d) {
    int64_t v;
    return dim_eval(d, symbol_value, r, &v) ? (double)v : 0;
}

/* ---- kernels
 * ------------------------------------------------------------------------------------------------
 */

static bool reduces(const Map *map) {
    for (int w = 0; w < map->write.n; w++)
        if (map->write.at[w].combine) return true;
    return false;
}

static bool computes(const Map *map) {
    for (int v = 0; v < map->body.val.n; v++)
        if (map->body.val.at[v].kind == VAL_PRIM && map->body.val.at[v].prim != P_CVT) return true;
    return false;
}

/* A reduction whose kernel reads what was reduced again is a normalisation. */
static const char *class_of(const Flow *flow, const Kernel *k) {
    bool contraction = false, reduction = false, compute = false, pointwise = false;
    for (int i = 0; i < k->map.n; i++) {
        const Map *map = flow->map.at[k->map.at[i]];
        contraction = contraction || map_contraction(flow, map).is;
        reduction = reduction || reduces(map);
        pointwise = pointwise || !reduces(map);
        compute = compute || computes(map);
    }
    if (contraction) return "contraction";
    if (reduction) return pointwise && k->map.n > 1 ? "normalisation" : "reduction";
    return compute ? "element-wise" : "movement";
}

static Row row_of(Report *r, const Kernel *k) {
    Row row = {.name = k->name, .class = class_of(r->flow, k), .maps = k->map.n};
    const Machine *m = &r->s->driver.machine;
    int64_t cache = m->nlevels > 1 ? m->level[1].bytes : 1 << 20;
    for (int i = 0; i < k->map.n; i++) {
        row.flop += number(r, move_flops(r->s->arena, r->flow, r->flow->map.at[k->map.at[i]]));
        row.before += number(r, move_compulsory(r->s->arena, r->flow, &k->map.at[i], 1).bytes);
    }
    Bytes bound = move_compulsory(r->s->arena, r->flow, k->map.at, k->map.n);
    row.bound = number(r, bound.bytes);
    row.over = bound.over;
    row.planned = move_scheduled(r->s->arena, r->flow, k, cache, symbol_value, r);
    return row;
}

/* The variants of one group of maps are one kernel here: the last, which has no guard. */
static bool is_last_variant(const Flow *flow, int k) {
    for (int i = k + 1; i < flow->kernel.n; i++)
        if (flow->kernel.at[i]->name == flow->kernel.at[k]->name) return false;
    return true;
}

/* ---- printing
 * --------------------------------------------------------------------------------------------------
 */

static const char *scaled(Ctx *ctx, double v) {
    static const char *const unit[] = {"", "k", "M", "G", "T"};
    int u = 0;
    while (v >= 1000 && u < 4) v /= 1000, u++;
    return internf(ctx, v < 10 && u ? "%.2f%s" : v < 100 && u ? "%.1f%s" : "%.0f%s", v, unit[u]);
}

static void put_text_row(Report *r, Text *out, const Row *row) {
    Ctx *ctx = r->s->ctx;
    text_printf(out, "%-36s %-14s %4d %8s %8s %8s %s%s\n", row->name, row->class, row->maps,
                scaled(ctx, row->flop), scaled(ctx, row->before), scaled(ctx, row->planned),
                row->over ? "<=" : "  ", scaled(ctx, row->bound));
}

static void put_json_row(Text *out, const Row *row, bool first) {
    text_printf(out, "%s\n    {\"kernel\": ", first ? "" : ",");
    text_json(out, row->name);
    text_printf(out,
                ", \"class\": \"%s\", \"maps\": %d, \"flop\": %.0f, \"before_bytes\": %.0f, "
                "\"planned_bytes\": %.0f, "
                "\"bound_bytes\": %.0f, \"bound_is_upper\": %s}",
                row->class, row->maps, row->flop, row->before, row->planned, row->bound,
                row->over ? "true" : "false");
}

static void report(Session *s) {
    Report *r = s->user;
    bool json = !strcmp(r->format, "json"), first = true;
    Text out = {.arena = s->arena};
    Row total = {.name = "total", .class = ""};
    r->s = s;
    r->flow = stage_flow(&s->driver.stage);
    if (!r->flow)
        fail(s->ctx, E_OPTION, "the passes stop before there is a flow; leave --stop-after out");
    text_printf(&out, json ? "{\"kernels\": [" : "%-36s %-14s %4s %8s %8s %8s   %s\n", "kernel",
                "class", "maps", "flop", "before", "planned", "bound");
    for (int k = 0; k < r->flow->kernel.n; k++) {
        if (!is_last_variant(r->flow, k)) continue;
        Row row = row_of(r, r->flow->kernel.at[k]);
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
