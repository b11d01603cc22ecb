/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by nests_leaf.c (one map on one box, bodies) and nests_reduce.c (its reductions). */
#ifndef WEIR_PASSES_NESTS_LEAF_H
#define WEIR_PASSES_NESTS_LEAF_H

#include "passes/nests.h"

typedef struct Lane {
    Dim var; /* NULL: no lanes */
    int width;
    Dim guard; /* NULL: all lanes run */
    bool row;  /* lanes of a vector, not threads */
} Lane;

typedef struct GuardedRead {
    Access read;
    int buf;
} GuardedRead;

/* A container that may be empty, in the case that it has elements or has none. */
typedef struct Sized {
    int cont;
    bool filled;
} Sized;
enum { SIZED_MAX = 2 };

typedef struct Leaf {
    Lowering *lo;
    const MapPlan *plan;
    const Map *map;
    bool root;
    Span span[RANK_MAX * 2];
    const Span *box;           /* of which own tiles cut the span */
    Dim value[RANK_MAX * 2];   /* what each dim is now: start + loop variable */
    const Write *write;        /* the combining write, or NULL */
    int acc[COMBINE_STATES];   /* its accumulators; -1: the container's own register buffer */
    int total[COMBINE_STATES]; /* of a reduction block by block */
    VEC(GuardedRead) guarded;
    const int *parts; /* by state: shared arrays of what parts of the reduction left, ... */
    Dim part;         /* ... and the part at hand */
    Sized sized[SIZED_MAX];
    int nsized;
    bool fetched; /* a part of the next panel is, around the loops at hand */
    bool idle;    /* what constraints on results cut off is computed where that is little, and not
                     stored */
    bool partial; /* lanes beyond the end may not compute */
    const Lane *apart; /* lanes read apart from a body, of which all compute; or NULL */
} Leaf;

typedef void LaneFn(Leaf *f, const Lane *lane, Stmts *into);

/* The loop over dim d's span; returns its body and sets the dim's value. */
Stmts *open_dim(Leaf *f, int d, Stmts *into);
/* Runs fn for every chunk of lanes of the lane dim's span. */
void lane_chunks(Leaf *f, Stmts *into, LaneFn *fn);
/* How many lanes a map has in registers: none where threads are the lanes. */
bool lanes_in_row(const Leaf *f);
/* The vector loop of a chunk, or the guard of a thread, when there are lanes. */
Stmts *lane_loop(Leaf *f, const Lane *lane, Stmts *into);
/* Opens what guards a body. `outputs` leaves out constraints that use reduced dims. */
Stmts *open_guards(Leaf *f, Lane *lane, bool outputs, Stmts *into);
/* A body statement behind its guards and guarded reads. */
Stmt *open_body(Leaf *f, Lane *lane, Stmts *into);
/* What is put for the map's dims in its body. */
int dim_substs(const Leaf *f, DimSubst *subst);
/* The map's body at the present values of its dims; `map` gets the new Val numbers. */
void inline_body(Leaf *f, const Lane *lane, Body *b, int *map);
/* The body of a map without a combine, with its stores. */
void plain_body(Leaf *f, const Lane *lane, Stmts *into);
void body_store(Leaf *f, Stmt *s, Access to, int val);
void finish_body(Leaf *f, Stmt *s);
Access storage_access(Leaf *f, const Access *to, bool store);
Access target_access(Leaf *f, const Access *to);
/* Is what a read finds in storage (`at`) there at all indices that the loops around have? */
bool reads_inside(Leaf *f, const Val *val, Access *at);
/* May all lanes of a vector read it, those beyond the dim's end too? They find storage there, and
 * in it what is harmless: zeros, or whole numbers, which slow down and trap nobody who computes. */
bool reads_whole(Leaf *f, const Val *val, const Lane *lane);

/* Do factors of the terms multiply the sums of blocks, and is there more in the terms than these?
 */
bool leaf_factored(const Leaf *f);
/* The product of those factors of Val v (of the map's body, `map` says which Val of b it is) that
 * are of whole blocks, or of the others; -1: there are none. */
int leaf_product(Leaf *f, Body *b, const int *map, int v, bool whole);

/* nests_read.c: reads that may be outside.
 * What must be >= 0 for a read to be inside the logical box, as far as that is not proven. */
int read_conditions(Leaf *f, const Access *read, Dim *cond);
/* x[e] else v  ->  select(0 <= e < extent, x[clamp(e)], v) */
int select_read(Leaf *f, Body *b, const Val *read, const Dim *cond, int n);
/* Reads that can be behind guards are, before the body; then they are found in a buffer, or -1. */
void guard_reads(Leaf *f, const Lane *lane, Stmts *into);
int guarded_buf(const Leaf *f, const Access *read);
/* May lanes beyond the end compute, if what differs from lane to lane is read apart? */
bool may_read_apart(Leaf *f, const Lane *lane);
/* Runs fn; where the body reads at clamped indices what may be empty (of SIZED_MAX containers) once
 * behind what says that it is not, and once for the other case. */
void for_sizes(Leaf *f, const Lane *lane, LaneFn *fn, Stmts *into);

/* nests_stage.c: the threads of a block copy what the block's tile needs of staged containers now,
 * and wait; until `unstage_reads` these are read there. */
void stage_reads(Leaf *f, Stmts *into);
void unstage_reads(Leaf *f);

/* nests_threads.c: what every thread of a block has becomes one result that all of them have. */
typedef struct Fold {
    const Combine *combine;
    int lanes;
    const Access *src, *dst; /* by state; dst: a register */
    const char *from;
} Fold;
void fold_threads(Lowering *lo, const Fold *fold, Stmts *into);

/* nests_reduce.c: a map with a combine on f->span. */
void reduce_map(Leaf *f, Stmts *into);
/* The loops of the `reduce` line from `level` on, then reduced dims that it does not name. */
void reduce_loops(Leaf *f, int level, Stmts *into);
/* Runs fn for every state: unrolled output dims, chunks of lanes. */
void reduce_states(Leaf *f, Stmts *into, LaneFn *fn);
/* Where state s is accumulated. */
Access reduce_state(Leaf *f, int s, const Lane *lane);
/* acc = merge(acc, value), by number in b; a product summed is a fused multiply-add. */
void reduce_merge(Leaf *f, Body *b, const int *acc, const int *value, int *out);

/* nests_parts.c: the same where threads reduce parts; the first part's threads have the results. */
void reduce_parts(Leaf *f, Stmts *into);

/* Fetches a part of the next panel for the steps of the reduced dims `inside`; false: these are too
 * many for all of it at once, unless they are the innermost ... */
bool prefetch_panel(Leaf *f, const bool *inside, bool innermost, Stmts *into);
/* ... or behind a block of groups (nests_fetch.c). */
void prefetch_block(Leaf *f, Stmts *into);

#endif
