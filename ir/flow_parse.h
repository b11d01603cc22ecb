/* SPDX-License-Identifier: Apache-2.0 */
/* Inside the flow parser: shared by flow_parse.c and flow_parse_kernel.c. */
#ifndef WEIR_IR_FLOW_PARSE_H
#define WEIR_IR_FLOW_PARSE_H

#include "flow_text.h"
#include "parse.h"

typedef struct FlowScan {
    Lex *lex;
    Flow *flow;
    Arena *arena;
    Table *conts, *maps;   /* name -> number + 1 */
    VEC(Dim) loop;         /* variables of loops met so far */
    const Cont *layout_of; /* while its layout is read: names stand for its dims */
    const char *layout_name[RANK_MAX];
    Map *map; /* while its body is read */
} FlowScan;

int scan_cont(FlowScan *s);                 /* a container's name */
Dim scan_sym(void *user, const char *name); /* DimNameFn: dims of the map, loops, symbols */
void scan_kernel(FlowScan *s);              /* after `kernel` */

/* One flow from a scanner that stands on its first word; leaves it after the last brace. */
Flow *flow_scan(Lex *lex);

#endif
