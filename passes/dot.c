/* SPDX-License-Identifier: Apache-2.0 */
/* Which maps an instruction of the table can run. Only accesses, types and the combine decide. */
#include "passes/dot.h"

#include <string.h>

/* The map's sum of products of two converted reads, with the types of a row: of two that differ in
 * which operand stands in lanes, the one that has read `lanes` there. */
static const Instruction *row_of(const Machine *machine, const Map *m, int lanes, int *x, int *y) {
    if (m->write.n != 1 || m->write.at[0].n != 1 || !m->write.at[0].combine) return NULL;
    const Combine *c = m->write.at[0].combine;
    const Val *v = &m->body.val.at[m->write.at[0].val[0]];
    if (c->simple != P_ADD || v->kind != VAL_PRIM || v->prim != P_MUL || v->type != c->type[0])
        return NULL;
    *x = read_converted(&m->body, v->arg[0], v->type);
    *y = read_converted(&m->body, v->arg[1], v->type);
    if (*x < 0 || *y < 0 || m->cons.n) return NULL;
    DType tx = m->body.val.at[*x].type, ty = m->body.val.at[*y].type;
    const Instruction *found = NULL;
    bool turned = false;
    for (int i = 0; i < machine->nuse; i++) {
        const Instruction *row = machine->use[i];
        bool as = row->a == tx && row->b == ty, other = row->a == ty && row->b == tx;
        if (row->c != v->type || row->each || (!as && !other)) continue;
        bool best = (as && other) || (as ? *y : *x) == lanes;
        if (!found || best) found = row, turned = !as;
        if (best) break;
    }
    if (turned) {
        int t = *x;
        *x = *y, *y = t;
    }
    return found;
}

/* Are both operands read where they are stored alone? */
static bool reads_stored(const Map *m, int x, int y) {
    return !m->body.val.at[x].has_else && !m->body.val.at[y].has_else;
}

const MatrixStep *matrix_of(const Machine *machine, const char *instruction) {
    for (int i = 0; i < machine->nmatrix; i++)
        if (strcmp(machine->matrix[i]->of, instruction) == 0) return machine->matrix[i];
    return NULL;
}

int64_t dot_depth(const Machine *machine, const Flow *flow, const Map *m) {
    int x, y;
    const Instruction *row = machine->nmatrix ? row_of(machine, m, -1, &x, &y) : NULL;
    const MatrixStep *step = row && reads_stored(m, x, y) ? matrix_of(machine, row->name) : NULL;
    if (!step) return 0;
    Contraction r = map_contraction(flow, m);
    bool fill = r.is && contraction_rows(m, &r, MATRIX_ROWS_LEAST) >= MATRIX_ROWS_LEAST;
    return fill ? (int64_t)step->groups * row->group : 0;
}

double dot_flops(const Machine *machine, DType a, DType b, double rows, int64_t side) {
    for (int i = 0; i < machine->nuse; i++) {
        const Instruction *row = machine->use[i];
        if (row->a != a || row->b != b || row->each) continue;
        const MatrixStep *step = matrix_of(machine, row->name);
        int64_t groups = step && rows >= MATRIX_ROWS_LEAST ? step->groups : 0;
        while (groups && side % (groups * row->group)) groups--;
        if (groups < MATRIX_GROUPS_LEAST) return machine->fma_flops * machine->use_speed[i];
        return machine->fma_flops * step->speed * (double)groups / step->groups;
    }
    return machine->fma_flops;
}

bool dot_types(const Machine *machine, const Map *m) {
    int x, y;
    return row_of(machine, m, -1, &x, &y) != NULL;
}

/* Does some index of the access step by one along dim d, whatever else it adds (the gates of a cell
 * stand in one matrix)? */
static bool steps_along(const Flow *flow, const Map *m, const Access *a, int d) {
    Dim coef, rest;
    for (int k = 0; k < a->rank; k++)
        if (dim_uses(a->at[k], m->dim.at[d].sym))
            return dim_affine(flow->ctx, a->at[k], &m->dim.at[d].sym, 1, &coef, &rest) &&
                   dim_is(coef, 1);
    return false;
}

/* The reduced dim with the most iterations whose groups are contiguous in a. */
static int group_dim(const Flow *flow, const Map *m, const Dot *dot) {
    const Access *a = &m->body.val.at[dot->a].read, *b = &m->body.val.at[dot->b].read;
    int best = -1, group = dot->row->group;
    for (int d = 0; d < m->dim.n; d++) {
        int64_t extent = map_extent(m, d, group);
        if (!map_reduces(m, d) || 2 * extent <= group || !steps_along(flow, m, b, d)) continue;
        if (access_stride(flow, m, a, d, group) != 1) continue;
        if (best < 0 || extent > map_extent(m, best, group)) best = d;
    }
    return best;
}

static int lane_dim(const Flow *flow, const Map *m, const Dot *dot) {
    Contraction r = map_contraction(flow, m);
    const Access *b = &m->body.val.at[dot->b].read;
    int best = -1;
    if (!r.is) return -1;
    for (int d = 0; d < m->dim.n; d++) {
        bool in_a = access_stride(flow, m, &m->body.val.at[dot->a].read, d, 1) != 0;
        if (map_reduces(m, d) || in_a || !steps_along(flow, m, b, d)) continue;
        if (best < 0 || map_extent(m, d, 64) > map_extent(m, best, 64)) best = d;
    }
    return best;
}

/* The row and its operands; false: there is none, or data says what they read. */
static bool find_operands(const Machine *machine, const Flow *flow, const Map *m, Dot *dot) {
    if (!dot_types(machine, m)) return false;
    Contraction r = map_contraction(flow, m);
    dot->row = row_of(machine, m, r.is ? r.b : -1, &dot->a, &dot->b);
    return !access_by_value(m, &m->body.val.at[dot->a].read) &&
           !access_by_value(m, &m->body.val.at[dot->b].read);
}

bool dot_with_margins(const Machine *machine, const Flow *flow, const Map *m, Dot *dot) {
    if (!find_operands(machine, flow, m, dot)) return false;
    dot->k = group_dim(flow, m, dot);
    dot->lane = lane_dim(flow, m, dot);
    return dot->k >= 0 && dot->lane >= 0 && map_extent(m, dot->lane, 64) > 1;
}

bool dot_apart(const Machine *machine, const Flow *flow, const Map *m, Dot *dot) {
    if (!find_operands(machine, flow, m, dot) || !reads_stored(m, dot->a, dot->b)) return false;
    const Access *b = &m->body.val.at[dot->b].read;
    dot->lane = lane_dim(flow, m, dot);
    dot->k = -1;
    for (int d = 0; d < m->dim.n; d++) {
        if (!map_reduces(m, d)) continue;
        if (dot->k >= 0) return false;
        dot->k = d;
    }
    return dot->k >= 0 && dot->lane >= 0 && steps_along(flow, m, b, dot->k) &&
           2 * map_extent(m, dot->k, 0) > dot->row->group;
}

bool dot_possible(const Machine *machine, const Flow *flow, const Map *m, Dot *dot) {
    return dot_with_margins(machine, flow, m, dot) && reads_stored(m, dot->a, dot->b);
}

int64_t dot_groups(const Machine *machine, const Flow *flow, const Map *m, const Dot *dot) {
    const MatrixStep *step = matrix_of(machine, dot->row->name);
    const Access *a = &m->body.val.at[dot->a].read;
    Dim extent = m->dim.at[dot->k].extent, steps;
    if (!step || dim_is(extent, 0)) return 0;
    for (int64_t groups = step->groups; groups >= MATRIX_GROUPS_LEAST; groups--) {
        int64_t depth = groups * dot->row->group;
        bool whole = dim_divides(flow->ctx, extent, dim_const(flow->ctx, depth), &steps);
        if (whole && access_stride(flow, m, a, dot->k, depth) == 1) return groups;
    }
    return 0;
}

const MatrixStep *dot_matrix(const Machine *machine, const Flow *flow, const Map *m,
                             const Dot *dot) {
    const MatrixStep *step = matrix_of(machine, dot->row->name);
    return step && dot_groups(machine, flow, m, dot) == step->groups ? step : NULL;
}

/* Does b hold the group of a lane side by side, and lanes behind one another? */
static bool stored_in_groups(const Flow *flow, const Map *m, const Dot *dot) {
    const Access *b = &m->body.val.at[dot->b].read;
    int group = dot->row->group;
    return access_stride(flow, m, b, dot->k, group) == 1 &&
           access_stride(flow, m, b, dot->lane, dot->row->lanes) == group;
}

/* ---- groups for each lane ------------------------------------------------------------------ */

/* The row that multiplies what dot's row does, a group of a for each lane. */
static const Instruction *each_of(const Machine *machine, const Instruction *row) {
    for (int i = 0; row && i < machine->nuse; i++) {
        const Instruction *each = machine->use[i];
        if (each->each && each->a == row->a && each->b == row->b && each->c == row->c) return each;
    }
    return NULL;
}

bool dot_each(const Machine *machine, const Flow *flow, const Map *m, Dot *dot) {
    Contraction r = map_contraction(flow, m);
    dot->row = r.is ? each_of(machine, row_of(machine, m, -1, &dot->a, &dot->b)) : NULL;
    dot->k = dot->lane = -1;
    if (!dot->row || !reads_stored(m, dot->a, dot->b)) return false;
    const Access *a = &m->body.val.at[dot->a].read, *b = &m->body.val.at[dot->b].read;
    int64_t lanes = dot->row->lanes, group = dot->row->group;
    if (access_by_value(m, a) || access_by_value(m, b)) return false;
    for (int d = 0; d < m->dim.n; d++) {
        if (access_plain(m, b, d) < 0) continue;
        if (r.role[d] == ROLE_BATCH && map_extent(m, d, 0) >= lanes &&
            access_stride(flow, m, a, d, lanes) == 1)
            dot->lane = d;
        if (map_reduces(m, d) && 2 * map_extent(m, d, 0) > group &&
            access_stride(flow, m, a, d, group) == lanes)
            dot->k = d;
    }
    return dot->k >= 0 && dot->lane >= 0;
}

bool dot_each_ready(const Machine *machine, const Flow *flow, const Map *m, Dot *dot) {
    return dot_each(machine, flow, m, dot) && stored_in_groups(flow, m, dot);
}

bool dot_ready(const Machine *machine, const Flow *flow, const Map *m, Dot *dot) {
    return dot_possible(machine, flow, m, dot) && stored_in_groups(flow, m, dot);
}
