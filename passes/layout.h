/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files of pass `layout`. */
#ifndef WEIR_PASSES_LAYOUT_H
#define WEIR_PASSES_LAYOUT_H

#include "passes/access.h"
#include "passes/dot.h"
#include "passes/recipe.h"

/* A convolution in groups of few channels, with a dim each for groups and channels, or [1] one. */
typedef struct Groups {
    int map;
    Map *form[2];
} Groups;

typedef struct Layouts {
    Arena *arena;
    Flow *flow;
    const PassEnv *env;
    int lanes;
    int *writer;     /* by container, as flow_writers */
    IntVec *readers; /* by container: maps that read it */
    IntVec *writers; /* by container: maps that write it */
    bool *held;      /* by container: used by a call or a region */
    bool *plain;     /* by container, of the first `chosen`: stays as it is */
    int chosen;
    int64_t *width; /* by container: channels of a block, if it is stored in blocks */
    VEC(Groups) groups;
} Layouts;

void layouts_survey(Layouts *l);

/* layout_widen.c: halves that contractions read one by one are kept in f32. */
void layout_widen(Layouts *l);

/* layout_block.c: which containers are stored in blocks of channels: first the choice, then, of
 * those that are there by then, the layouts. */
void layout_choose(Layouts *l);
void layout_blocks(Layouts *l);
/* By container: the dim of its channels where it may be stored another way, or -1. */
int *layout_channels(Layouts *l);
/* By container that has one: the least container of those that its maps tie it to; else -1. */
int *layout_regions(const Layouts *l, const int *channel);
/* layout_groups.c: convolutions in groups of few channels; all in one form; each in its own, by
 * container that is stored in blocks of lanes. */
void layout_find_groups(Layouts *l);
void layout_show_groups(Layouts *l, bool joined);
void layout_settle_groups(Layouts *l, const bool *blocked);
/* layout_last.c: on a machine of blocks of threads, channels of images innermost. */
void layout_last(Layouts *l);
/* Weights that a map reads so are stored with index k innermost, the others in their order. */
void layout_turn_weights(Layouts *l, Access *weights, int k);
/* layout_rows.c: there, weights with each result's terms side by side, where products gain by it.
 */
void layout_rows(Layouts *l);

/* layout_halo.c: reads beyond the box become reads of a margin that holds the value. */
void layout_halos(Layouts *l);
/* layout_pack.c: weights of contractions in panels of lanes; other operands copied so that lanes
 * run. */
void layout_packs(Layouts *l);
/* Map number `map` reads a copy of the container, in which index n is stored innermost, wherever
 * that index is `lane`. */
void layout_lane_last(Layouts *l, int map, int cont, int n, Dim lane);
/* Map number `map` writes a copy so stored of its only result, whose whole a map behind puts in its
 * place. */
void layout_result_last(Layouts *l, int map, int n);
/* Puts items in front of map number `map`, or behind it. */
void layout_insert(Layouts *l, int map, bool after, const Items *made);
/* layout_dot.c: operands of a contraction that an instruction computes in groups of terms. Rows of
 * the first that a short group ends are stored with room for a whole one ... */
void layout_widen_rows(Layouts *l, const Map *m, const Dot *dot);
/* ... or those of an image from which each lane takes groups; false: they cannot be. */
bool layout_widen_image(Layouts *l, const Map *m, const Dot *dot);
/* The second, a temporary that only map number `map` reads, is stored in groups right away: (..,
 * k/G, lane, k%G), terms of both continued by zeros where they are no whole number of groups. Or
 * false. */
bool layout_result_groups(Layouts *l, int map, const Dot *dot);
/* The first operand, whose terms lie apart, is copied with them side by side, if that gains. */
bool layout_copy_terms(Layouts *l, int map, const Dot *dot);
/* The second is copied in groups, if that gains. */
bool layout_copy_groups(Layouts *l, int map, const Dot *dot);
/* layout_near.c: operands whose terms lie on a page each, copied tile by tile. */
void layout_nears(Layouts *l);
/* layout_gather.c: operands that data picks places of, copied so that lanes run beside them. */
void layout_gathers(Layouts *l);
/* The container of the same weights as `like` sees them: number `cont` itself when one map reads
 * it. */
int layout_weights(Layouts *l, int cont, const Cont *like);

#endif
