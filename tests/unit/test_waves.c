/* SPDX-License-Identifier: Apache-2.0 */
/* Which products pass `split` cuts in two because of their last wave of tiles, and what it cuts
 * with them. What the pieces compute is tests/cuda/hot/waves.ir's matter. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "compiler/targets/cuda/machine.h"
#include "ir/file.h"
#include "passes/recipe.h"

typedef struct Run {
    Ctx *ctx;
    const char *gpu, *recipe, *text; /* recipe: or NULL */
    bool library;
    MathMode math;
    char got[512];
} Run;

static void show(void *user, const Diag *d) {
    Run *r = user;
    snprintf(r->got, sizeof r->got, "%.500s", d->message);
}

/* Maps in the order of the program, with their extents. */
static void run(void *arg) {
    Run *r = arg;
    Arena *arena = arena_new(r->ctx);
    IrFile *file = ir_file_parse(arena, NULL, r->text);
    Machine machine;
    target_cuda_machine(r->ctx, &machine, r->gpu, &r->gpu, 1);
    if (r->library) target_cuda_allow(r->ctx, &machine, "cublaslt");
    PassEnv env = {.machine = &machine, .math = r->math};
    if (r->recipe) env.recipe = recipe_parse(arena, "recipe", r->recipe);
    PassOptions options = {.verify_each = true, .stop_after = "split"};
    const Flow *flow = passes_run(r->ctx, (Stage){.flow = file->flow.at[0]}, &env, &options).flow;
    Text out = {.arena = arena};
    for (int i = 0; i < flow->body.n; i++) {
        const Map *m = flow->map.at[flow->body.at[i].map];
        text_printf(&out, "%s%s", i ? ", " : "", m->name);
        for (int d = 0; d < m->dim.n; d++)
            text_printf(&out, " %s", dim_str(r->ctx, m->dim.at[d].extent));
    }
    snprintf(r->got, sizeof r->got, "%s", text_str(&out));
}

static void expect_of(Run r, const char *wanted) {
    r.ctx = ctx_new(show, &r);
    ctx_try(r.ctx, run, &r);
    ctx_free(r.ctx);
    cr_expect_str_eq(r.got, wanted, "%s\nfor\n%s\nnot\n%s", r.got, r.text, wanted);
}

static void expect(const char *gpu, const char *text, const char *wanted) {
    expect_of((Run){.gpu = gpu, .text = text, .math = MATH_DEFAULT}, wanted);
}

static void expect_by(const char *recipe, const char *text, const char *wanted) {
    expect_of((Run){.gpu = "sm_90a", .recipe = recipe, .text = text, .math = MATH_DEFAULT}, wanted);
}

#define CONTS(n) "in x : f16[" n "," n "]  in w : f16[" n "," n "]  "
#define PRODUCT(n, to)                                                                             \
    "map p [i:" n ", j:" n ", k:" n "] { f32(x[i,k]) * f32(w[k,j]) -> " to "[i,j] sum:f32 }"
#define SQUARE(n) "flow f {\n" CONTS(n) "out y : f32[" n "," n "]\n" PRODUCT(n, "y") "\n}\n"
#define FOLLOWED(conts, maps)                                                                      \
    "flow f {\n" CONTS("2560") "tmp h : f32[2560,2560]  " conts                                    \
                               "\n" PRODUCT("2560", "h") "\n" maps "\n}\n"
#define WHOLE "p 2560 2560 2560"
#define CUT "p 2560 2496 2560, p.rest 2560 64 512 5, p.rest.parts 2560 64 5"

Test(waves, of_few_tiles_in_the_end_are_cut) {
    expect("sm_90a", SQUARE("2560"), CUT);
    expect("sm_90a", SQUARE("5120"),
           "p 4224 5120 5120, p.rest 896 5120 2560 2, p.rest.parts 896 5120 2");
    expect("sm_80", SQUARE("2048"),
           "p 1664 2048 2048, p.rest 384 2048 1024 2, p.rest.parts 384 2048 2");
}

Test(waves, of_full_or_small_ones_stay) {
    expect("sm_90a", SQUARE("4096"), "p 4096 4096 4096");
    expect("sm_90a", SQUARE("8192"), "p 8192 8192 8192");
    expect("sm_90a", SQUARE("1024"), "p 1024 1024 1024");
    expect("sm_80", SQUARE("2560"), WHOLE);
}

Test(waves, mathematics_and_libraries) {
    expect_of((Run){.gpu = "sm_90a", .text = SQUARE("2560"), .math = MATH_STRICT}, WHOLE);
    expect_of((Run){.gpu = "sm_90a", .text = SQUARE("2560"), .math = MATH_DEFAULT, .library = true},
              WHOLE);
}

/* All that is computed from a result element by element, in any order, up to what others read. */
Test(waves, what_follows_is_cut_along) {
    expect("sm_90a",
           FOLLOWED("in b : f32[2560]  tmp a : f32[2560,2560]  tmp u : f32[2560,2560]  "
                    "tmp t : f32[2560,2560]  tmp s : f32[2560]  out y : f32[2560,2560]",
                    "map a [i:2560, j:2560] { h[i,j] + b[j] -> a[i,j] }\n"
                    "map u [i:2560, j:2560] { tanh(a[i,j]) -> u[i,j] }\n"
                    "map t [i:2560, j:2560] { a[i,j] * u[i,j] -> t[i,j] }\n"
                    "map s [i:2560, j:2560] { t[i,j] -> s[i] sum:f32 }\n"
                    "map y [i:2560, j:2560] { t[i,j] - s[i] -> y[i,j] }"),
           CUT ", a 2560 2496, a.rest 2560 64, u 2560 2496, u.rest 2560 64, t 2560 2496, "
               "t.rest 2560 64, s 2560 2560, y 2560 2560");
}

/* A map that would have been the epilogue, and cannot be cut with the product, keeps it whole; one
 * that is a later product's does not. */
Test(waves, epilogues_are_not_lost) {
    expect(
        "sm_90a",
        FOLLOWED("out y : f32[2560,2560]", "map e [i:2560, j:2560] { h[2559-i,2559-j] -> y[i,j] }"),
        WHOLE ", e 2560 2560");
    expect("sm_90a",
           FOLLOWED("out y : f32[2560,2560]", "map e [i:2560, j:2560] { h[2559-i,j] -> y[i,j] }"),
           CUT ", e 2560 2496, e.rest 2560 64");
    expect("sm_90a",
           FOLLOWED("in v : f16[2560,64]  in c : f16[64,2560]  tmp g : f32[2560,2560]  "
                    "tmp d : f32[2560,2560]  out y : f32[2560,2560]",
                    "map q [i:2560, j:2560, k:64] { f32(v[i,k]) * f32(c[k,j]) -> g[i,j] sum:f32 }\n"
                    "map d [i:2560, j:2560] { tanh(g[i,j]) -> d[i,j] }\n"
                    "map y [i:2560, j:2560] { h[i,j] + d[i,j] -> y[i,j] }"),
           CUT ", q 2560 2560 64, d 2560 2560, y 2560 2560");
}

Test(waves, recipes_cut_and_refuse) {
    expect_by("split \"p.waves\" whole\n", SQUARE("2560"), WHOLE);
    expect_by("split \"p\" parts4\n", SQUARE("2560"), "p 2560 2560 640 4, p.parts 2560 2560 4");
    expect_by("split \"p.waves\" i.1024\nsplit \"p.rest\" whole\n", SQUARE("2560"),
              "p 1024 2560 2560, p.rest 1536 2560 2560");
    expect_by("split \"p.waves\" k.64\n", SQUARE("2560"),
              "pass \"split\" cannot choose \"k.64\"; it chooses whole");
    expect_by(
        "split \"p.waves\" i.64\n",
        FOLLOWED("out y : f32[2560,2560]", "map e [i:2560, j:2560] { h[2559-i,j] -> y[i,j] }"),
        "\"p\" cannot be cut there with what follows it");
}
