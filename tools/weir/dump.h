/* SPDX-License-Identifier: Apache-2.0 */
/* Stages in formats for other programs. */
#ifndef WEIR_TOOLS_DUMP_H
#define WEIR_TOOLS_DUMP_H

#include "passes/pass.h"

/* A graph's nodes and values; a flow's maps, calls and containers, kernels as clusters; of a
 * program, its flow. */
void dump_dot(Text *out, const Stage *stage);
/* One object: {"level": "graph" | "flow" | "nest", "name", ...}; a nest's loops are text. */
void dump_json(Text *out, const Stage *stage);

#endif
