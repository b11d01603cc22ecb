/* SPDX-License-Identifier: Apache-2.0 */
/* Flows evaluated against plain loops: contractions on the fast and on the general path, padding,
 * constraints, tuple combines, gathers, recurrences, loops, conditions; and how fast it is. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "ir/eval.h"

typedef struct Kit {
    Ctx *ctx;
    Arena *arena;
    Flow *flow;
    Code code;
    char message[512];
} Kit;

static void see(void *user, const Diag *diag) {
    Kit *k = user;
    k->code = diag->code;
    snprintf(k->message, sizeof k->message, "%s", diag->message);
    fprintf(stderr, "%s\n", diag->message);
}

static Kit *kit(void) {
    Kit *k = calloc(1, sizeof *k);
    k->ctx = ctx_new(see, k);
    k->arena = arena_new(k->ctx);
    k->flow = flow_new(k->arena, "t");
    return k;
}

static void done(Kit *k) {
    ctx_free(k->ctx);
    free(k);
}

static Dim num(Kit *k, int64_t v) {
    return dim_const(k->ctx, v);
}

static int cont(Kit *k, const char *name, ContKind kind, DType t, int rank, const int64_t *dim) {
    Dim shape[RANK_MAX];
    for (int i = 0; i < rank; i++) shape[i] = num(k, dim[i]);
    return flow_cont(k->flow, name, kind, t, shape, rank);
}

static Tensor tensor(Kit *k, int c, uint64_t seed) {
    const Cont *cont = &k->flow->cont.at[c];
    Tensor t = {.type = cont->type, .rank = cont->rank};
    for (int i = 0; i < t.rank; i++) cr_assert(dim_is_const(cont->shape[i], &t.dim[i]));
    t.data = arena_alloc(k->arena, (size_t)dtype_bytes(t.type, tensor_count(&t)) + 64);
    cont_random(cont, &t, seed);
    return t;
}

#define DIMS(...)                                                                                  \
    (int64_t[]) {                                                                                  \
        __VA_ARGS__                                                                                \
    }
#define AT(...)                                                                                    \
    (Dim[]) {                                                                                      \
        __VA_ARGS__                                                                                \
    }

/* Of processor time: other work on the machine does not count. */
static double seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void matmul(int m, int n, int kk, bool transposed, int threads, double least) {
    Kit *k = kit();
    int a = cont(k, "a", CONT_IN, F32, 2, DIMS(m, kk));
    int b = cont(k, "b", CONT_IN, F32, 2, transposed ? DIMS(n, kk) : DIMS(kk, n));
    int c = cont(k, "c", CONT_OUT, F32, 2, DIMS(m, n));
    Map *map = flow_map(k->flow, &k->flow->body, "mm", NULL);
    Dim i = map_dim(k->flow, map, "i", num(k, m)), j = map_dim(k->flow, map, "j", num(k, n));
    Dim r = map_dim(k->flow, map, "k", num(k, kk));
    int x = map_read(k->flow, map, a, AT(i, r));
    int y = map_read(k->flow, map, b, transposed ? AT(j, r) : AT(r, j));
    map_write(k->flow, map, c, AT(i, j), body_prim2(&map->body, P_MUL, x, y),
              combine_get(k->ctx, "sum", F32));
    Tensor in[2] = {tensor(k, a, 1), tensor(k, b, 2)}, out[1];
    double start = seconds();
    flow_eval(k->arena, k->flow, in, out, threads);
    double took = seconds() - start, gflops = 2e-9 * m * n * kk / took;
    const float *av = in[0].data, *bv = in[1].data, *cv = out[0].data;
    for (int q = 0; q < m; q++)
        for (int p = 0; p < n; p++) {
            double sum = 0;
            for (int s = 0; s < kk; s++)
                sum +=
                    (double)av[q * kk + s] * (double)(transposed ? bv[p * kk + s] : bv[s * n + p]);
            cr_assert_float_eq(cv[q * n + p], (float)sum, 1e-6 + 1e-6 * fabs(sum));
        }
    if (least > 0) {
        printf("matmul %dx%dx%d%s, %d threads: %.2f GFLOP/s\n", m, n, kk, transposed ? "^T" : "",
               threads, gflops);
        cr_assert(gflops > least || getenv("WEIR_UNTIMED"));
    }
    done(k);
}

Test(flow_eval, matmul) {
    matmul(7, 5, 3, false, 1, 0);
}
Test(flow_eval, matmul_row) {
    matmul(1, 700, 33, false, 1, 0);
}
Test(flow_eval, matmul_narrow) {
    matmul(33, 2, 129, true, 2, 0);
}
Test(flow_eval, matmul_fast) {
    matmul(384, 384, 512, false, 1, 1.0);
}
Test(flow_eval, matmul_transposed_fast) {
    matmul(384, 384, 512, true, 1, 1.0);
}
Test(flow_eval, matmul_threads) {
    matmul(384, 400, 128, false, 3, 0);
}

typedef struct Conv {
    int c, o, h, w, r, stride, pad;
} Conv;

/* `fused`: relu(x) is what is multiplied, so that the general path runs. */
static void conv(Conv p, bool fused, double least) {
    Kit *k = kit();
    int oh = (p.h + 2 * p.pad - p.r) / p.stride + 1, ow = (p.w + 2 * p.pad - p.r) / p.stride + 1;
    int x = cont(k, "x", CONT_IN, F32, 3, DIMS(p.c, p.h, p.w));
    int w = cont(k, "w", CONT_IN, F32, 4, DIMS(p.o, p.c, p.r, p.r));
    int y = cont(k, "y", CONT_OUT, F32, 3, DIMS(p.o, oh, ow));
    Map *m = flow_map(k->flow, &k->flow->body, "conv", NULL);
    Dim o = map_dim(k->flow, m, "o", num(k, p.o)), i = map_dim(k->flow, m, "i", num(k, oh));
    Dim j = map_dim(k->flow, m, "j", num(k, ow)), c = map_dim(k->flow, m, "c", num(k, p.c));
    Dim r = map_dim(k->flow, m, "r", num(k, p.r)), s = map_dim(k->flow, m, "s", num(k, p.r));
    Dim yy = dim_addc(k->ctx, dim_add(k->ctx, dim_mulc(k->ctx, i, p.stride), r), -p.pad);
    Dim xx = dim_addc(k->ctx, dim_add(k->ctx, dim_mulc(k->ctx, j, p.stride), s), -p.pad);
    int a = map_read_else(k->flow, m, x, AT(c, yy, xx), body_const(&m->body, F32, 0));
    if (fused) a = body_prim2(&m->body, P_MAX, a, body_const(&m->body, F32, 0));
    int b = map_read(k->flow, m, w, AT(o, c, r, s));
    map_write(k->flow, m, y, AT(o, i, j), body_prim2(&m->body, P_MUL, a, b),
              combine_get(k->ctx, "sum", F32));
    Tensor in[2] = {tensor(k, x, 1), tensor(k, w, 2)}, out[1];
    double start = seconds();
    flow_eval(k->arena, k->flow, in, out, 1);
    double gflops = 2e-9 * p.o * oh * ow * p.c * p.r * p.r / (seconds() - start);
    const float *xv = in[0].data, *wv = in[1].data, *yv = out[0].data;
    for (int n = 0; n < p.o * oh * ow; n++) {
        double sum = 0;
        for (int q = 0; q < p.c * p.r * p.r; q++) {
            int v = n / ow % oh * p.stride + q / p.r % p.r - p.pad,
                u = n % ow * p.stride + q % p.r - p.pad;
            if (v < 0 || v >= p.h || u < 0 || u >= p.w) continue;
            double e = xv[(q / p.r / p.r * p.h + v) * p.w + u];
            sum += (fused && e < 0 ? 0 : e) * (double)wv[n / ow / oh * p.c * p.r * p.r + q];
        }
        cr_assert_float_eq(yv[n], (float)sum, 1e-6 + 1e-6 * fabs(sum), "%d: %g %g", n, yv[n], sum);
    }
    if (least > 0) {
        printf("conv %d->%d %dx%d %dx%d%s: %.2f GFLOP/s\n", p.c, p.o, p.h, p.w, p.r, p.r,
               fused ? " of relu" : "", gflops);
        cr_assert(gflops > least || getenv("WEIR_UNTIMED"));
    }
    done(k);
}

Test(flow_eval, conv_small) {
    conv((Conv){3, 5, 9, 7, 3, 1, 1}, false, 0);
}
Test(flow_eval, conv_strided) {
    conv((Conv){3, 6, 15, 11, 3, 2, 1}, false, 0);
}
Test(flow_eval, conv_general) {
    conv((Conv){3, 6, 15, 11, 3, 2, 1}, true, 0);
}
Test(flow_eval, conv_fast) {
    conv((Conv){64, 64, 56, 56, 3, 1, 1}, false, 1.0);
}
Test(flow_eval, conv_late_fast) {
    conv((Conv){256, 256, 14, 14, 3, 1, 1}, false, 1.0);
}
Test(flow_eval, conv_of_expression) {
    conv((Conv){16, 16, 56, 56, 3, 1, 1}, true, 0.1);
}

/* Row i takes the largest of columns 0..i and where it first stands; NaN wins. */
Test(flow_eval, argmax_below_diagonal) {
    Kit *k = kit();
    int n = 37;
    int x = cont(k, "x", CONT_IN, F32, 2, DIMS(n, n));
    int v = cont(k, "v", CONT_OUT, F32, 1, DIMS(n)), a = cont(k, "a", CONT_OUT, I64, 1, DIMS(n));
    Map *m = flow_map(k->flow, &k->flow->body, "top", NULL);
    Dim i = map_dim(k->flow, m, "i", num(k, n)), j = map_dim(k->flow, m, "j", num(k, n));
    vec_push(k->arena, &m->cons, dim_sub(k->ctx, i, j));
    int read = map_read(k->flow, m, x, AT(i, j));
    map_write_tuple(k->flow, m, 2, (int[]){v, a}, (const Dim *[]){AT(i), AT(i)}, 2,
                    (int[]){read, body_index(&m->body, j)},
                    combine_get(k->ctx, "argmax_first", F32));
    Tensor in[1] = {tensor(k, x, 1)}, out[2];
    float *xv = in[0].data;
    xv[3 * n + 1] = xv[3 * n + 2] = 2;
    xv[9 * n + 4] = NAN;
    flow_eval(k->arena, k->flow, in, out, 2);
    for (int q = 0; q < n; q++) {
        int best = 0;
        for (int p = 1; p <= q; p++)
            if (!isnan(xv[q * n + best]) &&
                (xv[q * n + p] > xv[q * n + best] || isnan(xv[q * n + p])))
                best = p;
        cr_assert_eq(((int64_t *)out[1].data)[q], best, "row %d", q);
    }
    done(k);
}

static void reduce(const char *name, bool inner, int n, int kk) {
    Kit *k = kit();
    int x = cont(k, "x", CONT_IN, F32, 2, inner ? DIMS(n, kk) : DIMS(kk, n));
    int y = cont(k, "y", CONT_OUT, F32, 1, DIMS(n));
    Map *m = flow_map(k->flow, &k->flow->body, name, NULL);
    Dim i = NULL, r;
    if (inner) i = map_dim(k->flow, m, "i", num(k, n));
    r = map_dim(k->flow, m, "k", num(k, kk));
    if (!inner) i = map_dim(k->flow, m, "i", num(k, n));
    int v = map_read(k->flow, m, x, inner ? AT(i, r) : AT(r, i));
    map_write(k->flow, m, y, AT(i), v, combine_get(k->ctx, name, F32));
    Tensor in[1] = {tensor(k, x, 1)}, out[1];
    flow_eval(k->arena, k->flow, in, out, 2);
    const float *xv = in[0].data;
    for (int q = 0; q < n; q++) {
        double sum = 0;
        float max = -INFINITY, prod = 1;
        for (int p = 0; p < kk; p++) {
            float e = inner ? xv[q * kk + p] : xv[p * n + q];
            sum += (double)e, max = fmaxf(max, e), prod *= e;
        }
        double want = name[0] == 's' ? sum : name[0] == 'm' ? (double)max : (double)prod;
        cr_assert_float_eq(((float *)out[0].data)[q], (float)want, 1e-6, "%s %d", name, q);
    }
    done(k);
}

Test(flow_eval, sum_inner) {
    reduce("sum", true, 100, 1500);
}
Test(flow_eval, sum_outer) {
    reduce("sum", false, 100, 150);
}
Test(flow_eval, sum_wide) {
    reduce("sum", false, 3000, 3);
}
Test(flow_eval, sum_all) {
    reduce("sum", true, 1, 5000);
}
Test(flow_eval, max_inner) {
    reduce("max", true, 10, 1501);
}
Test(flow_eval, max_outer) {
    reduce("max", false, 2000, 7);
}
Test(flow_eval, prod_inner) {
    reduce("prod", true, 3, 40);
}
Test(flow_eval, prod_outer) {
    reduce("prod", false, 33, 40);
}
Test(flow_eval, empty_sum) {
    reduce("sum", true, 5, 0);
}

/* y[i] = x[ids[i]]; a row outside is an error that names it. */
static bool gather(Kit *k, int64_t last, float *y) {
    int x = cont(k, "table", CONT_IN, F32, 2, DIMS(10, 3));
    int ids = cont(k, "ids", CONT_IN, I64, 1, DIMS(4));
    int out = cont(k, "y", CONT_OUT, F32, 2, DIMS(4, 3));
    Map *m = flow_map(k->flow, &k->flow->body, "gather", "emb/Gather");
    Dim i = map_dim(k->flow, m, "i", num(k, 4)), j = map_dim(k->flow, m, "j", num(k, 3));
    Dim row = body_symbol(&m->body, map_read(k->flow, m, ids, AT(i)), "r");
    map_write(k->flow, m, out, AT(i, j), map_read(k->flow, m, x, AT(row, j)), NULL);
    Tensor in[2] = {tensor(k, x, 1), tensor(k, ids, 2)}, result[1];
    for (int q = 0; q < 30; q++) ((float *)in[0].data)[q] = (float)q;
    memcpy(in[1].data, DIMS(9, 0, 4, last), 32);
    flow_eval(k->arena, k->flow, in, result, 1);
    memcpy(y, result[0].data, 48);
    return true;
}

typedef struct Attempt {
    Kit *k;
    float y[12];
} Attempt;

static void gather_bad(void *at) {
    Attempt *a = at;
    gather(a->k, 10, a->y);
}

Test(flow_eval, gather) {
    Kit *k = kit();
    float y[12];
    gather(k, 1, y);
    cr_assert(y[0] == 27 && y[5] == 2 && y[6] == 12 && y[11] == 5);
    done(k);
}

Test(flow_eval, gather_outside) {
    Attempt a = {.k = kit()};
    cr_assert(!ctx_try(a.k->ctx, gather_bad, &a));
    cr_assert_eq(a.k->code, E_RUN);
    cr_assert(strstr(a.k->message, "10") && strstr(a.k->message, "table"));
    done(a.k);
}

/* h[t+1,i] = h[t,i] * 0.5 + x[t,i], h[0] = 0: a recurrence inside one container. */
Test(flow_eval, recurrence) {
    Kit *k = kit();
    int t = 9, n = 5;
    int x = cont(k, "x", CONT_IN, F32, 2, DIMS(t, n));
    int h = cont(k, "h", CONT_OUT, F32, 2, DIMS(t + 1, n));
    Map *z = flow_map(k->flow, &k->flow->body, "zero", NULL);
    Dim i0 = map_dim(k->flow, z, "i", num(k, n));
    map_write(k->flow, z, h, AT(num(k, 0), i0), body_const(&z->body, F32, 0), NULL);
    Map *m = flow_map(k->flow, &k->flow->body, "step", NULL);
    Dim tt = map_dim(k->flow, m, "t", num(k, t)), i = map_dim(k->flow, m, "i", num(k, n));
    m->dim.at[0].seq = true;
    int old = map_read(k->flow, m, h, AT(tt, i)), in_x = map_read(k->flow, m, x, AT(tt, i));
    int half = body_prim2(&m->body, P_MUL, old, body_const(&m->body, F32, 0.5));
    map_write(k->flow, m, h, AT(dim_addc(k->ctx, tt, 1), i),
              body_prim2(&m->body, P_ADD, half, in_x), NULL);
    Tensor in[1] = {tensor(k, x, 1)}, out[1];
    flow_eval(k->arena, k->flow, in, out, 2);
    for (int q = 0; q < n; q++) {
        float v = 0;
        for (int s = 0; s < t; s++) {
            v = v * 0.5f + ((float *)in[0].data)[s * n + q];
            cr_assert_eq(((float *)out[0].data)[(s + 1) * n + q], v);
        }
    }
    done(k);
}

/* Overlapping sums: y[i+j] += x[i]*w[j]. */
Test(flow_eval, scatter_sum) {
    Kit *k = kit();
    int x = cont(k, "x", CONT_IN, F32, 1, DIMS(50)), w = cont(k, "w", CONT_IN, F32, 1, DIMS(7));
    int y = cont(k, "y", CONT_OUT, F32, 1, DIMS(56));
    Map *m = flow_map(k->flow, &k->flow->body, "spread", NULL);
    Dim i = map_dim(k->flow, m, "i", num(k, 50)), j = map_dim(k->flow, m, "j", num(k, 7));
    int a = map_read(k->flow, m, x, AT(i)), b = map_read(k->flow, m, w, AT(j));
    map_write(k->flow, m, y, AT(dim_add(k->ctx, i, j)), body_prim2(&m->body, P_MUL, a, b),
              combine_get(k->ctx, "sum", F32));
    Tensor in[2] = {tensor(k, x, 1), tensor(k, w, 2)}, out[1];
    flow_eval(k->arena, k->flow, in, out, 2);
    for (int q = 0; q < 56; q++) {
        double sum = 0;
        for (int p = 0; p < 7; p++)
            if (q - p >= 0 && q - p < 50)
                sum += (double)((float *)in[0].data)[q - p] * (double)((float *)in[1].data)[p];
        cr_assert_float_eq(((float *)out[0].data)[q], (float)sum, 1e-6);
    }
    done(k);
}

/* Dims are bound by the inputs and checked against each other. */
static void bind(void *at) {
    Kit *k = at;
    Dim n = dim_sym(k->ctx, "N"), twice = dim_mulc(k->ctx, n, 2);
    vec_push(k->arena, &k->flow->symbol, (Symbol){n, 1, INT64_MAX, NULL});
    flow_cont(k->flow, "x", CONT_IN, F32, &twice, 1);
    flow_cont(k->flow, "z", CONT_IN, F32, &n, 1);
    float data[8] = {0};
    Tensor in[2] = {{.type = F32, .rank = 1, .dim = {6}, .data = data},
                    {.type = F32, .rank = 1, .dim = {4}, .data = data}};
    flow_eval(k->arena, k->flow, in, NULL, 1);
}

Test(flow_eval, inputs_disagree) {
    Kit *k = kit();
    cr_assert(!ctx_try(k->ctx, bind, k));
    cr_assert_eq(k->code, E_INPUT);
    cr_assert(strstr(k->message, "\""));
    done(k);
}
