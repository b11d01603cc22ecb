/* SPDX-License-Identifier: Apache-2.0 */
/* Inside the flow verifier: flow_verify.c walks, flow_verify_access.c proves, flow_verify_kernel.c
 * checks schedules, flow_verify_order.c when sizes are known. */
#ifndef WEIR_IR_FLOW_VERIFY_H
#define WEIR_IR_FLOW_VERIFY_H

#include "flow_text.h"
#include "poly.h"
#include "verify.h"

/* A loop or a branch around a map. */
typedef struct Around {
    const Item *item;
    bool other; /* ITEM_IF: in `else` */
} Around;

/* One access of a map as a relation, or a whole container (calls, carries: map NULL). */
typedef struct Use {
    const Map *map;
    const Access *access; /* NULL: the whole container */
    const void *object;   /* Write or Val, for the mark */
    const Item *item;     /* when there is no map */
    int cont, position;   /* in program order */
    int naround;
    const Around *around;
    bool clip;    /* a read with `else` */
    bool data;    /* an index depends on data */
    bool plain;   /* a write without combine */
    bool reduces; /* a write with one */
    bool seq;     /* of a map with a seq dim */
} Use;

typedef struct FlowVerify {
    Verify v; /* first */
    const Flow *flow;
    DimEnv generic; /* symbols at sizes where an edge case is no excuse: see flow_verify_access.c */
    VEC(Use) read, write;
    VEC(Around) around;
    int position;
    const Map *map;  /* being walked */
    int *seen;       /* by map: times met */
    DimRange *range; /* by container: its values, when has_range */
} FlowVerify;

void verify_bounds(FlowVerify *f, const Map *map, const Use *use);
void verify_writes(FlowVerify *f);   /* single assignment */
void verify_coverage(FlowVerify *f); /* what is read or output is written */
void verify_kernels(FlowVerify *f);
void verify_order(FlowVerify *f); /* sizes that data decide are defined in time, and once */

#endif
