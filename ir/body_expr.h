/* SPDX-License-Identifier: Apache-2.0 */
/* The one parser of scalar expressions, over whatever supplies tokens.
 *
 * `body_expr`, func.def and combine.def scan plain strings; the parsers of .ir files give their own
 * lexer through an ExprScan. An expression is read into a small tree first, because a literal's
 * type comes from the other operand; names become Vals of `scan->body` while reading (the caller's
 * `resolve` may read on: `x[i,k]`), everything else when the tree is built.
 *
 *     Expr *e = expr_read(scan);             // checked; stops at the first token that cannot
 * follow DType t = expr_type(e);                // DT_NONE: literals only int val =
 * expr_build(scan, e, t ? t : F32);
 *
 * Tokens: names, numbers (decimal or hex, with `inf`, `nan`, `nan:7fc00000` as either kind), and
 * punctuation: ( ) , ; : { } = and the operators. `-> <- <<` and the like are one token each. */
#ifndef WEIR_IR_BODY_EXPR_H
#define WEIR_IR_BODY_EXPR_H

#include "body.h"

typedef enum { EXPR_END, EXPR_NAME, EXPR_NUMBER, EXPR_PUNCT } ExprTokKind;
typedef struct ExprTok {
    ExprTokKind kind;
    const char *text; /* NUL-terminated; names interned */
} ExprTok;

typedef struct ExprName {
    const char *name;
    int val;
} ExprName;

typedef struct Expr Expr;
typedef struct ExprScan ExprScan;
struct ExprScan {
    Body *body; /* gets the Vals */
    void *user;
    ExprTok tok;                  /* the current token */
    void (*next)(ExprScan *scan); /* moves to the next one */
    /* Value of a name that no earlier statement of this scan defined; scan->tok is the token after
     * it. Negative: unknown, an error. May be NULL. */
    int (*resolve)(ExprScan *scan, const char *name);
    /* Reports at the current token; does not return. */
    void (*error)(ExprScan *scan, const char *message) __attribute__((noreturn));
    VEC(ExprName) name; /* what expr_bind gave names to, last first */
    DType type_t;       /* what the type name `T` stands for in a template; DT_NONE: nothing */
};

Expr *expr_read(ExprScan *scan);
/* The same when the expression's first token, a name, has been consumed: it needed a look at what
 * follows, such as `=`. */
Expr *expr_read_from(ExprScan *scan, const char *name);
/* One operand with its unary minus, as after `else`. */
Expr *expr_read_unary(ExprScan *scan);
/* Wraps a Val as a tree. */
Expr *expr_val(ExprScan *scan, int val);
DType expr_type(const Expr *expr);
/* Builds it; a tree of literals takes type `want`, a typed tree that is not `want` is an error
 * (DT_NONE: any). */
int expr_build(ExprScan *scan, const Expr *expr, DType want);

/* Gives a value a name for the statements that follow. */
void expr_bind(ExprScan *scan, const char *name, int val);
/* Statements `t = expr` (`;` between them may be left out), then the result: an expression or
 * `(expr, ...)`. Returns how many values it has; result has room for `max`. A name in statements
 * made of literals only takes type `literal`. */
int expr_block(ExprScan *scan, DType literal, Expr **result, int max);

/* Consume a token or complain. */
bool expr_accept(ExprScan *scan, const char *punct);
void expr_expect(ExprScan *scan, const char *punct);
const char *expr_expect_name(ExprScan *scan);
DType expr_expect_type(ExprScan *scan);

/* A literal's bits in type t: decimal or hex, `inf`, `nan[:payload]`, true, false, lowest, highest
 * (the least and greatest value, infinities included). False: not such a text. Integers out of
 * range of t are refused. */
bool literal_bits(DType t, const char *text, bool negative, Bits *bits);

/* A scan over a string: errors are BUGs, `$k` and `#k` are names. */
void expr_scan_text(ExprScan *scan, Body *body, const char *text);
/* Builds the definition `text` of a function with parameters named in `params` ("x y"). */
int expr_define(Body *b, const char *text, const char *params, const int *args);

/* `combine NAME (m:f32 = -inf, ...) [associative] [commutative] [idempotent] { merge (a, ...)
 * (b, ...) { ... } [finish { ... }] }`, from the token after `combine` to past its `}`. In
 * combine.def `T` in it is scan->type_t. scan->body is left alone. */
const Combine *combine_parse(Arena *arena, ExprScan *scan);

#endif
