/* SPDX-License-Identifier: Apache-2.0 */
/* Products of which the last tiles would leave most cores idle, in two pieces.
 *
 * Tiles of a product come to the cores in waves. Where the last one is of a few tiles, most cores
 * wait for it as long as for a full one. So the results are cut along one dim: a first piece whose
 * tiles fill whole waves, and the rest, which is a product of its own: in smaller tiles, or with
 * its sum in parts that give every core some (split.c), added up in their order. That is what
 * stream-K gains (Osama et al., Stream-K, PPoPP 2023: full waves, then a share of the depth for
 * every core) without blocks that wait for each other: same bits in every run.
 *
 *     map mm [i:5120, j, k] -> h    becomes    map mm [i:4992, j, k] -> h
 *     map ep [i:5120, j] h -> y                map mm.rest [part, i:128, j, k] -> mm.rest.part
 *                                              map mm.rest.parts [i:128, j, part] -> h.rest
 *                                              map ep [i:4992, j] h -> y
 *                                              map ep.rest [i:128, j] h.rest -> y
 *
 * What follows element by element is cut with it, up to the first container that somebody else
 * reads, so that each piece keeps its epilogue: that container both write, each its own part. Where
 * the cut would part the product from an epilogue it stays whole.
 *
 * It costs a kernel more, or two. */
#include "passes/split.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "passes/weigh.h"

/* Maps that are cut together; maps in a row that are asked where their operands come from; results
 * along the cut in whose multiples it is looked for; places where it is, about. */
enum { MEMBERS = 16, DEPTH_MOST = 8, CUT_STEP = 64, PLACES = 512 };

typedef struct Waves {
    Editing *e;
    const PassEnv *env;
    int map;    /* the product */
    int *order; /* by map: its place in the program */
    int *index; /* by container: the index that the cut goes along, of those inside; else -1 */
    int n;      /* maps that are cut, the product first, ... */
    int of[MEMBERS], dim[MEMBERS]; /* ... and the dim of each */
    int *rest;                     /* by container: that of the rest, of those inside */
    int64_t first;                 /* indices of the first piece */
} Waves;

/* ---- what is cut together ---------------------------------------------------------------------
 */

static Map *map_of(const Waves *w, int map) {
    return w->e->flow->map.at[map];
}

static int order_items(const Items *items, int *order, int n) {
    for (int i = 0; i < items->n; i++) {
        const Item *it = &items->at[i];
        if (it->kind == ITEM_MAP) order[it->map] = n++;
        n = order_items(&it->body, order, n);
        n = order_items(&it->other, order, n);
    }
    return n;
}

static int member(const Waves *w, int map) {
    for (int i = 0; i < w->n; i++)
        if (w->of[i] == map) return i;
    return -1;
}

static bool is_elementwise(const Waves *w, int map) {
    const Map *m = map_of(w, map);
    return map_plain_write(m) && !m->cons.n && w->e->uses.home[map] == w->e->uses.home[w->map];
}

/* Does it read, by way of element-wise maps, a sum that is made behind the product? Then it can be
 * the epilogue of that one. */
static bool goes_with_later(const Waves *w, int map, int depth) {
    const Map *m = map_of(w, map);
    for (int v = 0; v < m->body.val.n; v++) {
        const Val *val = &m->body.val.at[v];
        int by = val->kind == VAL_READ ? w->e->uses.writer[val->read.cont] : -1;
        if (by < 0 || w->order[by] <= w->order[w->map] || member(w, by) >= 0) continue;
        if (depth == DEPTH_MOST || map_is_reduction(map_of(w, by)) ||
            goes_with_later(w, by, depth + 1))
            return true;
    }
    return false;
}

/* The dim of a map that every read of the container has as index k; -1: it cannot be cut so. */
static int reading_dim(const Waves *w, int map, int cont, int k) {
    const Map *m = map_of(w, map);
    int dim = -1, at = member(w, map);
    if (!is_elementwise(w, map) || goes_with_later(w, map, 0)) return -1;
    for (int v = 0; v < m->body.val.n; v++) {
        const Val *val = &m->body.val.at[v];
        if (val->kind != VAL_READ || val->read.cont != cont) continue;
        int d = access_dim(m, &val->read, k);
        if (d < 0 || (dim >= 0 && d != dim) || val->has_else || access_by_value(m, &val->read))
            return -1;
        dim = d;
    }
    if (dim < 0 || m->dim.at[dim].extent != w->e->flow->cont.at[cont].shape[k]) return -1;
    return at < 0 || w->dim[at] == dim ? dim : -1;
}

/* The index that a member's results are cut along, where they are read by maps of this flow alone;
 * -1: they are no container of their own. */
static int cut_index(const Waves *w, int at) {
    const Map *m = map_of(w, w->of[at]);
    const Access *to = &m->write.at[0].to[0];
    const Cont *c = &w->e->flow->cont.at[to->cont];
    if (c->kind != CONT_TMP || c->layout || w->e->uses.held[to->cont] ||
        w->e->uses.writer[to->cont] != w->of[at])
        return -1;
    int k = access_plain(m, to, w->dim[at]);
    return k >= 0 && c->shape[k] == m->dim.at[w->dim[at]].extent ? k : -1;
}

/* Are all readers element-wise maps, none of which goes with a later product? Then one would have
 * been the epilogue. */
static bool has_epilogue(const Waves *w, int cont) {
    const IntVec *readers = &w->e->uses.readers[cont];
    for (int i = 0; i < readers->n; i++)
        if (!is_elementwise(w, readers->at[i]) || goes_with_later(w, readers->at[i], 0))
            return false;
    return readers->n && w->e->flow->cont.at[cont].kind == CONT_TMP && !w->e->uses.held[cont];
}

/* Takes the readers of a member's results along. False: they cannot be, and should. */
static bool follow(Waves *w, int at) {
    int cont = map_of(w, w->of[at])->write.at[0].to[0].cont, k = cut_index(w, at);
    const IntVec *readers = &w->e->uses.readers[cont];
    bool all = k >= 0 && readers->n;
    for (int i = 0; all && i < readers->n; i++) all = reading_dim(w, readers->at[i], cont, k) >= 0;
    if (!all) return !has_epilogue(w, cont);
    for (int i = 0; i < readers->n; i++) {
        if (member(w, readers->at[i]) >= 0) continue;
        if (w->n == MEMBERS) return false;
        w->dim[w->n] = reading_dim(w, readers->at[i], cont, k);
        w->of[w->n++] = readers->at[i];
    }
    w->index[cont] = k;
    return true;
}

/* All that a cut along the product's dim d cuts; false: it cannot be cut. */
static bool find_members(Waves *w, int d) {
    for (int c = 0; c < w->e->flow->cont.n; c++) w->index[c] = -1;
    w->n = 1;
    w->of[0] = w->map;
    w->dim[0] = d;
    for (int i = 0; i < w->n; i++)
        if (!follow(w, i)) return false;
    return true;
}

/* ---- what it costs ----------------------------------------------------------------------------
 */

/* The product with so many of all indices of a dim. */
static Product piece(const Product *p, DimRole role, int64_t count, int64_t all) {
    Product part = *p;
    double *of = role == ROLE_M ? &part.rows : role == ROLE_N ? &part.columns : &part.batch;
    *of = *of / (double)all * (double)count;
    return part;
}

typedef struct WaveCut {
    int dim; /* -1: none */
    int64_t first;
    double seconds;
} WaveCut;

/* The best along one dim, where it takes less than `best`. */
static void weigh_dim(const Waves *w, const Product *p, DimRole role, int d, WaveCut *best) {
    const Map *m = map_of(w, w->map);
    int64_t all = map_extent(m, d, -1);
    double side = role == ROLE_M ? p->rows : role == ROLE_N ? p->columns : p->batch;
    int64_t each = (int64_t)side / all, step = each < CUT_STEP ? CUT_STEP / each : 1;
    step *= 1 + all / step / PLACES;
    for (int64_t first = step; first < all; first += step) {
        Product front = piece(p, role, first, all), rest = piece(p, role, all - first, all);
        double seconds = product_seconds(&front) + LAUNCH_SECONDS;
        if (seconds + product_bound(&rest) >= best->seconds) continue;
        double left = best->seconds - seconds, takes;
        split_parts(m, &rest, left, &takes);
        if (takes < left) *best = (WaveCut){d, first, seconds + takes};
    }
}

/* May a library get products whole? */
static bool by_library(const Machine *machine) {
    bool any = false;
    for (int i = 0; i < machine->nlibrary; i++) any |= machine->library[i].kind == LIBRARY_PRODUCT;
    return any;
}

/* The best cut. What it gains must be more than estimates of one product's pieces are off by, and
 * than those of a launch are. */
static WaveCut best_cut(Waves *w, const Product *p) {
    static const double LEAST_GAIN = 0.15;
    const Map *m = map_of(w, w->map);
    WaveCut best = {.dim = -1};
    const double whole = product_seconds(p);
    if (isinf(whole)) return best;
    if (split_parts(m, p, SPLIT_GAIN * whole, &best.seconds) == 1) best.seconds = whole;
    double gain = LEAST_GAIN * best.seconds;
    best.seconds -= gain > LAUNCH_SECONDS ? gain : LAUNCH_SECONDS;
    if (product_bound(p) + LAUNCH_SECONDS >= best.seconds || by_library(w->env->machine))
        return best;
    Contraction roles = map_contraction(w->e->flow, m);
    for (int d = 0; d < m->dim.n; d++)
        if (!map_reduces(m, d) && map_extent(m, d, 1) > 1 && find_members(w, d))
            weigh_dim(w, p, roles.role[d], d, &best);
    return best;
}

/* ---- the pieces -------------------------------------------------------------------------------
 */

/* A BodyReadFn: what is inside is read from the rest's containers, from index 0 on. */
static int read_rest(void *user, Body *b, const Val *read) {
    const Waves *w = user;
    int cont = read->read.cont, k = w->index[cont];
    if (k < 0) return -1;
    Dim at[RANK_MAX];
    for (int i = 0; i < read->read.rank; i++) at[i] = read->read.at[i];
    at[k] = dim_addc(w->e->flow->ctx, at[k], -w->first);
    Access to = {w->rest[cont], read->read.rank, arena_copy(b->arena, at, sizeof at)};
    return body_read(b, to, read->type);
}

static const char *rest_name(const Waves *w, const char *name) {
    return internf(w->e->flow->ctx, "%s.rest", name);
}

/* Two containers of one. */
static void cut_cont(Waves *w, int cont) {
    Flow *flow = w->e->flow;
    const Cont *c = &flow->cont.at[cont];
    int k = w->index[cont], rank = c->rank;
    Dim shape[RANK_MAX], *own = arena_copy(flow->arena, c->shape, sizeof *own * (size_t)rank);
    for (int i = 0; i < rank; i++) shape[i] = own[i];
    shape[k] = dim_addc(flow->ctx, shape[k], -w->first);
    own[k] = dim_const(flow->ctx, w->first);
    flow->cont.at[cont].shape = own;
    w->rest[cont] = flow_cont(flow, rest_name(w, c->name), CONT_TMP, c->type, shape, rank);
}

/* Two maps of one; the number of the rest's. */
static int cut_map(Waves *w, int at) {
    Flow *flow = w->e->flow;
    Ctx *ctx = flow->ctx;
    Map *m = map_of(w, w->of[at]);
    Items list = {0};
    Map *rest = flow_map(flow, &list, rest_name(w, m->name), m->from);
    const char *name = rest->name;
    int d = w->dim[at];
    DimSubst subst = {m->dim.at[d].sym, dim_addc(ctx, m->dim.at[d].sym, w->first)};
    *rest = *m;
    rest->name = name;
    rest->dim.at = arena_copy(flow->arena, m->dim.at, (size_t)m->dim.n * sizeof *m->dim.at);
    rest->write.at = arena_copy(flow->arena, m->write.at, sizeof *m->write.at);
    rest->dim.at[d].extent = dim_addc(ctx, m->dim.at[d].extent, -w->first);
    m->dim.at[d].extent = dim_const(ctx, w->first);
    map_rewrite(w->e, rest, &subst, 1, read_rest, w);
    Access *to = arena_copy(flow->arena, rest->write.at[0].to, sizeof *to);
    int k = w->index[to->cont];
    if (k >= 0) {
        Dim *index = arena_copy(flow->arena, to->at, sizeof *index * (size_t)to->rank);
        index[k] = dim_addc(ctx, index[k], -w->first);
        *to = (Access){w->rest[to->cont], to->rank, index};
        rest->write.at[0].to = to;
    }
    return list.at[0].map;
}

typedef struct Rests {
    const Waves *w;
    const int *map; /* by member */
} Rests;

/* An ItemFn: each rest behind its map. */
static void place_rest(void *user, Item it, const Items *home, Items *out) {
    (void)home;
    const Rests *r = user;
    Arena *arena = r->w->e->flow->arena;
    vec_push(arena, out, it);
    int at = it.kind == ITEM_MAP ? member(r->w, it.map) : -1;
    if (at >= 0) vec_push(arena, out, ((Item){.kind = ITEM_MAP, .map = r->map[at]}));
}

static int cut(Waves *w) {
    int rest[MEMBERS], ncont = w->e->flow->cont.n;
    w->rest = NEW_ARRAY(w->e->arena, int, ncont + 1);
    for (int c = 0; c < ncont; c++)
        if (w->index[c] >= 0) cut_cont(w, c);
    for (int i = 0; i < w->n; i++) rest[i] = cut_map(w, i);
    items_rebuild(w->e->flow, &w->e->flow->body, place_rest, &(Rests){w, rest});
    return rest[0];
}

/* ---- the choice -------------------------------------------------------------------------------
 */

static const char *cut_word(const Waves *w, const WaveCut *c) {
    if (c->dim < 0) return NULL;
    const char *dim = dim_sym_name(map_of(w, w->map)->dim.at[c->dim].sym);
    return internf(w->e->flow->ctx, "%s.%lld", dim, (long long)c->first);
}

/* What a recipe's word says: a dim of results, and how many of its indices come first. */
static WaveCut word_cut(const Waves *w, const char *word) {
    const Map *m = map_of(w, w->map);
    for (int d = 0; d < m->dim.n; d++) {
        const char *name = dim_sym_name(m->dim.at[d].sym);
        size_t n = strlen(name);
        if (map_reduces(m, d) || strncmp(word, name, n) || word[n] != '.') continue;
        WaveCut c = {.dim = d, .first = strtoll(word + n + 1, NULL, 10)};
        if (c.first > 0 && c.first < map_extent(m, d, 1) && !strcmp(cut_word(w, &c), word))
            return c;
    }
    return (WaveCut){.dim = -1};
}

int split_waves(Editing *e, const PassEnv *env, int map) {
    Arena *arena = e->arena;
    int nmap = e->flow->map.n, ncont = e->flow->cont.n;
    const Map *m = e->flow->map.at[map];
    Waves w = {.e = e, .env = env, .map = map};
    Product p;
    if (!e->uses.home[map] || !split_product(e->flow, env->machine, m, &p) ||
        weighing_product(e->flow, e->uses.writer, map))
        return -1;
    w.order = NEW_ARRAY(arena, int, nmap + 1);
    w.index = NEW_ARRAY(arena, int, ncont + 1);
    order_items(&e->flow->body, w.order, 0);
    const char *name = internf(e->flow->ctx, "%s.waves", m->name);
    const Decision *asked = recipe_find(env, "split", name),
                   *parts = recipe_find(env, "split", m->name);
    WaveCut c = {.dim = -1};
    if (asked)
        c = word_cut(&w, asked->choice);
    else if (!parts || !strcmp(parts->choice, "whole"))
        c = best_cut(&w, &p);
    const char *words[] = {"whole", cut_word(&w, &c), NULL};
    if (!recipe_decide(env, "split", name, words, c.dim >= 0)) return -1;
    if (!find_members(&w, c.dim))
        recipe_refuse(env->recipe, asked->line, "\"%s\" cannot be cut there with what follows it",
                      m->name);
    w.first = c.first;
    return cut(&w);
}
