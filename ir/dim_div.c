/* SPDX-License-Identifier: Apache-2.0 */
/* Floor division, mod, min and max in canonical form, as far as it holds for every value of the
 * symbols (a symbolic divisor is taken to be non-zero).
 *
 * x / c, c > 1 constant: whole multiples leave the quotient (coefficients truncate towards zero,
 * the constant rounds down, so that it ends in 0..c-1), common factors cancel, a single nested
 * quotient is unnested: (x/m + y)/c = (x + m*y)/(m*c). What only falls is rounded up the other way:
 * -x / c is -((x + c-1) / c), and x + -x % c is c times that quotient. x / b, b symbolic:
 * polynomial division splits off what it can, common factors cancel. x % b drops the same
 * multiples. */
#include <string.h>

#include "dim_private.h"

int64_t gcd64(int64_t a, int64_t b) {
    uint64_t x = a < 0 ? -(uint64_t)a : (uint64_t)a, y = b < 0 ? -(uint64_t)b : (uint64_t)b;
    while (y) {
        uint64_t t = x % y;
        x = y;
        y = t;
    }
    return x > INT64_MAX ? 0 : (int64_t)x;
}

int64_t dim_factor(Dim d) {
    int64_t c = 0;
    for (int i = 0; i < d->nterms; i++) c = gcd64(c, d->term[i].coef);
    return c;
}

int64_t floor_div64(int64_t a, int64_t b) {
    int64_t q = a / b;
    return a % b != 0 && (a < 0) != (b < 0) ? q - 1 : q;
}

static Dim lone(Ctx *ctx, AtomKind kind, Dim a, Dim b) {
    return a && b ? try_term(ctx, 1, mono_atom(ctx, atom_make(ctx, kind, a, b))) : NULL;
}

/* Does it fall as each of its symbols grows? */
static bool falls(Dim a) {
    for (int i = 0; i < a->nterms; i++)
        if (a->term[i].natoms && a->term[i].coef > 0) return false;
    return true;
}

/* c - 1 - r: r / c is minus its quotient by c. */
static Dim turned(Ctx *ctx, Dim r, int64_t c) {
    return try_sub(ctx, dim_const(ctx, c - 1), r);
}

/* a = c*q + r with the coefficients of r smaller than c in magnitude, its constant in 0..c-1. */
static bool split_const(Ctx *ctx, Dim a, int64_t c, Dim *q, Dim *r) {
    Sum qs, rs;
    sum_start(&qs, ctx);
    sum_start(&rs, ctx);
    for (int i = 0; i < a->nterms; i++) {
        const DimTerm *t = &a->term[i];
        int64_t k = t->natoms ? t->coef / c : floor_div64(t->coef, c);
        sum_term(&qs, k, term_mono(t));
        sum_term(&rs, t->coef - k * c, term_mono(t));
    }
    *q = sum_done(&qs);
    *r = sum_done(&rs);
    return *q && *r;
}

/* The greatest common divisor of c and all coefficients but the constant's. */
static int64_t common_coef(Dim a, int64_t c) {
    for (int i = 0; i < a->nterms && c > 1; i++)
        if (a->term[i].natoms) c = gcd64(c, a->term[i].coef);
    return c;
}

/* Coefficients divided by g, which divides them; the constant is rounded down. */
static Dim shrink(Ctx *ctx, Dim a, int64_t g) {
    Sum sum;
    sum_start(&sum, ctx);
    for (int i = 0; i < a->nterms; i++)
        sum_term(&sum, floor_div64(a->term[i].coef, g), term_mono(&a->term[i]));
    return sum_done(&sum);
}

static int64_t constant_of(Dim a) {
    const DimTerm *last = a->nterms ? &a->term[a->nterms - 1] : NULL;
    return last && !last->natoms ? last->coef : 0;
}

/* The one term that is 1 * (x / m), when no other holds a division; else NULL. */
static const DimTerm *single_quotient(Dim r) {
    const DimTerm *found = NULL;
    for (int i = 0; i < r->nterms; i++) {
        const DimTerm *t = &r->term[i];
        if (!(term_mono(t)->mask & MASK_DIV)) continue;
        if (found || t->coef != 1 || t->natoms != 1 || t->atom[0]->kind != ATOM_DIV) return NULL;
        found = t;
    }
    return found;
}

static Dim div_const(Ctx *ctx, Dim a, int64_t c) {
    Dim q, r;
    if (!split_const(ctx, a, c, &q, &r)) return NULL;
    if (dim_is_const(r, NULL)) return q;
    int64_t g = common_coef(r, c);
    if (g == 0) return NULL;
    if (g > 1) {
        r = shrink(ctx, r, g);
        c /= g;
    }
    if (c == 1) return try_add(ctx, q, r);
    if (falls(r)) return try_sub(ctx, q, try_div(ctx, turned(ctx, r, c), dim_const(ctx, c)));
    const DimTerm *nested = single_quotient(r);
    if (nested) {
        const Atom *in = nested->atom[0];
        Dim rest = try_sub(ctx, r, try_term(ctx, 1, term_mono(nested)));
        Dim over = try_add(ctx, in->a, try_mul(ctx, in->b, rest));
        Dim by = try_scale(ctx, in->b, c);
        if (over && by) return try_add(ctx, q, try_div(ctx, over, by));
    }
    return try_add(ctx, q, lone(ctx, ATOM_DIV, r, dim_const(ctx, c)));
}

/* Terms c*(x % m) with c*m a multiple of `by` are c*x as far as the rest by `by` goes. */
static Dim unnest_mod(Ctx *ctx, Dim a, int64_t by) {
    if (!(dim_mask(a) & MASK_MOD)) return a;
    Sum sum;
    sum_start(&sum, ctx);
    for (int i = 0; i < a->nterms; i++) {
        const DimTerm *t = &a->term[i];
        int64_t m, whole;
        bool drop = t->natoms == 1 && t->atom[0]->kind == ATOM_MOD &&
                    dim_is_const(t->atom[0]->b, &m) &&
                    !__builtin_mul_overflow(t->coef, m, &whole) && whole % by == 0;
        if (drop)
            sum_add(&sum, t->atom[0]->a, t->coef);
        else
            sum_term(&sum, t->coef, term_mono(t));
    }
    Dim out = sum_done(&sum);
    return out ? out : a;
}

static Dim mod_const(Ctx *ctx, Dim a, int64_t c) {
    Dim q, r, unnested;
    while ((unnested = unnest_mod(ctx, a, c)) != a) a = unnested;
    if (!split_const(ctx, a, c, &q, &r)) return NULL;
    if (dim_is_const(r, NULL)) return r;
    int64_t g = common_coef(r, c), m;
    if (g == 0) return NULL;
    if (g > 1) {
        Dim rest = dim_const(ctx, constant_of(r) % g);
        Dim in = try_mod(ctx, shrink(ctx, r, g), dim_const(ctx, c / g));
        return try_add(ctx, try_scale(ctx, in, g), rest);
    }
    if (falls(r)) {
        Dim up = try_div(ctx, turned(ctx, r, c), dim_const(ctx, c));
        return try_add(ctx, r, try_scale(ctx, up, c));
    }
    bool small = r->nterms == 1 && r->term->coef == 1 && r->term->natoms == 1 &&
                 r->term->atom[0]->kind == ATOM_MOD && dim_is_const(r->term->atom[0]->b, &m) &&
                 m <= c;
    return small ? r : lone(ctx, ATOM_MOD, r, dim_const(ctx, c));
}

bool dim_long_division(Ctx *ctx, Dim a, Dim b, Dim *q, Dim *r) {
    const DimTerm *lead = &b->term[0];
    Dim p = a, quotient = dim_const(ctx, 0), rest = quotient;
    for (int step = 0; p && p->nterms && step < 256; step++) {
        const DimTerm *t = &p->term[0];
        const Mono *m = mono_div(ctx, term_mono(t), term_mono(lead));
        if (m && t->coef % lead->coef == 0 && !(lead->coef == -1 && t->coef == INT64_MIN)) {
            Dim part = try_term(ctx, t->coef / lead->coef, m);
            quotient = try_add(ctx, quotient, part);
            p = try_sub(ctx, p, try_mul(ctx, part, b));
        } else {
            Dim part = try_term(ctx, t->coef, term_mono(t));
            rest = try_add(ctx, rest, part);
            p = try_sub(ctx, p, part);
        }
    }
    *q = quotient;
    *r = try_add(ctx, rest, p);
    return *q && *r;
}

/* The common factor of all terms of a and b. */
static Dim common_factor(Ctx *ctx, Dim a, Dim b) {
    int64_t coef = 0;
    const Mono *mono = NULL;
    for (int i = 0; i < a->nterms + b->nterms; i++) {
        const DimTerm *t = i < a->nterms ? &a->term[i] : &b->term[i - a->nterms];
        coef = gcd64(coef, t->coef);
        mono = mono ? mono_gcd(ctx, mono, term_mono(t)) : term_mono(t);
    }
    return coef ? try_term(ctx, coef, mono) : NULL;
}

/* Writes a as q*b + r and cancels the common factor of r and b into `factor`. */
static bool split_symbolic(Ctx *ctx, Dim a, Dim *b, Dim *q, Dim *r, Dim *factor) {
    if (!dim_long_division(ctx, a, *b, q, r)) return false;
    if ((*r)->nterms && (*r)->nterms >= a->nterms) {
        *q = dim_const(ctx, 0);
        *r = a;
    }
    *factor = dim_const(ctx, 1);
    if (!(*r)->nterms) return true;
    Dim common = common_factor(ctx, *r, *b), none;
    if (!common || dim_is(common, 1)) return true;
    *factor = common;
    return dim_long_division(ctx, *r, common, r, &none) &&
           dim_long_division(ctx, *b, common, b, &none);
}

Dim try_div(Ctx *ctx, Dim a, Dim b) {
    int64_t c;
    Dim q, r, factor;
    if (!a || !b || !b->nterms) return NULL;
    if (!a->nterms || dim_is(b, 1)) return a;
    if (dim_is_const(b, &c)) {
        if (c == INT64_MIN) return NULL;
        return c < 0 ? try_div(ctx, try_scale(ctx, a, -1), dim_const(ctx, -c))
                     : div_const(ctx, a, c);
    }
    Dim by = b;
    if (!split_symbolic(ctx, a, &by, &q, &r, &factor)) return lone(ctx, ATOM_DIV, a, b);
    if (!r->nterms) return q;
    if (dim_is_const(by, NULL)) return try_add(ctx, q, try_div(ctx, r, by));
    return try_add(ctx, q, lone(ctx, ATOM_DIV, r, by));
}

Dim try_mod(Ctx *ctx, Dim a, Dim b) {
    int64_t c;
    Dim q, r, factor;
    if (!a || !b || !b->nterms) return NULL;
    if (!a->nterms) return a;
    if (dim_is_const(b, &c)) {
        if (c == INT64_MIN) return NULL;
        if (c == 1) return dim_const(ctx, 0);
        if (c > 0) return mod_const(ctx, a, c);
        return try_scale(ctx, try_mod(ctx, try_scale(ctx, a, -1), dim_const(ctx, -c)), -1);
    }
    Dim by = b;
    if (!split_symbolic(ctx, a, &by, &q, &r, &factor)) return lone(ctx, ATOM_MOD, a, b);
    if (!r->nterms) return r;
    if (dim_is(factor, 1)) return lone(ctx, ATOM_MOD, r, by);
    return try_mul(ctx, factor, try_mod(ctx, r, by));
}

/* ---- min and max -------------------------------------------------------------------------------
 */

enum { MAX_LEAVES = 32 };
typedef struct Leaves {
    Dim at[MAX_LEAVES];
    int n;
} Leaves;

/* d = x/c, c > 1 constant, whole multiples of c among x; else d is x. */
static Dim numerator(Ctx *ctx, Dim d, int64_t *c) {
    const DimTerm *t = single_quotient(d);
    *c = 1;
    if (!t || !dim_is_const(t->atom[0]->b, c)) return d;
    Dim whole = try_sub(ctx, d, try_term(ctx, 1, term_mono(t)));
    return try_add(ctx, t->atom[0]->a, try_scale(ctx, whole, *c));
}

/* Is it known, whatever the symbols are, which of a and b is greater? What both divide by the same
 * number, or by none, differs by a constant. */
static bool ordered(Ctx *ctx, Dim a, Dim b, int64_t *apart) {
    int64_t by[2];
    Dim x = numerator(ctx, a, &by[0]), y = numerator(ctx, b, &by[1]);
    Dim diff = by[0] == by[1] ? try_sub(ctx, x, y) : NULL;
    return diff && dim_is_const(diff, apart);
}

/* Adds d, or the arguments of the `kind` that d is, in order; of two whose order is known only one
 * stays. False: too many. */
static bool leaves_add(Ctx *ctx, Leaves *leaves, AtomKind kind, Dim d) {
    if (d->nterms == 1 && d->term->coef == 1 && d->term->natoms == 1 &&
        d->term->atom[0]->kind == kind)
        return leaves_add(ctx, leaves, kind, d->term->atom[0]->a) &&
               leaves_add(ctx, leaves, kind, d->term->atom[0]->b);
    int at = leaves->n;
    for (int i = 0; i < leaves->n; i++) {
        int64_t c;
        if (ordered(ctx, d, leaves->at[i], &c)) {
            if ((kind == ATOM_MIN) == (c >= 0)) return true;
            memmove(&leaves->at[i], &leaves->at[i + 1], (size_t)(--leaves->n - i) * sizeof(Dim));
            return leaves_add(ctx, leaves, kind, d);
        }
        if (at == leaves->n && dim_order(d, leaves->at[i]) < 0) at = i;
    }
    if (leaves->n == MAX_LEAVES) return false;
    memmove(&leaves->at[at + 1], &leaves->at[at], (size_t)(leaves->n++ - at) * sizeof(Dim));
    leaves->at[at] = d;
    return true;
}

static Dim extremum(Ctx *ctx, AtomKind kind, Dim a, Dim b) {
    if (!a || !b || a == b) return a ? b : NULL;
    Leaves leaves = {.n = 0};
    if (!leaves_add(ctx, &leaves, kind, a) || !leaves_add(ctx, &leaves, kind, b))
        return lone(ctx, kind, a, b);
    Dim out = leaves.at[leaves.n - 1];
    for (int i = leaves.n - 2; i >= 0; i--) out = lone(ctx, kind, leaves.at[i], out);
    return out;
}

Dim try_min(Ctx *ctx, Dim a, Dim b) {
    return extremum(ctx, ATOM_MIN, a, b);
}

Dim try_max(Ctx *ctx, Dim a, Dim b) {
    return extremum(ctx, ATOM_MAX, a, b);
}

Dim try_atom(Ctx *ctx, AtomKind kind, Dim a, Dim b) {
    switch (kind) {
    case ATOM_DIV: return try_div(ctx, a, b);
    case ATOM_MOD: return try_mod(ctx, a, b);
    case ATOM_MIN: return try_min(ctx, a, b);
    case ATOM_MAX: return try_max(ctx, a, b);
    case ATOM_SYM: break;
    }
    BUG("a symbol has no arguments");
}
