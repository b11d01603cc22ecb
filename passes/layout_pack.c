/* SPDX-License-Identifier: Apache-2.0 */
/* Operands that stand in the lanes of a contraction: weights are stored in panels, what is computed
 * at run time is copied so that the lane dim comes last.
 *
 * A panel is as wide as the register tile will be: w[k,j] -> (j/P, k, j%P). Where the other
 * operand's channel is stored in blocks of L, so is the weights': (o/P, c/L, r, s, c%L, o%P), the
 * order in which the reduction runs. Where an instruction takes groups of a reduced dim, these come
 * last: (j/P, k/G, j%P, k%G). So do codes of less than a byte: each lane has a word of them. What
 * decodes weights, scales and zero points, lies in panels of the same lanes. Padding holds 0. */
#include "passes/compose.h"
#include "passes/dot.h"
#include "passes/layout.h"
#include "passes/parts.h"

enum { REUSE = 8, PAGE_BYTES = 4096 };

/* The dim that runs in lanes: the largest dim only the weights have, or the one that results store
 * last if it fills a vector; else a large batch dim (depthwise). */
static int lane_dim(const Layouts *l, const Map *m, const Contraction *r) {
    const Access *to = &m->write.at[0].to[0];
    int best = to->rank ? access_dim(m, to, to->rank - 1) : -1;
    if (best >= 0 && r->role[best] == ROLE_N && map_usual(l->flow, m, best) >= l->lanes)
        return best;
    best = -1;
    for (int pass = 0; pass < 2 && best < 0; pass++)
        for (int d = 0; d < m->dim.n; d++) {
            if (r->role[d] != (pass ? ROLE_BATCH : ROLE_N)) continue;
            int64_t extent = map_usual(l->flow, m, d);
            if (extent < (pass ? l->lanes : 2)) continue;
            if (best < 0 || extent > map_usual(l->flow, m, best)) best = d;
        }
    return best;
}

static int position(const Map *m, const Access *a, int dim) {
    for (int k = 0; k < a->rank; k++)
        if (access_dim(m, a, k) == dim) return k;
    return -1;
}

/* What the index is beside the lane dim, which it counts by one; NULL: it does not. */
static Dim beside_lane(const Layouts *l, const Map *m, Dim at, int lane) {
    Dim coef, rest;
    bool counts = dim_affine(l->flow->ctx, at, &m->dim.at[lane].sym, 1, &coef, &rest);
    return counts && dim_is(coef, 1) ? rest : NULL;
}

/* The reduced dim that indexes a blocked dim of the other operand, or -1; blocks hold so many. */
static int blocked_dim(const Layouts *l, const Map *m, const Access *a, int64_t *block) {
    const Cont *c = &l->flow->cont.at[a->cont];
    if (!c->layout || c->layout->rank != c->rank + 1) return -1;
    *block = extent_or(c->layout->box[c->rank], l->lanes);
    for (int k = 0; k < c->rank; k++)
        if (c->layout->map[k] != flow_layout_sym(l->flow->ctx, k)) return access_dim(m, a, k);
    return -1;
}

/* The indices of weights, as a panel orders them: those that are constant here (one direction of
 * two) or count a batch of products, the panel, the others, the block's, `inner`, the lanes, the
 * group's: what one core reads again and again is one stream. blocked and grouped may be the same
 * index, or -1. */
typedef struct Panels {
    const Access *read;
    int n;         /* the index of the lane dim */
    int blocked;   /* stored in blocks as the other operand is ... */
    int64_t block; /* ... of so many */
    int inner;     /* a tile takes all of it beside its lanes, or -1 */
    int grouped;   /* `group` of it stand in one lane */
    int64_t width, group;
    bool marks;
    bool outer[RANK_MAX]; /* constant here, or of a batch */
} Panels;

static const Layout *panels(Layouts *l, const Cont *c, const Panels *how) {
    Ctx *ctx = l->flow->ctx;
    Layout *y = NEW(l->arena, Layout);
    Dim *map = NEW_ARRAY(l->arena, Dim, c->rank + 4), *box = NEW_ARRAY(l->arena, Dim, c->rank + 4);
    Dim p = dim_const(ctx, how->width), sym = flow_layout_sym(ctx, how->n), rest[RANK_MAX];
    Dim w = dim_const(ctx, how->block), g = dim_const(ctx, how->group);
    int r = 0;
    for (int fixed = 1; fixed >= 0; fixed--) {
        for (int k = 0; k < c->rank; k++) {
            if (k == how->n || k == how->inner || how->outer[k] != fixed) continue;
            Dim s = rest[k] = flow_layout_sym(ctx, k), step = k == how->blocked ? w : g;
            bool cut = k == how->blocked || k == how->grouped;
            if (k == how->blocked) rest[k] = dim_mod(ctx, s, w);
            map[r] = cut ? dim_div(ctx, s, step) : s;
            box[r++] = cut ? dim_ceildiv(ctx, c->shape[k], step) : c->shape[k];
        }
        if (fixed) map[r] = dim_div(ctx, sym, p), box[r++] = dim_ceildiv(ctx, c->shape[how->n], p);
    }
    if (how->blocked >= 0) {
        bool both = how->blocked == how->grouped;
        map[r] = both ? dim_div(ctx, rest[how->blocked], g) : rest[how->blocked];
        box[r++] = both ? dim_const(ctx, how->block / how->group) : w;
    }
    if (how->inner >= 0) map[r] = flow_layout_sym(ctx, how->inner), box[r++] = c->shape[how->inner];
    map[r] = dim_mod(ctx, sym, p), box[r++] = p;
    if (how->grouped >= 0) map[r] = dim_mod(ctx, rest[how->grouped], g), box[r++] = g;
    *y = (Layout){.rank = r, .map = map, .box = box, .has_fill = c->kind == CONT_PARAM};
    y->marks = how->marks && how->width * how->group % MARKED_BYTES == 0;
    return y;
}

static bool same_weights(const Cont *a, const Cont *b) {
    const char *x = a->from ? a->from : a->name, *y = b->from ? b->from : b->name;
    return a->kind == CONT_PARAM && a->data == b->data && (a->data || x == y) &&
           a->rank == b->rank && dims_equal(a->shape, b->shape, a->rank) && a->layout &&
           layout_equal(a->layout, b->layout);
}

/* By the width of the panels, so that other copies keep their names when one gets another width. */
static const char *panels_name(const Flow *flow, const char *weights, const Cont *like) {
    int64_t width = like->layout ? extent_or(like->layout->box[like->layout->rank - 1], 1) : 1;
    return internf(flow->ctx, "%s.panels%lld", weights, (long long)width);
}

int layout_weights(Layouts *l, int cont, const Cont *like) {
    Cont *c = &l->flow->cont.at[cont];
    bool alone = !l->held[cont] && !c->layout;
    for (int i = 0; i < l->readers[cont].n; i++)
        alone &= l->readers[cont].at[i] == l->readers[cont].at[0];
    if (alone) {
        *c = *like;
        return cont;
    }
    if (!c->data) return cont; /* nothing is known of it: there is no second copy to make */
    for (int i = 0; i < l->flow->cont.n; i++)
        if (same_weights(&l->flow->cont.at[i], like)) return i;
    const char *name = panels_name(l->flow, c->name, like),
               *from = like->from ? like->from : c->name;
    int copy = flow_cont(l->flow, name, like->kind, like->type, like->shape, like->rank);
    name = l->flow->cont.at[copy].name;
    l->flow->cont.at[copy] = *like;
    l->flow->cont.at[copy].name = name, l->flow->cont.at[copy].from = from;
    return copy;
}

/* Where an index is J*q + j, j the lane dim of extent J, the weights are seen as [..,q,j,..] (the
 * gates of a cell stand in one matrix): panels then start at j = 0 for every q. */
static void split_index(Layouts *l, const Map *m, int lane, Access *read, Cont *c) {
    Ctx *ctx = l->flow->ctx;
    const MapDim *dim = &m->dim.at[lane];
    Dim rest, q, count;
    int k = 0;
    while (k < read->rank && !dim_uses(read->at[k], dim->sym)) k++;
    if (k == read->rank || read->rank == RANK_MAX || c->layout || read->at[k] == dim->sym) return;
    rest = beside_lane(l, m, read->at[k], lane);
    if (!rest || !dim_divides(ctx, rest, dim->extent, &q) ||
        !dim_divides(ctx, c->shape[k], dim->extent, &count))
        return;
    Dim *at = NEW_ARRAY(l->arena, Dim, c->rank + 1), *shape = NEW_ARRAY(l->arena, Dim, c->rank + 1);
    for (int i = 0; i <= c->rank; i++) {
        int from = i <= k ? i : i - 1;
        at[i] = i == k ? q : i == k + 1 ? dim->sym : read->at[from];
        shape[i] = i == k ? count : i == k + 1 ? dim->extent : c->shape[from];
    }
    c->shape = shape;
    *read = (Access){read->cont, ++c->rank, at};
}

/* Do those who read the results read all indices of dim d at once? */
static bool taken_whole(const Layouts *l, const Map *m, int d) {
    const IntVec *readers = &l->readers[m->write.at[0].to[0].cont];
    for (int i = 0; i < readers->n; i++) {
        const Map *by = l->flow->map.at[readers->at[i]];
        for (int own = 0; own < by->dim.n; own++)
            if (map_same_dim(by, own, m) == d) return false;
    }
    return readers->n > 0;
}

/* The index by a small dim that only the weights have, beside the lanes: a tile takes all of it
 * (the gates of a cell), so it is read as one stream. */
static int inner_index(const Layouts *l, const Map *m, const Access *read, const Contraction *r,
                       int lane, const Cont *c) {
    for (int d = 0; d < m->dim.n; d++) {
        if (d == lane || r->role[d] != ROLE_N || map_extent(m, d, 1) < 2) continue;
        if (!taken_whole(l, m, d)) return -1;
        for (int k = 0; k < read->rank; k++)
            if (dim_uses(read->at[k], m->dim.at[d].sym))
                return extent_or(c->shape[k], INNER_MOST + 1) <= INNER_MOST ? k : -1;
    }
    return -1;
}

/* The index of codes of less than a byte that runs within a lane's words, or -1: the one that
 * steps by one along a reduced dim. */
static int word_index(const Flow *flow, const Map *m, const Access *read) {
    if (dtype_bits(flow->cont.at[read->cont].type) >= 8) return -1;
    for (int k = read->rank - 1; k >= 0; k--)
        for (int d = 0; d < m->dim.n; d++) {
            Dim coef, rest;
            if (map_reduces(m, d) &&
                dim_affine(flow->ctx, read->at[k], &m->dim.at[d].sym, 1, &coef, &rest) &&
                dim_is(coef, 1))
                return k;
        }
    return -1;
}

static void group_words(const Layouts *l, const Map *m, Panels *how) {
    int k = word_index(l->flow, m, how->read);
    if (k < 0) return;
    how->grouped = k;
    how->group = WORD_BITS / dtype_bits(l->flow->cont.at[how->read->cont].type);
}

/* Lanes of a panel, as a recipe says of the map, or as many as its register tile will have; 0: the
 * weights lie as the model gives them. */
static int64_t panel_lanes(const Layouts *l, const Map *m, int64_t chosen) {
    const char *words[PANEL_VECTORS + 2] = {"plain"};
    for (int n = 1; n <= PANEL_VECTORS; n++)
        words[n] = internf(l->flow->ctx, "lanes%d", n * l->lanes);
    const char *name = internf(l->flow->ctx, "%s.panels", m->name);
    return l->lanes * recipe_decide(l->env, "layout", name, words, (int)(chosen / l->lanes));
}

/* What else of weights the contraction reads in lanes, in panels of as many. */
static void pack_others(Layouts *l, Map *m, const Contraction *r, int lane, int64_t width) {
    for (int v = 0; v < m->body.val.n; v++) {
        Val *val = &m->body.val.at[v];
        if (val->kind != VAL_READ || v == r->b || v == r->a) continue;
        Cont c = l->flow->cont.at[val->read.cont];
        int n = position(m, &val->read, lane);
        if (c.kind != CONT_PARAM || n < 0 || val->has_else || access_by_value(m, &val->read))
            continue;
        Panels how = {&val->read, n, -1, l->lanes, -1, -1, width, 1, false, {false}};
        group_words(l, m, &how);
        c.layout = panels(l, &c, &how);
        val->read.cont = layout_weights(l, val->read.cont, &c);
    }
}

/* Would one row's sums fill the registers, as a map behind takes all `inner` sums of an element at
 * once? Then each of several rows reads all weights again: narrower panels leave room for more. */
static bool fills_registers(const Layouts *l, const Map *m, const Contraction *r, Dim inner,
                            int64_t width) {
    enum { BESIDE = 4 };
    int to = m->write.at[0].to[0].cont;
    if (contraction_usual(l->flow, m, r, ROLE_M) < 2 || l->readers[to].n == 0) return false;
    int sums = reads_of(l->flow->map.at[l->readers[to].at[0]], to);
    return sums > 1 && dim_is(inner, sums) &&
           2 * sums * width / l->lanes > l->env->machine->vector_regs - BESIDE;
}

/* Those that are constant, count a batch of products, or columns and stand in front of all terms;
 * not parts that are added up. */
static void outer_indices(const Layouts *l, const Map *m, const Contraction *r, int lane,
                          Panels *how) {
    bool front = true, part[MAP_DIMS] = {false};
    int own = l->writer[m->write.at[0].to[0].cont]; /* -1 where others write parts of it */
    if (own >= 0) parts_adder(l->flow, l->readers, own, part);
    for (int k = 0; k < how->read->rank; k++) {
        int d = access_dim(m, how->read, k);
        bool batch =
            d >= 0 && d != lane && !part[d] && r->role[d] == ROLE_BATCH && r->role[lane] == ROLE_N;
        front &= d >= 0 && !map_reduces(m, d);
        bool columns = front && d != lane && k != how->inner && r->role[d] == ROLE_N;
        how->outer[k] = batch || columns || dim_is_const(how->read->at[k], NULL);
    }
}

/* The index that counts the lanes, from the begin of a panel: of one vector where none of `width`
 * begins there (queries and keys stand in one matrix). Else -1. */
static int lane_index(const Layouts *l, const Map *m, const Access *read, int lane,
                      int64_t *width) {
    Ctx *ctx = l->flow->ctx;
    Dim rest, q;
    int n = position(m, read, lane);
    for (int k = 0; n < 0 && k < read->rank; k++) {
        rest = beside_lane(l, m, read->at[k], lane);
        if (!rest || !dim_divides(ctx, rest, dim_const(ctx, l->lanes), &q)) continue;
        if (!dim_divides(ctx, rest, dim_const(ctx, *width), &q)) *width = l->lanes;
        n = k;
    }
    return n;
}

/* Returns how many lanes panels have, 0 where there are to be none. */
static int64_t pack_weights(Layouts *l, Map *m, const Contraction *r, int lane, const Dot *dot) {
    bool batch = r->role[lane] == ROLE_BATCH;
    int64_t width = batch ? l->lanes : panel_width(l->env->machine, l->flow, m, lane, dot != NULL);
    Val *b = &m->body.val.at[r->b];
    Cont c = l->flow->cont.at[b->read.cont];
    Access read = b->read;
    split_index(l, m, lane, &read, &c);
    int n = lane_index(l, m, &read, lane, &width);
    if (n < 0 || b->has_else) return width;
    int inner = dot ? -1 : inner_index(l, m, &read, r, lane, &c);
    if (inner >= 0 && fills_registers(l, m, r, c.shape[inner], width)) width = l->lanes;
    width = panel_lanes(l, m, width);
    if (!width) return 0;
    int64_t block = l->lanes;
    int k = blocked_dim(l, m, &m->body.val.at[r->a].read, &block);
    int blocked = k >= 0 && k != lane ? position(m, &read, k) : -1;
    Panels how = {&read, n, blocked, block, -1, -1, width, 1, false, {false}};
    outer_indices(l, m, r, lane, &how);
    if (dot)
        how.grouped = position(m, &read, dot->k), how.group = dot->row->group,
        how.marks = dot->row->pairs && l->env->packing == PACK_BUILD;
    else if (inner != n && inner != blocked)
        how.inner = inner;
    if (!dot) group_words(l, m, &how);
    c.layout = panels(l, &c, &how);
    read.cont = layout_weights(l, b->read.cont, &c);
    bool packed = l->flow->cont.at[read.cont].layout != NULL;
    if (packed) b->read = read; /* else no copy was made, and nothing is split */
    return width;
}

/* ---- operands computed at run time ---------------------------------------------------------- */

void layout_insert(Layouts *l, int map, bool after, const Items *made) {
    items_insert_beside(l->flow, &l->flow->body, map, after, made);
}

/* from with the n-th of `rank` behind the others. */
static void put_last(const Dim *from, int rank, int n, Dim *to) {
    int at = 0;
    for (int k = 0; k < rank; k++)
        if (k != n) to[at++] = from[k];
    to[at] = from[n];
}

/* A container like `cont` in which index n is stored innermost, and the map that copies the one to
 * the other: `cont` to it, or it to `cont`. */
static int turned_copy(Layouts *l, int cont, int n, bool back, Items *made) {
    Flow *flow = l->flow;
    const Cont c = flow->cont.at[cont];
    Dim shape[RANK_MAX], dim[RANK_MAX], at[RANK_MAX];
    const char *name = internf(flow->ctx, "%s.lanes", c.name);
    put_last(c.shape, c.rank, n, shape);
    int to = flow_cont(flow, name, CONT_TMP, c.type, shape, c.rank);
    Map *copy = flow_map(flow, made, name, c.from);
    for (int k = 0; k < c.rank; k++) dim[k] = map_dim(flow, copy, "m", c.shape[k]);
    put_last(dim, c.rank, n, at);
    if (back)
        map_write(flow, copy, cont, dim, map_read(flow, copy, to, at), NULL);
    else
        map_write(flow, copy, to, at, map_read(flow, copy, cont, dim), NULL);
    return to;
}

static Access turned(Layouts *l, const Access *a, int to, int n) {
    Dim *at = NEW_ARRAY(l->arena, Dim, a->rank);
    put_last(a->at, a->rank, n, at);
    return (Access){to, a->rank, at};
}

void layout_lane_last(Layouts *l, int map, int cont, int n, Dim lane) {
    Items made = {0};
    int to = turned_copy(l, cont, n, false, &made);
    Map *m = l->flow->map.at[map];
    for (int v = 0; v < m->body.val.n; v++) {
        Val *val = &m->body.val.at[v];
        if (val->kind == VAL_READ && val->read.cont == cont && val->read.at[n] == lane)
            val->read = turned(l, &val->read, to, n);
    }
    layout_insert(l, map, false, &made);
}

void layout_result_last(Layouts *l, int map, int n) {
    Items made = {0};
    Write *w = &l->flow->map.at[map]->write.at[0];
    int to = turned_copy(l, w->to[0].cont, n, true, &made);
    Access *a = NEW(l->arena, Access);
    *a = turned(l, &w->to[0], to, n);
    w->to = a;
    layout_insert(l, map, true, &made);
}

/* May the temporary, which a map of the flow makes, be stored for this reader alone? */
static bool stored_freely(const Layouts *l, int cont, int map) {
    const Cont *c = &l->flow->cont.at[cont];
    if (c->kind != CONT_TMP || c->layout || l->held[cont] || l->writers[cont].n != 1) return false;
    for (int i = 0; i < l->readers[cont].n; i++)
        if (l->readers[cont].at[i] != map) return false;
    return true;
}

/* As many lanes as the register tile will have, where all of a tile's stand in one panel: the last
 * index is `lane`, or counts pieces of its extent besides. Else 0. */
static int64_t operand_width(const Layouts *l, const Map *m, const Access *b, int lane) {
    Ctx *ctx = l->flow->ctx;
    Dim rest = beside_lane(l, m, b->at[b->rank - 1], lane), q;
    int64_t width = panel_width(l->env->machine, l->flow, m, lane, false);
    if (!rest) return 0;
    bool pieces =
        map_extent(m, lane, 1) % width == 0 && dim_divides(ctx, rest, dim_const(ctx, width), &q);
    return dim_is(rest, 0) || pieces ? width : 0;
}

/* What a tile of rows reads of a computed operand, a few lanes of each of its rows, would lie on as
 * many pages as there are rows; in a panel it lies together. A copy made for its lanes goes into
 * panels where its rows are longer than a page: elsewhere that gained nothing. */
static void panel_operand(Layouts *l, int map, const Contraction *r, int lane, bool copy) {
    static const char *const words[] = {"rows", "panels", NULL};
    const Map *m = l->flow->map.at[map];
    const Access *b = &m->body.val.at[r->b].read;
    Cont *c = &l->flow->cont.at[b->cont];
    if (m->body.val.at[r->b].has_else || r->role[lane] != ROLE_N || b->rank == 0) return;
    int64_t width = operand_width(l, m, b, lane),
            row = usual_extent(l->flow, c->shape[b->rank - 1]);
    if (!width || row <= width) return;
    bool worth = copy ? row * dtype_bytes(c->type, 1) > PAGE_BYTES
                      : contraction_usual(l->flow, m, r, ROLE_M) >= REUSE;
    const char *name = internf(l->flow->ctx, "%s.operand", m->name);
    if (!recipe_decide(l->env, "layout", name, words, worth)) return;
    Panels how = {b, b->rank - 1, -1, l->lanes, -1, -1, width, 1, false, {false}};
    outer_indices(l, m, r, lane, &how);
    c->layout = panels(l, c, &how);
}

static bool worth_copy(const Layouts *l, const Map *m, const Contraction *r, int lane) {
    return contraction_usual(l->flow, m, r, ROLE_M) >= REUSE &&
           map_usual(l->flow, m, lane) >= l->lanes / 2;
}

/* The index of the lane dim, where the operand is to be copied: as a recipe says of the map, or as
 * it is worth it; else -1. */
static int copied_index(const Layouts *l, const Map *m, const Contraction *r, int lane) {
    static const char *const words[] = {"strided", "copied", NULL};
    const Val *b = &m->body.val.at[r->b];
    if (r->role[lane] != ROLE_N || l->flow->cont.at[b->read.cont].type == STRING) return -1;
    if (b->has_else || access_stride(l->flow, m, &b->read, lane, l->lanes) == 1) return -1;
    int n = position(m, &b->read, lane);
    const char *name = internf(l->flow->ctx, "%s.lanes", m->name);
    bool copied = n >= 0 && recipe_decide(l->env, "layout", name, words, worth_copy(l, m, r, lane));
    return copied ? n : -1;
}

/* Do so few channels of results (a mask, a picture) leave most lanes idle that sums had better run
 * along the terms? Costs are of a vector's product: of adding up a vector's lanes, and of storing
 * results that lie apart in lanes. Measured on Zen 5 for windows of 3x3, 64 channels to 2, 3, 4:
 * 0.15, 0.2, 0.27 of the time; eight of 16 channels would take 1.6, four of codes 1.4 of what an
 * instruction for groups of terms takes. */
static bool few_results(const Layouts *l, const Map *m, const Contraction *r, int lane) {
    static const double ADD_LANES = 12, STORE_APART = 20;
    double terms = contraction_usual(l->flow, m, r, ROLE_K);
    double n = (double)map_usual(l->flow, m, lane);
    return r->role[lane] == ROLE_N && n <= l->lanes / 4 && !dot_types(l->env->machine, m) &&
           n * (terms / l->lanes + ADD_LANES) < terms + STORE_APART;
}

/* Weights of few channels of results, or of a single one, which has no lanes of its own, lie as the
 * other operand's blocks of channels do, along which the sum then runs; false: it has none. */
static bool turn_to_blocks(Layouts *l, Map *m, const Contraction *r) {
    int64_t block;
    Val *b = &m->body.val.at[r->b];
    const Cont *c = &l->flow->cont.at[b->read.cont];
    int k = blocked_dim(l, m, &m->body.val.at[r->a].read, &block);
    int n = k >= 0 && map_reduces(m, k) ? position(m, &b->read, k) : -1;
    if (n < 0 || c->kind != CONT_PARAM || c->layout || b->has_else) return false;
    layout_turn_weights(l, &b->read, n);
    return true;
}

/* Weights are not copied: an index of theirs counts the terms and nothing else. */
static bool may_group(const Layouts *l, const Map *m, const Dot *dot) {
    const Access *b = &m->body.val.at[dot->b].read;
    return l->flow->cont.at[b->cont].kind != CONT_PARAM || position(m, b, dot->k) >= 0;
}

/* Does an instruction compute map number `map`, as its first operand is stored or after a copy? */
static bool by_groups(Layouts *l, int map, Dot *dot) {
    const Machine *machine = l->env->machine;
    const Map *m = l->flow->map.at[map];
    if (dot_possible(machine, l->flow, m, dot)) return may_group(l, m, dot);
    return dot_apart(machine, l->flow, m, dot) && may_group(l, m, dot) &&
           layout_copy_terms(l, map, dot);
}

static bool in_groups(Layouts *l, int map, const Dot *dot) {
    return layout_result_groups(l, map, dot) || layout_copy_groups(l, map, dot);
}

void layout_packs(Layouts *l) {
    int nmap = l->flow->map.n;
    layouts_survey(l);
    for (int i = 0; i < nmap; i++) {
        Map *m = l->flow->map.at[i];
        Contraction r = map_contraction(l->flow, m);
        int lane = r.is ? lane_dim(l, m, &r) : -1;
        bool few = r.is && (lane < 0 || few_results(l, m, &r, lane));
        if (few && turn_to_blocks(l, m, &r)) continue;
        if (lane < 0) continue;
        Dot dot;
        bool use = by_groups(l, i, &dot);
        bool lane_groups = !use && dot_each(l->env->machine, l->flow, m, &dot);
        use = use || (lane_groups && layout_widen_image(l, m, &dot));
        if (use) r.a = dot.a, r.b = dot.b, lane = dot.lane;
        const Cont *b = &l->flow->cont.at[m->body.val.at[r.b].read.cont];
        if (b->kind == CONT_PARAM) {
            if (use && !lane_groups) layout_widen_rows(l, m, &dot);
            int64_t width = pack_weights(l, m, &r, lane, use ? &dot : NULL);
            if (width && r.role[lane] == ROLE_N) pack_others(l, m, &r, lane, width);
        } else if (!use || !in_groups(l, i, &dot)) {
            int n = copied_index(l, m, &r, lane), from = m->body.val.at[r.b].read.cont;
            bool alone = n < 0 && stored_freely(l, from, i);
            if (n >= 0) layout_lane_last(l, i, from, n, m->dim.at[lane].sym);
            if (!use && (n >= 0 || alone)) panel_operand(l, i, &r, lane, n >= 0);
        }
    }
}
