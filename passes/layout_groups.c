/* SPDX-License-Identifier: Apache-2.0 */
/* Convolutions in groups of few channels, as blocks of channels want them.
 *
 * A vector of a blocked image holds several groups of channels; lanes along the channels of one
 * would leave the others idle. So groups and their channels become one dim: result o of all reads
 * the terms of its group, (o/G)*G + c of them, which stand in one vector of the operand, in which
 * a lane takes what its group has. Images that stay as they are keep the two dims, since there
 * lanes run along rows, and channels of a group share what they read. */
#include "passes/compose.h"
#include "passes/dot.h"
#include "passes/layout.h"

/* The dims of a map that are joined. */
typedef struct Joining {
    int groups, channels;
} Joining;

/* The map with one dim for the two, named as the channels' is. */
static Map *joined_map(const Layouts *l, const Joining *j, const Map *m) {
    Ctx *ctx = l->flow->ctx;
    const MapDim *groups = &m->dim.at[j->groups], *channels = &m->dim.at[j->channels];
    Map *y = NEW(l->arena, Map);
    *y = (Map){.name = m->name, .body = {.arena = l->arena}, .from = m->from};
    for (int d = 0; d < m->dim.n; d++) {
        MapDim dim = m->dim.at[d];
        if (d == j->channels) dim.extent = dim_mul(ctx, groups->extent, channels->extent);
        if (d != j->groups) vec_push(l->arena, &y->dim, dim);
    }
    DimEnv env = map_env(l->arena, l->flow, y);
    const DimSubst subst[] = {{groups->sym, dim_div(ctx, channels->sym, channels->extent)},
                              {channels->sym, dim_mod(ctx, channels->sym, channels->extent)}};
    int *val = NEW_ARRAY(l->arena, int, m->body.val.n + 1);
    body_inline(&y->body, &m->body, subst, 2, NULL, simplify_read, &env, val);
    const Access *to = &m->write.at[0].to[0];
    Dim at[RANK_MAX];
    for (int k = 0; k < to->rank; k++)
        at[k] = dim_simplify(ctx, dim_subst(ctx, to->at[k], subst, 2), &env);
    map_write(l->flow, y, to->cont, at, val[m->write.at[0].val[0]], m->write.at[0].combine);
    return y;
}

/* As many terms of a group as results, which fill a part of a vector. */
static bool find_groups(const Layouts *l, const Map *m, Joining *j) {
    Contraction r = map_contraction(l->flow, m);
    int terms = -1;
    *j = (Joining){-1, -1};
    if (!r.is || m->cons.n || dot_types(l->env->machine, m)) return false;
    const Access *image = &m->body.val.at[r.a].read, *weights = &m->body.val.at[r.b].read;
    for (int d = 0; d < m->dim.n; d++) {
        if (r.role[d] == ROLE_BATCH) j->groups = d;
        if (r.role[d] == ROLE_N) j->channels = d;
    }
    for (int d = 0; j->groups >= 0 && d < m->dim.n; d++)
        if (map_reduces(m, d) && access_counts(l->flow, m, image, j->groups, d)) terms = d;
    if (j->channels < 0 || terms < 0) return false;
    int64_t channels = map_extent(m, j->channels, l->lanes), groups = map_extent(m, j->groups, 1);
    return access_counts(l->flow, m, &m->write.at[0].to[0], j->groups, j->channels) &&
           access_counts(l->flow, m, weights, j->groups, j->channels) &&
           map_extent(m, terms, 0) == channels && channels < l->lanes && l->lanes % channels == 0 &&
           groups * channels % l->lanes == 0;
}

void layout_find_groups(Layouts *l) {
    Joining j;
    for (int i = 0; i < l->flow->map.n; i++) {
        Map *m = l->flow->map.at[i];
        if (!find_groups(l, m, &j)) continue;
        Groups g = {i, {m, joined_map(l, &j, m)}};
        vec_push(l->arena, &l->groups, g);
    }
}

void layout_show_groups(Layouts *l, bool joined) {
    for (int i = 0; i < l->groups.n; i++)
        l->flow->map.at[l->groups.at[i].map] = l->groups.at[i].form[joined];
}

void layout_settle_groups(Layouts *l, const bool *blocked) {
    for (int i = 0; i < l->groups.n; i++) {
        const Groups *g = &l->groups.at[i];
        const Map *m = g->form[0];
        int image = m->body.val.at[map_contraction(l->flow, m).a].read.cont;
        bool joined = blocked[image] && blocked[m->write.at[0].to[0].cont];
        l->flow->map.at[g->map] = g->form[joined];
    }
}
