/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels that run in strips: what tiles of an image need is computed strip by strip, so that the
 * tiles, many times the image's bytes, stay in a core's own cache.
 *
 * Straight-line code that makes elements of every tile, products of matrices for each of these
 * elements, by one map or several, straight-line code from the products to a tile's results, and
 * the element-wise map that puts tiles together. Each reads what the one before wrote, and nobody
 * else does.
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

/* Puts the maps in front of `reader` that write what it reads, for it alone, at the end of the
 * list, the first read first; false: some do not, or there are too many. */
static bool put_producers(const Strips *s, int reader, StripMaps *out) {
    const Map *m = s->flow->map.at[reader];
    int first = out->n;
    for (int v = 0; v < m->body.val.n; v++) {
        if (m->body.val.at[v].kind != VAL_READ) continue;
        int by = only_producer(s, m->body.val.at[v].read.cont, reader);
        bool known = false;
        for (int i = first; i < out->n; i++) known |= out->map[i] == by;
        if (by < 0 || (!known && out->n == STRIP_MAPS - 2)) return false;
        if (!known) out->map[out->n++] = by;
    }
    return out->n > first;
}

/* The map that writes the rows which all of these products multiply, for them alone, or -1. */
static int rows_of_products(const Strips *s, const int *products, int n) {
    int cont = -1;
    for (int i = 0; i < n; i++) {
        const Map *m = s->flow->map.at[products[i]];
        Contraction c = map_contraction(s->flow, m);
        if (!c.is || m->cons.n) return -1;
        int rows = m->body.val.at[c.a].read.cont;
        if (cont >= 0 && rows != cont) return -1;
        cont = rows;
    }
    if (s->flow->cont.at[cont].kind != CONT_TMP) return -1;
    for (int r = 0; r < s->readers[cont].n; r++) {
        bool one = false;
        for (int i = 0; i < n; i++) one |= s->readers[cont].at[r] == products[i];
        if (!one) return -1;
    }
    return s->writer[cont];
}

/* The producers of a root that reads tiles of `cont`, and itself. */
static bool producers(const Strips *s, int root, int cont, StripMaps *out) {
    int back = only_producer(s, cont, root);
    if (back < 0 || !map_straight_line(s->flow->map.at[back])) return false;
    out->n = 1;
    if (!put_producers(s, back, out)) return false;
    out->map[0] = rows_of_products(s, out->map + 1, out->n - 1);
    if (out->map[0] < 0 || !map_straight_line(s->flow->map.at[out->map[0]])) return false;
    out->map[out->n++] = back;
    out->map[out->n++] = root;
    return true;
}

/* Does the root read several indices of a column of the products, by which tiles are cut? */
static bool cuts_columns(const Strips *s, const StripMaps *m, const Access *read) {
    const Map *root = s->flow->map.at[m->map[m->n - 1]], *back = s->flow->map.at[m->map[m->n - 2]];
    const Map *products = s->flow->map.at[m->map[1]];
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

bool strip_maps(const Flow *flow, const int *writer, const IntVec *readers, int root,
                StripMaps *out) {
    Strips s = {flow, writer, readers};
    const Map *m = flow->map.at[root];
    if (map_is_reduction(m) || m->cons.n || m->write.n != 1) return false;
    for (int v = 0; v < m->body.val.n; v++) {
        const Val *val = &m->body.val.at[v];
        if (val->kind != VAL_READ || !producers(&s, root, val->read.cont, out)) continue;
        out->apart = cuts_columns(&s, out, &val->read);
        return true;
    }
    return false;
}

bool strip_makes_rows(const Flow *flow, const Machine *machine, const StripMaps *maps) {
    const Map *rows = flow->map.at[maps->map[0]], *products = flow->map.at[maps->map[1]];
    Contraction c = map_contraction(flow, products);
    double bytes = (double)rows->write.n * 4 * map_usual_volume(flow, rows);
    double strips = contraction_usual(flow, products, &c, ROLE_M) / ROWS_LEAST;
    const MemoryLevel *far = &machine->level[machine->nlevels - 2];
    double room = (double)far->bytes / (far->shared ? machine->cores : 1);
    return strips >= STRIPS_LEAST * machine->cores && bytes > room / 2;
}
