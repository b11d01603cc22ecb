/* SPDX-License-Identifier: Apache-2.0 */
/* Pass `fuse`: kernels over rows, and whether they move less.
 *
 * Maps that agree on some outer dims run together for one index of these after the other. What they
 * hand on for an index stays in an inner cache and is never stored. A contraction among them runs
 * on a block of rows at a time and reads its other operand again for every block: that costs
 * nothing while the operand stays in the innermost cache or the block's work hides it, else the
 * bandwidth of the level it stays in. So a join is weighed in seconds of movement: what reading
 * again costs the joined kernel, against what it costs the two apart and the time that the
 * containers in between take to be written and read. Attention becomes one kernel over row blocks
 * where that wins, whatever made it. A machine of blocks of threads takes one row a block: there a
 * contraction whose rows share an operand stays alone, and a long map is no part of one block's
 * work.
 */
#include <math.h>

#include "passes/fuse.h"

/* TASK_WORK: elements that one task may take on where there could be more. */
enum { ROW_TASKS = 4, TASK_WORK = 4096, ALONE_ROWS = 13, ALONE_LANES = 48 };

typedef struct Rows {
    const Flow *flow;
    const Machine *machine;
    const int *map;
    int n;
    Alignment al;
    bool outer[MAP_DIMS]; /* by root dim: ties to every map */
    double tasks;         /* indices of the outer dims */
} Rows;

/* A contraction, or a reduction over windows: wants register tiles of its own. */
bool wants_tiles(const Flow *flow, const Map *m) {
    if (!map_is_reduction(m)) return false;
    Contraction r = map_contraction(flow, m);
    for (int d = 0; r.is && d < m->dim.n; d++)
        if ((r.role[d] == ROLE_M || r.role[d] == ROLE_N) && map_extent(m, d, fuse_unknown) > 1)
            return true;
    for (int v = 0; v < m->body.val.n; v++)
        if (m->body.val.at[v].kind == VAL_READ && access_slides(m, &m->body.val.at[v].read))
            return true;
    return false;
}

/* A row over a blocked channel would step through its blocks: such maps keep kernels of their own.
 */
static bool lies_in_blocks(const Flow *flow, int cont) {
    return flow->cont.at[cont].layout && cont_innermost(flow, cont) < 0;
}

/* What stands in lanes of a product of computed factors is as the product wants it. */
static bool touches_blocks(const Flow *flow, const Map *m) {
    Contraction r = map_contraction(flow, m);
    for (int v = 0; v < m->body.val.n; v++) {
        const Val *val = &m->body.val.at[v];
        if (val->kind != VAL_READ || !lies_in_blocks(flow, val->read.cont)) continue;
        if (!r.is || v != r.b || flow->cont.at[val->read.cont].kind != CONT_TMP) return true;
    }
    return lies_in_blocks(flow, m->write.at[0].to[0].cont);
}

bool plain_writes(const Map *m) {
    for (int w = 0; w < m->write.n; w++) {
        const Write *wr = &m->write.at[w];
        for (int k = 0; k < wr->n; k++)
            for (int d = 0; d < wr->to[k].rank; d++)
                if (access_dim(m, &wr->to[k], d) < 0 && !dim_is_const(wr->to[k].at[d], NULL))
                    return false;
    }
    return m->write.n == 1;
}

static Rows rows_of(Arena *arena, const Flow *flow, const Machine *machine, const int *maps,
                    int n) {
    Rows r = {.flow = flow, .machine = machine, .map = maps, .n = n, .tasks = 1};
    const Map *root = flow->map.at[maps[n - 1]];
    r.al = kernel_align(arena, flow, maps, n);
    for (int d = 0; d < root->dim.n; d++) {
        r.outer[d] = true;
        for (int p = 0; p < n; p++)
            r.outer[d] &=
                r.al.at[p][d] >= 0 &&
                flow->map.at[maps[p]]->dim.at[r.al.at[p][d]].extent == root->dim.at[d].extent;
        if (r.outer[d]) r.tasks *= (double)map_extent(root, d, fuse_unknown);
    }
    return r;
}

/* Marks the dims of map p that are outer dims. */
static void outer_dims(const Rows *r, int p, bool *is_outer) {
    for (int d = 0; d < MAP_DIMS; d++) is_outer[d] = false;
    for (int d = 0; d < MAP_DIMS; d++)
        if (r->outer[d] && r->al.at[p][d] >= 0) is_outer[r->al.at[p][d]] = true;
}

/* Bytes that the maps hand on for one index of the outer dims. */
static double handed_on(const Rows *r) {
    double bytes = 0;
    for (int p = 0; p < r->n - 1; p++) {
        const Map *m = r->flow->map.at[r->map[p]];
        const Access *to = &m->write.at[0].to[0];
        bool is_outer[MAP_DIMS];
        outer_dims(r, p, is_outer);
        double row = (double)dtype_bits(r->flow->cont.at[to->cont].type) / 8;
        for (int k = 0; k < to->rank; k++) {
            int d = access_dim(m, to, k);
            if (d >= 0 && !is_outer[d]) row *= (double)map_extent(m, d, unknown_row);
        }
        bytes += row;
    }
    return bytes;
}

/* Bytes that a read meets while the dims that are `fixed` stay. */
static double read_bytes(const Map *m, const Val *read, const bool *fixed) {
    double bytes = (double)dtype_bits(read->type) / 8;
    for (int d = 0; d < m->dim.n; d++) {
        bool uses = false;
        for (int k = 0; k < read->read.rank; k++)
            uses |= dim_uses(read->read.at[k], m->dim.at[d].sym);
        if (uses && !fixed[d]) bytes *= (double)map_extent(m, d, unknown_row);
    }
    return bytes;
}

static double seconds(const Rows *r, double bytes, double times) {
    if (bytes <= (double)r->machine->level[0].bytes) return 0;
    return bytes * times / machine_bandwidth(r->machine, bytes);
}

/* What a contraction in a kernel of its own reads again: the smaller operand, for every tile of
 * the other. */
static double alone_seconds(const Rows *r, const Map *m, const Contraction *c) {
    bool batch[MAP_DIMS] = {false};
    double rows = 1, lanes = 1, batches = 1;
    for (int d = 0; d < m->dim.n; d++) {
        double extent = (double)map_extent(m, d, unknown_row);
        batch[d] = c->role[d] == ROLE_BATCH;
        if (batch[d]) batches *= extent;
        if (c->role[d] == ROLE_M) rows *= extent;
        if (c->role[d] == ROLE_N) lanes *= extent;
    }
    double a =
        seconds(r, read_bytes(m, &m->body.val.at[c->a], batch), batches * lanes / ALONE_LANES);
    double b = seconds(r, read_bytes(m, &m->body.val.at[c->b], batch), batches * rows / ALONE_ROWS);
    return a < b ? a : b;
}

/* The root dim that runs in blocks, innermost: the last that every contraction has for its own. */
static int block_dim(const Rows *r) {
    int block = -1;
    for (int d = 0; d < r->flow->map.at[r->map[r->n - 1]]->dim.n; d++) {
        bool shares = r->outer[d];
        for (int p = 0; p < r->n && shares; p++) {
            Contraction c = map_contraction(r->flow, r->flow->map.at[r->map[p]]);
            DimRole role = c.is && wants_tiles(r->flow, r->flow->map.at[r->map[p]])
                               ? c.role[r->al.at[p][d]]
                               : ROLE_M;
            shares = role == ROLE_M || role == ROLE_N;
        }
        if (shares) block = d;
    }
    return block;
}

/* What an operand costs to be read again inside a kernel over rows: for each index of a loop that
 * does not use it, once what the loops inside meet of it is too much for the innermost cache. */
static double inside_seconds(const Rows *r, int p, const Val *read) {
    const Map *m = r->flow->map.at[r->map[p]], *root = r->flow->map.at[r->map[r->n - 1]];
    int block = block_dim(r), n = root->dim.n;
    bool fixed[MAP_DIMS];
    outer_dims(r, p, fixed);
    double inside = read_bytes(m, read, fixed), moved = inside, from = inside;
    for (int i = 0; i <= n; i++) {
        int d = i ? n - i : block;
        if (d < 0 || (i && d == block) || !r->outer[d]) continue;
        int own = r->al.at[p][d];
        double extent = (double)map_extent(root, d, unknown_row);
        bool uses = false;
        for (int k = 0; k < read->read.rank; k++)
            uses |= dim_uses(read->read.at[k], m->dim.at[own].sym);
        if (!uses && inside <= (double)r->machine->level[0].bytes) continue;
        if (!uses) from = inside;
        moved *= !uses && d == block ? ceil(extent / ROW_BLOCK) : extent;
        if (uses) inside *= extent;
    }
    return (moved - inside) / machine_bandwidth(r->machine, from);
}

static bool contracts(const Rows *r) {
    for (int p = 0; p < r->n; p++)
        if (wants_tiles(r->flow, r->flow->map.at[r->map[p]])) return true;
    return false;
}

/* Seconds of reading again that computing does not hide. */
static double reading_again(const Rows *r) {
    double sum = 0;
    for (int p = 0; p < r->n; p++) {
        const Map *m = r->flow->map.at[r->map[p]];
        if (!wants_tiles(r->flow, m)) continue;
        Contraction c = map_contraction(r->flow, m);
        if (!c.is) continue;
        double moving = r->n == 1 ? alone_seconds(r, m, &c)
                                  : inside_seconds(r, p, &m->body.val.at[c.a]) +
                                        inside_seconds(r, p, &m->body.val.at[c.b]);
        double computing = 2 * map_volume(m, unknown_row) / r->machine->fma_flops;
        if (moving > computing) sum += moving - computing;
    }
    return sum;
}

/* Does it keep a dim whose indices share an operand? */
static bool shares_rows(const Rows *r, int p) {
    Contraction c = map_contraction(r->flow, r->flow->map.at[r->map[p]]);
    bool rows = false;
    for (int d = 0; c.is && d < MAP_DIMS; d++)
        rows |= r->outer[d] && r->al.at[p][d] >= 0 && c.role[r->al.at[p][d]] == ROLE_M;
    return rows;
}

/* Does it have columns that share a row, and one index of the outer dims only one of them? Dot
 * products are left, whose tiles and lanes the kernel over rows does not have. */
static bool leaves_dots(const Rows *r, int p) {
    const Map *m = r->flow->map.at[r->map[p]];
    Contraction c = map_contraction(r->flow, m);
    bool is_outer[MAP_DIMS], any = false;
    outer_dims(r, p, is_outer);
    for (int d = 0; c.is && d < m->dim.n; d++) {
        if (c.role[d] != ROLE_N || map_extent(m, d, fuse_unknown) < 2) continue;
        if (!is_outer[d]) return false;
        any = true;
    }
    return any;
}

/* Kernels without any reduction join only over equal domains: a small map beside a large one would
 * be cut up by the large one's tiles for nothing. */
static bool same_volumes(const Rows *r) {
    bool equal = true;
    for (int i = 0; i < r->n; i++) {
        const Map *m = r->flow->map.at[r->map[i]];
        if (map_is_reduction(m)) return true;
        equal &= map_volume(m, fuse_unknown) ==
                 map_volume(r->flow->map.at[r->map[r->n - 1]], fuse_unknown);
    }
    return equal;
}

/* Is what map p reduces long, and side by side in memory along an outer dim, and are results too
 * few to keep a GPU busy a thread each? Threads then take parts of it side by side, which they do
 * for one reduction alone. */
static bool reduces_columns(const Rows *r, int p) {
    enum { LONG = 128, MUCH = 1 << 18 };
    const Map *m = r->flow->map.at[r->map[p]];
    bool outer[MAP_DIMS], across = false;
    double length = 1;
    if (!map_is_reduction(m) || r->tasks >= (double)r->machine->live_threads) return false;
    outer_dims(r, p, outer);
    for (int d = 0; d < m->dim.n; d++) {
        if (map_reduces(m, d)) length *= (double)map_extent(m, d, 1);
        for (int v = 0; outer[d] && v < m->body.val.n; v++) {
            const Val *val = &m->body.val.at[v];
            across |= val->kind == VAL_READ && access_reduced(m, &val->read) &&
                      access_stride(r->flow, m, &val->read, d, r->machine->warp) == 1;
        }
    }
    return across && length >= LONG && map_volume(m, 1) >= MUCH;
}

/* A row times a matrix that no other index of the outer dims reads, among maps that a block each
 * does in no time? Groups of its threads then take the product (schedule_groups.c). */
static bool row_by_matrix(const Rows *r, int p) {
    enum { LITTLE = 1 << 14 };
    const Map *m = r->flow->map.at[r->map[p]];
    Contraction c = map_contraction(r->flow, m);
    bool outer[MAP_DIMS];
    int dims = 0;
    if (!c.is || access_slides(m, &m->body.val.at[c.a].read) ||
        access_slides(m, &m->body.val.at[c.b].read))
        return false;
    outer_dims(r, p, outer);
    for (int d = 0; d < m->dim.n; d++) {
        if (map_extent(m, d, unknown_row) < 2) continue;
        if (outer[d] && c.role[d] != ROLE_BATCH) return false;
        dims += !outer[d];
    }
    for (int i = 0; i < r->n; i++)
        if (map_usual_volume(r->flow, r->flow->map.at[r->map[i]]) > LITTLE * r->tasks) return false;
    return dims == 2;
}

static bool may_run_in_rows(const Rows *r) {
    for (int p = 0; p < r->n; p++) {
        const Map *m = r->flow->map.at[r->map[p]];
        if (!m->write.n || touches_blocks(r->flow, m)) return false;
        if (p < r->n - 1 && !plain_writes(m)) return false;
        if (has_seq(m)) return false;
        bool tiles = wants_tiles(r->flow, m);
        if (tiles && !(r->machine->block_threads ? row_by_matrix(r, p)
                                                 : shares_rows(r, p) && !leaves_dots(r, p)))
            return false;
        if (r->machine->block_threads && reduces_columns(r, p)) return false;
    }
    return same_volumes(r);
}

/* Do few tasks share what more of them would do sooner? Of a kernel's last map, on a machine of
 * blocks of threads of any: one block does it. */
static bool too_few_tasks(const Rows *r) {
    bool many = r->tasks >= ROW_TASKS;
    for (int p = 0; p < r->n && !many; p++) {
        double volume = map_volume(r->flow->map.at[r->map[p]], fuse_unknown);
        if ((p == r->n - 1 || r->machine->block_threads) && volume > TASK_WORK) return true;
    }
    return false;
}

static double usual_tasks(const Rows *r) {
    const Map *root = r->flow->map.at[r->map[r->n - 1]];
    double tasks = 1;
    for (int d = 0; d < root->dim.n; d++)
        if (r->outer[d]) tasks *= (double)map_usual(r->flow, root, d);
    return tasks;
}

/* What the last map of a kernel takes longer in tasks that are fewer than cores, on a machine of
 * blocks of threads, where it had more of them alone. */
static double idle_seconds(const Rows *r, const Rows *into) {
    double tasks = usual_tasks(r), alone = fmin(usual_tasks(into), r->machine->cores);
    if (!r->machine->block_threads || tasks >= alone) return 0;
    const Map *m = r->flow->map.at[r->map[r->n - 1]];
    double bits = dtype_bits(r->flow->cont.at[m->write.at[0].to[0].cont].type);
    for (int v = 0; v < m->body.val.n; v++)
        if (m->body.val.at[v].kind == VAL_READ) bits += dtype_bits(m->body.val.at[v].type);
    double bytes = map_usual_volume(r->flow, m) * bits / 8;
    return bytes / r->machine->level[r->machine->nlevels - 1].bandwidth * (1 / tasks - 1 / alone);
}

/* Would a block of threads have a row of less than a warp's elements, of which one map hands on
 * several to the next? Many such blocks take longer than threads that make an element each, map by
 * map. */
static bool too_short_rows(const Rows *r) {
    bool several = false;
    double longest = 0;
    if (!r->machine->block_threads || r->tasks < r->machine->cores) return false;
    for (int p = 0; p < r->n; p++) {
        const Map *m = r->flow->map.at[r->map[p]];
        bool is_outer[MAP_DIMS];
        outer_dims(r, p, is_outer);
        for (int d = 0; d < m->dim.n; d++)
            several |= !is_outer[d] && !map_reduces(m, d) && map_extent(m, d, fuse_unknown) > 1;
        longest = fmax(longest, map_volume(m, fuse_unknown) / r->tasks);
    }
    return several && longest < r->machine->warp;
}

/* Would tasks cut a large result across its rows, for the sake of little? Of tables that its
 * columns read, say, each place would be a task that goes through all rows. */
static bool cut_across(const Rows *r, double between) {
    enum { LITTLE = 64 };
    const Map *root = r->flow->map.at[r->map[r->n - 1]];
    const Access *to = &root->write.at[0].to[0];
    double bytes = dtype_bits(r->flow->cont.at[to->cont].type) / 8.0;
    int first = -1;
    bool across = false;
    for (int k = 0; k < to->rank; k++) {
        int d = access_dim(root, to, k);
        if (d < 0 || map_usual(r->flow, root, d) < 2) continue;
        bytes *= (double)map_usual(r->flow, root, d);
        if (first < 0) first = d;
        across |= !r->outer[first] && r->outer[d];
    }
    return across && between > 0 && between * LITTLE < bytes;
}

bool rows_join(Arena *arena, const Flow *flow, const Machine *machine, const RowsJoin *join) {
    int all[KERNEL_MAPS];
    if (join->g->n + join->into->n > KERNEL_MAPS) return false;
    for (int i = 0; i < join->g->n; i++) all[i] = join->g->at[i];
    for (int i = 0; i < join->into->n; i++) all[join->g->n + i] = join->into->at[i];
    Rows r = rows_of(arena, flow, machine, all, join->g->n + join->into->n);
    if (!may_run_in_rows(&r)) return false;
    if (too_few_tasks(&r) || too_short_rows(&r) || cut_across(&r, join->between)) return false;
    if (handed_on(&r) > (double)row_budget(machine)) return false;
    Rows g = rows_of(arena, flow, machine, join->g->at, join->g->n);
    Rows into = rows_of(arena, flow, machine, join->into->at, join->into->n);
    double saved = 2 * join->between / machine_bandwidth(machine, join->between);
    double gain = reading_again(&g) + reading_again(&into) + saved - reading_again(&r);
    if (idle_seconds(&r, &into) > LAUNCH_SECONDS + saved) return false;
    bool cut = r.tasks < g.tasks || r.tasks < into.tasks; /* fewer, larger operands for a task */
    return cut && contracts(&r) ? gain > 0 : gain >= 0;
}
