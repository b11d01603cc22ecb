/* SPDX-License-Identifier: Apache-2.0 */
/* dim_simplify: drops what ranges make redundant in div, mod, min and max.
 *
 * A quotient x/b is first tried whole: when x is proven to lie in k*b .. k*b + b-1, it is k. Then,
 * for each common factor g of b and one of x's terms, x is cut into the terms that g divides and a
 * rest R: with k*g <= R < k*g + g, (g*y + R)/(g*c) is (y + k)/c, and (g*y + R) % (g*c) is
 * g*((y + k) % c) + R - k*g. */
#include "dim_private.h"

enum { FUEL = 4000 };
static const Mask PARTS = MASK_DIV | MASK_MOD | MASK_MINMAX;

static Dim simplify(Proof *proof, Dim d);

/* The k with k*b <= x < (k+1)*b as far as it can be told: -1, 0 or what constant bounds give. */
static bool quotient_of(Proof *proof, Dim x, Dim b, int64_t *k) {
    Ctx *ctx = proof->ctx;
    int64_t c, lo, hi;
    Dim low = prove_bound(proof, x, 0, false);
    if (low && dim_is_const(low, &lo) && dim_is_const(b, &c)) {
        Dim high = prove_bound(proof, x, 0, true);
        if (!high || !dim_is_const(high, &hi)) return false;
        *k = floor_div64(lo, c);
        return *k == floor_div64(hi, c);
    }
    *k = prove_ge0(proof, x) ? 0 : -1;
    Dim rest = *k ? try_add(ctx, x, b) : x;
    Dim last = try_sub(ctx, try_sub(ctx, b, dim_const(ctx, 1)), rest);
    return last && prove_ge0(proof, last) && (!*k || prove_ge0(proof, rest));
}

/* x = g*y + R; the terms of R are those g does not divide, and of the constant what is left over.
 */
static bool cut(Ctx *ctx, Dim x, Dim g, Dim *y, Dim *rest) {
    int64_t by;
    Sum ys, rs;
    sum_start(&ys, ctx);
    sum_start(&rs, ctx);
    for (int i = 0; i < x->nterms; i++) {
        const DimTerm *t = &x->term[i];
        Dim q, term = try_term(ctx, t->coef, term_mono(t));
        if (dim_divides(ctx, term, g, &q)) {
            sum_add(&ys, q, 1);
        } else if (!t->natoms && dim_is_const(g, &by) && by > 0) {
            int64_t k = floor_div64(t->coef, by);
            sum_term(&ys, k, term_mono(t));
            sum_term(&rs, t->coef - k * by, term_mono(t));
        } else {
            sum_term(&rs, t->coef, term_mono(t));
        }
    }
    *y = sum_done(&ys);
    *rest = sum_done(&rs);
    return *y && *rest && (*y)->nterms;
}

/* The common factor of b (a constant or a single term) and term t; NULL when it is 1 or all of b.
 */
static Dim factor_with(Ctx *ctx, Dim b, const DimTerm *t) {
    if (b->nterms != 1 || !t->natoms) return NULL;
    int64_t coef = gcd64(b->term->coef, t->coef);
    if (!coef) return NULL;
    Dim g = try_term(ctx, coef, mono_gcd(ctx, term_mono(b->term), term_mono(t)));
    return dim_is(g, 1) || g == b ? NULL : g;
}

/* (g*y + R) by b, R's quotient by g known: the answer, or NULL. */
static Dim reduce_by(Proof *proof, AtomKind kind, Dim x, Dim b, Dim g) {
    Ctx *ctx = proof->ctx;
    Dim y, rest, c;
    int64_t k, sign;
    if (!cut(ctx, x, g, &y, &rest)) return NULL;
    if (dim_is_const(g, &sign) ? sign <= 0 : !prove_ge0(proof, try_sub(ctx, g, dim_const(ctx, 1))))
        return NULL;
    if (!rest->nterms && g != b) return NULL;
    if (!quotient_of(proof, rest, g, &k) || !dim_divides(ctx, b, g, &c)) return NULL;
    Dim in = try_add(ctx, y, dim_const(ctx, k));
    if (kind == ATOM_DIV) return in ? try_div(ctx, in, c) : NULL;
    Dim left = try_sub(ctx, rest, try_scale(ctx, g, k));
    return try_add(ctx, try_mul(ctx, g, in ? try_mod(ctx, in, c) : NULL), left);
}

/* x/b or x%b of simplified x and b, as one atom or something simpler. */
static Dim reduce(Proof *proof, AtomKind kind, Dim x, Dim b) {
    Ctx *ctx = proof->ctx;
    int64_t k;
    if (b->nterms && quotient_of(proof, x, b, &k)) {
        if (kind == ATOM_DIV) return dim_const(ctx, k);
        return try_sub(ctx, x, try_scale(ctx, b, k));
    }
    for (int i = 0; i < x->nterms; i++) {
        Dim g = factor_with(ctx, b, &x->term[i]);
        Dim out = g ? reduce_by(proof, kind, x, b, g) : NULL;
        if (out) return out;
    }
    return NULL;
}

/* An atom as it is after its arguments were simplified, or simpler; `again` when it became
 * something else that may simplify further. */
static Dim simplify_atom(Proof *proof, const Atom *atom) {
    Ctx *ctx = proof->ctx;
    Dim self = try_term(ctx, 1, mono_atom(ctx, atom));
    if (atom->kind == ATOM_SYM || proof->fuel <= 0) return self;
    Dim a = simplify(proof, atom->a), b = simplify(proof, atom->b);
    if (!a || !b) return self;
    if (a != atom->a || b != atom->b) {
        Dim out = try_atom(ctx, atom->kind, a, b);
        return out ? simplify(proof, out) : self;
    }
    if (atom->kind == ATOM_MIN || atom->kind == ATOM_MAX) {
        Dim diff = try_sub(ctx, b, a);
        if (!diff) return self;
        if (prove_ge0(proof, diff)) return atom->kind == ATOM_MIN ? a : b;
        if (prove_ge0(proof, try_scale(ctx, diff, -1))) return atom->kind == ATOM_MIN ? b : a;
        return self;
    }
    Dim out = reduce(proof, atom->kind, a, b);
    return out && out != self ? simplify(proof, out) : self;
}

static Dim simplify(Proof *proof, Dim d) {
    Ctx *ctx = proof->ctx;
    if (!(dim_mask(d) & PARTS) || proof->fuel-- <= 0) return d;
    Sum sum;
    sum_start(&sum, ctx);
    bool changed = false;
    for (int i = 0; i < d->nterms; i++) {
        const DimTerm *t = &d->term[i];
        Dim product = dim_const(ctx, t->coef);
        for (int k = 0; k < t->natoms && product; k++)
            product = try_mul(ctx, product, simplify_atom(proof, t->atom[k]));
        if (!product) return d;
        changed |= product->nterms != 1 || product->term->atom != t->atom;
        sum_add(&sum, product, 1);
    }
    Dim out = changed ? sum_done(&sum) : d;
    return out ? out : d;
}

Dim dim_simplify(Ctx *ctx, Dim d, const DimEnv *env) {
    static const DimEnv none;
    Question q = {.what = ASKED_SIMPLE, .d = d, .env = env ? env : &none};
    if (!(dim_mask(d) & PARTS)) return d;
    if (question_known(ctx, &q)) return q.answer;
    Proof proof = {ctx, q.env, FUEL};
    Dim simple = simplify(&proof, d);
    question_keep(ctx, &q, simple);
    return simple;
}
