/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels that run in strips: what tiles of an image need is computed strip by strip, so that the
 * tiles, many times the image's bytes, stay in a core's own cache.
 *
 * Four maps: straight-line code that makes elements of every tile, products of matrices for each of
 * these elements, straight-line code from the products to a tile's results, and the element-wise
 * map that puts tiles together. Each reads what the one before wrote, and nobody else does. */
#include "passes/fuse.h"

typedef struct Strips {
    const Flow *flow;
    const int *writer;
    const IntVec *readers;
} Strips;

/* The map that writes a container for `reader` alone, or -1. */
static int only_producer(const Strips *s, int cont, int reader) {
    if (s->flow->cont.at[cont].kind != CONT_TMP || s->writer[cont] < 0) return -1;
    for (int r = 0; r < s->readers[cont].n; r++)
        if (s->readers[cont].at[r] != reader) return -1;
    return s->writer[cont];
}

/* The one container that all reads of a map read, or -1. */
static int only_source(const Map *m) {
    int cont = -1;
    for (int v = 0; v < m->body.val.n; v++) {
        if (m->body.val.at[v].kind != VAL_READ) continue;
        if (cont >= 0 && m->body.val.at[v].read.cont != cont) return -1;
        cont = m->body.val.at[v].read.cont;
    }
    return cont;
}

/* The three producers of a root that reads tiles of `cont`. */
static bool producers(const Strips *s, int root, int cont, int *map) {
    map[3] = root;
    map[2] = only_producer(s, cont, root);
    if (map[2] < 0 || !map_straight_line(s->flow->map.at[map[2]])) return false;
    int products = only_source(s->flow->map.at[map[2]]);
    map[1] = products < 0 ? -1 : only_producer(s, products, map[2]);
    if (map[1] < 0) return false;
    const Map *m = s->flow->map.at[map[1]];
    Contraction c = map_contraction(s->flow, m);
    if (!c.is || m->cons.n) return false;
    map[0] = only_producer(s, m->body.val.at[c.a].read.cont, map[1]);
    return map[0] >= 0 && map_straight_line(s->flow->map.at[map[0]]);
}

bool strip_maps(const Flow *flow, const int *writer, const IntVec *readers, int root, int *map) {
    Strips s = {flow, writer, readers};
    const Map *m = flow->map.at[root];
    if (map_is_reduction(m) || m->cons.n || m->write.n != 1) return false;
    for (int v = 0; v < m->body.val.n; v++)
        if (m->body.val.at[v].kind == VAL_READ &&
            producers(&s, root, m->body.val.at[v].read.cont, map))
            return true;
    return false;
}
