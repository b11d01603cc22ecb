/* SPDX-License-Identifier: Apache-2.0 */
/* What a host may do with a compiled model's arguments and weights: a cache and its new rows in one
 * buffer, weights packed at create, weights swapped by name. */
#include <criterion/criterion.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "compiler/weir.h"

typedef struct Bench {
    char folder[64], said[4096];
    weir_context *c;
    weir_loaded *l;
    const weir_model *m;
    weir_pool *pool;
    weir_instance *in;
} Bench;

static void see(void *user, const weir_diagnostic *d) {
    Bench *b = user;
    if (d->severity < 2) snprintf(b->said, sizeof b->said, "%s", d->text);
}

static const char *path_in(const Bench *b, const char *name) {
    static char path[8][256];
    static int next;
    char *p = path[next++ % 8];
    snprintf(p, 256, "%s/%s", b->folder, name);
    return p;
}

static Bench *bench_new(void) {
    Bench *b = calloc(1, sizeof *b);
    strcpy(b->folder, "/tmp/weir-test-XXXXXX");
    cr_assert(mkdtemp(b->folder));
    setenv("XDG_CACHE_HOME", path_in(b, "cache"), 1);
    b->c = weir_context_new(see, b);
    return b;
}

static void create(Bench *b, int threads) {
    char error[256] = "";
    b->pool = threads > 1 ? b->m->pool_new(threads) : NULL;
    cr_assert(weir_create(b->m, b->pool, &b->in, error) == WEIR_OK, "%s", error);
}

static void load_text(Bench *b, const char *text, int threads) {
    FILE *f = fopen(path_in(b, "model.ir"), "w");
    cr_assert(f && fputs(text, f) >= 0 && fclose(f) == 0);
    b->l = weir_load_file(b->c, path_in(b, "model.ir"));
    cr_assert(b->l, "%s", b->said);
    b->m = weir_loaded_model(b->l);
    create(b, threads);
}

static void bench_free(Bench *b) {
    char command[256];
    if (b->in) weir_destroy(b->m, b->in);
    if (b->pool) b->m->pool_free(b->pool);
    weir_unload(b->l);
    weir_context_free(b->c);
    snprintf(command, sizeof command, "rm -rf %s", b->folder);
    cr_assert(system(command) == 0);
    free(b);
}

/* ---- a cache and its new rows ---------------------------------------------------------------- */

static const char decode_text[] =
    "flow decode (P in 0..) {\n"
    "  in  past : f32[1,2,P,8]\n"
    "  in  knew : f32[1,2,1,8]\n"
    "  in  q    : f32[1,6,1,8]\n"
    "  out pres : f32[1,2,P+1,8]\n"
    "  out s    : f32[1,6,P+1]\n"
    "  map old [n:1, g:2, t:P, d:8] { past[n,g,t,d] -> pres[n,g,t,d] }\n"
    "  map add [n:1, g:2, d:8] { knew[n,g,0,d] -> pres[n,g,P,d] }\n"
    "  map qk [n:1, h:6, t:P+1, d:8] { q[n,h,0,d] * pres[n,h/3,t,d] -> s[n,h,t] sum:f32 }\n"
    "}\n";

enum { HEADS = 2, WIDTH = 8, ROWS = 256, CACHE = HEADS * ROWS * WIDTH };

typedef struct Decode {
    float dense[2][CACHE], knew[HEADS * WIDTH], q[6 * WIDTH], s[2][6 * ROWS];
    weir_tensor in[3], out[2];
    int64_t strides[4];
} Decode;

static float sample(int64_t i) {
    return (float)((i * 2654435761u >> 7) % 1000) * 0.013f - 6.0f;
}

static weir_tensor cache(float *data, int64_t rows) {
    return (weir_tensor){
        .data = data, .dtype = WEIR_F32, .rank = 4, .dims = {1, HEADS, rows, WIDTH}};
}

static Decode *decode_new(void) {
    Decode *d = calloc(1, sizeof *d);
    for (int i = 0; i < HEADS * WIDTH; i++) d->knew[i] = sample(i);
    for (int i = 0; i < 6 * WIDTH; i++) d->q[i] = sample(1000 + i);
    d->in[1] = cache(d->knew, 1);
    d->in[2] = (weir_tensor){.data = d->q, .dtype = WEIR_F32, .rank = 4, .dims = {1, 6, 1, WIDTH}};
    int64_t strides[] = {CACHE, ROWS * WIDTH, WIDTH, 1};
    memcpy(d->strides, strides, sizeof strides);
    return d;
}

/* The dense contract: past and present have memory of their own. */
static void run_dense(Bench *b, Decode *d, int64_t rows, const float *buffer) {
    for (int h = 0; h < HEADS; h++)
        memcpy(d->dense[0] + h * rows * WIDTH, buffer + h * ROWS * WIDTH,
               (size_t)(rows * WIDTH) * sizeof(float));
    d->in[0] = cache(d->dense[0], rows);
    d->out[0] = (weir_tensor){.data = d->dense[1], .capacity = CACHE};
    d->out[1] = (weir_tensor){.data = d->s[0], .capacity = 6 * ROWS};
    cr_assert(weir_run(b->m, b->in, d->in, d->out) == WEIR_OK, "%s", b->m->error(b->in));
}

static weir_status run_bound(Bench *b, Decode *d, int64_t rows, float *buffer) {
    d->in[0] = cache(buffer, rows);
    d->in[0].strides = d->strides;
    d->out[0] = (weir_tensor){.data = buffer, .capacity = CACHE, .strides = d->strides};
    d->out[1] = (weir_tensor){.data = d->s[1], .capacity = 6 * ROWS};
    return weir_run(b->m, b->in, d->in, d->out);
}

static void compare(const Decode *d, int64_t rows, const float *buffer) {
    for (int h = 0; h < HEADS; h++)
        cr_expect_arr_eq(d->dense[1] + h * (rows + 1) * WIDTH, buffer + h * ROWS * WIDTH,
                         (size_t)((rows + 1) * WIDTH) * sizeof(float), "rows %d", (int)rows);
    cr_expect_arr_eq(d->s[0], d->s[1], (size_t)(6 * (rows + 1)) * sizeof(float));
}

Test(shared, one_buffer_gives_the_same_bits) {
    for (int threads = 1; threads <= 2; threads++) {
        Bench *b = bench_new();
        Decode *d = decode_new();
        float *buffer = calloc(CACHE, sizeof *buffer);
        load_text(b, decode_text, threads);
        cr_assert(b->m->nshared == 1 && b->m->shared[0].input == 0 && b->m->shared[0].output == 0 &&
                  b->m->shared[0].dim == 2);
        for (int64_t rows = 0; rows < 20; rows++) {
            for (int i = 0; i < HEADS * WIDTH; i++) d->knew[i] = sample(rows * 77 + i);
            run_dense(b, d, rows, buffer);
            cr_assert(run_bound(b, d, rows, buffer) == WEIR_OK, "%s", b->m->error(b->in));
            compare(d, rows, buffer);
        }
        cr_expect(run_bound(b, d, ROWS, buffer) == WEIR_E_CAPACITY);
        free(buffer);
        free(d);
        bench_free(b);
    }
}

/* Pages that hold old rows only are read-only: who copied them would be killed. */
Test(shared, only_new_rows_are_written) {
    Bench *b = bench_new();
    Decode *d = decode_new();
    load_text(b, decode_text, 2);
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    int64_t rows = (int64_t)(page / (WIDTH * sizeof(float)));
    if (rows * 2 == ROWS) {
        char *at = mmap(NULL, CACHE * sizeof(float), PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        cr_assert(at != MAP_FAILED);
        for (int i = 0; i < CACHE; i++) ((float *)at)[i] = sample(i);
        run_dense(b, d, rows, (float *)at);
        for (int h = 0; h < HEADS; h++) mprotect(at + (size_t)(2 * h) * page, page, PROT_READ);
        cr_assert(run_bound(b, d, rows, (float *)at) == WEIR_OK, "%s", b->m->error(b->in));
        compare(d, rows, (float *)at);
    }
    free(d);
    bench_free(b);
}

/* Rows to spare on one side only: rows are copied, past what is there. */
Test(shared, buffers_of_different_room) {
    Bench *b = bench_new();
    Decode *d = decode_new();
    load_text(b, decode_text, 1);
    float *from = calloc(CACHE, sizeof *from), *to = calloc(CACHE, sizeof *to);
    for (int i = 0; i < CACHE; i++) from[i] = sample(i), to[i] = -1;
    run_dense(b, d, 9, from);
    d->in[0] = cache(from, 9);
    d->in[0].strides = d->strides;
    int64_t less[] = {0, 11 * WIDTH, WIDTH, 1};
    d->out[0] = (weir_tensor){.data = to, .capacity = CACHE, .strides = less};
    d->out[1].data = d->s[1];
    cr_assert(weir_run(b->m, b->in, d->in, d->out) == WEIR_OK, "%s", b->m->error(b->in));
    for (int h = 0; h < HEADS; h++) {
        cr_expect_arr_eq(d->dense[1] + h * 10 * WIDTH, to + h * 11 * WIDTH, 80 * sizeof(float));
        cr_expect(to[h * 11 * WIDTH + 80] == -1);
    }
    cr_expect_arr_eq(d->s[0], d->s[1], 60 * sizeof(float));
    free(from);
    free(to);
    free(d);
    bench_free(b);
}

Test(shared, what_is_not_bound_may_not_overlap) {
    Bench *b = bench_new();
    Decode *d = decode_new();
    float *buffer = calloc(CACHE, sizeof *buffer);
    load_text(b, decode_text, 1);
    run_bound(b, d, 4, buffer);
    d->in[0].strides = NULL;
    cr_assert(weir_run(b->m, b->in, d->in, d->out) == WEIR_E_ARGUMENT);
    cr_expect(strstr(b->m->error(b->in), "\"pres\" overlaps input \"past\" but is not bound"), "%s",
              b->m->error(b->in));
    d->out[0].strides = NULL;
    d->out[0].data = buffer + 8;
    cr_expect(weir_run(b->m, b->in, d->in, d->out) == WEIR_E_ARGUMENT);
    int64_t twice[] = {0, 8, 8, 1};
    d->out[0] = (weir_tensor){.data = d->dense[1], .capacity = CACHE, .strides = twice};
    cr_expect(weir_run(b->m, b->in, d->in, d->out) == WEIR_E_ARGUMENT);
    cr_expect(strstr(b->m->error(b->in), "two elements in one place"), "%s", b->m->error(b->in));
    free(buffer);
    free(d);
    bench_free(b);
}

/* ---- packing --------------------------------------------------------------------------------- */

/* A product with a weight in panels, a scale per column made of two weights, a large table used as
 * it is. */
static const char weights_text[] =
    "flow scaled (N in 1..64) {\n"
    "  in    x : f32[N,40]\n"
    "  param w : f32[40,70]\n"
    "  param g : f32[70]\n"
    "  param v : f32[70]\n"
    "  param t : f32[64,70]\n"
    "  tmp   h : f32[N,70]\n"
    "  out   y : f32[N,70]\n"
    "  map mm [i:N, j:70, k:40] { x[i,k] * w[k,j] -> h[i,j] sum:f32 }\n"
    "  map s [i:N, j:70] {\n"
    "    a <- g[j]\n"
    "    b <- v[j]\n"
    "    h[i,j] * (a / sqrt(b * b + 1)) + t[i,j] -> y[i,j]\n"
    "  }\n"
    "}\n";

/* Products with the parts of one weight: its dims are split by `clean`. */
static const char gates_text[] =
    "flow gates (N in 1..64) {\n"
    "  in    x : f32[N,40]\n"
    "  param w : f32[140,40]\n"
    "  tmp   h : f32[2,N,70]\n"
    "  out   y : f32[N,70]\n"
    "  map mm [i:N, p:2, j:70, k:40] { x[i,k] * w[p*70 + j,k] -> h[p,i,j] sum:f32 }\n"
    "  map join [i:N, j:70] { tanh(h[0,i,j]) * h[1,i,j] -> y[i,j] }\n"
    "}\n";

enum { N = 5, K = 40, J = 70 };

typedef struct Scaled {
    float x[N * K], y[N * J];
    weir_tensor in, out;
} Scaled;

static void run_scaled(const weir_model *m, weir_instance *in, Scaled *s) {
    for (int i = 0; i < N * K; i++) s->x[i] = sample(i);
    s->in = (weir_tensor){.data = s->x, .dtype = WEIR_F32, .rank = 2, .dims = {N, K}};
    s->out = (weir_tensor){.data = s->y, .capacity = N * J};
    cr_assert(weir_run(m, in, &s->in, &s->out) == WEIR_OK, "%s", m->error(in));
}

/* By the four ways a model gets to run: in process, as a library, with a side file, as C. */
static void open_library(Bench *b, const char *text, const char *packing, const char *weights,
                         int threads) {
    char name[64];
    FILE *f = fopen(path_in(b, "model.ir"), "w");
    cr_assert(f && fputs(text, f) >= 0 && fclose(f) == 0);
    snprintf(name, sizeof name, "%s-%s.so", packing, weights);
    cr_assert(weir_option(b->c, "packing", packing) == 0, "%s", b->said);
    cr_assert(weir_option(b->c, "weights", weights) == 0);
    cr_assert(weir_compile_file(b->c, path_in(b, "model.ir"), path_in(b, name)) == 0, "%s",
              b->said);
    b->l = weir_open(b->c, path_in(b, name));
    cr_assert(b->l, "%s", b->said);
    b->m = weir_loaded_model(b->l);
    create(b, threads);
}

static void expect_same(const char *text, const Scaled *want, const char *packing,
                        const char *weights) {
    Bench *b = bench_new();
    Scaled got;
    if (weights)
        open_library(b, text, packing, weights, 2);
    else
        weir_option(b->c, "packing", packing), load_text(b, text, 2);
    run_scaled(b->m, b->in, &got);
    cr_expect_arr_eq(want->y, got.y, sizeof got.y, "%s, weights %s", packing, weights);
    bench_free(b);
}

static void same_whenever_packed(const char *text) {
    Bench *b = bench_new();
    Scaled want;
    load_text(b, text, 1);
    run_scaled(b->m, b->in, &want);
    cr_assert(want.y[0] != want.y[1] && b->m->nweights == 0 && !b->m->weights_new);
    bench_free(b);
    expect_same(text, &want, "create", "embed");
    expect_same(text, &want, "create", "file");
    expect_same(text, &want, "create", NULL);
    expect_same(text, &want, "swap", "embed");
    expect_same(text, &want, "swap", "file");
    expect_same(text, &want, "swap", NULL);
}

Test(packing, same_bits_whenever_weights_are_packed) {
    same_whenever_packed(weights_text);
}

Test(packing, same_bits_of_split_weights) {
    same_whenever_packed(gates_text);
}

/* ---- swapping -------------------------------------------------------------------------------- */

static weir_tensor value_of(const weir_port *port, float *data) {
    weir_tensor t = {.data = data, .dtype = port->dtype, .rank = port->rank};
    for (int d = 0; d < port->rank; d++) t.dims[d] = strtoll(port->dims[d], NULL, 10);
    return t;
}

static const weir_port *weight(const weir_model *m, const char *name) {
    int k = 0;
    while (k < m->nweights && strcmp(m->weights[k].name, name) != 0) k++;
    cr_assert(k < m->nweights, "no weight %s", name);
    return &m->weights[k];
}

/* y = (x w) * g / sqrt(v^2 + 1) + t, with w = 0: y = t. */
Test(swap, by_name) {
    Bench *b = bench_new();
    Scaled before, after;
    open_library(b, weights_text, "swap", "file", 2);
    cr_assert_eq(b->m->nweights, 4);
    float *zero = calloc((K > 64 ? K : 64) * J, sizeof *zero), t[64 * J];
    for (int i = 0; i < 64 * J; i++) t[i] = sample(i);
    run_scaled(b->m, b->in, &before);
    const char *name[] = {"w", "t"};
    weir_tensor value[] = {value_of(weight(b->m, "w"), zero), value_of(weight(b->m, "t"), t)};
    char error[256] = "";
    weir_weights *old = b->m->weights_of(b->in), *set;
    cr_assert(b->m->weights_new(old, b->pool, 2, name, value, &set, error) == WEIR_OK, "%s", error);
    memset(t, 0, sizeof t); /* they were copied */
    run_scaled(b->m, b->in, &after);
    cr_expect_arr_eq(before.y, after.y, sizeof after.y);
    cr_assert(b->m->weights_use(b->in, set) == WEIR_OK);
    b->m->weights_free(set);
    run_scaled(b->m, b->in, &after);
    for (int i = 0; i < N * J; i++) cr_expect(after.y[i] == sample(i), "%d", i);
    /* What another instance never had: the set alone carries it over. */
    weir_instance *other;
    cr_assert(weir_create(b->m, NULL, &other, error) == WEIR_OK);
    set = b->m->weights_of(b->in);
    weir_destroy(b->m, b->in);
    b->in = other;
    run_scaled(b->m, other, &after);
    cr_expect_arr_eq(before.y, after.y, sizeof after.y);
    cr_assert(b->m->weights_use(other, set) == WEIR_OK);
    b->m->weights_free(set);
    run_scaled(b->m, other, &after);
    cr_expect(after.y[3] == sample(3));
    /* Of what was swapped, one weight changes: the other stays as given. */
    weir_tensor ones = value_of(weight(b->m, "t"), zero);
    cr_assert(weir_swap(b->m, other, 1, &name[1], &ones, error) == WEIR_OK, "%s", error);
    run_scaled(b->m, other, &after);
    for (int i = 0; i < N * J; i++) cr_expect(after.y[i] == 0);
    cr_assert(b->m->weights_use(other, old) == WEIR_OK);
    b->m->weights_free(old);
    run_scaled(b->m, other, &after);
    cr_expect_arr_eq(before.y, after.y, sizeof after.y);
    free(zero);
    bench_free(b);
}

static void expect_refusal(Bench *b, const char *name, weir_tensor t, const char *words) {
    char error[256] = "";
    weir_weights *old = b->m->weights_of(b->in), *set = old;
    cr_expect(b->m->weights_new(old, NULL, 1, &name, &t, &set, error) == WEIR_E_ARGUMENT);
    cr_expect(!set && strstr(error, words), "\"%s\" lacks \"%s\"", error, words);
    b->m->weights_free(old);
}

Test(swap, what_does_not_fit_is_refused) {
    Bench *b = bench_new();
    open_library(b, weights_text, "swap", "embed", 1);
    float data[K * J] = {0};
    weir_tensor t = value_of(weight(b->m, "w"), data);
    expect_refusal(b, "nothing", t, "no weight \"nothing\"");
    t.dims[1] = J - 1;
    expect_refusal(b, "w", t, "dim 1 is 69, expected 70");
    t.rank = 1;
    expect_refusal(b, "w", t, "has 1 dims, expected 2");
    t = value_of(weight(b->m, "w"), data);
    t.dtype = WEIR_F64;
    expect_refusal(b, "w", t, "element type");
    t = value_of(weight(b->m, "w"), NULL);
    expect_refusal(b, "w", t, "dense data");
    bench_free(b);
}

/* Runs while another thread swaps: every result is of one set or the other, never of both. */
typedef struct Swapping {
    Bench *b;
    int stop, wrong, seen[2];
} Swapping;

static void *run_on(void *arg) {
    Swapping *s = arg;
    Scaled r;
    while (!__atomic_load_n(&s->stop, __ATOMIC_RELAXED)) {
        run_scaled(s->b->m, s->b->in, &r);
        int which = r.y[0] == sample(0) ? 0 : 1;
        for (int i = 0; i < N * J; i++)
            if (r.y[i] != (which ? 0 : sample(i))) s->wrong++;
        s->seen[which]++;
    }
    return NULL;
}

Test(swap, while_running) {
    Bench *b = bench_new();
    open_library(b, weights_text, "swap", "embed", 1);
    static float zero[K * J], t[2][64 * J];
    for (int i = 0; i < 64 * J; i++) t[0][i] = sample(i);
    const char *name[] = {"w", "t"};
    char error[256];
    Swapping s = {.b = b};
    pthread_t thread;
    for (int i = 0; i < 200; i++) {
        weir_tensor value[] = {value_of(weight(b->m, "w"), zero),
                               value_of(weight(b->m, "t"), t[i % 2])};
        cr_assert(weir_swap(b->m, b->in, 2, name, value, error) == WEIR_OK, "%s", error);
        if (i == 0) pthread_create(&thread, NULL, run_on, &s);
        usleep(200);
    }
    __atomic_store_n(&s.stop, 1, __ATOMIC_RELAXED);
    pthread_join(thread, NULL);
    cr_expect(s.wrong == 0 && s.seen[0] > 0 && s.seen[1] > 0, "%d wrong, %d and %d", s.wrong,
              s.seen[0], s.seen[1]);
    bench_free(b);
}

/* ---- bytes and CPUs -------------------------------------------------------------------------- */

/* Equal inputs give equal bytes, weights and constant part included, in any folder. */
Test(library, same_bytes_with_every_packing) {
    static const char *const packings[] = {"build", "create", "swap"};
    for (int i = 0; i < 3; i++) {
        Bench *x = bench_new(), *y = bench_new();
        char command[600];
        cr_assert(weir_option(x->c, "cache", "off") == 0 && weir_option(x->c, "j", "1") == 0);
        cr_assert(weir_option(y->c, "cache", "off") == 0 && weir_option(y->c, "j", "2") == 0);
        open_library(x, weights_text, packings[i], "embed", 1);
        open_library(y, weights_text, packings[i], "embed", 1);
        snprintf(command, sizeof command, "cmp %s/%s-embed.so %s/%s-embed.so", x->folder,
                 packings[i], y->folder, packings[i]);
        cr_expect(system(command) == 0, "%s", packings[i]);
        bench_free(x);
        bench_free(y);
    }
}

/* A CPU that lacks what the library was compiled for says so at create; nothing is run before,
 * also not the constant part. */
Test(library, create_refuses_a_lesser_cpu) {
    static const char *const cpus[] = {"x86-64-v2",     "x86-64-v3", "x86-64-v4", "sapphirerapids",
                                       "graniterapids", "znver4",    "znver5"};
    for (size_t i = 0; i < sizeof cpus / sizeof *cpus; i++) {
        Bench *b = bench_new();
        char error[256] = "";
        Scaled s;
        if (weir_option(b->c, "cpu", cpus[i]) == 0) {
            FILE *f = fopen(path_in(b, "model.ir"), "w");
            cr_assert(f && fputs(weights_text, f) >= 0 && fclose(f) == 0);
            cr_assert(weir_option(b->c, "packing", "create") == 0);
            cr_assert(weir_compile_file(b->c, path_in(b, "model.ir"), path_in(b, "m.so")) == 0,
                      "%s", b->said);
            b->l = weir_open(b->c, path_in(b, "m.so"));
            cr_assert(b->l, "%s", b->said);
            b->m = weir_loaded_model(b->l);
            weir_status status = weir_create(b->m, NULL, &b->in, error);
            if (status == WEIR_OK)
                run_scaled(b->m, b->in, &s);
            else
                cr_expect(status == WEIR_E_CPU && strstr(error, "this CPU lacks"), "%s: %s",
                          cpus[i], error);
        }
        bench_free(b);
    }
}
