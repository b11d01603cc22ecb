/* SPDX-License-Identifier: Apache-2.0 */
/* How near to the machine's peak does the emitter's code come? Emits the register-tile nest of a
 * GEMM (tiles of 8 x 48, B in panels of 48 columns), compiles it as the toolchain would, checks the
 * result against a plain loop and times it beside a loop of nothing but fused multiply-adds.
 *
 *     gemm_tile [compiler] [M N K]
 *
 * prints GFLOP/s, the peak measured in the same run, and their ratio; exits 1 when a result is
 * wrong. */
#include "compiler/embedded.h"
#include "compiler/targets/c/c_nest.h"
#include "compiler/targets/c/target.h"

#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MR = 8, NV = 3, LANES = 16, NR = NV * LANES };

typedef struct Task {
    int64_t lo, hi;
    char *scratch;
    int32_t bad;
} Task;

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* ---- the nest -------------------------------------------------------------------------------- */

static Dim k_of(Ctx *ctx, int64_t v) {
    return dim_const(ctx, v);
}

static Dim tile(Ctx *ctx, Dim i, int64_t size, Dim in) {
    return dim_add(ctx, dim_mulc(ctx, i, size), in);
}

static Access at(Arena *a, int buf, int rank, Dim x, Dim y, Dim z) {
    Dim *d = NEW_ARRAY(a, Dim, 3);
    d[0] = x, d[1] = y, d[2] = z;
    return (Access){buf, rank, d};
}

static Stmts *lanes_of(Nest *nest, Stmts *into, Dim m, Dim n, Dim l) {
    Ctx *ctx = nest->ctx;
    into = &nest_for(nest, into, m, k_of(ctx, MR), LOOP_UNROLL)->body;
    into = &nest_for(nest, into, n, k_of(ctx, NV), LOOP_UNROLL)->body;
    return &nest_for(nest, into, l, k_of(ctx, LANES), LOOP_VECTOR)->body;
}

static Nest *gemm(Arena *a, int64_t M, int64_t N, int64_t K) {
    Ctx *ctx = arena_ctx(a);
    Nest *nest = nest_new(a, "gemm");
    Dim i = dim_sym(ctx, "i"), j = dim_sym(ctx, "j"), k = dim_sym(ctx, "k"), m = dim_sym(ctx, "m"),
        n = dim_sym(ctx, "n"), l = dim_sym(ctx, "l");
    Dim xs[] = {k_of(ctx, M), k_of(ctx, K)},
        ws[] = {k_of(ctx, N / NR), k_of(ctx, K), k_of(ctx, NR)},
        ys[] = {k_of(ctx, M), k_of(ctx, N)},
        hs[] = {k_of(ctx, MR), k_of(ctx, NV), k_of(ctx, LANES)};
    int x = nest_buf(nest, "x", BUF_MEMORY, F32, xs, 2),
        w = nest_buf(nest, "w", BUF_MEMORY, F32, ws, 3),
        y = nest_buf(nest, "y", BUF_MEMORY, F32, ys, 2),
        h = nest_buf(nest, "h", BUF_REG, F32, hs, 3);
    Stmts *into = &nest_for(nest, &nest->body, j, k_of(ctx, N / NR), LOOP_PARALLEL)->body;
    into = &nest_for(nest, into, i, k_of(ctx, M / MR), LOOP_PARALLEL)->body;
    nest_decl(nest, into, h)->has_init = true;
    Stmt *loop = nest_for(nest, into, k, k_of(ctx, K), LOOP_SEQ);
    Access next = at(a, w, 3, dim_addc(ctx, j, 1),
                     dim_div(ctx, tile(ctx, i, K, k), k_of(ctx, M / MR)), k_of(ctx, 0));
    nest_stmt(nest, &loop->body, STMT_PREFETCH)->at = next;
    Stmt *s = nest_body(nest, lanes_of(nest, &loop->body, m, n, l));
    Access acc = at(a, h, 3, m, n, l);
    int p = body_read(&s->code, at(a, x, 2, tile(ctx, i, MR, m), k, NULL), F32);
    int q = body_read(&s->code, at(a, w, 3, j, k, tile(ctx, n, LANES, l)), F32);
    int v = body_prim3(&s->code, P_FMA, p, q, body_read(&s->code, acc, F32));
    vec_push(a, &s->store, (Store){acc, v});
    s = nest_body(nest, lanes_of(nest, into, m, n, l));
    Dim column = tile(ctx, j, NR, tile(ctx, n, LANES, l));
    vec_push(
        a, &s->store,
        (Store){at(a, y, 2, tile(ctx, i, MR, m), column, NULL), body_read(&s->code, acc, F32)});
    return nest;
}

/* ---- building -------------------------------------------------------------------------------- */

static const char *peak_text =
    "void peak(float *x, i64 n);\n"
    "VECTOR_WIDTH(512) void peak(float *x, i64 n) {\n"
    " v16f32 r[12], a = *(v16f32u *)x, b = *(v16f32u *)(x + 16);\n"
    "#define EACH(F) F(0) F(1) F(2) F(3) F(4) F(5) F(6) F(7) F(8) F(9) F(10) F(11)\n"
    "#define SET(i) v16f32 r##i = a + (float)i;\n#define STEP(i) r##i = fma_v16f32(r##i, a, b);\n"
    "#define SUM(i) a += r##i;\n"
    " (void)r; EACH(SET) for (i64 i = 0; i < n; i++) { EACH(STEP) } EACH(SUM) *(v16f32u *)x = "
    "a;\n}\n";

static void *build(Arena *a, const Machine *m, const Nest *nest, const char *cc) {
    CKernel *k = emit_nest(a, nest, NULL, m, &c_form);
    Text body = {.arena = a}, out = {.arena = a};
    text_printf(&body,
                "%s#define main_kernel VECTOR_WIDTH(512) void "
                "kernel\n__attribute__((visibility(\"default\"))) "
                "main_kernel%s",
                peak_text, k->phase.at[0].text);
    text_put(&out, embedded_text("compiler/targets/c/prelude.h"));
    helpers_emit(target_c_helpers(a), &out, text_str(&body));
    text_put(&out, text_str(&body));
    FILE *f = fopen("/tmp/weir_gemm_tile.c", "w");
    if (!f) return NULL;
    fputs(text_str(&out), f);
    fclose(f);
    Text command = {.arena = a};
    text_printf(&command, "%s -O2 -fPIC -shared -o /tmp/weir_gemm_tile.so /tmp/weir_gemm_tile.c",
                cc);
    for (const char *const *flag = target_c_flags(a, m); *flag; flag++)
        text_printf(&command, " %s", *flag);
    return system(text_str(&command)) == 0 ? dlopen("/tmp/weir_gemm_tile.so", RTLD_NOW) : NULL;
}

/* ---- measuring ------------------------------------------------------------------------------- */

typedef void GemmFn(const float *x, const float *w, float *y, Task *task);
typedef void PeakFn(float *x, int64_t n);

static double wrong(const float *x, const float *w, const float *y, int64_t M, int64_t N,
                    int64_t K) {
    double worst = 0;
    for (int64_t i = 0; i < M; i++)
        for (int64_t j = 0; j < N; j++) {
            double sum = 0;
            for (int64_t k = 0; k < K; k++)
                sum += (double)x[i * K + k] * w[(j / NR * K + k) * NR + j % NR];
            worst = fmax(worst, fabs(sum - y[i * N + j]));
        }
    return worst;
}

static float *filled(int64_t n) {
    float *p = aligned_alloc(64, (size_t)(n * 4 + 63) / 64 * 64);
    for (int64_t i = 0; p && i < n; i++) p[i] = (float)((i * 7919) % 1000) / 1000 - 0.5f;
    return p;
}

int main(int argc, char **argv) {
    const char *cc = argc > 1 ? argv[1] : "clang-19";
    int64_t M = argc > 4 ? atoll(argv[2]) : 128, N = argc > 4 ? atoll(argv[3]) : 768,
            K = argc > 4 ? atoll(argv[4]) : 768;
    Ctx *ctx = ctx_new(NULL, NULL);
    Arena *a = arena_new(ctx);
    Machine m;
    target_c_machine(ctx, &m, "native");
    void *so = build(a, &m, gemm(a, M, N, K), cc);
    if (!so) return 2;
    GemmFn *kernel = (GemmFn *)dlsym(so, "kernel");
    PeakFn *peak = (PeakFn *)dlsym(so, "peak");
    float *x = filled(M * K), *w = filled((N + NR) * K), *y = filled(M * N);
    Task task = {0, N / NR * (M / MR), NULL, 0};
    kernel(x, w, y, &task);
    double off = wrong(x, w, y, M, N, K), best = 1e9, top = 0;
    float seed[32] = {0};
    for (int r = 0; r < 40; r++) {
        double t0 = now();
        kernel(x, w, y, &task);
        double t1 = now();
        peak(seed, 1 << 19);
        double t2 = now();
        best = fmin(best, t1 - t0);
        top = fmax(top, 12.0 * 32 * (1 << 19) / (t2 - t1));
    }
    double rate = 2.0 * (double)(M * N * K) / best;
    printf("%s %lldx%lldx%lld: %.1f GFLOP/s, peak %.1f, %.1f %%, worst error %g\n", cc,
           (long long)M, (long long)N, (long long)K, rate * 1e-9, top * 1e-9, 100 * rate / top,
           off);
    ctx_free(ctx);
    return off < 1e-3 ? 0 : 1;
}
