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

enum { PRODUCTS_MOST = 2, SIDE = 2 };
/* What passing a panel costs besides, in rows; cores must gain so much by more strips. */
static const double PASSING = 2, EVEN = 0.9;

/* Some of the seven products, and dims of them. */
typedef struct Products {
    const Map *map;
    Contraction roles;
    int pair, lane, beside; /* pairs of rows, columns of a block; other rows stored behind, or -1 */
} Products;

typedef struct QuartersPlan {
    Scheduling *s;
    Kernel *kernel;
    int first; /* position of the products: behind what makes their rows, or 0 */
    Products products[PRODUCTS_MOST];
    int n;                  /* of the maps of products */
    const Map *back, *root; /* sums of products, and what reads them */
    int row, column;        /* dims of the root that are cut */
    int64_t block;          /* columns of a half that lie side by side */
    int near;               /* the root's other dim of rows, stored behind; or -1 */
    bool turned;            /* do results lie along rows? */
    int64_t strip;          /* pairs of rows of a strip */
    int64_t tile[2];        /* rows of a register tile: pairs, beside */
} QuartersPlan;

/* The dim of the root whose halves lie in turns, blocks of so many: index `at` counts parts. */
static int cut_dim(const QuartersPlan *p, Dim at, int64_t block) {
    Ctx *ctx = p->s->flow->ctx;
    for (int d = 0; d < p->root->dim.n; d++) {
        Dim number = dim_div(ctx, p->root->dim.at[d].sym, dim_const(ctx, block));
        if (at == dim_mod(ctx, number, dim_const(ctx, SIDE)) || at == number) return d;
    }
    return -1;
}

/* The products' dims by those of their sums. */
static bool find_products(QuartersPlan *p, Products *q, int pair, int lane) {
    q->pair = pair < 0 ? -1 : map_same_dim(p->back, pair, q->map);
    q->lane = lane < 0 ? -1 : map_same_dim(p->back, lane, q->map);
    q->beside = -1;
    for (int d = q->pair + 1; d < q->map->dim.n; d++)
        if (q->roles.role[d] == ROLE_M) q->beside = d;
    return q->pair >= 0 && q->lane >= 0;
}

/* By how the root reads the quarters: their first two indices count parts of rows and columns, the
 * last places in a block of columns. */
static bool find_cuts(QuartersPlan *p, const Access *read) {
    const Access *to = &p->back->write.at[0].to[0];
    Ctx *ctx = p->s->flow->ctx;
    int last = read->rank - 1, pair = -1;
    if (read->rank < 3 || !dim_is_const(p->s->flow->cont.at[read->cont].shape[last], &p->block))
        return false;
    p->row = cut_dim(p, read->at[0], 1);
    p->column = cut_dim(p, read->at[1], p->block);
    if (p->row < 0 || p->column < 0) return false;
    Dim rows = p->root->dim.at[p->row].sym;
    for (int k = 2; k < last; k++)
        if (read->at[k] == dim_div(ctx, rows, dim_const(ctx, SIDE)))
            pair = access_dim(p->back, to, k);
    int lane = access_dim(p->back, to, last);
    bool found = true;
    for (int i = 0; i < p->n; i++) found &= find_products(p, &p->products[i], pair, lane);
    return found;
}

static bool recognize(QuartersPlan *p) {
    const Flow *flow = p->s->flow;
    const int *map = p->kernel->map.at;
    p->first = map_straight_line(flow->map.at[map[0]]);
    p->n = p->kernel->map.n - p->first - 2;
    if (p->n < 1 || p->n > PRODUCTS_MOST) return false;
    p->back = flow->map.at[map[p->first + p->n]], p->root = flow->map.at[map[p->first + p->n + 1]];
    if (!map_straight_line(p->back)) return false;
    for (int i = 0; i < p->n; i++) {
        const Map *m = flow->map.at[map[p->first + i]];
        p->products[i] = (Products){.map = m, .roles = map_contraction(flow, m)};
        if (!p->products[i].roles.is) return false;
    }
    int quarters = p->back->write.at[0].to[0].cont;
    const Body *body = &p->root->body;
    for (int v = 0; v < body->val.n; v++)
        if (body->val.at[v].kind == VAL_READ && body->val.at[v].read.cont == quarters)
            return find_cuts(p, &body->val.at[v].read);
    return false;
}

/* The products' dim that is dim d of the root as it is, or -1. */
static int products_dim(const QuartersPlan *p, int d) {
    int own = map_same_dim(p->root, d, p->back);
    return own < 0 ? -1 : map_same_dim(p->back, own, p->products[0].map);
}

/* Time that cores take for strips of so many pairs, `whole` of which are a register tile, in rows:
 * tasks are strips and, where they do not make their rows, blocks of columns. */
static double strips_time(const QuartersPlan *p, int64_t strip, int64_t whole) {
    const Map *root = p->root;
    const Products *q = &p->products[0];
    double pairs = (double)map_usual(p->s->flow, q->map, q->pair), beside = 1;
    double tasks = ceil(pairs / (double)strip);
    for (int d = 0; d < root->dim.n; d++) {
        double extent = (double)map_usual(p->s->flow, root, d);
        if (d == p->near) beside = extent;
        if (d == p->row || d == p->near || (d == p->column && p->first)) continue;
        tasks *= d == p->column ? extent / (double)(SIDE * p->block) : extent;
    }
    double tile = (double)(whole * p->tile[1]),
           tiles = ceil(fmin((double)strip, pairs) * beside / tile);
    return ceil(tasks / p->s->env->machine->cores) * (tiles * tile + PASSING);
}

/* Pairs of rows of a strip: as many as the inner cache holds all seven products of, beside panels,
 * or as panels are worth being read again for; fewer where cores would wait. Rows of a register
 * tile: of neighbours beside one another, or of pairs where these are few. */
static void choose_tiles(QuartersPlan *p) {
    const Products *q = &p->products[0];
    const Machine *machine = p->s->env->machine;
    int64_t vectors = tile_width(machine, p->s->flow, q->map, q->lane) / lanes_of(p->s);
    int64_t most = rows_held(machine, q->map, vectors), beside = 1;
    bool open = !map_extent(q->map, q->pair, 0);
    if (q->beside >= 0) beside = map_extent(q->map, q->beside, 1);
    most = rows_apart(p->s->flow, q->map, q->beside >= 0 ? q->beside : q->pair, most);
    if (open && most > OPEN_ROWS) most = OPEN_ROWS;
    p->near = -1;
    for (int d = 0; d < p->root->dim.n; d++)
        if (q->beside >= 0 && products_dim(p, d) == q->beside) p->near = d;
    int64_t pairs = map_usual(p->s->flow, q->map, q->pair);
    int64_t rows = machine->level[1].bytes / 2 / (4 * QUARTER_PRODUCTS * p->block);
    if (rows > STRIP_ROWS) rows = STRIP_ROWS;
    if (rows < beside) rows = beside;
    p->strip = open ? rows / beside : equal_tiles(pairs, rows / beside);
    p->tile[1] = equal_tiles(beside, most);
    int64_t whole = p->tile[1] == beside ? most / beside : 1;
    double best = strips_time(p, p->strip, whole) * EVEN;
    for (int64_t n = 2; n <= pairs / whole; n++) {
        int64_t strip = (pairs + n - 1) / n;
        double time = strips_time(p, strip, whole);
        if (strip < p->strip && time < best) best = time, p->strip = strip;
    }
    p->tile[0] = open ? whole : equal_tiles(p->strip, whole);
    if (open && p->strip > whole) p->strip -= p->strip % whole;
}

/* Do blocks of rows come one after the other, all columns for each? Where they are made so, or are
 * more than those. */
static bool rows_outside(const QuartersPlan *p) {
    const Products *q = &p->products[0];
    const Body *body = &q->map->body;
    return p->first || read_bytes(p->s->flow, q->map, &body->val.at[q->roles.a].read) >
                           read_bytes(p->s->flow, q->map, &body->val.at[q->roles.b].read);
}

/* A strip's rows, of all columns or of a block of each half. */
static void strip_line(QuartersPlan *p, LineKind kind, int pos, bool columns) {
    const Map *root = p->root;
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
    line_dim(p->s->flow, line, p->root, p->row, SIDE * (p->turned ? pairs : 1));
    if (p->near >= 0) line_dim(p->s->flow, line, p->root, p->near, 1);
}

/* Do results lie along rows, and not along columns? Their quarters are gathered then: scattering
 * rows of results, column by column, took a quarter of the products' time. */
static bool lies_along_rows(const QuartersPlan *p) {
    const Access *to = &p->root->write.at[0].to[0];
    return p->near < 0 && access_stride(p->s->flow, p->root, to, p->row, 1) == 1 &&
           access_stride(p->s->flow, p->root, to, p->column, 1) != 1;
}

/* One product after the other: panels, rows. */
static void product_lines(QuartersPlan *p, const Products *q, int at) {
    const Map *m = q->map;
    Flow *flow = p->s->flow;
    int64_t width = tile_width(p->s->env->machine, flow, m, q->lane);
    kernel_keep(flow, p->kernel, at, m->write.at[0].to[0].cont, KEEP_SCRATCH);
    Line *tile = kernel_line(flow, p->kernel, LINE_TILE, at);
    for (int d = 0; d < m->dim.n; d++)
        if (!map_reduces(m, d) && d != q->lane && d != q->pair && d != q->beside)
            line_dim(flow, tile, m, d, 1);
    line_dim(flow, tile, m, q->lane, width);
    line_dim(flow, tile, m, q->pair, p->tile[0]);
    if (q->beside >= 0) line_dim(flow, tile, m, q->beside, p->tile[1]);
    vector_line(p->s, p->kernel, at, q->lane);
    const Access *weights = &m->body.val.at[q->roles.b].read;
    double room = (double)p->s->env->machine->level[1].bytes;
    if (flow->cont.at[weights->cont].kind == CONT_PARAM && p->s->weights > room)
        kernel_line(flow, p->kernel, LINE_PREFETCH, at)->cont = weights->cont;
    Line *unroll = kernel_line(flow, p->kernel, LINE_UNROLL, at);
    line_dim(flow, unroll, m, q->lane, 0);
    line_dim(flow, unroll, m, q->pair, 0);
    if (q->beside >= 0) line_dim(flow, unroll, m, q->beside, 0);
    int64_t block;
    bool blocks = sum_blocks(m, q->lane, SUM_BLOCK, &block) >= 0;
    step_lines(p->s, p->kernel, at, blocks ? block : -1,
               width / lanes_of(p->s) * p->tile[0] * p->tile[1], unroll);
    partial_line(p->s, p->kernel, at, q->lane, SUM_BLOCK);
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
    int back = p.first + p.n, root = back + 1;
    strip_line(&p, LINE_TILE, root, true);
    strip_line(&p, LINE_PARALLEL, root, !p.first);
    pair_line(&p, LINE_TILE, root);
    if (p.first) strip_line(&p, LINE_AT, 0, false), code_lines(&p, 0, KEEP_SCRATCH);
    for (int i = 0; i < p.n; i++) {
        strip_line(&p, LINE_AT, p.first + i, true);
        product_lines(&p, &p.products[i], p.first + i);
    }
    pair_line(&p, LINE_AT, back);
    code_lines(&p, back, KEEP_TILE);
    vector_line(s, kernel, root, p.turned ? p.row : p.column);
    return true;
}
