/* SPDX-License-Identifier: Apache-2.0 */
/* What follows from weights alone: computed where it is read, or in the constant part. */
#ifndef WEIR_PASSES_PREPARE_H
#define WEIR_PASSES_PREPARE_H

#include "passes/access.h"

/* Maps of more iterations are not computed when compiling. */
enum { CONSTANT_VOLUME = 1 << 29 };
/* So many bytes a pass may add to a model's weights in all, for speed. */
static const double growth_most = 0x1p31;

/* constants_codes.c: what a contraction reads of decoded weights is computed there. */
void constants_decode(Arena *arena, Flow *flow, const PassEnv *env);

/* By container: is it a weight, or will constants.c make it one? */
bool *constants_weights(Arena *arena, Flow *flow, const PassEnv *env);

/* A flow of these maps alone: what they write are its outputs. */
Flow *constant_part(Arena *arena, const Flow *flow, const int *maps, int n);
/* The weight as the model gives it, a parameter of the part: what `c` of the flow stands for. */
int constant_part_weight(Flow *part, const Cont *c);

#endif
