/* SPDX-License-Identifier: Apache-2.0 */
/* What the parsers of all levels share: indices, guards, symbols, bodies. */
#ifndef WEIR_IR_PARSE_H
#define WEIR_IR_PARSE_H

#include "body_expr.h"
#include "flow.h"
#include "lex.h"

/* The symbol that a name stands for in an index here; NULL: unknown, an error. */
typedef Dim DimNameFn(void *user, const char *name);

Dim parse_dim(Lex *lex, DimNameFn *find, void *user);
/* "[a, b]" or any other pair of brackets; returns how many, at most `max` (else an error). */
int parse_dims(Lex *lex, const char *open, const char *close, DimNameFn *find, void *user, Dim *out,
               int max);
typedef VEC(Dim) Dims;
/* "a >= b, c < d" as polynomials >= 0. */
void parse_guards(Lex *lex, DimNameFn *find, void *user, Dims *out);
typedef VEC(Symbol) Symbols;
/* "(N in 1..4096, S in 1.., K upto N*M)"; nothing when no parenthesis stands here. `find` (may be
 * NULL) knows symbols from around. */
void parse_symbols(Lex *lex, DimNameFn *find, void *user, Symbols *out);
/* "lo..hi" */
void parse_range(Lex *lex, int64_t *lo, int64_t *hi);
DType parse_type(Lex *lex);
/* One literal with its sign, in type t. */
Bits parse_bits(Lex *lex, DType t);
const Combine *parse_combine(Lex *lex); /* `sum:f32` */
const char *parse_from(Lex *lex);       /* `from "a" "b"` on one line, or NULL */
/* The position of the word that stands here in a NULL-terminated list, and moves on; -1: none. */
int parse_word(Lex *lex, const char *const *words);

/* ---- bodies ------------------------------------------------------------------------------ */

/* Statements of a body over lex. Names of Vals live for one body; `cont` and `sym` know the rest.
 * An expression ends at the end of its line, unless a parenthesis is open or an operator stands
 * last. */
typedef struct BodyScan {
    ExprScan scan; /* first: the callbacks get it */
    Lex *lex;
    int depth;  /* open parentheses */
    bool whole; /* lines do not end expressions: combines, which are written as in combine.def */
    void *user;
    int (*cont)(void *user, const char *name, DType *type, int *rank); /* -1: unknown */
    DimNameFn *sym;
} BodyScan;

/* Where values go: `expr, ... -> access, ... [combine]`. */
typedef struct Target {
    int nval, n;
    Expr *val[COMBINE_STATES];
    Access to[COMBINE_STATES];
    DType type[COMBINE_STATES]; /* of the containers */
} Target;

void body_scan_init(BodyScan *s, Lex *lex, Body *body);
void body_scan_look(BodyScan *s); /* shows the scanner's token to s->scan */
/* Statements up to the `}`, which it takes. `write` gets each target, scanned up to what follows
 * its accesses, and builds its values with body_scan_build. */
void body_scan_block(BodyScan *s, void (*write)(BodyScan *s, Target *t));
/* `= expr` after an access that has been read: the sugar for one store. */
int body_scan_assigned(BodyScan *s, DType type);
int body_scan_build(BodyScan *s, const Expr *expr, DType want);
Access body_scan_access(BodyScan *s, const char *name, DType *type); /* from `[` on */
Access body_scan_target(BodyScan *s, DType *type);                   /* name and all */

#endif
