/* SPDX-License-Identifier: Apache-2.0 */
/* Questions to a dim that need no ranges: what it holds, substitution, evaluation, affine form,
 * exact division, text. */
#include <string.h>

#include "dim_private.h"
#include "lex.h"

bool dim_is_const(Dim d, int64_t *value) {
    if (d->nterms > 1 || (d->nterms == 1 && d->term->natoms)) return false;
    if (value) *value = d->nterms ? d->term->coef : 0;
    return true;
}

bool dim_is(Dim d, int64_t value) {
    int64_t v;
    return dim_is_const(d, &v) && v == value;
}

bool dims_equal(const Dim *a, const Dim *b, int n) {
    bool same = true;
    for (int k = 0; same && k < n; k++) same = a[k] == b[k];
    return same;
}

const char *dim_sym_name(Dim d) {
    bool sym = d->nterms == 1 && d->term->coef == 1 && d->term->natoms == 1 &&
               d->term->atom[0]->kind == ATOM_SYM;
    return sym ? d->term->atom[0]->name : NULL;
}

static bool uses_name(Dim d, const char *name, Mask mask) {
    if (!(dim_mask(d) & mask)) return false;
    for (int i = 0; i < d->nterms; i++) {
        for (int k = 0; k < d->term[i].natoms; k++) {
            const Atom *atom = d->term[i].atom[k];
            bool here = atom->kind == ATOM_SYM
                            ? atom->name == name
                            : uses_name(atom->a, name, mask) || uses_name(atom->b, name, mask);
            if (here) return true;
        }
    }
    return false;
}

bool dim_uses(Dim d, Dim sym) {
    return uses_name(d, dim_sym_name(sym), dim_mask(sym));
}

/* The symbol whose name comes next after `last` (NULL: the first), or `best` if that is nearer. */
static const Atom *next_symbol(Dim d, const char *last, const Atom *best) {
    for (int i = 0; i < d->nterms; i++) {
        for (int k = 0; k < d->term[i].natoms; k++) {
            const Atom *atom = d->term[i].atom[k];
            if (atom->kind != ATOM_SYM)
                best = next_symbol(atom->b, last, next_symbol(atom->a, last, best));
            else if ((!last || strcmp(atom->name, last) > 0) &&
                     (!best || strcmp(atom->name, best->name) < 0))
                best = atom;
        }
    }
    return best;
}

/* In the order of their names: needs no memory, and a dim has few symbols. */
void dim_symbols(Dim d, void (*fn)(void *user, Dim sym), void *user) {
    const Atom *atom = next_symbol(d, NULL, NULL);
    for (; atom; atom = next_symbol(d, atom->name, NULL)) fn(user, atom_box(atom)->self);
}

/* ---- parts as dims --------------------------------------------------------------------------- */

Dim dim_of_atom(Ctx *ctx, const Atom *atom) {
    return try_term(ctx, 1, mono_atom(ctx, atom));
}

Dim dim_of_term(Ctx *ctx, const DimTerm *term) {
    return try_term(ctx, term->coef, term_mono(term));
}

/* ---- substitution and evaluation ------------------------------------------------------------- */

static Dim subst_atom(Ctx *ctx, const Atom *atom, const DimSubst *subst, int n) {
    if (atom->kind == ATOM_SYM) {
        for (int i = 0; i < n; i++)
            if (dim_sym_name(subst[i].sym) == atom->name) return subst[i].to;
        return dim_of_atom(ctx, atom);
    }
    Dim a = dim_try_subst(ctx, atom->a, subst, n), b = dim_try_subst(ctx, atom->b, subst, n);
    if (a == atom->a && b == atom->b) return dim_of_atom(ctx, atom);
    return a && b ? try_atom(ctx, atom->kind, a, b) : NULL;
}

Dim dim_try_subst(Ctx *ctx, Dim d, const DimSubst *subst, int n) {
    Mask mask = 0;
    for (int i = 0; i < n; i++) mask |= dim_mask(subst[i].sym);
    if (!(dim_mask(d) & mask)) return d;
    Sum sum;
    sum_start(&sum, ctx);
    for (int i = 0; i < d->nterms && !sum.overflow; i++) {
        const DimTerm *t = &d->term[i];
        if (!(term_mono(t)->mask & mask)) {
            sum_term(&sum, t->coef, term_mono(t));
            continue;
        }
        Dim product = dim_const(ctx, t->coef);
        for (int k = 0; k < t->natoms && product; k++)
            product = try_mul(ctx, product, subst_atom(ctx, t->atom[k], subst, n));
        sum_add(&sum, product, 1);
    }
    return sum_done(&sum);
}

Dim dim_subst(Ctx *ctx, Dim d, const DimSubst *subst, int n) {
    Dim out = dim_try_subst(ctx, d, subst, n);
    if (!out)
        fail(ctx, E_DIM,
             "substitution in \"%s\" divides by 0 or leaves 64 bits; bound the dims with --dim "
             "NAME=LO..HI",
             dim_str(ctx, d));
    return out;
}

static Dim replace_in_atom(Ctx *ctx, const Atom *atom, Dim term, Dim to) {
    if (atom->kind == ATOM_SYM) return dim_of_atom(ctx, atom);
    Dim a = dim_replace(ctx, atom->a, term, to), b = dim_replace(ctx, atom->b, term, to);
    switch (atom->kind) {
    case ATOM_DIV: return dim_div(ctx, a, b);
    case ATOM_MOD: return dim_mod(ctx, a, b);
    case ATOM_MIN: return dim_min(ctx, a, b);
    default: return dim_max(ctx, a, b);
    }
}

/* coef * mono: whole terms first, then what is left atom by atom. */
static Dim replace_in(Ctx *ctx, const DimTerm *t, Dim term, Dim to) {
    const Mono *left = term_mono(t), *rest;
    Dim product = dim_const(ctx, t->coef);
    for (; (rest = mono_div(ctx, left, term_mono(term->term))); left = rest)
        product = dim_mul(ctx, product, to);
    for (int k = 0; k < left->n; k++)
        product = dim_mul(ctx, product, replace_in_atom(ctx, left->at[k], term, to));
    return product;
}

Dim dim_replace(Ctx *ctx, Dim d, Dim term, Dim to) {
    if (dim_mask(term) & ~dim_mask(d)) return d;
    Dim sum = dim_const(ctx, 0);
    for (int i = 0; i < d->nterms; i++)
        sum = dim_add(ctx, sum, replace_in(ctx, &d->term[i], term, to));
    return sum;
}

static bool eval_atom(const Atom *atom, DimValueFn *value, void *user, int64_t *out) {
    int64_t a, b;
    if (atom->kind == ATOM_SYM) return value(user, atom_box(atom)->self, out);
    if (!dim_eval(atom->a, value, user, &a) || !dim_eval(atom->b, value, user, &b)) return false;
    if (atom->kind == ATOM_MIN || atom->kind == ATOM_MAX) {
        *out = (atom->kind == ATOM_MIN) == (a < b) ? a : b;
        return true;
    }
    if (b == 0 || (b == -1 && a == INT64_MIN)) return false;
    *out = floor_div64(a, b);
    if (atom->kind == ATOM_MOD) *out = a - *out * b;
    return true;
}

bool dim_eval(Dim d, DimValueFn *value, void *user, int64_t *out) {
    int64_t total = 0;
    for (int i = 0; i < d->nterms; i++) {
        int64_t product = d->term[i].coef, v;
        for (int k = 0; k < d->term[i].natoms; k++) {
            if (!eval_atom(d->term[i].atom[k], value, user, &v) ||
                __builtin_mul_overflow(product, v, &product))
                return false;
        }
        if (__builtin_add_overflow(total, product, &total)) return false;
    }
    *out = total;
    return true;
}

/* ---- affine form, exact division ---------------------------------------------------------------
 */

/* Which of the symbols stands alone in this product, taken out of it: -1 none, -2 not affine. */
static int affine_factor(const DimTerm *t, const Dim *sym, int n, Mask mask, int *where) {
    int found = -1;
    for (int k = 0; k < t->natoms; k++) {
        const Atom *atom = t->atom[k];
        if (!(atom_mask(atom) & mask)) continue;
        for (int i = 0; i < n; i++) {
            const char *name = dim_sym_name(sym[i]);
            if (atom->kind == ATOM_SYM ? atom->name != name
                                       : !dim_uses(atom->a, sym[i]) && !dim_uses(atom->b, sym[i]))
                continue;
            if (atom->kind != ATOM_SYM || found != -1) return -2;
            found = i;
            *where = k;
            break;
        }
    }
    return found;
}

bool dim_affine(Ctx *ctx, Dim d, const Dim *sym, int n, Dim *coef, Dim *rest) {
    Mask mask = 0;
    Dim zero = dim_const(ctx, 0);
    for (int i = 0; i < n; i++) {
        mask |= dim_mask(sym[i]);
        coef[i] = zero;
    }
    *rest = d;
    if (!(dim_mask(d) & mask)) return true;
    Sum sum;
    sum_start(&sum, ctx);
    for (int i = 0; i < d->nterms; i++) {
        const DimTerm *t = &d->term[i];
        int k = 0, s = affine_factor(t, sym, n, mask, &k);
        if (s == -2) return false;
        if (s == -1) {
            sum_term(&sum, t->coef, term_mono(t));
            continue;
        }
        const Mono *factor = mono_div(ctx, term_mono(t), mono_atom(ctx, t->atom[k]));
        coef[s] = try_add(ctx, coef[s], try_term(ctx, t->coef, factor));
        if (!coef[s]) return false;
    }
    *rest = sum_done(&sum);
    return *rest != NULL;
}

bool dim_divides(Ctx *ctx, Dim d, Dim by, Dim *q) {
    Dim quotient, rest;
    if (!by->nterms || !dim_long_division(ctx, d, by, &quotient, &rest) || rest->nterms)
        return false;
    if (q) *q = quotient;
    return true;
}

/* ---- text ----------------------------------------------------------------------------------- */

static void print_sum(Text *out, Dim d, bool tight);

/* An operand of / or %: in parentheses unless it is one symbol, a number, min or max. */
static void print_operand(Text *out, Dim d) {
    int64_t v;
    bool atom = d->nterms == 1 && d->term->coef == 1 && d->term->natoms == 1 &&
                d->term->atom[0]->kind != ATOM_DIV && d->term->atom[0]->kind != ATOM_MOD;
    bool bare = atom || (dim_is_const(d, &v) && v >= 0);
    if (!bare) text_put(out, "(");
    print_sum(out, d, true);
    if (!bare) text_put(out, ")");
}

static void print_atom(Text *out, const Atom *atom, bool alone) {
    bool call = atom->kind == ATOM_MIN || atom->kind == ATOM_MAX;
    if (atom->kind == ATOM_SYM) {
        text_name(out, atom->name);
    } else if (call) {
        text_put(out, atom->kind == ATOM_MIN ? "min(" : "max(");
        print_sum(out, atom->a, true);
        text_put(out, ", ");
        print_sum(out, atom->b, true);
        text_put(out, ")");
    } else {
        if (!alone) text_put(out, "(");
        print_operand(out, atom->a);
        text_put(out, atom->kind == ATOM_DIV ? "/" : "%");
        print_operand(out, atom->b);
        if (!alone) text_put(out, ")");
    }
}

static void print_sum(Text *out, Dim d, bool tight) {
    if (!d->nterms) text_put(out, "0");
    for (int i = 0; i < d->nterms; i++) {
        const DimTerm *t = &d->term[i];
        bool minus = t->coef < 0;
        uint64_t size = minus ? -(uint64_t)t->coef : (uint64_t)t->coef;
        if (i == 0)
            text_put(out, minus ? "-" : "");
        else if (tight)
            text_put(out, minus ? "-" : "+");
        else
            text_put(out, minus ? " - " : " + ");
        if (size != 1 || !t->natoms)
            text_printf(out, "%llu%s", (unsigned long long)size, t->natoms ? "*" : "");
        for (int k = 0; k < t->natoms; k++) {
            if (k) text_put(out, "*");
            print_atom(out, t->atom[k], size == 1 && t->natoms == 1 && !(minus && i == 0));
        }
    }
}

void dim_print(Text *out, Dim d) {
    print_sum(out, d, false);
}

const char *dim_str(Ctx *ctx, Dim d) {
    Text out = {.arena = ctx_arena(ctx)};
    dim_print(&out, d);
    return text_str(&out);
}
