/* SPDX-License-Identifier: Apache-2.0 */
/* The page of `report` and `profile`: where the bytes go, kernels under the roofline, the arena
 * over the run. */
#include "tools/weir/page.h"

typedef struct Living {
    Arena *arena;
    const Flow *flow;
    int *first, *last; /* by container: steps at which it is first and last touched; -1 */
    VEC(const char *) step;
} Living;

static void touch(Living *l, int cont) {
    if (cont < 0) return;
    int now = l->step.n - 1;
    if (l->first[cont] < 0) l->first[cont] = now;
    l->last[cont] = now;
}

static const Kernel *kernel_at(const Flow *flow, int root) {
    const Kernel *found = NULL;
    for (int k = 0; k < flow->kernel.n && !found; k++)
        if (flow->kernel.at[k]->map.at[flow->kernel.at[k]->map.n - 1] == root)
            found = flow->kernel.at[k];
    return found;
}

static void touch_map(Living *l, const Map *m) {
    for (int v = 0; v < m->body.val.n; v++)
        if (m->body.val.at[v].kind == VAL_READ) touch(l, m->body.val.at[v].read.cont);
    for (int w = 0; w < m->write.n; w++)
        for (int k = 0; k < m->write.at[w].n; k++) touch(l, m->write.at[w].to[k].cont);
}

static void walk(Living *l, const Items *items) {
    for (int i = 0; i < items->n; i++) {
        const Item *item = &items->at[i];
        const Kernel *kernel = item->kind == ITEM_MAP ? kernel_at(l->flow, item->map) : NULL;
        if (kernel) {
            vec_push(l->arena, &l->step, kernel->name);
            for (int k = 0; k < kernel->map.n; k++)
                touch_map(l, l->flow->map.at[kernel->map.at[k]]);
        }
        if (item->kind == ITEM_CALL) {
            vec_push(l->arena, &l->step, item->call->name);
            for (int k = 0; k < item->call->nin; k++) touch(l, item->call->in[k]);
            for (int k = 0; k < item->call->nout; k++) touch(l, item->call->out[k]);
        }
        walk(l, &item->body);
        walk(l, &item->other);
    }
}

static double stored_bytes(const Flow *flow, const Cont *c, const Sizes *sizes) {
    Dim box[RANK_MAX];
    int rank = cont_storage(flow->ctx, c, box);
    return size_bytes(sizes, c->type, box, rank);
}

/* [{"name", "offset", "bytes", "first", "last"}]: containers with a place in the arena. */
static void put_arena(Text *out, Living *l, const Sizes *sizes) {
    bool first = true;
    text_put(out, "[");
    for (int i = 0; i < l->flow->cont.n; i++) {
        const Cont *c = &l->flow->cont.at[i];
        if (c->place != PLACE_ARENA || l->first[i] < 0) continue;
        text_put(out, first ? "{\"name\":" : ",\n{\"name\":");
        text_json(out, c->name);
        text_printf(out, ",\"offset\":%.0f,\"bytes\":%.0f,\"first\":%d,\"last\":%d}",
                    size_value(sizes, c->offset), stored_bytes(l->flow, c, sizes), l->first[i],
                    l->last[i]);
        first = false;
    }
    text_put(out, "]");
}

static void put_machine(Text *out, const Machine *m) {
    text_printf(out, "{\"name\":");
    text_json(out, m->name);
    text_printf(out, ",\"cores\":%d,\"flops\":%.0f,\"levels\":[", m->cores, m->fma_flops);
    for (int i = 0; i < m->nlevels; i++)
        text_printf(out, "%s{\"name\":\"%s\",\"bandwidth\":%.0f}", i ? "," : "", m->level[i].name,
                    m->level[i].bandwidth);
    text_put(out, "]}");
}

static double weight_bytes(const Flow *flow, const Sizes *sizes) {
    double bytes = 0;
    for (int i = 0; i < flow->cont.n; i++)
        if (flow->cont.at[i].kind == CONT_PARAM)
            bytes += stored_bytes(flow, &flow->cont.at[i], sizes);
    return bytes;
}

void report_page(Session *s, const Movements *all, const InputOptions *given, int threads,
                 double run_ms, Text *out) {
    const Flow *flow = stage_flow(&s->driver.stage);
    Sizes sizes = {flow->symbol.at, flow->symbol.n, given};
    Living l = {.arena = s->arena, .flow = flow};
    l.first = NEW_ARRAY(s->arena, int, flow->cont.n + 1);
    l.last = NEW_ARRAY(s->arena, int, flow->cont.n + 1);
    for (int i = 0; i < flow->cont.n; i++) l.first[i] = l.last[i] = -1;
    walk(&l, &flow->body);
    Text json = {.arena = s->arena};
    text_put(&json, "{\"model\":");
    text_json(&json, s->path);
    text_printf(&json,
                ",\"build\":%s,\"threads\":%d,\"run_ms\":%.5f,\n\"machine\":", s->driver.build,
                threads, run_ms);
    put_machine(&json, &s->driver.machine);
    text_put(&json, ",\n\"kernels\":[");
    for (int i = 0; i < all->n; i++) {
        text_put(&json, i ? ",\n" : "");
        movement_json(&json, &all->at[i]);
    }
    text_printf(&json,
                "],\n\"weights\":%.0f,\"arena_bytes\":%.0f,\"arena\":", weight_bytes(flow, &sizes),
                flow->arena_bytes ? size_value(&sizes, flow->arena_bytes) : 0.0);
    put_arena(&json, &l, &sizes);
    text_put(&json, ",\n\"steps\":[");
    for (int i = 0; i < l.step.n; i++) {
        text_put(&json, i ? "," : "");
        text_json(&json, l.step.at[i]);
    }
    text_put(&json, "]}");
    page_put(out, s->path, "report.js", text_str(&json));
}
