/* SPDX-License-Identifier: Apache-2.0 */
/* Composing maps: what `clean` and `fuse` share (compose.c). */
#ifndef WEIR_PASSES_COMPOSE_H
#define WEIR_PASSES_COMPOSE_H

#include "passes/access.h"

/* Where a container is used: counted anew after every round of edits. */
typedef struct Uses {
    int *writer;        /* by container: its only writing map, or -1 */
    IntVec *writers;    /* by container: all maps that write it */
    IntVec *readers;    /* by container: maps that read it, once a read */
    bool *held;         /* by container: used by a call or a region, or written by one */
    int *asked;         /* by container: how often calls and regions take it */
    const Items **home; /* by map: the list it stands in */
} Uses;

typedef struct Editing {
    Arena *arena;
    Flow *flow;
    Uses uses;
    bool blocks; /* clean: is it for a machine of blocks of threads? */
} Editing;

/* Containers that a map or a call writes, once a write; of other items none. */
IntVec item_writes(Arena *arena, const Flow *flow, const Item *it);

enum { BODY_MAX = 256 }; /* Vals of a composed body, at most */

void uses_count(Editing *e);
/* Drops writes, maps and calls whose results nobody reads, compacts the flow's table and counts
 * uses. */
void drop_unneeded(Editing *e);

/* a op b of whole numbers, for sums, differences and products; NULL: another op, an operand is
 * NULL, or it leaves 64 bits. */
Dim dim_computed(Ctx *ctx, Prim op, Dim a, Dim b);
/* A symbol for a loop, `name` and a number from `from` on, that no symbol of the flow and no dim of
 * a map is. */
Dim loop_var(const Flow *flow, const char *name, int from);
/* The map again, behind `into`: dims, writes and constraints are its own, the body is shared until
 * map_rewrite. */
Map *map_again(Editing *e, const Map *m, Items *into);
/* Replaces the body of a map by a rewritten one: `read` as body_inline has it; dims by subst. */
void map_rewrite(Editing *e, Map *m, const DimSubst *subst, int n, BodyReadFn *read, void *user);
/* A BodyReadFn: simplifies a read's index under the DimEnv that `user` points to. */
int simplify_read(void *user, Body *b, const Val *read);

/* A BodyReadFn: reads of `cont` become reads of `other`, at the same indices. */
typedef struct Instead {
    int cont, other;
} Instead;
int read_other(void *user, Body *b, const Val *read);

/* dims.c: dims of extent 1 go, dims that accesses divide are split; false: nothing changed. */
bool split_dims(Editing *c, Map *m);
/* Of all MAP_DIMS those that are chosen, and what they are split into. */
bool split_chosen(Editing *c, Map *m, const bool *chosen);
/* Makes one of two dims that all accesses know as one alone, as views that merge axes leave them,
 * of a map with a plain write; false: there are none. */
bool join_dims(Editing *c, Map *m);

/* The one plain write of a map without sequential dims, or NULL. */
const Access *map_plain_write(const Map *m);
/* Is every dim of the written container one dim of the map, over its whole extent? */
bool writes_whole(const Flow *flow, const Map *m, const Access *to);
/* The dims that `at` joins to one index, the innermost first: each times the extents of those
 * before it. Their number; 0: it is no such index. */
int joined_digits(const Flow *flow, const Map *m, Dim at, int *digit);
/* The same of two dims. */
bool joined_dims(const Flow *flow, const Map *m, Dim at, int *outer, int *inner);
/* The same as writes_whole, or with dims that are joined. */
bool writes_joined(const Flow *flow, const Map *m, const Access *to);
/* Does every read of the container meet each of its elements once, none outside? */
bool reads_once(const Map *m, int cont);
/* The same, where dims may be joined to one index. */
bool reads_joined(const Flow *flow, const Map *m, int cont);
/* How many of its values are read there. */
int reads_of(const Map *m, int cont);
/* Puts the producer's body in place of the reader's reads of what it writes at `to`. Constraints of
 * the producer need not be kept: the reader reads nothing outside of them. */
void compose_map(Editing *e, const Map *producer, const Access *to, Map *reader);

#endif
