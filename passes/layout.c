/* SPDX-License-Identifier: Apache-2.0 */
/* Pass `layout`: where elements lie.
 *
 * Temporaries whose channel dim is not the innermost (images) are stored in blocks of lanes:
 * [n,c,y,z] -> (n, c/L, y, z, c%L); L is what a step on tiles takes, where one reads them. Seeds
 * are the results of contractions whose output channel is not stored last; the choice spreads over
 * maps that use the channel of what they read and write as one dim. Margins for reads outside the
 * box are made real first (layout_halo.c); weights are packed to match (layout_pack.c). Graph
 * inputs and outputs keep the caller's dense form. For blocks of threads, channels of images are
 * stored last (layout_last.c). */
#include "passes/layout.h"

static void count_items(Layouts *l, const Items *items) {
    for (int i = 0; i < items->n; i++) {
        const Item *it = &items->at[i];
        if (it->kind == ITEM_MAP) {
            const Map *m = l->flow->map.at[it->map];
            for (int v = 0; v < m->body.val.n; v++)
                if (m->body.val.at[v].kind == VAL_READ)
                    vec_push(l->arena, &l->readers[m->body.val.at[v].read.cont], it->map);
            for (int w = 0; w < m->write.n; w++)
                for (int k = 0; k < m->write.at[w].n; k++)
                    vec_push(l->arena, &l->writers[m->write.at[w].to[k].cont], it->map);
            continue;
        }
        if (it->kind == ITEM_CALL) {
            for (int k = 0; k < it->call->nin; k++)
                if (it->call->in[k] >= 0) l->held[it->call->in[k]] = true;
            for (int k = 0; k < it->call->nout; k++)
                if (it->call->out[k] >= 0) l->held[it->call->out[k]] = true;
        } else if (it->cond >= 0) {
            l->held[it->cond] = true;
        }
        for (int k = 0; k < it->carry.n; k++)
            l->held[it->carry.at[k].cur] = l->held[it->carry.at[k].init] =
                l->held[it->carry.at[k].next] = true;
        count_items(l, &it->body);
        count_items(l, &it->other);
    }
}

void layouts_survey(Layouts *l) {
    int n = l->flow->cont.n;
    l->writer = flow_writers(l->arena, l->flow);
    l->readers = arena_array(l->arena, (size_t)n + 1, sizeof *l->readers);
    l->writers = arena_array(l->arena, (size_t)n + 1, sizeof *l->writers);
    l->held = NEW_ARRAY(l->arena, bool, n + 1);
    count_items(l, &l->flow->body);
}

/* ---- reads that are never outside ------------------------------------------------------------ */

static bool always_inside(Layouts *l, const Access *a, const DimEnv *env) {
    const Cont *c = &l->flow->cont.at[a->cont];
    for (int k = 0; k < a->rank; k++) {
        Dim room = dim_sub(l->flow->ctx, dim_addc(l->flow->ctx, c->shape[k], -1), a->at[k]);
        if (!dim_ge0(l->flow->ctx, a->at[k], env) || !dim_ge0(l->flow->ctx, room, env))
            return false;
    }
    return true;
}

/* Drops the `else` of reads that stay inside the box: they are plain reads. */
static void drop_needless_else(Layouts *l) {
    for (int i = 0; i < l->flow->map.n; i++) {
        Map *m = l->flow->map.at[i];
        DimEnv env = map_env(l->arena, l->flow, m);
        for (int v = 0; v < m->body.val.n; v++) {
            Val *val = &m->body.val.at[v];
            if (val->kind == VAL_READ && val->has_else && always_inside(l, &val->read, &env))
                val->has_else = false;
        }
    }
}

static void lay_out(Layouts *l) {
    layouts_survey(l);
    layout_widen(l);
    layout_choose(l);
    layout_halos(l);
    layouts_survey(l);
    layout_blocks(l);
    layout_packs(l);
    layout_nears(l);
    layout_gathers(l);
}

Flow *pass_layout(Arena *arena, const Flow *flow, const PassEnv *env);
Flow *pass_layout(Arena *arena, const Flow *flow, const PassEnv *env) {
    Layouts l = {.arena = arena, .flow = flow_clone(arena, flow), .env = env};
    l.lanes = env->machine->vector_bytes / 4;
    drop_needless_else(&l);
    if (env->machine->block_threads) {
        layout_last(&l);
        layout_rows(&l);
    } else {
        lay_out(&l);
    }
    flow_compact(l.flow);
    return l.flow;
}
