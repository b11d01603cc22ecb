/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the Flow evaluator share: containers with their tensors, bound symbols. */
#ifndef WEIR_IR_FLOW_EVAL_H
#define WEIR_IR_FLOW_EVAL_H

#include "dim_code.h"
#include "eval.h"

typedef struct Binding {
    Dim sym;
    int64_t value;
} Binding;

typedef struct Eval {
    Ctx *ctx;
    Arena *arena; /* results and what lives as long as they */
    const Flow *flow;
    int threads;
    Tensor *cont;  /* by container; data NULL while it has none */
    Arena **own;   /* by container: the arena of its data, when it is a temporary */
    int64_t *room; /* by container: bytes allocated */
    bool storage;  /* tensors lie as their layouts and their places say (nests), else dense */
    char *memory;  /* storage: the one arena; NULL when its size is known later than it begins */
    VEC(Binding) binding;
    void *objects; /* what handles name: made on first use */
    Table *bound;  /* symbol -> its number in `binding`, plus 1 */
} Eval;

/* The containers and symbols of a flow before anything ran: inputs and constants are there. */
void eval_check_asked(Eval *e); /* E_INPUT */
Eval *eval_new(Arena *arena, const Flow *flow, const Tensor *in, int threads, bool storage);
void eval_bind(Eval *e, Dim sym, int64_t value);
void eval_unbind(Eval *e, Dim sym);
bool eval_symbol(void *eval, Dim sym, int64_t *value); /* a DimValueFn */
int64_t eval_dim(Eval *e, Dim d);                      /* E_VERIFY when a symbol has no value */
/* A result as callers get it: what handles name instead of them. */
void eval_give(Eval *e, int cont, Tensor *t);
/* Gives a container that is about to be written its data: as it is when its dims are unchanged; a
 * change of dim 0 alone keeps the elements. */
Tensor *eval_make(Eval *e, int cont);
/* The dims a container has now. */
void eval_shape(Eval *e, int cont, int64_t *dim);
/* A container that is read: E_VERIFY when nothing wrote it. */
const Tensor *eval_tensor(Eval *e, int cont);
void eval_map(Eval *e, const Map *map); /* flow_eval_map.c */
bool eval_true(Eval *e, int cont);      /* of a bool scalar */
/* Runs items in order; maps through `map` (another evaluator's way to run them), or eval_map. */
typedef void EvalMapFn(void *user, Eval *e, int map);
void eval_items(Eval *e, const Items *items, EvalMapFn *map, void *user);

#endif
