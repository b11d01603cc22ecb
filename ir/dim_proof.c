/* SPDX-License-Identifier: Apache-2.0 */
/* Bounds and proofs under ranges.
 *
 * A bound is found by eliminating one symbol after the other, the innermost first, because its
 * range may use the earlier ones. To eliminate x from d, d is grouped by the factors that hold x:
 * the coefficient of x is itself a polynomial, whose sign is proven by the same means; then x is
 * replaced by the end of its range that the sign demands. n*S + s with n <= N-1, s <= S-1 gives
 * n*S + S - 1, then, as S >= 0, N*S - 1. A div, mod, min or max that holds x is bounded by its
 * arguments.
 *
 * `prove_ge0` takes min and max apart first (min(a,b) + r >= 0 when a + r >= 0 and b + r >= 0),
 * then eliminates the innermost symbol, and at last replaces a quotient by the fractions around it,
 * which keeps the tie between i and i/4 that a bound of each alone loses. Every answer is sound;
 * `fuel` makes a hard question "unknown" instead of slow. */
#include "dim_private.h"

enum { FUEL = 3000, MAX_GROUPS = 24, LONG_SUM = 4 };

static Dim eliminate(Proof *proof, Dim d, int i, bool upper);

static bool spend(Proof *proof) {
    return proof->fuel > 0 && proof->fuel--;
}

static const Atom *lone_atom(const DimTerm *t) {
    return t->natoms == 1 ? t->atom[0] : NULL;
}

static bool is_extremum(const Atom *atom) {
    return atom && (atom->kind == ATOM_MIN || atom->kind == ATOM_MAX);
}

/* d with its term number t replaced by coef * by. */
static Dim replace_term(Ctx *ctx, Dim d, int t, int64_t coef, Dim by) {
    Sum sum;
    sum_start(&sum, ctx);
    for (int i = 0; i < d->nterms; i++)
        if (i != t) sum_term(&sum, d->term[i].coef, term_mono(&d->term[i]));
    sum_add(&sum, by, coef);
    return sum_done(&sum);
}

static bool positive(Proof *proof, Dim d) {
    int64_t c;
    if (dim_is_const(d, &c)) return c > 0;
    Dim less = try_add(proof->ctx, d, dim_const(proof->ctx, -1));
    return less && prove_ge0(proof, less);
}

/* ---- elimination of one symbol --------------------------------------------------------------- */

/* What an atom can be at most (least), free of the symbol; the argument is bounded as its direction
 * demands. */
static Dim bound_div(Proof *proof, const Atom *atom, int i, bool upper) {
    Ctx *ctx = proof->ctx;
    Dim sym = proof->env->at[i].sym;
    if (!positive(proof, atom->b)) return NULL;
    Dim a = eliminate(proof, atom->a, i, upper);
    if (!dim_uses(atom->b, sym)) return try_div(ctx, a, atom->b);
    if (!a || !prove_ge0(proof, atom->a)) return NULL;
    return try_div(ctx, a, eliminate(proof, atom->b, i, !upper));
}

static Dim bound_mod(Proof *proof, const Atom *atom, int i, bool upper) {
    Ctx *ctx = proof->ctx;
    if (!positive(proof, atom->b)) return NULL;
    Dim last = try_add(ctx, atom->b, dim_const(ctx, -1));
    Dim room = try_sub(ctx, last, atom->a);
    bool whole = room && prove_ge0(proof, atom->a) && prove_ge0(proof, room);
    if (whole) return eliminate(proof, atom->a, i, upper);
    return upper ? eliminate(proof, last, i, true) : dim_const(ctx, 0);
}

static Dim bound_atom(Proof *proof, const Atom *atom, int i, bool upper) {
    const DimRange *range = &proof->env->at[i];
    if (atom->kind == ATOM_SYM) return upper ? range->hi : range->lo;
    if (atom->kind == ATOM_DIV) return bound_div(proof, atom, i, upper);
    if (atom->kind == ATOM_MOD) return bound_mod(proof, atom, i, upper);
    Dim a = eliminate(proof, atom->a, i, upper), b = eliminate(proof, atom->b, i, upper);
    if (a && b) return try_atom(proof->ctx, atom->kind, a, b);
    return upper == (atom->kind == ATOM_MIN) ? (a ? a : b) : NULL;
}

/* A product of atoms that all hold the symbol: each must be >= 0 unless it is alone. */
static Dim bound_product(Proof *proof, const Mono *m, int i, bool upper) {
    Ctx *ctx = proof->ctx;
    if (m->n == 1) return bound_atom(proof, m->at[0], i, upper);
    Dim product = dim_const(ctx, 1);
    for (int k = 0; k < m->n && product; k++) {
        Dim factor = try_term(ctx, 1, mono_atom(ctx, m->at[k]));
        if (!prove_ge0(proof, factor)) return NULL;
        product = try_mul(ctx, product, bound_atom(proof, m->at[k], i, upper));
    }
    return product;
}

typedef struct Group {
    const Mono *part; /* the atoms that hold the symbol */
    Dim coef;
} Group;

static bool atom_uses(const Atom *atom, Dim sym) {
    if (!(atom_mask(atom) & dim_mask(sym))) return false;
    if (atom->kind == ATOM_SYM) return atom->name == dim_sym_name(sym);
    return dim_uses(atom->a, sym) || dim_uses(atom->b, sym);
}

/* d = sum of coef*part over the groups + rest. -1: too many groups or overflow. */
static int group_by(Ctx *ctx, Dim d, Dim sym, Group *group, Dim *rest) {
    int n = 0;
    Sum sum;
    sum_start(&sum, ctx);
    for (int i = 0; i < d->nterms; i++) {
        const DimTerm *t = &d->term[i];
        const Mono *part = mono_one(ctx);
        for (int k = 0; k < t->natoms && part; k++)
            if (atom_uses(t->atom[k], sym)) part = mono_mul(ctx, part, mono_atom(ctx, t->atom[k]));
        if (!part) return -1;
        if (!part->n) {
            sum_term(&sum, t->coef, term_mono(t));
            continue;
        }
        Dim coef = try_term(ctx, t->coef, mono_div(ctx, term_mono(t), part));
        int g = 0;
        while (g < n && group[g].part != part) g++;
        if (g == MAX_GROUPS) return -1;
        if (g == n) group[n++] = (Group){part, dim_const(ctx, 0)};
        group[g].coef = try_add(ctx, group[g].coef, coef);
        if (!group[g].coef) return -1;
    }
    *rest = sum_done(&sum);
    return *rest ? n : -1;
}

/* The coefficient's sign is unknown, but a linear function has its extremes at the ends. */
static Dim bound_ends(Proof *proof, const Group *group, int i, bool upper) {
    Ctx *ctx = proof->ctx;
    const DimRange *range = &proof->env->at[i];
    if (group->part->n != 1 || group->part->at[0]->kind != ATOM_SYM) return NULL;
    Dim a = try_mul(ctx, group->coef, range->lo), b = try_mul(ctx, group->coef, range->hi);
    return upper ? try_max(ctx, a, b) : try_min(ctx, a, b);
}

static Dim bound_group(Proof *proof, const Group *group, int i, bool upper) {
    Ctx *ctx = proof->ctx;
    if (prove_ge0(proof, group->coef))
        return try_mul(ctx, group->coef, bound_product(proof, group->part, i, upper));
    Dim minus = try_scale(ctx, group->coef, -1);
    if (minus && prove_ge0(proof, minus))
        return try_mul(ctx, group->coef, bound_product(proof, group->part, i, !upper));
    return bound_ends(proof, group, i, upper);
}

/* The term that is a multiple of a min or max which holds the symbol, while others hold it too. */
static int tied_extremum(Dim d, Dim sym) {
    int found = -1, uses = 0;
    if (!(dim_mask(d) & MASK_MINMAX)) return -1;
    for (int i = 0; i < d->nterms; i++) {
        bool any = false;
        for (int k = 0; k < d->term[i].natoms; k++) any |= atom_uses(d->term[i].atom[k], sym);
        uses += any;
        if (any && is_extremum(lone_atom(&d->term[i]))) found = i;
    }
    return uses > 1 ? found : -1;
}

/* c*min(a,b) + r is min(c*a + r, c*b + r), or the max for c < 0. */
static Dim eliminate_extremum(Proof *proof, Dim d, int t, int i, bool upper) {
    Ctx *ctx = proof->ctx;
    int64_t c = d->term[t].coef;
    const Atom *atom = d->term[t].atom[0];
    bool least = (atom->kind == ATOM_MIN) == (c > 0);
    Dim a = replace_term(ctx, d, t, c, atom->a), b = replace_term(ctx, d, t, c, atom->b);
    a = a ? eliminate(proof, a, i, upper) : NULL;
    b = b ? eliminate(proof, b, i, upper) : NULL;
    if (a && b) return least ? try_min(ctx, a, b) : try_max(ctx, a, b);
    return least == upper ? (a ? a : b) : NULL;
}

static Dim eliminate(Proof *proof, Dim d, int i, bool upper) {
    Dim sym = proof->env->at[i].sym, rest;
    if (!dim_uses(d, sym)) return d;
    if (!spend(proof)) return NULL;
    int t = tied_extremum(d, sym);
    if (t >= 0) return eliminate_extremum(proof, d, t, i, upper);
    Group group[MAX_GROUPS];
    int n = group_by(proof->ctx, d, sym, group, &rest);
    if (n < 0) return NULL;
    for (int g = 0; g < n && rest; g++)
        rest = try_add(proof->ctx, rest, bound_group(proof, &group[g], i, upper));
    return rest;
}

Dim prove_bound(Proof *proof, Dim d, int from, bool upper) {
    for (int i = proof->env->n - 1; i >= from && d; i--) d = eliminate(proof, d, i, upper);
    return d;
}

/* ---- d >= 0 --------------------------------------------------------------------------------- */

static bool ge0_extremum(Proof *proof, Dim d, int t) {
    int64_t c = d->term[t].coef;
    const Atom *atom = d->term[t].atom[0];
    Dim a = replace_term(proof->ctx, d, t, c, atom->a);
    Dim b = replace_term(proof->ctx, d, t, c, atom->b);
    if ((atom->kind == ATOM_MIN) == (c > 0))
        return a && b && prove_ge0(proof, a) && prove_ge0(proof, b);
    return (a && prove_ge0(proof, a)) || (b && prove_ge0(proof, b));
}

/* c*(a/b) + r >= 0, b > 0, when b*r + c*(a - b + 1) >= 0 (c > 0) or b*r + c*a >= 0 (c < 0). */
static bool ge0_quotient(Proof *proof, Dim d, int t) {
    Ctx *ctx = proof->ctx;
    int64_t c = d->term[t].coef;
    const Atom *atom = d->term[t].atom[0];
    if (!positive(proof, atom->b)) return false;
    Dim r = replace_term(ctx, d, t, 0, atom->a);
    Dim a = atom->a;
    if (c > 0) a = try_add(ctx, try_sub(ctx, a, atom->b), dim_const(ctx, 1));
    Dim whole = try_add(ctx, try_mul(ctx, atom->b, r), try_scale(ctx, a, c));
    return whole && prove_ge0(proof, whole);
}

/* c*((b + s*m)/(m*k)) + r, where r has b/m: the quotient is that of b/m + s by k, so that the tie
 * between the two is seen. */
static bool ge0_nested(Proof *proof, Dim d, int t) {
    Ctx *ctx = proof->ctx;
    const Atom *atom = d->term[t].atom[0];
    int64_t c = d->term[t].coef, by, m, apart;
    if (!dim_is_const(atom->b, &by)) return false;
    for (int i = 0; i < d->nterms; i++) {
        const Atom *in = lone_atom(&d->term[i]);
        if (!in || in->kind != ATOM_DIV || !dim_is_const(in->b, &m) || m < 1 || by % m || by <= m)
            continue;
        Dim difference = try_sub(ctx, atom->a, in->a);
        if (!difference || !dim_is_const(difference, &apart) || apart % m) continue;
        Dim inner = try_term(ctx, 1, mono_atom(ctx, in));
        Dim a = try_add(ctx, inner, dim_const(ctx, apart / m - (c > 0 ? by / m - 1 : 0)));
        Dim r = try_scale(ctx, replace_term(ctx, d, t, 0, inner), by / m);
        Dim whole = r ? try_add(ctx, r, try_scale(ctx, a, c)) : NULL;
        if (whole && prove_ge0(proof, whole)) return true;
    }
    return false;
}

/* c*(a % b) + r: as a - b*(a/b), so that a's tie to r is seen. */
static bool ge0_rest(Proof *proof, Dim d, int t) {
    Ctx *ctx = proof->ctx;
    const Atom *atom = d->term[t].atom[0];
    int64_t c = d->term[t].coef;
    Dim q = try_mul(ctx, atom->b, try_div(ctx, atom->a, atom->b));
    Dim whole = q ? replace_term(ctx, d, t, c, try_sub(ctx, atom->a, q)) : NULL;
    return whole && whole != d && prove_ge0(proof, whole);
}

static int find_lone(Dim d, Mask mask, AtomKind lo, AtomKind hi) {
    if (!(dim_mask(d) & mask)) return -1;
    for (int i = 0; i < d->nterms; i++) {
        const Atom *atom = lone_atom(&d->term[i]);
        if (atom && atom->kind >= lo && atom->kind <= hi) return i;
    }
    return -1;
}

/* Without the innermost symbol: step by step, because what one range brings in may have to be taken
 * apart before the next. */
static bool ge0_stepwise(Proof *proof, Dim d) {
    for (int i = proof->env->n - 1; i >= 0; i--) {
        if (!dim_uses(d, proof->env->at[i].sym)) continue;
        Dim low = eliminate(proof, d, i, false);
        return low && prove_ge0(proof, low);
    }
    return false;
}

static bool ge0_atom(Proof *proof, const Atom *atom) {
    switch (atom->kind) {
    case ATOM_SYM:
        for (int i = proof->env->n - 1; i >= 0; i--) {
            const DimRange *range = &proof->env->at[i];
            int64_t lo;
            if (dim_sym_name(range->sym) == atom->name)
                return range->lo && dim_is_const(range->lo, &lo) && lo >= 0;
        }
        return false;
    case ATOM_DIV: return prove_ge0(proof, atom->a) && positive(proof, atom->b);
    case ATOM_MOD: return positive(proof, atom->b);
    case ATOM_MIN: return prove_ge0(proof, atom->a) && prove_ge0(proof, atom->b);
    case ATOM_MAX: return prove_ge0(proof, atom->a) || prove_ge0(proof, atom->b);
    }
    return false;
}

/* Products of factors that are at least 0: of the long sums of a concatenation each term by itself,
 * as each step of the ways below makes another sum. */
static bool ge0_termwise(Proof *proof, Dim d) {
    for (int i = 0; i < d->nterms; i++)
        if (d->term[i].coef < 0) return false;
    for (int i = 0; i < d->nterms; i++)
        for (int k = 0; k < d->term[i].natoms; k++)
            if (!ge0_atom(proof, d->term[i].atom[k])) return false;
    return true;
}

/* (x % m) / c, c a divisor of m, as x/c - m/c * (x/m): what is left over of x, in smaller pieces.
 */
static Dim unnested(Ctx *ctx, Dim d) {
    for (int t = 0; t < d->nterms; t++) {
        const Atom *atom = lone_atom(&d->term[t]);
        int64_t c, m;
        if (!atom || atom->kind != ATOM_DIV || atom->a->nterms != 1 || atom->a->term->coef != 1)
            continue;
        const Atom *in = lone_atom(atom->a->term);
        if (!in || in->kind != ATOM_MOD || !dim_is_const(atom->b, &c) || c < 1 ||
            !dim_is_const(in->b, &m) || m % c)
            continue;
        Dim larger = try_scale(ctx, try_div(ctx, in->a, in->b), m / c);
        Dim by = try_sub(ctx, try_div(ctx, in->a, atom->b), larger);
        Dim out = by ? replace_term(ctx, d, t, d->term[t].coef, by) : NULL;
        return out ? unnested(ctx, out) : d;
    }
    return d;
}

bool prove_ge0(Proof *proof, Dim d) {
    int64_t c;
    if (dim_mask(d) & MASK_MOD) d = unnested(proof->ctx, d);
    if (dim_is_const(d, &c)) return c >= 0;
    if (!spend(proof)) return false;
    if (d->nterms >= LONG_SUM && ge0_termwise(proof, d)) return true;
    int t = find_lone(d, MASK_MINMAX, ATOM_MIN, ATOM_MAX);
    if (t >= 0) return ge0_extremum(proof, d, t);
    if (ge0_stepwise(proof, d)) return true;
    t = find_lone(d, MASK_DIV, ATOM_DIV, ATOM_DIV);
    for (int i = t; i >= 0 && i < d->nterms; i++) {
        const Atom *atom = lone_atom(&d->term[i]);
        if (atom && atom->kind == ATOM_DIV && ge0_nested(proof, d, i)) return true;
    }
    if (t >= 0) return ge0_quotient(proof, d, t);
    t = find_lone(d, MASK_MOD, ATOM_MOD, ATOM_MOD);
    return t >= 0 && ge0_rest(proof, d, t);
}

/* ---- the public face ------------------------------------------------------------------------ */

static const DimEnv no_ranges;

/* The answer to a question, found once. */
static Dim answered(Ctx *ctx, Question q) {
    if (question_known(ctx, &q)) return q.answer;
    Proof proof = {ctx, q.env, FUEL};
    Dim answer = q.what == ASKED_GE0 ? prove_ge0(&proof, q.d) ? q.d : NULL
                                     : prove_bound(&proof, q.d, q.from, q.what == ASKED_UPPER);
    question_keep(ctx, &q, answer);
    return answer;
}

bool dim_ge0(Ctx *ctx, Dim d, const DimEnv *env) {
    int64_t c;
    if (dim_is_const(d, &c)) return c >= 0;
    return answered(ctx, (Question){.what = ASKED_GE0, .d = d, .env = env ? env : &no_ranges});
}

bool dim_le(Ctx *ctx, Dim a, Dim b, const DimEnv *env) {
    if (a == b) return true;
    Dim d = try_sub(ctx, b, a);
    return d && dim_ge0(ctx, d, env);
}

Dim dim_lower(Ctx *ctx, Dim d, const DimEnv *env) {
    return dim_lower_from(ctx, d, env, 0);
}

Dim dim_upper(Ctx *ctx, Dim d, const DimEnv *env) {
    return dim_upper_from(ctx, d, env, 0);
}

static Dim bound_from(Ctx *ctx, Dim d, const DimEnv *env, int from, AskedFor what) {
    if (!d || dim_is_const(d, NULL)) return d;
    return answered(ctx,
                    (Question){.what = what, .from = from, .d = d, .env = env ? env : &no_ranges});
}

Dim dim_lower_from(Ctx *ctx, Dim d, const DimEnv *env, int from) {
    return bound_from(ctx, d, env, from, ASKED_LOWER);
}

Dim dim_upper_from(Ctx *ctx, Dim d, const DimEnv *env, int from) {
    return bound_from(ctx, d, env, from, ASKED_UPPER);
}
