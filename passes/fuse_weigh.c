/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels of rows of scores that weigh rows of values (weigh.h), for a machine of blocks.
 *
 * Apart, scores and weights go to memory and back, rows times keys of each. In one kernel a block
 * has some rows, goes through the keys in blocks and keeps of each row its maximum, its sum and
 * what it weighed so far; only keys and values are read again, for each block of rows. It is done
 * wherever the machine has a tile for it. */
#include "passes/fuse.h"
#include "passes/weigh.h"

/* Does nobody but these maps read what they hand on? */
static bool hands_on_alone(const Fusing *f, const int *map, int n) {
    for (int i = 0; i < n - 1; i++) {
        int cont = f->flow->map.at[map[i]]->write.at[0].to[0].cont;
        for (int r = 0; r < f->readers[cont].n; r++) {
            bool inside = false;
            for (int k = 0; k < n; k++) inside |= map[k] == f->readers[cont].at[r];
            if (!inside) return false;
        }
    }
    return true;
}

/* Do all stand in one list, in this order, in kernels that others may join? */
static bool stand_alone(const Fusing *f, const int *map, int n) {
    for (int i = 0; i < n; i++) {
        const Group *g = &f->group[map[i]];
        if (g->gone || g->complete || f->home[map[i]] != f->home[map[n - 1]]) return false;
        if (i && f->position[map[i]] < f->position[map[i - 1]]) return false;
    }
    return true;
}

void join_weighing(Fusing *f, int root) {
    int map[WEIGH_MAPS];
    Weighing w;
    WeighTile tile;
    if (!f->env->machine->block_threads || f->env->math == MATH_STRICT) return;
    int n = weighing_maps(f->flow, f->writer, root, map);
    if (!n || !stand_alone(f, map, n) || !hands_on_alone(f, map, n)) return;
    if (!weighing_find(f->flow, map, n, &w) ||
        !weighing_tile(f->flow, f->env->machine, map, &w, &tile))
        return;
    for (int i = 0; i < n - 1; i++) groups_join(f, &f->group[map[i]], &f->group[root]);
    f->group[root].complete = true;
}
