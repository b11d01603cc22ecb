/* SPDX-License-Identifier: Apache-2.0 */
/* The evaluator's fast path: a sum of products of two reads.
 *
 * The points that are reduced become a table of offsets. Along one dim of the results, `wide`, sums
 * are kept in f64 for up to 512 results; where only one operand moves along it the other is a
 * scalar, and four rows of results share what is read. Where both operands lie along a reduced dim
 * instead, a result is a row of dot products. An operand's index that may leave its container
 * (padding) is checked for each row, not for each element.
 *
 * What does not fit (constraints, other types, indices that are not affine) takes the general way;
 * both add exact products in f64, in different orders. */
#include "flow_eval_map.h"
#include "eval_loops.h"

#include <math.h>
#include <string.h>

enum { WIDE_MAX = 512, POINTS_MAX = 1 << 20 };

typedef struct Operand {
    const Spot *spot;
    const float *data;
    double otherwise;
    int nchecked;
    const DimCode *checked[RANK_MAX];          /* indices that may leave the container */
    int64_t extent[RANK_MAX], along[RANK_MAX]; /* along: coefficient of `wide` */
    int64_t step;                              /* of the address along `wide` */
    int64_t *offset;                           /* by reduced point */
    int64_t *delta;                            /* by reduced point and checked index */
} Operand;

typedef struct Contract {
    Group *g;
    const EvalLoops *loops;
    Operand in[2]; /* in[1] moves along `wide`; in[0] does unless `scalar` */
    bool scalar;
    int wide, rows; /* map dims; -1: none */
    int dot;        /* the reduced dim of dot products, -1 */
    int64_t points;
} Contract;

typedef struct Part {
    const Contract *c;
    int thread;
} Part;

/* ---- operands ------------------------------------------------------------------------------- */

static const float *as_floats(Group *g, const Spot *s) {
    if (s->type == F32) return (const float *)s->data;
    int64_t n = tensor_count(&g->e->cont[s->cont]);
    float *data = NEW_ARRAY(g->arena, float, n);
    for (int64_t i = 0; i < n; i++)
        data[i] = (float)bits_to_double(s->type, mem_get(s->type, s->data, i));
    return data;
}

/* A read, perhaps converted from a smaller float. */
static bool find_operand(Group *g, int val, Operand *o) {
    const Val *v = &g->body.val.at[val];
    if (v->kind == VAL_PRIM && v->prim == P_CVT && v->type == F32) v = &g->body.val.at[v->arg[0]];
    if (v->kind != VAL_READ || !dtype_is_float(v->type) || v->type == F64) return false;
    o->spot = g->read[v - g->body.val.at];
    if (!o->spot->affine) return false;
    if (v->has_else) {
        const Val *other = &g->body.val.at[v->arg[0]];
        if (other->kind != VAL_CONST) return false;
        o->otherwise = bits_to_double(other->type, other->bits);
    }
    if (o->spot->safe) return true;
    if (!v->has_else) return false;
    for (int k = 0; k < o->spot->rank; k++) {
        if (o->spot->safe_at[k]) continue;
        o->checked[o->nchecked] = o->spot->at[k];
        o->extent[o->nchecked++] = o->spot->dim[k];
    }
    return true;
}

static int64_t step_of(const Operand *o, int dim) {
    return dim_code_coef(&o->spot->address, dim);
}

static bool is_unit(int64_t step) {
    return step == 0 || step == 1;
}

static bool checks(const Operand *o, int dim) {
    for (int k = 0; k < o->nchecked; k++)
        if (dim_code_coef(o->checked[k], dim)) return true;
    return false;
}

/* Along results: contiguous for one operand, still or contiguous for the other, and long. Else
 * along a reduced dim where both are contiguous; else along the longest results. */
static void choose_wide(Contract *c) {
    const Group *g = c->g;
    int64_t best = 0;
    bool unit = false;
    for (int i = 0; i < g->out.n; i++) {
        int d = g->out.dim[i];
        int64_t a = step_of(&c->in[0], d), b = step_of(&c->in[1], d);
        bool good = is_unit(a) && is_unit(b);
        int64_t score = (g->extent[d] < 128 ? g->extent[d] : 128) * (good ? 8 : 1);
        if (a == 0 && b == 0) score = 0;
        if (score > best) best = score, c->wide = d, unit = good;
    }
    if (unit && best >= 64) return;
    for (int i = 0; i < g->red.n; i++) {
        int d = g->red.dim[i];
        if (step_of(&c->in[0], d) != 1 || step_of(&c->in[1], d) != 1 || g->extent[d] < 16) continue;
        if (!checks(&c->in[0], d) && !checks(&c->in[1], d)) c->dot = d;
    }
}

static void choose_rows(Contract *c) {
    const Group *g = c->g;
    c->scalar = step_of(&c->in[0], c->wide) == 0 && !checks(&c->in[0], c->wide);
    if (!c->scalar && step_of(&c->in[1], c->wide) == 0 && !checks(&c->in[1], c->wide)) {
        Operand t = c->in[0];
        c->in[0] = c->in[1], c->in[1] = t;
        c->scalar = true;
    }
    for (int i = 0; i < g->out.n && c->scalar; i++) {
        int d = g->out.dim[i];
        if (d == c->wide || step_of(&c->in[1], d) || checks(&c->in[1], d)) continue;
        if (c->rows < 0 || g->extent[d] > g->extent[c->rows]) c->rows = d;
    }
}

/* Offsets and index changes of every reduced point, but for the dim of dot products. */
static void tabulate(Contract *c, Operand *o) {
    const Group *g = c->g;
    int64_t *pos = NEW_ARRAY(g->arena, int64_t, g->nslot);
    o->offset = NEW_ARRAY(g->arena, int64_t, c->points);
    o->delta = NEW_ARRAY(g->arena, int64_t, c->points * (o->nchecked + 1));
    o->step = c->wide >= 0 ? step_of(o, c->wide) : 0;
    for (int k = 0; k < o->nchecked; k++)
        o->along[k] = c->wide >= 0 ? dim_code_coef(o->checked[k], c->wide) : 0;
    for (int64_t p = 0; p < c->points; p++) {
        o->offset[p] = dim_code_value(&o->spot->address, pos) - o->spot->address.constant;
        for (int k = 0; k < o->nchecked; k++)
            o->delta[p * o->nchecked + k] =
                dim_code_value(o->checked[k], pos) - o->checked[k]->constant;
        for (int i = g->red.n - 1; i >= 0; i--) {
            int d = g->red.dim[i];
            if (d == c->dot) continue;
            if (++pos[d] < g->extent[d]) break;
            pos[d] = 0;
        }
    }
}

/* ---- running -------------------------------------------------------------------------------- */

/* Points j in [lo, hi) of the n along `wide` are inside the container for reduced point p. */
static void inside(const Operand *o, const int64_t *index, int64_t p, int n, int *lo, int *hi) {
    *lo = 0, *hi = n;
    for (int k = 0; k < o->nchecked; k++) {
        int64_t at = index[k] + o->delta[p * o->nchecked + k], by = o->along[k], max = o->extent[k];
        if (by == 0) {
            if (at < 0 || at >= max) *hi = 0;
            continue;
        }
        while (*lo < *hi && (at + by * *lo < 0 || at + by * *lo >= max)) ++*lo;
        while (*hi > *lo && (at + by * (*hi - 1) < 0 || at + by * (*hi - 1) >= max)) --*hi;
    }
    if (*hi < *lo) *hi = *lo;
}

static void index_at(const Operand *o, const int64_t *pos, int64_t *index) {
    for (int k = 0; k < o->nchecked; k++) index[k] = dim_code_value(o->checked[k], pos);
}

static double scalar_at(const Operand *o, const int64_t *index, int64_t base, int64_t p) {
    int lo, hi;
    inside(o, index, p, 1, &lo, &hi);
    return hi > lo ? (double)o->data[base + o->offset[p]] : o->otherwise;
}

/* n results along `wide`, rounded once to f32. */
static void store(const Contract *c, Runner *r, int64_t n, const double *acc) {
    const Spot *to = &c->g->state[0].to[0];
    int64_t at = dim_code_value(&to->address, r->pos);
    int64_t step = c->wide >= 0 ? dim_code_coef(&to->address, c->wide) : 0;
    for (int64_t j = 0; j < n; j++, at += step) {
        if (to->type == F32)
            ((float *)to->data)[at] = (float)acc[j];
        else
            mem_set(to->type, to->data, at,
                    bits_convert(to->type, F32, bits_of_double(F32, acc[j]), true));
    }
}

/* `rows` rows of n results from r->pos on, the scalar operand in[0] told apart by row. */
static void run_rows(const Contract *c, Runner *r, int rows, int n) {
    const Operand *s = &c->in[0], *v = &c->in[1];
    double acc[EVAL_ROWS * WIDE_MAX], scalar[EVAL_ROWS];
    int64_t sindex[EVAL_ROWS][RANK_MAX], vindex[RANK_MAX], sbase[EVAL_ROWS];
    double identity = bits_to_double(F32, c->g->state[0].write->combine->identity[0]);
    int64_t first = c->rows >= 0 ? r->pos[c->rows] : 0;
    for (int i = 0; i < rows * WIDE_MAX; i++) acc[i] = identity;
    for (int i = 0; i < rows; i++) {
        if (c->rows >= 0) r->pos[c->rows] = first + i;
        index_at(s, r->pos, sindex[i]);
        sbase[i] = dim_code_value(&s->spot->address, r->pos);
    }
    if (c->rows >= 0) r->pos[c->rows] = first;
    index_at(v, r->pos, vindex);
    int64_t vbase = dim_code_value(&v->spot->address, r->pos);
    for (int64_t p = 0; p < c->points; p++) {
        int lo, hi;
        inside(v, vindex, p, n, &lo, &hi);
        bool finite = true;
        for (int i = 0; i < rows; i++) {
            scalar[i] = s->nchecked ? scalar_at(s, sindex[i], sbase[i], p)
                                    : (double)s->data[sbase[i] + s->offset[p]];
            finite = finite && isfinite(scalar[i]);
        }
        if (hi > lo)
            c->loops->axpy(acc + lo, WIDE_MAX, rows, scalar,
                           v->data + vbase + v->offset[p] + v->step * lo, v->step, hi - lo);
        if (finite && v->otherwise == 0) continue;
        for (int i = 0; i < rows; i++)
            for (int j = 0; j < n; j++)
                if (j < lo || j >= hi) acc[i * WIDE_MAX + j] += scalar[i] * v->otherwise;
    }
    for (int i = 0; i < rows; i++) {
        if (c->rows >= 0) r->pos[c->rows] = first + i;
        store(c, r, n, acc + i * WIDE_MAX);
    }
    if (c->rows >= 0) r->pos[c->rows] = first;
}

/* Both operands move along `wide`. */
static void run_pairs(const Contract *c, Runner *r, int n) {
    const Operand *a = &c->in[0], *b = &c->in[1];
    double acc[WIDE_MAX];
    int64_t aindex[RANK_MAX], bindex[RANK_MAX];
    double identity = bits_to_double(F32, c->g->state[0].write->combine->identity[0]);
    for (int j = 0; j < n; j++) acc[j] = identity;
    index_at(a, r->pos, aindex);
    index_at(b, r->pos, bindex);
    int64_t abase = dim_code_value(&a->spot->address, r->pos);
    int64_t bbase = dim_code_value(&b->spot->address, r->pos);
    for (int64_t p = 0; p < c->points; p++) {
        int alo, ahi, blo, bhi;
        inside(a, aindex, p, n, &alo, &ahi);
        inside(b, bindex, p, n, &blo, &bhi);
        int lo = alo > blo ? alo : blo, hi = ahi < bhi ? ahi : bhi;
        const float *x = a->data + abase + a->offset[p], *y = b->data + bbase + b->offset[p];
        if (hi > lo)
            c->loops->multiply(acc + lo, x + a->step * lo, a->step, y + b->step * lo, b->step,
                               hi - lo);
        for (int j = 0; j < n && hi - lo < n; j++) {
            if (j >= lo && j < hi) continue;
            acc[j] += (j >= alo && j < ahi ? (double)x[a->step * j] : a->otherwise) *
                      (j >= blo && j < bhi ? (double)y[b->step * j] : b->otherwise);
        }
    }
    store(c, r, n, acc);
}

static void run_dots(const Contract *c, Runner *r) {
    const Operand *a = &c->in[0], *b = &c->in[1];
    int64_t aindex[RANK_MAX], bindex[RANK_MAX], n = c->g->extent[c->dot];
    double sum = bits_to_double(F32, c->g->state[0].write->combine->identity[0]);
    index_at(a, r->pos, aindex);
    index_at(b, r->pos, bindex);
    int64_t abase = dim_code_value(&a->spot->address, r->pos);
    int64_t bbase = dim_code_value(&b->spot->address, r->pos);
    for (int64_t p = 0; p < c->points; p++) {
        int lo, ain, bin;
        inside(a, aindex, p, 1, &lo, &ain);
        inside(b, bindex, p, 1, &lo, &bin);
        const float *x = a->data + abase + a->offset[p], *y = b->data + bbase + b->offset[p];
        ain = ain > 0, bin = bin > 0;
        if (ain && bin)
            sum += c->loops->dot(x, y, (int)n);
        else
            for (int64_t j = 0; j < n; j++)
                sum += (ain ? (double)x[j] : a->otherwise) * (bin ? (double)y[j] : b->otherwise);
    }
    store(c, r, 1, &sum);
}

/* Walks the results of one thread: `wide` in parts of WIDE_MAX, `rows` four at a time. */
static void *run_part(void *part) {
    const Part *p = part;
    const Contract *c = p->c;
    Runner *r = &c->g->runner[p->thread];
    const Space *out = &c->g->out;
    for (int i = 0; i < out->n; i++) {
        int d = out->dim[i];
        r->pos[d] = r->lo[d];
        if (r->lo[d] >= r->hi[d]) return NULL;
    }
    for (int i = 0; i < c->g->red.n; i++) r->pos[c->g->red.dim[i]] = 0;
    for (;;) {
        int64_t n = c->wide >= 0 ? r->hi[c->wide] - r->pos[c->wide] : 1;
        int64_t rows = c->rows >= 0 ? r->hi[c->rows] - r->pos[c->rows] : 1;
        if (n > WIDE_MAX) n = WIDE_MAX;
        if (rows > EVAL_ROWS) rows = EVAL_ROWS;
        if (c->dot >= 0)
            run_dots(c, r);
        else if (c->scalar)
            run_rows(c, r, (int)rows, (int)n);
        else
            run_pairs(c, r, (int)n);
        int i = out->n - 1;
        for (; i >= 0; i--) {
            int d = out->dim[i];
            r->pos[d] += d == c->wide ? n : d == c->rows ? rows : 1;
            if (r->pos[d] < r->hi[d]) break;
            r->pos[d] = r->lo[d];
        }
        if (i < 0) return NULL;
    }
}

static const EvalLoops *choose_loops(void) {
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2")) return &eval_loops_x86v3;
#endif
    return &eval_loops;
}

static bool fits(const Group *g) {
    const State *s = &g->state[0];
    return g->nstate == 1 && (g->mode == RUN_VERTICAL || g->mode == RUN_HORIZONTAL) && s->sum &&
           s->product[0] >= 0 && g->ncons == 0 && !s->finish && s->write->combine->type[0] == F32 &&
           s->to[0].affine && s->to[0].safe;
}

bool contract_run(Group *g) {
    if (!fits(g)) return false;
    Contract c = {.g = g, .loops = choose_loops(), .wide = -1, .rows = -1, .dot = -1, .points = 1};
    for (int k = 0; k < 2; k++)
        if (!find_operand(g, g->state[0].product[k], &c.in[k])) return false;
    choose_wide(&c);
    if (c.wide < 0 && c.dot < 0) return false;
    for (int i = 0; i < g->red.n; i++) {
        if (g->red.dim[i] == c.dot) continue;
        c.points *= g->extent[g->red.dim[i]];
        if (c.points > POINTS_MAX) return false;
    }
    if (c.dot >= 0)
        c.wide = -1;
    else
        choose_rows(&c);
    for (int k = 0; k < 2; k++) {
        c.in[k].data = as_floats(g, c.in[k].spot);
        tabulate(&c, &c.in[k]);
    }
    Part *part = NEW_ARRAY(g->arena, Part, g->nrunner);
    for (int t = 0; t < g->nrunner; t++) part[t] = (Part){&c, t};
    parallel_run(run_part, part, sizeof *part, g->nrunner);
    return true;
}
