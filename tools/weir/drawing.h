/* SPDX-License-Identifier: Apache-2.0 */
/* A stage as nodes and edges to look at: what `dump --format html` and `svg` draw.
 *
 * Of a graph, the nodes are its operators; of a flow, its maps and calls, gathered by kernel once
 * there are kernels. Inputs and outputs of the model are nodes too, weights are not. An edge is a
 * value that one node makes and another takes, as wide as its bytes. */
#ifndef WEIR_TOOLS_DRAWING_H
#define WEIR_TOOLS_DRAWING_H

#include "passes/pass.h"
#include "tools/weir/engine.h"

typedef struct DrawNode {
    const char *name;  /* of the node or map, as the text has it; edges and links know it by this */
    const char *label; /* what it does: the operator; the map's domain */
    const char *kind;  /* in, out, op, map, call */
    const char *class; /* contraction, reduction, element-wise, movement; "" of others */
    const char *look;  /* what a map computes, without names: equal for equal work; else NULL */
    const char *from;  /* source nodes */
    int group;         /* position in Drawing.group; -1 */
    double flop, weight_bytes;
    int times;        /* folded: how many alike it stands for */
    float x, y, w, h; /* centre and size in points, y downwards: drawing_layout */
} DrawNode;

typedef struct DrawEdge {
    int from, to; /* nodes */
    const char *what;
    double bytes;
    bool again; /* folded: leads to the next of the repeats */
    int npoint; /* of the curve: drawing_layout; pieces of cubic Bézier curves, 3k+1 points */
    float *point;
} DrawEdge;

typedef struct Drawing {
    Arena *arena;
    VEC(DrawNode) node; /* in the order of the program */
    VEC(DrawEdge) edge;
    VEC(const char *) group; /* kernels */
    float width, height;
} Drawing;

/* The drawing of a stage; sizes of symbols as for movements(). */
Drawing *drawing_make(Arena *arena, const Stage *stage, const InputOptions *sizes);

/* Folds what repeats: a drawing with one of `times` equal stretches of `period` nodes, from node
 * `start` of `of` on; edges that run to another repeat show on the one that is left. NULL when
 * nothing worth folding repeats. Of several stretches all are folded, the longest first. */
typedef struct Fold {
    int start, period, times;
} Fold;
typedef VEC(Fold) Folds;
Folds drawing_folds(Arena *arena, const Drawing *of);
Drawing *drawing_fold(Arena *arena, const Drawing *of, const Folds *folds);

void drawing_sort(Drawing *d);           /* edges, by the nodes they join */
const char *draw_tail(const char *name); /* the end of a name, which tells more */

/* Places for all nodes and edges of n drawings, by Graphviz. E_TOOLCHAIN when it is missing. */
void drawing_layout(Ctx *ctx, Drawing *const *drawing, int n);
void drawing_svg(Text *out, const Drawing *drawing);

#endif
