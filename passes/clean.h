/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files of pass `clean`. */
#ifndef WEIR_PASSES_CLEAN_H
#define WEIR_PASSES_CLEAN_H

#include "passes/compose.h"

void drop_empty(Editing *c);      /* clean_empty.c: maps over nothing */
bool assign_boxes(Editing *c);    /* clean_assign.c: calls that assign to slices */
void choose_by_sizes(Editing *c); /* clean_choice.c */
/* clean_choice.c: of the flow's symbols alone, none that a body or a loop counts? */
bool made_of_sizes(const Flow *flow, Dim d);
bool drop_constant_carries(Editing *c); /* clean_carry.c: what loops hand on as they got it */
bool split_shared(Editing *c, int map); /* clean_parts.c */
bool make_once(Editing *c, int map);    /* clean_repeat.c: sums that repeat along a dim */
/* clean_views.c: the Val a copy copies: one read of the container's own type, without else; -1 for
 * other maps. */
int copied(const Editing *c, const Map *m);
bool inline_view(Editing *c, int map);  /* clean_views.c: into its readers */
bool forward_copy(Editing *c, int map); /* clean_views.c: a copy's source is written in place */

#endif
