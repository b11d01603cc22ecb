/* SPDX-License-Identifier: Apache-2.0 */
/* What the verifiers of flows and nests share: bodies, symbols in sight, ranges of values.
 *
 * `complain` prints the whole object with the message at the guilty line and leaves by fail. */
#ifndef WEIR_IR_VERIFY_H
#define WEIR_IR_VERIFY_H

#include "print.h"

typedef struct Verify Verify;
struct Verify {
    Ctx *ctx;
    Arena *arena;      /* scratch */
    const void *whole; /* Flow, Nest or Graph */
    const char *what;  /* "flow" */
    const char *name;
    void (*print)(Printer *p, const void *whole);
    /* NULL, or says where the guilty object was read, and then only the message is given. */
    void (*blame)(Verify *v, const void *guilty);
    VEC(DimRange) range; /* symbols in sight: outer ones first */
};

/* `guilty` is printed by the object's printer; `or` is, should it not be (a Val without a line). */
_Noreturn void complain(Verify *v, const void *guilty, const void * or, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

bool verify_known(const Verify *v, Dim sym);
/* Complains unless every symbol of d is in sight. */
void verify_dim(Verify *v, Dim d, const void *guilty, const void * or, const char *what);
void verify_dims(Verify *v, const Dim *d, int n, const void *guilty, const void * or,
                 const char *what);
static inline DimEnv verify_env(const Verify *v) {
    return (DimEnv){v->range.at, v->range.n};
}

/* Operands earlier than their use, types as the rows of prim.def want them. Each Val that is an
 * index enters the symbols in sight, with what is known of its range, so that later indices may use
 * it. `read` is called for every VAL_READ when all earlier ones are in sight. */
typedef void VerifyReadFn(Verify *v, const Val *val);
/* Range of a container's values (`lo`, `hi`), or NULL. */
typedef const DimRange *VerifyRangeFn(Verify *v, int cont);
void verify_body(Verify *v, const Body *body, const void *stmt, VerifyReadFn *read,
                 VerifyRangeFn *range);
void verify_val(Verify *v, const Body *body, int val, const void *guilty);

#endif
