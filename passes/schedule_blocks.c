/* SPDX-License-Identifier: Apache-2.0 */
/* Schedules for a machine whose kernels are blocks of threads.
 *
 * Threads own elements: where one element of the root needs one element of every other map, each
 * thread computes one of the root's, neighbours along the dim that is stored innermost. A reduction
 * then runs within a thread, which is good when there are many results and neighbours read
 * neighbours.
 *
 * Threads share rows: else a block takes one index of the outer dims that all maps have in common,
 * and its threads take neighbouring elements of each map's inner dim; what the maps hand on stays
 * in registers (one value a row) or in shared memory.
 *
 * Threads own tiles of a contraction, whose operands they stage together: schedule_stage.c.
 *
 * Kernels whose iterations need each other run in one thread, and say so. */
#include <string.h>

#include "passes/schedule.h"

static const int64_t unknown_extent = 64;
/* What a thread does for a fold of a block, and of a warp; elements of a part. */
enum { FOLD_COST = 40, WARP_FOLD_COST = 12, PART_LEAST = 8 };
/* Of reductions in parts: threads of a block, bytes that they fetch side by side, sums of each. */
enum { PART_THREADS = 512, SEGMENT = 64, PART_SUMS = 32 };
/* Of rows that a block's threads share: elements that a thread should have, and may have in
 * registers; threads at most; the length of one that is not known; blocks for each core. */
enum { ROW_EACH = 32, ROW_HELD = 64, ROW_THREADS = 1024, ROW_UNKNOWN = 1024, ROW_BLOCKS = 4 };

static const Map *map_at(const Rows *r, int pos) {
    return r->s->flow->map.at[r->kernel->map.at[pos]];
}

static const Machine *machine_of(const Rows *r) {
    return r->s->env->machine;
}

static void serial(Rows *r, const char *why) {
    kernel_line(r->s->flow, r->kernel, LINE_SERIAL, r->kernel->map.n - 1)->name =
        intern(r->s->flow->ctx, why);
}

/* Elements of the smallest type written that make a byte. */
static int64_t byte_elements(const Rows *r) {
    int64_t most = 1;
    for (int p = 0; p < r->kernel->map.n; p++)
        for (int w = 0; w < map_at(r, p)->write.n; w++) {
            const Write *write = &map_at(r, p)->write.at[w];
            for (int k = 0; k < write->n; k++) {
                int bits = dtype_bits(r->s->flow->cont.at[write->to[k].cont].type);
                if (bits * most < 8) most = 8 / bits;
            }
        }
    return most;
}

/* Threads own whole bytes: smaller elements go to a thread together, along the innermost dim. Where
 * rows end within a byte that is not enough. */
static bool shares_bytes(const Rows *r, const int *dims, int n) {
    int64_t own = byte_elements(r);
    const Access *to = &r->root->write.at[0].to[0];
    if (own == 1 || !n) return false;
    bool whole = n == 1 || map_extent(r->root, dims[n - 1], 1) % own == 0;
    if (r->root->write.n > 1 || !whole) return true;
    return access_stride(r->s->flow, r->root, to, dims[n - 1], own) != 1;
}

/* Is the index the dim, from a multiple of `lanes` on? */
static bool begins_even(const Rows *r, const Map *m, Dim index, int dim, int64_t lanes) {
    Ctx *ctx = r->s->flow->ctx;
    Dim coef, first;
    return dim_affine(ctx, index, &m->dim.at[dim].sym, 1, &coef, &first) && dim_is(coef, 1) &&
           dim_is(dim_mod(ctx, first, dim_const(ctx, lanes)), 0);
}

bool lies_wide(const Rows *r, const Map *m, const Access *a, int dim, int64_t lanes) {
    const Cont *c = &r->s->flow->cont.at[a->cont];
    int64_t extent;
    int64_t step = access_stride(r->s->flow, m, a, dim, lanes);
    if (step == 0) return true;
    int inner = cont_innermost(r->s->flow, a->cont);
    if (step != 1 || inner < 0 || !begins_even(r, m, a->at[inner], dim, lanes)) return false;
    return dim_is_const(c->shape[inner], &extent) && extent % lanes == 0;
}

/* Do all accesses of the map to memory? */
static bool all_wide(const Rows *r, const Map *m, int dim, int64_t lanes) {
    bool all = m->write.n == 1 && map_extent(m, dim, 1) % lanes == 0;
    for (int k = 0; all && k < m->write.at[0].n; k++)
        all = lies_wide(r, m, &m->write.at[0].to[k], dim, lanes);
    for (int v = 0; all && v < m->body.val.n; v++) {
        const Val *val = &m->body.val.at[v];
        all = val->kind != VAL_READ || (!val->has_else && lies_wide(r, m, &val->read, dim, lanes));
    }
    return all;
}

/* How many dims of the map an access uses. */
static int dims_used(const Map *m, const Access *a) {
    int n = 0;
    for (int d = 0; d < m->dim.n; d++) n += access_uses(m, a, d);
    return n;
}

int64_t widest(const Rows *r, const Map *m, int dim) {
    int64_t widest = 8, block = machine_of(r)->vector_bytes;
    int most = 0;
    for (int i = -1; i < m->body.val.n; i++) {
        const Access *a = &m->write.at[0].to[0];
        if (i < 0 ? map_is_reduction(m) : m->body.val.at[i].kind != VAL_READ) continue;
        if (i >= 0) a = &m->body.val.at[i].read;
        int64_t bits = dtype_bits(r->s->flow->cont.at[a->cont].type);
        int used = access_stride(r->s->flow, m, a, dim, block) != 0 ? dims_used(m, a) : 0;
        if (used > most || (used && used == most && bits > widest)) widest = bits;
        if (used > most) most = used;
    }
    return widest;
}

/* Elements of an element-wise map that a thread takes along a dim: as many as one instruction
 * fetches or stores of the narrower, two of the wider, while there are threads enough. */
static int64_t wide_elements(const Rows *r, int dim) {
    const Map *m = r->root;
    if (r->kernel->map.n > 1 || map_is_reduction(m)) return 1;
    int64_t in = widest(r, m, dim), word = 8 * machine_of(r)->vector_bytes,
            out = dtype_bits(r->s->flow->cont.at[m->write.at[0].to[0].cont].type),
            lanes = word / (in < out ? in : out);
    while (lanes * (in < out ? out : in) > 2 * word) lanes /= 2;
    double most = map_volume(m, unknown_extent) / (machine_of(r)->live_threads / 4.0);
    while (lanes > 1 && ((double)lanes > most || !all_wide(r, m, dim, lanes))) lanes /= 2;
    return lanes > 1 ? lanes : 1;
}

/* The reason, or NULL. Threads may each take all steps of their results, when these need no
 * others. */
static const char *must_be_serial(const Rows *r, const int *dims, int n) {
    bool alone =
        r->kernel->map.n == 1 && n && !map_is_reduction(r->root) && !map_needs_others(r->root);
    for (int p = 0; p < r->kernel->map.n; p++)
        for (int d = 0; d < map_at(r, p)->dim.n; d++)
            if (map_at(r, p)->dim.at[d].seq && !alone) return "each step needs the one before";
    return shares_bytes(r, dims, n) ? "its elements share bytes" : NULL;
}

/* ---- threads own elements ---------------------------------------------------------------------
 */

/* Does one element of the root need one element of each map? */
static bool element_by_element(const Rows *r) {
    for (int p = 0; p < r->kernel->map.n; p++)
        for (int d = 0; d < map_at(r, p)->dim.n; d++)
            if (!map_reduces(map_at(r, p), d) && !rows_outer(r, p, d) &&
                !dim_is(map_at(r, p)->dim.at[d].extent, 1))
                return false;
    return true;
}

/* Dims of results with more than one index, but sequential ones, in the order of storage: the last
 * is the innermost. */
static int result_dims(const Rows *r, int *dims) {
    int order[MAP_DIMS], n = 0, all = storage_order(r->s, r->root, order);
    for (int i = 0; i < all; i++)
        if (!map_reduces(r->root, order[i]) && !dim_is(r->root->dim.at[order[i]].extent, 1) &&
            !r->root->dim.at[order[i]].seq)
            dims[n++] = order[i];
    return n;
}

/* Threads along a dim of which a block may have `most`: blocks of equal size, in whole warps. */
static int64_t threads_along(const Rows *r, int64_t extent, int64_t most) {
    int64_t warp = machine_of(r)->warp;
    if (extent <= most) return extent > 0 ? extent : 1;
    int64_t blocks = (extent + most - 1) / most, size = (extent + blocks - 1) / blocks;
    size = size >= warp ? (size + warp - 1) / warp * warp : size;
    return size < most ? size : most;
}

void keep_in_registers(Rows *r) {
    for (int p = 0; p < r->kernel->map.n - 1; p++)
        for (int k = 0; k < map_at(r, p)->write.at[0].n; k++) {
            int cont = map_at(r, p)->write.at[0].to[k].cont;
            if (!read_outside(r->s, r->kernel, cont))
                kernel_keep(r->s->flow, r->kernel, p, cont, KEEP_REG);
        }
}

/* A reduction of few results, in parts: enough threads for the machine, while each has a good
 * number of elements to reduce and neighbours are still those along the innermost dim. */
typedef struct Split {
    int pos, dim, parts; /* parts 1: none */
    int64_t threads;     /* of a block */
} Split;

static Split split_reduction(const Rows *r) {
    const Machine *machine = machine_of(r);
    const Split none = {-1, -1, 1, machine->block_threads};
    Split split = none;
    double results = 1;
    for (int p = 0; p < r->kernel->map.n; p++) {
        if (!map_is_reduction(map_at(r, p))) continue;
        if (split.pos >= 0 || map_at(r, p)->write.n != 1) return none;
        split.pos = p;
    }
    if (split.pos < 0) return split;
    const Map *m = map_at(r, split.pos);
    for (int d = 0; d < m->dim.n; d++) {
        int64_t extent = map_extent(m, d, unknown_extent);
        if (!map_reduces(m, d))
            results *= (double)extent;
        else if (split.dim < 0 || extent > map_extent(m, split.dim, unknown_extent))
            split.dim = d;
    }
    int64_t length = split.dim < 0 ? 0 : map_extent(m, split.dim, ROW_UNKNOWN);
    while (split.parts * machine->warp < machine->block_threads &&
           length >= PART_LEAST * split.parts * 2 && results * split.parts < machine->live_threads)
        split.parts *= 2;
    return split;
}

/* Results that a thread of a reduction in parts takes along a dim, or 1. */
static int64_t part_lanes(const Rows *r, int dim, const Split *split) {
    const Machine *machine = machine_of(r);
    const Map *m = map_at(r, split->pos);
    int n = r->kernel->map.n, own = n == 1 ? dim : r->al.at[0][dim];
    if (split->parts < 2 || split->pos || n > 2 || own < 0) return 1;
    int64_t lanes = 8 * machine->vector_bytes / widest(r, m, own);
    while (lanes > 1 && (!all_wide(r, m, own, lanes) || !all_wide(r, r->root, dim, lanes)))
        lanes /= 2;
    return lanes > 1 ? lanes : 1;
}

/* Results that a thread of a reduction in parts takes along another dim, where these share what is
 * read along `inner`. */
static int64_t part_rows(const Rows *r, int dim, int inner, const Split *split, int64_t most) {
    const Map *m = map_at(r, split->pos);
    bool alone = r->kernel->map.n == 1, shares = false;
    int own = alone ? dim : r->al.at[0][dim], lane = alone ? inner : r->al.at[0][inner];
    for (int v = 0; own >= 0 && v < m->body.val.n; v++) {
        const Val *val = &m->body.val.at[v];
        shares |= val->kind == VAL_READ && access_uses(m, &val->read, lane) &&
                  !access_uses(m, &val->read, own);
    }
    int64_t extent = map_extent(r->root, dim, 1);
    while (shares && most > 1 && extent % most) most--;
    return shares ? most : 1;
}

/* Threads with lanes: as few side by side as fetch whole sectors of memory, which leaves results
 * for many blocks; the more parts, the more is under way. */
static int64_t wide_parts(const Rows *r, int dim, Split *split) {
    int64_t lanes = part_lanes(r, dim, split), beside = 1;
    if (lanes < 2) return 1;
    const Map *m = map_at(r, split->pos);
    int own = r->kernel->map.n == 1 ? dim : r->al.at[0][dim];
    int64_t length = map_extent(m, split->dim, ROW_UNKNOWN);
    while (beside * lanes * widest(r, m, own) < 8 * SEGMENT) beside *= 2;
    split->parts = 2;
    while (split->parts * 2 * beside <= PART_THREADS && length >= PART_LEAST * split->parts * 2)
        split->parts *= 2;
    split->threads = split->parts * beside;
    return lanes;
}

/* A thread's elements along root dims, the last of them in lanes, of each map. */
static void lane_lines(const Rows *r, const int *dims, int n, const int64_t *each, int64_t lanes) {
    for (int p = 0; p < r->kernel->map.n && lanes > 1; p++) {
        bool root = map_at(r, p) == r->root;
        Line *unroll = kernel_line(r->s->flow, r->kernel, LINE_UNROLL, p);
        for (int i = 0; i < n; i++)
            if (each[i] > 1)
                line_dim(r->s->flow, unroll, map_at(r, p), root ? dims[i] : r->al.at[p][dims[i]],
                         0);
        Line *vector = kernel_line(r->s->flow, r->kernel, LINE_VECTOR, p);
        int inner = root ? dims[n - 1] : r->al.at[p][dims[n - 1]];
        line_dim(r->s->flow, vector, map_at(r, p), inner, lanes);
    }
}

/* Elements of a thread along root dims; gives the lanes. */
static int64_t own_each(const Rows *r, const int *dims, int n, Split *split, int64_t *each) {
    int inner = dims[n - 1];
    int64_t own = byte_elements(r), lanes = 1;
    if (own == 1) lanes = split->parts > 1 ? wide_parts(r, inner, split) : wide_elements(r, inner);
    for (int i = 0; i < n - 1; i++) each[i] = 1;
    each[n - 1] = lanes > 1 ? lanes : own;
    if (split->parts < 2 || lanes < 2) return lanes;
    int64_t sums = lanes;
    for (int i = 0; i < n - 1; i++)
        sums *= each[i] = part_rows(r, dims[i], inner, split, PART_SUMS / sums);
    int64_t room = machine_of(r)->shared_bytes / dtype_bytes(F32, sums);
    for (; split->threads > room && split->parts > 2; split->parts /= 2) split->threads /= 2;
    return lanes;
}

/* Threads that go through steps ask for memory all the while: on as many cores as there are. */
static int64_t step_threads(const Rows *r, const int *dims, int n, int64_t threads) {
    const Machine *machine = machine_of(r);
    double results = 1;
    for (int i = 0; i < n; i++) results *= (double)map_extent(r->root, dims[i], unknown_extent);
    while (threads > machine->warp && results < (double)threads * machine->cores) threads /= 2;
    return threads;
}

static void own_elements(Rows *r, const int *dims, int n) {
    Flow *flow = r->s->flow;
    int root = r->kernel->map.n - 1;
    Split split = split_reduction(r);
    if (has_seq(r->root)) split.threads = step_threads(r, dims, n, split.threads);
    int64_t size[MAP_DIMS], each[MAP_DIMS], lanes = own_each(r, dims, n, &split, each);
    int64_t left = split.threads / split.parts;
    for (int i = n - 1; i >= 0; i--) {
        int64_t extent = map_extent(r->root, dims[i], left * each[i]);
        size[i] = each[i] * threads_along(r, (extent + each[i] - 1) / each[i], left);
        left /= size[i] / each[i];
    }
    for (int level = 0; level < 2; level++) {
        Line *tile = kernel_line(flow, r->kernel, LINE_TILE, root);
        for (int i = 0; i < n; i++)
            line_dim(flow, tile, r->root, dims[i], level ? each[i] : size[i]);
        LineKind kind = level ? LINE_THREAD : LINE_BLOCK;
        Line *spread = kernel_line(flow, r->kernel, kind, root);
        for (int i = 0; i < n; i++) line_dim(flow, spread, r->root, dims[i], 0);
    }
    lane_lines(r, dims, n, each, lanes);
    if (split.parts > 1)
        line_dim(flow, kernel_line(flow, r->kernel, LINE_SPLIT, split.pos), map_at(r, split.pos),
                 split.dim, split.parts);
    keep_in_registers(r);
}

/* ---- threads share rows -----------------------------------------------------------------------
 */

/* The dim of map p that the threads of a block share, or -1: among those that are no outer dims,
 * the one along which neighbours move least. */
static int shared_dim(const Rows *r, int p) {
    const Map *m = map_at(r, p);
    int best = -1, warp = machine_of(r)->warp;
    double least = 0;
    for (int d = 0; d < m->dim.n; d++) {
        if (rows_outer(r, p, d) || map_extent(m, d, unknown_extent) < 2 || !folds(m, d)) continue;
        double cost = lane_cost(r->s->flow, m, d, warp, false);
        if (best < 0 || cost < least) best = d, least = cost;
    }
    return best;
}

/* How the threads of a block share the maps' rows. */
typedef struct Sharing {
    const Rows *r;
    int64_t threads;
    int *dim;       /* by position in the kernel: the dim they share, or -1; ... */
    int64_t *lanes; /* ... neighbours along it that a thread takes at once; ... */
    bool *unroll;   /* ... and whether what a thread takes of a row is written out */
} Sharing;

int64_t row_lanes(const Rows *r, const Map *m, int dim, int64_t most) {
    if (m->cons.n || (map_is_reduction(m) && !map_reduces(m, dim))) return 1;
    while (most > 1 && !all_wide(r, m, dim, most)) most /= 2;
    return most;
}

/* Bits of the narrowest element that goes along the rows. */
static int64_t narrowest(const Sharing *s) {
    int64_t least = 64;
    for (int p = 0; p < s->r->kernel->map.n; p++) {
        int64_t bits = s->dim[p] < 0 ? 64 : widest(s->r, map_at(s->r, p), s->dim[p]);
        if (bits < least) least = bits;
    }
    return least;
}

/* Elements of the longest row. */
static int64_t longest_row(const Sharing *s) {
    int64_t longest = 1;
    for (int p = 0; p < s->r->kernel->map.n; p++) {
        int64_t extent = s->dim[p] < 0 ? 1 : map_extent(map_at(s->r, p), s->dim[p], ROW_UNKNOWN);
        if (extent > longest) longest = extent;
    }
    return longest;
}

/* A power of two, of whole warps: enough that a thread holds its part of the longest row in
 * registers, and that the machine is full. */
static int64_t row_threads(const Sharing *s, int64_t lanes) {
    const Machine *m = machine_of(s->r);
    int64_t threads = m->warp, longest = longest_row(s);
    while (threads * ROW_EACH < longest && threads < ROW_THREADS) threads *= 2;
    if (lanes == 1)
        while (threads < longest && threads < m->block_threads) threads *= 2;
    return threads;
}

static void share_dims(Sharing *s) {
    const Rows *r = s->r;
    int64_t most = 8 * machine_of(r)->vector_bytes / narrowest(s), all = 1;
    while (most > 1 && most * machine_of(r)->warp > longest_row(s)) most /= 2;
    for (int p = 0; p < r->kernel->map.n; p++) {
        s->lanes[p] = s->dim[p] < 0 ? 1 : row_lanes(r, map_at(r, p), s->dim[p], most);
        if (s->lanes[p] > all) all = s->lanes[p];
    }
    s->threads = row_threads(s, all);
    for (int p = 0; p < r->kernel->map.n; p++) {
        int64_t each = s->dim[p] < 0 ? INT64_MAX : map_extent(map_at(r, p), s->dim[p], INT64_MAX);
        s->unroll[p] = s->lanes[p] > 1 && each <= s->threads * ROW_HELD;
    }
}

bool keep_handed_on(Rows *r) {
    bool alone = true;
    int64_t room = machine_of(r)->shared_bytes / 2;
    for (int p = 0; p < r->kernel->map.n - 1; p++) {
        bool scalar;
        int64_t bytes = rows_bytes(r, p, &scalar);
        for (int k = 0; k < map_at(r, p)->write.at[0].n; k++) {
            int cont = map_at(r, p)->write.at[0].to[k].cont;
            bool fits = bytes >= 0 && bytes <= room;
            bool kept = !read_outside(r->s, r->kernel, cont) && (scalar || fits);
            if (!kept || !scalar) alone = false;
            if (!kept) continue;
            kernel_keep(r->s->flow, r->kernel, p, cont, scalar ? KEEP_REG : KEEP_SHARED);
            if (!scalar) room -= bytes;
        }
    }
    return alone;
}

void row_lines(Rows *r, bool warps) {
    const Machine *m = machine_of(r);
    int root = r->kernel->map.n - 1;
    double rows = 1;
    for (int d = 0; d < r->root->dim.n; d++) {
        if (!r->outer[d] || dim_is(r->root->dim.at[d].extent, 1)) continue;
        rows *= (double)map_extent(r->root, d, ROW_UNKNOWN);
        r->block = d;
    }
    int64_t most = r->block < 0 ? 1 : map_extent(r->root, r->block, m->block_threads);
    while (warps && r->rows * 2 * m->warp <= m->block_threads && r->rows * 2 <= most &&
           rows >= (double)r->rows * 2 * ROW_BLOCKS * m->cores)
        r->rows *= 2;
    bool several = r->rows > 1;
    rows_line(r, LINE_TILE, root);
    rows_line(r, LINE_BLOCK, root);
    r->rows = 1;
    if (several) {
        rows_line(r, LINE_TILE, root);
        rows_line(r, LINE_THREAD, root);
    }
}

void along_lines(const Rows *r, int pos, int dim, int64_t lanes, bool unroll) {
    Flow *flow = r->s->flow;
    const Map *m = map_at(r, pos);
    if (lanes > 1) line_dim(flow, kernel_line(flow, r->kernel, LINE_VECTOR, pos), m, dim, lanes);
    if (unroll) line_dim(flow, kernel_line(flow, r->kernel, LINE_UNROLL, pos), m, dim, 0);
}

static void share_lines(const Sharing *s, int p) {
    Flow *flow = s->r->s->flow;
    const Map *m = map_at(s->r, p);
    line_dim(flow, kernel_line(flow, s->r->kernel, LINE_THREAD, p), m, s->dim[p], s->threads);
    along_lines(s->r, p, s->dim[p], s->lanes[p], s->unroll[p]);
    if (s->unroll[p]) first_lines(s->r, p, map_extent(m, s->dim[p], INT32_MAX) / s->threads);
}

/* False when no map has a dim to share. */
static bool share_dim(Rows *r) {
    Arena *arena = r->s->flow->arena;
    int n = r->kernel->map.n;
    Sharing s = {.r = r,
                 .dim = NEW_ARRAY(arena, int, n),
                 .lanes = NEW_ARRAY(arena, int64_t, n),
                 .unroll = NEW_ARRAY(arena, bool, n)};
    bool any = false;
    for (int p = 0; p < n; p++) any |= (s.dim[p] = shared_dim(r, p)) >= 0;
    if (!any) return false;
    share_dims(&s);
    bool alone = keep_handed_on(r);
    row_lines(r, alone && s.threads == machine_of(r)->warp);
    for (int p = 0; p < n; p++) {
        s.dim[p] >= 0 ? share_lines(&s, p) : first_lines(r, p, 1);
        if (p < n - 1) rows_line(r, LINE_AT, p);
    }
    ahead_lines(r, s.dim, s.threads);
    return true;
}

/* The same of rows that go over two dims of memory as one. */
static bool share_rows(Rows *r) {
    int lines = r->kernel->line.n;
    if (!merge_inner(r)) return share_dim(r);
    const char *why;
    Scheduling merged = *r->s;
    merged.flow = (Flow *)flow_merged(r->s->flow->arena, r->s->flow, r->kernel, &why);
    Rows rows = rows_of(&merged, r->kernel);
    if (share_dim(&rows)) return true;
    r->kernel->line.n = lines;
    return share_dim(r);
}

/* ---- which -------------------------------------------------------------------------------------
 */

/* Reads of a map, in what a warp fetches for each, when neighbours go along `dim`. */
static double fetched(const Rows *r, const Map *m, int dim) {
    int warp = machine_of(r)->warp;
    double sum = 0;
    for (int v = 0; v < m->body.val.n; v++) {
        const Val *val = &m->body.val.at[v];
        if (val->kind != VAL_READ) continue;
        int64_t step = access_stride(r->s->flow, m, &val->read, dim, warp);
        sum += step == 0 ? 0.1 : step == 1 ? 1 : step < 8 ? (double)step : 8;
    }
    return sum;
}

/* Threads that have a part of a map's row, each of neighbours that one instruction fetches. */
static double sharing_threads(const Rows *r, const Map *m, int dim, double row) {
    const Machine *machine = machine_of(r);
    int64_t lanes = 8 * machine->vector_bytes / widest(r, m, dim);
    while (lanes > 1 && (double)(lanes * machine->warp) > row) lanes /= 2;
    double threads = row / (double)row_lanes(r, m, dim, lanes > 1 ? lanes : 1);
    if (threads < machine->warp) return row < machine->warp ? row : machine->warp;
    return threads < machine->block_threads ? threads : machine->block_threads;
}

/* Would threads that own results be busier, and fetch less, than blocks that share rows? */
static bool own_better(const Rows *r, const int *dims, int n) {
    double owned = 0, shared = 0, live = machine_of(r)->live_threads, results = 1;
    Split split = split_reduction(r);
    int64_t each[MAP_DIMS];
    if (n) own_each(r, dims, n, &split, each);
    for (int d = 0; d < r->root->dim.n; d++)
        if (!map_reduces(r->root, d)) results *= (double)map_extent(r->root, d, unknown_extent);
    for (int p = 0; p < r->kernel->map.n; p++) {
        const Map *m = map_at(r, p);
        if (!map_is_reduction(m)) continue;
        int dim = shared_dim(r, p), inner = n ? r->al.at[p][dims[n - 1]] : -1;
        if (p == r->kernel->map.n - 1 && n) inner = dims[n - 1];
        if (dim < 0) return true;
        double volume = map_volume(m, unknown_extent), row = volume / results;
        double threads = results * split.parts, busy = threads < live ? threads : live;
        double wide = sharing_threads(r, m, dim, row);
        double all = results * wide,
               fold = wide == machine_of(r)->warp ? WARP_FOLD_COST : FOLD_COST;
        owned += volume * (inner < 0 ? 8 : fetched(r, m, inner)) / busy;
        shared += (volume * fetched(r, m, dim) + results * fold * wide) / (all < live ? all : live);
    }
    return owned <= shared;
}

/* Tiles of rows that go over two dims as one. */
static bool merged_tiles(Scheduling *s, Kernel *kernel) {
    int at = only_reduction(s, kernel), dims[MAP_DIMS];
    const char *why;
    if (at || !merge_rows(s, kernel, at)) return false;
    Scheduling merged = *s;
    merged.flow = (Flow *)flow_merged(s->flow->arena, s->flow, kernel, &why);
    Rows r = rows_of(&merged, kernel);
    int n = result_dims(&r, dims);
    if (!must_be_serial(&r, dims, n) && n && element_by_element(&r) && byte_elements(&r) == 1 &&
        (step_tiles(&r, dims, n) || stage_tiles(&r, dims, n)))
        return true;
    kernel->line.n = 0;
    return false;
}

void schedule_blocks(Scheduling *s, Kernel *kernel) {
    if (merged_tiles(s, kernel)) return;
    Rows r = rows_of(s, kernel);
    int dims[MAP_DIMS], n = result_dims(&r, dims);
    const char *why = must_be_serial(&r, dims, n);
    if (why) {
        serial(&r, why);
        return;
    }
    if (weigh_tiles(&r) || prologue_tiles(&r)) return;
    bool own = n && element_by_element(&r), whole = byte_elements(&r) == 1;
    if (own && whole && step_tiles(&r, dims, n)) return;
    if (own && whole && (stage_tiles(&r, dims, n) || stage_transposed(&r, dims, n))) return;
    if (own && (!whole || own_better(&r, dims, n)))
        own_elements(&r, dims, n);
    else if (!whole || !(group_rows(&r) || share_rows(&r))) {
        if (own)
            own_elements(&r, dims, n);
        else
            serial(&r, n ? "its elements share bytes" : "it makes one element");
    }
}
