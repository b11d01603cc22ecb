/* SPDX-License-Identifier: Apache-2.0 */
/* The runtime without a compiler: the pool and its barrier, irregular kernels, and instances of a
 * model written by hand: y[n,3] = 2*x[n,3], k = how many of x are positive, z[k] = those. */
#include <criterion/criterion.h>
#include <math.h>
#include <sched.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/calls.h"
#include "runtime/weir_rt.h"

/* ---- the pool -------------------------------------------------------------------------------- */

typedef struct Count {
    int seen[64];
    int n;
    weir_frame frame;
    int64_t sum[64];
    int wrong;
} Count;

static void count_thread(void *arg, int t, int n) {
    Count *c = arg;
    __atomic_fetch_add(&c->seen[t], 1, __ATOMIC_SEQ_CST);
    if (t == 0) c->n = n;
}

Test(pool, every_thread_once) {
    weir_pool *p = weir_pool_new(5);
    cr_assert_eq(p->threads, 5);
    for (int n = 1; n <= 5; n++) {
        Count c = {0};
        p->parallel(p->context, n, count_thread, &c);
        for (int t = 0; t < 5; t++) cr_expect_eq(c.seen[t], t < n);
        cr_expect_eq(c.n, n);
    }
    weir_pool_free(p);
}

Test(pool, default_size) {
    weir_pool *p = weir_pool_new(0);
    cr_expect_eq(p->threads, weir_cpus());
    weir_pool_free(p);
    weir_pool_free(NULL);
}

/* Each round every thread adds what its neighbour wrote in the round before. */
static void barrier_thread(void *arg, int t, int n) {
    Count *c = arg;
    for (int64_t round = 1; round <= 2000; round++) {
        c->sum[t] = round;
        weir_rt_barrier(&c->frame, t, n);
        if (c->sum[(t + 1) % n] != round) c->wrong = 1;
        weir_rt_barrier(&c->frame, t, n);
    }
}

Test(pool, barrier_more_threads_than_cpus) {
    weir_pool *p = weir_pool_new(weir_cpus() + 3);
    for (int spin = 0; spin < 2; spin++) {
        Count *c = calloc(1, sizeof *c);
        size_t seats = sizeof(weir_seat) * (size_t)p->threads;
        c->frame.barrier.spin = spin ? WEIR_SPIN_NS : 0;
        c->frame.barrier.seat = memset(aligned_alloc(64, seats), 0, seats);
        p->parallel(p->context, p->threads, barrier_thread, c);
        cr_expect_eq(c->wrong, 0);
        free(c->frame.barrier.seat);
        free(c);
    }
    weir_pool_free(p);
}

Test(pool, works_in_a_child) {
    weir_pool *p = weir_pool_new(3);
    for (int before = 0; before < 2; before++) {
        Count c = {0};
        if (before) p->parallel(p->context, 3, count_thread, &c);
        pid_t child = fork();
        if (child == 0) {
            Count mine = {0};
            p->parallel(p->context, 3, count_thread, &mine);
            _exit(mine.seen[0] + mine.seen[1] + mine.seen[2] == 3 ? 0 : 1);
        }
        int status;
        waitpid(child, &status, 0);
        cr_expect_eq(status, 0);
    }
    weir_pool_free(p);
}

typedef struct Meet {
    int cpu[2];
    cpu_set_t mask; /* the worker's, as it begins */
    int stay;       /* the worker's mask is the caller's CPU from here on */
} Meet;

/* The worker goes where the caller is, as a wake there would have it. */
static void meet_thread(void *arg, int t, int n) {
    (void)n;
    Meet *m = arg;
    m->cpu[t] = sched_getcpu();
    if (t == 0) return;
    sched_getaffinity(0, sizeof m->mask, &m->mask);
    cpu_set_t here;
    CPU_ZERO(&here);
    while (m->cpu[0] < 0) sched_yield();
    CPU_SET(m->cpu[0], &here);
    sched_setaffinity(0, sizeof here, &here);
    if (!m->stay) sched_setaffinity(0, sizeof m->mask, &m->mask);
}

Test(pool, threads_part) {
    if (weir_cpus() < 2) cr_skip_test("one CPU");
    weir_pool *p = weir_pool_new(2);
    cpu_set_t mask;
    sched_getaffinity(0, sizeof mask, &mask);
    int apart = 0;
    for (int i = 0; i < 200; i++) {
        Meet m = {{-1, -1}, {{0}}, 0};
        p->parallel(p->context, 2, meet_thread, &m);
        apart += m.cpu[0] != m.cpu[1];
        cr_expect(CPU_EQUAL(&m.mask, &mask));
    }
    cr_expect_gt(apart, 100); /* the rest: what the system moved meanwhile */
    for (int i = 0; i < 3; i++) {
        Meet m = {{-1, -1}, {{0}}, 1};
        p->parallel(p->context, 2, meet_thread, &m);
        cr_expect(i == 0 || CPU_COUNT(&m.mask) == 1);
    }
    weir_pool_free(p);
}

/* ---- calls ----------------------------------------------------------------------------------- */

static weir_tensor tensor(int dtype, void *data, int rank, int64_t a, int64_t b) {
    return (weir_tensor){.data = data, .dtype = dtype, .rank = rank, .dims = {a, b}};
}

static weir_call call_of(const weir_tensor *in, int nin, weir_tensor *out, int nout,
                         const int64_t *attr) {
    static int64_t define[4];
    static char scratch[4096];
    return (weir_call){.nin = nin,
                       .nout = nout,
                       .in = in,
                       .out = out,
                       .attr = attr,
                       .define = define,
                       .scratch = scratch};
}

Test(calls, nonzero) {
    float x[] = {0, 1, -0.0f, 3, 0, 5};
    int64_t idx[12];
    weir_tensor in = tensor(WEIR_F32, x, 2, 2, 3), out = tensor(WEIR_I64, idx, 2, 2, 6);
    weir_call c = call_of(&in, 1, &out, 1, NULL);
    weir_call_nonzero(&c);
    cr_assert_eq(c.define[0], 3);
    int64_t want[] = {0, 1, 1, 1, 0, 2};
    cr_expect_arr_eq(idx, want, sizeof want);
}

Test(calls, topk) {
    float nan = __builtin_nanf("");
    float x[] = {3, 1, 3, -2, nan, 0, 7, 7, 7, 7}, v[6];
    int64_t i[6], largest[] = {1, 1}, smallest[] = {1, 0};
    weir_tensor in = tensor(WEIR_F32, x, 2, 2, 5),
                out[2] = {tensor(WEIR_F32, v, 2, 2, 3), tensor(WEIR_I64, i, 2, 2, 3)};
    weir_call c = call_of(&in, 1, out, 2, largest);
    weir_call_topk(&c);
    int64_t high[] = {4, 0, 2, 1, 2, 3}, low[] = {3, 1, 0, 0, 1, 2};
    cr_expect_arr_eq(i, high, sizeof high);
    cr_expect(v[0] != v[0] && v[1] == 3 && v[2] == 3 && v[3] == 7);
    c.attr = smallest;
    weir_call_topk(&c);
    cr_expect_arr_eq(i, low, sizeof low);
    out[0].dims[1] = out[1].dims[1] = 6;
    weir_call_topk(&c);
    cr_expect_eq(c.status, WEIR_E_ARGUMENT);
}

Test(calls, unique) {
    int8_t x[] = {2, 1, 1, -3, 4, -3}, y[6];
    int64_t first[6], inverse[6], counts[6], sorted[] = {-1, 1}, found[] = {-1, 0};
    weir_tensor in = tensor(WEIR_I8, x, 1, 6, 0);
    weir_tensor out[4] = {tensor(WEIR_I8, y, 1, 6, 0), tensor(WEIR_I64, first, 1, 6, 0),
                          tensor(WEIR_I64, inverse, 1, 6, 0), tensor(WEIR_I64, counts, 1, 6, 0)};
    weir_call c = call_of(&in, 1, out, 4, sorted);
    weir_call_unique(&c);
    cr_assert_eq(c.define[0], 4);
    int64_t f[] = {3, 1, 0, 4}, v[] = {2, 1, 1, 0, 3, 0}, n[] = {2, 2, 1, 1};
    cr_expect(y[0] == -3 && y[1] == 1 && y[2] == 2 && y[3] == 4);
    cr_expect_arr_eq(first, f, sizeof f);
    cr_expect_arr_eq(inverse, v, sizeof v);
    cr_expect_arr_eq(counts, n, sizeof n);
    c.attr = found;
    weir_call_unique(&c);
    cr_expect(y[0] == 2 && y[1] == 1 && y[2] == -3 && y[3] == 4);
    cr_expect(inverse[3] == 2 && counts[1] == 2);
}

Test(calls, unique_slices) {
    int32_t x[] = {1, 0, 1, 2, 3, 2}, y[6]; /* columns (1,2) (0,3) (1,2) */
    int64_t attr[] = {1, 1};
    weir_tensor in = tensor(WEIR_I32, x, 2, 2, 3), out[4] = {tensor(WEIR_I32, y, 2, 2, 3)};
    weir_call c = call_of(&in, 1, out, 4, attr);
    weir_call_unique(&c);
    cr_assert_eq(c.define[0], 2);
    int32_t want[] = {0, 1, 3, 2};
    cr_expect_arr_eq(y, want, sizeof want);
}

Test(calls, nms) {
    float boxes[] = {0, 0,  1, 1,  0, 0.1f,  1, 1.1f,  0, -0.1f, 1, 0.9f,
                     0, 10, 1, 11, 0, 10.1f, 1, 11.1f, 0, 100,   1, 101};
    float scores[] = {0.9f, 0.75f, 0.6f, 0.95f, 0.5f, 0.3f}, overlap = 0.5f, least = 0.4f;
    int64_t most = 3, attr[] = {0}, picked[18];
    weir_tensor in[5] = {{.data = boxes, .dtype = WEIR_F32, .rank = 3, .dims = {1, 6, 4}},
                         {.data = scores, .dtype = WEIR_F32, .rank = 3, .dims = {1, 1, 6}},
                         tensor(WEIR_I64, &most, 1, 1, 0),
                         tensor(WEIR_F32, &overlap, 1, 1, 0),
                         tensor(WEIR_F32, &least, 1, 1, 0)};
    weir_tensor out = tensor(WEIR_I64, picked, 2, 6, 3);
    weir_call c = call_of(in, 5, &out, 1, attr);
    weir_call_nms(&c);
    cr_assert_eq(c.define[0], 2);
    cr_expect(picked[2] == 3 && picked[5] == 0);
    c.nin = 4;
    weir_call_nms(&c);
    cr_expect_eq(c.define[0], 3);
    cr_expect_eq(picked[8], 5);
}

/* The slow twin of the search for what a box overlaps: each that was kept. */
static bool suppressed(const float *boxes, const int64_t *kept, int64_t n, int64_t box,
                       float most) {
    const float *a = boxes + 4 * box;
    bool any = false;
    for (int64_t i = 0; i < n; i++) {
        const float *b = boxes + 4 * kept[3 * i + 2];
        float h = fminf(a[2], b[2]) - fmaxf(a[0], b[0]), w = fminf(a[3], b[3]) - fmaxf(a[1], b[1]);
        float both = h * w, x = (b[2] - b[0]) * (b[3] - b[1]), y = (a[2] - a[0]) * (a[3] - a[1]);
        any |= h > 0 && w > 0 && both / (x + y - both) > most;
    }
    return any;
}

Test(calls, nms_of_many) {
    enum { BOXES = 5000 };
    static float boxes[BOXES * 4], scores[BOXES];
    static int64_t kept[BOXES * 3];
    int64_t attr[] = {0}, most = BOXES, n = 0;
    float overlap = 0.4f;
    srand(5);
    for (int64_t i = 0; i < BOXES; i++) {
        float *b = boxes + 4 * i, part = 1.0f / (float)RAND_MAX;
        float where = (float)(i % 7) * 3; /* classes apart, as callers lay them out */
        b[0] = where + (float)rand() * part, b[1] = where + (float)rand() * part;
        b[2] = b[0] + 0.2f * (float)rand() * part, b[3] = b[1] + 0.2f * (float)rand() * part;
        scores[i] = 1 - (float)i / BOXES;
    }
    boxes[4] = -INFINITY, boxes[9] = NAN, boxes[12] = boxes[14], boxes[16] = -1e30f;
    weir_tensor in[4] = {{.data = boxes, .dtype = WEIR_F32, .rank = 3, .dims = {1, BOXES, 4}},
                         {.data = scores, .dtype = WEIR_F32, .rank = 3, .dims = {1, 1, BOXES}},
                         tensor(WEIR_I64, &most, 1, 1, 0),
                         tensor(WEIR_F32, &overlap, 1, 1, 0)};
    weir_tensor out = tensor(WEIR_I64, kept, 2, BOXES, 3);
    weir_call c = call_of(in, 4, &out, 1, attr);
    c.scratch = malloc((size_t)weir_call_nms_scratch(&c));
    weir_call_nms(&c);
    for (int64_t box = 4; box < BOXES; box++) {
        while (n < c.define[0] && kept[3 * n + 2] < box) n++;
        bool is_kept = n < c.define[0] && kept[3 * n + 2] == box;
        cr_expect(is_kept != suppressed(boxes, kept, n, box, overlap), "box %d", (int)box);
    }
    cr_expect(c.define[0] > 100 && c.define[0] < BOXES);
    free(c.scratch);
}

Test(calls, value) {
    int16_t x[] = {-7, 300};
    int64_t attr[] = {1, 0, 200};
    weir_tensor in = tensor(WEIR_I16, x, 1, 2, 0);
    weir_call c = call_of(&in, 1, NULL, 0, attr);
    weir_call_value(&c);
    cr_expect_eq(c.define[0], 200);
    attr[0] = 0;
    weir_call_value(&c);
    cr_expect_eq(c.define[0], 0);
}

/* ---- a model --------------------------------------------------------------------------------- */

static void bound(int64_t *s, int64_t *place) {
    s[1] = 3 * s[0];
    place[0] = s[0], place[1] = s[1];
}

static void eval(const int64_t *s, const int64_t *place, int64_t *v) {
    int64_t all[] = {place[0] * 4096, 64, 0, s[0], 3, 4, s[0], 3, s[1]};
    memcpy(v, all, sizeof all);
}

static void heap(const int64_t *given, const int64_t *s, int64_t *bytes) {
    (void)given, (void)s, (void)bytes;
}

static void walk(weir_frame *f, int t, int n) {
    int64_t rows = f->symbol[0];
    const float *x = (const float *)f->in[0];
    float *y = (float *)f->out[0], *z = (float *)f->out[1], *copy = (float *)f->arena;
    memset(f->thread + t * f->thread_bytes, t, 64);
    for (int64_t i = rows * 3 * t / n; i < rows * 3 * (t + 1) / n; i++) copy[i] = y[i] = 2 * x[i];
    weir_rt_barrier(f, t, n);
    if (t) return;
    int64_t k = 0;
    for (int64_t i = 0; i < rows * 3; i++)
        if (copy[i] > 0) z[k++] = x[i];
    f->symbol[1] = k;
    if (x[0] == 13) weir_rt_fail(f, WEIR_E_INDEX, "thirteen");
}

static const weir_symbol symbols[] = {{"n", 1, 100, WEIR_FROM_DIM, 0, 0, 1, 0},
                                      {"k", 0, INT64_MAX, WEIR_FROM_CALL, 0, 0, 1, 0}};
static const char *const in_dims[] = {"n", "3"}, *const extra_dims[] = {"4"},
                         *const z_dims[] = {"k"};
static const weir_port inputs[] = {{"x", WEIR_F32, 2, in_dims, NULL},
                                   {"b", WEIR_I64, 1, extra_dims, NULL}};
static const weir_port outputs[] = {{"y", WEIR_F32, 2, in_dims, NULL},
                                    {"z", WEIR_F32, 1, z_dims, NULL}};
static const uint16_t when[] = {WEIR_KNOWN, WEIR_BY_CALL};
static volatile struct weir_blob blob;
static const weir_program program = {
    .version = WEIR_RT_VERSION,
    .nsymbol = 2,
    .symbol = symbols,
    .nvalue = 9,
    .when = when,
    .model = {.ninputs = 2, .noutputs = 2, .inputs = inputs, .outputs = outputs},
    .bound = bound,
    .eval = eval,
    .heap = heap,
    .run = walk,
    .blob = &blob};

typedef struct Run {
    weir_instance *instance;
    weir_tensor in[2], out[2];
    float x[12], y[12], z[12];
    int64_t b[4];
} Run;

static void setup(Run *r, const weir_pool *pool) {
    memset(r, 0, sizeof *r);
    cr_assert_eq(weir_rt_create(&program, pool, &r->instance, NULL), WEIR_OK);
    for (int i = 0; i < 12; i++) r->x[i] = (float)(i % 3 - 1);
    r->in[0] = tensor(WEIR_F32, r->x, 2, 4, 3);
    r->in[1] = tensor(WEIR_I64, r->b, 1, 4, 0);
    r->out[0] = (weir_tensor){.data = r->y, .capacity = 12};
    r->out[1] = (weir_tensor){.data = r->z, .capacity = 12};
}

static weir_status go(Run *r) {
    return weir_rt_run(r->instance, r->in, r->out);
}

static void expect_error(Run *r, weir_status status, const char *words) {
    cr_expect_eq(go(r), status);
    cr_expect(strstr(weir_rt_error(r->instance), words), "\"%s\" lacks \"%s\"",
              weir_rt_error(r->instance), words);
}

Test(model, runs_alike_on_any_threads) {
    for (int threads = 1; threads <= 4; threads++) {
        weir_pool *pool = threads > 1 ? weir_pool_new(threads) : NULL;
        Run r;
        setup(&r, pool);
        for (int again = 0; again < 3; again++) {
            cr_assert_eq(go(&r), WEIR_OK);
            for (int i = 0; i < 12; i++) cr_expect_eq(r.y[i], 2 * r.x[i]);
            cr_expect_eq(r.out[0].dims[0], 4);
            cr_expect_eq(r.out[1].dims[0], 4);
            cr_expect_eq(r.z[3], 1);
        }
        weir_rt_destroy(r.instance);
        weir_pool_free(pool);
    }
}

Test(model, arguments_are_checked) {
    Run r;
    setup(&r, NULL);
    r.in[0].dtype = WEIR_I32;
    expect_error(&r, WEIR_E_ARGUMENT, "input \"x\" has element type i32, expected f32");
    r.in[0].dtype = WEIR_F32;
    r.in[0].rank = 1;
    expect_error(&r, WEIR_E_ARGUMENT, "input \"x\" has 1 dims, expected 2");
    r.in[0].rank = 2;
    r.in[0].dims[1] = 4;
    expect_error(&r, WEIR_E_ARGUMENT, "input \"x\": dim 1 is 4, expected 3");
    r.in[0].dims[1] = 3;
    r.in[0].dims[0] = 101;
    expect_error(&r, WEIR_E_ARGUMENT, "gives \"n\" = 101, outside 1..100");
    r.in[0].dims[0] = 4;
    r.in[0].data = NULL;
    expect_error(&r, WEIR_E_ARGUMENT, "input \"x\" has no data");
    r.in[0].data = r.x;
    r.in[0].capacity = 11;
    expect_error(&r, WEIR_E_ARGUMENT, "reaches 12 elements, but its capacity is 11");
    r.in[0].capacity = 0;
    r.out[0].data = r.x + 4;
    expect_error(&r, WEIR_E_ARGUMENT, "output \"y\" overlaps input \"x\"");
    r.out[0].data = r.y;
    r.x[0] = 13;
    expect_error(&r, WEIR_E_INDEX, "thirteen");
    weir_rt_destroy(r.instance);
}

Test(model, strides_and_capacity) {
    Run r;
    setup(&r, NULL);
    int64_t columns[] = {1, 4};
    r.in[0].strides = columns;
    float wide[24] = {0};
    int64_t every_other[] = {6, 2};
    r.out[0] = (weir_tensor){.data = wide, .capacity = 24, .strides = every_other};
    cr_assert_eq(go(&r), WEIR_OK, "%s", weir_rt_error(r.instance));
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < 3; j++) cr_expect_eq(wide[6 * i + 2 * j], 2 * r.x[i + 4 * j]);
    cr_expect_eq(wide[1], 0);
    r.in[0].strides = NULL;
    r.out[0] = (weir_tensor){.data = r.y, .capacity = 11};
    expect_error(&r, WEIR_E_CAPACITY, "output \"y\" needs room for 12 elements, got 11");
    cr_expect_eq(r.out[0].dims[0], 4);
    r.out[0].capacity = 12;
    r.out[1].capacity = 4;
    cr_expect_eq(go(&r), WEIR_OK);
    r.out[1].capacity = 3;
    expect_error(&r, WEIR_E_CAPACITY, "output \"z\" needs room for 4 elements");
    cr_expect_eq(r.out[1].dims[0], 4);
    weir_rt_destroy(r.instance);
}

Test(model, reserve) {
    Run r;
    setup(&r, NULL);
    weir_tensor largest[2] = {r.in[0], r.in[1]};
    largest[0].dims[0] = 2;
    cr_assert_eq(weir_rt_reserve(r.instance, largest), WEIR_OK);
    expect_error(&r, WEIR_E_RESERVE, "are reserved");
    largest[0].dims[0] = 4;
    cr_assert_eq(weir_rt_reserve(r.instance, largest), WEIR_OK);
    cr_expect_eq(go(&r), WEIR_OK);
    weir_tensor out[2] = {{0}, {0}};
    cr_assert_eq(weir_rt_shapes(r.instance, r.in, out), WEIR_OK);
    cr_expect(out[0].dims[0] == 4 && out[1].dims[0] == 12);
    weir_rt_destroy(r.instance);
}

Test(model, rejects_foreign_pools_and_cpus) {
    weir_pool old = {.size = 8};
    weir_instance *in;
    char error[256];
    cr_expect_eq(weir_rt_create(&program, &old, &in, error), WEIR_E_VERSION);
    cr_expect_null(in);
    cr_expect(strstr(error, "pool"));
    weir_program future = program;
    future.cpu = UINT64_C(1) << 40; /* xop: no CPU has it together with what runs this */
    weir_status s = weir_rt_create(&future, NULL, &in, error);
    cr_expect(s == WEIR_OK || strstr(error, "lacks"));
    if (s == WEIR_OK) weir_rt_destroy(in);
}
