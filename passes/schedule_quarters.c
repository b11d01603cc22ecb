/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels of products by quarters (algorithm_quarters.c): seven products of matrices, what adds
 * them up to quarters of the result, and the epilogue.
 *
 * A strip is a block of rows and one block of columns of each half, so few that the seven products
 * of them stay in the inner cache beside the rows that they read. In a strip, product by product:
 * panels of the second operand, and for each of these all rows in register tiles; then, two rows at
 * a time, the sums and the epilogue. */
#include <math.h>

#include "passes/schedule.h"

enum { QUARTER_MAPS = 3, SIDE = 2 };
/* What passing a panel costs besides, in rows; cores must gain so much by more strips. */
static const double PASSING = 2, EVEN = 0.9;

typedef struct QuartersPlan {
    Scheduling *s;
    Kernel *kernel;
    int first;                    /* position of the products: behind what makes their rows, or 0 */
    const Map *map[QUARTER_MAPS]; /* products, sums, root */
    Contraction roles;            /* of the products */
    int row, column;              /* dims of the root that are cut */
    int64_t block;                /* columns of a half that lie side by side */
    int pair, lane;               /* dims of the products: pairs of rows, columns of a block */
    int beside, near; /* their other dim of rows, stored behind, and the root's; or -1 */
    bool turned;      /* do results lie along rows? */
    int64_t strip;    /* pairs of rows of a strip */
    int64_t tile[2];  /* rows of a register tile: pairs, beside */
} QuartersPlan;

/* The dim of the root whose halves lie in turns, blocks of so many: index `at` counts parts. */
static int cut_dim(const QuartersPlan *p, Dim at, int64_t block) {
    Ctx *ctx = p->s->flow->ctx;
    for (int d = 0; d < p->map[2]->dim.n; d++) {
        Dim number = dim_div(ctx, p->map[2]->dim.at[d].sym, dim_const(ctx, block));
        if (at == dim_mod(ctx, number, dim_const(ctx, SIDE)) || at == number) return d;
    }
    return -1;
}

/* By how the root reads the quarters: their first two indices count parts of rows and columns, the
 * last places in a block of columns. */
static bool find_cuts(QuartersPlan *p, const Access *read) {
    const Map *back = p->map[1];
    const Access *to = &back->write.at[0].to[0];
    Ctx *ctx = p->s->flow->ctx;
    int last = read->rank - 1, pair = -1;
    if (read->rank < 3 || !dim_is_const(p->s->flow->cont.at[read->cont].shape[last], &p->block))
        return false;
    p->row = cut_dim(p, read->at[0], 1);
    p->column = cut_dim(p, read->at[1], p->block);
    if (p->row < 0 || p->column < 0) return false;
    Dim rows = p->map[2]->dim.at[p->row].sym;
    for (int k = 2; k < last; k++)
        if (read->at[k] == dim_div(ctx, rows, dim_const(ctx, SIDE))) pair = access_dim(back, to, k);
    int lane = access_dim(back, to, last);
    p->pair = pair < 0 ? -1 : map_same_dim(back, pair, p->map[0]);
    p->lane = lane < 0 ? -1 : map_same_dim(back, lane, p->map[0]);
    return p->pair >= 0 && p->lane >= 0;
}

static bool recognize(QuartersPlan *p) {
    p->first = p->kernel->map.n - QUARTER_MAPS;
    if (p->first != 0 && p->first != 1) return false;
    for (int i = 0; i < QUARTER_MAPS; i++)
        p->map[i] = p->s->flow->map.at[p->kernel->map.at[p->first + i]];
    if (!map_straight_line(p->map[1])) return false;
    p->roles = map_contraction(p->s->flow, p->map[0]);
    int quarters = p->map[1]->write.at[0].to[0].cont;
    const Body *body = &p->map[2]->body;
    for (int v = 0; p->roles.is && v < body->val.n; v++)
        if (body->val.at[v].kind == VAL_READ && body->val.at[v].read.cont == quarters)
            return find_cuts(p, &body->val.at[v].read);
    return false;
}

/* The products' dim that is dim d of the root as it is, or -1. */
static int products_dim(const QuartersPlan *p, int d) {
    int own = map_same_dim(p->map[2], d, p->map[1]);
    return own < 0 ? -1 : map_same_dim(p->map[1], own, p->map[0]);
}

/* Time that cores take for strips of so many pairs, `whole` of which are a register tile, in rows:
 * tasks are strips and, where they do not make their rows, blocks of columns. */
static double strips_time(const QuartersPlan *p, int64_t strip, int64_t whole) {
    const Map *root = p->map[2];
    double pairs = (double)map_extent(p->map[0], p->pair, 1), beside = 1;
    double tasks = ceil(pairs / (double)strip);
    for (int d = 0; d < root->dim.n; d++) {
        double extent = (double)map_usual(p->s->flow, root, d);
        if (d == p->near) beside = extent;
        if (d == p->row || d == p->near || (d == p->column && p->first)) continue;
        tasks *= d == p->column ? extent / (double)(SIDE * p->block) : extent;
    }
    double tile = (double)(whole * p->tile[1]), tiles = ceil((double)strip * beside / tile);
    return ceil(tasks / p->s->env->machine->cores) * (tiles * tile + PASSING);
}

/* Pairs of rows of a strip: as many as the inner cache holds all seven products of, beside panels,
 * or as panels are worth being read again for; fewer where cores would wait. Rows of a register
 * tile: of neighbours beside one another, or of pairs where these are few. */
static void choose_tiles(QuartersPlan *p) {
    const Map *m = p->map[0];
    const Machine *machine = p->s->env->machine;
    int64_t vectors = tile_width(machine, p->s->flow, m, p->lane) / lanes_of(p->s);
    int64_t most = rows_held(machine, m, vectors), beside = 1;
    p->beside = p->near = -1;
    for (int d = p->pair + 1; d < m->dim.n; d++)
        if (p->roles.role[d] == ROLE_M) p->beside = d, beside = map_extent(m, d, 1);
    for (int d = 0; d < p->map[2]->dim.n; d++)
        if (p->beside >= 0 && products_dim(p, d) == p->beside) p->near = d;
    int64_t pairs = map_extent(m, p->pair, 1);
    int64_t rows = machine->level[1].bytes / 2 / (4 * QUARTER_PRODUCTS * p->block);
    if (rows > STRIP_ROWS) rows = STRIP_ROWS;
    p->strip = equal_tiles(pairs, rows > beside ? rows / beside : 1);
    p->tile[1] = equal_tiles(beside, most);
    int64_t whole = p->tile[1] == beside ? most / beside : 1;
    double best = strips_time(p, p->strip, whole) * EVEN;
    for (int64_t n = 2; n <= pairs / whole; n++) {
        int64_t strip = (pairs + n - 1) / n;
        double time = strips_time(p, strip, whole);
        if (strip < p->strip && time < best) best = time, p->strip = strip;
    }
    p->tile[0] = equal_tiles(p->strip, whole);
}

/* Do blocks of rows come one after the other, all columns for each? Where they are made so, or are
 * more than those. */
static bool rows_outside(const QuartersPlan *p) {
    const Map *m = p->map[0];
    return p->first || read_bytes(p->s->flow, m, &m->body.val.at[p->roles.a].read) >
                           read_bytes(p->s->flow, m, &m->body.val.at[p->roles.b].read);
}

/* A strip's rows, of all columns or of a block of each half. */
static void strip_line(QuartersPlan *p, LineKind kind, int pos, bool columns) {
    const Map *root = p->map[2];
    Flow *flow = p->s->flow;
    Line line = {.kind = kind, .map = pos, .cont = -1};
    bool size = kind != LINE_PARALLEL, behind = rows_outside(p);
    if (columns && !behind) line_dim(flow, &line, root, p->column, size ? SIDE * p->block : 0);
    for (int d = 0; d < root->dim.n; d++)
        if (d != p->row && d != p->column && d != p->near && map_extent(root, d, 2) > 1)
            line_dim(flow, &line, root, d, size);
    line_dim(flow, &line, root, p->row, size ? SIDE * p->strip : 0);
    if (columns && behind) line_dim(flow, &line, root, p->column, size ? SIDE * p->block : 0);
    vec_push(flow->arena, &p->kernel->line, line);
}

/* A pair of rows, or as many of a strip as two vectors along rows take. */
static void pair_line(QuartersPlan *p, LineKind kind, int pos) {
    Line *line = kernel_line(p->s->flow, p->kernel, kind, pos);
    int64_t lanes = lanes_of(p->s), pairs = lanes < p->strip ? lanes : p->strip;
    line_dim(p->s->flow, line, p->map[2], p->row, SIDE * (p->turned ? pairs : 1));
    if (p->near >= 0) line_dim(p->s->flow, line, p->map[2], p->near, 1);
}

/* Do results lie along rows, and not along columns? Their quarters are gathered then: scattering
 * rows of results, column by column, took a quarter of the products' time. */
static bool lies_along_rows(const QuartersPlan *p) {
    const Access *to = &p->map[2]->write.at[0].to[0];
    return p->near < 0 && access_stride(p->s->flow, p->map[2], to, p->row, 1) == 1 &&
           access_stride(p->s->flow, p->map[2], to, p->column, 1) != 1;
}

/* One product after the other: panels, rows. */
static void product_lines(QuartersPlan *p) {
    const Map *m = p->map[0];
    Flow *flow = p->s->flow;
    int64_t width = tile_width(p->s->env->machine, flow, m, p->lane);
    int at = p->first;
    Line *tile = kernel_line(flow, p->kernel, LINE_TILE, at);
    for (int d = 0; d < m->dim.n; d++)
        if (!map_reduces(m, d) && d != p->lane && d != p->pair && d != p->beside)
            line_dim(flow, tile, m, d, 1);
    line_dim(flow, tile, m, p->lane, width);
    line_dim(flow, tile, m, p->pair, p->tile[0]);
    if (p->beside >= 0) line_dim(flow, tile, m, p->beside, p->tile[1]);
    vector_line(p->s, p->kernel, at, p->lane);
    const Access *weights = &m->body.val.at[p->roles.b].read;
    if (flow->cont.at[weights->cont].kind == CONT_PARAM &&
        read_bytes(flow, m, weights) > (double)p->s->env->machine->level[1].bytes)
        kernel_line(flow, p->kernel, LINE_PREFETCH, at)->cont = weights->cont;
    Line *unroll = kernel_line(flow, p->kernel, LINE_UNROLL, at);
    line_dim(flow, unroll, m, p->lane, 0);
    line_dim(flow, unroll, m, p->pair, 0);
    if (p->beside >= 0) line_dim(flow, unroll, m, p->beside, 0);
    int64_t block;
    bool blocks = sum_blocks(m, p->lane, SUM_BLOCK, &block) >= 0;
    step_lines(p->s, p->kernel, at, blocks ? block : -1,
               width / lanes_of(p->s) * p->tile[0] * p->tile[1], unroll);
    partial_line(p->s, p->kernel, at, p->lane, SUM_BLOCK);
}

/* Straight-line code: what it writes stays near, lanes run along what is stored last. */
static void code_lines(QuartersPlan *p, int pos, Storage keep) {
    const Map *m = p->s->flow->map.at[p->kernel->map.at[pos]];
    const Access *to = &m->write.at[0].to[0];
    kernel_keep(p->s->flow, p->kernel, pos, to->cont, keep);
    vector_line(p->s, p->kernel, pos, access_dim(m, to, to->rank - 1));
}

bool schedule_quarters(Scheduling *s, Kernel *kernel) {
    QuartersPlan p = {.s = s, .kernel = kernel};
    if (!recognize(&p)) return false;
    choose_tiles(&p);
    p.turned = lies_along_rows(&p);
    int at = p.first, root = at + 2;
    strip_line(&p, LINE_TILE, root, true);
    strip_line(&p, LINE_PARALLEL, root, !at);
    pair_line(&p, LINE_TILE, root);
    if (at) strip_line(&p, LINE_AT, 0, false), code_lines(&p, 0, KEEP_SCRATCH);
    strip_line(&p, LINE_AT, at, true);
    kernel_keep(s->flow, kernel, at, p.map[0]->write.at[0].to[0].cont, KEEP_SCRATCH);
    product_lines(&p);
    pair_line(&p, LINE_AT, at + 1);
    code_lines(&p, at + 1, KEEP_TILE);
    vector_line(s, kernel, root, p.turned ? p.row : p.column);
    return true;
}
