/* SPDX-License-Identifier: Apache-2.0 */
/* Pass `schedule`: writes the lines of every kernel: tiles, order, parallel dims, lanes, storage.
 *
 * Three shapes of kernel come out of `fuse`, told apart by their maps alone:
 *
 * - tiled: the first map is a reduction whose result nothing but an element-wise root reads (or it
 * is the root itself): lanes along a dim in which all accesses step by 0 or 1, rows along a dim
 * that reuses what the lanes load, accumulators in registers, the reduction inside;
 * - rows: several maps tied by outer dims; one index of these is a task, what the maps hand on
 * stays in registers or a small tile;
 * - element-wise: blocks of a few thousand elements.
 *
 * For a machine of blocks of threads schedule_blocks.c writes the lines instead.
 *
 * Lanes are chosen by strides in storage, so a layout chosen before decides how a kernel is cut. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ir/flow_text.h"
#include "passes/near.h"
#include "passes/schedule.h"

enum { CHUNK = 4096, SERIAL_WORK = 16384, STEP = 16 };

/* ---- lanes ---------------------------------------------------------------------------------- */

/* As many as f32 elements fill a vector: one lane count per kernel, whatever the types, but where
 * all are smaller. */
int lanes_of(const Scheduling *s) {
    return s->lanes ? s->lanes : s->env->machine->vector_bytes / 4;
}

/* As many as fill a vector where nothing that a map reads side by side, computes or writes takes
 * more than two bytes; but fewer where many would be left of the dim. */
int wide_lanes(const Scheduling *s, const Map *map, int dim) {
    int lanes = lanes_of(s), widest = 8;
    if (map->cons.n) return lanes;
    for (int v = 0; v < map->body.val.n; v++) {
        const Val *val = &map->body.val.at[v];
        int bits = dtype_bits(val->type);
        bool looked = val->kind == VAL_READ && access_looks_up(s->flow, map, &val->read);
        if (val->kind == VAL_CONST || looked || body_byte(&map->body, val->sym) >= 0) continue;
        if (val->kind == VAL_INDEX || (bits < 8 && val->type != BOOL)) return lanes;
        if (val->kind == VAL_READ &&
            (val->has_else || access_stride(s->flow, map, &val->read, dim, lanes) > 1))
            return lanes;
        if (bits > widest) widest = bits;
    }
    int64_t extent = map_extent(map, dim, 0);
    int most = 8 * s->env->machine->vector_bytes / widest;
    while (most > lanes && extent < 4 * most && extent % most) most /= 2;
    return most > lanes ? most : lanes;
}

/* The same in scalar code. */
double scalar_cost(const Flow *flow, const Map *map, int lanes) {
    double reads = 0, results = 1;
    for (int v = 0; v < map->body.val.n; v++) reads += map->body.val.at[v].kind == VAL_READ;
    for (int d = 0; d < map->dim.n; d++)
        if (!map_reduces(map, d)) results *= (double)map_usual(flow, map, d);
    return lanes * ((reads + map_prims(map) * 0.3) * map_usual_volume(flow, map) + results);
}

/* Lanes of a reduced dim are folded, and a fold in a nest can only name combines of the table. */
bool folds(const Map *map, int dim) {
    return !map_reduces(map, dim) || map->write.at[0].combine->t != DT_NONE;
}

/* The dim to run in lanes among those allowed, or -1 when scalar code is as good. */
int choose_lanes(const Scheduling *s, const Map *map, const bool *allowed) {
    int lanes = lanes_of(s), best = -1;
    double best_cost = 0;
    for (int d = 0; d < map->dim.n; d++) {
        if (!allowed[d] || map->dim.at[d].seq || map_usual(s->flow, map, d) < 2) continue;
        if (!folds(map, d)) continue;
        double cost = lane_cost(s->flow, map, d, lanes, false);
        if (best < 0 || cost < best_cost) best = d, best_cost = cost;
    }
    return best >= 0 && best_cost < scalar_cost(s->flow, map, lanes) ? best : -1;
}

void vector_line(Scheduling *s, Kernel *kernel, int pos, int dim) {
    const Map *map = s->flow->map.at[kernel->map.at[pos]];
    Line *line = kernel_line(s->flow, kernel, LINE_VECTOR, pos);
    line_dim(s->flow, line, map, dim, lanes_of(s));
}

/* ---- long sums ------------------------------------------------------------------------------ */

/* At least so many terms, in whole steps of 16 indices; a divisor of the extent if one is near. */
static int64_t block_of(int64_t extent, int64_t taps, int64_t terms) {
    int64_t least = (terms / taps + STEP - 1) / STEP * STEP;
    if (least < STEP) least = STEP;
    for (int64_t b = least; b <= least + least / 2; b += STEP)
        if (extent % b == 0) return b;
    return least;
}

int sum_blocks(const Map *m, int lane, int64_t block, int64_t *size) {
    const Combine *c = m->write.at[0].combine;
    if (!c || c->simple != P_ADD || !dtype_is_float(c->type[0])) return -1;
    if (lane >= 0 && map_reduces(m, lane)) return -1;
    int longest = -1;
    int64_t terms = 1;
    for (int d = 0; d < m->dim.n; d++) {
        int64_t extent = map_extent(m, d, 1);
        if (!map_reduces(m, d)) continue;
        terms *= extent;
        if (longest < 0 || extent > map_extent(m, longest, 1)) longest = d;
    }
    if (longest < 0 || !terms) return -1;
    int64_t extent = map_extent(m, longest, 1);
    *size = block_of(extent, terms / extent, block);
    return extent < 2 * *size ? -1 : longest;
}

int64_t steps_aside(int64_t extent, int64_t operations) {
    enum { OPERATIONS_MOST = 48, STEPS_MOST = 8 };
    int64_t steps = 1;
    if (extent > 0 && extent <= STEPS_MOST && extent * operations <= 2 * OPERATIONS_MOST)
        return extent;
    while (extent > 0 && extent % (2 * steps) == 0 && 2 * steps <= STEPS_MOST &&
           2 * steps * operations <= OPERATIONS_MOST)
        steps *= 2;
    return steps;
}

void step_lines(Scheduling *s, Kernel *kernel, int pos, int64_t block, int64_t operations,
                Line *unroll) {
    const Map *m = s->flow->map.at[kernel->map.at[pos]];
    int k = -1, reduced = 0;
    for (int d = 0; d < m->dim.n; d++)
        if (map_reduces(m, d)) k = d, reduced++;
    if (reduced != 1) return;
    int64_t extent = block > 0 ? block : map_extent(m, k, 0);
    int64_t steps = steps_aside(extent, operations);
    if (steps == 1) return;
    line_dim(s->flow, unroll, m, k, 0);
    Line *reduce = kernel_line(s->flow, kernel, LINE_REDUCE, pos);
    if (steps < extent) line_dim(s->flow, reduce, m, k, steps);
    line_dim(s->flow, reduce, m, k, 0);
}

/* A sum in one chain of n roundings is off by the square root of n; in blocks whose sums start from
 * zero and are then added up it is nearer, for one addition per block. The order depends on extents
 * alone, so it is the same for every processor and number of threads. Lanes of a reduced dim are
 * short chains already. */
void partial_line(Scheduling *s, Kernel *kernel, int pos, int lane, int64_t block) {
    const Map *m = s->flow->map.at[kernel->map.at[pos]];
    int64_t size;
    int dim = sum_blocks(m, lane, block, &size);
    if (dim >= 0) line_dim(s->flow, kernel_line(s->flow, kernel, LINE_PARTIAL, pos), m, dim, size);
}

/* Counts the factors of Val v: those that are fixed but for dim d and move with it, and those that
 * other reduced dims move. */
static void count_factors(const Map *m, int v, int d, int *fixed, int *moving) {
    const Val *val = &m->body.val.at[v];
    bool product =
        val->kind == VAL_PRIM && val->prim == P_MUL && val->type == m->write.at[0].combine->type[0];
    if (val_fixed(m, v, d)) {
        *fixed += !val_fixed(m, v, -1);
    } else if (product) {
        count_factors(m, val->arg[0], d, fixed, moving);
        count_factors(m, val->arg[1], d, fixed, moving);
    } else {
        ++*moving;
    }
}

int factor_dim(const Map *m, int group) {
    for (int d = 0; d < m->dim.n; d++) {
        int fixed = 0, moving = 0;
        if (!map_reduces(m, d) || d == group) continue;
        count_factors(m, m->write.at[0].val[0], d, &fixed, &moving);
        if (fixed && moving >= 2) return d;
    }
    return -1;
}

/* ---- rows of a tile ------------------------------------------------------------------------- */

int64_t rows_held(const Machine *machine, const Map *m, int64_t vectors) {
    int64_t rows = (sum_registers(machine, m) - 2 - vectors) / vectors;
    return rows < ROWS_MOST ? rows : ROWS_MOST;
}

int64_t cache_sets(int64_t bytes) {
    enum { ROUND = 4096 };
    int64_t page = ROUND;
    while (page > 1 && bytes % page) page /= 2;
    return ROUND / page;
}

/* Lines that a set of the smallest innermost caches holds. */
enum { WAYS = 8 };

int64_t rows_apart(const Flow *flow, const Map *m, int row, int64_t most) {
    for (int v = 0; v < m->body.val.n; v++) {
        const Val *val = &m->body.val.at[v];
        if (val->kind != VAL_READ) continue;
        int64_t step = access_stride(flow, m, &val->read, row, 1);
        if (step == INT64_MAX || !step) continue;
        int64_t lines = WAYS * cache_sets(dtype_bytes(flow->cont.at[val->read.cont].type, step));
        if (lines < most) most = lines;
    }
    return most;
}

/* Least rows of a block that panels pass. */
enum { BLOCK_ROWS = 64 };

/* Of the inner cache, beside panels and results. */
static double rows_room(const Machine *machine) {
    return (double)machine->level[1].bytes / 2;
}

double rows_near(const Machine *machine, double bytes, double rows) {
    return fmax(rows_room(machine) * rows / bytes, BLOCK_ROWS);
}

double rows_again(const Machine *machine, double bytes, double rows, double panels,
                  double weights) {
    double room = rows_room(machine), again = (bytes - room) * panels;
    double blocks = ceil(rows / rows_near(machine, bytes, rows));
    bool cut = weights <= room || 2 * weights * blocks <= again;
    return bytes <= room || cut ? 0 : again;
}

int64_t equal_tiles(int64_t extent, int64_t most) {
    if (extent <= most) return extent;
    for (int64_t t = most; 4 * t >= 3 * most; t--)
        if (extent % t == 0) return t;
    int64_t tiles = (extent + most - 1) / most;
    return (extent + tiles - 1) / tiles;
}

/* The largest part of a sum's terms, whole steps, into which it can be cut with at most so many in
 * a part; 0: they fit, or parts would be small. */
int64_t matrix_chunk(int64_t extent, int64_t step, int64_t most) {
    for (int64_t c = most - most % step; extent > most && 2 * c >= most; c -= step)
        if (extent % c == 0) return c;
    return 0;
}

/* How many tiles of `size` rows go together, which take no more than `room` and leave so many
 * tasks, `others` for each, that threads get equal parts. */
int64_t matrix_tiles(int64_t extent, int64_t size, int64_t others, int64_t room) {
    enum { TASKS_LEAST = 16 };
    int64_t all = (extent + size - 1) / size, tiles = room / size;
    while (tiles > 1 && others * ((all + tiles - 1) / tiles) < TASKS_LEAST) tiles--;
    if (tiles < 2) return 1;
    int64_t parts = (all + tiles - 1) / tiles;
    return (all + parts - 1) / parts;
}

/* Bytes that a read meets over the whole domain. */
double read_bytes(const Flow *flow, const Map *m, const Access *read) {
    double bytes = 4;
    for (int d = 0; d < m->dim.n; d++)
        if (access_uses(m, read, d)) bytes *= (double)map_usual(flow, m, d);
    return bytes;
}

/* Do the maps in front of map `at` hand on what only the kernel reads? Strips hold nothing else. */
bool strips_alone(const Scheduling *s, const Kernel *kernel, int at) {
    for (int p = 0; p < at; p++)
        if (read_outside(s, kernel, s->flow->map.at[kernel->map.at[p]]->write.at[0].to[0].cont))
            return false;
    return true;
}

/* ---- work ----------------------------------------------------------------------------------- */

/* Worth spreading over threads? Small kernels run as one task. */
bool worth_threads(const Scheduling *s, const Kernel *kernel) {
    double work = 0;
    for (int i = 0; i < kernel->map.n; i++) {
        const Map *m = s->flow->map.at[kernel->map.at[i]];
        work += map_usual_volume(s->flow, m) * (1 + m->body.val.n / 8.0);
    }
    return work >= SERIAL_WORK;
}

/* ---- element-wise --------------------------------------------------------------------------- */

int storage_order(const Scheduling *s, const Map *map, int *order) {
    int64_t stride[MAP_DIMS];
    int n = 0;
    for (int d = 0; d < map->dim.n; d++) {
        int64_t st = access_stride(s->flow, map, &map->write.at[0].to[0], d, 1);
        stride[d] = st == 0 ? INT64_MAX - 1 : st;
        int k = n++;
        for (; k > 0 && stride[order[k - 1]] < stride[d]; k--) order[k] = order[k - 1];
        order[k] = d;
    }
    return n;
}

/* Blocks of lanes by `rows` of a dim (-1: none) are turned in registers: its elements fill what
 * lies between the lanes where they are stored. */
typedef struct Turn {
    int dim;
    int64_t rows;
} Turn;

static Turn turned_dim(const Scheduling *s, const Map *map, int lane) {
    const Turn none = {-1, 0};
    if (lane < 0 || map->write.n != 1 || map->write.at[0].n != 1 || map_prims(map) > TURNED_PRIMS)
        return none;
    const Access *to = &map->write.at[0].to[0];
    int lanes = lanes_of(s);
    int64_t word, step = access_stride(s->flow, map, to, lane, lanes);
    if (step == 0 || step == 1) return none;
    int between = access_interleaves(s->flow, map, to, lane, lanes);
    if (between >= 0) return (Turn){between, step};
    between = access_words(s->flow, map, to, lane, lanes, &word);
    if (between >= 0) return (Turn){between, lanes / word};
    for (int d = 0; access_step(s->flow, map, to, lane, lanes) && d < map->dim.n; d++)
        if (d != lane && !map->dim.at[d].seq && map_usual(s->flow, map, d) >= lanes / 2 &&
            access_stride(s->flow, map, to, d, lanes) == 1)
            return (Turn){d, lanes};
    return none;
}

/* Lanes that are stored side by side but read apart: rather those that are read side by side, when
 * they can be turned. */
static int read_in_rows(const Scheduling *s, const Map *map, int lane) {
    if (lane < 0 || map->write.n != 1 || map->write.at[0].n != 1) return lane;
    if (access_stride(s->flow, map, &map->write.at[0].to[0], lane, lanes_of(s)) != 1) return lane;
    for (int d = 0; d < map->dim.n; d++) {
        int apart = 0, aside = 0, other = 0;
        for (int v = 0; v < map->body.val.n; v++) {
            const Val *val = &map->body.val.at[v];
            if (val->kind != VAL_READ) continue;
            int64_t now = access_stride(s->flow, map, &val->read, lane, lanes_of(s)),
                    then = access_stride(s->flow, map, &val->read, d, lanes_of(s));
            apart += now != 0 && now != 1;
            aside += then == 1;
            other += then != 0 && then != 1;
        }
        if (d != lane && !map->dim.at[d].seq && apart && aside && !other &&
            map_extent(map, d, -1) >= lanes_of(s) / 2 && turned_dim(s, map, d).dim == lane)
            return d;
    }
    return lane;
}

/* One block is all that is left inside the loops. */
static void turn_lines(Scheduling *s, Kernel *kernel, int pos, int lane, Turn turn) {
    const Map *map = s->flow->map.at[kernel->map.at[pos]];
    Line *tile = kernel_line(s->flow, kernel, LINE_TILE, pos);
    for (int d = 0; d < map->dim.n; d++)
        if (d != lane && d != turn.dim && map_extent(map, d, -1) != 1)
            line_dim(s->flow, tile, map, d, 1);
    line_dim(s->flow, tile, map, lane, lanes_of(s));
    line_dim(s->flow, tile, map, turn.dim, turn.rows);
    line_dim(s->flow, kernel_line(s->flow, kernel, LINE_UNROLL, pos), map, turn.dim, 0);
}

/* Outer dims become tasks of one index each until what is left writes about CHUNK elements; lanes
 * and dims that are turned with them are cut in whole vectors. */
static void cut_lines(Scheduling *s, Kernel *kernel, int pos, int lane, int other) {
    const Map *map = s->flow->map.at[kernel->map.at[pos]];
    int order[MAP_DIMS], n = storage_order(s, map, order);
    double inner = map_usual_volume(s->flow, map) * (double)map->write.n;
    IntVec cut = {0};
    int64_t size[MAP_DIMS], whole = lanes_of(s);
    for (int i = 0; i < n && inner > CHUNK; i++) {
        int d = order[i];
        int64_t extent = map_extent(map, d, -1);
        if (extent == 0 || extent == 1 || map->dim.at[d].seq) continue;
        double less = inner / (double)map_usual(s->flow, map, d);
        int64_t rest = less >= CHUNK ? 1 : (int64_t)(CHUNK / less);
        if (d == lane) rest = (rest + 63) / 64 * 64;
        if (d == other) rest = (rest + whole - 1) / whole * whole;
        if (extent > 0 && rest >= extent) continue;
        inner = less;
        size[cut.n] = rest;
        vec_push(s->flow->arena, &cut, d);
    }
    if (!cut.n) return;
    Line *tile = kernel_line(s->flow, kernel, LINE_TILE, pos);
    for (int i = 0; i < cut.n; i++) line_dim(s->flow, tile, map, cut.at[i], size[i]);
    Line *par = kernel_line(s->flow, kernel, LINE_PARALLEL, pos);
    for (int i = 0; i < cut.n; i++) line_dim(s->flow, par, map, cut.at[i], 0);
}

/* Is there a read with an `else` that stands for whole vectors along the lane? */
static bool misses_vectors(const Scheduling *s, const Map *map, int lane) {
    int64_t extent = map_extent(map, lane, 0), lanes = lanes_of(s), first, held;
    for (int v = 0; v < map->body.val.n; v++) {
        const Val *val = &map->body.val.at[v];
        if (val->kind != VAL_READ || !val->has_else) continue;
        const Cont *c = &s->flow->cont.at[val->read.cont];
        for (int k = 0; k < val->read.rank; k++) {
            Dim coef, rest, own = map->dim.at[lane].sym;
            if (!dim_affine(s->flow->ctx, val->read.at[k], &own, 1, &coef, &rest) ||
                !dim_is(coef, 1) || !dim_is_const(rest, &first) ||
                !dim_is_const(c->shape[k], &held))
                continue;
            if (-first >= lanes || held - first <= extent - lanes) return true;
        }
    }
    return false;
}

/* Vectors side by side where they meet something else each: nothing is asked then, and those that a
 * read misses do not read. */
static void part_rows(Scheduling *s, Kernel *kernel, int pos, int lane) {
    enum { VECTORS_MOST = 16 };
    const Map *map = s->flow->map.at[kernel->map.at[pos]];
    int64_t extent = map_extent(map, lane, 0);
    if (extent > 0 && extent <= VECTORS_MOST * lanes_of(s) && misses_vectors(s, map, lane))
        line_dim(s->flow, kernel_line(s->flow, kernel, LINE_UNROLL, pos), map, lane, 0);
}

static void schedule_pointwise(Scheduling *s, Kernel *kernel) {
    int pos = kernel->map.n - 1;
    const Map *map = s->flow->map.at[kernel->map.at[pos]];
    bool allowed[MAP_DIMS];
    for (int d = 0; d < map->dim.n; d++) allowed[d] = true;
    int lane = read_in_rows(s, map, choose_lanes(s, map, allowed));
    Turn turn = turned_dim(s, map, lane);
    if (lane >= 0 && turn.dim < 0) s->lanes = wide_lanes(s, map, lane);
    if (worth_threads(s, kernel) && (!has_seq(map) || !map_needs_others(map)))
        cut_lines(s, kernel, pos, lane, turn.dim);
    if (turn.dim >= 0) turn_lines(s, kernel, pos, lane, turn);
    if (lane >= 0) vector_line(s, kernel, pos, lane);
    if (lane >= 0 && turn.dim < 0) part_rows(s, kernel, pos, lane);
}

/* Read by anything but the kernel's own maps, or written by several: needs memory. */
bool read_outside(const Scheduling *s, const Kernel *kernel, int cont) {
    if (s->flow->cont.at[cont].kind != CONT_TMP || s->held[cont] || s->writer[cont] < 0)
        return true;
    for (int r = 0; r < s->readers[cont].n; r++) {
        bool inside = false;
        for (int i = 0; i < kernel->map.n; i++)
            inside |= kernel->map.at[i] == s->readers[cont].at[r];
        if (!inside) return true;
    }
    return false;
}

/* ---- the pass ------------------------------------------------------------------------------- */

static void hold(Scheduling *s, int cont) {
    if (cont >= 0) s->held[cont] = true;
}

/* What calls and regions use is held in memory. */
static void survey(Scheduling *s, const Items *items, bool repeats) {
    for (int i = 0; i < items->n; i++) {
        const Item *it = &items->at[i];
        if (it->kind == ITEM_MAP) s->repeats[it->map] = repeats;
        if (it->kind == ITEM_CALL)
            for (int k = 0; k < it->call->nin; k++) hold(s, it->call->in[k]);
        if (it->kind == ITEM_LOOP || it->kind == ITEM_IF) hold(s, it->cond);
        for (int k = 0; k < it->carry.n; k++) {
            hold(s, it->carry.at[k].init);
            hold(s, it->carry.at[k].next);
        }
        survey(s, &it->body, repeats || it->kind == ITEM_LOOP);
        survey(s, &it->other, repeats);
    }
}

static bool has_windows(const Map *m) {
    bool windows = false;
    for (int v = 0; v < m->body.val.n; v++)
        windows |= m->body.val.at[v].kind == VAL_READ && access_slides(m, &m->body.val.at[v].read);
    return windows;
}

int only_reduction(const Scheduling *s, const Kernel *kernel) {
    int at = -1;
    for (int p = 0; p < kernel->map.n; p++) {
        const Map *m = s->flow->map.at[kernel->map.at[p]];
        if (!map_is_reduction(m)) continue;
        if (at >= 0) return -1;
        if (p && !has_windows(m) &&
            near_read(s->env->machine, s->flow, s->readers, s->writer, m) < 0)
            return -1;
        at = p;
    }
    return at >= kernel->map.n - 2 ? at : -1;
}

static void choose_lines(Scheduling *s, Kernel *kernel) {
    if (s->env->machine->block_threads) {
        schedule_blocks(s, kernel);
        return;
    }
    const Map *root = s->flow->map.at[kernel->map.at[kernel->map.n - 1]];
    int at = only_reduction(s, kernel);
    if (at >= 0) {
        Scheduling merged = *s;
        const char *why;
        if (merge_rows(s, kernel, at))
            merged.flow = (Flow *)flow_merged(s->flow->arena, s->flow, kernel, &why);
        if (schedule_tiled(&merged, kernel, at)) return;
        kernel->line.n = 0;
    }
    if (schedule_strips(s, kernel) || schedule_quarters(s, kernel) || schedule_parts(s, kernel))
        return;
    if (kernel->map.n == 1 && !map_is_reduction(root)) {
        Arena *arena = arena_new(s->flow->ctx);
        Scheduling merged = *s;
        merged.flow = (Flow *)merge_short(s, arena, kernel);
        schedule_pointwise(&merged, kernel);
        arena_free(arena);
    } else {
        schedule_rows(s, kernel);
    }
}

bool runs_by_steps(const Kernel *kernel) {
    bool steps = false;
    for (int i = 0; i < kernel->line.n; i++) {
        LineKind kind = kernel->line.at[i].kind;
        steps |=
            kind == LINE_USE || kind == LINE_ROWS || kind == LINE_COLUMNS || kind == LINE_DEPTH;
    }
    return steps;
}

bool same_lines(const Flow *flow, const Kernel *a, const Kernel *b) {
    Text x = {.arena = flow->arena}, y = x;
    Kernel p = *a, q = *b;
    p.when.n = q.when.n = 0;
    print_kernel(&(Printer){.out = &x}, flow, &p);
    print_kernel(&(Printer){.out = &y}, flow, &q);
    return !strcmp(text_str(&x), text_str(&y));
}

/* Lines of such steps hold together: they are as they would be chosen, or refused. */
static void keep_chosen(Scheduling *s, const Kernel *kernel) {
    Kernel chosen = *kernel;
    chosen.line.at = NULL;
    chosen.line.n = chosen.line.cap = 0;
    choose_lines(s, &chosen);
    if (!same_lines(s->flow, &chosen, kernel))
        recipe_refuse(s->env->recipe, kernel->source,
                      "lines with \"use\", \"rows\", \"columns\" or \"depth\" hold together: leave "
                      "them as they are chosen, or leave the braces out");
}

/* A recipe's lines, or chosen ones (true); those of a kernel that a recipe made are held to the
 * same. */
static bool schedule_kernel(Scheduling *s, Kernel *kernel) {
    RecipeKernel *from = recipe_kernel(s->env, s->flow, kernel);
    if (from && from->has_lines)
        recipe_lines(s->env, s->flow, kernel, from);
    else
        choose_lines(s, kernel);
    if (!from) return true;
    kernel->source = from->line;
    for (int i = 0; i < kernel->line.n && !from->has_lines; i++)
        kernel->line.at[i].source = from->line;
    if (runs_by_steps(kernel))
        keep_chosen(s, kernel);
    else
        schedule_check(s, kernel);
    return !from->has_lines;
}

/* A kernel of its own for every map that has none (all of them, when `fuse` was left out). */
static void complete_kernels(Scheduling *s) {
    bool *has = NEW_ARRAY(s->flow->arena, bool, s->flow->map.n + 1);
    for (int k = 0; k < s->flow->kernel.n; k++)
        for (int i = 0; i < s->flow->kernel.at[k]->map.n; i++)
            has[s->flow->kernel.at[k]->map.at[i]] = true;
    for (int m = 0; m < s->flow->map.n; m++)
        if (!has[m]) kernel_new(s->flow, s->env->machine, &m, 1);
}

Flow *pass_schedule(Arena *arena, const Flow *flow, const PassEnv *env);
Flow *pass_schedule(Arena *arena, const Flow *flow, const PassEnv *env) {
    Scheduling s = {
        .flow = flow_clone(arena, flow), .env = env, .weights = flow_weight_bytes(flow)};
    s.held = NEW_ARRAY(arena, bool, flow->cont.n + 1);
    s.readers = arena_array(arena, (size_t)flow->cont.n + 1, sizeof *s.readers);
    for (int m = 0; m < flow->map.n; m++)
        for (int v = 0; v < flow->map.at[m]->body.val.n; v++)
            if (flow->map.at[m]->body.val.at[v].kind == VAL_READ)
                vec_push(arena, &s.readers[flow->map.at[m]->body.val.at[v].read.cont], m);
    s.writer = flow_writers(arena, s.flow);
    s.repeats = NEW_ARRAY(arena, bool, flow->map.n + 1);
    survey(&s, &s.flow->body, false);
    complete_kernels(&s);
    for (int k = 0; k < s.flow->kernel.n; k++) {
        s.unknown = ranges_first(&s, s.flow->kernel.at[k]);
        if (schedule_kernel(&s, s.flow->kernel.at[k]) && env->machine->block_threads)
            k += schedule_ranges(&s, k);
    }
    recipe_note_kernels(env, s.flow);
    return s.flow;
}
