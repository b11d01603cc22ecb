/* SPDX-License-Identifier: Apache-2.0 */
/* Keys and n-grams by the numbers of those that are known. Meaning: ir/call.def. Tables come from
 * the model; every number in them that is a place is checked before it is used. */
#include "runtime/calls.h"
#include "runtime/keys.h"
#include "runtime/objects.h"

#include <string.h>

#define HASH UINT64_C(0x9e3779b97f4a7c15) /* an odd number near 2^64 by the golden ratio */

/* Equal ones have equal hashes: strings by their bytes, whatever their handles. */
static uint64_t hash_of(const weir_call *c, const weir_tensor *t, int64_t i) {
    return t->dtype == WEIR_STRING
               ? weir_text_hash(weir_text_of(c->objects, ((const int64_t *)t->data)[i]))
               : weir_key(t->dtype, t->data, i);
}

/* One more key of an n-gram. */
static uint64_t hash_more(uint64_t hash, uint64_t key) {
    hash = (hash ^ key) * HASH;
    return hash ^ hash >> 32;
}

/* Slots of a table, a power of two, the last one in `last`; their numbers are of 1 .. most. */
typedef struct Slots {
    const int32_t *at;
    uint64_t last;
    int64_t most;
} Slots;

static int take_slots(weir_call *c, const weir_tensor *slot, int64_t most, Slots *s) {
    *s = (Slots){slot->data, (uint64_t)slot->dims[0] - 1, most};
    if (slot->dims[0] < 1) fails(c, WEIR_E_ARGUMENT, "a table has no slots");
    return slot->dims[0] > 0;
}

/* The number in a slot, less 1; -1: free, or none of these. */
static int64_t number_in(const Slots *s, uint64_t at) {
    int64_t k = s->at[at & s->last];
    return k > 0 && k <= s->most ? k - 1 : -1;
}

/* N-grams of one length n: `count` of them from `pool` on, the first is number `first` among all.
 */
typedef struct Grams {
    int64_t n, from, count, first;
} Grams;

static void torn(weir_call *c) {
    fails(c, WEIR_E_INDEX, "the n-grams of a vectorizer are torn");
}

/* The n-grams of the next length: n is 0 before the first. 0 behind the last. */
static int next_grams(weir_call *c, const weir_tensor *pool, const weir_tensor *start, Grams *g) {
    int64_t lengths = start->data ? start->dims[0] : 1, n = ++g->n;
    if (n > lengths) return 0;
    const int64_t *at = start->data;
    int64_t end = n < lengths ? at[n] : pool->dims[0];
    g->first += g->count;
    g->from = at ? at[n - 1] : 0;
    g->count = (end - g->from) / n;
    if (g->from >= 0 && g->from <= end && end <= pool->dims[0]) return 1;
    torn(c);
    return 0;
}

/* ---- slots ----------------------------------------------------------------------------------- */

NO_SCRATCH(slots)

static uint64_t hash_gram(const weir_call *c, const weir_tensor *pool, int64_t from, int64_t n) {
    uint64_t hash = 0;
    for (int64_t i = 0; i < n; i++) hash = hash_more(hash, hash_of(c, pool, from + i));
    return hash;
}

void weir_call_slots(weir_call *c) {
    static const weir_tensor none;
    const weir_tensor *pool = &c->in[0], *start = c->nin > 1 ? &c->in[1] : &none;
    uint64_t slots = (uint64_t)c->out[0].dims[0];
    int32_t *slot = c->out[0].data;
    memset(slot, 0, slots * sizeof *slot);
    for (Grams g = {0}; next_grams(c, pool, start, &g);)
        for (int64_t k = g.count - 1; k >= 0; k--) {
            uint64_t at = hash_gram(c, pool, g.from + k * g.n, g.n), tries = slots;
            while (tries && slot[at & (slots - 1)]) at++, tries--;
            if (!tries || g.first + k >= INT32_MAX)
                return fails(c, WEIR_E_ARGUMENT, "a table has too few slots for its keys");
            slot[at & (slots - 1)] = (int32_t)(g.first + k + 1);
        }
}

/* ---- lookup ---------------------------------------------------------------------------------- */

NO_SCRATCH(lookup)

static int same_key(const weir_tensor *a, int64_t i, const weir_tensor *b, int64_t k) {
    if (a->dtype == WEIR_STRING) return ((int64_t *)a->data)[i] == ((int64_t *)b->data)[k];
    return weir_key(a->dtype, a->data, i) == weir_key(b->dtype, b->data, k);
}

void weir_call_lookup(weir_call *c) {
    const weir_tensor *x = &c->in[0], *keys = &c->in[1];
    Slots s;
    if (!take_slots(c, &c->in[2], keys->dims[0], &s)) return;
    weir_share part = weir_share_of(c, weir_tensor_count(x), 1);
    int64_t *to = c->out[0].data;
    for (int64_t i = part.lo; i < part.hi; i++) {
        uint64_t at = hash_more(0, hash_of(c, x, i)), end = at + s.last;
        int64_t k = number_in(&s, at);
        while (k >= 0 && !same_key(x, i, keys, k)) k = at++ < end ? number_in(&s, at) : -1;
        to[i] = k;
    }
}

/* ---- tfidf ----------------------------------------------------------------------------------- */

enum { MODE_TF, MODE_IDF, MODE_TFIDF };

/* A hash for each element of a row. */
int64_t weir_call_tfidf_scratch(const weir_call *c) {
    return 8 * c->in[0].dims[c->in[0].rank - 1];
}

/* The gram of every `step`-th element from `at` on; -1: none. */
static int64_t gram_at(const Slots *s, const Grams *g, const int64_t *pool, const int64_t *at,
                       const uint64_t *key, int64_t step) {
    uint64_t hash = 0;
    for (int64_t i = 0; i < g->n; i++) hash = hash_more(hash, key[i * step]);
    for (uint64_t end = hash + s->last;; hash++) {
        int64_t k = number_in(s, hash), of = k - g->first, i = 0;
        if (k < 0) return -1;
        if (of >= 0 && of < g->count)
            while (i < g->n && pool[g->from + of * g->n + i] == at[i * step]) i++;
        if (i == g->n) return k;
        if (hash == end) return -1;
    }
}

/* The n-grams of a row of which all elements have their hashes in scratch. */
static void count_row(weir_call *c, const Slots *s, const Grams *g, int64_t row, int64_t columns) {
    const int64_t *pool = c->in[1].data, *index = c->in[4].data,
                  room = c->out[0].dims[c->out[0].rank - 1];
    const int64_t *x = (const int64_t *)c->in[0].data + row * columns;
    const float *weight = c->in[5].data;
    const uint64_t *key = c->scratch;
    float *to = (float *)c->out[0].data + row * room;
    int64_t mode = c->attr[3], skips = g->n == 1 ? 0 : c->attr[2];
    for (int64_t step = 1; step <= skips + 1; step++) {
        if (g->n > 1 && step > (columns - 1) / (g->n - 1)) break;
        for (int64_t at = 0; at + (g->n - 1) * step < columns; at++) {
            int64_t k = gram_at(s, g, pool, x + at, key + at, step);
            if (k < 0) continue;
            if (index[k] < 0 || index[k] >= room)
                return fails(c, WEIR_E_INDEX, "an n-gram has no place");
            float w = weight ? weight[k] : 1;
            to[index[k]] = mode == MODE_TF    ? to[index[k]] + 1
                           : mode == MODE_IDF ? w
                                              : to[index[k]] + w;
        }
    }
}

void weir_call_tfidf(weir_call *c) {
    const weir_tensor *x = &c->in[0], *pool = &c->in[1], *start = &c->in[2];
    int64_t columns = x->dims[x->rank - 1], rows = x->rank > 1 ? x->dims[0] : 1;
    int64_t room = c->out[0].dims[c->out[0].rank - 1];
    weir_share part = weir_share_of(c, rows, columns + room);
    Slots s;
    if (!take_slots(c, &c->in[3], c->in[4].dims[0], &s)) return;
    uint64_t *key = c->scratch;
    for (int64_t r = part.lo; r < part.hi && !c->status; r++) {
        memset((float *)c->out[0].data + r * room, 0, sizeof(float) * (size_t)room);
        for (int64_t i = 0; i < columns; i++) key[i] = hash_of(c, x, r * columns + i);
        for (Grams g = {0}; next_grams(c, pool, start, &g);) {
            if (g.first + g.count > s.most) return torn(c);
            if (g.n >= c->attr[0] && g.n <= c->attr[1]) count_row(c, &s, &g, r, columns);
        }
    }
}
