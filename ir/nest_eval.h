/* SPDX-License-Identifier: Apache-2.0 */
/* A nest compiled for evaluation: every symbol and loop variable is a slot, every index a DimCode,
 * every body column code. Shared by the files of the Nest evaluator. */
#ifndef WEIR_IR_NEST_EVAL_H
#define WEIR_IR_NEST_EVAL_H

#include "dim_code.h"
#include "nest.h"

/* An index of a buffer; `lane` is the coefficient of the vector loop's variable. */
typedef struct NestAccess {
    int buf, rank;
    const DimCode *at[RANK_MAX];
    int64_t lane[RANK_MAX];
    bool affine; /* in the lane, without values of the body */
    bool data;   /* uses values of the body */
} NestAccess;

typedef struct NestStmt NestStmt;
struct NestStmt {
    const Stmt *stmt;
    int var; /* FOR: slot */
    const DimCode *extent;
    int nguard;
    const DimCode **guard;
    int nbody;
    NestStmt *body;
    const BodyCode *code; /* BODY, FOLD (the merge) */
    BodyFrame *frame;
    NestAccess **read;     /* BODY: by Val */
    const DimCode **index; /* BODY: by Val */
    int nsymbol;           /* BODY: its Vals that are symbols, and their slots */
    int *symval, *symslot;
    NestAccess *store; /* BODY: by store; FOLD: dst */
    NestAccess *src;   /* FOLD */
    NestAccess at;     /* WHILE */
    int ndecl;         /* DECL */
    const DimCode **box;
};

/* Where a buffer lies now. */
typedef struct NestBuf {
    char *data;
    int64_t dim[RANK_MAX], room, base;
} NestBuf;

typedef struct NestCode {
    Ctx *ctx;
    Arena *arena;
    const Nest *nest;
    int nslot;
    int nsymbol; /* slots 0 .. nsymbol-1: nest->symbol */
    NestStmt *body;
    int nbody;
    const DimCode ***box; /* by buffer (BUF_MEMORY), by dim */
    const DimCode **base; /* NULL: 0 */
    NestBuf *buf;
    int64_t *slot;          /* values; of the lane: 0 */
    const int64_t **column; /* by slot: lanes and body symbols */
    int64_t **room;         /* by slot: a column of its own for body symbols */
    int lanes;              /* of the body that runs; 1: scalar */
    const uint8_t *mask;    /* active lanes; NULL: all */
    uint8_t *mask_room;
} NestCode;

NestCode *nest_compile(Arena *arena, const Nest *nest);
/* As nest_eval. */
void nest_run(NestCode *code, Tensor *buf, DimValueFn *sym, void *user);
/* nest_eval_body.c */
void nest_run_body(NestCode *c, const NestStmt *s);
void nest_run_fold(NestCode *c, const NestStmt *s);
bool nest_read_true(NestCode *c, const NestAccess *at);

#endif
