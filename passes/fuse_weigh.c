/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels of rows of scores that weigh rows of values (weigh.h), for a machine of blocks.
 *
 * Apart, scores and weights go to memory and back, rows times keys of each. In one kernel a block
 * has some rows, goes through the keys in blocks and keeps of each row its maximum, its sum and
 * what it weighed so far; only keys and values are read again, for each block of rows. It is done
 * wherever the machine has a tile for it. */
#include "passes/fuse.h"
#include "passes/weigh.h"

enum { PART_MOST = 256 }; /* indices of what a part reduces */

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

/* Do fewer rows read the same than tiles need to be worth it? */
static bool shares_little(const Fusing *f, int map) {
    const Map *m = f->flow->map.at[map];
    Contraction c = map_contraction(f->flow, m);
    double rows = 1, columns = 1;
    for (int d = 0; d < m->dim.n && c.is; d++) {
        if (c.role[d] == ROLE_M) rows *= (double)map_extent(m, d, WEIGH_ROWS);
        if (c.role[d] == ROLE_N) columns *= (double)map_extent(m, d, WEIGH_ROWS);
    }
    return c.is && (rows < WEIGH_ROWS || columns < WEIGH_ROWS);
}

/* The maps that weigh a part of the keys (split_weigh.c), the product at `root` their last: their
 * rows are short, so shared memory has them whole. How many, 0: it is none. */
static int part_maps(const Fusing *f, int root, int *map) {
    int n = weighing_terms(f->flow, f->writer, root, map);
    if (!n || n + 2 > WEIGH_MAPS) return 0;
    int terms = f->flow->map.at[map[n - 1]]->write.at[0].to[0].cont, sum = -1;
    if (f->readers[terms].n != 2) return 0;
    for (int i = 0; i < 2; i++)
        if (f->readers[terms].at[i] != root) sum = f->readers[terms].at[i];
    if (sum < 0 || !map_is_reduction(f->flow->map.at[sum])) return 0;
    map[n++] = sum;
    map[n++] = root;
    for (int i = 0; i < n; i++)
        for (int d = 0; d < f->flow->map.at[map[i]]->dim.n; d++)
            if (map_reduces(f->flow->map.at[map[i]], d) &&
                map_extent(f->flow->map.at[map[i]], d, PART_MOST + 1) > PART_MOST)
                return 0;
    return stand_alone(f, map, n) && shares_little(f, map[0]) && shares_little(f, root) ? n : 0;
}

static void join_maps(Fusing *f, const int *map, int n) {
    for (int i = 0; i < n - 1; i++) groups_join(f, &f->group[map[i]], &f->group[map[n - 1]]);
    f->group[map[n - 1]].complete = true;
}

void join_weighing(Fusing *f, int root) {
    int map[WEIGH_MAPS];
    Weighing w;
    WeighTile tile;
    if (!f->env->machine->block_threads || f->env->math == MATH_STRICT) return;
    int parts = part_maps(f, root, map);
    if (parts) {
        join_maps(f, map, parts);
        return;
    }
    int n = weighing_maps(f->flow, f->writer, root, map);
    if (!n || !stand_alone(f, map, n) || !hands_on_alone(f, map, n)) return;
    if (!weighing_find(f->flow, map, n, &w) ||
        !weighing_tile(f->flow, f->env->machine, map, &w, &tile))
        return;
    join_maps(f, map, n);
}
