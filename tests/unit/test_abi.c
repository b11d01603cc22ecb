/* SPDX-License-Identifier: Apache-2.0 */
/* What a host may do with a compiled model's arguments and weights: a cache and its new rows in one
 * buffer. */
#include <criterion/criterion.h>
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
