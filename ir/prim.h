/* SPDX-License-Identifier: Apache-2.0 */
/* Scalar primitives: the whole vocabulary of computation below the graph.
 *
 * prim.def holds two kinds of rows. PRIM rows are native: evaluator and targets implement them,
 * each total (a defined result for every bit pattern). DEFINE rows are elementary functions given
 * as text over native ones, one row per dtype; the evaluator runs the definition and `vectorize`
 * expands it, so every engine computes the same polynomial. */
#ifndef WEIR_IR_PRIM_H
#define WEIR_IR_PRIM_H

#include "dtype.h"

typedef enum {
    PRIM_NONE = 0,
#define PRIM(NAME, name, arity, typing, spelling, derivative) NAME,
#define FUNC(NAME, name, arity, derivative) NAME,
#include "prim.def"
#undef PRIM
#undef FUNC
    PRIM_COUNT
} Prim;

/* How operand and result types relate. T is one type for all unless said. */
typedef enum {
    TYPE_SAME,    /* T.. -> T */
    TYPE_FLOAT,   /* T.. -> T, floats only */
    TYPE_LOGIC,   /* T.. -> T, integers and bool */
    TYPE_COMPARE, /* T, T -> bool */
    TYPE_SELECT,  /* bool, T, T -> T */
    TYPE_CONVERT, /* any -> any: the result type is the Val's own */
    TYPE_BITCAST  /* any -> type of equal width: likewise */
} Typing;

typedef struct PrimRow {
    const char *name; /* as a call in the text: "max" */
    int arity;
    Typing typing;
    const char *spelling;   /* infix operator in the text, or NULL: "+" */
    const char *derivative; /* text: partial derivatives by operand, ';' between; $0.. operands, $r
                               result */
    bool defined;           /* a DEFINE'd function: has no native form */
} PrimRow;

const PrimRow *prim_row(Prim p);
Prim prim_parse(const char *name); /* PRIM_NONE when unknown */
/* How elementary functions are defined: in full, shorter outside strict mathematics, or shorter
 * still where 2^x is an instruction. */
typedef enum { FORM_FULL, FORM_BRIEF, FORM_BY_EXP2 } FunctionForm;
/* Text of the definition of p for dtype t ("x" or "x y" are its parameters), of the last form up to
 * this one that there is; or NULL: then compute in `dtype_compute(t)` and convert. */
const char *prim_definition(Prim p, DType t, FunctionForm form, const char **params);
/* Does it work on such a type at all? Handles (strings, objects) are equal or not, and nothing
 * else; complex numbers are only moved. */
bool prim_takes(Prim p, DType t);
/* Value of a native primitive on scalars of type t (operand type; select: of the last operands). */
Bits prim_apply(Prim p, DType result, DType operand, const Bits *args);

#endif
