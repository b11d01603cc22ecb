/* SPDX-License-Identifier: Apache-2.0 */
/* Maps over nothing, as the part of a concatenation that has no elements: where another map writes
 * the container, they go. */
#include "passes/clean.h"

/* Are there no elements that the only write writes? A reduction of none writes its identity. */
static bool writes_nothing(const Map *m) {
    const Write *w = &m->write.at[0];
    if (m->write.n != 1 || w->n != 1) return false;
    for (int d = 0; d < m->dim.n; d++)
        if (dim_is(m->dim.at[d].extent, 0) && (!w->combine || access_uses(m, &w->to[0], d)))
            return true;
    return false;
}

static bool has_map(const IntVec *maps, int map) {
    for (int i = 0; i < maps->n; i++)
        if (maps->at[i] == map) return true;
    return false;
}

static bool item_reads(const Editing *c, const Item *it, int cont) {
    bool any = it->kind == ITEM_MAP && has_map(&c->uses.readers[cont], it->map);
    for (int i = 0; i < it->body.n; i++) any |= item_reads(c, &it->body.at[i], cont);
    for (int i = 0; i < it->other.n; i++) any |= item_reads(c, &it->other.at[i], cont);
    return any;
}

/* Does another map of the same list write the container before any reads it? */
static bool written_by_others(const Editing *c, int map, int cont) {
    const Items *home = c->uses.home[map];
    for (int i = 0; i < home->n; i++) {
        const Item *it = &home->at[i];
        if (item_reads(c, it, cont)) return false;
        if (it->kind == ITEM_MAP && it->map != map && has_map(&c->uses.writers[cont], it->map))
            return true;
    }
    return false;
}

void drop_empty(Editing *c) {
    uses_count(c);
    for (int m = 0; m < c->flow->map.n; m++) {
        Map *map = c->flow->map.at[m];
        if (!writes_nothing(map)) continue;
        int cont = map->write.at[0].to[0].cont;
        if (c->uses.held[cont] || !written_by_others(c, m, cont)) continue;
        map->write.n = 0;
        uses_count(c);
    }
    drop_unneeded(c);
}
