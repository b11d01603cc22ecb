/* SPDX-License-Identifier: Apache-2.0 */
/* Pass `clean`: data that only changes its place is not moved.
 *
 * Four rewrites run until nothing changes. Dims whose accesses divide by a factor are split by it,
 * so that merged axes become plain dims again. A copy is composed into the accesses of its readers,
 * and an element-wise map into its only reader when that reads each element once. A copy that
 * remains (into an output, a concatenation) is written by its source's producers in its place. Maps
 * that nobody needs are dropped. Each keeps every value bit for bit: no arithmetic is reordered. */
#include "passes/clean.h"

/* ---- uses
 * --------------------------------------------------------------------------------------------- */

static void hold(Uses *u, int cont) {
    if (cont >= 0) u->held[cont] = true;
}

static void count_items(Cleaning *c, const Items *items) {
    Uses *u = &c->uses;
    for (int i = 0; i < items->n; i++) {
        const Item *it = &items->at[i];
        if (it->kind == ITEM_MAP) {
            const Map *m = c->flow->map.at[it->map];
            u->home[it->map] = items;
            for (int v = 0; v < m->body.val.n; v++)
                if (m->body.val.at[v].kind == VAL_READ)
                    vec_push(c->arena, &u->readers[m->body.val.at[v].read.cont], it->map);
            for (int w = 0; w < m->write.n; w++)
                for (int k = 0; k < m->write.at[w].n; k++)
                    vec_push(c->arena, &u->writers[m->write.at[w].to[k].cont], it->map);
            continue;
        }
        if (it->kind == ITEM_CALL) {
            for (int k = 0; k < it->call->nin; k++) hold(u, it->call->in[k]);
            for (int k = 0; k < it->call->nout; k++) hold(u, it->call->out[k]);
        } else {
            hold(u, it->cond);
        }
        for (int k = 0; k < it->carry.n; k++) {
            hold(u, it->carry.at[k].cur);
            hold(u, it->carry.at[k].init);
            hold(u, it->carry.at[k].next);
        }
        count_items(c, &it->body);
        count_items(c, &it->other);
    }
}

void uses_count(Cleaning *c) {
    int ncont = c->flow->cont.n, nmap = c->flow->map.n;
    Uses *u = &c->uses;
    u->writer = flow_writers(c->arena, c->flow);
    u->writers = arena_array(c->arena, (size_t)ncont + 1, sizeof *u->writers);
    u->readers = arena_array(c->arena, (size_t)ncont + 1, sizeof *u->readers);
    u->held = NEW_ARRAY(c->arena, bool, ncont + 1);
    u->home = NEW_ARRAY(c->arena, const Items *, nmap + 1);
    count_items(c, &c->flow->body);
}

/* ---- rewriting one map
 * ---------------------------------------------------------------------------------- */

void map_rewrite(Cleaning *c, Map *m, const DimSubst *subst, int n, BodyReadFn *read, void *user) {
    Body out = {.arena = c->arena};
    int *map = NEW_ARRAY(c->arena, int, m->body.val.n + 1);
    body_inline(&out, &m->body, subst, n, NULL, read, user, map);
    int nroot = 0, *roots = NEW_ARRAY(c->arena, int, m->write.n *COMBINE_STATES + 1);
    for (int w = 0; w < m->write.n; w++)
        for (int k = 0; k < m->write.at[w].nstate; k++) roots[nroot++] = map[m->write.at[w].val[k]];
    body_prune(&out, roots, nroot);
    nroot = 0;
    for (int w = 0; w < m->write.n; w++) {
        Write *wr = &m->write.at[w];
        wr->val = arena_copy(c->arena, &roots[nroot], (size_t)wr->nstate * sizeof *roots);
        nroot += wr->nstate;
        Access *to = arena_copy(c->arena, wr->to, (size_t)wr->n * sizeof *to);
        for (int k = 0; k < wr->n; k++) {
            Dim *at = NEW_ARRAY(c->arena, Dim, to[k].rank + 1);
            for (int d = 0; d < to[k].rank; d++)
                at[d] = dim_subst(c->flow->ctx, to[k].at[d], subst, n);
            to[k].at = at;
        }
        wr->to = to;
    }
    for (int i = 0; i < m->cons.n; i++)
        m->cons.at[i] = dim_subst(c->flow->ctx, m->cons.at[i], subst, n);
    m->body = out;
}

/* ---- dead maps
 * --------------------------------------------------------------------------------------------- */

static bool needed(const Cleaning *c, const Map *m) {
    for (int w = 0; w < m->write.n; w++)
        for (int k = 0; k < m->write.at[w].n; k++) {
            int cont = m->write.at[w].to[k].cont;
            ContKind kind = c->flow->cont.at[cont].kind;
            if (kind == CONT_OUT || c->uses.held[cont] || c->uses.readers[cont].n) return true;
        }
    return false;
}

static bool drop_items(Cleaning *c, Items *items) {
    int n = 0, before = items->n;
    bool dropped = false;
    for (int i = 0; i < before; i++) {
        Item *it = &items->at[i];
        if (it->kind == ITEM_MAP && !needed(c, c->flow->map.at[it->map])) continue;
        dropped |= drop_items(c, &it->body);
        dropped |= drop_items(c, &it->other);
        items->at[n++] = *it;
    }
    items->n = n;
    return dropped || n < before;
}

/* ---- the pass
 * ------------------------------------------------------------------------------------------------
 */

static bool clean_round(Cleaning *c) {
    bool changed = false;
    for (int m = 0; m < c->flow->map.n; m++) changed |= split_dims(c, c->flow->map.at[m]);
    uses_count(c);
    for (int m = 0; m < c->flow->map.n; m++)
        if (inline_producer(c, m)) changed = true;
    uses_count(c);
    while (drop_items(c, &c->flow->body)) uses_count(c);
    flow_compact(c->flow);
    uses_count(c);
    for (int m = 0; m < c->flow->map.n; m++)
        if (forward_copy(c, m)) {
            changed = true;
            uses_count(c);
        }
    while (drop_items(c, &c->flow->body)) uses_count(c);
    flow_compact(c->flow);
    return changed;
}

Flow *pass_clean(Arena *arena, const Flow *flow, const PassEnv *env);
Flow *pass_clean(Arena *arena, const Flow *flow, const PassEnv *env) {
    (void)env;
    Cleaning c = {.arena = arena, .flow = flow_clone(arena, flow)};
    for (int round = 0; round < 16 && clean_round(&c); round++) continue;
    return c.flow;
}
