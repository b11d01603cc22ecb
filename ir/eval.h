/* SPDX-License-Identifier: Apache-2.0 */
/* What a Flow means: the reference evaluator, and what it asks of the runtime. */
#ifndef WEIR_IR_EVAL_H
#define WEIR_IR_EVAL_H

#include "flow.h"

typedef struct Tensor {
    DType type;
    int rank;
    int64_t dim[RANK_MAX];
    void *data; /* dense, packed; of what a caller gives and gets: weir_string, weir_value */
} Tensor;
int64_t tensor_count(const Tensor *t);

/* One call while it is evaluated: `in` and `out` are dense (data NULL: absent). Dims of `out` that
 * depend on data hold their upper bounds and data has room for them. The function fills `out` and
 * `define`, or gives a reason and false. */
typedef struct CallArgs {
    const CallRow *row;
    Arena *arena;  /* for scratch */
    void *objects; /* what handles name */
    int nin, nout, nattr, ndefine;
    const Tensor *in;
    Tensor *out;
    const int64_t *attr;
    int64_t *define;
    const char *reason;
} CallArgs;

/* What the evaluators need of the runtime; whoever links it sets Ctx.runtime. `objects` makes the
 * table behind handles, freed with the arena; `take` turns a caller's weir_strings or weir_value
 * into handles, `give` does the reverse. They return NULL or what is wrong. */
typedef struct RuntimeHooks {
    bool (*call)(CallArgs *args);
    void *(*objects)(Arena *arena, const Flow *flow);
    const char *(*take)(Arena *arena, void *objects, Tensor *t);
    const char *(*give)(Arena *arena, void *objects, Tensor *t);
} RuntimeHooks;

/* Deterministic values for an input or a weight that has none: in the container's range, else
 * floats in [-1, 1), integers in 0..9 (8 bits: all), bools. */
void cont_random(const Cont *cont, Tensor *t, uint64_t seed);

/* Evaluates on dense tensors. `in`: one per CONT_IN in order; `out` (one per CONT_OUT) gets tensors
 * allocated in `arena`. Symbols are bound from the inputs' shapes. threads >= 1. */
void flow_eval(Arena *arena, const Flow *flow, const Tensor *in, Tensor *out, int threads);

/* The same, showing each container as items (of the flow itself) write it: dense, valid during the
 * call. */
typedef void EvalWatchFn(void *user, const Cont *cont, const Tensor *t);
void flow_eval_watched(Arena *arena, const Flow *flow, const Tensor *in, Tensor *out, int threads,
                       EvalWatchFn *watch, void *user);

#endif
