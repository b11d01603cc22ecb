/* SPDX-License-Identifier: Apache-2.0 */
/* `weir dump --format html`: all stages of a compilation, as text and as drawings, in one page. */
#include <string.h>

#include "tools/weir/drawing.h"
#include "tools/weir/movement.h"
#include "tools/weir/page.h"
#include "tools/weir/profile.h"

/* One drawing and its form with repeated layers folded; equal ones of later stages are the same. */
typedef struct Picture {
    Drawing *whole, *folded; /* folded: NULL when nothing repeats */
    Folds folds;
    const char *key;
} Picture;

typedef struct Noting {
    const InputOptions *sizes;
    Lines lines;
    Text stages;
    VEC(Picture) picture;
} Noting;

/* ---- drawings -------------------------------------------------------------------------------- */

static const char *drawing_key(Arena *arena, const Drawing *d) {
    Text key = {.arena = arena};
    for (int i = 0; i < d->node.n; i++)
        text_printf(&key, "%s %s %d\n", d->node.at[i].name, d->node.at[i].label,
                    d->node.at[i].group);
    for (int i = 0; i < d->edge.n; i++)
        text_printf(&key, "%d %d %.0f\n", d->edge.at[i].from, d->edge.at[i].to,
                    d->edge.at[i].bytes);
    return text_str(&key);
}

static int note_picture(Noting *n, Arena *arena, const Stage *stage) {
    Drawing *whole = drawing_make(arena, stage, n->sizes);
    const char *key = drawing_key(arena, whole);
    if (n->picture.n && !strcmp(n->picture.at[n->picture.n - 1].key, key)) return n->picture.n - 1;
    Folds folds = drawing_folds(arena, whole);
    Picture p = {whole, folds.n ? drawing_fold(arena, whole, &folds) : NULL, folds, key};
    vec_push(arena, &n->picture, p);
    return n->picture.n - 1;
}

static void put_number(Text *out, double v) {
    text_printf(out, v == (double)(long long)v ? "%.0f" : "%.1f", v);
}

static void put_drawn_node(Text *out, const DrawNode *n) {
    text_put(out, "[");
    text_json(out, n->name);
    text_put(out, ",");
    text_json(out, n->label);
    text_printf(out, ",\"%s\",\"%s\",", n->kind, n->class);
    text_json(out, n->from);
    text_printf(out, ",%d,%d,%.0f,%.0f", n->group, n->times, n->flop, n->weight_bytes);
    const float at[] = {n->x, n->y, n->w, n->h};
    for (int i = 0; i < 4; i++) text_printf(out, ",%.0f", (double)at[i]);
    text_put(out, "]");
}

static void put_drawn_edge(Text *out, const DrawEdge *e) {
    text_printf(out, "[%d,%d,", e->from, e->to);
    text_json(out, e->what);
    text_put(out, ",");
    put_number(out, e->bytes);
    text_printf(out, ",%d,[", e->again);
    for (int i = 0; i < 2 * e->npoint; i++)
        text_printf(out, "%s%.0f", i ? "," : "", (double)e->point[i]);
    text_put(out, "]]");
}

static void put_drawing(Text *out, const Drawing *d) {
    if (!d) {
        text_put(out, "null");
        return;
    }
    text_printf(out, "{\"width\":%.0f,\"height\":%.0f,\"nodes\":[", (double)d->width,
                (double)d->height);
    for (int i = 0; i < d->node.n; i++) {
        text_put(out, i ? ",\n" : "");
        put_drawn_node(out, &d->node.at[i]);
    }
    text_put(out, "],\"edges\":[");
    for (int i = 0; i < d->edge.n; i++) {
        text_put(out, i ? ",\n" : "");
        put_drawn_edge(out, &d->edge.at[i]);
    }
    text_put(out, "],\"groups\":[");
    for (int i = 0; i < d->group.n; i++) {
        text_put(out, i ? "," : "");
        text_json(out, d->group.at[i]);
    }
    text_put(out, "]}");
}

static void put_pictures(Text *out, const Noting *n, Ctx *ctx) {
    VEC(Drawing *) all = {0};
    for (int i = 0; i < n->picture.n; i++) {
        vec_push(out->arena, &all, n->picture.at[i].whole);
        if (n->picture.at[i].folded) vec_push(out->arena, &all, n->picture.at[i].folded);
    }
    drawing_layout(ctx, all.at, all.n);
    text_put(out, "[");
    for (int i = 0; i < n->picture.n; i++) {
        text_put(out, i ? ",\n{\"whole\":" : "{\"whole\":");
        put_drawing(out, n->picture.at[i].whole);
        text_put(out, ",\"folded\":");
        put_drawing(out, n->picture.at[i].folded);
        text_put(out, ",\"folds\":[");
        const Folds *f = &n->picture.at[i].folds;
        for (int k = 0; k < f->n; k++)
            text_printf(out, "%s[%d,%d,%d]", k ? "," : "", f->at[k].start, f->at[k].period,
                        f->at[k].times);
        text_put(out, "]}");
    }
    text_put(out, "]");
}

/* ---- stages ---------------------------------------------------------------------------------- */

static void note_stage(void *user, const Pass *pass, const Stage *stage, double seconds) {
    Session *s = user;
    Noting *n = s->user;
    static const char *const levels[] = {"graph", "flow", "nest"};
    Level level = stage->graph ? LEVEL_GRAPH : stage->flow ? LEVEL_FLOW : LEVEL_NEST;
    text_put(&n->stages, n->stages.n ? ",\n{\"pass\":" : "{\"pass\":");
    text_json(&n->stages, pass ? pass->name : "import");
    text_put(&n->stages, ",\"what\":");
    text_json(&n->stages, pass ? pass->what : "the model as it was read");
    text_printf(&n->stages, ",\"level\":\"%s\",\"ms\":%.2f,\"picture\":%d,\"text\":", levels[level],
                seconds * 1e3, note_picture(n, s->arena, stage));
    lines_put(&n->lines, &n->stages, s->ctx, stage_text(s->arena, stage));
    text_put(&n->stages, "}");
}

static void put_c(Noting *n, Session *s, Text *out) {
    Text all = {.arena = s->arena};
    driver_emit(&s->driver, NULL, false);
    for (int i = 0; i < s->driver.units.n; i++)
        text_printf(&all, "/* %s */\n%s\n", s->driver.units.at[i].name, s->driver.units.at[i].text);
    if (s->driver.device) text_printf(&all, "/* kernels */\n%s\n", s->driver.device);
    lines_put(&n->lines, out, s->ctx, text_str(&all));
}

/* With --profile: what a run spends in each kernel, on one thread. */
static void put_times(Session *s, const InputOptions *sizes, Movements *all) {
    ProfileOptions o = {.in = *sizes, .threads = 1, .min_time = 0.5};
    KernelTimes times;
    o.in.random = true;
    if (!profile_times(s, &o, &times))
        fail(s->ctx, E_MODEL, "the model does not run, so that no times can be shown");
    for (int i = 0; i < all->n; i++)
        all->at[i].ms = kernel_ms(&times, intern(s->ctx, all->at[i].kernel));
}

void dump_page(Session *s, const InputOptions *sizes, Text *out) {
    Noting n = {.sizes = sizes, .lines = {.arena = s->arena}, .stages = {.arena = s->arena}};
    Text json = {.arena = s->arena};
    void *user = s->user;
    s->user = &n;
    s->watch = note_stage;
    session_passes(s, NULL);
    s->user = user;
    session_sizes(s, sizes);
    const Flow *flow = stage_flow(&s->driver.stage);
    text_printf(&json, "{\"model\":");
    text_json(&json, s->path);
    text_put(&json, ",\n\"recipe\":");
    text_json(&json, s->driver.recipe);
    text_printf(&json, ",\n\"build\":%s,\n\"stages\":[%s],\n\"c\":", s->driver.build,
                text_str(&n.stages));
    if (s->driver.stage.program)
        put_c(&n, s, &json);
    else
        text_put(&json, "[]");
    Movements all = {0};
    if (flow) all = movements(s->arena, flow, &s->driver.machine, sizes);
    if (flow && s->options.profile) put_times(s, sizes, &all);
    text_put(&json, ",\n\"kernels\":[");
    for (int i = 0; i < all.n; i++) {
        text_put(&json, i ? ",\n" : "");
        movement_json(&json, &all.at[i]);
    }
    text_put(&json, "],\n\"pictures\":");
    put_pictures(&json, &n, s->ctx);
    text_put(&json, ",\n\"lines\":");
    lines_json(&n.lines, &json);
    text_put(&json, "}");
    page_put(out, s->path, "dump.js", text_str(&json));
}
