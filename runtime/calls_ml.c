/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels of classic models: trees walked, classes coupled. Meaning: ir/call.def. Tables come from
 * the model; every number in them that is a place is checked before it is used. */
#include "runtime/calls.h"
#include "runtime/objects.h"

#include <string.h>

/* ---- trees ----------------------------------------------------------------------------------- */

/* A node is four numbers; HOW is a mode, and a bit for where NaN goes, and the first member. */
enum { FEATURE, HOW, YES, NO, FIELDS };
enum { LEQ, EQ, MEMBER, MODES = 3, NAN_YES = 4, MEMBERS_FROM = 3 };
enum { AVERAGE, SUM, MIN, MAX };

/* Ways that are walked at once: each step waits for memory. Sums that a block of rows has. What a
 * tree takes, in elements looked at. */
enum { WAYS = 8, SUMS = 2048, ROWS_MOST = 256, TREE_WORK = 32 };

typedef struct Forest {
    const int32_t *node, *first, *target, *root;
    const void *split, *weight, *member;
    int64_t nodes, features, members, votes, trees, targets;
    int32_t inner; /* nodes; those behind are leaves, which lead to themselves */
    int any;       /* there are nodes of another mode than <=, or numbers that are none */
    int adds;      /* votes are added up; else the least or the greatest counts */
    int least;
    int wide; /* numbers are doubles */
} Forest;

static inline double value_at(const void *x, int64_t i, int wide) {
    return wide ? ((const double *)x)[i] : (double)((const float *)x)[i];
}

/* x[i] <= y[k], as numbers of their own type: nothing waits for a conversion. */
static inline int at_most(const void *x, int64_t i, const void *y, int64_t k, int wide) {
    return wide ? ((const double *)x)[i] <= ((const double *)y)[k]
                : ((const float *)x)[i] <= ((const float *)y)[k];
}

static int among(const Forest *f, int64_t at, double v) {
    for (; at >= 0 && at < f->members; at++) {
        double member = value_at(f->member, at, f->wide);
        if (member != member) break;
        if (member == v) return 1;
    }
    return 0;
}

static int goes_yes(const Forest *f, int32_t at, double v) {
    int how = f->node[(int64_t)at * FIELDS + HOW];
    double split = value_at(f->split, at, f->wide);
    if (v != v) return how / NAN_YES & 1;
    if ((how & MODES) == LEQ) return v <= split;
    return how & EQ ? v == split : among(f, how >> MEMBERS_FROM, v);
}

/* One step of all ways, all by <= with numbers unless `any`; 0 where one leads nowhere. */
static inline int step(const Forest f, const void *const *rows, int32_t *at, int wide, int any) {
    for (int i = 0; i < WAYS; i++) {
        const int32_t *node = f.node + (int64_t)at[i] * FIELDS;
        if ((uint32_t)node[FEATURE] >= (uint32_t)f.features) return 0;
        int yes = at_most(rows[i], node[FEATURE], f.split, at[i], wide);
        if (any) yes = goes_yes(&f, at[i], value_at(rows[i], node[FEATURE], wide));
        at[i] = node[NO - yes];
        if ((uint32_t)at[i] >= (uint32_t)f.nodes) return 0;
    }
    return 1;
}

static int at_leaves(const int32_t *at, int32_t inner) {
    int32_t all = -1;
    for (int i = 0; i < WAYS; i++) all &= inner - 1 - at[i];
    return all < 0;
}

/* From roots, which are nodes, to leaves; 0 when a tree is torn, or a loop. */
static int walk(const Forest *f, const void *const *rows, int32_t *at) {
    int good = 1;
    for (int64_t steps = 0; good && !at_leaves(at, f->inner); steps++)
        good = steps < f->nodes && (f->any    ? step(*f, rows, at, f->wide, 1)
                                    : f->wide ? step(*f, rows, at, 1, 0)
                                              : step(*f, rows, at, 0, 0));
    return good;
}

/* Adds what leaves say: votes first[leaf] .. first[leaf + 1] - 1 of (target, weight), way i to the
 * sums i * stride on. */
static int vote(const Forest *f, const int32_t *at, int64_t count, double *sum, int64_t *seen,
                int64_t stride) {
    for (int64_t i = 0; i < count; i++, sum += stride, seen += stride) {
        int32_t leaf = at[i] - f->inner, from = f->first[leaf], end = f->first[leaf + 1];
        if (from < 0 || end > f->votes) return 0;
        for (int32_t k = from; k < end; k++) {
            int32_t t = f->target[k];
            double w = value_at(f->weight, k, f->wide);
            if ((uint32_t)t >= (uint32_t)f->targets) return 0;
            if (f->adds)
                sum[t] += w;
            else if (!seen[t] || (f->least ? w < sum[t] : w > sum[t]))
                sum[t] = w, seen[t] = 1;
        }
    }
    return 1;
}

/* Rows of x that have sums at a time. */
static int64_t block_rows(int64_t targets) {
    int64_t rows = SUMS / (targets ? targets : 1);
    return rows < WAYS ? WAYS : rows > ROWS_MOST ? ROWS_MOST : rows;
}

int64_t weir_call_trees_scratch(const weir_call *c) {
    int64_t targets = c->out[0].dims[1];
    return block_rows(targets) * targets * 16;
}

/* Rows, as many as have sums, with some behind the last that are it once more. */
typedef struct Rows {
    int64_t n;
    const void *at[ROWS_MOST + WAYS];
    double *sum;
    int64_t *seen;
} Rows;

/* Tree k, as many rows side by side as there are ways; then these vote. */
static int rows_of_tree(const Forest *f, const Rows *r, int64_t k) {
    int good = (uint32_t)f->root[k] < (uint32_t)f->nodes;
    for (int64_t i = 0; good && i < r->n; i += WAYS) {
        int32_t at[WAYS];
        int64_t left = r->n - i, to = i * f->targets;
        for (int w = 0; w < WAYS; w++) at[w] = f->root[k];
        good = walk(f, r->at + i, at) &&
               vote(f, at, left < WAYS ? left : WAYS, r->sum + to, r->seen + to, f->targets);
    }
    return good;
}

/* Row i, as many trees side by side as there are ways. */
static int trees_of_row(const Forest *f, const Rows *r, int64_t i) {
    const void *row[WAYS];
    int good = 1;
    for (int w = 0; w < WAYS; w++) row[w] = r->at[i];
    for (int64_t k = 0; good && k < f->trees; k += WAYS) {
        int32_t at[WAYS];
        int64_t left = f->trees - k, to = i * f->targets;
        for (int64_t w = 0; w < WAYS; w++) {
            at[w] = f->root[w < left ? k + w : k];
            good &= (uint32_t)at[w] < (uint32_t)f->nodes;
        }
        good = good && walk(f, row, at) &&
               vote(f, at, left < WAYS ? left : WAYS, r->sum + to, r->seen + to, 0);
    }
    return good;
}

static void give_sums(const weir_call *c, const Forest *f, int64_t row, const Rows *r) {
    for (int64_t i = 0, at = row * f->targets; i < r->n * f->targets; i++, at++) {
        double v = c->attr[0] == AVERAGE && f->trees ? r->sum[i] / (double)f->trees : r->sum[i];
        if (f->wide)
            ((double *)c->out[0].data)[at] = v;
        else
            ((float *)c->out[0].data)[at] = (float)v;
    }
}

static Forest forest_of(const weir_call *c) {
    return (Forest){.node = c->in[2].data,
                    .first = c->in[3].data,
                    .target = c->in[4].data,
                    .root = c->in[7].data,
                    .split = c->in[1].data,
                    .weight = c->in[5].data,
                    .member = c->in[6].data,
                    .nodes = c->in[2].dims[0],
                    .features = c->in[0].dims[1],
                    .members = c->in[6].dims[0],
                    .votes = c->in[4].dims[0],
                    .trees = c->in[7].dims[0],
                    .targets = c->out[0].dims[1],
                    .inner = (int32_t)(c->in[2].dims[0] - (c->in[3].dims[0] - 1)),
                    .adds = c->attr[0] == AVERAGE || c->attr[0] == SUM,
                    .least = c->attr[0] == MIN,
                    .wide = c->in[0].dtype == WEIR_F64};
}

static int has_nan(const Forest *f, const Rows *r) {
    int any = 0;
    for (int64_t i = 0; i < r->n && !any; i++)
        for (int64_t k = 0; k < f->features; k++) {
            double v = value_at(r->at[i], k, f->wide);
            any |= v != v;
        }
    return any;
}

/* A block of rows goes tree by tree, so that each is near while all of them need it. Votes of a row
 * are taken in the order of trees, whatever runs side by side. */
void weir_call_trees(weir_call *c) {
    Forest f = forest_of(c);
    int64_t block = block_rows(f.targets);
    weir_share part = weir_share_of(c, c->out[0].dims[0], TREE_WORK * f.trees);
    int64_t bytes = f.features * (f.wide ? 8 : 4);
    Rows r = {.sum = c->scratch};
    int good = f.inner >= 0;
    r.seen = (int64_t *)(r.sum + block * f.targets);
    for (int64_t row = part.lo; row < part.hi && good; row += block) {
        r.n = part.hi - row < block ? part.hi - row : block;
        for (int64_t i = 0; i < r.n + WAYS; i++)
            r.at[i] = (const char *)c->in[0].data + (row + (i < r.n ? i : r.n - 1)) * bytes;
        memset(r.sum, 0, 16 * (size_t)(block * f.targets));
        f.any = c->attr[1] & MODES || (c->attr[1] & NAN_YES && has_nan(&f, &r));
        if (r.n >= WAYS)
            for (int64_t k = 0; good && k < f.trees; k++) good = rows_of_tree(&f, &r, k);
        else
            for (int64_t i = 0; good && i < r.n; i++) good = trees_of_row(&f, &r, i);
        if (good) give_sums(c, &f, row, &r);
    }
    if (!good) fails(c, WEIR_E_INDEX, "a tree is torn: it leads nowhere, or in a circle");
}

/* ---- coupling -------------------------------------------------------------------------------- */

enum { COUPLING_TURNS = 8 }; /* that a row takes, about */

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
    int64_t k = coupled(c), pairs = c->in[0].dims[1];
    weir_share part = weir_share_of(c, c->out[0].dims[0], COUPLING_TURNS * k * k);
    float *q = c->scratch, *qp = q + k * k;
    for (int64_t r = part.lo; r < part.hi && pairs == k * (k - 1) / 2; r++) {
        float *p = (float *)c->out[0].data + r * k;
        coupling_table((const float *)c->in[0].data + r * pairs, k, q);
        for (int64_t i = 0; i < k; i++) p[i] = 1 / (float)k;
        for (int64_t t = 0; t < (k > 100 ? k : 100); t++)
            if (coupling_step(q, k, p, qp) < 0.005f / (float)k) break;
    }
}
