/* SPDX-License-Identifier: Apache-2.0 */
/* Reductions over groups of channels (group norm), on a machine of blocks of threads.
 *
 * An index of what is read joins the group, a result, with a channel of it, which is reduced.
 * Images that products by steps make and read have their channels side by side (layout_last.c): a
 * group is a few of these at every place, threads along places would fetch a sector each for a few
 * bytes, and along channels most have nothing to do. Channel by channel, results lie side by side
 * over all groups; and as these are too few for threads that each go through all places, places are
 * cut, too, so that there are blocks of neighbouring channels for every core. */
#include "passes/split.h"

/* Parts of a group at most; neighbours that a block takes; blocks for each core; elements of a part
 * at least. */
enum { CHANNELS_MOST = 32, NEIGHBOURS = 32, CORE_BLOCKS = 4, PART_LEAST = 64, PLACES_LEAST = 16 };

/* The reduced dim that an index of a read joins with one of the results; -1: there is none. */
static int channel_dim(const Flow *flow, const Map *m) {
    int outer, inner;
    for (int v = 0; v < m->body.val.n; v++) {
        const Val *val = &m->body.val.at[v];
        if (val->kind != VAL_READ || val->has_else) continue;
        for (int k = 0; k < val->read.rank - 1; k++)
            if (joined_dims(flow, m, val->read.at[k], &outer, &inner) && !map_reduces(m, outer) &&
                map_reduces(m, inner))
                return inner;
    }
    return -1;
}

/* Does every read that is reduced know the channels, and each other reduced dim as an index of its
 * own? Else it is a product, or a pool. How many places there usually are, then, else 0. */
static double places_of(const Flow *flow, const Map *m, int channel) {
    double places = 1;
    for (int d = 0; d < m->dim.n; d++) {
        if (!map_reduces(m, d) || d == channel) continue;
        places *= (double)map_usual(flow, m, d);
        for (int v = 0; v < m->body.val.n; v++) {
            const Val *val = &m->body.val.at[v];
            if (val->kind != VAL_READ || !access_reduced(m, &val->read)) continue;
            if (access_plain(m, &val->read, d) < 0 || !access_uses(m, &val->read, channel))
                return 0;
        }
    }
    return places;
}

/* All channels of a group, or as many equal parts of them as may be. */
static int parts_of(int64_t channels) {
    int parts = CHANNELS_MOST;
    while (channels % parts) parts--;
    return parts;
}

/* Equal parts of the longest dim that is left. */
static Parting parts_of_places(const Machine *machine, const Map *m) {
    Parting p = {.dim = -1, .n = 1, .name = "part"};
    double results = 1, each = 1;
    for (int d = 0; d < m->dim.n; d++) {
        *(map_reduces(m, d) ? &each : &results) *= (double)map_extent(m, d, 1);
        if (map_reduces(m, d) && (p.dim < 0 || map_extent(m, d, 1) > map_extent(m, p.dim, 1)))
            p.dim = d;
    }
    while (map_extent(m, p.dim, 1) % (p.n * 2) == 0 && each >= 2 * p.n * PART_LEAST &&
           results * p.n < (double)CORE_BLOCKS * NEIGHBOURS * machine->cores)
        p.n *= 2;
    return p;
}

bool split_channels(Editing *e, const PassEnv *env, Map *m, Items *into) {
    static const char *const words[] = {"together", "apart", NULL};
    if (!env->machine->block_threads || !plain_reduction(m)) return false;
    int dim = channel_dim(e->flow, m);
    int64_t channels = dim < 0 ? -1 : map_extent(m, dim, -1);
    if (channels < 2 || parts_of(channels) < 2 || places_of(e->flow, m, dim) < PLACES_LEAST)
        return false;
    const char *name = internf(e->flow->ctx, "%s.channels", m->name);
    if (!recipe_decide(env, "split", name, words, true)) return false;
    Items channel = {0};
    split_map(e, m, &(Parting){dim, parts_of(channels), true, "channel"}, &channel);
    Parting places = parts_of_places(env->machine, m);
    if (places.n > 1) split_map(e, m, &places, into);
    vec_push(e->flow->arena, into, channel.at[0]);
    return true;
}
