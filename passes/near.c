/* SPDX-License-Identifier: Apache-2.0 */
#include "passes/near.h"

#include "passes/compose.h"
#include "passes/dot.h"

/* Columns of a tile, in vectors; tiles of rows that read the same columns again. */
enum { TILE_VECTORS = 2, TILES_LEAST = 2 };
/* Terms lie as far apart as so many tiles are wide, and sums have so many. */
enum { TILES_APART = 2, TERMS_LEAST = 16 };

/* The output dim that is the last index of what is read, along which results lie side by side, too;
 * or -1. */
static int column_dim(const Flow *flow, const Map *m, const Access *a) {
    int d = a->rank ? access_dim(m, a, a->rank - 1) : -1;
    if (d < 0 || map_reduces(m, d)) return -1;
    return access_stride(flow, m, &m->write.at[0].to[0], d, 1) == 1 ? d : -1;
}

/* How many terms a sum reads of it, all of them far apart; else 0. */
static int64_t far_terms(const Flow *flow, const Map *m, const Access *a, int64_t apart) {
    int64_t terms = 1;
    for (int d = 0; d < m->dim.n; d++) {
        if (!map_reduces(m, d) || map_extent(m, d, 0) == 1) continue;
        int64_t step = access_stride(flow, m, a, d, 1);
        if (step < apart || step == INT64_MAX) return 0;
        terms *= map_extent(m, d, 0);
    }
    return terms;
}

/* Rows of results that all read the same columns. */
static int64_t rows_again(const Flow *flow, const Map *m, const Access *a) {
    int64_t rows = 1;
    for (int d = 0; d < m->dim.n; d++)
        if (!map_reduces(m, d) && !access_uses(m, a, d)) rows *= map_usual(flow, m, d);
    return rows;
}

/* Does the innermost cache hold all that is read, beside what else the product reads? */
static bool stays_close(const Machine *machine, const Flow *flow, const Map *m, const Access *a) {
    double bytes = (double)dtype_bits(flow->cont.at[a->cont].type) / 8;
    for (int d = 0; d < m->dim.n; d++)
        if (access_uses(m, a, d)) bytes *= (double)map_usual(flow, m, d);
    return bytes <= (double)machine->level[0].bytes / 2;
}

static bool is_near(const Machine *machine, const Flow *flow, const Map *m, const Val *val) {
    const Access *a = &val->read;
    const Cont *c = &flow->cont.at[a->cont];
    if (val->has_else || access_by_value(m, a) || access_slides(m, a) || c->layout ||
        c->kind == CONT_PARAM || dtype_bits(c->type) < 8)
        return false;
    int d = column_dim(flow, m, a), columns = TILE_VECTORS * machine->vector_bytes / 4;
    if (d < 0 || map_extent(m, d, columns) < columns) return false;
    int64_t tile = (sum_registers(machine, m) - 2 - TILE_VECTORS) / TILE_VECTORS;
    int64_t terms = far_terms(flow, m, a, TILES_APART * columns),
            copy = dtype_bytes(c->type, terms * columns);
    return terms >= TERMS_LEAST && rows_again(flow, m, a) > TILES_LEAST * tile &&
           copy <= machine->level[1].bytes / 4 && !stays_close(machine, flow, m, a);
}

/* Does a map other than a product reduce the container, or what element-wise maps make of it? */
static bool is_reduced(const Flow *flow, const IntVec *readers, int cont, int steps) {
    enum { STEPS_MOST = 8 };
    if (steps > STEPS_MOST) return true;
    for (int i = 0; i < readers[cont].n; i++) {
        if (readers[cont].at[i] < 0) continue;
        const Map *m = flow->map.at[readers[cont].at[i]];
        if (map_contraction(flow, m).is) continue;
        if (map_is_reduction(m)) return true;
        for (int w = 0; w < m->write.n; w++)
            if (is_reduced(flow, readers, m->write.at[w].to[0].cont, steps + 1)) return true;
    }
    return false;
}

/* Is the container made by an element-wise map that reads something in another order than along its
 * rows? That is turned once, not tile by tile. */
static bool made_across(const Flow *flow, const int *writer, int cont) {
    const Map *m = writer[cont] < 0 ? NULL : flow->map.at[writer[cont]];
    const Access *to = m ? map_plain_write(m) : NULL;
    if (!to || to->cont != cont || !to->rank) return false;
    int d = access_dim(m, to, to->rank - 1);
    for (int v = 0; v < m->body.val.n; v++) {
        if (m->body.val.at[v].kind != VAL_READ || d < 0) continue;
        int64_t step = access_stride(flow, m, &m->body.val.at[v].read, d, 1);
        if (step != 0 && step != 1) return true;
    }
    return d < 0;
}

static bool is_given(const Flow *flow, const Val *operand) {
    ContKind kind = flow->cont.at[operand->read.cont].kind;
    return kind == CONT_PARAM || kind == CONT_IN;
}

int near_read(const Machine *machine, const Flow *flow, const IntVec *readers, const int *writer,
              const Map *m) {
    Contraction r = map_contraction(flow, m);
    if (!r.is || machine->block_threads || m->cons.n || m->write.n != 1 || m->write.at[0].n != 1 ||
        dot_types(machine, m))
        return -1;
    for (int d = 0; d < m->dim.n; d++)
        if (m->dim.at[d].seq) return -1;
    const Val *a = &m->body.val.at[r.a], *b = &m->body.val.at[r.b];
    int near = is_given(flow, b) && is_near(machine, flow, m, a)   ? r.a
               : is_given(flow, a) && is_near(machine, flow, m, b) ? r.b
                                                                   : -1;
    if (near < 0 || made_across(flow, writer, m->body.val.at[near].read.cont)) return -1;
    return is_reduced(flow, readers, m->write.at[0].to[0].cont, 0) ? -1 : near;
}
