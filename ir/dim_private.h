/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of dim share: boxes around the public structures, and arithmetic that answers NULL
 * where the public one fails. NULL goes through: any argument NULL gives NULL, so a chain of these
 * is checked once, at its end. */
#ifndef WEIR_IR_DIM_PRIVATE_H
#define WEIR_IR_DIM_PRIVATE_H

#include "context.h"
#include "dim.h"

/* What stands anywhere inside: one bit per symbol, hashed (a missing bit is proof of absence), and
 * one per sort of atom. */
typedef uint64_t Mask;
enum { MASK_SYMS = 60 };
#define MASK_DIV ((Mask)1 << 61)
#define MASK_MOD ((Mask)1 << 62)
#define MASK_MINMAX ((Mask)1 << 63)

typedef struct Mono Mono;

/* ---- hash-consing -------------------------------------------------------------------------------
 */

/* Objects begin with their hash. */
typedef struct Cons {
    uint64_t **slot;
    size_t n, size;
} Cons;

struct DimTable {
    Cons atoms, monos, nodes;
    Cons ranges, answers; /* dim_memo.c */
    const Mono *one;
    struct SumRoom *room; /* free */
};

struct DimTable *dims(Ctx *ctx);
/* Where the search for an object of this hash begins, and goes on while there is one that differs.
 * Only insertion allocates: looking up what exists cannot fail. */
uint64_t **cons_slot(Ctx *ctx, Cons *cons, uint64_t hash);
uint64_t **cons_next(Cons *cons, uint64_t **slot);
void cons_put(Ctx *ctx, Cons *cons, uint64_t **slot, uint64_t *object);

static inline uint64_t mix(uint64_t h, uint64_t v) {
    h = (h ^ v) * 0x9e3779b97f4a7c15u;
    return h ^ h >> 31;
}

/* Atoms, products and sums are hash-consed: equal content, equal address. Hashes depend on content
 * only. */
typedef struct AtomBox {
    uint64_t hash;
    Mask mask;
    Dim self; /* of a symbol: the dim that is just it */
    Atom atom;
} AtomBox;
struct Mono { /* a product of atoms, sorted; empty: 1 */
    uint64_t hash;
    Mask mask;
    int n;
    const Atom *at[];
};
typedef struct NodeBox {
    struct DimNode node;
    Mask mask;
} NodeBox;

static inline Mask dim_mask(Dim d) {
    return ((const NodeBox *)d)->mask;
}

static inline const Mono *term_mono(const DimTerm *t) {
    return (const Mono *)((const char *)t->atom - offsetof(Mono, at));
}

static inline const AtomBox *atom_box(const Atom *a) {
    return (const AtomBox *)((const char *)a - offsetof(AtomBox, atom));
}

static inline Mask atom_mask(const Atom *a) {
    return atom_box(a)->mask;
}

/* A fixed order that no address decides: lexicographic, first atoms first, so that N*S < N < S < 1;
 * it is a monomial order in the sense of polynomial division. */
int mono_order(const Mono *a, const Mono *b);
int dim_order(Dim a, Dim b);

const Mono *mono_one(Ctx *ctx);
const Mono *mono_atom(Ctx *ctx, const Atom *atom);
const Mono *mono_mul(Ctx *ctx, const Mono *a, const Mono *b); /* NULL: degree too high */
/* a without the atoms of b; NULL when b's atoms are not all in a. */
const Mono *mono_div(Ctx *ctx, const Mono *a, const Mono *b);
const Mono *mono_gcd(Ctx *ctx, const Mono *a, const Mono *b);
const Atom *atom_make(Ctx *ctx, AtomKind kind, Dim a, Dim b);

/* A sum under construction; `sum_done` sorts, merges and interns. */
typedef struct Sum {
    Ctx *ctx;
    DimTerm *at;
    int n, cap;
    bool overflow;
    struct SumRoom *room; /* where `at` is, when that is not `small` */
    DimTerm small[24];
} Sum;
void sum_start(Sum *sum, Ctx *ctx);
void sum_term(Sum *sum, int64_t coef, const Mono *mono);
void sum_add(Sum *sum, Dim d, int64_t factor);
Dim sum_done(Sum *sum); /* NULL: overflow */

Dim try_term(Ctx *ctx, int64_t coef, const Mono *mono);
Dim try_add(Ctx *ctx, Dim a, Dim b);
Dim try_sub(Ctx *ctx, Dim a, Dim b);
Dim try_scale(Ctx *ctx, Dim a, int64_t c);
Dim try_mul(Ctx *ctx, Dim a, Dim b);
Dim try_div(Ctx *ctx, Dim a, Dim b);
Dim try_mod(Ctx *ctx, Dim a, Dim b);
Dim try_min(Ctx *ctx, Dim a, Dim b);
Dim try_max(Ctx *ctx, Dim a, Dim b);
Dim try_atom(Ctx *ctx, AtomKind kind, Dim a, Dim b); /* by kind, through the four above */

/* Quotient and rest of polynomial division by the leading terms; false: overflow. */
bool dim_long_division(Ctx *ctx, Dim a, Dim b, Dim *q, Dim *r);
int64_t gcd64(int64_t a, int64_t b); /* >= 0; of magnitudes; 0 when 2^63 */
int64_t floor_div64(int64_t a, int64_t b);

/* ---- proofs -------------------------------------------------------------------------------------
 */

/* One question to the prover: `fuel` bounds its work, so that a hard question ends in "unknown". */
typedef struct Proof {
    Ctx *ctx;
    const DimEnv *env;
    int fuel;
} Proof;
bool prove_ge0(Proof *proof, Dim d);
Dim prove_bound(Proof *proof, Dim d, int from, bool upper); /* NULL: unknown */

/* ---- what was asked before (dim_memo.c) ---------------------------------------------------------
 */

typedef enum AskedFor { ASKED_GE0, ASKED_LOWER, ASKED_UPPER, ASKED_SIMPLE } AskedFor;
typedef struct Question {
    uint64_t hash;
    AskedFor what;
    int from; /* the first range that counts */
    Dim d;
    const DimEnv *env;
    Dim answer; /* NULL: unknown, or not proven */
} Question;
/* Was it asked before? Then its answer is filled in; else what `question_keep` needs. */
bool question_known(Ctx *ctx, Question *q);
void question_keep(Ctx *ctx, const Question *q, Dim answer);

#endif
