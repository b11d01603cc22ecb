/* SPDX-License-Identifier: Apache-2.0 */
/* What `clean` leaves and what `fuse` joins: which maps there are, which share a kernel. That the
 * values stay is test_passes.c's matter. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "ir/file.h"
#include "passes/pass.h"

static const Machine machine = {.name = "test",
                                .on = "cpu",
                                .vector_bytes = 64,
                                .vector_regs = 32,
                                .fma_flops = 1e11,
                                .cores = 2,
                                .nlevels = 4,
                                .level = {{"L1", 48 << 10, 1e11, false},
                                          {"L2", 2 << 20, 5e10, false},
                                          {"L3", 32 << 20, 2e10, true},
                                          {"memory", INT64_MAX, 5e9, true}}};

typedef struct Run {
    const char *text, *until;
    char got[4096]; /* the maps, or the kernels: names with blanks, a bar after each kernel, a
                      star after a map with constraints */
    char message[512];
    Ctx *ctx;
} Run;

static void show(void *user, const Diag *d) {
    Run *r = user;
    snprintf(r->message, sizeof r->message, "%.500s", d->message);
}

static void add(Run *r, const char *name, const char *after) {
    size_t n = strlen(r->got);
    snprintf(r->got + n, sizeof r->got - n, "%s%s", name, after);
}

static void run(void *arg) {
    Run *r = arg;
    IrFile *file = ir_file_parse(arena_new(r->ctx), NULL, r->text);
    PassEnv env = {.machine = &machine, .ops = NULL, .math = MATH_DEFAULT};
    PassOptions options = {.verify_each = true, .stop_after = r->until};
    const Flow *f = passes_run(r->ctx, (Stage){.flow = file->flow.at[0]}, &env, &options).flow;
    for (int k = 0; k < f->kernel.n; k++)
        for (int i = 0; i < f->kernel.at[k]->map.n; i++)
            add(r, f->map.at[f->kernel.at[k]->map.at[i]]->name,
                i + 1 < f->kernel.at[k]->map.n ? " " : " | ");
    for (int m = 0; m < f->map.n && !f->kernel.n; m++)
        add(r, f->map.at[m]->name, f->map.at[m]->cons.n ? "* " : " ");
}

static void expect(const char *text, const char *until, const char *want) {
    Run *r = &(Run){.text = text, .until = until};
    r->ctx = ctx_new(show, r);
    cr_assert(ctx_try(r->ctx, run, r), "%s", r->message);
    cr_expect_str_eq(r->got, want, "after %s: \"%s\", not \"%s\"", until, r->got, want);
    ctx_free(r->ctx);
}

static const char chain[] =
    "flow chain {\n"
    "  in x : f32[40,50]  tmp t : f32[50,40]  tmp a : f32[50,40]  tmp b : f32[50,40]\n"
    "  out y : f32[50,40]\n"
    "  map turn [i:50, j:40] { x[j,i] -> t[i,j] }\n"
    "  map p [i:50, j:40] { t[i,j] * 2 -> a[i,j] }\n"
    "  map q [i:50, j:40] { exp(a[i,j]) -> b[i,j] }\n"
    "  map r [i:50, j:40] { b[i,j] + 1 -> y[i,j] }\n"
    "}\n";

Test(fuse, clean_composes_views_and_leaves_what_computes) {
    expect(chain, "clean", "p q r ");
}

Test(fuse, a_chain_becomes_one_map) {
    expect(chain, "fuse", "r | ");
}

/* The mask is made of two vectors and read by two maps: cheaper to make it again than to read it;
 * not so where it takes an exponential and its readers are many, nor where it reads as much. */
static const char shared[] = "flow shared {\n"
                             "  in u : f32[500]  in v : f32[400]  in x : f32[400,500]  in w : "
                             "f32[400,500]  tmp m : f32[400,500]\n"
                             "  tmp s : f32[400,500]  out y : f32[400,500]  out z : f32[400,500]\n"
                             "  map mask [i:400, j:500] { u[j] + v[i] -> m[i,j] }\n"
                             "  map half [i:400, j:500] { x[i,j] * w[i,j] -> s[i,j] }\n"
                             "  map p [i:400, j:500] { s[i,j] * m[i,j] -> y[i,j] }\n"
                             "  map q [i:400, j:500] { s[i,j] / m[i,j] -> z[i,j] }\n"
                             "}\n";

Test(fuse, what_is_cheap_to_make_again_moves_into_all_readers) {
    expect(shared, "fuse", "half p | q | ");
}

/* Attention over S steps behind a mask: what the mask adds beyond its end, where it ends, and how
 * the scores come to it are given. */
static const char *attention(const char *mask, const char *beyond) {
    static _Thread_local char text[2048];
    snprintf(text, sizeof text,
             "flow attention {\n"
             "  in q : f32[4,256,64]  in k : f32[4,64,256]  in v : f32[4,256,64]\n"
             "  tmp c : f32[256,256]  tmp s0 : f32[4,256,256]  tmp s1 : f32[4,256,256]\n"
             "  tmp m : f32[4,256]  tmp e : f32[4,256,256]  tmp l : f32[4,256]\n"
             "  tmp p : f32[4,256,256]  out o : f32[256,256]\n"
             "  map mk [i:256, j:256] { select(%s, f32(0.0), f32(%s)) -> c[i,j] }\n"
             "  map qk [b:4, i:256, j:256, d:64] { q[b,i,d] * k[b,d,j] -> s0[b,i,j] sum:f32 }\n"
             "  map sc [b:4, i:256, j:256] { s0[b,i,j] * 0.125 + c[i,j] -> s1[b,i,j] }\n"
             "  map mx [b:4, i:256, j:256] { s1[b,i,j] -> m[b,i] max:f32 }\n"
             "  map ex [b:4, i:256, j:256] { exp(s1[b,i,j] - m[b,i]) -> e[b,i,j] }\n"
             "  map sm [b:4, i:256, j:256] { e[b,i,j] -> l[b,i] sum:f32 }\n"
             "  map dv [b:4, i:256, j:256] { e[b,i,j] / l[b,i] -> p[b,i,j] }\n"
             "  map pv [b:4, i:256, d:64, j:256] { p[b,i,j] * v[b,j,d] -> o[i,64*b+d] sum:f32 }\n"
             "}\n",
             mask, beyond);
    return text;
}

Test(fuse, attention_is_one_kernel_over_rows) {
    expect(attention("i >= j", "-inf"), "fuse", "qk sc mx ex sm dv.rate dv pv | ");
}

Test(fuse, a_mask_that_leaves_nothing_beyond_a_column_ends_domains) {
    expect(attention("i >= j", "-inf"), "mask", "qk* sc* mx* ex* sm* dv* pv* ");
    expect(attention("i >= j", "-0x1p120"), "mask", "qk* sc* mx* ex* sm* dv* pv* ");
}

Test(fuse, other_masks_end_nothing) {
    expect(attention("i <= j", "-inf"), "mask", "qk sc mx ex sm dv pv ");
    expect(attention("i > j", "-inf"), "mask", "qk sc mx ex sm dv pv ");
    expect(attention("i >= j", "-1000.0"), "mask", "qk sc mx ex sm dv pv ");
}

static const char *softmax(const char *n) {
    static _Thread_local char text[1024];
    snprintf(text, sizeof text,
             "flow softmax {\n"
             "  in x : f32[8,%s]  tmp m : f32[8]  tmp e : f32[8,%s]  tmp l : f32[8]\n"
             "  out y : f32[8,%s]\n"
             "  map mx [i:8, j:%s] { x[i,j] -> m[i] max:f32 }\n"
             "  map ex [i:8, j:%s] { exp(x[i,j] - m[i]) -> e[i,j] }\n"
             "  map sm [i:8, j:%s] { e[i,j] -> l[i] sum:f32 }\n"
             "  map dv [i:8, j:%s] { e[i,j] / l[i] -> y[i,j] }\n"
             "}\n",
             n, n, n, n, n, n, n);
    return text;
}

Test(fuse, rows_from_memory_take_two_passes) {
    expect(softmax("1000"), "online", "mx ex sm dv ");
    expect(softmax("1000"), "fuse", "mx ex sm dv.rate dv | ");
    expect(softmax("200000"), "online", "mx ex sm dv ");
    expect(softmax("8000000"), "online", "mx dv ");
}
