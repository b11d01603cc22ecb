/* SPDX-License-Identifier: Apache-2.0 */
/* What passes make of the flow of a text for a GPU, told in a few words. */
#ifndef WEIR_TESTS_GPU_FLOW_H
#define WEIR_TESTS_GPU_FLOW_H

#include <criterion/criterion.h>
#include <stdio.h>

#include "compiler/targets/cuda/machine.h"
#include "ir/file.h"
#include "passes/recipe.h"

typedef struct GpuRun {
    Ctx *ctx;
    const char *gpu, *recipe, *text; /* recipe: or NULL */
    bool library;                    /* cuBLASLt may make products */
    MathMode math;
    char got[512]; /* the words, or the message of an error */
} GpuRun;

static inline void gpu_show(void *user, const Diag *d) {
    GpuRun *r = user;
    snprintf(r->got, sizeof r->got, "%.500s", d->message);
}

/* As pass `stop` leaves it. */
static inline const Flow *gpu_flow(GpuRun *r, Arena *arena, const char *stop) {
    IrFile *file = ir_file_parse(arena, NULL, r->text);
    Machine machine;
    target_cuda_machine(r->ctx, &machine, r->gpu, &r->gpu, 1);
    if (r->library) target_cuda_allow(r->ctx, &machine, "cublaslt");
    PassEnv env = {.machine = &machine, .math = r->math};
    if (r->recipe) env.recipe = recipe_parse(arena, "recipe", r->recipe);
    PassOptions options = {.verify_each = true, .stop_after = stop};
    return passes_run(r->ctx, (Stage){.flow = file->flow.at[0]}, &env, &options).flow;
}

/* `run` tells of a GpuRun. */
static inline void gpu_expect(GpuRun r, void (*run)(void *), const char *wanted) {
    r.ctx = ctx_new(gpu_show, &r);
    ctx_try(r.ctx, run, &r);
    ctx_free(r.ctx);
    cr_expect_str_eq(r.got, wanted, "%s\nfor\n%s\nnot\n%s", r.got, r.text, wanted);
}

#endif
