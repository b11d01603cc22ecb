/* SPDX-License-Identifier: Apache-2.0 */
/* Channels last, on a machine of blocks of threads.
 *
 * A convolution by steps of warps is a product whose reduction runs over a window's places and
 * channels. Its operands come to shared memory in pieces of PIECE_BYTES, so what is reduced should
 * lie side by side: images [n,c,y,z] are stored as (n, y, z, c), and their weights [o,c,r,s] as
 * (o, r, s, c), so that a piece is channels of one place, inside the image or outside as a whole.
 * So are the weights of a depthwise one, which threads take by channels.
 * The choice spreads as blocks of channels do (layout_block.c), over regions that hold at least one
 * image which windows of such a product slide over; which a depthwise one makes of tokens, whose
 * channels lie so already; or which a norm reads token by token. */
#include "passes/layout.h"
#include "passes/schedule.h"

enum { HALF_BYTES = 2 };

/* Index `dim` is stored innermost, the others in their order. */
static const Layout *stored_last(Layouts *l, const Cont *c, int dim) {
    Layout *y = NEW(l->arena, Layout);
    Dim *map = NEW_ARRAY(l->arena, Dim, c->rank), *box = NEW_ARRAY(l->arena, Dim, c->rank);
    int n = 0;
    for (int i = 0; i <= c->rank; i++) {
        int k = i == c->rank ? dim : i;
        if (k == dim && i < c->rank) continue;
        map[n] = flow_layout_sym(l->flow->ctx, k);
        box[n++] = c->shape[k];
    }
    *y = (Layout){.rank = n, .map = map, .box = box};
    return y;
}

void layout_turn_weights(Layouts *l, Access *weights, int k) {
    Cont c = l->flow->cont.at[weights->cont];
    c.layout = stored_last(l, &c, k);
    weights->cont = layout_weights(l, weights->cont, &c);
}

/* The contraction a map is, where the machine has a step for what it multiplies. */
static Contraction stepped(const Layouts *l, const Map *m) {
    Contraction r = map_contraction(l->flow, m);
    int x, y;
    r.is = r.is && product_step(l->env->machine, m, &x, &y);
    return r;
}

/* The dim of the sum, or of a batch of them (depthwise), that the channels of the image run along,
 * or -1. */
static int channel_dim(const Map *m, const Contraction *r, Dim channel) {
    for (int d = 0; d < m->dim.n; d++)
        if ((r->role[d] == ROLE_K || r->role[d] == ROLE_BATCH) &&
            dim_uses(channel, m->dim.at[d].sym))
            return d;
    return -1;
}

/* The index of the image that lies side by side: as chosen, or as it is where no layout is. */
static int side_by_side(const Layouts *l, const int *channel, int cont) {
    const Cont *c = &l->flow->cont.at[cont];
    return c->layout ? channel[cont] : c->rank - 1;
}

/* The dim of the map's channels, where these lie side by side in the image that it reads; -1: they
 * do not. */
static int channels_read(const Layouts *l, const int *channel, const Map *m, const Contraction *r) {
    const Access *image = &m->body.val.at[r->a].read;
    int at = side_by_side(l, channel, image->cont);
    bool last = l->flow->cont.at[image->cont].layout || access_slides(m, image);
    return last && at >= 0 ? channel_dim(m, r, image->at[at]) : -1;
}

/* The index of the weights that runs along dim d, where others come behind it; else -1. */
static int weights_index(const Layouts *l, const Map *m, const Access *weights, int d) {
    const Cont *c = &l->flow->cont.at[weights->cont];
    int64_t behind = 1;
    int at = -1;
    for (int k = 0; d >= 0 && k < weights->rank; k++) {
        if (at >= 0) behind *= extent_or(c->shape[k], 2);
        if (dim_uses(weights->at[k], m->dim.at[d].sym)) at = k;
    }
    return behind > 1 ? at : -1;
}

/* Can the weights lie along dim d, too? */
static bool may_turn(const Layouts *l, const Map *m, const Access *weights, int d) {
    return weights_index(l, m, weights, d) < 0 ||
           l->flow->cont.at[weights->cont].kind == CONT_PARAM;
}

/* By container: is it in a region where windows of a product by steps slide over an image that is
 * not the caller's, or that a depthwise one makes of an image with channels last (tokens)? */
static bool *find_wanted(const Layouts *l, const int *channel, const int *region) {
    bool *wanted = NEW_ARRAY(l->arena, bool, l->flow->cont.n + 1);
    for (int i = 0; i < l->flow->map.n; i++) {
        const Map *m = l->flow->map.at[i];
        Contraction r = stepped(l, m);
        const Access *a = r.is ? &m->body.val.at[r.a].read : NULL;
        if (!a || !access_slides(m, a)) continue;
        const Access *weights = &m->body.val.at[r.b].read;
        int at = channel[a->cont], made = m->write.at[0].to[0].cont;
        int d = at >= 0 ? channel_dim(m, &r, a->at[at]) : channels_read(l, channel, m, &r);
        if (at >= 0 && l->flow->cont.at[a->cont].kind == CONT_TMP)
            wanted[region[a->cont]] |= may_turn(l, m, weights, d);
        else if (at < 0 && d >= 0 && r.role[d] == ROLE_BATCH && channel[made] >= 0)
            wanted[region[made]] = true;
    }
    return wanted;
}

/* Does the map reduce the channels of what it reads, and nothing else of it (norms of tokens)? Long
 * rows of them are a warp's work, or a block's. */
static bool reduces_channels(const Layouts *l, const Map *m, const Access *a, int k) {
    int d = access_dim(m, a, k);
    if (d < 0 || !map_reduces(m, d) || map_extent(m, d, 0) < 2 * l->env->machine->warp)
        return false;
    for (int other = 0; other < m->dim.n; other++)
        if (other != d && map_reduces(m, other) && map_extent(m, other, 2) > 1) return false;
    return true;
}

/* And where such norms read what products by steps make. */
static void want_rows(const Layouts *l, const int *channel, const int *region, bool *wanted) {
    for (int i = 0; i < l->flow->map.n; i++) {
        const Map *m = l->flow->map.at[i];
        if (!map_is_reduction(m) || stepped(l, m).is) continue;
        for (int v = 0; v < m->body.val.n; v++) {
            const Val *val = &m->body.val.at[v];
            if (val->kind == VAL_READ && channel[val->read.cont] >= 0 &&
                reduces_channels(l, m, &val->read, channel[val->read.cont]))
                wanted[region[val->read.cont]] = true;
        }
    }
}

static void turn_weights(Layouts *l, const int *channel) {
    for (int i = 0; i < l->flow->map.n; i++) {
        Map *m = l->flow->map.at[i];
        Contraction r = stepped(l, m);
        if (!r.is) continue;
        Access *weights = &m->body.val.at[r.b].read;
        const Cont *c = &l->flow->cont.at[weights->cont];
        int k = weights_index(l, m, weights, channels_read(l, channel, m, &r));
        if (k >= 0 && c->kind == CONT_PARAM && !c->layout) layout_turn_weights(l, weights, k);
    }
}

void layout_last(Layouts *l) {
    static const char *const words[] = {"plain", "last", NULL};
    l->lanes = PIECE_BYTES / HALF_BYTES;
    layouts_survey(l);
    const int *channel = layout_channels(l), *region = layout_regions(l, channel);
    bool *wanted = find_wanted(l, channel, region);
    want_rows(l, channel, region, wanted);
    for (int k = 0; k < l->flow->cont.n; k++) {
        Cont *c = &l->flow->cont.at[k];
        if (channel[k] < 0 || c->kind != CONT_TMP || !wanted[region[k]]) continue;
        if (recipe_decide(l->env, "layout", c->name, words, true))
            c->layout = stored_last(l, c, channel[k]);
    }
    turn_weights(l, channel);
}
