/* SPDX-License-Identifier: Apache-2.0 */
/* Integer polynomials over symbols: the one form of every size, index, offset and bound.
 *
 * A Dim is a canonical sum of products over atoms: symbols, floor-divisions, mods, mins, maxs. Dims
 * are hash-consed in the context: two equal polynomials are the same pointer. Arithmetic is checked
 * in 64 bits and `fail`s with E_DIM on overflow. Division is floor division, mod has the sign of
 * the divisor (0 <= a mod b < b for b > 0).
 *
 * A symbol is just an interned name; what it ranges over depends on where it stands (a model's dim,
 * a map's iteration dim, a nest's loop variable, a scalar used as an index) and is given by a
 * `DimEnv` wherever a proof or a simplification wants it. */
#ifndef WEIR_IR_DIM_H
#define WEIR_IR_DIM_H

#include "base.h"

typedef const struct DimNode *Dim;

Dim dim_const(Ctx *ctx, int64_t value);
Dim dim_sym(Ctx *ctx, const char *name);
Dim dim_add(Ctx *ctx, Dim a, Dim b);
Dim dim_sub(Ctx *ctx, Dim a, Dim b);
Dim dim_mul(Ctx *ctx, Dim a, Dim b);
Dim dim_div(Ctx *ctx, Dim a, Dim b);      /* floor; E_DIM when b is the constant 0 */
Dim dim_ceildiv(Ctx *ctx, Dim a, Dim b);  /* floor((a + b - 1) / b) */
Dim dim_round_up(Ctx *ctx, Dim a, Dim b); /* the least multiple of b that is not below a */
Dim dim_mod(Ctx *ctx, Dim a, Dim b);
Dim dim_min(Ctx *ctx, Dim a, Dim b);
Dim dim_max(Ctx *ctx, Dim a, Dim b);
Dim dim_addc(Ctx *ctx, Dim a, int64_t c);
Dim dim_mulc(Ctx *ctx, Dim a, int64_t c);
Dim dim_product(Ctx *ctx, const Dim *dims, int n); /* 1 for n = 0 */
/* The number of the element at `at` of a box of n extents, row by row; 0 for n = 0. */
Dim dim_flat(Ctx *ctx, const Dim *at, const Dim *box, int n);

bool dim_is_const(Dim d, int64_t *value); /* value may be NULL */
bool dim_is(Dim d, int64_t value);
bool dims_equal(const Dim *a, const Dim *b, int n);
const char *dim_sym_name(Dim d); /* NULL unless d is exactly one symbol */
bool dim_uses(Dim d, Dim sym);   /* anywhere, also inside div and mod */
/* Calls fn for every distinct symbol in d. */
void dim_symbols(Dim d, void (*fn)(void *user, Dim sym), void *user);

/* ---- ranges and proofs ---------------------------------------------------------------------- */

/* lo <= sym <= hi; lo or hi NULL: unbounded. Bounds may use symbols that stand EARLIER in the
 * environment (so: model dims first, loops outside in). */
typedef struct DimRange {
    Dim sym, lo, hi;
} DimRange;
typedef struct DimEnv {
    const DimRange *at;
    int n;
} DimEnv;

/* Smallest and largest value as polynomials free of the symbols in env (those whose ranges cannot
 * be used are an honest NULL: unknown). */
Dim dim_lower(Ctx *ctx, Dim d, const DimEnv *env);
Dim dim_upper(Ctx *ctx, Dim d, const DimEnv *env);
/* The same, but eliminates only env entries from index `from` on (keeps the outer symbols). */
Dim dim_lower_from(Ctx *ctx, Dim d, const DimEnv *env, int from);
Dim dim_upper_from(Ctx *ctx, Dim d, const DimEnv *env, int from);
/* True only when proven; false means "not proven". */
bool dim_ge0(Ctx *ctx, Dim d, const DimEnv *env);
bool dim_le(Ctx *ctx, Dim a, Dim b, const DimEnv *env);
/* Drops what the ranges make redundant: (48*J + r)/48 is J when 0 <= r < 48 is proven, and so on
 * for mod, min, max. */
Dim dim_simplify(Ctx *ctx, Dim d, const DimEnv *env);

/* ---- substitution, evaluation, affine form --------------------------------------------------- */

typedef struct DimSubst {
    Dim sym, to;
} DimSubst;
Dim dim_subst(Ctx *ctx, Dim d, const DimSubst *subst, int n); /* simultaneous */
/* The same; NULL where it divides by 0 or leaves 64 bits. */
Dim dim_try_subst(Ctx *ctx, Dim d, const DimSubst *subst, int n);
/* `to` in place of a product of atoms (a quotient, what two sizes broadcast to), wherever it is a
 * factor: `term` is one term without a coefficient. */
Dim dim_replace(Ctx *ctx, Dim d, Dim term, Dim to);

/* Numeric value under sym -> value; `value` is called for each symbol met, false = unbound, and
 * then dim_eval returns false. */
typedef bool DimValueFn(void *user, Dim sym, int64_t *value);
bool dim_eval(Dim d, DimValueFn *value, void *user, int64_t *out);

/* d = sum coef[i]*sym[i] + rest, with coef and rest free of all sym: true and filled in. False when
 * some sym stands in a product with another, or inside div, mod, min or max. */
bool dim_affine(Ctx *ctx, Dim d, const Dim *sym, int n, Dim *coef, Dim *rest);
/* d = q*by exactly (by a constant or a monomial)? */
bool dim_divides(Ctx *ctx, Dim d, Dim by, Dim *q);
/* The largest constant of which d is a multiple, whatever the symbols are; 0 for 0. */
int64_t dim_factor(Dim d);

/* ---- structure, for printers and emitters ------------------------------------------------------
 */

typedef enum { ATOM_SYM, ATOM_DIV, ATOM_MOD, ATOM_MIN, ATOM_MAX } AtomKind;
typedef struct Atom {
    AtomKind kind;
    const char *name; /* ATOM_SYM, interned */
    Dim a, b;         /* the others */
} Atom;
typedef struct DimTerm {
    int64_t coef; /* never 0 */
    int natoms;   /* repeated atoms are powers; sorted by a fixed order that no address decides */
    const Atom *const *atom;
} DimTerm;
struct DimNode {
    uint64_t hash;
    int nterms; /* 0: the constant 0 */
    const DimTerm *term;
};

Dim dim_of_atom(Ctx *ctx, const Atom *atom);
Dim dim_of_term(Ctx *ctx, const DimTerm *term);

/* Text as the grammar reads it: "4*i + j/16", "N*S", "min(a, b)", "(N+63)/64". */
void dim_print(Text *out, Dim d);
const char *dim_str(Ctx *ctx, Dim d); /* in the context's arena: for messages */

#endif
