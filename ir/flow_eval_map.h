/* SPDX-License-Identifier: Apache-2.0 */
/* One map while it is evaluated.
 *
 * Writes that reduce over the same dims form a group; the map runs once per group. Its dims are
 * walked as two nested spaces, and one of the two ends in a block: up to 1024 points of the
 * innermost dims, over which the body runs in columns.
 *
 *   RUN_PLAIN       one space, all dims, in blocks; values are stored as they come
 *   RUN_VERTICAL    blocks of results; for each, all points that are reduced into it, in order
 *   RUN_HORIZONTAL  results one by one; for each, blocks of the points that are reduced
 *   RUN_SCATTER     as plain, merging into a state per element: writes that may meet */
#ifndef WEIR_IR_FLOW_EVAL_MAP_H
#define WEIR_IR_FLOW_EVAL_MAP_H

#include "flow_eval.h"

typedef enum { RUN_PLAIN, RUN_VERTICAL, RUN_HORIZONTAL, RUN_SCATTER } RunMode;

/* An access to one tensor. When it is affine the address at a point of a block is
 * base + sum coef*pos + offset[point]. */
typedef struct Spot {
    int cont, rank;
    const DimCode *at[RANK_MAX];
    int64_t dim[RANK_MAX], stride[RANK_MAX];
    char *data;
    DType type;
    int bytes;              /* an element's; 0: sub-byte */
    bool affine, safe;      /* safe: inside over the whole domain */
    bool safe_at[RANK_MAX]; /* the same of one index */
    uint64_t symbols;       /* bit s: uses the body symbol of slot ndim + s */
    DimCode address;        /* affine: of the element */
    const int64_t *offset;
    int64_t step;                       /* offset[j] = j*step; INT64_MIN: it does not */
    int64_t lo[RANK_MAX], hi[RANK_MAX]; /* what a block adds to each index, at most */
} Spot;

typedef struct Space {
    int n;
    int *dim; /* map dims, outermost first */
    bool blocked;
    int first; /* blocked: dims from `first` on form the block; dim[first] in parts of chunk */
    int64_t chunk, inner; /* inner: points per index of dim[first] */
} Space;

typedef struct State {
    const Write *write;
    bool sum;                       /* of floats: in f64 */
    int product[2];                 /* sum: operands of the product, or -1 */
    bool exact;                     /* any order gives the same bits */
    const BodyCode *merge, *finish; /* finish NULL: the state itself */
    Spot *to;                       /* by target */
} State;

typedef struct Group {
    Eval *e;
    const Map *map;
    Arena *arena;
    RunMode mode;
    Body body; /* pruned to what this group's writes need */
    const BodyCode *code;
    int ndim, nslot; /* slots: map dims, then body symbols */
    int64_t *extent;
    bool *reduced, *seq;
    int *symval;           /* by slot: Val of a body symbol, else -1 */
    Spot **read;           /* by Val */
    const DimCode **index; /* by Val */
    uint64_t *index_symbols;
    int ncons;
    const DimCode **cons;
    bool *cons_reduced;  /* uses a reduced dim */
    Space out, red;      /* PLAIN, SCATTER: all dims in `out` */
    const int64_t **rel; /* by slot: what a point of a block adds to the dim's index; NULL: none */
    int64_t *block_hi;   /* by slot: the most it adds */
    int nstate;
    State *state;
    int split; /* the dim given to threads; -1: none */
    int nrunner;
    struct Runner *runner;
} Group;

/* Where an index left its container. */
typedef struct Fault {
    bool set, symbols;
    int cont, dim;
    int64_t index, extent;
} Fault;

/* One thread's work on a group. */
typedef struct Runner {
    const Group *g;
    int64_t *lo, *hi, *pos;
    const int64_t **column; /* by slot */
    int64_t **symbol;       /* by slot: a column of its own */
    int n;
    bool all; /* every point of the block is in the domain */
    uint8_t *mask, *out_mask;
    bool out_all;
    BodyFrame *frame;
    struct Acc *acc; /* by state: flow_eval_reduce.c */
    Fault fault;
} Runner;

/* flow_eval_group.c: the groups of a map, ready to run. */
typedef VEC(Group *) Groups;
void groups_prepare(Eval *e, const Map *map, Arena *arena, Groups *groups);
Spot *spot_prepare(Group *g, const Access *access);
void space_block(const Group *g, Space *space);

/* flow_eval_map.c */
void group_run(Group *g);
/* fn(at + t*size) for t < n on as many threads. */
void parallel_run(void *(*fn)(void *), void *at, size_t size, int n);
/* flow_eval_reduce.c */
void acc_prepare(Runner *r, Arena *arena);
void acc_reset(Runner *r);
void acc_vertical(Runner *r);
void acc_horizontal(Runner *r);
void acc_scatter(Runner *r);
/* Stores what was accumulated for the n results of a block (horizontal: 1). */
void acc_finish(Runner *r, int n);
void acc_scatter_finish(Runner *r);
/* flow_eval_access.c: reads and stores of a block's columns. */
void access_fill(void *runner, int val, Column out, int n); /* a BodyFillFn */
/* Addresses of a block's points; those not in the domain, or outside, get -1; the latter set the
 * fault unless `quiet`. */
void access_addresses(Runner *r, const Spot *spot, int n, bool quiet, int64_t *address);
void access_store(Runner *r, const Spot *spot, Column from, int n);
void column_i64(Column from, int n, int64_t *out);
Bits column_get(Column c, int i);
void column_set(Column c, int i, Bits bits);
int column_bytes(DType t); /* of an element in a column */
/* flow_eval_contract.c: runs the group and returns true when it is a plain contraction of floats.
 */
bool contract_run(Group *g);

#endif
