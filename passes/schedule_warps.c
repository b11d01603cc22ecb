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

static const int64_t unknown_extent = 64;
enum { LEAST_ROWS = 8, LEAST_COLUMNS = 8, LEAST_DEPTH = 16, PAD_BYTES = 16 };

/* Of a block and of its warps, for steps of a warp, of several or plain ones. On a core are as many
 * blocks at a time as `blocks`. */
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
    {"group128x256", 128, 256, 64, 256, 64, BY_GROUP, 1},
    {"group256x128", 256, 128, 64, 128, 64, BY_GROUP, 1},
    {"group128x192", 128, 192, 64, 192, 64, BY_GROUP, 1},
    {"group128x128", 128, 128, 64, 128, 64, BY_GROUP, 2},
    {"group128x64", 128, 64, 64, 64, 64, BY_GROUP, 2},
    {"group64x128", 64, 128, 64, 128, 64, BY_GROUP, 2},
    {"group64x64", 64, 64, 64, 64, 64, BY_GROUP, 2},
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
static void join(Side *side, const Map *m, int d, bool *open) {
    int64_t extent;
    if (!*open) return;
    *open = dim_is_const(m->dim.at[d].extent, &extent);
    for (int i = side->n++; i > 0; i--) side->dim[i] = side->dim[i - 1];
    side->dim[0] = d;
    side->total *= (double)map_extent(m, d, unknown_extent);
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
            s->batch *= (double)map_extent(s->r->root, dims[i], unknown_extent);
        else
            join(role == inner ? &s->columns : &s->rows, s->r->root, dims[i], open);
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

/* Reduced dims as they follow each other in the first operand's memory, the innermost last. */
static int reduced_order(const Steps *s, int *order) {
    const Map *m = s->map;
    int64_t stride[MAP_DIMS];
    int n = 0;
    for (int d = 0; d < m->dim.n; d++) {
        if (!map_reduces(m, d) || dim_is(m->dim.at[d].extent, 1)) continue;
        stride[d] = access_stride(s->r->s->flow, m, &m->body.val.at[s->roles.a].read, d, 1);
        int k = n++;
        for (; k > 0 && stride[order[k - 1]] < stride[d]; k--) order[k] = order[k - 1];
        order[k] = d;
    }
    return n;
}

static bool join_reduced(Steps *s) {
    int order[MAP_DIMS], n = reduced_order(s, order);
    bool open = true;
    for (int i = n - 1; i >= 0; i--) {
        if (!open) return false;
        join(&s->reduced, s->map, order[i], &open);
    }
    if (!s->reduced.n || s->reduced.total < LEAST_DEPTH) return false;
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

/* Seconds of the core that has most blocks: the longest of computing, of fetching what its blocks
 * read, of warps reading it again, of waiting for each block of the reduction; the others hide
 * behind it but for a part. Threads of plain steps fetch their columns twice as often as their
 * rows, and wait as long as they multiply beside, unless blocks take turns. */
static double cost_of(const Product *s, int number, const Tile *t) {
    static const double WAIT = 1.8e-7, BEGIN = 3.8e-7, SHOWS = 0.1;
    const Machine *m = s->machine;
    const WarpStep *step = m->step[number];
    double bytes = dtype_bits(step->a) / 8.0, depth = upward(s->reduced, t->depth);
    double blocks =
        s->batch * upward(s->rows, t->rows) / t->rows * upward(s->columns, t->columns) / t->columns;
    double each = upward(blocks, m->cores) / m->cores;
    int warps = t->rows / t->warp_rows * (t->columns / t->warp_columns);
    double operations = 2.0 * t->rows * t->columns * depth, wait = depth / t->depth * WAIT;
    double again = t->warp_rows + t->warp_columns * (step->plain ? 2 : 1);
    if (step->plain)
        wait = (wait + operations / m->fma_flops) * upward(each, t->blocks) / t->blocks;
    double most[] = {operations * each / m->step_flops[number],
                     (t->rows + t->columns) * depth * bytes * each / m->level[1].bandwidth,
                     warps * again * depth * bytes * each / m->level[0].bandwidth, wait};
    double longest = 0, sum = 0;
    for (size_t i = 0; i < sizeof most / sizeof *most; i++) {
        longest = most[i] > longest ? most[i] : longest;
        sum += most[i];
    }
    return longest + sum * SHOWS + each * BEGIN;
}

/* Blocks of the reduction in shared memory when `ahead` are asked for. */
static bool fits(const Product *s, const Tile *t, int ahead) {
    int slots = ahead + 1 + (t->kind == BY_GROUP);
    return slots * slot_bytes(s, t) <= s->machine->shared_most / t->blocks;
}

/* Shorter blocks of the reduction, where fewer zeros come behind its end. */
static Tile shortened(const Product *s, const WarpStep *step, Tile t) {
    int least = step->plain ? LEAST_DEPTH : step->depth;
    for (int depth = t.depth / 2; t.kind != BY_GROUP && depth >= least; depth /= 2)
        if (upward(s->reduced, depth) < upward(s->reduced, t.depth)) t.depth = depth;
    return t;
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
        if (!alike(step, s->step->a, s->step->b, s->step) || tile->kind != kind_of(step)) continue;
        Tile t = shortened(s, step, *tile);
        if (t.warp_rows % step->rows || t.warp_columns % step->columns || t.depth % step->depth ||
            !fits(s, &t, 1) || (s->whole && upward(s->reduced, t.depth) > s->reduced))
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
        if (alike(p->machine->step[i], p->step->a, p->step->b, p->step) &&
            p->machine->step_flops[i] > most)
            most = p->machine->step_flops[i];
    return 2 * p->batch * p->rows * p->columns * p->reduced / (most * p->machine->cores);
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
    return true;
}

static Product product_of(const Steps *s) {
    return (Product){.machine = s->r->s->env->machine,
                     .step = s->step,
                     .batch = s->batch,
                     .rows = s->rows.total,
                     .columns = s->columns.total,
                     .reduced = s->reduced.total,
                     .whole = s->whole};
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

/* As the recipe says, or the tile that takes least. */
static Choice decide_tile(const Steps *s, const Product *product) {
    const PassEnv *env = s->r->s->env;
    const char *words[TILES + 1] = {0}, *name = s->r->root->name;
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
