/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files of pass `clean`. */
#ifndef WEIR_PASSES_CLEAN_H
#define WEIR_PASSES_CLEAN_H

#include "passes/access.h"

/* Where a container is used: rebuilt after every round of edits. */
typedef struct Uses {
    int *writer;        /* by container: its only writing map, or -1 */
    IntVec *writers;    /* by container: all maps that write it */
    IntVec *readers;    /* by container: maps that read it */
    bool *held;         /* by container: used by a call or a region, or written by one */
    const Items **home; /* by map: the list it stands in */
} Uses;

typedef struct Cleaning {
    Arena *arena;
    Flow *flow;
    Uses uses;
    int changes;
} Cleaning;

void uses_count(Cleaning *c);

/* Replaces the body of a map by a rewritten one: `read` as body_inline has it; dims by subst. */
void map_rewrite(Cleaning *c, Map *m, const DimSubst *subst, int n, BodyReadFn *read, void *user);

/* A BodyReadFn: simplifies a read's index under the DimEnv that `user` points to (clean_split.c).
 */
int simplify_read(void *user, Body *b, const Val *read);

bool split_dims(Cleaning *c, Map *m);       /* clean_split.c */
bool inline_producer(Cleaning *c, int map); /* clean_views.c: into its readers */
bool forward_copy(Cleaning *c, int map);    /* clean_views.c: a copy's source is written in place */

#endif
