/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels with register tiles: what schedule_tile.c chooses and schedule_tiled.c writes down. */
#ifndef WEIR_PASSES_SCHEDULE_TILED_H
#define WEIR_PASSES_SCHEDULE_TILED_H

#include "passes/dot.h"
#include "passes/schedule.h"

typedef struct Tiled {
    Scheduling *s;
    Kernel *kernel;
    const Map *p;          /* the reduction */
    int at;                /* its position; maps in front make strips for it */
    const Map *root;       /* last map: p itself or the epilogue */
    int pos;               /* of the root */
    int root_of[MAP_DIMS]; /* dim of p -> dim of the root, -1 for reduced and inner dims */
    bool inner[MAP_DIMS];  /* dims of p that the root reads whole at every element: gates */
    int64_t inners;        /* their indices in all */
    int lane, vectors;     /* a dim of p; of a tile */
    int row[2];            /* dims of p, or -1 */
    int64_t rows[2];
    int group; /* a reduced dim that runs in groups unrolled: an instruction multiplies them, or
                * they are a word of codes; or -1 */
    int64_t group_size, groups; /* of elements, and of groups that a step of `matrix` takes */
    const MatrixStep *matrix;   /* the machine's tiles hold the accumulators; or NULL */
    bool pairs;                 /* the instruction has Instruction.pairs */
    bool each;                  /* ... Instruction.each */
    int operand;                /* the Val that reads what stands in groups beside lanes */
    int64_t chunk; /* of the group's dim: behind each, sums of many tiles wait in memory; or 0 */
    int step;      /* a reduced dim of which so many indices stand side by side, or -1 */
    int64_t steps, innermost; /* of as many of the innermost loop */
} Tiled;

/* Fills in what the tile is, for s, kernel, p, at, root, pos; false: the root does not go along. */
bool tiled_choose(Tiled *t);

/* Has the result dim d of p? */
bool tiled_output(const Tiled *t, int d);
/* Indices of d in a tile. */
int64_t tiled_size(const Tiled *t, int d);
/* The reduced dim whose storage is blocked, which some operand holds in blocks of `size`, or -1. */
int tiled_blocked(const Tiled *t, int64_t size);
/* Is the number of rows known only at run time? */
bool tiled_rows_open(const Tiled *t);
/* Do all indices of dim d share what is read in lanes? */
bool tiled_shares_lanes(const Tiled *t, int d);
/* Is the window unrolled? A small one with one load per tap and row is, so that rows share what
 * overlaps; of a larger one, whose lanes have their own or pick elements of a vector, the taps that
 * rows share and those that decide which elements these are. */
bool tiled_unrolls_window(const Tiled *t);
/* Then these taps run inside the others. */
bool tiled_unrolls_part(const Tiled *t);
/* Is reduced dim d of one that is? */
bool tiled_unrolls_tap(const Tiled *t, int d);
/* Do lanes pick elements of a vector? */
bool tiled_picks(const Tiled *t);
/* Do rows read along reduced dim d what others read for another index of it? */
bool tiled_overlaps(const Tiled *t, int d);
/* Along any? */
bool tiled_slides(const Tiled *t);

#endif
