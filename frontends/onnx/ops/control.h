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

/* An integer or bool operand, if all is known about it; -1 else. */
int64_t control_known(Ctx *ctx, const Graph *graph, const Node *node, int i);
/* The type of result i, a sequence or an optional, that may come from two places. A model that
 * declares a value where there may be none promises it. */
Type control_joined(Infer *in, int i, const Type *a, const Type *b);

/* The body's input gets a type; nothing is known of its elements. */
void control_set_type(Graph *g, int input, const Type *t);
/* E_UNSUPPORTED unless a carried value leaves an iteration with the type it entered with. */
void control_carried(const Infer *in, const Value *before, const Value *after);
/* Type of a result that stacks one slice per iteration along `axis`. */
void control_stacked(Infer *in, int result, const Type *slice, Dim trip, int axis);

/* Ends this inference: it begins anew when `rewrite` was done to `node`, of in->graph or one around
 * it; `why` is said where nobody does. */
_Noreturn void control_rewrite(const Infer *in, const Node *node, GraphRewrite *rewrite,
                               const char *why);
/* A loop's first iteration stands before the loop (peel.c). */
GraphRewrite loop_peel;
/* The loop in whose body in->graph is, where `value` comes from the iteration's number and the
 * first iteration has not been peeled off; NULL: none (loop.c). */
const Node *loop_to_peel(const Infer *in, int value);

/* Result i of lo->node; NULL when nobody reads it. */
const Value *control_bound(const Lower *lo, int i);
/* Writes the slice of iteration t to where results are stacked along `axis`. */
void control_stack(Lower *lo, int slice, int to, int axis, Dim t);
/* The value of result i of lo->node lies in `from`: that container itself, where none was made. */
void control_bind(Lower *lo, int i, int from);
/* A container that an iteration reads and the next one finds changed; the caller sets `next`. */
int control_carry(Lower *lo, Item *loop, int init, const Value *like);

#endif
