/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files of pass `fuse`. */
#ifndef WEIR_PASSES_FUSE_H
#define WEIR_PASSES_FUSE_H

#include "passes/compose.h"
#include "passes/recipe.h"

enum { KERNEL_MAPS = 24 };
/* What an extent known only at run time counts as: among tasks, and along rows. */
static const int64_t fuse_unknown = 64, unknown_row = 1024;

/* fuse_inline.c: element-wise maps move into their readers. */
void fuse_inline(Arena *arena, Flow *flow, const PassEnv *env);
/* The last contraction that `map` reads, or element-wise maps in front of it that nobody else
 * reads: it may be its epilogue. Not by way of container `not`. -1: none. */
int last_contraction(const Editing *e, int map, int not );
/* fuse_pieces.c: maps that make pieces of a container move into the one that reads it. */
void fuse_pieces(Editing *e, const PassEnv *env);
/* Does `copy` do nothing but put the container in another order? */
bool turned_copy(const Map *copy, int cont);
/* Does it, where what `made` computes in it is too long for elements to be turned in registers as
 * they are made? */
bool turned_behind(const Map *made, const Map *copy, int cont);

/* ---- groups of maps: what becomes kernels (fuse.c) --------------------------------------------
 */

typedef struct Group {
    IntVec map;
    const Items *home; /* all maps of a group stand in one list */
    int last;          /* position of its last map in program order */
    bool gone;
    bool complete; /* nothing else joins it */
} Group;

typedef struct Fusing {
    Arena *arena;
    Flow *flow;
    const PassEnv *env;
    Group *group;  /* one per map to begin with */
    int *group_of; /* by map */
    int *position; /* by map: program order */
    const Items **home;
    int *writer; /* by container: its only writing map, or -1 */
    IntVec *
        readers; /* by container: maps that read it; -1 stands for a call, a region or the caller */
    int next;
} Fusing;

int sinking_past(const Fusing *f, const Group *g, const Group *into, int *at);
void groups_join(Fusing *f, Group *g, Group *into);
/* Does the read leave its container behind the ends of rows alone, which it runs over by dims of
 * their own? Not of what `maker` sums up: registers hold tiles of that, and a tile may end within.
 */
bool continues_rows(const Map *maker, const Map *m, const Access *read);
/* fuse_recipe.c: the kernels of a recipe; what may not be one is refused. */
void groups_by_recipe(Fusing *f);

/* fuse_rows.c: should the maps of g and into be one kernel over rows? `between`: bytes of the
 * containers that then need no memory. */
typedef struct RowsJoin {
    const IntVec *g, *into;
    double between;
} RowsJoin;
bool rows_join(Arena *arena, const Flow *flow, const Machine *machine, const RowsJoin *join);

/* fuse_strips.c: the maps of a kernel in strips, its root the last; false: it is none. `apart`: the
 * first may have a kernel of its own. Of those: should each strip make the rows that it multiplies?
 * All of them would come back from memory, and strips are many. */
enum { STRIP_MAPS = 5 };
typedef struct StripMaps {
    int n, map[STRIP_MAPS];
    bool apart;
} StripMaps;
bool strip_maps(const Flow *flow, const int *writer, const IntVec *readers, int root,
                StripMaps *out);
bool strip_makes_rows(const Flow *flow, const Machine *machine, const StripMaps *maps);

/* fuse_prologue.c: a row that a few products of one row read is made for each of them apart. Joins
 * what makes the row of the product that a root ends, if it is one. */
void copy_prologues(Arena *arena, Flow *flow, const Machine *machine);
void join_prologue(Fusing *f, int root);

/* fuse_weigh.c: joins what makes the rows that a root weighs values by, if it is one. */
void join_weighing(Fusing *f, int root);

/* A contraction, or a reduction over windows: wants register tiles of its own. */
bool wants_tiles(const Flow *flow, const Map *m);
/* One write, each of whose indices is a dim or a constant? */
bool plain_writes(const Map *m);

#endif
