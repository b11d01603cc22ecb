/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files of pass `schedule`. */
#ifndef WEIR_PASSES_SCHEDULE_H
#define WEIR_PASSES_SCHEDULE_H

#include "passes/access.h"
#include "passes/recipe.h"

typedef struct Scheduling {
    Flow *flow;
    const PassEnv *env;
    IntVec *readers; /* by container: maps that read it */
    int *writer;     /* by container: as flow_writers */
    bool *held;      /* by container: read by a call or a region */
    bool *repeats;   /* by map: it stands in a loop */
    double weights;  /* bytes of all of them */
    int lanes;       /* of what is scheduled, if not as many as usual: wide_lanes */
    int64_t
        unknown; /* what an extent is taken for that the run alone knows, of products by steps */
    const char *range; /* what decisions for more than a few of these are told apart by, or NULL */
} Scheduling;

int lanes_of(const Scheduling *s);
int wide_lanes(const Scheduling *s, const Map *map, int dim); /* of an element-wise map */
bool read_outside(const Scheduling *s, const Kernel *kernel, int cont);
bool folds(const Map *map, int dim);
double scalar_cost(const Flow *flow, const Map *map,
                   int lanes); /* without lanes; in the unit of lane_cost */
int choose_lanes(const Scheduling *s, const Map *map, const bool *allowed);
void vector_line(Scheduling *s, Kernel *kernel, int pos, int dim);
/* Long sums of floats in blocks of so many terms or a few more: schedule.c. Where sums are weighted
 * and added up, as those of tiles are, what they are off by grows, so there they are shorter. */
enum { SUM_BLOCK = 128, TILE_SUM_BLOCK = 16 };
void partial_line(Scheduling *s, Kernel *kernel, int pos, int lane, int64_t block);
/* The dim whose blocks are summed apart, and their size; -1: the sum is short, or not of floats. */
int sum_blocks(const Map *m, int lane, int64_t block, int64_t *size);
/* Steps of an innermost loop of so many that stand side by side, each of so many multiply-adds; all
 * of them where that leaves no loop and is little. A test of the loop takes three of the operations
 * that a core begins, of which a tile of few registers has twenty a step. Measured on Zen 3 with 12
 * multiply-adds: 2 % when a core has its units to itself, 10 % when another thread shares them. */
int64_t steps_aside(int64_t extent, int64_t operations);
/* Writes that down for a sum along one dim, in blocks of so many terms (-1: it has none). */
void step_lines(Scheduling *s, Kernel *kernel, int pos, int64_t block, int64_t operations,
                Line *unroll);
/* The reduced dim, not `group`, for each index of which products of two others have one factor, a
 * scale; or -1. */
int factor_dim(const Map *m, int group);
/* Rows of a tile where the run counts them: most often they are a multiple of that. */
enum { OPEN_ROWS = 8 };
/* Rows of a tile at most; a divisor of the extent if one is near, else nearly equal tiles. */
enum { ROWS_MOST = 14 };
int64_t equal_tiles(int64_t extent, int64_t most);
int64_t matrix_chunk(int64_t extent, int64_t step, int64_t most);
int64_t matrix_tiles(int64_t extent, int64_t size, int64_t others, int64_t room);
/* Rows of a tile whose sums registers hold, beside a row of lanes in so many vectors. */
int64_t rows_held(const Machine *machine, const Map *m, int64_t vectors);
/* Sets of the innermost cache that lines so many bytes apart fall into, before they come round. */
int64_t cache_sets(int64_t bytes);
/* At most `most` rows along dim `row`: as many as whose lines do not push one another out, where
 * rows lie whole pages apart. */
int64_t rows_apart(const Flow *flow, const Map *m, int row, int64_t most);
/* Rows, so many bytes of them, that panels pass: as many as the inner cache holds meanwhile, of a
 * block that is not too small. */
double rows_near(const Machine *machine, double bytes, double rows);
/* Bytes of rows that are read again from behind the inner cache for each of so many panels; 0 where
 * it holds them, and where they are better cut into blocks: `weights`, the bytes of all panels,
 * stay there or, read again for each block, are half as many. */
double rows_again(const Machine *machine, double bytes, double rows, double panels, double weights);
double read_bytes(const Flow *flow, const Map *m, const Access *read);
bool strips_alone(const Scheduling *s, const Kernel *kernel, int at);
bool worth_threads(const Scheduling *s, const Kernel *kernel);

/* Kernels over rows: the outer dims that all maps of a kernel have in common. */
typedef struct Rows {
    Scheduling *s;
    Kernel *kernel;
    const Map *root;
    Alignment al;
    bool outer[MAP_DIMS]; /* by root dim */
    int block;            /* root dim that runs in blocks, or -1 */
    int64_t rows, hold;   /* of a block; of those registers hold the sums of so many at once */
    bool tiles;           /* they fill tiles */
    bool columns;         /* lanes run along the block's dim, a row in each */
} Rows;
Rows rows_of(Scheduling *s, Kernel *kernel);
/* Is map dim `own` of position p one of the outer dims? */
bool rows_outer(const Rows *r, int p, int own);
/* Bytes of what map p hands on in one task; -1 when not constant. */
int64_t rows_bytes(const Rows *r, int p, bool *scalar);
/* A line with the outer dims, in tiles of one index. */
void rows_line(Rows *r, LineKind kind, int pos);
/* Dims of the map in the order of the write's storage, outermost first: by descending stride. */
int storage_order(const Scheduling *s, const Map *map, int *order);

/* schedule_parts.c: a product in parts, what adds these up, and an epilogue; false: it is none. */
bool schedule_parts(Scheduling *s, Kernel *kernel);

/* schedule_blocks.c: for a machine of blocks of threads. */
void schedule_blocks(Scheduling *s, Kernel *kernel);
/* schedule_ranges.c: what the first range of a kernel's rows is planned for. The flow's kernel
 * number `at`, which is scheduled for that, for others; gives how many were put in front of it. */
int64_t ranges_first(const Scheduling *s, const Kernel *kernel);
int schedule_ranges(Scheduling *s, int at);

/* Do so many neighbours along the map's dim lie side by side, on a boundary, or are they one? */
bool lies_wide(const Rows *r, const Map *m, const Access *a, int dim, int64_t lanes);
/* Bits of the widest element that a map reads, or without a combine writes, along its dim: among
 * accesses that use most of its dims, since these move most. */
int64_t widest(const Rows *r, const Map *m, int dim);
/* False when threads of several rows would wait for each other: what is handed on is not in
 * registers. */
bool keep_handed_on(Rows *r);
/* Blocks of one index of the outer dims; of several neighbours along the last of these, a warp
 * each, where there are many. */
void row_lines(Rows *r, bool warps);
/* schedule_groups.c: threads share rows of two dims; false when no map has such. */
bool group_rows(Rows *r);

/* schedule_prologue.c: results of a block of such a product of one row that it makes the row for,
 * and the two dims that have more than one index; 0: it is none, or has too many results. */
int64_t prologue_columns(const Machine *machine, const Map *m, int *result, int *reduced);
/* A product of one row behind the maps that make it; false: the kernel is none. */
bool prologue_tiles(Rows *r);
/* Lines of neighbours along a dim that a thread takes at once, and of steps written out. */
void along_lines(const Rows *r, int pos, int dim, int64_t lanes, bool unroll);
/* Neighbours that a thread takes: at most so many of the narrowest type as one instruction fetches,
 * if all that the map reads and writes lies so. */
int64_t row_lanes(const Rows *r, const Map *m, int dim, int64_t most);

/* schedule_prefetch.c: rows that blocks of so many threads ask for ahead, if they should; `dim`: by
 * position, the one that they share. */
void ahead_lines(const Rows *r, const int *dim, int64_t threads);
/* Where a thread reads so many elements of weights for a reduction, written out, and they are not
 * too many for its registers, it loads them before all else. */
void first_lines(const Rows *r, int pos, int64_t each);

/* What a map hands on to the same thread stays in its registers. */
void keep_in_registers(Rows *r);

/* schedule_stage.c: a contraction in register tiles, its operands staged. dims: those of the
 * results, the last is stored innermost. False when the kernel is not of that shape. */
bool stage_tiles(Rows *r, const int *dims, int n);
/* schedule_warps.c: the same by steps of warps, where the machine has one for the types. */
bool step_tiles(Rows *r, const int *dims, int n);
/* The machine's first step for what the map sums: products of two reads, each rounded or converted
 * as the step does; sets the Vals of both reads. NULL: there is none. */
const WarpStep *product_step(const Machine *machine, const Map *m, int *x, int *y);
/* What products by steps of warps copy to shared memory at once. */
enum { PIECE_BYTES = 16 };
/* A product of matrices, `batch` times, by steps of warps: about how long it takes in the tiles
 * that take least; INFINITY: there are none. Its reduction may be any that PARTS_DEPTH divides. */
enum { PARTS_DEPTH = 64 };
typedef struct Product {
    const Machine *machine;
    const WarpStep *step;
    double batch, rows, columns, reduced;
    bool whole;      /* tiles divide the reduction */
    bool along;      /* what is reduced lies side by side in both operands */
    double epilogue; /* operations that make a result of each sum */
} Product;
double product_seconds(const Product *p);
/* What its operations take at least, all cores having as many. */
double product_bound(const Product *p);
/* What the map multiplies, by such a step; false when it is no product of matrices of known size.
 * Weights count as if they lay as steps want them: pass `layout` may see to that. */
bool product_sizes(const Flow *flow, const Machine *machine, const Map *m, const WarpStep *step,
                   Product *p);
/* The same for an element-wise map that reads across what it writes. */
bool stage_transposed(Rows *r, const int *dims, int n);
/* schedule_weigh.c: rows of scores that weigh rows of values, block by block of keys. */
bool weigh_tiles(Rows *r);

/* Does it multiply by steps of a machine's matrix units? Have both kernels, of the same maps, the
 * same lines? */
bool runs_by_steps(const Kernel *kernel);
bool same_lines(const Flow *flow, const Kernel *a, const Kernel *b);
/* The position of the kernel's only reduction, if at most its root stands behind it: maps in front
 * make strips for its windows, or copies near its tiles; -1: there is none. */
int only_reduction(const Scheduling *s, const Kernel *kernel);

/* schedule_merge.c: lines that join two dims of rows of the kernel's only reduction, the map at
 * position `at`; the kernel is then seen by flow_merged. */
bool merge_rows(Scheduling *s, Kernel *kernel, int at);
/* For one element-wise map: lines that join short rows. The flow that the kernel then sees, made in
 * `arena`. */
const Flow *merge_short(const Scheduling *s, Arena *arena, Kernel *kernel);

/* For threads that share rows: lines that join the innermost two dims of each map's rows, once. */
bool merge_inner(Rows *r);

/* schedule_tiled.c: one reduction, the map at position `at`, with register accumulators, and maybe
 * an element-wise root; maps in front make strips of what it reads. False when it cannot be. */
bool schedule_tiled(Scheduling *s, Kernel *kernel, int at);

/* schedule_strips.c: tiles of an image by way of products of matrices. False when it is not that.
 */
bool schedule_strips(Scheduling *s, Kernel *kernel);
/* schedule_quarters.c: products of matrices by quarters, so many pairs of rows in a strip at most.
 * False when it is not that. */
enum { STRIP_ROWS = 128, QUARTER_PRODUCTS = 7 };
bool schedule_quarters(Scheduling *s, Kernel *kernel);

/* schedule_check.c: refuses lines of a recipe that are not legal. */
void schedule_check(Scheduling *s, const Kernel *kernel);

/* schedule_rows.c: maps tied by outer dims, one block of rows a task. */
void schedule_rows(Scheduling *s, Kernel *kernel);

#endif
