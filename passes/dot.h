/* SPDX-License-Identifier: Apache-2.0 */
/* Contractions that an instruction of the machine computes in groups: a map whose body is
 * cvt(a) * cvt(b), summed in the row's type, with a group of some reduced dim contiguous in a. */
#ifndef WEIR_PASSES_DOT_H
#define WEIR_PASSES_DOT_H

#include "passes/access.h"

/* Fewer rows are no work for tiles of them, nor fewer groups for a step. */
enum { MATRIX_ROWS_LEAST = 8, MATRIX_GROUPS_LEAST = 4 };

typedef struct Dot {
    const Instruction *row;
    int a, b; /* Vals that read the operands */
    int k;    /* the reduced dim that runs in groups */
    int lane; /* the dim only b has that runs in lanes */
} Dot;

/* Is m a sum of products of the types of some row, whatever it reads beyond its operands? */
bool dot_types(const Machine *machine, const Map *m);
/* How many reduced elements side by side the machine's step on tiles takes for such a sum, where
 * there may be rows to fill its tiles; 0: there is none. */
int64_t dot_depth(const Machine *machine, const Flow *flow, const Map *m);
/* FLOP a second of one core where products of a and b are summed, `side` elements of a stand side
 * by side, and there are so many rows; with fused multiply-adds of f32 if no instruction takes
 * them. */
double dot_flops(const Machine *machine, DType a, DType b, double rows, int64_t side);
/* Could m run on a row of the machine, were b stored in groups (layout_pack.c does it)? */
bool dot_possible(const Machine *machine, const Flow *flow, const Map *m, Dot *dot);
/* The same, were what it reads beyond its operands stored around them (layout_halo.c)? */
bool dot_with_margins(const Machine *machine, const Flow *flow, const Map *m, Dot *dot);
/* Could m, which reduces one dim, run on a row of the machine, were a's terms side by side? */
bool dot_apart(const Machine *machine, const Flow *flow, const Map *m, Dot *dot);
/* Does it, as its operands are stored now? */
bool dot_ready(const Machine *machine, const Flow *flow, const Map *m, Dot *dot);
/* Where each result has its own terms (windows of a channel each): could m run on a row that takes
 * a group of a for each lane, as a is stored now? */
bool dot_each(const Machine *machine, const Flow *flow, const Map *m, Dot *dot);
/* Is b stored in groups (which it is only where a has room for whole ones)? */
bool dot_each_ready(const Machine *machine, const Flow *flow, const Map *m, Dot *dot);
/* The machine's step on tiles of an instruction, or NULL. */
const MatrixStep *matrix_of(const Machine *machine, const char *instruction);
/* The same for a map that is ready: where b's lanes may be whole tiles and a
 * step's groups stand side by side in a, their number a multiple of a step's. Or NULL. */
const MatrixStep *dot_matrix(const Machine *machine, const Flow *flow, const Map *m,
                             const Dot *dot);
/* How many groups a step takes for such a map: as many as divide what is reduced and stand side by
 * side in a. 0: no step can. */
int64_t dot_groups(const Machine *machine, const Flow *flow, const Map *m, const Dot *dot);

#endif
