/* SPDX-License-Identifier: Apache-2.0 */
/* Blocked channels, and where they are worth it.
 *
 * Maps that hand blocked containers to one another make a region; all of it is blocked or none of
 * it. What decides is the cost of running its maps in lanes, each along its best dim: blocked,
 * lanes run along channels, and what the caller owns is gathered on the way in and scattered on the
 * way out; plain, they run along the innermost dim of the image, which must be long and walked with
 * step 1; what lies on a page an element is copied near (layout_near.c). Deep networks are blocked;
 * a layer or two between large images is not. Sums that an instruction of the machine computes in
 * groups want the channels of what they read blocked. */
#include <math.h>

#include "passes/compose.h"
#include "passes/dot.h"
#include "passes/layout.h"
#include "passes/near.h"

/* Costs are estimates: the default stays unless another is well below it. */
static const double CLEARLY_LESS = 0.8;

/* Elements that are read one by one on a page each, beside columns of them that were copied near.
 * Measured on Zen 3, 64 channels to 256 over 56 x 56: 1.28 of the time. */
static const double FAR_COST = 1.3;

/* What the caller owns is copied when windows read beyond its box: the copy can be blocked. */
static bool copied_in(const Layouts *l, int cont) {
    if (l->flow->cont.at[cont].kind != CONT_IN) return false;
    for (int r = 0; r < l->readers[cont].n; r++) {
        const Map *m = l->flow->map.at[l->readers[cont].at[r]];
        bool window = map_is_reduction(m) || map_straight_line(m);
        for (int v = 0; window && v < m->body.val.n; v++) {
            const Val *val = &m->body.val.at[v];
            if (val->kind == VAL_READ && val->read.cont == cont && val->has_else) return true;
        }
    }
    return false;
}

static bool may_block(const Layouts *l, int cont, int dim) {
    const Cont *c = &l->flow->cont.at[cont];
    bool ours = c->kind == CONT_TMP || (!l->chosen && copied_in(l, cont));
    bool plain = cont < l->chosen && l->plain[cont];
    return ours && !plain && !c->layout && !l->held[cont] && dim >= 0 && dim < c->rank - 1 &&
           extent_or(c->shape[dim], 0) >= l->lanes;
}

static void block_at(const Layouts *l, int cont, int dim, int *channel) {
    if (may_block(l, cont, dim)) channel[cont] = dim;
}

/* The dim that index k of an access is, but for an offset; or -1. */
static int shifted_dim(const Layouts *l, const Map *m, const Access *a, int k, int64_t *offset) {
    for (int d = 0; d < m->dim.n; d++)
        if (dim_is_const(dim_sub(l->flow->ctx, a->at[k], m->dim.at[d].sym), offset)) return d;
    return -1;
}

/* The dim that index k of an access is, but for whole blocks (a part of what a concatenation
 * makes), or -1. */
static int channel_dim(const Layouts *l, const Map *m, const Access *a, int k) {
    int64_t offset = 0;
    int d = shifted_dim(l, m, a, k, &offset);
    return offset % l->width[a->cont] == 0 ? d : -1;
}

static int index_of(const Layouts *l, const Map *m, const Access *a, int dim) {
    for (int k = 0; dim >= 0 && k < a->rank; k++)
        if (channel_dim(l, m, a, k) == dim) return k;
    return -1;
}

/* The image that a contraction sums over the channels of. */
static void seed_terms(const Layouts *l, const Map *m, const Contraction *r, int *channel) {
    const Access *from = &m->body.val.at[r->a].read;
    for (int d = 0; d < m->dim.n; d++)
        if (r->role[d] == ROLE_K) block_at(l, from->cont, index_of(l, m, from, d), channel);
}

/* Follows the element-wise maps behind a contraction to what is really stored; and in front of it,
 * where lanes run along channels, or threads copy what windows slide over. What has no columns of
 * its own (a channel and its window) is a batch of channels, and so are products too short for
 * lanes; longer ones with few columns are not (attention over windows of 49 with heads of 8: lanes
 * along windows took 2.8 times as long on Zen 5, as nothing that the maps hand on stays near). */
static void seed(const Layouts *l, const Map *m, int *channel) {
    Contraction r = map_contraction(l->flow, m);
    if (!r.is) return;
    bool spatial = false, columns = false, terms = false;
    int n = -1;
    for (int d = 0; d < m->dim.n; d++) {
        spatial |= r.role[d] == ROLE_M && map_extent(m, d, 2) > 1;
        columns |= r.role[d] == ROLE_N && map_extent(m, d, 2) > 1;
        terms |= r.role[d] == ROLE_K && map_extent(m, d, 0) >= l->lanes;
    }
    for (int d = 0; d < m->dim.n; d++) {
        bool batch = r.role[d] == ROLE_BATCH && n < 0 && !(columns && terms);
        if ((batch || r.role[d] == ROLE_N) && map_extent(m, d, 0) >= l->lanes) n = d;
    }
    const Access *to = &m->write.at[0].to[0];
    if (n < 0 || !spatial) return;
    block_at(l, to->cont, index_of(l, m, to, n), channel);
    bool before = l->env->machine->block_threads ? access_slides(m, &m->body.val.at[r.a].read)
                                                 : channel[to->cont] >= 0;
    if (before) seed_terms(l, m, &r, channel);
}

/* The channels of groups of few on a machine of blocks of threads: those of all groups are one
 * index of the image that a product reads and of the one that it makes. */
static void seed_few(const Layouts *l, const Map *m, int *channel) {
    Contraction r = map_contraction(l->flow, m);
    if (!r.is || !l->env->machine->block_threads) return;
    const Access *sides[] = {&m->body.val.at[r.a].read, &m->write.at[0].to[0]};
    DimRole own[] = {ROLE_K, ROLE_N};
    if (!access_slides(m, sides[0])) return;
    for (int i = 0; i < 2; i++)
        for (int k = 0; k < sides[i]->rank; k++) {
            int group, one;
            if (joined_dims(l->flow, m, sides[i]->at[k], &group, &one) &&
                r.role[group] == ROLE_BATCH && r.role[one] == own[i] &&
                map_extent(m, one, l->lanes) < l->lanes)
                block_at(l, sides[i]->cont, k, channel);
        }
}

/* What an instruction could read in groups, were its channels side by side. */
static void seed_groups(const Layouts *l, const Map *m, int *channel) {
    Contraction r = map_contraction(l->flow, m);
    if (r.is && dot_types(l->env->machine, m)) seed_terms(l, m, &r, channel);
}

/* Images that straight-line code cuts into tiles, or that are put together from tiles, whose
 * channel is stored last. */
static void seed_tiles(const Layouts *l, const Map *m, int *channel) {
    bool cuts = map_straight_line(m);
    if (!cuts && (map_is_reduction(m) || m->write.n != 1)) return;
    const Access *to = &m->write.at[0].to[0];
    for (int v = 0; v < m->body.val.n; v++) {
        const Access *from = &m->body.val.at[v].read;
        if (m->body.val.at[v].kind != VAL_READ || !from->rank) continue;
        const Access *tiles = cuts ? to : from, *image = cuts ? from : to;
        int d = access_dim(m, tiles, tiles->rank - 1), tiled = 0;
        for (int k = 0; k < from->rank; k++)
            tiled += access_dim(m, from, k) < 0 && !dim_is_const(from->at[k], NULL);
        if (d >= 0 && tiled > 1) block_at(l, image->cont, index_of(l, m, image, d), channel);
    }
}

/* If one side of a map has a blocked dim and the other uses the same map dim, block it there too.
 */
static bool spread(const Layouts *l, const Map *m, int *channel) {
    bool changed = false;
    for (int w = 0; w < m->write.n; w++)
        for (int k = 0; k < m->write.at[w].n; k++) {
            const Access *to = &m->write.at[w].to[k];
            for (int v = 0; v < m->body.val.n; v++) {
                const Val *val = &m->body.val.at[v];
                if (val->kind != VAL_READ) continue;
                const Access *from = &val->read;
                int cf = channel[from->cont], ct = channel[to->cont];
                if (cf >= 0 && ct < 0) {
                    int at = index_of(l, m, to, channel_dim(l, m, from, cf));
                    if (may_block(l, to->cont, at)) channel[to->cont] = at, changed = true;
                } else if (ct >= 0 && cf < 0) {
                    int at = index_of(l, m, from, channel_dim(l, m, to, ct));
                    if (may_block(l, from->cont, at)) channel[from->cont] = at, changed = true;
                }
            }
        }
    return changed;
}

static const Layout *blocked(Layouts *l, const Cont *c, int dim) {
    Ctx *ctx = l->flow->ctx;
    Layout *y = NEW(l->arena, Layout);
    Dim *map = NEW_ARRAY(l->arena, Dim, c->rank + 1), *box = NEW_ARRAY(l->arena, Dim, c->rank + 1);
    Dim width = dim_const(ctx, l->width[c - l->flow->cont.at]);
    for (int k = 0; k < c->rank; k++) {
        Dim sym = flow_layout_sym(ctx, k);
        map[k] = k == dim ? dim_div(ctx, sym, width) : sym;
        box[k] = k == dim ? dim_ceildiv(ctx, c->shape[k], width) : c->shape[k];
    }
    map[c->rank] = dim_mod(ctx, flow_layout_sym(ctx, dim), width);
    box[c->rank] = width;
    *y = (Layout){.rank = c->rank + 1, .map = map, .box = box};
    return y;
}

/* Calls fn for every access of map m. */
typedef void AccessFn(void *user, const Map *m, const Access *a);
static void each_access(const Map *m, AccessFn *fn, void *user) {
    for (int v = 0; v < m->body.val.n; v++)
        if (m->body.val.at[v].kind == VAL_READ) fn(user, m, &m->body.val.at[v].read);
    for (int w = 0; w < m->write.n; w++)
        for (int k = 0; k < m->write.at[w].n; k++) fn(user, m, &m->write.at[w].to[k]);
}

/* A part that begins within a wide block makes blocks narrow again. */
static void check_parts(void *user, const Map *m, const Access *a) {
    Layouts *l = user;
    for (int k = 0; k < a->rank && l->width[a->cont] > l->lanes; k++) {
        int64_t offset = 0;
        if (shifted_dim(l, m, a, k, &offset) >= 0 && offset % l->lanes == 0 &&
            offset % l->width[a->cont])
            l->width[a->cont] = l->lanes;
    }
}

/* Blocks are as wide as a vector; as what a step on tiles takes, where a contraction reads it. */
static void find_widths(Layouts *l) {
    l->width = NEW_ARRAY(l->arena, int64_t, l->flow->cont.n + 1);
    for (int c = 0; c < l->flow->cont.n; c++) l->width[c] = l->lanes;
    for (int i = 0; i < l->flow->map.n; i++) {
        const Map *m = l->flow->map.at[i];
        int64_t depth = dot_depth(l->env->machine, l->flow, m), offset;
        if (!depth) continue;
        Contraction r = map_contraction(l->flow, m);
        const Access *from = &m->body.val.at[r.a].read;
        for (int k = 0; k < from->rank; k++) {
            int d = shifted_dim(l, m, from, k, &offset);
            if (d >= 0 && r.role[d] == ROLE_K &&
                extent_or(l->flow->cont.at[from->cont].shape[k], 1) % depth == 0)
                l->width[from->cont] = depth;
        }
    }
    for (int i = 0; i < l->flow->map.n; i++) each_access(l->flow->map.at[i], check_parts, l);
}

int *layout_channels(Layouts *l) {
    int n = l->flow->cont.n, *channel = NEW_ARRAY(l->arena, int, n + 1);
    find_widths(l);
    for (int c = 0; c < n; c++) channel[c] = -1;
    for (int m = 0; m < l->flow->map.n; m++) {
        seed(l, l->flow->map.at[m], channel);
        seed_few(l, l->flow->map.at[m], channel);
        seed_groups(l, l->flow->map.at[m], channel);
        seed_tiles(l, l->flow->map.at[m], channel);
    }
    for (bool again = true; again;) {
        again = false;
        for (int m = 0; m < l->flow->map.n; m++) again |= spread(l, l->flow->map.at[m], channel);
    }
    return channel;
}

void layout_blocks(Layouts *l) {
    const int *channel = layout_channels(l);
    for (int c = 0; c < l->flow->cont.n; c++)
        if (channel[c] >= 0)
            l->flow->cont.at[c].layout = blocked(l, &l->flow->cont.at[c], channel[c]);
}

/* ---- is it worth it -------------------------------------------------------------------------- */

typedef struct Region {
    int *of; /* by container: the least container of its region, or -1 */
    int least;
    bool changed;
} Region;

static void find_least(void *user, const Map *m, const Access *a) {
    (void)m;
    Region *r = user;
    int least = r->of[a->cont];
    if (least >= 0 && (r->least < 0 || least < r->least)) r->least = least;
}

static void set_least(void *user, const Map *m, const Access *a) {
    (void)m;
    Region *r = user;
    if (r->of[a->cont] < 0 || r->of[a->cont] == r->least) return;
    r->of[a->cont] = r->least;
    r->changed = true;
}

static Region find_regions(const Layouts *l, const int *channel) {
    Region r = {.of = NEW_ARRAY(l->arena, int, l->flow->cont.n + 1)};
    for (int c = 0; c < l->flow->cont.n; c++) r.of[c] = channel[c] >= 0 ? c : -1;
    do {
        r.changed = false;
        for (int m = 0; m < l->flow->map.n; m++) {
            r.least = -1;
            each_access(l->flow->map.at[m], find_least, &r);
            each_access(l->flow->map.at[m], set_least, &r);
        }
    } while (r.changed);
    return r;
}

int *layout_regions(const Layouts *l, const int *channel) {
    return find_regions(l, channel).of;
}

/* By map: does it read, term by term on a page each, an image that stays as it is? */
static bool *find_far(const Layouts *l, const int *channel) {
    bool *far = NEW_ARRAY(l->arena, bool, l->flow->map.n + 1);
    for (int i = 0; i < l->flow->map.n; i++) {
        const Map *m = l->flow->map.at[i];
        int v = near_read(l->env->machine, l->flow, l->readers, l->writer, m);
        far[i] = v >= 0 && channel[m->body.val.at[v].read.cont] < 0;
    }
    return far;
}

/* What a map costs by an instruction that takes groups of terms, as containers are laid out now;
 * terms that are left of a group are steps of their own. */
static double groups_cost(const Layouts *l, const Map *m, const Dot *dot) {
    int64_t group = dot->row->group, terms = map_extent(m, dot->k, group);
    double steps = (double)(terms / group + terms % group) / (double)terms;
    return steps * lane_cost(l->flow, m, dot->lane, l->lanes, true);
}

/* The cost of every region's maps as containers are laid out now; of those that are `far`, the more
 * it takes where lanes do not run along such an image. */
static void add_costs(const Layouts *l, Region *r, const bool *far, double *cost) {
    for (int i = 0; i < l->flow->map.n; i++) {
        const Map *m = l->flow->map.at[i];
        Dot dot;
        double best = INFINITY;
        r->least = -1;
        each_access(m, find_least, r);
        for (int d = 0; r->least >= 0 && d < m->dim.n; d++) {
            if (m->dim.at[d].seq || map_extent(m, d, 2) < 2) continue;
            double c = lane_cost(l->flow, m, d, l->lanes, true);
            if (c < best) best = c;
        }
        if (r->least >= 0 && dot_with_margins(l->env->machine, l->flow, m, &dot))
            best = groups_cost(l, m, &dot);
        if (far && far[i]) best *= FAR_COST;
        if (best < INFINITY) cost[r->least] += best;
    }
}

/* Copying what the caller owns, lanes along its rows or across them. */
static void add_copies(const Layouts *l, const Region *r, double step, double *cost) {
    for (int c = 0; c < l->flow->cont.n; c++) {
        if (r->of[c] < 0 || l->flow->cont.at[c].kind != CONT_IN) continue;
        double n = 1;
        for (int k = 0; k < l->flow->cont.at[c].rank; k++)
            n *= (double)extent_or(l->flow->cont.at[c].shape[k], 1);
        cost[r->of[c]] += n * (1 + step);
    }
}

/* As a recipe says, or as it costs less. */
static bool decide_plain(const Layouts *l, int cont, bool cheaper) {
    static const char *const words[] = {"blocked", "plain", NULL};
    return recipe_decide(l->env, "layout", l->flow->cont.at[cont].name, words, cheaper);
}

void layout_choose(Layouts *l) {
    int n = l->flow->cont.n;
    bool *blocks = NEW_ARRAY(l->arena, bool, n + 1);
    layout_find_groups(l);
    layout_show_groups(l, true);
    const int *channel = layout_channels(l);
    Region r = find_regions(l, channel);
    double *lanes = NEW_ARRAY(l->arena, double, n + 1), *plain = NEW_ARRAY(l->arena, double, n + 1);
    const bool *far = find_far(l, channel);
    layout_show_groups(l, false);
    add_costs(l, &r, NULL, plain);
    add_copies(l, &r, 1, plain);
    layout_show_groups(l, true);
    for (int c = 0; c < n; c++)
        if (channel[c] >= 0)
            l->flow->cont.at[c].layout = blocked(l, &l->flow->cont.at[c], channel[c]);
    add_costs(l, &r, far, lanes);
    add_copies(l, &r, l->lanes, lanes);
    l->plain = NEW_ARRAY(l->arena, bool, n + 1);
    l->chosen = n;
    for (int c = 0; c < n; c++) {
        if (channel[c] < 0) continue;
        l->flow->cont.at[c].layout = NULL;
        l->plain[c] = decide_plain(l, c, plain[r.of[c]] < CLEARLY_LESS * lanes[r.of[c]]);
        blocks[c] = !l->plain[c] && l->width[c] == l->lanes;
    }
    layout_settle_groups(l, blocks);
}
