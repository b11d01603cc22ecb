/* SPDX-License-Identifier: Apache-2.0 */
/* How fast weights are packed: the layouts that matter, in GB/s of elements. At least 1 is wanted.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "compiler/pack.h"

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Dim `blocked` in blocks of `c`, which become the last storage dim. */
static void measure(Ctx *ctx, const char *what, int rank, const int64_t *extent, int blocked,
                    int64_t c) {
    Arena *arena = arena_new(ctx);
    Dim shape[8], map[9], box[9];
    int64_t count = 1;
    for (int k = 0; k < rank; k++) {
        Dim sym = flow_layout_sym(ctx, k);
        shape[k] = dim_const(ctx, extent[k]);
        map[k] = k == blocked ? dim_div(ctx, sym, dim_const(ctx, c)) : sym;
        box[k] = k == blocked ? dim_const(ctx, (extent[k] + c - 1) / c) : shape[k];
        count *= extent[k];
    }
    map[rank] = dim_mod(ctx, flow_layout_sym(ctx, blocked), dim_const(ctx, c));
    box[rank] = dim_const(ctx, c);
    Layout layout = {.rank = rank + 1, .map = map, .box = box};
    float *data = malloc((size_t)count * 4);
    for (int64_t i = 0; i < count; i++) data[i] = (float)i;
    Cont cont = {
        .name = "w", .type = F32, .rank = rank, .shape = shape, .layout = &layout, .data = data};
    Pack p = pack_plan(arena, ctx, &cont);
    void *to = malloc((size_t)pack_bytes(&p));
    memset(to, 1, (size_t)pack_bytes(&p));
    double best = 1e9;
    for (int i = 0; i < 5; i++) {
        double start = now();
        pack_run(&p, to);
        double took = now() - start;
        best = took < best ? took : best;
    }
    printf("%-32s %6.1f MB %6.2f GB/s\n", what, (double)count * 4e-6, (double)count * 4e-9 / best);
    free(data);
    free(to);
    arena_free(arena);
}

static void measure_all(void *ctx) {
    measure(ctx, "matmul [3072,768], blocks of n", 2, (int64_t[]){3072, 768}, 1, 64);
    measure(ctx, "matmul [768,3072], blocks of k", 2, (int64_t[]){768, 3072}, 0, 48);
    measure(ctx, "conv [512,512,3,3], blocks of o", 4, (int64_t[]){512, 512, 3, 3}, 0, 16);
    measure(ctx, "conv [2048,512,1,1], blocks of o", 4, (int64_t[]){2048, 512, 1, 1}, 0, 16);
    measure(ctx, "conv [64,3,7,7], blocks of o", 4, (int64_t[]){64, 3, 7, 7}, 0, 16);
}

int main(void) {
    Ctx *ctx = ctx_new(NULL, NULL);
    bool done = ctx_try(ctx, measure_all, ctx);
    ctx_free(ctx);
    return !done;
}
