/* SPDX-License-Identifier: Apache-2.0 */
/* Which kernels have blocks that ask for the row of a later one. What such kernels compute is
 * tests/cuda/hot/rows_ahead.ir's matter. */
#include "tests/unit/gpu_flow.h"

/* The lines `prefetch` of all kernels. */
static void run(void *arg) {
    GpuRun *r = arg;
    Arena *arena = arena_new(r->ctx);
    const Flow *flow = gpu_flow(r, arena, "schedule");
    Text out = {.arena = arena};
    for (int k = 0; k < flow->kernel.n; k++)
        for (int i = 0; i < flow->kernel.at[k]->line.n; i++) {
            const Line *line = &flow->kernel.at[k]->line.at[i];
            if (line->kind != LINE_PREFETCH) continue;
            text_printf(
                &out, "%s %s %s:%lld ", flow->map.at[flow->kernel.at[k]->map.at[line->map]]->name,
                flow->cont.at[line->cont].name, line->arg[0].dim, (long long)line->arg[0].size);
        }
    snprintf(r->got, sizeof r->got, "%s", text_str(&out));
}

static void expect(const char *gpu, const char *text, const char *wanted) {
    gpu_expect((GpuRun){.gpu = gpu, .text = text, .math = MATH_DEFAULT}, run, wanted);
}

#define SOFTMAX(t, rows, n)                                                                        \
    "flow f {\nin x : " t "[" rows "," n "]  tmp m : f32[" rows "]  tmp l : f32[" rows             \
    "]  out y : " t "[" rows "," n "]\n"                                                           \
    "map a [i:" rows ", j:" n "] { f32(x[i,j]) -> m[i] max:f32 }\n"                                \
    "map e [i:" rows ", j:" n "] { exp(f32(x[i,j]) - m[i]) -> l[i] sum:f32 }\n"                    \
    "map p [i:" rows ", j:" n "] { " t "(exp(f32(x[i,j]) - m[i]) / l[i]) -> y[i,j] }\n}\n"

/* Half as many blocks on as there are cores. */
Test(ahead, many_rows_from_memory) {
    expect("sm_90a", SOFTMAX("f32", "8192", "8192"), "a x i:66 ");
    expect("sm_90a", SOFTMAX("f16", "8192", "8192"), "a x i:66 ");
    expect("sm_80", SOFTMAX("f32", "8192", "8192"), "a x i:54 ");
}

/* 48 and 64 MB: the cache of all cores has 50. */
Test(ahead, not_of_what_a_cache_holds) {
    expect("sm_90a", SOFTMAX("f16", "16384", "1536"), "");
    expect("sm_90a", SOFTMAX("f16", "16384", "2048"), "a x i:66 ");
}

Test(ahead, not_of_few_blocks) {
    expect("sm_90a", SOFTMAX("f32", "512", "65536"), "");
    expect("sm_90a", SOFTMAX("f32", "2048", "8192"), "");
}

Test(ahead, not_of_short_rows) {
    expect("sm_90a", SOFTMAX("f32", "262144", "256"), "");
}

Test(ahead, not_along_columns) {
    expect("sm_90a",
           "flow f {\nin x : f32[8192,8192]  out y : f32[8192]\n"
           "map s [i:8192, j:8192] { x[i,j] -> y[j] sum:f32 }\n}\n",
           "");
}

/* The run says how many there are. */
Test(ahead, not_of_unknown_sizes) {
    expect("sm_90a",
           "flow f (N in 0..100000) {\nin x : f32[N,8192]  out y : f32[N]\n"
           "map s [i:N, j:8192] { x[i,j] -> y[i] sum:f32 }\n}\n",
           "");
}

/* Each operand of a kernel (here of two) whose rows are read once: not one row for all, nor what
 * each head reads again. */
Test(ahead, of_all_that_is_read_once) {
    expect("sm_90a",
           "flow f {\nin x : f32[8192,4096]  in z : f32[8192,4096]  in g : f32[4096]\n"
           "tmp m : f32[8192]  tmp l : f32[8192]  out y : f32[8192,4096]\n"
           "map a [i:8192, j:4096] { x[i,j] -> m[i] max:f32 }\n"
           "map s [i:8192, j:4096] { abs(x[i,j] + z[i,j] - m[i]) * g[j] -> l[i] sum:f32 }\n"
           "map y [i:8192, j:4096] { (x[i,j] + z[i,j]) * l[i] * g[j] -> y[i,j] }\n}\n",
           "a x i:66 s x i:66 s z i:66 ");
    expect("sm_90a",
           "flow f {\nin x : f32[8,4096,4096]  in b : f32[4096,4096]\n"
           "tmp m : f32[8,4096]  out y : f32[8,4096,4096]\n"
           "map a [h:8, i:4096, j:4096] { x[h,i,j] + b[i,j] -> m[h,i] max:f32 }\n"
           "map y [h:8, i:4096, j:4096] { x[h,i,j] + b[i,j] - m[h,i] -> y[h,i,j] }\n}\n",
           "a x i:66 ");
}

/* Blocks that follow one another along the inner of two dims: few of them, none. */
Test(ahead, not_beyond_a_dim) {
    expect("sm_90a",
           "flow f {\nin x : f32[128,128,4096]  out y : f32[128,128]\n"
           "map s [h:128, i:128, j:4096] { abs(x[h,i,j]) -> y[h,i] sum:f32 }\n}\n",
           "");
    expect("sm_90a",
           "flow f {\nin x : f32[16384,4096]  out y : f32[16384]\n"
           "map s [i:16384, j:4096] { abs(x[i,j]) -> y[i] sum:f32 }\n}\n",
           "s x i:66 ");
}
