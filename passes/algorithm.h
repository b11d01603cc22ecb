/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files of pass `algorithm`. */
#ifndef WEIR_PASSES_ALGORITHM_H
#define WEIR_PASSES_ALGORITHM_H

#include "passes/compose.h"
#include "passes/recipe.h"

/* Taps of a window along a dim; elements of a tile along it; how far apart taps may lie. */
enum { TAPS_MOST = 7, POINTS_MOST = 8, APART_MOST = 64 };

/* A convolution by a window in steps of 1, summed in f32: one or two dims of it are done in tiles;
 * what slides along others (frames) are terms like channels, its results like images. */
typedef struct Window {
    int input, weights;     /* Vals of the body that read them */
    int first;              /* of the following: 0, or 1 where tiles lie along one dim alone */
    int slide[2];           /* dims of the result, and ... */
    int window[2];          /* ... the dims of the window that slides along them, ... */
    int64_t taps[2];        /* ... of so many taps (1: none does), ... */
    int64_t apart[2];       /* ... which lie so many elements apart */
    DimRole role[MAP_DIMS]; /* of all dims; ROLE_OTHER for these four, ROLE_WINDOW for other taps */
} Window;

/* algorithm_cost.c: is it one? How many elements should a tile of it have along each dim (even, the
 * points of its transforms; 0: it stays as it is)? Results are fewer by the taps but one. */
/* `weights`: by container, as constants_weights has it. */
bool window_of(const Flow *flow, const bool *weights, const Map *map, Window *win);
int choose_points(const PassEnv *env, const Flow *flow, const Map *map, const Window *win);
/* May it have so many: are there two results, its weights few enough to be transformed when
 * compiling? */
bool may_tile(const Flow *flow, const Map *map, const Window *win, int points);
/* Seconds for products beside which weights come from memory. */
double seconds_beside(double multiply, double read);
/* A sum in f32 of products of two reads, each f32 or converted to it, `a` of which is 0 outside. */
bool sums_products(const Map *map, const Contraction *c);

/* algorithm_tiles.c, algorithm_quarters.c: maps that take the map's place where that costs less;
 * false: it stays. */
bool rewrite_in_tiles(Flow *flow, const PassEnv *env, const bool *weights, const Map *map,
                      Items *into);
/* Where the run counts the rows, a choice takes its place, `item`: `body` makes the results of many
 * rows, `other` those of few, but in a container where several dims count the columns, the
 * product's dim `column`. follow_both makes it whole. */
enum { COLUMN_DIMS = 3 };
typedef struct ByRows {
    Item item; /* an ITEM_IF with items, or none */
    int few, column, n;
    Dim split[COLUMN_DIMS]; /* extents, outermost first */
} ByRows;
/* The model's weights, and how many bytes more they may become. */
typedef struct Weights {
    const bool *is; /* by container */
    double left;
} Weights;
bool rewrite_in_quarters(Flow *flow, const PassEnv *env, Weights *weights, const Map *map,
                         Items *into, ByRows *by);
/* algorithm_rows.c: `last` ends maps that weigh rows of values by rows of scores, and the run
 * counts the rows: a choice by their number stands in `into`, where the others stood before,
 * instead; false: it does not. */
bool rewrite_by_row(Editing *e, const PassEnv *env, int last, Items *into);
/* algorithm_follow.c: element-wise maps that continue the product at `at` of the items move into
 * both forms (gone, by item: they need not stand where they did), so that they share their
 * kernels. */
void follow_both(Editing *e, const Items *items, int at, bool *gone, ByRows *by);

/* ---- maps in a contraction's place (algorithm.c) ----------------------------------------------
 */

/* A map that is being made, with dims of the contraction `of` by their roles, and the indices and
 * the shape of a container that it is to access. */
typedef struct Making {
    Flow *flow;
    Items *into;
    const Map *of;
    const DimRole *role;
    DimSubst subst[MAP_DIMS]; /* dims of `of` -> dims of the map */
    int nsubst;
    Map *map;
    Dim at[RANK_MAX], shape[RANK_MAX];
    int rank;
} Making;

void making_map(Making *m, const char *what); /* begins one: no dims, no indices */
void making_index(Making *m, Dim at, Dim extent);
/* A dim of the contraction becomes a dim of the map, and an index; all dims of a role do. */
void making_dim(Making *m, int d);
void making_dims(Making *m, DimRole role);
int making_cont(const Making *m, const char *what); /* f32, of the shape collected */
/* The indices of an access of the contraction in the map; `more` substitutions stand behind those
 * of its dims. */
void making_at(const Making *m, const Access *a, int more, Dim *at);
/* Val `value` is what the contraction wrote: the map writes it there. */
void making_result(Making *m, int value);
/* `cont`, the container that was made last, which the map just made writes; or what an equal map of
 * the same list writes: then that one stands for both. */
int making_once(Making *m, int cont);
/* A choice: its `body` where there are so many rows, or more. */
Item choice_of_rows(const Flow *flow, Dim rows, int64_t least, const char *from);
/* Are the rows that the run counts never fewer than so many? */
bool always_many(const Flow *flow, Dim rows, int64_t least);

#endif
