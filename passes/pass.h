/* SPDX-License-Identifier: Apache-2.0 */
/* The pipeline: one list (passes.def), one loop (pipeline.c).
 *
 * Each pass takes its level's object and returns a new one in a new arena. `exact` passes agree
 * with their input bit for bit in the evaluator (pass_keeps_bits); the others (`reorders`) within
 * rounding. */
#ifndef WEIR_PASSES_PASS_H
#define WEIR_PASSES_PASS_H

#include "ir/graph.h"
#include "ir/machine.h"
#include "ir/move.h"
#include "ir/nest.h"

typedef enum { MATH_STRICT, MATH_DEFAULT, MATH_FAST } MathMode;
/* When weights take the form that kernels read: when compiling, when an instance is created, or
 * then and whenever weights are swapped. */
typedef enum { PACK_BUILD, PACK_CREATE, PACK_SWAP } Packing;
typedef enum { LEVEL_GRAPH, LEVEL_FLOW, LEVEL_NEST } Level;

/* What a pass may look at besides its input. */
typedef struct PassEnv {
    const Machine *machine;
    const OpTable *ops;
    MathMode math;
    Packing packing;
    DType convert;             /* F16 or BF16: what products read is stored as that */
    Text *converted;           /* takes a line for each container converted, or NULL */
    struct Recipe *recipe;     /* decisions that are made already, or NULL (recipe.h) */
    struct RecipeNotes *notes; /* takes the decisions made, or NULL */
    const Machine *baseline; /* the constant part is scheduled for it, so that its bits are the same
                              * everywhere; needed for packing other than PACK_BUILD */
} PassEnv;

/* Takes away the instructions that round in an order of their own, or more than the sums' type
 * does, unless mathematics are fast. */
void machine_allow(Machine *m, MathMode math);

typedef enum { PASS_EXACT, PASS_REORDERS } PassEffect;
typedef struct Pass {
    const char *name;
    Level level; /* of its input */
    PassEffect effect;
    bool optional; /* --skip may leave it out */
    const char *what;
    Graph *(*graph)(Arena *arena, const Graph *g, const PassEnv *env);
    Flow *(*lower)(Arena *arena, const Graph *g, const PassEnv *env);
    Flow *(*flow)(Arena *arena, const Flow *f, const PassEnv *env);
    Program *(*nests)(Arena *arena, const Flow *f, const PassEnv *env);
    Program *(*nest)(Arena *arena, const Program *p, const PassEnv *env);
} Pass;
const Pass *pass_list(int *count);

/* The object in flight: exactly one of the three is set. */
typedef struct Stage {
    const Graph *graph;
    const Flow *flow;
    const Program *program;
} Stage;

/* Is it `exact` there? Nests get shorter functions on a machine with an instruction for 2^x. */
bool pass_keeps_bits(const Pass *pass, const Machine *machine, MathMode math);

/* Called after each pass (and once before the first, with pass NULL). */
typedef void PassWatchFn(void *user, const Pass *pass, const Stage *stage, double seconds);

/* Called before a pass begins. */
typedef void PassBeginFn(void *user, const Pass *pass);

/* What comes of a flow behind a pass, in the arena of the pass's result: the flow itself, or a new
 * one. */
typedef const Flow *PassRewriteFn(void *user, Arena *arena, const Pass *pass, const Flow *flow);

typedef struct PassOptions {
    const char *after;      /* a pass that has run, as have those before it; NULL: none */
    const char *stop_after; /* NULL: run all */
    const char *const *skip;
    int nskip;
    bool verify_each;
    PassWatchFn *watch;
    PassBeginFn *begin;
    PassRewriteFn *rewrite; /* called behind each pass, also one that is skipped; may be NULL */
    void *user;
} PassOptions;

/* Runs the list from the level of `start` on. Arenas of stages left behind are freed (when the loop
 * made them); the result lives in an arena of the context. E_OPTION names an unknown pass. */
Stage passes_run(Ctx *ctx, Stage start, const PassEnv *env, const PassOptions *options);

/* As `verify_each` does it. Fails with E_VERIFY and the line at fault. */
void stage_verify(const Stage *stage);

#endif
