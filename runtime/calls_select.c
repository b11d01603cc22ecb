/* SPDX-License-Identifier: Apache-2.0 */
/* Irregular kernels that select elements: nonzero, topk, unique, value, refuse. Meaning:
 * ir/call.def. */
#include "runtime/calls.h"
#include "runtime/instance.h"
#include "runtime/keys.h"
#include "runtime/objects.h"

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

/* BLOCK elements are compared at once; groups of a row are a multiple of WAYS. Rows that lie across
 * others are gathered, LANES at a time or about GATHERED elements; those of more than SHORT only if
 * at least WORTH rows go. */
enum { BLOCK = 32, WAYS = 16, LANES = 16, GATHERED = 1 << 18, WORTH = 4, SHORT = 4096 };

/* A row whose elements are `step` apart, of a type that is compared as it is. */
typedef struct Row {
    const void *data;
    int64_t n, step;
    int32_t dtype;
    bool largest;
} Row;

/* Where rows are worked on. `spare` has room for as many pairs as `pairs`, `best` for an element of
 * each group, `rows` for as many rows as lanes. No groups: all elements of a row are pairs; no
 * lanes: rows are looked at where they lie. */
typedef struct Work {
    weir_pair *pairs, *spare;
    void *best, *rows;
    int64_t room, groups, lanes;
} Work;

/* The type that elements are compared as: the four that have loops of their own, else keys. */
static int32_t compared(int32_t dtype) {
    bool own = dtype == WEIR_F32 || dtype == WEIR_F64 || dtype == WEIR_I32;
    return own ? dtype : WEIR_I64;
}

static int64_t inner_of(const weir_call *c) {
    int64_t inner = 1;
    for (int64_t d = c->attr[0] + 1; d < c->in[0].rank; d++) inner *= c->in[0].dims[d];
    return inner;
}

/* Rows are gathered this far apart, so that they do not all want the same places of a cache. */
static int64_t pitch_of(int64_t n) {
    return n + LANES;
}

/* Sizes of what rows are worked on with; returns the bytes of all. */
static int64_t plan_work(const weir_call *c, Work *w) {
    const weir_tensor *x = &c->in[0];
    int64_t n = x->dims[c->attr[0]], k = c->out[0].dims[c->attr[0]], inner = inner_of(c);
    int32_t type = compared(x->dtype);
    *w = (Work){.room = n};
    if (k > n || k <= 0) return 0;
    if (n > INT64_MAX / 128) return INT64_MAX;
    int64_t groups = (k + k / 2 + WAYS - 1) / WAYS * WAYS;
    if (2 * groups <= n) w->groups = groups, w->room = groups + groups / 2 + BLOCK;
    if (inner > 1 || type != x->dtype) {
        int64_t lanes = GATHERED / n < LANES ? GATHERED / n : LANES;
        if (lanes > inner) lanes = inner;
        w->lanes = lanes >= WORTH || n <= SHORT ? lanes : type != x->dtype;
    }
    return 2 * w->room * (int64_t)sizeof(weir_pair) + w->groups * 8 +
           w->lanes * weir_bytes(type, pitch_of(n));
}

int64_t weir_call_topk_scratch(const weir_call *c) {
    Work w;
    return plan_work(c, &w);
}

static void place_work(Work *w, void *scratch) {
    w->pairs = scratch;
    w->spare = w->pairs + w->room;
    w->best = w->spare + w->room;
    w->rows = (char *)w->best + w->groups * 8;
}

/* Both ways of comparing elements. */
#define EITHER(code, T)                                                                            \
    case code:                                                                                     \
        if (r->largest)                                                                            \
            EACH(T, <, <=, >)                                                                      \
        else                                                                                       \
            EACH(T, >, >=, <)                                                                      \
        break;
#define TYPES                                                                                      \
    EITHER(WEIR_F32, float)                                                                        \
    EITHER(WEIR_F64, double) EITHER(WEIR_I64, int64_t) EITHER(WEIR_I32, int32_t)

/* Puts those of elements i, i + 1, ... that may belong in front of *bar behind the `held` pairs, as
 * long as there is room; `ties`: or be as good. Says too much of NaN. Returns the first element
 * that was not looked at. Counting those that stay out is what compilers make vectors of; elements
 * of 8 bytes are compared one by one without AVX, then fewer sums are better. */
static int64_t pick(const Row *r, int64_t i, const void *bar, bool ties, const Work *w,
                    int64_t *held) {
    weir_pair *pairs = w->pairs;
    int64_t h = *held, room = w->room;
#define OUT(T, op, j) ((x[i + (j)] op b) & (x[i + (j) + 1] op b))
#define PICK(T, op)                                                                                \
    {                                                                                              \
        const T *x = r->data, b = *(const T *)bar;                                                 \
        while (r->step > 1 && h < room) {                                                          \
            while (i < r->n && x[i * r->step] op b) i++;                                           \
            if (i == r->n) break;                                                                  \
            pairs[h++].index = i++;                                                                \
        }                                                                                          \
        for (; r->step == 1 && i < r->n && h + BLOCK <= room; i += BLOCK) {                        \
            int m = r->n - i < BLOCK ? (int)(r->n - i) : BLOCK, out = 0;                           \
            if (m == BLOCK && sizeof(T) < 8)                                                       \
                for (int j = 0; j < BLOCK; j++) out += x[i + j] op b;                              \
            else if (m == BLOCK)                                                                   \
                for (int j = 0; j < BLOCK; j += 4) out += (OUT(T, op, j) & OUT(T, op, j + 2)) * 4; \
            for (int j = 0; out < BLOCK && j < m; j++) {                                           \
                pairs[h].index = i + j;                                                            \
                h += !(x[i + j] op b);                                                             \
            }                                                                                      \
        }                                                                                          \
    }
#define EACH(T, worse, no_better, better)                                                          \
    {                                                                                              \
        if (ties)                                                                                  \
            PICK(T, worse)                                                                         \
        else                                                                                       \
            PICK(T, no_better)                                                                     \
    }
    switch (r->dtype) { TYPES }
#undef EACH
#undef PICK
#undef OUT
    *held = h;
    return i < r->n ? i : r->n;
}

/* The best element of each of `groups` groups, which take turns in the row. NaN is passed over, but
 * for some of the first ones. */
static void find_best(const Row *r, int64_t groups, void *best) {
    int64_t i = groups;
#define BEST(a, better, b) (a better b ? a : b)
#define EACH(T, worse, no_better, better)                                                          \
    {                                                                                              \
        T *restrict to = best;                                                                     \
        memcpy(to, r->data, (size_t)groups * sizeof(T));                                           \
        for (; i + 4 * groups <= r->n; i += 4 * groups)                                            \
            for (int64_t g = 0; g < groups; g++) {                                                 \
                const T *x = (const T *)r->data + i + g, *y = x + 2 * groups;                      \
                T p = BEST(x[0], better, x[groups]), q = BEST(y[0], better, y[groups]);            \
                p = BEST(p, better, q);                                                            \
                to[g] = BEST(p, better, to[g]);                                                    \
            }                                                                                      \
        for (const T *x = r->data; i + groups <= r->n; i += groups)                                \
            for (int64_t g = 0; g < groups; g++) to[g] = BEST(x[i + g], better, to[g]);            \
    }
    switch (r->dtype) { TYPES }
#undef EACH
#undef BEST
}

#undef TYPES
#undef EITHER

static const void *element(const Row *r, int64_t i) {
    return (const char *)r->data + weir_bytes(r->dtype, i * r->step);
}

static void key_pairs(const Row *r, weir_pair *pairs, int64_t n) {
    weir_line line = {r->dtype, r->data, 0, r->step};
    weir_key_pairs(&line, r->largest ? ~UINT64_C(0) : 0, pairs, n);
}

/* The first n elements of a row as the pairs, sorted as far as the first k are concerned. */
static void sort_first(const Row *r, const Work *w, int64_t n, int64_t k) {
    for (int64_t i = 0; i < n; i++) w->pairs[i].index = i;
    key_pairs(r, w->pairs, n);
    weir_sort_pairs(w->pairs, w->spare, n, k);
}

/* A value that k elements at least are as good as: the k-th best of the best of the groups. */
static const void *find_bar(const Row *r, const Work *w, int64_t k) {
    find_best(r, w->groups, w->best);
    Row best = {w->best, w->groups, 1, r->dtype, r->largest};
    sort_first(&best, w, best.n, k);
    return element(&best, w->pairs[k - 1].index);
}

/* The k first pairs in order: at first of the elements that reach the bar, or of as many as there
 * is room for. The last of the k then is the bar that later elements must pass. The sort is stable
 * and later elements stand behind: equal ones go by index. */
static void select_row(const Row *r, const Work *w, int64_t k) {
    int64_t held = 0, i = w->room < r->n ? w->room : r->n;
    if (w->groups > 0 && r->step == 1) {
        i = pick(r, 0, find_bar(r, w, k), true, w, &held);
        key_pairs(r, w->pairs, held);
        weir_sort_pairs(w->pairs, w->spare, held, k);
    } else {
        sort_first(r, w, i, k);
    }
    while (i < r->n) {
        const weir_pair *last = &w->pairs[k - 1];
        int64_t kept = held = k;
        i = pick(r, i, element(r, last->index), false, w, &held);
        key_pairs(r, w->pairs + k, held - k);
        for (int64_t j = k; j < held; j++)
            if (w->pairs[j].key < last->key) w->pairs[kept++] = w->pairs[j];
        if (kept > k) weir_sort_pairs(w->pairs, w->spare, kept, k);
    }
}

/* Copies rows first, first + 1, ... whose elements are `step` apart, or makes keys of them where
 * elements are compared as such. */
static void gather_rows(const weir_tensor *x, int64_t first, int64_t step, int64_t n, const Work *w,
                        int64_t lanes) {
    int64_t pitch = pitch_of(n);
#define GATHER(T, value)                                                                           \
    for (int64_t i = 0; i < n; i++)                                                                \
        for (int64_t l = 0; l < lanes; l++)                                                        \
            ((T *)w->rows)[l * pitch + i] = value(first + i * step + l);
#define COPIED_4(at) ((const uint32_t *)x->data)[at]
#define COPIED_8(at) ((const uint64_t *)x->data)[at]
#define KEYED(at) weir_key(x->dtype, x->data, at) ^ (uint64_t)1 << 63
    if (compared(x->dtype) != x->dtype)
        GATHER(uint64_t, KEYED)
    else if (weir_bits(x->dtype) == 32)
        GATHER(uint32_t, COPIED_4)
    else
        GATHER(uint64_t, COPIED_8)
#undef KEYED
#undef COPIED_8
#undef COPIED_4
#undef GATHER
}

/* Results of the row that starts at element `first` of x and `to` of the results. */
static void put_row(const weir_call *c, const weir_pair *pairs, int64_t first, int64_t to,
                    int64_t step, int64_t k) {
    const weir_tensor *x = &c->in[0], *y = &c->out[0];
    int64_t *index = c->out[1].data;
    for (int64_t i = 0; index && i < k; i++) index[to + i * step] = pairs[i].index;
    if (!y->data) return;
#define PUT(bits, T)                                                                               \
    case bits:                                                                                     \
        for (int64_t i = 0; i < k; i++)                                                            \
            ((T *)y->data)[to + i * step] = ((const T *)x->data)[first + pairs[i].index * step];   \
        break;
    switch (weir_bits(x->dtype)) {
        PUT(64, uint64_t)
        PUT(32, uint32_t)
        PUT(16, uint16_t)
        PUT(8, uint8_t)
    default:
        for (int64_t i = 0; i < k; i++)
            weir_move(x->dtype, y->data, to + i * step, x->data, first + pairs[i].index * step);
    }
#undef PUT
}

void weir_call_topk(weir_call *c) {
    const weir_tensor *x = &c->in[0];
    int64_t axis = c->attr[0], n = x->dims[axis], k = c->out[0].dims[axis], outer = 1, lanes;
    int64_t inner = inner_of(c);
    if (k > n) {
        c->status = WEIR_E_ARGUMENT;
        c->reason = "more elements are asked of top-k than the axis has";
        return;
    }
    Work w;
    plan_work(c, &w);
    place_work(&w, c->scratch);
    Row row = {NULL, n, w.lanes > 0 ? 1 : inner, compared(x->dtype), c->attr[1]};
    for (int64_t d = 0; d < axis; d++) outer *= x->dims[d];
    weir_share part = weir_share_of(c, outer * inner, weir_bytes(x->dtype, 2) > 1 ? n : 0);
    for (int64_t r = part.lo; k > 0 && r < part.hi; r += lanes) {
        int64_t o = r / inner, i = r % inner, first = o * n * inner + i, left = inner - i;
        lanes = w.lanes < 1 ? 1 : w.lanes < left ? w.lanes : left;
        if (lanes > part.hi - r) lanes = part.hi - r;
        if (w.lanes > 0) gather_rows(x, first, inner, n, &w, lanes);
        for (int64_t l = 0; l < lanes; l++) {
            row.data = w.lanes > 0 ? (char *)w.rows + weir_bytes(row.dtype, l * pitch_of(n))
                                   : (char *)x->data + weir_bytes(row.dtype, first);
            select_row(&row, &w, k);
            put_row(c, w.pairs, first + l, o * k * inner + i + l, inner, k);
        }
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

/* Of slices of strings. */
static int slice_order(const Slices *s, int64_t a, int64_t b) {
    const int64_t *handle = s->x->data;
    for (int64_t e = 0; e < s->length; e++) {
        int64_t p = handle[slice_at(s, a, e)], q = handle[slice_at(s, b, e)];
        int order = p == q ? 0
                           : weir_text_order(weir_text_of(s->c->objects, p),
                                             weir_text_of(s->c->objects, q));
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

/* Four rows of indices, and pairs to sort. */
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
    weir_pair *pairs;
    int64_t n;
} Groups;

/* Slices of strings: pairs[i].index is the slice that comes i-th, its key whether it starts a
 * group. Equal ones stay as they were. */
static void sort_texts(Slices *s, const Groups *g) {
    for (int64_t i = 0; i < s->n; i++) g->order[i] = i;
    weir_sort(g->order, g->group, s->n, slice_less, s);
    for (int64_t i = 0; i < s->n; i++) {
        bool starts = i == 0 || slice_order(s, g->order[i - 1], g->order[i]) != 0;
        g->pairs[i] = (weir_pair){starts, g->order[i]};
    }
}

/* Slices lo .. hi - 1, in the order so far, are equal in the elements so far. */
typedef struct Run {
    int64_t lo, hi;
} Run;

/* Sorts a run by a further element; marks where groups start in `starts`. The runs that are left go
 * to `next`; returns where they end. */
static Run *sort_run(const Slices *s, const weir_line *element, Run run, weir_pair *pairs,
                     int64_t *starts, Run *next) {
    weir_pair *p = pairs + run.lo;
    int64_t n = run.hi - run.lo, lo = 0;
    weir_key_pairs(element, 0, p, n);
    weir_sort_pairs(p, pairs + s->n, n, n);
    for (int64_t i = 1; i <= n; i++) {
        if (i < n && p[i].key == p[lo].key) continue;
        if (i < n) starts[run.lo + i] = 1;
        if (i - lo > 1) *next++ = (Run){run.lo + lo, run.lo + i};
        lo = i;
    }
    return next;
}

/* The same for slices of numbers: all are sorted by the first element, those that have it in common
 * by the second and so on. Complex elements are two. */
static void sort_numbers(const Slices *s, const Groups *g) {
    int32_t part = weir_part(s->x->dtype);
    int64_t parts = part == s->x->dtype ? 1 : 2, runs = s->n > 1, *starts = g->order;
    Run *from = (Run *)g->first, *to = (Run *)g->place;
    for (int64_t i = 0; i < s->n; i++) {
        g->pairs[i].index = i;
        starts[i] = i == 0;
    }
    if (runs) from[0] = (Run){0, s->n};
    for (int64_t e = 0; runs > 0 && e < s->length * parts; e++) {
        int64_t first = slice_at(s, 0, e / parts) * parts + e % parts;
        weir_line element = {part, s->x->data, first, s->step * parts};
        Run *end = to, *swap = from;
        for (int64_t k = 0; k < runs; k++)
            end = sort_run(s, &element, from[k], g->pairs, starts, end);
        runs = end - to;
        from = to;
        to = swap;
    }
    for (int64_t i = 0; i < s->n; i++) g->pairs[i].key = (uint64_t)starts[i];
}

static Groups group_slices(const weir_call *c, Slices *s) {
    int64_t *scratch = c->scratch, n = s->n, found = 0;
    weir_pair *pairs = (weir_pair *)(scratch + 4 * n);
    Groups g = {scratch, scratch + n, scratch + 2 * n, scratch + 3 * n, pairs, 0};
    if (s->x->dtype == WEIR_STRING)
        sort_texts(s, &g);
    else
        sort_numbers(s, &g);
    for (int64_t i = 0; i < n; i++) {
        if (pairs[i].key) g.first[g.n++] = pairs[i].index;
        g.group[pairs[i].index] = g.n - 1;
    }
    for (int64_t k = 0; k < g.n; k++) g.place[k] = k;
    if (c->attr[1]) return g;
    for (int64_t i = 0; i < n; i++)
        if (g.first[g.group[i]] == i) g.place[g.group[i]] = found++;
    return g;
}

/* Copies slice `from` of s to place `at` of y, as many elements at a time as lie side by side. */
static void put_slice(const Slices *to, int64_t at, char *y, const Slices *s, int64_t from) {
    int32_t type = s->x->dtype;
    const char *x = s->x->data;
    for (int64_t e = 0; weir_bits(type) < 8 && e < s->length; e++)
        weir_move(type, y, slice_at(to, at, e), x, slice_at(s, from, e));
    for (int64_t e = 0; weir_bits(type) >= 8 && e < s->length; e += s->inner)
        memcpy(y + weir_bytes(type, slice_at(to, at, e)),
               x + weir_bytes(type, slice_at(s, from, e)), (size_t)weir_bytes(type, s->inner));
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
        if (c->out[0].data) put_slice(&to, g.place[k], c->out[0].data, &s, g.first[k]);
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
