/* SPDX-License-Identifier: Apache-2.0 */
/* Sizes that inputs usually have, where only the run knows them: what costs and choices count. */
#include "passes/access.h"

/* What a size that is not known counts as: the side of a picture, samples of sound (a second of
 * speech), a batch of things that have several dims, a length. */
enum { USUAL_SIDE = 224, USUAL_SAMPLES = 16000, USUAL_BATCH = 4, USUAL_LENGTH = 64 };

/* Does dim k of an input count the samples of a recording, or of each of a batch? */
static bool counts_samples(const Cont *in, int k) {
    if (!dtype_is_float(in->type) || in->rank < 2 || in->rank > 3 || k != in->rank - 1)
        return false;
    Dim channels = in->shape[in->rank - 2];
    return dim_is(channels, 1) || (in->rank == 2 && !dim_is_const(channels, NULL));
}

/* As dim k of an input says what it counts, or 0: images have two sides behind their channels, or
 * in front of a few. */
static int64_t usual_as(const Cont *in, int k) {
    int64_t last;
    bool image = in->rank == 4 && dtype_is_float(in->type);
    bool channels_last = image && dim_is_const(in->shape[3], &last) && last <= 4;
    if (image && k >= (channels_last ? 1 : 2) && k < (channels_last ? 3 : 4)) return USUAL_SIDE;
    if (counts_samples(in, k)) return USUAL_SAMPLES;
    bool batch = in->rank > 2 || (in->rank == 2 && !dim_is_const(in->shape[1], NULL));
    return batch && !k ? USUAL_BATCH : 0;
}

/* Masks have as many elements as what they mask: where another input had the symbol before, floats
 * are no samples. */
static int64_t usual_symbol(const Flow *flow, Dim sym) {
    int64_t usual = 0;
    bool seen = false;
    for (int c = 0; c < flow->cont.n; c++)
        for (int k = 0; flow->cont.at[c].kind == CONT_IN && k < flow->cont.at[c].rank; k++) {
            if (!dim_uses(flow->cont.at[c].shape[k], sym)) continue;
            int64_t as = usual_as(&flow->cont.at[c], k);
            if (as == USUAL_SAMPLES && seen) as = 0;
            usual = as > usual ? as : usual;
            seen = true;
        }
    return usual ? usual : USUAL_LENGTH;
}

/* Sizes that have so much of the usual one. */
typedef struct Sized {
    const Flow *flow;
    double part;
} Sized;

static bool usual_value(void *user, Dim sym, int64_t *value) {
    const Sized *sized = user;
    const Flow *flow = sized->flow;
    *value = (int64_t)((double)usual_symbol(flow, sym) * sized->part);
    for (int i = 0; i < flow->symbol.n; i++) {
        const Symbol *s = &flow->symbol.at[i];
        if (s->sym != sym) continue;
        if (*value > s->hi) *value = s->hi;
        if (*value < s->lo) *value = s->lo;
    }
    return true;
}

/* A difference of sizes that would be negative counts as a length. */
int64_t sized_extent(const Flow *flow, Dim extent, double part) {
    int64_t n;
    if (dim_is_const(extent, &n)) return n;
    bool known = dim_eval(extent, usual_value, &(Sized){flow, part}, &n);
    return known && n > 0 ? n : USUAL_LENGTH;
}

int64_t usual_extent(const Flow *flow, Dim extent) {
    return sized_extent(flow, extent, 1);
}

int64_t map_usual(const Flow *flow, const Map *map, int dim) {
    return usual_extent(flow, map->dim.at[dim].extent);
}

double map_usual_volume(const Flow *flow, const Map *map) {
    double v = 1;
    for (int d = 0; d < map->dim.n; d++) v *= (double)map_usual(flow, map, d);
    return v;
}
