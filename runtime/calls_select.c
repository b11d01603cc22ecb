/* SPDX-License-Identifier: Apache-2.0 */
/* Irregular kernels that select elements: nonzero, topk, unique, value, refuse. Meaning:
 * ir/call.def. */
#include "runtime/calls.h"
#include "runtime/instance.h"
#include "runtime/keys.h"

#include <stdbool.h>
#include <string.h>

/* ---- nonzero --------------------------------------------------------------------------------- */

int64_t weir_call_nonzero_scratch(const weir_call *c) {
    (void)c;
    return 0;
}

static int is_zero(const weir_tensor *x, int64_t i) {
    static const uint64_t zero = 0;
    int32_t type = x->dtype;
    weir_tensor part = *x;
    part.dtype = weir_part(type);
    if (part.dtype == type) return weir_key(type, x->data, i) == weir_key(type, &zero, 0);
    return is_zero(&part, 2 * i) && is_zero(&part, 2 * i + 1);
}

/* Marks elements from .. from + n - 1 that are not zero by 1, others by 0; returns how many are
 * marked. */
static int64_t mark(const weir_tensor *x, int64_t from, int64_t n, uint8_t *marks) {
#define MARK(code, T)                                                                              \
    case code: {                                                                                   \
        const T *at = (const T *)x->data + from;                                                   \
        for (int64_t i = 0; i < n; i++) marks[i] = at[i] != 0;                                     \
        break;                                                                                     \
    }
    switch (x->dtype) {
        MARK(WEIR_F32, float)
        MARK(WEIR_F64, double)
        MARK(WEIR_I64, int64_t)
        MARK(WEIR_I32, int32_t)
        MARK(WEIR_U8, uint8_t)
        MARK(WEIR_BOOL, uint8_t)
    default:
        for (int64_t i = 0; i < n; i++) marks[i] = !is_zero(x, from + i);
    }
#undef MARK
    int64_t count = 0;
    for (int64_t i = 0; i < n; i++) count += marks[i];
    return count;
}

enum { MARKS = 1024 };

static int64_t count_nonzero(const weir_tensor *x) {
    uint8_t marks[MARKS];
    int64_t n = weir_tensor_count(x), count = 0;
    for (int64_t i = 0; i < n; i += MARKS)
        count += mark(x, i, n - i < MARKS ? n - i : MARKS, marks);
    return count;
}

/* Counts, then writes column by column: the rows of the result are K apart. The last index of every
 * element is written and kept only where the element is not zero, so that no branch depends on the
 * data; what the last one leaves behind the end lies in the room for more results. */
void weir_call_nonzero(weir_call *c) {
    const weir_tensor *x = &c->in[0];
    int64_t n = weir_tensor_count(x), count = count_nonzero(x), at = 0, index[WEIR_RANK_MAX] = {0};
    int64_t *to = c->out[0].data, row = x->rank ? x->dims[x->rank - 1] : 1;
    int outer = x->rank > 1 ? x->rank - 1 : 0;
    uint8_t marks[MARKS];
    for (int64_t i = 0; i < n; i += row) {
        for (int64_t from = 0; from < row; from += MARKS) {
            int64_t m = row - from < MARKS ? row - from : MARKS, before = at;
            mark(x, i + from, m, marks);
            for (int64_t k = 0; x->rank && k < m; k++) {
                to[outer * count + at] = from + k;
                at += marks[k];
            }
            for (int d = 0; d < outer; d++)
                for (int64_t k = before; k < at; k++) to[d * count + k] = index[d];
        }
        for (int d = outer - 1; d >= 0 && ++index[d] == x->dims[d]; d--) index[d] = 0;
    }
    c->define[0] = count;
}

/* ---- topk ------------------------------------------------------------------------------------ */

/* Pairs of a row that are held at a time: k to keep and as many candidates, or all where that is
 * cheaper. */
static int64_t topk_room(int64_t n, int64_t k) {
    int64_t more = k < 32 ? 32 : k;
    return k > n / 8 || n - k <= more ? n : k + more;
}

/* As many pairs again for the sort. */
int64_t weir_call_topk_scratch(const weir_call *c) {
    int64_t n = c->in[0].dims[c->attr[0]], k = c->out[0].dims[c->attr[0]], bytes;
    int64_t size = 2 * sizeof(weir_pair);
    if (k > n) return 0;
    return __builtin_mul_overflow(topk_room(n, k), size, &bytes) ? INT64_MAX : bytes;
}

/* One row: elements first, first + step, ... */
typedef struct Row {
    const weir_tensor *x;
    int64_t first, step, n;
    bool largest;
} Row;

/* Keys are inverted when the largest are wanted, so that the first pairs are always the ones to
 * keep. */
static weir_pair pair_of(const Row *r, int64_t i) {
    uint64_t key = weir_key(r->x->dtype, r->x->data, r->first + i * r->step);
    return (weir_pair){r->largest ? ~key : key, i};
}

enum { BLOCK = 32, WAYS = 8 };

/* Both ways of comparing elements of the types that are compared as they are. */
#define EITHER(code, T)                                                                            \
    case code:                                                                                     \
        if (r->largest)                                                                            \
            EACH(T, <, <=, >)                                                                      \
        else                                                                                       \
            EACH(T, >, >=, <)
#define TYPES                                                                                      \
    EITHER(WEIR_F32, float)                                                                        \
    EITHER(WEIR_F64, double) EITHER(WEIR_I64, int64_t) EITHER(WEIR_I32, int32_t)

/* The first of elements i, i + 1, ... that may belong in front of element *cut, a block at a time;
 * `ties`: or be as good. Elements are compared as they are, which says too much of NaN and of types
 * that are not listed. */
static int64_t candidate(const Row *r, int64_t i, const void *cut, bool ties) {
#define SCAN(T, op)                                                                                \
    {                                                                                              \
        const T *x = (const T *)r->x->data + r->first, c = *(const T *)cut;                        \
        for (; r->step == 1 && i + BLOCK <= r->n; i += BLOCK) {                                    \
            int any = 0;                                                                           \
            for (int k = 0; k < BLOCK; k++) any |= !(x[i + k] op c);                               \
            if (any) break;                                                                        \
        }                                                                                          \
        while (i < r->n && x[i * r->step] op c) i++;                                               \
        return i;                                                                                  \
    }
#define EACH(T, worse, no_better, better)                                                          \
    {                                                                                              \
        if (ties) SCAN(T, worse)                                                                   \
        SCAN(T, no_better)                                                                         \
    }
    switch (r->x->dtype) {
        TYPES
    default: return i;
    }
#undef EACH
#undef SCAN
}

/* The best of n elements from i on, n a multiple of WAYS; false: of a type that is not listed. NaN
 * is passed over, but for the first ones. */
static bool best_of(const Row *r, int64_t i, int64_t n, void *best) {
#define EACH(T, worse, no_better, better)                                                          \
    {                                                                                              \
        const T *x = (const T *)r->x->data + r->first + i;                                         \
        T way[WAYS];                                                                               \
        memcpy(way, x, sizeof way);                                                                \
        for (int64_t j = WAYS; j < n; j += WAYS)                                                   \
            for (int k = 0; k < WAYS; k++) way[k] = x[j + k] better way[k] ? x[j + k] : way[k];    \
        for (int k = 1; k < WAYS; k++) way[0] = way[k] better way[0] ? way[k] : way[0];            \
        memcpy(best, way, sizeof *way);                                                            \
        return true;                                                                               \
    }
    switch (r->x->dtype) {
        TYPES
    default: return false;
    }
#undef EACH
}

/* A value that k elements of the row at least are as good as: the k-th best of the best of blocks,
 * of which the pairs hold as many as there is room for. False: none is known. */
static bool find_bar(const Row *r, weir_pair *pairs, int64_t room, int64_t k, void *bar) {
    int64_t length = (r->n / room + WAYS) / WAYS * WAYS, blocks = r->n / length;
    if (r->step != 1 || blocks < k) return false;
    for (int64_t j = 0; j < blocks; j++) {
        if (!best_of(r, j * length, length, bar)) return false;
        uint64_t key = weir_key(r->x->dtype, bar, 0);
        pairs[j] = (weir_pair){r->largest ? ~key : key, j};
    }
    weir_sort_pairs(pairs, pairs + room, blocks);
    return best_of(r, pairs[k - 1].index * length, length, bar);
}

/* The k first pairs in order. Candidates are gathered until there is no more room, then all are
 * sorted and k stay: their last one is what later elements must come before. Rounds double in
 * length, so that sorting takes no more than looking. The sort is stable and later elements stand
 * behind: equal ones go by index. */
static void select_row(const Row *r, weir_pair *pairs, int64_t k) {
    int64_t room = topk_room(r->n, k), held = 0, i = 0;
    uint64_t bar;
    bool known = room < r->n && find_bar(r, pairs, room, k, &bar);
    for (; held < room && i < r->n; i++) {
        if (known && (i = candidate(r, i, &bar, true)) == r->n) break;
        pairs[held++] = pair_of(r, i);
    }
    weir_sort_pairs(pairs, pairs + room, held);
    while (i < r->n) {
        uint64_t last = 0;
        weir_move(r->x->dtype, &last, 0, r->x->data, r->first + pairs[k - 1].index * r->step);
        for (held = k; held < room && (i = candidate(r, i, &last, false)) < r->n; i++) {
            weir_pair p = pair_of(r, i);
            if (p.key < pairs[k - 1].key) pairs[held++] = p;
        }
        weir_sort_pairs(pairs, pairs + room, held);
    }
}

enum { FEW = 16 };

/* The same for few pairs, which each candidate is put among. */
static void select_few(const Row *r, weir_pair *pairs, int64_t k) {
    int64_t held = 0, i = 0;
    while (i < r->n) {
        weir_pair p = pair_of(r, i++);
        if (held < k || p.key < pairs[k - 1].key) {
            int64_t at = held < k ? held++ : k - 1;
            for (; at > 0 && pairs[at - 1].key > p.key; at--) pairs[at] = pairs[at - 1];
            pairs[at] = p;
        }
        if (held < k) continue;
        uint64_t last = 0;
        weir_move(r->x->dtype, &last, 0, r->x->data, r->first + pairs[k - 1].index * r->step);
        i = candidate(r, i, &last, false);
    }
}

#undef TYPES
#undef EITHER

static void topk_row(const weir_call *c, Row r, int64_t to, int64_t k) {
    weir_pair *pairs = c->scratch;
    int64_t *index = c->out[1].data;
    if (k <= FEW)
        select_few(&r, pairs, k);
    else
        select_row(&r, pairs, k);
    for (int64_t i = 0; i < k; i++) {
        if (c->out[0].data)
            weir_move(r.x->dtype, c->out[0].data, to + i * r.step, r.x->data,
                      r.first + pairs[i].index * r.step);
        if (index) index[to + i * r.step] = pairs[i].index;
    }
}

void weir_call_topk(weir_call *c) {
    const weir_tensor *x = &c->in[0];
    int64_t axis = c->attr[0], n = x->dims[axis], k = c->out[0].dims[axis], outer = 1, inner = 1;
    if (k > n) {
        c->status = WEIR_E_ARGUMENT;
        c->reason = "more elements are asked of top-k than the axis has";
        return;
    }
    for (int64_t d = 0; d < axis; d++) outer *= x->dims[d];
    for (int64_t d = axis + 1; d < x->rank; d++) inner *= x->dims[d];
    weir_share part = weir_share_of(c, outer * inner, weir_bytes(x->dtype, 2) > 1 ? n : 0);
    for (int64_t r = part.lo; k > 0 && r < part.hi; r++) {
        int64_t o = r / inner, i = r % inner;
        topk_row(c, (Row){x, o * n * inner + i, inner, n, c->attr[1]}, o * k * inner + i, k);
    }
}

/* ---- unique ---------------------------------------------------------------------------------- */

/* The slices that are compared: element e of slice s lies at s*step + (e / inner)*outer_step + e %
 * inner. */
typedef struct Slices {
    const weir_call *c;
    const weir_tensor *x;
    int64_t n, length, step, inner, outer_step;
} Slices;

static int64_t slice_at(const Slices *s, int64_t slice, int64_t e) {
    return slice * s->step + e / s->inner * s->outer_step + e % s->inner;
}

static int slice_order(const Slices *s, int64_t a, int64_t b) {
    for (int64_t e = 0; e < s->length; e++) {
        int order = weir_order(s->c, s->x, slice_at(s, a, e), slice_at(s, b, e));
        if (order) return order;
    }
    return 0;
}

static int slice_less(void *user, int64_t a, int64_t b) {
    return slice_order(user, a, b) < 0;
}

static Slices slices_of(const weir_call *c) {
    const weir_tensor *x = &c->in[0];
    int64_t axis = c->attr[0], n = weir_tensor_count(x);
    if (axis < 0) return (Slices){c, x, n, 1, 1, 1, 1};
    Slices s = {c, x, x->dims[axis], 0, 1, 1, 1};
    for (int64_t d = axis + 1; d < x->rank; d++) s.inner *= x->dims[d];
    s.step = s.inner;
    s.outer_step = s.inner * s.n;
    s.length = s.n ? n / s.n : 0;
    if (s.inner == 0) s.inner = 1;
    return s;
}

/* Do single elements stand for the slices, with keys that say all of their order? */
static bool one_key(const Slices *s) {
    return s->length == 1 && s->x->dtype != WEIR_STRING && s->x->dtype != WEIR_C64 &&
           s->x->dtype != WEIR_C128;
}

/* Four rows of indices, and pairs to sort or as many as a merge needs. */
int64_t weir_call_unique_scratch(const weir_call *c) {
    int64_t bytes;
    return __builtin_mul_overflow(slices_of(c).n,
                                  (int64_t)(4 * sizeof(int64_t) + 2 * sizeof(weir_pair)), &bytes)
               ? INT64_MAX
               : bytes;
}

/* Sorted slices fall into groups; group g is numbered place[g] in the result. */
typedef struct Groups {
    int64_t *order, *group, *first, *place;
    int64_t n;
} Groups;

/* order[i] is the slice that comes i-th; equal ones stay as they were. */
static void sort_slices(Slices *s, Groups *g, weir_pair *pairs) {
    for (int64_t i = 0; i < s->n; i++) g->order[i] = i;
    if (!one_key(s)) {
        weir_sort(g->order, g->group, s->n, slice_less, s);
        return;
    }
    for (int64_t i = 0; i < s->n; i++)
        pairs[i] = (weir_pair){weir_key(s->x->dtype, s->x->data, slice_at(s, i, 0)), i};
    weir_sort_pairs(pairs, pairs + s->n, s->n);
    for (int64_t i = 0; i < s->n; i++) g->order[i] = pairs[i].index;
}

static Groups group_slices(const weir_call *c, Slices *s) {
    int64_t *scratch = c->scratch, found = 0;
    Groups g = {scratch, scratch + s->n, scratch + 2 * s->n, scratch + 3 * s->n, 0};
    sort_slices(s, &g, (weir_pair *)(scratch + 4 * s->n));
    for (int64_t i = 0; i < s->n; i++) {
        if (i == 0 || slice_order(s, g.order[i - 1], g.order[i]) != 0) g.first[g.n++] = g.order[i];
        g.group[g.order[i]] = g.n - 1;
    }
    for (int64_t k = 0; k < g.n; k++) g.place[k] = k;
    if (c->attr[1]) return g;
    for (int64_t i = 0; i < s->n; i++)
        if (g.first[g.group[i]] == i) g.place[g.group[i]] = found++;
    return g;
}

void weir_call_unique(weir_call *c) {
    Slices s = slices_of(c);
    Groups g = group_slices(c, &s);
    int64_t *first = c->out[1].data, *inverse = c->out[2].data, *counts = c->out[3].data;
    Slices to = s;
    to.outer_step = s.inner * g.n;
    for (int64_t k = 0; k < g.n; k++) {
        if (first) first[g.place[k]] = g.first[k];
        if (counts) counts[k] = 0;
        for (int64_t e = 0; c->out[0].data && e < s.length; e++)
            weir_move(s.x->dtype, c->out[0].data, slice_at(&to, g.place[k], e), s.x->data,
                      slice_at(&s, g.first[k], e));
    }
    for (int64_t i = 0; i < s.n; i++) {
        int64_t k = g.place[g.group[i]];
        if (inverse) inverse[i] = k;
        if (counts) counts[k]++;
    }
    c->define[0] = g.n;
}

/* ---- value ----------------------------------------------------------------------------------- */

int64_t weir_call_value_scratch(const weir_call *c) {
    (void)c;
    return 0;
}

void weir_call_value(weir_call *c) {
    const weir_tensor *x = &c->in[0];
    int64_t v = 0;
    uint64_t key = weir_key(x->dtype, x->data, c->attr[0]);
    switch (x->dtype) {
    case WEIR_I64: v = (int64_t)(key ^ UINT64_C(1) << 63); break;
    case WEIR_I32: v = (int64_t)key - (INT64_C(1) << 31); break;
    case WEIR_I16: v = (int64_t)key - (1 << 15); break;
    case WEIR_I8: v = (int64_t)key - (1 << 7); break;
    default: v = key > INT64_MAX ? INT64_MAX : (int64_t)key;
    }
    c->define[0] = v < c->attr[1] ? c->attr[1] : v > c->attr[2] ? c->attr[2] : v;
}

/* ---- refuse ---------------------------------------------------------------------------------- */

int64_t weir_call_refuse_scratch(const weir_call *c) {
    (void)c;
    return 0;
}

void weir_call_refuse(weir_call *c) {
    static const char *const why[] = {
        "a branch whose results have another rank was taken: these input sizes are not compiled",
        "a condition does not have one element", "an axis is none of those that a result may have"};
    c->status = WEIR_E_ARGUMENT;
    c->reason = why[c->attr[0]];
}
