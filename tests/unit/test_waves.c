/* SPDX-License-Identifier: Apache-2.0 */
/* Which products pass `split` cuts in two because of their last wave of tiles, and what it cuts
 * with them. What the pieces compute is tests/cuda/hot/waves.ir's matter. */
#include "tests/unit/gpu_flow.h"

/* Maps in the order of the program, with their extents. */
static void run(void *arg) {
    GpuRun *r = arg;
    Arena *arena = arena_new(r->ctx);
    const Flow *flow = gpu_flow(r, arena, "split");
    Text out = {.arena = arena};
    for (int i = 0; i < flow->body.n; i++) {
        const Map *m = flow->map.at[flow->body.at[i].map];
        text_printf(&out, "%s%s", i ? ", " : "", m->name);
        for (int d = 0; d < m->dim.n; d++)
            text_printf(&out, " %s", dim_str(r->ctx, m->dim.at[d].extent));
    }
    snprintf(r->got, sizeof r->got, "%s", text_str(&out));
}

static void expect(const char *gpu, const char *text, const char *wanted) {
    gpu_expect((GpuRun){.gpu = gpu, .text = text, .math = MATH_DEFAULT}, run, wanted);
}

static void expect_by(const char *recipe, const char *text, const char *wanted) {
    GpuRun r = {.gpu = "sm_90a", .recipe = recipe, .text = text, .math = MATH_DEFAULT};
    gpu_expect(r, run, wanted);
}

#define SQUARE(n)                                                                                  \
    "flow f {\nin x : f16[" n "," n "]  in w : f16[" n "," n "]  out y : f32[" n "," n "]\n"       \
    "map p [i:" n ", j:" n ", k:" n "] { f32(x[i,k]) * f32(w[k,j]) -> y[i,j] sum:f32 }\n}\n"
/* 136 tiles of 128 x 256 for the 132 cores of sm_90a. */
#define FOLLOWED(conts, maps)                                                                      \
    "flow f {\nin x : f16[4352,2560]  in w : f16[2560,1024]  tmp h : f32[4352,1024]  " conts       \
    "\nmap p [i:4352, j:1024, k:2560] { f32(x[i,k]) * f32(w[k,j]) -> h[i,j] sum:f32 }\n" maps      \
    "\n}\n"
#define ALONE                                                                                      \
    "flow f {\nin x : f16[4352,2560]  in w : f16[2560,1024]  out y : f32[4352,1024]\n"             \
    "map p [i:4352, j:1024, k:2560] { f32(x[i,k]) * f32(w[k,j]) -> y[i,j] sum:f32 }\n}\n"
#define WHOLE "p 4352 1024 2560"
#define CUT "p 4224 1024 2560, p.rest 128 1024 320 8, p.rest.parts 128 1024 8"
#define ENDED ", e 4224 1024, e.rest 128 1024"

Test(waves, of_few_tiles_in_the_end_are_cut) {
    expect("sm_90a", ALONE, CUT);
    expect("sm_80",
           "flow f {\nin x : f16[1792,4096]  in w : f16[4096,1024]  out y : f32[1792,1024]\n"
           "map p [i:1792, j:1024, k:4096] { f32(x[i,k]) * f32(w[k,j]) -> y[i,j] sum:f32 }\n}\n",
           "p 1664 1024 4096, p.rest 128 1024 512 8, p.rest.parts 128 1024 8");
}

/* A last wave that is half full takes less than a full one: cutting it off was measured to lose. */
Test(waves, of_full_or_small_ones_stay) {
    expect("sm_90a", SQUARE("4096"), "p 4096 4096 4096");
    expect("sm_90a", SQUARE("8192"), "p 8192 8192 8192");
    expect("sm_90a", SQUARE("5120"), "p 5120 5120 5120");
    expect("sm_90a", SQUARE("2560"), "p 2560 2560 2560");
    expect("sm_90a", SQUARE("1024"), "p 1024 1024 1024");
    expect("sm_80", SQUARE("2560"), "p 2560 2560 2560");
}

Test(waves, mathematics_and_libraries) {
    GpuRun r = {.gpu = "sm_90a", .text = ALONE, .math = MATH_STRICT};
    gpu_expect(r, run, WHOLE);
    r.math = MATH_DEFAULT, r.library = true;
    gpu_expect(r, run, WHOLE);
}

/* All that is computed from a result element by element, in any order, up to what others read. */
Test(waves, what_follows_is_cut_along) {
    expect("sm_90a",
           FOLLOWED("in b : f32[1024]  tmp a : f32[4352,1024]  tmp u : f32[4352,1024]  "
                    "tmp t : f32[4352,1024]  tmp s : f32[4352]  out y : f32[4352,1024]",
                    "map a [i:4352, j:1024] { h[i,j] + b[j] -> a[i,j] }\n"
                    "map u [i:4352, j:1024] { tanh(a[i,j]) -> u[i,j] }\n"
                    "map t [i:4352, j:1024] { a[i,j] * u[i,j] -> t[i,j] }\n"
                    "map s [i:4352, j:1024] { t[i,j] -> s[i] sum:f32 }\n"
                    "map y [i:4352, j:1024] { t[i,j] - s[i] -> y[i,j] }"),
           CUT ", a 4224 1024, a.rest 128 1024, u 4224 1024, u.rest 128 1024, t 4224 1024, "
               "t.rest 128 1024, s 4352 1024, y 4352 1024");
}

/* A map that would have been the epilogue, and cannot be cut with the product, keeps it whole; one
 * that is a later product's does not. */
Test(waves, epilogues_are_not_lost) {
    expect(
        "sm_90a",
        FOLLOWED("out y : f32[4352,1024]", "map e [i:4352, j:1024] { h[4351-i,1023-j] -> y[i,j] }"),
        WHOLE ", e 4352 1024");
    expect("sm_90a",
           FOLLOWED("out y : f32[4352,1024]", "map e [i:4352, j:1024] { h[i,1023-j] -> y[i,j] }"),
           CUT ENDED);
    expect("sm_90a",
           FOLLOWED("in v : f16[4352,64]  in c : f16[64,1024]  tmp g : f32[4352,1024]  "
                    "tmp d : f32[4352,1024]  out y : f32[4352,1024]",
                    "map q [i:4352, j:1024, k:64] { f32(v[i,k]) * f32(c[k,j]) -> g[i,j] sum:f32 }\n"
                    "map d [i:4352, j:1024] { tanh(g[i,j]) -> d[i,j] }\n"
                    "map y [i:4352, j:1024] { h[i,j] + d[i,j] -> y[i,j] }"),
           CUT ", q 4352 1024 64, d 4352 1024, y 4352 1024");
}

Test(waves, recipes_cut_and_refuse) {
    expect_by("split \"p.waves\" whole\n", ALONE, WHOLE);
    expect_by("split \"p\" parts4\n", ALONE, "p 4352 1024 640 4, p.parts 4352 1024 4");
    expect_by("split \"p.waves\" i.1024\nsplit \"p.rest\" whole\n", ALONE,
              "p 1024 1024 2560, p.rest 3328 1024 2560");
    expect_by("split \"p.waves\" k.64\n", ALONE,
              "pass \"split\" cannot choose \"k.64\"; it chooses whole");
    expect_by(
        "split \"p.waves\" i.64\n",
        FOLLOWED("out y : f32[4352,1024]", "map e [i:4352, j:1024] { h[4351-i,j] -> y[i,j] }"),
        "\"p\" cannot be cut there with what follows it");
}
