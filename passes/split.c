/* SPDX-License-Identifier: Apache-2.0 */
/* Pass `split`: long sums of few results, in parts that run side by side.
 *
 * A machine of blocks computes a product of matrices tile by tile of its results, a block each.
 * Where tiles are fewer than cores, most of the machine waits while a few blocks go through the
 * whole reduction. Then the reduction is cut: parts of it are summed as if they were products of a
 * batch, each to a place of its own, and another map adds up the parts of a result, always in the
 * same order: so the result does not hang on who ran when. It costs the parts written and read, and
 * a kernel more.
 *
 * Where tiles are many, but the last of them few, the results are cut first (split_waves.c).
 *
 * Products whose weights are a softmax stay whole: with it they are one kernel (weigh.h); of few
 * rows they go by parts of the keys (split_weigh.c).
 *
 * Sums over groups of channels go channel by channel (split_channels.c).
 *
 * Products that no step of warps takes (f64) and other reductions of much to little (the mean of a
 * tensor, sums down a few columns) go the same way, where their results make fewer blocks than
 * there are cores. A machine of threads takes long rows in parts, one or few of which would keep
 * one or few threads busy (softmax over a vocabulary); how many parts depends on the row alone,
 * never on threads. */
#include "passes/split.h"

#include <math.h>

#include "passes/weigh.h"

/* Of reductions of much to little: elements that a block goes through before that is worth a
 * kernel more, and at least; results of a block where neighbours in memory are of different ones;
 * of a tile along each side; blocks and tiles for each core. */
enum {
    PARTS_MOST = 32,
    FILL_MOST = 1024,
    FILL_LEAST = 1 << 19,
    BLOCK_ELEMENTS = 8192,
    BLOCK_RESULTS = 32,
    BLOCK_TILE = 64,
    CORE_BLOCKS = 4,
    TILES_EACH = 2
};
/* Of rows that threads share: how many are few; elements of a part, and of a row at least; a part
 * is a multiple of so many where the last one is not whole. */
enum { ROWS_FEW = 3, ROW_PART = 2048, ROW_LEAST = 8 * ROW_PART, WHOLE = 64 };

typedef struct Splitting {
    Editing e;
    const PassEnv *env;
    bool *rest;   /* by map: of a product cut in two */
    bool weighed; /* some rows that weigh others are in parts */
} Splitting;

/* ---- what it costs ----------------------------------------------------------------------------
 */

bool split_product(const Flow *flow, const Machine *machine, const Map *m, Product *p) {
    int x, y;
    const WarpStep *step = product_step(machine, m, &x, &y);
    return step && product_sizes(flow, machine, m, step, p);
}

/* Seconds in so many parts: as one batch, and to write and read what they leave, once each, for
 * which a cache has a third of the rate at which blocks fetch what their neighbours just fetched.
 */
static double seconds_in(const Product *p, int parts) {
    Product part = *p;
    part.batch *= parts;
    part.reduced /= parts;
    double results = p->batch * p->rows * p->columns, bytes = dtype_bits(p->step->c) / 8.0;
    double moved = 3 * 2 * parts * results * bytes / p->machine->cores;
    return product_seconds(&part) + moved / p->machine->level[1].bandwidth + LAUNCH_SECONDS;
}

/* The longest reduced dim, or -1. */
static int longest_dim(const Map *m) {
    int longest = -1;
    for (int d = 0; d < m->dim.n; d++)
        if (map_reduces(m, d) && (longest < 0 || map_extent(m, d, -1) > map_extent(m, longest, -1)))
            longest = d;
    return longest;
}

/* Parts of the reduction are whole blocks, whatever the tiles are. */
int split_parts(const Map *m, const Product *p, double least, double *seconds) {
    int best = 1, dim = longest_dim(m);
    double whole = product_seconds(p);
    *seconds = whole < least ? whole : least;
    for (int parts = 2; dim >= 0 && parts <= PARTS_MOST; parts++) {
        int64_t extent = map_extent(m, dim, -1), part = (int64_t)p->reduced / parts;
        if (extent < 1 || extent % parts || part % PARTS_DEPTH) continue;
        double in = seconds_in(p, parts);
        if (in < *seconds) *seconds = in, best = parts;
    }
    return best;
}

/* What is gained must be more than estimates are off by; rests of products (split_waves.c) were cut
 * for what they take in the best way. */
static int best_parts(const Splitting *s, int map, const Product *p) {
    double least = s->rest[map] ? INFINITY : SPLIT_GAIN * product_seconds(p), seconds;
    return split_parts(s->e.flow->map.at[map], p, least, &seconds);
}

/* ---- much to little ---------------------------------------------------------------------------
 */

/* Do neighbours along dim d lie side by side in what the map reduces? */
static bool side_by_side(const Splitting *s, const Map *m, int d) {
    for (int v = 0; v < m->body.val.n; v++) {
        const Val *val = &m->body.val.at[v];
        if (val->kind == VAL_READ && access_reduced(m, &val->read) &&
            access_stride(s->e.flow, m, &val->read, d, BLOCK_RESULTS) == 1)
            return true;
    }
    return false;
}

bool plain_reduction(const Map *m) {
    if (m->write.n != 1 || m->write.at[0].n != 1 || !map_is_reduction(m)) return false;
    return !m->cons.n && !has_seq(m) && m->write.at[0].combine->simple != PRIM_NONE;
}

/* The longest reduced dim, if possible one across memory; -1: the map is no plain reduction of
 * known size. */
static int dim_to_part(const Splitting *s, const Map *m) {
    int best = -1;
    bool across = false;
    if (!plain_reduction(m)) return -1;
    for (int d = 0; d < m->dim.n; d++) {
        int64_t extent = map_extent(m, d, -1);
        if (extent < 1) return -1;
        if (!map_reduces(m, d)) continue;
        bool other = extent >= BLOCK_RESULTS && !side_by_side(s, m, d);
        bool longer = best < 0 || extent > map_extent(m, best, -1);
        if (other == across ? longer : other) best = d, across = other;
    }
    return best;
}

/* Of a reduction that is to fill the machine: blocks of its results, what one goes through at
 * least, blocks for each core. */
typedef struct Filling {
    double blocks, least;
    int each;
} Filling;

/* Tiles of a contraction whose operands blocks stage (schedule_stage.c), else rows, or a few
 * columns. */
static Filling filling_of(const Splitting *s, const Map *m) {
    const double tile = BLOCK_TILE * BLOCK_TILE;
    double results = 1;
    bool columns = false;
    Contraction r = map_contraction(s->e.flow, m);
    for (int d = 0; d < m->dim.n; d++) {
        if (map_reduces(m, d)) continue;
        results *= (double)map_extent(m, d, 1);
        columns |= side_by_side(s, m, d);
    }
    if (r.is && contraction_usual(s->e.flow, m, &r, ROLE_M) >= BLOCK_RESULTS &&
        contraction_usual(s->e.flow, m, &r, ROLE_N) >= BLOCK_RESULTS)
        return (Filling){ceil(results / tile), tile * BLOCK_TILE, TILES_EACH};
    double blocks = columns ? fmax(results / BLOCK_RESULTS, 1) : results;
    return (Filling){blocks, BLOCK_ELEMENTS, CORE_BLOCKS};
}

/* So many that each core has some blocks, and each of these something to do. */
static int fill_parts(const Splitting *s, const Map *m, int dim) {
    Filling fill = filling_of(s, m);
    double volume = map_volume(m, 1), blocks = fill.blocks;
    int64_t extent = map_extent(m, dim, 1), parts = 1;
    if (volume < FILL_LEAST * blocks) return 1;
    while (parts < FILL_MOST && extent % (parts * 2) == 0 &&
           blocks * (double)parts < fill.each * s->env->machine->cores &&
           volume >= fill.least * blocks * (double)parts * 2)
        parts *= 2;
    return blocks * 2 < s->env->machine->cores ? (int)parts : 1;
}

/* Parts of a row that threads share. */
static int row_parts(const Map *m, int dim) {
    double row = 1, rows = 1;
    int parts = 1;
    for (int d = 0; d < m->dim.n; d++)
        *(map_reduces(m, d) ? &row : &rows) *= (double)map_extent(m, d, 1);
    if (rows > ROWS_FEW || row < ROW_LEAST) return 1;
    while (parts < PARTS_MOST && 2 * parts * ROW_PART <= row && 2 * parts <= map_extent(m, dim, 1))
        parts *= 2;
    return parts;
}

static int least_parts(const Splitting *s, const Map *m, int dim) {
    return s->env->machine->block_threads ? fill_parts(s, m, dim) : row_parts(m, dim);
}

/* Numbers of parts that there may be: all up to PARTS_MOST, then twice as many each. */
enum { COUNTS = PARTS_MOST + 5 };
_Static_assert(PARTS_MOST << (COUNTS - PARTS_MOST) == FILL_MOST, "numbers of parts");
static int part_count(int i) {
    return i < PARTS_MOST ? i + 1 : PARTS_MOST << (i - PARTS_MOST + 1);
}

/* In how many parts: as a recipe says, or as it takes least. */
static int choose_parts(const Splitting *s, int map, int *dim) {
    const char *words[COUNTS + 1] = {"whole"};
    for (int i = 1; i < COUNTS; i++) words[i] = internf(s->e.flow->ctx, "parts%d", part_count(i));
    const Map *m = s->e.flow->map.at[map];
    Product p;
    if (m->write.n != 1 || m->write.at[0].n != 1 || !map_is_reduction(m) ||
        weighing_product(s->e.flow, s->e.uses.writer, map))
        return 1;
    bool product = split_product(s->e.flow, s->env->machine, m, &p);
    *dim = product ? longest_dim(m) : dim_to_part(s, m);
    if (*dim < 0) return 1;
    int most = product ? best_parts(s, map, &p) : least_parts(s, m, *dim), chosen = 0;
    while (part_count(chosen) < most) chosen++;
    int parts = part_count(recipe_decide(s->env, "split", m->name, words, chosen));
    int64_t extent = map_extent(m, *dim, -1);
    if (extent % parts && s->env->machine->block_threads)
        recipe_refuse(s->env->recipe, recipe_find(s->env, "split", m->name)->line,
                      "the %lld indices of \"%s\" in \"%s\" do not fall into %d equal parts",
                      (long long)extent, dim_sym_name(m->dim.at[*dim].sym), m->name, parts);
    return parts;
}

/* ---- two maps of one --------------------------------------------------------------------------
 */

int result_dims(const Map *m, int *dims) {
    const Access *to = &m->write.at[0].to[0];
    int n = 0;
    for (int k = 0; k < to->rank; k++)
        for (int d = 0; d < m->dim.n; d++)
            if (dim_uses(to->at[k], m->dim.at[d].sym)) dims[n++] = d;
    return n;
}

/* Indices of a part; of parts that are not equal the last one ends early. */
static int64_t part_size(int64_t extent, int parts) {
    int64_t size = (extent + parts - 1) / parts;
    return extent % parts && size >= ROW_PART ? (size + WHOLE - 1) / WHOLE * WHOLE : size;
}

void split_map(Editing *e, Map *m, const Parting *p, Items *into) {
    Flow *flow = e->flow;
    Ctx *ctx = flow->ctx;
    int64_t extent = map_extent(m, p->dim, -1), size = part_size(extent, p->n);
    Dim count = dim_const(ctx, p->n), whole = m->dim.at[p->dim].sym;
    int dims[MAP_DIMS], n = result_dims(m, dims), first = p->last ? 0 : 1, last = p->last ? n : 0;
    const Access to = m->write.at[0].to[0];
    const Combine *combine = m->write.at[0].combine;
    Dim shape[MAP_DIMS], own[MAP_DIMS], at[RANK_MAX];
    DimSubst subst[MAP_DIMS];
    Map *sum = flow_map(flow, into, internf(ctx, "%s.%ss", m->name, p->name), m->from);
    shape[last] = count;
    for (int i = 0; i < n; i++) {
        const MapDim *dim = &m->dim.at[dims[i]];
        shape[first + i] = dim->extent;
        own[first + i] = map_dim(flow, sum, dim_sym_name(dim->sym), dim->extent);
        subst[i] = (DimSubst){dim->sym, own[first + i]};
    }
    own[last] = map_dim(flow, sum, p->name, count);
    const char *name = internf(ctx, "%s.%s", m->name, p->name);
    int cont = flow_cont(flow, name, CONT_TMP, combine->type[0], shape, n + 1);
    for (int k = 0; k < to.rank; k++) at[k] = dim_subst(ctx, to.at[k], subst, n);
    map_write(flow, sum, to.cont, at, map_read(flow, sum, cont, own), combine);

    Dim part = map_dim(flow, m, p->name, count);
    Dim *place = NEW_ARRAY(flow->arena, Dim, n + 1);
    place[last] = part;
    for (int i = 0; i < n; i++) place[first + i] = m->dim.at[dims[i]].sym;
    DimSubst in_part = {whole, dim_add(ctx, dim_mulc(ctx, part, size), whole)};
    m->dim.at[p->dim].extent = dim_const(ctx, size);
    map_rewrite(e, m, &in_part, 1, NULL, NULL);
    if (size * p->n > extent)
        vec_push(flow->arena, &m->cons, dim_sub(ctx, dim_const(ctx, extent - 1), in_part.to));
    m->write.at[0].to = arena_copy(flow->arena, &(Access){cont, n + 1, place}, sizeof(Access));
}

/* An ItemFn: rows that weigh others, few of them, in parts. */
static void weigh_item(void *user, Item it, const Items *home, Items *out) {
    (void)home;
    Splitting *s = user;
    if (it.kind == ITEM_MAP) s->weighed |= split_weighing(&s->e, s->env, it.map, out);
    vec_push(s->e.flow->arena, out, it);
}

/* An ItemFn. */
static void split_item(void *user, Item it, const Items *home, Items *out) {
    (void)home;
    Splitting *s = user;
    vec_push(s->e.flow->arena, out, it);
    if (it.kind != ITEM_MAP) return;
    Map *m = s->e.flow->map.at[it.map];
    Parting p = {.name = "part"};
    if (!split_channels(&s->e, s->env, m, out)) p.n = choose_parts(s, it.map, &p.dim);
    if (p.n > 1) split_map(&s->e, m, &p, out);
    if (s->env->machine->block_threads) split_run(&s->e, s->env, m, out);
}

/* Products in two pieces, each once. */
static void cut_waves(Splitting *s) {
    int n = s->e.flow->map.n;
    IntVec rests = {0};
    for (int map = 0; map < n && s->env->machine->block_threads; map++) {
        int rest = split_waves(&s->e, s->env, map);
        if (rest < 0) continue;
        vec_push(s->e.arena, &rests, rest);
        uses_count(&s->e);
    }
    s->rest = NEW_ARRAY(s->e.arena, bool, s->e.flow->map.n + 1);
    for (int i = 0; i < rests.n; i++) s->rest[rests.at[i]] = true;
}

Flow *pass_split(Arena *arena, const Flow *flow, const PassEnv *env);
Flow *pass_split(Arena *arena, const Flow *flow, const PassEnv *env) {
    Splitting s = {.e = {.arena = arena, .flow = flow_clone(arena, flow)}, .env = env};
    if (env->math == MATH_STRICT) return s.e.flow;
    uses_count(&s.e);
    items_rebuild(s.e.flow, &s.e.flow->body, weigh_item, &s);
    if (s.weighed) drop_unneeded(&s.e);
    cut_waves(&s);
    items_rebuild(s.e.flow, &s.e.flow->body, split_item, &s);
    return s.e.flow;
}
