/* SPDX-License-Identifier: Apache-2.0 */
/* Bodies: straight-line scalar code in SSA form, shared by Flow maps, combines and Nest statements.
 *
 * A Body is an array of Vals; an operand is the number of an earlier Val. Reads name a container of
 * the flow (or a buffer of the nest) by number and index it by Dims over the iteration dims and the
 * model's symbols. A value may itself be an index: its `sym` is a Dim symbol that later indices of
 * the same body may use (`r <- ids[i]   emb[r, d]`). */
#ifndef WEIR_IR_BODY_H
#define WEIR_IR_BODY_H

#include "dim.h"
#include "prim.h"

typedef struct Access {
    int cont; /* index into the flow's containers or the nest's buffers */
    int rank;
    const Dim *at; /* logical index, one Dim per dim of the container (Nest: of its storage) */
} Access;

/* The same container at the same index? */
bool access_equal(const Access *a, const Access *b);

typedef enum {
    VAL_CONST, /* `bits` in `type` */
    VAL_INDEX, /* the i64 value of `index` */
    VAL_READ,  /* element `read`; outside the logical box (if has_else) the value arg[0] */
    VAL_PRIM,  /* prim(arg...) */
    VAL_PARAM  /* operand number arg[0] of a combine's or a definition's body */
} ValKind;

typedef struct Val {
    ValKind kind;
    DType type;
    Prim prim;
    int arg[3];
    bool has_else; /* VAL_READ: out-of-box reads are allowed and give arg[0] */
    Bits bits;
    Dim index;
    Access read;
    Dim sym;          /* the symbol that stands for this value in later indices, or NULL */
    const char *name; /* as written, or NULL */
} Val;

typedef VEC(Val) ValVec;
typedef struct Body {
    Arena *arena;
    ValVec val;
    int *share; /* not copied with val; hash of the first nshared Vals, a hint that body.c rebuilds:
                   may be NULL */
    int nshare, nshared;
} Body;

/* Builders return the new Val's number; equal pure Vals are shared, constants folded (exactly, by
 * prim_apply). They check types and BUG on misuse: user errors are found before. */
int body_const(Body *b, DType t, double v);
int body_bits(Body *b, DType t, Bits bits);
int body_index(Body *b, Dim index); /* i64 */
/* The value that val is only converted from (P_CVT, any number of them); val itself otherwise. */
int body_unconverted(const Body *b, int val);
/* Val before it was rounded to halves, where it is f32 made of these; val itself otherwise. */
int body_unrounded(const Body *b, int val);
/* Operands that are f32 made of halves become what was rounded to these. */
void body_unround(Body *b);
/* The value of type u8 that an index is, by its symbol; -1: it is something else. */
int body_byte(const Body *b, Dim index);
int val_args(const Val *val); /* how many of its `arg` are other Vals */
int body_read(Body *b, Access read, DType type);
int body_read_else(Body *b, Access read, DType type, int otherwise);
int body_param(Body *b, int k, DType type);
int body_prim1(Body *b, Prim p, int x);
int body_prim2(Body *b, Prim p, int x, int y);
int body_prim3(Body *b, Prim p, int x, int y, int z);
int body_cvt(Body *b, DType to, int x);             /* x itself when it already has the type */
int body_prim_as(Body *b, Prim p, DType to, int x); /* P_CVT, P_CVTINF, P_BITCAST */
int body_prim(Body *b, Prim p, const int *args);    /* any arity, not the three above */
bool body_const_bits(const Body *b, int val, Bits *bits); /* is it a constant? bits may be NULL */
/* Is it a constant of f32 by whose reciprocal one may multiply? That. */
bool body_reciprocal(const Body *b, int val, float *by);
/* Does any of its reads and indices use sym? */
bool body_uses(const Body *b, Dim sym);
/* Makes val usable as an index and returns its symbol (fresh name from `name`). */
Dim body_symbol(Body *b, int val, const char *name);

/* Parses an expression, e.g. "0.5 * $0 * (1 + erf($0 * 0x1.6a09e6p-1))": $k is args[k]; `#k` is
 * dims[k] as an i64 value; literals take the type of the other operand (or `literal`, when there is
 * none); several statements "t = ...; u = ...; expr" may precede the result. Text comes from our
 * own tables: errors are BUGs. */
int body_expr(Body *b, const char *text, const int *args, int nargs, const Dim *dims, int ndims,
              DType literal);

/* Copies `from`'s Vals into b with containers, dims and params replaced; returns in `map` (one int
 * per Val of `from`) the new numbers. `read` (may be NULL) may replace a read by a Val of b: it
 * gets the read with its Dims already substituted, and returns -1 to keep it. */
typedef int BodyReadFn(void *user, Body *b, const Val *read);
void body_inline(Body *b, const Body *from, const DimSubst *subst, int nsubst, const int *params,
                 BodyReadFn *read, void *user, int *map);
/* How FUNC primitives are made. */
typedef struct Forms {
    bool native[PRIM_COUNT]; /* of f32, by an instruction: they stay */
    bool brief;              /* by their brief definitions where there are such (func.def) */
    bool quotients; /* of f32 without a branch: by constants as products, others as ratio */
} Forms;
/* Copies as body_inline does, every read and dim kept, FUNC primitives replaced by their
 * definitions; float types below 32 bits compute in f32: they are only read, selected, converted.
 * forms may be NULL: all are replaced, by their full definitions. */
void body_expand(Body *b, const Body *from, const Forms *forms, int *map);
/* Appends a copy of a Val of another body, its operands renumbered by `map`. */
int body_copy_val(Body *b, const Val *val, const int *map);
/* Drops Vals that no root needs; roots are renumbered in place. */
void body_prune(Body *b, int *roots, int nroots);

/* ---- combines ------------------------------------------------------------------------------- */

/* A reduction: state types, identity, merge(state, state) -> state, optional finish. Rows of
 * combine.def are templates over T; `combine_get` instantiates one. A product summed is fma. */
enum { COMBINE_STATES = 4 };
typedef struct Combine {
    const char *name;
    DType t; /* the T it was made for ("sum:f32"); DT_NONE: defined in the text */
    int nstate;
    DType type[COMBINE_STATES];
    Bits identity[COMBINE_STATES];
    Body merge;                 /* params 0..n-1 left, n..2n-1 right */
    int merged[COMBINE_STATES]; /* results in merge */
    Prim simple;                /* merge is exactly this primitive (P_ADD for sum), or PRIM_NONE */
    Body finish;                /* params 0..n-1; empty: the state itself */
    int finished[COMBINE_STATES]; /* -1 past the last result, of which there may be fewer */
    bool associative, commutative, idempotent;
} Combine;
/* Row `name` of combine.def for values of type t: "sum", "prod", "min", "max", "and", "or", "xor",
 * "argmax_first", "argmax_last", "argmin_first", "argmin_last", "welford", ...; one pointer per
 * name and type in a context. NULL when unknown or not for t. */
const Combine *combine_get(Ctx *ctx, const char *name, DType t);
/* May one state's merges come in any order? */
bool combine_any_order(const Combine *c);
/* And no bit changes: least and greatest, logic, and integers that wrap. */
bool combine_rounds_nothing(const Combine *c);

/* ---- running a body over columns --------------------------------------------------------------
 */

/* The evaluator's engine: a body compiled to bytecode that works on columns of `n` elements, one
 * dispatch per primitive and column. Reads and indices are supplied by the caller as columns. */
typedef struct Column {
    DType type;
    void *at; /* n elements of the type's natural storage: bool and sub-byte types one byte each */
} Column;
typedef struct BodyCode BodyCode;
enum { COLUMN_MAX = 1024 };
/* Expands functions; fixes register columns. Valid for any n <= COLUMN_MAX. */
BodyCode *body_compile(Arena *arena, const Body *b);
/* Scratch for one thread. */
typedef struct BodyFrame BodyFrame;
BodyFrame *body_frame(Arena *arena, const BodyCode *code);
/* fill(user, val number, Column out, n) supplies VAL_READ / VAL_INDEX / VAL_PARAM columns when they
 * are reached (earlier Vals' columns can be asked for with body_column, for data-dependent reads).
 */
typedef void BodyFillFn(void *user, int val, Column out, int n);
void body_run(const BodyCode *code, BodyFrame *frame, int n, BodyFillFn *fill, void *user);
Column body_column(const BodyCode *code, BodyFrame *frame, int val);

#endif
