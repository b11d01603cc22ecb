/* SPDX-License-Identifier: Apache-2.0 */
/* Where the calls of a model for a GPU run, and what it leaves to the host: for report and dump. */
#ifndef WEIR_TOOLS_HOST_WORK_H
#define WEIR_TOOLS_HOST_WORK_H

#include "ir/flow.h"

typedef struct CallWork {
    const CallRow *row;
    bool device;
    int times;
} CallWork;

typedef struct HostWork {
    VEC(CallWork) call;
    int decisions; /* loops and branches that a value decides, which is read back */
} HostWork;

HostWork host_work(Arena *arena, const Flow *flow);
/* A line each, with `before` in front of it. */
void host_work_text(Text *out, const HostWork *work, const char *before);
/* Members of an object that others stand in front of. */
void host_work_json(Text *out, const HostWork *work);

#endif
