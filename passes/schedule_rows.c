/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels over rows: several maps tied by outer dims. One index of these is a task; what the maps
 * hand on stays in registers, a small tile or per-thread scratch. With a contraction inside
 * (attention), a block of rows is one task: the contraction gets a register tile over the block and
 * a few vectors, the other maps run row by row over the block. Where elements of an outer dim lie
 * side by side and those of a row apart (a norm over channels of planes), a few vectors along that
 * dim are one task, and each lane has a row of its own. */
#include "passes/dot.h"
#include "passes/schedule.h"

/* CHAINS: operations that wait for nothing of each other, of three or four cycles each. TILES: rows
 * of register tiles that share what a block reads again. */
enum { TILE_BYTES = 16384, CHAINS = 4, TASKS_LEAST = 8, TILES = 4 };

static const Map *map_at(const Rows *r, int pos) {
    return r->s->flow->map.at[r->kernel->map.at[pos]];
}

static void find_outer(Rows *r) {
    for (int d = 0; d < r->root->dim.n; d++) {
        r->outer[d] = true;
        for (int p = 0; p < r->kernel->map.n; p++) {
            int own = r->al.at[p][d];
            r->outer[d] &=
                own >= 0 && map_at(r, p)->dim.at[own].extent == r->root->dim.at[d].extent;
        }
    }
}

bool rows_outer(const Rows *r, int p, int own) {
    for (int d = 0; d < r->root->dim.n; d++)
        if (r->outer[d] && r->al.at[p][d] == own) return true;
    return false;
}

static bool contracts(const Rows *r, int p) {
    Contraction roles = map_contraction(r->s->flow, map_at(r, p));
    for (int d = 0; roles.is && d < map_at(r, p)->dim.n; d++)
        if ((roles.role[d] == ROLE_M || roles.role[d] == ROLE_N) &&
            map_usual(r->s->flow, map_at(r, p), d) > 1)
            return true;
    return false;
}

/* Does an instruction take the products of map p in groups, lanes inside of its rows? */
static bool takes_groups(const Rows *r, int p, Dot *dot) {
    return dot_ready(r->s->env->machine, r->s->flow, map_at(r, p), dot) &&
           !rows_outer(r, p, dot->lane) && !rows_outer(r, p, dot->k);
}

/* The machine's step on tiles for the products of map p, or NULL. */
static const MatrixStep *takes_tiles(const Rows *r, int p) {
    Dot dot;
    bool groups = contracts(r, p) && takes_groups(r, p, &dot);
    return groups ? dot_matrix(r->s->env->machine, r->s->flow, map_at(r, p), &dot) : NULL;
}

static int inner_lane(Rows *r, int p) {
    Dot dot;
    if (r->columns) return r->al.at[p][r->block];
    if (takes_groups(r, p, &dot)) return dot.lane;
    bool allowed[MAP_DIMS];
    for (int d = 0; d < map_at(r, p)->dim.n; d++) allowed[d] = !rows_outer(r, p, d);
    return choose_lanes(r->s, map_at(r, p), allowed);
}

/* Bytes that map p reads again for each block of rows. */
static double bytes_again(const Rows *r, int p) {
    const Map *m = map_at(r, p);
    double sum = 0;
    for (int v = 0; v < m->body.val.n; v++) {
        const Val *val = &m->body.val.at[v];
        if (val->kind != VAL_READ) continue;
        double bytes = (double)dtype_bytes(val->type, 1);
        for (int d = 0; d < m->dim.n; d++) {
            bool uses = access_uses(m, &val->read, d);
            if (uses && d == r->al.at[p][r->block]) bytes = 0;
            if (uses && !rows_outer(r, p, d)) bytes *= (double)map_usual(r->s->flow, m, d);
        }
        sum += bytes;
    }
    return sum;
}

/* Rows that fill a step's tiles, where all products run on tiles and the inner cache holds what the
 * maps hand on for a row; else 0. */
static int64_t rows_in_tiles(const Rows *r, int64_t extent, int64_t handed) {
    const MatrixStep *step = NULL;
    for (int p = 0; p < r->kernel->map.n; p++) {
        if (!contracts(r, p)) continue;
        step = takes_tiles(r, p);
        if (!step) return 0;
    }
    if (!step || map_extent(r->root, r->block, MATRIX_ROWS_LEAST) < MATRIX_ROWS_LEAST) return 0;
    if (map_extent(r->root, r->block, -1) < 0) extent = 2 * step->rows;
    int64_t room = r->s->env->machine->level[1].bytes / 2;
    for (int64_t tiles = 2; tiles > 0; tiles--)
        if (tiles * step->rows * handed <= room) return equal_tiles(extent, tiles * step->rows);
    return 0;
}

/* How many tiles of rows go together over what is read again for each block: at most `most`, and
 * not so many that threads get unequal parts. */
static int64_t tiles_of_rows(const Rows *r, int64_t extent, double most) {
    double tasks = (double)extent / (double)r->hold;
    int64_t tiles = TILES;
    for (int d = 0; d < r->root->dim.n; d++)
        if (r->outer[d] && d != r->block) tasks *= (double)map_usual(r->s->flow, r->root, d);
    while (tiles > 1 && ((double)tiles > most || tasks / (double)tiles < 2 * TASKS_LEAST)) tiles--;
    return tiles;
}

/* Rows of a block: those that `fuse` counts on, over whose multiples domains end (pass `mask`); or
 * more, where the inner cache holds what the maps hand on but not well what is read again for each
 * block; not where their number is unknown, as what is left behind the last block runs a few rows
 * at a time. Registers hold the sums of all, or tiles. */
static int64_t block_rows(Rows *r, int64_t extent) {
    const Machine *machine = r->s->env->machine;
    int64_t hold = ROWS_MOST, handed = 0;
    double again = 0, room = (double)machine->level[1].bytes / 2;
    bool whole = map_extent(r->root, r->block, -1) > 0;
    for (int p = 0; p < r->kernel->map.n; p++) {
        bool scalar;
        int64_t own = p < r->kernel->map.n - 1 ? rows_bytes(r, p, &scalar) : 0;
        int lane = inner_lane(r, p);
        handed += own > 0 ? own : 0;
        whole = whole && !map_at(r, p)->cons.n;
        if (!contracts(r, p)) continue;
        again += bytes_again(r, p);
        if (lane < 0 || map_reduces(map_at(r, p), lane)) continue;
        int64_t vectors = tile_width(machine, r->s->flow, map_at(r, p), lane) / lanes_of(r->s);
        if ((machine->vector_regs - 2 - vectors) / vectors < hold)
            hold = (machine->vector_regs - 2 - vectors) / vectors;
    }
    int64_t tiled = rows_in_tiles(r, extent, handed);
    r->tiles = tiled > 0;
    if (tiled) return tiled;
    bool more = whole && again > room && (double)(hold * handed) <= room;
    if (!more && hold > ROW_BLOCK) hold = ROW_BLOCK;
    r->hold = hold;
    if (!more) return extent < hold ? extent : hold;
    r->hold = equal_tiles(extent, hold);
    return r->hold * tiles_of_rows(r, extent, room / (double)(r->hold * handed));
}

/* The outer dim whose indices share an operand of every contraction. */
static void find_block(Rows *r) {
    r->block = -1;
    r->rows = 1;
    for (int d = 0; d < r->root->dim.n; d++) {
        int64_t extent = map_usual(r->s->flow, r->root, d);
        bool shares = r->outer[d] && extent > 1, any = false;
        for (int p = 0; p < r->kernel->map.n; p++) {
            if (!contracts(r, p)) continue;
            DimRole role = map_contraction(r->s->flow, map_at(r, p))
                               .role[r->al.at[p][d] < 0 ? 0 : r->al.at[p][d]];
            any = true;
            shares &= role == ROLE_M || role == ROLE_N;
        }
        if (any && shares) r->block = d;
    }
    if (r->block >= 0) r->rows = block_rows(r, map_usual(r->s->flow, r->root, r->block));
}

static bool any_contracts(const Rows *r) {
    bool any = false;
    for (int p = 0; p < r->kernel->map.n; p++) any |= contracts(r, p);
    return any;
}

/* What the maps cost with lanes along outer dim d, or where each has its best (d < 0). */
static double lanes_cost(Rows *r, int d) {
    double sum = 0;
    int lanes = lanes_of(r->s);
    for (int p = 0; p < r->kernel->map.n; p++) {
        int lane = d < 0 ? inner_lane(r, p) : r->al.at[p][d];
        sum += lane < 0 ? scalar_cost(r->s->flow, map_at(r, p), lanes)
                        : lane_cost(r->s->flow, map_at(r, p), lane, lanes, false);
    }
    return sum;
}

/* Vectors of a block of columns: as many chains as hide one another, fewer where that would leave
 * too few tasks. */
static int64_t block_columns(const Rows *r) {
    int64_t lanes = lanes_of(r->s), extent = map_usual(r->s->flow, r->root, r->block);
    double others = 1;
    for (int d = 0; d < r->root->dim.n; d++)
        if (r->outer[d] && d != r->block) others *= (double)map_usual(r->s->flow, r->root, d);
    int64_t most = CHAINS;
    while (most > 1 && others * (double)extent / (double)(most * lanes) < CHAINS) most /= 2;
    return extent < most * lanes ? extent : most * lanes;
}

/* May outer dim d be cut in blocks? Of one that is known to be short, but not how short, a block
 * has no size. */
static bool has_columns(Rows *r, int d) {
    Flow *flow = r->s->flow;
    const MapDim *dim = &r->root->dim.at[d];
    DimEnv env = flow_env(flow->arena, flow);
    Dim most = dim_const(flow->ctx, CHAINS * lanes_of(r->s));
    return r->outer[d] && !dim->seq && map_usual(r->s->flow, r->root, d) > 1 &&
           (dim_is_const(dim->extent, NULL) || !dim_le(flow->ctx, dim->extent, most, &env));
}

/* The outer dim that is cheaper in lanes than what the maps have inside. */
static void find_columns(Rows *r) {
    double least = lanes_cost(r, -1);
    for (int d = 0; d < r->root->dim.n; d++) {
        if (!has_columns(r, d)) continue;
        double cost = lanes_cost(r, d);
        if (cost < least) r->block = d, least = cost;
    }
    r->columns = r->block >= 0;
    if (r->columns) r->rows = block_columns(r);
}

/* ---- storage -------------------------------------------------------------------------------- */

int64_t rows_bytes(const Rows *r, int p, bool *scalar) {
    const Map *m = map_at(r, p);
    const Access *to = &m->write.at[0].to[0];
    int64_t count = r->rows;
    *scalar = r->rows == 1;
    for (int k = 0; k < to->rank; k++) {
        int d = access_dim(m, to, k);
        bool one = d < 0 ? dim_is_const(to->at[k], NULL)
                         : rows_outer(r, p, d) || dim_is(m->dim.at[d].extent, 1);
        if (one) continue;
        Dim whole = r->s->flow->cont.at[to->cont].shape[k]; /* an index of several dims */
        *scalar = false;
        int64_t extent = d < 0 ? extent_or(whole, -1) : map_extent(m, d, -1);
        count = extent < 0 || count < 0 ? -1 : count * extent;
    }
    return count < 0 ? -1 : count * dtype_bytes(r->s->flow->cont.at[to->cont].type, 1);
}

/* Rows whose maxima and sums run side by side, as each alone is a chain: few, so that what they
 * hand on stays near and every thread gets some. */
static void find_chains(Rows *r) {
    bool folds = false;
    double tasks = 1;
    int last = -1;
    for (int p = 0; p < r->kernel->map.n; p++) {
        int lane = inner_lane(r, p);
        folds |= lane >= 0 && map_is_reduction(map_at(r, p)) && map_reduces(map_at(r, p), lane);
    }
    for (int d = 0; d < r->root->dim.n; d++) {
        if (!r->outer[d] || map_extent(r->root, d, 1) < 2 || r->root->dim.at[d].seq) continue;
        tasks *= (double)map_extent(r->root, d, 1);
        last = d;
    }
    if (!folds || last < 0) return;
    for (int64_t rows = CHAINS; rows > 1; rows /= 2) {
        if (tasks / (double)rows < TASKS_LEAST || map_extent(r->root, last, 1) < rows) continue;
        bool scalar, near = true;
        r->rows = rows;
        for (int p = 0; p < r->kernel->map.n - 1; p++) {
            int64_t bytes = rows_bytes(r, p, &scalar);
            near &= bytes >= 0 && bytes <= TILE_BYTES;
        }
        if (near) {
            r->block = last;
            return;
        }
    }
    r->rows = 1;
}

static void keep_rows(Rows *r) {
    for (int p = 0; p < r->kernel->map.n - 1; p++) {
        const Map *m = map_at(r, p);
        bool scalar;
        int64_t bytes = rows_bytes(r, p, &scalar);
        for (int k = 0; k < m->write.at[0].n; k++) {
            int cont = m->write.at[0].to[k].cont;
            if (read_outside(r->s, r->kernel, cont)) continue;
            Storage in = scalar                              ? KEEP_REG
                         : bytes >= 0 && bytes <= TILE_BYTES ? KEEP_TILE
                                                             : KEEP_SCRATCH;
            kernel_keep(r->s->flow, r->kernel, p, cont, in);
        }
    }
}

/* ---- lines ---------------------------------------------------------------------------------- */

void rows_line(Rows *r, LineKind kind, int pos) {
    Line line = {.kind = kind, .map = pos, .cont = -1};
    for (int d = 0; d < r->root->dim.n; d++)
        if (r->outer[d] && d != r->block && !dim_is(r->root->dim.at[d].extent, 1))
            line_dim(r->s->flow, &line, r->root, d, kind == LINE_TILE);
    if (r->block >= 0)
        line_dim(r->s->flow, &line, r->root, r->block, kind == LINE_TILE ? r->rows : 0);
    if (line.narg || kind == LINE_AT) vec_push(r->s->flow->arena, &r->kernel->line, line);
}

/* A contraction's register tile: the block's rows and a panel of lanes. */
static void contraction_lines(Rows *r, int p, int lane) {
    Flow *flow = r->s->flow;
    const Map *m = map_at(r, p);
    int row = r->block >= 0 ? r->al.at[p][r->block] : -1;
    if (lane < 0 || map_reduces(m, lane)) {
        if (row >= 0) line_dim(flow, kernel_line(flow, r->kernel, LINE_UNROLL, p), m, row, 0);
        return;
    }
    int64_t width = tile_width(r->s->env->machine, flow, m, lane);
    bool panels = map_extent(m, lane, INT64_MAX) > width;
    bool rows = row >= 0 && r->hold && r->rows > r->hold;
    Line *tile = panels || rows ? kernel_line(flow, r->kernel, LINE_TILE, p) : NULL;
    if (panels) line_dim(flow, tile, m, lane, width);
    if (rows) line_dim(flow, tile, m, row, r->hold);
    Line *unroll = kernel_line(flow, r->kernel, LINE_UNROLL, p);
    if (row >= 0) line_dim(flow, unroll, m, row, 0);
    line_dim(flow, unroll, m, lane, 0);
    Dot dot;
    if (!takes_groups(r, p, &dot)) {
        int64_t held = rows ? r->hold : row < 0 ? 1 : r->rows;
        if (!m->cons.n) step_lines(r->s, r->kernel, p, -1, held * (width / lanes_of(r->s)), unroll);
        return;
    }
    line_dim(flow, unroll, m, dot.k, 0);
    const MatrixStep *step = takes_tiles(r, p);
    if (step && r->tiles) kernel_line(flow, r->kernel, LINE_USE, p)->name = step->name;
    Line *reduce = kernel_line(flow, r->kernel, LINE_REDUCE, p);
    if (step) line_dim(flow, reduce, m, dot.k, (int64_t)step->groups * dot.row->group);
    line_dim(flow, reduce, m, dot.k, dot.row->group);
    line_dim(flow, reduce, m, dot.k, 0);
}

/* The dim of map p whose results may run side by side: the block's, else one that p has for itself.
 */
static int chains_dim(const Rows *r, int p) {
    const Map *m = map_at(r, p);
    if (r->block >= 0) return r->al.at[p][r->block];
    for (int d = m->dim.n - 1; d >= 0; d--)
        if (!map_reduces(m, d) && !rows_outer(r, p, d) && !m->dim.at[d].seq &&
            map_extent(m, d, 1) >= CHAINS)
            return d;
    return -1;
}

/* Sums of columns: a vector of accumulators for each vector of the block. */
static void column_lines(Rows *r, int p, int lane) {
    const Map *m = map_at(r, p);
    if (!map_is_reduction(m)) return;
    line_dim(r->s->flow, kernel_line(r->s->flow, r->kernel, LINE_UNROLL, p), m, lane, 0);
    partial_line(r->s, r->kernel, p, lane, SUM_BLOCK);
}

/* A reduction over lanes is a chain of operations that wait for one another: some chains run side
 * by side. */
static void reduction_lines(Rows *r, int p, int lane) {
    const Map *m = map_at(r, p);
    int row = chains_dim(r, p);
    if (row < 0 || lane < 0 || !map_is_reduction(m) || !map_reduces(m, lane)) return;
    Flow *flow = r->s->flow;
    bool many = r->block < 0 ? map_extent(m, row, 1) > CHAINS : r->rows > ROWS_MOST;
    if (many) line_dim(flow, kernel_line(flow, r->kernel, LINE_TILE, p), m, row, CHAINS);
    line_dim(flow, kernel_line(flow, r->kernel, LINE_UNROLL, p), m, row, 0);
}

Rows rows_of(Scheduling *s, Kernel *kernel) {
    Rows r = {.s = s, .kernel = kernel, .block = -1, .rows = 1};
    int n = kernel->map.n;
    r.root = s->flow->map.at[kernel->map.at[n - 1]];
    r.al = kernel_align(s->flow->arena, s->flow, kernel->map.at, n);
    find_outer(&r);
    return r;
}

void schedule_rows(Scheduling *s, Kernel *kernel) {
    Rows r = rows_of(s, kernel);
    int n = kernel->map.n;
    find_block(&r);
    if (!any_contracts(&r)) find_columns(&r);
    if (!any_contracts(&r) && !r.columns) find_chains(&r);
    rows_line(&r, LINE_TILE, n - 1);
    if (worth_threads(s, kernel)) rows_line(&r, LINE_PARALLEL, n - 1);
    for (int p = 0; p < n; p++) {
        int lane = inner_lane(&r, p);
        bool tile = contracts(&r, p);
        if (r.columns)
            column_lines(&r, p, lane);
        else if (tile)
            contraction_lines(&r, p, lane);
        else
            reduction_lines(&r, p, lane);
        if (lane >= 0) vector_line(s, kernel, p, lane);
        if (p < n - 1) rows_line(&r, LINE_AT, p);
    }
    keep_rows(&r);
}
