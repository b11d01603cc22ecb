/* SPDX-License-Identifier: Apache-2.0 */
/* Pass `layout`: where elements lie.
 *
 * Temporaries whose channel dim is not the innermost (images) are stored in blocks of lanes:
 * [n,c,y,z] -> (n, c/L, y, z, c%L). Seeds are the results of contractions whose output channel is
 * not stored last; the choice spreads over maps that use the channel of what they read and write as
 * one dim. Margins for reads outside the box are made real first (layout_halo.c); weights are
 * packed to match (layout_pack.c). Graph inputs and outputs keep the caller's dense form. */
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

/* ---- blocked channels
 * ------------------------------------------------------------------------------------------ */

static bool may_block(const Layouts *l, int cont, int dim) {
    const Cont *c = &l->flow->cont.at[cont];
    return c->kind == CONT_TMP && !c->layout && !l->held[cont] && dim >= 0 && dim < c->rank - 1 &&
           extent_or(c->shape[dim], 0) >= l->lanes;
}

static int index_of(const Map *m, const Access *a, int dim) {
    for (int k = 0; k < a->rank; k++)
        if (access_dim(m, a, k) == dim) return k;
    return -1;
}

/* Follows the element-wise maps behind a contraction to what is really stored. */
static void seed(const Layouts *l, const Map *m, int *channel) {
    Contraction r = map_contraction(l->flow, m);
    if (!r.is) return;
    bool spatial = false;
    int n = -1;
    for (int d = 0; d < m->dim.n; d++) {
        if (r.role[d] == ROLE_M && map_extent(m, d, 2) > 1) spatial = true;
        bool candidate = r.role[d] == ROLE_N || (r.role[d] == ROLE_BATCH && n < 0);
        if (candidate && map_extent(m, d, 0) >= l->lanes) n = d;
    }
    const Access *to = &m->write.at[0].to[0];
    if (n < 0 || !spatial) return;
    int k = index_of(m, to, n);
    if (k >= 0 && k < to->rank - 1 && may_block(l, to->cont, k)) channel[to->cont] = k;
}

/* If one side of a map has a blocked dim and the other uses the same map dim, block it there too.
 */
static bool spread(const Layouts *l, const Map *m, int *channel) {
    bool changed = false;
    for (int w = 0; w < m->write.n; w++)
        for (int k = 0; k < m->write.at[w].n; k++) {
            const Access *to = &m->write.at[w].to[k];
            for (int v = 0; v < m->body.val.n; v++) {
                const Val *val = &m->body.val.at[v];
                if (val->kind != VAL_READ) continue;
                const Access *from = &val->read;
                int cf = channel[from->cont], ct = channel[to->cont];
                if (cf >= 0 && ct < 0) {
                    int at = access_dim(m, from, cf) >= 0 ? index_of(m, to, access_dim(m, from, cf))
                                                          : -1;
                    if (may_block(l, to->cont, at)) channel[to->cont] = at, changed = true;
                } else if (ct >= 0 && cf < 0) {
                    int at =
                        access_dim(m, to, ct) >= 0 ? index_of(m, from, access_dim(m, to, ct)) : -1;
                    if (may_block(l, from->cont, at)) channel[from->cont] = at, changed = true;
                }
            }
        }
    return changed;
}

static const Layout *blocked(Layouts *l, const Cont *c, int dim) {
    Ctx *ctx = l->flow->ctx;
    Layout *y = NEW(l->arena, Layout);
    Dim *map = NEW_ARRAY(l->arena, Dim, c->rank + 1), *box = NEW_ARRAY(l->arena, Dim, c->rank + 1);
    Dim width = dim_const(ctx, l->lanes);
    for (int k = 0; k < c->rank; k++) {
        Dim sym = flow_layout_sym(ctx, k);
        map[k] = k == dim ? dim_div(ctx, sym, width) : sym;
        box[k] = k == dim ? dim_ceildiv(ctx, c->shape[k], width) : c->shape[k];
    }
    map[c->rank] = dim_mod(ctx, flow_layout_sym(ctx, dim), width);
    box[c->rank] = width;
    *y = (Layout){.rank = c->rank + 1, .map = map, .box = box};
    return y;
}

static void block_channels(Layouts *l) {
    int n = l->flow->cont.n, *channel = NEW_ARRAY(l->arena, int, n + 1);
    for (int c = 0; c < n; c++) channel[c] = -1;
    for (int m = 0; m < l->flow->map.n; m++) seed(l, l->flow->map.at[m], channel);
    for (bool again = true; again;) {
        again = false;
        for (int m = 0; m < l->flow->map.n; m++) again |= spread(l, l->flow->map.at[m], channel);
    }
    for (int c = 0; c < n; c++)
        if (channel[c] >= 0)
            l->flow->cont.at[c].layout = blocked(l, &l->flow->cont.at[c], channel[c]);
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

/* Blocks of threads take dense rows side by side, and lay out what they stage themselves. */
static void lay_out(Layouts *l) {
    layouts_survey(l);
    layout_halos(l);
    layouts_survey(l);
    block_channels(l);
    layout_packs(l);
}

Flow *pass_layout(Arena *arena, const Flow *flow, const PassEnv *env);
Flow *pass_layout(Arena *arena, const Flow *flow, const PassEnv *env) {
    Layouts l = {.arena = arena, .flow = flow_clone(arena, flow), .env = env};
    l.lanes = env->machine->vector_bytes / 4;
    drop_needless_else(&l);
    if (!env->machine->block_threads) lay_out(&l);
    flow_compact(l.flow);
    return l.flow;
}
