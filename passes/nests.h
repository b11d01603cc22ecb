/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files of the lowering Flow + schedule -> Nest (nests.c, nests_plan.c,
 * nests_leaf.c). */
#ifndef WEIR_PASSES_NESTS_H
#define WEIR_PASSES_NESTS_H

#include "passes/access.h"

/* The values start .. start+extent-1 of a dim. cap is a constant upper bound of extent (it sizes
 * registers and unrolled loops; extent < cap runs masked), or -1 when there is none. */
typedef struct Span {
    Dim start, extent;
    int64_t cap;
} Span;

typedef struct TileLoop {
    int dim;
    int64_t size;
    LoopMark mark; /* LOOP_PARALLEL, LOOP_BLOCK or LOOP_THREAD when it is opened in front */
} TileLoop;
typedef VEC(TileLoop) TileLoops;

/* Dims joined to one, outermost first, in tiles of a block and, of results, of a warp. `round`: of
 * all blocks at a time, which then stay and take a tile of each round; 0: each has one tile. */
typedef struct JoinedDims {
    int n, dim[RANK_MAX * 2];
    int64_t block, warp, round;
} JoinedDims;

/* What a kernel's lines say about one of its maps. */
typedef struct MapPlan {
    const Map *map;
    int depth;           /* runs inside this many of the root's tile loops */
    int lane_dim, lanes; /* `vector`; -1, 1: none */
    int spread;          /* threads of a block that share the lane dim, each its lanes; 0: none */
    int groups, among; /* groups of such threads share the indices of dim `among`, or, where that is
                          -1, each do all; 0: all are one */
    bool written_out;  /* of a group, what it takes of `among` one after the other */
    bool unroll[RANK_MAX * 2], skip[RANK_MAX * 2];
    int prefetch;     /* container whose next panel is fetched ahead, or -1 */
    VEC(int) first;   /* containers that threads load what they read of before all else */
    int split, parts; /* this dim is reduced in parts, a thread each; parts 0: it is not */
    int partial;      /* this dim is reduced block by block, each merged into a total ... */
    int64_t block;    /* ... of so many indices; 0: it is not */
    bool factored;    /* factors that only `partial` enters multiply what is merged */
    VEC(int) stage;   /* containers whose tile a block copies to shared memory */
    int ahead;        /* so many blocks before they are used */
    int fetch;        /* the dim of whose blocks `prefetch` is fetched at once, or -1 */
    const char *use;  /* by steps on tiles, or NULL; of a warp by these: */
    JoinedDims rows, columns, reduced;
    TileLoops tile;   /* own tiles; of the root: all its tile loops */
    TileLoops reduce; /* reduction loops, outermost first; size 0: the whole dim (or block) */
} MapPlan;

/* Where a container written inside the kernel lives. */
typedef struct Local {
    int buf; /* nest buffer; -1: in memory */
    int rank;
    Dim origin[RANK_MAX]; /* logical index of its first element */
    const Access *one;    /* the element at hand, whatever the index; or NULL */
    bool staged;          /* a copy in shared memory, with what stands outside the container */
    int lane_dim;         /* container dim that is stored last; split by `lanes` in registers */
    int lanes;
} Local;

/* Of tasks whose tile may be cut short along several dims: for each dim full tiles and the last one
 * apart; those whose tiles are all full; those of any size. */
typedef enum { TILES_EACH, TILES_FULL, TILES_ANY } TaskTiles;

typedef struct Lowering {
    Arena *arena;
    Arena *scratch; /* what nobody needs once the kernel is lowered */
    Ctx *ctx;
    const Flow *flow;
    const Machine *machine;
    const Kernel *kernel;
    Nest *nest;
    VEC(DimRange) env; /* model symbols, region variables, loops in scope: outermost first */
    int nouter;        /* of these, symbols and region variables */
    int nplan;
    MapPlan *plan;       /* by position in the kernel; the last is the root */
    int *memory;         /* by container: nest buffer, or -1 */
    Local *local;        /* by container */
    const Storage *keep; /* by container: KEEP_ARENA when not kept */
    Alignment al;        /* of the maps' dims to the root's */
    int nparallel;       /* leading tile loops of the root that are open as parallel loops ... */
    Dim parallel[RANK_MAX * 2]; /* ... and their variables */
    TaskTiles tiles;            /* those that the code at hand is for */
    int fresh;
    const char *serial; /* `serial` */
    bool alternates;    /* `alternate` */
    /* nests_threads.c, for kernels with threads: */
    bool blocks;  /* threads own tiles, or share the lanes of maps */
    int threads;  /* that share lanes; 0: they own tiles */
    Dim thread;   /* the number of one, when they share lanes, in its group ... */
    Dim group;    /* ... and the group's, or NULL */
    Dim alike;    /* the number of one in the block, where groups do all the same; or NULL */
    bool staged;  /* threads that own tiles copy what they read together: */
    Dim number;   /* the number of one */
    int ncopying; /* how many they are */
    Span block[RANK_MAX * 2]; /* the block's tile of the root */
    int parts;                /* threads that each reduce a part for one tile, 0: one does all */
    Dim part;                 /* the number of a part */
    VEC(Dim) mine;            /* >= 0 where a thread has a tile, when there are parts */
    bool over[RANK_MAX * 2];  /* by dim of the root: blocks hang over its end */
    int ninside;              /* of env: what stands in blocks and threads begins here */
    Stmts shared;             /* declarations of shared arrays */
    const MapPlan *steps;     /* of the map that steps of warps compute, or NULL ... */
    const MapPlan *weighs;    /* ... and of one before, whose results it weighs values by */
} Lowering;

/* nests_plan.c */
void plan_kernel(Lowering *lo);
int plan_dim(const MapPlan *p, const char *name); /* which a line names */
/* The box of plan `pos` that its consumers in the kernel need when the root runs on `root`. */
void plan_box(Lowering *lo, int pos, const Span *root, Span *out);

/* nests.c: producers and loops from this depth on. */
void lower_depth(Lowering *lo, int depth, const Span *root, Stmts *into);

/* nests_fetch.c: asks for what the root reads besides sums on this tile. */
void fetch_besides(Lowering *lo, const Span *root, Stmts *into);

/* nests_threads.c: blocks and threads around all that. */
void lower_blocks(Lowering *lo, const Span *root);
/* nests_warps.c: the same for a kernel of steps of warps. */
void lower_warps(Lowering *lo);
/* nests_ahead.c: what threads do before all else; `depth` of the root's loops are open. */
void lower_ahead(Lowering *lo, const Span *root, int depth, Stmts *into);
/* nests_leaf.c: what the map reads of containers of `first` on one box. */
void leaf_loads(Lowering *lo, int pos, const Span *span, Stmts *into);
/* Where several threads come by with the same result, but one is enough. */
Stmts *one_thread(Lowering *lo, Stmts *into);
/* A barrier, when threads share lanes. */
void meet(Lowering *lo, Stmts *into);

/* nests_leaf.c: one map on one box. */
void leaf_map(Lowering *lo, int pos, const Span *span, Stmts *into);
/* nests_plan.c: the box that a read reaches into, tails as full tiles: its origin and size. */
void plan_read(Lowering *lo, const Map *m, const Span *span, const Access *read, Dim *origin,
               Dim *size);

/* nests.c: shared pieces */
DimEnv lowering_env(const Lowering *lo);
Dim lowering_simplify(const Lowering *lo, Dim d);
Dim lowering_var(Lowering *lo, const char *base, Dim extent); /* a loop variable, now in scope */
void lowering_pop(Lowering *lo);                              /* out of scope again */

typedef void TileFn(Lowering *lo, void *user, Span tile, Stmts *into);
/* What is left of a dim whose size the run knows is one shorter tile; single indices; tiles of 4
 * and one of what is left of these; or one of its very size, where that is not more than 7. */
typedef enum { TAIL_ANY, TAIL_SINGLE, TAIL_NEAR, TAIL_EXACT } TailForm;
/* Cuts `span` into tiles of `size`: full tiles in a loop, a constant tail as a body of its own; a
 * symbolic tail as masked chunks (lanes > 1), or as `tail` says. */
typedef struct Tiling {
    const char *name;
    int64_t size;
    Dim tile; /* the number of the tile, when a parallel loop has it already; else NULL ... */
    TaskTiles tiles; /* ... and which of them it has */
    TailForm tail;
    int lanes;
} Tiling;
void for_tiles(Lowering *lo, Stmts *into, const Tiling *how, Span span, TileFn *fn, void *user);

/* Storage access of `logical` of a container: local or memory. */
Access lowering_access(Lowering *lo, int cont, const Dim *logical, bool store);

#endif
