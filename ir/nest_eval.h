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
    bool uniform; /* on cuda: extent and guards are the same for all threads */
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
    int64_t each; /* elements until the next thread's own copy; 0: all share it */
} NestBuf;

/* Who touched an element last: blocks and the stretches between barriers are counted on and on, so
 * that nothing need be cleared. read_others is the last block that read it before read_block.
 * group: what stored it last was an asynchronous copy of that group; 0: a thread. */
enum { THREAD_SEVERAL = -1, THREADS_MAX = 1024 };
typedef struct NestTouch {
    int32_t write_block, read_block, read_others;
    int32_t write_stretch, read_stretch, group;
    int16_t write_thread, read_thread;
} NestTouch;

/* A `steps` block that nobody has waited for yet: it reads as late as it may. */
typedef struct NestSteps {
    const NestStmt *stmt;
    int64_t *slot; /* values of symbols and loop variables where it stood */
} NestSteps;

/* The block that runs: its threads are columns, `lanes` of them side by side for each thread in a
 * vector loop. */
typedef struct NestThreads {
    int n, nvar;
    int var[RANK_MAX];         /* slots of the thread loops, outermost first */
    int64_t extent[RANK_MAX];  /* and their extents */
    int64_t *value[RANK_MAX];  /* by loop and thread */
    int64_t *column[RANK_MAX]; /* by loop and column, when there are lanes */
    const uint8_t *active;     /* by thread; NULL: all */
    int first, lanes;          /* of column 0; columns a thread */
    int32_t block, stretch;    /* number of the block and of the stretch between barriers */
    int32_t first_block;       /* of this run */
    int32_t group,
        waited;        /* of copies in this block: the open one, from 1 on; the last waited for */
    VEC(int32_t) done; /* by group - 1: the stretch in which it was waited for */
    VEC(NestSteps) steps; /* of this block, in order ... */
    int ran;              /* ... of which so many were waited for */
    NestTouch **touch;    /* by buffer; NULL: only read, or a thread's own */
    int64_t *touched;     /* by buffer: elements of `touch` */
} NestThreads;

/* Rows of 16 bytes of shared memory that warps ask for together: the matrices of a step. */
enum { WARPS_MAX = THREADS_MAX / 32, OPERANDS = 2, MATRIX_ROWS = 8, MATRIX_MAX = 64 };
typedef struct NestMatrix {
    int buf[OPERANDS], noperand;
    int n[OPERANDS][WARPS_MAX];
    int64_t row[OPERANDS][WARPS_MAX][MATRIX_MAX];
} NestMatrix;

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
    NestThreads *threads; /* on cuda, with threads: each column is one; else NULL */
    NestTraffic *traffic; /* with threads: counted here; NULL: not counted */
    NestMatrix *matrix;   /* of a step of warps, when counting, ... */
    bool stepping;        /* ... while one runs */
} NestCode;

NestCode *nest_compile(Arena *arena, const Nest *nest);
/* As nest_eval. */
void nest_run(NestCode *code, Tensor *buf, DimValueFn *sym, void *user);
/* Makes room for a local array, `copies` of them. */
void nest_declare(NestCode *c, const NestStmt *s, int copies);
/* nest_eval_body.c */
void nest_run_body(NestCode *c, const NestStmt *s);
void nest_run_fold(NestCode *c, const NestStmt *s);
void nest_fold_threads(NestCode *c, const NestStmt *s);
void nest_turn_threads(NestCode *c, const NestStmt *s);
/* By column: is the element true? */
void nest_read_true(NestCode *c, const NestStmt *s, uint8_t *truth);
/* Fails where there is no such element. */
void nest_run_prefetch(NestCode *c, const NestStmt *s);
/* nest_eval_threads.c: a nest of blocks and threads. */
void nest_run_blocks(NestCode *c);
/* nest_eval_race.c: column l of the statement's access is element address[l] (-1: none). Fails when
 * that is a race. */
void nest_touch(NestCode *c, const NestStmt *s, int buf, const int64_t *address, int n, bool store);
/* nest_eval_traffic.c: counts such an access. */
void nest_count(NestCode *c, int buf, const int64_t *address, int n);
/* Around what warps read as matrices of 8 rows. */
void nest_matrix_begin(NestCode *c);
void nest_matrix_end(NestCode *c);
/* Before a run, once the buffers' sizes are known: room for what is watched. */
void nest_touch_begin(NestCode *c);

#endif
