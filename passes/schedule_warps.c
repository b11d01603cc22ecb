/* SPDX-License-Identifier: Apache-2.0 */
/* Contractions by steps of warps, where the machine's table has one for their types.
 *
 * A step multiplies small matrices, by an instruction or, a plain one, by multiply-adds of its
 * threads. Rows, columns and what is reduced may each be several dims of the map, joined to one
 * number (an image's height and width, a window's channels and places), so that convolutions are
 * products too. Each of them is joined from the innermost dim outward, as long as the extents
 * inside are known; dims of results that are left run in blocks of one index.
 *
 * Tiles are those that cost least: full tiles do most with what they fetch, small ones give every
 * core one. */
#include <math.h>

#include "passes/schedule.h"

static const int64_t unknown_batch = 64;
enum { LEAST_ROWS = 8, LEAST_COLUMNS = 8, LEAST_DEPTH = 16, PAD_BYTES = 16 };
/* What a thread needs beside its sums. */
enum { OWN_REGISTERS = 40, WARP_THREADS = 32 };

/* Of a block and of its warps, for steps of a warp, of several, which are as deep as a row of their
 * arrays, or plain ones. On a core are as many blocks at a time as `blocks`. */
typedef enum { BY_WARP, BY_GROUP, BY_THREAD } TileKind;
typedef struct Tile {
    const char *name; /* in recipes */
    int rows, columns, warp_rows, warp_columns, depth;
    TileKind kind;
    int blocks;
} Tile;

static const Tile tiles[] = {
    {"tile128x128", 128, 128, 64, 32, 32, BY_WARP, 2},
    {"tile64x128", 64, 128, 32, 32, 32, BY_WARP, 2},
    {"tile128x64", 128, 64, 32, 32, 32, BY_WARP, 2},
    {"tile64x64", 64, 64, 16, 32, 64, BY_WARP, 2},
    {"tile32x128", 32, 128, 16, 32, 32, BY_WARP, 2},
    {"tile64x32", 64, 32, 16, 16, 64, BY_WARP, 2},
    {"tile32x64", 32, 64, 16, 16, 64, BY_WARP, 2},
    {"tile32x32", 32, 32, 16, 16, 64, BY_WARP, 2},
    {"tile16x64", 16, 64, 16, 16, 64, BY_WARP, 2},
    {"tile64x16", 64, 16, 16, 16, 64, BY_WARP, 2},
    {"tile16x32", 16, 32, 16, 8, 64, BY_WARP, 2},
    {"group128x256", 128, 256, 64, 256, 0, BY_GROUP, 1},
    {"group256x128", 256, 128, 64, 128, 0, BY_GROUP, 1},
    {"group256x128.128", 256, 128, 128, 128, 0, BY_GROUP, 1},
    {"group128x192", 128, 192, 64, 192, 0, BY_GROUP, 1},
    {"group128x128", 128, 128, 64, 128, 0, BY_GROUP, 2},
    {"group128x64", 128, 64, 64, 64, 0, BY_GROUP, 2},
    {"group64x128", 64, 128, 64, 128, 0, BY_GROUP, 2},
    {"group64x64", 64, 64, 64, 64, 0, BY_GROUP, 2},
    {"plain128x128", 128, 128, 64, 32, 16, BY_THREAD, 2},
    {"plain128x64", 128, 64, 32, 32, 32, BY_THREAD, 2},
    {"plain64x128", 64, 128, 32, 32, 16, BY_THREAD, 2},
    {"plain96x64", 96, 64, 48, 32, 32, BY_THREAD, 3},
    {"plain64x64", 64, 64, 32, 32, 32, BY_THREAD, 4},
    {"plain32x64", 32, 64, 32, 16, 16, BY_THREAD, 4},
    {"plain64x32", 64, 32, 16, 32, 16, BY_THREAD, 4},
    {"plain32x32", 32, 32, 16, 16, 32, BY_THREAD, 4},
    {"plain16x32", 16, 32, 8, 16, 32, BY_THREAD, 4},
};
enum { TILES = sizeof tiles / sizeof *tiles };

enum { AHEAD_MOST = 3 };

typedef struct Side {
    int dim[MAP_DIMS], n;
    double total;
} Side;

typedef struct Steps {
    Rows *r;
    const Map *map;
    const WarpStep *step; /* one of the types */
    Contraction roles;
    Side rows, columns, reduced;
    double batch;
    bool whole; /* no block of the reduction may hang over its end */
    bool along; /* what is reduced lies side by side */
} Steps;

/* ---- shape ------------------------------------------------------------------------------------
 */

/* Copies fill up with zeros. */
static bool can_copy(const Steps *s, int read) {
    const Val *v = &s->map->body.val.at[read];
    const Val *other = v->has_else ? &s->map->body.val.at[v->arg[0]] : NULL;
    if (access_by_value(s->map, &v->read)) return false;
    return !other || (other->kind == VAL_CONST && !other->bits);
}

/* The read that Val v is, as the step rounds or converts it, if it does; or -1. */
static int factor_read(const Body *b, int v, const WarpStep *step) {
    const Val *val = &b->val.at[v];
    if (step->plain) return val->kind == VAL_READ ? v : -1;
    if (!step->round) return read_converted(b, v, step->c);
    bool rounded = val->kind == VAL_PRIM && val->prim == step->round && val->type == step->c;
    return rounded && b->val.at[val->arg[0]].kind == VAL_READ ? val->arg[0] : -1;
}

const WarpStep *product_step(const Machine *machine, const Map *m, int *x, int *y) {
    const Body *b = &m->body;
    const Write *w = &m->write.at[0];
    const Val *v = &b->val.at[w->val[0]];
    if (m->write.n != 1 || w->n != 1 || !w->combine || w->combine->simple != P_ADD ||
        w->combine->nstate != 1 || v->kind != VAL_PRIM || v->prim != P_MUL ||
        v->type != w->combine->type[0])
        return NULL;
    for (int i = 0; i < machine->nstep; i++) {
        const WarpStep *step = machine->step[i];
        if (step->c != v->type) continue;
        *x = factor_read(b, v->arg[0], step), *y = factor_read(b, v->arg[1], step);
        if (*x >= 0 && *y >= 0 && *x != *y && b->val.at[*x].type == step->a &&
            b->val.at[*y].type == step->b)
            return step;
    }
    return NULL;
}

static const WarpStep *find_step(const Steps *s) {
    int x, y;
    const WarpStep *step = product_step(s->r->s->env->machine, s->map, &x, &y);
    return step && can_copy(s, x) && can_copy(s, y) ? step : NULL;
}

static bool alike(const WarpStep *x, DType a, DType b, const WarpStep *y) {
    return x->a == a && x->b == b && x->c == y->c && x->round == y->round;
}

/* Of steps that multiply the same the one whose rows are of the rows' type. */
static const WarpStep *by_sides(const Steps *s, DimRole columns) {
    const Machine *machine = s->r->s->env->machine;
    DType a = s->map->body.val.at[s->roles.a].type, b = s->map->body.val.at[s->roles.b].type;
    for (int i = 0; i < machine->nstep; i++)
        if (alike(machine->step[i], columns == ROLE_N ? a : b, columns == ROLE_N ? b : a, s->step))
            return machine->step[i];
    return NULL;
}

static DimRole role_of(const Steps *s, int d) {
    int own = s->r->kernel->map.n == 1 ? d : s->r->al.at[0][d];
    return own < 0 ? ROLE_OTHER : s->roles.role[own];
}

/* Innermost first; an extent that is not known ends it. */
static void join(Side *side, const Map *m, int d, int64_t unknown, bool *open) {
    int64_t extent;
    if (!*open) return;
    *open = dim_is_const(m->dim.at[d].extent, &extent);
    for (int i = side->n++; i > 0; i--) side->dim[i] = side->dim[i - 1];
    side->dim[0] = d;
    side->total *= (double)map_extent(m, d, unknown);
}

static bool join_results(Steps *s, const int *dims, int n) {
    DimRole inner = role_of(s, dims[n - 1]);
    bool rows = true, columns = true;
    if (inner != ROLE_M && inner != ROLE_N) return false;
    for (int i = n - 1; i >= 0; i--) {
        DimRole role = role_of(s, dims[i]);
        bool *open = role == inner ? &columns : &rows;
        if (role != ROLE_M && role != ROLE_N && role != ROLE_BATCH) return false;
        if (role == ROLE_BATCH || !*open)
            s->batch *= (double)map_extent(s->r->root, dims[i], unknown_batch);
        else
            join(role == inner ? &s->columns : &s->rows, s->r->root, dims[i], s->r->s->unknown,
                 open);
    }
    return s->rows.total >= LEAST_ROWS && s->columns.total >= LEAST_COLUMNS;
}

/* Do both operands end where the reduction does? Then its blocks may hang over; else they must be
 * whole. */
static bool ends_with(const Steps *s, int d) {
    const Flow *flow = s->r->s->flow;
    int found = 0;
    for (int v = 0; v < s->map->body.val.n; v++) {
        const Val *val = &s->map->body.val.at[v];
        if (val->kind != VAL_READ) continue;
        for (int k = 0; k < val->read.rank; k++)
            found += val->read.at[k] == s->map->dim.at[d].sym &&
                     flow->cont.at[val->read.cont].shape[k] == s->map->dim.at[d].extent;
    }
    return found == 2;
}

static bool comes_in_blocks(const Steps *s) {
    const Dim outer = s->map->dim.at[s->reduced.dim[0]].extent;
    return dim_is_const(outer, NULL) && (int64_t)s->reduced.total % s->step->depth == 0;
}

/* Reduced dims as they follow each other in the memory of operand `a`, the innermost last. */
static int reduced_order(const Flow *flow, const Map *m, const Access *a, int *order) {
    int64_t stride[MAP_DIMS];
    int n = 0;
    for (int d = 0; d < m->dim.n; d++) {
        if (!map_reduces(m, d) || dim_is(m->dim.at[d].extent, 1)) continue;
        stride[d] = access_stride(flow, m, a, d, 1);
        int k = n++;
        for (; k > 0 && stride[order[k - 1]] < stride[d]; k--) order[k] = order[k - 1];
        order[k] = d;
    }
    return n;
}

/* Are pieces of what is reduced, in that order, side by side in memory? */
static bool lies_along(const Flow *flow, const Map *m, const Val *read, const int *order, int n) {
    int64_t piece = 8 * PIECE_BYTES / dtype_bits(read->type);
    int inner = order[n - 1];
    return (n == 1 || map_extent(m, inner, 1) % piece == 0) &&
           access_stride(flow, m, &read->read, inner, piece) == 1;
}

static bool join_reduced(Steps *s) {
    const Flow *flow = s->r->s->flow;
    const Val *val = s->map->body.val.at, *a = &val[s->roles.a], *b = &val[s->roles.b];
    int order[MAP_DIMS], n = reduced_order(flow, s->map, &a->read, order);
    bool open = true;
    for (int i = n - 1; i >= 0; i--) {
        if (!open) return false;
        join(&s->reduced, s->map, order[i], s->r->s->unknown, &open);
    }
    if (!s->reduced.n || s->reduced.total < LEAST_DEPTH) return false;
    s->along = lies_along(flow, s->map, a, order, n) && lies_along(flow, s->map, b, order, n);
    s->whole = !ends_with(s, s->reduced.dim[0]);
    return !s->whole || comes_in_blocks(s);
}

static bool has_shape(Steps *s, const int *dims, int n) {
    const Rows *r = s->r;
    if (r->kernel->map.n > 2) return false;
    if (!map_is_reduction(s->map) || s->map->cons.n || r->root->cons.n) return false;
    if (r->kernel->map.n == 2 && (map_is_reduction(r->root) ||
                                  read_outside(r->s, r->kernel, s->map->write.at[0].to[0].cont)))
        return false;
    s->step = find_step(s);
    if (!s->step || (r->s->env->math == MATH_STRICT && !s->step->plain)) return false;
    s->roles = map_contraction(r->s->flow, s->map);
    if (!s->roles.is || !join_results(s, dims, n) || !join_reduced(s)) return false;
    s->step = by_sides(s, role_of(s, dims[n - 1]));
    return s->step;
}

/* ---- cost -------------------------------------------------------------------------------------
 */

static double upward(double n, double by) {
    double whole = (double)(int64_t)(n / by) * by;
    return whole < n ? whole + by : whole;
}

static int64_t slot_bytes(const Product *s, const Tile *t) {
    int64_t bytes = dtype_bits(s->step->a) / 8, longer = t->rows > t->depth ? t->rows : t->depth;
    int64_t wide = t->columns > t->depth ? t->columns : t->depth;
    int64_t pads =
        t->kind == BY_GROUP ? 0 : (longer + wide) * (bytes == 4 ? 2 * PAD_BYTES : PAD_BYTES);
    return (int64_t)(t->rows + t->columns) * t->depth * bytes + pads;
}

/* Bytes that steps read of a block's operands for each index of the reduction: several warps' as
 * many rows at a time as one has. */
static double steps_read(const Tile *t, const WarpStep *step) {
    int rows = step->warps > 1 ? step->rows : t->warp_rows;
    int read = rows + t->warp_columns * (step->plain ? 2 : 1);
    return (double)(t->rows / rows) * (t->columns / t->warp_columns) * read * dtype_bits(step->a) /
           8;
}

/* Seconds of the core that has most blocks: the longest of computing, of fetching what its blocks
 * read, of warps reading it again, of waiting for each block of the reduction; the others hide
 * behind it but for a part. Threads of plain steps fetch their columns twice as often as their
 * rows, and wait as long as they multiply beside, unless blocks take turns. What is computed from
 * sums comes last, one of a thread's behind the other, in as many blocks at a time as a core holds;
 * coarse ones are added for each block of the reduction. */
static double cost_of(const Product *s, int number, const Tile *t) {
    static const double WAIT = 1.8e-7, BEGIN = 3.8e-7, SHOWS = 0.1, EPILOGUE = 2e-9, ADD = 2e-9;
    const Machine *m = s->machine;
    const WarpStep *step = m->step[number];
    double bytes = dtype_bits(step->a) / 8.0, depth = upward(s->reduced, t->depth);
    double blocks =
        s->batch * upward(s->rows, t->rows) / t->rows * upward(s->columns, t->columns) / t->columns;
    double each = upward(blocks, m->cores) / m->cores;
    double operations = 2.0 * t->rows * t->columns * depth, wait = depth / t->depth * WAIT;
    if (step->plain)
        wait = (wait + operations / m->fma_flops) * upward(each, t->blocks) / t->blocks;
    double most[] = {operations * each / m->step_flops[number],
                     (t->rows + t->columns) * depth * bytes * each / m->level[1].bandwidth,
                     steps_read(t, step) * depth * each / m->level[0].bandwidth, wait};
    double longest = 0, sum = 0;
    for (size_t i = 0; i < sizeof most / sizeof *most; i++) {
        longest = most[i] > longest ? most[i] : longest;
        sum += most[i];
    }
    double sums = t->warp_rows * t->warp_columns / (step->warps * WARP_THREADS);
    double last = s->epilogue * EPILOGUE + (step->coarse ? depth / t->depth * ADD : 0);
    return longest + sum * SHOWS + each * BEGIN + upward(each, t->blocks) / t->blocks * sums * last;
}

/* Blocks of the reduction in shared memory when `ahead` are asked for. */
static bool fits(const Product *s, const Tile *t, int ahead) {
    int slots = ahead + 1 + (t->kind == BY_GROUP);
    return slots * slot_bytes(s, t) <= s->machine->shared_most / t->blocks;
}

/* Do threads have registers for their sums, where these are coarse for those that a step makes of a
 * block beside the whole ones, with so many blocks on a core? */
static bool holds_sums(const Machine *m, const WarpStep *step, const Tile *t, int blocks) {
    int rows = t->warp_rows + (step->coarse ? step->rows : 0);
    int sums = rows * t->warp_columns / (step->warps * WARP_THREADS);
    int threads =
        t->rows / t->warp_rows * (t->columns / t->warp_columns) * step->warps * WARP_THREADS;
    return sums + OWN_REGISTERS <= m->core_registers / (threads * blocks);
}

/* The tile as a step takes it: groups' depth is that of their arrays' rows, and fewer of a core's
 * blocks hold two sums; others have shorter blocks of the reduction, where fewer zeros come behind
 * its end. */
static Tile fitted(const Product *s, const WarpStep *step, Tile t) {
    bool group = t.kind == BY_GROUP;
    int least = step->plain ? LEAST_DEPTH : step->depth;
    if (group) t.depth = 8 * SWIZZLED_ROW / dtype_bits(step->a);
    while (group && t.blocks > 1 && !holds_sums(s->machine, step, &t, t.blocks)) t.blocks--;
    for (int depth = t.depth / 2; !group && depth >= least; depth /= 2)
        if (upward(s->reduced, depth) < upward(s->reduced, t.depth)) t.depth = depth;
    return t;
}

/* Does the step multiply what the product does, as that lies in memory? */
static bool takes(const WarpStep *step, const Product *s) {
    return alike(step, s->step->a, s->step->b, s->step) &&
           (s->along || !step->along || step->warps == 1);
}

typedef struct Choice {
    const WarpStep *step; /* NULL: there is none */
    Tile tile;
    double seconds;
} Choice;

static TileKind kind_of(const WarpStep *step) {
    return step->plain ? BY_THREAD : step->warps > 1 ? BY_GROUP : BY_WARP;
}

/* A tile by the fastest step of the product's types. */
static Choice choose_step(const Product *s, const Tile *tile) {
    Choice best = {.seconds = INFINITY};
    for (int i = 0; i < s->machine->nstep; i++) {
        const WarpStep *step = s->machine->step[i];
        if (!takes(step, s) || tile->kind != kind_of(step)) continue;
        Tile t = fitted(s, step, *tile);
        if (t.warp_rows % step->rows || t.warp_columns % step->columns || t.depth % step->depth ||
            !fits(s, &t, 1) ||
            (t.kind == BY_GROUP && !holds_sums(s->machine, step, &t, t.blocks)) ||
            (s->whole && upward(s->reduced, t.depth) > s->reduced))
            continue;
        double cost = cost_of(s, i, &t);
        if (cost < best.seconds) best = (Choice){step, t, cost};
    }
    return best;
}

/* The number of the tile that takes least; -1: there is none. */
static int choose_tile(const Product *s, double *seconds) {
    int best = -1;
    *seconds = INFINITY;
    for (int i = 0; i < TILES; i++) {
        Choice c = choose_step(s, &tiles[i]);
        if (c.seconds < *seconds) best = i, *seconds = c.seconds;
    }
    return best;
}

double product_seconds(const Product *p) {
    bool fills = p->rows >= LEAST_ROWS && p->columns >= LEAST_COLUMNS;
    double seconds = INFINITY;
    if (fills) choose_tile(p, &seconds);
    return seconds;
}

double product_bound(const Product *p) {
    double most = 0;
    for (int i = 0; i < p->machine->nstep; i++)
        if (takes(p->machine->step[i], p) && p->machine->step_flops[i] > most)
            most = p->machine->step_flops[i];
    return 2 * p->batch * p->rows * p->columns * p->reduced / (most * p->machine->cores);
}

/* Does it lie along, or is it weights that pass `layout` may turn so? */
static bool comes_along(const Flow *flow, const Map *m, const Val *read, const int *order, int n) {
    const Cont *c = &flow->cont.at[read->read.cont];
    bool weights = c->kind == CONT_PARAM && !c->layout && !read->has_else && n == 1;
    return n && (weights || lies_along(flow, m, read, order, n));
}

bool product_sizes(const Flow *flow, const Machine *machine, const Map *m, const WarpStep *step,
                   Product *p) {
    Contraction c = map_contraction(flow, m);
    if (!c.is || m->cons.n || has_seq(m) || m->write.at[0].combine->simple != P_ADD) return false;
    *p = (Product){
        .machine = machine, .step = step, .batch = 1, .rows = 1, .columns = 1, .reduced = 1};
    for (int d = 0; d < m->dim.n; d++) {
        double extent = (double)map_extent(m, d, -1);
        if (extent < 1) return false;
        double *of = map_reduces(m, d)     ? &p->reduced
                     : c.role[d] == ROLE_M ? &p->rows
                     : c.role[d] == ROLE_N ? &p->columns
                                           : &p->batch;
        *of *= extent;
    }
    const Val *a = &m->body.val.at[c.a], *b = &m->body.val.at[c.b];
    int order[MAP_DIMS], n = reduced_order(flow, m, &a->read, order);
    p->along = comes_along(flow, m, a, order, n) && comes_along(flow, m, b, order, n);
    return true;
}

/* Operations that make a result of its sum; a read takes as long as some. */
static double epilogue_of(const Steps *s) {
    enum { READ_PRIMS = 4 };
    const Body *b = &s->r->root->body;
    int reads = -1;
    if (s->r->root == s->map) return 0;
    for (int v = 0; v < b->val.n; v++) reads += b->val.at[v].kind == VAL_READ;
    return map_prims(s->r->root) + READ_PRIMS * reads;
}

static Product product_of(const Steps *s) {
    return (Product){.machine = s->r->s->env->machine,
                     .step = s->step,
                     .batch = s->batch,
                     .rows = s->rows.total,
                     .columns = s->columns.total,
                     .reduced = s->reduced.total,
                     .whole = s->whole,
                     .epilogue = epilogue_of(s),
                     .along = s->along};
}

/* ---- lines ------------------------------------------------------------------------------------
 */

static void side_line(const Steps *s, LineKind kind, int pos, const Side *side, int64_t size) {
    const Rows *r = s->r;
    const Map *m = pos ? r->root : kind == LINE_DEPTH ? s->map : r->root;
    Line *line = kernel_line(r->s->flow, r->kernel, kind, pos);
    for (int i = 0; i < side->n; i++)
        line_dim(r->s->flow, line, m, side->dim[i], i + 1 == side->n ? size : 0);
}

static int64_t known_total(const Map *m, const Side *side) {
    int64_t total = 1, extent;
    for (int i = 0; i < side->n; i++) {
        if (!dim_is_const(m->dim.at[side->dim[i]].extent, &extent)) return -1;
        total *= extent;
    }
    return total;
}

/* Tiles down and across of a round. */
typedef struct Round {
    int64_t down, across;
} Round;

/* So many rounds, of tiles as near a square as may be; 0: tiles make no such rounds. */
static Round choose_round(int64_t down, int64_t across, int64_t rounds, const Tile *t, int cores) {
    Round best = {0};
    int64_t least = INT64_MAX;
    for (int64_t x = 1; x <= down; x++)
        for (int64_t y = 1; y <= across && x * y <= cores; y++) {
            bool whole = down % x == 0 && across % y == 0 && down * across == x * y * rounds;
            int64_t fetched = x * t->rows + y * t->columns;
            if (whole && fetched < least) best = (Round){x, y}, least = fetched;
        }
    return best;
}

static const char *decision_name(const Steps *s) {
    const Scheduling *of = s->r->s;
    return of->range ? internf(of->flow->ctx, "%s%s", s->r->root->name, of->range)
                     : s->r->root->name;
}

/* Where a core has one block at a time, and there are more tiles, blocks stay for as many rounds as
 * waves would be: what they copy first for a tile comes while they store the one ahead. */
static Round decide_round(const Steps *s, const Tile *t) {
    static const char *const words[] = {"once", "stay", NULL};
    const PassEnv *env = s->r->s->env;
    int64_t rows = known_total(s->r->root, &s->rows),
            columns = known_total(s->r->root, &s->columns), cores = env->machine->cores;
    if (t->kind != BY_GROUP || s->batch > 1 || rows <= 0 || columns <= 0 || rows % t->rows ||
        columns % t->columns)
        return (Round){0};
    int64_t down = rows / t->rows, across = columns / t->columns, tiles = down * across,
            waves = (tiles + cores - 1) / cores;
    Round round = choose_round(down, across, waves, t, (int)cores);
    bool stay = t->blocks == 1 && waves > 1 && round.down;
    const char *name = arena_printf(s->r->s->flow->arena, "%s.rounds", s->r->root->name);
    if (!recipe_decide(env, "schedule", name, words, stay)) return (Round){0};
    for (int64_t n = waves > 2 ? waves : 2; n <= tiles && (!round.down || waves < 2); n++) {
        round = choose_round(down, across, n, t, (int)cores);
        if (round.down) break;
    }
    return round;
}

/* As the recipe says, or the tile that takes least. */
static Choice decide_tile(const Steps *s, const Product *product) {
    const PassEnv *env = s->r->s->env;
    const char *words[TILES + 1] = {0}, *name = decision_name(s);
    double seconds;
    int best = choose_tile(product, &seconds);
    if (best < 0) return (Choice){0};
    for (int i = 0; i < TILES; i++) words[i] = tiles[i].name;
    best = recipe_decide(env, "schedule", name, words, best);
    Choice choice = choose_step(product, &tiles[best]);
    if (!choice.step)
        recipe_refuse(env->recipe, recipe_find(env, "schedule", name)->line,
                      "%s has no step for tiles of %s of \"%s\", or not the shared memory",
                      product->machine->name, tiles[best].name, name);
    return choice;
}

bool step_tiles(Rows *r, const int *dims, int n) {
    Steps s = {.r = r, .map = r->s->flow->map.at[r->kernel->map.at[0]], .batch = 1};
    s.rows.total = s.columns.total = s.reduced.total = 1;
    if (!has_shape(&s, dims, n)) return false;
    Product product = product_of(&s);
    Choice choice = decide_tile(&s, &product);
    const Tile *t = &choice.tile;
    if (!choice.step) return false;
    Flow *flow = r->s->flow;
    int root = r->kernel->map.n - 1, ahead = AHEAD_MOST;
    while (ahead > 1 && (!fits(&product, t, ahead) || ahead * t->depth >= s.reduced.total)) ahead--;
    Round round = decide_round(&s, t);
    if (round.down) {
        side_line(&s, LINE_ROWS, root, &s.rows, round.down * t->rows);
        side_line(&s, LINE_COLUMNS, root, &s.columns, round.across * t->columns);
    }
    side_line(&s, LINE_ROWS, root, &s.rows, t->rows);
    side_line(&s, LINE_COLUMNS, root, &s.columns, t->columns);
    side_line(&s, LINE_ROWS, root, &s.rows, t->warp_rows);
    side_line(&s, LINE_COLUMNS, root, &s.columns, t->warp_columns);
    side_line(&s, LINE_DEPTH, 0, &s.reduced, t->depth);
    kernel_line(flow, r->kernel, LINE_USE, 0)->name = choice.step->name;
    for (int v = 0; v < s.map->body.val.n; v++) {
        if (s.map->body.val.at[v].kind != VAL_READ) continue;
        Line *stage = kernel_line(flow, r->kernel, LINE_STAGE, 0);
        stage->cont = s.map->body.val.at[v].read.cont;
        stage->ahead = ahead;
    }
    keep_in_registers(r);
    return true;
}
