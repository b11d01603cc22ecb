/* SPDX-License-Identifier: Apache-2.0 */
/* What ends a compilation before it is done: somebody's wish, a time, an amount of memory. One is
 * shared by all threads of a compilation and outlives it. */
#ifndef WEIR_IR_STOP_H
#define WEIR_IR_STOP_H

#include <stdatomic.h>

#include "base.h"

typedef struct Stop {
    atomic_int wished;    /* may be set by any thread, or by a signal's handler */
    double seconds;       /* that it may take; 0: any */
    double deadline;      /* when they are over, of stop_clock */
    size_t memory;        /* bytes that it may take at a time; 0: any */
    atomic_size_t in_use; /* bytes of arenas now: known before they are touched */
    size_t before;        /* bytes of this process, without files, when it began */
    atomic_size_t tools;  /* bytes of the programs that run for it now */
    atomic_int over;      /* this process and its programs were seen with more than `memory` */
} Stop;

double stop_clock(void); /* seconds, of a clock that only goes forward */
/* From now on. A wish that came before counts. */
void stop_begin(Stop *stop, double seconds, size_t memory);
/* Whether work should end. NULL: never. For threads without a context. */
bool stop_now(const Stop *stop);
/* Looks at the memory of this process and of a program that runs for the compilation (0: of none
 * any more), which had `had` bytes when it was looked at last; what it has now. */
size_t stop_look(Stop *stop, int program, size_t had);
/* `fail` (E_CANCELLED, E_LIMIT) when it should; arenas ask when they grow, drivers at each step. */
void stop_check(Ctx *ctx);
/* The arenas of this context grow or shrink. `grow` comes before and fails when that is too much,
 * `note` after. */
void stop_grow(Ctx *ctx, size_t bytes);
void stop_note(Ctx *ctx, size_t bytes);
void stop_shrink(Ctx *ctx, size_t bytes);

#endif
