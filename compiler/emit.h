/* SPDX-License-Identifier: Apache-2.0 */
/* Pieces that every C-like target needs: integer expressions over named variables, and pasting of
 * helper code by need.
 *
 * A `Names` says what each Dim symbol is in the emitted text: a variable, an expression, or (inside
 * an unrolled iteration) a number. Symbols are pushed as loops open and popped as they close. */
#ifndef WEIR_EMIT_H
#define WEIR_EMIT_H

#include "ir/dim.h"

typedef struct Name {
    Dim sym;
    const char *text; /* NULL: the constant `to` */
    Dim to;
} Name;

/* Quotients, extrema and long sums that are computed once, where a function begins. */
typedef struct Once {
    AtomKind kind; /* ATOM_SYM: a sum, by its text */
    Dim a, b;
    const char *sum, *text;
} Once;
typedef struct Head {
    VEC(Once) at;
    Text text; /* "const i64 q0 = imin(s0, 8);" and so on, a line for each */
} Head;

typedef struct Names {
    Arena *arena;
    Ctx *ctx;
    VEC(Name) at;        /* outermost first */
    VEC(DimRange) range; /* of the same symbols, for proofs */
    int nconst;          /* how many are constants */
    Head *head;          /* takes what the first `nhead` names tell alone; NULL: nothing does */
    int nhead;
} Names;

/* lo or hi may be NULL: unknown. A constant's range is that of its loop: what is proven of one
 * iteration must hold for all. */
void names_var(Names *names, Dim sym, const char *text, Dim lo, Dim hi);
void names_const(Names *names, Dim sym, int64_t value, Dim lo, Dim hi);
void names_pop(Names *names, int to); /* back to `to` names */
/* d with the constants put in. */
Dim names_subst(const Names *names, Dim d);
/* The terms of d that use names from number `from` on. */
Dim names_from(const Names *names, Dim d, int from);
DimEnv names_env(const Names *names);

/* The C expression of d, outer symbols first so that loops can hoist, in 64 bits. Uses idiv, imod,
 * imin, imax of the helpers. Parenthesised when it is not one term. */
void emit_dim(Text *out, const Names *names, Dim d);
const char *emit_dim_str(const Names *names, Dim d);
/* The same by saturating functions sadd, smul, sdiv, smod, imin, imax: for sizes, which may
 * overflow. */
void emit_dim_saturated(Text *out, const Names *names, Dim d);

/* ---- helpers by need ------------------------------------------------------------------------- */

/* A library of helper pieces (see compiler/targets/c/scalar.in for its form). */
typedef struct Helpers Helpers;
Helpers *helpers_read(Arena *arena, const char *const *texts, int n);
/* Appends the pieces that the identifiers in `text` need, and theirs, to `out`. */
void helpers_emit(const Helpers *helpers, Text *out, const char *text);

#endif
