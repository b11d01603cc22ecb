/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files of pass `schedule`. */
#ifndef WEIR_PASSES_SCHEDULE_H
#define WEIR_PASSES_SCHEDULE_H

#include "passes/access.h"

typedef struct Scheduling {
    Flow *flow;
    const PassEnv *env;
    IntVec *readers; /* by container: maps that read it */
    bool *held;      /* by container: read by a call or a region */
    bool *repeats;   /* by map: it stands in a loop */
} Scheduling;

int lanes_of(const Scheduling *s);
double lane_cost(const Scheduling *s, const Map *map, int dim, int lanes);
bool read_outside(const Scheduling *s, const Kernel *kernel, int cont);
bool folds(const Map *map, int dim);
int choose_lanes(const Scheduling *s, const Map *map, const bool *allowed);
void vector_line(Scheduling *s, Kernel *kernel, int pos, int dim);
bool worth_threads(const Scheduling *s, const Kernel *kernel);

/* schedule_merge.c: lines that join two dims of rows; the kernel is then seen by flow_merged. */
bool merge_rows(Scheduling *s, Kernel *kernel);

/* schedule_tiled.c: one reduction with register accumulators, and maybe an element-wise root. False
 * when the kernel is not of that shape. */
bool schedule_tiled(Scheduling *s, Kernel *kernel);

/* schedule_rows.c: maps tied by outer dims, one block of rows a task. */
void schedule_rows(Scheduling *s, Kernel *kernel);

#endif
