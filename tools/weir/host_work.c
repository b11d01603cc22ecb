/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/weir/host_work.h"

#include "compiler/targets/cuda/target.h"
#include "tools/weir/engine.h"

static void find_host_work(Arena *arena, const Flow *flow, const Items *items, HostWork *out) {
    for (int i = 0; i < items->n; i++) {
        const Item *it = &items->at[i];
        int k = 0;
        find_host_work(arena, flow, &it->body, out);
        find_host_work(arena, flow, &it->other, out);
        out->decisions += (it->kind == ITEM_IF || it->kind == ITEM_LOOP) && it->cond >= 0;
        if (it->kind != ITEM_CALL) continue;
        CallWork work = {it->call->row, target_cuda_call(flow, it->call), 0};
        while (k < out->call.n &&
               (out->call.at[k].row != work.row || out->call.at[k].device != work.device))
            k++;
        if (k == out->call.n) vec_push(arena, &out->call, work);
        out->call.at[k].times++;
    }
}

HostWork host_work(Arena *arena, const Flow *flow) {
    HostWork work = {0};
    find_host_work(arena, flow, &flow->body, &work);
    return work;
}

void host_work_text(Text *out, const HostWork *work, const char *before) {
    for (int i = 0; i < work->call.n; i++) {
        const CallWork *c = &work->call.at[i];
        if (c->device)
            text_printf(out, "%son the GPU, a call: %s, %d of them%s\n", before, c->row->name,
                        c->times, c->row->ndefine ? ", whose sizes are read back" : "");
        else
            text_printf(out, "%son the host: %s, %d of them: %s\n", before, c->row->name, c->times,
                        c->row->reason);
    }
    if (work->decisions)
        text_printf(out, "%son the host: %d loops and branches, whose conditions are read back\n",
                    before, work->decisions);
}

static void put_calls_json(Text *out, const HostWork *work, bool device) {
    const char *comma = "";
    for (int i = 0; i < work->call.n; i++) {
        const CallWork *c = &work->call.at[i];
        if (c->device != device) continue;
        text_printf(out, "%s{\"call\": \"%s\", \"count\": %d, \"why\": ", comma, c->row->name,
                    c->times);
        text_json(out, c->row->reason);
        text_put(out, "}");
        comma = ", ";
    }
}

void host_work_json(Text *out, const HostWork *work) {
    text_put(out, ",\n  \"on_gpu\": {\"calls\": [");
    put_calls_json(out, work, true);
    text_put(out, "]},\n  \"on_host\": {\"calls\": [");
    put_calls_json(out, work, false);
    text_printf(out, "], \"decisions\": %d}", work->decisions);
}
