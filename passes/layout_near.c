/* SPDX-License-Identifier: Apache-2.0 */
/* Operands in plain rows of memory, of which each tile of a product reads a few columns.
 *
 * A product of channels over planes as a caller has them reads, for 16 places, a line of each
 * channel: every line on a page of its own, often all in one set of the innermost cache, and again
 * for each tile of other channels. A copy of these columns lies side by side and is made tile by
 * tile (fuse keeps it with the product, schedule makes it where columns change). What computes the
 * operand element by element computes the copy instead. */
#include "passes/layout.h"
#include "passes/near.h"

/* As a recipe says, or copied. */
static bool decide(const Layouts *l, const Map *m) {
    static const char *const words[] = {"far", "copied", NULL};
    return recipe_decide(l->env, "layout", internf(l->flow->ctx, "%s.near", m->name), words, true);
}

/* A container like the operand, and the map that fills it. */
static int near_copy(Layouts *l, int from, Items *made) {
    Flow *flow = l->flow;
    const Cont c = flow->cont.at[from];
    const char *name = internf(flow->ctx, "%s.near", c.name);
    Dim at[RANK_MAX];
    int to = flow_cont(flow, name, CONT_TMP, c.type, c.shape, c.rank);
    Map *copy = flow_map(flow, made, name, c.from);
    for (int k = 0; k < c.rank; k++) at[k] = map_dim(flow, copy, "m", c.shape[k]);
    map_write(flow, copy, to, at, map_read(flow, copy, from, at), NULL);
    return to;
}

void layout_nears(Layouts *l) {
    int nmap = l->flow->map.n;
    layouts_survey(l);
    for (int i = 0; i < nmap; i++) {
        int v = near_read(l->env->machine, l->flow, l->readers, l->writer, l->flow->map.at[i]);
        if (v < 0 || !decide(l, l->flow->map.at[i])) continue;
        Items made = {0};
        int to = near_copy(l, l->flow->map.at[i]->body.val.at[v].read.cont, &made);
        l->flow->map.at[i]->body.val.at[v].read.cont = to;
        layout_insert(l, i, false, &made);
    }
}
