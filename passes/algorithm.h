/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files of pass `algorithm`. */
#ifndef WEIR_PASSES_ALGORITHM_H
#define WEIR_PASSES_ALGORITHM_H

#include "passes/access.h"
#include "passes/recipe.h"

enum { WINDOW_TAPS = 3, TILE_MOST = 4, APART_MOST = 8 };

/* A convolution by a window in steps of 1, summed in f32: two dims of it have 3 taps and are done
 * in tiles; what slides along others (frames) are terms like channels, its results like images. */
typedef struct Window {
    int input, weights;     /* Vals of the body that read them */
    int slide[2];           /* dims of the result, and ... */
    int window[2];          /* ... the dims of the window that slides along them, ... */
    int64_t apart[2];       /* ... whose taps lie so many elements apart */
    DimRole role[MAP_DIMS]; /* of all dims; ROLE_OTHER for these four, ROLE_WINDOW for other taps */
} Window;

/* algorithm_cost.c: is it one? How large should its tiles be (2 or 4; 1: it stays as it is)? */
bool window_of(const Flow *flow, const Map *map, Window *win);
int choose_tile_size(const PassEnv *env, const Flow *flow, const Map *map, const Window *win);
/* May it be of this size: are its weights few enough to be transformed when compiling? */
bool may_tile(const Flow *flow, const Map *map, const Window *win, int m);

#endif
