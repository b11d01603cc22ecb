/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels of steps of warps: shared by nests_warps.c (one product) and nests_weigh.c (two, the
 * first of which makes what the second reads). */
#ifndef WEIR_PASSES_NESTS_WARPS_H
#define WEIR_PASSES_NESTS_WARPS_H

#include "passes/nests_leaf.h"

/* A step's threads, 8 by 4 of them, have rows 8 apart and pairs of neighbouring columns. */
enum { GROUP = 8, PAIRS = 4, PAD_BYTES = 16, WORD_BYTES = 4 };

typedef struct Operand {
    const Val *read;
    const JoinedDims *side; /* rows, or columns */
    Dim first;              /* the block's first of them */
    bool along;             /* reduced elements lie side by side */
    bool fragment;          /* in registers, all of it, instead of shared memory */
    bool swizzled;          /* in shared memory */
    DType type;
    int buf, lanes; /* lanes: copied at once */
    int slots;      /* blocks that are in shared memory at a time, ... */
    Dim slot;       /* ... and which of them steps use now */
} Operand;

typedef struct Warps {
    Lowering *lo;
    const MapPlan *plan, *root;
    const WarpStep *step;
    WarpStep wide;           /* a plain step as the operands lie */
    int own[RANK_MAX * 2];   /* by root dim: that of the map, or -1 */
    Dim fixed[RANK_MAX * 2]; /* by root dim: its value, of those that are no row and no column */
    Dim row, column, number; /* of the warp; of the thread in the block */
    Dim group, pair;         /* of the thread in its step: first row, and pair of columns */
    int64_t rounds, rounds_right; /* of blocks that stay: rounds, and those side by side; else 0 */
    Dim own_row, own_column;      /* their tile in a round */
    Dim turn;                     /* their round, and its place in the environment */
    int turn_range;
    int64_t there; /* terms of the only block of a reduction, which goes on with zeros; else 0 */
    int nthreads;
    int acc;   /* what steps add to */
    int total; /* where steps are coarse, what that is added to after each block of the reduction:
                  acc is then of one step along rows */
    Operand a, b;
} Warps;

static inline Dim warps_const(const Warps *w, int64_t value) {
    return dim_const(w->lo->ctx, value);
}

static inline Dim sum(const Warps *w, Dim a, Dim b) {
    return dim_add(w->lo->ctx, a, b);
}

static inline Dim times(const Warps *w, Dim a, int64_t by) {
    return dim_mulc(w->lo->ctx, a, by);
}

/* The instruction of that name. */
const WarpStep *warps_step(const Lowering *lo, const char *name);
/* How many the joined dims are; in how many blocks. */
Dim warps_total(const Warps *w, const Map *m, const JoinedDims *j);
Dim warps_blocks(const Warps *w, Dim all, int64_t block);
/* Opens a loop; its variable (0 for a single block). */
Dim warps_open(const Warps *w, const char *name, Dim count, LoopMark mark, Stmts **into);
/* The same over blocks of the root's rows or columns: the first of the block at hand. */
Dim warps_tiles(const Warps *w, const char *name, const JoinedDims *j, Stmts **into);
/* The dim of the contraction that is the root's dim d: both stand at one index of its result. */
int warps_own(const Warps *w, int d);
/* Blocks, and their first rows and columns. */
void warps_grid(Warps *w, Stmts **into);
/* Where blocks stay: the loop over rounds, ahead of which the first copies are asked for; and
 * behind the steps of a round those of the next. */
void warps_stay(Warps *w, Stmts **into);
void warps_next(Warps *w, Stmts *into);
/* The threads of a block. */
void warps_threads(Warps *w, Stmts **into);

/* Declares an operand's shared memory and finds how it is copied. */
void warps_operand(Warps *w, Operand *o, Stmts *into);
/* Declares a fragment of it, of type o->type. */
void warps_fragment(Warps *w, Operand *o, Stmts *into);
/* Every thread reads from memory what it has of the fragment. */
void warps_fetch(Warps *w, const Operand *o, Stmts *into);
/* Where an element lies in it. */
Access warps_shared(const Warps *w, const Operand *o, Dim slot, Dim side, Dim reduced);
/* Its index in memory at number `side` of its rows or columns and `reduced`. */
Access warps_memory(const Warps *w, const Operand *o, Dim side, Dim reduced);
/* nests_box.c: is what a slot gets a box of the container (COPY_BOX)? */
bool warps_box(Warps *w, const Operand *o);
/* Makes zeros of what every slot has beyond what is there. */
void warps_clear(Warps *w, const Operand *o, Stmts *into);
/* Copies a block of the reduction to a slot; `fill`: as a box, if it is one. */
void warps_copy(Warps *w, const Operand *o, Dim block, Dim slot, Stmts *into);
void warps_fill(Warps *w, const Operand *o, Dim block, Dim slot, Stmts *into);
/* Copies one of a tile's first blocks, which are as many as are copied ahead, to its slot. */
void warps_begin(Warps *w, int block, Stmts *into);
/* Do steps run behind the threads' backs? */
bool warps_behind(const Warps *w);
/* Until no more than `left` of these are under way. */
void warps_wait(const Warps *w, int left, Stmts *into);
/* Steps of the warp on the operands' present slots: all, or those of number m along rows. */
void warps_steps(Warps *w, Dim m, Stmts *into);
/* nests_plain.c: as many columns for a plain step as threads have side by side. All of its steps;
 * in the block, a thread's row and column of such a number. */
void warps_widen(Warps *w);
void warps_multiply(Warps *w, Stmts *into);
Dim warps_own_row(const Warps *w, Dim number);
Dim warps_own_column(const Warps *w, Dim number);

/* The dims at a number. Beyond the last one only the outermost dim leaves its range. */
void warps_set_dims(const Warps *w, const Map *m, const JoinedDims *j, Dim number, Dim *value);

/* Halves of a warp's rows in a step: a thread has one row of each. */
static inline int64_t warps_halves(const WarpStep *step) {
    return step->rows / step->warps / GROUP;
}

/* The sums of a thread, zero: w->acc, where steps are coarse w->total, too. */
void warps_sums(Warps *w, Stmts *into);
/* Where they are: all steps, those along rows one by one, whose sums are added to w->total as soon
 * as they are there. */
void warps_coarse_steps(Warps *w, Stmts *into);
/* A thread's row, in the block, of step m along rows and half h of the step's. */
Dim warps_row(const Warps *w, Dim m, Dim h);
/* An element of these, or a pair of neighbouring columns in lanes: opens the loops over all. */
typedef struct WarpElement {
    Dim m, n, h; /* of a thread's: step along rows, along columns, half of the step's rows */
    Lane lane;
    Dim row, column; /* in the block */
    Access acc;
} WarpElement;
WarpElement warps_element(Warps *w, Stmts **into);
/* What the root computes from the sums, or these, to memory, once all steps are done: as many
 * neighbours at once as one thread, or four that exchange theirs, has. */
void warps_store(Warps *w, Stmts *into);

/* Blocks one after the other, each copied `ahead` blocks before it is used. Slots are one more, and
 * where steps run on behind their threads, which the last ones then do, two. */
typedef void BlockFn(void *user, Dim block, Dim slot, Stmts *into);
typedef struct Pipeline {
    Dim count;
    int ahead;
    bool waits; /* steps are waited for where they are used */
    bool begun; /* the first were asked for */
    BlockFn *copy, *use;
    void *user;
} Pipeline;
void warps_pipeline(Warps *w, const Pipeline *p, Stmts *into);

/* nests_weigh.c: rows of scores that weigh rows of values. */
void lower_weighing(Lowering *lo);

/* nests_carry.c: registers hand on what a step of a loop needs of the one before. */
void carry_steps(Nest *nest, Stmts *stmts);

#endif
