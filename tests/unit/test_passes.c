/* SPDX-License-Identifier: Apache-2.0 */
/* Every pass against the evaluator: what a flow computes before and after each pass of the
 * pipeline, on random data, for shapes that leave tails everywhere, for wide and narrow vectors,
 * whole and with every optional pass left out. Sums may be reordered and lose f64 accumulation, so
 * floats agree to 1e-4 of the output's largest magnitude. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "ir/file.h"
#include "passes/pass.h"

static const char *const texts[] = {
    "flow decoded { in x : u8[9,40] in z : u8[] param w : i8[40,33]\n"
    "  tmp a : f32[9,40] tmp b : f32[40,33] out y : f32[9,33]\n"
    "  map da [i:9, k:40] { f32(i32(x[i,k]) - i32(z[])) * 0x1p-4 -> a[i,k] }\n"
    "  map db [k:40, j:33] { f32(i32(w[k,j])) * 0x1p-3 -> b[k,j] }\n"
    "  map mm [i:9, j:33, k:40] { a[i,k] * b[k,j] -> y[i,j] sum:f32 } }\n",
    /* a product with an epilogue, odd sizes */
    "flow gemm {\n"
    "  in x : f32[13,37]  param w : f32[37,50]  param b : f32[50]\n"
    "  tmp h : f32[13,50]  out y : f32[13,50]\n"
    "  map mm [i:13, j:50, k:37] { a <- x[i,k]  c <- w[k,j]  a * c -> h[i,j] sum:f32 }\n"
    "  map act [i:13, j:50] { t = h[i,j] + b[j]  0.5 * t * (1 + erf(t * 0.70710678)) -> y[i,j] }\n"
    "}\n",
    /* the same with symbolic rows, and weights the other way round */
    "flow gemm_rows (N in 1..64) {\n"
    "  in x : f32[N,20]  param w : f32[100,20]  tmp h : f32[N,100]  out y : f32[N,100]\n"
    "  map mm [i:N, j:100, k:20] { a <- x[i,k]  c <- w[j,k]  a * c -> h[i,j] sum:f32 }\n"
    "  map act [i:N, j:100] { max(h[i,j], 0) -> y[i,j] }\n"
    "}\n",
    /* rows of two unknown sizes, the batch second */
    "flow merged_rows (N in 1..64, S in 1..64) {\n"
    "  in x : f32[S,N,20]  param w : f32[40,20]  tmp h : f32[S,N,40]  out y : f32[S,N,40]\n"
    "  map mm [s:S, n:N, j:40, k:20] { x[s,n,k] * w[j,k] -> h[s,n,j] sum:f32 }\n"
    "  map act [a:S, b:N, j:40] { max(h[a,b,j], 0) -> y[a,b,j] }\n"
    "}\n",
    /* two convolutions, the first from a dense input, strided, channels that fill no block */
    "flow convs {\n"
    "  in x : f32[1,3,17,15]  param k0 : f32[24,3,3,3]  param k1 : f32[40,24,3,3]\n"
    "  tmp c0 : f32[1,24,17,15]  tmp t : f32[1,24,17,15]  tmp c1 : f32[1,40,9,8]  out y : "
    "f32[1,40,9,8]\n"
    "  map a [n:1, o:24, h:17, v:15, c:3, r:3, s:3] {\n"
    "    i = x[n,c,h+r-1,v+s-1] else 0\n    w <- k0[o,c,r,s]\n    i * w -> c0[n,o,h,v] sum:f32 }\n"
    "  map ra [n:1, o:24, h:17, v:15] { max(c0[n,o,h,v], 0) -> t[n,o,h,v] }\n"
    "  map b [n:1, o:40, h:9, v:8, c:24, r:3, s:3] {\n"
    "    i = t[n,c,2*h+r-1,2*v+s-1] else 0\n    w <- k1[o,c,r,s]\n    i * w -> c1[n,o,h,v] sum:f32 "
    "}\n"
    "  map rb [n:1, o:40, h:9, v:8] { max(c1[n,o,h,v], 0) -> y[n,o,h,v] }\n"
    "}\n",
    /* depthwise behind an expansion, then a mean over the image */
    "flow depthwise {\n"
    "  in x : f32[1,16,9,9]  param we : f32[32,16]  param wd : f32[32,3,3]\n"
    "  tmp e : f32[1,32,9,9]  tmp t : f32[1,32,9,9]  tmp d : f32[1,32,9,9]  tmp g : f32[1,32]  out "
    "y : f32[1,32]\n"
    "  map expand [n:1, o:32, h:9, v:9, c:16] { x[n,c,h,v] * we[o,c] -> e[n,o,h,v] sum:f32 }\n"
    "  map clip [n:1, o:32, h:9, v:9] { min(max(e[n,o,h,v], 0), 6) -> t[n,o,h,v] }\n"
    "  map dw [n:1, o:32, h:9, v:9, r:3, s:3] {\n"
    "    i = t[n,o,h+r-1,v+s-1] else 0\n    i * wd[o,r,s] -> d[n,o,h,v] sum:f32 }\n"
    "  map mean [n:1, o:32, h:9, v:9] { d[n,o,h,v] -> g[n,o] sum:f32 }\n"
    "  map scale [n:1, o:32] { g[n,o] / 81 -> y[n,o] }\n"
    "}\n",
    /* pooling with another value outside than the convolution beside it */
    "flow pools {\n"
    "  in x : f32[1,20,11,11]  param k : f32[20,20,3,3]  tmp t : f32[1,20,11,11]\n"
    "  out y : f32[1,20,11,11]  out z : f32[1,20,6,6]\n"
    "  map pre [n:1, c:20, h:11, v:11] { x[n,c,h,v] * 2 -> t[n,c,h,v] }\n"
    "  map conv [n:1, o:20, h:11, v:11, c:20, r:3, s:3] {\n"
    "    i = t[n,c,h+r-1,v+s-1] else 0\n    i * k[o,c,r,s] -> y[n,o,h,v] sum:f32 }\n"
    "  map pool [n:1, c:20, h:6, v:6, r:3, s:3] { i = t[n,c,2*h+r-1,2*v+s-1] else -inf\n    i -> "
    "z[n,c,h,v] max:f32 }\n"
    "}\n",
    /* softmax and a normalisation over rows, symbolic length */
    "flow rows (S in 1..80) {\n"
    "  in x : f32[5,S]  tmp m : f32[5]  tmp e : f32[5,S]  tmp l : f32[5]  tmp p : f32[5,S]\n"
    "  tmp u : f32[5]  tmp q : f32[5]  out y : f32[5,S]\n"
    "  map mx [i:5, j:S] { x[i,j] -> m[i] max:f32 }\n"
    "  map ex [i:5, j:S] { exp(x[i,j] - m[i]) -> e[i,j] }\n"
    "  map sm [i:5, j:S] { e[i,j] -> l[i] sum:f32 }\n"
    "  map dv [i:5, j:S] { e[i,j] / l[i] -> p[i,j] }\n"
    "  map mu [i:5, j:S] { p[i,j] -> u[i] sum:f32 }\n"
    "  map sq [i:5, j:S] { d = p[i,j] - u[i]  d * d -> q[i] sum:f32 }\n"
    "  map nm [i:5, j:S] { (p[i,j] - u[i]) / sqrt(q[i] + 0.001) -> y[i,j] }\n"
    "}\n",
    /* softmax of rows longer than a small cache holds, both ways round */
    "flow long_rows {\n"
    "  in x : f32[5,300]  tmp m : f32[5]  tmp e : f32[5,300]  tmp l : f32[5]  out y : f32[300,5]\n"
    "  map mx [i:5, j:300] { x[i,j] -> m[i] max:f32 }\n"
    "  map ex [i:5, j:300] { exp(x[i,j] - m[i]) -> e[i,j] }\n"
    "  map sm [j:300, i:5] { e[i,j] -> l[i] sum:f32 }\n"
    "  map dv [j:300, i:5] { e[i,j] / l[i] -> y[j,i] }\n"
    "}\n",
    /* the same behind a causal mask that is known when compiling: domains end */
    "flow masked {\n"
    "  in q : f32[2,64,8]  in k : f32[2,64,8]  in v : f32[2,64,8]  tmp c : f32[1,64,64]\n"
    "  tmp s0 : f32[2,64,64]  tmp s1 : f32[2,64,64]  tmp m : f32[2,64]  tmp e : f32[2,64,64]\n"
    "  tmp l : f32[2,64]  tmp p : f32[2,64,64]  out o : f32[64,16]\n"
    "  map mk [i:64, j:64] { select(i >= j, f32(0.0), f32(-0x1p127)) -> c[0,i,j] }\n"
    "  map qk [b:2, i:64, j:64, d:8] { q[b,i,d] * k[b,j,d] -> s0[b,i,j] sum:f32 }\n"
    "  map sc [b:2, i:64, j:64] { s0[b,i,j] * 0.25 + c[0,i,j] -> s1[b,i,j] }\n"
    "  map mx [b:2, i:64, j:64] { s1[b,i,j] -> m[b,i] max:f32 }\n"
    "  map ex [b:2, i:64, j:64] { exp(s1[b,i,j] - m[b,i]) -> e[b,i,j] }\n"
    "  map sm [b:2, i:64, j:64] { e[b,i,j] -> l[b,i] sum:f32 }\n"
    "  map dv [b:2, i:64, j:64] { e[b,i,j] / l[b,i] -> p[b,i,j] }\n"
    "  map pv [b:2, i:64, d:8, j:64] { p[b,i,j] * v[b,j,d] -> o[i,8*b+d] sum:f32 }\n"
    "}\n",
    /* attention: scores, softmax, values */
    "flow attention (S in 1..80) {\n"
    "  in q : f32[3,S,16]  in k : f32[3,S,16]  in v : f32[3,S,16]\n"
    "  tmp s0 : f32[3,S,S]  tmp s1 : f32[3,S,S]  tmp m : f32[3,S]  tmp e : f32[3,S,S]  tmp l : "
    "f32[3,S]\n"
    "  tmp p : f32[3,S,S]  out o : f32[3,S,16]\n"
    "  map qk [g:3, i:S, j:S, d:16] { q[g,i,d] * k[g,j,d] -> s0[g,i,j] sum:f32 }\n"
    "  map sc [g:3, i:S, j:S] { s0[g,i,j] * 0.25 -> s1[g,i,j] }\n"
    "  map mx [g:3, i:S, j:S] { s1[g,i,j] -> m[g,i] max:f32 }\n"
    "  map ex [g:3, i:S, j:S] { exp(s1[g,i,j] - m[g,i]) -> e[g,i,j] }\n"
    "  map sm [g:3, i:S, j:S] { e[g,i,j] -> l[g,i] sum:f32 }\n"
    "  map dv [g:3, i:S, j:S] { e[g,i,j] / l[g,i] -> p[g,i,j] }\n"
    "  map pv [g:3, i:S, d:16, j:S] { p[g,i,j] * v[g,j,d] -> o[g,i,d] sum:f32 }\n"
    "}\n",
    /* views: merge, split, transpose, concatenation, a slice */
    "flow views (N in 1..64) {\n"
    "  in x : f32[N,6,8]  tmp a : f32[6,N,8]  tmp b : f32[6,N,2,4]  tmp c : f32[6,N,4]  tmp d : "
    "f32[N,48]\n"
    "  tmp f : f32[6,N,8]  out y : f32[6,N,12]  out z : f32[N,48]\n"
    "  map t0 [i:6, n:N, j:8] { x[n,i,j] -> a[i,n,j] }\n"
    "  map t1 [i:6, n:N, u:2, w:4] { a[i,n,4*u+w] -> b[i,n,u,w] }\n"
    "  map t2 [i:6, n:N, w:4] { b[i,n,1,w] -> c[i,n,w] }\n"
    "  map t3 [i:6, n:N, j:8] { a[i,n,j] * 3 -> f[i,n,j] }\n"
    "  map t4 [i:6, n:N, w:4] { c[i,n,w] -> y[i,n,w] }\n"
    "  map t5 [i:6, n:N, j:8] { f[i,n,j] -> y[i,n,j+4] }\n"
    "  map t6 [n:N, p:48] { x[n,p/8,p%8] -> d[n,p] }\n"
    "  map t7 [n:N, p:48] { max(d[n,p], 0) -> z[n,p] }\n"
    "}\n",
    /* a gather behind arithmetic, an argmax, integer sums */
    "flow indices {\n"
    "  in ids : i64[7] in 0..8  in e : f32[9,21]  tmp g : f32[7,21]  out y : f32[7,21]\n"
    "  tmp v : f32[7]  out at : i64[7]  out n : i32[21]\n"
    "  map ga [i:7, j:21] { r <- ids[i]  a <- e[r,j]  a + 1 -> g[i,j] }\n"
    "  map up [i:7, j:21] { g[i,j] * 2 -> y[i,j] }\n"
    "  map am [i:7, j:21] { (g[i,j], j) -> (v[i], at[i]) argmax_first:f32 }\n"
    "  map ct [j:21, i:7] { i32(g[i,j]) -> n[j] sum:i32 }\n"
    "}\n",
    /* a recurrence: state over time, both its steps read elsewhere */
    "flow recurrent {\n"
    "  in x : f32[4,3,10]  param wx : f32[20,10]  param wh : f32[20,20]\n"
    "  tmp gx : f32[4,3,20]  tmp gh : f32[3,20]  state h : f32[5,3,20]  out y : f32[4,3,20]\n"
    "  map zero [n:3, j:20] { 0 -> h[0,n,j] }\n"
    "  map gxm [s:4, n:3, j:20, k:10] { x[s,n,k] * wx[j,k] -> gx[s,n,j] sum:f32 }\n"
    "  loop t:4 {\n"
    "    map ghm [n:3, j:20, k:20] { h[t,n,k] * wh[j,k] -> gh[n,j] sum:f32 }\n"
    "    map up [n:3, j:20] { tanh(gx[t,n,j] + gh[n,j]) -> h[t+1,n,j] }\n"
    "  }\n"
    "  map last [s:4, n:3, j:20] { h[s+1,n,j] -> y[s,n,j] }\n"
    "}\n",
    /* a cell: gates of one weight matrix, read at every unit by the map that ends the step */
    "flow cell (N in 1..64) {\n"
    "  in x : f32[6,N,66]  param w : f32[2,66,22]  tmp gh : f32[N,3,22]\n"
    "  state h : f32[7,N,22]  state c : f32[7,N,22]  out y : f32[6,N,22]\n"
    "  map h0 [n:N, j:22] { 0 -> h[0,n,j] }\n"
    "  map c0 [n:N, j:22] { 0.5 -> c[0,n,j] }\n"
    "  loop t:6 {\n"
    "    map gates [n:N, g:3, j:22, k:22] { h[t,n,k] * w[1,22*g+j,k] -> gh[n,g,j] sum:f32 }\n"
    "    map step [n:N, j:22] {\n"
    "      u = tanh(gh[n,0,j] + x[t,n,j]) * c[t,n,j] + tanh(gh[n,1,j] + x[t,n,j+22])\n"
    "      v = u * tanh(gh[n,2,j] + x[t,n,j+44])\n"
    "      u -> c[t+1,n,j]\n      v -> h[t+1,n,j]\n      v -> y[5-t,n,j]\n    }\n"
    "  }\n"
    "}\n",
};
enum { TEXTS = sizeof texts / sizeof *texts };

static const Machine wide = {.name = "wide",
                             .on = "cpu",
                             .vector_bytes = 64,
                             .vector_regs = 32,
                             .cores = 2,
                             .nlevels = 3,
                             .level = {{"L1", 48 << 10, 1e11, false},
                                       {"L2", 1 << 20, 5e10, false},
                                       {"L3", 32 << 20, 2e10, true}}};
static const Machine narrow = {.name = "narrow",
                               .on = "cpu",
                               .vector_bytes = 32,
                               .vector_regs = 16,
                               .fma_flops = 1e12,
                               .cores = 2,
                               .nlevels = 3,
                               .level = {{"L1", 1 << 10, 1e11, false},
                                         {"L2", 4 << 10, 5e10, false},
                                         {"L3", 32 << 20, 2e10, true}}};

typedef struct Run {
    Ctx *ctx;
    const char *text;
    const Machine *machine;
    const char *skip;
    int64_t size; /* of every symbol */
    int nin, nout;
    Tensor in[16], want[16];
    char message[512];
} Run;

static void show(void *user, const Diag *d) {
    Run *r = user;
    if (!r->message[0]) snprintf(r->message, sizeof r->message, "%.500s", d->message);
}

static bool size_of(void *user, Dim sym, int64_t *value) {
    (void)sym;
    *value = ((Run *)user)->size;
    return true;
}

static void make_inputs(Run *r, Arena *arena, const Flow *flow) {
    for (int i = 0; i < flow->cont.n; i++) {
        const Cont *c = &flow->cont.at[i];
        r->nout += c->kind == CONT_OUT;
        if (c->kind != CONT_IN) continue;
        Tensor *t = &r->in[r->nin++];
        *t = (Tensor){.type = c->type, .rank = c->rank};
        for (int k = 0; k < c->rank; k++) dim_eval(c->shape[k], size_of, r, &t->dim[k]);
        t->data = arena_alloc(arena, (size_t)dtype_bytes(c->type, tensor_count(t)) + 64);
        cont_random(c, t, (uint64_t)i + 1);
    }
}

static void compare(Run *r, const Tensor *got, const char *pass) {
    for (int o = 0; o < r->nout; o++) {
        double most = 1e-6, worst = 0;
        for (int64_t i = 0; i < tensor_count(&r->want[o]); i++) {
            double w =
                bits_to_double(r->want[o].type, mem_get(r->want[o].type, r->want[o].data, i));
            double g = bits_to_double(got[o].type, mem_get(got[o].type, got[o].data, i));
            if (fabs(w) > most) most = fabs(w);
            if (isnan(g) != isnan(w) || fabs(g - w) > worst)
                worst = isnan(g) != isnan(w) ? INFINITY : fabs(g - w);
        }
        bool exact = !dtype_is_float(r->want[o].type);
        cr_expect(exact ? worst == 0 : worst <= 1e-4 * most,
                  "%.20s on %s, size %ld, without %s: output %d is off by %g of %g after %s",
                  r->text, r->machine->name, (long)r->size, r->skip ? r->skip : "nothing", o, worst,
                  most, pass);
    }
}

static void watch(void *user, const Pass *pass, const Stage *stage, double seconds) {
    Run *r = user;
    (void)seconds;
    if (!pass) return;
    Arena *arena = arena_new(r->ctx);
    Tensor out[16] = {0};
    if (stage->flow)
        flow_eval(arena, stage->flow, r->in, out, 1);
    else if (stage->program)
        program_eval(arena, stage->program, r->in, out);
    compare(r, out, pass->name);
    arena_free(arena);
}

static void run(void *arg) {
    Run *r = arg;
    Arena *arena = arena_new(r->ctx);
    IrFile *file = ir_file_parse(arena, NULL, r->text);
    make_inputs(r, arena, file->flow.at[0]);
    flow_eval(arena, file->flow.at[0], r->in, r->want, 1);
    PassEnv env = {.machine = r->machine, .ops = NULL, .math = MATH_DEFAULT};
    PassOptions options = {
        .verify_each = true, .watch = watch, .user = r, .skip = &r->skip, .nskip = r->skip != NULL};
    passes_run(r->ctx, (Stage){.flow = file->flow.at[0]}, &env, &options);
}

static void run_one(const char *text, const Machine *machine, int64_t size, const char *skip) {
    Run r = {.text = text, .machine = machine, .size = size, .skip = skip};
    r.ctx = ctx_new(show, &r);
    bool ok = ctx_try(r.ctx, run, &r);
    cr_expect(ok, "%.20s on %s, without %s: %s", text, machine->name, skip ? skip : "nothing",
              r.message);
    ctx_free(r.ctx);
}

static int sizes_of(const char *text) {
    return strchr(text, '(') < strchr(text, '{') ? 3 : 1;
}

static const int64_t sizes[] = {1, 7, 33};

Test(passes, agree) {
    for (int t = 0; t < TEXTS; t++)
        for (int s = 0; s < sizes_of(texts[t]); s++) {
            run_one(texts[t], &wide, sizes[s], NULL);
            run_one(texts[t], &narrow, sizes[s], NULL);
        }
}

/* On wide and narrow vectors and of all sizes by turns. */
Test(passes, agree_without_each_optional_pass) {
    int n;
    const Pass *pass = pass_list(&n);
    for (int i = 0; i < n; i++)
        for (int t = 0; t < TEXTS && pass[i].optional && pass[i].level == LEVEL_FLOW; t++) {
            int turn = i + t, s = turn / 2 % sizes_of(texts[t]);
            run_one(texts[t], turn % 2 ? &wide : &narrow, sizes[s], pass[i].name);
        }
}

/* ---- what passes decide ---------------------------------------------------------------------- */

static const char *text_named(const char *start) {
    for (int t = 0; t < TEXTS; t++)
        if (!strncmp(texts[t], start, strlen(start))) return texts[t];
    cr_assert(false, "no text starts with %s", start);
    return NULL;
}

typedef struct Decided {
    Ctx *ctx;
    const char *text, *pass;
    const Machine *machine;
    MathMode math;
    const char *got; /* the flow after the pass */
} Decided;

static void decide(void *arg) {
    Decided *d = arg;
    Arena *arena = arena_new(d->ctx);
    IrFile *file = ir_file_parse(arena, NULL, d->text);
    PassEnv env = {.machine = d->machine, .ops = NULL, .math = d->math};
    PassOptions options = {.stop_after = d->pass, .verify_each = true};
    Stage stage = passes_run(d->ctx, (Stage){.flow = file->flow.at[0]}, &env, &options);
    Text out = {.arena = arena};
    flow_print(&out, stage.flow);
    d->got = text_str(&out);
}

/* The text of the flow that `text` is after a pass holds all of these. */
static void expect_on(const Machine *machine, MathMode math, const char *pass, const char *text,
                      const char *const *parts) {
    Run r = {0};
    Decided d = {ctx_new(show, &r), text, pass, machine, math, NULL};
    cr_assert(ctx_try(d.ctx, decide, &d), "%s", r.message);
    for (; *parts; parts++)
        cr_expect(strstr(d.got, *parts), "no \"%s\" after %s:\n%s", *parts, pass, d.got);
    ctx_free(d.ctx);
}

static void expect_in(MathMode math, const char *pass, const char *text, const char *const *parts) {
    expect_on(&wide, math, pass, text, parts);
}

static void expect_after(const char *pass, const char *text, const char *const *parts) {
    expect_in(MATH_DEFAULT, pass, text, parts);
}

/* A step of a cell is one kernel: the same units of all gates in registers, their weights in panels
 * that start with every gate. */
Test(passes, cell_is_one_kernel) {
    static const char *const parts[] = {
        "param w : f32[2, 3, 22, 22] layout [_0, _1, _2, _3] -> (_0, _2/32, _3, _1, _2%32)",
        "= gates step on cpu", "gates keep gh reg", "unroll gates.n gates.g gates.j", NULL};
    expect_after("schedule", text_named("flow cell"), parts);
}

/* Where two vectors of four gates would leave registers for one row, panels have one vector; all
 * four gates' vectors are held for the rows of a tile. */
Test(passes, gates_leave_room_for_rows) {
    static const char text[] =
        "flow four {\n  in x : f32[6,9,128]  param w : f32[128,32]  tmp gh : f32[9,4,32]\n"
        "  state h : f32[7,9,32]  out y : f32[6,9,32]\n"
        "  map h0 [n:9, j:32] { 0 -> h[0,n,j] }\n  loop t:6 {\n"
        "    map gates [n:9, g:4, j:32, k:32] { h[t,n,k] * w[32*g+j,k] -> gh[n,g,j] sum:f32 }\n"
        "    map step [n:9, j:32] {\n"
        "      u = gh[n,0,j] * gh[n,1,j] + tanh(gh[n,2,j] + x[t,n,j]) * gh[n,3,j]\n"
        "      u -> h[t+1,n,j]\n      u -> y[t,n,j]\n    }\n  }\n}\n";
    static const char *const few[] = {"(_1/8, _2, _0, _1%8)", "tile j:8 n:2", NULL};
    static const char *const many[] = {"(_1/32, _2, _0, _1%32)", NULL};
    expect_on(&narrow, MATH_DEFAULT, "schedule", text, few);
    expect_on(&wide, MATH_DEFAULT, "schedule", text, many);
}

/* A vector of sums of f64 takes two registers. */
Test(passes, sums_of_doubles_fit) {
    static const char text[] =
        "flow f {\n  in x : f64[40,64]  param w : f64[64,48]  out y : f64[40,48]\n"
        "  map mm [i:40, j:48, k:64] { x[i,k] * w[k,j] -> y[i,j] sum:f64 }\n}\n";
    static const char *const few[] = {"(_1/8, _0, _1%8)", "tile j:8 i:5", NULL};
    static const char *const many[] = {"(_1/32, _0, _1%32)", "tile i:5 j:32", NULL};
    expect_on(&narrow, MATH_DEFAULT, "schedule", text, few);
    expect_on(&wide, MATH_DEFAULT, "schedule", text, many);
}

/* Blocks of rows that all panels pass are equal, unless others make up for it. */
Test(passes, blocks_of_rows_are_equal) {
    static const char text[] =
        "flow f {\n  in x : f32[%d,197,3072]  param w : f32[3072,768]  out y : f32[%d,197,768]\n"
        "  map mm [b:%d, i:197, j:768, k:3072] { x[b,i,k] * w[k,j] -> y[b,i,j] sum:f32 }\n}\n";
    static const char *const alone[] = {"tile i:66 j:16", NULL};
    static const char *const eight[] = {"tile b:2 i:54 j:16", NULL};
    char one[sizeof text], more[sizeof text];
    snprintf(one, sizeof one, text, 1, 1, 1);
    snprintf(more, sizeof more, text, 8, 8, 8);
    expect_on(&narrow, MATH_STRICT, "schedule", one, alone);
    expect_on(&narrow, MATH_STRICT, "schedule", more, eight);
}

/* A product of matrices, for the test that asks. */
static const char *product(int rows, int terms, int columns) {
    static char text[256];
    snprintf(text, sizeof text,
             "flow f {\n  in x : f32[%d,%d]  param w : f32[%d,%d]  out y : f32[%d,%d]\n"
             "  map mm [i:%d, j:%d, k:%d] { x[i,k] * w[k,j] -> y[i,j] sum:f32 }\n}\n",
             rows, terms, terms, columns, rows, columns, rows, columns, terms);
    return text;
}

/* Rows that the inner cache does not hold are cut where panels stay in it, or are less to be read
 * again for each block than rows for each panel. */
Test(passes, rows_are_cut_where_less_is_read_again) {
    static const struct {
        int rows, terms, columns;
        const char *const parts[2];
    } of[] = {{3136, 128, 256, {"tile i:784 j:32"}}, {1500, 384, 1536, {"tile i:300 j:32"}},
              {512, 512, 768, {"tile i:259 j:32"}},  {320, 512, 3072, {"tile j:32 i:7"}},
              {512, 3072, 768, {"tile j:32 i:7"}},   {300, 384, 1536, {"tile j:32 i:6"}}};
    for (size_t k = 0; k < sizeof of / sizeof *of; k++)
        expect_on(&wide, MATH_STRICT, "schedule", product(of[k].rows, of[k].terms, of[k].columns),
                  of[k].parts);
}

/* Rows of many terms, which the inner cache does not hold while panels pass, make up for what their
 * sums and differences take. */
Test(passes, rows_read_again_are_worth_quarters) {
    static const Machine server = {.name = "server",
                                   .on = "cpu",
                                   .vector_bytes = 64,
                                   .vector_regs = 32,
                                   .fma_flops = 170e9,
                                   .cores = 2,
                                   .nlevels = 4,
                                   .level = {{"L1", 48 << 10, 369e9, false},
                                             {"L2", 2 << 20, 144e9, false},
                                             {"L3", 32 << 20, 29e9, true},
                                             {"memory", INT64_MAX, 16e9, true}}};
    static const char *const seven[] = {"map mm.p [t:7", NULL}, *const plain[] = {"x[i, k]", NULL};
    expect_on(&server, MATH_DEFAULT, "algorithm", product(128, 3072, 768), seven);
    expect_on(&server, MATH_DEFAULT, "algorithm", product(80, 3072, 768), plain);
}

/* Rows known only at run time are joined, in the product and in what follows it. */
Test(passes, unknown_rows_are_merged) {
    static const char *const parts[] = {"merge (mm.s, mm.n)", "merge (a, b)", "tile b:8 j:32",
                                        "parallel b j", NULL};
    expect_after("schedule", text_named("flow merged_rows"), parts);
}

/* So are places of a small plane where a tile has fewer rows than one of its dims. */
Test(passes, small_planes_are_merged) {
    static const char text[] =
        "flow f {\n  in x : f32[24,7,7]  param w : f32[40,24]  out y : f32[40,7,7]\n"
        "  map mm [o:40, h:7, l:7, c:24] { x[c,h,l] * w[o,c] -> y[o,h,l] sum:f32 }\n}\n";
    static const char *const few[] = {"merge (h, l)", NULL};
    static const char *const many[] = {"tile o:32 h:2", "unroll o h l", NULL};
    expect_on(&narrow, MATH_DEFAULT, "schedule", text, few);
    expect_on(&wide, MATH_DEFAULT, "schedule", text, many);
}

/* Sums of decoded codes are sums of integers, but not in strict mode. */
Test(passes, decoded_sums_are_integers) {
    static const char *const parts[] = {"sum:i32", "f32(t0) * 0x1p-7 -> y", NULL};
    static const char *const strict[] = {"t0 * t1 -> y[i, j] sum:f32", NULL};
    expect_after("quantize", text_named("flow decoded"), parts);
    expect_in(MATH_STRICT, "quantize", text_named("flow decoded"), strict);
}

/* Domains end where a mask does, but not in strict mode: values that are not finite would show. */
Test(passes, masked_domains_end) {
    static const char *const parts[] = {"map sc [b:2, i:64, j:64 |", NULL};
    static const char *const strict[] = {"map sc [b:2, i:64, j:64] {", NULL};
    expect_after("mask", text_named("flow masked"), parts);
    expect_in(MATH_STRICT, "mask", text_named("flow masked"), strict);
}
