/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels with register tiles: contractions, convolutions, pools, sums, with their epilogues.
 *
 * Accumulators are rows x vectors: vectors along the lane dim, rows along the dims whose iterations
 * share most loads. Their number is bounded by the register file; extents are cut into equal tiles.
 * Outer loops go over panels of the lane dim first when the operand that has it is too large for
 * the inner cache, else over the other dims first. Where both operands are too large, a block of
 * rows stays in the inner cache while all panels pass. */
#include <math.h>
#include <string.h>

#include "passes/dot.h"
#include "passes/schedule.h"

/* Independent operations that keep the units of a core busy: two of them, four cycles. */
enum { LATENCY_OPERATIONS = 8 };
/* Least rows of a block that panels pass, and least blocks; as many tiles that read a stream. */
enum { BLOCK_ROWS = 64, BLOCKS_LEAST = 8 };
/* Rows go along a known dim if there is one; else not along an input's first, often 1. */
static const int64_t unknown_row = 5, unknown_batch = 4;

typedef struct Tiled {
    Scheduling *s;
    Kernel *kernel;
    const Map *p;          /* the reduction */
    int at;                /* its position; maps in front make strips for it */
    const Map *root;       /* last map: p itself or the epilogue */
    int pos;               /* of the root */
    int root_of[MAP_DIMS]; /* dim of p -> dim of the root, -1 for reduced and inner dims */
    bool inner[MAP_DIMS];  /* dims of p that the root reads whole at every element: gates */
    int64_t inners;        /* their indices in all */
    int lane, vectors;     /* a dim of p; of a tile */
    int row[2];            /* dims of p, or -1 */
    int64_t rows[2];
    int group; /* a reduced dim that runs in groups unrolled: an instruction multiplies them, or
                * they are a word of codes; or -1 */
    int64_t group_size, groups; /* of elements, and of groups that a step of `matrix` takes */
    const MatrixStep *matrix;   /* the machine's tiles hold the accumulators; or NULL */
    int operand;                /* the Val that reads what stands in groups beside lanes */
    int64_t chunk; /* of the group's dim: behind each, sums of many tiles wait in memory; or 0 */
} Tiled;

static bool output_dim(const Tiled *t, int d) {
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
        if (t->p != t->root && output_dim(t, d))
            cost += lane_cost(t->s->flow, t->root, t->root_of[d], lanes, false);
        if (best < 0 || cost < best_cost) best = d, best_cost = cost;
    }
    return best;
}

/* Do lanes of dim d have a word of codes each, in which another dim, the group, runs? */
static bool runs_in_words(Tiled *t, const Access *read, int d) {
    int bits = dtype_bits(t->s->flow->cont.at[read->cont].type), codes = WORD_BITS / bits;
    if (bits >= 8 || !output_dim(t, d)) return false;
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
    if (dot_ready(t->s->env->machine, t->s->flow, t->p, &dot) && output_dim(t, dot.lane)) {
        t->lane = dot.lane, t->group = dot.k, t->group_size = dot.row->group;
        t->operand = dot.a;
        t->groups = dot_groups(t->s->env->machine, t->s->flow, t->p, &dot);
        t->matrix = t->groups ? matrix_of(t->s->env->machine, dot.row->name) : NULL;
        return true;
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

/* Do all indices of dim d share what is read in lanes? */
static bool shares_lanes(const Tiled *t, int d) {
    for (int v = 0; v < t->p->body.val.n; v++) {
        const Val *val = &t->p->body.val.at[v];
        if (val->kind == VAL_READ && access_uses(t->p, &val->read, t->lane) &&
            access_uses(t->p, &val->read, d))
            return false;
    }
    return true;
}

static int choose_row(const Tiled *t, int not ) {
    int best = -1, best_shared = -1;
    int64_t best_extent = 0;
    for (int d = 0; d < t->p->dim.n; d++) {
        int64_t extent =
            map_extent(t->p, d, counts_inputs(t->s->flow, t->p, d) ? unknown_batch : unknown_row);
        if (d == t->lane || d == not || !output_dim(t, d) || extent < 2 || t->p->dim.at[d].seq)
            continue;
        int shared =
            2 * shared_reads(t, d) + (t->lane >= 0 && output_dim(t, t->lane) && shares_lanes(t, d));
        if (shared < best_shared || (shared == best_shared && extent < best_extent)) continue;
        best = d, best_shared = shared, best_extent = extent;
    }
    return best;
}

/* Is the number of rows known only at run time? */
static bool rows_open(const Tiled *t) {
    return t->row[0] >= 0 && map_extent(t->p, t->row[0], -1) < 0;
}

static void choose_rows(Tiled *t, int64_t most) {
    t->row[0] = most > 1 ? choose_row(t, -1) : -1;
    t->row[1] = -1;
    t->rows[0] = t->rows[1] = 1;
    if (t->row[0] < 0) return;
    int64_t extent = t->matrix && rows_open(t) ? most : map_usual(t->s->flow, t->p, t->row[0]);
    if (rows_open(t) && !t->matrix && most > 8) most = 8;
    t->rows[0] = equal_tiles(extent, most);
    if (t->rows[0] < extent || most / t->rows[0] < 2) return;
    t->row[1] = choose_row(t, t->row[0]);
    if (t->row[1] >= 0)
        t->rows[1] = equal_tiles(map_usual(t->s->flow, t->p, t->row[1]), most / t->rows[0]);
}

/* Where long sums run in blocks, each accumulator has a total besides. Half of the rows, with both
 * in registers, beat all rows with totals that are loaded and stored after each block, if they
 * still hide an operation's latency: measured 4 % on Zen 4. */
static int64_t rows_with_totals(const Tiled *t, int64_t otherwise) {
    int regs = t->s->env->machine->vector_regs;
    int64_t row = t->vectors * t->inners, rows = (regs - 1 - t->vectors) / (2 * row);
    bool few = rows * row < LATENCY_OPERATIONS;
    return few || panels_cost(t->s->env->machine) ? otherwise : rows;
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

static int64_t tile_size(const Tiled *t, int d) {
    if (d == t->lane) return (int64_t)t->vectors * lanes_of(t->s);
    if (d == t->row[0]) return t->rows[0];
    return d == t->row[1] ? t->rows[1] : 1;
}

/* The reduced dim whose storage is blocked, which some operand holds in blocks of `size`, or -1. */
static int blocked_dim(const Tiled *t, int64_t size) {
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
    if (t->row[1] >= 0 || blocked_dim(t, depth) >= 0) return;
    for (int d = 0; d < t->p->dim.n; d++) {
        int64_t extent = map_usual(t->s->flow, t->p, d), size = tile_size(t, d);
        if (map_reduces(t->p, d) && d != t->group && extent > 1) return;
        if (output_dim(t, d) && d != t->row[0]) others *= (extent + size - 1) / size;
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
        if (output_dim(t, d) && d != t->lane) tiles *= (double)map_usual(t->s->flow, t->p, d);
    double extent = (double)map_extent(t->p, t->lane, 0);
    int vectors = LATENCY_OPERATIONS;
    while (vectors > 2 && tiles * extent / (vectors * lanes) < BLOCKS_LEAST) vectors /= 2;
    return vectors * lanes <= extent ? vectors : 0;
}

/* Vectors side by side share what rows read alone (the other operand of a product). Where nothing
 * is read so (each channel has its own window), no more rows and vectors are taken than hide an
 * operation's latency: rows of one vector, which share what overlaps, then vectors. Measured for
 * depthwise windows of 3x3 and 5x5: 20 to 40 % less time than the largest tile. */
static void choose_tile(Tiled *t) {
    const Machine *m = t->s->env->machine;
    int lanes = lanes_of(t->s), regs = m->vector_regs, vectors = 1;
    int states = t->p->write.at[0].combine->nstate;
    bool lane_out = t->lane >= 0 && output_dim(t, t->lane);
    if (lane_out) vectors = (int)tile_width(m, t->s->flow, t->p, t->lane) / lanes;
    t->vectors = vectors;
    if (choose_matrix(t)) return;
    t->matrix = NULL;
    bool shared = lane_out && shared_reads(t, t->lane);
    if (vectors * t->inners > regs - 4) vectors = 1;
    t->vectors = shared ? vectors : 1;
    int64_t budget = (regs - 2 - t->vectors) / (t->vectors * t->inners);
    if (shared && sums_in_blocks(t->p, t->lane, SUM_BLOCK)) budget = rows_with_totals(t, budget);
    if (shared) budget = rows_with_reads(t, budget);
    int64_t limit = shared ? ROWS_MOST : LATENCY_OPERATIONS;
    int stream = lane_out && !shared && t->inners == 1 ? stream_vectors(t) : 0;
    if (stream) vectors = stream, limit = 1;
    int64_t most = lane_out ? (budget > limit ? limit : budget) : 4;
    bool gathers = map_reads_by_value(t->p); /* rows gain nothing, each is a load a lane */
    choose_rows(t, states > 1 || gathers ? 1 : most);
    int64_t rows = t->rows[0] * t->rows[1], hiding = (LATENCY_OPERATIONS + rows - 1) / rows;
    if (!shared) t->vectors = hiding < vectors ? (int)hiding : vectors;
}

/* ---- lines ---------------------------------------------------------------------------------- */

/* Bytes of p's largest operand that has the lane dim: what a panel loop wants to keep close. */
static double lane_operand_bytes(const Tiled *t) {
    double most = 0;
    for (int v = 0; v < t->p->body.val.n && t->lane >= 0; v++) {
        const Val *val = &t->p->body.val.at[v];
        if (val->kind != VAL_READ || !access_uses(t->p, &val->read, t->lane)) continue;
        double bytes = read_bytes(t->s->flow, t->p, &val->read);
        if (bytes > most) most = bytes;
    }
    return most;
}

/* Bytes that the largest read of weights meets. */
static double most_bytes(const Tiled *t) {
    double most = 0;
    for (int v = 0; v < t->p->body.val.n; v++) {
        const Val *val = &t->p->body.val.at[v];
        if (val->kind != VAL_READ || t->s->flow->cont.at[val->read.cont].kind != CONT_PARAM)
            continue;
        double bytes = read_bytes(t->s->flow, t->p, &val->read);
        if (bytes > most) most = bytes;
    }
    return most;
}

/* Where sums run in lanes nothing is packed: dims that share the largest operand go inside those
 * that walk over it, so that it is read from afar once. */
static void share_largest(const Tiled *t, int *order, int n) {
    const Access *largest = NULL;
    for (int v = 0; v < t->p->body.val.n; v++) {
        const Val *val = &t->p->body.val.at[v];
        if (val->kind != VAL_READ) continue;
        if (!largest ||
            read_bytes(t->s->flow, t->p, &val->read) > read_bytes(t->s->flow, t->p, largest))
            largest = &val->read;
    }
    int inner[MAP_DIMS], left = 0, m = 0;
    for (int i = 0; i < n; i++) {
        bool walks = !largest;
        for (int k = 0; largest && k < largest->rank; k++)
            walks |= dim_uses(largest->at[k], t->p->dim.at[order[i]].sym);
        *(walks ? &order[left++] : &inner[m++]) = order[i];
    }
    for (int i = 0; i < m; i++) order[left++] = inner[i];
}

static bool is_row(const Tiled *t, int d) {
    return d == t->row[0] || d == t->row[1];
}

/* Does the lane dim walk through memory, where only rows read its operand again? */
static bool lane_walks(const Tiled *t) {
    const Access *to = &t->p->write.at[0].to[0];
    if (access_stride(t->s->flow, t->p, to, t->lane, 1) != 1) return false;
    for (int d = 0; d < t->p->dim.n; d++)
        if (output_dim(t, d) && d != t->lane && !is_row(t, d) && shares_lanes(t, d)) return false;
    return true;
}

/* Output dims, outermost first: those that are no rows, the lane dim, rows. The lane dim stands
 * first where a panel of its operand is too large to be read again for each of the others. Where it
 * walks, it stands inside of all that do not read its operand again; these stand as they are
 * stored, so that threads part the result as they part what other maps of its layout make. */
static int tile_order(const Tiled *t, int *order) {
    bool lane_out = t->lane >= 0 && output_dim(t, t->lane), walks = lane_out && lane_walks(t);
    double room = (double)t->s->env->machine->level[1].bytes / 2;
    bool first = lane_out && !walks && lane_operand_bytes(t) > room;
    int n = 0, stored[MAP_DIMS];
    storage_order(t->s, t->p, stored);
    if (first) order[n++] = t->lane;
    for (int i = 0; i < t->p->dim.n; i++) {
        int d = walks ? stored[i] : i;
        if (!output_dim(t, d) || d == t->lane) continue;
        if (!is_row(t, d) || (walks && !shares_lanes(t, d))) order[n++] = d;
    }
    if (lane_out && !first) order[n++] = t->lane;
    for (int i = 1; i >= 0; i--)
        if (t->row[i] >= 0 && (!walks || shares_lanes(t, t->row[i]))) order[n++] = t->row[i];
    if (!lane_out && t->lane >= 0) share_largest(t, order, n);
    return n;
}

/* Rows that are all read again for each panel: how many of each dim stay in the inner cache
 * meanwhile. False where they would make few blocks, whose unequal parts keep threads waiting. */
static bool cut_blocks(const Tiled *t, const int *order, int n, int64_t *block) {
    double bytes = 0, rows = 1, room = (double)t->s->env->machine->level[1].bytes / 2;
    if (order[0] != t->lane || t->row[0] < 0 || t->row[1] >= 0) return false;
    for (int v = 0; v < t->p->body.val.n; v++) {
        const Val *val = &t->p->body.val.at[v];
        if (val->kind != VAL_READ || access_uses(t->p, &val->read, t->lane)) continue;
        if (read_bytes(t->s->flow, t->p, &val->read) > bytes)
            bytes = read_bytes(t->s->flow, t->p, &val->read);
    }
    if (bytes < BLOCKS_LEAST * room) return false;
    for (int i = 1; i < n; i++) rows *= (double)map_usual(t->s->flow, t->p, order[i]);
    double left = room * rows / bytes < BLOCK_ROWS ? BLOCK_ROWS : room * rows / bytes;
    for (int i = n - 1; i > 0; i--) {
        int64_t extent = map_usual(t->s->flow, t->p, order[i]), step = tile_size(t, order[i]);
        int64_t parts = (int64_t)ceil((double)extent / left), size = (extent + parts - 1) / parts;
        block[order[i]] = (size + step - 1) / step * step;
        left = left < (double)size ? 1 : left / (double)size;
    }
    return true;
}

static void tile_dim(const Tiled *t, Line *line, int d, int64_t size) {
    if (map_extent(t->p, d, INT64_MAX) > size)
        line_dim(t->s->flow, line, t->root, t->root_of[d], size);
}

/* Tiles; or blocks of rows, panels for each, and tiles inside of these. */
static void tile_lines(Tiled *t) {
    Flow *flow = t->s->flow;
    int order[MAP_DIMS], n = tile_order(t, order);
    int64_t block[MAP_DIMS];
    bool cut = n && cut_blocks(t, order, n, block);
    Line outer = {.kind = LINE_TILE, .map = t->pos, .cont = -1}, inner = outer, par;
    for (int i = 1; cut && i < n; i++) tile_dim(t, &outer, order[i], block[order[i]]);
    for (int i = 0; i < n; i++) {
        int64_t size = tile_size(t, order[i]);
        if (!cut || !i || block[order[i]] > size)
            tile_dim(t, cut && i ? &inner : &outer, order[i], size);
    }
    if (!outer.narg) return;
    vec_push(flow->arena, &t->kernel->line, outer);
    LineArg *arg = arena_copy(flow->arena, outer.arg, (size_t)outer.narg * sizeof *arg);
    for (int i = 0; i < outer.narg; i++) arg[i].size = 0;
    par = (Line){.kind = LINE_PARALLEL, .map = t->pos, .cont = -1, .narg = outer.narg, .arg = arg};
    if (worth_threads(t->s, t->kernel)) vec_push(flow->arena, &t->kernel->line, par);
    if (inner.narg) vec_push(flow->arena, &t->kernel->line, inner);
}

static void unroll_line(Tiled *t, int pos) {
    const Map *m = pos == t->at ? t->p : t->root;
    bool lane_out = t->lane >= 0 && output_dim(t, t->lane);
    Line line = {.kind = LINE_UNROLL, .map = pos, .cont = -1};
    for (int d = 0; d < t->p->dim.n; d++) {
        bool row = is_row(t, d);
        bool in_tile = (lane_out && d == t->lane) || (row && (pos == t->at || !t->matrix));
        if (pos == t->at && t->inner[d]) in_tile = map_extent(t->p, d, 1) > 1;
        if (in_tile) line_dim(t->s->flow, &line, m, pos == t->at ? d : t->root_of[d], 0);
        if (pos == t->at && d == t->group) line_dim(t->s->flow, &line, m, d, 0);
    }
    if (line.narg) vec_push(t->s->flow->arena, &t->kernel->line, line);
}

/* Weights of which a run reads more than the inner cache holds come from afar again in the next
 * one: they are fetched a panel ahead; but in a loop the part of them that a core reads, the same
 * each time, stays there. */
static void prefetch_line(Tiled *t) {
    const Machine *m = t->s->env->machine;
    bool repeats = t->s->repeats[t->kernel->map.at[t->at]];
    double room = (double)m->level[1].bytes, most = most_bytes(t);
    bool stays = repeats && lane_operand_bytes(t) <= room * m->cores;
    if (stays || t->s->weights <= room) return;
    for (int v = 0; t->lane >= 0 && output_dim(t, t->lane) && v < t->p->body.val.n; v++) {
        const Val *val = &t->p->body.val.at[v];
        const Cont *cont = val->kind == VAL_READ ? &t->s->flow->cont.at[val->read.cont] : NULL;
        if (!cont || cont->kind != CONT_PARAM) continue;
        if (read_bytes(t->s->flow, t->p, &val->read) < most) continue;
        int64_t step = access_stride(t->s->flow, t->p, &val->read, t->lane, lanes_of(t->s));
        if (!cont->layout || step != (t->group >= 0 ? t->group_size : 1)) continue;
        Line *line = kernel_line(t->s->flow, t->kernel, LINE_PREFETCH, t->at);
        line->cont = val->read.cont;
        if (t->matrix) line_dim(t->s->flow, line, t->p, t->group, t->groups * t->group_size);
    }
}

/* Reduced dims whose storage is blocked run block-wise: blocks, the other dims, inside the block.
 */
static void reduce_line(Tiled *t) {
    int64_t step = t->matrix ? t->groups * t->group_size : lanes_of(t->s);
    int blocked = blocked_dim(t, step);
    if (blocked < 0 && t->group < 0) return;
    Line *line = kernel_line(t->s->flow, t->kernel, LINE_REDUCE, t->at);
    if (blocked >= 0) line_dim(t->s->flow, line, t->p, blocked, step);
    for (int d = 0; d < t->p->dim.n; d++)
        if (map_reduces(t->p, d) && d != blocked && d != t->group)
            line_dim(t->s->flow, line, t->p, d, 0);
    if (blocked >= 0 && blocked != t->group) line_dim(t->s->flow, line, t->p, blocked, 0);
    if (t->group < 0) return;
    if (t->chunk) line_dim(t->s->flow, line, t->p, t->group, t->chunk);
    if (t->matrix && blocked != t->group) line_dim(t->s->flow, line, t->p, t->group, step);
    line_dim(t->s->flow, line, t->p, t->group, t->group_size);
    line_dim(t->s->flow, line, t->p, t->group, 0);
}

/* Where products have a scale for each block beside two factors, it multiplies the blocks' sums,
 * one after the other. Other long sums run in blocks. */
static void block_lines(Tiled *t) {
    const Combine *c = t->p->write.at[0].combine;
    bool sums = c->simple == P_ADD && dtype_is_float(c->type[0]) && c->nstate == 1;
    if (t->lane < 0 || !output_dim(t, t->lane) || t->s->env->math == MATH_STRICT) sums = false;
    int d = sums ? factor_dim(t->p, t->group) : -1, at = t->at;
    if (d >= 0) {
        line_dim(t->s->flow, kernel_line(t->s->flow, t->kernel, LINE_PARTIAL, at), t->p, d, 1);
        line_dim(t->s->flow, kernel_line(t->s->flow, t->kernel, LINE_FACTOR, at), t->p, d, 0);
        return;
    }
    partial_line(t->s, t->kernel, t->at, t->lane, SUM_BLOCK);
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

/* A small window with one load per tap and row is unrolled, so that rows share what overlaps. */
static void unroll_window(Tiled *t) {
    double taps = 1;
    for (int d = 0; d < t->p->dim.n; d++)
        if (map_reduces(t->p, d)) taps *= (double)map_extent(t->p, d, 1 << 20);
    if (taps > 25 || t->row[0] < 0 || t->group >= 0 || tests_reads(t)) return;
    Line line = {.kind = LINE_UNROLL, .map = t->at, .cont = -1};
    for (int d = 0; d < t->p->dim.n; d++)
        if (map_reduces(t->p, d) && d != t->lane) line_dim(t->s->flow, &line, t->p, d, 0);
    if (line.narg) vec_push(t->s->flow->arena, &t->kernel->line, line);
}

/* A map in front of the reduction makes a strip of what tiles along the lane dim read after each
 * other. */
static void strip_lines(Tiled *t, int pos) {
    Scheduling *s = t->s;
    const Map *m = s->flow->map.at[t->kernel->map.at[pos]];
    bool allowed[MAP_DIMS];
    for (int d = 0; d < m->dim.n; d++) allowed[d] = true;
    int lane = choose_lanes(s, m, allowed);
    if (lane >= 0) vector_line(s, t->kernel, pos, lane);
    Line *at = kernel_line(s->flow, t->kernel, LINE_AT, pos);
    for (int r = 0; r < t->root->dim.n; r++) {
        bool tiled = false;
        for (int i = 0; i < t->kernel->line.n; i++) {
            const Line *line = &t->kernel->line.at[i];
            for (int k = 0; line->kind == LINE_TILE && line->map == t->pos && k < line->narg; k++)
                tiled |= !strcmp(line->arg[k].dim, dim_sym_name(t->root->dim.at[r].sym));
        }
        if (tiled && (t->lane < 0 || r != t->root_of[t->lane]))
            line_dim(s->flow, at, t->root, r, 0);
    }
    kernel_keep(s->flow, t->kernel, pos, m->write.at[0].to[0].cont, KEEP_SCRATCH);
}

/* Does the root write (what the caller owns, say) along rows, and far apart along lanes? Then the
 * sums go to a small tile, and the root's lanes run along its rows. */
static bool turns(const Tiled *t) {
    if (t->p == t->root || t->lane < 0 || !output_dim(t, t->lane) || t->row[0] < 0) return false;
    if (t->inners > 1 || t->root->write.n != 1 || (rows_open(t) && !t->matrix)) return false;
    const Flow *flow = t->s->flow;
    int lanes = lanes_of(t->s), lane = t->root_of[t->lane], row = t->root_of[t->row[0]];
    const Access *to = &t->root->write.at[0].to[0];
    int sums = t->p->write.at[0].to[0].cont;
    for (int v = 0; v < t->root->body.val.n; v++) {
        const Val *val = &t->root->body.val.at[v];
        if (val->kind != VAL_READ || val->read.cont == sums) continue;
        int64_t step = access_stride(flow, t->root, &val->read, row, lanes);
        if (step != 0 && step != 1) return false;
    }
    return access_stride(flow, t->root, to, row, lanes) == 1 &&
           access_stride(flow, t->root, to, lane, lanes) > lanes;
}

bool schedule_tiled(Scheduling *s, Kernel *kernel, int at) {
    Tiled t = {.s = s, .kernel = kernel, .at = at, .pos = kernel->map.n - 1};
    t.p = s->flow->map.at[kernel->map.at[at]];
    t.root = s->flow->map.at[kernel->map.at[t.pos]];
    if (t.p->write.n != 1 || !strips_alone(s, kernel, at)) return false;
    int cont = t.p->write.at[0].to[0].cont;
    if (t.p != t.root && (t.p->write.at[0].n != 1 || read_outside(s, kernel, cont))) return false;
    if (has_seq(t.p) || has_seq(t.root)) return false;
    for (int d = 0; d < t.p->dim.n; d++)
        if (!map_extent(t.p, d, 1)) return false;
    if (!find_roots(&t)) return false;
    if (!find_group(&t)) t.lane = choose_lane(&t);
    choose_tile(&t);
    tile_lines(&t);
    bool turned = turns(&t);
    bool in_tile = turned || t.matrix;
    if (t.p != t.root) kernel_keep(s->flow, kernel, at, cont, in_tile ? KEEP_TILE : KEEP_REG);
    if (t.lane >= 0) vector_line(s, kernel, at, t.lane);
    if (t.p != t.root && t.lane >= 0 && output_dim(&t, t.lane))
        vector_line(s, kernel, t.pos, t.root_of[turned ? t.row[0] : t.lane]);
    unroll_line(&t, at);
    if (t.p != t.root && !turned) unroll_line(&t, t.pos);
    reduce_line(&t);
    if (t.matrix && rows_open(&t))
        kernel_line(s->flow, kernel, LINE_USE, at)->name = t.matrix->name;
    if (!t.matrix) block_lines(&t);
    prefetch_line(&t);
    unroll_window(&t);
    for (int q = 0; q < at; q++) strip_lines(&t, q);
    return true;
}
