/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels of products in parts (parts.h): the product's sums, what weighs and adds them up, and
 * maybe an epilogue.
 *
 * A tile has some rows and a panel of lanes. For it the product makes all parts, one after the
 * other by an instruction of the machine's table, so few rows that they stay in the inner caches;
 * then they are added up in registers, and the epilogue follows. */
#include <math.h>

#include "passes/dot.h"
#include "passes/parts.h"
#include "passes/schedule.h"

enum { ADDER = 1, MAPS_MOST = 3 };
/* Rows for which a panel's codes are read once, at least: half bytes are taken apart first, for
 * which they want registers. */
enum { BYTES_SHARED = 4, HALVES_SHARED = 8, HALVES_HELD = 10 };

typedef struct PartsPlan {
    Scheduling *s;
    Kernel *kernel;
    const Map *product, *adder, *root;
    Dot dot;
    bool part[MAP_DIMS]; /* of the product */
    int row;             /* the product's dim of most rows, the last such; or -1 */
    int64_t rows, width; /* of a tile */
} PartsPlan;

static bool recognize(PartsPlan *p) {
    const Flow *flow = p->s->flow;
    const int *map = p->kernel->map.at;
    int n = p->kernel->map.n;
    if (n <= ADDER || n > MAPS_MOST) return false;
    p->product = flow->map.at[map[0]], p->adder = flow->map.at[map[ADDER]];
    p->root = flow->map.at[map[n - 1]];
    if (parts_adder(flow, p->s->readers, map[0], p->part) != map[ADDER]) return false;
    return (n == ADDER + 1 || !map_is_reduction(p->root)) &&
           dot_ready(p->s->env->machine, flow, p->product, &p->dot);
}

/* The product's dim that is the root's dim d, or -1. */
static int product_dim(const PartsPlan *p, int d) {
    if (p->root != p->adder) d = map_same_dim(p->root, d, p->adder);
    return d < 0 ? -1 : map_same_dim(p->adder, d, p->product);
}

/* Rows of a tile: their sums fit registers beside a row of lanes, their parts the innermost cache
 * or, of a few rows, half of the next. */
static void choose_tile(PartsPlan *p) {
    const Machine *machine = p->s->env->machine;
    const Map *m = p->product;
    double parts = 1;
    p->row = -1;
    for (int d = 0; d < m->dim.n; d++) {
        if (p->part[d]) parts *= (double)map_extent(m, d, 1);
        if (map_reduces(m, d) || p->part[d] || d == p->dot.lane || map_extent(m, d, 2) == 1)
            continue;
        if (p->row < 0 || map_usual(p->s->flow, m, d) >= map_usual(p->s->flow, m, p->row))
            p->row = d;
    }
    p->width = tile_width(machine, p->s->flow, m, p->dot.lane);
    int64_t vectors = p->width / lanes_of(p->s), most = rows_held(machine, m, vectors);
    int bits = dtype_bits(m->body.val.at[p->dot.b].type);
    if (bits < 8)
        most = (int64_t)fmin((double)most, (machine->vector_regs - HALVES_HELD) / vectors);
    double shared = bits < 8 ? HALVES_SHARED : BYTES_SHARED;
    double row = 4 * parts * (double)p->width, held = (double)machine->level[0].bytes / row,
           near = fmin((double)machine->level[1].bytes / 2 / row, shared);
    most = (int64_t)fmax(1, fmin((double)most, fmax(held, near)));
    int64_t extent = p->row < 0 ? 1 : map_extent(m, p->row, 0);
    p->rows = extent ? equal_tiles(extent, most) : most < OPEN_ROWS ? most : OPEN_ROWS;
}

/* A line with the dims of a tile: panels outside, rows inside; sizes where it cuts them. */
static void tile_dims(PartsPlan *p, LineKind kind, int pos) {
    const Map *root = p->root;
    Flow *flow = p->s->flow;
    Line line = {.kind = kind, .map = pos, .cont = -1};
    bool sizes = kind == LINE_TILE;
    int lane = -1, row = -1;
    for (int d = 0; d < root->dim.n; d++) {
        int own = product_dim(p, d);
        if (map_reduces(root, d)) continue;
        if (own == p->dot.lane)
            lane = d;
        else if (own >= 0 && own == p->row)
            row = d;
        else if (map_extent(root, d, 2) > 1)
            line_dim(flow, &line, root, d, sizes);
    }
    line_dim(flow, &line, root, lane, sizes ? p->width : 0);
    if (row >= 0) line_dim(flow, &line, root, row, sizes ? p->rows : 0);
    vec_push(flow->arena, &p->kernel->line, line);
}

/* Lanes and rows of a map side by side. */
static void lane_lines(PartsPlan *p, int pos, int lane, int row) {
    Flow *flow = p->s->flow;
    const Map *m = flow->map.at[p->kernel->map.at[pos]];
    vector_line(p->s, p->kernel, pos, lane);
    Line *unroll = kernel_line(flow, p->kernel, LINE_UNROLL, pos);
    line_dim(flow, unroll, m, lane, 0);
    if (row >= 0) line_dim(flow, unroll, m, row, 0);
}

/* Part by part: groups of terms, and so many of these side by side as make a loop worth its test.
 */
static void product_lines(PartsPlan *p) {
    Flow *flow = p->s->flow;
    const Map *m = p->product;
    int group = p->dot.row->group;
    kernel_keep(flow, p->kernel, 0, m->write.at[0].to[0].cont, KEEP_TILE);
    Line *tile = kernel_line(flow, p->kernel, LINE_TILE, 0);
    for (int d = 0; d < m->dim.n; d++)
        if (p->part[d]) line_dim(flow, tile, m, d, 1);
    lane_lines(p, 0, p->dot.lane, p->row);
    line_dim(flow, &p->kernel->line.at[p->kernel->line.n - 1], m, p->dot.k, 0);
    Line *reduce = kernel_line(flow, p->kernel, LINE_REDUCE, 0);
    for (int d = 0; d < m->dim.n; d++)
        if (map_reduces(m, d) && d != p->dot.k) line_dim(flow, reduce, m, d, 0);
    line_dim(flow, reduce, m, p->dot.k, group);
    line_dim(flow, reduce, m, p->dot.k, 0);
}

/* A dim of the product, as the map at `pos` has it; or -1. */
static int same_dim(const PartsPlan *p, int pos, int own) {
    const Map *m = p->s->flow->map.at[p->kernel->map.at[pos]];
    for (int d = 0; d < m->dim.n && own >= 0; d++)
        if ((pos == ADDER ? map_same_dim(m, d, p->product) : product_dim(p, d)) == own) return d;
    return -1;
}

bool schedule_parts(Scheduling *s, Kernel *kernel) {
    PartsPlan p = {.s = s, .kernel = kernel};
    int root = kernel->map.n - 1;
    if (!recognize(&p) || same_dim(&p, root, p.dot.lane) < 0) return false;
    Scheduling merged = *s;
    const char *why;
    if (merge_rows(s, kernel, 0)) {
        merged.flow = (Flow *)flow_merged(s->flow->arena, s->flow, kernel, &why);
        p.s = &merged;
        recognize(&p);
    }
    choose_tile(&p);
    tile_dims(&p, LINE_TILE, root);
    tile_dims(&p, LINE_PARALLEL, root);
    tile_dims(&p, LINE_AT, 0);
    product_lines(&p);
    for (int pos = ADDER; pos <= root; pos++) {
        if (pos != root) {
            tile_dims(&p, LINE_AT, pos);
            kernel_keep(s->flow, kernel, pos, p.adder->write.at[0].to[0].cont, KEEP_REG);
        }
        lane_lines(&p, pos, same_dim(&p, pos, p.dot.lane), same_dim(&p, pos, p.row));
    }
    return true;
}
