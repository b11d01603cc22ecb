/* SPDX-License-Identifier: Apache-2.0 */
/* Irregular kernels that select elements: nonzero, topk, unique, value, refuse. Meaning:
 * ir/call.def. */
#include "runtime/calls.h"
#include "runtime/keys.h"

#include <string.h>

/* ---- nonzero --------------------------------------------------------------------------------- */

int64_t weir_call_nonzero_scratch(const weir_call *c) {
    (void)c;
    return 0;
}

static int is_zero(const weir_tensor *x, int64_t i) {
    static const uint64_t zero = 0;
    int32_t type = x->dtype;
    if (type != WEIR_C64 && type != WEIR_C128)
        return weir_key(type, x->data, i) == weir_key(type, &zero, 0);
    weir_tensor part = *x;
    part.dtype = type == WEIR_C64 ? WEIR_F32 : WEIR_F64;
    return is_zero(&part, 2 * i) && is_zero(&part, 2 * i + 1);
}

/* Counts, then writes column by column: the rows of the result are K apart. */
void weir_call_nonzero(weir_call *c) {
    const weir_tensor *x = &c->in[0];
    int64_t n = weir_tensor_count(x), count = 0, at = 0, index[WEIR_RANK_MAX] = {0};
    int64_t *to = c->out[0].data;
    for (int64_t i = 0; i < n; i++) count += !is_zero(x, i);
    for (int64_t i = 0; i < n; i++) {
        if (!is_zero(x, i)) {
            for (int d = 0; d < x->rank; d++) to[d * count + at] = index[d];
            at++;
        }
        for (int d = x->rank - 1; d >= 0 && ++index[d] == x->dims[d]; d--) index[d] = 0;
    }
    c->define[0] = count;
}

/* ---- topk ------------------------------------------------------------------------------------ */

typedef struct Pair {
    uint64_t key; /* inverted when the largest are wanted */
    int64_t index;
} Pair;

static int pair_after(const Pair *a, const Pair *b) {
    return a->key != b->key ? a->key > b->key : a->index > b->index;
}

/* Lets heap[i] sink; the last of the kept pairs stands on top. */
static void sink(Pair *heap, int64_t n, int64_t i) {
    for (;;) {
        int64_t top = i;
        for (int64_t child = 2 * i + 1; child <= 2 * i + 2 && child < n; child++)
            if (pair_after(&heap[child], &heap[top])) top = child;
        if (top == i) return;
        Pair swap = heap[i];
        heap[i] = heap[top];
        heap[top] = swap;
        i = top;
    }
}

int64_t weir_call_topk_scratch(const weir_call *c) {
    int64_t k = c->out[0].dims[c->attr[0]], bytes;
    return __builtin_mul_overflow(k, (int64_t)sizeof(Pair), &bytes) ? INT64_MAX : bytes;
}

/* One row: elements first, first + step, ... */
static void topk_row(const weir_call *c, int64_t first, int64_t step, int64_t n, int64_t to,
                     int64_t k) {
    const weir_tensor *x = &c->in[0];
    Pair *heap = c->scratch;
    uint64_t invert = c->attr[1] ? UINT64_MAX : 0;
    for (int64_t i = 0; i < n; i++) {
        Pair p = {weir_key(x->dtype, x->data, first + i * step) ^ invert, i};
        if (i < k) {
            heap[i] = p;
            for (int64_t h = i == k - 1 ? k / 2 : -1; h >= 0; h--) sink(heap, k, h);
        } else if (pair_after(&heap[0], &p)) {
            heap[0] = p;
            sink(heap, k, 0);
        }
    }
    for (int64_t m = k - 1; m > 0; m--) {
        Pair swap = heap[0];
        heap[0] = heap[m];
        heap[m] = swap;
        sink(heap, m, 0);
    }
    int64_t *index = c->out[1].data;
    for (int64_t i = 0; i < k; i++) {
        if (c->out[0].data)
            weir_move(x->dtype, c->out[0].data, to + i * step, x->data,
                      first + heap[i].index * step);
        if (index) index[to + i * step] = heap[i].index;
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
    for (int64_t o = 0; k > 0 && o < outer; o++)
        for (int64_t i = 0; i < inner; i++)
            topk_row(c, o * n * inner + i, inner, n, o * k * inner + i, k);
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

int64_t weir_call_unique_scratch(const weir_call *c) {
    int64_t bytes;
    return __builtin_mul_overflow(slices_of(c).n, (int64_t)(4 * sizeof(int64_t)), &bytes)
               ? INT64_MAX
               : bytes;
}

static int index_less(void *user, int64_t a, int64_t b) {
    const int64_t *first = user;
    return first[a] < first[b];
}

/* Sorted slices fall into groups; group g is numbered place[g] in the result. */
typedef struct Groups {
    int64_t *order, *group, *first, *place;
    int64_t n;
} Groups;

static Groups group_slices(const weir_call *c, Slices *s) {
    int64_t *scratch = c->scratch;
    Groups g = {scratch, scratch + s->n, scratch + 2 * s->n, scratch + 3 * s->n, 0};
    for (int64_t i = 0; i < s->n; i++) g.order[i] = i;
    weir_sort(g.order, g.group, s->n, slice_less, s);
    for (int64_t i = 0; i < s->n; i++) {
        if (i == 0 || slice_order(s, g.order[i - 1], g.order[i]) != 0) g.first[g.n++] = g.order[i];
        g.group[g.order[i]] = g.n - 1;
    }
    for (int64_t k = 0; k < g.n; k++) g.place[k] = k;
    if (c->attr[1]) return g;
    for (int64_t k = 0; k < g.n; k++) g.order[k] = k;
    weir_sort(g.order, g.place, g.n, index_less, g.first);
    for (int64_t k = 0; k < g.n; k++) g.place[g.order[k]] = k;
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
    c->status = WEIR_E_ARGUMENT;
    c->reason =
        "a branch whose results have another rank was taken: these input sizes are not compiled";
}
