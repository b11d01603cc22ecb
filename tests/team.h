/* SPDX-License-Identifier: Apache-2.0 */
/* Threads that take turns, so that a barrier that is missing shows in every run and not by chance:
 * each works alone up to its next barrier, the last or the first of them first. What needs a
 * barrier and has none then reads what others have yet to write, or writes what they have yet to
 * read. A program that links team.c has its barriers in place of the runtime's. */
#ifndef WEIR_TEAM_H
#define WEIR_TEAM_H

#include <stdbool.h>

#include "runtime/weir_rt.h"

enum { TEAM = 3 };

typedef struct Team Team;
Team *team_new(bool last_first);
const weir_pool *team_pool(Team *team); /* for `create` */
bool team_met(const Team *team);        /* has every thread come to the same barriers so far? */
void team_free(Team *team);

#endif
