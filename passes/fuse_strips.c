/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels that run in strips: what tiles of an image need is computed strip by strip, so that the
 * tiles, many times the image's bytes, stay in a core's own cache.
 *
 * Four maps: straight-line code that makes elements of every tile, products of matrices for each of
 * these elements, straight-line code from the products to a tile's results, and the element-wise
 * map that puts tiles together. Each reads what the one before wrote, and nobody else does.
 *
 * Where tiles cut the columns of products, too (quarters of matrices), each strip has some of the
 * columns: what all of them read, the first map may make in a kernel of its own. */
#include "passes/fuse.h"

/* Rows of a strip at least; strips for each core at least, so that all have as many. */
enum { ROWS_LEAST = 64, STRIPS_LEAST = 4 };

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

/* Does the root read several indices of a column of the products, by which tiles are cut? */
static bool cuts_columns(const Strips *s, const int *map, const Access *read) {
    const Map *root = s->flow->map.at[map[3]], *back = s->flow->map.at[map[2]];
    const Map *products = s->flow->map.at[map[1]];
    const Access *to = &back->write.at[0].to[0];
    Contraction c = map_contraction(s->flow, products);
    for (int k = 0; k < read->rank; k++) {
        int d = access_dim(back, to, k);
        if (d < 0 || access_dim(root, read, k) >= 0) continue;
        int column = map_same_dim(back, d, products);
        if (column >= 0 && c.role[column] == ROLE_N) return true;
    }
    return false;
}

int strip_maps(const Flow *flow, const int *writer, const IntVec *readers, int root, int *map) {
    Strips s = {flow, writer, readers};
    const Map *m = flow->map.at[root];
    if (map_is_reduction(m) || m->cons.n || m->write.n != 1) return 0;
    for (int v = 0; v < m->body.val.n; v++) {
        const Val *val = &m->body.val.at[v];
        if (val->kind != VAL_READ || !producers(&s, root, val->read.cont, map)) continue;
        return STRIP_MAPS - cuts_columns(&s, map, &val->read);
    }
    return 0;
}

bool strip_makes_rows(const Flow *flow, const Machine *machine, const int *map) {
    const Map *rows = flow->map.at[map[0]], *products = flow->map.at[map[1]];
    Contraction c = map_contraction(flow, products);
    double bytes = (double)rows->write.n * 4 * map_usual_volume(flow, rows);
    double strips = contraction_usual(flow, products, &c, ROLE_M) / ROWS_LEAST;
    const MemoryLevel *far = &machine->level[machine->nlevels - 2];
    double room = (double)far->bytes / (far->shared ? machine->cores : 1);
    return strips >= STRIPS_LEAST * machine->cores && bytes > room / 2;
}
