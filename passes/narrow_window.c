/* SPDX-License-Identifier: Apache-2.0 */
/* Windows over an image of a few channels (red, green and blue), for products of bf16.
 *
 * Channels lie apart, too few to fill a group. So the image is rounded into rows in which the
 * channels of a pixel stand side by side, a last one of zeros filling up pairs, and what a row of
 * the window meets is one run of them:
 *
 *     y[o,h,w] <- sum over c, r, s of x[c, h+r, 2*w+s] * f[o,c,r,s]
 *     y[o,h,w] <- sum over r, k of X[h+r, C*2*w + k] * F[o,r,k], k = C*s + c
 *
 * The weights get the same order; the constant part computes them. */
#include <math.h>

#include "passes/narrow.h"

enum { CHANNELS = 4 };

typedef struct Window {
    Editing *e;
    const Map *m;
    const Access *a, *b;
    int c, s;              /* dims of m: channels, and places along a row */
    int at_c, at_s;        /* their indices in the image, */
    int in_c, in_s;        /* and in the weights */
    int64_t channels, run; /* side by side: of a pixel, and of a row of the window */
} Window;

/* The last index of the image steps by one along a reduced dim, another is the channel. */
static bool find_window(Window *w, const Contraction *r) {
    const Flow *flow = w->e->flow;
    const Map *m = w->m;
    w->c = w->s = -1, w->at_s = w->a->rank - 1;
    if (!w->a->rank) return false;
    for (int d = 0; d < m->dim.n; d++) {
        Dim coef, rest;
        bool reduced = r->role[d] == ROLE_K || r->role[d] == ROLE_WINDOW;
        bool other = r->role[d] == ROLE_BATCH || r->role[d] == ROLE_OTHER;
        if (m->dim.at[d].seq || other) return false;
        if (!reduced || map_extent(m, d, -1) < 1) continue;
        int in_b = access_plain(m, w->b, d), in_a = access_plain(m, w->a, d);
        if (in_b < 0) return false;
        Dim last = w->a->at[w->at_s];
        if (dim_uses(last, m->dim.at[d].sym)) {
            if (w->s >= 0 || !dim_affine(flow->ctx, last, &m->dim.at[d].sym, 1, &coef, &rest))
                return false;
            if (!dim_is(coef, 1)) return false;
            w->s = d, w->in_s = in_b;
        } else if (w->c < 0 && in_a >= 0 &&
                   flow->cont.at[w->a->cont].shape[in_a] == m->dim.at[d].extent) {
            w->c = d, w->at_c = in_a, w->in_c = in_b;
        }
    }
    if (w->c < 0 || w->s < 0) return false;
    w->channels = (map_extent(m, w->c, 0) + 1) / 2 * 2;
    w->run = w->channels * map_extent(m, w->s, 0);
    return w->channels <= CHANNELS;
}

/* An image of the caller's is copied, too, where windows read beyond its box. */
static bool copied(const Window *w) {
    bool beyond = false;
    for (int v = 0; v < w->m->body.val.n; v++) beyond |= w->m->body.val.at[v].has_else;
    return beyond && w->e->flow->cont.at[w->a->cont].kind == CONT_IN;
}

/* Are steps on tiles, and rounding, quicker than the products as they are? */
static bool pays(const Window *w, const Contraction *r, const Machine *machine) {
    const Flow *flow = w->e->flow;
    double rows = contraction_usual(flow, w->m, r, ROLE_M), pixels = 1;
    double flop = 2 * map_usual_volume(flow, w->m);
    const Cont *x = &flow->cont.at[w->a->cont];
    for (int k = 0; k < x->rank; k++)
        if (k != w->at_c) pixels *= (double)usual_extent(flow, x->shape[k]);
    double padded = flop * (double)w->channels / (double)map_extent(w->m, w->c, 1);
    double elements = pixels * (double)w->channels, bytes = 6 * elements;
    double read = bytes / machine_bandwidth(machine, bytes);
    double rounding = fmax(read, elements * machine_cycle(machine));
    if (copied(w)) rounding -= fmin(rounding, read);
    return padded / dot_flops(machine, BF16, BF16, rows, w->run) + rounding <
           flop / dot_flops(machine, F32, F32, rows, 1);
}

/* A map that rounds an operand into rows in which its indices at_s and, inside, at_c are one: runs
 * of all channels, zeros for those it lacks. Returns what it writes. */
static int rows_of(const Window *w, const Access *operand, int at_s, int at_c, Items *into) {
    Flow *flow = w->e->flow;
    Ctx *ctx = flow->ctx;
    const Cont from = flow->cont.at[operand->cont];
    const char *name = internf(ctx, "%s.rows", from.name);
    Map *copy = flow_map(flow, into, name, from.from);
    Dim at[RANK_MAX], out[RANK_MAX], shape[RANK_MAX], channels = dim_const(ctx, w->channels);
    int n = 0;
    for (int k = 0; k < from.rank; k++) {
        if (k == at_c) continue;
        at[k] = map_dim(flow, copy, "i", from.shape[k]);
        if (k != at_s) out[n] = at[k], shape[n++] = from.shape[k];
    }
    at[at_c] = map_dim(flow, copy, "c", channels);
    out[n] = dim_add(ctx, dim_mul(ctx, channels, at[at_s]), at[at_c]);
    shape[n++] = dim_mul(ctx, channels, from.shape[at_s]);
    int to = flow_cont(flow, name, CONT_TMP, BF16, shape, n);
    int value = map_read_else(flow, copy, operand->cont, at, body_const(&copy->body, from.type, 0));
    map_write(flow, copy, to, out, body_cvt(&copy->body, BF16, value), NULL);
    return to;
}

/* The product of both. */
static void multiply_rows(const Window *w, int image, int weights, Items *into) {
    Flow *flow = w->e->flow;
    Ctx *ctx = flow->ctx;
    const Map old = *w->m;
    Map *m = flow_map(flow, into, old.name, old.from);
    DimSubst subst[MAP_DIMS];
    for (int d = 0; d < old.dim.n; d++) {
        const MapDim *dim = &old.dim.at[d];
        Dim to = d == w->c || d == w->s ? dim_const(ctx, 0)
                                        : map_dim(flow, m, dim_sym_name(dim->sym), dim->extent);
        subst[d] = (DimSubst){dim->sym, to};
    }
    Dim k = map_dim(flow, m, "k", dim_const(ctx, w->run)), at[RANK_MAX], from[RANK_MAX];
    int n = 0, nb = 0;
    for (int i = 0; i < w->a->rank; i++)
        if (i != w->at_c) at[n++] = dim_subst(ctx, w->a->at[i], subst, old.dim.n);
    at[n - 1] = dim_add(ctx, dim_mulc(ctx, at[n - 1], w->channels), k);
    for (int i = 0; i < w->b->rank; i++)
        if (i != w->in_c && i != w->in_s)
            from[nb++] = dim_subst(ctx, w->b->at[i], subst, old.dim.n);
    from[nb++] = k;
    Body *b = &m->body;
    int x = body_cvt(b, F32, map_read_else(flow, m, image, at, body_const(b, BF16, 0)));
    int f = body_cvt(b, F32, map_read(flow, m, weights, from));
    const Write *write = &old.write.at[0];
    Dim to[RANK_MAX];
    for (int i = 0; i < write->to[0].rank; i++)
        to[i] = dim_subst(ctx, write->to[0].at[i], subst, old.dim.n);
    map_write(flow, m, write->to[0].cont, to, body_prim2(b, P_MUL, x, f), write->combine);
}

bool narrow_window(Editing *e, const Machine *machine, const Map *m, Items *into, Items *front) {
    Contraction r = map_contraction(e->flow, m);
    if (machine->block_threads || !machine->nmatrix || !narrow_factors(m, &r)) return false;
    const Access a = m->body.val.at[r.a].read, b = m->body.val.at[r.b].read;
    Window w = {.e = e, .m = m, .a = &a, .b = &b};
    if (m->body.val.at[r.b].has_else || m->write.at[0].n != 1) return false;
    if (!find_window(&w, &r) || !pays(&w, &r, machine)) return false;
    bool first = e->flow->cont.at[b.cont].kind != CONT_TMP;
    int image = rows_of(&w, &a, w.at_s, w.at_c, into);
    int weights = rows_of(&w, &b, w.in_s, w.in_c, first ? front : into);
    multiply_rows(&w, image, weights, into);
    return true;
}
