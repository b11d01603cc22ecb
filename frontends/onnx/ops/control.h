/* SPDX-License-Identifier: Apache-2.0 */
/* What If, Loop and Scan share. */
#ifndef WEIR_FRONTENDS_ONNX_CONTROL_H
#define WEIR_FRONTENDS_ONNX_CONTROL_H

#include "nn.h"

/* The attribute `name`, which must be a graph; its inputs and results. */
Graph *control_body(Ctx *ctx, const Node *node, const char *name);
const Value *control_result(const Graph *g, int i);
Value *control_input(Graph *g, int i);
/* E_MODEL unless the body has as many inputs or results as it needs. */
void control_count(Ctx *ctx, const char *what, int have, int need);
/* E_UNSUPPORTED unless the value is a tensor. */
void control_tensor(const Infer *in, const Value *v);

/* The body's input gets a type; nothing is known of its elements. */
void control_set_type(Graph *g, int input, const Type *t);
/* E_UNSUPPORTED unless a carried value leaves an iteration with the type it entered with. */
void control_carried(const Infer *in, const Value *before, const Value *after);
/* Type of a result that stacks one slice per iteration along `axis`. */
void control_stacked(Infer *in, int result, const Type *slice, Dim trip, int axis);

/* The value of result i of lo->node lies in `from`: that container itself, where none was made. */
void control_bind(Lower *lo, int i, int from);
/* A container that an iteration reads and the next one finds changed; the caller sets `next`. */
int control_carry(Lower *lo, Item *loop, int init, const Value *like);

#endif
