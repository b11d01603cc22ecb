/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels of classic models: n-grams counted, trees walked. Meaning: ir/call.def. Tables come from
 * the model; every number in them that is a place is checked before it is used. */
#include "runtime/calls.h"
#include "runtime/keys.h"

#include <string.h>

static void bad(weir_call *c, const char *reason) {
    c->status = WEIR_E_INDEX;
    c->reason = reason;
}

static int64_t i64_at(const weir_tensor *t, int64_t i) {
    return t->dtype == WEIR_I32 ? ((const int32_t *)t->data)[i] : ((const int64_t *)t->data)[i];
}

/* ---- tfidf ----------------------------------------------------------------------------------- */

enum { MODE_TF, MODE_IDF, MODE_TFIDF };

/* Of one length n: `count` of them from `pool` on, the first is number `first` among all. */
typedef struct Grams {
    const int64_t *pool;
    int64_t n, count, first;
    int64_t *order;
} Grams;

static int gram_less(void *user, int64_t a, int64_t b) {
    const Grams *g = user;
    for (int64_t i = 0; i < g->n; i++) {
        int64_t x = g->pool[a * g->n + i], y = g->pool[b * g->n + i];
        if (x != y) return x < y;
    }
    return 0;
}

/* The gram of every `step`-th element of x from `at` on; -1: none. */
static int64_t gram_find(const Grams *g, const weir_tensor *x, int64_t at, int64_t step) {
    int64_t lo = 0, hi = g->count;
    while (lo < hi) {
        int64_t mid = lo + (hi - lo) / 2, order = 0;
        const int64_t *p = g->pool + g->order[mid] * g->n;
        for (int64_t i = 0; i < g->n && !order; i++) {
            int64_t v = i64_at(x, at + i * step);
            order = v < p[i] ? -1 : v > p[i];
        }
        if (!order) return g->order[mid];
        if (order < 0)
            hi = mid;
        else
            lo = mid + 1;
    }
    return -1;
}

int64_t weir_call_tfidf_scratch(const weir_call *c) {
    return weir_tensor_count(&c->in[1]) * 16;
}

static void count_row(weir_call *c, const Grams *g, int64_t row, int64_t columns, float *to,
                      int64_t room) {
    const int64_t *index = c->in[3].data;
    const float *weight = c->in[4].data;
    int64_t mode = c->attr[3], skips = g->n == 1 ? 0 : c->attr[2];
    for (int64_t step = 1; step <= skips + 1; step++) {
        if (g->n > 1 && step > (columns - 1) / (g->n - 1)) break;
        for (int64_t at = 0; at + (g->n - 1) * step < columns; at++) {
            int64_t k = gram_find(g, &c->in[0], row * columns + at, step);
            if (k < 0) continue;
            k += g->first;
            if (index[k] < 0 || index[k] >= room) return bad(c, "an n-gram has no place");
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
    int64_t room = c->out[0].dims[c->out[0].rank - 1], first = 0;
    int64_t *order = c->scratch, *spare = order + pool->dims[0];
    float *to = c->out[0].data;
    memset(to, 0, sizeof *to * (size_t)(rows * room));
    for (int64_t n = 1; n <= start->dims[0] && !c->status; n++) {
        int64_t from = i64_at(start, n - 1);
        int64_t end = n < start->dims[0] ? i64_at(start, n) : pool->dims[0];
        if (from < 0 || end < from || end > pool->dims[0] ||
            first + (end - from) / n > c->in[3].dims[0])
            return bad(c, "the n-grams of a vectorizer are torn");
        Grams g = {(const int64_t *)pool->data + from, n, (end - from) / n, first, order};
        first += g.count;
        if (n < c->attr[0] || n > c->attr[1]) continue;
        for (int64_t i = 0; i < g.count; i++) order[i] = i;
        weir_sort(order, spare, g.count, gram_less, &g);
        for (int64_t r = 0; r < rows && !c->status; r++)
            count_row(c, &g, r, columns, to + r * room, room);
    }
}

/* ---- trees ----------------------------------------------------------------------------------- */

enum { LEQ, LT, GTE, GT, EQ, NEQ, MEMBER, FEATURE = 0, MODE, MISSING, YES, NO, FIRST, END, FIELDS };
enum { AVERAGE, SUM, MIN, MAX };

static double number(const weir_tensor *t, int64_t i) {
    return t->dtype == WEIR_F64 ? ((const double *)t->data)[i]
                                : (double)((const float *)t->data)[i];
}

static int goes_yes(const weir_call *c, const int64_t *node, int64_t at, double v) {
    double split = number(&c->in[1], at);
    if (v != v) return node[MISSING] != 0;
    switch (node[MODE]) {
    case LEQ: return v <= split;
    case LT: return v < split;
    case GTE: return v >= split;
    case GT: return v > split;
    case EQ: return v == split;
    case NEQ: return v != split;
    }
    for (int64_t i = node[FIRST]; i < node[END]; i++)
        if (number(&c->in[6], i) == v) return 1;
    return 0;
}

/* The leaf where a row ends; -1: the tree is torn, or a loop. */
static int64_t leaf_of(const weir_call *c, int64_t root, int64_t row) {
    const weir_tensor *x = &c->in[0], *nodes = &c->in[2];
    int64_t n = nodes->dims[0], features = x->dims[1], at = root;
    for (int64_t steps = 0; at >= 0 && steps <= n; steps++) {
        if (at >= n) return -1;
        const int64_t *node = (const int64_t *)nodes->data + at * FIELDS;
        if (node[FEATURE] < 0 || node[FEATURE] >= features) return -1;
        if (node[MODE] == MEMBER &&
            (node[FIRST] < 0 || node[FIRST] > node[END] || node[END] > c->in[6].dims[0]))
            return -1;
        double v = number(x, row * features + node[FEATURE]);
        at = goes_yes(c, node, at, v) ? node[YES] : node[NO];
    }
    return at < 0 ? -1 - at : -1;
}

int64_t weir_call_trees_scratch(const weir_call *c) {
    return c->out[0].dims[1] * 16;
}

/* Adds what a leaf says: votes first[leaf] .. first[leaf + 1] - 1 of (target, weight). */
static int vote(weir_call *c, int64_t leaf, double *sum, int64_t *seen, int64_t targets) {
    const weir_tensor *first = &c->in[3], *target = &c->in[4];
    if (leaf < 0 || leaf + 1 >= first->dims[0]) return 0;
    int64_t from = i64_at(first, leaf), end = i64_at(first, leaf + 1);
    if (from < 0 || end > target->dims[0]) return 0;
    for (int64_t i = from; i < end; i++) {
        int64_t t = i64_at(target, i);
        double w = number(&c->in[5], i);
        if (t < 0 || t >= targets) return 0;
        if (c->attr[0] == AVERAGE || c->attr[0] == SUM)
            sum[t] += w;
        else if (!seen[t] || (c->attr[0] == MIN ? w < sum[t] : w > sum[t]))
            sum[t] = w;
        seen[t] = 1;
    }
    return 1;
}

void weir_call_trees(weir_call *c) {
    const weir_tensor *roots = &c->in[7];
    int64_t rows = c->out[0].dims[0], targets = c->out[0].dims[1], n = roots->dims[0];
    double *sum = c->scratch;
    int64_t *seen = (int64_t *)(sum + targets);
    for (int64_t r = 0; r < rows; r++) {
        memset(sum, 0, 16 * (size_t)targets);
        for (int64_t k = 0; k < n; k++)
            if (!vote(c, leaf_of(c, i64_at(roots, k), r), sum, seen, targets))
                return bad(c, "a tree is torn: it leads nowhere, or in a circle");
        for (int64_t t = 0; t < targets; t++) {
            double v = c->attr[0] == AVERAGE && n ? sum[t] / (double)n : sum[t];
            if (c->out[0].dtype == WEIR_F64)
                ((double *)c->out[0].data)[r * targets + t] = v;
            else
                ((float *)c->out[0].data)[r * targets + t] = (float)v;
        }
    }
}

/* ---- coupling -------------------------------------------------------------------------------- */

static int64_t coupled(const weir_call *c) {
    return c->out[0].dims[1];
}

int64_t weir_call_coupling_scratch(const weir_call *c) {
    int64_t k = coupled(c);
    return 4 * (k * k + k);
}

/* Q of the paper: row i holds the squares' sum on the diagonal and -r[j,i] r[i,j] elsewhere. */
static void coupling_table(const float *pair, int64_t k, float *q) {
    for (int64_t i = 0; i < k * k; i++) q[i] = 0;
    for (int64_t i = 0; i < k; i++)
        for (int64_t j = i + 1; j < k; j++, pair++) {
            float r = *pair, s = 1 - r;
            q[i * k + i] += s * s;
            q[j * k + j] += r * r;
            q[i * k + j] = q[j * k + i] = -r * s;
        }
}

/* One step for each class; how far off the row was before. */
static float coupling_step(const float *q, int64_t k, float *p, float *qp) {
    float all = 0, off = 0;
    for (int64_t i = 0; i < k; i++) {
        qp[i] = 0;
        for (int64_t j = 0; j < k; j++) qp[i] += q[i * k + j] * p[j];
        all += p[i] * qp[i];
    }
    for (int64_t i = 0; i < k; i++) {
        float d = qp[i] > all ? qp[i] - all : all - qp[i];
        if (d > off) off = d;
    }
    if (off < 0.005f / (float)k) return off;
    for (int64_t i = 0; i < k; i++) {
        float own = q[i * k + i], step = own != 0 ? (all - qp[i]) / own : 0;
        p[i] += step;
        all = (all + step * (step * own + 2 * qp[i])) / (1 + step) / (1 + step);
        for (int64_t j = 0; j < k; j++) {
            qp[j] = (qp[j] + step * q[i * k + j]) / (1 + step);
            p[j] /= 1 + step;
        }
    }
    return off;
}

void weir_call_coupling(weir_call *c) {
    int64_t rows = c->out[0].dims[0], k = coupled(c), pairs = c->in[0].dims[1];
    float *q = c->scratch, *qp = q + k * k;
    for (int64_t r = 0; r < rows && pairs == k * (k - 1) / 2; r++) {
        float *p = (float *)c->out[0].data + r * k;
        coupling_table((const float *)c->in[0].data + r * pairs, k, q);
        for (int64_t i = 0; i < k; i++) p[i] = 1 / (float)k;
        for (int64_t t = 0; t < (k > 100 ? k : 100); t++)
            if (coupling_step(q, k, p, qp) < 0.005f / (float)k) break;
    }
}
