/* SPDX-License-Identifier: Apache-2.0 */
/* A text of any number of graphs, flows and nests, in this order or another. */
#ifndef WEIR_IR_FILE_H
#define WEIR_IR_FILE_H

#include "graph.h"
#include "nest.h"

typedef struct IrFile {
    VEC(Graph *) graph;
    VEC(Flow *) flow;
    VEC(Nest *) nest;
} IrFile;

/* `ops` may be NULL: then a graph's operators are unknown, an error. */
IrFile *ir_file_parse(Arena *arena, const OpTable *ops, const char *text);
void ir_file_print(Text *out, const IrFile *file);
void ir_file_verify(const IrFile *file);
/* The last flow with the nests named after its kernels; NULL when some kernel has no nest. Buffers
 * in memory are the containers of their names; E_VERIFY when there is none. */
Program *ir_file_program(Arena *arena, IrFile *file);

#endif
