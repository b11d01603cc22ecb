/* SPDX-License-Identifier: Apache-2.0 */
/* Dims that are walked as one: `merge` lines.
 *
 * A product over [batch, steps] rows, both known only at run time, would get row tiles along one of
 * them, and at batch 1 these would hold one row each. Where every access has the two side by side,
 * they are joined to one dim of batch * steps rows. A dim that is known to fill a tile stays
 * alone: its tiles are cut to measure; unless these have far fewer rows than registers allow, which
 * are few (7 x 7 places, with room for six).
 *
 * Element-wise maps over short rows (planes of 28 x 28) would leave lanes idle at the end of each,
 * and have no vectors to work on side by side: rows that lie one behind the other in every access
 * are joined to long ones. */
#include "passes/dot.h"
#include "passes/near.h"
#include "passes/schedule.h"

enum { FULL_ROWS = 8 };
/* Of a panel, usually. */
enum { TILE_VECTORS = 2 };
/* So many vectors of a row are worked on side by side. */
enum { ROW_VECTORS = 4 };

/* May pass `place` give the container rows to spare along index k, as an output continues an input?
 */
static bool may_spare(const Flow *flow, int cont, int k) {
    ContKind kind = flow->cont.at[cont].kind;
    int from, to, dim;
    for (int i = 0; (kind == CONT_IN || kind == CONT_OUT) && i < flow->map.n; i++)
        if (flow_carries_over(flow, flow->map.at[i], &from, &to, &dim) && dim == k &&
            (from == cont || to == cont))
            return true;
    return false;
}

/* Does an access use both dims side by side, for good, or neither? */
static bool side_by_side(const Flow *flow, const Map *m, const Access *a, int outer, int inner) {
    int k = 0;
    while (k < a->rank && access_dim(m, a, k) != outer) k++;
    if (k + 1 < a->rank && access_dim(m, a, k + 1) == inner)
        return !may_spare(flow, a->cont, k + 1);
    return !access_uses(m, a, outer) && !access_uses(m, a, inner);
}

static bool all_side_by_side(const Flow *flow, const Map *m, int outer, int inner) {
    bool may = true;
    for (int v = 0; v < m->body.val.n; v++)
        if (m->body.val.at[v].kind == VAL_READ)
            may &= side_by_side(flow, m, &m->body.val.at[v].read, outer, inner);
    for (int w = 0; w < m->write.n; w++)
        for (int k = 0; k < m->write.at[w].n; k++)
            may &= side_by_side(flow, m, &m->write.at[w].to[k], outer, inner);
    return may;
}

/* Are tiles of known rows, those of y places x times, an eighth more than of all of them as one?
 * Measured on Zen 3 (7 x 7: 0.91 of the time, 14 x 14: 0.97; products of codes none); not known of
 * machines with room for as many rows as such planes have. */
static bool fills_tiles(const Scheduling *s, const Map *p, int64_t x, int64_t y) {
    const Machine *machine = s->env->machine;
    Dot dot;
    if (dot_ready(machine, s->flow, p, &dot)) return false;
    int64_t most = (sum_registers(machine, p) - 2 - TILE_VECTORS) / TILE_VECTORS;
    if (most > ROWS_MOST) most = ROWS_MOST;
    int64_t alone = x * ((y + most - 1) / most), joined = (x * y + most - 1) / most;
    return machine->vector_regs < MANY_REGISTERS && x > 1 && y < 3 * most &&
           8 * joined <= 7 * alone;
}

/* Do columns of what is copied near tiles end in the midst of one? */
static bool cuts_columns(const Scheduling *s, int64_t x, int64_t y) {
    int64_t tile = (int64_t)TILE_VECTORS * lanes_of(s);
    return x > 1 && y > 0 && y % tile;
}

/* Both dims share no load with a panel of the other operand: rows; or columns of one operand, of
 * which tiles have copies. */
static bool both_rows(const Scheduling *s, const Map *p, int a, int b) {
    Contraction r = map_contraction(s->flow, p);
    if (!r.is || r.role[a] != r.role[b]) return false;
    int64_t x = map_extent(p, a, -1), y = map_extent(p, b, -1);
    int near = near_read(s->env->machine, s->flow, s->readers, s->writer, p);
    if (near >= 0 && access_uses(p, &p->body.val.at[near].read, b)) return cuts_columns(s, x, y);
    if (r.role[a] != ROLE_M) return false;
    if (x > 0 && y > 0) return fills_tiles(s, p, x, y);
    return (x < 0 || y < 0) && x != 1 && y != 1 && x < FULL_ROWS && y < FULL_ROWS;
}

/* Adds the lines of one round: dims a and b of the root in all maps. False: cannot be. */
static bool merge_round(const Scheduling *s, Kernel *kernel, const Alignment *al, int a, int b) {
    int lines = kernel->line.n;
    bool may = true;
    for (int p = 0; p < kernel->map.n; p++) {
        const Map *m = s->flow->map.at[kernel->map.at[p]];
        int x = al->at[p][a], y = al->at[p][b];
        may = x >= 0 && y >= 0 && all_side_by_side(s->flow, m, x, y);
        if (!may) break;
        Line *line = kernel_line(s->flow, kernel, LINE_MERGE, p);
        line_dim(s->flow, line, m, x, 0);
        line_dim(s->flow, line, m, y, 0);
    }
    const char *why;
    may = may && flow_merged(s->flow->arena, s->flow, kernel, &why);
    if (!may) kernel->line.n = lines;
    return may;
}

bool merge_rows(Scheduling *s, Kernel *kernel, int at) {
    const Map *root = s->flow->map.at[kernel->map.at[kernel->map.n - 1]];
    const Access *to = &root->write.at[0].to[0];
    Alignment al = kernel_align(s->flow->arena, s->flow, kernel->map.at, kernel->map.n);
    for (int k = 0; k + 1 < to->rank; k++) {
        int a = access_dim(root, to, k), b = access_dim(root, to, k + 1);
        if (a < 0 || b < 0 || al.at[at][a] < 0 || al.at[at][b] < 0) continue;
        if (!both_rows(s, s->flow->map.at[kernel->map.at[at]], al.at[at][a], al.at[at][b]))
            continue;
        if (merge_round(s, kernel, &al, a, b)) return true;
    }
    return false;
}

/* ---- short rows of element-wise maps ----------------------------------------------------------
 */

/* The innermost two dims of what map m writes, when they are one behind the other wherever they
 * are used and the inner one ends in a short row. */
static bool short_rows(const Scheduling *s, const Map *m, int *outer, int *inner) {
    const Access *to = &m->write.at[0].to[0];
    int64_t rows = (int64_t)ROW_VECTORS * lanes_of(s);
    if (to->rank < 2) return false;
    *outer = access_dim(m, to, to->rank - 2), *inner = access_dim(m, to, to->rank - 1);
    if (*outer < 0 || *inner < 0 || map_extent(m, *outer, 1) < 2) return false;
    return map_extent(m, *inner, 0) % rows && all_side_by_side(s->flow, m, *outer, *inner);
}

const Flow *merge_short(const Scheduling *s, Arena *arena, Kernel *kernel) {
    const Flow *flow = s->flow;
    int outer, inner;
    while (short_rows(s, flow->map.at[kernel->map.at[0]], &outer, &inner)) {
        const Map *m = flow->map.at[kernel->map.at[0]];
        int lines = kernel->line.n;
        const char *why;
        Line *line = kernel_line(s->flow, kernel, LINE_MERGE, 0);
        line_dim(s->flow, line, m, outer, 0);
        line_dim(s->flow, line, m, inner, 0);
        const Flow *merged = flow_merged(arena, s->flow, kernel, &why);
        if (!merged) {
            kernel->line.n = lines;
            break;
        }
        flow = merged;
    }
    return flow;
}

/* ---- rows that threads share ------------------------------------------------------------------
 */

/* May a row go over both dims of map p, innermost last? */
static bool both_inner(const Rows *r, int p, int a, int b) {
    const Map *m = r->s->flow->map.at[r->kernel->map.at[p]];
    return a >= 0 && b >= 0 && !rows_outer(r, p, a) && !rows_outer(r, p, b) &&
           map_reduces(m, a) == map_reduces(m, b) && !m->dim.at[a].seq && !m->dim.at[b].seq;
}

/* The innermost two such dims that stand side by side in an access of map p. */
static bool inner_pair(const Rows *r, int p, int *a, int *b) {
    const Map *m = r->s->flow->map.at[r->kernel->map.at[p]];
    for (int v = -1; v < m->body.val.n; v++) {
        const Access *at = v < 0 ? &m->write.at[0].to[0] : &m->body.val.at[v].read;
        if (v >= 0 && m->body.val.at[v].kind != VAL_READ) continue;
        for (int k = at->rank - 2; k >= 0; k--) {
            *a = access_dim(m, at, k), *b = access_dim(m, at, k + 1);
            if (both_inner(r, p, *a, *b)) return true;
        }
    }
    return false;
}

bool merge_inner(Rows *r) {
    Scheduling *s = r->s;
    int lines = r->kernel->line.n, a, b;
    for (int p = 0; p < r->kernel->map.n; p++) {
        const Map *m = s->flow->map.at[r->kernel->map.at[p]];
        if (!inner_pair(r, p, &a, &b)) continue;
        Line *line = kernel_line(s->flow, r->kernel, LINE_MERGE, p);
        line_dim(s->flow, line, m, a, 0);
        line_dim(s->flow, line, m, b, 0);
    }
    const char *why;
    bool may = r->kernel->line.n > lines && flow_merged(s->flow->arena, s->flow, r->kernel, &why);
    if (!may) r->kernel->line.n = lines;
    return may;
}
