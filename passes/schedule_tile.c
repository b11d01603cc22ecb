/* SPDX-License-Identifier: Apache-2.0 */
/* The tile of a reduction that registers hold (schedule_tiled.c writes the lines): which dim runs
 * in lanes, which in rows, how many of both, and what stands side by side in code.
 *
 * Accumulators are rows x vectors: vectors along the lane dim, rows along the dims whose iterations
 * share most loads. Their number is bounded by the register file; extents are cut into equal tiles.
 */
#include <math.h>
#include <string.h>

#include "passes/schedule_tiled.h"

/* Independent operations that keep the units of a core busy: two of them, four cycles. */
enum { LATENCY_OPERATIONS = 8 };
/* Least tiles that read a stream. */
enum { STREAMS_LEAST = 8 };
/* Rows go along a known dim if there is one; else not along a batch, often 1. */
static const int64_t unknown_row = 5;

bool tiled_output(const Tiled *t, int d) {
    return t->root_of[d] >= 0;
}

/* Correspondence p -> root by the root's read of p's container. */
static bool find_roots(Tiled *t) {
    for (int d = 0; d < t->p->dim.n; d++)
        t->root_of[d] = t->p == t->root && !map_reduces(t->p, d) ? d : -1;
    t->inners = 1;
    if (t->p == t->root) return true;
    Alignment al = kernel_align(t->s->flow->arena, t->s->flow, t->kernel->map.at, t->kernel->map.n);
    for (int r = 0; r < t->root->dim.n; r++) {
        if (al.at[t->at][r] >= 0)
            t->root_of[al.at[t->at][r]] = r;
        else if (!dim_is(t->root->dim.at[r].extent, 1))
            return false;
    }
    for (int d = 0; d < t->p->dim.n; d++) {
        t->inner[d] = !map_reduces(t->p, d) && t->root_of[d] < 0;
        if (t->inner[d]) t->inners *= map_extent(t->p, d, INNER_MOST + 1);
        if (t->inners > INNER_MOST) return false;
    }
    return true;
}

static int choose_lane(const Tiled *t) {
    int lanes = lanes_of(t->s), best = -1;
    double best_cost = 0;
    for (int d = 0; d < t->p->dim.n; d++) {
        if (map_usual(t->s->flow, t->p, d) < 2 || t->p->dim.at[d].seq || t->inner[d]) continue;
        if (!folds(t->p, d)) continue;
        double cost = lane_cost(t->s->flow, t->p, d, lanes, false);
        if (t->p != t->root && tiled_output(t, d))
            cost += lane_cost(t->s->flow, t->root, t->root_of[d], lanes, false);
        if (best < 0 || cost < best_cost) best = d, best_cost = cost;
    }
    return best;
}

/* Do lanes of dim d have a word of codes each, in which another dim, the group, runs? */
static bool runs_in_words(Tiled *t, const Access *read, int d) {
    int bits = dtype_bits(t->s->flow->cont.at[read->cont].type), codes = WORD_BITS / bits;
    if (bits >= 8 || !tiled_output(t, d)) return false;
    if (access_stride(t->s->flow, t->p, read, d, lanes_of(t->s)) != codes) return false;
    for (int k = 0; k < t->p->dim.n; k++) {
        if (!map_reduces(t->p, k) || access_stride(t->s->flow, t->p, read, k, codes) != 1) continue;
        t->lane = d, t->group = k, t->group_size = codes;
        return true;
    }
    return false;
}

/* Lanes and the group that how operands are stored asks for. */
static bool find_group(Tiled *t) {
    Dot dot;
    t->group = -1;
    if (dot_ready(t->s->env->machine, t->s->flow, t->p, &dot) && tiled_output(t, dot.lane)) {
        t->lane = dot.lane, t->group = dot.k, t->group_size = dot.row->group;
        t->operand = dot.a;
        t->pairs = dot.row->pairs != NULL;
        t->groups = dot_groups(t->s->env->machine, t->s->flow, t->p, &dot);
        t->matrix = t->groups ? matrix_of(t->s->env->machine, dot.row->name) : NULL;
        return true;
    }
    if (dot_each_ready(t->s->env->machine, t->s->flow, t->p, &dot) && tiled_output(t, dot.lane)) {
        t->lane = dot.lane, t->group = dot.k, t->group_size = dot.row->group;
        return t->each = true;
    }
    for (int v = 0; v < t->p->body.val.n; v++)
        for (int d = 0; t->p->body.val.at[v].kind == VAL_READ && d < t->p->dim.n; d++)
            if (runs_in_words(t, &t->p->body.val.at[v].read, d)) return true;
    return false;
}

/* Reads that need not be repeated for another index of dim d. */
static int shared_reads(const Tiled *t, int d) {
    int n = 0;
    for (int v = 0; v < t->p->body.val.n; v++) {
        const Val *val = &t->p->body.val.at[v];
        if (val->kind != VAL_READ) continue;
        bool uses = false;
        for (int k = 0; k < val->read.rank; k++)
            uses |= dim_uses(val->read.at[k], t->p->dim.at[d].sym);
        n += !uses;
    }
    return n;
}

/* Do all indices of dim d share what is read in lanes? Without lanes that is nothing. */
bool tiled_shares_lanes(const Tiled *t, int d) {
    for (int v = 0; t->lane >= 0 && v < t->p->body.val.n; v++) {
        const Val *val = &t->p->body.val.at[v];
        if (val->kind == VAL_READ && access_uses(t->p, &val->read, t->lane) &&
            access_uses(t->p, &val->read, d))
            return false;
    }
    return true;
}

static bool open_row(const Tiled *t, int row) {
    return row >= 0 && map_extent(t->p, row, -1) < 0;
}

/* How far apart results along dim d lie in memory. */
static int64_t result_step(const Tiled *t, int d) {
    const Access *to = &t->root->write.at[0].to[0];
    return t->root_of[d] < 0 ? INT64_MAX : access_stride(t->s->flow, t->root, to, t->root_of[d], 1);
}

/* The dim along which a tile of at most so many rows goes: of those that share most of what is read
 * the one that fills tiles; of several the one along which results are neighbours, as rows of far
 * ones have their lines on a page each. Measured on Zen 4, 64 to 256 channels in blocks of 128 x 96
 * by 1x1: 68 GFLOP/s down, 112 along. */
static int choose_row(const Tiled *t, int not, int64_t most) {
    int best = -1, best_shared = -1;
    int64_t best_rows = 0, best_step = 0;
    for (int d = 0; d < t->p->dim.n; d++) {
        int64_t extent = map_extent(t->p, d, unknown_row);
        if (open_row(t, d) && map_usual(t->s->flow, t->p, d) < unknown_row)
            extent = unknown_row - 1;
        if (d == t->lane || d == not || !tiled_output(t, d) || extent < 2 || t->p->dim.at[d].seq)
            continue;
        int shared = 2 * shared_reads(t, d) +
                     (t->lane >= 0 && tiled_output(t, t->lane) && tiled_shares_lanes(t, d));
        int64_t rows = extent < most ? extent : open_row(t, d) ? most : equal_tiles(extent, most);
        int64_t step = result_step(t, d);
        bool fills = 4 * rows >= 5 * best_rows, about = 5 * rows > 4 * best_rows;
        if (shared < best_shared) continue;
        if (shared == best_shared && !fills && !(about && step <= best_step)) continue;
        best = d, best_shared = shared, best_rows = rows, best_step = step;
    }
    return best;
}

/* Is the number of rows known only at run time? */
bool tiled_rows_open(const Tiled *t) {
    return open_row(t, t->row[0]);
}

static void choose_rows(Tiled *t, int64_t most) {
    t->row[0] = most > 1 ? choose_row(t, -1, most) : -1;
    t->row[1] = -1;
    t->rows[0] = t->rows[1] = 1;
    if (t->row[0] < 0) return;
    int64_t extent =
        t->matrix && tiled_rows_open(t) ? most : map_usual(t->s->flow, t->p, t->row[0]);
    if (tiled_rows_open(t) && !t->matrix && most > OPEN_ROWS) most = OPEN_ROWS;
    t->rows[0] = equal_tiles(extent, rows_apart(t->s->flow, t->p, t->row[0], most));
    if (t->rows[0] < extent || most / t->rows[0] < 2) return;
    t->row[1] = choose_row(t, t->row[0], most / t->rows[0]);
    if (t->row[1] >= 0)
        t->rows[1] = equal_tiles(map_usual(t->s->flow, t->p, t->row[1]), most / t->rows[0]);
}

/* Lanes that run along terms leave each result a register: beside rows, the few results (channels)
 * that share what rows read, as far as registers go. Measured on Zen 5, three channels of 64 by
 * 3x3: 0.65 of the time of four rows alone. */
static void choose_few(Tiled *t, int64_t budget) {
    enum { FEW = 4 };
    for (int d = 0; d < t->p->dim.n && t->row[0] >= 0 && t->row[1] < 0; d++) {
        int64_t extent = map_extent(t->p, d, 0);
        if (!tiled_output(t, d) || d == t->row[0] || t->p->dim.at[d].seq) continue;
        if (extent < 2 || extent > FEW || extent * t->rows[0] > budget) continue;
        if (shared_reads(t, d)) t->row[1] = d, t->rows[1] = extent;
    }
}

/* Does a panel fill so much of the second cache that it comes from behind it for each tile of rows?
 * Measured on Zen 5, 1.5 MB for 28 tiles of 7 rows: 1.46 of the time of 14. */
static bool panel_is_far(const Tiled *t) {
    double bytes = 4 * (double)(t->vectors * t->inners * lanes_of(t->s));
    for (int d = 0; d < t->p->dim.n; d++)
        if (map_reduces(t->p, d)) bytes *= (double)map_usual(t->s->flow, t->p, d);
    return bytes > (double)t->s->env->machine->level[1].bytes / 2;
}

/* Where long sums run in blocks, each accumulator has a total besides. Half of the rows, with both
 * in registers, beat all rows with totals that are loaded and stored after each block, if, in equal
 * tiles, they still hide an operation's latency and more: measured 4 % on Zen 4; but tiles of 3
 * rows and 3 vectors take 1.1 to 2 times the time of 7 rows, the more the busier the next cache is,
 * and 3 rows of four gates 1.3 times the time of 6 (Zen 5, whose second cache is asked for 43 bytes
 * a cycle so).
 * Where the run counts rows that is less than what 8 rows leave behind in tiles of 7: 8 rows take
 * 0.7 of the time so. */
static int64_t rows_with_totals(const Tiled *t, int64_t otherwise) {
    enum { SUMS_LEAST = LATENCY_OPERATIONS + 2, ROWS_LEAST = 4 };
    int regs = sum_registers(t->s->env->machine, t->p);
    int64_t row = t->vectors * t->inners, rows = (regs - 1 - t->vectors) / (2 * row);
    if (rows < 1) return otherwise;
    int along = choose_row(t, -1, rows);
    int64_t whole = along < 0 ? rows : equal_tiles(map_usual(t->s->flow, t->p, along), rows);
    bool few = whole * row < SUMS_LEAST || whole < ROWS_LEAST || open_row(t, along);
    bool cost = panels_cost(t->s->env->machine) || panel_is_far(t);
    return few || cost ? otherwise : rows;
}

/* Two groups of a window, the second cut short, stand side by side in the code: what rows that
 * slide by less than a group read for one is held in registers for the other. Rows for which there
 * is room. */
static int64_t rows_with_reads(const Tiled *t, int64_t otherwise) {
    int64_t extent = t->group >= 0 ? map_extent(t->p, t->group, 0) : 0;
    if (extent <= t->group_size || extent >= 2 * t->group_size) return otherwise;
    int64_t held = t->s->env->machine->vector_regs - 1 - 2 * t->vectors;
    return (held - t->group_size) / (t->vectors + 1);
}

/* Is each row of the first dim behind all of the second's in the other operand? */
static bool rows_in_line(const Tiled *t, const Access *a) {
    int64_t step = access_stride(t->s->flow, t->p, a, t->row[0], 1);
    int64_t next = access_stride(t->s->flow, t->p, a, t->row[1], 1);
    return step != INT64_MAX && next == step * t->rows[0];
}

int64_t tiled_size(const Tiled *t, int d) {
    if (d == t->lane) return (int64_t)t->vectors * lanes_of(t->s);
    if (d == t->row[0]) return t->rows[0];
    return d == t->row[1] ? t->rows[1] : 1;
}

/* The reduced dim whose storage is blocked, which some operand holds in blocks of `size`, or -1. */
int tiled_blocked(const Tiled *t, int64_t size) {
    for (int v = 0; v < t->p->body.val.n; v++) {
        const Val *val = &t->p->body.val.at[v];
        for (int d = 0; val->kind == VAL_READ && d < t->p->dim.n; d++)
            if (map_reduces(t->p, d) && map_usual(t->s->flow, t->p, d) > size &&
                access_stride(t->s->flow, t->p, &val->read, d, 1) == INT64_MAX &&
                access_stride(t->s->flow, t->p, &val->read, d, size) != INT64_MAX)
                return d;
    }
    return -1;
}

/* Rows of several tiles where the innermost cache holds a third each of their sums, of a chunk of
 * the panel that all of them meet, and of a tile's rows: what is read from farther away halves. */
static void choose_chunk(Tiled *t) {
    int64_t third = t->s->env->machine->level[0].bytes / 3, panel = t->vectors * lanes_of(t->s);
    int64_t depth = t->groups * t->group_size, others = 1;
    int64_t most = third / dtype_bytes(t->p->body.val.at[t->operand].type, panel);
    if (t->row[1] >= 0 || tiled_blocked(t, depth) >= 0) return;
    for (int d = 0; d < t->p->dim.n; d++) {
        int64_t extent = map_usual(t->s->flow, t->p, d), size = tiled_size(t, d);
        if (map_reduces(t->p, d) && d != t->group && extent > 1) return;
        if (tiled_output(t, d) && d != t->row[0]) others *= (extent + size - 1) / size;
    }
    int64_t tiles = matrix_tiles(map_extent(t->p, t->row[0], 1), t->rows[0], others,
                                 third / dtype_bytes(F32, panel));
    int64_t chunk = matrix_chunk(map_extent(t->p, t->group, 1), depth, most);
    if (tiles > 1 && chunk) t->rows[0] *= tiles, t->chunk = chunk;
}

/* Two rows of tiles with two vectors each; false: there are too few rows. Where their number is not
 * known, tiles are set up at run time for what the last one has. Rows of two dims fill both if they
 * are in line; else each is one dim's. */
static bool choose_matrix(Tiled *t) {
    if (!t->matrix || t->inners > 1) return false;
    if (t->vectors > 2) return false;
    choose_rows(t, 2 * t->matrix->rows);
    if (t->row[0] < 0) return false;
    if (t->row[1] >= 0 && !rows_in_line(t, &t->p->body.val.at[t->operand].read)) {
        bool fits = t->rows[0] <= t->matrix->rows && t->rows[1] > 1;
        t->rows[1] = fits ? equal_tiles(map_usual(t->s->flow, t->p, t->row[1]), 2) : 1;
    }
    if (t->rows[1] == 1) t->row[1] = -1;
    if (t->row[1] >= 0 && map_extent(t->p, t->row[1], -1) < 0) t->row[1] = -1, t->rows[1] = 1;
    if (t->rows[0] * t->rows[1] < MATRIX_ROWS_LEAST) return false;
    choose_chunk(t);
    return true;
}

/* Vectors side by side where each element is read once, or 0: rows would be streams of their own,
 * in one set of the cache often, and narrow columns of long rows are a line here and there. */
static int stream_vectors(const Tiled *t) {
    double tiles = 1, lanes = lanes_of(t->s);
    for (int v = 0; v < t->p->body.val.n; v++) {
        const Access *a = &t->p->body.val.at[v].read;
        if (t->p->body.val.at[v].kind != VAL_READ) continue;
        int64_t step = access_stride(t->s->flow, t->p, a, t->lane, lanes_of(t->s));
        if (step != 1 || access_slides(t->p, a)) return 0;
    }
    for (int d = 0; d < t->p->dim.n; d++)
        if (tiled_output(t, d) && d != t->lane) tiles *= (double)map_usual(t->s->flow, t->p, d);
    double extent = (double)map_extent(t->p, t->lane, 0);
    int vectors = LATENCY_OPERATIONS;
    while (vectors > 2 && tiles * extent / (vectors * lanes) < STREAMS_LEAST) vectors /= 2;
    return vectors * lanes <= extent ? vectors : 0;
}

/* How many panels a tile of few sums takes side by side: each is a chain of operations of its own,
 * and a stream of its own from memory, which hands over more by several than by one. Measured on
 * Zen 3, one row: weights come at 19 GB/s from memory, one panel after the other at 13. */
static int panels_aside(const Tiled *t) {
    const Machine *m = t->s->env->machine;
    int64_t width = (int64_t)t->vectors * lanes_of(t->s), extent = map_extent(t->p, t->lane, 0);
    int64_t chains = t->vectors * t->rows[0] * t->rows[1] * m->vector_regs / sum_registers(m, t->p);
    int64_t n = LATENCY_OPERATIONS / chains;
    if (m->vector_regs >= MANY_REGISTERS || t->group >= 0 || t->inners > 1 || tiled_rows_open(t))
        return 1;
    if (t->p->write.at[0].combine->nstate > 1 || map_reads_by_value(t->p)) return 1;
    double tiles = worth_threads(t->s, t->kernel) ? STREAMS_LEAST : 0.5;
    while (n > 1 && tiles * (double)(n * width) > (double)extent) n /= 2;
    return n > 1 ? (int)n : 1;
}

/* At most so many vectors: what rows of an unrolled window share is held beside the sums, and what
 * all rows meet beside both. One where lanes pick what they share. */
static int vectors_with_reads(const Tiled *t, int otherwise) {
    if (!tiled_unrolls_window(t) || !tiled_slides(t)) return otherwise;
    int64_t most = t->s->env->machine->vector_regs / (2 * t->rows[0] * t->rows[1] + 1);
    if (most < 1 || tiled_picks(t)) most = 1;
    return otherwise < most ? otherwise : (int)most;
}

/* Rows for which there are registers beside what is held for all of them: the vectors read in
 * lanes, those of each inner index if it has its own. */
static int64_t rows_beside(const Tiled *t, int vectors, int others) {
    int64_t held = vectors;
    for (int d = 0; d < t->p->dim.n; d++)
        if (t->inner[d] && !tiled_shares_lanes(t, d)) held = vectors * t->inners;
    return (sum_registers(t->s->env->machine, t->p) - others - held) / (vectors * t->inners);
}

/* Where a tile has inner indices, one vector of each may leave room for more rows, so that more
 * products are made of each vector and element that is read. Rows that the run alone counts may be
 * one. */
static int vectors_of_inners(const Tiled *t, int vectors, int others) {
    int row = choose_row(t, -1, ROWS_MOST), best = vectors;
    double most = 0, extent = row < 0 ? 1 : (double)map_extent(t->p, row, 1);
    for (int n = vectors; n >= 1; n--) {
        double rows = fmin(fmax((double)rows_beside(t, n, others), 1), extent);
        double sums = (double)(n * t->inners), products = rows * sums / (rows + sums);
        if (products > most) most = products, best = n;
    }
    return best;
}

/* Rows that share nothing of what is read in lanes but where their windows overlap: a few rows and
 * vectors, so that what overlaps is held beside the sums. Measured on Zen 4 for windows of 3x3, a
 * channel each, with lanes along their rows: 0.75 of the time of 14 rows and two vectors. */
static void choose_overlapping(Tiled *t) {
    enum { VECTORS = 2 };
    bool overlap = t->row[0] >= 0 && !tiled_shares_lanes(t, t->row[0]) && tiled_slides(t);
    if (!overlap || !tiled_unrolls_window(t)) return;
    if (t->s->env->machine->vector_regs < MANY_REGISTERS) return;
    if (t->vectors > VECTORS) t->vectors = VECTORS;
    choose_rows(t, LATENCY_OPERATIONS / t->vectors);
}

/* The result dim that slides along reduced dim k; -1: none. */
static int slides_along(const Tiled *t, int k) {
    for (int v = 0; v < t->p->body.val.n; v++) {
        const Val *val = &t->p->body.val.at[v];
        for (int i = 0; val->kind == VAL_READ && i < val->read.rank; i++)
            for (int d = 0; d < t->p->dim.n && dim_uses(val->read.at[i], t->p->dim.at[k].sym); d++)
                if (tiled_output(t, d) && dim_uses(val->read.at[i], t->p->dim.at[d].sym)) return d;
    }
    return -1;
}

/* Lanes with a group each have it turned around first: what a row of the image gives stays in a
 * register for the rows of results above and below, where the window is unrolled. So a few stand
 * beside one another, more below one another. Measured on Zen 4 for windows of 3x3: 0.72 of the
 * time of eight in a row. */
static void choose_turned(Tiled *t) {
    enum { ACROSS = 2 };
    int across = t->each ? slides_along(t, t->group) : -1, down = -1;
    if (across < 0 || !tiled_unrolls_window(t)) return;
    for (int k = 0; k < t->p->dim.n; k++) {
        int d = map_reduces(t->p, k) ? slides_along(t, k) : -1;
        if (d >= 0 && d != across) down = d;
    }
    if (down < 0 || map_extent(t->p, down, 1) < 2) return;
    t->row[0] = across, t->row[1] = down;
    t->rows[1] = equal_tiles(map_extent(t->p, down, 1), LATENCY_OPERATIONS / ACROSS);
    t->rows[0] = equal_tiles(map_extent(t->p, across, 1), LATENCY_OPERATIONS / t->rows[1]);
}

/* Vectors side by side share what rows read alone (the other operand of a product). Where nothing
 * is read so (each channel has its own window), no more rows and vectors are taken than hide an
 * operation's latency: rows of one vector, which share what overlaps, then vectors. Measured for
 * depthwise windows of 3x3 and 5x5: 20 to 40 % less time than the largest tile. */
static void choose_tile(Tiled *t) {
    const Machine *m = t->s->env->machine;
    int lanes = lanes_of(t->s), regs = sum_registers(m, t->p), vectors = 1;
    int states = t->p->write.at[0].combine->nstate;
    bool lane_out = t->lane >= 0 && tiled_output(t, t->lane);
    if (lane_out) vectors = (int)tile_width(m, t->s->flow, t->p, t->lane) / lanes;
    t->vectors = vectors;
    if (choose_matrix(t)) return;
    t->matrix = NULL;
    bool shared = lane_out && shared_reads(t, t->lane);
    if (vectors * t->inners > regs - 4) vectors = 1;
    t->vectors = shared ? vectors : 1;
    /* Beside sums and vectors: what a row reads, a product, and the ones that add up pairs. */
    int others = 2 + (t->pairs && regs < MANY_REGISTERS);
    if (shared && t->inners > 1) t->vectors = vectors_of_inners(t, t->vectors, others);
    int64_t budget = rows_beside(t, t->vectors, others);
    int64_t block;
    if (shared && sum_blocks(t->p, t->lane, SUM_BLOCK, &block) >= 0)
        budget = rows_with_totals(t, budget);
    if (shared) budget = rows_with_reads(t, budget);
    int64_t limit = shared ? ROWS_MOST : LATENCY_OPERATIONS;
    int stream = lane_out && !shared && t->inners == 1 ? stream_vectors(t) : 0;
    if (stream) vectors = stream, limit = 1;
    int64_t most = lane_out ? (budget > limit ? limit : budget) : 4;
    bool gathers = map_reads_by_value(t->p); /* rows gain nothing, each is a load a lane */
    choose_rows(t, states > 1 || gathers ? 1 : most);
    if (shared) choose_overlapping(t);
    if (!lane_out) choose_few(t, budget);
    choose_turned(t);
    int64_t rows = t->rows[0] * t->rows[1], hiding = (LATENCY_OPERATIONS + rows - 1) / rows;
    if (!shared) t->vectors = vectors_with_reads(t, hiding < vectors ? (int)hiding : vectors);
    if (shared) t->vectors *= panels_aside(t);
}

/* Does the Val read along reduced dim d what other rows read for another index of it? */
static bool read_overlaps(const Tiled *t, const Val *val, int d) {
    for (int k = 0; val->kind == VAL_READ && k < val->read.rank; k++)
        for (int i = 0; i < 2; i++)
            if (t->row[i] >= 0 && dim_uses(val->read.at[k], t->p->dim.at[d].sym) &&
                dim_uses(val->read.at[k], t->p->dim.at[t->row[i]].sym))
                return true;
    return false;
}

/* Does a read ask at run time whether it is inside an operand whose extents are not known? */
static bool tests_reads(const Tiled *t) {
    for (int v = 0; v < t->p->body.val.n; v++) {
        const Val *val = &t->p->body.val.at[v];
        for (int k = 0; val->kind == VAL_READ && val->has_else && k < val->read.rank; k++)
            if (!dim_is_const(t->s->flow->cont.at[val->read.cont].shape[k], NULL)) return true;
    }
    return false;
}

/* Do lanes take what a read has for them out of one vector, in an order that dim d decides? */
static bool orders_lanes(const Tiled *t, int d) {
    const Flow *flow = t->s->flow;
    for (int v = 0; t->lane >= 0 && v < t->p->body.val.n; v++) {
        const Val *val = &t->p->body.val.at[v];
        if (val->kind != VAL_READ || !access_uses(t->p, &val->read, d)) continue;
        Dim first = access_in_block(flow, t->p, &val->read, t->lane, lanes_of(t->s));
        if (first && dim_uses(first, t->p->dim.at[d].sym)) return true;
    }
    return false;
}

/* Taps of a window: all, or those that rows share or that order lanes. */
static double window_taps(const Tiled *t, bool all) {
    double taps = 1;
    for (int d = 0; d < t->p->dim.n; d++)
        if (map_reduces(t->p, d) && (all || tiled_overlaps(t, d) || orders_lanes(t, d)))
            taps *= (double)map_extent(t->p, d, 1 << 20);
    return taps;
}

bool tiled_picks(const Tiled *t) {
    for (int d = 0; d < t->p->dim.n; d++)
        if (map_reduces(t->p, d) && orders_lanes(t, d)) return true;
    return false;
}

/* Taps that are written out at most; so many times the rows of a tile, where these are of two dims
 * or not all taps are. */
enum { TAPS = 25, TEXT_MOST = TAPS * LATENCY_OPERATIONS };

/* All taps of a window, where they are few. Compilers take minutes for more. */
static bool unrolls_all(const Tiled *t) {
    double rows = (double)(t->rows[0] * t->rows[1]), taps = window_taps(t, true);
    return taps <= TAPS && (t->row[1] < 0 || rows * taps <= TEXT_MOST);
}

/* Those that rows share of a larger window: what they read comes once for all rows that meet it.
 * Measured on Zen 4 for 7x7, a channel each, with lanes along rows: 0.5 of the time; sums over
 * channels, too, go better in larger tiles. */
static bool unrolls_shared(const Tiled *t) {
    double text = (double)(t->rows[0] * t->rows[1]) * window_taps(t, false);
    bool lanes = false, taps = true; /* rows share vectors; all terms are a window's */
    for (int d = 0; d < t->p->dim.n; d++) {
        if (!map_reduces(t->p, d)) continue;
        taps &= slides_along(t, d) >= 0 || map_extent(t->p, d, 2) == 1;
        for (int v = 0; t->lane >= 0 && v < t->p->body.val.n; v++)
            lanes |= read_overlaps(t, &t->p->body.val.at[v], d) &&
                     access_uses(t->p, &t->p->body.val.at[v].read, t->lane);
    }
    return lanes && taps && tiled_output(t, t->lane) && text <= TEXT_MOST;
}

bool tiled_unrolls_window(const Tiled *t) {
    enum { PICKING_TAPS = 48 };
    bool grouped = t->group >= 0, many = t->s->env->machine->vector_regs >= MANY_REGISTERS;
    if (t->row[0] < 0 || (grouped && !(t->each && many)) || tests_reads(t)) return false;
    return unrolls_all(t) || (many && unrolls_shared(t)) ||
           (tiled_picks(t) && window_taps(t, false) <= PICKING_TAPS);
}

bool tiled_unrolls_part(const Tiled *t) {
    return tiled_picks(t) || !unrolls_all(t);
}

/* All taps, unless they are many, lanes pick elements or registers are few: compilers load what
 * unrolled taps read early, and keep it on the stack. Measured on Zen 3 for windows of 5x5 with two
 * vectors: 1.5 times the time. */
bool tiled_unrolls_tap(const Tiled *t, int d) {
    bool few = t->s->env->machine->vector_regs < MANY_REGISTERS && tiled_slides(t);
    if (!map_reduces(t->p, d) || d == t->lane) return false;
    if (!few && !tiled_unrolls_part(t)) return true;
    return tiled_overlaps(t, d) || orders_lanes(t, d);
}

bool tiled_overlaps(const Tiled *t, int d) {
    bool overlaps = false;
    for (int v = 0; v < t->p->body.val.n; v++)
        overlaps |= read_overlaps(t, &t->p->body.val.at[v], d);
    return overlaps;
}

bool tiled_slides(const Tiled *t) {
    for (int d = 0; d < t->p->dim.n; d++)
        if (map_reduces(t->p, d) && tiled_overlaps(t, d)) return true;
    return false;
}

/* The reduced dim of the innermost loop, and its indices there: of a blocked one, a block. */
static int innermost_dim(const Tiled *t, int64_t *extent) {
    int64_t size, block = lanes_of(t->s);
    int d = tiled_blocked(t, block);
    bool blocked = d >= 0;
    for (int k = 0; !blocked && k < t->p->dim.n; k++)
        if (map_reduces(t->p, k)) d = k;
    *extent = blocked ? block : d >= 0 ? map_extent(t->p, d, 0) : 0;
    if (!blocked && d >= 0 && sum_blocks(t->p, t->lane, SUM_BLOCK, &size) == d) *extent = size;
    return d;
}

/* Does what is read for an index of d overlap with what rows read for others? Side by side it would
 * be held in registers, of which the sums leave none. */
static bool slides(const Tiled *t, int d) {
    for (int v = 0; v < t->p->body.val.n; v++) {
        const Val *val = &t->p->body.val.at[v];
        if (val->kind == VAL_READ && access_uses(t->p, &val->read, d) &&
            access_slides(t->p, &val->read))
            return true;
    }
    return false;
}

/* Steps that stand side by side, where the operations of one are few. */
static void choose_steps(Tiled *t) {
    int64_t operations = t->vectors * t->rows[0] * t->rows[1] * t->inners;
    t->step = -1, t->steps = t->innermost = 1;
    if (t->group >= 0 || t->lane < 0 || !tiled_output(t, t->lane) || !shared_reads(t, t->lane))
        return;
    if (t->p->write.at[0].combine->nstate > 1 || map_reads_by_value(t->p)) return;
    if (tiled_unrolls_window(t)) return;
    int d = innermost_dim(t, &t->innermost);
    if (d < 0 || slides(t, d)) return;
    t->steps = steps_aside(t->innermost, operations);
    if (t->steps > 1) t->step = d;
}

bool tiled_choose(Tiled *t) {
    if (!find_roots(t)) return false;
    if (!find_group(t)) t->lane = choose_lane(t);
    choose_tile(t);
    choose_steps(t);
    return true;
}
