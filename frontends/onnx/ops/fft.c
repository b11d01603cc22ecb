/* SPDX-License-Identifier: Apache-2.0 */
/* Fourier transforms of a length with small factors, in stages.
 *
 * With n = p m, elements x[q m + j] and bins y[k + p l]:
 *     y[k + p l] = sum over j of w_m^(j l) * ( w_n^(j k) * sum over q of x[q m + j] w_p^(q k) )
 * so: p-point transforms, a turn of each result, and p transforms of length m, taken apart alike.
 * That is n (p1 + p2 + ...) products instead of n n, and tables of p p instead of n n.
 *
 * Between stages lie [part, other dims ..., n]. A stage replaces the p elements m apart, from
 * g p m + j on, by their bins. Bins come out with the digits of their number backwards; the last
 * map puts them in order. */
#include "fft.h"

#include <string.h>

enum { STAGES_MAX = 64 };

typedef struct Stages {
    Lower *lo;
    const Transform *f;
    int64_t n, parts_in, factor[STAGES_MAX];
    int stages, axis;
    Shape shape; /* of what lies between stages */
} Stages;

/* Factors of n up to 8, the even ones first; false when there is none, or a larger prime. */
static bool factorize(Stages *s) {
    static const int64_t choice[] = {8, 4, 2, 3, 5, 7};
    int64_t n = s->n;
    for (size_t i = 0; i < sizeof choice / sizeof *choice; i++)
        for (; n > 1 && n % choice[i] == 0; n /= choice[i]) s->factor[s->stages++] = choice[i];
    return n == 1 && s->stages > 1;
}

/* Cosine and sine (part 0 and 1) of 2 pi turn / n, where `turn` is an integer value of m; the
 * sine's sign is the transform's. */
static int root(const Stages *s, Map *m, int part, int turn, int64_t n) {
    int of = body_index(&m->body, dim_const(s->lo->ctx, n));
    int rest = body_cvt(&m->body, F64, EXPR(m, "$0 % $1", turn, of));
    int angle = EXPR(m, "0x1.921fb54442d18p+2 * $0 / $1", rest, body_cvt(&m->body, F64, of));
    return part == 0 ? EXPR(m, "cos($0)", angle)
                     : EXPR(m, s->f->inverse ? "sin($0)" : "-sin($0)", angle);
}

/* A table [part, a, b] of w_n^(a b). */
static int roots(const Stages *s, const char *name, int64_t a, int64_t b, int64_t n) {
    Lower *lo = s->lo;
    Dim shape[] = {dim_const(lo->ctx, 2), dim_const(lo->ctx, a), dim_const(lo->ctx, b)}, at[3];
    int to = lower_tmp(lo, name, s->f->t, shape, 3);
    Map *m = lower_map(lo, name);
    nn_dims(lo, m, "ab", shape + 1, 2, at + 1);
    int turn = EXPR(m, "$0 * $1", body_index(&m->body, at[1]), body_index(&m->body, at[2]));
    for (int part = 0; part < 2; part++) {
        at[0] = dim_const(lo->ctx, part);
        nn_write(lo, m, to, at, root(s, m, part, turn, n));
    }
    return to;
}

/* A table [o, c, a, b]: what part c of an element gives to part o of its product with w_p^(a b). */
static int factors(const Stages *s, int64_t parts, int64_t p) {
    Lower *lo = s->lo;
    Ctx *ctx = lo->ctx;
    Dim shape[] = {dim_const(ctx, 2), dim_const(ctx, parts), dim_const(ctx, p), dim_const(ctx, p)};
    Dim at[4];
    int to = lower_tmp(lo, "factors", s->f->t, shape, 4);
    Map *m = lower_map(lo, "factors");
    nn_dims(lo, m, "ab", shape + 2, 2, at + 2);
    int turn = EXPR(m, "$0 * $1", body_index(&m->body, at[2]), body_index(&m->body, at[3]));
    int c = root(s, m, 0, turn, p), i = root(s, m, 1, turn, p);
    int val[2][2] = {{c, EXPR(m, "-$0", i)}, {i, c}};
    for (int out = 0; out < 2; out++)
        for (int in = 0; in < parts; in++) {
            at[0] = dim_const(ctx, out), at[1] = dim_const(ctx, in);
            nn_write(lo, m, to, at, val[out][in]);
        }
    return to;
}

/* A container of `parts` parts between stages. */
static int between(const Stages *s, const char *name, int64_t parts) {
    Shape shape = s->shape;
    shape.at[0] = dim_const(s->lo->ctx, parts);
    return lower_tmp(s->lo, name, s->f->t, shape.at, shape.rank);
}

/* Index of x or y for element `n` and part of what lies between stages at `at`. */
static void outside(const Stages *s, const Dim *at, Dim n, int part, Dim *to) {
    for (int i = 1, d = 0; i < s->shape.rank - 1; i++, d++) {
        if (d == s->axis) d++;
        to[d] = at[i];
    }
    to[s->axis] = n;
    to[s->shape.rank - 1] = dim_const(s->lo->ctx, part);
}

/* Elements first .. first + count - 1 from x; mirrored ones are conjugates of element n - i. */
static void load(const Stages *s, int x, int to, Dim first, Dim count, bool mirror) {
    Lower *lo = s->lo;
    Map *m = lower_map(lo, "load");
    Dim at[RANK_MAX], from[RANK_MAX];
    nn_dims(lo, m, "", s->shape.at + 1, s->shape.rank - 2, at + 1);
    Dim i = at[s->shape.rank - 1] = dim_add(lo->ctx, first, nn_dim(lo, m, "n", count));
    if (mirror) i = dim_sub(lo->ctx, s->f->n, i);
    for (int part = 0; part < s->parts_in; part++) {
        outside(s, at, i, part, from);
        int v = nn_read_else(lo, m, x, from, 0, s->f->t);
        at[0] = dim_const(lo->ctx, part);
        nn_write(lo, m, to, at, mirror && part ? EXPR(m, "-$0", v) : v);
    }
}

/* Transforms of p points, `step` apart. */
static int transform(const Stages *s, int x, int64_t parts, int64_t p, int64_t step) {
    Lower *lo = s->lo;
    Ctx *ctx = lo->ctx;
    int table = factors(s, parts, p), y = between(s, "bins", 2);
    Dim at[RANK_MAX], from[RANK_MAX];
    Map *m = lower_map(lo, "bins");
    nn_dims(lo, m, "o", s->shape.at, s->shape.rank - 1, at);
    Dim g = dim_mulc(ctx, nn_dim(lo, m, "g", dim_const(ctx, s->n / (p * step))), p * step);
    Dim k = nn_dim(lo, m, "k", dim_const(ctx, p)), j = nn_dim(lo, m, "j", dim_const(ctx, step));
    Dim c = nn_dim(lo, m, "c", dim_const(ctx, parts)), q = nn_dim(lo, m, "q", dim_const(ctx, p));
    Dim start = dim_add(ctx, g, j);
    int last = s->shape.rank - 1;
    memcpy(from, at, sizeof from);
    from[0] = c, from[last] = dim_add(ctx, start, dim_mulc(ctx, q, step));
    at[last] = dim_add(ctx, start, dim_mulc(ctx, k, step));
    int v = nn_read(lo, m, x, from), w = nn_read(lo, m, table, (Dim[]){at[0], c, k, q});
    nn_reduce(lo, m, y, at, EXPR(m, "$0 * $1", v, w), "sum");
    return y;
}

/* Bin k of the transforms of p points turned by w^(j k), w of p * step. */
static int turn(const Stages *s, int x, int64_t p, int64_t step) {
    Lower *lo = s->lo;
    Ctx *ctx = lo->ctx;
    int table = roots(s, "turns", p, step, p * step), y = between(s, "turned", 2);
    Dim at[RANK_MAX], part[] = {dim_const(ctx, 0), dim_const(ctx, 1)};
    int last = s->shape.rank - 1, v[2], w[2];
    Map *m = lower_map(lo, "turned");
    nn_dims(lo, m, "", s->shape.at + 1, last - 1, at + 1);
    Dim g = nn_dim(lo, m, "g", dim_const(ctx, s->n / (p * step)));
    Dim k = nn_dim(lo, m, "k", dim_const(ctx, p)), j = nn_dim(lo, m, "j", dim_const(ctx, step));
    at[last] = dim_add(ctx, dim_mulc(ctx, g, p * step), dim_add(ctx, dim_mulc(ctx, k, step), j));
    for (int i = 0; i < 2; i++) {
        at[0] = part[i];
        v[i] = nn_read(lo, m, x, at);
        w[i] = nn_read(lo, m, table, (Dim[]){part[i], k, j});
    }
    at[0] = part[0];
    nn_write(lo, m, y, at, EXPR(m, "$0 * $2 - $1 * $3", v[0], v[1], w[0], w[1]));
    at[0] = part[1];
    nn_write(lo, m, y, at, EXPR(m, "$0 * $3 + $1 * $2", v[0], v[1], w[0], w[1]));
    return y;
}

/* The bins in order, and no more of them than wanted. A real signal's first and middle bin have no
 * imaginary part. */
static void store(const Stages *s, int x, int y) {
    Lower *lo = s->lo;
    Ctx *ctx = lo->ctx;
    const Transform *f = s->f;
    Dim at[RANK_MAX], to[RANK_MAX], bin = dim_const(ctx, 0), place = bin;
    Map *m = lower_map(lo, NULL);
    int last = s->shape.rank - 1;
    nn_dims(lo, m, "", s->shape.at + 1, last - 1, at + 1);
    int64_t weight = 1, step = s->n;
    for (int i = 0; i < s->stages; i++) {
        Dim digit = nn_dim(lo, m, "d", dim_const(ctx, s->factor[i]));
        step /= s->factor[i];
        place = dim_add(ctx, place, dim_mulc(ctx, digit, step));
        bin = dim_add(ctx, bin, dim_mulc(ctx, digit, weight));
        weight *= s->factor[i];
    }
    if (f->half_out) nn_between(lo, m, bin, dim_const(ctx, 0), f->bins_out);
    at[last] = place;
    for (int part = 0; part < f->parts_out; part++) {
        at[0] = dim_const(ctx, part);
        int v = nn_read(lo, m, x, at);
        if (f->inverse) v = EXPR(m, internf(ctx, "$0 * %s", nn_lit(lo, 1.0 / (double)s->n)), v);
        if (part && s->parts_in == 1)
            v = EXPR(m, "select(($1 == 0) | (2 * $1 == $2), 0, $0)", v, body_index(&m->body, bin),
                     body_index(&m->body, f->n));
        outside(s, at, bin, part, to);
        nn_write(lo, m, y, to, v);
    }
}

bool fft_stages(Lower *lo, const Transform *f, int x, int y, int axis) {
    Stages s = {.lo = lo, .f = f, .axis = axis};
    Shape shape = nn_shape(lo, x);
    if (!dim_is_const(f->n, &s.n) || !dim_is_const(f->parts_in, &s.parts_in)) return false;
    if (shape.rank >= RANK_MAX || !factorize(&s)) return false;
    s.shape.at[s.shape.rank++] = dim_const(lo->ctx, 2);
    for (int i = 0; i < shape.rank - 1; i++)
        if (i != axis) s.shape.at[s.shape.rank++] = shape.at[i];
    s.shape.at[s.shape.rank++] = f->n;
    int64_t parts = s.parts_in, step = s.n;
    int z = between(&s, "signal", parts);
    Dim none = dim_const(lo->ctx, 0);
    load(&s, x, z, none, f->bins_in, false);
    if (f->half_in) load(&s, x, z, f->bins_in, dim_sub(lo->ctx, f->n, f->bins_in), true);
    for (int i = 0; i < s.stages; i++, parts = 2) {
        step /= s.factor[i];
        z = transform(&s, z, parts, s.factor[i], step);
        if (step > 1) z = turn(&s, z, s.factor[i], step);
    }
    store(&s, z, y);
    return true;
}
