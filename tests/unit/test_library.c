/* SPDX-License-Identifier: Apache-2.0 */
/* Which kernels are products of matrices or convolutions as a library makes them, and how these
 * lie; which of them the pass `library` gives away. What the calls compute is tests/gpu/check.py's
 * matter. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "compiler/targets/cuda/machine.h"
#include "ir/file.h"
#include "passes/library.h"
#include "passes/recipe.h"

typedef struct Run {
    Ctx *ctx;
    const char *text, *recipe; /* or NULL */
    Machine machine;
    MathMode math;
    DType convert; /* or 0 */
    int behind;    /* kernels behind the one that is asked about */
    char got[512];
} Run;

static void show(void *user, const Diag *d) {
    Run *r = user;
    snprintf(r->got, sizeof r->got, "%.500s", d->message);
}

static const char *matrix_text(Arena *arena, const LibraryMatrix *m) {
    return arena_printf(arena, "%s %lld+%lld step %lld", m->across ? "across" : "along",
                        (long long)m->first, (long long)m->apart, (long long)m->step);
}

/* What is added. */
static const char *added_text(Arena *arena, const LibraryProduct *p) {
    const char *c = "", *bias = "";
    if (p->c.cont >= 0) c = arena_printf(arena, " + %s", matrix_text(arena, &p->c));
    if (p->bias.cont >= 0) bias = arena_printf(arena, " + bias %lld", (long long)p->bias.first);
    return arena_printf(arena, "%s%s", c, bias);
}

static const char *product_text(Arena *arena, const LibraryProduct *p) {
    return arena_printf(arena, "%lld x %lld x %lld, %lld: %s; %s%s; %s", (long long)p->rows,
                        (long long)p->columns, (long long)p->depth, (long long)p->batch,
                        matrix_text(arena, &p->a), matrix_text(arena, &p->b), added_text(arena, p),
                        matrix_text(arena, &p->d));
}

static const char *images_text(Arena *arena, const LibraryImages *m) {
    Text out = {.arena = arena};
    text_printf(&out, "%lld", (long long)m->first);
    for (int i = 0; i < IMAGE_DIMS; i++)
        text_printf(&out, " %lld/%lld", (long long)m->size[i], (long long)m->step[i]);
    return text_str(&out);
}

static const char *window_text(Arena *arena, const LibraryWindow *w) {
    return arena_printf(arena, "%lld by %lld, %lld apart, -%lld", (long long)w->taps,
                        (long long)w->stride, (long long)w->dilation, (long long)w->padding);
}

static const char *convolution_text(Arena *arena, const LibraryConvolution *c) {
    const char *bias = "", *z = "";
    if (c->bias.cont >= 0) bias = arena_printf(arena, " + bias %lld", (long long)c->bias.first);
    if (c->residual.cont >= 0) z = arena_printf(arena, " + %lld", (long long)c->residual.first);
    return arena_printf(arena, "%s; %s; %s; %s from %lld in %lld%s%s%s; %s",
                        images_text(arena, &c->x), window_text(arena, &c->window[0]),
                        window_text(arena, &c->window[1]), c->channels_last ? "last" : "first",
                        (long long)c->w.first, (long long)c->groups, bias, z,
                        c->relu ? ", relu" : "", images_text(arena, &c->y));
}

/* What the flow's last kernel is, or one in front of it, and the library that it went to. */
static void run(void *arg) {
    Run *r = arg;
    Ctx *ctx = r->ctx;
    Arena *arena = arena_new(ctx);
    IrFile *file = ir_file_parse(arena, NULL, r->text);
    const char *gpu = "sm_90a";
    target_cuda_machine(ctx, &r->machine, gpu, &gpu, 1);
    target_cuda_allow(ctx, &r->machine, "cublaslt");
    target_cuda_allow(ctx, &r->machine, "cudnn");
    PassEnv env = {.machine = &r->machine, .math = r->math, .convert = r->convert};
    if (r->recipe) env.recipe = recipe_parse(arena, "recipe", r->recipe);
    PassOptions options = {.verify_each = true, .stop_after = "library"};
    Stage stage = passes_run(ctx, (Stage){.flow = file->flow.at[0]}, &env, &options);
    const Kernel *kernel = stage.flow->kernel.at[stage.flow->kernel.n - 1 - r->behind];
    const char *library = kernel_library(kernel);
    LibraryWork work;
    if (!library_work(stage.flow, kernel, &work)) {
        snprintf(r->got, sizeof r->got, "no work");
        return;
    }
    snprintf(r->got, sizeof r->got, "%s by %s",
             work.kind == LIBRARY_PRODUCT ? product_text(arena, &work.product)
                                          : convolution_text(arena, &work.convolution),
             library ? library : "own");
}

static void expect_of(Run *r, const char *wanted) {
    r->ctx = ctx_new(show, r);
    ctx_try(r->ctx, run, r);
    ctx_free(r->ctx);
    cr_assert_str_eq(r->got, wanted, "%s\nfor\n%s\nnot\n%s", r->got, r->text, wanted);
}

static void expect_by(const char *recipe, const char *text, MathMode math, const char *wanted) {
    expect_of(&(Run){.text = text, .recipe = recipe, .math = math}, wanted);
}

static void expect(const char *text, MathMode math, const char *wanted) {
    expect_by(NULL, text, math, wanted);
}

#define FLOW(conts, map) "flow f {\n" conts "\n map p " map " }\n}\n"
#define HALVES(n, map)                                                                             \
    FLOW("in x : f16[" n "," n "]  in w : f16[" n "," n "]  out y : f16[" n "," n "]",             \
         "[i:" n ", j:" n ", k:" n "] { " map " -> y[i,j] sum:f32")

Test(library, operands_lie_as_they_do) {
    expect(HALVES("16", "f32(x[i,k]) * f32(w[k,j])"), MATH_DEFAULT,
           "16 x 16 x 16, 1: along 0+16 step 0; along 0+16 step 0; along 0+16 step 0 by own");
    expect(HALVES("16", "f32(w[j,k]) * f32(x[k,i])"), MATH_DEFAULT,
           "16 x 16 x 16, 1: across 0+16 step 0; across 0+16 step 0; along 0+16 step 0 by own");
    expect(FLOW("in x : f32[32,48]  in w : f32[32,24]  out y : f32[24,20]",
                "[i:20, j:24, k:32] { x[k,2*i+5] * w[k,j] -> y[j,i] sum:f32"),
           MATH_DEFAULT, "no work");
    expect(FLOW("in x : f32[32,40]  in w : f32[24,64]  out y : f32[24,20]",
                "[i:20, j:24, k:32] { x[k,i+5] * w[j,k+8] -> y[j,i] sum:f32"),
           MATH_DEFAULT,
           "20 x 24 x 32, 1: along 5+40 step 0; along 8+64 step 0; along 0+20 step 0 by own");
}

Test(library, dims_are_joined_or_become_a_batch) {
    expect(FLOW("in x : f32[4,6,32]  in w : f32[32,16]  out y : f32[4,6,16]",
                "[b:4, i:6, j:16, k:32] { x[b,i,k] * w[k,j] -> y[b,i,j] sum:f32"),
           MATH_DEFAULT,
           "16 x 24 x 32, 1: along 0+16 step 0; along 0+32 step 0; along 0+16 step 0 by own");
    expect(FLOW("in x : f32[4,9,32]  in w : f32[32,16]  out y : f32[9,4,16]",
                "[b:4, i:9, j:16, k:32] { x[b,i,k] * w[k,j] -> y[i,b,j] sum:f32"),
           MATH_DEFAULT,
           "16 x 9 x 32, 4: along 0+16 step 0; along 0+32 step 288; along 0+64 step 16 by own");
    expect(FLOW("in x : f32[3,4,9,32]  in w : f32[3,4,32,16]  out y : f32[3,4,9,16]",
                "[a:3, b:4, i:9, j:16, k:32] { x[a,b,i,k] * w[a,b,k,j] -> y[a,b,i,j] sum:f32"),
           MATH_DEFAULT,
           "16 x 9 x 32, 12: along 0+16 step 512; along 0+32 step 288; along 0+16 step 144 by own");
    expect(FLOW("in x : f32[4,9,32]  in w : f32[3,32,16]  out y : f32[9,4,3,16]",
                "[a:3, b:4, i:9, j:16, k:32] { x[b,i,k] * w[a,k,j] -> y[i,b,a,j] sum:f32"),
           MATH_DEFAULT, "no work");
}

#define ADDED(conts, root)                                                                         \
    FLOW("in x : f16[16,24]  in w : f16[24,32]  tmp h : f16[16,32]  out y : f16[16,32]  " conts,   \
         "[i:16, j:32, k:24] { f32(x[i,k]) * f32(w[k,j]) -> h[i,j] sum:f32 }\n"                    \
         " map r [i:16, j:32] { f16(" root ") -> y[i,j]")
#define ALONG "32 x 16 x 24, 1: along 0+32 step 0; along 0+24 step 0"

Test(library, what_it_adds_is_a_part) {
    expect(ADDED("", "f32(h[i,j])"), MATH_DEFAULT, ALONG "; along 0+32 step 0 by own");
    expect(ADDED("in b : f16[40]", "f32(b[j+8]) + f32(h[i,j])"), MATH_DEFAULT,
           ALONG " + bias 8; along 0+32 step 0 by own");
    expect(ADDED("in b : f16[32]  in z : f16[16,64]",
                 "f32(z[i,j]) + f32(f16(f32(b[j]) + f32(h[i,j])))"),
           MATH_DEFAULT, ALONG " + along 0+64 step 0 + bias 0; along 0+32 step 0 by own");
    expect(ADDED("in b : f32[32]", "b[j] + f32(h[i,j])"), MATH_DEFAULT, "no work");
    expect(ADDED("in b : f16[16]", "f32(b[i]) + f32(h[i,j])"), MATH_DEFAULT, "no work");
    expect(ADDED("in z : f16[32,16]", "f32(z[j,i]) + f32(h[i,j])"), MATH_DEFAULT, "no work");
    expect(ADDED("in b : f16[32]  in z : f16[32]", "f32(b[j]) + f32(h[i,j]) + f32(z[j])"),
           MATH_DEFAULT, "no work");
    expect(ADDED("in b : f16[32]", "f32(b[j]) * f32(h[i,j])"), MATH_DEFAULT, "no work");
    expect(ADDED("in b : f16[32]", "max(f32(b[j]) + f32(h[i,j]), 0)"), MATH_DEFAULT, "no work");
    expect(ADDED("", "f32(h[i,j]) + f32(h[i,j])"), MATH_DEFAULT, "no work");
    expect(ADDED("", "f32(i32(f32(h[i,j])))"), MATH_DEFAULT, "no work");
}

Test(library, what_others_read_is_stored) {
    expect_by("kernel k0 = p r\n",
              "flow f {\n in x : f16[16,24]  in w : f16[24,32]  in b : f16[32]\n"
              " out h : f16[16,32]  out y : f16[16,32]\n"
              " map p [i:16, j:32, k:24] { f32(x[i,k]) * f32(w[k,j]) -> h[i,j] sum:f32 }\n"
              " map r [i:16, j:32] { f16(f32(h[i,j]) + f32(b[j])) -> y[i,j] }\n}\n",
              MATH_DEFAULT, "no work");
}

Test(library, other_kernels_are_no_products) {
    expect(HALVES("16", "f32(x[i,k]) * f32(w[k,j] else 0)"), MATH_DEFAULT,
           "16 x 16 x 16, 1: along 0+16 step 0; along 0+16 step 0; along 0+16 step 0 by own");
    expect(HALVES("16", "f32(x[i,k+1] else 0) * f32(w[k,j])"), MATH_DEFAULT, "no work");
    expect(HALVES("16", "exp(f32(x[i,k])) * f32(w[k,j])"), MATH_DEFAULT, "no work");
    expect(HALVES("4", "f32(x[i,k]) * f32(w[k,j])"), MATH_DEFAULT, "no work");
    expect(FLOW("in x : f16[16,16]  in w : bf16[16,16]  out y : f32[16,16]",
                "[i:16, j:16, k:16] { f32(x[i,k]) * f32(w[k,j]) -> y[i,j] sum:f32"),
           MATH_DEFAULT, "no work");
    expect(FLOW("in x : f32[16,16]  in w : f32[16,16]  out y : f32[16,16]",
                "[i:16, j:16, k:16] { x[i,k] * w[k,j] -> y[i,j] max:f32"),
           MATH_DEFAULT, "no work");
    expect(FLOW("in x : f32[16,16]  in w : f32[16,16]  out y : f32[16,16]",
                "[i:16, j:16, k:16 | k <= i] { x[i,k] * w[k,j] -> y[i,j] sum:f32"),
           MATH_DEFAULT, "no work");
    expect(FLOW("in x : i8[16,16]  in w : i8[16,16]  out y : i32[16,16]",
                "[i:16, j:16, k:16] { i32(x[i,k]) * i32(w[k,j]) -> y[i,j] sum:i32"),
           MATH_DEFAULT, "no work");
}

Test(library, it_makes_what_takes_it_less) {
    expect(HALVES("1024", "f32(x[i,k]) * f32(w[k,j])"), MATH_DEFAULT,
           "1024 x 1024 x 1024, 1: along 0+1024 step 0; along 0+1024 step 0; along 0+1024 step 0 "
           "by own");
    expect(HALVES("2048", "f32(x[i,k]) * f32(w[k,j])"), MATH_DEFAULT,
           "2048 x 2048 x 2048, 1: along 0+2048 step 0; along 0+2048 step 0; along 0+2048 step 0 "
           "by cublaslt");
    const char *words = FLOW("in x : f32[2048,2048]  in w : f32[2048,2048]  out y : f32[2048,2048]",
                             "[i:2048, j:2048, k:2048] { x[i,k] * w[k,j] -> y[i,j] sum:f32");
    const char *own = "2048 x 2048 x 2048, 1: along 0+2048 step 0; along 0+2048 step 0; along "
                      "0+2048 step 0 by own";
    const char *by =
        "2048 x 2048 x 2048, 1: along 0+2048 step 0; along 0+2048 step 0; along 0+2048 "
        "step 0 by cublaslt";
    expect(words, MATH_DEFAULT, by);
    expect(words, MATH_FAST, by);
    expect(words, MATH_STRICT, own);
}

#define CONVOLUTION(x, w, y, reads, filters, results)                                              \
    FLOW("in x : f16[" x "]  in w : f16[" w "]  out y : f16[" y "]",                               \
         "[n:2, o:48, h:20, w:24, c:32, r:3, s:5] { f32(x[" reads ") * f32(w[" filters             \
         "]) -> y[" results "] sum:f32")
#define X "2,32,20,24"
#define W "48,32,3,5"
#define Y "2,48,20,24"
#define PADDED "n,c,h+r-1,w+s-2] else 0"
#define FIRST "0 2/15360 32/480 20/24 24/1"
#define WINDOWS "3 by 1, 1 apart, -1; 5 by 1, 1 apart, -2"
#define RESULTS "0 2/23040 48/480 20/24 24/1"

Test(library, windows_slide_along_two_dims) {
    expect(CONVOLUTION(X, W, Y, PADDED, "o,c,r,s", "n,o,h,w"), MATH_DEFAULT,
           FIRST "; " WINDOWS "; first from 0 in 1; " RESULTS " by own");
    expect(CONVOLUTION("2,32,40,70", W, Y, "n,c,2*h+r-1,3*w+2*s-4] else 0", "o,c,r,s", "n,o,h,w"),
           MATH_DEFAULT,
           "0 2/89600 32/2800 40/70 70/1; 3 by 2, 1 apart, -1; 5 by 3, 2 apart, -4; first from 0 "
           "in 1; " RESULTS " by own");
    expect(CONVOLUTION("2,40,22,28", W, Y, "n,c+8,h+r,w+s]", "o,c,r,s", "n,o,h,w"), MATH_DEFAULT,
           "4928 2/24640 32/616 22/28 28/1; 3 by 1, 1 apart, -0; 5 by 1, 1 apart, -0; first from "
           "0 in 1; " RESULTS " by own");
    expect(CONVOLUTION("2,32,30,32", W, Y, "n,c,h+r,w+s]", "o,c,r,s", "n,o,h,w"), MATH_DEFAULT,
           "0 2/30720 32/960 22/32 28/1; 3 by 1, 1 apart, -0; 5 by 1, 1 apart, -0; first from 0 "
           "in 1; " RESULTS " by own");
}

Test(library, channels_are_last_of_all_or_filters_first) {
    expect(CONVOLUTION("2,20,24,32", "48,3,5,32", "2,20,24,48", "n,h+r-1,w+s-2,c] else 0",
                       "o,r,s,c", "n,h,w,o"),
           MATH_DEFAULT,
           "0 2/15360 32/1 20/768 24/32; " WINDOWS
           "; last from 0 in 1; 0 2/23040 48/1 20/1152 24/48 by own");
    expect(CONVOLUTION("2,20,24,32", W, Y, "n,h+r-1,w+s-2,c] else 0", "o,c,r,s", "n,o,h,w"),
           MATH_DEFAULT,
           "0 2/15360 32/1 20/768 24/32; " WINDOWS "; first from 0 in 1; " RESULTS " by own");
    expect(CONVOLUTION(X, "48,3,5,32", Y, PADDED, "o,r,s,c", "n,o,h,w"), MATH_DEFAULT, "no work");
    expect(CONVOLUTION(X, "48,32,5,3", Y, PADDED, "o,c,s,r", "n,o,h,w"), MATH_DEFAULT, "no work");
    expect(CONVOLUTION(X, W, Y, PADDED, "o,c,2-r,4-s", "n,o,h,w"), MATH_DEFAULT, "no work");
}

Test(library, groups_have_their_own_channels) {
    expect(FLOW("in x : f32[24,9,9]  in w : f32[32,6,3,3]  out y : f32[32,9,9]",
                "[g:4, o:8, h:9, w:9, c:6, r:3, s:3] { (x[6*g+c,h+r-1,w+s-1] else 0) * "
                "w[8*g+o,c,r,s] -> y[8*g+o,h,w] sum:f32"),
           MATH_DEFAULT,
           "0 1/1944 24/81 9/9 9/1; 3 by 1, 1 apart, -1; 3 by 1, 1 apart, -1; first from 0 in 4; 0 "
           "1/2592 32/81 9/9 9/1 by own");
    expect(
        FLOW("in x : f32[3,24,90]  in w : f32[24,1,3]  out y : f32[3,24,90]",
             "[n:3, g:24, w:90, s:3] { (x[n,g,w+s-1] else 0) * w[g,0,s] -> y[n,g,w] sum:f32"),
        MATH_DEFAULT,
        "0 3/2160 24/90 1/90 90/1; 1 by 1, 1 apart, -0; 3 by 1, 1 apart, -1; first from 0 in 24; "
        "0 3/2160 24/90 1/90 90/1 by own");
    expect(FLOW("in x : f32[24,9,9]  in w : f32[32,6,3,3]  out y : f32[32,9,9]",
                "[g:4, o:8, h:9, w:9, c:6, r:3, s:3] { (x[4*c+g,h+r-1,w+s-1] else 0) * "
                "w[8*g+o,c,r,s] -> y[8*g+o,h,w] sum:f32"),
           MATH_DEFAULT, "no work");
}

#define ENDED(conts, root)                                                                         \
    FLOW("in x : f16[2,16,9,9]  in w : f16[32,16,3,3]  tmp t : f32[2,32,9,9]  out y : "            \
         "f16[2,32,9,9]  " conts,                                                                  \
         "[n:2, o:32, h:9, w:9, c:16, r:3, s:3] { f32(x[n,c,h+r-1,w+s-1] else 0) * "               \
         "f32(w[o,c,r,s]) -> t[n,o,h,w] sum:f32 }\n map q [n:2, o:32, h:9, w:9] { f16(" root       \
         ") -> y[n,o,h,w]")

Test(library, a_bias_has_an_element_for_each_channel) {
    expect(ENDED("in b : f16[48]", "t[n,o,h,w] + f32(b[o+16])"), MATH_DEFAULT,
           "0 2/1296 16/81 9/9 9/1; 3 by 1, 1 apart, -1; 3 by 1, 1 apart, -1; first from 0 in 1 + "
           "bias 16; 0 2/2592 32/81 9/9 9/1 by own");
    expect(ENDED("in b : f16[48]", "t[n,o,h,w] + f32(b[o+1])"), MATH_DEFAULT, "no work");
    expect(ENDED("in b : f32[32]", "t[n,o,h,w] + b[o]"), MATH_DEFAULT, "no work");
    expect(ENDED("in b : f16[32,9]", "t[n,o,h,w] + f32(b[o,w])"), MATH_DEFAULT, "no work");
    expect(ENDED("in b : f16[9]", "t[n,o,h,w] + f32(b[w])"), MATH_DEFAULT, "no work");
    expect(ENDED("in b : f16[48]", "t[n,o,h,w] + f32(b[o+w])"), MATH_DEFAULT, "no work");
}

#define ENDS(as)                                                                                   \
    "0 2/1296 16/81 9/9 9/1; 3 by 1, 1 apart, -1; 3 by 1, 1 apart, -1; first from 0 in 1" as       \
    "; 0 2/2592 32/81 9/9 9/1 by own"

Test(library, a_residual_lies_as_results_do) {
    expect(ENDED("in z : f16[2,32,9,9]", "t[n,o,h,w] + f32(z[n,o,h,w])"), MATH_DEFAULT,
           ENDS(" + 0"));
    expect(ENDED("in b : f16[32]  in z : f16[4,32,9,9]",
                 "f32(f16(t[n,o,h,w] + f32(b[o]))) + f32(z[n+2,o,h,w])"),
           MATH_DEFAULT, ENDS(" + bias 0 + 5184"));
    expect(ENDED("in z : f32[2,32,9,9]", "t[n,o,h,w] + z[n,o,h,w]"), MATH_DEFAULT, "no work");
    expect(ENDED("in z : f16[2,9,9,32]", "t[n,o,h,w] + f32(z[n,h,w,o])"), MATH_DEFAULT, "no work");
    expect(ENDED("in z : f16[2,32,9,10]", "t[n,o,h,w] + f32(z[n,o,h,w])"), MATH_DEFAULT, "no work");
    expect(ENDED("in z : f16[2,32,9,9]", "t[n,o,h,w] + f32(z[n,o,w,h])"), MATH_DEFAULT, "no work");
    expect(ENDED("in z : f16[2,33,9,9]", "t[n,o,h,w] + f32(z[n,o+1,h,w])"), MATH_DEFAULT,
           "no work");
    expect(ENDED("in z : f16[2,32,9,9]  in u : f16[2,32,9,9]",
                 "t[n,o,h,w] + f32(z[n,o,h,w]) + f32(u[n,o,h,w])"),
           MATH_DEFAULT, "no work");
}

Test(library, a_relu_may_come_last) {
    expect(ENDED("", "max(t[n,o,h,w], 0)"), MATH_DEFAULT, ENDS(", relu"));
    expect(ENDED("in b : f16[32]", "max(0, t[n,o,h,w] + f32(b[o]))"), MATH_DEFAULT,
           ENDS(" + bias 0, relu"));
    expect(ENDED("in b : f16[32]  in z : f16[2,32,9,9]",
                 "max(f32(f16(f32(z[n,o,h,w]) + f32(f16(t[n,o,h,w] + f32(b[o]))))), 0)"),
           MATH_DEFAULT, ENDS(" + bias 0 + 0, relu"));
    expect(ENDED("in z : f16[2,32,9,9]", "max(t[n,o,h,w], 0) + f32(z[n,o,h,w])"), MATH_DEFAULT,
           "no work");
    expect(ENDED("", "max(t[n,o,h,w], t[n,o,h,w] * 0.01)"), MATH_DEFAULT, "no work");
    expect(ENDED("", "max(t[n,o,h,w], 1)"), MATH_DEFAULT, "no work");
    expect(ENDED("", "max(1, t[n,o,h,w])"), MATH_DEFAULT, "no work");
    expect(ENDED("", "max(t[n,o,h,w], -0.0)"), MATH_DEFAULT, "no work");
    expect(ENDED("", "min(max(t[n,o,h,w], 0), 6)"), MATH_DEFAULT, "no work");
    expect(ENDED("", "min(t[n,o,h,w], 0)"), MATH_DEFAULT, "no work");
    expect(ENDED("", "max(max(t[n,o,h,w], 0), 0)"), MATH_DEFAULT, "no work");
}

#define CONVERTED                                                                                  \
    FLOW("in x : f16[2,16,9,9]  in w : f16[16,16,3,3]  param v : f32[16,16] @0  "                  \
         "param b : f32[16] @1024  param a : f32[16] @1088  tmp t : f32[2,16,9,9]  "               \
         "tmp u : f32[2,16,9,9]  tmp h : f32[2,16,9,9]  tmp s : f32[2,9,9,16]  "                   \
         "out y : f32[2,9,9,16]",                                                                  \
         "[n:2, o:16, h:9, w:9, c:16, r:3, s:3] { f32(x[n,c,h+r-1,w+s-1] else 0) * "               \
         "f32(w[o,c,r,s]) -> t[n,o,h,w] sum:f32 }\n"                                               \
         " map m [n:2, o:16, h:9, w:9] { t[n,o,h,w] + b[o] -> u[n,o,h,w] }\n"                      \
         " map l [n:2, o:16, h:9, w:9] { max(u[n,o,h,w], 0) -> h[n,o,h,w] }\n"                     \
         " map q [n:2, h:9, w:9, o:16, c:16] { h[n,c,h,w] * v[o,c] -> s[n,h,w,o] sum:f32 }\n"      \
         " map z [n:2, h:9, w:9, o:16] { s[n,h,w,o] + a[o] -> y[n,h,w,o]")

Test(library, biases_end_in_halves_as_results_do) {
    expect_of(&(Run){.text = CONVERTED, .convert = F16, .behind = 1},
              "0 2/1296 16/81 9/9 9/1; 3 by 1, 1 apart, -1; 3 by 1, 1 apart, -1; first from 0 in 1 "
              "+ bias 0, relu; 0 2/1296 16/81 9/9 9/1 by own");
    expect_of(&(Run){.text = CONVERTED, .convert = F16},
              "16 x 81 x 16, 2: across 0+16 step 0; across 0+81 step 1296 + bias 0; along 0+16 "
              "step 1296 by own");
}

Test(library, other_kernels_are_no_convolutions) {
    expect(CONVOLUTION(X, W, Y, "n,c,h+r,w+s-2] else 0", "o,c,r,s", "n,o,h,w"), MATH_DEFAULT,
           "no work");
    expect(CONVOLUTION(X, W, Y, "n,c,h+r-2,w+s-2] else 0", "o,c,r,s", "n,o,h,w"), MATH_DEFAULT,
           "no work");
    expect(CONVOLUTION(X, W, Y, "n,c,h+r-1,w+s-2] else 1", "o,c,r,s", "n,o,h,w"), MATH_DEFAULT,
           "no work");
    expect(CONVOLUTION(X, W, Y, "n,c+1,h+r-1,w+s-2] else 0", "o,c,r,s", "n,o,h,w"), MATH_DEFAULT,
           "no work");
    expect(CONVOLUTION(X, W, Y, "n,c,h-r+1,w+s-2] else 0", "o,c,r,s", "n,o,h,w"), MATH_DEFAULT,
           "no work");
    expect(FLOW("in x : f16[2,16,9,9]  in w : f16[32,16,3,3]  out y : f32[2,32,9,9]",
                "[n:2, o:32, h:9, w:9, c:16, r:3, s:3] { f32(x[n,c,h+r-1,w+s-1] else 0) * "
                "f32(w[o,c,r,s]) -> y[n,o,h,w] sum:f32"),
           MATH_DEFAULT, "no work");
    expect(FLOW("in x : f32[2,8,9,9,9]  in w : f32[8,8,3,3,3]  out y : f32[2,8,7,7,7]",
                "[n:2, o:8, d:7, h:7, w:7, c:8, q:3, r:3, s:3] { x[n,c,d+q,h+r,w+s] * w[o,c,q,r,s] "
                "-> y[n,o,d,h,w] sum:f32"),
           MATH_DEFAULT, "no work");
}

#define LARGE(n)                                                                                   \
    FLOW("in x : f32[" n ",128,56,56]  in w : f32[128,128,3,3]  out y : f32[" n ",128,56,56]",     \
         "[n:" n ", o:128, h:56, w:56, c:128, r:3, s:3] { (x[n,c,h+r-1,w+s-1] else 0) * "          \
         "w[o,c,r,s] -> y[n,o,h,w] sum:f32")
#define LARGE_IS(by)                                                                               \
    "0 32/401408 128/3136 56/56 56/1; 3 by 1, 1 apart, -1; 3 by 1, 1 apart, -1; first from 0 in "  \
    "1; 0 32/401408 128/3136 56/56 56/1 by " by

#define SMALL(n)                                                                                   \
    FLOW("in x : f32[" n ",16,14,14]  in w : f32[64,16,3,3]  out y : f32[" n ",64,14,14]",         \
         "[n:" n ", o:64, h:14, w:14, c:16, r:3, s:3] { (x[n,c,h+r-1,w+s-1] else 0) * "            \
         "w[o,c,r,s] -> y[n,o,h,w] sum:f32")
#define SMALL_IS(n, by)                                                                            \
    "0 " n "/3136 16/196 14/14 14/1; 3 by 1, 1 apart, -1; 3 by 1, 1 apart, -1; first from 0 in "   \
    "1; 0 " n "/12544 64/196 14/14 14/1 by " by

#define HALF(n, x, w, y, reads, filters, results, end)                                             \
    FLOW("in x : f16[" x "]  in w : f16[" w "]  tmp t : f32[" y "]  out y : f16[" y "]",           \
         "[n:" n ", o:128, h:56, w:56, c:128, r:3, s:3] { f32(x[" reads                            \
         "] else 0) * f32(w[" filters "]) -> t[" results "] sum:f32 }\n map q [n:" n               \
         ", o:128, h:56, w:56] { f16(" end ") -> y[" results "]")
#define HALF_FIRST(n, end)                                                                         \
    HALF(n, n ",128,56,56", "128,128,3,3", n ",128,56,56", "n,c,h+r-1,w+s-1", "o,c,r,s",           \
         "n,o,h,w", end)
#define HALF_LAST(n, end)                                                                          \
    HALF(n, n ",56,56,128", "128,3,3,128", n ",56,56,128", "n,h+r-1,w+s-1,c", "o,r,s,c",           \
         "n,h,w,o", end)
#define HALF_IS(n, filters, steps, relu, by)                                                       \
    "0 " n "/401408 " steps "; 3 by 1, 1 apart, -1; 3 by 1, 1 apart, -1; " filters                 \
    " from 0 in 1" relu "; 0 " n "/401408 " steps " by " by
#define STEPS_FIRST "128/3136 56/56 56/1"
#define STEPS_LAST "128/1 56/7168 56/128"

Test(library, what_comes_around_the_sums_is_weighed) {
    expect(HALF_FIRST("8", "t[n,o,h,w]"), MATH_DEFAULT,
           HALF_IS("8", "first", STEPS_FIRST, "", "own"));
    expect(HALF_LAST("8", "t[n,h,w,o]"), MATH_DEFAULT,
           HALF_IS("8", "last", STEPS_LAST, "", "cudnn"));
    expect(HALF_LAST("8", "max(t[n,h,w,o], 0)"), MATH_DEFAULT,
           HALF_IS("8", "last", STEPS_LAST, ", relu", "own"));
    expect(HALF_LAST("32", "max(t[n,h,w,o], 0)"), MATH_DEFAULT,
           HALF_IS("32", "last", STEPS_LAST, ", relu", "cudnn"));
}

Test(library, convolutions_go_where_they_take_less) {
    expect(SMALL("2"), MATH_DEFAULT, SMALL_IS("2", "own"));
    expect(SMALL("256"), MATH_DEFAULT, SMALL_IS("256", "cudnn"));
    expect(LARGE("32"), MATH_DEFAULT, LARGE_IS("cudnn"));
    expect(LARGE("32"), MATH_STRICT, LARGE_IS("own"));
    expect_by("library p own\n", LARGE("32"), MATH_DEFAULT, LARGE_IS("own"));
}
