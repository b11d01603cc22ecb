/* SPDX-License-Identifier: Apache-2.0 */
/* What printer, parser and verifier of graphs share. */
#ifndef WEIR_IR_GRAPH_TEXT_H
#define WEIR_IR_GRAPH_TEXT_H

#include "graph.h"
#include "print.h"

/* Params of at most so many elements are written out: shapes, axes and scales, which inference
 * needs. Larger ones are weights, and texts carry none. */
enum { PARAM_SHOWN = 64 };

/* The symbol of a declared extent that importers do not know; only before types are inferred. */
#define DIM_UNKNOWN "unknown"

void graph_print_marked(Printer *p, const Graph *g);
/* One graph from a scanner that stands on its first word; leaves it after the last brace. */
struct Lex;
Graph *graph_scan(struct Lex *lex, const OpTable *ops, Graph *outer);

#endif
