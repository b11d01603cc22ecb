/* SPDX-License-Identifier: Apache-2.0 */
/* Steps of warps: what a row of the machine's table says that its instruction means is a product of
 * matrices, added to what is there. */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "compiler/targets/cuda/machine.h"
#include "tests/unit/meaning.h"

enum { ROWS = 64, COLUMNS = 8, DEPTH = 32 };

/* Whole numbers, so small that sums are exact in all types; some below zero where the type has
 * such.
 */
static int element(DType t, int i, int seed) {
    return (i * 37 + seed * 11) % 13 - (dtype_is_signed(t) || dtype_is_float(t) ? 6 : 0);
}

static void check_step(Ctx *ctx, const WarpStep *step) {
    uint32_t a[ROWS * DEPTH], b[DEPTH * COLUMNS], c[ROWS * COLUMNS]; /* of any type up to these */
    int depth = step->depth;
    cr_assert(step->rows <= ROWS && step->columns == COLUMNS && depth <= DEPTH);
    for (int i = 0; i < step->rows * depth; i++)
        mem_set(step->a, a, i, bits_of_double(step->a, element(step->a, i, 1)));
    for (int i = 0; i < depth * COLUMNS; i++)
        mem_set(step->b, b, i, bits_of_double(step->b, element(step->b, i, 2)));
    for (int i = 0; i < step->rows * COLUMNS; i++)
        mem_set(step->c, c, i, bits_of_double(step->c, element(step->c, i, 3)));
    Tensor t[] = {{.type = step->a, .rank = 2, .dim = {step->rows, depth}, .data = a},
                  {.type = step->b, .rank = 2, .dim = {depth, COLUMNS}, .data = b},
                  {.type = step->c, .rank = 2, .dim = {step->rows, COLUMNS}, .data = c}};
    run_meaning(ctx, step->meaning, t);
    for (int i = 0; i < step->rows * COLUMNS; i++) {
        int sum = element(step->c, i, 3);
        for (int q = 0; q < depth; q++)
            sum += element(step->a, i / COLUMNS * depth + q, 1) *
                   element(step->b, q * COLUMNS + i % COLUMNS, 2);
        cr_assert_eq(mem_get(step->c, c, i), bits_of_double(step->c, sum), "%s: element %d",
                     step->name, i);
    }
}

static void check_all(void *at) {
    Ctx *ctx = at;
    Machine m;
    const char *gpu = "sm_90a";
    target_cuda_machine(ctx, &m, gpu, &gpu, 1);
    cr_assert_eq(m.nstep, 23);
    for (int i = 0; i < m.nstep; i++)
        if (!m.step[i]->plain) check_step(ctx, m.step[i]);
}

Test(steps, mean_products) {
    Ctx *ctx = ctx_new(see, NULL);
    cr_assert(ctx_try(ctx, check_all, ctx));
    ctx_free(ctx);
}
